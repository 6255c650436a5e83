"""The coordinates in which a fit does its arithmetic: columns that are centred, scaled and, where needed, decorrelated."""

from dataclasses import dataclass, replace
from functools import cached_property

import numpy as np
from scipy.linalg import lapack, solve_triangular

from probreg.data.moments import refuse_too_wide
from probreg.numerics.linalg import condition_of, factor_of, inverse_upper

Array = np.ndarray
_CONSTANT = 1e-14  # sd / |mean| of a column at or below which its variation is rounding
_ILL = 1e4  # condition of standardised columns from which sums of their squares lose half of the digits
_SINGULAR = 1e12  # condition from which columns count as combinations of others
_MOST_COLUMNS = 200  # columns up to which the condition is computed
_SAMPLE = 10_000  # rows from which it is computed


@dataclass(frozen=True)
class Frame:
    """Columns u = ((x - shift) / scale) mix, and the map T of their coefficients gamma to beta = T gamma.

    With `mix` = R^-1 of the QR factor of the standardised columns, a Gram matrix of u is as well conditioned as its
    weights, although the condition of raw polynomials is 1e8 and is squared in X'WX. The intercept takes up the shifts.
    """

    shift: Array  # (p,); zero where there is no intercept
    scale: Array  # (p,)
    intercept: int | None
    mix: Array | None = None  # (p, p) upper triangular

    @classmethod
    def of(cls, mean: Array, sd: Array, intercept: int | None) -> "Frame":
        """The frame of columns with these means and standard deviations, without `mix`.

        Constant columns are not centred, and no column is without an intercept.
        """
        size = np.hypot(mean, sd)
        constant = sd <= _CONSTANT * size
        size = np.where(size > 0, size, 1.0)
        if intercept is None:
            return cls(np.zeros_like(mean), size, None)
        scale = np.where(constant, size, sd)
        scale[intercept] = 1.0
        return cls(np.where(constant, 0.0, mean), scale, intercept)

    def with_mix(self, X: Array) -> "Frame":
        """The frame with the `mix` of the rows X (n, p), where their columns are ill conditioned and of full rank."""
        n, p = X.shape
        if not isinstance(X, np.ndarray) or not 1 < p <= _MOST_COLUMNS or n <= p:
            return self
        U = self.rows(X[:: max(1, n // _SAMPLE)])
        n = len(U)
        L, info = lapack.dpotrf(np.dot(U.T, U) / n)
        if info == 0 and condition_of(np.triu(L)) < _ILL:
            return self
        R = factor_of(U / np.sqrt(n))
        return replace(self, mix=np.asarray(inverse_upper(R), dtype=float)) if condition_of(R) < _SINGULAR else self

    def rows(self, X: Array) -> Array:
        """The rows of u at rows X (n, p)."""
        centred = X - self.shift
        out = np.divide(centred, self.scale, out=centred)
        return out if self.mix is None else np.dot(out, self.mix)

    def gradients(self, G: Array) -> Array:
        """T'G along the second axis: gradients over beta, (R, p, m), as gradients over gamma."""
        if self.intercept is not None and self.shift.any():
            G = G - G[:, [self.intercept]] * self.shift[:, None]
        G = G / self.scale[:, None]
        return G if self.mix is None else np.einsum("pq,rpm->rqm", self.mix, G)

    def equals(self, other: "Frame") -> bool:
        """Whether two frames are the same to the last bit."""
        same = np.array_equal(self.shift, other.shift) and np.array_equal(self.scale, other.scale)
        mixes = (self.mix is None) == (other.mix is None) and (
            self.mix is None or np.array_equal(self.mix, np.asarray(other.mix))
        )
        return same and mixes and self.intercept == other.intercept

    @property
    def mild(self) -> bool:
        """Whether means are within 100 standard deviations of zero: sums over raw rows lose at most four digits."""
        return self.mix is None and bool((np.abs(self.shift) < 100.0 * self.scale).all())

    @cached_property
    def T(self) -> Array:
        """(p, p) with beta = T gamma."""
        # x_j = shift_j + scale_j u_j: beta_j = gamma_j / scale_j, beta_0 = gamma_0 - sum_j gamma_j shift_j / scale_j.
        refuse_too_wide(len(self.scale))
        out = np.diag(1.0 / self.scale)
        if self.intercept is not None:
            out[self.intercept] -= self.shift / self.scale
            out[self.intercept, self.intercept] = 1.0
        return out if self.mix is None else out @ self.mix

    @cached_property
    def T_inverse(self) -> Array:
        """(p, p) with gamma = T_inverse beta."""
        refuse_too_wide(len(self.scale))
        out = np.diag(self.scale)
        if self.intercept is not None:
            out[self.intercept] += self.shift
            out[self.intercept, self.intercept] = 1.0
        return out if self.mix is None else solve_triangular(self.mix, out)
