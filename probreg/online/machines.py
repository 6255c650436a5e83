"""Recipes of learners of functions, and of aggregates of learners."""

from collections.abc import Sequence
from typing import Literal

from probreg.arguments.scalars import (
    Count,
    Flag,
    NonNegative,
    Positive,
    Real,
    check_arguments,
    shown_value,
)
from probreg.errors import DataError, Incompatible
from probreg.kernels.base import CovarianceFunction
from probreg.online.anchors import Anchored, KernelGradient
from probreg.online.dictionary import DictionaryRLS, KernelRLS
from probreg.online.dual import DualSVR
from probreg.online.experts import Aggregate
from probreg.online.learner import Gradient, Learner
from probreg.online.second_order import RLS


@check_arguments
def kernel(
    base: Learner, kernel: CovarianceFunction, budget: Count | None = None
) -> Learner:
    """A learner of functions f = sum_j w_j k(a_j, .): the steps of `base` with k(x, .) in the place of the row x.

    `path.state.w` holds the w_j, and `path.state.memory["anchors"]` the rows a_j, oldest first. The guarantees of `base` hold with
    k(x, x) for ||x||^2 and ||f|| for ||u||, as long as the budget drops nothing. A Gradient with `ridge` decays: with a budget it
    is NORMA. A length of `kernel` is in units of the columns.

    Parameters
    ----------
    base : Learner
        A gradient learner of Euclidean geometry, such as `lms`, `nlms`, `perceptron`, `passive_aggressive`, `logistic` or
        `descent`; or `rls`, which becomes `kernel_rls`.
    kernel : CovarianceFunction
        k.
    budget : int, optional
        The most anchors that are kept: the oldest is dropped where there would be more. None keeps every row that moved f.

    Returns
    -------
    Learner
        The learner.

    Raises
    ------
    Incompatible
        For a base whose steps depend on the columns, such as exponentiated gradient, and for one that is not built.

    References
    ----------
    Kivinen, Smola & Williamson 2004.

    Examples
    --------
    >>> from probreg.kernels import RBF
    >>> from probreg.online import lms, run
    >>> path = run(kernel(lms(0.5), RBF(1.0)), [[0.0], [1.0], [2.0], [4.0]], [0.0, 1.0, 0.0, 2.0])
    >>> path.state.w.round(6), path.state.memory["anchors"].ravel()
    (array([ 0.5     , -0.151633,  1.007483]), array([1., 2., 4.]))
    """
    if isinstance(base, RLS):
        if base.forgetting < 1:
            raise Incompatible(
                "kernel: forgetting is not built for kernel RLS; take rls(precision=...)"
            )
        if base.precision == 0:
            raise Incompatible(
                "kernel: RLS without precision fits every row of a function exactly; take rls(precision=...)"
            )
        if budget is not None:
            raise Incompatible(
                "kernel: a budget of RLS needs a tolerance: take kernel_rls(kernel, precision, tolerance=1e-6, budget=...)"
            )
        return KernelRLS(kernel, base.precision)
    if isinstance(base, Anchored):
        raise Incompatible(
            f"kernel: the base is {type(base).__name__}, a learner of functions already"
        )
    if not isinstance(base, Gradient):
        raise Incompatible(
            f"kernel: it is not built for {type(base).__name__}; take a gradient learner such as lms, or rls"
        )
    return KernelGradient(base, kernel, budget)


@check_arguments
def kernel_rls(
    kernel: CovarianceFunction,
    precision: Positive = 1.0,
    *,
    tolerance: NonNegative = 0.0,
    budget: Count | None = None,
) -> Learner:
    """Kernel recursive least squares: after every round the minimiser of sum (f(x_t) - y_t)^2 + precision ||f||^2.

    It is the mean of a Gaussian process of covariance k / precision in units of the noise variance, and `learner.covariance(state, X)` its
    covariance. With a tolerance, rows near the span of a dictionary are replaced by their projection on it.

    Parameters
    ----------
    kernel : CovarianceFunction
        k.
    precision : float
        Positive: the noise variance over that of the process; the lam of kernel ridge.
    tolerance : float
        A row joins the dictionary if its k(x, .) is further from the span than this, in squares (approximate linear dependence). With
        0 every row is kept, and nothing is approximated.
    budget : int, optional
        The most rows of the dictionary, with a tolerance; when it is full every further row is replaced by its projection.

    Returns
    -------
    Learner
        The learner.

    References
    ----------
    Engel, Mannor & Meir 2004.

    Examples
    --------
    >>> from probreg.kernels import RBF
    >>> from probreg.online import run
    >>> learner = kernel_rls(RBF(1.0), 0.1)
    >>> path = run(learner, [[0.0], [1.0], [2.0], [4.0]], [0.0, 1.0, 0.0, 2.0])
    >>> learner.predict(path.state, [[1.5], [3.0]]).round(6)
    array([0.516761, 0.671134])
    """
    if tolerance == 0 and budget is not None:
        raise Incompatible(
            "kernel_rls: a budget needs a tolerance above 0, by which rows join the dictionary; such as 1e-6"
        )
    if tolerance > 0:
        return DictionaryRLS(kernel, precision, tolerance, budget)
    return KernelRLS(kernel, precision)


@check_arguments
def dual_svr(
    kernel: CovarianceFunction,
    C: Positive = 1.0,
    *,
    eps: NonNegative = 0.1,
    step: Positive | None = None,
) -> Learner:
    """Support vector regression without offset, min ||f||^2 / 2 + C sum (|f(x_t) - y_t| - eps)_+, by ascent in its dual.

    Each round moves the dual variables of its row; passes over the same rows converge to the minimum.

    Parameters
    ----------
    kernel : CovarianceFunction
        k.
    C : float
        Positive; the largest weight of a row.
    eps : float
        Not negative, in units of y.
    step : float, optional
        Positive; 1 / k(x, x) without it, the exact maximum in one variable.

    Returns
    -------
    Learner
        The learner.

    References
    ----------
    Mohri, Rostamizadeh & Talwalkar 2018, section 11.3.

    Examples
    --------
    >>> from probreg.kernels import RBF
    >>> from probreg.online import run
    >>> path = run(dual_svr(RBF(1.0), step=0.5), [[0.0], [1.0], [2.0], [4.0]], [0.0, 1.0, 0.0, 2.0])
    >>> path.state.w.round(6)
    array([ 0.45    , -0.086469,  0.953352])
    """
    return DualSVR(kernel, C, eps, step)


@check_arguments
def aggregate(
    learners: Sequence[Learner],
    *,
    low: Real = 0.0,
    high: Real = 1.0,
    rule: Literal["vovk", "mean"] = "vovk",
    clip: Flag = False,
) -> Learner:
    """One forecast from those of N learners, whose squared loss exceeds that of the best of them by (high - low)^2 log(N) / 2.

    Each learner learns from every row by itself. Weights are proportional to exp(-rate L_i), L_i the losses so far.

    Parameters
    ----------
    learners : sequence of Learner
        Two or more, of columns or of functions. The forecast of a logistic one is its probability.
    low : float
        The least value of y and of every forecast, known before the rows.
    high : float
        The largest one.
    rule : {"vovk", "mean"}
        The aggregating algorithm with rate 2 / (high - low)^2; or the weighted mean, whose rate is 1 / (2 (high - low)^2) and whose
        regret is at most 2 (high - low)^2 log(N).
    clip : bool
        Whether forecasts outside are moved to the nearer end, for the loss of a learner too; else they are an error.

    Returns
    -------
    Learner
        The learner.

    References
    ----------
    Vovk 1998; Kivinen & Warmuth 1999; Cesa-Bianchi & Lugosi 2006, section 3.6.

    Examples
    --------
    >>> from probreg.online import lms, run
    >>> both = aggregate([lms(0.1), lms(0.5)])
    >>> path = run(both, [[1.0], [1.0], [1.0]], [1.0, 1.0, 1.0])
    >>> path.guarantee().comparator, path.regret().value < 0.5 * 0.7
    (array([0., 1.]), True)
    """
    if isinstance(learners, Learner | str | bytes) or not isinstance(
        learners, Sequence
    ):
        raise DataError(
            f"aggregate: learners is a list of learners, got {shown_value(learners)}"
        )
    return Aggregate(tuple(learners), low, high, rule, clip)
