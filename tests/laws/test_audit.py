"""The audit: distances and verdicts by hand, noise that is no difference, refusals in the table, and one model in full."""

from dataclasses import replace

import numpy as np
import pytest

import probreg as pr
from probreg.assess.audit import Audit, audit
from probreg.assess.audit.judgement import Agreement, agreement, moment_distance
from probreg.assess.audit.rungs import PosteriorMoments, methods, parameter_names_of, run_rung
from probreg.inference import Status
from probreg.likelihoods import SmoothLikelihood
from probreg.priors import Normal

from .cases import LIKELIHOOD_CASES, model_for, named, proper_aux
from .texts import unfolded

MODEL = model_for(pr.Poisson(), Normal(1.0), q=1)
ZERO = np.zeros(2)


def moments(mean=(0.0, 0.0), sd=(1.0, 2.0), error=0.0, sd_error=0.0):
    sd = np.array(sd)
    return PosteriorMoments(np.array(mean), sd, error * sd, ZERO + sd_error)


def rung(method, status=Status.SAMPLED, **more):
    """A rung as it would come out of a run, its numbers by hand."""
    made = run_rung(MODEL, pr.LaplaceApproximation(draws=20), 0)
    solution = replace(made.fit.solution, status=status)
    settings = {"moments": moments(), "seconds": 2.0, "ess": 1000.0, "k_hat": np.nan} | more
    return replace(
        made, method=method, status=status.value, fit=replace(made.fit, method=method, solution=solution), **settings
    )


def refused(method, why):
    return replace(rung(method), fit=None, moments=None, status=why)


def audited(importance=None, nuts=None, exact=None):
    given = {
        "conjugate": exact,
        "importance": importance or rung(pr.inference.Importance(), seconds=0.01, k_hat=0.1),
        "nuts": nuts or rung(pr.NUTS()),
    }
    return Audit(MODEL, {k: v for k, v in given.items() if v is not None})


def off(mean, error=0.001, **more):
    settings = {"seconds": 0.01, "k_hat": 0.1, "moments": moments(mean, error=error)} | more
    return rung(pr.inference.Importance(), **settings)


# ---- distances -----------------------------------------------------------------------------------------------------


def test_a_distance_is_in_units_of_the_reference():
    found = moment_distance(moments((0.5, -1.0), (1.5, 1.0), 0.03, 0.01), moments((0.0, 0.0), (1.0, 2.0), 0.04, 0.02))
    np.testing.assert_allclose(found.difference, [0.5, -0.5])
    np.testing.assert_allclose(found.difference_error, [np.hypot(0.045, 0.04), np.hypot(0.03, 0.08) / 2.0])
    np.testing.assert_allclose(found.ratio, [1.5, 0.5])
    np.testing.assert_allclose(found.ratio_error, np.hypot(0.01, 0.02))


@pytest.mark.parametrize(
    ("mean", "sd", "error", "stands"),
    [
        (0.09, 1.0, 0.001, Agreement.AGREES),  # sure to be there, too small to matter
        (0.09, 1.0, 0.5, Agreement.UNCLEAR),  # near, and the run too short to say so
        (0.3, 1.0, 0.2, Agreement.UNCLEAR),
        (0.3, 1.0, 0.02, Agreement.DIFFERS),
        (-0.3, 1.0, 0.02, Agreement.DIFFERS),
        (0.0, 1.3, 0.02, Agreement.DIFFERS),
        (0.0, 0.8, 0.02, Agreement.DIFFERS),
        (0.0, 1.2, 0.1, Agreement.UNCLEAR),
    ],
)
def test_a_shift_within_noise_is_no_difference(mean, sd, error, stands):
    here = moments((mean, 0.0), (sd, 2.0), error, error)
    assert agreement(moment_distance(here, moments())) is stands


def test_noise_alone_is_called_a_difference_once_in_a_hundred(rng):
    """Of forty parameters at once, each with the errors that it states."""
    noise, calls, one = 0.2, 0, np.ones(40)
    for _ in range(1500):
        found = PosteriorMoments(
            noise * rng.standard_normal(40), np.exp(noise * rng.standard_normal(40)), noise * one, noise * one
        )
        calls += (
            agreement(moment_distance(found, PosteriorMoments(0 * one, one, 0 * one, 0 * one))) is Agreement.DIFFERS
        )
    assert 1 <= calls < 40  # 15 expected


# ---- verdicts ------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("found", "needed", "words"),
    [
        (audited(), False, "NUTS was not needed: importance agrees to 0 SD .* at k-hat 0.10, with 200 times the effective"),
        (audited(off((0.05, 0.0))), False, r"importance agrees to 0.05 SD \(Monte Carlo error 0.001\)"),
        (audited(off((0.5, 0.0))), True, r"NUTS was needed: importance differs by 0.5 SD .* another mode"),
        (audited(off((0.5, 0.0), 0.4)), None, "open: importance is off, within noise, by 0.5 SD .* raise draws"),
        (
            audited(rung(pr.inference.Importance(), Status.UNSETTLED, k_hat=0.93)),
            True,
            r"NUTS was needed: importance sampling will not do \(k-hat 0.93\)",
        ),
        (audited(refused(pr.inference.Importance(), "no mode")), True, r"NUTS was needed: .* \(no mode\)"),
        (audited(nuts=rung(pr.NUTS(), Status.UNMIXED)), False, r"not needed: importance agrees .* \(nuts: sampled, but"),
        (audited(off((0.5, 0.0)), rung(pr.NUTS(), Status.UNMIXED)), None, r"open: importance differs .* \(nuts: sampled, but"),
        (audited(nuts=refused(pr.NUTS(), "improper")), None, r"nothing to compare with \(nuts: improper\); .* k-hat 0.10"),
        (
            audited(refused(pr.inference.Importance(), "no mode"), refused(pr.NUTS(), "improper")),
            None,
            "No rung gave a posterior to rely on",
        ),
        (audited(exact=rung(pr.Conjugate())), False, "NUTS was not needed: conjugate is exact; importance agrees to 0 SD"),
    ],
)  # fmt: skip
def test_the_verdict_follows_from_the_numbers(found, needed, words):
    import re

    assert found.needed is needed
    assert re.search(words, found.verdict)
    assert found.verdict in unfolded(found)


def test_a_refused_rung_is_shown_and_called_refused():
    shown = audited(rung(pr.inference.Importance(), Status.UNSETTLED, k_hat=0.93, moments=moments((0.5, 0.0))))
    assert shown.table.loc["importance", ["agreement", "difference", "k_hat"]].tolist() == ["refused", 0.5, 0.93]
    gone = audited(refused(pr.inference.Importance(), "no mode"))
    assert gone.table.loc["importance", ["agreement", "status"]].tolist() == ["refused", "no mode"]


def test_the_reference_is_exact_where_it_can_be():
    assert audited().reference == "nuts"
    assert audited(exact=rung(pr.Conjugate())).reference == "conjugate"
    assert audited(nuts=refused(pr.NUTS(), "improper")).reference is None
    lone = audited(nuts=refused(pr.NUTS(), "improper"))
    assert np.isnan(lone.table["difference"]).all()
    assert len(lone.parameters) == 0


# ---- the table -----------------------------------------------------------------------------------------------------


def test_the_table_has_a_row_per_rung_unrounded():
    found = audited(off((0.0, -0.5)))
    row = found.table.loc["importance"]
    assert row["difference"] == 0.25
    assert row["param"] == "x1"
    assert row["ess_per_second"] == pytest.approx(1e5)
    assert (row["sd_low"], row["sd_high"]) == (1.0, 1.0)
    assert row["agreement"] == "differs"
    assert found.table.loc["nuts", "agreement"] == "reference"
    assert np.isnan(found.table.loc["nuts", "difference"])
    assert found.parameters.loc[("importance", "x1"), "difference"] == -0.25
    assert found.to_pandas() is found.table


def test_what_is_given_is_escaped_in_html():
    model = pr.Model.from_arrays(
        [[1.0], [2.0], [4.0]], [1, 2, 3], columns=["<b>"], likelihood="poisson", prior=Normal(1.0)
    )
    found = Audit(model, {**audited(off((0.0, 0.3))).rungs, "nuts": refused(pr.NUTS(), "<i>no</i>")})
    said = found._repr_html_()
    assert "<b>" not in said.replace("<b></b>", "")
    assert "<i>" not in said
    assert "&lt;i&gt;no" in said


@pytest.mark.parametrize("likelihood", [v for v in LIKELIHOOD_CASES if isinstance(v, SmoothLikelihood)], ids=named)
def test_rungs_that_do_not_sample_a_chain(likelihood):
    """Every rung but NUTS: its numbers are those of its fit, parameter by parameter."""
    model = model_for(likelihood, Normal(1.0), aux=proper_aux(likelihood))
    for method in methods(model, 200, 2)[:-1]:
        found = run_rung(model, method, 3)
        alone = pr.fit(model, method, seed=3)
        k = len(parameter_names_of(model)) - len(model.unknown)
        np.testing.assert_array_equal(found.moments.mean[:k], alone.coef.values.ravel())
        np.testing.assert_array_equal(found.moments.sd[:k], alone.std_error.values.ravel())
        assert found.moments.mean[k:].tolist() == [alone.aux[a] for a in model.unknown]
        assert parameter_names_of(model)[:k] == alone.parameter_names
        assert 50 < found.ess <= 400
        assert (found.moments.mean_error > 0).any() == (method.name == "importance")
        assert np.isfinite(found.k_hat) == (method.name in ("laplace", "importance"))


def test_rungs_are_those_that_apply():
    exact = model_for(pr.Gaussian(), pr.Flat())
    assert [k.name for k in methods(exact, 10, 2)] == ["conjugate", "laplace", "importance", "nuts"]
    half = model_for(pr.Gaussian(), Normal(1.0))
    assert [k.name for k in methods(half, 10, 2)] == ["quadrature", "laplace", "importance", "nuts"]
    assert [k.name for k in methods(MODEL, 10, 2)] == ["laplace", "importance", "nuts"]
    kinked = run_rung(MODEL.with_prior(pr.Laplace(1.0)), methods(MODEL, 10, 2)[1], 0)
    assert kinked.fit is None
    assert kinked.status.startswith("importance needs flat or normal")
    assert "These can fit" not in kinked.status


def test_what_is_no_model_or_too_few_is_refused():
    with pytest.raises(pr.Incompatible, match="model is a Model, got"):
        audit(3)
    with pytest.raises(pr.DataError, match="draws is a whole number of at least 2"):
        audit(MODEL, draws=1)
    with pytest.raises(pr.DataError, match="chains is a whole number of at least 2"):
        audit(MODEL, chains=1)


# ---- one model in full ---------------------------------------------------------------------------------------------


def test_a_regular_posterior_needs_no_sampler():
    found = audit(MODEL, draws=500, seed=1)
    assert list(found.table.index) == ["laplace", "importance", "nuts"]
    assert found.needed is False
    assert found.verdict.startswith("NUTS was not needed: importance agrees to ")
    assert set(found.fits) == set(found.rungs)
    nuts = found.rungs["nuts"]
    table = nuts.fit.summary()
    assert nuts.ess == pytest.approx(table[["ess_bulk", "ess_tail"]].min(axis=None))
    # the error of a mean of a chain, sd / sqrt(ESS) but for the ranks that bulk ESS takes
    expected = table["sd"] / np.sqrt(table["ess_bulk"])
    np.testing.assert_allclose(nuts.moments.mean_error, expected, rtol=0.25)


@pytest.mark.slow
def test_separated_classes_under_a_long_tail_need_one():
    x = np.arange(-9.0, 10.0, 2.0)
    prior = {"Intercept": Normal(1.0), "x": pr.priors.Cauchy(2.5)}
    found = audit(pr.Model.from_arrays(x, x > 0, columns=["x"], likelihood="bernoulli", prior=prior), draws=400)
    assert found.needed is not False
    assert "importance sampling will not do (k-hat" in found.verdict
    assert found.table.loc["importance", "difference"] > 0.1  # run all the same, so that it is seen how far off
