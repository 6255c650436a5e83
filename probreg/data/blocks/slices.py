"""Blocks of rows from arrays: memory maps, read in slices, and sequences of arrays with matching rows."""

import inspect
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np

from probreg.arguments.arrays import as_array, brief
from probreg.data.array_columns import PlainColumns
from probreg.data.blocks.batches import first_row
from probreg.data.blocks.block import Array, Block, by_kind
from probreg.data.blocks.survey import Tally
from probreg.data.checked_arrays import (
    INTERCEPT,
    as_offset,
    as_response,
    as_weights_of_some,
    names_of,
    weights_without_empty_trials,
)
from probreg.data.formula.columns import read_columns
from probreg.data.weights import WeightKind
from probreg.errors import DataError, rows_named
from probreg.system.disk import Stamp

_NONE: Any = object()
_NUMBERS = 2**19  # numbers in a slice: 4 MB


@dataclass(frozen=True, eq=False)
class ArrayBlocks:
    """The blocks of rows from arrays that a part yields, or from a part that is one block.

    A block is (X, y), (X, y, weights), (X, y, weights, offset) or (X, y, weights, offset, trials). `compose` combines successes and
    trials, and returns the kind of counted response, if any.
    """

    recipe: PlainColumns
    name: str
    compose: Callable[[Array, Any], tuple[Array, str | None]]
    encode: Callable[[Array], Array] = np.asarray
    kind: WeightKind = "frequency"
    # factor of the weights, so that sampling weights sum to the number of rows
    unit: float = 1.0

    def __call__(
        self, number: int, part: Any, tally: Tally | None = None
    ) -> Iterator[Block]:
        tally = tally or Tally()
        start = first_row(None, number)
        seen = 0
        for i, arrays in enumerate(part() if callable(part) else [part]):
            where = f"block {i}, whose rows start at row {seen}"
            if not callable(part):
                where = f"partition {number} of {self.name}"
            try:
                block = self._block(arrays, tally)
            except DataError as error:
                raise DataError(f"{where}: {error}") from None
            yield block._replace(start=start)
            start = start + block.rows
            seen = seen + len(arrays[0])

    def _block(self, arrays: Sequence[Any], tally: Tally) -> Block:
        refuse_part(arrays)
        X, y, weights, offset, trials = (*arrays, None, None, None)[:5]
        X = self._matrix(X)
        if len(X):
            y, declared = as_response(y)
        else:
            y = as_array(y, "y")
            declared = None
        if y.shape[:1] != X.shape[:1] or y.ndim > 2:
            raise DataError(
                f"X has {len(X)} rows and y has shape {y.shape}: they must match"
            )
        y, counts = self.compose(y, trials)
        w = weights_without_empty_trials(
            y, counts, as_weights_of_some(weights, len(X), self.kind)
        )
        weights, precision = by_kind(self.kind, None if w is None else self.unit * w)
        block = Block(X, y, weights, as_offset(offset, len(X)), precision=precision)
        rows = None
        # rows of weight 0 are left out before their response is encoded
        if w is not None and (w == 0).any():
            rows = np.flatnonzero(w > 0)
            block = block.part(rows)
        if not block.rows:
            return block
        tally.orders.add(declared)
        with rows_named(rows):
            return block._replace(y=self.encode(block.y))

    def _matrix(self, X: Any) -> Array:
        """Return the columns of an array by position, or of a table by name."""
        return self.recipe.matrix(X if _is_table(X) and len(X) else as_array(X, "X"))


def array_blocks(
    blocks: Any, *, columns: Sequence[str] | None, intercept: bool, width: int | None = None,
    kind: WeightKind = "frequency", compose: Callable[[Array, Any], tuple[Array, str | None]],
) -> tuple[ArrayBlocks, Callable[[], Iterable[Sequence[Any]]]]:  # fmt: skip
    """Return the function that reads blocks, and the blocks; names of columns come from the first block unless they are given."""
    if not callable(blocks) and not isinstance(blocks, Sequence):
        raise DataError(
            f"blocks is a list of (X, y) or a function that starts them anew, since a fit reads them more than once; "
            f"got {type(blocks).__name__}: pass lambda: ... instead"
        )
    if callable(blocks) and not _takes_nothing(blocks):
        raise DataError(
            "blocks is a function without arguments, which starts the blocks anew; pass lambda: ..."
        )
    if isinstance(blocks, type):
        raise DataError(
            f"blocks is a list of (X, y) or a function that starts them anew, got the class {blocks.__name__}"
        )
    parts = blocks if callable(blocks) else Repeated(blocks)
    if width is not None and (
        not isinstance(width, int | np.integer)
        or isinstance(width, bool)
        or not 0 <= width <= 10**6
    ):
        raise DataError(
            f"width is the number of columns, at most a million, got {brief(width)}"
        )
    if columns is None and width is None:
        columns = _names(parts)
    names = names_of(columns, 0 if width is None else int(width), intercept=intercept)
    recipe = PlainColumns(((INTERCEPT,) if intercept else ()) + names, intercept)
    if isinstance(parts, Slices):
        name = "a memory map"
    else:
        name = "blocks"
    return ArrayBlocks(recipe, name, compose, kind=kind), parts


def _names(parts: Callable[[], Iterable[Sequence[Any]]]) -> list[str]:
    """The names of a table's columns in the first block; x1, x2, ... for an array."""
    blocks = parts()
    if not isinstance(blocks, Iterable) or (
        isinstance(blocks, np.ndarray) and not blocks.ndim
    ):
        raise DataError(f"blocks() yields blocks (X, y), got {type(blocks).__name__}")
    first = next(iter(blocks), _NONE)
    if first is _NONE:
        raise DataError("no block of rows was given; give at least one (X, y)")
    refuse_part(first)
    if _is_table(first[0]):
        return list(read_columns(first[0]))
    X = as_array(first[0], "X")
    return [f"x{j + 1}" for j in range(X.shape[1] if X.ndim == 2 else 1)]


def _takes_nothing(function: Callable[..., Any]) -> bool:
    """Whether the signature of a function allows a call without arguments."""
    try:
        inspect.signature(function).bind()
    except TypeError:
        return False
    except ValueError:  # a builtin without a signature
        return True
    return True


def refuse_part(part: Any) -> None:
    """Raise DataError for an invalid block of rows."""
    if not isinstance(part, tuple | list) or not 2 <= len(part) <= 5:
        raise DataError(
            f"a block is (X, y), (X, y, weights), (X, y, weights, offset) or (X, y, weights, offset, trials), got {type(part).__name__}"
        )


def _is_table(X: Any) -> bool:
    return isinstance(X, Mapping) or getattr(X, "columns", None) is not None


def slices(X: Any, y: Any, weights: Any, offset: Any, trials: Any) -> "Slices":
    """Return a memory map with the arrays of its rows. DataError for different lengths."""
    coded, levels = as_response(y)
    arrays = {"y": coded, "weights": weights, "offset": offset, "trials": trials}
    parts = {
        k: v if v is None or isinstance(v, np.memmap) else as_array(v, k)
        for k, v in arrays.items()
    }
    for name, values in parts.items():
        if values is not None and values.shape[:1] != X.shape[:1]:
            raise DataError(
                f"X has {len(X)} rows and {name} has shape {values.shape}: they must match"
            )
    maps = {
        Path(v.filename)
        for v in (X, *parts.values())
        if isinstance(v, np.memmap) and v.filename is not None
    }
    return Slices(
        X,
        **parts,
        levels=levels,
        marks=tuple((path, Stamp.of(path)) for path in sorted(maps)),
    )


def _require_unchanged(path: Path, stamp: Stamp) -> None:
    """Raise DataError for a memory map if its file was overwritten; a file that was replaced or removed remains valid for the map."""
    try:
        now = Stamp.of(path)
    except DataError:
        return
    if now.inode == stamp.inode and now != stamp:
        raise DataError(
            f"{path.name} was written over since the model was made; make the model again"
        )


@dataclass(frozen=True, eq=False)
class Repeated:
    """The same blocks at each call."""

    blocks: Sequence[Sequence[Any]]

    def __call__(self) -> Iterable[Sequence[Any]]:
        return self.blocks


@dataclass(frozen=True, eq=False)
class Slices:
    """Arrays of equal length, some too long for memory, in slices that are read when needed."""

    X: Any
    y: Any
    weights: Any = None
    offset: Any = None
    trials: Any = None
    levels: tuple[Any, ...] | None = None  # the order that a categorical y declares
    marks: tuple[
        tuple[Path, Stamp], ...
    ] = ()  # the files of those that are memory maps, when the model was made

    def __call__(self) -> Iterator[tuple[Any, ...]]:
        for path, stamp in self.marks:
            _require_unchanged(path, stamp)
        size = max(_NUMBERS // max(self.X.shape[1] if self.X.ndim == 2 else 1, 1), 1024)
        for a in range(0, len(self.X), size):
            X, y, *arrays = (
                None if v is None else np.asarray(v[a : a + size])
                for v in (self.X, self.y, self.weights, self.offset, self.trials)
            )
            yield (
                X,
                y if self.levels is None else _declare_levels(y, self.levels),
                *arrays,
            )


def _declare_levels(y: Any, levels: tuple[Any, ...]) -> Any:
    """Return a slice of y with the levels of the whole y: the names of its columns, or the levels of a categorical."""
    import pandas as pd

    if y.ndim == 2:
        return pd.DataFrame(y, columns=list(levels))
    return pd.Categorical(y, categories=list(levels))
