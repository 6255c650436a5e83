"""An online learner: init(p) -> state, and step(state, x, y) -> (state, info), both without side effects; recursive least squares.

The prediction of a round is made before its y is used. `block` takes many steps at once, compiled where it can be.
"""

from abc import ABC, abstractmethod
from dataclasses import dataclass
from typing import Annotated, ClassVar

import numpy as np
from numpy.typing import ArrayLike

from probreg.arguments.arrays import floats
from probreg.arguments.scalars import NonNegative, Number, check_fields
from probreg.errors import DataError, NotConverged, ProbregError
from probreg.linalg import inverse_upper, merge
from probreg.online.updates import (
    IMPLICIT,
    NORMALISED,
    PERCEPTRON,
    PLAIN,
    SQUARED,
    Array,
    Euclid,
    Geometry,
    Info,
    Loss,
    Rate,
    RoundArrays,
    State,
)


class _RunError(ProbregError):
    """An error with the state of the learner before it; a run can continue from this state."""

    def __init__(self, message: str, state: State) -> None:
        super().__init__(message)
        self.state = state


class StreamError(_RunError, DataError):
    """A row that the learner cannot use; a run can continue from `state`, the state before that row."""


class Diverged(_RunError, NotConverged):  # noqa: N818
    """A loss that overflows; `state` is the last state with finite weights."""


class Learner(ABC):
    """A learner that predicts f, has a loss, and updates its state; subclasses are frozen values."""

    loss: Loss
    # whether rounds can add weights, as for functions; otherwise the prediction is w'x, with one weight per column
    grows: ClassVar[bool] = False
    __post_init__ = check_fields

    @property
    def title(self) -> str:
        """The name of the learner in the field."""
        return type(self).__name__

    @property
    def rule(self) -> "Gradient | None":
        """The gradient steps that it takes, None for another kind of learner."""
        return None

    @property
    def conservative(self) -> bool:
        """Whether the weights only change after mistakes."""
        rule = self.rule
        return rule is not None and rule.loss.function is PERCEPTRON.function

    @abstractmethod
    def init(self, p: int) -> State:
        """Return the state before the first row of a stream with p columns."""

    @abstractmethod
    def step(self, state: State, x: ArrayLike, y: float) -> tuple[State, Info]:
        """Return the state after one more round, and that round's prediction and loss. It leaves `state` unchanged.

        Raises DataError for a row with a wrong width, a missing value, or a y where the loss is not defined;
        Diverged if the loss is not finite.
        """

    def block(
        self, state: State, X: Array, y: Array, arrays: RoundArrays
    ) -> tuple[State, int]:
        """Take a step for each row of X (n, p) and fill `arrays`.

        Returns the last state and the number of steps before a row or a loss that is not finite.
        """
        squares = self.squares(X)
        for i in range(len(y)):
            if not np.isfinite(squares[i]):
                return state, i
            try:
                after, info = self.step(state, X[i], y[i])
            except (Diverged, DataError):
                return state, i
            arrays.square[i] = squares[i]
            arrays.prediction[i], arrays.loss[i] = info
            arrays.slope[i] = self.loss.at(info.prediction, y[i])[1]
            arrays.total[: len(state.w)] += state.w
            state = after
        return state, len(y)

    def predict(self, state: State, X: ArrayLike) -> Array:
        """Return the prediction Xw of rows (n, p) or of one row (p,)."""
        return self._read_rows(state, X) @ state.w

    def _read_rows(self, state: State, X: ArrayLike) -> Array:
        """Return X as an array (n, p) or (p,)."""
        rows = floats(X, "X", copy=False)
        width = self.width(state)
        if rows.ndim not in (1, 2) or rows.shape[-1] != width:
            raise DataError(
                f"X has shape {rows.shape}: expected (n, {width}), the columns of the learner's state"
            )
        return rows

    def width(self, state: State) -> int:
        """Return the number of columns of the rows."""
        return state.w.shape[0]

    def squares(self, X: Array) -> Array:
        """Return ||x||^2 of rows (n, p), in the space of the steps."""
        return np.einsum("ij,ij->i", X, X)


def checked_row(learner: Learner, state: State, x: ArrayLike, y: float) -> Array:
    """Return x as an array after the checks of a step."""
    row = floats(x, "x", copy=False)
    width = learner.width(state)
    if row.shape != (width,):
        raise DataError(
            f"round {state.t + 1}: x has shape {row.shape}, but the learner's state has {width} columns"
        )
    if not np.isfinite(row @ row):
        j = largest_entry(row)
        raise DataError(
            f"round {state.t + 1}: column {j} of x is {row[j]:g}; drop or repair that row"
        )
    if not learner.loss.labels.valid(np.array([y], dtype=float))[0]:
        raise DataError(
            f"y is {y:g}, but this learner needs {learner.loss.labels.advice}"
        )
    return row


def largest_entry(row: Array) -> int:
    """Return the column with the largest absolute value; nan counts as the largest."""
    return int(np.argmax(np.abs(row)))  # the first nan, if there is one


def require_finite_loss(value: float, state: State) -> None:
    """Raise Diverged unless the loss of a round is a finite number."""
    if not np.isfinite(value):
        raise Diverged(
            f"the loss of round {state.t + 1} is {value:g}: take a smaller step or scale the columns",
            state,
        )


@dataclass(frozen=True)
class Gradient(Learner):
    """Online (sub)gradient or mirror descent: theta += -a slope x, w = w(theta).

    Parameters
    ----------
    loss : Loss
        The loss of a round.
    rate : Rate
        The multiplier a.
    geometry : Geometry
        The map from theta to w.

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

    def __post_init__(self) -> None:
        check_fields(self)
        if self.rate.kind == IMPLICIT and self.loss.function is not SQUARED.function:
            raise DataError(
                f"loss={self.loss.name!r}: the implicit step needs the squared loss"
            )

    @property
    def title(self) -> str:
        """The name of the algorithm in the literature.

        >>> from probreg.online import HINGE, constant, descent, lms, nlms
        >>> lms(0.1).title, nlms(0.1).title, descent(HINGE, constant(0.1)).title
        ('least mean squares', 'normalised least mean squares', 'gradient descent on the hinge loss')
        """
        squared = self.loss.function is SQUARED.function
        if not isinstance(self.geometry, Euclid):
            suffix = "" if squared else f" on the {self.loss.name} loss"
            return "exponentiated gradient" + suffix
        if self.conservative:
            return "perceptron"
        if squared and self.bare:
            prefix = {NORMALISED: "normalised ", IMPLICIT: "implicit "}
            return prefix.get(self.rate.kind, "") + "least mean squares"
        return f"gradient descent on the {self.loss.name} loss"

    @property
    def rule(self) -> "Gradient | None":
        return self

    @property
    def bare(self) -> bool:
        """Whether the update is w += -a slope x and nothing else."""
        return isinstance(self.geometry, Euclid) and self.geometry.radius == np.inf

    def init(self, p: int) -> State:
        return self._state(self.geometry.start(p), 0)

    def _state(self, theta: Array, t: int) -> State:
        if isinstance(self.geometry, Euclid):
            return State(theta, t)
        return State(self.geometry.weights(theta), t, {"theta": theta})

    @np.errstate(over="ignore", invalid="ignore")  # require_finite_loss checks
    def step(self, state: State, x: ArrayLike, y: float) -> tuple[State, Info]:
        row = checked_row(self, state, x, y)
        t = state.t + 1
        # f_t = w_t'x_t, before y_t is used.
        f = float(state.w @ row)
        value, slope = self.loss.at(f, y)
        require_finite_loss(value, state)
        a = self.rate.at(t, float(row @ row))
        # Mirror descent: theta <- theta - a l'(f) x, w = w(theta)   (Shalev-Shwartz 2012).
        theta = state.memory.get("theta", state.w)
        theta = self.geometry.move(theta, a * (slope * row))
        return self._state(theta, t), Info(f, value)

    def block(
        self, state: State, X: Array, y: Array, arrays: RoundArrays
    ) -> tuple[State, int]:
        from probreg.online import loops

        w = np.array(state.w)
        memory = {name: np.array(a) for name, a in state.memory.items()}
        rate, geometry = self.rate, self.geometry
        codes = (self.loss.code, rate.kind)
        numbers = (self.loss.c, rate.step, rate.power, rate.eps, geometry.size)
        n_steps = loops.gradient_rounds(
            X,
            y,
            w,
            memory.get("theta", w),
            state.t,
            isinstance(geometry, Euclid),
            (codes, tuple(map(float, numbers))),
            tuple(arrays),
        )
        return State(w, state.t + n_steps, memory), n_steps


def fixed_step(learner: Learner) -> float | None:
    """Return the step of a learner with a constant plain rate, else None."""
    rule = learner.rule
    if rule is not None and rule.rate.kind == PLAIN and rule.rate.power == 0:
        return rule.rate.step
    return None


@dataclass(frozen=True)
class RLS(Learner):
    """Exact least squares after every round: the minimiser of sum_t f^(T-t) (w'x_t - y_t)^2 + f^T precision ||w||^2.

    With forgetting f = 1 this is the posterior mean under w ~ N(0, sigma^2 I / precision), y ~ N(w'x, sigma^2), for any
    sigma, and `covariance` times sigma^2 is the posterior covariance. It keeps the triangular factor of the rows seen,
    not the inverse of X'X, so that ill-conditioned rows lose no digits. Precision 0 is the flat prior; weights that the rows
    do not determine yet are then 0.

    Parameters
    ----------
    forgetting : float
        f, above 0 and at most 1.
    precision : float
        Not negative.

    References
    ----------
    Haykin, Adaptive Filter Theory (square-root RLS).

    Examples
    --------
    >>> learner = RLS(precision=1.0)
    >>> state, _ = learner.step(learner.init(1), [2.0], 5.0)
    >>> state.w, learner.covariance(state)
    (array([2.]), array([[0.2]]))
    """

    forgetting: Annotated[
        float, Number(0.0, 1.0, (1.0,), "a number above 0 and at most 1")
    ] = 1.0
    precision: NonNegative = 0.0
    loss: ClassVar[Loss] = SQUARED  # type: ignore[misc]

    @property
    def title(self) -> str:
        """The name of the algorithm in the literature."""
        return "recursive least squares"

    def init(self, p: int) -> State:
        return State(
            np.zeros(p),
            0,
            {"factor": np.diag(np.r_[np.full(p, np.sqrt(self.precision)), 0.0])},
        )

    @np.errstate(over="ignore", invalid="ignore")  # require_finite_loss checks
    def step(self, state: State, x: ArrayLike, y: float) -> tuple[State, Info]:
        row = checked_row(self, state, x, y)
        f = float(state.w @ row)
        value = (f - y) ** 2
        require_finite_loss(value, state)
        # F'F <- f F'F + (x, y)(x, y)': the moments of the rows so far, each with the weight f^age.
        F = merge(
            np.sqrt(self.forgetting) * state.memory["factor"], np.r_[row, y][None]
        )
        return State(_solve_triangle(F), state.t + 1, {"factor": F}), Info(f, value)

    def block(
        self, state: State, X: Array, y: Array, arrays: RoundArrays
    ) -> tuple[State, int]:
        from probreg.online import loops

        w = np.array(state.w)
        F = np.array(state.memory["factor"])
        n_steps = loops.rls_rounds(X, y, w, F, float(self.forgetting), tuple(arrays))
        return State(w, state.t + n_steps, {"factor": F}), n_steps

    def covariance(self, state: State) -> Array:
        """Return the posterior covariance in units of sigma^2, (sum of f^(T-t) x x' + f^T precision I)^-1 (p, p)."""
        R = state.memory["factor"][:-1, :-1]
        if np.any(np.diag(R) <= 1e-12 * np.sqrt((R**2).sum(axis=0))):
            raise DataError(
                "no covariance: the rows so far do not determine all weights; take precision > 0"
            )
        # (R'R)^-1 = R^-1 R^-1'
        T = inverse_upper(R)
        return T @ T.T


def _solve_triangle(F: Array) -> Array:
    """Return w from R w = z of F = [R z; 0 .]; a weight that the rows do not determine is 0."""
    R = F[:-1, :-1]
    z = F[:-1, -1]
    w = np.zeros(len(z))
    for k in range(len(z) - 1, -1, -1):
        # w_k = (z_k - sum_(j > k) R_kj w_j) / R_kk
        if R[k, k] > 1e-12 * np.sqrt(R[: k + 1, k] @ R[: k + 1, k]):
            w[k] = (z[k] - R[k, k + 1 :] @ w[k + 1 :]) / R[k, k]
    return w
