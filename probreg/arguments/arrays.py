"""What users give as arrays, read once: a masked value is a missing one, and nothing loses a part in silence."""

from numbers import Real
from typing import Any

import numpy as np

from probreg.errors import DataError

Array = np.ndarray


def as_array(values: Any, what: str) -> Array:
    """numpy's array of a list or array. A masked value becomes nan, or None where the values are no numbers.

    Raises DataError for rows of different lengths and for complex numbers, whose imaginary part no model takes.

    >>> as_array(np.ma.masked_values([1.0, -9999.0], -9999.0), "y")
    array([ 1., nan])
    """
    if isinstance(values, list | tuple) and any(
        isinstance(row, np.ma.MaskedArray) for row in values
    ):
        values = np.ma.array(values)
    if hasattr(values, "toarray"):
        raise DataError(
            f"{what} is a sparse matrix, and rows are read as dense ones: give {what}.toarray()"
        )
    try:
        if isinstance(values, np.ma.MaskedArray):
            out = _fill_masked(values)
        else:
            out = np.asarray(values)
    except ValueError as error:
        raise DataError(
            f"{what} is no array, its rows differ in length: {error}"
        ) from None
    if out.dtype.kind == "c":
        if out.ndim and out.size:
            first = f" (row 0: {out.flat[0]:.3g})"
        else:
            first = ""
        raise DataError(
            f"{what} holds complex numbers{first}, and a model takes real ones: give the real and the imaginary part apart"
        )
    if out.dtype.kind == "f" and out.dtype.itemsize not in (4, 8):
        return out.astype(float)
    return out


def _fill_masked(values: Any) -> Array:
    """Return the data of a masked array with nan, or None, in masked places."""
    hidden = np.ma.getmaskarray(values)
    if not hidden.any():
        return np.asarray(values.data)
    if values.dtype.kind == "c":
        return np.asarray(values.data)
    out = np.array(values.data, dtype=float if values.dtype.kind in "fiub" else object)
    out[hidden] = None if out.dtype.kind == "O" else np.nan
    return out


def floats(values: Any, what: str, advice: str = "", *, copy: bool = True) -> Array:
    """Floats of the same shape, from numbers and truth values; None is nan. DataError names the row and value that is none:
    text that reads as a number is text all the same, and a date is no number. `advice` ends the sentence; without `copy`
    floats stay where they are.

    >>> floats([1, None, True], "an offset")
    array([ 1., nan,  1.])
    >>> floats(["1.5"], "an offset")
    Traceback (most recent call last):
    probreg.errors.DataError: an offset must be numeric; row 0 holds '1.5'
    """
    given = as_array(values, what)
    if given.dtype.kind in "fiub":
        return given.astype(float, copy=copy)
    if given.dtype.kind == "O":
        gone = missing_objects(given)
        if all(lost or is_number(v) for v, lost in zip(given.flat, gone.flat)):
            return _of_objects(np.where(gone, np.nan, given), what)
        odd = [
            i
            for i, (v, lost) in enumerate(zip(given.flat, gone.flat))
            if not lost and not is_number(v)
        ]
        place = next((i for i in odd if not reads_as_number(given.flat[i])), odd[0])
    elif (
        given.dtype.kind in "US" and given.size
    ):  # a number that stands beside text has become text
        place = next((i for i, v in enumerate(given.flat) if not reads_as_number(v)), 0)
    elif given.size:
        place = 0
    else:
        return np.zeros(given.shape)
    where = (
        ", ".join(
            f"{w} {i}"
            for w, i in zip(("row", "column"), np.unravel_index(place, given.shape))
        )
        or "it"
    )
    value = given.ravel()[place]
    shown = brief(value.item() if isinstance(value, np.str_ | np.bytes_) else value)
    raise DataError(f"{what} must be numeric; {where} holds {shown}{advice}")


def missing_objects(values: Array) -> Array:
    """Where Python's objects are None, nan, NaT or NA."""
    import pandas as pd

    return np.asarray(pd.isna(values.ravel()), dtype=bool).reshape(values.shape)


def _of_objects(values: Array, what: str) -> Array:
    """Floats from Python's numbers, none of which may be beyond them."""
    try:
        return values.astype(float)
    except OverflowError:
        place = next(
            i
            for i, v in enumerate(values.flat)
            if isinstance(v, int) and v.bit_length() > 1023
        )
        where = ", ".join(
            f"{w} {i}"
            for w, i in zip(("row", "column"), np.unravel_index(place, values.shape))
        )
        raise DataError(
            f"{what} holds a number in {where} that is beyond 1.8e308, the largest a float holds"
        ) from None


def reads_as_number(text: Any) -> bool:
    """Whether a value, such as a text, is a number to Python."""
    try:
        float(text)
    except (TypeError, ValueError):
        return False
    return True


def same_rows(**given: Any) -> None:
    """DataError where pandas' row labels of two of these differ: values are put together in their order, not by label."""
    known: tuple[str, Any] | None = None
    for name, values in given.items():
        index = getattr(values, "index", None)
        if (
            index is None
            or callable(index)
            or type(values).__module__.split(".")[0] != "pandas"
        ):
            continue
        if known is None:
            known = name, index
        elif len(index) == len(known[1]) and not (index == known[1]).all():
            i = int(np.argmin(np.asarray(index == known[1])))
            raise DataError(
                f"row {i} is labelled {known[1][i]!r} in {known[0]} and {index[i]!r} in {name}, and rows are put together in "
                "their order: bring both into one, or give arrays without labels"
            )


def brief(value: Any) -> str:
    """A value as messages repeat it: its beginning, where it is long."""
    said = " ".join(repr(value).split())
    return said if len(said) <= 60 else f"{said[:60]}..."


def is_number(value: Any) -> bool:
    """A real number or truth value, Python's, numpy's or a decimal."""
    from decimal import Decimal

    return isinstance(value, Real | Decimal | np.bool_)
