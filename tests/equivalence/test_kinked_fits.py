"""Fits of losses with kinks: support vectors and quantiles with known answers, their standard errors and their posteriors."""

import warnings
from dataclasses import replace
from functools import partial
from typing import Any

import numpy as np
import pandas as pd
import pytest
from scipy.stats import norm

import probreg as pr
from probreg.inference.penalized import piecewise_linear
from probreg.inference.status import Status
from probreg.kernels import RBF, Linear
from probreg.likelihoods import (
    AbsoluteLoss,
    EpsilonInsensitive,
    PowerNoise,
    Quantile,
)

X = np.array([0.0, 1.0, 2.0, 4.0])
Y = np.array([0.0, 1.0, 0.0, 2.0])
K = np.exp(-0.5 * np.subtract.outer(X, X) ** 2)
SVR = [
    (
        10.0,
        0.1,
        (-1.9320211987, 2.6453276072, -2.1575031684, 1.4441967598),
        0.7190507282,
        2.357908126734942,
    ),
    (
        1.0,
        0.5,
        (-0.3988832289, 0.1931408229, -0.5107487615, 0.7164911675),
        0.8506193705,
        0.358245583761003,
    ),
    (1.0, 0.1, (-1.0, 1.0, -1.0, 1.0), 0.826515455111, 1.802287785514927),
]


def rows(n: int = 120, seed: int = 0) -> tuple[np.ndarray, np.ndarray]:
    rng = np.random.default_rng(seed)
    x = rng.normal(size=(n, 2))
    return x, 1.0 + x @ [0.8, -0.5] + rng.standard_t(4, n) * (1.0 + 0.5 * (x[:, 0] > 0))


@pytest.mark.parametrize(("C", "epsilon", "weight", "offset", "objective"), SVR)
def test_support_vector_regression_has_its_known_answers(
    C, epsilon, weight, offset, objective
) -> None:
    fit = pr.svr(X, Y, kernel=RBF(1.0), C=C, epsilon=epsilon)
    np.testing.assert_allclose(fit.support["weight"], weight, atol=2e-10)
    assert fit.coef.values[0] == pytest.approx(offset, abs=1e-9)
    at, by = (
        fit.solution.stats,
        C * fit.model.fixed["scale"],
    )  # loss / scale + |b|^2 / (2 tau^2), times tau^2
    assert at["primal"] * by == pytest.approx(objective, abs=1e-9)
    assert at["dual"] * by == pytest.approx(objective, abs=1e-9)
    assert 0.0 <= at["gap"] < 1e-10
    assert at["kkt"] < 1e-12
    f = K @ np.asarray(weight) + offset
    np.testing.assert_allclose(fit.predict(X)["mean"], f, atol=1e-8)
    np.testing.assert_allclose(fit.support["residual"], Y - f, atol=1e-8)


def test_a_located_prior_is_one_at_zero_of_a_moved_response() -> None:
    """Of columns far from zero, which are solved in other coordinates."""
    x, y = rows()
    x += np.array([5.0, -30.0])
    location = np.array([2.0, 0.6, -0.3])
    found = []
    for response, at in ((y - location[0] - x @ location[1:], np.zeros(3)), (y, location)):  # fmt: skip
        prior = {
            name: pr.Normal(0.5, location=float(v))
            for name, v in zip(("Intercept", "x1", "x2"), at)
        }
        model = pr.Model.from_arrays(
            x, response, likelihood=Quantile(0.3), prior=prior, aux={"sigma": 0.4}
        )
        found.append(pr.fit(model, "interior_point").coef)
    np.testing.assert_allclose(found[1], found[0] + location, atol=1e-9)


def test_an_offset_that_is_not_unique_is_an_interval() -> None:
    notes = pr.svr(X, Y, kernel=RBF(1.0), C=1.0, epsilon=0.1).solution.notes
    assert any("from 0.628469160896 to 1.02456174933" in str(note) for note in notes)
    fit = pr.svr(X, Y, kernel=RBF(1.0), C=1.0, epsilon=1.2)
    assert len(fit.support) == 0
    assert any("from 0.8 to 1.2" in note for note in map(str, fit.solution.notes))
    np.testing.assert_allclose(fit.predict([0.5, 30.0])["mean"], 1.0, atol=1e-9)


def test_without_an_offset_the_weights_are_others() -> None:
    fit = pr.svr(X, Y, kernel=RBF(1.0), C=1.0, epsilon=0.1, intercept=False)
    np.testing.assert_allclose(
        fit.support["weight"], [-0.42783509, 1.0, -0.58396476, 1.0], atol=1e-8
    )
    assert fit.support["at"].tolist() == ["free", "bound", "free", "bound"]


def test_the_flattest_line_in_the_tube_goes_through_two_points() -> None:
    for x, y in (
        ([0.0, 1.0], [0.0, 1.0]),
        ("y ~ x", {"x": [0.0, 1.0], "y": [0.0, 1.0]}),
    ):
        fit = pr.svr(x, y, kernel="linear", C=10.0, epsilon=0.1)
        np.testing.assert_allclose(fit.coef, [0.1, 0.8], atol=1e-12)
        np.testing.assert_allclose(fit.support["weight"], [-0.8, 0.8], atol=1e-12)


def test_formulas_of_kernels_keep_labels_missing_rows_and_kinds_of_weights() -> None:
    x, y = rows(12)
    table = pd.DataFrame({"x": x[:, 0], "y": y}, index=[f"r{i}" for i in range(12)])
    table["w"] = 1.0 + np.arange(12) % 3

    def fit(data: pd.DataFrame, **more: object) -> pr.Fit:
        return pr.svr("y ~ x", data, kernel=RBF(1.0), C=2.0, epsilon=0.2, **more)

    weighted = fit(table, weights=pr.weights.sampling("w"))
    assert weighted.model.design.weight_kind == "sampling"
    table.loc["r1", "x"] = np.nan
    dropped, complete = fit(table, missing="drop"), fit(table.dropna())
    np.testing.assert_array_equal(dropped.fitted, complete.fitted)
    assert list(dropped.fitted.obs.values[:2]) == ["r0", "r2"]


@pytest.mark.parametrize(("seed", "n", "length"), [(222, 40, 0.5), (146, 20, 2.0)])
def test_near_rows_leave_no_negative_variance_between_them(
    seed: int, n: int, length: float
) -> None:
    rng = np.random.default_rng(seed)
    x = np.sort(rng.uniform(0.0, 10.0, n))
    y = np.sin(x) + 0.3 * rng.normal(size=n)
    fit = pr.svr(x, y, kernel=RBF(length), C=1.0, epsilon=0.1)
    new = fit.predict(np.linspace(0.0, 10.0, 50)[:, None])
    assert np.isfinite(new["mean_std_error"]).all()


@pytest.mark.parametrize(
    "recipe",
    [
        partial(pr.svr, kernel=RBF(1.0), C=2.0, epsilon=0.2),
        partial(pr.kernel_ridge, kernel=RBF(1.0), lam=0.5),
    ],
)
def test_a_kernel_of_a_formula_is_that_of_its_columns(recipe: Any) -> None:
    x, y = rows(40)
    table = {"a": x[:, 0], "b": x[:, 1], "y": y}
    one, two = recipe("y ~ a + b", table), recipe(x, y)
    np.testing.assert_allclose(
        one.predict(table)["mean"], two.predict(x)["mean"], atol=1e-9
    )
    with pytest.raises(pr.DataError, match="'log\\(a\\)' is none"):
        recipe("y ~ log(a) + b", {**table, "a": np.exp(x[:, 0])})
    without = recipe("y ~ a + b - 1", table).coef
    np.testing.assert_allclose(without, recipe(x, y, intercept=False).coef)
    with pytest.raises(pr.Incompatible, match="write '- 1'"):
        recipe("y ~ a + b", table, intercept=False)
    with pytest.raises(pr.Incompatible, match="takes no columns="):
        recipe("y ~ a", table, columns=["a"])
    with pytest.raises(pr.DataError, match="second argument"):
        recipe(table, "y ~ a")


@pytest.mark.slow
def test_scales_follow_the_residuals_and_a_posterior_waits_for_them(tmp_path) -> None:
    x, y = rows(25)
    C, epsilon = 2.0, 0.3
    fit = pr.svr(x, y, kernel=RBF(1.5), C=C, epsilon=epsilon)
    r = y - fit.predict(x)["mean"].values
    S, n = np.maximum(np.abs(r) - epsilon, 0.0).sum(), len(y)
    c = (S + np.sqrt(S**2 + 4 * n * S * epsilon)) / (2 * n)
    assert fit.model.fixed["scale"] == pytest.approx(c, rel=1e-9)
    assert fit.model.joint.blocks[-1].prior.scale == pytest.approx(
        np.sqrt(C * c), rel=1e-9
    )
    opened = pr.load_fit(fit.save(tmp_path / "svr.nc", rows=True))
    for model in (fit.model, opened.model):
        with pytest.raises(pr.Incompatible, match="with_aux"):
            pr.fit(model, "posterior")
    np.testing.assert_allclose(
        opened.support["weight"], fit.support["weight"], rtol=1e-9
    )
    with pytest.raises(pr.DataError, match="support vectors are rows"):
        _ = pr.load_fit(
            pr.svr(x, y, kernel="linear", C=C, epsilon=epsilon).save(
                tmp_path / "small.nc"
            )
        ).support
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # so few draws need not mix
        drawn = pr.fit(
            fit.model.with_aux(scale=c), pr.NUTS(draws=50, chains=2, tune=100), seed=1
        )
    with pytest.raises(pr.Incompatible, match="support vectors are those of a mode"):
        _ = drawn.support


@pytest.mark.parametrize(
    "container", [np.array, np.float64, np.float32, float, lambda v: np.array([v])]
)
def test_a_quantile_level_is_a_number_in_any_container(container):
    x = np.arange(12.0)
    y = x + np.sin(3 * x)
    given = container(0.25)
    found = pr.quantile_regression(x, y, tau=given)
    if np.ndim(given):
        (found,) = found.values()
    np.testing.assert_array_equal(
        found.coef, pr.quantile_regression(x, y, tau=0.25).coef
    )


def test_quantiles_are_those_of_a_linear_programme_and_may_cross() -> None:
    x, y = rows(80)
    fits = pr.quantile_regression(x, y, tau=[0.9, 0.1, 0.5], columns=["a", "b"])
    assert list(fits) == [0.1, 0.5, 0.9]
    Z = np.c_[np.ones(80), x]
    for tau, fit in fits.items():
        r = y - Z @ fit.coef.values
        assert (np.abs(r) < 1e-9).sum() == 3  # a vertex
        a = fit.solution.multipliers * fit.aux["sigma"]
        np.testing.assert_allclose(Z.T @ a, 0.0, atol=1e-10)
        assert (np.clip(a, tau - 1 - 1e-12, tau + 1e-12) == a).all()
        np.testing.assert_allclose(
            a[np.abs(r) > 1e-9],
            np.where(r > 0, tau, tau - 1)[np.abs(r) > 1e-9],
            atol=1e-10,
        )
        assert fit.aux["sigma"] == pytest.approx(np.mean(r * (tau - (r < 0))), rel=1e-9)
    x, y = (
        np.r_[np.zeros(9), np.ones(9)],
        np.r_[np.arange(9.0), 4.0 + 0.1 * np.arange(9)],
    )
    crossing = pr.quantile_regression(np.r_[x, 3.0], np.r_[y, 4.5], tau=[0.25, 0.75])
    assert all(
        "0.25 and 0.75 quantiles cross: at 1 of 19 rows" in " ".join(map(str, f.notes))
        for f in crossing.values()
    )
    with pytest.raises(pr.DataError, match="different probabilities"):
        pr.quantile_regression(x, y, tau=[0.5, 0.5])
    with pytest.raises(pr.DataError, match="tau"):
        pr.quantile_regression(x, y, tau=1.0)


def test_the_sandwich_counts_the_density_of_the_residuals_at_the_quantile() -> None:
    x, y = rows(150)
    tau, n = 0.7, 150
    fit = pr.quantile_regression(x, y, tau=tau)
    Z, r = np.c_[np.ones(n), x], y - np.c_[np.ones(n), x] @ fit.coef.values
    q, on = norm.ppf(tau), np.abs(r) <= 1e-12
    c = (
        n ** (-1 / 3)
        * norm.ppf(0.975) ** (2 / 3)
        * (1.5 * norm.pdf(q) ** 2 / (2 * q**2 + 1)) ** (1 / 3)
    )
    places = np.interp([0.25, 0.75], (np.arange(n) + 0.5) / n, np.sort(r))
    h = min(r.std(), (places[1] - places[0]) / 1.34) * (
        norm.ppf(tau + c) - norm.ppf(tau - c)
    )
    kernel = (
        np.where(on, 0.0, 0.75 * np.maximum(1 - (r / h) ** 2, 0) / h)
        * n
        / (n - on.sum())
    )
    bread = np.linalg.inv(Z.T @ (kernel[:, None] * Z))
    V = bread @ (tau * (1 - tau) * Z.T @ Z) @ bread
    np.testing.assert_allclose(fit.std_error, np.sqrt(np.diagonal(V)), rtol=1e-6)
    assert fit.covariance().attrs["kind"] == "HC0"
    # the information of a row under the density assumed
    density = tau * (1 - tau) / fit.aux["sigma"] ** 2
    np.testing.assert_allclose(
        fit.covariance("expected"), np.linalg.inv(density * Z.T @ Z), rtol=1e-9
    )
    with pytest.raises(pr.Incompatible, match="second derivatives"):
        fit.covariance("observed")
    few = pr.quantile_regression(x[:12], y[:12], tau=0.95)
    assert few.std_error.isnull().all()
    assert few.covariance().attrs["kind"] == "none"
    assert any("bootstrap" in note for note in map(str, few.solution.notes))
    weights = pr.weights.sampling(np.ones(12))
    few = pr.quantile_regression(x[:12], y[:12], tau=0.95, weights=weights)
    assert few.std_error.isnull().all()
    assert any("bootstrap" in note for note in map(str, few.solution.notes))


def test_weights_offsets_and_precisions_are_those_of_the_rows() -> None:
    x, y = rows(50)
    w = np.random.default_rng(1).integers(1, 4, 50)
    for likelihood in (AbsoluteLoss(), Quantile(0.3), EpsilonInsensitive(0.4)):
        model = pr.Model.from_arrays(
            x,
            y,
            weights=w,
            likelihood=likelihood,
            prior=pr.Normal(0.7),
            offset=0.3 * x[:, 0],
        )
        again = np.repeat(np.arange(50), w)
        long = pr.Model.from_arrays(
            x[again],
            (y - 0.3 * x[:, 0])[again],
            likelihood=likelihood,
            prior=pr.Normal(0.7),
        )
        one, two = pr.fit(model), pr.fit(long)
        np.testing.assert_allclose(one.coef, two.coef, atol=1e-7)
        np.testing.assert_allclose(one.std_error, two.std_error, rtol=1e-6)
    precise = pr.Model.from_arrays(
        x, y, weights=pr.weights.precision(w.astype(float)), likelihood=AbsoluteLoss()
    )
    found, root = pr.fit(precise), np.sqrt(w)
    plain = pr.fit(
        pr.Model.from_arrays(
            np.c_[root, x * root[:, None]],
            y * root,
            intercept=False,
            likelihood=AbsoluteLoss(),
        )
    )
    np.testing.assert_allclose(found.coef, plain.coef, atol=1e-8)
    assert found.aux["sigma"] == pytest.approx(plain.aux["sigma"], rel=1e-8)


def test_laplace_refuses_kinks_and_columns_that_reproduce_the_response_have_no_scale() -> (
    None
):
    x, y = rows(30)
    model = pr.Model.from_arrays(x, y, likelihood="absolute")
    with pytest.raises(pr.Incompatible, match="second derivatives at the mode"):
        pr.fit(model, "laplace")
    with pytest.raises(pr.Incompatible, match="smooth likelihood"):
        pr.fit(model.with_prior(pr.Normal(pr.HalfNormal(1.0))), "evidence")
    with pytest.raises(pr.NotConverged, match="sigma runs to 0"):
        pr.fit(
            pr.Model.from_arrays(
                np.eye(3)[:, 1:], [1.0, 2.0, 4.0], likelihood="absolute"
            )
        )


@pytest.mark.parametrize(
    "likelihood", [AbsoluteLoss(), Quantile(0.8), EpsilonInsensitive(0.5)]
)
def test_weighted_draws_say_that_the_density_is_a_working_one(likelihood) -> None:
    x, y = rows(200)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        fit = pr.fit(
            pr.Model.from_arrays(x, y, likelihood=likelihood),
            # so few that their densities are not compiled
            pr.Importance(draws=1500, max_k=np.inf),
            seed=0,
        )
    told = [
        note for note in map(str, fit.solution.notes) if "sandwich-corrected" in note
    ]
    assert bool(told) == bool(likelihood.working)
    if told:
        Z, mean = np.c_[np.ones(200), x], fit.coef.values
        score = likelihood.score(y, (Z @ mean)[:, None], **fit.aux)[:, 0]
        V = fit.covariance().values[:3, :3]
        sd = np.sqrt(np.diagonal(V @ (Z.T * score**2) @ Z @ V))
        assert f"Intercept {mean[0] - 1.96 * sd[0]:.3f}"[:-1] in told[0]


@pytest.mark.slow
@pytest.mark.parametrize(
    "likelihood",
    [Quantile(0.8), PowerNoise(1.5)],
)
def test_draws_of_the_compiled_density_are_those_of_the_weights(likelihood) -> None:
    x, y = rows(100)
    model = pr.Model.from_arrays(x, y, likelihood=likelihood, prior=pr.Normal(2.0))
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        weighed = pr.fit(model, pr.Importance(draws=4000, max_k=np.inf), seed=0)
    drawn = pr.fit(model, pr.NUTS(draws=1000, tune=500), seed=0)
    sd = drawn.std_error.values
    assert (np.abs(weighed.coef - drawn.coef).values / sd).max() < 0.12
    np.testing.assert_allclose(weighed.std_error, drawn.std_error, rtol=0.1)


@pytest.mark.slow
def test_standard_errors_of_the_tube_are_those_of_repeated_samples() -> None:
    rng, likelihood, n = np.random.default_rng(0), EpsilonInsensitive(0.3), 400
    found = []
    for _ in range(100):
        y = likelihood.sample(rng, np.zeros((n, 1)), scale=0.7)
        found.append(
            pr.fit(
                pr.Model.from_arrays(
                    np.ones((n, 1)), y, intercept=False, likelihood=likelihood
                )
            ).coef.values[0]
        )
    # c (eps + c) = 0.7 for large n; the variance of 100 has a standard error of 14 percent
    assert n * np.var(found) == pytest.approx(0.7, rel=0.35)


def test_a_linear_kernel_is_the_columns_themselves() -> None:
    x, y = rows(40)
    fit = pr.svr(x, y, kernel=Linear(), C=1.0, epsilon=0.1)
    assert fit.model.design.columns == ("Intercept", "x1", "x2")
    with pytest.raises(pr.DataError, match="C is"):
        pr.svr(x, y, C=0.0, epsilon=0.1)
    with pytest.raises(pr.DataError, match="epsilon"):
        pr.svr(x, y, C=1.0, epsilon=-0.1)


def test_paths_and_tuning_refuse_kinks_in_words() -> None:
    x, y = rows()
    model = pr.Model.from_arrays(x, y, likelihood=Quantile(0.3), prior=pr.Normal(1.0))
    for verb in (pr.path, pr.tune):
        with pytest.raises(
            pr.Incompatible,
            match="smooth likelihood, and a quantile",
        ):
            verb(model)


def test_quantile_regression_reads_its_arguments_and_never_samples() -> None:
    x, y = rows()
    for tau in ("0.5", [0.5, "a"]):
        with pytest.raises(pr.DataError, match="tau"):
            pr.quantile_regression(x, y, tau=tau)
    with pytest.raises(pr.Incompatible, match="chooses the likelihood"):
        pr.quantile_regression(x, y, likelihood=pr.Gaussian())
    with pytest.raises(
        pr.Incompatible, match="interior_point needs flat or normal priors"
    ):
        pr.quantile_regression(x, y, prior=pr.Laplace(1.0))


def test_sampling_weights_keep_the_sandwich_of_their_own() -> None:
    x, y = rows()
    w = pr.weights.sampling(np.linspace(0.5, 2.0, len(y)))
    found = pr.quantile_regression(x, y, tau=0.3, weights=w)
    own = pr.fit(pr.Model.from_arrays(x, y, likelihood=Quantile(0.3), weights=w))
    np.testing.assert_array_equal(found.std_error, own.std_error)
    assert (
        sum("standard errors are" in note for note in map(str, found.solution.notes))
        == 1
    )


def test_a_formula_says_whether_support_vectors_have_a_constant() -> None:
    x, y = rows(30)
    data = {"x": x[:, 0], "y": y}
    for kernel in (RBF(1.0), "linear"):
        without = pr.svr("y ~ x - 1", data, kernel=kernel, C=1.0, epsilon=0.2)
        same = pr.svr(x[:, :1], y, kernel=kernel, C=1.0, epsilon=0.2, intercept=False)
        np.testing.assert_allclose(without.coef, same.coef, rtol=1e-9, atol=1e-12)
        with pytest.raises(pr.Incompatible, match="write '- 1' in it"):
            pr.svr("y ~ x", data, kernel=kernel, C=1.0, epsilon=0.2, intercept=False)


def test_an_opened_fit_with_its_rows_has_its_support(tmp_path) -> None:
    x, y = rows(30)
    for fit in (
        pr.svr(x, y, kernel=RBF(1.0), C=1.0, epsilon=0.2),
        pr.quantile_regression(x, y, tau=0.3),
    ):
        fit.save(tmp_path / "fit", rows=True)
        opened = pr.load_fit(tmp_path / "fit").support
        np.testing.assert_array_equal(opened["at"], fit.support["at"])
        np.testing.assert_allclose(opened["weight"], fit.support["weight"], rtol=1e-9)


def test_sentences_on_kinks_are_true() -> None:
    x, y = rows(30)
    data = {"x": x[:, 0], "y": y}
    wide = pr.svr("y ~ x", data, C=1.0, epsilon=50.0)
    assert any("no standard errors" in note for note in map(str, wide.notes))
    assert not any(
        "standard errors are" in note for note in map(str, wide.solution.notes)
    )
    assert "nan" not in str(wide).split("note")[0].split("effective")[-1]
    with pytest.raises(
        pr.NotConverged, match=r"scale runs to 0.*no residual is outside the tube"
    ):
        pr.fit(pr.Model.from_arrays(x, y, likelihood=EpsilonInsensitive(50.0)))
    fit = pr.quantile_regression("y ~ x", data, tau=0.25)
    assert "average slope of the 0.25 quantile of y over" in str(pr.slopes(fit))
    assert "no likelihood of such responses here has heavier tails" not in str(
        pr.diagnose(fit)
    )
    with pytest.raises(
        pr.Incompatible,
        match="a quantile likelihood has kinks: take 'response' or 'quantile' ones",
    ):
        pr.residuals(fit, kind="pearson")
    with pytest.raises(
        pr.Incompatible, match=r"kinks, where a row left out .* without a formula$"
    ):
        pr.influence_measures(fit)
    assert "saved without" not in str(
        pr.diagnose(pr.svr("y ~ x", data, C=1.0, epsilon=0.2))
    )


@pytest.mark.parametrize("p", [1.05, 1.2, 1.49, 1.8])
def test_a_power_loss_of_an_exact_fit_finds_its_coefficients(p: float) -> None:
    x = np.arange(8.0)
    y = 1.0 + 2.0 * x
    likelihood = PowerNoise(p)
    fit = pr.fit(pr.Model.from_arrays(x, y, likelihood=likelihood, aux={"sigma": 1.0}))
    assert fit.solution.status is Status.CONVERGED
    np.testing.assert_allclose(fit.coef, [1.0, 2.0], rtol=1e-12)
    with pytest.raises(pr.NotConverged, match="Fix sigma"):
        pr.fit(pr.Model.from_arrays(x, y, likelihood=likelihood))


def test_a_power_near_one_with_rows_on_the_line_names_the_absolute_loss() -> None:
    x = np.arange(8.0)
    y = np.where(x == 3.0, 20.0, 1.0 + 2.0 * x)
    with pytest.warns(pr.ProbregWarning, match=r"take a p of at least 1\.5"):
        fit = pr.fit(pr.Model.from_arrays(x, y, likelihood=PowerNoise(1.05)))
    assert fit.solution.status is Status.STEP_LIMIT
    np.testing.assert_allclose(fit.coef, [1.0, 2.0], atol=1e-4)


@pytest.mark.slow
def test_a_row_without_a_mode_is_told_as_that() -> None:
    x, y = rows(12)
    models = {
        p: pr.Model.from_arrays(x, y, likelihood=PowerNoise(p)) for p in (1.2, 2.0)
    }
    found = pr.compare_models({str(p): pr.fit(m) for p, m in models.items()})
    assert not any("sigma has no estimate" in note for note in map(str, found.notes))


def test_equal_residuals_have_no_density_and_no_sandwich() -> None:
    rng = np.random.default_rng(1)
    y = np.r_[np.zeros(70), rng.normal(size=30)]
    fit = pr.quantile_regression(rng.normal(size=100), y, tau=0.5)
    assert any("distinct residuals" in note for note in map(str, fit.solution.notes))
    assert fit.std_error.isnull().all()


@pytest.mark.parametrize("tau", [0.2, 0.5, 0.7])
def test_errors_of_a_quantile_are_those_of_its_mirror_image(tau) -> None:
    x, y = rows(80)
    one, other = (
        pr.quantile_regression(x, y, tau=tau),
        pr.quantile_regression(x, -y, tau=1.0 - tau),
    )
    np.testing.assert_allclose(one.std_error, other.std_error, rtol=1e-9)
    np.testing.assert_allclose(one.coef, -other.coef, atol=1e-9)


def test_every_route_to_a_median_has_the_same_errors() -> None:
    x, y = rows(80)
    fits = [
        pr.quantile_regression(x, y, tau=0.5),
        pr.fit(pr.Model.from_arrays(x, y, likelihood=Quantile(0.5))),
        pr.fit(pr.Model.from_arrays(x, y, likelihood=AbsoluteLoss())),
        pr.fit(pr.Model.from_arrays(x, y, likelihood="absolute"), "interior_point"),
    ]
    for fit in fits:
        np.testing.assert_allclose(fit.std_error, fits[0].std_error, rtol=1e-6)
        assert fit.covariance().attrs["kind"] == "HC0"


@pytest.mark.parametrize(
    ("n", "tau"), [(60, 0.95), (1000, 0.999), (60, 0.05), (100, 0.97)]
)
def test_quantiles_near_the_ends_have_no_sandwich(n, tau) -> None:
    a = np.arange(float(n))
    x, y = np.sin(3 * a), np.sin(3 * a) + norm.ppf(((a * 37) % n + 0.5) / n)
    fit = pr.quantile_regression("y ~ x", {"x": x, "y": y}, tau=tau)
    assert fit.std_error.isnull().all()
    assert fit.predict({"x": [0.0]})["mean_lower"].isnull().all()
    with pytest.raises(pr.Incompatible):
        fit.covariance("HC0")
    with pytest.raises(pr.Incompatible):
        pr.hypothesis(fit, "x = 0")
    errors = fit.covariance("expected").attrs
    assert errors["kind"] == "expected"


@pytest.mark.slow
@pytest.mark.parametrize(("n", "tau"), [(200, 0.95), (20, 0.5)])
def test_intervals_of_quantiles_cover(n, tau) -> None:
    """80 samples of even noise; the sandwich is asymptotic, and five observations a column are the fewest that it takes."""
    hits, reps = np.zeros(2), 80
    for seed in range(reps):
        rng = np.random.default_rng([23, seed])
        x = rng.normal(size=n)
        fit = pr.quantile_regression(x, x + rng.normal(size=n), tau=tau)
        hits += (
            np.abs(fit.coef.values - [norm.ppf(tau), 1.0]) < 1.96 * fit.std_error.values
        )
    # 95 % less three standard errors and two points
    assert (hits / reps > 0.93 - 3.0 * np.sqrt(0.95 * 0.05 / reps)).all()


def test_a_bootstrap_of_a_quantile_names_its_own_errors_alone() -> None:
    x, y = rows(60)
    fit = pr.fit(
        pr.Model.from_arrays(x, y, likelihood=Quantile(0.5)),
        pr.Bootstrap(reps=20),
        seed=1,
    )
    assert Quantile(0.5).working not in fit.described["notes"]
    assert Quantile(0.5).working not in str(fit)


@pytest.mark.parametrize(
    "likelihood", [AbsoluteLoss(), Quantile(0.3), EpsilonInsensitive(0.4)]
)
def test_the_scale_under_flat_priors_is_where_the_slope_of_the_likelihood_vanishes(
    likelihood,
) -> None:
    x, y = rows(60)
    w = np.random.default_rng(2).integers(1, 4, 60)
    fit = pr.fit(pr.Model.from_arrays(x, y, weights=w, likelihood=likelihood))
    ((name, value),) = fit.aux.items()
    beta = fit.solution.beta
    step = 1e-5
    up, down = (
        float(fit.model.log_lik(beta, **{name: value * np.exp(s)}))
        for s in (step, -step)
    )
    assert (up - down) / (2.0 * step) == pytest.approx(0.0, abs=1e-6)
    # by a search over the log of the scale
    wide = pr.fit(fit.model.with_prior(pr.Normal(1e5)))
    assert wide.aux[name] == pytest.approx(value, rel=1e-6)


def test_the_covariance_of_a_kernel_is_made_when_it_is_asked_for() -> None:
    rng = np.random.default_rng(3)
    x = rng.uniform(-2, 2, (60, 3))
    y = np.sin(x[:, 0]) + 0.3 * rng.normal(size=60)
    fit = pr.svr(x, y, kernel=RBF(1.0), C=2.0, epsilon=0.1)
    assert len(fit.support)
    assert not fit.solution.scale.root.is_computed
    model, s, eps = fit.model, fit.model.fixed["scale"], 0.1
    Z = model.design.X
    np.testing.assert_allclose(Z[:, 1:] @ Z[:, 1:].T, RBF(1.0)(x), atol=1e-12)
    # the expected information of a row is 1 / (s (s + eps)), and the prior has the variance C s
    H = Z.T @ Z / (s * (s + eps)) + np.diag(
        np.r_[0.0, np.ones(Z.shape[1] - 1) / (2.0 * s)]
    )
    np.testing.assert_allclose(
        fit.std_error.values, np.sqrt(np.diag(np.linalg.inv(H))), rtol=1e-8
    )
    assert fit.solution.scale.root.is_computed


def test_rows_that_occur_twice_and_kernels_of_low_rank_have_their_columns() -> None:
    x = np.repeat(np.linspace(-2, 2, 40), 2)
    y = np.cos(x) + 0.1 * np.random.default_rng(1).normal(size=80)
    fit = pr.svr(x, y, kernel=RBF(2.0), C=5.0, epsilon=0.05)
    Z = fit.model.design.X[:, 1:]
    assert Z.shape[1] < 25
    np.testing.assert_allclose(Z @ Z.T, RBF(2.0)(x), atol=1e-12)
    np.testing.assert_allclose(
        fit.predict(x)["mean"], fit.coef.values[0] + Z @ fit.coef.values[1:], atol=1e-6
    )
    weight = np.zeros(80)
    weight[fit.support.index] = fit.support["weight"]
    np.testing.assert_allclose(
        fit.predict([0.3])["mean"],
        fit.coef.values[0] + RBF(2.0)([0.3], x) @ weight,
        atol=1e-6,
    )


def test_a_flat_column_beside_its_copy_with_a_prior_keeps_its_coefficient() -> None:
    x, y = rows(80)
    prior = {"a": pr.Normal(0.1), "b": pr.Flat()}
    model = pr.Model.from_arrays(
        np.c_[x[:, 0], x[:, 0]],
        y,
        columns=["a", "b"],
        likelihood=AbsoluteLoss(),
        prior=prior,
        aux={"sigma": 1.0},
    )
    fit = pr.fit(model, "interior_point")
    alone = pr.fit(
        pr.Model.from_arrays(
            x[:, :1], y, likelihood=AbsoluteLoss(), aux={"sigma": 1.0}
        ),
        "interior_point",
    )
    np.testing.assert_allclose(
        fit.coef.values, [alone.coef.values[0], 0.0, alone.coef.values[1]], atol=1e-9
    )


def test_tau_may_be_an_array() -> None:
    x, y = rows(40)
    fits = pr.quantile_regression(x, y, tau=np.array([0.75, 0.25]))
    assert isinstance(fits, dict)
    assert list(fits) == [0.25, 0.75]
    np.testing.assert_array_equal(
        fits[0.25].coef, pr.quantile_regression(x, y, tau=0.25).coef
    )
    for wrong in (np.array([[0.1, 0.2]]), [[0.1]], np.array([0.1, 0.1])):
        with pytest.raises(pr.DataError, match="tau lists different probabilities"):
            pr.quantile_regression(x, y, tau=wrong)


def test_predictions_name_the_quantile_and_the_working_density() -> None:
    x, y = rows(40)
    kind = pr.quantile_regression(x, y, tau=0.6).predict(x[:2]).attrs["kind"]
    assert kind.startswith("Wald interval of the 0.6 quantile on the link scale")
    assert "under the quantile density, a working model" in kind
    assert "working" not in pr.ols(x, y).predict(x[:2]).attrs["kind"]


@pytest.mark.parametrize(
    "likelihood", [AbsoluteLoss(), Quantile(0.3), EpsilonInsensitive(0.25)]
)
def test_a_row_on_a_kink_to_rounding_has_no_score(likelihood) -> None:
    tube = float(likelihood.slopes(**dict.fromkeys(likelihood.nuisance, 1.0)).tube)
    y = np.array([0.1, 1e3, -7.0])
    eta = (y - tube * np.array([1.0, -1.0, 1.0])) * (
        1.0 + np.array([2e-16, -2e-16, 3e-16])
    )
    aux = dict.fromkeys(likelihood.nuisance, 1.0)
    assert not likelihood.score(y, eta[:, None], **aux).any()
    assert (
        not likelihood.value_grad_hessian(y, eta[:, None], **aux).gradient[:, 0].any()
    )
    away = likelihood.score(y, (y - 2.0 * tube - 1e-3)[:, None], **aux)
    np.testing.assert_allclose(away[:, 0], likelihood.slopes(**aux).up)


def test_a_search_that_stalls_does_not_ask_for_more_steps_alone(monkeypatch) -> None:
    x, y = rows(40)
    model = pr.Model.from_arrays(x, y, likelihood=AbsoluteLoss(), aux={"sigma": 1.0})
    found = piecewise_linear.solve_piecewise_linear

    def stalled(*given, **options):
        return replace(found(*given, **options), converged=False)

    monkeypatch.setattr(piecewise_linear, "solve_piecewise_linear", stalled)
    with pytest.warns(pr.ProbregWarning, match="duality gap"):
        fit = pr.fit(model)
    assert fit.solution.status.is_unfinished
    assert not fit.solution.status.good


@pytest.mark.parametrize("sigma", [1.0, pr.priors.InverseGamma(2.0, 1.0)], ids=str)
def test_a_constant_response_has_a_power_loss_fit(sigma):
    """24 r^(p-1) p / sigma^p = (3 - r) / 4 for the residual r = 3 - b, and the maximum over sigma."""
    model = pr.Model.from_formula(
        "y ~ 1",
        {"y": np.full(24, 3.0)},
        likelihood="power",
        prior={"Intercept": pr.Normal(2.0)},
        aux={"sigma": sigma},
    )
    fit = pr.fit(model)
    assert fit.solution.status.name == "CONVERGED"
    r = 3.0 - float(np.ravel(fit.coef)[0])
    scale = fit.aux["sigma"]
    assert 24 * 1.5 * np.sqrt(r) / scale**1.5 == pytest.approx(
        (3.0 - r) / 4.0,
        rel=1e-4,  # the curvature is 20 times the expected one
    )


def test_a_cubic_loss_has_no_curvature_at_an_exact_fit():
    x = np.linspace(-1.0, 1.0, 24)
    for y in (np.full(24, 3.0), 3.0 + 2.0 * x):
        model = pr.Model.from_arrays(
            x, y, likelihood=pr.likelihoods.PowerNoise(3.0), aux={"sigma": 1.0}
        )
        with pytest.raises(pr.errors.NotConverged, match="exactly"):
            pr.fit(model)
