"""A column that is stored far from zero: the answer of the column less its centre, or an error that names the column."""

import numpy as np
import pandas as pd
import pytest

import probreg as pr
from probreg.data import Frame
from probreg.inference.sampling.reparameterisation import reparameterise
from probreg.likelihoods import EpsilonInsensitive, Quantile
from probreg.priors import ElasticNet, ExponentialPower, GroupLaplace

RNG = np.random.default_rng(0)
N = 60
Z, U = RNG.normal(size=(2, N))
Y = 2.0 * Z + U + 0.3 * RNG.normal(size=N)
KINDS = {
    "lasso": {"prior": pr.Laplace(0.5)},
    "lasso at a known scale": {"prior": pr.Laplace(0.5), "aux": {"sigma": 1.0}},
    "lasso in units of sigma": {"prior": pr.Laplace(0.5, sigma_units=True)},
    "lasso of standardised columns": {"prior": pr.Laplace(0.5, scaled=True)},
    "elastic net": {"prior": ElasticNet(0.5, 0.5)},
    "group lasso": {"prior": {("x", "u"): GroupLaplace(0.5)}},
    "power": {"prior": ExponentialPower(0.5, q=1.5)},
    "ridge": {"prior": pr.Normal(0.5)},
    "quantile": {"likelihood": Quantile(0.5)},
    "support vectors": {
        "likelihood": EpsilonInsensitive(0.1),
        "aux": {"scale": 1.0},
        "prior": pr.Normal(1.0),
    },
    "huber": {"likelihood": "huber", "prior": pr.Laplace(0.5)},
    "student": {"likelihood": pr.StudentT(nu=4.0), "prior": pr.Normal(0.5)},
    "bernoulli lasso": {"likelihood": "bernoulli", "prior": pr.Laplace(0.5)},
    "bernoulli ridge": {"likelihood": "bernoulli", "prior": pr.Normal(0.5)},
}


def model(kind, x):
    options = KINDS[kind]
    y = (Y > 0) * 1 if options.get("likelihood") == "bernoulli" else Y
    return pr.Model.from_formula("y ~ x + u", {"x": x, "u": U, "y": y}, **options)


def slopes(fit):
    return np.ravel(fit.coef.sel(coef=["x", "u"]))


@pytest.mark.parametrize("far", [1e6, 3e12])
@pytest.mark.parametrize("kind", KINDS)
def test_a_shift_leaves_the_slopes_alone(kind, far):
    stored = far + Z
    # y - x'beta rounds to eps far |beta| times some terms, in units of a noise of 0.3
    np.testing.assert_allclose(
        slopes(pr.fit(model(kind, stored))),
        slopes(pr.fit(model(kind, stored - far))),
        atol=1e-6 + 10.0 * np.finfo(float).eps * far,
    )


@pytest.mark.parametrize("kind", [k for k in KINDS if k != "quantile"])
def test_a_column_without_digits_is_named(kind):
    with pytest.raises(pr.DataError, match="'x'"):
        pr.fit(model(kind, 2e13 + Z))


def test_a_column_without_digits_and_prior_is_not_identified():
    with pytest.warns(pr.errors.ProbregWarning):
        fit = pr.fit(model("quantile", 1e14 + Z))
    assert np.isnan(slopes(fit)[0])
    assert "x" in fit.solution.detail


def test_a_constant_column_far_from_zero_keeps_its_prior():
    fit = pr.fit(model("lasso", np.full(N, 1e14)))
    assert slopes(fit)[0] == 0.0


def test_quantile_errors_do_not_depend_on_the_shift():
    near, far = (pr.fit(model("quantile", (1e6 + Z) - by)) for by in (1e6, 0.0))
    np.testing.assert_allclose(
        np.ravel(far.std_error)[1:], np.ravel(near.std_error)[1:], rtol=1e-6
    )


def test_rows_of_files(tmp_path):
    def fitted(far):
        pd.DataFrame({"x": far + Z, "u": U, "y": Y}).to_parquet(tmp_path / "a.parquet")
        return pr.fit(
            pr.Model.from_files(
                "y ~ x + u", tmp_path / "a.parquet", prior=pr.Laplace(0.5)
            )
        )

    expected = slopes(pr.fit(model("lasso", (1e6 + Z) - 1e6)))
    np.testing.assert_allclose(slopes(fitted(1e6)), expected, atol=1e-6)
    with pytest.raises(pr.DataError, match="'x'"):
        fitted(2e13)


def horseshoe_model(shift, likelihood="gaussian"):
    rng = np.random.default_rng(0)
    X = rng.normal(size=(60, 3))
    y = X @ [1.0, 0.0, 0.5] + rng.normal(size=60)
    if likelihood == "bernoulli":
        y = (y > 0).astype(int)
    X[:, 0] += shift
    columns = ("a", "b", "c")
    return pr.Model.from_arrays(
        X,
        y,
        columns=list(columns),
        likelihood=likelihood,
        prior={columns: pr.priors.Horseshoe()},
    )


@pytest.mark.parametrize("likelihood", ["gaussian", "bernoulli"])
@pytest.mark.parametrize("shift", [1e3, 1e6, 1e9])
def test_coordinates_of_a_sampler_do_not_depend_on_the_origin(shift, likelihood):
    """The intercept follows the slopes, so that its scale and its value at slopes of zero stay the same."""
    here = reparameterise(horseshoe_model(0.0, likelihood))
    there = reparameterise(horseshoe_model(shift, likelihood))
    np.testing.assert_allclose(there.A, here.A, atol=1e-5)
    # an intercept of 1e9 has seven digits behind the point
    np.testing.assert_allclose(there.centre, here.centre, atol=1e-5)
    assert there.regression[0, 0] == pytest.approx(here.regression[0, 0] - shift)


@pytest.mark.filterwarnings("ignore::probreg.ProbregWarning")
@pytest.mark.slow
def test_a_horseshoe_starts_at_columns_far_from_zero():
    fit = pr.fit(horseshoe_model(1e9), pr.NUTS(draws=20, tune=50, chains=1), seed=1)
    assert np.isfinite(fit.coef).all()


def test_a_frame_of_some_columns_has_their_rows():
    x = np.linspace(1e5, 1e5 + 10.0, 50)
    X = np.column_stack([np.ones(50), np.sin(x), x, x**2])
    frame = Frame.of(X.mean(0), X.std(0), 0).with_mix(X, np.array([2, 3]))
    assert frame.mixed.tolist() == [2, 3]
    places = np.array([0, 2, 3])
    part = frame.of_columns(places)
    np.testing.assert_allclose(
        part.rows(X[:, places]), frame.rows(X)[:, places], atol=1e-9
    )


def test_newton_solves_columns_that_differ_in_the_twelfth_digit():
    rng = np.random.default_rng(2)
    x, z = rng.normal(size=(2, 200))
    near = x + 1e-12 * z
    counts = rng.poisson(np.exp(0.3 * x))
    fit = pr.poisson(np.c_[x, near], counts, columns=["x", "near"])
    apart = pr.poisson(np.c_[x, (near - x) * 1e12], counts, columns=["x", "z"])
    assert fit.log_likelihood == pytest.approx(apart.log_likelihood, abs=1e-3)
    assert fit.std_error.values[2] == pytest.approx(
        1e12 * apart.std_error.values[2], rel=1e-3
    )
