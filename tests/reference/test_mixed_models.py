"""Mixed models against the numbers that glmmTMB, lme4 and nlme return."""

from pathlib import Path

import numpy as np
import pandas as pd
import pytest

import probreg as pr
from probreg.inference.base import Status

CSV = Path(__file__).parent / "data" / "csv"
SALAMANDERS = "count ~ spp + mined + (1 | site)"


def read(name: str) -> pd.DataFrame:
    return pd.read_csv(CSV / f"{name}.csv")


# ---- nuisance parameters -----------------------------------------------------------------------------------------------


def test_alpha_of_a_restricted_likelihood_is_at_its_maximum():
    """glmmTMB(count ~ spp + mined + (1 | site), family = nbinom2, REML = TRUE): theta = 0.91325, restricted likelihood -831.725."""
    data = read("salamanders")
    fit = pr.fit(pr.Model.from_formula(SALAMANDERS, data, likelihood="negative_binomial"))
    assert fit.aux["alpha"] == pytest.approx(1.095, abs=5e-4)
    assert fit.solution.stats["log_evidence"] == pytest.approx(-831.725, abs=5e-4)

    def criterion(alpha: float) -> float:
        held = pr.Model.from_formula(SALAMANDERS, data, likelihood="negative_binomial", aux={"alpha": alpha})
        return pr.fit(held).solution.stats["log_evidence"]

    top = fit.solution.stats["log_evidence"]
    assert criterion(fit.aux["alpha"]) == pytest.approx(top, abs=1e-6)
    assert max(criterion(f * fit.aux["alpha"]) for f in (0.9, 0.98, 1.02, 1.1)) < top


def test_sigma_of_student_noise_is_at_the_maximum_of_the_restricted_likelihood():
    data, formula = read("orthodont"), "distance ~ age * Sex + (1 | Subject)"

    def fitted(**aux: float) -> pr.Fit:
        return pr.fit(pr.Model.from_formula(formula, data, likelihood=pr.StudentT(nu=4.0), aux=aux))

    fit = fitted()
    moved = [fitted(sigma=f * fit.aux["sigma"]).solution.stats["log_evidence"] for f in (0.8, 0.97, 1.03, 1.2)]
    assert max(moved) < fit.solution.stats["log_evidence"]


def test_a_nuisance_parameter_without_overdispersion_ends_at_its_limit():
    """Counts that vary less than a Poisson's: the fit is the Poisson fit, and the bend of the smooth function is 0."""
    z, k = np.linspace(0, 10, 80), [3, 4, 5, 4] * 20
    with pytest.warns(pr.errors.ProbregWarning):
        fit = pr.fit(pr.Model.from_formula("k ~ s(z)", {"k": k, "z": z}, likelihood="negative_binomial"))
    poisson = pr.fit(pr.Model.from_formula("k ~ s(z)", {"k": k, "z": z}, likelihood="poisson"))
    assert fit.solution.status is Status.AT_ZERO
    assert fit.solution.hyper["alpha"][0] == 0.0
    np.testing.assert_allclose(fit.coef, poisson.coef, atol=1e-7)
    np.testing.assert_allclose(fit.std_error, poisson.std_error, rtol=1e-6, atol=1e-7)
