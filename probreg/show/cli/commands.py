"""The commands, from a file to a table, a report or predictions. Each returns its exit code."""

from argparse import Namespace
from collections.abc import Mapping
from dataclasses import asdict
from itertools import product
from pathlib import Path
from typing import Any

import numpy as np

import probreg
from probreg.comparison import Comparison, compare, compare_models
from probreg.datasets import describe_dataset, list_datasets, load_dataset
from probreg.diagnostics.before import Findings, Verdict
from probreg.errors import ProbregError
from probreg.fits.fit import Fit, fit as fit_model, load_fit
from probreg.inference import METHODS, NUTS, Evidence
from probreg.model.model import Model
from probreg.priors import Flat, Normal
from probreg.show.cli.files import formulas_by_parameter, read_file, response_level
from probreg.show.cli.output import command_json, show_progress, write_message
from probreg.show.publication import table as publication_table
from probreg.show.report import report
from probreg.show.report.sections import predictions_table
from probreg.system.disk import destination, write_whole
from probreg.tables.table import csv_text, records

# options that a saved fit cannot have
_SETTINGS_OF_A_FIT = (
    "separator", "decimal", "likelihood", "prior", "aux", "event", "reference", "weights", "offset", "missing", "method", "seed"
)  # fmt: skip
_VERBOSE = "(--verbose prints every row, reason and note)"


def fit_command(options: Namespace) -> int:
    """Fit a model; print its table, and save it."""
    if options.rows and options.save is None:
        options.usage_error("--rows needs --save, the file that keeps them")
    if options.save is not None:
        destination(options.save)
    fit, rows = _fit_table(options)
    with show_progress("fitting"):
        if options.covariance is None:
            covariance = None
            fits = with_reference_fits(fit, options.prior or options.aux)
        else:
            covariance = options.covariance.of_fit(fit, rows)
            fits = {fit_name(fit): fit}
    if options.json:
        objects = [fit_object(n, f, options.prob, covariance) for n, f in fits.items()]
        content = {"formula": options.formula, "fits": objects}
        print(command_json("fit", content), end="")
    elif options.csv:
        print(csv_text(estimates_frame(fits, options.prob, covariance)), end="")
    else:
        _print_fits(fits, options.prob, covariance, verbose=options.verbose)
    if options.save is not None:
        write_message(f"fit saved in {fit.save(options.save, rows=options.rows)}")
    return 0


def predict_command(options: Namespace) -> int:
    """Predict the rows of a table with a saved fit, as CSV or JSON."""
    if options.output is not None:
        destination(options.output)
    fit = load_fit(options.saved)
    recipes = fit.model.design.recipe.by_prefix.values()
    rows = _read_rows(options, " ".join(recipe.formula for recipe in recipes))
    with show_progress("predicting"):
        frame = fit.predict(
            rows,
            options.prob,
            groups=options.groups,
            weights=options.weights,
            output="pandas",
        )
    if options.json:
        text = command_json("predict", {**frame.attrs, "rows": records(frame)})
    else:
        text = csv_text(frame)
    if options.output is None:
        print(text, end="")
    else:
        write_whole(options.output, text.encode("utf-8"))
    return 0


def compare_command(options: Namespace) -> int:
    """Fit each formula under each prior by each method, and compare the fits."""
    formulas = options.formulas
    priors = options.prior or [("flat", Flat())]
    methods = options.method or [("auto", "auto")]
    texts = [*formulas, *(text for text, _ in (*priors, *methods))]
    for text in texts:
        if texts.count(text) > 1:
            options.usage_error(f"{text!r} is given twice")
    n_fits = len(formulas) * len(priors) * len(methods)
    has_intervals = options.json or (len(formulas) == 1 < n_fits and not options.csv)
    if options.prob is not None and not has_intervals:
        options.usage_error("--prob: this table has no intervals; --json has them")
    prob = options.prob or 0.95
    rows = _read_rows(options, " ".join(formulas))
    with show_progress("fitting"):
        models = _models_of_same_rows(options, rows)
        _note_response(models[formulas[0]])
        fits = {}
        for formula, (text, prior), (name, method) in product(
            formulas, priors, methods
        ):
            parts = zip((formula, text, name), (formulas, priors, methods))
            label = ", ".join(part for part, choices in parts if len(choices) > 1)
            model = models[formula].with_prior(prior)
            fits[label or formula] = fit_model(model, method, seed=options.seed or 0)
        judged = compare_models(fits)
    frame = judged.table.rename_axis("fit")
    comparison = None
    if len(formulas) == 1 and len(fits) > 1:
        comparison = compare(fits, prob)
    if options.json:
        content: dict[str, Any] = {"models": records(frame), "notes": [*judged.notes]}
        if comparison is not None:
            content["reasons"] = comparison.reasons
            content["notes"] += comparison.notes
        objects = [fit_object(name, fit, prob) for name, fit in fits.items()]
        print(command_json("compare", content | {"fits": objects}), end="")
    elif options.csv:
        print(csv_text(frame), end="")
    else:
        print(judged)
        if len(fits) > 1:
            print("", comparison or publication_table(fits), sep="\n")
    return 0


def check_command(options: Namespace) -> int:
    """Check a model before the fit."""
    model, _ = _read_model(options)
    if not options.json:
        print(model)
    findings = probreg.check(model, verbose=options.verbose)
    return _write_findings("check", findings, options)


def diagnose_command(options: Namespace) -> int:
    """Diagnose a fit."""
    fit, _ = _fit_of_source(options)
    with show_progress("diagnosing"):
        findings = probreg.diagnose(fit, verbose=options.verbose)
    return _write_findings("diagnose", findings, options)


def report_command(options: Namespace) -> int:
    """Write the report of a fit."""
    destination(options.output)
    fit, rows = _fit_of_source(options)
    fits = {fit_name(fit): fit}
    if rows is not None:
        with show_progress("fitting"):
            fits = with_reference_fits(fit, options.prior or options.aux)
    _write_report(
        fits, options.output, prob=options.prob, data=rows, title=options.title
    )
    return 0


def datasets_command(options: Namespace) -> int:
    """List the data sets, or describe one."""
    if options.csv and not options.name:
        options.usage_error("--csv needs NAME, the data set to write")
    try:
        if options.name:
            text: Any = describe_dataset(options.name)
        else:
            text = list_datasets()
    except ProbregError as error:
        options.usage_error(error.command_line_text)
    if options.csv:
        print(csv_text(load_dataset(options.name)), end="")
    else:
        print(text)
    return 0


def demo_command(options: Namespace) -> int:
    """Show three fits of O-ring damage before Challenger's last flight, a forecast, and a report."""
    destination(options.output)
    card = describe_dataset("challenger")
    rows = load_dataset("challenger")
    model = Model.from_formula("damage ~ temperature", rows, likelihood="bernoulli")
    regular = model.with_prior(Normal(0.1))
    print(f"{card.title}: {card.question}\n\n{model}\n\nChecks")
    print(probreg.check(model, verbose=True))
    print(
        "\nThree fits: maximum likelihood; the mode and the posterior under a normal prior of standard deviation 0.1 on the slope per °F.\n"
    )
    with show_progress("fitting"):
        fits = {"ML": fit_model(model), "mode": fit_model(regular)}
        draws = 500 if options.quick else 1000
        fits["posterior"] = fit_model(regular, NUTS(draws=draws), seed=options.seed)
    print(compare(fits))
    print(
        "\nP(damage) at 31 °F, the forecast for the launch (95 % intervals); the coldest flight so far had 53 °F"
    )
    launch = {"the launch": {"temperature": 31}}
    print(predictions_table(fits, launch, 0.95).table)
    _write_report(
        fits, options.output, data=rows, title=card.title, text=card.question, effects={"temperature": -10},
        predict=launch,
    )  # fmt: skip
    return 0


# ---- models and fits ---------------------------------------------------------------------------------------------------


def _read_rows(options: Namespace, formula: str) -> Any:
    if options.separator is not None and len(options.separator) != 1:
        options.usage_error(f"--separator {options.separator}: expected one character")
    return read_file(options.file, options.separator, options.decimal, formula)


def _model(options: Namespace, formula: str, prior: Any, rows: Any) -> Model:
    return Model.from_formula(
        formulas_by_parameter(formula),
        rows,
        prior=prior,
        likelihood=options.likelihood,
        aux=options.aux or {},
        weights=options.weights,
        offset=options.offset,
        missing=options.missing or "raise",
        event=response_level(options.event, formula, rows),
        reference=response_level(options.reference, formula, rows),
    )


def _models_of_same_rows(options: Namespace, rows: Any) -> dict[str, Model]:
    """Return a model without prior for each formula, on the rows that are complete for every formula."""
    models = {f: _model(options, f, Flat(), rows) for f in options.formulas}
    labels = [{*np.asarray(model.design.labels)} for model in models.values()]
    shared = set.intersection(*labels)
    if options.missing == "drop" and any(
        len(row_labels) > len(shared) for row_labels in labels
    ):
        complete = rows[rows.index.isin(shared)]
        write_message(
            f"note: every formula is fitted to the {len(complete)} rows that are complete for all of them"
        )
        models = {f: _model(options, f, Flat(), complete) for f in options.formulas}
    return models


def _fit_of_source(options: Namespace) -> tuple[Fit, Any]:
    """A saved fit, or the fit of a table with the table."""
    source = options.file
    if source.endswith(".nc"):
        settings = [] if options.formula is None else ["FORMULA"]
        for name in _SETTINGS_OF_A_FIT:
            if getattr(options, name) is not None:
                settings.append(f"--{name}")
        if settings:
            options.usage_error(
                f"{source} is a saved fit, which takes no {' and no '.join(settings)}"
            )
        return load_fit(source), None
    if options.formula is None:
        options.usage_error(
            f"{source} is no saved fit, FIT.nc: a table has a FORMULA after it"
        )
    return _fit_table(options)


def _fit_table(options: Namespace) -> tuple[Fit, Any]:
    """Fit the model of a table by the method; return the table too."""
    model, rows = _read_model(options)
    _note_response(model)
    with show_progress("fitting"):
        return fit_model(model, options.method or "auto", seed=options.seed or 0), rows


def _read_model(options: Namespace) -> tuple[Model, Any]:
    """Return the model of the formula and the prior, and its table."""
    rows = _read_rows(options, options.formula)
    return _model(options, options.formula, options.prior or Flat(), rows), rows


def _note_response(model: Model) -> None:
    """A note on the standard error if the response is unusual for the likelihood."""
    from probreg.diagnostics.before.sample import ResponseCheck

    for finding in ResponseCheck().run(model):
        if finding.verdict > Verdict.OK:
            write_message(f"note: {finding.sentence}. {finding.remedy}")


def fit_name(fit: Fit) -> str:
    """The name of a fit in a table: "ML", "REML", "mode", or the method of a posterior."""
    scales = fit.solution.effect_scales
    if scales is not None and scales.plain and fit.target == "mode":
        return scales.criterion
    if fit.target == "posterior" or not fit.method.probabilities:
        return fit.method.name
    return "ML" if fit.model.flat else "mode"


def with_reference_fits(fit: Fit, prior: Any) -> dict[str, Fit]:
    """Return maximum likelihood, for a posterior also the mode under the same priors, and last the fit.

    A mode without a stated `prior` is the only fit, unless it has effects by group, which also have a maximum likelihood estimate.
    """
    model = fit.stated_model
    smooths_alone = not prior and not model.design.recipe.grouped
    if fit.target == "mode" and (model.flat or smooths_alone):
        return {fit_name(fit): fit}
    fits = _maximum_likelihood(model)
    has_mode = not model.flat and METHODS["newton"]().obstacle(model) is None
    if fit.target == "posterior" and has_mode:
        fits["mode"] = fit_model(model)
    return {**fits, fit_name(fit): fit}


def _maximum_likelihood(model: Model) -> dict[str, Fit]:
    """The fit without priors; effects by group and functions keep the standard deviations that the marginal likelihood estimates."""
    free = model.with_prior(Flat())
    if isinstance(free.prior, Flat):
        return {"ML": fit_model(free)}
    method = Evidence(criterion="ML")
    return {} if method.obstacle(free) else {"ML": fit_model(free, method)}


# ---- output ------------------------------------------------------------------------------------------------------------


def _print_fits(
    fits: Mapping[str, Fit], prob: float, covariance: Any, *, verbose: bool
) -> None:
    comparison = compare(fits, prob) if len(fits) > 1 else None
    summaries = {n: f.summary(prob, covariance=covariance) for n, f in fits.items()}
    print("", comparison or next(iter(summaries.values())), sep="\n")
    if not verbose:
        print(_VERBOSE)
        return
    if comparison is not None:
        _print_comparison(comparison)
    for name, fit in fits.items():
        print(f"\nEvery row of {name}", summaries[name].to_string(), sep="\n")
        print(f"\nChecks of {name}", probreg.check(fit.model, verbose=True), sep="\n")
        print(f"\nNotes of {name}", *fit.described["notes"], sep="\n  ")


def _print_comparison(comparison: Comparison) -> None:
    reasons = [
        f"{p}, {r}"
        for p, reasons_of_fits in comparison.reasons.items()
        for r in reasons_of_fits
    ]
    if reasons:
        print("\nEvery reason", *reasons, sep="\n  ")
    if comparison.notes:
        print("\nNotes of the comparison", *comparison.notes, sep="\n  ")


def _write_findings(command: str, findings: Findings, options: Namespace) -> int:
    """Write the findings; the exit code is 1 if one is a problem."""
    if options.json:
        entries = [asdict(f) | {"verdict": f.verdict.name.lower()} for f in findings]
        content = {"worst": findings.worst.name.lower(), "passed": findings.passed}
        print(command_json(command, content | {"findings": entries}), end="")
    else:
        print(findings)
    return int(findings.worst is Verdict.PROBLEM)


def _write_report(fits: Mapping[str, Fit], path: Path, **settings: Any) -> None:
    with show_progress("writing the report"):
        written = report(fits, path, **settings)
    write_message(f"report written to {written.resolve()}")


def estimates_frame(fits: Mapping[str, Fit], prob: float, covariance: Any) -> Any:
    """Every coefficient and nuisance parameter of every fit, one row each."""
    import pandas as pd

    names = {"index": "coef", "mean": "estimate", "median": "estimate", "sd": "std_error"}  # fmt: skip
    frames = []
    for name, fit in fits.items():
        frame = pd.DataFrame(fit.summary(prob, covariance=covariance)).reset_index()
        frames.append(frame.rename(columns=names).assign(fit=name))
    frame = pd.concat(frames, ignore_index=True)
    for name in ("statistic", "p_value"):
        frame[name] = frame.get(name)
    order = ["fit", "outcome", "coef", "estimate", "std_error", "lower", "upper"]
    first = [c for c in order if c in frame]
    return frame[[*first, *(c for c in frame if c not in first)]]


def fit_object(
    name: str, fit: Fit, prob: float, covariance: Any = None
) -> dict[str, Any]:
    """A fit for JSON: method, status, statistics and table."""
    attrs = fit.summary(prob, covariance=covariance).attrs
    (statistics,) = records(fit.glance())
    frame = estimates_frame({name: fit}, prob, covariance).drop(columns="fit")
    return {
        "name": name,
        "models": attrs["models"],
        "method": fit.method.name,
        "target": fit.target,
        "status": fit.solution.status.value,
        "good": fit.solution.status.good,
        "seed": fit.seed,
        "interval": {"prob": prob, "kind": attrs["kind"]},
        "covariance": attrs.get("covariance"),
        "statistics": statistics,
        "notes": list(fit.described["notes"]),
        "table": records(frame),
    }
