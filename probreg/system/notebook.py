"""What a notebook shows of an object: a head, tables and notes as HTML, everything that was given escaped."""

from collections.abc import Callable, Iterable, Mapping, Sequence
from html import escape
from typing import Any

_ROWS = 30  # of a table that are shown at once; the further ones fold
_MOST = 500  # rows that are there at all; the others stand in the object
_STYLE = "overflow-x:auto;line-height:1.45;max-width:70em"


def _digits(value: float) -> str:
    return f"{value:.5g}"


def notebook_html(
    head: Sequence[str],
    tables: Iterable[Any] = (),
    notes: Sequence[str] = (),
    *,
    foot: Sequence[str] = (),
    folded: Mapping[str, Any] | None = None,
    index: bool = True,
    number: Callable[[float], str] = _digits,
) -> str:
    """The first line of `head` set off, pandas `tables` and words between them, a paragraph `foot`, `notes` as a list.

    `folded` has tables or texts by their titles, which open on a click, as the rows of a long table do.

    >>> print(notebook_html(["a < b", "more"], notes=["one"]))
    <div style="overflow-x:auto;line-height:1.45;max-width:70em"><p><strong>a &lt; b</strong><br>more</p><ul><li>one</li></ul></div>
    """

    def rows(table: Any) -> str:
        import pandas as pd

        with pd.option_context("display.max_colwidth", None):  # cells whole
            body = str(
                table.to_html(
                    index=index,
                    float_format=number,
                    na_rep="",
                    border=0,
                    justify="left",
                )
            )
        text = (
            all(kind.kind in "OUST" or kind.name == "str" for kind in table.dtypes)
            and not index
        )
        if text:
            return body.replace("<td>", '<td style="text-align:left">')
        return body

    def shown(part: Any) -> str:
        if isinstance(part, str):
            return f"<p>{escape(part)}</p>"
        if isinstance(part, list | tuple):
            if part:
                return f"<ul>{''.join(f'<li>{escape(n)}</li>' for n in part)}</ul>"
            return ""
        if not len(part):
            return ""
        rest = len(part) - _ROWS
        lost = len(part) - _MOST
        if rest > 0:
            more = _details(f"{rest} more rows", rows(part[_ROWS:_MOST]))
        else:
            more = ""
        return (
            rows(part[:_ROWS])
            + more
            + (f"<p>{lost} more rows in the object's table</p>" if lost > 0 else "")
        )

    first = [escape(line) for line in head[:1]]
    others = [escape(line) for line in head[1:]]
    if head:
        out = f"<p>{'<br>'.join([*(f'<strong>{line}</strong>' for line in first), *others])}</p>"
    else:
        out = ""
    out += "".join(map(shown, tables))
    out += f"<p>{'<br>'.join(map(escape, foot))}</p>" if foot else ""
    out += shown(list(notes))
    out += "".join(
        _details(title, shown(part))
        for title, part in (folded or {}).items()
        if len(part)
    )
    return f'<div style="{_STYLE}">{out}</div>'


def _details(title: str, body: str) -> str:
    return f"<details><summary>{escape(title)}</summary>{body}</details>"
