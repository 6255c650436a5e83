"""Scores of forecasts of a number: a whole distribution, an interval, a quantile. In units of y; smaller is better."""

from collections.abc import Sequence
from typing import Any

import numpy as np
from scipy.special import betaln, ndtr, stdtr

from probreg.arguments.arrays import same_rows
from probreg.arguments.scalars import Flag, check_arguments, shown_value
from probreg.errors import DataError
from probreg.scores.reading import (
    alike,
    finite_numbers,
    level,
    positive_numbers,
    refuse_values,
)
from probreg.special import ROOT_2PI, student_log_density

Array = np.ndarray
_ROOT_PI = np.sqrt(np.pi)


def crps_normal(y: Any, mean: Any, *, sd: Any) -> Array:
    """The CRPS of a normal, integral (F(x) - 1[x >= y])^2 dx for F = N(mean, sd^2), in units of y.

    It is sd (z (2 Phi(z) - 1) + 2 phi(z) - 1/sqrt(pi)) with z = (y - mean)/sd. Arguments broadcast. Strictly proper
    among distributions with a mean.

    Parameters
    ----------
    y : array
        Outcomes.
    mean : array
        Mean of the forecast, in units of y.
    sd : array
        Its standard deviation, positive.

    Returns
    -------
    array
        In units of y.

    Raises
    ------
    DataError
        For a value that is not finite or an sd that is not positive.

    References
    ----------
    Gneiting & Raftery 2007, equation 21.

    Examples
    --------
    >>> float(crps_normal(0.0, 0.0, sd=1.0).round(6))
    0.233695
    """
    same_rows(y=y, mean=mean, sd=sd)
    y = finite_numbers(y, "y")
    mean = finite_numbers(mean, "the mean")
    sd = positive_numbers(sd, "sd")
    alike(y=y, mean=mean, sd=sd)
    z = (y - mean) / sd
    # CRPS = sd (z (2 Phi(z) - 1) + 2 phi(z) - pi^(-1/2)) (Gneiting & Raftery 2007, equation 21)
    return sd * (
        z * (2.0 * ndtr(z) - 1.0)
        + 2.0 * np.exp(-0.5 * z**2) / ROOT_2PI
        - 1.0 / _ROOT_PI
    )


def crps_student(y: Any, centre: Any, *, scale: Any, df: Any) -> Array:
    """The CRPS of centre + scale t with t Student-t on df > 1 degrees of freedom, in units of y.

    It is scale (z (2 F(z) - 1) + 2 f(z) (df + z^2)/(df - 1) - 2 sqrt(df)/(df - 1) B(1/2, df - 1/2)/B(1/2, df/2)^2).

    Parameters
    ----------
    y : array
        Outcomes.
    centre : array
        Centre of the forecast, in units of y.
    scale : array
        Its scale, positive.
    df : array
        Degrees of freedom, above 1.

    Returns
    -------
    array
        In units of y.

    Raises
    ------
    DataError
        If there is no mean (df <= 1), so that the score is infinite.

    References
    ----------
    Jordan, Krueger & Lerch 2019, appendix A.

    Examples
    --------
    >>> float(crps_student(1.0, 0.0, scale=2.0, df=5.0).round(6))
    0.699291
    """
    same_rows(y=y, centre=centre, scale=scale, df=df)
    y = finite_numbers(y, "y")
    centre = finite_numbers(centre, "the centre")
    scale = positive_numbers(scale, "scale")
    df = positive_numbers(df, "df", above=1.0)
    alike(y=y, centre=centre, scale=scale, df=df)
    z = (y - centre) / scale
    density = np.exp(student_log_density(z**2, 1, df))
    # CRPS = scale [z (2 F(z) - 1) + 2 f(z) (df + z^2) / (df - 1) - spread]   (Jordan, Krueger & Lerch 2019, appendix A)
    # with spread = 2 df^(1/2) / (df - 1) B(1/2, df - 1/2) / B(1/2, df/2)^2.
    spread = (
        2.0
        * np.sqrt(df)
        / (df - 1)
        * np.exp(betaln(0.5, df - 0.5) - 2.0 * betaln(0.5, df / 2))
    )
    return scale * (
        z * (2.0 * stdtr(df, z) - 1.0) + 2.0 * density * (df + z**2) / (df - 1) - spread
    )


@check_arguments
def crps_sample(y: Any, draws: Any, *, fair: Flag = False) -> Array:
    """The CRPS of the empirical distribution of draws at y: mean |x - y| - mean |x - x'| / 2.

    It also applies to a discrete response. The cost is O(S log S) per row.

    Parameters
    ----------
    y : array (...,)
        Outcomes.
    draws : array (S, ...)
        Draws of the forecast.
    fair : bool
        Whether the second mean is divided by S (S - 1) in place of S^2. Then it estimates, without bias, the CRPS of
        the distribution that the draws come from.

    Returns
    -------
    array (...,)
        In units of y.

    References
    ----------
    Ferro 2014.

    Examples
    --------
    >>> crps_sample([0.0], [[-1.0], [0.0], [1.0]]).round(4)
    array([0.2222])
    """
    y = finite_numbers(y, "y")
    x = finite_numbers(draws, "a draw")
    if x.ndim != y.ndim + 1 or x.shape[1:] != y.shape:
        raise DataError(
            f"draws come first: expected shape (S, {', '.join(map(str, y.shape))}), got {x.shape}"
        )
    s = len(x)
    if s < 1 + fair:
        raise DataError(f"the CRPS of a sample needs {1 + fair} or more draws, got {s}")
    r = np.sort(x - y, axis=0)  # about y, where no digits are lost
    # mean |x - x'| / 2 = sum_k (2 k - S - 1) x_(k) / S^2 of the sorted draws x_(k).
    rank = (2.0 * np.arange(1, s + 1) - s - 1.0).reshape(-1, *(1,) * y.ndim)
    # CRPS = mean |x - y| - mean |x - x'| / 2   (Gneiting & Raftery 2007; `fair`: Ferro 2014)
    return np.abs(r).mean(0) - (rank * r).sum(0) / (s * (s - 1.0) if fair else s**2)


def pinball(y: Any, quantile: Any, *, prob: Any) -> Array:
    """The pinball loss (1[y < q] - prob)(q - y), minimised on average by the `prob` quantile of y.

    Twice its integral over prob is the CRPS. At prob = 1/2 it is half the absolute error. Arguments broadcast.

    Parameters
    ----------
    y : array
        Outcomes.
    quantile : array
        The forecast q, in units of y.
    prob : array
        The level of the quantile, between 0 and 1.

    Returns
    -------
    array
        In units of y.

    References
    ----------
    Koenker & Bassett 1978.

    Examples
    --------
    >>> pinball([1.0, 3.0], 2.0, prob=0.9).round(2)
    array([0.1, 0.9])
    """
    same_rows(y=y, quantile=quantile)
    y = finite_numbers(y, "y")
    q = finite_numbers(quantile, "the quantile")
    prob = level(prob)
    alike(y=y, quantile=q, prob=prob)
    # prob (y - q) above the quantile, (1 - prob)(q - y) below.
    return np.maximum(prob * (y - q), (prob - 1.0) * (y - q))


def interval_score(y: Any, ends: tuple[Any, Any], *, prob: Any = 0.95) -> Array:
    """The interval score (u - l) + (2/alpha)(l - y)_+ + (2/alpha)(y - u)_+ of a central interval (l, u), alpha = 1 - prob.

    Width plus a penalty for a response outside. It is proper for the quantiles alpha/2 and 1 - alpha/2, because it is the sum of
    their pinball losses times 2/alpha.

    Parameters
    ----------
    y : array
        Outcomes.
    ends : pair of arrays
        Lower and upper ends, in units of y.
    prob : float or array
        Probability of the interval.

    Returns
    -------
    array
        In units of y.

    Raises
    ------
    DataError
        If lower exceeds upper.

    References
    ----------
    Winkler 1972.

    Examples
    --------
    >>> interval_score([0.0, 3.0], (-1.0, 2.0), prob=0.8)
    array([ 3., 13.])
    """
    if not isinstance(ends, Sequence | np.ndarray) or len(ends) != 2:
        raise DataError(
            f"ends is a pair of arrays (lower, upper), got {shown_value(ends)}"
        )
    same_rows(y=y, lower=ends[0], upper=ends[1])
    lower = finite_numbers(ends[0], "the lower end")
    upper = finite_numbers(ends[1], "the upper end")
    y = finite_numbers(y, "y")
    alpha = 1.0 - level(prob)
    alike(y=y, lower=lower, upper=upper, prob=alpha)
    width = upper - lower
    statement = "the lower end lies below the upper"
    refuse_values(width < 0, statement, "upper - lower", width)
    # (u - l) + (2 / alpha) [(l - y)_+ + (y - u)_+]   (Winkler 1972)
    return width + 2.0 / alpha * (
        np.maximum(lower - y, 0.0) + np.maximum(y - upper, 0.0)
    )
