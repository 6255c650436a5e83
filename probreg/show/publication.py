"""A regression table for publication: one column per fit, standard errors or intervals beneath the estimates, and fit statistics."""

from collections.abc import Callable, Mapping, Sequence
from typing import Any, Literal, NamedTuple

import numpy as np

from probreg.arguments.scalars import (
    Count,
    CovarianceLike,
    Flag,
    Names,
    Probability,
    Word,
    check_arguments,
    list_names,
)
from probreg.comparison.same_question import fits_by_name
from probreg.errors import DataError, Incompatible
from probreg.fits.fit import Fit
from probreg.fits.goodness import (
    estimate_name,
    exact_fit,
    is_density,
)
from probreg.fits.inference_data import index_labels
from probreg.fits.statistics import stated_prior_line
from probreg.inference.base import has_effects
from probreg.inference.reported import reported_parameters
from probreg.inference.uncertainty.intervals.kinds import KIND_WORDS, KINDS
from probreg.inference.varying import OF_EFFECTS, held_scales
from probreg.system.terminal import format_probability
from probreg.tables import Column, Table
from probreg.tables.render import decimals, format_p_value, format_rounded

Beneath = Literal["se", "interval", "p"]
Cell = tuple[str, str]  # a number, and its error or interval
Row = Mapping[str, float]  # of a summary, with "value" and "error"
# names in `glance`
_STATISTICS = {
    "nobs": "N", "r.squared": "R²", "adj.r.squared": "adjusted R²", "sigma": "sigma", "r2.marginal": "R² marginal",
    "r2.conditional": "R² conditional", "icc": "ICC", "REMLcrit": "REML criterion", "logLik": "log-likelihood", "AIC": "AIC", "BIC": "BIC",
}  # fmt: skip
_ORDER = (
    "R²", "adjusted R²", "R² (deviance)", "McFadden's R²", "sigma", "scale", "alpha", "log-likelihood", "AIC", "BIC",
)  # fmt: skip


class _FitColumn(NamedTuple):
    """One fit: the rows of its summary by label, its smooth functions, its statistics, and the attributes of the summary."""

    name: str
    fit: Fit
    rows: Mapping[str, Row]
    smooths: Mapping[str, float]
    statistics: Mapping[str, str]
    attrs: Mapping[str, Any]

    @property
    def has_errors(self) -> bool:
        return any(np.isfinite(row["error"]) for row in self.rows.values())


@check_arguments
def table(
    fits: Mapping[str, Fit] | Mapping[float, Fit] | Sequence[Fit] | Fit,
    *,
    beneath: Beneath = "se",
    prob: Probability = 0.95,
    kind: Word | None = None,
    covariance: CovarianceLike | Mapping[str, CovarianceLike] | None = None,
    exp: Flag = False,
    reference: Flag = False,
    digits: Count = 3,
    keep: Names | None = None,
    rename: Mapping[str, str] | None = None,
    title: Word | None = None,
) -> Table:
    """Return a regression table for publication: a column per fit, standard errors beneath the coefficients, and fit statistics.

    Fits may differ in data, columns, likelihood and method; a cell is blank if the fit does not have the value. Coefficients of an outcome are
    called "column: outcome". A smooth function is one line, with its effective degrees of freedom.

    Parameters
    ----------
    fits : mapping from str or float to Fit, or sequence of Fit, or Fit
        The columns by name, as `quantile_regression` gives them by number; a sequence is named by the methods.
    beneath : {"se", "interval", "p"}
        The number beneath an estimate: its standard error (standard deviation of a posterior), its interval, or p. A
        posterior has P(> 0) in place of p.
    prob : float
        Probability of the intervals, between 0 and 1.
    kind : str, optional
        The kind of the intervals, as in `Fit.interval`, for the fits that have it.
    covariance : str or DataArray, or mapping from names of fits to these, optional
        The source of the standard errors; a single one applies to all point estimates.
    exp : bool
        Whether coefficients are odds ratios, rate ratios or ratios of means, as in `Fit.summary`.
    reference : bool
        Whether the reference level of each factor with treatment contrasts has a row.
    digits : int
        Significant digits of the smallest standard error in a line. The whole line has the same decimals; ratios are rounded
        one by one.
    keep : str or list of str, optional
        The coefficients that are shown, in this order, by column or by "column: outcome"; all by default.
    rename : mapping from str to str, optional
        Names of coefficients in the table, by their names in the fits.
    title : str, optional
        By default the response, if all fits have the same response.

    Returns
    -------
    Table
        Prints itself, also in a notebook; `to_markdown()`, `to_latex()`, `to_html()`, `to_pandas()`, `to_csv(path)`, `to_excel(path)`, `to_word(path)`.

    Raises
    ------
    DataError
        For a name in keep, rename or covariance that is not in the table.
    Incompatible
        If a fit has no such intervals, covariance or ratios.

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
    several = fits_by_name(fits, "table")
    if rename is not None and not isinstance(rename, Mapping):
        raise DataError(
            f"rename is a mapping from labels to labels, got {type(rename).__name__}"
        )
    covariances = _covariances(several, covariance)
    columns = [
        _fit_column(name, fit, prob, kind, covariances.get(name), exp=exp)
        for name, fit in several.items()
    ]
    names = dict(rename or {})
    _check_labels(columns, names, "rename")
    _check_new_labels(columns, names)
    bases = [_reference_levels(fit) if reference else {} for fit in several.values()]
    entries = {}
    for label in _select_labels(columns, list_names(keep)):
        coef, _, outcome = label.rpartition(": ")
        for own in bases:
            end = "" if label in own else f": {outcome}"
            base = own.get(label) or own.get(coef)
            if base is not None and f"{base}{end}" not in entries:
                entries[f"{base}{end}"] = [
                    ("reference" if _has_level_of(base, end, c, of_fit) else "", "")
                    for c, of_fit in zip(columns, bases)
                ]
        cells = _coefficient_cells(label, columns, beneath, digits)
        entries[_rename_label(label, names)] = cells
    for label in dict.fromkeys(label for c in columns for label in c.smooths):
        if keep is None or label in list_names(keep):
            cells = [(_format_edf(c.smooths.get(label, np.nan)), "") for c in columns]
            entries[names.get(label, label)] = cells
    coefficients = _lines(entries)
    statistics = _lines(
        {
            label: [(c.statistics.get(label, ""), "") for c in columns]
            for label in _statistic_labels(columns)
        }
    )
    responses = {fit.model.design.response for fit in several.values()}
    if title is None:
        title = responses.pop() if len(responses) == 1 else ""
    lines = [*coefficients, *statistics]
    numbers = (
        Column(name, [line[i + 1] for line in lines], str)
        for i, name in enumerate(several)
    )
    return Table(
        (Column(title, [line[0] for line in lines]), *numbers),
        rules=(len(coefficients),) if statistics else (),
        notes=_table_notes(columns, beneath, prob),
        source=".to_pandas(); keep= chooses coefficients",
    )


# ---- one fit -----------------------------------------------------------------------------------------------------------


def _covariances(fits: Mapping[str, Fit], covariance: Any) -> dict[str, Any]:
    """The covariance by fit; a single one applies to all point estimates."""
    if covariance is None:
        return {}
    if not isinstance(covariance, Mapping):
        modes = {n: covariance for n, fit in fits.items() if fit.target == "mode"}
        if not modes:
            raise Incompatible(
                "covariance= is for point estimates, and every fit of this table is a posterior"
            )
        return modes
    by_fit = {str(name): value for name, value in covariance.items()}
    for name in by_fit:
        if name not in fits:
            raise DataError(
                f"covariance= names {name!r}, which is no fit of the table: {', '.join(fits)}"
            )
    return by_fit


def _fit_column(
    name: str, fit: Fit, prob: float, kind: str | None, covariance: Any, *, exp: bool
) -> _FitColumn:
    from probreg.fits.summary import without_reported_intercept  # pandas

    if kind not in KINDS[fit.target] and any(kind in kinds for kinds in KINDS.values()):
        kind = None  # other fits have it
    summary = fit.summary(prob, kind, covariance=covariance, exp=exp)
    if exact_fit(fit):
        summary[["std_error", "lower", "upper"]] = np.nan  # rounding
    terms = {c for term in fit.model.design.recipe.terms for c in term.columns}
    size = len(fit.parameter_names)
    body = without_reported_intercept(fit, summary.iloc[:size])
    body = body[~body.index.get_level_values(-1).isin(terms)]
    error = body.get("std_error", body.get("sd", np.nan))
    body = body.assign(value=body.iloc[:, 0], error=error)
    rows = dict(zip(index_labels(body.index), body.to_dict("records")))
    smooths = fit.smooths["edf"].to_dict() if terms else {}
    return _FitColumn(name, fit, rows, smooths, _statistics(fit), summary.attrs)


def _statistics(fit: Fit) -> dict[str, str]:
    """The statistics of a fit as texts; R² under the name of its kind."""
    likelihood = fit.model.likelihood
    row = fit.glance().iloc[0].to_dict()
    reported = fit.once(reported_parameters)
    values = {**fit.aux, **{k: v for k, (v, _) in reported.scalars.items()}}
    statistics = {k: _significant(values[k]) for k in reported.names or fit.aux}
    statistics |= _count_events(fit)
    if has_effects(fit.model):
        scales = fit.solution.effect_scales
        found = {name: _significant(v) for name, v in fit.hyper.items()}
        fixed = {
            name: f"{_significant(v)} (fixed)"
            for name, v in held_scales(fit.stated_model).items()
        }
        statistics = fixed | found | statistics
        absent = {"r.squared", "adj.r.squared", "sigma"}
        if scales is None or scales.criterion == "REML":
            absent.add("logLik")
    else:
        statistics.pop(likelihood.noise_scale or "", None)
        absent = {"sigma"} if exact_fit(fit) else set()
    for name, label in _STATISTICS.items():
        value = row.get(name, np.nan)
        if name in absent or not np.isfinite(value):
            continue
        if name == "r.squared" and not likelihood.least_squares:
            label = "R² (deviance)" if is_density(fit.model) else "McFadden's R²"
        if name == "sigma":
            label = str(likelihood.noise_scale)
        if name == "nobs":
            statistics[label] = f"{value:.0f}"
        elif "R²" in label or label == "ICC":
            statistics[label] = f"{value:.3f}"
        else:
            statistics[label] = _significant(value)
    return statistics


def _count_events(fit: Fit) -> dict[str, str]:
    """Return the number of events: rows with the second level, or with an upper end if some rows have none. Empty for other responses."""
    likelihood = fit.model.likelihood
    design = fit.model.design
    is_event = None
    if design.n and likelihood.binary:
        is_event = design.observed
    elif design.n and likelihood.is_censored(design.observed).any():
        is_event = np.isfinite(design.observed[:, 1])
    if is_event is None or is_event.all():
        return {}
    return {"events": f"{design.row_weights @ is_event:.12g}"}


def _significant(value: float) -> str:
    """Return a number to four significant digits, with all digits before its point.

    >>> _significant(3.0), _significant(122.71), _significant(123456.7)
    ('3.000', '122.7', '123457')
    """
    if value:
        return format_rounded(value, decimals(np.abs([value])) + 1)
    return "0"


# ---- lines -------------------------------------------------------------------------------------------------------------


def _lines(entries: Mapping[str, Sequence[Cell]]) -> list[list[str]]:
    """One line per entry, and a second one if there is something beneath."""
    lines = []
    for label, cells in entries.items():
        lines.append([label, *(number for number, _ in cells)])
        if any(below for _, below in cells):
            lines.append(["", *(below for _, below in cells)])
    return lines


def _reference_levels(fit: Fit) -> dict[str, str]:
    """Return "g[a]" for the reference level a of each factor with treatment contrasts, by the labels of its columns."""
    references = dict[str, str]()
    columns = fit.model.design.columns
    recipe = fit.model.design.recipe
    for prefix, part in getattr(recipe, "by_prefix", {}).items():
        for text, levels in part.memory.levels.items():
            labels = [f"{prefix}{text}[T.{level}]" for level in levels]
            coded = [label for label in labels if label in columns]
            if len(coded) == len(levels) - 1:
                (base,) = set(labels) - set(coded)
                references |= dict.fromkeys(coded, base.replace("[T.", "["))
    return references


def _has_level_of(
    base: str, end: str, column: _FitColumn, references: Mapping[str, str]
) -> bool:
    """Whether a fit has a coefficient against the level `base` with a label that ends with `end` (an outcome)."""
    return any(
        f"{label}{end}" in column.rows for label, of in references.items() if of == base
    )


def _check_labels(columns: Sequence[_FitColumn], names: Any, argument: str) -> None:
    labels = dict.fromkeys(label for c in columns for label in (*c.rows, *c.smooths))
    valid = {*labels, *(label.split(": ")[0] for label in labels)}
    for name in names:
        if name not in valid:
            raise DataError(
                f"{argument}= names {name!r}, which is no coefficient of these fits: {', '.join([*labels][:12])}"
            )


def _check_new_labels(columns: Sequence[_FitColumn], names: Mapping[str, Any]) -> None:
    """Raise DataError for a new label that is not text, and for a label that two rows would share, because one row would be lost."""
    for old, new in names.items():
        if not isinstance(new, str):
            raise DataError(f"rename: the label of {old!r} is text, got {new!r}")
    old_of: dict[str, str] = {}
    for c in columns:
        for label in (*c.rows, *c.smooths):
            new = _rename_label(label, names)
            other = old_of.setdefault(new, label)
            if other != label:
                raise DataError(
                    f"rename: {other!r} and {label!r} would have the same label, {new!r}"
                )


def _select_labels(columns: Sequence[_FitColumn], keep: list[str]) -> list[str]:
    """The labels in `keep`, in its order, or all."""
    _check_labels(columns, keep, "keep")
    labels = dict.fromkeys(label for c in columns for label in c.rows)
    if not keep:
        return list(labels)
    return [x for name in keep for x in labels if name in (x, x.split(": ")[0])]


def _rename_label(label: str, names: Mapping[str, str]) -> str:
    coef, colon, outcome = label.partition(": ")
    return names.get(label, f"{names.get(coef, coef)}{colon}{outcome}")


def _statistic_labels(columns: Sequence[_FitColumn]) -> list[str]:
    """N, the standard deviations of effects, the statistics in their order, and the others."""
    labels = dict.fromkeys(label for c in columns for label in c.statistics)
    first = [
        "N",
        "events",
        *(label for label in labels if label.startswith(OF_EFFECTS)),
        *_ORDER,
    ]
    return [
        label for label in dict.fromkeys([*first, *sorted(labels)]) if label in labels
    ]


def _coefficient_cells(
    label: str, columns: Sequence[_FitColumn], beneath: str, digits: int
) -> list[Cell]:
    """The cells of one coefficient; the decimal places give the smallest error its digits."""
    rows = [c.rows.get(label) for c in columns]
    places = _decimal_places([row for row in rows if row is not None], digits)
    are_ratios = any("ratio" in c.attrs for c in columns)

    def write(value: float) -> str:
        if are_ratios:  # their sizes have no common unit
            return f"{value:#.{digits}g}".rstrip(".")
        return format_rounded(value, places) if value else "0"

    return [("", "") if row is None else _cell(row, write, beneath) for row in rows]


def _decimal_places(rows: Sequence[Row], digits: int) -> int:
    sizes = [row["error"] for row in rows]
    sizes += [(row["upper"] - row["lower"]) / 4 for row in rows]
    if not any(0.0 < size < np.inf for size in sizes):
        sizes = [abs(row["value"]) for row in rows]
    return decimals(np.array(sizes)) + digits - 3


def _cell(row: Row, write: Callable[[float], str], beneath: str) -> Cell:
    if not np.isfinite(row["value"]):
        return ("no estimate" if np.isnan(row["value"]) else "inf"), ""
    return write(row["value"]), _beneath(row, write, beneath)


def _beneath(row: Row, write: Callable[[float], str], beneath: str) -> str:
    if beneath == "p" and "p_positive" in row:
        return f"P(> 0) {format_probability(row['p_positive'])}"
    if beneath == "p":
        p = format_p_value(row.get("p_value", np.nan))
        if not p:
            return ""
        return f"p {p}" if p[0] in "<>" else f"p = {p}"
    if beneath == "interval" or "median" in row:  # a posterior of ratios has no error
        if np.isnan(row["lower"] + row["upper"]):
            return ""
        return f"[{write(row['lower'])}, {write(row['upper'])}]"
    return "" if np.isnan(row["error"]) else f"({write(row['error'])})"


def _format_edf(edf: float) -> str:
    """Effective degrees of freedom; empty for nan.

    >>> _format_edf(2.34), _format_edf(np.nan)
    ('2.3 edf', '')
    """
    return f"{edf:.1f} edf" if np.isfinite(edf) else ""


# ---- notes -------------------------------------------------------------------------------------------------------------


def _table_notes(
    columns: Sequence[_FitColumn], beneath: str, prob: float
) -> tuple[str, ...]:
    notes = []
    in_brackets = beneath == "interval" or any(
        "ratio" in c.attrs and c.fit.target == "posterior" for c in columns
    )
    if beneath == "p":
        notes.append("Two-sided p of a coefficient of 0; P(> 0) of a posterior.")
    elif beneath == "se" and any(c.has_errors for c in columns):
        targets = {c.fit.target for c in columns if c.has_errors}
        words = "Standard errors"
        if "posterior" in targets:
            words += " or posterior standard deviations"
        if targets == {"posterior"}:
            words = "Posterior standard deviations"
        notes.append(f"{words} in parentheses.")
    elif not in_brackets:
        notes.append("No standard errors.")
    if in_brackets:
        notes.append(f"{100 * prob:g} % intervals in brackets.")
    ratios = dict.fromkeys(c.attrs["ratio"] for c in columns if "ratio" in c.attrs)
    if ratios:
        names = " and ".join(ratios).replace("ratio", "ratios")
        notes.append(f"Coefficients are {names}.")
    notes += [_describe_fit(c, beneath) for c in columns]
    models = {c.name: c.fit.described["models"] for c in columns}
    if len({*models.values()}) == 1:
        notes.append(f"Models {next(iter(models.values()))}.")
    else:
        notes += [f"{name} models {response}." for name, response in models.items()]
    return tuple(notes)


def _noise_scale(fit: Fit) -> str:
    """Describe the estimate of the noise scale."""
    model = fit.model
    scales = fit.solution.effect_scales
    if scales is not None and model.likelihood.noise_scale in scales.values:
        if scales.plain:
            return f"at the maximum of {scales.criterion}"
        return "at the maximum, under priors of scales"
    if model.noise_held is not None:
        return "fixed"
    if fit.target == "posterior":
        return "posterior mean"
    if not model.flat:
        return "joint mode with the coefficients"
    of_rss = model.likelihood.least_squares and model.design.weight_kind != "sampling"
    return "sqrt(RSS / df)" if of_rss else "maximum likelihood"


def _describe_fit(c: _FitColumn, beneath: str) -> str:
    """The estimate, method, kind of errors or intervals, noise scale and prior of a column."""
    fit = c.fit
    estimate = estimate_name(fit)
    if fit.target == "posterior" and "ratio" in c.attrs:
        estimate = "posterior median"
    method = fit.method.name if fit.solution.scales is None else "evidence"
    description = f"{c.name}: {estimate} by {method}"
    covariance = c.attrs.get("covariance", "none")
    if fit.target == "mode" and covariance != "none" and c.has_errors:
        description += f", {covariance} standard errors"
    if beneath == "interval":
        kind = c.attrs["kind"]
        description += f", {KIND_WORDS.get(kind, kind)} intervals"
    noise_scale = fit.model.likelihood.noise_scale
    if noise_scale in c.statistics:
        description += f"; {noise_scale} {_noise_scale(fit)}"
    prior = stated_prior_line(fit)
    if prior != "flat" or fit.target == "posterior":
        description += f"; prior {prior}"
    return f"{description}."
