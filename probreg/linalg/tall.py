"""The triangular factor of many rows, with the accuracy of QR at the cost of a Gram matrix if the columns allow it."""

from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import ArrayLike, NDArray
from scipy.linalg import cholesky, lapack

from probreg.linalg.blocks import map_blocks, one_blas_thread, row_blocks
from probreg.linalg.factors import (
    EXTENDED,
    factor_of,
    inverse_upper,
    positive_diagonal,
    semidefinite,
    solve_upper,
)

Array = NDArray[Any]
Sums = tuple[Array, ...]


dot = np.dot  # inside blocks, in place of @: see map_blocks

WELL = 30.0  # condition up to which one Cholesky factor is as accurate as QR: WELL^2 eps is 2e-13


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
    """The upper triangular F (q, q), diagonal >= 0, with F'F = A' diag(w) A for A = [X y] of q columns.

    X (n, p), y (n,) or (n, k), weights (n,) >= 0. Three ways, chosen by size and by the condition number of the columns of X
    scaled to unit norm:

    - n q^2 <= 2e5: Householder QR in extended precision; F is then `longdouble`.
    - condition below 1e7: Cholesky factor of the Gram matrix; once if the condition is below 30, and the columns of y are
      then refined on their residuals unless they are far from the span of X; else a second time for X R^-1 (CholeskyQR2).
    - otherwise, for exact collinearity and for at most two rows by column: Householder QR of one block of rows after the other (TSQR).

    All three have the accuracy of QR; exact collinearity leaves diagonal elements of the size of rounding error. Columns
    need not be scaled. Values that are not finite come out as an F that is not.
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
    tall = 2  # rows by columns up to which Householder QR takes fewer products than X'X, X R^-1 and the product of that with itself
    X = np.asarray(X)
    Y = np.empty((len(X), 0)) if y is None else np.asarray(y).reshape(len(X), -1)
    w = None if weights is None else np.asarray(weights, dtype=float)
    ones = np.ones(len(X)) if w is None else w
    q = X.shape[1] + Y.shape[1]
    with np.errstate(
        all="ignore"
    ):  # values that are not finite come out in F, where the caller finds them
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
    easy = 5.0  # condition up to which R'z = X'y loses no significant digits
    poor = 1e7  # condition above which a Gram matrix loses the small directions, so that Householder QR is necessary
    close = 1e-3  # part of y outside the span of X below which y'y - z'z loses too many digits
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
    """The Cholesky factor of G and the condition number of that factor with unit columns, of 1-norm or 2-norm the smaller."""
    scale = np.sqrt(np.diag(G))
    if not np.all((scale > 0) & (scale < np.inf)):
        return None, np.inf
    try:
        # G = D C D with C of unit diagonal: chol(G) = chol(C) D, and the condition is that of unit columns.
        R = cholesky(G / np.outer(scale, scale), check_finite=False)
    except np.linalg.LinAlgError:
        return None, np.inf
    condition = 1 / max(lapack.dtrcon(R)[0], 1e-300)
    if (
        WELL < condition <= WELL * len(R)
    ):  # the 1-norm grows with p for columns that are as good as independent
        condition = min(condition, _condition_2(R))
    return R * scale, condition


def _condition_2(R: Array) -> float:
    """An upper bound of the condition number of R (p, p) in the 2-norm, at most (4.5 sqrt(p))^(1/8) too large: 1.9 at p = 2,000.

    Power iteration from 8 random directions. For a unit vector v and C = R'R with first eigenvector u, |C^k v|^(1/k) is at most the
    norm of C, and at least that times |v'u|^(1/k). P(|v'u| < t) < 0.8 t sqrt(p), which to the power of 8 is 1e-6 at t = 0.22 / sqrt(p)
    (Dixon 1983): two R in a million have a larger condition.
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
