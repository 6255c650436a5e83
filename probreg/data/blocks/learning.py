"""The recipe of a formula for files: levels from all rows, and transforms fitted to an evenly spaced sample of rows."""

from collections.abc import Iterator, Mapping
from contextlib import closing
from dataclasses import dataclass, field, replace
from functools import partial
from typing import Any

import numpy as np

from probreg.arguments.arrays import brief, reads_as_number
from probreg.data.blocks.batches import Selection, refuse_response
from probreg.data.blocks.block import SAMPLE, Array
from probreg.data.blocks.files import Files, Tables
from probreg.data.blocks.groups import Group, GroupsSeen, note_levels
from probreg.data.blocks.stream import ahead
from probreg.data.blocks.survey import Orders
from probreg.data.checked_arrays import of_trials
from probreg.data.formula.columns import (
    DataTable,
    first_text,
    joined_columns,
    kind_of,
    missing_values as absent,
)
from probreg.data.formula.evaluate import (
    is_truth,
    learn_streamed,
    read_coding,
    refuse_unstreamed,
)
from probreg.data.formula.formula import numbers_as_text, whole_offset, written_out
from probreg.data.formula.layout import (
    Level,
    Memory,
    lay_out,
    level_column,
    refuse_malformed_numbers,
    training_levels,
)
from probreg.data.formula.recipe import Recipe, read_bars, with_columns_of, write_state
from probreg.data.rows import Missing, require, row_weights
from probreg.data.weights import WeightKind
from probreg.errors import DataError
from probreg.formula.expression import Expression, parse_expression
from probreg.formula.terms import FormulaLayout, parse_formula
from probreg.system.progress import progress_bar

_MOST = 10_000  # levels of one column: each is a column of X


@dataclass(frozen=True)
class Plan:
    """The parts of a formula for some files: its layout, the columns that it uses, and the first rows."""

    parts: FormulaLayout
    selection: Selection
    first: DataTable
    offset: str | None
    weights: str | None
    kind: WeightKind = "frequency"

    @property
    def response(self) -> str:
        """The name of the response."""
        if self.parts.counted == "p":
            return of_trials(self.parts.response)
        return self.parts.response

    @property
    def factors(self) -> dict[str, Expression]:
        """The categories that need the levels of all rows, by their text."""

        def category(factor: Expression) -> bool:
            name = factor.column
            return factor.coding_call is not None or (
                name is not None and kind_of(self.first.columns[name]) == "levels"
            )

        factors = self.parts.every_factor.items()
        return {
            text: factor
            for text, factor in factors
            if category(factor) and text not in self.truths
        }

    @property
    def truths(self) -> dict[str, list[Level]]:
        """The levels of the factors with values True and False, by their text: these levels are known before any row is read."""
        factors = self.parts.every_factor.items()
        keys = [
            text
            for text, factor in factors
            if is_truth(factor, self.first.columns) and not _levels_named(factor)
        ]
        return {text: [False, True] for text in keys}

    @property
    def learning(self) -> tuple[str, ...]:
        """The terms with a transform that learns from the rows."""
        return tuple(
            text for text, factor in self.parts.every_factor.items() if factor.learns
        )

    @property
    def needs_scan(self) -> bool:
        """Whether all rows must be scanned before any column is made, for levels, groups, means or knots."""
        return bool(self.factors or self.learning or self.parts.bars)

    def declared_levels(self, levels: Array, orders: Orders) -> tuple[Any, ...] | None:
        """Return the response levels in their declared order, if all rows declare the same order and it contains all levels; else None."""
        if self.parts.counted:
            return self.parts.classes
        name = self.parts.outcome[0].column
        if (
            name is None
            or kind_of(self.first.columns[name]) != "levels"
            or not self.selection.files.declared_order(name)
        ):
            return None
        return orders.levels(levels)


def plan(
    formula: str,
    files: Tables,
    *,
    weights: Any,
    offset: Any,
    missing: Missing,
    kind: WeightKind = "frequency",
    classes: bool = False,
) -> Plan:
    """Read the formula against the columns of the files and their first rows; the response may be one of `classes`.

    DataError for missing columns.
    """
    for word, value in (("weights", weights), ("offset", offset)):
        if value is not None and not isinstance(value, str):
            type_name = type(value).__name__
            raise DataError(
                f"{word}= is a column's name{' or an expression' * (word == 'offset')} in the files, got {type_name}"
            )
    if not isinstance(missing, str) or missing not in ("raise", "drop"):
        raise DataError(
            f"missing={brief(missing)} is not known; take 'raise' (an error names the rows) or 'drop'"
        )
    header = DataTable(dict.fromkeys(files.names()), np.arange(0))
    parts = parse_formula(written_out(formula, header, weights, offset))
    for expression in parts.every_factor.values():
        refuse_unstreamed(expression)
    offset = whole_offset(parts, offset)
    added = parse_expression(offset) if offset else None
    outcome = tuple(name for part in parts.outcome for name in part.variables)
    further = (*(added.variables if added else ()), *((weights,) if weights else ()))
    names = tuple(dict.fromkeys((*outcome, *parts.variables, *further)))
    require(header, names)
    if any(part.learns for part in parts.outcome) or (
        added is not None and added.learns
    ):
        raise DataError(
            "a response or an offset that learns from the rows, such as center(y), is not read by the block"
        )
    if isinstance(files, Files):
        coded = [
            e.category for e in parts.every_factor.values() if e.coding_call is not None
        ]
        groups = [name for bar in parts.bars for name in bar.group]
        groups += [
            name
            for e in parts.every_factor.values()
            if e.names_labels
            for name in e.variables
        ]
        coded += (
            [parts.outcome[0].column] if classes and len(parts.outcome) == 1 else []
        )
        files = replace(
            files,
            labels=tuple(
                dict.fromkeys(name for name in (*coded, *groups) if name is not None)
            ),
        )
    first = _first(files, names)
    if not len(first.rows):
        raise DataError(
            f"{files.name} holds no rows: a model needs at least one row of data"
        )
    kinds = {name: kind_of(values) for name, values in first.columns.items()}
    refuse_response(parts, first)
    expressions = [
        e for e in (*parts.every_factor.values(), *parts.outcome) if e.column is None
    ]
    for name in (
        *(
            name
            for e in (*expressions, *filter(None, [added]))
            for name in e.numeric_columns
        ),
        *((weights,) if weights else ()),
    ):
        if kinds[name] in ("text", "levels"):
            raise _no_numbers(files, name)
    trials = tuple(part.column or "" for part in parts.trials)
    selection = Selection(
        files,
        names,
        missing,
        kinds,
        weights=weights,
        trials=trials if all(trials) else (),
    )
    return Plan(parts, selection, first, offset, weights, kind)


def _no_numbers(files: Tables, name: str) -> DataError:
    """Return the error for a text column where numbers are needed; it names the first cell that is not a number."""
    with closing(files.batches([name])) as batches:
        for batch in batches:
            column = batch.table.columns[name]
            if len(batch.table.rows):
                value = column[i := first_text(column)]
            else:
                value = ""
            if isinstance(value, str) and not reads_as_number(value):
                return DataError(
                    f"column {name!r} is computed with and holds text: {value!r} in row {batch.table.rows[i]} of {batch.file} is no number. "
                    "Correct the cell"
                )
    return DataError(
        f"column {name!r} of {files.name} is computed with and holds text: make it numbers"
    )


def _first(files: Tables, names: tuple[str, ...]) -> DataTable:
    """Return the first rows; a column that is missing in all of them comes from the first batch with a value in it."""
    rows = np.arange(0)
    columns = dict[str, Any]()
    shown = set[str]()
    with closing(files.batches(names)) as batches:
        for table in (batch.table for batch in batches if len(batch.table.rows)):
            rows = rows if len(rows) else table.rows
            first_values = {
                name
                for name in names
                if name not in shown and not absent(table.columns[name]).all()
            }
            columns |= {
                name: table.columns[name]
                for name in names
                if name in first_values or name not in columns
            }
            shown |= first_values
            if len(shown) == len(names):
                break
    return DataTable(columns, rows)


def recipe_of(plan: Plan, progress: bool | None) -> tuple[Recipe, tuple[str, ...]]:
    """Return the recipe and notes on how it was learned; makes one pass over the rows if there is anything to learn."""
    files = plan.selection.files
    if not plan.needs_scan:
        return _plain_recipe(plan), plan.parts.notes
    seen = empty_seen(plan)
    with (
        progress_bar(f"{files.name}, rows", show=progress) as bar,
        closing(ahead(plan.selection.tables())) as tables,
    ):
        for table, _ in tables:
            seen.add(table)
            bar.done = seen.rows
    return learn_recipe(plan, seen)


def empty_seen(plan: Plan) -> "Seen":
    """Return the empty result of a scan."""
    factors = plan.parts.every_factor
    watched = tuple(
        dict.fromkeys(
            name for text in plan.learning for name in factors[text].variables
        )
    )
    return Seen(
        plan.factors,
        watched,
        groups=GroupsSeen(tuple(dict.fromkeys(bar.group for bar in plan.parts.bars))),
    )


def learn_recipe(plan: Plan, seen: "Seen") -> tuple[Recipe, tuple[str, ...]]:
    """Return the recipe that follows from one pass over all rows, and notes on how it was learned."""
    factors = plan.factors
    learning = plan.learning
    if not seen.rows:
        raise _none_complete(plan.selection.files)
    for text, factor in factors.items():
        if factor.coding_call is None and all(
            isinstance(level, str) for level in seen.levels[text]
        ):
            refuse_malformed_numbers(
                text, list(seen.levels[text]), seen.rows, partial(_place_of, plan, text)
            )
    ordered = {text: _is_ordered(plan, factor) for text, factor in factors.items()}
    levels = {
        text: seen.training_levels(text, factor, ordered[text])
        for text, factor in factors.items()
    }
    declared = {
        name: plan.selection.files.declared_order(name) for name in seen.groups.columns
    }
    groups = {
        group: seen.groups.levels(group, declared) for group in seen.groups.groups
    }
    recipe = _recipe(
        plan, seen.sample(), Memory(levels=levels | plan.truths, groups=groups)
    )
    notes = (note for term in recipe.processes.values() for note in term.notes)
    return recipe, (
        *plan.parts.notes,
        *_notes(plan, seen, levels, learning, groups),
        *notes,
    )


def _place_of(plan: Plan, text: str, level: Any) -> str:
    """Return the file and row of the first occurrence of a level; "" if the rows are not in this process."""
    name = plan.parts.every_factor[text].category
    with closing(plan.selection.tables()) as tables:
        for table, file in tables:
            column = table.columns[name or text]
            rows = np.flatnonzero(
                [value == level for value in np.asarray(column, dtype=object)]
            )
            if len(rows):
                return f" in row {table.rows[rows[0]]} of {file}"
    return ""


def _plain_recipe(plan: Plan) -> Recipe:
    """Return the recipe of terms that learn nothing, which needs only some complete rows."""
    with closing(plan.selection.tables()) as tables:
        rows = next((table for table, _ in tables), None)
    if rows is None:
        raise _none_complete(plan.selection.files)
    return _recipe(
        plan,
        rows.take(np.arange(min(2, len(rows.rows)))),
        Memory(levels=dict(plan.truths)),
    )


def _levels_named(factor: Expression) -> bool:
    """Whether the formula lists the levels of the factor: C(x, levels=...)."""
    return (
        factor.coding_call is not None
        and "levels" in read_coding(factor.coding_call)[1]
    )


def _none_complete(files: Tables) -> DataError:
    return DataError(
        f"{files.name} holds no rows that count: none is complete and has a weight above 0"
    )


def _recipe(plan: Plan, table: DataTable, memory: Memory) -> Recipe:
    parts = plan.parts
    if plan.weights is not None and plan.kind == "frequency":
        table = replace(
            table,
            counts=row_weights(
                table.columns[plan.weights],
                name=plan.weights,
                kind=plan.kind,
                table=table,
            ),
        )
    for expression in parts.every_factor.values():
        learn_streamed(expression, table, memory.transforms)
    with np.errstate(all="ignore"):
        _, columns = lay_out(parts, table, memory, training=True)
    columns = with_columns_of(
        read_bars(parts, table, memory, training=True)[1], columns, parts
    )
    state = write_state(memory)
    return Recipe(
        parts.text,
        parts.response,
        columns,
        parts.intercept,
        parts.variables,
        plan.offset,
        state,
        plan.weights,
    )


def _is_ordered(plan: Plan, factor: Expression) -> bool:
    name = factor.column
    inner = factor.coding_call
    if name is None and inner is not None and len(factor.variables) == 1:
        name = factor.variables[0]
    return name is not None and plan.selection.files.declared_order(name)


def _notes(
    plan: Plan,
    seen: "Seen",
    levels: Mapping[str, list[Level]],
    learning: tuple[str, ...],
    groups: Mapping[Group, Group],
) -> Iterator[str]:
    if levels or groups:
        pairs = [
            *levels.items(),
            *(
                (":".join(group), levels_of_factor)
                for group, levels_of_factor in groups.items()
            ),
        ]
        text_of_notes = ", ".join(
            f"{text} ({len(levels_of_factor)})"
            for text, levels_of_factor in dict(pairs).items()
        )
        yield f"levels were collected over all {seen.rows} rows: {text_of_notes}"
    for text, levels_of_factor in levels.items():
        if all(isinstance(v, str) for v in levels_of_factor) and (
            text_of_notes := numbers_as_text(
                text, levels_of_factor, declared=seen.factors[text].column is None
            )
        ):
            yield text_of_notes
    if learning and seen.rows > SAMPLE:
        yield (
            f"{', '.join(learning)} learned what they keep (means, knots, ...) from {len(seen.index)} evenly spaced rows of "
            f"{seen.rows}, and from the rows of the least and greatest values"
        )


@dataclass(eq=False)
class Seen:
    """Results of a pass over raw rows: levels of factors, evenly spaced rows, and rows of extreme values."""

    factors: Mapping[str, Expression]
    watched: tuple[str, ...]
    rows: int = 0
    stride: int = 1
    index: Array = field(default_factory=lambda: np.zeros(0, dtype=np.int64))
    levels: dict[str, dict[Any, None]] = field(default_factory=dict)
    declared: dict[str, tuple[Any, ...] | None] = field(default_factory=dict)
    held: list[tuple[Array, DataTable]] = field(default_factory=list)
    extremes: dict[tuple[str, bool], tuple[float, int, DataTable]] = field(
        default_factory=dict
    )
    groups: GroupsSeen = field(default_factory=GroupsSeen)

    def add(self, table: DataTable) -> None:
        for text, factor in self.factors.items():
            self._levels(text, level_column(factor, table, {}, training=False))
        self._extremes(table)
        self.groups.add(table)
        index = self.rows + np.arange(len(table.rows))
        self._hold(index, table)
        self.rows += len(table.rows)

    def _levels(self, text: str, column: Any) -> None:
        levels = self.levels.setdefault(text, {})
        note_levels(levels, self.declared, text, column)
        if len(levels) > _MOST:
            raise DataError(
                f"{text!r} has more than {_MOST} levels ({', '.join(map(repr, list(levels)[:3]))} ...), one column of X for "
                f"each. If it names the rows, leave it out, as in '. - {text}'; did you mean numbers, or a coarser grouping?"
            )

    def _extremes(self, table: DataTable) -> None:
        for name in self.watched:
            values = table.columns[name]
            if kind_of(values) not in ("number", "truth"):
                continue
            for low in (True, False):
                i = int(np.argmin(values) if low else np.argmax(values))
                extreme = self.extremes.get((name, low))
                if extreme is None or (
                    values[i] < extreme[0] if low else values[i] > extreme[0]
                ):
                    self.extremes[name, low] = (
                        values[i],
                        self.rows + i,
                        _as_given(table, np.array([i])),
                    )

    def _hold(self, index: Array, table: DataTable) -> None:
        keep = np.flatnonzero(index % self.stride == 0)
        self.held.append((index[keep], _as_given(table, keep)))
        self.index = np.concatenate([self.index, index[keep]])
        while len(self.index) > SAMPLE:
            self.stride *= 2
            self.held = [
                (i[k], t.take(k))
                for i, t in self.held
                if len(k := np.flatnonzero(i % self.stride == 0))
            ]
            self.index = self.index[self.index % self.stride == 0]

    def sample(self) -> DataTable:
        """Return the evenly spaced rows, and the rows of extreme values that are not among them."""
        import pandas as pd

        have = set(self.index.tolist())
        parts = [t for _, t in self.held]
        for _, row, table in self.extremes.values():
            if row not in have:
                have.add(row)
                parts.append(table)
        columns = {
            name: joined_columns([t.columns[name] for t in parts])
            for name in parts[0].columns
        }
        settled = {
            name: pd.Categorical(v) if v.dtype.kind == "O" else v
            for name, v in columns.items()
        }
        return DataTable(settled, np.concatenate([t.rows for t in parts]))

    def training_levels(
        self, text: str, factor: Expression, ordered: bool
    ) -> list[Level]:
        """Return the levels of a factor over all rows, in the same order as for a table in memory."""
        import pandas as pd

        call = factor.coding_call
        if call is not None:
            listed = read_coding(call)[1].get("levels")
        else:
            listed = None
        levels: Any = np.array(list(self.levels[text]), dtype=object)
        if ordered and (declared := self.declared[text]) is not None:
            levels = pd.Categorical(levels, categories=list(declared))
        rows: Any = range(self.rows)
        return training_levels(
            text, levels, listed, DataTable({}, rows), coded=call is not None
        )


def _as_given(table: DataTable, keep: Array) -> DataTable:
    """Return these rows with the values of categories instead of their codes."""
    columns = {
        name: values[keep]
        if isinstance(values, np.ndarray)
        else np.asarray(values[keep], dtype=object)
        for name, values in table.columns.items()
    }
    return DataTable(columns, table.rows[keep])
