"""Proportions between 0 and 1 that are no counts: beta regression."""

from collections.abc import Mapping
from dataclasses import dataclass
from math import exp, log, log1p
from typing import Any, Literal

import numpy as np

from probreg.compiled.density import CompiledDensity
from probreg.errors import row_error
from probreg.likelihoods.base import (
    LIKELIHOODS,
    Array,
    SmoothLikelihood,
    UnivariateLikelihood,
    ValueGradHessian,
    find_zero_score,
)
from probreg.likelihoods.gamma import log_gamma_terms
from probreg.likelihoods.links import LOGIT
from probreg.likelihoods.response import check_variation, finite_response
from probreg.likelihoods.tails import TAILS
from probreg.special import betainc, betaln, digamma, polygamma


def _settings(values: Any, constants: Any) -> tuple[Any, Any, Any]:
    phi = values[0]
    value, slope = log_gamma_terms(phi)
    return phi, value, slope


def _evaluate_row(y: float, eta: float, t: Array) -> tuple[float, float, float]:
    # with G and D of `log_gamma_terms`, a = mu phi and b = (1 - mu) phi, log p + log y + log(1 - y) =
    # a log(y / mu) + b log((1 - y) / (1 - mu)) + G(a) + G(b) - G(phi)
    e = exp(-abs(eta))
    soft = log1p(e)
    far = e / (1.0 + e)
    mu = 1.0 - far if eta > 0.0 else far
    rest = far if eta > 0.0 else 1.0 - far
    a = max(mu * t[0], 1e-300)
    b = max(rest * t[0], 1e-300)
    value_a, slope_a = log_gamma_terms(a)
    value_b, slope_b = log_gamma_terms(b)
    left = log(y) - min(eta, 0.0) + soft
    right = log1p(-y) + max(eta, 0.0) + soft
    u = left + slope_a - t[2]
    v = right + slope_b - t[2]
    return (
        a * left + b * right + value_a + value_b - t[1],
        t[0] * mu * rest * (u - v),
        a * u + b * v,
    )


@LIKELIHOODS.register
@dataclass(frozen=True)
class Beta(UnivariateLikelihood, SmoothLikelihood):
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
    compiled_density = CompiledDensity(_evaluate_row, settings=_settings)

    def __post_init__(self) -> None:
        super().__post_init__()
        if self.link != LOGIT:
            object.__setattr__(self, "compiled_density", None)

    def encode(self, values: Array) -> Array:
        y = finite_response(values, "Beta")
        bad = np.flatnonzero((y <= 0) | (y >= 1))
        if len(bad):
            raise row_error(
                "a Beta response is between 0 and 1, without the ends; ",
                bad[0],
                f" holds {y[bad[0]]:g}: use Binomial with p(k, n) for shares of counts, or move y inwards, (y (n - 1) + 1/2) / n of n rows",
            )
        return y

    def check_response(self, values: Array) -> None:
        check_variation(self.encode(values))

    def describe(self, response: str) -> str:
        return f"the mean of {response} on the {self.link} scale, with beta variance mean (1 - mean) / (1 + phi)"

    def initial_eta(self, y: Array) -> tuple[Array, dict[str, float]]:
        mean, variance = float(np.mean(y)), float(np.var(y))
        phi = mean * (1.0 - mean) / variance - 1.0 if variance else 1.0
        return self.link_function.forward(y)[:, None], {"phi": max(phi, 0.1)}

    def _shapes(self, eta: Array, aux: Mapping[str, Any]) -> tuple[Array, Array]:
        """a = mu phi and b = (1 - mu) phi, positive where a mean underflows."""
        tiny = np.finfo(float).tiny
        e, phi = eta[..., 0], aux["phi"]
        a, b = self.link_function.inverse(e) * phi, TAILS[self.link].q(e) * phi
        return np.maximum(a, tiny), np.maximum(b, tiny)

    def log_prob(self, y: Array, eta: Array, **aux: Any) -> Array:
        a, b = self._shapes(eta, aux)
        y = np.asarray(y)
        with np.errstate(all="ignore"):  # y outside (0, 1)
            value = (a - 1.0) * np.log(y) + (b - 1.0) * np.log1p(-y) - betaln(a, b)
        return np.where((y > 0) & (y < 1), value, -np.inf)

    def base_measure(self, y: Array) -> Array:
        return -np.log(y) - np.log1p(-y)

    def mean(self, eta: Array, **aux: Any) -> Array:
        return self.link_function.inverse(eta[..., 0])

    def response_variance(self, eta: Array, **aux: Any) -> Array:
        mu, q = self.link_function.inverse(eta[..., 0]), TAILS[self.link].q(eta[..., 0])
        return mu * q / (1.0 + aux["phi"])

    def score(self, y: Array, eta: Array, **aux: Any) -> Array:
        # d/d mu = phi (logit y - psi(a) + psi(b))
        a, b = self._shapes(eta, aux)
        slope = np.log(y) - np.log1p(-y) - digamma(a) + digamma(b)
        return (aux["phi"] * self.link_function.slope(eta[..., 0]) * slope)[..., None]

    def information(self, eta: Array, **aux: Any) -> Array:
        # phi^2 mu'^2 (psi'(a) + psi'(b))
        a, b = self._shapes(eta, aux)
        slope = aux["phi"] * self.link_function.slope(eta[..., 0])
        return (slope**2 * (polygamma(1, a) + polygamma(1, b)))[..., None, None]

    def value_grad_hessian(self, y: Array, eta: Array, **aux: Any) -> ValueGradHessian:
        a, b = self._shapes(eta, aux)
        e, phi = eta[..., 0], aux["phi"]
        slope = self.link_function.slope(e)
        one, other = polygamma(1, a), polygamma(1, b)
        # over log a and log b: u = log y - psi(a) + psi(phi), v likewise, with a + b = phi
        u = np.log(y) - digamma(a) + digamma(phi)
        v = np.log1p(-y) - digamma(b) + digamma(phi)
        over_eta = phi * slope * (u - v)
        over_phi = a * u + b * v
        h = (phi * slope) ** 2 * (one + other) - phi * self.link_function.hessian(e) * (
            u - v
        )
        cross = phi * slope * (a * one - b * other) - over_eta
        curvature = a**2 * one + b**2 * other - phi**2 * polygamma(1, phi) - over_phi
        rows = [np.stack([h, cross], -1), np.stack([cross, curvature], -1)]
        return ValueGradHessian(
            self.log_prob(y, eta, **aux),
            np.stack([over_eta, over_phi], -1),
            np.stack(rows, -2),
        )

    def saturated_predictor(self, y: Array, **aux: Any) -> Array:
        far = np.full((len(y), 1), 40.0)
        return find_zero_score(lambda eta: self.score(y, eta, **aux), -far, far)

    def cdf(self, y: Array, eta: Array, **aux: Any) -> Array:
        a, b = self._shapes(eta, aux)
        return betainc(a, b, np.clip(y, 0.0, 1.0))

    def sample(self, rng: np.random.Generator, eta: Array, **aux: Any) -> Array:
        y = rng.beta(*self._shapes(eta, aux))
        return np.clip(y, np.finfo(float).tiny, 1.0 - np.finfo(float).epsneg)

    def pymc(self, eta: Any, **aux: Any) -> tuple[Any, dict[str, Any]]:
        import pymc as pm

        mu = self.link_function.symbolic_inverse(eta[:, 0])
        return pm.Beta, {"alpha": mu * aux["phi"], "beta": (1.0 - mu) * aux["phi"]}
