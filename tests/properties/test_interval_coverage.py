"""How often 95 % intervals of coefficients hold the truth in small samples; those of LMS and SGD are in test_sgd.py.

The truth is drawn from the prior where there is one, so that posterior intervals hold it in 95 % of samples at any size.
"""

import warnings
from collections.abc import Callable
from functools import partial
from typing import Any, NamedTuple

import numpy as np
import pytest
from scipy import stats
from scipy.special import expit

import probreg as pr
from probreg.likelihoods import AbsoluteLoss, Quantile
from probreg.likelihoods.location_scale import AdditiveNoise

from .cases import LIKELIHOOD_CASES

PROB = 0.95


def t_by_z(n: int) -> float:
    """The probability that an interval of -+ z ML errors holds a slope of least squares: P(|t| < z (1 - 2/n)^(1/2))."""
    return float(1 - 2 * stats.t.sf(stats.norm.isf(0.025) * np.sqrt(1 - 2 / n), n - 2))


class Sample(NamedTuple):
    """A simulated data set: its model, two true values, and where predictions estimate them (None: the first coefficients)."""

    model: pr.Model
    truth: Any
    places: dict[str, Any] | None = None


def line(rng: np.random.Generator, n: int, **given: Any) -> Sample:
    x, noise = rng.normal(size=n), rng.normal(size=n)
    beta, sigma = np.array([1.0, 0.5]), 0.7
    if "aux" in given:
        beta, sigma = rng.normal(0.0, [1.5, 0.8]), abs(rng.normal())
    y = beta[0] + beta[1] * x + sigma * noise
    return Sample(pr.Model.from_arrays(x, y, **given), beta)


PRIOR = {"Intercept": pr.Normal(1.5), "x1": pr.Normal(0.8)}
line_of_prior = partial(line, prior=PRIOR, aux={"sigma": pr.HalfNormal(1.0)})


def classes_of_prior(rng: np.random.Generator, n: int) -> Sample:
    x, beta = rng.normal(size=n), rng.normal(0.0, [1.5, 0.8])
    y = rng.binomial(1, expit(beta[0] + beta[1] * x))
    model = pr.Model.from_arrays(x, y, likelihood="bernoulli", prior=PRIOR)
    return Sample(model, beta)


def groups(rng: np.random.Generator, n: int) -> Sample:
    """Groups of four rows, with random intercepts."""
    x, group = rng.normal(size=n), np.arange(n) // 4
    y = 1.0 + 0.5 * x + 0.5 * rng.normal(size=n)[group] + 0.7 * rng.normal(size=n)
    rows = {"y": y, "x": x, "g": group.astype(str)}
    return Sample(pr.Model.from_formula("y ~ x + (1 | g)", rows), [1.0, 0.5])


def smooth(rng: np.random.Generator, n: int) -> Sample:
    """A sine, at two distant places."""
    x, places = rng.uniform(size=n), np.array([0.3, 0.7])
    y = np.sin(2 * np.pi * x) + 0.3 * rng.normal(size=n)
    model = pr.Model.from_formula("y ~ s(x)", {"y": y, "x": x})
    return Sample(model, np.sin(2 * np.pi * places), {"x": places})


class Case(NamedTuple):
    method: Any
    simulate: Callable[[np.random.Generator, int], Sample]
    samples: int
    level: Callable[[int], float] = lambda n: PROB  # the coverage at n
    less: float = 0.0  # what 12 rows may take away from it, in proportion to 1 / n


CASES = {
    "closed_form": Case("closed_form", line, 60),
    "newton": Case("newton", line, 50, t_by_z),
    "conjugate": Case(pr.Conjugate(draws=50), line, 40),
    "bootstrap": Case(pr.Bootstrap(reps=99), line, 12, less=0.6 / 12),
    "quadrature": Case(pr.Quadrature(draws=50, chains=2), line_of_prior, 12),
    "laplace": Case(pr.LaplaceApproximation(draws=200), line_of_prior, 25, less=0.04),
    "importance": Case(pr.Importance(draws=400), line_of_prior, 12, less=0.02),
    "nuts": Case(pr.NUTS(draws=250, tune=150, chains=2), classes_of_prior, 20),
    # 12 rows are too few for the density at the median, so that there are no errors
    "interior_point": Case(
        "interior_point",
        partial(line, likelihood="quantile"),
        25,
        lambda n: PROB if n > 12 else 0.0,
    ),
    # errors are given the scales of groups and smooths
    "evidence, groups": Case("evidence", groups, 20, less=0.05),
    "evidence, s(x)": Case("evidence", smooth, 25, less=0.07),
}


def covered(case: Case, n: int, seed: int) -> list[bool]:
    """Whether two intervals hold the truth in one sample."""
    sample = case.simulate(np.random.default_rng([41, n, seed]), n)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", pr.ProbregWarning)
        fit = pr.fit(sample.model, case.method, seed=seed)
        if sample.places is None:
            table = fit.summary(PROB)
            lower, upper = table["lower"], table["upper"]
        else:
            table = fit.predict(sample.places)
            lower, upper = table["mean_lower"], table["mean_upper"]
    return [bool(low <= v <= high) for v, low, high in zip(sample.truth, lower, upper)]


@pytest.mark.slow
@pytest.mark.parametrize("n", [12, 50])
@pytest.mark.parametrize("name", CASES)
def test_intervals_hold_the_truth_as_often_as_they_state(name, n):
    case = CASES[name]
    hits = [hit for seed in range(case.samples) for hit in covered(case, n, seed)]
    expected = case.level(n)
    # the two intervals of a sample are nearly independent; four standard errors of a share
    error = np.sqrt(expected * (1 - expected) / len(hits))
    lowest = expected - case.less * 12 / n - 4 * error
    assert lowest <= np.mean(hits) <= expected + 4 * error


MIRRORED = [each for each in LIKELIHOOD_CASES if isinstance(each, AdditiveNoise)]


@pytest.mark.parametrize("likelihood", MIRRORED, ids=repr)
def test_noise_of_minus_y_is_the_mirrored_likelihood(likelihood):
    """(y, tau) and (-y, 1 - tau) are one model; noise that is symmetric is its own mirror image."""
    y, eta = np.array([-2.0, -0.1, 0.4, 3.0]), np.array([0.3, -1.2, 0.4, 0.9])[:, None]
    aux, other = dict.fromkeys(likelihood.nuisance, 0.7), likelihood.mirror
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
