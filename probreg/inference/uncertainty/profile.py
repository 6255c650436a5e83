"""Intervals that invert a test: the values psi of a coefficient that the likelihood ratio, or the score, does not reject.

With other parameters at their maximum given psi (sigma among them, on its log scale):
profile: sqrt(2 (l(max) - l(psi))) <= z; score (Rao 1948): |l'(psi)| sqrt(c' I^-1 c) <= z at the constrained maximum, I the
information of `score_information`. l is the log posterior, which equals the log-likelihood for flat priors. A coefficient is
c'theta, theta = (vec gamma, log aux) on standardised columns; Newton steps with it fixed start from the nearest known maximum,
moved along the path of the maximum.
"""

from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import dataclass, replace
from functools import cache, cached_property
from itertools import product
from typing import NamedTuple

import numpy as np

from probreg.errors import Incompatible, NotConverged, Remedy
from probreg.inference.base import (
    Array,
    Solution,
    Status,
    hold_at_limits,
    logs_of_aux,
    no_marks,
    positive_limits,
    split_parameters,
)
from probreg.inference.modes.maximise import maximise, newton_step
from probreg.inference.modes.newton import evaluate
from probreg.inference.modes.newton_method import Newton
from probreg.inference.modes.separation import escapes
from probreg.inference.reported import ReportedParameters, reported_at
from probreg.inference.uncertainty.information import (
    identified_basis,
    prior_curvature,
)
from probreg.linalg import one_blas_thread
from probreg.model.model import LocalModel, Model
from probreg.system.terminal import progress_bar


class InnerPoint(NamedTuple):
    """The log posterior over z at theta = start + Z z, and over theta."""

    value: float
    gradient: Array
    curvature: Array
    theta: Array
    outer: LocalModel


@dataclass(frozen=True, eq=False)
class Surface:
    """The log posterior over theta, about a solution.

    `maximum` is theta at the maximum with the log posterior there, if they are known.
    """

    model: Model
    solution: Solution
    maximum: tuple[Array, LocalModel] | None = None

    @cached_property
    def B(self) -> Array:
        """(d, r), the identified directions."""
        return identified_basis(self.model, self.solution)

    @cached_property
    def top(self) -> tuple[Array, LocalModel]:
        """The maximum and the log posterior there, from the solution. NotConverged if there is none."""
        start = self.start(self.solution.beta)
        maximum = self.maximum or self.maximise(start, self.B)
        if maximum is None:
            raise NotConverged(
                "the log posterior has no maximum to start from (an exact fit, or a fit that did not converge)"
            )
        return maximum

    def start(self, beta: Array) -> Array:
        """Return theta at coefficients beta (p, m) and the nuisance parameters of the solution."""
        # an exact fit has sigma = 0: no search starts
        with np.errstate(divide="ignore"):
            log_aux = logs_of_aux(self.model, self.solution.aux)
        gamma = self.model.design.frame.from_raw(beta)
        return np.concatenate([gamma.ravel(), log_aux])

    def across(self, C: Array) -> Array:
        """Orthonormal directions inside B that keep C'theta constant, for independent columns C (d, q)."""
        # B v with v orthogonal to B'C, so that C'Bv = 0.
        inner = self.B.T @ C
        return self.B @ np.linalg.qr(inner, mode="complete")[0][:, inner.shape[1] :]

    @np.errstate(all="ignore")
    def maximise(self, theta: Array, Z: Array) -> tuple[Array, LocalModel] | None:
        """Return the maximum over theta + span(Z), with the log posterior there; None if no steps lead to one."""
        n = self.model.design.total

        def at(z: Array) -> InnerPoint:
            moved = theta + Z @ z
            outer = evaluate(self.model, moved)
            H = Z.T @ outer.curvature @ Z
            value = outer.value if np.isfinite(H).all() else np.nan
            return InnerPoint(value, Z.T @ outer.gradient, H, moved, outer)

        def reach(point: InnerPoint) -> float:
            return 2.0 + 2.0 * float(np.linalg.norm(point.theta))

        def step_within_reach(point: InnerPoint) -> tuple[Array, bool]:
            # without curvature a Newton step is arbitrarily long
            step, convex = newton_step(point)
            length = float(np.linalg.norm(step))
            return step * min(1.0, reach(point) / max(length, 1e-300)), convex

        z = np.zeros(Z.shape[1])
        start = at(z)
        if not np.isfinite(start.value):
            return None
        # the log posterior then has an error of about the square of the last gain, 1e-12
        tol = max(1e-6, 1e-8 * np.sqrt(n))
        end = maximise(at, step_within_reach, z, start, tol=tol, max_steps=100).point
        # no direction increases the value, including those without curvature, which Newton steps ignore
        slope = float(np.linalg.norm(end.gradient)) * reach(end)
        return (end.theta, end.outer) if slope < 1e-4 * np.sqrt(n) else None


class ConstrainedPath:
    """Constrained maxima of one quantity c'theta, each started from the nearest known
    one, and a statistic of a test that increases from 0 at the estimate to either side."""

    def __init__(self, at: Surface, c: Array, kind: str) -> None:
        self.at, self.c = at, c
        self.statistic = STATISTICS[kind]
        self.Z = at.across(c[:, None])
        self.best = float(c @ at.top[0])
        self.known = [(self.best, *at.top)]

    def maximum(self, psi: float) -> tuple[Array, LocalModel] | None:
        """Return the maximum with c'theta = psi; None if the log posterior overflows,
        NotConverged if no steps lead there."""
        finite = False
        for start in self._starts(psi):
            maximum = self.at.maximise(start, self.Z)
            if maximum is not None:
                self.known.append((psi, *maximum))
                return maximum
            finite = finite or np.isfinite(evaluate(self.at.model, start).value)
        if finite:
            raise NotConverged(
                "the maximum with one coefficient fixed was not found, so its interval is unknown: rescale the columns, or "
                "give a prior"
            )
        return None

    def _starts(self, psi: float) -> Iterator[Array]:
        """Yield starts from the two nearest known points, along the path or straight, then coefficients near zero."""
        shortest = self.c / (self.c @ self.c)
        for psi_known, theta, local in sorted(
            self.known, key=lambda k: abs(k[0] - psi)
        )[:2]:
            yield theta + (psi - psi_known) * self._along(local)
            yield theta + (psi - psi_known) * shortest
        k = self.at.model.n_coefficients
        yield psi * shortest + np.where(
            np.arange(len(self.c)) < k, 0.0, self.at.top[0] * (self.c == 0)
        )

    def _along(self, local: LocalModel) -> Array:
        """d theta / d psi of the constrained maximum, H^-1 c / c'H^-1 c."""
        B = self.at.B
        # max l with c'theta = psi: g = lambda c, so -H d theta = c d lambda, and c'd theta = d psi gives
        # d theta / d psi = H^-1 c / c'H^-1 c.
        step, _ = newton_step(LocalModel(0.0, B.T @ self.c, B.T @ local.curvature @ B))
        length = float(self.c @ (B @ step))
        if np.isfinite(length) and length > 0:
            return B @ step / length
        return self.c / (self.c @ self.c)

    @one_blas_thread()
    def end(
        self,
        z: float,
        side: int,
        unit: float,
        *,
        runaway: bool = False,
        farthest: float = np.inf,
    ) -> float:
        """Return the nearest psi on this side (-1 or 1) of the estimate where the
        statistic reaches z; infinite if it never does.

        `unit` is the first distance of the search, a standard error if there is one. A
        divergent estimate is arbitrarily far out, so the search then starts from 0. An
        end with |psi| > `farthest` counts as infinite.
        """
        if not 0.0 < unit < np.inf:
            unit = float(np.linalg.norm(self.c))

        def excess(psi: float) -> float:
            maximum = self.maximum(psi)
            if maximum is None:  # a psi without a maximum is beyond the end
                return 999.0 * z
            return min(self.statistic(self, *maximum) - z, 999.0 * z)

        centre = inner = self.best
        # beyond 1e5 standard errors (or units of eta) an end counts as infinite
        lengths = [unit * z * 2.0**k for k in range(int(np.log2(1e5 / z)))]
        if runaway and side * centre < 0:
            # the point nearest to 0, towards the estimate at infinity, that is not
            # rejected; further out rounding dominates
            inner = -side * next(
                (r for r in lengths if excess(-side * r) < 0 or r >= abs(centre)),
                lengths[-1],
            )
            centre = 0.0
            lengths = [0.0, *lengths[1:]]
        points = [centre + side * r for r in lengths]
        near = [psi for psi in points if abs(psi) <= farthest]
        crossing = find_crossing(excess, inner, near)
        return side * np.inf if crossing is None else crossing


def find_crossing(
    excess: Callable[[float], float], inner: float, outer: Iterable[float]
) -> float | None:
    """Return a root of the function: it lies between the first point of `outer` with a value
    of at least 0 and the point before (`inner` for the first). None if there is none."""
    from scipy.optimize import brentq

    # from other starts the sign at one point may change by rounding
    known = cache(excess)
    for point in outer:
        if known(point) >= 0.0:
            width = abs(point - inner)
            try:
                return brentq(known, inner, point, xtol=1e-11 * width, rtol=1e-14)
            except (RuntimeError, ValueError):  # no root, or no change of sign
                raise NotConverged(
                    "the end of an interval was not found: state columns in units of similar size"
                ) from None
        inner = point
    return None


def likelihood_ratio(path: ConstrainedPath, theta: Array, local: LocalModel) -> float:
    """Return sqrt(2 (l(max) - l(psi)))."""
    # The root of the likelihood ratio statistic, approximately chi^2 on one degree of freedom when squared.
    return float(np.sqrt(2.0 * max(path.at.top[1].value - local.value, 0.0)))


def has_expected_information(model: Model) -> bool:
    """Whether the expected information of the coefficients is known and sufficient for their score test, because scores of
    nuisance parameters and of coefficients are uncorrelated."""
    likelihood = model.likelihood
    return likelihood.has_orthogonal_information(model.unknown)


def score_information(model: Model, theta: Array, local: LocalModel) -> Array:
    """Return the information in a score test of coefficients, with the curvature of the prior: the expected one over vec gamma if
    there is one (`has_expected_information`), else the observed one over theta, the curvature of `local`."""
    if not has_expected_information(model):
        return local.curvature
    gamma, aux = split_parameters(model, theta)
    beta = model.design.frame.to_raw(gamma)
    with np.errstate(all="ignore"):
        rows = model.information_of_rows(beta, aux, model.design.frame.rows)
        k = len(rows)
        return rows + prior_curvature(model, beta, aux)[:k, :k]


def rao(path: ConstrainedPath, theta: Array, local: LocalModel) -> float:
    """Return |l'(psi)| sqrt(c' I^-1 c), inf without information."""
    model = path.at.model
    B = path.at.B
    c = path.c
    g = local.gradient
    if c[model.n_coefficients :].any():
        H = local.curvature
    else:
        H = score_information(model, theta, local)
        k = len(H)
        B = B[:k, : B.shape[1] - len(c) + k]
        c = c[:k]
        g = g[:k]
    # directions of unit curvature, so that a narrow prior does not hide the rows
    S = B / np.sqrt(np.maximum(np.diagonal(B.T @ H @ B), np.finfo(float).tiny))
    with np.errstate(all="ignore"):
        # V c along the identified directions; its product with c is the variance of
        # c'theta. g = l'(psi) c at the maximum,
        # so l'(psi) c'V c = g'V c.
        direction = S @ np.linalg.lstsq(S.T @ H @ S, S.T @ c, rcond=1e-14)[0]
        variance = float(c @ direction)
    if not (np.isfinite(variance) and variance > 0):
        return np.inf
    return abs(float(g @ direction)) / float(np.sqrt(variance))


Statistic = Callable[[ConstrainedPath, Array, LocalModel], float]
STATISTICS: Mapping[str, Statistic] = {"profile": likelihood_ratio, "score": rao}


def invert_test(
    model: Model, solution: Solution, kind: str, z: float
) -> tuple[Array, Array]:
    """Return ends (h, outcomes) of the interval of each reported coefficient at
    standard normal quantile z.

    A side is -inf or inf if the likelihood never decreases enough. Incompatible for a
    model without derivatives; NotConverged if the maximum was not reached.
    """
    surface = _surface_of(model, solution, kind)
    model = surface.model
    D = model.likelihood.contrast_matrix
    T = model.design.frame.T
    head = model.design.ungrouped
    open_ends = _open_sides(model, solution)
    ends = np.empty((2, model.shape[0], len(D)))
    # the step of the search is one standard error, where there is one
    errors = solution.given_scales.errors_of(D)
    with progress_bar(f"{kind} intervals", len(head) * len(D)) as bar:
        for j, d in bar.over(product(head.tolist(), range(len(D)))):
            c = np.concatenate([np.kron(T[j], D[d]), np.zeros(len(model.unknown))])
            path = ConstrainedPath(surface, c, kind)
            missing = solution.not_estimable is not None and bool(
                solution.not_estimable[j, d]
            )
            unit = np.nan if missing else float(errors[j, d])
            for side, s in enumerate((-1, 1)):
                if open_ends[side, j, d]:
                    ends[side, j, d] = s * np.inf
                else:
                    ends[side, j, d] = path.end(z, s, unit, runaway=missing)
    return ends[0][head], ends[1][head]


def invert_test_of_aux(
    model: Model, solution: Solution, kind: str, name: str, z: float
) -> tuple[float, float]:
    """Return the interval of an estimated nuisance parameter, computed on its log
    scale; an estimate at its limit 0 or infinity is an end."""
    farthest = np.log(1e150)  # the squares of larger numbers overflow
    surface = _surface_of(model, solution, kind)
    estimate = solution.aux[name]
    is_at_limit = name not in surface.model.unknown
    if is_at_limit:
        surface = _surface_near_limit(surface, model, name)
        unit = 1.0
    else:
        # psi = log aux has the standard deviation sd(aux) / aux, which is arbitrarily
        # large where the density is flat
        unit = min(solution.aux_sd[name] / estimate, 1.0)
    c = np.zeros(len(surface.B))
    c[solution.beta.size + surface.model.unknown.index(name)] = 1.0
    path = ConstrainedPath(surface, c, kind)
    lower = -np.inf
    upper = np.inf
    if estimate > 0.0:
        lower = path.end(z, -1, unit, farthest=farthest)
    if not is_at_limit or estimate == 0.0:
        upper = path.end(z, 1, unit, farthest=farthest)
    return float(np.exp(lower)), float(np.exp(upper))


def _surface_near_limit(limit: Surface, model: Model, name: str) -> Surface:
    """Return the log posterior over a nuisance parameter that the surface `limit` fixes
    at its limit 0 or infinity.

    Its maximum is taken near the limit, where the density equals the limit up to
    rounding.
    """
    nearly_zero = 1e-10
    free = replace(model, aux={**limit.model.aux, name: model.aux_prior(name)})
    near = max(limit.solution.aux[name], nearly_zero)
    aux = {**limit.solution.aux, name: near}
    surface = Surface(free, replace(limit.solution, aux=aux))
    theta = surface.start(limit.solution.beta)
    return replace(surface, maximum=(theta, evaluate(free, theta)))


def invert_test_of_reported(
    reported: ReportedParameters, kind: str, name: str, z: float
) -> tuple[float, float]:
    """Return the interval of a parameter that is reported in place of nuisance parameters.

    The likelihood is written so that the parameter is minus the intercept, or the parameter is a function of one nuisance parameter.
    """
    model, solution = reported.model, reported.solution
    if solution.scales is not None:
        raise Incompatible(
            f"{name} has no {kind} interval where scales are estimated",
            remedy=Remedy("kind", "wald"),
        )
    # at an estimate of 0 there would be no slope
    estimate = reported_at(model, solution.beta, positive_limits(solution.aux))
    assert estimate is not None  # it has this name
    k = reported.names.index(name)
    slopes = estimate.slopes[k]
    j = model.design.intercept
    if not slopes[0]:
        (source,) = np.array(model.likelihood.nuisance)[slopes[1:] != 0.0]
        ends = invert_test_of_aux(model, solution, kind, str(source), z)
        values = [
            reported_at(model, solution.beta, {**solution.aux, source: end})
            for end in ends
        ]
        lower, upper = sorted(float(v.values[k]) for v in values if v is not None)
        return lower, upper
    if j is None or model.joint.informative[j]:
        raise Incompatible(
            f"{name} has no {kind} interval: it needs an intercept with a flat prior",
            remedy=Remedy("kind", "wald"),
        )
    value, unit = reported.values[name]
    beta = solution.beta.copy()
    beta[j] = -value
    model = replace(model, likelihood=model.likelihood.with_intercept_at(name))
    surface = _surface_of(model, replace(solution, beta=beta), kind)
    c = np.zeros(len(surface.B))
    c[: len(beta)] = model.design.frame.T[j]
    path = ConstrainedPath(surface, c, kind)
    lower, upper = (-path.end(z, side, unit) for side in (1, -1))
    return lower, upper


def _surface_of(model: Model, solution: Solution, kind: str) -> Surface:
    """Return the log posterior, or raise an error if its maximum was not reached."""
    reason = Newton().obstacle(model)
    if reason:
        raise Incompatible(
            f"a {kind} interval needs the maximum with one coefficient fixed, by Newton's method: {reason}"
        )
    model.design.need_rows(f"a {kind} interval")
    if solution.status.is_unfinished:
        raise NotConverged(f"no {kind} interval: {solution.status.value}")
    return Surface(hold_at_limits(model, solution), solution)


def _open_sides(model: Model, solution: Solution) -> Array:
    """(2, p, outcomes) bool: sides where the likelihood does not decrease: separated, or not identified."""
    marks = solution.not_estimable
    if marks is None:
        marks = no_marks(model)
    elif solution.status is Status.NO_MAXIMUM and model.likelihood.may_diverge:
        return escapes(model)
    elif solution.status is Status.NO_MAXIMUM:
        # known only from the search, which diverged to this side
        side = solution.beta @ model.likelihood.contrast_matrix.T > 0
        return np.stack([marks & ~side, marks & side])
    return np.stack([marks, marks])
