"""A covariance that is an arrow and is not written out: blocks of groups, and what a border adds to all of them."""

from dataclasses import dataclass, replace
from typing import Any

import numpy as np

from probreg.data.unwritten import UnwrittenColumns
from probreg.errors import DataError
from probreg.inference.base import Array
from probreg.inference.modes.wide import UnwrittenCovariance
from probreg.system.memory import in_bytes, physical_memory

WRITTEN = 1000  # coefficients up to which a covariance is written out
_NUMBERS = 2_000_000  # held at once, of rows times the rank of the border


@dataclass(frozen=True, eq=False)
class ArrowCovariance(UnwrittenCovariance):
    """A covariance (k, k) = blkdiag over groups of R_g R_g' + W W' that is not written out.

    It multiplies arrays and scalars, has a diagonal, and becomes an array where one is asked for. DataError
    where that takes more than half of the memory.

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
        need, most = 16.0 * k**2, physical_memory()
        if most is not None and need > 0.5 * most:
            raise DataError(
                f"the covariance of {k:,} coefficients takes {in_bytes(need)} while it is made, more than half of the {in_bytes(most)} of "
                "this machine; std_error has its diagonal"
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


def written_where_few(scale: ArrowCovariance) -> Any:
    """An array where the coefficients are few."""
    return np.asarray(scale) if len(scale.low) <= WRITTEN else scale
