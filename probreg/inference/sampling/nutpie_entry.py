"""Import nutpie without ArviZ, which nutpie imports at its top and uses only to wrap
the draws.

ArviZ with matplotlib and scipy.stats takes seconds to import. Here nutpie imports a
stand-in under its name, which imports ArviZ on first use. The draws are read from
nutpie's raw trace (`return_raw_trace=True`), an Arrow record batch for each chain, so
ArviZ is never needed.
"""

import sys
from collections.abc import Mapping
from importlib import import_module
from types import ModuleType
from typing import Any

import numpy as np

Array = np.ndarray


class _Arviz(ModuleType):
    """The stand-in for arviz inside nutpie."""

    def __getattr__(self, name: str) -> Any:
        return getattr(import_module("arviz"), name)


def import_nutpie() -> Any:
    """Import nutpie; `arviz` is in sys.modules afterwards only if it was before."""
    if "nutpie" in sys.modules or "arviz" in sys.modules:
        return import_module("nutpie")
    sys.modules["arviz"] = _Arviz("arviz")
    try:
        return import_module("nutpie")
    finally:
        del sys.modules["arviz"]


def arrays_of(
    trace: Any, shapes: Mapping[str, tuple[int, ...]], stats: Mapping[str, str]
) -> tuple[dict[str, Array], dict[str, Array]]:
    """Return the variables of these shapes, and the statistics by their new names, from
    nutpie's raw trace.

    Arrays are (chain, draw, ...), without the warm-up.
    """
    draws, stats_batches = trace.get_arrow_trace()
    is_draw = [~_column(batch, "tuning") for batch in stats_batches]
    posterior = {
        name: np.stack(
            [
                _column(batch, name).reshape(-1, *shape)[k]
                for batch, k in zip(draws, is_draw, strict=True)
            ]
        )
        for name, shape in shapes.items()
    }
    statistics = {
        name_here: np.stack(
            [
                _column(batch, name_nutpie)[k]
                for batch, k in zip(stats_batches, is_draw, strict=True)
            ]
        )
        for name_nutpie, name_here in stats.items()
    }
    return posterior, statistics


def _column(batch: Any, name: str) -> Array:
    """Return the values of a column as a flat array."""
    import pyarrow

    column = pyarrow.array(batch.column(name))
    if hasattr(column, "flatten"):
        column = column.flatten()
    return np.asarray(column.to_numpy(zero_copy_only=False))
