"""Least squares of the indicator of an event: its coding, its sandwich, its threshold, and what it says of values outside [0, 1]."""

import itertools
import warnings

import numpy as np
import pytest
from scipy.stats import t as student

import probreg as pr
from probreg.errors import DataError, Incompatible

CODINGS = [
    ("no", "yes", None),
    ("yes", "no", "no"),
    (0, 1, None),
    (1, 0, 0),
    (1, 2, 2),
    (False, True, None),
]


def rows(n: int = 80, seed: int = 0) -> tuple[np.ndarray, np.ndarray]:
    rng = np.random.default_rng(seed)
    x = rng.normal(size=(n, 2))
    return x, (rng.random(n) < 1 / (1 + np.exp(-2 * x[:, 0]))).astype(int)


@pytest.mark.parametrize(("other", "event", "named"), CODINGS)
def test_every_coding_of_the_event_is_least_squares_of_its_indicator(
    other, event, named
) -> None:
    x, y = rows()
    response = np.where(y == 1, event, other)
    plain = pr.ols(x, y.astype(float))
    table = {"a": x[:, 0], "b": x[:, 1], "answer": response}
    for fit in (
        pr.linear_probability(x, response, event=named),
        pr.linear_probability("answer ~ a + b", table, event=named),
    ):
        np.testing.assert_allclose(fit.coef, plain.coef, rtol=1e-9)
        assert any(f"= {event})" in note for note in map(str, fit.notes))
    unseen = {**table, "a": table["a"] + 0.1}  # rows that the fit has seen are refused
    with warnings.catch_warnings(action="ignore"):
        # reads the responses of the table
        at_rows = pr.guarantee(fit, y_range=(0.0, 1.0), data=unseen)
    fitted = np.clip(fit.predict(unseen)["mean"].values, 0.0, 1.0)
    assert at_rows.held_out.bound.empirical == pytest.approx(
        np.mean((fitted - y) ** 2), rel=1e-9
    )


def test_coded_minus_one_and_one_the_threshold_one_half_becomes_zero() -> None:
    x, y = rows()
    f = pr.linear_probability(x, y).predict(x)["mean"].values
    z = pr.ols(x, 2.0 * y - 1.0).predict(x)["mean"].values
    np.testing.assert_allclose(z, 2 * f - 1, atol=1e-12)
    np.testing.assert_array_equal(z > 0, f > 0.5)


@pytest.mark.parametrize(("false_alarm", "miss"), [(1.0, 1.0), (1.0, 9.0), (5.0, 2.0)])
def test_the_threshold_of_unequal_costs_is_the_cheapest_of_all_classifiers_of_groups(
    false_alarm, miss
) -> None:
    rng = np.random.default_rng(1)
    g, levels = np.repeat(np.arange(5), 40), [0.05, 0.2, 0.45, 0.65, 0.9]
    y = (rng.random(200) < np.take(levels, g)).astype(int)
    f = (
        pr.linear_probability("y ~ C(g)", {"g": g, "y": y})
        .predict({"g": np.arange(5)})["mean"]
        .values
    )
    # a column for each group: its share
    np.testing.assert_allclose(f, [y[g == k].mean() for k in range(5)])

    def cost(called: np.ndarray) -> float:
        return float(np.where(called[g], false_alarm * (y == 0), miss * (y == 1)).sum())

    cheapest = min(
        cost(np.array(c)) for c in itertools.product([False, True], repeat=5)
    )
    assert cost(f > false_alarm / (miss + false_alarm)) == cheapest


def test_errors_are_the_sandwich_hc1_and_so_is_the_interval_of_a_mean() -> None:
    x, y = rows()
    fit = pr.linear_probability(x, y)
    X = np.c_[np.ones(len(y)), x]
    bread, e = np.linalg.inv(X.T @ X), y - X @ fit.coef.values
    # White 1980, with n / (n - k)
    V = len(y) / (len(y) - 3) * bread @ (X.T * e**2) @ X @ bread
    np.testing.assert_allclose(fit.covariance(), V, rtol=1e-9)
    np.testing.assert_allclose(
        fit.std_error, np.sqrt(np.diag(fit.covariance("HC1"))), rtol=1e-12
    )
    assert fit.covariance().attrs["kind"] == "HC1"
    assert fit.covariance("HC3").values[1, 1] > V[1, 1]
    half = student.ppf(0.975, len(y) - 3) * np.sqrt(np.einsum("ij,jk,ik->i", X, V, X))
    said = fit.predict(x)
    np.testing.assert_allclose(said["mean_upper"] - said["mean"], half, rtol=1e-9)
    assert "new_lower" not in said
    assert "sandwich HC1" in said.attrs["kind"]


def test_leaving_one_out_is_that_of_least_squares_under_the_sandwich() -> None:
    x, y = rows()
    each = pr.compare_models(
        {"lpm": pr.linear_probability(x, y), "ols": pr.ols(x, y.astype(float))}
    )
    np.testing.assert_allclose(*each.table["elpd_loo"].to_numpy(), rtol=1e-12)


def test_a_saved_fit_has_the_sandwich(tmp_path) -> None:
    x, y = rows()
    fit = pr.linear_probability(x, y)
    read = pr.load_fit(fit.save(tmp_path / "line.nc"))
    np.testing.assert_array_equal(read.std_error, fit.std_error)
    assert "new_lower" not in read.predict(x)


def test_fitted_values_outside_are_counted_and_kept() -> None:
    x, y = rows()
    fit = pr.linear_probability(x, y)
    f = fit.predict(x)["mean"].values
    outside = (f < 0) | (f > 1)
    assert outside.any()
    first = int(np.argmax(outside))
    expected = f"{outside.sum()} of 80 fitted values lie outside [0, 1], first in row {first}, {f[first]:.3g}; predictions are not clipped"
    assert expected in fit.described["notes"]


def test_groups_that_are_certain_lie_inside_whatever_the_rounding() -> None:
    g = np.repeat(np.arange(6), 5)
    y = np.where(g % 3 == 0, 0, np.where(g % 3 == 1, 1, np.arange(30) % 2))
    fit = pr.linear_probability("y ~ C(g)", {"g": g, "y": y})
    assert fit.predict()["mean"].min() < 0.0  # by rounding
    assert any(
        note.startswith("all 30 fitted values are in [0, 1]")
        for note in map(str, fit.notes)
    )


def test_a_prior_and_precisions_are_refused() -> None:
    x, y = rows()
    with pytest.raises(Incompatible, match="takes no prior"):
        pr.linear_probability(x, y, prior=pr.Normal(1.0))
    with pytest.raises(Incompatible, match="no noise scale"):
        pr.linear_probability(x, y, weights=pr.weights.precision(np.ones(80)))


def test_without_degrees_of_freedom_there_is_a_note_and_no_sandwich() -> None:
    fit = pr.linear_probability([0.0, 1.0], [0, 1])
    assert any(
        note.startswith("no sandwich: ") for note in map(str, fit.solution.notes)
    )
    assert np.isnan(fit.std_error).all()


@pytest.mark.parametrize(
    ("y", "met"),
    [
        (list("abcab"), "3 levels"),
        ([1] * 5, "response is constant"),
        ([0.2, 0, 1, 1, 0], "levels"),
    ],
)
def test_a_response_of_other_than_two_levels_is_refused(y, met) -> None:
    with pytest.raises(DataError, match=met):
        pr.linear_probability(np.arange(5.0), y)
