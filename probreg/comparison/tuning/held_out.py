"""Cross-validation over folds and leave-one-out of the mode: rows are predicted from the other rows, at every scale."""

from dataclasses import dataclass, replace
from typing import Any

import numpy as np

from probreg.arguments.arrays import as_array, missing_objects
from probreg.comparison.tuning.criteria import (
    CRITERIA,
    LOSSES,
    Array,
    Assessment,
    Criterion,
    LossName,
    Request,
    all_aux_at,
    estimated_aux_at,
    found_modes,
    mean_and_error,
    modes,
    modes_with_curvature,
    row_losses,
)
from probreg.data import Design
from probreg.errors import DataError, Incompatible, such_rows
from probreg.fits.leave_out.modes import (
    RowModes,
    has_closed_form,
    modes_without_rows,
    refit_without_rows,
    relative_move,
    ridge_without_rows,
    rows_in_doubt,
)
from probreg.inference import PathSolution
from probreg.inference.base import hold_aux_at_limits
from probreg.inference.penalized.left_out_parts import LeftOutParts
from probreg.inference.uncertainty.clusters import group_codes
from probreg.model.model import Model
from probreg.system.terminal import each_of, progress_bar


def folds_of(
    model: Model, folds: Any = 10, *, groups: Any = None, seed: int | None = None
) -> Array:
    """Return the fold (n,) of each row, 0 to K - 1: from one label per row, or K random folds of nearly equal weight.

    Rows of one of `groups` (a column of the design, or one label per row) share a fold; classes are spread evenly over the
    folds. A weighted row goes to one fold as a whole. DataError for fewer than two folds, or more than there are rows.

    >>> model = Model.from_arrays([[0.0], [1.0], [2.0], [3.0]], [1.0, 0.0, 2.0, 3.0])
    >>> folds_of(model, 2)
    array([1, 0, 0, 1])
    """
    design = model.design
    design.need_rows("cross-validation")
    if isinstance(folds, bool) or not isinstance(folds, int | np.integer):
        for name, value in (("groups", groups), ("seed", seed)):
            if value is not None:
                raise DataError(
                    f"folds= already gives the fold of every row: leave {name}= out, or give a number of folds"
                )
        labels = as_array(folds, "folds")
        if labels.ndim and len(labels) == design.rows:
            labels = labels[design.places]
        return _folds_from_labels(labels, design.n)
    codes = np.arange(design.n)
    if groups is not None:
        names = {*design.read, *[c.split("[")[0] for c in design.columns]}
        if isinstance(groups, str) and groups not in names:
            raise DataError(
                f"{groups!r} is not a variable of this model, which keeps no others: give groups= one label per row"
            )
        codes, *others = group_codes(groups, design)
        if others:
            raise DataError(
                "folds keep groups together one way: give one label per row"
            )
    units = int(codes.max()) + 1
    if not 2 <= folds <= units:
        unit_name = "rows" if groups is None else "groups"
        raise DataError(
            f"folds is a number from 2 to the {units} {unit_name} there are, got {folds}"
        )
    kind = np.zeros(units, int)
    if model.likelihood.levels and design.observed.ndim == 1 and groups is None:
        kind = design.observed.astype(int)
    weight = np.bincount(codes, design.row_weights)
    rng = np.random.default_rng(seed or 0)
    return _assign_folds(weight, kind, int(folds), rng)[codes]


def _folds_from_labels(values: Array, n: int) -> Array:
    if values.ndim != 1 or len(values) != n:
        raise DataError(
            f"folds is a number or one label per row ({n} rows), got shape {values.shape}"
        )
    bad = np.flatnonzero(missing_objects(values))
    if len(bad):
        raise DataError(
            f"the fold of row {bad[0]} is missing ({such_rows(len(bad))}): give one label per row"
        )
    levels, codes = np.unique(values, return_inverse=True)
    if len(levels) < 2:
        raise DataError(f"every row is in fold {levels[0]}: give at least two folds")
    return codes


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


def held_out_losses(path: PathSolution, rows: Design, loss: LossName) -> Array:
    """(S, n) losses of other rows at every mode of a path; nan without a mode.

    >>> from probreg.priors import Normal
    >>> from probreg.inference import mode_path
    >>> model = Model.from_arrays([0.0, 1.0], [3.0, 2.0], intercept=False, prior=Normal(1.0), aux={"sigma": 1.0})
    >>> held_out_losses(mode_path(model, [1.0]), model.design, "squared").round(9)  # the mode is 1
    array([[9., 1.]])
    """
    losses = np.full((len(path.scales), rows.n), np.nan)
    likelihood = path.base.likelihood
    for i in np.flatnonzero(found_modes(path)).tolist():
        eta = rows.eta(path.beta[i])
        losses[i] = row_losses(loss, likelihood, rows, eta, all_aux_at(path, i))
    return losses


def losses_by_fold(solution: PathSolution, fold: Array, loss: LossName) -> Array:
    """(S, n) losses of each row at the modes without its fold; nan without a mode. Folds share the curvature of smooth
    likelihoods and the moments of Gaussian rows if possible; otherwise, and if a mode is in doubt, each fold is fitted alone."""
    model = solution.base
    losses = np.full((len(solution.scales), model.design.n), np.nan)
    doubt = np.ones((len(losses), int(fold.max()) + 1), bool)
    parts = None if solution.closed else LeftOutParts.of(model, fold)
    if parts is not None:
        doubt = _fill_by_shared_curvature(solution, parts, loss, losses)
    frozen = model.with_prior_frozen

    def fit_fold(k: int) -> None:
        scales = np.flatnonzero(doubt[:, k])
        rows = np.flatnonzero(fold == k)
        others = replace(frozen, design=model.design.take(fold != k))
        path = modes(others, solution.scales[scales])
        held_out = held_out_losses(path, model.design.take(rows), loss)
        losses[np.ix_(scales, rows)] = held_out

    each_of(fit_fold, np.flatnonzero(doubt.any(0)).tolist(), "folds")
    return losses


def _fill_by_shared_curvature(
    path: PathSolution, parts: LeftOutParts, loss: LossName, losses: Array
) -> Array:
    """Fill in the losses (S, n) and return the folds (S, K) in doubt."""
    model = parts.model
    missing = None
    doubt = np.ones((len(path.scales), len(parts.slices)), bool)
    fold = np.repeat(
        np.arange(doubt.shape[1]), [s.stop - s.start for s in parts.slices]
    )
    with progress_bar("scales", len(path.scales)) as bar:
        for i in bar.over(modes_with_curvature(path)):
            point = parts.point(path.beta[i], estimated_aux_at(path, i))
            deleted, missing = parts.without(path.model(i), point, missing)
            doubt[i] = ~deleted.good
            good = deleted.good[fold]
            aux = model.fixed | {a: v[fold[good]] for a, v in deleted.aux.items()}
            losses[i, parts.order[good]] = row_losses(
                loss, model.likelihood, model.design.take(good), deleted.eta[good], aux
            )
    return doubt


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

    def assess(self, path: PathSolution, ask: Request) -> Assessment:
        model = path.base
        fold = folds_of(ask.model or model, ask.folds, groups=ask.groups, seed=ask.seed)
        weight = model.design.row_weights

        losses = losses_by_fold(path, fold, ask.loss)
        # L_k = sum_{i in k} w_i L(y_i, mode without fold k) / n_k, n_k = sum_{i in k} w_i; score sum_k n_k L_k / n.
        sizes = np.bincount(fold, weight)
        parts = np.stack([np.bincount(fold, weight * row) / sizes for row in losses])
        score, se = mean_and_error(parts, sizes, len(sizes))
        description = f"the mean held-out {LOSSES[ask.loss]} per observation of the mode, over {len(sizes)} folds"
        note = f"folds dealt by lot with seed {ask.seed}"
        if not isinstance(ask.folds, int | np.integer):
            note = "the folds are those given"
        elif ask.groups is not None:
            note += ", the rows of a group together"
        elif model.likelihood.levels:
            note += ", classes spread evenly"
        if model.design.weights is not None:
            note += "; a row of weight w counts as w observations and goes to one fold as a whole"
        return Assessment(score, description, se, parts=parts, notes=(note,))


# ---- leave-one-out: exact for Gaussian models with normal priors, else one Newton step with refits of rows in doubt ----------


@CRITERIA.register
@dataclass(frozen=True)
class LeaveOneOut(Criterion):
    """The mean loss of each observation under the mode without it; its standard error is sd / sqrt(n).

    For squared error of a Gaussian model the mean is PRESS / n (Allen 1974).
    """

    name = "loo"
    holds_out = True

    def obstacle(self, model: Model) -> str | None:
        return model.design.rows_obstacle("loo")

    def assess(self, path: PathSolution, ask: Request) -> Assessment:
        model = path.base
        exact: list[RowModes | None] = [None] * len(path.scales)
        if path.ridge is not None:
            exact = list(ridge_without_rows(path.ridge, path.scales))
        results = each_of(
            lambda i: _losses(path, i, ask.loss, exact[i]), range(len(exact)), "scales"
        )
        parts = np.stack([losses for losses, _ in results])
        refits = sum(count for _, count in results)
        good = found_modes(path)
        bad = np.flatnonzero(np.isnan(parts[good]).all(0))
        if good.any() and len(bad):
            raise Incompatible(
                f"loo: without row {model.design.row_name(bad[0])} some coefficient has no estimate ({such_rows(len(bad))}): give its "
                "column a prior, or use cv with folds that keep such rows together"
            )
        weight = model.design.row_weights
        score, se = mean_and_error(parts, weight, weight.sum())
        method, notes = _describe_method(model, refits, parts.size)
        description = f"the mean leave-one-out {LOSSES[ask.loss]} per observation of the mode, {method}"
        return Assessment(score, description, se, parts=parts, notes=notes)


def _losses(
    path: PathSolution, i: int, loss: LossName, exact: RowModes | None
) -> tuple[Array, int]:
    """Return the loss of each observation at the i-th scale, and how many modes were refitted; `exact` are known modes."""
    status = path.status[i]
    if not status.is_mode:
        return np.full(path.base.design.n, np.nan), 0
    beta = path.beta[i]
    aux = estimated_aux_at(path, i)
    at_scale = hold_aux_at_limits(path.model(i), aux, status)
    model = hold_aux_at_limits(path.base, aux, status)
    aux = {name: aux[name] for name in model.unknown}
    modes = exact or modes_without_rows(at_scale, beta, aux)
    likelihood = model.likelihood
    with np.errstate(all="ignore"):  # a Newton step may leave the range of numbers
        losses = row_losses(
            loss, likelihood, model.design, modes.eta, model.fixed | modes.aux
        )
    # with more coefficients than rows or a kink, refits are expensive
    few_rows = model.design.n <= model.n_coefficients
    if exact is not None or few_rows or not model.joint.smooth:
        return losses, 0
    full_losses = row_losses(
        loss, likelihood, model.design, model.eta(beta), model.fixed | aux
    )
    move = relative_move(model, beta, aux, modes)
    weight = model.design.row_weights
    n = weight.sum()
    se = mean_and_error(losses[None], weight, n)[1][0]
    allowed = 1e-2  # of the standard error of the score: error of one Newton step
    rows = rows_in_doubt(losses, full_losses, move, weight, allowed * se * n)
    if len(rows):
        frozen = at_scale.with_prior_frozen
        refits = refit_without_rows(frozen, beta, aux, rows, shared=True)
        losses[rows] = row_losses(
            loss,
            likelihood,
            model.design.take(rows),
            refits.eta,
            model.fixed | refits.aux,
        )
    return losses, len(rows)


def _describe_method(
    model: Model, refits: int, losses: int
) -> tuple[str, tuple[str, ...]]:
    """Return how the losses were computed, and notes."""
    notes: tuple[str, ...] = ()
    if model.design.weights is not None:
        notes = ("one observation is left out: a row of weight w loses one of its w",)
    if has_closed_form(model):
        return "exactly, in closed form", notes
    method = "approximately, by one Newton step from the mode of all rows"
    if not model.joint.smooth:
        method += ", coefficients at a kink fixed there"
        if model.unknown:
            method += f", {', '.join(model.unknown)} fixed"
    if refits:
        method += ", and by refits where that is in doubt"
        notes = (*notes, f"{refits} of {losses} leave-one-out losses are of refits")
    return method, notes
