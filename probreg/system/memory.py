"""The memory of this machine, sizes as text, and interrupts while libraries run many destructors."""

import math
import os
import signal
import threading
from types import FrameType, TracebackType
from typing import Any, Self


def physical_memory() -> int | None:
    """Return the bytes of memory of the machine; None if the system does not report it."""
    try:
        return os.sysconf("SC_PAGE_SIZE") * os.sysconf("SC_PHYS_PAGES")
    except (AttributeError, OSError, ValueError):  # no sysconf, or none of these names
        return None


def in_bytes(size: float) -> str:
    """Format a number of bytes.

    >>> in_bytes(2_400_000), in_bytes(8e11)
    ('2.4 MB', '800 GB')
    """
    units = ("bytes", "kB", "MB", "GB", "TB")
    step = min(int(math.log10(max(size, 1))) // 3, len(units) - 1)
    return f"{size / 1000**step:.3g} {units[step]}"


class Interrupts:
    """A context that raises interrupts as usual and records them; on exit it raises an interrupt that Python has lost.

    Python prints and drops an exception in a destructor or in a callback of the garbage collector. The context replaces
    Python's own handler only, and only in the main thread, where Python handles signals.
    """

    def __init__(self) -> None:
        self.met = False
        self._before: Any = None

    def __enter__(self) -> Self:
        main = threading.current_thread() is threading.main_thread()
        if main and signal.getsignal(signal.SIGINT) is signal.default_int_handler:
            self._before = signal.signal(signal.SIGINT, self._handle)
        return self

    def _handle(self, number: int, frame: FrameType | None) -> None:
        self.met = True
        signal.default_int_handler(number, frame)

    def check(self) -> None:
        """Raise KeyboardInterrupt if there was one."""
        if self.met:
            raise KeyboardInterrupt

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        if self._before is not None:
            signal.signal(signal.SIGINT, self._before)
        if error is None:
            self.check()
