"""The table of a paper: one column per fit, standard errors or intervals beneath, and the statistics of each fit under them."""

from collections.abc import Callable, Mapping, Sequence
from typing import Any, Literal, NamedTuple

import numpy as np

from probreg.arguments.scalars import (
    Count,
    Flag,
    Names,
    Probability,
    Word,
    check_arguments,
)
from probreg.arguments.types import CovarianceLike
from probreg.comparison import format_rounded
from probreg.comparison.same_question import by_method, fits_by_name, named_as_text
from probreg.errors import DataError, ProbregError
from probreg.fits.fit import Fit
from probreg.fits.goodness import exact_fit, is_density, tested_at_found_scales
from probreg.inference.base import Status, has_effects
from probreg.inference.uncertainty.intervals.kinds import KIND_WORDS, KINDS
from probreg.inference.varying import OF_EFFECTS, held_scales
from probreg.show.publication_formats import PublicationTable, TableEntry
from probreg.system.terminal import format_probability

Beneath = Literal["se", "interval", "p"]
STARS = ((0.001, "***"), (0.01, "**"), (0.05, "*"))
_STATISTICS = {
    "nobs": "N", "r_squared": "R²", "adjusted_r_squared": "adjusted R²", "residual_sd": "sigma",
    "log_likelihood": "log-likelihood", "aic": "AIC", "bic": "BIC",
}  # fmt: skip
_ORDER = (
    "N",
    "R²",
    "adjusted R²",
    "R² (deviance)",
    "McFadden's R²",
    "sigma",
    "scale",
    "alpha",
    "log-likelihood",
    "AIC",
    "BIC",
)


class _Column(NamedTuple):
    """One fit: its summary by the label of each coefficient, and the statistics that it has."""

    name: str
    fit: Fit
    cells: Mapping[str, Mapping[str, float]]
    smooths: Mapping[str, float]
    statistics: Mapping[str, str]
    words: Mapping[str, Any]


@check_arguments
def table(
    fits: Mapping[str, Fit] | Mapping[float, Fit] | Sequence[Fit] | Fit,
    *,
    beneath: Beneath = "se",
    prob: Probability = 0.95,
    kind: Word | None = None,
    covariance: CovarianceLike | Mapping[str, CovarianceLike] | None = None,
    exp: Flag = False,
    digits: Count = 3,
    keep: Names | None = None,
    order: Names | None = None,
    rename: Mapping[str, str] | None = None,
    stars: Flag = False,
    title: Word | None = None,
) -> PublicationTable:
    """The table of a paper: a column per fit, each coefficient with its error beneath, N and statistics under them.

    Fits may differ in data, columns, likelihood and method; what a fit does not have is blank. Coefficients of an outcome are
    called "column: outcome". A smooth function is one line, with its effective degrees of freedom.

    Parameters
    ----------
    fits : mapping from str or float to Fit, or sequence of Fit, or Fit
        The columns by name, as `quantile_regression` gives them by number; a sequence is named by the methods.
    beneath : {"se", "interval", "p"}
        What stands beneath an estimate: its standard error (standard deviation of a posterior), its interval, or p. A
        posterior has P(> 0) in place of p.
    prob : float
        Probability of the intervals, between 0 and 1.
    kind : str, optional
        Of the intervals, as in `Fit.interval`; of the fits that have it.
    covariance : str or DataArray, or mapping from names of fits to these, optional
        Where standard errors come from; one for all is for all point estimates.
    exp : bool
        Whether coefficients are odds or rate ratios, as in `Fit.summary`.
    digits : int
        Significant digits of the smallest standard error in a line, by which the whole line is rounded; of each number where
        they are ratios.
    keep : str or list of str, optional
        The coefficients that are shown, by column or by "column: outcome"; all by default.
    order : str or list of str, optional
        Coefficients that come first.
    rename : mapping from str to str, optional
        What coefficients are called in the table.
    stars : bool
        Whether p below 0.05, 0.01 and 0.001 has one, two and three stars; a note says so.
    title : str, optional
        By default the response, where all fits have the same.

    Returns
    -------
    PublicationTable
        Shows itself in a notebook; `to_markdown()`, `to_latex()`, `to_html()`, `to_pandas()`, `copy()`.

    Raises
    ------
    DataError
        For a name in keep, order, rename or covariance that is none of the table.
    Incompatible
        Where a fit has no such intervals, covariance or ratios.

    Examples
    --------
    >>> import probreg as pr
    >>> rows = {"y": [1.0, 2.1, 2.9, 4.2, 5.1, 5.8], "x": [1.0, 2.0, 3.0, 4.0, 5.0, 6.0]}
    >>> model = pr.Model.from_formula("y ~ x", rows)
    >>> found = pr.table({"ML": pr.fit(model), "posterior": pr.fit(model, "conjugate")}, digits=2)
    >>> print(*found.to_markdown().splitlines()[:6], sep="\\n")
    | y | ML | posterior |
    |:--|--:|--:|
    | Intercept | 0.09 | 0.09 |
    |  | (0.15) | (0.21) |
    | x | 0.980 | 0.980 |
    |  | (0.038) | (0.054) |
    """
    if isinstance(fits, Fit):
        several = by_method([fits])
    else:
        several = fits_by_name(fits, "table")
    asked = _covariances(several, covariance)
    columns = [
        _fit_column(n, fit, prob, kind, asked.get(n), exp=exp)
        for n, fit in several.items()
    ]
    labels = _select_labels(columns, _names_as_list(keep), _names_as_list(order))
    renamed = dict(rename or {})
    _known_labels(columns, renamed, "rename")
    entries = [_entry(label, columns, beneath, digits, stars=stars) for label in labels]
    shown = tuple(e._replace(label=_rename_label(e.label, renamed)) for e in entries)
    smooth = dict.fromkeys(label for c in columns for label in c.smooths)
    shown += tuple(
        TableEntry(
            renamed.get(s, s),
            tuple(
                (_edf_words(c.smooths[s]), "") if s in c.smooths else ("", "")
                for c in columns
            ),
        )
        for s in smooth
        if keep is None or s in _names_as_list(keep)
    )
    met = dict.fromkeys(key for c in columns for key in c.statistics)
    effects = [key for key in met if key.startswith(OF_EFFECTS)]
    rest = [key for key in _ORDER if key in met and key != "N"]
    below = [
        *["N"] * ("N" in met),
        *effects,
        *rest,
        *sorted(set(met).difference(_ORDER, effects)),
    ]
    statistics = tuple(
        TableEntry(key, tuple((c.statistics.get(key, ""), "") for c in columns))
        for key in below
    )
    responses = {fit.model.design.response for fit in several.values()}
    if title is None:
        if len(responses) == 1:
            heading = responses.pop()
        else:
            heading = ""
    else:
        heading = title
    notes = (
        *_table_notes(columns, beneath, prob, stars=stars),
        *_of_responses(columns),
    )
    return PublicationTable(heading, tuple(several), shown, statistics, notes)


# ---- one fit -----------------------------------------------------------------------------------------------------------


def _covariances(fits: Mapping[str, Fit], given: Any) -> dict[str, Any]:
    """What each fit is asked for; one covariance for all is for the point estimates among them."""
    if isinstance(given, Mapping):
        given = {named_as_text(name): of for name, of in given.items()}
        unknown = [n for n in given if n not in fits]
        if unknown:
            raise DataError(
                f"covariance= names {unknown[0]!r}, which is no fit of the table: {', '.join(fits)}"
            )
        return dict(given)
    if given is None:
        return {}
    return {n: given for n, fit in fits.items() if fit.target == "mode"}


def _fit_column(
    name: str, fit: Fit, prob: float, kind: str | None, covariance: Any, *, exp: bool
) -> _Column:
    own = kind if kind in KINDS[fit.target] else None
    if (
        kind is not None
        and own is None
        and not any(kind in known for known in KINDS.values())
    ):
        own = kind  # refused by the fit, with the kinds that there are
    found = fit.summary(prob, own, covariance=covariance, exp=exp)
    if exact_fit(fit):
        found[["std_error", "lower", "upper"]] = np.nan  # of rounding
    terms = {c for t in fit.model.design.recipe.terms for c in t.columns}
    size = len(fit.parameter_names)
    cells = {}
    for index, row in zip(found.index[:size], found.iloc[:size].to_dict("records")):
        if isinstance(index, tuple):
            outcome, coef = index
        else:
            outcome, coef = ("", index)
        if coef not in terms:
            value = next(row[c] for c in ("estimate", "mean", "median") if c in row)
            error = row.get("std_error", row.get("sd", np.nan))
            cells[f"{coef}: {outcome}" if outcome else str(coef)] = {
                **row,
                "value": value,
                "error": error,
            }
    smooths = fit.smooths["edf"].to_dict() if terms else {}
    return _Column(
        name,
        fit,
        cells,
        {str(k): float(v) for k, v in smooths.items()},
        _statistics(fit),
        found.attrs,
    )


def _statistics(fit: Fit) -> dict[str, str]:
    """The statistics that a fit has, as text; R² under the name of what it is."""
    out = {}
    for name, label in _STATISTICS.items():
        try:
            value = getattr(fit, name)
        except ProbregError:
            continue
        if not np.isfinite(value) or (
            exact_fit(fit) and name in ("residual_sd", "log_likelihood")
        ):
            continue
        if name == "r_squared" and not fit.model.likelihood.least_squares:
            if is_density(fit.model):
                label = "R² (deviance)"
            else:
                label = "McFadden's R²"
        if name == "residual_sd":
            label = str(fit.model.likelihood.noise_scale)
        if name == "nobs":
            out[label] = f"{value:d}"
        elif "R²" in label:
            out[label] = f"{value:.3f}"
        else:
            out[label] = _significant(value, 4)
    if has_effects(fit.model):
        return _of_groups(fit, out)
    others = {a: v for a, v in fit.aux.items() if a != fit.model.likelihood.noise_scale}
    return out | {a: _significant(v, 4) for a, v in others.items()}


def _of_groups(fit: Fit, plain: dict[str, str]) -> dict[str, str]:
    """Statistics of a fit with effects of groups: their standard deviations and correlations, R² of groups, and the criterion."""
    row = fit.glance().iloc[0]
    found = fit.solution.found
    out = {"N": plain.get("N", "")} | {
        name: _significant(v, 4) for name, v in fit.hyper.items()
    }
    out |= {
        name: f"{_significant(v, 4)} (held)"
        for name, v in held_scales(fit.stated_model).items()
        if name not in out
    }
    out |= {a: _significant(v, 4) for a, v in fit.aux.items()}
    shares = {
        "R² marginal": "r2.marginal",
        "R² conditional": "r2.conditional",
        "ICC": "icc",
    }
    out |= {
        label: f"{row[name]:.3f}"
        for label, name in shares.items()
        if np.isfinite(row[name])
    }
    if found is not None and found.criterion == "REML":
        out["REML criterion"] = _significant(-2.0 * found.value, 4)
    elif found is not None:
        out["log-likelihood"] = _significant(found.value, 4)
    return out | {label: plain[label] for label in ("AIC", "BIC") if label in plain}


def _significant(value: float, digits: int) -> str:
    """A number to so many significant digits, all of those before its point kept.

    >>> _significant(3.0, 4), _significant(122.71, 4), _significant(123456.7, 4)
    ('3.000', '122.7', '123457')
    """
    if value:
        return format_rounded(value, digits - 1 - int(np.floor(np.log10(abs(value)))))
    return "0"


# ---- lines -------------------------------------------------------------------------------------------------------------


def _names_as_list(names: str | Sequence[str] | None) -> list[str]:
    if names is None:
        return []
    if isinstance(names, str):
        return [names]
    return list(names)


def _known_labels(columns: Sequence[_Column], names: Any, what: str) -> None:
    every = [*dict.fromkeys(label for c in columns for label in (*c.cells, *c.smooths))]
    met = {*every, *(label.split(": ")[0] for label in every)}
    unknown = [n for n in names if n not in met]
    if unknown:
        raise DataError(
            f"{what}= names {unknown[0]!r}, which is no coefficient of these fits: {', '.join(every[:12])}"
        )


def _select_labels(
    columns: Sequence[_Column], keep: list[str], order: list[str]
) -> list[str]:
    """The labels of the lines: all, or those that are kept, and first those that are ordered."""
    _known_labels(columns, keep, "keep")
    _known_labels(columns, order, "order")
    every = [*dict.fromkeys(label for c in columns for label in c.cells)]
    kept = [label for label in every if not keep or _is_one(label, keep)]
    return sorted(
        kept,
        key=lambda label: next(
            (i for i, o in enumerate(order) if _is_one(label, [o])), len(order)
        ),
    )


def _is_one(label: str, names: Sequence[str]) -> bool:
    return label in names or label.split(": ")[0] in names


def _rename_label(label: str, names: Mapping[str, str]) -> str:
    coef, _, outcome = label.partition(": ")
    called = names.get(
        label, names.get(coef, coef) + (f": {outcome}" if outcome else "")
    )
    return str(called)


def _entry(
    label: str, columns: Sequence[_Column], beneath: str, digits: int, *, stars: bool
) -> TableEntry:
    """One line: every number to the places that give the smallest error its digits."""
    here = [c.cells.get(label) for c in columns]
    places = _decimal_places([row for row in here if row is not None], digits)
    ratio = any("ratio" in c.words for c in columns)  # whose sizes have no common unit

    def shown(value: float) -> str:
        if ratio:
            return f"{value:#.{digits}g}".rstrip(".")
        return format_rounded(value, places) if value else "0"

    cells = (
        ("", "") if row is None else _cell(row, shown, beneath, stars=stars)
        for row in here
    )
    return TableEntry(label, tuple(cells))


def _decimal_places(rows: Sequence[Mapping[str, float]], digits: int) -> int:
    sizes = [row["error"] for row in rows] + [
        (row["upper"] - row["lower"]) / 4 for row in rows
    ]
    sizes = [s for s in sizes if np.isfinite(s) and s > 0] or [
        abs(r["value"]) for r in rows if r["value"]
    ]
    finite = [s for s in sizes if np.isfinite(s)]
    if finite:
        return digits - 1 - int(np.floor(np.log10(min(finite))))
    return digits


def _cell(
    row: Mapping[str, float],
    shown: Callable[[float], str],
    beneath: str,
    *,
    stars: bool,
) -> tuple[str, str]:
    if not np.isfinite(row["value"]):
        return ("no estimate" if np.isnan(row["value"]) else "inf"), ""
    p = row.get("p_value", np.nan)
    if stars:
        mark = next((s for level, s in STARS if p < level), "")
    else:
        mark = ""
    return shown(row["value"]) + mark, _beneath(row, shown, beneath)


def _beneath(
    row: Mapping[str, float], shown: Callable[[float], str], beneath: str
) -> str:
    if beneath == "interval":
        ends = [row["lower"], row["upper"]]
        if np.isnan(ends).any():
            return ""
        return f"[{shown(ends[0])}, {shown(ends[1])}]"
    if beneath == "p":
        from probreg.fits.summary import p_cell

        if "p_positive" in row:
            return f"P(> 0) {format_probability(row['p_positive'])}"
        said = p_cell(row.get("p_value", np.nan))
        if not said:
            return ""
        if said[0] in "<>":
            return f"p {said}"
        return f"p = {said}"
    if (
        np.isnan(row["error"]) and "median" in row
    ):  # a ratio of a posterior, which has an interval alone
        return _beneath(row, shown, "interval")
    if np.isnan(row["error"]):
        return ""
    return f"({shown(row['error'])})"


# ---- notes -------------------------------------------------------------------------------------------------------------


def _table_notes(
    columns: Sequence[_Column], beneath: str, prob: float, *, stars: bool
) -> list[str]:
    posterior = [c.name for c in columns if c.fit.target == "posterior"]
    said = {
        "se": _describe_errors(columns, posterior, prob),
        "interval": f"{100 * prob:g} % intervals in brackets: " + ", ".join(
            f"{KIND_WORDS.get(c.words['kind'], c.words['kind'])} of {c.name}" for c in columns) + ".",
        "p": "Two-sided p of a coefficient of 0" + (f"; posterior probability above 0 of {', '.join(posterior)}." if posterior else "."),
    }[beneath]  # fmt: skip
    notes = [said]
    ratios = dict.fromkeys(c.words["ratio"] for c in columns if "ratio" in c.words)
    notes += (
        [f"Coefficients are {' and '.join(f'{r}s' for r in ratios)}."] if ratios else []
    )
    notes += [_kind(c) for c in columns]
    notes += _noise_scales(columns)
    if stars:
        notes.append(
            "* p < 0.05, ** p < 0.01, *** p < 0.001; a mode under a prior and a posterior have no p."
        )
    return notes


def _describe_errors(
    columns: Sequence[_Column], posterior: list[str], prob: float
) -> str:
    """What stands beneath: standard errors and deviations in parentheses; ratios of a posterior have intervals, in brackets."""
    ratios = [
        n for n in posterior if any(c.name == n and "ratio" in c.words for c in columns)
    ]
    told = [n for n in posterior if n not in ratios]
    modes = any(_has_errors(c) for c in columns if c.name not in posterior)
    said = ["Standard errors in parentheses"] if modes else []
    if told:
        said.append(
            f"posterior standard deviations of {', '.join(told)}"
            if modes
            else "Posterior standard deviations in parentheses"
        )
    if ratios:
        brackets = f"{100 * prob:g} % intervals in brackets"
        said.append(f"{brackets} for {', '.join(ratios)}" if said else brackets)
    if said:
        return "; ".join(said) + "."
    return "No standard errors."


def _has_errors(c: _Column) -> bool:
    return any(np.isfinite(row["error"]) for row in c.cells.values())


def _noise_scales(columns: Sequence[_Column]) -> list[str]:
    """What each number in the line of the noise scale is, where they are not all the same."""
    of = {
        c.name: _noise_scale(c.fit)
        for c in columns
        if c.fit.model.likelihood.noise_scale in c.statistics
    }
    names = dict.fromkeys(
        c.fit.model.likelihood.noise_scale for c in columns if c.name in of
    )
    each = [
        f"{what} ({', '.join(n for n, w in of.items() if w == what)})"
        for what in dict.fromkeys(of.values())
    ]
    if not each:
        return []
    return [
        f"{' and '.join(map(str, names))}: {'; '.join(each) if len(each) > 1 else next(iter(of.values()))}."
    ]


def _noise_scale(fit: Fit) -> str:
    """What the noise scale of a fit is."""
    found = fit.solution.found
    if found is not None and fit.model.likelihood.noise_scale in found.values:
        if found.plain:
            return f"at the maximum of {found.criterion}"
        return "at the maximum, under priors of scales"
    if fit.model.noise_held is not None:
        return "held"
    if fit.target == "posterior":
        return "posterior mean"
    if not fit.model.flat:
        return "joint mode with the coefficients"
    of_rss = (
        fit.model.likelihood.least_squares
        and fit.model.design.weight_kind != "sampling"
    )
    return "sqrt(RSS / df)" if of_rss else "maximum likelihood"


def _kind(c: _Column) -> str:
    """What the numbers of a column are."""
    from probreg.model.prior_words import prior_line

    fit = c.fit
    ratio = "ratio" in c.words
    mean = "posterior median" if ratio else "posterior mean"
    if fit.target == "posterior":
        what = mean
    else:
        what = _describe_estimate(fit)
    said = f"{c.name}: {what} by {fit.method.name if fit.solution.found is None else 'evidence'}"
    covariance = c.words.get("covariance", "none")
    said += (
        f", {covariance} standard errors"
        if fit.target == "mode" and covariance != "none" and _has_errors(c)
        else ""
    )
    prior = prior_line(fit.stated_model)
    return said + (
        "." if prior == "flat" and fit.target == "mode" else f"; prior {prior}."
    )


def _describe_estimate(fit: Fit) -> str:
    """What a point estimate is: a maximum, or where the search ended instead."""
    if not fit.method.probabilities:
        return "weights that separate classes, no maximum of a likelihood,"
    if fit.model.flat:
        maximum = "maximum likelihood"
    else:
        maximum = "mode under a prior"
    if tested_at_found_scales(fit) and fit.solution.found is not None:
        if fit.solution.found.criterion == "REML":
            return "restricted maximum likelihood"
        return "maximum likelihood"
    if fit.solution.status is Status.SHORT or fit.solution.status.unfinished:
        return f"stopped short of {'the ' * (not fit.model.flat)}{maximum}"
    if fit.solution.status is Status.NO_MAXIMUM:
        return "no maximum of the likelihood exists, fit"
    return maximum


def _of_responses(columns: Sequence[_Column]) -> list[str]:
    """What each fit models, where they differ."""
    each = {c.name: c.fit.described["models"] for c in columns}
    if len(set(each.values())) == 1:
        return [f"Models {next(iter(each.values()))}."]
    return [f"{name} models {said}." for name, said in each.items()]


def _edf_words(edf: float) -> str:
    """Effective degrees of freedom; nothing where a mode has none, such as that of a loss with kinks.

    >>> _edf_words(2.34), _edf_words(np.nan)
    ('2.3 edf', '')
    """
    return f"{edf:.1f} edf" if np.isfinite(edf) else ""
