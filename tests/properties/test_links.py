"""Links whose linear predictor has a bounded domain, and fits by links of every family against statsmodels."""

import dataclasses
import warnings
from typing import Any

import numpy as np
import pytest

import probreg as pr
from probreg.arguments.scalars import declared_fields
from probreg.errors import DataError
from probreg.likelihoods.link_densities import density_by_link
from probreg.likelihoods.links import (
    CAUCHIT,
    CLOGLOG,
    IDENTITY,
    INVERSE,
    LINKS,
    LOG,
    LOGIT,
)
from probreg.likelihoods.tails import TAILS

LIKELIHOODS: list[Any] = [
    dataclasses.replace(likelihood, link=link)
    for likelihood in (
        pr.Bernoulli(),
        pr.Binomial(trials=6),
        pr.Poisson(),
        pr.NegativeBinomial(),
        pr.NegativeBinomial(variance="nb1"),
        pr.Gamma(),
        pr.InverseGaussian(),
        pr.Gaussian(link="log"),
    )
    for _, link in declared_fields(type(likelihood))["link"].options
]
BOUNDED = [v for v in LIKELIHOODS if v.domain != (-np.inf, np.inf)]
BETAS = [pr.Beta(link="probit"), pr.Beta(link="cloglog")]
bounded = pytest.mark.parametrize("likelihood", BOUNDED, ids=repr)


def draw(likelihood: Any, n: int = 40) -> tuple[Any, Any, dict[str, float]]:
    """Responses, linear predictors inside the domain, and nuisance parameters."""
    rng = np.random.default_rng(3)
    low, high = np.clip(getattr(likelihood, "domain", (-1.0, 1.0)), -3.0, 3.0)
    eta = low + (high - low) * rng.uniform(0.15, 0.85, size=(n, 1))
    aux = dict.fromkeys(likelihood.nuisance, 0.7)
    known = {"trials": np.full(n, 6.0)} if likelihood.name == "binomial" else {}
    return likelihood.sample(rng, eta, **aux, **known), eta, aux


@pytest.mark.parametrize("likelihood", BOUNDED + BETAS, ids=repr)
def test_derivatives_are_the_differences_of_the_density(likelihood):
    y, eta, aux = draw(likelihood)
    h = 1e-5

    def values(by_eta: float, by_aux: float) -> Any:
        scaled = {a: v * np.exp(by_aux) for a, v in aux.items()}
        return likelihood.value_grad_hessian(y, eta + by_eta, **scaled)

    local = values(0.0, 0.0)
    np.testing.assert_allclose(
        local.gradient[:, :1], likelihood.score(y, eta, **aux), rtol=1e-9, atol=1e-11
    )
    for k in range(local.gradient.shape[1]):
        step = (h, 0.0) if k == 0 else (0.0, h)
        up, down = values(*step), values(*(-np.array(step)))
        scale = 1.0 + np.abs(local.curvature).max()
        slope = (up.log_prob - down.log_prob) / (2 * h)
        np.testing.assert_allclose(local.gradient[:, k], slope, atol=1e-7 * scale)
        bend = -(up.gradient - down.gradient) / (2 * h)
        np.testing.assert_allclose(local.curvature[:, k], bend, atol=1e-7 * scale)


OTHER_LINKS = [*LIKELIHOODS, *BETAS, pr.BetaBinomial(6, "probit")]


@pytest.mark.parametrize(
    "likelihood", [v for v in OTHER_LINKS if v.link != type(v).link], ids=repr
)
def test_the_compiled_density_of_a_link_is_that_of_its_default(likelihood):
    """As Python runs it, inside the domain of the link, and with log p = -inf beyond it."""
    y, eta, aux = draw(likelihood)
    row = likelihood.compiled_density.row
    t = np.array(likelihood.settings(**aux))
    found = np.array([row(y[i], eta[i, 0], t) for i in range(len(y))])
    local = likelihood.value_grad_hessian(y, eta, **aux)
    close = {"rtol": 1e-12, "atol": 1e-12}
    log_p = local.log_prob - likelihood.base_measure(y)
    np.testing.assert_allclose(found[:, 0], log_p, **close)
    slopes = found[:, 1 : 1 + local.gradient.shape[1]]
    np.testing.assert_allclose(slopes, local.gradient, **close)
    for end, side in zip(getattr(likelihood, "domain", ()), (-1.0, 1.0)):
        if abs(end) < 1e10:  # tan(pi / 2) is 1.6e16 by the cauchit
            assert row(y[0], end + 0.1 * side, t)[0] == -np.inf


@pytest.mark.parametrize("link", [CAUCHIT, LOG, IDENTITY])
def test_compiled_tails_keep_their_digits_near_both_ends(link):
    tails = TAILS[link]
    ends = {CAUCHIT: [-1e12, -3.0, 0.0, 1e12], LOG: [-500.0, -0.7, -1e-12], IDENTITY: [1e-12, 1.0 - 1e-12]}  # fmt: skip
    for e in ends[link]:
        exact = [float(f(np.array(e))) for f in (tails.log_p, tails.rate_p, tails.log_q, tails.rate_q)]  # fmt: skip
        assert tails.compiled(e) == pytest.approx(exact, rel=1e-13, abs=0.0)


def test_a_link_without_a_compiled_function_has_no_compiled_density():
    density = pr.Poisson.compiled_density
    assert density_by_link(density, LOG, LOG) is density
    assert density_by_link(density, LOG, LOGIT) is None
    assert density_by_link(density, CLOGLOG, LOG) is None
    with_slopes = density._replace(row=lambda y, eta, t, slopes: (0.0, 0.0))
    assert density_by_link(with_slopes, LOG, IDENTITY) is None


@pytest.mark.slow
@pytest.mark.parametrize(
    "likelihood",
    [pr.Gamma(link="identity"), pr.Beta(link="probit"), pr.Bernoulli(link="log")],
    ids=repr,
)
def test_chains_of_other_links_have_the_moments_of_importance_sampling(likelihood):
    rng = np.random.default_rng(0)
    x = rng.uniform(size=300)
    eta = -1.0 + 0.5 * x if likelihood.name == "bernoulli" else 1.0 + 2.0 * x
    y = likelihood.sample(rng, eta[:, None], **dict.fromkeys(likelihood.nuisance, 2.0))
    model = pr.Model.from_formula("y ~ x", {"x": x, "y": y}, likelihood=likelihood)
    chains, exact = (pr.fit(model, m, seed=1) for m in ("nuts", "importance"))
    # 5 Monte Carlo standard errors of 800 effective draws or more
    assert (abs(chains.coef - exact.coef) < 0.18 * exact.std_error).all()
    np.testing.assert_allclose(chains.std_error, exact.std_error, rtol=0.13)


@bounded
def test_the_density_is_zero_beyond_the_domain(likelihood):
    y, eta, aux = draw(likelihood)
    for end, side in zip(likelihood.domain, (-1.0, 1.0)):
        if np.isfinite(end):
            beyond = likelihood.log_prob(y, np.full_like(eta, end + side), **aux)
            assert (beyond == -np.inf).all()


@bounded
def test_the_saturated_predictor_is_the_largest_density(likelihood):
    y, eta, aux = draw(likelihood)
    top = likelihood.saturated_log_prob(y, eta, **aux)
    assert np.isfinite(top).all()
    assert (top >= likelihood.log_prob(y, eta, **aux) - 1e-12).all()


@pytest.mark.parametrize("name", sorted(LINKS))
def test_a_link_and_its_inverse_agree_with_pymc(name):
    link = LINKS[name]
    eta = np.array([0.1, 0.3, 0.8])
    np.testing.assert_allclose(link.forward(link.inverse(eta)), eta, rtol=1e-12)
    pytensor = pytest.importorskip("pytensor")
    symbol = link.symbolic_inverse(pytensor.tensor.as_tensor(eta))
    np.testing.assert_allclose(symbol.eval(), link.inverse(eta), rtol=1e-12)
    h = 1e-6
    slope = (link.inverse(eta + h) - link.inverse(eta - h)) / (2 * h)
    np.testing.assert_allclose(link.slope(eta), slope, rtol=1e-7)
    bend = (link.slope(eta + h) - link.slope(eta - h)) / (2 * h)
    np.testing.assert_allclose(link.hessian(eta), bend, rtol=1e-7, atol=1e-9)


@pytest.mark.parametrize("link", [CAUCHIT, CLOGLOG, IDENTITY, LOG, LOGIT])
def test_probabilities_of_a_link_are_those_of_pymc(link):
    pytensor = pytest.importorskip("pytensor")
    likelihood = pr.Bernoulli(link=link)
    y, eta, _ = draw(likelihood)
    kind, parameters = likelihood.pymc(pytensor.tensor.as_tensor(eta))
    log_p = pytest.importorskip("pymc").logp(kind.dist(**parameters), y)
    np.testing.assert_allclose(log_p.eval(), likelihood.log_prob(y, eta), rtol=1e-12)


def test_intervals_of_an_inverse_link_swap_their_ends():
    low, high = INVERSE.interval(np.array([0.5, 0.5, -0.5]), np.array([0.25, 1.0, 1.0]))
    np.testing.assert_allclose(low, [4 / 3, 2 / 3, -np.inf])
    np.testing.assert_allclose(high, [4.0, np.inf, -2 / 3])


@pytest.mark.parametrize("name", LINKS)
def test_an_interval_of_the_mean_is_ordered_about_its_estimate(name):
    centre, half = np.array([0.5]), np.array([0.25])
    low, high = LINKS[name].interval(centre, half)
    mean = LINKS[name].inverse(centre)
    assert low < mean < high


@pytest.mark.parametrize("link", ["logit", "probit", "cloglog"])
@pytest.mark.parametrize("eta", [-800.0, -400.0, 400.0, 800.0])
def test_ordered_classes_have_numbers_far_from_the_thresholds(link, eta):
    likelihood = pr.Ordinal(link=link)
    y, predictors = np.arange(3.0), np.full((3, 1), eta)
    gaps = dict.fromkeys(likelihood.nuisance, 1.0)
    assert np.isfinite(likelihood.log_prob(y, predictors, **gaps)).all()
    assert np.isfinite(likelihood.score(y, predictors, **gaps)).all()


THEIR_LINKS = {
    "cloglog": "CLogLog",
    "cauchit": "Cauchy",
    "inverse": "InversePower",
    "inverse_squared": "InverseSquared",
}


@pytest.mark.parametrize(
    "likelihood",
    [v for v in LIKELIHOODS if v.name != "negative_binomial" and v.name != "binomial"],
    ids=repr,
)
def test_fits_by_links_are_those_of_statsmodels(likelihood):
    sm = pytest.importorskip("statsmodels.api")
    rng = np.random.default_rng(1)
    X = rng.uniform(0.2, 1.0, size=(150, 2))
    mean = 0.1 + X @ [0.3, 0.2] + (0.0 if likelihood.name == "bernoulli" else 1.0)
    eta = likelihood.link.forward(mean)[:, None]
    aux = dict.fromkeys(likelihood.nuisance, 0.2)
    y = likelihood.sample(rng, eta, **aux)
    fit = pr.fit(pr.Model.from_arrays(X, y, likelihood=likelihood))
    link = THEIR_LINKS.get(likelihood.link, likelihood.link.capitalize())
    family = {"bernoulli": "Binomial", "inverse_gaussian": "InverseGaussian"}
    kind = getattr(sm.families, family.get(likelihood.name, likelihood.name.title()))
    link_of = getattr(sm.families.links, link)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # of links beyond the domain of the family
        theirs = sm.GLM(y, sm.add_constant(X), kind(link_of())).fit(
            scale="X2", tol=1e-14
        )
    gap = (fit.coef.values.ravel() - theirs.params) / theirs.bse
    np.testing.assert_allclose(gap, 0.0, atol=1e-6)
    errors = np.sqrt(np.diag(fit.covariance("dispersion")))
    np.testing.assert_allclose(errors, theirs.bse, rtol=1e-6)
    assert fit.deviance == pytest.approx(theirs.deviance, rel=1e-9)


def test_a_start_outside_the_domain_names_the_row():
    table = {"x": np.array([-1.0, 1.0, 2.0, 3.0]), "y": np.array([1.0, 2.0, 3.0, 5.0])}
    model = pr.Model.from_formula(
        "y ~ 0 + x", table, likelihood="poisson(link=identity)"
    )
    with pytest.raises(DataError, match=r"row 0.*identity link"):
        pr.fit(model)
