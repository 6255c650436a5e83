"""Machine code kept on disk between processes, and recompiled if a file of it cannot be read.

numba reads its index and its code without looking whether they are whole: one file that a crash or a full disk cut short
would break every later process. Here such a file counts as none, and the next one is written over it.
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
        except Exception:  # damaged bytes fail in as many ways as there are bytes: pickle, LLVM, the system
            self._forget()
            return None  # numba's word for "not there": it compiles

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
        ):  # no folder can be written: compiled anew in each process
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
