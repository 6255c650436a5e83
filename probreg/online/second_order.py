"""Learners that remember more than a gradient: recursive least squares, affine projection; and softmax regression."""

from dataclasses import dataclass
from typing import Annotated, Any, ClassVar

import numpy as np
from numpy.typing import ArrayLike

from probreg.arguments.scalars import (
    Count,
    NonNegative,
    Number,
    Positive,
    Several,
    check_fields,
)
from probreg.errors import DataError
from probreg.numerics.linalg import inverse_upper, merge
from probreg.online.learner import Learner, checked_rows, refuse_infinite_loss
from probreg.online.losses import CODE, SQUARED, Loss
from probreg.online.parts import Array, Info, Out, Rate, State, as_tuple


@dataclass(frozen=True)
class RLS(Learner):
    """Exact least squares after every round: the minimiser of sum_t f^(T-t) (w'x_t - y_t)^2 + f^T precision ||w||^2.

    With forgetting f = 1 this is the posterior mean under w ~ N(0, sigma^2 I / precision), y ~ N(w'x, sigma^2), for any
    sigma, and `covariance` times sigma^2 is the posterior covariance. It keeps the triangular factor of the rows seen,
    not the inverse of X'X, so nothing is lost to conditioning. Precision 0 is the flat prior, and weights that the rows
    so far do not determine are then 0.

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

    forgetting: Annotated[float, Number(0.0, 1.0, closed=(False, True))] = 1.0
    precision: NonNegative = 0.0
    loss: ClassVar[Loss] = SQUARED  # type: ignore[misc]

    def __post_init__(self) -> None:
        check_fields(self)

    def init(self, p: int) -> State:
        return State(
            np.zeros(p),
            0,
            {"factor": np.diag(np.r_[np.full(p, np.sqrt(self.precision)), 0.0])},
        )

    @np.errstate(over="ignore", invalid="ignore")  # Diverged says it
    def step(self, state: State, x: ArrayLike, y: float) -> tuple[State, Info]:
        row = checked_rows(self, state, x, y)
        f = float(state.w @ row)
        value = (f - y) ** 2
        refuse_infinite_loss(value, state)
        # F'F <- f F'F + (x, y)(x, y)': the moments of the rows so far, each weighed by f to its age.
        F = merge(
            np.sqrt(self.forgetting) * state.memory["factor"], np.r_[row, y][None]
        )
        return State(_solve_triangle(F), state.t + 1, {"factor": F}), Info(f, value)

    def block(
        self, state: State, X: Array, P: Array, y: Array, out: Out
    ) -> tuple[State, int]:
        from probreg.online import second_order_loops as loops

        w = np.array(state.w)
        F = np.array(state.memory["factor"])
        done = loops.rls_rounds((X, P, y), w, F, float(self.forgetting), as_tuple(out))
        return State(w, state.t + done, {"factor": F}), done

    def covariance(self, state: State) -> Array:
        """(sum of f^(T-t) x x' + f^T precision I)^-1 (p, p): the posterior covariance in units of sigma^2."""
        R = state.memory["factor"][:-1, :-1]
        if np.any(np.diag(R) <= 1e-12 * np.sqrt((R**2).sum(axis=0))):
            raise DataError(
                "the rows so far do not determine all weights: no covariance; give a precision above 0"
            )
        # (R'R)^-1 = R^-1 R^-1'
        T = inverse_upper(R)
        return T @ T.T

    def rss(self, state: State) -> float:
        """The least value of the criterion: the residual sum of squares plus the penalty."""
        return float(state.memory["factor"][-1, -1] ** 2)


def _solve_triangle(F: Array) -> Array:
    R = F[:-1, :-1]
    z = F[:-1, -1]
    w = np.zeros(len(z))
    for k in range(len(z) - 1, -1, -1):
        # w_k = (z_k - sum_(j > k) R_kj w_j) / R_kk
        if R[k, k] > 1e-12 * np.sqrt(R[: k + 1, k] @ R[: k + 1, k]):
            w[k] = (z[k] - R[k, k + 1 :] @ w[k + 1 :]) / R[k, k]
    return w


@dataclass(frozen=True)
class AffineProjection(Learner):
    """Affine projection w += step A' (A A' + eps I)^-1 (b - A w), with A, b the last `order` rows and responses.

    It is NLMS for order 1.

    Parameters
    ----------
    order : int
        Number of rows.
    step_size : float
        Positive.
    eps : float
        Not negative.

    References
    ----------
    Ozeki & Umeda 1984.

    Examples
    --------
    >>> learner = AffineProjection(order=1, step_size=1.0, eps=0.0)
    >>> learner.step(learner.init(2), [3.0, 4.0], 5.0)[0].w
    array([0.6, 0.8])
    """

    order: Count = 5
    step_size: Positive = 0.5
    eps: NonNegative = 1e-3
    loss: ClassVar[Loss] = SQUARED  # type: ignore[misc]

    def __post_init__(self) -> None:
        check_fields(self)

    def init(self, p: int) -> State:
        return State(
            np.zeros(p),
            0,
            {"rows": np.zeros((self.order, p)), "responses": np.zeros(self.order)},
        )

    @np.errstate(over="ignore", invalid="ignore")  # Diverged says it
    def step(self, state: State, x: ArrayLike, y: float) -> tuple[State, Info]:
        row = checked_rows(self, state, x, y)
        f = float(state.w @ row)
        value = (f - y) ** 2
        refuse_infinite_loss(value, state)
        A = np.vstack([row, state.memory["rows"][:-1]])
        b = np.r_[y, state.memory["responses"][:-1]]
        # w += step A'(A A' + eps)^-1 (b - A w): with eps = 0 and step = 1 the nearest w that fits the last rows.
        solved = np.linalg.solve(
            A @ A.T + self.eps * np.eye(self.order), b - A @ state.w
        )
        return State(
            state.w + self.step_size * A.T @ solved,
            state.t + 1,
            {"rows": A, "responses": b},
        ), Info(f, value)

    def block(
        self, state: State, X: Array, P: Array, y: Array, out: Out
    ) -> tuple[State, int]:
        from probreg.online import second_order_loops as loops

        w = np.array(state.w)
        A = np.array(state.memory["rows"])
        b = np.array(state.memory["responses"])
        done = loops.affine(
            (X, P, y),
            w,
            (A, b),
            (float(self.step_size), float(self.eps)),
            as_tuple(out),
        )
        return State(w, state.t + done, {"rows": A, "responses": b}), done


def _softmax(f: Any, y: float, c: float) -> tuple[float, float]:
    # -log h_y = log sum_k exp f_k - f_y
    top = f.max()
    e = np.exp(f - top)
    return float(
        np.log(e.sum()) + top - f[int(y)]
    ), 0.0  # its slope is a vector: see the step


@dataclass(frozen=True)
class Softmax(Learner):
    """Online softmax regression: W (p, K) += -step x (h - e_y)', h = softmax(W'x), y a class code 0 .. K-1.

    The loss of a round is -log h_y; predictions are the K linear predictors.

    Parameters
    ----------
    levels : int
        K.
    rate : Rate
        The step of each round.

    Examples
    --------
    >>> learner = Softmax(2, Rate(1.0))
    >>> learner.step(learner.init(1), [2.0], 1)[0].w
    array([[-1.,  1.]])
    """

    levels: Several
    rate: Rate
    loss: ClassVar[Loss] = Loss("softmax", _softmax, CODE, code=7)  # type: ignore[misc]

    def __post_init__(self) -> None:
        check_fields(self)

    def admits(self, y: Array) -> np.ndarray:
        return self.loss.labels.valid(y) & (y < self.levels)

    def init(self, p: int) -> State:
        return State(np.zeros((p, self.levels)))

    @np.errstate(over="ignore", invalid="ignore")  # Diverged says it
    def step(self, state: State, x: ArrayLike, y: float) -> tuple[State, Info]:
        row = checked_rows(self, state, x, y)
        code = int(y)
        f = row @ state.w
        value = self.loss.at(f, y)[0]
        refuse_infinite_loss(value, state)
        h = np.exp(f - f.max())
        h /= h.sum()
        # d(-log h_y) / d W = x (h - e_y)'
        h[code] -= 1.0
        step = self.rate.at(state.t + 1, 0.0, 0.0)
        return State(state.w - step * np.outer(row, h), state.t + 1), Info(f, value)

    def block(
        self, state: State, X: Array, P: Array, y: Array, out: Out
    ) -> tuple[State, int]:
        from probreg.online import second_order_loops as loops

        w = np.array(state.w)
        knobs = (0.0, float(self.rate.step), float(self.rate.power), 0.0, 0.0, 0.0)
        codes = 7, self.rate.kind, 1, 0, int(P is not X)
        done = loops.softmax_rounds(
            (X, P, y), w, state.t, (codes, knobs), as_tuple(out)
        )
        return State(w, state.t + done), done
