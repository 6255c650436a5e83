"""Columns that a formula read, in a file beside the rows: numbers as they are, and values that repeat as codes of their levels."""

from collections.abc import Mapping
from typing import Any

import numpy as np

from probreg.data.formula.columns import kind_of
from probreg.data.formula.layout import plain_level
from probreg.errors import DataError
from probreg.fits.storage import checks
from probreg.fits.storage.checks import Stored, read_arrays
from probreg.fits.storage.container import Container

Array = np.ndarray
_PREFIX = "read_"
_LEVEL = (str, bool, int, float)


def written_columns(
    read: Mapping[str, Any],
) -> tuple[dict[str, Array], list[dict[str, Any]]]:
    """The arrays of these columns, and of each its name, its kind and its levels; values of other kinds than numbers, texts
    and times are left out.

    >>> written_columns({"g": np.array(["b", "a", "b"], dtype=object)})
    ({'read_0': array([1, 0, 1])}, [{'name': 'g', 'kind': 'levels', 'levels': ['a', 'b']}])
    """
    arrays: dict[str, Array] = {}
    said: list[dict[str, Any]] = []
    for name, column in read.items():
        values = np.asarray(column)
        about: dict[str, Any] = {"name": name, "kind": "number"}
        if values.dtype.kind == "b":
            values = values.astype(np.int8)
            about = about | {"kind": "truth"}
        elif values.dtype.kind not in "iuf":
            if kind_of(values) == "time":
                values = np.array(list(map(plain_level, values)), dtype=object)
            levels = sorted(
                {v for v in values.tolist() if isinstance(v, _LEVEL)},
                key=lambda v: (type(v).__name__, v),
            )
            code = {(type(v).__name__, v): i for i, v in enumerate(levels)}
            codes = [code.get((type(v).__name__, v), -1) for v in values.tolist()]
            if -1 in codes:
                continue
            values = np.array(codes)
            about = about | {"kind": "levels", "levels": levels}
        arrays[f"{_PREFIX}{len(said)}"] = values
        said.append(about)
    return arrays, said


def read_columns_back(
    file: Container, said: Any, sizes: dict[str, int]
) -> dict[str, Any]:
    """The columns that `written_columns` wrote. DataError for what is none."""
    if not isinstance(said, list) or not all(isinstance(about, dict) for about in said):
        raise DataError("its columns of the formula are no list of tables")
    out: dict[str, Any] = {}
    for i, about in enumerate(said):
        name = about.get("name")
        kind = about.get("kind")
        levels = about.get("levels", [])
        if (
            not isinstance(name, str)
            or kind not in ("number", "truth", "levels")
            or not isinstance(levels, list)
        ):
            raise DataError(
                f"its column {i} of the formula has no name, kind or levels"
            )
        if kind == "number":
            values = checks.FINITE
        else:
            values = checks.WHOLES
        found = read_arrays(
            file, "rows", (Stored(f"{_PREFIX}{i}", ("n",), values),), sizes
        )[f"{_PREFIX}{i}"]
        most = len(levels) if kind == "levels" else 2
        if kind != "number" and (found >= most).any():
            raise DataError(
                f"its column {name!r:.40} holds codes beyond its {most} values"
            )
        if kind == "levels":
            if not all(isinstance(v, _LEVEL) for v in levels):
                raise DataError(
                    f"the levels of its column {name!r:.40} are not texts and numbers"
                )
            every = np.empty(len(levels), dtype=object)
            every[:] = levels
            found = every[found.astype(int)]
        if kind == "truth":
            out[name] = found.astype(bool)
        else:
            out[name] = found
    return out
