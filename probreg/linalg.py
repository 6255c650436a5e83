"""Triangular factors and weighted Gram matrices of tall arrays: numbers only, no statistics.

Everything a Gaussian model needs of the rows of A = [X y] is its upper triangular factor F, F'F = A' diag(w) A. It is
found without ever relying on A'A of an ill-conditioned A; rows are visited in blocks that stay in cache and are shared by
the cores.
"""

import os
from collections.abc import Callable, Iterable, Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager, nullcontext
from contextvars import copy_context
from dataclasses import dataclass
from functools import cache
from itertools import pairwise
from typing import Any

import numpy as np
from numpy.typing import ArrayLike, NDArray
from scipy.linalg import cholesky, lapack, solve_triangular

Array = NDArray[Any]
Sums = tuple[Array, ...]
dot = np.dot  # inside blocks, in place of @: see map_blocks

EXTENDED = 200_000  # n q^2 up to which a factor is found in extended precision, one or two milliseconds
EASY = 5.0  # condition up to which R'z = X'y loses no digit worth the name
WELL = 30.0  # condition up to which one Cholesky factor is as good as QR: WELL^2 eps is 2e-13
POOR = 1e7  # condition past which a Gram matrix has lost the small directions and only Householder QR will do
CLOSE = 1e-3  # part of y outside the span of X below which y'y - z'z loses too many digits
RANK_TOL = 2.0**-43  # about 512 eps: see rank_of
_BLOCK = 2**18  # numbers in one block of rows: 2 MB, what a core holds in its caches
_GROUPS = 8  # blocks are added up in this many groups on any machine, so that sums do not depend on its cores


# ------------------------------------------------------------------------------------------- blocks of rows
def row_blocks(n: int, width: int) -> list[slice]:
    """Consecutive slices that cover n rows of `width` numbers, each of 1024 to 16384 rows and about 2 MB.

    >>> row_blocks(40_000, 20)
    [slice(0, 13107, None), slice(13107, 26214, None), slice(26214, 39321, None), slice(39321, 40000, None)]
    """
    rows = min(max(_BLOCK // max(width, 1), 1024), 16384)
    return [slice(start, min(start + rows, n)) for start in range(0, n, rows)] or [slice(0, 0)]


def map_blocks(fn: Callable[[slice], Sums], blocks: Sequence[slice]) -> Sums:
    """The sums over blocks of the arrays fn(block) returns, on all cores with BLAS kept to one thread each.

    The order of the additions is fixed by the blocks alone, so the result is the same on any number of cores. `fn` must
    not write to anything shared, and should multiply by `np.dot`: the operator @ keeps the interpreter's lock when its
    result has fewer than 500 numbers, and the threads then wait for each other.

    >>> x = np.arange(5.0)
    >>> map_blocks(lambda rows: (x[rows].sum(), (x[rows] ** 2).sum()), [slice(0, 3), slice(3, 5)])
    (array(10.), array(30.))
    """
    edges = np.linspace(0, len(blocks), min(_GROUPS, len(blocks)) + 1).astype(int)
    groups = [blocks[a:b] for a, b in pairwise(edges)]
    workers = min(len(groups), os.cpu_count() or 1) if len(groups) > 1 else 1
    if workers == 1:
        with one_blas_thread():
            return _add(_add(map(fn, group)) for group in groups)
    tasks = [(copy_context(), group) for group in groups]  # carries np.errstate into the threads
    with one_blas_thread(), ThreadPoolExecutor(workers) as pool:
        return _add(pool.map(lambda task: task[0].run(_add, map(fn, task[1])), tasks))


def sweep(X: Array, fn: Callable[[slice, Array], Sums]) -> Sums:
    """The sums over blocks of rows of the arrays fn(rows, X[rows]) returns: one pass over X, each block read once.

    >>> X = np.ones((6, 2))
    >>> sweep(X, lambda rows, block: (block.sum(axis=0), block.T @ block))[0]
    array([6., 6.])
    """
    return map_blocks(lambda rows: fn(rows, X[rows]), row_blocks(*X.shape))


def _add(parts: Iterable[Sums]) -> Sums:
    total: Sums = ()
    for part in parts:
        if not total:
            total = tuple(np.array(a) for a in part)
            continue
        for a, b in zip(total, part, strict=True):
            np.add(a, b, out=a)  # in place: a new array for every block would cost more than the addition
    return total


@cache
def _blas() -> Any:
    from threadpoolctl import ThreadpoolController

    return ThreadpoolController()  # finding the libraries takes a millisecond, limiting them a hundredth


@contextmanager
def one_blas_thread() -> Iterator[None]:
    """BLAS and LAPACK kept to one thread, as a context or a decorator, for matrices of at most some thousand columns.

    A second thread saves them microseconds when a core is idle, and costs milliseconds for every call when none is.

    >>> with one_blas_thread():
    ...     print(np.linalg.cholesky(np.eye(2)).trace())
    2.0
    """
    controller = _blas()
    with controller.limit(limits=1, user_api="blas") if controller.lib_controllers else nullcontext():
        yield


# ---------------------------------------------------------------------------------------- triangular solves
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


# --------------------------------------------------------------------------------------- triangular factors
@dataclass(frozen=True, eq=False)
class Reduction:
    """The factor F (q, q) of sqrt(w) [X y] with the weighted means and standard deviations of its q columns and sum(w)."""

    factor: Array
    mean: Array
    scale: Array
    weight: float


def triangular(X: ArrayLike, y: ArrayLike | None = None, *, weights: ArrayLike | None = None) -> Array:
    """The upper triangular F (q, q), diagonal >= 0, with F'F = A' diag(w) A for A = [X y] of q columns.

    X (n, p), y (n,) or (n, k), weights (n,) >= 0. Three ways, chosen by size and by the condition number of the columns of X
    scaled to unit norm:

    - n q^2 <= 2e5: Householder QR in extended precision; F is then `longdouble`.
    - condition below 1e7: Cholesky factor of the Gram matrix; once if the condition is below 30, and the columns of y are
      then refined on their residuals unless they are far from the span of X; else a second time for X R^-1 (CholeskyQR2).
    - otherwise, and for exact collinearity: Householder QR of one block of rows after the other (TSQR).

    All three have the accuracy of QR; exact collinearity leaves diagonal elements of the size of rounding error. Columns
    need not be scaled. Values that are not finite come out as an F that is not.
    Sources: Yamamoto et al. (2015) for CholeskyQR2, Demmel et al. (2012) for TSQR, Bjorck (1987) for the refinement.

    >>> triangular([[3.0, 1.0], [4.0, 1.0]]).astype(float)
    array([[5. , 1.4],
           [0. , 0.2]])
    """
    return reduce_rows(X, y, weights=weights).factor


@one_blas_thread()
def reduce_rows(X: ArrayLike, y: ArrayLike | None = None, *, weights: ArrayLike | None = None) -> Reduction:
    """The factor of sqrt(w) [X y] (see `triangular`) and the weighted moments of its columns, in as few passes as can be.

    >>> reduce_rows([[1.0], [3.0]], [0.0, 0.0]).mean
    array([2., 0.])
    """
    X, Y = _floating(X), None if y is None else _floating(y)
    Y = np.empty((len(X), 0)) if Y is None else Y.reshape(len(X), -1)
    w = None if weights is None else np.asarray(weights, dtype=float)
    total = float(len(X)) if w is None else float(w.sum())
    q = X.shape[1] + Y.shape[1]
    with np.errstate(all="ignore"):  # values that are not finite come out in F, where the caller finds them
        if len(X) * q * q <= EXTENDED:
            A = np.hstack([X, Y])
            return Reduction(_extended(A, w), *_centre(A, w, total), total)
        X, Y = X.astype(float, copy=False), Y.astype(float, copy=False)
        return _cholesky_qr(X, Y, w, total) or Reduction(_tsqr(X, Y, w), *_centre_blocks(X, Y, w, total), total)


def merge(F1: Array, F2: Array) -> Array:
    """The factor of the rows behind F1 and F2 together: F'F = F1'F1 + F2'F2.

    >>> merge(np.array([[3.0]]), np.array([[4.0]]))
    array([[5.]])
    """
    return _qr(np.vstack([F1, F2]))


def downdate(F1: Array, F2: Array) -> Array:
    """The factor of the rows behind F1 without those behind F2: F'F = F1'F1 - F2'F2.

    Raises ValueError when the difference is not positive semidefinite: those rows cannot have been in F1.

    >>> downdate(np.array([[5.0]]), np.array([[3.0]])).astype(float)
    array([[4.]])
    """
    scale = _norms(F1)
    A, B = (np.asarray(F / scale, dtype=np.longdouble) for F in (F1, F2))
    if rank_of(A).rank == len(A):  # I - P'P with P = F2 F1^-1 loses nothing to the condition of F1
        P = solve_upper(A, B.T, transpose=True).T
        left = _semidefinite(np.eye(len(A), dtype=np.longdouble) - P.T @ P, 1e-8) @ A
    else:
        left = _semidefinite(A.T @ A - B.T @ B, 1e-8)
    return _positive(np.triu(left) * scale).astype(np.result_type(F1, F2))


def _floating(A: ArrayLike) -> Array:
    A = np.asarray(A)
    return A if A.dtype == np.longdouble else A.astype(float, copy=False)


def _norms(F: Array) -> Array:
    norms = np.sqrt(np.einsum("ij,ij->j", F, F))
    return np.where(norms > 0, norms, 1)


def _positive(F: Array) -> Array:
    return np.where(np.diag(F) < 0, -1, 1)[:, None] * F


def _qr(A: Array) -> Array:
    """The factor of A by Householder QR, square even when A has fewer rows than columns."""
    q = A.shape[1]
    if A.dtype == np.longdouble and A.size * q <= EXTENDED:
        return _householder(A)
    R = np.linalg.qr(A.astype(float, copy=False), mode="r")
    return _positive(np.vstack([R, np.zeros((q - len(R), q))]))


def _householder(A: Array) -> Array:
    """No LAPACK works on longdouble. Columns are stored as rows, so that reflections run along memory."""
    q, T = A.shape[1], np.array(A.T, dtype=np.longdouble, order="C")
    for j in range(min(q, len(A))):
        v = T[j, j:].copy()
        norm = np.sqrt(v @ v)
        if norm == 0:
            continue
        T[j, j], T[j, j + 1 :] = -np.copysign(norm, v[0]), 0
        v[0] += np.copysign(norm, v[0])
        T[j + 1 :, j:] -= (T[j + 1 :, j:] @ v * (2 / (v @ v)))[:, None] * v
    F = np.zeros((q, q), dtype=np.longdouble)
    F[: min(q, len(A))] = T.T[:q]
    return _positive(np.triu(F))


def _extended(A: Array, w: Array | None) -> Array:
    return _householder(A if w is None else A * np.sqrt(w.astype(np.longdouble))[:, None])


def _tsqr(X: Array, Y: Array, w: Array | None) -> Array:
    q = X.shape[1] + Y.shape[1]
    F = np.zeros((0, q))
    with one_blas_thread():  # more threads than that only wait for each other in factors as small as these
        for rows in row_blocks(len(X), q):
            A = np.hstack([X[rows], Y[rows]])
            A = A if w is None else A * np.sqrt(w[rows])[:, None]
            F = np.linalg.qr(np.vstack([F, A]), mode="r")
    return _qr(F)


def _semidefinite(G: Array, tol: float) -> Array:
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
            L[j, j:] = G[j, j:] / np.sqrt(G[j, j])
            G[j:, j:] -= np.outer(L[j, j:], L[j, j:])
    return L


# ---------------------------------------------------------------------------------- large, well conditioned
def _cholesky_qr(X: Array, Y: Array, w: Array | None, total: float) -> Reduction | None:
    """CholeskyQR2 with refined Y, or None when X is too poorly conditioned for it."""
    G, C, S, *sums = _gram_pass(X, Y, w)
    R, condition = _scaled_cholesky(G)
    if R is None or condition > POOR:
        return None
    Z, rest = solve_upper(R, C, transpose=True), np.zeros_like(S)
    if condition > WELL:
        again = _second_pass(X, Y, w, R, Z)
        if again is None:
            return None
        R, Z = again
        rest = _residual_pass(X, Y, w, R, Z)[1]
    else:
        rest = S - Z.T @ Z
        if condition > EASY or np.any(np.diag(rest) < CLOSE * np.diag(S)):
            step, rest = _residual_pass(X, Y, w, R, Z)
            Z, rest = Z + step, rest - step.T @ step
    F = np.block([[R, Z], [np.zeros((Y.shape[1], len(R))), _semidefinite(rest, np.inf)]])
    return Reduction(
        F, *_centre_gram(X, Y, w, np.r_[*sums] / total, np.r_[np.diag(G), np.diag(S)] / total, total), total
    )


def _gram_pass(X: Array, Y: Array, w: Array | None) -> Sums:
    def block(rows: slice) -> Sums:
        A, B, one = X[rows], Y[rows], np.ones(rows.stop - rows.start)
        if w is not None:
            one = np.sqrt(w[rows])
            A, B = A * one[:, None], B * one[:, None]
        return dot(A.T, A), dot(A.T, B), dot(B.T, B), dot(one, A), dot(one, B)

    return map_blocks(block, row_blocks(*X.shape))


def _second_pass(X: Array, Y: Array, w: Array | None, R: Array, Z: Array) -> tuple[Array, Array] | None:
    """R and Z = Q'Y once more from the columns of X R^-1, which are orthonormal but for rounding, and from Y - X B."""
    T, B = inverse_upper(R), solve_upper(R, Z)

    def block(rows: slice) -> Sums:
        Q, E = dot(X[rows], T), Y[rows] - dot(X[rows], B)
        if w is not None:
            root = np.sqrt(w[rows])[:, None]
            Q, E = Q * root, E * root
        return dot(Q.T, Q), dot(Q.T, E)

    G, QE = map_blocks(block, row_blocks(*X.shape))
    S, condition = _scaled_cholesky(G)
    if S is None or condition > WELL:
        return None
    R2 = np.triu(S @ R)
    return R2, R2 @ B + solve_upper(S, QE, transpose=True)


def _residual_pass(X: Array, Y: Array, w: Array | None, R: Array, Z: Array) -> tuple[Array, Array]:
    """The correction of Z by the seminormal equations R'step = X'W(Y - X B), and the residual products of Y - X B."""
    B = solve_upper(R, Z)

    def block(rows: slice) -> Sums:
        E = Y[rows] - dot(X[rows], B)
        V = E if w is None else E * w[rows, None]
        return dot(X[rows].T, V), dot(E.T, V)

    XE, EE = map_blocks(block, row_blocks(*X.shape))
    return solve_upper(R, XE, transpose=True), EE


def _scaled_cholesky(G: Array) -> tuple[Array | None, float]:
    """The Cholesky factor of G and the condition number (1-norm, estimated) of that factor with unit columns."""
    scale = np.sqrt(np.diag(G))
    if not np.all((scale > 0) & (scale < np.inf)):
        return None, np.inf
    try:
        R = cholesky(G / np.outer(scale, scale), check_finite=False)
    except np.linalg.LinAlgError:
        return None, np.inf
    return R * scale, 1 / max(lapack.dtrcon(R)[0], 1e-300)


# ---------------------------------------------------------------------------- means and standard deviations
def _centre(A: Array, w: Array | None, total: float) -> tuple[Array, Array]:
    w = np.ones(len(A)) if w is None else w
    mean = w @ A / total
    return mean.astype(float), np.sqrt(w @ (A - mean) ** 2 / total).astype(float)


def _centre_blocks(X: Array, Y: Array, w: Array | None, total: float) -> tuple[Array, Array]:
    blocks = row_blocks(*X.shape)

    def weigh(rows: slice) -> Array:
        return np.ones(rows.stop - rows.start) if w is None else w[rows]

    mean = map_blocks(lambda rows: (dot(weigh(rows), np.hstack([X[rows], Y[rows]])),), blocks)[0] / total
    square = map_blocks(lambda rows: (dot(weigh(rows), (np.hstack([X[rows], Y[rows]]) - mean) ** 2),), blocks)[0]
    return mean, np.sqrt(square / total)


def _centre_gram(X: Array, Y: Array, w: Array | None, mean: Array, square: Array, total: float) -> tuple[Array, Array]:
    """From sums of squares; columns that vary little about their mean are done again by centring first."""
    variance = np.maximum(square - mean**2, 0)
    for j in np.flatnonzero(variance < 1e-4 * square):
        a = X[:, j] if j < X.shape[1] else Y[:, j - X.shape[1]]
        if variance[j] < 1e-12 * square[j] and np.ptp(a[:: max(len(a) // 64, 1)]) == 0:
            variance[j] = 0  # the intercept: no second look at a column that does not vary
            continue
        e = (a - mean[j]) ** 2
        variance[j] = (e.sum() if w is None else w @ e) / total
    return mean, np.sqrt(variance)


# ----------------------------------------------------------------------------------------------------- rank
@dataclass(frozen=True, eq=False)
class Rank:
    """Which columns span the column space: indices `kept` and `dropped`, each in the order of the columns.

    combos (len(dropped), len(kept)): column dropped[i] = sum_j combos[i, j] column kept[j].
    """

    rank: int
    kept: tuple[int, ...]
    dropped: tuple[int, ...]
    combos: Array


@one_blas_thread()
def rank_of(R: Array, tol: float | None = None) -> Rank:
    """The numerical rank of the columns of R (p, p) upper triangular, earlier columns kept before later ones.

    Columns are scaled to unit norm. Column j counts as a combination sum_k b_k x_k of earlier kept columns when what is
    left of it is at most tol (1 + sum_k |b_k|): no more than errors of relative size tol in these columns explain. That
    is so exactly when column j of R^-1 has 1-norm at least 1/tol. The default, 2^-43 = 1.1e-13, allows some 500 roundings
    in making the columns, and leaves the powers 0 to 10 of NIST's Filip (where the norm is 4e9) full rank.

    >>> rank_of(np.array([[1.0, 0.0, 1.0], [0.0, 1.0, 2.0], [0.0, 0.0, 1e-16]])).combos
    array([[1., 2.]])
    """
    tol = RANK_TOL if tol is None else tol
    scale = _norms(R)
    S = R / scale
    kept, dropped, T = list(range(R.shape[1])), [], S
    while (j := _first_dependent(T, tol)) is not None:
        share = np.abs(solve_upper(T[:j, :j], T[:j, j:])).sum(axis=0) if j else np.zeros(len(kept))
        gone = np.sqrt((T[j:, j:] ** 2).sum(axis=0)) <= tol * (1 + share)
        gone[0] = True
        dropped += [c for c, out in zip(kept[j:], gone, strict=True) if out]
        kept = kept[:j] + [c for c, out in zip(kept[j:], gone, strict=True) if not out]
        T = _qr(S[:, kept]) if kept else S[:0, :0]
    dropped.sort()
    if not dropped:
        return Rank(len(kept), tuple(kept), (), np.zeros((0, len(kept))))
    b = (_combination(S, kept, dropped) / scale[kept, None] * scale[dropped]).T
    return Rank(len(kept), tuple(kept), tuple(dropped), b.astype(float))


def _first_dependent(S: Array, tol: float) -> int | None:
    tiny = np.sign(np.diag(S)) * 1e-30 + (np.diag(S) == 0) * 1e-30
    T = S - np.diag(np.diag(S)) + np.diag(np.where(np.abs(np.diag(S)) < 1e-30, tiny, np.diag(S)))
    with np.errstate(all="ignore"):
        norms = np.abs(inverse_upper(T)).sum(axis=0)
    bad = np.flatnonzero(~(norms < 1 / tol))
    return int(bad[0]) if bad.size else None


def _combination(S: Array, kept: list[int], dropped: list[int]) -> Array:
    """Coefficients of the unit-norm dropped columns; shares below 1e-9 are rounding, and are zero."""
    F = _qr(np.hstack([S[:, kept], S[:, dropped]]))
    k = len(kept)
    b = solve_upper(F[:k, :k], F[:k, k:])
    return np.where(np.abs(b) < 1e-9, 0, b)


# -------------------------------------------------------------------------------------------- weighted Gram
def weighted_gram(X: Array, W: Array) -> Array:
    """The information matrix H[(a, k), (b, l)] = sum_i X[i, a] W[i, k, l] X[i, b] (p m, p m) of coefficients B (p, m).

    X (n, p); W (n,) for m = 1 or (n, m, m), symmetric, minus the second derivatives in the linear predictor x_i'B. Rows
    and columns are in the order of B.ravel().

    >>> weighted_gram(np.array([[1.0, 2.0], [1.0, 3.0]]), np.array([1.0, 2.0]))
    array([[ 3.,  8.],
           [ 8., 22.]])
    """
    if W.ndim == 1 or W.shape[1] == 1:
        w = W.reshape(len(X))
        return sweep(X, lambda rows, A: (_weighted_block(A, w[rows]),))[0]
    p, m = X.shape[1], W.shape[1]
    upper = list(zip(*np.triu_indices(m), strict=True))

    def block(rows: slice, A: Array) -> Sums:
        return (np.stack([dot(A.T, A * W[rows, k, c, None]) for k, c in upper]),)

    H = np.empty((p, m, p, m))
    for (k, c), part in zip(upper, sweep(X, block)[0], strict=True):
        H[:, k, :, c] = H[:, c, :, k] = (part + part.T) / 2
    return H.reshape(p * m, p * m)


def _weighted_block(A: Array, w: Array) -> Array:
    if w.min(initial=0) < 0:
        G = dot(A.T, A * w[:, None])
        return (G + G.T) / 2
    Z = A * np.sqrt(w)[:, None]
    return dot(Z.T, Z)
