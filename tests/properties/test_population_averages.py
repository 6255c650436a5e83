"""Averages over rows that are a sample of a population: identities, equivalences, and simulated coverage."""

import numpy as np
import pandas as pd
import pytest

import probreg as pr
from probreg.comparison.effects.result import Effects
from probreg.comparison.effects.verbs import comparisons, predictions, slopes

CANONICAL = {"b": "bernoulli", "k": "poisson", "y": "gaussian"}


def rows(n: int = 150, seed: int = 1) -> pd.DataFrame:
    rng = np.random.default_rng(seed)
    x, z, t = rng.normal(size=n), rng.normal(size=n), rng.integers(0, 2, n)
    eta = 0.6 * x - 0.4 * z + 0.5 * t - 0.2
    data = pd.DataFrame(
        {"x": x, "z": z, "t": t, "g": np.array(list("abc"))[rng.integers(0, 3, n)]}
    )
    data["b"], data["k"] = (
        (rng.random(n) < 1 / (1 + np.exp(-eta))).astype(int),
        rng.poisson(np.exp(eta)),
    )
    data["y"], data["w"] = eta + rng.normal(size=n), rng.integers(1, 4, n)
    data["c"] = np.array(list("uvw"))[
        (np.c_[np.zeros(n), eta, -eta] + rng.gumbel(size=(n, 3))).argmax(1)
    ]
    data["h"] = np.repeat(np.arange(n // 10), 10).astype(str)
    return data


def numbers(effects: Effects) -> np.ndarray:
    return effects.table[["estimate", "std_error", "lower", "upper"]].to_numpy(float)


@pytest.mark.parametrize("response", CANONICAL)
@pytest.mark.parametrize("right", ["x", "x * t + z", "bs(x, df=4) + g", "1"])
def test_the_average_prediction_has_the_standard_error_of_the_sample_mean(
    response, right
):
    data = rows()
    fit = pr.fit(
        pr.Model.from_formula(
            f"{response} ~ {right}", data, likelihood=CANONICAL[response]
        )
    )
    found, v = predictions(fit), data[response].to_numpy(float)
    assert found.average_over == "population"
    np.testing.assert_allclose(found.table["estimate"].item(), v.mean(), rtol=1e-9)
    np.testing.assert_allclose(
        found.table["std_error"].item(), v.std() / np.sqrt(len(v)), rtol=1e-8
    )
    if response == "b":
        m = v.mean()
        np.testing.assert_allclose(
            found.table["std_error"].item(), np.sqrt(m * (1 - m) / len(v)), rtol=1e-8
        )


def test_the_same_identity_holds_for_classes_groups_and_weights():
    data = rows()
    fit = pr.fit(pr.Model.from_formula("c ~ x + g", data, likelihood="categorical"))
    share = np.array([(data["c"] == v).mean() for v in "uvw"])
    np.testing.assert_allclose(
        predictions(fit).table["std_error"],
        np.sqrt(share * (1 - share) / len(data)),
        rtol=1e-7,
    )
    fit = pr.fit(pr.Model.from_formula("b ~ g", data, likelihood="bernoulli"))
    by = data.groupby("g")["b"].agg(["mean", "size"])
    np.testing.assert_allclose(predictions(fit, by="g").table["std_error"], np.sqrt(by["mean"] * (1 - by["mean"]) / by["size"]), rtol=1e-8)  # fmt: skip
    # sampling weights: the error of a weighted mean, with n / (n - 1) as for the coefficients
    fit = pr.fit(
        pr.Model.from_formula(
            "b ~ x", data, likelihood="bernoulli", weights=pr.weights.sampling("w")
        )
    )
    w, n = data["w"] / data["w"].sum(), len(data)
    mean = w @ data["b"]
    np.testing.assert_allclose(
        predictions(fit).table["estimate"].item(), mean, rtol=1e-9
    )
    error = np.sqrt(n / (n - 1) * (w**2 @ (data["b"] - mean) ** 2))
    np.testing.assert_allclose(
        predictions(fit).table["std_error"].item(), error, rtol=1e-8
    )


EFFECTS = {
    "predictions": predictions,
    "predictions by group": lambda f, **k: predictions(f, by="g", **k),
    "comparisons": lambda f, **k: comparisons(
        f, {"t": (0, 1), "x": "sd", "z": "iqr", "g": "pairwise"}, **k
    ),
    "ratios": lambda f, **k: comparisons(f, {"t": (0, 1)}, measure="ratio", **k),
    "slopes": slopes,
}


@pytest.mark.parametrize(
    ("name", "response"),
    [*((name, "b") for name in EFFECTS), ("comparisons", "k"), ("comparisons", "c")],
)
def test_frequency_weights_are_copies(name, response):
    data, likelihood = rows(80), {**CANONICAL, "c": "categorical"}[response]
    formula = f"{response} ~ x + z + t * g"
    short = pr.fit(
        pr.Model.from_formula(formula, data, likelihood=likelihood, weights="w")
    )
    long = data.loc[data.index.repeat(data["w"])].reset_index(drop=True)
    full = pr.fit(pr.Model.from_formula(formula, long, likelihood=likelihood))
    for covariance in (None, "HC1", "observed"):
        one, other = (EFFECTS[name](f, covariance=covariance) for f in (short, full))
        np.testing.assert_allclose(numbers(one), numbers(other), rtol=2e-6, atol=1e-9)


def counted(data: pd.DataFrame, response: str) -> tuple[pr.Model, pr.Model]:
    """A model of single trials and one of their counts in cells."""
    data = data.assign(x=data["x"].round(0), z=data["z"].round(0))
    keys = ["x", "z", "t", "g"]
    if response == "b":
        cells = data.groupby(keys)["b"].agg(["sum", "size"]).reset_index()
        return pr.Model.from_formula("b ~ x + z + t * g", data, likelihood="bernoulli"), pr.Model.from_formula("p(sum, size) ~ x + z + t * g", cells)  # fmt: skip
    cells = data.groupby(keys)["c"].value_counts().unstack(fill_value=0).reset_index()
    return pr.Model.from_formula("c ~ x + z + t * g", data, likelihood="categorical"), pr.Model.from_formula("counts(u, v, w) ~ x + z + t * g", cells)  # fmt: skip


@pytest.mark.parametrize(
    ("name", "response"),
    [*((name, "b") for name in EFFECTS), ("comparisons", "c"), ("slopes", "c")],
)
def test_single_and_counted_trials_have_equal_averages_and_errors(name, response):
    single, cells = (pr.fit(m) for m in counted(rows(200), response))
    for how in ({}, {"average_over": "sample"}, {"covariance": "HC1"}):
        np.testing.assert_allclose(numbers(EFFECTS[name](single, **how)), numbers(EFFECTS[name](cells, **how)), rtol=1e-6, atol=1e-9)  # fmt: skip


CELLS = [("A", "a", 1338, 20669), ("A", "b", 36, 1237), ("A", "c", 255, 3943), ("B", "a", 1281, 19986), ("B", "b", 38, 1224), ("B", "c", 249, 3674)]  # fmt: skip


def test_averages_of_counted_trials_are_of_trials_and_of_rows_by_name():
    cells = pd.DataFrame(CELLS, columns=["trt", "g", "k", "N"])
    fit = pr.fit(pr.Model.from_formula("p(k, N) ~ trt * g", cells))
    found = comparisons(fit, "trt")
    assert found.table["estimate"].item() == pytest.approx(0.0000473, abs=5e-8)
    assert "50733 trials" in found.what
    by_row = comparisons(fit, "trt", unit="row").table["estimate"].item()
    assert by_row == pytest.approx(0.001468, abs=5e-7)
    assert predictions(fit).table["estimate"].item() == pytest.approx(
        cells["k"].sum() / cells["N"].sum(), rel=1e-9
    )
    again = comparisons(fit, "trt", data=cells).table["estimate"].item()
    assert again == pytest.approx(found.table["estimate"].item(), rel=1e-9)
    part = comparisons(fit, "trt", data=cells.iloc[:3])
    assert "trials of 3 given rows" in part.what
    each = (
        fit.predict(cells.assign(trt="B"))["mean"].values
        - fit.predict(cells.assign(trt="A"))["mean"].values
    )
    np.testing.assert_allclose(
        part.table["estimate"].item(),
        np.average(each[:3], weights=cells["N"][:3]),
        rtol=1e-9,
    )
    with pytest.raises(pr.DataError, match="unit"):
        predictions(pr.fit(pr.Model.from_formula("y ~ x", rows())), unit="trial")


def test_rows_that_are_given_are_fixed():
    data = rows()
    fit = pr.fit(pr.Model.from_formula("b ~ x * t", data, likelihood="bernoulli"))
    fixed = numbers(comparisons(fit, "t", average_over="sample"))
    np.testing.assert_array_equal(numbers(comparisons(fit, "t", data=data)), fixed)
    sampled = comparisons(fit, "t", data=data, average_over="population")
    np.testing.assert_array_equal(numbers(sampled), numbers(comparisons(fit, "t")))
    for effects in (
        comparisons(fit, "t", at={"x": 0.0}),
        comparisons(fit, "t", grid="balanced"),
    ):
        assert effects.average_over == "sample"
        assert "sample (the rows are fixed)" in repr(effects).replace("\n    ", " ")
    assert "population" in repr(comparisons(fit, "t"))
    for wrong in ({"grid": "balanced"}, {"data": data[:20]}):
        with pytest.raises(pr.DataError, match="average_over"):
            comparisons(fit, "t", average_over="population", **wrong)
    with pytest.raises(pr.DataError, match="average_over"):
        predictions(fit, average_over="rows")


def test_an_effect_that_is_the_same_in_every_row_has_the_error_of_its_coefficient():
    fit = pr.fit(pr.Model.from_formula("y ~ x + z + g", rows()))
    for found in (slopes(fit, "x"), comparisons(fit, "x")):
        assert found.table["std_error"].item() == pytest.approx(
            fit.std_error.sel(coef="x").item(), rel=1e-9
        )
        np.testing.assert_array_equal(found.table["std_error"], (slopes if "contrast" not in found.table else comparisons)(fit, "x", average_over="sample").table["std_error"])  # fmt: skip


def test_clusters_and_lags_are_named_by_kind():
    data = rows()
    for response in ("b", "y"):
        fit = pr.fit(
            pr.Model.from_formula(
                f"{response} ~ x * t", data, likelihood=CANONICAL[response]
            )
        )
        for how, kind in (
            ({"groups": "h", "data": data}, "cluster"),
            ({"groups": data["h"]}, "cluster"),
            ({"lags": 3}, "HAC"),
        ):
            V = fit.covariance(kind, **how)
            by_matrix = pr.hypothesis(fit, "x = 0, t = 0", covariance=V)[
                "Wald"
            ].statistic
            by_kind = pr.hypothesis(fit, "x = 0, t = 0", covariance=kind, **how)[
                "Wald"
            ].statistic
            np.testing.assert_allclose(by_kind, by_matrix, rtol=1e-8)
            for verb in (predictions, slopes, comparisons):
                one = verb(fit, covariance=kind, average_over="sample", **how)
                other = verb(fit, covariance=V, average_over="sample")
                np.testing.assert_allclose(
                    numbers(one)[:, :2], numbers(other)[:, :2], rtol=1e-8
                )
    # with an intercept the average of the mean is the mean of y, and its clusters those of y
    v, n, groups = data["b"] - data["b"].mean(), len(data), data["h"].nunique()
    fit = pr.fit(pr.Model.from_formula("b ~ x * t", data, likelihood="bernoulli"))
    found = (
        predictions(fit, covariance="cluster", groups=data["h"])
        .table["std_error"]
        .item()
    )
    by_hand = (
        np.sqrt(groups / (groups - 1) * (v.groupby(data["h"]).sum() ** 2).sum()) / n
    )
    assert found == pytest.approx(by_hand, rel=1e-8)
    for wrong in (
        {"covariance": "cluster"},
        {"lags": 2},
        {"groups": "h"},
        {"covariance": "HC1", "lags": 2},
    ):
        with pytest.raises(pr.DataError):
            predictions(fit, **wrong)
        if "groups" not in wrong:
            with pytest.raises(pr.DataError):
                pr.hypothesis(fit, "x = 0", **wrong)


@pytest.mark.slow
def test_mixed_models_and_smooths_add_the_sampling_of_rows_and_groups():
    data = rows()
    for right in ("x * t + (1 | h)", "s(x) + t", "x + s(z) + (1 | h)"):
        for response in ("y", "b"):
            fit = pr.fit(
                pr.Model.from_formula(
                    f"{response} ~ {right}", data, likelihood=CANONICAL[response]
                )
            )
            fixed, sampled = (
                predictions(fit, average_over=over).table
                for over in ("sample", "population")
            )
            assert fixed["estimate"].item() == pytest.approx(
                sampled["estimate"].item(), rel=1e-12
            )
            h = (
                fit.predict(groups="typical")["mean"].values
                if "|" in right
                else fit.predict()["mean"].values
            )
            h = pd.Series(h - h.mean())
            parts = h.groupby(data["h"]).sum() if "|" in right else h
            variance = (fixed["std_error"] ** 2).item() + (parts**2).sum() / len(
                data
            ) ** 2
            assert sampled["std_error"].item() == pytest.approx(
                np.sqrt(variance), rel=1e-6
            )


def test_posterior_draws_add_the_sampling_of_rows():
    data = rows(100)
    model = pr.Model.from_formula(
        "b ~ x * t", data, likelihood="bernoulli", prior=pr.Normal(10.0)
    )
    post, ml = pr.fit(model, "laplace", seed=1), pr.fit(model.with_prior(pr.Flat()))
    found = predictions(post)
    m = data["b"].mean()
    assert found.table["sd"].item() == pytest.approx(
        np.sqrt(m * (1 - m) / 100), rel=0.05
    )  # 4,000 draws, and the prior
    fixed = predictions(post, average_over="sample")
    assert found.table["estimate"].item() == pytest.approx(
        fixed.table["estimate"].item(), rel=1e-12
    )
    assert found.table["sd"].item() > 1.05 * fixed.table["sd"].item()
    line = pr.Model.from_formula("y ~ x", data)
    exact = predictions(pr.fit(line, "conjugate", seed=1)).table["sd"].item()
    assert exact == pytest.approx(
        predictions(pr.fit(line)).table["std_error"].item(), rel=0.05
    )
    assert slopes(pr.fit(line, "conjugate", seed=1)).kind.endswith("exact")
    assert predictions(ml).table["std_error"].item() == pytest.approx(
        np.sqrt(m * (1 - m) / 100), rel=1e-8
    )


@pytest.mark.slow
def test_intervals_cover_the_average_of_the_population():
    """Shares of 95 % intervals, within three of their standard errors."""
    rng, runs = np.random.default_rng(7), 150
    big = rng.normal(size=400_000)

    def logistic(x, t):
        return 1 / (1 + np.exp(-(-0.5 + 1.2 * x + 0.8 * t)))

    truth = {"logistic": logistic(big, rng.integers(0, 2, len(big))).mean(), "poisson": (np.exp(0.2 + 0.6 * big) * np.expm1(0.4)).mean()}  # fmt: skip
    met = {"logistic": 0, "poisson": 0}
    for _ in range(runs):
        x, t = rng.normal(size=200), rng.integers(0, 2, 200)
        b = (rng.random(200) < logistic(x, t)).astype(int)
        fit = pr.fit(
            pr.Model.from_arrays(
                np.c_[x, t], b, columns=["x", "t"], likelihood="bernoulli"
            )
        )
        row = predictions(fit).table.iloc[0]
        met["logistic"] += row["lower"] < truth["logistic"] < row["upper"]
        k = rng.poisson(np.exp(0.2 + 0.6 * x + 0.4 * t))
        fit = pr.fit(
            pr.Model.from_arrays(
                np.c_[x, t], k, columns=["x", "t"], likelihood="poisson"
            )
        )
        row = comparisons(fit, {"t": (0.0, 1.0)}).table.iloc[0]
        met["poisson"] += row["lower"] < truth["poisson"] < row["upper"]
    shares = {name: count / runs for name, count in met.items()}
    error = np.sqrt(0.95 * 0.05 / runs)
    assert all(abs(share - 0.95) <= 3 * error for share in shares.values()), shares


def test_each_group_has_the_influence_of_its_own_rows():
    """x_g'(X'X)^-1 x_i e_i of every row, and (eta_i - mean of g) / n_g of the rows in g."""
    data = rows(40)
    fit = pr.ols("y ~ x", data)
    found = predictions(fit, data=data, by="g", average_over="population").table
    X = fit.model.design.X
    of_beta = (fit.residuals().values[:, None] * X) @ np.linalg.inv(X.T @ X)
    eta = fit.fitted.values
    for name, error in zip(found["g"], found["std_error"]):
        member = (data["g"] == name).to_numpy()
        influence = of_beta @ X[member].mean(0)
        influence += member * (eta - eta[member].mean()) / member.sum()
        assert error == pytest.approx(np.sqrt((influence**2).sum()), rel=1e-9)
