"""Formats of numbers and cells, the columns of a table, and the HTML of notebooks."""

import re
from abc import ABC, abstractmethod
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property
from html import escape
from math import isnan
from typing import Any

import numpy as np
from rich.cells import cell_len

from probreg.system.terminal import clean_lines, cut_middle, format_p, visible


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


_LATEX = {
    "\\": r"\textbackslash{}", "&": r"\&", "%": r"\%", "$": r"\$", "#": r"\#", "_": r"\_", "{": r"\{", "}": r"\}",
    "~": r"\textasciitilde{}", "^": r"\textasciicircum{}", "<": "$<$", ">": "$>$", "²": "$^2$", "…": r"\ldots{}", "∝": r"$\propto$",
    "|": r"\textbar{}", "−": "$-$", "±": r"$\pm$", "×": r"$\times$", "≤": r"$\leq$", "≥": r"$\geq$", "≈": r"$\approx$", "→": r"$\to$", "∞": r"$\infty$",
}  # fmt: skip


def escape_markdown(text: str) -> str:
    """Return the text of a cell with all markup escaped.

    >>> escape_markdown("a|b*")
    'a\\\\|b\\\\*'
    """
    escaped = visible(text)
    for mark in ("\\", "|", "*", "`", "<"):
        escaped = escaped.replace(mark, f"\\{mark}")
    return escaped


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
    tables: Iterable[Any] = (),
    notes: Sequence[str] = (),
    *,
    foot: Sequence[str] = (),
    folded: Mapping[str, Any] | None = None,
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
    html = part.take(slice(n_open)).to_html(with_notes=False)
    if n > n_open:
        hidden = part.take(slice(n_open, n_written)).to_html(with_notes=False)
        html += _details(f"{n - n_open} more rows", hidden)
    if n > n_written:
        html += f"<p>{n - n_written} more rows in {escape(part.source)}</p>"
    return html


def _details(title: str, body: str) -> str:
    return f"<details><summary>{escape(title)}</summary>{body}</details>"


def cut_names(names: list[str], width: int) -> list[str]:
    """Return names of at most `width` cells. Names that differ stay different, because the common start of long names is cut first.

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
