"""Priors against independent computation: mixtures by adaptive quadrature."""

import numpy as np
import pytest
from scipy import integrate, stats

import probreg as pr
from probreg.comparison.prior_weight import prior_derivatives_of_fit
from probreg.priors import (
    BetaPrime,
    ElasticNet,
    GPrior,
    Horseshoe,
    InverseGamma,
    LogNormal,
    Normal,
    ScaleMixture,
    Uniform,
)

RNG = np.random.default_rng(3)
X = RNG.normal(size=(30, 2)) * [1.0, 3.0]
Y = 1.0 + X @ [0.5, -0.2] + RNG.normal(size=30)

# edges inside the range of the integral, and priors far narrower than its steps
HYPER = [
    Uniform(0.0, 5.0),
    Uniform(0.5, 2.0),
    LogNormal(0.05, location=0.3),
    LogNormal(1e-4, location=0.3),
    InverseGamma(400.0, 500.0),
    BetaPrime(300.0, 200.0),
]


@pytest.mark.parametrize("tau", HYPER, ids=str)
@pytest.mark.parametrize("beta", [1e-3, 0.3, 2.0])
def test_a_mixture_is_its_integral(tau, beta):
    top = (
        minimum(lambda u: -float(tau.log_prob(np.exp(u))) - u)
        if not tau.has_bounded_support
        else 0.0
    )
    marks = [top + k * w for w in (1e-4, 0.05) for k in (-8, -2, 0, 2, 8)]
    ends = np.log(np.clip(tau.support, 1e-15, 1e15))
    marks = [m for m in [*marks, np.log(beta)] if ends[0] < m < ends[1]]

    def density(u: float) -> float:
        return float(
            np.exp(
                stats.norm.logpdf(beta, 0.0, np.exp(u)) + tau.log_prob(np.exp(u)) + u
            )
        )

    expected = integrate.quad(
        density, *ends, points=marks, limit=400, epsabs=0.0, epsrel=1e-11
    )[0]
    found = np.exp(ScaleMixture(Normal(1.0), tau).log_prob(np.array([[beta]])))
    assert found == pytest.approx(expected, rel=1e-9)


def minimum(f) -> float:
    grid = np.linspace(-5.0, 5.0, 20_001)
    return float(grid[np.argmin([f(u) for u in grid])])


@pytest.mark.parametrize("ratio", [0.0, 0.3, 0.9999, 1.0])
def test_draws_of_an_elastic_net_follow_its_density(ratio):
    prior = ElasticNet(1.0, ratio=ratio)
    draws = np.sort(prior.sample(np.random.default_rng(1), (4000, 1, 1)).ravel())
    grid = np.linspace(-12.0, 12.0, 24_001)
    distribution = integrate.cumulative_simpson(
        np.exp(prior.log_prob(grid[:, None, None])), x=grid, initial=0.0
    )
    found = stats.kstest(draws, lambda v: np.interp(v, grid, distribution))
    assert found.pvalue > 0.01


HIERARCHICAL = [
    Normal(pr.priors.HalfCauchy(0.5)),
    GPrior(pr.priors.InverseGamma(0.5, 1 / 16)),
    Horseshoe(),
]


@pytest.mark.parametrize("prior", HIERARCHICAL, ids=lambda p: p.name)
def test_many_draws_are_independent_blocks_with_scales_of_their_own(prior):
    block = pr.Model.from_arrays(X, Y, prior=prior).joint.blocks[-1].prior
    rng = np.random.default_rng(2)
    at_once = block.sample(rng, (4000, 2, 1))
    one_by_one = np.stack([block.sample(rng, (2, 1)) for _ in range(4000)])
    for f in (lambda b: b[:, 0, 0], lambda b: np.log(np.abs(b)).sum((1, 2))):
        assert stats.ks_2samp(f(at_once), f(one_by_one)).pvalue > 0.01


@pytest.mark.parametrize("value", [0.1, 0.7, 123.456])
@pytest.mark.parametrize("intercept", [True, False])
@pytest.mark.parametrize(
    "prior",
    [Normal(1.0, scaled=True), Horseshoe(scaled=True), GPrior()],
    ids=lambda p: p.name,
)
def test_a_column_is_constant_whatever_rounding_leaves(prior, intercept, value):
    constant = np.c_[X, np.full(30, value)]
    if isinstance(prior, GPrior) and not intercept:
        assert pr.Model.from_arrays(
            constant, Y, prior=prior, intercept=False
        ).joint.gaussian
        return
    with pytest.raises(pr.DataError, match="column 'x3' does not vary"):
        pr.Model.from_arrays(constant, Y, prior=prior, intercept=intercept)


def test_the_curvature_of_one_prior_of_all_columns_is_the_whole_matrix():
    y = np.r_[0, 1, 2, RNG.integers(0, 3, 27)]
    model = pr.Model.from_arrays(X, y, likelihood="categorical", prior=Normal(1.0))
    after = pr.fit(model, "laplace").update(X[:20], y[:20])
    prior = after.model.joint.blocks[0].prior
    np.testing.assert_allclose(
        prior_derivatives_of_fit(after)[1], np.array(prior.precision), rtol=1e-12
    )
