"""The negative binomial of statsmodels (NB2) on its RAND health insurance counts, and what is said where alpha runs to 0."""

import warnings

import numpy as np
import pandas as pd
import pytest
import statsmodels.api as sm
from scipy import stats

import probreg as pr
from probreg.inference.base import Status
from tests.conftest import reference_path


@pytest.fixture(scope="module")
def visits():
    table = sm.datasets.randhie.load_pandas()
    return table.exog.iloc[::10], table.endog.to_numpy()[::10]


def test_estimates_alpha_and_standard_errors_are_those_of_statsmodels(visits):
    X, y = visits
    theirs = sm.NegativeBinomial(y, sm.add_constant(X)).fit(
        disp=0, method="newton", maxiter=500, tol=1e-13
    )
    fit = pr.fit(
        pr.Model.from_arrays(
            X.to_numpy(), y, columns=list(X.columns), likelihood="negative_binomial"
        )
    )
    assert fit.solution.status is Status.CONVERGED
    ours = np.append(fit.coef, fit.aux["alpha"])
    errors = np.append(fit.std_error, fit.solution.aux_sd["alpha"])
    np.testing.assert_allclose(ours, theirs.params, rtol=1e-8, atol=1e-10)
    np.testing.assert_allclose(errors, theirs.bse, rtol=1e-8)
    assert fit.log_likelihood == pytest.approx(theirs.llf, rel=1e-12)


def test_coefficients_at_a_known_alpha_are_those_of_a_generalised_linear_model(visits):
    X, y = visits
    family = sm.families.NegativeBinomial(alpha=0.8)
    theirs = sm.GLM(y, sm.add_constant(X), family=family).fit(tol=1e-13)
    model = pr.Model.from_arrays(
        X.to_numpy(), y, likelihood="negative_binomial", aux={"alpha": 0.8}
    )
    fit = pr.fit(model)
    np.testing.assert_allclose(fit.coef, theirs.params, rtol=1e-8, atol=1e-10)
    expected = np.sqrt(np.diagonal(fit.covariance("expected")))
    np.testing.assert_allclose(expected, theirs.bse, rtol=1e-8)
    assert fit.log_likelihood == pytest.approx(theirs.llf, rel=1e-12)


@pytest.mark.parametrize("variance", ["nb1", "nb2"])
def test_both_variances_are_those_of_glmmtmb(certified, variance):
    result = certified(f"families/negative_binomial_{variance}_quine")
    table = pd.read_csv(reference_path("families/data/quine.csv"))
    fit = pr.fit(
        pr.Model.from_formula(
            result["formula"],
            table,
            likelihood=f"negative_binomial(variance={variance})",
        )
    )
    *rows, of_alpha = result["coefficients"].values()
    estimates, errors = np.array([(v["estimate"], v["se"]) for v in rows]).T
    np.testing.assert_allclose((fit.coef - estimates) / errors, 0.0, atol=1e-6)
    np.testing.assert_allclose(fit.std_error, errors, rtol=1e-5)
    log_alpha = np.log(fit.aux["alpha"]) * (1.0 if variance == "nb1" else -1.0)
    assert abs(log_alpha - of_alpha["estimate"]) < 1e-6 * of_alpha["se"]
    assert fit.log_likelihood == pytest.approx(result["logLik"], abs=1e-8)


def even(seed=0):
    """Counts that vary less than their mean: successes of ten trials."""
    rng = np.random.default_rng(seed)
    x = rng.normal(size=200)
    return x, rng.binomial(10, 1 / (1 + np.exp(-x)))


def test_alpha_that_runs_to_zero_is_said_and_the_rest_is_the_poisson_model():
    x, y = even()
    with pytest.warns(pr.ProbregWarning, match="alpha runs to 0: the Poisson model"):
        fit = pr.fit(pr.Model.from_arrays(x, y, likelihood="negative_binomial"))
    poisson = pr.fit(pr.Model.from_arrays(x, y, likelihood="poisson"))
    assert fit.solution.status is Status.AT_ZERO
    assert not fit.solution.status.good
    np.testing.assert_allclose(fit.coef, poisson.coef, rtol=1e-6)
    np.testing.assert_allclose(fit.std_error, poisson.std_error, rtol=1e-6)
    assert np.isnan(fit.solution.aux_sd["alpha"])
    assert fit.aux["alpha"] < 1e-10
    assert fit.log_likelihood == pytest.approx(poisson.log_likelihood, rel=1e-9)


def test_alpha_of_a_linear_variance_runs_to_zero_too():
    x, y = even()
    model = pr.Model.from_arrays(x, y, likelihood=pr.NegativeBinomial(variance="nb1"))
    with pytest.warns(pr.ProbregWarning, match="alpha runs to 0: the Poisson model"):
        fit = pr.fit(model)
    poisson = pr.fit(pr.Model.from_arrays(x, y, likelihood="poisson"))
    np.testing.assert_allclose(fit.coef, poisson.coef, rtol=1e-6)


@pytest.mark.parametrize(
    ("formula", "counts", "weights"),
    [
        (
            "k ~ 0 + C(g)",
            [10, 12, 11, 13, 9],
            [1, 2, 1, 3, 0],
        ),  # a level without weight
        ("k ~ C(g) + x", [96, 105, 105, 111, 99], [3, 0, 3, 0, 1]),
        ("k ~ x + z + x:z", [5, 7, 6], None),  # more columns than rows
        ("k ~ C(g)", [3, 4, 5, 4, 6], None),
    ],
)
def test_a_saturated_fit_at_alpha_zero_has_the_tests_and_measures_of_poisson(
    formula, counts, weights
):
    n = len(counts)
    rows = {
        "k": counts,
        "g": list("abcde")[:n],
        "x": np.arange(n) * 1.0,
        "z": np.cos(np.arange(n) * 1.7),
    }
    rows |= {} if weights is None else {"w": weights}
    given = {} if weights is None else {"weights": "w"}
    with pytest.warns(pr.ProbregWarning, match="alpha"):
        fit = pr.fit(
            pr.Model.from_formula(
                formula, rows, likelihood="negative_binomial", **given
            )
        )
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", pr.ProbregWarning)
        poisson = pr.fit(
            pr.Model.from_formula(formula, rows, likelihood="poisson", **given)
        )
    np.testing.assert_array_equal(np.isnan(fit.coef), np.isnan(poisson.coef))
    np.testing.assert_allclose(fit.coef, poisson.coef, rtol=1e-6, atol=1e-8)
    np.testing.assert_allclose(fit.std_error, poisson.std_error, rtol=1e-5)
    seen = {
        name: np.array(column)[np.array(weights or np.ones(n)) > 0]
        for name, column in rows.items()
    }
    np.testing.assert_allclose(
        fit.predict(seen)["mean"], poisson.predict(seen)["mean"], rtol=1e-6
    )
    str(pr.diagnose(fit)), str(fit)
    for name in fit.parameter_names:
        try:
            theirs = pr.hypothesis(poisson, f"`{name}` = 0").tests["Wald"].statistic
        except pr.Incompatible:
            with pytest.raises(pr.Incompatible):
                pr.hypothesis(fit, f"`{name}` = 0")
            continue
        assert pr.hypothesis(fit, f"`{name}` = 0").tests[
            "Wald"
        ].statistic == pytest.approx(theirs, rel=1e-5)


def test_alpha_under_a_prior_stays():
    x, y = even()
    model = pr.Model.from_arrays(
        x,
        y,
        likelihood="negative_binomial",
        aux={"alpha": pr.priors.InverseGamma(2.0, 0.2)},
    )
    assert pr.fit(model).solution.status.good


def test_a_posterior_needs_a_proper_prior_of_alpha(visits):
    X, y = visits
    model = pr.Model.from_arrays(
        X.to_numpy()[:200, :2],
        y[:200],
        likelihood="negative_binomial",
        prior=pr.Normal(1.0),
    )
    for method in ("nuts", "laplace", "importance"):
        with pytest.raises(
            pr.Incompatible,
            match=r"the posterior is improper, .*Poisson",
        ):
            pr.fit(model, method)


@pytest.mark.slow
def test_chains_and_an_approximation_agree_under_a_proper_prior_of_alpha(visits):
    X, y = visits
    model = pr.Model.from_arrays(
        X.to_numpy()[:200, :2],
        y[:200],
        likelihood="negative_binomial",
        prior=pr.Normal(1.0),
    )
    proper = model.with_aux(alpha=pr.HalfNormal(2.0))
    chains, mode = (
        pr.fit(proper, method, seed=1) for method in (pr.NUTS(draws=400), "laplace")
    )
    np.testing.assert_allclose(
        chains.coef, mode.coef, atol=0.2 * float(chains.std_error.max())
    )
    assert chains.aux["alpha"] == pytest.approx(mode.aux["alpha"], rel=0.1)


@pytest.mark.slow
def test_the_dispersion_of_a_poisson_fit_names_it_as_the_remedy():
    rng = np.random.default_rng(3)
    x = rng.normal(size=300)
    y = rng.poisson(rng.gamma(1.0, np.exp(0.5 + 0.3 * x)))
    fit = pr.fit(pr.Model.from_arrays(x, y, likelihood="poisson"))
    (said,) = pr.diagnose(fit)["dispersion"]
    assert said.verdict.name == "WARNING"
    assert "fit a NegativeBinomial likelihood" in said.remedy
    wide = pr.fit(pr.Model.from_arrays(x, y, likelihood="negative_binomial"))
    (said,) = pr.diagnose(wide)["dispersion"]
    assert said.verdict.name == "OK"
    (said,) = pr.diagnose(wide)["distribution"]
    assert said.verdict.name == "OK"
    even_x, even_y = even()
    (said,) = pr.diagnose(
        pr.fit(pr.Model.from_arrays(even_x, even_y, likelihood="poisson"))
    )["dispersion"]
    assert said.verdict.name != "OK"
    assert "NegativeBinomial" not in said.remedy  # which would not vary less


def test_jeffreys_prior_is_that_of_a_known_alpha():
    x, y = even()
    with pytest.raises(
        pr.Incompatible,
        match="Jeffreys' prior is that of the coefficients at a known alpha",
    ):
        pr.Model.from_arrays(
            x, y, likelihood="negative_binomial", prior=pr.priors.Jeffreys()
        )
    model = pr.Model.from_arrays(
        x,
        y,
        likelihood="negative_binomial",
        prior=pr.priors.Jeffreys(),
        aux={"alpha": 0.5},
    )
    fit, plain = pr.fit(model), pr.fit(model.with_prior(pr.Flat()))
    # the gradient of log |I|^(1/2) is that of the log posterior, numerically
    h = 1e-4
    beta = fit.solution.beta
    for j in range(2):
        move = np.zeros_like(beta)
        move[j] = h
        up, down = (
            np.linalg.slogdet(model.with_prior(pr.Flat()).information(beta + s * move))[
                1
            ]
            for s in (1, -1)
        )
        slope = model.with_prior(pr.Flat()).gradient(beta)[j] + (up - down) / (4 * h)
        assert abs(slope) < 1e-6 * len(y)
    assert not np.allclose(fit.coef, plain.coef, rtol=1e-6)


def test_a_mode_at_the_limit_is_compared_without_warnings_of_numpy() -> None:
    table = {"x": [0.0, 1.0, 2.0, 3.0, 4.0, 5.0], "k": [2, 3, 2, 3, 2, 3]}
    with pytest.warns(pr.ProbregWarning, match="runs to 0"):
        fit = pr.fit(pr.Model.from_formula("k ~ x", table, likelihood="negative_binomial", prior="cauchy(1)"))  # fmt: skip
    assert len(pr.compare([fit, fit]).data["param"]) == 3


def test_a_linear_variance_without_overdispersion_is_that_of_a_poisson():
    """Compiled rows take any alpha below 1e-150 for a Poisson."""
    density = pr.NegativeBinomial(variance="nb1").compiled_density
    for eta in (-3.0, 4.0):
        log_p = density.row(2.0, eta, (0.0, -400.0))[0] - np.log(2.0)
        assert log_p == pytest.approx(stats.poisson.logpmf(2, np.exp(eta)), rel=1e-12)
