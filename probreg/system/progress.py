"""Progress bars of long tasks, on stderr or in a notebook, shown after the first second.

    with progress_bar("bootstrap", 999, show=None) as bar:
        for ... :
            bar.advance()

One thread draws the bars of the outermost task and of its subtasks, with outer ones on top, and ends with that task. The open
task belongs to the context; other threads of a pool have their own context, so that their bars do not appear.
Without a terminal and without a notebook there is no thread and no drawing.
"""

import html
import multiprocessing
import os
import sys
import threading
import time
from collections.abc import Callable, Iterable, Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager, suppress
from contextvars import ContextVar
from typing import Any

from probreg.system.terminal import visible

_QUIET = 1.0  # seconds before a bar appears


class Task:
    """A loop with `done` finished steps; `total` is None if it is not known."""

    def __init__(
        self, name: str, total: int | None, display: "_Display | None"
    ) -> None:
        self.name, self.total, self.done = name, total, 0
        self.display = display
        self.start = time.monotonic()
        self._turn = threading.Lock()

    def advance(self, by: int = 1) -> None:
        """Add finished steps; any thread may call this."""
        with self._turn:
            self.done += by

    def over[T](self, items: Iterable[T]) -> Iterator[T]:
        """Iterate over the items, and count one when the next is requested.

        >>> with progress_bar("letters", 3, show=False) as bar:
        ...     print([x for x in bar.over("abc")], bar.done)
        ['a', 'b', 'c'] 3
        """
        for item in items:
            yield item
            self.advance()

    @property
    def words(self) -> str:
        """Return the finished share, the elapsed time and the estimated remaining time."""
        spent = time.monotonic() - self.start
        if self.total is None:
            part = f"{self.done:,}, " if self.done else ""
        else:
            part = f"{self.done:,} of {self.total:,}, "
        remaining = ""
        if self.total and 0 < self.done < self.total:
            remaining = (
                f", about {_clock(spent * (self.total - self.done) / self.done)} left"
            )
        return f"{part}{_clock(spent)}{remaining}"


def _clock(seconds: float) -> str:
    minutes, rest_seconds = divmod(round(seconds), 60)
    if not minutes:
        return f"{rest_seconds} s"
    return f"{minutes} min {rest_seconds} s"


_CURRENT: ContextVar[Task | None] = ContextVar("task", default=None)


@contextmanager
def progress_bar(
    name: str, total: int | None = None, *, show: bool | None = None
) -> Iterator[Task]:
    """Open a task, with a bar once it has run for a second.

    `show=None` draws at a terminal or in a notebook, in the main thread of the main process, unless the environment has
    PROBREG_PROGRESS=0; True also writes lines if stderr is neither; False draws nothing, also for subtasks.
    """
    outer = _CURRENT.get()
    token = None
    if outer is not None:
        display = outer.display if show is not False else None
    else:
        display = _display_for(show)
    task = Task(name, total, display)
    try:
        token = _CURRENT.set(task)
        if display is not None:
            display.open(task)
        yield task
    finally:
        if token is not None:
            _CURRENT.reset(token)
        if display is not None:
            display.close(task)


def each_of[A, B](
    work: Callable[[A], B],
    items: Sequence[A],
    name: str,
    *,
    workers: int | None = 1,
    show: bool | None = None,
) -> list[B]:
    """Return work(item) for each item, computed in `workers` threads (None: one per core), with a progress bar.

    After an interrupt, only the items in progress are finished.

    >>> each_of(lambda x: x * x, [1, 2, 3], "squares", workers=2)
    [1, 4, 9]
    """
    threads = workers or os.cpu_count() or 1
    with progress_bar(name, len(items), show=show) as bar:
        if threads == 1:
            return list(bar.over(map(work, items)))
        with ThreadPoolExecutor(threads) as pool:
            try:
                return list(bar.over(pool.map(work, items)))
            except BaseException:
                pool.shutdown(
                    wait=False, cancel_futures=True
                )  # leaving the pool waits for the items in progress
                raise


def _display_for(show: bool | None) -> "_Display | None":
    """Return the display for the bars of an outermost task, or None."""
    elsewhere = (
        threading.current_thread() is not threading.main_thread()
        or multiprocessing.parent_process() is not None
    )
    if show is False or (
        show is None and (elsewhere or os.environ.get("PROBREG_PROGRESS") == "0")
    ):
        return None
    wait = _QUIET if show is None else 0.0
    # an IPython shell without a kernel is a terminal
    ipython = sys.modules.get("IPython")
    shell = None if ipython is None else ipython.get_ipython()
    if getattr(shell, "kernel", None) is not None:
        return _Display(_Notebook, wait)
    if show or (sys.stderr is not None and sys.stderr.isatty()):
        return _Display(_Terminal, wait)
    return None


class _Terminal:
    """Bars by rich, removed at the end; other output to stderr appears above them. A file or a pipe has the last bars only."""

    def __init__(self) -> None:
        from rich.console import Console
        from rich.live import Live

        console = Console(stderr=True)
        self.live = Live(
            console=console,
            auto_refresh=False,
            transient=console.is_terminal,
            redirect_stdout=False,
            redirect_stderr=True,
        )
        self.live.start()

    def draw(self, tasks: list[Task]) -> None:
        """Draw the bars of these tasks, replacing the previous ones."""
        from rich.progress_bar import ProgressBar
        from rich.table import Table
        from rich.text import Text

        grid = Table.grid(padding=(0, 1))
        for t in tasks:
            bar = ProgressBar(
                total=t.total, completed=t.done, width=20, pulse=t.total is None
            )
            grid.add_row(
                Text(visible(t.name), no_wrap=True), bar, Text(t.words, no_wrap=True)
            )
        self.live.update(grid, refresh=True)

    def end(self) -> None:
        """Remove the bars."""
        self.live.stop()


class _Notebook:
    """Bars of HTML in the output of the cell, without widgets."""

    def __init__(self) -> None:
        from IPython.display import HTML, display

        self.HTML = HTML
        self.handle: Any = display(HTML(""), display_id=True)

    def draw(self, tasks: list[Task]) -> None:
        self.handle.update(self.HTML("".join(map(_html_row, tasks))))

    def end(self) -> None:
        self.handle.update(self.HTML(""))


def _html_row(t: Task) -> str:
    if t.total is None:
        much = ""
    else:
        much = f' value="{t.done}" max="{t.total}"'
    return f"<div>{html.escape(visible(t.name))} <progress{much}></progress> {html.escape(t.words)}</div>"


class _Display:
    """The open tasks, outermost first, and the thread that draws them after `wait` seconds."""

    def __init__(self, drawing: type[_Terminal | _Notebook], wait: float) -> None:
        self.drawing, self.wait = drawing, wait
        self.tasks: list[Task] = []
        self.first: Task | None = None
        self.ended = threading.Event()
        self.thread = threading.Thread(
            target=self._run, name="probreg-progress", daemon=True
        )

    def open(self, task: Task) -> None:
        """Add a task; the first one starts the thread."""
        self.tasks = [*self.tasks, task]
        if self.first is None:
            self.first = task
            self.thread.start()

    def close(self, task: Task) -> None:
        """Remove a task; closing the first one ends the drawing."""
        self.tasks = [t for t in self.tasks if t is not task]
        if task is self.first:
            self.ended.set()
            if self.thread.ident is not None:
                self.thread.join()

    def _run(self) -> None:
        seconds = 0.1  # between two drawings
        if self.wait and self.ended.wait(self.wait):
            return
        with suppress(OSError, ValueError):  # the terminal or stderr was closed
            drawing = self.drawing()
            try:
                drawing.draw(self._lasting_tasks())
                while not self.ended.wait(seconds):
                    drawing.draw(self._lasting_tasks())
            finally:
                drawing.draw([t for t in [self.first] if t is not None])
                drawing.end()

    def _lasting_tasks(self) -> list[Task]:
        """Return the tasks that have run for a second; shorter ones would only flicker."""
        max_bars = 3
        now = time.monotonic()
        tasks = [t for t in self.tasks if t is self.first or now - t.start > _QUIET]
        return tasks[:max_bars]
