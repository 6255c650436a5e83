"""The log prior at the draws of a posterior.

Draws of a process, or of effects by group, include their hyperparameters h, and the coefficients alone have no known density: the log prior of such a
draw is log p(beta | h) + log p(h). Every other prior of unknown scale has p(beta), its scale integrated out.
"""

from collections.abc import Collection, Mapping

import numpy as np

from probreg.model.hyperparameters import hyper_at, hyper_names
from probreg.model.model import Model
from probreg.priors import HierarchicalPrior

Array = np.ndarray


def needed_hyper(model: Model) -> dict[int, dict[str, str]]:
    """Return the names in draws of the hyperparameters that the density of a block needs, by the number of the block."""
    names = hyper_names(model.joint, model.design)
    return {
        i: draw_names
        for i, draw_names in names.items()
        if not model.joint.blocks[i].prior.known
    }


def blocks_given_scales(model: Model) -> frozenset[int]:
    """Return the numbers of the blocks with coefficients that are drawn given their hyperparameters: effects by group, and processes.

    Their density p(b | h) is a part of the model and no prior that a user states.
    """
    grouped = {
        i
        for i, b in enumerate(model.joint.blocks)
        if model.design.grouped_of(b.columns) is not None
    }
    return frozenset(grouped | set(needed_hyper(model)))


def log_prob_of_coefficients(
    model: Model,
    draws: Mapping[str, Array],
    *,
    proper: bool = False,
    blocks: Collection[int] | None = None,
) -> Array:
    """log p(beta | sigma, h) (...,) at draws beta (..., p, m) and others (...,), of all blocks or of some; with `proper` of proper
    blocks alone whose density is known without h."""
    hyper = {
        i: hyper_at(model.joint, model.design, i, draws)
        for i in needed_hyper(model)
        if (blocks is None or i in blocks) and not proper
    }
    sigma = np.asarray(model.noise(draws))
    return model.joint.log_prob_given(
        draws["beta"], hyper, sigma, proper=proper, blocks=blocks
    )


def log_prob_of_hyper(
    model: Model, draws: Mapping[str, Array], *, proper: bool = False
) -> dict[str, Array]:
    """log p(h) (...,) of each hyperparameter that the density of the coefficients is given."""
    log_probs: dict[str, Array] = {}
    for i, names in needed_hyper(model).items():
        prior = model.joint.blocks[i].prior
        if isinstance(prior, HierarchicalPrior) and (prior.proper or not proper):
            densities = prior.log_prob_of_hyper(
                {h: draws[name] for h, name in names.items()}
            )
            log_probs |= {name: densities[h] for h, name in names.items()}
    return log_probs


def log_prior_of_draws(
    model: Model, draws: Mapping[str, Array], *, proper: bool = False
) -> Array:
    """log p(beta, aux, h) (...,) at each draw; with `proper` of the proper parts of the prior alone, of a process log p(h).

    Powers of p(beta | h) would weigh h by how many columns a process has (Kallioinen et al. 2024 scale the priors of h).
    """
    # log p(beta, aux, h) = log p(beta | aux, h) + log p(aux) + log p(h)
    total = log_prob_of_coefficients(model, draws, proper=proper)
    for a in model.unknown:
        if model.aux_prior(a).proper or not proper:
            total = total + model.aux_prior(a).log_prob(np.asarray(draws[a]))
    for log_probs in log_prob_of_hyper(model, draws, proper=proper).values():
        total = total + log_probs
    return total
