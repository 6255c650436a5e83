"""Computing a checked expression at the rows of a table by walking its tree.

No text is ever handed to `eval` and no attribute is ever looked up by name. Functions and columns live in
different tables, so a column called `log` cannot stand in for the function.
"""

import ast
import operator
from collections.abc import Callable, Mapping, MutableMapping
from dataclasses import dataclass
from typing import Any

import numpy as np

from probreg.data.formula.columns import Table, kind_of
from probreg.data.formula.grammar import (
    ALLOWED,
    ARITY,
    STATEFUL,
    Expression,
    coding_of,
    contrast_of,
    first_line,
    function_of,
    is_text,
)
from probreg.errors import DataError

State = MutableMapping[str, dict[str, Any]]
ELEMENTWISE: dict[str, Callable[..., Any]] = {name: getattr(np, name) for name in ARITY}
ARITHMETIC: dict[type[ast.AST], Callable[[Any, Any], Any]] = {
    ast.Add: operator.add,
    ast.Sub: operator.sub,
    ast.Mult: operator.mul,
    ast.Div: operator.truediv,
    ast.Pow: operator.pow,
    ast.Lt: operator.lt,
    ast.LtE: operator.le,
    ast.Gt: operator.gt,
    ast.GtE: operator.ge,
    ast.Eq: operator.eq,
    ast.NotEq: operator.ne,
}


def evaluate_expression(expression: Expression, table: Table, state: State, *, training: bool) -> Any:
    """The values of an expression at the rows of a table: an array (n,), or what a basis or a coding returns.

    While `training`, stateful transforms write what they learn into `state`; afterwards they only read it.
    """
    with np.errstate(all="ignore"):
        return _value(_Walk(expression, table, state, training), expression.tree)


def level_column(expression: Expression, table: Table, state: State, *, training: bool) -> Any:
    """What `C(...)` codes: the column as it stands, or the value of an expression."""
    call = coding_of(expression)
    inner = expression.tree if call is None else call.args[0]
    if isinstance(inner, ast.Name):
        return table.columns[expression.alias.get(inner.id, inner.id)]
    with np.errstate(all="ignore"):
        value = _value(_Walk(expression, table, state, training), inner)
    return np.broadcast_to(value, table.rows.shape[:1])


def coding_arguments(call: ast.Call) -> dict[str, Any]:
    """The contrasts, levels and spans_intercept of a checked `C(...)`, as formulaic takes them."""
    given = {word.arg: word.value for word in call.keywords if word.arg}
    if len(call.args) > 1:
        given["contrasts"] = call.args[1]
    return {name: _contrast(node) if name == "contrasts" else _literal(node) for name, node in given.items()}


@dataclass(frozen=True)
class _Walk:
    expression: Expression
    table: Table
    state: State
    training: bool


def _value(walk: _Walk, node: ast.AST) -> Any:
    match node:
        case ast.Constant():
            return float(node.value)  # type: ignore[arg-type]  # checked: a real number
        case ast.Name():
            return _numbers(walk, node)
        case ast.UnaryOp():
            operand = _value(walk, node.operand)
            return -operand if isinstance(node.op, ast.USub) else operand
        case ast.BinOp():
            return _arithmetic(walk, node, node.op, node.left, node.right)
        case ast.Compare(left=left, ops=[op], comparators=[right]):
            sides = (right, left) if is_text(left) else (left, right)
            if is_text(sides[1]):
                return _same_text(walk, sides[0], sides[1], op)
            return np.asarray(_arithmetic(walk, node, op, left, right), dtype=float)
        case ast.Call() if (name := function_of(node)) in ELEMENTWISE:
            values = [_value(walk, arg) for arg in node.args]
            return ELEMENTWISE[name](values[0] != 0, *values[1:]) if name == "where" else ELEMENTWISE[name](*values)
        case ast.Call() if function_of(node) in STATEFUL:
            return _stateful(walk, node)
        case ast.Call() if function_of(node) == "I":
            return _value(walk, node.args[0])
    raise DataError(f"the piece {ast.unparse(node)!r} is not allowed; allowed are {ALLOWED}")


def _arithmetic(walk: _Walk, node: ast.AST, op: ast.AST, left: ast.AST, right: ast.AST) -> Any:
    try:
        value = ARITHMETIC[type(op)](_value(walk, left), _value(walk, right))
    except (ArithmeticError, ValueError, TypeError) as error:
        raise DataError(f"{walk.expression.written(node)!r} cannot be computed: {first_line(error)}") from None
    if isinstance(value, complex):
        raise DataError(f"{walk.expression.written(node)!r} is a complex number; a column is real")
    return value


def _numbers(walk: _Walk, node: ast.Name) -> np.ndarray:
    name = walk.expression.alias.get(node.id, node.id)
    column = walk.table.columns[name]
    if (kind := kind_of(column)) not in ("number", "truth"):
        what = {"text": "text", "levels": "categories"}.get(kind, f"{getattr(column, 'dtype', kind)} values")
        raise DataError(
            f"column {name!r} holds {what} (row {walk.table.rows[0]}: {column[0]!r}), but the term "
            f"{walk.expression.text!r} computes with it and needs numbers; convert it first"
        )
    return np.asarray(column, dtype=np.float64)


def _same_text(walk: _Walk, column: ast.AST, text: ast.AST, op: ast.AST) -> np.ndarray:
    if not isinstance(column, ast.Name) or not isinstance(text, ast.Constant) or not isinstance(op, ast.Eq | ast.NotEq):
        raise DataError(f"in the term {walk.expression.text!r} text is only compared as column == 'text' or !=")
    values = np.asarray(walk.table.columns[walk.expression.alias.get(column.id, column.id)], dtype=object)
    return np.asarray(ARITHMETIC[type(op)](values, text.value), dtype=float)


def _stateful(walk: _Walk, node: ast.Call) -> Any:
    name, key = function_of(node), walk.expression.written(node)
    values = np.broadcast_to(_column(walk, node.args[0]), walk.table.rows.shape[:1])
    arguments = [_literal(arg) for arg in node.args[1:]]
    words = {word.arg: _literal(word.value) for word in node.keywords if word.arg}
    if not walk.training and key not in walk.state:
        raise DataError(f"the recipe has no saved state for {key!r}; it was not saved whole")
    state = walk.state.setdefault(key, {})
    _within_bounds(walk, key, values, {**words, **state})
    try:
        found = _transforms()[name](np.array(values), *arguments, _state=state, **words)
    except Exception as error:  # formulaic's transforms raise of every kind on arguments that do not fit
        raise DataError(f"the term {key!r} cannot be computed: {first_line(error)}") from None
    if name == "poly" and words.get("raw", len(arguments) > 1 and arguments[1]):
        return {str(power): found[:, power - 1] for power in range(1, found.shape[1] + 1)}
    return found


def _column(walk: _Walk, node: ast.AST) -> Any:
    value = _value(walk, node)
    if np.ndim(value) > 1 or isinstance(value, Mapping) or isinstance(getattr(value, "__wrapped__", None), Mapping):
        written = walk.expression.written(node)
        raise DataError(f"{written!r} is several columns, but {walk.expression.text!r} needs one")
    return np.asarray(value, dtype=float)


def _within_bounds(walk: _Walk, key: str, values: np.ndarray, words: Mapping[str, Any]) -> None:
    low, high = words.get("lower_bound"), words.get("upper_bound")
    if words.get("extrapolation", "raise") != "raise" or low is None or high is None:
        return
    if len(bad := np.flatnonzero((values < low) | (values > high))):
        rows = ", ".join(f"row {walk.table.rows[i]}: {values[i]:g}" for i in bad[:5])
        raise DataError(
            f"the spline {key!r} is defined on [{low:g}, {high:g}], the range it was built on, and "
            f"{len(bad)} of the values lie outside ({rows}); stay within, or say what happens outside with "
            "extrapolation='clip', 'extend' or 'zero' in the formula"
        )


def _transforms() -> dict[str, Callable[..., Any]]:
    from formulaic.transforms import (
        basis_spline,
        center,
        cyclic_cubic_spline,
        natural_cubic_spline,
        poly,
        scale,
    )

    return {
        "poly": poly,
        "bs": basis_spline,
        "cr": natural_cubic_spline,
        "cc": cyclic_cubic_spline,
        "scale": scale,
        "center": center,
    }


def _contrast(node: ast.AST) -> Any:
    from formulaic.transforms import ContrastsRegistry as Known

    kinds = {
        "treatment": Known.treatment,
        "SAS": Known.SAS,
        "sum": Known.sum,
        "helmert": Known.helmert,
        "diff": Known.diff,
        "poly": Known.poly,
    }
    if not isinstance(node, ast.Call | ast.Attribute):
        return _literal(node)
    if isinstance(node, ast.Attribute):
        return kinds[node.attr]()
    arguments = [_literal(arg) for arg in node.args]
    return kinds[contrast_of(node) or ""](*arguments, **{w.arg: _literal(w.value) for w in node.keywords if w.arg})


def _literal(node: ast.AST) -> Any:
    return ast.literal_eval(node)
