"""The text of a hypothesis as linear restrictions: a small grammar, read by hand, nothing is evaluated.

    hypothesis  = restriction ("," restriction)*
    restriction = sum (relation sum)+          relation: = == < > <= >=
    sum         = [sign] product ((+ | -) product)*
    product     = factor ((* | /) factor)*     at most one factor with names in it; a divisor is a number
    factor      = number | [number] name | `name` | "(" sum ")" | sign factor

A name is a coefficient as the fit or the user's formula spells it, brackets, commas and spaces included: "I(x**2)" is
"I(x ** 2)". The longest name at a place is read. A name that reads as arithmetic of numbers, such as "1" or "18-24", and a
name that also reads as a sum of other names are names in backquotes only. In a model of several outcomes "b: x" and "x: b"
are the coefficient of x for outcome b, and a bare "x" stands for all of them in turn. A term of a formula, such as "C(g)",
stands for all its columns in turn, and alone in its relation.
"""

import difflib
import re
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from functools import cached_property
from types import MappingProxyType

import numpy as np

from probreg.errors import DataError, Incompatible
from probreg.formula.expression import Expression
from probreg.formula.text import (
    STRING,
    PythonText,
    parse_python,
    quote_name,
    shown_formula,
)

Array = np.ndarray
_NUMBER = re.compile(r"(\d+(\.\d*)?|\.\d+)([eE][+-]?\d+)?")
_SIGNS = re.compile(r"<=|>=|==|[=<>+\-*/(),]")
_RELATIONS = {"=": "=", "==": "=", "<": "<", ">": ">", "<=": "<", ">=": ">"}
_QUOTED = re.compile(r"`(?:[^`\\]|\\.)*`", re.DOTALL)
_WORD = re.compile(r"[^\s,=<>+*/()`-]+(\s*:\s*[^\s,=<>+*/()`-]+)*")
_OPERATOR = re.compile(
    r"[-+*/(),]|^\s*[\d.]"
)  # without one of these a name has one reading
_CALL = re.compile(r"[^\W\d][\w.]*\s*\(")
_PLAIN = re.compile(r"\w+")
_COLON = re.compile(r"\s*:\s*")
_WITHIN_CALL = re.compile(rf"{STRING}|{_QUOTED.pattern}|[()]", re.DOTALL)
_DEEPEST = 150  # parentheses within parentheses, as in a formula
_SHOWN = 60  # letters before a fault that a message repeats
_ROOM = 100  # letters of spaces and quotes that a user's spelling may have more than the name


@dataclass(frozen=True)
class Restriction:
    """sum_j weights_j beta_j (relation) value."""

    weights: Mapping[int, float]
    relation: str
    value: float

    def words(self, names: Sequence[str]) -> str:
        """The same as a text.

        >>> Restriction({0: 1.0, 1: -2.5}, ">", 3.0).words(["x1", "x2"])
        'x1 - 2.5 x2 > 3'
        """
        return f"{self.format_combination(names)} {self.relation} {self.value:.6g}"

    def format_combination(self, names: Sequence[str]) -> str:
        """Format the linear combination as text."""
        terms = [(c, _quote_name(names[j])) for j, c in self.weights.items() if c]
        said = " ".join(
            f"{'-' if c < 0 else '+'} {'' if abs(c) == 1 else f'{abs(c):.6g} '}{name}"
            for c, name in terms
        )
        return said.removeprefix("+ ")


@dataclass(frozen=True)
class Names:
    """What coefficients may be called, and the numbers of those that each name stands for: one, one per outcome, or those of a term.

    `terms` are the names of terms, and `smooth` those of smooth functions, which have no such restriction.
    """

    known: Mapping[str, tuple[int, ...]]
    terms: frozenset[str] = frozenset()
    smooth: frozenset[str] = frozenset()

    @classmethod
    def of(
        cls, columns: Sequence[str], outcomes: Sequence[str], terms: Mapping[str, Sequence[int]] = MappingProxyType({}),
        smooth: Iterable[str] = (),
    ) -> "Names":  # fmt: skip
        """Coefficients are numbered column first, then outcome; `terms` have the numbers of their columns.

        >>> Names.of(["x"], ["b", "c"]).known
        {'b: x': (0,), 'c: x': (1,), 'x: b': (0,), 'x: c': (1,), 'x': (0, 1)}
        >>> Names.of(["g[b]", "g[c]"], [], {"g": [0, 1]}).known
        {'g': (0, 1), 'g[b]': (0,), 'g[c]': (1,)}
        """
        alone = _of_columns(columns, outcomes)
        whole: dict[str, tuple[int, ...]] = {}
        for term, at in terms.items():
            if term in alone:
                continue
            each = [columns[j] for j in at]
            whole[term] = tuple(k for c in each for k in alone[c])
            for o in outcomes:
                whole[f"{o}: {term}"] = whole[f"{term}: {o}"] = tuple(
                    k for c in each for k in alone[f"{o}: {c}"]
                )
        return cls({**whole, **alone}, frozenset(whole), frozenset(smooth))

    def at(self, text: str, place: int) -> "HypothesisToken | None":
        """The longest name at this place that is not a part of a longer word, spelled as the fit or as the user spells it."""
        found = [
            n
            for n in self._by_letter.get(text[place], ())
            if text.startswith(n, place) and _is_whole_word(text, place + len(n), n)
        ]
        exact = max(found, key=len, default="")
        name, end = self._read_longest_name(text, place)
        if end > place + len(exact):
            return HypothesisToken("name", text[place:end], place, name)
        if exact:
            return HypothesisToken("name", exact, place, exact)
        return None

    def find_coefficient(self, name: str) -> str | None:
        """Return the coefficient with this spelling, with or without backquotes, or None."""
        if name in self.known or not name:
            return name if name in self.known else None
        found, end = self._read_longest_name(name, 0)
        return found if end == len(name.rstrip()) else None

    def refuse_ambiguous(self, name: str) -> None:
        """Raise DataError for a name without backquotes that also reads as a sum of other names."""
        if name not in self._ambiguous:
            others = Names(
                {n: where for n, where in self.known.items() if n != name},
                self.terms,
                self.smooth,
            )
            self._ambiguous[name] = _OPERATOR.search(name) is not None and _is_sum(
                name, others
            )
        if self._ambiguous[name]:
            raise DataError(
                f"{name!r} is a coefficient and also a sum of others: write the coefficient as {quote_name(name)}, or put spaces "
                "and parentheses into the sum"
            )

    @cached_property
    def _ambiguous(self) -> dict[str, bool]:
        return {}

    @cached_property
    def _by_letter(self) -> Mapping[str, list[str]]:
        """The names that need no backquotes, by their first letter."""
        out: dict[str, list[str]] = {}
        for name in self.known:
            if name and name[0] != "`" and not _is_arithmetic(name):
                out.setdefault(name[0], []).append(name)
        return out

    @cached_property
    def _by_spelling(self) -> Mapping[str, str]:
        """The names by their factors, joined by colons without spaces."""
        return {
            _COLON.sub(":", name): name
            for names in self._by_letter.values()
            for name in names
        }

    @cached_property
    def _longest(self) -> int:
        """The greatest length of a factor that can still be one of the names, spaces included."""
        return _ROOM + 2 * max(map(len, self.known), default=0)

    def _read_longest_name(self, text: str, place: int) -> tuple[str, int]:
        """Return the longest name formed by the factors at this place, in the formula's own spelling, and its end."""
        best = ""
        end = place
        factors = list[str]()
        while (factor := _read_factor(text, place, self._longest)) is not None:
            written, place = factor
            factors.append(written)
            name = self._by_spelling.get(":".join(factors))
            if name and _is_whole_word(text, place, name):
                best, end = name, place
            colon = _COLON.match(text, place)
            if colon is None:
                break
            place = colon.end()
        return best, end

    def hint(self, word: str) -> str:
        factors = sorted(part.strip() for part in word.split(":"))
        near = [n for n in self.known if sorted(n.split(":")) == factors]
        near = near or difflib.get_close_matches(word, self.known, n=3, cutoff=0.5)
        if len(self.known) <= 12:
            few = list(self.known)
        else:
            few = [*list(self.known)[:12], "..."]
        if near:
            return f"; did you mean {' or '.join(map(repr, near))}?"
        return f"; there are: {', '.join(few)}"


def _of_columns(
    columns: Sequence[str], outcomes: Sequence[str]
) -> dict[str, tuple[int, ...]]:
    """The numbers of each coefficient by its names, and of each column for all outcomes."""
    if not outcomes:
        return {c: (j,) for j, c in enumerate(columns)}
    m = len(outcomes)
    each = {
        (c, o): (j * m + k,)
        for j, c in enumerate(columns)
        for k, o in enumerate(outcomes)
    }
    bare = {c: tuple(range(j * m, (j + 1) * m)) for j, c in enumerate(columns)}
    before = {f"{o}: {c}": where for (c, o), where in each.items()}
    return {**before, **{f"{c}: {o}": where for (c, o), where in each.items()}, **bare}


def _read_factor(text: str, place: int, longest: int) -> tuple[str, int] | None:
    """A factor of at most so many letters at this place as a formula files it, with its level or part in brackets, and where
    it ends.

    >>> _read_factor("I( x**2 ) = 0", 0, 100), _read_factor('C(g,Treatment("a"))[T.b]', 0, 100)
    (('I(x ** 2)', 9), ("C(g, Treatment('a'))[T.b]", 24))
    """
    if text.startswith("`", place):
        met = _QUOTED.match(text, place)
        if met is None:
            return None
        written = _unquote_name(met.group())
        end = met.end()
    elif (met := _CALL.match(text, place)) is not None:
        end = _find_closing(text, met.end(), place + longest)
        try:
            python = PythonText(text[place:end], inside=True)
            tree = parse_python(python.parts[0], text)
            written = Expression(text, tree, python.alias).written()
        except DataError:
            return None
    elif (met := _PLAIN.match(text, place)) is not None:
        written = met.group()
        end = met.end()
    else:
        return None
    if text.startswith("[", end) and (close := text.find("]", end)) > 0:
        return written + text[end : close + 1], close + 1
    return written, end


def _find_closing(text: str, place: int, last: int) -> int:
    """Return the place after the matching parenthesis, or `place` if there is none up to `last`."""
    depth = 1
    for met in _WITHIN_CALL.finditer(text, place, last):
        depth += {"(": 1, ")": -1}.get(met.group(), 0)
        if depth == 0:
            return met.end()
    return place


def _is_arithmetic(name: str) -> bool:
    """Whether a name consists of numbers and signs, which a hypothesis reads as such.

    >>> _is_arithmetic("18-24"), _is_arithmetic("x1"), _is_arithmetic("-")
    (True, False, True)
    """
    place = 0
    while place < len(name):
        found = _NUMBER.match(name, place) or _SIGNS.match(name, place)
        if found is None and not name[place].isspace():
            return False
        place = found.end() if found else place + 1
    return True


def _is_sum(text: str, names: Names) -> bool:
    """Whether a text is a sum of these names and numbers, as far as its syntax goes."""
    try:
        Reader(text, names, list(hypothesis_tokens(text, names))).whole_sum()
    except (DataError, Incompatible):
        return False
    return True


def _quote_name(name: str) -> str:
    """Return the spelling of a name in a hypothesis: in backquotes where it reads as a number."""
    if not name or _is_arithmetic(name):
        return quote_name(name)
    return name


def _is_whole_word(text: str, end: int, name: str) -> bool:
    """Return whether a name ends at a word boundary, and not before a colon."""
    return end >= len(text) or not (
        text[end:].lstrip().startswith(":") or (_wordy(name[-1]) and _wordy(text[end]))
    )


def _unquote_name(text: str) -> str:
    """Return a name without its backquotes, as in a formula: \\` is a backquote in it and \\\\ a backslash.

    >>> _unquote_name(r"`it\\`s`")
    'it`s'
    """
    quoted = len(text) > 1 and text[0] == text[-1] == "`"
    if quoted:
        return re.sub(r"\\([`\\])", r"\1", text[1:-1])
    return text


def _wordy(sign: str) -> bool:
    return sign.isalnum() or sign == "_"


@dataclass(frozen=True)
class HypothesisToken:
    """kind is "number", "name", "end" or the sign itself; `name` is the coefficient's name in the fit."""

    kind: str
    text: str
    place: int
    name: str = ""


def hypothesis_tokens(text: str, names: Names) -> Iterator[HypothesisToken]:
    """The text cut into numbers, names and signs. DataError names what is neither."""
    place = 0
    while place < len(text):
        if text[place].isspace():
            place += 1
            continue
        token = _token(text, place, names)
        yield token
        place += len(token.text)
    yield HypothesisToken("end", "", len(text))


def _token(text: str, place: int, names: Names) -> HypothesisToken:
    token = names.at(text, place)
    if token is not None:
        if not token.text.startswith("`"):
            names.refuse_ambiguous(token.name)
        return token
    if text[place] == "`":
        closed = _QUOTED.match(text, place)
        if closed is None:
            raise DataError(
                f"the hypothesis {shown_formula(text)}: a backquote is not closed"
            )
        name = names.find_coefficient(word := _unquote_name(closed.group()))
        if name is None:
            raise _unknown_name_error(text, word, names)
        return HypothesisToken("name", closed.group(), place, name)
    found = _NUMBER.match(text, place)
    if found:
        if not np.isfinite(float(found.group())):
            raise DataError(
                f"the hypothesis {shown_formula(text)}: {shown_formula(found.group())} is too large a number"
            )
        return HypothesisToken("number", found.group(), place)
    found = _SIGNS.match(text, place)
    if found:
        return HypothesisToken(found.group(), found.group(), place)
    raise _unknown_name_error(
        text,
        found.group() if (found := _WORD.match(text, place)) else text[place],
        names,
    )


def _unknown_name_error(text: str, word: str, names: Names) -> DataError:
    return DataError(
        f"the hypothesis {shown_formula(text)}: no coefficient is called {shown_formula(word)}{names.hint(word)}"
    )


@dataclass(frozen=True)
class LinearExpression:
    """constant + sum of factors times names."""

    constant: float = 0.0
    parts: Mapping[str, float] = field(default_factory=dict)

    def plus(self, other: "LinearExpression", sign: float = 1.0) -> "LinearExpression":
        parts = dict(self.parts)
        for name, c in other.parts.items():
            parts[name] = parts.get(name, 0.0) + sign * c
        return LinearExpression(self.constant + sign * other.constant, parts)

    def times(self, c: float) -> "LinearExpression":
        return LinearExpression(
            c * self.constant, {name: c * v for name, v in self.parts.items()}
        )


@dataclass
class Reader:
    """A recursive descent over the tokens; the only state is the place."""

    text: str
    names: Names
    tokens: list[HypothesisToken]
    i: int = 0
    depth: int = 0

    def whole_sum(self) -> LinearExpression:
        found = self.sum()
        self.expect("end")
        return found

    def restrictions(self) -> list[Restriction]:
        found = self.chain()
        while self.next_is(","):
            self.i += 1
            found += self.chain()
        self.expect("end")
        return found

    def chain(self) -> list[Restriction]:
        """a = b = c is a = b and b = c."""
        start = self.token.place
        left = self.sum()
        found = []
        while self.token.kind in _RELATIONS:
            relation = _RELATIONS[self.token.kind]
            self.i += 1
            right = self.sum()
            said = self.text[start : self.token.place].strip()
            found += self.expand_restriction(left.plus(right, -1.0), relation, said)
            left = right
        if (
            not found and left.constant == 0.0 and list(left.parts.values()) == [1.0]
        ):  # a name alone is that name = 0
            return self.expand_restriction(
                left, "=", self.text[start : self.token.place].strip()
            )
        if not found:
            raise DataError(
                f"the hypothesis {shown_formula(self.text)} has no relation after {_end_of(self.text[start : self.token.place])}: "
                "write 'x1 = x2', 'x1 = 0, x2 = 0', 'x1 > 0' or a name alone"
            )
        return found

    def expand_restriction(
        self, difference: LinearExpression, relation: str, said: str
    ) -> list[Restriction]:
        """Return one restriction, or one for each outcome or column of a term if a name covers several."""
        used = {n: self.names.known[n] for n, c in difference.parts.items() if c}
        if not used:
            numbers = [
                n for n in self.names.known if n and _is_arithmetic(n) and n in said
            ]
            if numbers:
                hint = f"; the coefficient {numbers[0]} is written {quote_name(numbers[0])}"
            else:
                hint = ""
            raise DataError(
                f"the hypothesis {shown_formula(self.text)}: no coefficient is left in {shown_formula(said)}{hint}"
            )
        if len(used) > 1 and (
            whole := next((n for n in used if n in self.names.terms), None)
        ):
            raise DataError(
                f"the hypothesis {shown_formula(self.text)}: the term {whole!r} stands for all its columns, alone in its relation, as in "
                f"'{whole} = 0'; name its columns to compare them"
            )
        copies = max(len(where) for where in used.values())
        out = []
        for k in range(copies):
            weights: dict[int, float] = {}
            for name, where in used.items():
                j = where[k] if len(where) > 1 else where[0]
                weights[j] = weights.get(j, 0.0) + difference.parts[name]
            if not np.isfinite([*weights.values(), difference.constant]).all():
                raise DataError(
                    f"the hypothesis {shown_formula(self.text)}: a factor or a constant is too large a number"
                )
            out.append(Restriction(weights, relation, 0.0 - difference.constant))
        return out

    def sum(self) -> LinearExpression:
        total = self.product()
        while self.token.kind in ("+", "-"):
            sign = 1.0 if self.token.kind == "+" else -1.0
            self.i += 1
            total = total.plus(self.product(), sign)
        return total

    def product(self) -> LinearExpression:
        total = self.factor()
        while self.token.kind in ("*", "/"):
            sign = self.token.kind
            place = self.token.place
            self.i += 1
            other = self.factor()
            if (total.parts and other.parts) or (sign == "/" and other.parts):
                raise DataError(
                    f"the hypothesis {shown_formula(self.text)} is not linear: {_end_of(self.text[: place + 1])} is followed by a coefficient"
                )
            if sign == "/":
                if other.constant == 0.0:
                    raise DataError(
                        f"the hypothesis {shown_formula(self.text)} divides by zero"
                    )
                total = total.times(1.0 / other.constant)
            else:
                if other.parts:
                    total = other.times(total.constant)
                else:
                    total = total.times(other.constant)
        return total

    def factor(self) -> LinearExpression:
        sign = 1.0
        while self.token.kind in ("+", "-"):
            sign *= 1.0 if self.token.kind == "+" else -1.0
            self.i += 1
        if sign < 0:
            return self.parse_unsigned().times(sign)
        return self.parse_unsigned()

    def parse_unsigned(self) -> LinearExpression:
        token = self.token
        self.i += 1
        if token.kind == "number":
            value = float(token.text)
            if self.token.kind == "name":
                return self.parse_unsigned().times(value)
            return LinearExpression(value)
        if token.kind == "name":
            name = token.name
            if name in self.names.smooth:
                raise Incompatible(
                    f"the hypothesis {shown_formula(self.text)}: {name} is a smooth function, whose penalised columns have no joint "
                    f"test; '{name} is linear' tests its range"
                )
            return LinearExpression(0.0, {name: 1.0})
        if token.kind == "(":
            self.depth += 1
            if self.depth > _DEEPEST:
                raise DataError(
                    f"the hypothesis {shown_formula(self.text)} nests more than {_DEEPEST} parentheses"
                )
            inner = self.sum()
            self.expect(")")
            self.depth -= 1
            return inner
        raise self.unexpected_token_error(token, "a coefficient or a number")

    @property
    def token(self) -> HypothesisToken:
        return self.tokens[self.i]

    def next_is(self, kind: str) -> bool:
        return self.token.kind == kind

    def expect(self, kind: str) -> None:
        if not self.next_is(kind):
            raise self.unexpected_token_error(
                self.token,
                {"end": "a relation, a comma or the end"}.get(kind, repr(kind)),
            )
        self.i += 0 if kind == "end" else 1

    def unexpected_token_error(self, token: HypothesisToken, wanted: str) -> DataError:
        if token.text:
            met = shown_formula(token.text)
        else:
            met = "the end"
        return DataError(
            f"the hypothesis {shown_formula(self.text)}: expected {wanted} and met {met} after {_end_of(self.text[: token.place])}"
        )


def _end_of(text: str) -> str:
    """A text as a message repeats it: its end, where it is long."""
    text = text.strip()
    if len(text) <= _SHOWN:
        return repr(text)
    return f"... {text[-_SHOWN:]!r}"


def parse(
    text: str, columns: Sequence[str], outcomes: Sequence[str] = (), *, terms: Mapping[str, Sequence[int]] = MappingProxyType({}),
    smooth: Iterable[str] = (),
) -> list[Restriction]:  # fmt: skip
    """The restrictions of a text, coefficients numbered column first, then outcome. DataError for what is no such text.

    >>> for r in parse("x1 + 2*x2 = 3, x1 = `C(g)[T.b]`", ["x1", "x2", "C(g)[T.b]"]): print(dict(r.weights), r.relation, r.value)
    {0: 1.0, 1: 2.0} = 3.0
    {0: 1.0, 2: -1.0} = 0.0
    """
    if not isinstance(text, str) or not text.strip():
        if isinstance(text, str | bool | int | float) or text is None:
            met = text
        else:
            met = type(text)
        raise DataError(
            f"a hypothesis is a text such as 'x1 = x2', got {met!r}; nested fits are tested by compare_models(fits, test='lr')"
        )
    names = Names.of(columns, outcomes, terms, smooth)
    return Reader(text, names, list(hypothesis_tokens(text, names))).restrictions()


def matrix(restrictions: Sequence[Restriction], size: int) -> tuple[Array, Array]:
    """L (q, size) and r (q,) with L beta (relation) r."""
    L = np.zeros((len(restrictions), size))
    for i, one in enumerate(restrictions):
        for j, c in one.weights.items():
            L[i, j] = c
    return L, np.array([one.value for one in restrictions])
