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
        Where delay is 0 without a target (y would be a column of X), no row is left, signals are not of one length, or
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
    y = values if target is None else _signal("target", target)
    _same_length("s", values, "target", y)
    _room(len(values), m, delay, own=target is None)
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
    residual = _signal("e", e)
    _same_length("d", heard, "e", residual)
    if window > len(heard):
        raise DataError(
            f"window is {window}: need a number of rounds from 1 to {len(heard)}, the length of the signals"
        )
    with np.errstate(
        divide="ignore", invalid="ignore"
    ):  # silence: the docstring says what it gives
        return _decibels(heard, window) - _decibels(residual, window)


def _decibels(v: Array, window: int) -> Array:
    """10 log10 of the sliding sums of v^2, scaled so that no square overflows."""
    top = float(np.abs(v).max()) or 1.0
    return np.asarray(
        10 * np.log10(_sliding_sums((v / top) ** 2, window)) + 20 * np.log10(top)
    )


def _sliding_sums(v: Array, window: int) -> Array:
    """Sums of `window` neighbours of v >= 0, each within a few units of rounding of its own size.

    A window is the end of one block and the start of the next. Differences of one running sum would lose the digits of
    a residual that is small relative to the earlier signal.
    """
    blocks = np.append(v, np.zeros(-len(v) % window)).reshape(-1, window)
    start = np.cumsum(blocks, axis=1).ravel()
    end = np.cumsum(blocks[:, ::-1], axis=1)[:, ::-1].ravel()
    k = np.arange(len(v) - window + 1)
    return np.where(k % window == 0, end[k], end[k] + start[k + window - 1])


def _signal(name: str, values: ArrayLike) -> Array:
    """A signal as floats (n,), after its checks."""
    v = floats(values, name)
    if v.ndim != 1:
        raise DataError(
            f"{name} has shape {v.shape}: a signal is one row of values (n,); pass one channel"
        )
    if not np.isfinite(v).all():
        t = int(np.argmin(np.isfinite(v)))
        raise DataError(
            f"{name}[{t}] is {v[t]:g}: lags need every value; fill it or cut the signal there"
        )
    return v


def _same_length(a: str, first: Array, b: str, second: Array) -> None:
    if len(first) != len(second):
        raise DataError(
            f"{a} has {len(first)} values, {b} has {len(second)}: they are heard together, so need as many"
        )


def _room(n: int, m: int, delay: int, *, own: bool) -> None:
    """Whether m lags from `delay` on leave a row of n values."""
    if delay < own:
        raise DataError(
            f"delay is {delay}: need {int(own)} or more"
            + (
                "; with 0, y would be the first column of X: give a target"
                if delay == 0
                else ""
            )
        )
    if m + delay > n:
        raise DataError(
            f"{m} lags from {delay} on need {m + delay} values, there are {n}: take fewer lags"
        )
