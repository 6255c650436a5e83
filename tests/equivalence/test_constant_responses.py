"""Responses without variation: all counts zero, or one class. Proper priors give them a posterior; a flat intercept does not."""

import numpy as np
import pandas as pd
import pytest
from scipy.optimize import minimize
from scipy.special import gammaln, logsumexp

import probreg as pr
from probreg.likelihoods import LIKELIHOODS, MayDiverge

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
    "multinomial": {"y": np.stack([3 * ONES, ONES, ZEROS], -1)},
    "negative_binomial": {"y": ZEROS, "aux": {"alpha": pr.priors.HalfNormal(1.0)}},
    "poisson": {"y": ZEROS},
}


def model(likelihood, y, prior=PRIOR, **options):
    return pr.Model.from_arrays(
        X, y, columns=["x"], likelihood=likelihood, prior=prior, **options
    )


def test_every_likelihood_that_may_diverge_has_a_case():
    assert set(DATA) == {
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
        np.linspace(-14, 14, 561), np.linspace(-12, 12, 481), indexing="ij"
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
@pytest.mark.parametrize("likelihood", ["bernoulli", "negative_binomial"])
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
@pytest.mark.parametrize("likelihood", DATA)
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


@pytest.mark.parametrize("likelihood", [name for name in DATA if name != "multinomial"])
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
