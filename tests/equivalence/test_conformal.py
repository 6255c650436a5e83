"""Conformal intervals: the closed jackknife+ against n fits, the claimed share under exchangeable rows, sets of classes."""

import sys
from dataclasses import replace
from functools import partial
from typing import Any

import numpy as np
import pandas as pd
import pytest

import probreg as pr
from probreg.diagnostics.conformal import SCORES, JackknifePlus, Split, conformal
from probreg.diagnostics.conformal.conformal import ConformalRank, blocks
from probreg.priors import Normal
from tests.conftest import covering

Array = np.ndarray
NEW = np.array([[0.3, -0.2], [-1.0, 0.7], [3.0, -4.0]])
LIKELIHOODS: dict[str, Any] = {
    "gaussian": pr.Gaussian(),
    "student": pr.StudentT(nu=5.0),
    "poisson": pr.Poisson(),
    "bernoulli": pr.Bernoulli(),
    "categorical": pr.Categorical(),
}

PAIRS = [
    (n, s)
    for n, likelihood in LIKELIHOODS.items()
    for s in SCORES
    if SCORES[s]().suits(likelihood)
]


def drawn(name: str, n: int, rng: np.random.Generator) -> tuple[Array, Array]:
    likelihood, X = LIKELIHOODS[name], rng.normal(size=(n, 2))
    beta = np.array([[0.7, -0.3], [-0.5, 0.6]])[:, : likelihood.width]
    y = likelihood.sample(
        rng, 0.4 + X @ beta, **dict.fromkeys(likelihood.nuisance, 0.8)
    )
    return X, y.astype(int) if likelihood.levels else y


def model(name: str, n: int = 60, seed: int = 1, **more: Any) -> pr.Model:
    X, y = drawn(name, n, np.random.default_rng(seed))
    return pr.Model.from_arrays(X, y, likelihood=LIKELIHOODS[name], **more)


# ---- jackknife+ ----------------------------------------------------------------------------------------------------


def by_refits(
    fit: pr.Fit, new: Array, shift: Array | float, prob: float
) -> tuple[Array, Array]:
    """The definition: each row left out, the model fitted anew."""
    design, ends = fit.model.design, []
    for i in range(design.n):
        others = np.delete(np.arange(design.n), i)
        left = pr.fit(
            replace(fit.model, design=design.take(others)), "closed_form"
        ).solution.beta[:, 0]
        own = 0.0 if design.offset is None else design.offset[i, 0]
        miss = abs(design.observed[i] - own - design.X[i] @ left)
        mean = np.c_[np.ones(len(new)), new] @ left + shift
        ends.append((mean - miss, mean + miss))
    low, high = (
        np.sort([e[0] for e in ends], axis=0),
        np.sort([e[1] for e in ends], axis=0),
    )
    k = int(np.ceil((design.n + 1) * prob))
    return low[design.n - k], high[k - 1]


RIDGE: dict[str, dict[str, Any]] = {
    "flat": {},
    "relative": {"prior": Normal(0.3, sigma_units=True)},
    "location": {"prior": Normal(0.5, location=2.0, sigma_units=True)},
    "given": {"prior": Normal(0.3), "aux": {"sigma": 0.9}},
}


@pytest.mark.parametrize("name", RIDGE)
@pytest.mark.parametrize("offset", [False, True])
def test_the_closed_jackknife_is_that_of_all_refits(name, offset):
    n, at = 23, np.array([0.5, 0.0, -1.0])
    fit = pr.fit(
        model(
            "gaussian",
            n,
            offset=np.linspace(-1, 1, n) if offset else None,
            **RIDGE[name],
        )
    )
    found = conformal(fit, prob=0.8, kind="jackknife+").predict(
        NEW, **({"offset": at} if offset else {})
    )
    lower, upper = by_refits(fit, NEW, at if offset else 0.0, 0.8)
    np.testing.assert_allclose(found["lower"], lower, rtol=1e-10, atol=1e-10)
    np.testing.assert_allclose(found["upper"], upper, rtol=1e-10, atol=1e-10)


def test_the_jackknife_of_a_posterior_is_that_of_its_mean():
    one = model("gaussian", prior=Normal(0.3, sigma_units=True))
    ml, posterior = (
        conformal(pr.fit(one, m), kind="jackknife+").predict(NEW)
        for m in ("closed_form", "conjugate")
    )
    np.testing.assert_allclose(posterior["upper"], ml["upper"], rtol=1e-12)


def test_kernel_ridge_at_a_stated_weight_calibrates_on_its_rows():
    x, k = np.linspace(0.0, 5.0, 20), pr.kernels.RBF(1.0)
    y = np.sin(x) + 0.3 * np.cos(20.0 * x)
    given = {"kernel": k, "intercept": False}
    fit = pr.kernel_ridge(x, y, lam=0.5, **given)
    found = conformal(fit, prob=0.8, kind="jackknife+").predict([[2.2]])
    ends = []
    for i in range(20):
        left = np.delete(np.arange(20), i)
        alpha = np.linalg.solve(k(x[left]) + 0.5 * np.eye(19), y[left])
        miss = abs(y[i] - k(x[[i]], x[left]) @ alpha)
        ends.append(k(np.array([2.2]), x[left]) @ alpha + miss)
    # the 17th smallest, ceil(0.8 * 21)
    np.testing.assert_allclose(found["upper"], np.sort(ends, axis=0)[16], rtol=1e-7)
    with pytest.raises(pr.Incompatible, match="on all rows"):
        conformal(pr.kernel_ridge(x, y, radius=1.0, **given))
    tuned = pr.fit(pr.tune(fit.model, "loo").model)
    with pytest.raises(pr.Incompatible, match="on all rows"):
        conformal(tuned)


def test_a_weight_is_so_many_rows():
    X, y = drawn("gaussian", 12, np.random.default_rng(3))
    w = np.arange(12) % 3 + 1.0
    rows = np.repeat(np.arange(12), w.astype(int))
    short, long = (
        pr.Model.from_arrays(X, y, weights=w),
        pr.Model.from_arrays(X[rows], y[rows]),
    )
    for kind in ("jackknife+", Split(seed=4)):
        a, b = (conformal(pr.fit(m), prob=0.7, kind=kind) for m in (short, long))
        np.testing.assert_allclose(
            a.predict(NEW)["upper"], b.predict(NEW)["upper"], rtol=1e-10
        )
        assert any("weight w counts as w rows: 24 in all" in n for n in a.notes)


# ---- the share that is held ----------------------------------------------------------------------------------------


def shares(name: str, kind: Any, method: Any, n: int, reps: int) -> Array:
    """Share of 40 new rows that are held, one for each of `reps` data sets."""
    rng, out = np.random.default_rng(12), []
    for _ in range(reps):
        X, y = drawn(name, n, rng)
        new, at = drawn(name, 40, rng)
        fit = pr.fit(
            pr.Model.from_arrays(X, y, likelihood=LIKELIHOODS[name], prior=Normal(1.0)),
            method,
        )
        said = conformal(fit, prob=0.8, kind=kind).predict(new)
        inside = (
            said["set"].values[np.arange(40), at.astype(int)]
            if "set" in said
            else (said["lower"].values <= at) & (at <= said["upper"].values)
        )
        out.append(inside.mean())
    return np.array(out)


@pytest.mark.parametrize(("name", "score"), covering(PAIRS, lambda _, score: score))
def test_a_split_holds_at_least_its_share(name, score):
    """30 rows calibrate: at least k/(n + 1) = 25/31 = 0.806, and just that where no two scores are equal. Five standard
    errors of the mean of the data sets, each of about 0.09 / sqrt(40)."""
    found = shares(name, Split(score=score), "newton", 60, 40)
    error = found.std() / np.sqrt(len(found))
    assert found.mean() > 25 / 31 - 5 * error
    # counts have few values, so that an interval of whole numbers holds more
    if name != "poisson":
        assert found.mean() < 25 / 31 + 5 * error


@pytest.mark.slow
def test_a_split_holds_its_share_where_the_model_is_wrong():
    """A line through a sine with skewed noise that grows: the normal interval fails one side, the conformal share stands."""
    rng, held, reps = np.random.default_rng(2), [], 100
    for _ in range(reps):
        x = rng.uniform(-3, 3, 140)
        y = 3 * np.sin(2 * x) + rng.exponential(1 + np.abs(x)) ** 1.5
        said = conformal(pr.ols(x[:100, None], y[:100]), prob=0.9).predict(
            x[100:, None]
        )
        held.append(((said["lower"] <= y[100:]) & (y[100:] <= said["upper"])).mean())
    exact = ConformalRank(0.9, 50).k / 51
    assert np.mean(held) == pytest.approx(exact, abs=5 * np.std(held) / np.sqrt(reps))


@pytest.mark.slow
def test_the_jackknife_holds_its_share_where_the_estimate_is_stable():
    rng, held, reps = np.random.default_rng(5), [], 100
    for _ in range(reps):
        X, y = drawn("gaussian", 40, rng)
        new, at = drawn("gaussian", 40, rng)
        said = conformal(pr.ols(X, y), prob=0.8, kind=JackknifePlus()).predict(new)
        held.append(((said["lower"] <= at) & (at <= said["upper"])).mean())
    error = np.std(held) / np.sqrt(reps)
    # 0.01: near, not exact, by the theory
    assert np.mean(held) == pytest.approx(33 / 41, abs=0.01 + 5 * error)
    assert np.mean(held) > 0.6  # the guarantee


@pytest.mark.slow
def test_a_posterior_is_calibrated_by_its_predictive():
    found = shares(
        "poisson", Split(), pr.LaplaceApproximation(draws=200, chains=1), 60, 30
    )
    assert found.mean() > 25 / 31 - 5 * found.std() / np.sqrt(30)


# ---- scores and sets -----------------------------------------------------------------------------------------------


@pytest.mark.parametrize(("name", "score"), PAIRS)
def test_a_region_is_the_responses_with_no_more_than_the_score(name, score):
    found = conformal(pr.fit(model(name)), kind=Split(score=score), prob=0.8)
    said, p = found.predict(NEW), found.fit.predictive(NEW)
    chosen, most = SCORES[score](), found.most
    levels = LIKELIHOODS[name].levels
    for y in (
        range(len(said["level"]))
        if levels
        else np.linspace(-6, 12, 181 if name != "poisson" else 19)
    ):
        if not levels and name == "poisson" and y < 0:
            continue
        inside = chosen.of(p, np.full(3, float(y))) <= most
        expected = (
            said["set"].values[:, y]
            if levels
            else (said["lower"].values <= y) & (y <= said["upper"].values)
        )
        np.testing.assert_array_equal(inside, expected)


def test_sets_by_hand():
    """Scores 1 - p of four calibrating rows 0.2, 0.4, 0.5, 0.9 and prob 0.6: k = ceil(5 * 0.6) = 3, the score 0.5."""
    rank = ConformalRank(0.6, 4)
    assert (
        rank.k,
        rank.upper(np.array([0.9, 0.2, 0.5, 0.4])),
        rank.lower(np.array([0.9, 0.2, 0.5, 0.4])),
    ) == (
        3,
        0.5,
        0.4,
    )
    p = pr.fit(model("categorical")).predictive(NEW)
    shares = p.mean()
    np.testing.assert_array_equal(
        SCORES["probability"]().region(p, 0.6)["set"], 1 - shares <= 0.6
    )


def test_a_response_far_out_gives_the_whole_line():
    p = pr.fit(model("gaussian")).predictive(NEW)
    score = SCORES["pit"]()
    most = score.of(p, np.full(3, 1e6)).max()
    assert most == 0.5
    assert np.isinf(score.region(p, most)["upper"]).all()


# ---- rows kept apart, labels, words --------------------------------------------------------------------------------


def test_rows_kept_apart_calibrate_the_fit_as_it_stands():
    rng = np.random.default_rng(6)
    table = pd.DataFrame({"x": rng.normal(size=80)})
    table["g"] = np.where(table.x + rng.normal(size=80) > 0, "yes", "no")
    fit = pr.fit(pr.Model.from_formula("g ~ x", table[:40], likelihood="bernoulli"))
    found = conformal(fit, table[40:], prob=0.8)
    assert found.fit is fit
    assert found.count == 40
    p = fit.predict(table[40:])["mean"].values
    scores = np.sort(np.where(table.g[40:] == "yes", 1 - p, p))
    assert found.most == scores[int(np.ceil(41 * 0.8)) - 1]
    said = found.predict(table[:3])
    assert list(said["level"].values) == ["no", "yes"]
    np.testing.assert_allclose(said["mean"].sum("level"), 1.0, rtol=1e-15)


def test_exact_rows_calibrate_a_fit_to_censored_rows(tmp_path):
    time = np.arange(1.0, 13.0)
    rows = {"time": time, "event": time % 3 > 0, "x": np.sqrt(time)}
    model = pr.Model.from_formula("cens(time, event) ~ x", rows)
    fit = pr.load_fit(pr.fit(model).save(tmp_path / "fit.nc"))
    exact = {name: values[rows["event"]] for name, values in rows.items()}
    residual = np.abs(exact["time"] - fit.predict(exact)["mean"].values)
    rank = ConformalRank(0.8, len(residual)).k
    found = pr.conformal(fit, exact, prob=0.8).predict(exact)
    width = (found["upper"] - found["lower"]).values
    np.testing.assert_allclose(width, 2.0 * np.sort(residual)[rank - 1])
    with pytest.raises(pr.Incompatible, match="4 of 12 rows are censored"):
        pr.conformal(fit, rows)


def test_predictions_carry_labels_and_the_guarantee():
    table = pd.DataFrame(
        {"x": np.arange(30.0), "y": np.sin(np.arange(30.0))},
        index=[f"r{i}" for i in range(30)],
    )
    found = conformal(
        pr.fit(pr.Model.from_formula("y ~ x", table)), prob=0.8, kind="jackknife+"
    )
    said = found.predict(table.iloc[:2])
    assert list(said["obs"].values) == ["r0", "r1"]
    assert said.attrs["kind"] == "jackknife+"
    assert "at least 0.6 = 1 - 2 alpha" in said.attrs["guarantee"]
    assert "exchangeable" in repr(found)
    assert "<p>" in found._repr_html_()
    assert found.predict().sizes["obs"] == 30


def test_blocks_of_rows_change_nothing(monkeypatch):
    found = [
        conformal(pr.fit(model("poisson"))),
        conformal(pr.fit(model("gaussian")), kind="jackknife+"),
    ]
    new = np.random.default_rng(0).normal(size=(57, 2))
    whole = [f.predict(new) for f in found]
    monkeypatch.setattr(
        sys.modules["probreg.diagnostics.conformal.conformal"],
        "blocks",
        partial(blocks, most_numbers=20),
    )
    for f, expected in zip(found, whole):
        for part in expected.data_vars:  # products of other shapes round otherwise
            np.testing.assert_allclose(f.predict(new)[part], expected[part], rtol=1e-12)


def test_the_same_seed_deals_the_same_rows():
    fit = pr.fit(model("gaussian"))
    one, two, other = (conformal(fit, kind=Split(seed=s)).most for s in (1, 1, 2))
    assert one == two != other


def test_the_upper_limit_of_a_split_is_prob_and_one_of_the_next_count():
    """k = ceil((n + 1) prob) of n scores holds a new row with probability k / (n + 1) < prob + 1 / (n + 1)."""
    x = np.arange(40.0)
    found = conformal(
        pr.fit(pr.Model.from_arrays(x, x + np.sin(7 * x))),
        kind=pr.Split(share=0.5),
        prob=0.8,
    )
    assert found.count == 20
    assert f"at most {0.8 + 1 / 21:.4g} if no two scores" in found.guarantee
