"""The standard deviation of a mean in a posterior and its standard error of an estimate, beside the slow way; predictions without intervals."""

import numpy as np
import pytest

import probreg as pr

# more rows than columns, and than one thread takes at once
NEW = np.random.default_rng(7).standard_normal((131, 2))
OFFSET = np.linspace(-1.0, 1.0, 131)


def _model(likelihood: str, **more) -> pr.Model:
    rng = np.random.default_rng(4)
    X, classes = rng.standard_normal((60, 2)), 3 if likelihood == "categorical" else 2
    y = (
        X[:, 0] + rng.standard_normal(60)
        if likelihood in ("student", "gaussian")
        else rng.integers(0, classes, 60)
    )
    return pr.Model.from_arrays(
        X, y, likelihood=likelihood, offset=np.zeros((60, classes - 1)), **more
    )


def _offset(likelihood: str) -> np.ndarray:
    return np.column_stack([OFFSET] * (2 if likelihood == "categorical" else 1))


@pytest.mark.parametrize(
    "likelihood",
    ["bernoulli", "poisson", "categorical", "student", "negative_binomial"],
)
def test_sd_of_a_posterior_is_that_of_the_means_of_its_draws(likelihood):
    aux = (
        {"aux": {"alpha": pr.HalfNormal(1.0)}}
        if likelihood == "negative_binomial"
        else {}
    )
    fit = pr.fit(_model(likelihood, prior=pr.Normal(1.0), **aux), "laplace", seed=1)
    offset = _offset(likelihood)
    means = fit.predictive(NEW, offset=offset).means()
    alone, whole = (fit.predict(NEW, prob, offset=offset) for prob in (None, 0.9))
    assert list(alone) == ["mean", "mean_sd"]
    assert "prob" not in alone.attrs
    for said in (alone, whole):
        np.testing.assert_allclose(said["mean_sd"], means.std(0, ddof=1), rtol=1e-10)
    np.testing.assert_allclose(alone["mean"], whole["mean"], rtol=1e-12)


@pytest.mark.parametrize("method", ["conjugate", "quadrature"])
def test_sd_of_a_gaussian_posterior_without_draws(method):
    model = _model("gaussian", prior=pr.Normal(1.0, sigma_units=True))
    fit = pr.fit(
        model, pr.Conjugate(draws=20_000) if method == "conjugate" else method, seed=1
    )
    said, means = (
        fit.predict(NEW[:5], None, offset=OFFSET[:5]),
        fit.predictive(NEW[:5], offset=OFFSET[:5]).means(),
    )
    # the sd of S draws of a normal has a relative error of 1 / (2 S)^(1/2)
    np.testing.assert_allclose(
        said["mean_sd"], means.std(0, ddof=1), rtol=5 / np.sqrt(2 * len(means))
    )
    assert fit.predict(NEW[:5], offset=OFFSET[:5])["mean_sd"].equals(said["mean_sd"])


@pytest.mark.parametrize(
    "likelihood", ["bernoulli", "poisson", "categorical", "student", "gaussian"]
)
def test_standard_error_of_an_estimate_is_the_gradient_of_its_mean_by_differences(
    likelihood,
):
    fit = pr.fit(_model(likelihood))
    offset = _offset(likelihood)
    X, beta = np.column_stack([np.ones(131), NEW]), fit.solution.beta
    slopes = []
    for at in np.ndindex(beta.shape):
        step = np.zeros_like(beta)
        step[at] = 1e-5
        ends = [
            fit.model.likelihood.mean(X @ (beta + s) + offset) for s in (step, -step)
        ]
        slopes.append((ends[0] - ends[1]) / 2e-5)
    G = np.stack(slopes)  # (p m, n) or (p m, n, K)
    expected = np.sqrt(
        np.einsum("a...,ab,b...->...", G, fit.solution.scale.matrix(), G)
    )
    for prob in (None, 0.9):
        np.testing.assert_allclose(
            fit.predict(NEW, prob, offset=offset)["mean_std_error"], expected, rtol=1e-6
        )


def test_standard_error_where_there_is_none():
    saturated = pr.ols([[0.0], [1.0]], [1.0, 2.0])
    kinked = pr.lasso(NEW, NEW[:, 0] + NEW[:, 1] ** 2, scale=0.1)
    for fit in (saturated, kinked):
        for prob in (None, 0.9):
            assert np.isnan(fit.predict(prob=prob)["mean_std_error"]).all()


def test_sd_of_a_process_counts_what_its_columns_leave():
    x = np.array([0.0, 1.0, 2.0, 4.0])
    model = pr.Model.from_formula("y ~ 0 + gp(x, length=1.0)", {"x": x, "y": x % 2}, prior={"gp(x)": pr.Normal(1.0)}, aux={"sigma": 0.1**0.5})  # fmt: skip
    far = pr.fit(model).predict({"x": [1.5, 10.0]}, None)
    np.testing.assert_allclose(far["mean_std_error"], [0.2856, 1.0], atol=1e-3)


def test_sd_over_nodes_of_sigma_counts_that_the_mean_moves_with_sigma():
    rng = np.random.default_rng(0)
    X = rng.standard_normal((8, 2))
    # against the prior, which a small sigma overrules
    y = 4.0 * X[:, 0] + rng.standard_normal(8)
    model = pr.Model.from_arrays(
        X, y, prior=pr.Normal(0.5), aux={"sigma": pr.priors.HalfCauchy(2.5)}
    )
    fit = pr.fit(model, pr.Quadrature(draws=50_000), seed=1)
    means = fit.predictive([[3.0, 0.0]]).means()
    # the relative error of a sd is 0.0016; without that part it would be 0.03 less
    assert len(means) >= 200_000
    np.testing.assert_allclose(
        fit.predict([[3.0, 0.0]], None)["mean_sd"], means.std(0, ddof=1), rtol=0.008
    )
