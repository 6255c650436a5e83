"""Rows that are read in blocks, from any iterator of blocks that can be restarted.

One thread reads the next block while others work on those before it, one block each. There are two blocks more in memory than
there are such threads, and an error or an interrupt ends the reader with the pass it was reading for.
"""

from collections import deque
from collections.abc import Callable, Generator, Iterable
from concurrent.futures import Future, ThreadPoolExecutor
from contextlib import closing
from contextvars import copy_context
from itertools import islice
from threading import Lock
from typing import Any

from probreg.data.blocks.block import Block
from probreg.linalg import limit_threads, one_blas_thread, threads
from probreg.system.progress import progress_bar


def one_pass(
    blocks: Iterable[Block], fn: Callable[[Block], Any], add: Callable[[Any, Any], Any], *,
    name: str, rows: int | None, progress: bool | None,
) -> tuple[Any, int]:  # fmt: skip
    """Return fn of every block, combined by `add` (None if there is no block), and the number of rows.

    `progress` shows a bar: None when the pass takes more than a second, at a terminal or in a notebook.
    """
    total, done = None, 0
    # kept for the whole pass, because two threads that set and reset the limit in turns would leave it set
    with (
        one_blas_thread(),
        progress_bar(f"{name}, rows", rows, show=progress) as bar,
        closing(ahead(blocks)) as parts,
    ):
        counted = (
            block for block in parts if block.rows
        )  # none if, for example, all rows have weight zero
        for part, count in beside_each_other(
            lambda block: (fn(block), block.rows), counted
        ):
            total = part if total is None else add(total, part)
            done += count
            bar.advance(count)
    return total, done


def beside_each_other[A, B](fn: Callable[[A], B], items: Iterable[A]) -> Generator[B]:
    """fn of the items in their order, each by one thread. Using several threads for one item would make the threads wait for each other.

    >>> list(beside_each_other(abs, iter([-1, 2, -3])))
    [1, 2, 3]
    """
    max_workers = 8  # one block each, which is in memory
    workers = min(threads(), max_workers)
    if workers == 1:
        yield from map(fn, items)
        return

    def alone(item: A) -> B:
        with limit_threads(1):
            return fn(item)

    with ThreadPoolExecutor(workers, "probreg-sums") as pool:
        working: deque[Future[B]] = deque()
        try:
            for item in items:
                if len(working) == workers:
                    yield working.popleft().result()
                working.append(pool.submit(copy_context().run, alone, item))
            while working:
                yield working.popleft().result()
        finally:
            for future in working:
                future.cancel()


def ahead[T](items: Iterable[T]) -> Generator[T]:
    """Yield the items, each made by a second thread while the item before it is in use.

    >>> list(ahead(iter("abc")))
    ['a', 'b', 'c']
    """
    iterator, context = (
        iter(items),
        copy_context(),
    )  # carries np.errstate and the limit of threads along
    turn = Lock()  # an interrupt in the start of a thread leaves the pool unaware of it, and it would start another one

    def following() -> list[T]:
        with turn:
            return context.run(list, islice(iterator, 1))

    def close() -> None:
        with turn:
            if isinstance(iterator, Generator):
                iterator.close()

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
            reader.submit(
                close
            ).result()  # a generator's open files are closed where it runs
