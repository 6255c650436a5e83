"""Whatever a column is called, a formula reads the column: the numbers are those of arrays, which have no names to misread."""

import itertools

import numpy as np
import pandas as pd
import pytest
from formulaic import Formula

import probreg as pr
from probreg.data.formula import formula as formulas
from probreg.data.formula.functions import columns_by_term
from probreg.errors import DataError
from probreg.formula.terms import parse_formula
from probreg.formula.text import quote_name, unquote_name


def read_formula(formula, data, **options):
    """The design of a formula, without its response."""
    return formulas.read_formula(formula, data, **options).design


N = 12
RNG = np.random.default_rng(8)
A, B = RNG.normal(size=(2, N))
Y = 1.0 + A - 2.0 * B + RNG.normal(size=N)

# numbers, operators, functions, keywords, quotes, escapes, and letters that Python or a reader takes for others
# fmt: off
NAMES = [
    *("0", "1", "", "-1", "1.5", "1e5", "00", "１", "²", "x1\n", " ", "\t"),
    *("a b", "a:b", "x**2", "a+b", "a - 1", ".", "..", "a.b", "~", "+", "-", "*", "/", "^", "|", "(", ")", "%in%", "in"),
    *("y ~ x", "C(x)", "log(x)", "{x}", "x[T.b]", "g[T.a]:x", "p(s, t)", "(1 | g)", "#", ",", "$x", "@", ";"),
    *("log", "I", "center", "p", "C", "np", "contr", "poly", "bs", "contr.sum", "np.log"),
    *("None", "True", "lambda", "if", "for", "__class__", "_x", "_column", "qcolumn0_", "Sepal.Length"),
    *("a`b", "``", "`", "a\\b", "\\", "\\`", "`\\", "\\\\", "'", '"', "'a", "\"b'"),
    *("ﬁ", "ａ", "ª", "é", "e\u0301", "β", "ﬀ", "\ue000", "\ue0000\ue000", "x\u200b", "𝐱"),
]
# fmt: on


def reading(formula, name):
    return read_formula(formula, pd.DataFrame({name: A, "other": B, "y": Y}))


@pytest.mark.parametrize("name", NAMES)
def test_a_name_is_a_column_by_the_dot_between_quotes_and_in_a_call(name):
    want = np.column_stack([np.ones(N), A, B])
    mark = quote_name(name)
    assert unquote_name(mark[1:-1]) == name
    # the dot has only columns with a name
    for formula in (
        *["y ~ ."][: bool(name)],
        f"y ~ {mark} + other",
        f"{quote_name('y')} ~ ({mark}) + other - 0",
    ):
        found = reading(formula, name)
        assert found.recipe.columns == ("Intercept", name, "other")
        np.testing.assert_array_equal(found.X, want)
        again = found.recipe.from_json(found.recipe.to_json())
        np.testing.assert_array_equal(again.matrix({"other": B, name: A}), want)
    exp = reading(
        f"y ~ 0 + exp({mark}) + {mark}:other + {{{mark} + 0}} + center({mark})", name
    )
    wanted = np.column_stack([np.exp(A), A, A - A.mean(), A * B])
    np.testing.assert_allclose(exp.X, wanted, rtol=1e-15, atol=1e-15)
    table = pd.DataFrame({name: A, "other": B, "y": Y})
    response = formulas.read_formula(f"{mark} ~ y", table).response
    np.testing.assert_array_equal(response, A)
    offset = read_formula(
        "y ~ other", {name: A, "other": B, "y": Y}, offset=mark, weights=None
    )
    np.testing.assert_array_equal(offset.offset[:, 0], A)


@pytest.mark.parametrize("name", NAMES)
def test_a_name_is_a_column_of_levels(name):
    g = np.array([*"abcabcabcabc"], dtype=object)
    data = {name: g, "y": Y, "x": A}
    mark = quote_name(name)
    want = read_formula("y ~ g*x + C(g, contr.sum):x", {"g": g, "y": Y, "x": A})
    found = read_formula(f"y ~ {mark}*x + C({mark}, contr.sum):x", data)
    np.testing.assert_array_equal(found.X, want.X)
    assert found.recipe.columns[1:4] == (f"{name}[T.b]", f"{name}[T.c]", "x")
    model = pr.Model.from_formula(f"y ~ {mark}", data)
    assert columns_by_term(model.design) == {"Intercept": (0,), name: (1, 2)}


def test_every_name_at_once_is_every_column_of_the_arrays():
    names = [name for name in NAMES if name]
    X = np.random.default_rng(2).normal(size=(2 * len(names), len(names)))
    y = X.sum(1) + np.random.default_rng(3).normal(size=len(X))
    by_arrays = pr.fit(pr.Model.from_arrays(X, y))
    for table in (
        pd.DataFrame(X, columns=names).assign(y=y),
        dict(zip([*names, "y"], [*X.T, y], strict=True)),
    ):
        by_dot = pr.fit(pr.Model.from_formula("y ~ .", table))
        by_name = pr.fit(
            pr.Model.from_formula("y ~ " + " + ".join(map(quote_name, names)), table)
        )
        for fit in (by_dot, by_name):
            assert list(fit.coef.coords["coef"].values) == ["Intercept", *names]
            np.testing.assert_array_equal(fit.coef.values, by_arrays.coef.values)
            np.testing.assert_array_equal(
                fit.predict(table)["mean"], by_arrays.predict(X)["mean"]
            )


def test_numbered_columns_of_a_frame():
    frame = pd.DataFrame(np.column_stack([A, B, A * B])).assign(y=Y)
    want = pr.fit(pr.Model.from_arrays(frame[[0, 1, 2]].to_numpy(), Y)).coef.values
    for formula in ("y ~ .", "y ~ `0` + `1` + `2`"):
        np.testing.assert_array_equal(
            pr.fit(pr.Model.from_formula(formula, frame)).coef.values, want
        )
    assert pr.Model.from_formula("y ~ `2`*`1`", frame).design.columns == (
        "Intercept",
        "2",
        "1",
        "2:1",
    )


def test_names_in_files(tmp_path):
    pa = pytest.importorskip("pyarrow")
    from pyarrow import parquet

    columns = {name: RNG.normal(size=2 * len(NAMES)) for name in [*NAMES, "y"]}
    parquet.write_table(pa.table(columns), tmp_path / "rows.parquet")
    there = pr.Model.from_parquet("y ~ .", tmp_path / "rows.parquet")
    here = pr.Model.from_formula("y ~ .", columns)
    assert there.design.columns == here.design.columns
    np.testing.assert_allclose(
        pr.fit(there).coef.values, pr.fit(here).coef.values, rtol=1e-9
    )  # sums by the block


def test_the_name_of_the_column_of_ones_is_taken():
    factor = ["a", "b", "c"] * 4
    for column in (A, factor):
        with pytest.raises(DataError, match="'Intercept', which is the name of"):
            read_formula("y ~ .", {"Intercept": column, "y": Y})
    with pytest.raises(
        DataError,
        match=r"column 'Intercept' holds .* in row 0: a column of that name is all ones",
    ):
        pr.Model.from_formula("y ~ 0 + Intercept", {"Intercept": A, "y": Y})


def test_levels_that_look_like_names_stay_levels():
    mark = "\ue000"
    g = np.array([f"{mark}0{mark}", mark, "x", f"{mark}1{mark}"] * 3, dtype=object)
    found = read_formula("y ~ g:x", {"g": g, "x": A, "y": Y})
    assert found.recipe.columns[1:] == tuple(
        f"g[{level}]:x" for level in sorted(set(g))
    )


def test_an_interaction_and_a_column_of_its_name_are_told_apart():
    data = {"a": A, "b": B, "a:b": Y, "y": Y}
    np.testing.assert_array_equal(read_formula("y ~ 0 + `a:b` + a", data).X[:, 0], Y)
    np.testing.assert_array_equal(read_formula("y ~ 0 + a:b", data).X[:, 0], A * B)
    with pytest.raises(DataError, match="more than one column called 'a:b'"):
        read_formula("y ~ a:b + `a:b`", data)


def _random_formula(rng, depth=0):
    """A sum of products of names and brackets; numbers stand outside brackets."""
    parts = []
    for _ in range(rng.integers(1, 4)):
        product = []
        for _ in range(rng.integers(1, 4)):
            inner = depth < 2 and rng.random() < 0.25
            atom = (
                f"({_random_formula(rng, depth + 1)})"
                if inner
                else rng.choice([*"abcd"])
            )
            product.append(
                atom
                + (f"**{rng.integers(1, 4)}" if inner and rng.random() < 0.4 else "")
            )
        sign = itertools.chain.from_iterable(
            (str(rng.choice(["*", ":", "/"])), a) for a in product[1:]
        )
        parts.append(product[0] + "".join(sign))
    if depth == 0 and rng.random() < 0.3:
        parts.append(str(rng.choice(["0", "1"])))
    return "".join(
        part
        if k == 0
        else f" {rng.choice(['+', '-'], p=[0.7, 0.3]) if depth == 0 else '+'} {part}"
        for k, part in enumerate(parts)
    )


def test_terms_are_those_of_another_reader_of_the_same_algebra():
    rng, read = np.random.default_rng(5), 0
    for _ in range(100):
        text = f"y ~ {_random_formula(rng)}"
        try:
            parts = parse_formula(text)
        except DataError:  # of terms that cancel, or of too many
            continue
        read += 1
        theirs = [tuple(f.expr for f in term.factors) for term in Formula(text).rhs]
        assert [*([("1",)] if parts.intercept else []), *parts.terms] == theirs, text
    assert read > 90
