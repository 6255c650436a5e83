"""Noise with the density exp(-|r|^p): L_p regression as maximum likelihood."""

from collections.abc import Callable
from dataclasses import dataclass
from math import exp, log
from typing import Annotated, Any

import numpy as np
from numpy.random import Generator

from probreg.arguments.scalars import Number
from probreg.compiled.density import CompiledDensity, Row
from probreg.likelihoods.base import (
    LIKELIHOODS,
    Array,
    Shape,
    ValueGradHessian,
)
from probreg.likelihoods.location_scale import (
    LocationScaleLikelihood,
    settings_of_shape,
)
from probreg.likelihoods.tails import symmetric_interval
from probreg.special import gammaincc, gammaln

# a smaller residual, relative to y and eta, is rounding, which |r|^(p - 1) magnifies
ROUNDING_OF_RESIDUALS = 1e-13


def _evaluate_row(y: float, eta: float, t: Array) -> Row:
    # t = sigma, log of the constant, p
    r = (y - eta) / t[0]
    power = abs(r) ** t[2]
    slope = 0.0
    if abs(y - eta) > ROUNDING_OF_RESIDUALS * (abs(y) + abs(eta)):
        slope = t[2] * power / r
    return t[1] - power, slope / t[0], t[2] * power - 1.0


# replaced by the likelihood's constants
exponent: Any = None
log_peak: Any = None


# from this |r|^p the continued fraction has all digits
_FAR_POWER = 4.0


def _far_rate(x: Any, u: Any, p: float) -> Any:
    """f(x) / P(Y > x) where u = x^p >= _FAR_POWER, by the continued fraction of the incomplete gamma function."""
    fraction = u
    for k in range(80, 0, -1):
        fraction = u + (k - 1.0 / p) / (1.0 + k / fraction)
    return p * fraction / x


def _upper_tail(x: float) -> tuple[float, float]:
    """log P(Y > x) and f(x) / P(Y > x), x >= 0, near 0 by the series of the incomplete gamma function."""
    u = x**exponent
    log_f = log_peak - u
    if u < _FAR_POWER:
        term = 1.0
        total = 1.0
        divisor = 1.0 / exponent + 1.0
        while term > 1e-17 * total:
            term *= u / divisor
            total += term
            divisor += 1.0
        tail = 0.5 - x * exp(log_f) * total
        return log(tail), exp(log_f) / tail
    rate = _far_rate(x, u, exponent)
    return log_f - log(rate), rate


@LIKELIHOODS.register
@dataclass(frozen=True)
class PowerNoise(LocationScaleLikelihood):
    """Noise of the generalised normal distribution: log p = -|y - eta|^p / sigma^p + log p - log(2 sigma Gamma(1/p)).

    Maximum likelihood is L_p regression, argmin sum |y - eta|^p. For p < 2 curvatures and standard errors use the expected information, since
    the second derivative is infinite at y = eta. p = 2 is the Gaussian with standard deviation sigma / sqrt(2);
    p = 1 is `AbsoluteLoss`, which is not smooth and needs other methods.

    Parameters
    ----------
    p : float
        The power, above 1.

    References
    ----------
    Subbotin 1923; Box & Tiao 1973, section 3.2.

    Examples
    --------
    >>> float(PowerNoise(2.0).log_prob(np.array(1.0), np.array([0.0]), sigma=2.0).round(6))
    -1.515512
    """

    p: Annotated[
        float,
        Number(1.0, words="a number above 1", advice="; of p = 1 take AbsoluteLoss()"),
    ] = 1.5

    name = "power"
    centre = "centre"
    concave = True
    wider = "take a smaller p, or fit a StudentT likelihood"
    compiled_density = CompiledDensity(_evaluate_row, settings=settings_of_shape)

    @property
    def expected_curvature(self) -> bool:  # type: ignore[override]
        return self.p < 2.0

    @property
    def curvature_has_slope(self) -> bool:  # type: ignore[override]
        return self.p >= 3.0 or self.p == 2.0

    def describe(self, response: str) -> str:
        return f"the centre of {response}, with noise of density exp(-|r / sigma|^{self.p:g})"

    @property
    def _log_constant(self) -> float:
        return float(np.log(self.p / 2.0) - gammaln(1.0 / self.p))

    @property
    def compiled_interval(self) -> Callable[..., Any]:
        constants = {"exponent": self.p, "log_peak": self._log_constant}
        return symmetric_interval(_upper_tail, **constants)

    @property
    def standard_variance(self) -> float:
        # E r^2 = Gamma(3/p) / Gamma(1/p)
        return float(np.exp(gammaln(3.0 / self.p) - gammaln(1.0 / self.p)))

    @property
    def standard_information(self) -> float:
        # E g^2 = p^2 E |r|^(2p - 2) = p^2 Gamma(2 - 1/p) / Gamma(1/p)
        return float(
            self.p**2 * np.exp(gammaln(2.0 - 1.0 / self.p) - gammaln(1.0 / self.p))
        )

    def standard_log_prob(self, r: Array) -> Array:
        return self._log_constant - abs(r) ** self.p

    def standard_slopes(self, r: Array) -> tuple[Array, Array]:
        # g = p |r|^(p-1) sign r, h = p (p - 1) |r|^(p-2), which is infinite at r = 0 for p < 2
        p = self.p
        size = np.abs(r)
        with np.errstate(divide="ignore"):
            return p * size ** (p - 1.0) * np.sign(r), p * (p - 1.0) * size ** (p - 2.0)

    @property
    def obstacle_to_search(self) -> str:  # type: ignore[override]
        if self.p >= 1.5:
            return ""
        return f"residuals of nearly 0 have an unbounded curvature for p = {self.p:g}; AbsoluteLoss() is p = 1, or take a p of at least 1.5"

    def value_grad_hessian(self, y: Array, eta: Array, **aux: Any) -> ValueGradHessian:
        if self.expected_curvature:
            rounding = ROUNDING_OF_RESIDUALS * (np.abs(y) + np.abs(eta[..., 0]))
            eta = np.where(np.abs(y - eta[..., 0]) <= rounding, y, eta[..., 0])[
                ..., None
            ]
        # 0 times infinity at r = 0, which the expected curvature replaces
        with np.errstate(invalid="ignore"):
            derivatives = super().value_grad_hessian(y, eta, **aux)
        if not self.expected_curvature:
            return derivatives
        # the second derivative is infinite at r = 0, and its sample mean has no variance for p <= 3/2: the expected curvature is
        # E g^2 / sigma^2 over eta and E (r g - 1)^2 = p over log sigma; the product of the two scores has mean 0
        curvature = np.zeros_like(derivatives.curvature)
        curvature[:, 0, 0], curvature[:, 1, 1] = (
            self.standard_information / np.square(aux["sigma"]),
            self.p,
        )
        return derivatives._replace(curvature=curvature)

    def standard_cdf(self, r: Array) -> Array:
        # |r|^p is a Gamma(1/p): half of its upper tail lies below -|r|
        tail = 0.5 * gammaincc(1.0 / self.p, np.abs(r) ** self.p)
        return np.where(r < 0, tail, 1.0 - tail)

    def standard_log_cdf(self, r: Array) -> Array:
        with np.errstate(divide="ignore", invalid="ignore"):
            near = np.log(self.standard_cdf(r))
            u = np.abs(r) ** self.p
            far = self._log_constant - u - np.log(_far_rate(-r, u, self.p))
        return np.where((r < 0.0) & (u >= _FAR_POWER) & np.isfinite(u), far, near)

    def standard_sample(self, rng: Generator, shape: Shape) -> Array:
        size = rng.standard_gamma(1.0 / self.p, shape) ** (1.0 / self.p)
        return np.where(rng.random(shape) < 0.5, -size, size)

    @property
    def dispersion_power(self) -> float:  # type: ignore[override]
        return self.p  # sigma^p |r / sigma|^p = |r|^p

    @property
    def constants(self) -> tuple[float, ...]:  # type: ignore[override]
        return self.p, self._log_constant
