"""Classes by name: likelihoods, priors, methods, checks.

A registry also writes a frozen dataclass as plain data (`to_spec`) and reads it back (`from_spec`): a file with a fit
contains names and numbers, and no code.
"""

import ast
import contextlib
import dataclasses
import math
from collections.abc import Callable, Iterator, Mapping
from importlib import import_module
from types import ModuleType
from typing import Any

import numpy as np

from probreg.arguments.scalars import Declared, declared_fields, refuse_unknown
from probreg.errors import DataError, ProbregError
from probreg.peers import unknown_name


class Registry[T](Mapping[str, type[T]]):
    """A mapping from name to class; the error for an unknown name suggests a close one and lists all.

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
        files: str = "",
        example: str = "normal(2.5)",
    ) -> None:
        """`files`: a module that imports every file that
        registers a class here; the registry imports it at the first name that it lacks, or when it lists all names.
        `example`: a call in text, for error messages."""
        self.kind = kind
        self.example = example
        # instances without settings, by name
        self.presets: dict[str, T] = {}
        # registries of the classes that a field may contain
        self.parts: tuple[Registry[Any], ...] = parts
        self._classes: dict[str, type[T]] = {}
        self._files = files

    def register[C: type](self, cls: C) -> C:
        name = cls.name  # type: ignore[attr-defined]  # every registered class carries its name
        package = self._files.rpartition(".")[0]
        # a user's class comes after the classes of the package
        if not (package and cls.__module__.startswith(f"{package}.")):
            self._import_all()
        if name in self._classes:
            raise ProbregError(f"two {self.kind}s are called {name!r}")
        self._classes[name] = cls
        return cls

    def _import_all(self) -> None:
        if self._files:
            import_module(self._files)
            self._files = ""
            # the same order for any order of imports
            self._classes = dict(sorted(self._classes.items()))

    def __getitem__(self, name: str) -> type[T]:
        if name in self._classes or name in self:
            return self._classes[name]
        names = sorted([*self, *self.presets])
        raise ProbregError(unknown_name(self.kind, str(name), names))

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

    def resolve(self, spec: "str | T") -> T:
        """Return the instance itself, or the instance that a name or a call as text describes."""
        if not isinstance(spec, str):
            return spec
        if "(" in spec or spec in self.presets:
            return self.parse(spec)
        return self[spec]()

    def parse(self, text: str) -> T:
        """Return the instance that a call in text describes, such as `normal(2.5)`, `student(2.5, nu=4)` or `normal(half_normal(1))`.

        It evaluates no code: the grammar is a registered name and, in parentheses, numbers, booleans, quoted text, tuples of these,
        or calls of `parts`.
        """
        try:
            node = ast.parse(text.strip(), mode="eval").body
        except (SyntaxError, ValueError):
            node = None
        return self._from_node(node, text.strip())

    def _from_node(self, node: ast.expr | None, text: str) -> T:
        """Return the instance of a name, or of a call with numbers, booleans and calls of `parts`."""
        call = node if isinstance(node, ast.Call) else None
        function = node if call is None else call.func
        is_unpacked = call is not None and any(k.arg is None for k in call.keywords)
        if not isinstance(function, ast.Name) or is_unpacked:
            raise DataError(
                f"{text!r} is not understood as a {self.kind}: write a name, or a name with settings in brackets, such as {self.example}"
            )
        name = function.id
        if name in self.presets:
            if call is not None and (call.args or call.keywords):
                raise DataError(f"{text!r}: {name} takes no settings, write {name}")
            return self.presets[name]
        # Normal(2.5), as the library prints it
        cls = {cls.__name__: cls for cls in self.values()}.get(name) or self[name]
        if call is None:
            return cls()
        declared = declared_fields(cls)  # type: ignore[arg-type]
        fields = [f.name for f in dataclasses.fields(cls) if f.init]  # type: ignore[arg-type]
        given = [str(k.arg) for k in call.keywords]
        for setting in given:
            if given.count(setting) > 1:
                raise DataError(f"{text!r} gives {setting} twice")
        refuse_unknown(name, given, fields)
        names = fields + [""] * len(call.args)
        values = [
            self._setting(value, declared.get(name), text)
            for value, name in zip(call.args, names)
        ]
        named = {
            str(k.arg): self._setting(k.value, declared.get(str(k.arg)), text)
            for k in call.keywords
        }
        try:
            return cls(*values, **named)
        except ProbregError:
            raise
        except TypeError as error:
            raise DataError(
                f"{text!r}: {error}; it takes: {', '.join(fields) or 'nothing'}"
            ) from None

    def _setting(self, node: ast.expr, field: Declared | None, text: str) -> Any:
        """Return the value of a field with this annotation. Other words stay text if an option is text, for the check of the class."""
        is_text = isinstance(node, ast.Constant) and isinstance(node.value, str)
        if is_text or isinstance(node, ast.Tuple):
            with contextlib.suppress(ValueError):
                return ast.literal_eval(node)
        options = () if field is None else field.options
        word = ast.unparse(node)
        if (str, word) in options:
            return word
        try:
            value = self._value_of(node, text)
        except DataError:
            if any(kind is str for kind, _ in options):
                return word
            raise
        kinds = () if field is None else field.kinds
        is_whole = any(getattr(kind, "whole", False) for kind in kinds)
        if is_whole and isinstance(value, float) and value.is_integer():
            return int(value)
        return value

    def _value_of(self, node: ast.expr, text: str) -> Any:
        """Return a number, a boolean, or the instance of a call of one of `parts`."""
        word = ast.unparse(node)
        name = word.partition("(")[0]
        for part in self.parts or (self,):
            if name in part or name in {cls.__name__ for cls in part.values()}:
                return part._from_node(node, word)
        if word in ("None", "none"):
            return None
        if word.lower() in ("true", "false"):
            return word.lower() == "true"
        if word in ("inf", "-inf"):  # classes that need a finite number raise the error
            return float(word)
        return finite_number(word, text)

    def to_spec(self, thing: T) -> dict[str, Any]:
        """Return the name and the fields of a registered frozen dataclass as plain data for JSON."""
        fields = {
            f.name: self._field(getattr(thing, f.name))
            for f in dataclasses.fields(thing)  # type: ignore[arg-type]
            if f.init
        }
        return {"name": thing.name} | fields  # type: ignore[attr-defined]

    def _field(self, value: Any) -> Any:
        for part in self.parts:
            if isinstance(value, tuple(part.values())):
                return part.to_spec(value)
        if (
            self.parts
            and isinstance(value, tuple)
            and any(not isinstance(v, int | float) for v in value)
        ):
            return [self._field(v) for v in value]
        return _plain(value)

    def from_spec(self, spec: Mapping[str, Any]) -> T:
        """Return the instance of a registered class that `to_spec` wrote."""
        if not isinstance(spec, Mapping) or not isinstance(spec.get("name"), str):
            raise ProbregError(
                f"a saved {self.kind} is a mapping with its name and fields, got {spec!r:.60}"
            )
        cls = self[spec["name"]]
        known = {f.name for f in dataclasses.fields(cls)}  # type: ignore[arg-type]
        fields = {k: self._value(v) for k, v in spec.items() if k != "name"}
        unknown = set(fields) - known
        if unknown:
            raise ProbregError(
                f"{self.kind} {spec['name']!r} has no field {sorted(unknown)}; was it saved by a newer version?"
            )
        try:
            return cls(**fields)
        except (TypeError, ValueError) as error:
            raise ProbregError(f"{self.kind} {spec['name']!r}: {error}") from None

    def _value(self, value: Any) -> Any:
        if self.parts and isinstance(value, Mapping):
            able = [part for part in self.parts if value.get("name") in part]
            return (able or self.parts)[0].from_spec(value)
        if isinstance(value, list):
            return tuple(map(self._value, value))
        return value


def split_assignments(text: str) -> Iterator[tuple[str | None, str]]:
    """Yield name and value of each `name=value` between commas, split at its last equals sign; no name without one.

    Signs within brackets do not count.

    >>> list(split_assignments("x=normal(1), laplace(scale=2)"))
    [('x', 'normal(1)'), (None, ' laplace(scale=2)')]
    """
    depth, start, equals = 0, 0, -1
    for i, letter in enumerate(f"{text},"):
        depth += (letter in "([") - (letter in ")]")
        if depth < 0:
            raise DataError(f"a bracket closes that was not opened in {text!r}")
        if letter == "=" and depth == 0:
            equals = i
        if letter == "," and depth == 0:
            name = text[start : max(equals, start)].strip()
            yield name or None, text[max(start, equals + 1) : i]
            start, equals = i + 1, -1
    if depth:
        raise DataError(f"a bracket is not closed in {text!r}")


def finite_number(text: str, whole: str) -> float:
    """Return the number in a part of the text `whole`."""
    try:
        value = float(text)
    except ValueError:
        value = math.nan
    if not math.isfinite(value):
        raise DataError(f"{text!r} in {whole.strip()!r} is not a finite number")
    return value


def names_from(files: str) -> Callable[[str], Any]:
    """Return a `__getattr__` of a package for the names that are in the module `files`: it imports the module at the first use of
    one of them, and for `from package import *`.

    >>> names_from("probreg.errors")("DataError").__name__
    'DataError'
    """
    package = files.rpartition(".")[0]

    def lookup(name: str) -> Any:
        if name == "__all__":
            return public_names(
                {**vars(import_module(files)), **vars(import_module(package))}
            )
        if not name.startswith("_") and hasattr(module := import_module(files), name):
            return getattr(module, name)
        raise AttributeError(f"module {package!r} has no attribute {name!r}")

    return lookup


def _plain(value: Any) -> Any:
    if isinstance(value, np.ndarray):
        return value.tolist()
    if isinstance(value, np.generic):
        return value.item()
    if isinstance(value, tuple | list):
        return [_plain(v) for v in value]
    return str(value) if isinstance(value, str) else value


def public_names(package: Mapping[str, object]) -> list[str]:
    """Return the names that `dir` of a package lists, without its modules.

    >>> public_names({"np": math, "_Hidden": int, "Normal": int})
    ['Normal']
    """
    return [
        name
        for name, of in package.items()
        if not name.startswith("_") and not isinstance(of, ModuleType)
    ]
