"""Validation of arguments by their annotations, types of public arguments, and errors for unknown keywords.

A signature declares the kind of an argument in its type, `prob: Probability = 0.95`. `@check_arguments` validates the arguments of a
public function or method, `check_fields(self)` the fields of a dataclass.

>>> @check_arguments
... def coin(prob: Share, tosses: Count = 1) -> float:
...     return prob**tosses
>>> coin(0.5, tosses=0)
Traceback (most recent call last):
probreg.errors.DataError: tosses is a whole number of at least 1, got 0

At run time each type of a public result or of data is Any: the functions that read data report invalid values with row and column, and the tables and
labelled arrays come from packages that are imported on use.
"""

import difflib
import functools
import inspect
import math
import reprlib
from collections.abc import Callable, Iterable, Mapping, Sequence, Set
from dataclasses import dataclass, fields, is_dataclass
from numbers import Integral, Real as RealNumber
from types import UnionType
from typing import (
    TYPE_CHECKING,
    Annotated,
    Any,
    Literal,
    NamedTuple,
    Self,
    Union,
    get_args,
    get_origin,
)

import numpy as np

from probreg.arguments.arrays import OrderedLevels
from probreg.errors import DataError, Incompatible, ProbregError
from probreg.peers import KEYWORDS

if TYPE_CHECKING:
    from matplotlib.figure import Figure as Figure
    from narwhals.typing import IntoDataFrame
    from numpy.typing import ArrayLike as ArrayLike, NDArray
    from pandas import DataFrame as DataFrame
    from xarray import DataArray as DataArray, Dataset as Dataset, DataTree as DataTree

    # A table: pandas, polars, arrow, or a mapping from names to columns.
    TableLike = IntoDataFrame | Mapping[str, Any]
    # Rows: a table, as a formula reads it, or a matrix X.
    RowsLike = TableLike | ArrayLike
    # A covariance of coefficients: the name of a kind, or a result of `Fit.covariance`.
    CovarianceLike = str | DataArray
    FloatArray = NDArray[np.float64]
else:
    ArrayLike = TableLike = RowsLike = CovarianceLike = FloatArray = DataArray = (
        Dataset
    ) = DataTree = DataFrame = Figure = Any

_KEYWORDS_OF_MODEL = (
    "likelihood",
    "prior",
    "aux",
    "weights",
    "offset",
    "event",
    "reference",
    "missing",
)


def list_names(names: str | Iterable[str] | None) -> list[str]:
    """Return the names that an argument lists; one name may be given as a text.

    >>> list_names("x"), list_names(("x", "z")), list_names(None)
    (['x'], ['x', 'z'], [])
    """
    if isinstance(names, str):
        return [names]
    if names is None:
        return []
    return list(names)


def with_article(word: str) -> str:
    """Return a name with its indefinite article.

    >>> with_article("gaussian"), with_article("absolute")
    ('a gaussian', 'an absolute')
    """
    return f"{'an' if word[:1] in tuple('aeiouAEIOU') else 'a'} {word}"


def only_known[**P, R](function: Callable[P, R]) -> Callable[P, R]:
    """Decorate a function to raise Incompatible for an unknown keyword, with the closest known one."""
    keywords = keywords_of(inspect.signature(function))

    @functools.wraps(function)
    def wrapper(*args: P.args, **kwargs: P.kwargs) -> R:
        refuse_unknown(function.__name__, kwargs, keywords)
        return function(*args, **kwargs)

    return wrapper


def keywords_of(signature: inspect.Signature) -> list[str]:
    """Return the names of the arguments."""
    return [name for name in signature.parameters if name not in ("cls", "self")]


def refuse_unknown(function: str, names: Iterable[str], keywords: list[str]) -> None:
    """Raise Incompatible for the first keyword that the function does not take."""
    for name in names:
        if name in keywords:
            continue
        close = difflib.get_close_matches(name, keywords, n=1, cutoff=0.75)
        if name in ("groups", "lags") and "covariance" in keywords:
            advice = f"write covariance=fit.covariance(..., {name}=...)"
        elif name in KEYWORDS:
            advice = f"use {KEYWORDS[name]}"
        elif close:
            advice = f"did you mean {close[0]}=?"
        elif name in _KEYWORDS_OF_MODEL:
            advice = f"{name}= belongs to the model, such as Model.from_formula(..., {name}=...)"
        else:
            advice = f"it takes {', '.join(keywords) or 'nothing'}"
        raise Incompatible(f"{function} takes no {name}=: {advice}") from None


def normalised_name(word: str) -> str:
    """Return a name in lower case with underscores, as in the registries.

    >>> normalised_name("Log-Normal")
    'log_normal'
    """
    return "_".join(word.lower().replace("-", " ").split())


_LEAST, _LARGEST = 1e-140, 1e140  # of a number without ends
_OF_SIZES = f"between {_LEAST:g} and {_LARGEST:g}, whose square is a number too"
_MADE = {
    "Model": "; make one with Model.from_formula or Model.from_arrays",
    "Design": "; make a model with Model.from_formula or Model.from_arrays",
    "Fit": "; make one with fit(model)",
    "CovarianceFunction": "; of a function f(x, z) it is pr.kernels.CustomFunction(f)",
}
_SHORT = reprlib.Repr()
_SHORT.maxstring = _SHORT.maxother = 60


class ArgumentKind:
    """A kind of argument: its description `words`, such as "a finite number", and `read`.

    `read` returns a value without NumPy scalars as Python number, text or tuple; it raises ValueError, with or without a message,
    if the value is invalid.
    """

    words: str

    def __repr__(self) -> str:
        return self.words


def _read_numbers(value: Any) -> np.ndarray:
    """Return an array of numbers; ValueError for other values."""
    try:
        numbers = np.asarray(value)
    except (TypeError, ValueError):  # rows of different lengths
        raise ValueError from None
    if numbers.dtype.kind not in "fiu":
        raise ValueError
    return numbers


@dataclass(frozen=True, repr=False)
class Number(ArgumentKind):
    """A real number between `low` and `high`, or one of the allowed `ends`; infinity is allowed only as such an end.

    `whole`: only whole numbers. `per_column`: also a sequence of one number per column, which becomes a tuple.
    """

    low: float = -math.inf
    high: float = math.inf
    ends: tuple[float, ...] = ()
    words: str = "a finite number"
    advice: str = ""
    whole: bool = False
    per_column: bool = False

    def read(self, value: Any) -> Any:
        if self.per_column and not isinstance(value, RealNumber):
            entries = _read_numbers(value)
            if entries.ndim != 1 or not entries.size:
                raise ValueError
            least = _LEAST if self.low == 0.0 else -_LARGEST
            valid = (entries >= least) & (entries <= _LARGEST)
            if not valid.all():
                i = int(np.argmin(valid))
                raise ValueError(
                    f"{self.words} {_OF_SIZES}, where entry {i} is {entries[i]}"
                )
            return tuple(entries.astype(float).tolist())
        numbers = Integral if self.whole else RealNumber
        if not isinstance(value, numbers) or isinstance(value, bool):
            raise ValueError
        number = int(value) if isinstance(value, Integral) else float(value)
        if number in self.ends:
            return number if self.whole else float(number)
        if self.whole and number > self.high:
            raise ValueError(f"a whole number of at most {self.high:,}")
        if not self.low < number < self.high:  # true of nan
            raise ValueError
        too_large = self.high == math.inf and abs(number) > _LARGEST
        too_small = self.low == 0.0 and 0.0 not in self.ends and number < _LEAST
        if too_large or too_small:
            raise ValueError(f"{self.words} {_OF_SIZES}")
        return float(number) if self.per_column else number


def whole_number(least: int, most: int = 10**9) -> Number:
    """Return the kind of whole numbers from `least` to `most`; larger counts are typing errors and would exhaust memory."""
    words = f"a whole number of at least {least}"
    return Number(least, most, (least, most), words, whole=True)


@dataclass(frozen=True, repr=False)
class Name(ArgumentKind):
    """Any text, such as a name that the function checks itself; or `several` names."""

    words: str = "text"
    several: bool = False

    def read(self, value: Any) -> str | tuple[str, ...]:
        if isinstance(value, str):
            return value
        if not self.several or isinstance(value, bytes | Mapping):
            raise ValueError
        if isinstance(value, type) or not isinstance(value, Iterable):
            raise ValueError
        if getattr(value, "ndim", 1) != 1:
            raise ValueError
        names = tuple(value)
        if not all(isinstance(name, str) for name in names):
            raise ValueError
        return tuple(map(str, names))  # texts of NumPy become Python's


@dataclass(frozen=True, repr=False)
class NumberTable(ArgumentKind):
    """Finite numbers in rows and columns; one number per row is a table of one column."""

    words: str = "an array of finite numbers (rows, columns)"

    def read(self, value: Any) -> tuple[tuple[float, ...], ...]:
        table = _read_numbers(value)
        if table.ndim not in (1, 2) or not np.isfinite(table).all():
            raise ValueError
        return tuple(
            tuple(row) for row in table.astype(float).reshape(len(table), -1).tolist()
        )


@dataclass(frozen=True, repr=False)
class NumberPair(ArgumentKind):
    """Two finite numbers; `increasing`: the second is larger, otherwise both are positive."""

    increasing: bool = False

    @property
    def words(self) -> str:  # type: ignore[override]
        if self.increasing:
            return "a pair of finite numbers, the second larger, such as (0.0, 5.0)"
        return "a pair of positive finite numbers, such as (6.4, 3.4)"

    def read(self, value: Any) -> tuple[float, float]:
        pair = _read_numbers(value)
        if pair.shape != (2,) or not np.isfinite(pair).all():
            raise ValueError
        first, second = pair.astype(float).tolist()
        if not (second > first if self.increasing else min(first, second) > 0.0):
            raise ValueError
        return first, second


@dataclass(frozen=True, repr=False)
class LevelSequence(ArgumentKind):
    """Different levels of a response in order, exactly `number` of them if it is given, as a tuple; a set has no order."""

    number: int | None = None

    @property
    def words(self) -> str:  # type: ignore[override]
        count = "two or more" if self.number is None else f"{self.number}"
        return f"a tuple of {count} different levels in order, each text, a number or a truth value"

    def read(self, value: Any) -> tuple[Any, ...]:
        if isinstance(value, str | bytes | Set | Mapping):
            raise ValueError
        if not isinstance(value, Iterable) or getattr(value, "ndim", 1) != 1:
            raise ValueError
        levels = tuple(v.item() if isinstance(v, np.generic) else v for v in value)
        if not all(isinstance(v, str | int | float) and v == v for v in levels):
            raise ValueError
        if len(set(levels)) < len(levels) or len(levels) < 2:
            raise ValueError
        if self.number not in (None, len(levels)):
            raise ValueError
        return OrderedLevels(levels) if isinstance(value, OrderedLevels) else levels


@dataclass(frozen=True)
class RegistryName:
    """Marker for the names of a registry, for editors only: any text passes, because the registry checks names itself."""


Real = Annotated[float, Number()]
Bound = Annotated[float, Number(ends=(-math.inf, math.inf), words="a number")]
Positive = Annotated[float, Number(0.0, words="a positive finite number")]
NonNegative = Annotated[
    float, Number(0.0, ends=(0.0,), words="a non-negative finite number")
]
PerColumn = Annotated[
    float | tuple[float, ...],
    Number(words="a finite number (or one per column)", per_column=True),
]
PositivePerColumn = Annotated[
    float | tuple[float, ...],
    Number(0.0, words="a positive finite number (or one per column)", per_column=True),
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
Count = Annotated[int, whole_number(1)]
Several = Annotated[int, whole_number(2)]
Workers = Annotated[int, whole_number(1, 1024)]
Natural = Annotated[int, whole_number(0)]
Seed = Annotated[int, whole_number(0, 2**63 - 1)]
Flag = Annotated[bool, Literal[True, False]]
Word = Annotated[str, Name()]
Names = Annotated[str | Sequence[str], Name("a name or a list of names", several=True)]
PositivePair = Annotated[tuple[float, float], NumberPair()]
Range = Annotated[tuple[float, float], NumberPair(increasing=True)]
Matrix = Annotated[tuple[tuple[float, ...], ...], NumberTable()]


class Declared(NamedTuple):
    """The parsed annotation of an argument."""

    kinds: tuple[Any, ...]
    options: tuple[tuple[type, Any], ...]  # allowed values, each with its type
    classes: tuple[type, ...]  # classes of values that the function reads itself
    reader: Callable[[str], Any] | None  # builds one of the classes from text

    @property
    def words(self) -> str:
        common = {
            "str": "a name",
            "Mapping": "a mapping",
            "Sequence": "a sequence",
            "AuxPrior": "a prior such as HalfNormal(1.0)",
        }
        options = ", ".join(repr(option) for _, option in self.options)
        first, comma, last = options.rpartition(", ")
        words = [
            f"{first} or {last}" if comma else last,
            *(k.words for k in self.kinds),
        ]
        names = [c.__name__ for c in self.classes if c is not type(None)]
        words += [common.get(name, with_article(name)) for name in names]
        return " or ".join(dict.fromkeys(filter(None, words)))


@functools.cache
def parse_annotation(annotation: Any) -> Declared | None:
    """Return the kinds and classes of an annotation; None if it accepts everything."""
    kinds: list[ArgumentKind] = []
    options: list[tuple[type, Any]] = []
    classes: list[type] = []
    for part in _union_members(annotation):
        if isinstance(part, ArgumentKind):
            kinds.append(part)
        elif get_origin(part) is Literal:
            values = get_args(part)
            options += [(type(v), v) for v in values if v is not None]
            classes += [type(None)] * (None in values)
        elif part is None or part is type(None):
            classes.append(type(None))
        elif isinstance(part, type) and part not in (object, Any):
            classes.append(part)
        else:
            return None  # Any, a type variable, a name not yet known
    package = __name__.split(".")[0]
    if kinds or options:
        texts = (str, Sequence) if any(isinstance(k, Name) for k in kinds) else ()
        classes = [c for c in classes if c not in (float, int, bool, tuple, *texts)]
    elif all(c.__module__.split(".")[0] != package for c in classes):
        return None
    readers = [c.from_text for c in classes if hasattr(c, "from_text")]
    reader = readers[0] if readers else None
    return Declared(tuple(kinds), tuple(options), tuple(classes), reader)


def _union_members(annotation: Any) -> list[Any]:
    """Return the members of a union, including kinds and literals; a generic becomes its class."""
    origin = get_origin(annotation)
    if origin is Annotated:
        base, *metadata = get_args(annotation)
        if any(isinstance(m, RegistryName) for m in metadata):
            return [str]
        kinds = [m for m in metadata if isinstance(m, ArgumentKind) or get_origin(m)]
        return [*_union_members(base), *kinds]
    if origin in (Union, UnionType):
        return [p for part in get_args(annotation) for p in _union_members(part)]
    return [annotation if origin in (None, Literal) else origin]


def read_argument(name: str, value: Any, annotation: Any, owner: str = "") -> Any:
    """Return the value as the annotated type. DataError for a wrong value, Incompatible for an object of a wrong class.

    `annotation` may be parsed already; `owner` precedes the name if the class is wrong.
    """
    declared = annotation
    if not isinstance(annotation, Declared):
        declared = parse_annotation(annotation)
    if declared is None or isinstance(value, declared.classes):
        return value
    scalar = value
    if isinstance(value, np.generic) or getattr(value, "ndim", None) == 0:
        scalar = value.item()
    if isinstance(value, str):
        scalar = str(value)  # of a link its name
    if (type(scalar), scalar) in declared.options:
        return scalar
    reason, advice = "", ""
    if isinstance(scalar, str) and declared.reader is not None:
        try:
            return declared.reader(scalar)
        except ProbregError as error:
            raise DataError(
                f"{name} is {declared.words}, got {shown_value(value)}: {error}"
            ) from None
    for kind in declared.kinds:
        try:
            return kind.read(scalar)
        except (ValueError, OverflowError) as error:
            reason = str(error) or reason
            advice = getattr(kind, "advice", "").format(name=name)
    problem = f"{name} is {reason or declared.words}, got {shown_value(value)}"
    if declared.kinds or declared.options:
        raise DataError(f"{problem}{advice}")
    hints = [_MADE[c.__name__] for c in declared.classes if c.__name__ in _MADE]
    raise Incompatible(f"{owner}{problem}{''.join(hints[:1])}")


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
            known = keywords_of(signature)
            refuse_unknown(
                fn.__name__, [k for k in named if not free or k in KEYWORDS], known
            )
            raise Incompatible(
                f"{fn.__name__}: {error}; it takes {', '.join(known)}"
            ) from None
        for name, value in bound.arguments.items():
            if name in declared:
                bound.arguments[name] = read_argument(
                    name, value, declared[name], f"{fn.__name__}: "
                )
        return fn(*bound.args, **bound.kwargs)

    return wrapper  # type: ignore[return-value]


@functools.cache
def declared_fields(cls: type) -> Mapping[str, Declared]:
    """Return the parsed annotations of the fields of a dataclass."""
    return {
        f.name: declared
        for f in fields(cls)
        if (declared := parse_annotation(f.type)) is not None  # type: ignore[arg-type]
    }


def check_fields(thing: Any, *only: str) -> None:
    """Validate the annotated fields of a dataclass, or `only` these, and store them as Python types."""
    declared_by_name = declared_fields(type(thing))  # type: ignore[arg-type]
    for name, declared in declared_by_name.items():
        if not only or name in only:
            label = f"{type(thing).__name__} {name}"
            value = read_argument(label, getattr(thing, name), declared)
            object.__setattr__(thing, name, value)


class NamedSettings:
    """A dataclass with checked fields; unknown names, and too many arguments by position, raise an error that names the fields.

    >>> from probreg.priors import Normal
    >>> Normal(5, 2)
    Traceback (most recent call last):
    probreg.errors.Incompatible: Normal: only scale may be given by position; give the others by name: location, precision_matrix, sigma_units, scaled
    """

    __post_init__ = check_fields

    def __new__(cls, *args: Any, **settings: Any) -> Self:
        if not is_dataclass(cls):  # a user's class reads its own arguments
            return super().__new__(cls)
        if settings:
            known = keywords_of(inspect.signature(cls.__init__))
            refuse_unknown(cls.__name__, settings, known)
        if len(args) > 1:
            init = [f for f in fields(cls) if f.init]
            by_name = [f.name for f in init if f.kw_only]
            by_position = [f.name for f in init if not f.kw_only]
            if by_name and len(args) > len(by_position):
                raise Incompatible(
                    f"{cls.__name__}: only {' and '.join(by_position) or 'no argument'} may be given by position; "
                    f"give the others by name: {', '.join(by_name)}"
                )
        return super().__new__(cls)
