"""`probreg demo`: a complete analysis of a bundled data set, from data to report."""

from pathlib import Path

from probreg.assess.before import check
from probreg.datasets import describe_dataset, load_dataset
from probreg.fits.fit import fit as fit_model
from probreg.inference import NUTS
from probreg.model.model import Model
from probreg.priors import Normal
from probreg.show.cli.output import show_progress, write_lines
from probreg.show.cli.shown import show_fits, write_report
from probreg.system.terminal import format_probability


def demonstrate(out: Path, quick: bool, seed: int) -> None:
    """Maximum likelihood, the mode and the posterior of O-ring damage, side by side, and a forecast."""
    card = describe_dataset("challenger")
    rows = load_dataset("challenger")
    model = Model.from_formula("damage ~ temperature", rows, likelihood="bernoulli")
    regular = model.with_prior(Normal(0.1))
    write_lines(
        f"{card.title}: {card.question}\n",
        model,
        "\nChecks",
        check(model, verbose=True),
    )
    write_lines(
        "\nThree fits: maximum likelihood; the mode and the posterior under a normal prior of standard deviation 0.1 on the slope per °F."
    )
    with show_progress("fitting"):
        fits = {"ML": fit_model(model), "mode": fit_model(regular)}
    with show_progress("drawing from the posterior"):
        fits["posterior"] = fit_model(
            regular, NUTS(draws=500 if quick else 1000), seed=seed
        )
    show_fits(fits, 0.95, rest="in the report")
    write_lines(
        "\nP(damage) at 31 °F, the forecast for the launch (95 % intervals); the coldest flight so far had 53 °F"
    )
    for name, fit in fits.items():
        p = fit.predict({"temperature": [31.0]}).isel(obs=0)
        mean, low, high = (
            format_probability(float(p[q]))
            for q in ("mean", "mean_lower", "mean_upper")
        )
        write_lines(f"  {name:<10} {mean:<6}  ({low} to {high})")
    write_report(
        fits, out, 0.95, rows, title=card.title, text=card.question, effects={"temperature": -10},
        predict={"the launch": {"temperature": 31.0}},
    )  # fmt: skip
