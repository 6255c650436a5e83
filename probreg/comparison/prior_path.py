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
from probreg.comparison.prior_terms_by_entry import PriorSide, PriorTerms
from probreg.inference.modes.newton import newton_step
from probreg.likelihoods import SmoothLikelihood
from probreg.model import likelihood_sums as sums
from probreg.model.model import LocalModel, Model
from probreg.numerics.frame import map_of_columns, map_of_predictors, vec_entries
from probreg.priors import Flat

Array = np.ndarray
MOST = 300  # coefficients and nuisance parameters of a path: of more the systems take seconds
_LONGEST = 10.0  # of a step in the log of a nuisance parameter
_STEP = 0.02  # of differences of sixth order of a prior's curvature, in standard errors


class PathPoint(NamedTuple):
    """The weights 1 - t and t of the priors of a and b, each without the rounding of the other."""

    a: float
    b: float


FIRST = PathPoint(1.0, 0.0)
LAST = PathPoint(0.0, 1.0)


@dataclass(frozen=True, eq=False)
class PriorPath:
    """The models between a and b, which share likelihood, columns and rows.

    `groups` maps names to sets of columns; the priors of a set are one part; `params` are the nuisance parameters of the table;
    `units` is the unit of the precision w of each nuisance parameter that one side fixes.
    """

    a: Model
    b: Model
    groups: Mapping[str, tuple[int, ...]]
    params: tuple[str, ...]
    units: Mapping[str, float] = MappingProxyType({})

    # ---- coordinates and parts ----------------------------------------------------------------------------------------

    @cached_property
    def like(self) -> Model:
        """The likelihood alone; every nuisance parameter is unknown unless both sides fix it at one value."""
        rows = self.a if self.a.design.reachable else self.b
        same = {
            name: v for name, v in self.a.fixed.items() if self.b.fixed.get(name) == v
        }
        return replace(rows, prior=Flat(), aux=same)

    @cached_property
    def k(self) -> int:
        return int(np.prod(self.like.shape))

    @cached_property
    def T(self) -> Array:
        """(p, p), beta = T gamma; columns stay raw where there are moments only."""
        if self.like.design.reachable:
            return self.like.design.frame.T
        return np.eye(self.like.shape[0])

    @cached_property
    def columns(self) -> Array:
        """(p m, p m), vec beta = S vec gamma."""
        return map_of_columns(self.T, self.like.shape[1])

    @cached_property
    def reporting_matrix(self) -> Array:
        """Return the matrix (J, k + a) from theta to the table, with nuisance parameters on the log scale."""
        k = self.k
        a = len(self.like.unknown)
        D = self.like.likelihood.contrast_matrix
        R = (map_of_predictors(D, self.like.shape[0]) @ self.columns)[
            vec_entries(self.like.design.head, len(D))
        ]
        R = R[by_outcome(self.like, np.arange(len(R)))]
        matrix = np.zeros((len(R) + len(self.params), k + a))
        matrix[: len(R), :k] = R
        for i, name in enumerate(self.params):
            matrix[len(R) + i, k + self.like.unknown.index(name)] = 1.0
        return matrix

    @cached_property
    def members(self) -> Array:
        """(K, p m): the entries of vec beta of each group."""
        matrix = np.zeros((len(self.groups), self.k))
        for row, indices in zip(matrix, self.groups.values()):
            row[vec_entries(indices, self.like.shape[1])] = 1.0
        return matrix

    @cached_property
    def changing_aux(self) -> tuple[str, ...]:
        """Return the nuisance parameters with different priors or fixed values."""
        return tuple(
            name
            for name in self.like.unknown
            if self._fixed_logs(name) != (None, None)
            or self.a.aux_prior(name) != self.b.aux_prior(name)
        )

    def _fixed_logs(self, name: str) -> tuple[float | None, float | None]:
        """Return log v on each side that fixes the parameter at v, else None."""
        a, b = (
            float(np.log(m.fixed[name])) if name in m.fixed else None
            for m in (self.a, self.b)
        )
        return a, b

    @cached_property
    def causes(self) -> tuple[SpecificCause, ...]:
        fixed = [self._fixed_logs(name) != (None, None) for name in self.changing_aux]
        kinds = [Cause.FIXED_PARAMETER if f else Cause.PARAMETER_PRIOR for f in fixed]
        return (
            *(SpecificCause(Cause.PRIOR, name) for name in self.groups),
            *map(SpecificCause, kinds, self.changing_aux),
        )

    # ---- the log posterior at t ---------------------------------------------------------------------------------------

    def _aux_at(self, theta: Array) -> dict[str, float]:
        return {
            name: float(np.exp(u))
            for name, u in zip(self.like.unknown, theta[self.k :])
        }

    def _local_likelihood(self, theta: Array) -> LocalModel:
        """Return log p(y | theta) with its derivatives; from moments for a Gaussian model."""
        gamma = theta[: self.k].reshape(self.like.shape)
        aux = self._aux_at(theta)
        if not self.like.likelihood.least_squares:
            return self.like.value_grad_hessian_standardised(gamma, **aux)
        F, r, w, S = self._least_squares_terms(theta)
        # log p = -W log sigma - S / (2 sigma^2), S = RSS + r'r, r = z - F gamma
        W = self.like.design.moments.weight
        value = 0.5 * (W * float(np.log(w)) - S * w)
        g = F.T @ r * w
        H = F.T @ F * w
        if not aux:
            return LocalModel(value, g, H)
        cross = 2.0 * g[:, None]
        return LocalModel(
            value,
            np.append(g, S * w - W),
            np.block([[H, cross], [cross.T, np.array([[2.0 * S * w]])]]),
        )

    def _least_squares_terms(self, theta: Array) -> tuple[Array, Array, float, float]:
        moments = self.like.design.moments
        F = np.asarray(moments.R, dtype=float) @ self.T
        r = np.asarray(moments.z, dtype=float) - F @ theta[: self.k]
        sigma = self.like.noise(self._aux_at(theta))
        return F, r, sigma**-2.0, float(moments.factor[-1, -1]) ** 2 + float(r @ r)

    def _curvature_slopes(self, theta: Array, directions: Array, onto: Array) -> Array:
        """(K, J): how a'H a of the likelihood changes along each direction, a the columns of `onto`."""
        k = self.k
        aux = self._aux_at(theta)
        likelihood = self.like.likelihood
        if not likelihood.least_squares:
            assert isinstance(
                likelihood, SmoothLikelihood
            )  # those without have no path
            fn = partial(
                sums.curvature_slopes, likelihood=likelihood, unknown=self.like.unknown,
                gamma=theta[:k].reshape(self.like.shape), frame=self.like.design.frame, aux_values={**self.like.fixed, **aux},
                direction=directions, onto=onto,
            )  # fmt: skip
            return np.asarray(self.like.design.fold(fn)[0])
        if not aux:
            return np.zeros((directions.shape[1], onto.shape[1]))
        F, r, w, S = self._least_squares_terms(theta)
        Fa = F @ onto[:k]
        Fv = F @ directions[:k]
        u = onto[k]
        du = directions[k]
        # H = [F'F w, 2 F'r w; ., 2 S w] with dw = -2 w du, dr = -F d gamma, dS = 2 r'dr
        square = (Fa**2).sum(0)
        pull = r @ Fa
        drift = r @ Fv
        slopes = -2.0 * w * du[:, None] * (square + 4.0 * pull * u + 2.0 * S * u**2)
        return slopes - 4.0 * w * (Fv.T @ Fa * u + drift[:, None] * u**2)

    @cached_property
    def priors(self) -> tuple[PriorSide, PriorSide]:
        """The priors of both models."""
        return PriorSide(self.a.joint, self.like.shape[1]), PriorSide(
            self.b.joint, self.like.shape[1]
        )

    def sides(
        self, theta: Array
    ) -> tuple[tuple[float, PriorTerms], tuple[float, PriorTerms]]:
        """log p(beta | sigma) of both with its terms."""
        beta = (self.columns @ theta[: self.k]).reshape(self.like.shape)
        a, b = self.priors
        sigma = self.like.noise(self._aux_at(theta))
        return a.terms(beta, sigma), b.terms(beta, sigma)

    def _local_prior(self, theta: Array, t: PathPoint) -> tuple[float, PriorTerms]:
        """Return the log prior at t and its terms; terms equal on both sides keep weight 1."""
        (a, first), (b, second) = self.sides(theta)
        weighted = first.scale_rows(np.full(self.k, t.a)).plus(
            second.scale_rows(np.full(self.k, t.b))
        )
        return sum(w * v for w, v in zip(t, (a, b)) if w), weighted

    def _aux_prior_weights(self, name: str, t: PathPoint) -> Array:
        """Return the weight of the prior of a nuisance parameter on each side."""
        return np.array(
            [0.0 if name in m.fixed else w for m, w in zip((self.a, self.b), t)]
        )

    def aux_terms(self, name: str, u: float) -> Array:
        """(2, 2): slope and second derivative of either side's log p over u = log v."""
        slopes = [
            (0.0, 0.0)
            if name in m.fixed
            else m.aux_prior(name).slopes(float(np.exp(u)))
            for m in (self.a, self.b)
        ]
        return np.array(slopes)

    def _fixing_precision(self, name: str, t: PathPoint) -> tuple[float, float, float]:
        """Return the precision that fixes the parameter, its derivative by t, and the centre; 0 if it is free."""
        start, end = self._fixed_logs(name)
        if start is not None and end is not None:
            return np.inf, 0.0, start + t.b * (end - start)
        if end is not None:  # t / (1 - t)
            if t.a > 0:
                return (t.b / t.a, t.a**-2.0, end)
            return (np.inf, np.inf, end)
        if start is not None:
            if t.b > 0:
                return (t.a / t.b, -(t.b**-2.0), start)
            return (np.inf, np.inf, start)
        return 0.0, 0.0, 0.0

    def local(self, theta: Array, t: PathPoint) -> LocalModel:
        """log p_t with its gradient and negative Hessian."""
        (value, g, H), (log_p, prior), k = (
            self._local_likelihood(theta),
            self._local_prior(theta, t),
            self.k,
        )
        value = value + log_p
        g = g.copy()
        H = H.copy()
        g[:k] += self.columns.T @ prior.g
        H[:k, :k] += self.columns.T @ prior.H @ self.columns
        q = self._log_sigma_index
        if q is not None:
            cross = self.columns.T @ prior.cross
            g[q] += prior.g_scale.sum()
            H[q, q] += prior.h_scale.sum()
            H[:k, q] += cross
            H[q, :k] += cross
        for i, name in enumerate(self.like.unknown, start=k):
            weights = self._aux_prior_weights(name, t)
            u = float(theta[i])
            slope = weights @ self.aux_terms(name, u)
            w, _, centre = self._fixing_precision(name, t)
            if np.isfinite(w):
                w = w * self.units.get(name, 1.0)
            else:
                w = 0.0
            log_priors = [
                float(m.aux_prior(name).log_prob(np.exp(u))) + u if x else 0.0
                for x, m in zip(weights, (self.a, self.b))
            ]
            value += float(weights @ log_priors) - 0.5 * w * (centre - u) ** 2
            g[i] += slope[0] + w * (centre - u)
            H[i, i] += w - slope[1]
        return LocalModel(value, g, H)

    @cached_property
    def _log_sigma_index(self) -> int | None:
        """Return the index of log sigma in theta, or None."""
        name = self.like.likelihood.noise_scale
        if name in self.like.unknown:
            return self.k + self.like.unknown.index(name)
        return None

    def _free(self, t: PathPoint) -> Array:
        """(k + a,) bool: the parameters that are not fixed at this t."""
        held = [
            np.isinf(self._fixing_precision(name, t)[0]) for name in self.like.unknown
        ]
        return ~np.concatenate([np.zeros(self.k, bool), np.array(held, bool)])

    def mode(self, start: Array, t: PathPoint) -> Array | None:
        """theta(t) by Newton's method, steps halved until log p_t rises, near the mode until the decrement falls; None if it does
        not."""
        free = self._free(t)
        theta = start.copy()
        for i in np.flatnonzero(~free):
            theta[i] = self._fixing_precision(self.like.unknown[i - self.k], t)[2]
        best = -np.inf
        before = np.inf
        slope = np.inf
        step = np.zeros(int(free.sum()))
        size = 1.0
        logs = np.flatnonzero(free) >= self.k
        for _ in range(100):
            candidate = theta.copy()
            candidate[free] += size * step
            with np.errstate(all="ignore"):
                value, g, H = self.local(candidate, t)
            if np.isfinite(value) and np.isfinite(g).all() and np.isfinite(H).all():
                new, convex = newton_step(
                    LocalModel(value, g[free], H[np.ix_(free, free)])
                )
                decrement = float(np.sqrt(max(g[free] @ new, 0.0)))
                if slope > 1e-4:
                    rises = value >= best + 1e-4 * size * slope
                else:
                    rises = decrement < max(before, 1e-9)
                if rises or np.isinf(slope):
                    # a step in a log that leaves double precision is none
                    theta = candidate
                    step = new
                    size = min(
                        1.0,
                        _LONGEST / max(float(np.abs(new[logs]).max(initial=0.0)), 1.0),
                    )
                    if convex and (
                        decrement < 1e-7
                        or (decrement < 1e-5 and decrement > 0.5 * before)
                    ):
                        theta[free] += step  # the error squares
                        return theta
                    best = value
                    before = decrement
                    slope = decrement**2
                    continue
            size *= 0.5
            if size < 1e-4:
                return None
        return None

    # ---- the slopes by t ----------------------------------------------------------------------------------------------

    def ends_of(
        self, theta: Array, t: PathPoint, H: Array
    ) -> tuple[Array, Array, Array] | None:
        """Values and log SE of the table at a mode, and the covariance of theta; fixed parameters have none."""
        free = self._free(t)
        H = H[np.ix_(free, free)]
        d = np.sqrt(np.abs(np.diagonal(H)))
        if (d > 0).all():
            scaled = H / np.outer(d, d)
        else:
            scaled = np.full(H.shape, np.nan)
        if not np.isfinite(scaled).all() or np.linalg.eigvalsh(scaled)[0] < 1e-12:
            return None
        V = np.zeros((len(free), len(free)))
        V[np.ix_(free, free)] = np.linalg.inv(scaled) / np.outer(d, d)
        value = self.reporting_matrix @ theta
        n = len(self.params)
        with np.errstate(divide="ignore", invalid="ignore"):
            log_se = 0.5 * np.log(
                np.einsum(
                    "ji,ik,jk->j", self.reporting_matrix, V, self.reporting_matrix
                )
            )
        if n:  # sd(v) = v sd(log v)
            log_se[-n:] += value[-n:]
            value[-n:] = np.exp(value[-n:])
        return value, log_se, V

    def slopes(self, theta: Array, t: PathPoint) -> tuple[Array, Array] | None:
        """d / dt of values and log SE, part by part, inside the path."""
        H = self.local(theta, t).curvature
        at_mode = self.ends_of(theta, t, H)
        if at_mode is None:
            return None
        (value, _, V), k, n = at_mode, self.k, len(self.params)
        (_, a), (_, b) = self.sides(theta)
        change = b.plus(a.scale_rows(-np.ones(k)))
        onto = V @ self.reporting_matrix.T
        B = self.columns @ onto[:k]
        C = self.members
        q = self._log_sigma_index
        # g_k and a'P_k a of the groups of columns, P_k the change of their own curvature
        g = np.zeros((len(self.causes), len(theta)))
        g[: len(C), :k] = (C * change.g) @ self.columns
        curvature_changes = np.zeros((len(self.causes), len(value)))
        curvature_changes[: len(C)] = C @ ((change.H @ B) * B)
        if q is not None:
            g[: len(C), q] = C @ change.g_scale
            curvature_changes[: len(C)] += (C @ change.h_scale)[:, None] * onto[
                q
            ] ** 2 + 2.0 * (C * change.cross) @ B * onto[q]
        directions = np.zeros((len(theta), len(self.causes)))
        for row, name in enumerate(self.changing_aux, start=len(C)):
            i = k + self.like.unknown.index(name)
            start, end = self._fixed_logs(name)
            if (
                start is not None and end is not None
            ):  # d theta = -H^-1 H_u du of the others
                directions[i, row] = end - start
                directions[:, row] -= V @ H[:, i] * (end - start)
                continue
            slope = np.subtract(*self.aux_terms(name, float(theta[i]))[::-1])
            _, dw, centre = self._fixing_precision(name, t)
            dw *= self.units.get(name, 1.0)
            g[row, i] = slope[0] + dw * (centre - theta[i])
            curvature_changes[row] = (dw - slope[1]) * onto[i] ** 2
        directions = directions + V @ g.T
        third = self._curvature_slopes(theta, directions, onto) + self._prior_slopes(
            theta, t, H, directions, onto
        )
        shift = (self.reporting_matrix @ directions).T
        variance = np.einsum("ji,ij->j", self.reporting_matrix, onto)
        log_ratio = -0.5 * (curvature_changes + third) / variance
        if n:
            log_ratio[:, -n:] += shift[:, -n:]
            shift[:, -n:] *= value[-n:]
        return shift, log_ratio

    def _prior_slopes(
        self, theta: Array, t: PathPoint, H: Array, directions: Array, onto: Array
    ) -> Array:
        """The same as `_curvature_slopes` of the priors at t, by differences; 0 where they are quadratic."""
        slopes = np.zeros((directions.shape[1], onto.shape[1]))
        for i, name in enumerate(self.like.unknown, start=self.k):
            weights = self._aux_prior_weights(name, t)
            u = float(theta[i])
            slope = _sixth_order(
                lambda x, w=weights, u=u, aux_name=name: (
                    w @ self.aux_terms(aux_name, u + x)[:, 1]
                ),  # type: ignore[misc]
                _STEP,
            )
            slopes -= slope * np.outer(directions[i], onto[i] ** 2)
        if all(
            m.joint.gaussian
            and (self._log_sigma_index is None or not m.joint.sigma_units.any())
            for m in (self.a, self.b)
        ):
            return slopes
        size = np.sqrt(np.abs(np.diagonal(H)))
        for row, v in enumerate(directions.T):
            largest = float(np.abs(v * size).max())
            if largest > 0:
                slopes[row] += _sixth_order(
                    lambda x, v=v: self._prior_squares(theta + x * v, t, onto),  # type: ignore[misc]
                    _STEP / largest,
                )
        return slopes

    def _prior_squares(self, theta: Array, t: PathPoint, onto: Array) -> Array:
        """a'P a for each column a of `onto`, P the curvature of the priors of coefficients at t."""
        (_, prior), q = self._local_prior(theta, t), self._log_sigma_index
        B = self.columns @ onto[: self.k]
        squares = ((prior.H @ B) * B).sum(0)
        if q is not None:
            squares += (
                prior.h_scale.sum() * onto[q] ** 2 + 2.0 * (prior.cross @ B) * onto[q]
            )
        return np.asarray(squares)


def _sixth_order(f: Callable[[float], Any], h: float) -> Any:
    """f'(0) = [45 (f(h) - f(-h)) - 9 (f(2 h) - f(-2 h)) + f(3 h) - f(-3 h)] / (60 h) + O(h^6)."""
    return sum(
        c * (f(n * h) - f(-n * h)) for n, c in ((1, 45.0), (2, -9.0), (3, 1.0))
    ) / (60.0 * h)
