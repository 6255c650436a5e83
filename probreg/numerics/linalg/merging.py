"""Rows put together and taken away again, by their triangular factors alone."""

from typing import Any

import numpy as np
from numpy.typing import NDArray

from probreg.numerics.linalg.dense import factor_of, norms, positive_diagonal, semidefinite, solve_upper
from probreg.numerics.linalg.rank import rank_of

Array = NDArray[Any]


def merge(F1: Array, F2: Array) -> Array:
    """The factor of the rows behind F1 and F2 together: F'F = F1'F1 + F2'F2.

    >>> merge(np.array([[3.0]]), np.array([[4.0]]))
    array([[5.]])
    """
    return factor_of(np.vstack([F1, F2]))


def downdate(F1: Array, F2: Array) -> Array:
    """The factor of the rows behind F1 without those behind F2: F'F = F1'F1 - F2'F2.

    Raises ValueError when the difference is not positive semidefinite: those rows cannot have been in F1.

    >>> downdate(np.array([[5.0]]), np.array([[3.0]])).astype(float)
    array([[4.]])
    """
    scale = norms(F1)
    A, B = (np.asarray(F / scale, dtype=np.longdouble) for F in (F1, F2))
    if rank_of(A).rank == len(A):  # I - P'P with P = F2 F1^-1 loses nothing to the condition of F1
        P = solve_upper(A, B.T, transpose=True).T
        # A'A - B'B = A'(1 - P'P)A = (L A)'(L A) with L'L = 1 - P'P.
        left = semidefinite(np.eye(len(A), dtype=np.longdouble) - P.T @ P, 1e-8) @ A
    else:
        left = semidefinite(A.T @ A - B.T @ B, 1e-8)
    return positive_diagonal(np.triu(left) * scale).astype(np.result_type(F1, F2))
