"""Pareto-smoothed importance weights, and what they say of each row when it is left out: compiled, one pass over the draws of a row.

The weight of draw s without row i is 1 / p(y_i | draw s). The largest weights of a row are replaced by quantiles of a generalised Pareto
distribution fitted to them, whose shape k says how far the weights can be trusted. numba is imported here.
Sources: Vehtari, Simpson, Gelman, Yao & Gabry 2024, Pareto Smoothed Importance Sampling; Zhang & Stephens 2009 for the fit.
"""

import math

import numpy as np
from numba import njit
from numpy.typing import NDArray

from probreg.numerics.compiled.cache import kept
from probreg.numerics.compiled.elementary import exp, inline, log1p

Array = NDArray[np.float64]
Places = NDArray[np.int64]
compiled = kept(nogil=True, error_model="numpy", fastmath={"contract"})
summing = njit(forceinline=True, nogil=True, error_model="numpy", fastmath={"reassoc", "contract", "nsz"})
_EVERY = 8  # draws, of which one is looked at for a bound
_NEGLIGIBLE = 10.0 * 2.220446049250313e-16  # of the posterior weights of candidates in the fit


@summing
def _sum_of_exp(x: Array, shift: float) -> float:
    """sum_s exp(x_s - shift)."""
    total = 0.0
    for s in range(x.size):
        total += exp(x[s] - shift)
    return total


@summing
def _mean_log1p(b: float, y: Array) -> float:
    """mean_j log(1 - b y_j)."""
    total = 0.0
    for j in range(y.size):
        total += log1p(-b * y[j])
    return total / y.size


@inline
def _fit_pareto(y: Array, b: Array, score: Array) -> tuple[float, float]:
    """Shape k and scale sigma of a generalised Pareto distribution from sorted excesses y (M,), nan where it does not fit.

    The posterior mean of theta = -k / sigma over candidates b, under a prior that draws k to 1/2 with the weight of ten observations.
    """
    M, m = y.size, b.size
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
        if score[i] / total >= _NEGLIGIBLE:
            mean += b[i] * score[i]
            kept_weight += score[i]
    theta = mean / kept_weight
    k = _mean_log1p(theta, y)
    return (M * k + 5.0) / (M + 10.0), -k / theta


@inline
def _smooth_tail(x: Array, tail: Array, at: Places, log_tail: Array, b: Array, score: Array) -> float:
    """k of log weights x (S,) with maximum 0, whose M largest stand at `at`, the smallest first; their smoothed values go into
    `log_tail`. `tail` (M,) is room for the excesses."""
    M = at.size - 1
    cutoff = math.exp(x[at[0]])  # the largest weight that is not in the tail
    for j in range(M):
        log_tail[j] = x[at[j + 1]]
        tail[j] = math.exp(log_tail[j]) - cutoff
    if not log_tail[M - 1] - log_tail[0] > 2.3e-308:
        return -math.inf  # weights that are all the same need no tail
    k, sigma = _fit_pareto(tail, b, score)
    if math.isfinite(k) and sigma > 0.0:
        for j in range(M):
            # the quantile of p = (j + 1/2) / M: cutoff + sigma ((1 - p)^-k - 1) / k
            away = math.log1p(-(j + 0.5) / M)
            q = cutoff - sigma * away if k == 0.0 else cutoff + sigma * math.expm1(-k * away) / k
            log_tail[j] = min(math.log(q), 0.0)
    return k


@compiled
def leave_each_row_out(log_lik: Array, correction: Array, M: int, elpd: Array, lppd: Array, k: Array, log_w: Array) -> None:
    """For each row of `log_lik` (n, S): log p(y_i | others) into `elpd`, log p(y_i | all) into `lppd`, the Pareto shape into `k`.

    `correction` (S,), its maximum 0, is log p - log q of draws from q. M is the length of the tail. `log_w` (n, S) takes the logarithms of
    the weights, which sum to one; of shape (0, 0) it takes none.
    """
    n, S = log_lik.shape
    m = 30 + int(math.sqrt(M))
    x, left, at = np.empty(S), np.empty(S), np.empty(S, np.int64)
    tail, log_tail = np.empty(M), np.empty(M)
    b, score = np.empty(m), np.empty(m)
    for i in range(n):
        row = log_lik[i]
        top, known = -math.inf, True
        for s in range(S):
            x[s] = correction[s] - row[s]
            known &= x[s] < math.inf  # false for nan too
            top = max(top, x[s])
        if not known or top == -math.inf:  # a density of zero or nan
            elpd[i] = lppd[i] = k[i] = math.nan
            if log_w.size:
                log_w[i] = math.nan
            continue
        for s in range(S):
            x[s] -= top
        top_of = _largest(x, M + 1, at, left)
        k[i] = _smooth_tail(x, tail, top_of, log_tail, b, score)
        for j in range(M):
            x[top_of[j + 1]] = log_tail[j]
        # log sum_s w_s p(y_i | s) / sum_s w_s, and log of the mean of p(y_i | s)
        peak, most = -math.inf, -math.inf
        for s in range(S):
            left[s] = x[s] + row[s]
            peak, most = max(peak, left[s]), max(most, row[s])
        scale = math.log(_sum_of_exp(x, 0.0))
        elpd[i] = peak + math.log(_sum_of_exp(left, peak)) - scale
        lppd[i] = most + math.log(_sum_of_exp(row, most) / S)
        if log_w.size:
            for s in range(S):
                log_w[i, s] = x[s] - scale


@inline
def _largest(x: Array, count: int, at: Places, work: Array) -> Places:
    """Where the `count` largest of x stand, in ascending order of x; a view of `at`."""
    # a bound that a sample of every eighth leaves more than enough above: the sample's own, four standard errors lower
    size = 0
    for s in range(0, x.size, _EVERY):
        work[size] = x[s]
        size += 1
    share = count / x.size * size
    rank = int(share + 4.0 * math.sqrt(share)) + 1
    bound = -math.inf
    if rank < size:
        _sort(work[:size], at[:size])
        bound = work[size - rank]
    found = _at_least(x, bound, at, work)
    if found < count:
        found = _at_least(x, -math.inf, at, work)
    _sort(work[:found], at[:found])
    return at[found - count : found]


@inline
def _at_least(x: Array, bound: float, at: Places, work: Array) -> int:
    """How many of x are `bound` or more; where they stand goes into `at`, their values into `work`."""
    found = 0
    for s in range(x.size):
        at[found], work[found] = s, x[s]
        found += x[s] >= bound
    return found


@njit(nogil=True)
def _sort(values: Array, at: Places) -> None:
    """Both in ascending order of the values, by Shell's sort with Ciura's gaps."""
    for gap in (1750, 701, 301, 132, 57, 23, 10, 4, 1):
        for i in range(gap, values.size):
            value, place, j = values[i], at[i], i
            while j >= gap and values[j - gap] > value:
                values[j], at[j] = values[j - gap], at[j - gap]
                j -= gap
            values[j], at[j] = value, place
