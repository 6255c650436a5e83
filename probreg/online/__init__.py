"""Online learning: predict, see y, suffer, update. Learners are a loss, a geometry and a rate; theorems come as objects."""

import importlib
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from probreg.online.names import *  # noqa: F403  the names a type checker sees


def __getattr__(name: str) -> Any:
    """A public name; the room is loaded on first use, so that a program that does not learn online does not wait for it."""
    if name.startswith("__"):
        raise AttributeError(name)
    return getattr(importlib.import_module("probreg.online.names"), name)


def __dir__() -> list[str]:
    return [
        name
        for name in dir(importlib.import_module("probreg.online.names"))
        if not name.startswith("_")
    ]
