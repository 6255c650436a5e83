"""Step halving for mode searches: the full step, a half, a quarter, ..."""

import numpy as np

Array = np.ndarray


def halvings(point: Array, step: Array) -> Array:
    """Yield the shares 1, 1/2, 1/4, ... of a step, until the step is rounding relative to the point, and at least 40 shares.

    If a likelihood is flat, Newton's step may be too long by any factor, so that no fixed number of halvings is enough.

    >>> halvings(np.ones(2), np.ones(2))[:3].tolist(), len(halvings(np.ones(2), np.ones(2)))
    ([1.0, 0.5, 0.25], 52)
    >>> len(halvings(np.ones(2), np.full(2, 2.0**100))), len(halvings(np.ones(2), np.full(2, np.inf)))
    (152, 40)
    """
    # 2^-k |step| is rounding of the point from k = log2(|step| / (eps max(|point|, 1))) on
    least = 40  # shares
    smallest = np.finfo(float).eps * np.abs(point).max(initial=1.0)
    size = np.abs(step).max(initial=smallest)
    n_halvings = 0.0
    if np.isfinite(size):
        n_halvings = np.log2(size) - np.log2(smallest)
    return 0.5 ** np.arange(max(float(least), n_halvings))
