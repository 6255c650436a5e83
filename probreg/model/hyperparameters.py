"""Hyperparameters of the priors of a model: their names in draws and reports."""

from collections.abc import Mapping
from typing import Any

from probreg.data import Design
from probreg.priors import BlockPrior, HierarchicalPrior, JointPrior, Prior


def plain_name(text: str) -> str:
    """A name without slashes, which part the groups of a tree and of a file."""
    return text.replace("/", "|")


def hyper_names(prior: JointPrior, design: Design) -> dict[int, dict[str, str]]:
    """Return the names of the hyperparameters of each block: `tau`, or `tau[x]` with the block's columns where several blocks
    have hyperparameters, or with the smooth function that they are of; of one linear predictor of several with its name."""
    blocks = {
        i: b
        for i, b in enumerate(prior.blocks)
        if isinstance(b.prior, HierarchicalPrior)
    }
    terms = {label for t in design.recipe.terms for label in t.labels}
    several = len({b.columns for b in blocks.values()}) > 1
    names = {}
    for i, b in blocks.items():
        columns = design.describe_columns(b.columns)
        suffix = ""
        if columns in terms:
            suffix = f"[{columns}]"
        elif several:
            ends = dict.fromkeys((b.columns[0], b.columns[-1]))
            suffix = f"[{'..'.join(design.columns[j] for j in ends)}]"
        outcome = "" if b.predictor is None else f"[{b.outcome}]"
        this: Any = b.prior
        labels = this.hyper_labels
        names[i] = {
            k: plain_name(labels.get(k, f"{k}{suffix}") + outcome) for k in this.hyper
        }
    return names


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


def unit_prior(block: BlockPrior) -> Prior:
    """The prior of a block given its hyperparameters, at a spread of 1."""
    if isinstance(block.prior, HierarchicalPrior):
        return block.prior.base
    return block.prior
