"""The algebra of terms: `y ~ a + b*c - 1` as a response and products of factors, each an expression of its own.

    formula = sum "~" sum                   sum     = [sign] product (sign product)*
    product = cross (("*" | "/" | "%in%") cross)*   cross   = power (":" power)*
    power   = atom (("**" | "^") number)*   atom    = name | `name` | call(...) | {expression} | "." | 0 | 1 | "(" sum ")" | bar
    bar     = "(" sum ("|" | "||") groups ")"         groups  = name ((":" | "/") name)*

A sum is a set of terms and a word on the intercept: a*b is a + b + a:b, a/b is a + a:b, b %in% a is a + a:b, (a + b)**2
crosses two at a time; + 1 puts the intercept in, - 1 and + 0 take it out (Wilkinson & Rogers 1973). Text between backquotes
is a name whatever it looks like: it is never a number, an operator or a function. What stands within a call is read and
checked by `grammar`. A bar is effects that vary by a group (Bates, Maechler, Bolker & Walker 2015); it is added and nothing else.
"""

import ast
import itertools
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from functools import lru_cache
from typing import Literal

from probreg.data.formula.grammar import (
    SIZES,
    STANDALONE,
    Expression,
    checked_expression,
    column_written,
    function_of,
    parse_expression,
    quote_name,
    read_factor,
    shown_formula,
)
from probreg.data.formula.tokens import (
    FormulaToken,
    bars_in,
    formula_tokens,
    groupings,
    refuse_dots_in_bars,
    unread,
)
from probreg.errors import DataError

HIGHEST_POWER = 5  # (a + b + ...)**5 crosses five variables at once; more is a slip, and costs exponentially
# of a formula's products; a sum of columns may have as many as MOST_COLUMNS
MOST_TERMS = 5_000
MOST_COLUMNS = 20_000

Counted = Literal["p", "counts"]


@dataclass(frozen=True)
class Factor:
    """A piece of a term: its expression, which is not checked yet, and the text it is filed under, which reads as it again."""

    key: str
    expression: Expression = field(compare=False)


Term = tuple[Factor, ...]


@dataclass(frozen=True)
class Terms:
    """A set of terms in order of appearance, by their factors in any order, what is said of the intercept, and the bars."""

    terms: dict[frozenset[Factor], Term] = field(default_factory=dict)
    one: bool | None = None
    bars: tuple["Bar", ...] = ()
    offsets: tuple[str, ...] = ()

    def add(self, other: "Terms") -> "Terms":
        new = {k: t for k, t in other.terms.items() if k not in self.terms}
        return Terms(
            {**self.terms, **new}, self.one if other.one is None else other.one
        )


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
    bars: tuple["Bar", ...] = ()
    offset: str | None = None  # the sum of its offset(...)
    notes: tuple[str, ...] = ()

    @property
    def counted(self) -> Counted | None:
        """ "p" for successes of trials, "counts" for counts by class, None for a response of one value per row."""
        if len(self.outcome) == 1:
            return None
        if self.response.lstrip().startswith("p"):
            return "p"
        return "counts"

    @property
    def classes(self) -> tuple[str, ...] | None:
        """The names of the classes that are counted."""
        if self.counted == "counts":
            return tuple(e.column or e.text for e in self.outcome)
        return None

    @property
    def every_factor(self) -> dict[str, Expression]:
        """The factors of terms and of what varies by a group."""
        return {
            **self.factors,
            **{key: e for bar in self.bars for key, e in bar.effects.factors.items()},
        }

    @property
    def factor_variables(self) -> tuple[str, ...]:
        """The columns that factors read, in order of appearance."""
        return tuple(
            dict.fromkeys(
                name
                for factor in self.every_factor.values()
                for name in factor.variables
            )
        )

    @property
    def variables(self) -> tuple[str, ...]:
        """The columns the terms read, in order of appearance; columns of groups last."""
        return tuple(
            dict.fromkeys(
                [
                    *self.factor_variables,
                    *(name for bar in self.bars for name in bar.group),
                ]
            )
        )

    def called(self, text: str) -> str:
        """A factor as users call it in the names of columns: the name of its column, or its expression."""
        name = self.factors[text].column
        return text if name is None else name


@dataclass(frozen=True)
class Bar:
    """Effects that vary by a group: `(Days | Subject)`, the left of the bar a formula of its own, the right the columns whose
    combinations are the groups. Of `(x || g)` the effects are independent of one another."""

    effects: FormulaLayout
    group: tuple[str, ...]
    correlated: bool

    @property
    def key(self) -> str:
        """The term as it is called, such as "(Days | Subject)"."""
        return f"({self.effects.text} {'|' if self.correlated else '||'} {self.by})"

    @property
    def by(self) -> str:
        """What the groups are of, such as "school:class"."""
        return ":".join(map(column_written, self.group))

    @property
    def varying(self) -> frozenset[frozenset[str]]:
        """Its terms by their factors in any order; that of the intercept is empty."""
        own = [frozenset(term) for term in self.effects.terms]
        return frozenset([*own, frozenset[str]()] if self.effects.intercept else own)

    def same(self, other: "Bar") -> bool:
        """Whether it is the same term, however it is spelled."""
        return (
            self.varying == other.varying
            and set(self.group) == set(other.group)
            and self.correlated == other.correlated
        )


@lru_cache(maxsize=64)
def parse_formula(text: str) -> FormulaLayout:
    """The parts of `response ~ terms`, every factor checked; DataError names the piece that cannot stand."""
    cut = formula_tokens(text)
    if not any(token.kind == "~" for token in cut) or cut[0].kind == "~":
        raise DataError(
            f"the formula {shown_formula(text)} has no response; write 'response ~ terms'"
        )
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
    if (
        len(left.terms) != 1
        or len(factors) != 1
        or left.one is not None
        or left.bars
        or left.offsets
    ):
        raise DataError(
            f"the left side of {shown_formula(text)} is {left_of(text).strip()!r}; one response stands there, "
            "such as y, log(y), {y1 - y2}, p(successes, trials) or counts(a, b, c)"
        )
    (response,) = factors
    outcome = _parse_response_parts(response.expression)
    column = response.expression.column
    name = response.key if column is None else column
    terms = sorted(right.terms.values(), key=len)
    intercept = right.one is not False
    used = {factor.key: factor.expression for term in terms for factor in term}
    if response.key in used:
        raise DataError(
            f"the response {name!r} is also a term of {shown_formula(text)}; leave it out on the right"
        )
    for term in terms:
        if len(term) > 1:
            _refuse_alone([term], text)
    _refuse_bars(right.bars, response, outcome, text)
    if not terms and not intercept and not right.bars:
        raise DataError(
            f"the formula {shown_formula(text)} has no terms and no intercept; write 'y ~ 1' for an intercept alone"
        )
    return FormulaLayout(
        text, name, outcome, tuple(tuple(factor.key for factor in term) for term in terms),
        {key: checked_expression(expression) for key, expression in used.items()}, intercept, right.bars,
        joined_offsets(*right.offsets), tuple(dict.fromkeys(reader.notes)),
    )  # fmt: skip


def joined_offsets(*offsets: str | None) -> str | None:
    """The sum of offsets that are expressions; None where there is none.

    >>> joined_offsets("log(days)", None, "z")
    'log(days) + z'
    """
    return " + ".join(text for text in offsets if text is not None) or None


def offset_variables(text: str) -> set[str]:
    """The columns that the offset(...) of a formula read, whose `.` is not written out yet."""
    calls = [
        token.text
        for token in formula_tokens(text)
        if token.kind == "call" and _is_offset(token.text)
    ]
    return {
        name
        for call in calls
        for name in parse_expression(_inside_offset(call)).variables
    }


def _is_offset(text: str) -> bool:
    return text.startswith("offset(")


def _inside_offset(call: str) -> str:
    """The one expression of an offset(...). DataError for another number of them."""
    _, whole = read_factor(call, is_name=False)
    tree = whole.tree
    if not isinstance(tree, ast.Call) or len(tree.args) != 1 or tree.keywords:
        raise DataError(
            f"{call!r}: offset takes one expression, such as offset(log(days))"
        )
    inner = Expression(whole.written(tree.args[0]), tree.args[0], whole.alias)
    return checked_expression(inner, inside=True).text


def _refuse_alone(terms: Iterable[Term], text: str) -> None:
    """DataError for a smooth function or a process in these terms, in which neither can stand."""
    for factor in (factor for term in terms for factor in term):
        if factor.expression.process:
            raise DataError(
                f"{factor.key!r} is a Gaussian process and stands by itself in {shown_formula(text)}; one of x and z is gp(x, z)"
            )
        if factor.expression.smooth:
            raise DataError(
                f"{factor.key!r} is a smooth function and stands by itself in {shown_formula(text)}; one for each level of g, "
                "or times a number g, is s(x, by=g)"
            )


def _refuse_bars(
    bars: Sequence[Bar], response: Factor, outcome: Sequence[Expression], text: str
) -> None:
    """DataError for the response in a bar, and for an effect that varies by the same groups twice."""
    given = {name for part in outcome for name in part.variables}
    for bar in bars:
        if response.key in bar.effects.factors or not given.isdisjoint(bar.group):
            raise DataError(
                f"the response {response.expression.text!r} stands in {bar.key} of {shown_formula(text)} too"
            )
    refuse_twice(bars, shown_formula(text))


def refuse_twice(bars: Sequence[Bar], where: str) -> None:
    """DataError for an effect that varies by the same groups twice; `where` they stand, in words."""
    for i, bar in enumerate(bars):
        for other in bars[:i]:
            if set(bar.group) != set(other.group) or not (
                both := bar.varying & other.varying
            ):
                continue
            if bar.same(other):
                raise DataError(
                    f"{bar.key} stands twice in {where}; a / b stands for a and a:b"
                )
            if frozenset() in both:
                what = "the intercept"
            else:
                what = ":".join(sorted(min(both, key=sorted)))
            raise DataError(
                f"{what} varies by {bar.by} in {other.key} and in {bar.key}: two standard deviations of one effect cannot be "
                "told apart; 0 + x leaves the intercept out"
            )


def read_bar_term(text: str) -> Bar | None:
    """The one term that a text is, with its brackets or without them, such as "Days | Subject"; None where it is none."""
    try:
        cut = formula_tokens(text if text.strip().startswith("(") else f"({text})")
        if text.strip().startswith("("):
            whole = text
        else:
            whole = f"({text})"
        bars = _Reader(whole, cut).sum().bars
    except DataError:
        return None
    return bars[0] if len(bars) == 1 else None


def _parse_response_parts(whole: Expression) -> tuple[Expression, ...]:
    """The one expression of a response, the two of `p(successes, trials)`, or those of `counts(a, b, ...)`: what counts stands
    on the left alone, and is no expression on the right."""
    tree = whole.tree
    if not isinstance(tree, ast.Call) or (name := function_of(tree)) not in (
        "p",
        "counts",
    ):
        return (checked_expression(whole),)
    if name == "p" and (len(tree.args) != 2 or tree.keywords):
        raise whole.refused(tree, "p takes two columns, p(successes, trials)")
    if len(tree.args) < 2 or tree.keywords:
        raise whole.refused(
            tree,
            "counts takes two columns or more, one for each class: counts(a, b, c)",
        )
    parts = tuple(Expression(whole.written(arg), arg, whole.alias) for arg in tree.args)
    return tuple(checked_expression(part, inside=True) for part in parts)


def expand(text: str, names: tuple[str, ...]) -> str:
    """The formula with `.` on its right written out as `names`, quoted where they are not plain words."""
    cut = formula_tokens(text)
    after = next((token.stop for token in cut if token.kind == "~"), len(text) + 1)
    out = text
    refuse_dots_in_bars(cut, text)
    for token in reversed(cut):
        if token.kind == "." and token.start >= after:
            if not names:
                raise DataError(
                    f"'.' in {shown_formula(text)} stands for all other columns, and there are none"
                )
            every = " + ".join(map(column_written, names))
            out = f"{out[: token.start]}({every}){out[token.stop :]}"
    return out


def left_of(text: str) -> str:
    """What stands before the ~ of a formula."""
    return next(
        (text[: token.start] for token in formula_tokens(text) if token.kind == "~"),
        text,
    )


class _Reader:
    """Reads a sum of terms off the tokens, by descent; brackets are no deeper than DEEPEST."""

    def __init__(self, text: str, cut: list[FormulaToken]) -> None:
        self.text, self.cut, self.place = text, cut, 0
        self.read: dict[str, Factor] = {}  # the factors met, by their text
        self.notes: list[str] = []
        self.bars = bars_in(cut, text)

    @property
    def kind(self) -> str:
        return self.cut[self.place].kind

    def expect(self, kind: str, why: str) -> None:
        if self.kind == "|":
            raise _misplaced_bar_error(self.text, self.cut, self.place)
        if self.kind != kind:
            raise unread(self.text, f"{self._describe_token()}; {why}")
        self.place += 1

    def _describe_token(self) -> str:
        token = self.cut[self.place]
        if token.kind == "end" and token.start == len(self.text):
            return "it ends where a term is expected"
        return (
            f"met {self.text[token.start : token.stop]!r} at letter {token.start + 1}"
        )

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
        bars: tuple[Bar, ...] = ()
        offsets: tuple[str, ...] = ()
        plus: bool | None = self._signs() is not False
        while plus is not None:
            part = self.product()
            if part.bars and not plus:
                raise DataError(
                    f"{part.bars[0].key} is subtracted in {shown_formula(self.text)}; leave it out instead"
                )
            if part.offsets and not plus:
                raise DataError(
                    f"offset({part.offsets[0]}) is subtracted in {shown_formula(self.text)}: write offset(-({part.offsets[0]}))"
                )
            bars += part.bars
            offsets += part.offsets
            for key, term in part.terms.items():
                terms.setdefault(key, term) if plus else terms.pop(key, None)
            one = one if part.one is None else part.one is plus
            self._refuse_many(len(terms), MOST_COLUMNS)
            plus = self._signs()
        return Terms(terms, one, bars, offsets)

    def product(self) -> Terms:
        found = self.cross()
        while (sign := self.kind) in ("*", "/", "%in%"):
            self.place += 1
            other = self.cross()
            self._refuse_products_of_bars(found, other)
            if sign == "*":
                found = found.add(other).add(self._cross_terms(found, other))
            else:  # a/b: b within each combination of a
                if sign == "/":
                    outer, inner = (found, other)
                else:
                    outer, inner = (other, found)
                # The product of all terms.
                every = tuple(
                    dict.fromkeys(f for term in outer.terms.values() for f in term)
                )
                found = outer.add(
                    self._cross_terms(
                        Terms({frozenset(every): every}, outer.one) if every else outer,
                        inner,
                    )
                )
        return found

    def cross(self) -> Terms:
        found = self.power()
        while self.kind == ":":
            self.place += 1
            found = self._cross_terms(found, self.power())
        return found

    def power(self) -> Terms:
        found = self.atom()
        while self.kind == "**":
            self.place += 1
            token = self.cut[self.place]
            self.place += 1
            if (
                token.kind != "number"
                or not token.text.isdigit()
                or not int(token.text[:9])
            ):
                raise unread(
                    self.text,
                    "a power of terms is a whole number, as in (a + b)**2; of a number, I(x**2)",
                )
            if len(token.text) > 9 or int(token.text) > HIGHEST_POWER:
                raise DataError(
                    f"{shown_formula(self.text)} crosses variables up to the power {token.text[:20]}; at most {HIGHEST_POWER} is taken. "
                    "For a power of a number write I(x**2) or poly(x, 2)"
                )
            base = found
            self._refuse_products_of_bars(base)
            if len(base.terms) == 1 and int(token.text) > 1:
                name = ":".join(
                    factor.key for factor in next(iter(base.terms.values()))
                )
                # a basis or C(...) is several columns, of which there is no polynomial
                one = name.partition("(")[0] not in (*SIZES, *STANDALONE, "C")
                if one:
                    write = f": for a power of a number write I({name}**{token.text}) or poly({name}, {token.text})"
                else:
                    write = ""
                self.notes.append(
                    f"{name}**{token.text} in a formula crosses {name} with itself, which is {name}{write}"
                )
            for _ in range(int(token.text) - 1):
                found = self._cross_terms(found, base)
        return found

    def atom(self) -> Terms:
        token = self.cut[self.place]
        self.place += 1
        match token.kind:
            case "call" if _is_offset(token.text):
                return Terms(offsets=(_inside_offset(token.text),))
            case "name" | "call":
                key, expression = read_factor(token.text, is_name=token.kind == "name")
                made = self.read.setdefault(key, Factor(key, expression))
                return Terms({frozenset((made,)): (made,)})
            case "number" if float(token.text) in (0.0, 1.0):
                return Terms(one=float(token.text) == 1.0)
            case "number":
                raise DataError(
                    f"the number {token.text} is no term of {shown_formula(self.text)}; only 0 and 1 are, for the intercept. "
                    f"A column of that name is written {quote_name(token.text)}, twice a column I(2 * x)"
                )
            case "text":
                raise DataError(
                    f"the text {token.text} is no term of {shown_formula(self.text)}; a column is written `name`"
                )
            case "(" if self.place - 1 in self.bars:
                return self._bar(*self.bars[self.place - 1])
            case "(":
                inside = self.sum()
                self.expect(")", "a bracket is closed by ')'")
                return inside
        self.place -= 1
        if token.kind == "|":
            raise _misplaced_bar_error(self.text, self.cut, self.place)
        raise unread(self.text, f"{self._describe_token()}; a term is expected there")

    def _bar(self, bar: int, stop: int) -> Terms:
        """The terms of `(left | right)` whose bracket was opened, read to its end: one for each of the groups."""
        left = self.cut[self.place : bar]
        divider = self.cut[bar]
        right = self.cut[bar + 1 : stop]
        piece = self.text[self.cut[self.place - 1].start : self.cut[stop].stop]
        if not left or not right:
            where = "behind" if left else "before"
            raise DataError(
                f"{piece} has nothing {where} its bar; (1 | g) is an intercept for each level of g"
            )
        inner = _Reader(
            self.text, [*left, FormulaToken("end", "", divider.start, divider.stop)]
        )
        found = inner.sum()
        inner.expect("end", "an operator such as + stands between two terms")
        if found.bars:
            raise DataError(
                f"{piece} has a bar within a bar, {found.bars[0].key}; add the two"
            )
        if found.offsets:
            raise DataError(
                f"{piece} has an offset before its bar; an offset has no effect that varies: add it outside"
            )
        self.notes += inner.notes
        if not found.terms and found.one is False:
            raise DataError(
                f"{piece} has no effect before its bar; (1 | g) is an intercept for each level of g"
            )
        _refuse_alone(found.terms.values(), self.text)
        terms = sorted(found.terms.values(), key=len)
        effects = FormulaLayout(
            _join_tokens(self.text, left), "", (), tuple(tuple(f.key for f in term) for term in terms),
            {f.key: checked_expression(f.expression) for term in terms for f in term}, found.one is not False,
        )  # fmt: skip
        self.place = stop + 1
        groups = groupings(right, piece, self.text)
        return Terms(
            bars=tuple(Bar(effects, group, divider.text == "|") for group in groups)
        )

    def _refuse_products_of_bars(self, *parts: Terms) -> None:
        for text in (text for part in parts for text in part.offsets):
            raise DataError(
                f"offset({text}) stands in a product of {shown_formula(self.text)}; an offset is added"
            )
        for bar in (bar for part in parts for bar in part.bars):
            raise DataError(
                f"{bar.key} stands in a product of {shown_formula(self.text)}; effects that vary by a group are added, as in "
                "x + (x | g)"
            )

    def _cross_terms(self, a: Terms, b: Terms) -> Terms:
        """Return the products of every term of a with every term of b."""
        self._refuse_products_of_bars(a, b)
        if a.one is not None or b.one is not None:
            raise DataError(
                f"a product of {shown_formula(self.text)} has a number in it. Write I(2 * x), so that the column says so, and the "
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
            if most == MOST_TERMS:
                what = "products of columns"
            else:
                what = "terms"
            raise DataError(
                f"the formula {shown_formula(self.text)} stands for {met} {what} or more; at most {most} are taken"
            )


def _join_tokens(text: str, tokens: Sequence[FormulaToken]) -> str:
    """Return these tokens as they were written, with one space where there were several."""
    out = text[tokens[0].start : tokens[0].stop]
    for before, token in itertools.pairwise(tokens):
        out += " " * (token.start > before.stop) + text[token.start : token.stop]
    return out


def _misplaced_bar_error(text: str, cut: list[FormulaToken], at: int) -> DataError:
    """Return the error for a bar outside brackets or in an unclosed bracket."""
    open_ones = sum((token.kind == "(") - (token.kind == ")") for token in cut[:at])
    if open_ones > 0:
        return unread(
            text,
            f"the bracket around {cut[at].text!r} at letter {cut[at].start + 1} is not closed",
        )
    start = stop = at
    while start and cut[start - 1].kind not in ("~", "+", "-"):
        start -= 1
    while stop + 1 < len(cut) and cut[stop + 1].kind not in ("+", "-", "end"):
        stop += 1
    piece = text[cut[start].start : cut[stop].stop].strip()
    return DataError(
        f"{piece!r} in {shown_formula(text)} has a bar outside brackets; effects that vary by a group are written (1 | g) or "
        "(x | g)"
    )
