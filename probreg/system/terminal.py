"""Text for a terminal: names of columns and levels come from data, and may hold what a terminal obeys.

An escape sequence in a name could clear the screen or hide a line, and a line break forge one. Whatever is printed is put
together here, line by line, and such characters are written out.
"""

import textwrap
import unicodedata
from collections.abc import Callable, Iterable, Sequence
from itertools import accumulate
from typing import Any

from probreg.system.cell_widths import (
    StandIns,
    cells_of,
    first_cells,
    last_cells,
    with_fillers,
    without_fillers,
)

WIDTH = 110  # columns of a print
_LABEL = 24  # columns that are left at least to the labels of a table, and to words in its cells

_HIDDEN = {
    "Cc",
    "Cs",
    "Zl",
    "Zp",
}  # controls, halves of characters, line and paragraph separators
_TURNING = set(
    "\u202a\u202b\u202c\u202d\u202e\u2066\u2067\u2068\u2069"
)  # they reverse what follows


def visible(text: str) -> str:
    r"""One line of text with every character that a terminal would obey written out.

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
    return "\n".join(part for line in lines for part in wrap_line(visible(line)))


def wrap_line(line: str, width: int = WIDTH) -> list[str]:
    """Wrap a line to at most `width` columns, with continuation lines indented.

    >>> wrap_line("  one two three", 12)
    ['  one two', '      three']
    """
    if cells_of(line) <= width:
        return [line]
    start = line[: len(line) - len(line.lstrip(" "))]
    parts = textwrap.wrap(
        with_fillers(line),
        width,
        subsequent_indent=f"{start}    ",
        break_on_hyphens=False,
    )
    return [without_fillers(part) for part in parts]


def cut_middle(text: str, most: int) -> str:
    """Text of at most so many cells, both ends of a longer one kept.

    >>> cut_middle("occupation[T.clerk]", 11), cut_middle("short", 11)
    ('occup…lerk]', 'short')
    """
    if cells_of(text) <= most:
        return text
    last = (most - 1) // 2
    return f"{first_cells(text, most - 1 - last)}…{last_cells(text, last)}"


def cut_apart(texts: Iterable[str], most: int) -> dict[str, str]:
    """Each text of at most so many letters, so that no two become one: of those alike at both ends the part that differs is kept.

    >>> cut_apart(["price of lot 1, in thousands", "price of lot 2, in thousands"], 14)
    {'price of lot 1, in thousands': 'pri…lot 1, in…', 'price of lot 2, in thousands': 'pri…lot 2, in…'}
    """
    cut = {text: cut_middle(text, most) for text in dict.fromkeys(texts)}
    alike: dict[str, list[str]] = {}
    for text, short in cut.items():
        alike.setdefault(short, []).append(text)
    for group in (each for each in alike.values() if len(each) > 1):
        apart = next(
            (i for i, letters in enumerate(zip(*group)) if len(set(letters)) > 1),
            min(map(len, group)),
        )
        start = max(apart - most // 3, 0)
        head = group[0][: most // 4]
        head = first_cells(head, most // 4)
        cut |= {
            text: f"{head}…{first_cells(text[start:], most - cells_of(head) - 2)}…"
            for text in group
        }
    if len(set(cut.values())) < len(
        cut
    ):  # a number tells apart what so few letters do not
        cut |= {
            text: f"{first_cells(short, most - 5)}… {i}"
            for i, (text, short) in enumerate(cut.items())
            if short != text
        }
    return cut


def table_lines(table: Any, **how: Any) -> list[str]:
    r"""The lines of a pandas table, none longer than WIDTH: long labels and words are cut in the middle, and columns that have
    no room beside the others stand below them. Pandas itself writes out the line breaks that are in its cells.

    >>> import pandas as pd
    >>> [line.split() for line in table_lines(pd.DataFrame({"x\ny": [1.0]}, index=["a\nb"]))]
    [['x\\ny'], ['a\\nb', '1.0']]
    """
    lines = _table_rows(table, how)
    over = max(map(cells_of, lines)) - WIDTH
    if over <= 0:
        return lines
    # the longest words give way first, no further than _LABEL
    longest = max(map(cells_of, _words_of(table)), default=0)
    for most in sorted({max(longest - over, _LABEL), _LABEL}, reverse=True):
        lines = _table_rows(_cut_table(table, most), how)
        if max(map(cells_of, lines)) <= WIDTH:
            return lines
    return _table_rows(_cut_table(table, _LABEL), how | {"line_width": WIDTH})


def _table_rows(table: Any, how: dict[str, Any]) -> list[str]:
    if all(map(str.isascii, _words_of(table))):
        return [line.rstrip() for line in visible_lines(str(table.to_string(**how)))]
    names = StandIns()  # pandas pads by characters
    short = _with_words(
        table,
        lambda values: [
            names.stand_in(visible(v)) if isinstance(v, str) else v for v in values
        ],
    )
    return [
        names.back(line).rstrip() for line in visible_lines(str(short.to_string(**how)))
    ]


def visible_lines(text: str) -> list[str]:
    """The lines of a text, each made visible."""
    return list(map(visible, text.split("\n")))


def _is_text(values: Any) -> bool:
    return values.dtype.kind in "OUST" or values.dtype.name in (
        "str",
        "string",
        "category",
    )


def _words_of(table: Any) -> list[str]:
    """The labels of a table and the texts in its cells."""
    labels = [
        str(v)
        for axis in (table.index, table.columns)
        for i in range(axis.nlevels)
        for v in axis.get_level_values(i)
    ]
    return labels + [
        str(v)
        for name in range(table.shape[1])
        if _is_text(table.iloc[:, name])
        for v in table.iloc[:, name]
    ]


def _cut_table(table: Any, most: int) -> Any:
    """Cut each label and text of the table to at most so many cells."""
    return _with_words(table, lambda values: _shorten_values(values, most))


def _with_words(table: Any, changed: Callable[[Iterable[Any]], list[Any]]) -> Any:
    """The table with the labels and texts of an axis or a column changed together."""
    out = table.copy()
    for i in range(table.shape[1]):
        if _is_text(table.iloc[:, i]):
            out.isetitem(i, changed(table.iloc[:, i].astype(object)))
    for axis in ("index", "columns"):
        of = getattr(table, axis)
        each = [changed(of.get_level_values(i)) for i in range(of.nlevels)]
        if any(isinstance(v, str) for values in each for v in values):
            if of.nlevels > 1:
                made = type(of).from_arrays(each, names=of.names)
            else:
                made = type(of)(each[0], name=of.name)
            setattr(out, axis, made)
    return out


def _shorten_values(values: Iterable[Any], most: int) -> list[Any]:
    found = list(values)
    short = cut_apart((visible(v) for v in found if isinstance(v, str)), most)
    return [short[visible(v)] if isinstance(v, str) else v for v in found]


def truncate_lines(lines: Sequence[str], rest: str, most: int = 25) -> list[str]:
    """Keep `most` printed lines, and end with a line that gives the number of the others and how to see them.

    >>> truncate_lines(["a", "b", "c", "d"], ".table", most=3)
    ['a', 'b', '… 2 more in .table']
    """
    ends = list(accumulate(len(wrap_line(visible(line))) for line in lines))
    if not ends or ends[-1] <= most:
        return list(lines)
    kept = max(sum(end < most for end in ends), 1)
    if kept < len(lines):
        return [*lines[:kept], f"… {len(lines) - kept} more in {rest}"]
    return list(lines)


def truncate_table(table: Any, rest: str, most: int = 25, **how: Any) -> list[str]:
    """The lines of a table, of many rows the first, and one that says how many more there are and how to see them.

    >>> import pandas as pd
    >>> truncate_table(pd.DataFrame({"x": [1, 2, 3, 4]}), ".table", most=4, index=False)
    [' x', ' 1', ' 2', '… 2 more in .table']
    """
    lines = table_lines(table, **how)
    if len(lines) <= most:
        return lines
    times = -(
        -len(lines) // (len(table) + 2)
    )  # more than one where columns stand below one another
    kept = max(most // times - 2, 1)
    return [
        *table_lines(table.head(kept), **how),
        f"… {len(table) - kept} more in {rest}",
    ]


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
    if share >= 1.0:
        return f"{100.0 * share:.0f} %"
    return f"{100.0 * share:.{digits}g} %"


def format_probability(p: float) -> str:
    """A probability to three places, and never as 0 or 1, which draws cannot tell; nothing where it is not known.

    >>> format_probability(0.9995), format_probability(0.5), format_probability(0.0), format_probability(float("nan"))
    ('>0.999', '0.500', '<0.001', '')
    """
    text = "" if p != p else f"{p:.3f}"
    return {"1.000": ">0.999", "0.000": "<0.001"}.get(text, text)


def format_number(value: float, digits: int = 5) -> str:
    """A number to so many significant digits, all of those before its point kept: in powers of ten from 10^15 on only.

    >>> format_number(84925.04), format_number(124859.18), format_number(99999.7), format_number(0.0123456), format_number(-62419.6, 3)
    ('84925', '124859', '100000', '0.012346', '-62420')
    """
    if 10.0**digits - 0.5 <= abs(value) < 1e15:
        return f"{value:.0f}"
    return f"{value:.{digits}g}"


def format_p(p: float) -> str:
    """A p-value to two digits; what is neither 0 nor 1 is written as neither, and below 1e-15 digits of it mean nothing.

    >>> format_p(0.0123), format_p(0.998), format_p(1.0), format_p(0.0), format_p(3e-40)
    ('p = 0.012', 'p > 0.99', 'p = 1', 'p < 1e-15', 'p < 1e-15')
    """
    if p < 1e-15:
        return "p < 1e-15"
    return "p > 0.99" if 0.995 <= p < 1.0 else f"p = {p:.2g}"


def few_names(names: Sequence[str]) -> str:
    """Names in a sentence, of more than twelve the first five.

    >>> few_names("ab"), few_names([f"x{j}" for j in range(40)])
    ('a, b', 'x0, x1, x2, x3, x4 and 35 more')
    """
    if len(names) <= 12:
        return ", ".join(names)
    return f"{', '.join(names[:5])} and {len(names) - 5} more"
