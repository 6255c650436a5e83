"""Bases with anchors A (a, d): phi(x) = k(x, A) T, so that phi(x)'phi(z) = k(x, A) k(A, A)^+ k(A, z), a projection of the process.

The residual R = k - phi'phi is the covariance of the process given its values at the anchors: it is positive semidefinite, and
k(x, x) at a row far from all of them.

`RowValues` has the values of a process at its distinct rows as coefficients, so that hyperparameters can differ between draws.

Columns phi(x) = k(x, A) T change with the hyperparameters of k; the values f(a) at the rows A do not. A column is 1 at one of these
rows and 0 at every other point. At other points f, given f(A) and k, is a process with the mean k(x, A) k(A, A)^+ f(A) and the
residual covariance of the columns of k, both at the hyperparameters of the draw.
"""

from dataclasses import dataclass, replace
from functools import cached_property, partial
from typing import Any, Self

import numpy as np
from scipy.linalg import lapack

from probreg.arguments.scalars import ArrayLike, Count, Fraction, check_arguments
from probreg.errors import DataError
from probreg.kernels.base import (
    Array,
    CovarianceFunction,
    RowPairs,
    pivoted_root,
    refuse_indefinite,
)
from probreg.kernels.basis import BASES, KernelBasis, distinct_rows, resolved_at
from probreg.linalg import inverse_upper, one_blas_thread, root_of_pseudo_inverse
from probreg.linalg.lazy_array import LazyArray


@dataclass(frozen=True, eq=False)
class AnchoredBasis(KernelBasis):
    """Columns k(x, A) T with anchors A (a, d) and T (a, q)."""

    anchors: Array
    T: Array | LazyArray
    rows: int  # number of rows it was made from

    projection = True

    @property
    def size(self) -> int:
        return self.T.shape[1]

    @property
    def error_words(self) -> str:
        if self.kind == "exact":
            return f"exact: the products of {self.size} columns are k between all {self.rows} rows, up to rounding"
        return f"{self.kind}: {self.size} columns leave a mean variance of {self.error:.3g} at {self.rows} rows, trace(K - Q)/n"

    def values(self, rows: Array) -> Array:
        return self.kernel.matrix(RowPairs(rows, self.anchors)) @ self.T

    def rebuilt(
        self, kernel: CovarianceFunction, X: ArrayLike, **settings: Any
    ) -> KernelBasis:
        return BASES[self.kind](kernel, X, **settings)

    def left_over(self, left: Array, largest: Array) -> Array:
        # a variance below -1e-8 of the largest k(x, x) is not rounding
        below = -1e-8 * np.abs(largest).max(initial=0.0)
        if (left < below).any():
            i = int(np.argmin(left))
            raise DataError(
                f"row {i} has k(x, x) = {largest[i]:.6g}, and this basis explains {largest[i] - left[i]:.6g} of it: "
                f"{self.kernel} is no covariance function there"
            )
        return np.maximum(left, 0.0)

    def with_kernel(self, kernel: CovarianceFunction) -> Self:
        return replace(self, kernel=kernel, T=_whitening_matrix(kernel, self.anchors))

    def check_shapes(self) -> bool:
        return self.anchors.ndim == self.T.ndim == 2 and self.anchors.shape == (
            len(self.T),
            self.width,
        )


@check_arguments
def exact(kernel: CovarianceFunction | str, X: ArrayLike) -> AnchoredBasis:
    """The basis of all distinct rows: K = U diag(w) U', phi(x) = k(x, X) U w^-1/2, without error at the rows.

    Eigenvalues below n eps times the largest are rounding, and left out. Rows that occur twice count once.

    Parameters
    ----------
    kernel : CovarianceFunction or str
        The covariance function.
    X : array (n, d)
        At most 5,000 distinct rows.

    Returns
    -------
    AnchoredBasis
        The basis, with at most as many columns as distinct rows.
    """
    resolved, rows = resolved_at(kernel, X)
    anchors = distinct_rows(rows)
    refuse_many(len(anchors))
    T = _whitening_matrix(resolved, anchors)
    return AnchoredBasis(
        resolved, "exact", rows.shape[1], 0.0, True, anchors, T, len(rows)
    )


def refuse_many(n: int) -> None:
    """Raise DataError for more than 5,000 distinct rows of an exact basis."""
    # 5,000 rows have a matrix of 0.2 GB, and its eigenvectors take a minute
    if n > 5000:
        size = f"{n:,} x {n:,} numbers, {8e-9 * n * n:.1f} GB"
        raise DataError(
            f"an exact basis of {n:,} distinct rows takes matrices of {size}: write 'cholesky' in its place"
        )


@check_arguments
def cholesky(
    kernel: CovarianceFunction | str,
    X: ArrayLike,
    *,
    tol: Fraction = 1e-6,
    size: Count | None = None,
) -> AnchoredBasis:
    """The basis of a pivoted Cholesky factorisation: greedy anchors, until trace(K - Q) <= tol trace(K).

    Each anchor is the row with the largest residual variance given the earlier anchors. It takes O(n q^2) time and n q numbers, and is not
    random.

    Parameters
    ----------
    kernel : CovarianceFunction or str
        The covariance function.
    X : array (n, d)
        Any number of rows.
    tol : float
        The largest residual share of the total variance of the rows.
    size : int, optional
        The largest number of columns; by default 2,000, or fewer so that n q numbers fit in 0.8 GB.

    Returns
    -------
    AnchoredBasis
        Its `error` is trace(K - Q) / n.

    References
    ----------
    Harbrecht, Peters & Schneider 2012.
    """
    resolved, rows = resolved_at(kernel, X)
    if size is not None:
        n_distinct = len(distinct_rows(rows))
        if size > n_distinct:
            raise DataError(
                f"size={size}: expected at most {n_distinct}, the number of distinct rows"
            )
    # by default 2,000 anchors, or fewer so that the columns of all rows take at most 0.8 GB
    unasked = min(2000, max(10**8 // len(rows), 1))
    d = resolved.diagonal(rows)
    largest = float(np.abs(d).max())

    def check(left: Array, anchors: list[int]) -> None:
        refuse_negative_variance(resolved, rows, left, largest, rows[anchors])

    check(d, [])
    if not d.sum() > 0:
        raise DataError(f"{resolved} is 0 at every row, so it has no columns there")
    pivots, G, d = pivoted_root(
        d,
        lambda i: resolved.matrix(RowPairs(rows[i : i + 1], rows))[0],
        max_rank=min(size or unasked, len(rows)),
        floor=len(rows) * np.finfo(float).eps * largest,
        tol=tol,
        check=check,
    )
    # K_AA = L L' with L' the columns of G at the pivots, and Q = K_xA L'^-1 L^-1 K_Ax
    T = inverse_upper(np.ascontiguousarray(G[:, pivots]))
    return AnchoredBasis(
        resolved,
        "cholesky",
        rows.shape[1],
        float(d.sum()) / len(rows),
        True,
        rows[pivots],
        T,
        len(rows),
    )


def _whitening_matrix(kernel: CovarianceFunction, A: Array) -> Array:
    """T (n, r) with T'K T = I, K = k(A, A), and the span of K.

    r is the number of eigenvalues above n eps times the largest one, of K scaled to a unit diagonal.
    """
    with one_blas_thread():  # two threads save a third of its time, and on a busy machine take forty times as long
        K = kernel.matrix(RowPairs(A, A))
        root = root_of_pseudo_inverse(K, len(A) * np.finfo(float).eps)
    if not root.any():
        raise DataError(f"{kernel} is 0 at every row, so it has no columns there")
    return np.ascontiguousarray(root[:, ::-1])


def refuse_negative_variance(
    kernel: CovarianceFunction,
    rows: Array,
    residual_variance: Array,
    largest: float,
    A: Array,
) -> None:
    """Raise DataError if a residual variance is negative because k is indefinite at x and the anchors.

    left_i = k(x_i, x_i) - k(x_i, A) k(A, A)^+ k(A, x_i) < 0 comes from a negative eigenvalue of k at A and x_i, or from rounding
    of a nearly singular k(A, A), which is no error.
    """
    i = int(np.argmin(residual_variance))
    # a variance below -1e-6 of the largest k(x, x) may come from a negative eigenvalue of k
    if residual_variance[i] < -1e-6 * largest:
        anchors_and_row = np.vstack([A, rows[i : i + 1]])
        refuse_indefinite(kernel.matrix(RowPairs(anchors_and_row, anchors_and_row)))


BASES.update({"exact": exact, "cholesky": cholesky})


@dataclass(frozen=True, eq=False)
class RowValues(KernelBasis):
    """Columns that are 1 at one of the distinct rows A (a, d), and 0 elsewhere; `phi` gives the columns of k."""

    anchors: Array
    rows: int  # number of rows it was made from

    projection = True
    elsewhere = False

    @property
    def size(self) -> int:
        return len(self.anchors)

    @property
    def error_words(self) -> str:
        return f"exact: the columns are the values at the {self.size} distinct of {self.rows} rows"

    def values(self, rows: Array) -> Array:
        all_rows = np.vstack([self.anchors, rows])
        place = np.unique(all_rows, axis=0, return_inverse=True)[1].ravel()
        return np.asarray(place[self.size :, None] == place[: self.size], dtype=float)

    @cached_property
    def _columns_of_kernel(self) -> AnchoredBasis:
        return exact(self.kernel, self.anchors)

    def phi(self, rows: Array) -> Array:
        return self._columns_of_kernel.values(rows)

    def rebuilt(
        self, kernel: CovarianceFunction, X: ArrayLike, **settings: Any
    ) -> KernelBasis:
        return exact(kernel, self.anchors)

    def left_over(self, left: Array, largest: Array) -> Array:
        return self._columns_of_kernel.left_over(left, largest)

    def with_kernel(self, kernel: CovarianceFunction) -> Self:
        return replace(self, kernel=kernel)

    def check_shapes(self) -> bool:
        return self.anchors.ndim == 2 and self.anchors.shape[1] == self.width


def root_at_rows(
    kernel: CovarianceFunction, A: Array
) -> tuple[AnchoredBasis, Array, list[int]]:
    """Return the basis with greedy anchors among rows A (a, d) that determine k at all these rows up to rounding, its columns F (a, q)
    at the rows, with F F' = k(A, A), and the places of the anchors.

    >>> from probreg.kernels.functions import RBF
    >>> made, F, places = root_at_rows(RBF(1.0), np.array([[0.0], [1.0], [3.0]]))
    >>> bool(np.allclose(F @ F.T, RBF(1.0)([0.0, 1.0, 3.0]))), made.size
    (True, 3)
    """
    F, L, places = _pivoted_root(kernel.matrix(RowPairs(A, A)))
    return _anchored_basis(kernel, A[places], L), F, places.tolist()


def _least_pivot(K: Array) -> float:
    """A pivot of K below this is mostly rounding."""
    return (
        # n eps max k(x, x): a smaller pivot has an error of its own size, and its column can exceed k(x, x) at other rows
        32 * len(K) * float(np.finfo(float).eps) * float(np.abs(np.diagonal(K)).max())
    )


def _pivoted_root(K: Array) -> tuple[Array, Array, Array]:
    """Return F (a, q) with F F' = K, its lower triangular rows L (q, q) at the pivots, and the places (q,) of the
    pivots."""
    # P'K P = L L' with the largest residual variance as the next pivot. K.T is K in the order of LAPACK, which overwrites it
    c, pivots, rank, _ = lapack.dpstrf(K.T, tol=_least_pivot(K), lower=1, overwrite_a=1)
    order = pivots - 1
    L = np.tril(c[:, :rank])
    F = np.empty((len(K), rank))
    F[order] = L
    return F, L[:rank], order[:rank]


def _anchored_basis(kernel: CovarianceFunction, A: Array, L: Array) -> AnchoredBasis:
    """The basis of anchors A with k(A, A) = L L': k(x, A) L'^-1 at A is L."""
    T = LazyArray(L.shape, partial(_inverse_transpose, L))
    return AnchoredBasis(kernel, "exact", A.shape[1], 0.0, True, A, T, len(A))


def exact_by_cholesky(
    kernel: CovarianceFunction | str, X: ArrayLike
) -> tuple[AnchoredBasis, Array]:
    """The exact basis of rows X (n, d) by a pivoted Cholesky factor, which takes a tenth of the time of eigenvectors, and its columns
    (n, q) at the rows.

    DataError for more than 5,000 distinct rows, and for a function that is not positive semidefinite at them.

    >>> from probreg.kernels.functions import RBF
    >>> made, F = exact_by_cholesky(RBF(1.0), [0.0, 1.0, 3.0, 1.0])
    >>> made.kind, made.size, bool(np.allclose(F @ F.T, RBF(1.0)([0.0, 1.0, 3.0, 1.0])))
    ('exact', 3, True)
    """
    resolved, rows = resolved_at(kernel, X)
    _, first, which = np.unique(rows, axis=0, return_index=True, return_inverse=True)
    order = np.argsort(first)
    refuse_many(len(first))
    A = rows[first[order]]
    K = resolved.matrix(RowPairs(A, A))
    L, failed = lapack.dpotrf(K.T, lower=1)
    # at other rows the residual variance has the rounding of k times the condition number, which pivots in the order of the rows do not bound
    regular = 1e-6 * np.diagonal(K).max()
    if not failed and np.diagonal(L).min() ** 2 > regular:
        made_basis, F = (
            _anchored_basis(resolved, A, L),
            L,
        )  # of all rows in their order, where k(A, A) is regular
    else:
        d = np.diagonal(K).copy()
        F, L, places = _pivoted_root(K)
        if not len(L):
            raise DataError(f"{resolved} is 0 at every row, so it has no columns there")
        refuse_negative_variance(
            resolved,
            A,
            d - np.einsum("ij,ij->i", F, F),
            float(np.abs(d).max()),
            A[places],
        )
        made_basis = _anchored_basis(resolved, A[places], L)
    # row i of X is row place_i of the distinct rows, which are in the order of their first appearance
    place = np.argsort(order)[which.ravel()]
    return replace(made_basis, rows=len(rows)), F if len(A) == len(rows) else F[place]


def _inverse_transpose(L: Array) -> Array:
    return inverse_upper(np.ascontiguousarray(L.T))
