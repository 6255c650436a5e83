"""The functions that the terms of a formula add: where they are defined, at which points the rows have them, their columns."""

from dataclasses import dataclass
from typing import Any, Protocol

import numpy as np

from probreg.data.formula.algebra import parse_formula
from probreg.data.formula.formula import Recipe, read_state
from probreg.data.terms.term import BasisTerm, SmoothTerm, term_of
from probreg.errors import DataError

Array = np.ndarray
_NEAREST = 2000  # points of the range among which those of the rows of a periodic function are found
_MOST = 5000  # rows that a rug shows
_STEP = 1e-5  # of the range: an error near 1e-10 of the derivative, from the third derivative and from rounding


class ReadColumns(Protocol):
    """What a row of X is made by: a design with its rows in memory, or none."""

    @property
    def recipe(self) -> Any: ...

    @property
    def columns(self) -> tuple[str, ...]: ...

    @property
    def X(self) -> Array: ...


@dataclass(frozen=True, eq=False)
class TermFunction:
    """One function of a design: f(x) = columns_at(x) @ beta[at].

    `of` is the function as a term, with its flat columns and its blocks; `label` its name, `s(x, by=g)[a]` where the term
    `term_name` has several; `at` (q,) its columns in the design; `inputs` what it is a function of, as written; `times` whether numbers of
    a `by=` column multiply it.
    """

    of: BasisTerm
    term_name: str
    term: SmoothTerm
    at: Array
    inputs: tuple[str, ...]

    @property
    def label(self) -> str:
        return self.of.name

    @property
    def times(self) -> bool:
        return self.term.by == "number"

    @property
    def ends(self) -> Array:
        """Where the basis begins and ends, (2, d)."""
        return self.term.basis.ends

    def columns_at(self, x: Array) -> Array:
        """(n, q) at points x (n, d)."""
        return self.term.function_at(x)

    def slopes_at(self, x: Array) -> Array:
        """d columns / dx (n, q), of one input: the slope at x of the parabola through three points near it."""
        low, high = self.ends[:, 0]
        h = _STEP * (high - low)
        c = np.clip(x, low + h, high - h)
        below, here, above = (self.columns_at(c + k * h) for k in (-1, 0, 1))
        # f'(x) = (f(c + h) - f(c - h)) / (2 h) + (x - c) (f(c + h) - 2 f(c) + f(c - h)) / h^2 + O(h^2)
        return (above - below) / (2.0 * h) + (x - c) * (above - 2.0 * here + below) / h**2

    def points_of(self, design: ReadColumns) -> Array:
        """x (n, d) of the rows that the function reaches, (0, d) where they cannot be told."""
        none = np.zeros((0, len(self.inputs)))
        X = design.X[:, self.at]
        if self.times:
            X = X[X[:, 0] != 0]
            X = X[:, 1:] / X[:, :1]
        elif self.term.by == "levels":
            X = X[(X != 0).any(1)]
        X = X[np.unique(np.linspace(0, len(X) - 1, min(len(X), _MOST)).astype(int))] if len(X) else X
        if not len(X):
            return none
        low, high = self.ends
        F = self.term.basis.flat
        if F:
            # The columns of the null space hold those of x: x = a + B flat, and a, B follow from any points.
            known = low + (high - low) * np.random.default_rng(0).random((8 * F + 8, len(low)))
            made = self.term.basis.columns_at(known)[:, :F]
            A = np.linalg.lstsq(np.column_stack([np.ones(len(made)), made]), known)[0]
            return np.asarray(np.column_stack([np.ones(len(X)), X[:, :F]]) @ A)
        if len(low) > 1:
            return none
        from scipy.spatial import KDTree

        grid = np.linspace(low, high, _NEAREST)
        return np.asarray(grid[KDTree(self.term.basis.columns_at(grid)).query(X)[1]])


def term_functions(design: ReadColumns) -> tuple[TermFunction, ...]:
    """The functions of the smooth terms of a design, in the order of its formula."""
    recipe = design.recipe
    present = set(design.columns)
    if not isinstance(recipe, Recipe) or not any(present.issuperset(t.columns) for t in recipe.terms):
        return ()
    number = {name: j for j, name in enumerate(design.columns)}
    learned, out = read_state(recipe.state).transforms, list[TermFunction]()
    expressions = [e for e in parse_formula(recipe.formula).factors.values() if e.smooth]
    for expression, term in zip(expressions, recipe.terms):
        call = expression.smooth
        assert call is not None
        if not present.issuperset(term.columns):
            continue
        made, inputs = term_of(learned[term.name], term.name), tuple(map(expression.written, call.args))
        for one in term.functions:
            out.append(TermFunction(one, term.name, made, np.array([number[c] for c in one.columns]), inputs))
    return tuple(out)


def term_function(design: ReadColumns, name: str | None) -> TermFunction:
    """The one function of this name, with the options of its term or without; the only one where none is named.

    DataError where there is none, or more than one, with the names that there are.
    """
    found = functions_called(design, name)
    if len(found) > 1:
        said = ", ".join(repr(f.label) for f in found)
        raise DataError(f"{'the model' if name is None else repr(name)} has {len(found)} functions, name one: {said}")
    return found[0]


def functions_called(design: ReadColumns, name: str | None) -> tuple[TermFunction, ...]:
    """The functions of a term, or the function, of this name; all of them for None. DataError where there is none."""
    every = term_functions(design)
    if not every:
        raise DataError("the model has no smooth function: a formula has one as s(x), s(x, by=g) or t2(x, z)")
    if name is None:
        return every
    wanted = "".join(name.split())

    def called(*names: str) -> bool:
        return wanted in ["".join(one.split()) for one in names]

    short = {t.name: t.short for t in design.recipe.terms}
    exact = [f for f in every if called(f.label, f.term_name)]
    found = exact or [f for f in every if called(f.of.short, short[f.term_name])]
    if not found:
        raise DataError(f"{name!r} is no smooth function of the model; it has {', '.join(f.label for f in every)}")
    if len(of := dict.fromkeys(f.term_name for f in found)) > 1:
        raise DataError(f"{name!r} may be {' or '.join(of)}: write the term with its options")
    return tuple(found)
