"""Convert a formula such as `y ~ x1 + bs(x2, df=4)` and a table to a matrix and a recipe for its columns."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from functools import cached_property
from itertools import chain
from typing import Any, NamedTuple

import numpy as np

from probreg.arguments.arrays import category_levels, reads_as_number
from probreg.data.blocks.block import by_kind
from probreg.data.checked_arrays import (
    Missing,
    check_intercept,
    check_missing,
    complete,
    one_per_row,
    refuse_infinite,
    require,
    row_weights,
    rows_that_count,
    weights_without_empty_trials,
)
from probreg.data.design import AbsentRows, Design
from probreg.data.formula.columns import DataTable, kind_of, read_table
from probreg.data.formula.evaluate import Memory
from probreg.data.formula.layout import (
    factor_levels,
    numeric,
)
from probreg.data.formula.parameters import (
    ParameterRecipe,
    split_formulas,
    stack_offsets,
)
from probreg.data.formula.recipe import (
    Recipe,
    make_columns,
    response_values,
    rows_with_trials,
)
from probreg.data.implicit_columns import contiguous
from probreg.data.weights import read_weights
from probreg.errors import DataError
from probreg.formula.expression import Expression, parse_expression
from probreg.formula.terms import (
    Bar,
    Counted,
    FormulaLayout,
    expand,
    has_dot,
    joined_offsets,
    parse_formula,
    taken_columns,
)
from probreg.formula.text import quote_name, shown_formula
from probreg.system.terminal import shorten_names

ROW_NAMES = ("", "Unnamed: 0")  # R writes them without a name; pandas adds the second


class Reading(NamedTuple):
    """A formula read at a data set: the design without its response, and the response in its original values with its declared levels.

    With `p(s, t)` the response is successes and trials (n, 2), with `counts(a, b, c)` counts (n, 3) named by `levels`: `counted` gives
    the kind.
    """

    design: Design
    response: np.ndarray
    levels: tuple[Any, ...] | None
    counted: Counted | None


def read_formula(
    formula: str | Mapping[str, str],
    data: Any,
    *,
    weights: Any = None,
    offset: Any = None,
    missing: Missing = "raise",
) -> Reading:
    """Read a formula at a table: the matrix of its terms, its response, and the recipe for new rows.

    The right side takes + - : * / ** and `.` (all other columns); text and categories get treatment contrasts
    against their first level, as do truth values with first level False; whole numbers are numeric. `weights` is a column name
    or an array (n,), or one of these with its kind (`probreg.data.weights`); `offset` an expression such as "log(exposure)" or an array (n,). Levels without rows get
    no column.

    Raises DataError with the term, column, row and value of invalid data.

    >>> data = {"y": [1.0, 2.0, None], "dose": [1.0, 10.0, 100.0]}
    >>> reading = read_formula("y ~ np.log10(dose)", data, missing="drop")
    >>> reading.design.X, reading.response
    (array([[1., 0.],
           [1., 1.]]), array([1., 2.]))
    """
    kind, weights = read_weights(weights)
    table = read_table(data)
    formulas = parse_formulas(formula, table, weights, offset)
    first = formulas.first
    parts = first.parts
    added = first.added
    table, names = _with_arguments(table, formulas.names, weights, first.offset)
    weight = weights if isinstance(weights, str) else names.get("weights")
    if "offset" in names:
        added = parse_expression(quote_name(names["offset"]))
    check_missing(missing)
    all_rows = table
    notes: tuple[str, ...] = ()
    if missing == "drop":
        all_rows, notes = complete(table, missing, parts.end_columns)
    counted = rows_that_count(all_rows, weight, parts.count_columns)
    counted |= not counted.any()
    table = all_rows if counted.all() else all_rows.part(counted)
    table = complete(table, missing, parts.end_columns)[0]
    refuse_infinite(table.without_ends(parts.end_columns))
    has_trials = rows_with_trials(parts, table)
    if has_trials.any() and not has_trials.all():
        counted[counted] = has_trials
        table = table.part(has_trials)
    w = None
    if weight is not None:
        w = row_weights(
            table.columns[weight], name=weight, kind=kind, table=table, may_vanish=False
        )
    if w is not None and kind == "frequency" and w.max() > 1:
        table = replace(table, counts=w)
    recipe, X, inputs = _learn_recipe(first, table, weights)
    response = response_values(parts, table, recipe.memory)
    eta = None if added is None else numeric(added, table, recipe.memory)
    others = {
        prefix: _learn_recipe(parsed, table)[0]
        for prefix, parsed in formulas.by_prefix.items()
        if prefix
    }
    if others:
        recipe = ParameterRecipe.of({"": recipe, **others})
        X, inputs = recipe.read(table.columns)
    offsets = [eta, *(other.offset_at(table.columns) for other in others.values())]
    absent = None
    if not counted.all():
        absent = AbsentRows(np.flatnonzero(~counted), all_rows.rows[~counted])
        notes = (*notes, absent.note(len(table.rows)))
    w = weights_without_empty_trials(response, parts.counted, w)
    frequencies, precision = by_kind(kind, w)
    design = Design(
        X=contiguous(X),
        y=None,
        columns=recipe.columns,
        recipe=recipe,
        response=parts.title,
        offset=stack_offsets(offsets),
        weights=frequencies,
        labels=table.rows,
        notes=(
            *notes,
            *_reading_notes(table, formulas),
            *(note for t in recipe.processes.values() for note in t.notes),
        ),
        precision=precision,
        weight_kind=kind,
        absent=absent,
        inputs=inputs,
        read=table.only(recipe.all_variables).columns,
    )
    levels = parts.classes
    if not isinstance(response, np.ndarray):
        levels = category_levels(response)
    return Reading(design, np.asarray(response), levels, parts.counted)


def _learn_recipe(
    parsed: "ParsedFormula", table: DataTable, weights: Any = None
) -> tuple[Recipe, Any, dict[str, np.ndarray]]:
    """Return the recipe of a formula that learns its state from the rows of a table, its columns (n, p) and the inputs of its terms."""
    memory = Memory()
    X, columns, inputs = make_columns(parsed.parts, table, memory, codes=True)
    check_intercept(X, columns)
    return parsed.recipe(columns, memory, weights), X, inputs


class ParsedFormula(NamedTuple):
    """The parts of a formula with its offset: an expression (`added` if it is one) or an array, and the columns that it uses."""

    parts: FormulaLayout
    offset: Any
    added: Expression | None
    names: tuple[str, ...]

    def recipe(self, columns: tuple[str, ...], memory: Memory, weights: Any) -> Recipe:
        """Return the recipe of these columns with the states that `memory` has learned; it has no arrays of weights and offsets."""
        return Recipe(
            self.parts.text,
            columns,
            self.offset if isinstance(self.offset, str) else None,
            replace(memory, learning=False),
            weights if isinstance(weights, str) else None,
        )


@dataclass(frozen=True)
class ParsedFormulas:
    """The formulas of all linear predictors by the prefix of their columns; the first has the response and an empty prefix."""

    by_prefix: Mapping[str, ParsedFormula]

    @property
    def first(self) -> ParsedFormula:
        """The formula with the response."""
        return self.by_prefix[""]

    @property
    def names(self) -> tuple[str, ...]:
        """The columns that they use, in order of appearance."""
        every = (parsed.names for parsed in self.by_prefix.values())
        return tuple(dict.fromkeys(chain(*every)))

    @property
    def layouts(self) -> list[FormulaLayout]:
        """The parts of each formula."""
        return [parsed.parts for parsed in self.by_prefix.values()]

    @property
    def bars(self) -> list[Bar]:
        """The effects that vary by a group."""
        return [bar for layout in self.layouts for bar in layout.bars]

    @cached_property
    def every_factor(self) -> dict[str, Expression]:
        """The factors by their text."""
        return {t: e for layout in self.layouts for t, e in layout.every_factor.items()}

    @property
    def notes(self) -> tuple[str, ...]:
        """The notes, each once."""
        return tuple(dict.fromkeys(chain(*(layout.notes for layout in self.layouts))))


def parse_formulas(
    formula: str | Mapping[str, str], table: DataTable, weights: Any, offset: Any
) -> ParsedFormulas:
    """Parse the formulas of all linear predictors; `offset` is the offset of the first."""
    first, others = split_formulas(formula)
    formulas = {"": parse_with(first, table, weights, offset)} | {
        f"{name}: ": parse_with(text, table, weights, None)
        for name, text in others.items()
    }
    for parsed in formulas.values():
        if parsed.parts.offset is not None and not isinstance(offset, str | None):
            # new rows would have one of them only
            raise DataError(
                f"the formula has offset({parsed.parts.offset}), and offset= is an array: make the array a column and write both as offsets of columns"
            )
    return ParsedFormulas(formulas)


def parse_with(
    formula: str, table: DataTable, weights: Any, offset: Any
) -> ParsedFormula:
    """Parse a formula with its `.` written out; DataError for columns that the table lacks.

    An error suggests backquotes for names with spaces.
    """
    try:
        parts = parse_formula(_written_out(formula, table, weights, offset))
    except DataError as error:
        # a column name of several words, without backquotes
        bare = [name for name in table.columns if " " in name and name in str(formula)]
        if not bare or any(quote_name(name) in formula for name in bare):
            raise
        raise DataError(
            f"{error}; write {quote_name(max(bare, key=len))} in backquotes"
        ) from None
    if has_dot(formula):
        notes = [
            f"'.' leaves out the column {name or 'without a name'}, such as the row names in a file of R"
            for name in ROW_NAMES
            if name in table.columns
        ]
        parts = replace(parts, notes=(*parts.notes, *notes))
    if parts.offset is not None and isinstance(offset, str | None):
        offset = joined_offsets(parts.offset, offset)
    names = [*parts.outcome_variables, *parts.variables]
    added = None
    if isinstance(offset, str):
        added = parse_expression(offset)
        names += added.variables
    if isinstance(weights, str):
        names += [weights]
    require(table, names)
    return ParsedFormula(parts, offset, added, tuple(dict.fromkeys(names)))


def _written_out(formula: str, table: DataTable, weights: Any, offset: Any) -> str:
    """Return the formula with `.` replaced by the columns that are not response, weights, offset or grouping factors and have a name."""
    if not has_dot(formula):
        return formula
    taken = taken_columns(formula) | {*ROW_NAMES}
    if isinstance(weights, str):
        taken.add(weights)
    if isinstance(offset, str):
        taken.update(parse_expression(offset).variables)
    names = tuple(name for name in table.columns if name not in taken)
    if not names:
        raise DataError(
            f"'.' in {shown_formula(formula)} stands for all other columns, and there are none"
        )
    return expand(formula, names)


def _with_arguments(
    table: DataTable, used: tuple[str, ...], weights: Any, offset: Any
) -> tuple[DataTable, dict[str, str]]:
    """Return the used columns together with weights and offset given as arrays, and the names of these two."""
    arrays = {"weights": weights, "offset": offset}
    names = dict[str, str]()
    columns = dict(table.only(used).columns)
    for word, values in arrays.items():
        if values is None or isinstance(values, str):
            continue
        names[word] = f"{word}="
        while names[word] in columns:
            names[word] += "="
        columns[names[word]] = one_per_row(word, values, len(table.rows))
    return DataTable(columns, table.rows), names


def _reading_notes(table: DataTable, formulas: ParsedFormulas) -> tuple[str, ...]:
    notes = [*formulas.notes]
    if not isinstance(formulas.first.offset, str | None):
        notes.append(
            "the offset was given as an array: predictions at new rows need an offset of their own"
        )
    factors = formulas.every_factor.values()
    plain = {factor.column for factor in factors}  # those without C(...)
    for name in dict.fromkeys(chain(*(factor.variables for factor in factors))):
        column = table.columns[name]
        if kind_of(column) == "text":
            notes.append(
                numbers_as_text(
                    name, factor_levels(name, column), declared=name not in plain
                )
            )
    variables = chain(*(layout.variables for layout in formulas.layouts))
    outcome = formulas.first.parts.outcome_variables
    for name in dict.fromkeys((*variables, *outcome)):
        column = table.columns[name]
        if kind_of(column) != "levels":
            continue
        present = set(column.unique())
        unused = [str(level) for level in column.categories if level not in present]
        if unused:
            notes.append(
                f"column {name!r} has levels without rows, left out: {', '.join(unused)}"
            )
    return tuple(filter(None, notes))


def numbers_as_text(name: str, levels: Sequence[Any], *, declared: bool = False) -> str:
    """Return the note on a text column with all or most levels numeric; else "".

    If the column is `declared` a factor, only a column with all levels numeric gets a note.

    >>> numbers_as_text("w", ["1", "2", "3", "?"])
    "column 'w' is text and is read as categories, although all of its 4 values but '?' are numbers"
    """
    odd = [level for level in levels if not reads_as_number(level)]
    start = f"column {name!r} is text and is read as categories, although"
    if not odd:
        return f"{start} every value is a number"
    if declared or len(levels) < 3 or 2 * len(odd) >= len(levels):
        return ""
    few = shorten_names(map(repr, odd), 3)
    return f"{start} all of its {len(levels)} values but {few} are numbers"
