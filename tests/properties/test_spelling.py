"""Properties of how formulas are spelled: offsets, powers, and functions that other packages have."""

import re

import numpy as np
import pandas as pd
import pytest
import statsmodels.formula.api as smf

import probreg as pr
from probreg.peers import FORMULA_FUNCTIONS
from tests.properties.containers import EVERY, model

pytestmark = pytest.mark.filterwarnings("ignore::DeprecationWarning")
N = 40
RNG = np.random.default_rng(2)
DATA = pd.DataFrame(
    {
        "x": RNG.uniform(1, 2, N),
        "e": RNG.uniform(1, 3, N),
        "z": RNG.normal(size=N),
        "n": np.full(N, 9),
    }
)
DATA["k"] = RNG.poisson(2.0 * DATA.e)
DATA["y"] = RNG.normal(size=N)
DATA["g"] = list("abcd") * 10


# ---- offsets -------------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("formula", "offset", "kind"),
    [
        ("k ~ x + offset(log(e))", "log(e)", "pandas"),
        ("k ~ (x + offset(log(e)))", "log(e)", "pandas"),
        ("k ~ x + offset(`z`)", "z", "pandas"),
        *(("k ~ offset(log(e)) + x + offset(z)", "log(e) + z", kind) for kind in EVERY),
    ],
)
def test_an_offset_in_the_formula_is_that_of_the_argument(
    kind, formula, offset, tmp_path
):
    made = model(formula, DATA, kind, tmp_path, likelihood="poisson")
    fit, beside = (
        pr.fit(made),
        pr.fit(
            pr.Model.from_formula("k ~ x", DATA, likelihood="poisson", offset=offset)
        ),
    )
    assert made.design.columns == ("Intercept", "x")
    np.testing.assert_allclose(fit.coef, beside.coef, rtol=1e-6)
    np.testing.assert_allclose(
        fit.predict(DATA)["mean"], beside.predict(DATA)["mean"], rtol=1e-6
    )
    with pytest.raises(pr.DataError, match="no column"):
        fit.predict({"x": [1.0]})


def test_offsets_of_formula_and_argument_add_up_and_are_saved(tmp_path):
    made = pr.Model.from_formula(
        "k ~ x + offset(log(e))", DATA, likelihood="poisson", offset="z"
    )
    fit = pr.fit(made)
    beside = pr.fit(
        pr.Model.from_formula("k ~ x", DATA, likelihood="poisson", offset="log(e) + z")
    )
    np.testing.assert_array_equal(fit.coef, beside.coef)
    fit.save(tmp_path / "fit.nc")
    np.testing.assert_array_equal(
        pr.load_fit(tmp_path / "fit.nc").predict(DATA)["mean"],
        beside.predict(DATA)["mean"],
    )
    np.testing.assert_array_equal(
        made.at(DATA[:9]).design.offset, beside.model.at(DATA[:9]).design.offset
    )


def test_a_dot_leaves_the_offset_out():
    made = pr.Model.from_formula(
        "k ~ . - g - n - y + offset(log(e))", DATA, likelihood="poisson"
    )
    assert made.design.columns == ("Intercept", "x", "z")


@pytest.mark.parametrize("formula", ["k ~ x:offset(e)", "k ~ x - offset(e)", "offset(k) ~ x", "k ~ (offset(e) | g)", "k ~ I(offset(e))", "k ~ offset()", "k ~ offset(e, z)"])  # fmt: skip
def test_offsets_that_are_no_term_are_refused(formula):
    with pytest.raises(pr.DataError, match=r"offset|one response"):
        pr.Model.from_formula(formula, DATA)


def test_an_array_beside_an_offset_of_the_formula_is_refused():
    with pytest.raises(pr.DataError, match="array"):
        pr.Model.from_formula("k ~ x + offset(e)", DATA, offset=DATA.z.to_numpy())


# ---- powers --------------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("kind", ["pandas", "csv", "dask"])
@pytest.mark.parametrize("term", ["x^2", "x**2", "(x)**3", "z + x^2", "x:z^2"])
def test_a_power_of_one_term_has_a_note(term, kind, tmp_path):
    notes = model(f"y ~ {term}", DATA, kind, tmp_path).design.notes
    assert any("poly(" in note and "I(" in note for note in notes)


@pytest.mark.parametrize(
    "term",
    ["x^2", "log(x)**3", "poly(x, 2)^2", "bs(x, df=4)**2", "C(x)^2", "scale(x)^2"],
)
def test_the_spellings_in_the_note_can_be_fitted(term):
    (note,) = (
        n
        for n in pr.Model.from_formula(f"y ~ {term}", DATA).design.notes
        if "crosses" in n
    )
    for spelling in re.findall(r"write (.*) or (.*)", note)[:1]:
        for own in spelling:
            pr.Model.from_formula(f"y ~ {own}", DATA)


@pytest.mark.parametrize(
    "term", ["(x + z)^2", "I(x**2)", "poly(x, 2)", "x", "(x + z + e)**3", "x**1"]
)
def test_other_powers_have_none(term):
    assert pr.Model.from_formula(f"y ~ {term}", DATA).design.notes == ()


# ---- functions of other packages -------------------------------------------------------------------------------------------

SPELLINGS = {
    "y ~ I(x^2)": "I(x**2)",
    "y ~ factor(g)": "C(g)",
    "y ~ as.factor(g)": "C(g)",
    "y ~ ns(x)": "cr(x, df=k)",
    "cbind(k, n - k) ~ x": "p(k, n)",
    "cbind(k, n) ~ x": "p(k, n)",
    "y ~ Q('x')": "`x`",
    'y ~ Q("x")': "`x`",
    "y ~ cut(x, 3)": "pandas.cut(data['x']",
    "y ~ ifelse(x > 1, 0, 1)": "where(x > 1, 0, 1)",
    "y ~ log(ifelse(x > 1, 2, 1))": "where(x > 1, 2, 1)",
    "y ~ pmin(x, e)": "minimum(x, e)",
    "Surv(y, e) ~ x": "cens(y, e)",
    "y ~ pmax(x, 2)": "maximum(x, 2)",
    "y ~ relevel(g, 'b')": "contr.treatment(",
    "y ~ interaction(g, x)": "g:x",
    "y ~ I(x > 1 & z > 0)": "(a > 1)*(b > 1)",
    "y ~ I(x > 1 and z > 0)": "(a > 1)*(b > 1)",
    "y ~ lgo(x)": "'log'",
    "y ~ lag(x, 1)": ".shift(1)",
    "y ~ te(x, z)": "t2(x, z)",
}


@pytest.mark.parametrize("formula", SPELLINGS)
def test_functions_of_other_packages_are_answered_with_the_spelling_here(formula):
    with pytest.raises(pr.DataError) as error:
        pr.Model.from_formula(formula, DATA)
    assert SPELLINGS[formula] in str(error.value)
    assert len(str(error.value)) < 200
    assert "\n" not in str(error.value)


@pytest.mark.parametrize("name", [*FORMULA_FUNCTIONS, "load", "unknown"])
def test_no_refusal_lists_the_language(name):
    with pytest.raises(pr.DataError) as error:
        pr.Model.from_formula(f"y ~ {name}(x)", DATA)
    assert len(str(error.value)) < 200


# ---- cubic splines -------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("name", ["cr", "cc"])
def test_cubic_splines_are_centred_and_do_not_repeat_the_intercept(name):
    fit = pr.fit(pr.Model.from_formula(f"y ~ {name}(x, df=5)", DATA))
    X = fit.model.design.X
    assert X.shape[1] == 6
    assert np.linalg.matrix_rank(X) == 6
    np.testing.assert_allclose(X[:, 1:].sum(0), 0.0, atol=1e-12)
    judge = smf.ols(f"y ~ {name}(x, df=5, constraints='center')", DATA).fit()
    np.testing.assert_allclose(fit.predict()["mean"], judge.fittedvalues, rtol=1e-8)


@pytest.mark.parametrize(
    ("plain", "of_patsy"),
    [
        ("bs(x, df=5)", "bs(x, df=5, include_intercept=False)"),
        ("bs(x, df=5, lower_bound=-9)", "bs(x, 5, None, 3, False, -9)"),
        ("cr(x, df=5)", "cr(x, df=5, constraints='center')"),
        ("cc(x, df=5)", "cc(x, df=5, constraints='center')"),
    ],
)
def test_options_with_their_default_value_change_nothing(plain, of_patsy):
    X, same = (
        pr.Model.from_formula(f"y ~ {text}", DATA).design.X
        for text in (plain, of_patsy)
    )
    np.testing.assert_array_equal(X, same)


@pytest.mark.parametrize(
    "formula",
    [
        "y ~ bs(x, df=5, include_intercept=True)",
        "y ~ bs(x, 5, None, 3, -9)",
        "y ~ cr(x, df=5, constraints=None)",
        "y ~ cc(x, df=5, constraints=[[1, 2, 3, 4, 5]])",
        "y ~ 0 + cr(x, df=5, constraints='center')",
    ],
)
def test_options_with_another_value_raise(formula):
    with pytest.raises(pr.DataError, match=r"include_intercept|constraints"):
        pr.Model.from_formula(formula, DATA)


def test_without_an_intercept_the_columns_sum_to_one():
    free = pr.Model.from_formula("y ~ 0 + cr(x, df=5)", DATA)
    np.testing.assert_allclose(free.design.X.sum(1), 1.0, rtol=1e-12)
    judge = smf.ols("y ~ 0 + cr(x, df=5)", DATA).fit()
    np.testing.assert_allclose(
        pr.fit(free).predict()["mean"], judge.fittedvalues, rtol=1e-8
    )


def test_levels_of_a_category_hold_the_constant_too():
    by_level = pr.fit(pr.Model.from_formula("y ~ 0 + g + cr(x, df=5)", DATA))
    plain = pr.fit(pr.Model.from_formula("y ~ g + cr(x, df=5)", DATA))
    np.testing.assert_allclose(
        by_level.predict()["mean"], plain.predict()["mean"], rtol=1e-9
    )
