"""Properties of weights in what terms learn: a row of weight 0 is absent, a row of whole weight w is w rows."""

import numpy as np
import pandas as pd
import pytest

import probreg as pr
from probreg.formula.expression import SMOOTHS, STATEFUL
from probreg.model.from_kernel import model_of_kernel
from tests.properties.containers import model

pytestmark = pytest.mark.filterwarnings("ignore::DeprecationWarning")
U = np.linspace(0.0, 1.0, 30)
V = np.sin(6 * U) + 0.1 * np.cos(40 * U)
ROWS = pd.DataFrame(
    {
        "x": U,
        "z": np.cos(5 * U),
        "y": V,
        "g": np.repeat(list("abcde"), 6),
        "w": np.arange(30) % 3 + 1,
    }
)
ABSENT = pd.DataFrame(
    {
        "x": [3.0, -4.0],
        "z": [9.0, 8.0],
        "y": [9.0, -9.0],
        "g": ["new", "b"],
        "w": [0, 0],
    }
)
BOTH = pd.concat([ROWS[:11], ABSENT, ROWS[11:]], ignore_index=True)
COPIES = ROWS.loc[np.repeat(ROWS.index, ROWS.w)].reset_index(drop=True)
AT = {"x": [0.25, 0.5], "z": [0.3, -0.2], "g": ["b", "d"]}
TERMS = {
    "poly": "poly(x, 3)",
    "bs": "bs(x, df=6)",
    "bs clipped": "bs(x, df=5, lower_bound=0.1, upper_bound=0.9, extrapolation='clip')",
    "bs extended": "bs(x, df=5, lower_bound=0.1, upper_bound=0.9, extrapolation='extend')",
    "bs at knots": "bs(x, knots=[0.3, 0.6])",
    "cr": "cr(x, df=5)",
    "cr free": "0 + cr(x, df=5)",
    "cc": "cc(x, df=5)",
    "scale": "scale(x)",
    "center": "center(log(x + 2))",
    "s": "s(x, k=6)",
    "s ps": "s(x, bs='ps', k=6)",
    "s by": "g + s(x, by=g, k=4)",
    "t2": "t2(x, z, k=3)",
    "gp": "gp(x, length=0.4, scaled=True)",
    "gp found": "gp(x)",
    "gp sines": "gp(x, basis='hsgp', size=6, range=(-5, 5))",
    "levels": "x*g",
    "groups": "x + (x | g)",
}


def test_every_transform_has_a_case():
    assert {*STATEFUL, *SMOOTHS, "gp"} <= {key.split()[0] for key in TERMS}


def means(formula, data, weights=None, kind="pandas", folder=None):
    fit = pr.fit(model(f"y ~ {formula}", data, kind, folder, weights=weights))
    return fit.predict(AT)["mean"].values


def settings(w):
    return {
        "frequency": "w",
        "precision": pr.weights.precision("w"),
        "sampling": pr.weights.sampling("w"),
    }[w]


@pytest.mark.parametrize("term", TERMS)
@pytest.mark.parametrize("weights", ["frequency", "precision", "sampling"])
def test_rows_of_weight_0_are_absent(term, weights):
    with_absent, without = (
        pr.Model.from_formula(f"y ~ {TERMS[term]}", d, weights=settings(weights))
        for d in (BOTH, ROWS)
    )
    np.testing.assert_array_equal(with_absent.design.X, without.design.X)
    np.testing.assert_array_equal(
        with_absent.design.recipe.matrix(AT), without.design.recipe.matrix(AT)
    )


@pytest.mark.parametrize("term", TERMS)
def test_a_row_of_weight_w_is_w_rows(term):
    weighted, copied = pr.Model.from_formula(f"y ~ {TERMS[term]}", ROWS, weights="w"), pr.Model.from_formula(f"y ~ {TERMS[term]}", COPIES)  # fmt: skip
    each = np.repeat(np.arange(30), ROWS.w)
    # the last columns of a process are eigenvectors of eigenvalues near rounding
    np.testing.assert_allclose(
        weighted.design.X[each], copied.design.X, rtol=1e-9, atol=1e-10
    )
    np.testing.assert_allclose(
        weighted.design.recipe.matrix(AT),
        copied.design.recipe.matrix(AT),
        rtol=1e-9,
        atol=1e-10,
    )


@pytest.mark.parametrize(
    ("term", "weights", "kind"),
    [
        ("poly", "frequency", "csv"),
        ("poly", "precision", "dask"),
        ("bs", "frequency", "parquet"),
        ("bs", "precision", "csv"),
        ("cr", "frequency", "dask"),
        ("cr", "precision", "parquet"),
        ("scale", "frequency", "csv"),
        ("scale", "precision", "dask"),
        ("s", "frequency", "parquet"),
        ("s", "precision", "csv"),
        ("levels", "frequency", "dask"),
        ("levels", "precision", "parquet"),
        ("groups", "frequency", "csv"),
        ("groups", "precision", "dask"),
    ],
)
def test_rows_by_the_block_learn_as_rows_in_memory(term, weights, kind, tmp_path):
    found, wanted = (
        means(TERMS[term], BOTH, settings(weights), kind, tmp_path),
        means(TERMS[term], ROWS, settings(weights)),
    )
    np.testing.assert_allclose(found, wanted, rtol=1e-6, atol=1e-9)


def test_published_values_of_a_spline_without_two_rows():
    data = {"x": np.r_[U, 3.0, 4.0], "y": np.r_[V, 9.0, 9.0]}
    weights = [1] * 30 + [0, 0]
    fit = pr.fit(pr.Model.from_formula("y ~ bs(x, df=5)", data, weights=weights))
    assert fit.predict({"x": [0.25, 0.5]})["mean"].values.round(4).tolist() == [
        0.9854,
        0.1386,
    ]


@pytest.mark.parametrize("kind", ["pandas", "csv"])
def test_rows_of_no_trials_are_absent_too(kind, tmp_path):
    rows = ROWS.assign(n=ROWS.w, k=(ROWS.y > 0) * 1)
    both = pd.concat([rows, ABSENT.assign(n=0, k=0)], ignore_index=True)
    found, wanted = (
        pr.fit(model("p(k, n) ~ bs(x, df=4)", d, kind, tmp_path)).predict(AT)["mean"]
        for d in (both, rows)
    )
    np.testing.assert_allclose(found, wanted, rtol=1e-6)


@pytest.mark.parametrize("kind", ["pandas", "csv", "parquet"])
def test_rows_of_weight_0_may_hold_what_no_other_row_may(kind, tmp_path):
    both = BOTH.astype({"z": object})
    both.loc[11, "z"], both.loc[12, "z"] = None, np.inf
    both["z"] = both.z.astype(float)
    found, wanted = (means("x + z", data, "w", kind, tmp_path) for data in (both, ROWS))
    np.testing.assert_allclose(found, wanted, rtol=1e-9)


def test_rows_of_weight_0_keep_their_places():
    fit = pr.fit(pr.Model.from_formula("y ~ bs(x, df=4) + g", BOTH, weights="w"))
    predicted, plain = (
        fit.predict()["mean"].values,
        pr.fit(pr.Model.from_formula("y ~ bs(x, df=4) + g", ROWS, weights="w")),
    )
    idle = np.flatnonzero(BOTH.w == 0)
    assert np.isnan(predicted[idle]).all()
    np.testing.assert_allclose(
        np.delete(predicted, idle), plain.predict()["mean"], rtol=1e-9
    )
    assert len(fit.residuals()) == len(BOTH)


def test_a_response_that_is_transformed_learns_with_the_weights():
    weighted, copied = (
        pr.Model.from_formula("scale(y) ~ x", d, weights=w)
        for d, w in ((BOTH, "w"), (COPIES, None))
    )
    assert pr.fit(weighted).coef.values == pytest.approx(
        pr.fit(copied).coef.values, rel=1e-9
    )


@pytest.mark.parametrize("basis", ["exact", "cholesky", "hsgp"])
def test_processes_of_arrays_learn_without_rows_of_weight_0(basis):
    kernel, prior = pr.kernels.RBF(0.5, scaled=True), pr.Normal(1.0)

    def columns(x, y, weights=None):
        return model_of_kernel(x, y, kernel, prior, basis=basis, weights=weights).design

    rows, y = np.r_[3.0, U, 4.0], np.r_[9.0, V, 9.0]
    absent, plain = columns(rows, y, [0, *[1] * 30, 0]), columns(U, V)
    np.testing.assert_allclose(absent.X, plain.X, rtol=1e-12, atol=1e-14)
    weighted, copied = (
        columns(U, V, ROWS.w),
        columns(np.repeat(U, ROWS.w), np.repeat(V, ROWS.w)),
    )
    assert [weighted.columns, absent.columns] == [copied.columns, plain.columns]
    one, two = (
        next(iter(d.recipe.processes.values())).basis.kernel.hyper
        for d in (weighted, copied)
    )
    assert one == pytest.approx(two, rel=1e-12)


def test_places_of_rows_of_weight_0_are_saved(tmp_path):
    fit = pr.fit(pr.Model.from_formula("y ~ bs(x, df=4)", BOTH, weights="w"))
    fit.save(tmp_path / "fit.nc", rows=True)
    again = pr.load_fit(tmp_path / "fit.nc").predict()["mean"].values
    np.testing.assert_allclose(again, fit.predict()["mean"].values, rtol=1e-12)
