"""From a formula to a matrix: `algebra` reads the terms, formulaic lays out their columns, this module feeds it factors.

Every factor is computed by `grammar` and handed to formulaic's materializer as finished values under a word of ours, so neither
its reading nor its evaluation of text is ever reached. What a factor learned (knots, means, levels) is plain data.
"""

import itertools
import math
import re
from collections import Counter
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from datetime import date, time, timedelta
from decimal import Decimal
from typing import Any

import numpy as np

from probreg.arguments.arrays import reads_as_number
from probreg.data.checked_arrays import INTERCEPT
from probreg.data.formula.algebra import MOST_COLUMNS, FormulaLayout
from probreg.data.formula.coded import STAND_IN, coded_factors, stand_in, with_codes
from probreg.data.formula.columns import EXACT, Table, kind_of
from probreg.data.formula.grammar import (
    Expression,
    State,
    coding_arguments,
    evaluate_expression,
    first_line,
    shown_formula,
)
from probreg.data.rows import check_counts, check_trials, labels, refuse_not_finite
from probreg.errors import DataError

Level = str | int | float | bool
MANY_LEVELS = 20  # text that differs in every one of more rows than this names the rows, or was meant as numbers
_MARK = "\ue000"  # of Unicode's private use
_MARKS = re.compile(f"{_MARK}+")
_NOT_OF_NUMBERS = re.compile(
    r"[%,'\s\0$€£¥]"
)  # what people and spreadsheets write within numbers


@dataclass(frozen=True)
class Memory:
    """What the factors learned: the state of each transform and the levels of each category, by text.

    `groups` are those that rows elsewhere are known to have, by the columns whose combinations they are.
    """

    transforms: State = field(default_factory=dict)
    levels: dict[str, list[Level]] = field(default_factory=dict)
    groups: dict[tuple[str, ...], tuple[str, ...]] = field(default_factory=dict)


def lay_out(
    parts: FormulaLayout,
    table: Table,
    memory: Memory,
    *,
    training: bool,
    codes: bool = False,
) -> tuple[Any, tuple[str, ...]]:
    """The matrix (n, p) of the terms and its columns; training fills `memory`, afterwards it is only read. With `codes` factors of
    many levels stay codes."""
    import pandas as pd
    from formulaic import ModelSpec, SimpleFormula
    from formulaic.materializers.pandas import PandasMaterializer
    from formulaic.materializers.types import EvaluatedFactor
    from formulaic.parser.types import Factor as Named, Term as Product

    centred = not training or _has_constant(parts, table)
    values = {
        text: _factor_values(text, e, table, memory, training, centred)
        for text, e in parts.factors.items()
    }
    _refuse_many_columns(
        parts, {text: _width(text, v, memory) for text, v in values.items()}
    )
    if codes:
        coded = coded_factors(parts, memory.levels, len(table.rows))
    else:
        coded = ()
    of_levels = {text: _codes(values[text]) for text in coded}
    values |= {text: stand_in(of_levels[text]) for text in coded}
    # formulaic knows each factor by a word of ours that is in no level, so that no name or level is read as anything else
    stem = _unused_mark(
        str(level) for levels in memory.levels.values() for level in levels
    )
    word = {text: f"{stem}{i}{stem}" for i, text in enumerate(parts.factors)}
    materializer = PandasMaterializer(
        pd.DataFrame(index=range(len(table.rows))), context={}
    )
    for text, value in values.items():
        materializer.factor_cache[word[text]] = EvaluatedFactor(
            Named(word[text]), value, variables=set()
        )
    known = {
        word[t]: (
            Named.Kind.CATEGORICAL,
            {"categories": list(STAND_IN) if t in coded else levels},
        )
        for t, levels in memory.levels.items()
        if t in word
    }
    if parts.intercept:
        products = [Product([Named("1", eval_method="literal")])]
    else:
        products = []
    products += [Product([Named(word[text]) for text in term]) for term in parts.terms]
    spec = ModelSpec(
        formula=SimpleFormula(products),
        output="numpy",
        na_action="ignore",
        encoder_state=known,
    )
    try:
        with np.errstate(all="ignore"):
            found = materializer.get_model_matrix(spec)
    except (
        Exception
    ) as error:  # contrasts that do not fit their levels, in as many kinds of error
        (why,) = _rename_columns([first_line(error)], stem, parts)
        raise DataError(
            f"the columns of {shown_formula(parts.text)} cannot be made: {why}"
        ) from None
    finally:  # it refers to itself, and would hold these columns until the next collection of garbage
        materializer.factor_cache.clear()
        materializer.encoded_cache.clear()
    columns = _rename_columns(found.model_spec.column_names, stem, parts)
    X: Any = np.ascontiguousarray(
        np.asarray(found, dtype=np.float64).reshape(len(table.rows), len(columns))
    )
    _refuse_bad_columns(X, columns, parts, table)
    if coded:
        # pandas reads levels of which one is no whole number as floats, and formulaic names the columns so: g[T.3.0]
        named = {
            t: (
                word[t],
                parts.called(t),
                of_levels[t],
                list(pd.Index(memory.levels[t])),
            )
            for t in coded
        }
        X, columns = with_codes(X, found.model_spec.column_names, columns, named)
        refuse_repeated(columns, parts)
    return X, columns


def _codes(values: Any) -> np.ndarray:
    """The number (n,) of the level of each row, of a factor as formulaic takes it."""
    return np.asarray(getattr(values, "__wrapped__", values).cat.codes)


def _unused_mark(texts: Iterable[str]) -> str:
    """Return a mark that occurs in none of these texts."""
    longest = max(
        (len(run) for text in texts for run in _MARKS.findall(text)), default=0
    )
    return _MARK * (longest + 1)


def _rename_columns(
    columns: Iterable[str], stem: str, parts: FormulaLayout
) -> tuple[str, ...]:
    """Return the column names with factors under the names that users know."""
    names = [parts.called(text) for text in parts.factors]
    word = re.compile(f"{stem}([0-9]+){stem}")
    return tuple(
        word.sub(lambda found: names[int(found[1])], column) for column in columns
    )


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
    total = sum(count for count, _ in made)
    if total > MOST_COLUMNS:
        count, widest = max(made)
        raise DataError(
            f"the terms of {shown_formula(parts.text)} stand for up to {total} columns ({':'.join(widest)} for {count}); "
            f"at most {MOST_COLUMNS} are made"
        )


def numeric(
    expression: Expression, table: Table, transforms: State, *, training: bool
) -> np.ndarray:
    """The finite numbers (n,) of an expression that must be one column: an offset, a transformed response."""
    found = evaluate_expression(expression, table, transforms, training=training)
    if isinstance(found, Mapping) or np.ndim(found) > 1:
        raise DataError(f"{expression.text!r} is several columns where one is needed")
    values = np.array(
        np.broadcast_to(np.asarray(found, dtype=np.float64), table.rows.shape[:1])
    )
    refuse_not_finite(
        values, term=expression.text, variables=expression.variables, table=table
    )
    return values


def _has_constant(parts: FormulaLayout, table: Table) -> bool:
    """Whether the intercept, or a category that is a term by itself, stands for the constant."""

    def is_category(e: Expression) -> bool:
        levels = e.column is not None and kind_of(table.columns[e.column]) in (
            "text",
            "levels",
        )
        return levels or e.coding is not None or e.is_truth(table.columns)

    return parts.intercept or any(
        len(t) == 1 and is_category(parts.factors[t[0]]) for t in parts.terms
    )


def _factor_values(
    text: str,
    expression: Expression,
    table: Table,
    memory: Memory,
    training: bool,
    centred: bool,
) -> Any:
    from formulaic.materializers.types import FactorValues
    from formulaic.transforms import C

    name = expression.column
    coding = expression.coding
    if name is not None:
        kind = kind_of(table.columns[name])
    else:
        kind = "number"
    if name is not None and kind in ("time", "other"):
        raise _not_a_predictor(name, table, kind)
    if (
        coding is None
        and kind == "number"
        and text not in memory.levels
        and not expression.is_truth(table.columns)
    ):
        return _numeric_factor(text, expression, table, memory, training, centred)
    if not training and text not in memory.levels:
        raise DataError(
            f"column {text!r} held numbers when the model was fitted and holds {kind} now"
        )
    if coding is not None:
        arguments = coding_arguments(coding)
    else:
        arguments = {}
    column = level_column(expression, table, memory.transforms, training=training)
    if (
        training and text not in memory.levels
    ):  # levels of more rows than these may be known before
        memory.levels[text] = training_levels(
            text, column, arguments.get("levels"), table, coded=coding is not None
        )
    values = encode_factor(text, column, memory.levels[text], table)
    if coding is not None:
        return C(values, **arguments)
    return FactorValues(values, kind="categorical", spans_intercept=True)


def _numeric_factor(
    text: str,
    expression: Expression,
    table: Table,
    memory: Memory,
    training: bool,
    centred: bool,
) -> Any:
    from formulaic.materializers.types import FactorValues

    found = evaluate_expression(
        expression, table, memory.transforms, training=training, centred=centred
    )
    if np.ndim(found) == 0 and not isinstance(found, Mapping):
        found = np.full(len(table.rows), float(found))
    if isinstance(found, Mapping):
        parts = list(found.values())
    else:
        parts = list(np.atleast_2d(np.asarray(found).T))
    for values in parts:
        refuse_not_finite(
            np.asarray(values), term=text, variables=expression.variables, table=table
        )
    if isinstance(found, FactorValues):
        return FactorValues(found, kind="numerical")
    return FactorValues(found, kind="numerical", spans_intercept=False)


def refuse_repeated(columns: tuple[str, ...], parts: FormulaLayout) -> None:
    """DataError for columns of one name."""
    if len(set(columns)) < len(columns):
        twice = sorted(name for name, count in Counter(columns).items() if count > 1)
        if INTERCEPT in twice and parts.intercept:
            hint = "; 'Intercept' is the column of ones: rename yours"
        else:
            hint = ""
        raise DataError(
            f"{shown_formula(parts.text)} makes more than one column called {', '.join(map(repr, twice))}{hint}"
        )


def _refuse_bad_columns(
    X: np.ndarray, columns: tuple[str, ...], parts: FormulaLayout, table: Table
) -> None:
    refuse_repeated(columns, parts)
    for j, name in enumerate(columns):
        refuse_not_finite(X[:, j], term=name, variables=(), table=table)


def counts_at(
    parts: FormulaLayout, table: Table, learned: State, *, training: bool
) -> np.ndarray:
    """Successes and trials (n, 2), or counts by class (n, K), at the rows of a table. DataError names row and value."""
    each = np.stack(
        [numeric(part, table, learned, training=training) for part in parts.outcome], 1
    )
    check = check_trials if parts.counted == "p" else check_counts
    check(each, term=parts.response, table=table)
    return each


def _not_a_predictor(name: str, table: Table, kind: str) -> DataError:
    column = table.columns[name]
    if kind == "time":
        return DataError(
            f"column {name!r} holds times (row {table.rows[0]}: {column[0]}); turn it into a number first, "
            f"such as days since a date, or write C({name}) for a category of its values"
        )
    kinds = sorted({type(value).__name__ for value in column})
    return DataError(
        f"column {name!r} holds values of kind {', '.join(kinds)}; a predictor holds numbers or categories"
    )


# ---- levels of categories ---------------------------------------------------------------------------------------------


def level_column(
    expression: Expression, table: Table, state: State, *, training: bool
) -> Any:
    """What `C(...)` codes: the column as it stands, or the value of an expression."""
    call = expression.coding
    if call is None:
        inner = expression
    else:
        inner = replace(expression, tree=call.args[0])
    name = inner.column
    if name is not None:
        return table.columns[name]
    values = np.broadcast_to(
        evaluate_expression(inner, table, state, training=training),
        table.rows.shape[:1],
    )
    if inner.is_truth(table.columns):
        return values.astype(bool)
    return values


def factor_levels(column: Any) -> list[Level]:
    """The levels that occur, in declared order if the column declares one, else sorted."""
    import pandas as pd

    try:
        present = {
            plain_level(value) for value in pd.unique(pd.Series(column).dropna())
        }
    except TypeError:
        raise DataError(
            f"levels are texts, numbers or truth values, met {type(column[0]).__name__}"
        ) from None
    if isinstance(column, pd.Categorical):
        declared = [plain_level(value) for value in column.categories]
    else:
        declared = None
    try:
        if declared is None:
            return sorted(present)
        return [level for level in declared if level in present]
    except TypeError:
        raise DataError(
            f"levels of different kinds cannot be ordered: {sorted(map(repr, present))[:5]}"
        ) from None


def plain_level(value: Any) -> Any:
    """A level as Python's own value; a whole number is an int, however the table stored it, and a date is text.

    >>> plain_level(np.float64(3.0)), plain_level(Decimal("0.50")), plain_level(np.datetime64("2024-03-01T12:30"))
    (3, 0.5, '2024-03-01 12:30:00')
    """
    if isinstance(value, str | int):
        return value
    if isinstance(
        value, np.datetime64 | np.timedelta64 | date | time | timedelta
    ) or hasattr(value, "ordinal"):
        return _time_as_text(value)
    if isinstance(value, np.generic):
        value = value.item()
    if isinstance(value, Decimal):
        number = float(value) if value.is_finite() else value
        if value == value.to_integral_value():
            value = int(value)
        elif Decimal(repr(number)) == value:
            value = number
    if isinstance(value, float) and value.is_integer():
        return int(value)
    return value


def _time_as_text(value: Any) -> str:
    """A date, a time or a duration with every digit that it has: `2024-03-01`, or `2024-03-01 12:30:00.5`."""
    import pandas as pd

    if isinstance(value, np.timedelta64 | timedelta):
        return str(pd.Timedelta(value))
    if not isinstance(value, np.datetime64 | date):  # a period, or a time of day
        return str(value)
    whole, point, fraction = pd.Timestamp(value).isoformat(sep=" ").partition(".")
    digits = "".join(itertools.takewhile(str.isdigit, fraction))
    zone = fraction[len(digits) :]
    kept = digits.rstrip("0")
    return f"{whole}{point if kept else ''}{kept}{zone}".removesuffix(" 00:00:00")


def training_levels(
    text: str, column: Any, wanted: Any, table: Table, *, coded: bool
) -> list[Level]:
    """The levels of a factor in the training rows; DataError for fewer than two, or one for every row."""
    if not isinstance(wanted, list | tuple | None):
        raise DataError(
            f"levels={wanted!r} of {text!r} is a list of levels, such as ['a', 'b']"
        )
    if wanted is None:
        levels = factor_levels(column)
    else:
        levels = [plain_level(level) for level in wanted]
    odd = [level for level in levels if not isinstance(level, Level)]
    if odd:
        raise DataError(
            f"the levels of {text!r} are {type(odd[0]).__name__} values, such as {odd[0]!r}; make them text or numbers"
        )
    if any(type(v) is float for v in levels) and (
        large := [v for v in levels if type(v) is int and abs(v) > EXACT]
    ):
        raise DataError(
            f"{text!r} has the level {large[0]} beside levels with decimals: make all of them text"
        )
    if len(levels) < 2:
        raise DataError(
            f"{text!r} has the single level {', '.join(map(repr, levels))} in these rows, so it tells none "
            "apart; leave it out"
        )
    if coded or kind_of(column) != "text":
        return levels
    refuse_malformed_numbers(
        text, levels, len(table.rows), lambda level: _row_of(level, column, table)
    )
    if len(levels) == len(table.rows) > MANY_LEVELS:
        raise DataError(
            f"column {text!r} is text with a different value in each of its {len(levels)} rows "
            f"({', '.join(map(repr, levels[:3]))} ...), one column of X for each. "
            f"If it names the rows, leave it out, as in '. - {text}'; did you mean numbers? Convert it first"
        )
    return levels


def refuse_malformed_numbers(
    text: str, levels: Sequence[Any], n: int, place: Callable[[Any], str]
) -> None:
    """DataError for text levels of n rows that are numbers but for some cells, or but for signs such as % and thousands separators,
    unless they may be categories: few levels of which each is a word or has many rows.

    `place` says where the rows first have a level.
    """
    odd = [level for level in levels if not _is_plain_number(level)]
    malformed = [
        level
        for level in odd
        if _is_plain_number(
            _NOT_OF_NUMBERS.sub("", str(level).replace("−", "-")) or "0"
        )
    ]
    plain = len(levels) - len(odd)
    if not odd or 2 * (plain + len(malformed)) <= len(levels):
        return
    distinct = (
        len(levels) > MANY_LEVELS or 2 * len(levels) >= n
    )  # as measurements are, unlike categories
    if (malformed and plain) or distinct:
        first = (malformed or odd)[0]
        raise DataError(
            f"column {text!r} is text: {len(odd)} of its {len(levels)} values cannot be read as numbers, first {first!r}{place(first)}. "
            f"Correct the cells, or write C({text}) for categories"
        )


def _is_plain_number(level: Any) -> bool:
    """Whether a level is a number as files hold it: Python also reads 1_000, spaces and the digits of other scripts."""
    text = str(level)
    return (
        reads_as_number(level)
        and text.isascii()
        and text == text.strip()
        and "_" not in text
    )


def _row_of(level: Any, column: Any, table: Table) -> str:
    """Where a column first has a level."""
    return f" in row {next(row for row, value in zip(table.rows, column) if value == level)}"


def encode_factor(text: str, column: Any, levels: list[Level], table: Table) -> Any:
    """The rows of a factor as a categorical Series; DataError names unknown levels, and where."""
    import pandas as pd

    codes, uniques = pd.factorize(pd.Series(column), use_na_sentinel=True)
    place = {level: i for i, level in enumerate(levels)}
    positions = np.array(
        [place.get(plain_level(value), -1) for value in uniques], dtype=np.intp
    )[codes]
    bad = np.flatnonzero(positions < 0)
    if len(bad):
        unseen = list(dict.fromkeys(plain_level(column[i]) for i in bad))
        raise DataError(
            f"{text!r} has the level{'s' * (len(unseen) > 1)} {', '.join(map(repr, unseen[:5]))} in "
            f"{labels(table, bad)}, which the model does not know; it knows {', '.join(map(repr, levels))}"
        )
    return pd.Series(
        pd.Categorical.from_codes(positions, categories=pd.Index(levels, dtype=object))
    )
