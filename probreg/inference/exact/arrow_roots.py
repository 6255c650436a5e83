"""M = blkdiag(roots of the priors, I) over the columns of an arrow: products with Gram matrices, and slopes over the hyperparameters.

All are at S nodes. With X'WX = [[A, B], [B', C]] the curvature of u ~ N(0, I) is H =
M'X'WX M + blkdiag(I, 0).
"""

from dataclasses import dataclass
from functools import cached_property
from typing import NamedTuple

import numpy as np

from probreg.data.grouped_columns import ArrowGram
from probreg.inference.base import Array
from probreg.inference.exact.latent_groups import LatentGroup
from probreg.numerics.linalg import Arrow

Parts = tuple[Array, Array]  # (G, K, s) of the leading columns and (r, s) of the border


class LatentBlock(NamedTuple):
    """A group of columns with its position; `size` coordinates that repeat, or `size`
    once with a diagonal root."""

    group: LatentGroup
    hyper: slice  # of theta
    place: slice  # among the K leading effects, or among the border columns
    repeats: int
    size: int
    repeated: bool


class BlockRoots(NamedTuple):
    """The root of a block at S nodes, and its slopes at the first node."""

    block: LatentBlock
    relative: bool  # in units of sigma, which is included
    value: Array  # (S, K, K), or the diagonal (S, q)
    slopes: Array  # (d, K, K) or (d, q)


class Inverse(NamedTuple):
    """Parts of H^-1: diagonal blocks (G, K, K), border (G, K, k), corner (k, k)."""

    own: Array
    border: Array
    corner: Array


@dataclass(frozen=True, eq=False)
class ArrowRoots:
    """The roots of the leading blocks and of the border; d hyperparameters."""

    first: list[BlockRoots]
    rest: list[BlockRoots]
    d: int

    @cached_property
    def lead(self) -> Array:
        """(S, K, K) of all leading effects."""
        K = self.first[-1].block.place.stop
        lead = np.zeros((len(self.first[0].value), K, K))
        for root in self.first:
            lead[:, root.block.place, root.block.place] = root.value
        return lead

    def at(self, nodes: Array) -> "ArrowRoots":
        """The roots at some nodes."""
        first, behind = (
            [root._replace(value=root.value[nodes]) for root in part]
            for part in (self.first, self.rest)
        )
        return ArrowRoots(first, behind, self.d)

    @property
    def latent(self) -> int:
        """The number of border columns with a root."""
        if self.rest:
            return self.rest[-1].block.place.stop
        return 0

    def right(self, B: Array) -> Array:
        """B M (S, x, r) of B (S, x, r), over the border columns."""
        product = np.array(B)
        for root in self.rest:
            place = root.block.place
            part = B[..., root.block.place]
            if root.block.repeated:
                product[..., place] = (
                    part.reshape(len(B), -1, root.block.size) @ root.value
                ).reshape(part.shape)
            else:
                product[..., place] = part * root.value[:, None]
        return product

    def transposed_right(self, B: Array) -> Array:
        """B M' (x, r) of B (x, r), at the first node."""
        return self._through(B.T[None], transpose=False)[0].T

    def _left(self, B: Array) -> Array:
        """Lambda'B (S, G, K, r) of B (G, K, r)."""
        G, K, r = B.shape
        product = B.transpose(0, 2, 1).reshape(G * r, K) @ self.lead
        return product.reshape(len(self.lead), G, r, K).swapaxes(-1, -2)

    def arrow(self, gram: ArrowGram, noise: Array | None = None) -> Arrow:
        """The factor of H at each node, with the curvature W times noise (S,)."""
        (G, K, r), S = gram.cross.shape, len(self.lead)
        # Lambda'A Lambda, which is symmetric
        D = (
            (gram.lead.reshape(G * K, K) @ self.lead)
            .reshape(S, G, K, K)
            .swapaxes(-1, -2)
        )
        D = (D.reshape(S, G * K, K) @ self.lead).reshape(S, G, K, K)
        E = self.right(self._left(gram.cross).reshape(S, G * K, r)).reshape(S, G, K, r)
        F = self.right(
            self.right(np.broadcast_to(gram.rest, (S, r, r))).swapaxes(-1, -2)
        )
        if noise is not None:
            D, E, F = (
                noise.reshape(S, *[1] * (part.ndim - 1)) * part for part in (D, E, F)
            )
        diagonal = np.arange(K)
        q = np.arange(self.latent)
        D[..., diagonal, diagonal] += 1.0
        F[..., q, q] += 1.0
        return Arrow(D, E, F)

    def back(self, a: Array, c: Array) -> Parts:
        """M'a of columns a (G, K, s) and c (r, s), at S nodes."""
        return np.swapaxes(self.lead, -1, -2)[:, None] @ a, self._through(
            c, transpose=True
        )

    def forth(self, a: Array, c: Array) -> Parts:
        """M a of columns a (S, G, K, s) and c (S, r, s)."""
        return self.lead[:, None] @ a, self._through(c, transpose=False)

    def _through(self, c: Array, *, transpose: bool) -> Array:
        S = len(self.lead)
        product = np.array(np.broadcast_to(c, (S, *c.shape[-2:])))
        for root in self.rest:
            b = root.block
            part = product[:, b.place]
            if b.repeated:
                if transpose:
                    value = np.swapaxes(root.value, -1, -2)
                else:
                    value = root.value
                product[:, b.place] = (
                    value[:, None] @ part.reshape(S, b.repeats, b.size, -1)
                ).reshape(part.shape)
            else:
                product[:, b.place] = root.value[:, :, None] * part
        return product

    # ---- slopes, at one node -----------------------------------------------------------------------------------------

    def pull(self, gram: ArrowGram, inverse: Inverse) -> list[Array]:
        """The diagonal blocks (K, K), or their diagonals, of -X'WX M H^-1, which are
        multiplied by the slope of a root and summed."""
        diagonal_blocks, border, corner = inverse
        G, K, r = gram.cross.shape
        k = corner.shape[-1]
        BM = self.right(gram.cross.reshape(1, G * K, r))[0][:, :k].reshape(G, K, k)
        # sum_g A_g Lambda S_gg + B_g M S_rg
        lead = np.tensordot(gram.lead @ self.lead[0], diagonal_blocks, ((0, 2), (0, 1)))
        lead = lead + np.tensordot(BM, border, ((0, 2), (0, 2)))
        pulls = [-lead[root.block.place, root.block.place] for root in self.first]
        above = self._left(gram.cross)[0]
        CM = self.right(gram.rest[None])[0][:, :k]
        for root in self.rest:
            place = root.block.place
            b = root.block
            if not b.repeated:
                pulls.append(
                    -(above[..., place] * border[..., place]).sum((0, 1))
                    - (CM[place] * corner[place]).sum(1)
                )
                continue
            cut = (b.repeats, b.size)
            part = -np.einsum(
                "gkhx,gkhy->xy",
                above[..., place].reshape(G, K, *cut),
                border[..., place].reshape(G, K, *cut),
                optimize=True,
            )
            part -= np.einsum(
                "hxj,hyj->xy",
                CM[place].reshape(*cut, k),
                corner[place].reshape(*cut, k),
                optimize=True,
            )
            pulls.append(part)
        return pulls

    def paired_blocks(self, pairs: list[tuple[Parts, Parts]]) -> list[Array]:
        """The diagonal blocks of sum o i' over pairs (o, i)."""
        lead = np.sum([o[0][..., 0].T @ i[0][..., 0] for o, i in pairs], axis=0)
        pulls = [lead[root.block.place, root.block.place] for root in self.first]
        for root in self.rest:
            place = root.block.place
            b = root.block
            if not b.repeated:
                pulls.append(
                    np.sum([o[1][place, 0] * i[1][place, 0] for o, i in pairs], axis=0)
                )
                continue
            cut = (b.repeats, b.size)
            pulls.append(
                np.sum(
                    [
                        o[1][place].reshape(cut).T @ i[1][place].reshape(cut)
                        for o, i in pairs
                    ],
                    axis=0,
                )
            )
        return pulls

    def through(self, pulls: list[Array]) -> tuple[Array, float]:
        """<d root / d theta_j, pull> (d,), and the same along log sigma for roots in
        units of it."""
        slopes = np.zeros(self.d)
        relative = 0.0
        for root, pull in zip([*self.first, *self.rest], pulls):
            slopes[root.block.hyper] = [
                float((slope * pull).sum()) for slope in root.slopes
            ]
            relative += float((root.value[0] * pull).sum()) if root.relative else 0.0
        return slopes, relative

    def turned(self, u: Parts, d: int) -> Parts:
        """dL u of each of d hyperparameters, columns (G, K, d) and (r, d); the last is
        along log sigma if d is one more."""
        return self._root_changes(u, d, back=False)

    def transposed_root_changes(self, s: Parts, d: int) -> Parts:
        """dL's of each of d hyperparameters."""
        return self._root_changes(s, d, back=True)

    def _root_changes(self, x: Parts, d: int, *, back: bool) -> Parts:
        lead = np.zeros((*x[0].shape[:2], d))
        behind = np.zeros((len(x[1]), d))
        for leads, roots in ((True, self.first), (False, self.rest)):
            for root in roots:
                b = root.block
                has_noise = d > self.d and root.relative
                places = [*range(b.hyper.start, b.hyper.stop)] + [self.d] * has_noise
                for j, slope in zip(
                    places, [*root.slopes, *([root.value[0]] if has_noise else [])]
                ):
                    if leads:
                        lead[:, b.place, j] = x[0][:, b.place, 0] @ (
                            slope if back else slope.T
                        )
                    elif b.repeated:
                        part = x[1][b.place, 0].reshape(b.repeats, b.size)
                        behind[b.place, j] = (
                            part @ (slope if back else slope.T)
                        ).ravel()
                    else:
                        behind[b.place, j] = slope * x[1][b.place, 0]
        return lead, behind

    def settled(self, gram: ArrowGram, pulls: list[Array]) -> Array:
        """The parameters that each scale adds (d,): <dL, X'WX M H^-1> for independent
        effects, from `pull`.

        A correlated effect may reduce others by more than it adds. Its value, with x_g
        = <dL, X'WX_g dL>, is sum_g x_g / (1 + x_g), the addition of this effect alone,
        which is 0 for a scale of 0.
        """
        effective = -self.through(pulls)[0]
        for root in [*self.first, *self.rest]:
            b = root.block
            if b.repeated and np.count_nonzero(root.value[0]) > np.count_nonzero(
                np.diagonal(root.value[0])
            ):
                x = self._met(root, gram)
                effective[b.hyper] = (x / (1.0 + x)).sum(1)
        return effective

    def weights_of(self, gram: ArrowGram) -> Array:
        """<dL, X'WX dL> over the number of coordinates of each hyperparameter (d,): the
        information in the data at a scale of 1."""
        weights = np.ones(self.d)
        for root in [*self.first, *self.rest]:
            weights[root.block.hyper] = self._met(root, gram).mean(1)
        return np.where(weights > 0, weights, 1.0)

    def _met(self, root: BlockRoots, gram: ArrowGram) -> Array:
        """<dL, X'WX dL> of each hyperparameter of a block, (d, G), or (d, q) by
        coordinate."""
        b = root.block
        diagonal = np.diagonal(gram.rest)
        if not b.repeated:
            return np.asarray(diagonal[b.place] * np.square(root.slopes))
        if any(root is each for each in self.first):
            gram_blocks = gram.lead[:, b.place, b.place]
        else:
            gram_blocks = diagonal[b.place].reshape(b.repeats, b.size)[
                :, :, None
            ] * np.eye(b.size)
        return np.array(
            [
                np.einsum("kx,gkl,lx->g", slope, gram_blocks, slope)
                for slope in root.slopes
            ]
        ).reshape(-1, b.repeats)
