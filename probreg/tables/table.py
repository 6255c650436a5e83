"""Everything that prints a table builds one of these, with unrounded values for programs."""

import json
import math
from collections.abc import Mapping
from dataclasses import dataclass, replace
from functools import cached_property
from html import escape
from typing import Any, Self

import numpy as np
from rich.cells import cell_len

from probreg.arguments.arrays import reads_as_number
from probreg.arguments.scalars import DataFrame
from probreg.errors import Incompatible
from probreg.system.disk import write_whole
from probreg.system.terminal import WIDTH, clean_lines, truncate_lines, visible
from probreg.tables.render import (
    FIVE_DIGITS,
    Column,
    Format,
    cut_names,
    escape_latex,
    escape_markdown,
    notebook_html,
)

LINES_OF_PRINT = 40  # of a print at most
_TABLE = "border-collapse:collapse;font-variant-numeric:tabular-nums"
_CELL = "padding:0.15em 0 0.15em 1.2em;text-align:"
_RULE = ";border-top:1px solid currentColor"
_LABEL = 24  # cells that the labels of a row keep at least, and a heading at most


@dataclass(frozen=True, eq=False, repr=False)
class Table:
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

    columns: tuple[Column, ...]
    labels: int = 1
    rules: tuple[int, ...] = ()
    head: tuple[str, ...] = ()
    notes: tuple[str, ...] = ()
    source: str = ".table"

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
        """A table of a DataFrame: numbers in the format `number`, or in `formats` by column."""
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

    def __len__(self) -> int:
        return len(self.columns[0].values) if self.columns else 0

    @property
    def names(self) -> list[str]:
        """The headings of the columns."""
        return [column.name for column in self.columns]

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

    def lines(self, limit: int | None = None, width: int = WIDTH) -> list[str]:
        """The table as lines of at most `width` cells; of more than `limit` lines the first, and one that counts the omitted rows."""
        lines = self._all_lines(width)
        if limit is None or len(lines) <= limit:
            return lines
        per_row = -(-len(lines) // (len(self) + 2))  # more than one if columns continue
        n = max(limit // per_row - 2, 1)
        omitted = len(self) - n
        return [
            *self.take(slice(n))._all_lines(width),
            f"… {omitted} more in {self.source}",
        ]

    def _all_lines(self, width: int) -> list[str]:
        grid = [self._headings()]
        grid += [[visible(cell) for cell in row] for row in self.cells]
        numeric = [column.is_numeric for column in self.columns]
        columns = [list(column) for column in zip(*grid)]
        widths = [_width(column) for column in columns]
        texts = [j for j, number in enumerate(numeric) if not number]
        # columns of text share the room that numbers leave: the long ones give way first
        numbers = [j for j, number in enumerate(numeric) if number]
        room = width + 2 - sum([widths[j] + 2 for j in numbers])
        limit = max([widths[j] for j in texts], default=0)
        least = max(_LABEL // max(len(texts), 1), 10)  # cells of each of several labels
        while limit > least and sum([min(widths[j], limit) + 2 for j in texts]) > room:
            limit -= 1
        for j in texts:
            columns[j] = cut_names(columns[j], limit)
            widths[j] = _width(columns[j])
        lines: list[str] = []
        for block in _blocks(widths, numeric, width):
            for i in range(len(grid)):
                if i - 1 in self.rules:
                    lines.append("")
                cells = []
                for j in block:
                    blank = " " * (widths[j] - cell_len(columns[j][i]))
                    cell = columns[j][i]
                    cells.append(blank + cell if numeric[j] else cell + blank)
                lines.append("  ".join(cells).rstrip())
        return lines

    def _headings(self) -> list[str]:
        """The names of the columns; names of numbers are cut."""
        names = list(map(visible, self.names))
        return [
            short if column.is_numeric else name
            for column, name, short in zip(
                self.columns, names, cut_names(names, _LABEL)
            )
        ]

    def to_html(self, *, with_notes: bool = True) -> str:
        """An HTML table, by default with the notes as its footer; every text is escaped."""
        head = _row([_cell(c.name, c, 'th scope="col"') for c in self.columns])
        body = []
        for i, row in enumerate(self.cells):
            rule = _RULE if i in self.rules else ""
            tags = ['th scope="row"'] * self.labels
            tags += ["td"] * (len(row) - len(tags))
            cells = zip(row, self.columns, tags)
            body.append(_row([_cell(*cell, rule) for cell in cells]))
        foot = ""
        if with_notes and self.notes:
            notes = "".join([f"<div>{escape(note)}</div>" for note in self.notes])
            foot = f'<tfoot><tr><td colspan="{len(self.columns)}" style="text-align:left;font-size:smaller{_RULE}">{notes}</td></tr></tfoot>'
        return f'<table style="{_TABLE}"><thead>{head}</thead><tbody>{"".join(body)}</tbody>{foot}</table>'

    def to_markdown(self) -> str:
        """A pipe table, numbers right-aligned, with the notes under it; an empty row for a rule."""
        lines = [_pipes(self.names)]
        lines.append(
            "".join("|--:" if c.is_numeric else "|:--" for c in self.columns) + "|"
        )
        for i, row in enumerate(self.cells):
            if i in self.rules:
                lines.append(_pipes([""] * len(row)))
            lines.append(_pipes(row))
        notes = [f"{escape_markdown(note)}  " for note in self.notes]
        return "\n".join([*lines, "", *notes]).rstrip() + "\n"

    def to_latex(self) -> str:
        """A `table` environment for the package booktabs, with the notes in small print."""
        align = "".join("r" if column.is_numeric else "l" for column in self.columns)
        body = []
        for i, row in enumerate(self.cells):
            if i in self.rules:
                body.append(r"\midrule")
            body.append(_latex_row(row))
        notes = [rf"\footnotesize {escape_latex(note)}\par" for note in self.notes]
        space = [r"\par\smallskip", r"\raggedright"] if notes else []
        head = _latex_row(self.names)
        lines = [
            r"\begin{table}", r"\centering", rf"\begin{{tabular}}{{{align}}}", r"\toprule", head, r"\midrule", *body, r"\bottomrule",
            r"\end{tabular}", *space, *notes, r"\end{table}", "",
        ]  # fmt: skip
        return "\n".join(lines)

    def __repr__(self) -> str:
        notes = truncate_lines(self.notes, ".notes", 20)
        used = clean_lines(*self.head, *notes).count("\n") + 1
        return clean_lines(
            *self.head, *self.lines(max(LINES_OF_PRINT - used, 8)), *notes
        )

    def _repr_html_(self) -> str:
        return notebook_html(self.head, [self], self.notes)

    def to_pandas(self) -> DataFrame:
        """A DataFrame of the unrounded values; the columns of labels are its index."""
        import pandas as pd

        frame = pd.DataFrame(dict(enumerate(c.values for c in self.columns)))
        frame.columns = self.names
        return frame.set_index(self.names[: self.labels]) if self.labels else frame

    def to_csv(self, path: Any = None) -> str | None:
        """Return the unrounded values as CSV, or write them to a file; a text that a spreadsheet would run as a formula is quoted."""
        text = csv_text(self.to_pandas())
        if path is None:
            return text
        write_whole(path, [text.encode()])
        return None

    def to_excel(self, path: Any) -> None:
        """Write the unrounded values to an Excel file; needs the package openpyxl."""
        try:
            spreadsheet_frame(self.to_pandas()).to_excel(path, index=False)
        except ImportError as error:
            raise Incompatible(
                "to_excel needs the package openpyxl: pip install openpyxl"
            ) from error

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
        for row, texts in zip(grid.rows, [self.names, *self.cells]):
            for cell, text in zip(row.cells, texts):
                cell.text = text
        for note in self.notes:
            document.add_paragraph(note)
        document.save(path)

    def to_json(self) -> str:
        """The rows as a JSON array of objects, unrounded; null for an empty cell."""
        return json_text(records(self.to_pandas()))


def _row(cells: list[str]) -> str:
    return f"<tr>{''.join(cells)}</tr>"


def _cell(text: str, column: Column, tag: str, rule: str = "") -> str:
    """One cell of a column; `tag` has the attributes of the element."""
    align = "right" if column.is_numeric else "left"
    return f'<{tag} style="{_CELL}{align}{rule}">{escape(text)}</{tag[:2]}>'


def _pipes(cells: list[str]) -> str:
    return "| " + " | ".join(map(escape_markdown, cells)) + " |"


def _latex_row(cells: list[str]) -> str:
    first, *remaining = map(escape_latex, cells)
    if first[:1] in ("[", "*"):  # LaTeX would read it as an argument of the line before
        first = f"{{}}{first}"
    return " & ".join([first, *remaining]) + r" \\"


def _blocks(widths: list[int], numeric: list[bool], width: int) -> list[list[int]]:
    """Numbers of the columns side by side: where they are too wide, the leading texts are repeated before each part."""
    first = numeric.index(True) if True in numeric else len(numeric)
    labels = list(range(first))
    blocks = [list(labels)]
    for j in range(first, len(widths)):
        used = sum([widths[i] + 2 for i in blocks[-1]])
        if used + widths[j] > width and len(blocks[-1]) > len(labels):
            blocks.append(list(labels))
        blocks[-1].append(j)
    return blocks


def _width(cells: list[str]) -> int:
    return max(map(cell_len, cells), default=0)


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
    return str(spreadsheet_frame(frame).to_csv(index=False, lineterminator="\n"))


def spreadsheet_frame(frame: DataFrame) -> DataFrame:
    """A table with its named index as columns, and no text that a spreadsheet runs."""
    return with_index_columns(frame).map(quote_formula).rename(columns=quote_formula)


def quote_formula(value: Any) -> Any:
    """A cell of a spreadsheet; a text that a spreadsheet would run as a formula gets an apostrophe in front.

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

    >>> json_value({"a": (1.5, math.nan, -math.inf), "b": np.int64(2), "c": 2 + 1j})
    {'a': [1.5, None, '-Infinity'], 'b': 2, 'c': '(2+1j)'}
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
