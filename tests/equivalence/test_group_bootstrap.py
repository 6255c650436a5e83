"""The bootstrap of models with groups: whole groups, or effects drawn anew."""

import numpy as np
import pytest

import probreg as pr
from probreg.errors import Incompatible
from probreg.inference.uncertainty.bootstrap import Source, resample_groups
from probreg.inference.uncertainty.intervals.arithmetic import percentile

SLEEP = pr.load_dataset("sleepstudy")


NAMES = (
    "sd(Intercept | subject)",
    "sd(days | subject)",
    "cor(Intercept, days | subject)",
    "sigma",
)


@pytest.mark.slow
@pytest.mark.parametrize("kind", ["pairs", "parametric"])
def test_replicates_of_scales_spread_as_far_as_the_profile(kind):
    model, ml = (
        pr.Model.from_formula("reaction ~ days + (days || subject)", SLEEP),
        pr.Evidence(criterion="ML"),
    )
    fit, plain = pr.fit(model, pr.Bootstrap(ml, kind=kind, reps=40)), pr.fit(model, ml)
    # 40 replicates tell a standard error within some 11 %, resampling 18 groups within sqrt(17/18)
    assert (
        0.64
        < fit.std_error.sel(coef="days").item()
        / plain.std_error.sel(coef="days").item()
        < 1.36
    )
    # the noise of groups differs, which pairs see in sigma
    for name in (*NAMES[:2], *NAMES[3:][: kind == "parametric"]):
        lower, upper = plain.aux_interval(name)
        draws = fit.solution.replicates[name]
        assert 0.64 < 2 * 1.96 * draws.std(ddof=1) / (upper - lower) < 1.36
        assert draws.min() < plain.solution.effect_scales.values[name] < draws.max()


@pytest.mark.slow
def test_every_replicate_finds_its_own_scales(tmp_path):
    model = pr.Model.from_formula("reaction ~ days + (days | subject)", SLEEP)
    fit = pr.fit(model, pr.Bootstrap("evidence", kind="parametric", reps=19))
    found = fit.solution.replicates
    for name in NAMES:
        kept = np.sort(found[name][~np.isnan(found[name])])
        assert len(np.unique(kept)) > 10
        np.testing.assert_allclose(
            fit.aux_interval(name, 0.9), percentile(found[name], 0.9)
        )
        assert fit.solution.scalars[name][1] == pytest.approx(kept.std(ddof=1))
        assert np.isfinite(fit.summary().loc[name, ["lower", "upper"]]).all()
    assert fit.solution.effect_scales.values["sd(days | subject)"] == pytest.approx(
        5.922, abs=1e-3
    )  # the estimate stays: lme4
    assert np.isnan(fit.aux_interval("sigma", kind="bca")).all()
    assert not any("as known" in note for note in map(str, fit.notes))
    assert np.isfinite(fit.predict(SLEEP.head(3))["mean_upper"]).all()
    again = pr.load_fit(fit.save(tmp_path / "fit.nc"))
    assert again.aux_interval(NAMES[2]) == fit.aux_interval(NAMES[2])


@pytest.mark.slow
def test_a_correlation_that_is_not_defined_in_a_replicate_is_counted():
    rng, g = np.random.default_rng(1), np.repeat(np.arange(8), 6)
    x = rng.normal(size=48)
    data = {
        "y": rng.normal(size=8)[g]
        + 0.1 * rng.normal(size=8)[g] * x
        + rng.normal(size=48),
        "x": x,
        "g": g.astype(str),
    }
    fit = pr.fit(
        pr.Model.from_formula("y ~ x + (x | g)", data),
        pr.Bootstrap("evidence", reps=12),
    )
    lost = int(np.isnan(fit.solution.replicates["cor(Intercept, x | g)"]).sum())
    assert 0 < lost < 12
    assert any(
        f"cor(Intercept, x | g) is undefined in {lost} of 12 replicates" in note
        for note in map(str, fit.solution.notes)
    )


def test_what_keeps_the_effects_is_refused():
    model = pr.Model.from_formula("reaction ~ days + (1 | subject)", SLEEP)
    with pytest.raises(Incompatible, match="effects of groups"):
        pr.fit(model, pr.Bootstrap("evidence", kind="residual", reps=50))
    crossed = pr.Model.from_formula("reaction ~ 1 + (1 | subject) + (1 | days)", SLEEP)
    with pytest.raises(Incompatible, match="single grouping"):
        pr.fit(crossed, pr.Bootstrap("evidence", reps=50))


def test_the_tree_has_replicates_of_the_reported_coefficients() -> None:
    model = pr.Model.from_formula("reaction ~ days + (1 | subject)", SLEEP)
    fit = pr.fit(model, pr.Bootstrap("evidence", reps=3))
    found, kept = fit.solution.replicates, fit.tree["sampling"]
    np.testing.assert_array_equal(kept["days"][0], found["coef"][:, 1, 0])
    for name in NAMES[0], "sigma":
        np.testing.assert_array_equal(kept[name][0], found[name])


class EveryGroupOnce:
    """In place of a generator of random numbers: the groups in their order."""

    def integers(self, low: int, high: int, size: int) -> np.ndarray:
        return np.arange(low, high)


@pytest.mark.parametrize(
    "formulas",
    [
        "reaction ~ days + (days || subject)",
        {"reaction": "reaction ~ days + (1 | subject)", "log sigma": "~ days + (1 | subject)"},
    ],
    ids=["mean", "scale"],
)  # fmt: skip
def test_every_group_once_is_the_model_itself(formulas) -> None:
    model = pr.Model.from_formula(formulas, SLEEP)
    drawn = resample_groups(Source(model, None), EveryGroupOnce())
    np.testing.assert_array_equal(drawn.design.X, model.design.X)
    assert drawn.shape == model.shape
    np.testing.assert_array_equal(drawn.design.observed, model.design.observed)


def test_a_bootstrap_of_groups_alone_has_a_summary() -> None:
    model = pr.Model.from_formula("reaction ~ 0 + (1 | subject)", SLEEP)
    summary = pr.fit(model, pr.Bootstrap("evidence", reps=2)).summary()
    assert summary.index.tolist() == [NAMES[0], "sigma"]
