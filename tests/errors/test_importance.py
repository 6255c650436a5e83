"""Where importance sampling refuses, by its own weights or before them, and what it says; where it has to accept."""

import numpy as np
import pytest

import probreg as pr
from probreg.inference import Importance, Status
from probreg.inference.sampling.importance import weighted_moments
from probreg.likelihoods import ProximalLikelihood
from probreg.priors import Normal
from tests.properties.cases import (
    LIKELIHOOD_CASES,
    PRIOR_CASES,
    Array,
    accepted,
    model_for,
    named,
    proper_aux,
    rows_for,
)


def apart(n: int, scale: float = 1.0) -> tuple[Array, Array]:
    x = scale * np.linspace(-2.0, 2.0, n)
    return x, x > 0


def separated(prior, n=20, scale=1.0, intercept=None):
    x, y = apart(n, scale)
    both = {"Intercept": intercept or Normal(10.0), "x": prior}
    return pr.Model.from_arrays(x, y, columns=["x"], likelihood="bernoulli", prior=both)


def split(scale):
    """Three columns that separate the classes."""
    X = np.random.default_rng(0).normal(size=(30, 3))
    return pr.Model.from_arrays(
        X, X @ [2.0, 1.0, -1.0] > 0.2, likelihood="bernoulli", prior=Normal(scale)
    )


def few(likelihood, aux, n, q=1):
    rng = np.random.default_rng(4)
    X = rng.normal(size=(n, q))
    return pr.Model.from_arrays(
        X, X[:, 0] + rng.normal(size=n), likelihood=likelihood, aux=aux
    )


REFUSED = {
    "separated, Cauchy": separated(pr.priors.Cauchy(2.5)),
    "separated, wide Cauchy": separated(pr.priors.Cauchy(25.0)),
    "sigma of 3 rows": few("gaussian", {}, 3),
    "sigma of 4 rows under a half-Cauchy": few(
        "gaussian", {"sigma": pr.priors.HalfCauchy(1.0)}, 4, q=2
    ),
    "sigma of 4 rows, Student-t noise": few("student", {}, 4),
}


@pytest.mark.parametrize("name", REFUSED)
def test_weights_that_do_not_settle_are_refused(name):
    """By at least nine of ten seeds: k-hat of 190 weights has a standard error of about 0.15."""
    assert sum(refuses(REFUSED[name], seed) for seed in range(10)) >= 9


def refuses(model: pr.Model, seed: int) -> bool:
    try:
        pr.fit(model, Importance(max_k=0.5), seed=seed)
    except pr.NotConverged as why:
        return "unstable" in str(why)
    return False


def test_the_refusal_says_what_was_met_what_it_means_and_what_to_do():
    with pytest.raises(pr.NotConverged) as caught:
        pr.fit(split(50.0), Importance(max_k=0.01), seed=1)
    said = str(caught.value)
    for part in (
        "importance: k-hat 0.",
        "is above 0.01",
        "of 4,000 points",
        "unstable",
        "method='nuts'",
        "max_k",
    ):
        assert part in said


def test_the_limit_is_lower_where_fewer_points_are_weighed():
    assert Importance().limit == 0.7
    # of a thousand points
    assert Importance(draws=100).limit == pytest.approx(1 - 1 / 3)
    assert Importance(max_k=0.9).limit == 0.9


def test_what_was_accepted_by_hand_is_no_good_status():
    model = REFUSED["separated, Cauchy"]
    with pytest.warns(
        pr.ProbregWarning, match="importance: unreliable importance weights"
    ):
        fit = pr.fit(model, Importance(max_k=np.inf), seed=1)
    assert fit.solution.status is Status.UNSETTLED
    assert not fit.solution.status.good
    with pytest.raises(pr.NotConverged, match="unreliable importance weights"):
        pr.fit(model, Importance(max_k=np.inf), seed=1, strict=True)


LONG_TAILS = {
    "separated, Student-t on 4": separated(pr.priors.StudentT(2.5, nu=4.0)),
    "separated, Student-t on 7": separated(pr.priors.StudentT(2.5, nu=7.0)),
    "separated by 8 rows, Normal(50)": separated(
        Normal(50.0), n=8, scale=10.0, intercept=Normal(50.0)
    ),
    "two counts, Normal(10)": pr.Model.from_arrays(
        [0.0, 1.0, 2.0],
        [0, 0, 1],
        columns=["x"],
        likelihood="poisson",
        prior={"Intercept": Normal(10.0), "x": Normal(10.0)},
    ),
}


def slopes_on_a_grid(model: pr.Model) -> tuple[Array, Array]:
    """Values of the slope and its distribution function there, by the trapezoidal rule over both coefficients."""
    sd = pr.fit(model, "newton").std_error.values
    a, t = (
        np.linspace(-60.0, 60.0, 601) * max(float(sd[0]) / 8.0, 1.0),
        np.linspace(-np.arcsinh(1e3), np.arcsinh(1e3), 801),
    )
    b = float(sd[1]) * np.sinh(t)
    beta = np.stack(np.meshgrid(a, b), -1)[..., None].reshape(-1, 2, 1)
    log_p = model.log_posterior(beta).reshape(len(b), len(a))
    w = np.exp(log_p - log_p.max()).sum(1) * np.cosh(t)
    return b, (np.cumsum(w) - w / 2) / w.sum()


@pytest.mark.parametrize("name", LONG_TAILS)
def test_accepted_weights_reach_into_the_long_tail(name):
    """P(x < stated end) has a standard error of 0.005 by 2,000 effective draws; the bound is four of them."""
    model = LONG_TAILS[name]
    b, below = slopes_on_a_grid(model)
    accepted = 0
    for seed in range(8):
        fit = pr.fit(model, "posterior", seed=seed)
        if fit.method.name == "importance":
            accepted += 1
            ends = fit.interval(0.9).sel(coef="x")
            assert np.interp(ends["lower"].item(), b, below) == pytest.approx(
                0.05, abs=0.02
            )
            assert np.interp(ends["upper"].item(), b, below) == pytest.approx(
                0.95, abs=0.02
            )
    assert accepted >= 6


def test_quantiles_settle_where_there_is_no_variance():
    """Under a Cauchy prior P(slope > b) falls as 31.2 / b, so that the upper end is 623.2; nodes of sinh reach to 10^8."""
    model = REFUSED["separated, Cauchy"]
    a, t = (
        np.linspace(-60.0, 60.0, 301),
        np.linspace(-np.arcsinh(50.0), np.arcsinh(1e8), 1501),
    )
    b = np.sinh(t)
    log_p = np.array(
        [
            np.logaddexp.reduce(
                model.log_posterior(np.c_[a, np.full_like(a, v)][..., None])
            )
            for v in b
        ]
    )
    w = np.exp(log_p - log_p.max()) * np.cosh(t)
    below = (np.cumsum(w) - w / 2.0) / w.sum()
    assert np.interp(0.95, below, b) == pytest.approx(623.2, rel=1e-3)
    with pytest.warns(pr.ProbregWarning, match="unreliable importance weights"):
        fit = pr.fit(model, Importance(draws=10_000, max_k=np.inf), seed=1)
    ends = fit.interval(0.9).sel(coef="x")
    error = np.sqrt(0.05 * 0.95 / fit.solution.stats["ess"])
    assert np.interp(ends["lower"].item(), b, below) == pytest.approx(
        0.05, abs=4.0 * error
    )
    assert np.interp(ends["upper"].item(), b, below) == pytest.approx(
        0.95, abs=4.0 * error
    )


def test_a_posterior_of_two_modes_is_averaged_over_both():
    """Two clusters ten apart, half of the probability about each; the values are integrals on a grid."""
    y = np.array([-5.3, -5.0, -4.7, 5.05, 4.7, 5.2])
    model = pr.Model.from_formula(
        "y ~ 1",
        {"y": y},
        likelihood=pr.StudentT(nu=2.0),
        aux={"sigma": 0.5},
        prior={"Intercept": Normal(10.0)},
    )
    for seed in range(5):
        fit = pr.fit(model, "posterior", seed=seed)
        assert fit.coef.item() == pytest.approx(0.211, abs=0.1)
        assert fit.std_error.item() == pytest.approx(4.902, abs=0.03)
        assert any("2 modes" in note for note in fit.essential_notes)


ACCEPTED = {
    "logistic": model_for(pr.Bernoulli(), Normal(2.5), n=100),
    "logistic, flat": model_for(pr.Bernoulli(), n=100),
    "separated, Normal(2.5)": separated(Normal(2.5), intercept=Normal(2.5)),
    "softmax": model_for(pr.Categorical(), Normal(2.5), n=150),
    "symmetric softmax": model_for(pr.Categorical(symmetric=True), Normal(2.5), n=150),
    "Poisson": model_for(pr.Poisson(), Normal(2.5)),
    "Student-t noise": model_for(pr.StudentT(), n=60),
    "Gaussian noise": model_for(pr.Gaussian(), n=60),
    "Gaussian, half-Cauchy": model_for(
        pr.Gaussian(), Normal(2.5), n=60, aux={"sigma": pr.priors.HalfCauchy(1.0)}
    ),
}


@pytest.mark.parametrize(
    "name",
    [
        pytest.param(k, marks=pytest.mark.slow if "softmax" in k else ())
        for k in ACCEPTED
    ],
)
def test_regular_posteriors_are_accepted_with_most_of_their_draws(name):
    for seed in range(2):
        s = pr.fit(ACCEPTED[name], "importance", seed=seed).solution
        assert s.status is Status.SAMPLED
        assert s.stats["k_hat"] < 0.5
        assert s.stats["ess"] > 0.5 * 4000


def test_no_mode_is_no_proposal():
    x, y = apart(20)
    with pytest.raises(
        pr.Incompatible,
        match=r"importance .*no maximum likelihood estimate",
    ):
        pr.fit(pr.Model.from_arrays(x, y, likelihood="bernoulli"), "importance")
    X, y = rows_for(pr.Poisson())
    again = pr.Model.from_arrays(
        np.c_[X, X[:, 0]], y, columns=["a", "b", "c", "d"], likelihood="poisson"
    )
    with pytest.raises(pr.Incompatible, match=r"importance .*no.*d = a"):
        pr.fit(again, "importance")


def test_an_edge_of_a_prior_is_left_to_others():
    model = model_for(pr.Gaussian(), aux={"sigma": pr.priors.Uniform(0.2, 3.0)})
    with pytest.raises(
        pr.Incompatible,
        match=r"importance .*bounded support.*can fit this model: .*quadrature",
    ):
        pr.fit(model, "importance")


@pytest.mark.parametrize("likelihood", LIKELIHOOD_CASES, ids=named)
def test_kinks_and_unknown_scales_are_left_to_others(likelihood):
    for prior in (pr.Laplace(1.0), Normal(pr.HalfNormal(1.0))):
        model = accepted(likelihood, prior)
        assert model is None or "importance needs flat or normal" in (
            Importance().obstacle(model) or ""
        )
    aux = proper_aux(likelihood)
    smooth = [
        m
        for p in PRIOR_CASES
        if (m := accepted(likelihood, p, aux=aux)) is not None and m.joint.smooth
    ]
    if isinstance(likelihood, ProximalLikelihood):  # a mode on kinks under these alone
        smooth = [m for m in smooth if m.joint.gaussian]
    assert smooth
    # with a flat intercept the posterior of such a likelihood is improper
    assert likelihood.positive_limit or all(
        Importance().obstacle(m) is None for m in smooth
    )


def test_settings_are_checked():
    with pytest.raises(pr.DataError, match="df is a number above 2"):
        Importance(df=2.0)
    with pytest.raises(pr.DataError, match="max_k is a positive number"):
        Importance(max_k=-0.5)
    with pytest.raises(pr.DataError, match="draws is a whole number"):
        Importance(draws=0)


def test_points_beyond_the_numbers_weigh_nothing():
    """A Poisson mean that overflows at far points is no posterior mass, and no warning."""
    x = np.array([0.0, 400.0, 700.0])
    model = pr.Model.from_arrays(
        x, [2, 3, 4], likelihood="poisson", prior=Normal(30.0), intercept=False
    )
    fit = pr.fit(model, Importance(max_k=5.0, df=3.0), seed=1)
    assert np.isfinite(fit.coef).all()
    assert np.isfinite(fit.solution.stats["log_evidence"])


def test_a_point_of_no_weight_may_be_infinite():
    values, weight = np.array([1.0, 3.0, np.inf]), np.array([0.5, 0.5, 0.0])
    assert weighted_moments(values, weight) == (2.0, 1.0)
