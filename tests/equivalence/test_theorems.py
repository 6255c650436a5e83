"""Theorems that tie two routes to one number: each side is computed by code that does not know the other."""

from typing import Any

import numpy as np
import pytest
from scipy import stats

import probreg as pr
from probreg.inference.sampling.density import SampledDensity
from probreg.priors import Normal

Array = np.ndarray


def data(n: int = 40, seed: int = 21) -> tuple[Array, Array]:
    rng = np.random.default_rng(seed)
    X = rng.normal([50.0, 0.3, -2.0], [3.0, 0.5, 1.0], (n, 3))
    return X, X @ [0.2, -1.5, 0.7] + rng.normal(0, 1.3, n)


def counts(n: int = 80) -> tuple[Array, Array, Array]:
    rng = np.random.default_rng(22)
    X = rng.normal(size=(n, 2))
    eta = 0.4 + X @ [0.5, -0.3]
    return (
        X,
        rng.poisson(np.exp(eta)),
        (rng.random(n) < 1 / (1 + np.exp(-eta))).astype(int),
    )


# ---- least squares -------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("method", ["closed_form", "conjugate"])
def test_the_flat_gaussian_posterior_is_the_classical_t_interval(method):
    X, y = data()
    fit = pr.fit(pr.Model.from_arrays(X, y), method)
    A = np.c_[np.ones(len(y)), X]
    beta, rss, *_ = np.linalg.lstsq(A, y)
    df = len(y) - 4
    se = np.sqrt(rss[0] / df * np.diagonal(np.linalg.inv(A.T @ A)))
    # lstsq's condition number is 1e3
    np.testing.assert_allclose(fit.coef, beta, rtol=1e-10)
    for prob in (0.5, 0.95, 0.999):
        t = stats.t.ppf(0.5 + prob / 2, df)
        for end, sign in (("lower", -1), ("upper", 1)):
            np.testing.assert_allclose(
                fit.interval(prob)[end], beta + sign * t * se, rtol=1e-9
            )
    sd = se if method == "closed_form" else se * np.sqrt(df / (df - 2))
    np.testing.assert_allclose(fit.std_error, sd, rtol=1e-9)


def test_sigma_of_least_squares():
    X, y = data()
    fit = pr.fit(pr.Model.from_arrays(X, y), "closed_form")
    A = np.c_[np.ones(len(y)), X]
    rss, n = float(((y - A @ np.linalg.lstsq(A, y)[0]) ** 2).sum()), len(y)
    assert fit.aux["sigma"] == pytest.approx(np.sqrt(rss / n), rel=1e-11)
    assert fit.solution.stats["sigma_unbiased"] == pytest.approx(
        np.sqrt(rss / (n - 4)), rel=1e-11
    )
    expected = np.sqrt(rss / stats.chi2(n - 4).ppf([0.95, 0.05]))
    assert fit.aux_interval("sigma", 0.9) == pytest.approx(expected, rel=1e-10)
    assert fit.log_likelihood == pytest.approx(
        -n / 2 * (np.log(2 * np.pi * rss / n) + 1), rel=1e-12
    )


def test_the_posterior_of_sigma_is_a_scaled_inverse_chi():
    X, y = data()
    draws = pr.fit(pr.Model.from_arrays(X, y), pr.Conjugate(draws=5000)).solution
    rss = draws.stats["rss"]
    exact = stats.chi2(len(y) - 4)
    assert (
        stats.kstest(rss / draws.draws["sigma"].ravel() ** 2, exact.cdf).pvalue > 1e-6
    )
    inverse_chi = stats.invgamma((len(y) - 4) / 2, scale=rss / 2)
    # scipy's quadrature
    assert draws.aux["sigma"] == pytest.approx(inverse_chi.expect(np.sqrt), rel=1e-7)
    assert draws.aux_sd["sigma"] == pytest.approx(
        np.sqrt(inverse_chi.mean() - inverse_chi.expect(np.sqrt) ** 2), rel=1e-5
    )


def test_draws_of_the_conjugate_posterior_are_students_t():
    X, y = data(12)
    fit = pr.fit(pr.Model.from_arrays(X, y), pr.Conjugate(draws=5000))
    beta, s = fit.solution.draws["beta"][..., 0].reshape(-1, 4), fit.solution
    t = (beta - s.beta[:, 0]) / s.scale.errors()
    for j in range(4):
        assert stats.kstest(t[:, j], stats.t(s.df).cdf).pvalue > 1e-6


SIGMA_UNITS = Normal((0.4, 1.1, 0.8), location=(0.1, -0.5, 0.3), sigma_units=True)


@pytest.mark.parametrize(
    "sigma",
    [pr.priors.Reference(), pr.priors.Uniform(), pr.priors.InverseGamma(2.5, 0.6)],
    ids=lambda p: p.name,
)
@pytest.mark.parametrize("prior", [pr.Flat(), SIGMA_UNITS], ids=["flat", "normal"])
def test_conjugate_is_quadrature(prior, sigma):
    X, y = data()
    model = pr.Model.from_arrays(X, y, prior=prior, aux={"sigma": sigma})
    a, b = pr.fit(model, "conjugate"), pr.fit(model, "quadrature")
    np.testing.assert_allclose(a.coef, b.coef, rtol=1e-9)
    np.testing.assert_allclose(a.covariance(), b.covariance(), rtol=1e-8)
    assert a.aux["sigma"] == pytest.approx(b.aux["sigma"], rel=1e-9)
    assert a.solution.aux_sd["sigma"] == pytest.approx(
        b.solution.aux_sd["sigma"], rel=1e-7
    )
    assert (
        stats.ks_2samp(
            a.solution.draws["sigma"].ravel(), b.solution.draws["sigma"].ravel()
        ).pvalue
        > 1e-6
    )


@pytest.mark.parametrize(
    "prior",
    [Normal(0.6, location=0.2), Normal(0.6, location=0.2, sigma_units=True)],
    ids=["raw", "units"],
)
def test_quadrature_is_a_grid(prior):
    """Four rows, one column, a half-Cauchy on sigma: a grid over (beta, log sigma) summed by hand."""
    x, y, tau = np.array([-1.0, 0.2, 0.9, 2.0]), np.array([-0.8, 0.9, 0.4, 2.9]), 0.7
    model = pr.Model.from_arrays(
        x, y, intercept=False, prior=prior, aux={"sigma": pr.priors.HalfCauchy(tau)}
    )
    fit = pr.fit(model, "quadrature")
    v, u = np.linspace(-9, 9, 1801)[:, None], np.linspace(-6, 6, 1201)
    b, s = (
        0.9 + 0.3 * np.sinh(v),
        np.exp(u),
    )  # wide enough for a prior whose scale is 0.6 sigma
    scale = 0.6 * (s if prior.sigma_units else 1.0)
    log_p = stats.norm(0.2, scale).logpdf(b) + stats.halfcauchy(scale=tau).logpdf(s) + u
    log_p = log_p + sum(stats.norm(b * xi, s).logpdf(yi) for xi, yi in zip(x, y))
    p = np.exp(log_p) * 0.3 * np.cosh(v)
    cell = (v[1, 0] - v[0, 0]) * (u[1] - u[0])
    assert fit.solution.stats["log_evidence"] == pytest.approx(
        np.log(p.sum() * cell), abs=1e-6
    )
    p /= p.sum()
    mean, sigma = (p * b).sum(), (p * s).sum()
    # the grid ends at sigma = e^6, beyond which lie 1e-8 of the mass and 1e-5 of a variance
    assert fit.coef.item(0) == pytest.approx(mean, rel=1e-5)
    assert fit.std_error.item(0) == pytest.approx(
        np.sqrt((p * (b - mean) ** 2).sum()), rel=1e-4
    )
    assert fit.aux["sigma"] == pytest.approx(sigma, rel=1e-4)


@pytest.mark.parametrize(
    "prior",
    [pr.Flat(), Normal(0.6, location=0.2), SIGMA_UNITS],
    ids=["flat", "raw", "units"],
)
def test_the_laplace_approximation_is_exact_where_the_posterior_is_normal(prior):
    X, y = data()
    model = pr.Model.from_arrays(X, y, prior=prior, aux={"sigma": 1.4})
    exact, laplace = pr.fit(model, "conjugate"), pr.fit(model, "laplace")
    np.testing.assert_allclose(laplace.coef, exact.coef, rtol=1e-8)
    np.testing.assert_allclose(laplace.covariance(), exact.covariance(), rtol=1e-7)
    log_q = laplace.solution.draws.stats["log_q"]
    log_p = model.log_posterior(laplace.solution.draws["beta"])
    assert np.ptp(log_p - log_q) < 1e-6  # log p - log q is the evidence, in every draw
    if model.joint.informative.all():
        assert (log_p - log_q).mean() == pytest.approx(
            exact.solution.stats["log_evidence"], rel=1e-9
        )


@pytest.mark.parametrize("aux", [{}, {"sigma": 1.4}], ids=["unknown", "given"])
@pytest.mark.parametrize(
    "prior",
    [pr.Flat(), Normal(0.6, location=0.2), SIGMA_UNITS],
    ids=["flat", "raw", "units"],
)
def test_newton_is_the_closed_form(prior, aux):
    X, y = data()
    model = pr.Model.from_arrays(X, y, prior=prior, aux=aux)
    newton = pr.fit(model, "newton")
    if pr.ClosedForm().obstacle(model) is not None:
        assert not aux
        # given its own sigma the joint mode is the closed form
        model = model.with_aux(sigma=newton.aux["sigma"])
    closed = pr.fit(model, "closed_form")
    np.testing.assert_allclose(newton.coef, closed.coef, rtol=1e-8)
    assert newton.aux["sigma"] == pytest.approx(closed.aux["sigma"], rel=1e-8)
    assert newton.log_likelihood == pytest.approx(closed.log_likelihood, rel=1e-10)
    if aux:
        np.testing.assert_allclose(newton.covariance(), closed.covariance(), rtol=1e-7)


def test_the_penalised_closed_form_is_the_ridge_formula():
    """(X'X + lam I)^-1 X'y for RSS + lam |w|^2, lam read off the prior, the intercept left alone."""
    X, y = data()
    prior, sigma = Normal(0.3), 1.4
    fit = pr.fit(
        pr.Model.from_arrays(X, y, prior=prior, aux={"sigma": sigma}), "closed_form"
    )
    lam = 2 * sigma**2 * prior.penalty_weight(1)[0]
    Xc, yc = X - X.mean(0), y - y.mean()
    w = np.linalg.solve(Xc.T @ Xc + lam * np.eye(3), Xc.T @ yc)
    np.testing.assert_allclose(fit.coef[1:], w, rtol=1e-10)
    assert fit.coef.item(0) == pytest.approx(y.mean() - X.mean(0) @ w, rel=1e-10)


def test_the_joint_mode_of_ridge_is_where_both_conditions_hold():
    """beta given sigma is ridge, and sigma^2 = (RSS + lam |w|^2) / (n + q) in units of sigma, RSS / n in raw units."""
    X, y = data()
    for units in (True, False):
        prior = Normal(0.5, sigma_units=units)
        fit = pr.fit(pr.Model.from_arrays(X, y, prior=prior), "newton")
        w = fit.coef.values
        rss, n = float(((y - w[0] - X @ w[1:]) ** 2).sum()), len(y)
        square = (rss + (w[1:] ** 2).sum() / 0.25) / (n + 3) if units else rss / n
        assert fit.aux["sigma"] == pytest.approx(np.sqrt(square), rel=1e-8)


def test_moments_merged_are_the_fit_on_all_rows():
    X, y = data(60)
    parts = [
        pr.Model.from_arrays(X[i], y[i]).design.moments
        for i in (slice(0, 25), slice(25, 60))
    ]
    whole = pr.Model.from_arrays(X, y)
    merged = pr.Model(type(whole.design)(
        X=np.zeros((0, 4)), y=np.zeros(0), columns=whole.design.columns,
        recipe=whole.design.recipe, kept=parts[0] + parts[1],
    ), pr.Gaussian())  # fmt: skip
    for method in ("closed_form", "conjugate"):
        a, b = pr.fit(merged, method), pr.fit(whole, method)
        np.testing.assert_allclose(a.coef, b.coef, rtol=1e-11)
        np.testing.assert_allclose(a.covariance(), b.covariance(), rtol=1e-9)
        np.testing.assert_allclose(
            a.interval(0.9).to_array(), b.interval(0.9).to_array(), rtol=1e-10
        )


# ---- other likelihoods ---------------------------------------------------------------------------------------------


def test_a_softmax_of_two_classes_is_logistic_regression():
    X, _, y = counts()
    for prior in (pr.Flat(), Normal(0.7)):
        two = pr.fit(pr.Model.from_arrays(X, y, likelihood="categorical", prior=prior))
        one = pr.fit(pr.Model.from_arrays(X, y, likelihood="bernoulli", prior=prior))
        np.testing.assert_allclose(two.coef[:, 0], one.coef, rtol=1e-8)
        np.testing.assert_allclose(two.covariance(), one.covariance(), rtol=1e-7)
        assert two.log_likelihood == pytest.approx(one.log_likelihood, rel=1e-12)
        for part in ("mean", "mean_lower", "mean_upper"):
            np.testing.assert_allclose(
                two.predict()[part][:, 1], one.predict()[part], rtol=1e-7
            )


def test_logistic_regression_on_a_group_is_its_log_odds():
    y, g = (
        np.r_[np.ones(7), np.zeros(3), np.ones(4), np.zeros(16)],
        np.r_[np.zeros(10), np.ones(20)],
    )
    fit = pr.fit(pr.Model.from_arrays(g, y, likelihood="bernoulli"))
    np.testing.assert_allclose(
        fit.coef, [np.log(7 / 3), np.log(4 / 16) - np.log(7 / 3)], rtol=1e-10
    )
    np.testing.assert_allclose(
        fit.std_error,
        np.sqrt([1 / 7 + 1 / 3, 1 / 7 + 1 / 3 + 1 / 4 + 1 / 16]),
        rtol=1e-8,
    )


def test_poisson_regression_on_a_group_is_its_log_rate():
    """Counts with exposures: the rate of a group is its events over its exposure, the information its events."""
    y, g = np.array([3.0, 5.0, 0.0, 9.0, 4.0]), np.array([0.0, 0.0, 1.0, 1.0, 1.0])
    exposure = np.array([10.0, 20.0, 5.0, 12.0, 8.0])
    fit = pr.fit(
        pr.Model.from_arrays(g, y, likelihood="poisson", offset=np.log(exposure))
    )
    np.testing.assert_allclose(
        fit.coef, [np.log(8 / 30), np.log(13 / 25) - np.log(8 / 30)], rtol=1e-10
    )
    np.testing.assert_allclose(
        fit.std_error, np.sqrt([1 / 8, 1 / 8 + 1 / 13]), rtol=1e-8
    )
    assert fit.log_likelihood == pytest.approx(
        stats.poisson(exposure * np.r_[[8 / 30] * 2, [13 / 25] * 3]).logpmf(y).sum()
    )


def test_the_softmax_on_an_intercept_is_the_log_of_shares():
    y = np.repeat(["a", "b", "c"], [5, 3, 12])
    fit = pr.fit(
        pr.Model.from_arrays(
            np.ones((20, 1)), y, intercept=False, likelihood="categorical"
        )
    )
    np.testing.assert_allclose(fit.coef[0], np.log([3 / 5, 12 / 5]), rtol=1e-10)
    np.testing.assert_allclose(
        fit.std_error[0], np.sqrt([1 / 5 + 1 / 3, 1 / 5 + 1 / 12]), rtol=1e-8
    )


def test_student_noise_of_many_degrees_of_freedom_is_gaussian():
    X, y = data()
    t = pr.fit(
        pr.Model.from_arrays(X, y, likelihood=pr.StudentT(nu=1e6), prior=Normal(0.6)),
        "newton",
    )
    normal = pr.fit(pr.Model.from_arrays(X, y, prior=Normal(0.6)), "newton")
    # the densities differ by (r^4 + ...) / (4 nu), some 1e-6 of a standard error a row
    assert np.abs((t.coef - normal.coef) / normal.std_error).max() < 1e-4
    np.testing.assert_allclose(t.covariance(), normal.covariance(), rtol=1e-3)
    assert t.aux["sigma"] == pytest.approx(normal.aux["sigma"], rel=1e-5)


def test_an_outlier_moves_the_gaussian_line_and_not_the_students():
    x = np.linspace(0, 1, 20)
    y = 2 * x + 0.1 * np.cos(9 * x)
    y[-1] += 50
    t = (
        pr.fit(pr.Model.from_arrays(x, y, likelihood=pr.StudentT(nu=2.0)))
        .coef.sel(coef="x1")
        .item()
    )
    assert (
        abs(t - 2)
        < 0.3
        < abs(pr.fit(pr.Model.from_arrays(x, y)).coef.sel(coef="x1").item() - 2)
    )


# ---- what is said of new rows --------------------------------------------------------------------------------------


@pytest.mark.parametrize("weighted", [False, True], ids=["plain", "weighted"])
def test_intervals_at_new_rows_are_the_textbooks(certified, weighted):
    """mean -+ t s sqrt(h) and mean -+ t s sqrt(1 + h) with h = x'(X'WX)^-1 x, on R's own example of predict.lm."""
    case = certified("tables/r_lm/predict_lm_intervals")
    x, y, new = (np.array(case[k]) for k in ("x", "y", "new"))
    w = np.arange(len(x)) % 3 + 1.0 if weighted else np.ones(len(x))
    A, B = (np.c_[np.ones(len(v)), v] for v in (x, new))
    V = np.linalg.inv(A.T @ (w[:, None] * A))
    beta = V @ A.T @ (w * y)
    df = w.sum() - 2
    s2 = float(w @ (y - A @ beta) ** 2) / df
    h, mean = np.einsum("ij,jk,ik->i", B, V, B), B @ beta
    fit = pr.fit(
        pr.Model.from_arrays(x, y, weights=w if weighted else None), "closed_form"
    )
    for prob in (0.8, 0.95):
        found, t = fit.predict(new[:, None], prob), stats.t.ppf(0.5 + prob / 2, df)
        np.testing.assert_allclose(found["mean"], mean, rtol=1e-10, atol=1e-12)
        for sign, end in ((-1, "lower"), (1, "upper")):
            np.testing.assert_allclose(
                found[f"mean_{end}"], mean + sign * t * np.sqrt(s2 * h), rtol=1e-9
            )
            np.testing.assert_allclose(
                found[f"new_{end}"], mean + sign * t * np.sqrt(s2 * (1 + h)), rtol=1e-9
            )
        assert found.attrs["prob"] == prob


def test_the_posterior_predictive_of_a_flat_gaussian_is_the_textbooks_interval():
    X, y = data()
    model = pr.Model.from_arrays(X, y)
    classical = pr.fit(model, "closed_form").predict(X[:5], 0.9)
    posterior = pr.fit(model, pr.Conjugate(draws=10_000)).predict(X[:5], 0.9)
    width = classical["new_upper"] - classical["new_lower"]
    assert set(classical.data_vars) - set(posterior.data_vars) == {"mean_std_error"}
    classical = classical.drop_vars("mean_std_error")
    # 40,000 draws fix a 5 % quantile to 0.4 % of the width (five errors: 2 %)
    for name in classical.data_vars:
        assert np.abs((posterior[name] - classical[name]) / width).max() < 0.02


def test_wald_intervals_of_a_probability_are_those_of_its_logit():
    X, _, y = counts()
    fit = pr.fit(pr.Model.from_arrays(X, y, likelihood="bernoulli"))
    A = np.c_[np.ones(3), X[:3]]
    eta, se = (
        A @ fit.coef.values,
        np.sqrt(np.einsum("ij,jk,ik->i", A, fit.covariance().values, A)),
    )
    z = stats.norm.ppf(0.95)
    found = fit.predict(X[:3], 0.9)
    for sign, end in ((-1, "lower"), (1, "upper")):
        np.testing.assert_allclose(
            found[f"mean_{end}"], 1 / (1 + np.exp(-eta - sign * z * se)), rtol=1e-10
        )


# ---- sampling ------------------------------------------------------------------------------------------------------

NUTS_MODELS: dict[str, Any] = {
    "flat": {},
    "raw": {
        "prior": Normal(0.6, location=0.2),
        "aux": {"sigma": pr.priors.HalfCauchy(0.8)},
    },
    "units": {"prior": SIGMA_UNITS, "aux": {"sigma": pr.priors.InverseGamma(2.5, 0.6)}},
    "lasso": {"prior": pr.Laplace((0.5, 0.9, 1.2), location=0.1, sigma_units=True)},
    "student": {"prior": pr.priors.StudentT(0.5, nu=3.0), "aux": {"sigma": 1.4}},
    "weights": {
        "weights": np.arange(40) % 3 + 1,
        "offset": np.cos(np.arange(40)),
        "prior": Normal(0.6),
    },
}


@pytest.mark.parametrize(
    "likelihood", [pr.Gaussian(), pr.StudentT(nu=5.0)], ids=lambda v: v.name
)
@pytest.mark.parametrize("name", NUTS_MODELS)
def test_the_density_that_nuts_samples_is_the_model(name, likelihood):
    """Sufficient statistics and whitened coordinates in, the same log posterior out, up to nothing."""
    X, y = data()
    model = pr.Model.from_arrays(X, y, likelihood=likelihood, **NUTS_MODELS[name])
    density = SampledDensity.of(model)
    rng = np.random.default_rng(0)
    for _ in range(3):
        x = rng.normal(size=density.size)
        values = density.unfold(x)
        aux = {a: float(values[a]) for a in model.unknown}
        exact = float(model.log_posterior(values["beta"], **aux))
        assert density.log_prob(x)[0] == pytest.approx(
            exact + sum(np.log(v) for v in aux.values()), rel=1e-8
        )


def agrees(a: pr.Fit, b: Any, sd: Array, errors: float) -> None:
    """Means within `errors` standard deviations of the posterior, standard deviations within three times that share."""
    assert np.abs((a.coef.values - b.mean(0)) / sd).max() < errors
    np.testing.assert_allclose(b.std(0), sd, rtol=3 * errors)


@pytest.mark.slow
def test_nuts_is_the_conjugate_posterior():
    X, y = data()
    model = pr.Model.from_arrays(X, y, prior=SIGMA_UNITS)
    exact, nuts = pr.fit(model, "conjugate"), pr.fit(model, "nuts", seed=3)
    draws = nuts.solution.draws["beta"].reshape(-1, 4)
    # 4000 draws, at least 2000 effective: five errors are 0.11
    agrees(exact, draws, exact.std_error.values, 0.08)
    assert nuts.aux["sigma"] == pytest.approx(exact.aux["sigma"], rel=0.02)
    assert nuts.solution.status.good, nuts.described["status"]
