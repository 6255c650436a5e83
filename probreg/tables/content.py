"""The content of a table: typed columns, a title and notes, before any format is chosen."""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import cached_property
from math import isnan
from typing import Any, Literal, Self

from probreg.tables.formats import format_p_value, format_significant

Kind = Literal["text", "estimate", "error", "interval", "p", "count"]
Format = Callable[[Any], str]
FORMATS: Mapping[str, Format] = {
    "text": str,
    "estimate": format_significant,
    "error": format_significant,
    "interval": format_significant,
    "p": format_p_value,
    "count": "{:.0f}".format,
}


@dataclass(frozen=True, eq=False)
class Column:
    """One column of a table.

    Parameters
    ----------
    name : str
        Its heading.
    values : sequence
        Unrounded numbers or texts; None and nan are empty cells, and a text in a column of numbers is printed as it is.
    kind : str
        "text", "estimate", "error", "interval", "p" or "count": the format of the numbers, and the alignment.
    format : callable, optional
        A format in place of that of the kind.
    group : str
        A heading over several neighbouring columns.
    """

    name: str
    values: Sequence[Any]
    kind: Kind = "text"
    format: Format | None = None
    group: str = ""

    @property
    def is_numeric(self) -> bool:
        return self.kind != "text"

    @cached_property
    def cells(self) -> list[str]:
        """The values as texts."""
        form = self.format or FORMATS[self.kind]
        cells = []
        for value in self.values:
            if value is None or (isinstance(value, float) and isnan(value)):
                cells.append("")
            else:
                cells.append(value if isinstance(value, str) else form(value))
        return cells


@dataclass(frozen=True, eq=False, repr=False)
class TableContent:
    """Columns of equal length; see `Table` for the fields."""

    columns: tuple[Column, ...]
    labels: int = 1
    rules: tuple[int, ...] = ()
    head: tuple[str, ...] = ()
    notes: tuple[str, ...] = ()
    source: str = ".table"

    def __len__(self) -> int:
        return len(self.columns[0].values) if self.columns else 0

    def take(self, rows: slice) -> Self:
        """The table of some of the rows."""
        first = range(len(self))[rows]
        return replace(
            self,
            columns=tuple(replace(c, values=c.values[rows]) for c in self.columns),
            rules=tuple(r - first.start for r in self.rules if r in first),
        )

    @cached_property
    def cells(self) -> list[list[str]]:
        """The texts row by row, repeated labels blank."""
        rows = [list(row) for row in zip(*[c.cells for c in self.columns])]
        for i in range(len(rows) - 1, 0, -1):
            for j in range(self.labels - 1):
                if rows[i][: j + 1] == rows[i - 1][: j + 1]:
                    rows[i][j] = ""
        return rows
