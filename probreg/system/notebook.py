"""What a notebook shows of an object: a head, tables and notes as HTML, everything that was given escaped."""

from collections.abc import Callable, Iterable, Sequence
from html import escape
from typing import Any

_ROWS = 30  # of a table; the others stand in the object
_STYLE = "overflow-x:auto;line-height:1.45;max-width:70em"


def _digits(value: float) -> str:
    return f"{value:.5g}"


def notebook_html(
    head: Sequence[str],
    tables: Iterable[Any] = (),
    notes: Sequence[str] = (),
    *,
    folded: Any = None,
    index: bool = True,
    number: Callable[[float], str] = _digits,
) -> str:
    """The first line of `head` set off, pandas `tables`, `notes` as a list, and a table that is `folded` away.

    >>> print(notebook_html(["a < b", "more"], notes=["one"]))
    <div style="overflow-x:auto;line-height:1.45;max-width:70em"><p><strong>a &lt; b</strong><br>more</p><ul><li>one</li></ul></div>
    """

    def shown(table: Any) -> str:
        import pandas as pd

        with pd.option_context("display.max_colwidth", None):  # cells whole
            body = str(table[:_ROWS].to_html(index=index, float_format=number, na_rep="", border=0))
        rest = len(table) - _ROWS
        return body + (f"<p>{rest} more rows in the object's table</p>" if rest > 0 else "")

    first, *others = map(escape, head)
    out = f"<p>{'<br>'.join([f'<strong>{first}</strong>', *others])}</p>" + "".join(shown(t) for t in tables if len(t))
    if notes:
        out += f"<ul>{''.join(f'<li>{escape(n)}</li>' for n in notes)}</ul>"
    if folded is not None and len(folded):
        out += f"<details><summary>{len(folded)} rows of the table</summary>{shown(folded)}</details>"
    return f'<div style="{_STYLE}">{out}</div>'
