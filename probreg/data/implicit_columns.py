"""Matrices that provide rows, columns and products: with implicit columns of groups, or with columns of several linear predictors.

The groups are grouping factors of varying effects, or the levels of a factor. An array of n x (p + G K) numbers is made only if an algorithm
needs one, up to a limit. `beside_groups` keeps columns of effects implicit if they would take more than 64 MB; a formula determines
which factors stay codes (`probreg.data.formula.layout`).
"""

from abc import abstractmethod
from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from functools import cached_property
from typing import Any

import numpy as np
from numpy.lib.mixins import NDArrayOperatorsMixin

from probreg.data.grouped_columns import GroupColumns
from probreg.data.terms.grouped import GroupedTerm
from probreg.errors import DataError
from probreg.linalg import sum_over_blocks, weighted_gram
from probreg.system.memory import in_bytes

Array = np.ndarray
MIN_IMPLICIT_BYTES = 64 * 10**6  # bytes of an array above which columns stay implicit
MAX_DENSE_BYTES = 2 * 10**9  # bytes of an array, if an algorithm needs one


class ImplicitMatrix(NDArrayOperatorsMixin):
    """A matrix that multiplies arrays; every other function and operator of NumPy writes it out."""

    ndim = 2
    dtype = np.dtype(float)

    @property
    @abstractmethod
    def shape(self) -> tuple[int, int]:
        """The numbers of rows and columns."""

    @abstractmethod
    def cross(self, V: Array) -> Array:
        """Return X'V (p, ...) of V (n, ...)."""

    @property
    def size(self) -> int:
        return self.shape[0] * self.shape[1]

    def __len__(self) -> int:
        return self.shape[0]

    @property
    def T(self) -> "ImplicitMatrix":
        return Transposed(self)

    def __rmatmul__(self, A: Array) -> Array:
        return (self.T @ np.asarray(A).T).T

    def __array_ufunc__(
        self, ufunc: np.ufunc, method: str, *args: Any, **options: Any
    ) -> Any:
        if ufunc is np.matmul and not options:
            A, B = args
            return A @ B if isinstance(A, ImplicitMatrix) else B.__rmatmul__(A)
        if any(isinstance(o, ImplicitMatrix) for o in options.get("out", ())):
            del options["out"]  # X += 1 rebinds X to an array
        return getattr(ufunc, method)(*_to_dense(args), **options)

    def __array_function__(
        self, func: Callable[..., Any], types: Any, args: Any, kwargs: Any
    ) -> Any:
        if func is np.dot and not kwargs:
            return args[0] @ args[1]
        return func(*_to_dense(args), **kwargs)


@dataclass(frozen=True, eq=False)
class LazyColumns(ImplicitMatrix):
    """[head, Z_1, Z_2, ...] as an array of floats (n, p) that multiplies and gives rows and columns.

    With `firsts`, the columns of Z_k start at column firsts[k], and the columns of the head take the remaining places.
    DataError if an array is needed that takes more than 2 GB.

    >>> X = LazyColumns(np.ones((2, 1)), (GroupColumns(np.array([0, 1]), np.array([[2.0], [3.0]]), 2),))
    >>> X.shape, X @ np.array([1.0, 10.0, 100.0]), X[:, [0, 2]]
    ((2, 3), array([ 21., 301.]), array([[1., 0.],
           [1., 3.]]))
    """

    head: Array  # (n, q)
    tail: tuple[GroupColumns, ...]
    firsts: tuple[int, ...] | None = None

    @property
    def shape(self) -> tuple[int, int]:
        n, q = self.head.shape
        return n, q + sum(c.width for c in self.tail)

    @cached_property
    def of_indicators(self) -> bool:
        """Whether the columns of groups are indicators, one for each group: the levels of factors, and varying intercepts."""
        return all(
            c.effects == 1 and bool(((c.Z == 0.0) | (c.Z == 1.0)).all())
            for c in self.tail
        )

    def sparse(self) -> Any:
        """Return a sparse array of scipy with its nonzero entries stored row by row."""
        from scipy.sparse import csr_array

        n, q = self.head.shape
        blocks = [np.broadcast_to(self.head_places, (n, q))]
        blocks += [
            first + (c.codes * c.effects)[:, None] + np.arange(c.effects)
            for first, c in zip(self.starts, self.tail)
        ]
        values = np.hstack([self.head, *(c.Z for c in self.tail)])
        places = np.hstack(blocks)
        return csr_array(
            (values.ravel(), places.ravel(), np.arange(n + 1) * places.shape[1]),
            shape=self.shape,
        )

    @cached_property
    def starts(self) -> tuple[int, ...]:
        """The first column of each part of the tail."""
        if self.firsts is not None:
            return self.firsts
        ends = np.cumsum([self.head.shape[1], *(c.width for c in self.tail)])
        return tuple(int(e) for e in ends[:-1])

    @cached_property
    def head_places(self) -> Array:
        """The places (q,) of the head's columns."""
        is_head = np.ones(self.shape[1], dtype=bool)
        for first, c in zip(self.starts, self.tail):
            is_head[first : first + c.width] = False
        return np.flatnonzero(is_head)

    def __getitem__(self, key: Any) -> Any:
        rows, *others = key if isinstance(key, tuple) else (key,)
        columns: Any = others[0] if others else slice(None)
        if isinstance(columns, slice) and columns == slice(None):
            if isinstance(rows, int | np.integer):
                return np.asarray(self[[int(rows)]])[0]
            return replace(
                self, head=self.head[rows], tail=tuple(c.part(rows) for c in self.tail)
            )
        if np.ndim(rows) == 2:  # np.ix_
            rows, columns = np.ravel(rows), np.ravel(columns)
        elif np.ndim(rows) == 1 and np.ndim(columns) == 1:  # entries, pair by pair
            return self.sparse()[rows, columns]
        chosen = np.arange(self.shape[1])[columns]
        part = self if isinstance(rows, slice) and rows == slice(None) else self[rows]
        if np.isin(chosen, self.head_places).all():
            return part.head[:, np.searchsorted(self.head_places, chosen)]
        _require_dense_size(len(part), np.size(chosen))
        values = part.sparse()[:, np.atleast_1d(chosen)].toarray()
        return values if np.ndim(chosen) else values[:, 0]

    def __matmul__(self, B: Array) -> Array:
        B = np.asarray(B)
        if B.ndim > 2:  # (..., p, s)
            flat = np.moveaxis(B, -2, 0)
            product = self @ flat.reshape(len(flat), -1)
            return np.moveaxis(product.reshape(len(self), *flat.shape[1:]), 0, -2)
        columns = B.reshape(len(B), -1)
        product = self.head @ columns[self.head_places]
        for first, c in zip(self.starts, self.tail):
            coefficients = columns[first : first + c.width]
            product = product + c.times(coefficients.reshape(c.groups, c.effects, -1))
        return product.reshape(len(self), *B.shape[1:])

    def without_effects(self, rows: Sequence[Array | None]) -> "LazyColumns":
        """Return the matrix with zeros in the columns of each term of varying effects at its rows (n,) bool; None for no rows."""
        pairs = zip(self.tail, rows, strict=True)
        tail = (
            c if w is None else c._replace(Z=np.where(w[:, None], 0.0, c.Z))
            for c, w in pairs
        )
        return replace(self, tail=tuple(tail))

    def __array__(self, dtype: Any = None, copy: bool | None = None) -> Array:
        n, p = self.shape
        _require_dense_size(n, p)
        matrix = np.zeros((n, p))
        matrix[:, self.head_places] = self.head
        for first, c in zip(self.starts, self.tail):
            place = first + c.codes * c.effects
            for k in range(c.effects):
                matrix[np.arange(n), place + k] = c.Z[:, k]
        return matrix if dtype is None else matrix.astype(dtype)

    def mean(self, axis: int) -> Array:
        """Return the mean of each column (axis 0)."""
        if axis != 0:
            return np.asarray(self).mean(axis)
        return (self.T @ np.ones(len(self))) / len(self)

    def cross(self, V: Array) -> Array:
        """Return X'V (p, ...) of V (n, ...)."""
        columns = V.reshape(len(V), -1)
        products = np.empty((self.shape[1], columns.shape[1]))
        products[self.head_places] = self.head.T @ columns
        for first, c in zip(self.starts, self.tail):
            values = c.cross(columns).reshape(-1, columns.shape[1])
            products[first : first + len(values)] = values
        return products.reshape(-1, *V.shape[1:])

    def std(self, axis: int) -> Array:
        """Return the standard deviation of each column (axis 0)."""
        if axis != 0:
            return np.asarray(self).std(axis)
        square = self.sparse().power(2).mean(0)
        scale = np.sqrt(np.maximum(square - self.mean(0) ** 2, 0.0))
        scale[self.head_places] = self.head.std(0)
        return scale


@dataclass(frozen=True, eq=False)
class Transposed(ImplicitMatrix):
    """The transpose X' of implicit columns, for matrix products."""

    of: ImplicitMatrix

    @property
    def shape(self) -> tuple[int, int]:
        n, p = self.of.shape
        return p, n

    @property
    def T(self) -> ImplicitMatrix:
        return self.of

    def cross(self, V: Array) -> Array:
        """Return X V."""
        return self.of @ V

    def __matmul__(self, V: Array) -> Array:
        return self.of.cross(np.asarray(V))

    def __array__(self, dtype: Any = None, copy: bool | None = None) -> Array:
        return np.asarray(self.of, dtype=dtype).T


@dataclass(frozen=True, eq=False)
class PredictorColumns(ImplicitMatrix):
    """Columns (n, p), column j for the linear predictor `owner[j]` of `width` predictors.

    X @ B, B (p, s), is (n, width s) with the s products of a predictor side by side; X.T @ V is its transpose, (p, s).

    >>> X = PredictorColumns(np.array([[1.0, 1.0, 4.0]]), np.array([0, 1, 1]), 2)
    >>> X @ np.array([[2.0], [3.0], [5.0]]), X.T @ np.array([[10.0, 1.0]])
    (array([[ 2., 23.]]), array([[10.],
           [ 1.],
           [ 4.]]))
    """

    columns: Any  # (n, p), an array or implicit columns of groups
    owner: Array  # (p,) int
    width: int

    @property
    def shape(self) -> tuple[int, int]:
        return self.columns.shape

    def cross(self, V: Array) -> Array:
        """Return the transpose of the product with `expand`, (p, s) of V (n, width s)."""
        products = self.columns.T @ V
        return self.pick(products) if V.ndim > 1 else products

    def __array__(self, dtype: Any = None, copy: bool | None = None) -> Array:
        return np.asarray(self.columns, dtype=dtype)

    def __abs__(self) -> "PredictorColumns":
        return self.map(abs)

    def __getitem__(self, key: Any) -> Any:
        """Return rows with their predictors, or the numbers of some columns."""
        if isinstance(key, tuple) and len(key) == 2:
            return self.columns[key]
        part = self.columns[key]
        return replace(self, columns=part) if part.ndim == 2 else part

    def map(self, fn: Callable[[Any], Any]) -> "PredictorColumns":
        """Return fn of the columns, with the same predictors."""
        return replace(self, columns=fn(self.columns))

    def expand(self, B: Array) -> Array:
        """Return B (..., p, s) as (..., p, width s), with zeros except in the predictor of each column."""
        own = self.owner[:, None] == np.arange(self.width)
        spread = own[:, :, None] * np.asarray(B)[..., :, None, :]
        return spread.reshape(*B.shape[:-1], -1)

    def pick(self, V: Array) -> Array:
        """Return the entries (p, s) of V (p, width s) for the predictor of each column: the transpose of `expand`."""
        blocks = V.reshape(len(V), self.width, -1)
        return blocks[np.arange(len(V)), self.owner]

    def __matmul__(self, B: Array) -> Array:
        return self.columns @ self.expand(B)

    def mean(self, axis: int) -> Array:
        """Return the mean of each column (axis 0)."""
        return self.columns.mean(axis)

    def std(self, axis: int) -> Array:
        """Return the standard deviation of each column (axis 0)."""
        return self.columns.std(axis)


def _to_dense(value: Any) -> Any:
    """Return arguments with arrays in place of implicit columns, nested lists included."""
    if isinstance(value, list | tuple):
        return [_to_dense(part) for part in value]
    return np.asarray(value) if isinstance(value, ImplicitMatrix) else value


def beside_groups(
    head: Array, terms: Sequence[tuple[GroupedTerm, Array]], *, lazy: bool = False
) -> Any:
    """Append the columns of terms at their inputs to `head`: an array if it is small, unless they stay `lazy`."""
    tail = tuple(GroupColumns.of(term, x) for term, x in terms)
    X = LazyColumns(np.ascontiguousarray(head, dtype=float), tail)
    return X if lazy else dense_where_small(X)


def stack_rows(X: Any, Y: Any) -> Any:
    """Return the rows of X followed by the rows of Y."""
    if isinstance(X, PredictorColumns):
        return X.map(lambda columns: stack_rows(columns, Y.columns))
    if not isinstance(X, LazyColumns):
        return np.concatenate([X, Y])
    tail = [
        GroupColumns(
            np.concatenate([a.codes, b.codes]), np.concatenate([a.Z, b.Z]), a.groups
        )
        for a, b in zip(X.tail, Y.tail, strict=True)
    ]
    return replace(X, head=np.concatenate([X.head, Y.head]), tail=tuple(tail))


def dense_where_small(X: Any) -> Any:
    """Return an array if it takes at most 64 MB, else implicit columns of groups."""
    if isinstance(X, PredictorColumns):
        return X.map(dense_where_small)
    if isinstance(X, LazyColumns) and 8 * X.size <= MIN_IMPLICIT_BYTES:
        return np.asarray(X)
    return contiguous(X)


def combine_columns(parts: Sequence[Any], weights: Array) -> Any:
    """Return sum_k w_ik X_k (n, p) for rows that keep their groups, with weights (n, K) that sum to zero in each row."""

    def total(arrays: list[Array]) -> Array:
        # sum_k w_k (X_k - X_0), which is exactly 0 for a column that does not change
        changes = (
            w[:, None] * (X - arrays[0]) for w, X in zip(weights.T[1:], arrays[1:])
        )
        return sum(changes, np.zeros_like(arrays[0], dtype=float))

    first = parts[0]
    if isinstance(first, PredictorColumns):
        return first.map(lambda _: combine_columns([X.columns for X in parts], weights))
    if not isinstance(first, LazyColumns):
        return total(list(parts))
    tail = [
        c._replace(Z=total([X.tail[j].Z for X in parts]))
        for j, c in enumerate(first.tail)
    ]
    return replace(first, head=total([X.head for X in parts]), tail=tuple(tail))


def all_close(X: Any, Y: Any) -> bool:
    """Whether columns are equal up to 1e-9; columns of groups are compared as sparse arrays."""
    rtol = 1e-9
    atol = 1e-12
    if isinstance(X, PredictorColumns) and isinstance(Y, PredictorColumns):
        return np.array_equal(X.owner, Y.owner) and all_close(X.columns, Y.columns)
    if isinstance(X, LazyColumns) and isinstance(Y, LazyColumns):
        if X.shape != Y.shape:
            return False
        A = X.sparse()
        B = Y.sparse()
        return bool((abs(A - B) - rtol * abs(B)).max() <= atol)
    return np.allclose(X, Y, rtol=rtol, atol=atol)


def contiguous(X: Any) -> Any:
    """Return floats in C order; implicit columns are returned unchanged."""
    if isinstance(X, PredictorColumns):
        return X.map(contiguous)
    if isinstance(X, LazyColumns):
        return X
    return np.ascontiguousarray(X, dtype=float)


def _require_dense_size(n: int, p: int) -> None:
    if 8 * n * p > MAX_DENSE_BYTES:
        raise DataError(
            f"{n:,} rows of {p:,} columns take {in_bytes(8.0 * n * p)} as an array with a column for each group and level, and "
            f"{in_bytes(MAX_DENSE_BYTES)} is the limit; closed_form, newton, evidence and integrate do not need this array"
        )


def columns_of(X: Any) -> Any:
    """The columns (n, p) of rows X without their linear predictors."""
    return X.columns if isinstance(X, PredictorColumns) else X


def row_gradients(J: Array, X: Any) -> Array:
    """The gradients (n, D, p, m) over the coefficients of quantities with slopes J (n, D, m) over the linear predictors."""
    if isinstance(X, PredictorColumns):
        return (J[..., X.owner] * np.asarray(X)[:, None])[..., None]
    return np.einsum("ndm,np->ndpm", J, np.asarray(X))


def join_predictors(parts: Sequence[Any]) -> PredictorColumns:
    """Return the columns of all linear predictors, in the order of the predictors."""
    widths = [part.shape[1] for part in parts]
    owner = np.repeat(np.arange(len(parts)), widths)
    heads: list[Array] = []
    tail: list[GroupColumns] = []
    firsts: list[int] = []
    for part, end in zip(parts, np.cumsum(widths)):
        if isinstance(part, LazyColumns):
            start = int(end) - part.shape[1]
            tail += part.tail
            firsts += [start + first for first in part.starts]
            part = part.head
        heads.append(part)
    columns: Any = np.hstack(heads)
    if tail:
        columns = LazyColumns(columns, tuple(tail), tuple(firsts))
    return PredictorColumns(columns, owner, len(parts))


@weighted_gram.register
def _gram_by_predictor(X: PredictorColumns, W: Array) -> Array:
    """H[a, b] = sum_i X[i, a] W[i, k, l] X[i, b] (p, p), k and l the predictors of columns a and b; W (n,) is W_i I."""
    p = X.shape[1]
    places = [np.flatnonzero(X.owner == k) for k in range(X.width)]

    def block(rows: slice, part: Any) -> tuple[Array]:
        H = np.zeros((p, p))
        columns = [part[:, entries] for entries in places]
        for k, left in enumerate(places):
            for c in range(k + 1):
                if W.ndim == 1 and c < k:
                    continue
                w = W[rows] if W.ndim == 1 else W[rows, k, c]
                products = np.dot(columns[k].T, columns[c] * w[:, None])
                H[np.ix_(left, places[c])] = products
                H[np.ix_(places[c], left)] = products.T
        return (H,)

    columns_of_predictors: Any = X
    H = sum_over_blocks(columns_of_predictors, block)[0]
    return (H + H.T) / 2
