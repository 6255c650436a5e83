"""The answer of a report is true on data that make it doubtful, short, and made of what was asked for."""

import re
import tempfile

import numpy as np
import pandas as pd
import pytest

import probreg as pr
from probreg.diagnostics.findings import Finding, Verdict
from probreg.model.descriptions import prior_line
from probreg.show.report.answer import answer
from probreg.show.report.sections import findings, predictions_table
from tests.examples.test_report import read
from tests.properties.cases import ESTIMATORS, LIKELIHOOD_CASES, model_for
from tests.properties.texts import unfolded

pytestmark = pytest.mark.filterwarnings("ignore:.*:probreg.errors.ProbregWarning")
RNG = np.random.default_rng(0)
N = 60
TABLE = pd.DataFrame(
    {
        "x": RNG.normal(size=N),
        "z": RNG.normal(size=N),
        "g": RNG.choice(["a", "b", "c"], N),
    }
)
TABLE["y"] = TABLE["x"] - TABLE["z"] + RNG.normal(size=N)
TABLE["w"] = 300.0 * RNG.normal(size=N) + 500.0
TABLE["b"] = (TABLE["y"] > 0).astype(int)
TABLE["k"] = RNG.poisson(np.exp(0.3 * TABLE["x"]))
TABLE["apart"] = (TABLE["x"] > 0).astype(int)


def fitted(formula: str, method: str = "auto", **settings) -> pr.Fit:
    return pr.fit(pr.Model.from_formula(formula, TABLE, **settings), method)


def told(fit: pr.Fit, effects=None, data=None) -> list[str]:
    return [e.sentence for e in answer(fit, effects, data=data, prob=0.9).effects]


def test_effects_are_exponents_of_multiples_of_coefficients():
    for formula, likelihood in (("b ~ x + z", "bernoulli"), ("k ~ x + z", "poisson")):
        fit = fitted(formula, likelihood=likelihood)
        (found,) = answer(fit, {"x": -2}, data=None, prob=0.9).effects
        ends = fit.interval(0.9).sel(coef="x")
        expected = np.exp(
            [-2.0 * v for v in (fit.coef.sel(coef="x"), ends["upper"], ends["lower"])]
        )
        # x - 2 - x is -2 to rounding
        np.testing.assert_allclose(found[3:6], expected, rtol=1e-10)
        assert found.sentence.startswith("x 2 lower: the ")
        assert "times as large (90 % Wald interval" in found.sentence


def test_a_contrast_of_several_columns_is_that_of_a_hypothesis():
    fit = fitted("b ~ g + x", likelihood="bernoulli")
    (found,) = answer(fit, {"g": ("b", "c")}, data=None, prob=0.95).effects
    row = pr.hypothesis(fit, "g[T.c] - g[T.b] = 0").estimates.iloc[0]
    np.testing.assert_allclose(
        np.log(found[3:6]), [row["estimate"], row["lower"], row["upper"]], rtol=1e-8
    )
    exact = fitted("y ~ g + x", "conjugate", prior=pr.Normal(1.0, sigma_units=True))
    (one,) = answer(exact, {"g": ("b", "c")}, data=None, prob=0.95).effects
    same = pr.comparisons(exact, {"g": ("b", "c")}).table.iloc[0]
    np.testing.assert_allclose(
        one[3:6], same[["estimate", "lower", "upper"]].astype(float), rtol=1e-8
    )
    draws = exact.tree["posterior"]["g"]
    share = float((draws.sel(g_dim="c") > draws.sel(g_dim="b")).mean())
    # three Monte Carlo errors of 4,000 draws are 0.024
    assert one.above == pytest.approx(share, abs=0.03)


def test_contrasts_beside_random_effects_have_the_degrees_of_freedom_of_hypothesis():
    rng = np.random.default_rng(0)
    g = np.repeat(np.arange(6), 4)
    data = {"g": g, "h": np.array(list("abc"))[g % 3], "y": rng.normal(size=24)}
    data["y"] += rng.normal(size=6)[g]
    fit = pr.fit(pr.Model.from_formula("y ~ h + (1 | g)", data))
    (found,) = answer(fit, {"h": ("b", "c")}, data=None, prob=0.95).effects
    row = pr.hypothesis(fit, "h[T.c] - h[T.b] = 0").estimates.iloc[0]
    # a quantile of t with fewer than four degrees of freedom
    assert row["upper"] - row["estimate"] > 2.7 * row["std_error"]
    np.testing.assert_allclose(
        found[3:6], [row["estimate"], row["lower"], row["upper"]], rtol=1e-9
    )


@pytest.mark.parametrize("effects", [{"x": 1.0}, {"g": ("b", "c")}])
def test_a_posterior_by_formula_has_the_interval_and_probability_of_hypothesis(effects):
    fit = fitted("y ~ g + x", "quadrature", prior=pr.Normal(1.0))
    (found,) = answer(fit, effects, data=None, prob=0.95).effects
    combination = "x" if "x" in effects else "g[T.c] - g[T.b]"
    exact = pr.hypothesis(fit, f"{combination} > 0")
    row = exact.estimates.iloc[0]
    # bounds of rounding; shares of 4,000 draws have errors of 0.008
    np.testing.assert_allclose(
        found[3:6], row[["estimate", "lower", "upper"]].astype(float), rtol=1e-8
    )
    assert found.above == pytest.approx(exact.beliefs[0].value, rel=1e-12)
    if "x" in effects:
        assert found.above == pytest.approx(fit.summary().loc["x", "p_positive"])


@pytest.mark.parametrize(
    "formula", ["y ~ x * z", "y ~ x + I(x ** 2)", "b ~ x * z", "k ~ x * z"]
)
def test_what_is_not_the_same_everywhere_is_averaged(formula):
    likelihood = {"b": "bernoulli", "k": "poisson", "y": "gaussian"}[formula[0]]
    fit = fitted(formula, likelihood=likelihood)
    (found,) = answer(fit, {"x": 1.0}, data=None, prob=0.95).effects
    measure = "ratio" if likelihood == "poisson" else "difference"
    row = pr.comparisons(fit, {"x": 1.0}, measure=measure).table.iloc[0]
    assert found[3:6] == (row["estimate"], row["lower"], row["upper"])
    assert "averaged over 60 rows" in found.sentence
    assert told(fit)[0].startswith("x from ")  # unasked: between the quartiles


def test_a_transformed_number_moves_between_its_quartiles_as_a_ratio_of_odds():
    fit = fitted("b ~ log(w ** 2) + x", likelihood="bernoulli")
    found = answer(fit, None, data=None, prob=0.9).effects[0]
    low, high = np.log(np.quantile(TABLE["w"], [0.25, 0.75]) ** 2)
    slope = fit.coef.sel(coef="log(w ** 2)").item()
    assert found.move.startswith("w from ")
    assert found.ratio
    assert found.estimate == pytest.approx(np.exp(slope * (high - low)), rel=1e-9)


def test_what_has_no_estimate_or_no_interval_says_so():
    lost = told(fitted("apart ~ x + z", likelihood="bernoulli"))
    assert (
        lost[0]
        == "x 1 higher: no estimate exists; the likelihood has no maximum (separation)."
    )
    both = fitted("y ~ x + I(2 * x) + z")
    assert [s.partition(":")[0] for s in told(both)] == [
        "x 1 higher",
        "z 1 higher",
    ]  # the sum of both is estimated
    twice = pr.Model.from_arrays(
        TABLE[["x", "x", "z"]].to_numpy(),
        TABLE["y"].to_numpy(),
        columns=["p", "q", "z"],
    )
    assert (
        told(pr.fit(twice))[0]
        == "p 1 higher: no estimate exists; its columns are collinear with others."
    )
    assert "(no interval)" in told(fitted("y ~ x", prior=pr.Laplace(0.05)))[0]
    # the model keeps what its formula read
    (kept,) = answer(fitted("y ~ log(w ** 2)"), None, data=None, prob=0.9).effects
    assert kept.move.startswith("w from ")
    with pytest.raises(pr.DataError, match="no variable of this model"):
        told(fitted("y ~ x"), {"temperature": 1})


def test_steps_are_plain_and_said():
    assert [s.partition(":")[0] for s in told(fitted("y ~ x + w + g + b"))] == [
        "x 1 higher",
        f"w {TABLE['w'].std():.4g} higher (one sd)",
        "g b against a",
        "g c against a",
        "b 1 against 0",
    ]


def test_a_fit_without_its_rows_has_a_remark(tmp_path):
    fit = fitted("y ~ x * z + g")
    loaded = pr.load_fit(fit.save(tmp_path / "fit.nc"))
    found = answer(loaded, None, data=None, prob=0.9)
    assert found.effects == []
    assert "No effects" in found.remarks[0]


@pytest.mark.parametrize(
    ("likelihood", "what"),
    [("quantile", "the 0.5 quantile of y"), ("student", "the centre of y"), ("absolute", "the median of y"),
     ("gaussian", "the mean of y"), ("categorical", "the odds of b against a")],
)  # fmt: skip
def test_sentences_name_the_modelled_quantity(likelihood, what):
    fit = fitted(
        "g ~ x" if likelihood == "categorical" else "y ~ x", likelihood=likelihood
    )
    assert f": {what} " in told(fit)[0]


def _told_of(fit: pr.Fit) -> list:
    """The effects of x1 moved by 2: 2 beta of each outcome, or for links of a probability without ratios its average change."""
    found = answer(fit, {"x1": 2.0}, data=None, prob=0.9).effects
    z = [np.log(e.estimate) if e.ratio else e.estimate for e in found]
    expected = 2.0 * np.atleast_1d(fit.coef.sel(coef="x1"))
    likelihood = fit.model.likelihood
    if likelihood.link in ("probit", "cloglog") and likelihood.has_scalar_mean:
        expected = pr.comparisons(fit, {"x1": 2.0}).table["estimate"]
    np.testing.assert_allclose(z, expected, rtol=1e-9)
    for e in found:
        assert "nan" not in e.sentence
    return found


@pytest.mark.parametrize("likelihood", LIKELIHOOD_CASES, ids=repr)
def test_every_likelihood_is_told(likelihood):
    for e in _told_of(pr.fit(model_for(likelihood, pr.Normal(2.0)))):
        assert e.lower < e.estimate < e.upper


@pytest.mark.parametrize("method", ESTIMATORS, ids=lambda m: m.name)
def test_every_method_is_told(method):
    tried = (
        model_for(pr.Gaussian(), prior)
        for prior in (None, pr.Normal(1.0), pr.Laplace(1.0))
    )
    model = next((m for m in tried if method.obstacle(m) is None), None)
    if model is None:
        pytest.skip(f"{method.name} fits none of these models")
    fit = pr.fit(model, method, seed=1)
    (found,) = _told_of(fit)
    assert ("P(above" in found.sentence) == (fit.target == "posterior")
    assert ("(no interval" in found.sentence) == (
        not np.isfinite(fit.std_error.sel(coef="x1"))
    )


def test_priors_stand_as_they_were_stated():
    model = pr.Model.from_formula("y ~ x + z + w + g", TABLE)
    many = model.with_prior(pr.Normal(1.0, scaled=True, sigma_units=True))
    assert prior_line(many) == "Normal(1) in units of sigma on 5 standardised columns"
    each = model.with_prior(
        {"x": pr.Normal(1.0, scaled=True), ("z", "w"): pr.priors.StudentT(2.5, nu=7.0)}
    )
    said = "Normal(1) in units of sd(y) on standardised x; StudentT(2.5, nu=7) on z, w"
    assert prior_line(each) == said


def test_every_page_says_a_prior_in_the_same_words():
    model = pr.Model.from_formula("y ~ x + z", TABLE, prior=pr.Normal(1.0, scaled=True))
    said = "Normal(1) in units of sd(y) on standardised x, z"
    fit = pr.fit(model)
    assert f"prior: {said}" in repr(fit)
    assert (
        f"prior {said}"
        in unfolded(
            pr.compare({"ML": pr.fit(model.with_prior(pr.Flat())), "mode": fit})
        )[3]
    )
    assert any(f"prior {said}." in note for note in pr.table({"mode": fit}).notes)
    assert prior_line(model) == f"{said}"


def render(fits, **settings) -> str:
    with tempfile.TemporaryDirectory() as folder:
        return pr.report(fits, f"{folder}/page.html", **settings).read_text("utf-8")


# ---- the page ----------------------------------------------------------------------------------------------------------


@pytest.fixture(scope="module")
def logit() -> pr.Fit:
    return fitted("b ~ x + z", likelihood="bernoulli")


def test_sections_are_those_asked_for_in_their_order(logit):
    page = render(logit, sections=["versions", "answer"])
    assert re.findall(r'<section id="(\w+)">', page) == ["versions", "answer"]
    for wrong, why in (
        (["summary"], "sections are among"),
        (["predictions"], "needs rows"),
    ):
        with pytest.raises(pr.DataError, match=why):
            render(logit, sections=wrong)


@pytest.mark.slow
def test_no_column_is_empty(logit):
    # whose estimates have no errors
    lost = fitted("apart ~ x + z", likelihood="bernoulli")
    for fits in (
        logit,
        lost,
        {
            "ML": logit,
            "mode": fitted("b ~ x + z", likelihood="bernoulli", prior=pr.Normal(1.0)),
        },
    ):
        page = render(
            fits,
            sections=["answer", "predictions", "comparison"],
            predict={"one": {"x": 0.5, "z": 9.0}},
        )
        for table in re.findall(r"<tbody>(.*?)</tbody>", page, re.DOTALL):
            rows = [
                re.findall(r"<t[dh][^>]*>(.*?)</t[dh]>", row)
                for row in re.findall(r"<tr>(.*?)</tr>", table)
            ]
            assert rows
            assert all(any(column) for column in zip(*rows, strict=True))


def test_the_users_words_are_text_in_paragraphs(logit):
    page = render(
        logit,
        sections="versions",
        title="<i>t</i>",
        text="One <b>bold</b> & more.\n\nTwo.",
    )
    found = read(page)
    assert "b" not in found.tags
    assert found.tags.count("p") == 4
    assert "<p>Two.</p>" in page
    assert "One <b>bold</b> & more." in found.text


def test_rows_are_predicted_by_name_and_strangers_are_named(logit):
    rows = {"far": {"x": 50.0, "z": 0.0}, "near": {"x": 0.0, "z": 0.0}}
    found = predictions_table({"ML": logit}, rows, 0.9)
    frame = found.table.to_pandas()
    assert [*frame.index] == ["far", "near"]
    assert [*frame] == ["mean", "mean lower", "mean upper"]
    assert found.table.cells[0][1] == ">0.999"
    assert [r.partition(":")[0] for r in found.remarks] == ["far"]
    mean = float(logit.predict({"x": [0.0], "z": [0.0]})["mean"][0])
    assert found.table.cells[1][1] == f"{mean:.3f}"
    assert (
        predictions_table(
            {"ML": logit}, pd.DataFrame({"x": [1.0], "z": [2.0]}, index=["k"]), 0.9
        ).rows[0][0]
        == "k"
    )
    with pytest.raises(pr.DataError, match="'z'"):
        predictions_table({"ML": logit}, {"far": rows["far"], "near": {"x": 0.0}}, 0.9)


def test_equal_findings_of_several_fits_are_one_with_the_worst_first():
    passed = Finding("rank", Verdict.OK, "full rank")
    note = Finding("scale", Verdict.NOTE, "units differ")
    warning = Finding("separation", Verdict.WARNING, "x separates")
    fits = {"A": [passed, note, warning], "B": [passed, warning], "C": [passed, note]}
    shared = findings(fits, lambda found: found)
    assert shared.attention == [("A, B", warning), ("A, C", note)]
    assert shared.passed == [("", passed)]


def test_an_offset_has_a_known_effect(tmp_path):
    data = {"x": [0.0, 1.0, 2.0, 3.0], "y": [0.0, 1.0, 3.0, 2.0]}
    model = pr.Model.from_formula("y ~ offset(0.5 * x)", data)
    page = pr.report(pr.fit(model, "posterior"), tmp_path / "page.html")
    assert "P(above 0) &gt;0.999" in page.read_text()
