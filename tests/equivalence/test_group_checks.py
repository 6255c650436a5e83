"""Checks before and diagnostics after a fit with effects that vary by a group."""

# ruff: noqa: F401, F811  fixtures of another file

from collections import Counter

import numpy as np
import pytest

import probreg as pr
from probreg.diagnostics.after.group_effects import GroupEffectsDiagnostic
from probreg.diagnostics.after.predictive import LeaveOneOutDiagnostic
from probreg.diagnostics.after.residual_tests import HeteroscedasticityDiagnostic
from probreg.diagnostics.before import Verdict
from probreg.diagnostics.before.sample import GroupsCheck
from tests.equivalence.test_group_prediction import DATA, chance, mode, posterior

TESTS = (
    "autocorrelation",
    "normality",
    "group_effects",
    "heteroscedasticity",
    "outliers",
    "reset",
)


def told(formula, data=DATA, **more):
    return GroupsCheck().run(pr.Model.from_formula(formula, data, **more))


@pytest.mark.parametrize("formula", ["y ~ x + g + (1 | g)", "y ~ x * g + (0 + x | g)"])
def test_effects_that_the_fixed_effects_contain(formula, tmp_path):
    """Restricted likelihood does not depend on their standard deviation; the largest likelihood is at 0."""
    small = DATA[DATA["g"] < "g05"]
    model = pr.Model.from_formula(formula, small)
    with pytest.raises(pr.Incompatible, match="fixed effects already contain"):
        pr.fit(model)
    assert "fixed effects already contain" in told(formula, small)[0].sentence
    (sd,) = pr.fit(model, pr.Evidence(criterion="ML")).hyper.values()
    assert sd == 0.0
    small.to_csv(tmp_path / "rows.csv", index=False)
    with pytest.raises(pr.Incompatible, match="fixed effects already contain"):
        pr.fit(pr.Model.from_files(formula, tmp_path / "rows.csv"))


def test_groups_that_say_little_are_told():
    assert told("y ~ x + (x || g)")[0].verdict.name == "OK"
    own = DATA.assign(
        row=[f"r{i}" for i in range(len(DATA))],
        big=np.where(DATA["g"] < "g06", "a", "b"),
    )
    assert "not identified" in told("y ~ x + (1 | row)", own)[0].sentence
    assert told("y ~ x + (1 | row)", own, aux={"sigma": 0.5})[0].verdict.name == "OK"
    assert (
        "over 2 groups is poorly estimated"
        in told("y ~ x + (1 | big)", own)[0].sentence
    )
    proper = {"1 | big": pr.priors.Covariance(sd=pr.HalfNormal(1.0))}
    assert told("y ~ x + (1 | big)", own, prior=proper)[0].verdict.name == "OK"
    level = own.assign(z=own["g"].str[1:].astype(float))
    assert "z does not vary within g" in told("y ~ z + (z || g)", level)[0].sentence
    assert not told("y ~ x")[0].applies


@pytest.mark.parametrize(
    "formula", ["y ~ x + (x || g)", "y ~ x + (x | g)", "y ~ x + (1 | g)"]
)
def test_columns_of_groups_raise_no_alarm(formula):
    found = pr.check(pr.Model.from_formula(formula, DATA))
    assert found.worst.name == "OK", found
    chances = pr.check(
        pr.Model.from_formula("happened ~ x + (1 | g)", DATA, likelihood="bernoulli")
    )
    assert chances.worst.name == "OK", chances


@pytest.mark.slow
def test_diagnoses_are_of_groups_and_not_of_columns(mode, posterior, chance):
    for fit in (mode, posterior, chance):
        text = repr(pr.diagnose(fit))
        assert "[g0" not in text
        names = {f.check for f in pr.diagnose(fit, skipped=True, verbose=True)}
        assert "group_effects" in names


def test_a_far_group_is_found():
    data = DATA.copy()
    rng = np.random.default_rng(2)
    data["y"] = (
        data["x"] + np.repeat(rng.normal(size=12) * 0.3, 6) + rng.normal(size=72) * 0.5
    )
    data.loc[data["g"] == "g04", "y"] += 25.0
    said = repr(pr.diagnose(pr.fit(pr.Model.from_formula("y ~ x + (1 | g)", data))))
    assert "g04" in said


def test_the_spread_is_tested_over_flat_columns():
    """Breusch-Pagan and White count flat columns: x and z, then their three products beside them."""
    z = np.random.default_rng(0).normal(size=len(DATA))
    fit = pr.fit(pr.Model.from_formula("y ~ x + z + (x | g)", DATA.assign(z=z)))
    said = [f.sentence for f in HeteroscedasticityDiagnostic().run(fit)]
    assert "Breusch-Pagan (Koenker) chi2(2)" in said[0]
    assert "White chi2(5)" in said[1]
    bare = pr.fit(pr.Model.from_formula("y ~ 1 + (1 | g)", DATA))
    (found,) = HeteroscedasticityDiagnostic().run(bare)
    assert found.sentence == "not applicable: no column besides the intercept"


@pytest.mark.slow
def test_right_models_of_groups_raise_no_alarm_above_its_level():
    """12 data sets of the model at the level 0.01: more than 2 notes of one diagnostic have probability 2e-4."""
    notes: Counter[str] = Counter()
    for seed in range(12):
        rng = np.random.default_rng(seed)
        number = np.repeat(np.arange(15), 6)
        x, z = rng.normal(size=(2, 90))
        b = rng.normal(size=(15, 2))
        y = (
            1.0
            + b[number, 0]
            + (0.5 + 0.7 * b[number, 1]) * x
            + 0.8 * rng.normal(size=90)
        )
        data = {"y": y, "x": x, "z": z, "g": [f"g{i}" for i in number]}
        found = pr.diagnose(pr.fit(pr.Model.from_formula("y ~ x + z + (x | g)", data)))
        notes.update(
            {f.check for f in found if f.verdict > Verdict.OK and f.check in TESTS}
        )
    assert max(notes.values(), default=0) <= 2, notes


def test_a_group_of_one_row_is_no_far_row():
    model = pr.Model.from_formula(
        "y ~ x + (1 | g)",
        {
            "y": [1.0, 2.0, 1.5, 2.5, 1.0, 3.0, 2.0],
            "x": [0.0, 1.0] * 3 + [0.5],
            "g": list("aabbccd"),
        },
    )
    found = next(f for f in pr.check(model).items if f.check == "design_leverage")
    assert found.verdict.name == "OK"
    everywhere = pr.Model.from_formula(
        "y ~ 0 + (1 | g)", {"y": [1.0, 2.0, 1.5, 2.5], "g": list("aabb")}
    )
    assert pr.check(everywhere).items


def test_the_standardised_effect_of_balanced_groups_is_the_standardised_mean():
    # REML of balanced groups has tau^2 + sigma^2 / n = Var(means), and b_g is a multiple of the centred mean
    rng = np.random.default_rng(1)
    g = np.repeat(np.arange(20), 5)
    effects = rng.normal(size=20)
    effects[3] = 9.0
    y = effects[g] + rng.normal(size=100)
    table = {"y": y, "g": [f"{label:02d}" for label in g]}
    found = pr.diagnose(pr.fit(pr.Model.from_formula("y ~ 1 + (1 | g)", table)))
    means = y.reshape(20, 5).mean(1)
    z = (means[3] - means.mean()) / np.sqrt(means.var(ddof=1) * (1.0 - 1.0 / 20))
    (outlier,) = found["group_effects"].items
    # the scales are found by search
    np.testing.assert_allclose(outlier.statistic, z, rtol=1e-5)


def test_effects_without_variance_are_not_tested():
    """Of effects with a standard deviation of zero none is tested; otherwise the tested effects are named."""
    rng = np.random.default_rng(0)
    alternating = np.tile([-1.0, 1.0], 36) + 0.1 * rng.normal(size=72)
    same = alternating.reshape(12, 6)
    level = DATA.assign(y=(same - same.mean(1, keepdims=True)).ravel())
    verdicts = {}
    for name, table in {"level": level, "groups": DATA}.items():
        fit = pr.fit(pr.Model.from_formula("y ~ 1 + (1 | g)", table))
        (verdicts[name],) = GroupEffectsDiagnostic().run(fit)
    assert not verdicts["level"].applies
    assert verdicts["groups"].applies
    assert verdicts["groups"].sentence.startswith("Intercept | g: ")


def test_leave_one_out_counts_every_parameter():
    """Two coefficients with twelve effects, their standard deviation and sigma."""
    prior = {"1 | g": pr.Covariance(pr.HalfNormal(1.0))}
    model = pr.Model.from_formula("y ~ x + (1 | g)", DATA, prior=prior)
    (found,) = LeaveOneOutDiagnostic().run(pr.fit(model, "posterior", seed=1))
    assert " of 16 parameters" in found.sentence
