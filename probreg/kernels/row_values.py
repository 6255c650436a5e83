"""The values of a process at its distinct rows as its columns, for a process whose hyperparameters differ between draws.

Columns phi(x) = k(x, A) T move with the hyperparameters of k; the values f(a) at the rows A do not. A column is 1 at one of these rows
and 0 at every other point, so that it says nothing of the process elsewhere: given f(A) and k, f is there a process with the mean
k(x, A) k(A, A)^+ f(A) and the covariance that the columns of k leave, both at the hyperparameters of the draw.
"""

from dataclasses import dataclass, replace
from functools import cached_property
from typing import Self

import numpy as np
from scipy.linalg import lapack

from probreg.arguments.types import ArrayLike
from probreg.kernels.anchored import AnchoredBasis, exact
from probreg.kernels.base import CovarianceFunction
from probreg.kernels.basis import Beyond, KernelBasis
from probreg.kernels.pairs import Array, RowPairs
from probreg.numerics.linalg import inverse_upper

_PIVOT = 32  # n eps max k(x, x): a smaller pivot is off by its own size, and its column explains more off the rows than there is


@dataclass(frozen=True, eq=False)
class RowValues(KernelBasis):
    """Columns that are 1 at one of the distinct rows A (a, d), and 0 elsewhere; `phi` are those of k at its own hyperparameters."""

    anchors: Array
    rows: int  # that it was made of

    projection = True
    elsewhere = False

    @property
    def size(self) -> int:
        return len(self.anchors)

    @property
    def error_words(self) -> str:
        return f"exact: the columns are the values at the {self.size} distinct of {self.rows} rows"

    def values(self, rows: Array) -> Array:
        both = np.vstack([self.anchors, rows])
        place = np.unique(both, axis=0, return_inverse=True)[1].ravel()
        return np.asarray(place[self.size :, None] == place[: self.size], dtype=float)

    @cached_property
    def _columns_of_kernel(self) -> AnchoredBasis:
        return exact(self.kernel, self.anchors)

    def phi(self, rows: Array) -> Array:
        return self._columns_of_kernel.values(rows)

    def rebuilt(self, kernel: CovarianceFunction, X: ArrayLike) -> KernelBasis:
        return exact(kernel, self.anchors)

    def left_over(self, left: Array, largest: Array) -> Array:
        return self._columns_of_kernel.left_over(left, largest)

    def with_kernel(self, kernel: CovarianceFunction) -> Self:
        return replace(self, kernel=kernel)

    def first_beyond(self, rows: Array) -> Beyond | None:
        return None

    @property
    def ends(self) -> Array | None:
        return None

    def check_shapes(self) -> bool:
        return self.anchors.ndim == 2 and self.anchors.shape[1] == self.width


def root_at_rows(kernel: CovarianceFunction, A: Array) -> tuple[AnchoredBasis, Array, list[int]]:
    """The basis of the greedy anchors among rows A (a, d) that explain k at all of them up to rounding, its columns F (a, q) there, with
    F F' = k(A, A), and the places of the anchors.

    >>> from probreg.kernels.stationary import RBF
    >>> made, F, places = root_at_rows(RBF(1.0), np.array([[0.0], [1.0], [3.0]]))
    >>> bool(np.allclose(F @ F.T, RBF(1.0)([0.0, 1.0, 3.0]))), made.size
    (True, 3)
    """
    K = kernel.matrix(RowPairs(A, A))
    tol = _PIVOT * len(A) * np.finfo(float).eps * float(np.abs(np.diagonal(K)).max())
    # P'K P = L L' with the largest variance that is left as the next pivot; below tol it is mostly rounding
    c, pivots, rank, _ = lapack.dpstrf(K, tol=tol, lower=1)
    order, L = pivots - 1, np.tril(c)[:, :rank]
    F = np.empty_like(L)
    F[order] = L
    places = order[:rank]
    T = inverse_upper(np.ascontiguousarray(L[:rank].T))  # k(A, A_p) L_p'^-1 = L
    return AnchoredBasis(kernel, "exact", A.shape[1], 0.0, True, A[places], T, len(A)), F, places.tolist()
