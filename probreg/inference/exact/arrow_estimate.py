"""The coefficients at given hyperparameters, with a covariance that is an arrow and is not written out.

With H = J'J, J = [[L', C], [0, T']], the columns of J^-1 are those of L'^-1, group by group, and r of [-L'^-1 C T'^-1; T'^-1]: a covariance
is made of blocks of the groups, and of what the border adds to all, of rank r.
"""

from collections.abc import Mapping
from dataclasses import dataclass, replace
from typing import Any, NamedTuple

import numpy as np

from probreg.data.moments import MOST
from probreg.data.unwritten import UnwrittenColumns
from probreg.errors import DataError
from probreg.inference.base import Array
from probreg.inference.exact.arrow_laplace import ArrowLaplaceSurface
from probreg.inference.exact.arrow_layout import ArrowLayout
from probreg.inference.exact.arrow_roots import ArrowRoots
from probreg.inference.exact.arrow_surface import ArrowSurface
from probreg.inference.modes.wide import UnwrittenCovariance
from probreg.numerics.linalg import Arrow, SparseArrow


@dataclass(frozen=True, eq=False)
class ArrowCovariance(UnwrittenCovariance):
    """A covariance (k, k) = blkdiag over groups of R_g R_g' + W W' that is not written out.

    It multiplies arrays and scalars, has a diagonal, and becomes an array where one is asked for. DataError for one of
    more than 10,000 rows.

    >>> V = ArrowCovariance(np.array([[1], [2]]), np.array([[[1.0]], [[2.0]]]), np.array([[3.0], [0.0], [1.0]]))
    >>> np.asarray(V)
    array([[9., 0., 3.],
           [0., 1., 0.],
           [3., 0., 5.]])
    """

    places: Array  # (G, K) the rows of each group
    blocks: Array  # R (G, K, K)
    low: Array  # W (k, r)

    factors = ("places", "blocks", "low")
    __array_priority__ = 100.0  # array @ this asks this

    @property
    def shape(self) -> tuple[int, int]:
        return len(self.low), len(self.low)

    def diagonal(self) -> Array:
        """(k,)."""
        out = np.square(self.low).sum(1)
        out[self.places.ravel()] += np.square(self.blocks).sum(2).ravel()
        return out

    def __matmul__(self, B: Array) -> Array:
        B = np.asarray(B)
        columns = B.reshape(len(B), -1)
        out = self.low @ (self.low.T @ columns)
        out[self.places] += self.blocks @ (self.blocks.swapaxes(1, 2) @ columns[self.places])
        return out.reshape(B.shape)

    def __rmatmul__(self, A: Array) -> Array:
        return (self @ np.asarray(A).T).T

    def __mul__(self, by: float) -> "ArrowCovariance":
        return replace(self, blocks=self.blocks * np.sqrt(by), low=self.low * np.sqrt(by))

    def __truediv__(self, by: float) -> "ArrowCovariance":
        return self * (1.0 / by)

    def __getitem__(self, key: Any) -> Any:
        """Entries, rows and columns as of an array; all of them as this."""
        every = np.arange(len(self.low))
        rows, columns = key
        if isinstance(rows, slice) and isinstance(columns, slice):
            rows, columns = every[rows], every[columns]
            if len(rows) == len(columns) == len(every):
                return self
            rows, columns = np.ix_(rows, columns)
        i, j = np.broadcast_arrays(every[rows], every[columns])
        place = np.full((len(every), 2), -1)  # group and number of its effect
        place[self.places] = np.moveaxis(np.indices(self.places.shape), 0, -1)
        a, b = place[i], place[j]
        outer = i.ndim == 2 and np.shape(rows)[1:] == (1,) and np.shape(columns)[:1] == (1,)
        out = self.low[i[:, 0]] @ self.low[j[0]].T if outer and i.size else (self.low[i] * self.low[j]).sum(-1)
        same = (a[..., 0] == b[..., 0]) & (a[..., 0] >= 0)
        a, b = a[same], b[same]
        out[same] += np.einsum("nk,nk->n", self.blocks[a[:, 0], a[:, 1]], self.blocks[b[:, 0], b[:, 1]])
        return out

    def __array__(self, dtype: Any = None, copy: bool | None = None) -> Array:
        k = len(self.low)
        if k > MOST:
            raise DataError(
                f"the covariance of {k:,} coefficients is a matrix of {8e-9 * k**2:.0f} GB; std_error has its diagonal"
            )
        out = self.low @ self.low.T
        out[self.places[:, :, None], self.places[:, None]] += self.blocks @ self.blocks.swapaxes(1, 2)
        return out if dtype is None else out.astype(dtype)

    def of_predictors(self, X: Any, m: int) -> Array:
        from scipy.sparse import csr_array

        rows = X.sparse() if isinstance(X, UnwrittenColumns) else csr_array(X)
        at = np.broadcast_to(np.arange(self.places.size).reshape(len(self.places), 1, -1), self.blocks.shape)
        entries = (self.blocks.ravel(), (np.repeat(self.places.ravel(), self.places.shape[1]), at.ravel()))
        R = csr_array(entries, shape=(len(self.low), self.places.size))
        own = [rows @ R[k::m] for k in range(m)]  # of eta_k: a row of X has entries of few groups
        out = np.empty((rows.shape[0], m, m))
        for k in range(m):
            for j in range(k + 1):
                out[:, k, j] = out[:, j, k] = np.asarray((own[k] * own[j]).sum(1)).ravel()
        size = max(1, _NUMBERS // (m * self.low.shape[1] + 1))
        for i in range(0, len(out), size):
            # X_i W of each predictor
            wide = np.stack([rows[i : i + size] @ self.low[k::m] for k in range(m)], 1)
            out[i : i + size] += wide @ wide.swapaxes(1, 2)
        return out

    def draws(self, rng: np.random.Generator, size: int) -> Array:
        """(size, k) from N(0, this)."""
        out = rng.standard_normal((size, self.low.shape[1])) @ self.low.T
        z = rng.standard_normal((size, *self.places.shape))
        out[:, self.places] += np.einsum("gkl,sgl->sgk", self.blocks, z)
        return out


class ArrowEstimate(NamedTuple):
    """The mean of the coefficients given the hyperparameters, and their covariance."""

    beta: Array  # (p, m)
    scale: Any  # (p m, p m), an array where that is small
    aux: Mapping[str, float]
    aux_sd: Mapping[str, float]


_NUMBERS = 2_000_000  # held at once, of rows times the rank of the border
WRITTEN = 1000  # coefficients up to which a covariance is written out


def arrow_estimate(surface: ArrowSurface | ArrowLaplaceSurface, theta: Array) -> ArrowEstimate:
    """At the hyperparameters theta."""
    layout, (p, m) = surface.layout, surface.model.shape
    aux, aux_sd = dict[str, float](), dict[str, float]()
    if isinstance(surface, ArrowSurface):
        nodes = surface.at_nodes(theta[None])
        roots, x = nodes.roots, (nodes.mean[0][0], nodes.mean[1][0])
        H: Arrow | SparseArrow = nodes.factor.at(0)
    else:
        at = surface.mode(theta)
        roots, H, x = at.roots, at.H, at.x
    a, c = roots.forth(x[0][None], x[1][None])
    beta = layout.coefficients(a[0], c[0])[:, 0].reshape(p, m) + layout.centre[:, None]
    if isinstance(surface, ArrowSurface):
        beta[list(layout.flat), 0] += layout.T @ surface.fitted
    scale, of_aux = _covariance(layout, roots, H)
    unknown = () if isinstance(surface, ArrowSurface) else surface.model.unknown
    for i, name in enumerate(unknown):
        aux[name] = float(np.exp(x[1][len(x[1]) - len(unknown) + i, 0]))
        aux_sd[name] = aux[name] * float(np.linalg.norm(of_aux[len(of_aux) - len(unknown) + i]))
    return ArrowEstimate(beta, np.asarray(scale) if p * m <= WRITTEN else scale, aux, aux_sd)


def _covariance(layout: ArrowLayout, roots: ArrowRoots, H: Arrow | SparseArrow) -> tuple[ArrowCovariance, Array]:
    """Of vec beta, and the rows of T'^-1 that belong to what stands in the border."""
    G, K, r = H.shape
    # [[L', C], [0, T']]^-1: its first columns are the blocks L_g'^-1, its last ones of rank r
    a, of_aux = H.transposed(np.broadcast_to(0.0, (G, K, r)), np.eye(r))
    a, c = roots.forth(a[None], of_aux[None])
    blocks = roots.lead[0] @ H.transposed(np.broadcast_to(np.eye(K), (G, K, K)), np.zeros((r, K)))[0]
    return ArrowCovariance(layout.places, blocks, layout.coefficients(a[0], c[0])), of_aux
