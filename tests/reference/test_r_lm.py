"""R's tables of linear models, to half a unit of the last printed digit; and exactly, against arithmetic in fractions."""

from typing import Any

import numpy as np
import pandas as pd
import pytest
from scipy import stats

import probreg as pr
from probreg.inference import Status

from .cases import (
    Columns,
    cases,
    columns_of,
    digits,
    exact_least_squares,
    fractions,
    in_order,
    rounds_to,
)

ALIASED, INTERVALS = (
    "tables/r_lm/rank_deficient_alias",
    "tables/r_lm/predict_lm_intervals",
)
TWICE = 0.1
ORDINARY = [n for n in cases("r_lm", "tables/r_lm") if n not in (ALIASED, INTERVALS)]


def design(case: dict[str, Any]) -> tuple[Columns, np.ndarray]:
    d = case["design"]
    return columns_of(d["X"], d["columns"]), np.array(d["y"])


def least_squares(case: dict[str, Any]) -> tuple[Columns, pr.Fit]:
    columns, y = design(case)
    return columns, pr.fit(
        pr.Model.from_arrays(columns.X, y, **columns.arguments), "closed_form"
    )


@pytest.mark.parametrize("name", cases("r_lm"))
def test_printed_coefficients(name: str, certified: Any) -> None:
    """Estimate, standard error, t and p as R prints them, within half a unit of the last digit.

    R rounds its coefficient tables twice, to one digit more and then to the width of the column (0.0849149 is printed
    8.492e-02 by way of 0.084915), which adds up to a tenth of that: TWICE.
    """
    case = certified(name)
    columns, fit = least_squares(case)
    coef, se = in_order(fit.coef, columns), in_order(fit.std_error, columns)
    for i, row in enumerate(case["columns"]):
        printed, t = case["printed"][row], coef[i] / se[i]
        p = 2 * stats.t.sf(abs(t), fit.solution.df)
        for what, value in (
            ("estimate", coef[i]),
            ("se", se[i]),
            ("stat", t),
            ("p", p),
        ):
            assert rounds_to(value, printed[what], slack=TWICE), (
                row,
                what,
                value,
                printed[what],
            )


@pytest.mark.parametrize("name", cases("r_lm"))
def test_printed_statistics(name: str, certified: Any) -> None:
    """Residual standard error and its degrees of freedom, R^2, adjusted R^2 and F."""
    case = certified(name)
    columns, y = design(case)
    fit = least_squares(case)[1]
    printed, rss, df = case["printed_stats"], fit.solution.stats["rss"], fit.solution.df
    assert df == printed["sigma"]["df"]
    assert rounds_to(fit.solution.stats["sigma_unbiased"], printed["sigma"]["value"])
    tss = float(((y - (y.mean() if columns.intercept else 0.0)) ** 2).sum())
    total = len(y) - columns.intercept
    r2 = 1 - rss / tss
    assert rounds_to(r2, printed["r2"])
    assert rounds_to(1 - (1 - r2) * total / df, printed["adj_r2"])
    assert rounds_to((tss - rss) / (total - df) / (rss / df), printed["F"])


@pytest.mark.parametrize("name", ORDINARY)
def test_against_fractions(name: str, certified: Any) -> None:
    """The floats of the file taken as they are, solved exactly: 11 digits, one less than double precision leaves here."""
    columns, fit = least_squares(certified(name))
    exact = exact_least_squares(
        fractions(columns.full.tolist()), fractions(fit.model.design.y.tolist())
    )
    assert fit.solution.status is Status.EXACT
    assert digits(in_order(fit.coef, columns), exact.coef).min() >= 11
    assert digits(in_order(fit.std_error, columns), exact.std_error).min() >= 11
    assert digits(fit.solution.stats["sigma_unbiased"], exact.residual_sd) >= 11


@pytest.mark.parametrize("name", ORDINARY)
def test_newton_and_the_flat_posterior_agree(name: str, certified: Any) -> None:
    """Newton stops at 1e-8 standard errors; the posterior under p(sigma) ∝ 1/sigma has the least-squares t intervals,
    the same formula, so that they agree to rounding."""
    _, closed = least_squares(certified(name))
    newton, exact = pr.fit(closed.model, "newton"), pr.fit(closed.model, "conjugate")
    assert float((np.abs(newton.coef - closed.coef) / closed.std_error).max()) < 1e-8
    for end in ("lower", "upper"):
        t, eti = closed.interval(0.9)[end], exact.interval(0.9)[end]
        assert float((np.abs(t - eti) / closed.std_error).max()) < 1e-9


def formula_cases() -> dict[str, tuple[str, Any]]:
    """R's formulas in the package's grammar, with the table each needs, made from the columns of the file."""
    return {
        "r_lm/attitude_complaints": ("rating ~ complaints", _table("rating")),
        "r_lm/attitude_full": (
            "rating ~ complaints + privileges + learning + raises + critical + advance", _table("rating")
        ),
        "r_lm/longley_R": (
            "Employed ~ `GNP.deflator` + GNP + Unemployed + `Armed.Forces` + Population + Year", _table("Employed")
        ),
        "r_lm/plantweight_nointercept": ("weight ~ group - 1", _groups),
        "r_lm/swiss": (
            "Fertility ~ Agriculture + Examination + Education + Catholic + `Infant.Mortality`", _table("Fertility")
        ),
        "tables/r_lm/trees_loglog1": ("log(Volume) ~ log(Girth)", _trees),
        "tables/r_lm/warpbreaks_interaction": ("breaks ~ wool * tension", _warpbreaks),
    }  # fmt: skip


def _table(response: str) -> Any:
    return lambda columns, y: pd.DataFrame(
        columns.X, columns=list(columns.names)
    ).assign(**{response: y})


def _groups(columns: Columns, y: np.ndarray) -> pd.DataFrame:
    return pd.DataFrame(
        {"weight": y, "group": np.where(columns.X[:, 0] == 1, "Ctl", "Trt")}
    )


def _trees(columns: Columns, y: np.ndarray) -> pd.DataFrame:
    return pd.DataFrame({"Volume": np.exp(y), "Girth": np.exp(columns.X[:, 0])})


def _warpbreaks(columns: Columns, y: np.ndarray) -> pd.DataFrame:
    """Factors back from their indicators; levels in order, so that the first is the base as in R."""
    wool, medium, high = columns.X[:, :3].T
    tension = np.select([medium == 1, high == 1], ["2M", "3H"], "1L")
    return pd.DataFrame(
        {"breaks": y, "wool": np.where(wool == 1, "B", "A"), "tension": tension}
    )


@pytest.mark.parametrize("name", list(formula_cases()))
def test_the_formula_gives_the_same_fit(name: str, certified: Any) -> None:
    """Column for column in R's order; exp and log back lose a rounding or two, hence 1e-10 and not equality."""
    case = certified(name)
    formula, table = formula_cases()[name]
    columns, fit = least_squares(case)
    named = pr.fit(pr.Model.from_formula(formula, table(*design(case))), "closed_form")
    np.testing.assert_allclose(
        named.coef.values, in_order(fit.coef, columns), rtol=1e-10
    )
    np.testing.assert_allclose(
        named.std_error.values, in_order(fit.std_error, columns), rtol=1e-10
    )


def test_an_aliased_column_is_named(certified: Any) -> None:
    """(x - 10)^2 is x^2 - 20 x + 100: what is not identified is marked, what is keeps its value, as R's NA does."""
    case = certified(ALIASED)
    d = case["design"]
    columns = columns_of(d["X_full_with_alias"], case["columns"])
    arrays = {"y": np.array(d["y"]), "weights": np.array(d["weights"])}
    model = pr.Model.from_arrays(columns.X, **arrays, **columns.arguments)
    with pytest.warns(pr.ProbregWarning, match=r"I\(\(x - 10\)\^2\)"):
        fit = pr.fit(model, "closed_form")
    assert fit.solution.status is Status.NOT_IDENTIFIED
    free = fit.coef.isnull()
    assert list(fit.coef["coef"].values[free.values]) == [
        "Intercept",
        "x",
        "I(x^2)",
        "I((x - 10)^2)",
    ]
    reduced = columns_of(d["X"], d["columns"])
    plain = pr.fit(
        pr.Model.from_arrays(reduced.X, **arrays, **reduced.arguments), "closed_form"
    )
    # The cubic runs to 8000 and the design has a condition number of 1e5: eleven digits are left.
    for mine, its in ((fit.coef, plain.coef), (fit.std_error, plain.std_error)):
        assert float(mine.sel(coef="I(x^3)")) == pytest.approx(
            float(its.sel(coef="I(x^3)")), rel=1e-9
        )
    np.testing.assert_allclose(
        fit.predictive().mean(), plain.predictive().mean(), rtol=1e-9
    )
    # the row of weight zero is no observation
    assert fit.solution.df == plain.solution.df == sum(d["weights"]) - 4
    with pytest.warns(pr.ProbregWarning, match=r"I\(\(x - 10\)\^2\)"):
        assert pr.fit(model, "newton").solution.status is Status.NOT_IDENTIFIED


@pytest.mark.parametrize("weighted", [False, True])
def test_intervals_of_new_rows(weighted: bool, certified: Any) -> None:
    """fit -+ t s sqrt(h) for the mean and fit -+ t s sqrt(1 + h) for a new observation, written out.

    R's weights 1 + x^2 are precisions, and a new row has precision one.
    """
    case = certified(INTERVALS)
    x, y, new = (np.array(case[k]) for k in ("x", "y", "new"))
    root = np.sqrt(1 + x**2) if weighted else np.ones_like(x)
    X, rows = (
        np.column_stack([np.ones_like(x), x]),
        np.column_stack([np.ones_like(new), new]),
    )
    weights = pr.weights.precision(root**2)
    model = pr.Model.from_arrays(
        X, y, columns=["one", "x"], intercept=False, weights=weights
    )
    found = pr.fit(model, "closed_form").predict(
        pd.DataFrame(rows, columns=["one", "x"]), 0.95
    )
    gram = np.linalg.inv(X.T @ (root[:, None] ** 2 * X))
    beta = gram @ X.T @ (root**2 * y)
    s2 = float((root**2 * (y - X @ beta) ** 2).sum() / 13)
    h = np.einsum("ij,jk,ik->i", rows, gram, rows)
    t = stats.t.ppf(0.975, 13)
    np.testing.assert_allclose(found["mean"], rows @ beta, rtol=1e-10, atol=1e-12)
    for which, half in (
        ("mean", t * np.sqrt(s2 * h)),
        ("new", t * np.sqrt(s2 * (1 + h))),
    ):
        np.testing.assert_allclose(
            found[f"{which}_lower"], rows @ beta - half, rtol=1e-10
        )
        np.testing.assert_allclose(
            found[f"{which}_upper"], rows @ beta + half, rtol=1e-10
        )


def test_rs_weights_are_precisions(certified: Any) -> None:
    """R's lm(weights = 1 + x^2): the rows times the roots of their precisions, and n counts rows."""
    case = certified(INTERVALS)
    x, y = np.array(case["x"]), np.array(case["y"])
    w = 1 + x**2
    precise = pr.fit(
        pr.Model.from_arrays(x[:, None], y, weights=pr.weights.precision(w)),
        "closed_form",
    )
    scaled = pr.Model.from_arrays(
        np.sqrt(w)[:, None] * np.column_stack([np.ones_like(x), x]),
        np.sqrt(w) * y,
        intercept=False,
    )
    rows = pr.fit(scaled, "closed_form")
    np.testing.assert_allclose(precise.coef.values, rows.coef.values, rtol=1e-12)
    np.testing.assert_allclose(
        precise.std_error.values, rows.std_error.values, rtol=1e-12
    )
