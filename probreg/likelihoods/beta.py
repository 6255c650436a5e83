"""Proportions between 0 and 1 that are not counts: beta regression."""

from dataclasses import dataclass
from math import exp, log
from typing import Any, Literal

import numpy as np
from numpy.random import Generator

from probreg.compiled.density import CompiledDensity, Row
from probreg.errors import require_rows
from probreg.likelihoods.base import (
    LIKELIHOODS,
    Array,
    AuxValues,
    MeanByLink,
    PymcVariable,
    SmoothLikelihood,
    Start,
    ValueGradHessian,
    symmetric_pairs,
)
from probreg.likelihoods.links import LOGIT
from probreg.likelihoods.log_gamma import log_gamma_terms, shifted_log_gamma
from probreg.likelihoods.response import finite_response
from probreg.special import betainc, betaln, digamma, polygamma


def _terms_of_phi(values: Any, constants: Any) -> tuple[Any, Any, Any]:
    phi = values[0]
    value, slope = log_gamma_terms(phi)
    return phi, value, slope


def _evaluate_row(y: float, eta: float, t: Array) -> Row:
    # with a = mu phi, b = (1 - mu) phi and log Gamma(a) = value_a + a log z_a - a, log p + log y + log(1 - y) =
    # a log(phi y / z_a) + b log(phi (1 - y) / z_b) - value_a - value_b - t[1]
    e = exp(-abs(eta))
    tail = e / (1.0 + e)
    mu = 1.0 - tail if eta > 0.0 else tail
    mu_of_failure = tail if eta > 0.0 else 1.0 - tail
    a = max(mu * t[0], 1e-300)
    b = max(mu_of_failure * t[0], 1e-300)
    z_a, value_a, slope_a = shifted_log_gamma(a)
    z_b, value_b, slope_b = shifted_log_gamma(b)
    over_a = log(y * (t[0] / z_a))
    over_b = log((1.0 - y) * (t[0] / z_b))
    u = over_a - slope_a - t[2]
    v = over_b - slope_b - t[2]
    return (
        a * over_a + b * over_b - value_a - value_b - t[1],
        t[0] * mu * mu_of_failure * (u - v),
        a * u + b * v,
    )


class BetaShapes(SmoothLikelihood):
    """A probability with a beta distribution of mean mu and precision phi."""

    def shapes(self, eta: Array, aux: AuxValues) -> tuple[Array, Array]:
        """a = mu phi and b = (1 - mu) phi, positive where a mean underflows."""
        e = eta[..., 0]
        phi = aux["phi"]
        a, b = np.exp(self.tails.log_p(e)), np.exp(self.tails.log_q(e))
        return np.maximum(phi * a, 1e-300), np.maximum(phi * b, 1e-300)


def expand_shapes(
    rates: tuple[Array, Array, Array],
    over_a: tuple[Array, Array],
    over_b: tuple[Array, Array],
    over_phi: tuple[Any, Any],
) -> tuple[Array, Array]:
    """Return the gradient and curvature over (eta, log phi) of a sum of functions of log a, log b and log phi.

    Each pair has the first derivative D, and D minus the second derivative. Over eta, log a and log b have the slopes h and -g of
    `rates`, and h and g have the slopes h (r - h) and g (r + g).
    """
    h, g, r = rates
    A, SA = over_a
    B, SB = over_b
    C, SC = over_phi
    H = symmetric_pairs(
        h * (h * SA - r * A) + g * (g * SB + r * B),
        h * (SA - A) - g * (SB - B),
        SA - A + SB - B + SC - C,
    )
    return np.stack([h * A - g * B, A + B + C], -1), H


@LIKELIHOODS.register
@dataclass(frozen=True)
class Beta(MeanByLink, BetaShapes):
    """A proportion y in (0, 1) with mean mu, 1 / (1 + exp(-eta)) by the logit link, precision phi and variance mu (1 - mu) / (1 + phi).

    y ~ Beta(a, b) with a = mu phi and b = (1 - mu) phi: log p = (a - 1) log y + (b - 1) log(1 - y) - log B(a, b).

    Parameters
    ----------
    link : {"logit", "probit", "cloglog"}
        eta = log(mu / (1 - mu)), the normal quantile of mu, or log(-log(1 - mu)).

    References
    ----------
    Ferrari & Cribari-Neto 2004.

    Examples
    --------
    >>> float(Beta().log_prob(np.array(0.5), np.array([0.0]), phi=4.0).round(6))
    0.405465
    """

    link: Literal["logit", "probit", "cloglog"] = LOGIT  # type: ignore[assignment]

    name = "beta"
    nuisance = ("phi",)
    support = "unit"
    may_diverge = False
    compiled_density = CompiledDensity(_evaluate_row, settings=_terms_of_phi)

    def encode(self, values: Array) -> Array:
        y = finite_response(values, "Beta")
        require_rows(
            (y > 0) & (y < 1),
            "a Beta response is between 0 and 1, without the ends; ",
            " holds {:g}: use Binomial with p(k, n) for shares of counts, or move y inwards, (y (n - 1) + 1/2) / n of n rows",
            y,
        )
        return y

    def describe(self, response: str) -> str:
        return f"the mean of {response} on the {self.link} scale, with beta variance mean (1 - mean) / (1 + phi)"

    def initial_eta(self, y: Array) -> Start:
        mean, variance = float(np.mean(y)), float(np.var(y))
        phi = mean * (1.0 - mean) / variance - 1.0 if variance else 1.0
        return self.link_function.forward(y)[:, None], {"phi": max(phi, 0.1)}

    def log_prob(self, y: Array, eta: Array, **aux: Any) -> Array:
        a, b = self.shapes(eta, aux)
        y = np.asarray(y)
        with np.errstate(all="ignore"):  # y outside (0, 1)
            value = (a - 1.0) * np.log(y) + (b - 1.0) * np.log1p(-y) - betaln(a, b)
        return np.where((y > 0) & (y < 1), value, -np.inf)

    def base_measure(self, y: Array) -> Array:
        return -np.log(y) - np.log1p(-y)

    def response_variance(self, eta: Array, **aux: Any) -> Array:
        e = eta[..., 0]
        return self.link_function.inverse(e) * self.tails.q(e) / (1.0 + aux["phi"])

    def information(self, eta: Array, **aux: Any) -> Array:
        return self.joint_information(eta, **aux)[..., :1, :1]

    def joint_information(self, eta: Array, **aux: Any) -> Array:
        zero = np.zeros(eta.shape[:-1])
        # the slopes have mean 0
        return self._expand_log_density(zero, zero, eta, aux)[1]

    def _log_shape_slopes(
        self, y: Array, a: Array, b: Array, phi: Any
    ) -> tuple[Array, Array]:
        """Return the derivatives of log p over log a and log b, which include the change of phi = a + b."""
        u = np.log(y) - digamma(a) + digamma(phi)
        v = np.log1p(-y) - digamma(b) + digamma(phi)
        return a * u, b * v

    def score(self, y: Array, eta: Array, **aux: Any) -> Array:
        a, b = self.shapes(eta, aux)
        A, B = self._log_shape_slopes(y, a, b, aux["phi"])
        h, g, _ = self.tails.rates(eta[..., 0])
        return (h * A - g * B)[..., None]

    def value_grad_hessian(self, y: Array, eta: Array, **aux: Any) -> ValueGradHessian:
        slopes = self._log_shape_slopes(y, *self.shapes(eta, aux), aux["phi"])
        expansion = self._expand_log_density(*slopes, eta, aux)
        return ValueGradHessian(self.log_prob(y, eta, **aux), *expansion)

    def _expand_log_density(
        self, A: Any, B: Any, eta: Array, aux: AuxValues
    ) -> tuple[Array, Array]:
        """Return the gradient and the curvature of log p, with its slopes A and B over log a and log b."""
        a, b = self.shapes(eta, aux)
        phi = aux["phi"]
        return expand_shapes(
            self.tails.rates(eta[..., 0]),
            (A, a**2 * polygamma(1, a)),
            (B, b**2 * polygamma(1, b)),
            (0.0, -(phi**2) * polygamma(1, phi)),
        )

    def saturated_predictor(self, y: Array, **aux: Any) -> Array:
        return self.find_zero_score(y, -40.0, 40.0, **aux)

    def cdf(self, y: Array, eta: Array, **aux: Any) -> Array:
        a, b = self.shapes(eta, aux)
        return betainc(a, b, np.clip(y, 0.0, 1.0))

    def sample(self, rng: Generator, eta: Array, **aux: Any) -> Array:
        y = rng.beta(*self.shapes(eta, aux))
        return np.clip(y, np.finfo(float).tiny, 1.0 - np.finfo(float).epsneg)

    def pymc(self, eta: Any, **aux: Any) -> PymcVariable:
        import pymc as pm

        mu = self.link_function.symbolic_inverse(eta[:, 0])
        return pm.Beta, {"alpha": mu * aux["phi"], "beta": (1.0 - mu) * aux["phi"]}
