"""Roots of symmetric matrices and of their inverses: a variance as a sum of squares cannot be negative."""

import numpy as np
from numpy.typing import NDArray

from probreg.linalg.factors import inverse_upper, unit_diagonal

Array = NDArray[np.float64]


def root_of_curvature(H: Array) -> Array | None:
    """Upper triangular K with K K' = H^-1; None where H is not positive definite."""
    if not np.isfinite(H).all():
        return None
    scaled, d = unit_diagonal(H)
    try:
        # D^-1 H D^-1 = L L', H^-1 = D^-1 L'^-1 L^-1 D^-1
        L = np.linalg.cholesky(scaled)
    except np.linalg.LinAlgError:
        return None
    return inverse_upper(np.ascontiguousarray(L.T)) / d[:, None]


def root_of_pseudo_inverse(H: Array, rcond: float = 1e-11) -> Array:
    """(k, r) whose square is a generalised inverse of H, symmetric: the pseudo-inverse of H
    scaled to a unit diagonal, of the eigenvalues above `rcond` times the largest."""
    if not len(H):
        return np.zeros((0, 1))
    scaled, d = unit_diagonal(H)
    value, vector = np.linalg.eigh(scaled)
    keep = value > rcond * np.abs(value).max(initial=0.0)
    if keep.any():
        return np.asarray(vector[:, keep] / np.sqrt(value[keep]) / d[:, None])
    return np.zeros((len(H), 1))


def root_of_square(M: Array) -> Array:
    """(k, r) with the square M, positive semidefinite; drops eigenvalues that are not
    positive (rounding)."""
    scaled, d = unit_diagonal(M)
    value, vector = np.linalg.eigh(scaled)
    keep = value > 0.0
    if keep.any():
        return np.asarray(vector[:, keep] * np.sqrt(value[keep]) * d[:, None])
    return np.zeros((len(M), 1))
