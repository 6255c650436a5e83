"""Laws of scoring rules: the truth costs least in every proper one, parts add up, closed forms equal their integrals."""

from typing import Any

import numpy as np
import pandas as pd
import pytest
from scipy import integrate, stats

import probreg as pr
from probreg import scores
from probreg.scores import RULES
from probreg.show.plot.reliability import consistent, reliability

from .cases import own
from .texts import unfolded

Array = np.ndarray
PROPER = [k for k, r in RULES.items() if r.proper != "no"]
STRICT = [k for k, r in RULES.items() if r.proper == "strictly"]
ROUNDING = 1e-12  # sums of up to 1,000 terms of order 1: a few thousand units of rounding at most
PUBLIC = {
    "log": scores.log_score,
    "brier": scores.brier,
    "spherical": scores.spherical,
    "zero_one": scores.zero_one,
    "absolute": scores.absolute,
}
# a rule is called as its function is
FUNCTIONS: dict[str, Any] = {name: rule() for name, rule in RULES.items()} | PUBLIC


def distributions(rng: np.random.Generator, size: int, k: int) -> Array:
    """Random distributions over k outcomes, some of them with outcomes of probability zero."""
    p = rng.dirichlet(np.full(k, 0.7), size)
    p[: size // 5, 0] = 0.0
    return p / p.sum(1, keepdims=True)


def days(rng: np.random.Generator, n: int = 400) -> tuple[Array, Array, Array]:
    """Outcomes, forecasts in tenths that are off by some, and the true probabilities."""
    truth = rng.uniform(0.05, 0.95, n)
    said = np.clip(np.round(truth + 0.1 * rng.normal(size=n), 1), 0.1, 0.9)
    return (rng.random(n) < truth).astype(int), said, truth


def test_the_functions_are_the_registered_rules():
    assert set(PUBLIC) == set(own(RULES))


@pytest.mark.parametrize("k", [2, 3, 6])
@pytest.mark.parametrize("rule", PROPER)
def test_no_forecast_beats_the_truth(rng, rule, k):
    truth, other = distributions(rng, 1000, k), distributions(rng, 1000, k)
    near = truth + 0.01 * (other - truth)  # so that a wrong slope at the truth shows
    for forecast in (other, near):
        assert (scores.divergence(rule, truth, forecast=forecast) >= -ROUNDING).all()
    np.testing.assert_allclose(
        scores.divergence(rule, truth, forecast=truth), 0.0, atol=0.0
    )


@pytest.mark.parametrize("rule", STRICT)
def test_a_strictly_proper_rule_is_minimised_at_the_truth_alone(rng, rule):
    truth = rng.uniform(0.02, 0.98, 50)
    grid = np.linspace(0.0, 1.0, 1001)
    table = np.stack(
        [scores.expected(rule, truth, forecast=np.full(50, h)) for h in grid]
    )
    # half a step of the grid
    np.testing.assert_allclose(grid[table.argmin(0)], truth, atol=0.0005 + ROUNDING)
    assert (
        scores.divergence(rule, truth, forecast=np.clip(truth + 1e-3, 0, 1)) > 0
    ).all()


def test_zero_one_loss_is_proper_and_not_strictly():
    at = scores.expected("zero_one", [0.7] * 3, forecast=[0.51, 0.7, 0.99])
    np.testing.assert_allclose(at, 0.3, atol=ROUNDING)
    assert float(scores.expected("zero_one", 0.7, forecast=0.49)) == pytest.approx(0.7)


def test_absolute_loss_is_improper(rng):
    truth = rng.uniform(0.05, 0.95, 200)
    honest = scores.expected("absolute", truth, forecast=truth)
    bold = scores.expected("absolute", truth, forecast=np.round(truth))
    assert (bold < honest).all()
    grid = np.linspace(0.0, 1.0, 101)
    best = np.array(
        [
            grid[scores.expected("absolute", np.full(101, p), forecast=grid).argmin()]
            for p in truth
        ]
    )
    assert set(best) == {0.0, 1.0}  # its minimiser is 0 or 1, whatever one believes
    with pytest.raises(pr.Incompatible, match="improper"):
        scores.decompose([0, 1], [0.2, 0.8], rule="absolute")


@pytest.mark.parametrize("rule", list(RULES))
def test_the_expected_score_is_the_mean_over_outcomes(rng, rule):
    p, h = (
        distributions(rng, 30, 4)[10:],
        distributions(rng, 30, 4)[10:],
    )  # without zeros, whose log loss is infinite
    by_hand = sum(p[:, k] * FUNCTIONS[rule](np.full(20, k), h) for k in range(4))
    np.testing.assert_allclose(
        scores.expected(rule, p, forecast=h), by_hand, rtol=ROUNDING
    )


@pytest.mark.parametrize("rule", list(RULES))
def test_an_event_is_two_classes(rng, rule):
    y, p = rng.integers(0, 2, 100), rng.uniform(size=100)
    both = FUNCTIONS[rule](y, np.stack([1 - p, p], 1))
    # whose sum over both classes counts the event twice
    half = 0.5 if rule in ("brier", "absolute") else 1.0
    np.testing.assert_allclose(
        FUNCTIONS[rule](y, p), half * both, rtol=ROUNDING, atol=0.0
    )


def test_values_by_hand():
    np.testing.assert_allclose(
        scores.brier([1, 1], [0.7, 0.8]), [0.09, 0.04], rtol=1e-14
    )  # applicants A and B, and rain
    np.testing.assert_allclose(
        scores.log_score([0], [[0.25, 0.75]]), np.log(4.0), rtol=1e-14
    )
    np.testing.assert_allclose(
        scores.spherical([1], [0.6]), 1 - 0.6 / np.sqrt(0.52), rtol=1e-14
    )
    np.testing.assert_allclose(
        scores.zero_one([0, 2], [[0.4, 0.4, 0.2], [0.4, 0.4, 0.2]]), [0.5, 1.0]
    )
    np.testing.assert_allclose(scores.absolute([2], [[0.2, 0.2, 0.6]]), 0.8, rtol=1e-14)
    assert scores.brier(1, 0.8).shape == ()


def test_what_was_called_impossible_costs_infinity_and_nothing_where_it_does_not_happen():
    assert scores.log_score([1, 0], [0.0, 0.0]).tolist() == [np.inf, 0.0]
    assert float(scores.expected("log", 0.0, forecast=0.0)) == 0.0
    assert float(scores.divergence("log", 0.5, forecast=0.0)) == np.inf
    found = scores.decompose([0, 0, 1, 1], [0.0, 0.0, 0.5, 0.5], rule="log")
    assert np.isfinite(found.score)
    impossible = scores.decompose([0, 1, 1, 1], [0.0, 0.0, 0.5, 0.5], rule="log")
    assert (impossible.score, impossible.calibration, impossible.within) == (
        np.inf,
        np.inf,
        0.0,
    )


def test_the_log_score_of_a_fit_is_minus_its_log_likelihood():
    orings = pr.load_dataset("challenger")
    fit = pr.fit(
        pr.Model.from_formula("damage ~ temperature", orings, likelihood="bernoulli")
    )
    total = scores.log_score(fit.model.design.observed, fit.predictive().mean()).sum()
    np.testing.assert_allclose(total, -fit.log_likelihood, rtol=ROUNDING)


# ---- decompositions ----------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("k", [None, 3])
@pytest.mark.parametrize("rule", PROPER)
def test_goal_is_observed_less_intrinsic_less_chance(rng, rule, k):
    n = 300
    if k is None:
        p, h = rng.uniform(0.02, 0.98, (2, n))
        y = (rng.random(n) < p).astype(int)
    else:
        p, h = distributions(rng, n, k)[100:], distributions(rng, n, k)[100:]
        y = (p.cumsum(1) < rng.random((len(p), 1))).sum(1)
    found = scores.goal(y, h, truth=p, rule=rule)
    assert found.goal == pytest.approx(
        found.observed - found.intrinsic - found.chance, abs=ROUNDING
    )
    assert found.goal == pytest.approx(
        scores.divergence(rule, p, forecast=h).mean(), abs=ROUNDING
    )
    assert abs(found.chance) < 4 * found.chance_error  # one in 16,000


def test_the_goal_of_the_brier_score_is_the_squared_distance(rng):
    y, h, p = days(rng)
    found = scores.goal(y, h, truth=p)
    assert found.goal == pytest.approx(((h - p) ** 2).mean(), abs=ROUNDING)
    assert found.observed == pytest.approx(((h - y) ** 2).mean(), abs=ROUNDING)
    assert found.intrinsic == pytest.approx(((p - y) ** 2).mean(), abs=ROUNDING)
    assert found.chance == pytest.approx(2 * ((h - p) * (p - y)).mean(), abs=ROUNDING)


def test_in_expectation_chance_is_zero_exactly():
    """E over y given p, by weighing both outcomes: the identity of the textbook."""
    p, h = np.array([0.2, 0.5, 0.9]), np.array([0.3, 0.4, 0.6])
    chance = sum(
        w * scores.goal([y], [b], truth=[a]).chance
        for a, b in zip(p, h)
        for y, w in ((1, a), (0, 1 - a))
    )
    assert chance == pytest.approx(0.0, abs=1e-16)


@pytest.mark.parametrize("weighted", [False, True])
@pytest.mark.parametrize("bins", [None, 1, 7, (0.25, 0.5, 0.75)])
@pytest.mark.parametrize("rule", PROPER)
def test_the_parts_of_a_mean_score_add_up(rng, rule, bins, weighted):
    y, h, _ = days(rng)
    h = h if bins is None else np.clip(h + rng.uniform(-0.04, 0.04, len(h)), 0, 1)
    w = rng.integers(0, 4, len(y)) if weighted else None
    d = scores.decompose(y, h, rule=rule, bins=bins, weights=w)
    assert d.score == pytest.approx(
        np.average(FUNCTIONS[rule](y, h), weights=w), abs=ROUNDING
    )
    assert d.score == pytest.approx(
        d.calibration + d.refinement + d.within, abs=ROUNDING
    )
    assert d.score == pytest.approx(
        d.calibration - d.resolution + d.uncertainty + d.within, abs=ROUNDING
    )
    assert min(d.calibration, d.resolution, d.uncertainty) >= -ROUNDING
    assert (
        (d.within == 0.0) if bins is None else (abs(d.within) > 0 or rule == "zero_one")
    )
    assert d.count.sum() == (len(y) if w is None else w.sum())


def test_murphys_decomposition_by_hand(rng):
    y, h, _ = days(rng)
    d = scores.decompose(y, h)
    values = np.unique(h)
    share = np.array([(h == v).mean() for v in values])
    o = np.array([y[h == v].mean() for v in values])
    np.testing.assert_array_equal(d.forecast, values)
    np.testing.assert_allclose(d.observed, o, rtol=ROUNDING)
    assert d.calibration == pytest.approx(share @ (values - o) ** 2, abs=ROUNDING)
    assert d.refinement == pytest.approx(share @ (o * (1 - o)), abs=ROUNDING)
    assert d.resolution == pytest.approx(share @ (o - y.mean()) ** 2, abs=ROUNDING)
    assert d.uncertainty == pytest.approx(y.mean() * (1 - y.mean()), abs=ROUNDING)


def test_the_log_score_decomposes_into_divergence_and_entropy(rng):
    y, h, _ = days(rng)
    d = scores.decompose(y, h, rule="log")
    share, o, v = d.count / len(y), d.observed, d.forecast
    kl = np.array([stats.entropy([a, 1 - a], [b, 1 - b]) for a, b in zip(o, v)])
    assert d.calibration == pytest.approx(share @ kl, abs=ROUNDING)
    assert d.refinement == pytest.approx(
        share @ stats.entropy([o, 1 - o]), abs=ROUNDING
    )


def test_within_bins_is_variance_less_twice_the_covariance(rng):
    y, _, h = days(rng)
    d = scores.decompose(y, h, bins=5)
    bins = np.split(np.argsort(h), np.cumsum(d.count).astype(int)[:-1])
    by_hand = sum(
        ((h[b] - h[b].mean()) ** 2).sum() - 2 * ((h[b] - h[b].mean()) * y[b]).sum()
        for b in bins
    ) / len(y)
    assert d.within == pytest.approx(by_hand, abs=ROUNDING)


def test_repeated_rows_of_classes_are_groups(rng):
    rows = np.array([[0.2, 0.3, 0.5], [0.6, 0.3, 0.1], [1 / 3, 1 / 3, 1 / 3]])
    which = rng.integers(0, 3, 200)
    y = (rows[which].cumsum(1) < rng.random((200, 1))).sum(1).clip(0, 2)
    for rule in PROPER:
        d = scores.decompose(y, rows[which], rule=rule)
        assert d.forecast.shape == d.observed.shape == (3, 3)
        assert d.within == 0.0
        assert d.score == pytest.approx(d.calibration + d.refinement, abs=ROUNDING)


def test_a_forecast_of_the_overall_share_has_uncertainty_alone():
    y = np.array([1, 0, 0, 1, 1])
    d = scores.decompose(y, np.full(5, 0.6))
    assert (d.calibration, d.resolution) == (
        pytest.approx(0.0, abs=1e-16),
        pytest.approx(0.0, abs=1e-16),
    )
    assert d.score == pytest.approx(0.24)
    assert "hardly any forecast repeats" in str(
        scores.decompose([0, 1, 1], [0.1, 0.2, 0.3])
    )


# ---- numbers -----------------------------------------------------------------------------------------------------------


def crps_by_quadrature(law: Any, y: float) -> float:
    inside = {"epsabs": 1e-12, "epsrel": 1e-12, "limit": 200}
    below = integrate.quad(lambda x: law.cdf(x) ** 2, -np.inf, y, **inside)[0]
    return below + integrate.quad(lambda x: law.sf(x) ** 2, y, np.inf, **inside)[0]


@pytest.mark.parametrize("y", [-3.0, 0.4, 1.0, 6.0])
def test_crps_of_the_normal_is_its_integral(y):
    law = stats.norm(1.0, 0.8)
    assert float(scores.crps_normal(y, 1.0, sd=0.8)) == pytest.approx(
        crps_by_quadrature(law, y), abs=1e-9
    )


@pytest.mark.parametrize("df", [1.6, 4.0, 60.0])
@pytest.mark.parametrize("y", [-3.0, 1.0, 6.0])
def test_crps_of_student_t_is_its_integral(y, df):
    law = stats.t(df, 1.0, 0.8)
    # the integrand falls as x^(-2 df): quad gives about so many digits
    tol = 1e-6 if df < 2 else 1e-9
    assert float(scores.crps_student(y, 1.0, scale=0.8, df=df)) == pytest.approx(
        crps_by_quadrature(law, y), abs=tol
    )


def test_student_t_of_many_degrees_is_normal():
    y = np.linspace(-3, 3, 7)
    t, normal = (
        scores.crps_student(y, 0.2, scale=1.5, df=1e8),
        scores.crps_normal(y, 0.2, sd=1.5),
    )
    # they differ by O(1/df); lgamma of 5e7 keeps eight digits
    np.testing.assert_allclose(t, normal, atol=1e-7)


def test_crps_of_draws_is_the_mean_distance_less_half_the_spread(rng):
    x, y = rng.normal(size=(40, 3)) + 1e6, np.array([0.0, 1.0, -2.0]) + 1e6
    pairs = np.abs(x[:, None] - x[None])
    np.testing.assert_allclose(
        scores.crps_sample(y, x),
        np.abs(x - y).mean(0) - pairs.mean((0, 1)) / 2,
        atol=1e-9,
    )  # distances of order 1 from numbers of order 1e6 keep ten digits
    fair = np.abs(x - y).mean(0) - pairs.sum((0, 1)) / (2 * 40 * 39)
    np.testing.assert_allclose(scores.crps_sample(y, x, fair=True), fair, atol=1e-9)
    # one draw: the absolute error
    np.testing.assert_allclose(scores.crps_sample([2.0], [[0.5]]), [1.5])


def test_fair_crps_of_draws_is_unbiased(rng):
    draws = rng.normal(size=(5, 40_000))
    found = scores.crps_sample(np.full(40_000, 0.5), draws, fair=True)
    exact = float(scores.crps_normal(0.5, 0.0, sd=1.0))
    assert abs(found.mean() - exact) < 4 * found.std() / 200.0
    plain = scores.crps_sample(np.full(40_000, 0.5), draws)
    # five draws are too wide a guess
    assert plain.mean() - exact > 8 * plain.std() / 200.0


def test_crps_is_twice_the_integral_of_the_pinball_loss():
    law, y = stats.norm(0.3, 1.7), 1.1
    half = integrate.quad(
        lambda a: float(scores.pinball(y, law.ppf(a), prob=a)),
        0,
        law.cdf(y),
        epsabs=1e-12,
    )[0]
    half += integrate.quad(
        lambda a: float(scores.pinball(y, law.ppf(a), prob=a)),
        law.cdf(y),
        1,
        epsabs=1e-12,
    )[0]
    assert 2 * half == pytest.approx(
        float(scores.crps_normal(y, 0.3, sd=1.7)), abs=1e-8
    )


@pytest.mark.parametrize("prob", [0.5, 0.8, 0.95])
def test_the_interval_score_is_the_sum_of_two_pinball_losses(rng, prob):
    y, (low, high) = rng.normal(size=50), np.sort(rng.normal(size=(2, 50)), axis=0)
    alpha = 1 - prob
    ends = scores.pinball(y, low, prob=alpha / 2) + scores.pinball(
        y, high, prob=1 - alpha / 2
    )
    np.testing.assert_allclose(
        scores.interval_score(y, (low, high), prob=prob), 2 / alpha * ends, rtol=1e-12
    )


def test_quantiles_and_intervals_are_elicited_by_their_scores():
    law = stats.gamma(2.0)  # skew, so that no symmetry helps
    y = law.ppf((np.arange(20_000) + 0.5) / 20_000)
    grid = np.linspace(0.05, 7.0, 400)
    for prob in (0.1, 0.5, 0.9):
        best = grid[np.argmin([scores.pinball(y, q, prob=prob).mean() for q in grid])]
        assert best == pytest.approx(law.ppf(prob), abs=0.02)  # a step of the grid
    central = scores.interval_score(y, tuple(law.ppf([0.05, 0.95])), prob=0.9).mean()
    shortest = scores.interval_score(y, (0.08, 4.2), prob=0.9).mean()
    assert central < shortest


def test_crps_is_proper(rng):
    mean, sd = rng.normal(size=30), rng.uniform(0.3, 3.0, 30)
    y = stats.norm.ppf((np.arange(4000) + 0.5) / 4000)
    honest = scores.crps_normal(y, 0.0, sd=1.0).mean()
    others = scores.crps_normal(y[:, None], mean, sd=sd).mean(0)
    assert (others > honest).all()


# ---- two forecasters ---------------------------------------------------------------------------------------------------


def test_the_t_interval_is_that_of_the_differences(rng):
    a, b = rng.uniform(size=(2, 40))
    found = scores.compare_scores({"A": a, "B": b}, prob=0.9)
    ends = stats.t.interval(0.9, 39, (a - b).mean(), stats.sem(a - b))
    np.testing.assert_allclose(found.t_interval, ends, rtol=1e-12)
    assert found.hoeffding is None
    assert found.difference == pytest.approx(a.mean() - b.mean())


def test_weights_are_repeated_days(rng):
    y, h, p = days(rng, 50)
    w = rng.integers(0, 4, 50)
    once = scores.compare_forecasts(y, {"A": h, "B": p}, weights=w)
    again = scores.compare_forecasts(
        *(np.repeat(v, w) for v in (y,)), {"A": np.repeat(h, w), "B": np.repeat(p, w)}
    )
    np.testing.assert_allclose(once.t_interval, again.t_interval, rtol=1e-12)
    np.testing.assert_allclose(once.hoeffding, again.hoeffding, rtol=1e-12)
    assert once.n == again.n == w.sum()


def test_hoeffdings_interval_of_the_brier_score_is_by_the_distance_of_the_forecasts(
    rng,
):
    y, h, p = days(rng, 200)
    found = scores.compare_forecasts(y, {"A": h, "B": p}, prob=0.95)
    half = np.sqrt(np.log(2 / 0.05) / 2 * (4 * (h - p) ** 2).sum()) / 200
    np.testing.assert_allclose(
        np.subtract(found.hoeffding, found.difference), [-half, half], rtol=1e-10
    )
    infinite = scores.compare_forecasts(
        [1, 0], {"A": [0.5, 0.0], "B": [0.5, 0.5]}, rule="log"
    )
    assert infinite.hoeffding == (
        -np.inf,
        np.inf,
    )  # the log score has no bound where 0 is said


def test_hoeffding_covers_at_any_size_and_the_t_interval_with_many_days():
    rng = np.random.default_rng(11)
    p = np.r_[np.full(8, 0.03), np.full(22, 0.5)]
    a, b = np.clip(p + 0.1, 0, 1), np.clip(p - 0.02, 0, 1)
    true = (
        scores.expected("brier", p, forecast=a)
        - scores.expected("brier", p, forecast=b)
    ).mean()
    cover = {"t": 0, "hoeffding": 0}
    for _ in range(400):
        found = scores.compare_forecasts(
            (rng.random(30) < p).astype(int), {"A": a, "B": b}, prob=0.9
        )
        cover["t"] += found.t_interval[0] <= true <= found.t_interval[1]
        cover["hoeffding"] += found.hoeffding[0] <= true <= found.hoeffding[1]
    # at least 0.9, less three binomial errors of 6
    assert cover["hoeffding"] >= 0.9 * 400 - 3 * 6
    # nearly: 30 days are not quite normal
    assert abs(cover["t"] - 0.9 * 400) < 4 * 6 + 12


def test_one_day_tells_nothing():
    found = scores.compare_forecasts([1], {"A": [0.7], "B": [0.8]})
    assert found.difference == pytest.approx(0.05)
    assert found.t_interval == (-np.inf, np.inf)
    (said,) = unfolded(found)
    assert "none from one row" in said
    assert "on the same row;" in said
    assert "do not tell them apart" in said


def test_the_sentence_names_the_better_one_and_how_sure_that_is(rng):
    p = rng.uniform(0.1, 0.9, 3000)
    y = (rng.random(3000) < p).astype(int)
    found = scores.compare_forecasts(y, {"guesser": np.full(3000, 0.5), "knower": p})
    assert found.verdict == "knower is better, by both intervals"
    assert "guesser - knower: 0.0" in str(found)
    assert scores.compare_scores(
        {"A": [0.1, 0.11, 0.12], "B": [0.3, 0.31, 0.33]}
    ).verdict.startswith("A is better")
    few = scores.compare_scores(
        {"A": [0.1, 0.11, 0.12], "B": [0.3, 0.31, 0.33]}, span=2.0
    )
    assert few.verdict == "A is better by the t interval only"


def test_skill_is_the_share_of_the_reference_that_is_saved(rng):
    y, h, _ = days(rng)
    climate = scores.brier(y, np.full(len(y), y.mean()))
    assert scores.skill(climate, climate) == 0.0
    assert scores.skill(np.zeros(len(y)), climate) == 1.0
    d = scores.decompose(y, h)
    # Murphy's form of the Brier skill score
    by_parts = (d.resolution - d.calibration) / d.uncertainty
    assert scores.skill(scores.brier(y, h), climate) == pytest.approx(
        by_parts, abs=ROUNDING
    )


# ---- faults ------------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("call", "words"),
    [
        (lambda: scores.brier([0, 1], [0.2, 1.2]), r"between 0 and 1, and the forecast is 1.2 in row 1"),
        (lambda: scores.brier([0, 1], [20, 70]), r"the forecast is 20 in row 0 \(2 such\); 70 % is written 0.7"),
        (lambda: scores.log_score([0, 1], [0.2, np.nan]), "the forecast is nan in row 1"),
        (lambda: scores.brier([0.3, 0.9], [0, 1]), "an outcome is 0 or 1, and y is 0.3 in row 0 .* y comes first"),
        (lambda: scores.brier([0, 3], [[0.5, 0.5], [0.2, 0.8]]), "a class 0 to 1, and y is 3 in row 1"),
        (lambda: scores.log_score([0, 0], [[0.5, 0.5], [0.2, 0.7]]), "sum is 0.9 in row 1"),
        (lambda: scores.log_score([0], [[-0.1, 1.1]]), "the forecast is -0.1 in row 0, column 0"),
        (lambda: scores.brier([0, 1, 1], [0.5, 0.5]), r"shape \(3,\) and the forecast \(2,\)"),
        (lambda: scores.brier(["no"], [0.5]), "y == 'no'"),
        (lambda: scores.expected("brier", [0.5], forecast=[0.5, 0.5]), "expected equal shapes"),
        (lambda: scores.expected("bryer", [0.5], forecast=[0.5]), "did you mean 'brier'"),
        (lambda: scores.crps_normal([0.0, 1.0], 0.0, sd=[1.0, 0.0]), "sd is 0 in row 1"),
        (lambda: scores.crps_student(0.0, 0.0, scale=1.0, df=1.0), "df is greater than 1, and df is 1"),
        (lambda: scores.crps_sample([0.0, 1.0], np.zeros((2, 5))), "draws come first"),
        (lambda: scores.interval_score([0.0], ([1.0], [0.0])), "upper - lower is -1 in row 0"),
        (lambda: scores.pinball([0.0], [1.0], prob=95), "prob is 95; for 95 % write prob=0.95"),
        (lambda: scores.pinball([0.0, 1.0], [1.0, 2.0, 3.0], prob=0.5), r"y \(2,\), quantile \(3,\)"),
        (lambda: scores.decompose([0], [[0.2, 0.3, 0.5]], bins=3), "one class against the rest"),
        (lambda: scores.decompose([0, 1], [0.2, 0.5], bins=[0.5, 0.2]), "rising order"),
        (lambda: scores.decompose([0, 1], [0.2, 0.5], weights=[1, -1]), "weights is -1 in row 1"),
        (lambda: scores.skill([0.1], [0.0]), "mean score of the reference is 0"),
        (lambda: scores.compare_forecasts([1], {"A": [0.5]}), "two names"),
        (lambda: scores.compare_scores({"A": [0.1, np.inf], "B": [0.1, 0.2]}), "the score of A is inf in row 1"),
        (lambda: scores.compare_scores({"A": [0.1, 0.2], "B": [0.1]}), r"A has .* \(2,\) and B \(1,\)"),
        (lambda: scores.compare_scores({"A": [], "B": []}), "at least one"),
        (lambda: scores.compare_scores({"A": [[0.1]], "B": [[0.2]]}), r"the score of A is one number per row, got shape \(1, 1\)"),
        (lambda: scores.compare_forecasts([1], {"A": [[0.2, 0.8]], "B": [[0.2, 0.3, 0.5]]}), r"A has .* \(1, 2\) and B of \(1, 3\)"),
        (lambda: scores.compare_forecasts([1], {"A": [0.8], "B": [[0.2, 0.8]]}), r"A has .* \(1,\) and B of \(1, 2\)"),
        (lambda: scores.skill([0.1, 0.2], [0.1]), r"\(2,\) and \(1,\)"),
        (lambda: scores.goal(1, 0.5, truth=0.5), r"one per row, got shape \(\)"),
        (lambda: scores.decompose([], []), r"at least one, got shape \(0,\)"),
        (lambda: scores.decompose([0, 1], [0.2, 0.5], weights=[1]), r"expected shape \(2,\), got \(1,\)"),
        (lambda: scores.decompose([0, 1], [0.2, 0.5], weights=[0, 0]), "weights sum to zero"),
        (lambda: scores.crps_sample([0.0], [[1.0]], fair=True), "2 or more draws, got 1"),
        (lambda: scores.brier([0], [[1.0]]), r"two or more columns, got .* \(1, 1\)"),
    ],
)  # fmt: skip
def test_bad_input_names_the_row_and_the_value(call, words):
    with pytest.raises(pr.ProbregError, match=words):
        call()


# ---- the picture -------------------------------------------------------------------------------------------------------


def test_the_reliability_diagram_shows_the_groups_of_the_decomposition(rng):
    y, tenths, truth = days(rng)
    fig = reliability(y, {"in tenths": tenths, "exact": truth}, event="rain")
    fig.draw_without_rendering()
    tops = fig.axes[:2]
    assert [ax.get_title(loc="left") for ax in tops] == ["in tenths", "exact"]
    assert fig.axes[2].get_xlabel() == "forecast probability of rain"
    for ax, found in zip(
        tops, (scores.decompose(y, tenths), scores.decompose(y, truth, bins=10))
    ):
        points = next(line for line in ax.lines if line.get_marker() == "o")
        np.testing.assert_allclose(points.get_xdata(), found.forecast, rtol=ROUNDING)
        np.testing.assert_allclose(points.get_ydata(), found.observed, rtol=ROUNDING)
        assert f"Brier {found.score:.3f}" in ax.texts[0].get_text()
    bars = sum(p.get_height() for p in fig.axes[2].patches)
    assert bars == len(y)  # every forecast is counted once


def test_bars_of_the_diagram_hold_the_shares_of_right_forecasts(rng):
    p = np.repeat([0.1, 0.3, 0.5, 0.8], 60)
    inside = np.zeros(4)
    for _ in range(500):
        found = scores.decompose((rng.random(240) < p).astype(int), p)
        lower, upper = consistent(found, 0.9)
        inside += (found.observed >= lower) & (found.observed <= upper)
    # central binomial intervals hold at least 0.9, and hardly more than 0.96 of 60; three errors of 500 are 0.04
    assert (inside / 500 > 0.9 - 0.04).all()
    assert (inside / 500 < 0.96 + 0.04).all()


def test_a_fit_and_classes_have_their_panels():
    orings = pr.load_dataset("challenger")
    fit = pr.fit(
        pr.Model.from_formula("damage ~ temperature", orings, likelihood="bernoulli")
    )
    assert reliability(fit).axes[1].get_xlabel() == "predicted P(damage = 1)"
    classes = reliability(
        [0, 1, 2, 1],
        [[0.2, 0.3, 0.5], [0.6, 0.3, 0.1], [0.1, 0.2, 0.7], [0.1, 0.8, 0.1]],
    )
    titles = [ax.get_title(loc="left") for ax in classes.axes if ax.get_visible()]
    assert titles[:3] == ["class 0", "class 1", "class 2"]
    with pytest.raises(pr.Incompatible, match="diagnose"):
        reliability(
            pr.fit(pr.Model.from_arrays(np.arange(5.0), [1.0, 2.0, 2.5, 4.0, 6.0]))
        )
    with pytest.raises(pr.DataError, match=r"the forecast is 1\.5 in row 0"):
        reliability([1, 0], [1.5, 0.5])
    with pytest.raises(pr.DataError, match="forecasts are missing"):
        reliability([1, 0])
    with pytest.raises(pr.DataError, match="pass the Fit alone"):
        reliability(fit, [0.5])


def test_levels_as_text_are_answered_and_event_names_one() -> None:
    y, p = np.array(["no", "yes", "yes", "no"]), np.array([0.2, 0.7, 0.4, 0.6])
    for values in (y, y.tolist(), pd.Series(y)):
        with pytest.raises(pr.DataError, match="y == 'no'"):
            scores.brier(values, p)
    text, number = (
        reliability(outcomes, p, event="yes").axes[0].lines
        for outcomes in (y, y == "yes")
    )
    for line, other in zip(text, number, strict=True):
        np.testing.assert_array_equal(line.get_xydata(), other.get_xydata())


def test_forecasts_as_objects_are_numbers():
    from decimal import Decimal

    p = np.array([0.25, 0.5, 0.75])
    expected = pr.scores.brier([0, 1, 1], p)
    for values in (p.astype(object), [Decimal(str(v)) for v in p]):
        np.testing.assert_array_equal(pr.scores.brier([0, 1, 1], values), expected)
