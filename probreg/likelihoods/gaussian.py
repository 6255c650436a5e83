"""Gaussian noise: least squares is its maximum likelihood."""

from dataclasses import dataclass

import numpy as np

from probreg.compiled.density import (
    CompiledDensity,
    Row,
)
from probreg.likelihoods.base import (
    LIKELIHOODS,
    Array,
    Generator,
    Shape,
    Start,
)
from probreg.likelihoods.links import PROBIT
from probreg.likelihoods.location_scale import (
    LocationScaleLikelihood,
    StandardDensity,
    settings_of_scale,
)
from probreg.likelihoods.mixtures import of_normals
from probreg.special import LOG_2PI


def evaluate_gaussian_row(y: float, eta: float, t: Array) -> Row:
    # t = (sigma, -log sigma)
    r = (y - eta) / t[0]
    return t[1] - 0.5 * (r * r + LOG_2PI), r / t[0], r * r - 1.0


class StandardNormal(StandardDensity):
    """The standard normal density of a location-scale family."""

    concave = True
    standard_information = 1.0
    link_of_noise = PROBIT

    def standard_log_prob(self, r: Array) -> Array:
        # log f = -r^2 / 2 - log(2 pi) / 2, so g = r and h = 1.
        return -0.5 * r * r - 0.5 * LOG_2PI

    def standard_slopes(self, r: Array) -> tuple[Array, Array]:
        return r, np.ones_like(r)

    def standard_sample(self, rng: Generator, shape: Shape) -> Array:
        return rng.standard_normal(shape)


@LIKELIHOODS.register
@dataclass(frozen=True)
class Gaussian(StandardNormal, LocationScaleLikelihood):
    """Normal noise, y ~ N(eta, sigma^2), with sigma in units of y.

    log p = -log(sigma) - log(2 pi)/2 - (y - eta)^2 / (2 sigma^2).

    Examples
    --------
    >>> float(Gaussian().log_prob(np.array(1.0), np.array([0.0]), sigma=2.0).round(6))
    -1.737086
    """

    name = "gaussian"
    least_squares = True
    in_pymc = "Normal", "sigma"
    wider = "fit a StudentT likelihood, which allows far responses"
    standard_variance = 1.0
    # for predictors of sigma: sums of least squares are those of moments
    compiled_density = CompiledDensity(
        evaluate_gaussian_row, settings=settings_of_scale
    )
    compiled_quantile = staticmethod(of_normals)

    def describe(self, response: str) -> str:
        return (
            f"the mean of {response}, with Gaussian noise of standard deviation sigma"
        )

    def initial_eta(self, y: Array) -> Start:
        return y[:, None], {"sigma": float(np.std(y)) or 1.0}
