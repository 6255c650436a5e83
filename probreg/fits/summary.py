"""The summary table of a fit: statistics and p-values, ratios, and the printed header and footer.

This module is imported on use, because a `Summary` is a pandas DataFrame.
"""

import math
from collections.abc import Callable, Mapping
from dataclasses import replace
from typing import Any, NamedTuple

import numpy as np
import pandas as pd

from probreg.data.checked_arrays import INTERCEPT
from probreg.errors import DataError, Incompatible, ProbregError
from probreg.fits.goodness import (
    effective_of_terms,
    exact_fit,
    is_density,
    is_maximum_likelihood,
    is_saturated,
    statistic_or_nan,
    variance_shares,
    why_no_test,
)
from probreg.fits.inference_data import (
    coefficient_index,
    reported_coefficients,
)
from probreg.fits.smooth_functions import describe_smooths
from probreg.fits.statistics import FitStatistics, stated_prior_line
from probreg.inference.base import (
    has_effects,
    reported_estimate,
    reported_marginals,
)
from probreg.inference.reported import reported_parameters
from probreg.inference.sampling.convergence import mixing_measures
from probreg.inference.status import Topic, important, without_topic
from probreg.inference.uncertainty.intervals.arithmetic import (
    student_cdf,
    two_sided,
)
from probreg.inference.uncertainty.intervals.kinds import KIND_WORDS, IntervalKind
from probreg.inference.uncertainty.intervals.marginals import above_zero
from probreg.inference.varying import (
    OF_EFFECTS,
    describe_groups,
    held_scales,
)
from probreg.likelihoods import Likelihood, OfClasses
from probreg.likelihoods.links import LOG
from probreg.system.terminal import (
    cut_text,
    format_number,
    format_p,
    format_probability,
)
from probreg.tables import Table
from probreg.tables.render import FIVE_DIGITS, format_p_value

Array = np.ndarray
_BOTH_SIGMAS = "from RSS / df; maximum likelihood"
_BELOW_ERROR = "it is less than a standard error from 0; see fit.aux_interval"


MISSING = "does not exist"
_NAMES = {"p_value": "p", "p_positive": "P(> 0)"}  # column headings
_FORMATS: Mapping[str, Callable[[float], str]] = {
    "estimate": FIVE_DIGITS,
    "p_value": format_p_value,
    "p_positive": format_probability,
    "r_hat": "{:.3f}".format,
    "ess_bulk": "{:.0f}".format,
    "ess_tail": "{:.0f}".format,
    "statistic": "{:.2f}".format,
    "df": "{:.2f}".format,
}


class Options(NamedTuple):
    """Options of a summary: intervals, standard errors (p,) or (p, outcomes), degrees of freedom of t, ratios."""

    interval: IntervalKind
    prob: float
    error: Array
    df: Array | float | None
    exp: bool


class Summary(pd.DataFrame):
    """The table of a fit: a DataFrame that prints with a header on the model and a footer with the statistics of the fit.

    Results of operations on it, such as a slice, are plain DataFrames.
    """

    _of: FitStatistics | None = None

    @property
    def _constructor(self) -> Any:
        return pd.DataFrame

    def __repr__(self) -> str:
        if self._of is None:
            return super().__repr__()
        return repr(printed_summary(self._of, self))

    def _repr_html_(self) -> str | None:
        if self._of is None:
            return super()._repr_html_()
        return printed_summary(self._of, self)._repr_html_()


# ---- the table ---------------------------------------------------------------------------------------------------------


def summary_table(fit: FitStatistics, coef: Array, options: Options) -> Summary:
    """Return one row per coefficient, outcome by outcome, then the nuisance parameters and sampled scales."""
    is_posterior = fit.target == "posterior"
    no_test = None
    if is_posterior:
        columns: dict[str, Array] = {"mean": coef, "sd": options.error}
    else:
        no_test = why_no_test(fit, own_errors=options.interval.given is None)
        columns = {"estimate": coef, "std_error": options.error}
        if no_test is None:
            columns |= _test_columns(fit, coef, options)
    columns["lower"], columns["upper"] = options.interval.ends(options.prob)
    if options.exp:
        columns = _ratios(fit, columns, options.interval)
    flat = {k: np.asarray(v).T.ravel() for k, v in columns.items()}
    table = Summary(pd.DataFrame(flat, index=coefficient_index(fit.model)))
    for name, (value, sd) in options.interval.of.reported.scalars.items():
        if name == fit.model.likelihood.noise_scale and is_saturated(fit):
            value = np.nan
        row = dict.fromkeys(("estimate", "mean", "median"), value)
        row |= {"std_error": sd, "sd": sd}
        row["lower"], row["upper"] = options.interval.scalar_ends(name, options.prob)
        index = ("", name) if fit.model.likelihood.outcomes else name
        table.loc[index, :] = [row.get(c, np.nan) for c in columns]
    if fit.method.makes_chains:
        for name, values in fit.once(mixing_measures).items():
            table[name] = values[: len(table)]
    if is_posterior:
        above = probability_positive(fit).T.ravel()
        table["p_positive"] = np.r_[above, np.full(len(table) - len(above), np.nan)]
    object.__setattr__(table, "_of", fit)
    table.attrs = _table_attributes(fit, options, no_test)
    return table


def _test_columns(
    fit: FitStatistics, coef: Array, options: Options
) -> dict[str, Array]:
    """Return the Wald statistic of each coefficient, its degrees of freedom if they differ, and p."""
    with np.errstate(divide="ignore", invalid="ignore"):
        t = np.where(
            (options.error > 0) & (not exact_fit(fit)), coef / options.error, np.nan
        )
    # columns of smooth functions have a prior
    t[fit.model.joint.informative[fit.model.design.ungrouped]] = np.nan
    columns = {"statistic": t}
    if isinstance(options.df, np.ndarray):
        columns["df"] = options.df
    return {**columns, "p_value": two_sided(t, options.df)}


def _table_attributes(
    fit: FitStatistics, options: Options, no_test: str | None
) -> dict[str, Any]:
    attrs: dict[str, Any] = {
        "prob": float(options.prob),
        "kind": options.interval.name,
        **options.interval.words,
        **fit.described,
    }
    if no_test is not None:
        attrs["no_p_value"] = no_test
    elif fit.target == "mode":
        attrs["statistic"] = "z" if options.df is None else "t"
        if isinstance(options.df, np.ndarray):
            attrs["df"] = "Satterthwaite"
        elif options.df is not None:
            attrs["df"] = options.df
    if options.exp:
        attrs["ratio"] = ratio_name(fit.model.likelihood)
    return attrs


def ratio_name(likelihood: Likelihood) -> str:
    """Return the name of exp(coefficient), such as "odds ratio"; with formulas for several parameters it is "ratio".

    >>> from probreg.likelihoods import Bernoulli, LogLogistic, Poisson
    >>> [ratio_name(likelihood()) for likelihood in (Poisson, Bernoulli, LogLogistic)]
    ['rate ratio', 'odds ratio', 'ratio of medians']
    """
    if likelihood.width > 1 and not likelihood.outcomes:
        return "ratio"
    if likelihood.link is LOG and isinstance(likelihood, OfClasses):
        return "risk ratio"
    if likelihood.link is LOG:
        return "rate ratio" if likelihood.is_count else f"ratio of {likelihood.centre}s"
    return likelihood.link.ratio


def _ratios(
    fit: FitStatistics, columns: dict[str, Array], interval: IntervalKind
) -> dict[str, Array]:
    """Return exp of estimates and interval ends, with delta-method standard errors; for a posterior the median."""
    link = fit.model.likelihood.link
    if not link.ratio:
        raise Incompatible(
            f"exp=True is for log and logit links; the {link.name} link of {fit.model.likelihood.named} likelihood has differences, not ratios"
        )
    if interval.name == "hdi":
        raise Incompatible(
            "exp of a highest-density interval is none of the ratio: ask for kind='eti' with exp=True"
        )
    with np.errstate(over="ignore"):
        ends = {k: np.exp(columns[k]) for k in ("lower", "upper")}
        if fit.target == "posterior":
            return {"median": np.exp(posterior_median(fit)), **ends}
        # Var exp(b) = exp(2 b) Var b to first order
        ratio = np.exp(columns["estimate"])
        return {
            **columns,
            "estimate": ratio,
            "std_error": ratio * columns["std_error"],
            **ends,
        }


# ---- of a posterior ----------------------------------------------------------------------------------------------------


def probability_positive(fit: FitStatistics) -> Array:
    """Return P(coefficient > 0), (p,) or (p, outcomes).

    It has a formula if the marginal is Student-t or a mixture of normals; otherwise it is the share of draws.
    """
    s = fit.solution
    draws = fit.solution.posterior
    coef = reported_coefficients(fit.model, s.beta)
    if draws.elliptical:
        with np.errstate(divide="ignore", invalid="ignore"):
            t = coef / reported_estimate(fit.model, s).error.reshape(coef.shape)
        return student_cdf(t, s.df)
    m = reported_marginals(fit.model, draws)
    if m is not None:
        return above_zero(m["weight"], m["mean"] / m["sd"]).reshape(coef.shape)
    beta = reported_coefficients(fit.model, draws["beta"])
    return (beta > 0).mean((0, 1))


def posterior_median(fit: FitStatistics) -> Array:
    """Return the median of each coefficient: the mean if the marginal is known to be symmetric, else the median of draws."""
    s = fit.solution
    draws = fit.solution.posterior
    if draws.elliptical:
        return reported_coefficients(fit.model, s.beta)
    beta = reported_coefficients(fit.model, draws["beta"])
    return np.median(beta, axis=(0, 1))


# ---- the printed page --------------------------------------------------------------------------------------------------


def _select_notes(fit: FitStatistics, table: pd.DataFrame) -> tuple[str, ...]:
    """Return the notes to print: not on sigma if the footer has both estimates, and not on errors if the covariance is joint."""
    left_out = []
    if (
        table.attrs["kind"] == "t"
        and fit.solution.df is not None
        and is_maximum_likelihood(fit)
    ):
        left_out.append(Topic.SIGMA)
    # sampling weights have no sqrt(RSS/(n - k))
    if fit.model.design.weight_kind == "sampling":
        left_out.append(Topic.SIGMA)
    if table.attrs.get("covariance") == "joint":
        left_out.append(Topic.STANDARD_ERRORS)
    return tuple(map(str, without_topic(important(fit.all_notes), *left_out)))


def printed_summary(
    fit: FitStatistics, table: pd.DataFrame, *, terms: bool = True
) -> Table:
    """Return header, rows of coefficients, footer and notes; without `terms` the columns of a smooth function are one line."""
    body, lines = (table, []) if terms else without_terms(fit, table)
    body = body.iloc[: len(body) - (len(table) - len(fit.parameter_names))]
    body = without_reported_intercept(fit, body)
    if exact_fit(fit):
        body = body[["estimate"]]
    foot = _foot(fit, table)
    notes = (f"note: {note}" for note in _select_notes(fit, table))
    content = _columns_of(body, table.attrs) if len(body) else Table(())
    return replace(
        content, head=tuple(_head(fit, table)), notes=(*lines, *foot, *notes)
    )


def without_reported_intercept(fit: FitStatistics, body: pd.DataFrame) -> pd.DataFrame:
    """Return the rows of coefficients without an intercept that the footer reports as a parameter, such as a threshold."""
    reported = fit.once(reported_parameters).estimate
    j = fit.model.design.intercept
    if reported is None or j is None:
        return body
    is_intercept = (reported.slopes[:, 0] != 0.0) & ~reported.slopes[:, 1:].any(1)
    name = fit.model.design.columns[j]
    return body.drop(name) if is_intercept.any() else body


def without_terms(
    fit: FitStatistics, table: pd.DataFrame
) -> tuple[pd.DataFrame, list[str]]:
    """Return the table without the columns of smooth functions and processes, and one line for each of these."""
    recipe = fit.model.design.recipe
    present = set(fit.model.design.columns)
    columns = {
        t.name: t.columns
        for t in recipe.terms
        if t.name not in recipe.grouped and present.issuperset(t.columns)
    }
    omitted = {c for names in columns.values() for c in names}
    is_kept = [name not in omitted for name in table.index.get_level_values(-1)]
    lines = [f"{t}: {len(names)} columns, in summary()" for t, names in columns.items()]
    return table[is_kept], lines


def _columns_of(body: pd.DataFrame, attrs: Mapping[str, Any]) -> Table:
    """Return the rows of coefficients without empty columns; the statistic and a ratio have their own names."""
    names = dict(_NAMES)
    if "statistic" in attrs:
        names["statistic"] = attrs["statistic"]
    estimate = body.columns[0]
    if "ratio" in attrs:
        names["estimate"] = attrs["ratio"]
    body = body[[c for c in body if c == estimate or body[c].notna().any()]]
    if estimate == "estimate":
        estimates = body["estimate"].astype(object)
        body = body.assign(estimate=estimates.where(estimates.notna(), MISSING))
    formats = {names.get(c, c): f for c, f in _FORMATS.items() if c in body}
    body = body.rename(columns=names).rename_axis([None] * body.index.nlevels)
    return Table.from_pandas(body, formats=formats, source="summary().to_string()")


def _head(fit: FitStatistics, table: pd.DataFrame) -> list[str]:
    """Return the lines on the modelled quantity; the method, N, df and the prior; intervals and tests."""
    attrs = table.attrs
    size = attrs["method"]
    n, df = statistic_or_nan(fit, "nobs"), statistic_or_nan(fit, "df_resid")
    if not math.isnan(n):
        size += f", N = {n}"
    if not math.isnan(df) and fit.target == "mode":
        size += f", residual df = {df}"
    if has_effects(fit.model):
        size += f", {describe_groups(fit.model)}"
    return [
        attrs["models"],
        f"{size}; {cut_text(attrs['status'])}",
        f"prior: {stated_prior_line(fit)}",
        _describe_intervals(fit, table),
    ]


def _describe_intervals(fit: FitStatistics, table: pd.DataFrame) -> str:
    """Describe the intervals, their covariance and the test, or give the reason why there are none."""
    attrs = table.attrs
    text = f"{100 * attrs['prob']:g} % {KIND_WORDS.get(attrs['kind'], attrs['kind'])} intervals"
    if attrs.get("covariance") == "none" or is_saturated(fit):
        text = "no standard errors and no intervals"
    elif exact_fit(fit):
        text = "no standard errors, intervals and tests: residuals are rounding"
    elif table.iloc[:, 0].isna().all():
        return "no estimates"  # the status gives the reason
    elif not table[["lower", "upper"]].notna().to_numpy().any():
        text = "no intervals"
    elif "covariance" in attrs and attrs["kind"] in ("t", "wald"):
        text += f", {attrs['covariance']} covariance"
    if "ratio" in attrs:
        text += (
            f"; {attrs['ratio'].replace('ratio', 'ratios')}, exp of the coefficients"
        )
        shown = without_reported_intercept(fit, table).index
        if INTERCEPT in shown.get_level_values(-1):
            text += "; exp(Intercept) is not a ratio"
    tested = "statistic" in attrs and table["statistic"].notna().any()
    if tested and not is_saturated(fit):
        df = attrs.get("df")
        distribution = attrs["statistic"]
        if isinstance(df, str):
            distribution += f" with {df}'s df"
        elif df is not None:
            distribution += f"({df:g})"
        text += f"; {distribution} and two-sided p for coefficient = 0"
    return text


def _foot(fit: FitStatistics, table: pd.DataFrame) -> list[str]:
    """Return the footer: nuisance parameters, edf of smooth functions, R², likelihood, criteria, and the reason for a missing p."""
    # with more columns, printing skips the degrees of freedom of a posterior, which take long
    design = fit.model.design
    max_columns = 300
    lines = _aux_lines(fit, table)
    if len(design.columns) <= max_columns or fit.target == "mode":
        lines += describe_smooths(fit.smooths)
    likelihood = fit.model.likelihood
    if design.source is not None and not likelihood.least_squares:
        lines.append(
            "R², log-likelihood and AIC take another pass over the rows: fit.aic"
        )
    elif has_effects(fit.model):
        lines += [*_group_lines(fit), *likelihood_line(fit)]
    else:
        lines += [*_goodness_line(fit, table.attrs), *likelihood_line(fit)]
        if design.weight_kind == "sampling":
            lines.append("sampling weights make a pseudo-likelihood: no R², AIC or BIC")
    if "no_p_value" in table.attrs:
        lines.append(str(table.attrs["no_p_value"]))
    return lines


def _group_lines(fit: FitStatistics) -> list[str]:
    """Return the degrees of freedom of the terms, R² with random effects and the intraclass correlation."""
    rounding = 1e-12  # a smaller share of the variance is rounding error
    lines = []
    edf = effective_of_terms(fit)
    if edf:
        terms = (f"{key} {used:.4g} of {q}" for key, (used, q) in edf.items())
        lines.append(f"effective degrees of freedom: {', '.join(terms)}")
    try:
        shares = variance_shares(fit)
    except DataError as error:  # the rows are not in memory
        return [*lines, f"no R² and no ICC: {error}"]
    except ProbregError:
        return lines
    numbers = (shares.marginal, shares.conditional, shares.icc)
    marginal, conditional, icc = (
        f"{0.0 if abs(v) < rounding else v:.4g}" for v in numbers
    )
    return [
        *lines,
        f"R² marginal {marginal}, conditional {conditional}; ICC {icc} (Nakagawa)",
    ]


def likelihood_line(fit: FitStatistics) -> list[str]:
    """Return the log-likelihood or REML criterion, with AIC and BIC."""
    scales = fit.solution.effect_scales
    digits = 5
    if scales is None:
        value = statistic_or_nan(fit, "log_likelihood")
        if not np.isfinite(value) or exact_fit(fit):
            return []
        text = f"log-likelihood {format_number(value)}"
        if has_effects(fit.model):
            text += " given the effects"
        if fit.target == "posterior":
            text += " at the posterior mean"
        elif not fit.model.flat and not has_effects(fit.model):
            text += " at the mode"
    else:
        digits = 6
        if scales.criterion == "REML":
            value = f"{-2.0 * scales.value:.7g}"
            text = f"REML criterion {value} (-2 log restricted likelihood)"
            if not scales.plain:
                text = f"-2 log restricted likelihood {value} at this mode, which the prior of the scales moves from REML's"
            return [text]
        text = f"log-likelihood {format_number(scales.value, 7)}"
        if not scales.plain:
            text += ", at a mode that the prior of the scales moves from ML's"
    aic = statistic_or_nan(fit, "aic")
    if not np.isnan(aic):
        k = fit.n_parameters
        text += f", AIC {format_number(aic, digits)}, BIC {format_number(fit.bic, digits)} ({k} parameter{'s' * (k != 1)})"
    return [text]


def _goodness_line(fit: FitStatistics, attrs: Mapping[str, Any]) -> list[str]:
    """Return R² by its name, the F test if errors are classical, and the deviance of classes and counts."""
    share = statistic_or_nan(fit, "r_squared")
    if not np.isfinite(share):
        return []
    if not is_density(fit.model):
        text = f"McFadden's R² {share:.4g}; deviance {format_number(fit.deviance)}"
        null = statistic_or_nan(fit, "null_deviance")
        if not np.isnan(null):
            text += f", {format_number(null)} without columns"
        return [text]
    if not fit.model.likelihood.least_squares:
        return [f"R² (share of the deviance) {share:.4g}"]
    about = "" if fit.model.design.intercept is not None else " about zero"
    text = f"R²{about} {share:.4g}"
    adjusted = statistic_or_nan(fit, "adjusted_r_squared")
    if not np.isnan(adjusted):
        text += f", adjusted {adjusted:.4g}"
    test = fit.overall
    if test is not None and attrs.get("covariance") == "classical":
        text += f"; F({test.df}, {test.df_resid}) = {format_number(test.statistic, 4)}, {format_p(test.p_value)}"
    return [text]


def _aux_lines(fit: FitStatistics, table: pd.DataFrame) -> list[str]:
    """Return a line for each nuisance parameter and scale, estimated or fixed."""
    lines = []
    noise_scale = fit.model.likelihood.noise_scale
    for index, row in table.iloc[len(fit.parameter_names) :].iterrows():
        name = index[-1] if isinstance(index, tuple) else index
        if name == noise_scale and (is_saturated(fit) or exact_fit(fit)):
            continue  # a note gives the reason
        value = row.iloc[0]
        ends = f" ({row['lower']:.5g} to {row['upper']:.5g})"
        if np.isnan(row["lower"]):
            ends = ""
        if name in fit.solution.hyper and name.startswith(OF_EFFECTS):
            replicated = fit.solution.replicates is not None
            is_small = not ends and row.get("std_error", np.nan) > value > 0.0
            reason = _BELOW_ERROR if is_small else ""
            lines.append(
                _effect_scale(name, value, ends, reason, replicated=replicated)
            )
            continue
        text = f"{name} {value:.5g}{ends}"
        if name == noise_scale and _has_rss_estimate(fit):
            sd = fit.residual_sd
            if table.attrs["kind"] == "t" and fit.solution.df is not None:
                text = f"{name} {sd:.5g}{ends} {_BOTH_SIGMAS} {value:.5g}"
            else:
                text += f"; from RSS / df {sd:.5g}"
        if "r_hat" in row:
            text += f"; ess_bulk {row['ess_bulk']:.0f}, ess_tail {row['ess_tail']:.0f}, r_hat {row['r_hat']:.3f}"
        lines.append(text)
    fixed = {**held_scales(fit.stated_model), **fit.model.fixed}
    for name, value in fixed.items():
        if name not in fit.solution.hyper:
            lines.append(f"{name} {value:.5g}, fixed")
    return lines


def _has_rss_estimate(fit: FitStatistics) -> bool:
    """Whether sigma also has the estimate sqrt(RSS / df); under sampling weights it comes from a pseudo-likelihood."""
    return (
        fit.model.likelihood.least_squares
        and is_maximum_likelihood(fit)
        and fit.model.design.weight_kind != "sampling"
        and not np.isnan(statistic_or_nan(fit, "residual_sd"))
    )


def _effect_scale(
    name: str, value: float, ends: str, reason: str = "", *, replicated: bool = False
) -> str:
    """Return a standard deviation or correlation of random effects, and the reason if it has no interval.

    >>> _effect_scale("sd(x | g)", 0.0, ""), _effect_scale("cor(Intercept, x | g)", np.nan, "")
    ('sd(x | g) 0 (no interval: at its edge)', 'cor(Intercept, x | g) not defined: a standard deviation is 0')
    """
    limit = 1.0 - 1e-6  # a larger correlation is one up to rounding
    if np.isnan(value):
        return f"{name} not defined: a standard deviation is 0"
    if ends:
        return f"{name} {value:.5g}{ends}"
    at_edge = value == 0.0 if name.startswith("sd(") else abs(value) > limit
    reason = reason or ("at its edge" if at_edge else "the fit is singular")
    if replicated:
        reason = "its replicates have percentiles alone"
    return f"{name} {value:.5g} (no interval: {reason})"
