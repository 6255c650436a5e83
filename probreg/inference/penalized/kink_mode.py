"""The minimum of a piecewise linear loss with a normal prior: select a solver by size,
polish and certify its result.

With many rows and few columns, a sample of the rows gives b with an error. If a residual
is farther from its kinks than this error, it stays on the same side at the solution. Its
loss is linear there, and one vector, pull = sum_i a_i x_i, replaces all such rows. The
reduced problem has only the rows close to a kink. Its solution is the solution for all
rows if and only if every replaced row lies on its assumed side. Rows on the other side
are added to the problem, and it is solved again. Source: Portnoy & Koenker 1997.
"""

from collections.abc import Iterator
from dataclasses import replace

import numpy as np
from numpy.typing import NDArray

from probreg.errors import DataError, Incompatible
from probreg.inference.penalized.kink_systems import (
    ByColumns,
    ByRows,
    Inside,
    NewtonSystem,
    Solved,
    active_set,
    interior_point,
    polish,
)
from probreg.inference.penalized.kinks import (
    EPS,
    Certificate,
    KinkProblem,
    PiecewiseLinear as PiecewiseLinear,
    PiecewiseLinearSolution as PiecewiseLinearSolution,
    flat_interval as flat_interval,
)
from probreg.linalg import map_blocks, one_blas_thread, row_blocks

Array = NDArray[np.float64]

# a gap of at most this many rounding errors of each of its terms counts as zero
ROUNDINGS = 16.0


@one_blas_thread()
def solve_piecewise_linear(
    X: Array, y: Array, loss: PiecewiseLinear, P: Array, centre: Array, *, K: Array | None = None, tol: float = 1e-10,
    max_steps: int = 100,
) -> PiecewiseLinearSolution:  # fmt: skip
    """argmin_b sum_i [up_i max(r_i - eps_i, 0) + down_i max(-r_i - eps_i, 0)] + (b - c)'P(b - c)/2, r = y - X b.

    Parameters
    ----------
    X, y : arrays (n, p), (n,)
    loss : PiecewiseLinear
        Slopes up, down >= 0, which include the weights of rows, and epsilon >= 0; each
        (n,) or a number.
    P, centre : arrays (p, p), (p,)
        Precision of the normal prior, positive semidefinite, and its centre c; zero rows and columns are flat.
    K : array (n, n), optional
        X_p P_p^-1 X_p' of the columns with a prior, up to rounding, if it is available:
        the matrix of a kernel.
    tol : float
        The method stops at this relative gap between the primal and the dual value.
        Polishing then reduces the gap to rounding.
    max_steps : int
        Maximal number of steps of the interior point method.

    Returns
    -------
    PiecewiseLinearSolution
        With converged False and its certificate, if the gap is above `tol`.

    Raises
    ------
    Incompatible
        Columns that the prior leaves flat are combinations of others, as always for n <
        p without a prior.
    DataError
        A number is not finite.

    Examples
    --------
    >>> y, one = np.array([0.0, 1.0, 4.0, 9.0]), np.ones(4)
    >>> found = solve_piecewise_linear(one[:, None], y, PiecewiseLinear(one / 2, one / 2, 0 * one), np.zeros((1, 1)), np.zeros(1))
    >>> found.beta, found.unique, found.offset_interval
    (array([2.5]), False, (1.0, 4.0))
    """
    X, y, P, centre = (np.asarray(v, dtype=float) for v in (X, y, P, centre))
    n, p = X.shape
    up, down, epsilon = (
        np.broadcast_to(np.asarray(side, dtype=float), n) for side in loss
    )
    problem = KinkProblem(
        X, y, PiecewiseLinear(up, down, epsilon), P, centre, np.zeros(p), K
    )
    if not np.isfinite(problem.size + problem.reach.sum() + P.sum()):
        raise DataError(
            "X, y, P or the centre has a number that is not finite: remove these rows"
        )
    solved = _solve_by_sides(problem, tol, max_steps)
    if solved is None:
        solved = _solve(problem, tol, max_steps)
    return _solution(problem, solved, tol)


def _solve(problem: KinkProblem, tol: float, max_steps: int) -> Solved:
    """Return the first attempt that is certified when polished; otherwise the one with the smallest violation."""
    system = system_of(problem)
    best = None
    smallest = np.inf
    for inside in _attempts(problem, system, tol, max_steps):
        states = active_set(problem, inside.b, inside.a)
        polished = polish(problem, system, inside.b, inside.a, states)
        for b, a, settled in (polished, (inside.b, inside.a, False)):
            certificate = problem.certify(b, a)
            # a violation of at most 1e-13 is rounding
            exact = settled and certificate.violation <= 1e-13
            solved = Solved(b, a, inside.steps, exact, certificate)
            if exact:
                return solved
            if certificate.violation < smallest:
                best = solved
                smallest = certificate.violation
    if best is None:
        raise DataError(
            "X, y and P span too many orders of magnitude for double precision: rescale them"
        )
    return best


def _attempts(
    problem: KinkProblem, system: NewtonSystem, tol: float, max_steps: int
) -> Iterator[Inside]:
    """Coordinate descent if it applies, then an interior point, each to smaller and smaller errors."""
    # up to 300 rows an interior point takes negligible time
    if isinstance(system, ByRows) and len(problem.y) > 300 and system.offset_alone:
        from probreg.inference.penalized.dual_coordinate import dual_coordinate

        dual: Inside | None = None
        for part in (3e-3, 1e-5):
            # descent stalls if the kernel is nearly singular
            max_pairs = 100 * len(problem.y)
            dual = dual_coordinate(problem, system, dual, tol=part, max_steps=max_pairs)
            yield dual
    inside = Inside(system.start(), np.zeros(len(problem.y)), 0)
    for part in (1.0, 1e-3, 1e-5):
        inside = interior_point(
            problem, system, inside, tol=tol * part, max_steps=max_steps
        )
        yield inside


def system_of(problem: KinkProblem) -> NewtonSystem:
    """Return Newton's equations over columns, or over rows if there are many penalised
    columns with independent priors."""
    n, p = problem.X.shape
    # columns per row above which a matrix over rows is cheaper
    if p > 0.55 * n and problem.P.any() and problem.diagonal is not None:
        return ByRows(problem)
    slope = float(np.maximum(problem.loss.up, problem.loss.down).mean())
    r = problem.y - problem.X @ problem.centre
    spread = float(np.abs(r - np.median(r)).mean()) or float(np.abs(r).mean()) or 1.0
    return ByColumns(problem, (slope or 1.0) / spread)


def _solution(
    problem: KinkProblem, solved: Solved, tol: float
) -> PiecewiseLinearSolution:
    """Return the result, at the midpoint of the solutions if these form an interval."""
    b, a, steps, polished, certificate = solved

    def result(b: Array, certificate: Certificate) -> PiecewiseLinearSolution:
        primal, gap, violation, rounding = certificate
        small_gap = gap <= tol * abs(primal) + ROUNDINGS * rounding
        converged = small_gap and violation <= 1e-9
        return PiecewiseLinearSolution(
            b, a, primal, gap, violation, steps, polished, converged
        )

    mode = result(b, certificate)
    low, high = problem.loss.ends(a)
    N = face(problem, (low == high) & problem.weighted)
    if not N.shape[1]:
        return mode
    if N.shape[1] > 1:
        return replace(mode, unique=False)
    d = N[:, 0]
    start, stop = flat_interval(problem.X, problem.y, problem.loss, b, a, d)
    if (stop - start) * float(
        problem.reach[1] @ np.abs(d)
    ) <= ROUNDINGS * EPS * problem.size:
        return mode  # rows on a kink without a constraint end the interval at its start
    if np.isfinite(start + stop):
        middle = b + d * (start + stop) / 2
        mode = result(middle, problem.certify(middle, a))
    if np.count_nonzero(d) > 1:
        return replace(mode, unique=False)
    j = int(np.abs(d).argmax())
    first, last = sorted(b[j] + t * d[j] for t in (start, stop))
    return replace(mode, unique=False, offset_interval=(float(first), float(last)))


def face(problem: KinkProblem, free: NDArray[np.bool_]) -> Array:
    """Return directions (p, k) where the minimum is not unique: P d = 0, and x_i'd =
    0 on rows that are certainly on a kink."""
    P = problem.P
    flat = problem.flat
    N = np.zeros((len(P), np.count_nonzero(flat)))
    N[np.flatnonzero(flat), np.arange(N.shape[1])] = 1.0
    if problem.diagonal is None:
        values, vectors = np.linalg.eigh(P[np.ix_(~flat, ~flat)])
        null = vectors[:, values <= len(P) * EPS * values[-1]]
        extra = np.zeros((len(P), null.shape[1]))
        extra[~flat] = null
        N = np.hstack([N, extra])
    if not N.shape[1]:
        return N
    scale = problem.reach[1] @ np.abs(N)  # an upper bound for the columns X N
    A = problem.X[free] @ N / scale
    _, s, V = np.linalg.svd(np.linalg.qr(A, mode="r"), full_matrices=True)
    rank = int((s > 1e-9 * max(1.0, s.max(initial=0.0))).sum())
    D = (N / scale) @ V[rank:].T
    return np.where(np.abs(D) > 1e-10 * np.abs(D).max(axis=0, initial=0.0), D, 0.0)


def _solve_by_sides(problem: KinkProblem, tol: float, max_steps: int) -> Solved | None:
    """Minimise over many rows by the problem of few of them; None if this does not save
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
    # from 20,000 rows this takes half the time of the full problem, or less
    if n < 20_000 or n_sample + n_close > n / 2:
        return None
    # the seed affects only the time
    rows = np.sort(np.random.default_rng(14).choice(n, n_sample, replace=False))
    try:
        sample = reduced_problem(problem, rows, n / n_sample, problem.pull)
        b = _solve(sample, tol, max_steps).b
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
    from_kink = loss.from_kink(r) / np.where(reach > 0, reach, 1.0)
    a = loss.slopes(r)
    near_rows = nearest_rows(from_kink, n_close)
    steps = 0
    while 2 * len(near_rows) <= n:
        fixed = a.copy()
        fixed[near_rows] = 0.0
        try:
            part = reduced_problem(problem, near_rows, 1.0, problem.pull + fixed @ X)
            solved = _solve(part, tol, max_steps)
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
                return Solved(
                    solved.b, fixed, steps, True, problem.certify(solved.b, fixed)
                )
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
