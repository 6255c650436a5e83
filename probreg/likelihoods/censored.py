"""Responses that are known to lie in an interval (censored), and families that are restricted to one (truncated)."""

from collections.abc import Callable
from dataclasses import dataclass, field, replace
from functools import cache
from math import exp, expm1, inf, lgamma, log, log1p
from typing import Any, Self

import numpy as np
from numpy.random import Generator

from probreg.arguments.keywords import with_article
from probreg.arguments.scalars import Bound
from probreg.compiled.density import (
    CompiledDensity,
    Row,
    with_functions,
)
from probreg.errors import DataError, Incompatible, require_rows, rows_named
from probreg.likelihoods.base import (
    FAR,
    LIKELIHOODS,
    Array,
    AuxValues,
    ExponentialFamily,
    IntervalLikelihood,
    Level,
    Levels,
    Likelihood,
    MayDiverge,
    PymcVariable,
    Recession,
    ResponseOfBase,
    SmoothLikelihood,
    Start,
    UnivariateLikelihood,
    ValueGradHessian,
    from_base,
)
from probreg.likelihoods.counts import COUNTS_OF_RARE, RARE, summed_counts
from probreg.likelihoods.gaussian import Gaussian
from probreg.likelihoods.links import Link
from probreg.likelihoods.location_scale import (
    StandardDensity,
    same_number,
    settings_of_scale,
)
from probreg.likelihoods.poisson import Poisson
from probreg.likelihoods.tails import TAILS, interval

# replaced by functions of the base: its row, and v of `StandardDensity`
row: Any = None
transform: Any = None

# replaced in the row of a truncated count
sum_counts: Any = None
first: Any = None
stop: Any = None
is_inside: Any = None


def _censored_row(y: Array, eta: float, t: Array) -> Row:
    low = y[0]
    high = y[1]
    if low == high:
        return row(low, eta, t)
    a = (transform(low) - eta) / t[0] if low > -inf else -inf
    b = (transform(high) - eta) / t[0] if high < inf else inf
    return _slopes_of_ends(a, b, t[0])


def _slopes_of_ends(a: float, b: float, s: float) -> Row:
    """log P(a < r <= b), r = (v(y) - eta) / s, and its slopes over eta and log s."""
    log_p, at_a, at_b = interval(a, b)
    over_scale = 0.0
    if a > -inf:
        over_scale += a * at_a
    if b < inf:
        over_scale -= b * at_b
    return log_p, (at_a - at_b) / s, over_scale


def _truncated_row(y: float, eta: float, t: Array) -> Row:
    # t: of the base, then v of the ends
    log_p, slope, over_scale = row(y, eta, t)
    inside = _slopes_of_ends((t[2] - eta) / t[0], (t[3] - eta) / t[0], t[0])
    return log_p - inside[0], slope - inside[1], over_scale - inside[2]


def _truncated_settings(values: Any, constants: Any) -> tuple[Any, Any, Any, Any]:
    s, log_s = settings_of_scale(values, constants)
    return s, log_s, constants[0], constants[1]


def condition_on_inside(count: Row, outside: Row) -> Row:
    """log p of a count in an interval and its slopes, from those of the base and of L = log P(outside): d log(1 - e^L) = -dL / (e^-L - 1)."""
    p_inside = max(-expm1(outside[0]), 1e-300)
    odds = exp(outside[0]) / p_inside
    return (
        count[0] - log(p_inside),
        count[1] + odds * outside[1],
        count[2] + odds * outside[2],
    )


def _sum_counts(first: int, stop: int, eta: float, t: Array) -> Row:
    """log of the sum of p(k), first <= k < stop, and its slopes, the averages of those of log p(k)."""
    log_sum = -inf
    over_eta = 0.0
    over_aux = 0.0
    for k in range(first, stop):
        log_p, slope, slope_over_aux = row(float(k), eta, t)
        log_p -= lgamma(k + 1.0)  # the base measure of counts
        larger = max(log_sum, log_p)
        log_sum = larger + log1p(exp(min(log_sum, log_p) - larger))
        share = exp(log_p - log_sum)
        over_eta += share * (slope - over_eta)
        over_aux += share * (slope_over_aux - over_aux)
    return log_sum, over_eta, over_aux


def _truncated_count_row(y: float, eta: float, t: Array) -> Row:
    count = row(y, eta, t)
    summed = sum_counts(first, stop, eta, t)
    is_rare = -summed[0] < RARE
    if is_rare and not is_inside:
        summed = sum_counts(stop, stop + COUNTS_OF_RARE, eta, t)
    if is_rare or is_inside:
        return count[0] - summed[0], count[1] - summed[1], count[2] - summed[2]
    return condition_on_inside(count, summed)


@cache
def density_of_base(
    template: Callable[..., Any],
    base: CompiledDensity,
    link_of_noise: Link | None = None,
    transform: Callable[..., Any] = same_number,
) -> CompiledDensity:
    """The compiled density of a row that calls the row of a base, and perhaps `interval`."""
    parts: dict[str, Any] = {"row": base.row, "transform": transform}
    if link_of_noise is not None:
        of_family = {"interval": TAILS[link_of_noise].compiled_interval}
        ends = with_functions(_slopes_of_ends, of_family)
        parts["_slopes_of_ends"] = ends
    density_row = with_functions(template, parts)
    return CompiledDensity(density_row, settings=base.settings)


@cache
def _density_of_counts(
    base: CompiledDensity, first: int, stop: int, is_inside: bool
) -> CompiledDensity:
    """The compiled density of a count given its interval; `first` to `stop` - 1 are all counts inside, or all outside."""
    numbers = {"first": first, "stop": stop, "is_inside": is_inside}
    of_base = {"row": base.row}
    parts = {"sum_counts": with_functions(_sum_counts, of_base), **of_base, **numbers}
    density_row = with_functions(_truncated_count_row, parts)
    return CompiledDensity(density_row, settings=base.settings)


class OfBase(ResponseOfBase, UnivariateLikelihood, SmoothLikelihood):
    """A likelihood with the linear predictor and nuisance parameters of another one, its `base`.

    It has no noise scale, because its density is not a function of the residual alone.
    """

    base: Likelihood
    exact_information = False

    def __post_init__(self) -> None:
        super().__post_init__()
        if not isinstance(self.base, IntervalLikelihood):
            raise Incompatible(
                f"a {self.name} response needs the distribution function of its family with derivatives, and the {self.base.name} "
                "likelihood has none; take one such as Gaussian(), Weibull(), LogLogistic() or Poisson()"
            )

        if self.base.default_aux:
            raise Incompatible(
                f"a {self.name} response needs the derivatives of its distribution function, and {self.base} has none: hold nu at a number"
            )

    @property
    def family(self) -> Any:
        """The base, an `IntervalLikelihood`, and of zeros a `CountLikelihood`."""
        return self.base

    nuisance = from_base()
    constants = from_base()
    at_zero = from_base()
    mean = from_base()
    link_mean_and_slope = from_base()
    information = from_base()  # of exact responses, for starts

    @property
    def _link_of_noise(self) -> Link | None:
        """The link that gives the distribution function of the base in compiled code, if there is one."""
        return getattr(self.base, "link_of_noise", None)

    @property
    def _density_of_interval(self) -> CompiledDensity | None:
        """The density of a base with a distribution function in compiled code."""
        return None if self._link_of_noise is None else self.family.compiled_density

    @property
    def named(self) -> str:
        return with_article(f"{self.name} {self.base.name}".replace("_", " "))


def _symbolic_interval(
    tails_a: tuple[Any, Any], tails_b: tuple[Any, Any], is_interval: Any = None
) -> Any:
    """Return log P(a < Y <= b) of symbols, from log P(Y <= end) and log P(Y > end) of both ends; in rows that are no interval any number
    with finite slopes."""
    import pytensor.tensor as pt

    below_a, beyond_a = tails_a
    below_b, beyond_b = tails_b
    is_in_upper_tail = pt.gt(below_a, beyond_a)
    larger = pt.switch(is_in_upper_tail, beyond_a, below_b)
    smaller = pt.switch(is_in_upper_tail, beyond_b, below_a)
    gap = larger - smaller
    if is_interval is not None:
        gap = pt.switch(is_interval, gap, 1.0)
    return larger + pt.log(-pt.expm1(-gap))


@LIKELIHOODS.register
@dataclass(frozen=True)
class Censored(OfBase, MayDiverge):
    """Responses of a family `base` that are exact, or known to lie in an interval: right, left or interval censored.

    A row y is (lower, upper): equal if the response is exact, with upper = inf if it is right censored and lower = -inf if it is left
    censored. log p is the log density of an exact row, and log P(lower < Y <= upper) of a censored one. Censoring is assumed to be
    independent of the response given the columns. Means, quantiles and draws are of the uncensored response. The expected information
    is that of exact responses. `sbc`, `coverage` and the parametric bootstrap simulate responses at the rows of a model: a draw in the
    interval of a censored row is censored there, and every other draw is exact.

    Formulas write `cens(time, event)`, `cens(lower, upper)` or `cens(y, lower=0)`; arrays `pr.censored(time, event)`.

    Parameters
    ----------
    base : Likelihood
        The family of the response, continuous.

    References
    ----------
    Kalbfleisch & Prentice 2002, section 3.2.

    Examples
    --------
    >>> y = np.array([[1.0, np.inf]])
    >>> float(Censored(Gaussian()).log_prob(y, np.array([[1.0]]), sigma=2.0)[0].round(6))
    -0.693147
    """

    base: Likelihood = field(default_factory=Gaussian)

    name = "censored"
    # the distribution function of a log-concave density is log-concave
    concave = from_base()

    def __post_init__(self) -> None:
        super().__post_init__()
        if self.base.is_discrete:
            raise Incompatible(
                f"cens(...) censors a continuous response, and a {self.base.name} response is a count; use trunc(y, lower=1) for counts without zeros"
            )

    @property
    def compiled_density(self) -> CompiledDensity | None:  # type: ignore[override]
        density = self._density_of_interval
        if density is None:
            return None
        transform = log if self.base.support == "positive" else same_number
        return density_of_base(_censored_row, density, self._link_of_noise, transform)

    def base_measure(self, y: Array) -> Array:
        measure = self.family.base_measure(self._exact_values(y, 1.0))
        return np.where(self.is_censored(y), 0.0, measure)

    def check_response(self, values: Array) -> None:
        self.encode(values)

    def encode(self, values: Array) -> Array:
        """Return (n, 2), lower and upper ends; a lower end of 0 of a positive response is -inf."""
        y = np.asarray(values, dtype=float)
        if y.ndim != 2 or y.shape[1] != 2:
            raise DataError(
                f"a censored response has a lower and an upper end per row, got an array of shape {y.shape}: write cens(time, event) or "
                "cens(lower, upper) in a formula, or pass pr.censored(time, event)"
            )
        low, high = y.T
        before = "a censored response has lower <= upper; "
        require_rows(
            low <= high, before, " has lower = {:g} and upper = {:g}", low, high
        )
        exact = np.flatnonzero(~self.is_censored(y))
        if len(exact):
            with rows_named(exact):
                self.base.encode(y[exact, 0])
        if self.base.support == "positive":
            require_rows(
                (high > 0.0) & ((low >= 0.0) | np.isinf(low)),
                f"a {self.base.name} response is positive; ",
                " ends at {:g} and {:g}",
                low,
                high,
            )
            y = np.where(y == 0.0, -np.inf, y)
        message = " of the response has no finite end: leave the row out"
        require_rows(np.isfinite(y).any(1), "", message)
        return y

    def is_censored(self, y: Array) -> Array:
        return np.asarray(y)[..., 0] != np.asarray(y)[..., 1]

    def drawn(self, y: Array) -> Array:
        """The exact responses, nan where a row is censored."""
        return self._exact_values(y, np.nan)

    def join(self, drawn: Array, **given: Array) -> Array:
        return np.stack([drawn, drawn], -1)

    def response(self, y: Array) -> Array:
        return self.drawn(y)

    def describe(self, response: str) -> str:
        return self.base.describe(response) + "; censored responses"

    def _midpoint(self, y: Array) -> Array:
        """Return the exact response of each row, the middle of its interval, or its finite end."""
        low, high = np.asarray(y).T
        low = np.where(np.isfinite(low), low, high)
        high = np.where(np.isfinite(high), high, low)
        return 0.5 * (low + high)

    def initial_eta(self, y: Array) -> Start:
        return self.base.initial_eta(self._midpoint(y))

    def saturated_predictor(self, y: Array, **aux: Any) -> Array:
        low, high = np.asarray(y).T
        below = self.base.saturated_predictor(np.where(np.isinf(low), high, low), **aux)
        above = self.base.saturated_predictor(
            np.where(np.isinf(high), low, high), **aux
        )
        if (below < above).any():
            # P(lower < Y <= upper) is largest between the ends, where its score is zero
            above = self.find_zero_score(y, below, above, **aux)
        # log P(lower < Y) goes to 0 as eta increases
        far = FAR * np.asarray(next(iter(aux.values()), 1.0))
        return above + (far * (np.isinf(high) * 1.0 - np.isinf(low)))[:, None]

    response_variance = from_base()
    dispersion = from_base()

    def log_prob(self, y: Array, eta: Array, **aux: Any) -> Array:
        low, high, exact = self._split_ends(y)
        inside = self.family.log_interval(low, high, eta, **aux)
        with np.errstate(invalid="ignore", divide="ignore"):
            return np.where(
                exact,
                self.family.log_prob(self._exact_values(y, 1.0), eta, **aux),
                inside,
            )

    def value_grad_hessian(self, y: Array, eta: Array, **aux: Any) -> ValueGradHessian:
        low, high, exact = self._split_ends(y)
        values = self._exact_values(y, 1.0)
        with np.errstate(all="ignore"):  # of the number in censored rows
            density = self.family.value_grad_hessian(values, eta, **aux)
        inside = self.family.expand_interval(low, high, eta, **aux)
        return ValueGradHessian(
            *(
                np.where(exact.reshape(-1, *[1] * (v.ndim - 1)), v, w)
                for v, w in zip(density, inside)
            )
        )

    def _split_ends(self, y: Array) -> tuple[Array, Array, Array]:
        """Lower and upper ends, (0, inf) of the support or the line in exact rows, and which rows are exact."""
        y = np.asarray(y)
        exact = ~self.is_censored(y)
        return (
            np.where(exact, -np.inf, y[..., 0]),
            np.where(exact, np.inf, y[..., 1]),
            exact,
        )

    def _exact_values(self, y: Array, censored: float) -> Array:
        """Return the exact responses, and the number `censored` in censored rows."""
        y = np.asarray(y)
        return np.where(self.is_censored(y), censored, y[..., 0])

    def cdf(self, y: Array, eta: Array, **aux: Any) -> Array:
        """P(Y <= the upper end)."""
        return self.family.cdf(np.asarray(y)[..., 1], eta, **aux)

    def lower_end(self, y: Array) -> Array:
        return np.asarray(y)[..., [0, 0]]

    def sample(self, rng: Generator, eta: Array, **aux: Any) -> Array:
        return self.join(self.base.sample(rng, eta, **aux))

    def sample_like(self, y: Array, rng: Generator, eta: Array, **aux: Any) -> Array:
        drawn = self.sample(rng, eta, **aux)
        inside = (y[:, :1] < drawn) & (drawn <= y[:, 1:])
        return np.where(inside, y, drawn)

    def recession(self, y: Array) -> Recession:
        # P(lower < Y) increases with eta, P(Y <= upper) decreases; others fall on both sides
        y = np.asarray(y)
        right = np.isinf(y[:, 1])
        left = np.isinf(y[:, 0])
        direction = np.where(left, -1.0, 1.0)[:, None]
        return Recession(np.arange(len(y)), direction, ~(right | left))

    def absent_outcomes(self, y: Array) -> Array:
        rows = self.recession(y)
        one_way = ~rows.equal.any() and abs(rows.directions.sum()) == len(rows.rows)
        return np.array([bool(one_way)])

    def infinite_intercept(self, absent: Array, rows: int) -> str:
        return f"each of {rows} rows is censored on the same side: the response is estimated as infinite"

    def pymc_value(self, y: Array) -> Array:
        return np.asarray(y)

    def pymc(self, eta: Any, **aux: Any) -> PymcVariable:
        """Return a distribution of (lower, upper), with exact draws."""
        signature = ",".join(["()"] * (1 + len(self.nuisance))) + "->(2)"
        return self.custom_density(eta, aux, signature)

    def symbolic_log_prob(self, y: Any, mu: Any, *values: Any) -> Any:
        """log p of rows (lower, upper), as PyMC's graph."""
        import pymc as pm
        import pytensor.tensor as pt

        family = self.family
        aux = dict(zip(self.nuisance, values))
        low, high = y[..., 0], y[..., 1]
        open_above = pt.isinf(high)
        open_below = pt.isinf(low)
        # infinite ends would make the slopes nan
        a = pt.switch(open_below, 1.0, low)
        b = pt.switch(open_above, 1.0, high)
        exact = pt.eq(low, high)
        kind, parameters = family.pymc(mu[..., None], **aux)
        density = pm.logp(kind.dist(**parameters), a)
        _, beyond_a = tails_a = family.symbolic_tails(a, mu, **aux)
        below_b, _ = tails_b = family.symbolic_tails(b, mu, **aux)
        is_interval = ~(exact | open_above | open_below)
        interval = _symbolic_interval(tails_a, tails_b, is_interval)
        one_sided = pt.switch(open_above, beyond_a, below_b)
        censored = pt.switch(open_above | open_below, one_sided, interval)
        return pt.switch(exact, density, censored)


@LIKELIHOODS.register
@dataclass(frozen=True)
class Truncated(OfBase):
    """Responses of a family `base` of which only those with lower <= y <= upper are observed.

    p(y) is the density of the family divided by P(lower <= Y <= upper). Formulas write `trunc(y, lower=1)`. Predicted means are
    means of the family, before truncation; quantiles and draws are those of the truncated response.

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
        # an exponential family by its canonical link remains one
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
            density = density_of_base(_truncated_row, density, self._link_of_noise)
            if self.nuisance:
                density = density._replace(settings=_truncated_settings)
            return density
        base = self.family.compiled_density
        if not self.base.is_discrete or base is None:
            return None
        counts, inside = summed_counts(*self._ends())
        if not len(counts):
            return base
        return _density_of_counts(base, int(counts[0]), int(counts[-1]) + 1, inside)

    @property
    def constants(self) -> tuple[float, ...]:  # type: ignore[override]
        if not isinstance(self.base, StandardDensity):
            return self.family.constants
        ends = self.base.transform(np.array([self.lower, self.upper])).tolist()
        return (*self.base.constants, *ends)

    def _ends(self) -> tuple[Array, Array]:
        """Return a and b with P(a < Y <= b) = P(lower <= Y <= upper): for counts a is below the first one."""
        low = np.ceil(self.lower) - 1.0 if self.base.is_discrete else self.lower
        return np.full(1, low), np.full(1, self.upper)

    def saturated_predictor(self, y: Array, **aux: Any) -> Array:
        centre = self.base.saturated_predictor(y, **aux)
        # 40 to each side are the limit of counts to all digits, and farther off the score is rounding error
        reach = 40.0 if self.base.is_discrete else FAR
        far = reach * np.asarray(self.base.noise(aux))[..., None]
        return self.find_zero_score(y, centre - far, centre + far, **aux)

    def log_prob(self, y: Array, eta: Array, **aux: Any) -> Array:
        log_density = self.family.log_prob(y, eta, **aux)
        return log_density - self.family.log_interval(*self._ends(), eta, **aux)

    def value_grad_hessian(self, y: Array, eta: Array, **aux: Any) -> ValueGradHessian:
        density = self.family.value_grad_hessian(y, eta, **aux)
        low, high = (np.full(len(eta), v[0]) for v in self._ends())
        inside = self.family.expand_interval(low, high, eta, **aux)
        return ValueGradHessian(*(v - w for v, w in zip(density, inside)))

    def cdf(self, y: Array, eta: Array, **aux: Any) -> Array:
        low, high = self._ends()
        below = self.family.cdf(low, eta, **aux)
        total = np.exp(self.family.log_interval(low, high, eta, **aux))
        share = (self.family.cdf(np.minimum(y, high), eta, **aux) - below) / total
        return np.clip(share, 0.0, 1.0)

    def sample(self, rng: Generator, eta: Array, **aux: Any) -> Array:
        y = self.base.sample(rng, eta, **aux)
        for _ in range(10_000):
            outside = (y < self.lower) | (y > self.upper)
            if not outside.any():
                return y
            y = np.where(outside, self.base.sample(rng, eta, **aux), y)
        raise DataError(
            f"no draw in [{self.lower:g}, {self.upper:g}] after 10,000 tries: the family has hardly any mass there"
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
            counts, inside = summed_counts(*self._ends())
            if not len(counts):
                return log_density
            terms = [pm.logp(base, k) for k in counts.astype(int)]
            log_sum = pt.logsumexp(pt.stack(terms), axis=0)
            log_mass = log_sum if inside else pt.log1mexp(log_sum)
        else:
            log_mass = self._symbolic_log_mass(mu, aux)
        return log_density - log_mass

    def _symbolic_log_mass(self, mu: Any, aux: AuxValues) -> Any:
        """log P(lower <= Y <= upper) of a continuous family, as PyMC's graph."""
        smallest = 0.0 if self.base.support == "positive" else -np.inf
        tails = [
            self.family.symbolic_tails(end, mu, **aux)
            for end in np.array([self.lower, self.upper])  # Python's would be single
            if smallest < end < np.inf
        ]
        if len(tails) == 2:
            return _symbolic_interval(*tails)
        if not tails:
            return 0.0
        below, beyond = tails[0]
        return below if self.upper < np.inf else beyond
