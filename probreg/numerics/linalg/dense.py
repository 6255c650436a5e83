"""Triangular factors of small arrays, in extended precision where that is quick, and solves with them."""

from typing import Any

import numpy as np
from numpy.typing import ArrayLike, NDArray
from scipy.linalg import lapack, solve_triangular

Array = NDArray[Any]

EXTENDED = 200_000  # n q^2 up to which a factor is found in extended precision, one or two milliseconds


def solve_upper(R: Array, b: Array, *, transpose: bool = False) -> Array:
    """The solution x of R x = b, or of R' x = b, for R (p, p) upper triangular and b (p,) or (p, k), in their precision.

    >>> solve_upper(np.array([[2.0, 1.0], [0.0, 4.0]]), np.array([4.0, 8.0]))
    array([1., 2.])
    """
    if np.result_type(R, b) != np.longdouble:
        return np.asarray(solve_triangular(R, b, trans="T" if transpose else "N", check_finite=False))
    L, order = (R.T, range(len(R))) if transpose else (R, range(len(R) - 1, -1, -1))
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
    return np.triu(lapack.dtrtri(R)[0])


def floating(A: ArrayLike) -> Array:
    A = np.asarray(A)
    return A if A.dtype == np.longdouble else A.astype(float, copy=False)


def norms(F: Array) -> Array:
    norms = np.sqrt(np.einsum("ij,ij->j", F, F))
    return np.where(norms > 0, norms, 1)


def positive_diagonal(F: Array) -> Array:
    return np.where(np.diag(F) < 0, -1, 1)[:, None] * F


def factor_of(A: Array) -> Array:
    """The factor of A by Householder QR, square even when A has fewer rows than columns."""
    q = A.shape[1]
    if A.dtype == np.longdouble and A.size * q <= EXTENDED:
        return householder(A)
    R = np.linalg.qr(A.astype(float, copy=False), mode="r")
    return positive_diagonal(np.vstack([R, np.zeros((q - len(R), q))]))


def householder(A: Array) -> Array:
    """No LAPACK works on longdouble. Columns are stored as rows, so that reflections run along memory."""
    q, T = A.shape[1], np.array(A.T, dtype=np.longdouble, order="C")
    for j in range(min(q, len(A))):
        v = T[j, j:].copy()
        norm = np.sqrt(v @ v)
        if norm == 0:
            continue
        T[j, j], T[j, j + 1 :] = -np.copysign(norm, v[0]), 0
        # v = a + sign(a_1) |a| e_1: the reflection 1 - 2 v v'/v'v takes a to -sign(a_1) |a| e_1, without cancellation.
        v[0] += np.copysign(norm, v[0])
        T[j + 1 :, j:] -= (T[j + 1 :, j:] @ v * (2 / (v @ v)))[:, None] * v
    F = np.zeros((q, q), dtype=np.longdouble)
    F[: min(q, len(A))] = T.T[:q]
    return positive_diagonal(np.triu(F))


def extended(A: Array, w: Array | None) -> Array:
    return householder(A if w is None else A * np.sqrt(w.astype(np.longdouble))[:, None])


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
