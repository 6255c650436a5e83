"""What a run leaves behind: predictions, losses, weights at chosen times, averages, regret."""

from dataclasses import dataclass, field
from enum import Enum
from functools import cached_property
from typing import Any

import numpy as np
from numpy.typing import ArrayLike

import probreg.online.comparator as hindsight
from probreg.errors import DataError, Incompatible
from probreg.linalg import triangular
from probreg.online.guarantee import Guarantee
from probreg.online.learner import Gradient, Learner
from probreg.online.parts import Array, Euclid, Simplex, State


class Status(Enum):
    """How a run ended; the value is advice to the reader."""

    FINISHED = "every row was seen as often as asked"
    SEPARATED = "stopped after a pass without a mistake: these weights separate the classes"
    BUDGET = "stopped at its last pass with mistakes left: not separable, or more passes are needed"


@dataclass(frozen=True)
class Totals:
    """Sums and extremes over rounds; those of two stretches add up with +.

    largest, smallest: of ||x||^2, met first in a row whose largest value is in `column`. spread: of the values within a
    row. gradient_cost: sum of step_t slope_t^2 ||x_t||^2.
    """

    rounds: int = 0
    loss: float = 0.0
    loss_square: float = 0.0
    mistakes: int = 0
    largest: float = 0.0
    smallest: float = np.inf
    column: int = 0
    spread: float = 0.0
    gradient_cost: float = 0.0

    def __add__(self, other: "Totals") -> "Totals":
        return Totals(
            self.rounds + other.rounds,
            self.loss + other.loss,
            self.loss_square + other.loss_square,
            self.mistakes + other.mistakes,
            max(self.largest, other.largest),
            min(self.smallest, other.smallest),
            other.column if other.largest > self.largest else self.column,
            max(self.spread, other.spread),
            self.gradient_cost + other.gradient_cost,
        )


@dataclass(frozen=True, eq=False)
class Regret:
    """Cumulative loss minus that of one fixed comparator u over the same rounds."""

    value: float
    loss: float
    comparator_loss: float
    comparator: Array


@dataclass(frozen=True, eq=False)
class Path:
    """The rounds of one run. predictions, losses (T,) are empty when rows were not kept; weights (K, p) are those before
    round times[k] + 1, and sums (K, p) the sums of the weights that predicted up to there."""

    learner: Learner
    start: State
    state: State
    predictions: Array
    losses: Array
    times: np.ndarray
    weights: Array
    sums: Array
    totals: Totals
    status: Status
    data: tuple[Array, Array] | None = field(default=None, repr=False)
    factor: Array | None = field(default=None, repr=False)

    @property
    def loss(self) -> float:
        """The cumulative loss of all rounds."""
        return self.totals.loss

    @property
    def mistakes(self) -> int:
        """Rounds that predicted the wrong class."""
        return self.totals.mistakes

    @property
    def cumulative_loss(self) -> Array:
        """The loss suffered up to each round (T,)."""
        return np.cumsum(self.losses)

    @property
    def norms(self) -> Array:
        """||w|| at `times` (K,)."""
        return np.sqrt((self.weights.reshape(len(self.times), -1) ** 2).sum(axis=1))

    def average(self, last: float = 1.0) -> Array:
        """The mean of the weights that made the predictions of the last share of the rounds: online to batch.

        `last` below 1 is suffix averaging (Rakhlin, Shamir & Sridharan 2012), from the recorded time nearest to it.

        >>> from probreg.online import lms, run
        >>> run(lms(0.5), [[1.0], [1.0], [1.0], [1.0]], [1.0, 1.0, 1.0, 1.0]).average(last=0.5)
        array([0.8125])
        """
        if not 0 < last <= 1:
            raise DataError(f"last is {last:g}: need a share in (0, 1]")
        first = int(np.argmin(np.abs(self.times[:-1] - (1 - last) * self.totals.rounds)))
        return (self.sums[-1] - self.sums[first]) / (self.totals.rounds - self.times[first])

    def exponential_average(self, share: float = 0.1) -> Array:
        """The mean of the predicting weights with weights falling by e^-1 over the last `share` of the rounds.

        Within a stretch between two recorded times all rounds weigh the same.
        """
        lengths = np.diff(self.times)
        age = (self.totals.rounds - (self.times[1:] + self.times[:-1]) / 2) / (share * self.totals.rounds)
        means = np.diff(self.sums, axis=0) / lengths.reshape(-1, *[1] * (self.sums.ndim - 1))
        return np.average(means, axis=0, weights=lengths * np.exp(-age))

    @cached_property
    def moments(self) -> Array:
        """The triangular factor F of [X y] over all rounds: F'F holds all the squared loss of any u needs."""
        if self.factor is not None:
            return self.factor
        if self.data is None:
            raise DataError("this stream's rows were not kept, and its loss is not a function of their moments")
        X, y = self.data
        return triangular(X, y).astype(float) * np.sqrt(self.totals.rounds / len(y))

    def loss_of(self, u: ArrayLike) -> float:
        """The loss of fixed weights u over the same rounds."""
        u = np.asarray(u, dtype=float)
        if self.learner.loss.name == "squared":
            return float(np.sum((self.moments @ np.r_[u, -1.0]) ** 2))
        X, y = self.rows()
        value = sum(self.learner.loss.at(f, b)[0] for f, b in zip(X @ u, y))
        return float(value) * self.totals.rounds / len(y)

    def regret(self, comparator: ArrayLike | None = None) -> Regret:
        """The loss suffered minus that of `comparator`, or of the best fixed weights in hindsight.

        These are the best the learner could hold: on the simplex for EG, in its ball for a projected learner. Exact
        for the squared loss of any stream; other losses need the rows, so arrays.

        >>> from probreg.online import lms, run
        >>> round(run(lms(0.5), [[1.0], [1.0]], [1.0, 2.0]).regret().value, 6)
        2.75
        """
        u = self.best() if comparator is None else np.asarray(comparator, dtype=float)
        theirs = self.loss_of(u)
        return Regret(self.loss - theirs, self.loss, theirs, u)

    def best(self) -> Array:
        """The fixed weights with the least loss over the same rounds."""
        if not self.learner.compiles() or self.learner.loss.code in (4, 7):
            raise Incompatible(
                f"no best fixed weights are worked out for the {self.learner.loss.name} loss: pass a comparator"
            )
        held = self.constraint()
        if self.learner.loss.name == "squared":
            return hindsight.least_squares(self.moments, held)
        return hindsight.least_loss(*self.rows(), self.learner.loss, held)

    def constraint(self) -> hindsight.Constraint:
        """Where the learner's weights can lie."""
        g = self.learner.geometry if isinstance(self.learner, Gradient) else Euclid()
        if isinstance(g, Euclid):
            return hindsight.Constraint(g.ball, g.radius)
        if isinstance(g, Simplex):
            return hindsight.Constraint("simplex", 1.0)
        return hindsight.Constraint("l1", g.size) if g.code == 3 else hindsight.Constraint("positive", np.inf)

    def rows(self) -> tuple[Array, Array]:
        """X and y of an array run (of one pass); DataError for a stream, which is not held."""
        if self.data is None:
            raise DataError(f"the rows of a stream are not kept, and the {self.learner.loss.name} loss of u needs them")
        return self.data

    def guarantee(self, comparator: ArrayLike | None = None) -> Guarantee:
        """What the learner's theorem promises for these rounds, against what was suffered; see `Guarantee`."""
        from probreg.online.theorems import guarantee

        return guarantee(self, None if comparator is None else np.asarray(comparator, dtype=float))

    def to_dataset(self) -> Any:
        """An xarray Dataset: prediction, loss, cumulative_loss over `round`, weights and norm over `time`."""
        import xarray as xr

        coef, extra = ("time", "coef", "level")[: self.weights.ndim], ("round", "level")[: self.predictions.ndim]
        content = {
            "weights": (coef, self.weights),
            "norm": ("time", self.norms),
            "average": (coef[1:], self.average()),
        }
        if len(self.losses):
            content |= {
                "prediction": (extra, self.predictions),
                "loss": ("round", self.losses),
                "cumulative_loss": ("round", self.cumulative_loss),
            }
        times = {"time": self.times} | ({"round": np.arange(1, len(self.losses) + 1)} if len(self.losses) else {})
        about = {"learner": repr(self.learner), "status": self.status.value, "mistakes": self.mistakes}
        return xr.Dataset(content, coords=times, attrs=about)
