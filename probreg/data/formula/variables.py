"""The variables of a formula, which its design keeps by reference.

A file that was saved with its rows contains them.
"""

import re
from collections.abc import Iterable, Iterator, Sequence
from typing import Any

import numpy as np

from probreg.data.array_columns import ArrayColumns
from probreg.data.design import Design
from probreg.data.formula.columns import read_table
from probreg.data.implicit_columns import all_close
from probreg.data.rows import require
from probreg.errors import DataError

Array = np.ndarray


def variables(
    design: Design, data: Any = None, also: Sequence[str] = ()
) -> dict[str, Any]:
    """Return the variables of the columns at the rows of the design, and, with `data`, the columns named in `also`.

    `data` is the table that the model was fitted to. DataError when the rows are gone, when a variable is not kept and `data`
    is None, and for data that are not the rows of the model or have other values.
    """
    design.need_rows("a curve or an average over the model's own data")
    if data is None:
        if isinstance(design.recipe, ArrayColumns):
            return design.recipe.read_back(design)
        return _read_back(design)
    names = dict.fromkeys([*design.recipe.all_variables, *also])
    table = rows_of(design, data, names)
    if table and not all_close(design.recipe.matrix(table), design.X):
        raise DataError(
            "data= is not the table of the fit: its variables do not make the columns of the model"
        )
    return table


def categories(design: Design) -> dict[str, list[Any]]:
    """Return the levels seen in training of each variable used as a category, including `by=`."""
    from probreg.formula.expression import parse_expression

    levels_by_variable: dict[str, list[Any]] = {}
    for part in design.recipe.by_prefix.values():
        for text, levels in part.memory.levels.items():
            name = parse_expression(text).category
            if name is not None:
                levels_by_variable.setdefault(name, list(levels))
        smooths = part.smooths
        for e in part.layout.factors.values():
            if e.by is not None and (levels := smooths[e.written()].levels):
                levels_by_variable.setdefault(e.by, list(levels))
    return levels_by_variable


def rows_of(design: Design, data: Any, names: Iterable[str]) -> dict[str, Any]:
    """Return the named columns of the given table at the rows that the design kept."""
    table = read_table(data)
    require(table, names)
    place = {row: i for i, row in enumerate(table.rows.tolist())}
    labels = table.rows if design.labels is None else design.labels
    if len(place) < len(table.rows) and len(table.rows) == design.n:
        where = np.arange(design.n)
    else:
        where = np.array([place.get(row, -1) for row in np.asarray(labels).tolist()])
    if len(where) != design.n or (where < 0).any():
        raise DataError("these data are not the rows that the model was fitted to")
    return dict(table.only(tuple(names)).part(where).columns)


def read_at(design: Design, data: Any) -> dict[str, Any]:
    """Return the variables that the columns and the offset of a design need at the rows of a new table; empty for arrays."""
    if isinstance(design.recipe, ArrayColumns):
        return {}
    table = read_table(data)
    names = design.recipe.all_variables
    return {name: table.columns[name] for name in names if name in table.columns}


def _read_back(design: Design) -> dict[str, Any]:
    """Return the variables that the design keeps, checked by computing the matrix again."""
    recipe: Any = design.recipe
    absent = [name for name in recipe.variables if name not in design.read]
    if absent:
        raise DataError(
            f"the model does not keep the variable {absent[0]!r}; pass data=, the table it was fitted to"
        )
    table = {n: design.read[n] for n in recipe.all_variables if n in design.read}
    if table and not all_close(recipe.matrix(table), design.X):
        raise DataError(
            "the variables do not make the columns of the model: its table was changed since; pass data=, as it was"
        )
    return table


def columns_by_term(design: Design) -> dict[str, tuple[int, ...]]:
    """Return the columns of each term of the formula, in order; in a design from arrays, a process or a single column is a term.

    >>> from probreg import Model
    >>> data = {"y": [1.0, 2.0, 4.0, 3.0], "x": [1.0, 2.0, 6.0, 0.0], "g": ["a", "b", "c", "a"]}
    >>> columns_by_term(Model.from_formula("y ~ x + g", data).design)
    {'Intercept': (0,), 'x': (1,), 'g': (2, 3)}
    """
    written_terms = [
        [f"{prefix}{first}", *others]
        for prefix, (first, *others) in _written_terms(design)
    ]
    term_names = {c: term.name for term in design.recipe.terms for c in term.columns}
    places = dict[str, list[int]]()
    for j, column in enumerate(design.columns):
        name = term_names.get(column) or _term_of(column, written_terms)
        places.setdefault(name, []).append(j)
    return {name: tuple(columns) for name, columns in places.items()}


def coefficients_by_term(design: Design) -> dict[str, list[int]]:
    """Return the places of each term of the formula among the columns without random effects, which a fit reports."""
    place = {int(j): i for i, j in enumerate(design.ungrouped)}
    return {
        name: [place[j] for j in columns]
        for name, columns in columns_by_term(design).items()
        if place.keys() >= set(columns)
    }


def factors_by_term(design: Design) -> dict[str, tuple[str, frozenset[str]]]:
    """Return the prefix of the parameter, as in "log sigma: x", and the factors of each written term of the formula."""
    return {
        f"{prefix}{':'.join(factors)}": (prefix, frozenset(factors))
        for prefix, factors in _written_terms(design)
    }


def _written_terms(design: Design) -> Iterator[tuple[str, list[str]]]:
    """Yield the prefix of the parameter and the names of the factors of each written term."""
    for prefix, part in design.recipe.by_prefix.items():
        for term in part.layout.terms:
            yield prefix, list(map(part.layout.factor_name, term))


def _term_of(column: str, written: Sequence[Sequence[str]]) -> str:
    """Return the term of a column: the term with exactly its name, or the term with most factors, each with its level or part in brackets.

    A level may have brackets and colons of its own, so that `g[T.b]:h[T.c]` could be one of `g` as well as of `g:h`. An interaction
    without its main effects has columns of some of its factors too.
    """
    matches = [term for term in written if column == ":".join(term)]
    matches = matches or [
        term
        for term in written
        if re.fullmatch(":".join(map(_with_level, term)), column)
    ]
    matches = matches or [
        t
        for t in written
        if len(t) > 1
        and re.fullmatch("".join(f"({_with_level(f)}:)?" for f in t), f"{column}:")
    ]
    best: Sequence[str] = max(matches, key=len, default=[column])
    return ":".join(best)


def _with_level(factor: str) -> str:
    """Return a regular expression for a factor in column names, with or without a level."""
    return re.escape(factor) + r"(\[.*\])?"
