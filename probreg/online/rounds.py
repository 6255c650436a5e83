"""The rounds of a run: what was seen, predicted and lost, and what fixed weights would have lost in them."""

from dataclasses import dataclass, field, replace
from enum import Enum
from functools import cached_property

import numpy as np
from numpy.typing import ArrayLike

import probreg.online.comparator as hindsight
from probreg.arguments.arrays import floats
from probreg.errors import DataError, Incompatible
from probreg.numerics.linalg import triangular
from probreg.online.experts import Aggregate
from probreg.online.learner import Gradient, Learner
from probreg.online.parts import Array, Euclid, Simplex, State


class RunStatus(Enum):
    """How a run ended; the value is advice to the reader."""

    FINISHED = "every row was seen as often as asked"
    SEPARATED = (
        "stopped after a pass without a mistake: these weights separate the classes"
    )
    BUDGET = "stopped at its last pass with mistakes left: not separable, or more passes are needed"


@dataclass(frozen=True)
class Totals:
    """Sums and extremes over rounds; those of two stretches add up with +.

    largest, smallest: of ||x||^2, met first in a row whose largest value is in `column`. worst: the largest loss of a
    round. spread: of the values within a row. gradient_cost: sum of step_t slope_t^2 ||x_t||^2. normalised: the losses over
    eps + ||x||^2, for a normalised step.
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
    worst: float = 0.0
    normalised: float = 0.0

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
            max(self.worst, other.worst),
            self.normalised + other.normalised,
        )


def normalised_rows(X: Array, y: Array, eps: float) -> tuple[Array, Array]:
    """The rows divided by sqrt(eps + ||x||^2); rows of zeros, from which a normalised step learns nothing, as zeros."""
    size = np.sqrt(eps + (X**2).sum(axis=1))
    part = np.divide(1.0, size, out=np.zeros_like(size), where=size > 0)
    return X * part[:, None], y * part


@dataclass(frozen=True, eq=False)
class Rounds:
    """The rounds of one run, as theorems read them. predictions, losses (T,) are empty when rows were not kept; weights (K, p) are those before
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
    status: RunStatus
    data: tuple[Array, Array] | None = field(default=None, repr=False)
    factor: Array | None = field(default=None, repr=False)
    normalised_factor: Array | None = field(default=None, repr=False)
    passes: int = 1  # begun
    shuffle: int | None = None

    @property
    def loss(self) -> float:
        """The cumulative loss of all rounds."""
        return self.totals.loss

    @property
    def mistakes(self) -> int:
        """Rounds that predicted the wrong class."""
        return self.totals.mistakes

    @cached_property
    def moments(self) -> Array:
        """The triangular factor F of [X y] over all rounds: F'F holds all the squared loss of any u needs."""
        if self.factor is not None:
            return self.factor
        if self.data is None:
            raise DataError(
                "this stream's rows were not kept, and its loss is not a function of their moments"
            )
        X, y = self.data
        return triangular(X, y).astype(float) * np.sqrt(self.totals.rounds / len(y))

    @cached_property
    def normalised_moments(self) -> Array:
        """The same of the rows [x y] / sqrt(eps + ||x||^2), for a learner of normalised steps."""
        if self.normalised_factor is not None:
            return self.normalised_factor
        assert isinstance(self.learner, Gradient)
        X, y = self.rows()
        return triangular(*normalised_rows(X, y, self.learner.rate.eps)).astype(
            float
        ) * np.sqrt(self.totals.rounds / len(y))

    def loss_of(self, u: ArrayLike) -> float:
        """The loss of fixed weights u over the same rounds; of a learner of functions, of f = sum_i u_i k(x_i, .) at its rows."""
        u = floats(u, "u", copy=False)
        if (
            self.learner.grows
            and self.data is not None
            and u.shape == (len(self.data[1]),)
        ):
            X, y = self.data
            f = self.learner.predict(
                replace(self.state, w=u, memory={**self.state.memory, "anchors": X}), X
            )
            return (
                float(self.learner.loss.values(f, y).sum())
                * self.totals.rounds
                / len(y)
            )
        if u.shape != self.weights.shape[1:]:
            raise DataError(
                f"u is one weight per column, shape {self.weights.shape[1:]}, got shape {u.shape}"
            )
        if isinstance(
            self.learner, Aggregate
        ):  # u is one weight per learner: sum_i u_i L_i
            losses = self.state.memory["losses"] - self.start.memory["losses"]
            return float(u @ losses)
        if self.learner.loss.name == "squared":
            return float(np.sum((self.moments @ np.r_[u, -1.0]) ** 2))
        X, y = self.rows()
        value = sum(self.learner.loss.at(f, b)[0] for f, b in zip(X @ u, y))
        return float(value) * self.totals.rounds / len(y)

    def best(self) -> Array:
        """The fixed weights with the least loss over the same rounds."""
        if isinstance(self.learner, Aggregate):
            losses = self.state.memory["losses"] - self.start.memory["losses"]
            return np.eye(len(losses))[np.argmin(losses)]
        if self.learner.grows:
            raise Incompatible(
                "the best of all functions fits every row, whatever its norm: pass a comparator, or see guarantee(), which weighs the norm"
            )
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
        if isinstance(self.learner, Gradient):
            g = self.learner.geometry
        else:
            g = Euclid()
        if isinstance(g, Euclid):
            return hindsight.Constraint(g.ball, g.radius)
        if isinstance(g, Simplex):
            return hindsight.Constraint("simplex", 1.0)
        if g.code == 3:
            return hindsight.Constraint("l1", g.size)
        return hindsight.Constraint("positive", np.inf)

    def rows(self) -> tuple[Array, Array]:
        """X and y of an array run (of one pass); DataError for a stream, which is not held."""
        if self.data is None:
            raise DataError(
                f"the rows of a stream are not kept, and the {self.learner.loss.name} loss of u needs them"
            )
        return self.data

    def rounds(self) -> tuple[Array, Array]:
        """X and y of an array run, row by row as the rounds went: shuffled, and repeated in further passes."""
        X, y = self.rows()
        seeds = [
            None if self.shuffle is None else [self.shuffle, k]
            for k in range(self.passes)
        ]
        order = [
            np.arange(len(y))
            if s is None
            else np.random.default_rng(s).permutation(len(y))
            for s in seeds
        ]
        taken = np.concatenate(order)[: self.totals.rounds]
        return X[taken], y[taken]
