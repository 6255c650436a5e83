"""Draws of scales of a non-Gaussian posterior against a dense grid of the exact likelihood."""

import numpy as np
import pytest

import probreg as pr
from probreg.inference.exact.integrate import Integrate

ROWS, GROUPS = 6, 15


def grouped_events():
    rng = np.random.default_rng(3)
    g = np.repeat(np.arange(GROUPS), ROWS)
    b = 1.3 * rng.normal(size=GROUPS)
    y = (rng.random(GROUPS * ROWS) < 1 / (1 + np.exp(-(0.3 + b[g])))) * 1
    return {"y": y, "g": np.array([f"g{i:02d}" for i in g])}


def model_of(data):
    prior = {"Intercept": pr.Normal(2.5), "(1 | g)": pr.Covariance(pr.HalfNormal(1.5))}
    return pr.Model.from_formula(
        "y ~ 1 + (1 | g)", data, likelihood="bernoulli", prior=prior
    )


def exact_quantiles(data, shares):
    """Of sd, by 60 Gauss-Hermite nodes of each group's effect and sums over the intercept and sd."""
    count = data["y"].reshape(GROUPS, ROWS).sum(1)
    x, w = np.polynomial.hermite_e.hermegauss(60)
    w, s, a = w / w.sum(), np.linspace(0.005, 7, 350), np.linspace(-6, 6, 121)
    log_p = np.empty(len(s))
    for i, sd in enumerate(s):
        p = 1 / (1 + np.exp(-(a[:, None] + sd * x)))
        of_count = np.log(
            np.stack([(p**k * (1 - p) ** (ROWS - k)) @ w for k in range(ROWS + 1)], 1)
        )
        total = of_count[:, count].sum(1) - a**2 / (2 * 2.5**2)
        log_p[i] = np.logaddexp.reduce(total) - sd**2 / (2 * 1.5**2)
    share = np.cumsum(np.exp(log_p - log_p.max()))
    return np.interp(shares, share / share[-1], s)


@pytest.fixture(scope="module")
def data():
    return grouped_events()


@pytest.mark.slow
def test_the_ends_of_a_standard_deviation_are_those_of_a_dense_grid(data):
    exact = exact_quantiles(data, [0.05, 0.5, 0.95])
    np.testing.assert_allclose(exact, [0.604, 1.267, 2.174], atol=2e-2)
    draws = pr.fit(model_of(data), "posterior", seed=0).solution.posterior.flat[
        "sd(Intercept | g)"
    ]
    assert len(np.unique(draws)) > 3500  # a value for nearly every one of 4,000 draws
    # four times the error of quantiles of 4,000 draws
    np.testing.assert_allclose(np.quantile(draws, [0.05, 0.5, 0.95]), exact, atol=0.08)


@pytest.mark.slow
def test_nodes_that_are_stated_are_used(data):
    fit = pr.fit(model_of(data), Integrate(nodes=64, draws=250), seed=0)
    assert fit.solution.stats["nodes"] == 64
    assert (
        pr.fit(model_of(data), Integrate(draws=250), seed=0).solution.stats["nodes"]
        > 64
    )
