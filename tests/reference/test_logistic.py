"""Logistic regression: R's and Stata's tables, full-precision Newton values, and the score where there are neither.

The log likelihood is concave, so a score of zero at a finite point is the maximum; standard errors are then the inverse
information, computed here in NumPy apart from the package.
"""

from typing import Any

import numpy as np
import pandas as pd
import pytest

import probreg as pr
from probreg.datasets import load_dataset
from probreg.inference import Status

from .cases import (
    Columns,
    binary_counts,
    cases,
    columns_of,
    in_order,
    rounds_to,
    softmax_certificate,
)

SEPARATED = {
    "logistic/complete_separation_6rows": "complete",
    "tables/logistic/endometrial_separation": "quasi",
}
PROBIT = "tables/logistic/spector_probit"  # without results
ALL = [n for n in cases("logistic", "tables/logistic") if n != PROBIT]
FINITE = [n for n in ALL if n not in SEPARATED]
FULL = 1e-9  # the collection's tolerance against full precision
PRINT = 1e-6  # and against print, where print has the digits
STATSMODELS = 1e-7  # full-precision values of a general program, which stops at a tolerance of its own
R_GLM = 0.02  # of half a unit: R stops at a relative change of 1e-8 in the deviance, at which a last digit may turn


def model(case: dict[str, Any]) -> tuple[Columns, pr.Model]:
    d = case["design"]
    columns = columns_of(d["X"], d["columns"])
    arguments = columns.arguments | {
        "likelihood": pr.Bernoulli(),
        "trials": d.get("trials"),
    }
    return columns, pr.Model.from_arrays(columns.X, np.array(d["y"]), **arguments)


def newton(case: dict[str, Any]) -> tuple[Columns, pr.Fit]:
    columns, m = model(case)
    return columns, pr.fit(m, "newton")


def deviances(case: dict[str, Any], fit: pr.Fit) -> tuple[float, float, float]:
    """Residual and null deviance and AIC, as R counts them: against the saturated model of the rows."""
    from scipy.special import gammaln, xlogy

    d = case["design"]
    y = np.array(d["y"])
    t = np.array(d.get("trials") or np.ones_like(y))
    saturated = float((xlogy(y, y / t) + xlogy(t - y, 1 - y / t)).sum())
    coefficients = float((gammaln(t + 1) - gammaln(y + 1) - gammaln(t - y + 1)).sum())
    p = y.sum() / t.sum()
    null = float(xlogy(y, p).sum() + xlogy(t - y, 1 - p).sum())
    k = fit.model.shape[0]
    return (
        2 * (saturated + coefficients - fit.log_likelihood),
        2 * (saturated - null),
        2 * k - 2 * fit.log_likelihood,
    )


@pytest.mark.parametrize("name", FINITE)
def test_the_score_vanishes(name: str, certified: Any) -> None:
    """Within 1e-7 standard errors of the maximum by a score computed apart. 1e-7 and not the 1e-8 at which Newton stops,
    because the columns of star98 have a condition number of 1e9, which leaves that many digits to a score on raw
    columns; standard errors to 1e-6 for the same reason."""
    case = certified(name)
    columns, fit = newton(case)
    assert fit.solution.status is Status.CONVERGED
    counts = binary_counts(case["design"]["y"], case["design"].get("trials"))
    decrement, se, _ = softmax_certificate(
        columns.full, counts, in_order(fit.coef, columns)[:, None]
    )
    assert decrement < 1e-7
    np.testing.assert_allclose(in_order(fit.std_error, columns), se[:, 0], rtol=1e-6)


@pytest.mark.parametrize("name", ["logistic/admit_logit", "logistic/challenger_binary"])
def test_full_precision(name: str, certified: Any) -> None:
    """Newton's curvature is that of the point before its last step, which is up to 1e-8 standard errors away: standard
    errors have eight digits by default, and all that were asked for when the search is told to go on."""
    case = certified(name)
    known = case["crosscheck"]
    columns, fit = newton(case)
    np.testing.assert_allclose(
        in_order(fit.coef, columns), known["newton_coef"], rtol=FULL
    )
    np.testing.assert_allclose(
        in_order(fit.std_error, columns), known["newton_se"], rtol=1e-8
    )
    further = pr.fit(fit.model, pr.Newton(tol=1e-12))
    np.testing.assert_allclose(
        in_order(further.coef, columns), known["newton_coef"], rtol=FULL
    )
    np.testing.assert_allclose(
        in_order(further.std_error, columns), known["newton_se"], rtol=FULL
    )


@pytest.mark.parametrize(
    "name", ["logistic/budworm_interaction", "logistic/infert_model1"]
)
def test_another_program(name: str, certified: Any) -> None:
    case = certified(name)
    known = case["crosscheck"]["full_precision"]
    columns, fit = newton(case)
    np.testing.assert_allclose(
        in_order(fit.coef, columns), known["coef"], rtol=STATSMODELS
    )
    np.testing.assert_allclose(
        in_order(fit.std_error, columns), known["se"], rtol=STATSMODELS
    )


@pytest.mark.parametrize(
    "name", ["logistic/budworm_interaction", "logistic/infert_model1"]
)
def test_tables_of_r(name: str, certified: Any) -> None:
    case = certified(name)
    columns, fit = newton(case)
    coef, se = in_order(fit.coef, columns), in_order(fit.std_error, columns)
    for i, row in enumerate(case["columns"]):
        printed = case["printed"][row]
        for what, value in (
            ("estimate", coef[i]),
            ("se", se[i]),
            ("stat", coef[i] / se[i]),
        ):
            assert rounds_to(value, printed[what], slack=R_GLM), (
                row,
                what,
                value,
                printed[what],
            )
    residual, null, aic = deviances(case, fit)
    assert rounds_to(residual, case["printed_stats"]["deviance"]["value"])
    assert rounds_to(null, case["printed_stats"]["null_deviance"]["value"])
    assert rounds_to(aic, case["printed_stats"]["aic"])


def test_admission(certified: Any) -> None:
    """GLM.jl stops at its own tolerance, 1e-7 of the coefficients by the file; R prints standard errors to six places."""
    case = certified("logistic/admit_logit")
    columns, fit = newton(case)
    printed = case["reference"]
    np.testing.assert_allclose(in_order(fit.coef, columns), printed["coef"], rtol=2e-7)
    np.testing.assert_allclose(
        in_order(fit.std_error, columns), printed["se_R_printed"], atol=PRINT
    )
    residual, null, aic = deviances(case, fit)
    assert residual == pytest.approx(printed["deviance"], rel=FULL)
    assert null == pytest.approx(printed["null_deviance"], rel=FULL)
    assert aic == pytest.approx(printed["aic"], rel=FULL)
    assert fit.log_likelihood == pytest.approx(printed["loglik"], rel=FULL)


def test_spector(certified: Any) -> None:
    """Stata's table. It holds the data in single precision (a GPA of 2.66 is 2.6600000858), so that its maximum is that of
    slightly other data: 1e-6 on coefficients and probabilities, 1e-7 on the log likelihood."""
    case = certified("logistic/spector_logit")
    columns, fit = newton(case)
    printed = case["reference"]
    np.testing.assert_allclose(
        in_order(fit.coef, columns), printed["params"], rtol=PRINT
    )
    np.testing.assert_allclose(
        in_order(fit.std_error, columns), printed["bse"], rtol=PRINT
    )
    order = list(columns.order)
    cov = fit.covariance().sel(param=order, param_=order)
    # a product of two standard errors
    np.testing.assert_allclose(cov, printed["cov_params"], rtol=2e-6)
    assert fit.log_likelihood == pytest.approx(printed["llf"], rel=1e-7)
    np.testing.assert_allclose(fit.predictive().mean(), printed["phat"], atol=PRINT)
    interval = fit.interval(0.95, "wald")
    found = np.column_stack(
        [in_order(interval[end], columns) for end in ("lower", "upper")]
    )
    # printed to seven significant digits
    np.testing.assert_allclose(found, printed["conf_int"], rtol=1e-5)


def test_challenger(certified: Any) -> None:
    """The binary fit as printed, to its four decimals."""
    case = certified("logistic/challenger_binary")
    columns, fit = newton(case)
    np.testing.assert_allclose(
        in_order(fit.coef, columns), case["reference"]["coef"], atol=5.1e-5
    )
    np.testing.assert_allclose(
        in_order(fit.std_error, columns), case["reference"]["se"], atol=5.1e-5
    )


def test_counts_and_rows_agree(certified: Any) -> None:
    """Successes out of trials are the rows they summarise: the same likelihood, so the same fit to Newton's 1e-8."""
    case = certified("tables/logistic/binomial_small_n")
    columns, fit = newton(case)
    y, t = (np.array(case["design"][k], dtype=int) for k in ("y", "trials"))
    rows = np.repeat(columns.X, t, axis=0)
    each = np.concatenate([np.r_[np.ones(a), np.zeros(b - a)] for a, b in zip(y, t)])
    long = pr.fit(
        pr.Model.from_arrays(
            rows, each, **columns.arguments, likelihood=pr.Bernoulli()
        ),
        "newton",
    )
    assert float((np.abs(long.coef - fit.coef) / fit.std_error).max()) < 2e-8
    np.testing.assert_allclose(long.std_error.values, fit.std_error.values, rtol=1e-7)
    table = pd.DataFrame({"x": columns.X[:, 0], "y": y, "t": t})
    named = pr.fit(
        pr.Model.from_formula("p(y, t) ~ x", table, likelihood=pr.Bernoulli()), "newton"
    )
    np.testing.assert_allclose(named.coef.values, fit.coef.values, rtol=1e-12)


@pytest.mark.parametrize("name", list(SEPARATED))
def test_separation_is_named(name: str, certified: Any) -> None:
    """No maximum: a warning with the columns, nan where there is no estimate, and never an interval or a prediction."""
    columns, m = model(certified(name))
    with pytest.warns(pr.ProbregWarning, match=f"{SEPARATED[name]}.*separation by"):
        fit = pr.fit(m, "newton")
    assert fit.solution.status is Status.NO_MAXIMUM
    assert fit.coef.isnull().any()
    with pytest.raises(pr.NotConverged):
        fit.interval()
    with pytest.raises(pr.NotConverged):
        fit.predict()
    with pytest.raises(pr.NotConverged, match="separation"):
        pr.fit(m, "newton", strict=True)
    cured = pr.fit(m.with_prior({c: pr.Normal(2.5) for c in columns.order}), "newton")
    assert cured.solution.status is Status.CONVERGED
    counts = binary_counts(m.design.y)
    decrement, se, _ = softmax_certificate(
        columns.full,
        counts,
        in_order(cured.coef, columns)[:, None],
        precision=1 / 2.5**2,
    )
    assert decrement < 1e-7  # ten times what Newton stops at
    np.testing.assert_allclose(in_order(cured.std_error, columns), se[:, 0], rtol=1e-6)


def test_the_separating_column_is_nv(certified: Any) -> None:
    """Endometrial cancer: only NV runs away; the others keep the estimates they have in its limit."""
    columns, m = model(certified("tables/logistic/endometrial_separation"))
    with pytest.warns(pr.ProbregWarning, match="separation by NV"):
        fit = pr.fit(m, "newton")
    assert list(fit.coef["coef"].values[fit.coef.isnull().values]) == ["NV"]
    # In the limit the rows with NV = 1 fit perfectly and drop out.
    keep = columns.X[:, 0] == 0
    rest = pr.Model.from_arrays(
        columns.X[keep, 1:],
        m.design.y[keep],
        columns=columns.names[1:],
        likelihood=pr.Bernoulli(),
    )
    limit = pr.fit(rest, "newton")
    for c in ("Intercept", *columns.names[1:]):
        # The runaway stops at a finite point, where the rows with NV = 1 still pull by exp(-eta): a loose 1e-3.
        assert float(fit.coef.sel(coef=c)) == pytest.approx(
            float(limit.coef.sel(coef=c)), rel=1e-3
        )


def test_probit_of_spector_and_mazzeo() -> None:
    """Greene, Econometric Analysis (2003), table 21.1: three digits; and the score, computed apart, is zero."""
    from scipy.stats import norm

    data = load_dataset("spector")
    model = pr.Model.from_formula(
        "grade ~ gpa + tuce + psi", data, likelihood="bernoulli(link=probit)"
    )
    fit = pr.fit(model, pr.Newton(tol=1e-12))
    np.testing.assert_allclose(fit.coef, [-7.452, 1.626, 0.052, 1.426], atol=6e-4)
    X, y = model.design.X, model.design.y
    eta = X @ np.asarray(fit.coef)
    p = norm.cdf(eta)
    score = X.T @ ((y - p) * norm.pdf(eta) / (p * (1 - p)))
    np.testing.assert_allclose(score, 0.0, atol=1e-9)


# R 4.2.2, glm(cbind(k, n - k) ~ x, binomial(link), control = glm.control(epsilon = 1e-14)): estimates, errors by the expected
# information, log-likelihood and the first and the last fitted value
LINKS = {
    # Milicer & Szczotka 1966: the age of girls of Warsaw, their number and how many of them menstruated
    "probit": (
        "9.21 10.21 10.58 10.83 11.08 11.33 11.58 11.83 12.08 12.33 12.58 12.83 13.08 13.33 13.58 13.83 14.08 14.33 14.58 14.83 "
        "15.08 15.33 15.58 15.83 17.58",
        "376 200 93 120 90 88 105 111 100 93 100 108 99 106 105 117 98 97 120 102 122 111 94 114 1049",
        "0 0 0 2 2 5 10 17 16 29 39 51 47 67 81 88 79 90 113 95 117 107 92 112 1049",
        [-11.8189417584736, 0.907823069142258],
        [0.387016295139809, 0.029553402329376],
        -53.4696175960077,
        [0.000272210506503623, 0.999982679150791],
    ),
    # Bliss 1935: log10 of the dose, beetles and how many of them died
    "cloglog": (
        "1.6907 1.7242 1.7552 1.7842 1.8113 1.8369 1.8610 1.8839",
        "59 60 62 56 63 59 62 60",
        "6 13 18 28 52 53 61 60",
        [-39.5723106060676, 22.0411698207188],
        [3.24027262054389, 1.79935519146943],
        -14.8222384750585,
        [0.0947364319860659, 0.999120420041735],
    ),
}


@pytest.mark.parametrize("link", LINKS)
def test_links_of_r(link):
    x, n, k, beta, errors, log_likelihood, fitted = LINKS[link]
    x, n, k = (np.array(v.split(), dtype=float) for v in (x, n, k))
    likelihood = pr.Binomial(link=link)
    data = {"x": x, "n": n, "k": k}
    fit = pr.fit(pr.Model.from_formula("p(k, n) ~ x", data, likelihood=likelihood))
    np.testing.assert_allclose(fit.coef, beta, atol=1e-6 * min(errors), rtol=0)
    expected = np.sqrt(np.diagonal(fit.covariance("expected")))
    np.testing.assert_allclose(expected, errors, rtol=1e-5)
    assert fit.log_likelihood == pytest.approx(log_likelihood, abs=1e-8)
    mean = np.asarray(fit.predict(prob=None)["mean"])
    np.testing.assert_allclose(mean[[0, -1]], fitted, rtol=1e-8)
