"""How far the joint mode of a nuisance parameter is from its marginal posterior: a check of the Laplace approximation."""

import warnings

import numpy as np
import pytest

import probreg as pr
from probreg.inference import Status
from probreg.inference.modes.peaks import find_peaks
from probreg.inference.sampling.laplace import marginal_shift


def line(n: int, p: int, likelihood="gaussian", **aux) -> pr.Model:
    rng = np.random.default_rng(1)
    X = rng.normal(size=(n, p))
    y = 1.0 + 0.5 * X[:, 0] + rng.normal(size=n)
    return pr.Model.from_arrays(
        X, y, likelihood=likelihood, prior=pr.Normal(5.0), aux=aux
    )


@pytest.mark.parametrize(
    ("n", "p", "rel"), [(12, 1, 0.03), (24, 1, 0.01), (24, 6, 0.05), (200, 5, 0.005)]
)
def test_the_shift_is_that_of_the_exact_marginal(n, p, rel):
    model = line(n, p, sigma=pr.HalfNormal(2.0))
    peak = find_peaks(model, "laplace", tol=1e-7, max_steps=100)[0]
    nodes = pr.fit(model, "quadrature", seed=1).solution.draws.marginals
    exact = (nodes["weight"] @ nodes["log_sigma"] - peak.centre[-1]) / np.linalg.norm(
        peak.root[-1]
    )
    assert marginal_shift(model, peak, p + 1) == pytest.approx(exact, rel=rel)


@pytest.mark.parametrize("likelihood", ["gaussian", pr.StudentT(nu=30.0)])
@pytest.mark.parametrize(
    ("n", "p", "status"),
    [(24, 6, Status.UNWEIGHED), (24, 1, Status.CONVERGED), (2000, 2, Status.CONVERGED)],
)
def test_a_sigma_that_is_short_is_reported(n, p, status, likelihood):
    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always")
        fit = pr.fit(
            line(n, p, likelihood, sigma=pr.HalfNormal(2.0)), "laplace", seed=1
        )
    assert fit.solution.status is status
    assert any("log sigma is" in str(w.message) for w in caught) == (n == 24 and p == 6)
    assert any("log sigma is" in note for note in fit.essential_notes) == (
        n == 24 and p == 1
    )


def test_nothing_is_computed_where_nothing_is_unknown_or_many_rows_decide(monkeypatch):
    monkeypatch.setattr("probreg.inference.sampling.laplace.log_density_at", None)
    for model in (line(24, 6, sigma=1.0), line(2000, 2, sigma=pr.HalfNormal(2.0))):
        assert pr.fit(model, "laplace", seed=1).solution.status is Status.CONVERGED
