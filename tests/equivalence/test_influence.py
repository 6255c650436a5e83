"""What a prior did to a fit, against closed forms."""

import numpy as np
import pytest
from scipy import stats

import probreg as pr
from probreg.comparison.prior_weight import prior_weight
from probreg.diagnostics.after.fit_arrays import arrays_of_fit
from probreg.show.plot.coefficients import prior_weight as picture

RNG = np.random.default_rng(6)
SIGMA = 0.7
X = RNG.normal(size=(40, 3)) * [1.0, 2.0, 0.5]
Y = X @ [0.5, -0.3, 1.0] + SIGMA * RNG.normal(size=40)


def gaussian(prior, **more):
    return pr.Model.from_arrays(
        X, Y, columns=["a", "b", "c"], prior=prior, aux={"sigma": SIGMA}, **more
    )


def test_shares_sum_to_what_the_hat_matrix_leaves():
    tau = np.array([0.3, 0.2, 0.6])
    found = prior_weight(pr.fit(gaussian(pr.Normal(tau), intercept=False)))
    P, J = np.diag(tau**-2.0), X.T @ X / SIGMA**2
    hat = X @ np.linalg.solve(J + P, X.T) / SIGMA**2
    assert found.effective == pytest.approx(np.trace(hat), rel=1e-10)
    V = np.linalg.inv(J + P)
    np.testing.assert_allclose(
        found.table["prior_weight"], np.diagonal(V) / tau**2, rtol=1e-9
    )
    ml = np.linalg.solve(J, X.T @ Y / SIGMA**2)
    np.testing.assert_allclose(found.table["ml"], ml, rtol=1e-9)
    mode = V @ X.T @ Y / SIGMA**2
    np.testing.assert_allclose(
        found.table["difference"],
        (mode - ml) / np.sqrt(np.diagonal(np.linalg.inv(J))),
        rtol=1e-8,
    )
    np.testing.assert_allclose(found.table["pull"], -V @ P @ mode, rtol=1e-8)


def test_the_pull_is_the_slope_of_the_mode_over_the_power_of_the_prior():
    y = (RNG.random(40) < 1 / (1 + np.exp(-X[:, 0]))).astype(int)
    model = pr.Model.from_arrays(X, y, likelihood="bernoulli", prior=pr.Normal(0.5))
    found = prior_weight(pr.fit(model)).table["pull"]
    # the prior to the power alpha has the scale 0.5 / sqrt(alpha)
    up, down = (
        pr.fit(model.with_prior(pr.Normal(0.5 / np.sqrt(1 + h)))).coef.values
        for h in (1e-4, -1e-4)
    )
    np.testing.assert_allclose(found, (up - down) / 2e-4, rtol=1e-5, atol=1e-8)


@pytest.mark.parametrize(
    "prior",
    [pr.Normal(0.1), pr.Laplace(0.1), pr.priors.Cauchy(0.05)],
    ids=lambda p: p.name,
)
def test_a_conflict_is_a_tail_of_the_prior_and_the_error_of_the_estimate(prior):
    method = (
        "conjugate"
        if prior.name == "normal"
        else "nuts"
        if prior.name == "laplace"
        else "newton"
    )
    model = gaussian(prior, intercept=False)
    fit = (
        pr.fit(model, pr.NUTS(draws=500, tune=300, chains=4), seed=1)
        if method == "nuts"
        else pr.fit(model, method)
    )
    table = prior_weight(fit).table
    if prior.name == "normal":
        z = table["ml"] / np.sqrt(0.1**2 + table["ml_se"] ** 2)
        np.testing.assert_allclose(
            table["conflict"], 2 * stats.norm.sf(np.abs(z)), atol=0.02
        )
    assert table["conflict"].between(0, 1).all()
    assert (table["conflict"] < 0.2).all()  # every estimate is many scales from zero


def test_conflict_and_weight_of_a_strong_and_of_a_weak_prior():
    found = prior_weight(
        pr.fit(gaussian({"a": pr.Normal(0.02, location=3.0), "b": pr.Normal(5.0)}))
    )
    assert found.table.loc["a", "conflict"] < 0.05
    assert found.table.loc["a", "prior_weight"] > 0.5
    assert np.isnan(found.table.loc["c", "conflict"])
    assert found.table.loc["c", "prior_weight"] == 0
    calm = prior_weight(pr.fit(gaussian(pr.Normal(3.0))))
    assert calm.table["conflict"].min() > 0.05
    assert calm.table["prior_weight"].max() < 0.5
    assert f"effective number of coefficients: {calm.effective:.3g} of 4" in repr(calm)


def binary(prior, y=None):
    y = (X[:, 0] > 0).astype(int) if y is None else y
    return pr.Model.from_arrays(
        X[:, :2], y, columns=["a", "b"], likelihood="bernoulli", prior=prior
    )


@pytest.mark.parametrize(
    "prior",
    [pr.Normal(1.0), pr.Normal(1e5), pr.priors.Jeffreys()],
    ids=["mild", "wide", "jeffreys"],
)
def test_of_separated_rows_the_prior_alone_has_an_estimate(prior):
    """A weak prior has little weight there, and is all that keeps the estimate finite."""
    found = prior_weight(pr.fit(binary(prior), "newton"))
    assert "complete separation by Intercept, a, b" in found.ml_status
    assert found.table["ml"].isna().all()
    assert found.table["conflict"].isna().all()


def test_what_is_not_defined_is_nan():
    y = (RNG.random(40) < 0.5).astype(int)
    jeffreys = prior_weight(pr.fit(binary(pr.priors.Jeffreys(), y)))
    kinked = prior_weight(pr.fit(binary(pr.Laplace(0.5), y), "proximal_newton"))
    assert jeffreys.table["conflict"].isna().all()
    assert "effective number of coefficients: not defined" in repr(kinked)
    assert kinked.table.loc[["a", "b"], "prior_weight"].isna().all()


def test_collinear_columns_are_told_as_what_they_are():
    twice = np.c_[X[:, 0], 2 * X[:, 0]]
    fit = pr.fit(
        pr.Model.from_arrays(
            twice, Y, columns=["a", "b"], prior=pr.Normal(1.0), aux={"sigma": 1.0}
        )
    )
    found = prior_weight(fit)
    assert "not identified" in found.ml_status
    assert found.table.loc[["a", "b"], "ml"].isna().all()


def test_power_scaling_stands_beside_draws_only():
    mode, post = (
        prior_weight(pr.fit(gaussian(pr.Normal(0.5)), m)).table
        for m in ("closed_form", "conjugate")
    )
    assert "prior_power" not in mode
    assert post["prior_power"].between(0, 1).all()


def test_without_a_maximum_likelihood_estimate_the_rest_stands():
    y = (X[:, 0] > 0).astype(int)
    model = pr.Model.from_arrays(
        X[:, :1], y, columns=["a"], likelihood="bernoulli", prior=pr.Normal(1.0)
    )
    found = prior_weight(pr.fit(model))
    assert np.isnan(found.table.loc["a", "difference"])
    assert np.isfinite(found.table.loc["a", "prior_weight"])
    assert "no maximum likelihood estimate exists" in found.ml_status
    jeffreys = prior_weight(pr.fit(model.with_prior(pr.priors.Jeffreys()))).table
    assert np.isnan(jeffreys["conflict"]).all()
    assert np.isfinite(jeffreys["pull"]).all()


def test_softmax_rows_are_the_reported_coefficients():
    y = np.array(["u", "v", "w"])[np.r_[0, 1, 2, RNG.integers(0, 3, 37)]]
    model = pr.Model.from_arrays(
        X, y, likelihood=pr.Categorical(symmetric=True), prior=pr.Normal(0.4)
    )
    fit = pr.fit(model)
    found = prior_weight(fit).table
    assert list(found.index) == fit.parameter_names
    np.testing.assert_allclose(found["estimate"], fit.coef.values.ravel())


def test_a_flat_model_has_no_influence_to_measure():
    for f in (prior_weight, picture):
        with pytest.raises(pr.Incompatible, match="flat"):
            f(pr.fit(gaussian(pr.Flat())))


@pytest.mark.slow  # compiles a density
def test_the_picture_draws_what_there_is():
    fit = pr.fit(
        gaussian(pr.Laplace(0.2)), pr.NUTS(draws=200, tune=200, chains=2), seed=1
    )
    axes = [ax for ax in picture(fit).axes if ax.get_visible()]
    assert [ax.get_title(loc="left") for ax in axes] == ["a", "b", "c"]
    assert [line.get_label() for line in axes[0].get_lines()[:3]] == [
        "prior",
        "likelihood",
        "posterior",
    ]
    x, y = axes[0].get_lines()[2].get_data()
    assert x[np.argmax(y)] == pytest.approx(
        fit.coef.values[1], abs=0.5 * fit.std_error.values[1]
    )


def test_the_effective_number_of_a_symmetric_softmax_counts_what_can_vary():
    """trace(J (J + P)^-1) over the K - 1 predictors of each column, though K coefficients are reported."""
    y = np.r_[0, 1, 2, RNG.integers(0, 3, 37)]
    fit = pr.fit(
        pr.Model.from_arrays(
            X, y, likelihood=pr.Categorical(symmetric=True), prior=pr.Normal(0.4)
        )
    )
    found, beta = prior_weight(fit), fit.solution.beta
    J = fit.model.with_prior(pr.Flat()).value_grad_hessian(beta).curvature
    P = fit.model.joint.curvature(beta, 1.0)
    assert (found.free, len(found.table)) == (8, 12)
    assert found.effective == pytest.approx(
        np.trace(np.linalg.solve(J + P, J)), rel=1e-9
    )


def test_a_conflict_has_the_error_of_twenty_thousand_draws():
    table = prior_weight(pr.fit(gaussian(pr.Normal(0.3), intercept=False))).table
    z = table["ml"] / np.hypot(0.3, table["ml_se"])
    # three standard errors of a share of 20,000 draws are at most 0.011
    np.testing.assert_allclose(
        table["conflict"], 2 * stats.norm.sf(np.abs(z)), atol=0.011
    )


def test_a_heavy_tailed_prior_is_drawn_on_the_axes():
    scale = 0.5
    fit = pr.fit(gaussian(pr.priors.Cauchy(scale)))
    x, y = picture(fit).axes[0].get_lines()[0].get_data()
    assert y.max() == 1.0
    # a kernel with Silverman's bandwidth widens a density of 4,000 draws by some percent
    np.testing.assert_allclose(y, 1.0 / (1.0 + (x / scale) ** 2), atol=0.12)


def test_coordinates_of_a_fit_have_the_information_of_rows_and_prior():
    tau = np.array([0.3, 0.2, 0.6])
    fit = pr.fit(gaussian(pr.Normal(tau), intercept=False))
    back = arrays_of_fit(fit).back[:, 0]
    information = X.T @ X / SIGMA**2 + np.diag(tau**-2.0)
    np.testing.assert_allclose(back @ back.T, np.linalg.inv(information), rtol=1e-10)
