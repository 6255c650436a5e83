"""Recursive least squares."""

from dataclasses import dataclass
from typing import Annotated, ClassVar

import numpy as np
from numpy.typing import ArrayLike

from probreg.arguments.scalars import NonNegative, Number
from probreg.errors import DataError
from probreg.linalg import inverse_upper, merge
from probreg.online.learner import Learner, checked_row, require_finite_loss
from probreg.online.losses import SQUARED, Loss
from probreg.online.updates import Array, Info, RoundArrays, State


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
        # F'F <- f F'F + (x, y)(x, y)': the moments of the rows so far, each weighed by f to its age.
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
