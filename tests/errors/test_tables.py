"""Faults of tables and names: each is refused with what is wrong, or written so that it does no harm."""

import io

import numpy as np
import pandas as pd
import pytest

import probreg as pr
from probreg.tables.table import csv_text

N = 40
RNG = np.random.default_rng(0)
DATA = {
    "y": RNG.normal(size=N),
    "x": RNG.uniform(1, 2, N),
    "job": np.repeat([1, 2, 3, 4], 10),
    "g": list("abcd") * 10,
}


@pytest.mark.parametrize("term", ["s(bs(x, df=4))", "gp(cr(x, df=4))", "log(bs(x, df=4))", "I(bs(x, df=4) + 1)", "I(-bs(x, df=4))", "I(2 * cc(x, df=4))", "scale(bs(x, df=4))", "s(poly(x, 2))", "bs(bs(x, df=4), df=4)"])  # fmt: skip
def test_a_basis_within_a_function_is_refused(term):
    with pytest.raises(pr.DataError, match=r"several columns|cannot be read"):
        pr.Model.from_formula(f"y ~ {term}", DATA)


@pytest.mark.parametrize(
    ("formula", "key", "meant"),
    [
        ("y ~ C(job) + x", "job", "'C(job)'"),
        ("y ~ log(x) + g", "x", "'log(x)'"),
        ("y ~ x + s(x, k=5)", "s(x, k=6)", ""),
        ("y ~ s(x) + (1 | g)", "g", "'(1 | g)'"),
        ("y ~ I(x > 1.5) + log(x)", "x", "'I(x > 1.5)' or 'log(x)'"),
    ],
)
def test_a_prior_of_a_variable_names_the_term_it_stands_in(formula, key, meant):
    with pytest.raises(pr.DataError) as error:
        pr.Model.from_formula(formula, DATA, prior={key: pr.Normal(1.0)})
    assert repr(key) in str(error.value)
    assert meant in str(error.value)


@pytest.mark.parametrize(
    ("formula", "rows"), [("y ~ g", False), ("y ~ g", True), ("y ~ 1 + (1 | g)", True)]
)
def test_a_level_with_a_nul_is_refused_by_name(formula, rows, tmp_path):
    data = DATA | {"g": ["a", "b\0", "c", "d"] * 10}
    fit = pr.fit(pr.Model.from_formula(formula, data))
    with pytest.raises(pr.DataError, match=r"b\\x00.*NUL"):
        fit.save(tmp_path / "fit.nc", rows=rows)
    assert not (tmp_path / "fit.nc").exists()


def test_text_that_a_spreadsheet_runs_is_written_as_text():
    names = [
        "=cmd|' /C calc'!A0",
        "@SUM(A1)",
        "+1+1",
        "-2+3",
        "\t=1",
        "plain",
        "+1",
        "-0.5",
    ]
    table = pd.DataFrame({"term": names, "=x": np.arange(8.0) - 4.0})
    back = pd.read_csv(io.StringIO(csv_text(table)), dtype=str)
    assert back.columns.tolist() == ["term", "'=x"]
    assert back.term.tolist() == [*(f"'{name}" for name in names[:5]), *names[5:]]
    assert back["'=x"].tolist() == [str(v) for v in table["=x"]]


@pytest.mark.slow
def test_a_dot_for_more_columns_than_a_formula_makes_is_refused_before_they_are_read():
    wide = pd.DataFrame(np.zeros((3, 20_002)), columns=[f"x{j}" for j in range(20_002)])
    with pytest.raises(pr.DataError, match=r"at most 20000.*from_arrays"):
        pr.Model.from_formula("x0 ~ .", wide)


@pytest.mark.parametrize("method", ["lms", "sgd", "newton", "closed_form"])
def test_more_columns_than_a_method_takes_are_refused_before_memory_is_asked_for(
    method,
):
    model = pr.Model.from_arrays(
        np.zeros((3, 100_000)) + np.arange(3.0)[:, None], [1.0, 2.0, 4.0]
    )
    with pytest.raises(pr.DataError, match="100,001 columns"):
        pr.fit(model, method)
