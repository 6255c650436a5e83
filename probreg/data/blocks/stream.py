"""Read the next block of rows in a second thread, while the block before it is in use."""

from collections.abc import Generator, Iterable
from concurrent.futures import Future, ThreadPoolExecutor
from contextvars import copy_context
from itertools import islice
from threading import Lock


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

    def next_item() -> list[T]:
        with turn:
            return context.run(list, islice(iterator, 1))

    def close() -> None:
        with turn:
            if isinstance(iterator, Generator):
                iterator.close()

    with ThreadPoolExecutor(1, "probreg-rows") as reader:
        waiting: Future[list[T]] | None = None
        try:
            waiting = reader.submit(next_item)
            while item := waiting.result():
                waiting = reader.submit(next_item)
                yield item[0]
        finally:
            if waiting is not None:
                waiting.cancel()
            reader.submit(
                close
            ).result()  # a generator's open files are closed where it runs
