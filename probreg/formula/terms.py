"""The terms of a formula: `y ~ a + b*c - 1` as a response and products of factors, where each factor is an expression.

A sum is a set of terms with or without an intercept: a*b is a + b + a:b, a/b is a + a:b, (a + b)**2
crosses two at a time; + 1 adds the intercept, - 1 and + 0 remove it (Wilkinson & Rogers 1973). A bar gives effects that vary by a
group (Bates, Maechler, Bolker & Walker 2015): (x | g) + (1 | a/b).
"""

import ast
import math
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import lru_cache
from typing import Literal, NamedTuple

from probreg.errors import DataError
from probreg.formula.expression import (
    FUNCTIONS,
    Expression,
    checked_expression,
    parse_expression,
)
from probreg.formula.text import (
    PythonText,
    column_written,
    parse_python,
    quote_name,
    shown_formula,
)

MAX_TERMS = 20_000  # limit for the terms of a formula, and for its columns


class Truncation(NamedTuple):
    """The limits of `trunc(y, lower=, upper=)`."""

    lower: float
    upper: float


# responses with more than one number in each row, or with limits
Counted = Literal["p", "counts", "cens"] | Truncation
_COUNTS = ("p", "counts")


@dataclass(frozen=True)
class Factor:
    """A factor of a term: its expression, not checked yet, and its canonical text, which parses to the same expression."""

    key: str
    expression: Expression = field(compare=False)


Term = tuple[Factor, ...]


@dataclass(frozen=True)
class Terms:
    """The terms in order of appearance, by the sets of their factors; whether there is an intercept; the bars and the offsets."""

    terms: dict[frozenset[Factor], Term] = field(default_factory=dict)
    one: bool | None = None
    bars: tuple["Bar", ...] = ()
    offsets: tuple[str, ...] = ()

    def add(self, other: "Terms") -> "Terms":
        """Return the union of two sums; the later choice of the intercept applies."""
        new = {key: t for key, t in other.terms.items() if key not in self.terms}
        intercept = self.one if other.one is None else other.one
        bars = self.bars + other.bars
        return Terms(
            {**self.terms, **new}, intercept, bars, self.offsets + other.offsets
        )

    @property
    def additive_parts(self) -> tuple[str, ...]:
        """The parts that can only be added: bars and offsets."""
        offsets = (f"offset({text})" for text in self.offsets)
        return (*(bar.key for bar in self.bars), *offsets)


@dataclass(frozen=True)
class FormulaLayout:
    """The parts of a formula: the response, the terms by degree, and their factors.

    A response of counts has several expressions. Each factor has its canonical text as key.
    """

    text: str
    response: str
    outcome: tuple[Expression, ...]
    terms: tuple[tuple[str, ...], ...]
    factors: Mapping[str, Expression]
    intercept: bool
    bars: tuple["Bar", ...] = ()
    offset: str | None = None  # the sum of its offset(...)
    notes: tuple[str, ...] = ()
    # "p" for successes of trials, "counts" for counts by class, "cens" for ends of intervals, a Truncation for limits, None for a
    # response with one value per row
    counted: Counted | None = None
    # the part of each expression of a censored response: "y", "event", "second", "lower" or "upper"
    parts_of_ends: tuple[str, ...] = ()

    @property
    def title(self) -> str:
        """The response in words: "s of t" for p(s, t)."""
        if self.counted == "p":
            return " of ".join(e.column or e.text for e in self.outcome)
        if self.parts_of_ends or isinstance(self.counted, Truncation):
            return self.outcome[0].column or self.outcome[0].text
        return self.response

    @property
    def has_counts(self) -> bool:
        """Whether a row counts successes of trials, or classes."""
        return self.counted in _COUNTS

    @property
    def end_columns(self) -> frozenset[str]:
        """The columns of a censored response that may be missing or infinite, for an interval without that end."""
        pairs = ({"y", "second"}, {"lower", "upper"})
        if set(self.parts_of_ends) not in pairs:
            return frozenset()
        return frozenset(e.column for e in self.outcome if e.column is not None)

    @property
    def trials(self) -> tuple[Expression, ...]:
        """The expressions of the response that sum to the trials of a row; empty for a response without counts."""
        if self.counted == "counts":
            return self.outcome
        return self.outcome[1:] if self.counted == "p" else ()

    @property
    def count_columns(self) -> tuple[str, ...]:
        """The columns of a response of counts; empty if one of them is an expression."""
        columns = tuple(part.column or "" for part in self.outcome if self.has_counts)
        return columns if all(columns) else ()

    @property
    def classes(self) -> tuple[str, ...] | None:
        """The names of the classes that are counted."""
        if self.counted == "counts":
            return tuple(e.column or e.text for e in self.outcome)
        return None

    @property
    def every_factor(self) -> dict[str, Expression]:
        """The factors of the terms, and of the effects that vary by a group."""
        factors = dict(self.factors)
        for bar in self.bars:
            factors |= bar.effects.factors
        return factors

    @property
    def factor_variables(self) -> tuple[str, ...]:
        """The columns that factors read, in order of appearance."""
        read = (name for e in self.every_factor.values() for name in e.variables)
        return tuple(dict.fromkeys(read))

    @property
    def variables(self) -> tuple[str, ...]:
        """The columns that the terms use, in order of appearance; grouping columns last."""
        groups = (name for bar in self.bars for name in bar.group)
        return tuple(dict.fromkeys([*self.factor_variables, *groups]))

    @property
    def outcome_variables(self) -> tuple[str, ...]:
        """The columns that the response reads."""
        return tuple(dict.fromkeys(name for e in self.outcome for name in e.variables))

    def factor_name(self, text: str) -> str:
        """Return the name of a factor in column names: the name of its column, or its expression."""
        name = self.factors[text].column
        return text if name is None else name


@dataclass(frozen=True)
class Bar:
    """Effects that vary by a group: `(Days | Subject)`.

    The left of the bar is a formula, and the right names the columns that define the groups by their combinations. The
    effects of `(x || g)` are independent of one another.
    """

    effects: FormulaLayout
    group: tuple[str, ...]
    correlated: bool

    @property
    def key(self) -> str:
        """The name of the term: "(Days | Subject)"."""
        return f"({self.effects.text} {'|' if self.correlated else '||'} {self.by})"

    @property
    def by(self) -> str:
        """The groups: "school:class"."""
        return ":".join(map(column_written, self.group))

    @property
    def effect_terms(self) -> frozenset[frozenset[str]]:
        """Its terms by their factors in any order; the intercept is the empty set."""
        products = [frozenset(term) for term in self.effects.terms]
        return frozenset(
            [*products, frozenset[str]()] if self.effects.intercept else products
        )

    def same(self, bar: "Bar") -> bool:
        """Return whether it is the same term, regardless of spelling."""
        return (
            self.effect_terms == bar.effect_terms
            and set(self.group) == set(bar.group)
            and self.correlated == bar.correlated
        )


# ---- a formula ---------------------------------------------------------------------------------------------------------


@lru_cache(maxsize=64)
def parse_formula(text: str) -> FormulaLayout:
    """The parts of `response ~ terms`, every factor checked; DataError names the piece that is not allowed."""
    left, right, alias = _parse_sides(text)
    shown = shown_formula(text)
    reader = _Reader(text, alias)
    response = _find_response(reader.read(left), text)
    outcome, counted, parts_of_ends = _read_response(response.expression)
    sum_of_terms = reader.read(right)
    terms = sum_of_terms.terms.values()
    name = response.expression.column or response.key
    if any(response in term for term in terms):
        raise DataError(
            f"the response {name!r} is also a term of {shown}; leave it out on the right"
        )
    _refuse_standalone((term for term in terms if len(term) > 1), text)
    _refuse_bars(sum_of_terms.bars, response, outcome, shown)
    if not terms and sum_of_terms.one is False and not sum_of_terms.bars:
        raise DataError(
            f"the formula {shown} has no terms and no intercept; write 'y ~ 1' for an intercept alone"
        )
    return replace(
        _lay_out(text, sum_of_terms),
        response=name,
        outcome=outcome,
        notes=tuple(dict.fromkeys(reader.notes)),
        counted=counted,
        parts_of_ends=parts_of_ends,
    )


def _lay_out(text: str, sum_of_terms: Terms) -> FormulaLayout:
    """Return the parts of a sum of terms, without a response."""
    terms = sorted(sum_of_terms.terms.values(), key=len)
    return FormulaLayout(
        text,
        "",
        (),
        tuple(tuple(factor.key for factor in term) for term in terms),
        {f.key: checked_expression(f.expression) for term in terms for f in term},
        sum_of_terms.one is not False,
        sum_of_terms.bars,
        joined_offsets(*sum_of_terms.offsets),
    )


def _parse_sides(text: str) -> tuple[ast.expr, ast.expr, dict[str, str]]:
    """Return the trees of the response and of the terms, and the names that replace columns in them."""
    python = PythonText(text)
    shown = shown_formula(text)
    if len(python.parts) > 2:
        raise DataError(f"the formula {shown} has '~' more than once")
    if len(python.parts) < 2 or not python.parts[0]:
        raise DataError(
            f"the formula {shown} has no response; write 'response ~ terms'"
        )
    if not python.parts[1]:
        raise DataError(
            f"the formula {shown} has nothing on its right side; write 'y ~ 1' for an intercept alone"
        )
    left, right = (parse_python(part, text) for part in python.parts)
    return left, right, python.alias


def _find_response(left: Terms, text: str) -> Factor:
    factors = [factor for term in left.terms.values() for factor in term]
    if len(factors) != 1 or left.one is not None or left.bars or left.offsets:
        raise DataError(
            f"the left side of {shown_formula(text)} is {left_of(text).strip()!r}; one response is expected, "
            "such as y, log(y), {y1 - y2}, p(successes, trials), counts(a, b, c) or cens(time, event)"
        )
    return factors[0]


def _read_response(
    expression: Expression,
) -> tuple[tuple[Expression, ...], Counted | None, tuple[str, ...]]:
    """Return the expressions of a response, its kind if it has several parts, and the names of the parts of a censored one."""
    tree = expression.tree
    kinds = (*_COUNTS, "cens", "trunc")
    if not isinstance(tree, ast.Call) or expression.function not in kinds:
        _refuse_coding(expression)
        return (checked_expression(expression),), None, ()
    nodes = [*tree.args]
    counted: Counted = "counts"
    parts_of_ends: tuple[str, ...] = ()
    if expression.function == "cens":
        counted = "cens"
        parts_of_ends = _parts_of_ends(expression, tree)
        nodes += [word.value for word in tree.keywords]
    elif expression.function == "trunc":
        counted = _parse_truncation(expression, tree)
    elif expression.function == "p":
        counted = "p"
        if len(nodes) != 2 or tree.keywords:
            raise expression.make_error(
                tree, "p takes two columns, p(successes, trials)"
            )
    elif len(nodes) < 2 or tree.keywords:
        raise expression.make_error(
            tree,
            "counts takes two columns or more, one for each class: counts(a, b, c)",
        )
    parts = (checked_expression(expression.part(n), inside=True) for n in nodes)
    return tuple(parts), counted, parts_of_ends


def _refuse_coding(expression: Expression) -> None:
    """Raise DataError for a response with the coding of a factor."""
    call = expression.tree
    if not isinstance(call, ast.Call) or not isinstance(call.func, ast.Name):
        return
    name = expression.alias.get(call.func.id, call.func.id)
    if name in ("C", "factor", "as.factor") and len(call.args) == 1:
        column = expression.written(call.args[0])
        raise expression.make_error(
            call, f"the likelihood reads the classes of a response: write {column}"
        )


def _parts_of_ends(expression: Expression, tree: ast.Call) -> tuple[str, ...]:
    """Return the names of the arguments of `cens(...)`."""
    parts = (
        *("y", "second")[: len(tree.args)],
        *(word.arg or "**" for word in tree.keywords),
    )
    forms = ({"y", "second"}, {"y", "event"}, {"y", "lower"}, {"y", "upper"}, {"lower", "upper"}, {"y", "lower", "upper"})  # fmt: skip
    is_repeated = len(set(parts)) < len(parts)
    if len(tree.args) > 2 or is_repeated or set(parts) not in forms:
        raise expression.make_error(
            tree,
            "a censored response is cens(time, event), cens(lower, upper), or cens(y, lower=0) with lower=, upper= or both",
        )
    return parts


def _parse_truncation(expression: Expression, tree: ast.Call) -> Truncation:
    """Return the limits of `trunc(...)`."""
    keywords = {str(word.arg): word.value for word in tree.keywords}
    if len(tree.args) != 1 or not keywords or keywords.keys() - {"lower", "upper"}:
        raise expression.make_error(
            tree,
            "a truncated response is trunc(y, lower=1), with lower=, upper= or both",
        )
    try:
        limits = {k: float(ast.literal_eval(v)) for k, v in keywords.items()}
    except (TypeError, ValueError):
        raise expression.make_error(tree, "the limits of trunc are numbers") from None
    return Truncation(**{"lower": -math.inf, "upper": math.inf, **limits})


def joined_offsets(*offsets: str | None) -> str | None:
    """The sum of offsets that are expressions; None if there is none.

    >>> joined_offsets("log(days)", None, "z")
    'log(days) + z'
    """
    return " + ".join(text for text in offsets if text is not None) or None


def _refuse_standalone(terms: Iterable[Term], text: str) -> None:
    """Raise DataError for a smooth function or a process inside these terms."""
    for factor in (factor for term in terms for factor in term):
        if factor.expression.basis_call:
            raise DataError(
                f"{factor.key!r} stands by itself in {shown_formula(text)}; a process of x and z is gp(x, z), and a smooth function for each "
                "level of g, or times a number g, is s(x, by=g)"
            )


def _refuse_bars(
    bars: Sequence[Bar], response: Factor, outcome: Sequence[Expression], shown: str
) -> None:
    """Raise DataError for the response in a bar, and for an effect that varies by the same groups twice."""
    response_variables = {name for part in outcome for name in part.variables}
    for bar in bars:
        if response.key in bar.effects.factors or not response_variables.isdisjoint(
            bar.group
        ):
            raise DataError(
                f"the response {response.expression.text!r} is also in {bar.key} of {shown}"
            )
    refuse_twice(bars, shown)


def refuse_twice(bars: Sequence[Bar], where: str) -> None:
    """Raise DataError for an effect that varies by the same groups twice; `where` names the formula."""
    for i, bar in enumerate(bars):
        for earlier in bars[:i]:
            shared = bar.effect_terms & earlier.effect_terms
            if set(bar.group) != set(earlier.group) or not shared:
                continue
            if bar.same(earlier):
                raise DataError(
                    f"{bar.key} stands twice in {where}; a / b stands for a and a:b"
                )
            effect = "the intercept"
            if frozenset() not in shared:
                effect = ":".join(sorted(min(shared, key=sorted)))
            raise DataError(
                f"{effect} varies by {bar.by} in {earlier.key} and in {bar.key}: two standard deviations of one effect cannot be "
                "told apart; 0 + x leaves the intercept out"
            )


def read_bar_term(text: str) -> Bar | None:
    """Return the bar in a text, with or without brackets, such as "Days | Subject"; None if it is not a bar."""
    bracketed = text if text.strip().startswith("(") else f"({text})"
    try:
        python = PythonText(bracketed)
        (side,) = python.parts
        bars = _Reader(bracketed, python.alias).read(parse_python(side, bracketed)).bars
    except (DataError, ValueError):
        return None
    return bars[0] if len(bars) == 1 else None


# ---- formulas with a `.` that is not expanded --------------------------------------------------------------------------


def has_dot(text: str) -> bool:
    """Whether `.` is a term of the formula."""
    return bool(PythonText(text).dots)


def expand(text: str, names: Sequence[str]) -> str:
    """Return the formula with `.` on the right side replaced by `names`, quoted if necessary."""
    sum_of_names = " + ".join(map(column_written, names))
    start = len(left_of(text))
    for place in reversed(PythonText(text).dots):
        if place > start:
            text = f"{text[:place]}({sum_of_names}){text[place + 1 :]}"
    return text


def left_of(text: str) -> str:
    """The text before the ~ of a formula."""
    return text[: PythonText(text).ends[0]]


def taken_columns(text: str) -> set[str]:
    """The columns that `.` does not include: columns of the response, of offsets and of grouping variables.

    >>> sorted(taken_columns("y ~ . + offset(log(days)) + (1 | g)"))
    ['days', 'g', 'y']
    """
    others = "others"
    while others in text:
        others += "_"
    parts = parse_formula(expand(text, (others,)))
    for bar in parts.bars:
        if others in (*bar.effects.variables, *bar.group):
            raise DataError(
                f"{shown_formula(text)} has '.' within a bar; name the columns that vary, and those of the groups"
            )
    offset = parse_expression(parts.offset).variables if parts.offset else ()
    groups = (name for bar in parts.bars for name in bar.group)
    return {*parts.outcome_variables, *offset, *groups}


# ---- from a syntax tree to terms ---------------------------------------------------------------------------------------


class _Reader:
    """Read the sums and products of a syntax tree (see `formula.text`)."""

    def __init__(self, text: str, alias: Mapping[str, str]) -> None:
        self.text = text
        self.alias = alias
        self.factors: dict[str, Factor] = {}  # by their text
        self.notes: list[str] = []

    def read(self, node: ast.expr) -> Terms:
        """The terms of a node."""
        shown = shown_formula(self.text)
        match node:
            case ast.Tuple(elts=parts) if parts:
                terms = self._read_sum(parts)
            case ast.UnaryOp(op=ast.Not()):
                terms = self._read_sum([node])
            case ast.BinOp(op=ast.BitOr() | ast.BitXor()):
                terms = self._read_bars(node)
            case ast.BinOp(left, ast.Mult() | ast.Div() | ast.Pow() as operator, right):
                terms = self._combine(left, operator, right)
            case ast.Subscript(value, ast.Constant(value=int(power))):
                terms = self._raise_to(self.read(value), power)
            case ast.Constant(value=int() | float() as number) if number in (0, 1):
                terms = Terms(one=number == 1)
            case ast.Constant(value=int() | float() as number):
                raise DataError(
                    f"the number {number} is no term of {shown}; only 0 and 1 are, for the intercept. "
                    f"A column of that name is written {quote_name(str(number))}, twice a column I(2 * x)"
                )
            case ast.Call(func=ast.Name(id="offset")):
                terms = Terms(offsets=(self._read_offset(node),))
            case ast.Name() | ast.Call() | ast.Attribute():
                terms = self._read_factor(node)
            case ast.Set(elts=[inner]):
                terms = self._read_factor(inner)
            case _:
                piece = Expression(self.text, node, self.alias).written()
                raise DataError(
                    f"{piece} is no term of {shown}; a column of that name is written in backquotes"
                )
        return terms

    def _combine(
        self, left: ast.expr, operator: ast.operator, right: ast.expr
    ) -> Terms:
        """Combine the terms of both sides of an operator: crossing with main effects, nesting or crossing."""
        a = self.read(left)
        b = self.read(right)
        if isinstance(operator, ast.Mult):
            return a.add(b).add(self._cross(a, b))
        if isinstance(operator, ast.Div):
            return self._nest(a, b)
        return self._cross(a, b)

    def _read_sum(self, nodes: Sequence[ast.expr]) -> Terms:
        terms = dict[frozenset[Factor], Term]()
        intercept: bool | None = None
        bars: tuple[Bar, ...] = ()
        offsets: tuple[str, ...] = ()
        for node in nodes:
            plus = True
            while isinstance(node, ast.UnaryOp) and isinstance(node.op, ast.Not):
                node = node.operand
                plus = not plus
            part = self.read(node)
            for key, term in part.terms.items():
                if plus:
                    terms.setdefault(key, term)
                else:
                    terms.pop(key, None)
            if part.one is not None:
                intercept = part.one is plus
            if part.additive_parts and not plus:
                raise DataError(
                    f"{part.additive_parts[0]} is subtracted in {shown_formula(self.text)}; leave it out instead"
                )
            bars += part.bars
            offsets += part.offsets
            self._refuse_many(len(terms), MAX_TERMS, "terms")
        return Terms(terms, intercept, bars, offsets)

    def _read_factor(self, node: ast.expr) -> Terms:
        expression = Expression("", node, self.alias)
        name = expression.column
        if name is None:
            key = text = expression.written()
        else:
            key = column_written(name)
            text = name
        factor = self.factors.setdefault(
            key, Factor(key, Expression(text, node, self.alias))
        )
        return Terms({frozenset((factor,)): (factor,)})

    def _read_offset(self, call: ast.Call) -> str:
        """The one expression of an offset(...)."""
        if len(call.args) != 1 or call.keywords:
            written = Expression("", call, self.alias).written()
            raise DataError(
                f"{written!r}: offset takes one expression, such as offset(log(days))"
            )
        expression = Expression(self.text, call.args[0], self.alias)
        return checked_expression(expression.part(expression.tree), inside=True).text

    def _nest(self, outer: Terms, inner: Terms) -> Terms:
        """outer / inner: the inner terms within each combination of the outer factors."""
        factors = dict.fromkeys(f for term in outer.terms.values() for f in term)
        combination = Terms(
            {frozenset(factors): tuple(factors)}, outer.one, outer.bars, outer.offsets
        )
        return outer.add(self._cross(combination if factors else outer, inner))

    def _raise_to(self, base: Terms, power: int) -> Terms:
        """(a + b)**2: the products of up to two of the terms."""
        max_power = 5  # (a + b + ...)**5 crosses five variables at once; more is a slip, and costs exponentially
        if not 1 <= power <= max_power:
            raise DataError(
                f"{shown_formula(self.text)} crosses variables up to the power {power}; expected 1 to {max_power}. "
                "For a power of a number write I(x**2) or poly(x, 2)"
            )
        total = base
        for _ in range(power - 1):
            total = self._cross(total, base)
        if len(base.terms) == 1 and power > 1:
            (term,) = base.terms.values()
            name = ":".join(factor.key for factor in term)
            note = f"{name}**{power} in a formula crosses {name} with itself, which is {name}"
            if all(f.expression.function in ("", "I", *FUNCTIONS) for f in term):
                note += f": for a power of a number write I({name}**{power}) or poly({name}, {power})"
            self.notes.append(note)
        return total

    def _cross(self, a: Terms, b: Terms) -> Terms:
        """Return the products of every term of a with every term of b."""
        shown = shown_formula(self.text)
        union = a.add(b)
        if union.additive_parts:
            raise DataError(
                f"{union.additive_parts[0]} stands in a product of {shown}; it is added"
            )
        if union.one is not None:
            raise DataError(
                f"a product of {shown} has a number in it. Write I(2 * x), so that the column says so, and the "
                "0 or 1 of the intercept as a term by itself"
            )
        max_products = 5_000
        products: dict[frozenset[Factor], Term] = {}
        for first in a.terms.values():
            for second in b.terms.values():
                term = (*first, *(f for f in second if f not in first))
                products.setdefault(frozenset(term), term)
            self._refuse_many(len(products), max_products, "products of columns")
        return Terms(products)

    def _refuse_many(self, count: int, limit: int, kind: str) -> None:
        if count > limit:
            raise DataError(
                f"the formula {shown_formula(self.text)} stands for {count} {kind} or more, and at most {limit} are allowed; Model.from_arrays takes more columns"
            )

    def _read_bars(self, node: ast.BinOp) -> Terms:
        """The terms of `(left | right)`, one for each of the groups."""
        correlated = isinstance(node.op, ast.BitOr)
        text = self._write(node.left)
        piece = f"({text} {'|' if correlated else '||'} {self._write(node.right)})"
        sum_of_effects = self.read(node.left)
        if sum_of_effects.additive_parts:
            raise DataError(
                f"{piece} has {sum_of_effects.additive_parts[0]} before its bar; add it outside"
            )
        if not sum_of_effects.terms and sum_of_effects.one is False:
            raise DataError(
                f"{piece} has no effect before its bar; (1 | g) is an intercept for each level of g"
            )
        _refuse_standalone(sum_of_effects.terms.values(), self.text)
        effects = _lay_out(text, sum_of_effects)
        groups = self._read_groups(node.right, piece)
        return Terms(bars=tuple(Bar(effects, group, correlated) for group in groups))

    def _read_groups(self, node: ast.expr, piece: str) -> list[tuple[str, ...]]:
        """Return the groups behind a bar, each as the columns that define it: g / h means g and g:h."""
        match node:
            case ast.Name():
                return [(self.alias.get(node.id, node.id),)]
            case ast.BinOp(left, ast.Div() | ast.Pow() as op, right):
                before = self._read_groups(left, piece)
                after = self._read_groups(right, piece)
                joined = [before[-1] + group for group in after]
                repeated = set(before[-1]).intersection(*after)
                if repeated:
                    raise DataError(
                        f"column {min(repeated)!r} stands twice behind the bar of {piece}; once is enough"
                    )
                return before + joined if isinstance(op, ast.Div) else joined
        raise DataError(
            f"{piece} has {self._write(node)!r} behind its bar, where columns stand, joined by ':' or '/'; make an expression a "
            "column of the data, and write a term for each grouping column, as in (1 | g) + (1 | h)"
        )

    def _write(self, node: ast.expr) -> str:
        """Return a node as written in a formula."""
        match node:
            case ast.Tuple(elts=parts):
                text = " + ".join(map(self._write, parts))
                return text.replace("+ - ", "- ")
            case ast.UnaryOp(op=ast.Not(), operand=operand):
                return f"- {self._write(operand)}"
            case ast.BinOp(left, op, right) if type(op) in _WRITTEN:
                sides = [self._write(left), self._write(right)]
                for i, side in enumerate((left, right)):
                    if isinstance(side, ast.Tuple):
                        sides[i] = f"({sides[i]})"
                return _WRITTEN[type(op)].join(sides)
            case ast.Subscript(value, ast.Constant(value=int(power))):
                base = self._write(value)
                return (
                    f"{f'({base})' if isinstance(value, ast.Tuple) else base}**{power}"
                )
            case ast.Set(elts=[inner]):
                return f"{{{self._write(inner)}}}"
        return Expression("", node, self.alias).written()


_WRITTEN: dict[type[ast.AST], str] = {
    ast.Mult: "*", ast.Div: "/", ast.Pow: ":", ast.BitOr: " | ", ast.BitXor: " || ",
}  # fmt: skip
