"""With many rows Newton starts from a sample and approaches by gradients alone; the answer is that of plain Newton."""

import numpy as np
import pytest

import probreg as pr
from probreg.inference.modes import newton

N = newton._ROWS_OF_SAMPLED_START + 4_000
CASES = ["gaussian", "bernoulli", "poisson", "student", "categorical"]


def model(likelihood: str, rng: np.random.Generator) -> pr.Model:
    x = rng.normal(size=(N, 2)) * [1.0, 30.0] + [2.0, -50.0]
    shift = 0.2 * rng.normal(size=N)
    eta = 0.3 + 0.4 * (x[:, 0] - 2.0) - 0.02 * (x[:, 1] + 50.0) + shift
    y = {
        "gaussian": eta + rng.normal(size=N),
        "student": eta + rng.standard_t(4, size=N),
        "bernoulli": (rng.random(N) < 1 / (1 + np.exp(-eta))).astype(int),
        "poisson": rng.poisson(np.exp(eta)),
        "categorical": (rng.random(N) < 1 / (1 + np.exp(-eta))).astype(int)
        + (rng.random(N) < 0.3),
    }[likelihood]
    weights = rng.integers(1, 4, N)
    prior = pr.Normal(0.05)
    return pr.Model.from_arrays(
        x, y, likelihood=likelihood, weights=weights, offset=shift, prior=prior
    )


@pytest.mark.parametrize("likelihood", CASES)
def test_many_rows_give_the_answer_of_plain_newton(
    likelihood: str, rng: np.random.Generator, monkeypatch
):
    built = model(likelihood, rng)
    steps: list[int] = []
    approach = newton.bfgs_passes
    monkeypatch.setattr(
        newton, "bfgs_passes", lambda *given: (steps.append(1), approach(*given))[1]
    )
    quick = pr.fit(built, "newton")
    assert steps, "the path for many rows was not taken"
    assert quick.solution.stats["steps"] <= 3, "gradients alone should have come close"
    monkeypatch.setattr(newton, "_ROWS_OF_SAMPLED_START", 10 * N)
    plain = pr.fit(built, "newton")
    se = plain.std_error.values
    # of a standard error
    np.testing.assert_allclose(quick.coef / se, plain.coef / se, rtol=0, atol=1e-7)
    # taken 1e-7 sqrt(n) standard errors from the mode
    np.testing.assert_allclose(quick.std_error, se, rtol=1e-6)
    assert quick.aux == pytest.approx(plain.aux, rel=1e-8)


def test_a_start_on_a_sample_of_rows_ends_where_plain_newton_does(
    rng: np.random.Generator, monkeypatch
):
    n = 10 * newton._ROWS_OF_SAMPLED_START
    x = rng.normal(loc=[0.0, 1.0, -3.0], size=(n, 3))
    y = (rng.random(n) < 1 / (1 + np.exp(1.0 - x.sum(1)))).astype(float)
    built, sampled = pr.Model.from_arrays(x, y, likelihood="bernoulli"), []
    sample = newton.sample_of_rows
    monkeypatch.setattr(
        newton,
        "sample_of_rows",
        lambda model: (sampled.append(sample(model)), sampled[-1])[1],
    )
    quick = pr.fit(built, "newton")
    assert sampled[0].n == n // 8
    assert sampled[0].total == n
    monkeypatch.setattr(newton, "_ROWS_OF_SAMPLED_START", 10 * n)
    plain = pr.fit(built, "newton")
    se = plain.std_error.values
    # of a standard error
    np.testing.assert_allclose(quick.coef / se, plain.coef / se, rtol=0, atol=1e-7)
    np.testing.assert_allclose(quick.std_error, se, rtol=1e-6)  # as above
    assert quick.solution.stats["steps"] <= 2, (
        "three passes for slopes should have come within the tolerance"
    )
