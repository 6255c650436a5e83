"""Coefficients as one vector, and the linear maps between raw, standardised and reported coefficients.

vec(beta) runs row by row: entry j m + k is the coefficient of column j in predictor k, beta (p, m). A map of columns
beta = A gamma is vec(beta) = (A kron I_m) vec(gamma); a map of predictors, reported = beta D', is (I_p kron D) vec(beta).
The logs of nuisance parameters follow the coefficients; these maps do not change them.
"""

from collections.abc import Sequence

import numpy as np

Array = np.ndarray


def vec_entries(columns: Sequence[int] | Array, m: int) -> Array:
    """The places in vec(beta) of the coefficients of some columns, (len(columns) m,).

    >>> vec_entries([0, 2], 2)
    array([0, 1, 4, 5])
    """
    # vec(beta)[j m + k] = beta[j, k]
    return (np.asarray(columns, dtype=int)[:, None] * m + np.arange(m)).ravel()


def map_of_columns(A: Array, m: int) -> Array:
    """A kron I_m, (p m, q m): the map of vec(gamma) to vec(beta) for beta = A gamma, A (p, q).

    >>> map_of_columns(np.array([[1.0, 2.0]]), 2)
    array([[1., 0., 2., 0.],
           [0., 1., 0., 2.]])
    """
    return np.asarray(A) if m == 1 else np.kron(A, np.eye(m))


def map_of_predictors(D: Array, p: int) -> Array:
    """I_p kron D, (p o, p m): the map of vec(beta) to the reported coefficients beta D', D (o, m)."""
    # vec(beta D') = (I_p kron D) vec(beta)
    return np.kron(np.eye(p), D)


def between_outcomes(M: Array, D: Array) -> Array:
    """(I_p kron D) M (I_p kron D)', (p o, p o): a matrix over vec(beta) as one over beta D', D (o, m).

    The nan of one column stays in its rows and columns.

    >>> between_outcomes(np.array([[2.0]]), np.array([[1.0], [-1.0]]))
    array([[ 2., -2.],
           [-2.,  2.]])
    """
    o, m = D.shape
    p = len(M) // m
    product = np.matmul(D, M.reshape(p, m, p * m))  # (p, o, p m)
    return (product.reshape(p * o, p, m) @ D.T).reshape(p * o, p * o)


def with_aux(M: Array, a: int) -> Array:
    """diag(M, I_a): a map of coefficients that does not change the `a` nuisance parameters after them.

    >>> with_aux(np.array([[2.0, 3.0]]), 1)
    array([[2., 3., 0.],
           [0., 0., 1.]])
    """
    padded = np.zeros((M.shape[0] + a, M.shape[1] + a))
    padded[: M.shape[0], : M.shape[1]] = M
    padded[M.shape[0] :, M.shape[1] :] = np.eye(a)
    return padded
