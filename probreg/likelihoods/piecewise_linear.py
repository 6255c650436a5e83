"""Noise with a log density that is linear to the left, flat over a tube, and linear to the right: absolute, quantile and tube losses."""

from abc import abstractmethod
from dataclasses import dataclass
from typing import Any, NamedTuple

import numpy as np
from numpy.random import Generator

from probreg.arguments.scalars import Fraction, NonNegative
from probreg.compiled.density import CompiledDensity, Row
from probreg.likelihoods.base import (
    LIKELIHOODS,
    Array,
    ProximalLikelihood,
    PymcVariable,
    ValueGradHessian,
)
from probreg.likelihoods.location_scale import AdditiveNoise


class Slopes(NamedTuple):
    """-log p = up max(r - tube, 0) + down max(-r - tube, 0) + log Z with r = y - eta; each field broadcasts against (..., n)."""

    up: Any
    down: Any
    tube: Any

    @property
    def mass(self) -> Any:
        """Z, the integral of exp(-loss)."""
        # Z = 2 tube + 1 / up + 1 / down
        return 2.0 * self.tube + 1.0 / self.up + 1.0 / self.down

    @property
    def outside(self) -> Any:
        """P(|r| > tube)."""
        return (1.0 / self.up + 1.0 / self.down) / self.mass


def _evaluate_row(y: float, eta: float, t: Array) -> Row:
    # t = up, down, tube, log Z, P(|r| > tube)
    r = y - eta
    if r > t[2]:
        loss = t[0] * (r - t[2])
        return -loss - t[3], t[0], loss - t[4]
    if r < -t[2]:
        loss = t[1] * (-r - t[2])
        return -loss - t[3], -t[1], loss - t[4]
    return -t[3], 0.0, -t[4]


class PiecewiseLinearLikelihood(AdditiveNoise, ProximalLikelihood):
    """p(y | eta) = exp(-up max(r - tube, 0) - down max(-r - tube, 0)) / Z with r = y - eta.

    A family defines its slopes as functions of its nuisance parameter, a scale that divides both slopes.
    """

    compiled_density = CompiledDensity(_evaluate_row)
    # the scale divides both slopes, so that the rest is the loss beyond the tube, in units of y
    dispersion_power = 1
    # the coefficients with the least loss are the same at any scale
    is_orthogonal = True

    @abstractmethod
    def slopes(self, **aux: Any) -> Slopes:
        """up, down and tube."""

    def log_prob(self, y: Array, eta: Array, **aux: Any) -> Array:
        slopes = self.slopes(**aux)
        return -_loss(y - eta[..., 0], slopes) - np.log(slopes.mass)

    def score(self, y: Array, eta: Array, **aux: Any) -> Array:
        return _loss_slope(self.residuals(y, eta, **aux), self.slopes(**aux))[..., None]

    def score_at_kinks(self, y: Array, eta: Array, **aux: Any) -> Array:
        """The score over eta (n,). On a kink it has no value, and the result is the root of its mean square if the kink is the quantile."""
        slopes = self.slopes(**aux)
        r = self.residuals(y, eta, **aux)
        # without a tube P(r > 0) = down / (up + down): E score^2 = up down; with a tube the slopes are equal, and half of the rows count
        mean_square = (
            np.where(np.asarray(slopes.tube) > 0.0, 0.5, 1.0) * slopes.up * slopes.down
        )
        return np.where(
            np.abs(r) == slopes.tube, np.sqrt(mean_square), _loss_slope(r, slopes)
        )

    def information(self, eta: Array, **aux: Any) -> Array:
        # E score^2 = up^2 P(r > tube) + down^2 P(r < -tube) = (up + down) / Z
        slopes = self.slopes(**aux)
        return (np.zeros(eta.shape[:-1]) + (slopes.up + slopes.down) / slopes.mass)[
            ..., None, None
        ]

    def value_grad_hessian(self, y: Array, eta: Array, **aux: Any) -> ValueGradHessian:
        slopes = self.slopes(**aux)
        r = self.residuals(y, eta, **aux)
        loss = _loss(r, slopes)
        pull = _loss_slope(r, slopes)
        Z = slopes.mass
        P = slopes.outside
        n = len(y)
        gradient = np.zeros((n, 2))
        H = np.zeros((n, 2, 2))
        # d/d eta = pull, d/d log s = loss - P, and their expected squares (up + down) / Z and 2 P - P^2; their product has mean 0
        gradient[:, 0], H[:, 0, 0] = pull, (slopes.up + slopes.down) / Z
        gradient[:, 1], H[:, 1, 1] = loss - P, 2.0 * P - P * P
        return ValueGradHessian(-loss - np.log(Z), gradient, H)

    def residuals(self, y: Array, eta: Array, **aux: Any) -> Array:
        """y - eta (n,), set to the edge of the tube if it differs only by rounding; at the edge any slope between both sides is valid."""
        rounding = 1e-11  # of the size of a response and its fitted value
        tube = self.slopes(**aux).tube
        mean = eta[..., 0]
        r = y - mean
        edge = np.abs(np.abs(r) - tube) <= rounding * (np.abs(y) + np.abs(mean) + tube)
        return np.where(edge, np.copysign(tube, r), r)

    def cdf(self, y: Array, eta: Array, **aux: Any) -> Array:
        slopes = self.slopes(**aux)
        r = y - eta[..., 0]
        Z = slopes.mass
        tube = slopes.tube
        # exp(down (r + tube)) / (down Z) below the tube, linear in it, and 1 - exp(-up (r - tube)) / (up Z) above
        lower = np.exp(slopes.down * np.minimum(r + tube, 0.0)) / (slopes.down * Z)
        right = np.exp(-slopes.up * np.maximum(r - tube, 0.0)) / (slopes.up * Z)
        return np.where(r < tube, lower + np.clip(r + tube, 0.0, None) / Z, 1.0 - right)

    def quantile_of_noise(self, p: Array, **aux: Any) -> Array:
        """r with P(noise <= r) = p, the inverse of `cdf`."""
        slopes = self.slopes(**aux)
        Z = slopes.mass
        lower = 1.0 / slopes.down
        # from the pieces that are not used
        with np.errstate(divide="ignore", invalid="ignore"):
            low = -slopes.tube + np.log(p * Z * slopes.down) / slopes.down
            high = slopes.tube - np.log((1.0 - p) * Z * slopes.up) / slopes.up
        inside = p * Z - lower - slopes.tube
        return np.where(
            p * Z < lower,
            low,
            np.where(p * Z > lower + 2.0 * slopes.tube, high, inside),
        )

    def sample(self, rng: Generator, eta: Array, **aux: Any) -> Array:
        mean = eta[..., 0]
        shape = np.broadcast_shapes(mean.shape, *(np.shape(v) for v in aux.values()))
        return mean + self.quantile_of_noise(rng.random(shape), **aux)

    def response_variance(self, eta: Array, **aux: Any) -> Array:
        up, down, e = slopes = self.slopes(**aux)
        # E r = (e / up + 1 / up^2 - e / down - 1 / down^2) / Z,
        # E r^2 = (2 e^3 / 3 + e^2 / up + 2 e / up^2 + 2 / up^3 + the same with down) / Z
        first = (e / up + up**-2.0 - e / down - down**-2.0) / slopes.mass
        second = (
            sum(e**2 / k + 2.0 * e / k**2 + 2.0 / k**3 for k in (up, down))
            + 2.0 * e**3 / 3.0
        )
        return np.broadcast_to(second / slopes.mass - first**2, eta.shape[:-1])

    def settings(self, **aux: Any) -> tuple[Any, ...]:
        slopes = self.slopes(**aux)
        return slopes.up, slopes.down, slopes.tube, np.log(slopes.mass), slopes.outside

    def symbolic_log_prob(self, y: Any, mu: Any, *aux: Any) -> Any:
        import pytensor.tensor as pt

        slopes = self.slopes(**dict(zip(self.nuisance, aux)))
        above = pt.maximum(y - mu - slopes.tube, 0.0)
        below = pt.maximum(mu - y - slopes.tube, 0.0)
        return -slopes.up * above - slopes.down * below - pt.log(slopes.mass)


def _loss(r: Array, slopes: Slopes) -> Array:
    return slopes.up * np.maximum(r - slopes.tube, 0.0) + slopes.down * np.maximum(
        -r - slopes.tube, 0.0
    )


def _loss_slope(r: Array, slopes: Slopes) -> Array:
    """d log p / d eta: up above the tube, -down below it, 0 inside and at its edges."""
    return np.where(
        r > slopes.tube, slopes.up, np.where(r < -slopes.tube, -slopes.down, 0.0)
    )


@LIKELIHOODS.register
@dataclass(frozen=True)
class AbsoluteLoss(PiecewiseLinearLikelihood):
    """Laplace noise: log p = -|y - eta| / sigma - log(2 sigma), so that maximum likelihood is median regression.

    sigma is the mean absolute deviation, in units of y; the standard deviation is sqrt(2) sigma.

    References
    ----------
    Koenker & Bassett 1978.

    Examples
    --------
    >>> import numpy as np
    >>> float(AbsoluteLoss().log_prob(np.array(1.0), np.array([0.0]), sigma=2.0).round(6))
    -1.886294
    """

    name = "absolute"
    nuisance = ("sigma",)
    noise_scale = "sigma"
    centre = "median"
    insensitive = 0.0
    in_pymc = "Laplace", "b"
    wider = "fit a StudentT likelihood, which allows far responses"

    def slopes(self, **aux: Any) -> Slopes:
        return Slopes(1.0 / aux["sigma"], 1.0 / aux["sigma"], 0.0)

    def describe(self, response: str) -> str:
        return f"the median of {response}, with Laplace noise of scale sigma"


@LIKELIHOODS.register
@dataclass(frozen=True)
class EpsilonInsensitive(PiecewiseLinearLikelihood):
    """Noise that is uniform within epsilon and exponential beyond: p(r) = exp(-max(0, |r| - epsilon) / c) / (2 (epsilon + c)).

    r = y - eta, c is the nuisance parameter `scale`, and both are in units of y. Its mode under a normal prior of standard
    deviation t is support vector regression with C = t^2 / c. A share c / (epsilon + c) of the responses lies outside the tube.

    Parameters
    ----------
    epsilon : float
        Half the width of the tube, at least 0.

    References
    ----------
    Vapnik 1995.

    Examples
    --------
    >>> import numpy as np
    >>> float(EpsilonInsensitive(0.3).log_prob(np.array(1.0), np.array([0.0]), scale=0.7).round(6))
    -1.693147
    """

    epsilon: NonNegative = 0.1

    name = "epsilon_insensitive"
    centre = "centre"
    nuisance = ("scale",)
    working = "standard errors are those of a density that is uniform within epsilon; covariance('HC0') takes that of the residuals in its place"
    wider = "fit a StudentT likelihood, which allows far responses"

    @property
    def insensitive(self) -> float:  # type: ignore[override]
        return self.epsilon

    def slopes(self, **aux: Any) -> Slopes:
        return Slopes(1.0 / aux["scale"], 1.0 / aux["scale"], self.epsilon)

    def describe(self, response: str) -> str:
        return f"the centre of {response}, with noise that does not count within {self.epsilon:g}, and of this scale beyond"


@LIKELIHOODS.register
@dataclass(frozen=True)
class Quantile(PiecewiseLinearLikelihood):
    """Asymmetric Laplace noise, where eta is the tau quantile of y: log p = log(tau (1 - tau) / sigma) - rho(r) / sigma.

    rho(r) = r (tau - 1[r < 0]) with r = y - eta, so that maximum likelihood is quantile regression. `predict` gives the quantile
    eta. The density is a working model, so its standard errors and its posterior are not calibrated for a quantile.
    `covariance("HC0")` uses the density of the data at the quantile.

    Parameters
    ----------
    tau : float
        The probability below eta, between 0 and 1.

    References
    ----------
    Koenker & Bassett 1978; Yu & Moyeed 2001; Yang, Wang & He 2016 (on its posterior).

    Examples
    --------
    >>> import numpy as np
    >>> float(Quantile(0.9).log_prob(np.array(1.0), np.array([0.0]), sigma=2.0).round(6))
    -3.551093
    """

    tau: Fraction = 0.5

    name = "quantile"
    nuisance = ("sigma",)
    noise_scale = "sigma"
    wider = "the density is a working one, for whose errors see covariance('HC0')"
    working = "standard errors are those of the asymmetric Laplace density, no calibrated statement about a quantile; covariance('HC0') is one"

    @property
    def centre(self) -> str:  # type: ignore[override]
        return f"{self.tau:g} quantile"

    @property
    def mirror(self) -> "Quantile":
        return Quantile(1.0 - self.tau)

    def slopes(self, **aux: Any) -> Slopes:
        return Slopes(self.tau / aux["sigma"], (1.0 - self.tau) / aux["sigma"], 0.0)

    def describe(self, response: str) -> str:
        return f"the {self.tau:g} quantile of {response}, with asymmetric Laplace noise of scale sigma"

    def mean_name(self, response: str) -> str:
        return f"the {self.tau:g} quantile of {response}"

    def pymc(self, eta: Any, **aux: Any) -> PymcVariable:
        import pymc as pm

        # b kappa = up and b / kappa = down
        slopes = self.slopes(**aux)
        return pm.AsymmetricLaplace, {
            "mu": eta[:, 0],
            "b": (slopes.up * slopes.down) ** 0.5,
            "kappa": (slopes.up / slopes.down) ** 0.5,
        }
