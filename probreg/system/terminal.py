"""Text for a terminal, with control characters in names made harmless, and progress bars of long tasks.

Names come from data. An escape sequence in a name could clear the screen or hide a line, and a line break could forge a line.
All printed text is assembled here line by line, with control characters written as escapes.

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
import unicodedata
from collections.abc import Callable, Iterable, Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager, suppress
from contextvars import ContextVar
from itertools import accumulate
from typing import Any

from rich.cells import cell_len, chop_cells

WIDTH = 110  # width of printed text in characters

_HIDDEN = {
    "Cc",
    "Cs",
    "Zl",
    "Zp",
}  # control characters, surrogates, line and paragraph separators
# they change the direction of the text
_TURNING = set("\u202a\u202b\u202c\u202d\u202e\u2066\u2067\u2068\u2069")


def visible(text: str) -> str:
    r"""Return text as one line, with every control character written as an escape.

    >>> print(visible("a\x1b[31mb\nc é"))
    a\x1b[31mb\nc é
    """
    if text.isprintable():
        return text
    obeyed = (unicodedata.category(c) in _HIDDEN or c in _TURNING for c in text)
    return "".join(
        c.encode("unicode_escape").decode("ascii") if yes else c
        for c, yes in zip(text, obeyed)
    )


def clean_lines(*lines: str) -> str:
    r"""Join lines into one text; escape control characters and wrap at WIDTH.

    >>> clean_lines("head", "a\tb")
    'head\na\\tb'
    """
    return "\n".join([part for line in lines for part in wrap_line(visible(line))])


def wrap_line(line: str, width: int = WIDTH) -> list[str]:
    """Wrap a line to at most `width` columns, with continuation lines indented.

    >>> wrap_line("  one two three", 12)
    ['  one two', '      three']
    """
    if cell_len(line) <= width:
        return [line]
    indent = line[: len(line) - len(line.lstrip(" "))]
    lines = [""]
    for word in line.removeprefix(indent).split(" "):
        for part in chop_cells(word, width - len(indent) - 4) or [""]:
            longer = f"{lines[-1]} {part}" if lines[-1] else f"{indent}{part}"
            if cell_len(longer) <= width:
                lines[-1] = longer
            else:
                lines.append(f"{indent}    {part}")
    return [part.rstrip() for part in lines]


def cut_middle(text: str, width: int) -> str:
    """Shorten text to at most `width` cells, keeping both ends.

    >>> cut_middle("occupation[T.clerk]", 11), cut_middle("short", 11)
    ('occup…lerk]', 'short')
    """
    if cell_len(text) <= width:
        return text
    head = text[:width]
    tail = text[-width:]
    while cell_len(head) + cell_len(tail) >= width:
        if cell_len(head) < cell_len(tail):
            tail = tail[1:]
        else:
            head = head[:-1]
    return f"{head}…{tail}"


def truncate_lines(lines: Sequence[str], attribute: str, limit: int = 25) -> list[str]:
    """Keep `limit` printed lines, and end with a line that gives the number of the others and how to see them.

    >>> truncate_lines(["a", "b", "c", "d"], ".table", limit=3)
    ['a', 'b', '… 2 more in .table']
    """
    ends = list(accumulate(len(wrap_line(visible(line))) for line in lines))
    if not ends or ends[-1] <= limit:
        return list(lines)
    n_lines = max(sum(end < limit for end in ends), 1)
    if n_lines < len(lines):
        return [*lines[:n_lines], f"… {len(lines) - n_lines} more in {attribute}"]
    return list(lines)


def cut_text(text: str, limit: int = 160) -> str:
    """Cut text at the last comma or semicolon before `limit` characters, and mark the cut.

    >>> cut_text("columns a, b, c and d", 14), cut_text("short")
    ('columns a, b, …', 'short')
    """
    if len(text) <= limit:
        return text
    end = max(text.rfind(sign, 0, limit) for sign in (", ", "; "))
    return f"{text[: end + 1] if end > 0 else text[:limit]} …"


def percent(share: float, digits: int = 3) -> str:
    """Format a share in percent with this number of digits; a share below 1 is never written as 100 %.

    >>> percent(0.2514), percent(1.0), percent(0.99999), percent(4e-7), percent(1.5)
    ('25.1 %', '100 %', 'over 99.9 %', '4e-05 %', '150 %')
    """
    if share < 1.0 and float(f"{100.0 * share:.{digits}g}") >= 100.0:
        return f"over {100.0 - 10.0 ** (2 - digits):g} %"
    if share >= 1.0:
        return f"{100.0 * share:.0f} %"
    return f"{100.0 * share:.{digits}g} %"


def format_probability(p: float) -> str:
    """Format a probability to three places, never as 0 or 1, which draws cannot distinguish; "" for nan.

    >>> format_probability(0.9995), format_probability(0.5), format_probability(0.0), format_probability(float("nan"))
    ('>0.999', '0.500', '<0.001', '')
    """
    text = "" if p != p else f"{p:.3f}"
    return {"1.000": ">0.999", "0.000": "<0.001"}.get(text, text)


def format_number(value: float, digits: int = 5) -> str:
    """Format a number to this number of significant digits; integer digits are kept, and from 10^15 on it uses powers of ten.

    >>> format_number(84925.04), format_number(124859.18), format_number(99999.7), format_number(0.0123456), format_number(-62419.6, 3)
    ('84925', '124859', '100000', '0.012346', '-62420')
    """
    if 10.0**digits - 0.5 <= abs(value) < 1e15:
        return f"{value:.0f}"
    return f"{value:.{digits}g}"


def format_p(p: float) -> str:
    """Format a p-value to two digits; only exactly 1 is written as 1, and values below 1e-15 as a bound.

    >>> format_p(0.0123), format_p(0.998), format_p(1.0), format_p(0.0), format_p(3e-40)
    ('p = 0.012', 'p > 0.99', 'p = 1', 'p < 1e-15', 'p < 1e-15')
    """
    if p < 1e-15:
        return "p < 1e-15"
    return "p > 0.99" if 0.995 <= p < 1.0 else f"p = {p:.2g}"


def few_names(names: Sequence[object]) -> str:
    """List names in a sentence; of more than twelve only the first five.

    >>> few_names("ab"), few_names([f"x{j}" for j in range(40)])
    ('a, b', 'x0, x1, x2, x3, x4 and 35 more')
    """
    if len(names) <= 12:
        return ", ".join(map(str, names))
    return f"{few_names(names[:5])} and {len(names) - 5} more"


def shorten_names(names: Iterable[str], limit: int = 8) -> str:
    """Return names as a list in a sentence, of many names the first.

    >>> shorten_names(["x", "z"]), shorten_names(f"x{j}" for j in range(10))
    ('x, z', 'x0, x1, x2, x3, x4, x5, x6, x7 and 2 more')
    """
    listed = list(names)
    omitted = len(listed) - limit
    return ", ".join(listed[:limit]) + (f" and {omitted} more" if omitted > 0 else "")


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
                # leaving the pool waits for the items in progress
                pool.shutdown(wait=False, cancel_futures=True)
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
