"""Many rows, few columns: rows on a known side of their kinks enter by their slope,
exactly after verification.

A sample gives b up to its error. A row farther from its kinks than this error stays on
the same side at the solution. Its loss is linear there, and all such rows together are
one vector, pull = sum_i a_i x_i. The reduced problem has the rows close to a kink. Its
solution is the solution for all rows if and only if every fixed row lies on its assumed
side. Rows that do not join the problem, and it is solved again. Source: Portnoy &
Koenker 1997.
"""

from collections.abc import Callable

import numpy as np
from numpy.typing import NDArray

from probreg.errors import Incompatible
from probreg.inference.penalized.kink_polish import Solved
from probreg.inference.penalized.kink_systems import ByColumns
from probreg.inference.penalized.kinks import KinkProblem, PiecewiseLinear
from probreg.linalg import map_blocks, row_blocks

Array = NDArray[np.float64]

MANY_ROWS = 20_000
SEED = 14  # of the sample, which affects only the time


def solve_known_sides(
    problem: KinkProblem, solve: Callable[[KinkProblem], Solved]
) -> Solved | None:
    """Minimise over many rows by `solve` on few of them; None if this does not save
    time or does not converge."""
    X = problem.X
    y = problem.y
    loss = problem.loss
    n, p = X.shape
    n_sample = int((n * max(p, 2)) ** (2 / 3))
    # Errors of a fit to m rows are about sqrt(p/m) of the spread of r: this many rows
    # lie within three of them of a kink.
    kinks = 2 if loss.epsilon.any() else 1
    n_close = int(3 * kinks * n * np.sqrt(max(p, 2) / n_sample))
    if n < MANY_ROWS or n_sample + n_close > n / 2:
        return None
    rows = np.sort(np.random.default_rng(SEED).choice(n, n_sample, replace=False))
    try:
        sample = reduced_problem(problem, rows, n / n_sample, problem.pull)
        b = solve(sample).b
        unit = ByColumns(sample, 1.0).T
    except (
        Incompatible
    ):  # the sample lacks rows of some column; the full problem checks the columns
        return None
    r = y - X @ b
    reach = np.empty(n)

    def lengths_of_rows(block: slice) -> tuple[Array, ...]:
        # |T'x_i| is the maximum of x_i'd for d of length 1 in the metric of the sample.
        reach[block] = np.sqrt(np.square(np.dot(X[block], unit)).sum(axis=1))
        return (np.zeros(0),)

    map_blocks(lengths_of_rows, row_blocks(n, p))
    from_kink = np.minimum(
        np.abs(r - loss.epsilon), np.abs(r + loss.epsilon)
    ) / np.where(reach > 0, reach, 1.0)
    a = np.where(
        r > loss.epsilon, loss.up, np.where(r < -loss.epsilon, -loss.down, 0.0)
    )
    near_rows = nearest_rows(from_kink, n_close)
    steps = 0
    while 2 * len(near_rows) <= n:
        fixed = a.copy()
        fixed[near_rows] = 0.0
        try:
            solved = solve(
                reduced_problem(problem, near_rows, 1.0, problem.pull + fixed @ X)
            )
        except Incompatible:
            return None
        steps += solved.steps
        if solved.polished:  # rows fixed on a wrong side can make the problem unbounded
            low, high = loss.ends(fixed)
            residual = y - X @ solved.b
            wrong = (residual < low) | (residual > high)
            wrong[near_rows] = False
            count = np.count_nonzero(wrong)
            if not count:
                fixed[near_rows] = solved.a
                return Solved(solved.b, fixed, steps, True)
            if count <= n_close / 10:
                near_rows = np.union1d(near_rows, np.flatnonzero(wrong))
                continue
        n_close *= 2
        near_rows = nearest_rows(from_kink, n_close)
    return None


def reduced_problem(
    problem: KinkProblem, rows: NDArray[np.intp], times: float, pull: Array
) -> KinkProblem:
    """Return the problem of some rows, each counted `times`, with the fixed rows in
    `pull`."""
    up, down, eps = (side[rows] for side in problem.loss)
    loss = PiecewiseLinear(up * times, down * times, eps)
    return KinkProblem(
        problem.X[rows], problem.y[rows], loss, problem.P, problem.centre, pull
    )


def nearest_rows(from_kink: Array, count: int) -> NDArray[np.intp]:
    """Return the `count` rows closest to a kink."""
    return np.sort(np.argpartition(from_kink, min(count, len(from_kink) - 1))[:count])
