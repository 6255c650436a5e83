"""Positive responses with a normal logarithm."""

from dataclasses import dataclass
from math import log
from typing import Any

import numpy as np

from probreg.likelihoods.base import (
    LIKELIHOODS,
    PymcVariable,
)
from probreg.likelihoods.gaussian import NormalNoise, standard_normal
from probreg.likelihoods.location_scale import (
    LogLocationScaleLikelihood,
    density_of_noise,
)


@LIKELIHOODS.register
@dataclass(frozen=True)
class LogNormal(NormalNoise, LogLocationScaleLikelihood):
    """Positive responses with log y ~ N(eta, sigma^2): a Gaussian regression of log y with the density of y.

    exp(eta) is the median, and the mean is exp(eta + sigma^2 / 2). exp(coefficient) multiplies the mean and every quantile. For
    censored times write `cens(time, event) ~ ...`.

    log p = -log y - log(sigma) - log(2 pi)/2 - (log y - eta)^2 / (2 sigma^2).

    References
    ----------
    Kalbfleisch & Prentice 2002, section 2.2.5.

    Examples
    --------
    >>> float(LogNormal().log_prob(np.array(1.0), np.array([0.0]), sigma=1.0).round(6))
    -0.918939
    """

    name = "log_normal"
    nuisance = ("sigma",)
    is_orthogonal = True
    compiled_density = density_of_noise(standard_normal, transform=log)

    def describe(self, response: str) -> str:
        return f"the mean of {response} on the log scale, log-normal with standard deviation sigma of log {response}"

    def log_moment(self, s: Any) -> tuple[Any, Any]:
        return 0.5 * np.square(s), np.square(s)

    def pymc(self, eta: Any, **aux: Any) -> PymcVariable:
        import pymc as pm

        return pm.LogNormal, {"mu": eta[:, 0], "sigma": aux["sigma"]}
