"""The minimum of a piecewise linear loss with a normal prior to rounding, from a point close enough to name its active set.

Each row is in one of five states: beyond a kink (a = up, or a = -down), within the tube (a = 0), or on one of two kinks with a
free. Given the states the minimum solves linear equations,

    X_F b = y_F - kink_F,   X_F'a_F + X_B'a_B + pull = P(b - c),

for quantile regression the p rows that a vertex interpolates. Rows whose a or r then contradicts their state change it, and
the equations are solved again: an active set method, which from an interior point ends in one round or two.
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

ROUNDS = 40
# of the box, or of the data: what may contradict a state by rounding alone
SLIGHT = 1e-12
FINE = (
    4 * EPS
)  # of the data, and of what X'a may be: equations solved to this are not solved again
REFINED = 4  # solutions of the same equations at most, each for what rounding left of the last one


class Solved(NamedTuple):
    """A solution: b (p,), dual weights a (n,), the steps it took, whether it was polished, and its certificate where that is known."""

    b: Array
    a: Array
    steps: int
    polished: bool
    certificate: Certificate | None = None


class Polished(NamedTuple):
    """A point of the active set method; `settled` where no row contradicts its state."""

    b: Array
    a: Array
    settled: bool


def active_set(problem: KinkProblem, b: Array, a: Array) -> States:
    """The state of each row near the solution: of a product that is zero there, the relatively smaller factor is zero."""
    up, down, eps = problem.loss
    r = problem.y - problem.X @ b
    width = up + down
    kinks = np.minimum(np.abs(r - eps), np.abs(r + eps))
    # Residuals are measured by their mean; where all are zero but for rounding, every row is on its kink.
    unit = float(kinks.mean()) + SLIGHT * problem.size or 1.0
    state = np.where(r >= 0, 1, -1)
    tube = (a * unit < (eps - r) * width) & (-a * unit < (eps + r) * width)
    state = np.where(tube & (eps > 0), 0, state)
    state = np.where((up - a) * unit < (r - eps) * width, 2, state)
    state = np.where((down + a) * unit < (-r - eps) * width, -2, state)
    return np.where(width > 0, state, 0).astype(np.int8)


def polish(
    problem: KinkProblem, system: NewtonSystem, b: Array, a: Array, state: States
) -> Polished:
    """The minimum given its states, which change from `state` until none is contradicted; equations are solved from (b, a)."""
    up, down, eps = problem.loss
    single = eps == 0  # both kinks are one
    near = SLIGHT * problem.units(b)
    state = state.copy()
    seen = set[bytes]()
    for _ in range(ROUNDS):
        seen.add(state.tobytes())
        rows = np.flatnonzero(np.abs(state) == 1)
        # Dual weights beyond the kinks are known; free ones keep their values, from which the least change is sought.
        a = np.where(
            np.abs(state) == 1,
            a,
            np.where(state == 2, up, np.where(state == -2, -down, 0.0)),
        )
        solve = system.active(rows)
        r = problem.y - problem.X @ b
        slack = problem.slack(b, a)
        for _ in range(REFINED):
            db, da = solve(slack, (r - state * eps)[rows])
            b = b + db
            a[rows] += da
            r = problem.y - problem.X @ b
            slack = problem.slack(b, a)
            error = np.abs(r - state * eps)[rows] / near[rows]
            if np.all(error <= FINE / SLIGHT) and np.all(
                np.abs(slack) <= FINE * problem.reach[0]
            ):
                break
        if np.any(error > 1.0):
            # More rows than a point can interpolate: those that it misses most leave for the side they are on.
            far = rows[error > 0.5 * error.max()]
            inside = np.where(single[far], np.where(r[far] > 0, 2, -2), 0)
            state[far] = np.where(
                r[far] > eps[far], 2, np.where(r[far] < -eps[far], -2, inside)
            )
            continue
        low = np.where(single | (state == -1), -down, 0.0)
        high = np.where(single | (state == 1), up, 0.0)
        slight = SLIGHT * (up + down)
        on = np.abs(state) == 1
        new = state.copy()
        # On a kink with a past the end of its piece: the row moves to that side. Off it with r past a kink: onto the kink.
        over = on & (a > high + slight)
        under = on & (a < low - slight)
        new[over] = np.where(single | (state == 1), 2, 0)[over]
        new[under] = np.where(single | (state == -1), -2, 0)[under]
        new[(state == 2) & (r < eps - near) & (up + down > 0)] = 1
        new[(state == -2) & (r > near - eps) & (up + down > 0)] = -1
        new[(state == 0) & (r > eps + near) & (up > 0)] = 1
        new[(state == 0) & (r < -eps - near) & (down > 0)] = -1
        if np.array_equal(new, state):
            return Polished(
                b, np.clip(a, -down, up), True
            )  # from at most SLIGHT beyond; what is certified is this
        if new.tobytes() in seen:
            break
        state = new
    return Polished(b, a, False)
