"""An online learner is a pair of pure functions: init(p) -> state, and step(state, x, y) -> (state, info).

The prediction of a round is always made before its y is used. `block` is the same as many steps, compiled.
"""

from abc import ABC, abstractmethod
from dataclasses import dataclass
from typing import Any, ClassVar

import numpy as np
from numpy.typing import ArrayLike

from probreg.arguments.arrays import floats
from probreg.arguments.scalars import Count, NonNegative, check_fields
from probreg.errors import DataError, NotConverged
from probreg.online.losses import SQUARED, Loss
from probreg.online.parts import (
    ADAGRAD,
    IMPLICIT,
    NORMALISED,
    PASSIVE,
    PLAIN,
    Array,
    Euclid,
    Geometry,
    Info,
    Out,
    Rate,
    Setup,
    State,
    as_tuple,
)


class StreamError(DataError):
    """A row that no learner can use; `state` is the state after the row before it, from which a run can go on."""

    def __init__(self, message: str, state: State) -> None:
        super().__init__(message)
        self.state = state


class Diverged(NotConverged):
    """A loss too large for a number; `state` is the last one with finite weights."""

    def __init__(self, message: str, state: State) -> None:
        super().__init__(message)
        self.state = state


class Learner(ABC):
    """What predicts f = w'x, suffers a loss and updates; its classes are frozen values."""

    loss: Loss
    conservative: ClassVar[bool] = False
    linear: ClassVar[bool] = True  # whether it predicts w'x, with one weight per column
    # whether rounds add weights: those of a function, at rows that were met
    grows: ClassVar[bool] = False

    @property
    def title(self) -> str:
        """The name of the learner in the field."""
        return type(self).__name__

    @property
    def rule(self) -> "Gradient | None":
        """The gradient steps that it takes, None for a learner of another kind."""
        return None

    @abstractmethod
    def init(self, p: int) -> State:
        """The state before the first of a stream of rows with p columns."""

    @abstractmethod
    def step(self, state: State, x: ArrayLike, y: Any) -> tuple[State, Info]:
        """The state after one more round, and what happened in it. The state given is left as it was.

        Raises DataError for a row of another width, a value that is missing, or a y the loss is not defined for;
        Diverged when the loss is not finite.
        """

    @abstractmethod
    def block(
        self, state: State, X: Array, P: Array, y: Array, out: Out
    ) -> tuple[State, int]:
        """Steps for the rows of X (n, p), compiled: the state after them and how many were taken before a loss was
        not finite. Predictions reported are made from P (X itself unless a scaler stands before)."""

    def predict(self, state: State, X: ArrayLike) -> Array:
        """The linear predictor X w of rows (n, p) or of one row (p,) by the weights of a state."""
        return floats(X, "X", copy=False) @ state.w

    def width(self, state: State) -> int:
        """The columns of the rows that a state is for."""
        return state.w.shape[0]

    def squares(self, X: Array) -> Array:
        """||x||^2 of rows (n, p), in the space where the steps are taken."""
        return np.einsum("ij,ij->i", X, X)

    def norms(self, state: State, weights: Array) -> Array:
        """||w|| (K,) of weights (K, ...) of earlier rounds, those of `state` among them."""
        return np.sqrt((weights.reshape(len(weights), -1) ** 2).sum(axis=1))

    def objection(self, state: State, x: Array) -> str | None:
        """Why it cannot go on with a row of finite numbers, where that is no matter of its loss."""
        return None

    def compiles(self) -> bool:
        """Whether `block` can run: not for a loss of your own."""
        return self.loss.code >= 0

    def admits(self, y: Array) -> np.ndarray:
        """Which values of y this learner can learn from."""
        return self.loss.labels.valid(y)


def checked_rows(learner: Learner, state: State, x: ArrayLike, y: ArrayLike) -> Array:
    """x as an array, after the checks a pure step makes."""
    row = floats(x, "x", copy=False)
    width = learner.width(state)
    if row.shape != (width,):
        raise DataError(
            f"round {state.t + 1}: x has shape {row.shape}, but the weights are for {width} columns"
        )
    if not np.isfinite(row @ row):
        j = int(np.argmax(~np.isfinite(row)))
        raise DataError(
            f"round {state.t + 1}: column {j} of x is {row[j]:g}; drop or repair that row"
        )
    if not learner.admits(np.array([y], dtype=float))[0]:
        raise DataError(
            f"round {state.t + 1}: y is {shown_response(y)}, but this learner needs {learner.loss.labels.advice}"
        )
    return row


def shown_response(y: ArrayLike) -> str:
    """One response in words: a number, or successes and trials.

    >>> shown_response(2.0), shown_response([3.0, 2.0])
    ('2', '(3, 2)')
    """
    return (
        f"{float(y):g}"  # type: ignore[arg-type]
        if np.ndim(y) == 0
        else f"({', '.join(f'{v:g}' for v in np.asarray(y))})"
    )


def refuse_infinite_loss(value: float, state: State) -> None:
    """Diverged unless the loss of a round is a finite number."""
    if not np.isfinite(value):
        raise Diverged(
            f"the loss of round {state.t + 1} is {value:g}: take a smaller step or scale the columns",
            state,
        )


@dataclass(frozen=True)
class Gradient(Learner):
    """Online (sub)gradient or mirror descent: theta += -a (slope x + ridge w), w = w(theta), the sum over `batch` rounds.

    Parameters
    ----------
    loss : Loss
        What a round costs.
    rate : Rate
        The multiplier a.
    geometry : Geometry
        The map from theta to w.
    ridge : float
        It adds ridge ||w||^2 / 2 to every round's loss (in units where the squared loss is (f - y)^2 / 2).
    batch : int
        Rounds that share a step.

    References
    ----------
    Shalev-Shwartz 2012, Online learning and online convex optimization.

    Examples
    --------
    >>> from probreg.online import SQUARED, Euclid, constant
    >>> learner = Gradient(SQUARED, constant(1 / 20), Euclid())
    >>> state, info = learner.step(State(np.array([1.0, 1.0])), [1.0, 2.0], 5.0)
    >>> info.loss, state.w
    (4.0, array([1.1, 1.2]))
    """

    loss: Loss
    rate: Rate
    geometry: Geometry = Euclid()  # noqa: RUF009  a frozen value
    ridge: NonNegative = 0.0
    batch: Count = 1

    def __post_init__(self) -> None:
        check_fields(self)
        if self.rate.kind == IMPLICIT and self.loss.code != SQUARED.code:
            raise DataError(
                f"the implicit step is written for the squared loss, not for {self.loss.name!r}"
            )
        extras = self.ridge != 0 or self.batch != 1 or self.rate.kind == ADAGRAD
        if extras and not isinstance(self.geometry, Euclid):
            raise DataError(
                "AdaGrad, ridge and batches go with the Euclidean geometry only"
            )

    @property
    def title(self) -> str:
        """The name that the literature has for the loss, the step and the geometry.

        >>> from probreg.online import HINGE, constant, descent, lms, nlms
        >>> lms(0.1).title, nlms(0.1).title, descent(HINGE, constant(0.1)).title
        ('least mean squares', 'normalised least mean squares', 'gradient descent on the hinge loss')
        """
        squared = self.loss.code == SQUARED.code
        mistakes = self.loss.name == "perceptron"
        if self.rate.kind == PASSIVE:
            return "passive-aggressive"
        if not isinstance(self.geometry, Euclid):
            if mistakes:
                return "Winnow"
            return "exponentiated gradient" + (
                "" if squared else f" on the {self.loss.name} loss"
            )
        if mistakes:
            if self.batch == 1:
                return "perceptron"
            return f"perceptron in batches of {self.batch}"
        if squared and self.bare and self.rate.kind != ADAGRAD:
            return {NORMALISED: "normalised ", IMPLICIT: "implicit "}.get(
                self.rate.kind, ""
            ) + "least mean squares"
        if self.rate.kind == ADAGRAD:
            how = "AdaGrad"
        else:
            how = "gradient descent"
        return f"{how} on the {self.loss.name} loss"

    @property
    def rule(self) -> "Gradient | None":
        return self

    @property
    def conservative(self) -> bool:  # type: ignore[override]  # here it depends on the loss
        return self.loss.name == "perceptron" and self.ridge == 0

    @property
    def bare(self) -> bool:
        """Whether the update is w += -a slope x and nothing else."""
        g = self.geometry
        additive = isinstance(g, Euclid) and g.radius == np.inf
        return (
            additive
            and self.ridge == 0
            and self.batch == 1
            and self.rate.kind != ADAGRAD
        )

    def init(self, p: int) -> State:
        theta = self.geometry.start(p)
        if not isinstance(self.geometry, Euclid):
            return State(self.geometry.weights(theta), 0, {"theta": theta})
        names = ["squares"] * (self.rate.kind == ADAGRAD) + ["pending"] * (
            self.batch > 1
        )
        return State(theta, 0, {name: np.zeros(p) for name in names})

    @np.errstate(over="ignore", invalid="ignore")  # Diverged says it
    def step(self, state: State, x: ArrayLike, y: ArrayLike) -> tuple[State, Info]:
        row = checked_rows(self, state, x, y)
        t = state.t + 1
        # f_t = w_t'x_t, before y_t is used.
        f = float(state.w @ row)
        value, slope = self.loss.at(f, y)
        refuse_infinite_loss(value, state)
        # g = l'(f) x + ridge w, theta <- theta - a g.
        g = slope * row + self.ridge * state.w
        a = self.rate.at(t, float(row @ row), value)
        memory = {}
        if self.rate.kind == ADAGRAD:
            # g_j / (eps + (sum_(s <= t) g_sj^2)^(1/2))   (Duchi, Hazan & Singer 2011)
            memory["squares"] = state.memory["squares"] + g * g
            g = g / (self.rate.eps + np.sqrt(memory["squares"]))
        direction = a * g
        if self.batch > 1:
            pending = state.memory["pending"] + direction
            due = t % self.batch == 0
            if due:
                memory["pending"] = np.zeros_like(pending)
            else:
                memory["pending"] = pending
            if due:
                direction = pending
            else:
                direction = np.zeros_like(pending)
        if isinstance(self.geometry, Euclid):
            moved = State(self.geometry.move(state.w, direction), state.t + 1, memory)
        else:
            # Mirror descent: theta <- theta - a g, w = w(theta)   (Shalev-Shwartz 2012).
            theta = self.geometry.move(state.memory["theta"], direction)
            moved = State(self.geometry.weights(theta), state.t + 1, {"theta": theta})
        return moved, Info(f, value)

    def block(
        self, state: State, X: Array, P: Array, y: Array, out: Out
    ) -> tuple[State, int]:
        from probreg.online import first_order_loops as loops

        w = on_cache_line(state.w)
        s = self._setup(P is not X)
        kept = as_tuple(out)
        memory = {name: np.array(a) for name, a in state.memory.items()}
        y, sizes = self.loss.split(y)
        if self.bare and P is X:
            done = loops.plain_step(X, y, sizes, w, state.t, s, kept)
        elif isinstance(self.geometry, Euclid):
            squares, pending = (
                memory.get(k, np.zeros_like(w)) for k in ("squares", "pending")
            )
            done = loops.euclid(
                (X, P, y), sizes, w, (squares, pending), state.t, s, kept
            )
        else:
            done = loops.mirror(
                (X, P, y),
                sizes,
                w,
                memory["theta"],
                state.t,
                self.geometry.code,
                s,
                kept,
            )
        return State(w, state.t + done, memory), done

    def _setup(self, again: bool) -> Setup:
        g = self.geometry
        r = self.rate
        l1 = isinstance(g, Euclid) and g.ball == "l1"
        step, power, eps, ridge, size = (
            float(v) for v in (r.step, r.power, r.eps, self.ridge, g.size)
        )
        codes = self.loss.code, r.kind, self.batch, int(l1), int(again)
        return codes, (float(self.loss.c), step, power, eps, ridge, size)


def on_cache_line(a: Array) -> Array:
    """A copy of a (p,) that starts where a line of cache does: weights that straddle lines are read and written at half the speed."""
    room = np.empty(a.size + 8)
    start = -room.ctypes.data // 8 % 8
    out = room[start : start + a.size]
    out[:] = a
    return out


def fixed_step(learner: Learner) -> float | None:
    """The step of a learner that moves by the same multiple of each gradient, else None."""
    rule = learner.rule
    plain = rule is not None and rule.rate.kind == PLAIN and rule.rate.power == 0
    if plain and rule is not None:
        return rule.rate.step
    return None
