"""Columns given as arrays: the recipe that reads them at new data, the designs of a matrix and of a process of its columns, and saved
recipes of any kind."""

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
from probreg.data.terms.process import (
    ProcessTerm,
    at_starting_length,
    chosen_basis,
    process_of,
    with_spread,
)
from probreg.data.weights import read_weights
from probreg.errors import DataError, prefix_errors
from probreg.formula.text import column_written
from probreg.kernels import (
    CovarianceFunction,
    KernelBasis,
    basis as made_basis,
    read_kernel,
)

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
        with prefix_errors("X"):
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


def design_of_kernel(
    X: Any,
    kernel: CovarianceFunction | str | None = None,
    *,
    basis: str | None = None,
    length_known: bool | None = None,
    columns: Sequence[str] | None = None,
    intercept: bool = True,
    response: str = "y",
    offset: Any = None,
    weights: Any = None,
    labels: Any = None,
    triangular: bool = False,
) -> Design:
    """Return a design without its response, with the columns of a process of all columns of X.

    Without `kernel`, or with `length_known=False`, a search starts at its length,
    the median distance of distinct rows without a kernel or for one by name. An exact basis that is
    `triangular` comes from a Cholesky factor, a tenth of the work of eigenvectors; its columns are not ordered by size.
    """
    plain = from_arrays(
        X,
        columns=columns,
        intercept=False,
        response=response,
        offset=offset,
        weights=weights,
        labels=labels,
    )
    names = names_of(plain.columns, 0, intercept=intercept)
    inputs = plain.X
    w = plain.weights if plain.precision is None else plain.precision
    # rows of weight 0 are treated as absent
    used = np.ones(plain.n, dtype=bool) if w is None else w > 0
    x = inputs[used]
    counts = None
    if plain.weights is not None and plain.weight_kind == "frequency":
        counts = plain.weights[used]
    is_known = kernel is not None if length_known is None else length_known
    key = _process_key(names)
    with prefix_errors(key):
        start = _starting_kernel(kernel, is_known, x, counts, names)
        made: KernelBasis
        if triangular and basis == "exact":
            from probreg.kernels.anchored import exact_by_cholesky

            made, columns_of_rows = exact_by_cholesky(start, x)
        else:
            made = made_basis(
                start, x, basis if basis is not None else chosen_basis(x, is_known, {})
            )
            columns_of_rows = made.columns_at(x)
        term = ProcessTerm(key, key, made, is_known, names)
    phi = np.zeros((plain.n, made.size))
    phi[used] = columns_of_rows
    recipe = ArrayColumns(names, intercept, term)
    return replace(
        plain,
        X=recipe.behind_ones(phi),
        columns=recipe.columns,
        recipe=recipe,
        inputs={key: inputs},
        notes=term.notes,
    )


def _starting_kernel(
    kernel: CovarianceFunction | str | None,
    is_known: bool,
    x: Array,
    counts: Array | None,
    names: tuple[str, ...],
) -> CovarianceFunction:
    """Return the kernel with its length: as given, or at the start of a search if only its name is given."""
    is_named = kernel is None or (isinstance(kernel, str) and not is_known)
    read = read_kernel("rbf" if kernel is None else kernel)
    if is_named and any("length" in name for name in read.hyper):
        return at_starting_length(read, x)
    return read.resolve(with_spread(x, counts), names)


def _process_key(names: Sequence[str]) -> str:
    """Return the term of the process as written in a formula; for many inputs, with only the first and the last."""
    max_named = 10  # maximum number of inputs listed in the name of the term
    written = [column_written(name) for name in names]
    if len(written) > max_named:
        written = [written[0], "...", written[-1]]
    return f"gp({', '.join(written)})"


def recipe_from_json(saved: Mapping[str, Any]) -> ColumnRecipe:
    """Return the recipe that `to_json` wrote; nothing in it is executed."""
    if saved.get("kind") == "arrays":
        return ArrayColumns.from_json(saved)
    from probreg.data.formula.parameters import ParameterRecipe
    from probreg.data.formula.recipe import Recipe

    if saved.get("parameters"):
        return ParameterRecipe.from_json(saved)
    return Recipe.from_json(saved)
