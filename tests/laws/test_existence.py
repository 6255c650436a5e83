"""The proof that a maximum exists never contradicts the linear programme, and is found at every maximum that does exist."""

from typing import Any

import numpy as np
import pytest

import probreg as pr
from probreg.inference.modes.existence import exists
from probreg.inference.modes.newton import find_mode, newton_step
from probreg.inference.modes.separation import separation


def small(kind: str, seed: int) -> pr.Model:
    """Twelve rows, of which some sets are separated and some are not."""
    rng = np.random.default_rng(seed)
    X = rng.normal(size=(12, 2)) * np.array([1.0, 8.0])
    eta = rng.uniform(0.0, 4.0) * X[:, 0]
    if kind == "poisson":
        y = rng.poisson(np.exp(np.minimum(eta, 3.0) - 2.0))
        y[0] = 1
    else:
        levels = 2 if kind == "bernoulli" else 3
        y = np.clip(np.round(eta + rng.logistic(size=12)), 0, levels - 1).astype(int)
        y[:levels] = np.arange(levels)
    return pr.Model.from_arrays(X, y, likelihood=kind)


@pytest.mark.parametrize("kind", ["bernoulli", "categorical", "poisson"])
def test_the_proof_and_the_linear_programme(kind: str) -> None:
    met: set[bool] = set()
    for seed in range(40):
        model = small(kind, seed)
        there = separation(model).kind == "none"
        met.add(there)
        gamma, proved = np.zeros(model.shape), []
        for _ in range(14):  # full steps, which need not rise: the proof is to hold anywhere
            with np.errstate(all="ignore"):
                local = model.value_grad_hessian_standardised(gamma)
            if not (np.isfinite(local.curvature).all() and np.linalg.cond(local.curvature) < 1e13):
                break
            proved.append(exists(model, local.gradient, np.linalg.inv(local.curvature)))
            gamma = gamma + newton_step(local)[0].reshape(gamma.shape)
        assert there or not any(proved)
        if there:
            local = find_mode(model).local
            assert exists(model, local.gradient, np.linalg.inv(local.curvature))
    assert met == {True, False}


def test_a_fit_far_out_needs_no_linear_programme(monkeypatch: Any) -> None:
    """A row with eta near 20 in data that overlap: |eta| alone would call for the programme."""
    rng = np.random.default_rng(0)
    x = np.r_[rng.normal(size=400), 20.0]
    y = (rng.random(401) < 1 / (1 + np.exp(-x))).astype(int)
    y[-1] = 1
    model = pr.Model.from_arrays(x, y, likelihood="bernoulli")
    monkeypatch.setattr("probreg.inference.modes.newton.runaway", lambda model: pytest.fail("the programme was asked"))
    fit = pr.fit(model, "newton")
    assert np.abs(model.eta(fit.solution.beta)).max() > 15.0
    assert fit.solution.status.good
