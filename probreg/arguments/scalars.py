"""Validation of arguments by their annotations.

A signature declares the kind of an argument in its type, `prob: Probability = 0.95`. `@check_arguments` validates the arguments of a
public function or method, `check_fields(self)` the fields of a dataclass.

>>> @check_arguments
... def coin(prob: Share, tosses: Count = 1) -> float:
...     return prob**tosses
>>> coin(0.5, tosses=0)
Traceback (most recent call last):
probreg.errors.DataError: tosses is a whole number of at least 1, got 0
"""

import functools
import inspect
import math
import reprlib
from abc import ABC, abstractmethod
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, fields
from numbers import Integral, Real as RealNumber
from types import UnionType
from typing import (
    Annotated,
    Any,
    Literal,
    NamedTuple,
    Self,
    Union,
    get_args,
    get_origin,
)
from weakref import WeakKeyDictionary

import numpy as np

from probreg.arguments.keywords import (
    keywords_of,
    refuse_unknown,
    with_article,
)
from probreg.errors import DataError, Incompatible, ProbregError

_LEAST, _LARGEST = 1e-140, 1e140  # of a number without ends
_OF_SIZES = f"between {_LEAST:g} and {_LARGEST:g}, whose square is a number too"
# limit of counts: larger values are typing errors and would exhaust memory
_MOST = 10**9
_MADE = {
    "Model": "; make one with Model.from_formula or Model.from_arrays",
    "Fit": "; make one with fit(model)",
    "CovarianceFunction": "; of a function f(x, z) it is pr.kernels.CustomFunction(f)",
}
_OWN = frozenset({int, float, bool, str, tuple, type(None)})
_SHORT = reprlib.Repr()
_SHORT.maxstring = _SHORT.maxother = 60


class ArgumentKind(ABC):
    """A kind of argument: its description, and how to read a value."""

    @property
    @abstractmethod
    def words(self) -> str:
        """ "a positive finite number"."""

    @abstractmethod
    def read(self, value: Any) -> Any:
        """Return the value as a Python number, bool or str; raise ValueError, with or without a message, if it is invalid."""

    def __repr__(self) -> str:
        return self.words


@dataclass(frozen=True, repr=False)
class Number(ArgumentKind):
    """A real number between `low` and `high`, or one of the allowed `ends`; infinity is allowed only as such an end."""

    low: float = -math.inf
    high: float = math.inf
    ends: tuple[float, ...] = ()
    words: str = "a finite number"
    advice: str = ""

    def read(self, value: Any) -> float:
        value = _to_python_scalar(value)
        if not isinstance(value, RealNumber) or isinstance(value, bool):
            raise ValueError
        try:
            number = float(value)
        except (OverflowError, ValueError):
            raise ValueError from None
        if number in self.ends:
            return number
        if not self.low < number < self.high:  # true of nan
            raise ValueError
        # sizes without an upper bound, whose squares and inverses must stay finite
        too_large = self.high == math.inf and abs(number) > _LARGEST
        too_small = self.low == 0.0 and 0.0 not in self.ends and number < _LEAST
        if too_large or too_small:
            raise ValueError(f"{self.words} {_OF_SIZES}")
        if isinstance(value, int):
            return value
        return number


_POSITIVE = Number(0.0, words="a positive finite number")


@dataclass(frozen=True, repr=False)
class Whole(ArgumentKind):
    """A whole number from `least` to `most`."""

    least: int = 0
    most: int = _MOST

    @property
    def words(self) -> str:
        return f"a whole number of at least {self.least}"

    def read(self, value: Any) -> int:
        value = _to_python_scalar(value)
        if (
            not isinstance(value, Integral)
            or isinstance(value, bool)
            or int(value) < self.least
        ):
            raise ValueError
        if int(value) > self.most:
            raise ValueError(f"a whole number of at most {self.most:,}")
        return int(value)


@dataclass(frozen=True, repr=False)
class Switch(ArgumentKind):
    """Exactly True or False."""

    words = "True or False"

    def read(self, value: Any) -> bool:
        value = _to_python_scalar(value)
        if not isinstance(value, bool):
            raise ValueError
        return value


@dataclass(frozen=True, repr=False)
class OneOf(ArgumentKind):
    """One of several texts."""

    options: tuple[str, ...]

    @property
    def words(self) -> str:
        *first, last = map(repr, self.options)
        if first:
            return f"{', '.join(first)} or {last}"
        return last

    def read(self, value: Any) -> str:
        if not isinstance(value, str) or value not in self.options:
            raise ValueError
        return str(value)


@dataclass(frozen=True, repr=False)
class Text(ArgumentKind):
    """Any text, such as a name that the function checks itself."""

    words = "text"

    def read(self, value: Any) -> str:
        value = _to_python_scalar(value)
        if not isinstance(value, str):
            raise ValueError
        return value


@dataclass(frozen=True)
class RegistryName:
    """Marker for the names of a registry, for editors only: any text passes, because the registry checks names itself."""


@dataclass(frozen=True, repr=False)
class Listed(ArgumentKind):
    """A name, or several."""

    words = "a name or a list of names"

    def read(self, value: Any) -> str | tuple[str, ...]:
        value = _to_python_scalar(value)
        if isinstance(value, str):
            return value
        if isinstance(value, bytes | Mapping) or getattr(value, "ndim", 1) != 1:
            raise ValueError
        try:
            several = tuple(value)
        except TypeError:
            raise ValueError from None
        if not all(isinstance(entry, str) for entry in several):
            raise ValueError
        return several


@dataclass(frozen=True, repr=False)
class Columns(ArgumentKind):
    """One number for all columns, or a tuple of one per column."""

    positive: bool = False

    @property
    def _element_kind(self) -> Number:
        return _POSITIVE if self.positive else Number()

    @property
    def words(self) -> str:
        return f"{self._element_kind.words} (or one per column)"

    def read(self, value: Any) -> float | tuple[float, ...]:
        value = _to_python_scalar(value)
        if isinstance(value, RealNumber):
            return float(self._element_kind.read(value))
        entries = np.asarray(value)
        if entries.dtype.kind not in "fiu" or entries.ndim != 1 or not entries.size:
            raise ValueError
        valid = np.abs(entries) <= _LARGEST
        if self.positive:
            valid &= entries >= _LEAST
        if not valid.all():
            i = int(np.argmin(valid))
            raise ValueError(
                f"{self.words} {_OF_SIZES}, where entry {i} is {entries[i]}"
            )
        return tuple(entries.astype(float).tolist())


@dataclass(frozen=True, repr=False)
class NumberTable(ArgumentKind):
    """Finite numbers in rows and columns; one number per row is a table of one column."""

    words = "an array of finite numbers (rows, columns)"

    def read(self, value: Any) -> tuple[tuple[float, ...], ...]:
        try:
            table = np.asarray(value)
        except (TypeError, ValueError):  # rows of different lengths
            raise ValueError from None
        if (
            table.dtype.kind not in "fiu"
            or table.ndim not in (1, 2)
            or not np.isfinite(table).all()
        ):
            raise ValueError
        return tuple(
            tuple(row) for row in table.astype(float).reshape(len(table), -1).tolist()
        )


Real = Annotated[float, Number()]
Positive = Annotated[float, _POSITIVE]
NonNegative = Annotated[
    float, Number(0.0, ends=(0.0,), words="a non-negative finite number")
]
# positive, or infinite for none
Limit = Annotated[float, Number(0.0, ends=(math.inf,), words="a positive number")]
Share = Annotated[float, Number(0.0, 1.0, (0.0, 1.0), "a number from 0 to 1")]
Fraction = Annotated[float, Number(0.0, 1.0, words="a number between 0 and 1")]
Correlation = Annotated[float, Number(-1.0, 1.0, words="a number between -1 and 1")]
Probability = Annotated[
    float,
    Number(0.0, 1.0, (), "a number between 0 and 1", "; for 95 % write {name}=0.95"),
]
Count = Annotated[int, Whole(1)]
Several = Annotated[int, Whole(2)]
Workers = Annotated[int, Whole(1, 1024)]
Natural = Annotated[int, Whole(0)]
Seed = Annotated[int, Whole(0, 2**63 - 1)]
Flag = Annotated[bool, Switch()]
Word = Annotated[str, Text()]
Names = Annotated[str | Sequence[str], Listed()]
Matrix = Annotated[tuple[tuple[float, ...], ...], NumberTable()]


class Declared(NamedTuple):
    """The parsed annotation of an argument."""

    kinds: tuple[ArgumentKind, ...]
    classes: tuple[type, ...]  # classes of values that the function reads itself
    own: bool  # whether one of them is a class of this package, so that other objects are invalid

    @property
    def reader_of_text(self) -> Callable[[str], Any] | None:
        """Return the function that builds one of the classes from text, or None."""
        return next(
            (c.from_text for c in self.classes if hasattr(c, "from_text")), None
        )

    @property
    def words(self) -> str:
        class_words = (_describe_class(c) for c in self.classes if c is not type(None))
        return " or ".join(
            dict.fromkeys([*(k.words for k in self.kinds), *class_words])
        )


def _describe_class(cls: type) -> str:
    common = {
        "str": "a name",
        "Mapping": "a mapping",
        "Sequence": "a sequence",
        "AuxPrior": "a prior such as HalfNormal(1.0)",
    }
    return common.get(
        cls.__name__, f"{'an' if cls.__name__[0] in 'AEIOU' else 'a'} {cls.__name__}"
    )


def parse_annotation(annotation: Any) -> Declared | None:
    """Return the kinds and classes of an annotation; None if it accepts everything."""
    kinds: list[ArgumentKind] = []
    classes: list[type] = []
    for part in _union_members(annotation):
        if isinstance(part, ArgumentKind):
            kinds.append(part)
        elif part is None or part is type(None):
            classes.append(type(None))
        elif isinstance(part, type) and part not in (object, Any):
            classes.append(part)
        else:
            return None  # Any, a type variable, a name not yet known
    if kinds:
        texts = (
            (str, Sequence) if any(isinstance(k, Text | Listed) for k in kinds) else ()
        )
        classes = [c for c in classes if c not in (float, int, bool, tuple, *texts)]
    is_ours = any(c.__module__.split(".")[0] == __name__.split(".")[0] for c in classes)
    if kinds or is_ours:
        return Declared(tuple(kinds), tuple(classes), is_ours)
    return None


def _union_members(annotation: Any) -> list[Any]:
    """Return the members of a union, including kinds; a generic becomes its class."""
    origin = get_origin(annotation)
    if origin is Annotated:
        base, *metadata = get_args(annotation)
        if any(isinstance(m, RegistryName) for m in metadata):
            return [str]
        return [
            *_union_members(base),
            *(m for m in metadata if isinstance(m, ArgumentKind)),
        ]
    if origin in (Union, UnionType):
        return [p for part in get_args(annotation) for p in _union_members(part)]
    if origin is Literal:
        words = tuple(v for v in get_args(annotation) if v is not None)
        return [OneOf(words), *([None] * (len(words) < len(get_args(annotation))))]
    return [annotation if origin is None else origin]


def read_argument(name: str, value: Any, annotation: Any) -> Any:
    """Return the value as the annotated type. DataError for a wrong value, Incompatible for an object of a wrong class."""
    declared = _declared_once(annotation)
    if declared is None:
        return value
    return _read_argument(name, value, declared)


_declared_once = functools.cache(parse_annotation)


def _read_argument(name: str, value: Any, declared: Declared, owner: str = "") -> Any:
    if isinstance(value, declared.classes):
        return value
    if isinstance(value, str) and (reader := declared.reader_of_text) is not None:
        try:
            return reader(value)
        except ProbregError as error:
            raise DataError(
                f"{name} is {declared.words}, got {shown_value(value)}: {error}"
            ) from None
    expected, advice = "", ""
    for kind in declared.kinds:
        try:
            return kind.read(value)
        except ValueError as better:
            expected = str(better) or expected
            advice = getattr(kind, "advice", "")
    if declared.kinds:
        raise DataError(
            f"{name} is {expected or declared.words}, got {shown_value(value)}{advice.format(name=name)}"
        )
    hint = next(
        (_MADE[c.__name__] for c in declared.classes if c.__name__ in _MADE), ""
    )
    raise Incompatible(
        f"{owner}{name} is {declared.words}, got {shown_value(value)}{hint}"
    )


def check_prob(prob: Any) -> float:
    """Return the probability of an interval. DataError unless it lies strictly between 0 and 1."""
    return float(read_argument("prob", prob, Probability))


def shown_value(value: Any) -> str:
    """Return a short description of a value for an error message."""
    if isinstance(value, int) and abs(value) >= 10**30:
        return "a whole number of more than 30 digits"
    if isinstance(value, type):
        return f"the class {value.__name__}: write {value.__name__}(...)"
    if type(value).__module__.split(".")[0] == __name__.split(".")[0]:
        return with_article(type(value).__name__)
    shape = getattr(value, "shape", None)
    if isinstance(shape, tuple) and shape:
        return f"{type(value).__name__} of shape {shape}"
    return _SHORT.repr(value)


def _to_python_scalar(value: Any) -> Any:
    """Convert a NumPy scalar or a 0-d array to a Python scalar."""
    if type(value) in _OWN:
        return value
    alone = isinstance(value, np.generic) or getattr(value, "ndim", None) == 0
    return value.item() if alone else value


def check_arguments[F: Callable[..., Any]](fn: F) -> F:
    """Decorate a function to validate annotated arguments before the call.

    An unknown keyword raises an error with the closest known name.
    """
    signature = inspect.signature(fn)
    declared = {
        n: d
        for n, p in signature.parameters.items()
        if (d := parse_annotation(p.annotation)) is not None
    }
    free = any(p.kind is p.VAR_KEYWORD for p in signature.parameters.values())

    @functools.wraps(fn)
    def wrapper(*args: Any, **named: Any) -> Any:
        try:
            bound = signature.bind(*args, **named)
        except TypeError as error:
            if not free:
                refuse_unknown(fn.__name__, named, keywords_of(signature))
            raise Incompatible(
                f"{fn.__name__}: {error}; it takes {', '.join(keywords_of(signature))}"
            ) from None
        for name, value in bound.arguments.items():
            if name in declared:
                bound.arguments[name] = _read_argument(
                    name, value, declared[name], f"{fn.__name__}: "
                )
        return fn(*bound.args, **bound.kwargs)

    return wrapper  # type: ignore[return-value]


def check_fields(thing: Any, *only: str) -> None:
    """Validate the annotated fields of a dataclass, or `only` these, and store them as Python types."""
    for name, declared in declared_fields(type(thing)).items():
        if name in (only or (name,)):
            value = _read_argument(
                f"{type(thing).__name__} {name}", getattr(thing, name), declared
            )
            object.__setattr__(thing, name, value)


class NamedSettings:
    """A dataclass with checked fields; too many arguments by position raise an error that names the fields.

    >>> from probreg.priors import Normal
    >>> Normal(5, 2)
    Traceback (most recent call last):
    probreg.errors.Incompatible: Normal: only scale may be given by position; give the others by name: location, precision_matrix, sigma_units, scaled
    """

    def __post_init__(self) -> None:
        check_fields(self)

    def __new__(cls, *args: Any, **settings: Any) -> Self:
        if len(args) <= 1:
            return super().__new__(cls)
        init = [f for f in fields(cls) if f.init]  # type: ignore[arg-type]
        by_name = [f.name for f in init if f.kw_only]
        by_position = [f.name for f in init if not f.kw_only]
        if len(args) > len(by_position):
            raise Incompatible(
                f"{cls.__name__}: only {' and '.join(by_position) or 'no argument'} may be given by position; "
                f"give the others by name: {', '.join(by_name)}"
            )
        return super().__new__(cls)


def declared_fields(cls: type) -> Mapping[str, Declared]:
    """Return the parsed annotations of the fields of a dataclass, once for each class."""
    if cls not in _FIELDS:
        _FIELDS[cls] = {
            f.name: declared
            for f in fields(cls)
            if (declared := parse_annotation(f.type)) is not None
        }
    return _FIELDS[cls]


_FIELDS: WeakKeyDictionary[type, dict[str, Declared]] = WeakKeyDictionary()
