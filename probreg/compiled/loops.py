"""Loops over rows shared by all densities: templates, where a density replaces `tile`, `summed`, `row` and `hessian`.

`probreg.compiled.build` compiles one copy of each per density. X comes in tiles (T, q, b), rows innermost, so that all of the
arithmetic is on consecutive numbers and a tile is read once while it stays in the first cache; or as a plain array (n, p). A tile has the
columns of X that are not zero in all of its rows, and `columns` (T, q) their numbers, with -1 if a tile has fewer than q.
Weights of shape (0,) and offsets of shape (0, n) mean none. y is (n,), or (n, c) if a row's response is c numbers.
"""

from typing import Any

import numpy as np
from numpy.typing import NDArray

Array = NDArray[np.float64]
Places = NDArray[np.int64]
B = 512  # rows in a tile: with 20 columns 80 kB, and the work arrays stay in the first cache
C = 128  # rows in a tile for products of columns with each other: two copies stay in the first cache


# Functions of one density: `probreg.compiled.build` replaces these names before it compiles a loop.
row: Any = None  # (y, eta, t) -> log p, its slope over eta, its slope over log aux; or (y, eta, t, slopes over log aux) -> the first two
tile: Any = None  # the same of a tile of rows, (y, eta, t, log p, slopes)
summed: Any = None  # the sum over a tile, with the slopes, and the weights in both
product: Any = None  # (y, eta, t) -> a, e, slope, with log p = a - log(1 + e)
log1p: Any = None  # of compiled code
settings: Any = None  # (nuisance parameters, constants) -> t
exp: Any = None  # of compiled code
by_predictors: bool = False
hessian: Any = (
    None  # (y, eta, t, curve) -> the negative second derivatives over eta of a tile
)


def tile_of_rows(y: Array, eta: Array, t: Array, log_p: Array, slope: Array) -> None:
    """Evaluate a row's density over the rows of a tile."""
    e, s, s_aux = (
        eta[0],
        slope[0],
        slope[1],
    )  # also stored without a nuisance parameter, so that only one loop is compiled
    for i in range(y.shape[0]):
        log_p[i], s[i], s_aux[i] = row(y[i], e[i], t)


def tile_of_rows_with_slopes(
    y: Array, eta: Array, t: Array, log_p: Array, slope: Array
) -> None:
    """Evaluate a row's density with several nuisance parameters over the rows of a tile."""
    e = eta[0]
    s = slope[0]
    for i in range(y.shape[0]):
        log_p[i], s[i] = row(y[i], e[i], t, slope[1:, i])


def tile_of_predictors(
    y: Array, eta: Array, t: Array, log_p: Array, slope: Array
) -> None:
    """Evaluate the density of rows with different nuisance parameters, exp(eta + t), which replace their predictors in `eta`."""
    a = eta.shape[0] - 1
    for k in range(a):
        e = eta[1 + k]
        for i in range(y.shape[0]):
            e[i] = exp(e[i] + t[k])
    e = eta[0]
    s = slope[0]
    for i in range(y.shape[0]):
        log_p[i], s[i] = row(y[i], e[i], settings(eta[1:, i], t[a:]), slope[1:, i])


def row_with_slopes(y: Any, eta: float, t: Any, slopes: Array) -> tuple[float, float]:
    """Evaluate a row with one nuisance parameter in the form that fills an array of slopes."""
    log_p, slope, slopes[0] = row(y, eta, t)
    return log_p, slope


def sum_of_tile(
    y: Array, eta: Array, w: Array, t: Array, log_p: Array, slope: Array
) -> float:
    """Return sum_i w_i log p of the rows of a tile; write the slopes, times the weights, to `slope`."""
    tile(y, eta, t, log_p[0], slope)
    if w.size:
        weigh(w, log_p[:1])
        weigh(w, slope)
    value = 0.0
    for i in range(y.shape[0]):
        value += log_p[0, i]
    return value


def sum_of_products(
    y: Array, eta: Array, w: Array, t: Array, log_p: Array, slope: Array
) -> float:
    """Return `sum_of_tile` for log p_i = a_i - log(1 + e_i), e_i in [0, 1], with one logarithm per tile without weights."""
    # A logarithm a row was 28 of the 65 us of a logistic gradient at (10^4, 11).
    value = 0.0
    n = y.shape[0]
    f = eta[0]
    s = slope[0]
    a = log_p[0]
    e = log_p[1]
    for i in range(n):
        a[i], e[i], s[i] = product(y[i], f[i], t)
    if w.size:
        for i in range(n):
            s[i] *= w[i]
            value += w[i] * (a[i] - log1p(e[i]))
        return value
    for i in range(n):
        value += a[i]
    return value - sum_of_log1p(e, n)


def sum_of_log1p(e: Array, n: int) -> float:
    """Return sum_i log(1 + e_i) of at most 1,000 numbers in [0, 1], which are overwritten."""
    # sum log(1 + e) = log1p(q), 1 + q = prod (1 + e) <= 2^n, by halves: (1 + e)(1 + f) = 1 + (e + f + e f). No digits are lost,
    # since no term is negative.
    while n > 1:
        half = (n + 1) // 2
        for i in range(n - half):
            e[i] += e[half + i] + e[i] * e[half + i]
        n = half
    return log1p(e[0])


def add_products(
    X: Array, columns: Places, beta: Array, c: int, b: int, e: Array
) -> None:
    """Add X' beta_c to e over b rows, for a tile X (q, >= b)."""
    for k in range(X.shape[0]):
        j = columns[k]
        if j < 0:
            break
        x = X[k]
        slant = beta[j, c]
        for i in range(b):
            e[i] += x[i] * slant


def add_slopes(
    X: Array, columns: Places, s: Array, c: int, m: int, b: int, out: Array
) -> None:
    """Add sum_i x_ij s_i over b rows to the entry of each column j and predictor c in out."""
    for k in range(X.shape[0]):
        j = columns[k]
        if j < 0:
            break
        x = X[k]
        total = 0.0
        for i in range(b):
            total += x[i] * s[i]
        out[j * m + c] += total


def gradient_of_tile(
    X: Array,
    columns: Places,
    y: Array,
    w: Array,
    offset: Array,
    beta: Array,
    t: Array,
    out: Array,
    eta: Array,
    slope: Array,
    log_p: Array,
) -> float:
    """sum_i w_i log p_i of the rows of a tile X (q, >= b), b = y.shape[0], offset (m, b); its slopes are added to `out`."""
    p, m = beta.shape
    b = y.shape[0]
    for c in range(m):
        # eta_c = X beta_c + offset_c
        e = eta[c]
        for i in range(b):
            e[i] = offset[c, i] if offset.shape[0] else 0.0
        add_products(X, columns, beta, c, b, e)
    value = summed(y, eta, w, t, log_p, slope)
    for c in range(m):
        # d/d beta_jc = sum_i w_i x_ij d log p_i / d eta_ic
        add_slopes(X, columns, slope[c], c, m, b, out)
    first = 1 if by_predictors else m
    for c in range(out.size - p * m):
        s = slope[first + c]
        up = 0.0
        for i in range(b):
            up += s[i]
        out[p * m + c] += up
    return value


def gradient(
    tiles: Array, columns: Places, y: Array, w: Array, offset: Array, beta: Array, t: Array, out: Array, eta: Array, slope: Array, log_p: Array
) -> float:  # fmt: skip
    """sum_i w_i log p_i at beta (p, m); its slopes over vec(beta), and over log aux behind them, go into `out`. The last three are
    work arrays: see `probreg.compiled.affine`."""
    for j in range(out.size):
        out[j] = 0.0
    value = 0.0
    for k in range(tiles.shape[0]):
        start = k * tiles.shape[2]
        stop = min(start + tiles.shape[2], y.shape[0])
        value += gradient_of_tile(
            tiles[k], columns[k], y[start:stop], w[start:stop], offset[:, start:stop], beta, t, out, eta, slope, log_p
        )  # fmt: skip
    return value


def derivatives(
    X: Array,
    y: Array,
    w: Array,
    offset: Array,
    beta: Array,
    t: Array,
    out: Array,
    H: Array,
) -> float:
    """The same for rows X (n, p), with the curvature X' W X in H (pairs, p, p), where W is the `hessian` of each row.

    H has a block for each pair of predictors c <= d, with the upper triangle filled; without pairs there is no curvature.
    """
    n, p = X.shape
    m = beta.shape[1]
    pairs = H.shape[0]
    U = np.zeros((p, C))
    columns = np.arange(p)
    v = np.zeros(C)
    eta = np.zeros((m, C))
    slope = np.empty((m, C))
    log_p = np.empty((1, C))
    curve = np.zeros((pairs, C))
    out[:] = 0.0
    H[:] = 0.0
    value = 0.0
    for start in range(0, n, C):
        stop = min(start + C, n)
        rows = X[start:stop]
        for j in range(p):
            u = U[j]
            for i in range(stop - start):
                u[i] = rows[i, j]
        value += gradient_of_tile(
            U[:p], columns, y[start:stop], w[start:stop], offset[:, start:stop], beta, t, out, eta, slope, log_p
        )  # fmt: skip
        if pairs:
            hessian(y[start:stop], eta, t, curve)
            if w.size:
                weigh(w[start:stop], curve)
            for k in range(pairs):
                # H_cd = sum_i w_i h_i^(cd) x_i x_i', h_i^(cd) = -d^2 log p_i / d eta_ic d eta_id.
                weighted_products(U, v, curve[k], stop - start, H[k])
    return value


def values(
    X: Array, y: Array, offset: Array, beta: Array, t: Array, out: Array
) -> None:
    """log p of each row at each of S points beta (S, m, p) with t (S, k), k at least the number of nuisance parameters, into `out` (S, n)."""
    n, p = X.shape
    S = beta.shape[0]
    m = beta.shape[1]
    # points that share a matrix product in the second-level cache
    group = max(1, 64 // m)
    slope = np.empty((m + max(1, t.shape[1]), B))
    for start in range(0, n, B):
        stop = min(start + B, n)
        rows = X[start:stop]
        for a in range(0, S, group):
            points = beta[a : a + group]
            g = points.shape[0]
            eta = np.dot(points.reshape((g * m, p)), rows.T).reshape(
                (g, m, stop - start)
            )
            for s in range(g):
                # `eta[s] += ...` also assigns a slice, which takes Numba seconds to compile
                predictors = eta[s]
                if offset.shape[0]:
                    predictors += offset[:, start:stop]
                tile(y[start:stop], predictors, t[a + s], out[a + s, start:stop], slope)


def weigh(w: Array, rows: Array) -> None:
    """Multiply each of `rows` (k, >= b) by the weights w (b,)."""
    for k in range(rows.shape[0]):
        r = rows[k]
        for i in range(w.size):
            r[i] *= w[i]


def weighted_products(U: Array, v: Array, s: Array, b: int, G: Array) -> None:
    """G += U diag(s) U' over b rows, its upper triangle; v is a work array."""
    for j in range(U.shape[0]):
        u = U[j]
        for i in range(b):
            v[i] = u[i] * s[i]
        # G_jk = sum_i s_i u_ji u_ki
        for k in range(j, U.shape[0]):
            u = U[k]
            total = 0.0
            for i in range(b):
                total += v[i] * u[i]
            G[j, k] += total


def entries(
    theta: Array, at: Array, location: Array, scale: Array, t: Array, out: Array
) -> tuple[float, float]:
    """sum_k log p(r_k) - log scale_k over the entries `at` of theta, r = (theta - location) / scale, and its slope over the
    log of a factor of every scale; slopes over theta are added to `out`."""
    value, unit = 0.0, 0.0
    for k in range(at.size):
        j = int(at[k])
        s = scale[k]
        # log p(theta_j) = f(r) - log s: d/d theta_j = f'(r) / s, and -r f'(r) - 1 over the log of a factor of s.
        r = (theta[j] - location[k]) / s
        log_p, up, _ = row(0.0, r, t)
        value += log_p - np.log(s)
        out[j] += up / s
        unit -= r * up + 1.0
    return value, unit
