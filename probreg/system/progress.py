"""How far a long task has come: bars on stderr or in a notebook, from the second second on.

    with progress_bar("bootstrap", 999, show=None) as bar:
        for ... :
            bar.advance()

One thread draws the bars of the outermost task and of those within it, the outer ones on top, and ends with it. Which task
is open belongs to the context, so that bars in other threads of a pool, which have a context of their own, do not appear.
Without a terminal and without a notebook there is neither thread nor drawing.
"""

import html
import multiprocessing
import os
import sys
import threading
import time
from abc import ABC, abstractmethod
from collections import deque
from collections.abc import Callable, Iterable, Iterator, Sequence
from concurrent.futures import Future, ThreadPoolExecutor
from contextlib import contextmanager, suppress
from contextvars import ContextVar
from typing import Any

from probreg.system.terminal import visible

_QUIET = 1.0  # seconds that a task takes in silence
_EVERY = 0.1  # seconds between two drawings
_LOGGED = 5.0  # seconds between two lines where there is no terminal
_DEEP = 3  # bars at a time


class Task:
    """A loop of which so much is `done`; `total` is None where nobody knows it."""

    def __init__(
        self, name: str, total: int | None, display: "_Display | None"
    ) -> None:
        self.name, self.total, self.done = name, total, 0
        self.display = display
        self.start = time.monotonic()
        self._turn = threading.Lock()

    @property
    def shown(self) -> bool:
        """Whether there is somebody to show it to."""
        return self.display is not None

    def advance(self, by: int = 1) -> None:
        """So much more is done; any thread may say so."""
        with self._turn:
            self.done += by

    def over[T](self, items: Iterable[T]) -> Iterator[T]:
        """The items, counted as the next one is asked for.

        >>> with progress_bar("letters", 3, show=False) as bar:
        ...     print([x for x in bar.over("abc")], bar.done)
        ['a', 'b', 'c'] 3
        """
        for item in items:
            yield item
            self.advance()

    @property
    def words(self) -> str:
        """How much is done, for how long, and how long it may still take."""
        spent = time.monotonic() - self.start
        if self.total is None:
            part = f"{self.done:,}"
        else:
            part = f"{self.done:,} of {self.total:,}"
        remaining = ""
        if self.total and 0 < self.done < self.total:
            remaining = (
                f", about {_clock(spent * (self.total - self.done) / self.done)} left"
            )
        return f"{part}, {_clock(spent)}{remaining}"


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
    """A task, with a bar once it has run for a second.

    `show` None draws at a terminal or in a notebook, in the main thread of the main process, unless the environment has
    PROBREG_PROGRESS=0; True also writes lines where stderr is neither; False draws nothing, nor do the tasks within.
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
    """work(item) of every item, in `workers` threads (None: one per core), with a bar.

    An interrupt ends it with the items that are under way.

    >>> each_of(lambda x: x * x, [1, 2, 3], "squares", workers=2)
    [1, 4, 9]
    """
    if workers is None:
        threads = os.cpu_count() or 1
    else:
        threads = workers
    with progress_bar(name, len(items), show=show) as bar:
        if threads == 1:
            return list(bar.over(map(work, items)))
        with ThreadPoolExecutor(threads) as pool:
            try:
                waiting: deque[Future[B]] = (
                    deque()
                )  # few, for an interrupt has to take back what waits
                done: list[B] = []
                for item in items:
                    waiting.append(pool.submit(work, item))
                    if len(waiting) >= 8 * threads:
                        done.append(waiting.popleft().result())
                        bar.advance()
                return [*done, *bar.over(future.result() for future in waiting)]
            except BaseException:
                pool.shutdown(
                    wait=False, cancel_futures=True
                )  # leaving waits for what is under way
                raise


def _display_for(show: bool | None) -> "_Display | None":
    """Where the bars of an outermost task go, or nowhere."""
    elsewhere = (
        threading.current_thread() is not threading.main_thread()
        or multiprocessing.parent_process() is not None
    )
    if show is False or (
        show is None and (elsewhere or os.environ.get("PROBREG_PROGRESS") == "0")
    ):
        return None
    wait = _QUIET if show is None else 0.0
    if _in_notebook():
        return _Display(_Notebook, wait)
    if sys.stderr is not None and sys.stderr.isatty():
        return _Display(_Terminal, wait)
    return None if show is None else _Display(_Lines, wait)


def _in_notebook() -> bool:
    """IPython with a kernel behind it; a shell of IPython has none."""
    ipython = sys.modules.get("IPython")
    shell = None if ipython is None else ipython.get_ipython()
    return getattr(shell, "kernel", None) is not None


class _Drawing(ABC):
    """Where bars are drawn; made, used and ended in one thread."""

    @abstractmethod
    def draw(self, tasks: list[Task]) -> None:
        """The bars of these tasks in place of those before."""

    @abstractmethod
    def end(self, tasks: list[Task]) -> None:
        """Wipes them."""


class _Terminal(_Drawing):
    """Bars by rich, wiped at the end; what others write to stderr meanwhile appears above them."""

    def __init__(self) -> None:
        from rich.console import Console
        from rich.live import Live

        self.live = Live(
            console=Console(stderr=True),
            auto_refresh=False,
            transient=True,
            redirect_stdout=False,
            redirect_stderr=True,
        )
        self.live.start()

    def draw(self, tasks: list[Task]) -> None:
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

    def end(self, tasks: list[Task]) -> None:
        self.live.stop()


class _Notebook(_Drawing):
    """Bars of HTML in the output of the cell, which need no widgets."""

    def __init__(self) -> None:
        from IPython.display import HTML, display

        self.HTML = HTML
        self.handle: Any = display(HTML(""), display_id=True)

    def draw(self, tasks: list[Task]) -> None:
        self.handle.update(self.HTML("".join(map(_html_row, tasks))))

    def end(self, tasks: list[Task]) -> None:
        self.handle.update(self.HTML(""))


def _html_row(t: Task) -> str:
    if t.total is None:
        much = ""
    else:
        much = f' value="{t.done}" max="{t.total}"'
    return f"<div>{html.escape(visible(t.name))} <progress{much}></progress> {html.escape(t.words)}</div>"


class _Lines(_Drawing):
    """A line now and then, and one at the end, for a file or a pipe."""

    def __init__(self) -> None:
        self.last = time.monotonic()

    def draw(self, tasks: list[Task]) -> None:
        now = time.monotonic()
        if tasks and now - self.last >= _LOGGED:
            self.last = now
            self._write(tasks)

    def end(self, tasks: list[Task]) -> None:
        self._write(tasks)

    def _write(self, tasks: list[Task]) -> None:
        sys.stderr.write(
            "; ".join(f"{visible(t.name)}: {t.words}" for t in tasks) + "\n"
        )
        sys.stderr.flush()


class _Display:
    """The tasks that are open, outermost first, and the thread that draws them once `wait` seconds are over."""

    def __init__(self, drawing: type[_Drawing], wait: float) -> None:
        self.drawing, self.wait = drawing, wait
        self.tasks: list[Task] = []
        self.first: Task | None = None
        self.ended = threading.Event()
        self.thread = threading.Thread(
            target=self._run, name="probreg-progress", daemon=True
        )

    def open(self, task: Task) -> None:
        """A task begins; the first starts the thread."""
        self.tasks = [*self.tasks, task]
        if self.first is None:
            self.first = task
            self.thread.start()

    def close(self, task: Task) -> None:
        """A task has ended; the first takes all that is drawn with it."""
        self.tasks = [t for t in self.tasks if t is not task]
        if task is self.first:
            self.ended.set()
            if self.thread.ident is not None:
                self.thread.join()

    def _run(self) -> None:
        if self.wait and self.ended.wait(self.wait):
            return
        with suppress(
            OSError, ValueError
        ):  # the terminal is gone, or stderr was closed
            drawing = self.drawing()
            try:
                while not self.ended.is_set():
                    drawing.draw(self._lasting_tasks())
                    self.ended.wait(_EVERY)
            finally:
                drawing.end([t for t in [self.first] if t is not None])

    def _lasting_tasks(self) -> list[Task]:
        """Return the tasks that have run for a second; shorter ones would only flicker."""
        now = time.monotonic()
        return [t for t in self.tasks if t is self.first or now - t.start > _QUIET][
            :_DEEP
        ]
