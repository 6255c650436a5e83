"""One term of a formula as an expression, which is valid only if every node of its syntax tree is in the tables below.

No text is handed to `eval`, and no attribute is looked up by a name that is not in a table. Functions and columns are in different
tables, so that a column called `log` does not replace the function.
"""

import ast
import difflib
import operator
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, field
from typing import Any

from probreg.errors import DataError
from probreg.formula.text import (
    PythonText,
    parse_python,
    quote_name,
    rewrite_names,
    shown_formula,
)
from probreg.peers import FORMULA_FUNCTIONS

# ---- the language ------------------------------------------------------------------------------------------------------

# elementwise functions, with their number of arguments
FUNCTIONS: dict[str, int] = dict.fromkeys(
    ("log", "log10", "log2", "log1p", "exp", "expm1", "sqrt", "square", "abs", "sign", "floor", "ceil", "round", "sin", "cos",
     "tan", "arcsin", "arccos", "arctan", "sinh", "cosh", "tanh", "arcsinh", "arccosh", "arctanh"), 1,
) | {"power": 2, "minimum": 2, "maximum": 2, "arctan2": 2, "hypot": 2, "clip": 3, "where": 3}  # fmt: skip
ARITHMETIC: dict[type[ast.AST], Callable[[Any, Any], Any]] = {
    ast.Add: operator.add, ast.Sub: operator.sub, ast.Mult: operator.mul, ast.Div: operator.truediv, ast.Pow: operator.pow,
    ast.Lt: operator.lt, ast.LtE: operator.le, ast.Gt: operator.gt, ast.GtE: operator.ge, ast.Eq: operator.eq,
    ast.NotEq: operator.ne,
}  # fmt: skip
_CUBIC = ("df", "knots", "lower_bound", "upper_bound", "extrapolation", "constraints")
# transforms that learn from the training rows: one column, followed by options, in the order of `transforms`
STATEFUL: dict[str, tuple[str, ...]] = {
    "poly": ("degree", "raw"),
    "bs": ("df", "knots", "degree", "include_intercept", "lower_bound", "upper_bound", "extrapolation"),
    "cr": _CUBIC,
    "cc": _CUBIC,
    "scale": (),
    "center": (),
}  # fmt: skip
SMOOTHS: dict[str, tuple[str, ...]] = {"s": ("k", "bs", "by"), "t2": ("k",)}
KERNEL_SETTINGS = ("length", "nu", "alpha", "period", "degree", "offset", "scaled")
BASIS_SETTINGS = ("tol", "size", "range", "half_width")
# smooth functions and Gaussian processes: terms by themselves, of any number of columns
STANDALONE = SMOOTHS | {"gp": ("kernel", *KERNEL_SETTINGS, "basis", *BASIS_SETTINGS)}
OPTIONS = STATEFUL | STANDALONE | {"C": ("contrasts", "levels")}
CONTRASTS: dict[str, tuple[str, ...]] = {
    "treatment": ("base",), "sum": (), "helmert": (), "diff": (),
    "poly": ("scores",),
}  # fmt: skip
# contrasts as patsy and statsmodels spell them: Treatment("b") is contr.treatment("b")
PATSY = {"Treatment": "treatment", "Sum": "sum"}
# operators of other packages, and their spelling here
_OPERATORS: dict[type[ast.AST], str] = {
    ast.BitXor: "I(x**2) for a power",
    ast.BitAnd: "I((a > 1)*(b > 1)) for both of two comparisons",
    ast.BitOr: "I(maximum(a > 1, b > 1)) for one of two comparisons",
    ast.And: "I((a > 1)*(b > 1)) for both of two comparisons",
    ast.Compare: "I((a > 1)*(b > 1)) for both of two comparisons",
    ast.Or: "I(maximum(a > 1, b > 1)) for one of two comparisons",
}
EXACT = 2**53  # whole numbers up to this size are floats exactly


@dataclass(frozen=True)
class Expression:
    """One piece of a formula: its text, its syntax tree, and the columns behind some of its names."""

    text: str
    tree: ast.expr
    alias: Mapping[str, str] = field(default_factory=dict)

    def name_of(self, node: ast.AST) -> str | None:
        """Return the column of a node that is a name; None for other nodes."""
        if isinstance(node, ast.Name):
            return self.alias.get(node.id, node.id)
        return None

    @property
    def column(self) -> str | None:
        """The name of the column, if the expression is exactly one column."""
        return self.name_of(self.tree)

    @property
    def function(self) -> str:
        """The function, if the expression is one call; "" for other expressions."""
        return function_of(self.tree)

    @property
    def coding_call(self) -> ast.Call | None:
        """The call, if the expression is one `C(...)`; else None."""
        return self._call_of("C")

    @property
    def basis_call(self) -> ast.Call | None:
        """The call, if the expression is one smooth function or process; else None."""
        return self._call_of(*STANDALONE)

    def _call_of(self, *functions: str) -> ast.Call | None:
        if isinstance(self.tree, ast.Call) and self.function in functions:
            return self.tree
        return None

    @property
    def category(self) -> str | None:
        """The column with the levels of this factor: the column itself, or the column within C(...)."""
        return self.name_of(self.coding_call.args[0] if self.coding_call else self.tree)

    @property
    def by(self) -> str | None:
        """The column that multiplies the smooth function (`by=`), if any."""
        words = self.basis_call.keywords if self.basis_call else []
        return next((self.name_of(w.value) for w in words if w.arg == "by"), None)

    @property
    def learns(self) -> bool:
        """Whether a part of it learns from the training rows, such as a mean or knots.

        >>> parse_expression("center(x)").learns, parse_expression("log(x)").learns
        (True, False)
        """
        return any(
            function_of(node) in STATEFUL | STANDALONE for node in ast.walk(self.tree)
        )

    @property
    def variables(self) -> tuple[str, ...]:
        """The columns that it uses, in order of appearance."""
        return tuple(dict.fromkeys(self._column_names(self.tree)))

    @property
    def numeric_columns(self) -> tuple[str, ...]:
        """The columns of numbers that it computes with: not columns that are compared with text, coded, or multiply a smooth."""
        return tuple(dict.fromkeys(self._column_names(self.tree, computed=True)))

    def _column_names(self, node: ast.AST, *, computed: bool = False) -> Iterator[str]:
        """Yield the names of all columns, or only of columns that are `computed` with."""
        name = function_of(node)
        match node:
            case ast.Name():
                yield self.alias.get(node.id, node.id)
            case ast.Compare() if computed and any(
                map(is_text, [node.left, *node.comparators])
            ):
                return
            case ast.Call(args=[ast.Name(), *_]) if computed and name == "C":
                return
            case ast.Call():
                parts = node.args
                if name in OPTIONS and name not in STANDALONE:
                    parts = parts[:1]
                by = [w.value for w in node.keywords if w.arg == "by" and not computed]
                for part in [*parts, *by]:
                    yield from self._column_names(part, computed=computed)
            case _:
                for child in ast.iter_child_nodes(node):
                    yield from self._column_names(child, computed=computed)

    @property
    def names_labels(self) -> bool:
        """Whether it contains a whole number that no float represents, such as an identifier in a comparison."""
        return any(map(is_inexact, ast.walk(self.tree)))

    def written(self, node: ast.AST | None = None) -> str:
        """Return the canonical spelling of a node, or of the whole expression, which is the key of a transform's state."""
        text = ast.unparse(node or self.tree).replace("\n", " ")
        return rewrite_names(text, self.alias)

    def part(self, node: ast.expr) -> "Expression":
        """Return a node as a separate expression."""
        return Expression(self.written(node), node, self.alias)

    def make_error(self, node: ast.AST, reason: str = "") -> DataError:
        """Return the error for a part of it that is not in the tables."""
        if not reason:
            reason = "a formula has columns, numbers, arithmetic and its own functions, and runs no Python"
        return DataError(
            f"the piece {self.written(node)!r} of the term {shown_formula(self.text)} is not allowed: {reason}"
        )


def parse_expression(text: str) -> Expression:
    """Return the checked expression in `text`; DataError names the piece that is not allowed.

    >>> parse_expression("log(`dose (mg)`) - x").variables
    ('dose (mg)', 'x')
    >>> parse_expression("x.mean()")
    Traceback (most recent call last):
    probreg.errors.DataError: the piece 'x.mean()' of the term 'x.mean()' is not allowed...
    """
    python = PythonText(text, inside=True)
    tree = parse_python(python.parts[0], text)
    return checked_expression(Expression(text, tree, python.alias))


def function_of(node: ast.AST) -> str:
    """Return the name of a called function: `log` for log and for np.log (a fixed word, never an attribute look-up); "" for other nodes."""
    match node:
        case ast.Call(func=ast.Name(id=name)):
            return name
        case ast.Call(func=ast.Attribute(value=ast.Name(id="np"), attr=name)):
            return name if name in FUNCTIONS else ""
    return ""


def contrast_of(node: ast.AST) -> str | None:
    """Return the name of a contrast node, with or without arguments; None for other nodes."""
    match node.func if isinstance(node, ast.Call) else node:
        case ast.Attribute(value=ast.Name(id="contr"), attr=name) if name in CONTRASTS:
            return name
        case ast.Name(id=name):
            return PATSY.get(name)
    return None


def is_text(node: ast.AST) -> bool:
    """Return whether a node is a quoted text."""
    return isinstance(node, ast.Constant) and isinstance(node.value, str)


def is_inexact(node: ast.AST) -> bool:
    """Return whether a node is a whole number that no float represents."""
    if isinstance(node, ast.Constant) and type(node.value) is int:
        return node.value > EXACT
    return False


def _is_literal(node: ast.AST) -> bool:
    match node:
        case ast.Constant():
            return node.value is None or type(node.value) in (int, float, str, bool)
        case ast.UnaryOp(op=ast.USub() | ast.UAdd(), operand=ast.Constant() as number):
            return type(number.value) in (int, float)
        case ast.List() | ast.Tuple():
            return all(_is_literal(part) for part in node.elts)
    return False


# ---- validation -----------------------------------------------------------------------------------------------------------


def checked_expression(expression: Expression, *, inside: bool = False) -> Expression:
    """Return the expression if every node of it is in the tables; else raise DataError for the first invalid node.

    `inside` a call, the expression is not a term by itself.
    """
    _check_node(expression, expression.tree, outermost=not inside)
    return expression


def _check_node(
    expression: Expression, node: ast.AST, *, outermost: bool = False
) -> None:
    parts: list[ast.expr] = []
    match node:
        case ast.Constant() if type(node.value) in (int, float):
            pass
        case ast.Name() if node.id in expression.alias or not node.id.startswith("_"):
            pass
        case ast.UnaryOp(op=ast.USub() | ast.UAdd()):
            parts = [node.operand]
        case ast.BinOp() if type(node.op) in ARITHMETIC:
            parts = [node.left, node.right]
        case ast.Compare(ops=[op]) if type(op) in ARITHMETIC:
            sides = [node.left, *node.comparators]
            parts = [side for side in sides if not is_text(side)]
        case ast.Call():
            _check_call(expression, node, outermost=outermost)
        case ast.Attribute():
            name = quote_name(expression.written(node))
            raise expression.make_error(
                node, f"a column of that name is written {name}"
            )
        case _:
            kind: Any = type(getattr(node, "op", node))
            hint = _OPERATORS.get(kind)
            raise expression.make_error(node, f"write {hint}" if hint else "")
    for part in parts:
        _check_node(expression, part)


def _check_call(expression: Expression, call: ast.Call, *, outermost: bool) -> None:
    """Raise DataError unless a call has a known function, valid columns and literal options."""
    name = function_of(call)
    if name in FUNCTIONS or name == "I":
        n_arguments = FUNCTIONS.get(name, 1)
        if len(call.args) != n_arguments or call.keywords:
            raise expression.make_error(
                call,
                f"{name} takes {n_arguments} argument{'s' * (n_arguments > 1)} and no keywords",
            )
        for arg in call.args:
            _check_node(expression, arg)
        return
    if name not in OPTIONS:
        raise expression.make_error(call, _suggest_function(expression, call))
    if not outermost and name not in STATEFUL:
        raise expression.make_error(
            call, f"{name}(...) stands by itself, not inside another function"
        )
    columns, options = _split_arguments(expression, call, name)
    for column in columns:
        _check_node(expression, column)
    for word, value in options.items():
        if word == "by":
            if not isinstance(value, ast.Name):
                raise expression.make_error(value, "by= is one column")
        elif word == "contrasts":
            _check_contrast(expression, value)
        elif not _is_literal(value):
            raise expression.make_error(value, _suggest_literal(expression, value))
    _check_sizes(expression, name, options)


def _split_arguments(
    expression: Expression, call: ast.Call, name: str
) -> tuple[list[ast.expr], dict[str, ast.expr]]:
    """Return the columns of a call, and its options by name."""
    words = OPTIONS[name]
    keywords = {word.arg or "**": word.value for word in call.keywords}
    several = name in STANDALONE
    n_columns = len(call.args) if several else 1
    columns = call.args[:n_columns]
    positional = call.args[n_columns:]
    options = dict(zip(words, positional)) | keywords
    limit = 1 if name == "C" else len(words)
    if (
        not call.args
        or not set(keywords) <= set(words)
        or len(positional) > limit
        or len(options) < len(positional) + len(call.keywords)
    ):
        takes = "columns" if several else "one column"
        listed = ", ".join(f"{word}=" if several else word for word in words)
        unknown = "".join(f", got {word}=" for word in keywords if word not in words)
        options_text = f"then {listed}" if listed else "without options"
        raise DataError(
            f"{expression.written(call)!r}: {name} takes {takes}, {options_text}{unknown}"
        )
    if name == "t2" and len(call.args) < 2:
        raise expression.make_error(
            call, "t2 takes two columns or more; of one it is s"
        )
    return columns, options


def _suggest_function(expression: Expression, call: ast.Call) -> str:
    """Return the spelling of another package's function, or the function with the most similar name."""
    if not isinstance(call.func, ast.Name):
        return ""
    name = expression.alias.get(call.func.id, call.func.id)
    if name in FORMULA_FUNCTIONS:
        arguments = [
            str(ast.literal_eval(a)) if is_text(a) else expression.written(a)
            for a in call.args
        ]
        return f"write {FORMULA_FUNCTIONS[name].format(*arguments, *'abc')}"
    matches = difflib.get_close_matches(name, [*FUNCTIONS, *OPTIONS], n=1, cutoff=0.65)
    hint = (
        f"did you mean {matches[0]!r}?" if matches else "make it a column of the data"
    )
    return f"a formula has no function {name!r}; {hint}"


def _suggest_literal(expression: Expression, value: ast.expr) -> str:
    """Return this package's spelling of a constant or a vector of R, or the possible values of an option."""
    if isinstance(value, ast.Name) and value.id in ("TRUE", "FALSE"):
        return f"write {value.id.title()}"
    if isinstance(value, ast.Call) and function_of(value) == "c":
        return f"write [{', '.join(map(expression.written, value.args))}]"
    return "this argument is a number, a text, or a list of them"


def _check_contrast(expression: Expression, node: ast.expr) -> None:
    kind = contrast_of(node)
    if kind is None:
        raise expression.make_error(
            node,
            "a contrast is contr.treatment('b'), contr.sum, contr.poly, contr.helmert or contr.diff",
        )
    if not isinstance(node, ast.Call):
        return
    takes = CONTRASTS[kind]
    if isinstance(node.func, ast.Name) and takes:
        takes = ("reference",)
    keywords = {word.arg for word in node.keywords}
    if not keywords <= set(takes) or len(node.args) + len(node.keywords) > len(takes):
        raise expression.make_error(
            node,
            f"{expression.written(node.func)} takes {', '.join(takes) or 'nothing'}",
        )
    for value in [*node.args, *(word.value for word in node.keywords)]:
        if not _is_literal(value):
            raise expression.make_error(
                value, "this argument is a number, or a list of numbers"
            )


def _check_sizes(
    expression: Expression, name: str, options: Mapping[str, ast.expr]
) -> None:
    """Raise DataError for a basis with too many columns before any column is made."""
    max_size = 1_000  # columns of one basis; degrees and degrees of freedom
    for word in ("df", "degree", "k", "knots"):
        if word not in options:
            continue
        value = ast.literal_eval(options[word])
        if word == "knots":
            value = len(value) if isinstance(value, list | tuple) else None
        if not isinstance(value, int | None):
            raise expression.make_error(options[word], f"{word} is one whole number")
        if value is not None and value > max_size:
            raise DataError(
                f"{shown_formula(expression.text)} asks for {word}={value}; {name} has at most {max_size} columns"
            )


def literal_arguments(
    call: ast.Call, after: int = 0
) -> tuple[list[Any], dict[str, Any]]:
    """Return the literal arguments of a checked call: by position from a given one on, and by name."""
    keywords = {w.arg: ast.literal_eval(w.value) for w in call.keywords if w.arg}
    return [ast.literal_eval(node) for node in call.args[after:]], keywords
