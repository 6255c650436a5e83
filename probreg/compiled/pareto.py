"""Pareto-smoothed importance weights and leave-one-out densities of each row: compiled, one pass over the draws of a row.

The weight of draw s without row i is 1 / p(y_i | draw s). The largest weights of a row are replaced by quantiles of a generalised Pareto
distribution fitted to them; its shape k measures the reliability of the weights. numba is imported here.

Counting finds the threshold of the tail, because sorting all draws of a row would take longer than everything else.
"""

import math

import numpy as np
from numpy.typing import NDArray

from probreg.compiled.elementary import exp, inline, log1p, summing
from probreg.compiled.quantiles import compiled, mean_and_deviation, threshold

Array = NDArray[np.float64]
Places = NDArray[np.int64]


@summing
def _sum_of_exp(x: Array, shift: float) -> float:
    """sum_s exp(x_s - shift)."""
    total = 0.0
    for s in range(x.size):
        total += exp(x[s] - shift)
    return total


@summing
def _mean_log1p(b: float, y: Array) -> float:
    """mean_j log(1 - b y_j) of y (M,), all 1 - b y_j > 0."""
    total = 0.0
    for j in range(y.size):
        total += log1p(-b * y[j])
    return total / y.size


@inline
def _fit_pareto(y: Array, b: Array, score: Array) -> tuple[float, float]:
    """Shape k and scale sigma of a generalised Pareto distribution from sorted excesses y (M,), nan if it does not fit.

    The posterior mean of theta = -k / sigma over candidates b, under a prior that draws k to 1/2 with the weight of ten observations.
    """
    M = y.size
    m = b.size
    quartile = y[int(M / 4.0 + 0.5) - 1]
    if not quartile > y[0]:
        return math.nan, math.nan
    for i in range(m):
        # theta_i = 1 / y_M + (1 - sqrt(m / (i - 1/2))) / (3 y*), y* the first quartile
        b[i] = 1.0 / y[M - 1] + (1.0 - math.sqrt(m / (i + 0.5))) / (3.0 * quartile)
        k = _mean_log1p(b[i], y)
        # profile log likelihood of theta: M (log(-theta / k) - k - 1)
        score[i] = M * (math.log(-b[i] / k) - k - 1.0)
    top = score.max()
    total = 0.0
    for i in range(m):
        score[i] = math.exp(score[i] - top)
        total += score[i]
    mean, kept_weight = 0.0, 0.0
    for i in range(m):
        # posterior weights of candidates that are not rounding
        if score[i] / total >= 10.0 * 2.220446049250313e-16:
            mean += b[i] * score[i]
            kept_weight += score[i]
    theta = mean / kept_weight
    k = _mean_log1p(theta, y)
    return (M * k + 5.0) / (M + 10.0), -k / theta


@inline
def _smooth_tail(
    x: Array,
    tail: Array,
    at: Places,
    log_tail: Array,
    b: Array,
    score: Array,
) -> float:
    """k of log weights x (S,) with maximum 0 and the M largest at the places `at`, the smallest first; their smoothed values go into
    `log_tail`. `tail` (M,) is a work array for the excesses."""
    M = at.size - 1
    cutoff = math.exp(x[at[0]])  # the largest weight that is not in the tail
    for j in range(M):
        log_tail[j] = x[at[j + 1]]
        tail[j] = math.exp(log_tail[j]) - cutoff
    if not log_tail[M - 1] - log_tail[0] > 2.3e-308:
        return -math.inf  # equal weights need no tail
    k, sigma = _fit_pareto(tail, b, score)
    if math.isfinite(k) and sigma > 0.0:
        for j in range(M):
            # the quantile of p = (j + 1/2) / M: cutoff + sigma ((1 - p)^-k - 1) / k
            log_share = math.log1p(-(j + 0.5) / M)
            if k == 0.0:
                q = cutoff - sigma * log_share
            else:
                q = cutoff + sigma * math.expm1(-k * log_share) / k
            log_tail[j] = min(math.log(q), 0.0)
    return k


@compiled
def smooth_largest(x: Array, at: Places, log_tail: Array) -> float:
    """`_smooth_tail` with its own work arrays."""
    M = at.size - 1
    m = 30 + int(math.sqrt(M))
    return _smooth_tail(x, np.empty(M), at, log_tail, np.empty(m), np.empty(m))


@compiled
def leave_each_row_out(
    log_lik: Array,
    correction: Array,
    M: int,
    z: float,
    elpd: Array,
    lppd: Array,
    k: Array,
    log_w: Array,
) -> None:
    """For each row of `log_lik` (n, S): log p(y_i | others) into `elpd`, log p(y_i | all) into `lppd`, the Pareto shape into `k`.

    `correction` (S,) is log p - log q of draws from q, with maximum 0. M is the length of the tail, and the search for the tail starts
    at the normal quantile z of its share. `log_w` (n, S) receives the logarithms of the weights, which sum to one; with shape (0, 0)
    it receives none.
    """
    n, S = log_lik.shape
    m = 30 + int(math.sqrt(M))
    x = np.empty(S)
    joint = np.empty(S)
    at = np.empty(S, np.int64)
    tail = np.empty(M)
    log_tail = np.empty(M)
    b = np.empty(m)
    score = np.empty(m)
    for i in range(n):
        row = log_lik[i]
        most, top, known = _log_weight_maxima(row, correction, x)
        if not known or top == -math.inf:  # a density of zero or nan
            elpd[i] = lppd[i] = k[i] = math.nan
            if log_w.size:
                log_w[i] = math.nan
            continue
        for s in range(S):
            x[s] -= top
        top_of = _largest_places(x, M + 1, z, at, joint)
        k[i] = _smooth_tail(x, tail, top_of, log_tail, b, score)
        for j in range(M):
            x[top_of[j + 1]] = log_tail[j]
        scale = math.log(_sum_of_exp(x, 0.0))
        for s in range(S):
            joint[s] = x[s] + row[s]
        peak = joint.max()
        # log sum_s w_s p(y_i | s) / sum_s w_s, and log of the mean of p(y_i | s)
        elpd[i] = peak + math.log(_sum_of_exp(joint, peak)) - scale
        lppd[i] = most + math.log(_sum_of_exp(row, most) / S)
        if log_w.size:
            for s in range(S):
                log_w[i, s] = x[s] - scale


@summing
def _log_weight_maxima(
    row: Array, correction: Array, x: Array
) -> tuple[float, float, bool]:
    """correction - row goes into x; the largest of `row` and of x, and whether each of x is a number below inf."""
    most, top, n_infinite = -math.inf, -math.inf, 0
    for s in range(row.size):
        x[s] = correction[s] - row[s]
        most = max(most, row[s])
        top = max(top, x[s])
        n_infinite += not x[s] < math.inf  # of nan too
    return most, top, n_infinite == 0


@inline
def _largest_places(x: Array, count: int, z: float, at: Places, work: Array) -> Places:
    """Return the places of the `count` largest of x, in ascending order of x."""
    mean, sd = mean_and_deviation(x)
    bound = -threshold(x, -1.0, count, -mean, sd, z)
    found = 0
    for s in range(x.size):
        at[found], work[found] = s, x[s]
        found += x[s] >= bound
    _sort_pairs(work[:found], at)
    return at[found - count : found]


@inline
def _sort_pairs(x: Array, y: Places) -> None:
    """Sort x, and y with it, by insertion over gaps that shrink (Shell 1959): `np.argsort` would take two seconds to compile."""
    gap = x.size // 2
    while gap > 0:
        for i in range(gap, x.size):
            value, place = x[i], y[i]
            j = i
            while j >= gap and x[j - gap] > value:
                x[j], y[j] = x[j - gap], y[j - gap]
                j -= gap
            x[j], y[j] = value, place
        gap = 1 if gap == 2 else gap * 5 // 11
