"""Predictions of named rows for a report: the mean of each row and its intervals."""

from collections.abc import Mapping, Sequence
from typing import Any, NamedTuple

import numpy as np

from probreg.data.formula.columns import read_table
from probreg.data.formula.variables import read_by, variables
from probreg.errors import DataError, NotConverged
from probreg.fits.fit import Fit
from probreg.likelihoods import OfClasses
from probreg.system.terminal import format_probability
from probreg.tables import Table
from probreg.tables.content import Format
from probreg.tables.formats import format_digits

_COLUMNS = (
    "fit",
    "level",
    "mean",
    "mean_lower",
    "mean_upper",
    "new_lower",
    "new_upper",
)


class Predictions(NamedTuple):
    """The table, the name and values of each row, and warnings about rows outside the data."""

    table: Table
    rows: list[tuple[str, str]]
    remarks: list[str]


def predictions_table(fits: Mapping[str, Fit], rows: Any, prob: float) -> Predictions:
    """The mean at each row with its interval, and the interval of a new observation if there is one.

    `rows` is a mapping from names to rows, each a mapping from variables to values, or a table with the names as its labels.
    """
    import pandas as pd

    table, names = named_rows(rows)
    frames = []
    for fit_name, fit in fits.items():
        try:
            frame = fit.predict(table, prob, output="pandas").reset_index()
        except NotConverged:
            frame = pd.DataFrame({"obs": range(len(names)), "mean": "does not exist"})
        frames.append(frame.assign(fit=fit_name))
    frame = pd.concat(frames).sort_values("obs", kind="stable")
    frame.index = pd.Index([names[i] for i in frame["obs"]], name="row")
    number: Format = format_digits(4)
    means = number
    if any(isinstance(fit.model.likelihood, OfClasses) for fit in fits.values()):
        means = format_probability
    formats = {c: means if c.startswith("mean") else number for c in _COLUMNS[2:]}
    columns = [
        c for c in _COLUMNS if c in frame and not (c == "fit" and len(fits) == 1)
    ]
    content = Table.from_pandas(
        frame[columns].rename(columns=_column_heading),
        formats={_column_heading(c): f for c, f in formats.items()},
    )
    described = [
        (name, ", ".join(f"{k} = {v[i]:g}" if isinstance(v[i], float) else f"{k} = {v[i]}" for k, v in table.items()))
        for i, name in enumerate(names)
    ]  # fmt: skip
    remarks = _rows_outside(next(iter(fits.values())), table, names)
    return Predictions(content, described, remarks)


def named_rows(rows: Any) -> tuple[dict[str, list[Any]], list[str]]:
    """The columns of the rows, and the names of the rows."""
    if isinstance(rows, Mapping) and all(isinstance(v, Mapping) for v in rows.values()):
        import pandas as pd

        rows = pd.DataFrame.from_dict(rows, orient="index")
    table = read_table(rows)
    columns = {str(k): np.asarray(table.columns[k]).tolist() for k in table.columns}
    return columns, [*map(str, table.rows)]


def _column_heading(name: str) -> str:
    """Return the heading of a column of `Fit.predict`."""
    return name.replace("_", " ")


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
