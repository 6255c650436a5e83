"""Rows that are read by the block, from wherever an iterator of blocks can be started anew.

The next block is read while the one before it is worked on; two blocks are in memory at a time, and an error or an
interrupt ends the reader with the pass it was reading for.
"""

import sys
import time
from collections.abc import Callable, Generator, Iterable
from concurrent.futures import Future, ThreadPoolExecutor
from contextlib import closing
from contextvars import copy_context
from dataclasses import dataclass
from itertools import islice
from threading import Lock
from typing import Any

from probreg.data.blocks.block import Block
from probreg.errors import DataError
from probreg.numerics.linalg import one_blas_thread

_QUIET = 1.0  # seconds that a pass takes in silence
_EVERY = 0.2  # seconds between two lines


@dataclass(frozen=True, eq=False)
class BlockStream:
    """A `RowSource` of blocks: calling `blocks` starts a pass over the same rows in the same order.

    `progress` writes a line per pass to stderr: None when it takes more than a second and stderr is a terminal.
    """

    blocks: Callable[[], Iterable[Block]]
    n: int
    weight: float
    sample: Block
    name: str
    progress: bool | None = None

    def fold(self, fn: Callable[[Block], Any], add: Callable[[Any, Any], Any]) -> Any:
        """One pass. DataError when the rows are not as many as they were: they changed since the model was made."""
        total, rows = one_pass(self.blocks, fn, add, name=self.name, rows=self.n, progress=self.progress)
        if rows != self.n:
            raise DataError(f"{self.name} held {self.n} rows when the model was made and holds {rows} now")
        return total


def one_pass(
    blocks: Callable[[], Iterable[Block]], fn: Callable[[Block], Any], add: Callable[[Any, Any], Any], *,
    name: str, rows: int | None, progress: bool | None,
) -> tuple[Any, int]:  # fmt: skip
    """fn of every block, put together by `add` (None when there is no block), and the number of rows."""
    total, done = None, 0
    # held for the whole pass: two threads that set and reset the limit in turns would leave it set
    with one_blas_thread(), Progress(name, rows, progress) as line, closing(ahead(blocks())) as parts:
        for block in parts:
            if not block.rows:  # all of weight zero, say
                continue
            part = fn(block)
            total = part if total is None else add(total, part)
            done += block.rows
            line.at(done)
    return total, done


def ahead[T](items: Iterable[T]) -> Generator[T]:
    """The items, each made by a second thread while the one before it is in use.

    >>> list(ahead(iter("abc")))
    ['a', 'b', 'c']
    """
    made, context = iter(items), copy_context()  # carries np.errstate and the limit of threads along
    turn = Lock()  # an interrupt in the start of a thread leaves the pool unaware of it, and it would start another one

    def following() -> list[T]:
        with turn:
            return context.run(list, islice(made, 1))

    def close() -> None:
        with turn:
            if isinstance(made, Generator):
                made.close()

    with ThreadPoolExecutor(1, "probreg-rows") as reader:
        waiting: Future[list[T]] | None = None
        try:
            waiting = reader.submit(following)
            while item := waiting.result():
                waiting = reader.submit(following)
                yield item[0]
        finally:
            if waiting is not None:
                waiting.cancel()
            reader.submit(close).result()  # a generator's open files are closed where it runs


class Progress:
    """A line on stderr that says how far a pass has come, and is wiped when it ends."""

    def __init__(self, name: str, rows: int | None, show: bool | None) -> None:
        self.name, self.rows = name, rows
        self.show = sys.stderr.isatty() if show is None else show
        self.start = self.last = time.monotonic()
        self.after = _QUIET if show is None else 0.0
        self.width = 0

    def __enter__(self) -> "Progress":
        return self

    def at(self, rows: int) -> None:
        """So many rows are done."""
        now = time.monotonic()
        if not self.show or now - self.start < self.after or (now - self.last < _EVERY and self.width):
            return
        self.last = now
        part = f"{rows:,} rows" if not self.rows else f"{100 * rows // self.rows} % of {self.rows:,} rows"
        self._write(f"{self.name}: {part}, {now - self.start:.1f} s")

    def _write(self, text: str) -> None:
        sys.stderr.write("\r" + text.ljust(self.width))
        sys.stderr.flush()
        self.width = len(text)

    def __exit__(self, *error: object) -> None:
        if self.width:
            self._write("")
            sys.stderr.write("\r")
            sys.stderr.flush()
