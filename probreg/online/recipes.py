"""Named algorithms of the literature, each a loss, a geometry and a rate, and learners of functions f = sum_j w_j k(a_j, .).

The state has the rows a_j (the anchors, oldest first) and their weights w_j. In the steps of a Euclidean learner k(x, .)
replaces the row x: inner products are k(x, z), ||x||^2 is k(x, x), and ||f||^2 = w'Kw.
"""

from abc import abstractmethod
from collections.abc import Callable
from dataclasses import dataclass
from typing import ClassVar

import numpy as np
from numpy.typing import ArrayLike

from probreg.arguments import scalars
from probreg.arguments.arrays import floats
from probreg.arguments.scalars import Positive, check_fields
from probreg.errors import Incompatible
from probreg.kernels.base import CovarianceFunction, RowPairs, read_kernel
from probreg.linalg import solve_upper
from probreg.online.learner import (
    RLS,
    Gradient,
    Learner,
    StreamError,
    checked_row,
    require_finite_loss,
)
from probreg.online.updates import (
    IMPLICIT,
    LOGISTIC,
    NORMALISED,
    PERCEPTRON,
    SQUARED,
    Array,
    Euclid,
    Geometry,
    Info,
    Loss,
    Rate,
    RoundArrays,
    Signed,
    Simplex,
    State,
    constant,
)


class KernelLearner(Learner):
    """A learner of functions: its predictions, and k(x, x) in place of ||x||^2."""

    kernel: CovarianceFunction
    grows: ClassVar[bool] = True

    @property
    @abstractmethod
    def flat(self) -> Learner:
        """The learner of columns with the same steps; the theorems apply to it."""

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

    State: every row so far, S with SS' = K + precision I, and z = S^-1 y; the weights are S'^-1 z.

    Parameters
    ----------
    kernel : CovarianceFunction
        k.
    precision : float
        Positive: the noise variance over the variance s^2 of a Gaussian process with covariance s^2 k.
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
        require_finite_loss(arrays.loss[0], state)
        return after, Info(float(arrays.prediction[0]), float(arrays.loss[0]))

    def block(
        self, state: State, X: Array, y: Array, arrays: RoundArrays
    ) -> tuple[State, int]:
        n = len(y)
        finite = np.isfinite(np.einsum("ij,ij->i", X, X))
        if not finite.all():
            n = int(np.argmin(finite))
        size = 256  # number of rows that share one triangular solve
        for start in range(0, n, size):
            rows = slice(start, min(start + size, n))
            state, n_steps = self._extend(state, X[rows], y[rows], arrays.select(rows))
            if n_steps < rows.stop - start:
                return state, start + n_steps
        return state, n

    def _extend(
        self, state: State, X: Array, y: Array, arrays: RoundArrays
    ) -> tuple[State, int]:
        """Take the steps of some rows at once, up to the first row that depends on the others up to rounding."""
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
        # f_t = v_t'z + sum_(s < t) T_ts z_s, only from earlier rows
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


Step = scalars.Positive | Rate


def _as_rate(step: Step) -> Rate:
    return step if isinstance(step, Rate) else constant(step)


@scalars.check_arguments
def lms(step: Step = 0.01) -> Gradient:
    """Least mean squares: w += -step (w'x - y) x.

    Parameters
    ----------
    step : float or Rate
        Positive; `additive_step` minimises the bound L_u / (1 - step r^2) + ||u||^2 / step.

    Returns
    -------
    Gradient
        The learner.

    References
    ----------
    Widrow & Hoff 1960.

    Examples
    --------
    >>> from probreg.online import additive_step
    >>> lms(additive_step(1.0, 2.0, 4.0)).rate.step
    0.5
    """
    return Gradient(SQUARED, _as_rate(step))


@scalars.check_arguments
def implicit_lms(step: scalars.Positive = 0.01) -> Gradient:
    """Implicit least mean squares: w += -step / (1 + step ||x||^2) (w_t'x - y) x.

    It is the exact minimiser of step (w'x - y)^2 + ||w - w_t||^2.

    Parameters
    ----------
    step : float
        Positive.

    Returns
    -------
    Gradient
        The learner.

    Examples
    --------
    >>> learner = implicit_lms(1.0)
    >>> learner.step(learner.init(1), [1.0], 1.0)[0].w
    array([0.5])
    """
    # w = w_t - step (w'x - y) x with w on both sides: w'x - y = (w_t'x - y) / (1 + step |x|^2).
    return Gradient(SQUARED, Rate(step, kind=IMPLICIT))


@scalars.check_arguments
def nlms(step: scalars.Positive = 0.5, eps: scalars.NonNegative = 1e-8) -> Gradient:
    """Normalised least mean squares: w += -step / (eps + ||x||^2) (w'x - y) x.

    Parameters
    ----------
    step : float
        Positive.
    eps : float
        Not negative; it keeps the step finite at rows of zeros.

    Returns
    -------
    Gradient
        The learner.

    Examples
    --------
    >>> learner = nlms(1.0, eps=0.0)
    >>> learner.step(learner.init(2), [3.0, 4.0], 5.0)[0].w
    array([0.6, 0.8])
    """
    return Gradient(SQUARED, Rate(step, kind=NORMALISED, eps=eps))


@scalars.check_arguments
def rls(
    forgetting: scalars.Positive = 1.0, *, precision: scalars.NonNegative = 0.0
) -> RLS:
    """Recursive least squares: the minimiser of the weighted squares of all rows so far, after every round.

    Without forgetting it is exact sequential Bayes. See `RLS`.

    Parameters
    ----------
    forgetting : float
        f, above 0 and at most 1.
    precision : float
        The precision of the prior of the weights, not negative.

    Returns
    -------
    RLS
        The learner.

    Examples
    --------
    >>> rls(0.99, precision=1.0).forgetting
    0.99
    """
    return RLS(forgetting, precision)


@scalars.check_arguments
def eg(step: Step = 0.1) -> Gradient:
    """Exponentiated gradient on the simplex: w_i proportional to w_i exp(-step (w'x - y) x_i), w_1 uniform.

    The weights are positive and sum to 1, so that a prediction is a weighted mean of the values in its row, for example of experts. For
    negative weights or another sum use `eg_pm(norm=...)`, or `lms`.

    Parameters
    ----------
    step : float or Rate
        Positive, or a rate that falls; `multiplicative_step` minimises the bound.

    Returns
    -------
    Gradient
        The learner.

    References
    ----------
    Kivinen & Warmuth 1997, with eta = step / 2.

    Examples
    --------
    >>> learner = eg(1.0)
    >>> learner.step(learner.init(2), [1.0, 0.0], 0.5)[0].w
    array([0.5, 0.5])
    """
    return Gradient(SQUARED, _as_rate(step), Simplex())


@scalars.check_arguments
def eg_pm(step: Step = 0.1, *, norm: scalars.Positive = 1.0) -> Gradient:
    """Exponentiated gradient EG+- for signed weights with ||w||_1 < norm; choose a norm that good weights do not exceed.

    Parameters
    ----------
    step : float or Rate
        Positive, or a rate that falls.
    norm : float
        Positive.

    Returns
    -------
    Gradient
        The learner.

    References
    ----------
    Kivinen & Warmuth 1997.

    Examples
    --------
    >>> learner = eg_pm(0.1, norm=2.0)
    >>> learner.init(3).w
    array([0., 0., 0.])
    """
    return Gradient(SQUARED, _as_rate(step), Signed(norm))


@scalars.check_arguments
def perceptron(step: scalars.Positive = 1.0) -> Gradient:
    """The perceptron: on a mistake, y w'x <= 0, w += step y x; y = -1, +1.

    The averaged perceptron is `Run.average()`.

    Parameters
    ----------
    step : float
        Positive.

    Returns
    -------
    Gradient
        The learner.

    References
    ----------
    Rosenblatt 1958.

    Examples
    --------
    >>> learner = perceptron()
    >>> learner.step(learner.init(2), [1.0, 2.0], -1)[0].w
    array([-1., -2.])
    """
    return Gradient(PERCEPTRON, constant(step))


@scalars.check_arguments
def logistic(step: Step = 0.1) -> Gradient:
    """Online logistic regression: w += step (y - h) x, h = 1 / (1 + exp(-w'x)); y = 0, 1.

    Parameters
    ----------
    step : float or Rate
        Positive, or a rate that falls.

    Returns
    -------
    Gradient
        The learner.

    Examples
    --------
    >>> learner = logistic(1.0)
    >>> learner.step(learner.init(1), [2.0], 1)[0].w
    array([1.])
    """
    return Gradient(LOGISTIC, _as_rate(step))


@scalars.check_arguments
def descent(loss: Loss, step: Step = 0.1, geometry: Geometry | None = None) -> Gradient:
    """Online (sub)gradient descent on any loss: w += -step slope x.

    Parameters
    ----------
    loss : Loss
        Its slope is the slope over the prediction.
    step : float or Rate
        Positive, or a rate that falls.
    geometry : Geometry, optional
        `Euclid(radius)` projects on a ball; Euclid() without it.

    Returns
    -------
    Gradient
        The learner.

    Examples
    --------
    >>> from probreg.online import ABSOLUTE, inverse_sqrt
    >>> descent(ABSOLUTE, inverse_sqrt(1.0), Euclid(radius=2.0)).rate.power
    0.5
    """
    return Gradient(loss, _as_rate(step), geometry or Euclid())


@scalars.check_arguments
def kernel(base: Learner, kernel: CovarianceFunction | str) -> Learner:
    """A learner of functions f = sum_j w_j k(a_j, .): the steps of `base` with k(x, .) in place of the row x.

    `path.state.w` has the w_j, and `path.state.memory["anchors"]` the rows a_j, oldest first. The guarantees of `base` are valid with
    k(x, x) for ||x||^2 and ||f|| for ||u||. The length of `kernel` is in units of the columns.

    Parameters
    ----------
    base : Learner
        A gradient learner of Euclidean geometry, such as `lms`, `nlms`, `perceptron`, `logistic` or
        `descent`; or `rls` with a precision: f is then the posterior mean of a Gaussian process with covariance k / precision in
        units of the noise variance, and `learner.covariance(state, X)` is the posterior covariance.
    kernel : CovarianceFunction or str
        k, or its name: "rbf" is `pr.kernels.RBF()`.

    Returns
    -------
    Learner
        The learner.

    Raises
    ------
    Incompatible
        For a base with steps in each column, such as exponentiated gradient.

    References
    ----------
    Kivinen, Smola & Williamson 2004; Engel, Mannor & Meir 2004.

    Examples
    --------
    >>> from probreg.kernels import RBF
    >>> from probreg.online import lms, run
    >>> path = run(kernel(lms(0.5), RBF(1.0)), [[0.0], [1.0], [2.0], [4.0]], [0.0, 1.0, 0.0, 2.0])
    >>> path.state.w.round(6), path.state.memory["anchors"].ravel()
    (array([ 0.5     , -0.151633,  1.007483]), array([1., 2., 4.]))
    """
    if isinstance(base, RLS):
        if base.forgetting < 1 or base.precision == 0:
            raise Incompatible(
                "base: kernel recursive least squares needs precision > 0 and no forgetting; take rls(precision=...)"
            )
        return KernelRLS(read_kernel(kernel), base.precision)
    if isinstance(base, KernelLearner) or not isinstance(base, Gradient):
        raise Incompatible(
            f"base is {type(base).__name__}: expected a gradient learner such as lms, or rls"
        )
    return KernelGradient(base, read_kernel(kernel))


LEARNERS: dict[str, Callable[..., Learner]] = {
    recipe.__name__: recipe
    for recipe in (
        lms,
        implicit_lms,
        nlms,
        rls,
        eg,
        eg_pm,
        perceptron,
        logistic,
        descent,
        kernel,
    )
}
