"""Positive responses with a variance proportional to the cube of the mean: inverse Gaussian regression."""

from dataclasses import dataclass
from math import exp
from typing import Any, Literal

import numpy as np
from numpy import log  # of numbers and arrays
from numpy.random import Generator

from probreg.compiled.density import CompiledDensity, Row
from probreg.likelihoods.base import (
    LIKELIHOODS,
    Array,
    PymcVariable,
)
from probreg.likelihoods.links import INVERSE_SQUARED, LOG
from probreg.likelihoods.positive import PositiveLikelihood
from probreg.special import LOG_2PI, log_ndtr, ndtr


def _evaluate_row(y: float, eta: float, t: Array) -> Row:
    # t = (lambda, log(lambda / (2 pi)) / 2), lambda = 1 / phi; with r = y / mu and D = (r - 1)^2 / y:
    # log p = t[1] - lambda D / 2 - 3/2 log y, d/d eta = lambda (r - 1) r / y, d/d log phi = (lambda D - 1) / 2
    r = exp(log(y) - eta)
    d = (r - 1.0) / y
    half = 0.5 * t[0] * d * (r - 1.0)
    return t[1] - half, t[0] * d * r, half - 0.5


def _terms_of_phi(values: Any, constants: Any) -> tuple[Any, Any]:
    return 1.0 / values[0], -0.5 * (log(values[0]) + LOG_2PI)


@LIKELIHOODS.register
@dataclass(frozen=True)
class InverseGaussian(PositiveLikelihood):
    """Positive responses y with mean mu, exp(eta) by the log link, and variance phi mu^3.

    log p = -log(2 pi phi y^3) / 2 - (y - mu)^2 / (2 phi mu^2 y). It is concave in eta by the link 1 / mu^2 only.

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
    compiled_density = CompiledDensity(_evaluate_row, settings=_terms_of_phi)

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
