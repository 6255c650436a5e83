"""Dependent observations: the group of each row, and sums of squares of dependent scores."""

from collections import Counter
from typing import Any, Literal

import numpy as np

from probreg.arguments.arrays import as_array, missing_objects
from probreg.arguments.scalars import shown_value
from probreg.data import Design
from probreg.data.formula.functions import variables
from probreg.errors import DataError, such_rows

Array = np.ndarray
# the factor of "cluster" and "HAC" covariances
SmallSample = Literal["stata", "each", "full", "groups", "none"]


def group_codes(groups: Any, design: Design, data: Any = None) -> list[Array]:
    """Return one array of codes 0, 1, ... (n,) per way of grouping.

    `groups` is a name (a column of `data`, or a column or factor of the design), one
    label per row, or a pair of these (a tuple or list, or an array (n, 2)). DataError if it
    does not match the rows, or if there is a single group.
    """
    design.need_rows("a cluster covariance")
    if groups is None:
        raise DataError(
            "a cluster covariance needs groups=: a column's name, one label per row, or a pair of these"
        )
    is_pair = isinstance(groups, tuple | list) and len(groups) == 2
    if is_pair and all(isinstance(way, str) or np.ndim(way) for way in groups):
        ways = list(groups)
    elif not isinstance(groups, str) and (table := _read_labels(groups)).ndim == 2:
        ways = list(table.T)
    else:
        ways = [groups]
    if len(ways) not in (1, 2):
        raise DataError(
            f"groups=: expected one or two ways of grouping, got {len(ways)} columns"
        )
    return [_codes(_labels(way, design, data)) for way in ways]


def cross_codes(a: Array, b: Array) -> Array:
    """Return the codes of the pairs that occur."""
    return np.unique(a * (b.max() + 1) + b, return_inverse=True)[1]


def cluster_square(rows: Array, codes: Array) -> Array:
    """sum_g s_g s_g' with s_g the sum of the rows (n, k) in group g.

    >>> cluster_square(np.array([[1.0], [2.0], [4.0]]), np.array([0, 0, 1]))
    array([[25.]])
    """
    sums = np.zeros((int(codes.max()) + 1, rows.shape[1]))
    # s_g = sum_(i in g) u_i
    np.add.at(sums, codes, rows)
    return sums.T @ sums


def bartlett_square(rows: Array, lags: int) -> Array:
    """sum over |l| <= lags of (1 - |l| / (lags + 1)) sum_t u_t u_{t-l}' (Newey & West 1987).

    >>> bartlett_square(np.array([[1.0], [2.0], [4.0]]), 1)
    array([[31.]])
    """
    total = rows.T @ rows
    for lag in range(1, lags + 1):
        # S_l = sum_t u_t u_(t-l)', weighted by 1 - l / (L + 1)   (Newey & West 1987).
        product = rows[lag:].T @ rows[:-lag]
        total += (1.0 - lag / (lags + 1.0)) * (product + product.T)
    return total


def default_lags(n: float) -> int:
    """Return floor(4 (n / 100)^(2/9)), the rule of Newey & West 1994 for the Bartlett
    kernel.

    >>> default_lags(100), default_lags(1000)
    (4, 6)
    """
    return int(np.floor(4.0 * (n / 100.0) ** (2.0 / 9.0)))


def _labels(way: Any, design: Design, data: Any) -> Array:
    if isinstance(way, str):
        if data is not None:
            return _align(*_column(way, data), design, way)
        return _of_design(way, design)
    index = getattr(way, "index", None)
    if index is None or callable(index):
        rows = None
    else:
        rows = np.asarray(index)
    labels = _read_labels(way)
    return _align(labels, rows, design, "groups")


def _read_labels(labels: Any) -> Array:
    values = as_array(labels, "groups")
    if not values.ndim:
        raise DataError(
            f"groups={shown_value(labels)}: expected a column's name or one label per row"
        )
    return values


def _column(name: str, data: Any) -> tuple[Array, Array]:
    from probreg.data.formula.columns import read_table

    table = read_table(data)
    if name not in table.columns:
        raise DataError(
            f"groups={name!r}: the data have no such column; they have: {', '.join(map(str, table.columns))}"
        )
    return np.asarray(table.columns[name]), np.asarray(table.rows)


def _align(values: Array, rows: Array | None, design: Design, subject: str) -> Array:
    """Return one value per row of the design, matched by row labels if both have them, otherwise by position."""
    if (
        rows is not None
        and design.labels is not None
        and not (len(rows) == design.n and (rows == design.labels).all())
    ):
        place = {label: i for i, label in enumerate(rows.tolist())}
        design_labels = design.labels.tolist()
        if len(place) == len(rows) and all(label in place for label in design_labels):
            return values[[place[label] for label in design_labels]]
        known = design.data_labels.tolist()
        if Counter(rows.tolist()) == Counter(known) and rows.tolist() != known:
            raise DataError(
                f"{subject}: row labels repeat and are in another order than in the data of the model, so rows cannot be matched; "
                "give the rows in their first order"
            )
    if len(values) == design.rows:
        return values[design.places]
    raise DataError(
        f"{subject}: {len(values)} labels for {design.rows} rows of the data; give one label per row"
    )


def _of_design(name: str, design: Design) -> Array:
    """Return the column of this name, the levels of the columns `name[...]` of a factor, or the variable that the design keeps."""
    places = [
        j
        for j, c in enumerate(design.columns)
        if c == name or (c.startswith(f"{name}[") and ":" not in c)
    ]
    if not places and name in design.read:
        return np.asarray(variables(design)[name])
    if not places:
        raise DataError(
            f"{name!r} is not a variable of this model, and a fit keeps no others: use "
            f"covariance(..., groups={name!r}, data=...) with the table, or pass the labels"
        )
    return np.unique(design.X[:, places], axis=0, return_inverse=True)[1].ravel()


def _codes(labels: Array) -> Array:
    missing = missing_objects(labels)
    if missing.any():
        raise DataError(
            f"row {int(np.argmax(missing))} has no group ({such_rows(int(missing.sum()))})"
        )
    if labels.dtype.kind in "iufbUMm":
        values = labels
    else:
        values = np.array([str(v) for v in labels.tolist()])
    levels, codes = np.unique(values, return_inverse=True)
    if len(levels) < 2:
        raise DataError(
            f"every row is in one group ({levels[0]}): a cluster covariance needs two or more, better forty"
        )
    return codes.ravel()
