"""From a formula to a matrix: formulaic reads the terms and lays out columns, this module feeds it factors.

Every factor is computed by `expressions` and handed to formulaic's materializer as finished values, so its
own evaluation of text is never reached. What a factor learned (knots, means, levels) is plain data.
"""

import itertools
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

import numpy as np

from probreg.design.columns import Table, kind_of
from probreg.design.expressions import State, coding_arguments, evaluate, level_column
from probreg.design.grammar import (
    Expression,
    coding_of,
    column_of,
    first_line,
    is_column,
    parse_expression,
    parse_response,
)
from probreg.design.levels import Level, coded, training_levels
from probreg.design.rows import refuse_not_finite
from probreg.errors import DataError

HIGHEST_POWER = 5  # (a + b + ...)**5 crosses five variables at once; more is a slip, and costs exponentially


@dataclass(frozen=True)
class Parts:
    """A formula taken apart: the response (two expressions if it is trials) and the factors of its terms."""

    text: str
    response: str
    outcome: tuple[Expression, ...]
    terms: Any
    factors: Mapping[str, Expression]
    intercept: bool

    @property
    def variables(self) -> tuple[str, ...]:
        """The columns the terms read, in order of appearance."""
        return tuple(dict.fromkeys(name for factor in self.factors.values() for name in factor.variables))


@dataclass(frozen=True)
class Memory:
    """What the factors learned: the state of each transform and the levels of each category, by text."""

    transforms: State = field(default_factory=dict)
    levels: dict[str, list[Level]] = field(default_factory=dict)


def parse_formula(text: str) -> Parts:
    """The parts of `response ~ terms`, every factor checked; DataError names the piece that cannot stand."""
    from formulaic import Formula
    from formulaic.formula import SimpleFormula, StructuredFormula

    _refuse_high_powers(text)
    try:
        formula = Formula(text)
    except Exception as error:  # formulaic raises errors of several kinds on text that is not a formula
        raise DataError(f"the formula {text!r} cannot be read: {first_line(error)}") from None
    sides = formula._structure if isinstance(formula, StructuredFormula) else {}
    left, right = sides.get("lhs", ()), sides.get("rhs", formula)
    if not isinstance(right, SimpleFormula) or (isinstance(left, tuple) and len(left) > 1) or "root" in sides:
        raise DataError(
            f"the formula {text!r} has parts divided by '|', which no model here takes; use + between terms"
        )
    if not len(left):
        raise DataError(f"the formula {text!r} has no response; write 'response ~ terms'")
    if not text.partition("~")[2].strip():
        raise DataError(f"the formula {text!r} has nothing on its right side; write 'y ~ 1' for an intercept alone")
    response, outcome = _outcome(text, left)
    _refuse_scaled(text, right)
    factors = {factor.expr: _factor(factor) for term in right for factor in term.factors if not _literal(factor)}
    if response in factors:
        raise DataError(f"the response {response!r} is also a term of {text!r}; leave it out on the right")
    if not len(right):
        raise DataError(f"the formula {text!r} has no terms and no intercept; write 'y ~ 1' for an intercept alone")
    intercept = any(str(term) == "1" for term in right)
    return Parts(text, response, outcome, right, factors, intercept)


def expand(text: str, names: tuple[str, ...]) -> str:
    """The formula with `.` on its right written out as `names`, quoted where they are not plain words."""
    if not isinstance(text, str):
        raise DataError(f"a formula is a text such as 'y ~ x'; got {type(text).__name__}")
    every = " + ".join(name if name.isidentifier() and name.isascii() else f"`{name}`" for name in names)
    out, after = text, text.find("~")
    for token in reversed(_tokens(text)):
        if token.token == "." and token.source_start is not None and token.source_start > after:
            if not names:
                raise DataError(f"'.' in {text!r} stands for all other columns, and there are none")
            out = f"{out[: token.source_start]}({every}){out[token.source_start + 1 :]}"
    return out


def lay_out(parts: Parts, table: Table, memory: Memory, *, training: bool) -> tuple[np.ndarray, tuple[str, ...]]:
    """The matrix (n, p) of the terms and its columns; training fills `memory`, afterwards it is only read."""
    import pandas as pd
    from formulaic import ModelSpec
    from formulaic.materializers.pandas import PandasMaterializer
    from formulaic.materializers.types import EvaluatedFactor
    from formulaic.parser.types import Factor

    materializer = PandasMaterializer(pd.DataFrame(index=range(len(table.rows))), context={})
    for text, expression in parts.factors.items():
        values = _factor_values(text, expression, table, memory, training)
        materializer.factor_cache[text] = EvaluatedFactor(Factor(text), values, variables=set())
    known = {text: (Factor.Kind.CATEGORICAL, {"categories": levels}) for text, levels in memory.levels.items()}
    spec = ModelSpec(formula=parts.terms, output="numpy", na_action="ignore", encoder_state=known)
    try:
        with np.errstate(all="ignore"):
            found = materializer.get_model_matrix(spec)
    except Exception as error:  # contrasts that do not fit their levels, in as many kinds of error
        raise DataError(f"the columns of {parts.text!r} cannot be made: {first_line(error)}") from None
    columns = tuple(found.model_spec.column_names)
    X = np.ascontiguousarray(np.asarray(found, dtype=np.float64).reshape(len(table.rows), len(columns)))
    _refuse_bad_columns(X, columns, parts, table)
    return X, columns


def numeric(expression: Expression, table: Table, transforms: State, *, training: bool) -> np.ndarray:
    """The finite numbers (n,) of an expression that must be one column: an offset, a transformed response."""
    found = evaluate(expression, table, transforms, training=training)
    if isinstance(found, Mapping) or np.ndim(found) > 1:
        raise DataError(f"{expression.text!r} is several columns where one is needed")
    values = np.array(np.broadcast_to(np.asarray(found, dtype=np.float64), table.rows.shape[:1]))
    refuse_not_finite(values, term=expression.text, variables=expression.variables, table=table)
    return values


def _factor_values(text: str, expression: Expression, table: Table, memory: Memory, training: bool) -> Any:
    from formulaic.materializers.types import FactorValues
    from formulaic.transforms import C

    name = is_column(expression)
    coding = coding_of(expression)
    kind = kind_of(table.columns[name]) if name is not None else "number"
    if kind in ("time", "other"):
        raise _not_a_predictor(name or text, table, kind)
    if coding is None and kind in ("number", "truth") and text not in memory.levels:
        return _numeric_factor(text, expression, table, memory, training)
    if not training and text not in memory.levels:
        raise DataError(f"column {text!r} held numbers when the model was fitted and holds {kind} now")
    arguments = coding_arguments(coding) if coding is not None else {}
    column = level_column(expression, table, memory.transforms, training=training)
    if training and text not in memory.levels:  # levels of more rows than these may be known before
        memory.levels[text] = training_levels(text, column, arguments.get("levels"), table, coded=coding is not None)
    values = coded(text, column, memory.levels[text], table)
    return (
        C(values, **arguments) if coding is not None else FactorValues(values, kind="categorical", spans_intercept=True)
    )


def _numeric_factor(text: str, expression: Expression, table: Table, memory: Memory, training: bool) -> Any:
    from formulaic.materializers.types import FactorValues

    found = evaluate(expression, table, memory.transforms, training=training)
    if np.ndim(found) == 0 and not isinstance(found, Mapping):
        found = np.full(len(table.rows), float(found))
    parts = list(found.values()) if isinstance(found, Mapping) else list(np.atleast_2d(np.asarray(found).T))
    for values in parts:
        refuse_not_finite(np.asarray(values), term=text, variables=expression.variables, table=table)
    if isinstance(found, FactorValues):
        return FactorValues(found, kind="numerical")
    return FactorValues(found, kind="numerical", spans_intercept=False)


def _refuse_bad_columns(X: np.ndarray, columns: tuple[str, ...], parts: Parts, table: Table) -> None:
    if len(set(columns)) < len(columns):
        twice = sorted({name for name in columns if columns.count(name) > 1})
        raise DataError(f"the formula {parts.text!r} makes more than one column called {', '.join(map(repr, twice))}")
    for j, name in enumerate(columns):
        refuse_not_finite(X[:, j], term=name, variables=(), table=table)


def _not_a_predictor(name: str, table: Table, kind: str) -> DataError:
    column = table.columns[name]
    if kind == "time":
        return DataError(
            f"column {name!r} holds times (row {table.rows[0]}: {column[0]}); turn it into a number first, "
            "such as days since a date, or into a category such as the month"
        )
    kinds = sorted({type(value).__name__ for value in column})
    return DataError(
        f"column {name!r} holds values of kind {', '.join(kinds)}; a predictor holds numbers or categories"
    )


def _outcome(text: str, lhs: Any) -> tuple[str, tuple[Expression, ...]]:
    factors = [factor for term in lhs for factor in term.factors]
    if len(lhs) != 1 or len(factors) != 1 or _literal(factors[0]):
        raise DataError(
            f"the left side of {text!r} is {' + '.join(map(str, lhs))!r}; one response stands there, "
            "such as y, log(y), {y1 - y2} or p(successes, trials)"
        )
    (factor,) = factors
    outcome = parse_response(factor.expr) if factor.eval_method.value == "python" else (column_of(factor.expr),)
    return factor.expr, outcome


def _factor(factor: Any) -> Expression:
    return parse_expression(factor.expr) if factor.eval_method.value == "python" else column_of(factor.expr)


def _refuse_scaled(text: str, terms: Any) -> None:
    for term in terms:
        if len(term.factors) > 1 and any(_literal(factor) for factor in term.factors):
            raise DataError(
                f"the term {str(term)!r} of {text!r} has a number in it; write I(2 * x), so that the column says so"
            )


def _literal(factor: Any) -> bool:
    return factor.eval_method.value == "literal"


def _tokens(text: str) -> list[Any]:
    from formulaic.parser.algos.tokenize import tokenize

    try:
        return list(tokenize(text))
    except Exception as error:  # as in parse_formula
        raise DataError(f"the formula {text!r} cannot be read: {first_line(error)}") from None


def _refuse_high_powers(text: str) -> None:
    tokens = [token.token for token in _tokens(text)]
    for sign, power in itertools.pairwise(tokens):
        if sign in ("**", "^") and power.isdigit() and int(power) > HIGHEST_POWER:
            raise DataError(
                f"{text!r} crosses variables up to the power {power}; at most {HIGHEST_POWER} is taken. "
                "For a power of a number write I(x**2) or poly(x, 2)"
            )
