"""Checks that fits have the same observations, so that their log densities are comparable."""

from functools import partial
from typing import Any

import numpy as np

from probreg.comparison.same_question import refuse_difference
from probreg.data import Block
from probreg.data.rows import full_weights
from probreg.errors import Incompatible
from probreg.fits.fit import Fit
from probreg.likelihoods import Likelihood, OfTrials

Array = np.ndarray


def refuse_other_data(base: str, first: Fit, name: str, second: Fit) -> None:
    """Raise DataError with the first difference between the observations of two fits; Incompatible for a density compared with
    probabilities. Columns, priors, offsets and methods may differ, because the comparison is about them."""
    for fit_name, fit in ((base, first), (name, second)):
        if not fit.model.design.has_rows:
            fit.model.design.need_rows(
                f"a comparison of {fit_name!r} with other models"
            )
    d = first.model.design
    e = second.model.design
    facts: dict[str, Any] = {
        "response": (d.response, e.response),
        "number of rows": (d.count, e.count),
        "total weight": (float(d.total), float(e.total)),
        "kinds of weights": (d.weight_kind, e.weight_kind),
    }
    refuse_difference((base, name), facts, d)
    if d.n and e.n:
        facts = {
            "values of the response": (
                _response_levels(first),
                _response_levels(second),
            ),
            "weights": (full_weights(d.weights, d.n), full_weights(e.weights, e.n)),
            "precisions": (
                full_weights(d.precision, d.n),
                full_weights(e.precision, e.n),
            ),
        }
    else:
        # of rows that are read in blocks sums are compared: another order of the rows is no difference
        x, y = _totals(first), _totals(second)
        facts = {key: (x.get(key, 0.0), y.get(key, 0.0)) for key in sorted({*x, *y})}
    refuse_difference((base, name), facts, d)
    likelihoods = [fit.model.likelihood for fit in (first, second)]
    if likelihoods[0].is_discrete != likelihoods[1].is_discrete:
        raise Incompatible(
            f"cannot compare {base!r} and {name!r}: {likelihoods[0].named} and {likelihoods[1].named} likelihood. One gives densities, "
            "the other probabilities of single values, and their logarithms differ by the unit of the response"
        )


def _totals(fit: Fit) -> dict[str, float]:
    """The weight of each level, or sums of powers of the response, in words."""
    likelihood = fit.model.likelihood
    (sums,) = fit.model.design.sum_over_rows(
        partial(_block_totals, likelihood=likelihood)
    )
    levels = likelihood.levels
    if isinstance(likelihood, OfTrials):
        levels = likelihood.classes
    words = [f"weight of {str(level)!r}" for level in levels]
    words = words or ["sum of y", "sum of y^2", "sum of precisions"]
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
