"""Public log densities are those of SciPy with their normalising constants, and their derivatives are differences of them."""

from typing import Any

import numpy as np
import pytest
from scipy import stats

import probreg as pr
from probreg import likelihoods as of, priors
from probreg.inference.modes.newton_method import Newton
from probreg.likelihoods import LIKELIHOODS
from probreg.priors import AUX_PRIORS, PRIORS

from .cases import row_with_slopes

ETA = np.array([-2.3, -0.4, 0.0, 0.7, 3.1])[:, None]
MU = np.exp(ETA[:, 0])
P = 1.0 / (1.0 + np.exp(-ETA[:, 0]))
REAL = np.array([-1.9, 0.3, 0.0, 2.2, -40.0])
POSITIVE = np.array([0.1, 0.3, 1.0, 5.5, 40.0])
SHARE = np.array([0.02, 0.3, 0.5, 0.55, 0.98])
ENDS = np.array([[-np.inf, 1.0], [0.5, 2.0], [1.0, np.inf], [-1.0, 0.0], [-2.0, 3.0]])
COUNT = np.array([0.0, 2.0, 1.0, 5.0, 40.0])
SIGMA, ALPHA, TUBE = 1.7, 0.6, 0.45
CLASSES = ("a", "b", "c")
ETAS = np.array([[0.3, -1.2], [2.0, 0.1], [0.0, 0.0], [-3.0, 4.0]])


def softmax(eta: Any) -> Any:
    e = np.exp(np.c_[np.zeros(len(eta)), eta])
    return e / e.sum(1, keepdims=True)


def epsilon_insensitive(y: Any) -> Any:
    """exp(-max(|r| - tube, 0) / sigma) / (2 (sigma + tube))."""
    r = np.abs(y - ETA[:, 0])
    return -np.maximum(r - TUBE, 0.0) / SIGMA - np.log(2.0 * (SIGMA + TUBE))


def huber(y: Any, k: float) -> Any:
    """exp(-rho_k(r)) over its mass: normal within k, exponential beyond."""
    r = (y - ETA[:, 0]) / SIGMA
    loss = np.where(np.abs(r) <= k, r**2 / 2, k * np.abs(r) - k**2 / 2)
    mass = (
        np.sqrt(2 * np.pi) * (stats.norm.cdf(k) - stats.norm.cdf(-k))
        + 2 * np.exp(-(k**2) / 2) / k
    )
    return -loss - np.log(SIGMA * mass)


def asymmetric_laplace(y: Any, tau: float) -> Any:
    r = y - ETA[:, 0]
    return np.log(tau * (1 - tau) / SIGMA) - r * (tau - (r < 0)) / SIGMA


TRIALS = np.array([3.0, 7.0, 1.0, 9.0, 50.0])
LIKELIHOOD_CASES: dict[str, tuple[Any, Any, Any, dict[str, float], Any]] = {
    "gaussian": (of.Gaussian(), REAL, ETA, {"sigma": SIGMA}, stats.norm.logpdf(REAL, ETA[:, 0], SIGMA)),
    "student": (of.StudentT(nu=2.5), REAL, ETA, {"sigma": SIGMA}, stats.t.logpdf(REAL, 2.5, ETA[:, 0], SIGMA)),
    "power": (of.PowerNoise(1.3), REAL, ETA, {"sigma": SIGMA}, stats.gennorm.logpdf(REAL, 1.3, ETA[:, 0], SIGMA)),
    "huber": (of.Huber(1.1), REAL, ETA, {"sigma": SIGMA}, huber(REAL, 1.1)),
    "absolute": (of.AbsoluteLoss(), REAL, ETA, {"sigma": SIGMA}, stats.laplace.logpdf(REAL, ETA[:, 0], SIGMA)),
    "quantile": (of.Quantile(0.8), REAL, ETA, {"sigma": SIGMA}, asymmetric_laplace(REAL, 0.8)),
    "epsilon_insensitive": (of.EpsilonInsensitive(TUBE), REAL, ETA, {"scale": SIGMA}, epsilon_insensitive(REAL)),
    "gamma": (of.Gamma(), POSITIVE, ETA, {"phi": SIGMA}, stats.gamma.logpdf(POSITIVE, 1 / SIGMA, scale=SIGMA * MU)),
    "inverse_gaussian": (
        of.InverseGaussian(), POSITIVE, ETA, {"phi": SIGMA}, stats.invgauss.logpdf(POSITIVE, SIGMA * MU, scale=1 / SIGMA),
    ),
    "beta": (of.Beta(), SHARE, ETA, {"phi": SIGMA}, stats.beta.logpdf(SHARE, SIGMA * P, SIGMA * (1 - P))),
    "weibull": (of.Weibull(), POSITIVE, ETA, {"scale": SIGMA}, stats.weibull_min.logpdf(POSITIVE, 1 / SIGMA, scale=MU)),
    "exponential": (of.Exponential(), POSITIVE, ETA, {}, stats.expon.logpdf(POSITIVE, scale=MU)),
    "log_normal": (of.LogNormal(), POSITIVE, ETA, {"sigma": SIGMA}, stats.lognorm.logpdf(POSITIVE, SIGMA, scale=MU)),
    "log_logistic": (of.LogLogistic(), POSITIVE, ETA, {"scale": SIGMA}, stats.fisk.logpdf(POSITIVE, 1 / SIGMA, scale=MU)),
    "censored": (
        of.Censored(of.Gaussian()), ENDS, ETA, {"sigma": SIGMA},
        np.log(stats.norm.cdf(ENDS[:, 1], ETA[:, 0], SIGMA) - stats.norm.cdf(ENDS[:, 0], ETA[:, 0], SIGMA)),
    ),
    "truncated": (
        of.Truncated(of.Poisson(), lower=1.0), COUNT + 1.0, ETA, {}, stats.poisson.logpmf(COUNT + 1.0, MU) - stats.poisson.logsf(0, MU),
    ),
    "ordinal": (
        of.Ordinal(levels=CLASSES), np.array([0.0, 2.0, 1.0, 1.0, 0.0]), ETA, {"gap_2": SIGMA},
        np.log(np.diff(stats.logistic.cdf([[-np.inf, 0.0, SIGMA, np.inf]] - ETA))[np.arange(5), [0, 2, 1, 1, 0]]),
    ),
    "poisson": (of.Poisson(), COUNT, ETA, {}, stats.poisson.logpmf(COUNT, MU)),
    "negative_binomial": (
        of.NegativeBinomial(), COUNT, ETA, {"alpha": ALPHA}, stats.nbinom.logpmf(COUNT, 1 / ALPHA, 1 / (1 + ALPHA * MU)),
    ),
    "zero_inflated": (
        of.ZeroInflated(of.NegativeBinomial()), COUNT, ETA, {"zero_odds": SIGMA, "alpha": ALPHA},
        np.log(((COUNT == 0) * SIGMA + stats.nbinom.pmf(COUNT, 1 / ALPHA, 1 / (1 + ALPHA * MU))) / (1 + SIGMA)),
    ),
    "hurdle": (
        of.Hurdle(), COUNT, ETA, {"zero_odds": SIGMA},
        np.log(np.where(COUNT == 0, SIGMA, stats.poisson.pmf(COUNT, MU) / stats.poisson.sf(0, MU)) / (1 + SIGMA)),
    ),
    "bernoulli": (of.Bernoulli(), np.array([0.0, 1.0, 1.0, 0.0, 1.0]), ETA, {}, stats.bernoulli.logpmf([0, 1, 1, 0, 1], P)),
    "beta_binomial": (
        of.BetaBinomial(), np.c_[[0.0, 3.0, 1.0, 9.0, 40.0], TRIALS], ETA, {"phi": SIGMA},
        stats.betabinom.logpmf([0, 3, 1, 9, 40], TRIALS, SIGMA * P, SIGMA * (1 - P)),
    ),
    "binomial": (
        of.Binomial(), np.c_[[0.0, 3.0, 1.0, 9.0, 40.0], TRIALS], ETA, {}, stats.binom.logpmf([0, 3, 1, 9, 40], TRIALS, P),
    ),
    "categorical": (
        of.Categorical(levels=CLASSES), np.array([0.0, 2.0, 1.0, 1.0]), ETAS, {},
        np.log(softmax(ETAS)[np.arange(4), [0, 2, 1, 1]]),
    ),
    "multinomial": (
        of.Multinomial(levels=CLASSES), np.array([[1.0, 0.0, 2.0], [4.0, 1.0, 0.0], [0.0, 0.0, 1.0], [2.0, 3.0, 4.0]]), ETAS, {},
        stats.multinomial.logpmf([[1, 0, 2], [4, 1, 0], [0, 0, 1], [2, 3, 4]], [3, 5, 1, 9], softmax(ETAS)),
    ),
}  # fmt: skip


def test_every_likelihood_and_prior_has_a_density_here():
    assert set(LIKELIHOOD_CASES) == set(LIKELIHOODS)
    assert {name for name, *_ in SCALE_CASES} == set(AUX_PRIORS)
    no_closed_form = {
        "covariance",
        "flat",
        "g_prior",
        "gaussian_process",
        "horseshoe",
        "jeffreys",
        "r2",
    }
    assert {name.split()[0] for name, *_ in COEFFICIENT_CASES} == set(
        PRIORS
    ) - no_closed_form


@pytest.mark.parametrize("name", LIKELIHOOD_CASES)
def test_the_log_density_of_a_likelihood_is_that_of_scipy(name):
    likelihood, y, eta, aux, expected = LIKELIHOOD_CASES[name]
    found = likelihood.log_prob(y, eta, **aux)
    np.testing.assert_allclose(found, expected, rtol=1e-10, atol=1e-10)


V = np.array([0.03, 0.4, 1.0, 2.6, 11.0])
SCALE_CASES: list[tuple[str, Any, Any]] = [
    ("reference", priors.Reference(), -np.log(V)),
    ("half_normal", priors.HalfNormal(1.8), stats.halfnorm.logpdf(V, scale=1.8)),
    (
        "half_student",
        priors.HalfStudentT(1.8, nu=3.5),
        np.log(2) + stats.t.logpdf(V, 3.5, scale=1.8),
    ),
    ("half_cauchy", priors.HalfCauchy(1.8), stats.halfcauchy.logpdf(V, scale=1.8)),
    ("exponential", priors.Exponential(1.8), stats.expon.logpdf(V, scale=1.8)),
    ("gamma", priors.Gamma(2.5, 0.6), stats.gamma.logpdf(V, 2.5, scale=1 / 0.6)),
    ("uniform", priors.Uniform(0.01, 12.0), stats.uniform.logpdf(V, 0.01, 11.99)),
    (
        "inverse_gamma",
        priors.InverseGamma(2.2, 1.8),
        np.log(2 * V) + stats.invgamma.logpdf(V**2, 2.2, scale=1.8),
    ),
    (
        "log_normal",
        priors.LogNormal(1.3, location=0.4),
        stats.lognorm.logpdf(V, 1.3, scale=np.exp(0.4)),
    ),
    (
        "beta_prime",
        priors.BetaPrime(1.4, 2.3, scale=1.8),
        np.log(2 * V) + stats.betaprime.logpdf(V**2, 1.4, 2.3, scale=1.8**2),
    ),
]


@pytest.mark.parametrize("case", SCALE_CASES, ids=lambda case: case[0])
def test_the_log_density_of_the_prior_of_a_scale_is_that_of_scipy(case):
    _, prior, expected = case
    np.testing.assert_allclose(prior.log_prob(V), expected, rtol=1e-12, atol=1e-12)
    # slope and second derivative of the density of log v, which is v p(v)
    h = 1e-4

    def log_p(move: float) -> Any:
        v = V * np.exp(move)
        return prior.log_prob(v) + np.log(v)

    for i, v in enumerate(V):
        slope, second = prior.slopes(float(v))
        ahead, here, behind = (log_p(s)[i] for s in (h, 0.0, -h))
        assert slope == pytest.approx((ahead - behind) / (2 * h), rel=1e-5, abs=1e-6)
        assert second == pytest.approx(
            (ahead - 2 * here + behind) / h**2, rel=1e-4, abs=1e-5
        )


BETA = np.array([[0.3, -1.1], [2.5, 0.05]])  # two columns, two predictors
SD, AT = np.array([0.7, 2.0]), np.array([0.2, -0.5])
PRECISION = np.array([[2.0, 0.4], [0.4, 0.5]])
ROOT = np.array([[1.0, 0.0], [0.3, 0.8]])


def each(law: Any, *shape: float, unit: float = 1.0) -> float:
    """The sum of log densities of the columns, each with its own location and scale."""
    return float(
        law.logpdf(BETA, *shape, loc=AT[:, None], scale=unit * SD[:, None]).sum()
    )


def elastic_net(unit: float) -> float:
    """exp(-ratio |z| - (1 - ratio) z^2 / 2) over its mass, z = (beta - location) / scale."""
    from scipy.integrate import quad

    z, ratio = (BETA - AT[:, None]) / (unit * SD[:, None]), 0.3
    mass = (
        2.0 * quad(lambda t: np.exp(-ratio * t - (1 - ratio) * t**2 / 2), 0, np.inf)[0]
    )
    return float(
        (
            -ratio * np.abs(z)
            - (1 - ratio) * z**2 / 2
            - np.log(mass * unit * SD[:, None])
        ).sum()
    )


def group_laplace(unit: float) -> float:
    """exp(-|b|_2 / s) over its mass in the q = 2 columns of a group, by predictor: 2 pi s^2 in the plane."""
    s = unit * 0.9
    return float((-np.linalg.norm(BETA, axis=0) / s - np.log(2 * np.pi * s**2)).sum())


GIVEN = {"location": tuple(AT), "sigma_units": True}
COEFFICIENT_CASES: list[tuple[str, Any, Any]] = [
    ("normal", priors.Normal(tuple(SD), **GIVEN), lambda u: each(stats.norm, unit=u)),
    (
        "normal precision_matrix", priors.Normal(location=tuple(AT), precision_matrix=PRECISION, sigma_units=True),
        lambda u: sum(stats.multivariate_normal.logpdf(b, AT, u**2 * np.linalg.inv(PRECISION)) for b in BETA.T),
    ),
    ("laplace", priors.Laplace(tuple(SD), **GIVEN), lambda u: each(stats.laplace, unit=u)),
    ("student", priors.StudentT(tuple(SD), nu=2.7, **GIVEN), lambda u: each(stats.t, 2.7, unit=u)),
    ("cauchy", priors.Cauchy(tuple(SD), **GIVEN), lambda u: each(stats.cauchy, unit=u)),
    ("exponential_power", priors.ExponentialPower(tuple(SD), q=1.4, **GIVEN), lambda u: each(stats.gennorm, 1.4, unit=u)),
    ("elastic_net", priors.ElasticNet(tuple(SD), ratio=0.3, **GIVEN), elastic_net),
    ("group_laplace", priors.GroupLaplace(0.9, groups=((0, 1),), sigma_units=True), group_laplace),
    (
        "multivariate_normal", priors.MultivariateNormal(((0.2,), (-0.5,)), precision=PRECISION),
        lambda u: stats.multivariate_normal.logpdf(BETA[:, 0], AT, np.linalg.inv(PRECISION)),
    ),
    (
        "group_normal", priors.GroupNormal(ROOT, groups=1),
        lambda u: sum(stats.multivariate_normal.logpdf(b, np.zeros(2), u**2 * ROOT @ ROOT.T) for b in BETA.T),
    ),
]  # fmt: skip


@pytest.mark.parametrize("case", COEFFICIENT_CASES, ids=lambda case: case[0])
@pytest.mark.parametrize("unit", [1.0, 1.8])
def test_the_log_density_of_the_prior_of_coefficients_is_that_of_scipy(case, unit):
    name, prior, expected = case
    beta = BETA[:, :1] if name == "multivariate_normal" else BETA
    assert float(prior.log_prob(beta, unit)) == pytest.approx(
        float(expected(unit)), rel=1e-10
    )


# ---- the posterior as a sum, and its derivatives -------------------------------------------------------------------------

X = np.c_[np.linspace(-1.0, 2.0, 9), np.cos(np.arange(9.0))]
BETA_HERE = np.array([[0.2], [-0.4], [0.9]])
RESPONSES = {
    "gaussian": np.sin(np.arange(9.0)) * 2, "student": np.sin(np.arange(9.0)) * 2, "huber": np.sin(np.arange(9.0)) * 2,
    "power": np.sin(np.arange(9.0)) * 2, "negative_binomial": np.arange(9.0) % 5, "poisson": np.arange(9.0) % 5,
    "bernoulli": np.array([0, 1, 0, 1, 1, 0, 1, 1, 0]),
}  # fmt: skip
OF_AUX = [
    priors.HalfNormal(0.8),
    priors.Exponential(0.5),
    priors.InverseGamma(2.0, 1.5),
    priors.LogNormal(0.7, location=-0.3),
]


@pytest.mark.parametrize("aux_prior", OF_AUX, ids=lambda prior: prior.name)
@pytest.mark.parametrize("likelihood", RESPONSES)
@pytest.mark.parametrize("sigma_units", [False, True])
def test_the_log_posterior_is_the_sum_of_its_parts_and_its_derivatives_are_differences(
    likelihood, aux_prior, sigma_units
):
    aux = {"negative_binomial": "alpha", "poisson": None, "bernoulli": None}.get(
        likelihood, "sigma"
    )
    if sigma_units and aux != "sigma":
        return
    given = {} if aux is None else {"aux": {aux: aux_prior}}
    prior = {
        "Intercept": pr.Normal(2.0),
        "x1": priors.StudentT(1.5),
        "x2": pr.Normal(0.7, sigma_units=sigma_units),
    }
    model = pr.Model.from_arrays(
        X, RESPONSES[likelihood], likelihood=likelihood, prior=prior, **given
    )
    v = 1.3
    known = {} if aux is None else {aux: v}

    def log_posterior(theta: Any) -> float:
        at = {} if aux is None else {aux: np.exp(theta[3])}
        unit = at["sigma"] if sigma_units else 1.0
        eta = theta[0] + X @ theta[1:3]
        y = model.design.observed
        total = model.likelihood.log_prob(y, eta[:, None], **at).sum()
        total += stats.norm.logpdf(theta[0], scale=2.0) + stats.t.logpdf(
            theta[1], 4.0, scale=1.5
        )
        total += stats.norm.logpdf(theta[2], scale=0.7 * unit)
        return float(
            total + (0.0 if aux is None else aux_prior.log_prob(np.asarray(at[aux])))
        )

    theta = np.r_[BETA_HERE[:, 0], [] if aux is None else [np.log(v)]]
    assert float(model.log_posterior(BETA_HERE, **known)) == pytest.approx(
        log_posterior(theta), rel=1e-12
    )
    assert float(model.log_prior(BETA_HERE, **known)) == pytest.approx(
        log_posterior(theta) - float(model.log_lik(BETA_HERE, **known)), rel=1e-10
    )
    local = model.value_grad_hessian(BETA_HERE, **known)
    jacobian = 0.0 if aux is None else np.log(v)
    assert local.value == pytest.approx(log_posterior(theta) + jacobian, rel=1e-12)
    h, k = 1e-4, len(theta)

    def density(move: Any) -> float:  # over log aux
        return log_posterior(theta + move) + (
            0.0 if aux is None else theta[3] + move[3]
        )

    unit = np.eye(k) * h
    slope = [(density(e) - density(-e)) / (2 * h) for e in unit]
    np.testing.assert_allclose(local.gradient, slope, rtol=1e-5, atol=1e-5)
    if likelihood == "power":  # whose curvature is the expected one
        return
    second = [
        [
            (density(a + b) - density(a - b) - density(b - a) + density(-a - b))
            / (4 * h * h)
            for b in unit
        ]
        for a in unit
    ]
    np.testing.assert_allclose(local.curvature, -np.array(second), rtol=1e-4, atol=2e-5)


@pytest.mark.parametrize("likelihood", ["bernoulli", "poisson"])
def test_jeffreys_prior_is_half_the_log_determinant_of_the_information(likelihood):
    y = RESPONSES[likelihood]
    model = pr.Model.from_arrays(X, y, likelihood=likelihood, prior=priors.Jeffreys())
    Z = np.c_[np.ones(9), X]

    def half_log_det(beta: Any) -> float:
        eta = Z @ beta
        w = (
            np.exp(eta)
            if likelihood == "poisson"
            else 1 / (1 + np.exp(-eta)) / (1 + np.exp(eta))
        )
        return 0.5 * float(np.linalg.slogdet(Z.T @ (w[:, None] * Z))[1])

    beta, h = BETA_HERE[:, 0], 1e-5
    assert float(model.log_prior(BETA_HERE)) == pytest.approx(
        half_log_det(beta), rel=1e-12
    )
    flat = pr.Model.from_arrays(X, y, likelihood=likelihood)
    slope = [
        (half_log_det(beta + e) - half_log_det(beta - e)) / (2 * h)
        for e in np.eye(3) * h
    ]
    np.testing.assert_allclose(
        model.gradient(BETA_HERE) - flat.gradient(BETA_HERE),
        slope,
        rtol=1e-6,
        atol=1e-8,
    )
    # Firth's estimate: the gradient of the penalised log-likelihood is 0
    found = pr.fit(model, Newton()).solution.beta
    penalised = flat.gradient(found) + [
        (half_log_det(found[:, 0] + e) - half_log_det(found[:, 0] - e)) / (2 * h)
        for e in np.eye(3) * h
    ]
    np.testing.assert_allclose(penalised, 0.0, atol=1e-6)


# ---- the same densities as plain arithmetic for a compiler, run by Python ------------------------------------------------

ROW_CASES = [
    name
    for name, case in LIKELIHOOD_CASES.items()
    if getattr(case[0].compiled_density, "row", None)
]


@pytest.mark.parametrize("name", ROW_CASES)
def test_the_arithmetic_of_a_row_is_the_density_with_its_slopes(name):
    likelihood, y, eta, aux, _ = LIKELIHOOD_CASES[name]
    density, t = (
        likelihood.compiled_density,
        np.array(likelihood.settings(**aux), dtype=float),
    )
    base, h = likelihood.base_measure(y), 1e-6
    over_aux = []
    for a in likelihood.nuisance:
        ahead, behind = (
            likelihood.log_prob(y, eta, **aux | {a: aux[a] * np.exp(s * h)})
            for s in (1, -1)
        )
        over_aux.append((ahead - behind) / (2 * h))
    over_eta = (
        likelihood.log_prob(y, eta + h, **aux) - likelihood.log_prob(y, eta - h, **aux)
    ) / (2 * h)
    for i, (response, predictor) in enumerate(zip(y, eta[:, 0])):
        log_p, slope, *slopes = row_with_slopes(
            density, response, float(predictor), t, len(over_aux)
        )
        assert log_p + base[i] == pytest.approx(
            likelihood.log_prob(y, eta, **aux)[i], rel=1e-11, abs=1e-12
        )
        # no slope at a kink
        if name not in ("absolute", "quantile") or response != predictor:
            assert slope == pytest.approx(over_eta[i], rel=1e-6, abs=1e-6)
        assert slopes == pytest.approx([v[i] for v in over_aux], rel=1e-6, abs=1e-6)
        if density.product is not None:
            a, e, own = density.product(response, float(predictor), t)
            assert a - np.log1p(e) == pytest.approx(log_p, rel=1e-12, abs=1e-14)
            assert own == pytest.approx(slope, rel=1e-12, abs=1e-14)


@pytest.mark.parametrize(
    "case",
    [c for c in COEFFICIENT_CASES if getattr(c[1], "compiled_density", None)],
    ids=lambda c: c[0],
)
def test_the_arithmetic_of_a_prior_is_its_standard_density_with_its_slope(case):
    prior, h = case[1], 1e-6
    settings = prior.settings
    t = np.array(settings() if callable(settings) else settings, dtype=float)
    for r in (-2.3, -0.4, 0.7, 5.0):
        log_p, slope, _ = prior.compiled_density.row(0.0, r, t)
        assert log_p == pytest.approx(
            float(prior.standard_log_prob(np.array(r))), rel=1e-12
        )
        ahead, behind = (
            float(prior.standard_log_prob(np.array(r + s * h))) for s in (1, -1)
        )
        assert slope == pytest.approx((ahead - behind) / (2 * h), rel=1e-6)


@pytest.mark.parametrize("r", [0.3, 4.0, 250.0])
def test_sums_of_logs_and_reciprocals_are_those_of_the_gamma_function(r):
    from scipy.special import digamma, gammaln, polygamma

    from probreg.likelihoods.log_gamma import rising_squares, rising_sums

    y = np.array([0.0, 1.0, 2.0, 7.0, 300.0])
    logs, ones = rising_sums(y, np.full(5, r))
    squares = rising_squares(y, np.full(5, r))
    np.testing.assert_allclose(
        logs, gammaln(y + r) - gammaln(r) - y * np.log(r), rtol=1e-11, atol=1e-11
    )
    np.testing.assert_allclose(
        ones, r * (digamma(y + r) - digamma(r)), rtol=1e-11, atol=1e-11
    )
    np.testing.assert_allclose(
        squares, r**2 * (polygamma(1, r) - polygamma(1, y + r)), rtol=1e-11, atol=1e-11
    )


@pytest.mark.parametrize("r", [1e-8, 0.02, 5.0, 3e4, 1e9])
def test_rising_sums_lose_no_digits_at_small_and_large_numbers(r):
    from probreg.likelihoods.log_gamma import rising_sums

    for y in (0, 1, 2, 40, 3000):
        j = np.arange(y)
        logs, ones = rising_sums(float(y), r)
        assert logs == pytest.approx(np.log1p(j / r).sum(), rel=1e-14, abs=1e-13)
        assert ones == pytest.approx((r / (r + j)).sum(), rel=1e-13)


def test_terms_of_log_gamma_follow_stirling_far_out_and_its_recursion_at_zero():
    from probreg.likelihoods.log_gamma import log_gamma_terms

    large = np.array([1e4, 1e8, 1e100])
    value, slope = log_gamma_terms(large)
    np.testing.assert_allclose(
        value, 0.5 * np.log(large / (2 * np.pi)) - 1 / (12 * large), rtol=1e-13
    )
    np.testing.assert_allclose(
        slope * large, 0.5 + 1 / (12 * large), rtol=0, atol=2e-14
    )
    # log Gamma(a) = -log a and digamma(a) = -1 / a - Euler's constant
    value, slope = log_gamma_terms(1e-12)
    assert value == pytest.approx(1e-12 * np.log(1e-12) + np.log(1e-12), rel=1e-13)
    assert slope == pytest.approx(1e12 + np.log(1e-12) + np.euler_gamma, rel=1e-15)


VARIANCES = {
    "gaussian": stats.norm.var(scale=SIGMA), "student": stats.t.var(2.5, scale=SIGMA), "power": stats.gennorm.var(1.3, scale=SIGMA),
    "poisson": stats.poisson.var(MU), "negative_binomial": stats.nbinom.var(1 / ALPHA, 1 / (1 + ALPHA * MU)),
    "bernoulli": stats.bernoulli.var(P), "absolute": stats.laplace.var(scale=SIGMA),
}  # fmt: skip


@pytest.mark.parametrize("name", VARIANCES)
def test_the_variance_of_each_row_is_that_of_scipy(name):
    likelihood, _, eta, aux, _ = LIKELIHOOD_CASES[name]
    found = likelihood.response_variance(eta, **aux)
    if found is not None:
        np.testing.assert_allclose(
            found, np.broadcast_to(VARIANCES[name], 5), rtol=1e-10
        )
        assert np.shape(found) == (5,)


@pytest.mark.parametrize("k", [0.5, 1.345, 3.0])
def test_the_variance_of_huber_noise_is_that_of_its_density(k):
    noise = pr.likelihoods.Huber(k=k)
    r, step = np.linspace(-60.0, 60.0, 400_001, retstep=True)
    second = step * float(np.square(r) @ np.exp(noise.standard_log_prob(r)))
    assert noise.standard_variance == pytest.approx(second, rel=1e-6)


@pytest.mark.parametrize("name", LIKELIHOOD_CASES)
def test_derivatives_have_an_axis_for_each_predictor(name):
    likelihood, y, eta, aux, _ = LIKELIHOOD_CASES[name]
    n, m = eta.shape
    assert likelihood.score(y, eta, **aux).shape == (n, m)
    known = aux | likelihood.given(y)
    assert np.broadcast_shapes(
        likelihood.information(eta, **known).shape, (n, m, m)
    ) == (n, m, m)
    assert likelihood.information_slope(eta, **known).shape == (n, m, m, m)
    few = likelihood.value_grad_hessian(y, eta, **aux)
    k = m + len(aux)
    assert (few[0].shape, few[1].shape, few[2].shape) == ((n,), (n, k), (n, k, k))


def test_a_correlation_is_a_beta_variable_between_minus_one_and_one():
    from probreg.priors.correlations import PartialCorrelation

    prior, r = PartialCorrelation(1.7), np.array([-0.9, -0.2, 0.0, 0.55])
    expected = stats.beta.logpdf((1 + r) / 2, 1.7, 1.7) - np.log(2)
    # v = ((1 + r) / (1 - r))^(1/2) has dv / dr = v / (1 - r^2)
    v = np.sqrt((1 + r) / (1 - r))
    found = prior.log_prob(v) + np.log(v / (1 - r**2))
    np.testing.assert_allclose(found, expected, rtol=1e-12)


def test_the_curvature_of_a_power_is_the_expected_one():
    model = pr.Model.from_arrays(X, RESPONSES["power"], likelihood=of.PowerNoise(1.3))
    sigma, p = 1.3, 1.3
    found = model.value_grad_hessian(BETA_HERE, sigma=sigma).curvature
    r = np.linspace(-60.0, 60.0, 2_000_001)
    slope = p * np.abs(r) ** (p - 1) * np.sign(r)
    information = (
        float((slope**2 * stats.gennorm.pdf(r, p)).sum() * (r[1] - r[0])) / sigma**2
    )
    Z = np.c_[np.ones(9), X]
    np.testing.assert_allclose(found[:3, :3], information * Z.T @ Z, rtol=1e-4)
    np.testing.assert_allclose(found[:3, 3], 0.0, atol=1e-12)
    assert found[3, 3] == pytest.approx(9 * p, rel=1e-12)
