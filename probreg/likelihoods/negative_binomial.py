"""Counts that vary more than their mean: the negative binomial with a quadratic variance (NB2)."""

from dataclasses import dataclass
from math import exp
from typing import Any

import numpy as np
from numpy import log1p  # of numbers and arrays

from probreg.compiled.density import CompiledDensity
from probreg.likelihoods.base import LIKELIHOODS, Array
from probreg.likelihoods.counts import CountLikelihood
from probreg.special import betainc, expit, gammaln, pdtr

# log Gamma(x) = (x - 1/2) log x - x + log(2 pi) / 2 + 1/(12 x) - 1/(360 x^3) + ..., DLMF 5.11.1, and its derivatives 5.11.2:
# at x >= 10 the term after these is below 1e-15.
_SHIFT = 10


def stirling_series(x: Any) -> Any:
    """1/(12 x) - 1/(360 x^3) + 1/(1260 x^5) - 1/(1680 x^7) + 1/(1188 x^9) - 691/(360360 x^11)."""
    s = 1.0 / (x * x)
    return (
        1 / 12
        - s
        * (
            1 / 360
            - s * (1 / 1260 - s * (1 / 1680 - s * (1 / 1188 - s * (691 / 360360))))
        )
    ) / x


def digamma_rest(x: Any) -> Any:
    """1/(12 x^2) - 1/(120 x^4) + 1/(252 x^6) - 1/(240 x^8) + 1/(132 x^10) - 691/(32760 x^12)."""
    s = 1.0 / (x * x)
    return s * (
        1 / 12
        - s
        * (1 / 120 - s * (1 / 252 - s * (1 / 240 - s * (1 / 132 - s * (691 / 32760)))))
    )


def trigamma_rest(x: Any) -> Any:
    """1/(6 x^3) - 1/(30 x^5) + 1/(42 x^7) - 1/(30 x^9) + 5/(66 x^11) - 691/(2730 x^13)."""
    s = 1.0 / (x * x)
    return (
        s
        * (
            1 / 6
            - s
            * (1 / 30 - s * (1 / 42 - s * (1 / 30 - s * (5 / 66 - s * (691 / 2730)))))
        )
        / x
    )


def rising_sums(y: Any, r: Any) -> tuple[Any, Any]:
    """The sums over j = 0, ..., y - 1 of log(1 + j/r) and r/(r + j), at any size of y and r.

    They are log Gamma(y + r) - log Gamma(r) - y log r and r (psi(y + r) - psi(r)), without the differences of large numbers:
    f(0) + ... + f(y - 1) = sum_k<10 (f(k) - f(y + k)) + (f(10) + ... + f(y + 9)).
    """
    x = r + _SHIFT
    z = x + y
    long = log1p(y / x)
    logs = (
        (x - 0.5) * long
        + y * log1p((y + _SHIFT) / r)
        - y
        + stirling_series(z)
        - stirling_series(x)
    )
    ones = r * (long + y / (2.0 * x * z) + digamma_rest(x) - digamma_rest(z))
    for k in range(_SHIFT):
        logs = logs + log1p(k / r) - log1p((y + k) / r)
        ones = ones + r / (r + k) - r / (r + (y + k))
    return logs, ones


def _rising_squares(y: Array, r: Any) -> Array:
    """The sum over j = 0, ..., y - 1 of (r/(r + j))^2, r^2 (psi'(r) - psi'(y + r)), in the same way."""
    x = r + _SHIFT
    z = x + y
    squares = r * (r / x) * (y / z) * (1.0 + 0.5 / x + 0.5 / z) + (r * r) * (
        trigamma_rest(x) - trigamma_rest(z)
    )
    for k in range(_SHIFT):
        squares = squares + (r / (r + k)) ** 2 - (r / (r + (y + k))) ** 2
    return squares


def _evaluate_row(y: float, eta: float, t: Array) -> tuple[float, float, float]:
    """t = (r, log alpha): S0 + y eta - (y + r) log(1 + alpha mu), and slopes; `rising_sums` gives S0."""
    r = t[0]
    s = eta + t[1]
    e = exp(-abs(s))
    q = (1.0 if s > 0.0 else e) / (1.0 + e)  # alpha mu / (1 + alpha mu)
    soft = max(s, 0.0) + log1p(e)  # log(1 + alpha mu)
    sums, ones = rising_sums(y, r)
    return (
        sums + y * eta - (y + r) * soft,
        y * (1.0 - q) - r * q,
        y - ones + r * soft - (y + r) * q,
    )


def _row_hessian(y: float, eta: float, t: Array) -> float:
    e = exp(-abs(eta + t[1]))
    # -d^2 log p / d eta^2 = (y + r) q (1 - q).
    return (y + t[0]) * e / ((1.0 + e) * (1.0 + e))


@LIKELIHOODS.register
@dataclass(frozen=True)
class NegativeBinomial(CountLikelihood):
    """Counts y in {0, 1, 2, ...} with mean mu = exp(eta) and variance mu + alpha mu^2, alpha > 0.

    It is a Poisson with a mean that varies from row to row, with squared coefficient of variation alpha (NB2).

    log p = log Gamma(y + r) - log Gamma(r) - log y! + y log(alpha mu) - (y + r) log(1 + alpha mu), r = 1 / alpha. At alpha = 0 it is
    the Poisson. If the counts are not overdispersed, the maximum is at alpha = 0, and the fit reports that.

    References
    ----------
    Cameron & Trivedi 2013, section 3.3.

    Examples
    --------
    >>> float(NegativeBinomial().log_prob(np.array(2.0), np.array([0.0]), alpha=1.0).round(6))
    -2.079442
    """

    name = "negative_binomial"
    nuisance = ("alpha",)
    at_zero = {"alpha": "the Poisson model"}  # noqa: RUF012  a constant of the class
    concave = True  # in eta
    compiled_density = CompiledDensity(_evaluate_row, hessian=_row_hessian)

    def describe(self, response: str) -> str:
        return f"the mean count of {response} on the log scale, with variance mean + alpha mean^2"

    def log_prob(self, y: Array, eta: Array, **aux: Any) -> Array:
        r = _inverse_dispersion(aux)
        return (
            rising_sums(y, r)[0]
            + y * eta[..., 0]
            - (y + r) * _soft(eta, r)
            - gammaln(y + 1.0)
        )

    def base_measure(self, y: Array) -> Array:
        return -gammaln(np.asarray(y) + 1.0)

    def settings(self, **aux: Any) -> tuple[Any, ...]:
        return _inverse_dispersion(aux), -np.log(_inverse_dispersion(aux))

    def up_to(self, k: Array, mu: Array, **aux: Any) -> Array:
        # P(Y <= k) = I_p(r, k + 1), p = 1 / (1 + alpha mu), DLMF 8.17; with r beyond 1e10 the Poisson limit
        r = _inverse_dispersion(aux)
        return np.where(
            r > 1e10,
            pdtr(k, mu),
            betainc(np.minimum(r, 1e10), k + 1.0, 1.0 / (1.0 + mu / r)),
        )

    def variance(self, mu: Array, **aux: Any) -> Array:
        return mu * (1.0 + aux["alpha"] * mu)

    def variance_slope(self, mu: Array, **aux: Any) -> Array:
        return 1.0 + 2.0 * aux["alpha"] * mu

    def excess_kurtosis(self, mu: Array, **aux: Any) -> Array:
        # kappa_4 / V^2 = 6 / r + 1 / V.
        return 6.0 * aux["alpha"] + 1.0 / self.variance(mu, **aux)

    def aux_expansion(
        self, y: Array, eta: Array, **aux: Any
    ) -> tuple[Array, Array, Array]:
        # with S1, S2 of `rising_sums`, L = log(1 + alpha mu) and q = alpha mu / (1 + alpha mu), over u = log alpha:
        # d/du = y - S1 + r L - (y + r) q,  -d2/du d eta = (y + r) q (1 - q) - r q,
        # -d2/du2 = r L - 2 r q + (y + r) q (1 - q) - S1 + S2
        r = _inverse_dispersion(aux)
        soft = _soft(eta, r)
        q = expit(eta[..., 0] - np.log(r))
        ones = rising_sums(y, r)[1]
        bent = (y + r) * q * (1.0 - q)
        slope = y - ones + r * soft - (y + r) * q
        return (
            slope[:, None],
            (bent - r * q)[:, None],
            (r * soft - 2.0 * r * q + bent - ones + _rising_squares(y, r))[
                :, None, None
            ],
        )

    def sample(self, rng: np.random.Generator, eta: Array, **aux: Any) -> Array:
        r, mu = np.broadcast_arrays(_inverse_dispersion(aux), self.mean(eta))
        # y | m ~ Poisson(m), m ~ Gamma(r) mu / r: mean mu, variance mu + alpha mu^2.
        return rng.poisson(rng.gamma(r, mu / r)).astype(float)

    def pymc(self, eta: Any, **aux: Any) -> tuple[Any, dict[str, Any]]:
        import pymc as pm

        return pm.NegativeBinomial, {
            "mu": pm.math.exp(eta[:, 0]),
            "alpha": 1.0 / aux["alpha"],
        }


def _inverse_dispersion(aux: Any) -> Any:
    """r = 1 / alpha, at most 1e150: the Poisson to all digits."""
    return 1.0 / np.maximum(aux["alpha"], 1e-150)


def _soft(eta: Array, r: Any) -> Array:
    """log(1 + alpha mu)."""
    return np.logaddexp(0.0, eta[..., 0] - np.log(r))
