"""The compiled loop of recursive least squares; see `first_order_loops`."""

import numpy as np

from probreg.online.first_order_loops import (
    HUGE,
    Array,
    RoundArrays,
    _dot,
    compiled,
)


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
        total[:] += w
        # F'F <- f F'F + (x, y)(x, y)', f the forgetting.
        row[:p], row[p] = X[i], y[i]
        if forgetting < 1.0:
            F *= root
        rotate(F, row)
        solve(F, w)
    return y.size


@compiled
def rotate(F: Array, row: Array) -> None:
    """F becomes the factor of F'F + row'row, its diagonal not negative; row is used up."""
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
