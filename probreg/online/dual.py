"""Support vector regression without offset, by steps in the dual variable of each row as it comes."""

from dataclasses import dataclass, replace

import numpy as np
from numpy.typing import ArrayLike

from probreg.arguments.scalars import NonNegative, Positive, check_fields
from probreg.kernels.base import CovarianceFunction
from probreg.online.anchors import Anchored, room_for
from probreg.online.guarantee import Assumption
from probreg.online.learner import Learner, checked_rows, refuse_infinite_loss
from probreg.online.losses import Loss, insensitive
from probreg.online.parts import Array, Info, Out, State, as_tuple


@dataclass(frozen=True)
class DualSVR(Anchored):
    """Ascent in the dual of ||f||^2 / 2 + C sum max(0, |y - f(x)| - eps), f = sum (up_j - down_j) k(a_j, .).

    The row of the round moves its two variables by steps clipped to [0, C]. A row that is met again, x and y alike, moves the
    variables that it has.

    Parameters
    ----------
    kernel : CovarianceFunction
        k.
    C : float
        Positive.
    eps : float
        Not negative, in units of y.
    step_size : float, optional
        Positive; 1 / k(x, x) without it, the exact maximum in one variable.

    References
    ----------
    Mohri, Rostamizadeh & Talwalkar 2018, section 11.3.
    """

    kernel: CovarianceFunction
    C: Positive = 1.0
    eps: NonNegative = 0.1
    step_size: Positive | None = None

    def __post_init__(self) -> None:
        check_fields(self)

    @property
    def loss(self) -> Loss:  # type: ignore[override]
        return insensitive(self.eps)

    @property
    def flat(self) -> Learner:
        return self

    def exact(self, start: State, state: State) -> tuple[Assumption, ...]:
        again = float(state.memory["again"] - start.memory["again"])
        return (
            Assumption(
                "no row came back that had moved its variables", again, again == 0
            ),
        )

    def init(self, p: int) -> State:
        state = self.empty(p, "again")
        return State(
            state.w,
            0,
            {**state.memory, **{k: np.zeros(0) for k in ("responses", "up", "down")}},
        )

    @np.errstate(over="ignore", invalid="ignore")  # Diverged says it
    def step(self, state: State, x: ArrayLike, y: float) -> tuple[State, Info]:
        row = checked_rows(self, state, x, y)
        old = state.memory
        f = float(self._kernel_matrix(state, row[None])[0] @ state.w)
        q = float(self.squares(row[None])[0])
        value = self.loss.at(f, y)[0]
        refuse_infinite_loss(value + q, state)
        same = np.flatnonzero(
            (old["anchors"] == row).all(axis=1) & (old["responses"] == y)
        )
        m = len(state.w)
        j = int(same[0]) if len(same) else m
        up, down = (room_for(old[k], max(m, j + 1)) for k in ("up", "down"))
        # up += min(max(step (y - f - eps), -up), C - up), and down with f - y: slopes of the dual, clipped to [0, C].
        if self.step_size is None:
            step = 1.0 / q if q > 0 else 0.0
        else:
            step = self.step_size
        up[j] += min(max(step * (y - f - self.eps), -up[j]), self.C - up[j])
        down[j] += min(max(step * (f - y - self.eps), -down[j]), self.C - down[j])
        if j == m and up[j] == 0 and down[j] == 0:
            return replace(state, t=state.t + 1), Info(f, value)
        memory = {**old, "up": up, "down": down, "again": old["again"] + (j < m)}
        if j == m:
            memory |= {
                "anchors": np.vstack([old["anchors"], row]),
                "responses": np.append(old["responses"], y),
            }
        return State(up - down, state.t + 1, memory), Info(f, value)

    def take(
        self, state: State, K: tuple[Array, Array], rows: Array, y: Array, out: Out
    ) -> tuple[State, int]:
        from probreg.online import anchored_loops as loops

        old = state.memory
        size = len(rows)
        m = len(state.w)
        up = room_for(old["up"], size)
        down = room_for(old["down"], size)
        total = room_for(out.total[:m], size)
        used = np.arange(size) < m
        again = np.zeros(1)
        responses = np.concatenate([old["responses"], y])
        if self.step_size is None:
            step = -1.0
        else:
            step = self.step_size
        arrays = (up, down, total, used, again)
        knobs = (float(self.C), float(self.eps), float(step))
        done = loops.anchored_dual(K, rows, responses, arrays, knobs, as_tuple(out))
        out.total[: used.sum()] = total[used]
        kept = {
            "anchors": rows[used],
            "responses": responses[used],
            "up": up[used],
            "down": down[used],
        }
        return State(
            (up - down)[used],
            state.t + done,
            {**kept, "again": old["again"] + again[0]},
        ), done
