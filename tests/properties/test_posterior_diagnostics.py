"""Every diagnostic of a posterior: a case that it flags, a case that is clean, and where it does not apply."""

import re
from dataclasses import replace

import numpy as np
import pytest
from numpy.testing import assert_allclose
from scipy.special import ndtr, pdtr

import probreg as pr
from probreg.diagnostics.after import DIAGNOSTICS, diagnose, power_scaling
from probreg.diagnostics.after.predictive import loo_pit, predictive_checks
from probreg.diagnostics.after.prior import sensitivity
from probreg.diagnostics.before import Verdict
from probreg.diagnostics.simulation.simulate import simulate
from probreg.fits.residuals import uniforms
from probreg.inference import Draws, LaplaceApproximation
from probreg.likelihoods import SmoothLikelihood
from tests.properties.cases import (
    LIKELIHOOD_CASES,
    covering,
    dkw,
    likelihood_kind,
    model_for,
    own,
)

OF_POSTERIORS = [k for k, cls in DIAGNOSTICS.items() if cls.target == "posterior"]
PLAIN = ("Intercept", "x1")
OF_CHAINS = ["mixing", "divergences", "energy"]


def answer(name, fit):
    """The findings of one diagnostic; the test fails where it does not apply."""
    found = DIAGNOSTICS[name]().run(fit)
    assert found[0].applies
    return found


def reason(name, fit):
    """The reason why a diagnostic does not apply to a fit."""
    (found,) = DIAGNOSTICS[name]().run(fit)
    assert not found.applies
    return found.sentence


def worst(name, fit):
    return max(f.verdict for f in answer(name, fit))


def rows(n=60, seed=1):
    """Two columns and standard normal noise."""
    rng = np.random.default_rng(seed)
    return rng.normal(size=(n, 2)), rng.normal(size=n)


def gaussian(y, X, **more):
    return pr.fit(pr.Model.from_arrays(X, y, **more), "conjugate")


# ---- all of them


def test_all_nine_are_registered():
    assert set(OF_POSTERIORS) & set(own(DIAGNOSTICS)) == {
        *OF_CHAINS, "approximation", "loo", "loo_pit", "power_scaling", "predictive_checks", "prior_data_conflict"
    }  # fmt: skip


@pytest.mark.parametrize(
    "likelihood",
    covering(
        [v for v in LIKELIHOOD_CASES if isinstance(v, SmoothLikelihood)],
        likelihood_kind,
    ),
)
def test_each_answers_or_says_why_it_does_not_apply(likelihood):
    aux = dict.fromkeys(likelihood.nuisance, pr.HalfNormal(0.8))
    fit = pr.fit(
        model_for(likelihood, pr.Normal(1.5), aux=aux), LaplaceApproximation(draws=250)
    )
    for name in OF_POSTERIORS:
        found = DIAGNOSTICS[name]().run(fit)
        assert found
        assert all(f.check == name and f.sentence for f in found)
        assert all(f.remedy for f in found if f.verdict)
    assert all(reason(name, fit) for name in OF_CHAINS)


def test_none_is_asked_of_a_point_estimate():
    X, y = rows()
    assert not {f.check for f in diagnose(pr.fit(pr.Model.from_arrays(X, y)))} & set(
        OF_POSTERIORS
    )


# ---- chains


def chains(seed=0, size=(4, 500), **stats):
    """A Gaussian fit that claims to have sampled: white noise for draws, unless told otherwise."""
    rng = np.random.default_rng(seed)
    X, y = rows()
    fit = gaussian(y, X, aux={"sigma": 1.0})
    draws = {"beta": stats.pop("beta", rng.normal(size=(*size, 3, 1)))}
    known = {"diverging": np.zeros(size, bool), "energy": rng.normal(size=size)} | stats
    return replace(
        fit, method=pr.NUTS(), solution=replace(fit.solution, draws=Draws(draws, known))
    )


def walk(size, rho, seed=0):
    """Autoregressive noise (chain, draw, ...) of unit variance."""
    noise = np.random.default_rng(seed).normal(size=size)
    for t in range(1, size[1]):
        noise[:, t] = rho * noise[:, t - 1] + np.sqrt(1 - rho**2) * noise[:, t]
    return noise


def test_mixing():
    assert worst("mixing", chains()) == Verdict.OK
    apart = np.random.default_rng(0).normal(size=(4, 500, 3, 1)) + np.arange(4)[
        :, None, None, None
    ] * [
        [0.0],
        [0.3],
        [0.0],
    ]
    found = answer("mixing", chains(beta=apart))
    assert found[0].verdict == Verdict.PROBLEM
    assert found[0].columns == ("x1",)
    slow = answer("mixing", chains(beta=walk((4, 4000, 3, 1), 0.99), size=(4, 4000)))
    assert any("effective sample size below 400" in f.sentence for f in slow)


def test_a_single_chain_is_noted():
    assert "single chain" in answer("mixing", chains(size=(1, 1000)))[0].sentence


def test_divergences():
    assert worst("divergences", chains()) == Verdict.OK
    beta = np.random.default_rng(0).normal(size=(4, 500, 3, 1))
    (found,) = answer("divergences", chains(beta=beta, diverging=beta[..., 2, 0] > 2.8))
    assert found.verdict == Verdict.WARNING  # about 0.3 % of steps
    assert found.columns == ("x2",)
    assert "high values of x2" in found.sentence
    assert (
        worst("divergences", chains(beta=beta, diverging=beta[..., 2, 0] < -1.5))
        == Verdict.PROBLEM
    )
    cut = answer(
        "divergences",
        chains(reached_max_treedepth=np.arange(2000).reshape(4, 500) % 2 == 0),
    )
    assert "50 % of trajectories" in cut[0].sentence


def test_energy():
    assert worst("energy", chains()) == Verdict.OK
    # E-BFMI is 2 (1 - rho) = 0.1
    (found,) = answer("energy", chains(energy=walk((4, 500), 0.95)))
    assert found.verdict == Verdict.WARNING
    assert found.statistic < 0.3


@pytest.mark.slow
def test_a_good_run_of_nuts_is_clean():
    X, y = rows(seed=3)
    fit = pr.fit(pr.Model.from_arrays(X, y, prior=pr.Normal(5.0)), "nuts", seed=2)
    assert max(f.verdict for f in diagnose(fit)) == Verdict.OK


# ---- approximation


def logistic(n, scale=1.0):
    x = np.linspace(-2, 2, n)
    y = np.where(np.random.default_rng(2).random(n) < 1 / (1 + np.exp(-x)), 1, 0)
    return pr.fit(
        pr.Model.from_arrays(
            x[:, None], y, likelihood="bernoulli", prior=pr.Normal(scale)
        ),
        "laplace",
    )


def test_approximation():
    assert worst("approximation", logistic(400)) == Verdict.OK
    assert worst("approximation", logistic(8, scale=20.0)) == Verdict.NOTE
    alone = pr.Model.from_arrays(
        [[0.0], [1.0]],
        [0, 1],
        likelihood="bernoulli",
        prior=dict.fromkeys(PLAIN, pr.Normal(50.0)),
    )
    assert worst("approximation", pr.fit(alone, "laplace")) == Verdict.WARNING
    X, y = rows()
    exact = pr.fit(pr.Model.from_arrays(X, y, aux={"sigma": 1.0}), "laplace")
    assert (
        "effective share of draws 100 %" in answer("approximation", exact)[0].sentence
    )
    assert "draws from the posterior itself" in reason("approximation", gaussian(y, X))


# ---- predictive checks


def odd(fit):
    """Names of the statistics that are flagged."""
    return {
        re.split(r" \S+ in the data", f.sentence)[0]
        for f in answer("predictive_checks", fit)
        if f.verdict
    }


def counts(seed=0, n=120):
    rng = np.random.default_rng(seed)
    X = rng.normal(size=(n, 1))
    return rng, X, np.exp(0.5 + 0.4 * X[:, 0])


def test_predictive_checks_of_gaussian_noise():
    X, y = rows(120)
    assert not odd(gaussian(y, X))
    assert "skewness of residuals" in odd(
        gaussian(np.random.default_rng(0).exponential(size=120), X)
    )
    assert odd(gaussian(np.r_[y[:-1], 9.0], X)) >= {"largest residual"}
    assert odd(gaussian(np.r_[y[:-1], -9.0], X)) >= {"smallest residual"}
    assert odd(gaussian(y, X, aux={"sigma": 2.0})) >= {
        "standard deviation of residuals"
    }


def test_a_p_value_is_the_share_of_replicates_above_the_data():
    X, y = rows(120)
    wide = {
        c.statistic.name: c.p_value
        for c in predictive_checks(gaussian(y, X, aux={"sigma": 2.0}))
    }
    assert wide["standard deviation of residuals"] > 0.999
    assert wide["smallest residual"] < 0.05


def test_predictive_checks_of_two_outcomes():
    rng = np.random.default_rng(0)
    x = np.linspace(-2, 2, 200)
    draw = lambda eta: (rng.random(200) < 1 / (1 + np.exp(-eta))).astype(int)
    fit = lambda y, x: pr.fit(
        pr.Model.from_arrays(x[:, None], y, likelihood="bernoulli"), "laplace"
    )
    assert not odd(fit(draw(x), x))
    assert "misfit of rates by fitted decile" in odd(fit(draw(3 * x**2 + x - 3), x))


def test_predictive_checks_of_two_outcomes_with_frequencies():
    x, y, w = (
        np.repeat([[0.0], [1.0], [2.0], [3.0]], 2, 0),
        [1, 0] * 4,
        [3, 17, 5, 15, 9, 11, 14, 6],
    )
    model = pr.Model.from_arrays(x, y, weights=w, likelihood="bernoulli")
    assert [c.statistic.name for c in predictive_checks(pr.fit(model, "laplace"))] == [
        "misfit of rates by fitted decile"
    ]
    assert worst("predictive_checks", pr.fit(model, "laplace")) == Verdict.OK


def test_predictive_checks_of_classes():
    rng = np.random.default_rng(0)
    x, y = rng.normal(size=150), rng.choice(3, 150, p=[0.6, 0.3, 0.1])
    fit = lambda y, prior: pr.fit(
        pr.Model.from_arrays(x[:, None], y, likelihood="categorical", prior=prior),
        "laplace",
    )
    assert not odd(fit(y, pr.Normal(2.0)))
    held = {"Intercept": pr.Normal(0.05), "x1": pr.Normal(2.0)}  # all classes alike
    assert odd(fit(y, held)) >= {"rate of class 0", "rate of class 2"}
    bent = np.where(np.abs(x) > 1, 2, rng.integers(0, 2, 150))
    assert "misfit of the rate of class 2 by fitted decile" in odd(
        fit(bent, pr.Normal(2.0))
    )


def test_predictive_checks_of_counts():
    rng, X, mu = counts()
    fit = lambda y: pr.fit(pr.Model.from_arrays(X, y, likelihood="poisson"), "laplace")
    assert not odd(fit(rng.poisson(mu)))
    assert "dispersion (mean squared Pearson residual)" in odd(
        fit(rng.negative_binomial(1, 1 / (1 + mu)))
    )
    assert "share of zeros" in odd(fit(rng.poisson(2 * mu) * (rng.random(120) < 0.6)))
    assert "largest count" in odd(fit(np.r_[rng.poisson(mu)[:-1], 40]))


def test_predictive_checks_of_heavy_tails():
    X, y = rows(120)
    fit = lambda s: pr.fit(
        pr.Model.from_arrays(X, y, likelihood="student", aux={"sigma": s}), "laplace"
    )
    # a t4 of this scale has nearly normal quartiles
    assert "interquartile range of residuals" not in odd(fit(0.85))
    assert "interquartile range of residuals" in odd(fit(2.0))


# ---- leave one out


def test_loo_names_the_row():
    import pandas as pd

    X, y = rows(40)
    table = pd.DataFrame({"y": y, "x": X[:, 0]}, index=[f"day {i}" for i in range(40)])
    model = pr.Model.from_formula("y ~ x", table)
    assert worst("loo", pr.fit(model, "conjugate")) == Verdict.OK
    table.loc["day 17", ["y", "x"]] = [-25.0, 6.0]
    (found,) = answer("loo", pr.fit(pr.Model.from_formula("y ~ x", table), "conjugate"))
    assert found.verdict == Verdict.WARNING
    assert found.rows[0] == "day 17"
    assert "day 17" in found.sentence


def test_loo_names_each_of_several_rows_with_its_k():
    X, y = rows(40)
    X, y = X[:, :1].copy(), np.array(y, dtype=float)
    X[[3, 11], 0], y[[3, 11]] = [6.0, -6.0], [-25.0, -30.0]
    (found,) = answer("loo", pr.fit(pr.Model.from_arrays(X, y), "conjugate"))
    assert set(found.rows) == {3, 11}
    each = re.findall(r"(\d+) \((\d\.\d\d)\)", found.sentence)
    assert {int(row) for row, _ in each} == {3, 11}
    assert all(float(k) > 0.7 for _, k in each)


def left_out(X, y, sigma, prior):
    """Mean and sd of each observation given the others, for noise of known sigma and beta ~ N(0, prior^2)."""
    out = []
    for i in range(len(y)):
        rest = np.arange(len(y)) != i
        V = np.linalg.inv(
            X[rest].T @ X[rest] / sigma**2 + np.eye(X.shape[1]) / prior**2
        )
        out.append(
            (
                X[i] @ V @ X[rest].T @ y[rest] / sigma**2,
                np.sqrt(X[i] @ V @ X[i] + sigma**2),
            )
        )
    return np.array(out).T


@pytest.mark.parametrize("method", ["conjugate", "laplace"])
def test_loo_and_its_pit_are_those_of_refits(method):
    X, y = rows(40)
    fit = pr.fit(
        pr.Model.from_arrays(
            X, y, intercept=False, prior=pr.Normal(2.0), aux={"sigma": 0.8}
        ),
        method,
    )
    mean, sd = left_out(X, y, 0.8, 2.0)
    exact = (-0.5 * ((y - mean) / sd) ** 2 - np.log(sd) - 0.5 * np.log(2 * np.pi)).sum()
    # 4,000 draws: 40 rows of Monte Carlo error below 0.01 each
    assert_allclose(float(fit.loo().elpd), exact, atol=0.1)
    # of a distribution function at 4,000 draws
    assert_allclose(loo_pit(fit), ndtr((y - mean) / sd), atol=0.02)


def test_loo_pit_corrects_an_approximation():
    """Counts of mean exp(b) with b ~ N(0, 2^2), so few that Laplace is far off; exact by sums over a grid of b."""
    y, b = np.array([0.0, 0.0, 0.0, 1.0, 2.0]), np.linspace(-9.0, 4.0, 4001)
    model = pr.Model.from_arrays(
        np.ones((5, 1)), y, intercept=False, likelihood="poisson", prior=pr.Normal(2.0)
    )
    each = y[:, None] * b - np.exp(b)
    expected, fit = [], pr.fit(model, LaplaceApproximation(draws=5000))
    # the numbers that spread a count's own mass
    for i, u in enumerate(uniforms(fit, np.arange(5))):
        w = np.exp(each.sum(0) - each[i] - b**2 / 8)
        lower, upper = (
            np.sum(w * pdtr(k, np.exp(b))) / w.sum() if k >= 0 else 0.0
            for k in (y[i] - 1, y[i])
        )
        expected.append(lower + u * (upper - lower))
    # 20,000 draws of which a third count: a distribution function to about 0.01
    assert_allclose(loo_pit(fit), expected, atol=0.03)


@pytest.mark.slow
def test_loo_pit():
    X, y = rows(80)
    fit = lambda y, s: gaussian(y, X, aux={"sigma": s})
    assert worst("loo_pit", fit(y, 1.0)) == Verdict.OK
    assert "predictions are too narrow" in answer("loo_pit", fit(y, 0.4))[0].sentence
    assert "predictions are too wide" in answer("loo_pit", fit(y, 3.0))[0].sentence
    rng, X2, mu = counts()
    model = lambda y: pr.fit(
        pr.Model.from_arrays(X2, y, likelihood="poisson"), "laplace"
    )
    assert worst("loo_pit", model(rng.poisson(mu))) == Verdict.OK
    assert (
        worst("loo_pit", model(rng.negative_binomial(1, 1 / (1 + mu))))
        == Verdict.WARNING
    )
    assert "two classes" in reason("loo_pit", logistic(30))


def test_loo_pit_of_a_shifted_prior_is_tilted():
    X, y = rows(80)
    held = {"Intercept": pr.Normal(0.01)}
    assert (
        "predictions are too low"
        in answer("loo_pit", gaussian(y + 0.8, X, prior=held, aux={"sigma": 1.0}))[
            0
        ].sentence
    )


# ---- the prior


@pytest.mark.slow
def test_conflict_p_values_are_uniform_under_the_prior():
    X, y = rows(15)
    units = dict.fromkeys(
        ["Intercept", "x1", "x2"], pr.Normal(0.25, location=0.3, sigma_units=True)
    )
    model = pr.Model.from_arrays(
        X, y, prior=units, aux={"sigma": pr.priors.InverseGamma(3.0, 2.0)}
    )
    rng = np.random.default_rng(4)
    p = [
        answer("prior_data_conflict", pr.fit(simulate(model, rng).model, "conjugate"))[
            0
        ].p_value
        for _ in range(100)
    ]
    assert np.abs(
        (np.array(p)[:, None] <= np.linspace(0, 1, 41)).mean(0) - np.linspace(0, 1, 41)
    ).max() < dkw(100)


def test_conflict():
    X, y = rows()
    fit = lambda scale: gaussian(
        y + 2 * X[:, 1], X, prior={"x2": pr.Normal(scale)}, aux={"sigma": 1.0}
    )
    assert worst("prior_data_conflict", fit(2.0)) == Verdict.OK
    (found,) = answer("prior_data_conflict", fit(0.1))
    assert found.verdict == Verdict.WARNING
    assert "of x2" in found.sentence
    apart = pr.Model.from_arrays(
        [-2.0, -1.0, 1.0, 2.0],
        [0, 0, 1, 1],
        likelihood="bernoulli",
        prior=pr.Normal(1.0),
    )
    assert (
        "maximum likelihood does not exist"
        in answer("prior_data_conflict", pr.fit(apart, "laplace"))[0].sentence
    )
    assert "flat" in reason("prior_data_conflict", gaussian(y, X))


def distance(P, Q):
    """Root of the cumulative Jensen-Shannon divergence of two distribution functions on an even grid, the larger of both
    directions."""

    def one_way(P, Q):
        part = lambda A: (A * np.log2(2 * A / (P + Q))).sum()
        return np.sqrt((part(P) + part(Q)) / (P + Q).sum())

    return max(one_way(P, Q), one_way(1 - P, 1 - Q))


@pytest.mark.parametrize("part", ["prior", "likelihood"])
def test_power_scaling_is_the_slope_between_exact_posteriors(part):
    y, scale = np.random.default_rng(0).normal(1.0, 1.0, 20), 0.4
    model = pr.Model.from_arrays(
        np.ones((20, 1)), y, intercept=False, prior=pr.Normal(scale), aux={"sigma": 1.0}
    )
    fit = pr.fit(model, "conjugate")

    def cdf(of_prior, of_likelihood):
        precision = of_prior / scale**2 + of_likelihood * 20
        return ndtr((grid - of_likelihood * y.sum() / precision) * np.sqrt(precision))

    draws = fit.solution.draws["beta"]
    # the distance is a share of this range
    grid = np.linspace(draws.min(), draws.max(), 20_001)
    powers = [(a, 1.0) if part == "prior" else (1.0, a) for a in (0.99, 1.01)]
    slopes = [
        distance(cdf(1.0, 1.0), cdf(*both)) / abs(np.log2(both[0] * both[1]))
        for both in powers
    ]
    # 4,000 draws, a sd known to 1 %
    assert_allclose(power_scaling(fit)[part].iloc[0], np.mean(slopes), rtol=0.05)


@pytest.mark.parametrize("S", [100, 4000])
def test_sensitivity_is_that_of_arviz(S):
    from arviz_stats.base import array_stats

    z = 5.0 + np.exp(0.5 * np.random.default_rng(0).standard_normal((S, 3)))
    log_density, alphas = -20.0 * (z[:, 0] - 6.0) ** 2 + z[:, 1], (0.99, 1.01)
    weights = [
        np.exp(array_stats.power_scale_lw(log_density, alpha=a))[None] for a in alphas
    ]
    expected = [array_stats.power_scale_sense(v[None], *weights, *alphas) for v in z.T]
    assert_allclose(sensitivity(z, log_density), np.array(expected, float), rtol=1e-8)


def test_power_scaling():
    X, y = rows()
    fit = lambda scale, rows: gaussian(
        (y + 2 * X[:, 1])[:rows],
        X[:rows],
        prior={"x2": pr.Normal(scale)},
        aux={"sigma": 1.0},
    )
    assert worst("power_scaling", fit(5.0, 60)) == Verdict.OK
    (both,) = answer("power_scaling", fit(0.2, 60))
    assert both.verdict == Verdict.NOTE
    assert both.columns[0] == "x2"
    assert (
        power_scaling(fit(0.2, 60)).loc["x2", "reading"] == "prior and data both decide"
    )
    alone = answer(
        "power_scaling",
        gaussian(y, X[:, :1] * 0.01, prior={"x1": pr.Normal(0.5)}, aux={"sigma": 1.0}),
    )
    assert alone[0].verdict == Verdict.WARNING
    assert alone[0].columns == ("x1",)
    with pytest.raises(pr.Incompatible, match="no prior to scale"):
        power_scaling(gaussian(y, X))
    with pytest.raises(pr.Incompatible, match="gives a mode"):
        power_scaling(
            pr.fit(pr.Model.from_arrays(X, y, prior=pr.Normal(1.0), aux={"sigma": 1.0}))
        )


def test_only_proper_parts_of_a_prior_are_scaled():
    import arviz as az

    X, y = rows()
    settings = {
        "prior": dict.fromkeys(["Intercept", "x1", "x2"], pr.Normal(0.5)),
        "aux": {"sigma": pr.HalfNormal(0.5)},
    }
    fit = pr.fit(pr.Model.from_arrays(X, y, **settings), "laplace")
    theirs = az.psense(fit.tree, group="prior")
    coefficients = [theirs[name].item() for name in ("Intercept", "x1", "x2")]
    # the same sums of 4,000 terms
    assert_allclose(power_scaling(fit)["prior"].iloc[:3], coefficients, rtol=1e-9)
    assert_allclose(
        power_scaling(fit)["prior"].loc["sigma"], theirs["sigma"].item(), rtol=1e-9
    )
    flat = pr.fit(pr.Model.from_arrays(X, y, prior={"x1": pr.Normal(50.0)}), "laplace")
    # p(sigma) = 1 / sigma is not scaled
    assert (power_scaling(flat)["prior"] < 1e-3).all()
