"""Formats of numbers, the columns of a table, and tables as text, Markdown, LaTeX and HTML, also in notebooks."""

import re
from abc import ABC, abstractmethod
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import cached_property
from html import escape
from math import isnan
from typing import Any, Self

import numpy as np
from rich.cells import cell_len

from probreg.system.terminal import WIDTH, clean_lines, cut_middle, format_p, visible


def format_p_value(p: float) -> str:
    """A p-value in a table, to two digits.

    >>> format_p_value(0.0123), format_p_value(0.0), format_p_value(2e-9), format_p_value(float("nan"))
    ('0.012', '<1e-15', '2e-09', '')
    """
    if p != p:
        return ""
    return format_p(p).removeprefix("p ").removeprefix("= ").replace(" ", "")


def decimals(errors: np.ndarray) -> int:
    """Places after the point that show the smallest error to three significant digits; below 0 of those before it.

    >>> decimals(np.array([7.38, 0.108])), decimals(np.array([1234.5])), decimals(np.array([np.nan]))
    (3, -1, 4)
    """
    positive = errors[np.isfinite(errors) & (errors > 0)]
    if len(positive):
        return 2 - int(np.floor(np.log10(positive.min())))
    return 4


def format_rounded(value: float, places: int) -> str:
    """Format a number to so many decimal places, with an exponent where that would be long, of at most the digits that a number has.

    >>> format_rounded(-0.232163, 4), format_rounded(1.2345e-12, 14), format_rounded(float("nan"), 2), format_rounded(1234.5, -1), format_rounded(1.2345e33, -30)
    ('-0.2322', '1.23e-12', '', '1234', '1.234e+33')
    """
    if not np.isfinite(value):
        return "" if np.isnan(value) else f"{value:g}"
    if places <= 8 and abs(value) < 1e10:
        return f"{value:.{max(places, 0)}f}"
    digits = 0
    if value:
        digits = int(np.floor(np.log10(abs(value)))) + places
    return f"{value:.{min(max(digits, 0), 15)}e}"


Format = Callable[[Any], str]
FIVE_DIGITS: Format = "{:.5g}".format


@dataclass(frozen=True, eq=False)
class Column:
    """One column of a table.

    Parameters
    ----------
    name : str
        Its heading.
    values : sequence
        Unrounded numbers or texts; None and nan are empty cells, and a text in a column of numbers is printed as it is.
    format : callable, optional
        The format of a number, in a column of numbers; by default a column of texts.
    """

    name: str
    values: Sequence[Any]
    format: Format | None = None

    @property
    def is_numeric(self) -> bool:
        return self.format is not None

    @cached_property
    def cells(self) -> list[str]:
        """The values as texts."""
        form = self.format or str
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


_TABLE = "border-collapse:collapse;font-variant-numeric:tabular-nums"
_CELL = "padding:0.15em 0 0.15em 1.2em;text-align:"
_RULE = ";border-top:1px solid currentColor"


def table_html(table: TableContent, *, with_notes: bool = True) -> str:
    """An HTML table, by default with the notes as its footer; every text is escaped."""
    head = _row([_cell(c.name, c, 'th scope="col"') for c in table.columns])
    body = []
    for i, row in enumerate(table.cells):
        rule = _RULE if i in table.rules else ""
        tags = ['th scope="row"'] * table.labels
        tags += ["td"] * (len(row) - len(tags))
        cells = zip(row, table.columns, tags)
        body.append(_row([_cell(*cell, rule) for cell in cells]))
    foot = ""
    if with_notes and table.notes:
        notes = "".join([f"<div>{escape(note)}</div>" for note in table.notes])
        foot = f'<tfoot><tr><td colspan="{len(table.columns)}" style="text-align:left;font-size:smaller{_RULE}">{notes}</td></tr></tfoot>'
    return f'<table style="{_TABLE}"><thead>{head}</thead><tbody>{"".join(body)}</tbody>{foot}</table>'


def _row(cells: list[str]) -> str:
    return f"<tr>{''.join(cells)}</tr>"


def _cell(text: str, column: Column, tag: str, rule: str = "") -> str:
    """One cell of a column; `tag` has the attributes of the element."""
    align = "right" if column.is_numeric else "left"
    return f'<{tag} style="{_CELL}{align}{rule}">{escape(text)}</{tag[:2]}>'


_LATEX = {
    "\\": r"\textbackslash{}", "&": r"\&", "%": r"\%", "$": r"\$", "#": r"\#", "_": r"\_", "{": r"\{", "}": r"\}",
    "~": r"\textasciitilde{}", "^": r"\textasciicircum{}", "<": "$<$", ">": "$>$", "²": "$^2$", "…": r"\ldots{}", "∝": r"$\propto$",
    "|": r"\textbar{}", "−": "$-$", "±": r"$\pm$", "×": r"$\times$", "≤": r"$\leq$", "≥": r"$\geq$", "≈": r"$\approx$", "→": r"$\to$", "∞": r"$\infty$",
}  # fmt: skip


def table_markdown(table: TableContent) -> str:
    """A pipe table, numbers right-aligned, with the notes under it; an empty row for a rule."""
    lines = [_pipes([column.name for column in table.columns])]
    lines.append(
        "".join("|--:" if c.is_numeric else "|:--" for c in table.columns) + "|"
    )
    for i, row in enumerate(table.cells):
        if i in table.rules:
            lines.append(_pipes([""] * len(row)))
        lines.append(_pipes(row))
    notes = [f"{escape_markdown(note)}  " for note in table.notes]
    return "\n".join([*lines, "", *notes]).rstrip() + "\n"


def _pipes(cells: list[str]) -> str:
    return "| " + " | ".join(map(escape_markdown, cells)) + " |"


def escape_markdown(text: str) -> str:
    """One cell, in which nothing is markup.

    >>> escape_markdown("a|b*")
    'a\\\\|b\\\\*'
    """
    escaped = visible(text)
    for mark in ("\\", "|", "*", "`", "<"):
        escaped = escaped.replace(mark, f"\\{mark}")
    return escaped


def table_latex(table: TableContent) -> str:
    """A `table` environment for the package booktabs, with the notes in small print."""
    align = "".join("r" if column.is_numeric else "l" for column in table.columns)
    body = []
    for i, row in enumerate(table.cells):
        if i in table.rules:
            body.append(r"\midrule")
        body.append(_latex_row(row))
    notes = [rf"\footnotesize {escape_latex(note)}\par" for note in table.notes]
    space = [r"\par\smallskip", r"\raggedright"] if notes else []
    head = _latex_row([column.name for column in table.columns])
    lines = [
        r"\begin{table}", r"\centering", rf"\begin{{tabular}}{{{align}}}", r"\toprule", head, r"\midrule", *body, r"\bottomrule",
        r"\end{tabular}", *space, *notes, r"\end{table}", "",
    ]  # fmt: skip
    return "\n".join(lines)


def _latex_row(cells: list[str]) -> str:
    first, *remaining = map(escape_latex, cells)
    if first[:1] in ("[", "*"):  # LaTeX would read it as an argument of the line before
        first = f"{{}}{first}"
    return " & ".join([first, *remaining]) + r" \\"


def escape_latex(text: str) -> str:
    r"""One cell in LaTeX; a minus sign is one of mathematics.

    >>> escape_latex("a_b"), escape_latex("-0.5"), escape_latex("R² 5 %")
    ('a\\_b', '$-$0.5', 'R$^2$ 5 \\%')
    """
    escaped = "".join(_LATEX.get(c, c) for c in visible(text))
    return re.sub(r"(?<![\w.)$-])-(?=\d)", "$-$", escaped)


_STYLE = "overflow-x:auto;line-height:1.45;max-width:70em"


def notebook_html(
    head: Sequence[str],
    tables: Iterable[TableContent | str] = (),
    notes: Sequence[str] = (),
    *,
    foot: Sequence[str] = (),
    folded: Mapping[str, TableContent | Sequence[str]] | None = None,
) -> str:
    """The first line of `head` in bold, `tables` and paragraphs, a paragraph `foot`, `notes` as a list.

    `folded` has tables or lists by their titles, which open on a click, as the rows of a long table do.

    >>> print(notebook_html(["a < b", "more"], notes=["one"]))
    <div style="overflow-x:auto;line-height:1.45;max-width:70em"><p><strong>a &lt; b</strong><br>more</p><ul><li>one</li></ul></div>
    """
    parts = []
    if head:
        first, *lines = map(escape, head)
        parts.append(f"<p>{'<br>'.join([f'<strong>{first}</strong>', *lines])}</p>")
    parts += map(_part_html, tables)
    if foot:
        parts.append(f"<p>{'<br>'.join(map(escape, foot))}</p>")
    parts.append(_part_html(notes))
    for title, part in (folded or {}).items():
        if len(part):
            parts.append(_details(title, _part_html(part)))
    return f'<div style="{_STYLE}">{"".join(parts)}</div>'


class PrintsLines(ABC):
    """An object that prints as lines of text; a notebook shows the first as heading and the others as a list."""

    @property
    @abstractmethod
    def _summary_lines(self) -> list[str]:
        """The lines, at least one."""

    def __repr__(self) -> str:
        return clean_lines(*self._summary_lines)

    def _repr_html_(self) -> str:
        head, *lines = self._summary_lines
        return notebook_html([head], notes=[line.strip() for line in lines])


def _part_html(part: Any) -> str:
    """A table, a paragraph, or a list."""
    if isinstance(part, str):
        return f"<p>{escape(part)}</p>"
    if not len(part):
        return ""
    if isinstance(part, Sequence):
        return f"<ul>{''.join(f'<li>{escape(line)}</li>' for line in part)}</ul>"
    n = len(part)
    n_open = 30  # rows that are shown at once; the others open on a click
    n_written = 500  # rows that are written at all
    html = table_html(part.take(slice(n_open)), with_notes=False)
    if n > n_open:
        hidden = table_html(part.take(slice(n_open, n_written)), with_notes=False)
        html += _details(f"{n - n_open} more rows", hidden)
    if n > n_written:
        html += f"<p>{n - n_written} more rows in {escape(part.source)}</p>"
    return html


def _details(title: str, body: str) -> str:
    return f"<details><summary>{escape(title)}</summary>{body}</details>"


_LABEL = 24  # cells that the labels of a row keep at least, and a heading at most


def table_lines(
    table: TableContent, limit: int | None = None, width: int = WIDTH
) -> list[str]:
    """The table as lines of at most `width` cells; of more than `limit` lines the first, and one that counts the omitted rows."""
    lines = _all_lines(table, width)
    if limit is None or len(lines) <= limit:
        return lines
    per_row = -(-len(lines) // (len(table) + 2))  # more than one if columns continue
    n = max(limit // per_row - 2, 1)
    omitted = len(table) - n
    return [
        *_all_lines(table.take(slice(n)), width),
        f"… {omitted} more in {table.source}",
    ]


def _all_lines(table: TableContent, width: int) -> list[str]:
    grid = [_headings(table)]
    grid += [[visible(cell) for cell in row] for row in table.cells]
    numeric = [column.is_numeric for column in table.columns]
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
            if i - 1 in table.rules:
                lines.append("")
            cells = []
            for j in block:
                blank = " " * (widths[j] - cell_len(columns[j][i]))
                cell = columns[j][i]
                cells.append(blank + cell if numeric[j] else cell + blank)
            lines.append("  ".join(cells).rstrip())
    return lines


def _headings(table: TableContent) -> list[str]:
    """The names of the columns; names of numbers are cut."""
    names = [visible(column.name) for column in table.columns]
    return [
        short if column.is_numeric else name
        for column, name, short in zip(table.columns, names, cut_names(names, _LABEL))
    ]


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


def cut_names(names: list[str], width: int) -> list[str]:
    """Names of at most so many cells; names that differ stay different: what all long ones begin with is cut first.

    >>> cut_names(["price of lot 1, in thousands", "price of lot 2, in thousands", "x"], 16)
    ['…lot 1,…housands', '…lot 2,…housands', 'x']
    """
    long = [name for name in dict.fromkeys(names) if cell_len(name) > width]
    differs = [len(set(letters)) > 1 for letters in zip(*long)]
    start = 0
    if True in differs:
        start = max(differs.index(True) - width // 4, 0)
    short: dict[str, str] = {}
    for name in long:
        text = f"…{name[start:]}" if start else name
        cut = cut_middle(text, width)
        if cut in short.values():
            number = f" {len(short)}"
            cut = cut_middle(text, width - len(number)) + number
        short[name] = cut
    return [short.get(name, name) for name in names]
