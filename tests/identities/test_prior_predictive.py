"""The prior predictive: its draws are those of the priors and the likelihood, and its sentences are quantiles in outcome units."""

import numpy as np
import pytest
from scipy import stats

import probreg as pr

RNG = np.random.default_rng(2)
X = RNG.normal(size=(50, 2)) * [1.0, 4.0]
PROPER = {"Intercept": pr.Normal(0.5), "a": pr.Normal(0.7), "b": pr.Laplace(0.1)}


def model(y, likelihood, prior=PROPER, **more):
    return pr.Model.from_arrays(X, y, columns=["a", "b"], likelihood=likelihood, prior=prior, **more)


def test_a_step_of_the_logit_moves_a_probability_by_at_most_tanh_of_a_quarter():
    m = model(RNG.integers(0, 2, 50), "bernoulli", pr.Normal(0.7))
    found = m.prior_predictive(40_000).moves
    for j, move in enumerate(found):
        step = 0.7 * X[:, j].std(ddof=1)
        assert move.sd == pytest.approx(X[:, j].std(ddof=1))
        assert move.most == pytest.approx(np.tanh(stats.norm.ppf(0.975) * step / 4), rel=0.03)
        assert move.typical == pytest.approx(np.tanh(stats.norm.ppf(0.75) * step / 4), rel=0.03)
    # no base and no smaller step does more
    eta = np.linspace(-6, 6, 2001)
    d = 1.7
    assert np.ptp([1 / (1 + np.exp(-eta - d)) - 1 / (1 + np.exp(-eta))], axis=1).max() <= np.tanh(d / 4) + 1e-12
    assert (1 / (1 + np.exp(-eta - d)) - 1 / (1 + np.exp(-eta))).max() == pytest.approx(np.tanh(d / 4), abs=1e-5)


def test_a_softmax_probability_moves_by_the_largest_difference_between_classes():
    y = np.array(["u", "v", "w"])[np.r_[0, 1, 2, RNG.integers(0, 3, 47)]]
    found = model(y, "categorical", pr.Normal(0.7)).prior_predictive(20_000).moves[0]
    W = np.c_[np.zeros(20_000), np.random.default_rng(5).normal(size=(20_000, 2)) * 0.7 * X[:, 0].std(ddof=1)]
    assert found.most == pytest.approx(np.quantile(np.tanh(np.ptp(W, 1) / 4), 0.95), rel=0.03)


def test_counts_are_multiplied_and_noise_is_added_in_units_of_y():
    counts = model(RNG.poisson(2.0, 50), "poisson").prior_predictive(20_000)
    assert counts.moves[0].most == pytest.approx(np.exp(1.96 * 0.7 * X[:, 0].std(ddof=1)), rel=0.05)
    assert "multiplies or divides the mean of y" in counts.moves[0].sentence
    line = model(RNG.normal(size=50), "gaussian", pr.Normal(0.7)).prior_predictive(20_000)
    assert line.moves[0].most == pytest.approx(1.96 * 0.7 * X[:, 0].std(ddof=1), rel=0.03)
    units = model(RNG.normal(size=50), "gaussian", pr.Normal(0.7, sigma_units=True)).prior_predictive(20_000)
    assert units.moves[0].most == pytest.approx(line.moves[0].most, rel=0.05)
    assert "sigma with prior probability" in units.moves[0].sentence


def test_outcomes_have_the_variance_of_coefficients_and_noise():
    m = model(RNG.normal(size=50), "gaussian", aux={"sigma": pr.HalfNormal(0.8)})
    found = m.prior_predictive(20_000, seed=3)
    exact = 0.5**2 + (0.7 * X[:, 0]) ** 2 + 2 * (0.1 * X[:, 1]) ** 2 + 0.8**2
    np.testing.assert_allclose(found.y.var(0), exact, rtol=0.12)  # five standard errors of a heavy-tailed sum
    np.testing.assert_allclose(found.mean, np.einsum("nj,sjm->sn", m.design.X, found.beta), rtol=1e-12)
    assert found.tree["prior_predictive"]["y"].shape == (1, 20_000, 50)
    assert "prior predictive outcomes: 95 % between" in repr(found)


def test_what_a_flat_prior_withholds_is_said():
    y = RNG.integers(0, 2, 50)
    found = model(y, "bernoulli", pr.Normal(0.7)).prior_predictive()
    assert found.mean is None
    assert found.y is None
    assert "the prior of Intercept is flat" in repr(found)
    assert np.isnan(found.beta[:, 0]).all()
    assert "no column has a proper prior" in repr(model(y, "bernoulli", pr.Flat()).prior_predictive())
    improper = model(RNG.normal(size=50), "gaussian").prior_predictive()
    assert improper.mean is not None
    assert improper.y is None
    assert "the prior of sigma is improper" in repr(improper)
    for bad in ({"draws": 1}, {"prob": 95}):
        with pytest.raises(pr.DataError):
            model(y, "bernoulli").prior_predictive(**bad)


def test_the_same_seed_gives_the_same_draws():
    m = model(RNG.integers(0, 2, 50), "bernoulli")
    a, b, c = (m.prior_predictive(50, seed=s) for s in (1, 1, 2))
    np.testing.assert_array_equal(a.y, b.y)
    assert (a.beta != c.beta).any()
    assert "prior predictive shares of the classes: 0: " in repr(a)
