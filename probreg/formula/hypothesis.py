"""The text of a hypothesis as linear restrictions: names are replaced, and Python's parser reads the rest; nothing is evaluated.

A hypothesis is one relation or more (= == < > <= >=) between sums of multiples of coefficients, separated by commas. A name is a
coefficient as the fit or the formula spells it: "I(x**2)" is "I(x ** 2)". At each place the longest possible name is read. Some names
need backquotes: names that look like arithmetic, such as "1" or "18-24", and names that look like a sum of other names. In a
model of several outcomes "b: x" and "x: b" are the coefficient of x for outcome b, and a bare "x" means each of them in turn. A term
of a formula, such as "C(g)", means each of its columns in turn, and must be the only name in its relation.
"""

import ast
import difflib
import itertools
import math
import re
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from functools import cached_property
from types import MappingProxyType

import numpy as np

from probreg.errors import DataError, Incompatible
from probreg.formula.expression import Expression
from probreg.formula.text import (
    QUOTED,
    STRING,
    PythonText,
    parse_python,
    quote_name,
    shown_formula,
    unquote_name,
)

Array = np.ndarray
_NUMBER = r"(?:\d+(?:\.\d*)?|\.\d+)(?:[eE][+-]?\d+)?"
_ARITHMETIC = re.compile(rf"(?:{_NUMBER}|[-+*/(),=<>\s])*")
_SIGN = r"<=|>=|==|[=<>+\-*/(),]"
_WORD = r"[^\s,=<>+*/()`-]+(?:\s*:\s*[^\s,=<>+*/()`-]+)*|."
_CALL = re.compile(r"[^\W\d][\w.]*\s*\(")
_WITHIN_CALL = re.compile(rf"{STRING}|{QUOTED}|[()]", re.DOTALL)
_RELATIONS: dict[type[ast.AST], str] = {
    ast.Eq: "=", ast.Lt: "<", ast.LtE: "<", ast.Gt: ">", ast.GtE: ">",
}  # fmt: skip
# multiples of coefficients by their names; the constant under None
Linear = dict[str | None, float]


@dataclass(frozen=True)
class Restriction:
    """sum_j weights_j beta_j (relation) value."""

    weights: Mapping[int, float]
    relation: str
    value: float

    def words(self, names: Sequence[str]) -> str:
        """Format the restriction as text.

        >>> Restriction({0: 1.0, 1: -2.5}, ">", 3.0).words(["x1", "x2"])
        'x1 - 2.5 x2 > 3'
        """
        return f"{self.format_combination(names)} {self.relation} {self.value:.6g}"

    def format_combination(self, names: Sequence[str]) -> str:
        """Format the linear combination as text."""
        terms = []
        for j, c in self.weights.items():
            name = quote_name(names[j]) if _ARITHMETIC.fullmatch(names[j]) else names[j]
            factor = "" if abs(c) == 1 else f"{abs(c):.6g} "
            if c:
                terms.append(f"{'-' if c < 0 else '+'} {factor}{name}")
        return " ".join(terms).removeprefix("+ ")


def matrix(restrictions: Sequence[Restriction], size: int) -> tuple[Array, Array]:
    """Return L (q, size) and r (q,) with L beta (relation) r."""
    L = np.zeros((len(restrictions), size))
    for i, restriction in enumerate(restrictions):
        for j, c in restriction.weights.items():
            L[i, j] = c
    return L, np.array([restriction.value for restriction in restrictions])


def parse_hypothesis(
    text: str, columns: Sequence[str], outcomes: Sequence[str] = (), *, terms: Mapping[str, Sequence[int]] = MappingProxyType({}),
    smooth: Iterable[str] = (),
) -> list[Restriction]:  # fmt: skip
    """Return the restrictions of a text. Coefficients are numbered by column, then by outcome. DataError for invalid text.

    `terms` maps each term to the numbers of its columns; terms in `smooth` have no joint test.

    >>> for r in parse_hypothesis("x1 + 2*x2 = 3, x1 = `C(g)[T.b]`", ["x1", "x2", "C(g)[T.b]"]): print(dict(r.weights), r.relation, r.value)
    {0: 1.0, 1: 2.0} = 3.0
    {0: 1.0, 2: -1.0} = 0.0
    """
    if not isinstance(text, str) or not text.strip():
        shown = repr(text) if isinstance(text, str) else type(text).__name__
        raise DataError(
            f"a hypothesis is a text such as 'x1 = x2', got {shown}; nested fits are tested by compare_models(fits, test='lr')"
        )
    coefficients = _name_coefficients(columns, outcomes, terms)
    try:
        reader = _Reader(text, coefficients, smooth)
    except DataError as error:
        written = canonical_calls(text)
        if written == text:
            raise
        try:
            reader = _Reader(written, coefficients, smooth)
        except DataError:
            raise error from None
    return reader.restrictions()


def _name_coefficients(
    columns: Sequence[str], outcomes: Sequence[str], terms: Mapping[str, Sequence[int]]
) -> dict[str, "Coefficient"]:
    """Return the numbers of the coefficients by name: each column for one or all outcomes, and each term.

    >>> {name: known.numbers for name, known in _name_coefficients(["x"], ["b", "c"], {}).items()}
    {'x': (0, 1), 'b: x': (0,), 'x: b': (0,), 'c: x': (1,), 'x: c': (1,)}
    """
    m = max(len(outcomes), 1)
    coefficients = dict[str, Coefficient]()
    terms_of_columns = {
        term: tuple(places) for term, places in terms.items() if term not in columns
    }
    for name, places in {
        **terms_of_columns,
        **{c: (j,) for j, c in enumerate(columns)},
    }.items():
        numbers = [[j * m + k for j in places] for k in range(m)]
        by_column = itertools.chain.from_iterable(zip(*numbers))
        coefficients[name] = Coefficient(tuple(by_column), name in terms_of_columns)
        for outcome, outcome_numbers in zip(outcomes, numbers):
            coefficient = Coefficient(tuple(outcome_numbers), name in terms_of_columns)
            coefficients[f"{outcome}: {name}"] = coefficients[f"{name}: {outcome}"] = (
                coefficient
            )
    return coefficients


@dataclass(frozen=True)
class Coefficient:
    """The numbers of the coefficients with one name, in turn; `term` if these are the columns of a term."""

    numbers: tuple[int, ...]
    term: bool = False


def canonical_calls(text: str) -> str:
    """Return a text with its calls spelled as in the names of columns, and its colons without spaces.

    >>> canonical_calls("I( x**2 ) : z = 0")
    'I(x ** 2):z = 0'
    """
    result = ""
    place = 0
    while (call := _CALL.search(text, place)) is not None:
        stop = _find_closing_bracket(text, call.end())
        if stop is None:
            break
        piece = text[call.start() : stop]
        try:
            python = PythonText(piece, inside=True)
            tree = parse_python(python.parts[0], piece)
            piece = Expression(piece, tree, python.alias).written()
        except DataError:
            pass
        result += text[place : call.start()] + piece
        place = stop
    return re.sub(r"\s*:\s*", ":", result + text[place:])


def _find_closing_bracket(text: str, place: int) -> int | None:
    depth = 1
    for token in _WITHIN_CALL.finditer(text, place):
        depth += {"(": 1, ")": -1}.get(token[0], 0)
        if depth == 0:
            return token.end()
    return None


@dataclass
class _Reader:
    """A hypothesis as a syntax tree, where name0_, name1_, ... replace the names of coefficients."""

    text: str
    known: Mapping[str, Coefficient]
    smooth: Iterable[str] = ()
    names: list[str] = field(default_factory=list)

    def __post_init__(self) -> None:
        pieces = list[str]()
        pattern = re.compile(
            rf"(?P<space>\s+)|(?P<name>{self._pattern_of_names()})|(?P<quoted>{QUOTED})|(?P<number>{_NUMBER})|(?P<sign>{_SIGN})|{_WORD}",
            re.DOTALL,
        )
        after_number = False
        for token in pattern.finditer(self.text):
            if token["space"]:
                pieces.append(" ")
                continue
            if token["sign"] or token["number"]:
                pieces.append("==" if token[0] == "=" else token[0])
            else:
                pieces.append("*" * after_number + self._replace_name(token))
            after_number = token["number"] is not None
        self.tree = parse_python("".join(pieces).strip(), self.text, max_depth=math.inf)

    def fail(self, reason: str) -> DataError:
        return DataError(f"the hypothesis {shown_formula(self.text)}: {reason}")

    def _pattern_of_names(self) -> str:
        """Return a regular expression for the names without backquotes, the longest first."""
        patterns = []
        for name in sorted(self.known, key=len, reverse=True):
            first = re.split(r"\W", name)[0]
            quoted = _ARITHMETIC.fullmatch(name) or name.startswith("`")
            if quoted or first not in self.text:
                continue
            parts = r"\s*:\s*".join(re.escape(part.strip()) for part in name.split(":"))
            patterns.append(parts + r"(?!\w)" * bool(re.match(r"\w", name[-1])))
        return f"(?:{'|'.join(patterns)})(?!\\s*:)" if patterns else r"(?!)"

    def _replace_name(self, token: re.Match[str]) -> str:
        written = token[0]
        if token["quoted"]:
            written = unquote_name(written[1:-1])
        name = written
        if name not in self.known:
            name = self._names_by_spelling.get(canonical_calls(written), written)
        if name not in self.known or not (token["name"] or token["quoted"]):
            raise self.fail(
                f"no coefficient is called {shown_formula(written)}{self._hint(written)}"
            )
        if token["name"]:
            self._refuse_ambiguous(name)
        if name in self.smooth:
            raise Incompatible(
                f"the hypothesis {shown_formula(self.text)}: {name} is a smooth function, whose penalised columns have no joint "
                f"test; '{name} is linear' tests its range"
            )
        self.names.append(name)
        return f" name{len(self.names) - 1}_ "

    @cached_property
    def _names_by_spelling(self) -> dict[str, str]:
        """The names, by their spelling without spaces around colons."""
        return {re.sub(r"\s*:\s*", ":", name): name for name in self.known}

    def _refuse_ambiguous(self, name: str) -> None:
        """Raise DataError for a name without backquotes that can also be parsed as a sum of other names."""
        if name in self.names or not re.search(r"[-+*/(),]|^\s*[\d.]", name):
            return
        try:
            other_names = {
                n: coefficient for n, coefficient in self.known.items() if n != name
            }
            reader = _Reader(name, other_names)
            reader.linear(reader.tree)
        except (DataError, Incompatible):
            return
        raise self.fail(
            f"{name!r} is a coefficient and also a sum of others: write the coefficient as {quote_name(name)}, or put spaces "
            "and parentheses into the sum"
        )

    def _hint(self, word: str) -> str:
        factors = sorted(part.strip() for part in word.split(":"))
        matches = [n for n in self.known if sorted(n.split(":")) == factors]
        matches = matches or difflib.get_close_matches(
            word, self.known, n=3, cutoff=0.5
        )
        if matches:
            return f"; did you mean {' or '.join(map(repr, matches))}?"
        names = [*list(self.known)[:12], *["..."] * (len(self.known) > 12)]
        return f"; there are: {', '.join(names)}"

    def restrictions(self) -> list[Restriction]:
        """Return the restrictions: a = b = c means a = b and b = c; a single name means that it is 0."""
        restrictions = list[Restriction]()
        for node in self.tree.elts if isinstance(self.tree, ast.Tuple) else [self.tree]:
            if isinstance(node, ast.Name):
                restrictions += self._expand(self.linear(node), "=")
                continue
            if not isinstance(node, ast.Compare):
                raise self.fail(
                    "it has no relation: write 'x1 = x2', 'x1 = 0, x2 = 0', 'x1 > 0' or a name alone"
                )
            sums = [self.linear(side) for side in (node.left, *node.comparators)]
            for (left, right), op in zip(itertools.pairwise(sums), node.ops):
                restrictions += self._expand(
                    _plus(left, right, -1.0), _RELATIONS[type(op)]
                )
        return restrictions

    def _expand(self, difference: Linear, relation: str) -> list[Restriction]:
        """Return one restriction, or one for each outcome or column of a term if a name covers several."""
        constant = difference.get(None, 0.0)
        used = {n: self.known[n] for n, c in difference.items() if n is not None and c}
        if not all(map(math.isfinite, difference.values())):
            raise self.fail("a number is too large")
        if not used:
            numbers = [
                n for n in self.known if n in self.text and _ARITHMETIC.fullmatch(n)
            ]
            hint = ""
            if numbers:
                hint = f"; the coefficient {numbers[0]} is written {quote_name(numbers[0])}"
            raise self.fail(f"no coefficient is left in one of its relations{hint}")
        term = next((n for n, coefficient in used.items() if coefficient.term), None)
        if len(used) > 1 and term is not None:
            raise self.fail(
                f"the term {term!r} stands for all its columns, alone in its relation, as in '{term} = 0'; name its columns to "
                "compare them"
            )
        restrictions = list[Restriction]()
        for k in range(max(len(coefficient.numbers) for coefficient in used.values())):
            weights = dict[int, float]()
            for name, coefficient in used.items():
                j = coefficient.numbers[k if len(coefficient.numbers) > 1 else 0]
                weights[j] = weights.get(j, 0.0) + difference[name]
            restrictions.append(Restriction(weights, relation, 0.0 - constant))
        return restrictions

    def linear(self, node: ast.expr) -> Linear:
        """Return a node as a sum of multiples of coefficients and a constant."""
        later = list[tuple[ast.operator, ast.expr]]()
        # the tree has one level for each term of the sum
        while isinstance(node, ast.BinOp):
            later.append((node.op, node.right))
            node = node.left
        sign = 1.0
        while isinstance(node, ast.UnaryOp):
            if isinstance(node.op, ast.USub):
                sign = -sign
            node = node.operand
        match node:
            case ast.Name(id=name):
                total: Linear = {self.names[int(name[4:-1])]: sign}
            case ast.Constant(value=int() | float() as number):
                total = {None: sign * float(number)}
            case ast.BinOp():
                total = _plus({}, self.linear(node), sign)
            case _:
                raise self.fail(
                    "a side of a relation is a sum of coefficients and numbers"
                )
        for op, right in reversed(later):
            total = self._combine(total, op, self.linear(right))
        return total

    def _combine(self, left: Linear, op: ast.operator, right: Linear) -> Linear:
        match op:
            case ast.Add():
                return _plus(left, right, 1.0)
            case ast.Sub():
                return _plus(left, right, -1.0)
            case ast.Mult() if set(left) <= {None}:
                return _plus({}, right, left.get(None, 0.0))
            case ast.Mult() if set(right) <= {None}:
                return _plus({}, left, right.get(None, 0.0))
            case ast.Div() if set(right) <= {None}:
                if not right.get(None):
                    raise self.fail("it divides by zero")
                return _plus({}, left, 1.0 / right[None])
        raise self.fail(
            "it is not linear: a coefficient is multiplied or divided by another"
        )


def _plus(a: Linear, b: Linear, factor: float) -> Linear:
    """a + factor b."""
    total = dict(a)
    for name, c in b.items():
        total[name] = total.get(name, 0.0) + factor * c
    return total
