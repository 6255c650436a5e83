"""The factor of an arrow with a sparse border, as for crossed factors: H = [[D, E], [E', F]], D of many small blocks, F dense.

C = L^-1 E has the zeros of E but within blocks, so that C'C costs the pairs of columns that meet in a block and not G K r^2; what is
left is one Cholesky factor of r columns, or an arrow again where factors are nested (see `corner`). The methods are the same as in `Arrow`.
"""

from typing import Any

import numpy as np
import scipy
from numpy.typing import NDArray

from probreg.linalg.arrow import Arrow, _cholesky, _forward, _merge_groups
from probreg.linalg.corner import corner_of

Array = NDArray[np.float64]


class SparseArrow(Arrow):
    """The Cholesky factor of one arrow.

    Parameters
    ----------
    D : array (G, K, K)
        Blocks of the diagonal.
    E : sparse array (G K, r)
        Their border.
    F : array (r, r)
        Its corner; all three make a positive definite matrix.
    blocks : tuple of int, optional
        The number and size of the blocks that the first columns of the corner form.

    Raises
    ------
    numpy.linalg.LinAlgError
        If it is not positive definite to rounding.

    Examples
    --------
    >>> E = scipy.sparse.csr_array(np.array([[2.0], [0.0]]))
    >>> H = SparseArrow(np.array([[[4.0]], [[1.0]]]), E, np.array([[10.0]]))
    >>> round(float(np.exp(H.log_det())), 9)  # of [[4, 0, 2], [0, 1, 0], [2, 0, 10]]
    36.0
    """

    C: Any  # a sparse array (G K, r)

    def __init__(
        self, D: Array, E: Any, F: Array, blocks: tuple[int, int] | None = None
    ) -> None:
        self.L = _cholesky(D)
        block_inverse = _forward(self.L, np.broadcast_to(np.eye(D.shape[-1]), D.shape))
        self.C = scipy.sparse.csr_array(blocks_of(block_inverse) @ E)
        S = (self.C.T @ self.C).toarray()
        self.rest = corner_of(np.subtract(F, S, out=S), blocks)

    @property
    def shape(self) -> tuple[int, int, int]:
        """(G, K, r)."""
        return len(self.L), self.L.shape[-1], self.C.shape[1]

    @property
    def numbers(self) -> int:
        """How many numbers the factor contains in addition to its blocks."""
        return int(self.C.nnz) + self.rest.numbers

    def at(self, s: int | NDArray[np.intp]) -> "SparseArrow":
        """Return this arrow: all nodes have the same factor."""
        return self

    def inverse_blocks(self, k: int | None = None) -> tuple[Array, Array]:
        """The sum (K, K) of the diagonal blocks of H^-1, and its corner (k, k)."""
        # with S the corner the blocks are L'^-1 (I + C S C') L^-1
        G, K, _ = self.shape
        S = self.rest.inverse(self.C.shape[1] if k is None else k)
        Li = _forward(self.L, np.broadcast_to(np.eye(K), (G, K, K)))
        B = blocks_of(np.swapaxes(Li, -1, -2)) @ self._leading_border(k)
        total = np.tensordot(Li, Li, ((0, 1), (0, 1)))
        for x in range(K):
            for y in range(K):
                pattern = scipy.sparse.coo_array(B[x::K].T @ B[y::K])
                total[x, y] += pattern.data @ S[pattern.row, pattern.col]
        return total, S

    def _solve_corner(self, c: Array, *, transposed: bool) -> Array:
        """T^-1 c, or T'^-1 c, of c (..., k, s)."""
        wide = np.moveaxis(c, -2, 0)
        solution = self.rest.solve(
            wide.reshape(len(wide), -1), len(wide), transposed=transposed
        )
        return np.moveaxis(solution.reshape(wide.shape), 0, -2)

    def _log_diagonal(self, k: int | None) -> Array:
        return np.asarray(self.rest.log_diagonal(self.C.shape[1] if k is None else k))

    def _border_product(self, y: Array, k: int | None) -> Array:
        return _multiply(self._leading_border(k).T, _merge_groups(y))

    def _multiply_border(self, c: Array, k: int | None) -> Array:
        return _multiply(self._leading_border(k), c)

    def _leading_border(self, k: int | None) -> Any:
        if k is None or k == self.C.shape[1]:
            return self.C
        return self.C[:, :k]


def blocks_of(blocks: Array) -> Any:
    """blkdiag of (G, K, K), a sparse array."""
    G, K = blocks.shape[:2]
    return scipy.sparse.csr_array(
        scipy.sparse.bsr_array(
            (blocks, np.arange(G), np.arange(G + 1)), shape=(G * K, G * K)
        )
    )


def _multiply(C: Any, y: Array) -> Array:
    """C y (..., p, s) of y (..., q, s)."""
    wide = np.moveaxis(y, -2, 0)
    product = C @ wide.reshape(len(wide), -1)
    return np.moveaxis(product.reshape(C.shape[0], *wide.shape[1:]), 0, -2)
