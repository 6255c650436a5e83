"""The support vectors of a fit as a table."""

import numpy as np

from probreg.arguments.types import DataFrame
from probreg.errors import Incompatible
from probreg.inference.base import Solution
from probreg.inference.penalized.support_vectors import support_of
from probreg.likelihoods import PiecewiseLinearLikelihood
from probreg.model.model import Model


def support_table(model: Model, solution: Solution) -> DataFrame:
    """Return the rows with their weight, residual and whether the weight is at its bound."""
    import pandas as pd

    if not isinstance(model.likelihood, PiecewiseLinearLikelihood):
        raise Incompatible(
            f"support vectors are those of a loss with kinks, and {model.likelihood.name} has none"
        )
    if solution.draws is not None:
        raise Incompatible(
            "support vectors are those of a mode: fit svr, or 'interior_point'"
        )
    index = pd.Index(model.design.row_names, name="row")
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
