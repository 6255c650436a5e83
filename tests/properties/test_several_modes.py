"""Posteriors of several modes: every method reports the highest one, the others, or the mean over all of them."""

import warnings

import numpy as np
import pytest

import probreg as pr
from probreg.inference import Bootstrap, Newton, Status
from probreg.inference.modes import peaks

from .cases import LIKELIHOOD_CASES, Array, model_for, named

SIX = np.array([-5.3, -5.0, -4.7, 5.05, 4.7, 5.2])


def clusters(y: Array = SIX, **kwargs) -> pr.Model:
    settings = {
        "likelihood": pr.StudentT(nu=2.0),
        "aux": {"sigma": 0.5},
        "prior": {"Intercept": pr.Normal(10.0)},
    }
    return pr.Model.from_formula("y ~ 1", {"y": y}, **settings | kwargs)


def two_lines() -> pr.Model:
    """Rows about y = 1 + 2 x, and as many about y = 1 - 2 x."""
    i = np.arange(24)
    x = np.linspace(-2.0, 2.0, 24)
    y = 1.0 + np.where(i % 2, 2.0, -2.0) * x + 0.1 * np.sin(7.0 * i)
    return pr.Model.from_formula(
        "y ~ x", {"x": x, "y": y}, likelihood=pr.StudentT(nu=1.0), aux={"sigma": 0.2}
    )


MODELS = {
    "maximum likelihood": clusters(prior=pr.Flat()),
    "posterior mode": clusters(),
    "lower mode first": clusters(-SIX),
    "unknown sigma": clusters(
        aux={"sigma": pr.priors.LogNormal(0.3, location=np.log(0.5))}
    ),
    "heavy prior": clusters(
        np.array([4.8, 5.0, 5.3]),
        likelihood="gaussian",
        prior={"Intercept": pr.priors.StudentT(0.05, nu=1.0)},
        aux={"sigma": 1.8},
    ),
    "two lines": two_lines(),
}


def highest_on_a_grid(model: pr.Model) -> float:
    """The largest log density over (beta, log sigma)."""
    first, last = np.linspace(-8.0, 8.0, 801), np.linspace(-4.0, 4.0, 201)
    parts = [first] if model.shape[0] == 1 else [np.linspace(0.5, 1.5, 81), last]
    parts += [np.linspace(-4.0, 2.0, 121)] if model.unknown else []
    point = np.stack(np.meshgrid(*parts, indexing="ij"), -1).reshape(-1, len(parts))
    p = model.shape[0]
    aux = {"sigma": np.exp(point[:, p])} if model.unknown else {}
    return float(
        (model.log_posterior(point[:, :p, None], **aux) + point[:, p:].sum(1)).max()
    )


@pytest.mark.parametrize("name", MODELS)
def test_the_mode_is_the_highest(name):
    model = MODELS[name]
    fit = pr.fit(model, seed=1)
    aux = fit.solution.aux
    reached = float(model.log_posterior(fit.solution.beta, **aux)) + float(
        np.log(list(aux.values())).sum()
    )
    assert reached >= highest_on_a_grid(model) - 1e-9


def test_a_note_names_the_other_mode():
    note = next(n for n in pr.fit(clusters()).essential_notes if "local maxima" in n)
    assert "Intercept = -4.927" in note


def test_a_start_is_a_choice_of_the_mode():
    fit = pr.fit(clusters(), Newton(start=[[-5.0]]))
    assert fit.coef.item() == pytest.approx(-4.9267, abs=1e-4)
    assert not any("local maxima" in n for n in fit.essential_notes)


def test_replicates_of_a_bootstrap_stay_near_the_estimate():
    calls = []
    find, peaks.find_mode = (
        peaks.find_mode,
        lambda *a, **k: calls.append(1) or find(*a, **k),
    )
    try:
        pr.fit(clusters(prior=pr.Flat()), Bootstrap("newton", reps=20), seed=1)
    finally:
        peaks.find_mode = find
    assert len(calls) <= 64  # those of the estimate alone, none of a replicate


def test_laplace_approximates_the_mode_with_most_probability_and_reports_the_other():
    with pytest.warns(pr.ProbregWarning, match="posterior"):
        fit = pr.fit(clusters(), "laplace", seed=1)
    assert fit.solution.status is Status.ONE_OF_SEVERAL
    assert "Intercept = -4.927" in fit.solution.detail
    assert fit.coef.item() == pytest.approx(4.9237, abs=1e-4)
    with pytest.raises(pr.NotConverged):
        pr.fit(clusters(), "laplace", seed=1, strict=True)


def test_a_mode_without_probability_does_not_change_the_status_of_laplace():
    y = np.r_[np.tile(SIX[:3], 8), SIX[3:]]
    assert pr.fit(clusters(y), "laplace", seed=1).solution.status is Status.CONVERGED


@pytest.mark.parametrize(
    "name",
    [
        "posterior mode",
        pytest.param("unknown sigma", marks=pytest.mark.slow),
        pytest.param("two lines", marks=pytest.mark.slow),
    ],
)
def test_chains_start_in_every_mode(name):
    model = MODELS[name]
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # of chains that do not agree
        fit = pr.fit(model, "nuts", seed=1)
    beta = fit.solution.posterior["beta"][..., -1, 0]
    assert (beta < -1.0).any()
    assert (beta > 1.0).any()
    assert fit.solution.status is Status.UNMIXED
    assert any("2 modes" in n for n in fit.essential_notes)


@pytest.mark.parametrize("likelihood", LIKELIHOOD_CASES, ids=named)
def test_a_concave_log_posterior_is_searched_once(likelihood, monkeypatch):
    if not likelihood.concave:
        return
    monkeypatch.setattr(peaks, "add_peaks", None)
    monkeypatch.setattr(peaks, "_starting_points", None)
    model = model_for(likelihood, pr.Normal(1.0))
    if Newton().obstacle(model) is None:
        Newton().solve(model, np.random.default_rng(0))
