"""Choose the scale of a prior by a criterion, or C and epsilon of a support vector regression."""

from dataclasses import dataclass, replace
from itertools import product
from typing import Any, Literal

import numpy as np

from probreg.arguments.arrays import floats
from probreg.arguments.scalars import Flag, Seed, check_arguments
from probreg.arguments.types import ArrayLike, DataFrame
from probreg.comparison.tuning.criteria import (
    CRITERIA,
    Assessment,
    Criterion,
    LossName,
    Request,
    aux_columns,
    modes,
)
from probreg.comparison.tuning.held_out import folds_of
from probreg.comparison.tuning.scale_path import grid_of, refuse_groups
from probreg.errors import DataError, Incompatible, NotConverged, Remedy
from probreg.fits.fit import Fit, fit as fit_model
from probreg.inference.notes import Topic, important_note
from probreg.inference.penalized.paths import rescale_original
from probreg.inference.penalized.support_vectors import SupportVectors, scaled_prior
from probreg.likelihoods import EpsilonInsensitive, OfTrials
from probreg.model.model import Model
from probreg.system.progress import each_of, progress_bar
from probreg.tables.render import PrintsLines


@dataclass(frozen=True, eq=False, repr=False)
class TuningResult(PrintsLines):
    """The chosen scale of a prior; the result of `tune`.

    `model` has the prior at the chosen `scale` (a factor on every scale of the prior); `table` is a DataFrame with the
    score, its standard error, df and sigma of every scale, unrounded; `description` describes the minimised
    criterion; `parts` is a DataArray of the scores of folds (scale, fold) or observations (scale, obs), if rows were held out.
    """

    model: Model
    scale: float
    table: DataFrame
    description: str
    criterion: Criterion
    rule: str
    notes: tuple[str, ...] = ()
    parts: Any = None

    @property
    def best(self) -> float:
        """The scale of the minimum score; it is the chosen scale unless the rule is "1se"."""
        return float(self.table["score"].idxmin())

    @property
    def _summary_lines(self) -> list[str]:
        """The criterion, the selected scale and its score, and the notes."""
        row = self.table.loc[self.scale]
        score = f"scale {self.scale:.5g}: score {row['score']:.5g}"
        if np.isfinite(row["se"]):
            score += f" (SE {row['se']:.4g})"
        return [
            f"Choice: {self.description}",
            f"  {score}, effective degrees of freedom {row['df']:.4g}",
            *(f"  note: {note}" for note in self.notes),
        ]


@check_arguments
def tune(
    model: Model,
    by: str | Criterion = "cv",
    *,
    scales: ArrayLike | None = None,
    folds: ArrayLike = 10,
    groups: ArrayLike | None = None,
    rule: Literal["min", "1se"] = "min",
    score: LossName = "log",
    seed: Seed = 0,
    progress: Flag | None = None,
) -> TuningResult:
    """Multiply the scales of a prior by the factor with the best value of a criterion.

    The prior is bound to all rows once, so every fold has the same prior.

    Parameters
    ----------
    model : Model
        A model.
    by : str or Criterion
        "cv", "loo" (in closed form for Gaussian models with normal priors, else by one Newton step, with a note),
        "gcv", "evidence", "aic", "bic", or a registered Criterion.
    scales : sequence of float, optional
        The factors to try.
    folds : int or array (n,)
        For "cv": their number, or one label per row.
    groups : array (n,), optional
        For "cv": rows with the same label stay together.
    rule : {"min", "1se"}
        "1se" takes the strongest prior with a score within one standard error of the minimum.
    score : {"log", "squared", "zero_one"}
        The loss of a held-out observation.
    seed : int
        Seed of the folds.
    progress : bool, optional
        Whether a bar is shown; by default after a second, at a terminal or in a notebook.

    Returns
    -------
    TuningResult
        The model at the chosen scale, and the scores.

    Raises
    ------
    DataError
        For settings that cannot be.
    Incompatible
        For a criterion that cannot judge this model.
    NotConverged
        When no scale has a score.

    Examples
    --------
    >>> from probreg.priors import Normal
    >>> model = Model.from_arrays([[0.0], [1.0], [2.0], [3.0]], [0.0, 1.2, 1.8, 3.1], prior=Normal(1.0), aux={"sigma": 0.2})
    >>> tune(model, "evidence", scales=[0.01, 1.0, 100.0])
    Choice: minimises the negative log evidence -log p(y | scale), coefficients integrated out in closed form
      scale 1: score 2.6135, effective degrees of freedom 1.992
      note: columns with a flat prior count with density 1: the evidence compares scales, not models
    """
    import pandas as pd
    import xarray as xr

    model.design.refuse_sampling("a choice of scale")
    refuse_groups(model, "tune")
    criterion = CRITERIA.resolve(by)
    if rule == "1se" and not criterion.holds_out:
        raise DataError(
            f"{criterion.name} has no standard error, so no one-standard-error rule",
            remedy=Remedy("rule", "min"),
        )
    if score != "log" and not criterion.holds_out:
        raise DataError(
            f"score={score!r} goes with cv and loo; {criterion.name} has a score of its own"
        )
    default_folds = isinstance(folds, int) and folds == 10
    if not criterion.deals and (groups is not None or not default_folds):
        raise DataError(
            f"folds= and groups= go with cv; {criterion.name} deals no folds"
        )
    with progress_bar("tune", show=progress):
        solution = modes(model, grid_of(model, scales, criterion.grid))
        reason = criterion.obstacle(model)
        likelihood = model.likelihood
        has_classes = likelihood.levels and not isinstance(likelihood, OfTrials)
        if score == "zero_one" and not has_classes:
            reason = f"zero_one counts wrong classes, and {likelihood.named} response has none"
        if reason is not None:
            raise Incompatible(reason)
        request = Request(score, folds, groups, seed, model)
        assessment = criterion.assess(solution.seen or solution, request)
    if not np.isfinite(assessment.score).any():
        raise NotConverged(
            f"{criterion.name} has a score at no scale: {solution.status[-1].value}"
        )
    i = int(np.nanargmin(assessment.score))
    description = f"minimises {assessment.description}"
    if rule == "1se":
        # Scales increase: the least with score <= min score + its standard error   (Hastie et al. 2009, section 7.10).
        limit = assessment.score[i] + assessment.se[i]
        i = int(np.flatnonzero(assessment.score <= limit)[0])
        description = f"takes the strongest prior whose score is within one standard error of the least: {assessment.description}"
    parts: Any = assessment.parts
    if parts is not None:
        of_parts = ("obs", model.design.row_names)
        if criterion.deals:
            of_parts = ("fold", np.arange(parts.shape[1]))
        coords = dict([("scale", solution.scales), of_parts])
        parts = xr.DataArray(parts, coords, tuple(coords), name="score")
    scale = float(solution.scales[i])
    chosen = rescale_original(solution.base, scale)
    return TuningResult(
        model=replace(chosen, scales_compared=len(solution.scales)),
        scale=scale,
        table=pd.DataFrame(
            {
                "score": assessment.score,
                "se": assessment.se,
                "df": solution.df,
                **assessment.columns,
                **aux_columns(solution),
            },
            index=pd.Index(solution.scales, name="scale"),
        ),
        description=description,
        criterion=criterion,
        rule=rule,
        notes=_notes(criterion, assessment, i),
        parts=parts,
    )


def _notes(criterion: Criterion, assessment: Assessment, i: int) -> tuple[str, ...]:
    n = len(assessment.score)
    notes = list(assessment.notes)
    if criterion.holds_out:
        notes.insert(
            0,
            "the prior was bound to all rows once, on standardised columns to their spread: it is the same density whichever "
            "rows are held out",
        )
    if n > 1 and i in (0, n - 1):
        end = "smallest" if i == 0 else "largest"
        notes.append(
            f"the chosen scale is the {end} of the grid: the least score may lie beyond it, so give other scales="
        )
    missing = int(np.isnan(assessment.score).sum())
    if missing:
        notes.append(f"{missing} of {n} scales have no score")
    return tuple(notes)


# ---- choose C and epsilon of a support vector regression ------------------------------------------------------------


@check_arguments
def tune_svr(
    fit: Fit,
    *,
    C: ArrayLike,
    epsilon: ArrayLike,
    folds: ArrayLike = 10,
    seed: Seed = 0,
) -> Fit:
    """Choose C and epsilon of a support vector regression by the mean absolute error of K-fold cross-validation.

    Every pair is fitted on the same folds. The absolute error is comparable between pairs, which the epsilon-insensitive loss
    is not.

    Parameters
    ----------
    fit : Fit
        The result of `pr.svr`, which states the kernel, the rows and the columns.
    C : float or array
        The weights of the loss to try.
    epsilon : float or array
        The half widths of the tube to try, each with every C.
    folds : int or array (n,)
        Their number, or one label per row; as many folds as rows leave one row out.
    seed : int
        Seed of the folds.

    Returns
    -------
    Fit
        The fit of all rows at the pair with the smallest error, which a note states.

    Raises
    ------
    DataError
        For values out of range, and for folds that cannot be.
    Incompatible
        For a fit of another likelihood.

    Examples
    --------
    >>> import probreg as pr
    >>> x = np.linspace(0.0, 6.0, 30)
    >>> start = pr.svr(x, np.sin(x), C=1.0, epsilon=0.1)
    >>> print(tune_svr(start, C=[0.01, 10.0], epsilon=[0.01, 0.3], folds=5).notes[0])
    C = 10 and epsilon = 0.01 have the smallest mean absolute error of 5 folds, ..., of 4 pairs
    """
    model = fit.model
    if not isinstance(model.likelihood, EpsilonInsensitive):
        raise Incompatible("tune_svr needs a fit of pr.svr")
    fold = folds_of(model, folds, seed=seed)
    pairs = list(
        product(
            np.ravel(floats(C, "C")).tolist(),
            np.ravel(floats(epsilon, "epsilon")).tolist(),
        )
    )
    if not pairs:
        raise DataError("C and epsilon need at least one value each")
    unit = replace(
        model, aux={}, prior=scaled_prior(model, 1.0), scales_compared=len(pairs)
    )
    candidates = [
        (replace(unit, likelihood=EpsilonInsensitive(e)), SupportVectors(C=c))
        for c, e in pairs
    ]
    errors = np.zeros((len(pairs), model.design.n))

    def predict_fold(pair_and_fold: tuple[int, int]) -> None:
        j, k = pair_and_fold
        candidate, method = candidates[j]
        others = replace(candidate, design=model.design.take(fold != k))
        rows = model.design.take(fold == k)
        eta = rows.eta(fit_model(others, method).solution.beta)[:, 0]
        errors[j, fold == k] = np.abs(rows.observed - eta)

    each_of(predict_fold, [*np.ndindex(len(pairs), int(fold.max()) + 1)], "folds")
    weights = model.design.row_weights
    mean_errors = np.average(errors, axis=1, weights=weights)
    i = int(np.argmin(mean_errors))
    note = important_note(
        Topic.METHOD,
        "C = {C:g} and epsilon = {epsilon:g} have the smallest mean absolute error of {folds} folds, {error:.6g}, of {count} pairs",
        C=pairs[i][0],
        epsilon=pairs[i][1],
        folds=fold.max() + 1,
        error=mean_errors[i],
        count=len(pairs),
    )
    best = fit_model(*candidates[i])
    return replace(best, notes=(note, *best.notes))
