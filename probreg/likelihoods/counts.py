"""Counts 0, 1, 2, ...: Poisson regression, and the negative binomial with a quadratic (NB2) or linear variance (NB1)."""

import math
from abc import abstractmethod
from dataclasses import dataclass, replace
from math import exp
from typing import Any, Literal

import numpy as np
from numpy import log, log1p  # of numbers and arrays
from numpy.random import Generator

from probreg.compiled.density import CompiledDensity, Row
from probreg.likelihoods.base import (
    INFINITE_PREDICTOR,
    LIKELIHOODS,
    Array,
    AuxValues,
    DifferentiableLikelihood,
    ExponentialFamily,
    IntervalLikelihood,
    MayDiverge,
    PymcVariable,
    Recession,
    SmoothLikelihood,
    Start,
    ValueGradHessian,
    symmetric_pairs,
)
from probreg.likelihoods.links import LOG
from probreg.likelihoods.log_gamma import rising_squares, rising_sums
from probreg.likelihoods.mixtures import of_poissons
from probreg.likelihoods.response import finite_response, whole_counts
from probreg.special import betainc, expit, gammaln, log1mexp, logsumexp, pdtr

CountLinkName = Literal["log", "sqrt", "identity"]

# If P(Y >= k) is less, 1 - P(Y < k) has lost half of its digits, and the sum over `counts_above` replaces it
RARE = 1e-8


class CountLikelihood(ExponentialFamily, IntervalLikelihood, MayDiverge):
    """y in {0, 1, 2, ...} with a mean, exp(eta) by the log link: encoding, descriptions, a start, and the directions where the likelihood never falls.

    A family defines its name, its density, distribution function and draws, its `variance` with the slope over the mean, and its
    PyMC distribution. By the log link the likelihood of a row with y = 0 increases as eta decreases
    without limit; with y > 0, or with another link, it falls on both sides.
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
        # alpha of Var = mu + alpha mu^2: nuisance parameters of counts measure such an excess variance, about 1
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
        # d P = sum p d log p and d2 P = sum p (d2 log p + d log p d log p') over the counts inside, or minus the sums over the counts outside
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
    """Return the counts in (lower, upper] and True. Without an upper end return the counts up to `lower` and False."""
    low, high = (float(np.max(end, initial=-np.inf)) for end in (lower, upper))
    if np.isfinite(high):
        return np.arange(max(low, -1.0) + 1.0, high + 1.0), True
    return np.arange(max(low, -1.0) + 1.0), False


def counts_above(counts: Array) -> Array:
    """Return counts from k on, for sums in place of the counts below k if P(Y >= k) is less than `RARE`: k counts, and ten more for accuracy
    at small k.

    The counts left out are a share P(Y >= 2 k | Y >= k) of P(Y >= k), at most P(Y >= k) itself if p is log-concave.
    """
    return counts[-1] + 1.0 + np.arange(len(counts) + 10.0)


def _evaluate_poisson_row(y: float, eta: float, t: Array) -> Row:
    # log p + log y! = y eta - mu, d/d eta = y - mu; there is no nuisance parameter.
    mu = exp(eta)
    return y * eta - mu, y - mu, 0.0


@LIKELIHOODS.register
@dataclass(frozen=True)
class Poisson(CountLikelihood):
    """Counts y in {0, 1, 2, ...} with mean mu, exp(eta) by the log link: log p = y log(mu) - mu - log(y!).

    Parameters
    ----------
    link : {"log", "sqrt", "identity"}
        eta = log(mu), sqrt(mu) or mu; eta > 0 for the last two.

    Examples
    --------
    >>> float(Poisson().log_prob(np.array(2.0), np.array([0.0])).round(6))
    -1.693147
    """

    link: CountLinkName = LOG  # type: ignore[assignment]

    name = "poisson"
    support = np.arange(500.0)
    wider = "fit a NegativeBinomial likelihood, whose variance is mean + alpha mean^2"
    concave = True
    compiled_density = CompiledDensity(_evaluate_poisson_row)
    compiled_quantile = staticmethod(of_poissons)

    @property
    def canonical(self) -> bool:  # type: ignore[override]
        return self.link is LOG

    def log_prob(self, y: Array, eta: Array, **aux: Any) -> Array:
        value = self.y_log_mean(y, eta) - self.mean(eta) + self.base_measure(y)
        return self.within_domain(eta, value)

    def base_measure(self, y: Array) -> Array:
        return -gammaln(np.asarray(y) + 1.0)

    def up_to(self, k: Array, mu: Array, **aux: Any) -> Array:
        return pdtr(k, mu)

    def variance(self, mu: Array, **aux: Any) -> Array:
        return mu

    def variance_slope(self, mu: Array, **aux: Any) -> Array:
        return np.ones_like(mu)

    def excess_kurtosis(self, mu: Array, **aux: Any) -> Array:
        # Every cumulant is mu: kappa_4 / V^2 = mu / mu^2.
        return 1.0 / mu

    def sample(self, rng: Generator, eta: Array, **aux: Any) -> Array:
        return rng.poisson(self.mean(eta)).astype(float)

    def pymc(self, eta: Any, **aux: Any) -> PymcVariable:
        import pymc as pm

        return pm.Poisson, {"mu": self.link_function.symbolic_inverse(eta[:, 0])}


# r of the gamma distribution of the means; with a larger one the counts are Poisson to all digits
_MAX_SHAPE = 1e150
_MAX_LOG_SHAPE = math.log(_MAX_SHAPE)


class NegativeBinomialVariance(str):
    """V(mu), by its name: mu + alpha mu^2 for "nb2" and mu + alpha mu for "nb1"."""

    def __call__(self, mu: Array, **aux: Any) -> Array:
        return mu * (1.0 + aux["alpha"] * (1.0 if self == "nb1" else mu))


def _expand_row(y: float, eta: float, r: float, v: float) -> Row:
    """S0 + y eta - (y + r) log(1 + mu / r) with S0 from `rising_sums`, and its slopes over eta and v = -log r."""
    s = eta + v
    e = exp(-abs(s))
    q = (1.0 if s > 0.0 else e) / (1.0 + e)  # mu / (r + mu)
    soft = max(s, 0.0) + log1p(e)  # log(1 + mu / r)
    sums, ones = rising_sums(y, r)
    return (
        sums + y * eta - (y + r) * soft,
        y * (1.0 - q) - r * q,
        y - ones + r * soft - (y + r) * q,
    )


def _evaluate_quadratic_row(y: float, eta: float, t: Array) -> Row:
    # t = (r, log alpha)
    return _expand_row(y, eta, t[0], t[1])


def _evaluate_linear_row(y: float, eta: float, t: Array) -> Row:
    # NB1 is NB2 with log alpha - eta in place of log alpha
    v = min(max(t[1] - eta, -_MAX_LOG_SHAPE), INFINITE_PREDICTOR)
    log_p, over_eta, over_v = _expand_row(y, eta, exp(-v), v)
    return log_p, over_eta - over_v, over_v


def _terms_of_alpha(values: Any, constants: Any) -> tuple[Any, Any]:
    alpha = values[0] + 1.0 / _MAX_SHAPE  # as `_shape`
    return 1.0 / alpha, log(alpha)


@LIKELIHOODS.register
@dataclass(frozen=True)
class NegativeBinomial(CountLikelihood):
    """Counts y in {0, 1, 2, ...} with mean mu, exp(eta) by the log link, and variance mu + alpha mu^2 or mu + alpha mu, alpha > 0.

    It is a Poisson with a mean that varies from row to row, with squared coefficient of variation alpha (NB2) or alpha / mu (NB1).

    log p = log Gamma(y + r) - log Gamma(r) - log y! + y log(mu / r) - (y + r) log(1 + mu / r), r = 1 / alpha (NB2) or mu / alpha
    (NB1). At alpha = 0 it is the Poisson. If the counts are not overdispersed, the maximum is at alpha = 0, and the fit reports this.
    NB1 is not concave in eta.

    Parameters
    ----------
    variance : {"nb2", "nb1"}
        The variance mu + alpha mu^2, or mu (1 + alpha).
    link : {"log", "sqrt", "identity"}
        eta = log(mu), sqrt(mu) or mu; eta > 0 for the last two.

    References
    ----------
    Cameron & Trivedi 2013, section 3.3.

    Examples
    --------
    >>> float(NegativeBinomial().log_prob(np.array(2.0), np.array([0.0]), alpha=1.0).round(6))
    -2.079442
    """

    variance: Literal["nb2", "nb1"] = "nb2"  # type: ignore[assignment]
    link: CountLinkName = LOG  # type: ignore[assignment]

    name = "negative_binomial"
    nuisance = ("alpha",)
    at_zero = {"alpha": "the Poisson model"}  # noqa: RUF012  a constant of the class
    compiled_density = CompiledDensity(
        _evaluate_quadratic_row, settings=_terms_of_alpha
    )

    def __post_init__(self) -> None:
        if str(self.variance) == "nb1":  # any value, which is checked below
            density = CompiledDensity(_evaluate_linear_row, settings=_terms_of_alpha)
            object.__setattr__(self, "compiled_density", density)
        super().__post_init__()
        object.__setattr__(self, "variance", NegativeBinomialVariance(self.variance))

    @property
    def is_linear(self) -> bool:
        """Whether the variance is mu (1 + alpha)."""
        return self.variance == "nb1"

    @property
    def is_orthogonal(self) -> bool:  # type: ignore[override]
        return not self.is_linear

    @property
    def concave(self) -> bool:  # type: ignore[override]
        return not self.is_linear and self.link is LOG

    def describe(self, response: str) -> str:
        variance = "mean (1 + alpha)" if self.is_linear else "mean + alpha mean^2"
        return f"{super().describe(response)}, with variance {variance}"

    def _log_mean_slopes(self, eta: Array) -> tuple[Any, Any]:
        """d log mu / d eta, and the second derivative."""
        if self.link is LOG:
            return 1.0, 0.0
        mu, e = self.mean(eta), eta[..., 0]
        with np.errstate(all="ignore"):  # at the ends of the domain
            slope = self.link_function.slope(e) / mu
            return slope, self.link_function.hessian(e) / mu - slope**2

    def _shape(self, mu: Array, aux: AuxValues) -> Any:
        """r of the gamma distribution of the means, at most 1e150: the Poisson to all digits."""
        alpha = aux["alpha"]
        if self.is_linear:
            with np.errstate(over="ignore", divide="ignore"):
                alpha = alpha / mu
        return 1.0 / np.clip(alpha, 1.0 / _MAX_SHAPE, 1e300)

    def log_prob(self, y: Array, eta: Array, **aux: Any) -> Array:
        mu = self.mean(eta)
        r = self._shape(mu, aux)
        if self.is_linear:
            # log(1 + mu / r); r is bounded, and at alpha = 0 r log(1 + mu / r) is mu
            soft = np.log1p(np.maximum(aux["alpha"], mu / _MAX_SHAPE))
        else:
            soft, _ = _softplus_and_share(self.log_mean(eta), r)
        value = rising_sums(y, r)[0] + self.y_log_mean(y, eta) - (y + r) * soft
        return self.within_domain(eta, value + self.base_measure(y))

    def base_measure(self, y: Array) -> Array:
        return -gammaln(np.asarray(y) + 1.0)

    def saturated_predictor(self, y: Array, **aux: Any) -> Array:
        if not self.is_linear:
            return super().saturated_predictor(y, **aux)
        by_log = replace(self, variance="nb1", link="log")
        log_mu = by_log.find_zero_score(
            y, -INFINITE_PREDICTOR, INFINITE_PREDICTOR, **aux
        )
        return self.link_function.forward(LOG.inverse(log_mu))

    def up_to(self, k: Array, mu: Array, **aux: Any) -> Array:
        # P(Y <= k) = I_p(r, k + 1), p = 1 / (1 + alpha mu), DLMF 8.17; with r beyond 1e10 the Poisson limit
        r = self._shape(mu, aux)
        below = betainc(np.minimum(r, 1e10), k + 1.0, 1.0 / (1.0 + mu / r))
        is_poisson = r > 1e10
        return np.where(is_poisson, pdtr(k, mu), below) if is_poisson.any() else below

    def variance_slope(self, mu: Array, **aux: Any) -> Array:
        power = 2 - self.is_linear
        return 1.0 + power * aux["alpha"] * mu ** (power - 1)

    def excess_kurtosis(self, mu: Array, **aux: Any) -> Array:
        # kappa_4 / V^2 = 6 / r + 1 / V.
        V = self.variance(mu, **aux)  # type: ignore[operator]
        return 6.0 / self._shape(mu, aux) + 1.0 / V

    def score(self, y: Array, eta: Array, **aux: Any) -> Array:
        if self.is_linear:
            return SmoothLikelihood.score(self, y, eta, **aux)
        r = self._shape(self.mean(eta), aux)
        _, q = _softplus_and_share(self.log_mean(eta), r)
        over_log_mu = y * (1.0 - q) - r * q
        return (over_log_mu * self._log_mean_slopes(eta)[0])[..., None]

    def information(self, eta: Array, **aux: Any) -> Array:
        if not self.is_linear:
            return super().information(eta, **aux)
        # r^2 E[psi'(r) - psi'(Y + r)], the sum over j of P(Y > j) (r / (r + j))^2. With 1 / (r + j)^2 as the integral of
        # t e^(-(r + j) t), s = r t and the generating function G(z) = (1 + alpha (1 - z))^-r it is the integral of
        # s e^-s (1 - G(z)) / (1 - z), z = e^(-s / r): by the trapezoidal rule over log s, to 1e-12
        mu = self.mean(eta)
        r = self._shape(mu, aux)
        alpha = mu / r  # which is not 0 at the limit of the Poisson
        step = 0.25
        total = np.zeros(np.broadcast_shapes(eta.shape[:-1], np.shape(r)))
        for s in np.exp(np.arange(-25.0, 4.0, step)):
            one_minus_z = -np.expm1(-s / r)  # 1 - z
            share = -np.expm1(-r * np.log1p(alpha * one_minus_z)) / one_minus_z
            total += step * s**2 * np.exp(-s) * share
        return (total * self._log_mean_slopes(eta)[0] ** 2)[..., None, None]

    def information_slope(self, eta: Array, **known: Any) -> Array:
        if self.is_linear:
            return DifferentiableLikelihood.information_slope(self, eta, **known)
        return super().information_slope(eta, **known)

    def value_grad_hessian(self, y: Array, eta: Array, **aux: Any) -> ValueGradHessian:
        # with S1, S2 of `rising_sums`, L = log(1 + mu / r) and q = mu / (r + mu), the slopes over l = log mu and v = -log r are
        # y (1 - q) - r q and y - S1 + r L - (y + r) q; minus the second derivatives are (y + r) q (1 - q) over l,
        # (y + r) q (1 - q) - r q over l and v, and r L - 2 r q + (y + r) q (1 - q) - S1 + S2 over v
        r = self._shape(self.mean(eta), aux)
        log_mu = self.log_mean(eta)
        soft, q = _softplus_and_share(log_mu, r)
        ones = rising_sums(y, r)[1]
        bent = (y + r) * q * (1.0 - q)
        over_v = y - ones + r * soft - (y + r) * q
        gradient = np.stack([y * (1.0 - q) - r * q, over_v], -1)
        second = r * soft - 2.0 * r * q + bent - ones + rising_squares(y, r)
        H = symmetric_pairs(bent, bent - r * q, second)
        if self.is_linear:  # v is log alpha - l
            A = np.array([[1.0, 0.0], [-1.0, 1.0]])
            gradient, H = gradient @ A, A.T @ H @ A
        # from l to eta
        slope, bend = self._log_mean_slopes(eta)
        H[:, 0] *= np.reshape(slope, (-1, 1))
        H[:, :, 0] *= np.reshape(slope, (-1, 1))
        H[:, 0, 0] -= gradient[:, 0] * bend
        gradient[:, 0] *= slope
        return ValueGradHessian(self.log_prob(y, eta, **aux), gradient, H)

    def sample(self, rng: Generator, eta: Array, **aux: Any) -> Array:
        mu = self.mean(eta)
        r, mu = np.broadcast_arrays(self._shape(mu, aux), mu)
        # y | m ~ Poisson(m), m ~ Gamma(r) mu / r: mean mu, variance mu + alpha mu^2.
        return rng.poisson(rng.gamma(r, mu / r)).astype(float)

    def pymc(self, eta: Any, **aux: Any) -> PymcVariable:
        import pymc as pm

        mu = self.link_function.symbolic_inverse(eta[:, 0])
        r = mu if self.is_linear else 1.0
        return pm.NegativeBinomial, {"mu": mu, "alpha": r / aux["alpha"]}


def _softplus_and_share(log_mu: Array, r: Any) -> tuple[Array, Array]:
    """log(1 + mu / r) and mu / (mu + r)."""
    log_r = np.log(r)
    log_odds = log_mu - log_r
    # mu / r if it is at most 1: the logs of a large r would lose its last digits
    odds = np.exp(np.minimum(log_mu, log_r)) / r
    soft = np.where(log_odds > 0.0, np.logaddexp(0.0, log_odds), np.log1p(odds))
    return soft, np.where(log_odds > 0.0, expit(log_odds), odds / (1.0 + odds))
