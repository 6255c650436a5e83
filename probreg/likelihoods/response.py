"""Read a response as numbers or as levels; each error names the row and the value."""

from collections.abc import Sequence
from typing import Any

import numpy as np

from probreg.arguments.arrays import OrderedLevels, brief, floats, missing_objects
from probreg.arguments.scalars import with_article
from probreg.errors import (
    DataError,
    require_rows,
    require_unicode,
    row_error,
)

Level = str | int | float | bool
_LARGEST, _SMALLEST = (
    1e140,
    1e-140,
)  # sizes with squares that do not overflow or underflow, also in a sum over 1e20 rows


def finite_response(values: np.ndarray, kind: str, *, copy: bool = True) -> np.ndarray:
    """The response as finite floats; `kind` names the likelihood in the error. Without `copy` an array of floats is not copied."""
    values = np.asarray(values)
    if values.ndim != 1:
        if values.ndim == 2:
            hint = "; for successes of trials use Binomial, for counts by class Multinomial"
        else:
            hint = ""
        raise DataError(
            f"{with_article(kind)} response is one column, got an array of shape {values.shape}{hint}"
        )
    y = floats(
        values,
        f"{with_article(kind)} response",
        ". For categories use Bernoulli (two levels) or Categorical (more); for numbers stored as text convert them first.",
        copy=copy,
    )
    if not len(y) or max(-float(y.min()), float(y.max())) <= _LARGEST:  # false of nan
        return y
    before = f"{with_article(kind)} response is finite; "
    require_rows(np.isfinite(y), before, " holds {} ({rows})", y)
    require_rows(
        np.abs(y) <= _LARGEST,
        "",
        " of the response holds {:g}, whose square is beyond double precision ({rows}, "
        f"above {_LARGEST:g}): state the response in another unit",
        y,
    )
    return y


def positive_response(values: np.ndarray, kind: str, remedy: str) -> np.ndarray:
    """The response as positive floats. DataError names the first row with zero or a negative number, with a remedy."""
    y = finite_response(values, kind)
    before = f"{with_article(kind)} response is positive; "
    require_rows(y > 0, before, " holds {:g} ({rows}): " + remedy, y)
    return y


def whole_counts(values: np.ndarray, kind: str) -> np.ndarray:
    """Whole numbers that are not negative, as floats of any shape. DataError names the first row with another value."""
    first_inexact = 2.0**53  # from here on not every whole number is a float
    y = floats(values, f"{with_article(kind)} response", ", and it holds counts")
    table = y.reshape(len(y), int(np.prod(y.shape[1:])))
    response = f"{with_article(kind)} response holds counts"
    _require_counts(
        table,
        (table >= 0) & np.isfinite(table) & (np.floor(table) == table),
        f"{response} 0, 1, 2, ...; ",
        " holds {:g} ({rows})",
    )
    _require_counts(
        table,
        table < first_inexact,
        f"{response} below 2^53 = {first_inexact:.0f}; ",
        " holds {:g}: larger ones are not exact in double precision",
    )
    return y


def _require_counts(
    table: np.ndarray, valid: np.ndarray, before: str, after: str
) -> None:
    """`require_rows` for rows of several counts; the error shows the first count that is not valid."""
    if not valid.all():
        first = table[np.arange(len(table)), np.argmin(valid, 1)]
        require_rows(valid.all(1), before, after, first)


def check_variation(y: np.ndarray) -> None:
    """Raise DataError if the values differ by so little that double precision loses the digits of the differences."""
    least_share = 1e-12  # share of its size: with a smaller variation the differences of a response have fewer than four digits
    if not len(y):
        return
    low = float(y.min())
    high = float(y.max())
    if low == high:  # see `probreg.model.compatibility.require_variation`
        return
    if high - low < _SMALLEST:
        raise DataError(
            f"the response varies by {high - low:g}, whose square is below double precision: state it in another unit"
        )
    if high - low < least_share * max(abs(low), abs(high)):
        raise DataError(
            f"the response varies by {high - low:.3g} about {low:.6g}, of which double precision keeps fewer than four "
            f"digits: subtract {low:.6g} before it is stored"
        )


def response_levels(
    values: np.ndarray,
    known: Sequence[Level] | None,
    other: Level | None = None,
) -> tuple[Level, ...]:
    """Return the levels in the data, in the order of `known` (stated by the user or declared in the data), else sorted.

    A response with one level gets its other levels from the first of these sets that contains the level: `known`, the pair with
    `other`, 0 and 1, False and True. DataError for a missing value, and for a level that is not known.
    """
    if np.ndim(values) != 1:
        raise DataError(
            f"a response of levels is one column, got an array of shape {np.shape(values)}"
        )
    _check_missing_levels(values)
    present = set(_distinct_levels(values))
    if known and not present <= set(known):
        codes(values, known)  # raises the error, with the row
    if len(present) == 1:
        (only,) = present
        pair: Any = (
            sorted((only, other)) if type(other) is type(only) and other != only else ()
        )
        for levels in (known or (), pair, (0, 1), (False, True)):
            if len(levels) > 1 and any(
                v == only and type(v) is type(only) for v in levels
            ):
                return tuple(levels)
    if known is not None:
        kind = OrderedLevels if isinstance(known, OrderedLevels) else tuple
        return kind(v for v in known if v in present)
    try:
        return tuple(sorted(present))
    except TypeError:
        raise DataError(
            f"the response mixes kinds of values ({', '.join(sorted({type(v).__name__ for v in present}))}): make them all text or all numbers"
        ) from None


def _check_missing_levels(values: np.ndarray) -> None:
    """Raise DataError if a level is None or nan, because a missing value is not a class."""
    array = np.asarray(values)
    missing = np.zeros(len(array), bool)
    if array.dtype.kind == "f":
        missing = np.isnan(array)
    elif array.dtype.kind == "O":
        missing = missing_objects(array)
    message = " of the response holds {!s} ({rows}): drop or complete them"
    require_rows(~missing, "", message, array)


def refuse_fractions(values: np.ndarray, before: str, advice: str) -> None:
    """Raise DataError for the first number of a response of levels that is not whole."""
    array = np.asarray(values)
    if array.dtype.kind != "f" or array.ndim != 1:
        return
    whole = (array == np.floor(array)) & np.isfinite(array)
    require_rows(whole | np.isnan(array), before, " holds {:g}. " + advice, array)


def codes(values: np.ndarray, levels: Sequence[Level]) -> np.ndarray:
    """Positions in `levels` as floats, shape (n,). DataError names the first row with a value that is not among them."""
    values = np.asarray(values)
    if values.ndim != 1:
        raise DataError(
            f"a response of levels is one column, got an array of shape {values.shape}"
        )
    if values.dtype.kind in "fiub":
        positions = np.full(len(values), -1.0)
        for i, level in enumerate(levels):
            # a third of the time of an assignment to the rows met
            positions += (values == level) * (i + 1.0)
    else:
        place = {v: float(i) for i, v in enumerate(levels)}
        positions = np.array([place.get(_level(v), -1.0) for v in values.tolist()])
    bad = np.flatnonzero(positions < 0)
    if len(bad):
        value = np.asarray(values).tolist()[bad[0]]
        shown_levels = ", ".join(map(repr, levels))
        raise row_error(
            "",
            bad[0],
            f" of the response holds {value!r}, which is not a level of the model: {shown_levels}",
        )
    return positions


def one_of(levels: Sequence[Level], wanted: Level, role: str) -> Level:
    """Return the requested level, given by value or as text."""
    if not isinstance(wanted, str | int | float | np.generic):
        raise DataError(
            f"{role}= is one level of the response, got {type(wanted).__name__}"
        )
    for level in levels:
        if is_level(level, wanted):
            return level
    raise DataError(
        f"{role}={brief(wanted)} is not a level of the response: {', '.join(map(repr, levels))}"
    )


def is_level(level: Level, wanted: Any) -> bool:
    """Return whether `wanted` is the level, given by value or as text.

    >>> is_level(1, 1.0), is_level(1, "1"), is_level("a", "b")
    (True, True, False)
    """
    return np.ndim(wanted) == 0 and (level == wanted or str(level) == str(wanted))


def _distinct_levels(values: np.ndarray) -> list[Level]:
    """Return the distinct values as Python objects."""
    values = np.asarray(values)
    if values.dtype.kind not in "fiub":
        return list({_level(v) for v in values.tolist()})
    return [
        int(v) if isinstance(v, float) and v.is_integer() else v
        for v in np.unique(values).tolist()
    ]  # 1.0 reads as 1


def _level(value: object) -> Level:
    """Return the Python object of a level; 1.0 and True compare equal to 1, as they should."""
    if isinstance(value, str):
        require_unicode(value)
        return value
    if isinstance(value, int | float | bool):
        return value
    return str(value)
