"""The factor T of the Schur complement S = T T' of an arrow: dense, or again an arrow if its first columns are blocks.

For nested factors, such as (1 | a / b), the groups of b leave a matrix in which the groups of a do not meet: they are eliminated one by one too.
"""

import numpy as np
from numpy.typing import NDArray
from scipy.linalg import lapack, solve_triangular

from probreg.linalg.arrow import Arrow, _backward, _forward

Array = NDArray[np.float64]


class DenseCorner:
    """T as a dense matrix.

    >>> round(DenseCorner(np.array([[4.0]])).log_diagonal(1), 9)  # log 2
    0.693147181
    """

    def __init__(self, S: Array) -> None:
        self.T = np.linalg.cholesky(S)

    @property
    def numbers(self) -> int:
        """How many numbers the factor contains."""
        return self.T.size

    def log_diagonal(self, k: int) -> float:
        """The sum of the logs of the diagonal of T."""
        return float(np.log(np.diagonal(self.T)[:k]).sum())

    def solve(self, c: Array, k: int, *, transposed: bool) -> Array:
        """T^-1 c, or T'^-1 c, of c (k, s)."""
        if not c.size:
            return c
        return np.asarray(
            solve_triangular(
                self.T[:k, :k], c, lower=True, trans=int(transposed), check_finite=False
            )
        )

    def inverse(self, k: int) -> Array:
        """S^-1 (k, k)."""
        lower, _ = lapack.dpotri(self.T[:k, :k], lower=1)
        return np.asarray(np.tril(lower) + np.tril(lower, -1).T)


class NestedCorner:
    """T of an S that starts with g blocks of s columns (s, s), as an arrow.

    >>> corner = NestedCorner(np.array([[4.0, 0.0, 2.0], [0.0, 1.0, 0.0], [2.0, 0.0, 10.0]]), 2, 1)
    >>> round(corner.log_diagonal(3), 9)  # log 36 / 2
    1.791759469
    """

    def __init__(self, S: Array, g: int, s: int) -> None:
        self.g, self.s = g, s
        groups = np.arange(g)
        q = g * s
        D = S[:q, :q].reshape(g, s, g, s)[groups, :, groups]
        self.arrow = Arrow(D, S[:q, q:].reshape(g, s, -1), S[q:, q:])

    @property
    def numbers(self) -> int:
        """How many numbers the factor contains."""
        return self.arrow.numbers

    def log_diagonal(self, k: int) -> float:
        """The sum of the logs of the diagonal of T."""
        return 0.5 * float(self.arrow.log_det(k - self.g * self.s))

    def solve(self, c: Array, k: int, *, transposed: bool) -> Array:
        """T^-1 c, or T'^-1 c, of c (k, s)."""
        q = self.g * self.s
        if transposed:
            solve = self.arrow.solve_transposed
        else:
            solve = self.arrow.half
        above, below = solve(c[:q].reshape(self.g, self.s, -1), c[q:], k - q)
        return np.vstack([above.reshape(q, -1), below])

    def inverse(self, k: int) -> Array:
        """S^-1 (k, k)."""
        q = self.g * self.s
        groups = np.arange(self.g)
        arrow = self.arrow
        _, border, corner = arrow.inverse(k - q)
        inverse = np.empty((k, k))
        border = border.reshape(q, -1)
        # L'^-1 (I + C S22 C') L^-1, of which the border is -L'^-1 C S22
        W = _backward(arrow.L, arrow.C[..., : k - q]).reshape(q, -1)
        inverse[:q, :q] = -border @ W.T
        Li = _forward(
            arrow.L, np.broadcast_to(np.eye(self.s), (self.g, self.s, self.s))
        )
        blocks = inverse[:q, :q].reshape(self.g, self.s, self.g, self.s)  # a view
        blocks[groups, :, groups] += np.swapaxes(Li, -1, -2) @ Li
        inverse[:q, q:], inverse[q:, :q], inverse[q:, q:] = border, border.T, corner
        return inverse


def corner_of(S: Array, blocks: tuple[int, int] | None) -> DenseCorner | NestedCorner:
    """The factor of S; its first columns are g blocks of s, with zero entries between these blocks."""
    if blocks is not None:
        g, s = blocks
        first = S[: g * s, : g * s]
        within = np.count_nonzero(
            first.reshape(g, s, g, s)[np.arange(g), :, np.arange(g)]
        )
        if np.count_nonzero(first) == within:
            return NestedCorner(S, g, s)
    return DenseCorner(S)
