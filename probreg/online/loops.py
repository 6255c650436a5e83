"""The compiled loops of first- and second-order learners. This module imports numba and is imported on use.

The scalar losses are compiled from `losses`; numba does not notice a change of `losses`, so change this file too. A loop passes
over the rows of X with weights w, writes into `arrays`, changes its state arrays in place and returns the number of steps: it
stops before the update of a round with a row or a loss that is not finite. The `step` method of a learner is the
definition, and tests compare every loop with it. Sums may be reassociated, which changes the last bits.
"""

from typing import Any

import numpy as np
from numba import njit
from numpy.typing import NDArray

import probreg.online.updates as losses
from probreg.compiled.cache import cached_njit
from probreg.online.updates import IMPLICIT, NORMALISED, Setup

Array = NDArray[Any]
# the fields of updates.RoundArrays
RoundArrays = tuple[Array, Array, Array, Array, Array]
compiled = cached_njit(nogil=True, fastmath={"reassoc", "contract", "nsz"})
inline = njit(nogil=True, fastmath={"reassoc", "contract", "nsz"})

_squared = njit(losses._squared_loss)
_absolute = njit(losses._absolute)
_insensitive = njit(losses._insensitive)
_hinge = njit(losses._hinge)
_perceptron = njit(losses._perceptron)
_logistic = njit(losses._logistic)


# abs(v) <= HUGE is false for a NaN too; isfinite takes v - v, which reassociation makes 0
HUGE = np.finfo(float).max


@inline
def _loss(code: int, f: float, y: float, c: float) -> tuple[float, float]:
    if code == 0:
        return _squared(f, y, c)
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
def _round(
    f: float, q: float, y: float, t: int, s: Setup
) -> tuple[float, float, float]:
    """Loss, slope and multiplier of x of a round; the loss is NaN if the row or the loss is not finite."""
    c, step, power, eps, _ = s[1]
    value, slope = _loss(s[0][0], f, y, c)
    if not abs(value + q) <= HUGE:
        return np.nan, slope, 0.0
    # s = step t^-power; the multiplier is s, s / (eps + q) or s / (1 + s q), q = |x|^2.
    now = step if power == 0.0 else step * t**-power
    kind = s[0][1]
    if kind == NORMALISED:
        now = now / (eps + q) if eps + q > 0 else 0.0
    elif kind == IMPLICIT:
        now = now / (1.0 + now * q)
    return value, slope, now * slope


@inline
def _move_exponents(
    theta: Array, w: Array, X: Array, i: int, step: float, size: float
) -> None:
    """theta <- theta - step x for row i of X, and w = w(theta); where theta has two halves, the simplex sees the row (x, -x)."""
    p = w.size
    signed = theta.size > p
    for j in range(p):
        theta[j] -= step * X[i, j]
        if signed:
            theta[j + p] += step * X[i, j]
    e = np.exp(theta - theta.max())
    scale = 0.0
    for j in range(e.size):
        scale += e[j]
    # w_j = exp(theta_j) / sum_k exp(theta_k); signed: size (v+_j - v-_j) of the two halves.
    for j in range(p):
        if signed:
            w[j] = size * ((e[j] - e[j + p]) / scale)
        else:
            w[j] = e[j] / scale


@compiled
def gradient_rounds(
    X: Array,
    y: Array,
    w: Array,
    theta: Array,
    t: int,
    additive: bool,
    s: Setup,
    arrays: RoundArrays,
) -> int:
    """Gradient steps: `additive` in w itself, within a ball if there is one, else in theta with weights w(theta)."""
    prediction, losses, slopes, squares, total = arrays
    size = s[1][4]
    p = w.size
    for i in range(y.size):
        f, q = _dot_and_square(w, X, i)
        value, slope, a = _round(f, q, y[i], t + i + 1, s)
        if not abs(value) <= HUGE:
            return i
        prediction[i], losses[i], slopes[i], squares[i] = f, value, slope, q
        for j in range(p):
            total[j] += w[j]
        if additive:
            # w <- w - a l'(f) x, and back to the ball
            for j in range(p):
                w[j] -= a * X[i, j]
            norm = np.sqrt(_dot(w, w))
            if norm > size:
                w *= size / norm
        elif a != 0.0:
            _move_exponents(theta, w, X, i, size * a, size)
    return y.size


@compiled
def rls_rounds(
    X: Array, y: Array, w: Array, F: Array, forgetting: float, arrays: RoundArrays
) -> int:
    """Square-root recursive least squares: row [x y] is rotated into the triangle F (p+1, p+1) by Givens rotations."""
    prediction, losses, slopes, squares, total = arrays
    p = w.size
    root = np.sqrt(forgetting)
    row = np.empty(p + 1)
    for i in range(y.size):
        f = _dot(w, X[i])
        e = f - y[i]
        q = _dot(X[i], X[i])
        if not abs(e * e + q) <= HUGE:
            return i
        prediction[i], losses[i], slopes[i], squares[i] = f, e * e, e, q
        total += w
        # F'F <- f F'F + (x, y)(x, y)', f the forgetting.
        for j in range(p):
            row[j] = X[i, j]
        row[p] = y[i]
        if forgetting < 1.0:
            F *= root
        rotate(F, row)
        solve(F, w)
    return y.size


@compiled
def rotate(F: Array, row: Array) -> None:
    """F becomes the factor of F'F + row'row, with a diagonal >= 0; row is overwritten."""
    for k in range(row.size):
        if row[k] == 0.0:
            continue
        # [c s; -s c] [F_k; row] has 0 in place of row_k: c = F_kk / r, s = row_k / r   (Golub & Van Loan 2013, 5.1.8).
        r = np.hypot(F[k, k], row[k])
        c = F[k, k] / r
        s = row[k] / r
        for j in range(k, row.size):
            a = F[k, j]
            b = row[j]
            F[k, j], row[j] = c * a + s * b, c * b - s * a


@compiled
def solve(F: Array, w: Array) -> None:
    """w from R w = z by back-substitution; a weight that the rows so far do not determine is 0."""
    p = w.size
    for k in range(p - 1, -1, -1):
        # w_k = (z_k - sum_(j > k) R_kj w_j) / R_kk, 0 where R_kk is rounding of its column.
        remainder = F[k, p]
        norm = 0.0
        for j in range(k + 1, p):
            remainder -= F[k, j] * w[j]
        for j in range(k + 1):
            norm += F[j, k] * F[j, k]
        if F[k, k] > 1e-12 * np.sqrt(norm):
            w[k] = remainder / F[k, k]
        else:
            w[k] = 0.0
