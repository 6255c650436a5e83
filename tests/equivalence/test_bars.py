"""Bars of formulas by a second route: the columns as products of indicators, new rows, tables of every kind, saved recipes."""

import json

import numpy as np
import pandas as pd
import polars as pl
import pyarrow as pa
import pytest

import probreg as pr
from probreg.data.array_columns import recipe_from_json
from probreg.data.formula import formula as formulas
from probreg.data.formula.functions import columns_by_term
from probreg.data.formula.recipe import Recipe


def read_formula(formula, data, **options):
    """The design of a formula, without its response."""
    return formulas.read_formula(formula, data, **options).design


RNG = np.random.default_rng(16)
N = 48
DATA = {
    "y": RNG.normal(size=N),
    "x": RNG.normal(size=N),
    "f": RNG.permutation(np.repeat(["p", "q", "r"], N // 3)),
    "g": RNG.permutation(np.repeat(["a", "b", "c", "d"], N // 4)),
    "h": RNG.permutation(np.repeat(["u", "v"], N // 2)),
    "number": RNG.permutation(np.repeat([308, 309, 310, 1000], N // 4)),
    "my group": RNG.permutation(np.repeat(["a b", "c:d", "e]"], N // 3)),
    "w": RNG.integers(1, 4, N),
}


def dense(group, Z):
    """[1(g_i = level) z_i] level by level, from arrays."""
    levels = sorted(set(group))
    return np.hstack([(np.asarray(group) == level)[:, None] * Z for level in levels])


ONES = np.ones((N, 1))
X = DATA["x"][:, None]
BOTH = np.array([f"{a}:{b}" for a, b in zip(DATA["g"], DATA["h"])])
F = np.stack([DATA["f"] == level for level in "pqr"], 1).astype(float)


@pytest.mark.parametrize(
    ("bars", "expected", "effects"),
    [
        ("(1 | g)", dense(DATA["g"], ONES), ["Intercept"]),
        ("(x | g)", dense(DATA["g"], np.hstack([ONES, X])), ["Intercept", "x"]),
        ("(1+x || g)", dense(DATA["g"], np.hstack([ONES, X])), ["Intercept", "x"]),
        ("(0 + x | g)", dense(DATA["g"], X), ["x"]),
        ("(x - 1 | g)", dense(DATA["g"], X), ["x"]),
        ("(1 | g:h)", dense(BOTH, ONES), ["Intercept"]),
        (
            "(1 | g / h)",
            np.hstack([dense(DATA["g"], ONES), dense(BOTH, ONES)]),
            ["Intercept"],
        ),
        (
            "(1 | g) + (1 | h)",
            np.hstack([dense(DATA["g"], ONES), dense(DATA["h"], ONES)]),
            ["Intercept"],
        ),
        (
            "((1 | g) + (1 | h))",
            np.hstack([dense(DATA["g"], ONES), dense(DATA["h"], ONES)]),
            ["Intercept"],
        ),
        (
            "(f | g)",
            dense(DATA["g"], np.hstack([ONES, F[:, 1:]])),
            ["Intercept", "f[T.q]", "f[T.r]"],
        ),
        ("(0 + f | g)", dense(DATA["g"], F), ["f[p]", "f[q]", "f[r]"]),
        (
            "(f || g)",
            dense(DATA["g"], np.hstack([ONES, F[:, 1:]])),
            ["Intercept", "f[T.q]", "f[T.r]"],
        ),
        (
            "(0 + log(x**2) | number)",
            dense(DATA["number"], np.log(X**2)),
            ["log(x ** 2)"],
        ),
        ("(0 + center(x) | g)", dense(DATA["g"], X - X.mean()), ["center(x)"]),
        (
            "(0 + x:h | g)",
            dense(DATA["g"], X * (DATA["h"] == np.array([["u"], ["v"]])).T),
            ["x:h[u]", "x:h[v]"],
        ),
        ("(1 | `my group`)", dense(DATA["my group"], ONES), ["Intercept"]),
        ("({x} | g)", dense(DATA["g"], np.hstack([ONES, X])), ["Intercept", "x"]),
        (
            "((x + log(x**2))**2 | g)",
            dense(DATA["g"], np.hstack([ONES, X, np.log(X**2), X * np.log(X**2)])),
            ["Intercept", "x", "log(x ** 2)", "x:log(x ** 2)"],
        ),
        (
            "(0 + (x + log(x**2)):x | g)",
            dense(DATA["g"], np.hstack([X, X * np.log(X**2)])),
            ["x", "log(x ** 2):x"],
        ),
    ],
)
def test_columns_are_indicators_times_what_varies(bars, expected, effects):
    reading = read_formula(f"y ~ x + {bars}", DATA)
    np.testing.assert_allclose(reading.X[:, 2:], expected, atol=1e-12)
    assert reading.recipe.columns[:2] == ("Intercept", "x")
    for term in reading.recipe.grouped.values():
        assert list(term.effects) == effects
        codes, *Z = reading.inputs[term.key].T
        indicators = np.eye(len(term.levels))[codes.astype(int)]
        np.testing.assert_array_equal(
            np.einsum("ng,kn->ngk", indicators, Z).reshape(len(codes), -1),
            reading.X[:, _of(reading, term)],
        )


def _of(reading, term):
    return [reading.recipe.columns.index(c) for c in term.columns]


def test_bars_stand_beside_everything_else():
    formula = "y ~ f*x + s(x, k=5) + (poly(x, 2) | number) + gp(x, kernel='rbf', length=1.0) + (1 || g:h)"
    model = pr.Model.from_formula(formula, DATA, weights="w", offset="log(w)")
    assert list(model.design.recipe.grouped) == ["(poly(x, 2) | number)", "(1 || g:h)"]
    assert model.design.columns[-1] == "(1 || g:h)[d:v, Intercept]"
    found = columns_by_term(model.design)
    assert [len(found[key]) for key in ("(poly(x, 2) | number)", "(1 || g:h)")] == [
        12,
        8,
    ]
    assert "(poly(x, 2) | number) (4 groups of 3 effects)" in repr(
        model
    ) or "more" in repr(model)


def test_a_dot_leaves_out_the_columns_of_groups():
    reading = read_formula("y ~ . + (x | g) + (1 | `my group`:h)", DATA)
    assert {name for name in reading.recipe.columns if "|" not in name} == {
        "Intercept", "x", "f[T.q]", "f[T.r]", "number", "w",
    }  # fmt: skip


def test_new_rows_keep_levels_and_number_new_groups():
    model = pr.Model.from_formula("y ~ x + (x | g) + (1 | h)", DATA)
    new = {
        "x": [1.0, 2.0, 3.0, 4.0],
        "g": ["zz", "b", "yy", "zz"],
        "h": ["u", "u", "w", "v"],
    }
    design = model.design.at(new)
    np.testing.assert_array_equal(
        design.inputs["(x | g)"], [[4, 1, 1], [1, 1, 2], [5, 1, 3], [4, 1, 4]]
    )
    np.testing.assert_array_equal(design.inputs["(1 | h)"][:, 0], [0, 0, 2, 1])
    columns = [
        design.columns.index(f"(x | g)[b, {effect}]") for effect in ("Intercept", "x")
    ]
    np.testing.assert_array_equal(
        design.X[:, columns], [[0, 0], [1, 2], [0, 0], [0, 0]]
    )
    assert not design.X[[0, 2, 3]][:, _named(design, "(x | g)")].any()
    term = design.recipe.grouped["(x | g)"]
    assert term.labels_of(design.inputs["(x | g)"]).tolist() == [
        "new 1",
        "b",
        "new 2",
        "new 1",
    ]


def _named(design, key):
    return [j for j, name in enumerate(design.columns) if name.startswith(key)]


def test_a_fixed_factor_still_refuses_new_levels():
    model = pr.Model.from_formula("y ~ g + (1 | g)", DATA)
    with pytest.raises(pr.DataError, match="'g' has the level 'zz' in row 0"):
        model.design.at({"g": ["zz"]})
    slopes = pr.Model.from_formula("y ~ 1 + (f | g)", DATA)
    with pytest.raises(pr.DataError, match="'f' has the level 'zz' in row 0"):
        slopes.design.at({"g": ["new"], "f": ["zz"]})


@pytest.mark.parametrize(
    "formula",
    ["y ~ center(x) + (center(x) | g) + (1 | g:h)", "y ~ 0 + (0 + f || number)"],
)
def test_a_recipe_comes_back_from_json(formula):
    recipe = read_formula(formula, DATA).recipe
    text = json.dumps(recipe.to_json(), sort_keys=True)
    back = recipe_from_json(json.loads(text))
    assert isinstance(back, Recipe)
    assert back.columns == recipe.columns
    assert back.grouped == recipe.grouped
    new = {k: v[:5] for k, v in DATA.items()} | {"g": ["a", "new", "b", "c", "new"]}
    np.testing.assert_array_equal(back.matrix(new), recipe.matrix(new))
    for key, x in recipe.read(new)[1].items():
        np.testing.assert_array_equal(back.read(new)[1][key], x)


@pytest.mark.parametrize(
    "table",
    [
        pd.DataFrame,
        pl.DataFrame,
        pa.table,
        lambda d: pd.DataFrame(d).astype({"g": "category"}),
    ],
)
def test_every_kind_of_table_says_the_same(table):
    formula = "y ~ x + (x | g) + (1 | number:`my group`)"
    plain, other = read_formula(formula, DATA), read_formula(formula, table(DATA))
    assert other.recipe.columns == plain.recipe.columns
    np.testing.assert_allclose(other.X, plain.X, atol=1e-12)
    for key, x in plain.inputs.items():
        np.testing.assert_allclose(other.inputs[key], x, atol=1e-12)


def test_declared_orders_and_levels_without_rows():
    declared = pd.Categorical(DATA["g"], categories=["d", "never", "c", "b", "a"])
    reading = read_formula("y ~ (1 | g)", DATA | {"g": declared})
    assert reading.recipe.grouped["(1 | g)"].levels == ("d", "c", "b", "a")
    assert any("levels without rows, left out: never" in note for note in reading.notes)
    assert reading.recipe.read({"g": ["never", "a"]})[1]["(1 | g)"][:, 0].tolist() == [
        4,
        3,
    ]


def test_numbers_are_groups_however_a_table_stores_them():
    recipe = read_formula("y ~ (1 | number)", DATA).recipe
    assert recipe.grouped["(1 | number)"].levels == ("308", "309", "310", "1000")
    for stored in (
        [308.0, 1000.0],
        ["308", "1000"],
        np.array([308, 1000], dtype=np.uint16),
    ):
        assert recipe.read({"number": stored})[1]["(1 | number)"][:, 0].tolist() == [
            0,
            3,
        ]
    decimals = read_formula(
        "y ~ (1 | dose)", DATA | {"dose": np.tile([0.5, 1.5, 2.0], N // 3)}
    ).recipe
    assert decimals.grouped["(1 | dose)"].levels == ("0.5", "1.5", "2")


def test_colons_in_levels_do_not_join_groups():
    clash = DATA | {
        "a": np.tile(["p:q", "p"], N // 2),
        "b": np.tile(["r", "q:r"], N // 2),
    }
    term = read_formula("y ~ (1 | a:b)", clash).recipe.grouped["(1 | a:b)"]
    assert term.levels == (r"p:q\:r", r"p\:q:r")


@pytest.mark.parametrize("key", ["x | g", "(x | g)", "x|g", "( 1+x |g )", "1 + x | g"])
def test_a_prior_is_given_by_the_term_however_it_is_spelled(key):
    prior = pr.priors.Covariance(sd=pr.HalfNormal(2.0), cor=0.0)
    model = pr.Model.from_formula("y ~ x + (x | g) + (1 | h)", DATA, prior={key: prior})
    found = {len(b.columns): b.prior.hyper for b in model.joint.blocks[1:]}
    assert {name: h.prior for name, h in found[8].items()} == dict.fromkeys(
        ("sd[Intercept]", "sd[x]"), pr.HalfNormal(2.0)
    )
    assert pr.HalfNormal(2.0) not in [h.prior for h in found[2].values()]


def test_rows_are_taken_with_their_groups():
    design = pr.Model.from_formula("y ~ x + (x | g)", DATA).design
    some = design.take(np.array([5, 2, 2]))
    np.testing.assert_array_equal(
        some.inputs["(x | g)"], design.inputs["(x | g)"][[5, 2, 2]]
    )
    np.testing.assert_array_equal(some.X, design.X[[5, 2, 2]])


def test_rows_of_weight_zero_leave_the_groups_of_others():
    w = np.ones(N)
    w[[0, 7]] = 0.0
    design = pr.Model.from_formula("y ~ x + (x | g)", DATA, weights=w).design
    plain = pr.Model.from_formula("y ~ x + (x | g)", DATA).design
    assert design.absent.places.tolist() == [0, 7]
    np.testing.assert_array_equal(
        design.inputs["(x | g)"], plain.inputs["(x | g)"][w > 0]
    )


def test_a_model_at_new_rows_has_their_groups():
    model = pr.Model.from_formula("y ~ x + (x | g)", DATA)
    new = {"x": [1.0, 2.0], "g": ["a", "d"], "y": [0.5, 1.5]}
    for at in (model.at(new), model.at({"x": new["x"], "g": new["g"]}, [0.5, 1.5])):
        assert at.design.inputs["(x | g)"][:, 0].tolist() == [0, 3]
        assert at.design.observed.tolist() == [0.5, 1.5]
