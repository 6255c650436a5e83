"""The rounds of a run: totals, predictions, losses, and the loss of fixed weights over the same rounds."""

from dataclasses import dataclass, field
from enum import Enum
from functools import cached_property

import numpy as np
from numpy.typing import ArrayLike

import probreg.online.guarantee as hindsight
from probreg.arguments.arrays import floats
from probreg.errors import DataError, Incompatible
from probreg.linalg import triangular
from probreg.online.learner import Learner
from probreg.online.updates import LOGISTIC, SQUARED, Array, Euclid, State


class RunStatus(Enum):
    """How a run ended, with a description."""

    FINISHED = "finished all passes"
    SEPARATED = (
        "stopped after a pass without a mistake: these weights separate the classes"
    )
    BUDGET = "mistakes in the last pass: not separable, or more passes are needed"


@dataclass(frozen=True)
class Totals:
    """Sums and extremes over rounds; the totals of two stretches add up with +.

    largest: the largest ||x||^2, and `column` the largest value of this row. worst: the largest loss of a round. spread: the
    range of the values within a row. gradient_cost: sum of step_t slope_t^2 ||x_t||^2.
    """

    rounds: int = 0
    loss: float = 0.0
    mistakes: int = 0
    largest: float = 0.0
    column: int = 0
    spread: float = 0.0
    gradient_cost: float = 0.0
    worst: float = 0.0

    def __add__(self, other: "Totals") -> "Totals":
        return Totals(
            self.rounds + other.rounds,
            self.loss + other.loss,
            self.mistakes + other.mistakes,
            max(self.largest, other.largest),
            other.column if other.largest > self.largest else self.column,
            max(self.spread, other.spread),
            self.gradient_cost + other.gradient_cost,
            max(self.worst, other.worst),
        )


@dataclass(frozen=True, eq=False)
class Rounds:
    """The rounds of one run; theorems compute their bounds from them.

    predictions, losses (T,) are empty if rows were not recorded; weights (K, p) are the weights before round times[k] + 1,
    and sums (K, p) the sums of the weights of all predictions before that round.
    """

    learner: Learner
    start: State
    state: State
    predictions: Array
    losses: Array
    times: np.ndarray
    weights: Array
    sums: Array
    totals: Totals
    status: RunStatus
    data: tuple[Array, Array] | None = field(default=None, repr=False)
    factor: Array | None = field(default=None, repr=False)
    passes: int = 1  # begun
    shuffle: int | None = None

    @property
    def loss(self) -> float:
        """The cumulative loss."""
        return self.totals.loss

    @property
    def mistakes(self) -> int:
        """The number of rounds with a wrong class."""
        return self.totals.mistakes

    @cached_property
    def moments(self) -> Array:
        """The triangular factor F of [X y] over all rounds: the squared loss of any u is |F (u, -1)|^2."""
        if self.factor is not None:
            return self.factor
        X, y = self.rows()
        return triangular(X, y).astype(float) * np.sqrt(self.totals.rounds / len(y))

    def loss_of(self, u: ArrayLike) -> float:
        """Return the loss of fixed weights u over the same rounds; for a learner of functions, of f = sum_i u_i k(x_i, .)."""
        u = floats(u, "u", copy=False)
        learner = self.learner
        if not learner.grows and u.shape != self.weights.shape[1:]:
            raise DataError(
                f"u has shape {u.shape}: expected one weight per column, {self.weights.shape[1:]}"
            )
        if not learner.grows and learner.loss.function is SQUARED.function:
            return float(np.sum((self.moments @ np.r_[u, -1.0]) ** 2))
        X, y = self.rows()
        f = learner.predict(State(u, 0, {"anchors": X}), X)
        return float(learner.loss.values(f, y).sum()) * self.totals.rounds / len(y)

    def best(self) -> Array:
        """Return the fixed weights with the least loss over the same rounds."""
        loss = self.learner.loss
        if self.learner.grows:
            raise Incompatible(
                "no best function: without a bound on its norm, a function fits every row; pass a comparator, or use guarantee()"
            )
        geometry = getattr(self.learner, "geometry", Euclid())
        if loss.function is SQUARED.function:
            return hindsight.least_squares(self.moments, geometry)
        if loss.function is LOGISTIC.function:
            return hindsight.least_logistic(*self.rows(), geometry)
        raise Incompatible(
            f"the best fixed weights are not available for the {loss.name} loss: pass a comparator"
        )

    def rows(self) -> tuple[Array, Array]:
        """Return X and y of an array run (one pass); raise DataError for a stream."""
        if self.data is None:
            raise DataError(
                f"the {self.learner.loss.name} loss of u needs the rows, and the rows of a stream are not kept: pass arrays"
            )
        return self.data

    @property
    def order(self) -> np.ndarray:
        """The row of each round of an array run over all passes; a run that ended early used the first of them."""
        n = len(self.rows()[1])
        return np.concatenate(
            [pass_order(n, self.shuffle, k) for k in range(self.passes)]
        )


def pass_order(n: int, shuffle: int | None, k: int) -> np.ndarray:
    """Return the order of n rows in pass k."""
    if shuffle is None:
        return np.arange(n)
    return np.random.default_rng([shuffle, k]).permutation(n)
