"""Every public verb on fits with effects that vary by a group: finite labelled output of sensible size, or a sentence that says why not."""

import itertools
import warnings
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import probreg as pr
from tests.equivalence.test_group_prediction import DATA

BUILD: dict[str, Callable[[], pr.Fit]] = {
    "correlated": lambda: pr.fit(pr.Model.from_formula("y ~ x + (x | g)", DATA)),
    "posterior": lambda: pr.fit(
        pr.Model.from_formula(
            "y ~ x + (x || g)",
            DATA,
            prior={"x || g": pr.priors.Covariance(sd=pr.HalfNormal(2.0))},
        ),
        "integrate",
    ),
    "chance": lambda: pr.fit(
        pr.Model.from_formula("happened ~ x + (1 | g)", DATA, likelihood="bernoulli"),
        "evidence",
    ),
    "classes": lambda: pr.fit(
        pr.Model.from_formula("kind ~ x + (1 | g)", DATA, likelihood="categorical"),
        "evidence",
    ),
}
FITS: dict[str, pr.Fit] = {}
NEW = DATA.head(2).assign(g="new")
LINES = 60  # of a print


def ask_of(name: str) -> pr.Fit:
    if name not in FITS:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            FITS[name] = BUILD[name]()
    return FITS[name]


def equality(fit: pr.Fit) -> str:
    return "b: x = 0" if fit.model.likelihood.outcomes else "x = 0"


VERBS: dict[str, Callable[[pr.Fit], Any]] = {
    "summary": lambda f: f.summary(),
    "print": lambda f: f,
    "interval": lambda f: f.interval(),
    "covariance": lambda f: f.covariance(),
    "tidy": lambda f: f.tidy(),
    "glance": lambda f: f.glance(),
    "effects": lambda f: f.effects("g"),
    "predict": lambda f: f.predict(DATA.head(3)),
    "predict unseen": lambda f: f.predict(NEW),
    "predict new": lambda f: f.predict(NEW, groups="new"),
    "predict typical": lambda f: f.predict(NEW[["x"]], groups="typical"),
    "predictive new": lambda f: f.predictive(NEW, groups="new").mean(),
    "residuals": lambda f: f.residuals("response"),
    "slopes": lambda f: pr.slopes(f),
    "comparisons": lambda f: pr.comparisons(f),
    "predictions": lambda f: pr.predictions(f, groups="known"),
    "predictions new": lambda f: pr.predictions(f, groups="new"),
    "balanced": lambda f: pr.predictions(f, grid="balanced"),
    "hypothesis": lambda f: pr.hypothesis(f, equality(f)),
    "variance": lambda f: pr.hypothesis(f, "sd(Intercept | g) = 0"),
    "conformal": lambda f: pr.conformal(f),
    "check": lambda f: pr.check(f.model),
    "diagnose": lambda f: pr.diagnose(f),
    "influence_measures": lambda f: pr.influence_measures(f),
    "compare": lambda f: pr.compare({"a": f, "b": f}),
    "explain": lambda f: pr.explain(f, f),
    "compare_models": lambda f: pr.compare_models({"a": f}, leave_out="g"),
    "table": lambda f: pr.table({"a": f}),
    "prior_weight": lambda f: pr.prior_weight(f),
    "tune": lambda f: pr.tune(f.model),
    "forget": lambda f: f.forget(DATA.head(2)),
    "update": lambda f: f.update(DATA.head(2)),
    "update unseen": lambda f: f.update(NEW),
    "prior_predictive": lambda f: f.model.prior_predictive(),
    "tree": lambda f: sorted(f.tree.children),
    "interval_panel": lambda f: pr.interval_panel(
        f, "b: x" if f.model.likelihood.outcomes else "x"
    ),
    "guarantee": lambda f: pr.guarantee(f, DATA.head(20)),
    "plot.fitted": lambda f: pr.plot.fitted(f),
    "plot.coefficients": lambda f: pr.plot.coefficients(f),
    "plot.diagnose": lambda f: pr.plot.diagnose(f),
    "plot.prior_weight": lambda f: pr.plot.prior_weight(f),
}


def finite(value: Any) -> None:
    """Numbers of labelled output are finite, but for what is said to be missing by nan in single columns."""
    frames = getattr(value, "table", value)
    if hasattr(frames, "select_dtypes"):
        numbers = frames.select_dtypes("number")
        assert len(frames) < 200
        assert numbers.empty or np.isfinite(numbers.to_numpy(dtype=float)).any()
    if hasattr(value, "data_vars") and "mean" in value:
        assert np.isfinite(value["mean"]).all()


# the refits of compare_models of classes are those of chance
@pytest.mark.parametrize(
    ("verb", "kind"),
    [
        case
        for case in itertools.product(VERBS, BUILD)
        if case != ("compare_models", "classes")
    ],
)
def test_a_verb_answers_or_says_why_not(verb, kind):
    fit = ask_of(kind)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        try:
            found = VERBS[verb](fit)
        except pr.ProbregError as error:
            said = str(error)
        else:
            said = ""
    if said:
        assert len(said.split()) > 4, said
        assert "[g0" not in said, said
        return
    finite(found)
    text = repr(found)
    if not hasattr(found, "dims"):  # arrays of xarray print their own way
        assert text.count("\n") < LINES, text
        assert "[g07" not in text, text


@pytest.mark.parametrize("kind", BUILD)
def test_an_unseen_group_is_never_answered_silently(kind):
    with pytest.raises(pr.DataError, match="'new'"):
        ask_of(kind).predict(NEW)
    with pytest.raises(pr.ProbregError):
        ask_of(kind).update(NEW)


@pytest.mark.slow
@pytest.mark.parametrize("kind", ["classes"])
def test_a_report_is_written(kind, tmp_path: Path):
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        page = pr.report(ask_of(kind), tmp_path / "page.html").read_text()
    assert "[g07" not in page or "details" in page
