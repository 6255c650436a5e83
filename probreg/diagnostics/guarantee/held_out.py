"""Bounds from rows that a fit has not used."""

import numpy as np

from probreg.data import Design
from probreg.diagnostics.conformal.methods import fit_again
from probreg.diagnostics.findings import NotApplicable
from probreg.diagnostics.guarantee.judged import Array, BoundLine, Judged, mean_at
from probreg.errors import DataError
from probreg.fits.fit import Fit
from probreg.scores.bounds.single import HoldOut, hold_out

_KINDS: tuple[HoldOut, ...] = ("maurer_pontil", "hoeffding")
_WHAT = "a hold-out"


def require_refit(judged: Judged) -> None:
    """Raise NotApplicable if a fit on a part of the rows depends on the others."""
    learned = judged.design.recipe.learned
    if judged.chosen_from is None:
        raise NotApplicable(
            "its prior scale was chosen on all rows, including the hold-out: pass unused rows as data="
        )
    if learned:
        raise NotApplicable(
            f"the columns of {', '.join(learned)} depend on all rows, including the hold-out: pass unused rows as data="
        )


def split_lines(judged: Judged, share: float) -> list[BoundLine]:
    """Refit the model without a random share of the rows, and bound its risk on these."""
    require_refit(judged)
    order = np.random.default_rng(judged.seed).permutation(judged.n)
    cut = round(share * judged.n)
    if cut < 2 or cut == judged.n:
        raise DataError(
            f"holdout={share:g}: expected at least two and not all of the {judged.n} rows, got {cut}"
        )
    part = fit_again(judged.fit, judged.design.take(np.sort(order[cut:])), _WHAT)
    held_out = judged.design.take(np.sort(order[:cut]))
    note = f"it is for the fit on the other {judged.n - cut} rows"
    return unseen_lines(judged, part, held_out, note)


def unseen_lines(
    judged: Judged, fit: Fit, design: Design, note: str
) -> list[BoundLine]:
    """Return the bounds of a fit on rows that it has not used, by both inequalities."""
    return _hold_out_lines(judged, _losses(judged, fit, design), None, note)


def fold_lines(judged: Judged, folds: int) -> list[BoundLine]:
    """Bound the mean risk of K fits, each on the fold that it has not used."""
    require_refit(judged)
    if judged.n < 2 * folds:
        raise DataError(
            f"folds={folds}: expected at least two of the {judged.n} rows in each fold"
        )
    label = np.random.default_rng(judged.seed).permutation(judged.n) % folds
    losses = np.zeros((len(judged.losses), judged.n))
    for k in range(folds):
        part = fit_again(judged.fit, judged.design.take(label != k), _WHAT)
        losses[:, label == k] = _losses(judged, part, judged.design.take(label == k))
    note = (
        "it is for the average of the fits without a fold, not for the fit on all rows"
    )
    return _hold_out_lines(judged, losses, label, note)


def _losses(judged: Judged, fit: Fit, design: Design) -> Array:
    """Return each loss at each row, (losses, n)."""
    mean = mean_at(fit, design)
    y = fit.model.likelihood.response(design.observed)
    return np.stack([loss.function(mean, y) for loss in judged.losses])


def _hold_out_lines(
    judged: Judged, losses: Array, label: Array | None, note: str
) -> list[BoundLine]:
    lines = []
    for loss, values in zip(judged.losses, losses):
        for kind in _KINDS:
            bound = hold_out(
                values, delta=judged.share, most=loss.most, kind=kind, folds=label
            )
            lines.append(judged.line(bound.theorem, loss, bound, note))
    return lines
