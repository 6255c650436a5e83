"""The path from the mode of one model to the mode of another with the same likelihood, and the share of each prior in it.

Between them lie log p_t(theta) = log p(y | theta) + (1 - t) log p_a(theta) + t log p_b(theta), theta = (vec gamma, log aux)
on standardised columns, with modes theta(t) and negative Hessians H(t). The priors are sums of blocks, one for each column
or term; with g_k the gradient of log p_bk - log p_ak

    d theta / dt = H^-1 sum_k g_k = sum_k v_k,       share of k in theta_b - theta_a = integral of v_k dt over (0, 1).

All blocks change together, so that no order is chosen, and the integral does not depend on the parametrisation of t. For the
standard errors SE_j^2 = (H^-1)_jj the share is the integral of d log SE_j / dt = -(H^-1 (P_k + dH[v_k]) H^-1)_jj / (2 (H^-1)_jj),
with P_k the block's own change of the curvature and dH[v_k] the third derivative along v_k. A nuisance parameter that one side
fixes at u_b has the prior -(u - u_b)^2 w t / (2 (1 - t)); its precision grows without bound.
"""

from collections.abc import Callable, Mapping
from dataclasses import dataclass, replace
from functools import cached_property, partial
from types import MappingProxyType
from typing import Any, NamedTuple

import numpy as np

from probreg.comparison.causes import Cause, SpecificCause
from probreg.comparison.numbers import by_outcome
from probreg.comparison.prior_terms import inverse_or_nan
from probreg.inference.uncertainty.constrained import Surface
from probreg.likelihoods import SmoothLikelihood
from probreg.linalg.vec import map_of_columns, map_of_predictors, vec_entries
from probreg.model import likelihood_sums as sums
from probreg.model.model import LocalModel, Model
from probreg.priors import Flat
from probreg.priors.joint import JointPrior, location_of

Array = np.ndarray
_STEP = 0.02  # of differences of sixth order of a prior's curvature, in standard errors


class PathPoint(NamedTuple):
    """The weights 1 - t and t of the priors of a and b, each without the rounding of the other."""

    a: float
    b: float


FIRST = PathPoint(1.0, 0.0)
LAST = PathPoint(0.0, 1.0)


class EntryTerms(NamedTuple):
    """The derivatives of log p(beta | sigma) by entry of vec beta: over the entry itself, and its part of those over log sigma."""

    slope: Array  # (k,)
    log_sigma: Array  # (k,), sums to the slope over log sigma
    log_sigma_curvature: Array  # (k,), sums to the negative second derivative over it
    mixed: Array  # (k,), negative mixed derivative
    H: Array  # (k, k), negative

    @classmethod
    def of(cls, joint: JointPrior, beta: Array, sigma: float) -> "EntryTerms":
        k, m = beta.size, beta.shape[1]
        _, g, H = joint.value_grad_hessian(beta, sigma)
        g, H = g[:k], H[:k, :k]
        in_units = np.zeros(k)
        r = np.zeros(k)
        for b in joint.blocks:
            if b.prior.sigma_units:
                entries = b.entries(m)
                in_units[entries] = 1.0
                centre = np.repeat(location_of(b), b.width(m))
                r[entries] = beta.ravel()[entries] - centre
        # in units of sigma log p = f(r / sigma) - k log sigma: -r'g - k, r'H r - r'g and g - H r, entry by entry
        Hr = H @ r
        return cls(g, -r * g - in_units, r * Hr - r * g, in_units * (g - Hr), H)


@dataclass(frozen=True, eq=False)
class PriorPath:
    """The models between a and b, which share likelihood, columns and rows.

    Their rows are those of `rows`. Every nuisance parameter is unknown unless both fix it at one value. vec beta = `columns` vec gamma;
    `report` (J, k + a) maps theta to the table, with nuisance parameters on the log scale; `members` (K, k) are the entries of the
    groups of columns with changing priors; `held` are log values on each side that fixes a parameter, by unknown parameter;
    `noise_index` is the index of log sigma in theta, if it is unknown; `units` is the unit of the precision w of each parameter.
    """

    a: Model
    b: Model
    rows: Model
    columns: Array
    report: Array
    members: Array
    causes: tuple[SpecificCause, ...]
    held: Mapping[str, tuple[float | None, float | None]]
    noise_index: int | None
    units: Mapping[str, float] = MappingProxyType({})

    @classmethod
    def between(
        cls,
        a: Model,
        b: Model,
        groups: Mapping[str, tuple[int, ...]],
        params: tuple[str, ...],
    ) -> "PriorPath":
        """The path between two models: `groups` maps names to sets of columns, `params` are the nuisance parameters of the table."""
        rows = a if a.design.has_rows else b
        p, m = rows.shape
        # columns stay raw where there are moments only
        T = rows.design.frame.T if rows.design.has_rows else np.eye(p)
        columns = map_of_columns(T, m)
        likelihood = rows.likelihood
        unknown = [
            name
            for name in likelihood.nuisance
            if name not in a.fixed or a.fixed[name] != b.fixed.get(name)
        ]
        D = likelihood.contrast_matrix
        entries = vec_entries(rows.design.head, len(D))
        R = (map_of_predictors(D, p) @ columns)[entries]
        report = np.zeros((len(R) + len(params), p * m + len(unknown)))
        report[: len(R), : p * m] = R[by_outcome(rows, np.arange(len(R)))]
        members = np.zeros((len(groups), p * m))
        for entry, indices in zip(members, groups.values()):
            entry[vec_entries(indices, m)] = 1.0
        causes = [SpecificCause(Cause.PRIOR, name) for name in groups]
        held: dict[str, tuple[float | None, float | None]] = {}
        for i, name in enumerate(unknown, start=p * m):
            if name in params:
                report[len(R) + params.index(name), i] = 1.0
            first, second = [
                float(np.log(model.fixed[name])) if name in model.fixed else None
                for model in (a, b)
            ]
            held[name] = first, second
            if held[name] != (None, None):
                causes.append(SpecificCause(Cause.FIXED_PARAMETER, name))
            elif a.aux_prior(name) != b.aux_prior(name):
                causes.append(SpecificCause(Cause.PARAMETER_PRIOR, name))
        noise_index = None
        if likelihood.noise_scale in unknown:
            noise_index = p * m + unknown.index(likelihood.noise_scale)
        return cls(
            a, b, rows, columns, report, members, tuple(causes), held, noise_index
        )

    @cached_property
    def like(self) -> Model:
        """The likelihood alone."""
        aux = {k: v for k, v in self.rows.fixed.items() if k not in self.held}
        return replace(self.rows, prior=Flat(), aux=aux)

    def parameters(self, theta: Array) -> tuple[Array, dict[str, float]]:
        """The coefficients (p, m), and all nuisance parameters by name."""
        k = len(self.columns)
        beta = (self.columns @ theta[:k]).reshape(self.rows.shape)
        aux = dict(zip(self.held, np.exp(theta[k:]).tolist()))
        return beta, {**self.rows.fixed, **aux}

    # ---- the log posterior at t ---------------------------------------------------------------------------------------

    def _likelihood(self, theta: Array) -> LocalModel:
        """log p(y | theta) with its derivatives; from moments for a Gaussian model."""
        aux = self.parameters(theta)[1]
        gamma = theta[: len(self.columns)].reshape(self.rows.shape)
        if not self.rows.likelihood.least_squares:
            unknown = {name: aux[name] for name in self.held}
            return self.like.value_grad_hessian_standardised(gamma, **unknown)
        sigma = np.float64(aux[self.rows.noise_scale])  # 1 / sigma^2 may be inf
        value, slope, of_sigma, H, cross, corner = sums.of_moments(
            self.rows.design.moments, gamma, self.columns, sigma, bool(self.held)
        )
        cross = cross[:, 0]
        gradient = np.append(slope, of_sigma)
        return LocalModel(
            float(value), gradient, np.block([[H, cross], [cross.T, corner]])
        )

    def prior(self, theta: Array, t: PathPoint) -> LocalModel:
        """The log prior of coefficients at t with its derivatives over theta."""
        beta, aux = self.parameters(theta)
        sigma = self.rows.likelihood.noise(aux)
        terms = [m.joint.value_grad_hessian(beta, sigma) for m in (self.a, self.b)]
        value, g, H = [t.a * x + t.b * y for x, y in zip(*terms)]
        # from (vec beta, log sigma) to theta
        k = len(self.columns)
        S = np.zeros((len(g), len(theta)))
        S[:k, :k] = self.columns
        if self.noise_index is not None:
            S[k, self.noise_index] = 1.0
        return LocalModel(value, S.T @ g, S.T @ H @ S)

    def aux_terms(self, name: str, u: float) -> Array:
        """(2, 3): log p over u = log v on either side, its slope and second derivative; 0 on a side that fixes the parameter."""
        terms = np.zeros((2, 3))
        for row, model in zip(terms, (self.a, self.b)):
            if name not in model.fixed:
                prior = model.aux_prior(name)
                v = float(np.exp(u))
                row[:] = float(prior.log_prob(np.asarray(v))) + u, *prior.slopes(v)
        return terms

    def _holding(self, name: str, t: PathPoint) -> tuple[float, float, float]:
        """Return the precision that fixes the parameter, its derivative by t, and the centre; 0 if it is free."""
        start, end = self.held[name]
        if start is not None and end is not None:
            return np.inf, 0.0, start + t.b * (end - start)
        unit = self.units.get(name, 1.0)
        if end is not None:  # t / (1 - t)
            weights, centre = (t.b, t.a, unit), end
        elif start is not None:
            weights, centre = (t.a, t.b, -unit), start
        else:
            return 0.0, 0.0, 0.0
        weight, other, slope = weights
        if other == 0.0:
            return np.inf, np.inf, centre
        return unit * weight / other, slope / other**2, centre

    def local(self, theta: Array, t: PathPoint) -> LocalModel:
        """log p_t with its gradient and negative Hessian."""
        likelihood = self._likelihood(theta)
        prior = self.prior(theta, t)
        value = likelihood.value + prior.value
        g = likelihood.gradient + prior.gradient
        H = likelihood.curvature + prior.curvature
        for i, name in enumerate(self.held, start=len(self.columns)):
            w, _, centre = self._holding(name, t)
            w = w if np.isfinite(w) else 0.0
            gap = centre - theta[i]
            of_prior = np.array(t) @ self.aux_terms(name, float(theta[i]))
            value += of_prior[0] - 0.5 * w * gap**2
            g[i] += of_prior[1] + w * gap
            H[i, i] += w - of_prior[2]
        return LocalModel(value, g, H)

    def free(self, t: PathPoint) -> Array:
        """(k + a,) bool: the parameters that are not fixed at this t."""
        precision = [self._holding(name, t)[0] for name in self.held]
        return np.append(np.ones(len(self.columns), bool), np.isfinite(precision))

    def mode(self, start: Array, t: PathPoint) -> tuple[Array, LocalModel] | None:
        """theta(t) with the log posterior there, by Newton steps; None if they do not lead to a maximum."""
        free = self.free(t)
        theta = start.copy()
        for i, name in enumerate(self.held, start=len(self.columns)):
            if not free[i]:
                theta[i] = self._holding(name, t)[2]
        directions = np.eye(len(theta))[:, free]
        return _PathSurface(self.rows, directions, self, t).maximise(theta, directions)

    # ---- the slopes by t ----------------------------------------------------------------------------------------------

    def reported(
        self, theta: Array, t: PathPoint, H: Array
    ) -> tuple[Array, Array, Array] | None:
        """Values and log SE of the table at a mode, and the covariance of theta; fixed parameters have none."""
        free = np.ix_(self.free(t), self.free(t))
        V = np.zeros(H.shape)
        V[free] = inverse_or_nan(H[free])
        if np.isnan(V).any():
            return None
        value = self.report @ theta
        with np.errstate(divide="ignore", invalid="ignore"):
            log_se = 0.5 * np.log(((self.report @ V) * self.report).sum(1))
        logs = self.report[:, len(self.columns) :].any(1)
        log_se[logs] += value[logs]  # sd(v) = v sd(log v)
        value[logs] = np.exp(value[logs])
        return value, log_se, V

    def slopes(
        self, theta: Array, t: PathPoint, H: Array
    ) -> tuple[Array, Array] | None:
        """d / dt of values and log SE, cause by cause, inside the path."""
        at_mode = self.reported(theta, t, H)
        if at_mode is None:
            return None
        value, _, V = at_mode
        k = len(self.columns)
        beta, aux = self.parameters(theta)
        sigma = self.rows.likelihood.noise(aux)
        sides = [EntryTerms.of(m.joint, beta, sigma) for m in (self.a, self.b)]
        change = EntryTerms._make([y - x for x, y in zip(*sides)])
        onto = V @ self.report.T
        B = self.columns @ onto[:k]
        C = self.members
        q = self.noise_index
        # g_k and a'P_k a of the groups of columns, P_k the change of their own curvature
        g = np.zeros((len(self.causes), len(theta)))
        g[: len(C), :k] = (C * change.slope) @ self.columns
        squares = np.zeros((len(self.causes), len(value)))
        squares[: len(C)] = C @ ((change.H @ B) * B)
        if q is not None:
            g[: len(C), q] = C @ change.log_sigma
            own = (C @ change.log_sigma_curvature)[:, None] * onto[q] ** 2
            squares[: len(C)] += own + 2.0 * (C * change.mixed) @ B * onto[q]
        directions = np.zeros((len(theta), len(self.causes)))
        for row, cause in enumerate(self.causes[len(C) :], start=len(C)):
            name = cause.subject
            i = k + list(self.held).index(name)
            start, end = self.held[name]
            if start is not None and end is not None:
                # d theta = -H^-1 H_u du of the others
                directions[i, row] = end - start
                directions[:, row] -= V @ H[:, i] * (end - start)
                continue
            first, second = self.aux_terms(name, float(theta[i]))
            _, dw, centre = self._holding(name, t)
            g[row, i] = second[1] - first[1] + dw * (centre - theta[i])
            squares[row] = (dw - second[2] + first[2]) * onto[i] ** 2
        directions = directions + V @ g.T
        third = self._likelihood_slopes(theta, directions, onto)
        third += self._prior_slopes(theta, t, H, directions, onto)
        shift = (self.report @ directions).T
        log_ratio = -0.5 * (squares + third) / (self.report * onto.T).sum(1)
        logs = self.report[:, k:].any(1)
        log_ratio[:, logs] += shift[:, logs]
        shift[:, logs] *= value[logs]
        return shift, log_ratio

    def _likelihood_slopes(self, theta: Array, directions: Array, onto: Array) -> Array:
        """(K, J): how a'H a of the likelihood changes along each direction, a the columns of `onto`."""
        k = len(self.columns)
        likelihood = self.rows.likelihood
        if not likelihood.least_squares:
            assert isinstance(likelihood, SmoothLikelihood)  # others have no path
            fn = partial(
                sums.curvature_slopes, likelihood=likelihood, unknown=tuple(self.held), gamma=theta[:k].reshape(self.rows.shape),
                frame=self.rows.design.frame, aux_values=self.parameters(theta)[1], direction=directions, onto=onto,
            )  # fmt: skip
            return np.array(self.rows.design.fold(fn)[0])
        if self.noise_index is None:
            return np.zeros((directions.shape[1], onto.shape[1]))
        H = self._likelihood(theta).curvature
        moved = directions[:k].T @ H[:k]
        u = onto[k]
        # H = [B, 2 g; ., c] with dB = -2 B du, 2 dg = -2 B d gamma - 4 g du and dc = -4 g'd gamma - 2 c du
        square = (H @ onto * onto).sum(0)
        along = 2.0 * moved[:, :k] @ onto[:k] * u + moved[:, k:] * u**2
        return np.asarray(-2.0 * (directions[k][:, None] * square + along))

    def _prior_slopes(
        self, theta: Array, t: PathPoint, H: Array, directions: Array, onto: Array
    ) -> Array:
        """The same of the priors at t, by differences; 0 where they are quadratic."""
        slopes = np.zeros((directions.shape[1], onto.shape[1]))
        for i, name in enumerate(self.held, start=len(self.columns)):

            def curvature(x: float, i: int = i, name: str = name) -> float:
                return float(np.array(t) @ self.aux_terms(name, theta[i] + x)[:, 2])

            slope = _sixth_order(curvature, _STEP)
            slopes -= slope * np.outer(directions[i], onto[i] ** 2)
        quadratic = self.a.joint.gaussian and self.b.joint.gaussian
        if self.noise_index is not None:
            in_units = self.a.joint.sigma_units | self.b.joint.sigma_units
            quadratic = quadratic and not in_units.any()
        if quadratic:
            return slopes
        size = np.sqrt(np.abs(np.diagonal(H)))
        for row, v in enumerate(directions.T):
            largest = float(np.abs(v * size).max())

            def squares(x: float, v: Array = v) -> Array:
                P = self.prior(theta + x * v, t).curvature
                return np.asarray(((P @ onto) * onto).sum(0))

            if largest > 0:
                slopes[row] += _sixth_order(squares, _STEP / largest)
        return slopes


@dataclass(frozen=True, eq=False)
class _PathSurface(Surface):
    """log p_t over theta."""

    path: PriorPath
    t: PathPoint

    def evaluate(self, theta: Array) -> LocalModel:
        with np.errstate(all="ignore"):
            return self.path.local(theta, self.t)


def _sixth_order(f: Callable[[float], Any], h: float) -> Any:
    """f'(0) = [45 (f(h) - f(-h)) - 9 (f(2 h) - f(-2 h)) + f(3 h) - f(-3 h)] / (60 h) + O(h^6)."""
    weights = ((1, 45.0), (2, -9.0), (3, 1.0))
    return sum([c * (f(n * h) - f(-n * h)) for n, c in weights]) / (60.0 * h)
