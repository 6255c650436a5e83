"""The support vectors of a fit as a table; for draws, the probability that a row is one."""

from typing import TYPE_CHECKING

import numpy as np

from probreg.errors import Incompatible
from probreg.inference.base import Array, Solution
from probreg.inference.penalized.support_vectors import support_of
from probreg.likelihoods import PiecewiseLinearLikelihood
from probreg.model.model import Model

if TYPE_CHECKING:
    from pandas import DataFrame

_AT_ONCE = 10**7  # residuals times draws in memory at a time


def support_table(model: Model, solution: Solution) -> "DataFrame":
    """Return the rows with their weight, residual and whether the weight is at its bound; for draws, a probability of each row."""
    import pandas as pd

    if not isinstance(model.likelihood, PiecewiseLinearLikelihood):
        raise Incompatible(
            f"support vectors are those of a loss with kinks, and {model.likelihood.name} has none"
        )
    index = pd.Index(model.design.row_names, name="row")
    if solution.draws is not None:
        return pd.DataFrame(
            {"probability": _share_outside_tube(model, solution)}, index
        )
    support = support_of(model, solution)
    table = pd.DataFrame(
        {
            "weight": support.weight,
            "residual": support.residual,
            "at": np.where(support.bound, "bound", "free"),
        },
        index,
    )
    return table[support.of]


def _share_outside_tube(model: Model, solution: Solution) -> Array:
    """Return the share of draws in which |y_i - eta_i| is at least the half-width of the tube."""
    likelihood = model.likelihood
    assert isinstance(likelihood, PiecewiseLinearLikelihood)
    model.design.need_rows("the support of a posterior")
    draws = solution.posterior.flat
    count = len(draws["beta"])
    total = np.zeros(model.design.n)
    step = max(1, _AT_ONCE // max(1, model.design.n))
    for start in range(0, count, step):
        draw_slice = slice(start, start + step)
        aux_values = {
            **model.fixed,
            **{a: draws[a][draw_slice, None] for a in model.unknown},
        }
        tube = likelihood.slopes(**aux_values).tube
        r = model.design.observed - model.eta(draws["beta"][draw_slice])[..., 0]
        total += (np.abs(r) >= tube).sum(0)
    return np.asarray(total / count)
