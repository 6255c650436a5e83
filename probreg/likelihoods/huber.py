"""Normal noise with the tails of Laplace noise: distant responses have bounded influence."""

from collections.abc import Callable
from dataclasses import dataclass
from math import erfc, exp, log, sqrt
from typing import Any

import numpy as np
from numpy.random import Generator

from probreg.arguments.scalars import Positive
from probreg.likelihoods.base import (
    LIKELIHOODS,
    Array,
    Shape,
)
from probreg.likelihoods.location_scale import (
    LocationScaleLikelihood,
    density_of_noise,
    settings_of_shape,
)
from probreg.likelihoods.tails import symmetric_interval
from probreg.special import ROOT_2PI, ndtr, ndtri


def _standard_huber(r: float, t: Array) -> tuple[float, float]:
    # t = sigma, -log(Z sigma), k
    g = min(max(r, -t[2]), t[2])
    return -g * (r - 0.5 * g), g


# replaced by the likelihood's constants
corner: Any = None
mass: Any = None


def _upper_tail(x: float) -> tuple[float, float]:
    """log P(Y > x) and f(x) / P(Y > x), x >= 0."""
    log_beyond = 0.5 * corner * corner - corner * max(x, corner) - log(corner * mass)
    if x >= corner:
        return log_beyond, corner
    root = sqrt(2.0)
    inside = 0.5 * ROOT_2PI * (erfc(x / root) - erfc(corner / root))
    tail = exp(log_beyond) + inside / mass
    return log(tail), exp(-0.5 * x * x) / (mass * tail)


@LIKELIHOODS.register
@dataclass(frozen=True)
class Huber(LocationScaleLikelihood):
    """Normal within k sigma and exponential beyond: log p = -rho(r) - log(Z sigma), with r = (y - eta) / sigma.

    rho(r) = r^2 / 2 for |r| <= k and k |r| - k^2 / 2 beyond, and Z = sqrt(2 pi) (2 Phi(k) - 1) + 2 exp(-k^2 / 2) / k. sigma is
    estimated with the coefficients by maximum likelihood, not fixed at a robust estimate as in an M-estimate with MAD.

    Parameters
    ----------
    k : float
        Where the tails begin, in units of sigma, positive.

    References
    ----------
    Huber 1964.

    Examples
    --------
    >>> float(Huber(1.0).log_prob(np.array(3.0), np.array([0.0]), sigma=1.0).round(6))
    -3.573059
    """

    k: Positive = 1.345

    name = "huber"
    centre = "centre"
    concave = True
    curvature_jumps = True
    wider = "take a smaller k, or fit a StudentT likelihood"
    compiled_density = density_of_noise(_standard_huber, settings_of_shape)

    def describe(self, response: str) -> str:
        return f"the centre of {response}, with noise that is normal within {self.k:g} sigma and exponential beyond"

    @property
    def _mass_inside(self) -> float:
        return ROOT_2PI * (2.0 * float(ndtr(self.k)) - 1.0)

    @property
    def _tail(self) -> float:
        """Return the mass of either tail before division by Z."""
        return float(np.exp(-0.5 * self.k**2)) / self.k

    @property
    def _mass(self) -> float:
        return self._mass_inside + 2.0 * self._tail

    @property
    def compiled_interval(self) -> Callable[..., Any]:
        return symmetric_interval(_upper_tail, corner=self.k, mass=self._mass)

    @property
    def standard_variance(self) -> float:
        # Z E r^2 = inside - 2 k exp(-k^2 / 2) + 2 exp(-k^2 / 2) (k + 2 / k + 2 / k^3)
        k = self.k
        return (self._mass_inside + 4.0 * self._tail * (1.0 + k**-2.0)) / self._mass

    @property
    def standard_information(self) -> float:
        # E h = P(|r| < k)
        return self._mass_inside / self._mass

    def standard_log_prob(self, r: Array) -> Array:
        g = r.clip(-self.k, self.k)
        return -g * (r - 0.5 * g) - np.log(self._mass)

    def standard_slopes(self, r: Array) -> tuple[Array, Array]:
        return np.clip(r, -self.k, self.k), (np.abs(r) < self.k).astype(float)

    def standard_cdf(self, r: Array) -> Array:
        # the left tail is exp(k r + k^2 / 2) / k; inside, sqrt(2 pi) (Phi(r) - Phi(-k)) is added
        k = self.k
        tail = np.exp(k * np.minimum(-np.abs(r), -k) + 0.5 * k * k) / k
        low = tail + ROOT_2PI * (ndtr(np.clip(-np.abs(r), -k, None)) - ndtr(-k))
        return np.where(r < 0, low, self._mass - low) / self._mass

    def standard_sample(self, rng: Generator, shape: Shape) -> Array:
        k = self.k
        u = rng.random(shape) * self._mass
        tail = self._tail
        low = np.minimum(u, self._mass - u)
        # the inverse of the distribution function on its lower half, and its mirror image
        with np.errstate(divide="ignore"):
            r = np.where(
                low < tail,
                (np.log(k * low) - 0.5 * k * k) / k,
                ndtri(ndtr(-k) + (low - tail) / ROOT_2PI),
            )
        return np.where(u < 0.5 * self._mass, r, -r)

    @property
    def constants(self) -> tuple[float, ...]:  # type: ignore[override]
        return self.k, -float(np.log(self._mass))
