"""Running standardisation as a part that stands before any learner."""

from dataclasses import dataclass, replace
from typing import Any

import numpy as np
from numpy.typing import ArrayLike

from probreg.arguments.arrays import floats
from probreg.arguments.scalars import Real, check_fields
from probreg.errors import DataError, Incompatible
from probreg.online.learner import Learner
from probreg.online.parts import Array, Info, Out, State

OWN = ("mean", "square", "count")


@dataclass(frozen=True)
class Standardised(Learner):
    """A learner of columns scaled to mean 0 and population sd 1 by the rows so far.

    Each round predicts with the moments of the rows before it, lets the row join them, and learns from the row as
    scaled by the new ones. Weights are in units of the scaled columns; `coefficients` gives them in raw units.

    Parameters
    ----------
    learner : Learner
        What learns.
    constant : float
        The value of a column appended after scaling (0: none). Its weight times that value is the intercept, and moves
        constant^2 times as fast as at value 1.

    Examples
    --------
    >>> from probreg.online import lms
    >>> learner = Standardised(lms(0.1), constant=1.0)
    >>> state, info = learner.step(learner.init(1), [7.0], 3.0)
    >>> info.prediction, learner.coefficients(state)
    (0.0, (array([0.]), 0.30000000000000004))
    """

    learner: Learner
    constant: Real = 0.0

    def __post_init__(self) -> None:
        check_fields(self)
        if not self.learner.linear:
            raise Incompatible(
                "Standardised is for learners of columns: rows and forecasts that others keep would not move with the scale; "
                "scale the columns beforehand"
            )

    @property
    def loss(self):  # type: ignore[no-untyped-def,override]
        return self.learner.loss

    @property
    def conservative(self) -> bool:  # type: ignore[override]
        return False  # the scaler moves even where the learner stays

    def admits(self, y: Array) -> np.ndarray:
        return self.learner.admits(y)

    def init(self, p: int) -> State:
        inner = self.learner.init(p + (self.constant != 0))
        own = {"mean": np.zeros(p), "square": np.zeros(p), "count": np.zeros(())}
        return replace(inner, memory={**inner.memory, **own})

    def width(self, state: State) -> int:
        return len(state.memory["mean"])

    @np.errstate(over="ignore", invalid="ignore")  # Diverged says it
    def step(self, state: State, x: ArrayLike, y: ArrayLike) -> tuple[State, Info]:
        row = floats(x, "x", copy=False)
        if row.shape != state.memory["mean"].shape:
            raise DataError(
                f"round {state.t + 1}: x has shape {row.shape}, but the scaler is for {self.width(state)} columns"
            )
        report = self.predict(state, row)
        f: Any = float(report) if report.ndim == 0 else report
        mean, square, count = (state.memory[k] for k in OWN)
        # mean_t = mean_(t-1) + d / t, M_t = M_(t-1) + d (x - mean_t)   (Welford 1962).
        d = row - mean
        moved = mean + d / (count + 1)
        own = {"mean": moved, "square": square + d * (row - moved), "count": count + 1}
        learnt, _ = self.learner.step(
            _inner_state(state), self._standardise_rows(own, row), y
        )
        return replace(learnt, memory={**learnt.memory, **own}), Info(
            f, self.loss.at(f, y)[0]
        )

    def _standardise_rows(self, own: "dict[str, Array]", X: Array) -> Array:
        sd = np.sqrt(own["square"] / np.maximum(own["count"], 1.0))
        Z = np.where(sd > 0, (X - own["mean"]) / np.where(sd > 0, sd, 1.0), 0.0)
        return self._append_constant(Z)

    def _append_constant(self, Z: Array) -> Array:
        if self.constant == 0:
            return Z
        return np.concatenate([Z, np.full((*Z.shape[:-1], 1), self.constant)], axis=-1)

    def predict(self, state: State, X: ArrayLike) -> Array:
        return self.learner.predict(
            _inner_state(state),
            self._standardise_rows(dict(state.memory), floats(X, "X", copy=False)),
        )

    def block(
        self, state: State, X: Array, P: Array, y: Array, out: Out
    ) -> tuple[State, int]:
        from probreg.online import second_order_loops as loops

        mean, square, count = (np.array(state.memory[k]) for k in OWN)
        before = np.empty_like(X)
        after = np.empty_like(X)
        loops.standardise(X, mean, square, float(count), before, after)
        learnt, done = self.learner.block(
            _inner_state(state),
            self._append_constant(after),
            self._append_constant(before),
            y,
            out,
        )
        if done < len(y):
            mean = np.array(state.memory["mean"])
            square = np.array(state.memory["square"])
            loops.standardise(X[:done], mean, square, float(count), before, after)
        own = {"mean": mean, "square": square, "count": count + done}
        return replace(learnt, memory={**learnt.memory, **own}), done

    def coefficients(self, state: State) -> tuple[Array, float]:
        """Weights (p,) and intercept in units of the raw columns."""
        mean, square, count = (state.memory[k] for k in OWN)
        sd = np.sqrt(square / np.maximum(count, 1.0))
        # w'(x - mean) / sd + w_0 c = (w / sd)'x + (w_0 c - (w / sd)'mean).
        scaled = state.w[: len(mean)]
        raw = np.where(sd > 0, scaled / np.where(sd > 0, sd, 1.0), 0.0)
        if self.constant:
            last = self.constant * float(state.w[-1])
        else:
            last = 0.0
        return raw, last - float(raw @ mean)


def _inner_state(state: State) -> State:
    return replace(
        state, memory={k: v for k, v in state.memory.items() if k not in OWN}
    )
