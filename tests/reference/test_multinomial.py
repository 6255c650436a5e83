"""Softmax regression against a reference class: published tables, full-precision Newton values, and the score."""

from typing import Any

import numpy as np
import pytest

import probreg as pr
from probreg.inference import Status

from .cases import Columns, cases, columns_of, expanded, in_order, softmax_certificate

SEPARATED = ["tables/multinomial/hepatitis_separation"]
FINITE = [n for n in cases("multinomial", "tables/multinomial") if n not in SEPARATED]
FULL = 1e-9  # the collection's tolerance against full precision
MULTINOM = 1e-4  # nnet::multinom stops at a relative change of 1e-8 in the deviance: 6e-5 off by the file


def model(
    case: dict[str, Any], counts: Any = None
) -> tuple[Columns, np.ndarray, pr.Model]:
    d = case["design"]
    columns, counts = (
        columns_of(d["X"], d["columns"]),
        np.array(d["counts"] if counts is None else counts),
    )
    X, y, weights = expanded(columns.X, counts, d["classes"])
    arguments = columns.arguments | {
        "likelihood": pr.Categorical(),
        "reference": d["classes"][0],
    }
    return columns, counts, pr.Model.from_arrays(X, y, weights=weights, **arguments)


def newton(case: dict[str, Any]) -> tuple[Columns, np.ndarray, pr.Fit]:
    columns, counts, m = model(case)
    return columns, counts, pr.fit(m, "newton")


def by_class(values: Any, columns: Columns, case: dict[str, Any]) -> np.ndarray:
    """(p, K - 1) in the order of the file; the reference class has no column."""
    return in_order(values.sel(outcome=case["design"]["classes"][1:]), columns)


@pytest.mark.parametrize("name", FINITE)
def test_the_score_vanishes(name: str, certified: Any) -> None:
    """Within 1e-7 standard errors of the maximum by a score computed apart, ten times what Newton stops at."""
    case = certified(name)
    columns, counts, fit = newton(case)
    assert fit.solution.status is Status.CONVERGED
    decrement, se, cov = softmax_certificate(
        columns.full, counts, by_class(fit.coef, columns, case)
    )
    assert decrement < 1e-7
    np.testing.assert_allclose(by_class(fit.std_error, columns, case), se, rtol=1e-7)
    names = [f"{c}: {k}" for k in case["design"]["classes"][1:] for c in columns.order]
    mine = fit.covariance().sel(param=names, param_=names).values
    np.testing.assert_allclose(
        mine / np.outer(se.T, se.T), cov / np.outer(se.T, se.T), atol=1e-7
    )


@pytest.mark.parametrize("name", cases("multinomial"))
def test_full_precision(name: str, certified: Any) -> None:
    case = certified(name)
    columns, _, fit = newton(case)
    known = case["crosscheck"]
    coef, se = (
        by_class(fit.coef, columns, case).T,
        by_class(fit.std_error, columns, case).T,
    )
    np.testing.assert_allclose(coef, known["newton_coef"], rtol=FULL)
    np.testing.assert_allclose(se, known["newton_se"], rtol=FULL)
    deviance = known.get("ml_deviance", known.get("deviance"))
    assert -2 * fit.log_likelihood == pytest.approx(deviance, rel=FULL)


def test_alligators(certified: Any) -> None:
    """Agresti's Table 7.4 to its two decimals."""
    case = certified("multinomial/alligators")
    columns, _, fit = newton(case)
    for k in case["design"]["classes"][1:]:
        for values, printed in ((fit.coef, "ml_coef"), (fit.std_error, "ml_se")):
            found = in_order(values.sel(outcome=k), columns)
            np.testing.assert_allclose(
                found, case["reference"][printed][k], atol=0.005 + 1e-9
            )


def test_high_school(certified: Any) -> None:
    """nnet::multinom's table, which writes `vocation` for the class vocational."""
    case = certified("multinomial/hsb_program")
    columns, _, fit = newton(case)
    for k, its in {"general": "general", "vocational": "vocation"}.items():
        np.testing.assert_allclose(
            in_order(fit.coef.sel(outcome=k), columns),
            case["reference"]["coef"][its],
            rtol=MULTINOM,
        )
        np.testing.assert_allclose(
            in_order(fit.std_error.sel(outcome=k), columns),
            case["reference"]["se"][its],
            rtol=MULTINOM,
        )
    assert -2 * fit.log_likelihood == pytest.approx(
        case["reference"]["deviance"], abs=5.1e-5
    )  # four decimals
    assert 2 * 8 - 2 * fit.log_likelihood == pytest.approx(
        case["reference"]["aic"], abs=5.1e-5
    )


@pytest.mark.parametrize("name", cases("multinomial"))
def test_another_reference_class_is_the_same_model(name: str, certified: Any) -> None:
    """Coefficients against another class are differences of these; likelihood and probabilities stay, to Newton's 1e-8."""
    case = certified(name)
    columns, _, fit = newton(case)
    d, last = case["design"], case["design"]["classes"][-1]
    X, y, weights = expanded(columns.X, np.array(d["counts"]), d["classes"])
    arguments = columns.arguments | {
        "likelihood": pr.Categorical(),
        "reference": last,
        "weights": weights,
    }
    other = pr.fit(pr.Model.from_arrays(X, y, **arguments), "newton")
    assert other.log_likelihood == pytest.approx(fit.log_likelihood, rel=1e-12)
    for k in d["classes"][1:-1]:
        difference = fit.coef.sel(outcome=k) - fit.coef.sel(outcome=last)
        np.testing.assert_allclose(
            other.coef.sel(outcome=k), difference, rtol=1e-6, atol=1e-7
        )


def flagged(m: pr.Model, columns: str) -> pr.Fit:
    with pytest.warns(pr.ProbregWarning, match=f"separation by.*{columns}"):
        fit = pr.fit(m, "newton")
    assert fit.solution.status is Status.NO_MAXIMUM
    with pytest.raises(pr.NotConverged):
        fit.interval()
    return fit


def test_hepatitis_has_no_maximum(certified: Any) -> None:
    """No case of class C where blood was withheld before the test came: withhold and its interaction run away in C."""
    columns, counts, m = model(certified("tables/multinomial/hepatitis_separation"))
    fit = flagged(m, "withhold")
    lost = fit.coef.isnull().sel(outcome="C")
    assert list(lost["coef"].values[lost.values]) == ["withhold", "withhold:post"]
    assert not fit.coef.sel(outcome="nonABC").isnull().any()
    # The model is saturated: the finite coefficients are log odds of cells.
    odds = np.log(counts[:, 2] / counts[:, 0])
    certain = [
        odds[0],
        odds[2] - odds[0],
        odds[1] - odds[0],
        odds[3] - odds[2] - odds[1] + odds[0],
    ]
    np.testing.assert_allclose(
        in_order(fit.coef.sel(outcome="nonABC"), columns), certain, rtol=1e-5
    )


def test_sparse_alligators_have_no_maximum(certified: Any) -> None:
    """The thinned counts: infinite estimates for Reptile (intercept and lakes) and Bird (Oklawaha) by the source."""
    case = certified("multinomial/alligators")
    columns, counts, m = model(case, case["reference"]["sparse"]["counts_grouped"])
    lost = flagged(m, "lake").coef.isnull()
    reptile, bird = lost.sel(outcome="Reptile"), lost.sel(outcome="Bird")
    lakes = ["Intercept", "lakeHancock", "lakeOklawaha", "lakeTrafford"]
    assert sorted(reptile["coef"].values[reptile.values]) == sorted(lakes)
    assert list(bird["coef"].values[bird.values]) == ["lakeOklawaha"]
    cured = pr.fit(m.with_prior({c: pr.Normal(2.5) for c in columns.order}), "newton")
    decrement, _, _ = softmax_certificate(
        columns.full, counts, by_class(cured.coef, columns, case), precision=1 / 2.5**2
    )
    assert cured.solution.status is Status.CONVERGED
    assert decrement < 1e-7  # ten times what Newton stops at
