"""Bounds for balls of functions: balls of a kernel, of sums of absolute values, and of norms by group, if |h - y| <= width.

Each is the Rademacher bound with a closed form of the complexity. A form computed from the rows (a trace, norms of columns) is the
empirical complexity, and the bound adds 3 M sqrt(log(2 / delta) / 2m); with constants known before the rows it adds
M sqrt(log(1 / delta) / 2m). The squared loss changes by 2 width per unit of h, so that 2 mu Rad = 4 width Rad.
"""

from dataclasses import replace

import numpy as np

from probreg.arguments.scalars import (
    Count,
    Fraction,
    NonNegative,
    Positive,
    check_arguments,
)
from probreg.errors import DataError
from probreg.scores.bounds.classes import rademacher
from probreg.scores.bounds.result import Bound

_SOURCE = "Mohri, Rostamizadeh & Talwalkar 2018"


@check_arguments
def kernel(
    *,
    risk: NonNegative,
    n: Count,
    norm: Positive,
    width: Positive,
    epsilon: NonNegative | None = None,
    trace: Positive | None = None,
    row_norm: Positive | None = None,
    offset: NonNegative = 0.0,
    delta: Fraction = 0.05,
) -> Bound:
    """Squared loss of a ball ||f|| <= Lam of a kernel: R <= R^ + 4 M Lam sqrt(tr K) / m + 3 M^2 sqrt(log(2 / delta) / 2m).

    With r = sup sqrt(k(x, x)) known before the rows it is 4 M Lam r / sqrt(m) + M^2 sqrt(log(1 / delta) / 2m). For Linear()
    it is the bound for ||w||_2 <= Lam. The class has no offset; with one, |b| <= B, 4 M B / sqrt(m) is added.

    With `epsilon` the loss is max(0, |h - y| - eps), eps = 0 the absolute loss: 4 M becomes 2, and M^2 becomes M - eps.

    Parameters
    ----------
    risk : float
        R^, the mean loss on the rows.
    n : int
        m, the number of rows.
    norm : float
        Lam, fixed before the rows were seen.
    width : float
        M, with |h(x) - y| <= M: hi - lo of predictions clipped to the range [lo, hi] of y.
    epsilon : float, optional
        eps of the loss of support vector regression, below M; the squared loss without it.
    trace : float, optional
        tr K = sum_i k(x_i, x_i) of the rows.
    row_norm : float, optional
        r, in place of the trace.
    offset : float
        B; 0 of a class without an offset.
    delta : float
        The largest probability that the bound fails.

    Returns
    -------
    Bound
        For every function of the ball at once.

    Raises
    ------
    DataError
        Unless one of trace and row_norm is given, and for an epsilon that no error exceeds.

    References
    ----------
    Mohri, Rostamizadeh & Talwalkar 2018, theorems 11.11 and 11.13.

    Examples
    --------
    >>> round(kernel(risk=0.0, n=10_000, norm=10.0, width=1.0, row_norm=1.0).value, 12)
    0.412238734153
    >>> round(kernel(risk=0.0, n=10_000, norm=10.0, width=1.0, row_norm=1.0, epsilon=0.0).value, 12)
    0.212238734153
    """
    if epsilon is None:
        most = width**2
        lipschitz = 2 * width
        theorem = "kernel ball"
    else:
        most = largest_beyond(width, epsilon)
        lipschitz = 1.0
        theorem = "kernel ball, epsilon-insensitive"
    size = _one_of("trace", trace, "row_norm", row_norm)
    if trace is None:
        complexity = norm * size / np.sqrt(n)
    else:
        complexity = norm * np.sqrt(size) / n
    bound = rademacher(
        risk=risk, n=n, complexity=complexity + offset / np.sqrt(n), delta=delta, most=most, lipschitz=lipschitz,
        empirical=trace is not None,
    )  # fmt: skip
    return replace(bound, theorem=theorem, source=_SOURCE)


@check_arguments
def l1(
    *,
    risk: NonNegative,
    n: Count,
    norm: Positive,
    width: Positive,
    columns: Count,
    column_norm: Positive | None = None,
    largest: Positive | None = None,
    delta: Fraction = 0.05,
) -> Bound:
    """Squared loss of ||w||_1 <= Lam on d columns: R <= R^ + 4 M Lam c sqrt(2 log 2d) / m + 3 M^2 sqrt(log(2 / delta) / 2m).

    c = max_j ||X_j||_2 is the largest norm of a column. With |x_ij| <= r known before the rows it is
    4 M Lam r sqrt(2 log(2d) / m) + M^2 sqrt(log(1 / delta) / 2m). Some texts print 2 M, half of the correct value.

    Parameters
    ----------
    risk : float
        R^, the mean squared loss on the rows.
    n : int
        m, the number of rows.
    norm : float
        Lam, fixed before the rows were seen.
    width : float
        M, with |h(x) - y| <= M.
    columns : int
        d.
    column_norm : float, optional
        c, of the rows.
    largest : float, optional
        r, the largest possible |x_ij|, in place of c.
    delta : float
        The largest probability that the bound fails.

    Returns
    -------
    Bound
        For every w of the ball at once.

    Raises
    ------
    DataError
        Unless one of column_norm and largest is given.

    References
    ----------
    Kakade, Sridharan & Tewari 2008.

    Examples
    --------
    >>> round(l1(risk=0.0, n=10_000, norm=1.0, width=1.0, columns=10, largest=1.0).value, 12)
    0.110148607381
    """
    size = _one_of("column_norm", column_norm, "largest", largest)
    # Rad^ <= Lam max_j |X_j|_2 (2 log 2d)^(1/2) / m (Massart), |X_j|_2 <= r m^(1/2).
    over = n if column_norm is not None else np.sqrt(n)
    complexity = norm * size * float(np.sqrt(2 * np.log(2 * columns))) / over
    bound = rademacher(
        risk=risk, n=n, complexity=complexity, delta=delta, most=width**2, lipschitz=2 * width,
        empirical=column_norm is not None,
    )  # fmt: skip
    return replace(bound, theorem="l1 ball", source="Kakade, Sridharan & Tewari 2008")


@check_arguments
def group(
    *,
    risk: NonNegative,
    n: Count,
    norm: Positive,
    width: Positive,
    groups: Count,
    row_norm: Positive,
    delta: Fraction = 0.05,
) -> Bound:
    """Squared loss of sum_g ||w_g||_2 <= Lam: R <= R^ + 4 M Lam r (1 + sqrt(2 log J)) / sqrt(m) + M^2 sqrt(log(1 / delta) / 2m).

    Parameters
    ----------
    risk : float
        R^, the mean squared loss on the rows.
    n : int
        m, the number of rows.
    norm : float
        Lam, fixed before the rows were seen.
    width : float
        M, with |h(x) - y| <= M.
    groups : int
        J.
    row_norm : float
        r, the largest possible norm of the entries of a row in one group, known before the rows.
    delta : float
        The largest probability that the bound fails.

    Returns
    -------
    Bound
        For every w of the ball at once.

    References
    ----------
    Maurer & Pontil 2012.

    Examples
    --------
    >>> round(group(risk=0.0, n=10_000, norm=1.0, width=1.0, groups=1, row_norm=1.0).value, 4)
    0.0522
    """
    # |sum_i s_i x_i,g| has mean <= r m^(1/2) and variance proxy m r^2: the largest of J is (2 log J)^(1/2) proxies higher.
    complexity = norm * row_norm * float((1 + np.sqrt(2 * np.log(groups))) / np.sqrt(n))
    bound = rademacher(
        risk=risk,
        n=n,
        complexity=complexity,
        delta=delta,
        most=width**2,
        lipschitz=2 * width,
        empirical=False,
    )
    return replace(bound, theorem="group ball", source="Maurer & Pontil 2012")


def largest_beyond(width: float, epsilon: float) -> float:
    """M - eps, the largest loss of errors up to M. DataError if eps is so large that every loss is 0."""
    if epsilon >= width:
        raise DataError(
            f"epsilon is less than the width {width:g}, or there is no loss, got {epsilon:g}"
        )
    return width - epsilon


def _one_of(name: str, a: float | None, other_name: str, b: float | None) -> float:
    if (a is None) == (b is None):
        raise DataError(
            f"give {name}=, of the rows, or {other_name}=, known before them: one of the two"
        )
    if a is not None:
        return a
    return b  # type: ignore[return-value]
