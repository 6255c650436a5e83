"""The text of a hypothesis as linear restrictions: a small grammar, read by hand, nothing is evaluated.

    hypothesis  = restriction ("," restriction)*
    restriction = sum (relation sum)+          relation: = == < > <= >=
    sum         = [sign] product ((+ | -) product)*
    product     = factor ((* | /) factor)*     at most one factor with names in it; a divisor is a number
    factor      = number | [number] name | `name` | "(" sum ")" | sign factor

A name is a coefficient as the fit calls it, brackets, commas and spaces included; the longest that stands at a place is
read. In a model of several outcomes "b: x" and "x: b" are the coefficient of x for outcome b, and a bare "x" stands for
all of them in turn. A term of a formula, such as "C(g)", stands for all its columns in turn, and alone in its relation.
"""

import difflib
import re
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from types import MappingProxyType

import numpy as np

from probreg.errors import DataError, Incompatible

Array = np.ndarray
_NUMBER = re.compile(r"(\d+\.?\d*|\.\d+)([eE][+-]?\d+)?")
_SIGNS = re.compile(r"<=|>=|==|[=<>+\-*/(),]")
_RELATIONS = {"=": "=", "==": "=", "<": "<", ">": ">", "<=": "<", ">=": ">"}
_QUOTED = re.compile(r"`(?:[^`\\]|\\.)*`", re.DOTALL)
_WORD = re.compile(r"[^\s,=<>+*/()`-]+(\s*:\s*[^\s,=<>+*/()`-]+)*")


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
        return f"{self.left(names)} {self.relation} {self.value:.6g}"

    def left(self, names: Sequence[str]) -> str:
        """The linear combination as a text."""
        terms = [(c, names[j]) for j, c in self.weights.items() if c]
        said = " ".join(f"{'-' if c < 0 else '+'} {'' if abs(c) == 1 else f'{abs(c):.6g} '}{name}" for c, name in terms)
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
                whole[f"{o}: {term}"] = whole[f"{term}: {o}"] = tuple(k for c in each for k in alone[f"{o}: {c}"])
        return cls({**whole, **alone}, frozenset(whole), frozenset(smooth))

    def at(self, text: str, place: int) -> str | None:
        """The longest name that stands at this place and is not a part of a longer word."""
        found = [n for n in self.known if n and text.startswith(n, place) and _apart(text, place + len(n), n)]
        return max(found, key=len, default=None)

    def hint(self, word: str) -> str:
        factors = sorted(part.strip() for part in word.split(":"))
        near = [n for n in self.known if sorted(n.split(":")) == factors]
        near = near or difflib.get_close_matches(word, self.known, n=3, cutoff=0.5)
        few = list(self.known) if len(self.known) <= 12 else [*list(self.known)[:12], "..."]
        return f"; did you mean {' or '.join(map(repr, near))}?" if near else f"; there are: {', '.join(few)}"


def _of_columns(columns: Sequence[str], outcomes: Sequence[str]) -> dict[str, tuple[int, ...]]:
    """The numbers of each coefficient by its names, and of each column for all outcomes."""
    if not outcomes:
        return {c: (j,) for j, c in enumerate(columns)}
    m = len(outcomes)
    each = {(c, o): (j * m + k,) for j, c in enumerate(columns) for k, o in enumerate(outcomes)}
    bare = {c: tuple(range(j * m, (j + 1) * m)) for j, c in enumerate(columns)}
    before = {f"{o}: {c}": where for (c, o), where in each.items()}
    return {**before, **{f"{c}: {o}": where for (c, o), where in each.items()}, **bare}


def _apart(text: str, end: int, name: str) -> bool:
    """A name that ends in a letter does not end in the middle of a word, and none before a colon."""
    return end >= len(text) or not (text[end:].lstrip().startswith(":") or (_wordy(name[-1]) and _wordy(text[end])))


def _unquoted(text: str) -> str:
    """A name without its backquotes, as in a formula: \\` is a backquote in it and \\\\ a backslash.

    >>> _unquoted(r"`it\\`s`")
    'it`s'
    """
    quoted = len(text) > 1 and text[0] == text[-1] == "`"
    return re.sub(r"\\([`\\])", r"\1", text[1:-1]) if quoted else text


def _wordy(sign: str) -> bool:
    return sign.isalnum() or sign == "_"


@dataclass(frozen=True)
class HypothesisToken:
    """kind is "number", "name", "end" or the sign itself."""

    kind: str
    text: str
    place: int


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
    if text[place] == "`":
        quoted = _QUOTED.match(text, place)
        if quoted is None or (name := _unquoted(quoted.group())) not in names.known:
            what = f"no coefficient is called {name!r}{names.hint(name)}" if quoted else "a backquote is not closed"
            raise DataError(f"the hypothesis {text!r}: {what}")
        return HypothesisToken("name", quoted.group(), place)
    if (found_name := names.at(text, place)) is not None:
        return HypothesisToken("name", found_name, place)
    if found := _NUMBER.match(text, place):
        return HypothesisToken("number", found.group(), place)
    if found := _SIGNS.match(text, place):
        return HypothesisToken(found.group(), found.group(), place)
    word = found.group() if (found := _WORD.match(text, place)) else text[place]
    raise DataError(f"the hypothesis {text!r}: no coefficient is called {word!r}{names.hint(word)}")


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
        return LinearExpression(c * self.constant, {name: c * v for name, v in self.parts.items()})


@dataclass
class Reader:
    """A recursive descent over the tokens; the only state is the place."""

    text: str
    names: Names
    tokens: list[HypothesisToken]
    i: int = 0

    def restrictions(self) -> list[Restriction]:
        found = self.chain()
        while self.next_is(","):
            self.i += 1
            found += self.chain()
        self.expect("end")
        return found

    def chain(self) -> list[Restriction]:
        """a = b = c is a = b and b = c."""
        start, left, found = self.token.place, self.sum(), []
        while self.token.kind in _RELATIONS:
            relation = _RELATIONS[self.token.kind]
            self.i += 1
            right = self.sum()
            said = self.text[start : self.token.place].strip()
            found += self.expanded(left.plus(right, -1.0), relation, said)
            left = right
        if not found and left.constant == 0.0 and list(left.parts.values()) == [1.0]:  # a name alone is that name = 0
            return self.expanded(left, "=", self.text[start : self.token.place].strip())
        if not found:
            raise DataError(
                f"the hypothesis {self.text!r} has no relation after {self.text[start : self.token.place].strip()!r}: "
                "write 'x1 = x2', 'x1 = 0, x2 = 0', 'x1 > 0' or a name alone"
            )
        return found

    def expanded(self, difference: LinearExpression, relation: str, said: str) -> list[Restriction]:
        """One restriction, or one for each outcome, or column of a term, where names stand for all of them."""
        used = {n: self.names.known[n] for n, c in difference.parts.items() if c}
        if not used:
            raise DataError(f"the hypothesis {self.text!r}: no coefficient is left in {said!r}")
        if len(used) > 1 and (whole := next((n for n in used if n in self.names.terms), None)):
            raise DataError(
                f"the hypothesis {self.text!r}: the term {whole!r} stands for all its columns, alone in its relation, as in "
                f"'{whole} = 0'; name its columns to compare them"
            )
        copies = max(len(where) for where in used.values())
        out = []
        for k in range(copies):
            weights: dict[int, float] = {}
            for name, where in used.items():
                j = where[k] if len(where) > 1 else where[0]
                weights[j] = weights.get(j, 0.0) + difference.parts[name]
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
            sign, place = self.token.kind, self.token.place
            self.i += 1
            other = self.factor()
            if (total.parts and other.parts) or (sign == "/" and other.parts):
                raise DataError(
                    f"the hypothesis {self.text!r} is not linear: {self.text[: place + 1]!r} is followed by a coefficient"
                )
            if sign == "/":
                if other.constant == 0.0:
                    raise DataError(f"the hypothesis {self.text!r} divides by zero")
                total = total.times(1.0 / other.constant)
            else:
                total = other.times(total.constant) if other.parts else total.times(other.constant)
        return total

    def factor(self) -> LinearExpression:
        token = self.token
        self.i += 1
        if token.kind == "number":
            value = float(token.text)
            return self.factor().times(value) if self.token.kind == "name" else LinearExpression(value)
        if token.kind == "name":
            name = _unquoted(token.text)
            if name in self.names.smooth:
                raise Incompatible(
                    f"the hypothesis {self.text!r}: {name} is a smooth function, whose penalised columns have no joint test; "
                    f"'{name} is linear' tests its range"
                )
            return LinearExpression(0.0, {name: 1.0})
        if token.kind in ("+", "-"):
            return self.factor().times(1.0 if token.kind == "+" else -1.0)
        if token.kind == "(":
            inner = self.sum()
            self.expect(")")
            return inner
        raise self.unexpected(token, "a coefficient or a number")

    @property
    def token(self) -> HypothesisToken:
        return self.tokens[self.i]

    def next_is(self, kind: str) -> bool:
        return self.token.kind == kind

    def expect(self, kind: str) -> None:
        if not self.next_is(kind):
            raise self.unexpected(self.token, {"end": "a relation, a comma or the end"}.get(kind, repr(kind)))
        self.i += 0 if kind == "end" else 1

    def unexpected(self, token: HypothesisToken, wanted: str) -> DataError:
        met = repr(token.text) if token.text else "the end"
        return DataError(
            f"the hypothesis {self.text!r}: expected {wanted} and met {met} after {self.text[: token.place]!r}"
        )


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
        met = text if isinstance(text, str | bool | int | float) or text is None else type(text)
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
