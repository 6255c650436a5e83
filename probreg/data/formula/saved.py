"""What factors learned, as plain data and back: numbers, texts, lists and dicts, checked leaf by leaf."""

import math
from collections.abc import Mapping
from typing import Any

import numpy as np

from probreg.data.formula.layout import Memory
from probreg.data.formula.levels import Level
from probreg.errors import DataError

DEEPEST = 6  # nesting of a state; what formulaic keeps is at most three deep


def write_state(memory: Memory) -> dict[str, Any]:
    """The memory as JSON-able data."""
    return {"transforms": _plain(memory.transforms), "levels": {k: list(v) for k, v in memory.levels.items()}}


def read_state(state: Any) -> Memory:
    """The memory that `write_state` wrote, as fresh objects; DataError for all but plain, finite data."""
    if not isinstance(state, Mapping) or set(state) != {"transforms", "levels"}:
        raise DataError("a saved state holds 'transforms' and 'levels', and nothing else")
    transforms, levels = state["transforms"], state["levels"]
    if not isinstance(transforms, Mapping) or not all(isinstance(kept, Mapping) for kept in transforms.values()):
        raise DataError("the saved state of the transforms is not a table of tables")
    if not isinstance(levels, Mapping):
        raise DataError("the saved levels are not a table of lists")
    for text, known in levels.items():
        if not isinstance(known, list | tuple) or not all(isinstance(level, Level) for level in known):
            raise DataError(f"the saved levels of {text!r} are not a list of texts and numbers")
    return Memory({k: _state(k, v) for k, v in transforms.items()}, {k: list(v) for k, v in levels.items()})


def same_state(memory: Memory, state: Mapping[str, Any]) -> bool:
    """Whether nothing was learned since the state was written: what learns anew had lost its state."""
    return write_state(memory) == write_state(read_state(state))


def _state(key: str, kept: Mapping[str, Any]) -> dict[str, Any]:
    """The state of one transform in the types it reads: recurrences by degree, constraints as a matrix."""
    found = {name: _checked(key, value, DEEPEST) for name, value in kept.items()}
    for name in {"alpha", "norms2"} & set(found):
        if not isinstance(found[name], dict) or not all(degree.isdigit() for degree in found[name]):
            raise DataError(f"the saved state of {key!r} is damaged: {name} is not a table by degree")
        found[name] = {int(degree): value for degree, value in found[name].items()}
    if isinstance(found.get("constraints"), list):
        found["constraints"] = np.asarray(found["constraints"], dtype=np.float64)
    return found


def _checked(key: str, value: Any, depth: int) -> Any:
    match value:
        case None | bool() | str() | int():
            return value
        case float() if math.isfinite(value):
            return value
        case list() | tuple() if depth:
            return [_checked(key, part, depth - 1) for part in value]
        case Mapping() if depth:
            return {str(name): _checked(key, part, depth - 1) for name, part in value.items()}
    raise DataError(f"the saved state of {key!r} is damaged: {value!r:.60} is not a finite number, text or list")


def _plain(value: Any) -> Any:
    match value:
        case np.ndarray() | np.generic():
            return value.tolist()
        case Mapping():
            return {str(name): _plain(part) for name, part in value.items()}
        case list() | tuple():
            return [_plain(part) for part in value]
    return value
