"""Two outcomes with effects by group and few rows in each: integrate against quadrature, and what it says where it is not vouched for."""

import numpy as np
import pandas as pd
import pytest
from scipy.special import logsumexp

import probreg as pr
from probreg.inference import Integrate, Status


def rows_of(groups: int, seed: int, each: int = 2) -> pd.DataFrame:
    draw = np.random.default_rng(1000 * each + seed)
    g, b = np.repeat(np.arange(groups), each), draw.normal(size=groups)
    x = draw.normal(size=g.size)
    y = (draw.random(g.size) < 1 / (1 + np.exp(-(0.3 + 0.8 * x + b[g])))).astype(int)
    return pd.DataFrame({"y": y, "x": x, "g": [f"g{i:03d}" for i in g]})


def model_of(rows: pd.DataFrame) -> pr.Model:
    prior = {
        "Intercept": pr.Normal(2.5),
        "x": pr.Normal(2.5),
        "1 | g": pr.Covariance(sd=pr.HalfNormal(1.0)),
    }
    return pr.Model.from_formula(
        "y ~ x + (1 | g)", rows, likelihood="bernoulli", prior=prior
    )


def by_quadrature(
    rows: pd.DataFrame, centre: np.ndarray, spread: np.ndarray
) -> tuple[np.ndarray, np.ndarray]:
    """Posterior means and sds of intercept, slope and sd: the trapezoidal rule over these three, and over each group's effect."""
    sign, x = 2 * rows["y"].to_numpy() - 1, rows["x"].to_numpy()
    first = np.flatnonzero(np.r_[True, np.diff(pd.factorize(rows["g"])[0]) > 0])
    u = np.linspace(-6.0, 6.0, 25)
    log_u = -0.5 * u**2 - 0.5 * np.log(2 * np.pi) + np.log(u[1] - u[0])
    # steps of 0.9 posterior sds; sd = log(1 + e^t) with its Jacobian
    A, B = (m + s * np.linspace(-4.5, 4.5, 11) for m, s in zip(centre[:2], spread[:2]))
    t = np.linspace(-7.0, 5.0, 21)
    S = np.log1p(np.exp(t))
    log_p = np.empty((11, 11, 21))
    for i, a in enumerate(A):
        for j, b in enumerate(B):
            eta = (a + b * x)[:, None, None] + S[:, None] * u
            by_group = np.add.reduceat(
                -np.log1p(np.exp(-sign[:, None, None] * eta)), first
            )
            log_p[i, j] = (
                logsumexp(by_group + log_u, axis=2).sum(0)
                - 0.5 * (a**2 + b**2) / 2.5**2
            )
    p = np.exp(log_p - 0.5 * S**2 - np.log1p(np.exp(-t)) - log_p.max())
    shares = [p.sum((1, 2)), p.sum((0, 2)), p.sum((0, 1))]
    mean = np.array([q @ v / q.sum() for q, v in zip(shares, (A, B, S))])
    sd = np.array(
        [
            np.sqrt(q @ (v - m) ** 2 / q.sum())
            for q, v, m in zip(shares, (A, B, S), mean)
        ]
    )
    return mean, sd


@pytest.mark.slow
def test_two_rows_a_group_have_the_posterior_of_quadrature():
    rows = rows_of(250, 0)
    found = pr.fit(model_of(rows), "integrate", seed=0).solution
    assert found.status.good
    sds = found.posterior["sd(Intercept | g)"]
    mean = np.r_[found.beta[:2, 0], sds.mean()]
    sd = np.r_[np.sqrt(found.scale.diagonal()[:2]), sds.std()]
    wanted, spread = by_quadrature(rows, mean, sd)
    # three Monte Carlo errors; draws that were not weighed would be 0.3 to 1 sd off with 250 groups
    near = 3.0 / np.sqrt(found.stats["ess_joint"])
    assert near < 0.15
    np.testing.assert_allclose((mean - wanted) / spread, 0.0, atol=near)
    np.testing.assert_allclose(sd / spread, 1.0, atol=near)


@pytest.mark.slow
def test_more_coefficients_than_are_weighed_are_not_vouched_for(monkeypatch):
    monkeypatch.setattr("probreg.inference.exact.nodes._JOINT", 10)
    with pytest.warns(
        pr.errors.ProbregWarning,
        match="12 coefficients",
    ):
        found = pr.fit(model_of(rows_of(10, 0)), Integrate(nodes=64, draws=50), seed=0)
    assert found.solution.status is Status.UNWEIGHED


@pytest.mark.slow
@pytest.mark.parametrize(("groups", "few"), [(30, False), (100, True)])
def test_points_worth_less_than_half_the_draws_ask_for_more(groups, few):
    found = pr.fit(model_of(rows_of(groups, 4)), "integrate", seed=1)
    assert found.solution.status.good
    assert (found.solution.stats["ess_joint"] < 2000) == few
    assert (
        "Take more draws if standard deviations matter" in " ".join(repr(found).split())
    ) == few
