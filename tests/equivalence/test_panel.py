"""Intervals side by side: each is what the fit itself says, the reasons carry their numbers, coverage is what theory says."""

from typing import Any

import numpy as np
import pandas as pd
import pytest
from scipy import stats
from scipy.special import expit

import probreg as pr
from probreg.comparison.interval_panel import (
    Coverage,
    coverage,
    interval_panel,
)
from probreg.inference.uncertainty.bootstrap import Bootstrap
from probreg.priors import Normal

Array = np.ndarray


def rows(n: int = 40, seed: int = 5) -> Array:
    return np.random.default_rng(seed).normal(size=(n, 2))


def gaussian(n: int = 40, **more: Any) -> pr.Model:
    X = rows(n)
    y = 1 + X @ [0.7, -0.5] + np.random.default_rng(1).normal(size=n)
    return pr.Model.from_arrays(X, y, **more)


def binary(n: int = 60, **more: Any) -> pr.Model:
    X = rows(n)
    y = np.random.default_rng(3).random(n) < expit(0.3 + X @ [1.2, -0.8])
    return pr.Model.from_arrays(X, y.astype(int), likelihood="bernoulli", **more)


# ---- the table -----------------------------------------------------------------------------------------------------


def test_every_line_is_what_the_fit_says():
    fits = {
        "ML": pr.fit(binary()),
        "posterior": pr.fit(binary(prior=Normal(1.0)), "laplace"),
    }
    found = interval_panel(fits, "x1", prob=0.9)
    asked = {
        "wald": ("ML", {"kind": "wald"}),
        "HC3": ("ML", {"covariance": "HC3"}),
        "profile": ("ML", {"kind": "profile"}),
        "score": ("ML", {"kind": "score"}),
        "eti": ("posterior", {"kind": "eti"}),
        "hdi": ("posterior", {"kind": "hdi"}),
    }
    assert list(found.table.query("reason == ''").index) == [
        (fit, kind) for kind, (fit, _) in asked.items()
    ]
    for kind, (fit, how) in asked.items():
        said = fits[fit].interval(0.9, **how).sel(coef="x1")
        line = found.table.loc[(fit, kind)]
        assert (line["lower"], line["upper"]) == (
            said["lower"].item(),
            said["upper"].item(),
        )
        assert line["width"] == line["upper"] - line["lower"]
        assert line["estimate"] == fits[fit].coef.sel(coef="x1").item()


def test_what_a_fit_does_not_have_stands_with_the_reason():
    found = interval_panel(
        {"ML": pr.fit(binary()), "posterior": pr.fit(binary(), "laplace")}, "x1"
    ).table["reason"]
    for fit, kind in (("ML", "t"), ("ML", "eti"), ("ML", "bootstrap")):
        assert kind in found[fit, kind]
    assert "profile" in found["posterior", "profile"]
    assert found["ML", "wald"] == found["posterior", "eti"] == ""


def test_a_class_is_named_with_its_column():
    X = rows(120)
    y = np.argmax(
        np.c_[np.zeros(120), X] + np.random.default_rng(2).gumbel(size=(120, 3)), 1
    )
    fit = pr.fit(pr.Model.from_arrays(X, y, likelihood="categorical"))
    found = interval_panel(fit, "x2: 1", kinds=["wald", "profile"])
    said = fit.interval().sel(coef="x2", outcome="1")
    assert found.table.loc[("newton", "wald"), "lower"] == said["lower"].item()


# ---- special cases -------------------------------------------------------------------------------------------------


def test_a_separated_fit_has_one_end():
    x = np.array([0.0, 1.0, 2.0, 3.0, 4.0, 5.0])
    with pytest.warns(pr.ProbregWarning):
        fit = pr.logistic(x[:, None], (x > 2.5).astype(int), columns=["x"])
    found = interval_panel(fit, "x")
    assert "no maximum likelihood estimate" in found.table["reason"]["newton", "wald"]
    line = found.table.loc[("newton", "profile")]
    assert np.isfinite(line["lower"])
    assert line["upper"] == np.inf


def test_a_bootstrap_stands_beside_its_curvature():
    fits = {
        "ML": pr.fit(gaussian()),
        "bootstrap": pr.fit(gaussian(), Bootstrap("closed_form", reps=199)),
    }
    found = interval_panel(fits, "x2", kinds=["t", "wald", "bootstrap"])
    assert ("bootstrap", "bootstrap") in found.table.query("reason == ''").index


def test_it_prints():
    found = interval_panel(
        {"ML": pr.fit(binary()), "<b>": pr.fit(binary(), "laplace")}, "x1"
    )
    assert "95 % intervals of x1" in repr(found)
    assert "no interval: ML t: " in repr(found)
    assert "&lt;b&gt;" in found._repr_html_()
    assert "<b> eti" not in found._repr_html_()


# ---- coverage ------------------------------------------------------------------------------------------------------

TRUE = pr.Truth([1.0, 0.7, -0.5], {"sigma": 1.3})


def test_the_share_is_that_of_a_plain_loop():
    """The same data sets, by hand: t intervals from least squares."""
    model, held = gaussian(12), []
    beta = np.array([1.0, 0.7, -0.5])
    for k in range(60):
        rng = np.random.default_rng([7, k])
        y = rng.normal(model.design.X @ beta, 1.3)
        X = model.design.X
        V = np.linalg.inv(X.T @ X)
        b = V @ X.T @ y
        half = stats.t.ppf(0.9, 9) * np.sqrt(((y - X @ b) ** 2).sum() / 9 * np.diag(V))
        held.append(np.abs(b - beta) <= half)
    found = coverage(model, TRUE, kinds=["t"], reps=60, prob=0.8, seed=7)
    np.testing.assert_allclose(
        found.table["covered"], np.mean(held, axis=0), atol=1e-12
    )
    share = found.table["covered"].values
    np.testing.assert_allclose(found.table["mcse"], np.sqrt(share * (1 - share) / 60))
    np.testing.assert_allclose(
        found.table[["covered", "above", "below"]].sum(axis=1), 1.0
    )


@pytest.mark.slow
def test_workers_change_nothing_and_seeds_do():
    model = binary(30)
    one, two, other = (
        coverage(
            model,
            [0.3, 1.0, 0.0],
            kinds=["wald"],
            reps=24,
            seed=s,
            workers=w,
        )
        for s, w in ((1, 1), (1, 2), (2, 1))
    )
    pd.testing.assert_frame_equal(one.table, two.table)
    assert not one.table.equals(other.table)


def test_a_fit_is_a_truth():
    fit = pr.fit(gaussian(12))
    by_fit = coverage(fit.model, fit, kinds=["t"], reps=10)
    values = dict(zip(fit.parameter_names, fit.coef.values)) | fit.aux
    truth = pr.Truth(fit.coef.values, fit.aux)
    pd.testing.assert_frame_equal(
        by_fit.table, coverage(fit.model, truth, kinds=["t"], reps=10).table
    )
    assert by_fit.truth == pytest.approx(values)


@pytest.mark.parametrize("symmetric", [False, True])
def test_classes_by_name(symmetric):
    X = rows(80)
    y = np.random.default_rng(1).choice(["a", "b", "c"], 80)
    model = pr.Model.from_arrays(X, y, likelihood=pr.Categorical(symmetric=symmetric))
    fit = pr.fit(model)
    values = dict(zip(fit.parameter_names, fit.coef.values.ravel()))
    found = coverage(model, fit.coef.values, kinds=["wald"], reps=8)
    assert found.truth == pytest.approx(values)
    pd.testing.assert_frame_equal(
        found.table, coverage(model, fit, kinds=["wald"], reps=8).table, rtol=1e-6
    )


@pytest.mark.slow
def test_separated_data_sets_are_counted_and_named():
    x = np.linspace(-1, 1, 10)
    model = pr.Model.from_arrays(
        x, (x > 0.1).astype(int) ^ (np.arange(10) == 2), likelihood="bernoulli"
    )
    found = coverage(model, [0.0, 4.0], kinds=["wald", "profile"], reps=20)
    lost = found.failures["wald"]["separated"]
    assert found.table.loc[("x1", "wald"), "count"] == 20 - lost < 20
    # it needs no estimate
    assert found.table.loc[("x1", "profile"), "count"] > 20 - lost
    assert f"no interval: {lost} separated" in repr(found)


def test_rows_drawn_anew_and_weights():
    model = pr.Model.from_arrays(
        np.arange(5.0), np.sin(np.arange(5.0)), weights=[1, 2, 3, 1, 2]
    )
    truth = pr.Truth([0.0, 1.0], {"sigma": 1.0})
    assert coverage(model, truth, kinds=["t"], reps=3).rows == 9
    few, many = (coverage(model, truth, kinds=["t"], reps=3, n=n) for n in (20, 900))
    assert (few.rows, many.rows) == (20, 900)
    assert (many.table["width"] < 0.3 * few.table["width"]).all()


@pytest.mark.slow
def test_flat_posteriors_and_the_bootstrap():
    found = coverage(gaussian(12), TRUE, reps=30, kinds=["eti", "t"])
    np.testing.assert_array_equal(
        found.table.loc[("x1", "eti")], found.table.loc[("x1", "t")]
    )  # the same interval
    few = coverage(
        gaussian(12),
        TRUE,
        reps=2,
        kinds=["t", "bootstrap"],
    )
    assert few.table.loc[("x1", "bootstrap"), "count"] == 2


# ---- what they reach: simulations at 30 and 300 rows ---------------------------------------------------------------


def judged(found: Coverage, kind: str, expected: float, coef: str = "x1") -> None:
    """Within four Monte Carlo errors of the expected share."""
    row = found.table.loc[(coef, kind)]
    assert row["covered"] == pytest.approx(
        expected, abs=4 * np.sqrt(expected * (1 - expected) / row["count"])
    )


@pytest.mark.slow
def test_what_gaussian_intervals_reach():
    """t is exact. Wald and, nearly, profile hold a normal quantile against Student's t: at n = 30 that is 0.940 and not 0.95.
    HC3 reaches 0.95 to within its bias of some hundredths; the flat posterior is t."""
    n = 30
    found = coverage(
        gaussian(n), TRUE, kinds=["t", "wald", "HC3", "eti"], reps=60, seed=3
    )
    judged(found, "t", 0.95)
    judged(found, "eti", 0.95)
    judged(found, "wald", float(2 * stats.t.cdf(stats.norm.ppf(0.975), n - 3) - 1))
    assert abs(found.table.loc[("x1", "HC3"), "covered"] - 0.95) < 0.02 + 4 * 0.028
    few = coverage(gaussian(n), TRUE, kinds=["profile", "score"], reps=12, seed=4)
    assert (few.off.abs() < 4).all()


@pytest.mark.slow
def test_robust_intervals_hold_where_the_variance_is_not_constant():
    """Responses with noise that grows with x1: t claims 0.95 and holds far less, HC3 holds it."""
    rng, X, held = np.random.default_rng(8), rows(300), {"t": [], "HC3": []}
    for _ in range(150):
        fit = pr.ols(X, X @ [0.7, -0.5] + rng.normal(size=300) * np.abs(X[:, 0]) ** 1.5)
        for kind, how in (("t", {}), ("HC3", {"covariance": "HC3"})):
            said = fit.interval(0.95, **how).sel(coef="x1")
            held[kind].append(said["lower"].item() <= 0.7 <= said["upper"].item())
    assert np.mean(held["t"]) < 0.85
    assert np.mean(held["HC3"]) == pytest.approx(0.95, abs=0.01 + 4 * 0.018)


@pytest.mark.slow
def test_what_intervals_of_odds_reach():
    """At 300 rows all hold what they claim. At 30 (500 data sets, once) Wald holds 0.97 to 0.98, more than it claims, as data
    sets come near separation (Hauck & Donner 1977), the profile 0.91 to 0.94, the score 0.93 to 0.95."""
    found = coverage(
        binary(300),
        [0.3, 1.2, -0.8],
        kinds=["wald", "profile", "score"],
        reps=20,
        seed=5,
    )
    error = np.sqrt(0.95 * 0.05 / 20)
    assert (np.abs(found.table["covered"] - 0.95) < 0.01 + 4 * error).all()


@pytest.mark.filterwarnings("ignore::probreg.errors.ProbregWarning")
def test_an_interval_without_ends_is_the_whole_line_and_no_missing_one():
    x = np.arange(6.0)
    fit = pr.fit(
        pr.Model.from_arrays(
            np.c_[x, [1, 0, 0, 1, 0, 1]], x > 2, likelihood="bernoulli"
        )
    )
    table = pr.interval_panel(fit, "x2", kinds=["profile", "score"]).table
    assert table["reason"].tolist() == ["", ""]
    assert table[["lower", "upper"]].to_numpy().tolist() == [[-np.inf, np.inf]] * 2


def test_posteriors_that_cannot_be_fitted_are_counted_by_their_error():
    model = pr.Model.from_arrays(rows(20)[:, :1], rows(20)[:, 0] > 0, likelihood="bernoulli")  # fmt: skip
    found = coverage(model, [0.0, 5.0], kinds=["eti"], reps=8, n=6, seed=1)
    (causes,) = found.failures.values()
    assert sum(causes.values()) + found.table["count"].iloc[0] == 8
