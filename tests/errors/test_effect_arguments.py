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
