"""Columns given as arrays: the recipe that reads them at new data, and the design of a matrix."""

from abc import abstractmethod
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

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
from probreg.data.weights import read_weights
from probreg.errors import DataError

Array = np.ndarray


class ArrayColumns(ColumnRecipe):
    """A recipe of named columns given as arrays: it has no variables and no response."""

    @property
    @abstractmethod
    def given(self) -> tuple[str, ...]:
        """The names of the given columns."""

    @abstractmethod
    def read_back(self, design: Design) -> dict[str, Array]:
        """The given columns (n,) by name, from the rows of a design."""

    def given_at(self, data: Any, *, ones: bool = False) -> Array:
        """Return the given columns (n, q) of an array, a table or a mapping, after a column of ones if `ones`.

        An array has the columns in order; a table or mapping has them by name.
        """
        if is_array(data):
            X = as_array(data, "new data")
        else:
            X = named_columns(data, self.given)
        if X.ndim == 1 and len(self.given) == 1:
            X = X[:, None]
        return as_matrix(X, self.given, ones=ones)


@dataclass(frozen=True)
class PlainColumns(ArrayColumns):
    """Columns taken as they are, with a column of ones in front when `intercept` is set."""

    columns: tuple[str, ...]
    intercept: bool

    def own_column(self, name: str) -> int | None:
        return self.columns.index(name) if name in self.given else None

    @property
    def given(self) -> tuple[str, ...]:
        return self.columns[1:] if self.intercept else self.columns

    def read_back(self, design: Design) -> dict[str, Array]:
        return {name: design.X[:, design.columns.index(name)] for name in self.given}

    def matrix(self, data: Any) -> Array:
        """An array (n, q) of the given columns in their order, or a table or mapping that names them."""
        return self.given_at(data, ones=self.intercept)

    def to_json(self) -> dict[str, Any]:
        return {
            "kind": "plain",
            "columns": list(self.columns),
            "intercept": self.intercept,
        }


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
        columns = list(table) if columns is None else columns
        X = named_columns(table, columns)
    X = X[:, None] if X.ndim == 1 else X
    if X.ndim != 2:
        raise DataError(
            f"X is a matrix (rows, columns), got an array of shape {X.shape}"
        )
    names = names_of(columns, X.shape[1], intercept=intercept)
    X = as_matrix(X, names, ones=intercept)
    if not len(X):
        raise DataError(f"there are no rows: X has shape (0, {len(names)})")
    recipe = PlainColumns(((INTERCEPT,) if intercept else ()) + names, intercept)
    check_intercept(X, names)
    kind, weight_values = read_weights(weights)
    name_list, precision = by_kind(kind, as_weights(weight_values, len(X), kind))
    return Design(
        X=X,
        y=None,
        columns=recipe.columns,
        recipe=recipe,
        response=response,
        offset=as_offset(offset, len(X)),
        labels=None if labels is None else as_array(labels, "labels"),
        weights=name_list,
        precision=precision,
        weight_kind=kind,
    )
