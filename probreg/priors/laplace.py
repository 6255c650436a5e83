"""The double-exponential prior: the lasso."""

from dataclasses import dataclass
from typing import Any

import numpy as np

from probreg.priors.base import PRIORS, Array, Penalty, PerColumn, Prior, common_size, per_column, standard


@PRIORS.register
@dataclass(frozen=True)
class Laplace(Prior):
    """p(beta_j) = exp(-|beta_j - location_j| / scale_j) / (2 scale_j): its mode is the lasso (Tibshirani 1996).

    The posterior mode has exact zeros; a posterior mean never has.

    >>> float(Laplace(0.5).log_prob(np.array([[1.0]])))
    -2.0
    """

    scale: PerColumn = 1.0
    location: PerColumn = 0.0
    sigma_units: bool = False

    name = "laplace"

    def __post_init__(self) -> None:
        object.__setattr__(self, "scale", per_column(self.scale, "Laplace scale", positive=True))
        object.__setattr__(self, "location", per_column(self.location, "Laplace location", positive=False))

    @property
    def size(self) -> int | None:
        return common_size(self.scale, self.location)

    def log_prob(self, beta: Array, unit: Array | float = 1.0) -> Array:
        r, log_s = standard(beta, self.location, self.scale, unit)
        return (-np.abs(r) - log_s - np.log(2.0)).sum((-1, -2))

    def sample(self, rng: np.random.Generator, shape: tuple[int, ...], unit: float = 1.0) -> Array:
        column = (np.broadcast_to(np.asarray(v), shape[-2])[:, None] for v in (self.location, self.scale))
        center, scale = column
        return rng.laplace(center, scale * unit, shape)

    def pymc(self, unit: Any = 1.0) -> tuple[Any, dict[str, Any]]:
        import pymc as pm

        return pm.Laplace, {"mu": np.asarray(self.location), "b": np.asarray(self.scale) * unit}

    def penalty(self, q: int, unit: float = 1.0) -> Penalty | None:
        form = "|w|" if self.location == 0.0 else "|w - location|"
        return Penalty("lasso", form, np.broadcast_to(1.0 / (unit * np.asarray(self.scale)), q))
