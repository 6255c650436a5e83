"""One page from several fits of one data set: what was modelled, checks, the comparison, pictures, diagnostics.

The page is one HTML file that needs nothing else: style and pictures are inside, and it prints on paper.
"""

from collections.abc import Mapping
from pathlib import Path
from typing import Any

from probreg.arguments.scalars import Probability, Word, checked
from probreg.arguments.types import TableLike
from probreg.assess.after import DIAGNOSTICS, diagnose
from probreg.assess.before import Findings, Verdict, check
from probreg.comparison import compare
from probreg.comparison.same_question import fits_by_name
from probreg.fits.fit import Fit
from probreg.inference.base import markov
from probreg.show.report.facts import comparison_table, facts, findings, sentence
from probreg.show.report.pictures import mixing_summary, pictures, predictive_accuracy, versions
from probreg.system.disk import destination, write_whole


@checked
def report(
    fits: Mapping[str, Fit],
    path: str | Path,
    *,
    prob: Probability = 0.95,
    title: Word | None = None,
    data: TableLike | None = None,
    guarantee: Mapping[str, object] | None = None,
) -> Path:
    """Writes the analysis of `fits` (of the same rows) as one self-contained HTML page.

    The file takes its place when it is whole, and one that was there before is lost no sooner.

    Parameters
    ----------
    fits : mapping from str to Fit
        The fits by name.
    path : str or Path
        Where to write.
    prob : float
        Probability of every interval, between 0 and 1.
    title : str, optional
        Of the page.
    data : table, optional
        The table the formula was read from, where that was changed since, to draw curves along its variables.
    guarantee : mapping, optional
        Settings of `pr.guarantee`, such as {"y_range": (0.0, 1.0)}: adds what it says of each fit to the notes.

    Returns
    -------
    Path
        The path.

    Raises
    ------
    DataError
        When the fits cannot stand in one table.

    Examples
    --------
    >>> import tempfile, probreg as pr
    >>> orings = pr.load_dataset("challenger")
    >>> model = pr.Model.from_formula("damage ~ temperature", orings, likelihood="bernoulli")
    >>> fits = {"ML": pr.fit(model), "mode": pr.fit(model.with_prior(pr.Normal(0.1)))}
    >>> with tempfile.TemporaryDirectory() as folder:
    ...     "temperature" in report(fits, f"{folder}/orings.html").read_text(encoding="utf-8")
    True
    """
    destination(path)
    return write_whole(path, render(fits, prob=prob, title=title, data=data, guarantee=guarantee).encode("utf-8"))


def render(
    fits: Mapping[str, Fit],
    *,
    prob: Probability = 0.95,
    title: str | None = None,
    data: Any = None,
    guarantee: Mapping[str, object] | None = None,
) -> str:
    """The page of `report` as text."""
    import datetime

    from jinja2 import Environment, PackageLoader, StrictUndefined

    comparison = compare(fits_by_name(fits, "report"), prob, guarantee=guarantee)
    several = dict(comparison.fits)
    first = next(iter(several.values())).model
    home = Environment(
        loader=PackageLoader("probreg.show.report", "."), autoescape=True, undefined=StrictUndefined, trim_blocks=True, lstrip_blocks=True
    )  # fmt: skip
    return home.get_template("page.html").render(
        title=title or f"Regression of {first.design.response}",
        models=sentence(first.likelihood.describe(first.design.response)),
        prob=f"{100 * prob:g}",
        names=list(several),
        facts=facts(several),
        findings=findings({name: _findings(fit) for name, fit in several.items()}),
        comparison=comparison_table(comparison),
        reasons=comparison.reasons,
        notes=comparison.notes,
        pictures=pictures(several, prob, data),
        mixing=[mixing_summary(name, fit) for name, fit in several.items() if markov(fit.method, fit.solution)],
        accuracy=predictive_accuracy(several),
        versions=versions(),
        date=datetime.datetime.now().astimezone().strftime("%Y-%m-%d %H:%M %Z").strip(),
    )


_LARGE = 50_000  # rows above which only the cheap checks run
_MANY = 5_000  # rows above which a fit is not diagnosed row by row


def _findings(fit: Fit) -> Findings:
    """The checks of the model, and what a diagnosis of the fit found wrong."""
    if not fit.model.design.n:
        return diagnose(fit).at_least(Verdict.NOTE)
    before = check(fit.model, cheap=fit.model.design.n > _LARGE)
    if fit.model.design.n > _MANY or fit.model.design.weight_kind == "sampling":  # which has no likelihood to diagnose
        return before
    after = diagnose(fit, before=False)
    replaced = {cls.replaces for name, cls in DIAGNOSTICS.items() if any(f.check == name for f in after)}
    kept = [f for f in before if f.check not in replaced and not f.sentence.startswith("does not apply")]
    return Findings.of([*kept, *after.at_least(Verdict.NOTE)])


__all__ = ["render", "report"]
