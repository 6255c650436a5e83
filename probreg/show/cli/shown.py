"""What several commands print of fits and of findings."""

from collections.abc import Mapping
from dataclasses import replace
from pathlib import Path
from typing import Any

import typer

import probreg
from probreg.assess.before import Findings
from probreg.comparison.models.model_comparison import ModelComparison
from probreg.fits.fit import Fit, fit as fit_model
from probreg.inference import METHODS, Evidence
from probreg.model.model import Model
from probreg.priors import Covariance, Flat
from probreg.show.cli.entry import REFUSED
from probreg.show.cli.output import (
    show_progress,
    write_json,
    write_lines,
)
from probreg.show.cli.spelling import as_options, as_printed
from probreg.show.cli.tables import findings_table
from probreg.system.terminal import visible
from probreg.tables.data import csv_text, records

_ROW = [
    "param",
    "fit",
    "estimate",
    "error",
    "lower",
    "upper",
    "difference",
    "se_ratio",
    "prior_weight",
    "prior",
]


def name_of(fit: Fit) -> str:
    """How a fit is called beside others: "ML", "REML", "mode", or the method of a posterior."""
    found = fit.solution.found
    if found is not None and found.plain and fit.target == "mode":
        return found.criterion
    if fit.target == "posterior" or not fit.method.probabilities:
        return fit.method.name
    return "ML" if fit.model.flat else "mode"


def beside(model: Model, main: Fit) -> dict[str, Fit]:
    """The fit, after maximum likelihood and, for a posterior, the mode under the same priors, where these are other
    fits and have a method."""
    if main.target == "mode" and model.flat:
        return {name_of(main): main}
    fits = _maximum_likelihood(model)
    if (
        main.target == "posterior"
        and not model.flat
        and METHODS["newton"]().obstacle(model) is None
    ):
        fits["mode"] = fit_model(model)
    return {**fits, name_of(main): main}


def _maximum_likelihood(model: Model) -> dict[str, Fit]:
    """The fit without priors; effects by group keep their covariance, found by the marginal likelihood."""
    free = replace(model, prior=Flat(), aux=model.fixed)
    if not model.design.recipe.grouped:
        return {"ML": fit_model(free)}
    terms = [term.columns for term in model.design.recipe.grouped.values()]
    free = replace(free, prior=dict.fromkeys(terms, Covariance()))
    method = Evidence(criterion="ML")
    if method.obstacle(free):
        return {}
    return {"ML": fit_model(free, method)}


def show_fits(fits: Mapping[str, Fit], prob: float, rest: str) -> Any:
    """Prints the table; `rest` says where what it leaves out is."""
    from probreg.comparison import compare

    of = compare(fits, prob) if len(fits) > 1 else None
    write_lines(
        "",
        as_printed(
            str(next(iter(fits.values())).summary(prob) if of is None else of), rest
        ),
    )
    return of


def show_in_full(fits: Mapping[str, Fit], of: Any, prob: float) -> None:
    """Every row of the table, every reason why fits differ, every check of the model and every note."""
    if of is None:
        (alone,) = fits.values()
        write_lines("\nEvery row", alone.summary(prob).to_string())
    else:
        write_lines(
            "\nEvery row",
            of.tidy()[_ROW].to_string(
                index=False, na_rep="", float_format="{:.5g}".format
            ),
        )
        reasons = [
            f"  {visible(param)}, {visible(said)}"
            for param, each in of.reasons.items()
            for said in each
        ]
        write_lines(*(["\nEvery reason", *reasons] if reasons else []))
        write_lines(
            *(
                [
                    "\nNotes of the comparison",
                    *(f"  {visible(note)}" for note in of.notes),
                ]
                if of.notes
                else []
            )
        )
    for name, fit in fits.items():
        write_lines(
            f"\nChecks of {name}",
            as_options(str(probreg.check(fit.model, verbose=True))),
        )
        write_lines(
            f"\nNotes of {name}",
            *(f"  {visible(note)}" for note in fit.described["notes"]),
        )


def show_compared(
    fits: Mapping[str, Fit], judged: ModelComparison, prob: float, *, alike: bool
) -> None:
    """Prints what the fits say of rows left out, and their coefficients side by side: with reasons where they are of the same
    columns."""
    from probreg.comparison import compare
    from probreg.show.publication import table

    write_lines(as_printed(str(judged)))
    if len(fits) > 1:
        write_lines(
            "",
            as_printed(
                str(compare(fits, prob) if alike else table(fits)), "with --json"
            ),
        )


def write_findings(command: str, found: Findings, as_json: bool, as_csv: bool) -> None:
    """Prints findings in one of three ways. Exit code 1 where one is a problem."""
    table = findings_table(found)
    table["remedy"] = table["remedy"].map(as_options)
    if as_json:
        write_json(
            command,
            {
                "worst": found.worst.name.lower(),
                "passed": found.passed,
                "findings": records(table),
            },
        )
    elif as_csv:
        lists = {
            name: table[name].map(lambda each: "; ".join(map(str, each)))
            for name in ("columns", "rows")
        }
        typer.echo(csv_text(table.assign(**lists)), nl=False)
    else:
        write_lines(as_options(str(found)))
    if found.worst.name == "PROBLEM":
        raise typer.Exit(REFUSED)


def write_report(fits: Any, out: Path, prob: float, rows: Any, **words: Any) -> None:
    """Writes the page, and says where on the standard error."""
    from probreg.show.report import report

    with show_progress("writing the report"):
        where = report(fits, out, prob=prob, data=rows, **words)
    typer.echo(f"report written to {where.resolve()}", err=True)
