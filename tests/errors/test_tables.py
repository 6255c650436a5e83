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


MIXED = np.array([1, "a", 2, "b"] * 3, dtype=object)


@pytest.mark.parametrize(
    ("formula", "column", "message"),
    [
        ("y ~ C(x)", MIXED, r"the levels of 'C\(x\)' are of different kinds, such as '\w' and \d"),
        ("y ~ C(x)", [{"a": 1}] * 12, r"the levels of 'C\(x\)' are texts.* got {'a': 1}"),
        ("y ~ 1 + (1 | x)", MIXED, "'x' holds values of kind int, str"),
        ("y ~ log(x)", np.arange(12).astype("M8[D]"), "holds times .row 0: 1970-01-01."),
        ("y ~ log(x)", pd.Categorical([1, 2] * 6), "holds categories .row 0: 1.,"),
        ("y ~ poly(x, 2)", [0.0, 1.0] * 6, "expected 3 different values or more, got 0, 1"),
        ("y ~ poly(x, 1)", [5.0] * 12, "expected 2 different values or more, got 5"),
        ("y ~ bs(x, df=4)", [5.0] * 12, "expected 2 different values or more, got 5"),
    ],
)  # fmt: skip
def test_values_that_a_term_cannot_use(formula, column, message):
    with pytest.raises(pr.DataError, match=message):
        pr.Model.from_formula(formula, {"y": np.arange(12.0), "x": column})


@pytest.mark.parametrize("kind", ["boolean", object])
def test_missing_truth_values(kind):
    """pandas marks them NA, which is neither equal nor unequal to a number."""
    data = pd.DataFrame({"t": np.arange(1.0, 13.0), "y": 1.0 + np.arange(12.0) % 5})
    data["event"] = pd.Series([True, None, False, True] * 3, dtype=kind)
    counts = "values are missing in 3 of 12 rows, by column: .event. 3 .rows 1, 5, 9|missing in 3 of 9"
    for formula, weights in [("cens(t, event) ~ 1", None), ("p(event, 2) ~ 1", None), ("y ~ 1", "event")]:  # fmt: skip
        with pytest.raises(pr.DataError, match=counts):
            pr.Model.from_formula(formula, data, weights=weights)
        dropped = pr.Model.from_formula(formula, data, weights=weights, missing="drop")
        assert dropped.design.n == (6 if weights else 9)


def test_missing_truth_values_of_files(tmp_path):
    """A missing indicator of an event counted as an event."""
    data = pd.DataFrame({"t": np.arange(1.0, 13.0), "event": [True, None, False, True] * 3})  # fmt: skip
    data.to_parquet(tmp_path / "t.parquet")
    data.to_csv(tmp_path / "t.csv", index=False)
    for name in ("t.parquet", "t.csv"):
        with pytest.raises(pr.DataError, match=r"'event' 3 \(rows 1, 5, 9\)"):
            pr.fit(pr.Model.from_files("cens(t, event) ~ 1", tmp_path / name, likelihood="weibull"))  # fmt: skip
    fit = pr.fit(pr.Model.from_formula("cens(t, event) ~ 1", data.dropna(), likelihood="weibull"))  # fmt: skip
    with pytest.raises(
        pr.DataError, match="'event' is missing a value in rows 1, 5, 9"
    ):
        fit.model.at(data)
