"""One page from one or several fits of one data set: first the answer, then its basis.

The page is one HTML file that needs nothing else: style and pictures are inside, and it prints on paper.
"""

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

from probreg.arguments.scalars import (
    Flag,
    Names,
    Probability,
    TableLike,
    Word,
    check_arguments,
    list_names,
)
from probreg.comparison import Comparison, compare
from probreg.comparison.comparison import (
    choose_parameters,
    kinds_of_intervals,
    parameter_table,
    printed_smooths,
)
from probreg.comparison.same_question import fits_by_name
from probreg.data.formula.functions import categories
from probreg.diagnostics.after import diagnose
from probreg.diagnostics.before import Finding, check
from probreg.errors import DataError
from probreg.fits.fit import Fit
from probreg.show.report.answer import answer
from probreg.show.report.sections import (
    coefficients_picture,
    curve_picture,
    diagnostic_pictures,
    effects_pictures,
    findings,
    fit_texts,
    influence_picture,
    main_fit,
    model_texts,
    predictions_table,
    versions,
)
from probreg.system.disk import destination, write_whole
from probreg.system.terminal import progress_bar
from probreg.tables import Table

SECTIONS = {
    "answer": "Answer",
    "predictions": "Predictions",
    "model": "Model",
    "checks": "Checks of the model",
    "comparison": "Comparison of the fits",
    "diagnostics": "Diagnostics of the fits",
    "method": "Method",
    "versions": "Versions",
}
# columns of the comparison in the answer and in the section on differences
_ESTIMATES = ("", "fit", "estimate", "SE | SD", "lower", "upper", "prior weight")
_DIFFERENCES = ("", "fit", "diff / SE", "SE ratio", "prior weight")


@check_arguments
def report(
    fits: Fit | Mapping[str, Fit] | Sequence[Fit],
    path: str | Path,
    *,
    prob: Probability = 0.95,
    title: Word | None = None,
    text: Word | None = None,
    sections: Names | None = None,
    effects: Names | Mapping[str, object] | None = None,
    predict: TableLike | None = None,
    data: TableLike | None = None,
    progress: Flag | None = None,
) -> Path:
    """Write the analysis of `fits` (of the same rows) as one self-contained HTML page.

    First the answer: a sentence for every effect, the estimates, a picture; then predictions of the rows in `predict`, model,
    checks, comparison, diagnostics, method and versions. With several fits the answer comes from the last posterior, or from the
    last fit with an estimate. The file is replaced only when the new one is complete.

    Parameters
    ----------
    fits : Fit, mapping from str to Fit, or sequence of Fit
        One fit, or several by name; a sequence is named by the methods.
    path : str or Path
        Where to write.
    prob : float
        Probability of every interval, between 0 and 1.
    title : str, optional
        Title of the page.
    text : str, optional
        Your own words, after the title; an empty line ends a paragraph.
    sections : str or list of str, optional
        Sections to include, in this order: "answer", "predictions", "model", "checks", "comparison", "diagnostics",
        "method", "versions".
    effects : str, list of str, or mapping, optional
        The variables of the effect sentences, or a mapping from them to their moves as in `comparisons`, such as
        {"temperature": -10}. By default all of them, by one unit or one standard deviation, or from one quartile to the
        other for a number with an effect that is not the same everywhere.
    predict : mapping or table, optional
        Rows to predict: a mapping from a name to its values, such as {"the launch": {"temperature": 31}}, or a table.
    data : table, optional
        The table of the formula, if it was changed since the fit, to draw curves along its variables.
    progress : bool, optional
        Whether a bar is shown; by default after a second, at a terminal or in a notebook.

    Returns
    -------
    Path
        The path.

    Raises
    ------
    DataError
        If the fits cannot be in one table, and for variables, rows or sections that are not there.

    Examples
    --------
    >>> import tempfile, probreg as pr
    >>> orings = pr.load_dataset("challenger")
    >>> fit = pr.fit(pr.Model.from_formula("damage ~ temperature", orings, likelihood="bernoulli"))
    >>> with tempfile.TemporaryDirectory() as folder:
    ...     where = report(fit, f"{folder}/orings.html", effects={"temperature": -10})
    ...     "the odds of damage = 1 are 10.2 times as large" in where.read_text(encoding="utf-8")
    True
    """
    import datetime

    from jinja2 import Environment, PackageLoader, StrictUndefined

    destination(path)
    several = fits_by_name(fits, "report")
    chosen = _parse_sections(
        sections, len(several), predict=predict, effects=effects, data=data
    )
    first = next(iter(several.values())).model
    templates = Environment(
        loader=PackageLoader("probreg.show.report", "."), autoescape=True, undefined=StrictUndefined, trim_blocks=True, lstrip_blocks=True
    )  # fmt: skip
    with progress_bar("report", show=progress):
        comparison = compare(several, prob)
        # only the chosen sections are computed
        make_content = {
            "answer": lambda: _answer(several, comparison, effects, data),
            "predictions": lambda: predictions_table(several, predict, prob),
            "model": lambda: {
                "texts": model_texts(several),
                "pictures": influence_picture(several),
            },
            "checks": lambda: findings(several, _check),
            "comparison": lambda: _comparison(comparison),
            "diagnostics": lambda: {
                "findings": findings(several, _diagnose),
                "pictures": diagnostic_pictures(several),
            },
            "method": lambda: {
                "texts": fit_texts(several),
                "notes": comparison.notes,
            },
            "versions": versions,
        }
        now = datetime.datetime.now().astimezone()
        page = templates.get_template("page.html").render(
            title=title or f"Regression of {first.design.response}",
            rows_absent=first.design.rows_absent,
            models=first.likelihood.describe(first.design.response),
            paragraphs=[p.strip() for p in (text or "").split("\n\n") if p.strip()],
            prob=f"{100 * prob:g}",
            names=list(several),
            sections=[(name, SECTIONS[name]) for name in chosen],
            contents={name: make_content[name]() for name in chosen},
            date=now.strftime("%Y-%m-%d %H:%M %Z").strip(),
        )
        return write_whole(path, page.encode("utf-8"))


def _parse_sections(
    sections: Any, n_fits: int, *, predict: Any, effects: Any, data: Any
) -> list[str]:
    """The names of the sections, in their order."""
    if sections is None:
        idle = {"predictions": predict is None, "comparison": n_fits == 1}
        return [name for name in SECTIONS if not idle.get(name, False)]
    if isinstance(sections, str):
        names = [sections]
    else:
        names = list(dict.fromkeys(sections))
    for name in names:
        if name not in SECTIONS:
            raise DataError(f"sections are among {', '.join(SECTIONS)}; got {name!r}")
    if "predictions" in names and predict is None:
        raise DataError(
            "sections has 'predictions', which needs rows: pass predict={'a name': {'x': 1.0}}"
        )
    users = {"predict": "predictions", "effects": "answer", "data": "answer"}
    given = {"predict": predict, "effects": effects, "data": data}
    for argument, name in users.items():
        if given[argument] is not None and name not in names:
            raise DataError(
                f"{argument}= is for the section {name!r}, which sections= leaves out"
            )
    return names


def _answer(
    fits: Mapping[str, Fit], comparison: Comparison, effects: Any, data: Any
) -> dict[str, Any]:
    # effects described in sentences by default; the others are only in the table
    max_sentences = 8
    name, fit = main_fit(fits)
    result = answer(fit, effects, data=data, prob=comparison.prob)
    if effects is not None:
        sentences = result.effects
    else:
        sentences = result.effects[:max_sentences]
    factors = categories(fit.model.design)
    numeric = (v for v in list_names(effects) if v not in factors)
    pictures = [
        curve_picture(fits, comparison.prob, data, next(numeric, None)),
        *effects_pictures(fits, comparison.prob),
    ]
    by = name
    if len(fits) == 1:
        by = ""
        pictures.append(coefficients_picture(fits, comparison.prob))
    trouble = ""
    if not fit.solution.status.good:
        trouble = f"{name}: {fit.described['status']}"
    return {
        "by": by,
        "trouble": trouble,
        "sentences": [e.sentence for e in sentences],
        "more": result.effects[len(sentences) :],
        "remarks": result.remarks,
        "estimates": _parameters(comparison, _ESTIMATES),
        "kinds": "; ".join(f"{n}: {kinds_of_intervals(comparison, n)}" for n in fits),
        "smooths": printed_smooths(comparison),
        "pictures": pictures,
    }


def _parameters(comparison: Comparison, headings: Sequence[str]) -> Table:
    """Return the table of the comparison with the columns of these headings."""
    params, _ = choose_parameters(comparison)
    table = parameter_table(comparison, params, headings)
    omitted = comparison.data.sizes["param"] - len(params)
    if not omitted:
        return table
    note = f"{omitted} more parameters in compare(fits).to_pandas()"
    return replace(table, notes=(note,))


def _comparison(comparison: Comparison) -> dict[str, Any]:
    """Return the differences with their reasons, the largest first, and pictures; nothing for a single fit."""
    max_reasons = 6  # differences that are explained, the largest first
    if len(comparison.fits) == 1:
        return {"table": None}
    largest = abs(comparison.data["difference"]).max("fit").fillna(float("inf"))
    order = sorted(comparison.reasons, key=lambda p: -float(largest.sel(param=p)))
    reasons = [(p, s) for p in order for s in comparison.reasons[p]]
    return {
        "table": _parameters(comparison, _DIFFERENCES),
        "baseline": comparison.baseline,
        "reasons": reasons[:max_reasons],
        "more": len(reasons) - max_reasons,
        "pictures": [coefficients_picture(comparison.fits, comparison.prob)],
    }


def _check(fit: Fit) -> Iterable[Finding]:
    """Return the checks of the model; empty without rows."""
    return check(fit.model) if fit.model.design.n else ()


def _diagnose(fit: Fit) -> Iterable[Finding]:
    """Return the diagnostics; empty for a pseudo-likelihood."""
    return () if fit.model.design.weight_kind == "sampling" else diagnose(fit)
