"""The commands `probreg demo | fit | check | datasets`: from a file to a table and a report, without writing Python.

What is wrong with a file, a column or an option is said in one line on the standard error, with exit code 2. Whatever is
slow to import is imported by the command that uses it.
"""

import io
import os
import re
import sys
from collections.abc import Iterator, Mapping
from contextlib import contextmanager, suppress
from dataclasses import replace
from pathlib import Path
from typing import Annotated, Any

import typer
from typer.core import TyperGroup

import probreg
from probreg.arguments.scalars import check_prob
from probreg.data.weights import named_weights
from probreg.errors import DataError, ProbregError
from probreg.fits.fit import Fit, fit as fit_model
from probreg.inference import METHODS, NUTS
from probreg.likelihoods import LIKELIHOODS
from probreg.model.model import Model
from probreg.priors import Flat, Normal
from probreg.show.cli.files import read_file, response_level
from probreg.show.cli.priors import parse_aux, parse_likelihood, parse_prior
from probreg.system.disk import destination
from probreg.system.terminal import probability_said, visible

_UsageError: Any = typer.BadParameter.__mro__[1]  # the base of every complaint about options; typer does not export it


class Commands(TyperGroup):
    """A group of commands that answers a wrong input with one line and exit code 2."""

    def main(self, *args: Any, **options: Any) -> Any:
        for stream in (sys.stdout, sys.stderr):
            if isinstance(stream, io.TextIOWrapper):
                stream.reconfigure(errors="replace")  # a terminal without ✓ or ° shows a question mark
        try:
            code = super().main(*args, **{**options, "standalone_mode": False})
            sys.stdout.flush()  # a full disk says so here, and not in a traceback at the very end
        except ProbregError as error:
            _stop(as_options(str(error)), 2)
        except _UsageError as error:
            _stop(error.format_message(), 2)
        except typer.Abort:
            _stop("stopped", 130)
        except OSError as error:
            # One line where the output, or a file of the system's, cannot be written or read.
            with suppress(OSError, ValueError, AttributeError):  # what is left in the buffer has no place to go
                os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
            _stop(f"{error.filename or 'the output'} cannot be written or read: {error.strerror or error}", 2)
        sys.exit(code if isinstance(code, int) else 0)


_VALUED = re.compile(r"\b(missing|event|reference|likelihood|method)=['\"]([^'\"]*)['\"]")
_NUMBER = re.compile(r"\b(prob|seed)=([\d.]*\d)")
_NAMED = re.compile(r"\b(missing|event|reference|weights|offset|aux)=(?![\w'\"\[{(.-])")
# where a print of the library says that the rest is: an attribute or a method of what it prints
_ELSEWHERE = re.compile(r"\bin (?:summary\(\))?(?:\.[a-z_]+(?:\(\))?|(?<=\)))")
_WEIGHTS = re.compile(r"\bpr\.weights\.(precision|sampling)\((\w+)\)")


def as_options(said: str) -> str:
    """A message of the library with its arguments as the options of the command line.

    >>> as_options("fill them in, or pass missing='drop'; name it by event=, or see method='nuts'")
    'fill them in, or pass --missing drop; name it by --event, or see --method nuts'
    """
    said = _WEIGHTS.sub(r"--weights \1:\2", said)
    said = said.replace(".show(verbose=True)", "--verbose")
    return _NAMED.sub(r"--\1", _NUMBER.sub(r"--\1 \2", _VALUED.sub(r"--\1 \2", said)))


def as_printed(said: str, rest: str = "with --verbose") -> str:
    """What the library prints, with the place of what it leaves out as the command line has it.

    >>> as_printed("2 more reasons in .reasons; 8 notes in .notes")
    '2 more reasons with --verbose; 8 notes with --verbose'
    >>> as_printed("… 9 rows more, in summary().to_string(); s(x): 9 columns, in summary()", "below")
    '… 9 rows more, below; s(x): 9 columns, below'
    """
    return _ELSEWHERE.sub(rest, as_options(said))


def _stop(said: str, code: int) -> None:
    typer.echo(f"probreg: {visible(' '.join(said.split()))}", err=True)
    sys.exit(code)


app = typer.Typer(
    cls=Commands, add_completion=False, pretty_exceptions_enable=False, invoke_without_command=True,
    help="Regression as likelihood models: maximum likelihood, posterior mode and posterior in one table.",
)  # fmt: skip

File = Annotated[
    str, typer.Argument(metavar="FILE", help="CSV, TSV or Parquet file, or the name of a bundled data set.")
]
Formula = Annotated[str, typer.Argument(metavar="FORMULA", help='Such as "y ~ x1 + C(g)".')]
Likelihood = Annotated[
    str | None,
    typer.Option(
        help=f"One of {', '.join(sorted(LIKELIHOODS))}; with settings as in quantile(0.9); unless given gaussian, binomial for p(k, n), multinomial for counts(a, b)."
    ),
]
PriorText = Annotated[
    str, typer.Option("--prior", help='Such as weak, "normal(2.5)", or by column "x=normal(1), z=laplace(0.5)".')
]
AuxText = Annotated[str, typer.Option("--aux", help='Such as "sigma=half_normal(2)", or a number that holds it fixed.')]
Event = Annotated[str | None, typer.Option(help="Level of a two-level response that is modelled.")]
ReferenceLevel = Annotated[str | None, typer.Option("--reference", help="Base class of a softmax.")]
Weights = Annotated[
    str | None, typer.Option(help='Column of frequency weights, or of others: "precision:w", "sampling:w".')
]
Offset = Annotated[str | None, typer.Option(help='Expression added to the linear predictor, such as "log(exposure)".')]
Missing = Annotated[str, typer.Option(help='"raise" or "drop" rows with missing values.')]
Separator = Annotated[str, typer.Option(help="Between the columns of a text file.")]
Decimal = Annotated[str | None, typer.Option(help='In the numbers of a text file: "." or ",".')]
Prob = Annotated[float, typer.Option(help="Probability of every interval.")]
Verbose = Annotated[
    bool, typer.Option("--verbose", help="Print every check and every note, not only those that matter.")
]


@app.callback()
def main(
    context: typer.Context,
    version: Annotated[bool, typer.Option("--version", help="Print the version.")] = False,
) -> None:
    if version:
        typer.echo(f"probreg {probreg.__version__}")
    elif context.invoked_subcommand is None:
        typer.echo(context.get_help())


@app.command()
def demo(
    out: Annotated[Path, typer.Option(help="Where the report is written.")] = Path("probreg-demo.html"),
    quick: Annotated[bool, typer.Option(help="Fewer draws, for a first look.")] = False,
    seed: int = 1,
) -> None:
    """Maximum likelihood against a posterior, from data to report: O-ring damage before Challenger's last flight."""
    _writable(out)
    card, rows = probreg.describe_dataset("challenger"), probreg.load_dataset("challenger")
    model = Model.from_formula("damage ~ temperature", rows, likelihood="bernoulli")
    regular = model.with_prior(Normal(0.1))
    _say(f"{card.title}: {card.question}\n", model, "\nChecks", probreg.check(model, verbose=True))
    _say(
        "\nThree fits: maximum likelihood; the mode and the posterior under a Normal(0, 0.1) prior on the slope per °F."
    )
    with _working("fitting"):
        fits = {"ML": fit_model(model), "mode": fit_model(regular)}
    with _working("drawing from the posterior"):
        fits["posterior"] = fit_model(regular, NUTS(draws=500 if quick else 1000), seed=seed)
    _compared(fits, 0.95, rest="in the report")
    _say("\nP(damage) at 31 °F, the forecast for the launch (95 % intervals); the coldest flight so far had 53 °F")
    for name, fit in fits.items():
        p = fit.predict({"temperature": [31.0]}).isel(obs=0)
        mean, low, high = (probability_said(float(p[q])) for q in ("mean", "mean_lower", "mean_upper"))
        _say(f"  {name:<10} {mean:<6}  ({low} to {high})")
    _report(
        fits,
        out,
        0.95,
        rows,
        title=card.title,
        text=card.question,
        effects={"temperature": -10},
        predict={"the launch": {"temperature": 31.0}},
    )


@app.command(name="fit")
def fit_command(
    file: File, formula: Formula, likelihood: Likelihood = None, prior: PriorText = "flat", aux: AuxText = "",
    method: Annotated[str, typer.Option(help=f"One of: {', '.join(METHODS)}.")] = "auto",
    event: Event = None, reference: ReferenceLevel = None, weights: Weights = None, offset: Offset = None,
    missing: Missing = "raise", separator: Separator = ",", decimal: Decimal = None, seed: int = 0, prob: Prob = 0.95,
    out: Annotated[Path | None, typer.Option("--report", help="Write an HTML report here.")] = None,
    save: Annotated[Path | None, typer.Option(help="Write the fit here, as netCDF.")] = None, verbose: Verbose = False,
) -> None:  # fmt: skip
    """Fit a model, beside maximum likelihood when there is a prior or a posterior; print the table."""
    for path in (out, save):
        _writable(path)
    chosen = METHODS.resolve(method)
    check_prob(prob)
    rows = read_file(file, separator, decimal, formula)
    model = _model(formula, rows, likelihood, prior, aux, event, reference, weights, offset, missing)
    with _working(f"fitting by {method}"), _one_line_warnings():
        main = fit_model(model, chosen, seed=seed)
        fits = _beside(model, main)
    of = _compared(fits, prob, rest="below" if verbose else "with --verbose")
    if verbose:
        _in_full(fits, of, prob)
    if save is not None:
        _say(f"\nfit saved in {main.save(save)}")
    if out is not None:
        _report(fits, out, prob, rows)


@app.command(name="check")
def check_command(
    file: File, formula: Formula, likelihood: Likelihood = None, prior: PriorText = "flat", aux: AuxText = "",
    event: Event = None, reference: ReferenceLevel = None, weights: Weights = None, offset: Offset = None,
    missing: Missing = "raise", separator: Separator = ",", decimal: Decimal = None, verbose: Verbose = False,
) -> None:  # fmt: skip
    """Say what stands in the way of a fit, before it: rank, separation, scales, cells. Exit code 1 for a problem."""
    rows = read_file(file, separator, decimal, formula)
    model = _model(formula, rows, likelihood, prior, aux, event, reference, weights, offset, missing)
    found = probreg.check(model, verbose=verbose)
    _say(model, as_options(str(found)))
    if found.worst.name == "PROBLEM":
        raise typer.Exit(1)


@app.command()
def datasets(
    name: Annotated[str | None, typer.Argument(help="A data set, to read all about it.")] = None,
) -> None:
    """List the bundled data sets, or print the card of one."""
    _say(probreg.list_datasets() if name is None else probreg.describe_dataset(name))


# ---- parts of the commands ---------------------------------------------------------------------------------------------


def _say(*things: object) -> None:
    for thing in things:
        typer.echo(str(thing))


@contextmanager
def _working(what: str) -> Iterator[None]:
    """A spinner on a terminal, nothing elsewhere."""
    from rich.console import Console

    console = Console(stderr=True)
    if not console.is_terminal:
        yield
        return
    with console.status(f"{what} …"):
        yield


@contextmanager
def _one_line_warnings() -> Iterator[None]:
    """Warnings about a fit as lines on the standard error; its status stands in the table as well."""
    import warnings

    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("default")
        yield
    for text in dict.fromkeys(str(w.message) for w in caught if issubclass(w.category, probreg.ProbregWarning)):
        typer.echo(f"probreg: warning: {visible(text)}", err=True)


def _beside(model: Model, main: Fit) -> dict[str, Fit]:
    """The fit, after maximum likelihood and, for a posterior, the mode under the same priors, where these are other
    fits and have a method."""
    if main.target == "mode" and model.flat:
        return {"ML": main}
    fits = {"ML": fit_model(replace(model, prior=Flat(), aux=model.fixed))}
    if main.target == "posterior" and not model.flat and METHODS["newton"]().obstacle(model) is None:
        fits["mode"] = fit_model(model)
    return {**fits, "mode" if main.target == "mode" else main.method.name: main}


def _compared(fits: Mapping[str, Fit], prob: float, rest: str) -> Any:
    """Prints the table; `rest` says where what it leaves out is."""
    from probreg.comparison import compare

    of = compare(fits, prob) if len(fits) > 1 else None
    _say("", as_printed(str(next(iter(fits.values())).summary(prob) if of is None else of), rest))
    return of


def _in_full(fits: Mapping[str, Fit], of: Any, prob: float) -> None:
    """Every row of the table, every reason why fits differ, every check of the model and every note."""
    if of is None:
        (alone,) = fits.values()
        _say("\nEvery row", alone.summary(prob).to_string())
    else:
        shown = [
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
        _say("\nEvery row", of.tidy()[shown].to_string(index=False, na_rep="", float_format="{:.5g}".format))
        reasons = [f"  {visible(param)}, {visible(said)}" for param, each in of.reasons.items() for said in each]
        _say(*(["\nEvery reason", *reasons] if reasons else []))
        _say(*(["\nNotes of the comparison", *(f"  {visible(note)}" for note in of.notes)] if of.notes else []))
    for name, fit in fits.items():
        _say(f"\nChecks of {name}", probreg.check(fit.model, verbose=True))
        _say(f"\nNotes of {name}", *(f"  {visible(note)}" for note in fit.described["notes"]))


def _report(fits: Mapping[str, Fit], out: Path, prob: float, rows: Any, **words: Any) -> None:
    from probreg.show.report import report

    with _working("writing the report"):
        where = report(fits, out, prob=prob, data=rows, **words)
    _say(f"\nreport written to {where.resolve()}")


def _writable(path: Path | None) -> None:
    """DataError before any work where no file can be written."""
    if path is not None:
        destination(path)


def _model(
    formula: str, rows: Any, likelihood: str | None, prior: str, aux: str, event: str | None, reference: str | None,
    weights: str | None, offset: str | None, missing: str,
) -> Model:  # fmt: skip
    if missing not in ("raise", "drop"):
        raise DataError(f"--missing is raise or drop, got {missing!r}")
    return Model.from_formula(
        formula, rows, likelihood=None if likelihood is None else parse_likelihood(likelihood), prior=parse_prior(prior), aux=parse_aux(aux), weights=named_weights(weights),
        offset=offset, event=response_level(event, formula, rows), reference=response_level(reference, formula, rows), missing="drop" if missing == "drop" else "raise",
    )  # fmt: skip
