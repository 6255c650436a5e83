"""The recipe of a formula: the map from a table to the columns of X, with the state learned from the training rows.

A recipe is text and numbers only. Loading one reads its formula through the same whitelist as a formula typed
by hand, so a file can contain wrong numbers but never code. The functions before the class read bars such as (x | g): the groups
of the rows, in the order of the levels of their columns.
"""

import copy
from collections.abc import Callable, Mapping
from dataclasses import dataclass, replace
from functools import cached_property
from typing import Any, Self

import numpy as np

from probreg.arguments.arrays import brief
from probreg.data.checked_arrays import (
    is_array,
    refuse_infinite,
    refuse_missing,
    require,
)
from probreg.data.design import ColumnRecipe
from probreg.data.formula.columns import DataTable, kind_of, missing_values, read_table
from probreg.data.formula.evaluate import Memory, Term
from probreg.data.formula.layout import (
    counts_at,
    ends_at,
    factor_levels,
    lay_out,
    numeric,
    plain_level,
    refuse_repeated,
)
from probreg.data.implicit_columns import beside_groups
from probreg.data.terms.grouped import GroupedTerm, grouped_of, joined_levels
from probreg.data.terms.process import ProcessTerm, process_of
from probreg.data.terms.smooths import smooth_of
from probreg.errors import DataError
from probreg.formula.expression import Expression, parse_expression
from probreg.formula.terms import Bar, FormulaLayout, parse_formula

Array = np.ndarray


def read_bar(bar: Bar, table: DataTable, memory: Memory) -> Array:
    """Return the inputs of the term (n, 1 + K), which learns its groups from the rows unless `memory` has them."""
    Z, effects, _ = lay_out(bar.effects, table, memory)
    labels = group_labels(bar.group, table)
    if bar.key not in memory.terms:
        # groups of more rows than these may already be known
        levels = memory.groups.get(bar.group) or levels_of_groups(bar.group, table)
        refuse_single(bar.key, levels)
        memory.terms[bar.key] = GroupedTerm(
            bar.key, bar.by, effects, levels, bar.correlated, bar.group
        )
    term: Any = memory.terms[bar.key]
    return term.inputs_of(labels, Z)


def group_labels(group: tuple[str, ...], table: DataTable) -> Array:
    """Return the group (n,) of each row as text; combinations of several columns are joined by colons."""
    codes, combinations = _combinations(group, table)
    return np.array([joined_levels(parts) for parts in combinations], dtype=object)[
        codes
    ]


def levels_of_groups(group: tuple[str, ...], table: DataTable) -> tuple[str, ...]:
    """Return the groups that occur, in the order of the levels of each column. DataError for a column of measurements."""
    for name in group:
        _refuse_measurements(name, table)
    levels = [
        tuple(map(str, factor_levels(name, table.columns[name]))) for name in group
    ]
    return in_order(observed_combinations(group, table), levels)


def in_order(
    combinations: set[tuple[str, ...]], levels: list[tuple[str, ...]]
) -> tuple[str, ...]:
    """Return combinations of levels as groups, in the order of the levels of each column."""
    ranks = [
        {level: i for i, level in enumerate(column_levels)} for column_levels in levels
    ]
    ordered = sorted(
        combinations, key=lambda parts: [rank[part] for rank, part in zip(ranks, parts)]
    )
    return tuple(map(joined_levels, ordered))


def observed_combinations(
    group: tuple[str, ...], table: DataTable
) -> set[tuple[str, ...]]:
    """Return the combinations of levels in these rows."""
    return set(_combinations(group, table)[1])


def refuse_single(key: str, levels: tuple[str, ...]) -> None:
    """Raise DataError for fewer than two groups."""
    if len(levels) < 2:
        raise DataError(
            f"{key} has the single group {', '.join(map(repr, levels))} in these rows; effects vary over two groups or more"
        )


def _combinations(
    group: tuple[str, ...], table: DataTable
) -> tuple[Array, list[tuple[str, ...]]]:
    """Return the number (n,) of each row's combination, and the combinations that occur."""
    codes, texts = zip(*(level_codes(name, table) for name in group))
    if len(group) == 1:
        return codes[0], [(text,) for text in texts[0]]
    combinations, number = np.unique(
        np.column_stack(codes), axis=0, return_inverse=True
    )
    return number.reshape(-1), [
        tuple(labels[i] for labels, i in zip(texts, row))
        for row in combinations.tolist()
    ]


def level_codes(name: str, table: DataTable) -> tuple[Array, list[str]]:
    """Return the number (n,) of the level of each row of a column, and the levels as text. DataError for columns that cannot be groups."""
    import pandas as pd

    column: Any = table.columns[name]
    if kind_of(column) == "other":
        kinds = sorted({type(value).__name__ for value in column})
        raise DataError(
            f"column {name!r} holds values of kind {', '.join(kinds)} and stands for groups; make all of them text, or all numbers"
        )
    codes, values = pd.factorize(column)
    texts = [str(plain_level(value)) for value in values]
    if len(set(texts)) < len(texts):
        twice = next(text for text in texts if texts.count(text) > 1)
        raise DataError(
            f"column {name!r} has different levels that all read {twice!r}; rename them"
        )
    return codes, texts


def _refuse_measurements(name: str, table: DataTable) -> None:
    """Raise DataError for numbers with decimals that differ in every row."""
    column: Any = table.columns[name]
    if (
        kind_of(column) != "number"
        or column.dtype.kind != "f"
        or (column == np.floor(column)).all()
    ):
        return
    if len(np.unique(column)) == len(column):
        raise different_in_every_row(name, column[0], table.rows[0], len(column))


def different_in_every_row(name: str, value: float, row: Any, n: int) -> DataError:
    """Return the error for a grouping column of decimals that differ in every row."""
    return DataError(
        f"column {name!r} holds a different number in each of its {n} rows, such as {value:g} in row {row}; groups are what "
        "several rows share"
    )


@dataclass(frozen=True)
class Recipe(ColumnRecipe):
    """The map from a table to the columns of X: the terms of a formula and the state learned from the training rows.

    `memory` contains the knots, means, norms and levels; `offset` is an expression added to eta, or None; `weights` names
    the column of the weights, or is None. All of it is JSON-able data.

    >>> data = {"y": [1, 2, 4], "x": [1, 2, 6], "g": ["a", "b", "b"]}
    >>> from probreg.data.formula.formula import read_formula
    >>> recipe = read_formula("y ~ center(x) + g", data).design.recipe
    >>> recipe.columns
    ('Intercept', 'center(x)', 'g[T.b]')
    >>> recipe.matrix({"x": [4], "g": ["b"]})
    array([[1., 1., 1.]])
    """

    formula: str
    columns: tuple[str, ...]
    offset: str | None
    memory: Memory
    weights: str | None = None

    @property
    def by_prefix(self) -> Mapping[str, "Recipe"]:
        """The recipes of all linear predictors by the prefix of their columns: this one alone."""
        return {"": self}

    @property
    def layout(self) -> FormulaLayout:
        """The parts of the formula."""
        return parse_formula(self.formula)

    @property
    def variables(self) -> tuple[str, ...]:
        """The columns that the terms read."""
        return self.layout.variables

    @property
    def offset_expression(self) -> Expression | None:
        """The offset as an expression."""
        return parse_expression(self.offset) if self.offset else None

    @property
    def offset_variables(self) -> tuple[str, ...]:
        """The columns that the offset reads."""
        return self.offset_expression.variables if self.offset_expression else ()

    @property
    def all_variables(self) -> tuple[str, ...]:
        return tuple(dict.fromkeys((*self.variables, *self.offset_variables)))

    def read(self, data: Any) -> tuple[np.ndarray, dict[str, np.ndarray]]:
        """Return X (n, p) at new rows with the training knots, means and levels, and the inputs of functions and bars.

        Raises DataError for a missing column or value, an infinite value, a level not seen in training and a
        value outside the range of a spline, naming column and rows.
        """
        table = _new_rows(data, self.variables)
        X, _, inputs = make_columns(self.layout, table, self.memory, codes=True)
        return X, inputs

    def columns_of_rows(self, table: DataTable, *, lazy: bool = False) -> Any:
        """Return X (n, p) at checked rows; columns of groups are implicit if `lazy`."""
        return make_columns(self.layout, table, self.memory, lazy=lazy)[0]

    def offset_of_rows(self, table: DataTable) -> np.ndarray | None:
        """Return the offset (n,) at checked rows, or None for a model without an offset expression."""
        if self.offset_expression is None:
            return None
        return numeric(self.offset_expression, table, self.memory)

    @cached_property
    def of_groups_alone(self) -> tuple[str, ...]:
        """The variables that only define the group of a row."""
        recipes = self.by_prefix.values()
        read = {
            name
            for recipe in recipes
            for name in (*recipe.layout.factor_variables, *recipe.offset_variables)
        }
        bars = (bar for recipe in recipes for bar in recipe.layout.bars)
        groups = (name for bar in bars for name in bar.group)
        return tuple(dict.fromkeys(name for name in groups if name not in read))

    def groups_at(self, data: Any) -> dict[str, np.ndarray]:
        """Return the group (n,) of each row as text, by term."""
        if not self.grouped:
            return {}
        table = _new_rows(data, self.variables)
        return {bar.key: group_labels(bar.group, table) for bar in self.layout.bars}

    @property
    def learned_terms(self) -> tuple[str, ...]:
        """The terms with columns that depend on the training rows through knots, means or anchors."""
        return (*self.memory.transforms, *super().learned_terms)

    @cached_property
    def input_names(self) -> Mapping[str, tuple[str, ...]]:
        """The inputs of each smooth function and each process, by term, as written and in the order of the formula."""
        return {
            e.written(): tuple(map(e.written, e.basis_call.args))
            for e in self.layout.factors.values()
            if e.basis_call
        }

    def own_column(self, name: str) -> int | None:
        """Return the number of the column that is the variable itself, if no other column and no offset uses the variable."""
        parts = self.layout
        reads = [t for t, factor in parts.factors.items() if name in factor.variables]
        elsewhere = {*self.offset_variables}
        for bar in parts.bars:
            elsewhere |= {*bar.group, *bar.effects.variables}
        if len(reads) != 1 or name in elsewhere or reads[0] in self.memory.levels:
            return None
        terms = [term for term in parts.terms if reads[0] in term]
        if terms != [(reads[0],)] or parts.factors[reads[0]].column != name:
            return None
        return self.columns.index(name)

    @property
    def _term_keys(self) -> tuple[str, ...]:
        """The smooth functions, processes and varying effects, as written."""
        return (*self.input_names, *(bar.key for bar in self.layout.bars))

    @property
    def basis_terms(self) -> Mapping[str, Term]:
        return {key: self.memory.terms[key] for key in self._term_keys}

    def with_process(self, term: ProcessTerm) -> Self:
        old = self.processes[term.key].columns
        start = self.columns.index(old[0])
        stop = start + len(old)
        columns = (*self.columns[:start], *term.columns, *self.columns[stop:])
        memory = replace(self.memory, terms={**self.memory.terms, term.key: term})
        return replace(self, columns=columns, memory=memory)

    def offset_at(self, data: Any) -> np.ndarray | None:
        """Return the offset (n,) or (n, m) at new rows, or None for a model without an offset expression."""
        if not any(recipe.offset for recipe in self.by_prefix.values()):
            return None
        return self.offset_of_rows(_new_rows(data, self.offset_variables))

    def outcome_at(self, data: Any) -> Any:
        """Return the response at new rows, as read in training: (n, 2) for p(s, t), (n, K) for counts."""
        layout = self.layout
        table = _new_rows(data, layout.outcome_variables, layout.end_columns)
        return response_values(self.layout, table, self.memory)

    def trials_at(self, data: Any) -> np.ndarray | None:
        """Return the trials (n,) of p(s, t) or of counts at new rows; None if their columns are missing or incomplete."""
        summed = self.layout.trials
        if not summed:
            return None
        table = read_table(data)
        names = tuple(dict.fromkeys(name for part in summed for name in part.variables))
        if not set(names) <= set(table.columns):
            return None
        table = table.only(names)
        if any(missing_values(values).any() for values in table.columns.values()):
            return None
        return np.sum([numeric(part, table, self.memory) for part in summed], axis=0)

    def weights_at(self, data: Any) -> Any:
        """Return the weights (n,) of new rows from their column, or None for a model without a column of weights.

        DataError if the table lacks the column or a value of it.
        """
        if self.weights is None:
            return None
        if is_array(data):
            raise DataError(
                f"the weights are read from column {self.weights!r}, and these rows are an array: pass weights="
            )
        return _new_rows(data, (self.weights,)).columns[self.weights]

    def to_json(self) -> dict[str, Any]:
        """Return the recipe as plain data: text, numbers, lists and dicts, and arrays in the bases of processes."""
        return {
            "kind": "formula",
            "formula": self.formula,
            "columns": list(self.columns),
            "offset": self.offset,
            "weights": self.weights,
            "state": _state_to_json(self.memory),
        }

    @classmethod
    def from_json(cls, saved: Mapping[str, Any]) -> Self:
        """Return the recipe that `to_json` wrote; its formula is checked against the whitelist again, and nothing is executed."""
        parse_formula(saved["formula"])
        memory = _state_from_json(saved["state"])
        columns = tuple(saved["columns"])
        recipe = cls(
            saved["formula"], columns, saved["offset"], memory, saved["weights"]
        )
        absent = [key for key in recipe._term_keys if key not in memory.terms]
        if absent:
            raise DataError(
                f"{absent[0]}: another version of probreg wrote its basis or groups, and this one cannot read them; save the model again "
                "from its rows"
            )
        return recipe


# ---- columns, bars and responses at the rows of a table -----------------------------------------------------------------


def make_columns(
    parts: FormulaLayout,
    table: DataTable,
    memory: Memory,
    *,
    lazy: bool = False,
    codes: bool = False,
) -> tuple[Any, tuple[str, ...], dict[str, np.ndarray]]:
    """Return the matrix (n, p) of terms and bars with its columns (bars last) and the inputs of each function and bar, by term.

    Columns of bars are implicit if `lazy`, and factors of many levels stay codes if `codes`.
    """
    X, columns, inputs = lay_out(parts, table, memory, codes=codes)
    if not parts.bars:
        return X, columns, inputs
    inputs |= {bar.key: read_bar(bar, table, memory) for bar in parts.bars}
    terms: list[Any] = [memory.terms[bar.key] for bar in parts.bars]
    columns = (*columns, *(c for term in terms for c in term.columns))
    refuse_repeated(columns, parts)
    X = beside_groups(X, [(term, inputs[term.key]) for term in terms], lazy=lazy)
    return X, columns, inputs


def response_values(parts: FormulaLayout, table: DataTable, memory: Memory) -> Any:
    """The response at the rows of a table: one value per row, or (n, c) where a row counts."""
    if parts.has_counts:
        return counts_at(parts, table, memory)
    if parts.parts_of_ends:
        return ends_at(parts, table, memory)
    (expression,) = parts.outcome
    if expression.column is None:
        return numeric(expression, table, memory)
    require_response(parts, table)
    return table.columns[expression.column]


def rows_with_trials(parts: FormulaLayout, table: DataTable) -> np.ndarray:
    """Return which rows (n,) have trials in a response of counts that are expressions; `rows_that_count` finds them in columns."""
    if not parts.has_counts or parts.count_columns:
        return np.ones(len(table.rows), dtype=bool)
    return response_values(parts, table, Memory()).any(1)


def require_response(parts: FormulaLayout, table: DataTable) -> None:
    """Raise DataError for a response of times, or of values that are not numbers or categories."""
    name = parts.outcome[0].column if len(parts.outcome) == 1 else None
    kind = "number" if name is None else kind_of(table.columns[name])
    if name is None or kind not in ("time", "other"):
        return
    content = "times"
    if kind == "other":
        value = table.columns[name][0]
        content = f"{type(value).__name__} values such as {brief(value)} (row {table.rows[0]})"
    raise DataError(
        f"the response {name!r} holds {content}; a response holds numbers, truth values or categories"
    )


def _new_rows(
    data: Any, variables: tuple[str, ...], ends: frozenset[str] = frozenset()
) -> DataTable:
    table = read_table(data)
    require(table, variables)
    table = table.only(variables)
    required = table.without_ends(ends)
    refuse_missing(required)
    refuse_infinite(required)
    return table


# ---- the learned state as plain data and back ---------------------------------------------------------------------------


def _state_to_json(memory: Memory) -> dict[str, Any]:
    """Return a memory as JSON-able data."""
    terms = {key: term.to_state() for key, term in memory.terms.items()}
    return {
        "transforms": copy.deepcopy({**memory.transforms, **terms}),
        "levels": copy.deepcopy(memory.levels),
    }


def _state_from_json(state: Mapping[str, Any]) -> Memory:
    """Return the memory that `_state_to_json` wrote."""
    readers: dict[str, Callable[[Any, str], Any]] = {
        "smooth": smooth_of,
        "process": process_of,
        "grouped": grouped_of,
    }
    levels = {key: list(v) for key, v in state["levels"].items()}
    memory = Memory(levels=levels, learning=False)
    for key, entry in copy.deepcopy(state["transforms"]).items():
        reader = readers.get(entry.get("kind"))
        if reader is None:
            memory.transforms[key] = entry
        else:
            memory.terms[key] = reader(entry, key)
    return memory
