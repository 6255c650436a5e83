"""The factor of an arrow H = [[D, E], [E', F]], where D has many small blocks on its diagonal, without an array of the size of D.

With D_g = L_g L_g', C = L^-1 E and the Schur complement F - C'C = T T',

    H = [[L, 0], [C', T]] [[L', C], [0, T']]

so that G blocks (K, K) with a border of r columns cost G K^2 (K + r) + G K r^2 + r^3 operations. With a sparse border E, as for
crossed factors, C has the same zeros outside of blocks, so that C'C costs one product for each pair of columns that meet in a block.
For nested factors, such as (1 | a / b), no two groups of a meet in the Schur complement after the groups of b: T is then an arrow too.
"""

import copy
from typing import Any

import numpy as np
import scipy
from numpy.typing import NDArray
from scipy.linalg import lapack

from probreg.linalg.factors import inverse_upper, triangular_log_det

Array = NDArray[np.float64]


class Arrow:
    """The Cholesky factor of one arrow, or of several with a dense border as leading axes.

    Parameters
    ----------
    D : array (..., G, K, K)
        Blocks of the diagonal.
    E : array (..., G, K, r), or sparse array (G K, r)
        Their border.
    F : array (..., r, r)
        Its corner; all three make a positive definite matrix.
    blocks : tuple of int, optional
        The number and size of blocks that the first columns of the corner may form.

    Raises
    ------
    numpy.linalg.LinAlgError
        If it is not positive definite to rounding.

    Examples
    --------
    >>> H = Arrow(np.array([[[4.0]], [[1.0]]]), np.array([[[2.0]], [[0.0]]]), np.array([[10.0]]))
    >>> round(float(np.exp(H.log_det())), 9)  # of [[4, 0, 2], [0, 1, 0], [2, 0, 10]]
    36.0
    """

    def __init__(
        self, D: Array, E: Any, F: Array, blocks: tuple[int, int] | None = None
    ) -> None:
        self.L = _cholesky(D)
        self.C: Any  # (..., G K, r)
        if scipy.sparse.issparse(E):
            self.C = scipy.sparse.csr_array(blocks_of(_invert_blocks(self.L)) @ E)
            square = (self.C.T @ self.C).toarray()
        else:
            self.C = _merge_groups(solve_blocks(self.L, E))
            square = self.C.mT @ self.C
        self.T = _factor_corner(np.subtract(F, square, out=square), blocks)

    @classmethod
    def of_factors(cls, L: Array, C: Array, T: Array) -> "Arrow":
        """Return the arrow with the factors L (..., G, K, K), C (..., G K, r) and T
        (..., r, r)."""
        arrow = cls.__new__(cls)
        arrow.L, arrow.C, arrow.T = L, C, T
        return arrow

    @property
    def shape(self) -> tuple[int, int, int]:
        """(G, K, r)."""
        return self.L.shape[-3], self.L.shape[-1], self.C.shape[-1]

    @property
    def numbers(self) -> int:
        """How many numbers one factor contains in addition to its blocks."""
        G, K, r = self.shape
        in_border = self.C.nnz if scipy.sparse.issparse(self.C) else G * K * r
        return in_border + (self.T.numbers if isinstance(self.T, Arrow) else r * r)

    def at(self, s: int | NDArray[np.intp]) -> "Arrow":
        """Return one of several arrows, or some of them; with a sparse border there is only one."""
        if scipy.sparse.issparse(self.C):
            return self
        return Arrow.of_factors(self.L[s], self.C[s], self.T[s])

    def leading_part(self, k: int) -> "Arrow":
        """Return the factor of the arrow with only the first k columns of the border."""
        arrow = copy.copy(self)
        arrow.C = self.C[..., :k]
        if isinstance(self.T, Arrow):
            G, K, _ = self.T.shape
            arrow.T = self.T.leading_part(k - G * K)
        else:
            arrow.T = self.T[..., :k, :k]
        return arrow

    def log_det(self) -> Array:
        """log |H| (...)."""
        # |H| = prod_g |L_g|^2 |T|^2
        blocks = 2.0 * triangular_log_det(self.L).sum(-1)
        if isinstance(self.T, Arrow):
            return np.asarray(blocks + self.T.log_det())
        return np.asarray(blocks + 2.0 * triangular_log_det(self.T))

    def half(self, a: Array, c: Array) -> tuple[Array, Array]:
        """[[L, 0], [C', T]]^-1 of columns a (..., G, K, s) and c (..., r, s): its squares add up to a'H^-1 a."""
        y = solve_blocks(self.L, a)
        rest = c - _multiply(self.C, _merge_groups(y), transposed=True)
        return y, _solve_corner(self.T, rest, transposed=False)

    def solve(self, a: Array, c: Array) -> tuple[Array, Array]:
        """H^-1 of columns a (..., G, K, s) and c (..., r, s)."""
        return self.solve_transposed(*self.half(a, c))

    def solve_transposed(self, a: Array, c: Array) -> tuple[Array, Array]:
        """[[L', C], [0, T']]^-1 of columns; standard normal columns give draws from N(0, H^-1)."""
        c = _solve_corner(self.T, c, transposed=True)
        G, K, _ = self.shape
        across = _multiply(self.C, c)
        a = a - across.reshape(*across.shape[:-2], G, K, c.shape[-1])
        del across  # it may be large
        return solve_blocks(self.L, a, transposed=True), c

    def inverse(self) -> tuple[Array, Array, Array]:
        """The diagonal blocks (G, K, K) of H^-1, its border (G, K, r) and corner (r, r), of one arrow with a dense border."""
        # with N = L'^-1 C T'^-1 the three parts are L'^-1 L^-1 + N N', -N T^-1 and T'^-1 T^-1
        Ti = inverse_upper(self.T.T).T
        N = solve_blocks(self.L, (self.C @ Ti.T).reshape(*self.shape), transposed=True)
        Li = _invert_blocks(self.L)
        blocks = Li.mT @ Li + N @ N.mT
        return blocks, -(_merge_groups(N) @ Ti).reshape(N.shape), Ti.T @ Ti

    def inverse_blocks(self) -> tuple[Array, Array]:
        """The sum (K, K) of the diagonal blocks of H^-1, and its corner (r, r), of one arrow."""
        if not scipy.sparse.issparse(self.C):
            blocks, _, corner = self.inverse()
            return blocks.sum(0), corner
        # with S the corner the blocks are L'^-1 (I + C S C') L^-1
        S = _invert_corner(self.T)
        Li = _invert_blocks(self.L)
        B = blocks_of(Li.mT) @ self.C
        total = np.tensordot(Li, Li, ((0, 1), (0, 1)))
        K = len(total)
        for x in range(K):
            for y in range(K):
                pattern = scipy.sparse.coo_array(B[x::K].T @ B[y::K])
                total[x, y] += pattern.data @ S[pattern.row, pattern.col]
        return total, S


def blocks_of(blocks: Array) -> Any:
    """blkdiag of (G, K, K), a sparse array."""
    G, K = blocks.shape[:2]
    return scipy.sparse.csr_array(
        scipy.sparse.bsr_array(
            (blocks, np.arange(G), np.arange(G + 1)), shape=(G * K, G * K)
        )
    )


def _factor_corner(S: Array, blocks: tuple[int, int] | None) -> Any:
    """T with S = T T'. It is an arrow if the first columns of S are g blocks of size s with zeros between them."""
    if blocks is not None:
        g, s = blocks
        q = g * s
        groups = np.arange(g)
        D = S[:q, :q].reshape(g, s, g, s)[groups, :, groups]
        if np.count_nonzero(S[:q, :q]) == np.count_nonzero(D):
            return Arrow(D, S[:q, q:].reshape(g, s, -1), S[q:, q:])
    return np.linalg.cholesky(S)


def _solve_corner(T: Any, c: Array, *, transposed: bool) -> Array:
    """T^-1 c, or T'^-1 c, of c (..., r, s)."""
    if isinstance(T, Arrow):
        G, K, _ = T.shape
        solve = T.solve_transposed if transposed else T.half
        lead = c[..., : G * K, :].reshape(*c.shape[:-2], G, K, c.shape[-1])
        above, below = solve(lead, c[..., G * K :, :])
        return np.concatenate([_merge_groups(above), below], -2)
    if T.ndim > 2:
        return np.linalg.solve(T.mT if transposed else T, c)
    if not c.size:
        return c
    wide = np.moveaxis(c, -2, 0)
    solution, _ = lapack.dtrtrs(
        T.T, wide.reshape(len(wide), -1), trans=int(not transposed)
    )
    return np.moveaxis(solution.reshape(wide.shape), 0, -2)


def _invert_corner(T: Any) -> Array:
    """(T T')^-1."""
    if not isinstance(T, Arrow):
        upper, _ = lapack.dpotri(T.T)
        return np.asarray(np.triu(upper) + np.triu(upper, 1).T)
    blocks, border, corner = T.inverse()
    G, K, r = T.shape
    groups = np.arange(G)
    q = G * K
    border = border.reshape(q, r)
    # L'^-1 C S22 C'L^-1 between the blocks, with the border -L'^-1 C S22
    W = solve_blocks(T.L, T.C.reshape(G, K, r), transposed=True).reshape(q, r)
    inverse = np.empty((q + r, q + r))
    inverse[:q, :q] = -border @ W.T
    inverse[:q, :q].reshape(G, K, G, K)[groups, :, groups] = blocks  # a view
    inverse[:q, q:], inverse[q:, :q], inverse[q:, q:] = border, border.T, corner
    return inverse


def _multiply(C: Any, y: Array, *, transposed: bool = False) -> Array:
    """C y, or C'y, of y (..., q, s)."""
    if not scipy.sparse.issparse(C):
        return (C.mT if transposed else C) @ y
    wide = np.moveaxis(y, -2, 0)
    product = (C.T if transposed else C) @ wide.reshape(len(wide), -1)
    return np.moveaxis(product.reshape(len(product), *wide.shape[1:]), 0, -2)


def _invert_blocks(L: Array) -> Array:
    """L^-1, block by block."""
    return solve_blocks(L, np.broadcast_to(np.eye(L.shape[-1]), L.shape))


def _merge_groups(E: Array) -> Array:
    """(..., G K, s) of (..., G, K, s)."""
    return E.reshape(*E.shape[:-3], E.shape[-3] * E.shape[-2], E.shape[-1])


def _cholesky(D: Array) -> Array:
    """Lower factors of blocks (..., K, K)."""
    if D.shape[-1] > 1:
        return np.linalg.cholesky(D)
    if not (D > 0).all():
        raise np.linalg.LinAlgError("a block is not positive definite")
    return np.sqrt(D)


def solve_blocks(L: Array, E: Array, *, transposed: bool = False) -> Array:
    """L^-1 E, or L'^-1 E, block by block, E (..., G, K, s)."""
    solution = np.empty(np.broadcast_shapes(L.shape[:-2], E.shape[:-2]) + E.shape[-2:])
    order = np.arange(L.shape[-1])
    if transposed:
        L = L.mT
        order = order[::-1]
    for number, i in enumerate(order):
        row = E[..., i, :]
        for k in order[:number]:
            row = row - L[..., i, k, None] * solution[..., k, :]
        solution[..., i, :] = row / L[..., i, i, None]
    return solution
