"""What is said of new rows: exact distributions against draws, and rows that collinear columns leave with an estimate."""

from typing import Any

import numpy as np
import pytest
from scipy import stats

import probreg as pr
from probreg.likelihoods import Gaussian
from probreg.model.predictive import Predictive
from probreg.priors import Normal

Array = np.ndarray


def data(n: int = 30) -> tuple[Array, Array]:
    rng = np.random.default_rng(41)
    X = rng.normal(size=(n, 2))
    return X, 1.0 + X @ [0.7, -0.4] + rng.normal(0, 1.2, n)


NEW = np.array([[0.2, -0.3], [1.5, 0.4], [4.0, -6.0]])


# ---- closed forms --------------------------------------------------------------------------------------------------


CLOSED: dict[str, dict[str, Any]] = {
    "flat": {},
    "relative": {"prior": Normal(0.3, sigma_units=True)},
    "inverse_gamma": {
        "prior": Normal(0.3, sigma_units=True),
        "aux": {"sigma": pr.priors.InverseGamma(3.0, 2.0)},
    },
    "given": {"prior": Normal(0.3), "aux": {"sigma": 0.9}},
}


@pytest.mark.parametrize("name", CLOSED)
@pytest.mark.parametrize("offset", [False, True])
def test_the_exact_predictive_is_that_of_the_draws(name, offset):
    X, y = data()
    shift = np.linspace(-1, 1, len(y)) if offset else None
    model = pr.Model.from_arrays(X, y, offset=shift, **CLOSED[name])
    fit = pr.fit(model, pr.Conjugate(draws=20_000), seed=3)
    at = {"offset": np.array([0.5, 0.0, -2.0])} if offset else {}
    exact, drawn = fit.predict(NEW, 0.8, **at), fit.predictive(NEW, **at)
    mean = drawn.means()
    # A quantile of 80,000 draws near 10 % has a standard error of 0.0061 sd of them; five of these.
    for found, expected in zip(
        (exact["mean"], exact["mean_lower"], exact["mean_upper"]),
        (mean.mean(0), *np.quantile(mean, [0.1, 0.9], axis=0)),
    ):
        assert (np.abs(found.values - expected) < 0.031 * mean.std(0)).all()
    np.testing.assert_allclose(
        drawn.cdf(exact["new_lower"].values), 0.1, atol=5 * 0.3 / np.sqrt(80_000)
    )
    np.testing.assert_allclose(
        drawn.cdf(exact["new_upper"].values), 0.9, atol=5 * 0.3 / np.sqrt(80_000)
    )


def test_a_flat_posterior_predicts_as_least_squares_does():
    model = pr.Model.from_arrays(*data())
    ml, posterior = (
        pr.fit(model, "closed_form").predict(NEW),
        pr.fit(model, pr.Conjugate(draws=2)).predict(NEW),
    )
    for part in ml.drop_vars("mean_std_error"):
        np.testing.assert_allclose(posterior[part], ml[part], rtol=1e-10)
    df = pr.fit(
        model, "closed_form"
    ).solution.df  # a Student-t posterior is wider than its scale
    np.testing.assert_allclose(
        posterior["mean_sd"], ml["mean_std_error"] * np.sqrt(df / (df - 2)), rtol=1e-10
    )


def test_a_saved_posterior_predicts_in_closed_form(tmp_path):
    fit = pr.fit(pr.Model.from_arrays(*data()), pr.Conjugate(draws=2))
    assert (
        pr.load_fit(fit.save(tmp_path / "fit.nc")).predict(NEW).equals(fit.predict(NEW))
    )


@pytest.mark.parametrize("prob", [0.5, 0.95])
def test_quadrature_agrees_with_the_closed_form(prob):
    """One is exact, the other from draws: 400 of them move the end of a new observation by at most some hundredths."""
    model = pr.Model.from_arrays(*data())
    one, two = (
        pr.fit(model, "conjugate").predict(NEW, prob),
        pr.fit(model, "quadrature").predict(NEW, prob),
    )
    sd = (one["new_upper"] - one["new_lower"]).values / 2
    for part in one.data_vars:
        assert (np.abs(one[part] - two[part]).values < 0.12 * sd).all(), part


# ---- the quantiles of a mixture ------------------------------------------------------------------------------------


@pytest.mark.parametrize("atoms", [1, 5, 3000])
@pytest.mark.parametrize("scale", [1e-9, 1.0, 1e9])
@pytest.mark.parametrize("prob", [1e-6, 0.025, 0.5, 0.999])
def test_quantiles_invert_the_distribution_function(atoms, scale, prob):
    rng = np.random.default_rng(atoms)
    eta = scale * (rng.normal(size=(atoms, 4, 1)) * [[0.1], [1.0], [30.0], [0.0]] + 5.0)
    p = Predictive(
        Gaussian(), eta, {"sigma": scale * np.exp(rng.normal(size=(atoms, 1)))}
    )
    np.testing.assert_allclose(p.cdf(p.quantile(prob)), prob, rtol=0, atol=1e-11)


@pytest.mark.parametrize("atoms", [1, 2000])
def test_discrete_quantiles_are_the_smallest_that_reach(atoms):
    rng = np.random.default_rng(5)
    eta = (
        rng.normal(size=(atoms, 6, 1)) * 0.8
        + np.array([-6.0, 0.0, 1.0, 3.0, 7.0, 12.0])[:, None]
    )
    p = Predictive(pr.Poisson(), eta, {})
    for prob in (1e-3, 0.3, 0.975):
        y = p.quantile(prob)
        assert (p.cdf(y) >= prob).all()
        assert (p.cdf(y - 1) < prob).all()


def test_the_quantile_of_one_normal():
    p = Predictive(Gaussian(), np.full((1, 1, 1), 3.0), {"sigma": np.full((1, 1), 2.0)})
    assert p.quantile(0.1)[0] == pytest.approx(stats.norm(3, 2).ppf(0.1), abs=1e-10)


# ---- collinear columns ---------------------------------------------------------------------------------------------


def both(likelihood: Any, method: str) -> tuple[pr.Fit, pr.Fit]:
    X, y = data()
    y = (
        y
        if likelihood == "gaussian"
        else np.digitize(y, [0.5, 1.5])
        if likelihood == "categorical"
        else y > 1.0
    )
    full = pr.Model.from_arrays(
        np.c_[X, X[:, 0] - 3 * X[:, 1] + 2], y, likelihood=likelihood
    )
    with pytest.warns(pr.ProbregWarning, match="not identified"):
        return pr.fit(full, method), pr.fit(
            pr.Model.from_arrays(X, y, likelihood=likelihood), method
        )


@pytest.mark.parametrize(
    ("likelihood", "method"),
    [
        ("gaussian", "closed_form"),
        ("gaussian", "newton"),
        ("bernoulli", "newton"),
        ("categorical", "newton"),
    ],
)
def test_what_is_estimable_is_predicted(likelihood, method):
    """X beta and its variance do not depend on which solution stands for all (Searle 1971): dropping a column is one."""
    collinear, plain = both(likelihood, method)
    rows = np.c_[NEW, NEW[:, 0] - 3 * NEW[:, 1] + 2]
    for a, b in (
        (collinear.predict(rows), plain.predict(NEW)),
        (collinear.predict(), plain.predict()),
    ):
        for part in ("mean", "mean_lower", "mean_upper"):
            np.testing.assert_allclose(a[part], b[part], rtol=1e-6, atol=1e-7)
    bad = rows + np.array([0, 0, 1e-4])
    bad[0] = rows[0]
    with pytest.raises(
        pr.Incompatible,
        match=r"2 of 3 rows have no estimate.*rows 1, 2, ",
    ):
        collinear.predict(bad)
    assert np.isfinite(collinear.solution.scale.matrix()).all()
    assert np.isnan(collinear.std_error.values).all()
    assert np.isnan(collinear.covariance().values).all()
    assert collinear.summary().iloc[: collinear.coef.size].isna().all(axis=None)


def test_least_squares_of_a_multiple():
    x = np.random.default_rng(1).normal(size=12)
    y = 2 * x + np.random.default_rng(2).normal(size=12)
    with pytest.warns(pr.ProbregWarning, match="x2 = 2 x1"):
        found = pr.ols(np.c_[x, 2 * x], y).predict()
    plain = pr.ols(x[:, None], y).predict()
    for part in plain.data_vars:
        np.testing.assert_allclose(found[part], plain[part], rtol=1e-10)


# ---- lp ------------------------------------------------------------------------------------------------------------


def test_lp_is_the_log_posterior_for_every_method():
    model = pr.Model.from_arrays(*data(), prior=Normal(1.0))
    for method in (
        pr.Quadrature(draws=3),
        pr.LaplaceApproximation(draws=3),
        pr.NUTS(draws=400),
    ):
        fit = pr.fit(model, method)
        draws = fit.solution.draws
        lp = model.log_posterior(draws["beta"], sigma=draws["sigma"])
        np.testing.assert_allclose(fit.tree["sample_stats"]["lp"], lp, rtol=1e-12)
