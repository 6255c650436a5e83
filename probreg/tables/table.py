"""Everything that prints a table builds one of these, with unrounded values for programs."""

import json
import math
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

import numpy as np

from probreg.arguments.arrays import reads_as_number
from probreg.arguments.types import DataFrame
from probreg.errors import Incompatible
from probreg.system.terminal import clean_lines, truncate_lines
from probreg.tables.render import (
    FIVE_DIGITS,
    Column,
    Format,
    TableContent,
    notebook_html,
    table_html,
    table_latex,
    table_lines,
    table_markdown,
)

LINES = 40  # of a print at most


@dataclass(frozen=True, eq=False, repr=False)
class Table(TableContent):
    """Columns of equal length, printed as text, HTML, Markdown, LaTeX, CSV or JSON.

    Parameters
    ----------
    columns : tuple of Column
        The columns; the first `labels` of them name the rows.
    labels : int
        Number of columns that name the rows; of several, repeated labels are blank in all but the last.
    rules : tuple of int
        Rows before which a rule is drawn.
    head : tuple of str
        Lines above the table; a notebook prints the first in bold.
    notes : tuple of str
        Lines below it.
    source : str
        Where all rows are, for prints that omit some.

    Examples
    --------
    >>> estimates = Column("estimate", [1.5, float("nan")], FIVE_DIGITS)
    >>> print(Table((Column("", ["x", "z"]), estimates)))
       estimate
    x       1.5
    z
    """

    @classmethod
    def from_pandas(
        cls,
        frame: DataFrame,
        *,
        index: bool = True,
        number: Format = FIVE_DIGITS,
        formats: Mapping[str, Format] | None = None,
        **settings: Any,
    ) -> "Table":
        """A table of a DataFrame: numbers in the format `number`, or those of `formats` by column."""
        columns = []
        if index:
            for i in range(frame.index.nlevels):
                values = frame.index.get_level_values(i)
                name = "" if values.name is None else str(values.name)
                columns.append(Column(name, [*map(str, values)]))
        formats = formats or {}
        for i, name in enumerate(frame.columns):
            values = frame.iloc[:, i]
            by_kind: Mapping[str, Format] = {"f": number, "i": str, "u": str, "b": str}
            form = formats.get(name, by_kind.get(values.dtype.kind))
            columns.append(Column(str(name), values.tolist(), form))
        labels = frame.index.nlevels if index else 0
        return cls(tuple(columns), labels, **settings)

    lines = table_lines
    to_html = table_html
    to_markdown = table_markdown
    to_latex = table_latex

    def __repr__(self) -> str:
        notes = truncate_lines(self.notes, ".notes", 20)
        used = clean_lines(*self.head, *notes).count("\n") + 1
        return clean_lines(*self.head, *self.lines(max(LINES - used, 8)), *notes)

    def _repr_html_(self) -> str:
        return notebook_html(self.head, [self], self.notes)

    def to_pandas(self) -> DataFrame:
        """A DataFrame of the unrounded values; the columns of labels are its index."""
        import pandas as pd

        names = [c.name for c in self.columns]
        frame = pd.DataFrame(dict(enumerate(c.values for c in self.columns)))
        frame.columns = names
        return frame.set_index(names[: self.labels]) if self.labels else frame

    def to_csv(self) -> str:
        """The unrounded values as CSV; a text that a spreadsheet would run as a formula is quoted."""
        return csv_text(self.to_pandas())

    def to_excel(self, path: Any) -> None:
        """Write the unrounded values to an Excel file."""
        self.to_pandas().to_excel(path)

    def to_word(self, path: Any) -> None:
        """Write the table with its head and notes to a Word file; needs the package python-docx."""
        try:
            from docx import Document
        except ImportError as error:
            raise Incompatible(
                "to_word needs the package python-docx: pip install python-docx"
            ) from error
        document = Document()
        for line in self.head:
            document.add_paragraph(line)
        grid = document.add_table(rows=len(self) + 1, cols=len(self.columns))
        names = [c.name for c in self.columns]
        for row, texts in zip(grid.rows, [names, *self.cells]):
            for cell, text in zip(row.cells, texts):
                cell.text = text
        for note in self.notes:
            document.add_paragraph(note)
        document.save(path)

    def to_json(self) -> str:
        """The rows as a JSON array of objects, unrounded; null for an empty cell."""
        return json_text(records(self.to_pandas()))


class PrintsTable:
    """A result that is printed as one table: `_display_table` makes it."""

    @property
    def _display_table(self) -> Table:
        raise NotImplementedError

    def __repr__(self) -> str:
        return repr(self._display_table)

    def _repr_html_(self) -> str:
        return self._display_table._repr_html_()


# ---- tables for programs: CSV and JSON of unrounded values ----------------------------------------------------------


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
