"""Effective sample sizes and R-hat of Markov chains, rank-normalised (Vehtari, Gelman, Simpson, Carpenter & Buerkner 2021).

Chains are split into halves, m of them with h draws each, S = m h, and draws are
replaced by their ranks r, as z = Phi^-1((r - 3/8) / (S + 1/4)). The numbers equal
ArviZ's, which takes long to import; a test compares them.
"""

import numpy as np

from probreg.special import ndtri

Array = np.ndarray
_TAILS = (0.05, 0.95)
_RESOLUTION = 1e-15  # range of draws below which they are constant
_LEAST = 4  # minimal number of draws of a chain


def rank_r_hat(x: Array) -> float:
    """Return the larger R-hat of bulk and tails of draws (chain, draw): of z, and of z
    of the distances to the median.

    nan for one chain, fewer than four draws and draws that are nan or constant.

    >>> stuck = np.arange(8.0) % 2 + np.array([[0.0], [10.0]])  # two chains at different places
    >>> round(rank_r_hat(stuck), 2)
    1.98
    """
    if len(x) < 2 or not _measurable(x):
        return np.nan
    halves = _halves(x)
    return max(
        _ratio(_normal_scores(halves)),
        _ratio(_normal_scores(np.abs(halves - np.median(halves)))),
    )


def ess_bulk(x: Array) -> float:
    """The effective sample size of z, draws (chain, draw).

    >>> ess_bulk(np.tile(np.arange(50.0) % 2, (4, 1))) > 200.0  # better than independent
    True
    """
    if _measurable(x):
        return _effective(_normal_scores(_halves(x)))
    return np.nan


def ess_mean(x: Array) -> float:
    """The effective sample size of the draws (chain, draw) themselves."""
    return _effective(_halves(x)) if _measurable(x) else np.nan


def ess_tail(x: Array) -> float:
    """The smaller effective sample size of the indicators of the draws (chain, draw) below their 5 % and their 95 % quantile."""
    if not _measurable(x):
        return np.nan
    return min(
        _effective(_halves((x <= np.quantile(x, prob)).astype(float)))
        for prob in _TAILS
    )


def _measurable(x: Array) -> bool:
    return x.shape[1] >= _LEAST and not np.isnan(x).any()


def _halves(x: Array) -> Array:
    """Split each chain into halves; an odd number of draws omits the middle one."""
    half = x.shape[1] // 2
    return np.concatenate([x[:, :half], x[:, -half:]])


def _normal_scores(x: Array) -> Array:
    """z of the ranks; equal draws have the mean of their ranks."""
    _, place, count = np.unique(x, return_inverse=True, return_counts=True)
    rank = np.cumsum(count) - (count - 1) / 2.0
    # z = Phi^-1((r - 3/8) / (S + 1/4))   (Blom 1958).
    return np.asarray(ndtri((rank - 0.375) / (x.size + 0.25)))[place].reshape(x.shape)


def _ratio(z: Array) -> float:
    """R-hat = sqrt((B / W + h - 1) / h), B / h the variance of the means of chains, W the mean of their variances."""
    h = z.shape[1]
    between = h * z.mean(1).var(ddof=1)
    within = z.var(1, ddof=1).mean()
    return float(np.sqrt((between / within + h - 1.0) / h))


def _effective(x: Array) -> float:
    """S / tau, tau = 1 + 2 sum_(t > 0) rho_t of chains (m, h), with the sum truncated
    and smoothed by Geyer's (1992) method."""
    h = x.shape[1]
    if np.ptp(x) < _RESOLUTION:
        return float(x.size)
    # s_t = sum_i (x_i - mean)(x_(i+t) - mean) / h, by Fourier transforms, averaged over chains.
    size = 2 ** int(np.ceil(np.log2(2 * h)))
    power = np.square(np.abs(np.fft.rfft(x - x.mean(1, keepdims=True), size)))
    covariance = np.fft.irfft(power, size)[:, :h].mean(0) / h
    # rho_t = 1 - (W - s_t) / var+, W = s_0 h / (h - 1), var+ = s_0 + variance of the means.
    W = covariance[0] * h / (h - 1.0)
    total = covariance[0] + x.mean(1).var(ddof=1)
    rho = 1.0 - (W - covariance) / total
    rho[0] = 1.0
    if np.isnan(rho).any():
        return np.nan
    # Pairs P_j = rho_2j + rho_(2j+1) count up to the first nonpositive one, each at
    # most the one before.
    n_pairs = max((h - 1) // 2 - 1, 0)
    pairs = rho[: 2 * n_pairs + 2].reshape(-1, 2).sum(1)
    ended = np.flatnonzero(pairs[: n_pairs + 1] <= 0.0)
    last = int(ended[0]) if ended.size else n_pairs
    if rho[2 * last] > 0.0 or pairs[last] >= 0.0:
        odd_one = rho[2 * last]
    else:
        odd_one = 0.0
    tau = -1.0 + 2.0 * np.minimum.accumulate(pairs[:last]).sum() + odd_one
    return float(x.size / max(tau, 1.0 / np.log10(x.size)))
