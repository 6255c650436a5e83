"""Intervals of the mean and of a new observation: against other programs, and by how often they hold the truth."""

import warnings
from typing import Any

import numpy as np
import pytest
import statsmodels.api as sm
from scipy import stats
from scipy.special import logit

import probreg as pr
from probreg.likelihoods import Gaussian, Likelihood
from probreg.model.predictive import Predictive
from probreg.priors import Normal
from tests.conftest import covering

Array = np.ndarray
LIKELIHOODS: dict[str, Likelihood] = {
    "gaussian": Gaussian(),
    "student": pr.StudentT(nu=5.0),
    "poisson": pr.Poisson(),
    "bernoulli": pr.Bernoulli(),
    "categorical": pr.Categorical(),
}
ORDERED = [k for k in LIKELIHOODS if k != "categorical"]
SIGMA = 0.8
NEW = np.array([[0.3, -0.2], [-1.0, 0.7], [1.4, 1.1]])


def rows(n: int, seed: int = 7) -> Array:
    return np.random.default_rng(seed).normal(size=(n, 2))


def drawn(name: str, X: Array, beta: Array, rng: np.random.Generator) -> Array:
    """A response of this likelihood at beta (3, m), intercept first."""
    likelihood = LIKELIHOODS[name]
    return likelihood.sample(
        rng, beta[0] + X @ beta[1:], **dict.fromkeys(likelihood.nuisance, SIGMA)
    )


def truth(name: str) -> Array:
    beta = np.array([[0.4], [0.5], [-0.4]])
    return np.hstack([beta, -0.7 * beta[::-1]]) if name == "categorical" else beta


def model_of(name: str, X: Array, y: Array, **more: Any) -> pr.Model:
    y = y.astype(int) if name in ("bernoulli", "categorical") else y
    return pr.Model.from_arrays(X, y, likelihood=LIKELIHOODS[name], **more)


# ---- other programs ------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("prob", [0.5, 0.95])
def test_least_squares_predicts_as_statsmodels_does(prob):
    X = rows(40)
    y = drawn("gaussian", X, truth("gaussian"), np.random.default_rng(1))
    other = (
        sm.OLS(y, sm.add_constant(X))
        .fit()
        .get_prediction(sm.add_constant(NEW))
        .summary_frame(alpha=1 - prob)
    )
    found = pr.ols(X, y).predict(NEW, prob)
    names = {
        "mean": "mean",
        "mean_lower": "mean_ci_lower",
        "mean_upper": "mean_ci_upper",
    }
    names |= {"new_lower": "obs_ci_lower", "new_upper": "obs_ci_upper"}
    for ours, theirs in names.items():
        np.testing.assert_allclose(found[ours], other[theirs], rtol=1e-8)


@pytest.mark.parametrize(
    ("name", "family"),
    [("bernoulli", sm.families.Binomial), ("poisson", sm.families.Poisson)],
)
@pytest.mark.parametrize("offset", [False, True])
def test_generalised_linear_models_predict_as_statsmodels_does(name, family, offset):
    """Wald on the scale of the link, transformed."""
    X = rows(80)
    shift = np.linspace(-0.5, 0.5, 80) if offset else None
    y = drawn(name, X, truth(name), np.random.default_rng(2))
    at = np.array([0.2, 0.0, -0.3]) if offset else None
    other = sm.GLM(y, sm.add_constant(X), family=family(), offset=shift).fit(tol=1e-14)
    frame = other.get_prediction(
        sm.add_constant(NEW), offset=at, transform=True
    ).summary_frame(alpha=0.1)
    found = pr.fit(model_of(name, X, y, offset=shift)).predict(
        NEW, 0.9, **({"offset": at} if offset else {})
    )
    for ours, theirs in {
        "mean": "mean",
        "mean_lower": "mean_ci_lower",
        "mean_upper": "mean_ci_upper",
    }.items():
        np.testing.assert_allclose(found[ours], frame[theirs], rtol=1e-8)


def test_class_probabilities_have_the_delta_method_of_statsmodels_covariance():
    """logit p_k -+ z sqrt(g' V g), g by central differences (error 1e-10 of the half-width here) and V statsmodels' own."""
    X = rows(150)
    y = drawn("categorical", X, truth("categorical"), np.random.default_rng(3)).astype(
        int
    )
    other = sm.MNLogit(y, sm.add_constant(X)).fit(disp=0, method="newton", tol=1e-12)
    W, V = (
        other.params,
        other.cov_params(),
    )  # V runs over outcomes first, columns within
    found = pr.fit(model_of("categorical", X, y)).predict(NEW, 0.9)

    def logits(w: Array) -> Array:
        f = np.c_[np.zeros(len(NEW)), sm.add_constant(NEW) @ w.reshape(2, 3).T]
        p = np.exp(f) / np.exp(f).sum(1, keepdims=True)
        return logit(p)

    w, h = np.asarray(W).T.ravel(), 1e-5
    G = np.stack(
        [(logits(w + h * e) - logits(w - h * e)) / (2 * h) for e in np.eye(6)], -1
    )
    half = stats.norm.ppf(0.95) * np.sqrt(
        np.einsum("nki,ij,nkj->nk", G, np.asarray(V), G)
    )
    np.testing.assert_allclose(
        logit(found["mean_lower"]), logits(w) - half, rtol=0, atol=1e-7
    )
    np.testing.assert_allclose(
        logit(found["mean_upper"]), logits(w) + half, rtol=0, atol=1e-7
    )


def test_student_noise_has_the_wald_interval_of_its_centre_and_the_quantiles_of_its_noise():
    X = rows(2000)
    y = drawn("student", X, truth("student"), np.random.default_rng(4))
    fit = pr.fit(model_of("student", X, y))
    found, V, A = fit.predict(NEW, 0.9), fit.covariance().values, np.c_[np.ones(3), NEW]
    half = stats.norm.ppf(0.95) * np.sqrt(np.einsum("ni,ij,nj->n", A, V, A))
    np.testing.assert_allclose(found["mean_upper"] - found["mean"], half, rtol=1e-9)
    # 2,000 rows fix the parameters, so that the noise is nearly all
    wide = stats.t.ppf(0.95, 5) * fit.aux["sigma"]
    np.testing.assert_allclose(found["new_upper"] - found["mean"], wide, rtol=0.02)


# ---- how often they hold the truth ---------------------------------------------------------------------------------


def likely_hits(found: Any, y: Array) -> Array:
    return found["likely"].values[np.arange(len(y)), y.astype(int)]


def counted(name: str, method: str, reps: int) -> tuple[Array, Array]:
    """Shares of repetitions in which the interval of the mean, and of a new observation, held: each over NEW, (3,).

    A maximum likelihood fit sees one truth again and again; a posterior sees truths drawn from its prior, under which
    its intervals hold at exactly their probability, on average.
    """
    rng, X = np.random.default_rng(99), rows(300)
    likelihood, mean_in, new_in = LIKELIHOODS[name], [], []
    for i in range(reps):
        beta = (
            truth(name)
            if method == "mode"
            else 0.5 * rng.normal(size=truth(name).shape)
        )
        y, new = drawn(name, X, beta, rng), drawn(name, NEW, beta, rng)
        prior = (
            {}
            if method == "mode"
            else {"prior": {k: Normal(0.5) for k in ("Intercept", "x1", "x2")}}
        )
        with_sigma = (
            {"aux": {"sigma": SIGMA}}
            if likelihood.nuisance and method != "mode"
            else {}
        )
        model = model_of(name, X, y, **prior, **with_sigma)
        found = pr.fit(
            model,
            "auto"
            if method == "mode"
            else pr.LaplaceApproximation(draws=500, chains=1),
            seed=i,
        )
        said = found.predict(NEW, 0.8)
        mean = likelihood.mean(beta[0] + NEW @ beta[1:])
        mean_in.append(
            (said["mean_lower"].values <= mean) & (mean <= said["mean_upper"].values)
        )
        inside = "new_lower" in said and (said["new_lower"].values <= new) & (
            new <= said["new_upper"].values
        )
        new_in.append(likely_hits(said, new) if name == "categorical" else inside)
    return np.mean(mean_in, axis=0).ravel(), np.mean(new_in, axis=0)


@pytest.mark.parametrize("name", covering(LIKELIHOODS))
@pytest.mark.parametrize("method", ["mode", "posterior"])
def test_intervals_hold_as_often_as_they_say(name, method):
    """300 rows and 100 repetitions: standard error 0.04 of a share; four of them, and at n = 300 no bias beside that.

    A new observation is held at least as often: its quantiles are whole numbers or classes where the response is discrete.
    """
    mean_share, new_share = counted(name, method, 100)
    assert np.abs(mean_share - 0.8).max() < 4 * 0.04
    # an event has no interval
    assert name == "bernoulli" or (new_share > 0.8 - 4 * 0.04).all()
    if name in ("gaussian", "student"):
        assert (new_share < 0.8 + 4 * 0.04).all()


# ---- the probability integral transform ----------------------------------------------------------------------------


def mixture(name: str, atoms: int, n: int) -> Predictive:
    rng = np.random.default_rng(8)
    likelihood = LIKELIHOODS[name]
    eta = rng.normal(size=(atoms, n, 1)) * 0.5 + np.linspace(-1, 1, n)[:, None]
    return Predictive(
        likelihood,
        eta,
        {a: np.exp(0.2 * rng.normal(size=(atoms, 1))) for a in likelihood.nuisance},
    )


def test_pit_of_one_normal_is_its_distribution_function():
    p = Predictive(Gaussian(), np.full((1, 2, 1), 3.0), {"sigma": np.full((1, 1), 2.0)})
    np.testing.assert_allclose(
        p.pit(np.array([1.0, 4.0])), stats.norm(3, 2).cdf([1.0, 4.0]), rtol=1e-14
    )


def test_pit_of_a_count_lies_between_the_values_of_its_distribution_function():
    p = Predictive(pr.Poisson(), np.full((1, 3, 1), np.log(2.0)), {})
    y = np.array([0.0, 1.0, 5.0])
    known = stats.poisson(2.0)
    np.testing.assert_allclose(p.pit(y, np.zeros(3)), known.cdf(y - 1), atol=1e-15)
    np.testing.assert_allclose(p.pit(y), known.cdf(y), rtol=1e-14)
    np.testing.assert_allclose(
        p.pit(y, np.full(3, 0.25)), known.cdf(y - 1) + 0.25 * known.pmf(y), rtol=1e-12
    )


def test_the_quantile_of_counts_beyond_2_to_the_53_is_that_of_a_gamma() -> None:
    p = Predictive(
        pr.NegativeBinomial(), np.full((1, 1, 1), 60.0), {"alpha": np.full((1, 1), 0.5)}
    )
    assert p.quantile(0.975)[0] / np.exp(60.0) == pytest.approx(
        stats.gamma(2.0).ppf(0.975) / 2.0, rel=1e-9
    )


@pytest.mark.parametrize("name", ORDERED)
@pytest.mark.parametrize("atoms", covering([1, 40]))
def test_pit_of_what_the_mixture_draws_is_uniform(name, atoms):
    """Distance of 20,000 values from the uniform distribution function, passed once in a million (Massart 1990)."""
    p, rng = mixture(name, atoms, 400), np.random.default_rng(11)
    drawn = p.sample(rng, 50)
    values = np.concatenate([p.pit(y, rng.random(400)) for y in drawn])
    rank = np.arange(1, len(values) + 1) / len(values)
    assert np.abs(np.sort(values) - rank).max() < np.sqrt(
        np.log(2e6) / (2 * len(values))
    )


def test_pit_inverts_the_quantile():
    p = mixture("student", 500, 5)
    np.testing.assert_allclose(p.pit(p.quantile(0.3)), 0.3, atol=1e-11)


def test_classes_have_no_pit():
    p = Predictive(pr.Categorical(), np.zeros((1, 2, 2)), {})
    with pytest.raises(pr.Incompatible, match="no order"):
        p.pit(np.zeros(2))


# ---- quantiles of hard mixtures ------------------------------------------------------------------------------------


@pytest.mark.parametrize("prob", [1e-4, 0.1, 0.499999, 0.5, 0.9])
@pytest.mark.parametrize("apart", [3.0, 30.0, 1e4])
def test_quantiles_between_two_heaps(prob, apart):
    """The density nearly vanishes between the heaps, so that a step of Newton from there goes far astray."""
    rng = np.random.default_rng(1)
    eta = rng.normal(size=(400, 3, 1)) + apart * (np.arange(400) % 2)[:, None, None]
    p = Predictive(Gaussian(), eta, {"sigma": np.full((400, 1), 0.05)})
    for tol in (1e-12, 1e-7):
        assert np.abs(p.cdf(p.quantile(prob, tol=tol)) - prob).max() <= 2 * tol


def test_predictions_by_quadrature_have_no_monte_carlo_error(rng):
    """Where conjugate is Student-t by formula, quadrature over sigma gives the same to its own error, whatever the draws."""
    X, w = rng.normal(size=(12, 2)), rng.uniform(0.5, 2.0, size=12)
    y, offset = X @ [1.0, -1.0] + rng.normal(size=12), np.arange(12.0)
    for weights in (None, pr.weights.precision(w)):
        model = pr.Model.from_arrays(X, y, weights=weights, offset=offset)
        new = {"data": rng.normal(size=(5, 2)), "offset": np.ones(5)}
        exact, found = (
            pr.fit(model, "conjugate", seed=1),
            pr.fit(model, pr.Quadrature(draws=1), seed=2),
        )
        for prob in (0.5, 0.99):
            one, other = (
                exact.predict(**new, prob=prob),
                found.predict(**new, prob=prob),
            )
            for name in ("mean", "mean_lower", "mean_upper", "new_lower", "new_upper"):
                np.testing.assert_allclose(other[name], one[name], rtol=1e-7, atol=1e-8)
    raw = pr.fit(model.with_prior(Normal(0.5)), pr.Quadrature(draws=1))
    again = pr.fit(raw.model, pr.Quadrature(draws=1), seed=9)
    np.testing.assert_array_equal(
        raw.predict()["new_lower"], again.predict()["new_lower"]
    )
    np.testing.assert_allclose(
        raw.predict()["mean"], model.design.X @ raw.solution.beta[:, 0] + offset
    )


def test_the_mean_of_an_identity_link_is_that_of_the_weighted_draws(rng):
    x = rng.normal(size=40)
    fit = pr.fit(
        pr.Model.from_arrays(
            x, x + rng.standard_t(4, size=40), likelihood=pr.StudentT(4.0)
        ),
        "importance",
        seed=1,
    )
    np.testing.assert_allclose(
        fit.predict()["mean"], fit.model.design.X @ fit.solution.beta[:, 0], rtol=1e-12
    )


# ---- noise and counts with an estimated nuisance parameter: against SciPy, with the uncertainty of all parameters ---------


def heavy_tails(n, seed=3):
    rng = np.random.default_rng(seed)
    x = rng.normal(size=n)
    return x, 1.0 + x + 0.7 * rng.standard_t(4, n)


def overdispersed(n, seed=3):
    rng = np.random.default_rng(seed)
    x = rng.normal(size=n)
    return x, rng.negative_binomial(2.0, 1.0 / (1.0 + 0.5 * np.exp(1.2 + 0.5 * x)))


def law_of_new(name, eta, aux):
    if name == "student":
        return stats.t(4.0, eta, aux)
    return stats.nbinom(1.0 / aux, 1.0 / (1.0 + aux * np.exp(eta)))


@pytest.mark.parametrize("n", [15, 60, 3000])
@pytest.mark.parametrize(
    ("name", "data"), [("student", heavy_tails), ("negative_binomial", overdispersed)]
)
def test_a_new_observation_has_the_quantiles_of_the_asymptotic_mixture(name, data, n):
    x, y = data(n)
    likelihood = pr.StudentT(nu=4.0) if name == "student" else name
    fit = pr.fit(pr.Model.from_arrays(x, y, likelihood=likelihood))
    (aux,) = fit.solution.aux
    # the normal distribution over (beta, log aux) by the inverse curvature of the log-likelihood
    local = fit.model.value_grad_hessian(fit.solution.beta, **fit.solution.aux)
    theta = np.r_[fit.solution.beta[:, 0], np.log(fit.solution.aux[aux])]
    draws = np.random.default_rng(0).multivariate_normal(
        theta, np.linalg.inv(local.curvature), 20_000
    )
    for x0 in (-1.0, 0.4, 2.0):
        mixture = law_of_new(name, draws[:, 0] + draws[:, 1] * x0, np.exp(draws[:, 2]))
        found = fit.predict([x0])
        ends = float(found["new_lower"][0]), float(found["new_upper"][0])
        mean = theta[0] + theta[1] * x0
        assert float(found["mean"][0]) == pytest.approx(
            np.exp(mean) if name == "negative_binomial" else mean, rel=1e-6
        )
        # 400 draws: the probability up to an end has a Monte Carlo error of a few thousandths in small tables
        room = 0.002 + 0.03 / np.sqrt(n)
        if name == "student":
            below = [mixture.cdf(end).mean() for end in ends]
            np.testing.assert_allclose(below, [0.025, 0.975], atol=room)
        else:
            assert mixture.cdf(ends[0]).mean() >= 0.025 - room
            assert mixture.cdf(ends[0] - 1.0).mean() < 0.025 + room
            assert mixture.cdf(ends[1]).mean() >= 0.975 - room
            assert mixture.cdf(ends[1] - 1.0).mean() < 0.975 + room
        # parameters are all but known: the ends are those of the noise itself
        if n == 3000:
            plain = law_of_new(name, mean, np.exp(theta[2])).ppf([0.025, 0.975])
            np.testing.assert_allclose(
                ends, plain, atol=0.03 if name == "student" else 1.0
            )


@pytest.mark.slow
@pytest.mark.parametrize(("n", "least"), [(12, 0.89), (500, 0.943)])
@pytest.mark.parametrize(
    ("name", "data"), [("student", heavy_tails), ("negative_binomial", overdispersed)]
)
def test_intervals_of_a_new_observation_cover_it_as_often_as_they_state(
    name, data, n, least
):
    held, x0 = [], 0.5
    truth = (
        law_of_new(name, 1.0 + x0, 0.7)
        if name == "student"
        else law_of_new(name, 1.2 + 0.5 * x0, 0.5)
    )
    for seed in range(30):
        x, y = data(n, seed)
        if len(set(y)) == 1:
            continue
        with warnings.catch_warnings():
            warnings.simplefilter("ignore", pr.ProbregWarning)  # alpha at zero
            found = pr.fit(
                pr.Model.from_arrays(
                    x, y, likelihood=pr.StudentT(nu=4.0) if name == "student" else name
                )
            ).predict([x0])
        low, high = float(found["new_lower"][0]), float(found["new_upper"][0])
        held.append(truth.cdf(high) - truth.cdf(low - (name != "student")))
    # the probability of a new observation within the interval, averaged over samples; its standard errors are below 0.015 and 0.002
    assert least < np.mean(held) < 0.99
