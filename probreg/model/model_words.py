"""A model in words: the lines that it prints of itself."""

import numpy as np

from probreg.data import Design
from probreg.model.prior_words import Stated, coefficient_prior_line, written_prior
from probreg.priors import Normal, Reference, joint
from probreg.priors.joint import first_of
from probreg.priors.weak import WEAK, WEAK_FACTOR
from probreg.system.terminal import few_names

_FEW = 5  # scales in a print


def model_words(model: Stated) -> list[str]:
    """What is modelled; the rows and columns; the prior; each nuisance parameter."""
    d = model.design
    priors = {a: model.aux_prior(a) for a in model.unknown}
    aux = [
        f"{a} ~ {'reference' if isinstance(v, Reference) else written_prior(v)}"
        for a, v in priors.items()
    ]
    aux += [f"{a} = {v:g}" for a, v in model.fixed.items()]
    return [
        f"Model: {model.likelihood.describe(d.response)}",
        f"{rows_text(d)}, columns {few_names(d.shown_columns)}",
        f"prior {coefficient_prior_line(model)}",
        *aux,
    ]


def rows_text(design: Design) -> str:
    """The number of rows, their weights and their file."""
    n = design.count
    if not n:
        return "rows not kept"
    text = f"rows {n}"
    if design.weight_kind != "frequency":
        text += f" ({design.weight_kind} weights)"
    elif design.total != n:
        text += f" (weight {design.total:g})"
    if design.source is not None:
        text += f" of {design.source.name}"
    return text


def weak_words(model: Stated) -> list[str]:
    """What the weak prior is here: in raw units, and in those of the outcome."""
    d = model.design
    outcomes = model.likelihood.predictors_apart
    scaled_joint = joint(
        model.prior, d.columns, d.is_intercept, outcomes=outcomes
    ).blocks  # before they are bound to the rows
    scales = {
        model.design.columns[j]: float(s)
        for before, b in zip(
            first_of(scaled_joint), first_of(model.joint.blocks), strict=True
        )
        if before.prior == WEAK and isinstance(b.prior, Normal)
        for j, s in zip(b.columns, np.broadcast_to(b.prior.scales, len(b.columns)))
    }
    if not scales:
        return []
    noisy = model.likelihood.noise_scale is not None
    scale_words = [f"{c} {s:.3g}" for c, s in list(scales.items())[:_FEW]]
    if len(scales) > _FEW:
        remainder = f" and {len(scales) - _FEW} more"
    else:
        remainder = ""
    if noisy:
        units = f"{WEAK_FACTOR:g} sd({model.design.response})/sd(x)"
    else:
        units = f"{WEAK_FACTOR:g}/sd(x)"
    return [
        f"weak prior: normal with scale {units}: {', '.join(scale_words)}{remainder}"
    ]
