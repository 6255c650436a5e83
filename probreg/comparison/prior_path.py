"""The path from the mode of one model to the mode of another with the same likelihood, and the share of each prior in the difference.

Between them lie log p_t(theta) = log p(y | theta) + (1 - t) log p_a(theta) + t log p_b(theta), theta = (vec gamma, log aux)
on standardised columns, with modes theta(t) and negative Hessians H(t). The priors are sums of blocks, one for each column
or term; with g_k the gradient of log p_bk - log p_ak

    d theta / dt = H^-1 sum_k g_k = sum_k v_k,       share of k in theta_b - theta_a = integral of v_k dt over (0, 1).

All blocks change together, so that the shares do not depend on an order, and the integral does not depend on the parametrisation of t. For the
standard errors SE_j^2 = (H^-1)_jj the share is the integral of d log SE_j / dt = -(H^-1 (P_k + dH[v_k]) H^-1)_jj / (2 (H^-1)_jj),
with P_k the block's own change of the curvature and dH[v_k] the third derivative along v_k. A nuisance parameter that one side
fixes at u_b has the prior -(u - u_b)^2 w t / (2 (1 - t)); its precision grows without bound.
"""

from collections.abc import Collection, Mapping
from dataclasses import dataclass, replace
from functools import partial
from types import MappingProxyType
from typing import NamedTuple

import numpy as np

from probreg.comparison.differences import Cause, SpecificCause
from probreg.comparison.numbers import by_outcome
from probreg.comparison.prior_weight import inverse_or_nan
from probreg.inference.modes.maximise import newton_step
from probreg.likelihoods import SmoothLikelihood
from probreg.linalg.halving import halvings
from probreg.linalg.vec import map_of_columns, map_of_predictors, vec_entries
from probreg.model import likelihood_sums as sums
from probreg.model.constructors import design_of_moments
from probreg.model.model import LocalModel, Model
from probreg.priors import Flat, Reference
from probreg.priors.joint import location_of
from probreg.special import differentiate

Array = np.ndarray


class PathPoint(NamedTuple):
    """The weights 1 - t and t of the priors of a and b, each without the rounding of the other."""

    a: float
    b: float


FIRST = PathPoint(1.0, 0.0)
LAST = PathPoint(0.0, 1.0)


class PriorTerms(NamedTuple):
    """The derivatives of a log prior over (vec beta, log aux), with the derivatives over log sigma by entry of vec beta."""

    slope: Array  # (k,)
    log_sigma: Array  # (k,), sums to the slope over log sigma of log p(beta | sigma)
    log_sigma_curvature: Array  # (k,), sums to its negative second derivative
    mixed: Array  # (k,), negative mixed derivative
    H: Array  # (k, k), negative
    aux: Array  # (a,), slope of the log prior of each log aux; 0 if it is fixed
    aux_curvature: Array  # (a,), negative second derivative

    @classmethod
    def of(cls, model: Model, beta: Array, aux: Mapping[str, float]) -> "PriorTerms":
        """The terms of a model at beta (p, m) and these nuisance parameters, including fixed ones."""
        sigma = model.likelihood.noise({**model.fixed, **aux})
        g, H = model.joint.derivatives(beta, sigma)
        k, m = beta.size, beta.shape[1]
        g, H = g[:k], H[:k, :k]
        in_units = np.zeros(k)
        r = np.zeros(k)
        for b in model.joint.blocks:
            if b.prior.sigma_units:
                entries = b.entries(m)
                in_units[entries] = 1.0
                centre = np.repeat(location_of(b), b.width(m))
                r[entries] = beta.ravel()[entries] - centre
        # in units of sigma log p = f(r / sigma) - k log sigma: -r'g - k, r'H r - r'g and g - H r, entry by entry
        Hr = H @ r
        of_aux = np.zeros((2, len(aux)))
        for i, (name, value) in enumerate(aux.items()):
            if name not in model.fixed:
                of_aux[:, i] = model.aux_prior(name).slopes(value)
        return cls(
            g, -r * g - in_units, r * Hr - r * g, in_units * (g - Hr), H, of_aux[0], -of_aux[1],
        )  # fmt: skip

    def mix(self, other: "PriorTerms", weights: tuple[float, float]) -> "PriorTerms":
        """The terms of a weighted sum of two log priors."""
        a, b = weights
        return PriorTerms._make([a * x + b * y for x, y in zip(self, other)])


class PathLocal(NamedTuple):
    """log p_t at a point, by its derivatives over theta."""

    theta: Array  # (k + a,)
    t: PathPoint
    aux: dict[str, float]
    priors: tuple[PriorTerms, PriorTerms]  # of a and b
    of_likelihood: Array  # (k + a, k + a), the negative Hessian of the log likelihood
    slope: Array  # (k + a,)
    H: Array  # (k + a, k + a), the negative Hessian


class PathMode(NamedTuple):
    """The mode theta(t) with the numbers of the table there, (J,)."""

    local: PathLocal
    covariance: Array  # of theta; fixed parameters have none
    value: Array
    log_se: Array


@dataclass(frozen=True, eq=False)
class PriorPath:
    """The models between a and b, which share likelihood, columns and rows.

    `likelihood_alone` has these rows (of a Gaussian model their moments) and flat priors. `unknown` maps the nuisance parameters
    that the two do not fix at one value to their places in theta; vec beta = `columns` vec gamma; `report` (J, k + a) maps theta to
    the table, with nuisance parameters on the log scale; `members` (K, k) are the entries of the groups of columns with changing
    priors; `held` has the log values of the parameters that a side fixes, None on the other side; `noise` is the name of the noise
    scale, "" for a likelihood without one; `quadratic` is whether the log priors of the coefficients are quadratic in theta; `units`
    maps each fixed parameter to the unit w of its precision.
    """

    a: Model
    b: Model
    likelihood_alone: Model
    unknown: Mapping[str, int]
    columns: Array
    report: Array
    members: Array
    causes: tuple[SpecificCause, ...]
    held: Mapping[str, tuple[float | None, float | None]]
    noise: str
    quadratic: bool
    units: Mapping[str, float] = MappingProxyType({})

    @classmethod
    def between(
        cls,
        a: Model,
        b: Model,
        groups: Mapping[str, tuple[int, ...]],
        params: tuple[str, ...],
        from_evidence: Collection[str] = (),
    ) -> "PriorPath":
        """The path between two models. `groups` maps names to sets of columns, and `params` are the nuisance parameters of the table. The
        parameters `from_evidence` have a value at the maximum of the evidence in one of the models."""
        rows = a if a.design.has_rows else b
        likelihood = rows.likelihood
        p, m = rows.shape
        names = [
            name
            for name in likelihood.nuisance
            if name not in a.fixed or a.fixed[name] != b.fixed.get(name)
        ]
        unknown = {name: p * m + i for i, name in enumerate(names)}
        fixed = {k: v for k, v in rows.fixed.items() if k not in unknown}
        design = rows.design
        if likelihood.least_squares:
            design = design_of_moments(design.moments)
        alone = replace(rows, design=design, prior=Flat(), aux=fixed)
        columns = map_of_columns(design.frame.T, m)
        D = likelihood.contrast_matrix
        entries = vec_entries(rows.design.ungrouped, len(D))
        R = (map_of_predictors(D, p) @ columns)[entries]
        report = np.zeros((len(R) + len(params), p * m + len(unknown)))
        report[: len(R), : p * m] = R[by_outcome(rows, np.arange(len(R)))]
        members = np.zeros((len(groups), p * m))
        for entry, indices in zip(members, groups.values()):
            entry[vec_entries(indices, m)] = 1.0
        causes = [SpecificCause(Cause.PRIOR, name) for name in groups]
        held = {}
        for name, i in unknown.items():
            if name in params:
                report[len(R) + params.index(name), i] = 1.0
            if name in a.fixed or name in b.fixed:
                first, second = [
                    float(np.log(model.fixed[name])) if name in model.fixed else None
                    for model in (a, b)
                ]
                held[name] = first, second
                held_by = Cause.FIXED_PARAMETER
                if name in from_evidence:
                    held_by = Cause.FOUND_PARAMETER
                causes.append(SpecificCause(held_by, name))
            elif a.aux_prior(name) != b.aux_prior(name):
                causes.append(SpecificCause(Cause.PARAMETER_PRIOR, name))
        quadratic = a.joint.gaussian and b.joint.gaussian
        if likelihood.noise_scale in unknown:
            in_units = a.joint.sigma_units | b.joint.sigma_units
            quadratic = quadratic and not in_units.any()
        return cls(
            a, b, alone, unknown, columns, report, members, tuple(causes), held,
            likelihood.noise_scale or "", quadratic,
        )  # fmt: skip

    # ---- the log posterior at t ---------------------------------------------------------------------------------------

    def _unpack(self, theta: Array) -> tuple[Array, dict[str, float]]:
        """Return gamma (k, m) and the nuisance parameters."""
        k = len(self.columns)
        # NumPy floats, because 1 / sigma^2 may overflow to inf
        aux = dict(zip(self.unknown, np.exp(theta[k:])))
        return theta[:k].reshape(self.likelihood_alone.shape), aux

    def priors_at(self, theta: Array) -> tuple[PriorTerms, PriorTerms]:
        """The terms of the priors of a and b."""
        gamma, aux = self._unpack(theta)
        beta = (self.columns @ gamma.ravel()).reshape(gamma.shape)
        return PriorTerms.of(self.a, beta, aux), PriorTerms.of(self.b, beta, aux)

    def over_theta(self, prior: PriorTerms) -> tuple[Array, Array]:
        """The gradient of a log prior over theta, and its negative Hessian."""
        k = len(self.columns)
        T = self.columns
        g = np.append(T.T @ prior.slope, prior.aux)
        H = np.diag(np.append(np.zeros(k), prior.aux_curvature))
        H[:k, :k] = T.T @ prior.H @ T
        q = self.unknown.get(self.noise)
        if q is not None:
            g[q] += prior.log_sigma.sum()
            H[q, q] += prior.log_sigma_curvature.sum()
            H[:k, q] = H[q, :k] = T.T @ prior.mixed
        return g, H

    def local(self, theta: Array, t: PathPoint) -> PathLocal:
        """log p_t at theta."""
        gamma, aux = self._unpack(theta)
        _, slope, H = self.likelihood_alone.value_grad_hessian_standardised(
            gamma, **aux
        )
        priors = self.priors_at(theta)
        g, P = self.over_theta(priors[0].mix(priors[1], t))
        for name in self.held:
            precision, _, centre = self._hold(name, t)
            if np.isfinite(precision):
                i = self.unknown[name]
                g[i] += precision * (centre - theta[i])
                P[i, i] += precision
        return PathLocal(theta, t, aux, priors, H, slope + g, H + P)

    def _hold(self, name: str, t: PathPoint) -> tuple[float, float, float]:
        """Return the precision about the value that a side gives a fixed parameter, its derivative by t, and the value."""
        start, end = self.held[name]
        if start is not None and end is not None:
            return np.inf, 0.0, start + t.b * (end - start)
        unit = self.units.get(name, 1.0)
        # t / (1 - t) if b fixes it
        weight, other, sign = (t.a, t.b, -1.0) if end is None else (t.b, t.a, 1.0)
        centre = start if end is None else end
        assert centre is not None  # a side fixes each parameter in `held`
        if other == 0.0:
            return np.inf, np.inf, centre
        return unit * weight / other, sign * unit / other**2, centre

    def mode(self, start: Array, t: PathPoint) -> PathMode | None:
        """theta(t) by Newton steps from `start`; None if they do not lead to a maximum with a standard error of every parameter."""
        theta = start.copy()
        free = np.ones(len(theta), bool)
        for name in self.held:
            precision, _, centre = self._hold(name, t)
            if not np.isfinite(precision):
                free[self.unknown[name]] = False
                theta[self.unknown[name]] = centre
        inside = np.ix_(free, free)
        with np.errstate(all="ignore"):
            local = self._climb(self.local(theta, t), free)
        if local is None:
            return None
        V = np.zeros(local.H.shape)
        V[inside] = inverse_or_nan(local.H[inside])
        if np.isnan(V).any():
            return None
        value = self.report @ local.theta
        with np.errstate(divide="ignore", invalid="ignore"):
            log_se = 0.5 * np.log(((self.report @ V) * self.report).sum(1))
        logs = self.report[:, len(self.columns) :].any(1)
        log_se[logs] += value[logs]  # sd(v) = v sd(log v)
        value[logs] = np.exp(value[logs])
        return PathMode(local, V, value, log_se)

    def _climb(self, local: PathLocal, free: Array) -> PathLocal | None:
        """Return the mode over the free parameters by Newton steps, each halved until the slope along it has decreased; None if there is none."""
        inside = np.ix_(free, free)
        most_steps = 100  # to a mode
        last_decrement = 1e-12  # a step at this squared distance to the mode, in standard errors, is the last: its error is about the square
        for _ in range(most_steps):
            if not np.isfinite(local.H).all():
                return None
            step = np.zeros(len(free))
            step[free], is_concave = newton_step(
                LocalModel(0.0, local.slope[free], local.H[inside])
            )
            rise = local.slope @ step
            if is_concave and rise < last_decrement:
                return self.local(local.theta + step, local.t)
            for size in halvings(local.theta, step):
                near = self.local(local.theta + size * step, local.t)
                if abs(near.slope @ step) <= (1.0 - 0.1 * size) * rise:
                    break
            else:
                return None
            local = near
        return None

    # ---- the slopes by t ----------------------------------------------------------------------------------------------

    def slopes(self, mode: PathMode) -> tuple[Array, Array]:
        """d / dt of values and log SE at a mode inside the path, cause by cause, (K, J) each."""
        local, V, value, _ = mode
        k = len(self.columns)
        change = local.priors[0].mix(local.priors[1], (-1.0, 1.0))
        onto = V @ self.report.T
        B = self.columns @ onto[:k]
        C = self.members
        q = self.unknown.get(self.noise)
        # g_k and a'P_k a of the groups of columns, where P_k is the change of their curvature
        g = np.zeros((len(self.causes), len(V)))
        squares = np.zeros((len(self.causes), len(value)))
        g[: len(C), :k] = (C * change.slope) @ self.columns
        squares[: len(C)] = C @ ((change.H @ B) * B)
        if q is not None:
            g[: len(C), q] = C @ change.log_sigma
            own = (C @ change.log_sigma_curvature)[:, None] * onto[q] ** 2
            squares[: len(C)] += own + 2.0 * (C * change.mixed) @ B * onto[q]
        directions = np.zeros((len(V), len(self.causes)))
        for row, cause in enumerate(self.causes[len(C) :], start=len(C)):
            i = self.unknown[cause.subject]
            start, end = self.held.get(cause.subject, (None, None))
            if start is not None and end is not None:
                # d theta = -H^-1 H_u du of the others
                directions[i, row] = end - start
                directions[:, row] -= V @ local.H[:, i] * (end - start)
                continue
            rate, centre = 0.0, 0.0
            if cause.subject in self.held:
                _, rate, centre = self._hold(cause.subject, local.t)
            g[row, i] = change.aux[i - k] + rate * (centre - local.theta[i])
            squares[row] = (change.aux_curvature[i - k] + rate) * onto[i] ** 2
        directions = directions + V @ g.T
        third = self._third_derivatives(local, directions, onto)
        shift = (self.report @ directions).T
        log_ratio = -0.5 * (squares + third) / (self.report * onto.T).sum(1)
        logs = self.report[:, k:].any(1)
        log_ratio[:, logs] += shift[:, logs]
        shift[:, logs] *= value[logs]
        return shift, log_ratio

    def _third_derivatives(
        self, local: PathLocal, directions: Array, onto: Array
    ) -> Array:
        """Return the derivatives (K, J) of a'H a along each direction, a the columns of `onto`; the part of the priors is by differences."""
        k = len(self.columns)
        third = np.zeros((directions.shape[1], onto.shape[1]))
        likelihood = self.likelihood_alone.likelihood
        if not likelihood.least_squares:
            assert isinstance(likelihood, SmoothLikelihood)  # others have no path
            fn = partial(
                sums.curvature_slopes, likelihood=likelihood, unknown=tuple(self.unknown), gamma=self._unpack(local.theta)[0],
                frame=self.likelihood_alone.design.frame, aux_values={**self.likelihood_alone.fixed, **local.aux}, direction=directions, onto=onto,
            )  # fmt: skip
            third = np.array(self.likelihood_alone.design.sum_over_rows(fn)[0])
        elif self.noise in self.unknown:
            H = local.of_likelihood
            moved = directions[:k].T @ H[:k]
            u = onto[k]
            # H = [B, 2 g; ., c] with dB = -2 B du, 2 dg = -2 B d gamma - 4 g du and dc = -4 g'd gamma - 2 c du
            square = (H @ onto * onto).sum(0)
            along = 2.0 * moved[:, :k] @ onto[:k] * u + moved[:, k:] * u**2
            third = -2.0 * (directions[k][:, None] * square + along)
        priors = [m.aux_prior(name) for m in (self.a, self.b) for name in m.unknown]
        if self.quadratic and {*map(type, priors)} <= {Reference}:
            return third
        size = np.sqrt(np.abs(np.diagonal(local.H)))
        for row, v in enumerate(directions.T):
            largest = np.abs(v * size).max()
            if largest > 0.0:
                square = partial(self._prior_square, local, onto, v)
                step = 0.005 / largest  # 0.005 standard errors
                third[row] += differentiate(square, step)
        return third

    def _prior_square(
        self, local: PathLocal, onto: Array, v: Array, distance: float
    ) -> Array:
        """a'P a (J,), a the columns of `onto` and P the negative Hessian of the log priors at a distance along v."""
        a, b = self.priors_at(local.theta + distance * v)
        P = self.over_theta(a.mix(b, local.t))[1]
        return ((P @ onto) * onto).sum(0)
