"""The factor of an arrow H = [[D, E], [E', F]], D of many small blocks on the diagonal: nothing of the size of D squared is made.

With D_g = L_g L_g', C = L^-1 E and the Schur complement F - C'C = T T',

    H = [[L, 0], [C', T]] [[L', C], [0, T']]

so that G blocks (K, K) with a border of r columns cost G K^2 (K + r) + G K r^2 + r^3 operations. The border may be cut: its first k
columns are an arrow too, with the leading part of the same factor. Leading axes are arrows side by side.
"""

from functools import cached_property

import numpy as np
from numpy.typing import NDArray

from probreg.linalg.factors import inverse_upper

Array = NDArray[np.float64]

_UNROLLED = 6  # columns of a block up to which the loop over them is the outer one


class Arrow:
    """The Cholesky factor of one arrow, or of several.

    Parameters
    ----------
    D : array (..., G, K, K)
        Blocks of the diagonal.
    E : array (..., G, K, r)
        Their border.
    F : array (..., r, r)
        Its corner; all three make a positive definite matrix.

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

    def __init__(self, D: Array, E: Array, F: Array) -> None:
        self.L = _cholesky(D)
        self.C = _forward(self.L, E)
        flat = self._flat_border
        self.T = np.linalg.cholesky(F - np.swapaxes(flat, -1, -2) @ flat)

    @property
    def shape(self) -> tuple[int, int, int]:
        """(G, K, r)."""
        return self.C.shape[-3], self.C.shape[-2], self.C.shape[-1]

    @property
    def numbers(self) -> int:
        """How many numbers one factor contains in addition to its blocks."""
        G, K, r = self.shape
        return G * K * r + r * r

    def at(self, s: int | NDArray[np.intp]) -> "Arrow":
        """Return one of several arrows, or some of them."""
        arrow = object.__new__(Arrow)
        arrow.L, arrow.C, arrow.T = self.L[s], self.C[s], self.T[s]
        return arrow

    @cached_property
    def T_inverse(self) -> Array:
        """T^-1 (..., r, r), lower triangular; its leading part is the inverse of the leading part of T."""
        if self.T.ndim == 2:
            if len(self.T):
                return np.asarray(inverse_upper(self.T.T).T)
            return self.T
        return np.tril(np.linalg.inv(self.T))

    def log_det(self, k: int | None = None) -> Array:
        """log |H| (...), with the first k columns of the border alone where k is given."""
        # |H| = prod_g |L_g|^2 |T|^2
        blocks = np.log(np.diagonal(self.L, axis1=-2, axis2=-1)).sum((-1, -2))
        return np.asarray(2.0 * (blocks + self._log_diagonal(k)))

    def half(self, a: Array, c: Array, k: int | None = None) -> tuple[Array, Array]:
        """[[L, 0], [C', T]]^-1 of columns a (..., G, K, s) and c (..., r, s): its squares add up to a'H^-1 a."""
        y = _forward(self.L, a)
        return y, self._solve_corner(
            c[..., :k, :] - self._border_product(y, k), transposed=False
        )

    def solve(self, a: Array, c: Array, k: int | None = None) -> tuple[Array, Array]:
        """H^-1 of columns a (..., G, K, s) and c (..., r, s), as of the first k columns of the border."""
        return self.solve_transposed(*self.half(a, c, k), k)

    def solve_transposed(
        self, a: Array, c: Array, k: int | None = None
    ) -> tuple[Array, Array]:
        """[[L', C], [0, T']]^-1 of columns: of standard normal ones draws from N(0, H^-1)."""
        c = self._solve_corner(c, transposed=True)
        G, K, _ = self.shape
        across = self._multiply_border(c, k)
        a = a - across.reshape(*across.shape[:-2], G, K, c.shape[-1])
        del across  # it may be large
        return _backward(self.L, a), c

    def inverse(self, k: int | None = None) -> tuple[Array, Array, Array]:
        """The diagonal blocks (..., G, K, K) of H^-1, its border (..., G, K, k) and corner (..., k, k)."""
        # with N = L'^-1 C T'^-1 they are L'^-1 L^-1 + N N', -N T^-1 and T'^-1 T^-1
        Ti = self._T_inverse(k)
        border = self._flat_border[..., :k] @ np.swapaxes(Ti, -1, -2)
        N = _backward(self.L, border.reshape(*self.C.shape[:-1], border.shape[-1]))
        eye = np.broadcast_to(np.eye(self.L.shape[-1]), self.L.shape)
        Li = _forward(self.L, eye)
        block_inverse = np.swapaxes(Li, -1, -2) @ Li + N @ np.swapaxes(N, -1, -2)
        border = -(_merge_groups(N) @ Ti).reshape(N.shape)
        return block_inverse, border, np.swapaxes(Ti, -1, -2) @ Ti

    def inverse_blocks(self, k: int | None = None) -> tuple[Array, Array]:
        """The sum (..., K, K) of the diagonal blocks of H^-1, and its corner (..., k, k)."""
        blocks, _, corner = self.inverse(k)
        return blocks.sum(-3), corner

    def schur(self, k: int) -> Array:
        """Return the Schur complement (..., r - k, r - k) of the corner after elimination of its first k columns and the blocks."""
        corner = self.T[..., k:, k:]
        return corner @ np.swapaxes(corner, -1, -2)

    @property
    def _flat_border(self) -> Array:
        return _merge_groups(self.C)

    def _T_inverse(self, k: int | None) -> Array:
        return self.T_inverse[..., :k, :k]

    def _log_diagonal(self, k: int | None) -> Array:
        """The sum of the logs of the diagonal of T."""
        return np.log(np.diagonal(self.T, axis1=-2, axis2=-1)[..., :k]).sum(-1)

    def _solve_corner(self, c: Array, *, transposed: bool) -> Array:
        """T^-1 c, or T'^-1 c, of c (..., k, s)."""
        Ti = self._T_inverse(c.shape[-2])
        return (np.swapaxes(Ti, -1, -2) if transposed else Ti) @ c

    def _border_product(self, y: Array, k: int | None) -> Array:
        """C'y."""
        return np.swapaxes(self._flat_border[..., :k], -1, -2) @ _merge_groups(y)

    def _multiply_border(self, c: Array, k: int | None) -> Array:
        """C c (..., G K, s)."""
        return self._flat_border[..., :k] @ c


def _merge_groups(E: Array) -> Array:
    """(..., G K, s) of (..., G, K, s)."""
    return E.reshape(*E.shape[:-3], E.shape[-3] * E.shape[-2], E.shape[-1])


def _cholesky(D: Array) -> Array:
    """Lower factors of blocks (..., K, K)."""
    K = D.shape[-1]
    if K > _UNROLLED:
        return np.linalg.cholesky(D)
    L = np.zeros(D.shape)
    for j in range(K):
        # L_jj^2 = D_jj - sum_(k < j) L_jk^2,  L_ij = (D_ij - sum_(k < j) L_ik L_jk) / L_jj
        pivot = D[..., j, j] - np.square(L[..., j, :j]).sum(-1)
        if not (pivot > 0).all():
            raise np.linalg.LinAlgError("a block is not positive definite")
        L[..., j, j] = np.sqrt(pivot)
        for i in range(j + 1, K):
            L[..., i, j] = (D[..., i, j] - (L[..., i, :j] * L[..., j, :j]).sum(-1)) / L[
                ..., j, j
            ]
    return L


def _forward(L: Array, E: Array) -> Array:
    """L^-1 E, block by block, E (..., G, K, s)."""
    solution = np.empty(np.broadcast_shapes(L.shape[:-2], E.shape[:-2]) + E.shape[-2:])
    for i in range(L.shape[-1]):
        row = E[..., i, :]
        for k in range(i):
            row = row - L[..., i, k, None] * solution[..., k, :]
        solution[..., i, :] = row / L[..., i, i, None]
    return solution


def _backward(L: Array, E: Array) -> Array:
    """L'^-1 E, block by block."""
    K = L.shape[-1]
    solution = np.empty(np.broadcast_shapes(L.shape[:-2], E.shape[:-2]) + E.shape[-2:])
    for i in range(K - 1, -1, -1):
        row = E[..., i, :]
        for k in range(i + 1, K):
            row = row - L[..., k, i, None] * solution[..., k, :]
        solution[..., i, :] = row / L[..., i, i, None]
    return solution
