"""Where rows come from: arrays, iterators of rows or of blocks, files read piece by piece. Every feed yields blocks."""

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from itertools import islice
from pathlib import Path as FilePath
from typing import Any

import numpy as np
from numpy.typing import ArrayLike

from probreg.errors import DataError
from probreg.linalg import row_blocks
from probreg.online.parts import Array

Block = tuple[Array, Array]
ROWS = 4096  # rows of a generator that are taken together
READ = 65_536  # bytes of a file that are read together


@dataclass(frozen=True)
class Parquet:
    """A Parquet file as blocks (X, y) of `rows` rows; X are `columns`, or every column but `y`. Needs pyarrow."""

    path: str | FilePath
    y: str
    columns: Sequence[str] | None = None
    rows: int = 65_536

    def __iter__(self) -> Iterator[Block]:
        import pyarrow.parquet as pq

        # Left to itself it reads every group of rows ahead, and memory grows with the file.
        with pq.ParquetFile(self.path, pre_buffer=False, buffer_size=READ) as file:
            names = list(self.columns or [c for c in file.schema_arrow.names if c != self.y])
            for batch in file.iter_batches(self.rows, columns=[*names, self.y]):
                table = [batch.column(c).to_numpy(zero_copy_only=False) for c in (*names, self.y)]
                yield np.column_stack(table[:-1]).astype(float), table[-1].astype(float)


@dataclass(frozen=True)
class CSV:
    """A text file with a header as blocks (X, y) of `rows` rows; X are `columns`, or every column but `y`."""

    path: str | FilePath
    y: str
    columns: Sequence[str] | None = None
    rows: int = 65_536

    def __iter__(self) -> Iterator[Block]:
        import pandas as pd

        with pd.read_csv(self.path, chunksize=self.rows) as chunks:
            for chunk in chunks:
                names = list(self.columns or chunk.columns.drop(self.y))
                yield chunk[names].to_numpy(float), chunk[self.y].to_numpy(float)


@dataclass(frozen=True, eq=False)
class Arrays:
    """X (n, p) and y (n,) held in memory, visited in blocks that end at multiples of `every` rounds of the run."""

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
        order = None if self.shuffle is None else np.random.default_rng([self.shuffle, k]).permutation(n)
        for rows in self._cuts(k * n):
            take: Any = rows if order is None else order[rows]
            yield self.X[take], self.y[take]

    def _cuts(self, before: int) -> Iterator[slice]:
        n, cap = len(self.y), row_blocks(len(self.y), self.X.shape[1])[0].stop
        size = -(-self.every // -(-self.every // max(cap, 1)))  # equal parts of `every` that stay in cache
        start = 0
        while start < n:
            left = self.every - (before + start) % self.every
            stop = min(start + min(size, left), n)
            yield slice(start, stop)
            start = stop


@dataclass(frozen=True, eq=False)
class Stream:
    """An iterable of rows (x, y) or of blocks (X, y), gone through once for each pass and never held."""

    items: Iterable[Any]
    passes: int
    columns: tuple[str, ...] = ()

    def blocks(self, k: int) -> Iterator[Block]:
        items = iter(self.items)
        first = next(items, None)
        while first is not None:
            if np.ndim(first[0]) == 2:
                yield _block(*first)
            else:
                rows = [first, *islice(items, ROWS - 1)]
                yield _block(_stack([x for x, _ in rows]), [y for _, y in rows])
            first = next(items, None)


def _stack(rows: list[Any]) -> Array:
    widths = [np.size(x) for x in rows]
    if odd := [i for i, w in enumerate(widths) if w != widths[0]]:
        raise DataError(f"row {odd[0]} of the stream has {widths[odd[0]]} values, the rows before it {widths[0]}")
    return np.array(rows, dtype=float)


def _block(X: ArrayLike, y: ArrayLike) -> Block:
    A, b = np.asarray(X, dtype=float), np.asarray(y, dtype=float)
    if A.ndim != 2 or b.shape != (len(A),):
        raise DataError(f"X has shape {A.shape} and y {b.shape}: need (n, p) and (n,)")
    return A, b


def feed(X: Any, y: Any, passes: int, shuffle: int | None, every: int | None) -> Arrays | Stream:
    """Arrays when y is given, else the stream X."""
    if passes < 1:
        raise DataError(f"passes is {passes}: need at least one")
    if y is not None:
        A, b = _block(X, y)
        total = max(len(b) * passes, 1)
        names = tuple(str(c) for c in getattr(X, "columns", ()))
        return Arrays(A, b, passes, shuffle, every or -(-total // 100), names)
    if shuffle is not None or (passes > 1 and iter(X) is X):
        raise DataError("a stream that is read once cannot be shuffled or read again: give arrays, or a file")
    names = tuple(X.columns) if isinstance(X, Parquet | CSV) and X.columns else ()
    return Stream(X, passes, names)
