"""PyMC models from the parts of a model. PyMC is imported on use, and only here and in the classes that it mirrors.

`hyper_variables` and `observe` are the pieces of the graph of `pymc_by_term`.
"""

from collections.abc import Mapping
from typing import Any

import numpy as np

from probreg.data import Design
from probreg.likelihoods import Likelihood
from probreg.priors import (
    BlockPrior,
    HierarchicalPrior,
    JointPrior,
    Prior,
)

Array = np.ndarray
Hypers = Mapping[int, Mapping[str, Any]]  # block -> name in the prior -> variable


def hyper_names(prior: JointPrior, design: Design) -> dict[int, dict[str, str]]:
    """Return the names of the hyperparameters of each block: `tau`, or `tau[x]` with the block's columns where several blocks
    have hyperparameters, or with the smooth function that they are of; of one linear predictor of several with its name."""
    blocks = {
        i: b
        for i, b in enumerate(prior.blocks)
        if isinstance(b.prior, HierarchicalPrior)
    }
    columns = design.columns
    terms = {label for t in design.recipe.terms for label in t.labels}
    several = len({b.columns for b in blocks.values()}) > 1
    variables = {}
    for i, b in blocks.items():
        names = [
            columns[j].replace("/", "|") for j in (b.columns[0], b.columns[-1])
        ]  # a slash parts groups of a file
        if several:
            suffix = f"[{names[0] if len(b.columns) == 1 else '..'.join(names)}]"
        else:
            suffix = ""
        block_name = design.describe_columns(b.columns)
        if block_name in terms:
            suffix = f"[{block_name.replace('/', '|')}]"
        this: Any = b.prior
        full = {
            k: block_name.replace("/", "|")
            for k, block_name in this.hyper_labels.items()
        }
        if b.predictor is None:
            outcome = ""
        else:
            outcome = f"[{b.outcome}]".replace("/", "|")
        variables[i] = {k: full.get(k, f"{k}{suffix}") + outcome for k in this.hyper}
    return variables


def hyper_at(
    prior: JointPrior, design: Design, i: int, values: Mapping[str, Any]
) -> dict[str, Any]:
    """Return the hyperparameters of block i by the names of the prior, from the names in draws and reports."""
    this: Any = prior.blocks[i].prior
    return dict(
        this.internal(
            {k: values[name] for k, name in hyper_names(prior, design)[i].items()}
        )
    )


def hyper_variables(prior: JointPrior, design: Design, several: bool) -> Hypers:
    """Variables for the hyperparameters of each block, in the PyMC model that is open."""
    import pymc as pm

    variables = {}
    for i, names in hyper_names(prior, design).items():
        this: Any = prior.blocks[i].prior
        alone = not several or prior.blocks[i].predictor is not None
        dims = (f"coef_{i}",) if alone else ("predictor", f"coef_{i}")
        variables[i] = {
            k: h.prior.pymc(names[k], dims if h.each else None)
            for k, h in this.hyper.items()
        }
        # what a reader of the draws is told, where the prior takes something else
        natural = this.natural(variables[i])
        variables_by_name = pm.modelcontext(None).named_vars
        for k, name in names.items():
            if name not in variables_by_name:
                pm.Deterministic(
                    name, natural[k], dims=dims if this.hyper[k].each else None
                )
    return variables


def observe(
    design: Design,
    likelihood: Likelihood,
    eta: Any,
    aux_values: Mapping[str, Any],
    name: str = "y",
) -> None:
    """The response, given its linear predictors (n, m), in the PyMC model that is open."""
    import pymc as pm

    row_values = likelihood.given(design.observed)
    cls, parameters = likelihood.pymc(
        eta, **likelihood.at_rows(aux_values, design.precision), **row_values
    )
    y = likelihood.drawn(design.observed)
    if likelihood.is_discrete:
        y = y.astype(int)
    if design.weights is None:
        cls(name, **parameters, observed=y, dims=("obs", "level")[: y.ndim])
    else:
        pm.Potential(name, (design.weights * pm.logp(cls.dist(**parameters), y)).sum())


def unit_prior(block: BlockPrior) -> Prior:
    """The prior of a block given its hyperparameters, at a spread of 1."""
    if isinstance(block.prior, HierarchicalPrior):
        return block.prior.base
    return block.prior


def scale_factor(block: BlockPrior, unit: Any, hyper: Mapping[str, Any] | None) -> Any:
    """Return the factor of the scales of this block's plain prior."""
    if not isinstance(block.prior, HierarchicalPrior):
        return scale_unit(block, unit)
    return scale_unit(block, unit) * block.prior.spread(**(hyper or {}))


def scale_unit(block: BlockPrior, unit: Any) -> Any:
    """Return the factor of the scales of this block, at a noise scale of `unit`."""
    return unit if block.prior.sigma_units else 1.0
