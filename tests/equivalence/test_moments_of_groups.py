"""Means of effects by group: to first order at given scales, and the covariance that a posterior averages."""

import numpy as np
import pytest

import probreg as pr
from probreg.inference.exact.evidence_problem import EvidenceProblem
from probreg.inference.exact.nodes import NodeNormal


def test_the_mean_at_given_scales_is_moved_from_the_mode_towards_that_of_a_grid():
    y, g = np.array([0.0, 1.0, 0.0, 3.0, 1.0, 2.0]), ["a", "a", "a", "b", "b", "b"]
    prior = {"1 | g": pr.Covariance(sd=pr.HalfNormal(1.0))}
    model = pr.Model.from_formula(
        "y ~ 1 + (1 | g)", {"y": y, "g": g}, likelihood="poisson", prior=prior
    )
    surface = EvidenceProblem(model, per_column=False).surface
    sd = 0.8
    found = surface.mode(np.log([sd]))
    normal = NodeNormal(surface, found)
    first = normal.points(np.zeros((1, normal.width)))[1].ravel()
    # log p(y, b0, b) on a grid: flat b0, b ~ N(0, sd^2)
    b0, a, b = np.meshgrid(*[np.linspace(-7.0, 5.0, 121)] * 3, indexing="ij")
    eta = [b0 + a, b0 + b]
    log_p = sum(
        y[3 * k : 3 * k + 3].sum() * eta[k] - 3.0 * np.exp(eta[k]) for k in (0, 1)
    ) - (a**2 + b**2) / (2 * sd**2)
    weight = np.exp(log_p - log_p.max())
    exact = np.array([(weight * v).sum() for v in (b0, a, b)]) / weight.sum()
    place = np.unravel_index(np.argmax(log_p), log_p.shape)
    mode = np.array([v[place] for v in (b0, a, b)])
    assert abs(exact[0] - mode[0]) > 0.05
    assert abs(first[0] - exact[0]) < 0.4 * abs(mode[0] - exact[0])


def test_shares_of_a_posterior_are_of_its_mean_covariance():
    rng = np.random.default_rng(4)
    number, x = np.repeat(np.arange(12), 6), rng.normal(size=72) + 1.0
    b = rng.multivariate_normal([0.0, 0.0], [[4.0, 0.9], [0.9, 0.25]], 12)
    y = 1.0 + b[number, 0] + (0.5 + b[number, 1]) * x + 0.5 * rng.normal(size=72)
    prior = {"x | g": pr.Covariance(sd=pr.HalfNormal(2.0), cor=pr.LKJ(2.0))}
    model = pr.Model.from_formula(
        "y ~ x + (x | g)", {"y": y, "x": x, "g": number.astype(str)}, prior=prior
    )
    fit = pr.fit(model, "posterior", seed=1)
    draws = fit.solution.draws.flat
    sds = [draws[f"sd({name} | g)"] for name in ("Intercept", "x")]
    cross = np.mean(draws["cor(Intercept, x | g)"] * sds[0] * sds[1])
    S = np.array([[np.mean(sds[0] ** 2), cross], [cross, np.mean(sds[1] ** 2)]])
    Z = np.column_stack([np.ones(72), x])
    groups = np.einsum("ik,kl,il->i", Z, S, Z).mean()
    rest = np.mean(draws["sigma"] ** 2)
    assert fit.glance()["icc"].iloc[0] == pytest.approx(
        groups / (groups + rest), rel=1e-9
    )


def test_steps_from_ml_to_a_posterior_add_up_and_have_the_names_of_what_differs():
    rng = np.random.default_rng(5)
    number, x = np.repeat(np.arange(10), 5), rng.normal(size=50)
    y = 1.0 + 1.5 * rng.normal(size=10)[number] + 0.5 * x + rng.normal(size=50)
    model = pr.Model.from_formula(
        "y ~ x + (1 | g)", {"y": y, "x": x, "g": number.astype(str)}
    )
    ml, reml = pr.fit(model, pr.Evidence(criterion="ML")), pr.fit(model)
    of_scale = {"1 | g": pr.Covariance(sd=pr.HalfNormal(2.0))}
    names = [
        "degrees of freedom of the mean",
        "prior of the standard deviations",
        "uncertainty of the standard deviations",
    ]
    for prior, second in (
        (of_scale, names[1]),
        (of_scale | {"x": pr.Normal(0.5)}, "prior"),
    ):
        posterior = pr.fit(model.with_prior(prior), "posterior", seed=1)
        for a, causes in (
            (ml, [names[0], second, names[2]]),
            (reml, [second, names[2]]),
        ):
            found = pr.explain(a, posterior)
            assert list(found.shares["cause"].values) == causes
            assert (
                np.abs(
                    found.shares["shift"].sum("cause") - found.shares["difference"]
                ).max()
                < 1e-8
            )
            assert (
                np.abs(
                    found.shares["log_se"].sum("cause") - found.shares["log_se_ratio"]
                ).max()
                < 1e-8
            )
            back = pr.explain(posterior, a).shares["log_se"]
            assert np.abs(back.sel(cause=causes) + found.shares["log_se"]).max() < 1e-8
