"""What is said of fits with effects by group, on data that would make it false."""

import numpy as np
import pandas as pd
import pytest

import probreg as pr
from probreg.assess.before.condition import ConditionCheck
from probreg.assess.before.vif import VifCheck
from probreg.errors import DataError, Incompatible
from probreg.inference import Status
from probreg.show.plot.style import estimate_word
from probreg.show.report.answer import answer
from probreg.show.report.facts import _mode

SLEEP = pr.load_dataset("sleepstudy")
FORMULA = "reaction ~ days + (days | subject)"


@pytest.fixture(scope="module")
def fits():
    model = pr.Model.from_formula(FORMULA, SLEEP)
    return {c: pr.fit(model, pr.Evidence(criterion=c)) for c in ("ML", "REML")}


def test_estimates_are_called_by_their_criterion(fits):
    assert [estimate_word(f) for f in fits.values()] == ["ML estimate", "REML estimate"]
    assert [_mode(f) for f in fits.values()] == [
        "maximum likelihood estimate",
        "restricted maximum likelihood (REML) estimate",
    ]


def test_names_of_groups_have_no_effect_to_answer(fits):
    found = answer(fits["REML"], None, data=None, prob=0.95)
    assert len(found.effects) == 1
    assert not found.remarks


def test_vif_and_condition_are_of_the_other_columns(fits):
    model = fits["REML"].stated_model
    assert VifCheck().run(model)[0].sentence.endswith("a single term shares nothing")
    assert "a single column beside effects by group" in ConditionCheck().run(model)[0].sentence
    near = SLEEP.assign(twin=SLEEP["days"] + 0.05 * np.sin(np.arange(len(SLEEP))))
    two = pr.Model.from_formula("reaction ~ days + twin + (days | subject)", near)
    assert "days, twin" in VifCheck().run(two)[0].sentence.replace("twin, days", "days, twin")
    assert "condition index" in ConditionCheck().run(two)[0].sentence


def test_degrees_of_freedom_and_methods_are_refused_in_true_words(fits):
    with pytest.raises(Incompatible, match="each effect by group counts by less than one"):
        _ = fits["ML"].df_resid
    with pytest.raises(Incompatible, match="These can fit this model: with its defaults, evidence"):
        pr.fit(fits["ML"].stated_model, pr.Evidence(criterion="ML", points=9))


def test_new_groups_need_no_column(fits):
    fit, rows = fits["REML"], SLEEP.head(4)
    alone = fit.predict(rows[["days"]], groups="new")
    assert alone.attrs["groups"].endswith("without subject each row is of a group of its own")
    named = fit.predict(rows, groups="new")
    np.testing.assert_allclose(alone["new_upper"], named["new_upper"])
    assert "of its own" not in named.attrs["groups"]
    with pytest.raises(DataError, match="subject"):
        fit.predict(rows[["days"]], groups="known")


def test_an_offset_in_a_formula_names_the_argument():
    with pytest.raises(DataError, match="an offset is given beside the formula, such as offset="):
        pr.Model.from_formula("reaction ~ offset(days) + (1 | subject)", SLEEP)


def test_a_posterior_of_many_effects_is_integrated_and_says_that_no_weights_vouch_for_it(monkeypatch):
    monkeypatch.setattr("probreg.inference.exact.node_draws._JOINT", 200)
    rng = np.random.default_rng(0)
    g = np.repeat(np.arange(210), 4)
    y = rng.poisson(np.exp(0.5 + 0.6 * rng.normal(size=210)[g]))
    data = pd.DataFrame({"y": y, "g": [f"g{i}" for i in g]})
    prior = {"1 | g": pr.Covariance(sd=pr.HalfNormal(1.0))}
    model = pr.Model.from_formula("y ~ 1 + (1 | g)", data, likelihood="poisson", prior=prior)
    with pytest.warns(pr.errors.ProbregWarning, match="no weights vouch"):
        fit = pr.fit(model, "posterior", seed=1)
    assert fit.method.name == "integrate"
    assert fit.solution.status is Status.UNWEIGHED
    assert any("posterior took integrate" in note for note in fit.notes)
    # 0.6 was drawn; its posterior sd at 210 groups is some 0.04
    assert abs(fit.summary().loc["sd(Intercept | g)", "mean"] - 0.6) < 0.16


def test_a_fit_says_that_its_standard_deviations_cannot_be_told_from_the_noise():
    rng = np.random.default_rng(1)
    data = pd.DataFrame({"y": rng.normal(size=40), "g": [f"g{i}" for i in range(40)]})
    model = pr.Model.from_formula("y ~ 1 + (1 | g)", data, prior={"1 | g": pr.Covariance()})
    told = "40 rows and 40 effects by group, so that sd(Intercept | g) cannot be told from sigma"
    try:
        notes = pr.fit(model, "evidence").notes
    except Incompatible as refused:  # where sigma falls to zero
        notes = [str(refused)]
    assert any(told in note or "sigma falls to 0" in note for note in notes)
    enough = pr.fit(pr.Model.from_formula(FORMULA, SLEEP))
    assert not any("cannot be told" in note for note in enough.notes)


def test_the_band_of_new_observations_is_of_a_new_group(fits):
    ax = np.ravel(pr.plot.fitted(fits["REML"]).axes)[0]
    labels = ax.get_legend_handles_labels()[1]
    assert "95 % of new observations, new group" in labels
    (band,) = [c for c in ax.collections if c.get_label().startswith("95 % of new")]
    low, high = (f(SLEEP["reaction"][SLEEP["days"] > 7.5]) for f in (np.min, np.max))
    ends = band.get_paths()[0].vertices
    at = ends[ends[:, 0] > 7.5][:, 1]
    # sds of 25 and 5.9 a day beside sigma 26 make it some 260 wide at the last days, and the typical group's some 110
    assert at.max() - at.min() > 200
    assert low < high


def test_sampling_weights_beside_groups_name_no_method_that_refuses_them_too():
    weights = pr.weights.sampling(np.linspace(1.0, 2.0, len(SLEEP)))
    with pytest.raises(Incompatible, match="sampling weights make a pseudo-likelihood") as refused:
        pr.fit(pr.Model.from_formula(FORMULA, SLEEP, weights=weights))
    assert "use evidence" not in str(refused.value)


def test_a_standard_deviation_that_a_prior_holds_is_printed_as_held():
    rng = np.random.default_rng(3)
    g = np.repeat(np.arange(8), 6)
    table = {"y": rng.normal(size=48) + rng.normal(size=8)[g], "x": rng.normal(size=48), "g": g}
    model = pr.Model.from_formula("y ~ x + (x | g)", table)
    held = pr.fit(model.with_prior({"(x | g)": pr.Normal(1.5)}))
    reml = pr.fit(model)
    both = pr.compare({"REML": reml, "held": held})
    names = ["sd(Intercept | g)", "sd(x | g)", "cor(Intercept, x | g)"]
    assert both.data["estimate"].sel(fit="held", param=names).values.tolist() == [1.5, 1.5, 0.0]
    assert "not in it" not in repr(both)
    assert "sd(x | g) 1.5, held" in repr(held)
    assert "1.500 (held)" in repr(pr.table({"REML": reml, "held": held}))
    part = pr.fit(model.with_prior({"(x | g)": pr.Covariance({"Intercept": 2.0})}))
    assert "sd(Intercept | g) 2, held" in repr(part)
    assert "sd(x | g) 1.5" not in repr(part)
