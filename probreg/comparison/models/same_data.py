"""Checks that fits have the same observations, so that their log densities are comparable."""

from functools import partial
from typing import Any

import numpy as np

from probreg.data import Block
from probreg.data.rows import full_weights
from probreg.errors import DataError, Incompatible
from probreg.fits.fit import Fit
from probreg.likelihoods import OfTrials

Array = np.ndarray


def refuse_other_data(base: str, first: Fit, name: str, second: Fit) -> None:
    """Raise DataError with the first difference between the observations of two fits; Incompatible for a density compared with
    probabilities. Columns, priors, offsets and methods may differ, because the comparison is about them."""
    for fit_name, fit in ((base, first), (name, second)):
        if not fit.model.design.reachable:
            fit.model.design.need_rows(
                f"a comparison of {fit_name!r} with other models"
            )
    d = first.model.design
    e = second.model.design
    pair = f"{base!r} and {name!r} cannot be compared"
    if d.response != e.response:
        raise DataError(
            f"{pair}: they model {d.response} and {e.response}. Log densities of different quantities are not comparable: "
            "give both models the same response"
        )
    if d.count != e.count or not np.isclose(d.total, e.total, rtol=1e-12, atol=0.0):
        raise DataError(
            f"{pair}: their rows are not the same data, {_describe_size(first)} against {_describe_size(second)}. Fit both to the same rows; "
            "missing='drop' leaves out other rows where other columns are used"
        )
    if d.weight_kind != e.weight_kind:
        raise DataError(
            f"{pair}: the weights are {d.weight_kind} and {e.weight_kind}. Fit both with weights of one kind"
        )
    if d.n and e.n:
        reason = _difference(first, second)
    else:
        reason = _total_difference(first, second)
    if reason:
        raise DataError(f"{pair}: their rows are not the same data, {reason}")
    if isinstance(first.model.likelihood.support, str) != isinstance(
        second.model.likelihood.support, str
    ):
        raise Incompatible(
            f"{pair}: {first.model.likelihood.named} and {second.model.likelihood.named} likelihood. One gives densities, "
            "the other probabilities of single values, and their logarithms differ by the unit of the response"
        )


def _difference(first: Fit, second: Fit) -> str:
    """The first row in which the responses or the weights differ."""
    pairs = (
        ("response", _response_levels),
        ("weights", _observation_weights),
        ("precisions", _precisions),
    )
    for quantity, x, y in (
        (quantity, read_column(first), read_column(second))
        for quantity, read_column in pairs
    ):
        if not np.array_equal(x, y):
            if x.shape != y.shape:
                return f"the {quantity} has {_describe_response_shape(x)} in a row against {_describe_response_shape(y)}"
            where = int(np.argmax((x != y).reshape(len(x), -1).any(1)))
            return f"the {quantity} of row {first.model.design.row_name(where)} is {x[where]} against {y[where]}"
    return ""


def _describe_response_shape(y: Array) -> str:
    if y.ndim == 1:
        return "one value"
    return f"{y.shape[1]} numbers"


def _total_difference(first: Fit, second: Fit) -> str:
    """The same for rows that are read in blocks, compared by sums over them; another order of the rows is no difference."""
    x = _totals(first)
    y = _totals(second)
    unlike = [
        k
        for k in sorted({*x, *y})
        if not np.isclose(x.get(k, 0.0), y.get(k, 0.0), rtol=1e-9, atol=0.0)
    ]
    if unlike:
        return f"{unlike[0]} is {x.get(unlike[0], 0.0):.12g} against {y.get(unlike[0], 0.0):.12g}"
    return ""


def _totals(fit: Fit) -> dict[str, float]:
    """The rows of each level, or sums of powers of the response, in words."""
    likelihood = fit.model.likelihood
    levels = () if isinstance(likelihood, OfTrials) else likelihood.levels
    if isinstance(likelihood, OfTrials):
        (sums,) = fit.model.design.fold(partial(_tallies, likelihood=likelihood))
        return dict(
            zip((f"the number of {c!r}" for c in likelihood.classes), sums.tolist())
        )
    words = [f"the weight of {level!r}" for level in map(str, levels)] or [
        "the sum of y",
        "the sum of y^2",
        "the sum of precisions",
    ]
    (moments,) = fit.model.design.fold(partial(_powers, levels=len(levels)))
    return dict(zip(words, moments.tolist()))


def _tallies(block: Block, *, likelihood: OfTrials) -> tuple[Array]:
    w = full_weights(block.weights, block.rows)
    return (w @ likelihood.tally(block.y),)


def _powers(block: Block, *, levels: int) -> tuple[Array]:
    w = full_weights(block.weights, block.rows)
    if levels:
        return (np.bincount(block.y.astype(int), w, levels),)
    if block.precision is None:
        precise = block.rows
    else:
        precise = block.precision.sum()
    return (np.array([w @ block.y, w @ block.y**2, precise]),)


def _response_levels(fit: Fit) -> Array:
    """Return the response in its own levels, whatever the event or the reference level."""
    y = fit.model.design.observed
    levels = fit.model.likelihood.levels
    if not levels or isinstance(fit.model.likelihood, OfTrials):
        return y
    names: Any = np.empty(len(levels), dtype=object)
    names[:] = [str(v) for v in levels]
    return names[y.astype(int)]


def _observation_weights(fit: Fit) -> Array:
    d = fit.model.design
    return full_weights(d.weights, d.n)


def _precisions(fit: Fit) -> Array:
    d = fit.model.design
    return np.ones(d.n) if d.precision is None else d.precision


def _describe_size(fit: Fit) -> str:
    d = fit.model.design
    return f"{d.count} rows" + ("" if d.weights is None else f" (weight {d.total:g})")
