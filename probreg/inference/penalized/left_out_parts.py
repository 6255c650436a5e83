"""Modes of a smooth model without parts of its rows (folds, or single observations), from
the mode of all rows.

A point is (vec gamma, log aux) with beta = T gamma; row i depends on z_i = (eta_i, log
aux), with J_i = dz_i / dpoint. With g_i and h_i the gradient and negative Hessian of
w_i log p_i over z_i, the log-likelihood has the gradient sum_i J_i'g_i and the negative
Hessian sum_i J_i'h_i J_i. The columns are standardised once.

Let the mode have the negative Hessian H. Without the rows of part k the gradient is
-sum_k J_i'g_i and the negative Hessian H_k = H - sum_k J_i'h_i J_i, from one pass over
the rows for all parts. The first step is H_k^-1 times this gradient; further steps keep
H_k and compute only gradients, for many parts at once. Each step is shorter by about
the share of removed rows times the distance of the modes, so two or three are enough.
Parts with any doubt get no result.
"""

from collections.abc import Mapping
from dataclasses import dataclass, replace
from itertools import pairwise
from typing import Any, NamedTuple

import numpy as np

from probreg.data.checked_arrays import plus_offset, some_rows
from probreg.inference.base import Array, logs_of_aux, split_parameters
from probreg.inference.modes.existence import FAR_PREDICTOR, may_diverge_along
from probreg.inference.modes.newton import response_shift
from probreg.likelihoods import MayDiverge, SmoothLikelihood
from probreg.likelihoods.base import ValueGradHessian
from probreg.linalg import unit_diagonal, weighted_gram
from probreg.model.likelihood_sums import COMPILED
from probreg.model.model import LocalModel, Model, prior_derivatives


def inverses(H: Array) -> tuple[Array, Array]:
    """Return H^-1 of several curvatures (K, k, k) in any units, and whether each (K,)
    is positive definite to 1e-10."""
    # H^-1 = D^-1 (D^-1 H D^-1)^-1 D^-1, D = diag(d)
    scaled, d = unit_diagonal(H)
    value, vector = np.linalg.eigh(scaled)
    sound = value[:, 0] > 1e-10 * value[:, -1]
    value = np.where(sound[:, None], value, 1.0)
    root = vector / d[:, :, None]
    return (root / value[:, None, :]) @ root.mT, sound


class FromOtherRows(NamedTuple):
    """Predictors of each row of the parts from the other rows (r, m), nuisance
    parameters (K,) of each part by name, and whether each part (K,) has a certain
    mode."""

    eta: Array
    aux: dict[str, Array]
    good: Array


@dataclass(frozen=True, eq=False)
class LeftOutParts:
    """The rows of `model`, sorted by their parts, with standardised columns `U` (n, p).

    Part k is `slices[k]`, and `rest` (r,) is the weight that remains when it is left out.
    """

    model: Model
    U: Array
    order: Array
    slices: tuple[slice, ...]
    rest: Array
    weights: Array

    @classmethod
    def of(
        cls, model: Model, part: Array, kept_weights: Array | None = None
    ) -> "LeftOutParts | None":
        """`part` (n,) is the number of each row's part, -1 for none.

        Return None for rows outside memory or so many that compiled code is used, for a
        response far from zero, and for a nuisance parameter that may go to a limit.
        """
        design = model.design
        if not design.n or model.of_moments or design.n * model.shape[1] >= COMPILED:
            return None
        if (
            not isinstance(model.likelihood, SmoothLikelihood)
            or not model.joint.smooth
            or response_shift(model) is not None
            or any(may_diverge_along(model))
        ):
            return None
        inside = np.flatnonzero(part >= 0)
        inside = inside[np.argsort(part[inside], kind="stable")]
        order = np.concatenate([inside, np.flatnonzero(part < 0)])
        rows = design.take(order)
        edges = np.r_[0, np.cumsum(np.bincount(part[inside]))].tolist()
        return cls(
            replace(model.with_prior_frozen, design=rows),
            np.ascontiguousarray(rows.basis.rows(rows.X)),
            inside,
            tuple(slice(a, b) for a, b in pairwise(edges)),
            np.zeros(len(inside)) if kept_weights is None else kept_weights[inside],
            rows.row_weights,
        )

    def point(self, beta: Array, aux: Mapping[str, float]) -> Array:
        """The point of coefficients on the raw columns."""
        gamma = self.model.design.basis.T_inverse @ beta
        return np.r_[gamma.ravel(), logs_of_aux(self.model, aux)]

    def without(
        self, model: Model, point: Array, guess: Array | None = None
    ) -> tuple[FromOtherRows, Array]:
        """Return results from the mode of `model`, the prior at one scale, and the
        correction after the first step.

        `guess` (K, k + a) is this correction at a nearby scale.
        """
        prior = self._prior(model, point)
        _, g, h = self._derivatives(self._eta(point, slice(None)), self._aux(point))
        removed = self.weights[: len(self.rest)] - self.rest
        # H_k = H - sum_k J_i'h_i J_i, and the gradient without part k
        whole = slice(None)
        H = self._curvature(h * self.weights[:, None, None], whole) + prior.curvature
        gradient = self._gradient(g * self.weights[:, None], whole) + prior.gradient
        parts = self.slices
        inverse, good = inverses(
            H - [self._curvature(h[k] * removed[k, None, None], k) for k in parts]
        )
        gradients = gradient - [
            self._gradient(g[k] * removed[k, None], k) for k in parts
        ]
        first = point + np.einsum("kij,kj->ki", inverse, gradients)
        points = first if guess is None else first + guess
        # linear predictors of a batch take 32 MB
        size = max(4_000_000 // max(self.model.design.n * self.model.shape[1], 1), 1)
        # too long a step gives inf or nan, which marks doubt
        with np.errstate(all="ignore"):
            for start in range(0, len(parts), size):
                batch = np.arange(start, min(start + size, len(parts)))
                self._settle(model, point, prior, batch, points, inverse, good)
        good &= np.isfinite(points).all(1)
        correction = np.where(good[:, None], points - first, 0.0)
        points[~good] = np.nan
        eta = np.concatenate(
            [self._eta(points[k], rows) for k, rows in enumerate(parts)]
        )
        return FromOtherRows(eta, self._aux(points), good), correction

    def _settle(
        self,
        model: Model,
        mode: Array,
        prior: LocalModel,
        batch: Array,
        points: Array,
        inverse: Array,
        good: Array,
    ) -> None:
        """Make steps with a fixed curvature until all parts of a batch are at their modes, in place.

        Parts that do not converge, or that need a proof of a maximum, are marked as not
        good.
        """
        # distance from the mode at the end, in standard errors
        tol = 1e-9 * max(1.0, np.sqrt(self.model.design.total))
        may_diverge = (
            isinstance(self.model.likelihood, MayDiverge)
            and not self.model.joint.informative.all()
        )
        before = np.full(len(points), np.inf)
        active = batch[good[batch]]
        for _ in range(12):
            if not len(active):
                return
            g, eta = self._slopes(points[active], active)
            if model.joint.gaussian and not model.unknown:
                g += prior.gradient - (points[active] - mode) @ prior.curvature
            else:
                g += [self._prior(model, x).gradient for x in points[active]]
            step = np.einsum("kij,kj->ki", inverse[active], g)
            size = np.sqrt(np.maximum((g * step).sum(1), 0.0))
            failed = ~(size < 0.7 * before[active]) | ~np.isfinite(step).all(1)
            if may_diverge:
                failed |= ~(np.abs(eta).max((1, 2)) < FAR_PREDICTOR)
            points[active[~failed]] += step[~failed]
            # the next step is shorter by about the same ratio
            rate = np.minimum(
                np.where(np.isfinite(before[active]), size / before[active], 0.5), 0.5
            )
            good[active[failed]] = False
            before[active] = size
            active = active[~failed & ~(size * rate < tol)]
        good[active] = False

    def _slopes(self, points: Array, parts: Array) -> tuple[Array, Array]:
        """Return the gradient of the log-likelihood without each part at its point (K,
        k + a), and eta (K, m, n)."""
        (p, m), K = self.model.shape, len(points)
        gamma = points[:, : self._k].reshape(K, p, m).mT.reshape(K * m, p)
        eta = (gamma @ self.U.T).reshape(K, m, -1)
        if self.model.design.offset is not None:
            eta += self.model.design.offset.T
        g = np.empty_like(eta)
        aux_slopes = np.zeros((K, points.shape[1] - self._k))
        for j, k in enumerate(parts):
            rows = self.slices[k]
            scores = (
                self._scores(eta[j].T, self._aux(points[j])) * self.weights[:, None]
            )
            scores[rows] *= (self.rest[rows] / self.weights[rows])[:, None]
            g[j] = scores[:, :m].T
            aux_slopes[j] = scores[:, m:].sum(0)
        slope = (g.reshape(K * m, -1) @ self.U).reshape(K, m, p).mT
        return np.concatenate([slope.reshape(K, -1), aux_slopes], 1), eta

    # ---- at one point ------------------------------------------------------------------

    @property
    def _k(self) -> int:
        return self.model.n_coefficients

    def _aux(self, points: Array) -> dict[str, Any]:
        return split_parameters(self.model, points)[1]

    def _eta(self, point: Array, rows: slice) -> Array:
        """(n, m)."""
        offset = self.model.design.offset
        eta = self.U[rows] @ point[: self._k].reshape(self.model.shape)
        return plus_offset(eta, some_rows(offset, rows))

    def _prior(self, model: Model, point: Array) -> LocalModel:
        """log p(beta, log aux) under the prior of `model`."""
        T = self.model.design.basis.T
        beta = T @ point[: self._k].reshape(self.model.shape)
        return prior_derivatives(
            model, beta, T, {**self.model.fixed, **self._aux(point)}
        )

    def _scores(self, eta: Array, aux: Mapping[str, float]) -> Array:
        """d log p_i / d z_i (n, m + a), without weights."""
        if self.model.unknown:
            return self._derivatives(eta, aux).gradient
        likelihood, design = self.model.likelihood, self.model.design
        assert isinstance(likelihood, SmoothLikelihood)  # checked in `of`
        values = likelihood.at_rows(self.model.fixed, design.precision)
        return likelihood.score(design.observed, eta, **values)

    def _derivatives(self, eta: Array, aux: Mapping[str, float]) -> ValueGradHessian:
        """log p_i (n,) with gradient and negative Hessian over z_i, without weights."""
        model, design = self.model, self.model.design
        assert isinstance(model.likelihood, SmoothLikelihood)  # checked in `of`
        values = {**model.fixed, **aux}
        return model.likelihood.derivatives_over(
            model.unknown, design.observed, eta, values, design.precision
        )

    def _gradient(self, g: Array, rows: slice) -> Array:
        """sum_i J_i'g_i (k + a,) for g (n, m + a)."""
        m = self.model.shape[1]
        return np.concatenate([(self.U[rows].T @ g[:, :m]).ravel(), g[:, m:].sum(0)])

    def _curvature(self, h: Array, rows: slice) -> Array:
        """sum_i J_i'h_i J_i (k + a, k + a) for h (n, m + a, m + a)."""
        m = self.model.shape[1]
        U = self.U[rows]
        if m == 1:
            H = U.T @ (U * h[:, 0, :1])
        else:
            H = weighted_gram(U, h[:, :m, :m])
        if h.shape[1] == m:
            return H
        cross = np.einsum("np,nka->pka", U, h[:, :m, m:]).reshape(len(H), -1)
        return np.block([[H, cross], [cross.T, h[:, m:, m:].sum(0)]])
