"""The prior of a model as the penalty that its mode minimises: the calls of other packages, with their numbers.

The prior is read as -log p = l1 |w|_1 + l2 |w|^2 / 2, the same for all columns. Smooth functions have calls of their own.
"""

from dataclasses import replace
from functools import partial

import numpy as np

from probreg.data import INTERCEPT
from probreg.errors import Incompatible
from probreg.likelihoods import OfTrials, SoftmaxLikelihood
from probreg.model import likelihood_sums as sums
from probreg.model.compatibility import read_checked_aux
from probreg.model.prior_words import Stated
from probreg.model.smooth_penalties import smooth_penalties
from probreg.priors.penalties.read_out import one_penalty
from probreg.priors.penalties.spelling import Setting, Spellings, spell


def setting_of(model: Stated) -> Setting:
    """The properties of the data that the criterion of another package needs; see `Model.penalty_setting`."""
    if (
        isinstance(model.likelihood, SoftmaxLikelihood)
        and not model.likelihood.symmetric
    ):
        raise Incompatible(
            "other packages penalise the coefficients of all classes, and this model has log odds against a reference class. For "
            "their ridge, lasso or elastic net use Categorical(symmetric=True); to penalise the log odds, state the scale of a prior, "
            "such as Laplace(0.5)"
        )
    if (
        model.design.weight_kind == "precision"
    ):  # what N is beside a weighted RSS, packages say differently
        return Setting(model.likelihood.name, sigma=model.noise_held)
    two = (
        isinstance(model.likelihood, SoftmaxLikelihood)
        and len(model.likelihood.levels) == 2
    )
    if model.likelihood.noise_scale:
        y_sd = float(model.design.y_scale)
    else:
        y_sd = None
    if isinstance(
        model.likelihood, OfTrials
    ):  # the others take trials as rows of weights
        n = float(
            model.design.fold(partial(sums.trials, likelihood=model.likelihood))[0]
        )
        return Setting(model.likelihood.single, n, two_classes=two)
    return Setting(
        model.likelihood.name, model.design.total or None, model.noise_held, y_sd, two
    )


def penalty_calls(model: Stated, sigma: float | None) -> Spellings:
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
    l1, l2, relative = one_penalty(model.joint, model.design.columns, INTERCEPT)
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
