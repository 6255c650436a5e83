"""Checks, diagnostics and theorems that do not apply give the reason, and rare findings have their verdict."""

from typing import Any

import numpy as np
import pandas as pd
import pytest

import probreg as pr
from probreg.diagnostics.after.base import DIAGNOSTICS
from probreg.diagnostics.after.dispersion import zero_surplus
from probreg.diagnostics.after.fit_arrays import arrays_of_fit
from probreg.diagnostics.findings import Verdict

from .test_refused_questions import GP, ROWS, SIGMA, TWO, fitted, model

STEPS = pd.DataFrame({"x": np.r_[np.zeros(38), np.arange(1.0, 7.0)], "e": np.arange(44) % 3 == 0})  # fmt: skip
MATRIX = pr.Normal(precision_matrix=((3.0, 1.0), (1.0, 2.0)))


def sentence(findings: Any, check: str) -> str:
    (found,) = [f for f in findings.items if f.check == check]
    return str(found.sentence)


SKIPPED = {
    "dispersion": (lambda: fitted("k ~ x", likelihood="poisson", weights=np.full(60, 20_000)), "more than 1,000,000 observations"),
    "group_effects": (lambda: fitted("y ~ x + (1 | many)", prior={"x": pr.Laplace(1.0), "1 | many": pr.Covariance(1.0)}, aux=SIGMA), "no standard errors"),
    "calibration": (lambda: fitted("e ~ h", likelihood="bernoulli"), "three different predictions or fewer"),
    "linearity": (lambda: fitted("y ~ s(x, k=5) + z", prior={"s(x, k=5)": pr.Normal(1.0), "z": pr.Laplace(1.0)}, aux=SIGMA), "needs normal priors"),
}  # fmt: skip


@pytest.mark.filterwarnings("ignore::probreg.errors.ProbregWarning")
@pytest.mark.parametrize("check", SKIPPED)
def test_a_diagnostic_that_does_not_apply_says_why(check):
    make, words = SKIPPED[check]
    assert words in sentence(pr.diagnose(make(), skipped=True), check)


def test_many_log_likelihoods_are_left_to_the_method():
    fit = fitted("y ~ x", pr.Quadrature(draws=300), weights=np.full(60, 300))
    (finding,) = DIAGNOSTICS["loo"]().run(fit)
    assert "21,600,000 log-likelihoods take long" in str(finding.sentence)


@pytest.mark.parametrize(
    ("formula", "null"),
    [
        (f"y ~ {GP}", "not constant"),
        ("y ~ s(x, bs='cc')", "not constant"),
        (f"y ~ s(x) + {GP.replace('x', 'z')}", "the span of its flat columns"),
    ],
)
def test_the_null_of_a_function_is_the_span_of_its_flat_columns(formula, null):
    assert null in sentence(pr.diagnose(fitted(formula)), "linearity")


def test_calibration_needs_more_than_a_few_predictions():
    fit = pr.fit(pr.Model.from_formula("e ~ x", STEPS, likelihood="bernoulli"))
    assert sentence(pr.diagnose(fit), "calibration") == "too few different predictions"


def test_one_of_two_tests_of_dispersion_is_named():
    rng = np.random.default_rng(8)
    x = rng.normal(size=70)
    y = rng.negative_binomial(4, 4 / (4 + np.exp(0.5 * x + 1)))
    found = pr.diagnose(pr.fit(pr.Model.from_arrays(x, y, likelihood="poisson")))
    assert "overdispersion by one of two tests" in sentence(found, "dispersion")


def test_the_error_of_the_zeros_of_a_negative_binomial_is_that_of_its_samples():
    """Beside an estimated alpha the observed information may leave no variance, and z was millions."""
    rng = np.random.default_rng(0)
    y = np.where(rng.random(80) < 0.6, 0, rng.poisson(30, 80))
    model = pr.Model.from_arrays(np.zeros((80, 0)), y, likelihood="negative_binomial")
    fit = pr.fit(model)
    surplus = float(zero_surplus(arrays_of_fit(fit))[0])
    (finding,) = [f for f in pr.diagnose(fit).items if f.check == "zeros"]
    n, p = 1.0 / fit.aux["alpha"], np.exp(fit.coef.values[0])
    samples = [rng.negative_binomial(n, n / (n + p), 80) for _ in range(60)]
    refits = [pr.fit(pr.Model.from_arrays(np.zeros((80, 0)), s, likelihood="negative_binomial")) for s in samples]  # fmt: skip
    sd = np.std([zero_surplus(arrays_of_fit(f))[0] for f in refits])
    # 60 samples have a relative error of 9 %, and 80 rows are few
    assert surplus / finding.statistic == pytest.approx(sd, rel=0.4)


CHECKS = {
    "event of a prior": ("event", lambda: model("e ~ x", likelihood="bernoulli", weights=ROWS.e.to_numpy(), prior=TWO), "no observation of e = 0 has a positive weight"),
    "event of trials": ("event", lambda: model("p(n, n) ~ x", likelihood="binomial", prior=TWO), "no observation of n of n = failure"),
    "scale": ("scale", lambda: model("y ~ far", ROWS.assign(far=1e4 * ROWS.x), prior=pr.Normal(3.0, sigma_units=True)), "sigma"),
}  # fmt: skip


@pytest.mark.parametrize("name", CHECKS)
def test_a_rare_finding_of_a_model_has_its_verdict(name):
    check, make, words = CHECKS[name]
    findings = [f for f in pr.check(make()).items if f.check == check]
    assert words in str(findings[0].sentence)
    assert findings[0].verdict > Verdict.OK


def test_thousands_of_levels_beside_other_columns_are_of_full_rank():
    n = 2500
    rng = np.random.default_rng(0)
    data = {"g": np.repeat([f"g{i}" for i in range(n)], 2), "x": rng.normal(size=2 * n), "y": rng.normal(size=2 * n)}  # fmt: skip
    found = pr.check(pr.Model.from_formula("y ~ C(g) + x", data))
    (finding,) = [f for f in found.items if f.check == "rank"]
    assert finding.verdict is Verdict.OK


THEOREMS = {
    "learned columns": (lambda: fitted("y ~ 0 + scale(x)", prior=pr.Normal(1.0), aux=SIGMA), {}, "the columns of .* depend on these rows"),
    "a posterior": (lambda: fitted("y ~ 0 + x", "conjugate", prior=pr.Normal(1.0), aux=SIGMA), {"chosen_from": 1, "row_norm": 5.0}, "not a converged mode"),
    "a nonlinear mean": (lambda: fitted("e ~ x", pr.LaplaceApproximation(draws=20), likelihood="bernoulli", prior=pr.Normal(1.0)), {}, "a posterior mean under a nonlinear link"),
    "few rows": (lambda: pr.fit(pr.Model.from_arrays(np.random.default_rng(0).normal(size=(10, 12)), np.arange(10.0), prior=pr.Normal(1.0), aux=SIGMA,
        intercept=False)), {}, r"fewer rows \(10\) than columns \(12\)"),
}  # fmt: skip


@pytest.mark.parametrize("name", THEOREMS)
def test_a_theorem_that_does_not_apply_says_why(name):
    make, options, words = THEOREMS[name]
    fit = make()
    if not fit.model.likelihood.binary:
        options = {"y_range": (-20.0, 20.0), **options}
    text = " ".join(str(pr.guarantee(fit, **options)).split())
    assert pd.Series([text]).str.contains(words)[0]


def test_the_ball_of_a_correlated_prior_is_in_its_metric():
    X = np.random.default_rng(0).normal(size=(40, 2))
    y = X @ [0.5, -0.2] + np.random.default_rng(1).normal(size=40)
    P = np.array(MATRIX.precision_matrix)
    root = np.linalg.cholesky(np.linalg.inv(P))
    found = []
    for columns, prior in ((X, MATRIX), (X @ root, pr.Normal(1.0))):
        fit = pr.fit(pr.Model.from_arrays(columns, y, prior=prior, aux=SIGMA, intercept=False))  # fmt: skip
        lines = pr.guarantee(fit, (-9.0, 9.0), chosen_from=1).lines
        found.append([b.bound.value for b in lines if b.theorem.startswith("PAC") and b.bound])  # fmt: skip
    assert found[0]
    np.testing.assert_allclose(*found, rtol=1e-8)


def test_a_constant_truth_is_a_mean_for_every_row():
    poisson = model("k ~ x", likelihood="poisson")
    a = pr.bias_variance(poisson, lambda table: 2.0, reps=5)
    b = pr.bias_variance(poisson, [np.log(2.0), 0.0], reps=5)
    np.testing.assert_allclose(a.data["error"], b.data["error"], rtol=1e-9)


def test_a_data_set_without_an_estimate_is_counted():
    rng = np.random.default_rng([0, 0])
    x = rng.normal(size=30)  # the noise of the first data set, which x then reproduces
    found = pr.bias_variance(
        pr.Model.from_arrays(x, x + rng.normal(size=30)),
        pr.Truth([0.0, 1.0], SIGMA), method="newton", reps=4,
    )  # fmt: skip
    assert int(found.average["failed"]) == 1


def test_rows_for_calibration_may_be_a_table_with_the_response():
    fit = pr.fit(pr.Model.from_arrays(ROWS[["x"]].to_numpy(), ROWS.y.to_numpy()))
    data = ROWS[:20].rename(columns={"x": "x1"})
    by_table = pr.conformal(fit, data[["x1", "y"]])
    by_arrays = pr.conformal(fit, data[["x1"]].to_numpy(), y=data.y.to_numpy())
    assert by_table.most == by_arrays.most


def test_a_page_of_every_finding_is_one_table():
    found = pr.diagnose(fitted("y ~ x"), verbose=True)
    html = found._repr_html_()
    assert html.count("<table") == 1
    assert html.count("<tr") == len(found.items) + 1
