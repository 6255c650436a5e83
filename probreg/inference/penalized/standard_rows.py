"""The rows of a smooth model on standardised columns, kept for many modes: the
log-likelihood with its derivatives.

A point is (vec gamma, log aux) with beta = T gamma; row i depends on z_i = (eta_i, log
aux), with J_i = dz_i / dpoint. With g_i and h_i the gradient and negative Hessian of
w_i log p_i over z_i, the log-likelihood has the gradient sum_i J_i'g_i and the negative
Hessian sum_i J_i'h_i J_i. A `Model` computes the same by block for any number of rows;
here the columns are standardised once, and a gradient takes at most two products with
them.

Modes without parts of the rows (folds, or single observations) follow from the mode of
all rows. Let it have the negative Hessian H. Without the rows of part k the gradient is
-sum_k J_i'g_i and the negative Hessian H_k = H - sum_k J_i'h_i J_i, from one pass over
the rows for all parts. The first step is H_k^-1 times this gradient; further steps keep
H_k and compute only gradients, for many parts at once. Each step is shorter by about
the share of removed rows times the distance of the modes, so two or three are enough.
Parts with any doubt get no result.
"""

from collections.abc import Iterator, Mapping
from dataclasses import dataclass, replace
from functools import cached_property
from itertools import pairwise
from typing import Any, NamedTuple

import numpy as np

from probreg.data import Frame
from probreg.data.rows import full_weights, plus_offset, times_weights
from probreg.inference.base import Array
from probreg.inference.modes.existence import FAR, may_diverge_along
from probreg.inference.modes.newton import response_shift
from probreg.likelihoods import MayDiverge, SmoothLikelihood
from probreg.linalg import weighted_gram
from probreg.model.likelihood_sums import COMPILED
from probreg.model.model import LocalModel, Model, prior_derivatives

_NEAR = 1e-9  # of sqrt(n) standard errors: distance from the mode at the end
_STEPS = 12  # steps with one curvature
_AT_ONCE = 4_000_000  # numbers of linear predictors in a batch: 32 MB
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
        places = [self.likelihood.nuisance.index(name) for name in self.model.unknown]
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
    """A mode with the log-likelihood at this point, and its distance from
    the maximum in standard errors."""

    point: Array
    likelihood: LocalModel
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
                return NextMode(point, shifted, decrement)
            likelihood = rows.local(point)
    return None


class FromOtherRows(NamedTuple):
    """Predictors of each row of the parts from the other rows (r, m), nuisance
    parameters (K,) of each part by name, and whether each part (K,) has a certain
    mode."""

    eta: Array
    aux: dict[str, Array]
    good: Array


@dataclass(frozen=True, eq=False)
class LeftOutParts:
    """Rows sorted by their parts: part k is `slices[k]`, and `rest` (r,) is the weight
    that remains when it is left out."""

    rows: StandardRows
    order: Array
    slices: tuple[slice, ...]
    rest: Array
    weights: Array

    @classmethod
    def of(
        cls, model: Model, part: Array, kept_weights: Array | None = None
    ) -> "LeftOutParts | None":
        """`part` (n,) is the number of each row's part, -1 for none; None if
        `StandardRows` does not apply."""
        inside = np.flatnonzero(part >= 0)
        outside = np.flatnonzero(part < 0)
        inside = inside[np.argsort(part[inside], kind="stable")]
        order = np.concatenate([inside, outside])
        rows = StandardRows.of(
            replace(model.with_prior_frozen, design=model.design.take(order))
        )
        if rows is None:
            return None
        edges = np.r_[0, np.cumsum(np.bincount(part[inside]))].tolist()
        weights = full_weights(rows.model.design.weights, len(order))
        if kept_weights is None:
            kept_of_parts = np.zeros(len(inside))
        else:
            kept_of_parts = kept_weights[inside]
        return cls(
            rows,
            inside,
            tuple(slice(a, b) for a, b in pairwise(edges)),
            kept_of_parts,
            weights,
        )

    def without(
        self, model: Model, point: Array, guess: Array | None = None
    ) -> tuple[FromOtherRows, Array]:
        """Return results from the mode of `model`, the prior at one scale, and the
        correction after the first step.

        `guess` (K, k + a) is this correction at a nearby scale.
        """
        rows = self.rows
        prior = PriorAt(self.rows, model)
        about = prior.local(point)
        _, g, h = rows.derivatives(rows.eta(point), rows.aux(point))
        w = self.weights
        removed = self.weights[: len(self.rest)] - self.rest
        # H_k = H - sum_k J_i'h_i J_i, and the gradient without part k
        H = np.stack(
            [
                rows.curvature(h[part] * removed[part, None, None], part)
                for part in self.slices
            ]
        )
        slopes = np.stack(
            [rows.gradient(g[part] * removed[part, None], part) for part in self.slices]
        )
        all_removed = len(removed) == len(w) and not self.rest.any()
        if all_removed:
            all_rows = H.sum(0)
        else:
            all_rows = rows.curvature(h * w[:, None, None])
        if all_removed:
            slope = slopes.sum(0)
        else:
            slope = rows.gradient(g * w[:, None])
        inverse, good = inverses(all_rows + about.curvature - H)
        gradient = slope + about.gradient - slopes
        first = point + np.einsum("kij,kj->ki", inverse, gradient)
        points = first if guess is None else first + guess
        with np.errstate(
            all="ignore"
        ):  # too long a step gives inf or nan, which marks doubt
            for batch in self._batches():
                points[batch], good[batch] = self._settle(
                    prior,
                    about,
                    point,
                    batch,
                    points[batch],
                    inverse[batch],
                    good[batch],
                )
        good &= np.isfinite(points).all(1)
        return self._predictions(points, good), np.where(
            good[:, None], points - first, 0.0
        )

    def _batches(self) -> Iterator[slice]:
        size = max(
            _AT_ONCE // max(self.rows.model.design.n * self.rows.model.shape[1], 1), 1
        )
        return (slice(a, a + size) for a in range(0, len(self.slices), size))

    def _settle(
        self,
        prior: PriorAt,
        about: LocalModel,
        mode: Array,
        batch: slice,
        points: Array,
        inverse: Array,
        good: Array,
    ) -> tuple[Array, Array]:
        """Make steps with a fixed curvature until all parts are at their modes.

        Parts that do not converge, or that need a proof of a maximum, are marked as not
        good.
        """
        tol = _NEAR * max(1.0, np.sqrt(self.rows.model.design.total))
        before = np.full(len(points), np.inf)
        is_done = ~good
        for _ in range(_STEPS):
            active = np.flatnonzero(~is_done)
            if not len(active):
                break
            g, reach = self._slopes(
                points[active], range(batch.start, batch.start + len(points)), active
            )
            g += prior.slopes(mode, about, points[active])
            step = np.einsum("kij,kj->ki", inverse[active], g)
            size = np.sqrt(np.maximum((g * step).sum(1), 0.0))
            failed = ~(size < 0.7 * before[active]) | ~np.isfinite(step).all(1)
            if self.rows.may_diverge:
                failed |= ~(reach < FAR)
            points[active[~failed]] += step[~failed]
            # the next step is shorter by about the same ratio
            rate = np.minimum(
                np.where(np.isfinite(before[active]), size / before[active], 0.5), 0.5
            )
            good[active[failed]] = False
            is_done[active] = failed | (size * rate < tol)
            before[active] = size
        good[~is_done] = False
        return points, good

    def _slopes(
        self, points: Array, numbers: range, active: Array
    ) -> tuple[Array, Array]:
        """Return the gradient of the log-likelihood without each part at its point (K,
        k + a), and the largest |eta|."""
        rows, ((p, m), design) = (
            self.rows,
            (self.rows.model.shape, self.rows.model.design),
        )
        K = len(points)
        n = design.n
        gamma = points[:, : p * m].reshape(K, p, m).swapaxes(1, 2).reshape(K * m, p)
        eta = (gamma @ rows.U.T).reshape(K, m, n)
        if design.offset is not None:
            eta += design.offset.T
        g = np.empty_like(eta)
        aux_slopes = np.zeros((K, points.shape[1] - p * m))
        for j, k in enumerate(active):
            part = self.slices[numbers[k]]
            scores = rows.scores(eta[j].T, rows.aux(points[j])) * self.weights[:, None]
            scores[part] *= (self.rest[part] / self.weights[part])[:, None]
            g[j], aux_slopes[j] = scores[:, :m].T, scores[:, m:].sum(0)
        slope = (
            (g.reshape(K * m, n) @ rows.U)
            .reshape(K, m, p)
            .swapaxes(1, 2)
            .reshape(K, p * m)
        )
        if rows.may_diverge:
            reach = np.abs(eta).max((1, 2))
        else:
            reach = np.zeros(K)
        return np.concatenate([slope, aux_slopes], 1), reach

    def _predictions(self, points: Array, good: Array) -> FromOtherRows:
        m = self.rows.model.shape[1]
        k = points.shape[1] - len(self.rows.model.unknown)
        points = np.where(good[:, None], points, np.nan)
        eta = np.full((len(self.rest), m), np.nan)
        for j in np.flatnonzero(good):
            eta[self.slices[j]] = self.rows.eta(points[j], self.slices[j])
        return FromOtherRows(
            eta,
            {
                a: np.exp(points[:, k + i])
                for i, a in enumerate(self.rows.model.unknown)
            },
            good,
        )
