"""Responses that are known to lie in an interval."""

from dataclasses import dataclass, field
from math import inf, log
from typing import Any

import numpy as np
from numpy.random import Generator

from probreg.compiled.density import CompiledDensity, Row
from probreg.errors import DataError, Incompatible, require_rows, rows_named
from probreg.likelihoods.base import (
    INFINITE_PREDICTOR,
    LIKELIHOODS,
    Array,
    Likelihood,
    MayDiverge,
    PymcVariable,
    Recession,
    Start,
    ValueGradHessian,
    from_base,
)
from probreg.likelihoods.composite import (
    OfBase,
    density_of_base,
    slopes_of_ends,
    symbolic_interval,
)
from probreg.likelihoods.gaussian import Gaussian
from probreg.likelihoods.location_scale import same_number

# replaced by functions of the base: its row, and `StandardDensity.transform`
row: Any = None
transform: Any = None


def _censored_row(y: Array, eta: float, t: Array) -> Row:
    low = y[0]
    high = y[1]
    if low == high:
        return row(low, eta, t)
    a = (transform(low) - eta) / t[0] if low > -inf else -inf
    b = (transform(high) - eta) / t[0] if high < inf else inf
    return slopes_of_ends(a, b, t[0])


@LIKELIHOODS.register
@dataclass(frozen=True)
class Censored(OfBase, MayDiverge):
    """Responses of a family `base` that are exact, or known to lie in an interval: right, left or interval censored.

    A row y is (lower, upper): equal if the response is exact, with upper = inf if it is right censored and lower = -inf if it is left
    censored. log p is the log density of an exact row, and log P(lower < Y <= upper) of a censored row. Censoring is assumed to be
    independent of the response given the columns. Means, quantiles and draws are for the uncensored response. The expected information
    is computed for exact responses. `sbc` and `coverage` simulate responses at the rows of a model: a draw in the interval of a censored row
    is censored there, and every other draw is exact. The parametric bootstrap raises an error, since it needs the limits of exact rows too.

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
                f"cens(...) censors a continuous response, and {self.base.named} response is a count; use trunc(y, lower=1) for counts without zeros"
            )

    @property
    def compiled_density(self) -> CompiledDensity | None:  # type: ignore[override]
        density = self._density_of_interval
        if density is None:
            return None
        transform = log if self.base.support == "positive" else same_number
        return density_of_base(
            _censored_row, density, self._compiled_interval, transform
        )

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
                f"{self.base.named} response is positive; ",
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
        """The exact responses, nan in censored rows."""
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
        far = INFINITE_PREDICTOR * np.asarray(next(iter(aux.values()), 1.0))
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
        inside = (y[..., :1] < drawn) & (drawn <= y[..., 1:])
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
        interval = symbolic_interval(tails_a, tails_b, is_interval)
        one_sided = pt.switch(open_above, beyond_a, below_b)
        censored = pt.switch(open_above | open_below, one_sided, interval)
        return pt.switch(exact, density, censored)
