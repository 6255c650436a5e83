"""Refine the minimum of a piecewise linear loss with a normal prior to rounding, from a
point close enough to identify its active set.

Each row is in one of five states: beyond a kink (a = up, or a = -down), within the tube
(a = 0), or on one of two kinks with free a. Given the states the minimum solves linear
equations,

    X_F b = y_F - kink_F,   X_F'a_F + X_B'a_B + pull = P(b - c),

for quantile regression the p rows that a vertex interpolates. Rows with a or r
contradicting their state change it, and the equations are solved again: an active set
method, which ends in one or two rounds after an interior point.
"""

from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from probreg.inference.penalized.kink_systems import NewtonSystem
from probreg.inference.penalized.kinks import EPS, Certificate, KinkProblem

Array = NDArray[np.float64]
States = NDArray[
    np.int8
]  # -2: a = -down, -1: r = -eps, 0: a = 0, 1: r = eps, 2: a = up

# relative to the width of the box for a, and to the data for r: a row this little beyond its state keeps it
SLIGHT = 1e-12


class Solved(NamedTuple):
    """A solution: b (p,), dual weights a (n,), the number of steps, whether it was
    polished, and its certificate."""

    b: Array
    a: Array
    steps: int
    polished: bool
    certificate: Certificate


def active_set(problem: KinkProblem, b: Array, a: Array) -> States:
    """Return the state of each row near the solution: of two factors with a vanishing
    product, the relatively smaller one is zero."""
    up, down, eps = problem.loss
    r = problem.y - problem.X @ b
    width = up + down
    kinks = np.minimum(np.abs(r - eps), np.abs(r + eps))
    # Residuals are relative to their mean; if all are zero up to rounding, every row is
    # on its kink.
    unit = float(kinks.mean()) + SLIGHT * problem.size or 1.0
    state = np.where(r >= 0, 1, -1)
    tube = (a * unit < (eps - r) * width) & (-a * unit < (eps + r) * width)
    state = np.where(tube & (eps > 0), 0, state)
    state = np.where((up - a) * unit < (r - eps) * width, 2, state)
    state = np.where((down + a) * unit < (-r - eps) * width, -2, state)
    return np.where(width > 0, state, 0).astype(np.int8)


def polish(
    problem: KinkProblem, system: NewtonSystem, b: Array, a: Array, state: States
) -> tuple[Array, Array, bool]:
    """Return b and a of the minimum given its states, which change from `state` until none is
    contradicted, and whether none is; start from (b, a)."""
    up, down, eps = problem.loss
    single = eps == 0  # both kinks are one
    # relative to the data, and to the bound of X'a: the error at which equations are not refined further
    fine = 4 * EPS
    tolerance = SLIGHT * problem.units(b)
    state = state.copy()
    visited = set[bytes]()
    for _ in range(40):
        visited.add(state.tobytes())
        rows = np.flatnonzero(np.abs(state) == 1)
        # Dual weights beyond the kinks are known; free ones start from their values and
        # change as little as possible.
        a = np.where(
            np.abs(state) == 1,
            a,
            np.where(state == 2, up, np.where(state == -2, -down, 0.0)),
        )
        solve = system.active(rows)
        r = problem.y - problem.X @ b
        slack = problem.slack(b, a)
        # maximal number of refinements of the solution of one system
        for _ in range(4):
            db, da = solve(slack, (r - state * eps)[rows])
            b = b + db
            a[rows] += da
            r = problem.y - problem.X @ b
            slack = problem.slack(b, a)
            error = np.abs(r - state * eps)[rows] / tolerance[rows]
            if np.all(error <= fine / SLIGHT) and np.all(
                np.abs(slack) <= fine * problem.reach[0]
            ):
                break
        if np.any(error > 1.0):
            # More rows than a point can interpolate: those with the largest errors move
            # to their side.
            missed = rows[error > 0.5 * error.max()]
            inside = np.where(single[missed], np.where(r[missed] > 0, 2, -2), 0)
            state[missed] = np.where(
                r[missed] > eps[missed],
                2,
                np.where(r[missed] < -eps[missed], -2, inside),
            )
            continue
        low = np.where(single | (state == -1), -down, 0.0)
        high = np.where(single | (state == 1), up, 0.0)
        slight = SLIGHT * (up + down)
        on_kink = np.abs(state) == 1
        new = state.copy()
        # On a kink with a past the end of its range: the row moves to that side. Off it
        # with r past a kink: it moves onto the kink.
        past_end = on_kink & (a > high + slight)
        before_start = on_kink & (a < low - slight)
        new[past_end] = np.where(single | (state == 1), 2, 0)[past_end]
        new[before_start] = np.where(single | (state == -1), -2, 0)[before_start]
        new[(state == 2) & (r < eps - tolerance) & (up + down > 0)] = 1
        new[(state == -2) & (r > tolerance - eps) & (up + down > 0)] = -1
        new[(state == 0) & (r > eps + tolerance) & (up > 0)] = 1
        new[(state == 0) & (r < -eps - tolerance) & (down > 0)] = -1
        if np.array_equal(new, state):
            return (
                b,
                np.clip(a, -down, up),
                True,
            )  # from at most SLIGHT beyond the box; the certificate uses this point
        if new.tobytes() in visited:
            break
        state = new
    return b, a, False
