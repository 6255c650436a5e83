"""Stacking: the mixture of predictive distributions with the best leave-one-out log score. Arrays only."""

import numpy as np

from probreg.errors import DataError

Array = np.ndarray
_STEPS = 20_000
_GAP = 1e-9  # per observation, by which the score may fall short of the best


def stacking(log_density: Array) -> Array:
    """argmax over the simplex of sum_i log sum_k w_k exp(log_density[i, k]), (K,) from (N, K).

    The objective is concave, and EM steps w_k <- w_k mean_i(p_ik / sum_l w_l p_il) climb it; they stop when no model gains
    more than a rounding, max_k mean_i(p_ik / mixture_i) <= 1 being the condition of the maximum. Source: Yao, Vehtari,
    Simpson & Gelman 2018. DataError for a log density that is not finite.

    >>> stacking(np.log([[0.9, 0.1], [0.1, 0.9], [0.9, 0.1], [0.9, 0.1]])).round(6)
    array([0.8125, 0.1875])
    """
    if not np.isfinite(log_density).all():
        i, k = np.argwhere(~np.isfinite(log_density))[0]
        raise DataError(f"observation {i} has log density {log_density[i, k]} under model {k}: no weights can be found")
    p = np.exp(log_density - log_density.max(1, keepdims=True))
    w = np.full(p.shape[1], 1.0 / p.shape[1])
    for _ in range(_STEPS):
        gain = (p / (p @ w)[:, None]).mean(0)
        if gain.max() <= 1.0 + _GAP:
            break
        w = w * gain
        w = w / w.sum()
    return w
