"""The comparison of fits, and its text and HTML: a head, a row per parameter and fit, the largest reasons, and notes.

The text has at most 40 lines of 110 columns; with many parameters it has only parameters with the largest differences.
"""

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import Any

import numpy as np
from rich.cells import cell_len

from probreg.arguments.scalars import (
    DataFrame,
    Positive,
    Probability,
    Word,
    check_arguments,
)
from probreg.comparison.attributed_causes import Attribution, attribute_differences
from probreg.comparison.numbers import (
    RANK_DECIMALS,
    FitTable,
    dataset,
    incomparable_parameters,
)
from probreg.comparison.prior_weight import rowless
from probreg.comparison.same_question import (
    check_kind,
    differing_terms,
    fits_by_name,
    refuse_unlike,
)
from probreg.errors import DataError
from probreg.fits.fit import Fit
from probreg.fits.statistics import stated_prior_line
from probreg.inference.modes.wide import refuse_written_out
from probreg.inference.uncertainty.intervals.kinds import KIND_WORDS
from probreg.inference.varying import OF_EFFECTS
from probreg.system.terminal import clean_lines, cut_text, percent, shorten_names
from probreg.tables import Column, Table
from probreg.tables.render import Format, decimals, format_rounded, notebook_html
from probreg.tables.table import LINES_OF_PRINT

_WEIGHT_NOTE = (
    "prior weight: the prior's part of the precision, (P H^-1)_jj at the estimate, P and H the curvatures of log prior and "
    "log posterior; not defined at a kink of the log prior, where it is not concave, or where H is singular to rounding"
)
_TERMS_NOTE = "fits have other columns for a smooth function, a process or effects by group: its coefficients are left out"


def _fit_notes(table: FitTable, name: str) -> list[str]:
    row = table.data.sel(fit=name)
    fit = table.fits[name]
    missing = row["param"].values[
        np.isnan(row["estimate"].values) & (row["kind"].values != "")
    ]
    texts = []
    if len(missing):
        names = shorten_names(missing, 20)
        texts.append(f"no estimate of {names} exists: {fit.described['status']}")
    texts += fit.described["notes"]
    incomparable = incomparable_parameters(table.fits[table.baseline], fit)
    if incomparable:
        texts.append(
            f"no difference is given for {', '.join(incomparable)}, which is not the same quantity under the likelihood of {table.baseline}"
        )
    if rowless(fit) and row["prior_weight"].isnull().any():
        texts.append(
            f"{fit.model.design.rows_absent}, so that some prior weights are not known"
        )
    return texts


def design_notes(table: FitTable) -> list[str]:
    """The notes on rows that were dropped and columns that are not compared."""
    designs = [fit.model.design for fit in table.fits.values()]
    notes = dict.fromkeys([note for design in designs for note in design.notes])
    if differing_terms(table.fits.values()):
        notes[_TERMS_NOTE] = None
    return [*notes]


Array = np.ndarray
# with more parameters, only these with the largest differences are printed
MOST_PARAMETERS = 20
HEADINGS = (
    "", "fit", "estimate", "SE | SD", "lower", "upper", "diff / SE", "SE ratio", "prior", "prior weight",
)  # fmt: skip


def parameter_table(
    table: FitTable, params: Sequence[int], headings: Iterable[str] = HEADINGS
) -> Table:
    """Return the rows of these parameters, with the columns of these headings that are not empty."""
    values = {str(q): v.values for q, v in table.data.data_vars.items()}
    rows = []
    for j in params:
        label = {"": str(table.data["param"].values[j])}
        places = decimals(values["error"][:, j])  # of the smallest standard error
        for i, (name, fit) in enumerate(table.fits.items()):
            label["fit"] = name if fit.solution.status.good else f"{name} (!)"
            entry = {q: v[i, j] for q, v in values.items()}
            baseline = name == table.baseline
            rows.append(label | _format_entry(entry, places, fit, baseline=baseline))
    omitted = ["fit"] if len(table.fits) == 1 else []
    if not table.data["prior_weight"].fillna(1.0).any():
        omitted += ["prior", "prior weight"]
    columns = []
    for name in headings:
        cells = [row.get(name, "") for row in rows]
        if name not in omitted and (any(cells) or not name):
            is_text = name in ("", "fit", "prior")
            columns.append(Column(name, cells, None if is_text else str))
    labels = 2 if len(table.fits) > 1 else 1
    return Table(tuple(columns), labels, source=".to_pandas()")


def _format_entry(
    entry: Mapping[str, Any], places: int, fit: Fit, *, baseline: bool
) -> dict[str, str]:
    """Return the cells of one parameter of one fit."""
    if entry["kind"] == "fixed":
        value = f"{entry['estimate']:g}"
        return {"estimate": value, "SE | SD": "fixed", "prior": entry["prior"]}
    if entry["kind"] == "":
        return {"estimate": "not in it"}
    if entry["prior"] == "flat":
        weight = "flat"
    elif not np.isnan(entry["prior_weight"]):
        weight = percent(entry["prior_weight"])
    else:
        weight = "not known" if rowless(fit) else "not defined"
    cells = {"prior": str(entry["prior"]), "prior weight": weight}
    if np.isnan(entry["estimate"]):
        return cells | {"estimate": "does not exist"}
    for q in ("estimate", "lower", "upper"):
        cells[q] = format_rounded(entry[q], places)
    cells["SE | SD"] = "none"
    if np.isfinite(entry["error"]):
        name = "SD" if fit.target == "posterior" else "SE"
        cells["SE | SD"] = f"{format_rounded(entry['error'], places)} {name}"
    if not baseline and np.isfinite(entry["difference"]):
        cells["diff / SE"] = f"{round(entry['difference'], 2) + 0.0:+.2f}"
    if not baseline and entry["se_ratio"] > 0:
        cells["SE ratio"] = f"{entry['se_ratio']:.3f}"
    return cells


def _distances(table: FitTable) -> Array:
    """(fit, param): distance from the baseline, max(|difference| / SE, |log SE ratio|).

    It is inf if exactly one of the two has no estimate or an estimate of 0, and 0 if it is not defined.
    """
    data = table.data
    estimate = data["estimate"].values
    base = data["estimate"].sel(fit=table.baseline).values
    ratio = data["se_ratio"].values
    difference = np.abs(data["difference"].values).round(RANK_DECIMALS)
    log_ratio = np.abs(np.log(np.where(ratio > 0, ratio, 1.0))).round(RANK_DECIMALS)
    size = np.fmax(difference, log_ratio)
    unlike = ((estimate == 0.0) != (base == 0)) & (difference != 0.0)
    unlike |= np.isnan(estimate) != np.isnan(base)
    unlike &= data["kind"].values != ""
    return np.where(unlike, np.inf, np.nan_to_num(size, posinf=0.0))


def choose_parameters(
    table: FitTable, long: int = 60, limit: int = MOST_PARAMETERS
) -> tuple[list[int], list[str]]:
    """Return the numbers of the printed parameters in their order, without columns of smooth functions and processes, and lines on the others.

    If there are more than `long`, these are the `limit` coefficients with the largest differences, and all auxiliary parameters.
    """
    coefficient = table.data["role"].values == "coefficient"
    columns = []
    for fit in table.fits.values():
        design = fit.model.design
        columns += [c for c, term in zip(design.columns, design.of_terms) if term]
    in_terms = table.data["coef"].isin(columns).values & coefficient
    shown = ~in_terms
    if shown.sum() > long:
        candidates = np.flatnonzero(coefficient & shown)
        size = _distances(table).max(0)[candidates]
        shown = ~coefficient
        shown[candidates[np.argsort(-size, kind="stable")[:limit]]] = True
    params = [int(j) for j in np.flatnonzero(shown)]
    n = len(table.fits)
    n_terms = int(in_terms.sum())
    n_hidden = len(shown) - len(params) - n_terms
    lines = []
    if n_hidden:
        order = "these have the largest differences" if n > 1 else "these are the first"
        lines.append(
            f"{order}; {n_hidden} more parameters, {n_hidden * n} rows, in .to_pandas()"
        )
    if n_terms:
        lines.append(
            f"{n_terms} coefficients of smooth functions and processes, {n_terms * n} rows, in .to_pandas()"
        )
    return params, lines


def _header(table: FitTable) -> list[str]:
    """Return the model, the number of rows, and a line for each fit: method, intervals, seed, model, prior and status."""
    attrs = table.data.attrs
    d = table.fits[table.baseline].model.design
    n = attrs.get("observations")
    size = "rows not kept" if n is None else f"{n:g} observations"
    if n is not None and d.n and d.n != n:
        size += f" in {d.n} rows"
    if table.data[["lower", "upper"]].notnull().to_dataarray().any():
        size += f"; {100 * table.prob:g} % intervals"
    if len(table.fits) > 1:
        size += f"; diff / SE and SE ratio are against {table.baseline}"
    lines = [attrs["models"], size]
    width = max(map(cell_len, table.fits))
    n_shown = 8  # with a separate line in the head
    for name, fit in list(table.fits.items())[:n_shown]:
        parts = [fit.method_label, f"{kinds_of_intervals(table, name)} intervals"]
        if fit.target == "posterior":
            parts.append(f"seed {fit.seed}")
        models = fit.method.describe(fit.model)
        if models != attrs["models"]:
            parts.append(models)
        prior = stated_prior_line(fit)
        if prior != "flat":
            parts.append(f"prior {prior}")
        s = fit.solution
        status = s.status.value
        if not s.status.good:
            status = f"(!) {cut_text(s.status.describe(s.detail))}"
        blank = " " * (width - cell_len(name))
        lines.append(f"  {name}{blank}  {', '.join(parts)}; {status}")
    if len(table.fits) > n_shown:
        lines.append(f"  {len(table.fits) - n_shown} more fits in .fits")
    return lines


def kinds_of_intervals(table: FitTable, name: str) -> str:
    """Return the kind of the coefficients' intervals of a fit, with different kinds of other parameters in brackets; "no" for none."""
    data = table.data.sel(fit=name)
    has_interval = data["lower"].notnull() | data["upper"].notnull()
    names_by_words: dict[str, list[str]] = {}
    for param, kind in zip(
        data["param"].values[has_interval], data["kind"].values[has_interval]
    ):
        if kind in KIND_WORDS:
            names_by_words.setdefault(KIND_WORDS[kind], []).append(str(param))
    if not names_by_words:
        return "no"
    first, *others = names_by_words
    brackets = [f"{', '.join(names_by_words[words])}: {words}" for words in others]
    return f"{first} ({', '.join(brackets)})" if brackets else first


def printed_smooths(table: FitTable) -> Table:
    """The smooth functions by fit: effective degrees of freedom, number of columns, and the scales of the blocks."""
    terms = [fit.model.design.recipe.terms for fit in table.fits.values()]
    if not any(terms):
        return Table(())
    scales = [", ".join(f"{t:.4g}" for t in tau) for tau in table.smooths["tau"]]
    smooths = table.smooths.assign(tau=scales).rename_axis(["smooth function", "fit"])
    formats: dict[str, Format] = {"edf": "{:.3f}".format, "tau": str}
    return Table.from_pandas(smooths, formats=formats, source=".smooths")


@dataclass(frozen=True, eq=False, repr=False)
class Comparison(FitTable):
    """Estimates of several fits and their differences from a baseline, over (fit, param), unrounded; the result of `compare`.

    Parameters
    ----------
    fits : mapping from str to Fit
        The fits.
    baseline : str
        The fit that the others are compared with.
    prob : float
        Probability of every interval.
    data : Dataset (fit, param)
        estimate; error (SE of a mode, SD of a posterior; see the coordinate `error_name`); lower, upper, kind;
        difference = (estimate - baseline) / SE of the baseline; se_ratio = error / baseline's; prior; prior_weight,
        (P H^-1)_jj (of sigma P / H over log sigma, with the prior of coefficients in its units); mcse (Monte Carlo
        error of a mean) and skewness (of a posterior). nan: does not exist, or is not defined.
    apart : float
        Differences of more than this number of SE of the baseline get a reason.

    Attributes
    ----------
    reasons : dict
        For each parameter that differs, the largest cause with its share.
    causes : DataFrame
        Every cause with its shares and evidence.
    smooths : DataFrame
        The smooth functions of each fit: effective degrees of freedom, columns and scales.
    notes : tuple of str
        Notes for reading the table: missing values with their reasons, and sigma.

    Examples
    --------
    >>> from probreg import Model, Normal
    >>> from probreg.fits.fit import fit
    >>> model = Model.from_arrays([[1.0], [2.0], [4.0], [7.0]], [1.0, 3.0, 4.0, 8.0], columns=["x"], aux={"sigma": 1.0})
    >>> both = compare({"ML": fit(model), "ridge": fit(model.with_prior(Normal(0.5)))})
    >>> both.to_pandas().loc["x", [("ML", "estimate"), ("ridge", "estimate"), ("ridge", "prior_weight")]].round(3).tolist()
    [1.095, 0.92, 0.16]
    >>> both.reasons["x"]  # sum of squares of x about its mean 21, prior precision 4: 21/25 of least squares is left
    ('ridge: prior of x: shift -0.8 SE, SE ratio 0.917',)
    """

    @cached_property
    def reasons(self) -> dict[str, tuple[str, ...]]:
        """A sentence for each parameter and fit with an estimate or interval end more than `apart` SE from the baseline's: the share
        of the largest cause, or the differences between the fits if no path connects them."""
        sentences: dict[str, tuple[str, ...]] = {}
        for a in self.attributions:
            sentences[a.param] = (*sentences.get(a.param, ()), a.sentence)
        return sentences

    @cached_property
    def causes(self) -> DataFrame:
        """The causes of each difference: param, fit, cause, shift, log_se and evidence, the largest first.

        shift is the cause's share of the difference in SE of the baseline, log_se its share of the log of the SE ratio, as in
        `pr.explain`; nan if no path of priors connects the two fits. Causes are "prior of x", "prior of sigma", "sigma fixed", "sigma by evidence",
        "small sample", "covariance", "skewness", "approximation", "Monte Carlo error", "convergence", "sampler" and "kind of
        interval"; without a path also "columns", "effects by group", "smooth functions", "weights", "likelihood", "prior",
        "separation" and "identification". The evidence is the setting of each fit.
        """
        import pandas as pd

        rows = [
            (
                attribution.param,
                attribution.fit,
                c.cause.label,
                c.shift,
                c.log_se,
                c.evidence,
            )
            for attribution in self.attributions
            for c in attribution.causes
        ]
        columns = ["param", "fit", "cause", "shift", "log_se", "evidence"]
        return pd.DataFrame(rows, columns=columns)

    @cached_property
    def attributions(self) -> list[Attribution]:
        """The causes of the difference of each parameter and fit, in the order of the table."""
        return attribute_differences(self)

    @cached_property
    def notes(self) -> tuple[str, ...]:
        """Notes for reading the table: missing values with their reasons, and sigma; a note of several fits is given once."""
        names_by_note: dict[str, list[str]] = {}
        for name in self.fits:
            for note in _fit_notes(self, name):
                names_by_note.setdefault(note, []).append(name)
        texts = [f"{', '.join(names)}: {note}" for note, names in names_by_note.items()]
        estimated = ~self.data["kind"].isin(["fixed", ""])
        if self.data["prior_weight"].where(estimated, 0.0).fillna(1.0).any():
            texts.append(_WEIGHT_NOTE)
        if differing_terms(self.fits.values()):
            texts.append(_TERMS_NOTE)
        base = self.data.sel(fit=self.baseline)
        undefined = np.isnan(base["error"].values) & (base["kind"].values != "fixed")
        if undefined.any():
            names = shorten_names(base["param"].values[undefined], 20)
            texts.append(
                f"no difference is given for {names}: {self.baseline} has no SE there"
            )
        return tuple(texts)

    def __repr__(self) -> str:
        smooths = printed_smooths(self)
        reasons = self._largest_reasons
        head = [*_header(self), ""]
        below = list[str]()
        if len(smooths):
            below = ["", *smooths.lines(MOST_PARAMETERS + 2)]
        below += design_notes(self)
        source = "notes in .notes"
        if reasons:
            below += ["", "Why they differ", *[f"  {reason}" for reason in reasons]]
            source = f"all reasons in .reasons, {source}"
        below += ["", source]
        used = clean_lines(*head, *below).count("\n") + 1
        auxiliary = int((self.data["role"].values != "coefficient").sum())
        room = (LINES_OF_PRINT - used - 4) // len(self.fits)  # parameters
        limit = max(min(MOST_PARAMETERS, room - auxiliary), 3)
        params, omitted = choose_parameters(self, room, limit)
        if omitted:
            omitted = ["", *omitted]
        # the prior of each fit is in the head
        headings = [name for name in HEADINGS if name != "prior"]
        estimates = parameter_table(self, params, headings)
        lines = estimates.lines(max(LINES_OF_PRINT - used - len(omitted), 10))
        return clean_lines(*head, *lines, *omitted, *below)

    def _repr_html_(self) -> str:
        """Return the comparison as HTML; long tables, further reasons and the notes open on a click."""
        params, omitted = choose_parameters(self)
        tables = [parameter_table(self, params), printed_smooths(self)]
        reasons = self._largest_reasons
        remaining = [f"{a.param}, {a.sentence}" for a in self.attributions]
        remaining = [reason for reason in remaining if reason not in reasons]
        foot = [*omitted, *design_notes(self)]
        if reasons:
            foot.append("Why they differ")
        folded = {
            f"{len(remaining)} more reasons": remaining,
            "Notes": self.notes,
        }
        shown = [t for t in tables if len(t)]
        return notebook_html(_header(self), shown, reasons, foot=foot, folded=folded)

    @property
    def _largest_reasons(self) -> list[str]:
        """Return a sentence for each parameter that differs, the largest difference first; standard deviations and correlations of
        effects come after coefficients."""
        names = list(map(str, self.data["param"].values))
        roles = dict(zip(names, self.data["role"].values))
        has_effects = [name for name in names if name.startswith(OF_EFFECTS)] != []
        size = _distances(self)
        ranked = []
        for number, a in enumerate(self.attributions):
            i = list(self.fits).index(a.fit)
            distance = size[i, names.index(a.param)]
            if distance >= self.apart:
                last = has_effects and roles[a.param] != "coefficient"
                ranked.append((last, -distance, number))
        sentences = dict[str, str]()
        for *_, number in sorted(ranked):
            a = self.attributions[number]
            sentences.setdefault(a.param, f"{a.param}, {a.sentence}")
        n_reasons = 3  # that are printed
        return list(sentences.values())[:n_reasons]


@check_arguments
def compare(
    fits: Mapping[str, Fit] | Sequence[Fit],
    prob: Probability = 0.95,
    *,
    kind: Word | None = None,
    baseline: Word | None = None,
    apart: Positive = 0.1,
) -> Comparison:
    """Compare fits of the same rows in one table, with differences and ratios against a baseline.

    Parameters
    ----------
    fits : mapping from str to Fit, or sequence of Fit
        A sequence is named by the methods.
    prob : float
        Probability of every interval, between 0 and 1.
    kind : str, optional
        "t", "wald", "eti" or "hdi", for fits that have this kind; other fits keep their default. The column `kind`
        of the result has the kind of each interval.
    baseline : str, optional
        The name of the fit to compare the others with; the first by default.
    apart : float
        Differences of more than this number of SE of the baseline get a reason.

    Returns
    -------
    Comparison
        The table, the reasons and the notes.

    Raises
    ------
    DataError
        For fits that do not share response, rows, levels and link.
    Incompatible
        For a kind that none of them has.

    Examples
    --------
    >>> from probreg import Model, Normal
    >>> from probreg.fits.fit import fit
    >>> model = Model.from_arrays([[1.0], [2.0], [4.0], [7.0]], [1.0, 3.0, 4.0, 8.0], columns=["x"])
    >>> fits = {"ML": fit(model), "ridge": fit(model.with_prior(Normal(1.0, sigma_units=True)))}
    >>> weight = compare(fits).data["prior_weight"].sel(fit="ridge", param="x")
    >>> weight.round(6).item()  # prior precision 1, sum of (x - 3.5)^2 21
    0.045455
    """
    several = fits_by_name(fits, "compare")
    base = next(iter(several)) if baseline is None else baseline
    if base not in several:
        raise DataError(
            f"baseline {base!r} is not among the fits: {', '.join(several)}"
        )
    functions = differing_terms(several.values())
    for name, fit in several.items():
        refuse_unlike(base, several[base], name, fit, functions)
        refuse_written_out(fit.solution, "compare")
    if kind is not None:
        check_kind(several, kind)
    data = dataset(several, base, prob, kind)
    return Comparison(several, base, prob, data, apart)
