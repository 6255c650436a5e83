"""Select the rows that a model can use: missing and infinite values, weights, trials. Errors name column, row and value.

Weights and offsets may be absent: None means weights of 1 and an offset of 0."""

from collections.abc import Iterable, Sequence
from typing import Any, Literal, get_args

import numpy as np

from probreg.arguments.arrays import brief, floats
from probreg.data.formula.columns import DataTable, first_text, kind_of, missing_values
from probreg.data.weights import WeightKind, check_values
from probreg.errors import DataError, Remedy, rows_named, such_rows, suggestion
from probreg.system.terminal import few_names, shorten_names

Array = np.ndarray


def some_rows(values: Array | None, rows: slice | Array) -> Array | None:
    """Return the values (n, ...) of some rows; None if there are no values."""
    return None if values is None else values[rows]


def full_weights(weights: Array | None, n: int) -> Array:
    """Return the weights w (n,) of n rows, or ones if `weights` is None."""
    return np.ones(n) if weights is None else weights


def times_weights(values: Array, weights: Array | None) -> Array:
    """Return w_i v_i for values v (n, ...) of n rows; the values themselves if `weights` is None.

    >>> times_weights(np.ones((2, 3)), np.array([1.0, 4.0])).sum(1)
    array([ 3., 12.])
    """
    if weights is None:
        return values
    return values * weights.reshape(-1, *[1] * (values.ndim - 1))


def plus_offset(eta: Array, offset: Array | None) -> Array:
    """eta + offset, the offset (n, 1) or (n, m) and eta (..., n, m)."""
    return eta if offset is None else eta + offset


def minus_offset(target: Array, offset: Array | None) -> Array:
    """Return the target of the columns: y - offset for a response (n,), eta - offset for predictors (n, m)."""
    if offset is None:
        return target
    if target.ndim == 1:
        offset = offset[:, 0]
    return target - offset


Missing = Literal["raise", "drop"]


def own_labels(data: Any, n: int) -> np.ndarray:
    """Return the labels of n rows: the index of a pandas table, or else 0 to n - 1."""
    index = getattr(data, "index", None)
    has_index = index is not None and not callable(index) and len(index) == n
    return np.asarray(index) if has_index else np.arange(n)


def labels(table: DataTable, positions: Iterable[int]) -> str:
    """Format the row labels at some positions: `row 3` or `rows 3, 7, 9 and 12 more`."""
    where = list(positions)
    listed = shorten_names(map(str, table.rows[where]), 5)
    return f"row{'s' * (len(where) > 1)} {listed}"


def require(table: DataTable, names: Iterable[str]) -> None:
    """Raise DataError for the first name that is not a column, with the most similar column name."""
    for name in names:
        if name not in table.columns:
            present = list(table.columns)
            raise DataError(
                f"the data have no column {name!r}{suggestion(name, present)} They have: {few_names(present)}"
            )


def missing_by_column(table: DataTable) -> dict[str, Array]:
    """Return which values (n,) are missing, for each column with missing values."""
    missing = {name: missing_values(values) for name, values in table.columns.items()}
    return {name: where for name, where in missing.items() if where.any()}


def rows_that_count(
    table: DataTable, weight: str | None, counts: Sequence[str]
) -> Array:
    """Return which rows (n,) have a weight that is not 0, and a count that is not 0 in any of the columns `counts`."""
    counted = np.ones(len(table.rows), dtype=bool)
    for names in ((weight,) if weight else (), counts):
        columns = [table.columns[name] for name in names]
        if names and all(kind_of(column) in ("number", "truth") for column in columns):
            counted &= np.logical_or.reduce([column != 0 for column in columns])
    return counted


def check_missing(action: Any) -> None:
    """Raise DataError for an unknown way to treat missing values."""
    if not isinstance(action, str) or action not in get_args(Missing):
        raise DataError(
            f"missing={brief(action)} is not known; take 'raise' (an error names the rows) or 'drop'"
        )


def complete(
    table: DataTable, action: Missing, ends: frozenset[str] = frozenset()
) -> tuple[DataTable, tuple[str, ...]]:
    """Return the rows without missing values, and a sentence about the other rows. Columns of `ends` may be missing."""
    missing = missing_by_column(table.without_ends(ends))
    if not missing:
        return table, ()
    is_missing = np.logical_or.reduce(list(missing.values()))
    counts = ", ".join(
        f"{name!r} {where.sum()} ({labels(table, np.flatnonzero(where))})"
        for name, where in missing.items()
    )
    if action == "raise":
        raise DataError(
            f"values are missing in {is_missing.sum()} of {len(is_missing)} rows, by column: {counts}",
            remedy=Remedy("missing", "drop"),
        )
    if is_missing.all():
        raise DataError(
            f"no row is complete, so missing='drop' would leave none; missing by column: {counts}"
        )
    sentence = (
        f"{is_missing.sum()} of {len(is_missing)} rows were dropped because of missing values: "
        f"{labels(table, np.flatnonzero(is_missing))}; by column: {counts}"
    )
    return table.part(np.flatnonzero(~is_missing)), (sentence,)


def refuse_missing(table: DataTable) -> None:
    """Raise DataError with column and rows of the first missing values, because rows of new data are not dropped."""
    for name, values in table.columns.items():
        bad = np.flatnonzero(missing_values(values))
        if len(bad):
            raise DataError(
                f"column {name!r} is missing a value in {labels(table, bad)}; "
                "a prediction needs every column: fill the values in or leave those rows out"
            )


def refuse_infinite(table: DataTable) -> None:
    """Raise DataError with column, row and value of the first infinite number."""
    for name, values in table.columns.items():
        if kind_of(values) != "number":
            continue
        if values.dtype.kind == "O":
            numbers = floats(values, f"column {name!r}")
        else:
            numbers = values
        bad = np.flatnonzero(~np.isfinite(numbers))
        if len(bad):
            raise DataError(
                f"column {name!r} is {values[bad[0]]} in {labels(table, bad)}; "
                "a model needs finite numbers: correct them or leave those rows out"
            )


def refuse_not_finite(
    values: np.ndarray, *, term: str, variables: Sequence[str], table: DataTable
) -> None:
    """Raise DataError for non-finite values, with the term, the first such row, and the values of its variables there."""
    max_size = 1e140  # squares of these sum to a finite number over 1e20 rows
    bad = np.flatnonzero(~(np.abs(values) <= max_size))  # true of nan
    if not len(bad):
        return
    i = bad[0]
    if np.isfinite(values[bad]).all():
        raise DataError(
            f"the term {term!r} is {values[i]:g} in row {table.rows[i]}, whose square is beyond double precision: state it "
            "in another unit"
        )
    bad = np.flatnonzero(~np.isfinite(values))
    i = bad[0]
    place = f"row {table.rows[i]}"
    if variables:
        entries = [f"{name} = {table.columns[name][i]}" for name in variables]
        place += f", where {', '.join(entries)}"
    raise DataError(
        f"the term {term!r} is {values[i]} in {place} "
        f"({such_rows(len(bad))}); correct the values or choose another transformation"
    )


def one_per_row(name: str, values: Any, n: int) -> np.ndarray:
    """Return an array argument as numbers (n,)."""
    array = floats(values, f"{name}=")
    if array.shape != (n,):
        raise DataError(
            f"{name}= is one number per row of the data, shape ({n},); got shape {array.shape}"
        )
    return array


def row_weights(
    weights: np.ndarray,
    *,
    name: str,
    kind: WeightKind,
    table: DataTable,
    may_vanish: bool = True,
) -> np.ndarray:
    """Check weights: finite, not negative, and whole numbers if they are frequencies; not all zero unless they `may_vanish`."""
    if np.asarray(weights).dtype.kind not in "iufb":
        i = first_text(weights)
        raise DataError(
            f"the weights {name!r} are not numbers (row {table.rows[i]} holds {brief(weights[i])})"
        )
    values = np.asarray(weights, dtype=np.float64)
    column = None if name.endswith("=") else name
    with rows_named(table.rows):
        return check_values(values, kind, column=column, may_vanish=may_vanish)


def check_counts(counts: np.ndarray, *, term: str, table: DataTable) -> None:
    """Check counts: whole numbers that are not negative."""
    bad = np.argwhere((counts % 1 != 0) | (counts < 0))
    if len(bad):
        row, column = bad[0]
        raise DataError(
            f"the response {term!r} holds {counts[row, column]:g} in row {table.rows[row]} "
            f"({such_rows(len(np.unique(bad[:, 0])))}); counts are whole numbers and not negative"
        )
