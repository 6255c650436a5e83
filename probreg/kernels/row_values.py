"""The values of a process at its distinct rows as its columns, so that hyperparameters can differ between draws.

Columns phi(x) = k(x, A) T move with the hyperparameters of k; the values f(a) at the rows A do not. A column is 1 at one of these rows
and 0 at every other point, so at other points f is, given f(A) and k, a process with the mean
k(x, A) k(A, A)^+ f(A) and the covariance that the columns of k leave, both at the hyperparameters of the draw.
"""

from dataclasses import dataclass, replace
from functools import cached_property, partial
from typing import Any, Self

import numpy as np
from scipy.linalg import lapack

from probreg.arguments.types import ArrayLike
from probreg.errors import DataError
from probreg.kernels.anchored import (
    AnchoredBasis,
    exact,
    refuse_many,
    refuse_negative_variance,
)
from probreg.kernels.base import CovarianceFunction
from probreg.kernels.basis import KernelBasis, resolved_at
from probreg.kernels.pairs import Array, RowPairs
from probreg.linalg import inverse_upper
from probreg.linalg.lazy_array import LazyArray


@dataclass(frozen=True, eq=False)
class RowValues(KernelBasis):
    """Columns that are 1 at one of the distinct rows A (a, d), and 0 elsewhere; `phi` gives the columns of k."""

    anchors: Array
    rows: int  # number of rows from which it was made

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
    """The basis of the greedy anchors among rows A (a, d) that explain k at all of them up to rounding, its columns F (a, q) there, with
    F F' = k(A, A), and the places of the anchors.

    >>> from probreg.kernels.stationary import RBF
    >>> made, F, places = root_at_rows(RBF(1.0), np.array([[0.0], [1.0], [3.0]]))
    >>> bool(np.allclose(F @ F.T, RBF(1.0)([0.0, 1.0, 3.0]))), made.size
    (True, 3)
    """
    F, L, places = _pivoted_root(kernel.matrix(RowPairs(A, A)))
    return _anchored_basis(kernel, A[places], L), F, places.tolist()


def _least_pivot(K: Array) -> float:
    """A pivot of K below this is mostly rounding."""
    return (
        # n eps max k(x, x): a smaller pivot is off by its own size, and its column explains more off the rows than there is
        32 * len(K) * float(np.finfo(float).eps) * float(np.abs(np.diagonal(K)).max())
    )


def _pivoted_root(K: Array) -> tuple[Array, Array, Array]:
    """Return F (a, q) with F F' = K, its lower triangular rows L (q, q) at the pivots, and the places (q,) of the
    pivots."""
    # P'K P = L L' with the largest variance that is left as the next pivot. K.T is K in the order of LAPACK, which takes it over
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
    (n, q) there.

    DataError for more than 5,000 distinct rows, and for a function that is not positive semidefinite at them.

    >>> from probreg.kernels.stationary import RBF
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
    # off the rows the residual variance has the rounding of k times the condition, which pivots in the order of the rows do not bound
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
    # row i of X is row place_i of the distinct ones, which stand in the order in which they come first
    place = np.argsort(order)[which.ravel()]
    return replace(made_basis, rows=len(rows)), F if len(A) == len(rows) else F[place]


def _inverse_transpose(L: Array) -> Array:
    return inverse_upper(np.ascontiguousarray(L.T))
