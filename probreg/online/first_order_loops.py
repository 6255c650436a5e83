"""The compiled loops of gradient learners. numba is imported here and in `second_order_loops`, both on use.

The scalar losses are compiled from `losses`; numba does not see a change of that file, so change this one too. A loop goes
through rows of X from weights w, writes into `arrays`, changes its state arrays in place and returns the number of steps: it
stops before the update of a round with a row or a loss that is not finite. The `step` method of a learner is the
definition, and tests compare every loop with it. Sums may be reassociated, which changes the last bits.
"""

from typing import Any

import numpy as np
from numba import njit
from numpy.typing import NDArray

import probreg.online.losses as losses
from probreg.compiled.cache import cached_njit
from probreg.online.updates import IMPLICIT, NORMALISED, Setup

Array = NDArray[Any]
RoundArrays = tuple[
    Array, Array, Array, Array, Array
]  # the fields of updates.RoundArrays
compiled = cached_njit(nogil=True, fastmath={"reassoc", "contract", "nsz"})
inline = njit(nogil=True, fastmath={"reassoc", "contract", "nsz"})

_squared = njit(losses._squared_loss)
_absolute = njit(losses._absolute)
_insensitive = njit(losses._insensitive)
_hinge = njit(losses._hinge)
_perceptron = njit(losses._perceptron)
_logistic = njit(losses._logistic)


HUGE = np.finfo(
    float
).max  # abs(v) <= HUGE is false for a NaN too; isfinite takes v - v, which reassociation makes 0


@inline
def _loss(code: int, f: float, y: float, c: float) -> tuple[float, float]:
    # the squared loss by itself: among the others it is behind a jump by table, which costs a round of it a sixth
    if code == 0:
        return _squared(f, y, c)
    return _other_loss(code, f, y, c)


@inline
def _other_loss(code: int, f: float, y: float, c: float) -> tuple[float, float]:
    if code == 1:
        return _absolute(f, y, c)
    if code == 2:
        return _insensitive(f, y, c)
    if code == 3:
        return _hinge(f, y, c)
    if code == 4:
        return _perceptron(f, y, c)
    return _logistic(f, y, c)


@inline
def _dot(a: Array, b: Array) -> float:
    s = 0.0
    for j in range(a.size):
        s += a[j] * b[j]
    return s


@inline
def _dot_and_square(w: Array, X: Array, i: int) -> tuple[float, float]:
    """Return w'x and x'x of row i, in one loop: a view of the row would cost a third more."""
    f, q = 0.0, 0.0
    for j in range(w.size):
        v = X[i, j]
        f += w[j] * v
        q += v * v
    return f, q


@inline
def _step_size(s: Setup, t: int, q: float) -> float:
    kind = s[0][1]
    _, step, power, eps, _ = s[1]
    # s = step t^-power; the multiplier is s, s / (eps + q), s / (1 + s q) or min(step, l / (eps + q)), q = |x|^2.
    now = step if power == 0.0 else step * t**-power
    if kind == NORMALISED:
        return now / (eps + q) if eps + q > 0 else 0.0
    if kind == IMPLICIT:
        return now / (1.0 + now * q)
    return now


@inline
def _round(
    f: float, q: float, y: float, t: int, s: Setup
) -> tuple[float, float, float]:
    """Loss, slope and multiplier of x of a round; the loss is NaN if the row or the loss is not finite."""
    value, slope = _loss(s[0][0], f, y, s[1][0])
    if not abs(value + q) <= HUGE:
        return np.nan, slope, 0.0
    return value, slope, _step_size(s, t, q) * slope


@compiled
def euclid(
    X: Array, y: Array, w: Array, pending: Array, t: int, s: Setup, arrays: RoundArrays
) -> int:
    """Gradient steps, in batches or within a ball where there are these."""
    prediction, losses, slopes, squares, total = arrays
    batch = s[0][2]
    radius = s[1][4]
    for i in range(y.size):
        f, q = _dot_and_square(w, X, i)
        value, slope, a = _round(f, q, y[i], t + i + 1, s)
        if not abs(value) <= HUGE:
            return i
        prediction[i], losses[i], slopes[i], squares[i] = f, value, slope, q
        for j in range(w.size):
            total[j] += w[j]
            # w moves by the sum of a l'(f) x over a batch
            pending[j] += a * X[i, j]
        if (t + i + 1) % batch == 0:
            for j in range(w.size):
                w[j] -= pending[j]
                pending[j] = 0.0
            norm = np.sqrt(_dot(w, w))
            if norm > radius:
                w *= radius / norm
    return y.size


@compiled
def mirror(
    X: Array,
    y: Array,
    w: Array,
    theta: Array,
    t: int,
    geometry: int,
    s: Setup,
    arrays: RoundArrays,
) -> int:
    """Additive steps in theta, weights w(theta): exponentiated gradient on the simplex, or signed."""
    prediction, losses, slopes, squares, total = arrays
    norm = s[1][4]
    for i in range(y.size):
        f, q = _dot_and_square(w, X, i)
        value, slope, a = _round(f, q, y[i], t + i + 1, s)
        if not abs(value) <= HUGE:
            return i
        prediction[i], losses[i], slopes[i], squares[i] = f, value, slope, q
        for j in range(w.size):
            total[j] += w[j]
        if a == 0.0:
            continue
        # theta <- theta - a l'(f) x; signed: the simplex sees the row norm (x, -x).
        a *= norm
        for j in range(w.size):
            theta[j] -= a * X[i, j]
            if geometry == 2:
                theta[j + w.size] += a * X[i, j]
        e = np.exp(theta - theta.max())
        scale = 0.0
        for j in range(e.size):
            scale += e[j]
        # w_j = exp(theta_j) / sum_k exp(theta_k); signed: norm (v+_j - v-_j) of the two halves.
        for j in range(w.size):
            if geometry == 1:
                w[j] = e[j] / scale
            else:
                w[j] = norm * ((e[j] - e[j + w.size]) / scale)
    return y.size
