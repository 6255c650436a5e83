"""Triangular factors of small arrays: computation, solves, ranks, updates and downdates.

They use extended precision if it is quick. A rank-revealing elimination finds the columns that are combinations of others."""

from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray
from scipy.linalg import lapack

from probreg.linalg.blocks import one_blas_thread

Array = NDArray[Any]

EXTENDED = 200_000  # n q^2 up to which a factor is computed in extended precision, in one or two milliseconds


def solve_upper(R: Array, b: Array, *, transpose: bool = False) -> Array:
    """The solution x of R x = b, or of R' x = b, for R (p, p) upper triangular and b (p,) or (p, k), in their precision.

    >>> solve_upper(np.array([[2.0, 1.0], [0.0, 4.0]]), np.array([4.0, 8.0]))
    array([1., 2.])
    """
    if not R.size:
        return np.array(b)
    if np.result_type(R, b) != np.longdouble:
        # LAPACK itself: checks of SciPy take longer than a small system; one stored by rows is the lower one of its transpose
        by_rows = not R.flags.f_contiguous
        x, info = lapack.dtrtrs(
            R.T if by_rows else R, b, lower=by_rows, trans=transpose != by_rows
        )
        if info:
            raise np.linalg.LinAlgError(
                f"the triangular matrix is singular: diagonal element {info - 1} is 0"
            )
        return np.asarray(x)
    if transpose:
        L = R.T
        order = range(len(R))
    else:
        L = R
        order = range(len(R) - 1, -1, -1)
    x = np.array(b, dtype=np.longdouble)
    for i in order:
        done = slice(0, i) if transpose else slice(i + 1, None)
        # x_i = (b_i - sum_(j done) R_ij x_j) / R_ii
        x[i] = (x[i] - L[i, done] @ x[done]) / L[i, i]
    return x


def inverse_upper(R: Array) -> Array:
    """The inverse of the upper triangular R (p, p), itself upper triangular, in the precision of R.

    >>> inverse_upper(np.array([[2.0, 1.0], [0.0, 4.0]]))
    array([[ 0.5  , -0.125],
           [ 0.   ,  0.25 ]])
    """
    if R.dtype == np.longdouble:
        return solve_upper(R, np.eye(len(R), dtype=np.longdouble))
    if not R.size:
        return np.zeros_like(R)
    return np.triu(lapack.dtrtri(R)[0])


def triangular_log_det(R: Array) -> Any:
    """log |det R| (...) of triangular R (..., p, p).

    >>> round(float(triangular_log_det(np.diag([1.0, -np.e]))), 12)
    1.0
    """
    return np.log(np.abs(np.diagonal(R, axis1=-2, axis2=-1))).sum(-1)


def unit_diagonal(H: Array) -> tuple[Array, Array]:
    """D^-1 H D^-1 of symmetric H (..., k, k), and d (..., k): D = diag(d), d_j = |H_jj|^(1/2), or 1 where H_jj = 0.

    >>> unit_diagonal(np.array([[4.0, 1.0], [1.0, 0.0]]))
    (array([[1. , 0.5],
           [0.5, 0. ]]), array([2., 1.]))
    """
    d = np.sqrt(np.abs(np.diagonal(H, axis1=-2, axis2=-1)))
    d = np.where(d > 0, d, 1.0)
    return H / (d[..., :, None] * d[..., None, :]), d


def norms(F: Array) -> Array:
    norms = np.sqrt(np.einsum("ij,ij->j", F, F))
    return np.where(norms > 0, norms, 1)


def positive_diagonal(F: Array) -> Array:
    return np.where(np.diag(F) < 0, -1, 1)[:, None] * F


def factor_of(A: Array) -> Array:
    """The factor of A by Householder QR, square even when A has fewer rows than columns; in extended precision for a small `longdouble`."""
    q = A.shape[1]
    F = np.zeros((q, q), dtype=A.dtype)
    rows = min(q, len(A))
    if A.dtype != np.longdouble or A.size * q > EXTENDED:
        F = F.astype(float)
        F[:rows] = np.linalg.qr(A.astype(float, copy=False), mode="r")
        return positive_diagonal(F)
    # LAPACK has no longdouble; columns are stored as rows for contiguous memory
    T = np.array(A.T, order="C")
    for j in range(rows):
        v = T[j, j:].copy()
        norm = np.sqrt(v @ v)
        if norm == 0:
            continue
        T[j, j], T[j, j + 1 :] = -np.copysign(norm, v[0]), 0
        # v = a + sign(a_1) |a| e_1: the reflection 1 - 2 v v'/v'v takes a to -sign(a_1) |a| e_1, without cancellation.
        v[0] += np.copysign(norm, v[0])
        T[j + 1 :, j:] -= (T[j + 1 :, j:] @ v * (2 / (v @ v)))[:, None] * v
    F[:rows] = T.T[:rows]
    return positive_diagonal(np.triu(F))


def condition_of(R: Array) -> float:
    """The condition number (1-norm, estimated) of R (p, p) upper triangular with its columns scaled to unit norm."""
    S = np.asarray(R / norms(R), dtype=float)
    if len(S):
        return 1 / max(float(lapack.dtrcon(S)[0]), 1e-300)
    return 1.0


def semidefinite(G: Array, tol: float) -> Array:
    """The upper triangular L with L'L = G; pivots down to -tol of G's diagonal count as zero, ValueError beyond."""
    G, L = G.copy(), np.zeros_like(G)
    floor = tol * np.maximum(np.diag(G), np.diag(G).max(initial=0))
    for j in range(len(G)):
        if G[j, j] < -floor[j]:
            raise ValueError(
                f"pivot {j} of the difference is {float(G[j, j]):.3g} of what it was and cannot be negative: "
                "these rows are not among the others"
            )
        if G[j, j] > 0:
            # Cholesky by outer products: row j of L is G_j / G_jj^(1/2), and G <- G - L_j'L_j.
            L[j, j:] = G[j, j:] / np.sqrt(G[j, j])
            G[j:, j:] -= np.outer(L[j, j:], L[j, j:])
    return L


@dataclass(frozen=True, eq=False)
class ColumnRank:
    """The columns that span the column space: indices `kept` and `dropped`, each in the order of the columns.

    combos (len(dropped), len(kept)): column dropped[i] = sum_j combos[i, j] column kept[j].
    """

    kept: tuple[int, ...]
    dropped: tuple[int, ...]
    combos: Array

    @property
    def rank(self) -> int:
        return len(self.kept)


@one_blas_thread()
def rank_of(R: Array, tol: float = 2.0**-43) -> ColumnRank:
    """The numerical rank of the columns of R (p, p) upper triangular, earlier columns kept before later ones.

    Columns are scaled to unit norm. Column j counts as a combination sum_k b_k x_k of earlier kept columns when what is
    left of it is at most tol (1 + sum_k |b_k|): no more than errors of relative size tol in these columns explain. That
    is so exactly when column j of R^-1 has 1-norm at least 1/tol. The default, 2^-43 = 1.1e-13, allows some 500 roundings
    in making the columns, and leaves the powers 0 to 10 of NIST's Filip (where the norm is 4e9) full rank.

    >>> rank_of(np.array([[1.0, 0.0, 1.0], [0.0, 1.0, 2.0], [0.0, 0.0, 1e-16]])).combos
    array([[1., 2.]])
    """
    scale = norms(R)
    S = R / scale
    retained = np.arange(R.shape[1])
    dropped = list[int]()
    T = S
    while (j := _first_dependent(T, tol)) is not None:
        # b = R_11^-1 R_12: the residual of a column given the first j has the length of its lower part.
        if j:
            share = np.abs(solve_upper(T[:j, :j], T[:j, j:])).sum(axis=0)
        else:
            share = np.zeros(len(retained))
        is_dependent = np.sqrt((T[j:, j:] ** 2).sum(axis=0)) <= tol * (1 + share)
        is_dependent[0] = True
        dropped += retained[j:][is_dependent].tolist()
        retained = np.delete(retained, j + np.flatnonzero(is_dependent))
        T = factor_of(S[:, retained]) if len(retained) else S[:0, :0]
    dropped.sort()
    kept = tuple(retained.tolist())
    if not dropped:
        return ColumnRank(kept, (), np.zeros((0, len(kept))))
    b = (_combination(S, retained, dropped) / scale[retained, None] * scale[dropped]).T
    return ColumnRank(kept, tuple(dropped), b.astype(float))


def _first_dependent(S: Array, tol: float) -> int | None:
    """Return the first column that is a combination of earlier ones up to `tol`; columns have unit norm."""
    T = S.copy()
    diagonal = np.diag(S)
    np.fill_diagonal(T, np.where(np.abs(diagonal) < 1e-30, 1e-30, diagonal))
    with np.errstate(all="ignore"):
        # |R^-1 e_j|_1 = (1 + sum_k |b_k|) / |R_jj|, as column j of R^-1 is (-b, 1) / R_jj.
        lengths = np.abs(inverse_upper(T)).sum(axis=0)
    bad = np.flatnonzero(~(lengths < 1 / tol))
    if bad.size:
        return int(bad[0])
    return None


def _combination(S: Array, retained: Array, dropped: list[int]) -> Array:
    """Coefficients of the unit-norm dropped columns; shares below 1e-9 are rounding, and are zero."""
    F = factor_of(np.hstack([S[:, retained], S[:, dropped]]))
    k = len(retained)
    b = solve_upper(F[:k, :k], F[:k, k:])
    return np.where(np.abs(b) < 1e-9, 0, b)


def merge(F1: Array, F2: Array) -> Array:
    """The factor of the rows behind F1 and F2 together: F'F = F1'F1 + F2'F2.

    >>> merge(np.array([[3.0]]), np.array([[4.0]]))
    array([[5.]])
    """
    return factor_of(np.vstack([F1, F2]))


def downdate(F1: Array, F2: Array) -> Array:
    """The factor of the rows behind F1 without those behind F2: F'F = F1'F1 - F2'F2.

    Raises ValueError if the difference is not positive semidefinite, because the rows cannot have been part of F1.

    >>> downdate(np.array([[5.0]]), np.array([[3.0]])).astype(float)
    array([[4.]])
    """
    scale = norms(F1)
    A, B = (np.asarray(F / scale, dtype=np.longdouble) for F in (F1, F2))
    if rank_of(A).rank == len(
        A
    ):  # I - P'P with P = F2 F1^-1 loses nothing to the condition of F1
        P = solve_upper(A, B.T, transpose=True).T
        # A'A - B'B = A'(1 - P'P)A = (L A)'(L A) with L'L = 1 - P'P.
        remainder = (
            semidefinite(np.eye(len(A), dtype=np.longdouble) - P.T @ P, 1e-8) @ A
        )
    else:
        remainder = semidefinite(A.T @ A - B.T @ B, 1e-8)
    return positive_diagonal(np.triu(remainder) * scale).astype(np.result_type(F1, F2))
