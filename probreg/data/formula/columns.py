"""Convert tables of any kind to named columns of plain arrays; no other module does this.

Numbers, Booleans and text become numpy arrays (text as objects with None if missing), categories
as `pandas.Categorical`, which keeps their declared order. This module does not drop or check values; that is left
to the function that reads the formula, which uses the meaning of the columns.
"""

from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from decimal import Decimal
from typing import Any, Literal

import numpy as np

from probreg.arguments.arrays import floats, reads_as_number
from probreg.errors import DataError
from probreg.formula.expression import EXACT

Kind = Literal["number", "truth", "text", "levels", "time", "other"]
TAKEN = "a pandas, polars or pyarrow table, or a mapping from names to 1-D arrays of one length"


# by the letter of a numpy type, or by the type that pandas infers from objects
_KINDS: dict[str, Kind] = {
    **dict.fromkeys(("i", "u", "f", "integer", "floating", "mixed-integer-float", "decimal"), "number"),
    **dict.fromkeys(("b", "boolean"), "truth"),
    **dict.fromkeys(("m", "M", "datetime", "datetime64", "date", "time", "timedelta", "period"), "time"),
    "string": "text",
}  # fmt: skip


@dataclass(frozen=True)
class DataTable:
    """Named columns of equal length n and the labels of the n rows.

    `counts` (n,) gives the number of copies of each row when something is learned from the rows; None means one copy of each.

    >>> table = read_table({"x": [1, 2, None], "g": ["a", "b", "a"]})
    >>> table.columns["x"]
    array([ 1.,  2., nan])
    >>> table.part(np.array([0, 2])).rows
    array([0, 2])
    """

    columns: Mapping[str, Any]
    rows: np.ndarray
    counts: np.ndarray | None = None
    streamed: bool = False  # a sample of rows that are read in blocks

    def part(self, keep: np.ndarray | slice) -> "DataTable":
        """Return the rows at positions `keep` with their labels."""
        columns = {
            name: with_plain_dtype(values[keep])
            for name, values in self.columns.items()
        }
        return DataTable(
            columns, self.rows[keep], None if self.counts is None else self.counts[keep]
        )

    def without_ends(self, ends: frozenset[str]) -> "DataTable":
        """Return the table without the columns of `ends`, which may be missing; an indicator of an event may not, and stays."""
        return self.only(
            tuple(
                name
                for name, values in self.columns.items()
                if name not in ends or kind_of(values) == "truth"
            )
        )

    def only(self, names: tuple[str, ...]) -> "DataTable":
        """Return the table with only the named columns."""
        return DataTable(
            {name: self.columns[name] for name in names}, self.rows, self.counts
        )


def read_columns(data: Any) -> dict[str, Any]:
    """Return the columns of a table by name, as 1-D arrays (text as objects, categories as Categorical).

    Raises DataError for data that are not a table, for columns of different lengths, and for no rows.

    >>> read_columns({"y": [0.5, 1.5], "treated": [True, False]})
    {'y': array([0.5, 1.5]), 'treated': array([ True, False])}
    """
    return dict(read_table(data).columns)


def read_table(data: Any) -> DataTable:
    """Return the columns of a table and its row labels: a pandas index, or 0 to n - 1."""
    roots = {kind.__module__.split(".")[0] for kind in type(data).__mro__}
    if "pandas" in roots:
        table = _from_pandas(data)
    elif "pyarrow" in roots:
        table = _from_arrow(data)
    elif isinstance(data, Mapping):
        table = _from_mapping(data)
    else:
        table = _from_narwhals(data)
    if not len(table.rows):
        raise DataError("the table has no rows, expected at least one")
    return table


def kind_of(column: Any) -> Kind:
    """Return the type of a column's values, determined from its non-missing values."""
    if not isinstance(column, np.ndarray):
        return "levels"
    return _KINDS.get(column.dtype.kind) or _KINDS.get(_infer_dtype(column), "other")


def first_text(column: Any) -> int:
    """Return the position of the first value of a text column that is not a number; 0 if all are numbers.

    >>> first_text(np.array(["1", "7%", "x"], dtype=object))
    1
    """
    values = np.asarray(column, dtype=object).tolist()
    return next(
        (
            i
            for i, v in enumerate(values)
            if isinstance(v, str) and not reads_as_number(v)
        ),
        0,
    )


def missing_values(column: Any) -> np.ndarray:
    """Return a boolean array (n,) that marks the NaN, None, NaT or NA in a column."""
    import pandas as pd

    return pd.isna(column)


def with_plain_dtype(column: Any) -> Any:
    """Return the column in the narrowest type for its values: Booleans without missing values become bool."""
    if isinstance(column, np.ndarray) and column.dtype.kind == "O":
        return _from_objects(column)
    return column


def _infer_dtype(values: np.ndarray) -> str:
    import pandas as pd

    return pd.api.types.infer_dtype(values, skipna=True)


def _from_objects(values: np.ndarray) -> np.ndarray:
    is_missing = missing_values(values)
    match _infer_dtype(values):
        case "integer" if not is_missing.any():
            return _whole_numbers(values)
        case "integer" | "floating" | "mixed-integer-float" | "decimal" as kind:
            numbers = floats(values, "a column")
            if kind == "decimal":
                doubtful = ~is_missing
            else:
                doubtful = np.abs(numbers) > EXACT
            if all(
                map(_is_exact, numbers[doubtful].tolist(), values[doubtful].tolist())
            ):
                return numbers
            return np.where(is_missing, np.array(None), values)
        case "boolean" if not is_missing.any():
            return values.astype(bool)
        case "string" | "boolean" if is_missing.any():
            return np.where(is_missing, np.array(None), values)
    return values


def _whole_numbers(values: np.ndarray) -> np.ndarray:
    """Return whole numbers in the narrowest type that keeps all of their digits."""
    for kind in (np.int64, np.uint64):
        try:
            return values.astype(kind)
        except OverflowError:
            continue
    return values


def _is_exact(number: float, value: Any) -> bool:
    """Return whether a float equals its original value to the last digit."""
    if isinstance(value, Decimal):
        return Decimal(repr(number)) == value
    return number == value


def joined_columns(parts: Sequence[Any]) -> np.ndarray:
    """Concatenate the parts of one column; whole numbers next to floats keep all their digits."""
    kinds = {part.dtype.kind for part in parts}
    large = any(
        part.dtype.kind in "iu"
        and len(part)
        and max(abs(int(part.min())), int(part.max())) > EXACT
        for part in parts
    )
    if len(kinds) > 1 and large:
        return with_plain_dtype(np.concatenate([part.astype(object) for part in parts]))
    return np.concatenate(parts)


def _from_array(values: np.ndarray) -> np.ndarray:
    if values.dtype.kind in "biufmMc":
        # pandas has no levels of a foreign byte order
        return values.astype(values.dtype.newbyteorder("="), copy=False)
    return _from_objects(values.astype(object))


def _from_series(series: Any) -> Any:
    import pandas as pd

    if isinstance(series.dtype, pd.CategoricalDtype):
        if isinstance(series.cat.categories, pd.IntervalIndex):  # of pd.cut
            series = series.cat.rename_categories(str)
        return series.array
    if isinstance(series.dtype, pd.ArrowDtype) and "dictionary" in str(series.dtype):
        return _from_pyarrow(series.array.__arrow_array__())
    types = pd.api.types
    if types.is_numeric_dtype(series.dtype) and not types.is_bool_dtype(series.dtype):
        if isinstance(series.dtype, np.dtype) or not series.isna().any():
            return _from_array(series.to_numpy())
        exact = ((series >= -EXACT) & (series <= EXACT)).all()
        if types.is_float_dtype(series.dtype) or (
            exact and types.is_integer_dtype(series.dtype)
        ):
            return series.to_numpy(dtype=float, na_value=np.nan)
        return _from_objects(series.to_numpy(dtype=object, na_value=None))
    if types.is_datetime64_any_dtype(series.dtype):
        # with a time zone, since an hour can occur twice
        return series.to_numpy(dtype=object if series.dt.tz else None)
    if series.dtype.kind in "OUSb":
        return _from_array(series.to_numpy(dtype=object))
    return _from_array(series.to_numpy())


def _from_pandas(frame: Any) -> DataTable:
    import pandas as pd

    if not isinstance(frame, pd.DataFrame):
        raise _not_a_table(frame)
    names = distinct_names(frame.columns)
    return DataTable(
        {n: _from_series(frame.iloc[:, j]) for j, n in enumerate(names)},
        frame.index.to_numpy(),
    )


def _from_arrow(data: Any) -> DataTable:
    import pyarrow as pa

    if not isinstance(data, pa.Table | pa.RecordBatch):
        raise _not_a_table(data)
    distinct_names(data.schema.names)
    exact = any(c.null_count and not fits_floats(c) for c in data.columns)
    table = _from_pandas(data.to_pandas(integer_object_nulls=exact))
    undeclared = {
        n
        for n in table.columns
        if n in data.schema.names and not declares_order(data.schema, n)
    }
    return DataTable(
        {n: _as_text(v) if n in undeclared else v for n, v in table.columns.items()},
        table.rows,
    )


def fits_floats(column: Any) -> bool:
    """Return whether every whole number of an Arrow column is exactly a float."""
    import pyarrow as pa
    from pyarrow import compute

    if not pa.types.is_integer(column.type):
        return True
    ends = compute.min_max(column).as_py()
    return ends["min"] is None or max(abs(ends["min"]), abs(ends["max"])) <= EXACT


def declares_order(schema: Any, name: str) -> bool:
    """Return whether a column of an Arrow schema is a category with a declared order of its levels.

    This is true of a dictionary marked as ordered, or one that pandas wrote, because pandas always stores categories in the declared
    order. The levels of another dictionary are in order of first appearance.
    """
    import json

    import pyarrow as pa

    kind = schema.field(name).type
    if not pa.types.is_dictionary(kind):
        return False
    columns = json.loads((schema.metadata or {}).get(b"pandas", b"{}")).get(
        "columns", []
    )
    return bool(kind.ordered) or any(
        c.get("name") == name and c.get("pandas_type") == "categorical" for c in columns
    )


def _as_text(column: Any) -> Any:
    """Convert a category to text, so that its levels are sorted like levels of text."""
    import pandas as pd

    if isinstance(column, pd.Categorical):
        return pd.Categorical(np.asarray(column, dtype=object))
    return column


def _from_pyarrow(values: Any) -> Any:
    """Convert one column from pyarrow."""
    import pyarrow as pa

    return _from_arrow(pa.table({"": values})).columns[""]


def _from_mapping(data: Mapping[Any, Any]) -> DataTable:
    if not data:
        raise DataError(f"the table has no columns; taken is {TAKEN}")
    columns = {
        name: _vector(name, data[key]) for key, name in zip(data, distinct_names(data))
    }
    lengths = {name: len(values) for name, values in columns.items()}
    if len(set(lengths.values())) > 1:
        listed = ", ".join(f"{name!r} has {n}" for name, n in lengths.items())
        raise DataError(
            f"the columns have different lengths: {listed}; every column needs one value per row"
        )
    return DataTable(columns, np.arange(next(iter(lengths.values()))))


def _vector(name: str, values: Any) -> Any:
    root = type(values).__module__.split(".")[0]
    if hasattr(values, "columns") and root in ("pandas", "polars", "pyarrow"):
        raise DataError(
            f"column {name!r} is a table of {values.shape[1]} columns; give one of its columns"
        )
    if root == "pandas":
        import pandas as pd

        return _from_series(pd.Series(values).reset_index(drop=True))
    if root == "pyarrow":
        return _from_pyarrow(values)
    if root == "polars":
        import narwhals as nw

        return _from_pyarrow(nw.from_native(values, series_only=True).to_arrow())
    if isinstance(values, np.ma.MaskedArray):
        hidden = np.ma.getmaskarray(values)
        values = np.array(values.data, dtype=object)
        values[hidden] = None
    if isinstance(values, list | tuple):
        array = np.array(values, dtype=object)
    else:
        array = np.asarray(values)
    if array.ndim != 1:
        if array.ndim == 0:
            shape = "one value"
        else:
            shape = f"an array of shape {array.shape}"
        raise DataError(
            f"column {name!r} is {shape}; a column is 1-D, one value per row, such as [3.0] for one row"
        )
    return _from_array(array)


def _from_narwhals(data: Any) -> DataTable:
    import narwhals as nw

    try:
        frame = nw.from_native(data)
    except TypeError:
        raise _not_a_table(data) from None
    if isinstance(frame, nw.LazyFrame):
        raise DataError(
            f"the {type(data).__name__} is lazy: its rows are not there yet; call .collect() first"
        )
    return _from_arrow(frame.to_arrow())


def repeated_names(names: Iterable[str]) -> list[str]:
    """Return the names that occur more than once, sorted."""
    return sorted(name for name, count in Counter(names).items() if count > 1)


def distinct_names(names: Iterable[Any], table: str = "the table") -> tuple[str, ...]:
    """Return the names of columns as text; DataError if one occurs twice."""
    texts = tuple(map(str, names))
    twice = repeated_names(texts)
    if twice:
        raise DataError(
            f"{table} has more than one column called {', '.join(map(repr, twice))}; rename them"
        )
    return texts


def _not_a_table(data: Any) -> DataError:
    hint = ""
    if isinstance(data, str):
        hint = "; for a file write Model.from_files(formula, path), or read it first"
    if isinstance(data, np.ndarray):
        hint = f" of shape {data.shape}, whose columns have no names"
        if data.dtype.names:
            hint = "; write pandas.DataFrame(data)"
    library = type(data).__module__.partition(".")[0]
    name = f"{library}.{type(data).__qualname__}".removeprefix("builtins.")
    return DataError(f"expected {TAKEN}, got {name}{hint}")
