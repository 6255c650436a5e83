"""The Student-t prior: shrinks small coefficients like a normal, lets large ones be."""

from dataclasses import dataclass
from typing import Any

import numpy as np
from scipy.special import gammaln

from probreg.errors import DataError
from probreg.priors.base import PRIORS, Array, Penalty, PerColumn, Prior, common_size, per_column, standard


@PRIORS.register
@dataclass(frozen=True)
class StudentT(Prior):
    """beta_j = location_j + scale_j t with t Student-t on nu degrees of freedom (Gelman et al. 2008); nu = 1 is Cauchy.

    >>> float(StudentT(2.0, nu=1.0).log_prob(np.array([[0.0]])).round(6))
    -1.837877
    """

    scale: PerColumn = 1.0
    nu: float = 4.0
    location: PerColumn = 0.0
    sigma_units: bool = False

    name = "student"

    def __post_init__(self) -> None:
        if not 0 < self.nu < np.inf:
            raise DataError(f"a StudentT prior needs nu > 0 and finite, got nu={self.nu}")
        object.__setattr__(self, "scale", per_column(self.scale, "StudentT scale", positive=True))
        object.__setattr__(self, "location", per_column(self.location, "StudentT location", positive=False))

    @property
    def size(self) -> int | None:
        return common_size(self.scale, self.location)

    def log_prob(self, beta: Array, unit: Array | float = 1.0) -> Array:
        nu = self.nu
        r, log_s = standard(beta, self.location, self.scale, unit)
        constant = gammaln((nu + 1) / 2) - gammaln(nu / 2) - 0.5 * np.log(nu * np.pi)
        return (constant - log_s - (nu + 1) / 2 * np.log1p(r * r / nu)).sum((-1, -2))

    def sample(self, rng: np.random.Generator, shape: tuple[int, ...], unit: float = 1.0) -> Array:
        column = (np.broadcast_to(np.asarray(v), shape[-2])[:, None] for v in (self.location, self.scale))
        center, scale = column
        return center + scale * unit * rng.standard_t(self.nu, shape)

    def pymc(self, unit: Any = 1.0) -> tuple[Any, dict[str, Any]]:
        import pymc as pm

        return pm.StudentT, {"nu": self.nu, "mu": np.asarray(self.location), "sigma": np.asarray(self.scale) * unit}

    def penalty(self, q: int, unit: float = 1.0) -> Penalty | None:
        around = "w" if self.location == 0.0 else "(w - location)"
        scale = np.broadcast_to(unit * np.asarray(self.scale), q)
        same = f"{scale[0]:g}" if (scale == scale[0]).all() else "scale"
        return Penalty("log", f"log(1 + {around}^2 / ({self.nu:g} {same}^2))", np.full(q, (self.nu + 1) / 2))
