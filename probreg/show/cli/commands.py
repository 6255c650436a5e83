"""The commands, from a file to a table, a report or predictions, without writing Python.

What is wrong is said in one line on the standard error; `entry` has the exit codes. Whatever is slow to import is imported
by the command that uses it.
"""

from dataclasses import asdict
from pathlib import Path
from typing import Annotated

import typer

import probreg
from probreg.arguments.scalars import check_prob
from probreg.comparison import compare_models
from probreg.data.weights import named_weights
from probreg.datasets import describe_dataset, list_datasets, load_dataset
from probreg.fits.fit import fit as fit_model, load_fit
from probreg.show.cli.entry import Commands, WrongWords, usage
from probreg.show.cli.options import (
    METHOD_HELP,
    PRIOR_HELP,
    AsCsv,
    AsJson,
    File,
    Formula,
    MaybeFormula,
    MethodOptions,
    ModelOptions,
    Prior,
    Prob,
    Seed,
    Settings,
    Source,
    TableOptions,
    Verbose,
    fit_of_source,
    method_option,
    model_option,
    one_format,
    output_option,
    refuse_repeats,
    with_option_groups,
)
from probreg.show.cli.output import (
    command_json,
    show_progress,
    write_json,
    write_lines,
)
from probreg.show.cli.settings import (
    check_covariance,
    covariance_of,
    methods_of,
    read_groups,
)
from probreg.show.cli.shown import (
    beside,
    name_of,
    show_compared,
    show_fits,
    show_in_full,
    write_findings,
    write_report,
)
from probreg.show.cli.spelling import as_printed
from probreg.show.cli.tables import (
    catalogue_table,
    compared_object,
    estimates_of,
    fit_object,
)
from probreg.system.disk import destination, write_whole
from probreg.tables.data import csv_text, records

app = typer.Typer(
    cls=Commands, add_completion=False, pretty_exceptions_enable=False, invoke_without_command=True,
    help="Regression as likelihood models: maximum likelihood, posterior mode and posterior in one table.",
    epilog='Example: probreg fit challenger "damage ~ temperature" --likelihood bernoulli',
)  # fmt: skip


@app.callback()
def main(
    context: typer.Context,
    version: Annotated[
        bool, typer.Option("--version", help="Print the version.")
    ] = False,
) -> None:
    if version:
        typer.echo(f"probreg {probreg.__version__}")
    elif context.invoked_subcommand is None:
        typer.echo(context.get_help())


@app.command(
    name="fit",
    epilog='Example: probreg fit challenger "damage ~ temperature" --likelihood bernoulli --save orings.nc',
)
@with_option_groups
def fit_command(
    file: File, formula: Formula, model: ModelOptions, how: MethodOptions, table: TableOptions, prior: Prior = "flat",
    prob: Prob = 0.95,
    covariance: Annotated[str | None, output_option("Of the errors: classical, observed, HC0 to HC3, cluster:COLUMN, HAC:LAGS. The fit then stands alone.")] = None,
    out: Annotated[Path | None, output_option("Write an HTML report here.", "--report")] = None,
    save: Annotated[Path | None, output_option("Write the fit here, as netCDF.", "--save")] = None,
    rows: Annotated[bool, output_option("Keep the rows in the saved fit.", "--rows")] = False,
    verbose: Verbose = False, as_json: AsJson = False, as_csv: AsCsv = False,
) -> None:  # fmt: skip
    """Fit a model and print its table.

    A fit with a prior, or of a posterior, stands beside maximum likelihood.
    """
    one_format(as_json, as_csv)
    method = how.chosen()
    words = model.words([prior])
    with usage():
        check_prob(prob)
        if covariance is not None:
            check_covariance(covariance)
    if rows and save is None:
        raise WrongWords("--rows goes with --save, the file that keeps them")
    for path in (out, save):
        if path is not None:
            destination(path)
    data = table.read(file, formula)
    (made,) = words.models(formula, data)
    with show_progress(f"fitting by {method.name}"):
        found = fit_model(made, method, seed=how.seed)
        if covariance is None:
            errors = None
        else:
            errors = covariance_of(found, covariance, data)
        if covariance is not None:
            fits = {name_of(found): found}
        else:
            fits = beside(made, found)
    if as_json:
        write_json(
            "fit",
            {
                "formula": formula,
                "fits": [fit_object(n, f, prob, errors) for n, f in fits.items()],
            },
        )
    elif as_csv:
        typer.echo(csv_text(estimates_of(fits, prob, errors)), nl=False)
    elif errors is not None:
        write_lines("", as_printed(str(found.summary(prob, covariance=errors))))
    else:
        of = show_fits(fits, prob, rest="below" if verbose else "with --verbose")
        if verbose:
            show_in_full(fits, of, prob)
    if save is not None:
        typer.echo(f"fit saved in {found.save(save, rows=rows)}", err=True)
    if out is not None:
        write_report(fits, out, prob, data)


@app.command(
    name="predict",
    epilog="Example: probreg predict orings.nc flights.csv --output forecast.csv",
)
@with_option_groups
def predict_command(
    saved: Annotated[str, typer.Argument(metavar="SAVED", help="A fit that `probreg fit --save` wrote.")],
    file: File, table: TableOptions, prob: Prob = 0.95,
    groups: Annotated[str | None, output_option("Of effects that vary by a group: known, new or typical, or each: s=known,s:c=new.", "--groups")] = None,
    weights: Annotated[str | None, output_option('Precisions of the new rows: "precision:w".', "--weights")] = None,
    output: Annotated[Path | None, output_option("Write here, in place of the standard output.", "--output")] = None,
    as_json: AsJson = False, as_csv: AsCsv = False,
) -> None:  # fmt: skip
    """Predict the rows of a table by a saved fit.

    CSV with the mean, its error, its interval and that of a new observation.
    """
    one_format(as_json, as_csv)
    with usage():
        check_prob(prob)
        precisions = named_weights(weights)
        of_groups = read_groups(groups)
    if output is not None:
        destination(output)
    fit = load_fit(saved)
    rows = table.read(file, getattr(fit.model.design.recipe, "formula", ""))
    with show_progress("predicting"):
        found = fit.predict(
            rows, prob, groups=of_groups, weights=precisions, output="pandas"
        )
    if as_json:
        said = command_json("predict", {**found.attrs, "rows": records(found)})
    else:
        said = csv_text(found)
    if output is None:
        typer.echo(said, nl=False)
    else:
        write_whole(output, said.encode("utf-8"))


@app.command(
    name="compare",
    epilog='Example: probreg compare stackloss "stack_loss ~ air_flow" "stack_loss ~ air_flow + water_temperature"',
)
@with_option_groups
def compare_command(
    file: File,
    formulas: Annotated[list[str], typer.Argument(metavar="FORMULA", help='One or several, such as "y ~ x" "y ~ x + z".')],
    model: ModelOptions, table: TableOptions,
    priors: Annotated[list[str], model_option(f"{PRIOR_HELP} Again for another.", "--prior")] = ["flat"],  # noqa: B006
    methods: Annotated[list[str], method_option(f"{METHOD_HELP} Again for another.", "--method")] = ["auto"],  # noqa: B006
    settings: Settings = [], seed: Seed = 0,  # noqa: B006
    prob: Prob = 0.95, as_json: AsJson = False, as_csv: AsCsv = False,
) -> None:  # fmt: skip
    """Fit several models, and judge them on rows left out.

    Each formula under each prior by each method; coefficients stand side by side.
    """
    one_format(as_json, as_csv)
    words = model.words(priors)
    with usage():
        check_prob(prob)
        chosen = methods_of(methods, settings)
        for each in (formulas, priors, methods):
            refuse_repeats(each)
    rows = table.read(file, " ".join(formulas))
    with show_progress("fitting"):
        fits = {}
        for formula, models in words.models_of_several(formulas, rows).items():
            for prior, made in zip(priors, models):
                for name, method in chosen.items():
                    parts = zip((formula, prior, name), (formulas, priors, methods))
                    said = (
                        ", ".join(text for text, of in parts if len(of) > 1) or formula
                    )
                    fits[said] = fit_model(made, method, seed=seed)
        judged = compare_models(fits)
    if as_json:
        write_json(
            "compare", compared_object(fits, judged, prob, alike=len(formulas) == 1)
        )
    elif as_csv:
        typer.echo(csv_text(judged.table.rename_axis("fit")), nl=False)
    else:
        show_compared(fits, judged, prob, alike=len(formulas) == 1)


@app.command(
    name="check",
    epilog='Example: probreg check challenger "damage ~ temperature" --likelihood bernoulli',
)
@with_option_groups
def check_command(
    file: File, formula: Formula, model: ModelOptions, table: TableOptions, prior: Prior = "flat",
    verbose: Verbose = False, as_json: AsJson = False, as_csv: AsCsv = False,
) -> None:  # fmt: skip
    """Say what stands in the way of a fit, before it.

    The exit code is 1 for a problem.
    """
    one_format(as_json, as_csv)
    words = model.words([prior])
    (made,) = words.models(formula, table.read(file, formula), asked=False)
    found = probreg.check(made, verbose=verbose)
    if not (as_json or as_csv):
        write_lines(made)
    write_findings("check", found, as_json, as_csv)


@app.command(
    name="diagnose", epilog='Example: probreg diagnose stackloss "stack_loss ~ ."'
)
@with_option_groups
def diagnose_command(
    source: Source, model: ModelOptions, how: MethodOptions, table: TableOptions, formula: MaybeFormula = None,
    prior: Prior = "flat", verbose: Verbose = False, as_json: AsJson = False, as_csv: AsCsv = False,
) -> None:  # fmt: skip
    """Say whether to believe a fit, after it.

    Of a saved fit, or of a table and a formula. The exit code is 1 for a problem.
    """
    one_format(as_json, as_csv)
    found, _ = fit_of_source(source, formula, model, how, table, prior)
    with show_progress("asking the questions"):
        said = probreg.diagnose(found, verbose=verbose)
    write_findings("diagnose", said, as_json, as_csv)


@app.command(
    name="report",
    epilog='Example: probreg report stackloss "stack_loss ~ ." --output stackloss.html',
)
@with_option_groups
def report_command(
    source: Source, model: ModelOptions, how: MethodOptions, table: TableOptions, formula: MaybeFormula = None,
    prior: Prior = "flat", prob: Prob = 0.95,
    title: Annotated[str | None, output_option("Of the page.", "--title")] = None,
    output: Annotated[Path, output_option("Where the page is written.", "--output")] = Path("probreg-report.html"),
) -> None:  # fmt: skip
    """Write an analysis as one HTML page.

    Of a saved fit, or of a table and a formula.
    """
    with usage():
        check_prob(prob)
    destination(output)
    found, rows = fit_of_source(source, formula, model, how, table, prior)
    fits = {name_of(found): found}
    if rows is not None:
        with show_progress("fitting"):
            fits = beside(found.model, found)
    write_report(fits, output, prob, rows, title=title)


@app.command(
    name="datasets", epilog="Example: probreg datasets challenger --csv > orings.csv"
)
def datasets_command(
    name: Annotated[
        str | None,
        typer.Argument(metavar="[NAME]", help="A data set, to read all about it."),
    ] = None,
    as_json: AsJson = False,
    as_csv: Annotated[
        bool, output_option("Write the list, or the rows of NAME, as CSV.", "--csv")
    ] = False,
) -> None:
    """List the bundled data sets, or print the card of one."""
    one_format(as_json, as_csv)
    with usage():
        cards = list_datasets() if name is None else [describe_dataset(name)]
    if as_json:
        write_json("datasets", {"datasets": [asdict(card) for card in cards]})
    elif as_csv:
        typer.echo(
            csv_text(catalogue_table(cards) if name is None else load_dataset(name)),
            nl=False,
        )
    else:
        write_lines(cards if name is None else cards[0])


@app.command(name="demo", epilog="Example: probreg demo --quick")
def demo_command(
    output: Annotated[
        Path, output_option("Where the report is written.", "--output", "--out")
    ] = Path("probreg-demo.html"),
    quick: Annotated[
        bool, method_option("Fewer draws, for a first look.", "--quick")
    ] = False,
    seed: Seed = 1,
) -> None:
    """Analyse a bundled data set, from table to report.

    O-ring damage before Challenger's last flight.
    """
    from probreg.show.cli.demo import demonstrate

    destination(output)
    demonstrate(output, quick, seed)
