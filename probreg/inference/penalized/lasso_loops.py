"""Coordinate descent for a quadratic with absolute values or powers, compiled: this
module imports numba and is imported on use."""

import numpy as np
from numba import njit
from numpy.typing import NDArray

from probreg.numerics.compiled.cache import cached_njit

Array = NDArray[np.float64]
_LOOK = 8  # passes between two forecasts of convergence
compiled = cached_njit(nogil=True, fastmath={"reassoc", "contract", "nsz"})
inline = njit(nogil=True, fastmath={"reassoc", "contract", "nsz"})


@inline
def _update(G: Array, q: Array, x: Array, w: Array, ridge: float, j: int) -> float:
    """Minimise over coordinate j, updating q = c - G x; return the move in units of its
    curvature."""
    curvature = G[j, j] + ridge
    if (
        curvature <= 0.0
    ):  # a column without variation: only its prior matters, and its mode is 0
        if x[j] != 0.0 and w[j] > 0.0:
            x[j] = 0.0
        return 0.0
    # argmin_u (G_jj + ridge) u^2 / 2 - z u + w_j |u| = sign(z) (|z| - w_j)_+ / (G_jj + ridge), z = q_j + G_jj x_j (Friedman et al. 2007).
    z = q[j] + G[j, j] * x[j]
    new = 0.0
    if z > w[j]:
        new = (z - w[j]) / curvature
    elif z < -w[j]:
        new = (z + w[j]) / curvature
    step = new - x[j]
    if step == 0.0:
        return 0.0
    x[j] = new
    for i in range(q.size):
        q[i] -= step * G[j, i]
    return abs(step) * np.sqrt(curvature)


@compiled
def descend_lasso(
    G: Array, q: Array, x: Array, w: Array, passes: int, tol: float
) -> int:
    """Cyclic coordinate descent on x'Gx/2 - c'x + sum_j w_j |x_j|, in place, with q = c
    - G x.

    Passes over all coordinates alternate with passes over the nonzero ones. Returns the
    number of passes, less than `passes` if a pass over all of them moved none by more
    than tol.
    """
    done = 0
    while done < passes:
        largest = 0.0
        for j in range(x.size):
            largest = max(largest, _update(G, q, x, w, 0.0, j))
        done += 1
        if largest <= tol:
            return done
        bound = 0.1 * largest
        while done < passes and largest > bound:
            largest = 0.0
            for j in range(x.size):
                if x[j] != 0.0:
                    largest = max(largest, _update(G, q, x, w, 0.0, j))
            done += 1
    return passes + 1


@compiled
def descend_among(
    G: Array,
    q: Array,
    x: Array,
    w: Array,
    ridge: Array,
    J: NDArray[np.intp],
    passes: int,
    tol: float,
) -> bool:
    """Cyclic coordinate descent over the coordinates J on x'Gx/2 - c'x + sum_j w_j
    |x_j| + ridge_j x_j^2 / 2, in place.

    q = c - G x covers all coordinates. Returns True after a pass that moved none by
    more than tol, and False after `passes`, or as soon as the moves decrease too slowly
    to finish.
    """
    earlier = 0.0  # the largest move, some passes ago
    for done in range(passes):
        largest = 0.0
        for j in J:
            largest = max(largest, _update(G, q, x, w, ridge[j], j))
        if largest <= tol:
            return True
        if done % _LOOK == 0:
            # moves decrease by the same factor in the next passes
            if (
                done
                and largest * (largest / earlier) ** ((passes - done) / _LOOK) > tol
            ):
                return False
            earlier = largest
    return False


@inline
def _root(size: float, pull: float, power: float) -> float:
    """Return argmin_u (u - size)^2 / 2 + pull u^power over u >= 0: zero, or the largest
    root of u + pull power u^(power - 1) = size.

    Newton's method from the right, where the left side increases; a step outside the
    bracket is halved.
    """
    if power == 2.0:
        return size / (1.0 + 2.0 * pull)
    # For power < 1 u + pull power u^(power - 1) is least at u = (pull power (1 - power))^(1 / (2 - power)).
    if power < 1.0:
        low = (pull * power * (1.0 - power)) ** (1.0 / (2.0 - power))
    else:
        low = 0.0
    if power < 1.0 and size <= low + pull * power * low ** (power - 1.0):
        return 0.0
    high, u = size, size
    for _ in range(200):
        f = u + pull * power * u ** (power - 1.0) - size
        if f < 0.0:
            low = u
        else:
            high = u
        new = u - f / (1.0 + pull * power * (power - 1.0) * u ** (power - 2.0))
        if not (low < new < high):
            new = 0.5 * (low + high)
        if abs(new - u) <= 4e-16 * size:
            u = new
            break
        u = new
    # The root is the minimum only if the objective there is below size^2 / 2, its value
    # at 0.
    if power < 1.0 and 0.5 * (u - size) ** 2 + pull * u**power >= 0.5 * size**2:
        return 0.0
    return u


@compiled
def descend_powers(
    G: Array, q: Array, x: Array, w: Array, power: Array, passes: int, tol: float
) -> int:
    """The same on x'Gx/2 - c'x + sum_j w_j |x_j|^power_j, 0 < power_j <= 2."""
    for done in range(passes):
        largest = 0.0
        for j in range(x.size):
            if w[j] == 0.0 or power[j] == 1.0 or G[j, j] <= 0.0:
                largest = max(largest, _update(G, q, x, w, 0.0, j))
                continue
            # The objective in x_j = u, over G_jj: (u - z)^2 / 2 + (w_j / G_jj) |u|^power_j + constant.
            z = q[j] / G[j, j] + x[j]
            if z != 0.0:
                new = _root(abs(z), w[j] / G[j, j], power[j])
            else:
                new = 0.0
            step = (new if z > 0.0 else -new) - x[j]
            if step != 0.0:
                x[j] += step
                if new == 0.0:
                    x[j] = 0.0
                for i in range(q.size):
                    q[i] -= step * G[j, i]
                largest = max(largest, abs(step) * np.sqrt(G[j, j]))
        if largest <= tol:
            return done + 1
    return passes + 1
