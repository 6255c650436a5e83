"""Jeffreys' prior: closed forms of its mode, its slope, its invariance, and the same density everywhere."""

import numpy as np
import pytest

import probreg as pr
from probreg.priors import Flat

GRID = np.array([[0.4, -0.3], [-0.2, 0.1], [0.3, 0.2]])


def three(likelihood: pr.likelihoods.Likelihood, **more: object) -> pr.Model:
    rng = np.random.default_rng(5)
    X = rng.normal(size=(40, 2))
    y = rng.integers(0, 2 if isinstance(likelihood, pr.Bernoulli) else 3, 40)
    return pr.Model.from_arrays(
        X, y, likelihood=likelihood, prior=pr.priors.Jeffreys(), **more
    )


EACH = pytest.mark.parametrize(
    "likelihood",
    [pr.Bernoulli(), pr.Poisson(), pr.Categorical(), pr.Categorical(symmetric=True)],
    ids=["bernoulli", "poisson", "softmax", "symmetric"],
)


def test_half_a_success_and_half_a_failure_are_added_to_each_cell():
    """In a saturated binary model |I|^(1/2) is the product of sqrt(p (1 - p)) over the cells."""
    fit = pr.fit(
        pr.Model.from_arrays(
            [0.0] * 3 + [1.0] * 4,
            [0, 0, 1, 1, 1, 1, 1],
            likelihood="bernoulli",
            prior=pr.priors.Jeffreys(),
        )
    )
    a, b = np.log(1.5 / 2.5), np.log(4.5 / 0.5)
    np.testing.assert_allclose(fit.coef, [a, b - a], rtol=1e-9)


def test_half_a_count_is_added_to_each_cell():
    fit = pr.fit(
        pr.Model.from_arrays(
            [0.0, 0.0, 1.0, 1.0],
            [0, 0, 3, 4],
            likelihood="poisson",
            prior=pr.priors.Jeffreys(),
        )
    )
    a, b = np.log(0.5 / 2), np.log(7.5 / 2)
    np.testing.assert_allclose(fit.coef, [a, b - a], rtol=1e-9)


@EACH
def test_the_density_is_half_the_log_determinant_and_its_slope_the_modified_score(
    likelihood,
):
    model = three(likelihood)
    beta = GRID[:, : model.shape[1]]
    plain = model.with_prior(Flat())
    assert float(model.log_prior(beta)) == pytest.approx(
        0.5 * np.linalg.slogdet(plain.information(beta))[1], rel=1e-12
    )

    def log_p(v: np.ndarray) -> float:
        return float(model.log_prior(v.reshape(beta.shape)))

    _, g, H = model.joint.value_grad_hessian(beta, 1.0)
    unit = np.eye(beta.size)
    numeric = [
        (log_p(beta.ravel() + 1e-5 * e) - log_p(beta.ravel() - 1e-5 * e)) / 2e-5
        for e in unit
    ]
    np.testing.assert_allclose(g[:-1], numeric, atol=1e-8)
    slopes = [
        (
            model.joint.value_grad_hessian(
                (beta.ravel() + s * 1e-4 * e).reshape(beta.shape), 1.0
            )[1][:-1]
        )
        for e in unit
        for s in (1, -1)
    ]
    np.testing.assert_allclose(
        H[:-1, :-1], -(np.array(slopes[::2]) - np.array(slopes[1::2])) / 2e-4, atol=1e-6
    )


@EACH
def test_the_mode_does_not_depend_on_the_columns_that_carry_it(likelihood):
    model = three(likelihood)
    A = np.array([[2.0, 0.3], [-1.0, 0.7]])
    y = np.array(model.likelihood.levels or range(3))[model.design.y.astype(int)]
    other = pr.Model.from_arrays(
        model.design.X[:, 1:] @ A + 3.0,
        y,
        likelihood=likelihood,
        prior=pr.priors.Jeffreys(),
    )
    np.testing.assert_allclose(
        pr.fit(model).predict()["mean"], pr.fit(other).predict()["mean"], atol=1e-8
    )


@pytest.mark.parametrize(
    "noise", [pr.Gaussian(), pr.StudentT(4.0)], ids=["gaussian", "student"]
)
def test_a_location_has_no_bias_to_take_out(noise):
    X, y = np.arange(6.0), np.array([1.0, 0.0, 2.0, 1.5, 3.0, 2.0])
    model = pr.Model.from_arrays(X, y, likelihood=noise, prior=pr.priors.Jeffreys())
    assert model.flat
    np.testing.assert_array_equal(
        pr.fit(model).coef, pr.fit(model.with_prior(Flat())).coef
    )


def test_weights_are_copies_in_the_information_too():
    X, y, w = (
        np.array([0.0, 1.0, 2.0, 3.0]),
        np.array([0, 1, 0, 1]),
        np.array([3, 1, 2, 4]),
    )
    one = pr.fit(
        pr.Model.from_arrays(
            X, y, likelihood="bernoulli", weights=w, prior=pr.priors.Jeffreys()
        )
    )
    two = pr.fit(
        pr.Model.from_arrays(
            np.repeat(X, w),
            np.repeat(y, w),
            likelihood="bernoulli",
            prior=pr.priors.Jeffreys(),
        )
    )
    np.testing.assert_allclose(one.coef, two.coef, rtol=1e-9)
    np.testing.assert_allclose(one.covariance(), two.covariance(), rtol=1e-6)


@EACH
def test_pymc_says_the_same_density(likelihood):
    model = three(likelihood)
    beta = GRID[:, : model.shape[1]]
    graph = model.to_pymc()
    point = {
        c: v if model.likelihood.outcomes else v[0]
        for c, v in zip(model.design.columns, beta)
    }
    logp = float(graph.compile_logp(mode="FAST_COMPILE")(point))
    assert logp == pytest.approx(float(model.log_posterior(beta)), rel=1e-8)


def test_it_is_one_prior_of_all_columns():
    with pytest.raises(pr.DataError, match="one of all columns together"):
        pr.Model.from_arrays(
            [0.0, 1.0, 2.0],
            [0, 1, 0],
            columns=["x"],
            likelihood="bernoulli",
            prior={"x": pr.priors.Jeffreys()},
        )
    with pytest.raises(pr.DataError, match="has no draws"):
        three(pr.Bernoulli()).joint.sample_with_hyper(np.random.default_rng(0), (3, 1))


def test_columns_that_are_combinations_are_named():
    x = np.array([0.0, 1.0, 2.0, 3.0, 4.0])
    model = pr.Model.from_arrays(
        np.stack([x, 2 * x], 1),
        [0, 1, 0, 1, 1],
        columns=["x", "z"],
        likelihood="bernoulli",
        prior=pr.priors.Jeffreys(),
    )
    for method in ("newton", "laplace", "nuts"):
        with pytest.raises(pr.Incompatible, match="z = 2 x"):
            pr.fit(model, method)


@pytest.mark.slow
def test_penguins_apart_by_their_bills():
    """Maximum likelihood is refused in words; Jeffreys' and normal priors have finite modes and profile intervals."""
    table = pr.load_dataset("penguins").dropna()
    two = table[table["species"].isin(["Adelie", "Gentoo"])]
    model = pr.Model.from_formula(
        "species ~ bill_length_mm + bill_depth_mm", two, likelihood="bernoulli"
    )
    with pytest.warns(
        pr.ProbregWarning,
        match="no maximum likelihood estimate exists.*complete separation by",
    ):
        ml = pr.fit(model)
    assert np.isnan(ml.std_error).all()
    with pytest.raises(pr.NotConverged, match="no interval"):
        ml.interval()
    for prior in (pr.priors.Jeffreys(), pr.Normal(2.5, scaled=True)):
        fit = pr.fit(model.with_prior(prior))
        for kind in ("wald", "profile"):
            ends = fit.interval(0.95, kind)
            assert np.isfinite(ends["lower"]).all()
            assert np.isfinite(ends["upper"]).all()
            assert (ends["lower"] < fit.coef).all()
            assert (fit.coef < ends["upper"]).all()
        # the arm that points to infinity is the longer one, which a Wald interval cannot show
        length = fit.interval(0.95, "profile").sel(coef="bill_length_mm")
        assert (
            length["upper"] - fit.coef.sel(coef="bill_length_mm")
            > fit.coef.sel(coef="bill_length_mm") - length["lower"]
        )
