"""The table of a fit and how it is read: statistics and p-values, ratios, and a head and foot for the printed page.

Imported on use, since a `Summary` is a pandas DataFrame.
"""

from collections.abc import Callable, Mapping
from dataclasses import replace
from typing import Any, NamedTuple

import numpy as np
import pandas as pd
from scipy.special import ndtr, stdtr

from probreg.errors import DataError, Incompatible, ProbregError
from probreg.fits.goodness import (
    exact_fit,
    is_density,
    is_maximum_likelihood,
    is_saturated,
    why_no_test,
)
from probreg.fits.inference_data import (
    coefficient_index,
    parameter_names,
    reported_coefficients,
)
from probreg.fits.smooth_functions import said_of_smooths
from probreg.fits.statistics import FitStatistics
from probreg.fits.variance_shares import effective_of_terms, variance_shares
from probreg.inference.base import (
    has_effects,
    markov,
    reported_estimate,
    reported_marginals,
)
from probreg.inference.notes import Topic, important, without_topic
from probreg.inference.sampling.convergence import mixing
from probreg.inference.uncertainty.intervals.kinds import KIND_WORDS, IntervalKind
from probreg.inference.uncertainty.intervals.marginals import above_zero
from probreg.inference.varying import (
    OF_EFFECTS,
    groups_said,
    held_scales,
)
from probreg.model.prior_words import prior_line
from probreg.system.terminal import (
    cut_text,
    format_number,
    format_p,
    format_probability,
)
from probreg.tables import Table
from probreg.tables.formats import format_p_value, format_significant

Array = np.ndarray
_BOTH_SIGMAS = "from RSS / df; maximum likelihood"
_NOTHING = 1e-12  # a share of the variance that is rounding
_EDGE = 1.0 - 1e-6  # a correlation that is one but for rounding
# of a posterior: degrees of freedom of wider ones are not a matter of a print
_FEW_COLUMNS = 300


MISSING = "does not exist"
_NAMES = {"p_value": "p", "p_positive": "P(> 0)"}  # headings of columns
_FORMATS: Mapping[str, Callable[[float], str]] = {
    "estimate": format_significant,
    "p_value": format_p_value,
    "p_positive": format_probability,
    "r_hat": "{:.3f}".format,
    "ess_bulk": "{:.0f}".format,
    "ess_tail": "{:.0f}".format,
    "statistic": "{:.2f}".format,
    "df": "{:.2f}".format,
}


class Asked(NamedTuple):
    """What a summary was asked: the intervals, the standard errors (p,) or (p, outcomes), degrees of freedom of t, ratios, nulls."""

    interval: IntervalKind
    prob: float
    error: Array
    df: Array | float | None
    exp: bool
    null: float | Mapping[str, float]


class Summary(pd.DataFrame):
    """The table of a fit: a DataFrame that prints what is modelled above it and the statistics of the fit under it.

    What is made of it, such as a slice, is a plain DataFrame.
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


def summary_table(fit: FitStatistics, coef: Array, asked: Asked) -> Summary:
    """One row per coefficient, outcome by outcome, then the nuisance parameters and sampled scales."""
    posterior = fit.target == "posterior"
    null = null_values(fit, asked.null)
    lower, upper = asked.interval.ends(asked.prob)
    columns: dict[str, Array] = (
        {"mean": coef, "sd": asked.error} if posterior else {"estimate": coef}
    )
    if posterior:
        untold = None
    else:
        untold = why_no_test(fit, own_errors=asked.interval.given is None)
    tested = not posterior and untold is None
    if not posterior:
        columns["std_error"] = asked.error
    if tested:
        with np.errstate(divide="ignore", invalid="ignore"):
            t = np.where(
                (asked.error > 0) & (not exact_fit(fit)),
                (coef - null) / asked.error,
                np.nan,
            )
        if (
            fit.solution.found is not None
        ):  # columns of smooth functions have a prior, and no test
            t[fit.model.joint.informative[fit.model.design.head]] = np.nan
        own = isinstance(asked.df, np.ndarray)
        columns |= {
            "statistic": t,
            **({"df": np.asarray(asked.df)} if own else {}),
            "p_value": two_sided(t, asked.df),
        }
    columns |= {"lower": lower, "upper": upper}
    if asked.exp:
        columns = _ratios(fit, columns, asked.interval)
    flat = {k: np.asarray(v).T.ravel() for k, v in columns.items()}
    table = Summary(pd.DataFrame(flat, index=coefficient_index(fit.model)))
    for name, (value, sd) in fit.solution.scalars.items():
        known = dict(zip(("lower", "upper"), asked.interval.aux_ends(name, asked.prob)))
        if name == fit.model.likelihood.noise_scale and is_saturated(fit):
            value = np.nan
        known |= {
            "estimate": value,
            "mean": value,
            "median": value,
            "std_error": sd,
            "sd": sd,
        }
        row = [known.get(c, np.nan) for c in columns]
        table.loc[("", name) if fit.model.likelihood.outcomes else name, :] = row
    if markov(fit.method, fit.solution):
        for name, values in mixing(fit.model, fit.solution).items():
            table[name] = values
    if posterior:
        above = np.asarray(probability_positive(fit)).T.ravel()
        table["p_positive"] = np.r_[above, np.full(len(table) - len(above), np.nan)]
    object.__setattr__(table, "_of", fit)
    table.attrs = _table_attributes(fit, asked, tested) | (
        {} if untold is None else {"no_p_value": untold}
    )
    return table


def _table_attributes(fit: FitStatistics, asked: Asked, tested: bool) -> dict[str, Any]:
    found: dict[str, Any] = {
        "prob": float(asked.prob),
        "kind": asked.interval.name,
        **asked.interval.words,
        **fit.described,
    }
    if tested:
        found |= {
            "statistic": "z" if asked.df is None else "t",
            "null": null_words(asked.null),
        }
        found |= (
            {}
            if asked.df is None
            else {
                "df": "Satterthwaite" if isinstance(asked.df, np.ndarray) else asked.df
            }
        )
    return found | ({"ratio": fit.model.likelihood.link.ratio} if asked.exp else {})


def two_sided(t: Array, df: Array | float | None) -> Array:
    """p = 2 P(T > |t|), T Student-t on df degrees of freedom, or normal.

    >>> two_sided(np.array([1.959963984540054]), None).round(6).tolist()
    [0.05]
    """
    return np.asarray(2.0 * (ndtr(-np.abs(t)) if df is None else stdtr(df, -np.abs(t))))


def null_values(fit: FitStatistics, null: float | Mapping[str, float]) -> Array:
    """The value of each coefficient under the null, shaped as the coefficients. DataError for a name that is none of them."""
    names = parameter_names(fit.model)
    shape = (len(fit.model.design.head), max(1, len(fit.model.likelihood.outcomes)))
    values = np.zeros(len(names))
    if isinstance(null, Mapping):
        for name, value in null.items():
            at = [
                i
                for i, full in enumerate(names)
                if name in (full, fit.model.design.head_columns[i // shape[1]])
            ]
            if not at:
                raise DataError(
                    f"null= names {name!r}, which is no coefficient; there are: {', '.join(names[:12])}"
                )
            values[at] = _check_null(name, value)
    else:
        values[:] = _check_null("null", null)
    if fit.target == "posterior" and values.any():
        raise Incompatible(
            "null= is that of a p-value; of a posterior ask pr.hypothesis(fit, 'x > 1') for a probability"
        )
    return values.reshape(shape if fit.model.likelihood.outcomes else shape[:1])


def _check_null(name: str, value: Any) -> float:
    if not isinstance(value, int | float | np.number) or not np.isfinite(value):
        raise DataError(
            f"null= is a finite number, or a mapping from names to numbers; {name!r} is {value!r}"
        )
    return float(value)


def null_words(null: float | Mapping[str, float]) -> str:
    """The null in words.

    >>> null_words(0.0), null_words({"x": 1.0})
    ('coefficient = 0', 'x = 1, others = 0')
    """
    if isinstance(null, Mapping):
        return ", ".join(
            [*(f"{k} = {float(v):g}" for k, v in null.items()), "others = 0"]
        )
    return f"coefficient = {float(null):g}"


def _ratios(
    fit: FitStatistics, columns: dict[str, Array], interval: IntervalKind
) -> dict[str, Array]:
    """exp of estimates and ends; the standard error of a ratio by the delta method, and of a posterior the median."""
    link = fit.model.likelihood.link
    if not link.ratio:
        raise Incompatible(
            f"exp=True is for log and logit links; the {link.name} link of {fit.model.likelihood.name} has differences, not ratios"
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
    """P(coefficient > 0), (p,) or (p, outcomes): by formula where the marginal is Student-t or a mixture of normals, else the
    share of draws."""
    s = fit.solution
    draws = fit.solution.posterior
    coef = reported_coefficients(fit.model, s.beta)
    if draws.elliptical:
        with np.errstate(divide="ignore", invalid="ignore"):
            t = coef / _own_scale(fit, coef)
        return np.asarray(ndtr(t) if s.df is None else stdtr(s.df, t))
    m = reported_marginals(fit.model, draws)
    if m is not None:
        return above_zero(m["weight"], m["mean"] / m["sd"]).reshape(coef.shape)
    beta = reported_coefficients(fit.model, draws["beta"])
    return np.asarray((beta > 0).mean((0, 1)))


def _own_scale(fit: FitStatistics, coef: Array) -> Array:
    return reported_estimate(fit.model, fit.solution).error.reshape(coef.shape)


def posterior_median(fit: FitStatistics) -> Array:
    """The median of each coefficient: its mean where the marginal is symmetric by formula, else of the draws."""
    s = fit.solution
    draws = fit.solution.posterior
    if draws.elliptical:
        return reported_coefficients(fit.model, s.beta)
    beta = reported_coefficients(fit.model, draws["beta"])
    return np.asarray(np.median(beta, axis=(0, 1)))


# ---- the printed page --------------------------------------------------------------------------------------------------


def _select_notes(fit: FitStatistics, table: pd.DataFrame) -> tuple[str, ...]:
    """Return the notes to print, without those on sigma if the foot has both estimates, and on errors if the covariance is joint."""
    left_out = []
    if (
        table.attrs["kind"] == "t"
        and fit.solution.df is not None
        and is_maximum_likelihood(fit)
    ):
        left_out.append(Topic.SIGMA)
    if table.attrs.get("covariance") == "joint":
        left_out.append(Topic.STANDARD_ERRORS)
    return tuple(map(str, without_topic(important(fit.all_notes), *left_out)))


def printed_summary(
    fit: FitStatistics, table: pd.DataFrame, *, terms: bool = True
) -> Table:
    """Head, rows of coefficients, foot and notes; without `terms` the columns of a smooth function are one line."""
    body, lines = (table, []) if terms else without_terms(fit, table)
    body = body.iloc[: len(body) - (len(table) - len(fit.parameter_names))]
    if exact_fit(fit):
        body = body[["estimate"]]
    foot = _foot(fit, table)
    notes = (f"note: {note}" for note in _select_notes(fit, table))
    content = _columns_of(body, table.attrs) if len(body) else Table(())
    return replace(
        content, head=tuple(_head(fit, table)), notes=(*lines, *foot, *notes)
    )


def without_terms(
    fit: FitStatistics, table: pd.DataFrame
) -> tuple[pd.DataFrame, list[str]]:
    """The table without the columns of smooth functions and processes, which say nothing one by one, and a line for each."""
    present = set(fit.model.design.columns)
    grouped = fit.model.design.recipe.grouped
    terms = [
        t
        for t in fit.model.design.recipe.terms
        if t.name not in grouped and present.issuperset(t.columns)
    ]
    gone = {c for term in terms for c in term.columns}
    last = table.index.get_level_values(-1)
    kept = [name not in gone for name in last]
    return table[kept], [
        f"{term.name}: {len(term.columns)} columns, in summary()" for term in terms
    ]


def _columns_of(body: pd.DataFrame, attrs: Mapping[str, Any]) -> Table:
    """The rows of coefficients; the statistic and a ratio under their own names, without columns that are empty."""
    names = dict(_NAMES)
    if "statistic" in attrs:
        names["statistic"] = attrs["statistic"]
    estimate = body.columns[0]
    if "ratio" in attrs:
        names["estimate"] = attrs["ratio"]
    body = body[[c for c in body if c == estimate or body[c].notna().any()]]
    if estimate == "estimate":
        body = body.assign(estimate=body["estimate"].astype(object).fillna(MISSING))
    formats = {names.get(c, c): f for c, f in _FORMATS.items() if c in body}
    body = body.rename(columns=names).rename_axis([None] * body.index.nlevels)
    return Table.from_pandas(body, formats=formats, source="summary().to_string()")


def _head(fit: FitStatistics, table: pd.DataFrame) -> list[str]:
    """What is modelled; the method, N, df and the prior; what the columns are."""
    words = table.attrs
    n = _statistic_or_none(fit, "nobs")
    df = _statistic_or_none(fit, "df_resid")
    size = "" if n is None else f", N = {n}"
    size += "" if df is None or fit.target == "posterior" else f", residual df = {df}"
    size += f", {groups_said(fit.model)}" if has_effects(fit.model) else ""
    lines = [
        words["models"],
        f"{words['method']}{size}; {cut_text(words['status'])}",
        f"prior: {prior_line(fit.stated_model)}",
    ]
    said = f"{100 * words['prob']:g} % {KIND_WORDS.get(words['kind'], words['kind'])} intervals"
    if words.get("covariance") == "none" or is_saturated(fit):
        said = "no standard errors and no intervals"
    elif exact_fit(fit):
        said = "no standard errors, intervals and tests: residuals are rounding"
    elif table.iloc[:, 0].isna().all():
        return [*lines, "no estimates"]  # the status says why
    elif not table[["lower", "upper"]].notna().to_numpy().any():
        said = "no intervals"
    elif "covariance" in words and words["kind"] in ("t", "wald"):
        said += f", {words['covariance']} covariance"
    if "ratio" in words:
        said += f"; {words['ratio']}s, exp of the coefficients"
    if (
        "statistic" in words
        and table["statistic"].notna().any()
        and not is_saturated(fit)
    ):
        if isinstance(words.get("df"), float | int):
            law = f"t({words['df']:g})"
        elif "df" in words:
            law = "t"
        else:
            law = "z"
        law += f" with {words['df']}'s df" if isinstance(words.get("df"), str) else ""
        said += f"; {law} and two-sided p for {words['null']}"
    return [*lines, said]


def _foot(fit: FitStatistics, table: pd.DataFrame) -> list[str]:
    """Nuisance parameters, R², deviance, likelihood and criteria, and why there is no p."""
    lines = [*_aux_lines(fit, table), *_smooth_lines(fit)]
    if fit.model.design.source is not None and not fit.model.likelihood.least_squares:
        return [
            *lines,
            "R², log-likelihood and AIC take another pass over the rows: fit.aic",
            *_explain_missing_p(table),
        ]
    if has_effects(fit.model):
        return [*lines, *_of_groups(fit), *_explain_missing_p(table)]
    explained = _format_goodness(fit, table.attrs)
    lines += [explained] if explained else []
    ll = _statistic_or_none(fit, "log_likelihood")
    if ll is not None and np.isfinite(ll) and not exact_fit(fit):
        at = {"posterior": " at the posterior mean"}.get(
            fit.target, "" if fit.model.flat else " at the mode"
        )
        said = f"log-likelihood {format_number(ll)}{at}"
        aic = _statistic_or_none(fit, "aic")
        if aic is not None:
            said += f", AIC {format_number(aic)}, BIC {format_number(fit.bic)} ({_count_parameters(fit.n_parameters)})"
        lines.append(said)
    if fit.model.design.weight_kind == "sampling":
        lines.append("sampling weights make a pseudo-likelihood: no R², AIC or BIC")
    return [*lines, *_explain_missing_p(table)]


def _of_groups(fit: FitStatistics) -> list[str]:
    """R² of groups, degrees of freedom of their terms, and the criterion at scales that were found."""
    lines = []
    found = fit.solution.found
    edf = effective_of_terms(fit)
    each = [f"{key} {v:.4g} of {q}" for key, (v, q) in edf.items()]
    lines += [f"effective degrees of freedom: {', '.join(each)}"] if each else []
    try:
        shares = variance_shares(fit)
        r, c, icc = (
            f"{0.0 if abs(v) < _NOTHING else v:.4g}"
            for v in (shares.marginal, shares.conditional, shares.icc)
        )
        lines.append(f"R² marginal {r}, conditional {c}; ICC {icc} (Nakagawa)")
    except DataError as error:
        lines.append(f"no R² and no ICC: {error}")  # its rows are gone
    except ProbregError:
        pass  # it has none
    if found is None:
        ll = _statistic_or_none(fit, "log_likelihood")
        if ll is not None and np.isfinite(ll):
            if fit.target == "posterior":
                at = " at the posterior mean"
            else:
                at = ""
            lines.append(f"log-likelihood {format_number(ll)} given the effects{at}")
        return lines
    if found.points == 1:
        laplace = "Laplace approximation"
    else:
        laplace = f"{found.points} points of adaptive quadrature"
    if found.stated.likelihood.least_squares:
        about = ""
    else:
        about = f", {laplace}"
    if found.criterion == "REML":
        if not found.plain:
            moved = "at this mode, which the prior of the scales moves from REML's"
            return [
                *lines,
                f"-2 log restricted likelihood {-2.0 * found.value:.7g}{about}, {moved}",
            ]
        return [
            *lines,
            f"REML criterion {-2.0 * found.value:.7g} (-2 log restricted likelihood{about})",
        ]
    said = f"log-likelihood {format_number(found.value, 7)}{about}"
    said += (
        ""
        if found.plain
        else ", at a mode that the prior of the scales moves from ML's"
    )
    aic = _statistic_or_none(fit, "aic")
    if aic is not None:
        said += f", AIC {format_number(aic, 6)}, BIC {format_number(fit.bic, 6)} ({_count_parameters(fit.n_parameters)})"
    return [*lines, said]


def _explain_missing_p(table: pd.DataFrame) -> list[str]:
    """Explain why there is no p-value."""
    return [str(table.attrs[k]) for k in ("no_p_value",) if k in table.attrs]


def _aux_lines(fit: FitStatistics, table: pd.DataFrame) -> list[str]:
    lines = []
    for name, row in table.iloc[len(fit.parameter_names) :].iterrows():
        word = name[-1] if isinstance(name, tuple) else name
        if word == fit.model.likelihood.noise_scale and (
            is_saturated(fit) or exact_fit(fit)
        ):
            continue  # a note says why
        value = next(row[c] for c in ("estimate", "mean", "median") if c in row)
        if np.isnan(row["lower"]):
            ends = ""
        else:
            ends = f" ({row['lower']:.5g} to {row['upper']:.5g})"
        if word in fit.solution.hyper and word.startswith(OF_EFFECTS):
            lines.append(
                _effect_scale(
                    word, value, ends, replicated=fit.solution.replicates is not None
                )
            )
            continue
        said = f"{word} {value:.5g}{ends}"
        if (
            word == fit.model.likelihood.noise_scale
            and fit.model.likelihood.least_squares
            and is_maximum_likelihood(fit)
            and fit.model.design.weight_kind
            != "sampling"  # whose scale is that of a pseudo-likelihood
        ):
            sd = _statistic_or_none(fit, "residual_sd")
            if sd is not None and not np.isnan(
                sd
            ):  # the interval of kind "t" is that of RSS / df
                of_rss = table.attrs["kind"] == "t" and fit.solution.df is not None
                first = f"{word} {sd:.5g}{ends} {_BOTH_SIGMAS} {value:.5g}"
                if of_rss:
                    said = first
                else:
                    said = f"{said}; from RSS / df {sd:.5g}"
        if "r_hat" in row:
            said += f"; ess_bulk {row['ess_bulk']:.0f}, ess_tail {row['ess_tail']:.0f}, r_hat {row['r_hat']:.3f}"
        lines.append(said)
    found = fit.solution.hyper
    held = {
        name: v
        for name, v in {**held_scales(fit.stated_model), **fit.model.fixed}.items()
        if name not in found
    }
    return [*lines, *(f"{name} {value:.5g}, held" for name, value in held.items())]


def _effect_scale(
    name: str, value: float, ends: str, *, replicated: bool = False
) -> str:
    """A standard deviation or correlation of effects that was found, and why there is no interval.

    >>> _effect_scale("sd(x | g)", 0.0, ""), _effect_scale("cor(Intercept, x | g)", np.nan, "")
    ('sd(x | g) 0 (no interval: at its edge)', 'cor(Intercept, x | g) not defined: a standard deviation is 0')
    """
    if np.isnan(value):
        return f"{name} not defined: a standard deviation is 0"
    if ends:
        return f"{name} {value:.5g}{ends}"
    if replicated:
        return (
            f"{name} {value:.5g} (no interval: its replicates have percentiles alone)"
        )
    if name.startswith("sd("):
        edge = value == 0.0
    else:
        edge = abs(value) > _EDGE
    return f"{name} {value:.5g} (no interval: {'at its edge' if edge else 'the fit is singular'})"


def _smooth_lines(fit: FitStatistics) -> tuple[str, ...]:
    """A line of degrees of freedom, where they are no work."""
    few = len(fit.model.design.columns) <= _FEW_COLUMNS or fit.target == "mode"
    return said_of_smooths(fit.smooths) if few else ()


def _format_goodness(fit: FitStatistics, words: Mapping[str, Any]) -> str:
    """Format R² by its name, the F test where errors are classical, and the deviance of classes and counts."""
    share = _statistic_or_none(fit, "r_squared")
    if share is None or not np.isfinite(share):
        return ""
    if not is_density(fit.model):
        said = f"McFadden's R² {share:.4g}; deviance {format_number(fit.deviance)}"
        none = _statistic_or_none(fit, "null_deviance")
        if none is None:
            return said
        return f"{said}, {format_number(none)} without columns"
    if not fit.model.likelihood.least_squares:
        return f"R² (share of the deviance) {share:.4g}"
    if fit.model.design.intercept is not None:
        zero = ""
    else:
        zero = " about zero"
    said = f"R²{zero} {share:.4g}"
    adjusted = _statistic_or_none(fit, "adjusted_r_squared")
    test = fit.overall
    said += "" if adjusted is None else f", adjusted {adjusted:.4g}"
    if test is None or words.get("covariance") != "classical":
        return said
    return f"{said}; F({test.df}, {test.df_resid}) = {format_number(test.statistic, 4)}, {format_p(test.p_value)}"


def _count_parameters(k: int) -> str:
    return f"{k} parameter{'s' * (k != 1)}"


def _statistic_or_none(fit: FitStatistics, name: str) -> Any:
    """A statistic, None where this fit has none."""
    try:
        return getattr(fit, name)
    except ProbregError:
        return None
