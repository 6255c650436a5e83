"""Likelihoods that only the laws know: what an author of a new one writes, with nothing declared that need not be."""

from dataclasses import dataclass
from typing import Any

import numpy as np

import probreg as pr
from probreg.likelihoods import MeanByLink, SmoothLikelihood
from probreg.likelihoods.base import ValueGradHessian
from probreg.likelihoods.links import LOG
from probreg.likelihoods.response import finite_response

from .cases import Array


@dataclass(frozen=True)
class Geometric(MeanByLink, SmoothLikelihood):
    """y in {0, 1, 2, ...} with mean exp(eta), log p = y eta - (y + 1) log(1 + exp(eta)); it does not say `may_diverge`."""

    name = "geometric"
    levels = ()
    support = np.arange(4000.0)
    link = LOG

    def encode(self, values: Array) -> Array:
        return finite_response(values, "Geometric")

    def describe(self, response: str) -> str:
        return f"the mean count of {response} on the log scale, geometric"

    def initial_eta(self, y: Array) -> tuple[Array, dict[str, float]]:
        return np.log(y + 0.5)[:, None], {}

    def log_prob(self, y: Array, eta: Array, **aux: Any) -> Array:
        return y * eta[..., 0] - (y + 1) * np.logaddexp(0, eta[..., 0])

    def cdf(self, y: Array, eta: Array, **aux: Any) -> Array:
        return np.where(
            y < 0, 0.0, 1 - (1 + np.exp(-eta[..., 0])) ** -(np.floor(y) + 1)
        )

    def sample(self, rng: np.random.Generator, eta: Array, **aux: Any) -> Array:
        return rng.geometric(1 / (1 + np.exp(eta[..., 0]))) - 1.0

    def score(self, y: Array, eta: Array, **aux: Any) -> Array:
        return (y - (y + 1) / (1 + np.exp(-eta[..., 0])))[..., None]

    def information(self, eta: Array, **aux: Any) -> Array:
        return (1 / (1 + np.exp(-eta[..., 0])))[..., None, None]

    def value_grad_hessian(self, y: Array, eta: Array, **aux: Any) -> ValueGradHessian:
        q = 1 / (1 + np.exp(-eta[:, 0]))
        return ValueGradHessian(
            self.log_prob(y, eta),
            self.score(y, eta),
            ((y + 1) * q * (1 - q))[:, None, None],
        )

    def pymc(self, eta: Any, **aux: Any) -> tuple[Any, dict[str, Any]]:
        import pymc as pm

        return pm.NegativeBinomial, {"mu": pm.math.exp(eta[:, 0]), "alpha": 1.0}


@dataclass(frozen=True)
class GaussianOfLog(pr.likelihoods.Gaussian):
    """log of a positive number with normal noise: the mean exp(eta + sigma^2 / 2) of the number depends on sigma."""

    link: Any = LOG

    name = "gaussian_of_log"
    least_squares = False

    def mean(self, eta: Array, **aux: Any) -> Array:
        return np.exp(eta[..., 0] + 0.5 * np.square(aux["sigma"]))

    # by differences of `mean`
    link_mean_and_slope = pr.likelihoods.UnivariateLikelihood.link_mean_and_slope
