"""Kernel ridge, the mean of a Gaussian process and the mode of a Gaussian model, for every penalty from one decomposition.

min_f sum_i (y_i - f(x_i) - b)^2 + lam |f|^2 has f = sum_i alpha_i k(x_i, .), alpha = (K + lam I)^-1 y without an offset b. With a
prior of covariance tau^2 k and noise sigma^2 it is the posterior mean at lam = sigma^2 / tau^2. An offset b has no prior:
(K + lam I) alpha + b 1 = y, 1'alpha = 0. With an orthonormal basis N (n, n - 1) of the complement of 1 it is the same problem in
N'KN and N'y, so that K = Q diag(d) Q' below is K itself, or N'KN with Q mapped back. Unpenalised columns B (n, f) replace 1 in the
same way.
"""

from dataclasses import dataclass, replace
from functools import cached_property
from typing import Any

import numpy as np
from scipy.linalg import lapack

from probreg.arguments.arrays import floats
from probreg.arguments.scalars import ArrayLike, Flag, check_arguments
from probreg.errors import DataError
from probreg.kernels.base import Array, read_rows, refuse_asymmetric, refuse_negative
from probreg.special import LOG_2PI

DIGITS = 1e-5  # eigenvalues of Phi'Phi, and Phi times its eigenvectors, have eleven digits if the ratio of eigenvalues is above this


@dataclass(frozen=True, eq=False)
class RidgePath:
    """Solutions for all penalties lam, for one matrix K and one response y. Every method takes one lam or several (L,).

    Attributes
    ----------
    K : array (n, n) or None
        The matrix, if the path is for a matrix.
    Phi : array (n, q) or None
        The columns, K = Phi Phi', if the path is for columns.
    y : array (n,)
        The response.
    offset : bool
        Whether there is a free offset b.
    Q, d, z : array (n, r), (r,), (r,)
        Eigenvectors, eigenvalues >= 0, and Q'y.
    free : array (n, f)
        Orthonormal columns without a penalty: 1 / sqrt(n) for an offset.
    """

    K: Array | None
    Phi: Array | None
    y: Array
    offset: bool
    Q: Array
    d: Array
    free: Array

    @property
    def n(self) -> int:
        return len(self.y)

    @cached_property
    def z(self) -> Array:
        return self.Q.T @ self.y

    @property
    def least(self) -> float:
        """The least lam for which K + lam I is positive definite to rounding."""
        if self.K is None:
            return 0.0
        # rounding is in units of the largest eigenvalue of K, which the offset may have removed: 1'K 1 / n
        return _least_positive(
            self.n,
            max(float(self.d.max()), float(self.K.sum()) / self.n),
            float(self.d.min()),
        )

    @cached_property
    def _squared_eigenvectors(self) -> Array:
        return np.square(self.Q)

    @cached_property
    def _residual_leverage(self) -> Array:
        """Return the part of each row (n,) outside of the eigenvectors: 1 - [Q Q']_ii, minus the free part; d = 0 for it."""
        if len(self.d) == self._penalised_dimensions:
            return np.zeros(self.n)
        return np.maximum(
            1.0 - self._squared_eigenvectors.sum(1) - np.square(self.free).sum(1), 0.0
        )

    @property
    def _penalised_dimensions(self) -> int:
        """The number of dimensions of y that are not free."""
        return self.n - self.free.shape[1]

    @cached_property
    def _residual_response(self) -> tuple[Array, int]:
        """Return the part of y (n,) outside of the eigenvectors, without the free part, and its number of dimensions."""
        count = self._penalised_dimensions - len(self.d)
        if not count:
            return np.zeros(self.n), 0
        return self.y - self.free @ (self.free.T @ self.y) - self.Q @ self.z, count

    def _lam(self, lam: ArrayLike) -> Array:
        """(L,) penalties. DataError for a penalty that is not positive, or too small for K + lam I to be positive definite."""
        values = np.atleast_1d(floats(lam, "lam"))
        if (
            values.ndim != 1
            or not values.size
            or not (np.isfinite(values).all() and (values > 0).all())
        ):
            if values.size:
                worst = values.flat[
                    int(np.argmin(np.nan_to_num(values, nan=-np.inf).ravel()))
                ]
            else:
                worst = "none"
            raise DataError(f"lam is a positive finite number, or several, got {worst}")
        _refuse_less(float(values.min()), self.least)
        return values

    @property
    def _residual_square(self) -> float:
        outside = self._residual_response[0]
        return float(outside @ outside)

    def _weights(self, lam: ArrayLike) -> Array:
        """z / (d + lam) (L, k), alpha in the eigenvectors."""
        return self.z / (self.d + self._lam(lam)[:, None])

    def _shares(self, lam: ArrayLike) -> Array:
        """lam / (d + lam) (L, k), the residual share of y's part in each eigenvector."""
        lams = self._lam(lam)[:, None]
        return lams / (self.d + lams)

    # ---- the fit ---------------------------------------------------------------------------------------------------

    def alpha(self, lam: ArrayLike) -> Array:
        """alpha (L, n): f = sum_i alpha_i k(x_i, .)."""
        outside = self._residual_response[0] / self._lam(lam)[:, None]
        # alpha = Q z / (d + lam), and y / lam where d = 0
        return self._weights(lam) @ self.Q.T + outside

    def intercept(self, lam: ArrayLike) -> Array:
        """b (L,): the mean of y - K alpha; 0 without an offset."""
        alpha = self.alpha(lam)
        if self.offset:
            return (self.y - self._fitted_values(alpha)).mean(1)
        return np.zeros(len(alpha))

    def _fitted_values(self, alpha: Array) -> Array:
        """K alpha (L, n), the values of f at the rows."""
        if self.K is not None:
            return alpha @ self.K
        return (alpha @ self.Phi) @ self.Phi.T  # type: ignore[union-attr]

    def coefficients(self, lam: ArrayLike) -> Array:
        """w = Phi'alpha (L, q), the coefficients of columns. DataError for the path of a matrix."""
        if self.Phi is None:
            raise DataError(
                "this path is of a matrix K, and coefficients are those of columns: write ridge_path_of_columns"
            )
        # Phi'alpha, without the part of y outside of the eigenvectors, which is orthogonal to Phi
        return self._weights(lam) @ self.Q.T @ self.Phi

    def df(self, lam: ArrayLike) -> Array:
        """The effective number of parameters (L,), tr H = sum d / (d + lam), plus one for the offset."""
        return (self.d / (self.d + self._lam(lam)[:, None])).sum(1) + self.free.shape[1]

    def norm2(self, lam: ArrayLike) -> Array:
        """|f|^2 = alpha'K alpha = sum d z^2 / (d + lam)^2 (L,), which falls as lam grows."""
        return (self.d * np.square(self._weights(lam))).sum(1)

    # ---- choosing lam ----------------------------------------------------------------------------------------------

    def residuals(self, lam: ArrayLike) -> Array:
        """y - f - b = lam alpha (L, n)."""
        return self._lam(lam)[:, None] * self.alpha(lam)

    def rss(self, lam: ArrayLike) -> Array:
        """|y - f - b|^2 = sum (lam z / (d + lam))^2 (L,), plus the part of y outside all eigenvectors."""
        return np.square(self._shares(lam) * self.z).sum(1) + self._residual_square

    def loo_residuals(self, lam: ArrayLike) -> Array:
        """y_i minus its prediction from all other rows (L, n), with the same lam: e_i = alpha_i / [(K + lam I)^-1]_ii.

        With an offset it is the inverse on the complement of 1; its diagonal is (1 - H_ii) / lam in either case.
        """
        return self.residuals(lam) / self.one_minus_leverage(lam)

    def one_minus_leverage(self, lam: ArrayLike) -> Array:
        """1 - H_ii (L, n), where H maps y to its fitted values."""
        # 1 - H_ii = lam sum_j Q_ij^2 / (d_j + lam): all terms are positive, so that nothing cancels
        inside = self._shares(lam) @ self._squared_eigenvectors.T
        return inside + self._residual_leverage

    def penalised_rss(self, lam: ArrayLike) -> Array:
        """The least |y - f - b|^2 + lam |f|^2 (L,) = lam y'(K + lam I)^-1 y, on the complement of 1 with an offset."""
        inside = (self._shares(lam) * np.square(self.z)).sum(1)
        return inside + self._residual_square

    def log_det(self, lam: ArrayLike) -> Array:
        """log |I + K / lam| (L,) = sum log(1 + d / lam)."""
        return np.log1p(self.d / self._lam(lam)[:, None]).sum(1)

    def log_evidence(self, lam: ArrayLike, sigma2: ArrayLike | None = None) -> Array:
        """log p(y) (L,) for the prior tau^2 k and noise sigma^2 = lam tau^2, with sigma^2 given or at its maximum; b has a flat prior.

        -1/2 sum [z^2 / v + log(2 pi v)], v = tau^2 d + sigma^2; a free offset takes one dimension and log(n) / 2.
        """
        lams = self._lam(lam)
        if sigma2 is None:
            noise = self.penalised_rss(lams) / self._penalised_dimensions
        else:
            noise = np.broadcast_to(floats(sigma2, "sigma2"), lams.shape)
        if not (noise > 0).all():
            raise DataError(f"sigma2 is positive, got {float(noise.min()):g}")
        # v = sigma^2 (1 + d / lam)
        spread = self.log_det(lams) + self._penalised_dimensions * (
            np.log(noise) + LOG_2PI
        )
        return -0.5 * (
            self.penalised_rss(lams) / noise + spread + self.offset * np.log(self.n)
        )

    # ---- new rows --------------------------------------------------------------------------------------------------

    def predict(self, across: ArrayLike, lam: ArrayLike) -> Array:
        """Return f(s) + b (L, m) at new rows, from their covariances k(s, x) with the rows of the path, `across` (m, n)."""
        return self.alpha(lam) @ self._across(across).T + self.intercept(lam)[:, None]

    def variance(self, across: ArrayLike, diagonal: ArrayLike, lam: ArrayLike) -> Array:
        """The variance of f(s) + b given y, in units of tau^2 (L, m), from k(s, x) (m, n) and k(s, s) (m,).

        k(s, s) - k_s'(K + lam I)^-1 k_s. With an offset k is centred at the mean of the rows, and the variance lam / n of the mean of y is added.
        """
        lams = self._lam(lam)[:, None]
        k = self._across(across)
        prior_variance = floats(diagonal, "diagonal")
        if prior_variance.shape != (len(k),):
            raise DataError(
                f"diagonal is k(s, s) of {len(k)} rows, got shape {prior_variance.shape}"
            )
        if self.offset:
            # k~(s, s) = k(s, s) - 2 mean k_s + mean K, k~_s = k_s - K 1 / n
            ones = self._fitted_values(np.full((1, self.n), 1.0 / self.n))[0]
            prior_variance = prior_variance - 2.0 * k.mean(1) + ones.mean()
            k = k - ones
            k = k - k.mean(1, keepdims=True)
        inside = np.square(k @ self.Q)
        # the part of k_s outside of the eigenvectors has d = 0; it is zero at the rows
        if self._residual_response[1]:
            outside = np.maximum(np.square(k).sum(1) - inside.sum(1), 0.0)
        else:
            outside = np.zeros(len(k))
        taken = (1.0 / (self.d + lams)) @ inside.T + outside / lams
        return np.maximum(prior_variance - taken, 0.0) + (
            lams / self.n if self.offset else 0.0
        )

    def _across(self, across: ArrayLike) -> Array:
        cross = np.atleast_2d(floats(across, "across"))
        if cross.ndim != 2 or cross.shape[1] != self.n:
            raise DataError(
                f"across is k(s, x) of new rows with the {self.n} rows of the path, got shape {cross.shape}"
            )
        return cross


@check_arguments
def ridge_path(K: ArrayLike, y: ArrayLike, *, offset: Flag = True) -> RidgePath:
    """The ridge path of a matrix K: after one eigen-decomposition, every penalty lam takes O(n) or O(n^2).

    Parameters
    ----------
    K : array (n, n)
        k(x_i, x_j), symmetric and positive semidefinite.
    y : array (n,)
        The response.
    offset : bool
        Whether an offset b without a prior is added; scikit-learn's KernelRidge has none.

    Returns
    -------
    RidgePath
        With `alpha`, `intercept`, `df`, `loo_residuals`, `log_evidence`, `norm2`, `predict`, `variance`.

    Examples
    --------
    >>> from probreg.kernels import RBF, ridge_path
    >>> k, x, s = RBF(1.0), [0.0, 1.0, 2.0, 4.0], [1.5, 10.0]
    >>> path = ridge_path(k(x), [0.0, 1.0, 0.0, 2.0], offset=False)
    >>> path.predict(k(s, x), 0.1).round(3)
    array([[0.517, 0.   ]])
    >>> path.df([0.1, 1.0]).round(3)
    array([3.424, 1.789])
    """
    A = read_rows(K, "K")
    if A.shape[0] != A.shape[1]:
        raise DataError(f"K is a symmetric matrix of k(x_i, x_j), got shape {A.shape}")
    refuse_asymmetric(A)
    response = _check_response(y, len(A))
    complement = Complement.of(np.ones((len(A), int(offset))))
    inner = complement.without(complement.without(A).T)
    d, V = np.linalg.eigh((inner + inner.T) / 2.0)
    refuse_negative(float(d[0]), A, "k")
    return RidgePath(
        A,
        None,
        response,
        offset,
        complement.back(V),
        np.maximum(d, 0.0),
        complement.basis,
    )


@check_arguments
def ridge_path_of_columns(
    Phi: ArrayLike, y: ArrayLike, *, offset: Flag = True
) -> RidgePath:
    """The ridge path of K = Phi Phi' by the singular values of Phi: a prior N(0, tau^2 I) on the coefficients of columns.

    Parameters
    ----------
    Phi : array (n, q)
        Columns, such as a basis of a covariance function.
    y : array (n,)
        The response.
    offset : bool
        Whether an offset b without a prior is added.

    Returns
    -------
    RidgePath
        The same as for a matrix, and `coefficients`.

    Examples
    --------
    >>> from probreg.kernels import ridge_path_of_columns
    >>> path = ridge_path_of_columns([[1.0, 2.0], [1.0, 3.0], [1.0, 4.0]], [5.0, 7.0, 9.0], offset=False)
    >>> path.coefficients(1.0).round(6)
    array([[0.692308, 2.025641]])
    """
    columns = read_rows(Phi, "Phi")
    return replace(
        path_beside(
            columns,
            _check_response(y, len(columns)),
            np.ones((len(columns), int(offset))),
        ),
        offset=offset,
    )


def path_beside(Phi: Array, y: Array, B: Array, min_lam: float = 0.0) -> RidgePath:
    """Return the ridge path of columns Phi (n, q) with unpenalised columns B (n, f) of full rank.

    The path is accurate for lam >= `min_lam`: if K = Phi Phi' has enough digits for this, its eigenvectors take less time.

    >>> path_beside(np.array([[1.0], [2.0]]), np.array([1.0, 2.0]), np.zeros((2, 0))).df(5.0)
    array([0.5])
    """
    complement = Complement.of(B)
    U, d = _principal_directions(complement.without(Phi), min_lam)
    return RidgePath(None, Phi, y, False, complement.back(U), d, complement.basis)


def _principal_directions(A: Array, min_lam: float) -> tuple[Array, Array]:
    """Return eigenvectors (n, k) of A A' and their eigenvalues, for penalties of at least `min_lam`."""
    n, q = A.shape
    if min_lam and 2 * q >= n > 0:
        d, V = np.linalg.eigh(A @ A.T)
        # for a smaller lam, K = Phi Phi' loses digits of Phi
        if min_lam >= 1e-7 * d[-1]:
            return V, np.maximum(d, 0.0)
    if 0 < q <= n:
        # A'A = V diag(d) V', A V = U diag(d)^(1/2), a fifth of the work if n is much larger than q
        d, V = np.linalg.eigh(A.T @ A)
        if d[0] > DIGITS * d[-1]:
            return (A @ V) / np.sqrt(d), d
    U, s, _ = np.linalg.svd(A, full_matrices=False)
    return U, np.square(s)


def refuse_rounding(lam: float, Phi: Array) -> None:
    """Raise DataError if lam is below the rounding of K = Phi Phi', so that K + lam I is not positive definite to rounding."""
    n, q = Phi.shape
    if q < n:
        d = np.linalg.eigvalsh(Phi.T @ Phi)
        smallest = 0.0
    else:
        d = np.linalg.eigvalsh(Phi @ Phi.T)
        smallest = max(float(d[0]), 0.0)
    _refuse_less(lam, _least_positive(n, float(d[-1]), smallest))


def _least_positive(n: int, largest: float, smallest: float) -> float:
    """The least lam such that the smallest eigenvalue of K + lam I is above the rounding error of K, n eps times its largest."""
    return max(n * np.finfo(float).eps * largest - smallest, 0.0)


def _refuse_less(lam: float, min_lam: float) -> None:
    if lam < min_lam:
        raise DataError(
            f"K + lam I is not positive definite to rounding at lam = {lam:.3g}: the least lam that is, is {min_lam:.3g}"
        )


def _check_response(y: Any, n: int) -> Array:
    response = read_rows(y, "y", 1)[:, 0]
    if len(response) != n:
        raise DataError(f"y has {len(response)} values, and there are {n} rows")
    if n < 2:
        raise DataError("a ridge path is of two rows or more, got one")
    return response


@dataclass(frozen=True, eq=False)
class Complement:
    """N (n, n - f), an orthonormal basis of the complement of columns B (n, f), as f reflections I - tau v v'.

    >>> beside = Complement.of(np.ones((4, 1)))
    >>> beside.without(np.ones((4, 1))).round(12).ravel(), beside.back(np.eye(3)).sum(0).round(12)
    (array([0., 0., 0.]), array([0., 0., 0.]))
    """

    h: Array  # (n, f), the vectors v below the diagonal, as LAPACK stores them
    tau: Array  # (f,)

    @classmethod
    def of(cls, B: Array) -> "Complement":
        # B = Q R of Householder, Q = (I - tau_1 v_1 v_1') ... (I - tau_f v_f v_f'): B spans the first f columns of Q, and N the others
        # (Golub & Van Loan, section 5.2)
        h, tau = np.linalg.qr(B, mode="raw")
        return cls(h.T, tau)

    def without(self, A: Array) -> Array:
        """N'A (n - f, k)."""
        return self._multiply(A, "T")[len(self.tau) :]

    def back(self, V: Array) -> Array:
        """N V (n, k)."""
        return self._multiply(
            np.vstack([np.zeros((len(self.tau), V.shape[1])), V]), "N"
        )

    @property
    def basis(self) -> Array:
        """Return an orthonormal basis (n, f) of the span of B."""
        return self._multiply(np.eye(*self.h.shape), "N")

    def _multiply(self, A: Array, transposed: str) -> Array:
        """Return Q A or Q'A."""
        if not self.tau.size or not A.size:
            return A
        lwork = 64 * max(A.shape)
        return lapack.dormqr("L", transposed, self.h, self.tau, A, lwork)[0]
