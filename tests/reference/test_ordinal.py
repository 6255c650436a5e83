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


@pytest.mark.parametrize("name", ["1|2", "3|4"])
def test_a_profile_interval_of_a_threshold_has_the_likelihood_ratio(fit, name):
    lower, upper = fit.aux_interval(name, 0.95, "profile")
    wald = fit.aux_interval(name, 0.95, "wald")
    assert lower < CLM[name][0] < upper
    np.testing.assert_allclose([lower, upper], wald, atol=0.5 * CLM[name][1])


def test_thresholds_are_in_tidy_and_in_the_tree(fit):
    assert set(CLM) <= set(fit.tidy()["term"])
    estimate = fit.inference_data()["estimate"]
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
