"""statsmodels' star98: successes of trials by school district, against statsmodels' GLM and its own documented output.

The data are in the public domain (statsmodels.datasets.star98, Jeff Gill 2000); they are read from the installed package.
"""

import numpy as np
import pytest

import probreg as pr
from probreg.diagnostics.after import DIAGNOSTICS, residuals
from probreg.diagnostics.after.influence import influence_measures

FORMULA = "p(NABOVE, NABOVE + NBELOW) ~ LOWINC + PERASIAN + PERBLACK + PERHISP"


@pytest.fixture(scope="module")
def star():
    from statsmodels.datasets import star98

    return star98.load_pandas().data


@pytest.fixture(scope="module")
def fit(star):
    return pr.fit(pr.Model.from_formula(FORMULA, star, likelihood="binomial"))


@pytest.fixture(scope="module")
def theirs(star, fit):
    import statsmodels.api as sm

    y = star[["NABOVE", "NBELOW"]].to_numpy(float)
    return sm.GLM(y, fit.model.design.X, family=sm.families.Binomial()).fit(tol=1e-12)


def test_the_log_likelihood_holds_the_binomial_coefficients(fit, theirs):
    assert fit.log_likelihood == pytest.approx(-3735.075084, abs=5e-7)
    assert fit.log_likelihood == pytest.approx(theirs.llf, rel=1e-11)
    np.testing.assert_allclose(fit.coef, theirs.params, rtol=1e-9)
    np.testing.assert_allclose(fit.std_error, theirs.bse, rtol=1e-8)


def test_robust_errors_are_by_district(star, fit):
    """statsmodels' HC0 of a two-column response forgets the trials in its scores; it is that of shares with var_weights."""
    import statsmodels.api as sm

    n = (star["NABOVE"] + star["NBELOW"]).to_numpy(float)
    shares = sm.GLM(
        star["NABOVE"] / n,
        fit.model.design.X,
        family=sm.families.Binomial(),
        var_weights=n,
    )
    robust = shares.fit(tol=1e-12, cov_type="HC0")
    hc0 = np.sqrt(np.diagonal(fit.covariance("HC0")))
    np.testing.assert_allclose(hc0, robust.bse, rtol=1e-7)
    assert hc0[0] == pytest.approx(0.07342, abs=5e-6)
    assert np.sqrt(fit.covariance("HC1").values[0, 0]) == pytest.approx(
        hc0[0] * np.sqrt(303 / 298), rel=1e-12
    )


@pytest.mark.slow
def test_residuals_and_influence_are_by_district(fit, theirs):
    np.testing.assert_allclose(
        residuals(fit, "pearson"), theirs.resid_pearson, rtol=1e-7
    )
    np.testing.assert_allclose(
        residuals(fit, "deviance"), theirs.resid_deviance, rtol=1e-7
    )
    np.testing.assert_allclose(fit.predict()["mean"], theirs.fittedvalues, rtol=1e-9)
    influence = theirs.get_influence()
    np.testing.assert_allclose(
        influence_measures(fit)["leverage"], influence.hat_matrix_diag, rtol=1e-7
    )
    np.testing.assert_allclose(
        influence_measures(fit)["cook"], influence.cooks_distance[0], rtol=1e-6
    )


@pytest.mark.slow
def test_the_dispersion_is_by_district(fit, theirs):
    finding, *_ = DIAGNOSTICS["dispersion"]().run(fit)
    assert finding.statistic / 298 == pytest.approx(18.1, abs=0.05)
    assert finding.statistic == pytest.approx(theirs.pearson_chi2, rel=1e-9)
    assert finding.verdict.name == "WARNING"
    assert "HC1" in finding.remedy


@pytest.mark.slow
def test_a_district_in_which_all_pass_is_seen(star):
    wrong = star.copy()
    wrong.loc[5, "NABOVE"] = wrong.loc[5, ["NABOVE", "NBELOW"]].sum()
    wrong.loc[5, "NBELOW"] = 0
    fit = pr.fit(pr.Model.from_formula(FORMULA, wrong, likelihood="binomial"))
    for name in ("outliers", "cook"):
        found, *_ = DIAGNOSTICS[name]().run(fit)
        assert found.verdict.name == "WARNING"
        assert 5 in found.rows
