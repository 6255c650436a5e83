"""Names for the things one can add: likelihoods, priors, methods, checks.

A registry also writes a frozen dataclass as plain data (`to_spec`) and reads it back (`from_spec`): a saved fit
holds names and numbers, never code.
"""

import dataclasses
import difflib
from collections.abc import Callable, Iterator, Mapping, MutableMapping
from importlib import import_module
from types import MappingProxyType, ModuleType, UnionType
from typing import Any, Literal, Union, get_args, get_origin, get_type_hints

import numpy as np

from probreg.arguments.keywords import normalised_name
from probreg.errors import ProbregError


class Registry[T](MutableMapping[str, type[T]]):
    """A mapping from name to class that knows what kind of thing it holds, and says so when asked for what it lacks.

    >>> class Shape: name = "square"
    >>> shapes = Registry("shape")
    >>> shapes.register(Shape) is Shape
    True
    >>> shapes["sqare"]
    Traceback (most recent call last):
    probreg.errors.ProbregError: no shape is called 'sqare'; did you mean 'square'? There are: square
    """

    def __init__(
        self,
        kind: str,
        parts: "tuple[Registry[Any], ...]" = (),
        words: Mapping[str, str] = MappingProxyType({}),
        files: str = "",
    ) -> None:
        """`words`: what other packages call it, and what to write here. `files`: a module that imports every file that registers
        something here, and that is imported when a name is not there yet, or all names are asked for."""
        self.kind, self.words = kind, words
        self.parts: tuple[Registry[Any], ...] = parts  # where a field that is itself a registered thing is looked up
        self._classes: dict[str, type[T]] = {}
        self._files = files

    def register[C: type](self, cls: C) -> C:
        name = cls.name  # type: ignore[attr-defined]  # every registered class carries its name
        room = self._files.rpartition(".")[0]
        if not (room and cls.__module__.startswith(f"{room}.")):  # a class of a user comes after those of the room
            self._import_all()
        if name in self._classes:
            raise ProbregError(f"two {self.kind}s are called {name!r}")
        self._classes[name] = cls
        return cls

    def _import_all(self) -> None:
        if self._files:
            import_module(self._files)
            self._files = ""
            self._classes = dict(sorted(self._classes.items()))  # whichever file was imported first

    def __getitem__(self, name: str) -> type[T]:
        if name not in self:
            raise ProbregError(self._lacks(name))
        return self._classes[name]

    def __setitem__(self, name: str, cls: type[T]) -> None:
        self._import_all()
        self._classes[name] = cls

    def __delitem__(self, name: str) -> None:
        self._import_all()
        del self._classes[name]

    def __iter__(self) -> Iterator[str]:
        self._import_all()
        return iter(self._classes)

    def __len__(self) -> int:
        self._import_all()
        return len(self._classes)

    def __contains__(self, name: object) -> bool:
        if name not in self._classes:
            self._import_all()
        return name in self._classes

    def get(self, name: str, default: Any = None) -> Any:
        return self._classes[name] if name in self else default

    def _lacks(self, name: str) -> str:
        if (meant := self.words.get(normalised_name(str(name)))) is not None:
            return f"no {self.kind} is called {name!r}: {meant}"
        near = difflib.get_close_matches(str(name), self, n=1)
        hint = f"; did you mean {near[0]!r}?" if near else "."
        return f"no {self.kind} is called {name!r}{hint} There are: {', '.join(sorted(self))}"

    def resolve(self, spec: "str | T") -> T:
        """An instance from a name (with its defaults) or the instance itself."""
        return self[spec]() if isinstance(spec, str) else spec

    def to_spec(self, thing: T) -> dict[str, Any]:
        """The name and the fields of a registered frozen dataclass, as plain JSON-able data."""
        fields = {f.name: getattr(thing, f.name) for f in dataclasses.fields(thing) if f.init}  # type: ignore[arg-type]
        return {"name": thing.name} | {k: self._field(v) for k, v in fields.items()}  # type: ignore[attr-defined]

    def _field(self, value: Any) -> Any:
        for part in self.parts:
            if isinstance(value, tuple(part.values())):
                return part.to_spec(value)
        if self.parts and isinstance(value, tuple) and any(not isinstance(v, int | float) for v in value):
            return [self._field(v) for v in value]
        return _plain(value)

    def from_spec(self, spec: Mapping[str, Any]) -> T:
        """The thing that `to_spec` wrote; only registered classes can come back."""
        if not isinstance(spec, Mapping) or not isinstance(spec.get("name"), str):
            raise ProbregError(f"a {self.kind} is saved by its name and fields, and this is neither: {spec!r:.60}")
        cls = self[spec["name"]]
        known = {f.name for f in dataclasses.fields(cls)}  # type: ignore[arg-type]
        fields = {k: self._value(v) for k, v in spec.items() if k != "name"}
        if unknown := set(fields) - known:
            raise ProbregError(
                f"{self.kind} {spec['name']!r} has no field {sorted(unknown)}; was it saved by a newer version?"
            )
        self._check_kinds(cls, fields)
        return cls(**fields)

    def _check_kinds(self, cls: type[T], fields: Mapping[str, Any]) -> None:
        """ProbregError for a field whose value is not of the kind that its class annotates."""
        hints = get_type_hints(cls)
        for name, value in fields.items():
            if not _of_kind(value, hints[name]):
                wanted = getattr(hints[name], "__name__", str(hints[name]))
                raise ProbregError(f"{name} of {cls.name} is {value!r:.60}, and {wanted} belongs there")  # type: ignore[attr-defined]

    def _value(self, value: Any) -> Any:
        if self.parts and isinstance(value, Mapping):
            return next((part for part in self.parts if value.get("name") in part), self.parts[0]).from_spec(value)
        return tuple(map(self._value, value)) if isinstance(value, list) else value


def names_from(files: str) -> Callable[[str], Any]:
    """`__getattr__` of a room: the names that its `__init__` leaves to the module `files`, which is imported when one is used, or when
    all are asked for by `from room import *`.

    >>> names_from("probreg.errors")("DataError").__name__
    'DataError'
    """
    room = files.rpartition(".")[0]

    def found(name: str) -> Any:
        if name == "__all__":
            return public_names({**vars(import_module(files)), **vars(import_module(room))})
        if not name.startswith("_") and hasattr(module := import_module(files), name):
            return getattr(module, name)
        raise AttributeError(f"module {room!r} has no attribute {name!r}")

    return found


def _plain(value: Any) -> Any:
    if isinstance(value, np.ndarray):
        return value.tolist()
    if isinstance(value, np.generic):
        return value.item()
    if isinstance(value, tuple | list):
        return [_plain(v) for v in value]
    return value


def _of_kind(value: Any, hint: Any) -> bool:
    """Whether plain data are what an annotation of numbers, texts, truths, registered things and tuples of these says.

    >>> _of_kind(1, float), _of_kind(True, float), _of_kind((1.0, None), tuple[float | None, ...]), _of_kind("a", Literal["b"])
    (True, False, True, False)
    """
    origin, arguments = get_origin(hint), get_args(hint)
    if origin in (Union, UnionType):
        return any(_of_kind(value, one) for one in arguments)
    if origin is Literal:
        return value in arguments
    if origin is tuple:
        if not isinstance(value, tuple):
            return False
        each = arguments[:1] * len(value) if arguments[-1] is Ellipsis else arguments
        return len(each) == len(value) and all(map(_of_kind, value, each))
    if hint in (int, float):
        return isinstance(value, int if hint is int else int | float) and not isinstance(value, bool)
    return hint is Any or isinstance(value, origin or hint)


def public_names(room: Mapping[str, object]) -> list[str]:
    """What `dir` of a room lists: its names, without the files that they are in.

    >>> public_names({"np": difflib, "_Hidden": int, "Normal": int})
    ['Normal']
    """
    return [name for name, of in room.items() if not name.startswith("_") and not isinstance(of, ModuleType)]
