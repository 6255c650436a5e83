"""Weights and offsets of rows that may be absent: None stands for weights of 1 and for an offset of 0."""

import numpy as np

Array = np.ndarray


def full_weights(weights: Array | None, n: int) -> Array:
    """The weights w (n,) of n rows, ones where there are none."""
    return np.ones(n) if weights is None else weights


def times_weights(values: Array, weights: Array | None) -> Array:
    """w_i v_i for values v (n, ...) of n rows; the values themselves where there are no weights.

    >>> times_weights(np.ones((2, 3)), np.array([1.0, 4.0])).sum(1)
    array([ 3., 12.])
    """
    return values if weights is None else values * weights.reshape(-1, *[1] * (values.ndim - 1))


def plus_offset(eta: Array, offset: Array | None) -> Array:
    """eta + offset, the offset (n, 1) or (n, m) and eta (..., n, m)."""
    return eta if offset is None else eta + offset


def minus_offset(target: Array, offset: Array | None) -> Array:
    """What the columns are left to explain: y - offset for a response (n,), eta - offset for predictors (n, m)."""
    if offset is None:
        return target
    return target - (offset[:, 0] if target.ndim == 1 else offset)
