"""Priors that are known only once they meet rows."""

from typing import Any

import numpy as np

from probreg.errors import DataError
from probreg.priors.base import Array, Penalty, Prior


class DataDependentPrior(Prior):
    """A prior that has no density until it meets rows: it only says what it becomes there."""

    @property
    def size(self) -> int | None:
        return None

    @property
    def data_dependent(self) -> bool:
        return True

    def _not_yet(self) -> DataError:
        return DataError(
            f"{self!r} says what it is when it meets rows: a Model binds it (model.joint), or .prepare(rows)"
        )

    def log_prob(self, beta: Array, unit: Array | float = 1.0) -> Array:
        raise self._not_yet()

    def sample(self, rng: np.random.Generator, shape: tuple[int, ...], unit: Array | float = 1.0) -> Array:
        raise self._not_yet()

    def pymc(self, unit: Any = 1.0) -> tuple[Any, dict[str, Any]]:
        raise self._not_yet()

    def as_penalty(self, q: int, unit: float = 1.0) -> Penalty | None:
        raise self._not_yet()
