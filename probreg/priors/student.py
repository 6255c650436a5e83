"""The Student-t priors: they shrink small coefficients like a normal prior, and large ones hardly at all."""

from dataclasses import KW_ONLY, dataclass
from math import log1p
from typing import Any

import numpy as np

from probreg.arguments.scalars import Flag, Positive
from probreg.compiled.density import CompiledDensity, Row, StandardStudent
from probreg.priors.base import (
    PRIORS,
    Array,
    PerColumn,
    PymcVariable,
    Scale,
)
from probreg.priors.location_scale import SmoothLocationScale


def _evaluate_row(y: float, r: float, t: Array) -> Row:
    # log p(r) = constant - (nu + 1)/2 log(1 + r^2/nu), of slope -(nu + 1) r / (nu + r^2).
    nu = t[0]
    return (
        t[1] - 0.5 * (nu + 1.0) * log1p(r * r / nu),
        -(nu + 1.0) * r / (nu + r * r),
        0.0,
    )


class _Student(StandardStudent, SmoothLocationScale):
    compiled_density = CompiledDensity(_evaluate_row)

    @property
    def tail(self) -> float:  # type: ignore[override]
        return self.nu

    @property
    def settings(self) -> tuple[float, ...]:
        return self.nu, self.log_peak

    def standard_slopes(self, r: Array) -> tuple[Array, Array]:
        g, h = super().standard_slopes(r)
        return -g, -h

    def standard_tail(self, r: float) -> float:
        return self.standard_cdf(-r)

    def penalty_weight(self, q: int, unit: float = 1.0) -> Array | None:
        # -log p = (nu + 1)/2 log(1 + (w - b)^2 / (nu u^2 s^2)) + constant.
        return np.full(q, (self.nu + 1) / 2)


@PRIORS.register
@dataclass(frozen=True)
class StudentT(_Student):
    """The Student-t prior beta_j = location_j + scale_j t, t on nu degrees of freedom; nu = 1 is Cauchy.

    Parameters
    ----------
    scale : float or tuple of float or AuxPrior
        Positive, one number or one per column; a prior for an unknown scale.
    nu : float
        Degrees of freedom, positive.
    location : float or tuple of float
        The centre, one number or one per column.
    sigma_units : bool
        Whether the prior scale is `scale` times sigma.
    scaled : bool
        Whether the scale is stated on standardised columns.

    References
    ----------
    Gelman et al. 2008.

    Examples
    --------
    >>> float(StudentT(2.0, nu=1.0).log_prob(np.array([[0.0]])).round(6))
    -1.837877
    """

    scale: Scale = 1.0
    _: KW_ONLY
    nu: Positive = 4.0
    location: PerColumn = 0.0
    sigma_units: Flag = False
    scaled: Flag = False

    name = "student"
    in_pymc = "StudentT", "mu", "sigma"

    def pymc(self, unit: Any = 1.0) -> PymcVariable:
        kind, parameters = super().pymc(unit)
        return kind, {"nu": self.nu, **parameters}


@PRIORS.register
@dataclass(frozen=True)
class Cauchy(_Student):
    """The Cauchy prior p(beta_j) = scale_j / (pi (scale_j^2 + (beta_j - location_j)^2)).

    It is the Student-t prior with one degree of freedom. The weakly informative default of Gelman et al. (2008) is
    `Cauchy(2.5, scaled=True)` on columns of standard deviation 0.5.

    Parameters
    ----------
    scale : float or tuple of float or AuxPrior
        Positive, one number or one per column; a prior for an unknown scale.
    location : float or tuple of float
        The centre, one number or one per column.
    sigma_units : bool
        Whether the prior scale is `scale` times sigma.
    scaled : bool
        Whether the scale is stated on standardised columns.

    References
    ----------
    Gelman et al. 2008.

    Examples
    --------
    >>> float(Cauchy(2.0).log_prob(np.array([[0.0]])).round(6))
    -1.837877
    """

    scale: Scale = 1.0
    _: KW_ONLY
    location: PerColumn = 0.0
    sigma_units: Flag = False
    scaled: Flag = False

    name = "cauchy"
    nu = 1.0
    in_pymc = "Cauchy", "alpha", "beta"
