"""Laws of importance sampling: the posterior of a grid and of exact methods, errors that are what they say, weights that
are ArviZ's, units that do not matter; and the ladder that ends where it can."""

import dataclasses
import itertools
import warnings
from typing import Any

import numpy as np
import pytest

import probreg as pr
from probreg.inference import METHODS, Importance, Posterior, Status
from probreg.inference.modes.peaks import find_peaks
from probreg.inference.sampling.importance import (
    reliable,
    resample_systematically,
    smooth_weights,
)
from probreg.priors import Normal, StudentT

from .cases import (
    LIKELIHOOD_CASES,
    Array,
    accepted,
    auxiliaries,
    covering,
    given_for,
    likelihood_kind,
    model_for,
    named,
    proper_aux,
    recipe_of,
    rows_for,
)

FAR = 4.5  # standard errors: passed once in 150,000, and there are some hundred comparisons here


# ---- weights -------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("draws", [60, 300, 4000])
@pytest.mark.parametrize("tail", ["light", "exponential", "heavy", "bounded"])
def test_smoothed_weights_and_their_shape_are_arvizs(draws, tail, rng):
    from arviz_stats.base import array_stats

    log_w = (
        700.0
        + {  # as large as log densities are
            "light": lambda: 0.3 * rng.standard_normal(draws),
            "exponential": lambda: 0.8 * rng.standard_exponential(draws),
            "heavy": lambda: 1.5 * rng.standard_exponential(draws),
            "bounded": lambda: -(rng.standard_normal(draws) ** 2),
        }[tail]()
    )
    theirs, k = array_stats.psislw(-log_w)
    ours = smooth_weights(log_w)
    assert ours.k == pytest.approx(k, rel=1e-8, abs=1e-10)
    np.testing.assert_allclose(
        ours.log_weight - np.logaddexp.reduce(ours.log_weight), theirs, atol=1e-9
    )
    assert ours.log_weight.max() <= log_w.max()


def test_too_few_and_equal_weights_have_their_own_answer():
    assert smooth_weights(np.arange(20.0)).k == np.inf  # four in the tail
    assert smooth_weights(np.full(500, -3.0)).k == -np.inf
    assert smooth_weights(np.full(500, -np.inf)).k == np.inf
    assert reliable(4000) == 0.7
    assert reliable(100) == pytest.approx(0.5)


def test_resampling_takes_every_point_as_often_as_its_weight_to_within_one(rng):
    w = rng.exponential(size=200) ** 2
    share = 150 * w / w.sum()
    counts = np.array(
        [
            np.bincount(resample_systematically(w, 150, rng), minlength=200)
            for _ in range(400)
        ]
    )
    assert (np.abs(counts - share) < 1.0).all()
    # unbiased: a count is its floor or its ceiling, with a standard error of at most 1/2 / sqrt(400)
    assert np.abs(counts.mean(0) - share).max() < FAR * 0.025
    # copies side by side
    assert (np.diff(resample_systematically(w, 150, rng)) >= 0).all()


# ---- the posterior -------------------------------------------------------------------------------------------------


def on_a_grid(model: pr.Model) -> tuple[Array, Array, float]:
    """Mean and sd of (vec beta, log aux) and the log evidence by the trapezoidal rule in coordinates that whiten the mode:
    for an integrand that vanishes at the ends its error falls exponentially in the nodes."""
    s = pr.fit(model, "newton").solution
    centre = np.r_[s.beta.ravel(), np.log([s.aux[a] for a in model.unknown])]
    H = model.value_grad_hessian(s.beta, **s.aux).curvature
    root = np.linalg.cholesky(np.linalg.inv(H))
    d = len(centre)
    # to 15 standard deviations, denser inside
    u = np.sinh(np.linspace(-3.4, 3.4, {1: 2001, 2: 301, 3: 81}[d]))
    step = np.gradient(np.linspace(-3.4, 3.4, len(u))) * np.sqrt(1 + u**2)
    z = np.stack(np.meshgrid(*[u] * d, indexing="ij"), -1).reshape(-1, d)
    log_step = sum(np.log(v).ravel() for v in np.meshgrid(*[step] * d, indexing="ij"))
    x = centre + z @ root.T
    k = s.beta.size
    aux = {a: np.exp(x[:, k + i]) for i, a in enumerate(model.unknown)}
    log_f = log_step + x[:, k:].sum(1)
    log_f += np.concatenate(
        [
            model.log_posterior(
                b.reshape(-1, *model.shape), **{a: v[i] for a, v in aux.items()}
            )
            for b, i in (
                (x[j : j + 4000, :k], slice(j, j + 4000))
                for j in range(0, len(x), 4000)
            )
        ]
    )
    total = float(np.logaddexp.reduce(log_f))
    w = np.exp(log_f - total)
    mean = w @ x
    return mean, np.sqrt(w @ (x - mean) ** 2), total + float(np.linalg.slogdet(root)[1])


# few enough rows that the posterior is no normal, and few enough parameters for a grid
SMALL = [
    (pr.Bernoulli(), prior, 2, 24)
    for prior in (Normal(1.5), StudentT(1.0, nu=4.0), pr.priors.Cauchy(1.0), pr.Flat())
]
SMALL += [(pr.Bernoulli(), pr.priors.Jeffreys(), 1, 12)]  # whose density is dear
SMALL += [
    (pr.Poisson(), Normal(0.7, location=0.2), 2, 15),
    (pr.Poisson(), pr.Flat(), 2, 15),
]
SMALL += [
    pytest.param(
        pr.Categorical(symmetric=s), Normal(1.0), 1, 30, marks=pytest.mark.slow
    )
    for s in (False, True)
]
SMALL += [
    (pr.StudentT(), Normal(1.0), 1, 25),
    (pr.StudentT(), Normal(1.0, sigma_units=True), 2, 25),
]


def small(likelihood: Any, prior: Any, q: int, n: int) -> pr.Model:
    aux = {a: pr.priors.HalfCauchy(0.8) for a in likelihood.nuisance}
    X, y = rows_for(dataclasses.replace(likelihood), n, q, 5)
    return pr.Model.from_arrays(
        X, y, intercept=False, prior=prior, aux=aux, **recipe_of(likelihood)
    )


@pytest.mark.parametrize(("likelihood", "prior", "q", "n"), SMALL, ids=named)
def test_moments_and_evidence_are_those_of_the_posterior(likelihood, prior, q, n):
    model = small(likelihood, prior, q, n)
    mean, sd, evidence = on_a_grid(model)
    fit = pr.fit(model, Importance(draws=2000), seed=1)
    s, k = fit.solution, fit.solution.beta.size
    assert s.status is Status.SAMPLED
    assert s.stats["mcse_mean"] < 0.05  # in sd: so that what follows says something
    assert (
        np.abs(s.beta.ravel() - mean[:k]).max() / sd[:k].max()
        < FAR * s.stats["mcse_mean"]
    )
    assert (
        np.abs(np.sqrt(s.scale.diagonal()) / sd[:k] - 1.0).max()
        < FAR * s.stats["mcse_sd"]
    )
    # resampled draws, worth what the weights are worth
    for i, a in enumerate(model.unknown):
        assert abs(np.log(s.draws[a]).mean() - mean[k + i]) < FAR * sd[k + i] / np.sqrt(
            s.stats["ess"]
        )
    if model.joint.informative.all() and not isinstance(prior, pr.priors.Jeffreys):
        assert (
            abs(s.stats["log_evidence"] - evidence) < FAR * s.stats["log_evidence_se"]
        )
        assert s.stats["log_evidence_se"] < 0.05
    else:
        assert "log_evidence" not in s.stats
        assert "log_evidence_se" not in s.stats


GAUSSIAN = [
    (Normal(0.8, location=0.3), pr.priors.HalfCauchy(0.7), "quadrature"),
    (Normal(0.8, location=0.3), pr.priors.Exponential(0.7), "quadrature"),
    (Normal(0.8, location=0.3), 0.7, "conjugate"),
    (
        Normal(0.8, location=0.3, sigma_units=True),
        pr.priors.InverseGamma(2.5, 0.6),
        "conjugate",
    ),
    (pr.Flat(), pr.priors.Reference(), "conjugate"),
    (pr.Flat(), pr.priors.Uniform(), "conjugate"),
]


@pytest.mark.parametrize(("prior", "sigma", "exact"), GAUSSIAN, ids=named)
@pytest.mark.parametrize(
    "weighted", [False, True], ids=["plain", "weighted, with an offset"]
)
def test_a_gaussian_posterior_is_the_exact_one(prior, sigma, exact, weighted):
    n = 25
    more = (
        {"weights": np.arange(n) % 3 + 1, "offset": np.cos(np.arange(n))}
        if weighted
        else {}
    )
    model = model_for(
        pr.Gaussian(), prior, n=n, q=2, intercept=False, aux={"sigma": sigma}, **more
    )
    fit, truth = pr.fit(model, "importance", seed=3), pr.fit(model, exact)
    s, sd = fit.solution, truth.std_error.values
    assert (np.abs(fit.coef.values - truth.coef.values) / sd).max() < FAR * s.stats[
        "mcse_mean"
    ]
    np.testing.assert_allclose(fit.std_error.values, sd, rtol=FAR * s.stats["mcse_sd"])
    for a in model.unknown:
        error = truth.solution.aux_sd[a] / np.sqrt(s.stats["ess"])
        assert abs(fit.aux[a] - truth.aux[a]) < FAR * error
        # a skew density
        assert s.aux_sd[a] == pytest.approx(truth.solution.aux_sd[a], rel=0.2)
    assert ("log_evidence" in s.stats) == ("log_evidence" in truth.solution.stats)
    if "log_evidence" in s.stats:
        assert (
            abs(s.stats["log_evidence"] - truth.solution.stats["log_evidence"])
            < FAR * s.stats["log_evidence_se"]
        )


def test_the_evidence_of_many_coefficients_is_not_biased():
    """The mixture of all rounds is fitted to most of its points: their mean weight would be 5 standard errors too small."""
    rng = np.random.default_rng(0)
    model = pr.Model.from_arrays(
        rng.normal(size=(60, 20)),
        rng.normal(size=60),
        intercept=False,
        prior=Normal(1.0),
        aux={"sigma": 1.0},
    )
    exact = pr.fit(model, "conjugate").solution.stats["log_evidence"]
    stats = pr.fit(model, "importance", seed=0).solution.stats
    error = stats["log_evidence"] - exact
    assert abs(error) < 3 * stats["log_evidence_se"]


@pytest.mark.slow
def test_monte_carlo_errors_are_what_they_say():
    """Over 60 seeds the errors of mean, sd and evidence in units of the stated ones have a standard deviation of one."""
    model = small(pr.Bernoulli(), Normal(1.5), 1, 20)
    mean, sd, evidence = on_a_grid(model)
    z = []
    for seed in range(60):
        s = Importance(draws=500, chains=2).solve(model, np.random.default_rng(seed))
        z.append(
            [
                (s.beta.item() - mean[0]) / sd[0] / s.stats["mcse_mean"],
                (np.sqrt(s.scale.matrix().item()) / sd[0] - 1.0) / s.stats["mcse_sd"],
                (s.stats["log_evidence"] - evidence) / s.stats["log_evidence_se"],
            ]
        )
    found = np.std(z, 0)
    # the standard error of a log standard deviation
    assert (np.abs(np.log(found)) < FAR / np.sqrt(2 * 60)).all()
    assert (np.abs(np.mean(z, 0)) < FAR / np.sqrt(60)).all()


@pytest.mark.slow
def test_the_mean_of_weighted_points_beats_that_of_resampled_draws():
    model = small(pr.Bernoulli(), Normal(1.5), 2, 200)
    mean, sd, _ = on_a_grid(model)
    far: list[list[float]] = [[], []]
    for seed in range(40):
        s = Importance(draws=500, chains=2).solve(model, np.random.default_rng(seed))
        for kept, beta in zip(far, (s.beta, s.draws["beta"].mean((0, 1)))):
            kept.append(float(np.square((beta.ravel() - mean) / sd).mean()))
    # the control variate; the proposal has tails of its own, so that it takes away less than a half
    assert np.mean(far[0]) < 0.7 * np.mean(far[1])


@pytest.mark.filterwarnings(
    "ignore::probreg.errors.ProbregWarning"
)  # a k-hat above 0.7
@pytest.mark.parametrize("likelihood", covering(LIKELIHOOD_CASES, likelihood_kind))
def test_what_is_weighed_is_what_is_reported(likelihood):
    """The weighted points give the moments again, and another proposal agrees with it."""
    model = model_for(
        likelihood,
        Normal(0.8),
        aux={a: pr.priors.HalfCauchy(0.6) for a in likelihood.nuisance},
    )
    one, other = (
        pr.fit(model, Importance(df=df, max_k=2.0), seed=2).solution
        for df in (None, 4.0)
    )
    method = Importance()
    peaks = find_peaks(model, method.name, tol=method.tol, max_steps=method.max_steps)
    found, *_ = method._weigh(model, peaks, np.random.default_rng(2))
    w = np.exp(found.log_weight)
    assert w.sum() == pytest.approx(1.0)
    assert found.ess == pytest.approx(1.0 / (w**2).sum(), rel=1e-9)
    assert one.stats["k_hat"] == found.k_hat
    mean = np.einsum("cs,cspm->pm", w, found.beta)
    cov = np.einsum(
        "cs,csi,csj->ij", w, *[(found.beta - mean).reshape(*w.shape, -1)] * 2
    )
    np.testing.assert_allclose(one.scale.matrix(), cov, rtol=1e-8, atol=1e-12)
    sd = np.sqrt(np.diagonal(cov)).reshape(mean.shape)
    assert np.abs((one.beta - mean) / sd).max() < FAR / np.sqrt(found.ess)
    error = np.hypot(one.stats["mcse_mean"], other.stats["mcse_mean"])
    assert np.abs((one.beta - other.beta) / sd).max() < FAR * error


# ---- draws ---------------------------------------------------------------------------------------------------------


def test_draws_are_independent_chains_that_claim_no_more_than_they_hold():
    import arviz as az

    model = small(pr.Bernoulli(), pr.Flat(), 2, 24)
    fit = pr.fit(model, Importance(draws=800, chains=3), seed=5)
    s = fit.solution
    assert {"diverging", "log_q", "acceptance_rate"}.isdisjoint(s.draws.stats)
    assert not {"ess_bulk", "ess_tail", "r_hat"} & set(fit.summary().columns)
    posterior = fit.tree["posterior"].to_dataset()
    assert float(az.rhat(posterior).to_array().max()) < 1.02
    flat = s.draws["beta"].reshape(3, 800, -1)
    distinct = sum(len(np.unique(c, axis=0)) for c in flat)
    assert distinct == s.stats["distinct"] < s.stats["ess"] < 2400
    # ArviZ sees copies, which stand side by side, as the correlation that they are
    assert float(az.ess(posterior).to_array().min()) < 1.3 * s.stats["ess"]
    assert (
        f"k-hat {s.stats['k_hat']:.2f}; 2,400 weighted points are worth {s.stats['ess']:,.0f}"
        in str(s.notes[-1])
    )
    starts = {tuple(c[0]) for c in flat}
    assert len(starts) == 3


def test_few_draws_are_judged_by_enough_points():
    model = small(pr.Bernoulli(), Normal(1.0), 2, 24)
    assert Importance(draws=5, chains=3).points == 334
    fit = pr.fit(model, Importance(draws=5, chains=3))
    assert fit.solution.draws["beta"].shape == (3, 5, 2, 1)
    assert np.isfinite(fit.solution.stats["k_hat"])


# ---- equivariance: the same points in any units --------------------------------------------------------------------


def same(a: pr.Fit, b: pr.Fit, back: Array) -> None:
    """b's coefficients are a's under `back`, with the same Monte Carlo error to the rounding of Newton's last step."""
    x, y = a.solution, b.solution
    m = x.beta.shape[1]
    np.testing.assert_allclose(back @ y.beta, x.beta, rtol=1e-6, atol=1e-7)
    S = np.kron(back, np.eye(m))
    np.testing.assert_allclose(
        S @ y.scale.matrix() @ S.T, x.scale.matrix(), rtol=1e-5, atol=1e-8
    )
    for name in ("k_hat", "ess"):
        assert y.stats[name] == pytest.approx(x.stats[name], rel=1e-4, abs=1e-4)
    for a_ in x.aux:
        assert y.aux[a_] == pytest.approx(x.aux[a_], rel=1e-6)


@pytest.mark.parametrize("likelihood", covering(LIKELIHOOD_CASES, likelihood_kind))
def test_units_and_zeros_of_columns_do_not_matter(likelihood):
    X, y = rows_for(likelihood)
    shift, stretch = np.array([5.0, -30.0, 0.1]), np.array([1000.0, 1.0, 0.003])
    options = recipe_of(likelihood) | {"aux": proper_aux(likelihood)}
    one = pr.fit(pr.Model.from_arrays(X, y, **options), "importance")
    two = pr.fit(pr.Model.from_arrays(shift + stretch * X, y, **options), "importance")
    back = np.diag(np.r_[1.0, stretch])
    back[0, 1:] = shift
    same(one, two, back)


@pytest.mark.parametrize("likelihood", covering(LIKELIHOOD_CASES, likelihood_kind))
def test_a_weight_is_a_number_of_copies_in_any_order(likelihood):
    X, y = rows_for(likelihood)
    w = np.arange(len(y)) % 4
    again = np.random.default_rng(0).permutation(np.repeat(np.arange(len(y)), w))
    options = recipe_of(likelihood) | {
        "prior": Normal(0.8),
        "aux": proper_aux(likelihood),
    }
    always = Importance(max_k=0.9)  # with kinks k-hat is near its limit
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        one = pr.fit(pr.Model.from_arrays(X, y, weights=w, **options), always)
        two = pr.fit(pr.Model.from_arrays(X[again], y[again], **options), always)
    same(one, two, np.eye(4))


def test_units_of_y_are_units_of_sigma():
    X, y = rows_for(pr.StudentT())
    one = pr.fit(pr.Model.from_arrays(X, y, likelihood="student"), "importance")
    two = pr.fit(pr.Model.from_arrays(X, 100.0 * y, likelihood="student"), "importance")
    np.testing.assert_allclose(two.coef, 100.0 * one.coef, rtol=1e-6, atol=1e-5)
    assert two.aux["sigma"] == pytest.approx(100.0 * one.aux["sigma"], rel=1e-6)


def test_a_saved_fit_comes_back(tmp_path):
    fit = pr.fit(
        small(pr.StudentT(), Normal(1.0), 2, 25), Importance(draws=50, max_k=0.6)
    )
    back = pr.load_fit(fit.save(tmp_path / "fit.nc"))
    assert back.method == fit.method
    assert back.summary().equals(fit.summary())
    assert back.solution.stats["k_hat"] == fit.solution.stats["k_hat"]


# ---- the ladder ----------------------------------------------------------------------------------------------------


LADDER = [
    (model_for(pr.Gaussian(), pr.Flat()), "conjugate", "conjugate is exact"),
    (model_for(pr.Gaussian(), Normal(0.8)), "quadrature", r"conjugate with unknown sigma needs .*\. quadrature is exact"),
    (model_for(pr.Poisson(), Normal(0.8)), "importance", r"no exact posterior\. importance has k-hat .* NUTS was not needed"),
    (model_for(pr.Poisson(), pr.Laplace(0.8)), "nuts", r"no exact posterior\. importance needs flat or normal"),
    (
        pr.Model.from_arrays(
            np.arange(-9.0, 10.0, 2.0), np.arange(10) > 4, columns=["x"], likelihood="bernoulli",
            prior={"Intercept": Normal(1.0), "x": pr.priors.Cauchy(2.5)},
        ),
        "nuts",
        "no variance",
    ),
]  # fmt: skip


@pytest.mark.parametrize(
    ("model", "rung", "why"), LADDER, ids=[f"{r}-{named(m)}" for m, r, _ in LADDER]
)
def test_the_ladder_ends_at_the_first_rung_that_holds_and_says_why(model, rung, why):
    import re

    rng = np.random.default_rng(0)
    settled = Posterior(draws=300, chains=2).resolve(model, rng)
    assert settled.method.name == rung
    assert (settled.method.draws, settled.method.chains) == (300, 2)
    assert str(settled.notes[0]).startswith(f"posterior took {rung}: ")
    assert re.search(why, str(settled.notes[0]))
    # a rung that follows starts from the same seed as one that is asked for by name
    if rung != "importance":
        assert rng.random() == np.random.default_rng(0).random()


@pytest.mark.parametrize(
    ("model", "rung"), [(m, r) for m, r, _ in LADDER if r != "nuts"], ids=named
)
def test_the_fit_is_that_of_the_rung(model, rung):
    fit, alone = pr.fit(model, "posterior", seed=7), pr.fit(model, rung, seed=7)
    assert fit.method.name == rung
    assert fit.target == "posterior"
    for name, v in alone.solution.draws.values.items():
        np.testing.assert_array_equal(fit.solution.draws[name], v)
    assert fit.solution.notes == alone.solution.notes


def test_the_importance_rung_is_computed_once(monkeypatch):
    calls = itertools.count()
    weigh = Importance._weigh
    monkeypatch.setattr(
        Importance, "_weigh", lambda self, *given: (next(calls), weigh(self, *given))[1]
    )
    pr.fit(model_for(pr.Poisson(), Normal(0.8)), "posterior")
    assert next(calls) == 1


def test_weights_worth_few_draws_are_not_enough(monkeypatch):
    # as many as there are draws
    monkeypatch.setattr("probreg.inference.posterior._ESS_PER_CHAIN", 1000.0)
    settled = Posterior(max_k=5.0).resolve(
        model_for(pr.Poisson(), Normal(0.8)), np.random.default_rng(0)
    )
    assert settled.method.name == "nuts"
    assert "independent draws only" in str(settled.notes[0])


def test_whatever_a_rung_takes_the_ladder_takes():
    for likelihood in LIKELIHOOD_CASES:
        model = accepted(likelihood, pr.Laplace(0.8), aux=auxiliaries(likelihood))
        if model is None or METHODS["nuts"]().obstacle(model) is not None:
            continue  # a lasso of all classes has a mode and no draws
        assert METHODS["posterior"]().obstacle(model) is None
    improper = model_for(pr.Poisson(), Normal(pr.priors.Reference()))
    assert "improper" in METHODS["posterior"]().obstacle(improper)


@pytest.mark.slow
@pytest.mark.filterwarnings(
    "ignore::probreg.errors.ProbregWarning"
)  # few draws of a long tail do not mix
def test_the_last_rung_is_nuts():
    model = LADDER[-1][0]
    fit = pr.fit(model, Posterior(draws=300, chains=2), seed=1)
    alone = pr.fit(model, pr.NUTS(draws=300, chains=2), seed=1)
    np.testing.assert_array_equal(
        fit.solution.draws["beta"], alone.solution.draws["beta"]
    )


# ---- calibration ---------------------------------------------------------------------------------------------------


@pytest.mark.slow
@pytest.mark.parametrize("likelihood", ["bernoulli", "student"])
def test_ranks_are_uniform(likelihood):
    y = np.arange(20) % (2 if likelihood == "bernoulli" else 4)
    prior = {c: Normal(1.0) for c in ("Intercept", "x1")}
    aux = {"sigma": pr.priors.LogNormal(0.5)} if likelihood == "student" else {}
    model = pr.Model.from_arrays(
        np.linspace(-1, 1.5, 20), y, likelihood=likelihood, prior=prior, aux=aux
    )
    found = pr.sbc(model, "importance", 60, seed=4)
    # for five quantities one seed in two hundred says less
    assert found.p_value.min() > 1e-3
    lost = sum(found.failures.values())
    assert found.ranks.sizes["replicate"] + lost == 60
    assert lost < 6
    assert (
        f"of {found.ranks.sizes['replicate'] + lost}, the others" in found.verdict
    ) == (lost > 0)


# ---- what cannot be seen from one mode -----------------------------------------------------------------------------


def test_a_posterior_of_two_equal_modes_is_averaged_over_both():
    """Student-t noise about two clusters: half of the mass is ten apart."""
    e = 0.3 * np.sin(np.arange(12.0))
    y = np.r_[e - 5.0, 5.0 - e] + 0.001 * np.arange(24)
    model = pr.Model.from_arrays(
        np.zeros((24, 0)),
        y,
        likelihood=pr.StudentT(nu=1.0),
        prior=Normal(10.0),
        aux={"sigma": 0.5},
    )
    grid = np.linspace(-12.0, 12.0, 4001)
    log_p = model.log_posterior(grid[:, None, None], sigma=0.5)
    w = np.exp(log_p - log_p.max())
    mean = w @ grid / w.sum()
    sd = np.sqrt(w @ (grid - mean) ** 2 / w.sum())
    fit = pr.fit(model, "posterior")
    assert fit.coef.item() == pytest.approx(
        mean, abs=FAR * sd / np.sqrt(fit.solution.stats["ess"])
    )
    assert fit.std_error.item() == pytest.approx(sd, rel=0.02)
    assert "2 modes" in " ".join(fit.essential_notes)


def test_a_concave_posterior_needs_no_caution():
    from probreg.inference.modes.existence import multimodality_cause

    for likelihood in LIKELIHOOD_CASES:
        told = multimodality_cause(model_for(likelihood, Normal(1.0)))
        assert (told is None) == likelihood.concave
        # the claim itself: negative curvature at some eta that the responses were not drawn at, or at none
        rng = np.random.default_rng(0)
        eta = 3.0 * rng.normal(size=(50, likelihood.width))
        aux = auxiliaries(likelihood)
        y = likelihood.sample(rng, eta, **aux, **given_for(likelihood, len(eta)))
        H = likelihood.value_grad_hessian(y, eta[::-1], **aux).curvature
        H = H[:, : likelihood.width, : likelihood.width]
        assert likelihood.concave == (np.linalg.eigvalsh(H).min() > -1e-10)
    counts = model_for(pr.likelihoods.NegativeBinomial("nb1"), Normal(1.0))
    assert (multimodality_cause(counts) or "").startswith("a negative binomial")
    assert "the cauchy prior" in (
        multimodality_cause(model_for(pr.Poisson(), pr.priors.Cauchy(1.0))) or ""
    )


@pytest.mark.parametrize(
    "sigma",
    [pr.HalfNormal(1.0), pr.priors.Uniform(0.0, 3.0)],
    ids=named,
)
def test_the_ladder_goes_on_where_an_exact_method_ends_in_a_refusal(sigma, monkeypatch):
    """Fewer rows than columns, held by priors alone: the density of log sigma falls as slowly as sigma itself."""
    rng = np.random.default_rng(3)
    X, columns = rng.normal(size=(4, 6)), ["Intercept", *(f"x{i}" for i in range(1, 7))]
    y = X.sum(1) + rng.normal(size=4)
    model = pr.Model.from_arrays(
        X, y, prior=dict.fromkeys(columns, Normal(2.0)), aux={"sigma": sigma}
    )
    exact = pr.fit(model, "quadrature")
    # by the trapezoidal rule, in the eigenvectors of the covariance of y
    values, V = np.linalg.eigh(4.0 * (X @ X.T + 1.0))
    u = np.linspace(-60.0, 8.0, 400_001)
    s = np.exp(u)
    spread = values[:, None] + s**2
    log_p = (
        -0.5 * (np.log(spread) + (V.T @ y)[:, None] ** 2 / spread).sum(0)
        + sigma.log_prob(s)
        + u
    )
    w = np.exp(log_p - log_p.max())
    # the trapezoid cuts an edge, and a long tail
    assert exact.aux["sigma"] == pytest.approx(w @ s / w.sum(), rel=1e-3)
    assert pr.fit(model, "posterior").method.name == "quadrature"

    def refuses(self, *given):
        raise pr.Incompatible(f"{self.name}: not this one")

    for method in (pr.Quadrature, Importance):  # whose modes are far away here
        monkeypatch.setattr(method, "solve", refuses)
    settled = Posterior(draws=50, chains=2).resolve(model, rng)
    # an edge of sigma's support has no compiled density
    bounded = model.aux_prior("sigma").has_bounded_support
    assert settled.method.name == ("pymc" if bounded else "nuts")
    assert "quadrature: not this one" in str(settled.notes[0])


def test_quadrature_does_not_take_rounding_for_a_fall_of_an_improper_posterior():
    rng = np.random.default_rng(3)
    X, columns = rng.normal(size=(4, 6)), ["Intercept", *(f"x{i}" for i in range(1, 7))]
    model = pr.Model.from_arrays(X, X.sum(1), prior=dict.fromkeys(columns, Normal(2.0)))
    with pytest.raises(pr.Incompatible, match="improper"):
        pr.fit(model, "quadrature")


def test_rows_that_student_noise_fits_exactly_are_refused_under_an_improper_prior_of_sigma():
    """Two rows and two columns: p(y | sigma) tends to a constant as sigma falls, and 1 / sigma has no mass."""
    for prior in (pr.Flat(), {"Intercept": Normal(5.0), "x1": Normal(5.0)}):
        model = pr.Model.from_arrays(
            [0.0, 1.0], [1.0, 2.0], likelihood="student", prior=prior
        )
        with pytest.raises(pr.Incompatible, match="improper"):
            pr.fit(model, "posterior")
    proper = pr.Model.from_arrays(
        [0.0, 1.0, 2.0], [1.0, 2.0, 4.0], likelihood="student", prior=Normal(5.0)
    )
    assert pr.NUTS().obstacle(proper) is None


LEFT = np.arange(4.0)


@pytest.mark.parametrize("seed", [1, 2, 3])
@pytest.mark.parametrize(
    ("y", "noise", "prior"),
    [
        (1.0 + 2.0 * LEFT, pr.priors.LogNormal(1.0), pr.Flat()),
        (1.0 + 2.0 * LEFT, pr.priors.LogNormal(1.5), pr.Flat()),
        (np.array([1.0, 3.2, 4.9, 7.0]), pr.priors.LogNormal(1.0), pr.Flat()),
        (np.full(4, 3.0), pr.priors.LogNormal(1.0), pr.Normal(1.0)),
        (1.0 + 2.0 * LEFT, pr.priors.LogNormal(1.0), pr.Normal(0.01)),
    ],
)
def test_a_scale_that_is_hardly_known_has_its_whole_posterior(y, noise, prior, seed):
    """Given sigma the coefficients spread in proportion to it, and log sigma has a standard deviation of 1 or more."""
    model = pr.Model.from_formula(
        "y ~ x",
        {"x": LEFT, "y": y},
        prior={"Intercept": pr.Normal(2.0), "x": prior}
        if prior != pr.Flat()
        else prior,
        aux={"sigma": noise},
    )
    exact, found = pr.fit(model, "quadrature"), pr.fit(model, "importance", seed=seed)
    # a heavy tail: 1,600 effective draws or more, the errors of an sd are some 6 %, and of a mean 2.5 % of an sd
    np.testing.assert_allclose(
        np.ravel(found.std_error), np.ravel(exact.std_error), rtol=0.2
    )
    sd = exact.solution.aux_sd["sigma"]
    assert abs(found.solution.aux["sigma"] - exact.solution.aux["sigma"]) < 0.1 * sd
    np.testing.assert_allclose(found.solution.aux_sd["sigma"], sd, rtol=0.2)
