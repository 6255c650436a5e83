"""Bounds against numbers computed by hand from their formulas, and on 442 patients whose response lies in [25, 346]."""

import numpy as np
import pytest

import probreg as pr
from probreg import bounds, kernels

PLAIN = {"risk": 0.0, "n": 10_000, "delta": 0.05}
BALL = PLAIN | {"norm": 10.0, "width": 1.0, "row_norm": 1.0}
KNOWN = [
    (bounds.finite(risk=0.0, n=1000, classes=100), 0.061647799878),
    (bounds.finite(risk=0.0, n=1000, classes=100, two_sided=True), 0.064397397619),
    (bounds.kernel(**BALL), 0.412238734153),
    (bounds.kernel(**BALL, epsilon=0.0), 0.212238734153),
    (bounds.l1(**PLAIN, norm=1.0, width=1.0, columns=10, largest=1.0), 0.110148607381),
    (bounds.pseudo_dimension(**PLAIN, dimension=11, form="textbook"), 0.197643044881),
]
# 3 (log 40 / 2m)^(1/2) at m = 10^4, the deviation of an empirical complexity: log(2 / delta), not log(1 / delta)
OF_ROWS = 3 * np.sqrt(np.log(40.0) / 20_000)


@pytest.mark.parametrize(
    ("found", "value"), KNOWN, ids=[found.theorem for found, _ in KNOWN]
)
def test_twelve_digits(found, value):
    assert abs(found.value - value) < 5e-13
    assert found.value == pytest.approx(
        found.empirical + found.complexity + found.deviation, rel=1e-14
    )


def test_the_tighter_form_of_the_pseudo_dimension():
    assert round(bounds.pseudo_dimension(**PLAIN, dimension=11).value, 4) == 0.1490
    of_losses = bounds.pseudo_dimension(**PLAIN, dimension=11, of="loss")
    # sqrt(2 d log(em/d) / m), half of 4 d under the root
    textbook = bounds.pseudo_dimension(**PLAIN, dimension=11, form="textbook")
    assert of_losses.complexity == pytest.approx(
        textbook.complexity / np.sqrt(2.0), rel=1e-14
    )


def test_empirical_complexities_pay_for_both_deviations():
    trace = {k: v for k, v in BALL.items() if k != "row_norm"} | {"trace": 10_000.0}
    for found, mu in (
        (bounds.kernel(**trace), 2.0),
        (bounds.kernel(**trace, epsilon=0.0), 1.0),
    ):
        assert found.complexity == pytest.approx(2 * mu * 10.0 / 100.0, rel=1e-14)
        assert found.deviation == pytest.approx(OF_ROWS, rel=1e-14)
    by_columns = bounds.l1(**PLAIN, norm=1.0, width=1.0, columns=10, column_norm=100.0)
    assert by_columns.complexity == pytest.approx(
        4 * np.sqrt(2 * np.log(20.0)) / 100.0, rel=1e-14
    )
    assert by_columns.deviation == pytest.approx(OF_ROWS, rel=1e-14)


def test_offsets_and_the_insensitive_width():
    assert bounds.kernel(**BALL, offset=2.0).value - bounds.kernel(
        **BALL
    ).value == pytest.approx(0.08, rel=1e-12)
    some = bounds.kernel(**BALL, offset=2.0, epsilon=0.25)
    assert some.complexity == pytest.approx(0.2 + 0.04, rel=1e-14)
    assert some.deviation == pytest.approx(
        0.75 * np.sqrt(np.log(20.0) / 20_000), rel=1e-14
    )  # M - eps, not M


def test_group_ball():
    found = bounds.group(**PLAIN, norm=2.0, width=3.0, groups=5, row_norm=0.5)
    assert found.complexity == pytest.approx(
        4 * 3.0 * 2.0 * 0.5 * (1 + np.sqrt(2 * np.log(5.0))) / 100, rel=1e-14
    )


def test_stability_of_support_vectors():
    # beta = r^2 / (lam m) = 4 / 50; M_u = B + r sqrt((B - eps) / lam) = 1 + 2 sqrt(0.8 / 0.5); M = M_u - eps.
    found = bounds.stability(
        risk=0.1, n=100, lam=0.5, row_norm=2.0, half_width=1.0, epsilon=0.2
    )
    chance = np.sqrt(np.log(20.0) / 200)
    assert found.complexity == pytest.approx(0.08 + 200 * 0.08 * chance, rel=1e-12)
    assert found.most == pytest.approx(0.8 + 2 * np.sqrt(1.6), rel=1e-12)
    assert found.deviation == pytest.approx(found.most * chance, rel=1e-12)


def test_hold_out_by_hand():
    losses = np.array([0.0, 1.0, 0.5, 0.5])
    # V = 1/6: sqrt(2 V log 40 / 4) + 7 log 40 / 9
    found = bounds.hold_out(losses)
    assert found.deviation == pytest.approx(
        np.sqrt(np.log(40.0) / 12) + 7 * np.log(40.0) / 9, rel=1e-14
    )


def test_pac_bayes_solves_its_equation():
    found = bounds.pac_bayes(risk=0.6, n=500, divergence=3.0, most=2.0)
    q, p = 0.3, found.value / 2
    assert q * np.log(q / p) + (1 - q) * np.log((1 - q) / (1 - p)) == pytest.approx(
        (3.0 + np.log(2 * np.sqrt(500) / 0.05)) / 500, rel=1e-12
    )
    # -log(1 - p) = log(40) / 50, nearly
    drawn = bounds.pac_bayes(risk=0.0, n=10**9, divergence=0.0, draws=50)
    assert drawn.value == pytest.approx(1 - np.exp(-np.log(40.0) / 50), rel=1e-3)


# ---- 442 patients: y - 185.5 with y in [25, 346], so that B = 160.5 and M = 321 ---------------------------------------


@pytest.fixture(scope="module")
def diabetes():
    datasets = pytest.importorskip("sklearn.datasets")
    rows, y = datasets.load_diabetes(return_X_y=True, scaled=False)
    return (rows - rows.mean(0)) / rows.std(0), y - 185.5


def test_what_each_bound_says_of_442_patients(diabetes):
    X, y = diabetes
    path = kernels.ridge_path(kernels.RBF(5.0)(X), y, offset=False)
    risk, small = path.rss(442.0)[0] / 442, 2647.1
    assert round(risk) == 5903
    ball = {"n": 442, "width": 321.0, "trace": 442.0}
    assert round(bounds.kernel(risk=risk, norm=160.5, **ball).value) == 35674
    # of a norm read off the fit, which is no guarantee
    assert round(bounds.kernel(risk=small, norm=300.684, **ball).value, 1) == 40979.8
    stable = bounds.stability(
        risk=risk, n=442, lam=1.0, row_norm=1.0, half_width=160.5, width=321.0
    )
    assert round(stable.value) == 60821
    linear = {"risk": 0.0, "n": 442, "dimension": 11, "most": 321.0**2}
    assert round(bounds.pseudo_dimension(**linear, form="textbook").value) == 76430
    assert round(bounds.pseudo_dimension(**linear).value) == 59352


def test_a_guarantee_of_442_patients(diabetes):
    X, y = diabetes
    fit = pr.kernel_ridge(X, y, kernel=kernels.RBF(5.0), lam=442.0, intercept=False)
    found = pr.guarantee(fit, (-160.5, 160.5), holdout=0.5)
    limits = {
        line.bound.theorem: line.bound for line in found.lines if line.bound is not None
    }
    assert round(limits["stability"].value) == 60821
    assert round(limits["kernel ball, trace of the rows"].value) == 35674
    hoeffding = next(
        line.bound
        for line in found.lines
        if line.bound and line.bound.source == "Hoeffding 1963"
    )
    assert round(hoeffding.deviation) == 8483
    assert found.held_out.bound.value < hoeffding.value
    linear = pr.guarantee(pr.ols(X, y + 185.5), (25, 346))
    dimension = next(
        line.bound for line in linear.lines if line.theorem == "pseudo-dimension 11"
    )
    assert round(dimension.value - dimension.empirical) == 59352


def test_hold_out_of_221_patients(diabetes):
    X, y = diabetes
    half = np.random.default_rng(0).permutation(442) < 221
    fit = kernels.ridge_path(kernels.RBF(5.0)(X[half]), y[half], offset=False)
    said = fit.predict(kernels.RBF(5.0)(X[~half], X[half]), 1.0)[0]
    losses = np.square(np.clip(said, -160.5, 160.5) - y[~half])
    assert (
        round(bounds.hold_out(losses, most=321.0**2, kind="hoeffding").deviation)
        == 8483
    )
    assert bounds.hold_out(losses, most=321.0**2).deviation == pytest.approx(
        4800, rel=0.02
    )


def test_complexities_of_442_patients(diabetes):
    X, _ = diabetes
    ball, l1, rbf = (
        bounds.kernel_complexity(X @ X.T),
        bounds.l1_complexity(X),
        bounds.kernel_complexity(kernels.RBF(np.sqrt(10.0))(X)),
    )
    # means of 10,000 draws: their standard errors are 4e-4, 2e-4 and 1e-4, and those of the numbers beside them alike
    np.testing.assert_allclose(
        [ball.empirical, l1.empirical, rbf.empirical],
        [0.1429, 0.0831, 0.0456],
        rtol=0.01,
    )
    np.testing.assert_allclose(
        [ball.most, l1.most, rbf.most], [0.1504, 0.1164, 0.0476], atol=5e-5
    )
    r, largest = np.sqrt(np.square(X).sum(1).max()), np.abs(X).max()
    assert round(r / np.sqrt(442), 4) == 0.3322
    assert round(largest * np.sqrt(2 * np.log(20) / 442), 4) == 0.4866
    assert [found.vacuous for found in (ball, l1, rbf)] == [False] * 3
