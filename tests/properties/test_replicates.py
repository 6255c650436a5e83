"""Laws of null distributions that are drawn: each statistic of many data sets at once is that of the data themselves, and a
test of few rows rejects as often as it says."""

from dataclasses import replace
from functools import lru_cache

import numpy as np
import pytest
from scipy import stats

import probreg as pr
from probreg.diagnostics.after import DIAGNOSTICS, fit_arrays, influence_measures
from probreg.diagnostics.after.fit_arrays import (
    arrays_of_fit,
    deletion_arrays,
    draw_replicates,
    simulated_p_value,
    take_observations,
)
from probreg.diagnostics.after.functional_form import (
    powers,
    score_statistic,
)
from probreg.diagnostics.after.influence import (
    RARE,
    UNCOMMON,
    largest_cook,
    largest_dfbetas,
)
from probreg.diagnostics.before import CHECKS, Verdict
from probreg.fits.inference_data import observation_rows
from probreg.likelihoods import OfTrials, SmoothLikelihood

from .cases import (
    LIKELIHOOD_CASES,
    covering,
    given_for,
    likelihood_kind,
    model_for,
    named,
    proper_aux,
    recipe_of,
)

CLOSE = {"rtol": 1e-9, "atol": 1e-12}  # one formula by two routes, conditioned like 10


# Quick are each likelihood, and each kind of them with each prior.
smooth = pytest.mark.parametrize(
    ("likelihood", "prior"),
    covering(
        [
            (v, prior)
            for v in LIKELIHOOD_CASES
            if isinstance(v, SmoothLikelihood)
            for prior in (None, pr.Normal(0.5))
        ],
        lambda v, _: type(v),
        lambda v, prior: (likelihood_kind(v), prior),
        one_in=18,
    ),
)


@smooth
def test_statistics_of_the_data_are_those_of_the_fit(likelihood, prior):
    w = np.arange(40) % 3 + 1
    aux = proper_aux(likelihood)
    fit = pr.fit(model_for(likelihood, prior, n=40, weights=w, aux=aux))
    found, rows = arrays_of_fit(fit), observation_rows(fit.model)[0]
    at = take_observations(found, rows)
    measures = influence_measures(fit)
    deleted = deletion_arrays(fit)
    without = take_observations(deleted, rows)
    np.testing.assert_allclose(
        largest_cook(without), [np.nanmax(measures["cook"].values)], **CLOSE
    )
    np.testing.assert_allclose(
        largest_dfbetas(without, fit),
        [np.nanmax(np.abs(measures["dfbetas"].values))],
        **CLOSE,
    )
    np.testing.assert_allclose(
        without.influence.leverage[0], deleted.influence.leverage[0, rows], **CLOSE
    )
    if found.df is None:
        np.testing.assert_allclose(
            score_statistic(at, powers(at.eta, np.ones(len(rows)), 3, True))[0],
            score_statistic(found, powers(found.eta, found.w, 3, True))[0],
            **CLOSE,
        )


@smooth
def test_one_step_is_nearly_the_fit_of_a_replicate(likelihood, prior):
    """For a Gaussian it is the fit; elsewhere within half a standard error of the widest of these 1,200 rows."""
    model = model_for(
        likelihood, prior, n=1200, aux=dict.fromkeys(likelihood.nuisance, 0.7)
    )
    fit = pr.fit(model)
    (drawn,) = draw_replicates(fit, arrays_of_fit(fit), np.random.default_rng(0), 5)
    error = np.sqrt(np.einsum("nak,nak->na", drawn.Z, drawn.Z)).max()
    for y, eta in zip(drawn.y, drawn.eta):
        again = replace(model, design=replace(model.design, y=y))
        there = again.eta(pr.fit(again).solution.beta)
        limit = 1e-8 if likelihood.least_squares else error / 2
        assert np.abs(eta - there).max() < limit


def test_a_share_is_counted_with_the_data_among_the_draws():
    rng = np.random.default_rng(0)
    fit = pr.fit(
        pr.Model.from_arrays(
            rng.normal(size=30), rng.poisson(2.0, 30), likelihood="poisson"
        )
    )
    # ties count
    assert simulated_p_value(fit, lambda drawn: np.ones(len(drawn.y))) == 1.0
    own = fit.model.design.observed
    first = lambda drawn: (drawn.y == np.sort(own)).all(1) * 1.0
    ordered = np.argsort(own)
    sorted_fit = pr.fit(
        fit.model.__class__.from_arrays(
            fit.model.design.X[ordered, 1], own[ordered], likelihood="poisson"
        )
    )
    assert simulated_p_value(sorted_fit, first, ordered=True) == 1 / 5000
    assert simulated_p_value(sorted_fit, first, 1e-9, ordered=True) == 1e-9
    many = pr.fit(pr.Model.from_arrays(np.arange(600.0), rng.normal(size=600)))
    assert simulated_p_value(many, first) is None


# ---- sizes ---------------------------------------------------------------------------------------------------------

# the share of clean samples that a diagnostic may speak of: tests at 0.01 each, influence at one sample in ten
LEVELS = {
    "reset": 0.01,
    "autocorrelation": 0.01,
    "dispersion": 0.02,
}
LEVELS |= dict.fromkeys(("cook", "dfbetas"), UNCOMMON)


@lru_cache(200)
def clean(likelihood, n, seed):
    """A fit of data from the model; None where the sample has no estimate."""
    rng = np.random.default_rng([seed, n])
    X = np.c_[rng.normal(size=n), rng.uniform(-1.0, 1.0, n)]
    eta = 0.5 + X @ rng.normal(size=(2, likelihood.width)) * 0.5
    given = given_for(likelihood, n) if likelihood.name == "multinomial" else {}
    y = likelihood.sample(rng, eta, **dict.fromkeys(likelihood.nuisance, 1.0), **given)
    y = likelihood.drawn(y) if isinstance(likelihood, OfTrials) else y
    try:
        values = (
            np.array(likelihood.levels)[y.astype(int)]
            if likelihood.levels and y.ndim == 1
            else y
        )
        fit = pr.fit(pr.Model.from_arrays(X, values, **recipe_of(likelihood)))
    except pr.ProbregError:  # a class that was not drawn
        return None
    return fit if fit.solution.status.good else None


def rejections(name, likelihood, n, reps):
    """(samples, notes, warnings) of a diagnostic."""
    found = []
    for seed in range(reps):
        fit = clean(likelihood, n, seed)
        findings = [] if fit is None else DIAGNOSTICS[name]().run(fit)
        if findings and findings[0].applies:
            found.append(max(f.verdict for f in findings))
    return (
        len(found),
        sum(v >= Verdict.NOTE for v in found),
        sum(v >= Verdict.WARNING for v in found),
    )


def allowed(level, tests):
    """The number that a test of this level passes once in a thousand."""
    return stats.binom.ppf(1 - 1e-3, tests, level)


@pytest.mark.parametrize(("name", "likelihood", "n"), [
    ("reset", pr.Bernoulli(), 30), ("autocorrelation", pr.Binomial(trials=6), 20),
    ("cook", pr.Poisson(), 20), ("dfbetas", pr.Bernoulli(), 20), ("dispersion", pr.Poisson(), 25),
])  # fmt: skip
def test_few_clean_rows_raise_few_alarms(name, likelihood, n):
    tests, notes, warnings = rejections(name, likelihood, n, 25)
    assert notes <= allowed(LEVELS[name], tests)
    assert warnings <= allowed(RARE, tests)


@pytest.mark.slow
@pytest.mark.filterwarnings("ignore::probreg.errors.ProbregWarning")
@pytest.mark.parametrize(
    ("likelihood", "n"),
    [
        (pr.Gaussian(), 20),
        (pr.NegativeBinomial(), 20),
        (pr.Poisson(), 50),
    ],
    ids=named,
)
def test_every_size_is_what_is_stated(likelihood, n, monkeypatch):
    """Twice the level at most, as 100 samples tell it.
    Null distributions are 1,000 data sets, not 5,000, which tell a p-value of 0.01 as well."""
    monkeypatch.setattr(fit_arrays, "_LOOKS", ((200, 20), (1000, 0)))
    for name, level in LEVELS.items():
        tests, notes, warnings = rejections(name, likelihood, n, 100)
        assert notes <= allowed(2 * level, tests), name
        assert warnings <= allowed(
            2 * RARE if name in ("cook", "dfbetas") else 2e-3, tests
        ), name


def test_the_count_of_events_alarms_only_where_there_are_next_to_none():
    verdicts = [
        CHECKS["event"]().run(clean(pr.Bernoulli(), 50, seed).model)
        for seed in range(40)
    ]
    assert {f.verdict for found in verdicts for f in found} == {Verdict.OK}
