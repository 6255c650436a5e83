"""The columns of the formula in a saved fit: numbers as they are, repeated values as codes of their levels."""

from collections.abc import Mapping
from typing import Any

import numpy as np

from probreg.data.formula.columns import kind_of
from probreg.data.formula.layout import plain_level
from probreg.errors import DataError
from probreg.fits.storage.schema import CODES


def encode_columns(columns: Mapping[str, Any]) -> list[dict[str, Any]]:
    """Return a table for each column with its name, an array of numbers or codes, and the levels of codes.

    Columns with values other than numbers, truth values, texts and times are left out, and those of mixed kinds.

    >>> encode_columns({"g": np.array(["b", "a", "b"], dtype=object)})
    [{'name': 'g', 'values': array([1, 0, 1]), 'levels': ['a', 'b']}]
    """
    tables: list[dict[str, Any]] = []
    for name, column in columns.items():
        values = np.asarray(column)
        if values.dtype.kind not in "biuf":
            if kind_of(values) == "time":
                values = np.array(list(map(plain_level, values)), dtype=object)
            if len(set(map(type, values))) > 1:
                continue  # 1, 1.0 and True are equal, but different levels
            values = np.array(values.tolist())
        levels = None
        if values.dtype.kind in "bU":
            unique, values = np.unique(values, return_inverse=True)
            levels = unique.tolist()
        if values.dtype.kind in "iuf":
            tables.append({"name": name, "values": values, "levels": levels})
    return tables


def decode_columns(tables: list[dict[str, Any]], n: int) -> dict[str, Any]:
    """Return the columns (n,) that `encode_columns` encoded. DataError if a table is malformed."""
    columns: dict[str, Any] = {}
    for table in tables:
        values: Any = table.get("values")
        name = table.get("name")
        levels = table.get("levels")
        is_array = isinstance(values, np.ndarray) and values.shape == (n,)
        if not isinstance(name, str) or not is_array:
            raise DataError(f"a column of the formula lacks a name or {n} values")
        if levels is not None:
            kinds = set(map(type, levels)) if isinstance(levels, list) else set()
            codes = CODES.accepts(values) and bool((values < len(levels)).all())
            if kinds not in ({str}, {bool}) or not codes:
                raise DataError(f"levels of {name!r:.40}: expected texts, and codes below their number")  # fmt: skip
            lookup = np.empty(len(levels), dtype=bool if kinds == {bool} else object)
            lookup[:] = levels
            values = lookup[values.astype(int)]
        columns[name] = values
    return columns
