"""Groups left out, against fits without them."""

# ruff: noqa: F401, F811  fixtures of another file

from dataclasses import replace

import numpy as np
import pytest
from scipy.special import logsumexp
from scipy.stats import multivariate_normal, norm

import probreg as pr
from probreg.errors import DataError
from probreg.fits.effects_table import off_span_of
from probreg.fits.leave_out.groups import (
    _at_draws,
    _log_density_without_effects,
)
from probreg.inference.uncertainty.asymptotic import asymptotic
from probreg.model.group_effects import GroupEffects
from tests.equivalence.test_group_prediction import DATA, chance, mode, posterior, sds

GROUPS = ("g03", "g07")


def test_at_held_scales_it_is_the_predictive_density_of_a_new_group(mode):
    found = pr.compare_models({"mode": mode}, leave_out="g")
    sd, sigma = sds(mode), mode.aux["sigma"]
    for group in GROUPS:
        rest, gone = DATA[DATA["g"] != group], DATA[DATA["g"] == group]
        fit = pr.fit(
            pr.Model.from_formula(
                "y ~ x + (x || g)",
                rest,
                prior={"x || g": pr.Normal(tuple(np.tile(sd, 11)))},
                aux={"sigma": sigma},
            )
        )
        Z = np.column_stack([np.ones(len(gone)), gone["x"]])
        V = Z @ (
            fit.covariance().values[:2, :2] + np.diag(sd**2)
        ) @ Z.T + sigma**2 * np.eye(len(gone))
        expected = multivariate_normal(Z @ fit.coef.values[:2], V).logpdf(gone["y"])
        np.testing.assert_allclose(
            found.pointwise.sel(g=group).item(), expected, rtol=1e-9
        )
    assert any("fixed" in note for note in found.notes)


def test_least_squares_without_a_group_is_a_fit_without_its_rows():
    whole = pr.fit(pr.Model.from_formula("y ~ x", DATA))
    grouped = pr.fit(pr.Model.from_formula("y ~ x + (1 | g)", DATA))
    found = pr.compare_models(
        {"line": whole, "grouped": grouped}, leave_out="g"
    ).pointwise.sel(fit="line")
    for group in GROUPS:
        rest, gone = DATA[DATA["g"] != group], DATA[DATA["g"] == group]
        fit = pr.fit(pr.Model.from_formula("y ~ x", rest), "newton")
        b, s = fit.coef.values, fit.aux["sigma"]
        r = (gone["y"] - b[0] - b[1] * gone["x"]) / s
        np.testing.assert_allclose(
            found.sel(g=group),
            -0.5 * (r**2).sum() - len(gone) * np.log(s * np.sqrt(2 * np.pi)),
            rtol=1e-5,
        )


@pytest.mark.slow
def test_a_posterior_weighs_its_scales(posterior):
    found = pr.compare_models({"post": posterior}, leave_out="g")
    assert not [note for note in found.notes if "Pareto" in note]
    for group in GROUPS:
        rest, gone = DATA[DATA["g"] != group], DATA[DATA["g"] == group]
        prior = {"x || g": pr.priors.Covariance(sd=pr.HalfNormal(2.0))}
        fit = pr.fit(
            pr.Model.from_formula("y ~ x + (x || g)", rest, prior=prior), "integrate"
        )
        draws, Z = (
            fit.solution.draws.flat,
            np.column_stack([np.ones(len(gone)), gone["x"]]),
        )
        sd = np.stack([draws[f"sd({k} | g)"] for k in ("Intercept", "x")], 1)
        each = [
            multivariate_normal(
                Z @ b[:2, 0], Z @ np.diag(s**2) @ Z.T + t**2 * np.eye(len(gone))
            ).logpdf(gone["y"])
            for b, s, t in zip(draws["beta"][::40], sd[::40], draws["sigma"][::40])
        ]
        expected = np.logaddexp.reduce(each) - np.log(len(each))
        np.testing.assert_allclose(
            found.pointwise.sel(g=group).item(), expected, atol=0.25
        )


@pytest.mark.slow
def test_chances_are_integrated_over_the_effects_of_the_group(chance):
    found = pr.compare_models({"chance": chance}, leave_out="g")
    sd = sds(chance)[0]
    z, w = np.polynomial.hermite_e.hermegauss(40)
    for group in GROUPS:
        rest, gone = DATA[DATA["g"] != group], DATA[DATA["g"] == group]
        model = pr.Model.from_formula(
            "happened ~ x + (1 | g)",
            rest,
            likelihood="bernoulli",
            prior={"1 | g": pr.Normal(sd)},
        )
        fit = pr.fit(model, "laplace")
        beta = fit.solution.draws.flat["beta"][::10, :2, 0]
        eta = beta @ np.stack([np.ones(len(gone)), gone["x"]])
        sign = 2 * gone["happened"].to_numpy() - 1
        log_p = -np.logaddexp(
            0, -sign * (eta[:, :, None] + sd * z).transpose(0, 2, 1)
        ).sum(-1)
        expected = np.logaddexp.reduce(np.log((np.exp(log_p) @ w) / w.sum())) - np.log(
            len(beta)
        )
        np.testing.assert_allclose(
            found.pointwise.sel(g=group).item(), expected, atol=0.2
        )


def test_points_integrate_the_effects_of_a_group_at_each_draw(chance):
    sd, d, (own,) = (
        sds(chance)[0],
        chance.model.design,
        off_span_of(chance.model, chance.solution).of_groups,
    )
    rows, rng = np.flatnonzero(DATA["g"] == GROUPS[0]), np.random.default_rng(0)
    beta = asymptotic(chance.solution, rng)[0][:50]
    z, w = np.polynomial.hermite_e.hermegauss(60)
    eta = (beta[:, :2, 0] @ d.X[rows, :2].T)[:, :, None] + sd * z
    sign = (2 * DATA["happened"].to_numpy()[rows] - 1)[:, None]
    expected = np.log(np.exp(-np.logaddexp(0, -sign * eta).sum(1)) @ w / w.sum())
    found = _log_density_without_effects(
        chance.model, beta, np.arange(50), {}, [own], rows, rng
    )
    # 512 points are off by 1.3e-3
    np.testing.assert_allclose(found, expected, atol=2e-3)


def test_points_integrate_effects_of_almost_no_variance(chance):
    (own,) = off_span_of(chance.model, chance.solution).of_groups
    narrow = replace(own, root=lambda: np.array([[[1e-6]]]))
    rows, rng = np.flatnonzero(DATA["g"] == GROUPS[0]), np.random.default_rng(0)
    beta = asymptotic(chance.solution, rng)[0][:50]
    found = _log_density_without_effects(
        chance.model, beta, np.arange(50), {}, [narrow], rows, rng
    )
    eta = beta[:, :2, 0] @ chance.model.design.X[rows, :2].T
    sign = 2 * DATA["happened"].to_numpy()[rows] - 1
    np.testing.assert_allclose(found, -np.logaddexp(0, -sign * eta).sum(1), atol=1e-4)


def test_points_integrate_the_effects_of_each_predictor_of_a_softmax():
    rng = np.random.default_rng(0)
    g, y = np.repeat(list("abcd"), 10), rng.choice(list("uvw"), 40)
    model = pr.Model.from_formula(
        "y ~ 1 + (1 | g)", {"y": y, "g": g}, likelihood="categorical"
    )
    terms = [
        GroupEffects(term, [1, 2, 3, 4], lambda sd=sd: np.array([[[sd]]]), predictor)
        for term in model.design.recipe.grouped.values()
        for predictor, sd in enumerate((0.3, 1.2))
    ]
    beta, rows = rng.normal(0.0, [0.3, 1.2], (20, 5, 2)), np.arange(10)
    found = _log_density_without_effects(
        model, beta, np.arange(20), {}, terms, rows, rng
    )
    z, w = np.polynomial.hermite_e.hermegauss(40)
    v, u = np.meshgrid(0.3 * z, 1.2 * z, indexing="ij")
    eta = beta[:, 0, :, None, None] + np.stack([v, u])
    each = np.stack([np.zeros_like(eta[:, 0]), eta[:, 0], eta[:, 1]])
    log_p = each - logsumexp(each, axis=0)
    counts = np.array([(y[rows] == level).sum() for level in "uvw"])
    expected = logsumexp(
        np.tensordot(counts, log_p, 1), axis=(1, 2), b=np.outer(w, w) / w.sum() ** 2
    )
    # 512 points are off by 0.009
    np.testing.assert_allclose(found, expected, atol=0.02)


def test_points_integrate_the_effects_of_each_formula():
    rng = np.random.default_rng(0)
    rows = {"y": rng.normal(size=40), "g": np.repeat(list("abcd"), 10)}
    model = pr.Model.from_formula(
        {"y": "y ~ 1 + (1 | g)", "log sigma": "~ 1 + (1 | g)"}, rows
    )
    sds = (0.3, 0.2)
    terms = [
        GroupEffects(term, columns, lambda sd=sd: np.array([[[sd]]]), predictor)
        for predictor, (term, columns, sd) in enumerate(
            zip(
                model.design.recipe.grouped.values(),
                ([1, 2, 3, 4], [6, 7, 8, 9]),
                sds,
            )
        )
    ]
    beta, first = rng.normal(0.0, 0.2, (20, 10, 1)), np.arange(10)
    found = _log_density_without_effects(
        model, beta, np.arange(20), {}, terms, first, rng
    )
    z, w = np.polynomial.hermite_e.hermegauss(40)
    u, v = np.meshgrid(sds[0] * z, sds[1] * z, indexing="ij")
    mean, log_sigma = beta[:, 0, :, None] + u, beta[:, 5, :, None] + v
    log_p = norm.logpdf(
        rows["y"][first], mean[..., None], np.exp(log_sigma)[..., None]
    ).sum(-1)
    expected = logsumexp(log_p, axis=(1, 2), b=np.outer(w, w) / w.sum() ** 2)
    np.testing.assert_allclose(found, expected, atol=0.02)


def test_what_cannot_be_left_out_is_said(mode):
    with pytest.raises(
        DataError, match="leave_out='h' names no groups of these fits; they have: g"
    ):
        pr.compare_models({"mode": mode}, leave_out="h")
    weighted = pr.fit(
        pr.Model.from_formula("y ~ x + (1 | g)", DATA, weights=np.full(len(DATA), 2))
    )
    found = pr.compare_models({"weighted": weighted}, leave_out="g")
    assert np.isnan(found.table["elpd_loo"]).all()
    assert any("frequencies" in note for note in found.notes)


def test_restricted_likelihoods_of_other_flat_columns_are_not_compared(mode):
    less = pr.fit(pr.Model.from_formula("y ~ 1 + (x || g)", DATA))
    same = pr.fit(pr.Model.from_formula("y ~ x + (1 | g)", DATA))
    apart = pr.compare_models({"a": mode, "b": less}, leave_out="g")
    assert apart.table["log_evidence"].isna().all()
    assert any("criterion='ML'" in note for note in apart.notes)
    assert (
        pr.compare_models({"a": mode, "b": same}, leave_out="g")
        .table["log_evidence"]
        .notna()
        .all()
    )


def test_coefficients_given_the_scales_of_a_draw_are_the_fit_at_these_scales():
    rng = np.random.default_rng(1)
    table = {"y": rng.normal(size=40), "x": rng.normal(size=40)}
    prior = {"x": pr.Normal(0.5, location=2.0)}
    posterior = pr.fit(pr.Model.from_formula("y ~ x", table, prior=prior), "laplace")
    mean, V, sigma = next(_at_draws(posterior))
    aux = {"sigma": sigma}
    known = pr.fit(pr.Model.from_formula("y ~ x", table, prior=prior, aux=aux))
    np.testing.assert_allclose(mean, known.coef, rtol=1e-10)
    np.testing.assert_allclose(
        V.errors(), known.solution.given_scales.errors(), rtol=1e-10
    )
