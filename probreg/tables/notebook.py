"""HTML for notebooks: a heading, tables and notes, with every text escaped."""

from abc import ABC, abstractmethod
from collections.abc import Iterable, Mapping, Sequence
from html import escape
from typing import Any

from probreg.system.terminal import clean_lines
from probreg.tables.content import TableContent
from probreg.tables.html import table_html

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
        return notebook_html([head], notes=lines)


def _part_html(part: Any) -> str:
    """A table, a paragraph, or a list."""
    if isinstance(part, str):
        return f"<p>{escape(part)}</p>"
    if not len(part):
        return ""
    if not isinstance(part, TableContent):
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
