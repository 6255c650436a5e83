"""Machine code kept on disk between processes, and recompiled if a file of it cannot be read.

numba does not check whether its index and its code are complete: one file truncated by a crash or a full disk
would break every later process. This module treats a damaged file as missing and overwrites it.
"""

from collections.abc import Callable
from contextlib import suppress
from typing import Any

from numba import njit
from numba.core.caching import FunctionCache
from numba.core.ccallback import CFunc


class _Rebuilt(FunctionCache):
    """numba's cache of one function, for damaged files and full folders."""

    def load_overload(self, sig: Any, target_context: Any) -> Any:
        try:
            return super().load_overload(sig, target_context)
        except (
            Exception
        ):  # damaged files can raise almost any error: pickle, LLVM, the system
            self._forget()
            return None  # means "not found" to numba, which then compiles

    def save_overload(self, sig: Any, data: Any) -> None:
        try:
            super().save_overload(sig, data)
        except OSError:
            return  # the compiled function is in memory; the next process compiles it again

    def _forget(self) -> None:
        try:
            self.flush()
        except OSError:
            return  # it cannot be written either: every process compiles


def cached_njit(**how: Any) -> Callable[[Callable[..., Any]], Any]:
    """Compile by `numba.njit` with these settings; keep the machine code on disk where a folder can be written."""

    def compiled(f: Callable[..., Any]) -> Any:
        compiled_function = njit(**how)(f)
        with suppress(
            RuntimeError
        ):  # no writable folder: compiled again in each process
            compiled_function._cache = _Rebuilt(compiled_function.py_func)
        return compiled_function

    return compiled


def cached_cfunc(sig: Any, **how: Any) -> Callable[[Callable[..., Any]], Any]:
    """Compile by `numba.cfunc` with this signature and the same cache: a pointer that compiled code takes as an argument."""

    def compiled(f: Callable[..., Any]) -> Any:
        compiled_function: Any = CFunc(
            f, (sig.args, sig.return_type), locals={}, options={"nopython": True, **how}
        )
        with suppress(RuntimeError):
            compiled_function._cache = _Rebuilt(f)
        compiled_function.compile()
        return compiled_function

    return compiled
