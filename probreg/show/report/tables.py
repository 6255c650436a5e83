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

_COLUMNS: dict[str, Any] = {
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
            predicted = fit.predict(table, prob, output="pandas").reset_index()
        except NotConverged:  # the estimate does not exist
            cells += [
                {"row": name, "fit": fit_name, "mean": "does not exist"}
                for name in names
            ]
            continue
        for row in predicted.to_dict("records"):
            name = {"row": names[row["obs"]], "fit": fit_name}
            level = {"level": str(row.get("level", ""))}
            cells.append(name | level | _predicted_cells(fit.model.likelihood, row))
    cells.sort(key=lambda row: names.index(row["row"]))
    columns = []
    for head, kind in _COLUMNS.items():
        values = [row.get(head, "") for row in cells]
        if any(values) and not (head == "fit" and len(fits) == 1):
            columns.append(Column(head, values, kind))
    described = [
        (name, ", ".join(f"{k} = {v[i]:g}" if isinstance(v[i], float) else f"{k} = {v[i]}" for k, v in table.items()))
        for i, name in enumerate(names)
    ]  # fmt: skip
    remarks = _rows_outside(next(iter(fits.values())), table, names)
    return Predictions(Table(tuple(columns)), described, remarks)


def named_rows(rows: Any) -> tuple[dict[str, list[Any]], list[str]]:
    """The columns of the rows, and the names of the rows."""
    nested = isinstance(rows, Mapping) and all(isinstance(v, Mapping) for v in rows.values())  # fmt: skip
    if nested:
        variables_by_row = list(rows.values())
        columns = {
            k: [row.get(k) for row in variables_by_row]
            for k in dict.fromkeys(k for row in variables_by_row for k in row)
        }
        return columns, [*map(str, rows)]
    table = read_table(rows)
    columns = {str(k): np.asarray(table.columns[k]).tolist() for k in table.columns}
    return columns, [*map(str, table.rows)]


def _predicted_cells(likelihood: Likelihood, row: Mapping[str, Any]) -> dict[str, str]:
    mean, lower, upper = (float(row[k]) for k in ("mean", "mean_lower", "mean_upper"))
    # one digit more than the precision of the mean
    places = decimals(np.array([(upper - lower) / 4.0]))
    if isinstance(likelihood, OfClasses):
        texts = [format_probability(v) for v in (mean, lower, upper)]
    else:
        texts = [format_rounded(v, places) for v in (mean, lower, upper)]
    cells = {"mean": texts[0], "interval of the mean": _interval(texts[1], texts[2])}
    is_class = isinstance(likelihood, OfClasses) and not isinstance(
        likelihood, OfTrials
    )
    if "new_lower" in row and not is_class:
        ends = (float(row["new_lower"]), float(row["new_upper"]))
        whole = all(v == round(v) for v in ends if np.isfinite(v))
        new_places = 0 if whole else max(places - 1, 0)
        new = [format_rounded(v, new_places) for v in ends]
        cells["interval of a new observation"] = _interval(*new)
    return cells


def _interval(lower: str, upper: str) -> str:
    return f"{lower} to {upper}" if lower and upper else ""


def _rows_outside(
    fit: Fit, table: Mapping[str, list[Any]], names: Sequence[str]
) -> list[str]:
    """The rows with a number outside the range of the data, variable by variable."""
    try:
        data = variables(fit.model.design) if fit.model.design.n else {}
    except DataError:
        return []
    remarks = []
    for name in read_by(fit.model.design):
        x = np.asarray(data.get(name, []))
        if x.dtype.kind not in "iuf" or not len(x):
            continue
        values = zip(names, table.get(name, []))
        outside = [row for row, v in values if not x.min() <= v <= x.max()]
        if outside:
            remarks.append(
                f"{', '.join(outside)}: {name} lies outside the data ({x.min():g} to {x.max():g}), so this is extrapolation."
            )
    return remarks
