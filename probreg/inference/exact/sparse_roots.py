"""Products of the roots of priors with a Gram matrix with a sparse border: a value
costs the pairs of columns that share a row.

`cross` is X'WX between the leading and the border columns, (G K, r), at W = I; all are
at one node.
"""

from typing import Any

import numpy as np
import scipy

from probreg.data.grouped_columns import ArrowGram
from probreg.inference.base import Array
from probreg.inference.exact.arrow_roots import ArrowRoots, Inverse
from probreg.numerics.linalg import SparseArrow, blocks_of


def _right(roots: ArrowRoots, r: int) -> Any:
    """M of the border columns (r, r)."""
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
    """Lambda'B, by group."""
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
    diagonal = np.arange(K)
    q = np.arange(roots.latent)
    D[:, diagonal, diagonal] += 1.0
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
    diagonal_blocks, border, corner = inverse
    G, K, r = gram.cross.shape
    k = corner.shape[-1]
    border = border.reshape(G * K, k)
    M = _right(roots, r)
    BM = scipy.sparse.csr_array((cross @ M)[:, :k]).tocoo()
    # sum_g A_g Lambda S_gg + B_g M S_rg
    lead = np.tensordot(gram.lead @ roots.lead[0], diagonal_blocks, ((0, 2), (0, 1)))
    group, x = np.divmod(BM.row, K)
    for y in range(K):
        lead[:, y] += np.bincount(x, BM.data * border[group * K + y, BM.col], K)
    pulls = [-lead[root.block.place, root.block.place] for root in roots.first]
    lead_products = scipy.sparse.csr_array(_left(roots, cross, G)[:, :k]).tocoo()
    CM = (M.T @ gram.rest.T).T[:, :k]
    for root in roots.rest:
        b = root.block
        place = root.block.place
        inside = (lead_products.col >= place.start) & (lead_products.col < place.stop)
        row = lead_products.row[inside]
        column = lead_products.col[inside]
        value = lead_products.data[inside]
        if not b.repeated:
            of_border = np.bincount(
                column - place.start, value * border[row, column], b.size
            )
            pulls.append(-of_border - (CM[place] * corner[place]).sum(1))
            continue
        group, x = np.divmod(column - place.start, b.size)
        part = np.empty((b.size, b.size))
        cut = (b.repeats, b.size, k)
        CM_block = CM[place].reshape(cut)
        right = corner[place].reshape(cut)
        for y in range(b.size):
            border_values = border[row, place.start + group * b.size + y]
            part[:, y] = -np.bincount(x, value * border_values, b.size) - (
                CM_block * right[:, y, None]
            ).sum((0, 2))
        pulls.append(part)
    return pulls


def sparse_traces(
    roots: ArrowRoots, H: SparseArrow, counted: int | None, noise: float
) -> tuple[list[Array], float] | None:
    """Return the result of `sparse_pull`, and the trace of the latent part of H^-1;
    None if a root is neither a number nor diagonal.

    noise X'X M H^-1 = M'^-1 (I - blkdiag(I, 0) H^-1) in the latent part; only its
    diagonal is needed then.
    """
    roots_all = [*roots.first, *roots.rest]
    if (
        any(root.block.repeated and root.block.size > 1 for root in roots_all)
        or len(roots.first) > 1
    ):
        return None
    if not all(root.value[0].all() for root in roots_all):
        return None
    trace_lead, corner = H.traces(counted)
    G = roots.first[0].block.repeats
    pulls = [-np.array([[G - trace_lead]]) / (noise * roots.first[0].value[0])]
    for root in roots.rest:
        trace_block = 1.0 - corner[root.block.place]
        pulls.append(
            -(np.array([[trace_block.sum()]]) if root.block.repeated else trace_block)
            / (noise * root.value[0])
        )
    return pulls, trace_lead + float(corner[: roots.latent].sum())
