"""Weights held to other programs: statsmodels' weighted least squares, Stata's [pweight] as statsmodels ships its print-out,
and Engel's food expenditure by weights of any unit."""

import importlib

import numpy as np
import pytest

import probreg as pr

api = pytest.importorskip(
    "statsmodels.api", reason="weighted least squares of another program"
)
RNG = np.random.default_rng(7)
X, W = RNG.normal(size=(40, 2)), RNG.gamma(2.0, 1.0, 40)
Y = 1.0 + X @ [1.0, -2.0] + RNG.normal(size=40) / np.sqrt(W)
FIT = pr.fit(pr.Model.from_arrays(X, Y, weights=pr.weights.precision(W)))
WLS = api.WLS(Y, api.add_constant(X), weights=W).fit()


def test_precisions_are_weighted_least_squares():
    np.testing.assert_allclose(FIT.coef, WLS.params, rtol=1e-10)
    np.testing.assert_allclose(FIT.std_error, WLS.bse, rtol=1e-10)
    assert FIT.log_likelihood == pytest.approx(WLS.llf, rel=1e-12)
    row = pr.compare_models([FIT]).table.iloc[0]
    sigma = 1  # statsmodels does not count sigma
    assert row["AIC"] == pytest.approx(WLS.aic + 2 * sigma, rel=1e-12)
    assert row["BIC"] == pytest.approx(WLS.bic + np.log(40) * sigma, rel=1e-12)


@pytest.mark.parametrize("kind", ["HC0", "HC1", "HC2", "HC3"])
def test_sandwiches_of_precisions_are_those_of_weighted_least_squares(kind):
    errors = np.sqrt(np.diagonal(FIT.covariance(kind)))
    np.testing.assert_allclose(errors, getattr(WLS, f"{kind}_se"), rtol=1e-10)


def test_influence_is_that_of_the_rows_times_their_roots():
    root = np.sqrt(W)
    other = api.OLS(Y * root, api.add_constant(X) * root[:, None]).fit().get_influence()
    ours = pr.influence_measures(FIT)
    np.testing.assert_allclose(ours["leverage"], other.hat_matrix_diag, rtol=1e-10)
    np.testing.assert_allclose(ours["cook"], other.cooks_distance[0], rtol=1e-9)
    np.testing.assert_allclose(
        ours["studentised"], other.resid_studentized_external, rtol=1e-9
    )
    np.testing.assert_allclose(ours["dffits"], other.dffits[0], rtol=1e-9)
    np.testing.assert_allclose(ours["dfbetas"], other.dfbetas, rtol=1e-8, atol=1e-12)


def test_the_unit_of_precisions_is_that_of_sigma():
    """statsmodels' engel with weights 1/income and 1e5/income: one estimate, and the intercept's error is 12.917 both times."""
    data = importlib.import_module("statsmodels.datasets.engel").load_pandas().data
    x, y = data["income"].to_numpy(), data["foodexp"].to_numpy()
    one, other = (
        pr.fit(
            pr.Model.from_arrays(
                x, y, columns=["income"], weights=pr.weights.precision(unit / x)
            )
        )
        for unit in (1.0, 1e5)
    )
    np.testing.assert_allclose(other.coef, one.coef, rtol=1e-10)
    np.testing.assert_allclose(other.std_error, one.std_error, rtol=1e-10)
    assert round(float(one.std_error.sel(coef="Intercept")), 3) == 12.917
    assert other.aux["sigma"] == pytest.approx(
        one.aux["sigma"] * np.sqrt(1e5), rel=1e-10
    )
    assert other.log_likelihood == pytest.approx(one.log_likelihood, abs=1e-8)
    with pytest.raises(pr.DataError, match="plain weights are frequencies"):
        pr.Model.from_arrays(x, y, weights=1.0 / x)


def test_sampling_weights_are_statas_pweights():
    """glm executions income perpoverty perblack LN_VC100k96 south degree [pweight=fweight], family(poisson)."""
    stata = pytest.importorskip(
        "statsmodels.genmod.tests.results.results_glm_poisson_weights",
        reason="this statsmodels came without its results",
    ).results_poisson_pweight_nonrobust
    data = importlib.import_module("statsmodels.datasets.cpunish").load()
    X, y = np.asarray(data.exog, dtype=float), np.asarray(data.endog, dtype=float)
    X[:, 3] = np.log(X[:, 3])
    weights = np.array([1, 1, 1, 2, 2, 2, 3, 3, 3, 1, 1, 1, 2, 2, 2, 3, 3])
    order = [6, 0, 1, 2, 3, 4, 5]
    for unit in (1.0, 0.01):
        fit = pr.fit(
            pr.Model.from_arrays(
                X, y, likelihood="poisson", weights=pr.weights.sampling(unit * weights)
            )
        )
        # Stata's maximiser stops within 1.1e-6 standard errors of the maximum
        np.testing.assert_array_less(
            np.abs(fit.coef - stata.params[order]) / stata.bse[order], 2e-6
        )
        np.testing.assert_allclose(fit.std_error, stata.bse[order], rtol=1e-6)
        assert fit.default_kind == "wald"
    ends = fit.interval()
    for end, column in (("lower", 4), ("upper", 5)):
        np.testing.assert_array_less(
            np.abs(ends[end] - stata.params_table[order, column]) / stata.bse[order],
            4e-6,
        )
