"""Ordinal regression of the wine data (Randall 1989) against clm of R's package ordinal 2022.11.16."""

from pathlib import Path

import numpy as np
import pandas as pd
import pytest

import probreg as pr

WINE = Path(__file__).parent / "data" / "csv" / "wine.csv"
CLM = {  # estimate, standard error by the observed information
    "1|2": (-1.41126196470557, 0.545353234292653),
    "2|3": (1.14355366039748, 0.509655528434886),
    "3|4": (3.37708248668801, 0.638161721182678),
    "4|5": (4.94198225630721, 0.750911260910648),
    "temp[T.warm]": (2.32118426070527, 0.700947939442165),
    "contact[T.yes]": (1.34746042643352, 0.660355650191612),
    "temp[T.warm]:contact[T.yes]": (0.359548880191333, 0.923818848434148),
}


def wine() -> pd.DataFrame:
    table = pd.read_csv(WINE)
    table["rating"] = pd.Categorical(table["rating"].astype(str), ordered=True)
    return table


@pytest.fixture(scope="module")
def fit():
    formula = "rating ~ temp * contact"
    return pr.fit(pr.Model.from_formula(formula, wine(), likelihood="ordinal"))


def test_estimates_and_errors_are_those_of_clm(fit):
    assert fit.log_likelihood == pytest.approx(-86.4162004195796, abs=1e-8)
    table = fit.summary()
    for name, (value, se) in CLM.items():
        assert table.loc[name, "estimate"] == pytest.approx(value, abs=1e-6 * se)
        assert table.loc[name, "std_error"] == pytest.approx(se, rel=1e-5)


def test_deviance_and_degrees_of_freedom_are_those_of_polr(fit):
    """The deviance is -2 log L, and thresholds count as coefficients."""
    assert fit.deviance == pytest.approx(2 * 86.4162004195796, abs=1e-7)
    counts = wine()["rating"].value_counts()
    without_columns = -2.0 * (counts * np.log(counts / 72)).sum()
    assert fit.null_deviance == pytest.approx(without_columns, rel=1e-8)
    assert fit.df_resid == 72 - len(CLM)
    assert (fit.residuals("deviance") ** 2).sum() == pytest.approx(fit.deviance)


@pytest.mark.parametrize("name", ["1|2", "3|4"])
def test_a_profile_interval_of_a_threshold_has_the_likelihood_ratio(fit, name):
    lower, upper = fit.aux_interval(name, 0.95, "profile")
    wald = fit.aux_interval(name, 0.95, "wald")
    assert lower < CLM[name][0] < upper
    np.testing.assert_allclose([lower, upper], wald, atol=0.5 * CLM[name][1])


def test_thresholds_are_in_tidy_and_in_the_tree(fit):
    assert set(CLM) <= set(fit.tidy()["term"])
    estimate = fit.tree["estimate"]
    assert float(estimate["2|3"]) == pytest.approx(CLM["2|3"][0])


@pytest.mark.parametrize("link", ["logit", "probit", "cloglog"])
def test_text_without_an_order_is_refused_and_levels_give_one(link):
    words = np.array(["one", "two", "three", "four", "five"])
    table = wine().assign(rating=lambda t: words[t["rating"].astype(int) - 1])
    with pytest.raises(pr.DataError, match="order"):
        pr.Model.from_formula("rating ~ temp", table, likelihood="ordinal")
    stated = pr.Ordinal(levels=tuple(words), link=link)
    model = pr.Model.from_formula("rating ~ temp", table, likelihood=stated)
    assert model.likelihood.classes == tuple(words)
    p = pr.fit(model).predict()["mean"]
    np.testing.assert_allclose(p.sum("level"), 1.0)
    X, y = model.design.X[:, 1:], table["rating"].to_numpy()
    blocks = [(X[:30], y[:30]), (X[30:], y[30:])]
    by_block = pr.Model.from_blocks(blocks, likelihood=stated)
    assert by_block.likelihood == model.likelihood
    np.testing.assert_allclose(pr.fit(by_block).coef, pr.fit(model).coef, rtol=1e-9)


@pytest.mark.slow
def test_quadrature_over_judges_is_that_of_clmm():
    formula = "rating ~ temp + contact + (1 | judge)"
    model = pr.Model.from_formula(formula, wine(), likelihood="ordinal")
    fit = pr.fit(model, pr.Evidence(criterion="ML", points=10))
    # clmm(rating ~ temp + contact + (1 | judge), nAGQ = 10)
    assert fit.solution.scales.value == pytest.approx(-81.5324607117, abs=1e-6)
    assert fit.hyper["sd(Intercept | judge)"] == pytest.approx(1.1347832984, abs=1e-4)


@pytest.mark.slow
def test_errors_of_thresholds_include_estimated_scales():
    formula = "rating ~ temp + contact + (1 | judge)"
    errors = []
    for levels in ("12345", "54321"):
        likelihood = pr.Ordinal(levels=tuple(levels))
        model = pr.Model.from_formula(formula, wine(), likelihood=likelihood)
        table = pr.fit(model, pr.Evidence(criterion="ML")).summary()
        errors.append(table["std_error"])
    # from the other end the logit model is the same, and the last threshold is minus the intercept
    names = ["1|2", "2|3", "3|4", "4|5"]
    reverse = [f"{name[2]}|{name[0]}" for name in names]
    np.testing.assert_allclose(errors[0][names], errors[1][reverse], rtol=1e-4)
    assert errors[0]["4|5"] == pytest.approx(errors[1]["Intercept"], rel=1e-4)


@pytest.mark.parametrize("link", ["logit", "probit", "cloglog"])
def test_ordered_separation_has_no_maximum(link):
    x = np.r_[-np.arange(1.0, 11.0)[::-1], np.arange(1.0, 11.0)]
    y = np.repeat([0, 1, 2], [10, 5, 5])
    likelihood = pr.Ordinal(link=link)
    model = pr.Model.from_formula("y ~ x", {"x": x, "y": y}, likelihood=likelihood)
    # a direction needs the gap between thresholds too
    assert pr.check(model)["separation"].worst.name == "PROBLEM"
    bounded = pr.Model.from_formula(
        "y ~ x",
        {"x": x, "y": y},
        likelihood=likelihood,
        aux={"gap_2": pr.HalfNormal(1.0)},
    )
    assert not pr.check(bounded)["separation"].worst
    y[-2] = 1  # rows of two classes overlap
    overlap = pr.Model.from_formula("y ~ x", {"x": x, "y": y}, likelihood=likelihood)
    assert not pr.check(overlap)["separation"].worst
    assert pr.fit(overlap).solution.status.good


@pytest.mark.parametrize("link", ["logit", "probit", "cloglog"])
@pytest.mark.parametrize("eta", [-800.0, -30.0, 30.0, 800.0])
def test_derivatives_far_out_are_numbers(link, eta):
    likelihood = pr.Ordinal(levels=(0, 1, 2), link=link)
    rows = np.arange(3.0), np.full((3, 1), eta)
    for part in likelihood.value_grad_hessian(*rows, gap_2=1.0):
        assert np.isfinite(part).all()


def test_the_printed_summary_has_the_first_threshold_and_no_intercept(fit):
    table = fit.summary()
    assert table.loc["Intercept", "estimate"] == -table.loc["1|2", "estimate"]
    printed = str(table)
    assert "Intercept" not in printed
    assert "1|2" in printed


# clm(rating ~ temp + contact, scale = ~ temp), gradTol = 1e-12
OF_SCALE = {
    "logit": (
        -86.4394628794,
        [2.6294184311347, 1.5878437552511, 0.0953591671523],
        [0.685970636837, 0.530137955450, 0.294142465518],
        [-1.3520417699466, 1.2730017573575, 3.6170230550445, 5.2982362874273],
        [0.522331643648, 0.453346508555, 0.777394457765, 1.202657837249],
    ),
    "probit": (
        -85.6731119729,
        [1.586686042467, 0.911389293168, 0.111082663241],
        [0.376872047187, 0.299069330189, 0.263898126222],
        [-0.778782623685, 0.745251225977, 2.143401396129, 3.142019893133],
        [0.285479519385, 0.256296815087, 0.410003315498, 0.641430609044],
    ),
    "cloglog": (
        -86.4849029459,
        [1.491088447546, 0.763133816027, -0.155878619313],
        [0.356494850931, 0.308395472778, 0.285701914995],
        [-1.712654324798, 0.289426254939, 1.614847377098, 2.362699192215],
        [0.458459732976, 0.240424246238, 0.353192709736, 0.532307713655],
    ),
}


def model_of_scale(link="logit", mean="temp + contact"):
    formulas = {"rating": f"rating ~ {mean}", "log scale": "~ 0 + warm"}
    table = wine()
    table["warm"] = 1.0 * (table["temp"] == "warm")
    table["judge"] = table["judge"].astype(str)
    return pr.Model.from_formula(formulas, table, likelihood=pr.Ordinal(link=link))


@pytest.mark.parametrize("link", OF_SCALE)
def test_a_formula_of_the_scale_is_that_of_clm(link):
    log_likelihood, coefficients, errors, thresholds, threshold_errors = OF_SCALE[link]
    fit = pr.fit(model_of_scale(link))
    assert fit.log_likelihood == pytest.approx(log_likelihood, abs=1e-8)
    table = fit.summary()
    names = ["temp[T.warm]", "contact[T.yes]", "log scale: warm"]
    for rows, values, of_r in (
        (names, coefficients, errors),
        (["1|2", "2|3", "3|4", "4|5"], thresholds, threshold_errors),
    ):
        gap = (table.loc[rows, "estimate"] - values) / of_r
        np.testing.assert_allclose(gap, 0.0, atol=1e-6)
        np.testing.assert_allclose(table.loc[rows, "std_error"], of_r, rtol=1e-5)


def test_the_scale_multiplies_the_distance_to_the_thresholds(tmp_path):
    fit = pr.fit(model_of_scale())
    b, scale = fit.coef.values.ravel(), np.exp(fit.coef.values.ravel()[-1])
    cuts = [fit.summary().loc[k, "estimate"] for k in ("1|2", "2|3", "3|4", "4|5")]
    new = {"temp": ["warm"], "contact": ["yes"], "warm": [1.0]}
    F = 1.0 / (1.0 + np.exp(-(np.array(cuts) - b[1] - b[2]) / scale))
    classes = np.diff(np.r_[0.0, F, 1.0])
    np.testing.assert_allclose(fit.predict(new)["mean"][0], classes, rtol=1e-10)
    fit.save(tmp_path / "fit.nc")
    again = pr.load_fit(tmp_path / "fit.nc")
    np.testing.assert_array_equal(again.predict(new)["mean"], fit.predict(new)["mean"])


@pytest.mark.parametrize("kind", ["profile", "score"])
def test_thresholds_beside_a_scale_have_intervals_by_test(kind):
    fit = pr.fit(model_of_scale())
    ends = fit.interval(0.95, kind).sel(coef="Intercept")
    lower, upper = (float(ends[end]) for end in ("lower", "upper"))
    # the first threshold is minus the intercept
    assert fit.aux_interval("1|2", 0.95, kind) == pytest.approx(
        (-upper, -lower), rel=1e-6
    )
    lower, upper = fit.aux_interval("3|4", 0.95, "profile")
    wald = fit.aux_interval("3|4", 0.95, "wald")
    np.testing.assert_allclose([lower, upper], wald, rtol=0.1)
    assert upper - wald[1] > lower - wald[0] > 0.0


@pytest.mark.parametrize("link", OF_SCALE)
def test_derivatives_by_the_scale_are_differences(link):
    model = model_of_scale(link)
    likelihood = model.likelihood
    y = np.arange(5.0)
    rng = np.random.default_rng(1)
    point = rng.normal(size=5) * 0.5  # eta, log scale and the log of three gaps

    def at(x):
        eta = np.tile(x[:2], (5, 1))
        return eta, dict(zip(likelihood.nuisance, np.exp(x[2:])))

    eta, aux = at(point)
    local = likelihood.value_grad_hessian(y, eta, **aux)
    _, over_eta, over_aux = likelihood.link_mean_and_slope(eta, **aux)
    slopes = np.concatenate([over_eta, over_aux], -1)
    h = 1e-5
    for k, step in enumerate(h * np.eye(5)):
        (up, a), (down, b) = at(point + step), at(point - step)
        ends = [
            likelihood.value_grad_hessian(y, e, **v) for e, v in ((up, a), (down, b))
        ]
        slope = (ends[0].log_prob - ends[1].log_prob) / (2 * h)
        np.testing.assert_allclose(local.gradient[:, k], slope, atol=1e-8)
        bend = -(ends[0].gradient - ends[1].gradient) / (2 * h)
        np.testing.assert_allclose(local.curvature[:, k], bend, atol=1e-8)
        lines = [
            likelihood.link_mean_and_slope(e, **v)[0] for e, v in ((up, a), (down, b))
        ]
        change = (lines[0] - lines[1]) / (2 * h)
        np.testing.assert_allclose(slopes[..., k], change, rtol=1e-6, atol=1e-8)


def test_pymc_has_the_density_of_a_model_of_scale():
    pytest.importorskip("pymc")
    from tests.pymc_density import density_of

    model = model_of_scale()
    graph = density_of(model.to_pymc())
    rng = np.random.default_rng(2)
    gaps = []
    for _ in range(3):
        x = 0.5 * rng.normal(size=graph.size)
        named = graph.expand(x)
        aux = {a: float(named[a]) for a in model.likelihood.nuisance}
        own = model.log_posterior(named["beta"].reshape(model.shape), **aux)
        gaps.append(graph.log_prob(x) - own - np.log(list(aux.values())).sum())
    np.testing.assert_allclose(gaps, gaps[0], atol=1e-8)


def test_a_random_intercept_with_a_formula_of_the_scale():
    with_judges = pr.fit(
        model_of_scale(mean="temp + contact + (1 | judge)"), pr.Evidence(criterion="ML")
    )
    assert with_judges.log_likelihood > OF_SCALE["logit"][0] + 2.0


@pytest.mark.parametrize("right", ["~ 1", "~ temp", "~ 0 + temp"])
def test_the_scale_has_no_intercept(right):
    formulas = {"rating": "rating ~ temp", "log scale": right}
    with pytest.raises(pr.DataError, match="no intercept"):
        pr.Model.from_formula(formulas, wine(), likelihood="ordinal")


def test_thresholds_have_the_errors_of_a_sandwich() -> None:
    """R 4.2.2: sandwich(polr(ordered(o) ~ x)), of coefficients and thresholds."""
    levels = [0, 1, 0, 0, 2, 1, 0, 1, 2, 1, 2, 0, 2, 1, 2, 2]
    data = {"x": np.arange(1, 17) / 8.0 - 1.0, "o": levels}
    fit = pr.fit(pr.Model.from_formula("o ~ x", data, likelihood="ordinal"))
    table = fit.summary(covariance="HC0")
    errors = {"x": 0.939409433753, "0|1": 0.627568815618, "1|2": 0.594242508639}
    for name, error in errors.items():
        row = table.loc[name]
        assert row.std_error == pytest.approx(error, rel=1e-5)
        half = 1.959963984540 * row.std_error
        assert row.upper == pytest.approx(row.estimate + half, rel=1e-9)
    # an array of the coefficients has no errors of thresholds that depend on other parameters
    given = fit.summary(covariance=fit.covariance("HC0"))
    assert given.loc["0|1", "std_error"] == table.loc["0|1", "std_error"]
    assert np.isnan(given.loc["1|2", ["std_error", "lower", "upper"]]).all()


def test_a_gap_beside_a_fixed_one_is_estimated() -> None:
    rng = np.random.default_rng(4)
    x = rng.normal(size=80)
    data = {"x": x, "o": np.digitize(x + rng.logistic(size=80), [-1.0, 0.2, 1.5])}
    model = pr.Model.from_formula("o ~ x", data, likelihood="ordinal")
    fit = pr.fit(model)
    other = pr.fit(model.with_aux(gap_2=fit.aux["gap_2"]))
    np.testing.assert_allclose(other.coef, fit.coef, rtol=1e-5)
    assert other.aux["gap_3"] == pytest.approx(fit.aux["gap_3"], rel=1e-5)
    for kind in ("expected", "HC0"):  # a parameter less to estimate
        errors = [f.covariance(kind).values.diagonal() for f in (other, fit)]
        assert errors[0][0] < errors[1][0]
