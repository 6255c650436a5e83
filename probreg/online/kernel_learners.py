"""Learners of functions f = sum_j w_j k(a_j, .): kernel gradient steps and kernel recursive least squares.

The state holds the rows a_j (the anchors, oldest first) and their weights w_j. In the steps of a Euclidean learner k(x, .)
takes the place of the row x: inner products are k(x, z), ||x||^2 is k(x, x), and ||f||^2 = w'Kw.
"""

from abc import abstractmethod
from dataclasses import dataclass
from typing import ClassVar

import numpy as np
from numpy.typing import ArrayLike

from probreg.arguments.arrays import floats
from probreg.arguments.scalars import Positive, check_fields
from probreg.errors import Incompatible
from probreg.kernels.base import CovarianceFunction
from probreg.kernels.pairs import RowPairs
from probreg.linalg import solve_upper
from probreg.online.learner import (
    Gradient,
    Learner,
    StreamError,
    checked_row,
    require_finite_loss,
)
from probreg.online.losses import SQUARED, Loss
from probreg.online.second_order import RLS
from probreg.online.updates import Array, Euclid, Info, RoundArrays, State


class KernelLearner(Learner):
    """A learner of functions: its predictions, and k(x, x) in the place of ||x||^2."""

    kernel: CovarianceFunction
    grows: ClassVar[bool] = True

    @property
    @abstractmethod
    def flat(self) -> Learner:
        """The learner of columns with the same steps, to which the theorems apply."""

    @property
    def title(self) -> str:
        """The name of the learner with the name of its kernel."""
        return f"{self.flat.title} with the kernel {type(self.kernel).__name__}"

    def width(self, state: State) -> int:
        return state.memory["anchors"].shape[1]

    def squares(self, X: Array) -> Array:
        # ||k(x, .)||^2 = k(x, x)
        return self.kernel.matrix(RowPairs(X, X, aligned=True))

    def predict(self, state: State, X: ArrayLike) -> Array:
        """Return f(x) = sum_j w_j k(a_j, x) for rows (n, p) or for one row (p,)."""
        new = self._read_rows(state, X)
        f = self._kernel_matrix(state, np.atleast_2d(new)) @ state.w
        return f if new.ndim == 2 else f[0]

    def _kernel_matrix(self, state: State, rows: Array) -> Array:
        """Return k(rows, anchors)."""
        anchors = state.memory["anchors"]
        if len(anchors):
            return self.kernel.finite(RowPairs(rows, anchors))
        return np.zeros((len(rows), 0))


@dataclass(frozen=True)
class KernelGradient(KernelLearner):
    """Gradient steps f += -a slope k(x, .), with the loss and the rate of `base`.

    Parameters
    ----------
    base : Gradient
        Without a ball.
    kernel : CovarianceFunction
        k.
    """

    base: Gradient
    kernel: CovarianceFunction

    def __post_init__(self) -> None:
        check_fields(self)
        geometry = self.base.geometry
        if not isinstance(geometry, Euclid):
            raise Incompatible(
                f"base has the geometry {type(geometry).__name__}, which updates each column separately; a kernel needs a "
                "Euclidean learner such as lms"
            )
        if geometry.radius < np.inf:
            raise Incompatible(
                "base has a ball, which a kernel learner does not support"
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

    def init(self, p: int) -> State:
        return State(np.zeros(0), 0, {"anchors": np.zeros((0, p))})

    @np.errstate(over="ignore", invalid="ignore")  # require_finite_loss checks
    def step(self, state: State, x: ArrayLike, y: float) -> tuple[State, Info]:
        row = checked_row(self, state, x, y)
        t = state.t + 1
        anchors = state.memory["anchors"]
        # f_t(x) = sum_j w_j k(a_j, x)
        f = float(self._kernel_matrix(state, row[None])[0] @ state.w)
        q = float(self.squares(row[None])[0])
        value, slope = self.loss.at(f, y)
        require_finite_loss(value + q, state)
        # f <- f - a l'(f(x)) k(x, .): the weight of x moves by -a l'.
        a = self.base.rate.at(t, q)
        w = state.w.copy()
        if a * slope != 0:
            equal_rows = np.flatnonzero((anchors == row).all(axis=1))
            if len(equal_rows):
                w[equal_rows[0]] -= a * slope
            else:
                anchors = np.vstack([anchors, row])
                w = np.append(w, -a * slope)
        return State(w, t, {"anchors": anchors}), Info(f, value)


@dataclass(frozen=True)
class KernelRLS(KernelLearner):
    """The f that minimises sum (f(x_t) - y_t)^2 + precision ||f||^2, after every round: the mean of a Gaussian process.

    State: every row so far, S with SS' = K + precision I, and z = S^-1 y, from which the weights are S'^-1 z.

    Parameters
    ----------
    kernel : CovarianceFunction
        k.
    precision : float
        Positive: the noise variance over that of the process, if k is its covariance up to a factor.
    """

    kernel: CovarianceFunction
    precision: Positive = 1.0
    loss: ClassVar[Loss] = SQUARED  # type: ignore[misc]

    @property
    def flat(self) -> Learner:
        return RLS(precision=self.precision)

    def init(self, p: int) -> State:
        memory = {
            "anchors": np.zeros((0, p)),
            "chol": np.zeros((0, 0)),
            "z": np.zeros(0),
        }
        return State(np.zeros(0), 0, memory)

    @np.errstate(over="ignore", invalid="ignore")  # require_finite_loss checks
    def step(self, state: State, x: ArrayLike, y: float) -> tuple[State, Info]:
        row = checked_row(self, state, x, y)
        arrays = RoundArrays.of(1, np.zeros(len(state.w) + 1))
        after, n_steps = self._extend(state, row[None], np.array([float(y)]), arrays)
        if not n_steps:
            raise StreamError(
                f"K + {self.precision:g} I is not positive definite with this row: take a larger precision",
                state,
            )
        require_finite_loss(float(arrays.loss[0]), state)
        return after, Info(float(arrays.prediction[0]), float(arrays.loss[0]))

    def block(
        self, state: State, X: Array, y: Array, arrays: RoundArrays
    ) -> tuple[State, int]:
        n = len(y)
        finite = np.isfinite(np.einsum("ij,ij->i", X, X))
        if not finite.all():
            n = int(np.argmin(finite))
        size = 256  # rows whose steps share one triangular solve
        for start in range(0, n, size):
            rows = slice(start, min(start + size, n))
            state, n_steps = self._extend(state, X[rows], y[rows], arrays.select(rows))
            if n_steps < rows.stop - start:
                return state, start + n_steps
        return state, n

    def _extend(
        self, state: State, X: Array, y: Array, arrays: RoundArrays
    ) -> tuple[State, int]:
        """Take the steps of some rows at once, up to the first that rounding makes dependent on the others."""
        from scipy.linalg.lapack import dpotrf

        S = state.memory["chol"]
        z = state.memory["z"]
        m = len(z)
        squares = self.squares(X)
        # [S 0; V' T] with V = S^-1 k(rows, new) and TT' = k(new, new) + precision I - V'V; z <- (z, T^-1 (y - V'z))
        V = solve_upper(S.T, self._kernel_matrix(state, X).T, transpose=True)
        K = self.kernel.finite(RowPairs(X, X))
        T, n_positive = dpotrf(
            K + self.precision * np.eye(len(y)) - V.T @ V, lower=1, clean=1
        )
        n = n_positive - 1 if n_positive else len(y)
        independent = (
            # relative rounding error of k(x, x)
            np.diag(T)[:n] ** 2
            > 8 * np.finfo(float).eps * np.arange(m + 1, m + n + 1) * squares[:n]
        )
        if not independent.all():
            n = int(np.argmin(independent))
        V = V[:, :n]
        T = T[:n, :n]
        new = solve_upper(T.T, y[:n] - V.T @ z, transpose=True)
        # f_t = v_t'z + sum_(s < t) T_ts z_s, from the rows before it alone
        f = V.T @ z + np.tril(T, -1) @ new
        e = f - y[:n]
        arrays.prediction[:n], arrays.loss[:n], arrays.slope[:n] = f, e * e, e
        arrays.square[:n] = squares[:n]
        S = np.block([[S, np.zeros((m, n))], [V.T, T]])
        # The weights before a round are S'^-1 z with the z of later rounds at 0: their sum counts each z once per round.
        counts = np.arange(n - 1.0, -1.0, -1.0)
        total = np.concatenate([S[:m, :m].T @ arrays.total[:m] + n * z, new * counts])
        arrays.total[: m + n] = solve_upper(S.T, total)
        z = np.concatenate([z, new])
        anchors = np.vstack([state.memory["anchors"], X[:n]])
        memory = {"anchors": anchors, "chol": S, "z": z}
        return State(solve_upper(S.T, z), state.t + n, memory), n

    def covariance(self, state: State, X: ArrayLike) -> Array:
        """Return the posterior covariance (n, n) of f at rows X (n, p), in units of the noise variance.

        It is (k(x, z) - k(x, rows) (K + precision I)^-1 k(rows, z)) / precision.
        """
        rows = np.atleast_2d(floats(X, "X", copy=False))
        R = state.memory["chol"].T
        V = solve_upper(R, self._kernel_matrix(state, rows).T, transpose=True)
        return (self.kernel.finite(RowPairs(rows, rows)) - V.T @ V) / self.precision
