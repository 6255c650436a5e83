"""Implicit columns of varying effects: the group's number and K numbers z for each row, and matrix products.

`ArrowColumns` is a matrix [Z, X]: the columns Z of the leading grouping factor, and others behind it, grouped or dense. Its Gram
matrix is an arrow: G blocks (K, K), their border, and the corner of the others.
"""

from itertools import pairwise
from typing import Any, NamedTuple

import numpy as np

from probreg.data.terms.grouped import GroupedTerm
from probreg.linalg import row_slices

Array = np.ndarray


class GroupColumns(NamedTuple):
    """The G K columns z_k 1[code = g] of n rows, group by group; rows of new groups, from G on, are zero.

    >>> columns = GroupColumns(np.array([0, 1, 1]), np.array([[1.0], [1.0], [2.0]]), 2)
    >>> columns.cross(np.ones((3, 1)))[:, 0, 0], columns.times(np.array([[[5.0]], [[7.0]]]))[:, 0]
    (array([1., 3.]), array([ 5.,  7., 14.]))
    """

    codes: Array  # (n,) int
    Z: Array  # (n, K)
    groups: int  # G

    @classmethod
    def of(cls, term: GroupedTerm, inputs: Array) -> "GroupColumns":
        """Return the columns of a term at its inputs (n, 1 + K)."""
        codes = inputs[:, 0].astype(np.intp)
        G = term.shape[0]
        Z = np.ascontiguousarray(inputs[:, 1:])
        new = codes >= G
        if new.any():
            codes = np.where(new, 0, codes)
            Z = np.where(new[:, None], 0.0, Z)
        return cls(codes, Z, G)

    @property
    def effects(self) -> int:
        """K."""
        return self.Z.shape[1]

    @property
    def width(self) -> int:
        """G K."""
        return self.groups * self.effects

    def part(self, rows: slice | Array) -> "GroupColumns":
        """These rows."""
        return GroupColumns(self.codes[rows], self.Z[rows], self.groups)

    def times(self, b: Array) -> Array:
        """sum_k z_ik b[g_i, k] (n, s) of b (G, K, s)."""
        product = self.Z[:, :1] * b[self.codes, 0]
        for k in range(1, self.effects):
            product += self.Z[:, k, None] * b[self.codes, k]
        return product

    def cross(self, V: Array) -> Array:
        """Z'V (G, K, s) of V (n, s)."""
        products = np.empty((self.groups, self.effects, V.shape[1]))
        for k, z in enumerate(self.Z.T):
            for j in range(V.shape[1]):
                products[:, k, j] = np.bincount(self.codes, z * V[:, j], self.groups)
        return products

    def gram(self, w: Array) -> Array:
        """The diagonal blocks (G, K, K) of Z' diag(w) Z, outside which it is zero."""
        return self.cross(w[:, None] * self.Z)

    def gram_with(self, other: "GroupColumns", w: Array) -> Array:
        """Z' diag(w) Z_other (G, K, G2, K2)."""
        pair_codes = self.codes * other.groups + other.codes
        shape = (self.groups, other.groups)
        products = np.empty((self.groups, self.effects, other.groups, other.effects))
        for k in range(self.effects):
            for j in range(other.effects):
                sums = np.bincount(
                    pair_codes, w * self.Z[:, k] * other.Z[:, j], shape[0] * shape[1]
                )
                products[:, k, :, j] = sums.reshape(shape)
        return products

    def beside(self, other: "GroupColumns") -> "GroupColumns":
        """Return the effects of both for the same groups."""
        return GroupColumns(self.codes, np.hstack([self.Z, other.Z]), self.groups)


class ArrowGram(NamedTuple):
    """The weighted sums of squares and products of `ArrowColumns`, [Z, X]' diag(w) [Z, X]."""

    lead: Array  # (G, K, K)
    cross: Any  # (G, K, r), or sparse (G K, r)
    rest: Array  # (r, r)

    def cut(self, k: int) -> "ArrowGram":
        """Return the part for the first k columns of the border."""
        return ArrowGram(self.lead, self.cross[..., :k], self.rest[:k, :k])

    def times(self, a: Array, c: Array) -> tuple[Array, Array]:
        """Return this matrix times columns a (G, K, s) and c (r, s)."""
        G, K, s = a.shape
        flat = a.reshape(G * K, s)
        cross = self.cross
        if isinstance(cross, np.ndarray):
            cross = cross.reshape(len(flat), len(c))
        above = self.lead @ a + (cross @ c).reshape(a.shape)
        return above, cross.T @ flat + self.rest @ c


class ArrowColumns(NamedTuple):
    """[Z, X]: columns of the leading factor, then of other factors, then dense columns (n, q)."""

    lead: GroupColumns
    others: tuple[GroupColumns, ...]
    dense: Array

    @property
    def width(self) -> int:
        """r, the number of columns behind the leading ones."""
        return self._border_slices[-1].stop

    def part(self, rows: slice) -> "ArrowColumns":
        """These rows."""
        return ArrowColumns(
            self.lead.part(rows),
            tuple(o.part(rows) for o in self.others),
            self.dense[rows],
        )

    @property
    def _border_slices(self) -> list[slice]:
        """Return the places in r of each of `others`, and then of the dense columns."""
        widths = (o.width for o in self.others)
        ends = np.cumsum([0, *widths, self.dense.shape[1]])
        return [slice(int(a), int(b)) for a, b in pairwise(ends)]

    def times(self, a: Array, c: Array) -> Array:
        """[Z, X] (a, c) (n, s) of a (G, K, s) and c (r, s)."""
        *grouped, dense = self._border_slices
        product = self.lead.times(a) + self.dense @ c[dense]
        for o, places in zip(self.others, grouped):
            product += o.times(c[places].reshape(o.groups, o.effects, -1))
        return product

    def cross(self, V: Array) -> tuple[Array, Array]:
        """[Z, X]'V as (G, K, s) and (r, s) of V (n, s)."""
        below = [o.cross(V).reshape(-1, V.shape[1]) for o in self.others]
        return self.lead.cross(V), np.vstack([*below, self.dense.T @ V])

    def gram(self, w: Array) -> ArrowGram:
        """[Z, X]' diag(w) [Z, X], w (n,)."""
        G = self.lead.groups
        K = self.lead.effects
        *grouped, dense = self._border_slices
        r = dense.stop
        weighted = w[:, None] * self.dense
        cross = np.empty((G, K, r))
        corner = np.empty((r, r))
        cross[..., dense] = self.lead.cross(weighted)
        corner[dense, dense] = self.dense.T @ weighted
        for i, (o, places) in enumerate(zip(self.others, grouped)):
            cross[..., places] = self.lead.gram_with(o, w).reshape(G, K, o.width)
            corner[places, dense] = o.cross(weighted).reshape(o.width, -1)
            corner[dense, places] = corner[places, dense].T
            for p, other_places in zip(self.others[: i + 1], grouped):
                products = p.gram_with(o, w).reshape(p.width, o.width)
                corner[other_places, places] = products
                corner[places, other_places] = products.T
        return ArrowGram(self.lead.gram(w), cross, corner)

    def leverage(self, blocks: Array, border: Array, corner: Array) -> Array:
        """x_i S x_i' (n,) of the rows x_i of [Z, X]: S has diagonal blocks (G, K, K), border (G, K, r) and corner (r, r)."""
        n = len(self.dense)
        leverages = np.empty(n)
        size = 8192  # rows at a time, because each row needs a part of a matrix
        for rows in row_slices(n, size):
            leverages[rows] = self.part(rows)._leverage_from_blocks(
                blocks, border, corner
            )
        return leverages

    def _leverage_from_blocks(
        self, blocks: Array, border: Array, corner: Array
    ) -> Array:
        *grouped, dense = self._border_slices
        codes = self.lead.codes
        Z = self.lead.Z
        X = self.dense
        leverages = ((X @ corner[dense, dense]) * X).sum(1)
        leverages += np.einsum("nk,nkl,nl->n", Z, blocks[codes], Z, optimize=True)
        from_border = border[..., dense][codes]
        leverages += 2.0 * np.einsum("nk,nkj,nj->n", Z, from_border, X, optimize=True)
        if self.others:
            # V (n, h), the columns of other factors that are not zero in each row, at
            # these places of the border
            V = np.hstack([o.Z for o in self.others])
            at = np.hstack(
                [
                    places.start + o.codes[:, None] * o.effects + np.arange(o.effects)
                    for o, places in zip(self.others, grouped)
                ]
            )
            for left, S, right in (
                (V, 2.0 * border[codes[:, None], :, at], Z),
                (V, 2.0 * corner[:, dense][at], X),
                (V, corner[at[:, :, None], at[:, None]], V),
            ):
                leverages += np.einsum("nh,nhk,nk->n", left, S, right, optimize=True)
        return leverages
