"""The columns of a Gaussian process of all columns of an array, without a formula."""

from collections.abc import Sequence
from dataclasses import replace
from typing import Any

import numpy as np

from probreg.data.array_columns import ArrayColumns, from_arrays
from probreg.data.checked_arrays import names_of
from probreg.data.design import Design
from probreg.data.terms.process import (
    ProcessTerm,
    at_starting_length,
    chosen_basis,
    with_spread,
)  # fmt: skip
from probreg.errors import prefix_errors
from probreg.formula.text import column_written
from probreg.kernels import (
    CovarianceFunction,
    KernelBasis,
    basis as made_basis,
    read_kernel,
)
from probreg.kernels.row_values import exact_by_cholesky

Array = np.ndarray


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
    key = _key_of(names)
    with prefix_errors(key):
        start = _starting_kernel(kernel, is_known, x, counts, names)
        made: KernelBasis
        if triangular and basis == "exact":
            made, columns_of_rows = exact_by_cholesky(start, x)
        else:
            made = made_basis(start, x, basis or chosen_basis(x, is_known, {}))
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


def _key_of(names: Sequence[str]) -> str:
    """Return the term as written in a formula; for many inputs, with only the first and the last."""
    max_named = 10  # maximum number of inputs listed in the name of the term
    written = [column_written(name) for name in names]
    if len(written) > max_named:
        written = [written[0], "...", written[-1]]
    return f"gp({', '.join(written)})"
