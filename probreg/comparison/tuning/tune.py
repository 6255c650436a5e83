"""Modes along scales of a prior; choose the scale by a criterion, or C and epsilon of a support vector regression."""

import warnings
from dataclasses import dataclass, replace
from functools import cached_property
from itertools import product
from typing import Any, Literal

import numpy as np

from probreg.arguments.arrays import floats
from probreg.arguments.scalars import (
    ArrayLike,
    Count,
    DataArray,
    DataFrame,
    Dataset,
    Flag,
    Positive,
    Seed,
    check_arguments,
    read_argument,
)
from probreg.comparison.tuning.criteria import (
    CRITERIA,
    Array,
    Assessment,
    Criterion,
    LossName,
    Request,
    all_aux_at,
    aux_columns,
    criteria,
    evidence_along,
    found_modes,
    has_closed_evidence,
    modes,
)
from probreg.comparison.tuning.held_out import folds_of
from probreg.errors import (
    DataError,
    Incompatible,
    NotConverged,
    ProbregWarning,
    Remedy,
    warn_caller,
)
from probreg.fits.fit import Fit, fit, fit as fit_model
from probreg.fits.inference_data import (
    coefficient_dims,
    model_coordinates,
    reported_coefficients,
)
from probreg.inference import (
    Method,
    MethodName,
    PathSolution,
    default_scales,
    mode_path,
)
from probreg.inference.penalized.paths import rescale_original
from probreg.inference.penalized.piecewise_linear import SupportVectors, scaled_prior
from probreg.inference.status import Topic, important_note
from probreg.likelihoods import EpsilonInsensitive, OfTrials
from probreg.model.descriptions import coefficient_prior_line
from probreg.model.model import Model
from probreg.priors import Flat
from probreg.priors.base import PositivePerColumn
from probreg.system.terminal import each_of, progress_bar
from probreg.tables.render import PrintsLines

DF = "trace(H (H + P)^-1) over the coefficients off their kinks, H the information, P the curvature of -log prior, given aux"


@dataclass(frozen=True, eq=False, repr=False)
class RegularisationPath(PrintsLines):
    """The modes of a model along a grid of scales; `data` is a Dataset over (scale, coef[, outcome]).

    `data` contains beta; df, the effective degrees of freedom; log_likelihood at the
    mode; AIC and BIC, with k = df + unknown auxiliary parameters; log_evidence if it
    has a closed form; penalty, the weight in -log p = weight R(w) of each column, and
    lam = 2 sigma^2 weight in RSS + lam R(w) for a Gaussian likelihood; auxiliary
    parameters (the `scale` of a likelihood as noise_scale); kkt and status. nan where
    no mode was found.
    """

    model: Model
    solution: PathSolution

    @cached_property
    def data(self) -> Dataset:
        """Everything along the path, labelled; attrs define df and the quantity that the scale multiplies."""
        import xarray as xr

        solution = self.solution
        model = self.model
        good = found_modes(solution)
        mode = np.where(good[:, None, None], solution.beta, np.nan)
        if model.joint.contrast is None:
            beta = reported_coefficients(model, mode)
        else:  # the shift of an elastic net depends on its scale
            beta = np.stack(
                [
                    reported_coefficients(solution.model(i), v)
                    for i, v in enumerate(mode)
                ]
            )
        counted = criteria(solution)
        weight = penalties(solution)
        in_rss = {}
        if model.likelihood.least_squares:
            # -log p = RSS / (2 sigma^2) + weight R + constant, times 2 sigma^2: RSS + lam R with lam = 2 sigma^2 weight.
            sigma = np.array(
                [all_aux_at(solution, i)[model.noise_scale] for i in range(len(weight))]
            )
            in_rss = {"lam": (("scale", "coef"), 2.0 * sigma[:, None] ** 2 * weight)}
        columns = {
            "beta": (("scale", *coefficient_dims(model)), beta),
            "df": np.where(good, solution.df, np.nan), "log_likelihood": np.where(good, solution.log_lik, np.nan),
            "AIC": counted["aic"], "BIC": counted["bic"], **aux_columns(solution),
            "penalty": (("scale", "coef"), weight), **in_rss,
            "kkt": solution.kkt, "status": np.array([s.value for s in solution.status]),
        }  # fmt: skip
        if has_closed_evidence(model):
            columns["log_evidence"] = evidence_along(solution)
        columns = {
            k: v if isinstance(v, tuple) else (("scale",), v)
            for k, v in columns.items()
        }
        attrs = {
            "df": DF,
            "scale": f"multiplies every scale of the prior: {coefficient_prior_line(model)}",
        }
        return xr.Dataset(
            columns, {"scale": solution.scales, **model_coordinates(model)}, attrs
        )

    @property
    def scales(self) -> Array:
        """(S,), increasing."""
        return self.solution.scales

    @property
    def coef(self) -> DataArray:
        """Coefficients on the raw columns, DataArray (scale, coef[, outcome])."""
        return self.data["beta"]

    @check_arguments
    def model_at(self, scale: Positive) -> Model:
        """The model with every scale of its prior multiplied by `scale`, on the grid or off it. DataError unless positive."""
        return rescale_original(self.model, float(scale))

    @check_arguments
    def fit_at(
        self, scale: Positive, method: Method | MethodName = "auto", *, seed: Seed = 0
    ) -> Fit:
        """`fit(path.model_at(scale), method)`: the mode at this scale as a Fit, or the posterior."""
        return fit(self.model_at(scale), method, seed=seed)

    @check_arguments
    def scale_at(self, df: Positive) -> float:
        """Return the scale that gives a model with normal priors `df` effective degrees of freedom, including free columns.

        Incompatible for other priors, where df may jump or fall as the scale grows. DataError if `df` is above the number of columns,
        or below the number of free columns.
        """
        if not self.model.joint.gaussian:
            raise Incompatible(
                "scale_at is for normal priors, under which df rises steadily with the scale; read data['df']"
            )
        from scipy.optimize import brentq

        low, high = np.log(default_scales(self.model, 2)) + np.array([-5.0, 5.0])
        ends = mode_path(self.model, np.exp([low, high])).df
        if not ends[0] < df < ends[1]:
            raise DataError(
                f"df goes from {ends[0]:.4g} to {ends[1]:.4g} along this path, so no scale has df = {df!r}"
            )

        # df(s) = tr J (J + P / s^2)^-1 rises with s: one root of df(exp u) = df.
        def off(u: float) -> float:
            return mode_path(self.model, np.exp([u])).df[0] - df

        return float(np.exp(brentq(off, low, high, xtol=1e-13, rtol=1e-13)))

    @cached_property
    def ml(self) -> Fit | None:
        """The end of the path without prior: maximum likelihood; None if it does not exist."""
        with warnings.catch_warnings(action="ignore", category=ProbregWarning):
            ml_fit = fit(replace(self.model, prior=Flat()))
        return ml_fit if ml_fit.solution.status.good else None

    @property
    def _summary_lines(self) -> list[str]:
        """The model of the path, its scales, and the scale at the minimum of each criterion."""
        scales = self.scales
        bad = int((~found_modes(self.solution)).sum())
        lines = [
            f"Path: {self.model.likelihood.describe(self.model.design.response)}",
            f"{len(scales)} modes, every scale of {coefficient_prior_line(self.model)}, times {scales[0]:.4g} to {scales[-1]:.4g}",
        ]
        if bad < len(scales):
            data = self.data
            df = data["df"].values
            best = {q: scales[np.nanargmin(data[q].values)] for q in ("AIC", "BIC")}
            lines.append(
                f"effective degrees of freedom {np.nanmin(df):.4g} to {np.nanmax(df):.4g}; "
                f"least AIC at {best['AIC']:.4g}, least BIC at {best['BIC']:.4g}"
            )
        if bad:
            lines.append(f"note: {bad} modes were not found (variable status)")
        return lines


@check_arguments
def path(
    model: Model,
    scales: ArrayLike | None = None,
    *,
    n: Count = 100,
    progress: Flag | None = None,
) -> RegularisationPath:
    """Return the mode of a model at each scale of its prior, each started from the previous one: a regularisation path.

    A scale multiplies every scale of the model's prior, so 1 is the model itself, small is a strong prior and large is
    maximum likelihood. The grid of a prior with kinks starts at the scale where the first coefficient leaves its
    kink and spans a factor of 1000; other grids span the eigenvalues of the information. It warns if a mode was not found.

    Parameters
    ----------
    model : Model
        A model.
    scales : sequence of float, optional
        The scales; a grid of `n` of them otherwise.
    n : int
        Number of scales of the grid.
    progress : bool, optional
        Whether a bar is shown; by default after a second, at a terminal or in a notebook.

    Returns
    -------
    RegularisationPath
        `coef` over (scale, coef).

    Raises
    ------
    Incompatible
        For a flat prior, or one of unknown scale, and for effects by group.
    DataError
        For a prior without a scale.

    References
    ----------
    Friedman, Hastie & Tibshirani 2010.

    Examples
    --------
    >>> from probreg.priors import Laplace
    >>> model = Model.from_arrays([-1.0, 0.0, 1.0], [-1.0, 0.0, 1.0], prior=Laplace(1.0), aux={"sigma": 1.0})
    >>> path(model, [1 / 3, 1 / 1.5, 1 / 0.3]).coef.sel(coef="x1").values.round(9)
    array([0.  , 0.25, 0.85])
    """
    model.design.refuse_sampling("a path of scales with its AIC and BIC")
    refuse_groups(model, "path")
    with progress_bar("path", show=progress):
        solution = modes(model, grid_of(model, scales, n))
    bad = solution.scales[~found_modes(solution)].tolist()
    if bad:
        first = next(s for s in solution.status if not s.is_mode)
        message = f"path: no mode at {len(bad)} of {len(solution.scales)} scales, from {min(bad):.4g}: {first.value}"
        warn_caller(message)
    return RegularisationPath(model, solution)


def refuse_groups(model: Model, verb: str) -> None:
    """Raise Incompatible for effects by group."""
    if model.design.recipe.grouped:
        raise Incompatible(
            f"{verb} moves the scales that were stated, and effects by group have standard deviations. Fit by evidence, which "
            "finds them, and compare models by compare_models(fits, leave_out=...)"
        )


def grid_of(model: Model, scales: Any, n: int) -> Array:
    """Return the scales, increasing. DataError unless they are positive finite numbers."""
    if scales is None:
        return default_scales(model, n)
    return np.unique(read_argument("scales", scales, PositivePerColumn))


def penalties(solution: PathSolution) -> Array:
    """(S, p) weights of each column in -log p = weight R(w); 0 for a flat prior, nan for a prior that is not a penalty."""
    weights = np.zeros((len(solution.scales), solution.base.shape[0]))
    for i in range(len(weights)):
        sigma = solution.base.likelihood.noise(all_aux_at(solution, i))
        for b in solution.model(i).joint.blocks:
            if not isinstance(b.prior, Flat):
                weight = b.prior.penalty_weight(len(b.columns), b.prior.unit(sigma))
                weights[i, list(b.columns)] = np.nan if weight is None else weight
    return weights


@dataclass(frozen=True, eq=False, repr=False)
class TuningResult(PrintsLines):
    """The chosen scale of a prior; the result of `tune`.

    `model` has the prior at the chosen `scale` (a factor on every scale of the prior); `table` is a DataFrame with the
    score, its standard error, df and sigma of every scale, unrounded; `description` describes the minimised
    criterion; `parts` is a DataArray of the scores of folds (scale, fold) or observations (scale, obs), for criteria that use held-out rows.
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
    seed: Seed | None = None,
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
    seed : int, optional
        Seed of random folds, 0 by default.
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
    stated = {"folds": not default_folds, "groups": groups is not None}
    stated["seed"] = seed is not None
    for name, is_stated in stated.items():
        if is_stated and not criterion.deals:
            raise DataError(f"{name}= goes with cv; {criterion.name} has no folds")
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
    seed: Seed | None = None,
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
    seed : int, optional
        Seed of random folds, 0 by default.

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
