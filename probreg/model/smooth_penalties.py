"""The priors of smooth functions as penalties: what each penalises, with which weight, and mgcv's call where it has the same.

With J(f) = unit |u|^2 of the coefficients u ~ N(0, tau^2 I), -2 log p = |u|^2 / tau^2 = J(f) / (tau^2 unit): the mode minimises
RSS + sp J(f), sp = sigma^2 / (tau^2 unit), or -2 log L + sp J(f) with sp = 1 / (tau^2 unit). mgcv minimises RSS + sum_j sp_j b'S_j b
(deviance in place of RSS); its thin plate S without rescaling is J itself, the unit of its basis cancelling (Wood 2003, 2017).
"""

import re
from typing import NamedTuple

import numpy as np

from probreg.data import Design
from probreg.data.formula.functions import TermFunction, term_functions
from probreg.errors import Incompatible
from probreg.likelihoods import Likelihood
from probreg.priors.base import GaussianPrior
from probreg.priors.flat import Flat
from probreg.priors.joint import BlockPrior, JointPrior
from probreg.priors.penalties.spelling import Spelling, Spellings

_FAMILIES = {
    "gaussian": "",
    "bernoulli": ", family = binomial",
    "binomial": ", family = binomial",
    "poisson": ", family = poisson",
}
_NAME = re.compile(r"[A-Za-z][A-Za-z0-9_]*")


class PenalisedModel(NamedTuple):
    """What the penalties of a model follow from; `sigma` is None where it is not known."""

    design: Design
    likelihood: Likelihood
    joint: JointPrior
    sigma: float | None


def smooth_penalties(model: PenalisedModel) -> Spellings:
    """The penalties of the smooth functions of a model with given scales. Incompatible without them."""
    functions, design = term_functions(model.design), model.design
    blocks = {tuple(design.columns[j] for j in b.columns): b for b in model.joint.blocks}
    ranges = {block for f in functions for block in f.of.blocks}
    if wrong := [b for names, b in blocks.items() if names not in ranges and not isinstance(b.prior, Flat)]:
        raise Incompatible(
            f"penalties of smooth functions are stated beside flat columns, and {design.called(wrong[0].columns)} has a "
            f"{wrong[0].prior.name} prior"
        )
    gaussian = model.likelihood.least_squares
    noise = model.sigma if gaussian else 1.0
    rows, weights, fitted = list[Spelling](), dict[str, float](), "RSS" if gaussian else "-2 log L"
    notes = list[str]()
    for f in functions:
        stated = None if f.smooth is None else f.smooth.penalty
        for name, block in zip(f.of.labels, f.of.blocks):
            unit = 1.0 if stated is None else stated.unit
            weights[name] = _weight(blocks.get(block), name, noise) / unit
            what = "|u|², u the coefficients of the block" if stated is None else stated.words
            rows.append(
                Spelling(name, f"sp = {weights[name]:.12g}", f"{fitted} + sp J(f), J = {what}", {"sp": weights[name]})
            )
        if stated is None:
            what = (
                "a Gaussian process has no such penalty"
                if f.smooth is None
                else "whose product has other margins and another unit"
            )
            notes.append(f"{f.label}: no sp of mgcv is stated, {what}")
        elif not stated.of:
            notes.append(f"{f.label}: no sp of mgcv is stated, whose B-splines have other knots")
    call, why = _mgcv(model, functions, weights)
    rows += [Spelling("mgcv", call, f"{fitted} + sum_j sp_j b'S_j b", dict(weights))] if call else []
    notes += [why] if why else []
    columns = tuple(c for block in sorted(ranges) for c in block)
    return Spellings(columns, 0.0, np.nan, tuple(rows), tuple(notes), "penalties of smooth functions, by block:")


def _weight(block: BlockPrior | None, name: str, noise: float | None) -> float:
    """sigma^2 / tau^2 of a block with the prior N(0, tau^2 I)."""
    if block is None or isinstance(block.prior, Flat):
        return 0.0
    if not isinstance(block.prior, GaussianPrior):
        raise Incompatible(f"{name} has no normal prior of a given scale: take the model of a fit, fit.model.penalty()")
    P = block.prior.precision(len(block.columns))
    if not np.allclose(P, P[0, 0] * np.eye(len(P)), rtol=1e-12, atol=0) or np.any(block.prior.center(len(P))):
        raise Incompatible(f"{name}: a penalty of one weight is a normal prior about zero of one scale")
    if block.prior.sigma_units:
        return float(P[0, 0])
    if noise is None:
        raise Incompatible(f"{name}: the weight beside RSS needs sigma: pass sigma=, or take the model of a fit")
    return float(P[0, 0] * noise**2)


def _mgcv(model: PenalisedModel, functions: tuple[TermFunction, ...], weights: dict[str, float]) -> tuple[str, str]:
    """mgcv's call with the same minimum, and why there is none, one of them empty."""
    design = model.design
    bases = [f.smooth for f in functions if f.smooth is not None and not f.by]
    plain = len(bases) == len(functions) and all((stated := b.penalty) is not None and stated.of for b in bases)
    names = [name for f in functions for name in f.inputs]
    others = [c for c, own in zip(design.columns, design.of_terms) if not own]
    if model.likelihood.name not in _FAMILIES:
        return "", f"no call of mgcv is stated for {model.likelihood.named} likelihood"
    if not plain:
        return "", ""
    if any(_NAME.fullmatch(c) is None for c in [*names, *others, design.response]):
        return (
            "",
            "no call of mgcv is stated, which is for columns as they are: its sp is that of each block all the same",
        )
    if any(basis.knots_drawn for basis in bases):
        return "", "no call of mgcv is stated: of so many distinct points it draws other knots"
    terms = [c for c in others if c != "Intercept"]
    terms += [f"s({', '.join(f.inputs)}, k = {basis.width + 1})" for f, basis in zip(functions, bases)]
    terms += [] if "Intercept" in others else ["0"]
    sp = ", ".join(f"{weights[f.of.labels[0]]:.12g}" for f in functions)
    family = _FAMILIES[model.likelihood.name]
    call = f"gam({design.response} ~ {' + '.join(terms)}{family}, sp = c({sp}), control = gam.control(scalePenalty = FALSE))"
    return call, ""
