"""The model of the remaining rows after some rows are taken away: rows in memory are removed, and moments are subtracted."""

from collections.abc import Mapping
from dataclasses import replace
from typing import Any

import numpy as np

from probreg.data import Design
from probreg.data.checked_arrays import some_rows
from probreg.errors import DataError, Incompatible
from probreg.model.constructors import design_of_moments
from probreg.model.model import Model

Array = np.ndarray


def model_without(model: Model, removed: Model) -> Model:
    """Return the model without the rows of another. Raise DataError if these are not rows of the model, and Incompatible if the
    likelihoods differ or the noise is not Gaussian.

    >>> whole = Model.from_arrays([0.0, 1.0, 2.0], [1.0, 3.0, 4.0])
    >>> model_without(whole, whole.at([1.0], [3.0])).design.observed
    array([1., 4.])
    """
    before = model.design
    removed_design = removed.design
    require_gaussian_noise(model)
    # moments by group can name groups that the model does not have
    same = removed_design.columns == before.columns or bool(
        before.recipe.grouped
        and removed_design.ungrouped_columns == before.ungrouped_columns
    )
    if not same or removed.likelihood != model.likelihood:
        raise DataError(
            "rows are taken away by a model of the same columns and the same likelihood"
        )
    if before.weight_kind != removed_design.weight_kind:
        raise DataError(
            f"rows with {removed_design.weight_kind} weights cannot be taken from rows with {before.weight_kind} weights (rows without "
            "weights are frequencies)"
        )
    if before.weight_kind == "sampling":
        raise Incompatible(
            "rows with sampling weights cannot be taken away, because the weights are normalised over all rows: fit the rows that stay"
        )
    if before.n and removed_design.n and removed_design.columns == before.columns:
        if (before.offset is None) != (removed_design.offset is None):
            raise DataError(
                "offset: either the fit or the rows to forget have one; give offset= to both or to neither"
            )
        remaining = before.row_weights - _weights_found(before, removed_design)
        if remaining.any():
            remaining_rows = before.take(remaining > 0)
            absent = before.absent
            # rows of weight 0 stay; their numbers decrease by the number of removed rows before them
            if absent is not None:
                earlier = np.searchsorted(before.places[remaining <= 0], absent.places)
                remaining_rows = replace(
                    remaining_rows,
                    absent=replace(absent, places=absent.places - earlier),
                )
            if before.weights is not None:
                remaining_rows = replace(
                    remaining_rows, weights=remaining[remaining > 0]
                )
            return replace(model, design=remaining_rows)
    mine: Any = model.moments
    design = replace(
        before, X=before.X[:0], y=np.zeros(0), offset=some_rows(before.offset, slice(0)), weights=None,
        precision=None, labels=None, inputs={}, read={}, absent=None, source=None, kept_by_trials=None, of_moments=True,
        kept=mine - removed.moments,
    )  # fmt: skip
    try:
        return replace(model, design=design)
    except DataError:  # from a prior that is relative to the rows
        require_rows_left(design)
        raise


def model_with(model: Model, added: Model) -> Model:
    """Return the model of the moments of two models, which may have different groups."""
    if (
        added.likelihood != model.likelihood
        or added.design.ungrouped_columns != model.design.ungrouped_columns
    ):
        raise DataError(
            "rows are added by a model of the same columns and the same likelihood"
        )
    mine: Any = model.moments
    design = design_of_moments(mine + added.moments)
    prior = model.prior
    if isinstance(prior, Mapping):  # by columns: terms may have new ones
        old = model.design.recipe.grouped
        new = design.recipe.grouped
        column_map = {old[key].columns: new[key].columns for key in old}
        prior = {
            column_map.get(key, key) if isinstance(key, tuple) else key: p
            for key, p in prior.items()
        }
    return replace(model, design=design, prior=prior)


def require_gaussian_noise(model: Model) -> None:
    """Raise Incompatible for a model without sufficient moments."""
    if not model.likelihood.least_squares:
        raise Incompatible(
            f"forget is for Gaussian noise, whose moments say all of the rows; this model is {model.likelihood.name}: fit "
            "the rows that stay"
        )


def require_rows_left(design: Design) -> None:
    """Raise DataError if every row of a design was taken away."""
    if design.kept is not None and not design.kept.n:
        raise DataError(
            "no rows stay: every row was taken away, and a fit needs at least one; take fewer away"
        )


def _weights_found(before: Design, removed: Design) -> Array:
    """(n,) the weight that is taken away from each row by equal rows."""
    from scipy.spatial import cKDTree

    # two rows are the same if they differ by no more than these shares of a standard deviation and of the largest value
    sd_share, value_share = 1e-9, 1e-13
    A = _as_numbers(before)
    B = _as_numbers(removed)
    same = sd_share * A.std(0) + value_share * np.abs(A).max(0)
    unit = np.where(same > 0, same, np.finfo(float).tiny ** 0.5)
    tree = cKDTree(A / unit)
    free = before.row_weights.copy()
    taken = np.zeros(before.n)
    for i, (b, w) in enumerate(zip(B, removed.row_weights)):
        for j in tree.query_ball_point(b / unit, 1.0, p=np.inf):
            part = min(free[j], w)
            free[j] -= part
            taken[j] += part
            w -= part
        if w > 0:
            raise DataError(
                f"row {i} of the rows to forget ({_describe_row(removed, i)}) is not (so often) among the rows of this fit; "
                "earlier updates are in its prior"
            )
    return taken


def _as_numbers(design: Design) -> Array:
    """Columns, response, offset and precision of each row side by side."""
    if len(design.ungrouped) == len(design.columns):
        head = design.X
    else:
        head = design.X[:, design.ungrouped]
    by_group = [
        design.inputs[key] for key in design.recipe.grouped if key in design.inputs
    ]
    parts = [head, *by_group, design.observed, design.offset, design.precision]
    return np.column_stack([part for part in parts if part is not None])


def _describe_row(design: Design, i: int) -> str:
    shown = [
        f"{c} = {v:.6g}"
        for c, v in list(zip(design.columns, design.X[i]))[:4]
        if c != "Intercept"
    ]
    return ", ".join([*shown, f"{design.response} = {design.observed[i]:.6g}"])
