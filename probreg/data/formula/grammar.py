"""The grammar of one factor of a formula: how it is spelled, what it may say, and its values at the rows of a table.

The tables below are the whole language. A factor such as `bs(log(dose), df=4)` is parsed by `ast`, refused with its name and
reason if any node of it is not in the tables, and computed by walking its tree. No text is ever handed to `eval` and no
attribute is ever looked up by a name that is not in a table. Functions and columns live in different tables, so a column
called `log` cannot stand in for the function.
"""

import ast
import difflib
import keyword
import operator
import re
from collections.abc import Callable, Iterable, Iterator, Mapping, MutableMapping
from dataclasses import dataclass, field
from typing import Any

import numpy as np

from probreg.data.formula.columns import EXACT, Table, first_text, kind_of
from probreg.data.formula.contrasts import Contrast
from probreg.data.formula.transforms import TRANSFORMS, Basis
from probreg.data.terms.process import (
    PROCESS_WORDS,
    learned_process,
    process_in,
    refuse_holding,
)
from probreg.data.terms.term import learned_term, term_of
from probreg.errors import DataError

# ---- the language ------------------------------------------------------------------------------------------------------

ONE = (
    "log", "log10", "log2", "log1p", "exp", "expm1", "sqrt", "square", "abs", "sign", "floor", "ceil", "round", "sin", "cos",
    "tan", "arcsin", "arccos", "arctan", "sinh", "cosh", "tanh", "arcsinh", "arccosh", "arctanh",
)  # fmt: skip
TWO = ("power", "minimum", "maximum", "arctan2", "hypot")
THREE = ("clip", "where")
ARITY = dict.fromkeys(ONE, 1) | dict.fromkeys(TWO, 2) | dict.fromkeys(THREE, 3)
ELEMENTWISE: dict[str, Callable[..., Any]] = {name: getattr(np, name) for name in ARITY}
ARITHMETIC: dict[type[ast.AST], Callable[[Any, Any], Any]] = {
    ast.Add: operator.add, ast.Sub: operator.sub, ast.Mult: operator.mul, ast.Div: operator.truediv, ast.Pow: operator.pow,
    ast.Lt: operator.lt, ast.LtE: operator.le, ast.Gt: operator.gt, ast.GtE: operator.ge, ast.Eq: operator.eq,
    ast.NotEq: operator.ne,
}  # fmt: skip
SPLINE = ("df", "knots", "lower_bound", "upper_bound", "extrapolation")
# Stateful transforms: what they learn from the training rows is kept, and used again at new rows.
STATEFUL: dict[str, tuple[str, ...]] = {
    "poly": ("degree", "raw"),
    "bs": (*SPLINE, "degree", "include_intercept"),
    "cr": (*SPLINE, "constraints"),
    "cc": (*SPLINE, "constraints"),
    "scale": ("center", "scale", "ddof"),
    "center": (),
}
CONTRASTS: dict[str, tuple[str, ...]] = {
    "treatment": ("base",), "SAS": ("base",), "sum": (), "helmert": ("reverse", "scale"), "diff": ("backward",),
    "poly": ("scores",),
}  # fmt: skip
# Contrasts as patsy and statsmodels spell them: Treatment("b") is contr.treatment("b").
PATSY = {"Treatment": "treatment", "Sum": "sum"}
# Smooth functions: terms by themselves, of one column or more, and then these words; `by` is a column, the others literals.
SMOOTHS: dict[str, tuple[str, ...]] = {"s": ("k", "bs", "by"), "t2": ("k",)}
# Terms by themselves, of several columns: these, and Gaussian processes.
STANDALONE = SMOOTHS | {"gp": PROCESS_WORDS}
# What takes one column, and then literals by these words.
WORDS = STATEFUL | {"C": ("contrasts", "levels", "spans_intercept")}
# The places of the arguments that say how many columns a basis has.
SIZES = {
    "poly": ("degree",),
    "bs": ("df", "knots", "degree"),
    "cr": ("df",),
    "cc": ("df",),
}
# Functions that other packages' formulas have, and how this one says the same; {0}, {1} are the arguments.
ELSEWHERE = {
    "factor": "C({0})", "ordered": "C({0}), of a column that declares the order of its categories", "as_factor": "C({0})",
    "as_numeric": "{0}, of a column of numbers", "lo": "s({0})", "loess": "s({0})",
    "cbind": "p({0}, trials) for successes of trials, or counts(a, b, c) for classes", "Q": "`{0}`", "ifelse": "where({0}, {1}, {2})",
    "pmin": "minimum({0}, {1})", "pmax": "maximum({0}, {1})", "min": "minimum({0}, {1}), row by row",
    "max": "maximum({0}, {1}), row by row", "relevel": "C({0}, contr.treatment('base level'))",
    "interaction": "{0}:{1}, or {0}*{1} with main effects", "pow": "I({0}**{1})", "logit": "log({0}/(1 - {0}))",
    "qlogis": "log({0}/(1 - {0}))", "plogis": "I(1/(1 + exp(-{0})))", "expit": "I(1/(1 + exp(-{0})))", "ceiling": "ceil({0})",
    "trunc": "I(sign({0})*floor(abs({0})))", "standardize": "scale({0})", "zscore": "scale({0})", "demean": "center({0})",
    "bool": "I({0} != 0)", "strata": "C({0})", "re": "(1 | {0})", "mo": "C({0})", "identity": "I({0})",
}  # fmt: skip
# What no function of a formula does: a column of the data holds it.
COLUMN_FIRST = {
    "cut": "pandas.cut(data['{0}'], bins)", "qcut": "pandas.qcut(data['{0}'], q)", "lag": "data['{0}'].shift(1)",
    "diff": "data['{0}'].diff()", "rank": "data['{0}'].rank()", "mean": "data['{0}'].mean()", "month": "data['{0}'].dt.month",
    "year": "data['{0}'].dt.year", "weekday": "data['{0}'].dt.weekday", "is_na": "data['{0}'].isna()", "isnull": "data['{0}'].isnull()",
    "str": "data['{0}'].astype(str)", "int": "data['{0}'].astype(int)", "float": "data['{0}'].astype(float)",
}  # fmt: skip
_DOTTED = {
    "as.factor": "as_factor", "as.ordered": "ordered", "as.numeric": "as_numeric", "as.integer": "as_numeric",
    "as.character": "as_factor", "as.logical": "bool", "is.na": "is_na",
}  # fmt: skip
# Operators within a term, and how they are written.
OPERATORS: dict[type[ast.AST], str] = {
    ast.BitXor: "a power is **, as in I(x**2)", ast.BitAnd: "two comparisons together are I((a > 1)*(b > 1))",
    ast.BitOr: "one comparison or the other is I(maximum(a > 1, b > 1))", ast.And: "two comparisons together are I((a > 1)*(b > 1))",
    ast.Or: "one comparison or the other is I(maximum(a > 1, b > 1))", ast.FloorDiv: "it is floor(a/b)",
    ast.Compare: "one comparison stands by itself; two together are I((a > 1)*(b > 1))", ast.Mod: "it is I(a - b*floor(a/b))", ast.Not: "it is I(1 - (a > 1))", ast.Invert: "it is I(1 - (a > 1))",
}  # fmt: skip
MOST_BASIS = 1_000  # columns of one basis; degrees and degrees of freedom
DEEPEST = 150  # operations within operations of one term
_SHOWN = 120  # letters of a formula or term that a message repeats

NAME = r"`((?:[^`\\]|\\.)*)`"
STRING = r""""(?:\\.|[^"\\])*"|'(?:\\.|[^'\\])*'"""
# a text; a name in backquotes; a plain word with letters beyond ASCII, which Python would read as their look-alikes
_WITHIN = re.compile(rf"({STRING})|{NAME}|([^\W\d]\w*)", re.DOTALL)
_WORD = re.compile(r"[A-Za-z_][A-Za-z0-9_]*")

# ---- spelling ----------------------------------------------------------------------------------------------------------


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
    """A column as a formula writes it.

    >>> column_written("x1"), column_written("1")
    ('x1', '`1`')
    """
    return name if _WORD.fullmatch(name) else quote_name(name)


def shown_formula(text: str) -> str:
    """A formula as messages repeat it: its beginning, where it is long."""
    if len(text) <= _SHOWN:
        return repr(text)
    return f"{text[:_SHOWN]!r} ... ({len(text)} letters)"


def first_line(error: BaseException) -> str:
    """The first line of another library's message, without its colours."""
    lines = re.sub(r"\x1b\[[0-9;]*m|[⧛⧚]", "", str(error)).strip().splitlines()
    return (lines[0] if lines else type(error).__name__).rstrip(".")


# ---- one expression ----------------------------------------------------------------------------------------------------

State = MutableMapping[str, dict[str, Any]]


@dataclass(frozen=True)
class Expression:
    """One piece of a formula: its text, its syntax tree, and the columns its names stand for."""

    text: str
    tree: ast.expr
    alias: Mapping[str, str] = field(default_factory=dict)

    @property
    def variables(self) -> tuple[str, ...]:
        """The columns it reads, in order of appearance."""
        return tuple(
            dict.fromkeys(
                self.alias.get(name, name) for name in _column_names(self.tree)
            )
        )

    @property
    def column(self) -> str | None:
        """The name of the column it consists of, if it is one column as it stands."""
        if isinstance(self.tree, ast.Name):
            return self.alias.get(self.tree.id, self.tree.id)
        return None

    @property
    def category(self) -> str | None:
        """The column whose levels it has as a factor: the column itself, or the one within C(...)."""
        if self.coding:
            node = self.coding.args[0]
        else:
            node = self.tree
        if isinstance(node, ast.Name):
            return self.alias.get(node.id, node.id)
        return None

    def is_truth(self, columns: Mapping[str, Any]) -> bool:
        """Whether its values are True and False in these columns: a comparison, or a column of them, within I(...) and C(...) too.

        >>> parse_expression("I(x > 20)").is_truth({}), parse_expression("I(x + 20)").is_truth({})
        (True, False)
        """
        node: ast.AST = self.tree
        while isinstance(node, ast.Call) and function_of(node) in ("I", "C"):
            node = node.args[0]
        if isinstance(node, ast.Name):
            return kind_of(columns[self.alias.get(node.id, node.id)]) == "truth"
        return isinstance(node, ast.Compare)

    @property
    def coding(self) -> ast.Call | None:
        """The `C(...)` it consists of, if it does."""
        if isinstance(self.tree, ast.Call) and function_of(self.tree) == "C":
            return self.tree
        return None

    @property
    def smooth(self) -> ast.Call | None:
        """The smooth function it consists of, if it does."""
        if isinstance(self.tree, ast.Call) and function_of(self.tree) in SMOOTHS:
            return self.tree
        return None

    @property
    def process(self) -> ast.Call | None:
        """The Gaussian process it consists of, if it does."""
        if isinstance(self.tree, ast.Call) and function_of(self.tree) == "gp":
            return self.tree
        return None

    @property
    def alone(self) -> ast.Call | None:
        """The smooth function or the process it consists of, if it does."""
        return self.smooth or self.process

    @property
    def by(self) -> str | None:
        """The column that multiplies the smooth function it consists of, if there is one."""
        if self.smooth:
            words = {word.arg: word.value for word in self.smooth.keywords}
        else:
            words = {}
        node = words.get("by")
        if isinstance(node, ast.Name):
            return self.alias.get(node.id, node.id)
        return None

    @property
    def learns(self) -> bool:
        """Whether a piece of it keeps something of the rows it is first computed at, such as a mean or knots.

        >>> parse_expression("center(x)").learns, parse_expression("log(x)").learns
        (True, False)
        """
        calls = [node for node in ast.walk(self.tree) if isinstance(node, ast.Call)]
        return any(function_of(call) in STATEFUL | STANDALONE for call in calls)

    @property
    def computed(self) -> tuple[str, ...]:
        """The columns that it computes with, which hold numbers: not those that are compared with text, coded, or multiply a smooth."""
        return tuple(
            dict.fromkeys(
                self.alias.get(name, name) for name in _computed_names(self.tree)
            )
        )

    @property
    def names_labels(self) -> bool:
        """Whether it holds a whole number that no float represents, such as an identifier in a comparison."""
        return any(
            isinstance(n, ast.Constant) and type(n.value) is int and n.value > EXACT
            for n in ast.walk(self.tree)
        )

    def written(self, node: ast.AST | None = None) -> str:
        """A node, or the whole, in one spelling with quoted names quoted again: what a transform's state is filed under."""
        text = ast.unparse(node or self.tree).replace("\n", " ")
        for alias, name in self.alias.items():
            plain = (
                name.isascii()
                and name.isidentifier()
                and not name.startswith("_")
                and not keyword.iskeyword(name)
            )
            text = text.replace(alias, name if plain else quote_name(name))
        return text

    def refused(self, node: ast.AST, why: str = "") -> DataError:
        """The error for a piece of it that is not in the tables, with the spelling that is, where it is known."""
        op: Any = node if isinstance(node, ast.Compare) else getattr(node, "op", None)
        if not why and isinstance(node, ast.Call) and isinstance(node.func, ast.Name):
            why = self._instead(node, node.func.id)
        why = why or OPERATORS.get(
            type(op),
            "a formula has columns, numbers, arithmetic and its own functions, and runs no Python",
        )
        return DataError(
            f"the piece {self.written(node)!r} of the term {shown_formula(self.text)} is not allowed: {why}"
        )

    def _instead(self, call: ast.Call, name: str) -> str:
        """Return the spelling here of a function of another package, or the function with the most similar name."""
        given = [
            str(a.value)
            if _is_text(a) and isinstance(a, ast.Constant)
            else self.written(a)
            for a in call.args
        ]
        places = [*given, *("a b c"[2 * i] for i in range(len(given), 3))]
        if name == "cbind" and len(given) == 2 and given[1].endswith(f" - {given[0]}"):
            return f"write p({given[0]}, {given[1].removesuffix(f' - {given[0]}')})"
        if name in ("ns", "rcs"):
            df = next(
                (
                    self.written(word.value)
                    for word in call.keywords
                    if word.arg == "df"
                ),
                [*given, "4"][1],
            )
            return f"write cr({places[0]}, df={df})"
        if name in ELSEWHERE:
            return f"write {ELSEWHERE[name].format(*places)}"
        if name in COLUMN_FIRST:
            return f"make it a column of the data first, such as {COLUMN_FIRST[name].format(*places)}"
        if name == "offset":
            return "offset(...) is a term by itself, which is added"
        near = difflib.get_close_matches(
            name, [*ARITY, *STATEFUL, *STANDALONE, "C"], n=1
        )
        return f"a formula has no function {name!r}" + (
            f"; did you mean {near[0]!r}?"
            if near
            else ", so make it a column of the data"
        )


def parse_expression(text: str) -> Expression:
    """The checked expression in `text`; DataError says which piece of it is not allowed, and what is.

    >>> parse_expression("log(`dose (mg)`) - x").variables
    ('dose (mg)', 'x')
    >>> parse_expression("x.mean()")
    Traceback (most recent call last):
    probreg.errors.DataError: the piece 'x.mean()' of the term 'x.mean()' is not allowed...
    """
    return checked_expression(_syntax(text))


def read_factor(text: str, *, is_name: bool) -> tuple[str, Expression]:
    """A name or a call of a formula, which is not checked yet, and the text it is filed under, which reads as it again.

    >>> read_factor("log( x )", is_name=False)[0], read_factor("(x)", is_name=False)[0], read_factor("1", is_name=True)[0]
    ('log(x)', 'x', '`1`')
    """
    if not is_name:
        whole = _syntax(text)
        if whole.column is None:
            return whole.written(), whole
        text = whole.column
    return column_written(text), Expression(
        text, ast.Name("_column"), {"_column": text}
    )


def _syntax(text: str) -> Expression:
    """A term as its syntax tree, quoted names replaced by plain ones; not checked yet."""
    for dotted, plain in _DOTTED.items():
        if re.match(rf"{re.escape(dotted)}\s*\(", text):
            text = plain + text.removeprefix(dotted)
    alias: dict[str, str] = {}
    stem = next(
        s for k in range(len(text) + 1) if (s := f"q{'_' * k}column") not in text
    )

    def unquote(found: re.Match[str]) -> str:
        if found[1] is not None or ((found[3] or "").isascii() and found[2] is None):
            return found[0]
        if found[2] is not None:
            meant = unquote_name(found[2])
        else:
            meant = found[3]
        name = next(
            (known for known, column in alias.items() if column == meant),
            f"{stem}{len(alias)}_",
        )
        alias[name] = meant
        return f" {name} "

    try:
        tree = ast.parse(_WITHIN.sub(unquote, text).strip(), mode="eval").body
    except (SyntaxError, ValueError, RecursionError, MemoryError) as error:
        raise DataError(
            f"the term {shown_formula(text)} cannot be read: {first_line(error)}"
        ) from None
    level = list[ast.AST]([tree])
    depth = 0
    while level:  # operations within operations, level by level
        level = [child for node in level for child in ast.iter_child_nodes(node)]
        depth = depth + 1
    if depth > DEEPEST:
        raise DataError(
            f"the term {shown_formula(text)} nests operations {depth} deep; at most {DEEPEST} are computed"
        )
    return Expression(text, tree, alias)


def function_of(call: ast.Call) -> str:
    """The name called: `log` for log and for np.log, where np.log is one allowed word and never a look-up."""
    match call.func:
        case ast.Name(id=name):
            return name
        case ast.Attribute(value=ast.Name(id="np"), attr=name) if name in ARITY:
            return name
    return ""


def _contrast_of(node: ast.AST) -> str | None:
    match node.func if isinstance(node, ast.Call) else node:
        case ast.Attribute(value=ast.Name(id="contr"), attr=name) if name in CONTRASTS:
            return name
        case ast.Name(id=name):
            return PATSY.get(name)
    return None


def _is_text(node: ast.AST) -> bool:
    return isinstance(node, ast.Constant) and isinstance(node.value, str)


def _is_literal(node: ast.AST) -> bool:
    match node:
        case ast.Constant():
            return node.value is None or type(node.value) in (int, float, str, bool)
        case ast.UnaryOp(op=ast.USub() | ast.UAdd(), operand=ast.Constant() as number):
            return type(number.value) in (int, float)
        case ast.List() | ast.Tuple():
            return all(_is_literal(part) for part in node.elts)
    return False


def _column_names(node: ast.AST) -> Iterator[str]:
    """Names of columns: every name that is not the function of a call or the `contr` of a contrast."""
    match node:
        case ast.Name():
            yield node.id
        case ast.Call():
            for arg in node.args[:1] if function_of(node) in WORDS else node.args:
                yield from _column_names(arg)
            for word in node.keywords if function_of(node) in STANDALONE else ():
                yield from _column_names(word.value) if word.arg == "by" else ()
        case _:
            for child in ast.iter_child_nodes(node):
                yield from _column_names(child)


def _computed_names(node: ast.AST) -> Iterator[str]:
    match node:
        case ast.Name():
            yield node.id
        case ast.Compare(left=left, comparators=[right]) if _is_text(left) or _is_text(
            right
        ):
            return
        case ast.Call() if function_of(node) == "C":
            yield from (
                ()
                if isinstance(node.args[0], ast.Name)
                else _computed_names(node.args[0])
            )
        case ast.Call():
            for arg in node.args[:1] if function_of(node) in WORDS else node.args:
                yield from _computed_names(arg)
        case _:
            for child in ast.iter_child_nodes(node):
                yield from _computed_names(child)


# ---- what it may say ---------------------------------------------------------------------------------------------------


def checked_expression(expression: Expression, *, inside: bool = False) -> Expression:
    """The expression, every node of which is in the tables; `inside` a call it is no C(...). DataError for the first that is
    not."""
    _check_node(expression, expression.tree, outermost=not inside)
    return expression


def _check_node(of: Expression, node: ast.AST, *, outermost: bool = False) -> None:
    if isinstance(node, ast.Call):
        name = function_of(node)
    else:
        name = ""
    match node:
        case ast.Constant() if type(node.value) in (int, float):
            parts: list[ast.expr] = []
        case ast.Name() if node.id in of.alias or not node.id.startswith("_"):
            parts = []
        case ast.UnaryOp(op=ast.USub() | ast.UAdd()):
            parts = [node.operand]
        case ast.BinOp() if type(node.op) in ARITHMETIC:
            parts = [node.left, node.right]
        case ast.Compare(ops=[op]) if type(op) in ARITHMETIC:
            parts = [
                side for side in (node.left, *node.comparators) if not _is_text(side)
            ]
        case ast.Call() if name in ARITY or name == "I":
            wanted = ARITY.get(name, 1)
            parts = node.args
            if len(node.args) != wanted or node.keywords:
                raise of.refused(
                    node,
                    f"{name} takes {wanted} argument{'s' * (wanted > 1)} and no keywords",
                )
        case ast.Call() if name in STATEFUL or (name == "C" and outermost):
            return _check_words(of, node, name)
        case ast.Call() if name in STANDALONE and outermost:
            return _check_smooth(of, node, name)
        case ast.Call() if name in ("te", "ti"):
            written = ", ".join(of.written(arg) for arg in node.args)
            raise DataError(
                f"{of.written(node)!r}: there is no {name} here: take t2({written})"
            )
        case ast.Call():
            by_itself = name == "C" or name in STANDALONE
            raise of.refused(
                node,
                f"{name}(...) stands by itself, not inside another function"
                if by_itself
                else "",
            )
        case ast.Attribute():
            raise of.refused(
                node, f"a column of that name is written {quote_name(of.written(node))}"
            )
        case _:
            raise of.refused(node)
    for part in parts:
        _check_node(of, part)
    return None


def _check_words(of: Expression, call: ast.Call, name: str) -> None:
    """DataError unless a call is one column, and then literals by the words that it takes; C takes one contrast too."""
    words = WORDS[name]
    named = {word.arg: word.value for word in call.keywords}
    if not call.args or not set(named) <= set(words) or len(call.args) > 1 + len(words):
        raise of.refused(
            call, f"{name} takes one column, then {', '.join(words) or 'nothing'}"
        )
    _check_node(of, call.args[0])
    if name != "C":
        _check_literals(of, [*call.args[1:], *named.values()])
        return _check_sizes(
            of, name, {**dict(zip(SIZES.get(name, ()), call.args[1:])), **named}
        )
    contrasts = [
        *call.args[1:],
        *(value for word, value in named.items() if word == "contrasts"),
    ]
    if len(contrasts) > 1:
        raise of.refused(call, "C takes one column and one contrast; levels= is named")
    _check_literals(of, (value for word, value in named.items() if word != "contrasts"))
    for node in contrasts:
        kind = _contrast_of(node)
        if kind is None:
            if not _is_literal(node):
                raise of.refused(
                    node,
                    "a contrast is contr.treatment('b'), contr.sum, contr.poly, contr.helmert, contr.diff or contr.SAS",
                )
        elif isinstance(node, ast.Call):
            patsy = isinstance(node.func, ast.Name)
            takes = ("reference",) if patsy and kind == "treatment" else CONTRASTS[kind]
            given = len(node.args) + len(node.keywords)
            if not {word.arg for word in node.keywords} <= set(takes) or given > len(
                takes
            ):
                raise of.refused(
                    node,
                    f"{of.written(node.func)} takes {', '.join(takes) or 'nothing'}",
                )
            _check_literals(of, [*node.args, *(word.value for word in node.keywords)])
    return None


def _check_smooth(of: Expression, call: ast.Call, name: str) -> None:
    """DataError unless a smooth function is one of columns, and then literals by the words that it takes, or by= a column."""
    named = {word.arg: word.value for word in call.keywords}
    words = STANDALONE[name]
    if not call.args or not set(named) <= set(words):
        met = "".join(f", got {word}=" for word in named if word not in words)
        raise DataError(
            f"{of.written(call)!r}: {name} takes columns, then {', '.join(f'{word}=' for word in words)}{met}"
        )
    if len(named) < len(call.keywords):
        raise of.refused(call, "a word is given twice")
    if name == "t2" and len(call.args) < 2:
        raise of.refused(call, "t2 takes two columns or more; of one it is s")
    for arg in call.args:
        _check_node(of, arg)
    if "by" in named and not isinstance(named["by"], ast.Name):
        raise of.refused(named["by"], "by= is one column")
    _check_literals(of, [value for word, value in named.items() if word != "by"])
    match named.get("k"):
        case None:
            return
        case ast.Constant(value=int() as k) if not isinstance(k, bool):
            if k > MOST_BASIS:
                raise DataError(
                    f"{name} asks for k={k} in {shown_formula(of.text)}; a basis has at most {MOST_BASIS} columns"
                )
        case node:
            raise of.refused(node, "k is one whole number")


def _check_literals(of: Expression, nodes: Iterable[ast.expr]) -> None:
    for node in nodes:
        if not _is_literal(node):
            raise of.refused(
                node, "this argument is a number, a text, or a list of them"
            )


def _check_sizes(
    of: Expression, name: str, given: Mapping[str | None, ast.expr]
) -> None:
    """DataError for a basis of more columns than are made, before any is."""
    for word in ("df", "degree"):
        match given.get(word):
            case ast.Constant(value=int() | float() as size) if size > MOST_BASIS:
                asked = f"asks for {word}={size:.10g} in {shown_formula(of.text)}"
                raise DataError(
                    f"{name} {asked}; a basis has at most {MOST_BASIS} columns"
                )
            case ast.List() | ast.Tuple() as many:
                raise of.refused(many, f"{word} is one whole number")
    match given.get("knots"):
        case ast.List(elts=knots) | ast.Tuple(elts=knots) if len(knots) > MOST_BASIS:
            raise DataError(
                f"{name} has {len(knots)} knots in {shown_formula(of.text)}; at most {MOST_BASIS} are taken"
            )


# ---- its values at the rows of a table ---------------------------------------------------------------------------------


def evaluate_expression(
    expression: Expression,
    table: Table,
    state: State,
    *,
    training: bool,
    centred: bool = True,
) -> Any:
    """The values of an expression at the rows of a table: an array (n,), or what a basis or a coding returns.

    While `training`, stateful transforms write what they learn into `state`; afterwards they only read it. Cubic splines are
    `centred` where other columns hold the constant.
    """
    with np.errstate(all="ignore"):
        return _Evaluation(expression, table, state, training, centred).value(
            expression.tree
        )


def learn_streamed(expression: Expression, table: Table, state: State) -> None:
    """Writes what a process keeps of rows that are read by the block into the state, from a sample of them."""
    call = expression.process
    if call is not None and expression.written() not in state:
        with np.errstate(all="ignore"):
            _Evaluation(expression, table, state, training=True).learn(
                call, streamed=True
            )


def refuse_unstreamed(expression: Expression) -> None:
    """DataError for a process whose basis cannot be made of rows that are read by the block."""
    call = expression.process
    if call is not None:
        refuse_holding(_literals(call, len(call.args))[1], expression.written())


def expression_inputs(expression: Expression, table: Table, state: State) -> np.ndarray:
    """What enters the smooth function or the process that an expression is (n, d), at the rows of a table."""
    call = expression.alone
    if call is None:
        raise DataError(f"{expression.text!r} is no smooth function and no process")
    with np.errstate(all="ignore"):
        return _Evaluation(expression, table, state, training=False).inputs(call)


def read_coding(call: ast.Call) -> tuple[Contrast, dict[str, Any]]:
    """Return the contrast of a checked `C(...)`, and its other arguments: levels and spans_intercept."""
    named = {word.arg: word.value for word in call.keywords if word.arg}
    node = call.args[1] if len(call.args) > 1 else named.pop("contrasts", None)
    others = {word: ast.literal_eval(value) for word, value in named.items()}
    if node is None:
        return Contrast(), others
    kind = _contrast_of(node)
    if kind is None:
        return Contrast("custom", (ast.literal_eval(node),)), others
    arguments, options = _literals(node) if isinstance(node, ast.Call) else ([], {})
    if "reference" in options:
        options["base"] = options.pop("reference")
    return Contrast(kind, tuple(arguments), options), others


def _literals(call: ast.Call, after: int = 0) -> tuple[list[Any], dict[str, Any]]:
    """The arguments of a call from one on, and those by words, all of them literals."""
    named = {
        word.arg: ast.literal_eval(word.value) for word in call.keywords if word.arg
    }
    return [ast.literal_eval(node) for node in call.args[after:]], named


@dataclass(frozen=True)
class _Evaluation:
    """A checked expression at the rows of a table."""

    of: Expression
    table: Table
    state: State
    training: bool
    centred: bool = True

    def value(self, node: ast.AST) -> Any:
        if isinstance(node, ast.Call):
            name = function_of(node)
        else:
            name = ""
        match node:
            case ast.Constant():
                return float(node.value)  # type: ignore[arg-type]  # checked: a real number
            case ast.Name():
                return self._numeric_column(self.of.alias.get(node.id, node.id))
            case ast.UnaryOp():
                operand = self._numbers_of(node.operand)
                if isinstance(node.op, ast.USub):
                    return -operand
                return operand
            case ast.BinOp():
                return self._arithmetic(node, node.op, node.left, node.right)
            case ast.Compare(left=left, ops=[op], comparators=[right]):
                if _is_text(left):
                    sides = (right, left)
                else:
                    sides = (left, right)
                if _is_text(sides[1]):
                    return self._same_text(sides[0], sides[1], op)
                exact = self._same_number(left, op, right)
                if exact is not None:
                    return exact
                return np.asarray(self._arithmetic(node, op, left, right), dtype=float)
            case ast.Call() if name in ELEMENTWISE:
                values = [self._numbers_of(arg) for arg in node.args]
                if name == "where":
                    return ELEMENTWISE[name](values[0] != 0, *values[1:])
                return ELEMENTWISE[name](*values)
            case ast.Call() if name in STATEFUL:
                return self._transform(node, name)
            case ast.Call() if name in SMOOTHS:
                return self._smooth_columns(node, name)
            case ast.Call() if name in STANDALONE:
                return self._process(node)
            case ast.Call() if name == "I":
                return self.value(node.args[0])
        raise DataError(f"the piece {ast.unparse(node)!r} is not allowed")

    def _numeric_column(self, name: str, *, exact: bool = False) -> np.ndarray:
        column = self.table.columns[name]
        kind = kind_of(column)
        if kind not in ("number", "truth"):
            what = {"text": "text", "levels": "categories"}.get(
                kind, f"{getattr(column, 'dtype', kind)} values"
            )
            i = first_text(column)
            raise DataError(
                f"column {name!r} holds {what} (row {self.table.rows[i]}: {column[i]!r}), but the term "
                f"{self.of.text!r} computes with it and needs numbers; convert it first"
            )
        return np.asarray(column, dtype=object if exact else np.float64)

    def _numbers_of(self, node: ast.AST) -> Any:
        """The values of a piece that a function or an operator takes. DataError for a basis, which is several columns."""
        found = self.value(node)
        if isinstance(found, Basis):
            raise DataError(
                f"{self.of.written(node)!r} is several columns, but {self.of.text!r} needs one: write it as a term by itself"
            )
        return found

    def _arithmetic(
        self, node: ast.AST, op: ast.AST, left: ast.AST, right: ast.AST
    ) -> Any:
        try:
            value = ARITHMETIC[type(op)](
                self._numbers_of(left), self._numbers_of(right)
            )
        except (ArithmeticError, ValueError, TypeError) as error:
            raise DataError(
                f"{self.of.written(node)!r} cannot be computed: {first_line(error)}"
            ) from None
        if isinstance(value, complex):
            raise DataError(
                f"{self.of.written(node)!r} is a complex number; a column is real"
            )
        return value

    def _same_number(
        self, left: ast.AST, op: ast.AST, right: ast.AST
    ) -> np.ndarray | None:
        """A column beside a whole number that is no float, compared to the last digit; None for other comparisons."""
        match left, right:
            case ast.Name(id=name), ast.Constant(value=int(number)) if (
                abs(number) > EXACT
            ):
                sides = (name, number)
            case ast.Constant(value=int(number)), ast.Name(id=name) if (
                abs(number) > EXACT
            ):
                sides = (name, number)
            case _:
                return None
        values = self._numeric_column(self.of.alias.get(sides[0], sides[0]), exact=True)
        arithmetic = ARITHMETIC[type(op)]
        if isinstance(left, ast.Name):
            return np.asarray(arithmetic(values, sides[1]), dtype=float)
        return np.asarray(arithmetic(sides[1], values), dtype=float)

    def _same_text(self, column: ast.AST, text: ast.AST, op: ast.AST) -> np.ndarray:
        if not (
            isinstance(column, ast.Name)
            and isinstance(text, ast.Constant)
            and isinstance(op, ast.Eq | ast.NotEq)
        ):
            raise DataError(
                f"in the term {self.of.text!r} text is only compared as column == 'text' or !="
            )
        values = np.asarray(
            self.table.columns[self.of.alias.get(column.id, column.id)], dtype=object
        )
        return np.asarray(ARITHMETIC[type(op)](values, text.value), dtype=float)

    def _transform(self, call: ast.Call, name: str) -> Any:
        """Return the column or the columns of a stateful transform, at its kept state."""
        key = self.of.written(call)
        values = np.broadcast_to(self._numbers_of(call.args[0]), self.table.rows.shape)
        arguments, words = _literals(call, 1)
        # without the constraint the columns sum to 1, as the intercept does
        if name in ("cr", "cc") and self.centred:
            words = {"constraints": "center"} | words
        if not self.training and key not in self.state:
            raise DataError(
                f"the recipe has no saved state for {key!r}; it was not saved whole"
            )
        state = self.state.setdefault(key, {})
        counts = self.table.counts
        if counts is None:
            counts = np.ones(len(values))
        x = np.array(values, dtype=float)
        try:
            found = TRANSFORMS[name](x, state, counts, *arguments, **words)
        except (
            DataError,
            ArithmeticError,
            ValueError,
            TypeError,
            LookupError,
        ) as error:
            raise DataError(
                f"the term {key!r} cannot be computed: {first_line(error)}"
            ) from None
        if words.get("extrapolation", "raise") == "raise" and "knots" in state:
            self._refuse_outside(key, x, state["knots"][0], state["knots"][-1])
        return found

    def _process(self, call: ast.Call) -> Basis:
        """Return the columns of a process, at its kept basis."""
        key = self.of.written(call)
        if self.training and key not in self.state:
            self.learn(call)
        term = process_in(self.state, key)
        return Basis.numbered(term.columns_at(self.inputs(call), self.table.rows))

    def _smooth_columns(self, call: ast.Call, name: str) -> Basis:
        """Return the columns of a smooth function, at its kept basis."""
        key = self.of.written(call)
        named = {word.arg: word.value for word in call.keywords if word.arg}
        x = self.inputs(call)
        by = named.pop("by", None)
        column = None
        if isinstance(by, ast.Name):
            column = self.table.columns[self.of.alias.get(by.id, by.id)]
        if not self.training and key not in self.state:
            raise DataError(
                f"the recipe has no saved state for {key!r}; it was not saved whole"
            )
        if self.training and key not in self.state:
            literals = {w: ast.literal_eval(value) for w, value in named.items()}
            short = f"{name}({', '.join(map(self.of.written, call.args))})"
            self.state[key] = learned_term(
                name,
                x,
                column,
                literals,
                key=key,
                short=short,
                counts=self.table.counts,
            )
        columns = term_of(self.state[key], key).columns_at(x, column, self.table.rows)
        return Basis(tuple(columns), np.column_stack(list(columns.values())))

    def learn(self, call: ast.Call, *, streamed: bool = False) -> None:
        """Writes the process that a call is into the state."""
        key = self.of.written(call)
        parts = tuple(map(self.of.written, call.args))
        short, (_, words) = (
            f"{function_of(call)}({', '.join(parts)})",
            _literals(call, len(call.args)),
        )
        x = self.inputs(call)
        rows = self.table.rows
        made = learned_process(
            x,
            words,
            key=key,
            short=short,
            inputs=parts,
            rows=rows,
            streamed=streamed,
            counts=self.table.counts,
        )
        self.state[key] = {"process": made}

    def inputs(self, call: ast.Call) -> np.ndarray:
        """What enters a smooth function or a process (n, d): one column for each of its arguments."""
        key = self.of.written(call)
        n = len(self.table.rows)
        each = [np.asarray(self._numbers_of(arg), dtype=float) for arg in call.args]
        x = np.column_stack([np.broadcast_to(values, (n,)) for values in each])
        if not np.isfinite(x).all():
            i = int(np.argwhere(~np.isfinite(x))[0, 0])
            raise DataError(
                f"{key!r} is computed from {x[i].tolist()} at row {self.table.rows[i]}, which is not finite"
            )
        return x

    def _refuse_outside(self, key: str, x: np.ndarray, low: float, high: float) -> None:
        """DataError for values outside the range of a spline, which has no columns there by default."""
        bad = np.flatnonzero((x < low) | (x > high))
        if len(bad):
            rows = ", ".join(f"row {self.table.rows[i]}: {x[i]:g}" for i in bad[:5])
            raise DataError(
                f"the spline {key!r} is defined on [{low:g}, {high:g}], the range it was built on, and "
                f"{len(bad)} of the values lie outside ({rows}). Stay within, or say what happens outside with "
                "extrapolation='clip', 'extend' or 'zero' in the formula"
            )
