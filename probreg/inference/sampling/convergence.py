"""Checks of Markov chains: effective sample sizes, R-hat, one status for every method with chains, and whether a sine basis covers the sampled lengths."""

from collections.abc import Iterable
from dataclasses import replace
from typing import Any

import numpy as np

from probreg.inference.base import (
    Array,
    Solution,
    Status,
    outcomes_of,
    reported_coefficients,
)
from probreg.inference.reported import reported_parameters
from probreg.inference.status import Note, Topic, important_note
from probreg.model.model import Model
from probreg.model.term_priors import hyper_names, lengths_beyond
from probreg.priors.gaussian_process import SineProcess, is_length

R_HAT = 1.01  # convergence threshold (Vehtari et al. 2021)
ESS = 100.0  # total effective draws: the Monte Carlo error of a mean is then a tenth of its standard deviation


def mixing_measures(fit: Any) -> dict[str, Array]:
    """Return ess_bulk, ess_tail and r_hat (Vehtari et al. 2021) of the draws of a fit.

    The order is: reported coefficients by outcome, the scalars of the summary, and nuisance parameters that the summary
    reports as other parameters.
    """
    beta = reported_coefficients(fit.model, fit.solution.posterior["beta"])
    reported = fit.once(reported_parameters)
    return _measure_series(beta, map(reported.draws_of, reported.with_nuisance))


def with_convergence_status(model: Model, solution: Solution) -> Solution:
    """Return the solution with the status of its chains, unless its status is already
    bad.

    Chains disagree if the rank-normalised split R-hat of some parameter is above 1.01,
    or nan because a chain did not move. They are too short if the bulk or tail
    effective sample size of some parameter is below 100. Divergent steps are counted if
    the sampler records them. Source: Vehtari et al. 2021.
    """
    if not solution.status.good or solution.draws is None:
        return solution
    with np.errstate(all="ignore"):
        draws = dict(solution.draws.values)
        beta = outcomes_of(model, draws.pop("beta"))
        table = _measure_series(beta, draws.values())
    worst = float(table["r_hat"].max())
    smallest = float(np.min([table["ess_bulk"], table["ess_tail"]]))
    diverging = np.asarray(solution.draws.stats.get("diverging", False))
    status = Status.SAMPLED
    detail = ""
    if len(solution.draws["beta"]) > 1 and not worst <= R_HAT:  # nan too
        status = Status.UNMIXED
        detail = f"largest R-hat {worst:.3f}"
    elif not smallest >= ESS:
        status = Status.TOO_SHORT
        detail = f"smallest effective sample size {smallest:.0f}"
    elif diverging.any():
        status = Status.DIVERGED
        detail = f"{int(diverging.sum())} of {diverging.size} draws"
    return replace(solution, status=status, detail=detail)


def _measure_series(beta: Array, others: Iterable[Array]) -> dict[str, Array]:
    """Return the measures of coefficients by outcome and of other draws, each
    (chain, draw) or (chain, draw, k)."""
    from arviz_stats.base import array_stats

    by_outcome = beta[..., None] if beta.ndim == 3 else beta
    series = [
        by_outcome[..., j, k]
        for k in range(by_outcome.shape[3])
        for j in range(by_outcome.shape[2])
    ]
    for draws in others:
        series += [*np.moveaxis(draws.reshape(*draws.shape[:2], -1), -1, 0)]
    chains = np.array(series)
    return {
        "ess_bulk": array_stats.ess(chains),
        "ess_tail": array_stats.ess(chains, method="tail", prob=(0.05, 0.95)),
        "r_hat": array_stats.rhat(chains),
    }


def with_served_lengths(model: Model, solution: Solution) -> Solution:
    """Return the solution with a note for each process that has draws of lengths outside the range of its sine basis."""
    draws = solution.posterior.flat
    notes = list[Note]()
    for i, names in hyper_names(model.joint, model.design).items():
        prior = model.joint.blocks[i].prior
        if not isinstance(prior, SineProcess) or not all(
            label in draws for label in names.values()
        ):
            continue
        lengths = [names[name] for name, _ in prior.unknown if is_length(name)]
        is_outside = lengths_beyond(
            prior.basis, {name: draws[names[name]] for name, _ in prior.unknown}
        )
        if lengths and is_outside.any():
            notes.append(
                important_note(
                    Topic.PRIOR,
                    "{lengths}: {share:.0%} of the draws are outside the range of the sine basis; give a prior with quantiles "
                    "0.01 to 0.99 inside it",
                    lengths=" and ".join(lengths),
                    share=np.mean(is_outside),
                )
            )
    return replace(solution, notes=(*solution.notes, *notes))
