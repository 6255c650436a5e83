"""The columns of the formula in a saved fit: numbers as they are, repeated values as codes of their levels."""

from collections.abc import Mapping
from typing import Any

import numpy as np

from probreg.data.formula.columns import kind_of
from probreg.data.formula.layout import plain_level
from probreg.errors import DataError
from probreg.fits.storage.container import Container
from probreg.fits.storage.schema import CODES, FINITE, ArraySpec, read_arrays

Array = np.ndarray
_PREFIX = "read_"


def encode_columns(
    columns: Mapping[str, Any],
) -> tuple[dict[str, Array], list[dict[str, Any]]]:
    """Return an array for each column, and a table with its name, kind and levels.

    Columns with values other than numbers, truth values, texts and times are left out, and those of mixed kinds.

    >>> encode_columns({"g": np.array(["b", "a", "b"], dtype=object)})
    ({'read_0': array([1, 0, 1])}, [{'name': 'g', 'kind': 'levels', 'levels': ['a', 'b']}])
    """
    arrays: dict[str, Array] = {}
    tables: list[dict[str, Any]] = []
    for name, column in columns.items():
        values = np.asarray(column)
        table: dict[str, Any] = {"name": name, "kind": "number"}
        if values.dtype.kind not in "biuf":
            if kind_of(values) == "time":
                values = np.array(list(map(plain_level, values)), dtype=object)
            if len(set(map(type, values))) > 1:
                continue  # 1, 1.0 and True are equal, but different levels
            values = np.array(values.tolist())
        if values.dtype.kind == "b":
            values = values.astype(np.int8)
            table["kind"] = "truth"
        elif values.dtype.kind == "U":
            levels, values = np.unique(values, return_inverse=True)
            table |= {"kind": "levels", "levels": levels.tolist()}
        elif values.dtype.kind not in "iuf":
            continue
        arrays[f"{_PREFIX}{len(tables)}"] = values
        tables.append(table)
    return arrays, tables


def decode_columns(
    file: Container, tables: list[dict[str, Any]], sizes: dict[str, int]
) -> dict[str, Any]:
    """Return the columns that `encode_columns` encoded. DataError if a table or an array is malformed."""
    columns: dict[str, Any] = {}
    for i, table in enumerate(tables):
        name: Any = table.get("name")
        kind = table.get("kind")
        levels = table.get("levels", [])
        well_formed = isinstance(name, str) and isinstance(levels, list)
        if not well_formed or kind not in ("number", "truth", "levels"):
            raise DataError(f"column {i} of the formula lacks a name, kind or levels")
        spec = ArraySpec(f"{_PREFIX}{i}", ("n",), FINITE if kind == "number" else CODES)
        values = read_arrays(file, "rows", (spec,), sizes)[spec.name]
        if kind == "number":
            columns[name] = values
            continue
        if kind == "truth":
            levels = [False, True]
        elif not all(isinstance(v, str) for v in levels):
            raise DataError(f"levels of {name!r:.40}: expected texts")
        if (values >= len(levels)).any():
            raise DataError(f"codes of {name!r:.40}: expected below {len(levels)}")
        lookup = np.empty(len(levels), dtype=bool if kind == "truth" else object)
        lookup[:] = levels
        columns[name] = lookup[values.astype(int)]
    return columns
