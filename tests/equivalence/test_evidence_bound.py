"""The evidence of a process through few anchors is Titsias' lower bound, by whichever door: Evidence, tune, path."""

import numpy as np
import pytest
from scipy.optimize import minimize_scalar
from scipy.stats import multivariate_normal

import probreg as pr
from probreg.inference.exact.evidence_problem import EvidenceProblem

ROWS = {"x": np.array([0.0, 1.0, 2.0, 4.0]), "y": np.array([0.0, 1.0, 0.0, 2.0])}
FEW = "y ~ 0 + gp(x, length=1.0, basis='cholesky', size=2)"
NOISE = 0.1


def model_of(
    prior: pr.priors.Prior, noise: float | None = NOISE, weights: object = None
) -> pr.Model:
    aux = {} if noise is None else {"sigma": noise**0.5}
    return pr.Model.from_formula(
        FEW, ROWS, prior={"gp(x)": prior}, aux=aux, weights=weights
    )


def bound(model: pr.Model, tau: float, noise: float) -> float:
    """log N(y; 0, tau^2 Q + noise I) - tau^2 trace(K - Q) / (2 noise), the definition."""
    Phi = np.asarray(model.design.X)
    Q = tau**2 * Phi @ Phi.T
    return multivariate_normal(cov=Q + noise * np.eye(4)).logpdf(ROWS["y"]) - (
        4 * tau**2 - np.trace(Q)
    ) / (2 * noise)


def test_tune_finds_the_scale_of_the_bound():
    best = (
        pr.fit(model_of(pr.Normal(pr.priors.Reference())), "evidence")
        .model.joint.blocks[-1]
        .prior.scale
    )
    model = model_of(pr.Normal(1.0))
    expected = minimize_scalar(
        lambda tau: -bound(model, tau, NOISE),
        bounds=(0.05, 5.0),
        method="bounded",
        options={"xatol": 1e-9},
    ).x
    assert best == pytest.approx(expected, abs=1e-6)
    assert float(pr.tune(model_of(pr.Normal(1.0)), "evidence").scale) == pytest.approx(
        best, rel=0.05
    )  # one of a grid


@pytest.mark.parametrize("stated", [1.0, 0.5])
@pytest.mark.parametrize("units", [False, True])
def test_path_has_the_bound(stated, units):
    model = model_of(pr.Normal(stated, sigma_units=units))
    tau = stated * (NOISE**0.5 if units else 1.0)
    found = pr.path(model, [0.5, 2.0]).data["log_evidence"].values
    np.testing.assert_allclose(
        found, [bound(model, s * tau, NOISE) for s in (0.5, 2.0)], rtol=1e-9
    )


@pytest.mark.slow
def test_path_has_the_bound_over_an_unknown_sigma():
    """In units of sigma the term has no sigma in it: the same is taken from the evidence of the columns."""
    model = model_of(pr.Normal(1.0, sigma_units=True), None)
    Phi, found = (
        np.asarray(model.design.X),
        pr.path(model, [0.5, 2.0]).data["log_evidence"].values,
    )
    sigma = np.exp(np.linspace(-5.0, 5.0, 801))
    for value, s in zip(found, (0.5, 2.0)):
        Q = s**2 * Phi @ Phi.T
        plain = [
            multivariate_normal(cov=v**2 * (Q + np.eye(4))).logpdf(ROWS["y"])
            for v in sigma
        ]
        # p(sigma) = 1 / sigma
        total = np.log(np.trapezoid(np.exp(plain), np.log(sigma)))
        assert value == pytest.approx(total - 0.5 * (4 * s**2 - np.trace(Q)), abs=1e-6)


@pytest.mark.parametrize("units", [False, True])
@pytest.mark.parametrize("stated", [1.0, 3.0])
def test_a_stated_scale_counts_in_the_bound(stated, units):
    """Of a process whose scale is known, beside an unknown sigma."""
    problem = EvidenceProblem(model_of(pr.Normal(stated, sigma_units=units), None), False)  # fmt: skip

    def exact(log_sigma: float) -> float:
        tau = stated * (np.exp(log_sigma) if units else 1.0)
        return bound(problem.model, tau, np.exp(2.0 * log_sigma))

    at, u, h = problem.surface(np.log([0.7])), np.log(0.7), 1e-3
    assert at.evidence == pytest.approx(exact(u), rel=1e-10)
    slope = (exact(u + h) - exact(u - h)) / (2.0 * h)
    assert at.gradient[-1] == pytest.approx(slope, rel=1e-4)
    bend = (exact(u + h) - 2.0 * exact(u) + exact(u - h)) / h**2
    assert at.hessian[-1, -1] == pytest.approx(bend, rel=1e-4)
