"""Products of the roots of priors with a Gram matrix whose border is sparse: one value costs the pairs of columns that meet in a row.

`cross` is X'WX between the columns that lead and those behind them, (G K, r), at W = I; all are of one node.
"""

from typing import Any

import numpy as np
import scipy

from probreg.data.grouped_columns import ArrowGram
from probreg.inference.base import Array
from probreg.inference.exact.arrow_roots import ArrowRoots, Inverse
from probreg.numerics.linalg import SparseArrow, blocks_of


def _right(roots: ArrowRoots, r: int) -> Any:
    """M of the columns behind the leading ones (r, r)."""
    parts = [
        blocks_of(
            np.broadcast_to(root.value[0], (root.block.repeats, *root.value[0].shape))
        )
        if root.block.repeated
        else scipy.sparse.diags_array(root.value[0])
        for root in roots.rest
    ]
    last = scipy.sparse.eye_array(r - roots.latent)
    return scipy.sparse.csr_array(scipy.sparse.block_diag([*parts, last]))


def _left(roots: ArrowRoots, cross: Any, G: int) -> Any:
    """Lambda'B, group by group."""
    Lambda = roots.lead[0]
    return blocks_of(np.broadcast_to(Lambda.T, (G, *Lambda.shape))) @ cross


def sparse_factor(
    roots: ArrowRoots, gram: ArrowGram, cross: Any, noise: float
) -> SparseArrow:
    """The factor of H at the one node, of the curvature times noise."""
    G, K, r = gram.cross.shape
    Lambda = roots.lead[0]
    M = _right(roots, r)
    D = noise * (Lambda.T @ gram.lead @ Lambda)
    E = noise * (_left(roots, cross, G) @ M)
    F = noise * (M.T @ (M.T @ gram.rest).T)
    every = np.arange(K)
    q = np.arange(roots.latent)
    D[:, every, every] += 1.0
    F[q, q] += 1.0
    if roots.rest and roots.rest[0].block.repeated:
        first = roots.rest[0].block
    else:
        first = None
    if first is None:
        blocks = None
    else:
        blocks = (first.repeats, first.size)
    return SparseArrow(D, E, F, blocks).side_by_side()


def sparse_pull(
    roots: ArrowRoots, gram: ArrowGram, cross: Any, inverse: Inverse
) -> list[Array]:
    """As `ArrowRoots.pull`."""
    own, border, corner = inverse
    G, K, r = gram.cross.shape
    k = corner.shape[-1]
    border = border.reshape(G * K, k)
    M = _right(roots, r)
    BM = scipy.sparse.csr_array((cross @ M)[:, :k]).tocoo()
    # sum_g A_g Lambda S_gg + B_g M S_rg
    lead = np.tensordot(gram.lead @ roots.lead[0], own, ((0, 2), (0, 1)))
    group, x = np.divmod(BM.row, K)
    for y in range(K):
        lead[:, y] += np.bincount(x, BM.data * border[group * K + y, BM.col], K)
    out = [-lead[root.block.place, root.block.place] for root in roots.first]
    above = scipy.sparse.csr_array(_left(roots, cross, G)[:, :k]).tocoo()
    CM = (M.T @ gram.rest.T).T[:, :k]
    for root in roots.rest:
        b = root.block
        at = root.block.place
        inside = (above.col >= at.start) & (above.col < at.stop)
        row = above.row[inside]
        column = above.col[inside]
        value = above.data[inside]
        if not b.repeated:
            of_border = np.bincount(
                column - at.start, value * border[row, column], b.size
            )
            out.append(-of_border - (CM[at] * corner[at]).sum(1))
            continue
        group, x = np.divmod(column - at.start, b.size)
        part = np.empty((b.size, b.size))
        cut = (b.repeats, b.size, k)
        left = CM[at].reshape(cut)
        right = corner[at].reshape(cut)
        for y in range(b.size):
            met = border[row, at.start + group * b.size + y]
            part[:, y] = -np.bincount(x, value * met, b.size) - (
                left * right[:, y, None]
            ).sum((0, 2))
        out.append(part)
    return out


def sparse_traces(
    roots: ArrowRoots, H: SparseArrow, counted: int | None, noise: float
) -> tuple[list[Array], float] | None:
    """What `sparse_pull` gives, and the trace of the latent part of H^-1; None where a root is neither a number nor diagonal.

    noise X'X M H^-1 = M'^-1 (I - blkdiag(I, 0) H^-1) in the latent part, of which only the diagonal is asked for then.
    """
    every = [*roots.first, *roots.rest]
    if (
        any(root.block.repeated and root.block.size > 1 for root in every)
        or len(roots.first) > 1
    ):
        return None
    if not all(root.value[0].all() for root in every):
        return None
    own, corner = H.traces(counted)
    G = roots.first[0].block.repeats
    out = [-np.array([[G - own]]) / (noise * roots.first[0].value[0])]
    for root in roots.rest:
        left = 1.0 - corner[root.block.place]
        out.append(
            -(np.array([[left.sum()]]) if root.block.repeated else left)
            / (noise * root.value[0])
        )
    return out, own + float(corner[: roots.latent].sum())
