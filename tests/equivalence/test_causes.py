"""Differences made on purpose are named by their cause: one data set or one fault for each."""

from dataclasses import replace

import numpy as np
import pytest

import probreg as pr


def gaussian(rng, n=400, spread=None):
    x = rng.normal(size=n)
    y = 1.0 + 2.0 * x + (1.0 if spread is None else spread(x)) * rng.normal(size=n)
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
    assert found["prior of x"].startswith(
        "prior of x: Normal(0.2) in tight, flat in ML; prior weight "
    )
    assert "misspecification" not in found


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
    assert "at infinity" in found["separation"]


@pytest.mark.slow
def test_skewness_where_one_reports_a_mean_and_one_a_mode():
    orings = pr.load_dataset("challenger")
    model = pr.Model.from_formula(
        "damage ~ temperature", orings, likelihood="bernoulli", prior=pr.Normal(10.0)
    )
    mode, nuts = pr.fit(model), pr.fit(model, "nuts", seed=1)
    for param in ("temperature", "Intercept"):
        found = causes({"mode": mode, "nuts": nuts}, param)
        skew = pr.compare([nuts]).data["skewness"].sel(param=param).item()
        assert found == {
            "skewness": f"skewness {skew:.2g} of the posterior in nuts, whose mean is not its mode"
        }
        laplace = causes(
            {"laplace": pr.fit(model, "laplace", seed=1), "nuts": nuts}, param
        )
        assert laplace == {
            "approximation": f"approximation: laplace is a normal at the mode; skewness of nuts {skew:.2g}"
        }


def test_misspecification_where_the_spread_grows(rng):
    model = gaussian(rng, spread=lambda x: 0.3 + np.abs(x) ** 1.5)
    robust = pr.Model(replace(model.design), pr.StudentT(nu=3.0))
    found = causes({"normal": pr.fit(model), "t": pr.fit(robust)})
    ratio = np.sqrt(
        np.diagonal(pr.fit(model).covariance("HC2"))[1]
        / np.diagonal(pr.fit(model).covariance())[1]
    )
    assert f"SE of x in normal is {ratio:.2f} times" in found["misspecification"]
    assert ratio > 1.5
    calm = gaussian(rng)
    same = {
        "normal": pr.fit(calm),
        "t": pr.fit(pr.Model(calm.design, pr.StudentT(nu=3.0))),
    }
    assert "misspecification" not in causes(same)  # another likelihood, and a right one


@pytest.mark.slow
def test_no_misspecification_where_rows_are_few_and_the_model_is_right():
    named = 0
    for seed in range(6):
        rng = np.random.default_rng(seed)
        X = rng.normal(size=(25, 8))
        model = pr.Model.from_arrays(X, X[:, 0] + rng.normal(size=25))
        table = pr.compare(
            {"ols": pr.fit(model), "replicates": pr.fit(model, pr.Bootstrap(reps=200))}
        ).causes
        named += sum("misspecification" in cause for cause in table["cause"])
    assert named <= 2  # of 54 coefficients; HC3 over the SE of RSS/n named half of them


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
    assert "sampler: stuck (R-hat 1." in found["sampler"]
    assert "did not end well" not in " ".join(found.values())
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
