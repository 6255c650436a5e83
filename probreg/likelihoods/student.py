"""Heavy-tailed noise: a regression that outliers do not move."""

from dataclasses import dataclass
from math import log1p
from typing import Any, Self

import numpy as np
from scipy.special import gammaln, stdtr

from probreg.arguments.scalars import Positive, check_fields
from probreg.likelihoods.base import LIKELIHOODS, Array, Level, SmoothLikelihood, UnivariateLikelihood, ValueGradHessian
from probreg.likelihoods.links import IDENTITY
from probreg.likelihoods.response import finite_response, refuse, varied
from probreg.numerics.compiled.density import CompiledDensity


def _row(y: float, eta: float, t: Array) -> tuple[float, float, float]:
    nu, sigma = t[0], t[1]
    r = (y - eta) / sigma
    g = (nu + 1.0) * r / (nu + r * r)
    return t[2] - 0.5 * (nu + 1.0) * log1p(r * r / nu), g / sigma, r * g - 1.0


@LIKELIHOODS.register
@dataclass(frozen=True)
class StudentT(UnivariateLikelihood, SmoothLikelihood):
    """Heavy-tailed noise, y = eta + sigma t with t Student-t on nu degrees of freedom.

    sigma is a scale, the standard deviation being sigma sqrt(nu / (nu - 2)) for nu > 2. The log-likelihood is not
    concave in eta, so that a maximum found may be a local one.

    Parameters
    ----------
    nu : float
        Degrees of freedom, positive; given, not estimated.

    References
    ----------
    Lange, Little & Taylor 1989.

    Examples
    --------
    >>> float(StudentT(nu=1.0).log_prob(np.array(0.0), np.array([0.0]), sigma=1.0).round(6))
    -1.14473
    """

    nu: Positive = 4.0

    name = "student"
    aux = ("sigma",)
    noise_scale = "sigma"
    may_diverge = False
    levels = ()
    support = "real"
    link = IDENTITY
    compiled_density = CompiledDensity(_row)

    def __post_init__(self) -> None:
        check_fields(self)

    def prepare(
        self, values: Array, *, levels: tuple[Level, ...] | None, event: Level | None, reference: Level | None
    ) -> Self:
        refuse("StudentT", event=event, reference=reference)
        varied(finite_response(values, "StudentT"), "StudentT")
        return self

    def encode(self, values: Array) -> Array:
        return finite_response(values, "StudentT")

    def describe(self, response: str) -> str:
        return f"the centre of {response}, with Student-t noise ({self.nu:g} degrees of freedom) of scale sigma"

    def initial_eta(self, y: Array) -> tuple[Array, dict[str, float]]:
        spread = np.subtract(*np.quantile(y, [0.75, 0.25])) / 1.35
        return y[:, None], {"sigma": float(spread) or float(np.std(y)) or 1.0}

    def log_prob(self, y: Array, eta: Array, **aux: Any) -> Array:
        nu, sigma = self.nu, aux["sigma"]
        r = (y - eta[..., 0]) / sigma
        return self._constant - np.log(sigma) - (nu + 1) / 2 * np.log1p(r * r / nu)

    @property
    def _constant(self) -> float:
        nu = self.nu
        return float(gammaln((nu + 1) / 2) - gammaln(nu / 2) - 0.5 * np.log(nu * np.pi))

    def settings(self, **aux: Any) -> tuple[Any, ...]:
        return self.nu, aux["sigma"], self._constant - np.log(aux["sigma"])

    def cdf(self, y: Array, eta: Array, **aux: Any) -> Array:
        return stdtr(self.nu, (y - eta[..., 0]) / aux["sigma"])

    def mean(self, eta: Array, **aux: Any) -> Array:
        return eta[..., 0]

    def sample(self, rng: np.random.Generator, eta: Array, **aux: Any) -> Array:
        return eta[..., 0] + aux["sigma"] * rng.standard_t(self.nu, eta.shape[:-1])

    def score(self, y: Array, eta: Array, **aux: Any) -> Array:
        r = (y - eta[..., 0]) / aux["sigma"]
        return ((self.nu + 1) * r / (self.nu + r * r) / aux["sigma"])[..., None]

    def information(self, eta: Array, **aux: Any) -> Array:
        value = (self.nu + 1) / (self.nu + 3) / np.square(aux["sigma"])
        return (np.zeros(eta.shape[:-1]) + value)[..., None, None]

    def value_grad_hessian(self, y: Array, eta: Array, **aux: Any) -> ValueGradHessian:
        nu, s = self.nu, aux["sigma"]
        r = (y - eta[:, 0]) / s
        d = nu + r * r
        g = (nu + 1) * r / d  # -d log p / d r
        h = (nu + 1) * (nu - r * r) / d**2  # -d2 log p / d r2
        gradient = np.stack([g / s, r * g - 1.0], -1)
        cross = (g + r * h) / s
        rows = [np.stack([h / s**2, cross], -1), np.stack([cross, r * g + r * r * h], -1)]
        return ValueGradHessian(self.log_prob(y, eta, sigma=s), gradient, np.stack(rows, -2))

    def pymc(self, eta: Any, **aux: Any) -> tuple[Any, dict[str, Any]]:
        import pymc as pm

        return pm.StudentT, {"nu": self.nu, "mu": eta[:, 0], "sigma": aux["sigma"]}
