"""A formula cut into names, calls, numbers and signs, and which of its brackets hold a bar."""

import re
from collections.abc import Sequence
from dataclasses import dataclass

from probreg.data.formula.grammar import NAME, STRING, shown_formula, unquote_name
from probreg.errors import DataError

DEEPEST = 50  # brackets within brackets

_TOKEN = re.compile(
    rf"(?P<space>\s+)|(?P<quoted>{NAME})|(?P<word>[\w.]+)|(?P<text>{STRING})|(?P<sign>%in%|\*\*|\|\||[-~|+*^/:()]|(?P<brace>\{{))",
    re.DOTALL,
)
_INSIDE = re.compile(
    rf"{NAME}|{STRING}|(?P<open>[(\[{{])|(?P<close>[)\]}}])", re.DOTALL
)
_NUMBER = re.compile(r"[0-9]+\.?[0-9]*|\.[0-9]+")
_PAIRS = {"(": ")", "[": "]", "{": "}"}


@dataclass(frozen=True)
class FormulaToken:
    """kind is "name" (text: the name itself), "call", "number", "text", "end" or the sign; start and stop are places in the
    formula."""

    kind: str
    text: str
    start: int
    stop: int


def formula_tokens(text: str) -> list[FormulaToken]:
    """The formula cut into names, calls, numbers and signs. DataError for brackets or quotes that are not closed, for
    letters that are no part of a formula, and for brackets too deep in one another."""
    if not isinstance(text, str):
        raise DataError(
            f"a formula is a text such as 'y ~ x'; got {type(text).__name__}"
        )
    out = list[FormulaToken]()
    place = 0
    depth = 0
    deepest = 0
    while place < len(text):
        token = _token(text, place)
        place = token.stop
        depth += (token.kind == "(") - (token.kind == ")")
        deepest = max(deepest, depth)
        if token.kind != "space":
            out.append(token)
    _refuse_brackets(deepest, text)
    return [*out, FormulaToken("end", "", len(text), len(text))]


def _token(text: str, start: int) -> FormulaToken:
    """The token that starts here; a call reaches to the bracket that closes it."""
    found = _TOKEN.match(text, start)
    if found is None:
        letter = text[start]
        no_part = "is no part of a formula; a column of such a name is written `name`"
        raise unread(
            text,
            f"{letter!r} at letter {start + 1} {'is not closed' if letter in '`\'"' else no_part}",
        )
    met = found[0]
    stop = found.end()
    if found["brace"]:
        stop = _find_closing_bracket(text, start)
        return FormulaToken("call", text[start + 1 : stop - 1], start, stop)
    if found["quoted"]:
        return FormulaToken("name", unquote_name(met[1:-1]), start, stop)
    if found["word"]:
        number = _NUMBER.fullmatch(met) is not None
        if not number and text[stop : stop + 1] in ("(", "["):
            stop = _find_closing_bracket(text, stop)
            return FormulaToken("call", text[start:stop], start, stop)
        return FormulaToken(
            "." if met == "." else "number" if number else "name", met, start, stop
        )
    if found["space"]:
        kind = "space"
    elif found["text"]:
        kind = "text"
    else:
        kind = {"^": "**", "||": "|"}.get(met, met)
    return FormulaToken(kind, met, start, stop)


def _find_closing_bracket(text: str, start: int) -> int:
    """Return the position after the bracket that closes the one at `start`; quoted texts and names are skipped."""
    waiting: list[str] = []
    for found in _INSIDE.finditer(text, start):
        if found["open"]:
            waiting.append(_PAIRS[found[0]])
            _refuse_brackets(len(waiting), text)
        elif found["close"] and found[0] != waiting.pop():
            raise unread(
                text, f"{found[0]!r} at letter {found.start() + 1} closes no bracket"
            )
        if found["close"] and not waiting:
            return found.end()
    raise unread(text, f"the bracket at letter {start + 1} is not closed")


def _refuse_brackets(met: int, text: str) -> None:
    if met > DEEPEST:
        raise DataError(
            f"the formula {shown_formula(text)} has brackets {met} deep; at most {DEEPEST} are read"
        )


def unread(text: str, why: str) -> DataError:
    """The error for a formula that does not follow the grammar."""
    return DataError(f"the formula {shown_formula(text)} cannot be read: {why}")


def bars_in(cut: Sequence[FormulaToken], text: str) -> dict[int, tuple[int, int]]:
    """The brackets that hold a bar: by the number of the token that opens, those of its bar and of the one that closes.
    DataError for two bars in one bracket.

    >>> bars_in(formula_tokens("y ~ x + (x | g)"), "y ~ x + (x | g)")
    {4: (6, 8)}
    """
    out = dict[int, tuple[int, int]]()
    opened = list[int]()
    bars = dict[int, int]()
    for i, token in enumerate(cut):
        if token.kind == "(":
            opened.append(i)
        elif token.kind == "|" and opened:
            if opened[-1] in bars:
                raise unread(
                    text,
                    f"met a second '|' in one bracket at letter {token.start + 1}; a bar has two sides",
                )
            bars[opened[-1]] = i
        elif token.kind == ")" and opened and (start := opened.pop()) in bars:
            out[start] = bars[start], i
    return out


def refuse_dots_in_bars(cut: Sequence[FormulaToken], text: str) -> None:
    """DataError for `.` on either side of a bar."""
    for start, (_, stop) in bars_in(cut, text).items():
        if any(token.kind == "." for token in cut[start:stop]):
            piece = text[cut[start].start : cut[stop].stop]
            raise DataError(
                f"{piece} has '.' within it; name the columns that vary, and those of the groups"
            )


def grouping_columns(text: str) -> tuple[str, ...]:
    """The names that stand behind the bars of a formula."""
    cut = formula_tokens(text)
    spans = bars_in(cut, text).values()
    return tuple(
        dict.fromkeys(
            t.text for bar, stop in spans for t in cut[bar:stop] if t.kind == "name"
        )
    )


def groupings(
    tokens: Sequence[FormulaToken], piece: str, text: str
) -> list[tuple[str, ...]]:
    """The groups behind a bar, each by the columns whose combinations they are: g / h stands for g and g:h.

    >>> groupings(formula_tokens("a / b:c")[:-1], "(1 | a / b:c)", "y ~ (1 | a / b:c)")
    [('a',), ('a', 'b', 'c')]
    """
    out = list[tuple[str, ...]]()
    names = tuple[str, ...]()
    for i, token in enumerate(tokens):
        if i % 2 == 0 and token.kind == "name":
            if token.text in names:
                raise DataError(
                    f"column {token.text!r} stands twice behind the bar of {piece}; once is enough"
                )
            names = (*names, token.text)
        elif i % 2 == 0 or token.kind not in (":", "/"):
            raise _no_groups(token, i % 2 == 0, piece, text)
        elif token.kind == "/":
            out.append(names)
    if len(tokens) % 2 == 0:
        raise DataError(
            f"{piece} ends where a column is expected; behind a bar stand columns joined by ':' or '/'"
        )
    return [*out, names]


def _no_groups(token: FormulaToken, first: bool, piece: str, text: str) -> DataError:
    met = text[token.start : token.stop]
    if first and token.kind == "call":
        return DataError(
            f"{piece} has the expression {met!r} behind its bar; make it a column of the data and name that"
        )
    if not first and token.kind in ("+", "*"):
        return DataError(
            f"{piece} has {met!r} behind its bar; write a term for each grouping column, as in (1 | g) + (1 | h)"
        )
    return DataError(
        f"{piece} has {met!r} behind its bar, where columns stand, joined by ':' or '/'"
    )
