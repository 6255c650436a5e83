"""The inner loops of second-order learners, softmax regression and the running scaler, compiled; see `first_order_loops`."""

import numpy as np

from probreg.online.first_order_loops import (
    HUGE,
    Array,
    Out,
    Rows,
    Setup,
    _dot,
    compiled,
)


@compiled
def rls_rounds(rows: Rows, w: Array, F: Array, forgetting: float, out: Out) -> int:
    """Square-root recursive least squares: row [x y] is rotated into the triangle F (p+1, p+1) by Givens rotations."""
    X, P, y = rows
    prediction, losses, slopes, norms, total = out
    p = w.size
    root = np.sqrt(forgetting)
    row = np.empty(p + 1)
    for i in range(y.size):
        report = _dot(w, P[i])
        e = report - y[i]
        q = _dot(X[i], X[i])
        if not abs(e * e + q) <= HUGE:
            return i
        prediction[i], losses[i], slopes[i], norms[i] = report, e * e, e, q
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
        rest = F[k, p]
        norm = 0.0
        for j in range(k + 1, p):
            rest -= F[k, j] * w[j]
        for j in range(k + 1):
            norm += F[j, k] * F[j, k]
        if F[k, k] > 1e-12 * np.sqrt(norm):
            w[k] = rest / F[k, k]
        else:
            w[k] = 0.0


@compiled
def affine(
    rows: Rows,
    w: Array,
    memory: tuple[Array, Array],
    knobs: tuple[float, float],
    out: Out,
) -> int:
    """Affine projection: the last rows A (order, p) and their responses b; knobs are (step, eps)."""
    X, P, y = rows
    prediction, losses, slopes, norms, total = out
    A, b = memory
    order = b.size
    for i in range(y.size):
        report = _dot(w, P[i])
        e = report - y[i]
        q = _dot(X[i], X[i])
        if not abs(e * e + q) <= HUGE:
            return i
        prediction[i], losses[i], slopes[i], norms[i] = report, e * e, e, q
        total[:] += w
        for k in range(order - 1, 0, -1):
            A[k], b[k] = A[k - 1], b[k - 1]
        A[0], b[0] = X[i], y[i]
        # w <- w + step A'(AA' + eps I)^-1 (b - A w)
        G = A @ A.T
        for k in range(order):
            G[k, k] += knobs[1]
        w += knobs[0] * (A.T @ np.linalg.solve(G, b - A @ w))
    return y.size


@compiled
def softmax_rounds(rows: Rows, w: Array, t: int, s: Setup, out: Out) -> int:
    """W (p, K) += -step x (h - e_y)', h the softmax of W'x; prediction is (n, K)."""
    X, P, y = rows
    prediction, losses, slopes, norms, total = out
    p, K = w.shape
    _, step, power, _, _, _ = s[1]
    h = np.empty(K)
    for i in range(y.size):
        code = int(y[i])
        report = P[i] @ w
        prediction[i] = report
        # -log h_y = log sum_k exp f_k - f_y
        losses[i] = (
            np.log(np.exp(report - report.max()).sum()) + report.max() - report[code]
        )
        f = X[i] @ w if s[0][4] else report
        norms[i] = _dot(X[i], X[i])
        if not abs(losses[i] + norms[i]) <= HUGE:
            return i
        h = np.exp(f - f.max())
        h /= h.sum()
        # d(-log h_y) / df = h - e_y, W <- W - step x (h - e_y)'
        h[code] -= 1.0
        slopes[i] = np.sqrt(_dot(h, h))
        now = step * (t + i + 1.0) ** -power
        for j in range(p):
            for k in range(K):
                total[j, k] += w[j, k]
                w[j, k] -= now * h[k] * X[i, j]
    return y.size


@compiled
def standardise(
    X: Array, mean: Array, square: Array, count: float, before: Array, after: Array
) -> None:
    """Rows scaled by the running mean and population sd before and after each row joined them (Welford 1962)."""
    for i in range(len(X)):
        for j in range(X.shape[1]):
            if count > 0:
                sd = np.sqrt(square[j] / count)
            else:
                sd = 0.0
            if sd > 0:
                before[i, j] = (X[i, j] - mean[j]) / sd
            else:
                before[i, j] = 0.0
        count += 1.0
        for j in range(X.shape[1]):
            # mean_t = mean_(t-1) + d / t, M_t = M_(t-1) + d (x - mean_t), sd^2 = M_t / t   (Welford 1962).
            d = X[i, j] - mean[j]
            mean[j] += d / count
            square[j] += d * (X[i, j] - mean[j])
            sd = np.sqrt(square[j] / count)
            if sd > 0:
                after[i, j] = (X[i, j] - mean[j]) / sd
            else:
                after[i, j] = 0.0
