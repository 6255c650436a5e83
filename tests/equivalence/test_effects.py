"""Averaged predictions, comparisons and slopes against closed forms, statsmodels, and their own numerical gradients."""

import pickle

import numpy as np
import pandas as pd
import pytest

import probreg as pr
from probreg.comparison.effects.verbs import comparisons, predictions, slopes
from tests.conftest import covering

sm = pytest.importorskip("statsmodels.api")
NEAR = {
    "rtol": 1e-8,
    "atol": 1e-10,
}  # both programs stop Newton near rounding; statsmodels inverts the raw information


def rows(seed: int = 3, n: int = 120) -> pd.DataFrame:
    rng = np.random.default_rng(seed)
    x, z, d = (
        rng.normal(2.0, 1.3, n),
        rng.normal(size=n),
        rng.integers(0, 2, n).astype(float),
    )
    eta = 0.4 * x - 0.7 * z + 0.5 * d - 0.6
    frame = pd.DataFrame(
        {"x": x, "z": z, "d": d, "g": np.array(["a", "b", "c"])[rng.integers(0, 3, n)]}
    )
    frame["binary"] = (rng.random(n) < 1 / (1 + np.exp(-eta))).astype(int)
    frame["count"] = rng.poisson(np.exp(0.5 * eta))
    frame["line"] = eta + rng.normal(size=n)
    u = np.stack([np.zeros(n), eta, -eta + 0.3 * x], 1) + rng.gumbel(size=(n, 3))
    frame["kind"] = np.array(["r", "s", "t"])[u.argmax(1)]
    return frame


def fitted(response: str, likelihood: str, right: str = "x + z + d", **more) -> pr.Fit:
    return pr.fit(
        pr.Model.from_formula(
            f"{response} ~ {right}", rows(), likelihood=likelihood, **more
        )
    )


@pytest.mark.parametrize(("response", "likelihood", "peer"), [("binary", "bernoulli", "Logit"), ("count", "poisson", "Poisson")])  # fmt: skip
def test_slopes_and_comparisons_are_those_of_statsmodels(response, likelihood, peer):
    data, fit = rows(), fitted(response, likelihood)
    theirs = getattr(sm, peer)(data[response], sm.add_constant(data[["x", "z", "d"]])).fit(disp=0, tol=1e-14, method="newton")  # fmt: skip
    plain = theirs.get_margeff(at="overall")
    ours = slopes(fit, average_over="sample").table
    np.testing.assert_allclose(ours["estimate"], plain.margeff, **NEAR)
    np.testing.assert_allclose(ours["std_error"], plain.margeff_se, **NEAR)
    np.testing.assert_allclose(ours[["lower", "upper"]], plain.conf_int(), **NEAR)
    dummy = theirs.get_margeff(at="overall", dummy=True)
    moved = comparisons(fit, "d", average_over="sample").table
    assert moved["contrast"].item() == "1 against 0"
    np.testing.assert_allclose(moved["estimate"], dummy.margeff[2:], **NEAR)
    np.testing.assert_allclose(moved["std_error"], dummy.margeff_se[2:], **NEAR)


def test_slopes_of_a_softmax_are_those_of_statsmodels_in_every_parametrisation():
    data = rows()
    code = pd.Categorical(data["kind"]).codes
    theirs = sm.MNLogit(code, sm.add_constant(data[["x", "z", "d"]])).fit(
        disp=0, tol=1e-14, method="newton"
    )
    margins = theirs.get_margeff(at="overall")
    for likelihood in (
        pr.Categorical(),
        pr.Categorical(reference="t"),
        pr.Categorical(symmetric=True),
    ):
        ours = slopes(fitted("kind", likelihood), average_over="sample").table
        assert ours["level"].tolist() == ["r", "s", "t"] * 3
        np.testing.assert_allclose(
            ours["estimate"].to_numpy().reshape(3, 3), margins.margeff, **NEAR
        )
        np.testing.assert_allclose(
            ours["std_error"].to_numpy().reshape(3, 3), margins.margeff_se, **NEAR
        )


def test_least_squares_gives_back_its_coefficients_and_t_intervals():
    fit = fitted("line", "gaussian")
    ours = slopes(fit, prob=0.9).table.set_index("variable")
    ends = fit.interval(0.9)
    for name in ("x", "z", "d"):
        np.testing.assert_allclose(
            ours.loc[name, "estimate"], fit.coef.sel(coef=name), rtol=1e-11
        )
        np.testing.assert_allclose(
            ours.loc[name, "std_error"], fit.std_error.sel(coef=name), rtol=1e-11
        )
        for end in ("lower", "upper"):
            np.testing.assert_allclose(
                ours.loc[name, end], ends[end].sel(coef=name), rtol=1e-10
            )
    average = predictions(fit).table
    # the normal equations
    np.testing.assert_allclose(average["estimate"], rows()["line"].mean(), rtol=1e-12)
    one = fit.predict({"x": [1.0], "z": [0.0], "d": [1.0]})
    at = predictions(fit, at={"x": 1.0, "z": 0.0, "d": 1.0}).table
    np.testing.assert_allclose(at[["lower", "upper"]].to_numpy()[0], [one["mean_lower"][0], one["mean_upper"][0]], rtol=1e-10)  # fmt: skip


@pytest.mark.parametrize(("response", "likelihood"), covering([("binary", "bernoulli"), ("count", "poisson"), ("kind", "categorical"), ("line", "student")]))  # fmt: skip
def test_the_gradient_of_every_effect_is_its_numerical_one(response, likelihood):
    data = rows()
    fit = fitted(response, likelihood, "x * g + poly(z, 3)")
    found = [
        slopes(fit, data=data),
        comparisons(fit, {"g": "pairwise", "x": "sd"}, data=data, by="d"),
    ]
    k, S = fit.solution.beta.size, fit.solution.scale.matrix()
    for effects, again in zip(
        found,
        (
            slopes,
            lambda f, **k: comparisons(f, {"g": "pairwise", "x": "sd"}, by="d", **k),
        ),
    ):

        def at(direction, again=again):
            from dataclasses import replace

            beta = fit.solution.beta + direction.reshape(fit.solution.beta.shape)
            return (
                again(
                    replace(fit, solution=replace(fit.solution, beta=beta)), data=data
                )
                .table["estimate"]
                .to_numpy()
            )

        h = 1e-4 * np.sqrt(np.diagonal(S))
        G = np.stack(
            [
                (at(h[j] * np.eye(k)[j]) - at(-h[j] * np.eye(k)[j])) / (2 * h[j])
                for j in range(k)
            ],
            1,
        )
        # A central difference over 1e-4 SE is right to about 1e-8; the slopes of columns are five-point differences.
        np.testing.assert_allclose(effects.covariance, G @ S @ G.T, rtol=2e-6, atol=1e-7 * np.abs(effects.covariance).max())  # fmt: skip


def test_a_slope_through_a_curve_is_its_derivative_also_at_the_ends():
    data = rows()
    fit = fitted("line", "gaussian", "I(x**3) + np.exp(z / 2)")
    b = fit.coef.values
    ours = slopes(fit, data=data).table["estimate"]
    x, z = data["x"], data["z"]
    np.testing.assert_allclose(
        ours, [3 * b[1] * (x**2).mean(), b[2] * (np.exp(z / 2) / 2).mean()], rtol=1e-9
    )
    # refuses values outside the range, where no slope is asked for
    spline = fitted("binary", "bernoulli", "bs(x, df=5)")
    path = np.linspace(x.min(), x.max(), 4001)
    p = spline.predict({"x": path})["mean"].values
    whole = slopes(spline, data={"x": path}).table["estimate"].item()
    # the mean slope of a curve
    assert abs(whole - (p[-1] - p[0]) / (path[-1] - path[0])) < 2e-3 * abs(p[-1] - p[0])


def test_a_slope_at_one_value_stays_inside_what_was_observed():
    data = rows()
    fit = fitted("line", "gaussian", "bs(x, df=5)")
    low, high = data["x"].min(), data["x"].max()
    at = slopes(fit, data=data, at={"x": [low, 3.0, high]}).table["estimate"].to_numpy()
    h = 1e-5
    p = fit.predict({"x": [low, low + h, 3.0 - h, 3.0 + h, high - h, high]})[
        "mean"
    ].values
    np.testing.assert_allclose(
        at, [(p[1] - p[0]) / h, (p[3] - p[2]) / (2 * h), (p[5] - p[4]) / h], rtol=1e-3
    )
    outside = fitted("line", "gaussian", "I(x**2)")
    b = outside.coef.values
    np.testing.assert_allclose(
        slopes(outside, data=data, at={"x": [-20.0, 40.0]}).table["estimate"],
        [-40 * b[1], 80 * b[1]],
        rtol=1e-8,
    )


def test_frequency_weights_are_repeated_rows():
    data = rows(n=60)
    w = np.arange(60) % 3 + 1
    long = data.loc[np.repeat(data.index, w)].reset_index(drop=True)
    short = pr.fit(
        pr.Model.from_formula(
            "binary ~ x + z + g", data, likelihood="bernoulli", weights=w
        )
    )
    full = pr.fit(
        pr.Model.from_formula("binary ~ x + z + g", long, likelihood="bernoulli")
    )
    for ask in (
        predictions,
        comparisons,
        slopes,
        lambda f: comparisons(f, {"x": "sd"}),
        lambda f: predictions(f, by="g"),
    ):
        a, b = ask(short), ask(full)
        columns = ["estimate", "std_error", "lower", "upper"]
        np.testing.assert_allclose(a.table[columns], b.table[columns], rtol=1e-8)
    once = predictions(short, data=data.drop(columns="binary").iloc[:10])
    assert "10 given rows, each once" in once.what
    np.testing.assert_allclose(
        once.table["estimate"], short.predict(data.iloc[:10])["mean"].mean(), rtol=1e-12
    )


def test_ratios_and_odds_ratios_stand_in_their_closed_forms():
    fit = fitted("count", "poisson")
    ratio = comparisons(fit, "d", measure="ratio").table.iloc[0]
    b, se = fit.coef.sel(coef="d").item(), fit.std_error.sel(coef="d").item()
    # a log link: the ratio is the same in every row
    np.testing.assert_allclose(ratio["estimate"], np.exp(b), rtol=1e-10)
    np.testing.assert_allclose(ratio["std_error"], np.exp(b) * se, rtol=1e-8)
    np.testing.assert_allclose(ratio[["lower", "upper"]].astype(float), np.exp(b + se * 1.959963984540054 * np.array([-1, 1])), rtol=1e-8)  # fmt: skip
    logit = fitted("binary", "bernoulli")
    held = {"x": 1.0, "z": 0.0}
    odds = comparisons(logit, "d", measure="odds_ratio", at=held).table.iloc[0]
    np.testing.assert_allclose(
        odds["estimate"], np.exp(logit.coef.sel(coef="d")), rtol=1e-10
    )


def test_offsets_are_kept_and_move_with_their_variable():
    data = rows()
    data["time"] = np.random.default_rng(1).uniform(1, 5, len(data))
    fit = pr.fit(
        pr.Model.from_formula(
            "count ~ x", data, likelihood="poisson", offset="np.log(time)"
        )
    )
    mean = (
        np.exp(fit.coef.values @ np.stack([np.ones(len(data)), data["x"]]))
        * data["time"]
    )
    np.testing.assert_allclose(
        predictions(fit).table["estimate"], mean.mean(), rtol=1e-10
    )
    doubled = comparisons(fit, {"time": (1.0, 2.0)}, measure="ratio").table
    np.testing.assert_allclose(doubled["estimate"], 2.0, rtol=1e-12)
    array = pr.fit(
        pr.Model.from_formula(
            "count ~ x",
            data,
            likelihood="poisson",
            offset=np.log(data["time"].to_numpy()),
        )
    )
    np.testing.assert_allclose(
        predictions(array).table["estimate"], mean.mean(), rtol=1e-8
    )
    with pytest.raises(
        pr.DataError, match=r"'time' is no variable of this model; there are: x$"
    ):
        comparisons(array, "time")


def test_a_posterior_is_averaged_draw_by_draw_and_in_closed_form_where_it_is_linear():
    model = pr.Model.from_formula("line ~ x + z + d", rows())
    ml, exact = pr.fit(model), pr.fit(model, "conjugate", seed=4)
    a, b = slopes(ml).table, slopes(exact)
    assert b.kind.endswith("exact")
    np.testing.assert_allclose(
        a[["lower", "upper"]], b.table[["lower", "upper"]], rtol=1e-9
    )  # flat prior: the t interval
    np.testing.assert_allclose(b.table["sd"], exact.std_error.values[1:], rtol=1e-9)
    logit = pr.Model.from_formula(
        "binary ~ x + z + g", rows(), likelihood="bernoulli", prior=pr.Normal(1.5)
    )
    post = pr.fit(logit, "laplace", seed=4)
    found = comparisons(post, "x", by="g", average_over="sample")
    draws = post.solution.draws.flat["beta"][..., 0]
    X = logit.design.X[rows()["g"] == "b"]
    up = X + np.eye(X.shape[1])[logit.design.columns.index("x")]
    by_hand = (1 / (1 + np.exp(-draws @ up.T)) - 1 / (1 + np.exp(-draws @ X.T))).mean(1)
    np.testing.assert_allclose(found.draws[:, 1], by_hand, rtol=1e-10, atol=1e-14)
    np.testing.assert_allclose(found.table.loc[1, ["estimate", "lower", "upper"]].astype(float), [by_hand.mean(), *np.quantile(by_hand, [0.025, 0.975])], rtol=1e-10)  # fmt: skip
    with pytest.raises(pr.Incompatible, match="point estimates"):
        slopes(post, covariance=post.covariance())


def test_another_covariance_takes_the_place_of_the_fits_own():
    for likelihood in (pr.Categorical(), pr.Categorical(symmetric=True)):
        fit = fitted("kind", likelihood)
        fixed = {"average_over": "sample"}
        own = slopes(fit, **fixed).table
        np.testing.assert_allclose(
            slopes(fit, covariance=fit.covariance(), **fixed).table["std_error"],
            own["std_error"],
            rtol=1e-8,
        )
        four = slopes(fit, covariance=4.0 * fit.covariance(), **fixed).table
        np.testing.assert_allclose(four["std_error"], 2.0 * own["std_error"], rtol=1e-8)
    for wrong in (
        np.eye(2),
        fit.covariance().values,
        fit.covariance().assign_coords(param=[f"other {k}" for k in range(12)]),
    ):
        with pytest.raises(
            pr.DataError, match="covariance is the name of a kind, or what"
        ):
            slopes(fit, covariance=wrong)
    line, robust = (
        fitted("line", "gaussian"),
        fitted("line", "gaussian").interval(0.95, covariance="HC3"),
    )
    found = slopes(line, covariance="HC3")
    assert "HC3 covariance" in found.kind
    np.testing.assert_allclose(
        found.table[["lower", "upper"]].to_numpy()[0],
        [robust["lower"][1], robust["upper"][1]],
        rtol=1e-9,
    )
    with pytest.raises(pr.DataError, match="HC9"):
        slopes(line, covariance="HC9")


def test_only_what_the_rows_determine_has_an_effect():
    data = rows()
    data["twice"] = 2.0 * data["x"]
    with pytest.warns(pr.ProbregWarning):
        fit = pr.fit(pr.Model.from_formula("line ~ x + twice + z", data))
    reduced = pr.fit(pr.Model.from_formula("line ~ x + z", data))
    np.testing.assert_allclose(slopes(fit, "z").table[["estimate", "std_error"]], slopes(reduced, "z").table[["estimate", "std_error"]], rtol=1e-8)  # fmt: skip
    np.testing.assert_allclose(predictions(fit).table["estimate"], data["line"].mean())
    with pytest.raises(pr.Incompatible, match=r"no estimate.*twice = 2 x"):
        slopes(fit, "x")
    data["same"] = np.full(len(data["x"]), 0.1)
    with pytest.warns(pr.ProbregWarning):
        fit = pr.fit(pr.Model.from_formula("line ~ exp(x / 4) + same", data))
    reduced = pr.fit(pr.Model.from_formula("line ~ exp(x / 4)", data))
    np.testing.assert_allclose(slopes(fit, "x").table[["estimate", "std_error"]], slopes(reduced, "x").table[["estimate", "std_error"]], rtol=1e-8)  # fmt: skip


def test_questions_that_cannot_be_answered_say_why():
    data, fit = rows(), fitted("binary", "bernoulli", "x + g")
    with pytest.raises(
        pr.DataError, match="'q' is no variable of this model; there are: x, g"
    ):
        comparisons(fit, "q")
    with pytest.raises(
        pr.DataError,
        match=r"'g' is a category and has no slope: use comparisons\(fit, 'g'\)",
    ):
        slopes(fit, "g")
    with pytest.raises(pr.DataError, match=r"'g' is a category: .* got 3"):
        comparisons(fit, {"g": 3})
    with pytest.raises(pr.DataError, match=r"'x' is a number: .* got 'pairwise'"):
        comparisons(fit, {"x": "pairwise"})
    with pytest.raises(pr.DataError, match="measure is 'difference'"):
        comparisons(fit, "x", measure="relative")
    with pytest.raises(pr.DataError, match="by='d' is no variable"):
        predictions(fit, by="d")
    assert predictions(fit, by="d", data=data).table["d"].tolist() == [0.0, 1.0]
    with pytest.raises(pr.DataError, match="at: 'h' is no variable"):
        predictions(fit, at={"h": 1})
    many = pr.fit(
        pr.Model.from_formula("binary ~ x", rows(n=220), likelihood="bernoulli")
    )
    with pytest.raises(pr.DataError, match="makes 220 groups"):
        predictions(many, by="x")
    with pytest.raises(pr.DataError, match="intercept alone"):
        comparisons(fitted("binary", "bernoulli", "1"))
    assert predictions(fitted("binary", "bernoulli", "1")).table[
        "estimate"
    ].item() == pytest.approx(data["binary"].mean())
    x = np.arange(8.0)
    with pytest.warns(pr.ProbregWarning):
        separated = pr.fit(
            pr.Model.from_arrays(x, x > 3, columns=["x"], likelihood="bernoulli")
        )
    with pytest.raises(pr.NotConverged, match="nothing to predict from"):
        slopes(separated)


HIDDEN = {
    "spline": ("bs(t, df=4) * g", {}),
    "offset": ("log(t)", {"offset": "np.sqrt(t)"}),
    "weights": ("np.sqrt(t) + d", {"weights": "k"}),
}


@pytest.mark.parametrize("name", HIDDEN)
def test_variables_behind_transforms_are_kept(name, tmp_path):
    data = rows().assign(
        t=lambda d: np.exp(d["x"]),
        k=lambda d: np.arange(len(d)) % 3,
        g=lambda d: pd.Categorical(d["g"]),
    )
    formula, options = HIDDEN[name]
    model = pr.Model.from_formula(
        f"count ~ {formula}", data, likelihood="poisson", **options
    )
    assert np.shares_memory(model.design.read["t"], data["t"].to_numpy()) == (
        "weights" not in options
    )
    fit = pr.fit(model)
    moved = {"t": (1.0, 1.5)}
    wanted = [
        slopes(fit, "t", data=data).table,
        comparisons(fit, moved, data=data).table,
    ]
    saved = pr.load_fit(fit.save(tmp_path / "fit.nc", rows=True))
    for one in (fit, pickle.loads(pickle.dumps(fit)), saved):
        again = (
            slopes(one, "t", average_over="sample").table,
            comparisons(one, moved, average_over="sample").table,
        )
        for mine, theirs in zip(again, wanted, strict=True):
            np.testing.assert_allclose(mine["estimate"], theirs["estimate"], rtol=1e-9)
            np.testing.assert_allclose(
                mine["std_error"], theirs["std_error"], rtol=1e-9
            )
    again = pr.fit(
        model.at(
            data,
            **{k: data[v].to_numpy() for k, v in options.items() if k == "weights"},
        )
    )
    np.testing.assert_allclose(
        slopes(again, "t").table["estimate"], wanted[0]["estimate"], rtol=1e-9
    )


def test_a_table_that_was_changed_in_place_is_noticed():
    table = {"y": np.arange(9.0) % 4, "x": np.arange(1.0, 10.0)}
    fit = pr.fit(pr.Model.from_formula("y ~ log(x)", table))
    table["x"][3] = 40.0
    with pytest.raises(
        pr.DataError, match="its table was changed since; pass data=, as it was"
    ):
        slopes(fit)
    table["x"][3] = 4.0
    assert len(slopes(fit).table) == 1


def test_levels_that_no_column_shows_are_kept_and_saved(tmp_path):
    n = 24
    table = {
        "x": np.linspace(1.0, 7.0, n),
        "b": np.arange(n) % 2 == 0,
        "g": np.array(list("abc") * (n // 3)),
    }
    table["y"] = np.sin(np.arange(n)) + table["x"]
    fit = pr.fit(pr.Model.from_formula("y ~ log(x):b + C(g, contr.sum)", table))
    again = pr.load_fit(fit.save(tmp_path / "fit.nc", rows=True))
    assert set(again.model.design.read) == {"x", "b", "g"}
    for name, values in again.model.design.read.items():
        assert values.tolist() == table[name].tolist()
    np.testing.assert_allclose(
        comparisons(again, "g").table["estimate"],
        comparisons(fit, "g").table["estimate"],
    )


@pytest.mark.parametrize(
    ("right", "column"),
    [
        ("x + z + C(g)", 1), ("z + x:z + x", None), ("x + (1 | g)", 1), ("z + (x | g) + x", None), ("s(x) + z", None), ("`x` + s(z)", 1),
        ("log(x + 9)", None),
    ],
)  # fmt: skip
def test_a_variable_that_is_a_column_of_its_own_moves_as_the_formula_says(
    right, column, monkeypatch
):
    """Columns that are the variable itself take its values: the same effects as columns made again by the formula."""
    data = rows()
    fit = pr.fit(pr.Model.from_formula(f"line ~ {right}", data))
    recipe = fit.model.design.recipe
    found = recipe.own_column("x")
    assert found == (None if column is None else recipe.columns.index("x"))
    quick = [
        f(fit, "x").table[["estimate", "lower"]].to_numpy(float)
        for f in (slopes, comparisons)
    ]
    monkeypatch.setattr(type(recipe), "own_column", lambda self, name: None)
    slow = [
        f(fit, "x").table[["estimate", "lower"]].to_numpy(float)
        for f in (slopes, comparisons)
    ]
    np.testing.assert_allclose(quick, slow, rtol=1e-8)


def test_an_offset_that_reads_a_variable_moves_with_it():
    data = rows()
    model = pr.Model.from_formula(
        "count ~ x + z", data, likelihood="poisson", offset="log(x * x + 1)"
    )
    assert model.design.recipe.own_column("x") is None
    assert model.design.recipe.own_column("z") is not None
    # a value that is no number is refused as by the formula
    with pytest.raises(pr.DataError, match="x"):
        comparisons(pr.fit(model), {"z": (0.0, np.nan)})


def test_a_posterior_slope_through_one_curved_column_and_a_move_by_one_sd():
    rng = np.random.default_rng(3)
    data = {
        "x": rng.normal(size=40),
        "k": rng.poisson(2.0, size=40),
        "y": rng.normal(size=40),
    }
    fit = pr.fit(
        pr.Model.from_formula(
            "k ~ 0 + I(x ** 2)", data, likelihood="poisson", prior=pr.Normal(1.0)
        ),
        "laplace",
    )
    b = fit.solution.draws.flat["beta"][:, 0]
    x = data["x"]
    own = (np.exp(b * x**2) * 2.0 * x * b).mean()
    assert slopes(fit, "x").table["estimate"].iloc[0] == pytest.approx(own, rel=1e-6)
    line = pr.fit(pr.Model.from_formula("y ~ x", data))
    moved = comparisons(line, {"x": "sd"}).table["estimate"].iloc[0]
    assert moved == pytest.approx(line.coef.values[1] * x.std(ddof=1), rel=1e-12)


def test_a_balanced_grid_has_both_truth_values_and_the_mean_offset():
    rng = np.random.default_rng(0)
    data = pd.DataFrame(
        {"x": rng.normal(size=60), "b": rng.random(60) > 0.4, "w": rng.random(60) + 0.5}
    )
    data["k"] = rng.poisson(np.exp(0.3 * data.x))
    model = pr.Model.from_formula(
        "k ~ x + I(b * 1.0)", data, likelihood="poisson", offset=np.log(data.w.array)
    )
    fit = pr.fit(model)
    at_mean = data.x.mean() * fit.coef.values[1] + np.log(data.w).mean()
    eta = fit.coef.values[0] + fit.coef.values[2] * np.array([0.0, 1.0]) + at_mean
    found = predictions(fit, grid="balanced").table["estimate"]
    np.testing.assert_allclose(found, [np.exp(eta).mean()], rtol=1e-12)
    assert comparisons(fit, "b").table["contrast"].tolist() == ["True against False"]


def test_one_sd_of_a_number_is_that_of_its_rows_under_sampling_weights():
    rng = np.random.default_rng(0)
    x = rng.normal(size=40)
    weights = pr.weights.sampling(rng.random(40) + 0.5)
    fit = pr.ols("y ~ x", {"x": x, "y": x + rng.normal(size=40)}, weights=weights)
    (estimate,) = comparisons(fit, {"x": "sd"}).table["estimate"]
    assert estimate == pytest.approx(x.std(ddof=1) * fit.coef.values[1], rel=1e-12)


def test_contrasts_of_draws_are_those_of_each_draw():
    rng = np.random.default_rng(0)
    data = {"k": rng.poisson(2.0, 30), "g": np.repeat(list("abc"), 10)}
    model = pr.Model.from_formula("k ~ g", data, likelihood="poisson", prior=pr.Normal(1.0))  # fmt: skip
    found = predictions(pr.fit(model, "laplace", seed=1), by="g")
    row = found.hypothesis("b3 = b1").table.iloc[0]
    contrast = found.draws[:, 2] - found.draws[:, 0]
    np.testing.assert_allclose(
        row[["estimate", "sd", "lower", "upper"]].to_numpy(dtype=float),
        [contrast.mean(), contrast.std(), *np.quantile(contrast, [0.025, 0.975])],
        rtol=1e-3,  # the divisor of the standard deviation
    )


def test_a_new_group_of_a_mode_without_errors_has_an_estimate():
    rng = np.random.default_rng(0)
    data = {"k": rng.poisson(2.0, 40), "x": rng.normal(size=40), "g": np.repeat(list("abcde"), 8)}  # fmt: skip
    prior = {"x": pr.Laplace(0.5), "1 | g": pr.Covariance(0.3)}
    model = pr.Model.from_formula("k ~ x + (1 | g)", data, likelihood="poisson", prior=prior)  # fmt: skip
    fit = pr.fit(model)
    row = predictions(fit, groups="new").table.iloc[0]
    typical = predictions(fit).table["estimate"][0]
    # E exp(b) = exp(s^2 / 2) of b ~ N(0, s^2), from 4,000 draws
    assert row["estimate"] == pytest.approx(typical * np.exp(0.3**2 / 2), rel=0.03)
    assert row[["std_error", "lower", "upper"]].isna().all()


@pytest.mark.parametrize("method", ["closed_form", "conjugate"])
@pytest.mark.parametrize("measure", ["ratio", "odds_ratio"])
def test_ratios_of_negative_averages_are_refused(method, measure):
    table = {"f": ["a"] * 20 + ["b"] * 20, "y": [1.0, 1.1] * 10 + [-1.0, -1.1] * 10}
    fit = pr.fit(pr.Model.from_formula("y ~ f", table), method, seed=1)
    with pytest.raises(pr.Incompatible, match="use measure='difference'"):
        pr.comparisons(fit, "f", measure=measure)
