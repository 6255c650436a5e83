"""Parallel work in processes that end together with the main process."""

import multiprocessing
import signal
from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import ProcessPoolExecutor
from contextlib import contextmanager
from typing import Any

from probreg.system.terminal import each_of, progress_bar


def in_processes[A, B](
    work: Callable[[A], B],
    items: Sequence[A],
    name: str,
    *,
    workers: int = 1,
    show: bool | None = None,
) -> list[B]:
    """Return work(item) for each item, computed here or in several processes, with a progress bar.

    An interrupt goes to this process only, which then ends the others at once.

    >>> in_processes(abs, [1, -2], "sizes")
    [1, 2]
    """
    if workers == 1:
        return each_of(work, items, name, show=show)
    before = set(multiprocessing.active_children())
    spawn = multiprocessing.get_context("spawn")
    with (
        progress_bar(name, len(items), show=show) as bar,
        ProcessPoolExecutor(workers, mp_context=spawn, initializer=_deaf) as pool,
    ):
        try:
            with _children_deaf():
                results: Any = pool.map(
                    work, items, chunksize=min(max(1, len(items) // (8 * workers)), 100)
                )
            return list(bar.over(results))
        except BaseException:
            for child in set(multiprocessing.active_children()) - before:
                child.terminate()
            raise


def _deaf() -> None:
    """Ignore Ctrl-C, which a terminal sends to every process; the main process ends the others."""
    signal.signal(signal.SIGINT, signal.SIG_IGN)


@contextmanager
def _children_deaf() -> Iterator[None]:
    """Block interrupts from the start in processes that are created inside this context, if the system supports it."""
    if not hasattr(signal, "pthread_sigmask"):
        yield
        return
    before = signal.pthread_sigmask(signal.SIG_BLOCK, {signal.SIGINT})
    try:
        yield
    finally:
        signal.pthread_sigmask(signal.SIG_SETMASK, before)
