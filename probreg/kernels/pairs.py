"""Pairs of rows for covariance functions, checks of rows and of kernel matrices, and the pivoted Cholesky root."""

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from probreg.arguments.arrays import brief, floats
from probreg.errors import DataError

Array = np.ndarray


@dataclass(frozen=True, eq=False)
class RowPairs:
    """Rows x (n, d) and z (m, d), and the pairs of them: all n m, or the n pairs of rows at the same place (`aligned`).

    A covariance function defines k once for both: its matrix (n, m) is k at all pairs, its diagonal (n,) k at aligned ones.

    >>> x = np.array([[0.0], [2.0]])
    >>> RowPairs(x, x).squared_distances()
    array([[0., 4.],
           [4., 0.]])
    >>> RowPairs(x, x, aligned=True).squared_distances()
    array([0., 0.])
    """

    x: Array
    z: Array
    aligned: bool = False

    @property
    def width(self) -> int:
        return self.x.shape[1]

    @property
    def shape(self) -> tuple[int, ...]:
        if self.aligned:
            return (len(self.x),)
        return (len(self.x), len(self.z))

    @property
    def square(self) -> bool:
        """Whether these are all pairs of one set of rows, so that the matrix is symmetric."""
        return self.x is self.z and not self.aligned

    def on(self, columns: Sequence[int]) -> "RowPairs":
        """The same pairs, of some columns."""
        x = self.x[:, columns]
        return RowPairs(x, x if self.x is self.z else self.z[:, columns], self.aligned)

    def column(self, j: int) -> tuple[Array, Array]:
        """Return column j of the left and of the right rows, in shapes that broadcast to the pairs."""
        x = self.x[:, j]
        z = self.z[:, j]
        if self.aligned:
            return (x, z)
        return (x[:, None], z[None, :])

    def products(self) -> Array:
        """x'z."""
        if self.aligned:
            return np.einsum("ij,ij->i", self.x, self.z)
        return self.x @ self.z.T

    def squared_distances(self, lengths: Array | float = 1.0) -> Array:
        """sum_j (x_j - z_j)^2 / l_j^2, from differences: rows that are the same are at distance 0 exactly."""
        far = 1e200  # a squared distance beyond which nothing changes, and whose powers are finite
        x = self.x / lengths
        z = x if self.x is self.z else self.z / lengths
        if self.aligned:
            return np.minimum(np.square(x - z).sum(1), far)
        from scipy.spatial.distance import cdist

        s = cdist(x, z, "sqeuclidean")
        return np.minimum(s, far, out=s)


def read_rows(values: Any, name: str = "x", width: int | None = None) -> Array:
    """Rows (n, d) of finite numbers; an array of one axis is one column.

    DataError names the row, the column and the value that is missing, infinite or no number, and rows of another `width`.

    >>> read_rows([0.0, 1.5])
    array([[0. ],
           [1.5]])
    >>> read_rows([[0.0, 1.0], [2.0, float("nan")]])
    Traceback (most recent call last):
    probreg.errors.DataError: x holds nan in row 1, column 1, where a finite number belongs
    """
    advice = "; levels need a column of 0 and 1 each"
    rows = floats(values, name, advice, copy=False)
    if rows.ndim not in (1, 2):
        raise DataError(
            f"{name} is an array of rows and columns, or of one column, got shape {rows.shape}"
        )
    if rows.ndim == 1:
        rows = rows[:, None]
    if not rows.size:
        raise DataError(
            f"{name} has {rows.shape[0]} rows and {rows.shape[1]} columns, and there must be one of each"
        )
    if width is not None and rows.shape[1] != width:
        raise DataError(f"{name} has {rows.shape[1]} columns where {width} belong")
    refuse_far(rows, name)
    return rows


def refuse_far(rows: Array, name: str) -> None:
    """DataError for the first entry that is nan, infinite, or too large to be squared."""
    largest = 1e140  # its square is finite
    with np.errstate(invalid="ignore"):
        good = np.abs(rows) <= largest
    if not good.all():
        i, j = np.argwhere(~good)[0]
        raise DataError(
            f"{name} holds {brief(rows[i, j].item())} in row {i}, column {j}, where a finite number belongs"
            + (f", of at most {largest:g}" if np.isfinite(rows[i, j]) else "")
        )


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


def pivoted_root(
    d: Array,
    row: Callable[[int], Array],
    *,
    max_rank: int,
    floor: float,
    tol: float = 0.0,
    check: Callable[[Array, list[int]], None] | None = None,
) -> tuple[list[int], Array, Array]:
    """Return pivots, G (r, n) with C ~ G'G, upper triangular in the columns of the pivots, and the diagonal of C - G'G.

    `d` is the diagonal of C, and `row` returns a row of it. It stops where each entry of the remaining diagonal is at most
    `floor`, or their sum at most `tol` of the trace. `check` sees the remaining diagonal before rounding below 0 is removed.

    >>> C = np.array([[4.0, 2.0], [2.0, 5.0]])
    >>> pivots, G, d = pivoted_root(np.diag(C), lambda i: C[i], max_rank=2, floor=0.0)
    >>> pivots, bool(np.allclose(G.T @ G, C))
    ([1, 0], True)
    """
    pivots: list[int] = []
    G = np.empty((min(16, max_rank), len(d)))
    total = d.sum()
    while len(pivots) < max_rank:
        r = len(pivots)
        i = int(np.argmax(d))
        if d[i] <= floor or d.sum() <= tol * total:
            break
        if r == len(G):
            G = np.vstack([G, np.empty((min(r, max_rank - r), len(d)))])
        # g = (C_i - G_i'G) / sqrt(d_i), d <- d - g^2
        g = row(i) - G[:r, i] @ G[:r]
        g[pivots] = 0.0
        G[r] = g / np.sqrt(d[i])
        d = d - np.square(G[r])
        d[i] = 0.0
        pivots.append(i)
        if check is not None:
            check(d, pivots)
        d = np.maximum(d, 0.0)
    return pivots, G[: len(pivots)], d
