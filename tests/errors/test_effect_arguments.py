"""Arguments of effects, tables and comparisons that cannot be used raise errors that name them."""

import numpy as np
import pandas as pd
import pytest

import probreg as pr

RNG = np.random.default_rng(0)
ROWS = {"y": RNG.normal(size=40), "x": RNG.normal(size=40), "g": np.repeat(list("abcdefgh"), 5)}  # fmt: skip


@pytest.fixture(scope="module")
def fit():
    return pr.fit(pr.Model.from_formula("y ~ x", ROWS))


@pytest.mark.parametrize("function", [pr.predictions, pr.slopes])
@pytest.mark.parametrize(
    ("at", "message"),
    [
        ({"x": []}, "at: 'x' has no values"),
        ({"x": [[1.0], [2.0, 3.0]]}, "each value of 'x' is one number"),
        ({"x": np.array(1.0)}, "each value of 'x' is one number"),
        (np.array([1.0, 2.0]), "at is a mapping .* got ndarray"),
        (pd.DataFrame({"x": [1.0]}), "at is a mapping .* got DataFrame"),
    ],
)
def test_values_of_columns(fit, function, at, message):
    with pytest.raises(pr.DataError, match=message):
        function(fit, at=at)


@pytest.mark.parametrize("function", [pr.comparisons, pr.slopes])
def test_text_for_a_number(fit, function):
    with pytest.raises(pr.DataError, match="'x' must be numeric; row 0 holds 'abc'"):
        function(fit, "x", at={"x": "abc"})


@pytest.mark.parametrize("settings", [{"groups": "g"}, {"lags": 1}, {"data": ROWS}])
def test_settings_of_a_covariance_without_its_name(fit, settings):
    """Ignored, they would give the classical tests in place of the clustered ones."""
    (name,) = settings
    with pytest.raises(pr.DataError, match=f"{name}=: expected only with the name"):
        pr.anova(fit, **settings)


def test_settings_of_a_posterior():
    posterior = pr.fit(pr.Model.from_formula("y ~ x", ROWS, prior="normal"), "laplace")
    with pytest.raises(pr.DataError, match="lags=: expected only with the name"):
        pr.predictions(posterior, lags=1)
    with pytest.raises(pr.Incompatible, match="every fit of this table is a posterior"):
        pr.table(posterior, covariance="HC3")


@pytest.mark.parametrize(
    ("rename", "message"),
    [
        ({"x": "Intercept"}, "'Intercept' and 'x' would have the same label"),
        ({"x": "a", "Intercept": "a"}, "would have the same label, 'a'"),
        ({"x": 3}, "the label of 'x' is text, got 3"),
        ({"x": ["a"]}, "the label of 'x' is text"),
    ],
)
def test_new_labels_of_a_table(fit, rename, message):
    """Of two rows with the same label, one would be lost."""
    with pytest.raises(pr.DataError, match=message):
        pr.table(fit, rename=rename)


@pytest.mark.parametrize(
    ("at", "message"),
    [
        (["a"], "at must be numeric; row 0 holds 'a'"),
        ([1j], "at holds complex numbers"),
        (np.array(["2020-01-01"], dtype="datetime64[D]"), "at must be numeric"),
    ],
)
def test_points_of_a_smooth_function(at, message):
    smooth = pr.fit(pr.Model.from_formula("y ~ s(x, k=4)", ROWS))
    with pytest.raises(pr.DataError, match=message):
        smooth.smooth(at=at)


def test_arguments_of_a_picture_of_effects():
    mixed = pr.fit(pr.Model.from_formula("y ~ x + (1 | g)", ROWS))
    with pytest.raises(pr.DataError, match="name their variables with condition="):
        pr.plot.effects(mixed, what="sigma")
    with pytest.raises(pr.DataError, match="'x' has no values"):
        pr.plot.effects(mixed, condition={"x": []})


def test_rows_to_calibrate_by_without_a_response():
    import polars as pl

    X = RNG.normal(size=(20, 1))
    arrays = pr.fit(pr.Model.from_arrays(X, X[:, 0] + RNG.normal(size=20)))
    with pytest.raises(pr.DataError, match="no column 'y': pass the response as y="):
        pr.conformal(arrays, pl.DataFrame({"x1": [1.0, 2.0]}))


def test_groups_of_a_mixed_model():
    mixed = pr.fit(pr.Model.from_formula("y ~ x + (1 | g)", ROWS))
    with pytest.raises(pr.DataError, match="got 'nw'"):
        pr.predictions(mixed, groups={"g": "nw"})


@pytest.mark.parametrize("rename", ["nonsense", [1, 2], 3.5, True, np.ones(2)])
def test_labels_of_a_table(fit, rename):
    with pytest.raises(pr.DataError, match="rename is a mapping"):
        pr.table(fit, rename=rename)


def test_clusters_without_columns(fit):
    with pytest.raises(pr.DataError, match="got 0 columns"):
        fit.covariance("cluster", groups=pd.DataFrame())


@pytest.mark.filterwarnings("ignore::probreg.errors.ProbregWarning")
def test_a_prior_with_heavy_tails_beside_a_loss_with_a_kink():
    model = pr.Model.from_formula("y ~ x", ROWS, likelihood="absolute", prior="student(1)")  # fmt: skip
    fit = pr.fit(model, pr.NUTS(draws=50, tune=50, chains=2, progress=False), seed=1)
    assert np.isfinite(fit.coef).all()


def test_a_profile_of_coefficients_that_rows_do_not_identify():
    X = np.array([[1.0, 2, 0, 1, 3], [2, 1, 1, 0, 1], [0, 1, 2, 3, 1], [1, 0, 1, 2, 2], [3, 1, 1, 1, 0]])  # fmt: skip
    model = pr.Model.from_arrays(X, [0, 1, 0, 1, 1], likelihood="bernoulli")
    with pytest.warns(pr.ProbregWarning):
        fit = pr.fit(model)
    ends = fit.interval(kind="profile")
    assert np.isinf(ends).all()
