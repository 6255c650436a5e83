"""No prior at all: the posterior mode is the maximum likelihood estimate."""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from probreg.errors import DataError
from probreg.priors.base import (
    PRIORS,
    Array,
    GaussianPrior,
    Generator,
    PymcVariable,
    Shape,
)


@PRIORS.register
@dataclass(frozen=True)
class Flat(GaussianPrior):
    """The flat prior p(beta) ∝ 1, improper: the normal prior of infinite scale, log p = 0.

    Examples
    --------
    >>> float(Flat().log_prob(np.ones((3, 1))))
    0.0
    """

    name = "flat"
    proper = False

    def rescale_stated(self, factor: float) -> "Flat":
        return self

    def part(self, places: Sequence[int]) -> "Flat":
        return self

    def log_prob(self, beta: Array, unit: Array | float = 1.0) -> Array:
        return np.zeros(beta.shape[:-2])

    def sample(
        self,
        rng: Generator,
        shape: Shape,
        unit: Array | float = 1.0,
    ) -> Array:
        raise DataError(
            "a flat prior is improper and has no draws; name a proper prior for these columns"
        )

    def precision(self, q: int) -> Array:
        return np.zeros((q, q))

    def independent(self, q: int) -> Array | None:
        return np.full(q, np.inf)

    def pymc(self, unit: Any = 1.0) -> PymcVariable:
        import pymc as pm

        return pm.Flat, {}
