"""Weights of no kind, of another kind, or of a kind that a likelihood or a method has no use for: met at every door."""

import importlib.util

import numpy as np
import pytest

import probreg as pr
from tests.commands import run

X, Y = (
    np.array([0.0, 1.0, 2.0, 4.0, 5.0, 7.0]),
    np.array([1.0, 2.5, 2.0, 4.0, 6.0, 6.5]),
)
HALF = np.array([1.0, 2.0, 0.5, 1.0, 3.0, 1.0])
FRAME = {"y": Y, "x": X, "w": HALF}
LINE = pr.Model.from_arrays(X, Y)
THREE = r"whole numbers of equal rows; pr\.weights\.precision\(w\), .* pr\.weights\.sampling\(w\), .*None is a power of the likelihood"


def file(folder):
    path = folder / "rows.csv"
    lines = ["y,x,w", *(f"{y},{x},{w}" for y, x, w in zip(Y, X, HALF))]
    path.write_text("\n".join(lines))
    return path


DOORS = {
    "arrays": lambda folder: pr.Model.from_arrays(X, Y, weights=HALF),
    "recipe": lambda folder: pr.ols(X, Y, weights=HALF),
    "formula, array": lambda folder: pr.Model.from_formula(
        "y ~ x", FRAME, weights=HALF
    ),
    "formula, column": lambda folder: pr.Model.from_formula(
        "y ~ x", FRAME, weights="w"
    ),
    "files": lambda folder: pr.Model.from_files("y ~ x", file(folder), weights="w"),
    "blocks": lambda folder: pr.Model.from_blocks(
        [(X[:3], Y[:3], HALF[:3]), (X[3:], Y[3:], HALF[3:])]
    ),
    "at": lambda folder: LINE.at(X, Y, weights=HALF),
    "update": lambda folder: pr.fit(LINE, "conjugate").update(X, Y, weights=HALF),
}


@pytest.mark.parametrize("door", DOORS)
def test_plain_weights_with_fractions_are_refused_at_the_door(door, tmp_path):
    with pytest.raises(
        pr.DataError, match=rf"is 0\.5, and plain weights are frequencies, .*{THREE}"
    ):
        DOORS[door](tmp_path)


@pytest.mark.skipif(
    importlib.util.find_spec("dask") is None, reason="rows on a cluster need dask"
)
def test_rows_on_a_cluster_say_the_kind_of_their_weights_too():
    import dask.dataframe as dd
    import pandas as pd

    frame = dd.from_pandas(pd.DataFrame(FRAME), npartitions=2)
    with pytest.raises(pr.DataError, match=THREE):
        pr.Model.from_dask("y ~ x", frame, weights="w")
    for kind in (pr.weights.precision, pr.weights.sampling):
        here = pr.fit(pr.Model.from_arrays(X, Y, weights=kind(HALF)))
        model = pr.Model.from_dask("y ~ x", frame, weights=kind("w"))
        found = pr.fit(model)
        np.testing.assert_allclose(found.coef, here.coef, rtol=1e-9)
        np.testing.assert_allclose(found.std_error, here.std_error, rtol=1e-8)
        assert model.design.total == 6


@pytest.mark.parametrize("kind", ["", "precision:", "sampling:"])
def test_the_command_line_says_the_kind(kind, tmp_path):
    found = run("fit", str(file(tmp_path)), "y ~ x", "--weights", f"{kind}w")
    if kind:
        assert found.exit_code == 0
        assert (
            f"{'sandwich of the sampling weights' if kind == 'sampling:' else 'closed_form'}"
            in found.output
        )
    else:
        assert found.exit_code != 0
        assert "plain weights are frequencies" in found.output


@pytest.mark.parametrize("kind", [pr.weights.precision, pr.weights.sampling])
@pytest.mark.parametrize(
    ("values", "match"),
    [
        (
            [1.0, 2.0, -0.5, 1.0, 1.0, 1.0],
            r"row 2 is -0\.5; weights are finite and not negative",
        ),
        ([1.0, np.inf, 1.0, 1.0, 1.0, 1.0], r"row 1 is inf; weights are finite"),
        ([0.0] * 6, "weights sum to zero"),
        ([1.0, 2.0], r"expected shape \(6,\), got \(2,\)"),
        ([1.0 + 2.0j] * 6, "weights holds complex numbers"),
        ("w", "names a column, and these rows come as arrays"),
    ],
)
def test_what_is_no_weight_of_any_kind(kind, values, match):
    with pytest.raises(pr.DataError, match=match):
        pr.Model.from_arrays(X, Y, weights=kind(values))


@pytest.mark.parametrize("kind", [pr.weights.precision, pr.weights.sampling])
def test_a_kind_of_nothing_is_not_weights_left_out(kind):
    with pytest.raises(pr.DataError, match=r"\(None\) has no weights"):
        pr.Model.from_arrays(X, Y, weights=kind(None))
    with pytest.raises(pr.DataError, match=r"\(None\) has no weights"):
        pr.Model.from_formula(
            "y ~ x", {"x": [1.0, 2.0, 4.0], "y": [1.0, 3.0, 2.0]}, weights=kind(None)
        )


def test_a_kind_alone_is_no_weight():
    with pytest.raises(
        pr.DataError, match=r"pr.weights.precision itself: give it the weights"
    ):
        pr.Model.from_arrays(X, Y, weights=pr.weights.precision)
    with pytest.raises(
        pr.DataError,
        match=r"pr.weights.precision, pr.weights.sampling, or None for frequencies; got ndarray",
    ):
        pr.Model.from_blocks([(X, Y, HALF)], weights=HALF)


@pytest.mark.parametrize("likelihood", ["bernoulli", "poisson", "categorical"])
def test_precisions_need_a_noise_scale(likelihood):
    y = (
        np.array([0, 1, 1, 0, 2, 1])
        if likelihood != "bernoulli"
        else np.array([0, 1, 1, 0, 1, 1])
    )
    with pytest.raises(
        pr.Incompatible,
        match=r"has no noise scale\. For successes of trials use Binomial, for exposure an offset",
    ):
        pr.Model.from_arrays(
            X, y, likelihood=likelihood, weights=pr.weights.precision(HALF)
        )
    blocks = [(X[:3], y[:3], HALF[:3]), (X[3:], y[3:], HALF[3:])]
    with pytest.raises(pr.Incompatible, match="has no noise scale"):
        pr.Model.from_blocks(
            blocks, likelihood=likelihood, weights=pr.weights.precision
        )


def test_new_rows_take_precisions_and_no_other_weights():
    fit = pr.fit(LINE)
    for weights in (np.ones(2), pr.weights.sampling([1.0, 1.0])):
        with pytest.raises(
            pr.DataError, match="weights= of new rows are their precisions"
        ):
            fit.predict([0.0, 1.0], weights=weights)
    with pytest.raises(pr.DataError, match="a precision of 0 is noise without bound"):
        fit.predict([0.0, 1.0], weights=pr.weights.precision([1.0, 0.0]))
    with pytest.raises(pr.DataError, match="weights= goes with new data"):
        fit.predict(weights=pr.weights.precision(HALF))
    counts = pr.fit(pr.Model.from_arrays(X, np.arange(6), likelihood="poisson"))
    with pytest.raises(pr.Incompatible, match="has no noise scale"):
        counts.predict([0.0], weights=pr.weights.precision([2.0]))


def test_weights_that_leave_too_few_observations_may_be_of_another_kind():
    few = pr.Model.from_arrays(X, Y, weights=[1, 0, 0, 0, 0, 1])
    said = next(f for f in pr.check(few) if f.check == "rows")
    assert "did you mean pr.weights.precision" in said.remedy
    one = pr.Model.from_arrays(X[[0, 5]], Y[[0, 5]])
    assert (
        next(f for f in pr.check(one) if f.check == "rows").remedy
        == "use fewer columns, more rows, or a prior"
    )


def test_no_leverage_is_above_one_before_the_fit():
    from probreg.diagnostics.before.columns import design_leverage

    for kind in (pr.weights.precision, pr.weights.sampling):
        h = design_leverage(pr.Model.from_arrays(X, Y, weights=kind(1e3 * HALF)))
        assert h.sum() == pytest.approx(2.0)
        assert h.max() < 1.0


def test_a_row_that_alone_decides_is_named_by_hc3_where_it_stands():
    """Leverage 1 after a row of weight 0: the sentence names the row of the data."""
    x = np.array([0.0, 0.0, 0.0, 0.0, 9.0, 0.0])
    fit = pr.fit(
        pr.Model.from_arrays(
            x, Y, weights=pr.weights.precision([0.0, 0.3, 2.0, 1.0, 0.5, 4.0])
        )
    )
    with pytest.raises(pr.DataError, match="row 4 has a leverage of at least 1"):
        fit.covariance("HC3")
    assert np.isnan(pr.influence_measures(fit)["cook"].values[4])
    for name in ("cook", "dfbetas"):
        alone = [f for f in pr.diagnose(fit) if f.check == name and f.rows == (4,)]
        assert alone, name
        assert "a coefficient has no estimate without row 4" in alone[0].sentence


def test_a_penalty_under_precisions_is_that_beside_the_weighted_rss():
    """Ridge's alpha is sigma^2 / scale^2 whatever the weights, given as sample weights; criteria per observation are left out."""
    model = pr.Model.from_arrays(
        X,
        Y,
        prior=pr.Normal(0.5),
        weights=pr.weights.precision(HALF),
        aux={"sigma": 2.0},
    )
    found = model.penalty()
    assert [(r.package, dict(r.settings)) for r in found.rows] == [
        ("rss", {"lam1": 0.0, "lam2": 16.0}),
        ("sklearn", {"alpha": 16.0}),
    ]
    assert "Criteria per observation are left out" in found.notes[0]
    x, y, w = (
        np.asarray(X, dtype=float).reshape(len(Y), -1),
        np.asarray(Y),
        np.asarray(HALF),
    )
    middle_x, middle_y = np.average(x, axis=0, weights=w), np.average(y, weights=w)
    A, b = x - middle_x, y - middle_y  # the minimum of RSS + 16 |b|^2 by hand
    slope = np.linalg.solve(
        (A * w[:, None]).T @ A + 16.0 * np.eye(x.shape[1]), (A * w[:, None]).T @ b
    )
    np.testing.assert_allclose(pr.fit(model).coef.values[1:], slope, rtol=1e-9)
    lasso = model.with_prior(pr.Laplace(0.5)).penalty()
    assert [r.package for r in lasso.rows] == ["rss"]


# ---- weights of new rows -----------------------------------------------------------------------------------------

NEW_ROWS = {
    "frequency": lambda w: w,
    "precision": pr.weights.precision,
    "sampling": pr.weights.sampling,
}


@pytest.mark.parametrize("source", ["formula", "arrays"])
@pytest.mark.parametrize("kind", NEW_ROWS)
def test_weights_given_as_an_array_have_no_value_at_new_rows(kind, source):
    rng = np.random.default_rng(0)
    x, y = rng.normal(size=(2, 40))
    w = rng.integers(1, 4, 40).astype(float)
    make = NEW_ROWS[kind]

    def parts(rows):
        if source == "arrays":
            return (x[rows, None], y[rows])
        return ({"x": x[rows], "y": y[rows]},)

    def model(rows):
        if source == "arrays":
            return pr.Model.from_arrays(*parts(rows), weights=make(w[rows]))
        return pr.Model.from_formula("y ~ x", *parts(rows), weights=make(w[rows]))

    old, new = slice(0, 25), slice(25, 40)
    fit = pr.fit(model(old), "auto" if kind == "sampling" else "conjugate")
    calls = [fit.model.at, fit.forget] if kind == "sampling" else []
    for call in calls or [fit.model.at, fit.update, fit.forget]:
        with pytest.raises(pr.DataError, match="weights="):
            call(*parts(new))
    if kind != "sampling":
        found = fit.update(*parts(new), weights=make(w[new]))
        whole = pr.fit(model(slice(None)), "conjugate")
        np.testing.assert_allclose(found.coef, whole.coef, rtol=1e-9)


@pytest.mark.parametrize("name", ["offset", "trials"])
def test_offsets_and_trials_given_as_an_array_have_no_value_at_new_rows(name):
    rng = np.random.default_rng(0)
    x, k = rng.normal(size=(40, 1)), rng.integers(0, 4, 40)
    given = {"trials": np.full(40, 5)} | {name: np.full(40, 6)}
    model = pr.Model.from_arrays(x, k, likelihood="binomial", **given)
    new = {"trials": np.full(40, 5)} if name == "offset" else {}
    fit = pr.fit(model, "laplace")
    for call in (model.at, fit.update):
        with pytest.raises(pr.DataError, match=f"{name}="):
            call(x, k, **new)


def test_conformal_rows_of_a_weighted_model_count_once():
    rng = np.random.default_rng(0)
    x, y = rng.normal(size=(60, 1)), rng.normal(size=60)
    w = np.full(30, 2.0)
    fit = pr.fit(pr.Model.from_arrays(x[:30], y[:30], weights=w))
    twice = pr.fit(pr.Model.from_arrays(np.r_[x[:30], x[:30]], np.r_[y[:30], y[:30]]))
    found, expected = (
        pr.conformal(f, x[30:], y=y[30:]).predict(x[:3]).to_array().values
        for f in (fit, twice)
    )
    np.testing.assert_allclose(found, expected, rtol=1e-9)
