"""Pareto-smoothed importance weights: the largest weights give way to the quantiles of a Pareto tail, whose shape judges
them all.

Source: Vehtari, Simpson, Gelman, Yao & Gabry 2024; the fit of the tail is that of Zhang & Stephens 2009.
"""

from typing import NamedTuple

import numpy as np

Array = np.ndarray
_FEWEST = 5  # weights in a tail from which a shape can be told
_PRIOR = 10  # the estimate of k counts so many more observations of one half


class Smoothed(NamedTuple):
    """Log weights (S,) with a smoothed tail, on the scale of the raw ones, and the shape k of that tail."""

    log_weight: Array
    k: float


def reliable(draws: int) -> float:
    """The largest k at which so many draws give means that settle: min(1 - 1 / log10 S, 0.7).

    >>> reliable(100), reliable(4000)
    (0.5, 0.7)
    """
    return min(1.0 - 1.0 / float(np.log10(draws)), 0.7) if draws > 10 else 0.0


def smoothed(log_weight: Array) -> Smoothed:
    """The min(S / 5, 3 sqrt S) largest weights above the next one are fitted by a generalised Pareto distribution and
    replaced by its quantiles, none above the largest raw weight; k is infinite where there are too few to tell.

    >>> found = smoothed(np.log(np.arange(1.0, 101.0)))
    >>> found.k < 0, bool(found.log_weight.max() <= np.log(100.0))  # a bounded tail
    (True, True)
    """
    S, top = len(log_weight), float(log_weight.max())
    # M = min(S/5, 3 S^(1/2)) (Vehtari et al. 2024).
    tail = int(min(S // 5, 3.0 * np.sqrt(S)))
    if tail < _FEWEST or not np.isfinite(top):
        return Smoothed(log_weight, np.inf)
    order = np.argsort(log_weight)
    largest, cut = order[-tail:], float(log_weight[order[-tail - 1]])
    if top - log_weight[largest[0]] < 1e-10:  # equal weights: draws of the target itself
        return Smoothed(log_weight, -np.inf)
    base = np.exp(cut - top)
    k, sigma = _pareto(np.exp(log_weight[largest] - top) - base)
    if not np.isfinite(k):
        return Smoothed(log_weight, np.inf)
    p = (np.arange(tail) + 0.5) / tail
    # The quantile of a generalised Pareto: sigma ((1 - p)^(-k) - 1) / k, -sigma log(1 - p) at k = 0.
    grown = -np.log1p(-p) if k == 0 else np.expm1(-k * np.log1p(-p)) / k
    out = np.array(log_weight, dtype=float)
    out[largest] = top + np.minimum(np.log(base + sigma * grown), 0.0)
    return Smoothed(out, float(k))


def _pareto(x: Array) -> tuple[float, float]:
    """Shape k and scale sigma of the density (1 + k x / sigma)^(-1/k - 1) / sigma of increasing x: with theta = -k / sigma
    the likelihood is profiled over k, theta is averaged over it on a grid, and k is drawn to one half by a weak prior."""
    n, quartile = len(x), x[int(len(x) / 4 + 0.5) - 1]
    if not quartile > 0:
        return np.inf, np.nan
    m = 30 + int(np.sqrt(n))
    # The grid of Zhang & Stephens 2009: theta_j = 1 / x_(n) + (1 - (m / (j - 1/2))^(1/2)) / (3 x_(n/4)), j = 1 .. m.
    theta = 1.0 / x[-1] + (1.0 - np.sqrt(m / (np.arange(m) + 0.5))) / (3.0 * quartile)
    with np.errstate(invalid="ignore", divide="ignore"):
        k = np.log1p(-theta[:, None] * x).mean(1)
        # k(theta) = mean log(1 - theta x), and l(theta) = n (log(-theta / k) - k - 1).
        profile = n * (np.log(-theta / k) - k - 1.0)
    weight = np.exp(profile - np.nanmax(profile))
    weight = np.where(weight / np.nansum(weight) >= 10 * np.finfo(float).eps, weight, 0.0)
    best = float(theta @ weight / weight.sum())
    shape = float(np.log1p(-best * x).mean())
    # k = (n k + 10 / 2) / (n + 10), sigma = -k / theta of the k before.
    return (n * shape + 0.5 * _PRIOR) / (n + _PRIOR), -shape / best
