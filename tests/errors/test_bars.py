"""Bars that cannot be used: each refusal names the piece, the column, the level, and what to write."""

import numpy as np
import pandas as pd
import pytest

import probreg as pr
from probreg.data.array_columns import recipe_from_json
from probreg.data.formula import formula as formulas
from probreg.errors import DataError


def read_formula(formula, data, **options):
    """The design of a formula, without its response."""
    return formulas.read_formula(formula, data, **options).design


N = 12
DATA = {
    "y": np.arange(N) % 5.0,
    "x": np.linspace(0.5, 6.0, N) ** 1.5,
    "g": np.repeat(["a", "b", "c"], 4),
    "h": np.tile(["u", "v"], 6),
    "one": ["z"] * N,
    "when": np.arange("2020-01-01", "2020-01-13", dtype="datetime64[D]"),
}


@pytest.mark.parametrize(
    ("terms", "message"),
    [
        (
            "x | g",
            r"has a bar outside brackets; .* written \(1 \| g\) or \(x \| g\)",
        ),
        ("x + 1 | g + h", "has a bar outside brackets"),
        (
            "x:(1 | g)",
            r"\(1 \| g\) stands in a product of 'y ~ x:\(1 \| g\)'; it is added",
        ),
        ("x*(1 | g)", r"\(1 \| g\) stands in a product"),
        ("x/(1 | g)", r"\(1 \| g\) stands in a product"),
        ("(1 | g)**2", r"\(1 \| g\) stands in a product"),
        ("(x + (1 | g)):h", r"\(1 \| g\) stands in a product"),
        (
            "x - (1 | g)",
            r"\(1 \| g\) is subtracted in 'y ~ x - \(1 \| g\)'; leave it out",
        ),
        ("x - (h + (1 | g))", r"\(1 \| g\) is subtracted"),
        ("(x | g) + (1 + x|g)", r"\(1 \+ x \| g\) stands twice"),
        ("(1 | g:h) + (1 | h:g)", r"\(1 \| h:g\) stands twice"),
        (
            "(1 | g / h) + (1 | g)",
            r"\(1 \| g\) stands twice .* a / b stands for a and a:b",
        ),
        (
            "(1 | g) + (x | g)",
            r"the intercept varies by g in \(1 \| g\) and in \(x \| g\).*0 \+ x",
        ),
        (
            "(0 + x | g) + (0 + x + h | g)",
            r"x varies by g in \(0 \+ x \| g\) and in \(0 \+ x \+ h \| g\)",
        ),
        (
            "(x | g) + (x || g)",
            r"the intercept varies by g in \(x \| g\) and in \(x \|\| g\)",
        ),
        ("( | g)", "a term is expected at letter 7"),
        ("(1 | )", "a term is expected at letter 10"),
        ("(0 | g)", r"\(0 \| g\) has no effect before its bar"),
        ("(x + | g)", "a term is expected at letter 10"),
        ("(x | g", "a bracket is not closed"),
        ("(x | g | h)", r"a second '\|' in one bracket at letter 12"),
        ("((1 | h) | g)", r"has \(1 \| h\) before its bar"),
        (
            "(1 | log(g))",
            r"\(1 \| log\(g\)\) has 'log\(g\)' behind its bar",
        ),
        ("(1 | C(g))", r"'C\(g\)' behind its bar"),
        ("(1 | g + h)", r"'g \+ h' behind its bar.* as in \(1 \| g\) \+ \(1 \| h\)"),
        ("(1 | g*h)", r"'g\*h' behind its bar"),
        ("(1 | g /)", "a term is expected at letter 13"),
        ("(1 | 2)", r"'2' behind its bar, where columns stand"),
        ("(1 | g:g)", r"column 'g' stands twice behind the bar"),
        (
            "(s(x) | g)",
            r"'s\(x\)' stands by itself .* s\(x, by=g\)",
        ),
        ("(gp(x) | g)", r"'gp\(x\)' stands by itself"),
        ("(y | g)", r"the response 'y' is also in \(y \| g\)"),
        ("(1 | y)", r"the response 'y' is also in \(1 \| y\)"),
        ("(. | g)", "within a bar; name the columns"),
        ("(1 | .)", "within a bar"),
        (
            "(1 | x)",
            r"column 'x' holds a different number in each of its 12 rows, such as 0.353553 in row 0",
        ),
        ("(1 | g:x)", "column 'x' holds a different number in each"),
        ("(1 | one)", r"\(1 \| one\) has the single group 'z' in these rows"),
        ("(one | g)", "'one' has the single level 'z'"),
        ("(1 | school)", "no column 'school'"),
        ("(rank | g)", "no column 'rank'"),
        ("(log(0 * x) | g)", r"'log\(0 \* x\)' is -inf in row 0"),
    ],
)
def test_bars_that_do_not_stand(terms, message):
    with pytest.raises(DataError, match=message):
        read_formula(f"y ~ {terms}", DATA)


def test_a_bar_is_no_response():
    with pytest.raises(
        DataError, match=r"left side of '\(1 \| g\) ~ x' is '\(1 \| g\)'"
    ):
        read_formula("(1 | g) ~ x", DATA)


def test_a_transformed_response_does_not_group_itself():
    with pytest.raises(
        DataError, match=r"the response 'log\(y\)' is also in \(1 \| y\)"
    ):
        read_formula("log(y) ~ (1 | y)", DATA | {"y": np.arange(N) + 1.0})


def test_missing_groups_name_their_rows():
    gaps = [None, *DATA["g"][1:]]
    with pytest.raises(DataError, match=r"missing in 1 of 12 rows.*'g' 1 \(row 0\)"):
        read_formula("y ~ (1 | g)", DATA | {"g": gaps})
    reading = read_formula("y ~ (1 | g)", DATA | {"g": gaps}, missing="drop")
    assert 0 not in reading.labels
    recipe = read_formula("y ~ (1 | g)", DATA).recipe
    with pytest.raises(DataError, match="column 'g' is missing a value in row 0"):
        recipe.matrix({"g": [None, "a"]})


def test_levels_that_read_alike_are_refused():
    mixed = pd.Categorical([1, "1"] * 6, categories=[1, "1"])
    with pytest.raises(
        DataError, match="column 'g' has different levels that all read '1'"
    ):
        read_formula("y ~ (1 | g)", DATA | {"g": mixed})


def test_names_that_meet_are_refused():
    clash = DATA | {
        "a, b": DATA["x"],
        "b": DATA["x"] ** 2,
        "g": np.tile(["s", "s, a"], 6),
    }
    with pytest.raises(DataError, match="more than one column called"):
        read_formula(
            "y ~ (0 + b | g) + `(0 + b | g)[s, b]`",
            clash | {"(0 + b | g)[s, b]": DATA["x"]},
        )


LISTED = r"which is not a column: Intercept, x, \(x \| g\) \(3 groups of 2 effects\)$"
NEAR = r"which is not a column; did you mean '\(x \| g\)'\?$"


@pytest.mark.parametrize(
    ("key", "said"),
    [("g", NEAR), ("x || g", LISTED), ("1 | g", LISTED), ("(x | h)", LISTED)],
)
def test_a_prior_for_no_term_lists_terms_as_they_are_written(key, said):
    with pytest.raises(DataError, match=said):
        pr.Model.from_formula(
            "y ~ x + (x | g)", DATA, prior={key: pr.priors.Covariance(sd=1.0)}
        )


@pytest.mark.parametrize("key", ["(x | g)[a, x]", ("(x | g)[a, x]", "x")])
def test_a_prior_of_one_group_is_refused(key):
    with pytest.raises(
        DataError, match=r"of some columns of \(x \| g\).*key '\(x \| g\)'"
    ):
        pr.Model.from_formula(
            "y ~ x + (x | g)", DATA, prior={key: pr.priors.Normal(1.0)}
        )


@pytest.mark.parametrize("key", ["s(x)", "(1 | g)"])
def test_a_saved_recipe_without_the_state_of_a_term_is_an_error(key):
    saved = read_formula("y ~ s(x) + (1 | g)", DATA).recipe.to_json()
    saved["state"]["transforms"][key].pop("kind")
    with pytest.raises(DataError) as error:
        recipe_from_json(saved)
    assert key in str(error.value)


@pytest.mark.parametrize("method", ["auto", "evidence", "integrate"])
def test_correlated_effects_of_counts_in_files_are_refused_with_an_alternative(
    method, tmp_path
):
    path = tmp_path / "rows.csv"
    pd.DataFrame({**DATA, "y": np.arange(N) % 5}).drop(columns="when").to_csv(path)
    models = {
        terms: pr.Model.from_files(
            f"y ~ x + {terms}",
            path,
            likelihood="poisson",
            prior={terms: pr.Covariance(pr.HalfNormal(1.0))},
        )
        for terms in ("(x | g)", "(x || g)")
    }
    with pytest.raises(pr.Incompatible, match=r"write \(x \|\| g\)") as refused:
        pr.fit(models["(x | g)"], method)
    assert "These can fit" not in str(refused.value)
    assert pr.Evidence().obstacle(models["(x || g)"]) is None
