"""Gaussian noise: least squares is its maximum likelihood."""

from dataclasses import dataclass
from typing import Any, Self

import numpy as np
from scipy.special import ndtr

from probreg.likelihoods.base import LIKELIHOODS, Array, Level, SmoothLikelihood, UnivariateLikelihood, ValueGradHessian
from probreg.likelihoods.links import IDENTITY
from probreg.likelihoods.response import finite_response, refuse, varied

_LOG_ROOT_2PI = 0.5 * np.log(2.0 * np.pi)


@LIKELIHOODS.register
@dataclass(frozen=True)
class Gaussian(UnivariateLikelihood, SmoothLikelihood):
    """Normal noise, y ~ N(eta, sigma^2), with sigma in units of y.

    log p = -log(sigma) - log(2 pi)/2 - (y - eta)^2 / (2 sigma^2).

    Examples
    --------
    >>> float(Gaussian().log_prob(np.array(1.0), np.array([0.0]), sigma=2.0).round(6))
    -1.737086
    """

    name = "gaussian"
    aux = ("sigma",)
    noise_scale = "sigma"
    may_diverge = False
    levels = ()
    support = "real"
    link = IDENTITY
    concave = True

    def prepare(
        self, values: Array, *, levels: tuple[Level, ...] | None, event: Level | None, reference: Level | None
    ) -> Self:
        refuse("Gaussian", event=event, reference=reference)
        varied(finite_response(values, "Gaussian"), "Gaussian")
        return self

    def encode(self, values: Array) -> Array:
        return finite_response(values, "Gaussian")

    def describe(self, response: str) -> str:
        return f"the mean of {response}, with Gaussian noise of standard deviation sigma"

    def initial_eta(self, y: Array) -> tuple[Array, dict[str, float]]:
        return y[:, None], {"sigma": float(np.std(y)) or 1.0}

    def log_prob(self, y: Array, eta: Array, **aux: Any) -> Array:
        sigma = aux["sigma"]
        r = (y - eta[..., 0]) / sigma
        return -0.5 * r * r - np.log(sigma) - _LOG_ROOT_2PI

    def cdf(self, y: Array, eta: Array, **aux: Any) -> Array:
        return ndtr((y - eta[..., 0]) / aux["sigma"])

    def mean(self, eta: Array, **aux: Any) -> Array:
        return eta[..., 0]

    def sample(self, rng: np.random.Generator, eta: Array, **aux: Any) -> Array:
        return rng.normal(eta[..., 0], aux["sigma"])

    def score(self, y: Array, eta: Array, **aux: Any) -> Array:
        return ((y - eta[..., 0]) / np.square(aux["sigma"]))[..., None]

    def information(self, eta: Array, **aux: Any) -> Array:
        return (np.zeros(eta.shape[:-1]) + 1.0 / np.square(aux["sigma"]))[..., None, None]

    def value_grad_hessian(self, y: Array, eta: Array, **aux: Any) -> ValueGradHessian:
        s = aux["sigma"]
        r = (y - eta[:, 0]) / s
        gradient = np.stack([r / s, r * r - 1.0], -1)
        cross = 2.0 * r / s
        rows = [np.stack([np.ones_like(r) / s**2, cross], -1), np.stack([cross, 2.0 * r * r], -1)]
        return ValueGradHessian(self.log_prob(y, eta, sigma=s), gradient, np.stack(rows, -2))

    def pymc(self, eta: Any, **aux: Any) -> tuple[Any, dict[str, Any]]:
        import pymc as pm

        return pm.Normal, {"mu": eta[:, 0], "sigma": aux["sigma"]}
