"""The pivoted Cholesky factorisation of a covariance matrix, which needs only its diagonal and the rows of the pivots."""

from collections.abc import Callable

import numpy as np

from probreg.kernels.pairs import Array


def pivoted_root(
    d: Array,
    row: Callable[[int], Array],
    *,
    max_rank: int,
    floor: float,
    tol: float = 0.0,
    check: Callable[[Array, list[int]], None] | None = None,
) -> tuple[list[int], Array, Array]:
    """Return pivots, G (r, n) with C ~ G'G, upper triangular in the columns of the pivots, and the diagonal of C - G'G.

    `d` is the diagonal of C, and `row` returns a row of it. It stops where each entry of the remaining diagonal is at most
    `floor`, or their sum at most `tol` of the trace. `check` sees the remaining diagonal before rounding below 0 is removed.

    >>> C = np.array([[4.0, 2.0], [2.0, 5.0]])
    >>> pivots, G, d = pivoted_root(np.diag(C), lambda i: C[i], max_rank=2, floor=0.0)
    >>> pivots, bool(np.allclose(G.T @ G, C))
    ([1, 0], True)
    """
    pivots: list[int] = []
    G = np.empty((min(16, max_rank), len(d)))
    total = d.sum()
    while len(pivots) < max_rank:
        r = len(pivots)
        i = int(np.argmax(d))
        if d[i] <= floor or d.sum() <= tol * total:
            break
        if r == len(G):
            G = np.vstack([G, np.empty((min(r, max_rank - r), len(d)))])
        # g = (C_i - G_i'G) / sqrt(d_i), d <- d - g^2
        g = row(i) - G[:r, i] @ G[:r]
        g[pivots] = 0.0
        G[r] = g / np.sqrt(d[i])
        d = d - np.square(G[r])
        d[i] = 0.0
        pivots.append(i)
        if check is not None:
            check(d, pivots)
        d = np.maximum(d, 0.0)
    return pivots, G[: len(pivots)], d
