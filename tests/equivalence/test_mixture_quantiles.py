"""Quantiles of mixtures by compiled code beside the distribution function and the general search."""

import dataclasses

import numpy as np
import pytest

import probreg as pr
from probreg.model.predictive import Predictive

PROBS = [1e-6, 0.025, 0.5, 0.8, 0.975, 1.0 - 1e-6]
S, ROWS = 60, 9


def normals(kind: str) -> Predictive:
    rng = np.random.default_rng(4)
    eta, sigma, share = (
        3.0 * rng.normal(size=(1, ROWS, 1)) + 0.1 * rng.normal(size=(S, ROWS, 1)),
        np.ones((S, 1)),
        None,
    )
    if kind == "wide":
        eta = 20.0 * rng.standard_cauchy((S, ROWS, 1))
    if kind == "two humps":
        eta = eta + np.where(np.arange(S) < 7, 50.0, 0.0)[:, None, None]
    if kind == "scales":
        sigma = np.exp(4.0 * rng.normal(size=(S, ROWS)))
    if kind == "weights":
        share = rng.dirichlet(np.full(S, 0.1))
    return Predictive(pr.Gaussian(), eta, {"sigma": sigma}, share=share)


@pytest.mark.parametrize("prob", PROBS)
@pytest.mark.parametrize("kind", ["near", "wide", "two humps", "scales", "weights"])
def test_the_distribution_function_of_normals_is_the_probability_at_their_quantile(
    kind, prob
):
    p = normals(kind)
    found = p.quantile(prob, tol=1e-12, compiled=True)
    # where the density is low the number itself is rounded: 1e-15 of it, times the density
    np.testing.assert_allclose(
        p.cdf(found), prob, rtol=0.0, atol=1e-13 + 1e-10 * min(prob, 1.0 - prob)
    )


@pytest.mark.parametrize("prob", PROBS)
@pytest.mark.parametrize(
    "level", [-3.0, 0.0, 3.0, 6.0]
)  # above log 300 the general search is asked
def test_the_quantile_of_counts_is_the_first_that_is_likely_enough(level, prob):
    rng = np.random.default_rng(5)
    eta = level + rng.normal(size=(1, ROWS, 1)) + 0.3 * rng.normal(size=(S, ROWS, 1))
    p = Predictive(pr.Poisson(), eta, {})
    found = p.quantile(prob, tol=1e-12, compiled=True)
    np.testing.assert_array_equal(found, p.quantile(prob, tol=1e-12, compiled=False))
    assert (p.cdf(found) >= prob).all()
    assert (p.cdf(found - 1.0) < prob).all()


def test_a_family_that_inherits_is_searched_by_its_own_distribution_function():
    @dataclasses.dataclass(frozen=True)
    class Shifted(pr.Gaussian):
        def cdf(self, y, eta, **aux):
            return super().cdf(y - 1.0, eta, **aux)

        def log_prob(self, y, eta, **aux):
            return super().log_prob(y - 1.0, eta, **aux)

    p = normals("near")
    moved = Predictive(Shifted(), p.eta, p.aux).quantile(0.1, tol=1e-12, compiled=True)
    np.testing.assert_allclose(
        moved, p.quantile(0.1, tol=1e-12, compiled=True) + 1.0, rtol=1e-9
    )


def test_intervals_of_new_observations_of_many_rows_are_those_of_few():
    rng = np.random.default_rng(6)
    X = rng.normal(size=(80, 2))
    fit = pr.fit(
        pr.Model.from_arrays(
            X, rng.poisson(np.exp(X[:, 0])), likelihood="poisson", prior=pr.Normal(1.0)
        ),
        "importance",
        seed=1,
    )
    many, few = fit.predict(X), fit.predict(X[:5])
    for end in ("new_lower", "new_upper"):
        np.testing.assert_array_equal(many[end].values[:5], few[end].values)


@pytest.mark.parametrize("likelihood", [pr.Gaussian(), pr.StudentT()])
@pytest.mark.parametrize("prob", [1e-9, 1.0 - 1e-9])
def test_a_quantile_far_out_is_that_of_its_own_tail_however_loose_the_tolerance(
    likelihood, prob
):
    near = normals("near")
    nu = {"nu": np.full((S, 1), 4.0)} if likelihood.name == "student" else {}
    p = dataclasses.replace(near, likelihood=likelihood, aux={**near.aux, **nu})
    y = p.quantile(prob, tol=1e-7, compiled=False)
    # P(Y > y | eta) is P(Y < -y | -eta), which does not cancel
    lower = p if prob < 0.5 else dataclasses.replace(p, eta=-p.eta)
    np.testing.assert_allclose(lower.cdf(y if prob < 0.5 else -y), 1e-9, rtol=1e-4)


@pytest.mark.parametrize("method", ["newton", pr.LaplaceApproximation(draws=50)])
def test_a_quantile_of_ordered_classes_is_the_first_that_reaches_it(method):
    x = np.linspace(-1.0, 1.0, 30)
    rows = {"x": x, "y": np.digitize(x + np.sin(40.0 * x), [-0.5, 0.6])}
    model = pr.Model.from_formula("y ~ x", rows, likelihood="ordinal")
    predictive = pr.fit(model.with_prior(pr.Normal(1.0)), method).predictive(rows)
    below = np.stack([predictive.cdf(np.full(30, k)) for k in range(3)])
    for prob in (0.01, 0.4, 0.7, 0.99):
        first = np.argmax(below >= prob, axis=0)
        np.testing.assert_array_equal(predictive.quantile(prob), first)
