"""Positive responses with a standard deviation proportional to the mean: gamma regression."""

from dataclasses import dataclass
from math import exp, log
from typing import Any

import numpy as np

from probreg.compiled.density import CompiledDensity
from probreg.likelihoods.base import LIKELIHOODS, Array
from probreg.likelihoods.negative_binomial import (
    digamma_rest,
    stirling_series,
    trigamma_rest,
)
from probreg.likelihoods.positive import PositiveLikelihood
from probreg.special import LOG_2PI, digamma, gammainc, gammaln, polygamma


def _evaluate_row(y: float, eta: float, t: Array) -> tuple[float, float, float]:
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
    """Positive responses y with mean mu = exp(eta) and variance phi mu^2.

    log p = a log(a y / mu) - a y / mu - log y - log Gamma(a), with the shape a = 1 / phi.

    References
    ----------
    McCullagh & Nelder 1989, chapter 8.

    Examples
    --------
    >>> float(Gamma().log_prob(np.array(1.0), np.array([0.0]), phi=1.0).round(6))
    -1.0
    """

    name = "gamma"
    concave, may_diverge = True, False
    compiled_density = CompiledDensity(_evaluate_row, hessian=_row_hessian)

    def describe(self, response: str) -> str:
        return (
            f"the mean of {response} on the log scale, with gamma variance phi mean^2"
        )

    def log_prob(self, y: Array, eta: Array, **aux: Any) -> Array:
        a, constant, _ = self.settings(**aux)
        with np.errstate(all="ignore"):  # y <= 0, and exp of more than 709
            s = np.log(y) - np.log(self.mean(eta))
            value = a * (s - np.expm1(s)) + constant - np.log(y)
        inside = (np.asarray(y) > 0) & (s < np.inf)  # a mean that underflows to 0
        return np.where(inside, value, -np.inf)

    def settings(self, **aux: Any) -> tuple[Any, ...]:
        a = 1.0 / np.asarray(aux["phi"], dtype=float)
        large = np.maximum(a, 10.0)
        # the terms of log Gamma and digamma for large a, without the differences of large numbers (DLMF 5.11.1 and 5.11.2)
        constant = 0.5 * (np.log(large) - LOG_2PI) - stirling_series(large)
        slope = 0.5 / large + digamma_rest(large)
        return (
            a,
            np.where(a < 10.0, a * np.log(a) - a - gammaln(a), constant),
            np.where(a < 10.0, np.log(a) - digamma(a), slope),
        )

    def base_measure(self, y: Array) -> Array:
        return -np.log(y)

    def variance(self, mu: Array, **aux: Any) -> Array:
        return aux["phi"] * mu**2

    def variance_slope(self, mu: Array, **aux: Any) -> Array:
        return 2.0 * aux["phi"] * mu

    def slopes_over_log_phi(self, y: Array, mu: Array, phi: Any) -> tuple[Array, Array]:
        # with d = r - 1 - log r: d/du = a (d - log a + psi(a)), -d2/du2 = d/du + a^2 psi'(a) - a
        a, _, slope_of_constant = self.settings(phi=phi)
        s = np.log(y / mu)
        slope = a * (np.expm1(s) - s - slope_of_constant)
        large = np.maximum(a, 10.0)
        rest = np.where(
            a < 10.0,
            a**2 * polygamma(1, a) - a,
            0.5 + large**2 * trigamma_rest(large),
        )
        return slope, slope + rest

    def cdf(self, y: Array, eta: Array, **aux: Any) -> Array:
        a = 1.0 / np.asarray(aux["phi"])
        return gammainc(a, a * np.maximum(y, 0.0) / self.mean(eta))

    def sample(self, rng: np.random.Generator, eta: Array, **aux: Any) -> Array:
        a, mu = np.broadcast_arrays(1.0 / np.asarray(aux["phi"]), self.mean(eta))
        return rng.gamma(a, mu / a)

    def pymc(self, eta: Any, **aux: Any) -> tuple[Any, dict[str, Any]]:
        import pymc as pm

        a = 1.0 / aux["phi"]
        return pm.Gamma, {"alpha": a, "beta": a * pm.math.exp(-eta[:, 0])}
