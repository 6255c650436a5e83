"""Laws of the checks: each flags data made to break it, by column, and leaves clean data alone."""

import numpy as np
import pandas as pd
import pytest

import probreg as pr
from probreg.diagnostics.before import (
    CHECKS,
    Finding,
    Findings,
    Verdict,
    check,
)
from probreg.diagnostics.before.columns import design_leverage
from probreg.errors import ProbregError
from probreg.model.model import Model
from probreg.priors import Flat, GPrior, Laplace, Normal

from .cases import own

N = 240


def clean(likelihood="bernoulli", **options):
    """Three columns of the same scale, a balanced factor, and enough of everything."""
    rng = np.random.default_rng(0)
    X = np.c_[rng.normal(size=(N, 2)), rng.permutation(np.arange(N) % 2)]
    draw = {
        "bernoulli": rng.integers(0, 2, N),
        "categorical": rng.integers(0, 3, N),
        "poisson": rng.poisson(2.0, N),
    }
    y = draw.get(likelihood, rng.normal(size=N))
    return X, y, {"columns": ["a", "b", "flag"], "likelihood": likelihood} | options


def model(X, y, options, **more):
    return Model.from_arrays(X, y, **(options | more))


def with_column(x, name="bad", **more):
    X, y, options = clean(more.pop("likelihood", "bernoulli"))
    return model(np.c_[X, x], y, options, columns=["a", "b", "flag", name], **more)


def separated():
    X, y, options = clean()
    flag = np.arange(N) % 5 == 0
    return model(
        np.c_[X, flag], np.where(flag, 1, y), options, columns=["a", "b", "flag", "bad"]
    )


def few_events():
    X, _, options = clean()
    return model(X, (np.arange(N) % 60 == 0).astype(int), options)


def dropped():
    data = {"y": [1.0, 2.0, 4.0, None, 3.0], "x": [1.0, 3.0, 2.0, 5.0, 4.0]}
    return Model.from_formula("y ~ x", data, missing="drop")


def interpolated():
    data = {"y": [1.0, 2.0, 4.0, 3.0], "x": [1.0, 3.0, 2.0, 5.0]}
    return Model.from_formula("y ~ gp(x, length=1.0)", data, prior={"gp(x)": Flat()})


def few_groups():
    data = {
        "y": np.cos(np.arange(12.0)),
        "x": np.arange(12.0),
        "bad": ["a", "b", "c"] * 4,
    }
    return Model.from_formula("y ~ x + (1 | bad)", data)


X0 = clean()[0]
BROKEN = [
    ("groups", few_groups, Verdict.WARNING, ()),
    ("processes", interpolated, Verdict.PROBLEM, ()),
    ("separation", separated, Verdict.PROBLEM, ("bad",)),
    (
        "rank",
        lambda: with_column(X0[:, 0] - 2 * X0[:, 1]),
        Verdict.PROBLEM,
        ("bad", "a", "b"),
    ),
    (
        "rank",
        lambda: with_column(np.full(N, 5.0)),
        Verdict.PROBLEM,
        ("bad", "Intercept"),
    ),
    ("rank", lambda: with_column(np.zeros(N)), Verdict.PROBLEM, ("bad",)),
    (
        "collinearity",
        lambda: with_column(X0[:, 0] + 0.01 * np.cos(np.arange(N))),
        Verdict.NOTE,
        ("a", "bad"),
    ),
    (
        "collinearity",
        lambda: with_column(1e6 + X0[:, 0] + 1e-4 * np.cos(np.arange(N))),
        Verdict.WARNING,
        ("a", "bad"),
    ),
    (
        "rank",
        lambda: with_column(2 * X0[:, 0], prior=Normal(1.0)),
        Verdict.NOTE,
        ("bad", "a"),
    ),
    (
        "rank",
        lambda: with_column(2 * X0[:, 0], prior={"bad": Normal(1.0)}),
        Verdict.NOTE,
        ("bad", "a"),
    ),
    (
        "scale",
        lambda: with_column(1e-4 * np.cos(np.arange(N)), prior=Normal(1.0)),
        Verdict.WARNING,
        ("bad",),
    ),
    (
        "scale",
        lambda: with_column(1e3 * np.cos(np.arange(N)), prior=Laplace(1.0)),
        Verdict.NOTE,
        ("bad",),
    ),
    (
        "scale",
        lambda: with_column(1e4 + 1e-4 * np.cos(np.arange(N))),
        Verdict.WARNING,
        ("bad",),
    ),
    ("event", few_events, Verdict.WARNING, ("a", "b", "flag")),
    (
        "rows",
        lambda: Model.from_arrays(np.eye(4), [1.0, 2.0, 4.0, 8.0]),
        Verdict.PROBLEM,
        ("x1",),
    ),
    ("rows", dropped, Verdict.NOTE, ()),
    ("response", lambda: model(*clean(), likelihood="gaussian"), Verdict.WARNING, ()),
    ("response", lambda: model(*clean(), likelihood="student"), Verdict.WARNING, ()),
    (
        "collinearity",
        lambda: with_column(X0[:, 0] + 0.1 * np.cos(np.arange(N))),
        Verdict.NOTE,
        ("a", "bad"),
    ),
    (
        "design_leverage",
        lambda: with_column(100.0 * (np.arange(N) == 7) + X0[:, 1] ** 2),
        Verdict.WARNING,
        (),
    ),
]


@pytest.mark.parametrize(("name", "build", "verdict", "columns"), BROKEN)
def test_a_broken_model_is_flagged_with_its_columns(name, build, verdict, columns):
    found = CHECKS[name]().run(build())
    at_worst = [f for f in found if f.verdict == max(g.verdict for g in found)]
    assert at_worst[0].verdict == verdict, found
    assert any(set(columns) <= set(f.columns) for f in at_worst), found
    for f in at_worst:
        # which is written as a plain number
        named = [c for c in f.columns if c != "Intercept"]
        assert name in ("event", "rows") or all(c in f.sentence for c in named)


def test_every_check_has_a_model_that_breaks_it():
    assert {name for name, *_ in BROKEN} == set(own(CHECKS))


@pytest.mark.parametrize(
    "likelihood", ["bernoulli", "categorical", "poisson", "gaussian", "student"]
)
@pytest.mark.parametrize("name", CHECKS)
def test_clean_data_raise_no_alarm_and_get_an_answer(name, likelihood):
    found = CHECKS[name]().run(model(*clean(likelihood)))
    assert found
    assert {f.verdict for f in found} == {Verdict.OK}, found


@pytest.mark.parametrize("name", CHECKS)
def test_shifts_and_reasonable_units_raise_no_alarm(name):
    X, y, options = clean()
    moved = X * [3.0, 0.2, 1.0] + [2000.0, -50.0, 0.0]
    assert {f.verdict for f in CHECKS[name]().run(model(moved, y, options))} == {
        Verdict.OK
    }


@pytest.mark.parametrize("build", list(dict.fromkeys(b for _, b, *_ in BROKEN)))
def test_findings_name_columns_of_the_model_and_say_what_to_do(build):
    m = build()
    for f in check(m):
        assert set(f.columns) <= set(m.design.columns)
        assert f.check in CHECKS
        assert f.sentence
        assert f.remedy or f.verdict <= Verdict.NOTE


def test_a_prior_on_one_of_two_undecided_columns_decides_and_on_a_third_does_not():
    x = X0[:, 0]
    assert (
        CHECKS["rank"]().run(with_column(3 * x, prior={"b": Normal(1.0)}))[0].verdict
        == Verdict.PROBLEM
    )
    two = np.c_[3 * x, x + X0[:, 1]]
    X, y, options = clean()
    names = ["a", "b", "flag", "c", "d"]
    found = CHECKS["rank"]().run(
        model(np.c_[X, two], y, options, columns=names, prior={"c": Normal(1.0)})
    )
    assert [(f.verdict, f.columns[0]) for f in found] == [
        (Verdict.PROBLEM, "d"),
        (Verdict.NOTE, "c"),
    ]


def test_combinations_are_written_out():
    found = CHECKS["rank"]().run(with_column(X0[:, 0] - 0.45359237 * X0[:, 1] + 2))
    assert found[0].sentence.startswith("bad = a - 0.4536 b + 2 in every row")


def test_trials_are_counted_and_the_event_is_named():
    m = Model.from_arrays(
        [1.0, 2.0, 3.0], [20, 30, 25], trials=[50, 60, 70], likelihood="bernoulli"
    )
    sentence = CHECKS["event"]().run(m)[0].sentence
    assert "the probability of a success (y)" in sentence
    assert sentence.endswith("counts: failure: 105, success: 75")


def test_findings_print_in_full_and_escape_html():
    few = Findings(
        (
            Finding("rows", Verdict.PROBLEM, "a < b", "do this"),
            Finding("rank", Verdict.OK, "fine"),
        ),
        CHECKS,
    )
    assert repr(few.show(verbose=True)).splitlines() == [
        "✗ rows: a < b",
        "    → do this",
        "✓ rank: fine",
    ]
    assert "a &lt; b" in few._repr_html_()
    assert few.worst == Verdict.PROBLEM
    assert few["rank"].worst == Verdict.OK
    assert len(few.at_least(Verdict.NOTE)) == 1
    with pytest.raises(
        ProbregError, match="no check is called 'rnk'; did you mean 'rank'"
    ):
        few["rnk"]


def test_separation_is_a_problem():
    assert check(separated())["separation"].worst == Verdict.PROBLEM


def test_far_rows_are_named_by_their_labels():
    found = CHECKS["design_leverage"]().run(
        with_column(100.0 * (np.arange(N) == 7) + X0[:, 1] ** 2)
    )
    assert [f.rows for f in found] == [(7,)]


def test_leverages_of_the_design_count_frequencies():
    rng = np.random.default_rng(1)
    X, y, w = rng.normal(size=(20, 2)), rng.normal(size=20), rng.integers(1, 4, 20)
    h = design_leverage(Model.from_arrays(X, y, weights=w))
    repeated = design_leverage(Model.from_arrays(np.repeat(X, w, 0), np.repeat(y, w)))
    np.testing.assert_allclose(np.repeat(h, w), repeated, rtol=1e-10)  # rounding
    assert w @ h == pytest.approx(3.0)


def test_two_values_name_bernoulli_and_what_least_squares_estimates():
    X, y, options = clean()
    found = CHECKS["response"]().run(model(X, y, options, likelihood="gaussian"))[0]
    assert "models P(y = 1 | x) as a straight line" in found.sentence
    assert found.remedy.startswith("use likelihood='bernoulli'")
    signs = CHECKS["response"]().run(
        model(X, 2 * y - 1, options, likelihood="gaussian")
    )[0]
    assert "-1 and 1: a gaussian likelihood models E[y | x]" in signs.sentence
    three = np.where(np.arange(N) == 5, 2, y)
    assert (
        CHECKS["response"]()
        .run(model(X, three, options, likelihood="gaussian"))[0]
        .verdict
        is Verdict.OK
    )
    weightless = model(
        X,
        three,
        options,
        likelihood="gaussian",
        weights=(np.arange(N) != 5).astype(int),
    )
    assert CHECKS["response"]().run(weightless)[0].verdict is Verdict.WARNING
    # four numbers that agree are no classes
    few = Model.from_arrays([1.0, 2.0, 3.0, 5.0], [0.0, 1.0, 1.0, 1.0])
    assert CHECKS["response"]().run(few)[0].verdict is Verdict.OK


UNITS = np.array([1e-4, 1.0, 500.0])


@pytest.mark.parametrize(
    "prior", [Normal(1.0, scaled=True), Laplace(1.0, scaled=True), GPrior(10.0)]
)
def test_a_prior_on_standardised_columns_is_not_told_to_standardise(prior):
    X, y, options = clean("gaussian")
    assert {
        f.verdict
        for f in CHECKS["scale"]().run(model(X * UNITS, y, options, prior=prior))
    } <= {
        Verdict.OK,
        Verdict.NOTE,
    }
    for f in CHECKS["scale"]().run(model(X * UNITS, y, options, prior=prior)):
        assert "prior" not in f.sentence or f.verdict is Verdict.OK


def test_a_prior_on_raw_columns_is_questioned_once_and_names_the_columns():
    rng = np.random.default_rng(3)
    X, y = (
        rng.normal(size=(N, 6)) * [1e-4, 1e-5, 1.0, 40.0, 500.0, 60.0],
        rng.normal(size=N),
    )
    by_verdict = {
        f.verdict: f
        for f in CHECKS["scale"]().run(Model.from_arrays(X, y, prior=Normal(1.0)))
        if "prior" in f.sentence
    }
    assert by_verdict[Verdict.WARNING].columns == ("x1", "x2")
    assert by_verdict[Verdict.NOTE].columns == ("x4", "x5", "x6")
    assert len(by_verdict) == 2
    assert (
        "one sd of x1, x2 change the linear predictor by "
        in by_verdict[Verdict.WARNING].sentence
    )
    assert "scaled=True" in by_verdict[Verdict.NOTE].remedy
    tight = CHECKS["scale"]().run(
        Model.from_arrays(X[:, 2:3], y, prior=Normal(1e-6, scaled=True))
    )[0]
    assert (tight.verdict, tight.remedy) == (Verdict.WARNING, "use a larger scale")


@pytest.mark.parametrize("likelihood", ["gaussian", "bernoulli", "categorical"])
def test_far_more_columns_than_rows_are_one_sentence(likelihood):
    """What is said of 300 columns on 12 rows has the verdicts of the equations, which would fill pages."""
    rng = np.random.default_rng(3)
    X = rng.normal(size=(12, 300))
    y = {
        "gaussian": X[:, 0],
        "bernoulli": np.arange(12) % 2,
        "categorical": np.arange(12) % 3,
    }[likelihood]
    model = pr.Model.from_arrays(X, y, likelihood=likelihood, prior=pr.Normal(1.0))
    found = pr.check(model)
    (rank,) = found["rank"]
    assert rank.sentence.startswith(
        "at least 289 of 301 columns are combinations of the others in all 12 rows"
    )
    assert rank.verdict.name == "NOTE"
    for name in ("collinearity", "design_leverage"):
        assert not found[name].items[0].applies
    flat = pr.check(
        model.with_prior(
            {"x7": pr.Flat(), tuple(f"x{j}" for j in range(20, 300)): pr.Normal(1.0)}
        )
    )
    assert [f.verdict.name for f in flat["rank"]] == ["PROBLEM"]
    assert "21 have a flat prior" in flat["rank"].items[0].sentence
    twice = pr.Model.from_arrays(
        np.c_[X[:, 0], 2 * X[:, 0], X],
        y,
        likelihood=likelihood,
        prior={tuple(f"x{j}" for j in range(3, 303)): pr.Normal(1.0)},
    )
    assert (
        pr.check(twice)["rank"].items[0].sentence.startswith("x2 = 2 x1 in every row")
    )
    if likelihood != "gaussian":
        assert "complete separation of 12 rows" in found["separation"].items[0].sentence


def test_standard_deviations_are_those_of_the_moments_however_many_columns():
    """The prior's scale is judged by them: one column in a tiny unit among 300."""
    X = np.random.default_rng(4).normal(size=(12, 300))
    X[:, 4] *= 1e-9
    said = [
        pr.check(pr.Model.from_arrays(X[:, :q], X[:, 0] + 1, prior=pr.Normal(0.1)))[
            "scale"
        ]
        for q in (8, 300)
    ]
    assert [f.sentence for f in said[0] if "nearly fixes" in f.sentence] == [
        f.sentence for f in said[1] if "nearly fixes" in f.sentence
    ]
    assert any("nearly fixes the coefficient" in f.sentence for f in said[1])


def test_what_passed_says_no_more_than_was_looked_at():
    """If every leverage is large no row is far from the others."""
    rng = np.random.default_rng(4)
    whole = pr.check(pr.Model.from_arrays(np.arange(2.0), [1.0, 2.5]))
    assert "every row has leverage 1" in whole["design_leverage"].items[0].sentence
    wide = pr.check(
        pr.Model.from_arrays(rng.normal(size=(20, 17)), rng.normal(size=20))
    )
    assert wide["design_leverage"].items[0].sentence.endswith("(mean 0.9)")


def test_ordered_classes_under_a_softmax_name_the_ordinal_likelihood():
    levels = ["low", "medium", "high"]
    y = pd.Categorical(np.tile(levels, 8), categories=levels, ordered=True)
    data = {"y": y, "x": np.arange(24.0)}
    ordered = Model.from_formula("y ~ x", data, likelihood="categorical")
    (finding,) = check(ordered)["response"]
    assert finding.verdict is Verdict.NOTE
    assert "ordinal" in finding.remedy
    data["y"] = pd.Categorical(np.asarray(y))
    plain = Model.from_formula("y ~ x", data, likelihood="categorical")
    assert not check(plain)["response"].worst
    # pandas has sorted these
    with pytest.raises(pr.DataError, match=r"Ordinal\(levels="):
        Model.from_formula("y ~ x", data, likelihood="ordinal")
