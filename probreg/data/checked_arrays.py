"""Check arrays from users, and select the rows that a model can use. Errors name the column, the row and the value.

Weights and offsets may be absent: None means weights of 1 and an offset of 0.
"""

from collections.abc import Iterable, Mapping, Sequence, Set
from typing import Any, Literal, get_args

import numpy as np

from probreg.arguments.arrays import as_array, brief, category_levels, floats
from probreg.data.formula.columns import (
    DataTable,
    first_text,
    kind_of,
    missing_values,
    read_columns,
    read_table,
)
from probreg.data.weights import WeightKind, check_values
from probreg.errors import (
    DataError,
    Remedy,
    require_rows,
    rows_named,
    such_rows,
    suggestion,
)
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
            other = [c for c in ";\t|" if len(present) == 1 and c in present[0]]
            hint = f"; does {other[0]!r} separate columns?" if other else ""
            raise DataError(
                f"the data have no column {name!r}{suggestion(name, present)} They have: {few_names(present)}{hint}"
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
    if weights.dtype.kind not in "iufb":
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


INTERCEPT = "Intercept"  # the name of the column of ones


def is_intercept(column: str) -> bool:
    """Return whether a column is the intercept of a linear predictor.

    >>> is_intercept("Intercept"), is_intercept("log sigma: Intercept"), is_intercept("x")
    (True, True, False)
    """
    return column == INTERCEPT or column.endswith(f": {INTERCEPT}")


def names_of(columns: Any, width: int, *, intercept: Any) -> tuple[str, ...]:
    """Return the names of the given columns, by default x1, x2, .... DataError unless they are a list of distinct names."""
    if isinstance(columns, str):
        raise DataError(
            f"columns is a sequence of names, got the text {columns!r}; for one column write [{columns!r}]"
        )
    if not isinstance(intercept, bool | np.bool_):
        raise DataError(f"intercept is True or False, got {type(intercept).__name__}")
    if columns is None:
        columns = [f"x{j + 1}" for j in range(width)]
    is_ordered = isinstance(columns, Iterable) and not isinstance(columns, Set)
    if not is_ordered or getattr(columns, "ndim", 1) == 0:
        raise DataError(f"columns is a sequence of names, got {type(columns).__name__}")
    labels = list(columns)
    odd = [
        name
        for name in labels
        if not isinstance(name, str | int | float | tuple | np.generic)
    ]
    if odd:
        raise DataError(f"column names are text, got {type(odd[0]).__name__}")
    names = tuple(map(str, labels))
    if not names and not intercept:
        raise DataError(
            "there are no columns: X has none and intercept=False leaves out the column of ones"
        )
    if len(set(names)) != len(names):
        raise DataError(
            f"column names repeat: {sorted({c for c in names if names.count(c) > 1})}"
        )
    if intercept and INTERCEPT in names:
        raise DataError(
            "X already has a column called 'Intercept'; pass intercept=False"
        )
    return names


def check_intercept(X: Array, names: Sequence[str]) -> None:
    """Raise DataError for a column called Intercept that is not all ones, because priors treat this name as the intercept."""
    if INTERCEPT not in names:
        return
    values = X[:, list(names).index(INTERCEPT)]
    bad = np.flatnonzero(values != 1.0)
    if len(bad):
        raise DataError(
            f"column 'Intercept' holds {values[bad[0]]:g} in row {bad[0]}: a column of that name is all ones; rename it"
        )


def as_response(y: Any) -> tuple[Array, tuple[Any, ...] | None]:
    """Return the response values (n,) with the declared levels of a categorical type, in order.

    For a table with a column for each class, return the counts (n, K) with the names of its columns.
    """
    if isinstance(y, Mapping) or getattr(y, "columns", None) is not None:
        table = read_columns(y)
        if len(table) != 1:
            return _stack(table), tuple(map(str, table))
        y = next(iter(table.values()))
    if is_array(y) or np.ndim(y) == 0:
        # A list that mixes text with other values, which numpy would convert to text.
        mixed = isinstance(y, list | tuple) and any(isinstance(v, str) for v in y)
        values = as_array(np.array(y, dtype=object) if mixed else y, "y")
        return (
            values[:, 0] if values.ndim == 2 and values.shape[1] == 1 else values
        ), None
    column = read_columns({"y": y})["y"]
    if isinstance(column, np.ndarray):
        return column, None
    return np.asarray(column), category_levels(column)


def own_name(y: Any) -> str:
    """Return the name of a column of a table, or "y" for data without a name.

    >>> own_name([1.0, 2.0])
    'y'
    """
    name = getattr(y, "name", None)
    if isinstance(name, str | int | tuple) and name != "":
        return str(name)
    return "y"


def as_matrix(X: Array, names: Sequence[str], *, ones: bool = False) -> Array:
    """Return finite floats (n, len(names)), after a column of ones if `ones`."""
    if X.dtype.kind not in "fiub":
        X = floats(X, "X", "; for categories use a formula")
    if X.ndim != 2 or X.shape[1] != len(names):
        raise DataError(
            f"expected {len(names)} columns ({', '.join(names)}), got an array of shape {X.shape}"
        )
    matrix = np.ascontiguousarray(X, dtype=float)
    with np.errstate(all="ignore"):
        square = np.vdot(matrix, matrix)
    check_finite(square, matrix, names)
    if not ones:
        return matrix
    return np.hstack([np.ones((len(X), 1)), matrix])


def check_finite(total: float, X: Array, names: Sequence[str]) -> None:
    """Raise DataError with row, column and value if X is not finite, or so large that the sum of its squares is not."""
    if np.isfinite(total):
        return
    bad = ~np.isfinite(X)
    if not bad.any():
        row, col = (int(i) for i in np.unravel_index(np.argmax(np.abs(X)), X.shape))
        raise DataError(
            f"column {names[col]!r} holds {X[row, col]:g} in row {row}, whose square is beyond double precision: state the "
            "column in another unit"
        )
    row, col = np.argwhere(bad)[0]
    counts = ", ".join(f"{names[j]} ({k})" for j, k in enumerate(bad.sum(0)) if k)
    raise DataError(
        f"column {names[col]!r} holds {X[row, col]} in row {row}; rows with missing or infinite values: {counts}. Drop or impute them first."
    )


def as_offset(offset: Any, n: int) -> Array | None:
    """Return a finite offset, (n, 1) or (n, m)."""
    if offset is None:
        return None
    array = floats(offset, "an offset")
    if array.ndim == 1:
        array = array[:, None]
    if array.ndim != 2 or len(array) != n or not array.shape[1]:
        raise DataError(
            f"an offset has one value per row: expected {n} rows, got shape {np.shape(offset)}"
        )
    bad = np.argwhere(~np.isfinite(array))
    if len(bad):
        raise DataError(
            f"the offset of row {bad[0, 0]} is {array[tuple(bad[0])]}; offsets are finite"
        )
    return array


def as_weights(
    values: Any, n: int, kind: WeightKind, *, may_vanish: bool = False
) -> Array | None:
    """Return valid weights (n,) of this kind: finite, not negative, whole numbers for frequencies; not all zero unless they `may_vanish`."""
    if values is None:
        return None
    if isinstance(values, str):
        raise DataError(
            f"weights={values!r} names a column, and these rows come as arrays: give the weights as an array"
        )
    array = floats(values, "weights")
    if array.shape != (n,):
        raise DataError(
            f"weights are one number per row: expected shape ({n},), got {array.shape}"
        )
    return check_values(array, kind, may_vanish=may_vanish)


def with_trials(successes: Any, trials: Any, n: int) -> Array:
    """Return successes and trials (n, 2). DataError names the first invalid row."""
    s = floats(successes, "successes")
    t = floats(trials, "trials")
    if s.shape != (n,) or t.shape != (n,):
        raise DataError(
            f"successes and trials have one value per row: expected ({n},), got {s.shape} and {t.shape}"
        )
    check_trials(s, t)
    return np.stack([s, t], 1)


def check_trials(successes: Array, trials: Array, before: str = "") -> None:
    """Raise DataError for the first row without whole numbers 0 <= successes <= trials; `before` is the start of the message."""
    whole = (np.floor(successes) == successes) & (np.floor(trials) == trials)
    in_range = (successes >= 0) & (successes <= trials) & (trials < 2.0**53)
    require_rows(
        whole & in_range,
        before,
        " has {:g} successes in {:g} trials ({rows}); they are whole numbers with 0 <= successes <= trials",
        successes,
        trials,
    )


def as_trials(trials: Any, n: int) -> Array | None:
    """Return the trials (n,) of new rows: whole numbers that are not negative."""
    if trials is None:
        return None
    t = floats(trials, "trials")
    if t.ndim == 0:
        t = np.full(n, t)
    return with_trials(np.zeros(n), t, n)[:, 1]


def weights_without_empty_trials(
    y: Any, counted: Any, weights: Array | None
) -> Array | None:
    """Return the weights with 0 for rows of counts (n, c) without trials, because these rows are no observations."""
    if counted not in ("p", "counts"):
        return weights
    none = (y[:, 1] if counted == "p" else y.sum(1)) == 0
    if not none.any():
        return weights
    return np.where(none, 0.0, full_weights(weights, len(y)))


def is_array(data: Any) -> bool:
    """Return whether rows come as an array or nested lists; a table has named columns, and a single column may declare its levels."""
    is_matrix = getattr(data, "ndim", 1) == 2 and not hasattr(data, "columns")
    return isinstance(data, np.ndarray | list | tuple) or is_matrix


def read_column(data: Any, name: str) -> Array:
    """Return one column of a table; raise DataError if the name is not a column."""
    if is_array(data):
        raise DataError(
            f"{name!r} names a column, and these rows come as an array: give the values instead"
        )
    return named_columns(data, (name,))[:, 0]


def named_columns(data: Any, names: Sequence[str]) -> Array:
    """Return the named columns of a table (n, len(names)); DataError if one of them is missing."""
    table = read_table(data)
    require(table, names)
    return _stack({name: table.columns[name] for name in names})


def _stack(columns: Mapping[str, Any]) -> Array:
    """Return the columns side by side; DataError for dates and durations, which have no common type with numbers."""
    for name, column in columns.items():
        if column.dtype.kind in "mM":
            raise DataError(
                f"column {name!r} holds times such as {column[0]}; turn it into a number first, such as days since a date"
            )
    return np.stack(list(columns.values()), 1)
