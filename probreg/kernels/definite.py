"""Checks that a matrix is symmetric and positive semidefinite up to rounding."""

import numpy as np

from probreg.errors import DataError
from probreg.kernels.pairs import Array


def refuse_asymmetric(K: Array) -> None:
    """DataError for a square matrix that is not symmetric."""
    difference = np.abs(K - K.T)
    # of max |k|: a difference of k(x, z) and k(z, x) above this is no rounding
    if (difference > 1e-10 * np.abs(K).max()).any():
        i, j = np.unravel_index(int(np.argmax(difference)), K.shape)
        raise DataError(
            f"k(x, z) is {K[i, j]:.6g} and k(z, x) {K[j, i]:.6g} of rows {i} and {j}: a covariance is symmetric"
        )


def refuse_negative(smallest: float, K: Array, subject: str = "this function") -> None:
    """DataError for a least eigenvalue, of K or of a projection of it, that is negative beyond rounding."""
    # of n max |k|: a least eigenvalue below minus this is no rounding
    if smallest < -1e-10 * len(K) * np.abs(K).max():
        raise DataError(
            f"the least eigenvalue of the {len(K)} x {len(K)} matrix of {subject} is {smallest:.3g}: it is no covariance function"
        )


def refuse_indefinite(K: Array) -> None:
    """DataError for a square matrix that is not symmetric, or has an eigenvalue that is negative beyond rounding."""
    refuse_asymmetric(K)
    refuse_negative(float(np.linalg.eigvalsh(K)[0]), K)
