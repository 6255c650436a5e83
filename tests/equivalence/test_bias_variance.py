"""error = variance + bias^2: in closed form against all sign patterns of the noise, by simulation against the formula."""

import itertools
from typing import Any

import numpy as np
import pandas as pd
import pytest

import probreg as pr
from probreg.diagnostics.bias_variance import bias_variance
from probreg.diagnostics.simulation.simulate import Truth, simulate_response
from probreg.show.plot.simulation import bias_variance as picture

Array = np.ndarray
SIGMA = 0.8


def rows(n: int = 8) -> Array:
    x = np.linspace(-1.0, 1.0, n)
    return np.c_[x, x**2] * [1.0, 3.0]


def model_of(prior: Any = None, n: int = 8, **aux: Any) -> pr.Model:
    y = np.sin(np.arange(n))  # plays no part: responses are drawn anew
    return pr.Model.from_arrays(
        rows(n), y, prior=pr.Flat() if prior is None else prior, aux=aux
    )


def curve(v: Any) -> Array:
    return np.exp(v["x1"])


def every_sign(model: pr.Model, mean: Array, x: Any = None) -> Array:
    """Fitted means for all 2^n responses mean -+ sigma, which has the noise's first two moments exactly."""
    out = []
    for signs in itertools.product([-1.0, 1.0], repeat=model.design.n):
        columns = list(model.design.columns[1:])
        y = mean + SIGMA * np.array(signs)
        again = pr.Model.from_arrays(
            model.design.X[:, 1:], y, columns=columns, prior=model.prior, aux=model.aux
        )
        out.append(pr.fit(again, "closed_form").predictive(x).mean())
    return np.array(out)


PRIORS = {
    "flat, sigma unknown": (None, {}),
    "ridge, sigma held": (pr.Normal(0.7), {"sigma": SIGMA}),
    "ridge, sigma held elsewhere": (
        pr.Normal(0.7),
        {"sigma": 2.0},
    ),  # the fit believes another noise than there is
    "ridge about a point": (
        pr.Normal((0.5, 2.0), location=(1.0, -0.5)),
        {"sigma": SIGMA},
    ),
    "ridge in units of sigma": (pr.Normal(0.7, sigma_units=True), {}),
    "a precision matrix": (
        pr.Normal(precision_matrix=((2.0, 0.5), (0.5, 1.0))),
        {"sigma": SIGMA},
    ),
}


NEW_ROWS = np.array([[0.3, 0.1], [2.0, -1.0]])


@pytest.mark.parametrize(
    ("name", "x"),
    [(name, None) for name in PRIORS] + [("a precision matrix", NEW_ROWS)],
)
def test_the_closed_form_is_the_average_over_every_sign_of_the_noise(name, x):
    prior, aux = PRIORS[name]
    model = model_of(prior, 6, **aux)
    found = bias_variance(model, Truth(curve, {"sigma": SIGMA}), x)
    assert found.how == "closed form"
    mean = np.exp(model.design.X[:, 1])
    f = mean if x is None else np.exp(x[:, 0])
    g = every_sign(model, mean, x)
    exact = {
        "fitted": g.mean(0),
        "variance": g.var(0),
        "error": ((g - f) ** 2).mean(0),
        "truth": f,
    }
    for k, values in exact.items():  # 64 fits, each good to 1e-13 or so
        np.testing.assert_allclose(
            found.data[k], values, rtol=1e-10, atol=1e-12, err_msg=k
        )
    np.testing.assert_allclose(
        found.data["error"],
        found.data["variance"] + found.data["bias"] ** 2,
        rtol=1e-15,
    )


def test_ridge_by_hand():
    """(X'X + lam I)^-1 X'y with lam = sigma^2 / tau^2 has bias -lam A^-1 beta and covariance sigma^2 A^-1 X'X A^-1."""
    X, tau, beta = rows(), 0.6, np.array([1.5, -2.0])
    model = pr.Model.from_arrays(
        X, X @ beta, intercept=False, prior=pr.Normal(tau), aux={"sigma": SIGMA}
    )
    found = bias_variance(model, beta)
    A = X.T @ X + (SIGMA / tau) ** 2 * np.eye(2)
    inverse = np.linalg.inv(A)
    np.testing.assert_allclose(
        found.data["bias"], -X @ inverse @ beta * (SIGMA / tau) ** 2, rtol=1e-10
    )
    covariance = SIGMA**2 * inverse @ X.T @ X @ inverse
    np.testing.assert_allclose(
        found.data["variance"], np.einsum("ij,jk,ik->i", X, covariance, X), rtol=1e-10
    )
    assert float(found.average["df"]) == pytest.approx(
        np.trace(X @ inverse @ X.T), rel=1e-12
    )
    np.testing.assert_allclose(found.data["noise"], SIGMA**2)
    assert float(found.average["new_error"]) == pytest.approx(
        float(found.average["error"]) + SIGMA**2
    )


def test_least_squares_is_unbiased_and_its_variance_is_the_leverage():
    model = model_of(n=12)
    beta = np.array([1.0, -0.5, 0.25])
    found = bias_variance(model, Truth(beta, {"sigma": SIGMA}))
    np.testing.assert_allclose(found.data["bias"], 0.0, atol=1e-13)
    X = model.design.X
    leverage = np.diagonal(X @ np.linalg.pinv(X))
    np.testing.assert_allclose(found.data["variance"], SIGMA**2 * leverage, rtol=1e-10)
    assert float(found.average["variance"]) == pytest.approx(
        SIGMA**2 * 3 / 12, rel=1e-12
    )  # sigma^2 p / n


def test_weights_are_repeated_rows():
    w = np.array([1, 2, 3, 1, 2, 1, 1, 4])
    y = np.arange(8.0)
    prior, aux = pr.Normal(0.7), {"sigma": SIGMA}
    once = pr.Model.from_arrays(rows(), y, weights=w, prior=prior, aux=aux)
    again = pr.Model.from_arrays(
        np.repeat(rows(), w, 0), np.repeat(y, w), prior=prior, aux=aux
    )
    a, b = bias_variance(once, curve), bias_variance(again, curve)
    np.testing.assert_allclose(
        np.repeat(a.data["error"].values, w), b.data["error"], rtol=1e-10
    )
    for k in ("bias2", "variance", "error", "df"):
        assert float(a.average[k]) == pytest.approx(float(b.average[k]), rel=1e-10)
    a, b = (
        bias_variance(m, curve, method="closed_form", reps=20, seed=3)
        for m in (once, again)
    )
    np.testing.assert_allclose(
        np.repeat(a.data["error"].values, w), b.data["error"], rtol=1e-9
    )


# ---- simulation --------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    "method",
    [
        "closed_form",
        *(pytest.param(m, marks=pytest.mark.slow) for m in ("newton", "conjugate")),
    ],
)
def test_simulation_agrees_with_the_closed_form(method):
    prior, aux = (
        (pr.Normal(0.7, sigma_units=True), {})
        if method == "conjugate"
        else (pr.Normal(0.7), {"sigma": SIGMA})
    )
    model, truth = model_of(prior, 15, **aux), Truth(curve, {"sigma": SIGMA})
    exact, drawn = (
        bias_variance(model, truth),
        bias_variance(model, truth, method=method, reps=300, seed=4),
    )
    assert (exact.how, drawn.how) == ("closed form", "simulation")
    for k, se in (
        ("bias", "bias_se"),
        ("variance", "variance_se"),
        ("error", "error_se"),
    ):
        z = (drawn.data[k] - exact.data[k]) / drawn.data[se]
        assert np.abs(z).max() < 4.5  # 15 rows, each beyond 4.5 with probability 1e-5
    for k in ("bias2", "variance", "error"):
        assert (
            abs(drawn.average[k] - exact.average[k])
            < 4 * drawn.average[f"{k}_se"] + exact.average["variance"] / 300
        )
    assert float(exact.average["error_se"]) == 0.0


@pytest.mark.slow
def test_monte_carlo_errors_are_the_spread_over_seeds():
    model, truth = model_of(pr.Normal(0.7), 10, sigma=SIGMA), curve
    runs = [
        bias_variance(model, truth, method="closed_form", reps=20, seed=s)
        for s in range(60)
    ]
    for k in ("bias2", "variance", "error"):
        spread = np.std([float(r.average[k]) for r in runs], ddof=1)
        stated = np.mean([float(r.average[f"{k}_se"]) for r in runs])
        # a spread of 60 has error 9 %, a stated one of skew draws more
        assert stated == pytest.approx(spread, rel=0.35)


LIKELIHOODS = {
    "bernoulli": (np.array([0.3, 1.0, -0.4]), {}),
    "poisson": (np.array([0.3, 0.6, -0.2]), {}),
    "student": (np.array([0.3, 0.6, -0.2]), {"sigma": 0.5}),
    "categorical": (np.array([[0.3, -0.2], [0.8, 0.1], [-0.3, 0.2]]), {}),
}


@pytest.mark.parametrize("name", list(LIKELIHOODS))
def test_the_identity_holds_in_every_likelihood(name):
    beta, aux = LIKELIHOODS[name]
    X, y = rows(30), np.arange(30) % (3 if name == "categorical" else 2)
    y = y if name != "student" else y + np.arange(30.0)
    model = pr.Model.from_arrays(X, y, likelihood=name, prior=pr.Normal(1.0))
    found = bias_variance(model, Truth(beta, aux), reps=25, seed=2)
    d, a = found.data, found.average
    # two sums of 25 squares, each good to rounding
    np.testing.assert_allclose(
        d["error"], d["variance"] + d["bias"] ** 2, rtol=1e-11, atol=1e-15
    )
    assert float(a["error"]) == pytest.approx(
        float(a["variance"] + a["bias2"]), rel=1e-11
    )
    dims = ("obs", "level") if name == "categorical" else ("obs",)
    assert d["error"].dims == dims
    averaged = d["error"].mean("obs").sum()
    assert float(a["error"]) == pytest.approx(float(averaged), rel=1e-12)
    eta = model.design.X @ (beta if beta.ndim == 2 else beta[:, None])
    np.testing.assert_allclose(
        d["truth"], model.likelihood.mean(eta, **aux), rtol=1e-12
    )
    y_draws = model.likelihood.sample(
        np.random.default_rng(1), np.repeat(eta[None], 20_000, 0), **aux
    )
    share = (
        (y_draws[..., None] == np.arange(3)).var(0)
        if name == "categorical"
        else y_draws.var(0)
    )
    np.testing.assert_allclose(
        d["noise"], share, rtol=0.25 if name == "student" else 0.06
    )  # t with 4 df: heavy


def test_the_noise_of_shares_is_that_of_their_trials():
    x, trials = rows(30), 1 + np.arange(30) % 7
    y = np.stack([trials // 3, trials // 3, trials - 2 * (trials // 3)], 1)
    model = pr.Model.from_arrays(x, y, likelihood="multinomial", prior=pr.Normal(1.0))
    beta = np.array([[0.3, -0.2], [0.8, 0.1], [-0.3, 0.2]])
    found = bias_variance(model, Truth(beta), reps=3, seed=2).data
    eta = np.repeat((model.design.X @ beta)[None], 20_000, 0)
    counts = model.likelihood.sample(np.random.default_rng(1), eta, trials=trials)
    shares = counts / trials[:, None]
    # the variance of 20,000 has an error of 1 % at least, more for rare classes
    np.testing.assert_allclose(found["noise"], shares.var(0), rtol=0.1)


def test_a_function_of_the_mean_is_the_same_truth_as_its_coefficients():
    model = pr.Model.from_arrays(
        rows(20),
        np.arange(20) % 3,
        likelihood=pr.Categorical(symmetric=True),
        prior=pr.Normal(1.0),
    )
    # as reported: rows sum to zero
    beta = np.array([[0.3, -0.2, -0.1], [0.8, 0.1, -0.9], [-0.3, 0.2, 0.1]])
    a = bias_variance(model, beta, reps=8)
    b = bias_variance(model, lambda v: a.data["truth"].values, reps=8)
    np.testing.assert_allclose(a.data["error"], b.data["error"], rtol=1e-8)
    logits = np.c_[np.ones(20), rows(20)] @ beta
    shares = np.exp(logits) / np.exp(logits).sum(1, keepdims=True)
    np.testing.assert_allclose(a.data["truth"], shares, rtol=1e-12)


def test_a_fit_of_a_richer_model_is_a_truth():
    table = {
        "x": np.linspace(0, 3, 25),
        "y": np.sin(np.linspace(0, 3, 25)) + 0.1 * np.cos(7 * np.arange(25)),
    }
    truth = pr.fit(pr.Model.from_formula("y ~ bs(x, df=6)", table))
    line = pr.Model.from_formula("y ~ x", table)
    found = bias_variance(line, truth)
    np.testing.assert_allclose(
        found.data["truth"], truth.predictive().mean(), rtol=1e-12
    )
    assert float(found.data["noise"][0]) == pytest.approx(truth.aux["sigma"] ** 2)
    # a line is no sine
    assert float(found.average["bias2"]) > 10 * float(found.average["variance"])
    there = bias_variance(line, truth, {"x": [0.5, 1.5]})
    np.testing.assert_allclose(
        there.data["truth"], truth.predictive({"x": [0.5, 1.5]}).mean(), rtol=1e-12
    )


@pytest.mark.parametrize("likelihood", ["weibull", "ordinal"])
def test_means_beside_random_effects_are_those_of_refits(likelihood):
    rng = np.random.default_rng(0)
    g = np.arange(60) % 6
    x = rng.normal(size=60)
    y = np.exp(0.5 * x + rng.normal(size=6)[g]) * rng.weibull(2.0, 60)
    if likelihood == "ordinal":
        y = pd.cut(y, [0.0, 0.5, 1.5, np.inf], labels=["a", "b", "c"])
    table = {"x": x, "y": y, "g": g.astype(str)}
    model = pr.Model.from_formula("y ~ x + (1 | g)", table, likelihood=likelihood)
    truth = pr.fit(model)
    found = bias_variance(model, truth, reps=2, seed=3)
    eta = model.design.eta(truth.solution.beta)
    means = [
        pr.fit(simulate_response(model, eta, truth.aux, np.random.default_rng([3, r])))
        .predictive()
        .mean()
        for r in range(2)
    ]
    np.testing.assert_allclose(found.data["fitted"], np.mean(means, 0), rtol=1e-6)


def test_a_softmax_fit_with_another_reference_is_the_same_truth():
    X, y = rows(30), np.array(["ash", "beech", "cedar"])[(np.arange(30) * 7) % 3]
    one, two = (
        pr.Model.from_arrays(X, y, likelihood="categorical", reference=r)
        for r in ("ash", "cedar")
    )
    a, b = (
        bias_variance(one.with_prior(pr.Normal(1.0)), pr.fit(m), reps=5)
        for m in (one, two)
    )
    # both modes to Newton's tolerance
    np.testing.assert_allclose(a.data["truth"], b.data["truth"], rtol=1e-7)
    np.testing.assert_allclose(a.data["error"], b.data["error"], rtol=1e-6)
    with pytest.raises(pr.Incompatible, match="levels"):
        bias_variance(
            one,
            pr.fit(
                pr.Model.from_arrays(X, np.arange(30) % 3, likelihood="categorical")
            ),
        )


def test_a_variable_behind_a_spline_is_kept_with_the_model():
    table = {
        "x": np.linspace(0, 3, 25),
        "y": np.sin(np.linspace(0, 3, 25)) + 0.1 * np.cos(7 * np.arange(25)),
    }
    spline = pr.Model.from_formula("y ~ bs(x, df=6)", table)
    found = bias_variance(
        spline, Truth(lambda v: np.sin(v["x"]), {"sigma": 0.1}), {"x": [0.7, 2.0]}
    )
    given = bias_variance(
        spline,
        Truth(lambda v: np.sin(v["x"]), {"sigma": 0.1}, table),
        {"x": [0.7, 2.0]},
    )
    assert given.data.equals(found.data)
    np.testing.assert_allclose(found.data["truth"], np.sin([0.7, 2.0]))
    # six splines make a good sine
    assert float(found.average["bias2"]) < float(found.average["variance"])


def test_a_sweep_trades_bias_for_variance():
    scales = np.geomspace(0.02, 20.0, 9)
    model = model_of(pr.Normal(1.0), 20, sigma=SIGMA)
    found = bias_variance(model, np.array([0.2, 0.5, -0.4]), scales=scales)
    assert found.data["error"].dims == ("scale", "obs")
    assert (np.diff(found.average["bias2"]) < 0).all()
    assert (np.diff(found.average["variance"]) > 0).all()
    assert (np.diff(found.average["df"]) > 0).all()
    assert 0.02 < found.best < 20.0
    one = bias_variance(
        model.with_prior(pr.Normal(scales[3])), np.array([0.2, 0.5, -0.4])
    )
    assert float(found.average["error"][3]) == pytest.approx(
        float(one.average["error"]), rel=1e-12
    )
    flat = bias_variance(
        model.with_prior(pr.Flat()), np.array([0.2, 0.5, -0.4]), scales=scales
    )
    np.testing.assert_allclose(
        flat.average["error"], found.average["error"], rtol=1e-12
    )  # Normal(scale) in its place
    wide = bias_variance(model, np.array([0.2, 0.5, -0.4]), scales=[1e6])
    # three columns, no penalty left
    assert float(wide.average["df"][0]) == pytest.approx(3.0, abs=1e-9)


def test_scales_multiply_every_scale_of_the_prior():
    model = model_of({"x1": pr.Normal(2.0), "x2": pr.Normal(0.5)}, sigma=SIGMA)
    truth = np.array([0.2, 0.5, -0.4])
    swept = bias_variance(model, truth, scales=[0.1, 3.0])
    for i, s in enumerate((0.1, 3.0)):
        one = bias_variance(
            model.with_prior({"x1": pr.Normal(2.0 * s), "x2": pr.Normal(0.5 * s)}),
            truth,
        )
        np.testing.assert_allclose(
            swept.data["error"][i], one.data["error"], rtol=1e-12
        )


def test_a_prior_that_depends_on_the_response_is_no_linear_smoother():
    # its raw scale is in units of sd(y)
    model = model_of(pr.Normal(1.0, scaled=True), 12, sigma=SIGMA)
    assert bias_variance(model, np.array([0.2, 0.5, -0.4]), reps=5).how == "simulation"
    assert (
        bias_variance(
            model_of(pr.Normal(1.0), 12),
            Truth([0.2, 0.5, -0.4], {"sigma": 1.0}),
            reps=5,
        ).how
        == "simulation"
    )


def test_the_same_seed_gives_the_same_answer_and_another_seed_another():
    model = model_of(pr.Normal(0.7), 10, sigma=SIGMA)
    a, b = (
        bias_variance(model, curve, method="newton", reps=10, seed=7) for _ in range(2)
    )
    np.testing.assert_array_equal(a.data["error"], b.data["error"])
    c = bias_variance(model, curve, method="newton", reps=10, seed=8)
    assert (a.data["error"] != c.data["error"]).all()


def test_fits_without_an_estimate_are_counted_and_left_out():
    x = np.linspace(-1, 1, 9)
    model = pr.Model.from_arrays(x, np.arange(9) % 2, likelihood="bernoulli")
    found = bias_variance(model, [0.0, 2.5], reps=60, seed=1)
    lost = int(found.average["failed"])
    assert 0 < lost < 60  # nine rows are separated now and then
    assert f"{lost} fits without an estimate" in str(found)
    np.testing.assert_allclose(
        found.data["error"],
        found.data["variance"] + found.data["bias"] ** 2,
        rtol=1e-11,
    )
    with pytest.raises(pr.NotConverged, match="0 of 3 simulated responses"):
        bias_variance(model, [0.0, 500.0], reps=3)


# ---- faults ------------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("truth", "more", "error", "words"),
    [
        (
            [1.0, 2.0],
            {},
            pr.DataError,
            r"shape \(2,\); expected 1 finite per column: Intercept, x1, x2",
        ),
        ([1.0, 2.0, np.nan], {}, pr.DataError, "finite"),
        (
            lambda v: np.ones(3),
            {},
            pr.DataError,
            r"returned shape \(3,\), expected \(8,\)",
        ),
        (lambda v: v["x1"] / 0.0, {}, pr.DataError, "the true mean of row 0"),
        (
            Truth([0.0, 1.0, 1.0], {"sigma": -1.0}),
            {},
            pr.DataError,
            "true sigma is -1.0",
        ),
        (
            [0.0, 1.0, 1.0],
            {"scales": [1.0, 0.0]},
            pr.DataError,
            "expected positive finite numbers",
        ),
        (
            [0.0, 1.0, 1.0],
            {"reps": 0, "method": "newton"},
            pr.DataError,
            "reps is a whole number",
        ),
        ([0.0, 1.0, 1.0], {"method": "perceptron"}, pr.Incompatible, "perceptron"),
    ],
)
def test_what_is_wrong_is_said(truth, more, error, words):
    with np.errstate(all="ignore"), pytest.raises(error, match=words):
        bias_variance(model_of(pr.Normal(1.0), sigma=SIGMA), truth, **more)


def test_a_truth_without_sigma_is_no_truth():
    with pytest.raises(
        pr.DataError, match=r"the truth lacks sigma: Truth\(..., aux=\{'sigma': ...\}\)"
    ):
        bias_variance(model_of(), [0.0, 1.0, 1.0])


def test_columns_that_are_not_identified_are_named():
    x = np.arange(6.0)
    model = pr.Model.from_arrays(np.c_[x, 2 * x], x, aux={"sigma": 1.0})
    with pytest.raises(pr.Incompatible, match="x2 = 2 x1"):
        bias_variance(model, [0.0, 1.0, 0.0])


def test_one_scale_has_no_best():
    with pytest.raises(pr.Incompatible, match="scales="):
        _ = bias_variance(model_of(sigma=SIGMA), [0.0, 1.0, 1.0]).best


# ---- the picture -------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("method", ["auto", "newton"])
def test_the_picture_draws_the_averages(method):
    model = model_of(pr.Normal(1.0), 12, sigma=SIGMA)
    found = bias_variance(
        model, [0.2, 0.5, -0.4], scales=[2.0, 0.1, 1.0], method=method, reps=6
    )
    fig = picture(found)
    fig.draw_without_rendering()
    (ax,) = fig.axes
    drawn = {line.get_label(): line for line in ax.lines}
    for name, words in (
        ("bias2", "bias²"),
        ("variance", "variance"),
        ("error", "error = bias² + variance"),
    ):
        np.testing.assert_array_equal(drawn[words].get_xdata(), [0.1, 1.0, 2.0])
        np.testing.assert_array_equal(
            drawn[words].get_ydata(), found.average[name].sortby("scale")
        )
    assert drawn["noise of one response"].get_ydata()[0] == pytest.approx(SIGMA**2)
    assert drawn[f"least error at {found.best:.3g}"].get_xdata()[0] == found.best
    # whiskers where there is a Monte Carlo error
    assert len(ax.collections) == (0 if method == "auto" else 3)


def test_no_sweep_no_picture():
    with pytest.raises(pr.Incompatible, match="pass scales="):
        picture(bias_variance(model_of(sigma=SIGMA), [0.2, 0.5, -0.4]))


def test_text_is_no_truth_and_no_scale():
    model = pr.Model.from_arrays(
        [[-1.0], [0.0], [1.0]], [1.0, 2.0, 4.0], aux={"sigma": 1.0}
    )
    with pytest.raises(
        pr.DataError,
        match="coefficients, a Fit, a function of the variables or a Truth, got 'steep'",
    ):
        bias_variance(model, "steep")
    with pytest.raises(pr.DataError, match="expected positive finite numbers"):
        bias_variance(model, [0.0, 1.0], scales="a")
