"""The inner loops of learners of functions, compiled; see `first_order_loops`.

Candidates are the anchors, oldest first, and the rows of the block behind them: K[i, j] = k(row i of the block, candidate j). The
candidate of row i stands at first + i, first the number of anchors, and is an anchor where `used` says so.
"""

import numpy as np

from probreg.online.first_order_loops import (
    HUGE,
    Array,
    Out,
    Setup,
    _loss,
    _step_size,
    compiled,
    inline,
)

Pair = tuple[Array, Array]


@inline
def _earlier_duplicate(rows: Array, used: Array, low: int, here: int) -> int:
    """Return the anchor before candidate `here` with the same row, else `here`."""
    for j in range(low, here):
        if used[j] and rows[j, 0] == rows[here, 0]:
            k = 1
            while k < rows.shape[1] and rows[j, k] == rows[here, k]:
                k += 1
            if k == rows.shape[1]:
                return j
    return here


@compiled
def anchored_gradient(
    K: Pair,
    rows: Array,
    response: Pair,
    arrays: tuple[Array, ...],
    t: int,
    s: Setup,
    budget: int,
    out: Out,
) -> int:
    """f += -a (slope k(x, .) + ridge f), in batches, in a ball, or with the oldest anchor dropped beyond the budget (0: none)."""
    y, sizes = response
    w, pending, total, used, numbers = arrays
    prediction, losses, slopes, norms, _ = out
    batch = s[0][2]
    ridge = s[1][4]
    radius = s[1][5]
    first = rows.shape[0] - y.size
    low = 0
    count = first
    for i in range(y.size):
        here = first + i
        q = K[1][i]
        f = 0.0
        for j in range(low, here):
            f += K[0][i, j] * w[j]
        value, slope = _loss(s[0][0], f, y[i], sizes[i] if sizes.size else s[1][0])
        if not abs(value + q) <= HUGE:
            return i
        prediction[i], losses[i], slopes[i], norms[i] = f, value, slope, q
        for j in range(low, here):
            total[j] += w[j]
        a = _step_size(s, t + i + 1, q, value)
        b = a * slope
        place = here
        if b != 0.0:
            place = _earlier_duplicate(rows, used, low, here)
            if place == here:
                used[here] = True
                count += 1
        # f <- f - a (l'(f(x)) k(x, .) + ridge f)
        if batch == 1:
            if ridge != 0.0:
                for j in range(low, here):
                    w[j] -= a * ridge * w[j]
            w[place] -= b
        else:
            for j in range(low, here):
                pending[j] += a * ridge * w[j]
            pending[place] += b
            if (t + i + 1) % batch == 0:
                for j in range(low, here + 1):
                    w[j] -= pending[j]
                    pending[j] = 0.0
        if radius < HUGE:
            # |(1 - c) f - b k(x, .)|^2 = (1 - c)^2 |f|^2 - 2 (1 - c) b f(x) + b^2 k(x, x)
            left = 1.0 - a * ridge
            numbers[0] = left * left * numbers[0] - 2.0 * left * b * f + b * b * q
            if numbers[0] > radius * radius:
                for j in range(low, here + 1):
                    w[j] *= radius / np.sqrt(numbers[0])
                numbers[0] = radius * radius
        if 0 < budget < count:
            while not used[low]:
                low += 1
            w[low], pending[low], used[low] = 0.0, 0.0, False
            numbers[1] += 1.0
            count -= 1
            low += 1
    return y.size


@compiled
def anchored_squares(
    K: Pair,
    y: Array,
    arrays: tuple[Array, ...],
    knobs: tuple[float, float, float],
    out: Out,
) -> int:
    """Kernel least squares in the coordinates phi = L^-1 k(d, x) of the dictionary, whose j-th row is candidate where[j].

    arrays: L, R and z of the factor [R z; 0 rss], the sums of u = R^-1 z, where, and numbers: anchors, rss, rows projected.
    knobs: precision, tolerance, rounding.
    """
    L, R, z, total, where, numbers = arrays
    precision, tolerance, rounding = knobs
    prediction, losses, slopes, norms, _ = out
    first = K[0].shape[1] - y.size
    m = int(numbers[0])
    most = z.size
    phi = np.zeros(most)
    a = np.zeros(most)
    u = np.zeros(most)
    _back(R, z, u, m)
    for i in range(y.size):
        far = K[1][i]
        f = 0.0
        for j in range(m):
            # phi_j = (k(d_j, x) - sum_(h < j) L_jh phi_h) / L_jj
            rest = K[0][i, where[j]]
            for h in range(j):
                rest -= L[j, h] * phi[h]
            phi[j] = rest / L[j, j]
            far -= phi[j] * phi[j]
            f += phi[j] * u[j]
        e = f - y[i]
        if not abs(e * e + K[1][i]) <= HUGE:
            return i
        prediction[i], losses[i], slopes[i], norms[i] = f, e * e, e, K[1][i]
        for j in range(m):
            total[j] += u[j]
        # a = K(d, d)^-1 k(d, x) = L'^-1 phi: rounding of k moves `far` by (1 + sum |a_j|)^2 of it
        size = 1.0
        for j in range(m):
            a[j] = phi[j]
        for j in range(m - 1, -1, -1):
            a[j] /= L[j, j]
            size += abs(a[j])
            for h in range(j):
                a[h] -= L[j, h] * a[j]
        least = rounding * K[1][i] * size * size
        if far > max(tolerance, least) and m < most:
            for j in range(m):
                L[m, j] = phi[j]
            phi[m] = np.sqrt(far)
            L[m, m], R[m, m], where[m] = phi[m], np.sqrt(precision), first + i
            m += 1
            numbers[0] = m
        elif far > least:
            numbers[2] += 1.0
        # [R z; 0 rss] <- the factor of itself and the row (phi, y), by Givens rotations
        last = y[i]
        for k in range(m):
            r = np.hypot(R[k, k], phi[k])
            c = R[k, k] / r
            s = phi[k] / r
            for j in range(k, m):
                above = R[k, j]
                below = phi[j]
                R[k, j], phi[j] = c * above + s * below, c * below - s * above
            z[k], last = c * z[k] + s * last, c * last - s * z[k]
        numbers[1] = np.hypot(numbers[1], last)
        _back(R, z, u, m)
    return y.size


@inline
def _back(R: Array, z: Array, u: Array, m: int) -> None:
    for k in range(m - 1, -1, -1):
        # u_k = (z_k - sum_(j > k) R_kj u_j) / R_kk
        rest = z[k]
        for j in range(k + 1, m):
            rest -= R[k, j] * u[j]
        u[k] = rest / R[k, k]


@compiled
def anchored_dual(
    K: Pair,
    rows: Array,
    y: Array,
    arrays: tuple[Array, ...],
    knobs: tuple[float, float, float],
    out: Out,
) -> int:
    """Support vector regression by steps in the two dual variables of each row; y of all candidates, a step < 0 is 1 / k(x, x)."""
    up, down, total, used, again = arrays
    C, eps, step = knobs
    prediction, losses, slopes, norms, _ = out
    first = rows.shape[0] - K[1].size
    for i in range(K[1].size):
        here = first + i
        q = K[1][i]
        f = 0.0
        for j in range(here):
            f += K[0][i, j] * (up[j] - down[j])
        e = f - y[here]
        if not abs(e + q) <= HUGE:
            return i
        prediction[i], norms[i] = f, q
        losses[i], slopes[i] = (
            max(abs(e) - eps, 0.0),
            np.sign(e) if abs(e) > eps else 0.0,
        )
        for j in range(here):
            total[j] += up[j] - down[j]
        place = here
        for j in range(here):
            if used[j] and y[j] == y[here] and rows[j, 0] == rows[here, 0]:
                k = 1
                while k < rows.shape[1] and rows[j, k] == rows[here, k]:
                    k += 1
                if k == rows.shape[1]:
                    place = j
                    break
        if step > 0.0:
            s = step
        elif q > 0.0:
            s = 1.0 / q
        else:
            s = 0.0
        # up += min(max(step (y - f - eps), -up), C - up), and down with f - y
        up[place] += min(max(s * (-e - eps), -up[place]), C - up[place])
        down[place] += min(max(s * (e - eps), -down[place]), C - down[place])
        if place < here:
            again[0] += 1.0
        elif up[here] != 0.0 or down[here] != 0.0:
            used[here] = True
    return K[1].size
