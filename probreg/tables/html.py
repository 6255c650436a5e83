"""A table as HTML: every text is escaped, numbers are right-aligned."""

from html import escape
from itertools import groupby

from probreg.tables.content import Column, TableContent

_TABLE = "border-collapse:collapse;font-variant-numeric:tabular-nums"
_CELL = "padding:0.15em 0 0.15em 1.2em;text-align:"
_RULE = ";border-top:1px solid currentColor"


def table_html(table: TableContent, *, with_notes: bool = True) -> str:
    """A `<table>`, by default with its notes as the footer."""
    head = _row([_cell(c.name, c, 'th scope="col"') for c in table.columns])
    if any(column.group for column in table.columns):
        groups = []
        for name, columns in groupby(table.columns, key=lambda column: column.group):
            span = f'th scope="colgroup" colspan="{len(list(columns))}"'
            groups.append(_cell(name, Column("", []), span))
        head = _row(groups) + head
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
