"""Products of the roots of priors with a Gram matrix with a sparse border: a value
costs the pairs of columns that share a row.

`cross` is X'WX between the leading and the border columns, (G K, r), at W = I; all are
at one node.
"""

from typing import Any

import numpy as np
import scipy

from probreg.data.grouped_columns import ArrowGram
from probreg.inference.exact.arrow_roots import ArrowRoots
from probreg.linalg import Arrow, blocks_of


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
) -> Arrow:
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
    return Arrow(D, E, F, blocks)
