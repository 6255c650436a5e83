"""Whatever the rows, their order, the kind of table or the process: a row gets the numbers of training."""

import json
import re
import subprocess
import sys

import numpy as np
import pandas as pd
import polars as pl
import pyarrow as pa
import pytest
import xarray as xr
from formulaic import Formula

from probreg.data.formula import formula as formulas
from probreg.data.formula.recipe import Recipe
from probreg.formula.expression import parse_expression


def read_formula(formula, data, **options):
    """The design of a formula, without its response."""
    return formulas.read_formula(formula, data, **options).design


N = 48


@pytest.fixture(scope="module")
def data():
    rng = np.random.default_rng(20)
    return {
        "y": rng.normal(size=N),
        "x": rng.normal(size=N),
        "z": rng.uniform(1, 10, size=N),
        "g": [*"dacb"] * (N // 4),
        "h": [*"uuvvww"] * (N // 6),
        "b": rng.random(N) > 0.5,
        "k": [3, 1, 2, 4] * (N // 4),
        "my col": rng.normal(size=N),
    }


FORMULAS = [
    "y ~ x",
    "y ~ x + g - 1",
    "y ~ x*g",
    "y ~ (x + z + g)**2",
    "y ~ g:h",
    "y ~ g/x",
    "y ~ 0 + g:h",
    "y ~ b*g + k",
    "y ~ poly(x, 3)",
    "y ~ poly(x, degree=2, raw=True)",
    "y ~ bs(z, df=5)",
    "y ~ bs(z, knots=[3, 6], degree=2)",
    "y ~ bs(log(z), df=4, extrapolation='extend'):g",
    "y ~ cr(z, df=4) - 1",
    "y ~ cr(z, df=4)",
    "y ~ cc(z, df=4)*x",
    "y ~ scale(x) + center(z)",
    "y ~ scale(log(z)):center(x)",
    "y ~ C(g)",
    "y ~ C(k)",
    "y ~ C(b)",
    "y ~ C(g, contr.treatment(base='c'))",
    "y ~ C(g, contr.treatment('c'), levels=['d', 'c', 'b', 'a'])",
    "y ~ C(g, Treatment('c'))",
    "y ~ C(g, Sum)*x",
    "y ~ C(g, contr.sum)*x",
    "y ~ C(g, contr.helmert) + C(h, contr.sum)",
    "y ~ C(g, contr.diff)",
    "y ~ C(k, contr.poly(scores=[1, 2, 4, 8]))",
    "y ~ poly(`my col`, 2):g + np.log(z)",
    "y ~ I(x**2) + {x + 2 * z} + where(x > 0, x, 0) + I(g == 'a')",
]


@pytest.mark.parametrize("formula", FORMULAS)
def test_training_rows_come_back_whatever_rows_are_asked_for(formula, data):
    reading = read_formula(formula, data)
    recipe = Recipe.from_json(json.loads(json.dumps(reading.recipe.to_json())))
    assert recipe == reading.recipe
    # to the last bit: the same numbers, the same order
    np.testing.assert_array_equal(recipe.matrix(data), reading.X)
    rng = np.random.default_rng(1)
    for rows in ([7], [0, 4, 8], rng.permutation(N)):
        some = {
            name: [values[i] for i in rows]
            for name, values in data.items()
            if name != "y"
        }
        # centred splines multiply by a matrix, whose sums depend on the number of rows in the last bits
        np.testing.assert_allclose(
            recipe.matrix(some), reading.X[rows], rtol=0, atol=1e-13
        )


@pytest.mark.slow
def test_a_fresh_process_makes_the_same_numbers(data):
    readings = [read_formula(formula, data) for formula in FORMULAS]
    saved = json.dumps(
        [
            [r.recipe.to_json() for r in readings],
            {k: np.asarray(v).tolist() for k, v in data.items()},
        ]
    )
    code = (
        "import json, sys\nfrom probreg.data.formula.recipe import Recipe\n"
        "recipes, data = json.load(sys.stdin)\n"
        "json.dump([Recipe.from_json(r).matrix(data).tolist() for r in recipes], sys.stdout)"
    )
    out = subprocess.run(
        [sys.executable, "-c", code],
        input=saved,
        capture_output=True,
        text=True,
        check=True,
    )
    for matrix, reading in zip(json.loads(out.stdout), readings, strict=True):
        np.testing.assert_array_equal(matrix, reading.X)


@pytest.mark.parametrize(
    ("patsy", "ours"),
    [
        ("Treatment('c')", "contr.treatment('c')"),
        ("Treatment(reference='c')", "contr.treatment(base='c')"),
        ("Treatment", "contr.treatment"),
        ("Sum", "contr.sum"),
    ],
)
def test_contrasts_as_patsy_spells_them_are_ours(patsy, ours, data):
    one, other = (
        read_formula(f"y ~ C(g, {patsy})*x", data),
        read_formula(f"y ~ C(g, {ours})*x", data),
    )
    np.testing.assert_array_equal(one.X, other.X)
    assert [c.replace(patsy, ours) for c in one.recipe.columns] == list(
        other.recipe.columns
    )


@pytest.mark.parametrize("formula", FORMULAS)
def test_no_text_reaches_an_evaluator(formula, data, monkeypatch):
    def refused(*_, **__):
        raise AssertionError("a formula was handed to an evaluator of Python")

    read_formula(formula, data)  # imports what it needs
    monkeypatch.setattr("builtins.eval", refused)
    monkeypatch.setattr("builtins.exec", refused)
    reading = read_formula(formula, data, offset="log(z)")
    again = Recipe.from_json(reading.recipe.to_json())
    np.testing.assert_array_equal(again.matrix(data), reading.X)
    np.testing.assert_array_equal(again.offset_at(data), reading.offset[:, 0])


@pytest.mark.parametrize("formula", FORMULAS)
def test_every_kind_of_table_gives_the_same_columns(formula, data):
    frame = pd.DataFrame(data)
    reading = read_formula(formula, data)
    tables = [
        frame,
        frame.convert_dtypes(),
        pl.DataFrame(data),
        pa.table(data),
        xr.Dataset.from_dataframe(frame),
    ]
    tables += [
        frame.astype({"g": "category", "h": "category"}),
    ]
    tables.append(
        pl.DataFrame(data).with_columns(pl.col("g", "h").cast(pl.Categorical))
    )
    for table in tables:
        other = read_formula(formula, table)
        assert other.recipe == reading.recipe
        np.testing.assert_array_equal(other.X, reading.X)


def test_declared_order_of_levels_is_kept():
    g, order = ["lo", "hi", "mid", "lo"], ["lo", "mid", "hi"]
    frame = pd.DataFrame(
        {"y": [1.0, 2, 3, 4], "g": pd.Categorical(g, categories=order, ordered=True)}
    )
    polars = pl.DataFrame(
        {"y": [1.0, 2, 3, 4], "g": pl.Series(g, dtype=pl.Enum(order))}
    )
    for table in (
        frame,
        polars,
        pa.Table.from_pandas(frame),
        {"y": [1, 2, 3, 4], "g": frame["g"]},
    ):
        assert read_formula("y ~ g", table).recipe.columns == (
            "Intercept",
            "g[T.mid]",
            "g[T.hi]",
        )


@pytest.mark.parametrize(
    "formula",
    [
        *FORMULAS[:9],
        "y ~ bs(z, df=6)*g",
        "y ~ bs(z, df=4, lower_bound=0, upper_bound=20)",
        "y ~ bs(z, knots=[2, 5, 8], lower_bound=1.5, upper_bound=9, extrapolation='extend')",
        "y ~ cc(z, df=4, lower_bound=0, upper_bound=24)",
        "y ~ cr(z, df=4, lower_bound=3, upper_bound=8, extrapolation='extend')",
        "y ~ bs(z, knots=[2, 5, 8], degree=1, extrapolation='clip')",
        "y ~ cr(z, df=4) + cc(z, knots=[3, 5, 7]):x",
        "y ~ cr(z, df=4, extrapolation='extend')",
        "y ~ scale(x) + center(z)",
        "y ~ 0 + g*h*b",
        "y ~ g + h + g:h:b",
        "y ~ C(g, contr.helmert):C(h, contr.sum)",
        "y ~ 0 + C(g, contr.poly)*x + C(h, contr.diff)",
    ],
)
def test_columns_and_names_are_those_of_formulaic(formula, data):
    frame = pd.DataFrame(data)
    found = read_formula(formula, frame)
    terms = Formula(
        re.sub(
            r"(c[rc]\(.*?)\)(?=[ :*]|$)",
            r"\1, constraints='center')",
            formula.partition("~")[2],
        )
    )
    judge = terms.get_model_matrix(frame.astype({"b": str}))
    assert found.recipe.columns == tuple(
        name.replace(", constraints='center'", "") for name in judge.columns
    )
    np.testing.assert_allclose(found.X, judge.to_numpy(float), rtol=1e-12, atol=1e-12)


def test_contrasts_are_those_of_the_textbook():
    data = {"y": [1.0, 2.0, 3.0], "g": ["a", "b", "c"]}
    by_hand = {
        "treatment": [[0, 0], [1, 0], [0, 1]],
        "sum": [[1, 0], [0, 1], [-1, -1]],
        "helmert": [[-1, -1], [1, -1], [0, 2]],
        "diff": [[-2 / 3, -1 / 3], [1 / 3, -1 / 3], [1 / 3, 2 / 3]],
        "poly": [
            [-np.sqrt(1 / 2), np.sqrt(1 / 6)],
            [0, -np.sqrt(4 / 6)],
            [np.sqrt(1 / 2), np.sqrt(1 / 6)],
        ],
    }
    for name, rows in by_hand.items():
        X = read_formula(f"y ~ C(g, contr.{name})", data).X
        # one square root and one division each
        np.testing.assert_allclose(X[:, 1:], rows, rtol=0, atol=1e-15)
        np.testing.assert_array_equal(X[:, 0], 1.0)


def test_bases_are_what_they_say():
    x = np.linspace(0.0, 3.0, 13)
    data = {"y": x, "x": x}
    P = read_formula("y ~ poly(x, 3)", data).X
    # orthonormal
    np.testing.assert_allclose(P[:, 1:].T @ P[:, 1:], np.eye(3), atol=1e-14)
    # and orthogonal to the intercept
    np.testing.assert_allclose(P[:, 1:].sum(0), 0.0, atol=1e-14)
    C = read_formula("y ~ cr(x, df=5) - 1", data).X
    np.testing.assert_allclose(C.sum(1), 1.0, rtol=1e-14)
    S = read_formula("y ~ scale(x)", data).X[:, 1]
    np.testing.assert_allclose([S.mean(), S.std(ddof=1)], [0.0, 1.0], atol=1e-15)
    L = read_formula("y ~ center(x)", data).X[:, 1]
    np.testing.assert_array_equal(L, x - x.mean())


def test_dropped_rows_are_as_if_never_there():
    data = {
        "y": [1.0, 2, 3, None, 5, 6],
        "x": [1.0, 2, 4, 8, None, 32],
        "g": ["a", "b", "c", "z", "a", "b"],
    }
    kept = [0, 1, 2, 5]
    clean = {name: [values[i] for i in kept] for name, values in data.items()}
    got = read_formula(
        "y ~ poly(x, 2) + g",
        data,
        weights=[1, 2, 3, 4, 5, 6],
        offset=[0, 1, 2, 3, 4, 5],
        missing="drop",
    )
    want = read_formula(
        "y ~ poly(x, 2) + g", clean, weights=[1, 2, 3, 6], offset=[0, 1, 2, 5]
    )
    assert got.recipe == want.recipe  # no column for the level z
    np.testing.assert_array_equal(got.X, want.X)
    np.testing.assert_array_equal(got.weights, want.weights)
    np.testing.assert_array_equal(got.offset, want.offset)
    assert got.labels.tolist() == kept
    assert got.notes[0].startswith(
        "2 of 6 rows were dropped because of missing values: rows 3, 4; by column: 'y' 1"
    )


def test_a_categorical_level_without_rows_makes_no_column():
    g = pd.Categorical(["a", "b", "a"], categories=["z", "a", "b"])
    reading = read_formula("y ~ g", {"y": [1, 2, 3], "g": g})
    assert reading.recipe.columns == ("Intercept", "g[T.b]")
    assert reading.notes == ("column 'g' has levels without rows, left out: z",)


def test_the_dot_is_all_other_columns(data):
    reading = read_formula("log(z) ~ . - h", data, weights="k", offset="x + 0")
    want = read_formula(
        "log(z) ~ y + g + b + `my col`", data, weights="k", offset="x + 0"
    )
    assert reading.recipe.columns == want.recipe.columns
    np.testing.assert_array_equal(reading.X, want.X)
    np.testing.assert_array_equal(reading.recipe.matrix(data), want.X)
    assert read_formula("p(k, 4) ~ .", data).recipe.variables == (
        "y",
        "x",
        "z",
        "g",
        "h",
        "b",
        "my col",
    )


def test_the_dot_stands_for_a_column_called_others():
    data = {"y": [1.0, 2.0, 4.0], "x": [1.0, 3.0, 2.0], "others": [0.5, 0.1, 0.9]}
    assert read_formula("y ~ .", data).recipe.columns == ("Intercept", "x", "others")
    assert read_formula("y ~ . - others", data).recipe.columns == ("Intercept", "x")


@pytest.mark.parametrize(
    ("formula", "columns"),
    [("y ~ x:(-z)", ()), ("y ~ x*(-z)", ("x",)), ("y ~ (-x)", ())],
)
def test_a_minus_within_brackets_takes_a_term_out_as_in_r(formula, columns, data):
    assert read_formula(formula, data).recipe.columns == ("Intercept", *columns)


def test_columns_named_like_functions_do_not_stand_in_for_them():
    x = np.array([1.0, 2.0, 4.0])
    data = {
        "y": x,
        "log": x,
        "np": x,
        "C": ["a", "b", "c"],
        "poly": x,
        "I": x,
        "contr": x,
        "p": x,
    }
    plain = {"y": x, "a": x, "g": ["a", "b", "c"]}
    got = read_formula(
        "y ~ log(log) + np + np.sqrt(np) + poly(poly, 1) + C(C, contr.sum) + I(I * contr) + p",
        data,
    )
    want = read_formula(
        "y ~ log(a) + a + np.sqrt(a) + poly(a, 1) + C(g, contr.sum) + I(a * a) + {a + 0}",
        plain,
    )
    np.testing.assert_array_equal(np.sort(got.X, axis=1), np.sort(want.X, axis=1))


def test_offset_is_computed_again_at_new_rows():
    data = {"y": [1.0, 2.0, 4.0], "x": [1.0, 2.0, 5.0], "exposure": [1.0, 10.0, 100.0]}
    reading = read_formula("y ~ x", data, offset="log10(exposure) + center(x)")
    np.testing.assert_array_equal(
        reading.offset[:, 0], np.log10(data["exposure"]) + np.array(data["x"]) - 8 / 3
    )
    recipe = Recipe.from_json(json.loads(json.dumps(reading.recipe.to_json())))
    assert recipe.offset_at({"exposure": [1000.0], "x": [8 / 3]}).tolist() == [3.0]
    given = read_formula("y ~ x", data, offset=[1, 2, 3])
    assert given.recipe.offset_at(data) is None
    assert "the offset was given as an array" in given.notes[0]


def test_responses_as_they_stand():
    data = {
        "y": ["no", "yes", "no"],
        "n": [1, 2, 3],
        "b": [True, False, True],
        "x": [0.0, 1.0, 3.0],
    }
    assert formulas.read_formula("y ~ x", data).response.tolist() == data["y"]
    assert formulas.read_formula("n ~ x", data).response.dtype.kind == "i"
    assert formulas.read_formula("b ~ x", data).response.dtype.kind == "b"
    g = pd.Categorical(data["y"], categories=["yes", "no"])
    assert list(formulas.read_formula("g ~ x", data | {"g": g}).levels) == [
        "yes",
        "no",
    ]
    trials = formulas.read_formula("p(n, n + 2) ~ x", data)
    assert (trials.counted, trials.response.tolist()) == ("p", [[1, 3], [2, 4], [3, 5]])
    assert trials.design.response == "n of n + 2"
    np.testing.assert_array_equal(
        trials.design.recipe.trials_at({"n": [4], "x": [0.0]}), [6]
    )
    assert trials.design.recipe.trials_at({"x": [0.0]}) is None
    assert trials.design.recipe.trials_at({"n": [np.nan]}) is None
    counts = formulas.read_formula("counts(n, `b`, n + 2) ~ x", data)
    assert (counts.counted, counts.levels) == ("counts", ("n", "b", "n + 2"))
    assert counts.response.tolist() == [[1, 1, 3], [2, 0, 4], [3, 1, 5]]
    np.testing.assert_array_equal(
        counts.design.recipe.trials_at({"n": [4], "b": [1]}), [11]
    )
    scaled = read_formula("scale(n) ~ x", data)
    np.testing.assert_array_equal(scaled.recipe.outcome_at({"n": [4]}), [2.0])


def test_truth_values_are_a_category_whose_indicator_is_zero_and_one(data):
    reading = read_formula("y ~ b", data)
    assert reading.recipe.columns == ("Intercept", "b[T.True]")
    np.testing.assert_array_equal(reading.X[:, 1], np.asarray(data["b"], dtype=float))


def test_the_index_labels_the_rows():
    frame = pd.DataFrame(
        {"y": [1.0, 2.0, np.nan], "x": [1, 2, 3]}, index=["a", "b", "c"]
    )
    reading = read_formula("y ~ x", frame, missing="drop")
    assert reading.labels.tolist() == ["a", "b"]


def test_quoted_names_keep_transforms_apart():
    text = "poly(`a b`, 2) + scale(`a c`)"
    assert parse_expression(text).variables == ("a b", "a c")
    data = {"y": [1.0, 2.0, 4.0], "a b": [1.0, 2.0, 4.0], "a c": [3.0, 1.0, 7.0]}
    X = read_formula("y ~ scale(`a b`) + scale(`a c`)", data).X
    np.testing.assert_allclose(X[:, 1:].mean(0), 0.0, atol=1e-15)
