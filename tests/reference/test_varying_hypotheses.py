"""Hypotheses of scales against numbers, and t intervals of effects of REML, on sleepstudy."""

import numpy as np
import pytest

import probreg as pr
from probreg.errors import DataError, Incompatible

SLEEP = pr.load_dataset("sleepstudy")
COR = "cor(Intercept, days | subject) = 0"


@pytest.fixture(scope="module")
def model():
    return pr.Model.from_formula("reaction ~ days + (days | subject)", SLEEP)


@pytest.fixture(scope="module")
def reml(model):
    return pr.fit(model)


@pytest.mark.parametrize("criterion", ["ML", "REML"])
def test_a_correlation_of_zero_has_the_ratio_of_two_fits(model, criterion):
    # anova(m1, m0) of lme4 by ML: 0.0639, 1 df, 0.8004
    alone = pr.Model.from_formula("reaction ~ days + (days || subject)", SLEEP)
    both = [pr.fit(m, pr.Evidence(criterion=criterion)) for m in (model, alone)]
    ratio = 2.0 * np.subtract(*(f.solution.effect_scales.value for f in both))
    test = pr.hypothesis(both[0], COR)["RLRT" if criterion == "REML" else "LR"]
    assert test.statistic == pytest.approx(ratio, rel=1e-5)
    assert test.df == (1.0,)
    if criterion == "ML":
        assert (test.statistic, test.p) == pytest.approx((0.0639, 0.8004), abs=6e-5)


@pytest.mark.slow
def test_an_end_of_the_profile_has_the_p_of_its_level(reml):
    lower, _ = reml.aux_interval("sd(days | subject)", 0.9)
    assert pr.hypothesis(reml, f"sd(days | subject) = {lower!r}")[
        "RLRT"
    ].p == pytest.approx(0.1, abs=1e-6)
    _, upper = reml.aux_interval("sigma", 0.9)
    assert pr.hypothesis(reml, f"sigma = {upper!r}")["RLRT"].p == pytest.approx(
        0.1, abs=1e-6
    )


def test_a_posterior_has_the_probability_of_an_inequality(model):
    prior = {"days | subject": pr.Covariance(sd=pr.HalfNormal(50.0), cor=pr.LKJ(2.0))}
    fit = pr.fit(model.with_prior(prior), "posterior")
    draws = fit.solution.posterior["sd(days | subject)"]
    found = pr.hypothesis(fit, "sd(days|subject) > 6").beliefs[0]
    assert found.value == (draws > 6).mean()
    with pytest.raises(Incompatible, match="probability zero"):
        pr.hypothesis(fit, COR)


@pytest.mark.parametrize(
    ("text", "error", "why"),
    [
        ("sd(days | subject) > 3", Incompatible, "likelihood ratio tests an equality"),
        ("sd(x | subject) = 3", DataError, r"has no sd\(x"),
        ("cor(Intercept, days | subject) = 1", Incompatible, "between -1 and 1"),
        ("sigma = -1", Incompatible, "is positive"),
    ],
)
def test_what_has_no_test_is_refused_with_its_reason(reml, text, error, why):
    with pytest.raises(error, match=why):
        pr.hypothesis(reml, text)


def test_a_line_of_least_squares_has_no_such_test():
    line = pr.fit(pr.Model.from_formula("reaction ~ days", SLEEP))
    with pytest.raises(Incompatible, match="scales found by evidence"):
        pr.hypothesis(line, "sigma = 25")


def test_degrees_of_freedom_of_sampled_rows_are_those_of_a_sum_of_variances():
    """(V + W)^2 / (V^2 / df + W^2 / (G - 1)), W of the sample of G subjects."""
    days = np.asarray(SLEEP["days"])
    subjects = np.asarray(SLEEP["subject"])
    rows = (days < 5) | (subjects > np.median(subjects))
    table = {name: np.asarray(SLEEP[name])[rows] for name in SLEEP}
    fit = pr.fit(pr.Model.from_formula("reaction ~ days + (1 | subject)", table))
    fixed = pr.predictions(fit, average_over="sample")
    sampled = pr.predictions(fit, average_over="population")
    V = fixed.covariance.item()
    W = sampled.covariance.item() - V
    assert W > 0.1 * V
    df, df_sampled = (effects.law.df_of(np.eye(1))[0] for effects in (fixed, sampled))
    expected = (V + W) ** 2 / (V**2 / df + W**2 / 17.0)
    assert df_sampled == pytest.approx(expected, rel=1e-9)


def test_a_ratio_of_means_of_reml_has_a_normal_law(reml):
    assert pr.comparisons(reml, "days", measure="ratio").law.df_of(np.eye(1)) is None


def test_effects_of_reml_have_satterthwaites_t(reml):
    slope, row = pr.slopes(reml), reml.summary().loc["days"]
    assert slope.table[["lower", "upper"]].to_numpy()[0] == pytest.approx(
        row[["lower", "upper"]].to_numpy(float)
    )
    assert "Satterthwaite's 17 degrees of freedom" in slope.kind
    # a mean that the effects of groups are in is no combination of flat coefficients alone
    assert "normal" in pr.predictions(reml, groups="known").kind
    assert (
        "normal"
        in pr.slopes(pr.fit(reml.stated_model, pr.Evidence(criterion="ML"))).kind
    )
