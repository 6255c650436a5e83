"""Processes that no formula and no data can have: each refusal is one sentence with the term, the column, the row and a remedy."""

import contextlib
import re

import numpy as np
import pandas as pd
import pytest

import probreg as pr
from probreg.data.array_columns import design_of_kernel
from probreg.priors import Flat

N = 30
TABLE = pd.DataFrame(
    {
        "x": np.linspace(0, 5, N),
        "z": np.sin(np.arange(N)),
        "g": list("ab") * 15,
        "y": np.cos(np.arange(N)),
    },
    index=[f"r{i}" for i in range(N)],
)

REFUSED = {
    "gp(x, length=0)": "length is a positive finite number",
    "gp(x, length=1e-9)": "far below the distances of the rows, whose covariances are all 0; the columns span 5",
    "gp(x, length=1e9)": "far above the distances of the rows, so that k is constant; the columns span 5",
    "gp(x, length=[1, 2])": "rbf has 2 lengths, and the rows have 1 columns",
    "gp(x, basis='cholesky', size=50, length=1)": "size=50: expected at most 30, the number of distinct rows",
    "gp(x, basis='eigen')": "basis is one of exact, cholesky, hsgp, got 'eigen'",
    "gp(x, tol=1e-3)": "tol= is of a basis that is named beside it: write basis='cholesky' or",
    "gp(x, basis='exact', tol=0.1)": "exact takes no tol=",
    "gp(x, basis='hsgp', range=(0, 4.5))": "row 27, column 0 holds 4.65517, beyond the range 0 to 4.5 of this basis: make it with range=",
    "gp(x, z, range=[(0, 5), (0, 1)])": "row 4, column 1 holds -0.756802, beyond the range 0 to 1 of this basis: make it with range=",
    "gp(x, basis='cholesky', tol=0.1)": "made anew at each length, without tol=",
    "gp(x, basis='cholesky', size=4)": "made anew at each length, without size=",
    "gp(x, kernel='sum')": "kernel='sum' combines other functions",
    "gp(x, kernel=1)": "kernel is a name or a covariance function",
    "gp(x, kernel='polynomial', offset=-1)": "got -1: with a negative one it is no covariance function",
    "gp(x, kernel='linear', length=1)": "linear takes no length=: it takes nothing",
    "gp(x, kernel='matern32', nu=1)": "matern32 has nu = 1.5",
    "gp(x, kernel='periodic')": "has a period in units of x: state it, such as period=12",
    "gp(x, kernel='linear', basis='hsgp')": "Linear() has no spectral density",
    "gp(0 * x)": "0 * x is 0 in all rows: leave the term out",
    "gp(x, 0 * z, scaled=True, length=1)": "column 0 * z does not vary",
}


@pytest.mark.parametrize("term", REFUSED)
def test_a_process_that_cannot_be_is_refused_in_one_sentence_that_begins_with_the_term(
    term,
):
    with pytest.raises(pr.ProbregError, match=re.escape(REFUSED[term])) as met:
        pr.Model.from_formula(f"y ~ {term}", TABLE)
    assert str(met.value).startswith("gp(")


@pytest.mark.parametrize(
    ("formula", "said"),
    [
        ("y ~ gp(g)", "column 'g' holds text (row r0: 'a')"),
        (
            "y ~ gp(x):z",
            "'gp(x)' stands by itself in 'y ~ gp(x):z'; a process of x and z is gp(x, z)",
        ),
        ("y ~ log(gp(x))", "stands by itself, not inside another function"),
        ("y ~ gp(x, length=1.0, length=2.0)", "gp takes columns, then kernel="),
        ("y ~ gp(x, k=3)", "gp takes columns, then kernel=, length=,"),
        ("y ~ gp(log(x))", "computed from [-inf] at row r0, which is not finite"),
    ],
)
def test_what_no_formula_may_say_of_a_process(formula, said):
    with pytest.raises(pr.DataError, match=re.escape(said)):
        pr.Model.from_formula(formula, TABLE)


def test_an_exact_basis_of_too_many_rows_says_the_memory_and_what_to_take():
    table = {"x": np.linspace(0.0, 1.0, 5001), "y": np.zeros(5001)}
    with pytest.raises(
        pr.DataError, match=r"5,001 distinct rows .* 0.2 GB: write 'cholesky'"
    ):
        pr.Model.from_formula("y ~ gp(x, length=0.1, basis='exact')", table)


def test_predictions_beyond_the_range_of_sines_name_column_row_and_range():
    fit = pr.fit(pr.Model.from_formula("y ~ gp(x, z, length=1.0, basis='hsgp')", TABLE))
    new = pd.DataFrame({"x": [1.0, 5.5], "z": [0.0, 0.0]}, index=["near", "far"])
    with pytest.raises(
        pr.DataError,
        match=re.escape(
            "x is 5.5 in row far, beyond the range 0 to 5 of its sines: fit it with a range="
        ),
    ):
        fit.predict(new)
    wide = pr.fit(pr.Model.from_formula("y ~ gp(x, length=1.0, range=(0, 5.5))", TABLE))
    assert np.isfinite(wide.predict(new)["mean"]).all()


# ---- flat priors ---------------------------------------------------------------------------------------------------------


def test_a_flat_prior_on_as_many_columns_as_rows_is_refused_and_found():
    table = TABLE[::6]
    model = pr.Model.from_formula(
        "y ~ gp(x, length=1.0)", table, prior={"gp(x)": Flat()}
    )
    said = "gp(x, length=1.0): under a flat prior its 5 columns interpolate the 5 rows"
    with pytest.raises(pr.Incompatible, match=re.escape(said) + "; omit the prior"):
        pr.fit(model)
    assert pr.check(model)["processes"].items[0].sentence == said
    two = pr.Model.from_formula(
        "y ~ gp(x, length=1.0) + gp(z, length=1.0, basis='cholesky', size=2)",
        TABLE[::5],
        prior={"gp(x)": Flat(), "gp(z)": Flat()},
    )
    with pytest.raises(
        pr.Incompatible,
        match="under a flat prior their 8 columns interpolate the 6 rows",
    ):
        pr.fit(two, "newton")


@pytest.mark.parametrize(("rows", "refused"), [(5, True), (6, False)])
def test_a_flat_prior_may_leave_two_rows_over(rows, refused):
    formula = "y ~ 0 + gp(x, length=1.0, basis='cholesky', size=4)"
    model = pr.Model.from_formula(
        formula, TABLE[:: N // rows][:rows], prior={"gp(x)": Flat()}
    )
    with (
        pytest.raises(pr.Incompatible, match="interpolate")
        if refused
        else contextlib.nullcontext()
    ):
        pr.fit(model)


def test_a_flat_prior_on_fewer_columns_is_a_regression_and_said_to_be_one():
    model = pr.Model.from_formula(
        "y ~ gp(x, length=1.0, basis='cholesky', size=3)",
        TABLE,
        prior={"gp(x)": Flat()},
    )
    (found,) = pr.check(model)["processes"].items
    assert (
        found.verdict.name,
        "a regression on 3 columns, not a process" in found.sentence,
    ) == ("WARNING", True)
    X = np.column_stack([np.ones(N), model.design.X[:, 1:]])
    np.testing.assert_allclose(
        pr.fit(model).solution.beta[:, 0],
        np.linalg.lstsq(X, TABLE["y"], rcond=None)[0],
        rtol=1e-8,
    )


# ---- rows that are read by the block, and designs ------------------------------------------------------------------------


@pytest.mark.parametrize("kind", ["exact", "cholesky"])
def test_a_basis_of_rows_is_refused_for_rows_that_are_read_by_the_block(tmp_path, kind):
    TABLE.to_csv(tmp_path / "rows.csv")
    with pytest.raises(pr.DataError, match=rf"basis='{kind}' needs all rows in memory"):
        pr.Model.from_files(
            f"y ~ gp(x, length=1.0, size=3, basis='{kind}')", tmp_path / "rows.csv"
        )


def test_a_row_of_a_file_beyond_the_range_is_named(tmp_path):
    TABLE.to_csv(tmp_path / "rows.csv")
    with pytest.raises(
        pr.DataError,
        match=r"row 24, column 0 holds 4.13793, beyond the range 0 to 4 of this basis",
    ):
        pr.Model.from_files(
            "y ~ gp(x, length=1.0, range=(0, 4))", tmp_path / "rows.csv"
        )


def test_another_basis_needs_the_rows_the_term_and_as_many_inputs():
    design = pr.Model.from_formula("y ~ gp(x, length=1.0)", TABLE).design
    of_two = pr.kernels.basis("rbf", TABLE[["x", "z"]].to_numpy())
    with pytest.raises(
        pr.DataError,
        match=r"'gp\(z\)' is no Gaussian process of this design; it has gp\(x, length=1.0\)",
    ):
        design.with_basis("gp(z)", of_two)
    with pytest.raises(
        pr.DataError, match="this basis takes 2 columns, and the term has 1"
    ):
        design.with_basis("gp(x, length=1.0)", of_two)
    plain = pr.Model.from_arrays(TABLE[["x"]].to_numpy(), TABLE["y"]).design
    with pytest.raises(pr.DataError, match="it has none"):
        plain.with_basis("gp(x)", of_two)


@pytest.mark.parametrize(
    ("given", "said"),
    [
        (
            {"kernel": pr.kernels.RBF(1e-9)},
            "gp(x1): length = 1e-09 is far below the distances",
        ),
        ({"kernel": "sigmoid"}, "gp(x1): no covariance function is called 'sigmoid'"),
        (
            {"columns": ["Intercept"]},
            "column 'Intercept' holds 0 in row 0: a column of that name is all ones",
        ),
    ],
)
def test_processes_of_arrays_that_cannot_be(given, said):
    with pytest.raises(pr.ProbregError, match=re.escape(said)):
        design_of_kernel(np.arange(5.0), **given)


@pytest.mark.slow
@pytest.mark.parametrize(
    ("likelihood", "aux"), [("student", "sigma"), ("negative_binomial", "alpha")]
)
def test_an_exact_basis_with_an_unknown_nuisance_parameter_fits(likelihood, aux):
    rng = np.random.default_rng(3)
    x = np.linspace(-1.0, 1.0, 24)
    y = np.sin(3.0 * x) + 0.3 * rng.standard_t(4, 24)
    if likelihood == "negative_binomial":
        y = rng.negative_binomial(2, 2.0 / (2.0 + np.exp(1.0 + np.sin(3.0 * x))))
    table = {"x": x, "y": y}
    model = pr.Model.from_formula("y ~ gp(x)", table, likelihood=likelihood)
    assert pr.fit(model).solution.status.good
    assert pr.fit(model.with_aux(**{aux: 0.4})).solution.status.good
    hsgp = pr.Model.from_formula(
        "y ~ gp(x, basis='hsgp')", table, likelihood=likelihood
    )
    assert pr.fit(hsgp).solution.status.good
