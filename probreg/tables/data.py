"""Tables for programs: CSV and JSON of unrounded values."""

import json
import math
from collections.abc import Mapping
from typing import Any

import numpy as np

from probreg.arguments.arrays import reads_as_number
from probreg.arguments.types import DataFrame


def csv_text(frame: DataFrame) -> str:
    """A table with its named index as columns: numbers in full, an empty cell for nan, no text that a spreadsheet runs.

    >>> import pandas as pd
    >>> csv_text(pd.DataFrame({"x": [0.1 + 0.2, float("nan")]}, index=pd.Index(["a", "b"], name="row")))
    'row,x\\na,0.30000000000000004\\nb,\\n'
    """
    frame = with_index_columns(frame).map(quote_formula).rename(columns=quote_formula)
    return str(frame.to_csv(index=False, lineterminator="\n"))


def quote_formula(value: Any) -> Any:
    """A cell of a CSV; a text that a spreadsheet would run as a formula gets an apostrophe in front.

    >>> [quote_formula(v) for v in ("=1+1", "+1", "a", -2.0)]
    ["'=1+1", '+1', 'a', -2.0]
    """
    is_formula = (
        isinstance(value, str)
        and value[:1] in ("=", "+", "-", "@", "\t", "\r")
        and not reads_as_number(value)
    )
    return f"'{value}" if is_formula else value


def with_index_columns(frame: DataFrame) -> DataFrame:
    """The table with the named levels of its index as its first columns."""
    level_names = [name for name in frame.index.names if name is not None]
    return frame.reset_index() if level_names else frame


def records(frame: DataFrame) -> list[dict[str, Any]]:
    """The rows of a table as objects, with its named index."""
    frame = with_index_columns(frame)
    columns = {str(name): frame[name].tolist() for name in frame.columns}
    return [dict(zip(columns, row)) for row in zip(*columns.values())]


def json_text(content: Any) -> str:
    """JSON of unrounded numbers: null for nan, "Infinity" for an infinite number."""
    text = json.dumps(
        json_value(content), ensure_ascii=False, allow_nan=False, indent=1
    )
    return f"{text}\n"


def json_value(value: Any) -> Any:
    """A value as JSON has it.

    >>> json_value({"a": (1.5, math.nan, -math.inf), "b": np.int64(2)})
    {'a': [1.5, None, '-Infinity'], 'b': 2}
    """
    if isinstance(value, Mapping):
        return {str(k): json_value(v) for k, v in value.items()}
    if isinstance(value, np.ndarray | np.generic):
        return json_value(value.tolist())
    if isinstance(value, tuple | list | set | frozenset):
        return [json_value(v) for v in value]
    if value is None or isinstance(value, str | int):
        return value
    if value != value:  # nan, a missing value of pandas
        return None
    if isinstance(value, float):
        if math.isfinite(value):
            return value
        return f"{'-' if value < 0 else ''}Infinity"
    return str(value)
