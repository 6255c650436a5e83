"""The rows of a smooth model on standardised columns, kept for many modes: the
log-likelihood with its derivatives.

A point is (vec gamma, log aux) with beta = T gamma; row i depends on z_i = (eta_i, log
aux), with J_i = dz_i / dpoint. With g_i and h_i the gradient and negative Hessian of
w_i log p_i over z_i, the log-likelihood has the gradient sum_i J_i'g_i and the negative
Hessian sum_i J_i'h_i J_i. A `Model` computes the same by block for any number of rows;
here the columns are standardised once, and a gradient takes at most two products with
them.
"""

from collections.abc import Mapping
from dataclasses import dataclass
from functools import cached_property
from typing import Any, NamedTuple

import numpy as np

from probreg.data import Frame
from probreg.data.rows import plus_offset, times_weights
from probreg.inference.base import Array
from probreg.inference.modes.existence import FAR, may_diverge_along
from probreg.inference.modes.newton import response_shift
from probreg.likelihoods import MayDiverge, SmoothLikelihood
from probreg.linalg import weighted_gram
from probreg.model.likelihood_sums import COMPILED
from probreg.model.model import LocalModel, Model, prior_derivatives

_ROUNDS = 10  # passes over the rows from one mode to the next
_SQUARED = 1e-7  # of sqrt(n) standard errors: a decrement, whose square is the distance from the mode after the step


@dataclass(frozen=True, eq=False)
class StandardRows:
    """`model` gives likelihood and rows; `U` (n, p) are its standardised columns."""

    model: Model
    U: Array
    basis: Frame

    @classmethod
    def of(cls, model: Model) -> "StandardRows | None":
        """Return None if this class does not apply.

        This is so for rows outside memory or so many that compiled code is used, for a
        response far from zero, and for a nuisance parameter that may go to a limit.
        """
        design = model.design
        if not design.n or model.of_moments or design.n * model.shape[1] >= COMPILED:
            return None
        if (
            not isinstance(model.likelihood, SmoothLikelihood)
            or response_shift(model) != 0.0
        ):
            return None
        if any(may_diverge_along(model)) or not model.joint.smooth:
            return None
        return cls(
            model, np.ascontiguousarray(design.basis.rows(design.X)), design.basis
        )

    def beta(self, point: Array) -> Array:
        """(p, m) on the raw columns."""
        p, m = self.model.shape
        return np.asarray(self.basis.T @ point[: p * m].reshape(p, m))

    def point(self, beta: Array, aux: Mapping[str, float]) -> Array:
        """The point of coefficients on the raw columns."""
        gamma = self.basis.T_inverse @ beta
        return np.concatenate(
            [gamma.ravel(), np.log([aux[a] for a in self.model.unknown])]
        )

    def aux(self, point: Array) -> dict[str, float]:
        """Unknown nuisance parameters as NumPy floats, which overflow to inf without an
        exception."""
        p, m = self.model.shape
        return dict(zip(self.model.unknown, np.exp(point[p * m :])))

    def eta(self, point: Array, rows: slice = slice(None)) -> Array:
        """(n, m)."""
        (p, m), offset = self.model.shape, self.model.design.offset
        eta = self.U[rows] @ point[: p * m].reshape(p, m)
        return plus_offset(eta, None if offset is None else offset[rows])

    @property
    def likelihood(self) -> SmoothLikelihood:
        assert isinstance(self.model.likelihood, SmoothLikelihood)  # checked in `of`
        return self.model.likelihood

    def values(self, aux: Mapping[str, float]) -> Mapping[str, Any]:
        """Nuisance parameters of each row."""
        precision = self.model.design.precision
        return self.likelihood.at_rows({**self.model.fixed, **aux}, precision)

    def scores(self, eta: Array, aux: Mapping[str, float]) -> Array:
        """d log p_i / d z_i (n, m + a), without weights."""
        if self.model.unknown:
            return self.derivatives(eta, aux)[1]
        y = self.model.design.observed
        return self.likelihood.score(y, eta, **self.values(aux))

    def derivatives(
        self, eta: Array, aux: Mapping[str, float]
    ) -> tuple[Array, Array, Array]:
        """log p_i (n,) with gradient and negative Hessian over z_i, without weights."""
        m = self.model.shape[1]
        places = [self.likelihood.aux.index(name) for name in self.model.unknown]
        pick = [*range(m), *(m + i for i in places)]
        value, g, h = self.likelihood.value_grad_hessian(
            self.model.design.observed, eta, **self.values(aux)
        )
        return value, g[:, pick], h[:, pick][:, :, pick]

    def gradient(self, g: Array, rows: slice = slice(None)) -> Array:
        """sum_i J_i'g_i (k + a,) for g (n, m + a)."""
        m = self.model.shape[1]
        return np.concatenate([(self.U[rows].T @ g[:, :m]).ravel(), g[:, m:].sum(0)])

    def curvature(self, h: Array, rows: slice = slice(None)) -> Array:
        """sum_i J_i'h_i J_i (k + a, k + a) for h (n, m + a, m + a)."""
        (p, m), U = self.model.shape, self.U[rows]
        if m == 1:
            H = np.dot(U.T, U * h[:, 0, :1])
        else:
            H = weighted_gram(U, h[:, :m, :m])
        a = h.shape[1] - m
        if not a:
            return H
        cross = np.einsum("np,nka->pka", U, h[:, :m, m:]).reshape(p * m, a)
        return np.block([[H, cross], [cross.T, h[:, m:, m:].sum(0)]])

    def local(self, point: Array) -> LocalModel:
        """The log-likelihood with its derivatives."""
        value, g, h = (
            times_weights(v, self.model.design.weights)
            for v in self.derivatives(self.eta(point), self.aux(point))
        )
        return LocalModel(float(value.sum()), self.gradient(g), self.curvature(h))

    def information(self, point: Array) -> Array:
        """The expected information of the log-likelihood over vec gamma."""
        design = self.model.design
        W = self.likelihood.information(
            self.eta(point), **self.values(self.aux(point)), **self.model.given(design)
        )
        return weighted_gram(self.U, times_weights(W, design.weights))

    @cached_property
    def may_diverge(self) -> bool:
        """Whether an estimate with a linear predictor beyond `FAR` needs a proof."""
        return (
            isinstance(self.model.likelihood, MayDiverge)
            and not self.model.joint.informative.all()
        )

    def in_doubt(self, point: Array) -> bool:
        """Whether the maximum at a point needs a proof."""
        return self.may_diverge and not np.abs(self.eta(point)).max() < FAR


@dataclass(frozen=True, eq=False)
class PriorAt:
    """The prior of a model of these rows (n, p) at one scale, over the same points."""

    rows: StandardRows
    model: Model

    def local(self, point: Array) -> LocalModel:
        """log p(beta, log aux)."""
        values = {**self.rows.model.fixed, **self.rows.aux(point)}
        return prior_derivatives(
            self.model, self.rows.beta(point), self.rows.basis.T, values
        )

    def slopes(self, about: Array, local: LocalModel, points: Array) -> Array:
        """Return the gradients (K, k + a) at points, with `local` the prior at `about`;
        exact for a quadratic."""
        if self.model.joint.gaussian and not self.rows.model.unknown:
            return local.gradient - (points - about) @ local.curvature
        return np.stack([self.local(point).gradient for point in points])


def inverses(H: Array) -> tuple[Array, Array]:
    """Return H^-1 of several curvatures (K, k, k) in any units, and whether each (K,)
    is positive definite to 1e-10."""
    d = np.sqrt(
        np.maximum(np.abs(np.diagonal(H, axis1=1, axis2=2)), np.finfo(float).tiny)
    )
    unit = d[:, :, None] * d[:, None, :]
    # H^-1 = D^-1 (D^-1 H D^-1)^-1 D^-1, D = diag(H)^(1/2)
    value, vector = np.linalg.eigh(H / unit)
    sound = value[:, 0] > 1e-10 * value[:, -1]
    value = np.where(sound[:, None], value, 1.0)
    return (vector / value[:, None, :]) @ vector.swapaxes(1, 2) / unit, sound


class NextMode(NamedTuple):
    """A mode with the log-likelihood and the prior at this point, and its distance from
    the maximum in standard errors."""

    point: Array
    likelihood: LocalModel
    prior: LocalModel
    decrement: float


def next_mode(
    rows: StandardRows, model: Model, point: Array, likelihood: LocalModel
) -> NextMode | None:
    """Return the mode of `model` from a point with the log-likelihood there; None in
    case of doubt.

    The model differs from the model of the rows only in its prior, so the first step needs no pass over the rows.
    """
    prior = PriorAt(rows, model)
    tol = _SQUARED * max(1.0, np.sqrt(model.design.total))
    with np.errstate(
        all="ignore"
    ):  # too long a step gives inf or nan, which marks doubt
        for _ in range(_ROUNDS):
            about = prior.local(point)
            g = likelihood.gradient + about.gradient
            H = likelihood.curvature + about.curvature
            if not (np.isfinite(g).all() and np.isfinite(H).all()):
                return None
            inverse, sound = inverses(H[None])
            if not sound[0]:
                return None
            step = inverse[0] @ g
            # lambda^2 = g'H^-1 g
            decrement = float(np.sqrt(max(g @ step, 0.0)))
            point = point + step
            if decrement < tol:
                if rows.in_doubt(point):
                    return None
                # the log-likelihood after the step, by its expansion
                bend = likelihood.curvature @ step
                value = likelihood.value + step @ (likelihood.gradient - 0.5 * bend)
                shifted = LocalModel(
                    value, likelihood.gradient - bend, likelihood.curvature
                )
                return NextMode(point, shifted, prior.local(point), decrement)
            likelihood = rows.local(point)
    return None
