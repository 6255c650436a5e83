"""Laws of methods: certificates of modes, draws that match what is reported, honest refusals, weights that are copies."""

import dataclasses
import pickle
import warnings
from typing import Any

import numpy as np
import pytest
from scipy import stats
from scipy.special import comb

import probreg as pr
from probreg.comparison.tuning.criteria import has_closed_evidence, log_evidence_at
from probreg.inference import METHODS, Method, Status
from probreg.inference.penalized.ridge_modes import RidgeModes
from probreg.inference.reported import reported_parameters
from probreg.likelihoods import LIKELIHOODS, ProximalLikelihood, SmoothLikelihood
from probreg.priors import Normal

from .cases import (
    CHOOSING,
    ESTIMATORS,
    LIKELIHOOD_CASES,
    METHOD_CASES,
    PRIOR_CASES,
    Array,
    accepted,
    auxiliaries,
    case,
    covering,
    gradient,
    is_short,
    likelihood_kind,
    line,
    model_for,
    named,
    proper_aux,
    proper_prior,
    recipe_of,
    rows_for,
    triples,
)

TRIPLES = list(triples())
CAN = [k.obstacle(m) is None for m, k in TRIPLES]
ACCEPTED = [pair for pair, can in zip(TRIPLES, CAN) if can]
REFUSED = [pair for pair, can in zip(TRIPLES, CAN) if not can]
# modes under priors with kinks have no vanishing gradient and no curvature: test_modes.py holds them
ESTIMATED = [
    (m, k)
    for m, k in ACCEPTED
    if k.probabilities and (m.joint.smooth or k.target == "posterior")
    if not is_short(m.likelihood, k)
]


# methods that see a prior by its log density and derivatives alone
GENERAL = ("newton", "bootstrap", "laplace", "importance")


def over(pairs: list[tuple[pr.Model, Method]], target: str | None = None) -> Any:
    """Quick are each method with each kind of likelihood, with each class of priors, and with each treatment of sigma; of those
    that find a mode at every node one, and of stochastic gradients one of each kind of likelihood."""
    wanted = [(m, k) for m, k in pairs if target in (None, k.target)]

    def is_slow(m: pr.Model, k: Method) -> bool:
        return k.name == "sgd" or (
            k.name == "integrate" and not m.likelihood.least_squares
        )

    chosen = covering(
        [
            *(pair for pair in wanted if not is_slow(*pair)),
            *[pair for pair in wanted if is_slow(*pair)][::4],
        ],
        lambda m, k: (
            k.name,
            (k.name == "integrate" and is_slow(m, k)) or likelihood_kind(m.likelihood),
        ),
        lambda m, k: (
            k.name not in GENERAL and k.name,
            is_slow(m, k) or type(m.prior),
        ),
        lambda m, k: (
            k.name,
            *((True,) if is_slow(m, k) else map(type, m.aux.values())),
        ),
        one_in=320,
    )
    return pytest.mark.parametrize(("model", "method"), chosen)


def vector(fit: pr.Fit) -> Array:
    """(vec beta, log aux) of a point estimate."""
    return np.r_[
        fit.solution.beta.ravel(),
        np.log([fit.solution.aux[a] for a in fit.model.unknown]),
    ]


def density(model: pr.Model, x: Array) -> float:
    """The log posterior as a density of (beta, log aux), which is what a mode maximises."""
    k = model.shape[0] * model.shape[1]
    aux = {a: float(np.exp(v)) for a, v in zip(model.unknown, x[k:])}
    return float(model.log_posterior(x[:k].reshape(model.shape), **aux)) + x[k:].sum()


def units(fit: pr.Fit) -> Array:
    """A standard error for each of (vec beta, log aux)."""
    s = fit.solution
    return np.r_[
        np.sqrt(s.scale.diagonal()), [s.aux_sd[a] / s.aux[a] for a in fit.model.unknown]
    ]


def test_the_laws_meet_every_registered_method():
    chains = {name for name, cls in METHODS.items() if cls.makes_chains}
    assert {k.name for _, k in ACCEPTED} | {*CHOOSING, *chains} == set(METHODS)
    of_base = {"censored", "truncated"}  # see test_censoring.py
    assert {m.likelihood.name for m, _ in ACCEPTED} == set(LIKELIHOODS) - of_base


@over(ESTIMATED, "mode")
def test_a_mode_has_a_certificate(model, method):
    """The gradient over (beta, log aux) vanishes to the accuracy that the method promises, in standard errors, and no
    point nearby is better by more than that allows."""
    fit = pr.fit(model, method)
    assert fit.solution.status.good
    x, se = vector(fit), units(fit)
    # a mode on kinks has no gradient: `test_kinks` holds its certificate
    if isinstance(model.likelihood, ProximalLikelihood):
        assert fit.solution.stats["kkt"] < 1e-9
    else:
        # where the second derivative jumps, differences over 2e-3 standard errors are off by its share of the rows
        assert (
            decrement(model, fit, x, se)
            < (1e-5 if model.likelihood.name == "huber" else 1e-7) + method.accuracy
        )
    top, rng = density(model, x), np.random.default_rng(0)
    for size in (1e-3, 0.03, 0.3, 1.0, 3.0):
        for step in rng.standard_normal((6, len(x))):
            # a maximum at a distance d is higher by d^2 / 2
            assert (
                density(model, x + size * se * step / np.linalg.norm(step))
                < top + method.accuracy**2
            )


def decrement(model: pr.Model, fit: pr.Fit, x: Array, se: Array) -> float:
    """The distance of a mode to the maximum in standard errors, by differences of the density."""
    # Newton stops within 1e-8 standard errors; differences of a log posterior of size 100 cost 1e-11 / 2e-3
    slope = gradient(lambda t: density(model, x + se * t), np.zeros(len(x)))
    H = model.value_grad_hessian(
        fit.solution.beta, **fit.solution.aux
    ).curvature * np.outer(se, se)
    return float(np.sqrt(slope @ np.linalg.solve(H, slope)))


SANDWICHED = [
    (m, k)
    for m, k in ESTIMATED
    if k.name == "interior_point" and m.likelihood.name in ("absolute", "quantile")
]


# what is short of a mode, resampled, or a sandwich has a covariance of its own
@over(
    [
        c
        for c in ESTIMATED
        if c[1].accuracy == 0 and c[1].name != "bootstrap" and c not in SANDWICHED
    ],
    "mode",
)
def test_the_covariance_of_a_mode_is_the_inverse_curvature(model, method):
    fit = pr.fit(model, method)
    x, se, k = vector(fit), units(fit), model.shape[0] * model.shape[1]
    # states sigma's factor in its notes; given sigma the curvature is that of beta
    if method.name == "closed_form":
        s = fit.solution
        sigma = s.stats["sigma_unbiased"] if s.df is not None else fit.aux["sigma"]
        at = {} if model.fixed else {"sigma": sigma}
        H = -gradient(
            lambda v: gradient(
                lambda b: float(model.log_posterior(b.reshape(model.shape), **at)),
                v,
                0.05,
            ),
            x[:k],
            0.05,
        )
    elif model.likelihood.expected_curvature or model.likelihood.name == "huber":
        # whose second derivative jumps
        H = model.value_grad_hessian(fit.solution.beta, **fit.solution.aux).curvature
    else:
        H = -gradient(
            lambda v: gradient(lambda b: density(model, x + se * b), v),
            np.zeros(len(x)),
        )
        H = H / np.outer(se, se)
    inverse = np.linalg.inv(H)[:k, :k]
    np.testing.assert_allclose(
        fit.solution.scale.matrix() / np.outer(se[:k], se[:k]),
        inverse / np.outer(se[:k], se[:k]),
        atol=1e-5,
    )


@over(SANDWICHED, "mode")
def test_the_covariance_of_a_quantile_fit_is_its_sandwich(model, method):
    fit = pr.fit(model, method)
    np.testing.assert_allclose(fit.covariance(), fit.covariance("HC0"), rtol=1e-10)
    # the curvature of the working density is another
    assert not np.allclose(fit.covariance(), fit.covariance("expected"), rtol=1e-3)


def whitened(fit: pr.Fit) -> tuple[Array, Array, int]:
    """Draws of beta in units of the reported mean and covariance."""
    s = fit.solution
    draws = s.draws["beta"].reshape(-1, s.beta.size)
    spread = s.scale.matrix() * (1.0 if s.df is None else s.df / (s.df - 2))
    z = np.linalg.solve(np.linalg.cholesky(spread), (draws - s.beta.ravel()).T).T
    return z.mean(0), np.cov(z.T), len(z)


@over(ACCEPTED, "posterior")
def test_draws_match_the_reported_moments(model, method):
    try:
        fit = pr.fit(model, method, seed=4)
    except pr.NotConverged as refusal:
        assert method.name == "importance"
        pytest.skip(f"weighted draws refuse by their k-hat: {refusal}")
    mean, cov, n = whitened(fit)
    # independent draws: five standard errors
    assert np.abs(mean).max() < 5 / np.sqrt(n)
    # sqrt(2/n) for a normal, a little more for a t
    assert np.abs(cov - np.eye(len(mean))).max() < 6 * np.sqrt(3 / n)
    for a in model.unknown:
        v = fit.solution.draws[a]
        assert (v > 0).all()
        assert abs(v.mean() - fit.aux[a]) < 5 * v.std() / np.sqrt(n)
        # a skew density: 1500 draws give 4 %
        assert v.std() == pytest.approx(fit.solution.aux_sd[a], rel=0.2)
    assert fit.std_error.values.ravel() == pytest.approx(
        np.sqrt(np.diagonal(fit.covariance())), rel=1e-12
    )
    if method.name != "laplace" or not model.unknown:
        first = model.log_posterior(
            fit.solution.draws["beta"][:1, :3],
            **{a: fit.solution.draws[a][:1, :3] for a in model.unknown},
        )
        np.testing.assert_allclose(
            fit.tree["sample_stats"]["lp"].values[:1, :3], first, rtol=1e-12
        )


@pytest.mark.parametrize(
    "method", sorted({k for _, k in REFUSED}, key=named), ids=named
)
def test_a_refusal_names_methods_that_can(method):
    for model in [m for m, k in REFUSED if k == method][::87]:
        with case(model):
            with pytest.raises(pr.Incompatible) as caught:
                pr.fit(model, method)
            message = str(caught.value)
            # a posterior without mass at the edge of a nuisance parameter, and no mode
            if message.endswith(". No method can fit this model."):
                others = (
                    cls()
                    for name, cls in METHODS.items()
                    if name not in ("auto", "posterior")
                )
                assert all(other.obstacle(model) is not None for other in others)
                continue
            able = message.rsplit("These can fit this model: ", 1)[1].rstrip(".")
            able = able.split(", ")
            assert method.name not in able
            assert all(METHODS[name]().obstacle(model) is None for name in able)
            assert ("nuts" in able) == (METHODS["nuts"]().obstacle(model) is None)


def test_every_accepted_prior_can_be_fitted_by_auto():
    for model, _ in TRIPLES[:: len(METHOD_CASES)]:
        # and there is no mode
        if "improper" in (METHODS["auto"]().obstacle(model) or ""):
            with pytest.raises(
                pr.Incompatible,
                match="no method fits this model; nuts: the posterior is improper",
            ):
                METHODS["auto"]().choose(model)
            continue
        chosen, why = METHODS["auto"]().choose(model)
        assert chosen.obstacle(model) is None
        assert why.startswith(f"auto chose {chosen.name}: ")


@pytest.mark.filterwarnings("ignore:closed_form. not identified")
@pytest.mark.parametrize("formula", ["y ~ x", "y ~ x + C(g)", "y ~ x + I(2*x)"])
@pytest.mark.parametrize("prior", ["flat", Normal(2.0, sigma_units=True)])
def test_a_fit_can_be_pickled_before_its_covariance_is_computed(formula, prior):
    x = np.random.default_rng(5).normal(size=(2, 40))
    data = {"y": x[0] + x[1], "x": x[0], "g": np.arange(40) // 2}
    fit = pr.fit(pr.Model.from_formula(formula, data, prior=prior))
    travelled = pickle.loads(pickle.dumps(fit))
    np.testing.assert_array_equal(travelled.summary(), fit.summary())


LAPLACE = [(m, k) for m, k in ACCEPTED if k.name == "laplace"]


@over(LAPLACE[::3])
def test_laplace_log_q_is_the_density_of_its_draws(model, method):
    """Recomputed from the mode and a numerical Hessian, as a density of (beta, aux)."""
    fit, mode = pr.fit(model, method, seed=2), pr.fit(model, "newton")
    x, se = vector(mode), units(mode)
    H = -gradient(
        lambda v: gradient(lambda b: density(model, x + se * b), v), np.zeros(len(x))
    )
    # whose second derivative jumps where |r| = k, which differences step over
    if model.likelihood.name == "huber":
        H = model.value_grad_hessian(
            mode.solution.beta, **mode.aux
        ).curvature * np.outer(se, se)
    log_aux = [np.log(fit.solution.draws[a]).reshape(-1, 1) for a in model.unknown]
    points = np.hstack(
        [fit.solution.draws["beta"].reshape(-1, mode.solution.beta.size), *log_aux]
    )
    q = (
        stats.multivariate_normal(np.zeros(len(x)), np.linalg.inv(H)).logpdf(
            (points - x) / se
        )
        - np.log(se).sum()
    )
    q = q - sum(v[:, 0] for v in log_aux)
    # the numerical Hessian has errors of 1e-6, met at |z|^2 up to 30
    np.testing.assert_allclose(fit.solution.draws.stats["log_q"].ravel(), q, atol=1e-3)


@pytest.mark.parametrize(
    ("model", "method"),
    covering(
        [
            (m, k)
            for m, k in ACCEPTED
            if k.target == "posterior"
            and (k.name != "integrate" or m.likelihood.least_squares)
        ],
        lambda m, k: (k.name, m.likelihood.width > 1, bool(m.unknown)),
        lambda m, k: likelihood_kind(m.likelihood),
        one_in=400,
    ),
)
def test_a_seed_gives_the_same_draws_and_another_gives_others(model, method):
    if method.name == "importance":  # with kinks k-hat is near its limit
        method = dataclasses.replace(method, max_k=np.inf)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        one, same, other = (
            pr.fit(model, method, seed=s).solution.posterior.values for s in (8, 8, 9)
        )
    for name, v in one.items():
        np.testing.assert_array_equal(v, same[name])
        assert not (v == other[name]).any()


@pytest.mark.parametrize(
    "method", [k for k in METHOD_CASES if k.target == "posterior"], ids=named
)
def test_draws_and_chains_are_as_asked(method):
    asked = dataclasses.replace(method, draws=7, chains=3)
    model = next(m for m, k in ACCEPTED if k.name == method.name)
    fit = pr.fit(model, asked)
    assert fit.solution.draws["beta"].shape == (3, 7, *model.shape)
    assert dict(fit.tree["posterior"].sizes)["chain"] == 3


# ---- evidence ------------------------------------------------------------------------------------------------------


def brute_evidence(model: pr.Model, names: tuple[str, ...]) -> float:
    """log of the integral of likelihood times prior over one coefficient, and sigma where it is unknown."""
    b, wb = line(float(model.design.moments.least_squares()[0][0]), 0.1)
    b, wb = b[300:-300], wb[300:-300]
    if not names:
        return float(
            np.log(wb @ np.exp(model.log_posterior(b[:, None, None]) + 20.0)) - 20.0
        )
    prior = model.aux_prior("sigma")
    ends = (
        (prior.low, prior.high)
        if isinstance(prior, pr.priors.Uniform)
        else (0.02, 60.0)
    )
    x, w = np.polynomial.legendre.leggauss(200)
    half, centre = np.diff(np.log(ends)) / 2, np.mean(np.log(ends))
    v = np.exp(centre + half * x)
    wv = half * w * v
    total = np.array(
        [
            wb
            @ np.exp(
                model.log_posterior(b[:, None, None], sigma=np.full(len(b), s)) + 20.0
            )
            for s in v
        ]
    )
    return float(np.log(wv @ total) - 20.0)


@pytest.mark.parametrize(
    ("prior", "sigma", "methods"),
    [
        (Normal(0.8, location=0.3), 0.7, ["conjugate"]),
        (Normal(0.8, location=0.3, sigma_units=True), 0.7, ["conjugate"]),
        (
            Normal(0.8, location=0.3, sigma_units=True),
            pr.priors.InverseGamma(2.5, 0.6),
            ["conjugate", "quadrature"],
        ),
        (Normal(0.8, location=0.3), pr.priors.HalfCauchy(0.7), ["quadrature"]),
        (
            Normal(0.8, location=0.3),
            pr.priors.HalfStudentT(0.7, nu=4.0),
            ["quadrature"],
        ),
        (Normal(0.8, location=0.3), pr.priors.Uniform(0.2, 3.0), ["quadrature"]),
        (Normal(0.8, location=0.3), pr.priors.Exponential(0.7), ["quadrature"]),
    ],
    ids=lambda v: named(v) if not isinstance(v, list) else "+".join(v),
)
@pytest.mark.parametrize("weighted", [False, True], ids=["plain", "weighted"])
def test_log_evidence_is_the_integral(prior, sigma, methods, weighted):
    weights = np.arange(9) % 3 + 1 if weighted else None
    model = model_for(
        pr.Gaussian(),
        prior,
        n=9,
        q=1,
        intercept=False,
        aux={"sigma": sigma},
        weights=weights,
    )
    exact = brute_evidence(model, model.unknown)
    for name in methods:
        found = pr.fit(model, name).solution.stats["log_evidence"]
        # both are sums of some hundred terms of order 10
        assert found == pytest.approx(exact, abs=1e-11)
    if has_closed_evidence(model):  # what a path of scales is compared by
        one = np.ones(1)
        found = log_evidence_at(RidgeModes.of(model, one), one)
        assert found == pytest.approx(exact, abs=1e-11)


def test_an_improper_prior_has_no_evidence():
    for method in ("conjugate", "quadrature"):
        assert (
            "log_evidence"
            not in pr.fit(model_for(pr.Gaussian()), method).solution.stats
        )


# ---- weights -------------------------------------------------------------------------------------------------------

WEIGHTED = [
    (likelihood, prior, method)
    for likelihood in LIKELIHOOD_CASES
    for prior in (
        None,
        Normal(0.8, location=0.0 if getattr(likelihood, "symmetric", False) else 0.2),
        Normal(0.8, sigma_units=True),
    )
    for method in ESTIMATORS
    if (m := accepted(likelihood, prior)) is not None and method.obstacle(m) is None
    # its gradients take a minute to the mode
    if likelihood != pr.NegativeBinomial(variance="nb1") or method.name != "sgd"
]


def weighted_and_repeated(
    likelihood: Any, prior: Any, **more: Any
) -> tuple[pr.Model, pr.Model]:
    X, y = rows_for(likelihood)
    w = np.arange(len(y)) % 4  # a weight of zero leaves its row out
    again = np.repeat(np.arange(len(y)), w)
    options = recipe_of(likelihood) | {"prior": prior or pr.Flat()} | more
    return pr.Model.from_arrays(X, y, weights=w, **options), pr.Model.from_arrays(
        X[again], y[again], **options
    )


def same_answer(a: pr.Fit, b: pr.Fit, rtol: float = 1e-7) -> None:
    """Estimates, covariances and log likelihood to the tolerance of Newton's last step, or of the method: two answers
    may lie twice its accuracy apart, in standard errors, and their covariances differ as much in proportion."""
    near, se = a.method.accuracy, b.std_error.values
    np.testing.assert_allclose(
        a.coef, b.coef, rtol=rtol, atol=rtol + 2 * near * se.max()
    )
    np.testing.assert_allclose(
        a.covariance(),
        b.covariance(),
        rtol=10 * rtol,
        atol=1e-9 + 2 * near * se.max() ** 2,
    )
    assert a.log_likelihood == pytest.approx(b.log_likelihood, rel=1e-9, abs=near)
    assert a.solution.df == b.solution.df
    for name, value in a.aux.items():
        assert value == pytest.approx(b.aux[name], rel=rtol + near)
    for name, value in a.solution.aux_sd.items():
        assert value == pytest.approx(b.solution.aux_sd[name], rel=10 * rtol + near)
    # d standard errors off the minimum RSS / sigma^2, about the degrees of freedom, is larger by d^2
    near_sum = near**2 / (a.solution.df or a.model.design.total)
    for name, value in a.solution.stats.items():
        if name not in (
            "steps",
            "decrement",
            "passes",
            "distance",
        ) and not name.startswith("online_"):  # of the way there
            off = near_sum if name in ("rss", "sigma_unbiased") else 0.0
            assert value == pytest.approx(b.solution.stats[name], rel=1e-9 + off), name


@pytest.mark.parametrize(
    ("likelihood", "prior", "method"),
    covering(
        WEIGHTED,
        likelihood_kind,
        lambda v, p, k: k.name,
        lambda v, p, k: (type(p), p and p.sigma_units),
        one_in=80,
    ),
)
def test_a_weight_is_a_number_of_copies(likelihood, prior, method):
    weighted, repeated = weighted_and_repeated(
        likelihood, prior, aux=proper_aux(likelihood)
    )
    a, b = pr.fit(weighted, method, seed=1), pr.fit(repeated, method, seed=1)
    same_answer(a, b)
    assert weighted.design.total == repeated.design.total == repeated.design.n
    if method.target == "posterior":
        left, right = (f.tree["log_likelihood"]["y"].values for f in (a, b))
        assert (
            left.shape
            == right.shape
            == (method.chains, method.draws, repeated.design.n)
        )
        # whose draws follow the standardised columns, which weights do not move
        if method.name != "laplace":
            np.testing.assert_allclose(left, right, rtol=1e-6, atol=1e-6)
        drawn = a.tree["posterior_predictive"]["y"].shape
        assert drawn == b.tree["posterior_predictive"]["y"].shape
        assert drawn[:3] == left.shape  # counts by class have a class more
        assert (
            a.tree["observed_data"]["y"].values.tolist()
            == b.tree["observed_data"]["y"].values.tolist()
        )


@pytest.mark.parametrize("likelihood", LIKELIHOOD_CASES, ids=named)
def test_densities_and_derivatives_count_weights(likelihood):
    weighted, repeated = weighted_and_repeated(likelihood, Normal(0.8))
    rng = np.random.default_rng(3)
    beta, aux = (
        rng.normal(size=(2, 3, *weighted.shape)),
        {a: rng.uniform(0.5, 2, (2, 3)) for a in likelihood.nuisance},
    )
    np.testing.assert_allclose(
        weighted.log_lik(beta, **aux), repeated.log_lik(beta, **aux), rtol=1e-12
    )
    one = {a: float(v[0, 0]) for a, v in aux.items()}
    for f in ("information", "gradient"):
        np.testing.assert_allclose(
            getattr(weighted, f)(beta[0, 0], **one),
            getattr(repeated, f)(beta[0, 0], **one),
            rtol=1e-10,
            atol=1e-10,
        )


def test_weights_beyond_what_is_written_out_multiply_the_log_density():
    X, y = rows_for(pr.Poisson())
    heavy = pr.fit(
        pr.Model.from_arrays(X, y, likelihood="poisson", weights=np.full(60, 20_000))
    )
    whole = pr.fit(pr.Model.from_arrays(X, y, likelihood="poisson"))
    np.testing.assert_allclose(heavy.coef, whole.coef, rtol=1e-8)
    np.testing.assert_allclose(
        heavy.covariance(), whole.covariance() / 20_000, rtol=1e-6
    )
    post = pr.fit(heavy.model, "laplace")
    assert post.tree["log_likelihood"]["y"].shape == (
        4,
        1000,
        60,
    )  # rows, since so many observations are not written out
    np.testing.assert_allclose(
        post.tree["log_likelihood"]["y"].sum("obs")[0, :3],
        heavy.model.log_lik(post.solution.draws["beta"][0, :3]),
        rtol=1e-12,
    )


@pytest.mark.parametrize("method", ["newton", "laplace"])
def test_successes_in_trials_are_bernoulli_rows(method):
    rng = np.random.default_rng(6)
    x, trials = rng.normal(size=8), rng.integers(1, 9, 8)
    successes = rng.binomial(trials, 1 / (1 + np.exp(-0.3 - x)))
    together = pr.Model.from_arrays(x, successes, trials=trials, likelihood="binomial")
    rows = np.repeat(np.arange(8), trials)
    y = np.concatenate([np.arange(t) < s for s, t in zip(successes, trials)]).astype(
        int
    )
    apart = pr.Model.from_arrays(x[rows], y, likelihood="bernoulli")
    a, b = pr.fit(together, method, seed=1), pr.fit(apart, method, seed=1)
    near, se = a.method.accuracy, b.std_error.values
    np.testing.assert_allclose(
        a.coef, b.coef, rtol=1e-7, atol=1e-7 + 2 * near * se.max()
    )
    np.testing.assert_allclose(
        a.covariance(), b.covariance(), rtol=1e-6, atol=1e-9 + 2 * near * se.max() ** 2
    )
    # the binomial coefficients, which rows written out do not have
    ways = np.log(comb(trials, successes)).sum()
    assert a.log_likelihood == pytest.approx(
        b.log_likelihood + ways, rel=1e-9, abs=near
    )
    # and three rows of the same trials, weighted, are three copies
    thrice = pr.Model.from_arrays(
        x, successes, trials=trials, likelihood="binomial", weights=np.full(8, 3)
    )
    np.testing.assert_allclose(
        pr.fit(thrice, method, seed=1).covariance(), a.covariance() / 3, rtol=1e-7
    )


@pytest.mark.parametrize(
    "likelihood",
    covering(
        [v for v in LIKELIHOOD_CASES if not getattr(v, "symmetric", False)],
        likelihood_kind,
    ),
)
def test_groups_of_the_tree_are_the_models_densities(likelihood):
    """With an offset and weights: what ArviZ reads is what the model says of each draw."""
    n = len(rows_for(likelihood)[1])
    offset, weights = 0.5 * np.cos(np.arange(n)), np.arange(n) % 3 + 1
    aux = proper_aux(likelihood)
    prior = proper_prior(likelihood, Normal(0.8, location=0.2))
    model = model_for(likelihood, prior, offset=offset, weights=weights, aux=aux)
    again_and_again = np.repeat(np.arange(n), weights)
    normal = pr.LaplaceApproximation(draws=20, chains=2)
    method = (
        normal
        if normal.obstacle(model) is None
        else pr.NUTS(draws=20, chains=2, tune=100)
    )
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # so few draws need not settle
        fit, again = (
            pr.fit(model, method),
            pr.fit(model, method).tree["posterior_predictive"]["y"],
        )
    draws = dict(fit.solution.draws.values)
    beta = draws.pop("beta")
    each = (model.pointwise(beta, **draws) / weights)[..., again_and_again]
    np.testing.assert_allclose(fit.tree["log_likelihood"]["y"], each, rtol=1e-12)
    prior = sum(v for v in fit.tree["log_prior"].data_vars.values())
    np.testing.assert_allclose(prior, model.log_prior(beta, **draws), rtol=1e-12)
    np.testing.assert_allclose(
        fit.tree["sample_stats"]["lp"], model.log_posterior(beta, **draws), rtol=1e-12
    )
    np.testing.assert_allclose(
        fit.tree["constant_data"]["offset"], offset[again_and_again]
    )
    np.testing.assert_array_equal(fit.tree["posterior_predictive"]["y"], again)


@pytest.mark.slow
def test_a_weight_is_a_number_of_copies_under_nuts():
    likelihood = pr.Categorical()
    weighted, repeated = weighted_and_repeated(likelihood, Normal(0.8))
    a, b = (
        pr.fit(m, pr.NUTS(draws=500, tune=300), seed=1) for m in (weighted, repeated)
    )
    sd = np.sqrt(np.diagonal(b.covariance())).reshape(b.coef.shape)
    # both means have Monte Carlo errors near sd / sqrt(1000)
    assert np.abs((a.coef - b.coef) / sd).max() < 0.2
    np.testing.assert_allclose(a.std_error, b.std_error, rtol=0.2)
    assert a.tree["log_likelihood"]["y"].sizes["obs"] == repeated.design.n


# ---- where there is no estimate ------------------------------------------------------------------------------------


def collinear(likelihood: Any, **more: Any) -> pr.Model:
    X, y = rows_for(likelihood)
    X = np.c_[X, X[:, 0] - 2 * X[:, 1]]
    return pr.Model.from_arrays(
        X, y, columns=["a", "b", "c", "d"], **recipe_of(likelihood), **more
    )


@pytest.mark.parametrize(
    ("likelihood", "method"),
    covering(
        [
            (v, k)
            for v in LIKELIHOOD_CASES
            for k in ESTIMATORS
            if k.target == "mode" and k.obstacle(model_for(v)) is None
            if not is_short(v, k)
        ],
        likelihood_kind,
        lambda v, k: k.name,
        one_in=50,
    ),
)
def test_collinear_columns_warn_and_have_no_estimate(likelihood, method):
    model = collinear(likelihood)
    with pytest.warns(pr.ProbregWarning, match="not identified.*d = a - 2 b"):
        fit = pr.fit(model, method)
    assert fit.solution.status is Status.NOT_IDENTIFIED
    gone, kept = ["a", "b", "d"], ["Intercept", "c"]
    assert np.isnan(fit.coef.sel(coef=gone)).all()
    assert np.isnan(fit.std_error.sel(coef=gone)).all()
    smaller = pr.fit(
        pr.Model.from_arrays(
            model.design.X[:, 1:4],
            rows_for(likelihood)[1],
            columns=["a", "b", "c"],
            **recipe_of(likelihood),
        ),
        method,
    )
    near, se = fit.method.accuracy, smaller.std_error.sel(coef=kept).values
    np.testing.assert_allclose(
        fit.coef.sel(coef=kept),
        smaller.coef.sel(coef=kept),
        rtol=1e-6,
        atol=1e-8 + 2 * near * se.max(),
    )
    np.testing.assert_allclose(fit.std_error.sel(coef=kept), se, rtol=1e-5 + near)
    assert fit.log_likelihood == pytest.approx(
        smaller.log_likelihood, rel=1e-9, abs=near
    )
    # of least norm on the raw columns: no part along a - 2 b - d, and the same linear predictor
    least = fit.minimum_norm
    along = least.sel(coef=["a", "b", "d"]).values.T @ [1.0, -2.0, -1.0]
    np.testing.assert_allclose(along, 0.0, atol=1e-9)
    eta = smaller.model.design.X @ smaller.coef.values
    np.testing.assert_allclose(
        model.design.X @ least.values, eta, atol=1e-6 + 10 * near * se.max()
    )
    assert smaller.minimum_norm.equals(smaller.coef)
    with pytest.raises(pr.NotConverged, match=r"no interval.*d = a - 2 b"):
        fit.interval()
    with pytest.raises(pr.NotConverged, match="not identified"):
        pr.fit(model, method, strict=True)
    table = fit.summary()
    involved = (
        table.index.get_level_values("coef").isin(gone)
        if likelihood.outcomes
        else table.index.isin(gone)
    )
    assert table[involved].isna().all(axis=None)
    assert (
        table[~involved]
        .drop(columns=["statistic", "p_value"], errors="ignore")
        .notna()
        .all(axis=None)
    )
    if "p_value" in table:  # sigma has none
        others = len(fit.once(reported_parameters).scalars)
        assert table["p_value"].isna().sum() == involved.sum() + others


@pytest.mark.filterwarnings("ignore:closed_form")
@pytest.mark.parametrize("intercept", [True, False])
def test_the_least_squares_solution_of_least_norm_is_that_of_the_pseudo_inverse(
    intercept,
):
    rng = np.random.default_rng(2)
    X, y = (
        rng.normal(size=(6, 9)) * [1, 5, 1, 1, 0.2, 1, 1, 1, 1] + 3.0,
        rng.normal(size=6),
    )  # more columns than rows
    fit = pr.fit(pr.Model.from_arrays(X, y, intercept=intercept), "closed_form")
    np.testing.assert_allclose(
        fit.minimum_norm, np.linalg.pinv(fit.model.design.X) @ y, rtol=1e-8
    )


@pytest.mark.filterwarnings("ignore")
@pytest.mark.parametrize("method", ["closed_form", "newton"])
def test_the_covariance_of_least_norm_is_the_pseudo_inverse_of_the_information(method):
    X = np.random.default_rng(3).normal(size=(20, 3)) * [1.0, 5.0, 0.2] + 2.0
    X[:, 2] = X[:, 0] - 2.0 * X[:, 1]
    model = pr.Model.from_arrays(X, X[:, 0] ** 2, aux={"sigma": 1.0})
    fit = pr.fit(model, method)
    information = fit.model.design.X.T @ fit.model.design.X
    np.testing.assert_allclose(
        fit.solution.scale.matrix(), np.linalg.pinv(information), rtol=1e-7, atol=1e-12
    )


def test_what_has_no_estimate_of_least_norm_says_why():
    model = pr.Model.from_arrays(
        [0.0, 1.0, 2.0, 3.0], [0, 0, 1, 1], likelihood=pr.Bernoulli()
    )
    with pytest.warns(pr.ProbregWarning, match="no maximum"):
        separated = pr.fit(model)
    with pytest.raises(pr.NotConverged, match=r"no estimate of least norm.*separation"):
        _ = separated.minimum_norm
    posterior = pr.fit(
        model.with_prior({"Intercept": Normal(1.0), "x1": Normal(1.0)}), "laplace"
    )
    with pytest.raises(pr.Incompatible, match="laplace has no estimate of least norm"):
        _ = posterior.minimum_norm


@pytest.mark.parametrize("method", ["conjugate", "quadrature", "laplace"])
def test_an_improper_posterior_is_refused(method):
    with pytest.raises(pr.Incompatible, match="d = a - 2 b"):
        pr.fit(collinear(pr.Gaussian()), method)


@pytest.mark.parametrize("likelihood", covering(LIKELIHOOD_CASES, likelihood_kind))
def test_a_prior_decides_between_collinear_columns(likelihood):
    fit = pr.fit(collinear(likelihood, prior=Normal(0.7), aux=proper_aux(likelihood)))
    assert np.isfinite(fit.coef).all()
    assert (fit.std_error > 0).all()


SEPARATED = {
    "bernoulli": (np.r_[np.zeros(10), np.ones(10)], "a"),
    "categorical": (np.r_[np.zeros(10), np.arange(10) % 2 + 1], "a"),
    "poisson": (np.r_[np.zeros(10), np.arange(10) % 3 + 1], "step"),
}


@pytest.mark.parametrize("name", SEPARATED)
def test_a_maximum_at_infinity_warns_and_is_nan(name):
    y, column = SEPARATED[name]
    rng = np.random.default_rng(9)
    x = (
        np.r_[-rng.uniform(1, 2, 10), rng.uniform(1, 2, 10)]
        if column == "a"
        else (np.arange(20) < 10).astype(float)
    )
    model = pr.Model.from_arrays(
        np.c_[x, rng.normal(size=20)], y, columns=[column, "other"], likelihood=name
    )
    with pytest.warns(
        pr.ProbregWarning,
        match=f"no maximum likelihood estimate exists.*separation.*{column}",
    ):
        fit = pr.fit(model)
    assert fit.solution.status is Status.NO_MAXIMUM
    assert np.isnan(fit.coef.sel(coef=column)).any()
    assert np.isnan(fit.std_error.sel(coef=column)).any()
    with pytest.raises(pr.NotConverged, match="no interval"):
        fit.interval()
    with pytest.raises(pr.NotConverged, match="nothing to predict from"):
        fit.predict()
    with pytest.raises(pr.NotConverged, match="no maximum likelihood estimate exists"):
        pr.fit(model, strict=True)
    with pytest.raises(pr.Incompatible, match="laplace needs a mode"):
        pr.fit(model, "laplace")
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        assert np.isfinite(pr.fit(model.with_prior(Normal(2.5))).coef).all()


def test_a_step_limit_is_reported():
    with pytest.warns(pr.ProbregWarning, match="step limit"):
        fit = pr.fit(model_for(pr.Bernoulli()), pr.Newton(max_steps=1))
    assert not fit.solution.status.good


@pytest.mark.parametrize(
    "likelihood",
    covering(
        [v for v in LIKELIHOOD_CASES if isinstance(v, SmoothLikelihood)],
        likelihood_kind,
    ),
)
def test_a_warm_start_ends_at_the_same_mode(likelihood):
    model = model_for(likelihood, Normal(0.8))
    cold = pr.fit(model, "newton")
    warm = pr.fit(model, pr.Newton(start=tuple(map(tuple, cold.solution.beta + 0.01))))
    np.testing.assert_allclose(warm.coef, cold.coef, rtol=1e-8, atol=1e-10)
    with pytest.raises(pr.DataError, match="start has shape"):
        pr.fit(model, pr.Newton(start=((1.0,),)))


def test_sigma_held_fixed_is_not_estimated():
    for likelihood in (pr.Gaussian(), pr.StudentT()):
        fit = pr.fit(model_for(likelihood, aux=auxiliaries(likelihood)))
        assert fit.solution.aux == {}
        assert fit.aux == auxiliaries(likelihood)
        with pytest.raises(pr.DataError, match="was not estimated"):
            fit.aux_interval("sigma")


def test_every_prior_goes_with_the_plain_gaussian_likelihood():
    assert all(accepted(pr.Gaussian(), p) is not None for p in PRIOR_CASES)
