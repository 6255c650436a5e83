"""Lasso and elastic net of all classes of a symmetric softmax: optimality, and other routes to the same numbers."""

from typing import Any

import numpy as np
import pytest
from scipy.optimize import minimize_scalar

import probreg as pr
from probreg.priors import ElasticNet

Array = np.ndarray
SYMMETRIC = pr.Categorical(symmetric=True)


def rows(K: int, n: int = 150, p: int = 5) -> tuple[Array, Array, Array]:
    """Columns on several scales, classes 0 to K - 1, and whole-number weights."""
    rng = np.random.default_rng(3)
    X = rng.normal(size=(n, p)) * [1.0, 3.0, 0.5, 2.0, 1.0]
    scores = X @ (
        0.5 * rng.normal(size=(p, K)) * (rng.random((p, K)) < 0.5)
    ) + rng.gumbel(size=(n, K))
    X += np.array([0.0, 5.0, -1.0, 0.0, 0.0])
    return X, scores.argmax(1), rng.integers(1, 4, n)


def glmnet_prior(model: pr.Model, lam: float, alpha: float) -> Any:
    if alpha == 1.0:
        return pr.Laplace.from_lasso(lam=lam, of="glmnet", model=model)
    return ElasticNet.from_elastic_net(lam=lam, alpha=alpha, of="glmnet", model=model)


@pytest.mark.parametrize("weighted", [False, True])
@pytest.mark.parametrize("alpha", [1.0, 0.5])
@pytest.mark.parametrize("K", [2, 4])
def test_coefficients_satisfy_the_optimality_conditions_of_glmnet(
    K: int, alpha: float, weighted: bool
) -> None:
    """0 lies in d/db [-log L / N + lam sum_jk alpha |b_jk| + (1 - alpha) b_jk^2 / 2] over the coefficients of all classes."""
    X, y, w = rows(K)
    w = w if weighted else np.ones(len(y))
    model = pr.Model.from_arrays(
        X, y, likelihood=SYMMETRIC, weights=w if weighted else None
    )
    for lam in (0.2, 0.05, 0.01, 0.001):
        b = pr.fit(model.with_prior(glmnet_prior(model, lam, alpha))).coef.values
        Z = np.c_[np.ones(len(y)), X]
        P = np.exp(Z @ b)
        slope = (
            Z.T @ (w[:, None] * (P / P.sum(1, keepdims=True) - np.eye(K)[y])) / w.sum()
        )
        assert np.abs(slope[0]).max() < 1e-8
        # the intercept is free of the penalty and sums to zero
        assert abs(b[0].sum()) < 1e-12
        smooth, b = slope[1:] + lam * (1 - alpha) * b[1:], b[1:]
        off = np.where(
            b != 0,
            np.abs(smooth + lam * alpha * np.sign(b)),
            np.maximum(np.abs(smooth) - lam * alpha, 0),
        )
        assert off.max() < 1e-8


def test_a_penalised_intercept_and_a_ridge_beside_a_lasso_are_optimal() -> None:
    X, y, _ = rows(4)
    prior = {"Intercept": pr.Laplace(0.5), "x1": pr.Laplace(0.1), "x2": pr.Normal(0.3)}
    b = pr.fit(
        pr.Model.from_arrays(X, y, likelihood=SYMMETRIC, prior=prior)
    ).coef.values
    Z = np.c_[np.ones(len(y)), X]
    P = np.exp(Z @ b)
    slope = Z.T @ (P / P.sum(1, keepdims=True) - np.eye(4)[y])
    for j, weight in ((0, 2.0), (1, 10.0)):
        kink = np.where(
            b[j] != 0,
            np.abs(slope[j] + weight * np.sign(b[j])),
            np.maximum(np.abs(slope[j]) - weight, 0),
        )
        assert kink.max() < 1e-6
    np.testing.assert_allclose(slope[2], -b[2] / 0.3**2, atol=1e-6)
    np.testing.assert_allclose(b[2:].sum(1), 0.0, atol=1e-12)


@pytest.mark.parametrize(
    "prior", [pr.Laplace(0.7), ElasticNet(0.7, ratio=0.4)], ids=lambda p: p.name
)
@pytest.mark.parametrize("K", [3, 4])
def test_the_shift_is_the_one_with_the_largest_density(prior: Any, K: int) -> None:
    X, y, _ = rows(K)
    model = pr.Model.from_arrays(X, y, likelihood=SYMMETRIC, prior=prior)
    beta = np.random.default_rng(0).normal(size=model.shape)
    scores = beta @ model.likelihood.contrast.T
    total = 0.0
    for row in scores[1:]:
        best = minimize_scalar(
            lambda c, row=row: -float(prior.log_prob((row - c)[None])),
            bounds=(-9, 9),
            method="bounded",
            options={"xatol": 1e-11},
        )
        total -= best.fun
    assert model.log_prior(beta) == pytest.approx(total, abs=1e-8)
    shown = model.joint.scores(beta)
    assert float(prior.log_prob(shown[1:])) == pytest.approx(total, abs=1e-8)
    np.testing.assert_allclose(shown - shown.mean(1)[:, None], scores, atol=1e-12)


@pytest.mark.slow
def test_two_classes_are_the_bernoulli_lasso() -> None:
    """min_c |f_1 - c| + |f_2 - c| = |f_2 - f_1|, the absolute log odds ratio."""
    X, y, _ = rows(2)
    both = pr.Model.from_arrays(X, y, likelihood=SYMMETRIC, prior=pr.Laplace(0.1))
    one = pr.Model.from_arrays(X, y, likelihood="bernoulli", prior=pr.Laplace(0.1))
    shown = pr.fit(both).coef.values
    np.testing.assert_allclose(
        shown[:, 1] - shown[:, 0], pr.fit(one).coef.values, atol=1e-8
    )
    scales = pr.path(one, n=6).scales
    np.testing.assert_allclose(pr.path(both, n=6).scales, scales, rtol=1e-8)
    paths = [pr.path(m, scales) for m in (both, one)]
    for name in ("df", "log_likelihood", "AIC"):
        np.testing.assert_allclose(paths[0].data[name], paths[1].data[name], rtol=1e-7)
    for by in ("loo", "cv"):
        found = [pr.tune(m, by, scales=scales).table["score"] for m in (both, one)]
        np.testing.assert_allclose(found[0], found[1], rtol=1e-6)


def test_counts_are_rows() -> None:
    rng = np.random.default_rng(5)
    X, counts = (
        rng.normal(size=(40, 3)),
        np.array([rng.multinomial(5, p) for p in rng.dirichlet(np.ones(3), 40)]),
    )
    rows_of_one = np.repeat(np.tile(np.arange(3), 40), counts.ravel())
    prior = ElasticNet(0.2, ratio=0.7)
    grouped = pr.Model.from_arrays(
        X, counts, likelihood=pr.Multinomial(symmetric=True), prior=prior
    )
    single = pr.Model.from_arrays(
        np.repeat(X, 5, 0), rows_of_one, likelihood=SYMMETRIC, prior=prior
    )
    np.testing.assert_allclose(
        pr.fit(grouped).coef.values, pr.fit(single).coef.values, atol=1e-8
    )


@pytest.mark.parametrize(
    "prior", [pr.Laplace(0.2), ElasticNet(0.3, ratio=0.5)], ids=lambda p: p.name
)
def test_paths_are_fits_and_start_where_all_coefficients_are_zero(prior: Any) -> None:
    X, y, _ = rows(4)
    model = pr.Model.from_arrays(X, y, likelihood=SYMMETRIC, prior=prior)
    path = pr.path(model, n=20)
    start = pr.path(model, path.scales[0] * np.array([0.99, 1.01]))
    assert (start.coef.values[:, 1:] != 0).any((1, 2)).tolist() == [False, True]
    # four intercepts that sum to zero
    assert start.data["df"].values[0] == pytest.approx(3.0)
    for i in (4, 12):
        np.testing.assert_allclose(
            path.coef.values[i],
            pr.fit(path.model_at(path.scales[i])).coef.values,
            atol=1e-7,
        )


@pytest.mark.slow
def test_one_step_leave_one_out_is_near_refits() -> None:
    X, y, _ = rows(4, n=60)
    model = pr.Model.from_arrays(
        X, y, likelihood=SYMMETRIC, prior=ElasticNet(0.3, ratio=0.5)
    )
    losses = []
    for i in range(60):
        fit = pr.fit(
            pr.Model.from_arrays(
                np.delete(X, i, 0),
                np.delete(y, i),
                likelihood=SYMMETRIC,
                prior=model.prior,
            )
        )
        losses.append(-np.log(fit.predict(X[i : i + 1])["mean"].values[0, y[i]]))
    table = pr.tune(model, "loo", scales=[1.0]).table
    # one Newton step, kinks held
    assert table["score"].iloc[0] == pytest.approx(np.mean(losses), rel=5e-3)


def test_a_saved_fit_keeps_its_zeros(tmp_path: Any) -> None:
    X, y, _ = rows(4)
    fit = pr.fit(
        pr.Model.from_arrays(
            X, y, likelihood=SYMMETRIC, prior=ElasticNet(0.3, ratio=0.5)
        )
    )
    fit.save(tmp_path / "fit.nc")
    again = pr.load_fit(tmp_path / "fit.nc")
    np.testing.assert_allclose(again.coef.values, fit.coef.values, atol=1e-13)
    assert ((again.coef.values == 0) == (fit.coef.values == 0)).all()


def test_bootstrap_errors_are_of_the_shifted_coefficients() -> None:
    X, y, _ = rows(4)
    model = pr.Model.from_arrays(X, y, likelihood=SYMMETRIC, prior=pr.Laplace(0.1))
    fit = pr.fit(model, pr.Bootstrap(reps=20), seed=1)
    coef = fit.solution.replicates["coef"]
    np.testing.assert_allclose(fit.std_error.values, coef.std(0, ddof=1))
    np.testing.assert_allclose(
        np.diagonal(fit.covariance()), fit.std_error.values.ravel() ** 2, atol=1e-12
    )
    assert (coef[:, 1:] == 0).any()
    apart = pr.hypothesis(fit, "0: x1 = 1: x1").estimates
    assert apart["std_error"].iloc[0] == pytest.approx(
        (coef[:, 1, 0] - coef[:, 1, 1]).std(ddof=1)
    )
    with pytest.raises(pr.Incompatible, match="difference between two classes"):
        pr.hypothesis(fit, "0: x1 = 0")


@pytest.mark.slow
def test_the_penalty_has_no_draws() -> None:
    X, y, _ = rows(3)
    prior = {
        "Intercept": pr.Normal(1.0),
        ("x1", "x2", "x3", "x4", "x5"): pr.Laplace(0.1),
    }
    model = pr.Model.from_arrays(X, y, likelihood=SYMMETRIC, prior=prior)
    for draw in (lambda: pr.fit(model, "nuts"), lambda: pr.fit(model, "posterior"), model.prior_predictive, model.to_pymc,
                 lambda: pr.simulate(model, np.random.default_rng(0)),):  # fmt: skip
        with pytest.raises(pr.Incompatible, match="likelihood='categorical'"):
            draw()
    fit = pr.fit(model)
    with pytest.raises(pr.Incompatible, match="no standard errors"):
        fit.interval()
    # the intercepts have a normal prior
    assert pr.prior_weight(fit).table["conflict"].iloc[3:].isna().all()


def test_the_remedy_of_the_reference_form_fits() -> None:
    X, y, _ = rows(3)
    reference = pr.Model.from_arrays(X, y, likelihood="categorical")
    with pytest.raises(pr.Incompatible, match=r"symmetric=True"):
        pr.Laplace.from_lasso(lam=0.01, of="glmnet", model=reference, standardize=True)
    model = pr.Model.from_arrays(X, y, likelihood=SYMMETRIC)
    prior = pr.Laplace.from_lasso(lam=0.01, of="glmnet", model=model, standardize=True)
    fit = pr.fit(model.with_prior(prior))
    assert fit.solution.status.good
    assert np.isnan(fit.std_error.values).all()
    assert "nuts samples" not in str(fit)
    assert "sum to zero" not in str(fit)
    np.testing.assert_allclose(fit.predict(X)["mean"].sum("level"), 1.0)
