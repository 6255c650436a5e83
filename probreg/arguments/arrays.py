"""Read arrays from users: a masked value becomes a missing value, and conversions never drop part of a value."""

from numbers import Real
from typing import Any

import numpy as np

from probreg.errors import DataError

Array = np.ndarray


def as_array(values: Any, label: str) -> Array:
    """Convert a list or array to a NumPy array; a masked value becomes nan, or None if the values are not numbers.

    Raises DataError for rows of different lengths and for complex numbers, because no model uses an imaginary part.

    >>> as_array(np.ma.masked_values([1.0, -9999.0], -9999.0), "y")
    array([ 1., nan])
    """
    if isinstance(values, list | tuple) and any(
        isinstance(row, np.ma.MaskedArray) for row in values
    ):
        values = np.ma.array(values)
    if hasattr(values, "toarray"):
        raise DataError(
            f"{label} is a sparse matrix, and rows are read as dense ones: give {label}.toarray()"
        )
    try:
        if isinstance(values, np.ma.MaskedArray):
            array = _fill_masked(values)
        else:
            array = np.asarray(values)
    except TypeError:  # such as an xarray Dataset
        raise DataError(
            f"{label}: expected an array of numbers, got {type(values).__name__}"
        ) from None
    except ValueError as error:
        raise DataError(
            f"{label} is no array, its rows differ in length: {error}"
        ) from None
    if array.dtype.kind == "c":
        first = ""
        if array.ndim and array.size:
            first = f" (row 0: {array.flat[0]:.3g})"
        raise DataError(
            f"{label} holds complex numbers{first}, and a model takes real ones: give the real and the imaginary part apart"
        )
    if array.dtype.kind == "f" and array.dtype.itemsize not in (4, 8):
        return array.astype(float)
    return array


def _fill_masked(values: Any) -> Array:
    """Return the data of a masked array with nan, or None, in masked places."""
    hidden = np.ma.getmaskarray(values)
    if not hidden.any():
        return np.asarray(values.data)
    if values.dtype.kind == "c":
        return np.asarray(values.data)
    array = np.array(
        values.data, dtype=float if values.dtype.kind in "fiub" else object
    )
    array[hidden] = None if array.dtype.kind == "O" else np.nan
    return array


def floats(values: Any, label: str, advice: str = "", *, copy: bool = True) -> Array:
    """Convert numbers, Booleans and None (nan) to floats of the same shape. DataError names the row and value of other types:
    numeric text is not converted, and neither is a date. `advice` ends the sentence; without `copy`,
    arrays of floats are not copied.

    >>> floats([1, None, True], "an offset")
    array([ 1., nan,  1.])
    >>> floats(["1.5"], "an offset")
    Traceback (most recent call last):
    probreg.errors.DataError: an offset must be numeric; row 0 holds '1.5'
    """
    array = as_array(values, label)
    if array.dtype.kind in "fiub":
        return array.astype(float, copy=copy)
    if not array.size:
        return np.zeros(array.shape)
    is_bad = [True] * array.size
    if array.dtype.kind == "O":
        missing = missing_objects(array)
        pairs = zip(array.flat, missing.flat)
        is_bad = [not (is_missing or is_number(v)) for v, is_missing in pairs]
        if not any(is_bad):
            return _of_objects(np.where(missing, np.nan, array), label)
    # numbers mixed with text have become text
    texts = (i for i in np.flatnonzero(is_bad) if not reads_as_number(array.flat[i]))
    place = next(texts, is_bad.index(True))
    where = (
        ", ".join(
            f"{w} {i}"
            for w, i in zip(("row", "column"), np.unravel_index(place, array.shape))
        )
        or "it"
    )
    value = array.ravel()[place]
    raise DataError(f"{label} must be numeric; {where} holds {brief(value)}{advice}")


def missing_objects(values: Array) -> Array:
    """Return a mask of the Python objects that are None, nan, NaT or NA."""
    import pandas as pd

    return np.asarray(pd.isna(values.ravel()), dtype=bool).reshape(values.shape)


def _of_objects(values: Array, label: str) -> Array:
    """Convert Python numbers to floats; raise DataError for numbers beyond their range."""
    try:
        return values.astype(float)
    except OverflowError:
        values = np.atleast_1d(values)
        large = [isinstance(v, int) and v.bit_length() > 1023 for v in values.flat]
        raise DataError(
            f"{label} holds a number in row {np.argmax(large) // max(np.size(values[0]), 1)} that is beyond 1.8e308, the largest a float holds"
        ) from None


def reads_as_number(text: Any) -> bool:
    """Return whether Python can convert a value, such as a text, to a number."""
    try:
        float(text)
    except (TypeError, ValueError):
        return False
    return True


def same_rows(**given: Any) -> None:
    """Raise DataError if the pandas row labels of two arguments differ, because values are matched by order, not by label."""
    first: tuple[str, Any] | None = None
    for name, values in given.items():
        index = getattr(values, "index", None)
        if (
            index is None
            or callable(index)
            or type(values).__module__.split(".")[0] != "pandas"
        ):
            continue
        if first is None:
            first = name, index
        elif len(index) == len(first[1]) and not (index == first[1]).all():
            i = int(np.argmin(np.asarray(index == first[1])))
            raise DataError(
                f"row {i} is labelled {first[1][i]!r} in {first[0]} and {index[i]!r} in {name}, and rows are put together in "
                "their order: bring both into one, or give arrays without labels"
            )


def brief(value: Any) -> str:
    """Shorten a value for a message; a NumPy scalar is shown as a Python value, and a time as in ISO 8601."""
    if isinstance(value, np.datetime64 | np.timedelta64):
        return str(value)
    plain = value.item() if isinstance(value, np.generic) else value
    text = " ".join(repr(plain).split())
    return text if len(text) <= 60 else f"{text[:60]}..."


def is_number(value: Any) -> bool:
    """Return whether a value is a real number or Boolean of Python or NumPy, or a Decimal."""
    from decimal import Decimal

    return isinstance(value, Real | Decimal | np.bool_)


class OrderedLevels(tuple[Any, ...]):
    """The levels of a category that is declared as ordered, in their order."""


def category_levels(category: Any) -> tuple[Any, ...]:
    """Return the levels of a pandas Categorical, as `OrderedLevels` if it is declared as ordered."""
    levels = category.categories.tolist()
    return OrderedLevels(levels) if category.ordered else tuple(levels)
