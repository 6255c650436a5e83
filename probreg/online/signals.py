"""Signals as streams of rows: lagged designs and tapped delay lines, and how much of an echo is left."""

from typing import NamedTuple

import numpy as np
from numpy.typing import ArrayLike

from probreg.arguments.arrays import floats
from probreg.arguments.scalars import Count, Natural, check_arguments
from probreg.errors import DataError
from probreg.online.updates import Array


class Lagged(NamedTuple):
    """A signal as a regression: rows X (n, m), targets y (n,), and the names of the columns of X."""

    X: Array
    y: Array
    columns: tuple[str, ...]


@check_arguments
def lags(
    s: ArrayLike, m: Count, *, delay: Natural = 1, target: ArrayLike | None = None
) -> Lagged:
    """The lagged design of a signal s: rows (s[t - delay], ..., s[t - delay - m + 1]), targets y[t].

    y is s itself, so that delay = 1 gives the autoregression of order m, for t = m .. n - 1. With delay = 0 and another
    signal as `target`, for example a microphone's, it is the tapped delay line (s[t], ..., s[t - m + 1]) of a filter with m
    taps. There are n - m - delay + 1 rows, each with its whole past in s.

    Parameters
    ----------
    s : array (n,)
        The signal.
    m : int
        Number of lags.
    delay : int
        The first lag; 0 needs a target.
    target : array (n,), optional
        Another signal, heard at the same times.

    Returns
    -------
    Lagged
        X, y and the names of the columns, lag<k> for s[t - k].

    Raises
    ------
    DataError
        If delay is 0 without a target (y would be a column of X), if no row is left, if signals differ in length, or if
        a value is not finite.

    References
    ----------
    Haykin, Adaptive Filter Theory (transversal filters).

    Examples
    --------
    >>> X, y, columns = lags([1.0, 2.0, 3.0, 4.0], 2)
    >>> X
    array([[2., 1.],
           [3., 2.]])
    >>> y, columns
    (array([3., 4.]), ('lag1', 'lag2'))
    >>> lags([1.0, 2.0, 3.0], 2, delay=0, target=[0.5, 1.0, 1.5])
    Lagged(X=array([[2., 1.], [3., 2.]]), y=array([1. , 1.5]), columns=('lag0', 'lag1'))
    """
    values = _signal("s", s)
    y = values if target is None else _signal("target", target, len(values))
    if delay == 0 and target is None:
        raise DataError("delay is 0: y would be the first column of X; give a target")
    if m + delay > len(values):
        raise DataError(
            f"{m} lags from {delay} on need {m + delay} values, there are {len(values)}: take fewer lags"
        )
    first = m + delay - 1
    past = values[: len(values) - delay]
    X = np.ascontiguousarray(np.lib.stride_tricks.sliding_window_view(past, m)[:, ::-1])
    return Lagged(
        X, y[first:].copy(), tuple(f"lag{k}" for k in range(delay, delay + m))
    )


@check_arguments
def echo_return_loss(d: ArrayLike, e: ArrayLike, *, window: Count) -> Array:
    """Echo return loss enhancement over time, in dB: 10 log10(mean d^2 / mean e^2) over `window` rounds.

    Parameters
    ----------
    d : array (n,)
        The signal of the microphone.
    e : array (n,)
        The residual after subtraction of the predicted echo.
    window : int
        Rounds, from 1 to n.

    Returns
    -------
    array (n - window + 1,)
        Value k is for rounds k .. k + window - 1: inf if e is 0, -inf if d is 0, nan
        where both are silent.

    Raises
    ------
    DataError
        For a window that is not 1 .. n, signals not of one length, or a value that is not finite.

    References
    ----------
    Haykin, Adaptive Filter Theory (echo cancellation).

    Examples
    --------
    >>> echo_return_loss([1.0, -1.0, 1.0], [1.0, 0.1, 0.1], window=1).round(9)
    array([ 0., 20., 20.])
    """
    heard = _signal("d", d)
    residual = _signal("e", e, len(heard))
    if window > len(heard):
        raise DataError(
            f"window is {window}: need a number of rounds from 1 to {len(heard)}, the length of the signals"
        )
    with np.errstate(divide="ignore", invalid="ignore"):  # silence has no decibels
        return _decibels(heard, window) - _decibels(residual, window)


def _decibels(v: Array, window: int) -> Array:
    """10 log10 of the sliding sums of v^2, scaled so that no square overflows."""
    top = float(np.abs(v).max()) or 1.0
    squares = np.lib.stride_tricks.sliding_window_view((v / top) ** 2, window)
    return 10 * np.log10(squares.sum(-1)) + 20 * np.log10(top)


def _signal(name: str, values: ArrayLike, length: int | None = None) -> Array:
    """A signal as floats (n,), after its checks."""
    v = floats(values, name)
    if v.ndim != 1 or len(v) != (length or len(v)):
        expected = "(n,)" if length is None else f"({length},)"
        raise DataError(f"{name} has shape {v.shape}: expected one channel {expected}")
    if not np.isfinite(v).all():
        t = int(np.argmin(np.isfinite(v)))
        raise DataError(
            f"{name}[{t}] is {v[t]:g}: lags need every value; fill it or cut the signal there"
        )
    return v
