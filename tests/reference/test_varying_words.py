"""What fits of varying effects print: edges, criteria under a prior, priors, and what is missing."""

import re
from types import SimpleNamespace
from typing import Any

import numpy as np
import pandas as pd
import pytest

import probreg as pr
from probreg.errors import DataError
from probreg.inference.uncertainty.found_scales import wald_on_free_scale


@pytest.fixture(scope="module")
def sleep():
    return pr.Model.from_formula(
        "reaction ~ days + (days | subject)", pr.load_dataset("sleepstudy")
    )


def grouped(seed, *, noise=1.0):
    rng = np.random.default_rng(seed)
    g, x = np.repeat(np.arange(6), 10), rng.normal(size=60)
    return pd.DataFrame({"y": noise * rng.normal(size=60), "x": x, "g": g.astype(str)})


def test_correlations_at_their_edge_are_those_of_the_root():
    rng = np.random.default_rng(3)
    g, f, b = (
        np.repeat(np.arange(12), 10),
        np.tile(list("abcab"), 24),
        rng.normal(size=12),
    )
    y = 2.0 * b[g] * (f != "a") + b[g] + rng.normal(size=120)
    fit = pr.fit(
        pr.Model.from_formula(
            "y ~ f + (f | g)", pd.DataFrame({"y": y, "f": f, "g": g.astype(str)})
        )
    )
    found = fit.solution.effect_scales
    root = found.stated.joint.blocks[-1].prior.root(found.theta[:-1])[0]
    S = root @ root.T
    R = S / np.sqrt(np.outer(np.diagonal(S), np.diagonal(S)))
    said = [v for name, v in found.values.items() if name.startswith("cor(")]
    assert said == pytest.approx([R[1, 0], R[2, 0], R[2, 1]], abs=1e-9)
    assert np.isfinite(said).all()
    assert max(said) > 1.0 - 1e-6
    assert "nan" not in str(fit)
    assert "(no interval: at its edge)" in str(fit)


def test_a_correlation_with_an_effect_that_vanished_is_not_defined():
    data = grouped(1)
    z = np.tile(np.r_[-np.ones(5), np.ones(5)], 6)
    means = data.assign(z=z).groupby(["g", "z"])["y"].transform("mean")
    # groups whose means and slopes are all alike: neither effect has a variance
    level = pd.DataFrame({"y": data["y"] - means + z, "z": z, "g": data["g"]})
    fit = pr.fit(pr.Model.from_formula("y ~ z + (z | g)", level))
    assert [
        fit.solution.effect_scales.values[f"sd({e} | g)"] for e in ("Intercept", "z")
    ] == [
        0.0,
        0.0,
    ]
    assert np.isnan(fit.solution.effect_scales.values["cor(Intercept, z | g)"])
    assert "cor(Intercept, z | g) not defined: a standard deviation is 0" in str(fit)
    assert "sd(z | g) 0 (no interval: at its edge)" in str(fit)
    assert "ICC 0 (" in str(fit)


@pytest.mark.parametrize("criterion", ["REML", "ML"])
def test_a_prior_of_scales_makes_a_posterior_mode_and_says_so(sleep, criterion):
    stated = sleep.with_prior(
        {"days | subject": pr.Covariance(sd=pr.HalfNormal(50.0), cor=pr.LKJ(2.0))}
    )
    text = str(pr.fit(stated, pr.Evidence(criterion=criterion)))
    assert f"posterior mode of the scales by evidence, which is not {criterion}" in text
    assert "REML criterion" not in text
    assert "AIC" not in text
    assert re.search(
        f"which the prior of the scales moves from {criterion}'s|that the prior of the scales moves from ML's",
        text,
    )


def test_the_criterion_is_the_name_of_the_method_and_no_prior_is_said(sleep):
    text = str(pr.fit(sleep))
    assert "\nREML, N = 180, 18 groups of subject; converged\n" in text
    assert "prior: scales of (days | subject) estimated, no prior" in text
    assert "local maximum" not in " ".join(map(str, pr.fit(sleep).solution.notes))


def test_a_normal_prior_of_known_scale_fixes_the_sd_of_effects(sleep):
    text = str(pr.fit(sleep.with_prior({"days | subject": pr.Normal(50.0)})))
    assert "Normal(50) on (days | subject), which fixes their sd" in text
    unknown = pr.Normal(pr.HalfNormal(50.0))
    text = " ".join(str(sleep.with_prior({"days | subject": unknown})).split())
    assert "Normal(HalfNormal(50)) on (days | subject)" in text
    assert "fixes" not in text


def test_the_prior_of_a_scale_is_none_of_effects(sleep):
    with pytest.raises(
        DataError, match=r"pr.Covariance\(sd=pr.priors.HalfNormal\(...\)\)"
    ) as caught:
        sleep.with_prior({"days | subject": pr.HalfNormal(50.0)})
    assert len(str(caught.value)) < 200


@pytest.mark.parametrize("rows", [False, True])
def test_a_loaded_fit_keeps_its_r_squared(sleep, tmp_path, rows):
    again = pr.load_fit(pr.fit(sleep).save(tmp_path / "fit.nc", rows=rows))
    assert "ICC 0.7217" in str(again)


@pytest.mark.slow
def test_a_bootstrap_says_which_intervals_its_scales_have(sleep):
    fit = pr.fit(sleep, pr.Bootstrap(reps=9))
    lower, upper = fit.aux_interval("sd(days | subject)")
    assert f"sd(days | subject) 5.9221 ({lower:.5g} to {upper:.5g})" in str(fit)
    fit = pr.fit(sleep, pr.Bootstrap(reps=9, interval="bca"))
    assert f"sd(days | subject) 5.9221 ({lower:.5g} to {upper:.5g})" in str(fit)


def test_a_fixed_standard_deviation_or_a_prior_of_sigma_is_named_beside_an_estimate():
    text, data = "reaction ~ days + (1 | subject)", pr.load_dataset("sleepstudy")
    wide = {"1 | subject": pr.Covariance(sd=pr.HalfNormal(50.0))}
    fits = {
        "REML": pr.fit(pr.Model.from_formula(text, data)),
        "fixed": pr.fit(pr.Model.from_formula(text, data, prior={"1 | subject": pr.Covariance(sd=40.0)})),
        "posterior": pr.fit(pr.Model.from_formula(text, data, prior=wide, aux={"sigma": pr.HalfNormal(2.0)}), "integrate", seed=1),
    }  # fmt: skip
    for order in (("REML", "fixed"), ("fixed", "REML")):
        said = str(pr.compare({name: fits[name] for name in order}).reasons)
        assert "sd(Intercept | subject) not estimated in fixed" in said
        assert "∝" not in said  # sigma has the same prior in both
    said = str(
        pr.compare({name: fits[name] for name in ("REML", "posterior")}).reasons[
            "sigma"
        ]
    )
    assert "prior of sigma" in said  # which takes it 4.6 SE down


def test_a_standard_deviation_below_its_error_has_no_wald_interval():
    found: Any = SimpleNamespace(
        values={"sd(Intercept | g)": 1e-7}, errors={"sd(Intercept | g)": 900.0}
    )
    assert np.isnan(wald_on_free_scale(found, "sd(Intercept | g)", 0.95)).all()


@pytest.mark.parametrize(("likelihood", "seed"), [("gaussian", 3), ("poisson", 2)])
def test_a_standard_deviation_near_zero_prints_a_reason_and_has_a_profile(
    likelihood, seed
):
    rng = np.random.default_rng(seed)
    g, x = np.repeat(np.arange(10), 8), rng.normal(size=80)
    u = 0.05 * rng.normal(size=10)
    y = x + u[g] + rng.normal(size=80)
    if likelihood == "poisson":
        y = rng.poisson(np.exp(0.3 * x + u[g]))
    table = {"y": y, "x": x, "g": g}
    fit = pr.fit(pr.Model.from_formula("y ~ x + (1 | g)", table, likelihood=likelihood))
    name = "sd(Intercept | g)"
    assert 0.01 < fit.solution.hyper[name][0] < 0.1
    row = fit.summary().loc[name]
    assert np.isnan([row["lower"], row["upper"]]).all()
    assert "aux_interval" in str(fit)
    lower, upper = fit.aux_interval(name)
    assert lower == 0.0
    assert 0.1 < upper < 1.0
