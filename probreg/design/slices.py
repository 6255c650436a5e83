"""Blocks of rows from arrays: memory maps, of which a slice is read at a time, and sequences of arrays that fit together."""

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from probreg.design.block import Array, Block
from probreg.design.columns import read_columns
from probreg.design.design import INTERCEPT, PlainColumns, as_array, as_frequencies, as_offset, as_response
from probreg.design.survey import Orders, kept_rows
from probreg.errors import DataError

_NUMBERS = 2**19  # numbers in a slice: 4 MB


@dataclass(frozen=True, eq=False)
class ArrayBlocks:
    """The blocks of rows (X, y), (X, y, weights) or (X, y, weights, offset) that `parts` yields, anew at each call."""

    parts: Callable[[], Iterable[Sequence[Any]]]
    recipe: PlainColumns
    name: str
    code: Callable[[Array], Array]
    orders: Orders | None = None

    def __call__(self) -> Iterator[Block]:
        start = 0
        for number, part in enumerate(self.parts()):
            try:
                block = self._block(part)
            except DataError as error:
                raise DataError(f"block {number}, whose rows start at row {start}: {error}") from None
            yield block._replace(start=start)
            start += block.rows

    def _block(self, part: Sequence[Any]) -> Block:
        if not isinstance(part, tuple | list) or not 2 <= len(part) <= 4:
            raise DataError(f"a block is (X, y), (X, y, weights) or (X, y, weights, offset), got {type(part).__name__}")
        X, y, weights, offset = (*part, None, None)[:4]
        X = self._matrix(X)
        y, declared = as_response(y) if len(X) else (as_array(y, "y"), None)
        if y.shape != X.shape[:1]:
            raise DataError(f"X has {len(X)} rows and y has shape {y.shape}: they must match")
        block = Block(X, y, as_frequencies(weights, len(X)), as_offset(offset, len(X)))
        if block.weights is not None and (block.weights == 0).any():  # left out before their response is looked at
            block = kept_rows(block, block.weights > 0)
        if not block.rows:
            return block
        (self.orders or Orders()).add(declared)
        return block._replace(y=self.code(block.y))

    def _matrix(self, X: Any) -> Array:
        """The columns of an array by their places, of a table by their names."""
        return self.recipe.matrix(X if _is_table(X) and len(X) else as_array(X, "X"))


def array_blocks(
    blocks: Any, *, columns: Sequence[str] | None, intercept: bool, width: int | None = None
) -> ArrayBlocks:
    """Blocks with the names of their columns, which are read off the first one unless they are told."""
    if not callable(blocks) and not isinstance(blocks, Sequence):
        raise DataError(
            f"blocks is a list of (X, y) or a function that starts them anew, since a fit reads them more than once; "
            f"got {type(blocks).__name__}: pass lambda: ... instead"
        )
    parts = blocks if callable(blocks) else Repeated(blocks)
    if isinstance(columns, str):
        raise DataError(f"columns is a sequence of names, got the text {columns!r}; for one column write [{columns!r}]")
    if columns is None:
        columns = _names(parts) if width is None else [f"x{j + 1}" for j in range(width)]
    names = tuple(map(str, columns))
    if twice := sorted({c for c in names if names.count(c) > 1}):
        raise DataError(f"column names repeat: {twice}")
    if intercept and INTERCEPT in names:
        raise DataError("X already has a column called 'Intercept'; pass intercept=False")
    if not names and not intercept:
        raise DataError("there are no columns: X has none and intercept=False leaves out the column of ones")
    recipe = PlainColumns(((INTERCEPT,) if intercept else ()) + names, intercept)
    return ArrayBlocks(parts, recipe, "a memory map" if isinstance(parts, Slices) else "blocks", np.asarray)


def _names(parts: Callable[[], Iterable[Sequence[Any]]]) -> list[str]:
    """The names of a table's columns in the first block; x1, x2, ... for an array."""
    blocks = parts()
    if not isinstance(blocks, Iterable):
        raise DataError(f"blocks() yields blocks (X, y), got {type(blocks).__name__}")
    first = next(iter(blocks), None)
    if first is None:
        raise DataError("no block of rows was given; give at least one (X, y)")
    if _is_table(first[0]):
        return list(read_columns(first[0]))
    X = as_array(first[0], "X")
    return [f"x{j + 1}" for j in range(X.shape[1] if X.ndim == 2 else 1)]


def _is_table(X: Any) -> bool:
    return isinstance(X, Mapping) or getattr(X, "columns", None) is not None


def slices(X: Any, y: Any, weights: Any, offset: Any, trials: Any) -> "Slices":
    """A memory map with what belongs to its rows. DataError for lengths that differ."""
    if trials is not None:
        raise DataError(
            "trials= of a memory map are not read by the block: give weights, or np.array(X) to read it whole"
        )
    coded, levels = as_response(y)
    given = {"y": coded, "weights": weights, "offset": offset}
    parts = {k: v if v is None or isinstance(v, np.ndarray) else as_array(v, k) for k, v in given.items()}
    for name, values in parts.items():
        if values is not None and values.shape[:1] != X.shape[:1]:
            raise DataError(f"X has {len(X)} rows and {name} has shape {values.shape}: they must match")
    return Slices(X, **parts, levels=levels)


@dataclass(frozen=True, eq=False)
class Repeated:
    """The same blocks at each call."""

    blocks: Sequence[Sequence[Any]]

    def __call__(self) -> Iterable[Sequence[Any]]:
        return self.blocks


@dataclass(frozen=True, eq=False)
class Slices:
    """Arrays of equal length, some of them too long for memory, in slices that are read when they come up."""

    X: Any
    y: Any
    weights: Any = None
    offset: Any = None
    levels: tuple[Any, ...] | None = None  # the order that a categorical y declares

    def __call__(self) -> Iterator[tuple[Any, ...]]:
        size = max(_NUMBERS // max(self.X.shape[1] if self.X.ndim == 2 else 1, 1), 1024)
        for a in range(0, len(self.X), size):
            X, y, *others = (
                None if v is None else np.asarray(v[a : a + size]) for v in (self.X, self.y, self.weights, self.offset)
            )
            yield X, y if self.levels is None else _categorical(y, self.levels), *others


def _categorical(y: Any, levels: tuple[Any, ...]) -> Any:
    import pandas as pd

    return pd.Categorical(y, categories=list(levels))
