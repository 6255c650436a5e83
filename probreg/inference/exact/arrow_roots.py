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
from probreg.inference.modes.level_newton import Parts
from probreg.linalg import Arrow, blocks_of


class LatentBlock(NamedTuple):
    """A group of columns with its position: `repeats` times `size` coordinates."""

    group: LatentGroup
    hyper: slice  # of theta
    start: int  # of its columns; blocks of other linear predictors share them
    place: slice  # among the K leading effects, or among the border columns
    repeats: int
    size: int
    repeated: bool  # by one root for all groups
    leads: bool  # among the leading effects


class BlockRoots(NamedTuple):
    """The roots of a block at S nodes, and their slopes at the first node: R of them,
    one of each repeat, or R = 1 for all."""

    block: LatentBlock
    relative: bool  # in units of sigma, which is included
    value: Array  # (S, R, K, K)
    slopes: Array  # (d, R, K, K)

    def part(self, x: Parts) -> Array:
        """The coordinates (repeats, K) of the block among x at one node."""
        b = self.block
        if b.leads:
            return x[0][:, b.place, 0]
        return x[1][b.place, 0].reshape(b.repeats, b.size)


def inner_products(x: Parts, y: Parts) -> Array:
    """x'y (s, t) of columns x and y."""
    return np.tensordot(x[0], y[0], ((0, 1), (0, 1))) + x[1].T @ y[1]


def first_node(parts: Parts) -> Parts:
    """The parts of the first node."""
    return parts[0][0], parts[1][0]


class ArrowRoots:
    """The roots of the leading blocks and then of the border at S `nodes`; d hyperparameters.

    `shape` has G, K, and the number of border columns with a root. `lead` (S, K, K) is
    the root of all leading effects.
    """

    def __init__(
        self, roots: list[BlockRoots], shape: tuple[int, int, int], d: int, nodes: int
    ) -> None:
        self.roots, self.shape, self.d = roots, shape, d
        self.rest = [root for root in roots if not root.block.leads]
        _, K, self.latent = shape
        self.lead = np.zeros((nodes, K, K))
        for root in roots:
            if root.block.leads:
                self.lead[:, root.block.place, root.block.place] = root.value[:, 0]

    def arrow(self, gram: ArrowGram, noise: Array) -> Arrow:
        """The factor of H at each node, with the curvature W times noise (S,); at one
        node if the border of the Gram matrix is sparse."""
        (G, K, _), S, r = gram.lead.shape, len(self.lead), len(gram.rest)
        # Lambda'A Lambda, which is symmetric
        D = (gram.lead.reshape(G * K, K) @ self.lead).reshape(S, G, K, K).mT
        D = (D.reshape(S, G * K, K) @ self.lead).reshape(S, G, K, K)
        half = self.times_border(gram.rest, transpose=True).mT
        F = self.times_border(half, transpose=True)
        D *= noise[:, None, None, None]
        F *= noise[:, None, None]
        diagonal = np.arange(K)
        q = np.arange(self.latent)
        D[..., diagonal, diagonal] += 1.0
        F[..., q, q] += 1.0
        if not scipy.sparse.issparse(gram.cross):
            # Lambda'B (S, G, K, r)
            E = gram.cross.mT.reshape(G * r, K) @ self.lead
            E = E.reshape(S, G, r, K).transpose(0, 2, 1, 3).reshape(S, r, G * K)
            E = self.times_border(E, transpose=True).mT
            return Arrow(D, noise[:, None, None, None] * E.reshape(S, G, K, r), F)
        M = scipy.sparse.block_diag(
            [
                *(
                    blocks_of(
                        np.broadcast_to(root.value[0], (b.repeats, b.size, b.size))
                    )
                    for root in self.rest
                    for b in [root.block]
                ),
                scipy.sparse.eye_array(r - self.latent),
            ],
            format="csr",
        )
        left = blocks_of(np.broadcast_to(self.lead[0].T, (G, K, K)))
        blocks = None
        if self.rest:
            blocks = self.rest[0].block.repeats, self.rest[0].block.size
        return Arrow(D[0], float(noise[0]) * (left @ gram.cross @ M), F[0], blocks)

    def back(self, a: Array, c: Array) -> Parts:
        """M'a of columns a (G, K, s) and c (r, s), at S nodes."""
        lead = self.lead.mT[:, None] @ a
        return lead, self.times_border(c, transpose=True)

    def forth(self, a: Array, c: Array) -> Parts:
        """M a of columns a (S, G, K, s) and c (S, r, s)."""
        return self.lead[:, None] @ a, self.times_border(c)

    def map(self, x: Parts) -> Parts:
        """M x of columns (G, K, s) and (r, s), at the first node."""
        return first_node(self.forth(x[0][None], x[1][None]))

    def map_back(self, a: Array, c: Array) -> Parts:
        """M'a of columns a (G, K, s) and c (r, s), at the first node."""
        return first_node(self.back(a, c))

    def diagonal(self) -> Array:
        """The diagonal (S, q) of diagonal roots."""
        S = len(self.lead)
        return np.hstack([root.value.reshape(S, -1) for root in self.roots])

    def axes(self, H: Arrow) -> tuple[Array, Array, Array]:
        """M (H^-1)^(1/2) of the border as columns (G, K, r S) and (r, r S), and of the leading blocks (S, G, K, K)."""
        G, K, r = H.shape
        # [[L', C], [0, T']]^-1: its first columns are the blocks L_g'^-1, its last ones of rank r
        in_columns = self.forth(
            *H.solve_transposed(np.broadcast_to(0.0, (G, K, r)), np.eye(r))
        )
        blocks = H.solve_transposed(
            np.broadcast_to(np.eye(K), (G, K, K)), np.zeros((r, K))
        )[0]
        a, c = (
            np.moveaxis(part, 0, -1).reshape(*part.shape[1:-1], r * len(self.lead))
            for part in in_columns
        )
        return a, c, self.lead[:, None] @ blocks

    def times_border(self, c: Array, *, transpose: bool = False) -> Array:
        """M c, or M'c, (S, r, s) of columns c (r, s) or (S, r, s) of the border."""
        S = len(self.lead)
        product = np.empty((S, *c.shape[-2:]))
        product[:] = c
        for root in self.rest:
            b = root.block
            value = root.value.mT if transpose else root.value
            part = product[:, b.place]
            blocks = value @ part.reshape(S, b.repeats, b.size, -1)
            product[:, b.place] = blocks.reshape(part.shape)
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
            of_fit = np.sum([o[:, :, None] * i[:, None] for o, i in parts], axis=0)
            eye = np.eye(b.size)
            if b.leads:
                inverse = lead[None, b.place, b.place] - b.repeats * eye
            else:
                shape = (b.repeats, b.size, b.repeats, b.size)
                groups = np.arange(b.repeats)
                inverse = corner[b.place, b.place].reshape(shape)[groups, :, groups]
                inverse = inverse - eye
            if root.value.shape[1] == 1:
                of_fit = of_fit.sum(0, keepdims=True)
                inverse = inverse.sum(0, keepdims=True)
            of_log_det = _solve_roots(root.value[0], inverse)
            slopes_of_log_det[b.hyper] = (root.slopes * of_log_det).sum((1, 2, 3))
            slopes[b.hyper] = (root.slopes * (of_fit + of_log_det)).sum((1, 2, 3))
            if root.relative:
                relative += float((root.value[0] * (of_fit + of_log_det)).sum())
        return slopes, relative, slopes_of_log_det

    def fit_changes(self, u: Parts, s: Parts, d: int) -> tuple[Parts, Parts, Parts]:
        """dM u, dM's and dM u + M dM's of each of d hyperparameters, columns (G, K, d)
        and (r, d); the last one is along log sigma if d is one more."""
        turned = self._root_changes(u, d, back=False)
        back = self._root_changes(s, d, back=True)
        a, c = self.map(back)
        return turned, back, (turned[0] + a, turned[1] + c)

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
                if back:
                    change = (slope * part[:, :, None]).sum(1)
                else:
                    change = (slope * part[:, None]).sum(2)
                if b.leads:
                    lead[:, b.place, j] = change
                else:
                    behind[b.place, j] = change.ravel()
        return lead, behind

    def effective_parameters(
        self, gram: ArrowGram, slopes_of_log_det: Array, noise: float = 1.0
    ) -> Array:
        """The parameters that each scale adds (d,): <dL, X'WX M H^-1> for independent
        effects, from `slopes`; W is `noise` times the weights in `gram`.

        A correlated effect may reduce others by more than it adds. Its value, with x_g
        = <dL, X'WX_g dL>, is sum_g x_g / (1 + x_g), the addition of this effect alone,
        which is 0 for a scale of 0.
        """
        effective = -slopes_of_log_det
        for root in self.roots:
            value = root.value[0]
            on_diagonal = np.count_nonzero(np.linalg.diagonal(value))
            if np.count_nonzero(value) > on_diagonal:
                x = noise * _information(root, gram)
                effective[root.block.hyper] = (x / (1.0 + x)).sum(1)
        return effective

    def weights_of(self, gram: ArrowGram) -> Array:
        """<dL, X'WX dL> over the number of coordinates of each hyperparameter (d,): the
        information in the data at a scale of 1."""
        weights = np.ones(self.d)
        for root in self.roots:
            weights[root.block.hyper] = _information(root, gram).mean(1)
        return np.where(weights > 0, weights, 1.0)


def _information(root: BlockRoots, gram: ArrowGram) -> Array:
    """<dL, X'WX dL> (d, repeats) of each hyperparameter of a block."""
    b = root.block
    if b.leads:
        blocks = gram.lead[:, b.place, b.place]
    else:
        diagonal = np.diagonal(gram.rest)[b.place].reshape(b.repeats, b.size)
        blocks = diagonal[:, :, None] * np.eye(b.size)
    return (root.slopes * (blocks @ root.slopes)).sum((2, 3))


def _solve_roots(L: Array, B: Array) -> Array:
    """L'^-1 B of roots L (R, K, K); 0 in the rows of standard deviations of 0."""
    size = np.linalg.norm(L, axis=2, keepdims=True)
    size[size == 0.0] = 1.0
    inverse = np.linalg.pinv(L / size, rcond=1e-14)
    return inverse.mT @ B / size
