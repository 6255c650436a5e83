"""Moments of models with varying effects: sums of places, rows taken away, and fits from them are those of the rows."""

import numpy as np
import pandas as pd
import pytest

import probreg as pr

N = 260
FORMULA = "y ~ x + (x | g) + (1 | h)"


def table() -> pd.DataFrame:
    rng = np.random.default_rng(0)
    g, h, x = rng.integers(0, 12, N), rng.integers(0, 7, N), rng.normal(size=N) + 3.0
    b = rng.normal(size=(12, 2)) * [1.0, 0.5]
    y = (
        1.0
        + 0.5 * x
        + b[g, 0]
        + b[g, 1] * x
        + 0.7 * rng.normal(size=7)[h]
        + rng.normal(size=N)
    )
    more = {
        "w": rng.integers(1, 4, N),
        "v": rng.uniform(0.5, 2.0, N),
        "o": rng.normal(size=N),
    }
    return pd.DataFrame({"y": y, "x": x, "g": g, "h": [f"h{i}" for i in h], **more})


DATA = table()
HERE, THERE = DATA[DATA["g"] < 8], DATA[DATA["g"] >= 6]  # groups 6 and 7 are at both
NORTH, SOUTH = (
    HERE[HERE.index % 2 == 0],
    THERE.drop(HERE.index[HERE.index % 2 == 0], errors="ignore"),
)
BOTH = pd.concat([NORTH, SOUTH])
KINDS = {
    "plain": {},
    "frequencies": {"weights": "w"},
    "precisions": {"weights": pr.weights.precision("v")},
    "an offset": {"offset": "o"},
}


def model(rows: pd.DataFrame, formula: str = FORMULA, **more) -> pr.Model:
    return pr.Model.from_formula(formula, rows, **more)


def same(a: pr.Fit, b: pr.Fit, rtol: float = 1e-8) -> None:
    np.testing.assert_allclose(a.coef, b.coef, rtol=rtol)
    np.testing.assert_allclose(a.std_error, b.std_error, rtol=rtol)
    for name, value in b.hyper.items():
        assert a.hyper[name] == pytest.approx(value, rel=rtol, abs=rtol)
    found, wanted = a.effects("g"), b.effects("g")
    assert list(found["group"]) == list(wanted["group"])
    np.testing.assert_allclose(
        found["estimate"], wanted["estimate"], rtol=rtol, atol=rtol
    )


def entries(moments) -> list[np.ndarray]:
    head = np.asarray(moments.head.factor, dtype=float)
    return [head.T @ head, moments.inside.toarray(), moments.border, moments.totals]


@pytest.mark.parametrize("kind", KINDS)
def test_moments_of_two_places_are_those_of_all_rows_whichever_groups_each_has(kind):
    more = KINDS[kind]
    parts, whole = (
        [model(rows, **more).moments for rows in (NORTH, SOUTH)],
        model(BOTH, **more).moments,
    )
    np.testing.assert_array_equal(whole.dense.means, [*whole.mean, whole.y_mean])
    np.testing.assert_array_equal(whole.dense.scales, [*whole.scale, whole.y_scale])
    assert parts[0].terms[0].levels != parts[1].terms[0].levels
    total = parts[0] + parts[1]
    # groups are numbers: 2 before 10
    assert total.columns == whole.columns == (parts[1] + parts[0]).columns
    for a, b in zip(entries(total), entries(whole), strict=True):
        np.testing.assert_allclose(a, b, rtol=1e-12, atol=1e-10)
    left = (total - parts[1]).with_terms(whole.terms)
    for a, b in zip(
        entries(left), entries(parts[0].with_terms(whole.terms)), strict=True
    ):
        np.testing.assert_allclose(a, b, rtol=1e-9, atol=1e-9)


@pytest.mark.parametrize(("kind", "criterion"), [*zip(KINDS, ["REML", "ML"] * 2)])
def test_a_fit_from_moments_is_that_of_the_rows(kind, criterion):
    how, more = pr.Evidence(criterion=criterion), KINDS[kind]
    rows, parts = (
        pr.fit(model(BOTH, **more), how),
        [model(part, **more).moments for part in (NORTH, SOUTH)],
    )
    found = pr.fit(pr.Model.from_moments(*parts), how)
    stat = "log_evidence" if criterion == "REML" else "log_likelihood_of_scales"
    assert found.solution.stats[stat] == pytest.approx(
        rows.solution.stats[stat], rel=1e-8
    )
    same(found, rows, 1e-7)  # two searches


@pytest.mark.slow
def test_a_profile_from_moments_is_that_of_the_rows():
    # the correlation runs to its edge on the way, and back
    found, rows = (
        pr.fit(m) for m in (pr.Model.from_moments(model(BOTH).moments), model(BOTH))
    )
    interval = rows.aux_interval("sd(x | g)")
    assert interval[0] < rows.hyper["sd(x | g)"] < interval[1]
    assert found.aux_interval("sd(x | g)") == pytest.approx(interval, rel=1e-6)


def test_every_layout_of_the_columns_is_found_in_moments():
    formula = "y ~ x + o + (x || g) + (0 + v | g) + (1 | h)"
    priors = {
        "o": pr.Normal(0.4),
        "x": pr.Normal(pr.priors.Reference()),
        "1 | h": pr.Covariance(sd=0.7),
    }
    rows = pr.fit(model(BOTH, formula, prior=priors))
    same(
        pr.fit(pr.Model.from_moments(model(BOTH, formula).moments, prior=priors)),
        rows,
        1e-6,
    )  # two searches


@pytest.mark.slow
def test_posteriors_from_moments_are_those_of_the_rows():
    priors = {key: pr.Covariance(sd=pr.HalfNormal(2.0)) for key in ("x | g", "1 | h")}
    parts = [model(rows).moments for rows in (NORTH, SOUTH)]
    a = pr.fit(pr.Model.from_moments(*parts, prior=priors), "posterior", seed=1)
    b = pr.fit(model(BOTH, prior=priors), "posterior", seed=1)
    np.testing.assert_allclose(a.solution.beta, b.solution.beta, rtol=1e-6, atol=1e-7)
    held = {
        "x | g": pr.Covariance(sd=1.0, cor=0.2),
        "1 | h": pr.Covariance(sd=0.8),
    }  # by one factor of all columns
    newton = [
        pr.fit(m.with_prior(held), "newton")
        for m in (pr.Model.from_moments(*parts), model(BOTH))
    ]
    np.testing.assert_allclose(newton[0].coef, newton[1].coef, rtol=1e-8)
    np.testing.assert_allclose(newton[0].std_error, newton[1].std_error, rtol=1e-8)


@pytest.mark.slow
def test_rows_are_forgotten_and_added():
    gone, stay = BOTH[:30], BOTH[30:]
    whole, rest = pr.fit(model(BOTH)), pr.fit(model(stay))
    without = whole.forget(gone)
    assert without.model.design.n == len(stay)
    same(without, pr.fit(model(BOTH).at(stay)))
    of_moments = pr.fit(
        pr.Model.from_moments(model(NORTH).moments, model(SOUTH).moments)
    )
    left = of_moments.forget(pr.Model.from_moments(model(SOUTH).moments))
    np.testing.assert_allclose(left.coef, pr.fit(model(NORTH)).coef, rtol=1e-8)
    np.testing.assert_allclose(
        left.std_error, pr.fit(model(NORTH)).std_error, rtol=1e-8
    )
    # with groups that it had not met
    same(pr.fit(model(NORTH)).update(model(SOUTH)), whole)
    ml = pr.Evidence(criterion="ML")
    np.testing.assert_allclose(
        pr.fit(model(NORTH), ml).update(model(SOUTH)).coef,
        pr.fit(model(BOTH), ml).coef,
        rtol=1e-8,
    )
    assert rest.model.design.n == without.model.design.n
    with pytest.raises(pr.DataError, match="which the fit has not met"):
        pr.fit(model(NORTH)).update(SOUTH)


def test_moments_and_fits_of_them_come_back_from_files(tmp_path):
    moments = model(NORTH).moments
    path = moments.save(tmp_path / "north.json")
    assert "h3" in path.read_text()
    back = pr.Model.from_moments(path).moments
    assert all(
        (a == b).all() for a, b in zip(entries(back), entries(moments), strict=True)
    )
    assert back.origin == moments.origin
    fit = pr.fit(pr.Model.from_moments(path, model(SOUTH).moments))
    again = pr.load_fit(fit.save(tmp_path / "fit.nc"))
    same(pr.fit(again.solution.effect_scales.stated), fit, 1e-12)


def test_what_does_not_add_up_is_refused_by_name():
    north, south = model(NORTH).moments, model(SOUTH).moments
    with pytest.raises(
        pr.DataError,
        match=r"\(x \| g\) has no group '8', '9', '10', '.*' of g here",
    ):
        north - south
    with pytest.raises(pr.DataError, match="were not among these rows"):
        (
            model(NORTH[:20]).moments
            - model(NORTH).at(NORTH[:20]).moments
            - model(NORTH[:20]).moments
        )
    with pytest.raises(pr.DataError, match="give both the same terms"):
        model(NORTH, "y ~ x + (1 | g) + (1 | h)").moments + south
    with pytest.raises(pr.DataError, match="give both the same formula"):
        model(NORTH, "y ~ x").moments + south
    with pytest.raises(pr.DataError, match="give both the same formula"):
        south + model(NORTH, "y ~ x").moments
    learned = "y ~ center(x) + (1 | g)"
    with pytest.raises(pr.DataError, match="different levels, means or knots"):
        model(NORTH, learned).moments + model(SOUTH, learned).moments


def test_rows_by_the_block_are_taken_by_group(tmp_path):
    pytest.importorskip("pyarrow")
    BOTH.to_parquet(tmp_path / "rows.parquet")
    read = pr.Model.from_files(FORMULA, tmp_path / "rows.parquet")
    assert read.design.kept.inside.nnz < 24 * 24  # sparse: nothing of p x p
    same(pr.fit(read), pr.fit(model(BOTH)))
    for a, b in zip(entries(read.moments), entries(model(BOTH).moments), strict=True):
        np.testing.assert_allclose(a, b, rtol=1e-12, atol=1e-10)


def test_partitions_of_dask_are_taken_by_group():
    dd = pytest.importorskip("dask.dataframe")
    read = pr.Model.from_dask(
        FORMULA, dd.from_pandas(BOTH.reset_index(drop=True), npartitions=3)
    )
    same(pr.fit(read), pr.fit(model(BOTH)))
