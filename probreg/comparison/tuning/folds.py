"""Which fold each row is held out in."""

from typing import Any

import numpy as np

from probreg.arguments.arrays import as_array
from probreg.data.absent import full_weights
from probreg.errors import DataError
from probreg.inference.uncertainty.clusters import group_codes
from probreg.model.model import Model

Array = np.ndarray


def folds_of(model: Model, folds: Any = 10, *, groups: Any = None, seed: int = 0) -> Array:
    """(n,) fold of each row, 0 to K - 1: one label per row as given, or K folds of nearly equal weight by lot.

    Rows of one of `groups` (a column of the design, or one label per row) share a fold; classes are spread evenly over the
    folds. A weighted row goes to one fold as a whole. DataError for fewer than two folds, or more than there are rows.

    >>> model = Model.from_arrays([[0.0], [1.0], [2.0], [3.0]], [1.0, 0.0, 2.0, 3.0])
    >>> folds_of(model, 2)
    array([1, 0, 0, 1])
    """
    n = model.design.n
    model.design.need_rows("cross-validation")
    if isinstance(folds, bool) or not isinstance(folds, int | np.integer):
        if groups is not None:
            raise DataError("folds= already says the fold of every row: leave groups= out, or give a number of folds")
        try:
            values = np.asarray(folds)
        except ValueError:
            raise DataError("folds is a number of folds or one label per row, got rows of different lengths") from None
        return _given(
            model.design.counted_rows(values) if len(values.shape) and len(values) == model.design.rows else values, n
        )
    codes = np.arange(n) if groups is None else _grouped(groups, model)
    units = int(codes.max()) + 1
    if not 2 <= folds <= units:
        what = "rows" if groups is None else "groups"
        raise DataError(f"folds is a number from 2 to the {units} {what} there are, got {folds}")
    weight = full_weights(model.design.weights, n)
    coded = model.likelihood.levels and model.design.observed.ndim == 1 and groups is None
    stratum = model.design.observed.astype(int) if coded else np.zeros(n, int)
    kind = stratum[np.unique(codes, return_index=True)[1]]
    return _dealt(np.bincount(codes, weight), kind, int(folds), np.random.default_rng(seed))[codes]


def _given(labels: Any, n: int) -> Array:
    values = as_array(labels, "folds")
    if values.ndim != 1 or len(values) != n:
        raise DataError(f"folds is a number or one label per row ({n} rows), got shape {values.shape}")
    if len(bad := [i for i, label in enumerate(values.tolist()) if label is None or label != label]):
        raise DataError(f"the fold of row {bad[0]} is missing ({len(bad)} such rows): give one label per row")
    levels, codes = np.unique(values, return_inverse=True)
    if len(levels) < 2:
        raise DataError(f"every row is in fold {levels[0]}: give at least two folds")
    return codes


def _grouped(groups: Any, model: Model) -> Array:
    known = [c.split("[")[0] for c in model.design.columns]
    if isinstance(groups, str) and groups not in (*known, *model.design.columns):
        raise DataError(f"{groups!r} is no column of the design, which keeps no others: give groups= one label per row")
    ways = group_codes(groups, model.design)
    if len(ways) > 1:
        raise DataError("folds keep groups together one way: give one label per row")
    return ways[0]


def _dealt(weight: Array, kind: Array, folds: int, rng: np.random.Generator) -> Array:
    """Each unit to the fold that has least of its kind, then least of all; heavy units first, ties by lot."""
    order = rng.permutation(len(weight))
    order = order[np.lexsort((-weight[order], kind[order]))]
    out, load, of_kind = np.empty(len(weight), int), np.zeros(folds), np.zeros((int(kind.max()) + 1, folds))
    for i in order:
        k = np.lexsort((load, of_kind[kind[i]]))[0]
        out[i] = k
        load[k] += weight[i]
        of_kind[kind[i], k] += weight[i]
    return out
