"""How often 95 % intervals of coefficients hold the truth in small samples; those of LMS and SGD are in test_sgd.py.

The truth is drawn from the prior where there is one, so that posterior intervals hold it in 95 % of samples at any size.
"""

import warnings
from typing import Any

import numpy as np
import pytest
from scipy import stats

import probreg as pr
from probreg.likelihoods import AbsoluteLoss, Quantile
from probreg.likelihoods.location_scale import AdditiveNoise

from .cases import LIKELIHOOD_CASES

PROB = 0.95


def t_by_z(n: int) -> float:
    """The probability that an interval of -+ z ML errors holds a slope of least squares: P(|t| < z (1 - 2/n)^(1/2))."""
    return float(1 - 2 * stats.t.sf(stats.norm.isf(0.025) * np.sqrt(1 - 2 / n), n - 2))


# method, whether the truth is drawn from a prior, samples, the probability at n, and what small samples may take away from it
CASES: dict[str, tuple[Any, bool, int, Any, float]] = {
    "closed_form": ("closed_form", False, 150, lambda n: PROB, 0.0),
    "newton": ("newton", False, 100, t_by_z, 0.0),
    "conjugate": (pr.Conjugate(draws=50), False, 60, lambda n: PROB, 0.0),
    "bootstrap": (pr.Bootstrap(reps=99), False, 12, lambda n: PROB, 0.6 / 12),
    "quadrature": (pr.Quadrature(draws=50, chains=2), True, 12, lambda n: PROB, 0.0),
    "laplace": (pr.LaplaceApproximation(draws=200), True, 40, lambda n: PROB, 0.04),
    "importance": (pr.Importance(draws=400), True, 12, lambda n: PROB, 0.02),
}


def covered(method: Any, drawn: bool, n: int, seed: int) -> list[bool]:
    """Whether the intervals of the intercept and of the slope hold the truth in one sample."""
    rng = np.random.default_rng([41, n, seed])
    x, noise = rng.normal(size=n), rng.normal(size=n)
    given: dict[str, Any] = {}
    beta, sigma = np.array([1.0, 0.5]), 0.7
    if drawn:
        beta, sigma = rng.normal(0.0, [1.5, 0.8]), abs(rng.normal())
        given = {
            "prior": {"Intercept": pr.Normal(1.5), "x1": pr.Normal(0.8)},
            "aux": {"sigma": pr.HalfNormal(1.0)},
        }
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", pr.ProbregWarning)
        table = pr.fit(
            pr.Model.from_arrays(x, beta[0] + beta[1] * x + sigma * noise, **given),
            method,
            seed=seed,
        ).summary(PROB)
    return [
        low <= b <= high for b, low, high in zip(beta, table["lower"], table["upper"])
    ]


@pytest.mark.slow
@pytest.mark.parametrize("n", [12, 20, 50])
@pytest.mark.parametrize("name", CASES)
def test_intervals_hold_the_truth_as_often_as_they_state(name, n):
    method, drawn, samples, level, less = CASES[name]
    hits = [hit for seed in range(samples) for hit in covered(method, drawn, n, seed)]
    expected = level(n)
    # the two coefficients of a sample are nearly independent; four standard errors of a share
    error = np.sqrt(expected * (1 - expected) / len(hits))
    assert expected - less * 12 / n - 4 * error <= np.mean(hits) <= expected + 4 * error


MIRRORED = [each for each in LIKELIHOOD_CASES if isinstance(each, AdditiveNoise)]


@pytest.mark.parametrize("likelihood", MIRRORED, ids=repr)
def test_noise_of_minus_y_is_the_mirrored_likelihood(likelihood):
    """(y, tau) and (-y, 1 - tau) are one model; noise that is symmetric is its own mirror image."""
    y, eta = np.array([-2.0, -0.1, 0.4, 3.0]), np.array([0.3, -1.2, 0.4, 0.9])[:, None]
    aux, other = dict.fromkeys(likelihood.aux, 0.7), likelihood.mirror
    np.testing.assert_allclose(
        other.log_prob(-y, -eta, **aux), likelihood.log_prob(y, eta, **aux), rtol=1e-12
    )
    np.testing.assert_allclose(
        other.cdf(-y, -eta, **aux), 1.0 - likelihood.cdf(y, eta, **aux), atol=1e-12
    )
    assert other.mirror == likelihood


@pytest.mark.parametrize(
    "likelihood",
    [
        AbsoluteLoss(),
        Quantile(0.3),
        Quantile(0.8),
        pr.StudentT(nu=3.0),
        pr.likelihoods.Huber(),
    ],
    ids=repr,
)
def test_a_fit_of_minus_y_is_the_mirror_image(likelihood):
    rng = np.random.default_rng(3)
    x = rng.normal(size=80)
    y = 1.0 + x + rng.standard_t(4, 80)
    one = pr.fit(pr.Model.from_arrays(x, y, likelihood=likelihood))
    other = pr.fit(pr.Model.from_arrays(x, -y, likelihood=likelihood.mirror))
    np.testing.assert_allclose(one.coef, -other.coef, atol=1e-6)
    np.testing.assert_allclose(one.std_error, other.std_error, rtol=1e-5)
    np.testing.assert_allclose(one.log_likelihood, other.log_likelihood, rtol=1e-9)
    ends, mirrored = (each.predict([0.0, 1.5]) for each in (one, other))
    np.testing.assert_allclose(ends["mean_lower"], -mirrored["mean_upper"], atol=1e-5)
