"""Text for a terminal, with control characters in names of columns and levels made harmless.

Names come from data. An escape sequence in a name could clear the screen or hide a line, and a line break could forge a line.
All printed text is assembled here line by line, with control characters written as escapes.
"""

import unicodedata
from collections.abc import Iterable, Sequence
from itertools import accumulate

from rich.cells import cell_len, chop_cells

WIDTH = 110  # width of printed text in characters

_HIDDEN = {
    "Cc",
    "Cs",
    "Zl",
    "Zp",
}  # control characters, surrogates, line and paragraph separators
_TURNING = set(
    "\u202a\u202b\u202c\u202d\u202e\u2066\u2067\u2068\u2069"
)  # they change the direction of the text


def visible(text: str) -> str:
    r"""Return text as one line, with every control character written as an escape.

    >>> print(visible("a\x1b[31mb\nc é"))
    a\x1b[31mb\nc é
    """
    if text.isprintable():
        return text
    obeyed = (unicodedata.category(c) in _HIDDEN or c in _TURNING for c in text)
    return "".join(
        c.encode("unicode_escape").decode("ascii") if yes else c
        for c, yes in zip(text, obeyed)
    )


def clean_lines(*lines: str) -> str:
    r"""Join lines into one text; escape control characters and wrap at WIDTH.

    >>> clean_lines("head", "a\tb")
    'head\na\\tb'
    """
    return "\n".join([part for line in lines for part in wrap_line(visible(line))])


def wrap_line(line: str, width: int = WIDTH) -> list[str]:
    """Wrap a line to at most `width` columns, with continuation lines indented.

    >>> wrap_line("  one two three", 12)
    ['  one two', '      three']
    """
    if cell_len(line) <= width:
        return [line]
    indent = line[: len(line) - len(line.lstrip(" "))]
    lines = [""]
    for word in line.removeprefix(indent).split(" "):
        for part in chop_cells(word, width - len(indent) - 4) or [""]:
            longer = f"{lines[-1]} {part}" if lines[-1] else f"{indent}{part}"
            if cell_len(longer) <= width:
                lines[-1] = longer
            else:
                lines.append(f"{indent}    {part}")
    return [part.rstrip() for part in lines]


def cut_middle(text: str, width: int) -> str:
    """Shorten text to at most `width` cells, keeping both ends.

    >>> cut_middle("occupation[T.clerk]", 11), cut_middle("short", 11)
    ('occup…lerk]', 'short')
    """
    if cell_len(text) <= width:
        return text
    head = text[:width]
    tail = text[-width:]
    while cell_len(head) + cell_len(tail) >= width:
        if cell_len(head) < cell_len(tail):
            tail = tail[1:]
        else:
            head = head[:-1]
    return f"{head}…{tail}"


def truncate_lines(lines: Sequence[str], attribute: str, limit: int = 25) -> list[str]:
    """Keep `limit` printed lines, and end with a line that gives the number of the others and how to see them.

    >>> truncate_lines(["a", "b", "c", "d"], ".table", limit=3)
    ['a', 'b', '… 2 more in .table']
    """
    ends = list(accumulate(len(wrap_line(visible(line))) for line in lines))
    if not ends or ends[-1] <= limit:
        return list(lines)
    n_lines = max(sum(end < limit for end in ends), 1)
    if n_lines < len(lines):
        return [*lines[:n_lines], f"… {len(lines) - n_lines} more in {attribute}"]
    return list(lines)


def cut_text(text: str, limit: int = 160) -> str:
    """Cut text at the last comma or semicolon before `limit` characters, and mark the cut.

    >>> cut_text("columns a, b, c and d", 14), cut_text("short")
    ('columns a, b, …', 'short')
    """
    if len(text) <= limit:
        return text
    end = max(text.rfind(sign, 0, limit) for sign in (", ", "; "))
    return f"{text[: end + 1] if end > 0 else text[:limit]} …"


def percent(share: float, digits: int = 3) -> str:
    """Format a share in percent with this number of digits; a share below 1 is never written as 100 %.

    >>> percent(0.2514), percent(1.0), percent(0.99999), percent(4e-7), percent(1.5)
    ('25.1 %', '100 %', 'over 99.9 %', '4e-05 %', '150 %')
    """
    if share < 1.0 and float(f"{100.0 * share:.{digits}g}") >= 100.0:
        return f"over {100.0 - 10.0 ** (2 - digits):g} %"
    if share >= 1.0:
        return f"{100.0 * share:.0f} %"
    return f"{100.0 * share:.{digits}g} %"


def format_probability(p: float) -> str:
    """Format a probability to three places, never as 0 or 1, which draws cannot distinguish; "" for nan.

    >>> format_probability(0.9995), format_probability(0.5), format_probability(0.0), format_probability(float("nan"))
    ('>0.999', '0.500', '<0.001', '')
    """
    text = "" if p != p else f"{p:.3f}"
    return {"1.000": ">0.999", "0.000": "<0.001"}.get(text, text)


def format_number(value: float, digits: int = 5) -> str:
    """Format a number to this number of significant digits; integer digits are kept, and from 10^15 on it uses powers of ten.

    >>> format_number(84925.04), format_number(124859.18), format_number(99999.7), format_number(0.0123456), format_number(-62419.6, 3)
    ('84925', '124859', '100000', '0.012346', '-62420')
    """
    if 10.0**digits - 0.5 <= abs(value) < 1e15:
        return f"{value:.0f}"
    return f"{value:.{digits}g}"


def format_p(p: float) -> str:
    """Format a p-value to two digits; only exactly 1 is written as 1, and values below 1e-15 as a bound.

    >>> format_p(0.0123), format_p(0.998), format_p(1.0), format_p(0.0), format_p(3e-40)
    ('p = 0.012', 'p > 0.99', 'p = 1', 'p < 1e-15', 'p < 1e-15')
    """
    if p < 1e-15:
        return "p < 1e-15"
    return "p > 0.99" if 0.995 <= p < 1.0 else f"p = {p:.2g}"


def few_names(names: Sequence[object]) -> str:
    """List names in a sentence; of more than twelve only the first five.

    >>> few_names("ab"), few_names([f"x{j}" for j in range(40)])
    ('a, b', 'x0, x1, x2, x3, x4 and 35 more')
    """
    if len(names) <= 12:
        return ", ".join(map(str, names))
    return f"{few_names(names[:5])} and {len(names) - 5} more"


def shorten_names(names: Iterable[str], limit: int = 8) -> str:
    """Return names as a list in a sentence, of many names the first.

    >>> shorten_names(["x", "z"]), shorten_names(f"x{j}" for j in range(10))
    ('x, z', 'x0, x1, x2, x3, x4, x5, x6, x7 and 2 more')
    """
    listed = list(names)
    omitted = len(listed) - limit
    return ", ".join(listed[:limit]) + (f" and {omitted} more" if omitted > 0 else "")
