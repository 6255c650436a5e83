"""The minimum of a piecewise linear loss with a normal prior: select a solver by size,
polish and certify its result."""

from collections.abc import Iterator
from dataclasses import replace

import numpy as np
from numpy.typing import NDArray

from probreg.errors import DataError
from probreg.inference.penalized.interior_point import Inside, interior_point
from probreg.inference.penalized.kink_polish import Solved, active_set, polish
from probreg.inference.penalized.kink_systems import ByColumns, ByRows, NewtonSystem
from probreg.inference.penalized.kinks import (
    EPS,
    Certificate,
    KinkProblem,
    PiecewiseLinear as PiecewiseLinear,
    PiecewiseLinearSolution as PiecewiseLinearSolution,
    flat_interval as flat_interval,
)
from probreg.inference.penalized.known_sides import solve_known_sides
from probreg.linalg import one_blas_thread

Array = NDArray[np.float64]

MANY_COLUMNS = 0.55  # columns per row above which a matrix over rows is cheaper
ROUNDINGS = 16.0  # rounding errors of each term of the gap that count as zero
SMALL_VIOLATION = 1e-9
FINE = 1e-13  # a violation that is rounding
FEW_ROWS = 300  # up to which an interior point takes negligible time
PER_ROW = 100  # maximal number of descent steps per row; descent stalls if the kernel is nearly singular


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
        Relative gap between the primal and the dual value at which the method stops.
        Polishing then reduces it to rounding.
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
    solved = solve_known_sides(
        problem, lambda part: _solve(part, tol, max_steps)
    ) or _solve(problem, tol, max_steps)
    return _solution(problem, solved, tol)


def _solve(problem: KinkProblem, tol: float, max_steps: int) -> Solved:
    """Make attempts, each polished, until one is certified; otherwise return the one
    with the smallest violation."""
    system = system_of(problem)
    best = None
    smallest = np.inf
    for inside in _attempts(problem, system, tol, max_steps):
        if inside.states is None:
            guesses = []
        else:
            guesses = [inside.states]
        for states in (*guesses, active_set(problem, inside.b, inside.a)):
            b, a, settled = polish(problem, system, inside.b, inside.a, states)
            certificate = problem.certify(b, a)
            if settled and certificate.violation <= FINE:
                return Solved(b, a, inside.steps, True, certificate)
            if certificate.violation < smallest:
                best = Solved(b, a, inside.steps, False, certificate)
                smallest = certificate.violation
        violation = problem.certify(inside.b, inside.a).violation
        if violation < smallest:
            best = Solved(inside.b, inside.a, inside.steps, False)
            smallest = violation
    if best is None:
        raise DataError(
            "X, y and P span too many orders of magnitude for double precision: rescale them"
        )
    return best


def _attempts(
    problem: KinkProblem, system: NewtonSystem, tol: float, max_steps: int
) -> Iterator[Inside]:
    """Coordinate descent if it applies, then an interior point, each repeated if its
    states cannot be polished."""
    if isinstance(system, ByRows) and len(problem.y) > FEW_ROWS and system.offset_alone:
        from probreg.inference.penalized.dual_coordinate import dual_coordinate

        inside: Inside | None = None
        for part in (3e-3, 1e-5):
            inside = dual_coordinate(
                problem, system, inside, tol=part, max_steps=PER_ROW * len(problem.y)
            )
            yield inside
    inside = Inside(system.start(), np.zeros(len(problem.y)), 0)
    for part in (1.0, 1e-3, 1e-5):
        inside = interior_point(
            problem, system, inside, tol=tol * part, max_steps=max_steps
        )
        yield inside


def system_of(problem: KinkProblem) -> NewtonSystem:
    """Return Newton's equations over columns, or over rows if there are many penalised
    columns with a proper prior."""
    n, p = problem.X.shape
    if p > MANY_COLUMNS * n and problem.P.any():
        rows = ByRows(problem)
        if problem.diagonal is not None or rows.proper:
            return rows
    slope = float(np.maximum(problem.loss.up, problem.loss.down).mean())
    r = problem.y - problem.X @ problem.centre
    spread = float(np.abs(r - np.median(r)).mean()) or float(np.abs(r).mean()) or 1.0
    return ByColumns(problem, (slope or 1.0) / spread)


def _solution(
    problem: KinkProblem, solved: Solved, tol: float
) -> PiecewiseLinearSolution:
    """Return the result, at the midpoint of the solutions if these form an interval."""
    b, a, steps, polished, certificate = solved

    def result(
        b: Array, certificate: Certificate | None = None
    ) -> PiecewiseLinearSolution:
        primal, gap, violation, rounding = certificate or problem.certify(b, a)
        small_gap = gap <= tol * abs(primal) + ROUNDINGS * rounding
        converged = small_gap and violation <= SMALL_VIOLATION
        return PiecewiseLinearSolution(
            b, a, primal, gap, violation, steps, polished, converged
        )

    mode = result(b, certificate)
    low, high = problem.loss.ends(a)
    weighted = problem.loss.up + problem.loss.down > 0
    N = face(problem, (low == high) & weighted)
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
        mode = result(b + d * (start + stop) / 2)
    if np.count_nonzero(d) > 1:
        return replace(mode, unique=False)
    j = int(np.abs(d).argmax())
    first, last = sorted(b[j] + t * d[j] for t in (start, stop))
    return replace(mode, unique=False, offset_interval=(float(first), float(last)))


def face(problem: KinkProblem, free: NDArray[np.bool_]) -> Array:
    """Return directions (p, k) in which the minimum is not unique: P d = 0, and x_i'd =
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
