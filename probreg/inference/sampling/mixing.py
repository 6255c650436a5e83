"""How well chains mixed: effective sample sizes and R-hat of every parameter, by arviz-stats on plain arrays."""

import numpy as np

from probreg.inference.base import Array, Solution
from probreg.inference.uncertainty.parameter_maps import reported_coefficients
from probreg.model.model import Model


def mixing_table(model: Model, solution: Solution) -> dict[str, Array]:
    """ess_bulk, ess_tail and r_hat (Vehtari et al. 2021): of the reported coefficients outcome by outcome, then of the
    nuisance parameters and prior scales that were sampled."""
    from arviz_stats.base import array_stats

    assert solution.draws is not None
    draws = solution.draws
    beta = reported_coefficients(model, draws["beta"])
    by_outcome = beta[..., None] if beta.ndim == 3 else beta
    each = [by_outcome[..., j, k] for k in range(by_outcome.shape[3]) for j in range(by_outcome.shape[2])]
    each += [draws[a] for a in (*solution.aux, *solution.hyper)]
    return {
        "ess_bulk": np.array([array_stats.ess(v, method="bulk") for v in each], dtype=float),
        "ess_tail": np.array([array_stats.ess(v, method="tail", prob=(0.05, 0.95)) for v in each], dtype=float),
        "r_hat": np.array([array_stats.rhat(v, method="rank") for v in each], dtype=float),
    }
