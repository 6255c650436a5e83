"""The named algorithms of the literature: each is a loss, a geometry and a rate."""

from collections.abc import Callable
from typing import Annotated

import numpy as np

from probreg.arguments import scalars
from probreg.errors import DataError, ProbregError
from probreg.online.guarantee import additive_step, multiplicative_step
from probreg.online.learner import Gradient, Learner
from probreg.online.losses import (
    BINOMIAL,
    HINGE,
    LOGISTIC,
    ON_SIGNS,
    PERCEPTRON,
    SQUARED,
    Loss,
    insensitive,
    perceptron_loss,
)
from probreg.online.machines import aggregate, dual_svr, kernel, kernel_rls
from probreg.online.parts import (
    IMPLICIT,
    NORMALISED,
    PASSIVE,
    Euclid,
    Geometry,
    Positive,
    Rate,
    Signed,
    Simplex,
    constant,
)
from probreg.online.second_order import RLS, AffineProjection, Softmax

Step = Annotated[float | Rate, scalars.Number(0.0)]


def _as_rate(step: Step) -> Rate:
    return step if isinstance(step, Rate) else constant(step)


@scalars.check_arguments
def lms(
    step: Step | str = 0.01,
    *,
    x_norm: scalars.Positive | None = None,
    u_norm: scalars.Positive = 1.0,
    u_loss: scalars.NonNegative | None = None,
) -> Gradient:
    """Least mean squares: w += -step (w'x - y) x.

    Parameters
    ----------
    step : float or Rate or "theory"
        Positive; "theory" takes the one that minimises the bound L_u / (1 - step r^2) + ||u||^2 / step.
    x_norm : float, optional
        The bound r on ||x||, which "theory" needs.
    u_norm : float
        The norm of a comparator u.
    u_loss : float, optional
        The loss L_u of a comparator over the rounds.

    Returns
    -------
    Gradient
        The learner.

    References
    ----------
    Widrow & Hoff 1960.

    Examples
    --------
    >>> learner = lms("theory", x_norm=1.0, u_norm=2.0, u_loss=4.0)
    >>> learner.rate.step
    0.5
    """
    if isinstance(step, str):
        step = _theory(
            step, "x_norm", x_norm, lambda r: additive_step(r, u_norm, u_loss)
        )
    return Gradient(SQUARED, _as_rate(step))


def _theory(
    step: str, name: str, value: float | None, choose: Callable[[float], float]
) -> float:
    if step != "theory":
        raise DataError(f"step is {step!r}: give a number, a Rate, or 'theory'")
    if value is None:
        raise DataError(
            f"step='theory' needs {name}, a positive bound on the rows; met None"
        )
    return choose(value)


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
        Not negative; what keeps the step finite at rows of zeros.

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
def affine_projection(
    step: scalars.Positive = 0.5,
    *,
    order: scalars.Count = 5,
    eps: scalars.NonNegative = 1e-3,
) -> AffineProjection:
    """Affine projection on the last `order` rows A, b: w += step A' (A A' + eps I)^-1 (b - A w).

    Parameters
    ----------
    step : float
        Positive.
    order : int
        Number of rows.
    eps : float
        Not negative.

    Returns
    -------
    AffineProjection
        The learner.

    References
    ----------
    Ozeki & Umeda 1984.

    Examples
    --------
    >>> affine_projection(0.5, order=2).order
    2
    """
    return AffineProjection(order, step, eps)


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
def eg(
    step: Step | str = 0.1,
    *,
    spread: scalars.Positive | None = None,
    u_loss: scalars.NonNegative | None = None,
    p: scalars.Several = 2,
) -> Gradient:
    """Exponentiated gradient on the simplex: w_i proportional to w_i exp(-step (w'x - y) x_i), w_1 uniform.

    Parameters
    ----------
    step : float or Rate or "theory"
        Positive; "theory" minimises the bound L_u / (1 - step R^2/4) + 2 log(p) / step.
    spread : float, optional
        R, within which the values of a row lie; "theory" needs it.
    u_loss : float, optional
        The loss L_u of a comparator over the rounds.
    p : int
        Number of columns, for "theory".

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
    if isinstance(step, str):
        # d(u, w_1) <= log p of the uniform start, whatever u on the simplex.
        step = _theory(
            step, "spread", spread, lambda R: multiplicative_step(R, np.log(p), u_loss)
        )
    return Gradient(SQUARED, _as_rate(step), Simplex())


@scalars.check_arguments
def eg_positive(step: Step = 0.1, *, start: scalars.Positive | None = None) -> Gradient:
    """Exponentiated gradient without normalisation: w_i *= exp(-step (w'x - y) x_i).

    Parameters
    ----------
    step : float or Rate
        Positive, or a rate that falls.
    start : float, optional
        The first value of every weight; 1/p without it.

    Returns
    -------
    Gradient
        The learner.

    Examples
    --------
    >>> eg_positive(0.1, start=0.5).init(2).w
    array([0.5, 0.5])
    """
    return Gradient(SQUARED, _as_rate(step), Positive(start))


@scalars.check_arguments
def eg_pm(step: Step = 0.1, *, norm: scalars.Positive = 1.0) -> Gradient:
    """Exponentiated gradient EG+- for signed weights with ||w||_1 < norm.

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
def winnow(
    step: scalars.Positive = 0.5,
    *,
    norm: scalars.Positive | None = None,
    threshold: scalars.Real | None = None,
) -> Gradient:
    """Winnow: on a mistake w_i *= exp(step y x_i), y = -1, +1.

    It is on the simplex; signed with a norm. With a threshold, as Littlestone (1988), weights start at 1 and are not
    normalised (his alpha is exp(step)).

    Parameters
    ----------
    step : float
        Positive.
    norm : float, optional
        Of signed weights.
    threshold : float, optional
        The prediction is +1 above it.

    Returns
    -------
    Gradient
        The learner.

    References
    ----------
    Littlestone 1988.

    Examples
    --------
    >>> learner = winnow(np.log(2), threshold=2.0)
    >>> learner.step(learner.init(3), [1.0, 0.0, 1.0], -1)[0].w
    array([0.5, 1. , 0.5])
    """
    if threshold is not None:
        # w = exp(theta) from theta = 0: a mistake multiplies w_j by exp(step y x_j).
        return Gradient(perceptron_loss(threshold), constant(step), Positive(1.0))
    return Gradient(
        PERCEPTRON, constant(step), Simplex() if norm is None else Signed(norm)
    )


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
def batch_perceptron(rows: scalars.Count, step: scalars.Positive = 1.0) -> Gradient:
    """The batch perceptron: w += step * the sum of y x over the mistakes of `rows` rounds.

    With all the rows it is one subgradient step a pass.

    Parameters
    ----------
    rows : int
        Rounds that share a step.
    step : float
        Positive.

    Returns
    -------
    Gradient
        The learner.

    Examples
    --------
    >>> batch_perceptron(100).batch
    100
    """
    return Gradient(PERCEPTRON, constant(step), batch=rows)


@scalars.check_arguments
def adaline(step: Step = 0.01) -> Gradient:
    """Adaline: least mean squares on labels -1, +1, thresholded at 0.

    Parameters
    ----------
    step : float or Rate
        Positive, or a rate that falls.

    Returns
    -------
    Gradient
        The learner.

    References
    ----------
    Widrow & Hoff 1960.

    Examples
    --------
    >>> adaline(0.1).loss.name
    'squared'
    """
    return Gradient(ON_SIGNS, _as_rate(step))


@scalars.check_arguments
def passive_aggressive(
    C: scalars.Limit = np.inf, *, squared: scalars.Flag = False
) -> Gradient:
    """Passive-aggressive classification: the nearest w with hinge loss 0 on this row; y = -1, +1.

    Parameters
    ----------
    C : float
        It bounds the step (PA-I); inf for none.
    squared : bool
        Whether C softens the step instead (PA-II).

    Returns
    -------
    Gradient
        The learner.

    References
    ----------
    Crammer et al. 2006.

    Examples
    --------
    >>> learner = passive_aggressive()
    >>> learner.step(learner.init(2), [3.0, 4.0], 1)[0].w
    array([0.12, 0.16])
    """
    if squared:
        # PA-II: argmin |w - w_t|^2 / 2 + C l^2 has a = l / (|x|^2 + 1 / (2 C)).
        return Gradient(HINGE, Rate(np.inf, kind=PASSIVE, eps=1 / (2 * C)))
    # PA-I: argmin |w - w_t|^2 / 2 + C l has a = min(C, l / |x|^2).
    return Gradient(HINGE, Rate(C, kind=PASSIVE))


@scalars.check_arguments
def passive_aggressive_regression(
    C: scalars.Limit = np.inf, *, eps: scalars.NonNegative = 0.1
) -> Gradient:
    """Passive-aggressive regression: the nearest w that predicts within eps of y, its step at most C.

    Parameters
    ----------
    C : float
        The largest step; inf for none.
    eps : float
        Not negative, in units of y.

    Returns
    -------
    Gradient
        The learner.

    References
    ----------
    Crammer et al. 2006.

    Examples
    --------
    >>> learner = passive_aggressive_regression(eps=0.5)
    >>> learner.step(learner.init(1), [1.0], 2.0)[0].w
    array([1.5])
    """
    # argmin |w - w_t|^2 / 2 + C l, l = (|w'x - y| - eps)_+: a = min(C, l / |x|^2).
    return Gradient(insensitive(eps), Rate(C, kind=PASSIVE))


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
def binomial(step: Step = 0.1) -> Gradient:
    """Online logistic regression of successes of trials: w += step (k - n h) x, h = 1 / (1 + exp(-w'x)).

    A round reads y = (k, n), k successes of n trials, `run(binomial(), X, k, trials=n)`. Its loss is that of the n
    trials at one w, n log(1 + exp(w'x)) - k w'x, the negative binomial log-likelihood less its coefficient.

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
    >>> learner = binomial(0.5)
    >>> learner.step(learner.init(1), [2.0], (3, 4))[0].w
    array([1.])
    """
    return Gradient(BINOMIAL, _as_rate(step))


@scalars.check_arguments
def softmax(levels: scalars.Several, step: Step = 0.1) -> Softmax:
    """Online softmax regression of class codes 0 .. levels - 1: W += -step x (h - e_y)', h = softmax(W'x).

    Parameters
    ----------
    levels : int
        Number of classes.
    step : float or Rate
        Positive, or a rate that falls.

    Returns
    -------
    Softmax
        The learner.

    Examples
    --------
    >>> softmax(3).init(2).w.shape
    (2, 3)
    """
    return Softmax(levels, _as_rate(step))


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


class Recipes(dict[str, Callable[..., Learner]]):
    """Name -> recipe; asked for what it lacks, it says what it has."""

    def __missing__(self, name: str) -> Callable[..., Learner]:
        raise ProbregError(
            f"no learner is called {name!r}. There are: {', '.join(sorted(self))}"
        )


LEARNERS = Recipes(
    {
        recipe.__name__: recipe
        for recipe in (
            lms,
            implicit_lms,
            nlms,
            affine_projection,
            rls,
            eg,
            eg_positive,
            eg_pm,
            winnow,
            perceptron,
            batch_perceptron,
            adaline,
            passive_aggressive,
            passive_aggressive_regression,
            logistic,
            binomial,
            softmax,
            descent,
            kernel,
            kernel_rls,
            dual_svr,
            aggregate,
        )
    }
)
