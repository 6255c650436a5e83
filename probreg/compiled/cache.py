"""Machine code that is kept on disk between processes, and recompiled if one of its files cannot be read.

numba does not check whether its index and its code are complete: one file truncated by a crash or a full disk
would break every later process. This module treats a damaged file as missing and overwrites it. numba also numbers the files of
code from 1 and writes the index first, so that a second process can read code of an earlier version, or of other types, under
the name in the index. Here each file has a unique name and is written first.
"""

import hashlib
from collections.abc import Callable
from contextlib import suppress
from typing import Any

from numba import njit
from numba.core.caching import FunctionCache, IndexDataCacheFile
from numba.core.ccallback import CFunc


class _CodeBeforeIndex(IndexDataCacheFile):
    """The files of one function, which several processes read and write at once."""

    def save(self, key: Any, data: Any) -> None:
        digest = hashlib.sha256(repr((self._source_stamp, key)).encode()).hexdigest()
        name = self._data_name(int(digest[:16], 16))
        self._save_data(name, data)
        self._save_index({**self._load_index(), key: name})


class _Rebuilt(FunctionCache):
    """numba's cache of one function, for damaged files, full folders and several processes."""

    def __init__(self, py_func: Callable[..., Any]) -> None:
        super().__init__(py_func)
        self._cache_file = _CodeBeforeIndex(
            self._cache_path,
            self._impl.filename_base,
            self._impl.locator.get_source_stamp(),
        )

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
    """Compile by `numba.njit` with these settings; keep the machine code on disk if a folder is writable."""

    def compiled(f: Callable[..., Any]) -> Any:
        compiled_function = njit(**how)(f)
        # no writable folder: compiled again in each process
        with suppress(RuntimeError):
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
