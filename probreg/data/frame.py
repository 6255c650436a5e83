"""The coordinates for the arithmetic of a fit: columns that are centred, scaled and, if necessary, decorrelated."""

from dataclasses import dataclass, replace
from functools import cached_property

import numpy as np
from scipy.linalg import lapack, solve_triangular

from probreg.data.implicit_columns import PredictorColumns
from probreg.data.moments import refuse_too_wide
from probreg.linalg import condition_of, factor_of, inverse_upper, rank_of

Array = np.ndarray


def intercept_among(
    intercept: int | Array | None, columns: Array
) -> int | Array | None:
    """Return the index of the intercept in some columns, or for each of them the index of its intercept."""
    place = {int(j): i for i, j in enumerate(columns)}
    if isinstance(intercept, np.ndarray):
        return np.array([place.get(int(j), -1) for j in intercept[columns]], np.intp)
    return None if intercept is None else place.get(intercept)


@dataclass(frozen=True)
class Frame:
    """Columns u = ((x - shift) / scale) M, and the map T of their coefficients gamma to beta = T gamma.

    M is the identity, except `mix` = R^-1 in the columns `mixed`, where R is the QR factor of their standardised rows. X'WX in
    this frame is as well conditioned as its weights; raw polynomials can have a condition number of 1e16. The intercept absorbs
    the shifts. If columns belong to several linear predictors, `intercept` (p,) has the intercept of each column.
    """

    shift: Array  # (p,); zero without an intercept
    scale: Array  # (p,)
    intercept: int | Array | None
    mix: Array | None = None  # (q, q) upper triangular
    mixed: Array | None = None  # (q,) in increasing order

    @classmethod
    def of(cls, mean: Array, sd: Array, intercept: int | Array | None) -> "Frame":
        """Return the frame of columns with these means and standard deviations, without `mix`.

        Constant columns are not centred; without an intercept, no column is centred. With several linear predictors `intercept` (p,) has
        the index of the intercept of each column's predictor, -1 for none.
        """
        # sd / |mean| of a column at or below which its variation is rounding
        rounding = 1e-14
        size = np.hypot(mean, sd)
        constant = sd <= rounding * size
        size = np.where(size > 0, size, 1.0)
        if intercept is None:
            return cls(np.zeros_like(mean), size, None)
        places = np.broadcast_to(intercept, mean.shape)
        constant = constant | (places < 0)
        scale = np.where(constant, size, sd)
        scale[places[places >= 0]] = 1.0
        return cls(np.where(constant, 0.0, mean), scale, intercept)

    @classmethod
    def of_raw(cls, p: int) -> "Frame":
        """Return the frame of p unchanged columns."""
        return cls(np.zeros(p), np.ones(p), None)

    def with_mix(self, X: Array, columns: Array | None = None) -> "Frame":
        """Return the frame with a `mix` of some columns if they are ill conditioned in X (n, p), a sample of the rows.

        Columns that are combinations of earlier columns stay unchanged.
        """
        # up to this number of columns the condition number is computed
        max_columns = 200
        max_condition = 1e4  # from this condition number of standardised columns sums of their squares lose half of the digits
        if columns is None:
            mixed = np.arange(X.shape[1])
        else:
            mixed = columns
        n = len(X)
        if (
            not isinstance(X, np.ndarray)
            or not 1 < len(mixed) <= max_columns
            or n <= len(mixed)
        ):
            return self
        if len(mixed) != X.shape[1]:
            X = X[:, mixed]
        U = (X - self.shift[mixed]) / self.scale[mixed]
        L, info = lapack.dpotrf(np.dot(U.T, U) / n)
        if info == 0 and condition_of(np.triu(L)) < max_condition:
            return self
        R = factor_of(U / np.sqrt(n))
        independent = np.array(rank_of(R).kept, dtype=np.intp)
        if len(independent) < len(mixed):
            mixed = mixed[independent]
            R = factor_of(R[:, independent])
        if len(mixed) < 2 or condition_of(R) < max_condition:
            return self
        return replace(self, mix=np.asarray(inverse_upper(R), dtype=float), mixed=mixed)

    def rows(self, X: Array) -> Array:
        """Return the rows of u at rows X (n, p)."""
        if isinstance(X, PredictorColumns):
            return X.map(self.rows)
        centred = X - self.shift
        standardised = np.divide(centred, self.scale, out=centred)
        if self.mix is None:
            return standardised
        return self._apply_mix(standardised)

    def gradients(self, G: Array) -> Array:
        """T'G along the second axis: gradients over beta, (R, p, m), as gradients over gamma."""
        if self.intercept is not None and self.shift.any():
            G = G - G[:, np.atleast_1d(self.intercept)] * self.shift[:, None]
        G = G / self.scale[:, None]
        if self.mix is None:
            return G
        return self._apply_mix(G.mT).mT

    def differences(self, X: Array) -> Array:
        """Return T'x for linear combinations X (n, p) of rows; the entry of the intercept is 0 for a difference of two rows."""
        i = sorted(self.intercepts)
        if not i or not self.shift.any() or (X[:, i] == 1.0).all():
            return self.rows(X)
        return self.gradients(X[..., None])[..., 0]

    def _apply_mix(self, U: Array) -> Array:
        """U M along the last axis, in place."""
        assert self.mix is not None
        assert self.mixed is not None
        if len(self.mixed) == U.shape[-1]:
            return np.dot(U, self.mix)
        U[..., self.mixed] = np.dot(U[..., self.mixed], self.mix)
        return U

    def of_columns(self, columns: Array) -> "Frame":
        """Return the frame of some columns, in increasing order, which include all mixed columns and the intercept."""
        mixed = None
        if self.mixed is not None:
            mixed = np.searchsorted(columns, self.mixed)
        intercept = intercept_among(self.intercept, columns)
        return Frame(
            self.shift[columns], self.scale[columns], intercept, self.mix, mixed
        )

    def embed(self, p: int, columns: Array) -> "Frame":
        """Return the frame of p columns where `columns` have this frame and the others are unchanged."""
        shift, scale = np.zeros(p), np.ones(p)
        shift[columns], scale[columns] = self.shift, self.scale
        intercept = self.intercept
        if isinstance(intercept, np.ndarray):
            places = np.full(p, -1)
            places[columns] = np.where(intercept < 0, -1, columns[intercept])
            intercept = places
        elif intercept is not None:
            intercept = int(columns[intercept])
        mixed = None if self.mixed is None else columns[self.mixed]
        return Frame(shift, scale, intercept, self.mix, mixed)

    @property
    def intercepts(self) -> frozenset[int]:
        """The places of the intercepts."""
        if self.intercept is None:
            return frozenset()
        return frozenset(np.atleast_1d(self.intercept).tolist()) - {-1}

    @property
    def mild(self) -> bool:
        """Whether means are within 100 standard deviations of zero: sums over raw rows lose at most four digits."""
        return self.mix is None and bool(
            (np.abs(self.shift) < 100.0 * self.scale).all()
        )

    def to_raw(self, gamma: Array) -> Array:
        """T gamma, gamma (p, s), without the matrix T."""
        beta = np.array(gamma, dtype=float)
        if self.mix is not None:
            beta[self.mixed] = np.dot(self.mix, beta[self.mixed])
        beta /= self.scale[:, None]
        if self.intercept is not None and self.shift.any():
            # beta_0 = gamma_0 - sum_j shift_j beta_j
            self._add_shifts(beta, -beta)
        return beta

    def from_raw(self, beta: Array) -> Array:
        """T^-1 beta, beta (p, s), without the matrix."""
        gamma = self.scale[:, None] * beta
        if self.intercept is not None and self.shift.any():
            self._add_shifts(gamma, beta)
        if self.mix is not None:
            gamma[self.mixed] = solve_triangular(self.mix, gamma[self.mixed])
        return gamma

    def _add_shifts(self, gamma: Array, beta: Array) -> None:
        """Add sum_j shift_j beta_j to the coefficient of the intercept, in place."""
        if isinstance(self.intercept, np.ndarray):
            np.add.at(gamma, self.intercept, self.shift[:, None] * beta)
        else:
            gamma[self.intercept] += self.shift @ beta

    @cached_property
    def T(self) -> Array:
        """The matrix T (p, p) with beta = T gamma."""
        refuse_too_wide(len(self.scale))
        return self.to_raw(np.eye(len(self.scale)))

    @cached_property
    def T_inverse(self) -> Array:
        """The inverse of T (p, p), with gamma = T_inverse beta."""
        refuse_too_wide(len(self.scale))
        return self.from_raw(np.eye(len(self.scale)))
