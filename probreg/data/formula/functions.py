"""The variables of a formula, and the functions of its terms: their domain, their points in the rows, and their columns.

A file that was saved with its rows contains them.
"""

import re
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from probreg.data.array_columns import ArrayColumns
from probreg.data.checked_arrays import require
from probreg.data.design import Design
from probreg.data.formula.columns import read_table
from probreg.data.implicit_columns import all_close
from probreg.data.terms.process import ProcessTerm
from probreg.data.terms.smooths import BasisTerm, Roughness, SmoothTerm
from probreg.errors import DataError
from probreg.kernels.sums import RowSums
from probreg.linalg import evenly_spaced

Array = np.ndarray
# of the range: an error near 1e-8 of the second derivative of a covariance
_WIDE = 1e-4


@dataclass(frozen=True, eq=False)
class TermFunction:
    """One function of a design: f(x) = columns_at(x) @ beta[at], plus, for a process, the residual of its basis.

    Attributes
    ----------
    of : BasisTerm
        The function as a term, with its flat columns and its blocks.
    term_name : str
        The name of its term; a term with levels of `by=` has several functions.
    term : SmoothTerm or ProcessTerm
        The basis of its columns.
    at : array (q,)
        Its columns in the design.
    inputs : tuple of str
        Its inputs, as written in the formula.
    """

    of: BasisTerm
    term_name: str
    term: SmoothTerm | ProcessTerm
    at: Array
    inputs: tuple[str, ...]

    @property
    def label(self) -> str:
        """Its name: the term, or `s(x, by=g)[a]`."""
        return self.of.name

    @property
    def penalty(self) -> Roughness | None:
        """The penalty of one weight of a smooth function; None if it has none, and for a process."""
        return getattr(self.term.basis, "penalty", None)

    def range_in(self, design: Design) -> Array:
        """Return the smallest and largest input (2, d) of the rows, or of the basis if the rows are unknown.

        DataError if both are unknown.
        """
        points = self.points_of(design)
        if len(points):
            return np.array([points.min(0), points.max(0)])
        ends = self.term.ends
        if ends is None:
            raise DataError(
                f"{self.label}: the rows are not here, so that its range is not known: say where with at="
            )
        return ends

    def columns_at(self, x: Array) -> Array:
        """Return the columns (n, q) at points x (n, d)."""
        return self.term.function_at(x)

    def slopes_at(self, x: Array, ends: Array) -> Array:
        """Return the derivatives of the columns (n, q) with respect to one input.

        The slope at x of the parabola through three points near it, which lie within `ends` if x does.
        """
        # share of the range: an error near 1e-10 of the derivative, from the third derivative and from rounding
        step = 1e-5
        coefficients, points = _parabola(x, ends, step)
        return sum(
            w[:, None] * self.columns_at(c) for w, c in zip(coefficients, points)
        )

    def sums_at(self, x: Array, ends: Array | None) -> RowSums:
        """Return the function at points x (n, d) as row sums; with `ends`, its slope as in `slopes_at`."""
        if ends is None:
            return RowSums.values(x)
        coefficients, points = _parabola(x, ends, _WIDE)
        return RowSums(coefficients.T, np.stack(list(points), 1))

    def left_out(self, x: Array, ends: Array | None = None) -> Array | None:
        """Return R(x, x) (n, n), the residual covariance of a process given its columns, at scale 1; for its slope if `ends` is given.

        None for a smooth function, which equals its columns, and for sines and frequencies, which are not projections.
        """
        if isinstance(self.term, SmoothTerm) or not self.term.basis.projection:
            return None
        R = self.term.basis.residual_covariance
        if ends is None:
            return R(x)
        # cov(f'(x), f'(z)) = d^2 R / dx dz by central differences
        h = _WIDE * float(ends[1, 0] - ends[0, 0])
        up = x + h
        down = x - h
        return (R(up, up) - R(up, down) - R(down, up) + R(down, down)) / (4.0 * h**2)

    def points_of(self, design: Design) -> Array:
        """Return the inputs x (n, d) of the rows of the function, at most 5,000 of them; (0, d) if they are unknown."""
        x = design.inputs.get(self.term_name)
        if x is None:
            return np.zeros((0, len(self.inputs)))
        if self.term.by:
            x = x[(design.X[:, self.at] != 0).any(1)]
        max_points = 5000  # of a rug plot
        return x[evenly_spaced(len(x), max_points)]


def _parabola(x: Array, ends: Array, step: float) -> tuple[Array, Array]:
    """Return weights (3, n) for the values at points (3, n, 1) that sum to the slope at x (n, 1); the points are within `ends` if x is."""
    low, high = ends[:, 0]
    h = step * (high - low)
    c = np.where((x >= low) & (x <= high), np.clip(x, low + h, high - h), x)
    bend = (x - c)[:, 0] / h**2
    # f'(x) = (f(c + h) - f(c - h)) / (2 h) + (x - c) (f(c + h) - 2 f(c) + f(c - h)) / h^2 + O(h^2)
    return np.array([bend - 0.5 / h, -2.0 * bend, bend + 0.5 / h]), np.array(
        [c - h, c, c + h]
    )


def term_functions(design: Design) -> tuple[TermFunction, ...]:
    """The functions of the smooth terms and processes of a design, in the order of its formula."""
    recipe = design.recipe
    present = set(design.columns)
    functions = list[TermFunction]()
    number = {name: j for j, name in enumerate(design.columns)}
    for key, inputs in recipe.input_names.items():
        term = recipe.processes.get(key) or recipe.smooths[key]
        if not present.issuperset(term.column_names.columns):
            continue
        for block in term.functions:
            functions.append(
                TermFunction(
                    block,
                    key,
                    term,
                    np.array([number[c] for c in block.columns]),
                    inputs,
                )
            )
    return tuple(functions)


def term_function(design: Design, name: str | None) -> TermFunction:
    """Return the function of this name, with or without the options of its term; for None, the only function.

    DataError if there is none or more than one, with the available names.
    """
    functions = functions_called(design, name)
    if len(functions) > 1:
        labels = ", ".join(repr(f.label) for f in functions)
        raise DataError(
            f"{'the model' if name is None else repr(name)} has {len(functions)} functions, name one: {labels}"
        )
    return functions[0]


def functions_called(design: Design, name: str | None) -> tuple[TermFunction, ...]:
    """Return the functions of the term or function of this name; all of them for None. DataError if there is none."""
    functions = term_functions(design)
    if not functions:
        raise DataError(
            "the model has no smooth function: a formula has one as s(x), s(x, by=g), t2(x, z) or gp(x)"
        )
    if name is None:
        return functions
    spelling = "".join(str(name).split())

    def is_one_of(*names: str) -> bool:
        return spelling in ["".join(label.split()) for label in names]

    short = {t.name: t.short for t in design.recipe.terms}
    exact = [f for f in functions if is_one_of(f.label, f.term_name)]
    matches = exact or [
        f for f in functions if is_one_of(f.of.short, short[f.term_name])
    ]
    if not matches:
        raise DataError(
            f"{name!r} is no smooth function of the model; it has {', '.join(f.label for f in functions)}"
        )
    term_names = dict.fromkeys(f.term_name for f in matches)
    if len(term_names) > 1:
        raise DataError(
            f"{name!r} may be {' or '.join(term_names)}: write the term with its options"
        )
    return tuple(matches)


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
    levels_by_variable: dict[str, list[Any]] = {}
    for part in design.recipe.by_prefix.values():
        for text, levels in part.memory.levels.items():
            name = part.layout.factors[text].category
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
        where = np.array([place.get(row, -1) for row in labels.tolist()])
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

    A level may contain brackets and colons, so that `g[T.b]:h[T.c]` could be one of `g` as well as of `g:h`. An interaction
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
