"""Compare models of the same observations: criteria, evidence, predictive scores, stacking weights.

Maximum likelihood and Bayesian fits share a table because each has a density of an observation that it has not seen:
the plug-in density at the estimate without it, or the posterior predictive without it.

Stacking is the mixture of predictive distributions with the best leave-one-out log score.
"""

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from functools import partial
from typing import Any, Literal

import numpy as np
from scipy.special import logsumexp

from probreg.arguments.scalars import DataFrame, Flag, TableLike, Word, check_arguments
from probreg.comparison.models.likelihood_ratio import likelihood_ratios, ratio_lines
from probreg.comparison.same_question import fits_by_name, refuse_other_data
from probreg.data import ArrayColumns
from probreg.data.checked_arrays import full_weights, own_labels
from probreg.errors import DataError, rows_named
from probreg.fits.fit import Fit
from probreg.fits.goodness import NOT_OF_REML, exact_fit, why_no_criterion
from probreg.fits.inference_data import observation_rows
from probreg.fits.leave_out.groups import group_labels_of, leave_group_out
from probreg.fits.leave_out.rows import (
    LeftOut,
    leave_one_out,
    log_mean_density,
)
from probreg.inference import Status
from probreg.inference.base import has_zero_noise
from probreg.likelihoods import OfTrials
from probreg.system.terminal import progress_bar
from probreg.tables import PrintsTable, Table

Array = np.ndarray


def stacking(log_density: Array, share: Array | None = None) -> Array:
    """Return the stacking weights: argmax over the simplex of sum_i log sum_k w_k exp(log_density[i, k]), (K,) from (N, K).

    `share` (N,) of sum one is the weight of each observation in the sum, by default 1 / N.

    The objective is concave, and EM steps w_k <- w_k mean_i(p_ik / sum_l w_l p_il) increase it. Two steps give the rate of convergence, and one longer
    step replaces many (Varadhan & Roland 2008): 34 in place of 16,923 for two logistic regressions of 6,366 rows. They stop
    if no model gains more than a rounding error; at the maximum max_k mean_i(p_ik / mixture_i) <= 1. Source: Yao,
    Vehtari, Simpson & Gelman 2018. DataError for a log density that is not finite.

    >>> stacking(np.log([[0.9, 0.1], [0.1, 0.9], [0.9, 0.1], [0.9, 0.1]])).round(6)
    array([0.8125, 0.1875])
    """
    if not np.isfinite(log_density).all():
        i, k = np.argwhere(~np.isfinite(log_density))[0]
        raise DataError(
            f"observation {i} has log density {log_density[i, k]} under model {k}: no weights can be found"
        )
    p = np.asfortranarray(np.exp(log_density - log_density.max(1, keepdims=True)))
    w = np.full(p.shape[1], 1.0 / p.shape[1])
    if share is None:
        share = np.full(len(p), 1.0 / len(p))
    most_steps = 5_000  # each of two steps of EM and a longer one
    tolerance = 1e-9  # per observation: largest distance of the score from the best one
    for _ in range(most_steps):
        first, gain, _ = _em_step(p, share, w)
        if gain <= 1.0 + tolerance:
            break
        second, _, score = _em_step(p, share, first)
        w = _longer_step(p, share, w, first, second, score)
    return w


def _em_step(p: Array, share: Array, w: Array) -> tuple[Array, float, float]:
    """The weights after one step from w, the largest gain of a model, and the score at w."""
    mixture = p @ w
    gain = p.T @ (share / mixture)
    new = w * gain
    return new / new.sum(), gain.max(), share @ np.log(mixture)


def _longer_step(
    p: Array, share: Array, w: Array, first: Array, second: Array, score: float
) -> Array:
    """Return the longest step from w (two EM steps lead to `first` and `second`) with weights above 0 and a score of at least `first`'s."""
    # w(a) = w - 2 a r + a^2 v with r = first - w, v = (second - first) - r; a = -|r| / |v|, and a = -1 is `second`
    r = first - w
    v = second - first - r
    size = math.sqrt(v @ v)
    a = -math.sqrt(r @ r) / size if size > 0.0 else -1.0
    while a < -1.01:
        trial = w - 2.0 * a * r + a * a * v
        if trial.min() > 0.0 and share @ np.log(p @ trial) >= score:
            return trial / trial.sum()
        a = (a - 1.0) / 2.0
    return second


_COLUMNS = (
    "elpd_loo",
    "se_loo",
    "elpd_diff",
    "se_diff",
    "weight",
    "k",
    "AIC",
    "AICc",
    "BIC",
    "log_evidence",
    "heldout",
)


@dataclass(frozen=True, eq=False, repr=False)
class ModelComparison(PrintsTable):
    """Models compared by their predictions; the result of `compare_models`.

    `table` is a DataFrame with one row per fit, best leave-one-out score first, unrounded; `pointwise` (observation, fit)
    a DataArray of the leave-one-out log densities; `notes` are notes on the table.

    Columns: k, the number of parameters for maximum likelihood (identified coefficients and unknown auxiliary parameters),
    log_lik at the estimate, AIC = 2k - 2 log_lik, AICc, BIC = k log n - 2 log_lik (nan unless the fit is by maximum
    likelihood; with effects that vary by a group the marginal likelihood of Evidence(criterion="ML"), without AICc); log_evidence if it is exact (after Evidence at the scales that maximise it); elpd_loo and its SE;
    elpd_diff from the best and the SE of this paired difference; p_loo, the optimism of the in-sample score; weight
    by stacking; heldout and its SE; loo, the method of leave-one-out.

    `tests`, if `test` was given: a DataFrame with fit, against, statistic, df, p and p_chi2.
    """

    table: DataFrame
    pointwise: DataFrame
    notes: tuple[str, ...]
    tests: DataFrame | None = None

    def difference(self, first: str, second: str) -> tuple[float, float]:
        """Return the elpd of `first` minus the elpd of `second` and the standard error sqrt(N var_i) of this paired difference."""
        a, b = (self.pointwise.sel(fit=name).values for name in (first, second))
        weight = self.pointwise.coords.get("sampling_weight")
        return _sum_and_error(a - b, None if weight is None else weight.values)

    @property
    def _display_table(self) -> Table:
        shown = [c for c in _COLUMNS if c in self.table and self.table[c].notna().any()]
        formats = dict.fromkeys(shown, _format_decimal) | {"k": "{:.0f}".format}
        tests = [] if self.tests is None else ratio_lines(self.tests)
        notes = (*tests, *(f"note: {note}" for note in self.notes))
        head = (self.table.attrs["what"],)
        return Table.from_pandas(
            self.table[shown], formats=formats, head=head, notes=notes
        )


def _format_decimal(value: float) -> str:
    if abs(value) < 1:
        return f"{value:.3f}"
    return f"{value:.2f}"


@check_arguments
def compare_models(
    fits: Mapping[str, Fit] | Sequence[Fit],
    *,
    heldout: TableLike | None = None,
    leave_out: Word | None = None,
    test: Literal["lr"] | None = None,
    progress: Flag | None = None,
) -> ModelComparison:
    """Compare models of the same observations by their predictions of data that they have not seen.

    Leave-one-out is exact for least squares, conjugate posteriors and Gaussian modes at fixed scales (closed form). Other modes are refitted without
    each row up to 500 rows; with more rows one Newton step is used, with refits until the estimated error of the sum is below 0.01 nats.
    Other posteriors use PSIS. For rows that are read in blocks the table has the criteria but no leave-one-out, with a note. Under sampling weights each row is left out whole, and elpd_loo is sum_i w_i log p(y_i | other rows) with weights of sum n,
    an estimate for the population; its error is the standard error of a weighted mean.

    Parameters
    ----------
    fits : mapping from str to Fit, or sequence of Fit
        A sequence is named by the methods.
    heldout : table, optional
        Further rows with their response, scored by the predictive density of every fit.
    leave_out : str, optional
        The grouping factor, such as "Subject": elpd_loo is then for the rows of each group given the rows of all others, exact for
        Gaussian noise at given scales. Scales of an evidence fit are fixed; scales of a posterior are averaged over weighted draws.
    test : {"lr"}, optional
        Likelihood ratio tests of nested maximum likelihood fits, each against the next smaller one, in `tests`. With effects by
        group all are by ML, or by REML with the same flat columns. A standard deviation of zero is on the boundary, where the ratio
        is half chi-square(df - 1) and half chi-square(df); p_chi2 is from chi-square(df) only.
    progress : bool, optional
        Whether a bar is shown; by default after a second, at a terminal or in a notebook.

    Returns
    -------
    ModelComparison
        `table` with k, AIC, elpd_loo and more, one row per fit.

    Raises
    ------
    DataError
        Unless all fits have the same rows, response and weights.
    Incompatible
        For a density compared with probabilities; for a test of fits that are not nested or not by maximum likelihood.

    References
    ----------
    Self & Liang 1987; Stram & Lee 1994 (standard deviations of zero).

    Examples
    --------
    >>> from probreg import Model
    >>> from probreg.fits.fit import fit
    >>> rows = {"y": [1.0, 2.1, 2.9, 4.2, 5.1, 5.8], "x": [1.0, 2.0, 3.0, 4.0, 5.0, 6.0]}
    >>> both = {"line": fit(Model.from_formula("y ~ x", rows)), "mean": fit(Model.from_formula("y ~ 1", rows))}
    >>> compare_models(both).table[["k", "AIC", "elpd_loo"]].round(2)
          k    AIC  elpd_loo
    line  3  -1.46     -4.63
    mean  2  27.24    -13.98
    """
    several = fits_by_name(fits, "compare_models")
    base = next(iter(several))
    for name, fit in several.items():
        if test is not None:
            fit.model.design.refuse_sampling("a likelihood ratio test")
        if leave_out is not None:
            fit.model.design.refuse_sampling("leave-one-group-out")
        refuse_other_data(base, several[base], name, fit)
    tests = None
    ratio_notes: tuple[str, ...] = ()
    if test is not None:
        tests, ratio_notes = likelihood_ratios(several)
    feature = "leave-one-out"
    leave_out_parts = leave_one_out
    size = max([len(observation_rows(fit.model)[0]) for fit in several.values()])
    if leave_out is not None:
        feature = "leave-one-group-out"
        labels = group_labels_of(several, leave_out)
        leave_out_parts = partial(leave_group_out, group=leave_out, labels=labels)
        groups = list(dict.fromkeys(labels.tolist()))
        size = len(groups)
    out = {}
    rows = {}
    with progress_bar("compare_models, fits", len(several), show=progress) as bar:
        for name, fit in bar.over(several.items()):
            design = fit.model.design
            obstacle = _unusable(fit) or design.rows_obstacle(feature, _INSTEAD)
            if obstacle is not None:
                out[name] = LeftOut(np.full(size, np.nan), "none", (obstacle,))
            else:
                out[name] = leave_out_parts(fit)
            rows[name] = _model_row(fit, out[name], heldout)
            if leave_out is not None:
                rows[name]["p_loo"] = np.nan  # of rows, not of groups
    result = _comparison(several, out, rows)
    if leave_out is not None:
        pointwise = result.pointwise.rename(obs=leave_out)
        result = replace(result, pointwise=pointwise.assign_coords({leave_out: groups}))
        result.table.attrs["what"] += f"; each of {len(groups)} groups ({leave_out}) is left out"  # fmt: skip
    return replace(result, tests=tests, notes=(*result.notes, *ratio_notes))


_INSTEAD = "give heldout=, or compare them on a part that fits in memory"


def _unusable(fit: Fit) -> str | None:
    solution = fit.solution
    if solution.status is Status.NO_MAXIMUM:
        return f"{solution.status.value} ({solution.detail})"
    if exact_fit(fit) or has_zero_noise(fit.model, solution):
        return "the fit meets every response exactly, so that its density has no bound"
    if fit.method.probabilities:
        return None
    return f"{fit.method.name} has no probabilities"


def _comparison(
    fits: Mapping[str, Fit],
    left_out: Mapping[str, LeftOut],
    rows: Mapping[str, dict[str, Any]],
) -> ModelComparison:
    import pandas as pd
    import xarray as xr

    log_density = np.stack([o.elpd for o in left_out.values()], 1)
    pointwise = xr.DataArray(
        log_density, {"fit": list(fits)}, ("obs", "fit"), name="elpd_loo"
    )
    table = pd.DataFrame(rows).T.infer_objects()
    if _restricted_apart(fits):
        table["log_evidence"] = np.nan
    total = log_density.sum(0) if len(log_density) else np.full(len(fits), np.nan)
    first = next(iter(fits.values()))
    weight = _sampling_weight(first)
    if weight is not None and len(log_density):
        pointwise = pointwise.assign_coords(sampling_weight=("obs", weight))
    scored = np.isfinite(total)
    if scored.any():
        order = np.argsort(-np.where(scored, total, -np.inf), kind="stable")
        gaps = [
            _sum_and_error(one - log_density[:, order[0]], weight)
            for one in log_density.T
        ]
        table["elpd_diff"], table["se_diff"] = np.array(gaps).T
        of_scored = [fit for fit, yes in zip(fits.values(), scored) if yes]
        weights = _shared_weights(log_density[:, scored], of_scored, weight)
        table.loc[scored, "weight"] = weights
        table = table.iloc[order]
    design = first.model.design
    table.attrs["what"] = (
        f"{design.response}: {design.total:g} observations, {len(fits)} fit{'s' * (len(fits) > 1)}"
    )
    notes = [
        f"{name}: {warning}" for name, o in left_out.items() for warning in o.warnings
    ]
    notes += _comparison_notes(fits, design.total)
    return ModelComparison(table, pointwise, tuple(notes))


def _sampling_weight(fit: Fit) -> Array | None:
    """The sampling weights (N,) of sum N, of rows in memory; None for other weights."""
    design = fit.model.design
    if design.weight_kind == "sampling" and design.n:
        return design.weights
    return None


def _shared_weights(
    log_density: Array, fits: Sequence[Fit], weight: Array | None
) -> Array:
    """Stacking weights (K,) of (N, K), where equivalent fits share the weight of their mean density: equal densities, and posteriors of
    one model, because their densities differ only by Monte Carlo error. Sampling weights (N,) are factors of the log densities."""
    share = None
    if weight is not None:
        counted = weight > 0.0
        log_density = log_density[counted] / weight[counted, None]
        share = weight[counted] / weight.sum()
    group = np.arange(len(fits))
    tolerance = 1e-6  # of log densities: two fits of one model, by methods that stop near its maximum
    for k, fit in enumerate(fits):
        for j in range(k):
            is_close = (
                np.abs(log_density[:, k] - log_density[:, j]).max(initial=0.0)
                < tolerance
            )
            if is_close or (fit.target == "posterior" and _is_same_model(fit, fits[j])):
                group[k] = group[j]
                break
    group_ids = np.unique(group)
    mean = [
        logsumexp(log_density[:, group == g], axis=1) - np.log((group == g).sum())
        for g in group_ids
    ]
    by_group = dict(zip(group_ids, stacking(np.stack(mean, 1), share)))
    return np.array([by_group[g] / (group == g).sum() for g in group])


def _is_same_model(first: Fit, second: Fit) -> bool:
    """Whether two fits of the same rows have one model and report the same summary."""
    if first.target != second.target:
        return False
    if first.model is second.model:
        return True
    facts = []
    arrays = []
    for model in (first.model, second.model):
        d = model.design
        texts = repr(model.joint), repr(model.aux)
        facts.append((model.likelihood, d.columns, texts, model.fixed, d.n))
        # the linear predictors of zero coefficients are the offset
        arrays.append((d.X, model.eta(np.zeros(model.shape))))
    return facts[0] == facts[1] and all(map(np.array_equal, *arrays))


def _comparison_notes(fits: Mapping[str, Fit], n: float) -> list[str]:
    notes = []
    if any(f.model.design.weight_kind == "sampling" for f in fits.values()):
        notes.append(
            "sampling weights: elpd_loo is sum_i w_i log p(y_i | other rows), w of sum n, an estimate for the population; a "
            "pseudo-likelihood has no AIC or BIC"
        )
    reasons = {name: why_no_criterion(f) for name, f in fits.items()}
    restricted = [name for name, why in reasons.items() if why == NOT_OF_REML]
    if restricted:
        notes.append(f"{', '.join(restricted)}: {NOT_OF_REML}")
    penalised = [
        name for name, why in reasons.items() if why not in (None, NOT_OF_REML)
    ]
    if penalised:
        notes.append(
            f"{', '.join(penalised)}: no AIC or BIC, which count the parameters of a maximum likelihood fit; under a prior "
            "each counts by less than one"
        )
    if _restricted_apart(fits):
        notes.append(
            "log_evidence: restricted likelihoods (REML) of models with other flat columns are of other data, and are not shown. "
            "Fit them with pr.Evidence(criterion='ML'), or judge them by elpd"
        )
    elif _flat_apart(fits):
        notes.append(
            "log_evidence: the models differ in flat columns, which count with density 1 in their units; judge them by elpd"
        )
    has_found_scales = {
        name: fit.solution.has_found_scales
        for name, fit in fits.items()
        if np.isfinite(fit.solution.stats.get("log_evidence", np.nan))
    }
    if len(set(has_found_scales.values())) > 1:
        names = ", ".join(name for name, found in has_found_scales.items() if found)
        notes.append(
            f"log_evidence of {names}: at the estimated scales, which is larger than the evidence of a posterior, an average over them"
        )
    if n < 100:
        notes.append(
            f"with {n:g} observations the standard errors of differences are themselves uncertain"
        )
    return notes


def _flat_apart(fits: Mapping[str, Fit]) -> bool:
    """Return whether the evidences belong to models with different flat columns."""
    flat_columns = {
        tuple(np.compress(~f.model.joint.informative, f.model.design.columns))
        for f in fits.values()
        if np.isfinite(f.solution.stats.get("log_evidence", np.nan))
    }
    return len(flat_columns) > 1


def _restricted_apart(fits: Mapping[str, Fit]) -> bool:
    """The same for models with effects by group, because their evidence is the restricted likelihood."""
    return _flat_apart(fits) and any(
        f.model.design.recipe.grouped for f in fits.values()
    )


def _model_row(fit: Fit, left_out: LeftOut, heldout: Any) -> dict[str, Any]:
    """Return the numbers of one fit: k and criteria of maximum likelihood, its evidence and predictive scores; nan if there are none."""
    design = fit.model.design
    scales = fit.solution.effect_scales
    sampled = design.weight_kind == "sampling"
    usable = _unusable(fit) is None
    restricted = False  # without a likelihood of y
    if scales is not None and fit.target == "mode":
        restricted = scales.criterion == "REML"
    row = dict.fromkeys(("k", "log_lik", "AIC", "AICc", "BIC"), np.nan)
    if usable and not sampled and not restricted:
        row["log_lik"] = fit.log_likelihood
    if usable and not sampled and why_no_criterion(fit) is None:
        # with effects by group log p(y | beta, scales), with the effects integrated out
        k = fit.n_parameters
        row |= {"k": k, "AIC": fit.aic, "BIC": fit.bic}
        if scales is None:
            rest = design.total - k - 1
            row["AICc"] = fit.aic + (2.0 * k * (k + 1) / rest if rest > 0 else np.inf)
    row["log_evidence"] = fit.solution.stats.get("log_evidence", np.nan)
    elpd, se = _sum_and_error(left_out.elpd, _sampling_weight(fit))
    row |= {"elpd_loo": elpd, "se_loo": se}
    row |= dict.fromkeys(("elpd_diff", "se_diff", "weight", "p_loo"), np.nan)
    if usable and design.n > 0:
        within = left_out.within
        within = log_mean_density(fit) if within is None else within
        row["p_loo"] = within.sum() - elpd
    if heldout is not None:
        score = (np.nan, np.nan)
        if usable:
            score = _sum_and_error(held_out_log_density(fit, heldout))
        row["heldout"], row["se_heldout"] = score
    return row | {"method": fit.described["method"], "loo": left_out.method}


def _sum_and_error(values: Array, weight: Array | None = None) -> tuple[float, float]:
    """The sum and sqrt(N var): the standard error of a sum of N terms over repeated samples of the observations. Terms w_i v_i with sampling
    weights of sum N add up to N times a weighted mean, with the error sqrt(N / (N - 1) sum_i w_i^2 (v_i - mean)^2)."""
    n = len(values)
    if n < 2:
        return float(values.sum()) if n else np.nan, np.nan
    deviation = values - values.mean() * full_weights(weight, n)
    return float(values.sum()), math.sqrt(n / (n - 1.0) * (deviation @ deviation))


def held_out_log_density(fit: Fit, data: Any) -> Array:
    """log p(y) of each new observation under the fit's predictive distribution, (rows,). DataError if the table lacks the response."""
    design = fit.model.design
    likelihood = fit.model.likelihood
    recipe: Any = design.recipe
    if not isinstance(recipe, ArrayColumns):
        values = recipe.outcome_at(data)
    else:
        from probreg.data.formula.columns import read_columns

        table = read_columns(data)
        response_names: tuple[str, ...] = (design.response,)
        if isinstance(likelihood, OfTrials) and likelihood.levels:
            response_names = likelihood.classes
        absent = [name for name in response_names if name not in table]
        if absent:
            raise DataError(
                f"heldout has no column {absent[0]!r}, the response; it has: {', '.join(table)}"
            )
        columns = [np.asarray(table[name]) for name in response_names]
        values = columns[0] if len(columns) == 1 else np.stack(columns, 1)
    with rows_named(own_labels(data, len(values))):
        y = likelihood.encode(np.asarray(values))
    return fit.predictive(data).log_prob(y)
