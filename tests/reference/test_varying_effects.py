"""What fits of varying effects show, against lme4, lmerTest and MuMIn on sleepstudy and cbpp (published numbers)."""

from pathlib import Path

import numpy as np
import pandas as pd
import pytest
from scipy import stats

import probreg as pr
from probreg.errors import DataError, Incompatible
from probreg.inference.exact.evidence_problem import EvidenceProblem
from probreg.inference.uncertainty.found_scales import ScaleProfile

FOLDER = Path(__file__).resolve().parents[3] / "shared" / "references" / "multilevel"
pytestmark = pytest.mark.skipif(
    not FOLDER.exists(), reason="the reference data are not here"
)


@pytest.fixture(scope="module")
def sleep():
    return pr.Model.from_formula(
        "Reaction ~ Days + (Days || Subject)", pd.read_csv(FOLDER / "sleepstudy.csv")
    )


@pytest.fixture(scope="module")
def reml(sleep):
    return pr.fit(sleep)


@pytest.fixture(scope="module")
def ml(sleep):
    return pr.fit(sleep, pr.Evidence(criterion="ML"))


@pytest.fixture(scope="module")
def posterior(sleep):
    prior = pr.priors.Covariance(sd=pr.HalfNormal(50))
    return pr.fit(sleep.with_prior({"Days || Subject": prior}), "integrate")


def test_coefficients_are_the_flat_ones(reml):
    assert reml.parameter_names == ["Intercept", "Days"]
    assert reml.covariance().shape == (2, 2)
    assert list(reml.tidy()["term"]) == ["Intercept", "Days"]
    assert reml.interval().sizes == {"coef": 2}
    assert reml.tree["estimate"]["beta"].sizes == {"coef": 2}
    with pytest.raises(Incompatible, match="effects that vary by a group"):
        reml.spread(reml.covariance())


def test_scales_are_estimates_of_the_fit(ml):
    # MixedModels.jl test/pls.jl
    said = ml.solution.scalars
    assert list(said) == ["sd(Intercept | Subject)", "sd(Days | Subject)", "sigma"]
    assert [v for v, _ in said.values()] == pytest.approx(
        [24.171270, 5.799399, 25.556138], rel=3e-6
    )
    assert ml.std_error.values == pytest.approx([6.707647, 1.519311], rel=1e-5)
    assert -2.0 * ml.solution.effect_scales.value == pytest.approx(
        1752.0032551410, rel=1e-10
    )
    assert ml.aic == pytest.approx(1752.0032551410 + 2 * 5, rel=1e-9)
    assert ml.bic == pytest.approx(1752.0032551410 + 5 * np.log(180), rel=1e-9)
    assert ", fixed" not in str(ml)


def test_profile_intervals_of_ml(ml):
    # confint of lme4's fm2 in its help page
    wanted = {
        "sd(Intercept | Subject)": (15.258654, 37.786473), "sd(Days | Subject)": (3.964074, 8.769159), "sigma": (22.880555, 28.787598),
    }  # fmt: skip
    for name, ends in wanted.items():
        assert ml.aux_interval(name) == pytest.approx(ends, rel=1e-5)


@pytest.fixture(scope="module")
def correlated():
    return pr.fit(
        pr.Model.from_formula(
            "Reaction ~ Days + (Days | Subject)", pd.read_csv(FOLDER / "sleepstudy.csv")
        )
    )


def test_correlated_effects_by_reml(correlated):
    # lme4: REML criterion 1743.628, sd 24.741 and 5.922, cor 0.066, sigma 25.592; lmerTest: df 17.00, t 6.77
    assert -2.0 * correlated.solution.effect_scales.value == pytest.approx(
        1743.628, abs=1e-3
    )
    values = [v for v, _ in correlated.solution.scalars.values()]
    assert values == pytest.approx([24.741, 5.922, 0.0656, 25.592], abs=1e-3)
    table = correlated.summary()
    assert table.loc["Days", ["statistic", "df"]].tolist() == pytest.approx(
        [6.7715, 17.0], abs=1e-3
    )
    assert correlated.interval().attrs["kind"] == "t"
    found = pr.hypothesis(correlated, "Days = 0, Intercept = 250")
    assert found.tests["F"].df == pytest.approx((2, 17.0), abs=1e-3)
    with pytest.raises(Incompatible, match="kind profile and wald, not 'score'"):
        correlated.aux_interval("sigma", kind="score")


@pytest.mark.slow
def test_profile_intervals_of_correlated_effects(correlated):
    ml = pr.fit(correlated.solution.effect_scales.stated, pr.Evidence(criterion="ML"))
    # confint of lme4's fm1 in its help page
    wanted = {
        "sd(Intercept | Subject)": (14.381384, 37.716054), "sd(Days | Subject)": (3.8012, 8.7534),
        "cor(Intercept, Days | Subject)": (-0.4815, 0.6850), "sigma": (22.8983, 28.8580),
    }  # fmt: skip
    for name, ends in wanted.items():
        assert ml.aux_interval(name) == pytest.approx(ends, abs=2e-4)


def test_profile_ends_lie_where_the_criterion_has_fallen_by_half_a_square(reml):
    found, z = reml.solution.effect_scales, 1.959963984540054
    path = ScaleProfile(EvidenceProblem(found.stated, False), found, 1)
    for end in reml.aux_interval("sd(Days | Subject)"):
        assert 2.0 * (
            found.value - path.problem.maximise_given(1, np.log(end), [found.theta])[1]
        ) == pytest.approx(z**2, rel=1e-5)


def test_t_tests_of_reml_have_satterthwaites_df(reml):
    table = reml.summary()
    # lmerTest of the same model
    assert table["df"].iloc[:2].to_numpy() == pytest.approx([18.156, 18.156], abs=1e-3)
    assert table["statistic"].iloc[:2].to_numpy() == pytest.approx(
        [36.513, 6.712], abs=1e-3
    )
    assert "Satterthwaite's df" in str(table)


def test_r_squared_of_groups():
    # MuMIn's r.squaredGLMM and performance::icc of Reaction ~ Days + (1 | Subject)
    fit = pr.fit(
        pr.Model.from_formula(
            "Reaction ~ Days + (1 | Subject)", pd.read_csv(FOLDER / "sleepstudy.csv")
        )
    )
    row = fit.glance().iloc[0]
    assert [row["r2.marginal"], row["r2.conditional"], row["icc"]] == pytest.approx(
        [0.2798856, 0.7042555, 0.589309], abs=1e-6
    )
    assert row["REMLcrit"] == pytest.approx(1786.465, abs=1e-3)  # lme4
    with pytest.raises(Incompatible, match="REML compares only"):
        assert fit.aic


def test_effects_are_the_conditional_distribution(reml):
    table = reml.effects("Subject")
    assert len(table) == 36
    first = table.set_index(["group", "effect"]).loc["308"]
    # ranef of lme4's || model by REML
    assert first["estimate"].to_numpy() == pytest.approx([1.512664, 9.323497], abs=2e-4)
    sd = np.array([reml.hyper[f"sd({e} | Subject)"] for e in ("Intercept", "Days")])
    assert first["pooling"].to_numpy() == pytest.approx(
        np.square(first["sd"].to_numpy() / sd), rel=1e-12
    )
    assert reml.tree["estimate"]["effects[Subject]"].sizes == {
        "Subject": 18,
        "effect": 2,
    }
    with pytest.raises(DataError, match="expected one of 'Subject'"):
        reml.effects("Days")


def test_effects_of_a_posterior_stand_over_groups_and_effects(posterior):
    drawn = posterior.tree["posterior"]["effects[Subject]"]
    assert drawn.dims == ("chain", "draw", "Subject", "effect")
    table = posterior.effects()
    assert drawn.mean(("chain", "draw")).values.ravel() == pytest.approx(
        table["estimate"].to_numpy(), abs=1.0
    )
    assert table["pooling"].between(0.0, 1.0).all()
    assert list(posterior.hyper) == ["sd(Intercept | Subject)", "sd(Days | Subject)"]


def test_the_scales_come_back_from_a_file(reml, tmp_path):
    again = pr.load_fit(reml.save(tmp_path / "reml.nc"))
    assert again.solution.hyper == reml.solution.hyper
    assert again.aux_interval("sd(Days | Subject)") == pytest.approx(
        reml.aux_interval("sd(Days | Subject)"), rel=1e-8
    )
    assert again.effects().equals(reml.effects())
    whole = pr.load_fit(reml.save(tmp_path / "rows.nc", rows=True))
    assert whole.glance().equals(reml.glance())


def test_comparisons_name_why_ml_reml_and_a_posterior_differ(ml, reml, posterior):
    found = pr.compare({"ML": ml, "REML": reml, "posterior": posterior})
    assert list(found.data["param"].values) == [
        "Intercept",
        "Days",
        "sd(Intercept | Subject)",
        "sd(Days | Subject)",
        "sigma",
    ]
    of = found.causes.set_index(["param", "fit"])["cause"]
    assert list(of.loc[("Days", "REML")]) == [
        "degrees of freedom of the mean",
        "kind of interval",
    ]
    assert list(of.loc[("Days", "posterior")]) == [
        "uncertainty of the standard deviations",
        "prior of the standard deviations",
        "degrees of freedom of the mean",
    ]
    assert ", fixed" not in str(found)
    told = pr.compare({"REML": reml, "posterior": posterior}, apart=0.05)
    assert list(told.causes.query("param == 'Days'")["cause"])[:2] == [
        "uncertainty of the standard deviations", "prior of the standard deviations",
    ]  # fmt: skip
    assert pr.explain(ml, reml).largest("Days") == "degrees of freedom of the mean"


def test_binomial_with_groups_has_wald_tests_and_latent_shares():
    herds = pd.read_csv(FOLDER / "cbpp.csv")
    model = pr.Model.from_formula(
        "p(incidence, size) ~ C(period) + (1 | herd)", herds, likelihood="binomial"
    )
    fit = pr.fit(model, pr.Evidence(criterion="ML"))
    assert fit.solution.effect_scales.value == pytest.approx(-92.02628187, rel=1e-6)
    assert fit.hyper["sd(Intercept | herd)"] == pytest.approx(0.6422, abs=1e-4)
    assert fit.aic == pytest.approx(194.0526, abs=1e-3)  # lme4: AIC 194.1
    assert "z" in fit.summary().attrs["statistic"]
    assert fit.glance()["icc"].iloc[0] == pytest.approx(
        0.6422**2 / (0.6422**2 + np.pi**2 / 3), rel=1e-3
    )


def test_models_by_ml_are_compared_by_the_criteria_that_lme4_prints():
    table = pd.read_csv(FOLDER / "sleepstudy.csv")
    fits = {
        name: pr.fit(
            pr.Model.from_formula(f"Reaction ~ Days + ({name} | Subject)", table),
            pr.Evidence(criterion="ML"),
        )
        for name in ("1", "Days")
    }
    found = pr.compare_models(fits).table
    # lme4's anova of both: AIC 1802.1 and 1763.9, BIC 1814.8 and 1783.1, log L -897.04 and -875.97
    np.testing.assert_allclose(
        found.loc[["1", "Days"], "AIC"], [1802.0786, 1763.9393], atol=1e-3
    )
    np.testing.assert_allclose(
        found.loc[["1", "Days"], "BIC"], [1814.8505, 1783.0971], atol=1e-3
    )
    np.testing.assert_allclose(
        found.loc[["1", "Days"], "log_lik"], [-897.0393, -875.9697], atol=1e-4
    )


def test_the_intraclass_correlation_of_known_variances_has_their_mean():
    variance = np.array([225.0, 100.0, 256.0, 121.0])
    data = {"y": [28.0, 8.0, -3.0, 7.0], "g": list("abcd")}
    model = pr.Model.from_formula(
        "y ~ 1 + (1 | g)", data, weights=pr.weights.precision(1 / variance), aux={"sigma": 1.0},
        prior={"1 | g": pr.Covariance(sd=pr.HalfNormal(10.0))},
    )  # fmt: skip
    fit = pr.fit(model, "integrate", seed=1)
    draws = fit.tree["posterior"]["sd(Intercept | g)"].values
    share = (draws**2).mean() / ((draws**2).mean() + variance.mean())
    assert fit.glance()["icc"].item() == pytest.approx(share)


def test_the_intraclass_correlation_of_a_posterior_has_mean_variances():
    rng = np.random.default_rng(0)
    data = {"y": np.repeat(rng.normal(size=5), 3) + rng.normal(size=15)}
    data["g"] = np.repeat(list("abcde"), 3)
    model = pr.Model.from_formula(
        "y ~ 1 + (1 | g)", data, aux={"sigma": pr.HalfNormal(2.0)},
        prior={"1 | g": pr.Covariance(sd=pr.HalfNormal(2.0))},
    )  # fmt: skip
    fit = pr.fit(model, "integrate", seed=1)
    drawn = fit.tree["posterior"]
    groups, rest = [
        float((drawn[name] ** 2).mean()) for name in ("sd(Intercept | g)", "sigma")
    ]
    assert fit.glance()["icc"].item() == pytest.approx(groups / (groups + rest))


def test_a_singular_fit_has_an_intraclass_correlation_of_zero():
    data = {"y": [1.0, 2.0, 1.0, 2.0, 1.0, 2.0], "g": list("aabbcc")}
    fit = pr.fit(pr.Model.from_formula("y ~ 1 + (1 | g)", data))
    assert fit.glance()["icc"].item() == 0.0
    assert "singular fit: the variance of Intercept | g is 0" in fit.described["notes"]


def test_a_likelihood_by_quadrature_says_so_after_loading_too(tmp_path):
    data = pd.read_csv(FOLDER / "cbpp.csv", dtype={"herd": str, "period": str})
    model = pr.Model.from_formula(
        "p(incidence, size) ~ 1 + (1 | herd)", data, likelihood="binomial"
    )
    fit = pr.fit(model, pr.Evidence(criterion="ML", points=9))
    assert "9 points of adaptive quadrature" in repr(fit)
    assert "R² marginal 0," in repr(fit)  # an intercept alone
    fit.save(tmp_path / "fit")
    assert pr.load_fit(tmp_path / "fit").solution.effect_scales.points == 9


def test_fits_with_other_effects_by_group_are_told_so(sleep):
    other = pr.Model.from_formula(
        "Reaction ~ Days + (1 | Subject)", pd.read_csv(FOLDER / "sleepstudy.csv")
    )
    text = " ".join(repr(pr.compare({"slopes": pr.fit(sleep), "levels": pr.fit(other)})).split())  # fmt: skip
    assert "effects by group: (Days || Subject) only in slopes" in text
    assert "sd(Days | Subject) not estimated in levels" in text


# R 4.2.2: lme4 1.1-31 and clubSandwich 0.5.8, vcovCR(lmer(y ~ x + (1 | g)), cluster, type)
CLUSTERED = {
    "x": [1, 2, 3, 4, 1, 2, 3, 5, 2, 3, 4, 6, 1, 3, 4, 5, 2, 4, 5, 6, 1, 2, 5, 6],
    "y": [
        *(3.1, 3.9, 5.2, 6.1, 1.0, 2.6, 2.7, 5.5, 4.9, 5.1, 6.9, 8.4),
        *(2.2, 3.1, 5.0, 4.9, 3.0, 6.2, 6.1, 8.3, 1.7, 2.1, 4.0, 6.5),
    ],
    "g": np.repeat(list("abcdef"), 4),
    "s": np.repeat(list("pqr"), 8),
    "half": np.tile(list("uv"), 12),
}


@pytest.mark.parametrize(
    ("groups", "small_sample", "errors"),
    [
        ("g", "none", [0.3729089889258, 0.0634518840975]),
        ("g", "groups", [0.4085013302623, 0.0695080564728]),
        ("g", "full", [0.417682281764, 0.071070230322]),
        ("s", "none", [0.2955936245324, 0.0414844564044]),
    ],
)
def test_clusters_of_whole_groups(groups, small_sample, errors):
    fit = pr.fit(pr.Model.from_formula("y ~ x + (1 | g)", CLUSTERED))
    given = {"groups": groups, "data": CLUSTERED, "small_sample": small_sample}
    found = fit.covariance("cluster", **given)
    np.testing.assert_allclose(np.sqrt(np.diagonal(found)), errors, rtol=2e-6)
    table = fit.summary(covariance=found)
    assert (table.attrs["kind"], table.attrs["df"]) == ("t", found.attrs["df"])
    half = stats.t.ppf(0.975, found.attrs["df"]) * table.std_error["x"]
    assert table.upper["x"] == pytest.approx(table.estimate["x"] + half, rel=1e-9)


def test_effects_given_the_coefficients_keep_their_distribution():
    """(beta, b) with the covariance of beta replaced: V + C (S - V_bb) C', C the slopes of the mean of (beta, b) over beta."""
    fit = pr.fit(pr.Model.from_formula("y ~ x + (1 | g)", CLUSTERED))
    S = fit.covariance("cluster", groups="g", data=CLUSTERED).values
    V = fit.spread("conditional").matrix.matrix()
    found = fit.spread("cluster", groups="g", data=CLUSTERED)
    C = V[:, :2] @ np.linalg.inv(V[:2, :2])
    expected = V + C @ (S - V[:2, :2]) @ C.T
    np.testing.assert_allclose(found.matrix.matrix(), expected, rtol=1e-8)


def test_sandwiches_of_independent_rows_are_refused_beside_effects():
    fit = pr.fit(pr.Model.from_formula("y ~ x + (1 | g)", CLUSTERED))
    for kind in ("HC0", "HC3", "HAC", "sampling"):
        with pytest.raises(pr.Incompatible, match=repr(kind)):
            fit.covariance(kind)
        with pytest.raises(pr.Incompatible, match=repr(kind)):
            pr.predictions(fit, average_over="population", covariance=kind)
    with pytest.raises(pr.Incompatible, match=r"\(1 \| g\)\[a, Intercept\]"):
        fit.covariance("cluster", groups="half", data=CLUSTERED)
    counts = {**CLUSTERED, "y": np.round(CLUSTERED["y"])}
    model = pr.Model.from_formula("y ~ x + (1 | g)", counts, likelihood="poisson")
    with pytest.raises(pr.Incompatible, match=r"cluster.*'joint'"):
        pr.fit(model).covariance("cluster", groups="g", data=counts)
