"""The values of an expression at the rows of a table."""

import ast
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field, replace
from typing import Any

import numpy as np

from probreg.arguments.arrays import brief
from probreg.data.checked_arrays import full_weights
from probreg.data.formula.columns import DataTable, first_text, kind_of
from probreg.data.formula.contrasts import LevelCoding
from probreg.data.formula.transforms import TRANSFORMS, FactorColumns, State
from probreg.data.terms.grouped import GroupedTerm
from probreg.data.terms.process import ProcessTerm, learned_process
from probreg.data.terms.smooths import SmoothTerm, learned_term
from probreg.errors import DataError
from probreg.formula.expression import (
    ARITHMETIC,
    FUNCTIONS,
    SMOOTHS,
    STANDALONE,
    STATEFUL,
    Expression,
    contrast_of,
    function_of,
    is_inexact,
    is_text,
    literal_arguments,
)
from probreg.formula.text import first_line

ELEMENTWISE: dict[str, Callable[..., Any]] = {
    name: getattr(np, name) for name in FUNCTIONS
}


Level = str | int | float | bool
Term = SmoothTerm | ProcessTerm | GroupedTerm


@dataclass(frozen=True)
class Memory:
    """The learned state of the factors: of each transform, the levels of each category, and the terms with a basis, by text.

    `groups` are the known groups of rows elsewhere, by the columns that define them. While `learning`, a factor without state learns it
    from the rows.
    """

    transforms: State = field(default_factory=dict)
    levels: dict[str, list[Level]] = field(default_factory=dict)
    terms: dict[str, Term] = field(default_factory=dict)
    groups: dict[tuple[str, ...], tuple[str, ...]] = field(
        default_factory=dict, compare=False
    )
    learning: bool = field(default=True, compare=False)


def is_truth(expression: Expression, columns: Mapping[str, Any]) -> bool:
    """Return whether an expression has Boolean values: a comparison, or a Boolean column, also within I(...) and C(...)."""
    node: ast.AST = expression.tree
    while isinstance(node, ast.Call) and function_of(node) in ("I", "C"):
        node = node.args[0]
    name = expression.name_of(node)
    if name is not None:
        return kind_of(columns[name]) == "truth"
    return isinstance(node, ast.Compare)


def is_category(expression: Expression, columns: Mapping[str, Any]) -> bool:
    """Return whether an expression is a factor of levels: text, a category, truth values, or coded by C(...)."""
    name = expression.column
    has_levels = name is not None and kind_of(columns[name]) in ("text", "levels")
    is_coded = expression.coding_call is not None
    return has_levels or is_coded or is_truth(expression, columns)


def evaluate_expression(
    expression: Expression,
    table: DataTable,
    memory: Memory,
    *,
    centred: bool = True,
) -> Any:
    """Return the values of an expression at the rows of a table: an array (n,), or the result of a basis or a coding.

    A transform or a term that is not in `memory` learns from these rows. Cubic splines are `centred` if other columns span the
    constant.
    """
    with np.errstate(all="ignore"):
        return _Evaluation(expression, table, memory, centred).value(expression.tree)


def read_coding(expression: Expression) -> tuple[LevelCoding, Any]:
    """Return the contrast of a checked factor, by default treatment, and the levels of `C(...)`; None if they are not listed."""
    call = expression.coding_call
    if call is None:
        return LevelCoding(), None
    keywords = {word.arg: word.value for word in call.keywords if word.arg}
    node = call.args[1] if len(call.args) > 1 else keywords.pop("contrasts", None)
    levels = ast.literal_eval(keywords["levels"]) if "levels" in keywords else None
    if node is None:
        return LevelCoding(), levels
    kind = contrast_of(node)
    assert kind is not None  # checked with the formula
    arguments, options = (
        literal_arguments(node) if isinstance(node, ast.Call) else ([], {})
    )
    if "reference" in options:
        options["base"] = options.pop("reference")
    return LevelCoding(kind, tuple(arguments), options), levels


@dataclass(frozen=True)
class _Evaluation:
    """A checked expression at the rows of a table."""

    of: Expression
    table: DataTable
    memory: Memory
    centred: bool = True

    def value(self, node: ast.AST) -> Any:
        name = function_of(node)
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
            case ast.Compare():
                return self._compare(node)
            case ast.Call() if name in ELEMENTWISE:
                values = [self._numbers_of(arg) for arg in node.args]
                if name == "where":
                    return ELEMENTWISE[name](values[0] != 0, *values[1:])
                return ELEMENTWISE[name](*values)
            case ast.Call() if name in STATEFUL:
                return self._transform(node, name)
            case ast.Call() if name in STANDALONE:
                return self._standalone(node, name)
            case ast.Call() if name == "I":
                return self.value(node.args[0])
        raise DataError(f"the piece {ast.unparse(node)!r} is not allowed")

    def _numeric_column(self, name: str) -> np.ndarray:
        column = self.table.columns[name]
        kind = kind_of(column)
        if kind not in ("number", "truth"):
            content = {"text": "text", "levels": "categories", "time": "times"}.get(
                kind, f"{type(column[0]).__name__} values"
            )
            i = first_text(column)
            raise DataError(
                f"column {name!r} holds {content} (row {self.table.rows[i]}: {brief(column[i])}), but the term "
                f"{self.of.text!r} computes with it and needs numbers; convert it first"
            )
        return np.asarray(column, dtype=np.float64)

    def _numbers_of(self, node: ast.AST) -> Any:
        """Return the values of a function's or an operator's argument. DataError for a basis, because it has several columns."""
        values = self.value(node)
        if isinstance(values, FactorColumns):
            raise DataError(
                f"{self.of.written(node)!r} is several columns, but {self.of.text!r} needs one: write it as a term by itself"
            )
        return values

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

    def _compare(self, node: ast.Compare) -> np.ndarray:
        """Return 1 where a comparison is true; text, and whole numbers that are not exact as floats, are compared in their own type."""
        (op,) = node.ops
        sides = [node.left, *node.comparators]
        texts = any(map(is_text, sides))
        large = any(map(is_inexact, sides))
        names = [name for name in map(self.of.name_of, sides) if name is not None]
        if texts and (len(names) != 1 or not isinstance(op, ast.Eq | ast.NotEq)):
            raise DataError(
                f"in the term {self.of.text!r} text is only compared as column == 'text' or !="
            )
        if len(names) == 1 and (texts or large):
            if large:
                self._numeric_column(names[0])
            column = np.asarray(self.table.columns[names[0]], dtype=object)
            values = [s.value if isinstance(s, ast.Constant) else column for s in sides]
            return np.asarray(ARITHMETIC[type(op)](*values), dtype=float)
        return np.asarray(self._arithmetic(node, op, *sides), dtype=float)

    def _transform(self, call: ast.Call, name: str) -> Any:
        """Return the column or the columns of a stateful transform, at its kept state."""
        key = self.of.written(call)
        values = np.broadcast_to(self._numbers_of(call.args[0]), self.table.rows.shape)
        arguments, words = literal_arguments(call, 1)
        if name in ("cr", "cc"):
            # columns that are not centred sum to 1, like the intercept
            words["centred"] = self.centred
        state = self.memory.transforms.setdefault(key, {})
        counts = full_weights(self.table.counts, len(values))
        x = np.array(values, dtype=float)
        try:
            columns = TRANSFORMS[name](x, state, counts, *arguments, **words)
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
        return columns

    def _standalone(self, call: ast.Call, name: str) -> FactorColumns:
        """Return the columns of a smooth function or a process, at its kept basis."""
        key = self.of.written(call)
        x = self._inputs(call)
        rows = self.table.rows
        by = None if self.of.by is None else self.table.columns[self.of.by]
        term: Any = self.memory.terms.get(key)
        if term is None:
            inputs = tuple(map(self.of.written, call.args))
            words = {
                w.arg: ast.literal_eval(w.value)
                for w in call.keywords
                if w.arg and w.arg != "by"
            }
            names = {"key": key, "short": f"{name}({', '.join(inputs)})"}
            counts = self.table.counts
            if name in SMOOTHS:
                term = learned_term(name, x, by, words, **names, counts=counts)
            else:
                term = learned_process(
                    x,
                    words,
                    **names,
                    inputs=inputs,
                    streamed=self.table.streamed,
                    counts=counts,
                )
            self.memory.terms[key] = term
        if isinstance(term, ProcessTerm):
            columns = term.columns_at(x, rows)
            return replace(FactorColumns.number_columns(columns), inputs=x)
        names_in_brackets = tuple(
            column[len(key) + 1 : -1]
            for function in term.functions
            for column in function.columns
        )
        columns = term.columns_at(x, by, rows)
        return FactorColumns(names_in_brackets, columns, inputs=x)

    def _inputs(self, call: ast.Call) -> np.ndarray:
        """Return the inputs of a smooth function or a process (n, d): one column for each of its arguments."""
        key = self.of.written(call)
        n = len(self.table.rows)
        columns = [self._numbers_of(arg) for arg in call.args]
        x = np.column_stack([np.broadcast_to(values, (n,)) for values in columns])
        if not np.isfinite(x).all():
            i = int(np.argwhere(~np.isfinite(x))[0, 0])
            raise DataError(
                f"{key!r} is computed from {x[i].tolist()} at row {self.table.rows[i]}, which is not finite"
            )
        return x

    def _refuse_outside(self, key: str, x: np.ndarray, low: float, high: float) -> None:
        """Raise DataError for values outside the range of a spline, where it is not defined by default."""
        bad = np.flatnonzero((x < low) | (x > high))
        if len(bad):
            rows = ", ".join(f"row {self.table.rows[i]}: {x[i]:g}" for i in bad[:5])
            raise DataError(
                f"the spline {key!r} is defined on [{low:g}, {high:g}], the range it was built on, and "
                f"{len(bad)} of the values lie outside ({rows}). Stay within, or say what happens outside with "
                "extrapolation='clip', 'extend' or 'zero' in the formula"
            )
