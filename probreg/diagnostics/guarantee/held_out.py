"""Bounds from rows that a fit has not used."""

import numpy as np

from probreg.data import Design
from probreg.diagnostics.conformal.split import fit_again
from probreg.diagnostics.guarantee.judged import Array, BoundLine, Judged, mean_at
from probreg.diagnostics.guarantee.losses import BoundedLoss
from probreg.errors import DataError
from probreg.fits.fit import Fit
from probreg.scores.bounds.single import HoldOut, hold_out

_KINDS: tuple[HoldOut, ...] = ("maurer_pontil", "hoeffding")
_WHAT = "a hold-out"


def refit_obstacle(judged: Judged) -> str | None:
    """Return why a fit on a part of the rows depends on the others, or None."""
    if judged.chosen_from is None:
        return "its prior scale was chosen on all rows, including the hold-out: pass unused rows as data="
    learned = judged.design.recipe.learned
    if learned:
        return f"the columns of {', '.join(learned)} depend on all rows, including the hold-out: pass unused rows as data="
    return None


def split_lines(judged: Judged, share: float) -> list[BoundLine]:
    """Refit the model without a random share of the rows, and bound its risk on these."""
    reason = refit_obstacle(judged)
    if reason is not None:
        return [BoundLine("hold-out", judged.losses[0].name, None, reason)]
    order = np.random.default_rng(judged.seed).permutation(judged.n)
    cut = round(share * judged.n)
    if cut < 2 or cut == judged.n:
        raise DataError(
            f"holdout={share:g}: expected at least two and not all of the {judged.n} rows, got {cut}"
        )
    held_out = np.sort(order[:cut])
    training_rows = np.sort(order[cut:])
    part = fit_again(judged.fit, judged.design.take(training_rows), _WHAT)
    return unseen_lines(
        judged,
        part,
        judged.design.take(held_out),
        f"it is for the fit on the other {len(training_rows)} rows",
    )


def unseen_lines(
    judged: Judged, fit: Fit, design: Design, note: str
) -> list[BoundLine]:
    """Return the bounds of a fit on rows that it has not used, by both inequalities."""
    return [
        line
        for loss in judged.losses
        for line in _hold_out_lines(
            judged, loss, _losses(loss, fit, design), None, note
        )
    ]


def fold_lines(judged: Judged, folds: int) -> list[BoundLine]:
    """Bound the mean risk of K fits, each on the fold that it has not used."""
    reason = refit_obstacle(judged)
    if reason is not None:
        return [BoundLine(f"{folds} folds", judged.losses[0].name, None, reason)]
    if judged.n < 2 * folds:
        raise DataError(
            f"folds={folds}: expected at least two of the {judged.n} rows in each fold"
        )
    label = np.random.default_rng(judged.seed).permutation(judged.n) % folds
    losses = [np.zeros(judged.n) for _ in judged.losses]
    for k in range(folds):
        part = fit_again(judged.fit, judged.design.take(label != k), _WHAT)
        for fold_losses, loss in zip(losses, judged.losses):
            fold_losses[label == k] = _losses(
                loss, part, judged.design.take(label == k)
            )
    note = (
        "it is for the average of the fits without a fold, not for the fit on all rows"
    )
    return [
        line
        for loss, fold_losses in zip(judged.losses, losses)
        for line in _hold_out_lines(judged, loss, fold_losses, label, note)
    ]


def _losses(loss: BoundedLoss, fit: Fit, design: Design) -> Array:
    return loss.function(
        mean_at(fit, design), fit.model.likelihood.response(design.observed)
    )


def _hold_out_lines(
    judged: Judged, loss: BoundedLoss, losses: Array, label: Array | None, note: str
) -> list[BoundLine]:
    bounds = [
        hold_out(losses, delta=judged.share, most=loss.most, kind=kind, folds=label)
        for kind in _KINDS
    ]
    return [
        BoundLine(bound.theorem, loss.name, bound, notes=(note, *judged.selection_cost))
        for bound in bounds
    ]
