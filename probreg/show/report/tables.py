"""Predictions of named rows for a report: the mean of each row and its intervals."""

from collections.abc import Mapping, Sequence
from typing import Any, NamedTuple

import numpy as np

from probreg.data.formula.columns import read_table
from probreg.data.formula.variables import read_by, variables
from probreg.errors import DataError, NotConverged
from probreg.fits.fit import Fit
from probreg.likelihoods import Likelihood, OfClasses, OfTrials
from probreg.system.terminal import format_probability
from probreg.tables import Column, Table
from probreg.tables.formats import decimals, format_rounded

_COLUMNS = {
    "row": "text", "fit": "text", "level": "text",
    "mean": "estimate", "interval of the mean": "interval", "interval of a new observation": "interval",
}  # fmt: skip


class Predictions(NamedTuple):
    """The table, the name and values of each row, and warnings about rows outside the data."""

    table: Table
    rows: list[tuple[str, str]]
    remarks: list[str]


def predictions_table(fits: Mapping[str, Fit], rows: Any, prob: float) -> Predictions:
    """The mean at each row with its interval, and the interval of a new observation if there is one.

    `rows` is a mapping from names to rows, each a mapping from variables to values, or a table with the names as its labels.
    """
    table, names = named_rows(rows)
    cells: list[dict[str, str]] = []
    for fit_name, fit in fits.items():
        try:
            predicted = fit.predict(table, prob)
        except NotConverged:
            cells += [
                {"row": name, "fit": fit_name, "mean": "does not exist"}
                for name in names
            ]
            continue
        levels = [""]
        if "level" in predicted.dims:
            levels = [str(v) for v in predicted["level"].values]
        for i, name in enumerate(names):
            for k, level in enumerate(levels):
                row_prediction = {
                    str(q): np.atleast_1d(v.values[i])[min(k, np.size(v.values[i]) - 1)]
                    for q, v in predicted.data_vars.items()
                }
                numbers = _predicted_cells(fit.model.likelihood, row_prediction)
                cells.append({"row": name, "fit": fit_name, "level": level, **numbers})
    cells.sort(key=lambda row: names.index(row["row"]))
    columns = []
    for head, kind in _COLUMNS.items():
        values = [row.get(head, "") for row in cells]
        if any(values) and not (head == "fit" and len(fits) == 1):
            columns.append(Column(head, values, kind))  # type: ignore[arg-type]
    described = [
        (name, ", ".join(f"{k} = {_format_value(v[i])}" for k, v in table.items()))
        for i, name in enumerate(names)
    ]
    remarks = _rows_outside(next(iter(fits.values())), table, names)
    return Predictions(Table(tuple(columns)), described, remarks)


def named_rows(rows: Any) -> tuple[dict[str, list[Any]], list[str]]:
    """The columns of the rows, and the names of the rows."""
    if (
        isinstance(rows, Mapping)
        and rows
        and all(isinstance(v, Mapping) for v in rows.values())
    ):
        keys = list(dict.fromkeys(k for row in rows.values() for k in row))
        for name, row in rows.items():
            for k in keys:
                if k not in row:
                    raise DataError(
                        f"predict: row {name!r} has no value of {k!r}, which other rows have; give it"
                    )
        columns = {k: [row[k] for row in rows.values()] for k in keys}
        return columns, [*map(str, rows)]
    table = read_table(rows)
    columns = {str(k): np.asarray(table.columns[k]).tolist() for k in table.columns}
    if np.array_equal(np.asarray(table.rows), np.arange(len(table.rows))):
        return columns, [f"row {i + 1}" for i in range(len(table.rows))]
    return columns, [*map(str, table.rows)]


def _format_value(value: Any) -> str:
    return f"{value:g}" if isinstance(value, float) else str(value)


def _predicted_cells(
    likelihood: Likelihood, row_prediction: Mapping[str, Any]
) -> dict[str, str]:
    mean, lower, upper = (
        float(row_prediction[k]) for k in ("mean", "mean_lower", "mean_upper")
    )
    places = decimals(np.array([(upper - lower) / 4.0]))
    cells = {}
    if isinstance(likelihood, OfClasses):
        texts = [format_probability(v) for v in (mean, lower, upper)]
    else:
        texts = [format_rounded(v, places) for v in (mean, lower, upper)]
    cells["mean"] = texts[0]
    cells["interval of the mean"] = _interval(texts[1], texts[2])
    # a new observation of classes is one of them, which is no interval
    is_class = isinstance(likelihood, OfClasses) and not isinstance(
        likelihood, OfTrials
    )
    if "new_lower" in row_prediction and not is_class:
        new = float(row_prediction["new_lower"]), float(row_prediction["new_upper"])
        is_whole = all(v == round(v) for v in new if np.isfinite(v))
        new_places = 0 if is_whole else max(places - 1, 0)
        ends = [format_rounded(v, new_places) for v in new]
        cells["interval of a new observation"] = _interval(*ends)
    return cells


def _interval(lower: str, upper: str) -> str:
    return f"{lower} to {upper}" if lower and upper else ""


def _rows_outside(
    fit: Fit, table: Mapping[str, list[Any]], names: Sequence[str]
) -> list[str]:
    """The rows with a number outside the range of the data, variable by variable."""
    design = fit.model.design
    if not design.n:
        return []
    try:
        data = variables(design)
    except DataError:
        return []
    remarks = []
    for name in read_by(design):
        values = table.get(name, [])
        x = np.asarray(data.get(name, []))
        is_number = x.dtype.kind in "iuf" and len(x)
        if not is_number or not all(isinstance(v, int | float) for v in values):
            continue
        low, high = float(x.min()), float(x.max())
        outside = [row for row, v in zip(names, values) if not low <= v <= high]
        if outside:
            remarks.append(
                f"{', '.join(outside)}: {name} lies outside the data ({low:g} to {high:g}), so this is extrapolation."
            )
    return remarks
