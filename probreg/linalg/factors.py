"""Triangular factors: computation, solves, ranks, updates and downdates, roots of symmetric matrices, and factors of many rows.

They use extended precision if it is quick. A rank-revealing elimination finds the columns that are combinations of others.
"""

from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import ArrayLike, NDArray
from scipy.linalg import cholesky, lapack

from probreg.linalg.blocks import map_blocks, one_blas_thread, row_blocks

Array = NDArray[Any]

EXTENDED = 200_000  # up to this n q^2 a factor is computed in extended precision, in one or two milliseconds


def solve_upper(R: Array, b: Array, *, transpose: bool = False) -> Array:
    """The solution x of R x = b, or of R' x = b, for R (p, p) upper triangular and b (p,) or (p, k), in their precision.

    >>> solve_upper(np.array([[2.0, 1.0], [0.0, 4.0]]), np.array([4.0, 8.0]))
    array([1., 2.])
    """
    if not R.size:
        return np.array(b)
    if np.result_type(R, b) != np.longdouble:
        # LAPACK itself, because SciPy's checks take longer than a small system; a matrix stored by rows is the transposed lower one
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
    return np.log(np.abs(np.linalg.diagonal(R))).sum(-1)


def unit_diagonal(H: Array) -> tuple[Array, Array]:
    """D^-1 H D^-1 of symmetric H (..., k, k), and d (..., k): D = diag(d), d_j = |H_jj|^(1/2), or 1 where H_jj = 0.

    >>> unit_diagonal(np.array([[4.0, 1.0], [1.0, 0.0]]))
    (array([[1. , 0.5],
           [0.5, 0. ]]), array([2., 1.]))
    """
    d = np.sqrt(np.abs(np.linalg.diagonal(H)))
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

    Columns are scaled to unit norm. Column j counts as a combination sum_k b_k x_k of earlier kept columns if its
    residual is at most tol (1 + sum_k |b_k|), the effect of errors of relative size tol in these columns. This
    is equivalent to a 1-norm of at least 1/tol of column j of R^-1. The default, 2^-43 = 1.1e-13, allows about 500 rounding
    errors in the columns, and the powers 0 to 10 of NIST's Filip (with the norm 4e9) keep full rank.

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
    """The factor of all rows of F1 and F2: F'F = F1'F1 + F2'F2.

    >>> merge(np.array([[3.0]]), np.array([[4.0]]))
    array([[5.]])
    """
    return factor_of(np.vstack([F1, F2]))


def downdate(F1: Array, F2: Array) -> Array:
    """The factor of the rows of F1 without the rows of F2: F'F = F1'F1 - F2'F2.

    Raises ValueError if the difference is not positive semidefinite, because the rows cannot have been part of F1.

    >>> downdate(np.array([[5.0]]), np.array([[3.0]])).astype(float)
    array([[4.]])
    """
    scale = norms(F1)
    A, B = (np.asarray(F / scale, dtype=np.longdouble) for F in (F1, F2))
    # I - P'P with P = F2 F1^-1 loses no digits if F1 is ill-conditioned
    if rank_of(A).rank == len(A):
        P = solve_upper(A, B.T, transpose=True).T
        # A'A - B'B = A'(1 - P'P)A = (L A)'(L A) with L'L = 1 - P'P.
        remainder = (
            semidefinite(np.eye(len(A), dtype=np.longdouble) - P.T @ P, 1e-8) @ A
        )
    else:
        remainder = semidefinite(A.T @ A - B.T @ B, 1e-8)
    return positive_diagonal(np.triu(remainder) * scale).astype(np.result_type(F1, F2))


def root_of_curvature(H: Array) -> Array | None:
    """Upper triangular K with K K' = H^-1; None if H is not positive definite."""
    if not np.isfinite(H).all():
        return None
    scaled, d = unit_diagonal(H)
    try:
        # D^-1 H D^-1 = L L', H^-1 = D^-1 L'^-1 L^-1 D^-1
        L = np.linalg.cholesky(scaled)
    except np.linalg.LinAlgError:
        return None
    return inverse_upper(np.ascontiguousarray(L.T)) / d[:, None]


def root_of_pseudo_inverse(H: Array, rcond: float = 1e-11) -> Array:
    """Return S (k, r) such that S S' is a generalised inverse of the symmetric H. It scales H to a unit diagonal, takes the
    pseudo-inverse from the eigenvalues above `rcond` times the largest, and undoes the scaling."""
    if not len(H):
        return np.zeros((0, 1))
    scaled, d = unit_diagonal(H)
    value, vector = np.linalg.eigh(scaled)
    keep = value > rcond * np.abs(value).max(initial=0.0)
    if keep.any():
        return np.asarray(vector[:, keep] / np.sqrt(value[keep]) / d[:, None])
    return np.zeros((len(H), 1))


def symmetric_root(M: Array) -> Array:
    """Return S (..., k, k) with S S' = M, positive semidefinite up to rounding, by its eigenvectors.

    >>> symmetric_root(np.diag([4.0, 9.0])).tolist()
    [[2.0, 0.0], [0.0, 3.0]]
    """
    value, vector = np.linalg.eigh(M)
    return np.asarray(vector * np.sqrt(np.maximum(value, 0.0))[..., None, :])


def root_of_square(M: Array) -> Array:
    """Return S (k, r) with S S' = M, positive semidefinite. Eigenvalues that rounding makes 0 or negative are left out."""
    scaled, d = unit_diagonal(M)
    value, vector = np.linalg.eigh(scaled)
    keep = value > 0.0
    if keep.any():
        return np.asarray(vector[:, keep] * np.sqrt(value[keep]) * d[:, None])
    return np.zeros((len(M), 1))


Sums = tuple[Array, ...]


dot = np.dot  # inside blocks, in place of @: see map_blocks

WELL = 30.0  # up to this condition number one Cholesky factor is as accurate as QR: WELL^2 eps is 2e-13


@dataclass(frozen=True, eq=False)
class Reduction:
    """The factor F (q, q) of sqrt(w) [X y] with the weighted means and standard deviations of its q columns and sum(w)."""

    factor: Array
    mean: Array
    scale: Array
    weight: float


def triangular(
    X: ArrayLike, y: ArrayLike | None = None, *, weights: ArrayLike | None = None
) -> Array:
    """The upper triangular F (q, q), diagonal >= 0, with F'F = A' diag(w) A for A = [X y] with q columns.

    X (n, p), y (n,) or (n, k), weights (n,) >= 0. Three ways, chosen by size and by the condition number of the columns of X
    scaled to unit norm:

    - n q^2 <= 2e5: Householder QR in extended precision; F is then `longdouble`.
    - condition below 1e7: Cholesky factor of the Gram matrix. If the condition is below 30, one factor is enough, and the columns of
      y are refined on their residuals unless they are far from the span of X; else a second factor, of X R^-1 (CholeskyQR2).
    - otherwise, for exact collinearity and for at most two rows per column: Householder QR of one block of rows after the other (TSQR).

    All three have the accuracy of QR; exact collinearity leaves diagonal elements of the size of rounding error. Columns
    need not be scaled. If values are not finite, F is not finite.
    Sources: Yamamoto et al. (2015) for CholeskyQR2, Demmel et al. (2012) for TSQR, Bjorck (1987) for the refinement.

    >>> triangular([[3.0, 1.0], [4.0, 1.0]]).astype(float)
    array([[5. , 1.4],
           [0. , 0.2]])
    """
    return reduce_rows(X, y, weights=weights).factor


@one_blas_thread()
def reduce_rows(
    X: ArrayLike,
    y: ArrayLike | None = None,
    *,
    weights: ArrayLike | None = None,
) -> Reduction:
    """Return the factor of sqrt(w) [X y] (see `triangular`) and the weighted moments of its columns, in as few passes as possible.

    >>> reduce_rows([[1.0], [3.0]], [0.0, 0.0]).mean
    array([2., 0.])
    """
    tall = 2  # up to this ratio of rows to columns Householder QR takes fewer products than X'X, Q = X R^-1 and Q'Q
    X = np.asarray(X)
    Y = np.empty((len(X), 0)) if y is None else np.asarray(y).reshape(len(X), -1)
    w = None if weights is None else np.asarray(weights, dtype=float)
    ones = np.ones(len(X)) if w is None else w
    q = X.shape[1] + Y.shape[1]
    # values that are not finite are also in F, where the caller finds them
    with np.errstate(all="ignore"):
        if len(X) * q * q <= EXTENDED:
            A = np.hstack([X, Y]).astype(np.longdouble)
            sums = ones @ A, ones @ A**2
            if w is not None:
                A *= np.sqrt(w.astype(np.longdouble))[:, None]
            factor = factor_of(A)
        else:
            X = X.astype(float, copy=False)
            Y = Y.astype(float, copy=False)
            root = None
            if len(X) > tall * q:
                G, C, S, *parts = _gram_pass(X, Y, w)
                sums = np.concatenate(parts), np.concatenate([np.diag(G), np.diag(S)])
                root = _cholesky_qr(X, Y, w, (G, C, S))
            else:  # X'X would take as many products as the factor
                A = np.hstack([X, Y])
                sums = ones @ A, np.einsum("i,ij,ij->j", ones, A, A)
            factor = _tsqr(X, Y, w) if root is None else root
        return Reduction(factor, *_column_moments(X, Y, w, *sums))


def _tsqr(X: Array, Y: Array, w: Array | None) -> Array:
    q = X.shape[1] + Y.shape[1]
    F = np.zeros((0, q))
    for rows in row_blocks(len(X), q):
        A = np.hstack([X[rows], Y[rows]])
        if w is not None:
            A = A * np.sqrt(w[rows])[:, None]
        # The factor of the rows so far and the next block: F'F <- F'F + A'A (TSQR).
        F = np.linalg.qr(np.vstack([F, A]), mode="r")
    return positive_diagonal(np.vstack([F, np.zeros((q - len(F), q))]))


# ---- large, well conditioned -----------------------------------------------------------------------------------------------


def _cholesky_qr(X: Array, Y: Array, w: Array | None, grams: Sums) -> Array | None:
    """CholeskyQR2 with refined Y, or None when X is too poorly conditioned for it."""
    easy = 5.0  # up to this condition number R'z = X'y loses no significant digits
    poor = 1e7  # above this condition number a Gram matrix loses the small directions, so that Householder QR is necessary
    close = 1e-3  # y'y - z'z loses too many digits if the part of y outside the span of X is smaller
    G, C, S = grams
    R, condition = _scaled_cholesky(G)
    if R is None or condition > poor:
        return None
    # X = Q R with R'R = X'X: Z = Q'Y = R'^-1 X'Y, and Y'Y - Z'Z of the part outside the span of X.
    Z = solve_upper(R, C, transpose=True)
    if condition > WELL:
        second_pass = _second_pass(X, Y, w, R, Z)
        if second_pass is None:
            return None
        R, Z = second_pass
        residual = _residual_pass(X, Y, w, R, Z)[1]
    else:
        residual = S - Z.T @ Z
        if condition > easy or np.any(np.diag(residual) < close * np.diag(S)):
            step, residual = _residual_pass(X, Y, w, R, Z)
            # Seminormal equations: B <- B + R^-1 step, Z <- Z + step, and the residual products fall by step'step.
            Z = Z + step
            residual = residual - step.T @ step
    # F = [R Z; 0 L], L'L = rest.
    return np.block(
        [[R, Z], [np.zeros((Y.shape[1], len(R))), semidefinite(residual, np.inf)]]
    )


def _gram_pass(
    X: Array, Y: Array, w: Array | None, maps: tuple[Array, Array] | None = None
) -> Sums:
    """Return A'A, A'E, E'E and the sums of the columns of A and of E; with weights of sqrt(w) A and sqrt(w) E, summed with sqrt(w).

    A is X and E is Y, or A = X T and E = Y - X B with `maps` T and B.
    """

    def block(rows: slice) -> Sums:
        A = X[rows]
        E = Y[rows]
        if maps is not None:
            T, B = maps
            E = E - dot(A, B)
            A = dot(A, T)
        ones = np.ones(len(A))
        if w is not None:
            ones = np.sqrt(w[rows])
            A = A * ones[:, None]
            E = E * ones[:, None]
        return dot(A.T, A), dot(A.T, E), dot(E.T, E), dot(ones, A), dot(ones, E)

    return map_blocks(block, row_blocks(*X.shape))


def _second_pass(
    X: Array, Y: Array, w: Array | None, R: Array, Z: Array
) -> tuple[Array, Array] | None:
    """Recompute R and Z = Q'Y from the columns of X R^-1, which are orthonormal up to rounding, and from Y - X B."""
    B = solve_upper(R, Z)
    G, QE, *_ = _gram_pass(X, Y, w, (inverse_upper(R), B))
    S, condition = _scaled_cholesky(G)
    if S is None or condition > WELL:
        return None
    # X = (Q S^-1)(S R) with S'S = Q'Q: the second factor is S R. With Y = X B + E it has Z = S R B + S'^-1 Q'E.
    R2 = np.triu(S @ R)
    return R2, R2 @ B + solve_upper(S, QE, transpose=True)


def _residual_pass(
    X: Array, Y: Array, w: Array | None, R: Array, Z: Array
) -> tuple[Array, Array]:
    """The correction of Z by the seminormal equations R'step = X'W(Y - X B), and the residual products of Y - X B."""
    B = solve_upper(R, Z)

    def block(rows: slice) -> Sums:
        E = Y[rows] - dot(X[rows], B)
        V = E if w is None else E * w[rows, None]
        return dot(X[rows].T, V), dot(E.T, V)

    XE, EE = map_blocks(block, row_blocks(*X.shape))
    return solve_upper(R, XE, transpose=True), EE


def _scaled_cholesky(G: Array) -> tuple[Array | None, float]:
    """The Cholesky factor of G and the condition number of this factor with unit columns, the smaller one of 1-norm and 2-norm."""
    scale = np.sqrt(np.diag(G))
    if not np.all((scale > 0) & (scale < np.inf)):
        return None, np.inf
    try:
        # G = D C D with C of unit diagonal: chol(G) = chol(C) D, and the condition number is computed for unit columns.
        R = cholesky(G / np.outer(scale, scale), check_finite=False)
    except np.linalg.LinAlgError:
        return None, np.inf
    condition = 1 / max(lapack.dtrcon(R)[0], 1e-300)
    # the 1-norm grows with p also for nearly orthogonal columns
    if WELL < condition <= WELL * len(R):
        condition = min(condition, _condition_2(R))
    return R * scale, condition


def _condition_2(R: Array) -> float:
    """An upper bound of the condition number of R (p, p) in the 2-norm, at most (4.5 sqrt(p))^(1/8) too large: 1.9 at p = 2,000.

    Power iteration from 8 random directions. For a unit vector v and C = R'R with first eigenvector u, |C^k v|^(1/k) is at most the
    norm of C, and at least this norm times |v'u|^(1/k). P(|v'u| < t) < 0.8 t sqrt(p); the power of 8 of this is 1e-6 at t = 0.22 / sqrt(p)
    (Dixon 1983), so that two R in a million have a larger condition number.
    """
    p = len(R)
    n_steps = 8
    start = np.random.default_rng(0).normal(size=(p, 8))
    start /= np.linalg.norm(start, axis=0)
    high, low = start, start
    for _ in range(n_steps):
        # C = R'R and C^-1
        high = R.T @ (R @ high)
        low = solve_upper(R, solve_upper(R, low, transpose=True))
    size = (np.linalg.norm(V, axis=0).max() for V in (high, low))
    # condition = sqrt(|C| |C^-1|)
    return float(
        np.sqrt(np.prod([s ** (1 / n_steps) for s in size]))
        * (np.sqrt(p) / 0.22) ** (1 / n_steps)
    )


# ---- means and standard deviations ----


def _column_moments(
    X: Array, Y: Array, w: Array | None, sums: Array, squares: Array
) -> tuple[Array, Array, float]:
    """Return the weighted means and standard deviations of the columns of [X Y], exactly 0 for a constant column, and sum(w)."""
    columns = [np.asarray(a, dtype=float) for a in (*X.T, *Y.T)]
    weights = np.ones(len(X)) if w is None else w
    total = float(weights.sum())
    mean = np.asarray(sums / total, dtype=float)
    # E[a^2] - E[a]^2 loses its digits if it is a small part of E[a^2]
    variance = np.asarray(squares / total - mean**2, dtype=float)
    for j in np.flatnonzero(variance <= 1e-2 * squares / total):
        constant = variance[j] < 1e-12 * squares[j] / total and np.ptp(columns[j]) == 0
        variance[j] = 0.0 if constant else weights @ (columns[j] - mean[j]) ** 2 / total
    return mean, np.sqrt(variance), total
