"""M = blkdiag(roots of the priors, I) over the columns of an arrow: products with Gram matrices, and slopes over the hyperparameters.

All are at S nodes. With X'WX = [[A, B], [B', C]] the curvature of u ~ N(0, I) is H =
M'X'WX M + blkdiag(I, 0).
"""

from typing import NamedTuple

import numpy as np
import scipy

from probreg.data.grouped_columns import ArrowGram
from probreg.inference.base import Array
from probreg.inference.exact.latent_groups import LatentGroup
from probreg.inference.modes.arrow_rows import Parts
from probreg.linalg import Arrow, blocks_of


class LatentBlock(NamedTuple):
    """A group of columns with its position; `size` coordinates that repeat, or `size`
    once with a diagonal root."""

    group: LatentGroup
    hyper: slice  # of theta
    start: int  # of its columns, which those of other linear predictors share
    place: slice  # among the K leading effects, or among the border columns
    repeats: int
    size: int
    repeated: bool
    leads: bool  # among the leading effects


class BlockRoots(NamedTuple):
    """The root of a block at S nodes, and its slopes at the first node."""

    block: LatentBlock
    relative: bool  # in units of sigma, which is included
    value: Array  # (S, K, K), or the diagonal (S, q)
    slopes: Array  # (d, K, K) or (d, q)

    def part(self, x: Parts) -> Array:
        """The coordinates of the block among x at one node, (repeats, K) or (q,)."""
        b = self.block
        if b.leads:
            return x[0][:, b.place, 0]
        part = x[1][b.place, 0]
        return part.reshape(b.repeats, b.size) if b.repeated else part


def inner_products(x: Parts, y: Parts) -> Array:
    """x'y (s, t) of columns x and y."""
    return np.asarray(np.tensordot(x[0], y[0], ((0, 1), (0, 1))) + x[1].T @ y[1])


class ArrowRoots:
    """The roots of the leading blocks and then of the border; d hyperparameters.

    `shape` has G, K, and the number of border columns with a root. `lead` (S, K, K) is
    the root of all leading effects.
    """

    def __init__(
        self, roots: list[BlockRoots], shape: tuple[int, int, int], d: int
    ) -> None:
        self.roots, self.shape, self.d = roots, shape, d
        self.rest = [root for root in roots if not root.block.leads]
        _, K, self.latent = shape
        self.lead = np.zeros((len(roots[0].value), K, K))
        for root in roots:
            if root.block.leads:
                self.lead[:, root.block.place, root.block.place] = root.value

    def at(self, nodes: Array) -> "ArrowRoots":
        """The roots at some nodes."""
        roots = [root._replace(value=root.value[nodes]) for root in self.roots]
        return ArrowRoots(roots, self.shape, self.d)

    def right(self, B: Array) -> Array:
        """B M (S, x, r) of B (x, r) or (S, x, r), over the border columns."""
        return self._through(B.swapaxes(-1, -2), transpose=True).swapaxes(-1, -2)

    def transposed_right(self, B: Array) -> Array:
        """B M' (x, r) of B (x, r), at the first node."""
        return self._through(B.T[None], transpose=False)[0].T

    def arrow(self, gram: ArrowGram, noise: Array) -> Arrow:
        """The factor of H at each node, with the curvature W times noise (S,); at one
        node if the border of the Gram matrix is sparse."""
        (G, K, _), S, r = gram.lead.shape, len(self.lead), len(gram.rest)
        # Lambda'A Lambda, which is symmetric
        D = (
            (gram.lead.reshape(G * K, K) @ self.lead)
            .reshape(S, G, K, K)
            .swapaxes(-1, -2)
        )
        D = (D.reshape(S, G * K, K) @ self.lead).reshape(S, G, K, K)
        F = self.right(self.right(gram.rest).swapaxes(-1, -2))
        D *= noise[:, None, None, None]
        F *= noise[:, None, None]
        diagonal = np.arange(K)
        q = np.arange(self.latent)
        D[..., diagonal, diagonal] += 1.0
        F[..., q, q] += 1.0
        if not scipy.sparse.issparse(gram.cross):
            # Lambda'B (S, G, K, r)
            E = gram.cross.transpose(0, 2, 1).reshape(G * r, K) @ self.lead
            E = E.reshape(S, G, r, K).swapaxes(-1, -2).reshape(S, G * K, r)
            E = noise[:, None, None, None] * self.right(E).reshape(S, G, K, r)
            return Arrow(D, E, F)
        parts = [
            blocks_of(np.broadcast_to(root.value[0], (b.repeats, b.size, b.size)))
            if b.repeated
            else scipy.sparse.diags_array(root.value[0])
            for root in self.rest
            for b in [root.block]
        ]
        parts.append(scipy.sparse.eye_array(r - self.latent))
        M = scipy.sparse.csr_array(scipy.sparse.block_diag(parts))
        left = blocks_of(np.broadcast_to(self.lead[0].T, (G, K, K)))
        blocks = None
        if self.rest and self.rest[0].block.repeated:
            blocks = self.rest[0].block.repeats, self.rest[0].block.size
        return Arrow(D[0], float(noise[0]) * (left @ gram.cross @ M), F[0], blocks)

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
        product = np.empty((S, *c.shape[-2:]))
        product[:] = c
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

    def slopes(
        self, pairs: list[tuple[Parts, Parts]], lead: Array, corner: Array
    ) -> tuple[Array, float, Array]:
        """The sum over the roots L of <dL, sum o i' - X'WX M H^-1>, with the sum over
        pairs (o, i), for each hyperparameter (d,); along log sigma for roots in units of
        it; and the last term alone (d,).

        -X'WX M H^-1 is the slope of -log |H| / 2. It is L'^-1 (H^-1 - I), because
        M'X'WX M = H - I there. `lead` (K, K) is the sum of the leading diagonal blocks
        of H^-1, and `corner` the corner.
        """
        slopes = np.zeros(self.d)
        slopes_of_log_det = np.zeros(self.d)
        relative = 0.0
        for root in self.roots:
            b = root.block
            parts = [(root.part(o), root.part(i)) for o, i in pairs]
            if not b.repeated:
                of_fit = np.sum([o * i for o, i in parts], axis=0)
                value = np.where(root.value[0] == 0.0, 1.0, root.value[0])
                of_log_det = (np.diagonal(corner)[b.place] - 1.0) / value
            else:
                of_fit = np.sum([o.T @ i for o, i in parts], axis=0)
                if b.leads:
                    inverse = lead[b.place, b.place]
                else:
                    shape = (b.repeats, b.size, b.repeats, b.size)
                    blocks = corner[b.place, b.place].reshape(shape)
                    groups = np.arange(b.repeats)
                    inverse = blocks[groups, :, groups].sum(0)
                of_log_det = _solve_root(root, inverse - b.repeats * np.eye(b.size))
            axes = tuple(range(1, root.slopes.ndim))
            slopes_of_log_det[b.hyper] = (root.slopes * of_log_det).sum(axes)
            slopes[b.hyper] = (root.slopes * (of_fit + of_log_det)).sum(axes)
            if root.relative:
                relative += float((root.value[0] * (of_fit + of_log_det)).sum())
        return slopes, relative, slopes_of_log_det

    def fit_changes(self, u: Parts, s: Parts, d: int) -> tuple[Parts, Parts, Parts]:
        """dM u, dM's and dM u + M dM's of each of d hyperparameters, columns (G, K, d)
        and (r, d); the last one is along log sigma if d is one more."""
        turned = self._root_changes(u, d, back=False)
        back = self._root_changes(s, d, back=True)
        a, c = self.forth(back[0][None], back[1][None])
        return turned, back, (turned[0] + a[0], turned[1] + c[0])

    def _root_changes(self, x: Parts, d: int, *, back: bool) -> Parts:
        lead = np.zeros((*x[0].shape[:2], d))
        behind = np.zeros((len(x[1]), d))
        for root in self.roots:
            b = root.block
            part = root.part(x)
            changes = dict(zip(range(b.hyper.start, b.hyper.stop), root.slopes))
            if d > self.d and root.relative:
                changes[self.d] = root.value[0]
            for j, slope in changes.items():
                if not b.repeated:
                    behind[b.place, j] = slope * part
                    continue
                change = part @ (slope if back else slope.T)
                if b.leads:
                    lead[:, b.place, j] = change
                else:
                    behind[b.place, j] = change.ravel()
        return lead, behind

    def effective_parameters(self, gram: ArrowGram, slopes_of_log_det: Array) -> Array:
        """The parameters that each scale adds (d,): <dL, X'WX M H^-1> for independent
        effects, from `slopes`.

        A correlated effect may reduce others by more than it adds. Its value, with x_g
        = <dL, X'WX_g dL>, is sum_g x_g / (1 + x_g), the addition of this effect alone,
        which is 0 for a scale of 0.
        """
        effective = -slopes_of_log_det
        for root in self.roots:
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
        for root in self.roots:
            weights[root.block.hyper] = self._met(root, gram).mean(1)
        return np.where(weights > 0, weights, 1.0)

    def _met(self, root: BlockRoots, gram: ArrowGram) -> Array:
        """<dL, X'WX dL> of each hyperparameter of a block, (d, G), or (d, q) by
        coordinate."""
        b = root.block
        diagonal = np.diagonal(gram.rest)
        if not b.repeated:
            return np.asarray(diagonal[b.place] * np.square(root.slopes))
        if b.leads:
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


def _solve_root(root: BlockRoots, B: Array) -> Array:
    """L'^-1 B of the root L at the first node; 0 in the rows of standard deviations of 0."""
    L = root.value[0]
    size = np.linalg.norm(L, axis=1, keepdims=True)
    size[size == 0.0] = 1.0
    return np.asarray(np.linalg.lstsq((L / size).T, B, rcond=1e-14)[0] / size)
