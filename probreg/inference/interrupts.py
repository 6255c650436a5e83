"""Ctrl-C is not lost: an interrupt in a destructor or a callback of the collector is printed by Python and forgotten."""

import signal
import threading
from types import FrameType, TracebackType
from typing import Any, Self


class Interrupts:
    """While it is open, an interrupt is raised as ever and also kept, so that what waits can look for one.

    Only in the main thread, where Python handles signals, and only in the place of Python's own handler: another one, and
    an interrupt that is ignored, stay as they are. Closing raises what was lost.
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
        """KeyboardInterrupt when there was one."""
        if self.met:
            raise KeyboardInterrupt

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        if self._before is not None:
            signal.signal(signal.SIGINT, self._before)
        if error is None:
            self.check()
