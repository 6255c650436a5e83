"""Differences made on purpose are named by their cause: one data set or one fault for each."""

from dataclasses import replace

import numpy as np
import pytest

import probreg as pr


def gaussian(rng, n=400):
    x = rng.normal(size=n)
    y = 1.0 + 2.0 * x + rng.normal(size=n)
    return pr.Model.from_arrays(x, y, columns=["x"])


def causes(fits, param="x", **options):
    table = pr.compare(fits, **options).causes
    return dict(
        table.loc[table["param"] == param, ["cause", "evidence"]].itertuples(
            index=False
        )
    )


def test_the_prior(rng):
    model = gaussian(rng, 30)
    found = causes(
        {
            "ML": pr.fit(model),
            "tight": pr.fit(model.with_prior(pr.Normal(0.2)), "newton"),
        }
    )
    assert found["prior of x"] == "Normal(0.2) in tight, flat in ML"


def test_separation_of_a_coefficient_and_of_its_neighbours():
    x = np.arange(12.0)
    z = np.tile([0.0, 1.0], 6)
    y = np.r_[np.zeros(6), np.ones(6)]
    model = pr.Model.from_arrays(
        np.stack([x, z], 1), y, columns=["x", "z"], likelihood="bernoulli"
    )
    with pytest.warns(pr.ProbregWarning):
        ml = pr.fit(model)
    assert set(
        causes({"ML": ml, "mode": pr.fit(model.with_prior(pr.Normal(2.5)))})
    ) == {"separation"}
    # Group c has no failure: its level is at infinity, and the slope of the other rows stays.
    g = np.repeat(["a", "b", "c"], 20)
    rng = np.random.default_rng(2)
    v = rng.normal(size=60)
    wins = np.where(g == "c", 1, (v + rng.normal(size=60) > 0).astype(int))
    part = pr.Model.from_formula(
        "wins ~ v + g", {"wins": wins, "v": v, "g": g}, likelihood="bernoulli"
    )
    with pytest.warns(pr.ProbregWarning):
        lost = pr.fit(part)
    found = causes({"ML": lost, "mode": pr.fit(part.with_prior(pr.Normal(1.0)))}, "v")
    assert "quasi" in found["separation"] or "g[T.c]" in found["separation"]


@pytest.mark.slow
def test_skewness_where_one_reports_a_mean_and_one_a_mode():
    orings = pr.load_dataset("challenger")
    model = pr.Model.from_formula(
        "damage ~ temperature", orings, likelihood="bernoulli", prior=pr.Normal(10.0)
    )
    mode, nuts = pr.fit(model), pr.fit(model, "nuts", seed=1)
    for param in ("temperature", "Intercept"):
        found = causes({"mode": mode, "nuts": nuts}, param)
        assert found == {"skewness": "posterior mean in nuts, mode in mode"}
        laplace = causes(
            {"laplace": pr.fit(model, "laplace", seed=1), "nuts": nuts}, param
        )
        assert set(laplace) == {"approximation"}


@pytest.mark.slow
def test_the_sampler_by_its_chains(rng):
    model = gaussian(rng, 40)
    good = pr.fit(model, "nuts", seed=3)
    draws = {k: v.copy() for k, v in good.solution.draws.values.items()}
    draws["beta"][0, :, 1] += 1.5  # one chain somewhere else
    beta = draws["beta"].mean((0, 1))
    drawn = replace(good.solution.draws, values=draws)
    bad = replace(
        good,
        solution=replace(
            good.solution,
            draws=drawn,
            beta=beta,
            status=type(good.solution.status).UNMIXED,
        ),
    )
    found = causes({"ML": pr.fit(model), "stuck": bad})
    assert "chains disagree in stuck" in found["sampler"]
    assert "sampler" not in causes({"ML": pr.fit(model), "nuts": good})


def test_what_agrees_has_no_cause(rng):
    model = gaussian(rng)
    assert (
        pr.compare({"ML": pr.fit(model), "exact": pr.fit(model, "conjugate")})
        .causes.query("param == 'x'")
        .empty
    )


def test_how_far_apart_is_far_is_the_readers_choice(rng):
    model = gaussian(rng, 30)
    fits = {
        "ML": pr.fit(model),
        "mode": pr.fit(model.with_prior(pr.Normal(0.5)), "newton"),
    }
    shift = abs(pr.compare(fits).data["difference"].sel(fit="mode", param="x").item())
    assert "x" in pr.compare(fits, apart=0.5 * shift).reasons
    assert "x" not in pr.compare(fits, apart=5.0 + shift).reasons
    with pytest.raises(pr.DataError, match="apart is a positive finite number"):
        pr.compare(fits, apart=0.0)


def test_a_sigma_that_the_evidence_found_is_not_fixed(rng):
    data = {"x": rng.normal(size=60), "z": rng.normal(size=60)}
    data["y"] = np.sin(data["x"]) + 0.3 * rng.normal(size=60)
    fits = {v: pr.fit(pr.Model.from_formula(f"y ~ s({v})", data)) for v in "xz"}
    assert set(causes(fits, "sigma")) == {"smooth functions"}
    held = pr.Model.from_formula("y ~ s(x)", data, aux={"sigma": 1.0})
    found = causes({"free": fits["x"], "held": pr.fit(held)}, "Intercept", apart=1e-3)
    assert "sigma fixed" in found


def test_the_prior_and_the_search_of_sigma_are_those_of_the_evidence(rng):
    """A fit by evidence holds sigma at an estimate: its prior is stated, and the cause is the evidence."""
    model = gaussian(rng, 15).with_prior({"x": pr.Normal(0.5)})
    model = model.with_aux(sigma=pr.HalfNormal(0.3))
    fits = {name: pr.fit(model, name) for name in ("newton", "evidence")}
    assert "sigma ~ HalfNormal(0.3)" in repr(fits["evidence"])
    assert "evidence" in repr(fits["evidence"]).splitlines()[1]
    assert "sigma by evidence" in {c.label for c in pr.explain(fits).causes}
    held = {"held": pr.fit(model.with_aux(sigma=1.0)), **fits}
    del held["newton"]
    assert "sigma fixed" in {c.label for c in pr.explain(held).causes}
