"""The base class of counts 0, 1, 2, ..."""

from abc import abstractmethod
from typing import Any, Literal

import numpy as np

from probreg.likelihoods.base import (
    Array,
    ExponentialFamily,
    IntervalLikelihood,
    MayDiverge,
    Recession,
    Start,
    ValueGradHessian,
)
from probreg.likelihoods.links import LOG
from probreg.likelihoods.response import finite_response, whole_counts
from probreg.special import log1mexp, logsumexp

CountLinkName = Literal["log", "sqrt", "identity"]

# If P(Y >= k) is less, 1 - P(Y < k) has lost half of its digits, and the sum over `counts_above` replaces it
RARE = 1e-8


class CountLikelihood(ExponentialFamily, IntervalLikelihood, MayDiverge):
    """y in {0, 1, 2, ...} with a mean, exp(eta) by the log link: encoding, descriptions, a start, and the directions of no decrease.

    A family defines its name, its density, distribution function and draws, its `variance` with the slope over the mean, and its
    PyMC distribution. By the log link the likelihood of a row with y = 0 increases as eta decreases
    without limit; with y > 0, and by other links, it falls on both sides.
    """

    support = np.arange(4000.0)
    is_count = True
    link: Any = LOG
    mean_range = 0.0, np.inf

    def encode(self, values: Array) -> Array:
        kind = type(self).__name__
        return whole_counts(finite_response(values, kind), kind)

    def describe(self, response: str) -> str:
        return f"the mean count of {response} on the {self.link} scale"

    def initial_eta(self, y: Array) -> Start:
        mean = float(np.mean(y))
        # of Var = mu + alpha mu^2: nuisance parameters of counts are such excesses, about 1
        excess = (float(np.var(y)) - mean) / max(mean, 0.5) ** 2
        return self.link.forward(y + 0.5)[:, None], dict.fromkeys(
            self.nuisance, float(np.clip(excess, 0.05, 5.0))
        )

    def y_log_mean(self, y: Array, eta: Array) -> Array:
        """y log mu, 0 at y = mu = 0."""
        log_mu = self.log_mean(eta)
        if self.link is not LOG:
            log_mu = np.where((y == 0) & (log_mu == -np.inf), 0.0, log_mu)
        return y * log_mu

    def recession(self, y: Array) -> Recession:
        equal = (y > 0) | (self.link is not LOG)
        return Recession(np.arange(len(y)), -np.ones((len(y), 1)), equal)

    def absent_outcomes(self, y: Array) -> Array:
        return np.array([not np.any(y)])

    def infinite_intercept(self, absent: Array, rows: int) -> str:
        return (
            f"the response is 0 in every one of {rows} rows: the {type(self).__name__} mean is estimated as 0, "
            f"at {'infinity' if self.link is LOG else 'the end'} on the {self.link} scale"
        )

    @abstractmethod
    def excess_kurtosis(self, mu: Array, **aux: Any) -> Array:
        """The fourth cumulant over the squared variance: the excess variance of a squared residual relative to a normal variable."""

    def cdf(self, y: Array, eta: Array, **aux: Any) -> Array:
        k = np.maximum(np.floor(y), 0.0)
        return np.where(y < 0, 0.0, self.up_to(k, self.mean(eta), **aux))

    @abstractmethod
    def up_to(self, k: Array, mu: Array, **aux: Any) -> Array:
        """P(Y <= k) for whole k >= 0."""

    def log_interval(self, lower: Array, upper: Array, eta: Array, **aux: Any) -> Array:
        counts, is_inside = summed_counts(lower, upper)
        if not len(counts):  # every count is in the interval
            return np.zeros_like(self.log_prob(np.zeros(()), eta, **aux))

        def log_sum(counts: Array) -> Array:
            terms = [self.log_prob(k, eta, **aux) for k in counts]
            return np.asarray(logsumexp(np.stack(terms), 0))

        total = log_sum(counts)
        if is_inside:
            return total
        log_p = log1mexp(np.maximum(-total, 0.0))
        is_rare = log_p < np.log(RARE)
        if not is_rare.any():
            return log_p
        return np.where(is_rare, log_sum(counts_above(counts)), log_p)

    def expand_interval(
        self, lower: Array, upper: Array, eta: Array, **aux: Any
    ) -> ValueGradHessian:
        # d P = sum p d log p and d2 P = sum p (d2 log p + d log p d log p') over the counts within, or minus those outside
        counts, is_inside = summed_counts(lower, upper)
        log_p = self.log_interval(lower, upper, eta, **aux)
        is_rare = (log_p < np.log(RARE)) & (not is_inside)
        terms = [(count, 1.0 if is_inside else -1.0, ~is_rare) for count in counts]
        if is_rare.any():
            terms += [(count, 1.0, is_rare) for count in counts_above(counts)]
        k = 1 + len(self.nuisance)
        gradient = np.zeros((len(eta), k))
        second = np.zeros((len(eta), k, k))
        for count, sign, rows in terms:
            term = self.value_grad_hessian(np.full(len(eta), count), eta, **aux)
            share = sign * np.exp(np.where(rows, term.log_prob - log_p, -np.inf))
            outer = term.gradient[:, :, None] * term.gradient[:, None, :]
            gradient += share[:, None] * term.gradient
            second += share[:, None, None] * (outer - term.curvature)
        outer = gradient[:, :, None] * gradient[:, None, :]
        return ValueGradHessian(log_p, gradient, outer - second)


def summed_counts(lower: Any, upper: Any) -> tuple[Array, bool]:
    """Return the counts in (lower, upper], and True, or without an upper end those up to `lower`, and False."""
    low, high = (float(np.max(end, initial=-np.inf)) for end in (lower, upper))
    if np.isfinite(high):
        return np.arange(max(low, -1.0) + 1.0, high + 1.0), True
    return np.arange(max(low, -1.0) + 1.0), False


def counts_above(counts: Array) -> Array:
    """Return the counts from k on that replace those below k if P(Y >= k) is less than `RARE`: as many, and ten for the digits at small k.

    The others are a share P(Y >= 2 k | Y >= k) of P(Y >= k), which is at most P(Y >= k) if p is log-concave.
    """
    return counts[-1] + 1.0 + np.arange(len(counts) + 10.0)
