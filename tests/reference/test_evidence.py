"""Evidence of Bishop's polynomials: log p(t) by degree at fixed alpha and beta, in 60 digits."""

from typing import Any

import numpy as np
import pytest

import probreg as pr
from probreg.inference.exact.evidence_problem import EvidenceProblem

EXACT = 1e-8


def polynomial(case: dict[str, Any], degree: int, prior: Any) -> pr.Model:
    """All weights under one prior, the constant too, with noise of precision beta."""
    x, fixed = np.arange(10) / 9.0, case["evidence_fixed_alpha_beta"]
    X = x[:, None] ** np.arange(degree + 1)
    names = [f"x^{j}" for j in range(degree + 1)]
    return pr.Model.from_arrays(
        X,
        case["data"]["t"],
        columns=names,
        intercept=False,
        aux={"sigma": fixed["beta"] ** -0.5},
        prior=prior,
    )


@pytest.mark.parametrize("degree", range(10))
def test_evidence_of_polynomials(degree: int, certified: Any) -> None:
    case = certified("bayes_linear_evidence/prml_polynomial")
    fixed = case["evidence_fixed_alpha_beta"]
    if str(degree) not in fixed["by_degree"]:
        pytest.skip(f"the file has no degree {degree}")
    exact, scale = fixed["by_degree"][str(degree)], fixed["alpha"] ** -0.5
    fit = pr.fit(polynomial(case, degree, pr.Normal(scale)), pr.Conjugate(draws=1))
    assert fit.solution.stats["log_evidence"] == pytest.approx(
        exact["log_evidence"], rel=EXACT
    )
    np.testing.assert_allclose(fit.coef.values, exact["posterior_mean"], rtol=EXACT)
    np.testing.assert_allclose(fit.std_error.values, exact["posterior_sd"], rtol=EXACT)
    at = EvidenceProblem(
        polynomial(case, degree, pr.Normal(pr.priors.Reference())), False
    ).surface(np.log([scale]))
    assert at.evidence == pytest.approx(exact["log_evidence"], rel=EXACT)
    assert at.effective.sum() == pytest.approx(exact["gamma_effective"], rel=EXACT)
