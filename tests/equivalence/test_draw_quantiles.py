"""Quantiles of draws by compiled code, and the intervals of predictions that come of them, beside NumPy's."""

import numpy as np
import pytest

import probreg as pr
from probreg.inference.uncertainty.intervals.arithmetic import (
    equal_tail,
    mean_and_sd,
    quantile_pair,
)
from probreg.linalg.blocks import limit_threads

S, ROWS = 4_000, 12  # together beyond what NumPy sorts


def _rows(kind: str) -> np.ndarray:
    """(S, ROWS) draws of different shapes."""
    rng = np.random.default_rng(3)
    z = rng.standard_normal((S, ROWS))
    return {
        "normal": z,
        "far from zero": 1e6 + 1e-6 * z,
        "skewed": np.exp(3.0 * z),
        "heavy tails": rng.standard_cauchy((S, ROWS)),
        "two humps": np.where(rng.random((S, ROWS)) < 0.03, z - 50.0, z),
        "ties": rng.integers(0, 3, (S, ROWS)).astype(float),
        "all the same": np.full((S, ROWS), -2.5),
        "sorted": np.sort(z, axis=0),
        "one far": np.where(np.arange(S)[:, None] == 7, 1e300, z),
    }[kind]


@pytest.mark.parametrize(
    "kind",
    [
        "normal",
        "far from zero",
        "skewed",
        "heavy tails",
        "two humps",
        "ties",
        "all the same",
        "sorted",
        "one far",
    ],
)
@pytest.mark.parametrize(
    "pair",
    [(0.025, 0.975), (0.0, 1.0), (0.25, 0.5), (0.49999, 0.50001), (1e-4, 0.9999)],
)
def test_quantiles_are_those_of_numpy(kind, pair):
    draws = _rows(kind)
    expected = np.quantile(draws, pair, axis=0)
    for given in (draws, np.asfortranarray(draws), draws.reshape(S, 3, 4)):
        found = np.stack(quantile_pair(given, *pair))
        assert found.shape == (2, *given.shape[1:])
        # a fused multiplication and addition rounds once
        np.testing.assert_allclose(
            found.reshape(2, ROWS), expected, rtol=3e-16, atol=0.0
        )


def test_draws_that_are_no_numbers_have_no_quantiles_and_infinite_ones_are_the_largest():
    draws = _rows("normal")
    draws[5, 0], draws[:300, 1], draws[:, 2] = np.nan, np.inf, -np.inf
    lower, upper = quantile_pair(draws, 0.025, 0.975)
    assert np.isnan([lower[0], upper[0]]).all()
    assert upper[1] == np.inf
    assert lower[1] == np.quantile(draws[:, 1], 0.025)
    assert lower[2] == upper[2] == -np.inf
    assert np.isfinite(lower[3:]).all()


def test_two_draws_of_many_rows():
    draws = np.random.default_rng(0).standard_normal((2, 40_000))
    np.testing.assert_allclose(
        equal_tail(draws, 0.9),
        np.quantile(draws, [0.05, 0.95], axis=0),
        rtol=1e-12,
        atol=1e-15,
    )


@pytest.mark.parametrize(
    "likelihood", ["bernoulli", "poisson", "categorical", "student"]
)
def test_intervals_of_a_mean_are_percentiles_of_its_draws(likelihood):
    rng = np.random.default_rng(4)
    X, new, offset = (
        rng.standard_normal((60, 2)),
        rng.standard_normal((131, 2)),
        rng.standard_normal((131, 1)),
    )
    y = (
        rng.standard_normal(60)
        if likelihood == "student"
        else rng.integers(0, 3 if likelihood == "categorical" else 2, 60)
    )
    offsets = np.repeat(offset, 2 if likelihood == "categorical" else 1, axis=1)
    prior = pr.Normal(1.0)
    fit = pr.fit(
        pr.Model.from_arrays(
            X, y, likelihood=likelihood, prior=prior, offset=offsets[:60]
        ),
        "laplace",
        seed=1,
    )
    beta = fit.solution.draws.flat["beta"]
    assert beta.shape[0] == S  # 131 rows are more than one thread takes at once
    eta = np.einsum("np,spm->snm", np.column_stack([np.ones(131), new]), beta) + offset
    means = fit.model.likelihood.mean(eta)
    found = fit.predict(new, 0.9, offset=offsets)
    # sums of another order: eta differs by its rounding
    lower, upper = np.quantile(means, [0.05, 0.95], axis=0)
    np.testing.assert_allclose(found["mean_lower"], lower, rtol=1e-12, atol=1e-12)
    np.testing.assert_allclose(found["mean_upper"], upper, rtol=1e-12, atol=1e-12)
    # of an identity link the mean is exact, and has no Monte Carlo error
    np.testing.assert_allclose(
        found["mean"],
        means.mean(0),
        rtol=1e-12,
        atol=0.1 if likelihood == "student" else 1e-12,
    )
    with limit_threads(1):
        assert fit.predict(new, 0.9, offset=offsets).identical(found)


@pytest.mark.parametrize("kind", ["normal", "far from zero", "skewed", "all the same"])
def test_moments_are_those_of_numpy(kind):
    draws = _rows(kind)
    for given in (draws, draws[:9], draws.reshape(S, 3, 4)):
        mean, sd = mean_and_sd(given)
        assert mean.shape == sd.shape == given.shape[1:]
        np.testing.assert_allclose(mean, given.mean(0), rtol=1e-13, atol=1e-15)
        np.testing.assert_allclose(
            sd,
            given.std(0, ddof=1),
            rtol=1e-11 if kind != "far from zero" else 1e-5,
            atol=1e-15,
        )
    assert np.isnan(mean_and_sd(draws[:1])[1]).all()
