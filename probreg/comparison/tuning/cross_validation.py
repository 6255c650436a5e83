"""K-fold cross-validation of the mode: each fold is predicted from the others, at every scale."""

from collections.abc import Iterator
from dataclasses import dataclass, replace
from typing import Any

import numpy as np

from probreg.arguments.arrays import as_array
from probreg.comparison.tuning.criteria import (
    CRITERIA,
    Array,
    Assessment,
    Criterion,
    PredictionLoss,
    Request,
    all_aux_at,
    estimated_aux_at,
    has_mode,
    mean_and_error,
    modes,
)
from probreg.data import Design
from probreg.data.rows import full_weights, plus_offset
from probreg.errors import DataError, such_rows
from probreg.inference import PathSolution
from probreg.inference.penalized.left_out_modes import LeftOutParts
from probreg.inference.uncertainty.clusters import group_codes
from probreg.model.model import Model
from probreg.system.progress import each_of, progress_bar


def folds_of(
    model: Model, folds: Any = 10, *, groups: Any = None, seed: int = 0
) -> Array:
    """Return the fold (n,) of each row, 0 to K - 1: from one label per row, or K random folds of nearly equal weight.

    Rows of one of `groups` (a column of the design, or one label per row) share a fold; classes are spread evenly over the
    folds. A weighted row goes to one fold as a whole. DataError for fewer than two folds, or more than there are rows.

    >>> model = Model.from_arrays([[0.0], [1.0], [2.0], [3.0]], [1.0, 0.0, 2.0, 3.0])
    >>> folds_of(model, 2)
    array([1, 0, 0, 1])
    """
    n = model.design.n
    model.design.need_rows("cross-validation")
    if isinstance(folds, bool) or not isinstance(folds, int | np.integer):
        if groups is not None:
            raise DataError(
                "folds= already says the fold of every row: leave groups= out, or give a number of folds"
            )
        try:
            values = np.asarray(folds)
        except ValueError:
            raise DataError(
                "folds is a number of folds or one label per row, got rows of different lengths"
            ) from None
        return _folds_from_labels(
            model.design.counted_rows(values)
            if len(values.shape) and len(values) == model.design.rows
            else values,
            n,
        )
    if groups is None:
        codes = np.arange(n)
    else:
        codes = _group_codes(groups, model)
    units = int(codes.max()) + 1
    if not 2 <= folds <= units:
        unit_name = "rows" if groups is None else "groups"
        raise DataError(
            f"folds is a number from 2 to the {units} {unit_name} there are, got {folds}"
        )
    weight = full_weights(model.design.weights, n)
    coded = (
        model.likelihood.levels and model.design.observed.ndim == 1 and groups is None
    )
    if coded:
        stratum = model.design.observed.astype(int)
    else:
        stratum = np.zeros(n, int)
    kind = stratum[np.unique(codes, return_index=True)[1]]
    return _assign_folds(
        np.bincount(codes, weight), kind, int(folds), np.random.default_rng(seed)
    )[codes]


def _folds_from_labels(labels: Any, n: int) -> Array:
    values = as_array(labels, "folds")
    if values.ndim != 1 or len(values) != n:
        raise DataError(
            f"folds is a number or one label per row ({n} rows), got shape {values.shape}"
        )
    bad = [
        i for i, label in enumerate(values.tolist()) if label is None or label != label
    ]
    if len(bad):
        raise DataError(
            f"the fold of row {bad[0]} is missing ({such_rows(len(bad))}): give one label per row"
        )
    levels, codes = np.unique(values, return_inverse=True)
    if len(levels) < 2:
        raise DataError(f"every row is in fold {levels[0]}: give at least two folds")
    return codes


def _group_codes(groups: Any, model: Model) -> Array:
    variables = [c.split("[")[0] for c in model.design.columns]
    if isinstance(groups, str) and groups not in (*variables, *model.design.columns):
        raise DataError(
            f"{groups!r} is no column of the design, which keeps no others: give groups= one label per row"
        )
    ways = group_codes(groups, model.design)
    if len(ways) > 1:
        raise DataError("folds keep groups together one way: give one label per row")
    return ways[0]


def _assign_folds(
    weight: Array, kind: Array, folds: int, rng: np.random.Generator
) -> Array:
    """Assign each unit to the fold with the least weight of its class, then the least weight; heavy units first, random ties."""
    order = rng.permutation(len(weight))
    order = order[np.lexsort((-weight[order], kind[order]))]
    fold = np.empty(len(weight), int)
    load = [0.0] * folds
    of_kind = [[0.0] * folds for _ in range(int(kind.max()) + 1)]
    for i, w, stratum in zip(
        order.tolist(), weight[order].tolist(), kind[order].tolist()
    ):
        # argmin over folds of (weight of this kind, weight), in that order.
        k = min(zip(of_kind[stratum], load, range(folds)))[2]
        fold[i] = k
        load[k] += w
        of_kind[stratum][k] += w
    return fold


def held_out_losses(path: PathSolution, rows: Design, loss: PredictionLoss) -> Array:
    """(S, n) losses of other rows at every mode of a path; nan where there is no mode.

    >>> from probreg.priors import Normal
    >>> from probreg.inference import mode_path
    >>> from probreg.comparison.tuning.criteria import Squared
    >>> model = Model.from_arrays([0.0, 1.0], [3.0, 2.0], intercept=False, prior=Normal(1.0), aux={"sigma": 1.0})
    >>> held_out_losses(mode_path(model, [1.0]), model.design, Squared()).round(9)  # the mode is 1
    array([[9., 1.]])
    """
    losses = np.full((len(path.scales), rows.n), np.nan)
    for i in range(len(losses)):
        if has_mode(path, i):
            eta = rows.X @ path.beta[i]
            eta = plus_offset(eta, rows.offset)
            aux = path.base.likelihood.at_rows(all_aux_at(path, i), rows.precision)
            losses[i] = loss(path.base.likelihood, rows.observed, eta, aux)
    return losses


def losses_by_fold(solution: PathSolution, fold: Array, loss: PredictionLoss) -> Array:
    """(S, n) losses of each row at the modes without its fold; nan where there is none. Folds share the curvature of smooth
    likelihoods and the moments of Gaussian rows if possible; otherwise, and where a mode is in doubt, each fold is fitted alone."""
    model = solution.base
    losses = np.full((len(solution.scales), solution.base.design.n), np.nan)
    if solution.closed:
        parts = None
    else:
        parts = LeftOutParts.of(model, fold)
    if parts is not None:
        doubt = _by_shared_curvature(solution, parts, loss, losses)
    else:
        doubt = np.ones((len(solution.scales), int(fold.max()) + 1), bool)
    refit_folds = np.flatnonzero(doubt.any(0))
    trained = trainings(model, fold, refit_folds)

    def fit_fold(k: int) -> None:
        scale_indices = np.flatnonzero(doubt[:, k])
        rows_of_fold = np.flatnonzero(fold == k)
        path = modes(next(trained), solution.scales[scale_indices])
        losses[np.ix_(scale_indices, rows_of_fold)] = held_out_losses(
            path, model.design.take(rows_of_fold), loss
        )

    each_of(fit_fold, refit_folds.tolist(), "folds")
    return losses


def _by_shared_curvature(
    path: PathSolution, parts: LeftOutParts, loss: PredictionLoss, losses: Array
) -> Array:
    """Fill in the losses (S, n) and return the folds (S, K) in doubt."""
    model = parts.rows.model
    missing = None
    doubt = np.ones((len(path.scales), len(parts.slices)), bool)
    with progress_bar("scales", len(path.scales)) as bar:
        for i in bar.over(range(len(path.scales))):
            if not has_mode(path, i):
                continue
            point = parts.rows.point(path.beta[i], estimated_aux_at(path, i))
            deleted, missing = parts.without(path.model(i), point, missing)
            doubt[i] = ~deleted.good
            for k in (
                np.flatnonzero(deleted.good)
                if model.unknown
                else [0] * bool(deleted.good.any())
            ):
                if model.unknown:
                    rows_of_fold = parts.slices[k]
                else:
                    rows_of_fold = slice(None)
                aux = {
                    **model.fixed,
                    **{a: float(v[k]) for a, v in deleted.aux.items()},
                }
                aux = model.likelihood.at_rows(
                    aux,
                    None
                    if model.design.precision is None
                    else model.design.precision[rows_of_fold],
                )
                losses[i, parts.order[rows_of_fold]] = loss(
                    model.likelihood,
                    model.design.observed[rows_of_fold],
                    deleted.eta[rows_of_fold],
                    aux,
                )
    return doubt


def trainings(model: Model, fold: Array, numbers: Array) -> Iterator[Model]:
    """The models without each of some folds, under the prior that all rows of `model` bound."""
    for k in numbers:
        yield training_model(model, fold != k)


def training_model(model: Model, rows: Array) -> Model:
    """Return the model of these rows under the prior fixed by all rows of `model`."""
    return replace(model.with_prior_frozen, design=model.design.take(rows))


@CRITERIA.register
@dataclass(frozen=True)
class CrossValidation(Criterion):
    """The mean loss of a held-out observation over K folds.

    Each observation counts once. The standard error comes from the variance between folds,
    sqrt(sum_k n_k (L_k - mean)^2 / (n (K - 1))) (Hastie, Tibshirani & Friedman 2009, section 7.10).
    """

    name = "cv"
    holds_out = True
    deals = True

    def obstacle(self, model: Model, loss: PredictionLoss) -> str | None:
        return loss.obstacle(model.likelihood)

    def assess(self, path: PathSolution, ask: Request) -> Assessment:
        model = path.base
        fold = folds_of(ask.model or model, ask.folds, groups=ask.groups, seed=ask.seed)
        weight = full_weights(model.design.weights, model.design.n)

        losses = losses_by_fold(path, fold, ask.loss)
        # L_k = sum_{i in k} w_i L(y_i, mode without fold k) / n_k, n_k = sum_{i in k} w_i; score sum_k n_k L_k / n.
        sizes = np.bincount(fold, weight)
        fold_losses = np.stack(
            [np.bincount(fold, weight * row) / sizes for row in losses]
        )
        score, se = mean_and_error(fold_losses, sizes, len(sizes))
        description = f"the mean held-out {ask.loss.title} per observation of the mode, over {len(sizes)} folds"
        if not isinstance(ask.folds, int | np.integer):
            how = "the folds are those given"
        elif ask.groups is not None:
            how = (
                f"folds dealt by lot with seed {ask.seed}, the rows of a group together"
            )
        else:
            how = f"folds dealt by lot with seed {ask.seed}" + (
                ", classes spread evenly" * bool(model.likelihood.levels)
            )
        weight_note = "; a row of weight w counts as w observations and goes to one fold as a whole"
        dealt = (how + (weight_note if model.design.weights is not None else ""),)
        return Assessment(
            score,
            description,
            se,
            parts=fold_losses,
            notes=(*dealt, *_missing_notes(score)),
        )


def _missing_notes(score: Array) -> tuple[str, ...]:
    missing = int(np.isnan(score).sum())
    if missing:
        return (
            f"at {missing} of {len(score)} scales some fold has no mode, so no score",
        )
    return ()
