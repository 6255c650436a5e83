"""A table of the sample: means or medians of numbers and counts of levels, by group."""

from collections.abc import Callable
from functools import partial
from typing import Any

import numpy as np

from probreg.arguments.scalars import (
    Names,
    TableLike,
    Word,
    check_arguments,
    list_names,
)
from probreg.data.checked_arrays import require
from probreg.data.formula.columns import read_table
from probreg.errors import DataError
from probreg.tables import Column, Table
from probreg.tables.render import decimals, format_rounded


@check_arguments
def table_one(
    data: TableLike,
    columns: Names | None = None,
    *,
    by: Word | None = None,
    median: Names = (),
    title: Word = "variable",
) -> Table:
    """Return the table of a sample: mean (sd) or median [quartiles] of numbers, count (%) of levels, and missing values, by group.

    Percentages refer to the rows with a value. Rows without a value of `by` are only in "all".

    Parameters
    ----------
    data : table
        A row for each observation.
    columns : str or list of str, optional
        The variables, in this order; all by default.
    by : str, optional
        A column with a group for each row.
    median : str or list of str
        Numeric columns with median and quartiles.
    title : str
        The heading of the variables.

    Returns
    -------
    Table
        As `pr.table`, with a column for all rows and one for each group.

    Raises
    ------
    DataError
        For an unknown column, and for a column of `median` that is not numeric or not in the table.

    Examples
    --------
    >>> import probreg as pr
    >>> data = {"age": [30.0, 40.0, 50.0, 60.0, None], "sex": [*"mffmf"], "arm": [*"ababb"]}
    >>> pr.table_one(data, by="arm")
    variable  statistic       all    arm = a    arm = b
    n                           5          2          3
    age       mean (sd)   45 (13)    40 (14)    50 (14)
              missing           1          0          1
    sex       f          3 (60 %)   1 (50 %)   2 (67 %)
              m          2 (40 %)   1 (50 %)   1 (33 %)
    """
    import pandas as pd

    table = read_table(data)
    chosen = list_names(columns) or list(table.columns)
    chosen = [name for name in chosen if name != by]
    medians = list_names(median)
    require(table, chosen + medians + list_names(by))
    frame = pd.DataFrame(dict(table.columns))
    for name in medians:
        if name not in chosen:
            raise DataError(f"median={name!r} is not a variable of the table")
        if not _is_number(frame[name]):
            raise DataError(f"median={name!r} is a column of levels, not of numbers")
    parts = {"all": frame}
    if by is not None:
        groups = frame.groupby(by, observed=True)
        parts |= {f"{by} = {level}": part for level, part in groups}
    lines = [["n", "", *(f"{len(part)}" for part in parts.values())]]
    for name in chosen:
        for label, cell in _cells(frame[name], use_median=name in medians).items():
            lines.append([name, label, *(cell(part[name]) for part in parts.values())])
    names, labels, *cells = zip(*lines)
    numbers = (Column(name, column, str) for name, column in zip(parts, cells))
    return Table(
        (Column(title, names), Column("statistic", labels), *numbers), labels=2
    )


def _cells(values: Any, *, use_median: bool) -> dict[str, Callable[[Any], str]]:
    """Return the function of each line of a variable, from its values in a group to the text of the cell."""
    import pandas as pd

    cells: dict[str, Callable[[Any], str]] = {}
    if not _is_number(values):
        levels = pd.Categorical(values).categories
        cells = {str(level): partial(_count, level) for level in levels}
    else:
        # the standard deviation has two significant digits
        write = partial(format_rounded, places=decimals(np.array([values.std()])) - 1)
        if use_median:
            cells["median [quartiles]"] = partial(_median, write)
        else:
            cells["mean (sd)"] = partial(_mean, write)
    if values.isna().any():
        cells["missing"] = lambda x: f"{x.isna().sum()}"
    return cells


def _is_number(values: Any) -> bool:
    return values.dtype.kind in "iuf"


def _count(level: Any, x: Any) -> str:
    count = (x == level).sum()
    return f"{count} ({100 * count / max(x.count(), 1):.0f} %)"


def _mean(write: Callable[[float], str], x: Any) -> str:
    if x.count() < 2:  # no standard deviation
        return write(x.mean())
    return f"{write(x.mean())} ({write(x.std())})"


def _median(write: Callable[[float], str], x: Any) -> str:
    if not x.count():
        return ""
    low, middle, high = x.quantile([0.25, 0.5, 0.75])
    return f"{write(middle)} [{write(low)}, {write(high)}]"
