"""Average predictions, comparisons and slopes of the mean response."""

from collections.abc import Mapping, Sequence
from dataclasses import replace
from typing import Any, Literal

import numpy as np

from probreg.arguments.scalars import (
    ArrayLike,
    CovarianceLike,
    Names,
    Natural,
    Probability,
    TableLike,
    Word,
    check_arguments,
    list_names,
    shown_value,
)
from probreg.comparison.effects.averages import AveragedEffect
from probreg.comparison.effects.evaluation import (
    PLAIN,
    RATIO,
    Evaluation,
    Scale,
)
from probreg.comparison.effects.result import Effects, evaluate_effects
from probreg.comparison.effects.scenarios import (
    Population,
    _require_variable,
    balance_levels,
    level_values,
    moves,
    population,
    row_groups,
    settings,
    trials_of,
)
from probreg.data.formula.functions import categories
from probreg.errors import DataError, Remedy
from probreg.fits.fit import Fit
from probreg.fits.fitted import require_predictive
from probreg.inference.uncertainty.multiplicity import check_adjust
from probreg.likelihoods import Likelihood, OfTrials
from probreg.likelihoods.links import LOG, LOGIT
from probreg.likelihoods.quantities import Quantity, RowQuantity
from probreg.model.group_effects import GroupsLike, groups_by_term, is_known
from probreg.model.predictive import quantity_called

MEASURES = {
    "difference": PLAIN,
    "ratio": RATIO,
    "odds_ratio": Scale(LOGIT, LOG, "odds ratio"),
}


@check_arguments
def predictions(
    fit: Fit,
    *,
    what: Word = "mean",
    data: TableLike | None = None,
    at: Mapping[str, Any] | None = None,
    by: Names | None = (),
    grid: Literal["balanced"] | None = None,
    groups: GroupsLike | ArrayLike | tuple[str, str] = "typical",
    prob: Probability = 0.95,
    covariance: CovarianceLike | None = None,
    lags: Natural | None = None,
    average_over: Literal["population", "sample"] | None = None,
    unit: Literal["trial", "row"] | None = None,
) -> Effects:
    """Average the mean response over rows, sum_i w_i E[y | x_i] / sum_i w_i, for each class; or another quantity of the rows, `what`.

    Rows are the training rows with their frequency weights, or the rows of another table `data`, each once. Intervals are
    Wald on the link scale by the delta method; intervals of a posterior are equal-tailed from the draws. They include the conditional
    variance of a Gaussian process at new inputs, with its covariance between rows.

    Parameters
    ----------
    fit : Fit
        A fit.
    what : str
        "mean"; "link" for its linear predictor; another parameter, such as "sigma", or its linear predictor, such as "log sigma";
        "median" of a continuous response.
    data : table, optional
        Rows to average over, each once. The table of the training data is used as the training rows, and adds columns for
        `by` that the formula does not read.
    at : mapping, optional
        Values that variables are set to first; each value of a list gives a row of the result.
    by : str or list of str
        Averages within these groups.
    grid : "balanced", optional
        Replaces the rows by every combination of the levels of the categories, each once, with numbers at their means.
    groups : {"typical", "known", "new"}, mapping, or labels
        Effects that vary by a group: zero, as in the typical group (lme4's `re.form=NA`); the effects of each row's own group;
        or drawn, as for new groups. With covariance="cluster" the clusters: a column's name, one label per
        row, or a pair of these.
    prob : float
        Probability of every interval, between 0 and 1.
    covariance : str or DataArray, optional
        The name of a kind ("HC3", "cluster", "HAC", ...) or the result of `fit.covariance(...)`, in place of the fit's covariance.
    lags : int, optional
        For covariance="HAC", as in `fit.covariance`.
    average_over : {"population", "sample"}, optional
        "population", the default for the rows of the model: the rows are a sample, and standard errors include the sampling of rows. For
        maximum likelihood they come from influence functions. Otherwise the variance of the average over the rows, by group where
        effects vary by group, is added to the variance of the coefficients. "sample", the default with `data`, `at` or `grid`: the
        rows are fixed, and standard errors come from the coefficients by the delta method.
    unit : {"trial", "row"}, optional
        If rows count trials, each trial has the same weight in the averages by default; "row" gives each row the same weight.

    Returns
    -------
    Effects
        `table` with one row per average.

    Raises
    ------
    DataError
        For unknown variables.
    NotConverged
        Without an estimate.
    Incompatible
        For averages that are not identified.

    Examples
    --------
    >>> from probreg import Model
    >>> from probreg.fits.fit import fit
    >>> X, y = [[0.0], [0.0], [0.0], [1.0], [1.0], [1.0]], [0, 0, 1, 0, 1, 1]
    >>> model = Model.from_arrays(X, y, columns=["x"], likelihood="bernoulli")
    >>> predictions(fit(model), at={"x": [0, 1]}).table["estimate"].round(6).tolist()
    [0.333333, 0.666667]
    """
    evaluation = _prepare(
        fit, what, data, at, by, grid, groups, average_over, unit,
        prob=prob, covariance=covariance, lags=lags, contrasts=False,
    )  # fmt: skip
    rows = evaluation.rows
    effects = [
        AveragedEffect(labels, (setting.here,))
        for labels, setting in settings(rows, at)
    ]
    link = rows.quantity.link
    description = f"average of {_name_of(fit, rows.quantity)} over {rows.what}"
    scale = Scale(link, link, "mean")
    evaluation = replace(evaluation, effects=effects, scale=scale)
    return evaluate_effects(evaluation, what=description)


@check_arguments
def comparisons(
    fit: Fit,
    variables: Names | Mapping[str, Any] | None = None,
    *,
    what: Word = "mean",
    measure: Literal["difference", "ratio", "odds_ratio"] = "difference",
    data: TableLike | None = None,
    at: Mapping[str, Any] | None = None,
    by: Names | None = (),
    grid: Literal["balanced"] | None = None,
    groups: GroupsLike | ArrayLike | tuple[str, str] = "typical",
    adjust: Word | None = None,
    prob: Probability = 0.95,
    covariance: CovarianceLike | None = None,
    lags: Natural | None = None,
    average_over: Literal["population", "sample"] | None = None,
    unit: Literal["trial", "row"] | None = None,
) -> Effects:
    """Compare the average of E[y | x_i] with a variable at b with the average at a, all else equal.

    Parameters
    ----------
    fit : Fit
        A fit.
    variables : str, list of str, or mapping, optional
        Names, or a mapping from a name to its move: a number d (x to x + d; 1 by default), a pair (a, b), "sd", "iqr",
        "minmax". For a category "reference" (every level against the first), "pairwise", "sequential" or a pair.
    what : str
        As in `predictions`: "mean", or another quantity of the rows ("sigma", "median").
    measure : {"difference", "ratio", "odds_ratio"}
        The contrast of the two averages; ratios and odds ratios have intervals on the log scale.
    data : table, optional
        As in `predictions`.
    at : mapping, optional
        As in `predictions`.
    by : str or list of str
        As in `predictions`.
    grid : "balanced", optional
        As in `predictions`: contrasts of means with equal weights for the levels of other categories.
    groups : {"typical", "known", "new"} or mapping
        As in `predictions`.
    adjust : {"holm", "bonferroni", "single-step", "tukey"}, optional
        p-values of no difference and intervals with simultaneous coverage for all rows of the table; `p_unadjusted` is for each row
        alone. "single-step" uses the joint distribution of the contrasts. "tukey" uses the studentised range for all pairs of
        levels of one variable (Tukey-Kramer if their standard errors differ), and the joint distribution if there are several
        such families, as with `by`. For maximum likelihood, mixed models and
        smooth functions.
    prob : float
        Probability of every interval, between 0 and 1.
    covariance : str or DataArray, optional
        As in `predictions`.
    lags : int, optional
        As in `predictions`.
    average_over : {"population", "sample"}, optional
        As in `predictions`.
    unit : {"trial", "row"}, optional
        As in `predictions`.

    Returns
    -------
    Effects
        `table` with one row per contrast.

    Raises
    ------
    DataError
        For unknown variables.
    NotConverged
        Without an estimate.
    Incompatible
        For averages that are not identified, and for tests of a posterior or of a mode under a prior.

    References
    ----------
    Hothorn, Bretz & Westfall 2008; Holm 1979; Hayter 1984; Searle, Speed & Milliken 1980 (balanced grids).

    Examples
    --------
    >>> from probreg import Model
    >>> from probreg.fits.fit import fit
    >>> model = Model.from_formula("y ~ g", {"y": [1.0, 2.0, 5.0, 6.0], "g": ["a", "a", "b", "b"]})
    >>> comparisons(fit(model), "g").table[["contrast", "estimate"]].values.tolist()
    [['b against a', 4.0]]
    """
    check_adjust(adjust)
    evaluation = _prepare(
        fit, what, data, at, by, grid, groups, average_over, unit,
        prob=prob, covariance=covariance, lags=lags,
    )  # fmt: skip
    rows = evaluation.rows
    changes, note = _parse_variables(fit, rows, variables)
    effects = []
    for where, setting in settings(rows, at):
        for name, how in changes.items():
            for move in moves(setting, name, how):
                pair = (setting.mean(name, move.low), setting.mean(name, move.high))
                labels = {"variable": name, "contrast": move.contrast} | where
                effects.append(AveragedEffect(labels, pair))
    scale = MEASURES[measure]
    quantity = _name_of(fit, rows.quantity)
    description = f"{scale.name} of averages of {quantity} over {rows.what}{note}"
    pairs_of = _all_pairs(rows, changes)
    evaluation = replace(
        evaluation, effects=effects, scale=scale, adjust=adjust, pairs_of=pairs_of
    )
    return evaluate_effects(evaluation, what=description)


@check_arguments
def slopes(
    fit: Fit,
    variables: Names | None = None,
    *,
    what: Word = "mean",
    data: TableLike | None = None,
    at: Mapping[str, Any] | None = None,
    by: Names | None = (),
    groups: GroupsLike | ArrayLike | tuple[str, str] = "typical",
    prob: Probability = 0.95,
    covariance: CovarianceLike | None = None,
    lags: Natural | None = None,
    average_over: Literal["population", "sample"] | None = None,
    unit: Literal["trial", "row"] | None = None,
) -> Effects:
    """Average d E[y | x_i] / d v over rows: the average marginal effect of a numeric variable v, through all its columns.

    Parameters
    ----------
    fit : Fit
        A fit.
    variables : str or list of str, optional
        Numeric variables; by default every one that the quantity depends on.
    what : str
        As in `predictions`: "mean", or another quantity of the rows ("sigma", "median").
    data : table, optional
        As in `predictions`.
    at : mapping, optional
        As in `predictions`.
    by : str or list of str
        As in `predictions`.
    groups : {"typical", "known", "new"} or mapping
        As in `predictions`.
    prob : float
        Probability of every interval, between 0 and 1.
    covariance : str or DataArray, optional
        As in `predictions`.
    lags : int, optional
        As in `predictions`.
    average_over : {"population", "sample"}, optional
        As in `predictions`.
    unit : {"trial", "row"}, optional
        As in `predictions`.

    Returns
    -------
    Effects
        `table` with one row per average.

    Raises
    ------
    DataError
        For unknown variables, and for a category, which has comparisons and no slope.
    NotConverged
        Without an estimate.
    Incompatible
        For averages that are not identified.

    Examples
    --------
    >>> from probreg import Model
    >>> from probreg.fits.fit import fit
    >>> model = Model.from_arrays([[1.0], [2.0], [4.0], [7.0]], [1.0, 3.0, 4.0, 8.0], columns=["x"])
    >>> found = fit(model)
    >>> bool(abs(slopes(found).table["estimate"][0] - found.coef.sel(coef="x").item()) < 1e-12)
    True
    """
    evaluation = _prepare(
        fit, what, data, at, by, None, groups, average_over, unit,
        prob=prob, covariance=covariance, lags=lags,
    )  # fmt: skip
    rows = evaluation.rows
    names, note = _parse_slopes(fit, rows, variables)
    effects = [
        AveragedEffect({"variable": name} | where, (setting.slope(name),))
        for where, setting in settings(rows, at)
        for name in names
    ]
    description = (
        f"average slope of {_name_of(fit, rows.quantity)} over {rows.what}{note}"
    )
    return evaluate_effects(replace(evaluation, effects=effects), what=description)


def _prepare(
    fit: Fit,
    what: str,
    data: Any,
    at: Any,
    by: str | Sequence[str] | None,
    grid: str | None,
    groups: Any,
    average_over: str | None,
    unit: str | None,
    *,
    covariance: Any,
    lags: int | None,
    **options: Any,
) -> Evaluation:
    """Check the arguments that predictions, comparisons and slopes share, and return the evaluation of averages without effects."""
    if average_over == "population" and grid is not None:
        raise DataError(
            "average_over='population' averages over the rows of the model, and grid= replaces them: leave one of the two out"
        )
    if at is not None and not isinstance(at, Mapping):
        raise DataError(
            f"at is a mapping from variables to values, such as {{'x': [0, 1]}}, got {type(at).__name__}"
        )
    clustered = isinstance(covariance, str) and covariance == "cluster"
    is_word = isinstance(groups, str) and groups in ("typical", "known", "new")
    if not clustered and not is_word and not isinstance(groups, Mapping):
        raise DataError(
            f"groups is 'known', 'new' or 'typical', or with covariance='cluster' the labels of clusters; got {shown_value(groups)}"
        )
    if clustered and isinstance(groups, str) and groups == "typical":
        raise DataError(
            "covariance='cluster' needs groups=: a column's name, one label per row, or a pair of these"
        )
    of_covariance = {"lags": lags}
    if clustered:  # the data of the effects are also the table for a column of groups
        of_covariance |= {"groups": groups, "data": data}
    keys = tuple(list_names(by))
    effects_of: GroupsLike = "typical" if clustered else groups
    quantity = quantity_called(fit.model.likelihood, what)
    rows = _population(fit, quantity, data, keys, effects_of, grid, unit)
    fixed = data is not None or bool(at) or grid is not None
    if average_over == "population" or (average_over is None and not fixed):
        if rows.units is None:
            raise DataError(
                "average_over='population' needs the rows of the model, and data= has other rows: leave one of the two out"
            )
        options["has_sampled_rows"] = True
    options |= {"covariance": covariance, "settings": of_covariance}
    return Evaluation(fit, rows, row_groups(rows, keys), **options)


def _population(
    fit: Fit,
    quantity: Quantity,
    data: Any,
    keys: tuple[str, ...],
    groups: GroupsLike,
    grid: str | None,
    unit: str | None,
) -> Population:
    require_predictive(fit)
    recipe = fit.model.design.recipe
    if groups != "typical" and not recipe.grouped:
        raise DataError(
            f"groups={groups!r} needs effects that vary by a group, and this model has none"
        )
    if grid and recipe.grouped and "known" in groups_by_term(recipe, groups).values():
        raise DataError(
            "a balanced grid has no groups: groups='typical' has effects of zero, 'new' those of one new group"
        )
    for name in keys:
        if name in recipe.of_groups_alone and not is_known(recipe, groups, name):
            raise DataError(
                f"by={name!r} names groups, which are all alike with groups={groups!r}",
                remedy=Remedy("groups", "known"),
            )
    trials = trials_of(fit.model)
    if unit == "trial" and trials is None:
        raise DataError(
            f"unit='trial' is for rows that count trials, and each row of this model is one observation ({fit.model.likelihood.named})"
        )
    rows = population(
        quantity,
        fit.model.design,
        data,
        keys,
        fill=groups == "typical",
        trials=None if unit == "row" else trials,
    )
    if grid:
        rows = balance_levels(rows)
    return rows.with_groups(groups)


def _all_pairs(rows: Population, requested: Mapping[str, Any]) -> int | None:
    """Return k if the contrasts are all pairs of the k levels of one variable."""
    if len(requested) != 1:
        return None
    ((name, how),) = requested.items()
    k = len(level_values(rows, name) or ())
    pairwise = how == "pairwise" or (
        k == 2 and how in (None, "reference", "sequential")
    )
    return k if pairwise else None


def _name_of(fit: Fit, quantity: Quantity) -> str:
    model = fit.model
    if isinstance(quantity, RowQuantity):
        return f"{quantity.name} of {model.design.response}"
    if isinstance(model.likelihood, OfTrials) and model.likelihood.outcomes:
        return f"P(class), {model.design.response}"
    if not model.likelihood.has_scalar_mean:
        return f"P({model.design.response} = level)"
    return mean_words(model.likelihood, model.design.response)


def mean_words(likelihood: Likelihood, response: str) -> str:
    """Return the name of the quantity that the linear predictor models: "the median of y", "P(y = 1)"."""
    mean_name = likelihood.mean_name(response)
    if mean_name != response:
        return mean_name
    return f"the {likelihood.centre} of {response}"


def _parse_variables(
    fit: Fit, rows: Population, variables: Any
) -> tuple[dict[str, Any], str]:
    """Return each requested variable with its change, or None, and a note on variables that the quantity does not depend on."""
    elsewhere = _variables_elsewhere(fit, rows)
    if variables is None:
        contrasts = dict.fromkeys(changing_variables(rows))
        if not contrasts:
            raise DataError(
                "this model has no variable to compare: its columns are an intercept alone"
            )
        if len(elsewhere) == len(contrasts):
            raise DataError(
                f"{_name_of(fit, rows.quantity)} is the same in every row, because no variable enters its formula; predictions() has its value"
            )
        for name in elsewhere:
            del contrasts[name]
    elif not len(variables):
        raise DataError("variables is empty: name at least one")
    elif isinstance(variables, Mapping):
        contrasts = dict(variables)
    else:
        contrasts = dict.fromkeys(list_names(variables))
    notes = [
        f"; {name} enters {predictor} only, see what={predictor!r}"
        for name, predictor in elsewhere.items()
        if variables is None or name in contrasts
    ]
    return contrasts, "".join(notes)


def _variables_elsewhere(fit: Fit, rows: Population) -> dict[str, str]:
    """Return the variables that do not affect the quantity, with their linear predictor."""
    recipe = fit.model.design.recipe
    likelihood = fit.model.likelihood
    names = changing_variables(rows)
    if likelihood.width > 1 and not likelihood.outcomes:
        parts = dict(
            zip(("mean", *likelihood.parameters[1:]), recipe.by_prefix.values())
        )
        uses = {k: part.all_variables for k, part in parts.items()}
    elif rows.quantity is likelihood:
        return {}
    else:
        uses = {"mean": tuple(names)}
    eta = rows.here.eta(fit.solution.beta)
    J = rows.quantity.link_mean_and_slope(eta, **fit.aux)[1]
    moved = {key for key, j in zip(uses, np.moveaxis(J, -1, 0)) if j.any()}
    owners = {name: [key for key in uses if name in uses[key]] for name in names}
    return {
        name: keys[0]
        for name, keys in owners.items()
        if keys and moved.isdisjoint(keys)
    }


def changing_variables(rows: Population) -> list[str]:
    """Return the variables of the columns that can change, without names of groups that have no effect."""

    return [
        v
        for v in rows.design.recipe.all_variables
        if v in rows.table and v not in rows.design.recipe.of_groups_alone
    ]


def _parse_slopes(fit: Fit, rows: Population, variables: Any) -> tuple[list[str], str]:
    """Return the numeric variables, and the note of `_parse_variables`."""
    parsed, note = _parse_variables(fit, rows, variables)
    grouped = categories(rows.design)
    numbers = [v for v in parsed if v not in grouped]
    if variables is None and not numbers:
        raise DataError(
            f"no variable of this model is a number: {', '.join(parsed)}; use comparisons"
        )
    chosen = numbers if variables is None else list(parsed)
    for name in chosen:
        _require_variable(rows, name, "variables")
        if name in grouped or name in rows.design.recipe.of_groups_alone:
            raise DataError(
                f"{name!r} is a category and has no slope: use comparisons(fit, {name!r})"
            )
    return chosen, note
