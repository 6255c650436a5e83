"""The algebra of terms: `y ~ a + b*c - 1` as a response and products of factors, each a piece of text of its own.

    formula = sum "~" sum                   sum     = [sign] product (sign product)*
    product = cross (("*" | "/" | "%in%") cross)*   cross   = power (":" power)*
    power   = atom (("**" | "^") number)*   atom    = name | `name` | call(...) | {expression} | "." | 0 | 1 | "(" sum ")"

A sum is a set of terms and a word on the intercept: a*b is a + b + a:b, a/b is a + a:b, b %in% a is a + a:b, (a + b)**2
crosses two at a time; + 1 puts the intercept in, - 1 and + 0 take it out (Wilkinson & Rogers 1973). Text between backquotes
is a name whatever it looks like: it is never a number, an operator or a function.
"""

import re
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field

from probreg.errors import DataError

HIGHEST_POWER = 5  # (a + b + ...)**5 crosses five variables at once; more is a slip, and costs exponentially
MOST_TERMS = 5_000  # of a formula's products; a sum of columns may have as many as MOST_COLUMNS
MOST_COLUMNS = 20_000
DEEPEST = 50  # brackets within brackets
_SHOWN = 120  # letters of a formula or term that a message repeats

NAME = r"`((?:[^`\\]|\\.)*)`"
_STRING = r""""(?:\\.|[^"\\])*"|'(?:\\.|[^'\\])*'"""
_TOKEN = re.compile(
    rf"(?P<space>\s+)|(?P<quoted>{NAME})|(?P<word>[\w.]+)|(?P<text>{_STRING})|(?P<sign>%in%|\*\*|\|\||[-~|+*^/:()]|(?P<brace>\{{))",
    re.DOTALL,
)
_INSIDE = re.compile(rf"{NAME}|{_STRING}|(?P<open>[(\[{{])|(?P<close>[)\]}}])", re.DOTALL)
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


@dataclass(frozen=True)
class Factor:
    """A piece of a term: the name of a column, or an expression that the grammar has yet to check."""

    text: str
    is_name: bool


Term = tuple[Factor, ...]


@dataclass(frozen=True)
class Terms:
    """A set of terms in order of appearance, by their factors in any order, and what is said of the intercept."""

    terms: dict[frozenset[Factor], Term] = field(default_factory=dict)
    one: bool | None = None

    def add(self, other: "Terms") -> "Terms":
        new = {k: t for k, t in other.terms.items() if k not in self.terms}
        return Terms({**self.terms, **new}, self.one if other.one is None else other.one)


@dataclass(frozen=True)
class Sides:
    """A formula taken apart: the text of its response, its terms by degree, and whether it has an intercept."""

    left: Terms
    terms: tuple[Term, ...]
    intercept: bool


def quoted(name: str) -> str:
    r"""A name between backquotes; a backquote in it is written \` and a backslash \\.

    >>> print(quoted("dose (mg)"), quoted("a`b"))
    `dose (mg)` `a\`b`
    """
    return "`" + name.replace("\\", "\\\\").replace("`", "\\`") + "`"


def unquoted(inside: str) -> str:
    r"""What stands between two backquotes as the name it means; a backslash before another letter is itself.

    >>> unquoted(quoted("a`b\\")[1:-1])
    'a`b\\'
    """
    return re.sub(r"\\([`\\])", r"\1", inside)


def shown_formula(text: str) -> str:
    """A formula as messages repeat it: its beginning, where it is long."""
    return repr(text) if len(text) <= _SHOWN else f"{text[:_SHOWN]!r} ... ({len(text)} letters)"


def formula_tokens(text: str) -> list[FormulaToken]:
    """The formula cut into names, calls, numbers and signs. DataError for brackets or quotes that are not closed, for
    letters that are no part of a formula, and for brackets too deep in one another."""
    if not isinstance(text, str):
        raise DataError(f"a formula is a text such as 'y ~ x'; got {type(text).__name__}")
    out = list(_cut(text))
    deepest, depth = 0, 0
    for token in out:
        depth += (token.kind == "(") - (token.kind == ")")
        deepest = max(deepest, depth)
    refuse_deep(deepest, text)
    return [*out, FormulaToken("end", "", len(text), len(text))]


def refuse_deep(met: int, text: str) -> None:
    """DataError for brackets within brackets beyond what is read."""
    if met > DEEPEST:
        raise DataError(f"the formula {shown_formula(text)} has brackets {met} deep; at most {DEEPEST} are read")


def _cut(text: str) -> Iterator[FormulaToken]:
    place = 0
    while place < len(text):
        if (found := _TOKEN.match(text, place)) is None:
            letter = text[place]
            why = (
                "is not closed"
                if letter in "`'\""
                else "is no part of a formula; a column of such a name is written `name`"
            )
            raise _unread(text, f"{letter!r} at letter {place + 1} {why}")
        start, place = place, found.end()
        if found["space"]:
            continue
        if found["brace"]:
            place = _closed(text, start)
            yield FormulaToken("call", text[start + 1 : place - 1], start, place)
        elif found["quoted"]:
            yield FormulaToken("name", unquoted(found[0][1:-1]), start, place)
        elif found["word"] and place < len(text) and text[place] in "([" and not _NUMBER.fullmatch(found[0]):
            place = _closed(text, place)
            yield FormulaToken("call", text[start:place], start, place)
        elif found["word"]:
            number = _NUMBER.fullmatch(found[0]) is not None
            yield FormulaToken("." if found[0] == "." else "number" if number else "name", found[0], start, place)
        elif found["text"]:
            yield FormulaToken("text", found[0], start, place)
        else:
            yield FormulaToken({"^": "**", "||": "|"}.get(found[0], found[0]), found[0], start, place)


def _closed(text: str, start: int) -> int:
    """The place behind the bracket that closes the one at `start`; texts and names in quotes are passed over."""
    waiting: list[str] = []
    for found in _INSIDE.finditer(text, start):
        if found["open"]:
            waiting.append(_PAIRS[found[0]])
            refuse_deep(len(waiting), text)
        elif found["close"] and found[0] != waiting.pop():
            raise _unread(text, f"{found[0]!r} at letter {found.start() + 1} closes no bracket")
        if found["close"] and not waiting:
            return found.end()
    raise _unread(text, f"the bracket at letter {start + 1} is not closed")


def sides(text: str, factor: Callable[[FormulaToken], Factor]) -> Sides:
    """Both sides of a formula; `factor` makes a factor of a name or a call."""
    cut = formula_tokens(text)
    if not any(token.kind == "~" for token in cut):
        raise DataError(f"the formula {shown_formula(text)} has no response; write 'response ~ terms'")
    reader = _Reader(text, cut, factor)
    if reader.kind == "~":
        raise DataError(f"the formula {shown_formula(text)} has no response; write 'response ~ terms'")
    left = reader.sum()
    reader.expect("~", "one response stands before '~'")
    if reader.kind == "end":
        raise DataError(
            f"the formula {shown_formula(text)} has nothing on its right side; write 'y ~ 1' for an intercept alone"
        )
    right = reader.sum()
    reader.expect("end", "an operator such as + stands between two terms")
    by_degree = tuple(sorted(right.terms.values(), key=len))
    return Sides(left, by_degree, right.one is not False)


class _Reader:
    """Reads a sum of terms off the tokens, by descent; brackets are no deeper than DEEPEST."""

    def __init__(self, text: str, cut: list[FormulaToken], factor: Callable[[FormulaToken], Factor]) -> None:
        self.text, self.cut, self.place, self.factor = text, cut, 0, factor

    @property
    def kind(self) -> str:
        return self.cut[self.place].kind

    def expect(self, kind: str, why: str) -> None:
        if self.kind == "|":
            raise _divided(self.text, self.cut, self.place)
        if self.kind != kind:
            raise _unread(self.text, f"{self._met()}; {why}")
        self.place += 1

    def _met(self) -> str:
        token = self.cut[self.place]
        if token.kind == "end":
            return "it ends where a term is expected"
        return f"met {self.text[token.start : token.stop]!r} at letter {token.start + 1}"

    def _signs(self) -> bool | None:
        """Whether the signs that stand here say plus; None where there are none."""
        plus: bool | None = None
        while self.kind in ("+", "-"):
            plus = (plus is not False) == (self.kind == "+")
            self.place += 1
        return plus

    def sum(self) -> Terms:
        terms: dict[frozenset[Factor], Term] = {}
        one: bool | None = None
        plus: bool | None = self._signs() is not False
        while plus is not None:
            part = self.product()
            for key, term in part.terms.items():
                terms.setdefault(key, term) if plus else terms.pop(key, None)
            one = one if part.one is None else part.one is plus
            self._refuse_many(len(terms), MOST_COLUMNS)
            plus = self._signs()
        return Terms(terms, one)

    def product(self) -> Terms:
        found = self.cross()
        while (sign := self.kind) in ("*", "/", "%in%"):
            self.place += 1
            other = self.cross()
            if sign == "*":
                found = found.add(other).add(self._crossed(found, other))
            else:  # a/b: b within each combination of a
                outer, inner = (found, other) if sign == "/" else (other, found)
                found = outer.add(self._crossed(self._all(outer), inner))
        return found

    def cross(self) -> Terms:
        found = self.power()
        while self.kind == ":":
            self.place += 1
            found = self._crossed(found, self.power())
        return found

    def power(self) -> Terms:
        found = self.atom()
        while self.kind == "**":
            self.place += 1
            token = self.cut[self.place]
            self.place += 1
            if token.kind != "number" or not token.text.isdigit() or not int(token.text[:9]):
                raise _unread(self.text, "a power of terms is a whole number, as in (a + b)**2; of a number, I(x**2)")
            if len(token.text) > 9 or int(token.text) > HIGHEST_POWER:
                raise DataError(
                    f"{shown_formula(self.text)} crosses variables up to the power {token.text[:20]}; at most {HIGHEST_POWER} is taken. "
                    "For a power of a number write I(x**2) or poly(x, 2)"
                )
            base = found
            for _ in range(int(token.text) - 1):
                found = self._crossed(found, base)
        return found

    def atom(self) -> Terms:
        token = self.cut[self.place]
        self.place += 1
        match token.kind:
            case "name" | "call":
                made = self.factor(token)
                return Terms({frozenset((made,)): (made,)})
            case "number" if float(token.text) in (0.0, 1.0):
                return Terms(one=float(token.text) == 1.0)
            case "number":
                raise DataError(
                    f"the number {token.text} is no term of {shown_formula(self.text)}; only 0 and 1 are, for the intercept. "
                    f"A column of that name is written {quoted(token.text)}, twice a column I(2 * x)"
                )
            case "text":
                raise DataError(
                    f"the text {token.text} is no term of {shown_formula(self.text)}; a column is written `name`"
                )
            case "(":
                inside = self.sum()
                self.expect(")", "a bracket is closed by ')'")
                return inside
        self.place -= 1
        if token.kind == "|":
            raise _divided(self.text, self.cut, self.place)
        raise _unread(self.text, f"{self._met()}; a term is expected there")

    def _crossed(self, a: Terms, b: Terms) -> Terms:
        """Every term of a with every term of b."""
        if a.one is not None or b.one is not None:
            raise DataError(
                f"a product of {shown_formula(self.text)} has a number in it; write I(2 * x), so that the column says so, and the "
                "0 or 1 of the intercept as a term by itself"
            )
        out: dict[frozenset[Factor], Term] = {}
        for first in a.terms.values():
            for second in b.terms.values():
                term = (*first, *(f for f in second if f not in first))
                out.setdefault(frozenset(term), term)
            self._refuse_many(len(out), MOST_TERMS)
        return Terms(out)

    def _all(self, terms: Terms) -> Terms:
        """The product of all terms."""
        every = tuple(dict.fromkeys(f for term in terms.terms.values() for f in term))
        return Terms({frozenset(every): every}, terms.one) if every else terms

    def _refuse_many(self, met: int, most: int) -> None:
        if met > most:
            what = "products of columns" if most == MOST_TERMS else "terms"
            raise DataError(
                f"the formula {shown_formula(self.text)} stands for {met} {what} or more; at most {most} are taken"
            )


def _divided(text: str, cut: list[FormulaToken], at: int) -> DataError:
    """The error for `|`: within brackets it means effects that vary by a group, which no model here has."""
    start = stop = at
    while start and cut[start - 1].kind not in ("(", "~"):
        start -= 1
    while cut[stop + 1].kind not in (")", "+", "-", "end"):
        stop += 1
    what, group = text[cut[start].start : cut[at].start].strip(), text[cut[at].stop : cut[stop].stop].strip()
    if not what or not group or (cut[start - 1].kind != "(" and what != "1"):
        return DataError(
            f"the formula {shown_formula(text)} has parts divided by '|', which no model here takes; use + between terms"
        )
    if what == "1":
        return DataError(
            f"(1 | {group}) is a varying intercept by {group} (a multilevel model), which is not available; "
            f"`C({group})` gives one free coefficient per level"
        )
    return DataError(
        f"({what} | {group}) is effects of {what} that vary by {group} (a multilevel model), which are not available; "
        f"`({what})*C({group})` gives free ones per level"
    )


def _unread(text: str, why: str) -> DataError:
    return DataError(f"the formula {shown_formula(text)} cannot be read: {why}")
