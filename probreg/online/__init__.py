"""Online learning: predict, see y, compute the loss, update. A learner is a loss, a geometry and a rate; theorems are objects."""

import importlib
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from probreg.online.names import *  # noqa: F403


def __getattr__(name: str) -> Any:
    """Return a public name; the package is imported on first use."""
    if name.startswith("__"):
        raise AttributeError(name)
    return getattr(importlib.import_module("probreg.online.names"), name)


def __dir__() -> list[str]:
    names = dir(importlib.import_module("probreg.online.names"))
    return [name for name in names if not name.startswith("_")]
