"""What a formula may say: the grammar of one factor, checked on its syntax tree before anything is computed.

The tables below are the whole language. A factor such as `bs(log(dose), df=4)` is parsed by `ast`, walked,
and refused with its name and reason if any node of it is not in the tables.
"""

import ast
import keyword
import re
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field

from probreg.data.algebra import NAME, quoted, shown_formula, unquoted
from probreg.errors import DataError

ONE = (
    *(
        "log",
        "log10",
        "log2",
        "log1p",
        "exp",
        "expm1",
        "sqrt",
        "square",
        "abs",
        "sign",
        "floor",
        "ceil",
        "round",
    ),
    *("sin", "cos", "tan", "arcsin", "arccos", "arctan"),
    *("sinh", "cosh", "tanh", "arcsinh", "arccosh", "arctanh"),
)
TWO = ("power", "minimum", "maximum", "arctan2", "hypot")
THREE = ("clip", "where")
ARITY = dict.fromkeys(ONE, 1) | dict.fromkeys(TWO, 2) | dict.fromkeys(THREE, 3)
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
    "treatment": ("base",),
    "SAS": ("base",),
    "sum": (),
    "helmert": ("reverse", "scale"),
    "diff": ("backward",),
    "poly": ("scores",),
}
CODING = ("contrasts", "levels", "spans_intercept")
OPERATORS = (
    ast.Add,
    ast.Sub,
    ast.Mult,
    ast.Div,
    ast.Pow,
    ast.Lt,
    ast.LtE,
    ast.Gt,
    ast.GtE,
    ast.Eq,
    ast.NotEq,
)
ALLOWED = (
    "arithmetic (+ - * / **), one comparison, numbers and column names (`quoted` where not plain words); "
    f"{', '.join(ARITY)} (also as np.log and so on); {', '.join(STATEFUL)}, I, "
    f"C(column, {', '.join('contr.' + name for name in CONTRASTS)})"
)
# a text; a name in backquotes; a plain word with letters beyond ASCII, which Python would read as their look-alikes
QUOTED = re.compile(rf"""("(?:\\.|[^"\\])*"|'(?:\\.|[^'\\])*')|{NAME}|([^\W\d]\w*)""", re.DOTALL)
MOST_BASIS = 1_000  # columns of one basis; degrees and degrees of freedom
DEEPEST_TREE = 150  # operations within operations of one term
# the places of the arguments that say how many columns a basis has
SIZES = {"poly": ("degree",), "bs": ("df", "knots", "degree"), "cr": ("df",), "cc": ("df",)}


@dataclass(frozen=True)
class Expression:
    """One checked piece of a formula: its text, its syntax tree, and the columns its names stand for."""

    text: str
    tree: ast.expr
    alias: Mapping[str, str] = field(default_factory=dict)

    @property
    def variables(self) -> tuple[str, ...]:
        """The columns it reads, in order of appearance."""
        return tuple(dict.fromkeys(self.alias.get(name, name) for name in _names(self.tree)))

    def written(self, node: ast.AST) -> str:
        """A node as text, with quoted names quoted again: what a transform's state is filed under."""
        text = ast.unparse(node).replace("\n", " ")
        for alias, name in self.alias.items():
            text = text.replace(alias, name if _plain(name) else quoted(name))
        return text

    @property
    def written_out(self) -> str:
        """The whole expression in one spelling, whatever its spaces."""
        return self.written(self.tree)


def _plain(name: str) -> bool:
    """Whether a name stands for itself within an expression."""
    return name.isascii() and name.isidentifier() and not name.startswith("_") and not keyword.iskeyword(name)


def column_expression(name: str) -> Expression:
    """The expression that is one column as it stands, whatever characters its name has."""
    return Expression(name, ast.Name("_column"), {"_column": name})


def parse_expression(text: str) -> Expression:
    """The checked expression in `text`; DataError says which piece of it is not allowed, and what is.

    >>> parse_expression("log(`dose (mg)`) - x").variables
    ('dose (mg)', 'x')
    >>> parse_expression("x.mean()")
    Traceback (most recent call last):
    probreg.errors.DataError: the piece 'x.mean()' of the term 'x.mean()' is not allowed...
    """
    expression = syntax(text)
    _check(expression, expression.tree, outermost=True)
    return expression


def parse_response(text: str) -> tuple[Expression, ...]:
    """The one expression of a response, the two of `p(successes, trials)`, or those of `counts(a, b, ...)`."""
    whole = syntax(text)
    tree = whole.tree
    if not (isinstance(tree, ast.Call) and function_of(tree) in ("p", "counts")):
        return (parse_expression(text),)
    if function_of(tree) == "p" and (len(tree.args) != 2 or tree.keywords):
        raise _refused(whole, tree, "p takes two columns, p(successes, trials)")
    if len(tree.args) < 2 or tree.keywords:
        raise _refused(whole, tree, "counts takes two columns or more, one for each class: counts(a, b, c)")
    parts = tuple(Expression(whole.written(arg), arg, whole.alias) for arg in tree.args)
    for part in parts:
        _check(part, part.tree)
    return parts


def syntax(text: str) -> Expression:
    """A term as its syntax tree, quoted names replaced by plain ones; not checked yet."""
    alias: dict[str, str] = {}
    stem = next(s for k in range(len(text) + 1) if (s := f"q{'_' * k}column") not in text)

    def unquote(found: re.Match[str]) -> str:
        if found[1] is not None or ((found[3] or "").isascii() and found[2] is None):
            return found[0]
        meant = unquoted(found[2]) if found[2] is not None else found[3]
        name = next((known for known, column in alias.items() if column == meant), f"{stem}{len(alias)}_")
        alias[name] = meant
        return f" {name} "

    try:
        tree = ast.parse(QUOTED.sub(unquote, text).strip(), mode="eval").body
    except (SyntaxError, ValueError, RecursionError, MemoryError) as error:
        raise DataError(
            f"the term {shown_formula(text)} cannot be read: {first_line(error)}; allowed are {ALLOWED}"
        ) from None
    _refuse_deep(text, tree)
    return Expression(text, tree, alias)


def _refuse_deep(text: str, tree: ast.AST) -> None:
    """DataError for operations within operations beyond what is computed, level by level."""
    level, depth = [tree], 0
    while level:
        depth += 1
        level = [child for node in level for child in ast.iter_child_nodes(node)]
    if depth > DEEPEST_TREE:
        raise DataError(
            f"the term {shown_formula(text)} nests operations {depth} deep; at most {DEEPEST_TREE} are computed"
        )


def is_column(expression: Expression) -> str | None:
    """The name of the column an expression consists of, if it is one column as it stands."""
    tree = expression.tree
    return expression.alias.get(tree.id, tree.id) if isinstance(tree, ast.Name) else None


def coding_of(expression: Expression) -> ast.Call | None:
    """The `C(...)` an expression consists of, if it does."""
    tree = expression.tree
    return tree if isinstance(tree, ast.Call) and function_of(tree) == "C" else None


def learns(expression: Expression) -> bool:
    """Whether a piece of the expression keeps something of the rows it is first computed at, such as a mean or knots.

    >>> learns(parse_expression("center(x)")), learns(parse_expression("log(x)"))
    (True, False)
    """
    return any(isinstance(node, ast.Call) and function_of(node) in STATEFUL for node in ast.walk(expression.tree))


def _check(expression: Expression, node: ast.AST, *, outermost: bool = False) -> None:
    match node:
        case ast.Constant() if type(node.value) in (int, float):
            return
        case ast.Name() if node.id in expression.alias or not node.id.startswith("_"):
            return
        case ast.UnaryOp(op=ast.USub() | ast.UAdd()):
            return _check(expression, node.operand)
        case ast.BinOp() if type(node.op) in OPERATORS:
            _check(expression, node.left)
            return _check(expression, node.right)
        case ast.Compare(ops=[op]) if type(op) in OPERATORS:
            for side in (node.left, *node.comparators):
                if not is_text(side):
                    _check(expression, side)
            return None
        case ast.Call():
            return _check_call(expression, node, outermost)
        case ast.Attribute():
            raise _refused(expression, node, f"a column of that name is written {quoted(expression.written(node))}")
    raise _refused(expression, node)


def _check_call(expression: Expression, call: ast.Call, outermost: bool) -> None:
    name = function_of(call)
    count, named = len(call.args), {word.arg for word in call.keywords}
    if name in ARITY or name == "I":
        wanted = ARITY.get(name, 1)
        if count != wanted or named:
            raise _refused(expression, call, f"{name} takes {wanted} argument{'s' * (wanted > 1)} and no keywords")
        for arg in call.args:
            _check(expression, arg)
        return
    if name in STATEFUL or (name == "C" and outermost):
        words = CODING if name == "C" else STATEFUL[name]
        if not count or not named <= set(words) or count > 1 + len(words):
            raise _refused(expression, call, f"{name} takes one column, then {', '.join(words) or 'nothing'}")
        _check(expression, call.args[0])
        _check_coding(expression, call) if name == "C" else _check_literals(expression, call, call.args[1:])
        _check_sizes(expression, call, name)
        return
    raise _refused(expression, call, "C(...) stands by itself, not inside another function" if name == "C" else "")


def _check_coding(expression: Expression, call: ast.Call) -> None:
    contrasts = [*call.args[1:], *(word.value for word in call.keywords if word.arg == "contrasts")]
    if len(contrasts) > 1:
        raise _refused(expression, call, "C takes one column and one contrast; levels= is named")
    for word in call.keywords:
        if word.arg != "contrasts":
            _check_literals(expression, call, [word.value], words=False)
    for node in contrasts:
        if (name := contrast_of(node)) is None:
            _check_literals(expression, call, [node], words=False)
        elif isinstance(node, ast.Call):
            if not {word.arg for word in node.keywords} <= set(CONTRASTS[name]) or len(node.args) > len(
                CONTRASTS[name]
            ):
                raise _refused(expression, node, f"contr.{name} takes {', '.join(CONTRASTS[name]) or 'nothing'}")
            _check_literals(expression, node, node.args)


def _check_literals(expression: Expression, call: ast.Call, nodes: list[ast.expr], *, words: bool = True) -> None:
    named = [word.value for word in call.keywords] if words else []
    for node in (*nodes, *named):
        if not _is_literal(node):
            raise _refused(expression, node, "this argument is a number, a text, or a list of them")


def _check_sizes(expression: Expression, call: ast.Call, name: str) -> None:
    """DataError for a basis of more columns than are made, before any is."""
    given = dict(zip(SIZES.get(name, ()), call.args[1:])) | {word.arg: word.value for word in call.keywords if word.arg}
    for word in ("df", "degree"):
        match given.get(word):
            case ast.Constant(value=int() | float() as size) if size > MOST_BASIS:
                asked = f"asks for {word}={size:.10g} in {shown_formula(expression.text)}"
                raise DataError(f"{name} {asked}; a basis has at most {MOST_BASIS} columns")
            case ast.List() | ast.Tuple() as many:
                raise _refused(expression, many, f"{word} is one whole number")
    match given.get("knots"):
        case ast.List(elts=knots) | ast.Tuple(elts=knots) if len(knots) > MOST_BASIS:
            raise DataError(
                f"{name} has {len(knots)} knots in {shown_formula(expression.text)}; at most {MOST_BASIS} are taken"
            )


def _is_literal(node: ast.AST) -> bool:
    match node:
        case ast.Constant():
            return node.value is None or type(node.value) in (int, float, str, bool)
        case ast.UnaryOp(op=ast.USub() | ast.UAdd(), operand=ast.Constant() as number):
            return type(number.value) in (int, float)
        case ast.List() | ast.Tuple():
            return all(_is_literal(part) for part in node.elts)
    return False


def is_text(node: ast.AST) -> bool:
    return isinstance(node, ast.Constant) and isinstance(node.value, str)


def function_of(call: ast.Call) -> str:
    """The name called: `log` for log and for np.log, where np.log is one allowed word and never a look-up."""
    match call.func:
        case ast.Name(id=name):
            return name
        case ast.Attribute(value=ast.Name(id="np"), attr=name) if name in ARITY:
            return name
    return ""


def contrast_of(node: ast.AST) -> str | None:
    match node.func if isinstance(node, ast.Call) else node:
        case ast.Attribute(value=ast.Name(id="contr"), attr=name) if name in CONTRASTS:
            return name
    return None


def _names(node: ast.AST) -> Iterator[str]:
    """Names of columns: every name that is not the function of a call or the `contr` of a contrast."""
    match node:
        case ast.Name():
            yield node.id
        case ast.Call():
            coded = function_of(node) == "C"
            for arg in node.args[:1] if coded or function_of(node) in STATEFUL else node.args:
                yield from _names(arg)
        case _:
            for child in ast.iter_child_nodes(node):
                yield from _names(child)


def _refused(expression: Expression, node: ast.AST, why: str = "") -> DataError:
    piece = expression.written(node)
    reason = f": {why}" if why else ""
    return DataError(
        f"the piece {piece!r} of the term {shown_formula(expression.text)} is not allowed{reason}. Nothing in a "
        f"formula is run as Python; allowed are {ALLOWED}"
    )


def first_line(error: BaseException) -> str:
    """The first line of another library's message, without its colours."""
    lines = re.sub(r"\x1b\[[0-9;]*m|[⧛⧚]", "", str(error)).strip().splitlines()
    return (lines[0] if lines else type(error).__name__).rstrip(".")
