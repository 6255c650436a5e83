"""Coordinate descent for a quadratic with absolute values or powers, compiled: this
module imports numba and is imported on use."""

import numpy as np
from numba import njit
from numpy.typing import NDArray

from probreg.compiled.cache import cached_njit

Array = NDArray[np.float64]
_MATH = {"reassoc", "contract", "nsz"}
compiled = cached_njit(nogil=True, fastmath=_MATH)
inline = njit(nogil=True, fastmath=_MATH)


@inline
def _shrink(size: float, weight: float, power: float) -> float:
    """Return argmin_u (u - size)^2 / 2 + weight u^power over u >= 0: zero, or the largest
    root of u + weight power u^(power - 1) = size.

    Newton's method from the right, where the left side increases; a step outside the
    bracket is halved.
    """
    if power == 1.0 or weight == 0.0:
        return max(size - weight, 0.0)
    # For power < 1 u + weight power u^(power - 1) is least at u = (weight power (1 - power))^(1 / (2 - power)).
    low = 0.0
    if power < 1.0:
        low = (weight * power * (1.0 - power)) ** (1.0 / (2.0 - power))
        if size <= low + weight * power * low ** (power - 1.0):
            return 0.0
    high, u = size, size
    for _ in range(200):
        f = u + weight * power * u ** (power - 1.0) - size
        if f < 0.0:
            low = u
        else:
            high = u
        new = u - f / (1.0 + weight * power * (power - 1.0) * u ** (power - 2.0))
        if not (low < new < high):
            new = 0.5 * (low + high)
        if abs(new - u) <= 4e-16 * size:
            u = new
            break
        u = new
    # The root is the minimum only if the objective there is below size^2 / 2, its value
    # at 0.
    if power < 1.0 and 0.5 * (u - size) ** 2 + weight * u**power >= 0.5 * size**2:
        return 0.0
    return u


@compiled
def descend(
    G: Array,
    q: Array,
    x: Array,
    weight: Array,
    power: Array,
    ridge: Array,
    J: NDArray[np.intp],
    passes: int,
    tol: float,
) -> None:
    """Cyclic coordinate descent over the coordinates J on x'Gx/2 - c'x + sum_j weight_j
    |x_j|^power_j + ridge_j x_j^2 / 2, in place.

    q = c - G x covers all coordinates. Passes over J alternate with several over its
    nonzero ones, so that few coordinates leave zero. Ends after a pass over J that moved none
    by more than tol, or after `passes`.
    """
    enough = np.inf  # passes over the nonzero coordinates end at this move
    for _ in range(passes):
        largest = 0.0
        over_all = enough == np.inf
        for j in J:
            if x[j] == 0.0 and not over_all:
                continue
            curvature = G[j, j] + ridge[j]
            new = 0.0
            # A column without variation: only its prior matters, and its mode is 0.
            if curvature > 0.0:
                # In x_j = u, over the curvature: (u - z)^2 / 2 + (weight_j / curvature) |u|^power_j + constant (Friedman et al. 2007).
                z = (q[j] + G[j, j] * x[j]) / curvature
                new = _shrink(abs(z), weight[j] / curvature, power[j])
                if z < 0.0:
                    new = -new
            elif weight[j] == 0.0:
                continue
            step = new - x[j]
            if step == 0.0:
                continue
            x[j] = new
            for i in range(q.size):
                q[i] -= step * G[j, i]
            largest = max(largest, abs(step) * np.sqrt(max(curvature, 0.0)))
        if over_all:
            if largest <= tol:
                return
            enough = 0.1 * largest
        elif largest <= enough:
            enough = np.inf
