"""Gaussian responses with a log or an inverse link: estimates, errors and log-likelihoods are those of R."""

import numpy as np
import pytest

import probreg as pr
from probreg.datasets import load_dataset
from probreg.errors import DataError, Incompatible

LOG, INVERSE = pr.Gaussian(link="log"), pr.Gaussian(link="inverse")

# R 4.2, glm(reaction ~ days, gaussian(link)) of sleepstudy, epsilon = 1e-15: coefficients, errors, log-likelihood, deviance
GLM = {
    "log": (
        [5.5350177383766, 0.0352535240249],
        [0.0242762054745, 0.0041743047083],
        -949.956413506,
        404396.473458,
    ),
    "inverse": (
        [0.003912992088716, -0.000117568533212],
        [8.80158049520e-05, 1.40339271471e-05],
        -949.911588678,
        404195.112467,
    ),
}


@pytest.mark.parametrize("link", GLM)
def test_a_gaussian_regression_by_a_link_is_that_of_r(link):
    coefficients, errors, log_likelihood, deviance = GLM[link]
    table = load_dataset("sleepstudy")
    fit = pr.fit(
        pr.Model.from_formula(
            "reaction ~ days", table, likelihood=f"gaussian(link={link})"
        )
    )
    gap = (fit.coef.values.ravel() - coefficients) / errors
    np.testing.assert_allclose(gap, 0.0, atol=1e-6)
    dispersion = np.sqrt(np.diag(fit.covariance("dispersion")))
    np.testing.assert_allclose(dispersion, errors, rtol=1e-6)
    # sigma by maximum likelihood in place of Pearson's estimate
    expected = np.sqrt(np.diag(fit.covariance("expected")))
    np.testing.assert_allclose(expected * np.sqrt(180 / 178), errors, rtol=1e-6)
    assert fit.log_likelihood == pytest.approx(log_likelihood, abs=1e-8)
    assert fit.deviance == pytest.approx(deviance, rel=1e-10)
    assert fit.aux["sigma"] == pytest.approx(np.sqrt(deviance / 180), rel=1e-9)


def test_a_random_intercept_by_a_log_link_is_that_of_glmmtmb():
    model = pr.Model.from_formula(
        "reaction ~ days + (1 | subject)", load_dataset("sleepstudy"), likelihood=LOG
    )
    fit = pr.fit(model, pr.Evidence(criterion="ML"))
    errors = np.array([0.03389909992875, 0.00255797969265])
    gap = np.ravel(fit.solution.beta)[:2] - [5.5208320334079, 0.0364665314219]
    np.testing.assert_allclose(gap / errors, 0.0, atol=1e-6)
    found = np.sqrt(np.diag(fit.covariance()))[:2]
    # the search of glmmTMB stopped with "singular convergence"
    np.testing.assert_allclose(found, errors, rtol=2e-5)
    assert fit.log_likelihood == pytest.approx(-889.680964149, abs=1e-8)
    assert fit.aux["sigma"] == pytest.approx(29.3321369599, rel=1e-7)


def test_responses_of_any_sign_have_a_start():
    rng = np.random.default_rng(1)
    x = rng.uniform(size=200)
    for likelihood, mean in ((LOG, np.exp(x)), (INVERSE, -1.0 / (0.5 + x))):
        y = mean + rng.normal(0.0, 1.5, 200)
        assert np.unique(np.sign(y)).tolist() == [-1.0, 1.0]
        fit = pr.fit(pr.Model.from_arrays(x[:, None], y, likelihood=likelihood))
        assert np.abs(fit.predict()["mean"].values - mean).max() < 0.6


def test_the_identity_link_gives_least_squares_by_the_same_class():
    table = load_dataset("sleepstudy")
    same = type(LOG)()
    fits = [
        pr.fit(pr.Model.from_formula("reaction ~ days", table, likelihood=v))
        for v in (same, pr.Gaussian())
    ]
    np.testing.assert_allclose(fits[0].coef, fits[1].coef, rtol=1e-9)
    assert fits[0].log_likelihood == pytest.approx(fits[1].log_likelihood, abs=1e-9)


@pytest.mark.parametrize("likelihood", [LOG, INVERSE], ids=str)
def test_a_fit_by_a_link_is_saved_and_read(likelihood, tmp_path):
    table = load_dataset("sleepstudy")
    model = pr.Model.from_formula("reaction ~ days", table, likelihood=likelihood)
    fit = pr.fit(model)
    fit.save(tmp_path / "fit.nc")
    again = pr.load_fit(tmp_path / "fit.nc")
    assert again.model.likelihood == likelihood
    np.testing.assert_array_equal(again.coef, fit.coef)


def test_a_posterior_by_a_link_needs_a_proper_prior_of_the_intercept():
    table = load_dataset("sleepstudy")
    model = pr.Model.from_formula("reaction ~ days", table, likelihood=LOG)
    with pytest.raises(Incompatible, match="Intercept"):
        pr.fit(model, "nuts")


def test_other_links_are_refused():
    with pytest.raises(DataError, match="'identity', 'log' or 'inverse'"):
        pr.Gaussian(link="probit")
