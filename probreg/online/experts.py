"""Aggregation of experts: one forecast from those of several learners, nearly as good as the best of them in hindsight."""

from dataclasses import dataclass, replace
from typing import ClassVar

import numpy as np
from numpy.typing import ArrayLike
from scipy.special import logsumexp, softmax

from probreg.arguments.arrays import floats
from probreg.arguments.scalars import Real, check_fields
from probreg.errors import DataError
from probreg.online.learner import Learner, checked_row
from probreg.online.losses import SQUARED, Labels, Loss
from probreg.online.updates import Array, Info, State


@dataclass(frozen=True)
class Aggregate(Learner):
    """Vovk's aggregating algorithm: weights w_i proportional to exp(-rate L_i), with rate = 2 / (high - low)^2.

    Its forecast is (low + high) / 2 - (g(high) - g(low)) / (2 (high - low)), with
    g(y) = -log(sum_i w_i exp(-rate (f_i - y)^2)) / rate. A forecast f_i outside [low, high] is moved to the nearer end.

    Parameters
    ----------
    learners : tuple of Learner
        Two or more. The forecast of a logistic one is its probability.
    low : float
        The least value of y.
    high : float
        The largest value of y.

    References
    ----------
    Vovk 1998; Cesa-Bianchi & Lugosi 2006, section 3.6.
    """

    learners: tuple[Learner, ...]
    low: Real = 0.0
    high: Real = 1.0
    linear: ClassVar[bool] = False

    def __post_init__(self) -> None:
        check_fields(self)
        if not self.low < self.high:
            raise DataError(
                f"low={self.low:g}, high={self.high:g}: expected low < high"
            )
        if len(self.learners) < 2:
            raise DataError(
                f"learners has {len(self.learners)} entry: expected two or more"
            )
        for i, learner in enumerate(self.learners):
            if not isinstance(learner, Learner):
                raise DataError(
                    f"learners[{i}] is {type(learner).__name__}: expected a Learner of probreg.online"
                )

    @property
    def loss(self) -> Loss:  # type: ignore[override]
        """The squared loss, of y in [low, high]."""
        low = self.low
        high = self.high
        advice = f"numbers from {low:g} to {high:g} (low= and high=)"
        labels = Labels("bounded", lambda y: (y >= low) & (y <= high), advice)
        return replace(SQUARED, labels=labels)

    @property
    def rate(self) -> float:
        """The rate of the weights: the largest for which some forecast is as good as the mixture."""
        return 2.0 / (self.high - self.low) ** 2

    def admits(self, y: Array) -> np.ndarray:
        valid = [learner.admits(y) for learner in self.learners]
        return np.logical_and.reduce([self.loss.labels.valid(y), *valid])

    def compiles(self) -> bool:
        return False

    def init(self, p: int) -> State:
        n = len(self.learners)
        states = tuple(learner.init(p) for learner in self.learners)
        return State(np.full(n, 1 / n), 0, {"losses": np.zeros(n), "states": states})

    def width(self, state: State) -> int:
        return self.learners[0].width(state.memory["states"][0])

    def mix_forecasts(self, w: Array, forecasts: Array) -> Array:
        """Return one forecast from those of the learners (n, N) and their weights."""
        # exp(-rate g(y)) = sum_i w_i exp(-rate (f_i - y)^2); a forecast p with (p - y)^2 <= g(y) at both ends has it between them
        low, high = (
            -logsumexp(-self.rate * (forecasts - y) ** 2, b=w, axis=-1) / self.rate
            for y in (self.low, self.high)
        )
        return np.asarray(
            (self.low + self.high) / 2 - (high - low) / (2 * (self.high - self.low))
        )

    def _forecasts(self, state: State, X: Array) -> Array:
        """Return the forecasts of the learners (n, N), in [low, high]."""
        forecasts = [
            learner.loss.mean(learner.predict(learner_state, X))
            for learner, learner_state in zip(
                self.learners, state.memory["states"], strict=True
            )
        ]
        return np.clip(np.stack(forecasts, axis=-1), self.low, self.high)

    def predict(self, state: State, X: ArrayLike) -> Array:
        """Return the forecasts for rows (n, p) or for one row (p,)."""
        new = floats(X, "X", copy=False)
        mixed = self.mix_forecasts(state.w, self._forecasts(state, np.atleast_2d(new)))
        return mixed if new.ndim == 2 else mixed[0]

    def step(self, state: State, x: ArrayLike, y: float) -> tuple[State, Info]:
        row = checked_row(self, state, x, y)
        forecasts = self._forecasts(state, row[None])[0]
        f = float(self.mix_forecasts(state.w, forecasts))
        states = tuple(
            learner.step(learner_state, row, y)[0]
            for learner, learner_state in zip(
                self.learners, state.memory["states"], strict=True
            )
        )
        losses = state.memory["losses"] + (forecasts - y) ** 2
        memory = {"losses": losses, "states": states}
        # w_i = exp(-rate L_i) / sum_j exp(-rate L_j)
        w = np.asarray(softmax(-self.rate * losses))
        return State(w, state.t + 1, memory), Info(f, (f - y) ** 2)
