"""A number with noise of one scale: y = eta + sigma e, e of a standard density."""

from abc import abstractmethod
from collections.abc import Mapping
from typing import Any, ClassVar

import numpy as np

from probreg.compiled.custom_density import CustomDensity
from probreg.likelihoods.base import (
    Array,
    SmoothLikelihood,
    UnivariateLikelihood,
    ValueGradHessian,
)
from probreg.likelihoods.links import IDENTITY
from probreg.likelihoods.response import check_variation, finite_response


class AdditiveNoise(UnivariateLikelihood):
    """A number y = eta + noise. The density goes to 0 on both sides, so that no maximum over the coefficients is at infinity."""

    may_diverge = False
    support = "real"
    link = IDENTITY
    # PyMC's distribution with its name of the scale, where it has one
    in_pymc: ClassVar[tuple[str, str] | None] = None

    def check_response(self, values: Array) -> None:
        check_variation(finite_response(values, type(self).__name__, copy=False))

    def encode(self, values: Array) -> Array:
        return finite_response(values, type(self).__name__)

    def mean(self, eta: Array, **aux: Any) -> Array:
        return eta[..., 0]

    def initial_eta(self, y: Array) -> tuple[Array, dict[str, float]]:
        return y[:, None], dict.fromkeys(
            self.nuisance, float(np.abs(y - np.median(y)).mean()) or 1.0
        )

    def information_slope(self, eta: Array, **aux: Any) -> Array:
        return np.zeros((*eta.shape[:-1], 1, 1, 1))

    @property
    def mirror(self) -> "AdditiveNoise":
        """Return the likelihood of -y with the linear predictor -eta, the same likelihood if the noise is symmetric."""
        return self

    def pymc(self, eta: Any, **aux: Any) -> tuple[Any, dict[str, Any]]:
        """Return PyMC's own distribution or a variable with the density `symbolic_log_prob` and the draws of `sample`."""
        if self.in_pymc is not None:
            import pymc as pm

            kind, scale = self.in_pymc
            return getattr(pm, kind), {"mu": eta[:, 0], scale: aux[self.nuisance[0]]}

        def draw(mu: Array, *values: Any, rng: np.random.Generator, size: Any) -> Array:
            if size is None:
                size = np.broadcast_shapes(np.shape(mu), *map(np.shape, values))
            parameters = dict(zip(self.nuisance, values))
            return self.sample(rng, np.broadcast_to(mu, size)[..., None], **parameters)

        return CustomDensity(self.symbolic_log_prob, draw), {"mu": eta[:, 0], **aux}

    def symbolic_log_prob(self, y: Any, mu: Any, *aux: Any) -> Any:
        """log p(y) of symbols, with the nuisance parameters in the order of `aux`; for families that PyMC lacks."""
        raise NotImplementedError


class LocationScaleLikelihood(AdditiveNoise, SmoothLikelihood):
    """p(y | eta, sigma) = f((y - eta) / sigma) / sigma, of a standard density f that is symmetric about 0.

    A family defines log f with its slopes, its distribution function and draws, and the information of one row.
    """

    nuisance = ("sigma",)
    noise_scale = "sigma"

    @abstractmethod
    def standard_log_prob(self, r: Array) -> Array:
        """log f(r)."""

    @abstractmethod
    def standard_slopes(self, r: Array) -> tuple[Array, Array]:
        """g = -d log f / d r and h = -d2 log f / d r2."""

    @abstractmethod
    def standard_cdf(self, r: Array) -> Array:
        """The integral of f up to r."""

    @abstractmethod
    def standard_sample(
        self, rng: np.random.Generator, shape: tuple[int, ...]
    ) -> Array:
        """Draws of f."""

    @property
    @abstractmethod
    def standard_variance(self) -> float:
        """The variance of f, inf where there is none."""

    @property
    @abstractmethod
    def standard_information(self) -> float:
        """E[h], the Fisher information about the location at a scale of 1."""

    def log_prob(self, y: Array, eta: Array, **aux: Any) -> Array:
        r, sigma = _residual(y, eta, aux)
        return self.standard_log_prob(r) - np.log(sigma)

    def symbolic_log_prob(self, y: Any, mu: Any, *aux: Any) -> Any:
        import pytensor.tensor as pt

        return self.standard_log_prob((y - mu) / aux[0]) - pt.log(aux[0])

    def cdf(self, y: Array, eta: Array, **aux: Any) -> Array:
        return self.standard_cdf(_residual(y, eta, aux)[0])

    def dispersion(self, aux: Mapping[str, float]) -> float:
        # 2 sigma^2 (log f(0) - log f(r / sigma)) = r^2 for normal noise: squared units of y
        return float(aux["sigma"]) ** 2

    def response_variance(self, eta: Array, **aux: Any) -> Array:
        return np.broadcast_to(
            self.standard_variance * np.square(aux["sigma"]), eta.shape[:-1]
        )

    def sample(self, rng: np.random.Generator, eta: Array, **aux: Any) -> Array:
        mean = eta[..., 0]
        sigma = aux["sigma"]
        return mean + sigma * self.standard_sample(
            rng, np.broadcast_shapes(mean.shape, np.shape(sigma))
        )

    def score(self, y: Array, eta: Array, **aux: Any) -> Array:
        r, sigma = _residual(y, eta, aux)
        return (self.standard_slopes(r)[0] / sigma)[..., None]

    def information(self, eta: Array, **aux: Any) -> Array:
        value = self.standard_information / np.square(aux["sigma"])
        return (np.zeros(eta.shape[:-1]) + value)[..., None, None]

    def value_grad_hessian(self, y: Array, eta: Array, **aux: Any) -> ValueGradHessian:
        # with r = (y - eta) / s: d/d eta = g / s, d/d log s = r g - 1; minus the second derivatives are h / s^2 over eta,
        # (g + r h) / s over eta and log s, r g + r^2 h over log s
        r, s = _residual(y, eta, aux)
        g, h = self.standard_slopes(r)
        cross = (g + r * h) / s
        rows = [
            np.stack([h / s**2, cross], -1),
            np.stack([cross, r * g + r * r * h], -1),
        ]
        return ValueGradHessian(
            self.log_prob(y, eta, **aux),
            np.stack([g / s, r * g - 1.0], -1),
            np.stack(rows, -2),
        )


def _residual(y: Array, eta: Array, aux: Any) -> tuple[Array, Any]:
    """r = (y - eta) / sigma, and sigma."""
    sigma = aux["sigma"]
    return (y - eta[..., 0]) / sigma, sigma
