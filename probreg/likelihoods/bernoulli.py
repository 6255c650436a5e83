"""A response with two levels: logistic regression."""

from dataclasses import dataclass, replace
from math import exp, log1p
from typing import Annotated, Any, Self

import numpy as np
from numpy.random import Generator

from probreg.arguments.scalars import LevelSequence
from probreg.compiled.density import CompiledDensity, Row
from probreg.errors import DataError
from probreg.likelihoods.base import (
    LIKELIHOODS,
    Array,
    Level,
    Levels,
    Likelihood,
    PymcVariable,
)
from probreg.likelihoods.binary import (
    BinaryLikelihood,
    BinaryLinkName,
    densities_of_links,
    symbolic_probability,
)
from probreg.likelihoods.binomial import Binomial
from probreg.likelihoods.links import LOGIT
from probreg.likelihoods.response import (
    codes,
    one_of,
    refuse_fractions,
    response_levels,
)
from probreg.likelihoods.tails import tails


def _product(y: float, eta: float, t: Array) -> Row:
    # log expit(s) = min(s, 0) - log(1 + exp(-|s|)), which does not overflow or lose digits; d/d eta = y - mu.
    s = eta if y > 0.5 else -eta
    e = exp(-abs(s))
    mu = (1.0 if eta > 0.0 else e) / (1.0 + e)
    return (s if s < 0.0 else 0.0), e, y - mu


def _evaluate_row(y: float, eta: float, t: Array) -> Row:
    a, e, slope = _product(y, eta, t)
    return a - log1p(e), slope, 0.0


def _row_hessian(y: float, eta: float, t: Array) -> float:
    e = exp(-abs(eta))
    # mu (1 - mu) = e / (1 + e)^2 with e = exp(-|eta|).
    return e / ((1.0 + e) * (1.0 + e))


def _row_of_link(y: float, eta: float, t: Array) -> Row:
    log_p, rate_p, log_q, rate_q = tails(eta)
    if y > 0.5:
        return log_p, rate_p, 0.0
    return log_q, -rate_q, 0.0


@LIKELIHOODS.register
@dataclass(frozen=True)
class Bernoulli(BinaryLikelihood):
    """One of two classes, P(y = 1) = p, by the logit link 1 / (1 + exp(-eta)): log p(y) = y eta - log(1 + exp(eta)).

    Parameters
    ----------
    levels : tuple
        (the other level, the event); without them the event is the level that sorts last.
    link : {"logit", "probit", "cloglog", "cauchit", "log", "identity"}
        eta = log(p / (1 - p)), the normal quantile of p, log(-log(1 - p)), the Cauchy quantile of p, log(p) or p.

    Examples
    --------
    >>> float(Bernoulli().log_prob(np.array(1.0), np.array([0.0])).round(6))
    -0.693147
    """

    levels: Annotated[tuple[Level, Level], LevelSequence(2)] = (0, 1)
    link: BinaryLinkName = LOGIT  # type: ignore[assignment]

    name = "bernoulli"
    support = np.arange(2.0)
    binary = True
    chosen_level = "event"
    compiled_density = CompiledDensity(
        _evaluate_row, hessian=_row_hessian, product=_product
    )
    densities_of_links = densities_of_links(_row_of_link)

    def stated_choice(self) -> Level | None:
        levels = self.stated_levels()
        return levels[-1] if levels else None

    def bind(self, values: Array, levels: Levels | None, chosen: Level | None) -> Self:
        known = self.stated_levels() or levels
        found_levels = response_levels(values, known, chosen)
        if levels is not None or any(
            isinstance(v, float) for v in found_levels
        ):  # whole numbers come as int
            refuse_fractions(
                values,
                "a Bernoulli response has two levels; ",
                "For shares of several trials give successes and trials: 'p(successes, trials) ~ x', or trials= in from_arrays.",
            )
        if len(found_levels) == 1:
            raise DataError(
                f"a Bernoulli response has two levels; this one is constant ({found_levels[0]!r}), and its other level is not known: "
                "code it as 0 or 1, or declare the levels of a categorical column."
            )
        if len(found_levels) != 2:
            shown = ", ".join(map(str, found_levels[:6])) + "…" * (
                len(found_levels) > 6
            )
            raise DataError(
                f"a Bernoulli response has two levels; this one has {len(found_levels)} levels ({shown}). For more than two use Categorical."
            )
        first, last = found_levels
        if chosen is not None and one_of(found_levels, chosen, "event") == first:
            first, last = last, first
        return replace(self, levels=(first, last))

    def encode(self, values: Array) -> Array:
        return codes(values, self.levels)

    def of_counts(self) -> Likelihood:
        return Binomial(link=self.link)

    def describe(self, response: str) -> str:
        return f"P({response} = {self.levels[1]}) on the {self.link} scale; the other level is {self.levels[0]}"

    def tally(self, y: Array) -> Array:
        return np.stack([1.0 - np.asarray(y), y], -1)

    def mean_name(self, response: str) -> str:
        return f"P({response} = {self.levels[1]})"

    def cdf(self, y: Array, eta: Array, **aux: Any) -> Array:
        return np.where(y < 0, 0.0, np.where(y < 1, self.tails.q(eta[..., 0]), 1.0))

    def sample(self, rng: Generator, eta: Array, **aux: Any) -> Array:
        return (rng.random(eta.shape[:-1]) < self.mean(eta)).astype(float)

    def pymc(self, eta: Any, **aux: Any) -> PymcVariable:
        import pymc as pm

        return pm.Bernoulli, symbolic_probability(self.link, eta[:, 0])
