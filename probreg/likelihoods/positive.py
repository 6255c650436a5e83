"""Positive responses with a mean and a dispersion phi: gamma and inverse Gaussian regression."""

from dataclasses import dataclass
from math import exp
from typing import Any, ClassVar, Literal

import numpy as np
from numpy import log  # of numbers and arrays
from numpy.random import Generator

from probreg.compiled.density import CompiledDensity, Row
from probreg.likelihoods.base import (
    LIKELIHOODS,
    Array,
    ExponentialFamily,
    PymcVariable,
    Start,
)
from probreg.likelihoods.links import INVERSE, INVERSE_SQUARED, LOG
from probreg.likelihoods.log_gamma import log_gamma_terms, trigamma_rest
from probreg.likelihoods.response import positive_response
from probreg.special import LOG_2PI, gammainc, log_ndtr, ndtr, polygamma


class PositiveLikelihood(ExponentialFamily):
    """y > 0 with mean mu and variance phi V(mu): encoding, a start, and the deviance in units of phi.

    A family defines its density, distribution function and draws, and the power of the mean in its variance.
    """

    nuisance = ("phi",)
    support = "positive"
    mean_range = 0.0, np.inf
    dispersion_power = 1
    # k of V(mu) = mu^k
    power: ClassVar[int]

    def encode(self, values: Array) -> Array:
        remedy = "model zeros with a separate Bernoulli model, or use Gaussian for numbers of both signs"
        return positive_response(values, type(self).__name__, remedy)

    def initial_eta(self, y: Array) -> Start:
        # phi = Var(y) / V(mu), with the variance of log y, V = mu^2, for the squared coefficient of variation
        mean = np.mean(y)
        phi = np.var(np.log(y)) * mean**2 / self.variance(mean, phi=1.0)
        return self.link.forward(y)[:, None], {"phi": float(phi) or 1.0}

    def variance(self, mu: Array, **aux: Any) -> Array:
        return aux["phi"] * mu**self.power

    def variance_slope(self, mu: Array, **aux: Any) -> Array:
        return self.power * aux["phi"] * mu ** (self.power - 1)


def _gamma_terms(values: Any, constants: Any) -> tuple[Any, Any, Any]:
    a = 1.0 / values[0]
    value, slope = log_gamma_terms(a)
    return a, value, slope


def _evaluate_gamma_row(y: float, eta: float, t: Array) -> Row:
    # t = (a, a log a - a - log Gamma(a), log a - digamma(a)), a = 1 / phi; with r = y / mu and d = r - 1 - log r:
    # log p = t[1] - a d - log y, d/d eta = a (r - 1), d/d log phi = a (d - t[2])
    a = t[0]
    s = log(y) - eta
    r = exp(s)
    loss = r - 1.0 - s
    return t[1] - a * loss, a * (r - 1.0), a * (loss - t[2])


@LIKELIHOODS.register
@dataclass(frozen=True)
class Gamma(PositiveLikelihood):
    """Positive responses y with mean mu, exp(eta) by the log link, and variance phi mu^2.

    log p = a log(a y / mu) - a y / mu - log y - log Gamma(a), with the shape a = 1 / phi.

    Parameters
    ----------
    link : {"log", "inverse", "identity"}
        eta = log(mu), 1 / mu or mu; eta > 0 for the last two.

    References
    ----------
    McCullagh & Nelder 1989, chapter 8.

    Examples
    --------
    >>> float(Gamma().log_prob(np.array(1.0), np.array([0.0]), phi=1.0).round(6))
    -1.0
    """

    link: Literal["log", "inverse", "identity"] = LOG  # type: ignore[assignment]

    name = "gamma"
    power = 2
    wider = (
        "fit an InverseGaussian likelihood, whose variance grows faster with the mean"
    )
    may_diverge = False
    compiled_density = CompiledDensity(_evaluate_gamma_row, settings=_gamma_terms)

    @property
    def concave(self) -> bool:  # type: ignore[override]
        return self.link in (LOG, INVERSE)

    def describe(self, response: str) -> str:
        return f"the mean of {response} on the {self.link} scale, with gamma variance phi mean^2"

    def log_prob(self, y: Array, eta: Array, **aux: Any) -> Array:
        phi = np.asarray(aux["phi"], dtype=float)
        with np.errstate(all="ignore"):  # y <= 0, exp of more than 709, and phi = 0
            a, constant, _ = _gamma_terms([phi], ())
            s = np.log(y) - np.log(self.mean(eta))
            value = a * (s - np.expm1(s)) + constant - np.log(y)
        inside = (np.asarray(y) > 0) & (s < np.inf)  # a mean that underflows to 0
        return np.where(inside, value, -np.inf)

    def base_measure(self, y: Array) -> Array:
        return -np.log(y)

    def slopes_over_log_scale(
        self, y: Array, mu: Array, scale: Any
    ) -> tuple[Array, Array]:
        # with d = r - 1 - log r: d/du = a (d - log a + psi(a)), -d2/du2 = d/du + a^2 psi'(a) - a
        a, _, slope_of_constant = _gamma_terms([scale], ())
        s = np.log(y / mu)
        slope = a * (np.expm1(s) - s - slope_of_constant)
        large = np.maximum(a, 10.0)
        trigamma_term = np.where(
            a < 10.0,
            a**2 * polygamma(1, a) - a,
            0.5 + large**2 * trigamma_rest(large),
        )
        return slope, slope + trigamma_term

    def cdf(self, y: Array, eta: Array, **aux: Any) -> Array:
        a = 1.0 / np.asarray(aux["phi"])
        return gammainc(a, a * np.maximum(y, 0.0) / self.mean(eta))

    def sample(self, rng: Generator, eta: Array, **aux: Any) -> Array:
        a, mu = np.broadcast_arrays(1.0 / np.asarray(aux["phi"]), self.mean(eta))
        return rng.gamma(a, mu / a)

    def pymc(self, eta: Any, **aux: Any) -> PymcVariable:
        import pymc as pm

        a = 1.0 / aux["phi"]
        return pm.Gamma, {
            "alpha": a,
            "beta": a / self.link_function.symbolic_inverse(eta[:, 0]),
        }


def _evaluate_inverse_gaussian_row(y: float, eta: float, t: Array) -> Row:
    # t = (lambda, log(lambda / (2 pi)) / 2), lambda = 1 / phi; with r = y / mu and D = (r - 1)^2 / y:
    # log p = t[1] - lambda D / 2 - 3/2 log y, d/d eta = lambda (r - 1) r / y, d/d log phi = (lambda D - 1) / 2
    r = exp(log(y) - eta)
    d = (r - 1.0) / y
    half = 0.5 * t[0] * d * (r - 1.0)
    return t[1] - half, t[0] * d * r, half - 0.5


def _inverse_gaussian_terms(values: Any, constants: Any) -> tuple[Any, Any]:
    return 1.0 / values[0], -0.5 * (log(values[0]) + LOG_2PI)


@LIKELIHOODS.register
@dataclass(frozen=True)
class InverseGaussian(PositiveLikelihood):
    """Positive responses y with mean mu, exp(eta) by the log link, and variance phi mu^3.

    log p = -log(2 pi phi y^3) / 2 - (y - mu)^2 / (2 phi mu^2 y). It is concave in eta only with the link 1 / mu^2.

    Parameters
    ----------
    link : {"log", "inverse_squared", "inverse", "identity"}
        eta = log(mu), 1 / mu^2, 1 / mu or mu; eta > 0 for the last three.

    References
    ----------
    McCullagh & Nelder 1989, section 2.2.

    Examples
    --------
    >>> float(InverseGaussian().log_prob(np.array(1.0), np.array([0.0]), phi=1.0).round(6))
    -0.918939
    """

    link: Literal["log", "inverse_squared", "inverse", "identity"] = LOG  # type: ignore[assignment]

    name = "inverse_gaussian"
    power = 3
    compiled_density = CompiledDensity(
        _evaluate_inverse_gaussian_row, settings=_inverse_gaussian_terms
    )

    @property
    def concave(self) -> bool:  # type: ignore[override]
        return self.link is INVERSE_SQUARED

    def describe(self, response: str) -> str:
        return f"the mean of {response} on the {self.link} scale, with inverse Gaussian variance phi mean^3"

    def log_prob(self, y: Array, eta: Array, **aux: Any) -> Array:
        phi = aux["phi"]
        with np.errstate(all="ignore"):  # y <= 0, and means beyond double precision
            square = (y / self.mean(eta) - 1.0) ** 2 / y
            value = -0.5 * (square / phi + np.log(phi) + LOG_2PI) - 1.5 * np.log(y)
        value = np.where(np.asarray(y) > 0, value, -np.inf)
        return self.within_domain(eta, value)

    def base_measure(self, y: Array) -> Array:
        return -1.5 * np.log(y)

    def slopes_over_log_scale(
        self, y: Array, mu: Array, scale: Any
    ) -> tuple[Array, Array]:
        half = 0.5 * (y / mu - 1.0) ** 2 / (y * scale)
        return half - 0.5, half

    def cdf(self, y: Array, eta: Array, **aux: Any) -> Array:
        # F = Phi(s (r - 1)) + exp(2 / (phi mu)) Phi(-s (r + 1)), r = y / mu, s = 1 / sqrt(phi y)
        phi, mu = aux["phi"], self.mean(eta)
        with np.errstate(all="ignore"):
            s = 1.0 / np.sqrt(phi * y)
            r = y / mu
            second = np.exp(2.0 / (phi * mu) + log_ndtr(-s * (r + 1.0)))
            value = np.minimum(ndtr(s * (r - 1.0)) + second, 1.0)
        return np.where(np.asarray(y) > 0, value, 0.0)

    def sample(self, rng: Generator, eta: Array, **aux: Any) -> Array:
        phi, mu = np.broadcast_arrays(aux["phi"], self.mean(eta))
        return rng.wald(mu, 1.0 / phi)

    def pymc(self, eta: Any, **aux: Any) -> PymcVariable:
        import pymc as pm

        return pm.Wald, {
            "mu": self.link_function.symbolic_inverse(eta[:, 0]),
            "lam": 1.0 / aux["phi"],
        }
