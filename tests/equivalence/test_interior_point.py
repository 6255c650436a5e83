"""Piecewise linear losses with a normal prior: known answers, linear programming, certificates, and data that degenerate."""

import numpy as np
import pytest
from scipy.optimize import linprog

from probreg.errors import DataError, Incompatible
from probreg.inference.penalized import kink_mode
from probreg.inference.penalized.dual_coordinate import dual_coordinate
from probreg.inference.penalized.kink_mode import (
    PiecewiseLinear,
    flat_interval,
    solve_piecewise_linear,
)
from probreg.inference.penalized.kink_systems import ByRows
from probreg.inference.penalized.kinks import KinkProblem


def mode(X, y, up, down, epsilon, P, **options):
    return solve_piecewise_linear(
        X, y, PiecewiseLinear(up, down, epsilon), P, np.zeros(X.shape[1]), **options
    )


# Four rows and the kernel exp(-(a - b)^2/2), its columns K = B B' under a standard normal prior, an offset before them.
x, TOY = np.array([0.0, 1.0, 2.0, 4.0]), np.array([0.0, 1.0, 0.0, 2.0])
values, vectors = np.linalg.eigh(np.exp(-((x[:, None] - x) ** 2) / 2))
B = vectors * np.sqrt(values)
BASIS, PRIOR = np.column_stack([np.ones(4), B]), np.diag([0.0, 1, 1, 1, 1])


@pytest.mark.parametrize(
    ("C", "epsilon", "dual", "offset", "value"),
    [
        (
            10,
            0.1,
            (-1.9320211987, 2.6453276072, -2.1575031684, 1.4441967598),
            0.7190507282,
            2.357908126734942,
        ),
        (
            1,
            0.5,
            (-0.3988832289, 0.1931408229, -0.5107487615, 0.7164911675),
            0.8506193705,
            0.358245583761003,
        ),
        (1, 0.1, (-1, 1, -1, 1), 0.8265154551111, 1.802287785514927),
        (1, 1.2, (0, 0, 0, 0), 1.0, 0.0),
    ],
)
def test_support_vector_regression_of_four_rows(C, epsilon, dual, offset, value):
    found = mode(BASIS, TOY, C, C, epsilon, PRIOR)
    np.testing.assert_allclose(found.dual, dual, atol=1e-9)
    np.testing.assert_allclose(
        [found.beta[0], found.primal, found.dual_value],
        [offset, value, value],
        atol=1e-9,
    )
    assert found.converged
    assert found.polished
    if C == 10:
        np.testing.assert_allclose(BASIS @ found.beta, [0.1, 0.9, 0.1, 1.9], atol=1e-9)


def test_an_offset_that_may_move_is_reported_as_an_interval_about_its_midpoint():
    one = np.ones(4)
    for epsilon, ends in ((0.1, (0.628469160896, 1.024561749326)), (1.2, (0.8, 1.2))):
        found = mode(BASIS, TOY, 1.0, 1.0, epsilon, PRIOR)
        assert not found.unique
        np.testing.assert_allclose(found.offset_interval, ends, atol=1e-11)
        np.testing.assert_allclose(found.beta[0], np.mean(ends), atol=1e-11)
        low, high = flat_interval(
            BASIS,
            TOY,
            PiecewiseLinear(one, one, epsilon * one),
            found.beta,
            found.dual,
            np.eye(5)[0],
        )
        np.testing.assert_allclose(
            (low + found.beta[0], high + found.beta[0]), ends, atol=1e-11
        )
    assert mode(BASIS, TOY, 10.0, 10.0, 0.1, PRIOR).offset_interval is None
    np.testing.assert_allclose(
        mode(B, TOY, 1.0, 1.0, 0.1, np.eye(4)).dual,
        [-0.42783509, 1, -0.58396476, 1],
        atol=1e-8,
    )


@pytest.mark.parametrize("seed", range(12))
def test_quantile_regression_is_the_linear_programme(seed):
    rng = np.random.default_rng(seed)
    n, p, q = (
        int(rng.integers(30, 200)),
        int(rng.integers(1, 6)),
        rng.uniform(0.05, 0.95),
    )
    X = np.column_stack([np.ones(n), rng.standard_normal((n, p - 1))])
    y = X.sum(1) + rng.standard_t(3, n)
    w = rng.integers(0, 4, n).astype(float)
    if seed % 3 == 0:  # ties in the columns and the response
        X[:, 1:], y = np.round(X[:, 1:]), np.round(2 * y)
    solved = linprog(
        np.r_[np.zeros(p), q * w, (1 - q) * w],
        A_eq=np.hstack([X, np.eye(n), -np.eye(n)]),
        b_eq=y,
        bounds=[(None, None)] * p + [(0, None)] * (2 * n),
        method="highs",
    )
    # Any units: columns far apart in size, and a response of 1e6 or 1e-6.
    units, unit = 10.0 ** rng.integers(-8, 9, p), 10.0 ** rng.integers(-6, 7)
    found = mode(X * units, y * unit, q * w, (1 - q) * w, 0.0, np.zeros((p, p)))
    assert found.converged
    assert found.polished
    np.testing.assert_allclose(
        [found.primal / unit, found.dual_value / unit], solved.fun, rtol=1e-12
    )
    if found.unique:
        np.testing.assert_allclose(found.beta * units / unit, solved.x[:p], atol=1e-10)
    else:
        assert seed % 3 == 0


def slopes(r, up, down, epsilon):
    """The least and the greatest slope of the loss at r, written out."""
    near = 1e-10
    least = np.where(
        r > epsilon + near,
        up,
        np.where(r > -epsilon + near, np.where(epsilon > 0, 0.0, up), -down),
    )
    greatest = np.where(
        r < -epsilon - near,
        -down,
        np.where(r < epsilon - near, np.where(epsilon > 0, 0.0, -down), up),
    )
    return least, greatest


def certified(found, X, y, up, down, epsilon, P, centre):
    """The dual is a subgradient of the loss and in balance with the prior: computed here from the data alone."""
    r = y - X @ found.beta
    assert found.converged
    assert found.polished
    assert 0 <= found.gap <= 1e-12 * found.primal
    np.testing.assert_allclose(
        found.dual @ X,
        P @ (found.beta - centre),
        atol=1e-12 * (np.abs(X).T @ (up + down)).max(),
    )
    least, greatest = slopes(r, up, down, epsilon)
    assert np.all((found.dual >= least) & (found.dual <= greatest))
    # |r| = epsilon where the dual weight is free, and the value of both sides of the duality.
    low, high = PiecewiseLinear(up, down, epsilon).ends(found.dual)
    free = (low == high) & (up + down > 0)
    np.testing.assert_allclose(
        np.abs(r)[free], np.broadcast_to(epsilon, len(y))[free], atol=1e-10
    )
    loss = up * np.maximum(r - epsilon, 0) + down * np.maximum(-r - epsilon, 0)
    prior = (found.beta - centre) @ P @ (found.beta - centre) / 2
    np.testing.assert_allclose(found.primal, loss.sum() + prior, rtol=1e-13)
    dual = found.dual @ (y - X @ centre) - epsilon * np.abs(found.dual).sum() - prior
    np.testing.assert_allclose(found.dual_value, dual, rtol=1e-9)


@pytest.mark.parametrize(("n", "p"), [(150, 4), (60, 50), (40, 120)])
@pytest.mark.parametrize("epsilon", [0.0, 0.2])
def test_the_dual_is_a_subgradient_and_no_point_is_better(n, p, epsilon):
    rng = np.random.default_rng(n + p)
    X = np.column_stack([np.ones(n), rng.standard_normal((n, p - 1))])
    y = X[:, :4].sum(1) + rng.standard_normal(n)
    R = rng.standard_normal((p - 1, p - 1))
    P = np.zeros((p, p))
    P[1:, 1:] = R.T @ R / p + np.eye(p - 1)
    up, down, centre = (
        rng.uniform(0, 3, n),
        rng.uniform(0, 3, n),
        rng.standard_normal(p),
    )
    found = solve_piecewise_linear(
        X, y, PiecewiseLinear(up, down, np.full(n, epsilon)), P, centre
    )
    certified(found, X, y, up, down, epsilon, P, centre)
    for _ in range(200):
        b = found.beta + 10 ** rng.uniform(-6, 0) * rng.standard_normal(p)
        r = y - X @ b
        loss = up * np.maximum(r - epsilon, 0) + down * np.maximum(-r - epsilon, 0)
        assert loss.sum() + (b - centre) @ P @ (b - centre) / 2 >= found.dual_value


@pytest.mark.parametrize(
    ("C", "epsilon", "offset"),
    [(1.0, 0.1, True), (100.0, 0.1, False), (1.0, 0.0, True)],
)
def test_kernels_of_many_rows_by_coordinate_descent(C, epsilon, offset):
    rng = np.random.default_rng(1)
    n = 350
    Z = rng.uniform(-2, 2, (n, 4))
    K = np.exp(-((Z[:, None] - Z) ** 2).sum(-1) / 2)
    values, vectors = np.linalg.eigh(K)
    X, P = vectors * np.sqrt(values), np.eye(n)
    if offset:
        X, P = np.column_stack([np.full(n, 2.0), X]), np.diag(np.r_[0.0, np.ones(n)])
    y = 5.0 + np.sin(Z.sum(1)) + 0.3 * rng.standard_normal(n)
    centre = np.r_[1.0, np.zeros(len(P) - 1)]
    up, down = C * rng.uniform(0.5, 1, n), C * rng.uniform(0.5, 1, n)
    found = solve_piecewise_linear(X, y, PiecewiseLinear(up, down, epsilon), P, centre)
    certified(found, X, y, up, down, epsilon, P, centre)
    # Two flat columns, of which one is of no use, need the interior point.
    if offset and C == 1.0:
        more = np.column_stack([X, np.arange(n) % 2 * 1e-9])
        wide = solve_piecewise_linear(
            more,
            y,
            PiecewiseLinear(up, down, epsilon),
            np.diag(np.r_[np.diag(P), 0.0]),
            np.r_[centre, 0.0],
        )
        certified(
            wide,
            more,
            y,
            up,
            down,
            epsilon,
            np.diag(np.r_[np.diag(P), 0.0]),
            np.r_[centre, 0.0],
        )


@pytest.mark.parametrize(
    "case", ["noise", "sorted and heavy", "a rare column", "tube and prior", "ties"]
)
def test_many_rows_are_solved_by_those_close_to_a_kink_and_certified_on_all(case):
    rng = np.random.default_rng(2)
    n, p = 40_000, 3
    X = np.column_stack([np.ones(n), rng.standard_normal((n, p - 1))])
    y, epsilon, P = X @ [5.0, 2.0, -1.0] + rng.standard_normal(n), 0.0, np.zeros((p, p))
    if case == "sorted and heavy":
        X[:, 1] = np.sort(rng.standard_cauchy(n))
        y = X @ [5.0, 2.0, -1.0] + rng.standard_cauchy(n) * np.arange(n)
    elif case == "a rare column":
        X[:, 2] = np.arange(n) == 7
    elif case == "tube and prior":
        epsilon, P = 0.5, np.diag([0.0, 100.0, 1e4])
    elif case == "ties":
        X[:, 1:], y = np.round(X[:, 1:]), np.round(y)
    up, down = np.full(n, 0.3), rng.uniform(0.5, 1.0, n)
    found = mode(X, y, up, down, epsilon, P)
    certified(found, X, y, up, down, epsilon, P, np.zeros(p))


def test_rows_held_on_a_wrong_side_are_found_and_taken_in(monkeypatch):
    rng = np.random.default_rng(2)
    n = 40_000
    X, half = (
        np.column_stack([np.ones(n), rng.standard_normal((n, 2))]),
        np.full(n, 0.5),
    )
    y = X @ [5.0, 2.0, -1.0] + rng.standard_normal(n)
    first = mode(X, y, half, half, 0.0, FLAT[:3, :3])
    closest = kink_mode.nearest_rows
    monkeypatch.setattr(
        kink_mode, "nearest_rows", lambda away, count: closest(away, count // 12)
    )
    found = mode(X, y, half, half, 0.0, FLAT[:3, :3])
    certified(found, X, y, half, half, 0.0, FLAT[:3, :3], np.zeros(3))
    assert found.steps > first.steps
    np.testing.assert_allclose(found.beta, first.beta, rtol=1e-12)


def test_coordinate_descent_stays_in_the_box_and_comes_close():
    rng = np.random.default_rng(4)
    n, p = 40, 60
    X = rng.standard_normal((n, p))
    X[:, 0] = 1.0
    P = np.diag(np.r_[0.0, np.ones(p - 1)])
    y, C = 3.0 + 10 * rng.standard_normal(n), rng.uniform(0.01, 0.2, n)
    problem = KinkProblem(
        X,
        y,
        PiecewiseLinear(C, 2 * C, np.full(n, 0.5)),
        P,
        np.zeros(p),
        np.zeros(p),
    )
    found = dual_coordinate(problem, ByRows(problem), None, tol=1e-6, max_steps=100_000)
    assert np.all((found.a >= -2 * C) & (found.a <= C))
    assert found.steps < 100_000
    value, gap, *_ = problem.certify(found.b, found.a)
    assert 0 <= gap < 1e-5 * value
    assert abs(found.a.sum()) < 1e-12


def test_gaps_are_the_inequality_of_fenchel_and_young():
    rng = np.random.default_rng(5)
    up, down, epsilon = rng.uniform(0, 2, (3, 500))
    epsilon[:100] = 0.0
    r, a = 3 * rng.standard_normal(500), rng.uniform(-down, up)
    loss = PiecewiseLinear(up, down, epsilon)
    np.testing.assert_allclose(
        loss.gaps(r, a), loss.value(r) + epsilon * np.abs(a) - a * r, atol=1e-14
    )
    assert np.all(loss.gaps(r, a) >= 0)
    assert np.all(loss.gaps(np.where(a > 0, epsilon, -epsilon), a) == 0)


RNG = np.random.default_rng(3)
MANY = np.column_stack([np.ones(80), RNG.standard_normal((80, 3))])
NOISY = MANY @ [1.0, 2, 3, 4] + RNG.standard_normal(80)
SOME = RNG.integers(0, 2, 80).astype(float)
PROPER, FLAT = np.diag([0.0, 1, 1, 1]), np.zeros((4, 4))


@pytest.mark.parametrize(
    ("X", "y", "up", "down", "epsilon", "P"),
    [
        (MANY, 0 * NOISY + 3, 0.5, 0.5, 0.0, FLAT),  # a constant response
        (MANY, 0 * NOISY, 0.5, 0.5, 0.0, FLAT),
        (MANY, MANY @ [1.0, 2, 3, 4], 0.5, 0.5, 0.0, FLAT),  # every row interpolated
        (MANY, MANY @ [1.0, 2, 3, 4], 1.0, 1.0, 0.1, PROPER),
        (np.round(MANY).astype(int), np.round(NOISY).astype(int), 0.5, 0.5, 0.0, FLAT),
        (
            np.tile(MANY, (2, 1)),
            np.tile(NOISY, 2),
            0.3,
            0.7,
            0.0,
            FLAT,
        ),  # every row twice
        (
            np.column_stack([MANY[:, 0], MANY[:, 1:] > 0]),
            np.round(NOISY),
            0.3,
            0.7,
            0.0,
            FLAT,
        ),
        (MANY[:4], NOISY[:4], 0.5, 0.5, 0.0, FLAT),  # as many rows as columns
        (MANY[:3], NOISY[:3], 0.5, 0.5, 0.0, PROPER),
        (MANY, NOISY, 1.0, 1.0, 100.0, PROPER),  # every row in the tube
        (MANY, NOISY, SOME, SOME, 0.1, PROPER),  # rows without weight
        (MANY, NOISY, SOME, 1 - SOME, 0.1, PROPER),  # rows with one side
        (MANY[:, 1:], NOISY, 0 * SOME, 0 * SOME, 0.0, np.eye(3)),
        (MANY, NOISY, 0.9, 0.1, SOME, PROPER),  # tubes in some rows
        (MANY + np.array([0, 1e6, 0, 0]), NOISY + 1e6, 0.5, 0.5, 0.0, FLAT),
        (MANY, NOISY, 1e8, 1e8, 0.1, PROPER),
        (MANY, NOISY, 1e-8, 1e-8, 0.1, PROPER),
    ],
)
def test_data_that_degenerate(X, y, up, down, epsilon, P):
    found = mode(X, y, up, down, epsilon, P)
    assert found.converged
    assert found.polished
    assert found.violation <= 1e-14
    up, down = (np.broadcast_to(side, len(y)) for side in (up, down))
    assert np.all((found.dual >= -down) & (found.dual <= up))


def test_what_cannot_be_solved_is_said():
    with pytest.raises(Incompatible, match="column 4 of X is a combination"):
        mode(
            np.column_stack([MANY, MANY[:, 1] + MANY[:, 2]]),
            NOISY,
            0.5,
            0.5,
            0.0,
            np.zeros((5, 5)),
        )
    with pytest.raises(Incompatible, match="column 3 of X is a combination"):
        mode(MANY[:3], NOISY[:3], 0.5, 0.5, 0.0, FLAT)
    with pytest.raises(Incompatible, match="no row has a weight"):
        mode(MANY, NOISY, 0.0, 0.0, 0.0, FLAT)
    with pytest.raises(DataError, match="not finite"):
        mode(MANY, np.where(np.arange(80) == 2, np.nan, NOISY), 0.5, 0.5, 0.0, FLAT)


def test_a_search_that_is_cut_short_says_so():
    best = mode(MANY, NOISY, 0.5, 0.5, 0.0, FLAT)
    for steps in range(2):
        few = mode(MANY, NOISY, 0.5, 0.5, 0.0, FLAT, max_steps=steps)
        assert few.steps <= steps
        assert not few.converged
        assert not few.polished
        assert few.primal > best.primal
        assert few.violation > 1e-6
