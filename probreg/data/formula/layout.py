"""The matrix of a formula: its factors at the rows of a table, the products of their columns, and factors that are stored as codes.

`grammar` computes the factors and `contrasts` codes their levels. The learned state of a factor (knots, means, levels) is plain data.

A factor is coded if it is a term by itself, under treatment contrasts, in a formula without bars, and has many levels for its
rows.
"""

import functools
import itertools
import math
import re
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import replace
from datetime import date, time, timedelta
from decimal import Decimal
from typing import Any

import numpy as np

from probreg.arguments.arrays import brief, reads_as_number
from probreg.data.censoring import response_ends
from probreg.data.checked_arrays import (
    INTERCEPT,
    check_counts,
    check_trials,
    labels,
    refuse_not_finite,
)
from probreg.data.formula.columns import EXACT, DataTable, kind_of, repeated_names
from probreg.data.formula.contrasts import CodedFactor, LevelCoding, code_terms
from probreg.data.formula.evaluate import (
    Level,
    Memory,
    evaluate_expression,
    is_category,
    is_truth,
    read_coding,
)
from probreg.data.formula.transforms import FactorColumns
from probreg.data.grouped_columns import GroupColumns
from probreg.data.implicit_columns import LazyColumns
from probreg.errors import DataError, require_unicode, rows_named
from probreg.formula.expression import Expression
from probreg.formula.terms import MAX_TERMS, FormulaLayout
from probreg.formula.text import shown_formula

MIN_CODED_LEVELS = 50  # minimum number of levels for a coded factor
# minimum of rows times levels: 8 MB, and a tenth of a second for least squares with written columns
MIN_CODED_NUMBERS = 10**6


def coded_factors(
    parts: FormulaLayout, levels: Mapping[str, Sequence[Any]], n: int
) -> set[str]:
    """Return the factors of a formula that stay codes at n rows."""
    if parts.bars:
        return set()
    many = {
        t
        for t, k in levels.items()
        if len(k) >= MIN_CODED_LEVELS and n * len(k) >= MIN_CODED_NUMBERS
    }
    return {
        text
        for text in many.intersection(parts.factors)
        if [term for term in parts.terms if text in term] == [(text,)]
        and read_coding(parts.factors[text])[0] == LevelCoding()
    }


def level_columns(codes: np.ndarray, levels: int, *, full: bool) -> GroupColumns:
    """Return indicators of the levels, without the first level unless `full`.

    >>> level_columns(np.array([0, 1, 2]), 3, full=False).times(np.array([[[5.0]], [[7.0]]]))[:, 0]
    array([0., 5., 7.])
    """
    if full:
        return GroupColumns(codes.astype(np.intp), np.ones((len(codes), 1)), levels)
    first = codes == 0
    return GroupColumns(
        np.where(first, 0, codes - 1).astype(np.intp),
        np.where(first, 0.0, 1.0)[:, None],
        levels - 1,
    )


MANY_LEVELS = 20  # text that differs in every row of more rows than this consists of row names or misread numbers
# a year of four digits at one end, with or without a time of day
_DATE = re.compile(
    r"(\d{4}([-/.])\d{1,2}\2\d{1,2}|\d{1,2}([-/.])\d{1,2}\3\d{4})([ T][\d:.+Z-]+)?$"
)
# signs that people and spreadsheets write within numbers
_NOT_OF_NUMBERS = re.compile(r"[%,'\s\0$€£¥]")


def lay_out(
    parts: FormulaLayout,
    table: DataTable,
    memory: Memory,
    *,
    codes: bool = False,
) -> tuple[Any, tuple[str, ...], dict[str, np.ndarray]]:
    """Return the matrix (n, p) of the terms, its columns, and the inputs (n, d) of each smooth function and process, by term.

    Factors of many levels stay codes if `codes`.
    """
    # the intercept, or a category that is a term by itself, spans the constant
    alone = (parts.factors[term[0]] for term in parts.terms if len(term) == 1)
    centred = parts.intercept or any(is_category(e, table.columns) for e in alone)
    factors = {
        text: _read_factor(text, e, table, memory, centred)
        for text, e in parts.factors.items()
    }
    _refuse_many_columns(parts, {t: len(f.full.names) for t, f in factors.items()})
    n = len(table.rows)
    coded = coded_factors(parts, memory.levels, n) if codes else set[str]()
    spanning = [text for text, factor in factors.items() if factor.reduced is not None]
    terms = [(), *parts.terms] if parts.intercept else [*parts.terms]
    names = list[str]()
    head = list[tuple[str, np.ndarray]]()
    tail = list[GroupColumns]()
    firsts = list[int]()
    for product in itertools.chain(*code_terms(terms, spanning)):
        chosen = [
            (parts.factor_name(t), factors[t].choose(full))
            for t, full in product.items()
        ]
        if coded.isdisjoint(product):
            new = list(_multiply_columns(chosen)) or [(INTERCEPT, np.ones(n))]
            names += [name for name, _ in new]
            head += new
            continue
        ((text, is_full),) = product.items()
        ((factor_label, columns),) = chosen
        assert columns.codes is not None
        firsts.append(len(names))
        tail.append(
            level_columns(columns.codes, len(memory.levels[text]), full=is_full)
        )
        names += [columns.name(factor_label, j) for j in range(len(columns.names))]
    refuse_repeated(tuple(names), parts)
    X: Any = np.empty((n, len(head)))
    for j, (name, values) in enumerate(head):
        refuse_not_finite(values, term=name, variables=(), table=table)
        X[:, j] = values
    if tail:
        X = LazyColumns(X, tuple(tail), tuple(firsts))
    inputs = {t: f.full.inputs for t, f in factors.items() if f.full.inputs is not None}
    return X, tuple(names), inputs


def _multiply_columns(
    factors: Sequence[tuple[str, FactorColumns]],
) -> Iterator[tuple[str, np.ndarray]]:
    """Yield the name and the values (n,) of each product of a column of every factor; the first factor varies fastest."""
    if not factors:
        return
    for places in itertools.product(
        *(range(len(columns.names)) for _, columns in reversed(factors))
    ):
        pairs = list(zip(factors, reversed(places)))
        name = ":".join(columns.name(label, j) for (label, columns), j in pairs)
        values = [columns.column(j) for (_, columns), j in pairs]
        with np.errstate(all="ignore"):
            product = functools.reduce(np.multiply, values)
        yield name, product


def _refuse_many_columns(parts: FormulaLayout, width: Mapping[str, int]) -> None:
    """Raise DataError for too many columns before any column is made."""
    products = [(math.prod(width[text] for text in term), term) for term in parts.terms]
    total = sum(count for count, _ in products)
    if total > MAX_TERMS:
        count, widest = max(products)
        raise DataError(
            f"the terms of {shown_formula(parts.text)} stand for up to {total} columns ({':'.join(widest)} for {count}); "
            f"at most {MAX_TERMS} are made"
        )


def numeric(expression: Expression, table: DataTable, memory: Memory) -> np.ndarray:
    """Return the finite numbers (n,) of an expression that must be one column: an offset or a transformed response."""
    result = evaluate_expression(expression, table, memory)
    if isinstance(result, FactorColumns):
        raise DataError(f"{expression.text!r} is several columns where one is needed")
    values = np.array(
        np.broadcast_to(np.asarray(result, dtype=np.float64), table.rows.shape[:1])
    )
    refuse_not_finite(
        values, term=expression.text, variables=expression.variables, table=table
    )
    return values


def _read_factor(
    text: str,
    expression: Expression,
    table: DataTable,
    memory: Memory,
    centred: bool,
) -> CodedFactor:
    import pandas as pd

    name = expression.column
    kind = kind_of(table.columns[name]) if name is not None else "number"
    if name is not None and kind in ("time", "other"):
        raise _not_a_predictor(name, table, kind)
    if text not in memory.levels and not is_category(expression, table.columns):
        return _read_numbers(text, expression, table, memory, centred)
    if not memory.learning and text not in memory.levels:
        raise DataError(
            f"column {text!r} held numbers when the model was fitted and holds {kind} now"
        )
    column = level_column(expression, table, memory)
    if text not in memory.levels:
        memory.levels[text] = training_levels(text, expression, column, table)
    levels = memory.levels[text]
    codes = level_codes_of(text, column, levels, table)
    # whole numbers among levels with decimals are named as floats: g[T.3.0]
    shown = list(pd.Index(levels))
    try:
        return read_coding(expression)[0].code(codes, shown)
    except DataError as error:
        raise DataError(f"the columns of {text!r} cannot be made: {error}") from None


def _read_numbers(
    text: str,
    expression: Expression,
    table: DataTable,
    memory: Memory,
    centred: bool,
) -> CodedFactor:
    values = evaluate_expression(expression, table, memory, centred=centred)
    if not isinstance(values, FactorColumns):
        column = np.broadcast_to(values, table.rows.shape)
        values = FactorColumns((None,), column[:, None])
    for j in range(len(values.names)):
        refuse_not_finite(
            values.column(j),
            term=text,
            variables=expression.variables,
            table=table,
        )
    return CodedFactor(values)


def refuse_repeated(columns: tuple[str, ...], parts: FormulaLayout) -> None:
    """Raise DataError for repeated column names, and for a variable with the name of the column of ones."""
    if parts.intercept and INTERCEPT in parts.factors:
        raise DataError(
            f"{shown_formula(parts.text)} has a term called 'Intercept', which is the name of the column of ones: rename your column"
        )
    twice = repeated_names(columns)
    if twice:
        raise DataError(
            f"{shown_formula(parts.text)} makes more than one column called {', '.join(map(repr, twice))}"
        )


def counts_at(parts: FormulaLayout, table: DataTable, memory: Memory) -> np.ndarray:
    """Return successes and trials (n, 2), or counts by class (n, K), at the rows of a table. DataError names row and value."""
    counts = np.stack([numeric(part, table, memory) for part in parts.outcome], 1)
    if parts.counted == "counts":
        check_counts(counts, term=parts.response, table=table)
        return counts
    successes, trials = counts.T
    with rows_named(table.rows):
        check_trials(successes, trials, f"{parts.response}: ")
    return counts


def ends_at(parts: FormulaLayout, table: DataTable, memory: Memory) -> np.ndarray:
    """Return the lower and upper ends (n, 2) of a censored response at the rows of a table. DataError names row and value."""
    values = {}
    for name, part in zip(parts.parts_of_ends, parts.outcome):
        result = np.asarray(evaluate_expression(part, table, memory))
        if is_truth(part, table.columns):
            result = result.astype(bool)
        values[name] = np.broadcast_to(result, table.rows.shape[:1])
    with rows_named(table.rows):
        return response_ends(values)


def _not_a_number(name: str, words: str) -> DataError:
    """Return the error of a column of times or dates."""
    return DataError(
        f"column {name!r} {words}; turn it into a number first, such as days since a date, or write C({name}) for a category of its "
        "values"
    )


def _not_a_predictor(name: str, table: DataTable, kind: str) -> DataError:
    column = table.columns[name]
    if kind == "time":
        return _not_a_number(name, f"holds times (row {table.rows[0]}: {column[0]})")
    kinds = sorted({type(value).__name__ for value in column})
    return DataError(
        f"column {name!r} holds values of kind {', '.join(kinds)}; a predictor holds numbers or categories"
    )


# ---- levels of categories ---------------------------------------------------------------------------------------------


def level_column(expression: Expression, table: DataTable, memory: Memory) -> Any:
    """Return the values that `C(...)` codes: the column unchanged, or the values of an expression."""
    call = expression.coding_call
    if call is None:
        inner = expression
    else:
        inner = replace(expression, tree=call.args[0])
    name = inner.column
    if name is not None:
        return table.columns[name]
    values = np.broadcast_to(
        evaluate_expression(inner, table, memory),
        table.rows.shape[:1],
    )
    if is_truth(inner, table.columns):
        return values.astype(bool)
    return values


def factor_levels(name: str, column: Any) -> list[Level]:
    """Return the levels that occur, in declared order if the column declares one, else sorted."""
    import pandas as pd

    try:
        present = {
            plain_level(value) for value in pd.unique(pd.Series(column).dropna())
        }
    except UnicodeEncodeError:  # pandas stores text as UTF-8
        for value in column:
            if isinstance(value, str):
                require_unicode(value, f" of {name!r}")
        raise
    except TypeError:
        raise DataError(
            f"the levels of {name!r} are texts, numbers or truth values, got {brief(column[0])}"
        ) from None
    declared = None
    if isinstance(column, pd.Categorical):
        declared = [plain_level(value) for value in column.categories]
    try:
        if declared is None:
            return sorted(present)
        return [level for level in declared if level in present]
    except TypeError:
        kinds = {type(level): level for level in sorted(present, key=repr)}
        raise DataError(
            f"the levels of {name!r} are of different kinds, such as {' and '.join(map(brief, kinds.values()))}: "
            "make all of them text, or all numbers"
        ) from None


def plain_level(value: Any) -> Any:
    """Return a level as a Python value; a whole number becomes an int regardless of its type in the table, and a date becomes text.

    >>> plain_level(np.float64(3.0)), plain_level(Decimal("0.50")), plain_level(np.datetime64("2024-03-01T12:30"))
    (3, 0.5, '2024-03-01 12:30:00')
    """
    if isinstance(value, str):
        require_unicode(value)
        return value
    if isinstance(value, int):
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
    """Format a date, a time or a duration with all of its digits: `2024-03-01`, or `2024-03-01 12:30:00.500000`."""
    import pandas as pd

    if isinstance(value, np.timedelta64 | timedelta):
        return str(pd.Timedelta(value))
    if not isinstance(value, np.datetime64 | date):  # a period, or a time of day
        return str(value)
    return pd.Timestamp(value).isoformat(sep=" ").removesuffix(" 00:00:00")


def training_levels(
    text: str, expression: Expression, column: Any, table: DataTable
) -> list[Level]:
    """The levels of a factor in the training rows; DataError for fewer than two, or one for every row."""
    listed = read_coding(expression)[1]
    if not isinstance(listed, list | tuple | None):
        raise DataError(
            f"levels={listed!r} of {text!r} is a list of levels, such as ['a', 'b']"
        )
    if listed is None:
        levels = factor_levels(text, column)
    else:
        levels = [plain_level(level) for level in listed]
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
    if expression.coding_call is not None or kind_of(column) != "text":
        return levels
    if all(_DATE.match(str(level)) for level in levels):
        raise _not_a_number(text, f"is text with dates, such as {levels[0]!r}")
    refuse_malformed_numbers(
        text,
        levels,
        len(table.rows),
        lambda level: f" in row {table.rows[list(column).index(level)]}",
    )
    n = len(table.rows)
    # text of measurements repeats a few numbers by chance
    mostly_distinct = 2 * len(levels) >= n and all(map(_is_plain_number, levels))
    if len(levels) > MANY_LEVELS and (len(levels) == n or mostly_distinct):
        raise DataError(
            f"column {text!r} is text with {len(levels)} different values in {n} rows "
            f"({', '.join(map(repr, levels[:3]))} ...), one column of X for each. "
            f"If it names the rows, leave it out, as in '. - {text}'; did you mean numbers? Convert it first. Keep categories by C({text})"
        )
    return levels


def refuse_malformed_numbers(
    text: str, levels: Sequence[Any], n: int, place: Callable[[Any], str]
) -> None:
    """Raise DataError for text levels that are numbers with some invalid cells or extra signs.

    Signs are, for example, % and thousands separators. Levels that may be categories are allowed: few levels, each of them a word or
    with many of the n rows.

    `place` describes the row where a level first occurs.
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
    # true of measurements, unlike categories
    distinct = len(levels) > MANY_LEVELS or 2 * len(levels) >= n
    if (malformed and plain) or distinct:
        first = (malformed or odd)[0]
        raise DataError(
            f"column {text!r} is text: {len(odd)} of its {len(levels)} values cannot be read as numbers, first {first!r}{place(first)}. "
            f"Correct the cells, or write C({text}) for categories"
        )


def _is_plain_number(level: Any) -> bool:
    """Return whether a level is a number in the usual spelling of files: Python also reads 1_000, spaces and digits of other scripts."""
    text = str(level)
    return (
        reads_as_number(level)
        and text.isascii()
        and text == text.strip()
        and "_" not in text
    )


def level_codes_of(
    text: str, column: Any, levels: list[Level], table: DataTable
) -> np.ndarray:
    """Return the number (n,) of the level of each row; DataError names unknown levels and their rows."""
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
    return positions
