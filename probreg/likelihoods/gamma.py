"""Positive responses with a standard deviation proportional to the mean: gamma regression."""

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
from probreg.likelihoods.links import INVERSE, LOG
from probreg.likelihoods.log_gamma import log_gamma_terms, trigamma_rest
from probreg.likelihoods.positive import PositiveLikelihood
from probreg.special import gammainc, polygamma


def _terms_of_phi(values: Any, constants: Any) -> tuple[Any, Any, Any]:
    a = 1.0 / values[0]
    value, slope = log_gamma_terms(a)
    return a, value, slope


def _evaluate_row(y: float, eta: float, t: Array) -> Row:
    # t = (a, a log a - a - log Gamma(a), log a - digamma(a)), a = 1 / phi; with r = y / mu and d = r - 1 - log r:
    # log p = t[1] - a d - log y, d/d eta = a (r - 1), d/d log phi = a (d - t[2])
    a = t[0]
    s = log(y) - eta
    r = exp(s)
    loss = r - 1.0 - s
    return t[1] - a * loss, a * (r - 1.0), a * (loss - t[2])


def _row_hessian(y: float, eta: float, t: Array) -> float:
    return t[0] * exp(log(y) - eta)


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
    compiled_density = CompiledDensity(
        _evaluate_row, hessian=_row_hessian, settings=_terms_of_phi
    )

    @property
    def concave(self) -> bool:  # type: ignore[override]
        return self.link in (LOG, INVERSE)

    def describe(self, response: str) -> str:
        return f"the mean of {response} on the {self.link} scale, with gamma variance phi mean^2"

    def log_prob(self, y: Array, eta: Array, **aux: Any) -> Array:
        phi = np.asarray(aux["phi"], dtype=float)
        with np.errstate(all="ignore"):  # y <= 0, exp of more than 709, and phi = 0
            a, constant, _ = _terms_of_phi([phi], ())
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
        a, _, slope_of_constant = _terms_of_phi([scale], ())
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
