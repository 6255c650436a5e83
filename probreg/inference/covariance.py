"""The covariance of the estimated parameters, held as a root so that no variance is a difference."""

from abc import ABC, abstractmethod
from collections.abc import Mapping
from dataclasses import dataclass, replace
from typing import Any, ClassVar

import numpy as np

from probreg.data.frame import Frame
from probreg.data.moments import MOST
from probreg.data.unwritten import UnwrittenColumns
from probreg.errors import DataError
from probreg.numerics.linalg import factor_of, inverse_upper
from probreg.system.memory import in_bytes, physical_memory

Array = np.ndarray
WRITTEN = 1000  # coefficients up to which a covariance is written out
_NUMBERS = 2_000_000  # held at once, of rows times the rank of the border


class ParameterCovariance(ABC):
    """A covariance (k, k) that is held as factors: it multiplies arrays and scalars, and becomes an array where one is asked for."""

    factors: ClassVar[tuple[str, ...]]  # what it is made of, by the names of its fields
    written: ClassVar[bool] = False  # it is no larger than the matrix

    @property
    @abstractmethod
    def shape(self) -> tuple[int, int]: ...

    @abstractmethod
    def diagonal(self) -> Array: ...

    @abstractmethod
    def __matmul__(self, B: Array) -> Array: ...

    @abstractmethod
    def __rmatmul__(self, A: Array) -> Array: ...

    @abstractmethod
    def __array__(self, dtype: Any = None, copy: bool | None = None) -> Array: ...

    @abstractmethod
    def of_predictors(self, X: Any, m: int) -> Array:
        """The covariances (n, m, m) of the linear predictors x_i'beta, of which this is that of vec(beta), k = p m."""

    @abstractmethod
    def draws(self, rng: np.random.Generator, size: int) -> Array:
        """(size, k) from N(0, this)."""


@dataclass(frozen=True, eq=False)
class DenseCovariance(ParameterCovariance):
    """cov(theta) = S root root' S' over theta = (vec beta, log nuisance parameters), S = diag(T kron I_m, I_a).

    `root` (p m + a, r) refers to the columns of `frame`, so that Var(g'theta) = |root' S'g|^2 is a sum of squares, and S'g
    has no cancellation where columns lie far from zero. Parameters marked in `missing` have no standard error: what moves
    with them is nan.

    >>> V = DenseCovariance(Frame(np.array([0.0, 5.0]), np.array([1.0, 2.0]), 0), 1, np.diag([1.0, 3.0]))
    >>> V.half(np.array([[1.0, 5.0], [0.0, 1.0]]))
    array([[1. , 0. ],
           [0. , 1.5]])
    >>> np.asarray(V)
    array([[ 57.25, -11.25],
           [-11.25,   2.25]])
    """

    frame: Frame
    m: int
    root: Array
    missing: Array | None = None  # (p m + a,) bool
    variances: Array | None = None  # (p m,) of raw coefficients, where more digits are known than the root has

    def arrays(self) -> dict[str, Array]:
        """Plain arrays for a file: `from_arrays` returns the same covariance to the last bit."""
        optional = {"mix": self.frame.mix, "variances": self.variances, "missing": self.missing}
        out = {"root": self.root, "frame": np.stack([self.frame.shift, self.frame.scale])}
        return out | {k: v.astype(np.int8) if v.dtype == bool else v for k, v in optional.items() if v is not None}

    @classmethod
    def from_arrays(cls, arrays: Mapping[str, Array], m: int, intercept: int | None) -> "DenseCovariance":
        """The covariance of `arrays`, for m predictors and the column of the intercept."""
        shift, scale = arrays["frame"]
        frame = Frame(shift, scale, intercept, arrays.get("mix"))
        missing = arrays["missing"].astype(bool) if "missing" in arrays else None
        return cls(frame, m, arrays["root"], missing, arrays.get("variances"))

    factors = ("root",)
    written = True
    __array_priority__ = 100.0

    @property
    def size(self) -> int:
        """p m, the number of coefficients."""
        return len(self.frame.scale) * self.m

    @property
    def shape(self) -> tuple[int, int]:
        return self.size, self.size

    def half(self, G: Array) -> Array:
        """(R, r) with half half' the covariance of G theta, G (R, p m) or (R, p m + a)."""
        G = np.asarray(G, dtype=float)
        if G.ndim == 1:
            return self.half(G[None])[0]
        k, p = self.size, len(self.frame.scale)
        coefficients = G[:, :k].reshape(len(G), p, self.m)
        B = self.frame.gradients(coefficients).reshape(len(G), -1) @ self.root[:k]
        if G.shape[1] > k:
            B += G[:, k:] @ self.root[k:]
        if self.missing is not None:
            B[(G[:, self.missing[: G.shape[1]]] != 0).any(1)] = np.nan
        return B

    def moves(self, L: Array, gap: Array) -> Array:
        """(p m,) V L'(L V L')^-1 gap: the shortest change, in standard errors, of coefficients that changes L theta by `gap`."""
        return np.asarray(self._raw() @ np.linalg.lstsq(np.nan_to_num(self.half(L)), gap)[0])

    def of_predictors(self, X: Any, m: int) -> Array:
        """(n, m, m), the covariances of the linear predictors of the rows X."""
        U, k = self.frame.rows(np.asarray(X)), self.size
        if m == 1:
            B = U @ self.root[:k]
            return np.einsum("nr,nr->n", B, B)[:, None, None]
        B = np.tensordot(U, self.root[:k].reshape(-1, m, self.root.shape[1]), 1)
        return B @ B.swapaxes(1, 2)

    def _raw(self) -> Array:
        """(p m, r), the root over the raw coefficients."""
        root = self.root[: self.size].reshape(len(self.frame.scale), -1)
        out = (self.frame.T @ root).reshape(self.size, -1)
        if self.missing is not None:
            out = np.where(self.missing[: self.size, None], np.nan, out)
        return out

    def diagonal(self) -> Array:
        if self.variances is not None:
            return self.variances
        return np.square(self._raw()).sum(1)

    @property
    def others(self) -> Array:
        """(a,), the standard errors of what follows the coefficients."""
        out = np.linalg.norm(self.root[self.size :], axis=1)
        return out if self.missing is None else np.where(self.missing[self.size :], np.nan, out)

    def draws(self, rng: np.random.Generator, size: int) -> Array:
        return self.joint_draws(rng, size)[:, : self.size]

    def joint_draws(self, rng: np.random.Generator, size: int) -> Array:
        """(size, p m + a) from N(0, this); what is missing does not move."""
        root = np.vstack([self._raw(), self.root[self.size :]])
        if self.missing is not None:
            root = np.where(self.missing[:, None], 0.0, root)
        return rng.standard_normal((size, root.shape[1])) @ root.T

    def __array__(self, dtype: Any = None, copy: bool | None = None) -> Array:
        A = self._raw()
        out = A @ A.T
        out[np.diag_indices(len(out))] = self.diagonal()
        return out if dtype is None else out.astype(dtype)

    def __getitem__(self, key: Any) -> Any:
        return np.asarray(self)[key]

    def reshape(self, *shape: int) -> Array:
        return np.asarray(self).reshape(*shape)

    def __matmul__(self, B: Array) -> Array:
        A = self._raw()
        return A @ (A.T @ B)

    def __rmatmul__(self, A: Array) -> Array:
        return (self @ np.asarray(A).T).T

    def __len__(self) -> int:
        return self.size

    def __mul__(self, by: Any) -> Any:
        if np.ndim(by):
            return np.asarray(self) * by
        variances = None if self.variances is None else self.variances * by
        return replace(self, root=self.root * np.sqrt(by), variances=variances)

    def __truediv__(self, by: Any) -> Any:
        return self * (1.0 / np.asarray(by))

    __rmul__ = __mul__


@dataclass(frozen=True, eq=False)
class FactoredCovariance(ParameterCovariance):
    """A covariance (k, k) as D (I - Q Q' + Q S Q') D, D = diag(spread), Q'Q = I, which is not written out.

    It multiplies arrays and scalars, has a diagonal, and becomes an array where one is asked for. DataError for one of
    more than 10,000 rows.

    >>> V = FactoredCovariance(np.array([1.0, 2.0]), np.array([[0.6], [0.8]]), np.array([[0.25]]))
    >>> np.asarray(V), V.diagonal()
    (array([[ 0.73, -0.72],
           [-0.72,  2.08]]), array([0.73, 2.08]))
    """

    spread: Array  # (k,)
    axes: Array  # Q (k, r)
    inner: Array  # S (r, r)

    factors = ("spread", "axes", "inner")
    __array_priority__ = 100.0  # array @ this asks this

    @property
    def shape(self) -> tuple[int, int]:
        return len(self.spread), len(self.spread)

    def diagonal(self) -> Array:
        """(k,)."""
        # diag = d_k^2 (1 - |Q_k|^2 + Q_k S Q_k'), Q_k row k.
        free = np.maximum(1.0 - np.einsum("kr,kr->k", self.axes, self.axes), 0.0)
        return self.spread**2 * (free + np.einsum("kr,kr->k", self.axes @ self.inner, self.axes))

    def __matmul__(self, B: Array) -> Array:
        # D (D B + Q (S - 1) Q' D B), without the matrix.
        DB = (self.spread * B.T).T
        seen = self.axes.T @ DB
        return (self.spread * (DB + self.axes @ (self.inner @ seen - seen)).T).T

    def __rmatmul__(self, A: Array) -> Array:
        return (self @ A.T).T

    def __mul__(self, by: float) -> "FactoredCovariance":
        return replace(self, spread=self.spread * np.sqrt(by))

    def __truediv__(self, by: float) -> "FactoredCovariance":
        return self * (1.0 / by)

    def __array__(self, dtype: Any = None, copy: bool | None = None) -> Array:
        k = len(self.spread)
        if k > MOST:
            raise DataError(
                f"the covariance of {k:,} coefficients is a matrix of {8e-9 * k**2:.0f} GB; std_error has its diagonal"
            )
        # D D + D Q (S - 1) Q' D, whose diagonal is taken from `diagonal`, where nothing cancels.
        DQ = self.spread[:, None] * self.axes
        out = DQ @ (self.inner - np.eye(len(self.inner))) @ DQ.T
        out[np.diag_indices(k)] = self.diagonal()
        return out if dtype is None else out.astype(dtype)

    def of_predictors(self, X: Any, m: int) -> Array:
        each = [np.kron(X, np.eye(m)[k]) for k in range(m)]  # rows of eta_k over vec(beta)
        return np.stack([np.stack([np.einsum("np,np->n", a @ self, b) for b in each], -1) for a in each], -2)

    def draws(self, rng: np.random.Generator, size: int) -> Array:
        """(size, k) from N(0, this): D (z + Q (S^1/2 - I) Q'z) of standard normal z."""
        value, vector = np.linalg.eigh(self.inner)
        # (1 + Q (S^(1/2) - 1) Q') squared is 1 + Q (S - 1) Q', since Q'Q = 1.
        root = (vector * np.sqrt(np.maximum(value, 0.0))) @ vector.T
        z = rng.standard_normal((size, len(self.spread)))
        z += (z @ self.axes) @ (root - np.eye(len(root))) @ self.axes.T
        z *= self.spread
        return z


@dataclass(frozen=True, eq=False)
class ArrowCovariance(ParameterCovariance):
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


def root_of_factor(R: Array, frame: Frame) -> Array:
    """The root (p, p) in the frame, of the triangular factor R of the rows: (R T)^-1."""
    F = R @ frame.T.astype(R.dtype)
    return np.asarray(
        inverse_upper(factor_of(F) if frame.intercept else F), dtype=float
    )  # T is triangular where the intercept leads


def covariance_of_sample(frame: Frame, sample: Array) -> DenseCovariance:
    """The covariance of draws or replicates of beta, sample (S, p, m): R'/sqrt(S - 1) is its root, A = Q R of those less their mean."""
    S, p, m = sample.shape
    if S < 2:  # a single draw has no spread
        return DenseCovariance(frame, m, np.full((p * m, 1), np.nan))
    gamma = np.einsum("qp,spm->sqm", frame.T_inverse, sample - sample.mean(0)).reshape(S, -1)
    return DenseCovariance(frame, m, np.linalg.qr(gamma / np.sqrt(S - 1.0), mode="r").T)


def root_of_curvature(H: Array) -> Array | None:
    """Upper triangular K with K K' = H^-1, rows scaled to unit diagonal; None where H is not positive definite."""
    d = np.sqrt(np.abs(np.diagonal(H)))
    if not (np.isfinite(H).all() and (d > 0).all()):
        return None
    try:
        # D^-1 H D^-1 = L L', H^-1 = D^-1 L'^-1 L^-1 D^-1
        L = np.linalg.cholesky(H / np.outer(d, d))
    except np.linalg.LinAlgError:
        return None
    return inverse_upper(np.ascontiguousarray(L.T)) / d[:, None]


def root_of_square(M: Array) -> Array:
    """A (k, k) with A A' = M, positive semi-definite."""
    d = np.sqrt(np.maximum(np.diagonal(M), np.finfo(float).tiny))
    value, vector = np.linalg.eigh(M / np.outer(d, d))
    return vector * np.sqrt(np.maximum(value, 0.0)) * d[:, None]
