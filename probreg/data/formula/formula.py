"""Formulas: `y ~ x1 + bs(x2, df=4)` and a table become a matrix, and a recipe to make its columns again.

A recipe is text and numbers only. Loading one reads its formula through the same whitelist as a formula typed
by hand, so a file can hold wrong numbers but never code.
"""

import copy
import math
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import cached_property
from typing import Any, Self

import numpy as np

from probreg.arguments.arrays import reads_as_number
from probreg.data.checked_arrays import is_array
from probreg.data.design import Unused
from probreg.data.formula.bars import group_labels, read_bar, term_of_bar
from probreg.data.formula.columns import Table, kind_of, missing_values, read_table
from probreg.data.formula.evaluate import expression_inputs
from probreg.data.formula.layout import (
    Level,
    Memory,
    counts_at,
    factor_levels,
    lay_out,
    numeric,
    refuse_repeated,
)
from probreg.data.rows import (
    Missing,
    check_weights,
    complete,
    one_per_row,
    refuse_infinite,
    refuse_missing,
    require,
)
from probreg.data.terms.grouped import GroupedTerm
from probreg.data.terms.process import ProcessTerm, process_of
from probreg.data.terms.term import BasisTerm, SmoothTerm, term_of
from probreg.data.unwritten import beside_groups
from probreg.data.weights import WeightKind, read_weights
from probreg.errors import DataError
from probreg.formula.expression import STANDALONE, Expression, parse_expression
from probreg.formula.terms import (
    MOST_COLUMNS,
    Counted,
    FormulaLayout,
    expand,
    grouping_columns,
    has_dot,
    joined_offsets,
    left_of,
    offset_variables,
    parse_formula,
)
from probreg.formula.text import quote_name
from probreg.kernels import KernelBasis

DEEPEST_STATE = 6  # nesting of a state
_TRIES = 500  # parts of the rows of weight 0 that are read one by one, a second's work, before others are left blank


@dataclass(frozen=True)
class Recipe:
    """How the columns of X follow from a table: terms of a formula and what they learned from training rows.

    `state` holds the knots, means, norms and levels; `offset` is an expression added to eta, or None; `weights` names
    the column of the weights, or is None. All of it is JSON-able data.

    >>> data = {"y": [1, 2, 4], "x": [1, 2, 6], "g": ["a", "b", "b"]}
    >>> recipe = read_formula("y ~ center(x) + g", data).recipe
    >>> recipe.columns
    ('Intercept', 'center(x)', 'g[T.b]')
    >>> recipe.matrix({"x": [4], "g": ["b"]})
    array([[1., 1., 1.]])
    """

    formula: str
    response: str
    columns: tuple[str, ...]
    intercept: bool
    variables: tuple[str, ...]
    offset: str | None
    state: Mapping[str, Any]
    weights: str | None = None

    def matrix(self, data: Any) -> np.ndarray:
        """X (n, p) at new rows, with the training knots, means and levels.

        Raises DataError for a missing column or value, an infinite value, a level not seen in training and a
        value outside the range of a spline, naming column and rows.
        """
        table = _new_rows(data, self.variables)
        memory = read_state(self.state)
        X, columns, _ = lay_out_with_bars(
            parse_formula(self.formula), table, memory, training=False, codes=True
        )
        if columns != self.columns or not same_state(memory, self.state):
            raise DataError(
                f"the saved recipe of {self.formula!r} does not make its own columns; save the fit again"
            )
        return X

    @cached_property
    def terms(self) -> tuple[BasisTerm, ...]:
        """The smooth functions among its terms, and then the processes, by the names of their columns."""
        smooths = tuple(term.described(key) for key, term in self.smooths.items())
        processes = tuple(term.described for term in self.processes.values())
        return (
            *smooths,
            *processes,
            *(term.described for term in self.grouped.values()),
        )

    @cached_property
    def grouped(self) -> Mapping[str, GroupedTerm]:
        """The terms whose effects vary by a group, by the term as written."""
        if "|" not in self.formula:  # read again only where there may be one
            return {}
        memory = read_state(self.state)
        return {
            bar.key: term_of_bar(bar, memory)
            for bar in parse_formula(self.formula).bars
        }

    @cached_property
    def of_groups_alone(self) -> tuple[str, ...]:
        """The variables that say the group of a row and nothing else."""
        parts = parse_formula(self.formula)
        read = {name for factor in parts.factors.values() for name in factor.variables}
        read |= {name for bar in parts.bars for name in bar.effects.variables}
        if self.offset:
            read |= set(parse_expression(self.offset).variables)
        return tuple(
            dict.fromkeys(
                name for bar in parts.bars for name in bar.group if name not in read
            )
        )

    def groups_at(self, data: Any) -> dict[str, np.ndarray]:
        """The group (n,) of each row as text, by the term."""
        if not self.grouped:
            return {}
        table = _new_rows(data, self.variables)
        return {
            bar.key: group_labels(bar.group, table)
            for bar in parse_formula(self.formula).bars
        }

    @cached_property
    def smooths(self) -> Mapping[str, SmoothTerm]:
        """The smooth functions among its terms, by the term as written."""
        keys = [key for key in self.entering if key not in self.processes]
        if keys:
            learned = read_state(self.state).transforms
        else:
            learned = {}
        return {key: term_of(learned[key], key) for key in keys}

    @property
    def learned(self) -> tuple[str, ...]:
        """Terms whose columns depend on the rows that they were made of: on their knots, means or anchors."""
        held = [
            key
            for key in self.state["transforms"]
            if key not in self.processes and key not in self.grouped
        ]
        return (
            *held,
            *(term.short for term in self.processes.values() if term.learned),
        )

    @cached_property
    def entering(self) -> Mapping[str, tuple[str, ...]]:
        """What enters each smooth function and each process, by the term, as written and in the order of the formula."""
        if not any(
            f"{name}(" in self.formula for name in STANDALONE
        ):  # read again only where there may be one
            return {}
        alone = [
            (e, e.alone.args)
            for e in parse_formula(self.formula).factors.values()
            if e.alone
        ]
        return {e.written(): tuple(map(e.written, arguments)) for e, arguments in alone}

    def own_column(self, name: str) -> int | None:
        """The number of the column that is the variable itself, where neither another column nor the offset reads it."""
        parts = parse_formula(self.formula)
        reads = [
            text
            for text, factor in parts.every_factor.items()
            if name in factor.variables
        ]
        grouped = [
            bar for bar in parts.bars if name in (*bar.group, *bar.effects.variables)
        ]
        if self.offset:
            added = parse_expression(self.offset).variables
        else:
            added = ()
        if len(reads) != 1 or grouped or name in added:
            return None
        (text,) = reads
        alone = parts.factors[text].column == name and text not in self.state["levels"]
        if alone and [t for t in parts.terms if text in t] == [(text,)]:
            return self.columns.index(name)
        return None

    def own_levels(self, name: str) -> tuple[int, ...]:
        """The columns that code the levels of a category, where no other column and not the offset reads it; none else."""
        parts = parse_formula(self.formula)
        reads = [
            text
            for text, factor in parts.every_factor.items()
            if name in factor.variables
        ]
        grouped = [
            bar for bar in parts.bars if name in (*bar.group, *bar.effects.variables)
        ]
        if self.offset:
            added = parse_expression(self.offset).variables
        else:
            added = ()
        if len(reads) != 1 or grouped or name in added:
            return ()
        (text,) = reads
        alone = parts.factors[text].category == name and text in self.state["levels"]
        if not alone or [t for t in parts.terms if text in t] != [(text,)]:
            return ()
        return tuple(
            j
            for j, column in enumerate(self.columns)
            if column.startswith(f"{parts.called(text)}[")
        )

    @cached_property
    def written(self) -> tuple[tuple[str, ...], ...]:
        """The factors of each term, as the names of its columns call them."""
        parts = parse_formula(self.formula)
        return tuple(tuple(map(parts.called, term)) for term in parts.terms)

    @cached_property
    def processes(self) -> Mapping[str, ProcessTerm]:
        """The Gaussian processes among its terms, by the term as written."""
        held = {
            key: state.get("process") for key, state in self.state["transforms"].items()
        }
        return {
            key: term for key, term in held.items() if isinstance(term, ProcessTerm)
        }

    def inputs_at(self, data: Any) -> dict[str, np.ndarray]:
        """What enters each process (n, d), at the rows of a table."""
        if not self.processes and not self.grouped:
            return {}
        table = _new_rows(data, self.variables)
        memory = read_state(self.state)
        parts = parse_formula(self.formula)
        found = inputs_of_functions(parts, table, memory, tuple(self.processes))
        return found | {
            bar.key: read_bar(bar, table, memory, training=False) for bar in parts.bars
        }

    def with_basis(self, key: str, basis: KernelBasis, *, found: bool = False) -> Self:
        """The recipe whose process `key` has its columns from another basis."""
        old = self.processes[key]
        new = old.with_basis(basis, found=found)
        at = self.columns.index(old.columns[0])
        columns = (
            *self.columns[:at],
            *new.columns,
            *self.columns[at + len(old.columns) :],
        )
        transforms = {**self.state["transforms"], key: {"process": new}}
        return replace(
            self, columns=columns, state={**self.state, "transforms": transforms}
        )

    def offset_at(self, data: Any) -> np.ndarray | None:
        """The offset (n,) at new rows, or None for a model whose offset is no expression."""
        if self.offset is None:
            return None
        expression = parse_expression(self.offset)
        table = _new_rows(data, expression.variables)
        return numeric(
            expression, table, read_state(self.state).transforms, training=False
        )

    def outcome_at(self, data: Any) -> Any:
        """The response at new rows, as read in training: (n, 2) for p(s, t), (n, K) for counts."""
        parts = parse_formula(self.formula)
        table = _new_rows(
            data, tuple(dict.fromkeys(v for e in parts.outcome for v in e.variables))
        )
        return _response_values(parts, table, read_state(self.state), training=False)

    def trials_at(self, data: Any) -> np.ndarray | None:
        """The trials (n,) of p(s, t) or of counts at new rows; None where their columns are not there, or not complete."""
        parts = parse_formula(self.formula)
        if parts.counted is None:
            return None
        table = read_table(data)
        if parts.counted == "p":
            summed = parts.outcome[1:]
        else:
            summed = parts.outcome
        names = tuple(dict.fromkeys(name for part in summed for name in part.variables))
        if not set(names) <= set(table.columns):
            return None
        table = table.only(names)
        if any(missing_values(values).any() for values in table.columns.values()):
            return None
        learned = read_state(self.state).transforms
        return np.sum(
            [numeric(part, table, learned, training=False) for part in summed], axis=0
        )

    def weights_at(self, data: Any) -> Any:
        """Return the weights (n,) of new rows from their column, or None for a model without a column of weights.

        DataError where the table lacks the column or a value of it.
        """
        if self.weights is None:
            return None
        if is_array(data):
            raise DataError(
                f"the weights are read from column {self.weights!r}, and these rows are an array: pass weights="
            )
        return _new_rows(data, (self.weights,)).columns[self.weights]

    def to_json(self) -> dict[str, Any]:
        """The recipe as plain data: text, numbers, lists and dicts, and arrays in the bases of processes."""
        return {
            "kind": "formula",
            "formula": self.formula,
            "response": self.response,
            "columns": list(self.columns),
            "intercept": self.intercept,
            "variables": list(self.variables),
            "offset": self.offset,
            "weights": self.weights,
            "state": _state_to_json(self.state),
        }

    @classmethod
    def from_json(cls, saved: Mapping[str, Any]) -> Self:
        """The recipe that `to_json` wrote; its texts pass the whitelist again, and nothing is executed."""
        try:
            formula, offset, columns, state = (
                saved[key] for key in ("formula", "offset", "columns", "state")
            )
        except (KeyError, TypeError) as error:
            raise DataError(f"this is not a saved recipe: {error} is missing") from None
        weights = saved.get("weights")
        if (
            not isinstance(formula, str)
            or not isinstance(offset, str | None)
            or not isinstance(weights, str | None)
        ):
            raise DataError(
                "a saved recipe holds its formula, its offset and its column of weights as text"
            )
        if not isinstance(columns, list | tuple) or not all(
            isinstance(name, str) for name in columns
        ):
            raise DataError("a saved recipe names its columns in a list of texts")
        parts = parse_formula(formula)
        if offset is not None:
            parse_expression(offset)
        held = write_state(read_state(state))
        return cls(
            formula,
            parts.response,
            tuple(columns),
            parts.intercept,
            parts.variables,
            offset,
            held,
            weights,
        )


@dataclass(frozen=True, eq=False)
class Reading:
    """A formula read at a data set: X (n, p), the response as it stands, and which rows were kept.

    `response` is an array of numbers, text or truth values, or a pandas.Categorical; with `p(s, t)` successes and trials
    (n, 2), with `counts(a, b, c)` counts (n, 3), whose names are the `classes`: `counted` says which. `rows` labels the
    kept rows, `dropped` the others.
    """

    recipe: Recipe
    X: np.ndarray
    response: Any
    counted: Counted | None
    classes: tuple[str, ...] | None
    offset: np.ndarray | None
    weights: np.ndarray | None
    rows: np.ndarray
    dropped: tuple[Any, ...]
    notes: tuple[str, ...]
    weight_kind: WeightKind = "frequency"
    inputs: Mapping[str, np.ndarray] = field(
        default_factory=dict
    )  # of each smooth function and process
    read: Mapping[str, Any] = field(
        default_factory=dict
    )  # what columns and offset read, at these rows, not copied
    # the rows of weight 0, with their responses as they stand
    unused: Unused | None = None


def read_formula(
    formula: str,
    data: Any,
    *,
    weights: Any = None,
    offset: Any = None,
    missing: Missing = "raise",
) -> Reading:
    """A formula at a table: the matrix of its terms, its response, and the recipe for new rows.

    The right side takes + - : * / ** and `.` (all other columns); text and categories get treatment contrasts
    against their first level, and so do truth values, whose first level is False; whole numbers are numbers. `weights` is a column name
    or an array (n,), or one of these with its kind (`probreg.data.weights`); `offset` an expression such as "log(exposure)" or an array (n,). Levels without rows get
    no column.

    Raises DataError naming the term, column, row and value of whatever cannot be used.

    >>> data = {"y": [1.0, 2.0, None], "dose": [1.0, 10.0, 100.0]}
    >>> reading = read_formula("y ~ np.log10(dose)", data, missing="drop")
    >>> reading.X, reading.dropped
    (array([[1., 0.],
           [1., 1.]]), (2,))
    """
    kind, weights = read_weights(weights)
    _refuse_wide_dot(formula, data)
    table = read_table(data)
    try:
        parts = parse_formula(written_out(formula, table, weights, offset))
    except DataError as error:
        # a column of several words that stands in the formula as it is
        bare = [name for name in table.columns if " " in name and name in str(formula)]
        if not bare or any(quote_name(name) in formula for name in bare):
            raise
        raise DataError(
            f"{error}; write {quote_name(max(bare, key=len))} in backquotes"
        ) from None
    offset = whole_offset(parts, offset)
    if isinstance(offset, str):
        added = parse_expression(offset)
    else:
        added = None
    named = (weights,) if isinstance(weights, str) else ()
    outcome = tuple(name for part in parts.outcome for name in part.variables)
    used = tuple(
        dict.fromkeys(
            (*outcome, *parts.variables, *(added.variables if added else ()), *named)
        )
    )
    require(table, used)
    table, names = _with_arguments(table, used, weights, offset)
    weight = named[0] if named else names.get("weights")
    whole, dropped = table, ()
    notes: tuple[str, ...] = ()
    if not (isinstance(missing, str) and missing == "raise"):
        whole, dropped, notes = complete(table, missing)
    memory = Memory()
    counted = _is_counted(whole, weight, kind)
    table = complete(whole.take(counted) if not counted.all() else whole, missing)[0]
    refuse_infinite(table)
    if parts.counted:
        trials = _response_values(parts, table, Memory(), training=True)
        some = (trials[:, 1] if parts.counted == "p" else trials.sum(1)) > 0
        if some.any() and not some.all():
            counted[np.flatnonzero(counted)[~some]] = False
            table = table.take(some)
    if weight is None:
        w = None
    else:
        w = check_weights(table.columns[weight], name=weight, kind=kind, table=table)
    if w is not None and kind == "frequency" and w.max() > 1:
        table = replace(table, counts=w)
    X, columns, of_bars = lay_out_with_bars(
        parts, table, memory, training=True, codes=True
    )
    response = _response_values(parts, table, memory, training=True)
    eta = _offset_of(added, names.get("offset"), table, memory, training=True)
    recipe = Recipe(
        formula=parts.text,
        response=parts.response,
        columns=columns,
        intercept=parts.intercept,
        variables=parts.variables,
        offset=offset if isinstance(offset, str) else None,
        state=write_state(memory),
        weights=named[0] if named else None,
    )
    inputs = inputs_of_functions(parts, table, memory, tuple(recipe.entering)) | of_bars
    apart = None
    if not counted.all():
        given = names.get("offset")
        left = replace(whole.take(~counted), counts=None)
        apart = _columns_without_weight(
            parts,
            left,
            memory,
            columns,
            inputs,
            lambda some: _offset_of(added, given, some, memory),
        )
        apart = replace(apart, places=np.flatnonzero(~counted))
    return Reading(
        recipe=recipe,
        X=X,
        response=response,
        counted=parts.counted,
        classes=parts.classes,
        offset=eta,
        weights=w,
        unused=apart,
        rows=table.rows,
        dropped=dropped,
        notes=(
            *notes,
            *_reading_notes(table, parts, offset),
            *(note for t in recipe.processes.values() for note in t.notes),
        ),
        weight_kind=kind,
        inputs=inputs,
        read=table.only(
            (*parts.variables, *(added.variables if added else ()))
        ).columns,
    )


def _refuse_wide_dot(formula: Any, data: Any) -> None:
    """DataError for a `.` that stands for more columns than a formula makes, before any of them is read."""
    names = getattr(data, "columns", data if isinstance(data, Mapping) else ())
    if len(names) > MOST_COLUMNS + 100 and has_dot(formula):
        raise DataError(
            f"'.' stands for most of the {len(names):,} columns of the table, and a formula makes at most {MOST_COLUMNS:,}: give the "
            "columns to Model.from_arrays"
        )


def whole_offset(parts: FormulaLayout, offset: Any) -> Any:
    """The offset of a formula with that of the argument `offset`, as one expression or as an array."""
    if parts.offset is None:
        return offset
    if offset is not None and not isinstance(offset, str):
        raise DataError(
            f"the formula has offset({parts.offset}), and offset= is an array: make the array a column and write both as one"
        )
    return joined_offsets(parts.offset, offset)


def _is_counted(table: Table, weight: str | None, kind: WeightKind) -> np.ndarray:
    """Return which rows (n,) have a weight other than 0. DataError if all weights are 0."""
    every = np.ones(len(table.rows), dtype=bool)
    if weight is None or kind_of(table.columns[weight]) not in ("number", "truth"):
        return every
    counted = np.asarray(table.columns[weight] != 0, dtype=bool)
    if not counted.any():
        check_weights(table.columns[weight], name=weight, kind=kind, table=table)
    return counted


def _offset_of(
    added: Expression | None,
    given: str | None,
    table: Table,
    memory: Memory,
    *,
    training: bool = False,
) -> np.ndarray | None:
    """The offset (n,): an expression, or the column `given` of one that came as an array."""
    if given is not None:
        return np.asarray(table.columns[given], dtype=float)
    if added is None:
        return None
    return numeric(added, table, memory.transforms, training=training)


def _columns_without_weight(
    parts: FormulaLayout,
    table: Table,
    memory: Memory,
    columns: tuple[str, ...],
    known: Mapping[str, np.ndarray],
    offset: Callable[[Table], np.ndarray | None],
) -> Unused:
    """Columns of rows of weight 0 under transforms learned from the other rows; nan where they cannot be computed (an unknown level).

    `known` are the inputs of the other rows, of which the first stands in for those of a row that has none.
    """
    keys = tuple(key for key in known if key not in {bar.key for bar in parts.bars})

    def rows(some: Table) -> Unused:
        refuse_missing(some.only(parts.variables))
        refuse_infinite(some.only(parts.variables))
        X, _, of_bars = lay_out_with_bars(
            parts, some, memory, training=False, codes=True
        )
        inputs = inputs_of_functions(parts, some, memory, keys) | of_bars
        eta = offset(some)
        return Unused(
            np.arange(0),
            X,
            None if eta is None else eta[:, None],
            None,
            some.rows,
            inputs,
        )

    def blank(some: Table) -> Unused:
        n = len(some.rows)
        inputs = {key: np.repeat(x[:1], n, axis=0) for key, x in known.items()}
        if offset(table.take(np.arange(0))) is None:
            eta = None
        else:
            eta = np.full((n, 1), np.nan)
        return Unused(
            np.arange(0),
            np.full((n, len(columns)), np.nan),
            eta,
            None,
            some.rows,
            inputs,
        )

    def response(some: Table) -> np.ndarray:
        return np.asarray(_response_values(parts, some, memory, training=False))

    def no_response(some: Table) -> np.ndarray:
        return np.full(
            (len(some.rows), len(parts.outcome)) if parts.counted else len(some.rows),
            np.nan,
            dtype=object,
        )

    read = _by_part(rows, blank, table)
    y = _by_part(response, no_response, table)
    one = read[0]
    if len(read) > 1:
        one = Unused(
            one.places,
            np.concatenate([np.asarray(part.X) for part in read]),
            None
            if one.offset is None
            else np.concatenate(
                [part.offset for part in read if part.offset is not None]
            ),
            None,
            table.rows,
            {
                key: np.concatenate([part.inputs[key] for part in read])
                for key in one.inputs
            },
        )
    return replace(one, y=np.concatenate(y))


def _by_part[T](
    read: Callable[[Table], T], blank: Callable[[Table], T], table: Table
) -> list[T]:
    """Read the rows in the largest groups that can be read; a row that cannot be read becomes `blank`."""
    out = list[T]()
    waiting = [table]
    tries = 0
    while waiting:
        some = waiting.pop()
        tries = tries + 1
        n = len(some.rows)
        try:
            out.append(read(some))
        except DataError:
            if n == 1 or tries > _TRIES:
                out.append(blank(some))
                continue
            waiting += [some.take(np.arange(n // 2, n)), some.take(np.arange(n // 2))]
    return out


def lay_out_with_bars(
    parts: FormulaLayout,
    table: Table,
    memory: Memory,
    *,
    training: bool,
    apart: bool = False,
    codes: bool = False,
) -> tuple[Any, tuple[str, ...], dict[str, np.ndarray]]:
    """The matrix (n, p) of terms and bars with its columns, those of bars last, and what enters each bar; columns of bars are
    left unwritten where they stay `apart`, and factors of many levels stay `codes`."""
    X, columns = lay_out(parts, table, memory, training=training, codes=codes)
    inputs, terms = read_bars(parts, table, memory, training=training)
    columns = with_columns_of(terms, columns, parts)
    if terms:
        X = beside_groups(X, [(term, inputs[term.key]) for term in terms], apart=apart)
    return X, columns, inputs


def read_bars(
    parts: FormulaLayout, table: Table, memory: Memory, *, training: bool
) -> tuple[dict[str, np.ndarray], list[GroupedTerm]]:
    """What enters each bar, and the terms that training rows made of them."""
    inputs = {
        bar.key: read_bar(bar, table, memory, training=training) for bar in parts.bars
    }
    return inputs, [term_of_bar(bar, memory) for bar in parts.bars]


def with_columns_of(
    terms: Sequence[GroupedTerm], columns: tuple[str, ...], parts: FormulaLayout
) -> tuple[str, ...]:
    """The columns of a formula with those of its bars behind them. DataError for names that repeat."""
    every = (*columns, *(c for term in terms for c in term.columns))
    if terms:
        refuse_repeated(every, parts)
    return every


def inputs_of_functions(
    parts: FormulaLayout, table: Table, memory: Memory, keys: tuple[str, ...]
) -> dict[str, np.ndarray]:
    """What enters these smooth functions and processes of a formula (n, d), by the term as written."""
    named = [e for e in parts.factors.values() if e.alone and e.written() in keys]
    return {e.written(): expression_inputs(e, table, memory.transforms) for e in named}


def written_out(formula: str, table: Table, weights: Any, offset: Any) -> str:
    """The formula with `.` as the columns that are not response, weights or offset, and stand behind no bar."""
    if not has_dot(formula):
        return formula
    taken = set(parse_formula(f"{left_of(formula)} ~ 1").outcome_variables)
    taken |= {weights} if isinstance(weights, str) else set()
    taken |= (
        set(parse_expression(offset).variables) if isinstance(offset, str) else set()
    )
    taken |= set(grouping_columns(formula)) | offset_variables(formula)
    return expand(formula, tuple(name for name in table.columns if name not in taken))


def _with_arguments(
    table: Table, used: tuple[str, ...], weights: Any, offset: Any
) -> tuple[Table, dict[str, str]]:
    """The used columns, weights and offset that are given as arrays, so that rows go together, and the names of these."""
    given = {"weights": weights, "offset": offset}
    names = dict[str, str]()
    columns = dict(table.only(used).columns)
    for word, values in given.items():
        if values is None or isinstance(values, str):
            continue
        names[word] = f"{word}="
        while names[word] in columns:
            names[word] += "="
        columns[names[word]] = one_per_row(word, values, len(table.rows))
    return Table(columns, table.rows), names


def _response_values(
    parts: FormulaLayout, table: Table, memory: Memory, *, training: bool
) -> Any:
    """The response at the rows of a table: one value per row, or (n, c) where a row counts."""
    if parts.counted:
        return counts_at(parts, table, memory.transforms, training=training)
    (expression,) = parts.outcome
    name = expression.column
    if name is None:
        return numeric(expression, table, memory.transforms, training=training)
    column = table.columns[name]
    kind = kind_of(column)
    if kind in ("time", "other"):
        if kind == "time":
            what = "times"
        else:
            what = f"values such as {column[0]!r} (row {table.rows[0]})"
        raise DataError(
            f"the response {name!r} holds {what}; a response holds numbers, truth values or categories"
        )
    return column


def _new_rows(data: Any, variables: tuple[str, ...]) -> Table:
    table = read_table(data)
    require(table, variables)
    table = table.only(variables)
    refuse_missing(table)
    refuse_infinite(table)
    return table


def _reading_notes(table: Table, parts: FormulaLayout, offset: Any) -> tuple[str, ...]:
    notes = [*parts.notes]
    if offset is not None and not isinstance(offset, str):
        notes.append(
            "the offset was given as an array: predictions at new rows need an offset of their own"
        )
    plain = {
        factor.column for factor in parts.every_factor.values()
    }  # those without C(...)
    for name in parts.factor_variables:
        column = table.columns[name]
        if kind_of(column) == "text":
            row = next(
                (
                    f" (row {r})"
                    for r, v in zip(table.rows, column)
                    if not reads_as_number(v)
                ),
                "",
            )
            notes.append(
                numbers_as_text(
                    name, factor_levels(column), declared=name not in plain, row=row
                )
            )
    for name in dict.fromkeys(
        (*parts.variables, *(v for part in parts.outcome for v in part.variables))
    ):
        if kind_of(table.columns[name]) == "levels" and (
            unused := _levels_without_rows(table.columns[name])
        ):
            notes.append(
                f"column {name!r} has levels without rows, left out: {', '.join(map(str, unused))}"
            )
    return tuple(filter(None, notes))


def _levels_without_rows(column: Any) -> list[Any]:
    present = set(column.unique())
    return [level for level in column.categories if level not in present]


def numbers_as_text(
    name: str, levels: Sequence[Any], *, declared: bool = False, row: str = ""
) -> str:
    """The note on a column of text whose levels are numbers, all of them, or most where nobody `declared` it a factor; else "". `row`
    says where the first other one is.

    >>> numbers_as_text("w", ["1", "2", "3", "?"])
    "column 'w' is text and is read as categories, although all of its 4 values but '?' are numbers"
    """
    odd = [level for level in levels if not reads_as_number(level)]
    said = f"column {name!r} is text and is read as categories, although"
    if not odd:
        return f"{said} every value is a number"
    if declared or len(levels) < 3 or 2 * len(odd) >= len(levels):
        return ""
    few = ", ".join(map(repr, odd[:3])) + (
        f" and {len(odd) - 3} more" if len(odd) > 3 else ""
    )
    return f"{said} all of its {len(levels)} values but {few}{row} are numbers"


# ---- what the factors learned, as plain data and back: checked leaf by leaf ----------------------------------------------


def write_state(memory: Memory) -> dict[str, Any]:
    """The memory as JSON-able data."""
    return {
        "transforms": _plain_values(memory.transforms),
        "levels": {k: list(v) for k, v in memory.levels.items()},
    }


def read_state(state: Any) -> Memory:
    """The memory that `write_state` wrote, as fresh objects; DataError for all but plain, finite data."""
    if not isinstance(state, Mapping) or set(state) != {"transforms", "levels"}:
        raise DataError(
            "a saved state holds 'transforms' and 'levels', and nothing else"
        )
    transforms = state["transforms"]
    levels = state["levels"]
    if not isinstance(transforms, Mapping) or not all(
        isinstance(kept, Mapping) for kept in transforms.values()
    ):
        raise DataError("the saved state of the transforms is not a table of tables")
    if not isinstance(levels, Mapping):
        raise DataError("the saved levels are not a table of lists")
    for text, known in levels.items():
        if not isinstance(known, list | tuple) or not all(
            isinstance(level, Level) for level in known
        ):
            raise DataError(
                f"the saved levels of {text!r} are not a list of texts and numbers"
            )
    return Memory(
        {k: _state(k, v) for k, v in transforms.items()},
        {k: list(v) for k, v in levels.items()},
    )


def same_state(memory: Memory, state: Mapping[str, Any]) -> bool:
    """Whether nothing was learned since the state was written: what learns anew had lost its state."""
    return write_state(memory) == write_state(
        read_state(state)
    )  # a process is the same where it is that object


def _state_to_json(state: Mapping[str, Any]) -> dict[str, Any]:
    """A state as JSON-able data, with processes written out, whose bases hold arrays."""

    def plain(kept: Mapping[str, Any]) -> Any:
        held = kept.get("process")
        if isinstance(held, ProcessTerm):
            return held.to_state()
        return copy.deepcopy(dict(kept))

    transforms = {key: plain(kept) for key, kept in state["transforms"].items()}
    return {"transforms": transforms, "levels": copy.deepcopy(dict(state["levels"]))}


def _state(key: str, kept: Mapping[str, Any]) -> dict[str, Any]:
    """Return the state of one transform, or of a process as a term."""
    if isinstance(kept.get("process"), ProcessTerm):
        return dict(kept)
    if kept.get("kind") == "process":
        return {"process": process_of(kept, key)}
    return {
        name: _validate_state(key, value, DEEPEST_STATE) for name, value in kept.items()
    }


def _validate_state(key: str, value: Any, depth: int) -> Any:
    match value:
        case None | bool() | str() | int():
            return value
        case float() if math.isfinite(value):
            return value
        case list() | tuple() if depth:
            return [_validate_state(key, part, depth - 1) for part in value]
        case Mapping() if depth:
            return {
                str(name): _validate_state(key, part, depth - 1)
                for name, part in value.items()
            }
    raise DataError(
        f"the saved state of {key!r} is damaged: {value!r:.60} is not a finite number, text or list"
    )


def _plain_values(value: Any) -> Any:
    match value:
        case np.ndarray() | np.generic():
            return value.tolist()
        case Mapping():
            return {str(name): _plain_values(part) for name, part in value.items()}
        case list() | tuple():
            return [_plain_values(part) for part in value]
    return value
