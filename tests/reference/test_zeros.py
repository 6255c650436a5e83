"""Counts with extra zeros against glmmTMB and statsmodels, and what a fit of them reports."""

import numpy as np
import pandas as pd
import pytest
import statsmodels.api as sm
from statsmodels.discrete.truncated_model import TruncatedLFNegativeBinomialP

import probreg as pr
from probreg.inference.sampling.density_terms import RowArrays, sum_of_rows
from tests.conftest import reference_path

from .test_positive import check_fit

LEVELS = {"fem": ["Men", "Women"], "mar": ["Single", "Married"]}


def biochemists() -> pd.DataFrame:
    table = pd.read_csv(reference_path("families/data/biochemists.csv"))
    for column, levels in LEVELS.items():
        table[column] = pd.Categorical(table[column], levels)
    return table


@pytest.mark.parametrize("kind", ["hurdle", "zero_inflated"])
def test_zeros_with_columns_are_those_of_glmmtmb(certified, kind):
    result = certified(f"families/{kind}_poisson_biochemists")
    formulas = {"y": result["formula"], "logit zero": result["ziformula"]}
    model = pr.Model.from_formula(
        formulas, biochemists(), likelihood=f"{kind}(poisson)"
    )
    fit = pr.fit(model)
    check_fit(fit, result)
    # the fitted values come from a search that ended earlier
    fitted = fit.predict()["mean"].to_numpy()[: len(result["fitted"])]
    np.testing.assert_allclose(fitted, result["fitted"], rtol=2e-5)


def counts(n: int = 400) -> pd.DataFrame:
    rng = np.random.default_rng(8)
    x, e = rng.normal(size=n), rng.uniform(0.5, 2.0, n)
    mean = e * np.exp(0.8 + 0.5 * x)
    y = rng.negative_binomial(2.0, 2.0 / (2.0 + mean)) * (rng.random(n) > 0.3)
    return pd.DataFrame({"y": y, "x": x, "e": e})


@pytest.mark.slow
@pytest.mark.parametrize("kind", ["hurdle", "zero_inflated"])
def test_negative_binomial_zeros_are_those_of_statsmodels(kind):
    table = counts()
    likelihood = f"{kind}(negative_binomial)"
    X = sm.add_constant(table[["x"]])
    if kind == "hurdle":
        formula = {"y": "y ~ x", "logit zero": "~ x"}
        # its two parts, because the hurdles of HurdleCountModel have no logit link
        above = table["y"] > 0
        truncated = TruncatedLFNegativeBinomialP(table["y"][above], X[above])
        other = truncated.fit(method="bfgs", maxiter=500, disp=False, gtol=1e-8)
        logit = sm.Logit((table["y"] == 0).astype(int), X).fit(disp=False, tol=1e-12)
        expected = np.r_[other.params[:2], logit.params]
        log_likelihood = other.llf + logit.llf
    else:
        formula = {"y": "y ~ x + offset(log(e))", "logit zero": "~ 1"}
        inflated = sm.ZeroInflatedNegativeBinomialP(
            table["y"], X, offset=np.log(table["e"])
        )
        other = inflated.fit(method="bfgs", maxiter=500, disp=False, gtol=1e-8)
        expected, log_likelihood = other.params.to_numpy()[[1, 2, 0]], other.llf
    fit = pr.fit(pr.Model.from_formula(formula, table, likelihood=likelihood))
    np.testing.assert_allclose(fit.solution.beta[:, 0], expected, atol=1e-4)
    assert fit.log_likelihood == pytest.approx(log_likelihood, abs=1e-6)
    assert fit.aux["alpha"] == pytest.approx(other.params.iloc[-1], rel=1e-3)


@pytest.mark.parametrize("kind", ["hurdle", "zero_inflated"])
def test_a_fit_reports_the_probability_of_a_zero_with_intervals_inside_0_and_1(kind):
    table = counts()
    model = pr.Model.from_formula("y ~ x", table, likelihood=f"{kind}(poisson)")
    fit = pr.fit(model)
    name = {"hurdle": "p_zero", "zero_inflated": "p_extra_zero"}[kind]
    row = fit.summary().loc[name]
    odds, error = fit.aux["zero_odds"], fit.solution.aux_sd["zero_odds"]
    p = odds / (1.0 + odds)
    assert row["estimate"] == pytest.approx(p, rel=1e-12)
    assert row["std_error"] == pytest.approx(error / (1.0 + odds) ** 2, rel=1e-9)
    half = 1.959963984540054 * error / odds
    ends = 1.0 / (1.0 + np.exp(-np.log(odds) + np.array([half, -half])))
    np.testing.assert_allclose(row[["lower", "upper"]].astype(float), ends, rtol=1e-9)
    lower, upper = fit.aux_interval(name, 0.95, "profile")
    np.testing.assert_allclose([lower, upper], ends, atol=0.2 * (upper - lower))
    if kind == "hurdle":  # the zeros are a model of their own
        assert p == pytest.approx((table["y"] == 0).mean(), rel=1e-9)
    # a formula without columns is the same model
    formulas = {"y": "y ~ x", "logit zero": "~ 1"}
    other = pr.fit(
        pr.Model.from_formula(formulas, table, likelihood=f"{kind}(poisson)")
    )
    assert other.log_likelihood == pytest.approx(fit.log_likelihood, rel=1e-12)
    assert other.coef[-1] == pytest.approx(np.log(odds), abs=1e-7)


def test_reported_parameters_have_intervals_on_the_scale_of_their_own_range():
    model = pr.Model.from_formula(
        "y ~ x", counts(), likelihood="zero_inflated(negative_binomial)"
    )
    fit = pr.fit(model)
    alpha, error = fit.aux["alpha"], fit.solution.aux_sd["alpha"]
    half = 1.959963984540054 * error / alpha
    ends = fit.aux_interval("alpha", 0.95, "wald")
    np.testing.assert_allclose(ends, alpha * np.exp([-half, half]), rtol=1e-9)


def test_counts_without_extra_zeros_have_the_limit_of_no_inflation():
    y = np.random.default_rng(1).poisson(3.0, 200)
    x = np.random.default_rng(2).normal(size=200)
    with pytest.warns(
        pr.ProbregWarning, match="zero_odds runs to 0: the poisson model"
    ):
        fit = pr.fit(
            pr.Model.from_arrays(x, np.maximum(y, 1), likelihood=pr.ZeroInflated())
        )
    assert fit.aux["zero_odds"] == 0.0


def test_zeros_of_other_responses_are_refused():
    for base in (pr.Gaussian(), pr.likelihoods.Quantile(0.5)):
        with pytest.raises(pr.Incompatible, match="likelihood of counts"):
            pr.ZeroInflated(base)
    with pytest.raises(pr.DataError, match="Intercept"):
        pr.fit(pr.Model.from_arrays(np.arange(4.0), [0, 1, 1, 0], likelihood="hurdle"))


@pytest.mark.parametrize("eta", [-40.0, -3.0, 0.0, 3.0])
def test_draws_above_a_hurdle_have_the_truncated_distribution(eta):
    likelihood = pr.Hurdle(pr.NegativeBinomial())
    aux = {"zero_odds": 1e-300, "alpha": 2.0}
    predictor = np.full((20_000, 1), eta)
    y = likelihood.sample(np.random.default_rng(3), predictor, **aux)
    for k in (1.0, 2.0, 5.0):
        p = np.exp(likelihood.log_prob(np.full(1, k), predictor[:1], **aux))[0]
        assert (y == k).mean() == pytest.approx(p, abs=4.0 * np.sqrt(p / 20_000) + 1e-9)
    assert y.min() == 1.0


@pytest.mark.slow  # both densities are compiled
@pytest.mark.parametrize(
    ("kind", "with_formula"),
    [("hurdle", "logit zero"), ("zero_inflated", "log alpha")],
)
def test_compiled_slopes_over_parameters_with_and_without_columns(kind, with_formula):
    formulas = {"y": "y ~ x", with_formula: "~ x"}
    model = pr.Model.from_formula(
        formulas, counts(60), likelihood=f"{kind}(negative_binomial)"
    )
    theta = np.array([0.3, 0.2, -0.1, 0.4, 0.15])
    (name,) = model.unknown
    aux = {name: float(np.exp(theta[4]))}
    slopes = np.zeros(5)
    value = sum_of_rows(model, RowArrays.of(model))(theta, aux, slopes)
    local = model.value_grad_hessian(theta[:4, None], **aux)
    prior = model.log_prior(theta[:4, None], **aux) + theta[4]
    assert value + prior == pytest.approx(local.value, rel=1e-12)
    np.testing.assert_allclose(slopes[:4], local.gradient[:4], rtol=1e-9)
    moved = [
        model.log_lik(theta[:4, None], **{name: np.exp(theta[4] + h)})
        for h in (1e-5, -1e-5)
    ]
    assert slopes[4] == pytest.approx((moved[0] - moved[1]) / 2e-5, rel=1e-6)


@pytest.mark.slow
def test_the_mode_beside_a_saddle_is_that_of_the_likelihood_of_scales():
    """glmmTMB 1.1.5, y ~ x + (x | g), ziformula = ~ 1, Poisson, at a correlation of -1 + 1e-7, polished by Newton's method.

    The data are simulated. From the usual start Newton's method ended at a saddle of the joint density.
    """
    y = """
        0 0 5 4 9 0 2 6 8 0 0 0 1 1 0 0 0 0 0 0 1 0 0 0 0 18 0 16 10 0 14 13 4 1 0 0 0 1 0 0 1 3 1 2 0 0 1 0
        0 0 0 0 0 2 0 1 0 6 0 2 0 0 0 0 1 4 0 0 3 5 2 0 0 0 0 0 0 0 0 0
            """
    x = """
        -0.94 -0.53 -0.01 0.64 -0.16 0.72 -0.75 1.32 2.11 0.37 -2.15 0.47 1.04 -1.24 -0.19 -0.95 0.66 -0.27
        -0.49 0.48 0.71 0.11 -0.09 -0.5 -1.25 1.15 0.8 -0.28 -0.53 0.04 -1.76 -0.42 0.34 0.02 -0.56 -0.5
        -0.54 0.8 -0.82 -1.01 -0.41 -0.8 0.44 0.99 0.02 -0.74 0.54 0.96 0.17 0.52 -1.67 1.37 0.15 0.78 -0.92
        0.16 -0.38 1.94 0.78 1.16 1.38 -0.21 -1.66 -0.67 -0.69 0.38 1.45 0.08 -0.23 0.22 0.39 -1.52 0.67 2.2
        0.53 0.26 0.53 -2 -0.1 0.54
            """
    groups = np.repeat([f"g{i:02d}" for i in range(10)], 8)
    table = {
        "y": np.array(y.split(), float),
        "x": np.array(x.split(), float),
        "g": groups,
    }
    formulas = {"y": "y ~ x + (x | g)", "logit zero": "~ 1"}
    model = pr.Model.from_formula(formulas, table, likelihood="zero_inflated(poisson)")
    fit = pr.fit(model, pr.Evidence(criterion="ML"))
    errors = [0.584357243993, 0.280080495532, 0.371213118369]
    estimates = [-0.188491963524, 1.06269904068, -0.610828143269]
    # the distance of the correlation from -1 is about 1e-7
    np.testing.assert_allclose((fit.coef.values - estimates) / errors, 0.0, atol=1e-5)
    np.testing.assert_allclose(fit.std_error, errors, rtol=1e-4)
    assert 0.0 < fit.log_likelihood + 109.976580052 < 1e-5
    restricted = pr.fit(model)
    assert restricted.hyper["cor(Intercept, x | g)"] == pytest.approx(-1.0)


def test_held_parameters_are_not_reported_as_estimates():
    k = np.array([0, 0, 0, 1, 2, 0, 3, 5, 1, 0, 2, 4, 0, 1, 7, 0])
    table = {"x": np.linspace(-1, 1, 16), "k": k}
    likelihood = pr.ZeroInflated(pr.NegativeBinomial())
    names = {}
    for held in ({"alpha": 0.5, "zero_odds": 0.2}, {"alpha": 0.5}):
        fit = pr.fit(pr.Model.from_formula("k ~ x", table, likelihood=likelihood, aux=held))  # fmt: skip
        names[len(held)] = pr.compare([fit, fit]).data["param"].values.tolist()
        drawn = {"p_extra_zero", "alpha"} & {*fit.tree["sampling"].data_vars}
        assert drawn == ({"p_extra_zero"} if len(held) == 1 else set())
    assert names == {
        2: ["Intercept", "x", "alpha", "zero_odds"],
        1: ["Intercept", "x", "p_extra_zero", "alpha"],
    }
