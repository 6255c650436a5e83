"""Columns given as arrays: the recipe that reads them at new data, the design of a matrix, and saved recipes of any kind."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from functools import cached_property
from typing import Any, Self

import numpy as np

from probreg.arguments.arrays import as_array
from probreg.data.blocks.block import by_kind
from probreg.data.checked_arrays import (
    INTERCEPT,
    as_matrix,
    as_offset,
    as_weights,
    check_intercept,
    is_array,
    named_columns,
    names_of,
)
from probreg.data.design import ColumnRecipe, Design
from probreg.data.formula.columns import read_columns
from probreg.data.terms.process import ProcessTerm, process_of
from probreg.data.weights import read_weights
from probreg.errors import DataError

Array = np.ndarray


@dataclass(frozen=True, eq=False)
class ArrayColumns(ColumnRecipe):
    """Columns given as arrays, or the columns of a process of them, behind a column of ones if `intercept`."""

    given: tuple[str, ...]
    intercept: bool
    process: ProcessTerm | None = None

    @cached_property
    def columns(self) -> tuple[str, ...]:
        return ((INTERCEPT,) if self.intercept else ()) + (
            self.process.columns if self.process else self.given
        )

    @property
    def basis_terms(self) -> Mapping[str, ProcessTerm]:
        return {self.process.key: self.process} if self.process else {}

    @property
    def all_variables(self) -> tuple[str, ...]:
        return self.given

    @property
    def input_names(self) -> Mapping[str, tuple[str, ...]]:
        return {key: term.inputs for key, term in self.processes.items()}

    def own_column(self, name: str) -> int | None:
        return (
            self.columns.index(name) if name in self.columns[self.intercept :] else None
        )

    def read(self, data: Any) -> tuple[Array, dict[str, Array]]:
        """Return the columns, and the inputs of the process, at an array of the given columns in order, or at a table that names them."""
        if is_array(data):
            X = as_array(data, "new data")
        else:
            X = named_columns(data, self.given)
        if X.ndim == 1 and len(self.given) == 1:
            X = X[:, None]
        if self.process is None:
            return as_matrix(X, self.given, ones=self.intercept), {}
        X = as_matrix(X, self.given)
        phi = self.process.columns_at(X)
        return self.behind_ones(phi), {self.process.key: X}

    def behind_ones(self, phi: Array) -> Array:
        """Return the columns of the design from the columns of the process."""
        if not self.intercept:
            return np.ascontiguousarray(phi)
        return np.hstack([np.ones((len(phi), 1)), phi])

    def with_process(self, term: ProcessTerm) -> Self:
        return replace(self, process=term)

    def read_back(self, design: Design) -> dict[str, Array]:
        """Return the given columns (n,) by name, from the rows of a design."""
        if self.process:
            return dict(zip(self.given, design.inputs[self.process.key].T))
        return dict(zip(self.given, design.X.T[self.intercept :]))

    def to_json(self) -> dict[str, Any]:
        return {
            "kind": "arrays",
            "given": list(self.given),
            "intercept": self.intercept,
            "process": {k: term.to_state() for k, term in self.processes.items()},
        }

    @classmethod
    def from_json(cls, saved: Mapping[str, Any]) -> Self:
        """Return the recipe that `to_json` wrote."""
        processes = [process_of(state, key) for key, state in saved["process"].items()]
        return cls(tuple(saved["given"]), saved["intercept"], *processes)


def from_arrays(
    X: Any,
    *,
    columns: Sequence[str] | None,
    intercept: bool,
    response: str,
    offset: Any = None,
    weights: Any = None,
    labels: Any = None,
) -> Design:
    """Return a design without its response from a matrix; DataError names column, row and value of invalid entries."""
    if not isinstance(response, str):
        raise DataError(
            f"response is the name of the response, got {type(response).__name__}"
        )
    if (
        not is_array(X)
        and getattr(X, "name", None) is not None
        and not isinstance(X, Mapping)
    ):  # one column that has a name
        X = {str(X.name): X}
    if is_array(X):
        X = as_array(X, "X")
    else:
        table = read_columns(X)
        if columns is None:
            columns = list(table)
        X = named_columns(table, columns)
    if X.ndim == 1:
        X = X[:, None]
    if X.ndim != 2:
        raise DataError(
            f"X is a matrix (rows, columns), got an array of shape {X.shape}"
        )
    names = names_of(columns, X.shape[1], intercept=intercept)
    X = as_matrix(X, names, ones=intercept)
    if not len(X):
        raise DataError(f"there are no rows: X has shape (0, {len(names)})")
    recipe = ArrayColumns(names, intercept)
    check_intercept(X, names)
    kind, weight_values = read_weights(weights)
    frequencies, precision = by_kind(kind, as_weights(weight_values, len(X), kind))
    return Design(
        X=X,
        y=None,
        columns=recipe.columns,
        recipe=recipe,
        response=response,
        offset=as_offset(offset, len(X)),
        labels=None if labels is None else as_array(labels, "labels"),
        weights=frequencies,
        precision=precision,
        weight_kind=kind,
    )


def recipe_from_json(saved: Mapping[str, Any]) -> ColumnRecipe:
    """Return the recipe that `to_json` wrote; nothing in it is executed."""
    if saved.get("kind") == "arrays":
        return ArrayColumns.from_json(saved)
    from probreg.data.formula.parameters import ParameterRecipe
    from probreg.data.formula.recipe import Recipe

    if saved.get("parameters"):
        return ParameterRecipe.from_json(saved)
    return Recipe.from_json(saved)
