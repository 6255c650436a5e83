"""Text for a terminal: names of columns and levels come from data, and may hold what a terminal obeys.

An escape sequence in a name could clear the screen or hide a line, and a line break forge one. Whatever is printed is put
together here, line by line, and such characters are written out.
"""

import unicodedata
from collections.abc import Sequence
from typing import Any

_HIDDEN = {"Cc", "Cs", "Zl", "Zp"}  # controls, halves of characters, line and paragraph separators
_TURNING = set("\u202a\u202b\u202c\u202d\u202e\u2066\u2067\u2068\u2069")  # they reverse what follows


def visible(text: str) -> str:
    r"""One line of text with every character that a terminal would obey written out.

    >>> print(visible("a\x1b[31mb\nc é"))
    a\x1b[31mb\nc é
    """
    if text.isprintable():
        return text
    obeyed = (unicodedata.category(c) in _HIDDEN or c in _TURNING for c in text)
    return "".join(c.encode("unicode_escape").decode("ascii") if yes else c for c, yes in zip(text, obeyed))


def printed(*lines: str) -> str:
    r"""Lines as one text, each made visible: only between them is a line break.

    >>> printed("head", "a\tb")
    'head\na\\tb'
    """
    return "\n".join(map(visible, lines))


def table_lines(table: Any, **how: Any) -> list[str]:
    r"""The lines of a pandas table; pandas itself writes out the line breaks that are in its cells.

    >>> import pandas as pd
    >>> [line.split() for line in table_lines(pd.DataFrame({"x\ny": [1.0]}, index=["a\nb"]))]
    [['x\\ny'], ['a\\nb', '1.0']]
    """
    return str(table.to_string(**how)).split("\n")


def folded(lines: Sequence[str], rest: str, most: int = 25) -> list[str]:
    """The first of many lines, and one that says how many more there are and how to see them.

    >>> folded(["a", "b", "c", "d"], ".table", most=3)
    ['a', 'b', '… 2 more in .table']
    """
    if len(lines) <= most:
        return list(lines)
    return [*lines[: most - 1], f"… {len(lines) - most + 1} more in {rest}"]


def cut_text(text: str, most: int = 160) -> str:
    """Text up to the last comma or semicolon before `most` characters, and that there is more.

    >>> cut_text("columns a, b, c and d", 14), cut_text("short")
    ('columns a, b, …', 'short')
    """
    if len(text) <= most:
        return text
    end = max(text.rfind(sign, 0, most) for sign in (", ", "; "))
    return f"{text[: end + 1] if end > 0 else text[:most]} …"


def percent(share: float, digits: int = 3) -> str:
    """A share in percent, to so many digits; what is short of the whole is never written 100 %.

    >>> percent(0.2514), percent(1.0), percent(0.99999), percent(4e-7), percent(1.5)
    ('25.1 %', '100 %', 'over 99.9 %', '4e-05 %', '150 %')
    """
    if share < 1.0 and float(f"{100.0 * share:.{digits}g}") >= 100.0:
        return f"over {100.0 - 10.0 ** (2 - digits):g} %"
    return f"{100.0 * share:.0f} %" if share >= 1.0 else f"{100.0 * share:.{digits}g} %"


def probability_said(p: float) -> str:
    """A probability to three places, and never as 0 or 1, which draws cannot tell; nothing where it is not known.

    >>> probability_said(0.9995), probability_said(0.5), probability_said(0.0), probability_said(float("nan"))
    ('>0.999', '0.500', '<0.001', '')
    """
    text = "" if p != p else f"{p:.3f}"
    return {"1.000": ">0.999", "0.000": "<0.001"}.get(text, text)


def p_said(p: float) -> str:
    """A p-value to two digits; what is neither 0 nor 1 is written as neither, and no double tells one below 1e-15 from 0.

    >>> p_said(0.0123), p_said(0.998), p_said(1.0), p_said(0.0), p_said(3e-40)
    ('p = 0.012', 'p > 0.99', 'p = 1', 'p < 1e-15', 'p = 3e-40')
    """
    if p == 0.0:
        return "p < 1e-15"
    return "p > 0.99" if 0.995 <= p < 1.0 else f"p = {p:.2g}"
