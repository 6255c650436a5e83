"""The options that several commands share, each written once, and how a command takes a group of them."""

import functools
import inspect
from collections.abc import Callable, Mapping, Sequence
from dataclasses import MISSING, dataclass, field, fields, is_dataclass
from typing import Annotated, Any, get_type_hints

import numpy as np
import typer

from probreg.data.weights import named_weights
from probreg.errors import DataError
from probreg.fits.fit import Fit, fit as fit_model, load_fit
from probreg.inference import METHODS, Method
from probreg.likelihoods import LIKELIHOODS
from probreg.model.from_text import parse_likelihood
from probreg.model.model import Model
from probreg.priors.text import parse_aux, parse_prior
from probreg.show.cli.entry import WrongWords, usage
from probreg.show.cli.files import SUFFIXES, read_file, response_level
from probreg.show.cli.output import show_progress, tell
from probreg.show.cli.settings import method_of

PRIOR_HELP = 'Such as weak, "normal(2.5)", or by column "x=normal(1), z=laplace(0.5)".'
METHOD_HELP = f"One of: {', '.join(METHODS)}."


def table_option(text: str, *names: str) -> Any:
    """An option that says how a file is read; likewise of the model, of the method and of the output."""
    return typer.Option(*names, help=text, rich_help_panel="The table")


def model_option(text: str, *names: str) -> Any:
    return typer.Option(*names, help=text, rich_help_panel="The model")


def method_option(text: str, *names: str) -> Any:
    return typer.Option(*names, help=text, rich_help_panel="The method")


def output_option(text: str, *names: str) -> Any:
    return typer.Option(*names, help=text, rich_help_panel="The output")


File = Annotated[
    str,
    typer.Argument(
        metavar="FILE",
        help=f"A table ({SUFFIXES}), a bundled data set, or - for CSV on the standard input.",
    ),
]
Formula = Annotated[
    str, typer.Argument(metavar="FORMULA", help='Such as "y ~ x1 + C(g)".')
]
Source = Annotated[
    str,
    typer.Argument(
        metavar="SOURCE",
        help="A saved fit, FIT.nc, or a table with a FORMULA after it.",
    ),
]
MaybeFormula = Annotated[
    str | None,
    typer.Argument(metavar="[FORMULA]", help="Of the model, where SOURCE is a table."),
]
Prior = Annotated[str, model_option(PRIOR_HELP, "--prior")]
Settings = Annotated[
    list[str],
    typer.Option(
        "--set", metavar="NAME=VALUE", help="A setting of the method, such as draws=2000; again for another.",
        rich_help_panel="The method",
    ),
]  # fmt: skip
Seed = Annotated[int, method_option("Of everything random.")]
Prob = Annotated[float, output_option("Probability of every interval.")]
Verbose = Annotated[
    bool, output_option("Print all there is, not only what matters.", "--verbose")
]
AsJson = Annotated[
    bool, output_option("Write JSON: numbers in full, null for none.", "--json")
]
AsCsv = Annotated[
    bool, output_option("Write CSV: numbers in full, empty for none.", "--csv")
]


@dataclass(frozen=True)
class TableOptions:
    """How a text file is read."""

    separator: Annotated[str, table_option("Between the columns of a text file.")] = ","
    decimal: Annotated[
        str | None, table_option('In the numbers of a text file: "." or ",".')
    ] = None

    def read(self, file: str, formula: str = "") -> Any:
        """The table; the words of the options are usage, what is in the file is not."""
        if self.decimal not in (None, ".", ","):
            raise WrongWords(f"--decimal is . or , got {self.decimal!r}")
        if len(self.separator) != 1:
            raise WrongWords(f"--separator is one character, got {self.separator!r}")
        return read_file(file, self.separator, self.decimal, formula)


@dataclass(frozen=True)
class ModelOptions:
    """What a model is told besides its formula and the priors of its coefficients."""

    likelihood: Annotated[
        str | None,
        model_option(
            f"One of {', '.join(sorted(LIKELIHOODS))}; with settings as in quantile(0.9); unless given gaussian, binomial for "
            "p(k, n), multinomial for counts(a, b)."
        ),
    ] = None
    aux: Annotated[
        str,
        model_option(
            'Such as "sigma=half_normal(2)", or a number that holds it fixed.'
        ),
    ] = ""
    event: Annotated[
        str | None, model_option("Level of a two-level response that is modelled.")
    ] = None
    reference: Annotated[str | None, model_option("Base class of a softmax.")] = None
    weights: Annotated[
        str | None,
        model_option(
            'Column of frequency weights, or of others: "precision:w", "sampling:w".'
        ),
    ] = None
    offset: Annotated[
        str | None,
        model_option('Expression added to the linear predictor: "log(exposure)".'),
    ] = None
    missing: Annotated[
        str, model_option('"raise" or "drop" rows with missing values.')
    ] = "raise"

    def words(self, priors: Sequence[str]) -> "Words":
        """What the options say, read before any table is: what is not understood is usage."""
        with usage():
            if self.missing not in ("raise", "drop"):
                raise DataError(f"--missing is raise or drop, got {self.missing!r}")
            if self.likelihood is None:
                likelihood = None
            else:
                likelihood = parse_likelihood(self.likelihood)
            given = {
                "likelihood": likelihood,
                "aux": parse_aux(self.aux),
                "weights": named_weights(self.weights),
            }
            given |= {"offset": self.offset, "missing": self.missing}
            return Words(
                given, self.event, self.reference, tuple(parse_prior(p) for p in priors)
            )


@dataclass(frozen=True)
class Words:
    """The options of a model as the library takes them; levels wait for the table."""

    given: Mapping[str, Any]
    event: str | None
    reference: str | None
    priors: tuple[Any, ...]

    def models(self, formula: str, rows: Any, *, asked: bool = True) -> list[Model]:
        """A model for each prior; a note on the standard error where the response is not one for its likelihood."""
        event, reference = (
            response_level(text, formula, rows) for text in (self.event, self.reference)
        )
        first = Model.from_formula(
            formula,
            rows,
            prior=self.priors[0],
            event=event,
            reference=reference,
            **self.given,
        )
        if asked:
            question(first)
        return [first, *(first.with_prior(prior) for prior in self.priors[1:])]

    def models_of_several(
        self, formulas: Sequence[str], rows: Any
    ) -> dict[str, list[Model]]:
        """The models of each formula, all of the rows that are complete for every one of them."""
        made = {
            formula: self.models(formula, rows, asked=False) for formula in formulas
        }
        labels = [np.asarray(models[0].design.labels) for models in made.values()]
        if self.given["missing"] == "drop" and len({len(some) for some in labels}) > 1:
            complete = rows[
                rows.index.isin(
                    set.intersection(*(set(some.tolist()) for some in labels))
                )
            ]
            tell(
                "note",
                f"every formula is fitted to the {len(complete)} rows that are complete for all of them",
            )
            made = {
                formula: self.models(formula, complete, asked=False)
                for formula in formulas
            }
        question(next(iter(made.values()))[0])
        return made


@dataclass(frozen=True)
class MethodOptions:
    """What fits the model."""

    method: Annotated[str, method_option(METHOD_HELP)] = "auto"
    settings: Settings = field(default_factory=list)
    seed: Seed = 0

    def chosen(self) -> Method:
        """The method with its settings."""
        with usage():
            return method_of(self.method, self.settings)


def fit_of_source(
    source: str,
    formula: str | None,
    model: ModelOptions,
    how: MethodOptions,
    table: TableOptions,
    prior: str,
) -> tuple[Fit, Any]:
    """A saved fit, or the fit of a table with the table."""
    if source.endswith(".nc"):
        if formula is not None:
            raise WrongWords(f"{source} is a saved fit, which has its formula")
        groups: tuple[Any, ...] = (model, how, table)
        told = [
            f.name
            for group in groups
            for f in fields(group)
            if getattr(group, f.name) not in (f.default, [])
        ]
        told = [*told, *(["prior"] if prior != "flat" else [])]
        if told:
            raise WrongWords(
                f"{source} is a saved fit, which has its {' and '.join(told)}"
            )
        return load_fit(source), None
    if formula is None:
        raise WrongWords(
            f"{source} is no saved fit, FIT.nc: a table has a FORMULA after it"
        )
    method = how.chosen()
    words = model.words([prior])
    rows = table.read(source, formula)
    (made,) = words.models(formula, rows)
    with show_progress(f"fitting by {method.name}"):
        return fit_model(made, method, seed=how.seed), rows


def question(model: Model) -> None:
    """A note on the standard error where a response has two values and the likelihood a noise scale."""
    from probreg.assess.before import Verdict
    from probreg.assess.before.response import ResponseCheck

    for finding in ResponseCheck().run(model):
        if finding.verdict > Verdict.OK:
            tell("note", f"{finding.sentence}. {finding.remedy}")


def refuse_repeats(texts: Sequence[str]) -> None:
    """Usage where one of several is given twice."""
    twice = [text for text in dict.fromkeys(texts) if list(texts).count(text) > 1]
    if twice:
        raise WrongWords(f"{twice[0]!r} is given twice")


def one_format(as_json: bool, as_csv: bool) -> None:
    """Usage where both formats are asked for."""
    if as_json and as_csv:
        raise WrongWords("--json and --csv are two formats: ask for one")


def with_option_groups(command: Callable[..., None]) -> Callable[..., None]:
    """The command, whose parameters of the classes above become an option for each field of them.

    >>> def show(table: TableOptions) -> None: ...
    >>> list(inspect.signature(with_option_groups(show)).parameters)
    ['separator', 'decimal']
    """
    groups: dict[str, Any] = {}
    shown: list[inspect.Parameter] = []
    for p in inspect.signature(command, eval_str=True).parameters.values():
        if not is_dataclass(p.annotation):
            shown.append(p.replace(kind=p.KEYWORD_ONLY))
            continue
        groups[p.name] = p.annotation
        hints = get_type_hints(p.annotation, include_extras=True)
        for f in fields(p.annotation):
            if f.default_factory is MISSING:
                default = f.default
            else:
                default = f.default_factory()
            shown.append(
                p.replace(
                    name=f.name,
                    kind=p.KEYWORD_ONLY,
                    annotation=hints[f.name],
                    default=default,
                )
            )

    @functools.wraps(command)
    def called(**given: Any) -> None:
        made = {
            name: cls(**{f.name: given.pop(f.name) for f in fields(cls)})
            for name, cls in groups.items()
        }
        command(**given, **made)

    called.__signature__ = inspect.Signature(shown)  # type: ignore[attr-defined]
    called.__annotations__ = {p.name: p.annotation for p in shown}
    del called.__wrapped__
    return called
