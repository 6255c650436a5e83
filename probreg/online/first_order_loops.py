"""The inner loops of gradient learners, compiled: numba is imported here and in `second_order_loops`, both on use.

The scalar losses are compiled as they stand in `losses`; numba does not see that file change, so touch this one too.
A loop goes through rows of X from weights w, writes into `out`, changes its state arrays in place and returns how many
rows it took: it stops before the update of a round whose row or loss is not finite. P holds the rows that predictions reported
are made from: X itself, unless a scaler saw them earlier (`again` is then true). The pure step of a learner is the
definition; a law holds every loop to it. `sizes` is the parameter c of the loss row by row, or empty where it is one number.
Sums may be reassociated, which moves the last bits.
"""

from typing import Any

import numpy as np
from numba import njit
from numpy.typing import NDArray

import probreg.online.losses as losses
from probreg.numerics.compiled.cache import cached_njit
from probreg.online.parts import ADAGRAD, IMPLICIT, NORMALISED, PASSIVE, Setup

Array = NDArray[Any]
Rows = tuple[Array, Array, Array]  # X, P, y
Out = tuple[Array, Array, Array, Array, Array]  # the fields of parts.Out
compiled = cached_njit(nogil=True, fastmath={"reassoc", "contract", "nsz"})
inline = njit(nogil=True, fastmath={"reassoc", "contract", "nsz"})

_squared = njit(losses._squared_loss)
_absolute = njit(losses._absolute)
_insensitive = njit(losses._insensitive)
_hinge = njit(losses._hinge)
_perceptron = njit(losses._perceptron)
_logistic = njit(losses._logistic)
_poisson = njit(losses._poisson)
_binomial = njit(losses._binomial_loss)


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
    if code == 5:
        return _logistic(f, y, c)
    if code == 8:
        return _binomial(f, y, c)
    return _poisson(f, y, c)


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
def _step_size(s: Setup, t: int, q: float, loss: float) -> float:
    _, kind, _, _, _ = s[0]
    _, step, power, eps, _, _ = s[1]
    # s = step t^-power; the multiplier is s, s / (eps + q), s / (1 + s q) or min(step, l / (eps + q)), q = |x|^2.
    now = step if power == 0.0 else step * t**-power
    if kind == NORMALISED:
        return now / (eps + q) if eps + q > 0 else 0.0
    if kind == IMPLICIT:
        return now / (1.0 + now * q)
    if kind == PASSIVE:
        if eps + q > 0:
            return min(step, loss / (eps + q))
        return 0.0
    return now


@inline
def _project(w: Array, radius: float, l1: int) -> None:
    if l1 == 0:
        norm = np.sqrt(_dot(w, w))
        if norm > radius:
            w *= radius / norm
        return
    size = 0.0
    for j in range(w.size):
        size += abs(w[j])
    if size <= radius:
        return
    # sign(w) (|w| - cut)_+ with sum_j (|w_j| - cut)_+ = radius   (Duchi, Shalev-Shwartz, Singer & Chandra 2008).
    u = np.sort(np.abs(w))[::-1]
    cumulated = 0.0
    cut = 0.0
    for k in range(u.size):
        cumulated += u[k]
        excess = (cumulated - radius) / (k + 1)
        if u[k] > excess:
            cut = excess
    for j in range(w.size):
        w[j] = np.sign(w[j]) * max(abs(w[j]) - cut, 0.0)


@inline
def _round(
    f: float, q: float, y: float, c: float, t: int, s: Setup
) -> tuple[float, float, float]:
    """Loss, slope and multiplier of x of a round; no number as a loss says that the row or the loss is not finite.

    What is written stands in the loops: to hand an array on costs more than a round does.
    """
    value, slope = _loss(s[0][0], f, y, c)
    if not abs(value + q) <= HUGE:
        return np.nan, slope, 0.0
    return value, slope, _step_size(s, t, q, value) * slope


@compiled
def plain_step(
    X: Array, y: Array, sizes: Array, w: Array, t: int, s: Setup, out: Out
) -> int:
    """w += -step slope x and nothing else: least mean squares, perceptron, online logistic.

    One loop takes the step of a round and the products of the next: a loop for each would wait for w to be written and read again.
    """
    prediction, losses, slopes, squares, total = out
    last = y.size - 1
    f, q = _dot_and_square(w, X, 0) if y.size else (0.0, 0.0)
    for i in range(y.size):
        c = sizes[i] if sizes.size else s[1][0]
        value, slope, a = _round(f, q, y[i], c, t + i + 1, s)
        if not abs(value) <= HUGE:
            return i
        prediction[i], losses[i], slopes[i], squares[i] = f, value, slope, q
        after = min(i + 1, last)
        f, q = 0.0, 0.0
        for j in range(w.size):
            total[j] += w[j]
            # w <- w - a l'(f) x, then f = w'x and q = x'x of the next row
            u = w[j] - a * X[i, j]
            v = X[after, j]
            w[j] = u
            f += u * v
            q += v * v
    return y.size


@compiled
def euclid(
    rows: Rows,
    sizes: Array,
    w: Array,
    memory: tuple[Array, Array],
    t: int,
    s: Setup,
    out: Out,
) -> int:
    """Gradient steps with any of: AdaGrad, ridge, batches, a ball. memory: squared gradients, pending directions."""
    X, P, y = rows
    prediction, losses, slopes, norms, total = out
    squares, pending = memory
    _, kind, batch, l1, again = s[0]
    _, _, _, eps, ridge, radius = s[1]
    for i in range(y.size):
        f, q = _dot_and_square(w, X, i)
        c = sizes[i] if sizes.size else s[1][0]
        value, slope, _ = _round(f, q, y[i], c, t + i + 1, s)
        a = _step_size(s, t + i + 1, q, value)
        if again:
            f = _dot(w, P[i])
            if abs(value) <= HUGE:
                value = _loss(s[0][0], f, y[i], c)[0]
            else:
                value = np.nan
        if not abs(value) <= HUGE:
            return i
        prediction[i], losses[i], slopes[i], norms[i] = f, value, slope, q
        for j in range(w.size):
            total[j] += w[j]
            # g = l'(f) x + ridge w; w moves by the sum of a g over a batch
            g = slope * X[i, j] + ridge * w[j]
            if kind == ADAGRAD:
                squares[j] += g * g
                g /= eps + np.sqrt(squares[j])
            pending[j] += a * g
        if (t + i + 1) % batch == 0:
            for j in range(w.size):
                w[j] -= pending[j]
                pending[j] = 0.0
            _project(w, radius, l1)
    return y.size


@inline
def _weigh(theta: Array, w: Array, geometry: int, norm: float) -> None:
    if geometry == 2:
        for j in range(w.size):
            w[j] = np.exp(theta[j])
        return
    # w_j = exp(theta_j) / sum_k exp(theta_k); signed: norm (v+_j - v-_j) of the two halves.
    top = theta.max()
    total = 0.0
    e = np.exp(theta - top)
    for j in range(e.size):
        total += e[j]
    for j in range(w.size):
        if geometry == 1:
            w[j] = e[j] / total
        else:
            w[j] = norm * ((e[j] - e[j + w.size]) / total)


@compiled
def mirror(
    rows: Rows,
    sizes: Array,
    w: Array,
    theta: Array,
    t: int,
    geometry: int,
    s: Setup,
    out: Out,
) -> int:
    """Additive steps in theta, weights w(theta): exponentiated gradient on the simplex, positive, signed."""
    X, P, y = rows
    prediction, losses, slopes, norms, total = out
    again = s[0][4]
    norm = s[1][5]
    for i in range(y.size):
        f, q = _dot_and_square(w, X, i)
        c = sizes[i] if sizes.size else s[1][0]
        value, slope, a = _round(f, q, y[i], c, t + i + 1, s)
        if again:
            f = _dot(w, P[i])
            if abs(value) <= HUGE:
                value = _loss(s[0][0], f, y[i], c)[0]
            else:
                value = np.nan
        if not abs(value) <= HUGE:
            return i
        prediction[i], losses[i], slopes[i], norms[i] = f, value, slope, q
        for j in range(w.size):
            total[j] += w[j]
        if a == 0.0:
            continue
        # theta <- theta - a l'(f) x; signed: the simplex sees the row norm (x, -x).
        if geometry == 3:
            a *= norm
            for j in range(w.size):
                theta[j] -= a * X[i, j]
                theta[j + w.size] += a * X[i, j]
        else:
            for j in range(w.size):
                theta[j] -= a * X[i, j]
        _weigh(theta, w, geometry, norm)
    return y.size
