"""The glossary has every column of a table of results, every check and diagnostic, once and in alphabetical order."""

import dataclasses
import pathlib
import re
import textwrap

import pytest

import probreg as pr
from probreg.diagnostics.after import DIAGNOSTICS
from probreg.diagnostics.before import CHECKS

PAGE = pathlib.Path(__file__).parents[2] / "docs" / "glossary.md"


def entries() -> list[list[str]]:
    """The terms of each entry: lines at the margin, followed by an indented definition."""
    (block,) = re.findall(
        r"```\{glossary\}\n(.*?)```", PAGE.read_text(), flags=re.DOTALL
    )
    found = [
        entry.splitlines() for entry in textwrap.dedent(block).strip().split("\n\n")
    ]
    assert all(lines[-1].startswith("  ") for lines in found)
    return [[line for line in lines if not line.startswith(" ")] for lines in found]


def test_terms_stand_once_and_in_order() -> None:
    terms = [term for entry in entries() for term in entry]
    assert sorted(t for t in set(terms) if terms.count(t) > 1) == []
    first = [re.sub(r"\W", "", entry[0]).casefold() for entry in entries()]
    assert first == sorted(first)


def test_every_check_and_diagnostic_has_an_entry() -> None:
    known = {term for entry in entries() for term in entry}
    assert sorted({*CHECKS, *DIAGNOSTICS} - known) == []


@pytest.fixture(scope="module")
def fits() -> dict[str, pr.Fit]:
    plant, sleep, orings = (
        pr.load_dataset(name) for name in ("stackloss", "sleepstudy", "challenger")
    )
    ml = pr.fit(
        pr.Model.from_formula("stack_loss ~ air_flow + water_temperature", plant)
    )
    stated = {"Intercept": pr.Normal(2.0), "center(temperature)": pr.Normal(0.2)}
    formula = "damage ~ center(temperature)"
    return {
        "ml": ml,
        "posterior": pr.fit(ml.model.with_prior(pr.Normal(1.0)), "posterior", seed=1),
        "chains": pr.fit(
            ml.model.with_prior(pr.Normal(1.0)), pr.NUTS(draws=400, tune=500), seed=1
        ),
        "smooth": pr.fit(pr.Model.from_formula("stack_loss ~ s(air_flow, k=5)", plant)),
        "groups": pr.fit(
            pr.Model.from_formula("reaction ~ days + (1 | subject)", sleep)
        ),
        "weighted": pr.fit(
            pr.Model.from_formula(
                formula, orings, likelihood="bernoulli", prior=stated
            ),
            "importance",
            seed=1,
        ),
    }


def columns_of(fits: dict[str, pr.Fit]) -> set[str]:
    """The columns of every table that reads a fit or several."""
    ml, posterior, weighted = fits["ml"], fits["posterior"], fits["weighted"]
    side_by_side = pr.compare({"ML": ml, "posterior": posterior})
    forecast = weighted.predict()["mean"]
    tables = [
        *(
            table
            for f in fits.values()
            for table in (f.summary(), f.tidy(), f.glance())
        ),
        side_by_side.causes,
        pr.compare_models(
            {"ML": ml, "smooth": fits["smooth"]}, heldout=pr.load_dataset("stackloss")
        ).table,
        pr.prior_weight(weighted).table,
        pr.power_scaling(weighted),
        pr.interval_panel(ml, "air_flow").table,
        pr.hypothesis(ml, "air_flow = 0").table,
        pr.comparisons(ml).table,
        pr.slopes(weighted).table,
        fits["smooth"].smooths,
        fits["groups"].effects("subject"),
        pr.tune(posterior.model, "cv", folds=3, seed=1).table,
        pr.coverage(ml.model, ml, reps=2, seed=1).table,
        pr.sbc(weighted.model, "laplace", reps=4, seed=1).table,
        pr.predictions(weighted).table,
    ]
    datasets = [
        side_by_side.data,
        pr.influence_measures(ml),
        ml.predict(),
        pr.bias_variance(ml.model, ml).data,
    ]
    parts = pr.scores.decompose(weighted.model.design.y, forecast, bins=3)
    # columns that are named by what they count, such as ngrps.subject, have the entry of their kind
    named = {
        re.sub(r"^(ngrps\.).+", r"\1", str(c)) for t in tables for c in t.columns
    } | {str(v) for d in datasets for v in d.data_vars}
    return named | {part.name for part in dataclasses.fields(parts)}


@pytest.mark.slow
def test_every_column_of_a_table_has_an_entry(fits: dict[str, pr.Fit]) -> None:
    known = {term for entry in entries() for term in entry}
    found = columns_of(fits)
    assert len(found) > 100
    assert sorted(found - known) == []


@pytest.mark.slow
def test_what_tables_print_as_heads_has_an_entry(fits: dict[str, pr.Fit]) -> None:
    """Summaries and comparisons print some columns under other words."""
    known = {term for entry in entries() for term in entry}
    head = (
        str(pr.compare({"ML": fits["ml"], "posterior": fits["posterior"]}))
        .split("  fit  ")[1]
        .splitlines()[0]
    )
    words = {
        w.strip()
        for part in re.split(r"\s{2,}", head.strip())
        for w in part.split(" | ")
    }
    assert {"SE", "SD", "diff / SE", "SE ratio", "prior weight"} <= words
    summaries = "\n".join(str(fits[name]) for name in ("ml", "chains", "groups"))
    heads = [
        line
        for line in summaries.splitlines()
        if re.match(r"\s+(estimate|mean)\s", line)
    ]
    assert len(heads) == 3
    words |= {w for line in heads for w in re.findall(r"P\(> 0\)|\S+", line)}
    assert sorted(words - known) == []
