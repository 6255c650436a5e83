"""Times to an event: Weibull, exponential and log-logistic regression, as accelerated failure times."""

from dataclasses import dataclass
from math import exp, log, log1p
from typing import Any

import numpy as np
from numpy.random import Generator

from probreg.likelihoods.base import (
    LIKELIHOODS,
    Array,
    PymcVariable,
    Shape,
)
from probreg.likelihoods.links import CLOGLOG, LOGIT
from probreg.likelihoods.location_scale import (
    LogLocationScaleLikelihood,
    density_of_noise,
)
from probreg.special import digamma, gammaln


def _extreme_value(r: float, t: Array) -> tuple[float, float]:
    # log f(r) = r - e^r, g = e^r - 1
    e = exp(r)
    return r - e, e - 1.0


def _logistic(r: float, t: Array) -> tuple[float, float]:
    # log f(r) = -|r| - 2 log(1 + e^-|r|), g = tanh(r / 2)
    e = exp(-abs(r))
    g = (1.0 - e) / (1.0 + e)
    return -abs(r) - 2.0 * log1p(e), g if r > 0.0 else -g


class _ExtremeValue(LogLocationScaleLikelihood):
    """log y = eta + s e with P(e > r) = exp(-e^r): proportional hazards and accelerated failure times in one model."""

    concave = True  # in eta
    standard_information = 1.0
    link_of_noise = CLOGLOG

    def log_moment(self, s: Any) -> tuple[Any, Any]:
        # E exp(s e) = Gamma(1 + s)
        return gammaln(1.0 + s), s * digamma(1.0 + s)

    def standard_log_prob(self, r: Array) -> Array:
        with np.errstate(over="ignore"):
            return r - np.exp(r)

    def standard_slopes(self, r: Array) -> tuple[Array, Array]:
        with np.errstate(over="ignore"):
            return np.expm1(r), np.exp(r)

    def standard_sample(self, rng: Generator, shape: Shape) -> Array:
        return np.log(rng.standard_exponential(shape))

    def pymc(self, eta: Any, **aux: Any) -> PymcVariable:
        import pymc as pm

        return pm.Weibull, {
            "alpha": 1.0 / self.scale(aux),
            "beta": pm.math.exp(eta[:, 0]),
        }


@LIKELIHOODS.register
@dataclass(frozen=True)
class Weibull(_ExtremeValue):
    """Positive times with log y = eta + scale e, where e has the extreme value distribution: P(Y > y) = exp(-(y / exp(eta))^(1 / scale)).

    The shape is 1 / scale; the hazard increases if scale < 1. exp(coefficient) multiplies every quantile of the time, and
    exp(-coefficient / scale) the hazard. The mean is exp(eta) Gamma(1 + scale). For censored times write
    `cens(time, event) ~ ...`.

    References
    ----------
    Kalbfleisch & Prentice 2002, section 2.2.2.

    Examples
    --------
    >>> float(Weibull().log_prob(np.array(2.0), np.array([0.0]), scale=1.0))
    -2.0
    """

    name = "weibull"
    nuisance = ("scale",)
    compiled_density = density_of_noise(_extreme_value, transform=log)

    def describe(self, response: str) -> str:
        return f"the 63 % quantile of {response} on the log scale, Weibull with shape 1 / scale"


@LIKELIHOODS.register
@dataclass(frozen=True)
class Exponential(_ExtremeValue):
    """Positive times with a constant hazard exp(-eta) and mean exp(eta): the Weibull with scale 1.

    Examples
    --------
    >>> float(Exponential().log_prob(np.array(2.0), np.array([0.0])))
    -2.0
    """

    name = "exponential"
    wider = "fit a Weibull likelihood, whose hazard may change with time"
    constants = 1.0, 0.0
    compiled_density = density_of_noise(_extreme_value, None, log)

    def describe(self, response: str) -> str:
        return f"the mean of {response} on the log scale, exponential"


@LIKELIHOODS.register
@dataclass(frozen=True)
class LogLogistic(LogLocationScaleLikelihood):
    """Positive times with log y = eta + scale e, e logistic: P(Y > y) = 1 / (1 + (y / exp(eta))^(1 / scale)).

    exp(eta) is the median. Predictions are medians, because the mean is infinite for scale >= 1. The hazard
    increases and then decreases if scale < 1.

    References
    ----------
    Kalbfleisch & Prentice 2002, section 2.2.6.

    Examples
    --------
    >>> float(LogLogistic().log_prob(np.array(1.0), np.array([0.0]), scale=1.0).round(6))
    -1.386294
    """

    name = "log_logistic"
    nuisance = ("scale",)
    is_orthogonal = True
    centre = "median"
    concave = True  # in eta
    standard_information = 1.0 / 3.0
    link_of_noise = LOGIT
    compiled_density = density_of_noise(_logistic, transform=log)

    def describe(self, response: str) -> str:
        return f"the median of {response} on the log scale, log-logistic with shape 1 / scale"

    def response_variance(self, eta: Array, **aux: Any) -> Array:
        # E y^k = exp(k eta) pi k s / sin(pi k s), infinite for k s >= 1
        s = np.minimum(self.scale(aux), 0.5)
        with np.errstate(divide="ignore"):
            spread = np.where(
                s < 0.5, 1.0 / np.sinc(2.0 * s) - 1.0 / np.sinc(s) ** 2, np.inf
            )
        return np.square(self.mean(eta, **aux)) * spread

    def standard_log_prob(self, r: Array) -> Array:
        return -np.abs(r) - 2.0 * np.log1p(np.exp(-np.abs(r)))

    def standard_slopes(self, r: Array) -> tuple[Array, Array]:
        g = np.tanh(0.5 * r)
        return g, 0.5 * (1.0 - g * g)

    def standard_sample(self, rng: Generator, shape: Shape) -> Array:
        return rng.logistic(size=shape)

    def symbolic_log_prob(self, y: Any, mu: Any, scale: Any) -> Any:
        import pytensor.tensor as pt

        # f = F (1 - F)
        below, beyond = self.symbolic_tails(y, mu, scale=scale)
        return below + beyond - pt.log(scale) - pt.log(y)

    def pymc(self, eta: Any, **aux: Any) -> PymcVariable:
        return self.custom_density(eta, aux)
