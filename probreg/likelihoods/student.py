"""Heavy-tailed noise: a regression that is robust to outliers."""

from dataclasses import dataclass
from math import log1p
from typing import Any

import numpy as np

from probreg.arguments.scalars import Positive
from probreg.compiled.density import CompiledDensity
from probreg.likelihoods.base import LIKELIHOODS, Array
from probreg.likelihoods.location_scale import (
    LocationScaleLikelihood,
    settings_of_shape,
)
from probreg.special import log_student_constant, stdtr


def _evaluate_row(y: float, eta: float, t: Array) -> tuple[float, float, float]:
    nu = t[0]
    sigma = t[1]
    r = (y - eta) / sigma
    # log f = constant - (nu + 1)/2 log(1 + r^2 / nu), g = -d log f / dr = (nu + 1) r / (nu + r^2).
    g = (nu + 1.0) * r / (nu + r * r)
    return t[2] - 0.5 * (nu + 1.0) * log1p(r * r / nu), g / sigma, r * g - 1.0


@LIKELIHOODS.register
@dataclass(frozen=True)
class StudentT(LocationScaleLikelihood):
    """Heavy-tailed noise, y = eta + sigma t with t Student-t on nu degrees of freedom.

    sigma is a scale; the standard deviation is sigma sqrt(nu / (nu - 2)) for nu > 2. The log-likelihood is not
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
    wider = "take fewer degrees of freedom nu"
    centre = "centre"
    in_pymc = "StudentT", "sigma"
    compiled_density = CompiledDensity(_evaluate_row, settings=settings_of_shape)

    def describe(self, response: str) -> str:
        return f"the centre of {response}, with Student-t noise ({self.nu:g} degrees of freedom) of scale sigma"

    def initial_eta(self, y: Array) -> tuple[Array, dict[str, float]]:
        # The quartiles of a normal lie 1.35 standard deviations apart.
        spread = np.subtract(*np.quantile(y, [0.75, 0.25])) / 1.35
        return y[:, None], {"sigma": float(spread) or float(np.std(y)) or 1.0}

    @property
    def standard_variance(self) -> float:
        if self.nu > 2:
            return self.nu / (self.nu - 2.0)
        return np.inf

    @property
    def standard_information(self) -> float:
        # E[h] = (nu + 1) / (nu + 3)   (Lange, Little & Taylor 1989).
        return (self.nu + 1.0) / (self.nu + 3.0)

    def standard_log_prob(self, r: Array) -> Array:
        return log_student_constant(self.nu) - (self.nu + 1) / 2 * np.log1p(
            r * r / self.nu
        )

    def standard_slopes(self, r: Array) -> tuple[Array, Array]:
        # h = dg/dr = (nu + 1)(nu - r^2) / (nu + r^2)^2, negative beyond r^2 = nu.
        nu = self.nu
        d = self.nu + r * r
        return (nu + 1) * r / d, (nu + 1) * (nu - r * r) / d**2

    def standard_cdf(self, r: Array) -> Array:
        return stdtr(self.nu, r)

    def standard_sample(
        self, rng: np.random.Generator, shape: tuple[int, ...]
    ) -> Array:
        return rng.standard_t(self.nu, shape)

    @property
    def constants(self) -> tuple[float, ...]:  # type: ignore[override]
        return self.nu, log_student_constant(self.nu)

    def pymc(self, eta: Any, **aux: Any) -> tuple[Any, dict[str, Any]]:
        kind, parameters = super().pymc(eta, **aux)
        return kind, {"nu": self.nu, **parameters}
