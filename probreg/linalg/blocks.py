"""Rows in blocks that stay in cache and are shared by the cores, and the weighted Gram matrix of tall arrays."""

import os
from collections.abc import Callable, Iterable, Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from contextvars import ContextVar, copy_context
from functools import cache, singledispatch
from itertools import pairwise
from typing import Any

import numpy as np
from numpy.typing import NDArray

Array = NDArray[Any]
Sums = tuple[Array, ...]
dot = np.dot  # inside blocks, in place of @: see map_blocks


def row_blocks(n: int, width: int) -> list[slice]:
    """Consecutive slices that cover n rows of `width` numbers, each of 1024 to 16384 rows and about 2 MB.

    >>> row_blocks(40_000, 20)
    [slice(0, 13107, None), slice(13107, 26214, None), slice(26214, 39321, None), slice(39321, 40000, None)]
    """
    size = 2**18  # numbers in one block of rows: 2 MB, the size of a core's caches
    rows = min(max(size // max(width, 1), 1024), 16384)
    return row_slices(n, rows)


def row_slices(n: int, size: int) -> list[slice]:
    """Split n rows into slices of at most `size` rows; one empty slice for n = 0.

    >>> row_slices(5, 2)
    [slice(0, 2, None), slice(2, 4, None), slice(4, 5, None)]
    """
    starts = range(0, max(n, 1), size)
    return [slice(i, min(i + size, n)) for i in starts]


def evenly_spaced(count: int, limit: int) -> Array:
    """Return at most `limit` evenly spaced numbers from 0 to count - 1, both ends among them.

    >>> evenly_spaced(10, 4)
    array([0, 3, 6, 9])
    """
    return np.unique(np.linspace(0, count - 1, min(count, limit)).astype(int))


def map_blocks(fn: Callable[[slice], Sums], blocks: Sequence[slice]) -> Sums:
    """The sums over blocks of the arrays fn(block) returns, on all cores with BLAS kept to one thread each.

    The order of the additions is fixed by the blocks alone, so the result is the same on any number of cores. `fn` must
    not write to anything shared, and should multiply by `np.dot`: the operator @ keeps the interpreter's lock when its
    result has fewer than 500 numbers, and the threads then wait for each other.

    >>> x = np.arange(5.0)
    >>> map_blocks(lambda rows: (x[rows].sum(), (x[rows] ** 2).sum()), [slice(0, 3), slice(3, 5)])
    (array(10.), array(30.))
    """
    max_parts = 8  # every machine adds blocks in this number of groups, so that sums do not depend on the number of cores
    if len(blocks) == 1:
        with one_blas_thread():
            return _add([fn(blocks[0])])
    edges = np.linspace(0, len(blocks), min(max_parts, len(blocks)) + 1).astype(int)
    groups = [blocks[a:b] for a, b in pairwise(edges)]
    return _add(on_all_cores(lambda group: _add(map(fn, group)), groups))


def on_all_cores[A, B](fn: Callable[[A], B], items: Sequence[A]) -> list[B]:
    """Return fn(item) of every item, in their order, by threads with one BLAS thread each. The conditions on `fn` are as in `map_blocks`.

    >>> on_all_cores(lambda x: x * x, [1, 2, 3])
    [1, 4, 9]
    """
    # counting the cores takes a tenth of a millisecond
    workers = 1 if len(items) <= 1 else min(len(items), threads())
    if workers <= 1:
        with one_blas_thread():
            return list(map(fn, items))
    # carries np.errstate into the threads
    tasks = [(copy_context(), item) for item in items]
    with one_blas_thread(), ThreadPoolExecutor(workers) as pool:
        return list(pool.map(lambda task: task[0].run(fn, task[1]), tasks))


def sum_over_blocks(X: Array, fn: Callable[[slice, Array], Sums]) -> Sums:
    """Return the sums of the arrays that fn(rows, X[rows]) returns, over blocks of rows: one pass over X reads each block once.

    >>> X = np.ones((6, 2))
    >>> sum_over_blocks(X, lambda rows, block: (block.sum(axis=0), block.T @ block))[0]
    array([6., 6.])
    """
    return map_blocks(lambda rows: fn(rows, X[rows]), row_blocks(*X.shape))


def _add(parts: Iterable[Sums]) -> Sums:
    remaining = iter(parts)
    # one copy; all other sums are added to it in place
    total = tuple(map(np.array, next(remaining)))
    for part in remaining:
        for total_of_one, values in zip(total, part, strict=True):
            np.add(total_of_one, values, out=total_of_one)
    return total


_threads: ContextVar[int | None] = ContextVar("threads", default=None)


def threads() -> int:
    """The number of threads to use: the limit set by `limit_threads`, else one per core."""
    return _threads.get() or os.cpu_count() or 1


@contextmanager
def limit_threads(count: int | None) -> Iterator[None]:
    """Limit the threads inside the block to `count`; None changes nothing. Results are the same to the last bit.

    >>> with limit_threads(1):
    ...     threads()
    1
    """
    token = _threads.set(_threads.get() if count is None else count)
    try:
        yield
    finally:
        _threads.reset(token)


@cache
def _blas() -> list[Any]:
    """The BLAS libraries of this process; finding them takes a millisecond."""
    from threadpoolctl import ThreadpoolController

    return [
        library
        for library in ThreadpoolController().lib_controllers
        if library.user_api == "blas"
    ]


@contextmanager
def one_blas_thread() -> Iterator[None]:
    """Limit BLAS and LAPACK to one thread, as a context or a decorator, for matrices of at most some thousand columns.

    A second thread saves them microseconds when a core is idle, and costs milliseconds for every call when none is.

    >>> with one_blas_thread():
    ...     print(np.linalg.cholesky(np.eye(2)).trace())
    2.0
    """
    if _alone.get():  # inside another such context, which keeps the limit until it ends
        yield
        return
    token = _alone.set(True)
    # libraries with one thread are skipped: the check takes a microsecond, a context of threadpoolctl a dozen
    before = [
        (library, count)
        for library in _blas()
        if (count := library.num_threads) not in (None, 1)
    ]
    try:
        for library, _ in before:
            library.set_num_threads(1)
        yield
    finally:
        for library, count in before:
            library.set_num_threads(count)
        _alone.reset(token)


_alone: ContextVar[bool] = ContextVar("alone", default=False)


# ---- weighted Gram matrices -----------------------------------------------------------------------------------------------


@singledispatch
def weighted_gram(X: Any, W: Array) -> Array:
    """The information matrix H[(a, k), (b, l)] = sum_i X[i, a] W[i, k, l] X[i, b] (p m, p m) of coefficients B (p, m).

    X (n, p); W (n,) for m = 1 or (n, m, m), symmetric, minus the second derivatives in the linear predictor x_i'B. Rows
    and columns are in the order of B.ravel().

    >>> weighted_gram(np.array([[1.0, 2.0], [1.0, 3.0]]), np.array([1.0, 2.0]))
    array([[ 3.,  8.],
           [ 8., 22.]])
    """
    if W.ndim == 1 or W.shape[1] == 1:
        w = W.reshape(len(X))
        return sum_over_blocks(X, lambda rows, A: (_weighted_block(A, w[rows]),))[0]
    p = X.shape[1]
    m = W.shape[1]
    upper = list(zip(*np.triu_indices(m), strict=True))

    def block(rows: slice, A: Array) -> Sums:
        # The (k, c) block of H over a block of rows: sum_i x_i' W_i[k, c] x_i.
        return (np.stack([dot(A.T, A * W[rows, k, c, None]) for k, c in upper]),)

    H = np.empty((p, m, p, m))
    for (k, c), part in zip(upper, sum_over_blocks(X, block)[0], strict=True):
        H[:, k, :, c] = H[:, c, :, k] = (part + part.T) / 2
    return H.reshape(p * m, p * m)


def _weighted_block(A: Array, w: Array) -> Array:
    if w.min(initial=0) < 0:
        G = dot(A.T, A * w[:, None])
        return (G + G.T) / 2
    # A' diag(w) A = Z'Z with Z = diag(w)^(1/2) A: symmetric to the last bit, and half the work in BLAS.
    Z = A * np.sqrt(w)[:, None]
    return dot(Z.T, Z)
