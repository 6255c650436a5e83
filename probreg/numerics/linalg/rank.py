"""Which columns are combinations of which, by a rank-revealing elimination of a triangular factor."""

from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from probreg.numerics.linalg.blocks import one_blas_thread
from probreg.numerics.linalg.dense import factor_of, inverse_upper, norms, solve_upper

Array = NDArray[Any]

RANK_TOL = 2.0**-43  # about 512 eps: see rank_of


@dataclass(frozen=True, eq=False)
class ColumnRank:
    """Which columns span the column space: indices `kept` and `dropped`, each in the order of the columns.

    combos (len(dropped), len(kept)): column dropped[i] = sum_j combos[i, j] column kept[j].
    """

    rank: int
    kept: tuple[int, ...]
    dropped: tuple[int, ...]
    combos: Array


@one_blas_thread()
def rank_of(R: Array, tol: float | None = None) -> ColumnRank:
    """The numerical rank of the columns of R (p, p) upper triangular, earlier columns kept before later ones.

    Columns are scaled to unit norm. Column j counts as a combination sum_k b_k x_k of earlier kept columns when what is
    left of it is at most tol (1 + sum_k |b_k|): no more than errors of relative size tol in these columns explain. That
    is so exactly when column j of R^-1 has 1-norm at least 1/tol. The default, 2^-43 = 1.1e-13, allows some 500 roundings
    in making the columns, and leaves the powers 0 to 10 of NIST's Filip (where the norm is 4e9) full rank.

    >>> rank_of(np.array([[1.0, 0.0, 1.0], [0.0, 1.0, 2.0], [0.0, 0.0, 1e-16]])).combos
    array([[1., 2.]])
    """
    tol = RANK_TOL if tol is None else tol
    scale = norms(R)
    S = R / scale
    kept, dropped, T = list(range(R.shape[1])), [], S
    while (j := _first_dependent(T, tol)) is not None:
        # b = R_11^-1 R_12: what is left of a column beside the first j is the length of its lower part.
        share = np.abs(solve_upper(T[:j, :j], T[:j, j:])).sum(axis=0) if j else np.zeros(len(kept))
        gone = np.sqrt((T[j:, j:] ** 2).sum(axis=0)) <= tol * (1 + share)
        gone[0] = True
        dropped += [c for c, out in zip(kept[j:], gone, strict=True) if out]
        kept = kept[:j] + [c for c, out in zip(kept[j:], gone, strict=True) if not out]
        T = factor_of(S[:, kept]) if kept else S[:0, :0]
    dropped.sort()
    if not dropped:
        return ColumnRank(len(kept), tuple(kept), (), np.zeros((0, len(kept))))
    b = (_combination(S, kept, dropped) / scale[kept, None] * scale[dropped]).T
    return ColumnRank(len(kept), tuple(kept), tuple(dropped), b.astype(float))


def _first_dependent(S: Array, tol: float) -> int | None:
    tiny = np.sign(np.diag(S)) * 1e-30 + (np.diag(S) == 0) * 1e-30
    T = S - np.diag(np.diag(S)) + np.diag(np.where(np.abs(np.diag(S)) < 1e-30, tiny, np.diag(S)))
    with np.errstate(all="ignore"):
        # |R^-1 e_j|_1 = (1 + sum_k |b_k|) / |R_jj|, as column j of R^-1 is (-b, 1) / R_jj.
        norms = np.abs(inverse_upper(T)).sum(axis=0)
    bad = np.flatnonzero(~(norms < 1 / tol))
    return int(bad[0]) if bad.size else None


def _combination(S: Array, kept: list[int], dropped: list[int]) -> Array:
    """Coefficients of the unit-norm dropped columns; shares below 1e-9 are rounding, and are zero."""
    F = factor_of(np.hstack([S[:, kept], S[:, dropped]]))
    k = len(kept)
    b = solve_upper(F[:k, :k], F[:k, k:])
    return np.where(np.abs(b) < 1e-9, 0, b)
