r"""The text of a formula as Python, so that Python's own parser reads it.

    formula              Python
    `a b`, a.b, class    name0_, ...         names that Python does not have
    a + b - c            a, b, not c         the terms of a sum
    a:b                  a ** b              which binds tighter than * and /
    a^2, a**2            a[2]                a power of terms
    (x | g), (x || g)    ((x) | (g)), ((x) ^ (g))
    .                    ...
    y ~ x                two texts

In the brackets of a call and in braces everything is Python already, and only names are replaced.
"""

import ast
import keyword
import re
from collections.abc import Mapping

from probreg.errors import DataError

STRING = r""""(?:\\.|[^"\\])*"|'(?:\\.|[^'\\])*'"""
QUOTED = r"`(?:[^`\\]|\\.)*`"
_TOKEN = re.compile(
    rf"(?P<space>\s+)|(?P<quoted>{QUOTED})|(?P<text>{STRING})|(?P<word>[\w.]+)|(?P<power>(?:\*\*|\^)\s*(?P<n>[A-Za-z0-9_]*))|\|\||.",
    re.DOTALL,
)
_PLAIN = re.compile(r"[A-Za-z_][A-Za-z0-9_]*")
_NUMBER = re.compile(r"[0-9]+\.?[0-9]*|\.[0-9]+")
# words of Python that no expression has, so that they are columns, such as "class" and "from"
_STATEMENTS = {*keyword.kwlist} - {"and", "or", "not", "in", "is", "if", "else", "True", "False", "None"}  # fmt: skip
_SIGNS = {":": "**", "*": "*", "/": "/"}


def quote_name(name: str) -> str:
    r"""A name between backquotes; a backquote in it is written \` and a backslash \\.

    >>> print(quote_name("dose (mg)"), quote_name("a`b"))
    `dose (mg)` `a\`b`
    """
    return "`" + name.replace("\\", "\\\\").replace("`", "\\`") + "`"


def unquote_name(inside: str) -> str:
    r"""Return the name that the text between two backquotes means; a backslash before another letter is itself.

    >>> unquote_name(quote_name("a`b\\")[1:-1])
    'a`b\\'
    """
    return re.sub(r"\\([`\\])", r"\1", inside)


def column_written(name: str) -> str:
    """Return a column name as written in a formula.

    >>> column_written("x1"), column_written("1")
    ('x1', '`1`')
    """
    return name if _PLAIN.fullmatch(name) else quote_name(name)


def shown_formula(text: str) -> str:
    """Shorten a formula for a message."""
    max_length = 120  # letters of a formula or term in a message
    if len(text) <= max_length:
        return repr(text)
    return f"{text[:max_length]!r} ... ({len(text)} letters)"


def first_line(error: BaseException) -> str:
    """The first line of the message of an error."""
    lines = str(error).strip().splitlines()
    return (lines[0] if lines else type(error).__name__).rstrip(".")


def is_plain_name(name: str) -> bool:
    """Return whether Python parses the text as exactly this name."""
    plain = _PLAIN.fullmatch(name) is not None
    return plain and not name.startswith("_") and not keyword.iskeyword(name)


class PythonText:
    """Rewrite a text as Python; `inside` a call only names are replaced.

    `names` has the Python name for each name, `dots` the places of `.` in the formula; `parts` are the Python texts of the
    sides of `~`, and `ends` the places where they end.
    """

    def __init__(self, text: str, inside: bool = False) -> None:
        if not isinstance(text, str):
            raise DataError(
                f"a formula is a text such as 'y ~ x'; got {type(text).__name__}"
            )
        self.text = text
        self.inside = inside
        self.names = dict[str, str]()
        self.dots = list[int]()
        self.parts = list[str]()
        self.ends = list[int]()
        self.out = list[str]()
        # for each open bracket: its place in `out`, whether it belongs to a call, and whether it contains a bar
        self.open = list[list[int]]()
        self.operand = False  # the last token ends a term
        self.stem = "name"
        while self.stem in self.text:
            self.stem += "_"
        for token in _TOKEN.finditer(self.text):
            if token["space"]:
                self.out.append(" ")
            elif token["quoted"]:
                self._put(self._replace_name(unquote_name(token[0][1:-1])))
            elif token["text"]:
                self._put(token[0])
            elif token[0] in "([{":
                self._open_bracket(token)
            elif token[0] in ")]}":
                self._close_bracket(token)
            elif self._in_call:
                is_name = token["word"] and (
                    not token[0].isascii() or token[0] in _STATEMENTS
                )
                self.out.append(self._replace_name(token[0]) if is_name else token[0])
            elif token["word"]:
                self._add_word(token)
            else:
                self._add_sign(token)
        self._end_part(len(self.text))

    @property
    def alias(self) -> dict[str, str]:
        """The original names, by the Python names that replace them."""
        return {python: name for name, python in self.names.items()}

    def fail(self, reason: str, place: int) -> DataError:
        """Return the error for a text that does not follow the grammar."""
        where = f" at letter {place + 1}" if place < len(self.text) else ""
        return DataError(
            f"the formula {shown_formula(self.text)} cannot be read: {reason}{where}"
        )

    def _put(self, term: str) -> None:
        self.out.append(term)
        self.operand = True

    def _replace_name(self, name: str) -> str:
        """Return the Python name for a name."""
        return f" {self.names.setdefault(name, f'{self.stem}{len(self.names)}_')} "

    def _add_word(self, token: re.Match[str]) -> None:
        word = token[0]
        if word == ".":
            self.dots.append(token.start())
            self._put("...")
        elif (
            _NUMBER.fullmatch(word)
            or is_plain_name(word)
            or word.startswith(("np.", "contr."))
        ):
            self._put(word)
        else:
            self._put(self._replace_name(word))

    @property
    def _in_call(self) -> int:
        """Whether the innermost open bracket belongs to a call; `inside` if no bracket is open."""
        if self.open:
            return self.open[-1][1]
        return self.inside

    def _open_bracket(self, token: re.Match[str]) -> None:
        max_depth = 50  # brackets within brackets
        inside = self._in_call
        if token[0] == "[" and not inside:
            raise self.fail("'[' is no part of a formula", token.start())
        call = inside or token[0] == "{" or self.operand
        self.open.append([len(self.out), call, False])
        self.out.append(token[0])
        self.operand = False
        if len(self.open) > max_depth:
            raise self.fail(f"brackets more than {max_depth} deep", token.start())

    def _close_bracket(self, token: re.Match[str]) -> None:
        if not self.open:
            raise self.fail(f"{token[0]!r} closes no bracket", token.start())
        _, call, bar = self.open.pop()
        if not call:
            self._require_operand(token.start())
        self._put("))" if bar else token[0])

    def _require_operand(self, place: int) -> None:
        if not self.operand:
            raise self.fail("a term is expected", place)

    def _add_sign(self, token: re.Match[str]) -> None:
        """Add an operator between terms."""
        sign = token[0]
        if sign in "+-":
            self.out.append(", " * self.operand + "not " * (sign == "-"))
        elif token["power"]:
            self._require_operand(token.start())
            if not token["n"].isdigit():
                raise self.fail(
                    "a power of terms is a whole number, as in (a + b)**2; of a number, I(x**2)",
                    token.start(),
                )
            self._put(f"[{token['n'].lstrip('0') or '0'}]")
            return
        elif sign in ("|", "||"):
            self._add_bar(token)
        elif sign == "~" and not self.open:
            self._end_part(token.start())
        elif sign in _SIGNS:
            self._require_operand(token.start())
            self.out.append(_SIGNS[sign])
        else:
            hint = "is not closed" if sign in "`'\"" else "is no part of a formula"
            if sign == "%":
                hint += " (b %in% a is written a/b)"
            if sign == "=" and not self.open:
                hint += " (write y ~ x, and a comparison as I(g == 'a'))"
            raise self.fail(f"{sign!r} {hint}", token.start())
        self.operand = False

    def _add_bar(self, token: re.Match[str]) -> None:
        if not self.open:
            raise DataError(
                f"{shown_formula(self.text)} has a bar outside brackets; effects that vary by a group are written (1 | g) or (x | g)"
            )
        self._require_operand(token.start())
        start, _, bar = self.open[-1]
        if bar:
            raise self.fail("a second '|' in one bracket", token.start())
        self.open[-1][2] = True
        self.out[start] = "(("
        self.out.append(")|(" if token[0] == "|" else ")^(")

    def _end_part(self, place: int) -> None:
        if self.open:
            raise self.fail("a bracket is not closed", place)
        part = "".join(self.out).strip()
        if part and not self.inside:
            self._require_operand(place)
        self.parts.append(part)
        self.ends.append(place)
        self.out = []
        self.operand = False


def parse_python(written: str, source: str, max_depth: float = 150) -> ast.expr:
    """Return the syntax tree of a Python expression; `source` is the text that messages repeat.

    Operations within operations are at most `max_depth` deep.
    """
    try:
        tree = ast.parse(written, mode="eval").body
    except (SyntaxError, ValueError, RecursionError, MemoryError) as error:
        reason = error.msg if isinstance(error, SyntaxError) else first_line(error)
        raise DataError(f"{shown_formula(source)} cannot be read: {reason}") from None
    level = list[ast.AST]([tree])
    depth = 0
    while level:  # operations within operations, level by level
        level = [child for node in level for child in ast.iter_child_nodes(node)]
        depth += 1
    if depth > max_depth:
        raise DataError(
            f"{shown_formula(source)} nests operations {depth} deep; at most {max_depth} are computed"
        )
    return tree


def rewrite_names(written: str, alias: Mapping[str, str]) -> str:
    """Return a Python text with the names in `alias` written as in a formula."""

    def restore(word: re.Match[str]) -> str:
        name = alias.get(word[0])
        if name is None:
            return word[0]
        return name if is_plain_name(name) else quote_name(name)

    return re.sub(r"\w+", restore, written)
