"""Aggregation of experts: one forecast from those of several learners, nearly as good as the best of them in hindsight."""

from collections.abc import Mapping
from dataclasses import dataclass, replace
from typing import ClassVar, Literal

import numpy as np
from numpy.typing import ArrayLike
from scipy.special import logsumexp

from probreg.arguments.arrays import floats
from probreg.arguments.scalars import Flag, Real, check_fields
from probreg.errors import DataError, Incompatible
from probreg.online.learner import Learner, StreamError, checked_rows
from probreg.online.losses import SQUARED, Labels, Loss
from probreg.online.parts import Array, Info, Out, State

ROUND_OFF = 1e-9  # of high - low, by which a forecast may leave [low, high] and is taken as its end


@dataclass(frozen=True)
class Aggregate(Learner):
    """One forecast from those of N learners, each of which learns from every row: weights w_i proportional to exp(-rate L_i).

    mixing "vovk": rate 2 / (high - low)^2 and the forecast (low + high) / 2 - (g(high) - g(low)) / (2 (high - low)), with
    g(y) = -log(sum_i w_i exp(-rate (f_i - y)^2)) / rate. mixing "mean": rate 1 / (2 (high - low)^2) and the forecast sum_i w_i f_i.

    Parameters
    ----------
    learners : tuple of Learner
        Two or more. The forecast of a logistic one is its probability.
    low, high : float
        What y and every forecast lies between.
    mixing : {"vovk", "mean"}
        How forecasts become one.
    clip : bool
        Whether a forecast outside is moved to the nearer end; else it is an error.

    References
    ----------
    Vovk 1998; Cesa-Bianchi & Lugosi 2006, sections 3.3 and 3.6.
    """

    learners: tuple[Learner, ...]
    low: Real = 0.0
    high: Real = 1.0
    mixing: Literal["vovk", "mean"] = "vovk"
    clip: Flag = False
    linear: ClassVar[bool] = False

    def __post_init__(self) -> None:
        check_fields(self)
        if not self.low < self.high:
            raise DataError(
                f"low is {self.low:g} and high {self.high:g}: y lies between them, so low must be less"
            )
        if len(self.learners) < 2:
            raise DataError(
                f"learners holds {len(self.learners)}: aggregation is of two or more"
            )
        for i, a in enumerate(self.learners):
            if not isinstance(a, Learner):
                raise DataError(
                    f"learners[{i}] is a Learner of probreg.online, got {type(a).__name__}"
                )
            if a.loss.labels.kind in ("code", "trials"):
                raise Incompatible(
                    f"learners[{i}] has the {a.loss.name} loss, whose forecast is not one number for one y: leave it out"
                )

    @property
    def loss(self) -> Loss:  # type: ignore[override]
        """The squared loss, of y in [low, high]."""
        low = self.low
        high = self.high
        others = sorted(
            {
                a.loss.labels.advice
                for a in self.learners
                if a.loss.labels.kind != "real"
            }
        )
        advice = "; and ".join(
            [f"numbers from {low:g} to {high:g}, as low and high say", *others]
        )
        return replace(
            SQUARED,
            labels=Labels("bounded", lambda y: (y >= low) & (y <= high), advice),
        )

    @property
    def rate(self) -> float:
        """The rate of the weights."""
        # the largest for which some forecast is no worse than the mixture; for which (f - y)^2 is exp-concave in f
        return (2.0 if self.mixing == "vovk" else 0.5) / (self.high - self.low) ** 2

    def admits(self, y: Array) -> np.ndarray:
        return np.logical_and.reduce(
            [self.loss.labels.valid(y), *(a.admits(y) for a in self.learners)]
        )

    def compiles(self) -> bool:
        return all(a.compiles() for a in self.learners)

    def init(self, p: int) -> State:
        N = len(self.learners)
        return self._join_states(np.zeros(N), [a.init(p) for a in self.learners], 0)

    def width(self, state: State) -> int:
        return self.learners[0].width(self._state(state, 0))

    def _join_states(self, losses: Array, states: list[State], t: int) -> State:
        """Join the losses (N,) and the states of the learners in one state, with parts named 0.w, 0.anchors ..."""
        memory = {
            f"{i}.{name}": a
            for i, s in enumerate(states)
            for name, a in {"w": s.w, **s.memory}.items()
        }
        return State(self._exponential_weights(losses), t, {"losses": losses, **memory})

    def _state(self, state: State, i: int) -> State:
        """That of learner i."""
        own: Mapping[str, Array] = {
            name.removeprefix(f"{i}."): a
            for name, a in state.memory.items()
            if name.startswith(f"{i}.")
        }
        return State(
            own["w"], state.t, {name: a for name, a in own.items() if name != "w"}
        )

    def _exponential_weights(self, losses: Array) -> Array:
        # w_i = exp(-rate L_i) / sum_j exp(-rate L_j), row by row
        scores = -self.rate * losses
        return np.exp(scores - logsumexp(scores, axis=-1, keepdims=True))

    def _mix_forecasts(self, w: Array, F: Array) -> Array:
        """Mix the forecasts (n, N) of the learners by their weights."""
        if self.mixing == "mean":
            return np.sum(w * F, axis=-1)
        # exp(-rate g(y)) = sum_i w_i exp(-rate (f_i - y)^2); a forecast p with (p - y)^2 <= g(y) at both ends has it between them
        low, high = (
            -logsumexp(-self.rate * (F - y) ** 2, b=w, axis=-1) / self.rate
            for y in (self.low, self.high)
        )
        return np.asarray(
            (self.low + self.high) / 2 - (high - low) / (2 * (self.high - self.low))
        )

    def _clip_forecasts(self, F: Array) -> Array:
        """Clip forecasts (n, N) to [low, high]; NaN where one is outside and clipping is off."""
        if self.clip:
            slack = np.inf
        else:
            slack = ROUND_OFF * (self.high - self.low)
        inside = np.maximum(self.low - F, F - self.high) <= slack
        return np.where(inside, np.clip(F, self.low, self.high), np.nan)

    def _forecasts(self, state: State, X: Array) -> Array:
        """Those of the learners (n, N), as they are."""
        each = [
            a.loss.mean(a.predict(self._state(state, i), X))
            for i, a in enumerate(self.learners)
        ]
        return np.stack(each, axis=-1)

    def objection(self, state: State, x: Array) -> str | None:
        F = self._forecasts(state, x[None])[0]
        bad = np.isnan(self._clip_forecasts(F))
        if not bad.any():
            return None
        i = int(np.argmax(bad))
        return (
            f"the forecast of learners[{i}] is {F[i]:g}, outside [{self.low:g}, {self.high:g}]: widen the range, or "
            "clip=True for the nearer end"
        )

    def predict(self, state: State, X: ArrayLike) -> Array:
        """The forecasts for rows (n, p) or for one row (p,) by the learners and weights of a state."""
        rows = np.atleast_2d(given := floats(X, "X", copy=False))
        held = self._clip_forecasts(self._forecasts(state, rows))
        bad = np.flatnonzero(np.isnan(held).any(axis=1))
        if len(bad):
            raise DataError(f"row {bad[0]}: {self.objection(state, rows[bad[0]])}")
        mixed = self._mix_forecasts(state.w, held)
        return mixed if given.ndim == 2 else mixed[0]

    def step(self, state: State, x: ArrayLike, y: float) -> tuple[State, Info]:
        row = checked_rows(self, state, x, y)
        F = self._clip_forecasts(self._forecasts(state, row[None]))[0]
        if np.isnan(F).any():
            raise StreamError(
                f"round {state.t + 1}: {self.objection(state, row)}", state
            )
        f = float(self._mix_forecasts(state.w, F))
        moved = [
            a.step(self._state(state, i), row, y)[0]
            for i, a in enumerate(self.learners)
        ]
        return self._join_states(
            state.memory["losses"] + (F - y) ** 2, moved, state.t + 1
        ), Info(f, (f - y) ** 2)

    def block(
        self, state: State, X: Array, P: Array, y: Array, out: Out
    ) -> tuple[State, int]:
        """Every learner through the block, then the weights of all its rounds at once; again up to a row where one stops."""
        starts = [self._state(state, i) for i in range(len(self.learners))]
        n = len(y)
        while True:
            runs = [
                self._run_learner(a, s, X[:n], y[:n])
                for a, s in zip(self.learners, starts, strict=True)
            ]
            F = self._clip_forecasts(np.stack([f for _, f in runs], axis=-1)[:n])
            bad = np.isnan(F).any(axis=1)
            stop = int(np.argmax(bad)) if bad.any() else n
            if stop == n:
                break
            n = stop
        # L_i before each round, and its weights
        losses = np.cumsum(
            np.vstack([state.memory["losses"], (F - y[:n, None]) ** 2]), axis=0
        )
        w = self._exponential_weights(losses)
        f = self._mix_forecasts(w[:-1], F)
        out.prediction[:n], out.loss[:n], out.slope[:n] = f, (f - y[:n]) ** 2, f - y[:n]
        out.square[:n] = self.squares(X[:n])
        out.total[...] += w[:-1].sum(axis=0)
        return self._join_states(losses[-1], [s for s, _ in runs], state.t + n), n

    def _run_learner(
        self, a: Learner, start: State, X: Array, y: Array
    ) -> tuple[State, Array]:
        """Run one learner over rows; return its state and forecasts, NaN from the row where it stopped."""
        n = len(y)
        if a.grows:
            total = np.zeros(len(start.w) + n)
        else:
            total = np.zeros_like(start.w)
        kept = Out(np.full(n, np.nan), np.empty(n), np.empty(n), np.empty(n), total)
        state, done = a.block(start, X, X, y, kept)
        kept.prediction[done:] = np.nan
        return state, a.loss.mean(kept.prediction)
