"""Likelihood ratio tests of nested fits, against published deviances, the tests of single parameters and simulation."""

import numpy as np
import pytest
from scipy.stats import chi2

import probreg as pr
from probreg.errors import Incompatible

DATA = pr.load_dataset("sleepstudy")
ML = pr.Evidence(criterion="ML")


def fitted(right, method=ML):
    return pr.fit(pr.Model.from_formula(f"reaction ~ {right}", DATA), method)


@pytest.fixture(scope="module")
def fits():
    return {
        "full": fitted("days + (days | subject)"),
        "apart": fitted("days + (days || subject)"),
        "one": fitted("days + (1 | subject)"),
        "line": fitted("days", "auto"),
    }


def test_sleepstudy_has_the_published_ratios(fits):
    tests = pr.compare_models(fits, test="lr").tests.set_index("fit")
    # deviances 1751.939344 and 1752.003255: MixedModels.jl test/pls.jl
    assert tests.loc["full", "statistic"] == pytest.approx(0.063911, abs=2e-6)
    assert tests.loc["full", ["against", "df"]].tolist() == ["apart", 1]
    assert (
        tests.loc["full", "p"]
        == tests.loc["full", "p_chi2"]
        == pytest.approx(0.8004, abs=5e-5)
    )
    both = pr.compare_models({"one": fits["one"], "full": fits["full"]}, test="lr")
    row = both.tests.iloc[0]
    # lme4's anova has 42.139, 2 degrees of freedom and 7.072e-10
    assert row["statistic"] == pytest.approx(42.139, abs=5e-4)
    assert row["p_chi2"] == pytest.approx(7.072e-10, rel=1e-3)
    assert row["p"] == pytest.approx(
        0.5 * (chi2.sf(row["statistic"], 1) + chi2.sf(row["statistic"], 2)), rel=1e-12
    )
    assert any("at the edge" in note for note in both.notes)
    assert "likelihood ratio of full against one: 42.139, df 2" in str(both)
    assert "likelihood ratio" not in str(
        pr.compare_models({"one": fits["one"], "full": fits["full"]})
    )


def test_one_standard_deviation_is_the_hypothesis_that_it_is_zero(fits):
    found = pr.compare_models(fits, test="lr").tests.set_index("fit")
    alone = pr.hypothesis(fits["one"], "sd(Intercept | subject) = 0")["LR"]
    assert found.loc["one", ["statistic", "p"]].tolist() == pytest.approx(
        [alone.statistic, alone.p], rel=1e-6
    )
    slope = pr.hypothesis(fits["full"], "sd(days | subject) = 0")["LR"]
    both = pr.compare_models(
        {"one": fits["one"], "full": fits["full"]}, test="lr"
    ).tests.iloc[0]
    assert both[["statistic", "p"]].tolist() == pytest.approx(
        [slope.statistic, slope.p], rel=1e-5
    )


def test_columns_count_without_an_edge_and_several_scales_with_a_bound(fits):
    mean = fitted("1 + (1 | subject)")
    row = pr.compare_models({"mean": mean, "one": fits["one"]}, test="lr").tests.iloc[0]
    assert row["statistic"] == pytest.approx(
        2.0 * (fits["one"].log_likelihood - mean.log_likelihood), rel=1e-9
    )
    assert row["p"] == row["p_chi2"] == pytest.approx(chi2.sf(row["statistic"], 1))
    many = pr.compare_models({"line": fits["line"], "full": fits["full"]}, test="lr")
    assert many.tests.iloc[0]["df"] == 3
    assert many.tests.iloc[0]["p"] == many.tests.iloc[0]["p_chi2"]
    assert any("upper bound" in note for note in many.notes)


def test_restricted_likelihoods_of_the_same_columns_have_a_ratio():
    full, one = (
        fitted(f"days + ({left} | subject)", "evidence") for left in ("days", "1")
    )
    found = pr.compare_models({"full": full, "one": one}, test="lr")
    # REML criteria 1743.628 and 1786.465 of lme4
    assert found.tests.iloc[0]["statistic"] == pytest.approx(
        1786.465 - 1743.628, abs=2e-3
    )
    assert any("restricted" in note for note in found.notes)


@pytest.mark.parametrize(
    ("right", "method", "why"),
    [
        (
            "1 + (1 | subject)",
            "evidence",
            "differ in their criterion",
        ),
        (
            "log(days + 1) + (days | subject)",
            ML,
            "which is no combination of the other's",
        ),
        ("days + (0 + days | subject)", ML, "both have 4 parameters"),
        ("days", pr.Bootstrap("closed_form", reps=19), None),
        (
            "days + (0 + I(days ** 2) | subject) + I(days ** 2)",
            ML,
            r"Intercept of subject, correlated as there",
        ),
    ],
)
def test_what_is_not_nested_is_refused(fits, right, method, why):
    other = fitted(right, method)
    if why is None:  # an estimate of maximum likelihood all the same
        assert (
            len(
                pr.compare_models({"one": fits["one"], "other": other}, test="lr").tests
            )
            == 1
        )
        return
    with pytest.raises(Incompatible, match=why):
        pr.compare_models({"one": fits["one"], "other": other}, test="lr")


def test_a_prior_and_restricted_fits_of_other_columns_are_refused(fits):
    full, mean = (
        fitted("days + (1 | subject)", "evidence"),
        fitted("1 + (1 | subject)", "evidence"),
    )
    with pytest.raises(Incompatible, match="of other flat columns are of other data"):
        pr.compare_models({"full": full, "mean": mean}, test="lr")
    stated = pr.Model.from_formula(
        "reaction ~ days + (1 | subject)",
        DATA,
        prior={"1 | subject": pr.Covariance(sd=pr.HalfNormal(50.0))},
    )
    with pytest.raises(Incompatible, match="'stated' has no likelihood ratio"):
        pr.compare_models(
            {"stated": pr.fit(stated, ML), "line": fits["line"]}, test="lr"
        )
    half = stated.with_prior({"1 | subject": pr.Covariance(sd={"Intercept": 20.0})})
    with pytest.raises(Incompatible, match="'half' has no likelihood ratio"):
        pr.compare_models({"half": pr.fit(half, ML), "line": fits["line"]}, test="lr")


def test_what_differs_beside_the_columns_is_named(fits):
    curve = "reaction ~ days + I(days ** 2)"
    for more, why in (
        ({"offset": "days"}, "differ in their offset"),
        (
            {"likelihood": pr.StudentT(nu=4.0)},
            r"their likelihood, Gaussian\(\) and StudentT\(nu=4.0\)",
        ),
        (
            {"aux": {"sigma": 30.0}},
            "differ in their fixed parameters",
        ),
    ):
        other = pr.fit(pr.Model.from_formula(curve, DATA, **more))
        with pytest.raises(Incompatible, match=why):
            pr.compare_models({"line": fits["line"], "other": other}, test="lr")
    with pytest.raises(Incompatible, match="of two fits or more"):
        pr.compare_models({"line": fits["line"]}, test="lr")
    # effects that are correlated in the smaller model only
    pair = {
        "mean": fitted("1 + (days | subject)"),
        "curve": fitted("days + I(days ** 2) + (days || subject)"),
    }
    with pytest.raises(
        Incompatible,
        match="Intercept, days of subject, correlated as there, is not among",
    ):
        pr.compare_models(pair, test="lr")


def test_a_standard_deviation_of_zero_is_no_evidence_and_is_said_where_it_is_tested_against():
    rng = np.random.default_rng(0)
    data = {
        "y": np.tile(rng.normal(size=10), 6),
        "x": rng.normal(size=60),
        "g": np.repeat(list("abcdef"), 10),
    }
    fits = {
        right: pr.fit(pr.Model.from_formula(f"y ~ {right}", data), how)
        for right, how in (("1", "auto"), ("(1 | g)", ML), ("x + (1 | g)", ML))
    }
    found = pr.compare_models(fits, test="lr")
    assert found.tests["p"].tolist() == pytest.approx(
        [1.0, chi2.sf(found.tests.iloc[1]["statistic"], 1)]
    )
    assert any(
        note.startswith("(1 | g) has a standard deviation estimated as zero")
        for note in found.notes
    )
    without = pr.compare_models(
        {right: fits[right] for right in ("1", "(1 | g)")}, test="lr"
    )
    assert not any("estimated as zero" in note for note in without.notes)


@pytest.mark.slow
def test_chances_by_group_stand_beside_those_without():
    rng = np.random.default_rng(3)
    g = np.repeat(np.arange(12), 8)
    data = {
        "k": (rng.random(96) < 1 / (1 + np.exp(-rng.normal(size=12)[g]))).astype(int),
        "g": g.astype(str),
    }
    fits = {
        name: pr.fit(
            pr.Model.from_formula(f"k ~ {right}", data, likelihood="bernoulli"), method
        )
        for name, right, method in (("groups", "(1 | g)", ML), ("one", "1", "auto"))
    }
    found = pr.compare_models(fits, test="lr")
    alone = pr.hypothesis(fits["groups"], "sd(Intercept | g) = 0")["LR"]
    assert found.tests.iloc[0][["statistic", "p"]].tolist() == pytest.approx(
        [alone.statistic, alone.p], rel=1e-6
    )
    assert any("Laplace" in note for note in found.notes)
    five = pr.fit(
        pr.Model.from_formula("k ~ (1 | g)", data, likelihood="bernoulli"),
        pr.Evidence(criterion="ML", points=5),
    )
    with pytest.raises(Incompatible, match="differ in their points of quadrature"):
        pr.compare_models({"groups": fits["groups"], "five": five}, test="lr")
    assert any(
        "by 5 points" in n
        for n in pr.compare_models({"one": fits["one"], "five": five}, test="lr").notes
    )


@pytest.mark.parametrize("right", ["x", "0 + g"])
def test_a_formula_of_sigma_is_compared_with_a_constant_sigma(right):
    rng = np.random.default_rng(3)
    x = rng.normal(size=120)
    g = np.where(rng.random(120) < 0.5, "a", "b")
    data = {"x": x, "g": g, "y": x + rng.normal(size=120) * np.exp(0.3 * (g == "a"))}
    constant = pr.fit(pr.Model.from_formula("y ~ x", data))
    formulas = {"y": "y ~ x", "log sigma": f"~ {right}"}
    varying = pr.fit(pr.Model.from_formula(formulas, data))
    row = pr.compare_models({"a": constant, "b": varying}, test="lr").tests.iloc[0]
    assert row["df"] == 1
    assert row["statistic"] == pytest.approx(
        2.0 * (varying.log_likelihood - constant.log_likelihood), rel=1e-9
    )


def test_a_mean_is_not_nested_in_the_columns_of_sigma():
    rng = np.random.default_rng(3)
    data = {name: rng.normal(size=50) for name in "xyz"}
    small = pr.fit(pr.Model.from_formula("y ~ x", data))
    formulas = {"y": "y ~ 1", "log sigma": "~ x + z"}
    large = pr.fit(pr.Model.from_formula(formulas, data))
    with pytest.raises(Incompatible, match="x among its columns"):
        pr.compare_models({"small": small, "large": large}, test="lr")
    without_constant = {"y": "y ~ x + z", "log sigma": "~ 0 + z"}
    large = pr.fit(pr.Model.from_formula(without_constant, data))
    with pytest.raises(Incompatible, match="log sigma: Intercept among its columns"):
        pr.compare_models({"small": small, "large": large}, test="lr")
