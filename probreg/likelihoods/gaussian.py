"""Gaussian noise: least squares, and means with a log or an inverse link."""

from dataclasses import dataclass, field
from typing import Any, Literal

import numpy as np
from numpy.random import Generator

from probreg.compiled.density import StandardNormal
from probreg.likelihoods.base import (
    LIKELIHOODS,
    Array,
    ExponentialFamily,
    PymcVariable,
    Start,
)
from probreg.likelihoods.links import IDENTITY, INVERSE, LOG, PROBIT
from probreg.likelihoods.location_scale import (
    LocationScaleLikelihood,
    StandardDensity,
    density_of_noise,
)
from probreg.likelihoods.mixtures import of_normals
from probreg.likelihoods.response import finite_response
from probreg.special import LOG_2PI, ndtr

GaussianLinkName = Literal["identity", "log", "inverse"]


def standard_normal(r: float, t: Array) -> tuple[float, float]:
    """The logarithm of the normal density, and minus its slope."""
    return -0.5 * (r * r + LOG_2PI), r


class NormalNoise(StandardNormal, StandardDensity):
    """The standard normal density of a location-scale family."""

    concave = True
    standard_information = 1.0
    link_of_noise = PROBIT


@LIKELIHOODS.register
@dataclass(frozen=True)
class Gaussian(NormalNoise, LocationScaleLikelihood):
    """Normal noise, y ~ N(mu, sigma^2), with sigma in units of y; mu is eta by the identity link.

    log p = -log(sigma) - log(2 pi)/2 - (y - mu)^2 / (2 sigma^2).

    Parameters
    ----------
    link : {"identity", "log", "inverse"}
        eta = mu, log(mu) or 1 / mu. With the last two, the mean is not linear in the coefficients: `GaussianByLink`.

    Examples
    --------
    >>> float(Gaussian().log_prob(np.array(1.0), np.array([0.0]), sigma=2.0).round(6))
    -1.737086
    """

    link: GaussianLinkName = field(default=IDENTITY, repr=False)  # type: ignore[arg-type, assignment]

    name = "gaussian"
    least_squares = True
    in_pymc = "Normal", "sigma"
    wider = "fit a StudentT likelihood, which allows far responses"
    standard_variance = 1.0
    # for predictors of sigma only: least squares uses moments
    compiled_density = density_of_noise(standard_normal)
    compiled_quantile = staticmethod(of_normals)

    def __new__(cls, link: str = IDENTITY, **fields: Any) -> Any:
        """Return a `GaussianByLink` for the other links, which are not least squares."""
        if cls is Gaussian and isinstance(link, str) and link in (LOG, INVERSE):
            return GaussianByLink(link)  # type: ignore[arg-type]
        return super().__new__(cls)

    def describe(self, response: str) -> str:
        return (
            f"the mean of {response}, with Gaussian noise of standard deviation sigma"
        )

    def initial_eta(self, y: Array) -> Start:
        return y[:, None], {"sigma": float(np.std(y)) or 1.0}


@dataclass(frozen=True, repr=False)
class GaussianByLink(ExponentialFamily):
    """Normal noise about a mean that is exp(eta) or 1 / eta: `Gaussian(link="log")` and `Gaussian(link="inverse")`.

    The response may have any sign. By the inverse link the mean may be negative, and eta = 0 is a mean at infinity.
    """

    link: GaussianLinkName = IDENTITY  # type: ignore[assignment]

    name = "gaussian"
    nuisance = ("sigma",)
    support = "real"
    dispersion_power = 2
    positive_limit = "the density is positive at a mean of 0, the limit of the link"
    domain = -np.inf, np.inf
    compiled_density = density_of_noise(standard_normal)

    def __repr__(self) -> str:
        return f"Gaussian(link={self.link!r})"

    __str__ = __repr__

    def encode(self, values: Array) -> Array:
        return finite_response(values, "Gaussian")

    def describe(self, response: str) -> str:
        return f"the mean of {response} on the {self.link} scale, with Gaussian noise of standard deviation sigma"

    def initial_eta(self, y: Array) -> Start:
        # responses near 0, or with another sign than their mean, have no link: a tenth of the root mean square replaces them
        sign = -1.0 if self.link is INVERSE and np.mean(y) < 0.0 else 1.0
        least = 0.1 * float(np.sqrt(np.mean(np.square(y)))) or 1.0
        eta = self.link_function.forward(sign * np.maximum(sign * y, least))
        return eta[:, None], {"sigma": float(np.std(y)) or 1.0}

    def saturated_predictor(self, y: Array, **aux: Any) -> Array:
        if self.link is LOG:  # the largest density of y <= 0 is at a mean of 0
            y = np.maximum(y, 0.0)
        return super().saturated_predictor(y, **aux)

    def saturated_log_prob(self, y: Array, eta: Array, **aux: Any) -> Array:
        # at a mean equal to y, although exp(eta) only comes close to y if y <= 0: the deviance is the sum of squares
        return Gaussian().log_prob(y, y[..., None], **aux)

    def log_prob(self, y: Array, eta: Array, **aux: Any) -> Array:
        return Gaussian().log_prob(y, self.mean(eta)[..., None], **aux)

    def cdf(self, y: Array, eta: Array, **aux: Any) -> Array:
        return ndtr((y - self.mean(eta)) / aux["sigma"])

    def variance(self, mu: Array, **aux: Any) -> Array:
        return np.square(aux["sigma"]) + np.zeros_like(mu)

    def variance_slope(self, mu: Array, **aux: Any) -> Array:
        return np.zeros_like(mu)

    def slopes_over_log_scale(
        self, y: Array, mu: Array, scale: Any
    ) -> tuple[Array, Array]:
        square = np.square((y - mu) / scale)
        return square - 1.0, 2.0 * square

    def sample(self, rng: Generator, eta: Array, **aux: Any) -> Array:
        return rng.normal(*np.broadcast_arrays(self.mean(eta), aux["sigma"]))

    def pymc(self, eta: Any, **aux: Any) -> PymcVariable:
        import pymc as pm

        mean = self.link_function.symbolic_inverse(eta[:, 0])
        return pm.Normal, {"mu": mean, "sigma": aux["sigma"]}
