"""NIST's linear least squares: as many digits as double precision allows, or a status that says there are none.

Each set is also solved in fractions from its decimal strings, which certifies those that come without results.
Source of the certified values: NIST/ITL Statistical Reference Datasets.
"""

from fractions import Fraction
from typing import Any

import numpy as np
import pytest

import probreg as pr
from probreg.inference import Status

from .cases import LeastSquares, cases, digits, exact_least_squares, fractions

DEGREE = {"Norris": 1, "Pontius": 2, "Filip": 10, "NoInt1": 1, "NoInt2": 1} | {
    f"Wampler{k}": 5 for k in range(1, 6)
}
# Digits of the coefficients that the collection asks for; the other sets are held to what is written beside them.
WANTED = {
    "Longley": 14, "Wampler1": 14, "Wampler3": 14, "Wampler4": 14, "Wampler5": 14, "NoInt1": 14, "NoInt2": 14,
    "Norris": 12, "Pontius": 12, "Wampler2": 13,  # decimals, whose rounding to double moves the solution
    "Filip": 7,  # powers of x up to the tenth, rounded to double, already move the solution in the eighth digit
}  # fmt: skip
ERRORS = 12  # digits of standard errors, but for Filip, whose rounded columns are another problem in the ninth digit
ALL = cases("nist", "tables/nist")


def exact_rows(case: dict[str, Any]) -> list[list[Fraction]]:
    """The columns without the intercept as decimals: powers of x, or x itself where there are several."""
    x = fractions(case["x_str"])
    if isinstance(x[0], list):
        return x
    return [[v**k for k in range(1, DEGREE[case["name"]] + 1)] for v in x]


def truth(case: dict[str, Any]) -> LeastSquares:
    ones = [Fraction(1)] if has_intercept(case) else []
    return exact_least_squares(
        [ones + row for row in exact_rows(case)], fractions(case["y_str"])
    )


def has_intercept(case: dict[str, Any]) -> bool:
    return not case["name"].startswith("NoInt")


def model(case: dict[str, Any]) -> pr.Model:
    X = np.array([[float(v) for v in row] for row in exact_rows(case)])
    return pr.Model.from_arrays(X, np.array(case["y"]), intercept=has_intercept(case))


@pytest.mark.parametrize("name", cases("nist"))
def test_fractions_reproduce_the_certified_values(name: str, certified: Any) -> None:
    """The judge itself: 14 digits, since the certified values are printed to 15."""
    case = certified(name)
    exact, printed = truth(case), case["certified"]
    assert digits(exact.coef, printed["coef"]).min() >= 14
    assert digits(exact.std_error, printed["sd"]).min() >= 14
    assert digits(exact.residual_sd, printed["residual_sd"]) >= 14


@pytest.mark.parametrize("name", ALL)
def test_closed_form_has_the_digits(name: str, certified: Any) -> None:
    case = certified(name)
    exact, fit = truth(case), pr.fit(model(case), "closed_form")
    assert fit.solution.status is Status.EXACT
    assert digits(fit.coef.values, exact.coef).min() >= WANTED[case["name"]]
    if "certified" in case:
        assert (
            digits(fit.coef.values, case["certified"]["coef"]).min()
            >= WANTED[case["name"]]
        )
    enough = 8 if case["name"] == "Filip" else ERRORS
    assert digits(fit.std_error.values, exact.std_error).min() >= enough
    assert digits(fit.solution.stats["sigma_unbiased"], exact.residual_sd) >= enough
    assert fit.solution.df == exact.df


@pytest.mark.parametrize("factor", ["extended", "double"])
@pytest.mark.parametrize("name", ALL)
def test_the_columns_as_given_are_solved_to_the_last_digits(
    name: str, factor: str, certified: Any, monkeypatch: Any
):
    """Against least squares in fractions of the doubles themselves, on machines with extended precision and without:
    what is left of Filip beside its certified values is the rounding of the powers."""
    if factor == "double":
        monkeypatch.setattr("probreg.linalg.factors.EXTENDED", 0)
        monkeypatch.setattr("probreg.linalg.factors.EXTENDED", 0)
    m = model(certified(name))
    rows, y = fractions(m.design.X.tolist()), fractions(m.design.observed.tolist())
    exact, fit = exact_least_squares(rows, y), pr.fit(m, "closed_form")
    # a condition below 1e3 loses three digits of sixteen at most, and is not refined
    assert digits(fit.coef.values, exact.coef).min() >= (
        14 if factor == "extended" else 12
    )
    assert digits(fit.std_error.values, exact.std_error).min() >= (
        14 if factor == "extended" else 12
    )
    assert digits(fit.solution.stats["rss"], exact.rss) >= 12


@pytest.mark.parametrize("name", cases("nist"))
def test_residual_sum_and_r_squared(name: str, certified: Any) -> None:
    """R^2 about the mean, about zero without an intercept; 12 digits, as RSS has no fewer than the standard errors."""
    case = certified(name)
    fit, printed, y = (
        pr.fit(model(case), "closed_form"),
        case["certified"],
        np.array(case["y"]),
    )
    rss = fit.solution.stats["rss"]
    about = float(((y - (y.mean() if has_intercept(case) else 0.0)) ** 2).sum())
    assert digits(1 - rss / about, printed["r2"]) >= 12
    assert digits(rss, printed["anova"]["res_ss"]) >= 12
    assert fit.solution.df == printed["anova"]["res_df"]


@pytest.mark.parametrize(
    "name",
    [
        n
        for n in ALL
        if n not in ("nist/Wampler1", "nist/Wampler2", "tables/nist/Filip")
    ],
)
def test_newton_agrees(name: str, certified: Any) -> None:
    """Newton stops within 1e-8 standard errors, so it agrees with the closed form to that; where a standard error is
    smaller than its coefficient this is also 1e-8 of the value. Its standard errors use sqrt(RSS/n)."""
    case = certified(name)
    m = model(case)
    closed, newton = pr.fit(m, "closed_form"), pr.fit(m, "newton")
    assert newton.solution.status is Status.CONVERGED
    apart = np.abs(newton.coef - closed.coef) / np.maximum(
        closed.std_error, np.abs(closed.coef)
    )
    assert float(apart.max()) < 1e-8
    rescale = np.sqrt(closed.solution.df / m.design.n)
    assert digits(newton.std_error.values, rescale * closed.std_error.values).min() >= 7
    assert digits(newton.aux["sigma"], closed.aux["sigma"]) >= 8


@pytest.mark.parametrize("name", ["nist/Wampler1", "nist/Wampler2"])
def test_newton_refuses_an_exact_response(name: str, certified: Any) -> None:
    """Without residuals sigma runs to zero and the likelihood to infinity."""
    with pytest.raises(pr.NotConverged, match="reproduce the response exactly"):
        pr.fit(model(certified(name)), "newton")


def test_newton_solves_raw_powers_up_to_the_tenth(certified: Any) -> None:
    """The certified values, to the digits that rounding the powers to double leaves; errors use sqrt(RSS/n)."""
    case = certified("tables/nist/Filip")
    exact, m = truth(case), model(case)
    newton = pr.fit(m, "newton")
    assert newton.solution.status is Status.CONVERGED
    assert digits(newton.coef.values, exact.coef).min() >= WANTED["Filip"]
    assert (
        digits(
            newton.std_error.values / np.sqrt(exact.df / m.design.n), exact.std_error
        ).min()
        >= 7
    )


@pytest.mark.parametrize("name", ALL)
def test_a_repeated_column_is_never_a_silent_number(name: str, certified: Any) -> None:
    """The same set with its first column given twice: identified no more, said so, and the fitted values unharmed."""
    case = certified(name)
    plain = model(case)
    X = np.array([[float(v) for v in row] for row in exact_rows(case)])
    twice = pr.Model.from_arrays(
        np.column_stack([X, 2 * X[:, 0]]),
        np.array(case["y"]),
        intercept=has_intercept(case),
    )
    with pytest.warns(pr.ProbregWarning, match=f"x{X.shape[1] + 1}"):
        fit = pr.fit(twice, "closed_form")
    assert fit.solution.status is Status.NOT_IDENTIFIED
    assert np.isnan(fit.coef.sel(coef=["x1", f"x{X.shape[1] + 1}"])).all()
    scale = np.abs(plain.design.y).max()
    expected = plain.design.X @ pr.fit(plain, "closed_form").solution.beta
    # The sum of squares of Filip's columns runs to 1e16, so that eight digits of its fitted values are left.
    assert np.abs(twice.design.X @ fit.solution.beta - expected).max() < 1e-7 * scale
