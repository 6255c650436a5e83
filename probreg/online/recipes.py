"""Named algorithms of the literature: each is a loss, a geometry and a rate."""

from collections.abc import Callable

from probreg.arguments import scalars
from probreg.errors import Incompatible
from probreg.kernels.base import CovarianceFunction, read_kernel
from probreg.online.kernel_learners import KernelGradient, KernelLearner, KernelRLS
from probreg.online.learner import Gradient, Learner
from probreg.online.losses import LOGISTIC, PERCEPTRON, SQUARED, Loss
from probreg.online.second_order import RLS
from probreg.online.updates import (
    IMPLICIT,
    NORMALISED,
    Euclid,
    Geometry,
    Rate,
    Signed,
    Simplex,
    constant,
)

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
        Of the prior of the weights, not negative.

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

    The weights are positive and sum to 1, so that a prediction is a weighted mean of the values in its row, as of experts. For
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
    Kivinen & Warmuth 1997, whose eta is step / 2.

    Examples
    --------
    >>> learner = eg(1.0)
    >>> learner.step(learner.init(2), [1.0, 0.0], 0.5)[0].w
    array([0.5, 0.5])
    """
    return Gradient(SQUARED, _as_rate(step), Simplex())


@scalars.check_arguments
def eg_pm(step: Step = 0.1, *, norm: scalars.Positive = 1.0) -> Gradient:
    """Exponentiated gradient EG+- for signed weights with ||w||_1 < norm, which good weights must not exceed.

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
        Its slope is that over the prediction.
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
    """A learner of functions f = sum_j w_j k(a_j, .): the steps of `base` with k(x, .) in the place of the row x.

    `path.state.w` holds the w_j, and `path.state.memory["anchors"]` the rows a_j, oldest first. The guarantees of `base` hold with
    k(x, x) for ||x||^2 and ||f|| for ||u||. The length of `kernel` is in units of the columns.

    Parameters
    ----------
    base : Learner
        A gradient learner of Euclidean geometry, such as `lms`, `nlms`, `perceptron`, `logistic` or
        `descent`; or `rls` with a precision, whose f is the mean of a Gaussian process of covariance k / precision in
        units of the noise variance: `learner.covariance(state, X)` is its covariance.
    kernel : CovarianceFunction or str
        k, or its name, such as "rbf" for `pr.kernels.RBF()`.

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
