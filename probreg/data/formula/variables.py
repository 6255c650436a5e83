"""The variables behind the columns: what a formula read, which its design keeps by reference.

A file that was saved with its rows holds those that its columns do not tell; the others are read back from the matrix.
"""

import re
from collections.abc import Sequence
from typing import Any

import numpy as np

from probreg.data.array_columns import ArrayColumns
from probreg.data.design import Design
from probreg.data.formula.recipe import Recipe
from probreg.data.unwritten import all_close
from probreg.errors import DataError

Array = np.ndarray


def variables(
    design: Design, data: Any = None, also: Sequence[str] = ()
) -> dict[str, Any]:
    """The variables behind the columns, at the rows of the design, and with `data` the columns `also` named.

    `data` is the table that the model was fitted to. DataError when the rows are gone, when a variable is neither kept nor
    can be read back and `data` is None, and for data that are not the rows of the model.
    """
    design.need_rows("a curve or an average over the model's own data")
    if isinstance(design.recipe, ArrayColumns):
        plain = design.recipe.read_back(design)
        more = [name for name in also if name not in plain]
        return plain | (
            rows_of(design, data, more) if more and data is not None else {}
        )
    if data is None:
        return _read_back(design)
    return rows_of(
        design, data, [*read_by(design), *(v for v in also if v not in read_by(design))]
    )


def read_by(design: Design) -> tuple[str, ...]:
    """The variables that the columns and the offset of a design read.

    >>> from probreg.data import from_arrays
    >>> read_by(from_arrays([[1.0], [2.0]], columns=["x"], intercept=True, response="y"))
    ('x',)
    """
    from probreg.formula.expression import parse_expression

    if isinstance(design.recipe, ArrayColumns):
        return design.recipe.given
    recipe: Any = design.recipe
    if recipe.offset:
        added = parse_expression(recipe.offset).variables
    else:
        added = ()
    return tuple(dict.fromkeys((*recipe.variables, *added)))


def categories(design: Design) -> dict[str, list[Any]]:
    """The levels seen in training of each variable that the formula takes as a category, in `by=` too."""
    from probreg.formula.expression import parse_expression
    from probreg.formula.terms import parse_formula

    if isinstance(design.recipe, ArrayColumns):
        return {}
    recipe: Any = design.recipe
    found: dict[str, list[Any]] = {}
    for text, levels in recipe.state["levels"].items():
        name = parse_expression(text).category
        if name is not None:
            found.setdefault(name, list(levels))
    if recipe.smooths:
        for e in parse_formula(recipe.formula).factors.values():
            if e.by is not None and (levels := recipe.smooths[e.written()].levels):
                found.setdefault(e.by, list(levels))
    return found


def grouping_levels(design: Design) -> dict[str, tuple[str, ...]]:
    """The levels seen in training, as text, of each column whose levels are groups of varying effects.

    >>> from probreg import Model
    >>> data = {"y": [1.0, 2.0, 4.0, 3.0], "g": ["a", "b", "c", "a"]}
    >>> grouping_levels(Model.from_formula("y ~ 1 + (1 | g)", data).design)
    {'g': ('a', 'b', 'c')}
    """
    return {
        name: met
        for term in design.recipe.grouped.values()
        for name, met in term.levels_by_column().items()
    }


def rows_of(design: Design, data: Any, names: Sequence[str]) -> dict[str, Any]:
    """The named columns of the table that was given, at the rows that the design kept."""
    from probreg.data.formula.columns import read_table

    table = read_table(data)
    absent = [name for name in names if name not in table.columns]
    if absent:
        raise DataError(
            f"the data have no column {absent[0]!r}, which is asked for; they have: {', '.join(table.columns)}"
        )
    place = {row: i for i, row in enumerate(table.rows.tolist())}
    if design.labels is None:
        labels = table.rows
    else:
        labels = design.labels
    if len(place) < len(table.rows) and len(table.rows) == design.n:
        where = np.arange(design.n)
    else:
        where = np.array([place.get(row, -1) for row in np.asarray(labels).tolist()])
    if len(where) != design.n or (where < 0).any():
        raise DataError("these data are not the rows that the model was fitted to")
    return dict(table.only(tuple(names)).take(where).columns)


def read_at(design: Design, data: Any) -> dict[str, Any]:
    """What the columns and the offset of a design read of new rows, all of which a table holds; nothing for arrays."""
    from probreg.data.formula.columns import read_table

    if isinstance(design.recipe, ArrayColumns):
        return {}
    table = read_table(data)
    return dict(
        table.only(
            tuple(name for name in read_by(design) if name in table.columns)
        ).columns
    )


def read_of(design: Design) -> dict[str, Any]:
    """The variables that a design keeps and its columns do not tell, for a file."""
    recipe: Any = design.recipe
    if isinstance(recipe, ArrayColumns):
        own = ()
    else:
        own = recipe.variables
    return {
        k: v
        for k, v in design.read.items()
        if k not in own or _from_columns(design, k) is None
    }


def _read_back(design: Design) -> dict[str, Any]:
    """The variables that the design keeps, and others from its columns; checked by making the matrix again."""
    recipe: Any = design.recipe
    table: dict[str, Any] = {}
    for name in read_by(design):
        if name in design.read:
            found = design.read[name]
        else:
            found = _from_columns(design, name)
        if found is not None:
            table[name] = found
        elif name in recipe.variables:
            raise DataError(
                f"the variable {name!r} cannot be read back from the columns of the model; pass data=, the table it was fitted to"
            )
    if table and not all_close(recipe.matrix(table), design.X):
        raise DataError(
            "the variables do not make the columns of the model: its table was changed since; pass data=, as it was"
        )
    return table


def _from_columns(design: Design, name: str) -> Any:
    """A number that is a column, a category from its 0/1 columns, what enters a smooth function; None where they do not tell."""
    if name in design.columns:
        return design.X[:, design.columns.index(name)]
    found = _levels_from_indicators(design, name)
    return _input(design, name) if found is None else found


def _input(design: Design, name: str) -> Array | None:
    """A variable that enters a smooth function or a process as it stands, or multiplies smooth functions (`by=`)."""
    from probreg.formula.terms import parse_formula
    from probreg.formula.text import column_written

    recipe: Any = design.recipe
    written = column_written(name)
    for key, names in recipe.entering.items():
        if written in names and key in design.inputs:
            return design.inputs[key][:, names.index(written)]
    by = [
        e.written()
        for e in parse_formula(recipe.formula).factors.values()
        if e.by == name
    ]
    return _multiplier(design, by[0]) if by else None


def _multiplier(design: Design, key: str) -> Array | None:
    """What multiplies the smooth functions of a term: numbers, or the level of which the columns are not zero."""
    term = next(t for t in design.recipe.terms if t.name == key)
    if not set(term.columns) <= set(design.columns):
        return None
    number = {name: j for j, name in enumerate(design.columns)}
    if not term.levels:
        return design.X[:, number[term.flat[0]]]
    met = np.stack(
        [
            (design.X[:, [number[c] for c in f.columns]] != 0).any(1)
            for f in term.functions
        ],
        1,
    )
    return np.array(term.levels, dtype=object)[met.argmax(1)]


def _levels_from_indicators(design: Design, name: str) -> Array | None:
    """A category from its indicator columns; the level without one holds where all are zero."""
    from probreg.formula.expression import parse_expression

    recipe: Any = design.recipe
    for text, levels in recipe.state["levels"].items():
        if parse_expression(text).category != name:
            continue
        where = [_indicator(design, text, level) for level in levels]
        if where.count(None) > 1:
            continue
        shown = np.stack(
            [np.zeros(design.n) if j is None else design.X[:, j] for j in where], 1
        )
        if None in where:
            base = where.index(None)
            shown[:, base] = 1.0 - shown.sum(1)
        values = np.empty(len(levels), dtype=object)
        values[:] = levels
        return values[shown.argmax(1)]
    return None


def _indicator(design: Design, text: str, level: Any) -> int | None:
    names = (f"{text}[T.{level}]", f"{text}[{level}]")
    return next((design.columns.index(c) for c in names if c in design.columns), None)


def terms(design: Design) -> dict[str, tuple[int, ...]]:
    """The columns of each term of the formula, in order; in a design from arrays a process, and each other column, is a term.

    >>> from probreg import Model
    >>> data = {"y": [1.0, 2.0, 4.0, 3.0], "x": [1.0, 2.0, 6.0, 0.0], "g": ["a", "b", "c", "a"]}
    >>> terms(Model.from_formula("y ~ x + g", data).design)
    {'Intercept': (0,), 'x': (1,), 'g': (2, 3)}
    """
    out = dict[str, list[int]]()
    if not isinstance(design.recipe, Recipe):
        of = {c: t.name for t in design.recipe.terms for c in t.columns}
        for j, column in enumerate(design.columns):
            out.setdefault(of.get(column, column), []).append(j)
        return {name: tuple(places) for name, places in out.items()}
    from probreg.formula.terms import parse_formula

    parts = parse_formula(design.recipe.formula)
    wanted = [[parts.called(text) for text in term] for term in parts.terms]
    grouped = {
        c: key for key, term in design.recipe.grouped.items() for c in term.columns
    }
    for j, column in enumerate(design.columns):
        out.setdefault(grouped.get(column) or _term_of(column, wanted), []).append(j)
    return {name: tuple(places) for name, places in out.items()}


def _term_of(column: str, wanted: Sequence[Sequence[str]]) -> str:
    """The term that a column is of: that of exactly its name, or else of most factors, each with its level or part in brackets.

    A level may have brackets and colons of its own, so that `g[T.b]:h[T.c]` could be one of `g` as well as of `g:h`. An interaction
    without its main effects has columns of some of its factors too.
    """
    met = [term for term in wanted if column == ":".join(term)]
    met = met or [
        term
        for term in wanted
        if re.fullmatch(":".join(map(_with_level, term)), column)
    ]
    met = met or [
        t
        for t in wanted
        if len(t) > 1
        and re.fullmatch("".join(f"({_with_level(f)}:)?" for f in t), f"{column}:")
    ]
    best: Sequence[str] = max(met, key=len, default=[column])
    return ":".join(best)


def _with_level(factor: str) -> str:
    """A pattern of a factor as columns have it."""
    return re.escape(factor) + r"(\[.*\])?"
