"""The way into nutpie without ArviZ, which nutpie imports at its top and uses only to wrap the draws.

Of a warm process to a posterior by nutpie, importing ArviZ with matplotlib and scipy.stats behind it was 2.5 s. Here nutpie finds a
stand-in under that name, which imports ArviZ when nutpie asks it for something; and the draws are taken as nutpie's raw trace
(`return_raw_trace=True`), a record batch of Arrow for each chain, so that it never asks.
"""

import sys
from collections.abc import Mapping
from importlib import import_module
from types import ModuleType
from typing import Any

import numpy as np

Array = np.ndarray


class _Arviz(ModuleType):
    """What nutpie holds as arviz."""

    def __getattr__(self, name: str) -> Any:
        return getattr(import_module("arviz"), name)


def import_nutpie() -> Any:
    """The module nutpie; `arviz` is in sys.modules afterwards only if it was before."""
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
    """The variables of these shapes, and the sampler's statistics by their new names, of nutpie's raw trace: (chain, draw, ...),
    the tuning left out."""
    draws, told = trace.get_arrow_trace()
    kept = [~_column(batch, "tuning") for batch in told]
    posterior = {
        name: np.stack(
            [
                _column(batch, name).reshape(-1, *shape)[k]
                for batch, k in zip(draws, kept, strict=True)
            ]
        )
        for name, shape in shapes.items()
    }
    said = {
        ours: np.stack(
            [_column(batch, theirs)[k] for batch, k in zip(told, kept, strict=True)]
        )
        for theirs, ours in stats.items()
    }
    return posterior, said


def _column(batch: Any, name: str) -> Array:
    """The numbers of a column, one after the other."""
    import pyarrow

    column = pyarrow.array(batch.column(name))
    if hasattr(column, "flatten"):
        column = column.flatten()
    return np.asarray(column.to_numpy(zero_copy_only=False))
