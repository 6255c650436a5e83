"""The base class of positive responses with a mean and a dispersion phi."""

from typing import Any, ClassVar

import numpy as np

from probreg.likelihoods.base import (
    Array,
    ExponentialFamily,
    Start,
)
from probreg.likelihoods.response import positive_response


class PositiveLikelihood(ExponentialFamily):
    """y > 0 with mean mu and variance phi V(mu): encoding, a start, and the deviance in units of phi.

    A family defines its density, distribution function and draws, and the power of the mean in its variance.
    """

    nuisance = ("phi",)
    support = "positive"
    mean_range = 0.0, np.inf
    dispersion_power = 1
    # k of V(mu) = mu^k
    power: ClassVar[int]

    def encode(self, values: Array) -> Array:
        remedy = "model zeros with a separate Bernoulli model, or use Gaussian for numbers of both signs"
        return positive_response(values, type(self).__name__, remedy)

    def initial_eta(self, y: Array) -> Start:
        # phi = Var(y) / V(mu), with the variance of log y, V = mu^2, for the squared coefficient of variation
        mean = np.mean(y)
        phi = np.var(np.log(y)) * mean**2 / self.variance(mean, phi=1.0)
        return self.link.forward(y)[:, None], {"phi": float(phi) or 1.0}

    def variance(self, mu: Array, **aux: Any) -> Array:
        return aux["phi"] * mu**self.power

    def variance_slope(self, mu: Array, **aux: Any) -> Array:
        return self.power * aux["phi"] * mu ** (self.power - 1)
