"""Separation: against the extreme rays, against the likelihood itself, and on published data."""

import json
from dataclasses import replace
from itertools import combinations

import numpy as np
import pytest

import probreg as pr
from probreg.diagnostics.before import Verdict, separation
from probreg.diagnostics.before.sample import SeparationCheck
from probreg.fits.fit import fit
from probreg.inference.modes.existence import _join_splits, split_rows
from probreg.likelihoods import Categorical
from probreg.model.model import Model
from probreg.priors import Normal
from tests.conftest import covering, reference_path

KINDS = ("bernoulli", "categorical", "poisson")


def constraints(model):
    """The inequalities and the equalities of the recession cone as integer rows over vec D."""
    rec = model.likelihood.recession(model.design.observed)
    rows = np.einsum("ra,rk->rak", model.design.X[rec.rows], rec.directions).reshape(
        len(rec.rows), -1
    )
    return np.rint(rows).astype(int), rec.equal


def normal_vector(rows, d):
    """The integer vector orthogonal to d - 1 rows of length d: signed minors; zero if they are dependent."""
    minors = [
        np.linalg.det(np.delete(rows, j, axis=1)) if d > 1 else 1.0 for j in range(d)
    ]
    return np.rint(minors).astype(int) * (-1) ** np.arange(d)


def enumerated(model):
    """Kind and non-zero coefficients from all extreme rays: a pointed cone is spanned by them, and each
    lies on d - 1 independent constraints. Integer arithmetic, no linear programme."""
    A, equal = constraints(model)
    d = A.shape[1]
    rays = []
    for some in combinations(range(len(A)), d - 1):
        v = normal_vector(A[list(some)], d)
        rays += [
            s * v
            for s in (1, -1)
            if v.any() and (s * A @ v >= 0).all() and not (A[equal] @ v).any()
        ]
    if not rays:
        return "none", np.zeros(model.shape, bool)
    strict = (A @ np.sum(rays, axis=0) > 0).all()
    return "complete" if strict else "quasi", np.any(rays, axis=0).reshape(model.shape)


def tiny_models(kind, count, seed):
    """Small integer designs of full column rank, in which ties and separation of both sorts are frequent."""
    rng = np.random.default_rng(seed)
    while count:
        n, q = int(rng.integers(3, 8)), int(rng.integers(1, 3))
        X = rng.integers(-1, 3, (n, q)).astype(float)
        y = {
            "bernoulli": rng.integers(0, 2, n),
            "categorical": rng.integers(0, 3, n),
            "poisson": rng.poisson(0.5, n),
        }[kind]
        enough = len(set(y.tolist())) >= (3 if kind == "categorical" else 2)
        if enough and np.linalg.matrix_rank(np.c_[np.ones(n), X]) == q + 1:
            count -= 1
            yield Model.from_arrays(X, y, likelihood=kind)


@pytest.mark.parametrize("kind", covering(KINDS))
def test_kind_and_coefficients_agree_with_enumeration_of_extreme_rays(kind):
    seen = set()
    for model in tiny_models(
        kind, {"bernoulli": 100, "categorical": 40, "poisson": 100}[kind], seed=1
    ):
        kind_, not_estimable = enumerated(model)
        found = separation(model)
        assert (found.kind, found.not_estimable.tolist()) == (
            kind_,
            not_estimable.tolist(),
        ), (
            model.design.X,
            model.design.y,
        )
        seen.add(kind_)
    assert seen >= {"none", "quasi"}  # the oracle has seen both answers


@pytest.mark.parametrize("kind", KINDS)
def test_the_likelihood_rises_along_the_direction_and_has_a_maximum_without_one(kind):
    for model in tiny_models(kind, 30, seed=2):
        found = separation(model)
        if found:
            values = model.log_lik(
                np.array([0.0, 1.0, 2.0, 4.0])[:, None, None] * found.direction
            )
            assert (np.diff(values) > 0).all()
        else:
            # log-likelihoods here are of order one
            assert np.abs(stationary(model)).max() < 1e-6


def stationary(model):
    """The gradient after damped Newton steps from zero."""
    beta = np.zeros(model.shape)
    for _ in range(60):
        at = model.value_grad_hessian(beta)
        step = np.linalg.solve(at.curvature, at.gradient).reshape(beta.shape)
        while (
            model.log_lik(beta + step) < at.value - 1e-12 and np.abs(step).max() > 1e-12
        ):
            step = step / 2
        beta = beta + step
    return model.value_grad_hessian(beta).gradient


def test_complete_means_every_row_and_all_coefficients():
    found = separation(
        Model.from_arrays(np.arange(6.0), [0, 0, 0, 1, 1, 1], likelihood="bernoulli")
    )
    assert (found.kind, found.rows, found.columns) == (
        "complete",
        6,
        ("Intercept", "x1"),
    )


def test_a_level_without_events_takes_only_its_own_column():
    rng = np.random.default_rng(3)
    g, x = rng.integers(0, 4, 200), rng.normal(size=200)
    y = np.where(g == 2, 0, rng.integers(0, 2, 200))
    X = np.c_[x, g == 1, g == 2, g == 3]
    found = separation(
        Model.from_arrays(X, y, columns=["x", "g1", "g2", "g3"], likelihood="bernoulli")
    )
    assert (found.kind, found.columns, found.rows) == ("quasi", ("g2",), (g == 2).sum())


def test_an_infinite_reference_level_takes_the_whole_factor():
    g = np.repeat([0, 1, 2], 10)
    y = np.where(g == 0, 0, np.arange(30) % 2)
    model = Model.from_arrays(
        np.c_[g == 1, g == 2], y, columns=["g1", "g2"], likelihood="bernoulli"
    )
    assert separation(model).columns == ("Intercept", "g1", "g2")


def test_shifts_units_and_near_collinearity_do_not_matter():
    rng = np.random.default_rng(4)
    x = rng.normal(size=300)
    flag = (rng.random(300) < 0.2).astype(float)
    y = np.where(flag > 0, 1, rng.integers(0, 2, 300))
    year, size = 2000 + 10 * x, 1e8 * rng.normal(size=300)
    X = np.c_[year, year + 1e-4 * rng.normal(size=300), size, 1e-6 * flag]
    found = separation(
        Model.from_arrays(
            X, y, columns=["year", "again", "size", "flag"], likelihood="bernoulli"
        )
    )
    assert (found.kind, found.columns) == ("quasi", ("flag",))


def test_collinear_columns_alone_are_not_separation():
    x = np.array([1.0, 2.0, 3.0, 4.0, 5.0, 6.0])
    assert not separation(
        Model.from_arrays(np.c_[x, 2 * x], [0, 1, 0, 1, 0, 1], likelihood="bernoulli")
    )


def test_rows_of_weight_zero_do_not_count():
    x, y = np.arange(6.0), [0, 0, 1, 0, 1, 1]
    assert not separation(Model.from_arrays(x, y, likelihood="bernoulli"))
    assert (
        separation(
            Model.from_arrays(x, y, likelihood="bernoulli", weights=[1, 1, 0, 1, 1, 1])
        ).kind
        == "complete"
    )


def test_a_prior_holds_its_columns_and_only_them():
    x, y = np.arange(6.0), [0, 0, 0, 1, 1, 1]
    model = Model.from_arrays(np.c_[x, np.cos(x)], y, likelihood="bernoulli")
    assert not separation(model.with_prior(Normal(1.0)))
    assert separation(model.with_prior({"x2": Normal(1.0)})).columns == (
        "Intercept",
        "x1",
    )
    assert not separation(model.with_prior({("Intercept", "x1", "x2"): Normal(1.0)}))
    shifted = Model.from_arrays(
        x - 2.5, y, likelihood="bernoulli", prior={"Intercept": Normal(1.0)}
    )
    assert separation(shifted).columns == ("x1",)
    held = Model.from_arrays(
        x, y, likelihood="bernoulli", prior={"Intercept": Normal(1.0)}
    )
    assert not separation(held)  # through the origin no slope separates them


def test_a_subset_without_events_is_found_among_many_rows():
    rng = np.random.default_rng(5)
    X = rng.normal(size=(30_000, 5))
    y = (rng.random(30_000) < 0.01).astype(int)
    # one row, far from any evenly spaced sample
    rare = (np.arange(30_000) == np.flatnonzero(y == 0)[7]).astype(float)
    found = separation(Model.from_arrays(np.c_[X, rare], y, likelihood="bernoulli"))
    assert (found.kind, found.columns, found.rows) == ("quasi", ("x6",), 1)
    assert not separation(Model.from_arrays(X, y, likelihood="bernoulli"))


def test_rare_events_that_a_sample_of_rows_misses_are_not_called_separated():
    rng = np.random.default_rng(7)
    X = rng.normal(size=(30_000, 2))
    y = np.isin(np.arange(30_000), rng.choice(30_000, 8, replace=False)).astype(int)
    assert not separation(Model.from_arrays(X, y, likelihood="bernoulli"))


def test_symmetric_and_reference_softmax_agree():
    rng = np.random.default_rng(6)
    flag = np.arange(60) % 3 == 0
    y = np.where(flag, rng.integers(0, 2, 60), rng.integers(0, 3, 60))
    found = [
        separation(
            Model.from_arrays(flag * 1.0, y, likelihood=Categorical(symmetric=s))
        )
        for s in (False, True)
    ]
    assert [f.kind for f in found] == ["quasi", "quasi"]
    assert found[0].labels == ("x1 (2)",)
    assert found[1].not_estimable.tolist() == [
        [False] * 3,
        [True] * 3,
    ]  # against the mean of all classes, each runs away
    assert found[1].direction.shape == (2, 2)


def published(path):
    return json.loads(reference_path(path).read_text())["design"]


@pytest.mark.parametrize(
    ("path", "kind", "columns"),
    [
        ("tables/logistic/endometrial_separation.json", "quasi", ("NV",)),
        (
            "logistic/complete_separation_6rows.json",
            "complete",
            ("Intercept", "a", "b"),
        ),
        ("tables/logistic/bacteria_main.json", "none", ()),
        ("tables/logistic/birthwt.json", "none", ()),
    ],
)
def test_published_binary_data(path, kind, columns):
    d = published(path)
    X = np.array(d["X"])[:, 1:]
    found = separation(
        Model.from_arrays(X, d["y"], columns=d["columns"][1:], likelihood="bernoulli")
    )
    assert (found.kind, found.columns) == (kind, columns)


@pytest.mark.parametrize(
    ("path", "labels"),
    [
        ("multinomial/alligators.json", ()),
        (
            "tables/multinomial/hepatitis_separation.json",
            ("withhold (C)", "withhold:post (C)"),
        ),
    ],
)
def test_published_counts_by_class(path, labels):
    d = published(path)
    counts = np.array(d["counts"])
    i, k = np.nonzero(counts)
    model = Model.from_arrays(
        np.array(d["X"])[i, 1:], np.array(d["classes"])[k], columns=d["columns"][1:], weights=counts[i, k],
        likelihood="categorical", reference=d["classes"][0],
    )  # fmt: skip
    assert separation(model).labels == labels


@pytest.mark.parametrize("kind", KINDS)
def test_a_prior_hides_no_separation(kind):
    """Of small models with a prior on every column, the check warns exactly of those whose rows are separated."""
    warned = []
    for model in tiny_models(kind, 20, seed=8):
        held = replace(model, prior={c: Normal(1.0) for c in model.design.columns})
        (said,) = SeparationCheck().run(held)
        found = separation(model)
        assert said.verdict == (Verdict.WARNING if found else Verdict.OK)
        assert said.columns == found.columns
        if found:
            assert said.sentence.startswith(
                f"{found.kind} separation of {found.rows} row"
            )
            assert said.sentence.endswith("finite only because of the prior")
        warned.append(bool(found))
    assert 0 < sum(warned) < 20


def test_columns_that_no_prior_holds_still_have_no_estimate():
    model = Model.from_arrays(
        np.arange(6) - 2.5, [0, 0, 0, 1, 1, 1], columns=["dose"], likelihood="bernoulli"
    )
    assert [f.verdict for f in SeparationCheck().run(model)] == [Verdict.PROBLEM]
    held = replace(model, prior={"Intercept": Normal(1.0)})
    assert [f.verdict for f in SeparationCheck().run(held)] == [Verdict.PROBLEM]
    (said,) = SeparationCheck().run(replace(model, prior=Normal(1.0)))
    # the intercept goes with it, and separates nothing
    assert "by dose: estimates are finite only" in said.sentence


@pytest.mark.filterwarnings("ignore::probreg.errors.ProbregWarning")
@pytest.mark.parametrize("method", ["newton", "sgd"])
def test_no_distance_to_a_maximum_that_there_is_not(method):
    model = Model.from_arrays(
        np.arange(6.0), [0, 0, 0, 1, 1, 1], columns=["dose"], likelihood="bernoulli"
    )
    for prior in (None, Normal(1.0)):
        found = fit(model if prior is None else replace(model, prior=prior), method)
        told = [
            note
            for note in map(str, found.solution.notes)
            if "maximum" in note and "errors" in note
        ]
        assert bool(told) == (prior is not None)
        rises = [
            note
            for note in map(str, found.solution.notes)
            if "towards infinity" in note
        ]
        assert bool(rises) == (prior is None)


SEEDED = np.random.default_rng(11).normal(size=(40, 2))
LEVEL = np.repeat([0.0, 1.0], [30, 10])
PARTLY = np.where(LEVEL > 0, 0, np.arange(40) % 2)  # no event at the level
COLLINEAR = {  # z = 2 x beside w and the level: the response, the likelihood, the prior, and what is estimated all the same
    "quasi": (PARTLY, "bernoulli", None, {"Intercept", "w"}),
    "quasi, classes": (
        PARTLY + 2 * (np.arange(40) % 3 == 0),
        "categorical",
        None,
        {"Intercept", "w"},
    ),
    "quasi, counts": (3 * PARTLY, "poisson", None, {"Intercept", "w"}),
    "quasi, lasso": (PARTLY, "bernoulli", {"w": pr.Laplace(1.0)}, {"Intercept", "w"}),
    "complete": ((SEEDED[:, 0] > 0).astype(int), "bernoulli", None, set()),
    "alpha runs to 0": (
        PARTLY + (np.arange(40) % 4 == 1),
        "negative_binomial",
        None,
        {"Intercept", "w", "level"},
    ),
}


@pytest.mark.parametrize("case", COLLINEAR)
def test_collinear_columns_have_no_estimate_beside_what_runs_away(case):
    """What is left agrees with the fit without the column that repeats another, and so do the residual degrees of freedom."""
    y, likelihood, prior, left = COLLINEAR[case]
    X = np.c_[SEEDED, LEVEL, 2.0 * SEEDED[:, 0]]
    names = ["x", "w", "level", "z"]
    made = [
        Model.from_arrays(
            X[:, :k],
            y,
            columns=names[:k],
            likelihood=likelihood,
            **({"prior": prior} if prior else {}),
        )
        for k in (4, 3)
    ]
    with pytest.warns(
        pr.ProbregWarning,
        match="z = 2 x" if case != "complete" else "complete separation by .*z",
    ):
        twice = pr.fit(made[0])
    with pytest.warns(pr.ProbregWarning):
        once = pr.fit(made[1])
    finite = (
        np.isfinite(twice.coef).all("outcome")
        if "outcome" in twice.coef.dims
        else np.isfinite(twice.coef)
    )
    # of three classes some pair is not separated by the level
    if likelihood != "categorical":
        assert set(twice.coef["coef"].values[finite]) == left
    assert not np.isfinite(twice.coef.sel(coef=["x", "z"])).any()
    kept = list(twice.coef["coef"].values[finite])
    assert np.allclose(
        twice.coef.sel(coef=kept), once.coef.sel(coef=kept), rtol=1e-5, atol=1e-6
    )
    assert np.allclose(
        twice.std_error.sel(coef=kept),
        once.std_error.sel(coef=kept),
        rtol=1e-4,
        equal_nan=True,
    )
    if prior is None:
        assert twice.df_resid == once.df_resid


@pytest.mark.parametrize(
    "likelihood", ["bernoulli", "poisson", "categorical", "symmetric"]
)
def test_what_is_estimated_beside_a_reference_that_runs_away_is_the_fit_of_the_other_rows(
    likelihood,
):
    """Intercept and every level run away together, while the levels keep their differences: holding all of them where they
    are would leave a slope the error that it has at known levels, several times too small (Geyer 2009)."""
    rng = np.random.default_rng(3)
    group = np.repeat(list("abcd"), 15)
    # levels and slope share much
    x = rng.normal(size=60) + 3.0 * np.repeat([0.0, 1.0, 2.0, 3.0], 15)
    y = (
        rng.integers(0, 3, 60)
        if likelihood in ("categorical", "symmetric")
        else rng.integers(0, 2, 60)
    )
    y[group == "a"] = 0
    kind = Categorical(symmetric=True) if likelihood == "symmetric" else likelihood
    rows = {"y": y, "x": x, "g": group}
    with pytest.warns(
        pr.ProbregWarning, match=r"quasi separation by Intercept.* g\[T.d\]"
    ):
        every = fit(Model.from_formula("y ~ x + g", rows, likelihood=kind))
    rest = fit(
        Model.from_formula(
            "y ~ x + g", {k: v[group != "a"] for k, v in rows.items()}, likelihood=kind
        )
    )
    assert np.allclose(every.coef.sel(coef="x"), rest.coef.sel(coef="x"), rtol=1e-4)
    assert np.allclose(
        every.std_error.sel(coef="x"), rest.std_error.sel(coef="x"), rtol=1e-4
    )
    assert (
        np.isnan(every.coef.sel(coef=["Intercept", "g[T.b]", "g[T.c]", "g[T.d]"]))
        .all("coef")
        .any()
    )


# ---- polynomials of a variable far from 0 ------------------------------------------------------------------------

POWERS = "({0} + I({1}**2) + I({1}**3) + I({1}**4)) * f"
SPELLINGS = [
    POWERS.format("t", "t"),
    POWERS.format("I(t - 2000)", "(t - 2000)"),
    "poly(t, 4) * f",
]


def calendar_years(likelihood, seed):
    """Few rows a level and 0/1 responses, many of which are separated by a quartic within a level."""
    rng = np.random.default_rng(seed)
    levels, n = rng.integers(2, 4), int(rng.integers(20, 41))
    years = np.arange(1980, 2020)
    t = [np.sort(rng.choice(years, n, replace=False)) for _ in range(levels)]
    share = rng.choice([0.1, 0.3, 0.5])
    if rng.random() < 0.5:
        y = (rng.random(levels * n) < share) * 1
    else:
        y = np.concatenate([(v > rng.integers(1985, 2010)) * 1 for v in t])
        y ^= rng.random(levels * n) < 0.03
    if likelihood == "categorical":
        y = np.array(list("uvw"))[np.minimum(2, y + (rng.random(len(y)) < 0.1) * 1)]
    elif likelihood != "bernoulli":
        y = y * rng.poisson(3, len(y))
    f = np.repeat(list("abc")[:levels], n)
    return {"y": y, "t": np.concatenate(t).astype(float), "f": f}


@pytest.mark.parametrize(
    ("likelihood", "seed"),
    [
        ("bernoulli", 14),
        ("bernoulli", 19),
        ("bernoulli", 48),
        ("bernoulli", 2),
        ("poisson", 3),
        ("poisson", 7),
        ("poisson", 46),
        ("categorical", 58),
        pytest.param("negative_binomial", 7, marks=pytest.mark.slow),
    ],
)
def test_every_spelling_of_a_quartic_is_separated_alike(likelihood, seed):
    data = calendar_years(likelihood, seed)
    found = [
        separation(pr.Model.from_formula(f"y ~ {right}", data, likelihood=likelihood))
        for right in SPELLINGS
    ]
    assert len({s.kind for s in found}) == 1
    assert len({s.rows for s in found}) == 1
    if found[0].kind != "none":
        for right in SPELLINGS:
            with pytest.raises(pr.errors.NotConverged, match="separation"):
                pr.fit(
                    pr.Model.from_formula(f"y ~ {right}", data, likelihood=likelihood),
                    strict=True,
                )


POINTS = np.linspace(-1.0, 1.0, 40)
BLOCKS, INTERLEAVED = np.repeat(np.arange(8), 5), np.arange(40) % 8
NO_SLOPE, NO_SCALE = "NO_MAXIMUM", "SCALE_AT_INFINITY"
BEND, STEP = abs(POINTS) > 0.5, POINTS > 0.1


@pytest.mark.filterwarnings("error::RuntimeWarning")
@pytest.mark.filterwarnings("ignore::probreg.ProbregWarning")
@pytest.mark.parametrize(
    ("term", "y", "g", "status", "name"),
    [
        ("s(x)", BEND, INTERLEAVED, NO_SCALE, "s(x)"),
        ("s(x)", BEND, BLOCKS, NO_SCALE, "s(x)"),
        ("x", INTERLEAVED % 2, INTERLEAVED, NO_SCALE, "g"),
        ("s(x)", STEP, INTERLEAVED, NO_SLOPE, "s(x)"),
        ("x", STEP, INTERLEAVED, NO_SLOPE, "x"),
        ("x", BLOCKS > 3, BLOCKS, NO_SLOPE, "x"),
    ],
    ids=lambda v: v if isinstance(v, str) else "",
)
def test_separation_with_effects_of_groups_has_a_status(term, y, g, status, name):
    table = {"y": np.asarray(y).astype(int), "x": POINTS, "g": g}
    model = pr.Model.from_formula(
        f"y ~ {term} + (1 | g)", table, likelihood="bernoulli"
    )
    fit = pr.fit(model)
    assert fit.solution.status.name == status
    assert name in fit.solution.detail
    assert str(fit)
    assert len(pr.diagnose(fit))


def test_the_rows_that_lose_most_join_a_sample():
    x = np.r_[1.0, np.arange(1200.0), 2.0]
    y = np.r_[1, np.zeros(1200, int), 1]
    block = pr.Model.from_arrays(x, y, likelihood="bernoulli").design.block
    # along +x all events gain, and rows without an event lose by x
    split = split_rows(
        block,
        likelihood=pr.Bernoulli(),
        direction=np.array([[0.0], [1.0]]),
        smallest=0.5,
    )
    assert split.gaining == 2
    np.testing.assert_array_equal(split.losing.X[:, 1], np.arange(1199.0, 699.0, -1))
    both = _join_splits(split, split)
    np.testing.assert_array_equal(both.losses[:4], [1199.0, 1199.0, 1198.0, 1198.0])
    assert (both.gaining, both.losing.rows) == (4, 500)
