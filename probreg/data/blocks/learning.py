"""The recipe of a formula for rows in parts: levels from all rows, and transforms fitted to an evenly spaced sample of rows."""

from collections import Counter
from collections.abc import Callable, Generator, Iterable, Iterator, Mapping
from contextlib import closing
from dataclasses import dataclass, replace
from functools import cached_property, partial
from itertools import accumulate
from operator import add, iadd, itemgetter
from typing import Any, Self

import numpy as np

from probreg.arguments.arrays import OrderedLevels, reads_as_number
from probreg.data.blocks.batches import Selection
from probreg.data.blocks.block import SAMPLE, Array
from probreg.data.blocks.files import Batch, Files
from probreg.data.blocks.frames import Tables
from probreg.data.blocks.parts import Partitions, Parts, pass_over
from probreg.data.blocks.survey import EvenSample, Orders, Tally, declared_order
from probreg.data.checked_arrays import Missing, check_missing, row_weights
from probreg.data.formula.columns import (
    DataTable,
    joined_columns,
    kind_of,
    missing_values,
)
from probreg.data.formula.evaluate import (
    Level,
    Memory,
    is_category,
    is_truth,
    read_coding,
)
from probreg.data.formula.formula import (
    ParsedFormulas,
    numbers_as_text,
    parse_formulas,
)
from probreg.data.formula.layout import (
    factor_levels,
    level_column,
    plain_level,
    refuse_malformed_numbers,
    training_levels,
)
from probreg.data.formula.parameters import ParameterRecipe
from probreg.data.formula.recipe import (
    Recipe,
    different_in_every_row,
    in_order,
    make_columns,
    observed_combinations,
    require_response,
)
from probreg.data.weights import WeightKind
from probreg.errors import DataError
from probreg.formula.expression import Expression
from probreg.formula.terms import FormulaLayout

Group = tuple[str, ...]


@dataclass(frozen=True)
class Plan:
    """The formulas of a model for some rows, the columns that they use, and the first rows."""

    formulas: ParsedFormulas
    files: Tables
    selection: Selection
    first: DataTable
    kind: WeightKind = "frequency"

    @property
    def parts(self) -> FormulaLayout:
        """The formula with the response."""
        return self.formulas.first.parts

    @cached_property
    def factors(self) -> dict[str, Expression]:
        """The categories that need the levels of all rows, by their text."""
        return {
            text: factor
            for text, factor in self.formulas.every_factor.items()
            if is_category(factor, self.first.columns) and text not in self.truths
        }

    @cached_property
    def truths(self) -> dict[str, list[Level]]:
        """The levels of the factors with values True and False, by their text: these levels are known before any row is read."""
        return {
            text: [False, True]
            for text, factor in self.formulas.every_factor.items()
            if is_truth(factor, self.first.columns) and read_coding(factor)[1] is None
        }

    @property
    def learning_terms(self) -> tuple[str, ...]:
        """The terms with a transform that learns from the rows."""
        factors = self.formulas.every_factor.items()
        return tuple(text for text, factor in factors if factor.learns)

    def declared_levels(self, orders: Orders, levels: Array) -> tuple[Any, ...] | None:
        """Return the response levels in their declared order, if all rows declare the same order and it contains all levels; else None."""
        if self.parts.counted:
            return self.parts.classes
        name = self.parts.outcome[0].column
        if (
            name is None
            or kind_of(self.first.columns[name]) != "levels"
            or not self.files.declared_order(name)
        ):
            return None
        order = declared_order(orders, levels)
        return None if order is None else OrderedLevels(order)


def plan(
    formula: str | Mapping[str, str],
    files: Tables,
    *,
    weights: Any,
    offset: Any,
    missing: Missing,
    kind: WeightKind = "frequency",
    classes: bool = False,
) -> Plan:
    """Read the formulas against the columns of the files and their first rows; the response may be one of `classes`.

    DataError for missing columns.
    """
    for word, value in (("weights", weights), ("offset", offset)):
        if value is not None and not isinstance(value, str):
            type_name = type(value).__name__
            raise DataError(
                f"{word}= is a column's name{' or an expression' * (word == 'offset')} in the files, got {type_name}"
            )
    check_missing(missing)
    header = DataTable(dict.fromkeys(files.names()), np.arange(0))
    formulas = parse_formulas(formula, header, weights, offset)
    names = formulas.names
    parts = formulas.first.parts
    offsets = (parsed.added for parsed in formulas.by_prefix.values())
    added = [expression for expression in offsets if expression is not None]
    if any(part.learns for part in (*parts.outcome, *added)):
        raise DataError(
            "a response or an offset that learns from the rows, such as center(y), is not read by the block"
        )
    factors = formulas.every_factor.values()
    if isinstance(files, Files):
        labels = {e.category for e in factors if e.coding_call is not None}
        labels |= {name for bar in formulas.bars for name in bar.group}
        labels |= {name for e in factors if e.names_labels for name in e.variables}
        if classes and len(parts.outcome) == 1:
            labels.add(parts.outcome[0].column)
        files = replace(files, labels=tuple(name for name in labels if name))
    elif missing == "drop":
        required = tuple(name for name in names if name not in parts.end_columns)
        files = replace(files, required=required)
    first = _first(files, names)
    if not len(first.rows):
        raise DataError(
            f"{files.name} holds no rows: a model needs at least one row of data"
        )
    kinds = {name: kind_of(values) for name, values in first.columns.items()}
    require_response(parts, first)
    computed = [e for e in (*factors, *parts.outcome) if e.column is None]
    computed += added
    numbers = [name for e in computed for name in e.numeric_columns]
    if weights:
        numbers.append(weights)
    for name in numbers:
        if kinds[name] in ("text", "levels"):
            raise _no_numbers(files, name)
    selection = Selection(names, missing, kinds, parts, weights)
    return Plan(formulas, files, selection, first, kind)


def _find_cell(
    batches: Generator[Batch], name: str, is_wanted: Callable[[Any], bool]
) -> tuple[Any, str] | None:
    """Return the first wanted value of a column, and its row and file; None if there is none."""
    with closing(batches):
        for batch in batches:
            values = np.asarray(batch.table.columns[name], dtype=object)
            for row, value in zip(batch.table.rows, values):
                if is_wanted(value):
                    return value, f"row {row} of {batch.file}"
    return None


def _no_numbers(files: Tables, name: str) -> DataError:
    """Return the error for a text column where numbers are needed; it names the first cell that is not a number."""

    def is_no_number(value: Any) -> bool:
        return isinstance(value, str) and not reads_as_number(value)

    cell = _find_cell(files.batches([name]), name, is_no_number)
    if cell is None:
        return DataError(
            f"column {name!r} of {files.name} is computed with and holds text: make it numbers"
        )
    value, place = cell
    return DataError(
        f"column {name!r} is computed with and holds text: {value!r} in {place} is no number. Correct the cell"
    )


def _first(files: Tables, names: tuple[str, ...]) -> DataTable:
    """Return the first rows; a column that is missing in all of them comes from the first batch with a value in it."""
    rows = np.arange(0)
    columns = dict[str, Any]()
    shown = set[str]()
    with closing(files.batches(names)) as batches:
        for table in (batch.table for batch in batches if batch.rows):
            if not len(rows):
                rows = table.rows
            for name, values in table.columns.items():
                if name not in shown and not missing_values(values).all():
                    shown.add(name)
                    columns[name] = values
                columns.setdefault(name, values)
            if len(shown) == len(names):
                break
    return DataTable(columns, rows)


def learn_recipe(plan: Plan, parts: Parts) -> tuple[Recipe, Selection, tuple[str, ...]]:
    """Return the recipe, the selection (with the numbers of the parts' first rows if they were counted), and notes on the learning.

    Makes one pass over the rows if there is anything to learn, and before it a pass that counts the rows of several parts.
    """
    selection = plan.selection
    if not (plan.factors or plan.learning_terms or plan.formulas.bars):
        return _plain_recipe(plan), selection, plan.formulas.notes
    if plan.learning_terms and isinstance(parts, Partitions):
        counted = pass_over(
            parts, selection, lambda part: Counter({part.number: part.rows}), add
        ).total
        counts = counted or Counter()
        sizes = (counts[k] for k in range(len(parts.parts) - 1))
        selection = replace(selection, starts=tuple(accumulate(sizes, initial=0)))
    variables = (plan.formulas.every_factor[t].variables for t in plan.learning_terms)
    fn = partial(
        scan_table,
        plan.factors,
        dict.fromkeys(name for names in variables for name in names),
        dict.fromkeys(bar.group for bar in plan.formulas.bars),
    )
    scan = pass_over(parts, selection, fn, iadd).total
    recipe, notes = _recipe_of_scan(plan, scan)
    return recipe, selection, notes


def _recipe_of_scan(plan: Plan, scan: "Scan | None") -> tuple[Recipe, tuple[str, ...]]:
    """Return the recipe that follows from one pass over all rows, and notes on how it was learned."""
    if scan is None:
        raise _none_complete(plan.files)
    for text, factor in plan.factors.items():
        present = list(scan.levels[text].values)
        if factor.coding_call is None and all(isinstance(v, str) for v in present):
            refuse_malformed_numbers(
                text, present, scan.rows, partial(_place_of, plan, text)
            )
    levels = {
        text: scan.training_levels(text, _is_ordered(plan, factor))
        for text, factor in plan.factors.items()
    }
    ordered = {
        name: plan.files.declared_order(name) for group in scan.groups for name in group
    }
    groups = {group: scan.group_levels(group, ordered) for group in scan.groups}
    recipe = _recipe(
        plan, scan.sample(), Memory(levels=levels | plan.truths, groups=groups)
    )
    notes = (note for term in recipe.processes.values() for note in term.notes)
    return recipe, (*plan.formulas.notes, *_notes(plan, scan, levels, groups), *notes)


def _place_of(plan: Plan, text: str, level: Any) -> str:
    """Return the row and file of the first occurrence of a level; "" if the rows are not in this process."""
    name = plan.formulas.every_factor[text].category or text
    batches = plan.selection(0, plan.files, Tally())
    cell = _find_cell(batches, name, lambda value: value == level)
    return "" if cell is None else f" in {cell[1]}"


def _plain_recipe(plan: Plan) -> Recipe:
    """Return the recipe of terms that learn nothing, which needs only some complete rows."""
    with closing(plan.selection(0, plan.files, Tally())) as batches:
        batch = next(batches, None)
    if batch is None:
        raise _none_complete(plan.files)
    few_rows = batch.table.part(slice(2))
    return _recipe(plan, few_rows, Memory(levels=dict(plan.truths)))


def _none_complete(files: Tables) -> DataError:
    return DataError(
        f"{files.name} holds no rows that count: none is complete and has a weight above 0"
    )


def _recipe(plan: Plan, table: DataTable, memory: Memory) -> Recipe:
    name = plan.selection.weights
    if name is not None and plan.kind == "frequency":
        weights = table.columns[name]
        counts = row_weights(weights, name=name, kind=plan.kind, table=table)
        table = replace(table, counts=counts)
    table = replace(table, streamed=True)
    recipes = {}
    for prefix, parsed in plan.formulas.by_prefix.items():
        factors = parsed.parts.every_factor
        levels = {text: v for text, v in memory.levels.items() if text in factors}
        own = Memory(levels=levels, groups=memory.groups)
        with np.errstate(all="ignore"):
            columns = make_columns(parsed.parts, table, own, lazy=True)[1]
        recipes[prefix] = parsed.recipe(columns, own, None if prefix else name)
    return ParameterRecipe.of(recipes) if len(recipes) > 1 else recipes[""]


def _is_ordered(plan: Plan, factor: Expression) -> bool:
    name = factor.category
    return name is not None and plan.files.declared_order(name)


def _notes(
    plan: Plan,
    scan: "Scan",
    levels: Mapping[str, list[Level]],
    groups: Mapping[Group, Group],
) -> Iterator[str]:
    sizes = {text: len(listed) for text, listed in levels.items()}
    sizes |= {":".join(group): len(listed) for group, listed in groups.items()}
    if sizes:
        listed = ", ".join(f"{text} ({size})" for text, size in sizes.items())
        yield f"levels were collected over all {scan.rows} rows: {listed}"
    for text, of_factor in levels.items():
        if all(isinstance(v, str) for v in of_factor):
            declared = scan.factors[text].column is None
            yield from filter(
                None, [numbers_as_text(text, of_factor, declared=declared)]
            )
    if plan.learning_terms and scan.rows > SAMPLE:
        yield (
            f"{', '.join(plan.learning_terms)} learned what they keep (means, knots, ...) from {scan.spaced.size} evenly spaced rows of "
            f"{scan.rows}, and from the rows of the least and greatest values"
        )


@dataclass(eq=False)
class Levels:
    """The levels of a column in the order of their appearance, and the orders that its blocks declare."""

    values: dict[Any, None]
    orders: Orders

    @classmethod
    def of(cls, column: Any) -> "Levels":
        """Return the levels of some rows."""
        import pandas as pd

        order = None
        if isinstance(column, np.ndarray):
            present = pd.unique(column)
        else:
            present = np.asarray(column.remove_unused_categories().categories)
            order = tuple(map(plain_level, column.categories))
        return cls(dict.fromkeys(map(plain_level, present)), {order})

    def in_order(self, ordered: bool) -> Any:
        """Return the levels as an array, or as a categorical where all blocks declare the same order and it counts."""
        import pandas as pd

        levels: Any = np.array(list(self.values), dtype=object)
        declared = declared_order(self.orders, levels) if ordered else None
        if declared is None:
            return levels
        return pd.Categorical(levels, categories=list(declared))


@dataclass(eq=False)
class Scan:
    """Results of a pass over raw rows: levels of factors, groups, evenly spaced rows, and rows of extreme values.

    `levels` contains the levels of factors, by their text, and of grouping columns, by name. `groups` contains the combinations
    of levels of each term. `extremes` contains the least (-1) and greatest (1) values of columns, times this sign, with their rows.
    """

    factors: Mapping[str, Expression]
    rows: int
    levels: dict[str, Levels]
    groups: dict[Group, dict[tuple[str, ...], None]]
    spaced: EvenSample
    extremes: dict[tuple[str, int], tuple[float, int, DataTable]]

    def __iadd__(self, other: "Scan") -> Self:
        """Add the results of the rows after these."""
        self.rows += other.rows
        self.spaced += other.spaced
        for text, new in other.levels.items():
            levels = self.levels[text]
            levels.values |= new.values
            if len(levels.orders) < 2:  # two orders that differ rule out a common one
                levels.orders |= new.orders
        for group, combinations in other.groups.items():
            self.groups[group] |= combinations
        for key, extreme in other.extremes.items():
            old = self.extremes.get(key, extreme)
            self.extremes[key] = max(old, extreme, key=itemgetter(0))
        self.refuse_many()
        return self

    def refuse_many(self) -> None:
        """Raise DataError for a factor or a group of too many levels."""
        max_levels = 10_000  # of one column: each is a column of X
        max_groups = 1_000_000  # groups of one term
        for text in self.factors:
            levels = self.levels[text].values
            if len(levels) > max_levels:
                raise DataError(
                    f"{text!r} has more than {max_levels} levels ({', '.join(map(repr, list(levels)[:3]))} ...), one column of X for "
                    f"each. If it names the rows, leave it out, as in '. - {text}'; did you mean numbers, or a coarser grouping?"
                )
        for group, combinations in self.groups.items():
            if len(combinations) > max_groups:
                raise DataError(
                    f"{':'.join(group)} has more than {max_groups:,} levels, such as {', '.join(map(':'.join, list(combinations)[:3]))}; groups "
                    "are what several rows share"
                )

    def sample(self) -> DataTable:
        """Return the evenly spaced rows, and the rows of extreme values that are not among them."""
        import pandas as pd

        have = {number for index, _ in self.spaced.parts for number in index.tolist()}
        parts = [t for _, t in self.spaced.parts]
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

    def training_levels(self, text: str, ordered: bool) -> list[Level]:
        """Return the levels of a factor over all rows, in the same order as for a table in memory."""
        rows: Any = range(self.rows)
        column = self.levels[text].in_order(ordered)
        return training_levels(text, self.factors[text], column, DataTable({}, rows))

    def group_levels(self, group: Group, ordered: Mapping[str, bool]) -> Group:
        """Return the groups of all rows, in the same order as for a table in memory. `ordered` marks columns with an order."""
        levels = []
        for name in group:
            column = self.levels[name].in_order(ordered[name])
            if len(column) == self.rows and any(isinstance(v, float) for v in column):
                raise different_in_every_row(name, column[0], 0, self.rows)
            levels.append(tuple(map(str, factor_levels(name, column))))
        return in_order(set(self.groups[group]), levels)


def scan_table(
    factors: Mapping[str, Expression], inputs: Iterable[str], groups: Iterable[Group], part: Batch
) -> Scan:  # fmt: skip
    """Return the levels of the factors and groups, the extreme values of the `inputs` of transforms and evenly spaced rows of a table."""
    table = part.table
    columns = {text: level_column(e, table, Memory()) for text, e in factors.items()}
    # other kinds of grouping columns raise an error with their combinations
    columns |= {
        name: table.columns[name]
        for group in groups
        for name in group
        if kind_of(table.columns[name]) != "other"
    }
    extremes = {}
    for name in inputs:
        values = table.columns[name]
        if kind_of(values) in ("number", "truth"):
            for sign, i in ((-1, int(np.argmin(values))), (1, int(np.argmax(values)))):
                row = _without_codes(table.part(np.array([i])))
                # a float, because -1 times an unsigned or 8-bit number overflows
                extremes[name, sign] = (sign * float(values[i]), part.start + i, row)
    spaced = EvenSample.of(part.start, part.rows, table)
    parts = tuple((i, _without_codes(rows)) for i, rows in spaced.parts)
    scan = Scan(
        factors,
        part.rows,
        {key: Levels.of(column) for key, column in columns.items()},
        {g: dict.fromkeys(observed_combinations(g, table)) for g in groups},
        replace(spaced, parts=parts),
        extremes,
    )
    scan.refuse_many()
    return scan


def _without_codes(table: DataTable) -> DataTable:
    """Return rows with the values of categories, because codes keep all categories of their batch."""
    columns = {
        name: values
        if isinstance(values, np.ndarray)
        else np.asarray(values, dtype=object)
        for name, values in table.columns.items()
    }
    return DataTable(columns, table.rows)
