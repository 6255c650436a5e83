"""Simulation-based calibration: exact methods have uniform ranks, others do not, and the test of it is exact itself."""

import itertools
from dataclasses import dataclass, replace
from math import factorial

import numpy as np
import pytest
from numpy.testing import assert_allclose, assert_array_equal
from scipy.special import erf

import probreg as pr
from probreg.diagnostics.simulation.sbc import (
    probability_in_band,
    sbc,
    simultaneous_band,
    uniformity_p_value,
)
from probreg.diagnostics.simulation.simulate import simulate
from probreg.inference import METHODS, Conjugate, Draws
from probreg.show.plot.simulation import sbc as picture
from tests.properties.cases import LIKELIHOOD_CASES, covering, dkw, model_for, named

UNITS = {c: pr.Normal(2.0, sigma_units=True) for c in ("Intercept", "x1", "x2")}
PLAIN = {c: pr.Normal(2.5) for c in ("Intercept", "x1")}


def gaussian(n=12, **more):
    rng = np.random.default_rng(0)
    settings = {
        "prior": UNITS,
        "aux": {"sigma": pr.priors.InverseGamma(3.0, 2.0)},
    } | more
    return pr.Model.from_arrays(rng.normal(size=(n, 2)), rng.normal(size=n), **settings)


def classes(likelihood, n, prior=PLAIN):
    rng = np.random.default_rng(0)
    k = 2 if likelihood == "bernoulli" else 3
    y = np.r_[np.arange(k), rng.integers(0, k, n - k)]
    return pr.Model.from_arrays(
        np.linspace(-1, 1.5, n)[:, None], y, likelihood=likelihood, prior=prior
    )


# ---- the distribution of an empirical distribution function


def test_within_equals_the_sum_over_all_counts():
    at, n = np.array([0.2, 0.35, 0.8]), 5
    low, high = np.array([0, 1, 2]), np.array([2, 3, 5])
    total = 0.0
    for cell in itertools.product(range(n + 1), repeat=4):
        counts = np.cumsum(cell)[:-1]
        if sum(cell) == n and (counts >= low).all() and (counts <= high).all():
            ways = factorial(n) / np.prod([factorial(c) for c in cell])
            total += ways * np.prod(np.diff(np.r_[0.0, at, 1.0]) ** cell)
    # both are sums of a few hundred terms
    assert_allclose(probability_in_band(low, high, at, n), total, rtol=1e-12)


@pytest.mark.parametrize("n", covering([20, 300]))
def test_p_values_are_uniform_and_agree_with_the_band(n, rng):
    at, reps = np.arange(1, 20) / 20, 300
    counts = (rng.random((reps, n))[:, None, :] < at[:, None]).sum(-1)
    p = np.array([uniformity_p_value(c, at, n) for c in counts])
    grid = np.linspace(0.02, 1, 50)
    share = (p[:, None] <= grid).mean(0)
    assert (share <= grid + dkw(reps)).all()
    # a discrete p-value lies above its level by an atom
    assert (share >= grid - dkw(reps) - 4.0 / n).all()
    low, high = simultaneous_band(at, n, 0.9)
    outside = ((counts < low) | (counts > high)).any(1)
    assert_array_equal(outside, p < 0.1)


# ---- simulated data


@pytest.mark.parametrize("likelihood", LIKELIHOOD_CASES, ids=named)
def test_simulated_responses_belong_to_the_likelihood(likelihood, rng):
    aux = dict.fromkeys(likelihood.nuisance, pr.HalfNormal(0.8))
    prior = {c: pr.Normal(0.4) for c in ("Intercept", "x1", "x2", "x3")}
    model = model_for(likelihood, prior, aux=aux)
    beta, aux, other, hyper = simulate(model, rng)
    y = other.design.observed
    assert beta.shape == model.shape
    assert set(aux) == set(model.unknown)
    assert hyper == {}
    assert np.isfinite(other.log_lik(beta, **aux))
    assert y.shape == model.design.observed.shape
    assert (y != model.design.observed).any()
    assert (
        not likelihood.is_discrete
        or np.isin(likelihood.drawn(y), likelihood.support).all()
    )


@pytest.mark.slow
def test_parameters_come_from_the_prior(rng):
    draws = [simulate(gaussian(4), rng) for _ in range(300)]
    z = np.array([d.beta[:, 0] / (2.0 * d.aux["sigma"]) for d in draws])
    u = 0.5 * (1 + erf(z.ravel() / np.sqrt(2)))
    grid = np.linspace(0, 1, 41)
    assert np.abs((u[:, None] <= grid).mean(0) - grid).max() < dkw(len(u))


def test_a_row_of_weight_three_is_three_observations(rng):
    rows = pr.Model.from_arrays(
        [[0.0], [1.0]], [0.0, 2.0], prior=PLAIN, aux={"sigma": 1.0}, weights=[3, 1]
    )
    other = simulate(rows, rng).model
    assert other.design.weights is None
    assert other.design.n == 4
    assert len(set(other.design.observed[:3])) == 3
    with pytest.raises(
        pr.Incompatible, match="a simulation of responses: sampling weights"
    ):
        simulate(
            replace(rows, design=replace(rows.design, weight_kind="sampling")), rng
        )


def test_a_prior_relative_to_the_response_stays_as_it_is(rng):
    # in units of sd(y) / sd(x)
    model = gaussian(prior=dict(UNITS) | {"x1": pr.Normal(1.0, scaled=True)})
    other = simulate(model, rng).model
    # the same numbers, carried over
    assert_allclose(other.joint.precision(), model.joint.precision(), rtol=1e-14)


def test_the_improper_part_is_named(rng):
    with pytest.raises(
        pr.Incompatible,
        match="improper prior, and this model has one on Intercept, sigma",
    ):
        simulate(gaussian(prior=pr.Normal(1.0), aux={}), rng)


# ---- calibration


@pytest.mark.parametrize(
    ("method", "reps", "more"),
    [
        ("conjugate", 100, {}),
        ("conjugate", 100, {"offset": np.arange(12.0)}),
        ("conjugate", 100, {"weights": np.arange(1, 13) % 3 + 1}),
        (
            "quadrature",
            40,
            {
                "prior": dict.fromkeys(UNITS, pr.Normal(1.5)),
                "aux": {"sigma": pr.HalfNormal(1.0)},
            },
        ),
    ],
    ids=["unknown sigma", "offset", "weights", "quadrature"],
)
def test_exact_gaussian_posteriors_are_calibrated(method, reps, more):
    found = sbc(gaussian(**more), method, reps, seed=3)
    # for five quantities one seed in two hundred says less
    assert found.p_value.min() > 1e-3
    assert found.ranks.sizes["replicate"] == reps
    assert not found.failures
    assert found.ranks.min() >= 0
    assert found.ranks.max() <= 99


@dataclass(frozen=True)
class Distorted(Conjugate):
    """Draws with a standard deviation or a place that is wrong, in units of the posterior's own."""

    stretch: float = 1.0
    shift: float = 0.0

    def solve(self, model, rng):
        found = Conjugate.solve(self, model, rng)
        beta = found.draws["beta"]
        centre, sd = beta.mean((0, 1)), beta.std((0, 1))
        moved = centre + self.stretch * (beta - centre) + self.shift * sd
        return replace(found, draws=Draws({**found.draws.values, "beta": moved}))


@pytest.mark.parametrize(
    ("wrong", "reading"),
    [
        (Distorted(stretch=0.5), "too narrow"),
        (Distorted(stretch=2.0), "too wide"),
        (Distorted(shift=0.8), "too high"),
        (Distorted(shift=-0.8), "too low"),
    ],
    ids=["half the sd", "twice the sd", "shifted up", "shifted down"],
)
def test_a_wrong_method_is_caught_and_named(wrong, reading):
    found = sbc(gaussian(), wrong, 80, seed=1)
    assert not found.uniform
    assert all(
        reading in word
        for word in found.table.loc[["Intercept", "x1", "x2"], "reading"]
    )
    assert found.table.loc["sigma", "reading"] == ""
    assert reading in repr(found)


@dataclass(frozen=True)
class Blind(Conjugate):
    """Draws of the prior: every coefficient has uniform ranks, although the data were not looked at."""

    def solve(self, model, rng):
        found = Conjugate.solve(self, model, rng)
        sigma = model.aux_prior("sigma").sample(rng, 99)
        beta = np.array(
            [model.joint.sample_with_hyper(rng, model.shape, s)[0] for s in sigma]
        )
        return replace(found, draws=Draws({"beta": beta[None], "sigma": sigma[None]}))


@pytest.mark.slow
def test_only_the_log_likelihood_sees_a_method_that_ignores_the_data():
    table = sbc(gaussian(), Blind(), 80, seed=1).table
    assert table.loc["log_likelihood", "p_value"] < 1e-12
    assert (table.drop("log_likelihood")["reading"] == "").all()


@pytest.mark.slow
def test_laplace_on_few_rows_deviates_and_on_many_does_not():
    few = sbc(classes("bernoulli", 6), "laplace", 150, seed=0)
    assert not few.uniform
    # a normal reaches into tails where the data are unlikely
    assert few.table.loc["log_likelihood", "mean_rank"] > 0.5
    # and misses the long tail of the posterior
    assert few.table.loc["Intercept", "spread"] > 1.1
    many = sbc(
        classes("bernoulli", 300, dict.fromkeys(PLAIN, pr.Normal(1.0))),
        "laplace",
        100,
        seed=0,
    )
    assert many.p_value.min() > 1e-3


@pytest.mark.slow
def test_laplace_of_a_softmax_deviates_on_few_rows():
    found = sbc(classes("categorical", 6), "laplace", 150, seed=0)
    assert list(found.ranks["quantity"].values) == [
        "Intercept: 1",
        "Intercept: 2",
        "x1: 1",
        "x1: 2",
        "log_likelihood",
    ]
    assert not found.uniform


@pytest.mark.slow
@pytest.mark.parametrize(
    "name",
    # PyMC compiles each of the models anew
    [name for name, cls in METHODS.items() if cls.makes_chains and name != "pymc"],
)
def test_chains_are_calibrated_where_laplace_is_not(name):
    method = (
        pr.NUTS(draws=300, tune=300, chains=2) if name == "nuts" else METHODS[name]()
    )
    found = sbc(classes("bernoulli", 6), method, 25, seed=0, draws=59, bins=10)
    assert found.p_value.min() > 1e-3
    assert not found.failures


@dataclass(frozen=True)
class Moody(Conjugate):
    """Refuses data whose mean is negative, and is not sure of the others."""

    def solve(self, model, rng):
        if model.design.observed.mean() < 0:
            raise pr.NotConverged("not today")
        return replace(
            Conjugate.solve(self, model, rng), status=pr.inference.Status.UNMIXED
        )


def test_failures_and_troubles_are_counted():
    found = sbc(gaussian(), Moody(), 60, seed=0)
    assert 10 < found.failures["not today"] < 50
    assert found.ranks.sizes["replicate"] + found.failures["not today"] == 60
    assert sum(found.troubled.values()) == found.ranks.sizes["replicate"]
    assert "no posterior in" in repr(found)


def test_the_seed_decides():
    one, two, other = (
        sbc(gaussian(), "conjugate", 12, seed=s).ranks.values for s in (5, 5, 6)
    )
    assert_array_equal(one, two)
    assert (one != other).any()


@pytest.mark.slow
def test_the_workers_do_not():
    one, two = (sbc(gaussian(), "conjugate", 12, seed=5, workers=w) for w in (1, 2))
    assert_array_equal(one.ranks.values, two.ranks.values)


def test_settings_are_checked():
    with pytest.raises(pr.DataError, match="try draws=99"):
        sbc(gaussian(), "conjugate", 5, draws=100)
    with pytest.raises(pr.DataError, match="the method has 50 draws"):
        sbc(gaussian(), Conjugate(draws=50, chains=1), 5)
    with pytest.raises(pr.DataError, match="reps is a whole number"):
        sbc(gaussian(), "conjugate", 0)
    with pytest.raises(pr.Incompatible, match="closed_form gives a mode"):
        sbc(gaussian(), "closed_form", 5)
    with pytest.raises(pr.Incompatible, match="conjugate needs a Gaussian"):
        sbc(classes("bernoulli", 6), "conjugate", 5)


def test_bands_of_the_picture_say_what_the_p_values_say():
    found = sbc(gaussian(), Distorted(stretch=0.7), 100, seed=2)
    data = found.ecdf_difference
    outside = (
        (data["difference"] < data["lower"] - 1e-12)
        | (data["difference"] > data["upper"] + 1e-12)
    ).any("point")
    assert_array_equal(outside.values, found.p_value.values < found.level)
    assert 0 < outside.sum() < len(outside)
    fig = picture(found)
    assert [ax.get_title(loc="left") for ax in fig.axes if ax.get_visible()] == list(
        found.ranks["quantity"].values
    )


@pytest.mark.slow
def test_a_picture_of_many_keeps_those_that_depart():
    rng = np.random.default_rng(0)
    columns = [f"x{j}" for j in range(13)]
    prior = dict.fromkeys(["Intercept", *columns], pr.Normal(2.0, sigma_units=True))
    settings = {
        "prior": prior,
        "aux": {"sigma": pr.priors.InverseGamma(3.0, 2.0)},
        "columns": columns,
    }
    wide = pr.Model.from_arrays(
        rng.normal(size=(20, 13)), rng.normal(size=20), **settings
    )
    found = sbc(wide, Distorted(stretch=0.5), 60, seed=1)
    titles = [
        ax.get_title(loc="left") for ax in picture(found).axes if ax.get_visible()
    ]
    assert len(titles) == 12
    assert "log_likelihood" in titles
    assert "sigma" not in titles


def test_means_beyond_what_can_be_drawn_ask_for_smaller_scales():
    priors = {"Intercept": pr.Normal(1.0), "x1": pr.Normal(1.0)}
    model = pr.Model.from_arrays(
        [[300.0], [500.0]], [1, 2], likelihood="poisson", prior=priors
    )
    with pytest.raises(pr.DataError, match="mean this large cannot be simulated"):
        sbc(model, "laplace", reps=5, draws=9, bins=10)
