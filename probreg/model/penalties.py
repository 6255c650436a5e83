"""The prior of a model as the penalty that its mode minimises: the calls of other packages, with their numbers.

The prior is read as -log p = l1 |w|_1 + l2 |w|^2 / 2, the same for all columns.

Smooth functions have other calls. With J(f) = unit |u|^2 of the coefficients u ~ N(0, tau^2 I), -2 log p = |u|^2 / tau^2 =
J(f) / (tau^2 unit): the mode minimises RSS + sp J(f), sp = sigma^2 / (tau^2 unit), or -2 log L + sp J(f) with sp = 1 / (tau^2 unit)
(Wood 2017).
"""

from dataclasses import replace
from functools import partial
from typing import Any

import numpy as np

from probreg.data.formula.functions import term_functions
from probreg.errors import Incompatible
from probreg.likelihoods import OfTrials, SoftmaxLikelihood
from probreg.model import likelihood_sums as sums
from probreg.model.compatibility import read_checked_aux
from probreg.priors import BlockPrior, Flat, GaussianPrior, Normal, Prior
from probreg.priors.elastic_net import AbsoluteAndSquare
from probreg.priors.penalties import Setting, Spelling, Spellings, spell


def setting_of(model: Any) -> Setting:
    """Return the properties of the data that other packages' criteria need; see `Model.penalty_setting`."""
    if (
        isinstance(model.likelihood, SoftmaxLikelihood)
        and not model.likelihood.symmetric
    ):
        raise Incompatible(
            "other packages penalise the coefficients of all classes, and this model has log odds against a reference class. For "
            "their ridge, lasso or elastic net use Categorical(symmetric=True); to penalise the log odds, state the scale of a prior, "
            "such as Laplace(0.5)"
        )
    # with a weighted RSS, packages define N differently
    if model.design.weight_kind == "precision":
        return Setting(model.likelihood.name, sigma=model.noise_held)
    two = (
        isinstance(model.likelihood, SoftmaxLikelihood)
        and len(model.likelihood.levels) == 2
    )
    y_sd = float(model.design.y_scale) if model.likelihood.noise_scale else None
    name = model.likelihood.name
    n = model.design.total or None
    of_trials = isinstance(model.likelihood, OfTrials)
    if of_trials:  # in other packages trials are weights of rows
        name = model.likelihood.single
        trials = partial(sums.trials, likelihood=model.likelihood)
        n = float(model.design.sum_over_rows(trials)[0])
    return Setting(name, n, model.noise_held, y_sd, two, of_trials)


def penalty_calls(model: Any, sigma: float | None) -> Spellings:
    """Return the calls of every package that has the penalty, at this noise scale if the model has none; see `Model.penalty`."""
    recipe = model.design.recipe
    if any(
        c in model.design.columns
        for t in recipe.terms
        if t.name not in recipe.processes
        for c in t.columns
    ):
        known = model.noise_held if sigma is None else float(sigma)
        return smooth_penalties(model, known)
    l1, l2, relative = _common_penalty(model)
    setting = setting_of(model)
    if sigma is not None:
        read_checked_aux(
            model.likelihood, {model.likelihood.noise_scale or "sigma": sigma}
        )
        setting = replace(setting, sigma=float(sigma))
    if relative and not l1 and setting.sigma is None:
        setting = replace(setting, sigma=1.0)  # sigma cancels: RSS + w^2 / scale^2
    if relative:
        sigma = setting.require("sigma", "a prior with a kink in units of sigma")
        l1 = l1 / sigma
        l2 = l2 / sigma**2
    notes = []
    if model.design.weights is not None:
        notes.append("N is the sum of the weights, which are given as sample weights")
    if model.design.weight_kind == "precision":
        notes.append(
            "RSS is the sum of precision * (y - mean)^2, with the precisions given as sample weights. Criteria per observation "
            "are left out, since packages divide a weighted RSS by different numbers"
        )
    if model.design.offset is not None:
        notes.append(
            "the offset is given to the package, or taken from y before where the noise is Gaussian"
        )
    columns = model.design.label_columns(
        np.flatnonzero(model.joint.informative).tolist()
    )
    rows = spell(l1, l2, setting, intercept=model.design.intercept is not None)
    return Spellings(columns, l1, l2, rows, tuple(notes))


def smooth_penalties(model: Any, sigma: float | None) -> Spellings:
    """The penalties of the smooth functions of a model with given scales, at the noise scale `sigma` if it is known. Incompatible without them."""
    functions = term_functions(model.design)
    design = model.design
    blocks = {
        tuple(design.columns[j] for j in b.columns): b for b in model.joint.blocks
    }
    ranges = {block for f in functions for block in f.of.blocks}
    wrong = [
        b
        for names, b in blocks.items()
        if names not in ranges and not isinstance(b.prior, Flat)
    ]
    if wrong:
        raise Incompatible(
            f"penalties of smooth functions are stated beside flat columns, and {design.describe_columns(wrong[0].columns)} has a "
            f"{wrong[0].prior.name} prior"
        )
    noise: float | None = 1.0
    criterion = "-2 log L"
    if model.likelihood.least_squares:
        noise = sigma
        criterion = "RSS"
    rows = list[Spelling]()
    for f in functions:
        penalty = f.penalty
        for name, block in zip(f.of.labels, f.of.blocks):
            unit = 1.0
            formula = "|u|², u the coefficients of the block"
            if penalty is not None:
                unit = penalty.unit
                formula = penalty.words
            weight = _weight(blocks.get(block), name, noise) / unit
            rows.append(
                Spelling(
                    name,
                    f"sp = {weight:.12g}",
                    f"{criterion} + sp J(f), J = {formula}",
                    {"sp": weight},
                )
            )
    columns = tuple(c for block in sorted(ranges) for c in block)
    return Spellings(
        columns,
        0.0,
        np.nan,
        tuple(rows),
        (),
        "penalties of smooth functions, by block:",
    )


def _weight(block: BlockPrior | None, name: str, noise: float | None) -> float:
    """sigma^2 / tau^2 of a block with the prior N(0, tau^2 I)."""
    if block is None or isinstance(block.prior, Flat):
        return 0.0
    if not isinstance(block.prior, GaussianPrior):
        raise Incompatible(
            f"{name} has no normal prior of a given scale: take the model of a fit, fit.model.penalty()"
        )
    P = block.prior.precision(len(block.columns))
    if not np.allclose(P, P[0, 0] * np.eye(len(P)), rtol=1e-12, atol=0) or np.any(
        block.prior.center(len(P))
    ):
        raise Incompatible(
            f"{name}: a penalty of one weight is a normal prior about zero of one scale"
        )
    if block.prior.sigma_units:
        return float(P[0, 0])
    if noise is None:
        raise Incompatible(
            f"{name}: the weight beside RSS needs sigma: pass sigma=, or take the model of a fit"
        )
    return float(P[0, 0] * noise**2)


def _common_penalty(model: Any) -> tuple[float, float, bool]:
    """(l1, l2, in units of sigma) with -log p = l1 |w| + l2 w^2 / 2 for every column except a free intercept. Raise
    Incompatible for other priors."""
    known = model.joint.informative
    kinds = {
        _penalty_weights(b.prior, len(b.columns))
        for b in model.joint.blocks
        if not isinstance(b.prior, Flat)
    }
    weights = kinds.pop() if len(kinds) == 1 else None
    if weights is None or not np.array_equal(known, ~model.design.is_intercept):
        raise Incompatible(
            "other packages take one Normal, Laplace or ElasticNet prior about zero, the same for all columns but the intercept"
        )
    return weights


def _penalty_weights(prior: Prior, q: int) -> tuple[float, float, bool] | None:
    if not isinstance(prior, Normal | AbsoluteAndSquare) or np.any(prior.location):
        return None
    if isinstance(prior, Normal):
        P = prior.precision(q)
        l1 = np.zeros(q)
        l2 = np.diagonal(P)
        if np.any(np.diag(l2) != P):
            return None
    else:
        l1, l2, *_ = prior.kinks(q)
    # scales that are meant to be equal may differ in their last bits
    if np.ptp(l1) > 1e-13 * l1.max() or np.ptp(l2) > 1e-13 * l2.max():
        return None
    return float(l1[0]), float(l2[0]), prior.sigma_units
