"""Kernel recursive least squares: a Gaussian process updated row by row, exactly or on a dictionary of rows."""

from dataclasses import dataclass
from typing import ClassVar

import numpy as np
from numpy.typing import ArrayLike
from scipy.linalg import solve_triangular
from scipy.linalg.lapack import dpotrf

from probreg.arguments.arrays import floats
from probreg.arguments.scalars import Count, Positive, check_fields
from probreg.kernels.base import CovarianceFunction
from probreg.kernels.pairs import RowPairs
from probreg.numerics.linalg import inverse_upper, merge
from probreg.online.anchors import Anchored, room_for
from probreg.online.guarantee import Assumption
from probreg.online.learner import (
    Learner,
    StreamError,
    checked_rows,
    refuse_infinite_loss,
)
from probreg.online.losses import SQUARED, Loss
from probreg.online.parts import Array, Info, Out, State, as_tuple
from probreg.online.second_order import RLS

ROUNDING = 8 * np.finfo(float).eps  # of k(x, x): what k's own rounding may be


@dataclass(frozen=True)
class KernelRLS(Anchored):
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

    def __post_init__(self) -> None:
        check_fields(self)

    @property
    def flat(self) -> Learner:
        return RLS(precision=self.precision)

    def exact(self, start: State, state: State) -> tuple[Assumption, ...]:
        return ()

    def init(self, p: int) -> State:
        state = self.empty(p)
        return State(
            state.w, 0, {**state.memory, "chol": np.zeros((0, 0)), "z": np.zeros(0)}
        )

    def _next(self, state: State, row: Array) -> tuple[Array, float, bool]:
        """v = S^-1 k(rows, x), k(x, x) + precision - |v|^2, the variance of y given the rows so far, and whether it is lost in rounding."""
        v = _forward(state.memory["chol"], self._kernel_matrix(state, row[None]).T)[
            :, 0
        ]
        q = float(self.squares(row[None])[0])
        left = q + self.precision - float(v @ v)
        return v, left, bool(left <= ROUNDING * (len(v) + 1) * q)

    @np.errstate(over="ignore", invalid="ignore")  # Diverged says it
    def step(self, state: State, x: ArrayLike, y: float) -> tuple[State, Info]:
        row = checked_rows(self, state, x, y)
        S = state.memory["chol"]
        z = state.memory["z"]
        v, left, lost = self._next(state, row)
        f = float(v @ z)
        value = (f - y) ** 2
        refuse_infinite_loss(value + left, state)
        if lost:
            raise StreamError(
                f"round {state.t + 1}: {self.objection(state, row)}", state
            )
        # S <- [S 0; v' s] with s^2 = k(x, x) + precision - |v|^2, and z <- (z, (y - f) / s)
        s = np.sqrt(left)
        m = len(z)
        S = np.block([[S, np.zeros((m, 1))], [v[None], np.full((1, 1), s)]])
        z = np.append(z, (y - f) / s)
        kept = {"anchors": np.vstack([state.memory["anchors"], row]), "chol": S, "z": z}
        return State(_at_anchors(S, z), state.t + 1, kept), Info(f, value)

    def take(
        self, state: State, K: tuple[Array, Array], rows: Array, y: Array, out: Out
    ) -> tuple[State, int]:
        S = state.memory["chol"]
        z = state.memory["z"]
        m = len(state.w)
        # [S 0; V' T] with V = S^-1 k(rows, new) and TT' = k(new, new) + precision I - V'V; z <- (z, T^-1 (y - V'z))
        V = _forward(S, K[0][:, :m].T)
        T, failed = dpotrf(
            K[0][:, m:] + self.precision * np.eye(len(y)) - V.T @ V, lower=1, clean=1
        )
        done = failed - 1 if failed else len(y)
        least = ROUNDING * np.arange(m + 1, m + done + 1) * K[1][:done]
        good = np.diag(T)[:done] ** 2 > least
        done = done if good.all() else int(np.argmin(good))
        V = V[:, :done]
        T = T[:done, :done]
        new = _forward(T, (y[:done] - V.T @ z)[:, None])[:, 0]
        # f_t = v_t'z + sum_(s < t) T_ts z_s, from the rows before it alone
        f = V.T @ z + np.tril(T, -1) @ new
        e = f - y[:done]
        out.prediction[:done], out.loss[:done], out.slope[:done], out.square[:done] = (
            f,
            e * e,
            e,
            K[1][:done],
        )
        S = np.block([[S, np.zeros((m, done))], [V.T, T]])
        # the weights before a round are S'^-1 z with the z of later rounds at 0: their sum has each z as often as it counted
        total = np.concatenate(
            [
                S[:m, :m].T @ out.total[:m] + done * z,
                new * np.arange(done - 1.0, -1.0, -1.0),
            ]
        )
        z = np.concatenate([z, new])
        out.total[: m + done] = _at_anchors(S, total)
        return State(
            _at_anchors(S, z),
            state.t + done,
            {"anchors": rows[: m + done], "chol": S, "z": z},
        ), done

    def objection(self, state: State, x: Array) -> str | None:
        lost = self._next(state, x)[2]
        if not lost:
            return None
        return f"K + {self.precision:g} I is not positive definite to rounding with this row: take a larger precision"

    def covariance(self, state: State, X: ArrayLike) -> Array:
        """The posterior covariance (n, n) of f at rows X (n, p), in units of the noise variance.

        It is (k(x, z) - k(x, rows) (K + precision I)^-1 k(rows, z)) / precision.
        """
        rows = np.atleast_2d(floats(X, "X", copy=False))
        v = _forward(state.memory["chol"], self._kernel_matrix(state, rows).T)
        return (self.kernel.finite(RowPairs(rows, rows)) - v.T @ v) / self.precision


@dataclass(frozen=True)
class DictionaryRLS(Anchored):
    """Kernel recursive least squares on a dictionary of rows: sum (f(x_t) - y_t)^2 + precision ||f||^2 in their span.

    A row whose k(x, .) is further than `tolerance` from the span of the dictionary, in squares, joins it; any other row
    is told as its projection on that span. State: anchors d_j, L with LL' = K(d, d), and the factor F of recursive least squares
    on phi(x) = L^-1 k(d, x), the orthonormal coordinates of that span.

    Parameters
    ----------
    kernel : CovarianceFunction
        k.
    precision : float
        Positive, as of `KernelRLS`.
    tolerance : float
        Positive, in units of k(x, x).
    budget : int, optional
        The most anchors: a full dictionary takes every further row as its projection.

    References
    ----------
    Engel, Mannor & Meir 2004.
    """

    kernel: CovarianceFunction
    precision: Positive = 1.0
    tolerance: Positive = 1e-6
    budget: Count | None = None
    loss: ClassVar[Loss] = SQUARED  # type: ignore[misc]

    def __post_init__(self) -> None:
        check_fields(self)

    @property
    def flat(self) -> Learner:
        return RLS(precision=self.precision)

    def exact(self, start: State, state: State) -> tuple[Assumption, ...]:
        projected = float(state.memory["projected"] - start.memory["projected"])
        return (
            Assumption(
                "no row was replaced by its projection on the dictionary",
                projected,
                projected == 0,
            ),
        )

    def init(self, p: int) -> State:
        state = self.empty(p, "projected")
        return State(
            state.w,
            0,
            {**state.memory, "chol": np.zeros((0, 0)), "factor": np.zeros((1, 1))},
        )

    @np.errstate(over="ignore", invalid="ignore")  # Diverged says it
    def step(self, state: State, x: ArrayLike, y: float) -> tuple[State, Info]:
        row = checked_rows(self, state, x, y)
        memory = dict(state.memory)
        L = memory["chol"]
        F = memory["factor"]
        m = len(state.w)
        q = float(self.squares(row[None])[0])
        # phi = L^-1 k(d, x); the squared distance of k(x, .) from the span is k(x, x) - |phi|^2 (Engel et al.'s delta).
        phi = _forward(L, self._kernel_matrix(state, row[None]).T)[:, 0]
        far = q - phi @ phi
        f = float(phi @ (L.T @ state.w))
        value = (f - y) ** 2
        refuse_infinite_loss(value + q, state)
        # with a = K(d, d)^-1 k(d, x), rounding of k moves that distance by (1 + sum |a_j|)^2 of it: less is no direction of its own
        least = ROUNDING * q * (1.0 + np.abs(_at_anchors(L, phi)).sum()) ** 2
        if far > max(self.tolerance, least):
            if self.budget is None or m < self.budget:
                # one more coordinate, with the prior's precision^(1/2) on the diagonal of the factor
                phi = np.append(phi, np.sqrt(far))
                m = m + 1
                L = np.block([[L, np.zeros((m - 1, 1))], [phi[None]]])
                F = np.insert(np.insert(F, m - 1, 0.0, axis=0), m - 1, 0.0, axis=1)
                F[m - 1, m - 1] = np.sqrt(self.precision)
                memory["anchors"] = np.vstack([memory["anchors"], row])
            else:
                memory["projected"] = memory["projected"] + 1
        elif far > least:
            memory["projected"] = memory["projected"] + 1
        # F'F <- F'F + (phi, y)(phi, y)', and f = u'phi with u = R^-1 z has the weights L'^-1 u at the anchors.
        F = merge(F, np.append(phi, y)[None]).astype(float)
        memory |= {"chol": L, "factor": F}
        return State(_at_anchors(L, _solve_factor(F)), state.t + 1, memory), Info(
            f, value
        )

    def take(
        self, state: State, K: tuple[Array, Array], rows: Array, y: Array, out: Out
    ) -> tuple[State, int]:
        from probreg.online import anchored_loops as loops

        m = len(state.w)
        F = state.memory["factor"]
        if self.budget is None:
            size = len(rows)
        else:
            size = max(m, min(self.budget, len(rows)))
        L = np.zeros((size, size))
        R = np.zeros((size, size))
        L[:m, :m], R[:m, :m] = state.memory["chol"], F[:-1, :-1]
        # sums of the weights are kept in the coordinates, where they are those of u
        z = room_for(F[:-1, -1], size)
        total = room_for(L[:m, :m].T @ out.total[:m], size)
        where = np.r_[np.arange(m), np.zeros(size - m, int)]
        numbers = np.array([m, F[-1, -1], 0.0])
        knobs = float(self.precision), float(self.tolerance), ROUNDING
        arrays = (L, R, z, total, where, numbers)
        done = loops.anchored_squares(K, y, arrays, knobs, as_tuple(out))
        m = int(numbers[0])
        L = L[:m, :m].copy()
        F = np.zeros((m + 1, m + 1))
        F[:-1, :-1], F[:-1, -1], F[-1, -1] = R[:m, :m], z[:m], numbers[1]
        out.total[:m] = _at_anchors(L, total[:m])
        kept = {
            "anchors": rows[where[:m]],
            "projected": state.memory["projected"] + numbers[2],
            "chol": L,
            "factor": F,
        }
        return State(_at_anchors(L, _solve_factor(F)), state.t + done, kept), done

    def covariance(self, state: State, X: ArrayLike) -> Array:
        """The posterior covariance (n, n) of f at rows X (n, p), in units of the noise variance.

        It is (k(x, z) - phi(x)'phi(z)) / precision + phi(x)'(R'R)^-1 phi(z): far from the dictionary the prior's.
        """
        rows = np.atleast_2d(floats(X, "X", copy=False))
        L = state.memory["chol"]
        R = state.memory["factor"][:-1, :-1]
        phi = _forward(L, self._kernel_matrix(state, rows).T).T
        rest = self.kernel.finite(RowPairs(rows, rows)) - phi @ phi.T
        known = phi @ inverse_upper(R) if len(L) else phi
        return rest / self.precision + known @ known.T


def _forward(L: Array, k: Array) -> Array:
    """L^-1 k (m, n)."""
    if len(L):
        return np.asarray(solve_triangular(L, k, lower=True, check_finite=False))
    return k


def _solve_factor(F: Array) -> Array:
    """u = R^-1 z of F = [R z; 0 .]."""
    if len(F) > 1:
        return np.asarray(solve_triangular(F[:-1, :-1], F[:-1, -1]))
    return np.zeros(0)


def _at_anchors(L: Array, u: Array) -> Array:
    """L'^-1 u."""
    if len(L):
        return np.asarray(
            solve_triangular(L, u, lower=True, trans="T", check_finite=False)
        )
    return np.zeros(0)
