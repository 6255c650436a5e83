"""Responses without variation: one number, all counts zero, or one class. Proper priors give them a posterior; flat ones do not."""

from functools import cache

import numpy as np
import pandas as pd
import pytest
from scipy.optimize import minimize
from scipy.special import gammaln, logsumexp
from scipy.stats import invgamma, norm, t as t_distribution

import probreg as pr
from probreg.likelihoods import LIKELIHOODS, MayDiverge
from probreg.likelihoods.location_scale import AdditiveNoise

N = 20
X = np.random.default_rng(0).normal(size=N)
PRIOR = {"Intercept": pr.Normal(2.0), "x": pr.Normal(2.0)}
LOG_PROB = {
    "poisson": lambda y, eta: y * eta - np.exp(eta) - gammaln(y + 1.0),
    "bernoulli": lambda y, eta: -np.logaddexp(0.0, np.where(y > 0.5, -eta, eta)),
}
ZEROS, ONES = np.zeros(N, int), np.ones(N, int)
DATA = {
    "bernoulli": {"y": ONES},
    "binomial": {"y": ZEROS, "trials": 3 * ONES},
    "categorical": {"y": pd.Categorical(["a"] * N, categories=["a", "b", "c"])},
    "censored": {  # every row is censored on the right
        "y": np.stack([ONES, np.full(N, np.inf)], -1),
        "aux": {"sigma": pr.priors.HalfNormal(1.0)},
    },
    "hurdle": {"y": ZEROS, "aux": {"zero_odds": pr.priors.HalfNormal(1.0)}},
    "multinomial": {"y": np.stack([3 * ONES, ONES, ZEROS], -1)},
    "negative_binomial": {"y": ZEROS, "aux": {"alpha": pr.priors.HalfNormal(1.0)}},
    "ordinal": {
        "y": pd.Categorical(["a"] * N, categories=["a", "b", "c"], ordered=True),
        "aux": {"gap_2": pr.priors.HalfNormal(1.0)},
    },
    "poisson": {"y": ZEROS},
    "zero_inflated": {"y": ZEROS, "aux": {"zero_odds": pr.priors.HalfNormal(1.0)}},
}


def model(likelihood, y, prior=PRIOR, **options):
    return pr.Model.from_arrays(
        X, y, columns=["x"], likelihood=likelihood, prior=prior, **options
    )


def test_every_likelihood_that_may_diverge_has_a_case():
    # the beta-binomial has the binomial's cases: its likelihood diverges for the same responses
    assert {*DATA, "beta_binomial"} == {
        name for name, kind in LIKELIHOODS.items() if issubclass(kind, MayDiverge)
    }


@pytest.mark.parametrize(
    ("likelihood", "value"), [("poisson", 0), ("bernoulli", 0), ("bernoulli", 1)]
)
def test_mode_and_posterior_equal_dense_quadrature(likelihood, value):
    y, log_prob = np.full(N, value), LOG_PROB[likelihood]

    def log_joint(a, b):
        eta = np.asarray(a)[..., None] + np.asarray(b)[..., None] * X
        return log_prob(y, eta).sum(-1) - (a**2 + b**2) / 8.0

    a, b = np.meshgrid(
        np.linspace(-14, 14, 281), np.linspace(-12, 12, 241), indexing="ij"
    )
    log_p = log_joint(a, b)
    p = np.exp(log_p - logsumexp(log_p))
    mean = np.array([(p * a).sum(), (p * b).sum()])
    sd = np.sqrt([(p * (a - mean[0]) ** 2).sum(), (p * (b - mean[1]) ** 2).sum()])
    mode = minimize(lambda v: -log_joint(v[0], v[1]), np.zeros(2), tol=1e-12).x

    m = model(likelihood, y)
    np.testing.assert_allclose(np.ravel(pr.fit(m).coef), mode, atol=1e-5)
    posterior = pr.fit(m, "importance", seed=1)
    # a Monte Carlo error of sd / sqrt(1000 effective draws), times 4
    np.testing.assert_array_less(
        np.abs(np.ravel(posterior.coef) - mean), 4.0 * sd / np.sqrt(1000.0)
    )


@pytest.mark.parametrize("method", ["newton", "laplace", "importance"])
@pytest.mark.parametrize("likelihood", DATA)
def test_proper_priors_give_a_fit(likelihood, method):
    fit = pr.fit(model(likelihood, **DATA[likelihood]), method, seed=1)
    assert fit.solution.status.name in ("CONVERGED", "SAMPLED")
    assert np.isfinite(np.ravel(fit.coef)).all()
    assert "nan" not in str(fit).lower().replace("nance", "")


@pytest.mark.slow
@pytest.mark.parametrize("likelihood", ["bernoulli"])
def test_markov_chains_and_posterior_agree(likelihood):
    m = model(likelihood, **DATA[likelihood])
    chains, weighted = (
        pr.fit(m, pr.NUTS(target_accept=0.99), seed=1),
        pr.fit(m, "posterior", seed=1),
    )
    assert weighted.solution.status.good
    gap = np.abs(np.ravel(chains.coef) - np.ravel(weighted.coef)) / np.ravel(
        weighted.std_error
    )
    assert gap.max() < 0.2  # four errors of a mean over 400 effective draws


@pytest.mark.parametrize("likelihood", DATA)
def test_prior_simulation_needs_no_variation(likelihood):
    found = model(likelihood, **DATA[likelihood]).prior_predictive(seed=1)
    assert np.isfinite(found.beta).all()
    assert np.ptp(found.y) > 0


@pytest.mark.slow
@pytest.mark.parametrize("likelihood", ["bernoulli", "censored", "zero_inflated"])
def test_pymc_has_the_same_density(likelihood):
    from pymc.model.transform.conditioning import remove_value_transforms

    m, rng = model(likelihood, **DATA[likelihood]), np.random.default_rng(1)
    log_p = remove_value_transforms(m.to_pymc()).compile_logp(
        jacobian=False, mode="FAST_COMPILE"
    )
    for _ in range(2):
        beta, aux = rng.normal(size=m.shape), dict.fromkeys(m.unknown, 0.7)
        columns = {
            name: v if m.likelihood.outcomes else v[0]
            for name, v in zip(m.design.columns, beta)
        }
        np.testing.assert_allclose(
            log_p(aux | columns), m.log_posterior(beta, **aux), rtol=1e-12
        )


@pytest.mark.parametrize("likelihood", ["binomial", "categorical", "poisson"])
def test_constant_responses_in_dask(likelihood):
    dask = pytest.importorskip("dask.dataframe")
    given = dict(DATA[likelihood])
    table = pd.DataFrame({"x": X, "y": given.pop("y"), "n": given.pop("trials", ONES)})
    parts = dask.from_pandas(table, npartitions=3)
    left = "p(y, n)" if likelihood == "binomial" else "y"
    there = pr.Model.from_dask(
        f"{left} ~ x", parts, likelihood=likelihood, prior=PRIOR, **given
    )
    here = pr.fit(model(likelihood, **DATA[likelihood]))
    np.testing.assert_allclose(
        np.ravel(pr.fit(there).coef), np.ravel(here.coef), atol=1e-6
    )
    with pytest.raises(pr.DataError):
        pr.Model.from_dask(f"{left} ~ x", parts, likelihood=likelihood, **given)


@pytest.mark.parametrize(
    "prior", [pr.Flat(), pr.Normal(2.0)], ids=["flat", "flat intercept"]
)
@pytest.mark.parametrize("likelihood", DATA)
def test_a_flat_intercept_has_no_estimate(likelihood, prior):
    with pytest.raises(pr.DataError, match="is flat"):
        model(likelihood, prior=prior, **DATA[likelihood])


def test_flat_dispersion_of_zero_counts_has_no_estimate():
    with pytest.raises(pr.DataError, match="alpha"):
        model("negative_binomial", ZEROS)


@pytest.mark.parametrize(
    ("y", "options", "levels"),
    [
        (ZEROS, {}, (0, 1)),
        (ONES.astype(float), {}, (0, 1)),
        (ONES, {"event": 0}, (1, 0)),
        (ONES, {"event": 2}, (1, 2)),
        (ONES.astype(bool), {}, (False, True)),
        (np.full(N, "no"), {"event": "yes"}, ("no", "yes")),
        (
            np.full(N, "no"),
            {"likelihood": pr.Bernoulli(levels=("no", "yes"))},
            ("no", "yes"),
        ),
        (pd.Categorical(["b"] * N, categories=["a", "b"]), {}, ("a", "b")),
    ],
)
def test_second_level_of_a_response_of_one_level(y, options, levels):
    table = pd.DataFrame({"y": y, "x": X})
    found = pr.Model.from_formula(
        "y ~ x", table, **{"likelihood": "bernoulli", "prior": PRIOR} | options
    )
    assert found.likelihood.levels == levels
    assert (found.design.observed == levels.index(y[0])).all()


@pytest.mark.parametrize("likelihood", ["bernoulli", "categorical"])
@pytest.mark.parametrize("y", [np.full(N, "no"), np.full(N, 7)], ids=["text", "number"])
def test_unknown_second_level(likelihood, y):
    with pytest.raises(pr.DataError, match="constant"):
        model(likelihood, y)


@pytest.mark.parametrize("likelihood", ["poisson", "bernoulli"])
def test_constant_responses_in_files(tmp_path, likelihood):
    table = pd.DataFrame({"y": ZEROS, "x": X})
    table.to_parquet(tmp_path / "a.parquet")
    found = pr.Model.from_files(
        "y ~ x", tmp_path / "a.parquet", likelihood=likelihood, prior=PRIOR
    )
    np.testing.assert_allclose(
        np.ravel(pr.fit(found).coef),
        np.ravel(pr.fit(model(likelihood, ZEROS)).coef),
        atol=1e-6,
    )
    with pytest.raises(pr.DataError, match="flat"):
        pr.Model.from_files("y ~ x", tmp_path / "a.parquet", likelihood=likelihood)


NOISE = pr.priors.InverseGamma(2.0, 1.0)
IN_UNITS = {c: pr.Normal(1.0, sigma_units=True) for c in PRIOR}
LEVEL = 3.0
STANDARD = {"gaussian": norm, "student": t_distribution(4.0)}


def numbers(likelihood, **options):
    chosen = pr.StudentT(nu=4.0) if likelihood == "student" else likelihood
    return model(
        chosen, np.full(N, LEVEL), **{"prior": PRIOR, "aux": {"sigma": NOISE}} | options
    )


@cache
def integrate_grid(likelihood):
    """Means and sds of (intercept, slope, sigma) under PRIOR and NOISE, by sums over a grid of u = (intercept - LEVEL) / sigma,
    v = slope / sigma and log sigma: residuals are -(u + v x) sigma."""
    u = np.linspace(-1.5, 1.5, 61)[:, None, None]
    v = np.linspace(-1.7, 1.7, 61)[:, None]
    sigma = np.geomspace(0.02, 2.0, 121)
    a, b = LEVEL + sigma * u, sigma * v
    residual = u[..., None] + v[..., None] * X
    log_p = STANDARD[likelihood].logpdf(residual).sum(-1) - N * np.log(sigma)
    # Normal(2) for both coefficients, sigma^2 ~ InverseGamma(2, 1); the Jacobian of (u, v, log sigma^2) is sigma^4
    log_p = log_p - (a**2 + b**2) / 8.0 + invgamma(2.0).logpdf(sigma**2)
    log_p = log_p + 4.0 * np.log(sigma)
    p = np.exp(log_p - logsumexp(log_p))
    values = [np.broadcast_to(w, p.shape) for w in (a, b, sigma)]
    mean = np.array([(p * w).sum() for w in values])
    sd = np.sqrt([(p * (w - m) ** 2).sum() for w, m in zip(values, mean)])
    return mean, sd


@pytest.mark.parametrize(
    ("likelihood", "method", "far"),
    [
        ("gaussian", "quadrature", 1e-3),  # of the grid
        ("gaussian", "posterior", 1e-3),
        # in posterior sds: 4 errors of a mean over 1,000 effective draws
        ("gaussian", "importance", 0.13),
        ("student", "importance", 0.13),
        pytest.param("student", "nuts", 0.13, marks=pytest.mark.slow),
    ],
)
def test_constant_numbers_have_the_posterior_of_a_grid(likelihood, method, far):
    mean, sd = integrate_grid(likelihood)
    fit = pr.fit(numbers(likelihood), method, seed=1)
    assert fit.solution.status.good
    found = np.r_[np.ravel(fit.coef), fit.solution.aux["sigma"]]
    np.testing.assert_array_less(np.abs(found - mean), far * sd)
    np.testing.assert_allclose(np.ravel(fit.std_error), sd[:2], rtol=far)


@pytest.mark.parametrize("method", ["closed_form", "conjugate", "newton", "laplace"])
def test_constant_numbers_at_a_known_scale(method):
    fit = pr.fit(numbers("gaussian", aux={"sigma": 0.7}), method, seed=1)
    design = np.column_stack([np.ones(N), X])
    P = design.T @ design / 0.49 + np.eye(2) / 4.0
    mean = np.linalg.solve(P, design.T @ np.full(N, LEVEL) / 0.49)
    np.testing.assert_allclose(np.ravel(fit.coef), mean, atol=1e-6)
    sd = np.sqrt(np.diag(np.linalg.inv(P)))
    np.testing.assert_allclose(np.ravel(fit.std_error), sd, rtol=1e-5)


@pytest.mark.parametrize("method", ["conjugate", "quadrature", "nuts"])
def test_constant_numbers_under_priors_in_units_of_sigma(method):
    """The posterior of the coefficients is a multivariate t, although p(sigma) is 1/sigma."""
    fit = pr.fit(numbers("gaussian", prior=IN_UNITS, aux={}), method, seed=1)
    design = np.column_stack([np.ones(N), X])
    P = design.T @ design + np.eye(2)
    mean = np.linalg.solve(P, design.T @ np.full(N, LEVEL))
    rss = N * LEVEL**2 - mean @ P @ mean
    sd = np.sqrt(np.diag(np.linalg.inv(P)) * rss / (N - 2.0))
    # an sd from 1,000 effective draws has an error of 2.2 %
    np.testing.assert_allclose(
        np.ravel(fit.std_error), sd, rtol=0.09 if method == "nuts" else 1e-6
    )
    assert len(pr.diagnose(fit))


ADDITIVE = [
    name for name, kind in LIKELIHOODS.items() if issubclass(kind, AdditiveNoise)
]


@pytest.mark.parametrize("likelihood", ADDITIVE)
def test_constant_numbers_without_a_prior_of_their_scale_have_no_estimate(likelihood):
    for prior in (pr.Flat(), PRIOR):
        with pytest.raises(pr.DataError, match="constant"):
            numbers(likelihood, prior=prior, aux={})


@pytest.mark.parametrize(
    ("likelihood", "method"),
    [
        ("gaussian", "newton"),
        pytest.param("student", "nuts", marks=pytest.mark.slow),
    ],
)
def test_a_prior_with_mass_at_a_scale_of_zero_gives_no_fit(likelihood, method):
    built = numbers(likelihood, aux={"sigma": pr.HalfNormal(1.0)})
    with pytest.raises(pr.errors.ProbregError, match="sigma"):
        pr.fit(built, method, seed=1)


@pytest.mark.parametrize("likelihood", ADDITIVE)
def test_prior_simulation_of_a_constant_number(likelihood):
    kind = LIKELIHOODS[likelihood]
    found = numbers(likelihood, aux=dict.fromkeys(kind.nuisance, 1.0)).prior_predictive(
        seed=1
    )
    assert np.ptp(found.y) > 0


def test_constant_numbers_in_files(tmp_path):
    table = pd.DataFrame({"y": np.full(N, LEVEL), "x": X})
    table.to_parquet(tmp_path / "a.parquet")
    found = pr.Model.from_files(
        "y ~ x", tmp_path / "a.parquet", prior=PRIOR, aux={"sigma": NOISE}
    )
    np.testing.assert_allclose(
        np.ravel(pr.fit(found, "quadrature").coef),
        np.ravel(pr.fit(numbers("gaussian"), "quadrature").coef),
        atol=1e-9,
    )
    with pytest.raises(pr.DataError, match="constant"):
        pr.Model.from_files("y ~ x", tmp_path / "a.parquet", prior=PRIOR)
