"""Successes out of trials: logistic regression in which a row counts."""

from dataclasses import dataclass, replace
from math import exp, log1p
from typing import Any, Self

import numpy as np
from numpy.random import Generator

from probreg.arguments.scalars import Count
from probreg.compiled.density import CompiledDensity, Row
from probreg.errors import DataError, require_rows
from probreg.likelihoods.base import (
    LIKELIHOODS,
    Array,
    AuxValues,
    Level,
    Levels,
    OfTrials,
    PymcVariable,
    Start,
)
from probreg.likelihoods.binary import (
    BinaryLikelihood,
    BinaryLinkName,
    densities_of_links,
    symbolic_probability,
)
from probreg.likelihoods.links import LOGIT
from probreg.likelihoods.response import whole_counts
from probreg.likelihoods.tails import tails
from probreg.special import betainc, gammaln


def evaluate_binomial_row(y: Array, eta: float, t: Array) -> Row:
    k = y[0]
    n = y[1]
    e = exp(-abs(eta))
    mu = (1.0 if eta > 0.0 else e) / (1.0 + e)
    # k log p + (n - k) log(1 - p), and its slope k - n p.
    return -k * max(-eta, 0.0) - (n - k) * max(eta, 0.0) - n * log1p(e), k - n * mu, 0.0


def _row_hessian(y: Array, eta: float, t: Array) -> float:
    e = exp(-abs(eta))
    # n p (1 - p) with p (1 - p) = e / (1 + e)^2, e = exp(-|eta|).
    return y[1] * e / ((1.0 + e) * (1.0 + e))


def _row_of_link(y: Array, eta: float, t: Array) -> Row:
    k = y[0]
    failures = y[1] - k
    log_p, rate_p, log_q, rate_q = tails(eta)
    # without the product of 0 and an infinite logarithm
    value = k * log_p if k > 0.0 else 0.0
    if failures > 0.0:
        value += failures * log_q
    return value, k * rate_p - failures * rate_q, 0.0


@LIKELIHOODS.register
@dataclass(frozen=True)
class Binomial(BinaryLikelihood, OfTrials):
    """Successes k of n trials with P(success) = p, p = 1 / (1 + exp(-eta)) by the logit link: binomial counts.

    log p(k) = log (n over k) + k log p + (n - k) log(1 - p).

    A row y is (k, n) and one observation; its mean is p, per trial. Bernoulli is the case n = 1 with named levels.

    Parameters
    ----------
    trials : int, optional
        The number of trials of every row, where it is one number; else each row brings its own.
    link : {"logit", "probit", "cloglog", "cauchit", "log", "identity"}
        eta = log(p / (1 - p)), the normal quantile of p, log(-log(1 - p)), the Cauchy quantile of p, log(p) or p.

    Examples
    --------
    >>> float(Binomial().log_prob(np.array([1.0, 2.0]), np.array([0.0])).round(6))
    -0.693147
    >>> float(Binomial().information(np.array([[0.0]]), trials=10)[0, 0, 0])
    2.5
    """

    trials: Count | None = None
    link: BinaryLinkName = LOGIT  # type: ignore[assignment]

    name, single = "binomial", "bernoulli"
    wider = "fit a BetaBinomial likelihood, with probabilities that vary between rows"
    classes = ("failure", "success")
    levels = ()
    support = np.arange(500.0)
    event_remedy = "p(k, n) counts the event; to count the other one, write p(n - k, n)"
    compiled_density = CompiledDensity(evaluate_binomial_row, hessian=_row_hessian)
    densities_of_links = densities_of_links(_row_of_link)

    def bind(self, values: Array, levels: Levels | None, chosen: Level | None) -> Self:
        zero_one = np.ndim(values) == 1 and self.trials is None
        bound = replace(self, trials=1) if zero_one else self
        bound.encode(values)
        return bound

    def encode(self, values: Array) -> Array:
        """Return (n, 2), successes and trials, from such pairs, or from successes (n,) with `trials`."""
        kind = type(self).__name__
        values = np.asarray(values)
        if values.ndim == 1:
            if self.trials is None:
                raise DataError(
                    f"a {kind} response is successes out of trials: write p(successes, trials) in a formula, or pass trials="
                )
            k = whole_counts(values, kind)
            values = np.stack([k, np.full(len(k), float(self.trials))], -1)
        y = whole_counts(values, kind)
        if y.ndim != 2 or y.shape[1] != 2:
            raise DataError(
                f"a {kind} response is successes and trials, one of each per row; got an array of shape {y.shape}"
            )
        k, n = y.T
        message = " has {:g} successes in {:g} trials; expected at most as many: write p(successes, trials) in a formula, or pass trials="
        require_rows(k <= n, "", message, k, n)
        if self.trials is not None:
            message = (
                f" has {{:g}} trials, and this {kind} has {self.trials} in every row"
            )
            require_rows(n == self.trials, "", message, n)
        return y

    def of_counts(self) -> Self:
        return self

    def given(self, y: Array) -> dict[str, Array]:
        return {"trials": np.asarray(y)[..., 1]}

    def drawn(self, y: Array) -> Array:
        return np.asarray(y)[..., 0]

    def join(self, drawn: Array, **given: Array) -> Array:
        return np.stack(
            np.broadcast_arrays(np.asarray(drawn, dtype=float), self.size(**given)), -1
        )

    def single_trials(self) -> Array:
        return np.array([[0.0, 1.0], [1.0, 1.0]])

    def tally(self, y: Array) -> Array:
        k = self.drawn(y)
        n = np.asarray(y)[..., 1]
        return np.stack([n - k, k], -1)

    def response(self, y: Array) -> Array:
        with np.errstate(invalid="ignore"):  # no share of no trials
            return np.asarray(y)[..., 0] / np.asarray(y)[..., 1]

    def describe(self, response: str) -> str:
        return f"the probability of a success ({response}) on the {self.link} scale"

    def mean_name(self, response: str) -> str:
        return f"P(success), {response}"

    def initial_eta(self, y: Array) -> Start:
        k = y[:, 0]
        n = y[:, 1]
        # The empirical logit, and the same of other links: finite where k is 0 or n.
        return self.link_function.forward((k + 0.5) / (n + 1.0))[:, None], {}

    def log_prob(self, y: Array, eta: Array, **aux: Any) -> Array:
        return super().log_prob(y, eta) + self.base_measure(y)

    def base_measure(self, y: Array) -> Array:
        """log (n over k)."""
        k, failures = self._events_and_failures(y)
        log_factorials = gammaln(k + 1.0) + gammaln(failures + 1.0)
        return gammaln(k + failures + 1.0) - log_factorials

    def cdf(self, y: Array, eta: Array, **aux: Any) -> Array:
        # P(K <= k) = I_{1 - p}(n - k, k + 1), the regularised incomplete beta function (DLMF 8.17.5)
        k = np.floor(self.drawn(y))
        n = np.asarray(y)[..., 1]
        inside = betainc(
            np.maximum(n - k, 1e-300),
            np.maximum(k, 0.0) + 1.0,
            self.tails.q(eta[..., 0]),
        )
        return np.where(k < 0, 0.0, np.where(k >= n, 1.0, inside))

    def draw_probability(self, rng: Generator, eta: Array, known: AuxValues) -> Array:
        """The probability of a success in each row, which may vary between draws."""
        return self.mean(eta)

    def sample(self, rng: Generator, eta: Array, **known: Any) -> Array:
        p = self.draw_probability(rng, eta, known)
        n = np.broadcast_to(self.size(**known), p.shape)
        k = rng.binomial(n.astype(np.int64), p)
        return np.stack([k.astype(float), n.astype(float)], -1)

    def pymc(self, eta: Any, **known: Any) -> PymcVariable:
        import pymc as pm

        return pm.Binomial, {
            **symbolic_probability(self.link, eta[:, 0]),
            "n": np.asarray(self.size(**known)).astype(int),
        }
