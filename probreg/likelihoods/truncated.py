"""Families with responses that are only observed in an interval."""

from collections.abc import Callable
from dataclasses import dataclass, field, replace
from functools import cache
from math import exp, expm1, inf, lgamma, log, log1p
from typing import Any, Self

import numpy as np
from numpy.random import Generator

from probreg.arguments.scalars import Bound
from probreg.compiled.density import CompiledDensity, Row, with_functions
from probreg.errors import DataError, require_rows
from probreg.likelihoods.base import (
    INFINITE_PREDICTOR,
    LIKELIHOODS,
    Array,
    AuxValues,
    ExponentialFamily,
    Level,
    Levels,
    Likelihood,
    PymcVariable,
    ValueGradHessian,
)
from probreg.likelihoods.composite import (
    OfBase,
    density_of_base,
    slopes_of_ends,
    symbolic_interval,
)
from probreg.likelihoods.counts import RARE, Poisson, counts_above, summed_counts
from probreg.likelihoods.location_scale import StandardDensity
from probreg.special import expit

# replaced by the row and the settings of the base
row: Any = None
base_settings: Any = None

# replaced in the rows of truncated counts, `_density_of_counts`
first: Any = None
last: Any = None
sum_counts: Any = None
bounded_count_row: Any = None


def _truncated_row(y: float, eta: float, t: Array) -> Row:
    # t: the settings of the base, then v of the ends
    log_p, slope, over_scale = row(y, eta, t)
    inside = slopes_of_ends((t[-2] - eta) / t[0], (t[-1] - eta) / t[0], t[0])
    return log_p - inside[0], slope - inside[1], over_scale - inside[2]


def _truncated_settings(values: Any, constants: Any) -> tuple[Any, ...]:
    k = len(constants) - 2
    return (*base_settings(values, constants[:k]), constants[k], constants[k + 1])


@cache
def _settings_of_base(settings: Callable[..., Any]) -> Callable[..., Any]:
    return with_functions(_truncated_settings, {"base_settings": settings})


def _aux_of_rows(chosen: Array, aux: AuxValues) -> dict[str, Array]:
    """Return the nuisance parameters of the chosen rows (n,) bool."""
    return {
        name: np.broadcast_to(value, chosen.shape)[chosen]
        for name, value in aux.items()
    }


def condition_on_complement(count: Row, outside: Row) -> Row:
    """log p of a count given that it is inside, and its slopes, from log p of the count and L = log P(outside) under the base.

    d log(1 - e^L) = -dL / (e^-L - 1).
    """
    p_inside = max(-expm1(outside[0]), 1e-300)
    odds = exp(outside[0]) / p_inside
    return (
        count[0] - log(p_inside),
        count[1] + odds * outside[1],
        count[2] + odds * outside[2],
    )


def _sum_counts(first: int, last: int, eta: float, t: Array) -> Row:
    """log P(first <= Y <= last) of the base, and its slopes, which are averages of the slopes of log p(k)."""
    log_sum = -inf
    over_eta = 0.0
    over_aux = 0.0
    for k in range(first, last + 1):
        log_p, slope, slope_over_aux = row(float(k), eta, t)
        log_p -= lgamma(k + 1.0)  # the base measure of counts
        larger = max(log_sum, log_p)
        log_sum = larger + log1p(exp(min(log_sum, log_p) - larger))
        share = exp(log_p - log_sum)
        over_eta += share * (slope - over_eta)
        over_aux += share * (slope_over_aux - over_aux)
    return log_sum, over_eta, over_aux


def _bounded_count_row(y: float, eta: float, t: Array) -> Row:
    """The row of a count given first <= Y <= last."""
    log_p, slope, slope_over_aux = row(y, eta, t)
    inside = sum_counts(first, last, eta, t)
    return log_p - inside[0], slope - inside[1], slope_over_aux - inside[2]


def _unbounded_count_row(y: float, eta: float, t: Array) -> Row:
    """The row of a count given first <= Y."""
    outside = sum_counts(0, first - 1, eta, t)
    if -outside[0] < RARE:
        return bounded_count_row(y, eta, t)
    return condition_on_complement(row(y, eta, t), outside)


@cache
def _density_of_counts(
    base: CompiledDensity, first: int, last: int, *, is_bounded: bool
) -> CompiledDensity:
    """The compiled density of a count given first <= Y <= last, or given first <= Y if it is not bounded."""
    parts: dict[str, Any] = {"row": base.row, "first": first, "last": last}
    parts["sum_counts"] = with_functions(_sum_counts, parts)
    density_row = with_functions(_bounded_count_row, parts)
    if not is_bounded:
        parts["bounded_count_row"] = density_row
        density_row = with_functions(_unbounded_count_row, parts)
    return CompiledDensity(density_row, settings=base.settings)


@LIKELIHOODS.register
@dataclass(frozen=True)
class Truncated(OfBase):
    """Responses of a family `base` that are only observed if lower <= y <= upper.

    p(y) is the density of the family divided by P(lower <= Y <= upper). Formulas write `trunc(y, lower=1)`. Predicted means are
    means of the family, before truncation; quantiles and draws are truncated.

    Parameters
    ----------
    base : Likelihood
        The family.
    lower : float
        The smallest response, -inf for none.
    upper : float
        The largest response, inf for none.

    Examples
    --------
    >>> float(Truncated(Poisson(), lower=1.0).log_prob(np.array([1.0]), np.array([[0.0]]))[0].round(6))
    -0.541325
    """

    base: Likelihood = field(default_factory=Poisson)
    lower: Bound = -np.inf
    upper: Bound = np.inf

    name = "truncated"

    @property
    def concave(self) -> bool:  # type: ignore[override]
        # a truncated exponential family with its canonical link is an exponential family
        return isinstance(self.base, ExponentialFamily) and self.base.canonical

    def __post_init__(self) -> None:
        super().__post_init__()
        if not self.lower < self.upper:
            raise DataError(
                f"trunc: lower={self.lower:g} and upper={self.upper:g}; expected lower below upper"
            )

    def bind(self, values: Array, levels: Levels | None, chosen: Level | None) -> Self:
        self.encode(values)
        return replace(self, base=self.base.bind(values, levels, chosen))

    def encode(self, values: Array) -> Array:
        y = self.base.encode(values)
        before = f"a response truncated to [{self.lower:g}, {self.upper:g}] lies in this interval; "
        inside = (self.lower <= y) & (y <= self.upper)
        require_rows(inside, before, " holds {:g}", y)
        return y

    def describe(self, response: str) -> str:
        return f"{self.base.describe(response)}, before truncation to [{self.lower:g}, {self.upper:g}]"

    @property
    def compiled_density(self) -> CompiledDensity | None:  # type: ignore[override]
        density = self._density_of_interval
        if density is not None:
            density = density_of_base(_truncated_row, density, self._compiled_interval)
            if density.settings is not None:
                density = density._replace(settings=_settings_of_base(density.settings))
            return density
        base = self.family.compiled_density
        if not self.base.is_discrete or base is None:
            return None
        counts, is_inside = summed_counts(*self._ends())
        if not len(counts):
            return base
        if not is_inside:
            counts = counts_above(counts)
        first, last = int(counts[0]), int(counts[-1])
        return _density_of_counts(base, first, last, is_bounded=is_inside)

    @property
    def constants(self) -> tuple[float, ...]:  # type: ignore[override]
        if not isinstance(self.base, StandardDensity):
            return self.family.constants
        ends = self.base.transform(np.array([self.lower, self.upper])).tolist()
        return (*self.base.constants, *ends)

    def _ends(self) -> tuple[Array, Array]:
        """Return a and b with P(a < Y <= b) = P(lower <= Y <= upper): for counts a is below the first count."""
        low = np.ceil(self.lower) - 1.0 if self.base.is_discrete else self.lower
        return np.full(1, low), np.full(1, self.upper)

    def saturated_predictor(self, y: Array, **aux: Any) -> Array:
        centre = self.base.saturated_predictor(y, **aux)
        # at 40 to each side counts have their limit to all digits, and beyond it the score is rounding error
        reach = 40.0 if self.base.is_discrete else INFINITE_PREDICTOR
        far = reach * np.asarray(self.base.noise(aux))[..., None]
        return self.find_zero_score(y, centre - far, centre + far, **aux)

    def log_prob(self, y: Array, eta: Array, **aux: Any) -> Array:
        log_density = self.family.log_prob(y, eta, **aux)
        log_mass = self.family.log_interval(*self._ends(), eta, **aux)
        return self._within_interval(y, log_density - log_mass)

    def _within_interval(self, y: Array, log_p: Array) -> Array:
        is_inside = (self.lower <= y) & (y <= self.upper)
        return np.where(is_inside, log_p, -np.inf)

    def value_grad_hessian(self, y: Array, eta: Array, **aux: Any) -> ValueGradHessian:
        density = self.family.value_grad_hessian(y, eta, **aux)
        low, high = (np.full(len(eta), v[0]) for v in self._ends())
        inside = self.family.expand_interval(low, high, eta, **aux)
        log_p, *slopes = (v - w for v, w in zip(density, inside))
        return ValueGradHessian(self._within_interval(y, log_p), *slopes)

    def joint_information(self, eta: Array, **known: Any) -> Array | None:
        if self.base.is_discrete:
            return super().joint_information(eta, **known)
        # the integral over probabilities by the double exponential rule, because the curvature may be infinite at 0 and 1
        # (Takahasi & Mori 1974)
        step = 0.15
        points = np.arange(-20, 21) * step
        probs = expit(np.pi * np.sinh(points))
        weights = step * np.pi * np.cosh(points) * probs * probs[::-1]
        total: Any = 0.0
        for prob, weight in zip(probs, weights):
            y = self._quantile(np.full(len(eta), prob), eta, known)
            total += weight * self.value_grad_hessian(y, eta, **known).curvature
        return np.asarray(total)

    def cdf(self, y: Array, eta: Array, **aux: Any) -> Array:
        low, high = self._ends()
        y = np.clip(y, low, high)
        log_total = self.family.log_interval(low, high, eta, **aux)
        if self.base.is_discrete:
            below = self.family.cdf(low, eta, **aux)
            share = (self.family.cdf(y, eta, **aux) - below) / np.exp(log_total)
        else:
            log_part = self.family.log_interval(low, y, eta, **aux)
            share = np.exp(log_part - log_total)
        return np.clip(share, 0.0, 1.0)

    def sample(self, rng: Generator, eta: Array, **aux: Any) -> Array:
        y = np.array(self.base.sample(rng, eta, **aux), dtype=float)
        # draws of the family, for rows with at least a few percent of their probability inside
        most_draws = 100
        for _ in range(most_draws):
            outside = (y < self.lower) | (y > self.upper)
            if not outside.any():
                return y
            rows = _aux_of_rows(outside, aux)
            y[outside] = self.base.sample(rng, eta[outside], **rows)
        rows = _aux_of_rows(outside, aux)
        prob = rng.random(int(outside.sum()))
        if self.base.is_discrete:
            y[outside] = self._count_quantile(prob, eta[outside], rows)
        else:
            y[outside] = self._quantile(prob, eta[outside], rows)
        return y

    def _quantile(self, prob: Array, eta: Array, aux: AuxValues) -> Array:
        """Return the quantiles (n,) of a continuous response, to all digits, also if the interval has a small probability."""
        from scipy.optimize.elementwise import bracket_root, find_root

        smallest = 0.0 if self.base.support == "positive" else -np.inf
        lower = max(self.lower, smallest)
        finite = [end for end in (lower, self.upper) if np.isfinite(end)]
        start = (finite or [0.0])[0]
        ends = [
            np.full(len(prob), end if np.isfinite(end) else start + step)
            for end, step in ((lower, -1.0), (self.upper, 1.0))
        ]
        values = [np.broadcast_to(value, prob.shape) for value in aux.values()]
        args = (prob, eta[:, 0], *values)

        def excess(y: Array, prob: Array, eta: Array, *values: Array) -> Array:
            return self.cdf(y, eta[..., None], **dict(zip(aux, values))) - prob

        if len(finite) < 2:
            limits = {"xmin": lower, "xmax": self.upper}
            ends = bracket_root(excess, *ends, **limits, args=args).bracket
        return np.asarray(find_root(excess, tuple(ends), args=args).x)

    def _count_quantile(self, prob: Array, eta: Array, aux: AuxValues) -> Array:
        """Return the quantiles (n,) of a count, by sums of probabilities from the first count on."""
        most_steps = 100_000
        y = np.full(len(prob), max(self._ends()[0][0] + 1.0, 0.0))
        total = np.exp(self.log_prob(y, eta, **aux))
        for _ in range(most_steps):
            short = (total < prob) & (y < self.upper)
            if not short.any():
                return y
            y[short] += 1.0
            rows = _aux_of_rows(short, aux)
            total[short] += np.exp(self.log_prob(y[short], eta[short], **rows))
        raise DataError(
            f"no draw in [{self.lower:g}, {self.upper:g}]: the family has hardly any mass there"
        )

    def pymc(self, eta: Any, **aux: Any) -> PymcVariable:
        """Return a distribution with the truncated density and draws."""
        return self.custom_density(eta, aux)

    def symbolic_log_prob(self, y: Any, mu: Any, *values: Any) -> Any:
        """log p, as PyMC's graph."""
        import pymc as pm
        import pytensor.tensor as pt

        family = self.family
        aux = dict(zip(self.nuisance, values))
        kind, parameters = family.pymc(mu[..., None], **aux)
        base = kind.dist(**parameters)
        log_density = pm.logp(base, y)
        if self.base.is_discrete:
            counts, is_inside = summed_counts(*self._ends())
            if not len(counts):
                return log_density
            terms = [pm.logp(base, k) for k in counts.astype(int)]
            log_sum = pt.logsumexp(pt.stack(terms), axis=0)
            log_mass = log_sum if is_inside else pt.log1mexp(log_sum)
        else:
            log_mass = self._symbolic_log_mass(mu, aux)
        return log_density - log_mass

    def _symbolic_log_mass(self, mu: Any, aux: AuxValues) -> Any:
        """log P(lower <= Y <= upper) of a continuous family, as PyMC's graph."""
        smallest = 0.0 if self.base.support == "positive" else -np.inf
        tails = [
            self.family.symbolic_tails(end, mu, **aux)
            # a Python number would have single precision
            for end in np.array([self.lower, self.upper])
            if smallest < end < np.inf
        ]
        if len(tails) == 2:
            return symbolic_interval(*tails)
        if not tails:
            return 0.0
        below, beyond = tails[0]
        return below if self.upper < np.inf else beyond
