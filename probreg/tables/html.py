"""A table as HTML: every text is escaped, numbers are right-aligned."""

from html import escape
from itertools import groupby

from probreg.tables.content import TableContent

_TABLE = "border-collapse:collapse;font-variant-numeric:tabular-nums"
_CELL = "padding:0.15em 0 0.15em 1.2em;text-align:"
_RULE = ";border-top:1px solid currentColor"


def table_html(table: TableContent, *, with_notes: bool = True) -> str:
    """A `<table>`, by default with its notes as the footer."""
    notes = "".join(f"<div>{escape(note)}</div>" for note in table.notes)
    foot = f'<tfoot><tr><td colspan="{len(table.columns)}" style="text-align:left;font-size:smaller{_RULE}">{notes}</td></tr></tfoot>'
    rows = (
        _row(table, row, rule=_RULE if i in table.rules else "")
        for i, row in enumerate(table.cells)
    )
    return (
        f'<table style="{_TABLE}"><thead>{_groups(table)}{_head(table)}</thead>'
        f"<tbody>{''.join(rows)}</tbody>{foot if with_notes and table.notes else ''}</table>"
    )


def _groups(table: TableContent) -> str:
    """The row of headings over several columns."""
    if not any(column.group for column in table.columns):
        return ""
    cells = [
        f'<th scope="colgroup" colspan="{len(list(columns))}" style="{_CELL}left">{escape(group)}</th>'
        for group, columns in groupby(table.columns, key=lambda column: column.group)
    ]
    return f"<tr>{''.join(cells)}</tr>"


def _head(table: TableContent) -> str:
    cells = [
        f'<th scope="col" style="{_CELL}{_align(numeric=column.is_numeric)}">{escape(column.name)}</th>'
        for column in table.columns
    ]
    return f"<tr>{''.join(cells)}</tr>"


def _row(table: TableContent, cells: list[str], rule: str) -> str:
    parts = []
    for j, (column, cell) in enumerate(zip(table.columns, cells)):
        style = f"{_CELL}{_align(numeric=column.is_numeric)}{rule}"
        if j < table.labels:
            parts.append(f'<th scope="row" style="{style}">{escape(cell)}</th>')
        else:
            parts.append(f'<td style="{style}">{escape(cell)}</td>')
    return f"<tr>{''.join(parts)}</tr>"


def _align(*, numeric: bool) -> str:
    return "right" if numeric else "left"
