"""Whether Markov chains are to be believed: effective sample sizes, R-hat, and one verdict for every method that makes chains."""

from collections.abc import Iterable
from dataclasses import replace
from weakref import WeakKeyDictionary

import numpy as np

from probreg.inference.base import (
    Array,
    Draws,
    Solution,
    Status,
    outcomes_of,
    reported_coefficients,
)
from probreg.inference.sampling.rank_measures import ess_bulk, ess_tail, rank_r_hat
from probreg.model.model import Model

R_HAT = 1.01  # chains that agree stay below it (Vehtari et al. 2021)
_KNOWN: WeakKeyDictionary[Draws, dict[str, Array]] = (
    WeakKeyDictionary()
)  # what `mixing` measured
ESS = 100.0  # effective draws in all, at which the Monte Carlo error of a mean is a tenth of its standard deviation


def mixing(model: Model, solution: Solution) -> dict[str, Array]:
    """ess_bulk, ess_tail and r_hat (Vehtari et al. 2021): of the reported coefficients outcome by outcome, then of the
    nuisance parameters and prior scales that were sampled. The same draws are measured once."""
    draws = solution.posterior
    if draws not in _KNOWN:
        _KNOWN[draws] = _measured(
            model,
            reported_coefficients(model, draws["beta"]),
            solution,
            solution.scalars,
        )
    return {name: values.copy() for name, values in _KNOWN[draws].items()}


def judged(model: Model, solution: Solution) -> Solution:
    """The solution with the verdict on its chains, unless it ended badly by its own word.

    Chains disagree where the rank-normalised split R-hat of some parameter is above 1.01, or not a number since one stood
    still. They are too short where the bulk or tail effective sample size of some parameter is below 100. Steps that
    diverged are counted where the sampler keeps them. Source: Vehtari et al. 2021.
    """
    if not solution.status.good or solution.draws is None:
        return solution
    with np.errstate(all="ignore"):
        names = [name for name in solution.draws.values if name != "beta"]
        table = _measured(
            model, outcomes_of(model, solution.draws["beta"]), solution, names
        )
    worst = float(table["r_hat"].max())
    least = float(np.min([table["ess_bulk"], table["ess_tail"]]))
    diverging = np.asarray(solution.draws.stats.get("diverging", False))
    status = Status.SAMPLED
    detail = ""
    if len(solution.draws["beta"]) > 1 and not worst <= R_HAT:  # nan too
        status = Status.UNMIXED
        detail = f"largest R-hat {worst:.3f}"
    elif not least >= ESS:
        status = Status.TOO_SHORT
        detail = f"smallest effective sample size {least:.0f}"
    elif diverging.any():
        status = Status.DIVERGED
        detail = f"{int(diverging.sum())} of {diverging.size} draws"
    return replace(solution, status=status, detail=detail)


def _measured(
    model: Model, beta: Array, solution: Solution, names: Iterable[str]
) -> dict[str, Array]:
    """The measures of coefficients by outcome and of the draws of these names, each (chain, draw) or (chain, draw, k)."""
    by_outcome = beta[..., None] if beta.ndim == 3 else beta
    each = [
        by_outcome[..., j, k]
        for k in range(by_outcome.shape[3])
        for j in range(by_outcome.shape[2])
    ]
    for draws in (solution.posterior[name] for name in names):
        each += [*np.moveaxis(draws.reshape(*draws.shape[:2], -1), -1, 0)]
    return {
        "ess_bulk": np.array([ess_bulk(v) for v in each]),
        "ess_tail": np.array([ess_tail(v) for v in each]),
        "r_hat": np.array([rank_r_hat(v) for v in each]),
    }
