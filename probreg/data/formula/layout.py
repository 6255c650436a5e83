"""From a formula to a matrix: `algebra` reads the terms, formulaic lays out their columns, this module feeds it factors.

Every factor is computed by `expressions` and handed to formulaic's materializer as finished values under a word of ours,
so neither its reading nor its evaluation of text is ever reached. What a factor learned (knots, means, levels) is plain data.
"""

import math
import re
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from typing import Any, Literal

import numpy as np

from probreg.data.algebra import MOST_COLUMNS, Factor, FormulaToken, Terms, formula_tokens, quoted, shown_formula, sides
from probreg.data.design import INTERCEPT
from probreg.data.formula.columns import Table, kind_of
from probreg.data.formula.expressions import State, coding_arguments, evaluate_expression, level_column
from probreg.data.formula.grammar import (
    Expression,
    coding_of,
    column_expression,
    first_line,
    is_column,
    parse_expression,
    parse_response,
    syntax,
)
from probreg.data.formula.levels import Level, encode_factor, training_levels
from probreg.data.rows import check_counts, check_trials, refuse_not_finite
from probreg.errors import DataError

Counted = Literal["p", "counts"]
_WORD = re.compile(r"[A-Za-z_][A-Za-z0-9_]*")
_MARK = "\ue000"  # of Unicode's private use
_MARKS = re.compile(f"{_MARK}+")


@dataclass(frozen=True)
class FormulaLayout:
    """A formula taken apart: the response (several expressions where a row counts), the terms by degree and their factors,
    each by the text it is filed under."""

    text: str
    response: str
    outcome: tuple[Expression, ...]
    terms: tuple[tuple[str, ...], ...]
    factors: Mapping[str, Expression]
    intercept: bool

    @property
    def counted(self) -> Counted | None:
        """ "p" for successes of trials, "counts" for counts by class, None for a response of one value per row."""
        if len(self.outcome) == 1:
            return None
        return "p" if self.response.lstrip().startswith("p") else "counts"

    @property
    def classes(self) -> tuple[str, ...] | None:
        """The names of the classes that are counted."""
        return tuple(is_column(e) or e.text for e in self.outcome) if self.counted == "counts" else None

    @property
    def variables(self) -> tuple[str, ...]:
        """The columns the terms read, in order of appearance."""
        return tuple(dict.fromkeys(name for factor in self.factors.values() for name in factor.variables))

    def called(self, text: str) -> str:
        """A factor as users call it in the names of columns: the name of its column, or its expression."""
        name = is_column(self.factors[text])
        return text if name is None else name


@dataclass(frozen=True)
class Memory:
    """What the factors learned: the state of each transform and the levels of each category, by text."""

    transforms: State = field(default_factory=dict)
    levels: dict[str, list[Level]] = field(default_factory=dict)


def parse_formula(text: str) -> FormulaLayout:
    """The parts of `response ~ terms`, every factor checked; DataError names the piece that cannot stand."""
    read: dict[Factor, Expression] = {}

    def factor(token: FormulaToken) -> Factor:
        if token.kind == "name":
            made, expression = Factor(token.text, True), column_expression(token.text)
        else:
            # p(successes, trials) stands on the left alone, and is refused as an expression on the right
            expression = syntax(token.text)
            name = is_column(expression)
            made = Factor(expression.written_out, False) if name is None else Factor(name, True)
        read.setdefault(made, expression)
        return made

    found = sides(text, factor)
    response, outcome = _outcome(text, found.left, read)
    used = dict.fromkeys(f for term in found.terms for f in term)
    if response in used:
        raise DataError(
            f"the response {response.text!r} is also a term of {shown_formula(text)}; leave it out on the right"
        )
    if not found.terms and not found.intercept:
        raise DataError(
            f"the formula {shown_formula(text)} has no terms and no intercept; write 'y ~ 1' for an intercept alone"
        )
    factors = {key_of(f): column_expression(f.text) if f.is_name else parse_expression(read[f].text) for f in used}
    terms = tuple(tuple(key_of(f) for f in term) for term in found.terms)
    return FormulaLayout(text, response.text, outcome, terms, factors, found.intercept)


def key_of(factor: Factor) -> str:
    """The text that a factor is filed under, which reads as the factor again: a name that is no plain word is quoted."""
    return column_written(factor.text) if factor.is_name else factor.text


def column_written(name: str) -> str:
    """A column as a formula writes it.

    >>> column_written("x1"), column_written("1")
    ('x1', '`1`')
    """
    return name if _WORD.fullmatch(name) else quoted(name)


def expand(text: str, names: tuple[str, ...]) -> str:
    """The formula with `.` on its right written out as `names`, quoted where they are not plain words."""
    cut = formula_tokens(text)
    after = next((token.stop for token in cut if token.kind == "~"), len(text) + 1)
    out = text
    for token in reversed(cut):
        if token.kind == "." and token.start >= after:
            if not names:
                raise DataError(f"'.' in {shown_formula(text)} stands for all other columns, and there are none")
            every = " + ".join(map(column_written, names))
            out = f"{out[: token.start]}({every}){out[token.stop :]}"
    return out


def left_of(text: str) -> str:
    """What stands before the ~ of a formula."""
    return next((text[: token.start] for token in formula_tokens(text) if token.kind == "~"), text)


def lay_out(
    parts: FormulaLayout, table: Table, memory: Memory, *, training: bool
) -> tuple[np.ndarray, tuple[str, ...]]:
    """The matrix (n, p) of the terms and its columns; training fills `memory`, afterwards it is only read."""
    import pandas as pd
    from formulaic import ModelSpec, SimpleFormula
    from formulaic.materializers.pandas import PandasMaterializer
    from formulaic.materializers.types import EvaluatedFactor
    from formulaic.parser.types import Factor as Named, Term as Product

    values = {text: _factor_values(text, e, table, memory, training) for text, e in parts.factors.items()}
    _refuse_many_columns(parts, {text: _width(text, v, memory) for text, v in values.items()})
    # formulaic knows each factor by a word of ours that is in no level, so that no name or level is read as anything else
    stem = _unused(str(level) for levels in memory.levels.values() for level in levels)
    word = {text: f"{stem}{i}{stem}" for i, text in enumerate(parts.factors)}
    materializer = PandasMaterializer(pd.DataFrame(index=range(len(table.rows))), context={})
    for text, value in values.items():
        materializer.factor_cache[word[text]] = EvaluatedFactor(Named(word[text]), value, variables=set())
    known = {
        word[t]: (Named.Kind.CATEGORICAL, {"categories": levels}) for t, levels in memory.levels.items() if t in word
    }
    products = [Product([Named("1", eval_method="literal")])] if parts.intercept else []
    products += [Product([Named(word[text]) for text in term]) for term in parts.terms]
    spec = ModelSpec(formula=SimpleFormula(products), output="numpy", na_action="ignore", encoder_state=known)
    try:
        with np.errstate(all="ignore"):
            found = materializer.get_model_matrix(spec)
    except Exception as error:  # contrasts that do not fit their levels, in as many kinds of error
        (why,) = _renamed([first_line(error)], stem, parts)
        raise DataError(f"the columns of {shown_formula(parts.text)} cannot be made: {why}") from None
    columns = _renamed(found.model_spec.column_names, stem, parts)
    X = np.ascontiguousarray(np.asarray(found, dtype=np.float64).reshape(len(table.rows), len(columns)))
    _refuse_bad_columns(X, columns, parts, table)
    return X, columns


def _unused(texts: Iterable[str]) -> str:
    """A mark that is in none of these texts."""
    longest = max((len(run) for text in texts for run in _MARKS.findall(text)), default=0)
    return _MARK * (longest + 1)


def _renamed(columns: Iterable[str], stem: str, parts: FormulaLayout) -> tuple[str, ...]:
    """Columns as users call them."""
    names, word = [parts.called(text) for text in parts.factors], re.compile(f"{stem}([0-9]+){stem}")
    return tuple(word.sub(lambda found: names[int(found[1])], column) for column in columns)


def _width(text: str, values: Any, memory: Memory) -> int:
    """The most columns that a factor may have."""
    if text in memory.levels:
        return len(memory.levels[text])
    held = getattr(values, "__wrapped__", values)
    if isinstance(held, Mapping):
        return len(held)
    return int(np.shape(held)[1]) if np.ndim(held) == 2 else 1


def _refuse_many_columns(parts: FormulaLayout, width: Mapping[str, int]) -> None:
    """DataError for more columns than are made, before any is."""
    made = [(math.prod(width[text] for text in term), term) for term in parts.terms]
    if (total := sum(count for count, _ in made)) > MOST_COLUMNS:
        count, widest = max(made)
        raise DataError(
            f"the terms of {shown_formula(parts.text)} stand for up to {total} columns ({':'.join(widest)} for {count}); "
            f"at most {MOST_COLUMNS} are made"
        )


def numeric(expression: Expression, table: Table, transforms: State, *, training: bool) -> np.ndarray:
    """The finite numbers (n,) of an expression that must be one column: an offset, a transformed response."""
    found = evaluate_expression(expression, table, transforms, training=training)
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
    if name is not None and kind in ("time", "other"):
        raise _not_a_predictor(name, table, kind)
    if coding is None and kind in ("number", "truth") and text not in memory.levels:
        return _numeric_factor(text, expression, table, memory, training)
    if not training and text not in memory.levels:
        raise DataError(f"column {text!r} held numbers when the model was fitted and holds {kind} now")
    arguments = coding_arguments(coding) if coding is not None else {}
    column = level_column(expression, table, memory.transforms, training=training)
    if training and text not in memory.levels:  # levels of more rows than these may be known before
        memory.levels[text] = training_levels(text, column, arguments.get("levels"), table, coded=coding is not None)
    values = encode_factor(text, column, memory.levels[text], table)
    return (
        C(values, **arguments) if coding is not None else FactorValues(values, kind="categorical", spans_intercept=True)
    )


def _numeric_factor(text: str, expression: Expression, table: Table, memory: Memory, training: bool) -> Any:
    from formulaic.materializers.types import FactorValues

    found = evaluate_expression(expression, table, memory.transforms, training=training)
    if np.ndim(found) == 0 and not isinstance(found, Mapping):
        found = np.full(len(table.rows), float(found))
    parts = list(found.values()) if isinstance(found, Mapping) else list(np.atleast_2d(np.asarray(found).T))
    for values in parts:
        refuse_not_finite(np.asarray(values), term=text, variables=expression.variables, table=table)
    if isinstance(found, FactorValues):
        return FactorValues(found, kind="numerical")
    return FactorValues(found, kind="numerical", spans_intercept=False)


def _refuse_bad_columns(X: np.ndarray, columns: tuple[str, ...], parts: FormulaLayout, table: Table) -> None:
    if len(set(columns)) < len(columns):
        twice = sorted({name for name in columns if columns.count(name) > 1})
        hint = "; 'Intercept' is the column of ones: rename yours" if INTERCEPT in twice and parts.intercept else ""
        raise DataError(
            f"{shown_formula(parts.text)} makes more than one column called {', '.join(map(repr, twice))}{hint}"
        )
    for j, name in enumerate(columns):
        refuse_not_finite(X[:, j], term=name, variables=(), table=table)


def counts_at(parts: FormulaLayout, table: Table, learned: State, *, training: bool) -> np.ndarray:
    """Successes and trials (n, 2), or counts by class (n, K), at the rows of a table. DataError names row and value."""
    each = np.stack([numeric(part, table, learned, training=training) for part in parts.outcome], 1)
    check = check_trials if parts.counted == "p" else check_counts
    check(each, term=parts.response, table=table)
    return each


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


def _outcome(text: str, left: Terms, read: Mapping[Factor, Expression]) -> tuple[Factor, tuple[Expression, ...]]:
    """The one factor of the left side, and what it says of the response: one expression, or two of p(s, t)."""
    factors = [factor for term in left.terms.values() for factor in term]
    if len(left.terms) != 1 or len(factors) != 1 or left.one is not None:
        raise DataError(
            f"the left side of {shown_formula(text)} is {left_of(text).strip()!r}; one response stands there, "
            "such as y, log(y), {y1 - y2}, p(successes, trials) or counts(a, b, c)"
        )
    (factor,) = factors
    return factor, (column_expression(factor.text),) if factor.is_name else parse_response(read[factor].text)
