"""Varying effects of arrays are those of a formula: the same columns, inputs, fits, new rows and files."""

import json
from functools import partial

import numpy as np
import pandas as pd
import polars as pl
import pyarrow as pa
import pytest

import probreg as pr
from probreg.data.formula.variables import terms, variables
from probreg.data.saved_recipe import recipe_from_json

RNG = np.random.default_rng(3)
N = 60
X = RNG.normal(size=(N, 2))
Y = RNG.normal(size=N)
SUBJECT = np.repeat([308, 309, 310, 1000], N // 4)
SITE = RNG.choice(["u", "v", "w"], N)
# effects that are there, so that no standard deviation runs to zero
Y += (
    2.0 * (SITE == "u")
    - 3.0 * (SITE == "v")
    + X[:, 1] ** 2 * (SUBJECT - 309.0).clip(-2, 3)
)
TABLE = {
    "y": Y,
    "x1": X[:, 0],
    "x2": X[:, 1],
    "z": X[:, 1] ** 2,
    "subject": SUBJECT,
    "site": SITE,
}
CASES = {
    "y ~ x1 + x2 + (1 | subject)": [pr.Grouped(SUBJECT, name="subject")],
    "y ~ x1 + x2 + (x1 | subject)": [
        pr.Grouped(SUBJECT, X[:, 0], name="subject", effects=["x1"])
    ],
    "y ~ x1 + x2 + (x1 + z || subject)": [
        pr.Grouped(
            SUBJECT, {"x1": X[:, 0], "z": TABLE["z"]}, name="subject", correlated=False
        )
    ],
    "y ~ x1 + x2 + (0 + z | subject) + (1 | site)": [
        pr.Grouped(
            SUBJECT, pd.DataFrame({"z": TABLE["z"]}), name="subject", intercept=False
        ),
        pr.Grouped(SITE, name="site"),
    ],
}
NAMED = partial(pd.DataFrame, columns=["a", "b"])
BOTH = [pytest.param(formula, groups, id=formula) for formula, groups in CASES.items()]


def models(formula, groups, **more):
    return pr.Model.from_formula(formula, TABLE, **more), pr.Model.from_arrays(
        X, Y, groups=groups, **more
    )


@pytest.mark.parametrize(("formula", "groups"), BOTH)
def test_arrays_make_the_model_of_the_formula(formula, groups):
    a, b = (m.design for m in models(formula, groups))
    assert a.columns == b.columns
    assert a.shown_columns == b.shown_columns
    np.testing.assert_array_equal(a.X, b.X)
    assert a.recipe.grouped == b.recipe.grouped
    assert terms(a) == terms(b)
    for key, x in a.inputs.items():
        np.testing.assert_array_equal(x, b.inputs[key])
    new = {name: TABLE[name][:3] for name in ("x1", "x2", "z", "site")} | {
        "subject": [5, 1000, 5]
    }
    np.testing.assert_array_equal(a.at(new).X, b.at(new).X)
    for key, x in a.at(new).inputs.items():
        np.testing.assert_array_equal(x, b.at(new).inputs[key])


@pytest.mark.parametrize(("formula", "groups"), BOTH)
def test_the_recipe_of_arrays_comes_back_from_json(formula, groups):
    recipe = models(formula, groups)[1].design.recipe
    back = recipe_from_json(json.loads(json.dumps(recipe.to_json())))
    assert back.columns == recipe.columns
    assert back.variables == recipe.variables
    np.testing.assert_array_equal(back.matrix(TABLE), recipe.matrix(TABLE))


def test_variables_are_read_back():
    design = models(*list(CASES.items())[3])[1].design
    found = variables(design)
    assert list(found) == ["x1", "x2", "z", "subject", "site"]
    np.testing.assert_array_equal(found["z"], TABLE["z"])
    assert found["subject"].tolist() == SUBJECT.tolist()


@pytest.mark.parametrize(
    "kind",
    [
        list,
        np.array,
        pd.Series,
        pl.Series,
        pa.array,
        lambda v: pd.Categorical(v),
        lambda v: pd.Series(v, name="other"),
    ],
)
def test_labels_come_in_every_kind_of_column(kind):
    for labels in (SUBJECT, SITE):
        plain = pr.Model.from_arrays(X, Y, groups=[pr.Grouped(labels)]).design
        other = pr.Model.from_arrays(
            X, Y, groups=pr.Grouped(kind(labels.tolist()))
        ).design
        assert plain.columns == other.columns
        np.testing.assert_array_equal(plain.X, other.X)


@pytest.mark.parametrize(
    "kind",
    [
        np.asarray,
        np.ndarray.tolist,
        NAMED,
        lambda z: pl.DataFrame(NAMED(z)),
        lambda z: pa.table(NAMED(z)),
        lambda z: dict(NAMED(z)),
    ],
)
def test_what_varies_comes_in_every_kind_of_matrix(kind):
    plain = pr.Model.from_arrays(
        X, Y, groups=[pr.Grouped(SITE, X, effects=["a", "b"])]
    ).design
    np.testing.assert_array_equal(
        pr.Model.from_arrays(
            X, Y, groups=[pr.Grouped(SITE, kind(X), effects=["a", "b"])]
        ).design.X,
        plain.X,
    )
    unnamed = pr.Model.from_arrays(X, Y, groups=[pr.Grouped(SITE, X)]).design
    assert unnamed.recipe.grouped["(z1 + z2 | g)"].effects == ("Intercept", "z1", "z2")


def test_rows_of_weight_zero_and_new_rows_with_a_response():
    w = np.ones(N)
    w[[0, 9]] = 0.0
    a, b = models(*list(CASES.items())[1], weights=w)
    np.testing.assert_array_equal(
        a.design.inputs["(x1 | subject)"], b.design.inputs["(x1 | subject)"]
    )
    np.testing.assert_array_equal(a.design.whole.X, b.design.whole.X)
    new = {name: values[:4] for name, values in TABLE.items()}
    np.testing.assert_array_equal(
        a.at(new, weights=np.ones(4)).design.X,
        b.at(new, Y[:4], weights=np.ones(4)).design.X,
    )


@pytest.mark.parametrize("rows", [True, False])
def test_fits_of_both_are_one_and_come_back_from_files(rows, tmp_path):
    formula, groups = list(CASES.items())[3]
    fits = [
        pr.fit(m.with_prior(pr.Normal(1.0)).with_aux(sigma=1.0), "evidence")
        for m in models(formula, groups)
    ]
    np.testing.assert_allclose(
        fits[0].coef.values, fits[1].coef.values, rtol=1e-6, atol=1e-8
    )
    new = {name: TABLE[name][:3] for name in ("x1", "x2", "z", "site")} | {
        "subject": [5, 1000, 5]
    }
    for fit in fits:
        fit.save(tmp_path / "fit.json", rows=rows)
        back = pr.load_fit(tmp_path / "fit.json")
        assert back.model.design.recipe.grouped == fit.model.design.recipe.grouped
        np.testing.assert_array_equal(
            back.model.design.at(new).X, fit.model.design.at(new).X
        )
        if rows:
            for key, x in fit.model.design.inputs.items():
                np.testing.assert_array_equal(back.model.design.inputs[key], x)


@pytest.mark.parametrize(
    ("groups", "message"),
    [
        (
            [SITE],
            r"groups is a list of pr.Grouped, got list; write groups=\[pr.Grouped\(labels\)\]",
        ),
        ("g", "groups is a list of pr.Grouped, got str"),
        (lambda: pr.Grouped(SITE[:5]), "X has 60 rows and column 'g' .* has 5"),
        (
            lambda: pr.Grouped(SITE, X[:5]),
            "X has 60 rows and column 'z1' .* has 5",
        ),
        (lambda: pr.Grouped(["a"] * N), r"\(1 \| g\) has the single group 'a'"),
        (lambda: pr.Grouped([None, *SITE[1:]]), r"'g' 1 \(row 0\)"),
        (
            lambda: pr.Grouped(Y),
            "column 'g' holds a different number in each of its 60 rows",
        ),
        (lambda: pr.Grouped(SITE, name="x1"), "two columns are called 'x1'.* in row 0"),
        (lambda: pr.Grouped(SITE, name=""), "Grouped name is empty"),
        (lambda: pr.Grouped(SITE, name=3), "Grouped name is .*3"),
        (
            lambda: pr.Grouped(SITE, intercept=2),
            "Grouped intercept is True or False.*2",
        ),
        (lambda: pr.Grouped(SITE, intercept=False), "Grouped 'g' has no effects"),
        (lambda: pr.Grouped(SITE, effects=["a"]), "names the effects a and has no Z"),
        (lambda: pr.Grouped(SITE, X, effects=["a"]), "expected 1 columns"),
        (lambda: pr.Grouped(SITE, X, effects=["x1", "Intercept"]), "'Intercept'"),
        (
            lambda: pr.Grouped(SITE, X, effects=["x2", "x1"]),
            "two columns are called 'x2'.* in row 0",
        ),
        (
            lambda: [pr.Grouped(SITE), pr.Grouped(SITE)],
            r"\(1 \| g\) stands twice",
        ),
        (
            lambda: [pr.Grouped(SITE), pr.Grouped(SUBJECT, X, intercept=False)],
            "two columns are called 'g', with .* and 308 in row 0",
        ),
        (lambda: pr.Grouped(SITE, np.full((N, 1), np.nan)), "holds nan in row 0"),
        (lambda: pr.Grouped(SITE, {"g": Y}), "two columns are called 'g'"),
    ],
)
def test_groups_that_cannot_be_used(groups, message):
    with pytest.raises(pr.DataError, match=message):
        pr.Model.from_arrays(X, Y, groups=groups() if callable(groups) else groups)


def test_a_predictor_may_be_called_like_the_response():
    a = pr.Model.from_arrays(NAMED(X), Y, groups=[pr.Grouped(SITE)])
    X_y = pd.DataFrame(X, columns=["a", "y"])
    b = pr.Model.from_arrays(X_y, Y, groups=[pr.Grouped(SITE)])
    assert b.design.response == "y"
    assert b.design.columns[:3] == ("Intercept", "a", "y")
    np.testing.assert_array_equal(a.design.X, b.design.X)
    np.testing.assert_array_equal(a.design.y, b.design.y)


def test_new_rows_need_names():
    design = models(*list(CASES.items())[1])[1].design
    with pytest.raises(
        pr.DataError,
        match="whose columns have no names",
    ):
        design.at(X)
    with pytest.raises(pr.DataError, match="no column 'subject'"):
        design.at({"x1": [1.0], "x2": [1.0]})
    with pytest.raises(pr.DataError, match="'subject' is missing a value in row 0"):
        design.at({"x1": [1.0], "x2": [1.0], "subject": [None]})


def test_an_intercept_alone_may_be_all_there_is():
    design = pr.Model.from_arrays(np.empty((N, 0)), Y, groups=[pr.Grouped(SITE)]).design
    assert design.at({"g": ["u", "new"]}).X.tolist() == [[1, 1, 0, 0], [1, 0, 0, 0]]
