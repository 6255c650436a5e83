"""Published fits of multilevel models: criteria to 1e-8, estimates to the digits that were printed.

Sources: Bates et al. 2015 and the manual of lme4 (sleepstudy REML, cbpp), MixedModels.jl test/pls.jl and test/pirls.jl (ML, Dyestuff,
cbpp by Laplace), statsmodels (standard errors of REML).
"""

import csv
from typing import Any

import numpy as np
import pytest

import probreg as pr
from probreg.inference.exact.evidence_problem import EvidenceProblem
from probreg.model.model import Model
from probreg.priors import LKJ, Covariance
from tests.conftest import reference_path


def table(name: str, labels: tuple[str, ...]) -> dict[str, Any]:
    with open(reference_path(f"multilevel/{name}.csv")) as file:
        rows = list(csv.DictReader(file))
    return {k: [r[k] if k in labels else float(r[k]) for r in rows] for k in rows[0]}


def sleepstudy(bars: str) -> Model:
    return Model.from_formula(
        f"Reaction ~ Days + (Days {bars} Subject)", table("sleepstudy", ("Subject",))
    )


def cbpp() -> Model:
    data = table("cbpp", ("herd", "period"))
    return Model.from_formula(
        "p(incidence, size) ~ period + (1 | herd)", data, likelihood="binomial"
    )


def found(model: Model, criterion: Any = "REML") -> tuple[float, np.ndarray]:
    """-2 times the criterion, and the standard deviations, with tanh of what is a correlation's coordinate."""
    top = EvidenceProblem(model, False, criterion=criterion).maximise(300)
    return -2.0 * top.at.evidence, np.exp(top.theta)


def head(fit: pr.Fit, flat: int) -> tuple[np.ndarray, np.ndarray]:
    return fit.solution.beta[:flat, 0], np.sqrt(
        fit.solution.covariance.diagonal()[:flat]
    )


def test_sleepstudy_by_restricted_likelihood():
    criterion, v = found(sleepstudy("|"))
    assert criterion == pytest.approx(1743.6282719, rel=1e-8)
    # as printed
    np.testing.assert_allclose(v[[0, 1, 3]], [24.741, 5.922, 25.592], atol=6e-4)
    assert np.tanh(np.log(v[2])) == pytest.approx(0.07, abs=5e-3)
    beta, se = head(pr.fit(sleepstudy("|")), 2)
    np.testing.assert_allclose(beta, [251.405, 10.467], atol=6e-4)
    np.testing.assert_allclose(se, [6.825, 1.546], atol=6e-4)


def test_sleepstudy_by_likelihood():
    criterion, v = found(sleepstudy("|"), "ML")
    assert criterion == pytest.approx(1751.9393444637, rel=1e-8)
    np.testing.assert_allclose(v[:2], [23.780664, 5.716845], rtol=1e-5)
    beta, se = head(pr.fit(sleepstudy("|"), pr.Evidence(criterion="ML")), 2)
    np.testing.assert_allclose(beta, [251.40510485, 10.46728596], rtol=1e-8)
    np.testing.assert_allclose(se, [6.632295, 1.502239], rtol=1e-5)


def test_sleepstudy_without_correlation():
    criterion, v = found(sleepstudy("||"), "ML")
    assert criterion == pytest.approx(1752.0032551410, rel=1e-8)
    np.testing.assert_allclose(v, [24.171270, 5.799399, 25.556138], rtol=1e-5)
    _, se = head(pr.fit(sleepstudy("||"), pr.Evidence(criterion="ML")), 2)
    np.testing.assert_allclose(se, [6.707647, 1.519311], rtol=1e-5)


def test_dyestuff():
    model = Model.from_formula("Yield ~ (1 | Batch)", table("Dyestuff", ("Batch",)))
    criterion, v = found(model, "ML")
    assert criterion == pytest.approx(327.3270598811, rel=1e-8)
    np.testing.assert_allclose(v, [37.260344, 49.510100], rtol=1e-6)
    _, se = head(pr.fit(model, pr.Evidence(criterion="ML")), 1)
    assert se[0] == pytest.approx(17.694553, rel=1e-6)
    criterion, _ = found(model)
    assert criterion == pytest.approx(319.6542768423, rel=1e-8)
    _, se = head(pr.fit(model), 1)
    assert se[0] ** 2 == pytest.approx(375.716710, rel=1e-6)


def test_cbpp_by_laplace():
    criterion, v = found(cbpp(), "ML")
    assert criterion == pytest.approx(2.0 * 92.02628187, rel=1e-8)
    assert v[0] == pytest.approx(0.64226, abs=1e-5)
    beta, _ = head(pr.fit(cbpp(), pr.Evidence(criterion="ML")), 4)
    np.testing.assert_allclose(beta, [-1.3985, -0.9923, -1.1287, -1.5803], atol=6e-5)


@pytest.mark.slow
def test_cbpp_by_nine_points():
    fit = pr.fit(cbpp(), pr.Evidence(criterion="ML", points=9))
    np.testing.assert_allclose(
        head(fit, 4)[0], [-1.3992, -0.9914, -1.1278, -1.5795], atol=6e-5
    )
    top = EvidenceProblem(cbpp(), False, criterion="ML", points=9).maximise(300)
    assert np.exp(top.theta[0]) == pytest.approx(0.6475, abs=6e-5)


def test_sleepstudy_integrated():
    prior = {"Days | Subject": Covariance(sd=pr.HalfNormal(50.0), cor=LKJ(2.0))}
    solution = pr.fit(sleepstudy("|").with_prior(prior), "integrate").solution
    assert np.sqrt(solution.covariance.diagonal()[1]) == pytest.approx(1.727, abs=6e-3)
