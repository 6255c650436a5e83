"""K-fold cross-validation of the mode: each fold is predicted from the others, at every scale."""

from dataclasses import dataclass, replace

import numpy as np

from probreg.comparison.tuning.criteria import (
    CRITERIA,
    Array,
    Assessment,
    Criterion,
    Request,
    all_aux_at,
    has_mode,
    mean_and_error,
    modes,
)
from probreg.comparison.tuning.folds import folds_of
from probreg.comparison.tuning.losses import PredictionLoss
from probreg.data import Design
from probreg.data.absent import full_weights, plus_offset
from probreg.inference import PathSolution
from probreg.model.model import Model


def held_out_losses(found: PathSolution, rows: Design, loss: PredictionLoss) -> Array:
    """(S, n) losses of other rows at every mode of a path; nan where there is no mode.

    >>> from probreg.priors import Normal
    >>> from probreg.inference import mode_path
    >>> from probreg.comparison.tuning.losses import Squared
    >>> model = Model.from_arrays([0.0, 1.0], [3.0, 2.0], intercept=False, prior=Normal(1.0), aux={"sigma": 1.0})
    >>> held_out_losses(mode_path(model, [1.0]), model.design, Squared()).round(9)  # the mode is 1
    array([[9., 1.]])
    """
    out = np.full((len(found.scales), rows.n), np.nan)
    for i in range(len(out)):
        if has_mode(found, i):
            eta = rows.X @ found.beta[i]
            eta = plus_offset(eta, rows.offset)
            out[i] = loss(found.base.likelihood, rows.observed, eta, all_aux_at(found, i))
    return out


def training(model: Model, rows: Array) -> Model:
    """The model of these rows under the prior that all rows of `model` bound."""
    return replace(model.with_prior_frozen, design=model.design.take(rows))


@CRITERIA.register
@dataclass(frozen=True)
class CrossValidation(Criterion):
    """The mean loss of a held-out observation over K folds: each observation counts once; the standard error is that of
    the mean of the folds, sqrt(sum_k n_k (L_k - mean)^2 / (n (K - 1))) (Hastie, Tibshirani & Friedman 2009, section 7.10).
    """

    name = "cv"
    holds_out = True
    deals = True

    def obstacle(self, model: Model, loss: PredictionLoss) -> str | None:
        if loss.name == "predictive":
            return "cv judges the mode's own prediction: score='predictive' goes with loo"
        return loss.obstacle(model.likelihood)

    def assess(self, found: PathSolution, ask: Request) -> Assessment:
        model = found.base
        fold = folds_of(model, ask.folds, groups=ask.groups, seed=ask.seed)
        weight = full_weights(model.design.weights, model.design.n)
        parts = []
        for k in range(int(fold.max()) + 1):
            out = fold == k
            trained = modes(training(model, ~out), found.scales)
            parts.append(held_out_losses(trained, model.design.take(out), ask.loss) @ weight[out] / weight[out].sum())
        each, sizes = np.stack(parts, 1), np.bincount(fold, weight)
        score, se = mean_and_error(each, sizes, len(sizes))
        said = f"the mean held-out {ask.loss.title} per observation of the mode, over {len(sizes)} folds"
        return Assessment(score, said, se, parts=each, notes=(*_dealt(model, ask), *_lost(score)))


def _dealt(model: Model, ask: Request) -> tuple[str, ...]:
    """How the folds were made."""
    if not isinstance(ask.folds, int | np.integer):
        how = "the folds are those given"
    elif ask.groups is not None:
        how = f"folds dealt by lot with seed {ask.seed}, the rows of a group together"
    else:
        how = f"folds dealt by lot with seed {ask.seed}" + (", classes spread evenly" * bool(model.likelihood.levels))
    whole = "; a row of weight w counts as w observations and goes to one fold as a whole"
    return (how + (whole if model.design.weights is not None else ""),)


def _lost(score: Array) -> tuple[str, ...]:
    lost = int(np.isnan(score).sum())
    return (f"at {lost} of {len(score)} scales some fold has no mode, so no score",) if lost else ()
