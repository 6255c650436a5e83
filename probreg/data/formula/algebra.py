"""The algebra of terms: `y ~ a + b*c - 1` as a response and products of factors, each an expression of its own.

    formula = sum "~" sum                   sum     = [sign] product (sign product)*
    product = cross (("*" | "/" | "%in%") cross)*   cross   = power (":" power)*
    power   = atom (("**" | "^") number)*   atom    = name | `name` | call(...) | {expression} | "." | 0 | 1 | "(" sum ")"

A sum is a set of terms and a word on the intercept: a*b is a + b + a:b, a/b is a + a:b, b %in% a is a + a:b, (a + b)**2
crosses two at a time; + 1 puts the intercept in, - 1 and + 0 take it out (Wilkinson & Rogers 1973). Text between backquotes
is a name whatever it looks like: it is never a number, an operator or a function. What stands within a call is read and
checked by `grammar`.
"""

import ast
import re
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Literal

from probreg.data.formula.grammar import (
    NAME,
    STRING,
    Expression,
    checked_expression,
    column_written,
    function_of,
    quoted,
    read_factor,
    shown_formula,
    unquoted,
)
from probreg.errors import DataError

HIGHEST_POWER = 5  # (a + b + ...)**5 crosses five variables at once; more is a slip, and costs exponentially
MOST_TERMS = 5_000  # of a formula's products; a sum of columns may have as many as MOST_COLUMNS
MOST_COLUMNS = 20_000
DEEPEST = 50  # brackets within brackets

Counted = Literal["p", "counts"]

_TOKEN = re.compile(
    rf"(?P<space>\s+)|(?P<quoted>{NAME})|(?P<word>[\w.]+)|(?P<text>{STRING})|(?P<sign>%in%|\*\*|\|\||[-~|+*^/:()]|(?P<brace>\{{))",
    re.DOTALL,
)
_INSIDE = re.compile(rf"{NAME}|{STRING}|(?P<open>[(\[{{])|(?P<close>[)\]}}])", re.DOTALL)
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
        raise DataError(f"a formula is a text such as 'y ~ x'; got {type(text).__name__}")
    out, place, depth, deepest = list[FormulaToken](), 0, 0, 0
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
    if (found := _TOKEN.match(text, start)) is None:
        letter = text[start]
        no_part = "is no part of a formula; a column of such a name is written `name`"
        raise _unread(text, f"{letter!r} at letter {start + 1} {'is not closed' if letter in '`\'"' else no_part}")
    met, stop = found[0], found.end()
    if found["brace"]:
        stop = _closed(text, start)
        return FormulaToken("call", text[start + 1 : stop - 1], start, stop)
    if found["quoted"]:
        return FormulaToken("name", unquoted(met[1:-1]), start, stop)
    if found["word"]:
        number = _NUMBER.fullmatch(met) is not None
        if not number and text[stop : stop + 1] in ("(", "["):
            stop = _closed(text, stop)
            return FormulaToken("call", text[start:stop], start, stop)
        return FormulaToken("." if met == "." else "number" if number else "name", met, start, stop)
    kind = "space" if found["space"] else "text" if found["text"] else {"^": "**", "||": "|"}.get(met, met)
    return FormulaToken(kind, met, start, stop)


def _closed(text: str, start: int) -> int:
    """The place behind the bracket that closes the one at `start`; texts and names in quotes are passed over."""
    waiting: list[str] = []
    for found in _INSIDE.finditer(text, start):
        if found["open"]:
            waiting.append(_PAIRS[found[0]])
            _refuse_brackets(len(waiting), text)
        elif found["close"] and found[0] != waiting.pop():
            raise _unread(text, f"{found[0]!r} at letter {found.start() + 1} closes no bracket")
        if found["close"] and not waiting:
            return found.end()
    raise _unread(text, f"the bracket at letter {start + 1} is not closed")


def _refuse_brackets(met: int, text: str) -> None:
    if met > DEEPEST:
        raise DataError(f"the formula {shown_formula(text)} has brackets {met} deep; at most {DEEPEST} are read")


def _unread(text: str, why: str) -> DataError:
    """The error for a formula that does not follow the grammar."""
    return DataError(f"the formula {shown_formula(text)} cannot be read: {why}")


@dataclass(frozen=True)
class Factor:
    """A piece of a term: its expression, which is not checked yet, and the text it is filed under, which reads as it again."""

    key: str
    expression: Expression = field(compare=False)


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
class FormulaLayout:
    """A formula taken apart: the response (several expressions where a row counts), the terms by degree and their factors,
    each by the text it is filed under."""

    text: str
    response: str
    outcome: tuple[Expression, ...]
    terms: tuple[tuple[str, ...], ...]
    factors: Mapping[str, Expression]
    intercept: bool

    @property
    def counted(self) -> Counted | None:
        """ "p" for successes of trials, "counts" for counts by class, None for a response of one value per row."""
        if len(self.outcome) == 1:
            return None
        return "p" if self.response.lstrip().startswith("p") else "counts"

    @property
    def classes(self) -> tuple[str, ...] | None:
        """The names of the classes that are counted."""
        return tuple(e.column or e.text for e in self.outcome) if self.counted == "counts" else None

    @property
    def variables(self) -> tuple[str, ...]:
        """The columns the terms read, in order of appearance."""
        return tuple(dict.fromkeys(name for factor in self.factors.values() for name in factor.variables))

    def called(self, text: str) -> str:
        """A factor as users call it in the names of columns: the name of its column, or its expression."""
        name = self.factors[text].column
        return text if name is None else name


def parse_formula(text: str) -> FormulaLayout:
    """The parts of `response ~ terms`, every factor checked; DataError names the piece that cannot stand."""
    cut = formula_tokens(text)
    if not any(token.kind == "~" for token in cut) or cut[0].kind == "~":
        raise DataError(f"the formula {shown_formula(text)} has no response; write 'response ~ terms'")
    reader = _Reader(text, cut)
    left = reader.sum()
    reader.expect("~", "one response stands before '~'")
    if reader.kind == "end":
        raise DataError(
            f"the formula {shown_formula(text)} has nothing on its right side; write 'y ~ 1' for an intercept alone"
        )
    right = reader.sum()
    reader.expect("end", "an operator such as + stands between two terms")

    factors = [factor for term in left.terms.values() for factor in term]
    if len(left.terms) != 1 or len(factors) != 1 or left.one is not None:
        raise DataError(
            f"the left side of {shown_formula(text)} is {left_of(text).strip()!r}; one response stands there, "
            "such as y, log(y), {y1 - y2}, p(successes, trials) or counts(a, b, c)"
        )
    (response,) = factors
    outcome, column = _outcome(response.expression), response.expression.column
    name = response.key if column is None else column
    terms, intercept = sorted(right.terms.values(), key=len), right.one is not False
    used = {factor.key: factor.expression for term in terms for factor in term}
    if response.key in used:
        raise DataError(f"the response {name!r} is also a term of {shown_formula(text)}; leave it out on the right")
    for term in terms:
        if len(term) > 1 and (process := next((f for f in term if f.expression.process), None)):
            raise DataError(
                f"{process.key!r} is a Gaussian process and stands by itself in {shown_formula(text)}; one of x and z is gp(x, z)"
            )
        if len(term) > 1 and (smooth := next((f for f in term if f.expression.smooth), None)):
            raise DataError(
                f"{smooth.key!r} is a smooth function and stands by itself in {shown_formula(text)}; one for each level of g, "
                "or times a number g, is s(x, by=g)"
            )
    if not terms and not intercept:
        raise DataError(
            f"the formula {shown_formula(text)} has no terms and no intercept; write 'y ~ 1' for an intercept alone"
        )
    return FormulaLayout(
        text, name, outcome, tuple(tuple(factor.key for factor in term) for term in terms),
        {key: checked_expression(expression) for key, expression in used.items()}, intercept,
    )  # fmt: skip


def _outcome(whole: Expression) -> tuple[Expression, ...]:
    """The one expression of a response, the two of `p(successes, trials)`, or those of `counts(a, b, ...)`: what counts stands
    on the left alone, and is no expression on the right."""
    tree = whole.tree
    if not isinstance(tree, ast.Call) or (name := function_of(tree)) not in ("p", "counts"):
        return (checked_expression(whole),)
    if name == "p" and (len(tree.args) != 2 or tree.keywords):
        raise whole.refused(tree, "p takes two columns, p(successes, trials)")
    if len(tree.args) < 2 or tree.keywords:
        raise whole.refused(tree, "counts takes two columns or more, one for each class: counts(a, b, c)")
    parts = tuple(Expression(whole.written(arg), arg, whole.alias) for arg in tree.args)
    return tuple(checked_expression(part, inside=True) for part in parts)


def expand(text: str, names: tuple[str, ...]) -> str:
    """The formula with `.` on its right written out as `names`, quoted where they are not plain words."""
    cut = formula_tokens(text)
    after = next((token.stop for token in cut if token.kind == "~"), len(text) + 1)
    out = text
    for token in reversed(cut):
        if token.kind == "." and token.start >= after:
            if not names:
                raise DataError(f"'.' in {shown_formula(text)} stands for all other columns, and there are none")
            every = " + ".join(map(column_written, names))
            out = f"{out[: token.start]}({every}){out[token.stop :]}"
    return out


def left_of(text: str) -> str:
    """What stands before the ~ of a formula."""
    return next((text[: token.start] for token in formula_tokens(text) if token.kind == "~"), text)


class _Reader:
    """Reads a sum of terms off the tokens, by descent; brackets are no deeper than DEEPEST."""

    def __init__(self, text: str, cut: list[FormulaToken]) -> None:
        self.text, self.cut, self.place = text, cut, 0
        self.read: dict[str, Factor] = {}  # the factors met, by their text

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
                # The product of all terms.
                every = tuple(dict.fromkeys(f for term in outer.terms.values() for f in term))
                found = outer.add(self._crossed(Terms({frozenset(every): every}, outer.one) if every else outer, inner))
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
                key, expression = read_factor(token.text, is_name=token.kind == "name")
                made = self.read.setdefault(key, Factor(key, expression))
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
