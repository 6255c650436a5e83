"""Fits that `compare` refuses, and the errors."""

from dataclasses import replace

import numpy as np
import pandas as pd
import pytest

import probreg as pr
from probreg.comparison import compare
from probreg.comparison.comparison import choose_parameters
from probreg.recipes import logistic, ols, poisson, ridge, softmax

X = np.array([[0.0], [1.0], [2.0], [4.0], [5.0], [7.0]])
Y = np.array([1.0, 0.0, 2.0, 3.0, 5.0, 4.0])
FIT = ols(X, Y, columns=["x"])


@pytest.mark.parametrize(
    ("fits", "match"),
    [
        ({}, "compare: there is no fit"),
        ([], "compare: there is no fit"),
        ("ML", "got str"),
        ({"ML": FIT, "model": FIT.model}, "'model' is of type Model"),
        ([FIT, 3.0], "1 is of type float"),
    ],
)
def test_only_named_fits(fits, match):
    with pytest.raises(pr.DataError, match=match):
        compare(fits)


@pytest.mark.parametrize(
    "wrong",
    [FIT, FIT.model, 3, None, "ML", [1], {"ML": FIT.model}, {}],
    ids=lambda v: type(v).__name__,
)
def test_an_error_names_the_function_that_was_called(wrong, tmp_path):
    called = {
        "compare": lambda: compare(wrong),
        "report": lambda: pr.report(wrong, tmp_path / "page.html"),
        "compare_models": lambda: pr.compare_models(wrong),
        "interval_panel": lambda: pr.interval_panel(wrong, "x"),
        "prior_weight": lambda: pr.prior_weight(wrong),
        "diagnose": lambda: pr.diagnose(wrong),
        "path": lambda: pr.path(wrong),
    }
    taken = {
        pr.Fit: {
            "compare",
            "compare_models",
            "interval_panel",
            "prior_weight",
            "diagnose",
            "report",
        },
        pr.Model: {"path"},
    }.get(type(wrong), set())
    for name in called.keys() - taken:
        with pytest.raises(pr.ProbregError, match=f"^(a )?{name}[: ]"):
            called[name]()


@pytest.mark.parametrize(
    ("other", "match"),
    [
        (
            ols(X, Y, columns=["x"], response="other"),
            "they differ in their response: y against other",
        ),
        (
            ols(X[1:], Y[1:], columns=["x"]),
            "they differ in their number of rows: 6 against 5",
        ),
        (
            ols(X[1:], Y[1:], columns=["x"], offset=np.arange(5.0)),
            "they differ in their number of rows: 6 against 5",
        ),
        (
            ols(X, Y + np.eye(6)[2], columns=["x"]),
            "differ in their values of the response: row 2 has",
        ),
        (
            ols(X + np.eye(6)[3][:, None], Y, columns=["x"]),
            "differ in their columns: row 3",
        ),
        (
            ols(X, Y, columns=["x"], offset=np.arange(6.0)),
            "differ in their offset: row 1",
        ),
        (poisson(X, Y, columns=["x"]), "differ in their link"),
    ],
)
def test_fits_of_other_data_are_refused(other, match):
    with pytest.raises(pr.DataError, match=match) as caught:
        compare({"first": FIT, "second": other})
    assert "'first' and 'second'" in str(caught.value)


def test_another_event_or_reference_is_refused():
    y = ["a", "b", "a", "b", "a", "b"]
    with pytest.raises(pr.DataError, match="differ in their levels"):
        compare([logistic(X, y), logistic(X, y, event="a")])
    three = ["a", "b", "c", "a", "c", "b"]
    with pytest.raises(pr.DataError, match="differ in their levels"):
        compare([softmax(X, three), softmax(X, three, reference="c")])


def test_of_many_levels_those_of_one_fit_are_named():
    x = np.arange(40.0)
    levels = [f"level {i % 20}" for i in range(40)]
    other = ["level 1", *levels[1:20], "level 1", *levels[21:]]
    with pytest.raises(pr.DataError, match="20 values with level 0 against 19 values"):
        compare([softmax(x, levels), softmax(x, other)])


def test_settings_that_do_not_exist():
    with pytest.raises(pr.DataError, match="baseline 'mle' is not among the fits: ML"):
        compare({"ML": FIT}, baseline="mle")
    with pytest.raises(pr.Incompatible, match=r"kind 'eti'; they have: .*t, wald"):
        compare({"ML": FIT}, kind="eti")
    with pytest.raises(pr.DataError, match="between 0 and 1"):
        compare({"ML": FIT}, 95)


def test_a_column_called_like_sigma_is_refused():
    with pytest.raises(
        pr.DataError,
        match="a column is called 'sigma', which is a parameter of a gaussian likelihood",
    ):
        compare([ols(X, Y, columns=["sigma"])])


def test_one_fit_is_a_table():
    said = repr(compare({"ML": FIT}))
    assert "Why they differ" not in said
    assert "closed_form" in said


def test_numbers_that_do_not_exist_are_no_numbers():
    """Two rows and two columns: a perfect fit has estimates and no errors."""
    c = compare(
        {
            "all": ols(X[:2], Y[:2], columns=["x"]),
            "held": ols(X[:2], Y[:2], columns=["x"], aux={"sigma": 1.0}),
        }
    )
    assert np.isnan(c.data["error"].sel(fit="all", param="x"))
    assert "nan" not in repr(c).split("Notes")[0]
    assert "all has no SE there" in " ".join(c.notes)


def test_collinear_columns_have_no_estimate():
    with pytest.warns(pr.ProbregWarning):
        ml = ols(np.c_[X, 2 * X], Y, columns=["x", "twice"])
    c = compare(
        {
            "ML": ml,
            "ridge": ridge(
                np.c_[X, 2 * X],
                Y,
                columns=["x", "twice"],
                scale=1.0,
                aux={"sigma": 1.0},
            ),
        }
    )
    assert "does not exist" in repr(c)
    assert "twice = 2 x" in c.reasons["x"][0]
    assert "nan" not in repr(c)
    assert "nan" not in c._repr_html_()


def test_an_unknown_prior_is_called_by_its_name():
    class Own(pr.priors.Prior):
        name = "own"
        size = None

        def log_prob(self, beta, unit=1.0):
            return -(beta**4).sum((-1, -2))

        def sample(self, rng, shape, unit=1.0):
            return rng.normal(size=shape)

        def pymc(self, unit=1.0):
            raise NotImplementedError

    own = pr.Fit(replace(FIT.model, prior=Own()), pr.Newton(), FIT.solution)
    c = compare({"ML": FIT, "own": own})
    assert c.data["prior"].sel(fit="own", param="x") == "own"
    assert np.isnan(c.data["prior_weight"].sel(fit="own", param="x"))
    assert "not defined" in repr(c)


def test_a_perfect_fit_has_a_table_without_warnings():
    """Residuals of 0, or of rounding, give errors against which next to nothing can be measured."""
    exact = pr.Model.from_arrays(X, X[:, 0], columns=["x"])
    fits = {
        "ML": pr.fit(exact),
        "held": pr.fit(exact.with_aux(sigma=1.0)),
        "tight": ridge(X, X[:, 0], columns=["x"], scale=0.1, sigma_units=True),
    }
    c = compare(fits)
    assert "nan" not in repr(c)
    assert set(c.causes["fit"]) == {"tight"}  # "held" has the same estimate
    found = pr.explain({name: fits[name] for name in ("ML", "tight")})
    assert found.without_path == "one of them meets every response exactly"
    apart = fits["tight"].coef.sel(coef="x").item() - 1.0
    assert (
        found.sentences["x"]
        == f"x: the estimates differ by {apart:+.3g}; no standard error of ML"
    )


@pytest.mark.parametrize("scale", [0.0, -1.0, np.nan])
def test_a_ridge_needs_a_scale(scale):
    with pytest.raises(pr.DataError, match="scale"):
        ridge(X, Y, scale=scale)


def test_a_head_counts_rows_and_fits():
    weighted = pr.fit(pr.Model.from_arrays(X, Y, weights=[1, 2, 3, 1, 2, 3]))
    text = str(compare({f"f{i}": weighted for i in range(10)}))
    assert "12 observations in 6 rows" in text
    assert "2 more fits in .fits" in text


def test_rounding_errors_do_not_choose_the_parameters_of_a_print():
    rng = np.random.default_rng(0)
    data = pd.DataFrame(
        rng.normal(size=(120, 66)), columns=[f"x{i}" for i in range(66)]
    )
    data["y"] = rng.normal(size=120)
    model = pr.Model.from_formula("y ~ .", data)
    fits = {"exact": pr.fit(model), "newton": pr.fit(model, "newton")}
    compared = compare(fits)
    assert 0.0 < np.nanmax(np.abs(compared.data["difference"])) < 1e-9
    assert choose_parameters(compared)[0][:3] == [0, 1, 2]
    ranks = pr.explain(fits)._display_table.to_pandas()
    assert ranks.index.get_level_values(0)[0] == "Intercept"
