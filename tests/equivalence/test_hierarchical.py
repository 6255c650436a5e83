"""Unknown scales by several routes: the evidence surface, quadrature over the scale, closed forms, and draws."""

import warnings
from typing import Any

import numpy as np
import pytest
from scipy import integrate, stats
from scipy.special import gammaln, logsumexp

import probreg as pr
from probreg.inference.exact.evidence_problem import EvidenceProblem
from probreg.priors import R2, GPrior, Horseshoe, Normal
from tests.conftest import covering

Array = np.ndarray


def integrated(model: pr.Model) -> float:
    """log p(y), the unknown scale and sigma integrated out of the evidence surface, by trapezoids over the logs: the scale as
    far as its tails reach, sigma over nine standard deviations of its log."""
    problem = EvidenceProblem(model, False)
    top = problem.maximise(200)
    sd = float(np.sqrt(np.linalg.inv(-top.at.hessian)[-1, -1]))
    u, v = (
        top.theta[0] + np.arange(-9.0, 18.0, 0.25),
        top.theta[1] + sd * np.arange(-9.0, 9.0, 0.6),
    )
    values = [[problem.surface(np.array([a, b])).value for b in v] for a in u]
    return float(logsumexp(values)) + np.log(0.25 * 0.6 * sd)


@pytest.mark.parametrize(
    "tau",
    [pr.HalfNormal(0.8), pr.priors.HalfCauchy(0.5), pr.priors.InverseGamma(2.0, 0.7)],
    ids=lambda t: t.name,
)
def test_the_evidence_over_tau_is_the_evidence_of_the_marginal_prior(tau: Any) -> None:
    """One coefficient and sigma given: p(y) by the surface over tau, and by the density of beta without tau."""
    rng = np.random.default_rng(0)
    x = rng.normal(size=(20, 1))
    y = x[:, 0] + 0.5 * rng.normal(size=20)
    model = pr.Model.from_arrays(
        x, y, intercept=False, prior=Normal(tau), aux={"sigma": 0.5}
    )
    surface = EvidenceProblem(model, False).surface
    over_tau = integrate.quad(
        lambda u: np.exp(surface(np.array([u])).value + 20),
        -12,
        14,
        limit=400,
        epsabs=0,
        epsrel=1e-11,
    )[0]
    centre, sd = float((x[:, 0] @ y) / (x[:, 0] @ x[:, 0])), 0.5 / np.linalg.norm(x)
    b, w = np.polynomial.legendre.leggauss(400)
    b, w = centre + 30 * sd * b, 30 * sd * w  # thirty standard errors of the likelihood
    over_beta = w @ np.exp(model.log_posterior(b[:, None, None]) + 20)
    assert np.log(over_tau) == pytest.approx(np.log(over_beta), abs=1e-9)


def jzs_bayes_factor(r2: float, n: int, p: int, r: float) -> float:
    """Rouder & Morey 2012, equation 15: int (1 + g)^((n - p - 1)/2) (1 + g (1 - R^2))^(-(n - 1)/2) p(g) dg, over log g."""

    def f(u: float) -> float:
        g = np.exp(u)
        log_bf = 0.5 * (n - p - 1) * np.log1p(g) - 0.5 * (n - 1) * np.log1p(
            g * (1 - r2)
        )
        return float(
            np.exp(
                log_bf + stats.invgamma(0.5, scale=n * r * r / 2).logpdf(g) + u - shift
            )
        )

    shift = 0.5 * (n - p - 1) * np.log1p(n) - 0.5 * (n - 1) * np.log1p(n * (1 - r2))
    return float(
        np.log(integrate.quad(f, -15, 60, limit=500, epsabs=0, epsrel=1e-11)[0]) + shift
    )


def log_bayes_factor(y: Array, X: Array, prior: Any) -> float:
    """Against the intercept alone, p(sigma) ∝ 1/sigma in both; the null's integral over sigma in closed form."""
    model = pr.Model.from_arrays(X, y, prior=prior)
    n, rss = len(y), np.square(y - y.mean()).sum()
    # int (2 pi s^2)^(-(n-1)/2) n^(-1/2) exp(-rss / 2 s^2) d log s
    null = (
        -0.5 * np.log(n)
        - 0.5 * (n - 1) * np.log(np.pi * rss)
        + gammaln((n - 1) / 2)
        - np.log(2.0)
    )
    return integrated(model) - float(null)


def r_squared(y: Array, X: Array) -> float:
    A = np.c_[np.ones(len(y)), X]
    residual = y - A @ np.linalg.lstsq(A, y)[0]
    return 1.0 - residual @ residual / np.square(y - y.mean()).sum()


@pytest.mark.slow
def test_the_jzs_bayes_factor_is_its_integral() -> None:
    q, r = 3, np.sqrt(2) / 4
    rng = np.random.default_rng(1)
    X = rng.normal(size=(40, q)) * np.array([1.0, 30.0, 0.2])[:q] + 5.0
    y = 2.0 + X[:, 0] * 0.4 + rng.normal(size=40)
    exact = jzs_bayes_factor(r_squared(y, X), 40, q, r)
    # the scale is cut where its tail holds exp(-18)
    assert log_bayes_factor(
        y, X, GPrior(pr.priors.InverseGamma(0.5, r**2 / 2))
    ) == pytest.approx(exact, abs=2e-7)


@pytest.fixture
def attitude(certified: Any) -> tuple[Array, Array, list[str]]:
    certified("tables/bayes_linear_evidence/attitude_BayesFactor_63models")
    case = certified("r_lm/attitude_full")
    return (
        np.array(case["design"]["y"]),
        np.array(case["design"]["X"])[:, 1:],
        case["columns"][1:],
    )


@pytest.mark.parametrize(
    ("columns", "value"),
    [
        (("complaints",), 417939.0),
    ],
)
def test_bayes_factors_of_attitude(
    attitude: tuple[Array, Array, list[str]], columns: tuple[str, ...], value: float
) -> None:
    """Models of R's attitude data against the mean alone, to a unit of the values that R's BayesFactor is known for; the
    independent integral beside them says the same."""
    y, X, names = attitude
    part = X[:, [names.index(c) for c in columns]]
    exact = jzs_bayes_factor(r_squared(y, part), 30, len(columns), np.sqrt(2) / 4)
    assert exact == pytest.approx(np.log(value), abs=1e-5)
    assert log_bayes_factor(
        y, part, GPrior(pr.priors.InverseGamma(0.5, 1 / 16))
    ) == pytest.approx(np.log(value), abs=1e-5)


# ---- draws -------------------------------------------------------------------------------------------------------------


def posterior_of_scales(model: pr.Model) -> tuple[Array, Array]:
    """Means and standard deviations of (beta, sigma, tau) of a Gaussian model by quadrature over (log tau, log sigma)."""
    problem = EvidenceProblem(model, False)
    top = problem.maximise(200)
    sd = np.sqrt(np.linalg.inv(-top.at.hessian)[-1, -1])
    grid = [
        (a, b)
        for a in top.theta[0] + np.arange(-9, 16, 0.5)
        for b in top.theta[1] + sd * np.arange(-6, 6, 0.8)
    ]
    weight = np.array([problem.surface(np.array(t)).value for t in grid])
    weight = np.exp(weight - logsumexp(weight))
    first, second = (
        np.zeros(len(model.design.columns) + 2),
        np.zeros(len(model.design.columns) + 2),
    )
    for w, (a, b) in zip(weight, grid):
        if w < 1e-9:
            continue
        given = model.with_prior(problem.prior_at(np.exp([a]))).with_aux(
            sigma=float(np.exp(b))
        )
        found = pr.ClosedForm().solve(given, np.random.default_rng(0))
        mean = np.r_[found.beta[:, 0], np.exp([b, a])]
        first += w * mean
        second += w * (mean**2 + np.r_[found.scale.diagonal(), 0.0, 0.0])
    return first, np.sqrt(second - first**2)


@pytest.mark.slow
@pytest.mark.parametrize(
    "noise", [0.4, 6.0], ids=["strong-centred", "weak-non-centred"]
)
def test_draws_of_an_unknown_scale_are_its_posterior(
    noise: float,
) -> None:
    """Means within four Monte Carlo standard errors, standard deviations within a tenth; tau's prior has moments."""
    rng = np.random.default_rng(2)
    X = rng.normal(size=(25, 4)) + 1.0
    y = 3.0 + X @ [1.0, -0.6, 0.3, 0.0] + noise * rng.normal(size=25)
    model = pr.Model.from_arrays(X, y, prior=Normal(pr.HalfNormal(0.8)))
    mean, sd = posterior_of_scales(model)
    fit = pr.fit(
        model, pr.NUTS(draws=500, tune=500, chains=2, target_accept=0.95), seed=3
    )
    table = fit.summary()
    assert fit.solution.draws.hyper == ("tau",)
    ess = table["ess_bulk"].to_numpy(float)
    assert ess.min() > 200
    assert (
        np.abs(table["mean"].to_numpy(float) - mean) / sd * np.sqrt(ess)
    ).max() < 4.0
    np.testing.assert_allclose(table["sd"], sd, rtol=0.1)


@pytest.mark.parametrize(
    "likelihood", covering(["bernoulli", "poisson", "categorical"])
)
@pytest.mark.parametrize(
    "prior",
    [
        GPrior(pr.priors.InverseGamma(0.5, 1 / 16)),
        R2(),
        Horseshoe(),
        pr.Normal(precision_matrix=((2.0, 0.4), (0.4, 1.0))),
    ],
    ids=lambda p: p.name,
)
def test_two_columns_can_be_sampled(prior: Any, likelihood: str) -> None:
    """A solve with a 2 by 2 factor is taken for a tridiagonal one by the rewrites of the graph: it is not asked for."""
    rng = np.random.default_rng(0)
    X, y = (
        rng.normal(size=(60, 2)),
        rng.integers(0, 2 if likelihood == "bernoulli" else 3, 60),
    )
    model = pr.Model.from_arrays(X, y, likelihood=likelihood, prior=prior)
    with warnings.catch_warnings():
        # thirty draws need not have mixed
        warnings.simplefilter("ignore", pr.ProbregWarning)
        fit = pr.fit(model, pr.NUTS(draws=30, tune=60, chains=1), seed=1)
    assert np.isfinite(fit.solution.draws["beta"]).all()
    assert fit.solution.draws["beta"].std() > 0
