"""Blocks of rows from arrays, or from an iterable of rows or of blocks."""

from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from itertools import islice
from typing import Any

import numpy as np
from numpy.typing import ArrayLike

from probreg.arguments.arrays import floats
from probreg.errors import DataError
from probreg.linalg import row_blocks
from probreg.online.rounds import pass_order
from probreg.online.updates import Array

Block = tuple[Array, Array]


@dataclass(frozen=True, eq=False)
class Arrays:
    """X (n, p) and y (n,) as blocks that end at multiples of `every` rounds of the run."""

    X: Array
    y: Array
    passes: int
    shuffle: int | None
    every: int
    columns: tuple[str, ...] = ()

    @property
    def rounds(self) -> int:
        return len(self.y) * self.passes

    def blocks(self, k: int) -> Iterator[Block]:
        n = len(self.y)
        order = None if self.shuffle is None else pass_order(n, self.shuffle, k)
        for rows in self._cuts(k * n):
            index: Any = rows if order is None else order[rows]
            yield self.X[index], self.y[index]

    def _cuts(self, n_before: int) -> Iterator[slice]:
        n = len(self.y)
        cache_rows = max(row_blocks(n, self.X.shape[1])[0].stop, 1)
        # equal parts of `every` that stay in cache
        size = -(-self.every // -(-self.every // cache_rows))
        start = 0
        while start < n:
            remaining = self.every - (n_before + start) % self.every
            stop = min(start + min(size, remaining), n)
            yield slice(start, stop)
            start = stop


@dataclass(frozen=True, eq=False)
class RowStream:
    """An iterable of rows (x, y) or of blocks (X, y), read once for each pass and never held in memory."""

    items: Iterable[Any]
    columns: tuple[str, ...] = ()

    def blocks(self, k: int) -> Iterator[Block]:
        items = iter(self.items)
        first = next(items, None)
        while first is not None:
            if np.ndim(_require_pair(first)[0]) == 2:
                yield _checked_block(*first)
            else:
                # single rows of a stream that form a block
                pairs = [first, *map(_require_pair, islice(items, 4096 - 1))]
                yield _checked_block(
                    _stack([x for x, _ in pairs]), [y for _, y in pairs]
                )
            first = next(items, None)


def _require_pair(item: Any) -> Any:
    """Return a row (x, y) or a block (X, y) of a stream."""
    if not isinstance(item, tuple | list) or len(item) != 2:
        raise DataError(
            f"the stream yields {type(item).__name__}: expected rows (x, y) or blocks (X, y). Did you forget y=?"
        )
    return item


def _stack(rows: list[Any]) -> Array:
    for i, row in enumerate(rows):
        if np.size(row) != np.size(rows[0]):
            raise DataError(
                f"row {i} of the stream has {np.size(row)} values, the rows before it {np.size(rows[0])}"
            )
    return floats(rows, "X", copy=False)


def _checked_block(X: ArrayLike, y: ArrayLike) -> Block:
    A = floats(X, "X", copy=False)
    b = floats(y, "y", copy=False)
    if A.ndim != 2 or b.shape != (len(A),) or not A.shape[1]:
        raise DataError(
            f"X has shape {A.shape} and y {b.shape}: expected (n, p) with p >= 1, and (n,)"
        )
    return A, b


def as_source(
    X: Any, y: Any, passes: int, shuffle: int | None, interval: int | None
) -> Arrays | RowStream:
    """Return Arrays if y is given, else the stream X."""
    if y is not None:
        A, b = _checked_block(X, y)
        total = max(len(b) * passes, 1)
        names = tuple(str(c) for c in getattr(X, "columns", ()))
        return Arrays(A, b, passes, shuffle, interval or -(-total // 100), names)
    if (
        not isinstance(X, Iterable)
        or isinstance(X, str | bytes)
        or (isinstance(X, np.ndarray) and not X.ndim)
    ):
        raise DataError(
            f"X is {type(X).__name__}: expected arrays X and y, or a stream of rows (x, y) or blocks (X, y)"
        )
    if shuffle is not None or (passes > 1 and iter(X) is X):
        raise DataError(
            "an iterator cannot be shuffled or read twice: pass arrays, or an iterable that can be read again"
        )
    return RowStream(X)
