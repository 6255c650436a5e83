"""Dual coordinate descent for a piecewise linear loss with a normal prior, compiled:
this module imports numba and is imported on use.

maximise over a   a'e - eps'|a| - a'K a/2,   -down <= a <= up,   and 1'a = 0, for one flat column, the offset.

K = X P^-1 X' (n, n), e = y - X c. The residuals without the offset, r = e - K a, are
updated. Raising a_i gains r_i - eps_i or, below zero, r_i + eps_i; lowering it loses
the same with eps_i of the other side. Only pairs of dual weights can
change, one up and one down (sequential minimal optimisation): i is the row with the
largest gain, j the row with the largest gain by second order. Source: Fan, Chen & Lin 2005.
"""

import numpy as np
from numba import njit
from numpy.typing import NDArray

from probreg.compiled.cache import cached_njit
from probreg.inference.penalized.kink_systems import ByRows, Inside
from probreg.inference.penalized.kinks import KinkProblem

Array = NDArray[np.float64]
compiled = cached_njit(nogil=True, fastmath={"reassoc", "contract", "nsz"})
# part of the compiled functions that call them
inlined = njit(forceinline=True, nogil=True, fastmath={"reassoc", "contract", "nsz"})


def dual_coordinate(
    problem: KinkProblem,
    rows: ByRows,
    start: Inside | None,
    *,
    tol: float,
    max_steps: int,
) -> Inside:
    """Return a solution with residual errors of at most `tol` of their spread, for one
    flat column, a constant."""
    up, down, eps = (np.ascontiguousarray(side) for side in problem.loss)
    e = problem.y - problem.X @ problem.centre
    a = np.zeros(len(e))
    before = 0  # steps
    if start is not None:
        a = start.a.copy()
        before = start.steps
    r = e - rows.K @ a
    spread = float(np.abs(e - np.median(e)).mean()) or 1.0
    steps = descend_pairs(rows.K, r, a, up, down, eps, tol * spread, max_steps)
    b = problem.centre + rows.inverse(a @ problem.X)
    # The offset lies between the largest gain of raising a dual weight and the
    # smallest loss of lowering one.
    gain = np.where(a < up, r - np.where(a >= 0, eps, -eps), -np.inf).max()
    loss = np.where(a > -down, r - np.where(a > 0, eps, -eps), np.inf).min()
    ends = [t for t in (gain, loss) if np.isfinite(t)]
    if ends:
        b[rows.flat] += np.mean(ends) / problem.X[0, rows.flat]
    return Inside(b, a, before + steps)


@inlined
def _largest_gain(r: Array, a: Array, up: Array, eps: Array) -> tuple[int, float]:
    """Return the row with the largest gain of raising its dual weight, -1 if none can rise, and the gain."""
    i, gain_i = -1, -np.inf
    for k in range(r.size):
        if a[k] < up[k]:
            if a[k] >= 0.0:
                gain = r[k] - eps[k]
            else:
                gain = r[k] + eps[k]
            if gain > gain_i:
                i, gain_i = k, gain
    return i, gain_i


@inlined
def _best_partner(
    i: int, gain_i: float, K: Array, r: Array, a: Array, down: Array, eps: Array
) -> tuple[int, float]:
    """Return the row of the best pair with row i, -1 if there is none, and the largest gain of a pair."""
    j, best, worst = -1, 0.0, -np.inf
    row = K[i]
    K_ii = K[i, i]
    for k in range(r.size):
        if a[k] > -down[k]:
            gap = gain_i - (r[k] - eps[k] if a[k] > 0.0 else r[k] + eps[k])
            if gap > worst:
                worst = gap
            if gap > 0.0 and k != i:
                # The gain of the best step along e_i - e_k is gap^2 / 2 (K_ii + K_kk - 2 K_ik).
                curve = max(K_ii + K[k, k] - 2.0 * row[k], 1e-12 * K_ii)
                if gap * gap > best * curve:
                    j = k
                    best = gap * gap / curve
    return j, worst


@inlined
def _snap_to_end(k: int, a: Array, up: Array, down: Array) -> None:
    """Set a dual weight within rounding of zero or an end of its box exactly to it."""
    rounding = 1e-15 * (up[k] + down[k])
    if abs(a[k]) <= rounding:
        a[k] = 0.0
    elif up[k] - a[k] <= rounding:
        a[k] = up[k]
    elif a[k] + down[k] <= rounding:
        a[k] = -down[k]


@compiled
def descend_pairs(
    K: Array,
    r: Array,
    a: Array,
    up: Array,
    down: Array,
    eps: Array,
    tol: float,
    steps: int,
) -> int:
    """Update pairs in place until no gain exceeds tol; return the number of steps, more
    than `steps` if they were not enough."""
    n = r.size
    for number in range(steps):
        i, gain_i = _largest_gain(r, a, up, eps)
        if i < 0:
            return number
        j, worst = _best_partner(i, gain_i, K, r, a, down, eps)
        if j < 0 or worst <= tol:
            return number
        row = K[i]
        K_ii = K[i, i]
        gap = gain_i - (r[j] - eps[j] if a[j] > 0.0 else r[j] + eps[j])
        curve = max(K_ii + K[j, j] - 2.0 * row[j], 1e-12 * K_ii)
        # Up to the ends of the boxes, or the kink of |a| at zero.
        room = min(
            (0.0 if a[i] < 0.0 else up[i]) - a[i],
            a[j] - (0.0 if a[j] > 0.0 else -down[j]),
        )
        step = min(gap / curve, room)
        row_j = K[j]
        ai = a[i] + step
        aj = a[j] - step
        a[i], a[j] = ai, aj
        if step == room:  # exactly onto the bound
            _snap_to_end(i, a, up, down)
            _snap_to_end(j, a, up, down)
        for k in range(n):
            r[k] -= step * (row[k] - row_j[k])
    return steps + 1
