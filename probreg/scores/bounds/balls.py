"""Bounds for balls of functions: of a kernel, of absolute sums, of norms by group; losses of predictions with |h - y| <= width.

Each is the Rademacher bound with a closed form of the complexity. Where a form is of the rows (a trace, norms of columns) it
is the empirical complexity, and 3 M sqrt(log(2 / delta) / 2m) is paid; where it is of constants known before them,
M sqrt(log(1 / delta) / 2m). The squared loss changes by 2 width per unit of h, so that 2 mu Rad = 4 width Rad.
"""

from collections.abc import Callable
from dataclasses import replace

import numpy as np

from probreg.arguments.scalars import Count, Fraction, NonNegative, Positive, Seed, checked
from probreg.arguments.types import ArrayLike
from probreg.errors import DataError
from probreg.scores.assumptions import Assumption
from probreg.scores.bounds.classes import rademacher
from probreg.scores.bounds.result import Array, Bound
from probreg.scores.reading import finite_numbers

_NUMBERS = 4_000_000  # signs held at once
_SOURCE = "Mohri, Rostamizadeh & Talwalkar 2018"


@checked
def kernel(
    *,
    risk: NonNegative,
    n: Count,
    norm: Positive,
    width: Positive,
    trace: Positive | None = None,
    row_norm: Positive | None = None,
    offset: NonNegative = 0.0,
    delta: Fraction = 0.05,
) -> Bound:
    """Squared loss of a ball ||f|| <= Lam of a kernel: R <= R^ + 4 M Lam sqrt(tr K) / m + 3 M^2 sqrt(log(2 / delta) / 2m).

    With r = sup sqrt(k(x, x)) known before the rows it is 4 M Lam r / sqrt(m) + M^2 sqrt(log(1 / delta) / 2m). Of Linear()
    it is the bound for ||w||_2 <= Lam. The class has no offset; with one, |b| <= B, 4 M B / sqrt(m) is added.

    Parameters
    ----------
    risk : float
        R^, the mean squared loss on the rows.
    n : int
        m, the number of rows.
    norm : float
        Lam, fixed before the rows were seen.
    width : float
        M, with |h(x) - y| <= M: hi - lo of predictions clipped to the range [lo, hi] of y.
    trace : float, optional
        tr K = sum_i k(x_i, x_i) of the rows.
    row_norm : float, optional
        r, in the place of the trace.
    offset : float
        B; 0 of a class without an offset.
    delta : float
        The probability with which the bound may fail.

    Returns
    -------
    Bound
        For every function of the ball at once.

    Raises
    ------
    DataError
        Unless one of trace and row_norm is given.

    References
    ----------
    Mohri, Rostamizadeh & Talwalkar 2018, theorem 11.11.

    Examples
    --------
    >>> round(kernel(risk=0.0, n=10_000, norm=10.0, width=1.0, row_norm=1.0).value, 12)
    0.412238734153
    """
    complexity, empirical = _of_rows(n, norm, trace, row_norm)
    found = rademacher(
        risk=risk, n=n, complexity=complexity + offset / np.sqrt(n), delta=delta, most=width**2, lipschitz=2 * width,
        empirical=empirical,
    )  # fmt: skip
    return replace(found, theorem="kernel ball", source=_SOURCE)


@checked
def epsilon_insensitive(
    *,
    risk: NonNegative,
    n: Count,
    norm: Positive,
    width: Positive,
    epsilon: NonNegative = 0.0,
    trace: Positive | None = None,
    row_norm: Positive | None = None,
    offset: NonNegative = 0.0,
    delta: Fraction = 0.05,
) -> Bound:
    """Loss max(0, |h - y| - eps) of a kernel ball: R <= R^ + 2 Lam sqrt(tr K) / m + 3 M' sqrt(log(2 / delta) / 2m).

    M' = max(0, M - eps). With r = sup sqrt(k(x, x)) known before the rows it is 2 Lam r / sqrt(m) + M' sqrt(log(1 / delta) / 2m).
    An offset with |b| <= B adds 2 B / sqrt(m). eps = 0 is the absolute loss.

    Parameters
    ----------
    risk : float
        R^, the mean loss on the rows.
    n : int
        m, the number of rows.
    norm : float
        Lam, fixed before the rows were seen.
    width : float
        M, with |h(x) - y| <= M.
    epsilon : float
        eps, below M.
    trace : float, optional
        tr K of the rows.
    row_norm : float, optional
        r, in the place of the trace.
    offset : float
        B; 0 of a class without an offset.
    delta : float
        The probability with which the bound may fail.

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
    Mohri, Rostamizadeh & Talwalkar 2018, theorem 11.13.

    Examples
    --------
    >>> round(epsilon_insensitive(risk=0.0, n=10_000, norm=10.0, width=1.0, row_norm=1.0).value, 12)
    0.212238734153
    """
    most = largest_beyond(width, epsilon)
    complexity, empirical = _of_rows(n, norm, trace, row_norm)
    found = rademacher(
        risk=risk, n=n, complexity=complexity + offset / np.sqrt(n), delta=delta, most=most, empirical=empirical
    )
    return replace(found, theorem="kernel ball, epsilon-insensitive", source=_SOURCE)


@checked
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
    4 M Lam r sqrt(2 log(2d) / m) + M^2 sqrt(log(1 / delta) / 2m). Some texts print 2 M, which is half of what is true.

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
        r, the largest |x_ij| there is, in the place of c.
    delta : float
        The probability with which the bound may fail.

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
    found = rademacher(
        risk=risk, n=n, complexity=complexity, delta=delta, most=width**2, lipschitz=2 * width,
        empirical=column_norm is not None,
    )  # fmt: skip
    return replace(found, theorem="l1 ball", source="Kakade, Sridharan & Tewari 2008")


@checked
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
        r, the largest norm there is of the entries of a row in one group, known before the rows.
    delta : float
        The probability with which the bound may fail.

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
    found = rademacher(
        risk=risk, n=n, complexity=complexity, delta=delta, most=width**2, lipschitz=2 * width, empirical=False
    )
    return replace(found, theorem="group ball", source="Maurer & Pontil 2012")


def largest_beyond(width: float, epsilon: float) -> float:
    """M - eps, the largest loss of errors up to M. DataError where eps leaves no loss at all."""
    if epsilon >= width:
        raise DataError(f"epsilon is less than the width {width:g}, or there is no loss, got {epsilon:g}")
    return width - epsilon


def _of_rows(n: int, norm: float, trace: float | None, row_norm: float | None) -> tuple[float, bool]:
    """Rad^ <= Lam (tr K)^(1/2) / m, or Lam r / m^(1/2), and whether it is of the rows."""
    _one_of("trace", trace, "row_norm", row_norm)
    if trace is not None:
        return norm * float(np.sqrt(trace)) / n, True
    assert row_norm is not None
    return norm * row_norm / float(np.sqrt(n)), False


def _one_of(one: str, a: float | None, other: str, b: float | None) -> float:
    if (a is None) == (b is None):
        raise DataError(f"give {one}=, of the rows, or {other}=, known before them: one of the two")
    return a if a is not None else b  # type: ignore[return-value]


# ---- complexities by simulation --------------------------------------------------------------------------------------


@checked
def kernel_complexity(
    K: ArrayLike, *, norm: Positive = 1.0, draws: Count = 10_000, seed: Seed = 0, delta: Fraction = 0.01
) -> Bound:
    """The empirical Rademacher complexity of a kernel ball, (Lam / m) E sqrt(s'Ks), by random signs s, and its upper limit.

    ||sum_i s_i k(x_i, .)|| changes by at most 2 sqrt(k(x_i, x_i)) with one sign, so that the mean of N draws is below its
    expectation by at most Lam sqrt(2 tr K log(1 / delta) / N) / m with probability 1 - delta over the draws.

    Parameters
    ----------
    K : array (m, m)
        k(x_i, x_j), symmetric; XX' for ||w||_2 <= Lam.
    norm : float
        Lam.
    draws : int
        N.
    seed : int
        Of the signs.
    delta : float
        The probability with which the limit may fail; it adds to that of the bound on the risk.

    Returns
    -------
    Bound
        `empirical` is the mean of the draws, `value` its upper limit; vacuous where that is not below the closed form.

    Raises
    ------
    DataError
        For a matrix that is not square, or gives a negative square.

    References
    ----------
    Bartlett & Mendelson 2002; McDiarmid 1989.

    Examples
    --------
    >>> found = kernel_complexity(np.eye(4), norm=2.0)
    >>> found.empirical, found.most  # of orthogonal rows every draw has the norm of the closed form
    (1.0, 1.0)
    """
    A = finite_numbers(K, "K")
    if A.ndim != 2 or A.shape[0] != A.shape[1] or not len(A):
        raise DataError(f"K is a square matrix of k(x_i, x_j), got shape {A.shape}")
    trace = float(np.trace(A))

    def size(s: Array) -> Array:
        squares = np.einsum("ij,ij->i", s @ A, s)
        if (low := float(squares.min())) < -1e-9 * trace * len(A):
            raise DataError(f"K is no matrix of a kernel: s'Ks is {low:.3g} for some signs s, and is not negative")
        return np.sqrt(np.maximum(squares, 0.0))

    return _simulated("kernel ball", size, len(A), norm, trace, norm * np.sqrt(trace) / len(A), (draws, seed, delta))


@checked
def l1_complexity(
    X: ArrayLike, *, norm: Positive = 1.0, draws: Count = 10_000, seed: Seed = 0, delta: Fraction = 0.01
) -> Bound:
    """The empirical Rademacher complexity of ||w||_1 <= Lam, (Lam / m) E max_j |sum_i s_i x_ij|, and its upper limit.

    One sign changes the maximum by at most 2 max_j |x_ij|: the limit adds Lam sqrt(2 sum_i max_j x_ij^2 log(1 / delta) / N) / m.

    Parameters
    ----------
    X : array (m, d)
        The rows.
    norm : float
        Lam.
    draws : int
        N.
    seed : int
        Of the signs.
    delta : float
        The probability with which the limit may fail; it adds to that of the bound on the risk.

    Returns
    -------
    Bound
        `empirical` is the mean of the draws, `value` its upper limit; vacuous where that is not below the closed form.

    Raises
    ------
    DataError
        For what is no table of numbers.

    References
    ----------
    Kakade, Sridharan & Tewari 2008; McDiarmid 1989.

    Examples
    --------
    >>> l1_complexity([[1.0], [0.0]]).empirical
    0.5
    """
    rows = finite_numbers(X, "X")
    if rows.ndim != 2 or not rows.size:
        raise DataError(f"X is a table of rows and columns, got shape {rows.shape}")
    m, d = rows.shape
    closed = norm * float(np.sqrt(np.square(rows).sum(0).max() * 2 * np.log(2 * d))) / m
    proxy = float(np.square(np.abs(rows).max(1)).sum())
    return _simulated("l1 ball", lambda s: np.abs(s @ rows).max(1), m, norm, proxy, closed, (draws, seed, delta))


def _simulated(
    ball: str, size: Callable[[Array], Array], m: int, norm: float, proxy: float, closed: float,
    how: tuple[int, int, float],
) -> Bound:  # fmt: skip
    """The mean of `size` over random signs, in units of m / Lam, with its limit; `proxy` is sum_i (change by sign i / 2)^2."""
    draws, seed, delta = how
    rng, total, left = np.random.default_rng(seed), 0.0, draws
    while left:
        some = min(left, max(1, _NUMBERS // m))
        total += float(size(2.0 * rng.integers(0, 2, (some, m)) - 1.0).sum())
        left -= some
    # P(E - mean >= t) <= exp(-N t^2 / (2 proxy)) for bounded differences (McDiarmid).
    mean, above = norm * total / draws / m, norm * float(np.sqrt(2 * proxy * np.log(1 / delta) / draws)) / m
    known = (Assumption(f"{draws} draws of signs are independent of the rows", None, True),)
    title = f"{ball}, simulated"
    value, closed = mean + above, float(closed)
    return Bound(value, mean, 0.0, above, known, "McDiarmid 1989", value >= closed, title, delta, closed, "complexity")
