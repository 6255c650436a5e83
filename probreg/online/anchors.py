"""Learners of functions f = sum_j w_j k(a_j, .): the steps of Euclidean learners with k(x, .) in the place of the row x.

The state holds the rows a_j that were met (its anchors, oldest first) and their weights w_j. A row that is an anchor already
moves the weight of that anchor. Inner products of the steps are k(x, z), ||x||^2 is k(x, x), and ||f||^2 = w'Kw.
"""

from abc import abstractmethod
from dataclasses import dataclass
from typing import ClassVar

import numpy as np
from numpy.typing import ArrayLike

from probreg.arguments.arrays import floats
from probreg.arguments.scalars import Count, check_fields
from probreg.errors import DataError, Incompatible
from probreg.kernels.base import CovarianceFunction
from probreg.kernels.pairs import RowPairs
from probreg.online.guarantee import Assumption
from probreg.online.learner import Gradient, Learner, checked_rows, refuse_infinite_loss
from probreg.online.losses import Loss
from probreg.online.parts import ADAGRAD, Array, Euclid, Info, Out, State, as_tuple

CELLS = 2**20  # numbers of a matrix k(rows, anchors) that is made at a time
MOST = 512  # rows of a run that share one


class Anchored(Learner):
    """What all learners of functions share: predictions, norms, rows that are met again, and blocks of rows."""

    kernel: CovarianceFunction
    linear: ClassVar[bool] = False
    grows: ClassVar[bool] = True

    @property
    @abstractmethod
    def flat(self) -> Learner:
        """The learner of columns whose theorems hold for it, with k(x, .) in the place of x."""

    @abstractmethod
    def exact(self, start: State, state: State) -> tuple[Assumption, ...]:
        """What must hold beside the assumptions of `flat` for its rounds to be those of `flat`."""

    @abstractmethod
    def take(
        self, state: State, K: tuple[Array, Array], rows: Array, y: Array, out: Out
    ) -> tuple[State, int]:
        """Compiled steps for the last rows of `rows`, the first being anchors: K = k(those, all rows), k(x, x)."""

    def empty(self, p: int, *counts: str) -> State:
        """The state of no anchors in p columns, with counts of what was left out at 0."""
        return State(
            np.zeros(0),
            0,
            {"anchors": np.zeros((0, p)), **{name: np.zeros(()) for name in counts}},
        )

    def width(self, state: State) -> int:
        return state.memory["anchors"].shape[1]

    def squares(self, X: Array) -> Array:
        # ||k(x, .)||^2 = k(x, x)
        return self.kernel.matrix(RowPairs(X, X, aligned=True))

    def norms(self, state: State, weights: Array) -> Array:
        # ||f||^2 = w'Kw
        A = state.memory["anchors"]
        if len(A):
            K = self.kernel.matrix(RowPairs(A, A))
        else:
            K = np.zeros((0, 0))
        return np.sqrt(
            np.maximum(
                np.einsum("ki,ij,kj->k", weights, K, weights, optimize=True), 0.0
            )
        )

    def predict(self, state: State, X: ArrayLike) -> Array:
        """f(x) = sum_j w_j k(a_j, x) of rows (n, p) or of one row (p,), by the anchors and weights of a state."""
        given = floats(X, "X", copy=False)
        width = self.width(state)
        if given.ndim not in (1, 2) or given.shape[-1] != width:
            raise DataError(
                f"X has shape {given.shape}, and the anchors have {width} columns: need (n, {width})"
            )
        rows = np.atleast_2d(given)
        f = self._kernel_matrix(state, rows) @ state.w
        return f if given.ndim == 2 else f[0]

    def _kernel_matrix(self, state: State, rows: Array) -> Array:
        """k(rows, anchors)."""
        anchors = state.memory["anchors"]
        if len(anchors):
            return self.kernel.finite(RowPairs(rows, anchors))
        return np.zeros((len(rows), 0))

    def block(
        self, state: State, X: Array, P: Array, y: Array, out: Out
    ) -> tuple[State, int]:
        """Matrices of k for some rows at a time, all at once; then their rounds, one by one."""
        good = np.isfinite(np.einsum("ij,ij->i", X, X))
        n = len(y) if good.all() else int(np.argmin(good))
        done = 0
        while done < n:
            anchors = state.memory["anchors"]
            some = slice(
                done, min(n, done + max(16, min(MOST, CELLS // (len(anchors) + MOST))))
            )
            own = X[some]
            K = np.hstack(
                [
                    self._kernel_matrix(state, own),
                    self.kernel.finite(RowPairs(own, own)),
                ]
            )
            here = Out(
                out.prediction[some],
                out.loss[some],
                out.slope[some],
                out.square[some],
                out.total,
            )
            state, taken = self.take(
                state, (K, self.squares(own)), np.vstack([anchors, own]), y[some], here
            )
            done += taken
            if taken < len(own):
                break
        return state, done


def room_for(a: Array, size: int) -> Array:
    """A copy of a (n,) with zeros behind it up to `size` entries."""
    return np.concatenate([a, np.zeros(size - len(a))])


@dataclass(frozen=True)
class KernelGradient(Anchored):
    """Gradient steps f += -a (slope k(x, .) + ridge f), with the loss and the rate of `base`.

    Parameters
    ----------
    base : Gradient
        Its geometry is Euclidean.
    kernel : CovarianceFunction
        k.
    budget : int, optional
        The most anchors that are kept: the oldest is dropped where there would be more.
    """

    base: Gradient
    kernel: CovarianceFunction
    budget: Count | None = None

    def __post_init__(self) -> None:
        check_fields(self)
        g = self.base.geometry
        rate = self.base.rate
        if not isinstance(g, Euclid):
            raise Incompatible(
                f"kernel: the steps of {type(g).__name__} are in each weight by itself, and a function has no columns; "
                "take a Euclidean learner such as lms"
            )
        if rate.kind == ADAGRAD:
            raise Incompatible(
                "kernel: AdaGrad scales each column by itself, and a function has none; take another rate"
            )
        held = g.radius < np.inf
        if held and g.ball == "l1":
            raise Incompatible(
                "kernel: an l1 ball is of the weights of columns; take Euclid(radius), the ball ||f|| <= radius"
            )
        if held and (self.base.batch > 1 or self.budget is not None):
            raise Incompatible(
                "kernel: a ball goes with neither batches nor a budget here; decay (ridge) goes with both"
            )

    @property
    def loss(self) -> Loss:  # type: ignore[override]
        return self.base.loss

    @property
    def rule(self) -> Gradient | None:
        return self.base

    @property
    def flat(self) -> Learner:
        return self.base

    @property
    def conservative(self) -> bool:  # type: ignore[override]
        return self.base.conservative

    @property
    def _radius(self) -> float:
        return self.base.geometry.size

    def exact(self, start: State, state: State) -> tuple[Assumption, ...]:
        if self.budget is None:
            return ()
        dropped = float(state.memory["dropped"] - start.memory["dropped"])
        return (Assumption("the budget drops no anchor", dropped, dropped == 0),)

    def init(self, p: int) -> State:
        state = self.empty(p, "dropped", *["square"] * (self._radius < np.inf))
        if self.base.batch > 1:
            state.memory["pending"] = np.zeros(0)  # type: ignore[index]
        return state

    @np.errstate(over="ignore", invalid="ignore")  # Diverged says it
    def step(self, state: State, x: ArrayLike, y: ArrayLike) -> tuple[State, Info]:
        row = checked_rows(self, state, x, y)
        t = state.t + 1
        rule = self.base
        anchors = state.memory["anchors"]
        memory = dict(state.memory)
        # f_t(x) = sum_j w_j k(a_j, x)
        f = float(self._kernel_matrix(state, row[None])[0] @ state.w)
        q = float(self.squares(row[None])[0])
        value, slope = self.loss.at(f, y)
        refuse_infinite_loss(value + q, state)
        a = rule.rate.at(t, q, value)
        # f <- f - a (l'(f(x)) k(x, .) + ridge f): the weights of all anchors shrink, that of x moves by -a l'.
        moves = a * slope != 0
        same = np.flatnonzero((anchors == row).all(axis=1))
        place = int(same[0]) if len(same) else len(anchors)
        if moves and place == len(anchors):
            memory["anchors"] = np.vstack([anchors, row])
        w = room_for(state.w, len(memory["anchors"]))
        direction = a * rule.ridge * w
        if moves:
            direction[place] += a * slope
        if rule.batch > 1:
            pending = room_for(memory["pending"], len(w)) + direction
            due = t % rule.batch == 0
            if due:
                memory["pending"] = np.zeros_like(pending)
            else:
                memory["pending"] = pending
            if due:
                direction = pending
            else:
                direction = np.zeros_like(pending)
        w = w - direction
        if "square" in memory:
            # |(1 - c) f - b k(x, .)|^2 = (1 - c)^2 |f|^2 - 2 (1 - c) b f(x) + b^2 k(x, x); then onto the ball
            left = 1.0 - a * rule.ridge
            b = a * slope
            square = left**2 * float(memory["square"]) - 2.0 * left * b * f + b * b * q
            if square > 0:
                part = min(1.0, self._radius / np.sqrt(square))
            else:
                part = 1.0
            w, memory["square"] = part * w, np.array(part**2 * square)
        if self.budget is not None and len(w) > self.budget:
            w, memory["dropped"] = w[1:], memory["dropped"] + 1
            memory |= {
                name: memory[name][1:]
                for name in ("anchors", "pending")
                if name in memory
            }
        return State(w, t, memory), Info(f, value)

    def take(
        self, state: State, K: tuple[Array, Array], rows: Array, y: Array, out: Out
    ) -> tuple[State, int]:
        from probreg.online import anchored_loops as loops

        memory = dict(state.memory)
        size = len(rows)
        q0 = len(state.w)
        w = room_for(state.w, size)
        pending = room_for(memory.get("pending", np.zeros(q0)), size)
        total = room_for(out.total[:q0], size)
        used = np.arange(size) < q0
        numbers = np.array([float(memory.get("square", 0.0)), 0.0])
        y, sizes = self.loss.split(y)
        rate = self.base.rate
        codes = (self.loss.code, self.base.rate.kind, self.base.batch, 0, 0)
        knobs = tuple(
            float(v)
            for v in (
                self.loss.c,
                rate.step,
                rate.power,
                rate.eps,
                self.base.ridge,
                self._radius,
            )
        )
        arrays = (w, pending, total, used, numbers)
        budget = 0 if self.budget is None else self.budget
        done = loops.anchored_gradient(
            K, rows, (y, sizes), arrays, state.t, (codes, knobs), budget, as_tuple(out)
        )
        memory["anchors"] = rows[used]
        if "pending" in memory:
            memory["pending"] = pending[used]
        if "square" in memory:
            memory["square"] = numbers[:1].reshape(())
        memory["dropped"] = memory["dropped"] + numbers[1]
        out.total[: used.sum()] = total[used]
        return State(w[used], state.t + done, memory), done
