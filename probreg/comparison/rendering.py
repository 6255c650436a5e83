"""The comparison as text and as HTML: a head, a row per parameter and fit, the largest reasons. Numbers are rounded only here.

The text has at most 40 lines of 110 columns; with many parameters it has only the ones with the largest differences.
"""

from collections.abc import Mapping, Sequence

from rich.cells import cell_len

from probreg.comparison.notes import terms_note
from probreg.comparison.numbers import FitTable
from probreg.comparison.printed_table import (
    LARGEST,
    columns_of_terms,
    differences,
    parameter_table,
    parameters_printed,
)
from probreg.fits.fit import Fit
from probreg.inference.uncertainty.intervals.kinds import KIND_WORDS
from probreg.inference.varying import OF_EFFECTS
from probreg.model.prior_words import prior_line
from probreg.system.terminal import clean_lines, cut_text
from probreg.tables import Column, Table
from probreg.tables.formats import format_fixed
from probreg.tables.notebook import notebook_html

Reasons = Mapping[str, Mapping[str, str]]
LINES = 40  # of the text
MOST = 3  # reasons that are printed
MANY = 8  # fits with a line of their own in the head


def text(
    fit_table: FitTable,
    reasons_by_parameter: Reasons,
    notes: Sequence[str],
    spellings: Mapping[str, str],
    guarantees: Sequence[str] = (),
) -> str:
    """Return the comparison as lines of text; `reasons_by_parameter` has a sentence by parameter and fit, `guarantees` are printed in full."""
    head = [*_header(fit_table, spellings), ""]
    reasons = _largest_differences(fit_table, reasons_by_parameter)
    below = [*_smooth_lines(fit_table), *_design_notes(fit_table)]
    if reasons:
        below += ["", "Why they differ", *(f"  {reason}" for reason in reasons)]
    if guarantees:
        below += ["", *guarantees]
    below += _omitted_counts(
        sum(map(len, reasons_by_parameter.values())) - len(reasons), notes
    )
    used = clean_lines(*head, *below).count("\n") + 1
    auxiliary = int((fit_table.data["role"].values != "coefficient").sum())
    room = (LINES - used - 4) // len(fit_table.fits)  # parameters
    params = parameters_printed(fit_table, room, max(min(LARGEST, room - auxiliary), 3))
    table = parameter_table(fit_table, params, without=("prior",))
    omitted = _omitted_parameters(fit_table, params)
    lines = table.lines(max(LINES - used - len(omitted), 10))
    return clean_lines(*head, *lines, *omitted, *below)


def as_html(
    fit_table: FitTable,
    reasons_by_parameter: Reasons,
    notes: Sequence[str],
    spellings: Mapping[str, str],
) -> str:
    """Return the comparison as HTML; long tables, further reasons and the notes open on a click."""
    params = parameters_printed(fit_table)
    tables = [parameter_table(fit_table, params)]
    smooths = printed_smooths(fit_table)
    if len(smooths):
        tables.append(smooths)
    reasons = _largest_differences(fit_table, reasons_by_parameter)
    remaining = [
        f"{p}, {s}"
        for p, fit_reasons in reasons_by_parameter.items()
        for s in fit_reasons.values()
    ]
    remaining = [reason for reason in remaining if reason not in reasons]
    foot = [line for line in _omitted_parameters(fit_table, params) if line]
    foot += _design_notes(fit_table)
    if reasons:
        foot.append("Why they differ")
    folded = {f"{len(remaining)} more reasons": remaining, "Notes": list(notes)}
    return notebook_html(
        _header(fit_table, spellings), tables, reasons, foot=foot, folded=folded
    )


def _largest_differences(
    fit_table: FitTable, reasons_by_parameter: Reasons
) -> list[str]:
    """One sentence for each parameter that differs, the largest difference first; standard deviations and correlations of
    effects come after coefficients."""
    size = differences(fit_table)
    names = list(map(str, fit_table.data["param"].values))
    fits = list(fit_table.fits)
    has_effects = any(name.startswith(OF_EFFECTS) for name in names)
    scales = (
        {a for fit in fit_table.fits.values() for a in fit.aux}
        if has_effects
        else set()
    )
    ranked = []
    for param, sentences in reasons_by_parameter.items():
        sizes = {f: size[fits.index(f), names.index(param)] for f in sentences}
        fit = max(sizes, key=lambda name: sizes[name])
        if sizes[fit] >= fit_table.apart:
            last = param in scales or param.startswith(OF_EFFECTS)
            ranked.append((last, -sizes[fit], f"{param}, {sentences[fit]}"))
    return [sentence for *_, sentence in sorted(ranked, key=lambda r: r[:2])[:MOST]]


def _omitted_counts(n_reasons: int, notes: Sequence[str]) -> list[str]:
    """Return the numbers of reasons and notes that are not printed."""
    counts = []
    if n_reasons == 1:
        counts.append("a further reason in .reasons")
    elif n_reasons:
        counts.append(f"{n_reasons} more reasons in .reasons")
    if len(notes) == 1:
        counts.append("a note in .notes")
    elif notes:
        counts.append(f"{len(notes)} notes in .notes")
    return ["", "; ".join(counts)] if counts else []


def _omitted_parameters(fit_table: FitTable, params: Sequence[int]) -> list[str]:
    """Return the numbers of parameters that are not in the table."""
    terms = int(columns_of_terms(fit_table).sum())
    n = len(fit_table.fits)
    n_hidden = fit_table.data.sizes["param"] - len(params) - terms
    lines = []
    if n_hidden:
        order = "these have the largest differences" if n > 1 else "these are the first"
        lines.append(
            f"{order}; {n_hidden} more parameters, {n_hidden * n} rows, in .to_pandas()"
        )
    if terms:
        lines.append(
            f"{terms} coefficients of smooth functions and processes, {terms * n} rows, in .to_pandas()"
        )
    return ["", *lines] if lines else []


def _design_notes(fit_table: FitTable) -> list[str]:
    """The notes on rows that were dropped and columns that are not compared."""
    notes = [note for fit in fit_table.fits.values() for note in fit.model.design.notes]
    return [*dict.fromkeys(notes), *terms_note(fit_table)]


def _header(fit_table: FitTable, spellings: Mapping[str, str]) -> list[str]:
    """Return the model, the number of rows, and a line for each fit."""
    attrs = fit_table.data.attrs
    d = fit_table.fits[fit_table.baseline].model.design
    n = attrs.get("observations")
    size = "rows not kept" if n is None else f"{n:g} observations"
    if n is not None and d.n and d.n != n:
        size += f" in {d.n} rows"
    if fit_table.data[["lower", "upper"]].notnull().to_dataarray().any():
        size += f"; {100 * fit_table.prob:g} % intervals"
    if len(fit_table.fits) > 1:
        size += f"; diff / SE and SE ratio are against {fit_table.baseline}"
    lines = [attrs["models"], size]
    width = max(map(cell_len, fit_table.fits))
    for name, fit in list(fit_table.fits.items())[:MANY]:
        blank = " " * (width - cell_len(name))
        lines.append(f"  {name}{blank}  {_fit_line(fit_table, name, fit)}")
        if name in spellings:
            mode = "its mode is " if fit.target == "posterior" else ""
            lines[-1] += f"; {mode}scikit-learn's {spellings[name]}"
    if len(fit_table.fits) > MANY:
        lines.append(f"  {len(fit_table.fits) - MANY} more fits in .fits")
    return lines


def _fit_line(fit_table: FitTable, name: str, fit: Fit) -> str:
    """Method, kind of intervals, seed, model, prior and status of one fit."""
    method = fit.described["method"]
    parts = [method, f"{kinds_of_intervals(fit_table, name)} intervals"]
    if fit.target == "posterior":
        parts.append(f"seed {fit.seed}")
    if fit.described["models"] != fit_table.data.attrs["models"]:
        parts.append(fit.described["models"])
    if not fit.model.flat:
        parts.append(f"prior {prior_line(fit.stated_model)}")
    if fit.solution.status.good:
        status = fit.solution.status.value
    else:
        status = f"(!) {cut_text(fit.described['status'])}"
    return f"{', '.join(parts)}; {status}"


def kinds_of_intervals(
    fit_table: FitTable, name: str, params: Sequence[str] | None = None
) -> str:
    """The kind of interval of the coefficients of a fit, in brackets the other kinds of other parameters; "no" for none."""
    data = fit_table.data.sel(fit=name)
    if params is not None:
        data = data.sel(param=list(params))
    has_interval = data["lower"].notnull() | data["upper"].notnull()
    data = data.isel(param=has_interval.values)
    first = ""
    names_by_words: dict[str, list[str]] = {}
    for param, kind in zip(data["param"].values, data["kind"].values):
        words = KIND_WORDS.get(kind, "")
        first = first or words
        if words and words != first:
            names_by_words.setdefault(words, []).append(str(param))
    brackets = [
        f"{', '.join(names)}: {words}" for words, names in names_by_words.items()
    ]
    if brackets:
        return f"{first} ({', '.join(brackets)})"
    return first or "no"


def _smooth_lines(fit_table: FitTable) -> list[str]:
    table = printed_smooths(fit_table)
    return ["", *table.lines(LARGEST + 2)] if len(table) else []


def printed_smooths(fit_table: FitTable) -> Table:
    """The smooth functions by fit: effective degrees of freedom, number of columns, and the scales of the blocks."""
    smooths = fit_table.smooths
    columns = [
        Column("smooth function", [*map(str, smooths.index.get_level_values(0))]),
        Column("fit", [*map(str, smooths.index.get_level_values(1))]),
        Column("edf", smooths["edf"].tolist(), "count", lambda v: format_fixed(v, 3)),
        Column("columns", smooths["columns"].tolist(), "count"),
    ]
    scales = [", ".join(f"{t:.4g}" for t in tau) for tau in smooths["tau"]]
    columns.append(Column("tau", scales, "estimate"))
    return Table(tuple(columns), labels=2, source=".smooths")
