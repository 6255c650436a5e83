"""Columns, moments and files that few models have, each against a second computation."""

import numpy as np
import pandas as pd
import pytest

import probreg as pr
from probreg import DataError, priors
from probreg.data.formula.functions import term_functions
from probreg.data.grouped_columns import GroupColumns
from probreg.data.implicit_columns import LazyColumns
from probreg.data.weights import named_weights

rng = np.random.default_rng(0)
N = 90
DATA = pd.DataFrame(
    {"x": rng.normal(size=N), "z": rng.normal(size=N), "g": np.repeat(list("abcdefghi"), 10)}
).assign(f=lambda d: d.x > 0, y=lambda d: d.x + rng.normal(size=N), w=rng.integers(1, 4, size=N) * 1.5)  # fmt: skip


@pytest.fixture
def files(tmp_path):
    """Three files, each with three of the groups."""
    paths = [tmp_path / f"{i}.parquet" for i in range(3)]
    for i, path in enumerate(paths):
        DATA[30 * i : 30 * i + 30].to_parquet(path)
    return paths


def mean_at(fit, table):
    return fit.predict(table)["mean"].values


@pytest.mark.parametrize("kind", [int, float])
def test_zero_and_one_are_the_levels_of_a_truth_value(kind):
    fit = pr.fit(pr.Model.from_formula("y ~ s(x, by=f) + z", DATA))
    numbers = mean_at(fit, DATA.assign(f=DATA.f.astype(kind)))
    np.testing.assert_array_equal(numbers, mean_at(fit, DATA))


@pytest.mark.parametrize("term", ["bs", "cr", "cc"])
def test_splines_are_zero_beyond_their_bounds(term):
    formula = "y ~ {}(x, df=4, lower_bound=-1, upper_bound=1, extrapolation='{}')"
    zero, clip = (
        np.asarray(pr.Model.from_formula(formula.format(term, rule), DATA).design.X)
        for rule in ("zero", "clip")
    )
    beyond = (DATA.x.abs() > 1.0).to_numpy()
    assert not zero[beyond, 1:].any()
    if term == "bs":  # cubic splines are centred, by the means of their own columns
        np.testing.assert_array_equal(zero[~beyond], clip[~beyond])


@pytest.mark.parametrize(
    ("right", "message"),
    [
        ("bs(x, df=5, extrapolation='other')", "extrapolation is 'raise'"),
        ("bs(x, df=5, knots=[0.1])", "df or knots, not both"),
        ("bs(x, knots=[9.0])", "knots between the bounds"),
        ("cr(x)", "takes df or knots"),
        ("I((-8.0) ** 0.5 * x)", "is a complex number"),
        ("I(x > 'a')", "text is only compared"),
        ("gp(x, basis='hsgp')", "cannot be unknown where rows are read in blocks"),
    ],
)
def test_terms_without_columns_are_named(right, message, files):
    read = (pr.Model.from_formula, DATA)
    if right.startswith("gp"):
        read = (pr.Model.from_files, files)
    with pytest.raises(DataError, match=message):
        read[0](f"y ~ {right}", read[1])


def test_a_dot_needs_other_columns():
    with pytest.raises(DataError, match="there are none"):
        pr.Model.from_formula("y ~ .", DATA[["y"]])


def test_a_plus_sign_changes_nothing():
    X = pr.Model.from_formula("y ~ I(+x)", DATA).design.X
    np.testing.assert_array_equal(np.asarray(X)[:, 1], DATA.x)


def test_one_number_of_trials_is_one_of_each_row():
    table = DATA.assign(k=np.arange(N) % 5, n=5)
    fit = pr.fit(pr.Model.from_formula("p(k, n) ~ x", table, likelihood="binomial"))
    one, each = (fit.predict(DATA[:4], trials=t) for t in (5, [5, 5, 5, 5]))
    assert one.equals(each)


def test_reductions_and_products_of_implicit_columns_are_those_of_arrays():
    codes = np.array([0, 2, 1, 0, 2])
    X = LazyColumns(
        rng.normal(size=(5, 2)), (GroupColumns(codes, rng.normal(size=(5, 2)), 3),)
    )
    dense, V = np.asarray(X), rng.normal(size=(8, 3))
    for axis in (1, -1, -2, None):
        np.testing.assert_allclose(X.mean(axis), dense.mean(axis), rtol=1e-14)
        np.testing.assert_allclose(X.std(axis), dense.std(axis), rtol=1e-12)
    np.testing.assert_allclose(np.matmul(X, V), dense @ V, rtol=1e-12)
    np.testing.assert_allclose(V.T @ X.T, V.T @ dense.T, rtol=1e-12)
    np.testing.assert_array_equal(X.T, dense.T)
    assert X.T.T is X
    assert X.T.shape == (8, 5)
    X += 1.0
    np.testing.assert_array_equal(X, dense + 1.0)


def test_sampling_weights_of_moments_by_group_sum_to_the_rows(files):
    options = {
        "weights": pr.weights.sampling("w"),
        "prior": {"1 | g": pr.Covariance(sd=1.5)},
        "aux": {"sigma": 1.2},
    }
    fit = pr.fit(pr.Model.from_files("y ~ x + (1 | g)", files, **options))
    w = DATA.w / DATA.w.mean()
    X = np.column_stack([np.ones(N), DATA.x, pd.get_dummies(DATA.g)]).astype(float)
    P = (X.T * w.to_numpy()) @ X / 1.2**2 + np.diag([0.0, 0.0] + [1.5**-2] * 9)
    expected = np.linalg.solve(P, X.T @ (w * DATA.y) / 1.2**2)[:2]
    np.testing.assert_allclose(fit.coef.values.ravel()[:2], expected, rtol=1e-10)


def test_moments_of_other_groups_add_up_and_rows_of_none_are_not_subtracted(files):
    def moments(paths):
        return pr.Model.from_files("y ~ x + (1 | g)", paths).moments

    whole = moments(files[1:]) + moments(files[:1])
    assert whole.terms[0].levels == tuple("abcdefghi")
    a, b = (pr.fit(pr.Model.from_moments(m)) for m in (whole, moments(files)))
    np.testing.assert_allclose(a.coef.values, b.coef.values, rtol=1e-8)
    few = DATA[:30].assign(g=["a"] * 15 + ["b"] * 15, x=DATA.x / 2, y=DATA.y / 2)
    few.to_parquet(files[0])
    with pytest.raises(DataError, match=r"\[a, Intercept\] have a larger sum"):
        whole - moments(files[:1])


@pytest.mark.parametrize("term", ["s(x)", "s(x, bs='cc')", "s(x, z)", "t2(x, z)", "gp(x, basis='hsgp', length=0.5)"])  # fmt: skip
def test_moments_keep_the_range_of_a_function(term, files):
    model = pr.Model.from_files(f"y ~ {term}", files)
    (function,) = term_functions(pr.Model.from_moments(model.moments).design)
    inputs = DATA[["x", "z"]] if "z" in term else DATA[["x"]]
    expected = np.array([inputs.min(), inputs.max()])
    found = function.range_in(model.design)
    np.testing.assert_allclose(found, expected, rtol=1e-12)


def test_rows_that_share_labels_are_matched_by_their_order():
    same = DATA.set_axis([0] * N)
    found, expected = (
        str(pr.slopes(pr.fit(pr.Model.from_formula("y ~ x * z", table)), data=table, by="g"))
        for table in (same, DATA)
    )  # fmt: skip
    assert found == expected


def test_clusters_of_rows_with_equal_labels_are_not_matched_in_another_order():
    table = DATA.set_axis([0, *range(N - 1)])
    fit = pr.fit(pr.Model.from_formula("y ~ x", table))
    own = fit.covariance("cluster", groups="g", data=table)
    assert own.equals(fit.covariance("cluster", groups=DATA.g.to_numpy()))
    with pytest.raises(DataError, match="labels repeat and are in another order"):
        fit.covariance("cluster", groups="g", data=table[::-1])


def test_a_cell_of_a_later_part_of_a_csv_is_named_by_its_row(tmp_path):
    lines = ["x,y", *["1.5,2.25"] * 140_003, "abc,1.0", *["0.5,1.0"] * 5]
    path = tmp_path / "long.csv"
    path.write_text("\n".join(lines))
    with pytest.raises(DataError, match="'abc' in row 140003"):
        pr.Model.from_files("y ~ x", path)


@pytest.mark.parametrize(
    ("table", "formula", "message"),
    [
        (DATA.assign(x=np.nan), "y ~ x", "no rows that count"),
        (DATA.assign(x=["1.0", "a"] * 45), "y ~ log(x)", "'a' in row 1"),
        (DATA.assign(x=["1.0", "2.0"] * 45), "y ~ log(x)", "holds text: make it numbers"),
    ],
)  # fmt: skip
def test_columns_of_files_without_numbers_are_named(table, formula, message, tmp_path):
    table.to_parquet(tmp_path / "a.parquet")
    with pytest.raises(DataError, match=message):
        pr.Model.from_files(formula, tmp_path / "a.parquet", missing="drop")


def test_a_process_of_many_inputs_has_a_short_name():
    X = rng.normal(size=(20, 12))
    prior = priors.GaussianProcess(length=9.0)
    fit = pr.gp(X, X[:, 0], prior=prior, aux={"sigma": 0.1})
    assert fit.model.design.columns[1].startswith("gp(x1, ..., x12)[")


def test_a_weight_of_counts_is_the_column_itself():
    assert named_weights("frequency:w") == "w"
    model = pr.Model.from_formula("y ~ x", DATA.assign(w=2), weights="w")
    assert "with frequency weights" in str(model.design)
    assert "90 rows of weight 180" in str(model.design.moments)
    assert len(pr.censored([1.0, 2.0], [True, False])) == 2
    with pytest.raises(DataError, match="a censored response has lower"):
        pr.censored(lower=[1.0, 2.0])
