"""Checks that fits have the same observations, so that their log densities are comparable."""

from functools import partial
from typing import Any

import numpy as np

from probreg.comparison.same_question import first_difference
from probreg.data import Block
from probreg.data.rows import full_weights
from probreg.errors import DataError, Incompatible
from probreg.fits.fit import Fit
from probreg.likelihoods import Likelihood, OfTrials

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
    readers = {
        "response": _response_levels,
        "weights": lambda fit: full_weights(
            fit.model.design.weights, fit.model.design.n
        ),
        "precisions": lambda fit: full_weights(
            fit.model.design.precision, fit.model.design.n
        ),
    }
    for quantity, read in readers.items():
        x, y = read(first), read(second)
        if x.shape != y.shape:
            return f"the {quantity} has shape {x.shape} against {y.shape}"
        row = first_difference(x, y)
        if row is not None:
            return f"the {quantity} of row {first.model.design.row_name(row)} is {x[row]} against {y[row]}"
    return ""


def _total_difference(first: Fit, second: Fit) -> str:
    """The same for rows that are read in blocks, compared by sums over them; another order of the rows is no difference."""
    x, y = _totals(first), _totals(second)
    for name in sorted({*x, *y}):
        a, b = x.get(name, 0.0), y.get(name, 0.0)
        if not np.isclose(a, b, rtol=1e-9, atol=0.0):
            return f"{name} is {a:.12g} against {b:.12g}"
    return ""


def _totals(fit: Fit) -> dict[str, float]:
    """The weight of each level, or sums of powers of the response, in words."""
    likelihood = fit.model.likelihood
    (sums,) = fit.model.design.fold(partial(_block_totals, likelihood=likelihood))
    levels = likelihood.levels
    if isinstance(likelihood, OfTrials):
        levels = likelihood.classes
    words = [f"the weight of {str(level)!r}" for level in levels]
    words = words or ["the sum of y", "the sum of y^2", "the sum of precisions"]
    return dict(zip(words, sums.tolist()))


def _block_totals(block: Block, *, likelihood: Likelihood) -> tuple[Array]:
    w = full_weights(block.weights, block.rows)
    if isinstance(likelihood, OfTrials):
        return (w @ likelihood.tally(block.y),)
    if likelihood.levels:
        return (np.bincount(block.y.astype(int), w, len(likelihood.levels)),)
    precision = full_weights(block.precision, block.rows).sum()
    return (np.array([w @ block.y, w @ block.y**2, precision]),)


def _response_levels(fit: Fit) -> Array:
    """Return the response in its own levels, whatever the event or the reference level."""
    y = fit.model.design.observed
    levels = fit.model.likelihood.levels
    if not levels or isinstance(fit.model.likelihood, OfTrials):
        return y
    names: Any = np.empty(len(levels), dtype=object)
    names[:] = [str(v) for v in levels]
    return names[y.astype(int)]


def _describe_size(fit: Fit) -> str:
    d = fit.model.design
    return f"{d.count} rows" + ("" if d.weights is None else f" (weight {d.total:g})")
