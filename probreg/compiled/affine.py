"""A log density over affine coordinates theta = centre + A z, as one compiled function for compiled code.

log p(z) = constant + sum_i w_i log p_i(theta) + sum_k log q(theta_k) + sum_a f_a(theta_a) - pull'z - z' Q z / 2: the rows of a likelihood,
independent entries with another density q, priors f_a of nuisance parameters, and the quadratic terms. theta is vec(beta), followed by the logs of all nuisance
parameters if one of them is unknown, and A (theta, d).

Coefficients with unknown scales D are normal, log D is linear in the logs of hyperparameters, which follow z, and T is the root of the correlations of
K effects of a group, or 1. Non-centred coefficients of a group are location + D T (theta - location), theta with the standard deviations `scale`, and
all other parameters are shifted by their regression on these. Centred ones have this distribution without a change of coordinates.
"""

from math import cosh, exp, log, log1p, tanh
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from probreg.compiled.loops import B, Places

Array = NDArray[np.float64]


def work_of(b: int, m: int, nuisance: int = 0) -> tuple[Array, Array, Array]:
    """eta (m, b), slope (m + nuisance, b) and log p (2, b), which `loops.gradient` of m predictors and tiles of b rows writes to, with room for
    one slope over nuisance parameters at least. They start at a cache line: a logistic gradient at (10^4, 11) then takes 39 us, in place of 42 us with
    NumPy's own arrays."""
    last = 2 * m + max(1, nuisance)
    memory = np.empty((last + 2) * b + 8)
    aligned = memory[-memory.ctypes.data % 64 // 8 :][: (last + 2) * b]
    buffer = aligned.reshape(-1, b)
    return buffer[:m], buffer[m:last], buffer[last:]


def order_by_zeros(X: Array) -> Places:
    """Return an order of the rows of X (n, p): rows with zeros in the same columns are neighbours, so that tiles have few columns.

    >>> order_by_zeros(np.array([[1.0, 2.0], [1.0, 0.0], [3.0, 4.0]])).tolist()
    [1, 0, 2]
    """
    patterns = np.packbits(X != 0.0, axis=1)
    return np.lexsort(patterns.T[::-1])


def tiles_of(X: Array) -> tuple[Array, Places]:
    """Return tiles (T, q, b) and columns (T, q): tile t contains rows t b to (t + 1) b of X (n, p), transposed; rows after the last are zero.

    >>> tiles, columns = tiles_of(np.array([[1.0, 0.0, 2.0], [3.0, 0.0, 4.0]]))
    >>> tiles.tolist(), columns.tolist()
    ([[[1.0, 3.0], [2.0, 4.0]]], [[0, 2]])
    """
    n = len(X)
    b = min(B, n)
    parts = [X[start : start + b] for start in range(0, n, b)]
    present = [np.flatnonzero(rows.any(0)) for rows in parts]
    q = max(map(len, present))
    tiles = np.zeros((len(parts), q, b))
    columns = np.full((len(parts), q), -1)
    for t, (rows, places) in enumerate(zip(parts, present)):
        tiles[t, : len(places), : len(rows)] = rows[:, places].T
        columns[t, : len(places)] = places
    return tiles, columns


class AffineData(NamedTuple):
    """The arrays of an affine density: its rows (see `loops.gradient`), its map, its quadratic part, and its entries, with `at` the
    places in theta as numbers."""

    tiles: Array
    columns: Places
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
    groups: Array  # (b, 4), of each block of these: first coefficient, K, number of groups, first log of its correlations
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
    standard: Array  # (s,), of coefficients with unknown scales: theta - location, or T^-1 deviation of centred ones
    scales: Array  # (s,), D
    deviations: Array  # (s,), T (theta - location), or (beta - location) / (D scale)
    over_deviations: Array  # slopes over these
    root: Array  # (K, K), T
    over_root: Array  # slopes over it

    @classmethod
    def of(cls, data: AffineData, m: int, nuisance: int) -> "Work":
        """Return the work arrays for one evaluation at a time, of a density with m predictors and this number of nuisance parameters."""
        a = len(data.priors)
        K = int(data.groups[:, 1].max(initial=1))
        theta = np.empty(data.centre.size)
        beta = theta[: len(theta) - a].reshape(-1, m)
        return cls(
            *work_of(data.tiles.shape[2], m, nuisance),
            beta,
            theta,
            np.empty_like(theta),
            data.t.copy(),
            np.empty(a),
            *np.empty((4, len(data.scaled))),
            *np.zeros((2, K, K)),
        )


# Replaced under these names before compilation.
gradient: Any = None  # of the likelihood
entries: Any = None  # of the other density, if any
settings: Any = None  # of the likelihood, if a nuisance parameter is unknown
move: Any = None  # `move_scaled`, if there are hyperparameters
pull_back: Any = None  # `pull_back_scaled`, likewise
centred: Any = None  # `add_centred`
noncentred: Any = None  # `add_noncentred`
fill_root: Any = None  # `correlation_root`
add_root_slopes: Any = None  # `add_correlation_slopes`
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
        data.columns,
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


def correlation_root(T: Array, z: Array, K: int, first: int) -> None:
    """Write the lower triangular root of a correlation matrix to T, from its partial correlations tanh(t), row by row; t begins at z[first]."""
    n = first
    for i in range(K):
        product = 1.0
        for j in range(i):
            T[i, j] = tanh(z[n]) * product
            product /= cosh(z[n])
            n += 1
        T[i, i] = product


def add_correlation_slopes(
    T: Array, over: Array, z: Array, slopes: Array, K: int, first: int
) -> None:
    """Add the slopes over t that follow from the slopes over the root."""
    n = first
    for i in range(K):
        product = 1.0
        for j in range(i):
            # T_ij has the factor tanh(t), and every later entry of its row sech(t); log sech has the slope -tanh
            later = 0.0
            for k in range(j + 1, i + 1):
                later += over[i, k] * T[i, k]
            sech = 1.0 / cosh(z[n])
            slopes[n] += over[i, j] * sech * sech * product - tanh(z[n]) * later
            product *= sech
            n += 1


def move_scaled(data: Any, work: Any, z: Array) -> None:
    """Compute the scales D at z, and non-centred coefficients from theta; shift all other parameters by their regression on these."""
    theta, standard, scales, T = work.theta, work.standard, work.scales, work.root
    c = data.regression.shape[1]
    d = data.A.shape[1]
    for s in range(data.scaled.size):
        log_scale = data.scaled_priors[s, 2]
        for h in range(data.hyper.shape[0]):
            log_scale += data.log_slopes[s, h] * z[d + h]
        scales[s] = exp(log_scale)
    for b in range(data.groups.shape[0]):
        start, K, count, pair = data.groups[b]
        if start < c:
            fill_root(T, z, K, d + pair)
            for s in range(start, start + K * count):
                standard[s] = theta[data.scaled[s]] - data.scaled_priors[s, 0]
            for s in range(start, start + K * count):
                k = (s - start) % K
                total = 0.0
                for i in range(k + 1):
                    total += T[k, i] * standard[s - k + i]
                work.deviations[s] = total
                theta[data.scaled[s]] = data.scaled_priors[s, 0] + scales[s] * total
    for f in range(data.others.size):
        shift = 0.0
        for s in range(c):
            j = data.scaled[s]
            shift += data.regression[f, s] * (theta[j] - data.centre[j])
        theta[data.others[f]] += shift


def pull_back_scaled(data: Any, work: Any, z: Array, slopes: Array) -> float:
    """Return the log prior of hyperparameters and of coefficients with unknown scales, without constants.

    Its slopes over the logs are written to `slopes`, and `over` becomes the slopes over theta before `move_scaled`.
    """
    over, T, over_T = work.over, work.root, work.over_root
    c = data.regression.shape[1]
    d = data.A.shape[1]
    for h in range(data.hyper.shape[0]):
        slopes[d + h] = 0.0
    value = add_terms(data.hyper, z, slopes, d)
    # the centred coefficients first, which are behind the non-centred ones and regressed on them
    for b in range(data.groups.shape[0] - 1, -1, -1):
        start, K, count, pair = data.groups[b]
        if start + K * count == c:
            for f in range(data.others.size):
                for s in range(c):
                    over[data.scaled[s]] += data.regression[f, s] * over[data.others[f]]
        fill_root(T, z, K, d + pair)
        for k in range(K):
            for i in range(k + 1):
                over_T[k, i] = 0.0
        if start < c:
            value += noncentred(data, work, slopes, start, start + K * count, K)
        else:
            value += centred(data, work, slopes, start, start + K * count, K)
        add_root_slopes(T, over_T, z, slopes, K, d + pair)
    return value


def add_centred(
    data: Any, work: Any, slopes: Array, start: int, stop: int, K: int
) -> float:
    """Return the log prior of the centred coefficients from `start` to `stop`, and add its slopes."""
    standard, scales, deviations, over_deviations = (
        work.standard, work.scales, work.deviations, work.over_deviations,
    )  # fmt: skip
    theta, over, T, over_T = work.theta, work.over, work.root, work.over_root
    d = data.A.shape[1]
    value = 0.0
    for s in range(start, stop):
        # w = T^-1 v, v = (beta - location) / (D scale)
        k = (s - start) % K
        scale = scales[s] * data.scaled_priors[s, 1]
        deviations[s] = (theta[data.scaled[s]] - data.scaled_priors[s, 0]) / scale
        total = deviations[s]
        for i in range(k):
            total -= T[k, i] * standard[s - k + i]
        standard[s] = total / T[k, k]
        value -= 0.5 * standard[s] * standard[s] + log(scales[s] * T[k, k])
    for s in range(stop - 1, start - 1, -1):
        # log p = -|w|^2 / 2 - log |D T| has the slopes -a over v, a = T'^-1 w, and a w' - T'^-1 over T
        k = (s - start) % K
        total = standard[s]
        for i in range(k + 1, K):
            total -= T[i, k] * over_deviations[s - k + i]
        a = total / T[k, k]
        over_deviations[s] = a
        over[data.scaled[s]] -= a / (scales[s] * data.scaled_priors[s, 1])
        for h in range(data.hyper.shape[0]):
            slopes[d + h] += data.log_slopes[s, h] * (a * deviations[s] - 1.0)
        for i in range(k + 1):
            over_T[k, i] += a * standard[s - k + i]
        over_T[k, k] -= 1.0 / T[k, k]
    return value


def add_noncentred(
    data: Any, work: Any, slopes: Array, start: int, stop: int, K: int
) -> float:
    """Return the log prior of the non-centred coefficients from `start` to `stop`, and replace their slopes by slopes over theta."""
    standard, over_deviations = work.standard, work.over_deviations
    over, T, over_T = work.over, work.root, work.over_root
    d = data.A.shape[1]
    value = 0.0
    for s in range(start, stop):
        # beta = location + D v, v = T u, u = theta - location
        k = (s - start) % K
        g = over[data.scaled[s]] * work.scales[s]
        over_deviations[s] = g
        for h in range(data.hyper.shape[0]):
            slopes[d + h] += data.log_slopes[s, h] * g * work.deviations[s]
        for i in range(k + 1):
            over_T[k, i] += g * standard[s - k + i]
    for s in range(start, stop):
        k = (s - start) % K
        total = 0.0
        for i in range(k, K):
            total += T[i, k] * over_deviations[s - k + i]
        r = standard[s] / data.scaled_priors[s, 1]
        value -= 0.5 * r * r
        over[data.scaled[s]] = total - r / data.scaled_priors[s, 1]
    return value
