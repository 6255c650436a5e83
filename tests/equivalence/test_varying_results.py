"""What a fit of varying effects shows, where variances vanish, effects are many, groups are crossed and outcomes several."""

import numpy as np
import pytest

import probreg as pr
from probreg.errors import DataError, Incompatible


@pytest.fixture(scope="module")
def rows():
    rng = np.random.default_rng(0)
    number = np.repeat(np.arange(20), 12)
    x, z = rng.normal(size=(2, 240))
    b = rng.normal(size=(20, 3)) @ np.array(
        [[1.0, 0.4, 0.2], [0.0, 0.8, 0.3], [0.0, 0.0, 0.7]]
    )
    y = (
        1.0
        + x
        + b[number, 0]
        + b[number, 1] * x
        + b[number, 2] * z
        + 0.5 * rng.normal(size=240)
    )
    return {
        "y": y, "x": x, "z": z, "g": number.astype(str), "h": rng.integers(0, 6, 240).astype(str),
        "c": np.array(["a", "b", "c"])[rng.integers(0, 3, 240)], "noise": rng.normal(size=240),
    }  # fmt: skip


def test_a_variance_that_vanishes_is_zero_with_an_interval_from_zero(rows):
    fit = pr.fit(pr.Model.from_formula("y ~ x + (1 | g) + (1 | h)", rows))
    assert fit.hyper["sd(Intercept | h)"] == 0.0
    lower, upper = fit.aux_interval("sd(Intercept | h)")
    assert lower == 0.0
    assert 0.0 < upper < 1.0
    assert (fit.effects("h")["pooling"] == 1.0).all()
    assert np.isnan(fit.solution.hyper["sd(Intercept | h)"][1])
    assert "(1 | h) 0 of 6" in str(fit)
    with pytest.raises(DataError, match="expected one of 'g', 'h'"):
        fit.effects()


def test_a_correlation_of_one_has_no_wald_interval(rows):
    few = {k: v[:96] for k, v in rows.items()}
    rng = np.random.default_rng(1)
    few["y"] = (
        few["x"] * (1.0 + (d := rng.normal(size=20)[few["g"].astype(int)]))
        + d
        + 0.1 * rng.normal(size=96)
    )
    fit = pr.fit(pr.Model.from_formula("y ~ x + (x | g)", few))
    assert fit.hyper["cor(Intercept, x | g)"] > 0.9
    assert fit.aux_interval("cor(Intercept, x | g)")[1] <= 1.0


@pytest.mark.slow
def test_three_effects_have_profiles_but_for_correlations_of_later_ones(rows):
    fit = pr.fit(pr.Model.from_formula("y ~ x + z + (x + z | g)", rows))
    assert list(fit.hyper)[3:] == [
        "cor(Intercept, x | g)",
        "cor(Intercept, z | g)",
        "cor(x, z | g)",
    ]
    lower, upper = fit.aux_interval("cor(Intercept, z | g)")
    assert lower < fit.hyper["cor(Intercept, z | g)"] < upper
    with pytest.raises(Incompatible, match="correlations with the first effect"):
        fit.aux_interval("cor(x, z | g)")
    lower, upper = fit.aux_interval("cor(x, z | g)", kind="wald")
    assert -1.0 < lower < fit.hyper["cor(x, z | g)"] < upper < 1.0
    assert fit.summary()["df"].iloc[:3].to_numpy() == pytest.approx(
        [19, 19, 19], abs=1.0
    )


def test_effects_of_a_softmax_stand_by_outcome(rows):
    fit = pr.fit(
        pr.Model.from_formula("c ~ x + (1 | g)", rows, likelihood="categorical")
    )
    assert fit.tree["estimate"]["effects[g]"].dims == ("g", "effect", "outcome")
    assert set(fit.effects()["outcome"]) == {"b", "c"}
    # two coefficients by two outcomes, and the standard deviation of each outcome
    assert len(fit.summary()) == 6
    assert fit.coef.shape == (2, 2)


def test_degrees_of_freedom_are_those_of_balanced_analysis_of_variance():
    """With a column constant within balanced groups the mean has G - 1 degrees of freedom."""
    rng = np.random.default_rng(3)
    group = np.repeat(np.arange(9), 5)
    y = rng.normal(size=9)[group] + 0.5 * rng.normal(size=45)
    fit = pr.fit(
        pr.Model.from_formula("y ~ 1 + (1 | g)", {"y": y, "g": group.astype(str)})
    )
    assert fit.summary()["df"].iloc[0] == pytest.approx(8.0, abs=1e-4)
    means = y.reshape(9, 5).mean(1)
    assert fit.std_error.item() == pytest.approx(means.std(ddof=1) / 3.0, rel=1e-6)


@pytest.mark.parametrize("prior", [None, pr.Normal(0.5, sigma_units=True)], ids=str)
def test_effective_degrees_of_freedom_are_the_trace_of_the_hat_matrix(rows, prior):
    from probreg.fits.goodness import effective_of_terms

    priors = {} if prior is None else {"(x | g)": prior}
    fit = pr.fit(pr.Model.from_formula("y ~ x + (x | g)", rows, prior=priors))
    X, sigma = fit.model.design.X, fit.aux["sigma"]
    hat = X @ fit.solution.covariance.matrix() @ X.T / sigma**2
    assert effective_of_terms(fit)["(x | g)"][0] + 2 == pytest.approx(
        np.trace(hat), rel=1e-8
    )


def test_head_alone_is_tested_and_prior_weight_refers_to_pooling(rows):
    fit = pr.fit(
        pr.Model.from_formula("y ~ x + (1 | g)", rows), pr.Evidence(criterion="ML")
    )
    with pytest.raises(Incompatible, match=r"fit\.effects"):
        pr.prior_weight(fit)
    assert pr.hypothesis(fit, "x = 1").estimates["combination"].tolist() == ["x"]
    assert fit.n_parameters == 4
    assert fit.interval().attrs["kind"] == "wald"


@pytest.mark.parametrize("criterion", ["REML", "ML"])
def test_effects_alone_need_no_flat_coefficient(rows, criterion):
    fit = pr.fit(
        pr.Model.from_formula("y ~ 0 + (1 | g)", rows), pr.Evidence(criterion=criterion)
    )
    y, Z = rows["y"], rows["g"][:, None] == np.unique(rows["g"])
    V = fit.hyper["sd(Intercept | g)"] ** 2 * Z @ Z.T + fit.aux["sigma"] ** 2 * np.eye(
        240
    )
    value = -0.5 * (
        240 * np.log(2 * np.pi) + np.linalg.slogdet(V)[1] + y @ np.linalg.solve(V, y)
    )
    assert fit.solution.effect_scales.value == pytest.approx(value, rel=1e-10)
    assert "sd(Intercept | g)" in str(fit)


@pytest.mark.filterwarnings("ignore::probreg.errors.ProbregWarning")
@pytest.mark.slow
@pytest.mark.parametrize("likelihood", ["gaussian", "poisson"])
def test_effects_alone_have_every_result(rows, likelihood, tmp_path):
    rows = {name: values[:96] for name, values in rows.items()}
    rows["y"] = np.round(np.exp(rows["y"] / 2.0))
    fit = pr.fit(pr.Model.from_formula("y ~ 0 + (1 | g)", rows, likelihood=likelihood))
    assert fit.covariance().shape == (0, 0)
    assert "sd(Intercept | g)" in repr(pr.compare([fit]))
    assert pr.explain(fit, fit) is not None
    again = pr.load_fit(fit.save(tmp_path / "fit"))
    assert again.hyper == fit.hyper
    assert pr.report(fit, tmp_path / "page.html").exists()


def test_effects_alone_have_a_posterior(rows):
    prior = {"1 | g": pr.Covariance(sd=pr.HalfNormal(2.0))}
    fit = pr.fit(
        pr.Model.from_formula("y ~ 0 + (1 | g)", rows, prior=prior), "posterior", seed=1
    )
    assert 0.5 < fit.hyper["sd(Intercept | g)"] < 3.0


@pytest.mark.slow
def test_quadrature_and_estimated_noise_are_called_so(rows, tmp_path):
    counts = {**rows, "n": np.random.default_rng(1).poisson(np.exp(0.3 * rows["y"]))}
    fit = pr.fit(
        pr.Model.from_formula("n ~ x + (1 | g)", counts, likelihood="poisson"),
        pr.Evidence(criterion="ML", points=5),
    )
    fit.save(tmp_path / "fit.nc")
    for each in (fit, pr.load_fit(tmp_path / "fit.nc")):
        assert "5 points of adaptive quadrature" in str(each)
        assert "Laplace approximation" not in str(each)
    assert "sigma at the maximum of REML" in str(
        pr.table({"a": pr.fit(pr.Model.from_formula("y ~ x + (1 | g)", rows))})
    )


def test_shares_of_variance_take_the_noise_of_each_row_under_precision_weights():
    rng = np.random.default_rng(3)
    number, precision = np.repeat(np.arange(40), 10), rng.uniform(0.01, 0.05, 400)
    y = (
        2.0
        + 3.0 * rng.normal(size=40)[number]
        + rng.normal(size=400) / np.sqrt(precision)
    )
    rows = {"y": y, "g": number.astype(str)}
    # the same noise in other units: sigma^2 / precision
    for factor in (1.0, 100.0):
        fit = pr.fit(
            pr.Model.from_formula(
                "y ~ 1 + (1 | g)",
                rows,
                weights=pr.weights.precision(factor * precision),
            )
        )
        rest = fit.aux["sigma"] ** 2 * np.mean(1.0 / (factor * precision))
        groups = fit.hyper["sd(Intercept | g)"] ** 2
        assert fit.glance()["icc"].iloc[0] == pytest.approx(
            groups / (groups + rest), rel=1e-9
        )


def test_effects_whose_covariance_is_stated_are_pooled_as_those_whose_covariance_is_found(
    rows,
):
    found = pr.fit(pr.Model.from_formula("y ~ x + (x | g)", rows))
    sd = [found.hyper[f"sd({name} | g)"] for name in ("Intercept", "x")]
    for bar, cor in (("|", found.hyper["cor(Intercept, x | g)"]), ("||", None)):
        stated = pr.Covariance(sd=dict(zip(("Intercept", "x"), sd)), cor=cor)
        model = pr.Model.from_formula(
            f"y ~ x + (x {bar} g)",
            rows,
            prior={f"x {bar} g": stated},
            aux={"sigma": float(found.aux["sigma"])},
        )
        table = pr.fit(model, "posterior").effects("g")
        square = np.tile(np.square(sd), 20)
        assert table["pooling"].to_numpy() == pytest.approx(
            table["sd"].to_numpy() ** 2 / square, rel=1e-9
        )
        if bar == "|":
            assert table["pooling"].to_numpy() == pytest.approx(
                found.effects("g")["pooling"].to_numpy(), rel=1e-6
            )


def test_tables_with_the_names_of_broom_mixed():
    sleep = pr.load_dataset("sleepstudy")
    model = pr.Model.from_formula("reaction ~ days + (days | subject)", sleep)
    fit = pr.fit(model)
    assert fit.tidy()["term"].tolist() == ["Intercept", "days"]
    # lme4: 24.741, 5.922, 0.066 and 25.592
    assert list(fit.hyper.values()) == pytest.approx([24.741, 5.922, 0.066], abs=6e-4)
    assert fit.aux["sigma"] == pytest.approx(25.592, abs=6e-4)
    row = fit.glance().iloc[0]
    assert row[["nobs", "ngrps.subject"]].tolist() == [180, 18]
    assert row["REMLcrit"] == pytest.approx(1743.628, abs=1e-3)
    prior = {"days | subject": pr.Covariance(sd=pr.HalfNormal(50.0), cor=pr.LKJ(2.0))}
    drawn = pr.fit(model.with_prior(prior), pr.Integrate(nodes=256, draws=200))
    assert drawn.hyper["sd(days | subject)"] == pytest.approx(6.4, abs=0.8)
    post = drawn.tidy()
    assert (post["conf.low"] < post["estimate"]).all()
