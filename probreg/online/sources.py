"""Where rows come from: arrays, iterators of rows or of blocks, files read piece by piece. Every feed yields blocks."""

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from itertools import islice
from pathlib import Path as FilePath
from typing import Any

import numpy as np
from numpy.typing import ArrayLike

from probreg.arguments.arrays import floats
from probreg.arguments.scalars import Count, check_fields
from probreg.errors import DataError
from probreg.numerics.linalg import row_blocks
from probreg.online.parts import Array

Block = tuple[Array, Array]
ROWS = 4096  # rows of a generator that are taken together
READ = 65_536  # bytes of a file that are read together


@dataclass(frozen=True)
class Parquet:
    """A Parquet file as blocks (X, y) of rows, read piece by piece; it needs pyarrow.

    Parameters
    ----------
    path : str or Path
        The file.
    y : str
        The column of the response.
    columns : sequence of str, optional
        Those of X; every column but y without it.
    rows : int
        Of a block.
    trials : str, optional
        The column of the number of trials, whose successes y counts.
    """

    path: str | FilePath
    y: str
    columns: Sequence[str] | None = None
    rows: Count = 65_536
    trials: str | None = None

    def __post_init__(self) -> None:
        check_fields(self)

    def __iter__(self) -> Iterator[Block]:
        import pyarrow.parquet as pq

        # Left to itself it reads every group of rows ahead, and memory grows with the file.
        with pq.ParquetFile(self.path, pre_buffer=False, buffer_size=READ) as file:
            if self.trials is None:
                read = [self.y]
            else:
                read = [self.y, self.trials]
            names = list(
                self.columns or [c for c in file.schema_arrow.names if c not in read]
            )
            for batch in file.iter_batches(self.rows, columns=[*names, *read]):
                table = [
                    batch.column(c).to_numpy(zero_copy_only=False).astype(float)
                    for c in (*names, *read)
                ]
                if self.trials is None:
                    y = table[-1]
                else:
                    y = np.column_stack(table[-2:])
                yield np.column_stack(table[: len(names)]), y


@dataclass(frozen=True)
class CSV:
    """A text file with a header as blocks (X, y) of rows, read piece by piece.

    Parameters
    ----------
    path : str or Path
        The file.
    y : str
        The column of the response.
    columns : sequence of str, optional
        Those of X; every column but y without it.
    rows : int
        Of a block.
    trials : str, optional
        The column of the number of trials, whose successes y counts.
    """

    path: str | FilePath
    y: str
    columns: Sequence[str] | None = None
    rows: Count = 65_536
    trials: str | None = None

    def __post_init__(self) -> None:
        check_fields(self)

    def __iter__(self) -> Iterator[Block]:
        import pandas as pd

        with pd.read_csv(self.path, chunksize=self.rows) as chunks:
            for chunk in chunks:
                if self.trials is None:
                    read = [self.y]
                else:
                    read = [self.y, self.trials]
                names = list(self.columns or chunk.columns.drop(read))
                yield (
                    chunk[names].to_numpy(float),
                    chunk[self.y if self.trials is None else read].to_numpy(float),
                )


@dataclass(frozen=True, eq=False)
class Arrays:
    """X (n, p) and y (n,), or (n, 2) of successes and trials, held in memory, visited in blocks that end at multiples of `every` rounds of the run."""

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
        if self.shuffle is None:
            order = None
        else:
            order = np.random.default_rng([self.shuffle, k]).permutation(n)
        for rows in self._cuts(k * n):
            take: Any = rows if order is None else order[rows]
            yield self.X[take], self.y[take]

    def _cuts(self, before: int) -> Iterator[slice]:
        n = len(self.y)
        cap = row_blocks(len(self.y), self.X.shape[1])[0].stop
        size = -(
            -self.every // -(-self.every // max(cap, 1))
        )  # equal parts of `every` that stay in cache
        start = 0
        while start < n:
            left = self.every - (before + start) % self.every
            stop = min(start + min(size, left), n)
            yield slice(start, stop)
            start = stop


@dataclass(frozen=True, eq=False)
class RowStream:
    """An iterable of rows (x, y) or of blocks (X, y), gone through once for each pass and never held."""

    items: Iterable[Any]
    passes: int
    columns: tuple[str, ...] = ()

    def blocks(self, k: int) -> Iterator[Block]:
        items = iter(self.items)
        first = next(items, None)
        while first is not None:
            if np.ndim(_require_pair(first)[0]) == 2:
                yield _read_block(*first)
            else:
                rows = [first, *map(_require_pair, islice(items, ROWS - 1))]
                yield _read_block(_stack([x for x, _ in rows]), [y for _, y in rows])
            first = next(items, None)


def _require_pair(item: Any) -> Any:
    """Return a row (x, y) or a block (X, y) of a stream."""
    if not isinstance(item, tuple | list) or len(item) != 2:
        raise DataError(
            f"a stream is of rows (x, y) or blocks (X, y), met {type(item).__name__}: was y= forgotten?"
        )
    return item


def _stack(rows: list[Any]) -> Array:
    widths = [np.size(x) for x in rows]
    odd = [i for i, w in enumerate(widths) if w != widths[0]]
    if odd:
        raise DataError(
            f"row {odd[0]} of the stream has {widths[odd[0]]} values, the rows before it {widths[0]}"
        )
    return floats(rows, "X", copy=False)


def _read_block(X: ArrayLike, y: ArrayLike) -> Block:
    A = floats(X, "X", copy=False)
    b = floats(y, "y", copy=False)
    if A.ndim != 2 or b.shape not in ((len(A),), (len(A), 2)) or not A.shape[1]:
        raise DataError(
            f"X has shape {A.shape} and y {b.shape}: need (n, p), with one column or more, and (n,)"
        )
    return A, b


def _successes(y: ArrayLike, trials: ArrayLike) -> Array:
    """Rows (k, n), of successes y (n,) and trials (n,) or one number for all."""
    k = floats(y, "y", copy=False)
    n = floats(trials, "trials", copy=False)
    if k.ndim != 1 or n.shape not in ((), k.shape):
        raise DataError(
            f"y has shape {k.shape} and trials {n.shape}: need successes (n,) and their trials, (n,) or one number"
        )
    return np.stack(np.broadcast_arrays(k, n), -1)


def feed(
    X: Any, y: Any, trials: Any, passes: int, shuffle: int | None, every: int | None
) -> Arrays | RowStream:
    """Arrays when y is given, else the stream X."""
    if trials is not None and y is None:
        raise DataError(
            "trials= goes with arrays X and y. The rows of a stream bring theirs, (x, (k, n)) or blocks (X, y) with y (n, 2), and "
            "files name the column, Parquet(path, y, trials=...)"
        )
    if y is not None:
        A, b = _read_block(X, y if trials is None else _successes(y, trials))
        total = max(len(b) * passes, 1)
        names = tuple(str(c) for c in getattr(X, "columns", ()))
        return Arrays(A, b, passes, shuffle, every or -(-total // 100), names)
    if (
        not isinstance(X, Iterable)
        or isinstance(X, str | bytes)
        or (isinstance(X, np.ndarray) and not X.ndim)
    ):
        raise DataError(
            f"X is arrays with y=, or a stream of rows (x, y) or blocks (X, y), got {type(X).__name__}"
        )
    if shuffle is not None or (passes > 1 and iter(X) is X):
        raise DataError(
            "a stream that is read once cannot be shuffled or read again: give arrays, or a file"
        )
    if isinstance(X, Parquet | CSV) and X.columns:
        names = tuple(X.columns)
    else:
        names = ()
    return RowStream(X, passes, names)
