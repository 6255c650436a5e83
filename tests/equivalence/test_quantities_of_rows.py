"""Predictions and effects of quantities beside the mean, against formulas and gradients by hand."""

import numpy as np
import pytest

import probreg as pr

RNG = np.random.default_rng(0)
N = 80
TABLE = {"x": RNG.normal(size=N), "z": RNG.normal(size=N)}
TABLE["y"] = TABLE["x"] + np.exp(0.3 * TABLE["z"]) * RNG.normal(size=N)
TABLE["t"] = np.exp(TABLE["y"])
NEW = {"x": [0.0, 1.0], "z": [0.5, 2.0]}


@pytest.fixture(scope="module")
def two_formulas():
    return pr.Model.from_formula({"y": "y ~ x", "log sigma": "~ z"}, TABLE)


def test_a_parameter_with_a_formula_has_the_delta_method_of_its_predictor(two_formulas):
    fit = pr.fit(two_formulas)
    Z = np.array([[0.0, 0.0, 1.0, 0.5], [0.0, 0.0, 1.0, 2.0]])
    log_sigma = Z @ fit.coef.values
    error = np.sqrt(np.diagonal(Z @ fit.covariance().values @ Z.T))
    on_line = fit.predict(NEW, what="log sigma")
    np.testing.assert_allclose(on_line["log sigma"], log_sigma, rtol=1e-12)
    np.testing.assert_allclose(on_line["log sigma_std_error"], error, rtol=1e-9)
    sigma = fit.predict(NEW, what="sigma")
    np.testing.assert_allclose(sigma["sigma"], np.exp(log_sigma), rtol=1e-12)
    np.testing.assert_allclose(
        sigma["sigma_std_error"], np.exp(log_sigma) * error, rtol=1e-9
    )
    assert "new_lower" not in sigma


def test_slopes_of_sigma_are_those_of_its_formula(two_formulas):
    fit = pr.fit(two_formulas)
    b0, b1 = fit.coef.values[2:]
    V = fit.covariance().values[2:, 2:]
    z = TABLE["z"]
    sigma = np.exp(b0 + b1 * z)
    gradient = np.array([b1 * sigma.mean(), sigma.mean() + b1 * (z * sigma).mean()])
    table = pr.slopes(fit, what="sigma", average_over="sample").table
    assert table["variable"].tolist() == ["z"]
    np.testing.assert_allclose(table["estimate"], b1 * sigma.mean(), rtol=1e-10)
    np.testing.assert_allclose(
        table["std_error"], np.sqrt(gradient @ V @ gradient), rtol=1e-8
    )


def test_variables_of_other_formulas_are_left_out_and_named(two_formulas):
    fit = pr.fit(two_formulas)
    for effects in (pr.slopes(fit), pr.comparisons(fit)):
        assert effects.table["variable"].tolist() == ["x"]
        assert "what='log sigma'" in effects.what
    assert pr.slopes(fit, "z").table["estimate"].tolist() == [0.0]
    plain = pr.fit(pr.Model.from_formula("y ~ x", TABLE))
    with pytest.raises(pr.DataError, match="same in every row"):
        pr.slopes(plain, what="sigma")
    with pytest.raises(pr.DataError, match="'log sigma', 'sigma', 'median'"):
        plain.predict(what="alpha")


def test_a_constant_parameter_has_the_interval_of_the_summary():
    fit = pr.fit(pr.Model.from_formula("t ~ x", TABLE, likelihood="weibull"))
    table = pr.predictions(fit, what="scale").table
    ends = fit.aux_interval("scale")
    np.testing.assert_allclose(table[["lower", "upper"]].values[0], ends, rtol=1e-8)


def test_draws_of_a_posterior_give_draws_of_the_parameter(two_formulas):
    fit = pr.fit(two_formulas, "laplace", seed=1)
    beta = fit.solution.draws.flat["beta"][..., 0]
    sigma = np.exp(beta[:, 2] + beta[:, 3] * 0.5)
    first = fit.predict(NEW, what="sigma").isel(obs=0)
    np.testing.assert_allclose(first["sigma"], sigma.mean(), rtol=1e-12)
    np.testing.assert_allclose(first["sigma_sd"], sigma.std(ddof=1), rtol=1e-9)


def test_the_median_of_a_weibull_response():
    fit = pr.fit(pr.Model.from_formula("t ~ x", TABLE, likelihood="weibull"))
    line = fit.predict(NEW, what="link")
    median = fit.predict(NEW, what="median")
    # log median = eta + scale log log 2
    shift = fit.aux["scale"] * np.log(np.log(2.0))
    np.testing.assert_allclose(
        median["median"], np.exp(line["link"] + shift), rtol=1e-10
    )


def test_survival_probabilities_have_the_delta_method_of_their_formula():
    fit = pr.fit(pr.Model.from_formula("t ~ x", TABLE, likelihood="weibull"))
    times = np.array([0.5, 2.0])
    found = fit.survival(times, NEW)
    eta = np.array([[1.0, 0.0], [1.0, 1.0]]) @ fit.coef.values
    s = fit.aux["scale"]
    r = (np.log(times) - eta[:, None]) / s  # log(-log P(Y > t))
    np.testing.assert_allclose(found["survival"], np.exp(-np.exp(r)), rtol=1e-12)
    # dr = -(d eta + r d scale) / scale
    rows = np.array([[1.0, 0.0], [1.0, 1.0]])
    V = fit.solution.scale
    for i, x in enumerate(rows):
        for j in range(2):
            G = np.r_[-x / s, -r[i, j]][None]
            B = V.half(G)
            sd = float(np.sqrt((B @ B.T)[0, 0]))
            ends = np.exp(-np.exp(r[i, j] + 1.959963984540054 * sd * np.array([1, -1])))
            cell = found.isel(obs=i, time=j)
            np.testing.assert_allclose(
                [cell["survival_lower"], cell["survival_upper"]], ends, rtol=1e-8
            )


def test_survival_of_draws_and_of_counts():
    model = pr.Model.from_formula("t ~ x", TABLE, likelihood="weibull")
    fit = pr.fit(model, "laplace", seed=1)
    found = fit.survival([1.0], NEW).isel(time=0)
    np.testing.assert_allclose(
        found["survival"], 1.0 - fit.predictive(NEW).cdf(np.ones(2)), rtol=1e-10
    )
    counts = pr.Model.from_arrays(
        TABLE["x"], np.arange(N) % 5, columns=["x"], likelihood="poisson"
    )
    poisson = pr.fit(counts)
    mean = poisson.predict()["mean"].values
    at_zero = poisson.survival([0])["survival"].values[:, 0]
    np.testing.assert_allclose(at_zero, -np.expm1(-mean), rtol=1e-10)
    binary = pr.Model.from_arrays(TABLE["x"], np.arange(N) % 2, likelihood="bernoulli")
    with pytest.raises(pr.Incompatible, match="classes"):
        pr.fit(binary).survival([0.5])


def test_a_covariance_given_sigma_has_no_error_of_sigma():
    group = np.arange(N) % 8
    table = TABLE | {"g": group.astype(str), "y": TABLE["y"] + np.sin(group)}
    fit = pr.fit(pr.Model.from_formula("y ~ x + (1 | g)", table))
    assert np.isnan(pr.predictions(fit, what="sigma").table["std_error"]).all()
    joint = pr.predictions(fit, what="sigma", covariance="joint").table
    row = fit.summary().loc["sigma"]
    ends = joint[["lower", "upper"]].values[0]
    np.testing.assert_allclose(ends, [row["lower"], row["upper"]], rtol=1e-6)


def test_a_saved_fit_keeps_the_errors_of_parameters_estimated_with_scales(tmp_path):
    table = TABLE | {"g": (np.arange(N) % 8).astype(str)}
    fit = pr.fit(pr.Model.from_formula("t ~ x + (1 | g)", table, likelihood="weibull"))
    fit.save(tmp_path / "fit.nc")
    new = {"x": [0.5], "g": ["1"]}
    for quantity in ("mean", "scale"):
        before = fit.predict(new, what=quantity)
        assert np.isfinite(before[f"{quantity}_std_error"]).all()
        after = pr.load_fit(tmp_path / "fit.nc").predict(new, what=quantity)
        np.testing.assert_allclose(
            after[f"{quantity}_std_error"], before[f"{quantity}_std_error"], rtol=1e-12
        )


@pytest.mark.parametrize("times", [[], [np.nan]])
def test_survival_needs_times(times):
    fit = pr.fit(pr.Model.from_formula("t ~ x", TABLE, likelihood="weibull"))
    with pytest.raises(pr.DataError, match="times="):
        fit.survival(times)


def test_survival_has_an_error_of_zero_where_it_is_certain():
    data = {"t": [1.0, 2.0, 3.0, 4.0], "event": [1, 1, 1, 0]}
    model = pr.Model.from_formula("cens(t, event) ~ 1", data, likelihood="exponential")
    found = pr.fit(model).survival([0.0, 1e4]).isel(obs=0)
    for name in ("survival", "survival_lower", "survival_upper"):
        assert found[name].values.tolist() == [1.0, 0.0]
    assert found["survival_std_error"].values.tolist() == [0.0, 0.0]
