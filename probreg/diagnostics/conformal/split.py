"""Split conformal: a fit on one part of the rows, calibrated on the other, for any method and likelihood."""

import warnings
from collections.abc import Mapping
from dataclasses import dataclass, replace

import numpy as np

from probreg.arguments.scalars import Fraction, Seed, check_fields
from probreg.data import Design
from probreg.diagnostics.conformal.base import (
    KINDS,
    PRECISE,
    Array,
    Calibrated,
    ConformalMethod,
    ConformalRank,
    blocks,
    exchangeable,
    noise_unit,
    rows_by_frequency,
)
from probreg.diagnostics.conformal.scores import Score, need_one_trial, score_for
from probreg.errors import NotConverged
from probreg.fits.fit import Fit, fit as refit
from probreg.fits.prediction import atom_count, predictive, require_predictive
from probreg.inference import Status
from probreg.model.predictive import Predictive


@KINDS.register
@dataclass(frozen=True)
class Split(ConformalMethod):
    """Split conformal: refit the model on a random `share` of the rows and calibrate on the others.

    P(y_new in its interval) >= prob, and at most prob + 1/(n + 1) with n calibration rows and scores without ties, for
    exchangeable rows and any model.

    Parameters
    ----------
    share : float
        Share of the rows for the fit, between 0 and 1.
    score : str, optional
        "absolute" or "pit" for numbers, "pit" for counts, "probability" for classes (of one trial in a
        row); by default the first of these.
    seed : int
        Seed of the random split.

    References
    ----------
    Lei et al. 2018.

    Examples
    --------
    >>> import numpy as np
    >>> import probreg as pr
    >>> x = np.linspace(0.0, 1.0, 40)
    >>> pr.conformal(pr.ols(x, np.sin(9 * x)), prob=0.8, kind=Split(share=0.25)).calibrated.count
    30
    """

    share: Fraction = 0.5
    score: str | None = None
    seed: Seed = 0

    name = "split"

    def __post_init__(self) -> None:
        check_fields(self)

    def calibrate(self, fit: Fit, unseen: Design | None, prob: float) -> Calibrated:
        require_predictive(fit.solution, fit.method)
        score = score_for(fit.model.likelihood, self.score)
        if unseen is not None:
            need_one_trial(fit.model.likelihood, fit.model.given(unseen).get("trials"))
            precise = (PRECISE,) * (unseen.weight_kind == "precision")
            notes = ("the fit has not used these rows", *precise)
            return _calibrate_scores(fit, score, unseen, prob, notes)
        design, weight_notes = rows_by_frequency(fit.model.design)
        need_one_trial(fit.model.likelihood, fit.model.given(design).get("trials"))
        order = np.random.default_rng(self.seed).permutation(design.n)
        cut = round(self.share * design.n)
        ConformalRank(prob, design.n - cut)  # before the work
        part = fit_again(fit, design.take(np.sort(order[:cut])))
        calibration_rows = design.take(np.sort(order[cut:]))
        notes = (f"refitted on {cut} rows", *weight_notes)
        return _calibrate_scores(part, score, calibration_rows, prob, notes)


def fit_again(fit: Fit, design: Design, purpose: str = "split conformal") -> Fit:
    """Refit the model by the same method on these rows; NotConverged, which names the caller `purpose`, without an estimate."""
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # the guarantee does not need a good fit
        part = refit(replace(fit.model, design=design), fit.method, seed=fit.seed)
    if part.solution.status is Status.NO_MAXIMUM:
        raise NotConverged(
            f"{purpose}: the refit on {design.n} rows has no estimate ({part.solution.detail}): use more of them, give a prior, or "
            "pass unused rows"
        )
    return part


def _calibrate_scores(
    fit: Fit, score: Score, design: Design, prob: float, notes: tuple[str, ...]
) -> Calibrated:
    n = design.n
    rank = ConformalRank(prob, n)
    per_row = predictive_size(fit)
    parts = [
        score.of(predictive_at(fit, part), part.observed, noise_unit(part))
        for part in blocks(design, per_row)
    ]
    # most = s_(k), k = ceil((n + 1) prob), of the rows that calibrate   (Lei et al. 2018).
    most = float(rank.upper(np.concatenate(parts)))

    def region(new: Design) -> Mapping[str, Array]:
        p = predictive_at(fit, new)
        need_one_trial(p.likelihood, p.given.get("trials"))
        return {"mean": score.centre(p), **score.region(p, most, noise_unit(new))}

    precise = fit.model.design.weight_kind == "precision" and score.name == "absolute"
    measure = f"{'sqrt(w) ' * precise}{score.says} <= {most:.6g}"
    guarantee = (
        f"contains the response of a new row with probability at least {prob:g}, and at most {min(1.0, prob + 1 / (n + 1)):.4g} if no two scores "
        f"are equal, for any model, if {exchangeable(fit, f'the {n} calibration rows')}. It is an "
        "average over data sets and rows: for a given row or data set it may be less or more"
    )
    return Calibrated(fit, n, measure, guarantee, notes, region, per_row, most)


def predictive_at(fit: Fit, design: Design) -> Predictive:
    return predictive(fit.model, fit.solution, design, spread=False, seed=fit.seed)


def predictive_size(fit: Fit) -> int:
    """Return the number of atoms of the predictive distribution of one row."""
    return atom_count(fit.model, fit.solution) * (fit.model.shape[1] + 1)
