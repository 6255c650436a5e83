"""A path of one decomposition is one fit per scale: coefficients, sigma, df, evidence and what leaves a row out."""

from typing import Any

import numpy as np
import pytest
from scipy.special import gammaln

import probreg as pr
from probreg import kernels
from probreg.comparison.tuning import path, tune
from probreg.comparison.tuning.criteria import estimated_aux_at, laplace_evidence
from probreg.fits.leave_out.modes import modes_without_rows
from probreg.inference.modes.closed_form import (
    PriorRows,
    posterior_given_sigma,
)
from probreg.inference.penalized.degrees import degrees_of_freedom
from probreg.inference.penalized.paths import default_scales, rescale_model

SCALES = np.geomspace(0.05, 20.0, 4)
RNG = np.random.default_rng(5)
N = 24
POINTS = np.sort(RNG.uniform(0, 6, N))
# 24 columns
KERNEL = kernels.basis(kernels.Matern(1.0, 0.5), POINTS).columns_at(POINTS)
PLAIN, WIDE = (
    RNG.normal(size=(N, 4)) * [1.0, 5.0, 0.2, 1.0] + 2.0,
    RNG.normal(size=(N, 60)),
)
Y = np.sin(POINTS) + 0.2 * RNG.normal(size=N) + 3.0
BESIDE = np.column_stack([POINTS, np.arange(N) % 3 == 0])
ROOT = RNG.normal(size=(60, 60))
P = ROOT @ ROOT.T / 60 + np.eye(60)
WEIGHTS, PRECISION = (
    RNG.integers(1, 4, N),
    pr.weights.precision(RNG.uniform(0.3, 3.0, N)),
)


def model_of(
    X: np.ndarray, sigma: float | None, flat: bool = False, **given: Any
) -> pr.Model:
    """A normal prior on X, flat ones on the intercept and, where asked, on two more columns."""
    q, more = X.shape[1], dict(given)
    prior = more.pop("prior", pr.Normal(0.7, location=0.3, sigma_units=sigma is None))
    names = [f"x{j}" for j in range(q)]
    aux = {} if sigma is None else {"sigma": sigma}
    if not flat:
        return pr.Model.from_arrays(X, Y, columns=names, prior=prior, aux=aux, **more)
    table = np.column_stack([X, BESIDE])
    return pr.Model.from_arrays(
        table,
        Y,
        columns=[*names, "a", "b"],
        prior={tuple(names): prior},
        aux=aux,
        **more,
    )


CASES = {
    "kernel": (KERNEL, None, {}),
    "kernel, sigma held": (KERNEL, 0.4, {}),
    "kernel beside others": (KERNEL, None, {"flat": True}),
    "kernel without intercept": (KERNEL, 0.4, {"intercept": False}),
    "plain": (PLAIN, None, {}),
    "plain, scales of their own": (PLAIN, 0.4, {"prior": pr.Normal((0.2, 1.0, 3.0, 0.5), location=(0.0, 1.0, -1.0, 2.0))}),
    "wide": (WIDE, None, {}),
    "wide beside others": (WIDE, 0.4, {"flat": True}),
    "a covariance": (WIDE, 0.4, {"prior": pr.Normal(precision_matrix=P)}),
    "a covariance in units of sigma": (WIDE[:, :6], None, {"prior": pr.Normal(precision_matrix=P[:6, :6], sigma_units=True)}),
    "weights": (KERNEL, None, {"weights": WEIGHTS, "flat": True}),
    "precisions": (WIDE, None, {"weights": PRECISION}),
    "precisions, plain": (PLAIN, 0.4, {"weights": PRECISION}),
    "offset": (KERNEL, 0.4, {"offset": np.cos(POINTS)}),
}  # fmt: skip


@pytest.fixture(params=CASES, scope="module")
def model(request: pytest.FixtureRequest) -> pr.Model:
    X, sigma, given = CASES[request.param]
    return model_of(X, sigma, **given)


def evidence(model: pr.Model) -> float:
    """log p(y) from the triangular reduction of rows and prior together; sigma under 1/sigma integrated out."""
    moments, prior = model.design.moments, PriorRows.of(model.joint)
    sigma = model.noise_held
    given = posterior_given_sigma(moments, prior, sigma or 1.0)
    power = moments.weight + prior.size - moments.p
    unit = sigma or 1.0
    at = float(
        0.5 * moments.log_precision
        - 0.5 * power * np.log(2.0 * np.pi * unit**2)
        + prior.log_det(unit)
        - given.log_det_R
        - given.rss / (2.0 * unit**2)
    )
    if sigma is not None:
        return at
    # p(y | sigma) = c sigma^-k exp(-r / sigma^2), k the observations less the flat columns: int p(y | sigma) d log sigma
    k, r = model.design.total - (~model.joint.informative).sum(), given.rss / 2.0
    return float(at + r + np.log(0.5) + gammaln(k / 2.0) - k / 2.0 * np.log(r))


def test_a_path_is_one_fit_per_scale(model):
    data = path(model, SCALES).data
    for s in SCALES:
        fit, at = pr.fit(rescale_model(model, s)), data.sel(scale=s)
        np.testing.assert_allclose(at["beta"], fit.coef, rtol=1e-9, atol=1e-10)
        assert float(at["log_likelihood"]) == pytest.approx(
            fit.log_likelihood, rel=1e-9
        )
        assert float(at["log_evidence"]) == pytest.approx(
            evidence(rescale_model(model, s)), rel=1e-9
        )
        if model.unknown:
            assert float(at["sigma"]) == pytest.approx(
                fit.solution.aux["sigma"], rel=1e-9
            )


def hat(model: pr.Model, scale: float) -> tuple[np.ndarray, np.ndarray]:
    """H = W^(1/2) X (X'WX + P)^-1 X'W^(1/2) of the rows, and what it leaves of y, by dense algebra."""
    d, bound = model.design, rescale_model(model, scale).joint
    w = np.ones(d.n) if d.square_weights is None else d.square_weights
    X = d.X * np.sqrt(w)[:, None]
    sigma = model.noise_held
    precision = bound.precision(1.0 if sigma is None else sigma) * (
        1.0 if sigma is None else sigma**2
    )
    H = X @ np.linalg.solve(X.T @ X + precision, X.T)
    y = (
        d.observed - (0.0 if d.offset is None else d.offset[:, 0]) - d.X @ bound.center
    ) * np.sqrt(w)
    return H, (y - H @ y) / np.sqrt(w)


def test_degrees_of_freedom_and_what_leaves_a_row_out_are_those_of_the_hat_matrix(
    model,
):
    data = path(model, SCALES).data
    for s in SCALES:
        H, e = hat(model, s)
        assert float(data["df"].sel(scale=s)) == pytest.approx(np.trace(H), rel=1e-9)
        weights = np.ones(N) if model.design.weights is None else model.design.weights
        rest = 1.0 - np.diagonal(H) / weights
        out = modes_without_rows(rescale_model(model, s), np.zeros(model.shape), {})
        np.testing.assert_allclose(
            model.design.observed - out.eta[:, 0], e / rest, rtol=1e-8, atol=1e-9
        )


@pytest.mark.parametrize("by", ["loo", "evidence", "aic", "cv"])
def test_a_choice_along_one_decomposition_is_that_of_each_scale_alone(model, by):
    every = tune(model, by, scales=SCALES).table
    for s in SCALES[::3]:
        np.testing.assert_allclose(
            tune(model, by, scales=[s]).table.loc[s], every.loc[s], rtol=1e-9
        )


def test_generalised_cross_validation_is_leave_one_out_with_the_mean_leverage(model):
    score = tune(model, "gcv", scales=SCALES).table["score"]
    d = model.design
    w = np.ones(N) if d.square_weights is None else d.square_weights
    for s in SCALES[::3]:
        H, e = hat(model, s)
        assert score[s] == pytest.approx(
            d.total * (w @ e**2) / (d.total - np.trace(H)) ** 2, rel=1e-9
        )


def test_generalised_cross_validation_of_other_models_is_refused():
    model = pr.Model.from_arrays(PLAIN, Y, prior=pr.Laplace(1.0))
    with pytest.raises(
        pr.Incompatible, match="gcv is of Gaussian models with normal priors"
    ):
        tune(model, "gcv")


def test_scales_too_weak_for_the_squared_columns_have_all_their_digits():
    # whose lengths go down to 1e-7 of the largest
    smooth = kernels.basis(kernels.RBF(2.0), POINTS).columns_at(POINTS)
    model, weak = (
        model_of(smooth, None),
        np.array([1e2, 1e4]),
    )  # lam down to 1e-9 of the largest eigenvalue
    data = path(model, weak).data
    for s in weak:
        coef = pr.fit(rescale_model(model, s)).coef.values
        np.testing.assert_allclose(
            data["beta"].sel(scale=s).values,
            coef,
            rtol=0,
            atol=1e-9 * np.abs(coef).max(),
        )


MANY = RNG.normal(size=(N, 210))


@pytest.mark.parametrize(
    ("likelihood", "given"),
    [
        ("bernoulli", {"weights": WEIGHTS}),
        ("poisson", {"offset": np.cos(POINTS), "prior": pr.Normal(0.1, location=0.02)}),
        (
            "gaussian",
            {"aux": {"sigma": pr.priors.InverseGamma(5.0, 5.0)}},
        ),  # beside a prior in raw units
    ],
)
def test_more_columns_than_rows_go_by_what_the_rows_see(likelihood, given):
    """The path is that of one fit per scale, and what is judged along it is that of all columns."""
    y = {
        "bernoulli": (Y > 3.0).astype(int),
        "poisson": np.arange(N) % 5,
        "gaussian": Y,
    }[likelihood]
    model = pr.Model.from_arrays(
        MANY, y, likelihood=likelihood, **{"prior": pr.Normal(0.1), **given}
    )
    scales = np.array([0.2, 1.0])
    found = path(model, scales)
    assert found.solution.seen is not None
    for s in scales:
        fit, at = pr.fit(rescale_model(model, s)), found.data.sel(scale=s)
        np.testing.assert_allclose(at["beta"], fit.coef, rtol=1e-9, atol=1e-11)
        assert float(at["log_likelihood"]) == pytest.approx(
            fit.log_likelihood, rel=1e-9
        )
    table = {by: tune(model, by, scales=scales).table for by in ("loo", "evidence")}
    for i, s in enumerate(scales):
        beta, aux = found.solution.beta[i], estimated_aux_at(found.solution, i)
        at = rescale_model(model, s)
        assert table["evidence"]["score"][s] == pytest.approx(
            -laplace_evidence(at, beta, aux), rel=1e-9
        )
        out = modes_without_rows(at, beta, aux)
        losses = -at.likelihood.log_prob(
            at.design.observed, out.eta, **{**at.fixed, **out.aux}
        )
        weights = np.ones(N) if at.design.weights is None else at.design.weights
        assert table["loo"]["score"][s] == pytest.approx(
            losses @ weights / weights.sum(), rel=1e-9
        )
        assert table["loo"]["df"][s] == pytest.approx(
            degrees_of_freedom(at, beta, **aux), rel=1e-9
        )


def test_the_grid_of_wide_columns_is_that_of_all_of_them(monkeypatch):
    model = pr.Model.from_arrays(
        MANY,
        (Y > 3.0).astype(int),
        likelihood="bernoulli",
        prior=pr.Normal(0.1, location=0.05),
    )
    found = default_scales(model, 5)
    monkeypatch.setattr(
        "probreg.inference.penalized.paths.rotate_to_rows", lambda model: None
    )
    np.testing.assert_allclose(found, default_scales(model, 5), rtol=1e-9)


def test_folds_of_wide_columns_know_the_columns_by_name():
    groups = np.arange(N) % 4
    wide = np.column_stack([groups, MANY])
    model = pr.Model.from_arrays(
        wide, (Y > 3.0).astype(int), likelihood="bernoulli", prior=pr.Normal(0.1)
    )
    one, two = (
        tune(model, "cv", scales=[1.0], folds=4, groups=g).table for g in ("x1", groups)
    )
    np.testing.assert_array_equal(one, two)
