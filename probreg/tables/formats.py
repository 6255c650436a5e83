"""Numbers as texts. Only these functions round."""

from collections.abc import Callable
from functools import partial

import numpy as np

from probreg.system.terminal import format_p


def format_significant(value: float, digits: int = 5) -> str:
    """A number to so many significant digits; nothing for nan.

    >>> format_significant(0.123456), format_significant(float("nan"))
    ('0.12346', '')
    """
    return "" if value != value else f"{value:.{digits}g}"


def format_digits(digits: int) -> Callable[[float], str]:
    """A format of so many significant digits.

    >>> format_digits(3)(0.123456)
    '0.123'
    """
    return partial(format_significant, digits=digits)


def format_fixed(value: float, places: int) -> str:
    """A number to so many decimal places; nothing for nan.

    >>> format_fixed(1.0, 2), format_fixed(float("nan"), 2)
    ('1.00', '')
    """
    return "" if value != value else f"{value:.{places}f}"


def format_p_value(p: float) -> str:
    """A p-value in a table, to two digits.

    >>> format_p_value(0.0123), format_p_value(0.0), format_p_value(2e-9), format_p_value(float("nan"))
    ('0.012', '<1e-15', '2e-09', '')
    """
    if p != p:
        return ""
    return format_p(p).removeprefix("p ").removeprefix("= ").replace(" ", "")


def decimals(errors: np.ndarray) -> int:
    """Places after the point that show the smallest error to three significant digits; below 0 of those before it.

    >>> decimals(np.array([7.38, 0.108])), decimals(np.array([1234.5])), decimals(np.array([np.nan]))
    (3, -1, 4)
    """
    positive = errors[np.isfinite(errors) & (errors > 0)]
    if len(positive):
        return 2 - int(np.floor(np.log10(positive.min())))
    return 4


def format_rounded(value: float, places: int) -> str:
    """Format a number to so many decimal places, with an exponent where that would be long, of at most the digits that a number has.

    >>> format_rounded(-0.232163, 4), format_rounded(1.2345e-12, 14), format_rounded(float("nan"), 2), format_rounded(1234.5, -1), format_rounded(1.2345e33, -30)
    ('-0.2322', '1.23e-12', '', '1234', '1.234e+33')
    """
    if not np.isfinite(value):
        return "" if np.isnan(value) else f"{value:g}"
    if places <= 8 and abs(value) < 1e10:
        return f"{value:.{max(places, 0)}f}"
    if value:
        digits = int(np.floor(np.log10(abs(value)))) + places
    else:
        digits = 0
    return f"{value:.{min(max(digits, 0), 15)}e}"
