"""Positive responses and proportions: estimates, errors and log-likelihoods are those of R."""

import numpy as np
import pandas as pd
import pytest

import probreg as pr
from probreg.datasets import load_dataset
from probreg.errors import DataError
from probreg.inference.status import Status
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


# Crowder 1978: seeds that germinate, of two varieties in two root extracts. glmmTMB 1.1.5, cbind(k, n - k) ~ seed + root,
# family = betabinomial(link), polished by Newton's method: coefficients and log phi, their errors, the log-likelihood
SEEDS = {
    "k": [10, 23, 23, 26, 17, 5, 53, 55, 32, 46, 10, 8, 10, 8, 23, 0, 3, 22, 15, 32, 3],
    "n": [39, 62, 81, 51, 39, 6, 74, 72, 51, 79, 13, 16, 30, 28, 45, 4, 12, 41, 30, 51, 7],
    "seed": [0.0] * 11 + [1.0] * 10,
    "root": [0.0] * 5 + [1.0] * 6 + [0.0] * 5 + [1.0] * 5,
}  # fmt: skip
BETA_BINOMIAL = {
    "logit": (
        [-0.385447573930296, -0.342484186274511, 1.011017154770613, 3.924480131796320],
        [0.161280862072, 0.210627815295, 0.201997707603, 0.747156586259],
        -55.8318313288269,
    ),
    "cloglog": (
        [-0.662744350063642, -0.269670019697211, 0.739432916090904, 3.982799030396040],
        [0.121802702442, 0.148883417463, 0.144222894443, 0.763159951234],
        -55.477795680971,
    ),
}


@pytest.mark.parametrize("link", BETA_BINOMIAL)
def test_a_beta_binomial_regression_is_that_of_glmmtmb(link):
    estimates, errors, log_likelihood = BETA_BINOMIAL[link]
    model = pr.Model.from_formula(
        "p(k, n) ~ seed + root", SEEDS, likelihood=f"beta_binomial(link={link})"
    )
    fit = pr.fit(model)
    phi = fit.aux["phi"]
    ours = np.append(fit.coef, np.log(phi))
    np.testing.assert_array_less(np.abs(ours - estimates) / errors, 1e-6)
    own = np.append(fit.std_error, fit.solution.aux_sd["phi"] / phi)
    np.testing.assert_allclose(own, errors, rtol=1e-5)
    assert fit.log_likelihood == pytest.approx(log_likelihood, abs=1e-8)


@pytest.mark.slow
def test_trials_without_overdispersion_name_the_binomial_model():
    table = {"k": [2, 3, 4, 5, 6, 7, 8, 8], "n": [10] * 8, "x": np.arange(8.0)}
    model = pr.Model.from_formula("p(k, n) ~ x", table, likelihood="beta_binomial")
    with pytest.warns(pr.ProbregWarning, match="phi runs to infinity: the Binomial"):
        fit = pr.fit(model)
    with pytest.raises(pr.Incompatible, match=r"phi.*at infinity"):
        pr.fit(model, "nuts")
    binomial = pr.fit(
        pr.Model.from_formula("p(k, n) ~ x", table, likelihood="binomial")
    )
    np.testing.assert_allclose(fit.coef, binomial.coef, rtol=1e-5)
    # all but phi is that of the limit
    assert fit.solution.status is Status.AT_INFINITY
    assert fit.log_likelihood == pytest.approx(binomial.log_likelihood, rel=1e-9)
    for kind in ("wald", "profile"):
        found, expected = fit.interval(kind=kind), binomial.interval(kind=kind)
        for end in ("lower", "upper"):
            np.testing.assert_allclose(found[end], expected[end], rtol=1e-4)
    found, expected = fit.predict(table), binomial.predict(table)
    for column in ("mean", "mean_std_error", "mean_lower"):
        np.testing.assert_allclose(found[column], expected[column], rtol=1e-4)
    with pytest.raises(DataError, match="two trials"):
        pr.Model.from_formula(
            "p(k, n) ~ x",
            table | {"k": [0, 1] * 4, "n": [1] * 8},
            likelihood="beta_binomial",
        )


@pytest.mark.parametrize("bad", [0.0, 1.0])
def test_proportions_of_zero_or_one_are_named_with_a_remedy(bad):
    y = np.array([0.2, 0.4, bad, 0.5])
    with pytest.raises(DataError, match="between 0 and 1") as error:
        pr.Model.from_arrays(np.arange(4.0), y, likelihood="beta")
    assert "Binomial" in str(error.value)


@pytest.mark.parametrize(
    ("likelihood", "name", "shape"),
    [
        (pr.Weibull(), "weibull_min", 5.0),
        (pr.LogLogistic(), "fisk", 5.0),
        (pr.LogNormal(), "lognorm", 0.2),
    ],
)
def test_variances_of_times_are_those_of_scipy(likelihood, name, shape):
    import scipy.stats

    eta = np.array([[0.3], [-1.0]])
    variance = likelihood.response_variance(eta, **{likelihood.nuisance[0]: 0.2})
    distribution = getattr(scipy.stats, name)(shape, scale=np.exp(eta[:, 0]))
    np.testing.assert_allclose(variance, distribution.var(), rtol=1e-12)


def test_a_gamma_regression_by_the_inverse_link_is_that_of_r(certified):
    result = certified("families/gamma_inverse_clotting")
    table = pd.read_csv(reference_path("families/data/clotting.csv"))
    model = pr.Model.from_formula(
        result["formula"], table, likelihood="gamma(link=inverse)"
    )
    fit = pr.fit(model)
    check_fit(fit, result, "expected")
    errors = np.sqrt(np.diag(fit.covariance("dispersion")))
    printed = [*result["se_pearson_dispersion"].values()]
    np.testing.assert_allclose(errors, printed, rtol=1e-6)
    mean = fit.predict(table)["mean"]
    np.testing.assert_allclose(mean, result["fitted"], rtol=1e-8)


def test_pearson_residuals_need_a_finite_variance():
    table = {"t": [1.0, 9.0, 0.2, 30.0, 2.0, 0.1], "x": [0.0, 1.0, 0.0, 1.0, 2.0, 2.0]}
    table |= {"event": [1, 1, 0, 1, 1, 1]}
    formula = "cens(t, event) ~ x"
    model = pr.Model.from_formula(formula, table, likelihood="log_logistic")
    fit = pr.fit(model)
    assert fit.aux["scale"] > 0.5  # an infinite variance
    with pytest.raises(pr.Incompatible, match=r"infinite[^:]*: use 'quantile'"):
        fit.residuals("pearson")


def test_deviance_residuals_have_the_signs_of_response_residuals():
    """The mean 1 / eta falls with the linear predictor."""
    table = {"y": [1.0, 3.0, 1.5, 2.0], "x": [0.0, 1.0, 2.0, 3.0]}
    likelihood = "gamma(link=inverse)"
    fit = pr.fit(pr.Model.from_formula("y ~ x", table, likelihood=likelihood))
    signs = np.sign(fit.residuals("deviance"))
    np.testing.assert_array_equal(signs, np.sign(fit.residuals("response")))
