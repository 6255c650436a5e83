"""The residual covariance of sums of a process over rows: averages, differences and slopes off the span of its columns.

A sum l(f) = sum_k c_k f(x_k) has, given the columns, the covariance sum_kl c_k c'_l R(x_k, x_l) with another, R = k - phi'phi. It is
far from the covariance of independent rows: f(10) - f(10.1) of a smooth process is nearly known even if f(10) is not.
"""

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any, Self

import numpy as np

from probreg.errors import DataError
from probreg.kernels.base import Array, RowPairs, pivoted_root
from probreg.kernels.basis import KernelBasis
from probreg.linalg import row_slices

ON_SPAN = 1e-9  # share of the variance of a sum: a sum with a smaller residual is in the span, up to rounding
_NOTHING = 1e-13  # share of the variance of a sum: with a smaller residual its covariances are below 3e-7 of both standard deviations
MOST_PAIRED = 20_000  # up to this number of points all pairs are computed: 2e8 pairs take some seconds
_BLOCK = 2000  # rows of a block: its pairs take 32 MB
_MOST_RANK = 2000  # largest rank of the root of a covariance


@dataclass(frozen=True, eq=False)
class RowSums:
    """Sums l_i(f) = sum_k c_ik f(x_ik): coefficients c (n, s) and rows x (n, s, d). Values have s = 1; slopes are differences.

    >>> RowSums.values(np.array([[0.0], [2.0]])).rows.shape
    (2, 1, 1)
    """

    coefficients: Array
    rows: Array

    @classmethod
    def values(cls, rows: Array) -> "RowSums":
        """f at rows (n, d)."""
        return cls(np.ones((len(rows), 1)), rows[:, None, :])

    @classmethod
    def concatenate(cls, parts: "list[RowSums]") -> "RowSums":
        """All of these, in their order; shorter sums have coefficients of 0."""
        max_terms = max(part.coefficients.shape[1] for part in parts)

        missing = [(0, max_terms - part.coefficients.shape[1]) for part in parts]
        coefficients = [
            np.pad(part.coefficients, [(0, 0), more])
            for part, more in zip(parts, missing)
        ]
        rows = [
            np.pad(part.rows, [(0, 0), more, (0, 0)], mode="edge")
            for part, more in zip(parts, missing)
        ]
        return cls(np.concatenate(coefficients), np.concatenate(rows))

    @property
    def n(self) -> int:
        return len(self.coefficients)

    def take(self, some: Any) -> Self:
        return type(self)(self.coefficients[some], self.rows[some])

    def columns(self, phi: Callable[[Array], Array], size: int) -> Array:
        """l_i(phi), (n, size), of functions phi of rows."""
        sums = np.zeros((self.n, size))
        for k, c in enumerate(self.coefficients.T):
            used = np.flatnonzero(c)
            if len(used):
                sums[used] += c[used, None] * phi(self.rows[used, k])
        return sums

    def variances(self, basis: KernelBasis) -> tuple[Array, Array]:
        """Return the residual variance and the variance of each sum, (n,) each, at tau = 1."""
        # l l k = sum_kl c_k c_l k(x_k, x_l), minus |l(phi)|^2
        total = np.zeros(self.n)
        explained = np.zeros(self.n)
        for part in row_slices(self.n, _BLOCK):
            c = self.coefficients[part]
            x = self.rows[part]
            for k in range(c.shape[1]):
                for m in range(k + 1):
                    active = np.flatnonzero(c[:, k] * c[:, m])
                    if len(active):
                        value = basis.kernel.matrix(
                            RowPairs(x[active, k], x[active, m], aligned=True)
                        )
                        total[part.start + active] += (
                            (1.0 if k == m else 2.0)
                            * c[active, k]
                            * c[active, m]
                            * value
                        )
            explained[part] = np.square(
                self.take(part).columns(basis.phi, basis.size)
            ).sum(1)
        left = total - explained
        left[np.abs(left) <= self.rounding(basis)] = 0.0
        return basis.left_over(left, total), total

    def rounding(self, basis: KernelBasis) -> Array:
        """Return the rounding error of the variance of each sum (n,), which is large where terms cancel, as in a difference quotient."""
        variance = basis.kernel.diagonal(self.rows.reshape(-1, self.rows.shape[-1]))
        sd = np.sqrt(np.abs(variance)).reshape(self.coefficients.shape)
        size = (np.abs(self.coefficients) * sd).sum(1)
        return 32.0 * np.finfo(float).eps * np.square(size)

    def points(self) -> tuple[Array, Any]:
        """The distinct rows (P, d), and the sums as a sparse matrix (n, P) over them."""
        from scipy.sparse import csc_array

        i, k = np.nonzero(self.coefficients)
        rows, place = np.unique(self.rows[i, k], axis=0, return_inverse=True)
        return rows, csc_array(
            (self.coefficients[i, k], (i, place.ravel())), shape=(self.n, len(rows))
        )


def covariance_left(basis: KernelBasis, sums: RowSums, weights: Any) -> Array:
    """A C A' (E, E), where C is the covariance of the sums that the columns leave at tau = 1, and A (E, n) sparse weights.

    It uses blocks of rows, or a root of low rank for more than 20,000 rows. DataError if there is no such root.

    >>> from scipy.sparse import csc_array
    >>> from probreg.kernels import RBF, basis
    >>> far = RowSums.values(np.array([[10.0], [10.1]]))
    >>> covariance_left(basis(RBF(1.0), [0.0, 1.0, 2.0, 4.0]), far, csc_array([[1.0, -1.0]])).round(6)
    array([[0.009975]])
    """
    residual, total = sums.variances(basis)
    off = np.flatnonzero(residual > _NOTHING * total)
    E = weights.shape[0]
    if not len(off):
        return np.zeros((E, E))
    off_sums = sums.take(off)
    A = weights[:, off]
    # a variance below -1e-8 of (sum_i |A_i| sd_i)^2, which bounds it before the columns are known, is not rounding
    bound, rounding = (
        np.square(abs(A) @ np.sqrt(v)) for v in (total[off], off_sums.rounding(basis))
    )
    tolerance = 1e-8 * bound + rounding
    points, M = off_sums.points()
    if len(points) > MOST_PAIRED:
        B = A @ root_left(basis, off_sums).T
        return B @ B.T
    return _positive(_quadratic_form(basis, points, (A @ M).tocsc()), tolerance, basis)


def _quadratic_form(basis: KernelBasis, points: Array, W: Any) -> Array:
    """W R W' (E, E), R between points (P, d), by blocks of them."""
    E = W.shape[0]
    total = np.zeros((E, E))
    across = np.zeros((E, basis.size))
    for i in row_slices(len(points), _BLOCK):
        across += W[:, i] @ basis.phi(points[i])
        for j in row_slices(len(points), _BLOCK):
            if j.start >= i.start:
                # W_i K_ij W_j', and its transpose for the block on the other side
                part = (
                    W[:, j]
                    @ (W[:, i] @ basis.kernel.matrix(RowPairs(points[i], points[j]))).T
                )
                total += part if i == j else part + part.T
    return total - across @ across.T


def _positive(C: Array, tolerance: Array, basis: KernelBasis) -> Array:
    """Return the nearest positive semidefinite matrix: rounding, or a basis that is no projection, can make C indefinite."""
    variance = np.diagonal(C)
    if basis.projection and (variance < -tolerance).any():
        i = int(np.argmin(variance + tolerance))
        raise DataError(
            f"a sum over rows has the variance {variance[i]:.3g}: {basis.kernel} is no covariance function there"
        )
    value, vector = np.linalg.eigh((C + C.T) / 2.0)
    return (vector * np.maximum(value, 0.0)) @ vector.T


def root_left(basis: KernelBasis, sums: RowSums) -> Array:
    """G (r, n) with G'G the covariance of the sums that the columns leave at tau = 1, up to 1e-9 of each variance.

    By a pivoted Cholesky factorisation of the sums in units of their standard deviations. DataError for a rank above 2,000, or
    where G takes more than 0.8 GB.
    """
    residual, total = sums.variances(basis)
    sd = np.sqrt(np.where(total > 0, total, 1.0))
    d = residual / sd**2
    off = np.flatnonzero(d > _NOTHING)
    d = d[off]
    off_sums = sums.take(off)
    if not len(off):
        return np.zeros((0, sums.n))
    points, M = off_sums.points()
    phi = off_sums.columns(basis.phi, basis.size) / sd[off, None]
    unit = sd[off]
    # G has at most 1e8 numbers, 0.8 GB
    max_rank = min(_MOST_RANK, max(10**8 // len(off), 1), len(off))

    def row(i: int) -> Array:
        # C_i = l_i l_j k - l_i(phi)'l_j(phi)
        x = RowPairs(off_sums.rows[i], points)
        k = M @ (off_sums.coefficients[i] @ basis.kernel.matrix(x))
        return k / (unit * unit[i]) - phi @ phi[i]

    _, G, d = pivoted_root(d, row, max_rank=max_rank, floor=ON_SPAN)
    if d.max() > ON_SPAN and max_rank < len(off):
        raise DataError(
            f"{len(off):,} rows are off the span of a basis of {basis.kernel}, and their covariance is of rank above {max_rank:,}: "
            f"ask for at most {max_rank:,} rows at a time"
        )
    root = np.zeros((len(G), sums.n))
    root[:, off] = G * unit
    return root
