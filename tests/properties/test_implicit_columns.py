"""Columns that are not written out: they are the array that they stand for, and fits of them are those of the array."""

import numpy as np
import pytest

import probreg as pr
from probreg.data import implicit_columns
from probreg.data.grouped_columns import GroupColumns
from probreg.data.implicit_columns import LazyColumns, all_close, join_predictors
from probreg.errors import DataError
from probreg.model.model import Model

N, RNG = 300, np.random.default_rng(0)


def columns() -> LazyColumns:
    g, h = RNG.integers(0, 9, N), RNG.integers(0, 4, N)
    first = GroupColumns(g, RNG.normal(size=(N, 2)), 9)
    return LazyColumns(
        RNG.normal(size=(N, 3)), (first, GroupColumns(h, np.ones((N, 1)), 4))
    )


def test_they_are_the_array_that_they_stand_for():
    X = columns()
    W = np.asarray(X)
    assert X.shape == W.shape == (N, 25)
    rows, chosen = np.array([5, 0, 7]), [0, 4, 24]
    for key in (
        slice(2, 9),
        rows,
        (rows,),
        (rows, chosen),
        (slice(None), chosen),
        (slice(None), 7),
        np.ix_(rows, chosen),
        3,
    ):
        np.testing.assert_array_equal(np.asarray(X[key]), W[key])
    for B in (
        RNG.normal(size=25),
        RNG.normal(size=(25, 2)),
        RNG.normal(size=(4, 25, 2)),
    ):
        np.testing.assert_allclose(X @ B, W @ B)
    V = RNG.normal(size=(N, 2))
    np.testing.assert_allclose(X.T @ V, W.T @ V)
    np.testing.assert_allclose(V.T @ X, V.T @ W)
    np.testing.assert_allclose(np.dot(X, np.ones(25)), W.sum(1))
    np.testing.assert_allclose(np.dot(X.T, V), W.T @ V)
    np.testing.assert_allclose(X.mean(0), W.mean(0), atol=1e-15)
    np.testing.assert_allclose(X.std(0), W.std(0), rtol=1e-12)
    np.testing.assert_allclose(np.column_stack([X, V]), np.column_stack([W, V]))


def test_predictors_keep_the_places_of_their_columns():
    parts = [columns(), RNG.normal(size=(N, 2)), columns()]
    joined = join_predictors(parts)
    np.testing.assert_array_equal(joined, np.hstack([np.asarray(X) for X in parts]))
    assert joined.owner.tolist() == [0] * 25 + [1] * 2 + [2] * 25


def test_they_are_compared_number_by_number():
    X = columns()
    Z = X.tail[0].Z.copy()
    assert all_close(X, X)
    for change, is_close in ((1e-12, True), (1e-3, False)):
        Z[7, 1] = X.tail[0].Z[7, 1] * (1.0 + change)
        other = LazyColumns(X.head, (X.tail[0]._replace(Z=Z), X.tail[1]))
        assert all_close(X, other) is is_close


def test_they_are_not_written_out_beyond_a_limit(monkeypatch):
    monkeypatch.setattr(implicit_columns, "MAX_DENSE_BYTES", 8 * N * 25 - 1)
    with pytest.raises(DataError, match=r"300 rows of 25 columns take 60 kB"):
        np.asarray(columns())


@pytest.mark.parametrize(
    ("response", "likelihood"), [("y", "gaussian"), ("b", "bernoulli")]
)
@pytest.mark.parametrize(
    "method", [pr.Evidence(), pr.Evidence(criterion="ML")], ids=["REML", "ML"]
)
def test_a_fit_of_them_is_that_of_the_array(
    response, likelihood, method, monkeypatch, tmp_path
):
    g, x = np.repeat(np.arange(12), 25), RNG.normal(size=N)
    eta = 0.5 + x + RNG.normal(size=12)[g]
    data = {
        "y": eta + RNG.normal(size=N),
        "b": (RNG.random(N) < 1 / (1 + np.exp(-eta))).astype(int),
        "x": x,
    }
    data["g"] = g.astype(str)
    wanted = pr.fit(
        Model.from_formula(f"{response} ~ x + (1 | g)", data, likelihood=likelihood),
        method,
    )
    monkeypatch.setattr(implicit_columns, "MIN_IMPLICIT_BYTES", 0)
    model = Model.from_formula(f"{response} ~ x + (1 | g)", data, likelihood=likelihood)
    assert model.design.is_lazy
    found = pr.fit(model, method)
    np.testing.assert_allclose(found.solution.beta, wanted.solution.beta, atol=2e-5)
    np.testing.assert_allclose(
        np.asarray(found.solution.scale.matrix()),
        np.asarray(wanted.solution.scale.matrix()),
        atol=2e-5,
    )
    np.testing.assert_allclose(
        found.std_error.values, wanted.std_error.values, rtol=1e-4
    )
    averages, same = (
        pr.predictions(fit, by="g", groups="known").table for fit in (found, wanted)
    )
    np.testing.assert_allclose(averages.estimate, same.estimate, atol=2e-5)
    np.testing.assert_allclose(averages.std_error, same.std_error, rtol=1e-4)


def test_a_covariance_that_is_not_written_out_comes_back_from_a_file(
    monkeypatch, tmp_path
):
    from probreg.inference.covariance import ArrowCovariance

    monkeypatch.setattr(implicit_columns, "MIN_IMPLICIT_BYTES", 0)
    g, x = np.repeat(np.arange(12), 25), RNG.normal(size=N)
    data = {
        "y": x + RNG.normal(size=12)[g] + RNG.normal(size=N),
        "x": x,
        "g": g.astype(str),
    }
    fit = pr.fit(Model.from_formula("y ~ x + (x | g)", data))
    assert isinstance(fit.solution.scale, ArrowCovariance)
    back = pr.load_fit(fit.save(tmp_path / "fit.nc", rows=True))
    np.testing.assert_array_equal(
        np.asarray(back.solution.scale.matrix()),
        np.asarray(fit.solution.scale.matrix()),
    )
