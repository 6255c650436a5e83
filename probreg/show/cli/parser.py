"""The commands, their options and option values, and the run of one command with its exit code.

0: success. 1: the command fails (a file that cannot be read or written, data that do not fit the model, a method that cannot
fit it), or `check` or `diagnose` finds a problem. 2: an unknown option, value or name.
"""

import argparse
import io
import os
import sys
from collections.abc import Callable, Sequence
from contextlib import suppress
from pathlib import Path
from typing import Any, NamedTuple, NoReturn, get_args

import probreg
from probreg.arguments.scalars import DataArray, check_prob
from probreg.data.weights import named_weights
from probreg.errors import DataError, ProbregError
from probreg.fits.fit import Fit
from probreg.inference import METHODS
from probreg.inference.uncertainty.covariance import DEFINITIONS
from probreg.likelihoods import LIKELIHOODS
from probreg.model.group_effects import Groups
from probreg.peers import unknown_name
from probreg.priors.text import parse_aux, parse_prior
from probreg.show.cli import commands
from probreg.show.cli.files import SUFFIXES
from probreg.show.cli.output import write_message

USAGE = 2
FILE = f"A table ({SUFFIXES}), a bundled data set, or - for CSV on the standard input."
FORMULA = 'Such as "y ~ x1 + C(g)", or "y ~ x; log sigma ~ z" for several parameters.'
SOURCE = "A saved fit, FIT.nc, or a table with a FORMULA after it."
LIKELIHOOD = f"One of {', '.join(sorted(LIKELIHOODS))}; settings as in quantile(0.9). Default: gaussian, binomial for p(k, n)."
PRIOR = 'Such as weak, "normal(2.5)", or by column "x=normal(1), z=laplace(0.5)"; compare takes several.'
METHOD = f'One of {", ".join(METHODS)}; settings as in "nuts(draws=2000)"; compare takes several.'
COVARIANCE = "Of standard errors: classical, observed, HC0 to HC3, cluster:COLUMN, HAC:LAGS. The fit is then shown alone."


class OneLineParser(argparse.ArgumentParser):
    """A parser that reports a usage error in one line."""

    def parse_args(self, args: Any = None, namespace: Any = None) -> Any:
        options, rest = self.parse_known_args(args, namespace)
        unknown = [text for text in rest if text.startswith("-")]
        if unknown:
            option = unknown[0].partition("=")[0]
            self.error(unknown_name("option", option, options.option_names()))
        if rest:
            self.error(f"unrecognized arguments: {' '.join(rest)}")
        return options

    def error(self, message: str) -> NoReturn:
        write_message(message)
        self.exit(USAGE)

    def option_names(self) -> list[str]:
        """Return the options with their dashes, except --help, in the order of the help page."""
        options = [name for a in self._actions for name in a.option_strings]
        return [name for name in options if name not in ("-h", "--help")]


def build_parser() -> OneLineParser:
    """The parser of all commands; each sets `command` to its function."""
    parser = OneLineParser(
        prog="probreg",
        description="Regression as likelihood models: maximum likelihood, posterior mode and posterior in one table.",
        epilog='Example: probreg fit challenger "damage ~ temperature" --likelihood bernoulli',
    )
    parser.add_argument(
        "--version", action="version", version=f"probreg {probreg.__version__}"
    )
    parser.set_defaults(command=None, option_names=parser.option_names)
    subparsers = parser.add_subparsers(metavar="COMMAND")

    def add(name: str, run: Callable[..., int], text: str, example: str) -> Any:
        command = subparsers.add_parser(
            name,
            help=text,
            description=text,
            epilog=f"Example: probreg {name} {example}",
            allow_abbrev=False,
        )
        command.set_defaults(
            command=run,
            usage_error=command.error,
            option_names=command.option_names,
        )
        return command

    fit = add("fit", commands.fit_command, "Fit a model and print its table, beside maximum likelihood if it has a prior.",
              'challenger "damage ~ temperature" --likelihood bernoulli --save orings.nc')  # fmt: skip
    _add_file_and_formula(fit)
    _add_model(fit)
    _add_method(fit)
    _add_output(fit, "prob", "verbose", "json", "csv")
    fit.add_argument(
        "--covariance", type=_option_type(parse_covariance), help=COVARIANCE
    )
    fit.add_argument("--save", type=Path, help="Write the fit here, as netCDF.")
    fit.add_argument(
        "--rows", action="store_true", help="Keep the rows in the saved fit."
    )

    predict = add("predict", commands.predict_command, "Predict the rows of a table by a saved fit.",
                  "orings.nc flights.csv --output forecast.csv")  # fmt: skip
    predict.add_argument("saved", metavar="SAVED", help="A fit that --save wrote.")
    predict.add_argument("file", metavar="FILE", help=FILE)
    _add_reading(predict)
    _add_output(predict, "prob", "json", "csv")
    predict.add_argument(
        "--groups", type=_option_type(parse_groups), help="known, new or typical, or one for each factor: s=known,s:c=new."
    )  # fmt: skip
    predict.add_argument(
        "--weights", type=named_weights, help='Precisions of the rows: "precision:w".'
    )
    predict.add_argument("--output", type=Path, help="Write to this file.")

    compare = add("compare", commands.compare_command, "Fit several formulas, priors or methods, and compare them by leave-one-out.",
                  'stackloss "stack_loss ~ air_flow" "stack_loss ~ air_flow + water_temperature"')  # fmt: skip
    compare.add_argument("file", metavar="FILE", help=FILE)
    compare.add_argument("formulas", metavar="FORMULA", nargs="+", help=FORMULA)
    _add_model(compare, several=True)
    _add_method(compare, several=True)
    _add_output(compare, "prob", "json", "csv")
    # with an output without intervals --prob is an error
    compare.set_defaults(prob=None)

    check = add("check", commands.check_command, "Check a model before the fit; the exit code is 1 for a problem.",
                'challenger "damage ~ temperature" --likelihood bernoulli')  # fmt: skip
    _add_file_and_formula(check)
    _add_model(check)
    _add_output(check, "verbose", "json")

    diagnose = add("diagnose", commands.diagnose_command, "Diagnose a saved fit, or the fit of a table; the exit code is 1 for a problem.",
                   'stackloss "stack_loss ~ ."')  # fmt: skip
    _add_source(diagnose)
    _add_output(diagnose, "verbose", "json")

    report = add("report", commands.report_command, "Write an analysis as one HTML page.",
                 'stackloss "stack_loss ~ ." --output stackloss.html')  # fmt: skip
    _add_source(report)
    _add_output(report, "prob")
    report.add_argument("--title", help="Title of the page.")
    report.add_argument("--output", type=Path, default=Path("probreg-report.html"))

    datasets = add("datasets", commands.datasets_command, "List the bundled data sets, or print the card of one.",
                   "challenger --csv > orings.csv")  # fmt: skip
    datasets.add_argument("name", metavar="NAME", nargs="?", help="A data set.")
    _add_output(datasets, "csv")

    demo = add("demo", commands.demo_command, "Analyse a bundled data set, from table to report.", "--quick")  # fmt: skip
    demo.add_argument("--output", type=Path, default=Path("probreg-demo.html"))
    demo.add_argument("--quick", action="store_true", help="Fewer draws.")
    demo.add_argument("--seed", type=int, default=1)
    return parser


def _option_type(
    parse: Callable[[str], Any], with_text: bool = False
) -> Callable[[str], Any]:
    """The parser of a value, or of the pair of a text and its value, with an error that argparse reports."""

    def convert(text: str) -> Any:
        try:
            value = parse(text)
        except ProbregError as error:
            raise argparse.ArgumentTypeError(error.command_line_text) from None
        return (text, value) if with_text else value

    return convert


def _add_file_and_formula(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("file", metavar="FILE", help=FILE)
    parser.add_argument("formula", metavar="FORMULA", help=FORMULA)


def _add_source(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("file", metavar="SOURCE", help=SOURCE)
    parser.add_argument("formula", metavar="FORMULA", nargs="?", help=FORMULA)
    _add_model(parser)
    _add_method(parser)


def _add_reading(parser: argparse.ArgumentParser) -> None:
    group = parser.add_argument_group("The table")
    group.add_argument(
        "--separator", help="Between columns of a text file. Default: a comma, in .tsv a tab."
    )  # fmt: skip
    group.add_argument(
        "--decimal", choices=(".", ","), help="In the numbers of a text file."
    )


def _add_model(parser: argparse.ArgumentParser, *, several: bool = False) -> None:
    """Options of the model; None is the default of each, so that a saved fit can reject them."""
    _add_reading(parser)
    group = parser.add_argument_group("The model")
    repeat: dict[str, Any] = {"action": "append"} if several else {}
    group.add_argument(
        "--likelihood", type=_option_type(LIKELIHOODS.parse), help=LIKELIHOOD
    )
    group.add_argument(
        "--prior", type=_option_type(parse_prior, several), help=PRIOR, **repeat
    )
    group.add_argument(
        "--aux", type=_option_type(parse_aux), help='Such as "sigma=half_normal(2)", or a number that fixes it.'
    )  # fmt: skip
    group.add_argument("--event", help="Level of a two-level response to model.")
    group.add_argument("--reference", help="Base class of a softmax.")
    group.add_argument(
        "--weights", type=named_weights, help='Column of frequencies, or "precision:w", "sampling:w".'
    )  # fmt: skip
    group.add_argument(
        "--offset", help='Added to the linear predictor, such as "log(exposure)".'
    )
    group.add_argument(
        "--missing", choices=("raise", "drop"), help="What to do with missing values."
    )


def _add_method(parser: argparse.ArgumentParser, *, several: bool = False) -> None:
    group = parser.add_argument_group("The method")
    repeat: dict[str, Any] = {"action": "append"} if several else {}
    group.add_argument(
        "--method", type=_option_type(METHODS.resolve, several), help=METHOD, **repeat
    )
    group.add_argument("--seed", type=int, help="Of everything random. Default: 0.")


def _add_output(parser: argparse.ArgumentParser, *names: str) -> None:
    group = parser.add_argument_group("The output")
    if "prob" in names:
        group.add_argument(
            "--prob", type=_option_type(lambda text: check_prob(float(text))), default=0.95, help="Probability of every interval."
        )  # fmt: skip
    texts = {"verbose": "Print everything.", "json": "Write unrounded JSON.", "csv": "Write unrounded CSV."}  # fmt: skip
    formats = [name for name in texts if name in names]
    if not formats:
        return
    exclusive = group.add_mutually_exclusive_group()
    for name in formats:
        exclusive.add_argument(f"--{name}", action="store_true", help=texts[name])


# ---- option values as text: methods with their settings, covariances, groups ----------------------------------------


COVARIANCES = tuple(DEFINITIONS)


class CovarianceOption(NamedTuple):
    """The kind of covariance, and for "cluster" the columns or for "HAC" the lags."""

    kind: str
    argument: str

    def of_fit(self, fit: Fit, rows: Any) -> DataArray:
        """The covariance of a fit to these rows."""
        if self.kind == "HAC":
            lags = int(self.argument) if self.argument else None
            return fit.covariance(self.kind, lags=lags)
        if self.kind != "cluster":
            return fit.covariance(self.kind)
        groups: Any = self.argument
        if groups not in rows.columns and "," in groups:
            groups = tuple(column.strip() for column in groups.split(","))
        return fit.covariance(self.kind, groups=groups, data=rows)


def parse_covariance(text: str) -> CovarianceOption:
    """A covariance such as "HC3", "cluster:COLUMN", "cluster:COLUMN,COLUMN" or "HAC:LAGS".

    >>> parse_covariance("HC4")
    Traceback (most recent call last):
    probreg.errors.DataError: no covariance is called 'HC4'; did you mean 'HC3'? There are: classical, ...
    """
    kind, colon, argument = text.partition(":")
    if kind not in COVARIANCES:
        raise DataError(unknown_name("covariance", kind, COVARIANCES))
    if kind == "cluster" and not (argument and argument.count(",") <= 1):
        raise DataError(
            f"{text}: expected the column of the groups, cluster:COLUMN, or cluster:ONE,OTHER for two ways"
        )
    if kind == "HAC" and colon and not argument.isdecimal():
        raise DataError(f"{text}: expected a whole number of lags, such as HAC:4")
    if colon and kind not in ("cluster", "HAC"):
        raise DataError(f"{text}: {kind} takes nothing after a colon")
    return CovarianceOption(kind, argument)


def parse_groups(text: str) -> Any:
    """One word for all grouping factors, or one for each.

    >>> parse_groups("new"), parse_groups("s=known,s:c=new")
    ('new', {'s': 'known', 's:c': 'new'})
    """
    if "=" not in text:
        pairs = {"": text}
    else:
        pairs = dict(part.partition("=")[::2] for part in text.split(","))
    for factor, word in pairs.items():
        if word not in get_args(Groups) or ("=" in text and not factor):
            raise DataError(
                f"{word!r} is not one of {', '.join(get_args(Groups))}; write one of them, or FACTOR=WORD for each factor"
            )
    return pairs if "=" in text else text


FAILURE, INTERRUPTED = 1, 130


def main(arguments: Sequence[str] | None = None) -> None:
    """Run the command in `arguments`, by default the arguments of the process, and exit with its code."""
    for stream in (sys.stdout, sys.stderr):
        if isinstance(stream, io.TextIOWrapper):  # a terminal without ✓ or ° prints ?
            stream.reconfigure(errors="replace")
    try:
        parser = build_parser()
        options = parser.parse_args(arguments)
        if options.command is None:
            parser.print_help()
            code = 0
        else:
            code = options.command(options)
        sys.stdout.flush()  # a full disk is an error here, not at the very end
    except ProbregError as error:
        code = _fail(error.command_line_text)
    except KeyboardInterrupt:
        code = _fail("interrupted", INTERRUPTED)
    except BrokenPipeError:  # the reader, such as head, has stopped
        _discard_output()
        code = FAILURE
    except OSError as error:
        _discard_output()
        name = error.filename or "the output"
        code = _fail(f"{name} cannot be written or read: {error.strerror or error}")
    except Exception as error:
        if os.environ.get("PROBREG_TRACEBACK"):
            raise
        code = _fail(
            f"internal error, {type(error).__name__}: {error}; set PROBREG_TRACEBACK=1 to see where, and report it"
        )
    sys.exit(code)


def _fail(message: str, code: int = FAILURE) -> int:
    write_message(message)
    return code


def _discard_output() -> None:
    """Discard the rest of the buffer."""
    with suppress(OSError, ValueError, AttributeError):
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
