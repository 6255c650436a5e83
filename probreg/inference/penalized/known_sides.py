"""Many rows, few columns: rows whose side of every kink is known count by their slope alone, exactly, once it is verified.

A sample gives b to within its error. A row that is further from its kinks than the error can carry it lies on the same side
at the solution: its loss is linear there, and all such rows together are one vector, pull = sum_i a_i x_i. What is left is a
problem of the rows close to a kink. Its solution is that of all rows if and only if every row set aside lies on the side
that was said; rows that do not are taken in, and the problem is solved again. Source: Portnoy & Koenker 1997.
"""

from collections.abc import Callable

import numpy as np
from numpy.typing import NDArray

from probreg.errors import Incompatible
from probreg.inference.penalized.kink_polish import Solved
from probreg.inference.penalized.kink_systems import ByColumns
from probreg.inference.penalized.kinks import KinkProblem, PiecewiseLinear
from probreg.numerics.linalg import map_blocks, row_blocks

Array = NDArray[np.float64]

MANY_ROWS = 20_000
SEED = 14  # of the sample, which decides how long it takes and nothing else


def solve_known_sides(
    problem: KinkProblem, solve: Callable[[KinkProblem], Solved]
) -> Solved | None:
    """The minimum over many rows by `solve` on few of them; None where that does not pay, or does not settle."""
    X = problem.X
    y = problem.y
    loss = problem.loss
    n, p = X.shape
    few = int((n * max(p, 2)) ** (2 / 3))
    # Errors of the fit of m rows are some sqrt(p/m) of the spread of r: so many rows lie within three of them of a kink.
    kinks = 2 if loss.epsilon.any() else 1
    close = int(3 * kinks * n * np.sqrt(max(p, 2) / few))
    if n < MANY_ROWS or few + close > n / 2:
        return None
    rows = np.sort(np.random.default_rng(SEED).choice(n, few, replace=False))
    try:
        sample = held(problem, rows, n / few, problem.pull)
        b = solve(sample).b
        unit = ByColumns(sample, 1.0).T
    except Incompatible:  # the sample lacks the rows of some column; all rows say whether the columns are at fault
        return None
    r = y - X @ b
    reach = np.empty(n)

    def lengths_of_rows(at: slice) -> tuple[Array, ...]:
        # |T'x_i| is the most that x_i'd is for d of length 1 in the metric of the sample.
        reach[at] = np.sqrt(np.square(np.dot(X[at], unit)).sum(axis=1))
        return (np.zeros(0),)

    map_blocks(lengths_of_rows, row_blocks(n, p))
    away = np.minimum(np.abs(r - loss.epsilon), np.abs(r + loss.epsilon)) / np.where(
        reach > 0, reach, 1.0
    )
    a = np.where(
        r > loss.epsilon, loss.up, np.where(r < -loss.epsilon, -loss.down, 0.0)
    )
    near = nearest(away, close)
    steps = 0
    while 2 * len(near) <= n:
        fixed = a.copy()
        fixed[near] = 0.0
        try:
            found = solve(held(problem, near, 1.0, problem.pull + fixed @ X))
        except Incompatible:
            return None
        steps += found.steps
        if (
            found.polished
        ):  # rows held on a wrong side can leave a problem without a minimum
            low, high = loss.ends(fixed)
            now = y - X @ found.b
            wrong = (now < low) | (now > high)
            wrong[near] = False
            count = np.count_nonzero(wrong)
            if not count:
                fixed[near] = found.a
                return Solved(found.b, fixed, steps, True)
            if count <= close / 10:
                near = np.union1d(near, np.flatnonzero(wrong))
                continue
        close *= 2
        near = nearest(away, close)
    return None


def held(
    problem: KinkProblem, rows: NDArray[np.intp], times: float, pull: Array
) -> KinkProblem:
    """The problem of some rows, each counted `times`, with the rows held on their sides in `pull`."""
    up, down, eps = (side[rows] for side in problem.loss)
    loss = PiecewiseLinear(up * times, down * times, eps)
    return KinkProblem(
        problem.X[rows], problem.y[rows], loss, problem.P, problem.centre, pull
    )


def nearest(away: Array, count: int) -> NDArray[np.intp]:
    """The `count` rows closest to a kink."""
    return np.sort(np.argpartition(away, min(count, len(away) - 1))[:count])
