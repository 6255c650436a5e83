"""The residual processes of a model's terms at its solution."""

from collections.abc import Mapping
from typing import Any

import numpy as np

from probreg.inference import Solution
from probreg.model.model import Model
from probreg.model.off_span import OffSpan, off_span

Array = np.ndarray


def off_span_of(
    model: Model, solution: Solution, aux: Mapping[str, Array | float] | None = None
) -> OffSpan | None:
    """Return the residual processes, with an atom for each draw or one for the estimate.

    None if no term has a residual process. `aux` are the nuisance parameters of the atoms if they differ from the solution's.
    """
    if not model.design.recipe.processes and not model.design.recipe.grouped:
        return None
    draws = None
    values: Mapping[str, Any] = solution.aux
    if solution.draws is not None:
        draws = solution.draws.flat
        values = {a: draws[a] for a in model.unknown}
    if aux is None:
        aux = {**model.fixed, **values}
    return off_span(model, draws, model.noise(aux))
