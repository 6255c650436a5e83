"""M = blkdiag(roots of the priors, I) over the columns of an arrow: products with Gram matrices, and slopes over the hyperparameters.

At S nodes side by side. With X'WX = [[A, B], [B', C]] the curvature of u ~ N(0, I) is H = M'X'WX M + blkdiag(I, 0).
"""

from dataclasses import dataclass
from functools import cached_property
from typing import NamedTuple

import numpy as np

from probreg.data.grouped_columns import ArrowGram
from probreg.inference.base import Array
from probreg.inference.exact.latent_groups import LatentGroup
from probreg.numerics.linalg import Arrow

Parts = tuple[
    Array, Array
]  # (G, K, s) of the columns that lead and (r, s) of those behind them


class LatentBlock(NamedTuple):
    """A group of columns with its place; `size` coordinates that repeat so many times, or `size` once with a diagonal root."""

    group: LatentGroup
    hyper: slice  # of theta
    place: slice  # of the K effects that lead, or of the columns behind these
    repeats: int
    size: int
    repeated: bool


class BlockRoots(NamedTuple):
    """The root of a block at S nodes, and its slopes at the first of them."""

    block: LatentBlock
    relative: bool  # in units of sigma, which it holds
    value: Array  # (S, K, K), or the diagonal (S, q)
    slopes: Array  # (d, K, K) or (d, q)


class Inverse(NamedTuple):
    """Parts of H^-1: diagonal blocks (G, K, K), border (G, K, k), corner (k, k)."""

    own: Array
    border: Array
    corner: Array


@dataclass(frozen=True, eq=False)
class ArrowRoots:
    """Those of the blocks that lead, side by side, and of those behind them; d hyperparameters."""

    first: list[BlockRoots]
    rest: list[BlockRoots]
    d: int

    @cached_property
    def lead(self) -> Array:
        """(S, K, K) of all effects that lead."""
        K = self.first[-1].block.place.stop
        out = np.zeros((len(self.first[0].value), K, K))
        for root in self.first:
            out[:, root.block.place, root.block.place] = root.value
        return out

    def at(self, nodes: Array) -> "ArrowRoots":
        """Those of some nodes."""
        first, rest = (
            [root._replace(value=root.value[nodes]) for root in part]
            for part in (self.first, self.rest)
        )
        return ArrowRoots(first, rest, self.d)

    @property
    def latent(self) -> int:
        """The number of columns behind the leading ones that have a root."""
        if self.rest:
            return self.rest[-1].block.place.stop
        return 0

    def right(self, B: Array) -> Array:
        """B M (S, x, r) of B (S, x, r), over the columns behind the leading ones."""
        out = np.array(B)
        for root in self.rest:
            at = root.block.place
            part = B[..., root.block.place]
            if root.block.repeated:
                out[..., at] = (
                    part.reshape(len(B), -1, root.block.size) @ root.value
                ).reshape(part.shape)
            else:
                out[..., at] = part * root.value[:, None]
        return out

    def transposed_right(self, B: Array) -> Array:
        """B M' (x, r) of B (x, r), at the first node."""
        return self._through(B.T[None], transpose=False)[0].T

    def _left(self, B: Array) -> Array:
        """Lambda'B (S, G, K, r) of B (G, K, r)."""
        G, K, r = B.shape
        out = B.transpose(0, 2, 1).reshape(G * r, K) @ self.lead
        return out.reshape(len(self.lead), G, r, K).swapaxes(-1, -2)

    def arrow(self, gram: ArrowGram, noise: Array | None = None) -> Arrow:
        """The factor of H at each node, the curvature W times noise (S,) there."""
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
        every = np.arange(K)
        q = np.arange(self.latent)
        D[..., every, every] += 1.0
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
        out = np.array(np.broadcast_to(c, (S, *c.shape[-2:])))
        for root in self.rest:
            b = root.block
            part = out[:, b.place]
            if b.repeated:
                if transpose:
                    value = np.swapaxes(root.value, -1, -2)
                else:
                    value = root.value
                out[:, b.place] = (
                    value[:, None] @ part.reshape(S, b.repeats, b.size, -1)
                ).reshape(part.shape)
            else:
                out[:, b.place] = root.value[:, :, None] * part
        return out

    # ---- slopes, at one node -----------------------------------------------------------------------------------------

    def pull(self, gram: ArrowGram, inverse: Inverse) -> list[Array]:
        """The diagonal blocks (K, K), or their diagonals, of -X'WX M H^-1, block by block: what the slope of a root is multiplied by
        and added up."""
        own, border, corner = inverse
        G, K, r = gram.cross.shape
        k = corner.shape[-1]
        BM = self.right(gram.cross.reshape(1, G * K, r))[0][:, :k].reshape(G, K, k)
        # sum_g A_g Lambda S_gg + B_g M S_rg
        lead = np.tensordot(gram.lead @ self.lead[0], own, ((0, 2), (0, 1)))
        lead = lead + np.tensordot(BM, border, ((0, 2), (0, 2)))
        out = [-lead[root.block.place, root.block.place] for root in self.first]
        above = self._left(gram.cross)[0]
        CM = self.right(gram.rest[None])[0][:, :k]
        for root in self.rest:
            at = root.block.place
            b = root.block
            if not b.repeated:
                out.append(
                    -(above[..., at] * border[..., at]).sum((0, 1))
                    - (CM[at] * corner[at]).sum(1)
                )
                continue
            cut = (b.repeats, b.size)
            part = -np.einsum(
                "gkhx,gkhy->xy",
                above[..., at].reshape(G, K, *cut),
                border[..., at].reshape(G, K, *cut),
                optimize=True,
            )
            part -= np.einsum(
                "hxj,hyj->xy",
                CM[at].reshape(*cut, k),
                corner[at].reshape(*cut, k),
                optimize=True,
            )
            out.append(part)
        return out

    def paired(self, pairs: list[tuple[Parts, Parts]]) -> list[Array]:
        """The same of sum o i' over pairs (o, i)."""
        whole = np.sum([o[0][..., 0].T @ i[0][..., 0] for o, i in pairs], axis=0)
        out = [whole[root.block.place, root.block.place] for root in self.first]
        for root in self.rest:
            at = root.block.place
            b = root.block
            if not b.repeated:
                out.append(
                    np.sum([o[1][at, 0] * i[1][at, 0] for o, i in pairs], axis=0)
                )
                continue
            cut = (b.repeats, b.size)
            out.append(
                np.sum(
                    [o[1][at].reshape(cut).T @ i[1][at].reshape(cut) for o, i in pairs],
                    axis=0,
                )
            )
        return out

    def through(self, pulls: list[Array]) -> tuple[Array, float]:
        """<d root / d theta_j, pull> (d,), and the same along log sigma of the roots in units of it."""
        out = np.zeros(self.d)
        relative = 0.0
        for root, pull in zip([*self.first, *self.rest], pulls):
            out[root.block.hyper] = [
                float((slope * pull).sum()) for slope in root.slopes
            ]
            relative += float((root.value[0] * pull).sum()) if root.relative else 0.0
        return out, relative

    def turned(self, u: Parts, d: int) -> Parts:
        """dL u of each of d hyperparameters, columns (G, K, d) and (r, d); the last along log sigma where d is one more."""
        return self._turned(u, d, back=False)

    def turned_back(self, s: Parts, d: int) -> Parts:
        """dL's of each of d hyperparameters."""
        return self._turned(s, d, back=True)

    def _turned(self, x: Parts, d: int, *, back: bool) -> Parts:
        lead = np.zeros((*x[0].shape[:2], d))
        rest = np.zeros((len(x[1]), d))
        for leads, roots in ((True, self.first), (False, self.rest)):
            for root in roots:
                b = root.block
                along = d > self.d and root.relative
                places = [*range(b.hyper.start, b.hyper.stop)] + [self.d] * along
                for j, slope in zip(
                    places, [*root.slopes, *([root.value[0]] if along else [])]
                ):
                    if leads:
                        lead[:, b.place, j] = x[0][:, b.place, 0] @ (
                            slope if back else slope.T
                        )
                    elif b.repeated:
                        part = x[1][b.place, 0].reshape(b.repeats, b.size)
                        rest[b.place, j] = (part @ (slope if back else slope.T)).ravel()
                    else:
                        rest[b.place, j] = slope * x[1][b.place, 0]
        return lead, rest

    def settled(self, gram: ArrowGram, pulls: list[Array]) -> Array:
        """The parameters that each scale adds (d,): <dL, X'WX M H^-1> where effects are independent, of what `pull` says.

        A correlated effect may take away more from others than it adds. Of one, with x_g = <dL, X'WX_g dL>, it is sum_g x_g / (1 + x_g),
        what it would add alone, which is 0 where the scale is.
        """
        out = -self.through(pulls)[0]
        for root in [*self.first, *self.rest]:
            b = root.block
            if b.repeated and np.count_nonzero(root.value[0]) > np.count_nonzero(
                np.diagonal(root.value[0])
            ):
                x = self._met(root, gram)
                out[b.hyper] = (x / (1.0 + x)).sum(1)
        return out

    def weights_of(self, gram: ArrowGram) -> Array:
        """<dL, X'WX dL> over the number of coordinates of each hyperparameter (d,): how much of the data a scale of 1 meets."""
        out = np.ones(self.d)
        for root in [*self.first, *self.rest]:
            out[root.block.hyper] = self._met(root, gram).mean(1)
        return np.where(out > 0, out, 1.0)

    def _met(self, root: BlockRoots, gram: ArrowGram) -> Array:
        """<dL, X'WX dL> of each hyperparameter of a block, (d, G), or (d, q) of its coordinates."""
        b = root.block
        diagonal = np.diagonal(gram.rest)
        if not b.repeated:
            return np.asarray(diagonal[b.place] * np.square(root.slopes))
        if any(root is each for each in self.first):
            own = gram.lead[:, b.place, b.place]
        else:
            own = diagonal[b.place].reshape(b.repeats, b.size)[:, :, None] * np.eye(
                b.size
            )
        return np.array(
            [np.einsum("kx,gkl,lx->g", slope, own, slope) for slope in root.slopes]
        ).reshape(-1, b.repeats)
