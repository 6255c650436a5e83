"""A log density over affine coordinates theta = centre + A z, as one compiled function for compiled code.

log p(z) = constant + sum_i w_i log p_i(theta) + sum_k log q(theta_k) + sum_a f_a(theta_a) - pull'z - z' Q z / 2: the rows of a likelihood,
independent entries with another density q, priors f_a of nuisance parameters, and the quadratic terms. theta is vec(beta), followed by the logs of all nuisance
parameters if one of them is unknown, and A (theta, d).

Coefficients with unknown scales D are normal, and log D is linear in the logs of hyperparameters, which follow z. A centred coefficient has
the standard deviation D scale. A non-centred one is location + D (theta - location), theta with the standard deviation `scale`, and the
parameters without an unknown scale are shifted by their regression on these.
"""

from math import exp, log, log1p
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from probreg.compiled.loops import B

Array = NDArray[np.float64]


def work_of(tiles: Array, m: int, nuisance: int = 0) -> tuple[Array, Array, Array]:
    """eta (m, b), slope (m + nuisance, b) and log p (2, b), which `loops.gradient` of m predictors writes to, with room for one slope over
    nuisance parameters at least. They start where a line of cache does: a logistic gradient at (10^4, 11) takes 39 us, and 42 on arrays
    as NumPy makes them."""
    b = tiles.shape[2]
    last = 2 * m + max(1, nuisance)
    buffer = np.empty((last + 2) * b + 8)
    buffer = buffer[-buffer.ctypes.data % 64 // 8 :][: (last + 2) * b].reshape(-1, b)
    return buffer[:m], buffer[m:last], buffer[last:]


def tiles_of(X: Array) -> Array:
    """(T, p, b): tile t contains rows t b to (t + 1) b of X (n, p), transposed; rows past the last are zero.

    >>> tiles_of(np.array([[1.0, 2.0], [3.0, 4.0]])).tolist()
    [[[1.0, 3.0], [2.0, 4.0]]]
    """
    n, p = X.shape
    b = min(B, n)
    tiles = np.zeros((-(-n // b), p, b))
    for k, start in enumerate(range(0, n, b)):
        rows = X[start : start + b]
        tiles[k, :, : len(rows)] = rows.T
    return tiles


class AffineData(NamedTuple):
    """The arrays of an affine density: its rows (see `loops.gradient`), its map, its quadratic part, and its entries, with `at` the
    places in theta as numbers."""

    tiles: Array
    y: Array
    w: Array
    offset: Array
    t: Array
    constants: Array  # of the settings
    priors: Array  # (a, 6), the `LogTerms` of each nuisance parameter in theta
    centre: Array
    A: Array
    pull: Array
    Q: Array
    at: Array
    location: Array
    scale: Array
    t_entries: Array
    constant: Array  # (1,)
    hyper: Array  # (h, 6), the `LogTerms` of each log of a hyperparameter
    scaled: Array  # (s,), the places in theta of coefficients with unknown scales as numbers, non-centred ones first
    scaled_priors: (
        Array  # (s, 3), their location, their scale, and log D where all logs are 0
    )
    log_slopes: Array  # (s, h), of log D
    others: Array  # (f,), the places of the other parameters
    regression: Array  # (f, c), of these on the c non-centred coefficients


class Work(NamedTuple):
    """Arrays that an evaluation writes to, so that compiled code allocates none: code that allocates takes 0.4 s to compile."""

    eta: Array  # of `loops.gradient`
    slope: Array
    log_p: Array
    beta: Array  # (p, m), the memory of theta
    theta: Array  # (k,)
    over: Array  # slopes over it
    t: Array
    values: Array  # (a,) nuisance parameters in theta
    moved: Array  # (2, s), of coefficients with unknown scales: theta - location of non-centred ones, and D

    @classmethod
    def of(cls, data: AffineData, nuisance: int) -> "Work":
        """Return the work arrays for one evaluation at a time, of a density with so many nuisance parameters."""
        p = data.tiles.shape[1]
        a = len(data.priors)
        theta = np.empty(data.centre.size)
        beta = theta[: len(theta) - a].reshape(p, -1)
        return cls(
            *work_of(data.tiles, beta.shape[1], nuisance),
            beta,
            theta,
            np.empty_like(theta),
            data.t.copy(),
            np.empty(a),
            np.empty((2, len(data.scaled))),
        )


# Replaced under these names before compilation.
gradient: Any = None  # of the likelihood
entries: Any = None  # of the other density, if any
settings: Any = None  # of the likelihood, if a nuisance parameter is unknown
move: Any = None  # `move_scaled`, if there are hyperparameters
pull_back: Any = None  # `pull_back_scaled`, likewise
add_terms: Any = None  # `add_log_terms`


def arrays(found: Any) -> Any:
    """Return the arrays themselves when Python runs this; compiled code reads them from an address."""
    return found


def affine_log_density(z: Array, slopes: Array, where: Any) -> float:
    """Return log p at z (d,) and write its slopes to `slopes` (d,). `where` gives the arrays, `AffineData` and `Work`."""
    data, work = arrays(where)
    centre = data.centre
    A = data.A
    Q = data.Q
    k = data.centre.size
    d = data.A.shape[1]
    theta = work.theta
    over = work.over
    for j in range(k):
        sum_ = 0.0
        for i in range(d):
            sum_ += A[j, i] * z[i]
        theta[j] = centre[j] + sum_
    if move is not None:
        move(data, work, z)
    a = data.priors.shape[0]
    if settings is not None:
        for i in range(a):
            work.values[i] = exp(theta[k - a + i])
        for i, number in enumerate(settings(work.values, data.constants)):
            work.t[i] = number
    value = gradient(
        data.tiles,
        data.y,
        data.w,
        data.offset,
        work.beta,
        work.t,
        over,
        work.eta,
        work.slope,
        work.log_p,
    )
    if entries is not None:
        value += entries(
            theta, data.at, data.location, data.scale, data.t_entries, over
        )[0]
    value += add_terms(data.priors, theta[k - a :], over[k - a :], 0)
    if pull_back is not None:
        value += pull_back(data, work, z, slopes)
    value += data.constant[0]
    # d/dz = A' d/dtheta - pull - Q z
    for i in range(d):
        across = 0.0
        for j in range(d):
            across += Q[i, j] * z[j]
        slopes[i] = -data.pull[i] - across
        value -= z[i] * (data.pull[i] + 0.5 * across)
    for j in range(k):
        for i in range(d):
            slopes[i] += A[j, i] * over[j]
    return float(value)


def add_log_terms(terms: Array, x: Array, slopes: Array, first: int) -> float:
    """Return the sum of log densities with these `LogTerms` at the logs x, from place `first`, and add its slopes to `slopes`."""
    value = 0.0
    for i in range(terms.shape[0]):
        prior = terms[i]
        u = x[first + i]
        power = prior[2] * exp(prior[3] * u)
        square = exp(2.0 * u) / prior[5]
        value += (prior[0] - 0.5 * prior[1] * u) * u - power - prior[4] * log1p(square)
        tail = 2.0 * prior[4] * square / (1.0 + square)
        slopes[first + i] += prior[0] - prior[1] * u - prior[3] * power - tail
    return value


def move_scaled(data: Any, work: Any, z: Array) -> None:
    """Compute the scales D at z, multiply the distance of non-centred coefficients from their location by D, and shift the other parameters by
    their regression on these."""
    theta = work.theta
    moved = work.moved
    c = data.regression.shape[1]
    d = data.A.shape[1]
    for s in range(data.scaled.size):
        log_scale = data.scaled_priors[s, 2]
        for h in range(data.hyper.shape[0]):
            log_scale += data.log_slopes[s, h] * z[d + h]
        moved[1, s] = exp(log_scale)
    for s in range(c):
        j = int(data.scaled[s])
        location = data.scaled_priors[s, 0]
        moved[0, s] = theta[j] - location
        theta[j] = location + moved[1, s] * moved[0, s]
    for f in range(data.others.size):
        shift = 0.0
        for s in range(c):
            j = int(data.scaled[s])
            shift += data.regression[f, s] * (theta[j] - data.centre[j])
        theta[int(data.others[f])] += shift


def pull_back_scaled(data: Any, work: Any, z: Array, slopes: Array) -> float:
    """Return the log prior of hyperparameters and of coefficients with unknown scales, without constants.

    Its slopes over the logs are written to `slopes`, and `over` becomes the slopes over theta before `move_scaled`.
    """
    over = work.over
    theta = work.theta
    moved = work.moved
    c = data.regression.shape[1]
    d = data.A.shape[1]
    count = data.hyper.shape[0]
    for h in range(count):
        slopes[d + h] = 0.0
    value = add_terms(data.hyper, z, slopes, d)
    for s in range(c, data.scaled.size):
        # -log D - r^2 / 2, r = (beta - location) / (D scale), has the slope r^2 - 1 over log D
        j = int(data.scaled[s])
        scale = moved[1, s] * data.scaled_priors[s, 1]
        r = (theta[j] - data.scaled_priors[s, 0]) / scale
        value -= log(moved[1, s]) + 0.5 * r * r
        over[j] -= r / scale
        for h in range(count):
            slopes[d + h] += data.log_slopes[s, h] * (r * r - 1.0)
    for f in range(data.others.size):
        for s in range(c):
            over[int(data.scaled[s])] += (
                data.regression[f, s] * over[int(data.others[f])]
            )
    for s in range(c):
        # beta = location + D (theta - location)
        j = int(data.scaled[s])
        scale = data.scaled_priors[s, 1]
        over[j] *= moved[1, s]
        for h in range(count):
            slopes[d + h] += data.log_slopes[s, h] * over[j] * moved[0, s]
        r = moved[0, s] / scale
        value -= 0.5 * r * r
        over[j] -= r / scale
    return value
