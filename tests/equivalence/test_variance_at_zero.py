"""The test that a standard deviation of effects by group is zero, against two fits and against its law."""

# ruff: noqa: F401, F811  fixtures of another file

import numpy as np
import pandas as pd
import pytest
from scipy.stats import chi2

import probreg as pr
from probreg.comparison.hypotheses.dispatch import mixture_p
from probreg.errors import DataError, Incompatible
from tests.equivalence.test_group_prediction import DATA, chance, posterior

SLEEP = pr.load_dataset("sleepstudy").rename(columns=str.capitalize)
DAYS = "sd(Days | Subject) = 0"


def fit(formula: str, criterion: str = "REML", data: pd.DataFrame = SLEEP) -> pr.Fit:
    return pr.fit(
        pr.Model.from_formula(formula, data), pr.Evidence(criterion=criterion)
    )


def test_the_ratio_is_that_of_two_fits():
    # 1794.0786 - 1751.9393 of lme4's deviances by ML
    whole = fit("Reaction ~ Days + (Days | Subject)", "ML")
    found = pr.hypothesis(whole, DAYS)
    assert abs(found["LR"].statistic - 42.1393) < 1e-3
    np.testing.assert_allclose(
        found["LR"].p, 0.5 * (chi2.sf(42.1393, 1) + chi2.sf(42.1393, 2)), rtol=1e-3
    )
    less = fit("Reaction ~ Days + (1 | Subject)", "ML")
    gap = 2 * (
        whole.solution.stats["log_likelihood_of_scales"]
        - less.solution.stats["log_likelihood_of_scales"]
    )
    np.testing.assert_allclose(found["LR"].statistic, gap, rtol=1e-6)


def test_independent_effects_have_half_a_chi_square():
    found = pr.hypothesis(fit("Reaction ~ Days + (Days || Subject)"), DAYS)
    np.testing.assert_allclose(
        found["RLRT"].p, 0.5 * chi2.sf(found["RLRT"].statistic, 1), rtol=1e-9
    )
    assert found.null == "sd(Days | Subject) = 0"
    np.testing.assert_allclose(found.estimates["estimate"], 5.98817, rtol=1e-4)


def test_a_ratio_of_zero_has_probability_one():
    assert mixture_p(0.0, 0) == mixture_p(0.0, 1) == 1.0
    assert mixture_p(3.0, 1) > mixture_p(3.0, 0)


def test_chances_by_laplace(chance):
    found = pr.hypothesis(chance, "sd(Intercept | g) = 0")
    plain = pr.fit(
        pr.Model.from_formula("happened ~ x", DATA, likelihood="bernoulli"), "newton"
    )
    V = plain.covariance().values
    evidence = plain.log_likelihood + np.log(2 * np.pi) + 0.5 * np.linalg.slogdet(V)[1]
    gap = chance.solution.stats["log_evidence"] - evidence
    np.testing.assert_allclose(found["RLRT"].statistic / 2, gap, rtol=1e-6)
    assert any("Laplace" in note for note in found.notes)


def test_what_has_no_such_test_is_refused(posterior):
    whole = fit("Reaction ~ Days + (Days || Subject)")
    with pytest.raises(
        DataError,
        match=r"scales are: sd\(Intercept \| Subject\), sd\(Days \| Subject\)",
    ):
        pr.hypothesis(whole, "sd(x | Subject) = 0")
    with pytest.raises(Incompatible, match="posterior probability zero"):
        pr.hypothesis(posterior, "sd(Intercept | g) = 0")
    plain = pr.fit(pr.Model.from_formula("Reaction ~ Days", SLEEP))
    with pytest.raises(DataError, match=r"this fit has no sd\("):
        pr.hypothesis(plain, DAYS)
