"""Formulas and tables that cannot be used: each refusal names the piece, column, row and value."""

import datetime

import numpy as np
import pandas as pd
import polars as pl
import pytest
import xarray as xr

import probreg as pr
from probreg.data.formula import formula as formulas
from probreg.data.formula.columns import read_columns
from probreg.data.formula.recipe import Recipe
from probreg.errors import DataError


def read_formula(formula, data, **options):
    """The design of a formula, without its response."""
    return formulas.read_formula(formula, data, **options).design


DATA = {
    "y": [1.0, 2.0, 3.0, 4.0, 6.0, 5.0],
    "x": [0.5, 1.5, 2.5, 3.5, 4.5, 5.5],
    "s": [0, 1, 2, 3, 4, 5],
    "t": [5, 5, 5, 5, 5, 5],
    "g": ["a", "b", "c", "a", "b", "c"],
    "when": np.arange("2020-01-01", "2020-01-07", dtype="datetime64[D]"),
    "my col": [1.0, 2.0, 3.0, 5.0, 8.0, 13.0],
}


def changed(**columns):
    return DATA | columns


@pytest.mark.parametrize(
    ("data", "message"),
    [
        ({"y": [1, 2], "x": [1, 2, 3]}, "different lengths: 'y' has 2, 'x' has 3"),
        ({"y": [], "x": []}, "no rows"),
        ({}, "no columns"),
        ({"y": 3.0}, r"column 'y' is one value.*\[3.0\]"),
        ({"y": [[1.0], [2.0]]}, r"column 'y' is an array of shape \(2, 1\)"),
        (
            np.ones((3, 2)),
            r"expected a pandas.* got numpy.ndarray of shape \(3, 2\), whose columns have no names",
        ),
        (
            np.zeros(3, dtype=[("y", float), ("x", float)]),
            r"got numpy.ndarray; write pandas.DataFrame\(data\)",
        ),
        ("data.csv", "Model.from_files"),
        (pd.Series([1.0]), "expected a pandas.* got pandas.Series"),
        (pl.LazyFrame({"y": [1]}), r"lazy.*\.collect\(\)"),
        (pd.DataFrame([[1, 2]], columns=["y", "y"]), "more than one column called 'y'"),
        (xr.Dataset({"y": (("a", "b"), np.ones((2, 2)))}), r"shape \(2, 2\)"),
        (None, "NoneType"),
    ],
)
def test_what_is_no_table(data, message):
    with pytest.raises(DataError, match=message):
        read_columns(data)


# Not one of these may reach an evaluator; each must be refused as a whole.
MALICIOUS = [
    "__import__('os').system('true')",
    "().__class__",
    "().__class__.__base__.__subclasses__()",
    "x.__class__",
    "log(x.__class__)",
    "I(x.__class__)",
    "open('f')",
    "eval('1')",
    "exec('1')",
    "getattr(x, 'real')",
    "np.load('f')",
    "np.lib.format.open_memmap('f')",
    "np.log.__class__(x)",
    "np.fromfile('f')",
    "contr.custom(x)",
    "C(x, contr.__class__)",
    "C(x, contr.treatment.__init__)",
    "C(x, contrasts=open)",
    "C(x, levels=open('f'))",
    "[x for x in y]",
    "I([x for x in x])",
    "I({k: 1 for k in x})",
    "(lambda: 1)()",
    "I((lambda: 1)())",
    "I((lambda q: q)(x))",
    "`__import__`('os')",
    "I(`__import__`('os'))",
    "log(`__class__`)",
    "f'{x}'",
    "I(f'{x}')",
    "log(f'{x}')",
    "{__import__('os')}",
    "{x.__class__}",
    "{f'{x}'}",
    "x[0]",
    "I(x[0])",
    "I((z := x))",
    "log((z := x))",
    "I(x if x else x)",
    "I(x and x)",
    "I(not x)",
    "I(*x)",
    "I(**x)",
    "log(x, out=x)",
    "log(x, x)",
    "np.add(x, x)",
    "I(_x)",
    "I(__builtins__)",
    "bs(x, df=s)",
    "bs(x, _state={})",
    "poly(x, 2, _context=1)",
    "scale(x, center=open('f'))",
    "hashed(x)",
    "lag(x)",
    "Q('x')",
    "log(C(g))",
    "I(1 < x < 2)",
    "I(x @ x)",
    "I(~x)",
    "I(True)",
    "I(1j)",
    "I('a')",
    "log(x)(x)",
    "C(x)(x)",
    "np",
    "contr.sum",
    "I(np)",
    "p(s, t)",
]


@pytest.mark.parametrize("term", MALICIOUS)
def test_nothing_but_the_whitelist_is_computed(term, monkeypatch):
    monkeypatch.setattr("os.system", lambda *_: pytest.fail("the formula was run"))
    with pytest.raises(DataError):
        read_formula(f"y ~ {term}", DATA)


@pytest.mark.parametrize("term", MALICIOUS)
def test_a_tampered_recipe_is_refused(term):
    saved = read_formula("y ~ x", DATA, offset="log(t)").recipe.to_json()
    with pytest.raises(DataError):
        Recipe.from_json(saved | {"formula": f"y ~ {term}"}).matrix(DATA)
    with pytest.raises(DataError):
        Recipe.from_json(saved | {"offset": term}).offset_at(DATA)


@pytest.mark.parametrize(
    ("formula", "message"),
    [
        (
            "y ~ np.load('f')",
            r"the piece \"np.load\('f'\)\".*not allowed.*runs no Python",
        ),
        (
            "y ~ x + log(x.real)",
            r"the piece 'x.real' of the term 'log\(x.real\)' is not allowed",
        ),
        ("y ~ log(C(g))", r"C\(...\) stands by itself"),
        ("y ~ log(x, x)", "log takes 1 argument and no keywords"),
        ("y ~ bs(x, df=s)", "the piece 's' .* is a number, a text, or a list"),
        ("y ~ bs(x, spam=1)", "bs takes one column, then df, knots"),
        ("y ~ C(g, contr.poly(spam=1))", "contr.poly takes scores"),
        ("y ~ x +", "cannot be read: a term is expected"),
        ("y ~ x z", "cannot be read"),
        ("y ~ x)", r"'\)' closes no bracket at letter 6"),
        (
            "y ~ (x",
            "a bracket is not closed",
        ),
        ("y ~ x ~ s", "'~' more than once"),
        ("y ~ x @ s", "'@' is no part of a formula at letter 7"),
        ("y ~ s %in% x", "written a/b"),
        ("y ~ scale(x, center=False)", "scale takes one column, without options"),
        ("y ~ log(x])", "cannot be read"),
        ("y ~ x**s", "a power of terms is a whole number"),
        ("y ~ (x - 1):s", "has a number in it"),
        ("y + 1 ~ x", r"left side .* is 'y \+ 1'; one response"),
        ("y ~ log(a.b)", "a column of that name is written `a.b`"),
        ("y ~ 7", "the number 7 is no term .* written `7`"),
        ("y ~ `x", "'`' is not closed at letter 5"),
        (r"y ~ `x\`", "'`' is not closed at letter 5"),
        ("y ~ log(x", "cannot be read: a bracket is not closed"),
        ("y ~ log(`x)", "cannot be read"),
        ("y ~ 'a'", "'a' is no term"),
        ("~ x", "no response"),
        ("x", "no response"),
        ("", "no response"),
        ("y + x ~ 1", r"left side .* is 'y \+ x'; one response"),
        ("x | g", "bar outside brackets"),
        ("y ~", "nothing on its right side; write 'y ~ 1'"),
        (
            "y ~ x + (1 | (g + s)**2)",
            r"\(1 \| \(g \+ s\)\*\*2\) has '\(g \+ s\)\*\*2' behind its bar",
        ),
        ("y ~ 0", "no terms and no intercept"),
        ("y ~ y", "response 'y' is also a term"),
        ("y ~ 2:x", r"the number 2 is no term.*I\(2 \* x\)"),
        ("y ~ (x + g)**9", r"up to the power 9.*I\(x\*\*2\)"),
        ("p(s) ~ x", r"p takes two columns"),
        ("counts(s) ~ x", r"counts takes two columns or more"),
        ("y ~ xx", "no column 'xx'; did you mean 'x'"),
        ("y ~ log(xx)", "no column 'xx'; did you mean 'x'"),
        (
            "y ~ Sepal.Length",
            "no column 'Sepal.Length'. They have: y, x, s, t, g, when, my col",
        ),
        ("y ~ when", "column 'when' holds times .row 0: 2020-01-01.*days since"),
        ("when ~ x", "response 'when' holds times"),
        (
            "y ~ log(g)",
            r"column 'g' holds text \(row 0: 'a'\).*'log\(g\)' computes with it",
        ),
        ("y ~ I(x + g)", "column 'g' holds text"),
        ("y ~ log(s)", r"the term 'log\(s\)' is -inf in row 0, where s = 0"),
        ("log(s) ~ x", r"'log\(s\)' is -inf in row 0, where s = 0"),
        ("y ~ I(1 / (x - 1.5))", r"is inf in row 1, where x = 1.5"),
        ("y ~ exp(x * 1000):x", r"'exp\(x \* 1000\)' is inf in row 1"),
        ("y ~ I(9**9**9**9)", "cannot be computed"),
        ("y ~ scale(poly(x, 2))", "several columns"),
        ("poly(y, 2) ~ x", "several columns where one is needed"),
        (
            "y ~ bs(x, df=1)",
            r"the term 'bs\(x, df=1\)' cannot be computed: df is too small",
        ),
        (
            "y ~ bs(x, df=4, upper_bound=3)",
            r"'bs\(x, df=4, upper_bound=3\)'.*cannot|outside",
        ),
        ("y ~ C(g, contr.treatment(base='zz'))", "columns of .* cannot be made"),
        ("y ~ C(g, Treatment(reference='a', base='b'))", "Treatment takes reference"),
        ("y ~ C(g, Treatment(open('f')))", "this argument is a number"),
        ("y ~ C(g, Helmert)", r"contr.treatment\('b'\)"),
        (
            "y ~ C(g, levels=['a', 'b'])",
            r"level 'c' in rows 2, 5, which the model does not know; it knows 'a', 'b'",
        ),
        ("y ~ C(g, levels=3)", "levels=3 of .* is a list"),
        ("y ~ C(g, levels=[])", "has the single level"),
        ("y ~ C(g, levels=['a', None])", "are NoneType values"),
        ("y ~ C(g, [[1, 0], [0, 1], [0, 0]])", r"contr.treatment\('b'\)"),
        ("y ~ t + C(t)", r"'C\(t\)' has the single level 5"),
        ("y ~ log(`my cool`)", "no column 'my cool'; did you mean 'my col'"),
        (3, "a formula is a text"),
    ],
)
def test_formulas_that_do_not_stand(formula, message):
    with pytest.raises(DataError, match=message):
        read_formula(formula, DATA)


def test_a_product_that_overflows_names_its_column():
    great = np.array(DATA["x"]) * 1e110
    with pytest.raises(DataError, match="the term 'x:big:t' is inf in row 0"):
        read_formula("y ~ x:big:t", changed(x=great, big=great, t=great))


def test_missing_values_name_columns_rows_and_remedy():
    data = changed(
        x=[0.5, None, 2.5, np.nan, 4.5, 5.5], g=["a", "b", None, "a", "b", "c"]
    )
    with pytest.raises(
        DataError,
        match=r"missing in 3 of 6 rows.*'x' 2 \(rows 1, 3\), 'g' 1 \(row 2\).*missing='drop'",
    ):
        read_formula("y ~ x + g", data)
    with pytest.raises(DataError, match=r"'y' 1 \(row 4\)"):
        read_formula("y ~ x", changed(y=[1, 2, 3, 4, None, 6]))
    with pytest.raises(DataError, match=r"'weights=' 1 \(row 0\)"):
        read_formula("y ~ x", DATA, weights=[np.nan, 1, 1, 1, 1, 1])
    with pytest.raises(DataError, match="missing='skip' is not known"):
        read_formula("y ~ x", DATA, missing="skip")
    with pytest.raises(DataError, match="would leave none"):
        read_formula("y ~ x", changed(x=[None] * 6), missing="drop")


def test_row_labels_are_those_of_the_index():
    frame = pd.DataFrame(
        {"y": [1.0, 2.0], "x": [1.0, np.inf]}, index=["first", "second"]
    )
    with pytest.raises(DataError, match="column 'x' is inf in row second"):
        read_formula("y ~ x", frame)
    with pytest.raises(DataError, match="column 'x' is inf in row second"):
        read_formula("y ~ x", frame, missing="drop")


def test_dropping_a_whole_level_leaves_one_level():
    data = {"y": [1.0, 2.0, None], "g": ["a", "a", "b"]}
    with pytest.raises(DataError, match="'g' has the single level 'a'"):
        read_formula("y ~ g", data, missing="drop")


def test_the_value_that_made_a_column_of_numbers_text_is_named():
    texts = pd.Series([f"{v}.5" for v in range(40)], dtype=object)
    texts[9] = "n/a"
    y = pd.Series(np.arange(40.0))
    y[2] = np.nan
    with pytest.raises(
        DataError,
        match="1 of its 39 values cannot be read as numbers, first 'n/a' in row 9",
    ):
        read_formula("y ~ x", pd.DataFrame({"y": y, "x": texts}), missing="drop")
    with pytest.raises(DataError, match="numeric; row 9 holds 'n/a'"):
        pr.Model.from_formula("x ~ y", {"x": texts, "y": np.arange(40.0)})


def test_text_that_differs_in_every_row():
    data = {"y": np.arange(30.0), "x": [f"{v}.5" for v in range(30)]}
    with pytest.raises(
        DataError,
        match=r"column 'x' is text with \d+ different values.*did you mean numbers",
    ):
        read_formula("y ~ x", data)


def test_text_of_numbers_that_mostly_differ():
    x = np.array([f"{v}.5" for v in range(30)])
    half, third = np.tile(x, 2), np.tile(x, 3)
    with pytest.raises(DataError, match=r"30 different values in 60 rows.*C\(x\)"):
        read_formula("y ~ x", {"y": np.arange(60.0), "x": half})
    for formula, column in (("y ~ C(x)", half), ("y ~ x", third)):
        data = {"y": np.arange(float(len(column))), "x": column}
        assert len(read_formula(formula, data).recipe.columns) == 30


def test_a_column_that_names_the_rows_is_refused_with_its_remedy():
    data = {
        "y": np.arange(30.0),
        "x": np.sqrt(np.arange(30.0)),
        "row id": [f"r{v}" for v in range(30)],
    }
    with pytest.raises(
        DataError, match=r"names the rows, leave it out, as in '\. - `row id`'"
    ):
        read_formula("y ~ .", data)
    assert read_formula("y ~ . - `row id`", data).recipe.columns == ("Intercept", "x")


def test_mixed_values_are_no_predictor():
    with pytest.raises(DataError, match="column 'x' holds values of kind int, str"):
        read_formula("y ~ x", changed(x=[1, "a", 2, 3, 4, 5]))
    with pytest.raises(DataError, match="column 'x' holds times"):
        read_formula(
            "y ~ x", changed(x=[datetime.date(2020, 1, d) for d in range(1, 7)])
        )


@pytest.mark.parametrize(
    "day", ["2024-01-{:02}", "2024/1/{}", "{}.1.2024", "2024-01-{:02}T09:30:00.5+01:00"]
)
def test_dates_as_text_are_no_categories_unless_asked_for(day):
    data = changed(x=[day.format(number) for number in (1, 1, 2, 2, 3, 3)])
    with pytest.raises(DataError, match=r"'x'.*dates.*C\(x\)"):
        read_formula("y ~ x", data)
    assert len(read_formula("y ~ C(x)", data).recipe.columns) == 3
    with pytest.raises(DataError, match="dates"):
        read_formula("y ~ s:x", data)
    words = data | {
        "x": ["1-2-2024 a", "1.2.3", "2024-01", "12/13", "1.2.3", "2024-01"]
    }
    assert len(read_formula("y ~ x", words).recipe.columns) == 4


@pytest.mark.parametrize(
    ("weights", "message"),
    [
        ([1, 1, -2, 1, 1, 1], "row 2 is -2"),
        ([1, 1, np.inf, 1, 1, 1], "'weights=' is inf in row 2"),
        ([0, 0, 0, 0, 0, 0], "sum to zero"),
        (
            [1, 1],
            r"weights= is one number per row of the data, shape \(6,\); got shape \(2,\)",
        ),
        (["a"] * 6, "weights= must be numeric; row 0 holds 'a'"),
        ("weight", "no column 'weight'"),
        ("g", "weights 'g' are not numbers"),
        ("zero", "the weights 'zero' sum to zero"),
    ],
)
def test_weights(weights, message):
    with pytest.raises(DataError, match=message):
        read_formula("y ~ x", changed(zero=np.zeros(6)), weights=weights)


@pytest.mark.parametrize(
    ("offset", "message"),
    [
        ("log(s)", r"'log\(s\)' is -inf in row 0, where s = 0"),
        ("log(exposure)", "no column 'exposure'"),
        ("open('f')", "not allowed"),
        ([1.0], "offset= is one number per row"),
        ("g", "holds text"),
    ],
)
def test_offsets(offset, message):
    with pytest.raises(DataError, match=message):
        read_formula("y ~ x", DATA, offset=offset)


@pytest.mark.parametrize(
    ("change", "message"),
    [
        ({"s": [6, 0, 0, 0, 0, 0]}, "row 0 has 6 successes in 5 trials"),
        ({"s": [0, 0.5, 0, 0, 0, 0]}, "row 1 has 0.5 successes in 5 trials"),
        ({"s": [0, 0, -1, 0, 0, 0]}, "row 2 has -1 successes in 5 trials"),
    ],
)
def test_trials(change, message):
    with pytest.raises(DataError, match=message):
        read_formula("p(s, t) ~ x", changed(**change))


@pytest.mark.parametrize(
    ("change", "message"),
    [
        (
            {"s": [0, 0.5, 0, 0, 0, 0]},
            r"'counts\(s, t\)' holds 0.5 in row 1 \(1 such row\)",
        ),
        ({"s": [0, 0, -1, 0, 0, 0]}, "holds -1 in row 2"),
    ],
)
def test_counts(change, message):
    with pytest.raises(DataError, match=message):
        read_formula("counts(s, t) ~ x", changed(**change))


def test_a_file_with_another_separator_has_one_column() -> None:
    with pytest.raises(DataError, match=r"no column 'y'.*x;y.*';'"):
        pr.Model.from_formula("y ~ x", {"x;y": [1.0, 2.0]})


def test_new_rows_that_do_not_fit():
    recipe = read_formula("y ~ x + g + bs(`my col`, df=4)", DATA).recipe
    new = {"x": [1.0, 2.0], "g": ["a", "b"], "my col": [2.0, 3.0]}
    assert recipe.matrix(new).shape == (2, 8)
    cases = [
        (
            {"g": ["a", "z"]},
            r"'g' has the level 'z' in row 1, .*; it knows 'a', 'b', 'c'",
        ),
        (
            {"g": [1.0, 2.0]},
            "'g' has the levels 1, 2 in rows 0, 1, which the model does not know; it knows 'a'",
        ),
        (
            {"x": ["1", "2"]},
            "column 'x' held numbers when the model was fitted and holds text now",
        ),
        ({"x": [1.0, None]}, "column 'x' is missing a value in row 1"),
        ({"g": [None, "a"]}, "column 'g' is missing a value in row 0"),
        ({"x": [1.0, np.inf]}, "column 'x' is inf in row 1"),
        (
            {"my col": [0.5, 14.0]},
            r"spline 'bs\(`my col`, df=4\)' is defined on \[1, 13\].*row 0: 0.5, row 1: 14.*extrapol",
        ),
    ]
    for change, message in cases:
        with pytest.raises(DataError, match=message):
            recipe.matrix(new | change)
    with pytest.raises(DataError, match=r"no column 'g'\. They have: x, my col"):
        recipe.matrix({"x": [1.0], "my col": [2.0]})
    with pytest.raises(DataError, match="no rows"):
        recipe.matrix({name: [] for name in new})


LETTERS = "+".join("abcdefghijklmnopq")


@pytest.mark.parametrize(
    ("term", "message"),
    [
        (
            "bs(x, df=10000000)",
            "asks for df=10000000; bs has at most 1000 columns",
        ),
        ("bs(x, 10000000)", "asks for df=10000000; bs"),
        ("bs(x, None, None, 1e9)", "degree is one whole number"),
        ("cr(x, df=1001)", "asks for df=1001; cr has at most 1000"),
        ("poly(x, 1000000)", "asks for degree=1000000; poly has at most 1000"),
        (
            f"bs(x, knots=[{','.join('1' * 1001)}])",
            "asks for knots=1001; bs has at most 1000",
        ),
        (
            f"({LETTERS})**5",
            "50.. products .*5000",
        ),
        (
            f"(({LETTERS})**3)**3",
            r"5\d\d\d products .*5000",
        ),
        (
            LETTERS.replace("+", "*"),
            "5001 products .*5000",
        ),
        (
            "bs(x, df=900)*bs(t, df=900)",
            r"up to 811800 columns .*for 810000\); at most 20000",
        ),
        (
            "+".join(f"x{i}" for i in range(20001)),
            "20001 terms .*20000",
        ),
        (
            f"{'(' * 5000}x{')' * 5000}",
            "brackets more than 50 deep",
        ),
        (
            f"log({'(' * 5000}x{')' * 5000})",
            "brackets more than 50 deep",
        ),
        (f"I(x{' + x' * 5000})", r"nests operations 500\d deep; at most 150"),
        (f"I({'-' * 5000}x)", "nests operations|Parser stack overflowed|recursion"),
    ],
)
def test_what_would_never_end_is_refused_before_it_begins(term, message, monkeypatch):
    monkeypatch.setattr("probreg.data.formula.layout._multiply_columns", pytest.fail)
    numbers = {
        name: np.arange(6.0) ** 0.5
        for name in [*"abcdefghijklmnopq", *(f"x{i}" for i in range(3))]
    }
    with pytest.raises(DataError, match=message) as refusal:
        read_formula(f"y ~ {term}", {**numbers, **DATA, "t": [1.0, 2, 3, 4, 5, 6]})
    assert len(str(refusal.value)) < 900


SPLINE = pr.Model.from_formula(
    "y ~ bs(x, df=4) + s:x + C(g, contr.treatment(base='c')) + `my col`", DATA
)


@pytest.mark.parametrize(
    ("key", "columns"),
    [
        ("bs(x,df=4)", [f"bs(x, df=4)[{i}]" for i in range(1, 5)]),
        (" bs( x , df = 4 ) ", [f"bs(x, df=4)[{i}]" for i in range(1, 5)]),
        ("bs(x,df=4)[2]", ["bs(x, df=4)[2]"]),
        ("s : x", ["s:x"]),
        (
            'C(g,contr.treatment(base="c"))',
            [f"C(g, contr.treatment(base='c'))[T.{level}]" for level in "ab"],
        ),
        ("my col", ["my col"]),
    ],
)
def test_the_key_of_a_prior_is_a_term_whatever_its_spaces(key, columns):
    model = SPLINE.with_prior({key: pr.Normal(1.0)})
    assert [
        c
        for c, set_ in zip(model.design.columns, model.joint.informative, strict=True)
        if set_
    ] == columns


@pytest.mark.parametrize("key", ["bs(x,df=5)", "mycol", "my  col", "s:g", "bs(xdf=4)"])
def test_another_term_is_no_key(key):
    with pytest.raises(DataError, match="which is not a column"):
        SPLINE.with_prior({key: pr.Normal(1.0)})


def test_numbers_among_which_a_cell_is_text_are_told_where_they_became_categories():
    y, w = np.arange(40.0) % 7, [str(v) for v in np.arange(40) % 5]
    w[7] = "?"
    table = {"y": y, "w": w, "g": np.resize(["a", "b", "1"], 40)}
    said = "column 'w' is text and is read as categories, although all of its 6 values but '?' are numbers"
    model = pr.Model.from_formula("y ~ w + g", table)
    assert model.design.notes == (said,)
    assert f"note: {said[:90]}" in repr(pr.fit(model))
    assert said in [f.sentence for f in pr.check(model)]
    assert pr.Model.from_formula("y ~ C(w)", table).design.notes == ()


def test_a_tilde_in_the_name_of_the_response_ends_no_side():
    rows = {"a~b": [1.0, 0.0, 1.0, 1.0, 0.0, 2.0], "x": [0.0, 1.0, 3.0, 2.0, 5.0, 4.0]}
    plain = {"y": rows["a~b"], "x": rows["x"]}
    fits = [
        pr.fit(pr.Model.from_formula({"y": f"{y} ~ x", "log sigma": "~ x"}, data))
        for y, data in (("`a~b`", rows), ("y", plain))
    ]
    assert (fits[0].coef.values == fits[1].coef.values).all()
    rows["a~b"] = [str(value > 0) for value in rows["a~b"]]
    fit = pr.linear_probability("`a~b` ~ x", rows)
    slope = np.polyfit(rows["x"], np.array(rows["a~b"]) == "True", 1)[0]
    assert fit.coef.sel(coef="x") == pytest.approx(slope)


@pytest.mark.parametrize("word", ["class", "from", "lambda", "pass", "global"])
def test_words_of_python_are_names_of_columns(word: str) -> None:
    x = [1.0, 2.0, 4.0, 3.0, 5.0, 1.5]
    y = [1.0, 2.0, 4.0, 3.0, 7.0, 5.0]
    for term in ("log(a)", "C(a)", "poly(a, 2)", "I(a**2)", "offset(log(a)) + b"):
        named, plain = (
            pr.Model.from_formula(
                f"log(y) ~ {term.replace('a', name, 1) if term[0] != 'o' else term.replace('(a)', f'({name})')}",
                {name: x, "y": y, "b": y[::-1]},
            )
            for name in (word, "a")
        )
        assert np.array_equal(named.design.X, plain.design.X)


def test_a_dot_leaves_out_row_names_of_r() -> None:
    table = {"Unnamed: 0": [1, 2, 3, 4], "y": [1.0, 3.0, 2.0, 5.0], "x": [0, 1, 2, 3]}
    model = pr.Model.from_formula("y ~ .", table)
    assert model.design.columns == ("Intercept", "x")
    assert "Unnamed: 0" in model.design.notes[0]


@pytest.mark.parametrize("function", ["C", "factor", "as.factor"])
def test_a_response_needs_no_coding(function: str) -> None:
    table = {"g": ["no", "yes"] * 3, "x": [1.0, 2.0, 4.0, 3.0, 5.0, 1.5]}
    with pytest.raises(pr.DataError, match=r"of a response: write g$"):
        pr.logistic(f"{function}(g) ~ x", table)
