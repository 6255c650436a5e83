"""Positive responses and proportions: estimates, errors and log-likelihoods are those of R."""

import numpy as np
import pandas as pd
import pytest

import probreg as pr
from probreg.datasets import load_dataset
from probreg.errors import DataError
from tests.conftest import reference_path


def check_fit(fit, result, *covariance, atol=1e-6):
    """Coefficients within `atol` standard errors, errors to 1e-5, the log-likelihood to 1e-8."""
    rows = [*result["coefficients"].values()][: len(fit.coef)]
    found = np.asarray(fit.solution.beta).ravel()[: len(rows)]
    estimates, errors = np.array([(v["estimate"], v["se"]) for v in rows]).T
    np.testing.assert_allclose((found - estimates) / errors, 0.0, atol=atol)
    own = np.sqrt(np.diag(fit.covariance(*covariance)))[: len(found)]
    np.testing.assert_allclose(own, errors, rtol=1e-5)
    assert fit.log_likelihood == pytest.approx(result["logLik"], abs=1e-8)


def test_a_gamma_random_intercept_is_that_of_glmmtmb(certified):
    result = certified("families/gamma_log_sleepstudy_subject")
    table = load_dataset("sleepstudy")
    formula = result["formula"].lower()
    model = pr.Model.from_formula(formula, table, likelihood="gamma")
    fit = pr.fit(model, pr.Evidence(criterion="ML"))
    # the search of glmmTMB stopped 2.4e-10 below the maximum: sqrt(2 * 2.4e-10) standard errors
    check_fit(fit, result, atol=3e-5)
    assert fit.log_likelihood > result["logLik"]


def test_an_inverse_gaussian_regression_is_that_of_r(certified):
    result = certified("families/inverse_gaussian_log_leinhardt")
    table = pd.read_csv(reference_path("csv/leinhardt.csv"))
    model = pr.Model.from_formula(
        result["formula"], table, likelihood="inverse_gaussian"
    )
    fit = pr.fit(model)
    check_fit(fit, result, "expected")
    assert fit.deviance == pytest.approx(result["deviance"], rel=1e-10)
    assert fit.aux["phi"] == pytest.approx(result["phi_ml"], rel=1e-7)


@pytest.mark.parametrize("kind", ["gamma", "inverse_gaussian"])
@pytest.mark.parametrize("bad", [0.0, -1.0])
def test_responses_that_are_not_positive_are_named_with_a_remedy(kind, bad):
    y = np.array([1.0, 2.0, bad, 3.0])
    with pytest.raises(DataError, match="positive") as error:
        pr.Model.from_arrays(np.arange(4.0), y, likelihood=kind)
    assert f"{bad:g}" in str(error.value)
    assert "Gaussian" in str(error.value)


def test_a_beta_regression_is_that_of_glmmtmb(certified):
    result = certified("families/beta_logit_swiss")
    table = pd.read_csv(reference_path("csv/swiss.csv"))
    model = pr.Model.from_formula(result["formula"], table, likelihood="beta")
    fit = pr.fit(model)
    check_fit(fit, result)
    phi = np.exp(result["coefficients"]["dispersion: (Intercept)"]["estimate"])
    assert fit.aux["phi"] == pytest.approx(phi, rel=1e-7)


@pytest.mark.parametrize("bad", [0.0, 1.0])
def test_proportions_of_zero_or_one_are_named_with_a_remedy(bad):
    y = np.array([0.2, 0.4, bad, 0.5])
    with pytest.raises(DataError, match="between 0 and 1") as error:
        pr.Model.from_arrays(np.arange(4.0), y, likelihood="beta")
    assert "Binomial" in str(error.value)


@pytest.mark.parametrize(
    ("likelihood", "name"), [(pr.Weibull(), "weibull_min"), (pr.LogLogistic(), "fisk")]
)
def test_variances_of_times_are_those_of_scipy(likelihood, name):
    import scipy.stats

    eta = np.array([[0.3], [-1.0]])
    variance = likelihood.response_variance(eta, scale=0.2)
    distribution = getattr(scipy.stats, name)(1.0 / 0.2, scale=np.exp(eta[:, 0]))
    np.testing.assert_allclose(variance, distribution.var(), rtol=1e-12)
