"""Convert arrays with matching rows, and batches of a file, to blocks of rows, with the same columns as from the whole table."""

import inspect
from collections.abc import Callable, Generator, Iterable, Mapping, Sequence
from contextlib import closing
from dataclasses import dataclass, field
from functools import partial
from typing import Any

import numpy as np

from probreg.arguments.arrays import as_array
from probreg.data.array_columns import ArrayColumns
from probreg.data.blocks.block import Array, Block, encode_block, join_blocks
from probreg.data.blocks.files import Batch, Files
from probreg.data.blocks.frames import tables_of
from probreg.data.blocks.parts import LocalPart
from probreg.data.blocks.survey import Tally
from probreg.data.checked_arrays import (
    Missing,
    as_offset,
    as_response,
    as_weights,
    complete,
    missing_by_column,
    names_of,
    refuse_infinite,
    row_weights,
    rows_that_count,
    weights_without_empty_trials,
)
from probreg.data.formula.columns import (
    DataTable,
    kind_of,
    missing_values,
    read_columns,
)
from probreg.data.formula.recipe import Recipe, response_values, rows_with_trials
from probreg.data.weights import WeightKind
from probreg.errors import DataError, prefix_errors
from probreg.formula.terms import FormulaLayout
from probreg.linalg import row_slices

Encode = Callable[[Array], Array]
_NUMBERS_OF_BLOCK = 2**22  # numbers in a block with columns of groups: 32 MB


@dataclass(frozen=True)
class Selection:
    """The columns that a model reads, and which rows count.

    `kinds` gives the type of each column (numbers, text, ...) in the first rows; later rows must have the same type. Rows of weight 0
    are treated as absent, and so are rows without trials of the response: `weights` is the column of weights. `starts` has the number
    of the first row of each part, if known.
    """

    names: tuple[str, ...]
    missing: Missing
    kinds: Mapping[str, str]
    layout: FormulaLayout
    weights: str | None = None
    starts: tuple[int, ...] | None = None

    def __call__(self, number: int, part: Any, tally: Tally) -> Generator[Batch]:
        """Yield the rows that count in each batch of a part, if there are any. DataError names file, column, row and value."""
        # odd, so that multiples of 2 fall on other rows of the next part
        assumed_rows = 1_000_003  # of a part, where their number is unknown
        start = number * assumed_rows if self.starts is None else self.starts[number]
        with closing(tables_of(part, number).batches(self.names)) as batches:
            for batch in batches:
                with prefix_errors(batch.place):
                    table = self._rows_that_count(batch.table, tally)
                if len(table.rows):
                    yield Batch(table, batch.file, start, number)
                    start += len(table.rows)

    def _rows_that_count(self, table: DataTable, tally: Tally) -> DataTable:
        """Return the complete rows with a weight and trials above 0."""
        tally.rows += len(table.rows)
        counted = rows_that_count(table, self.weights, self.layout.count_columns)
        table = _select_rows(table, counted, tally)
        if not len(table.rows):
            return table
        self._require_same_kinds(table)
        missing = missing_by_column(table.without_ends(self.layout.end_columns))
        if missing and self.missing == "drop":
            dropped = np.logical_or.reduce(list(missing.values()))
            tally.dropped += int(dropped.sum())
            tally.missing.update({name: int(m.sum()) for name, m in missing.items()})
            table = table.part(~dropped)
        table = complete(table, "raise", self.layout.end_columns)[0]
        refuse_infinite(table.without_ends(self.layout.end_columns))
        return _select_rows(table, rows_with_trials(self.layout, table), tally)

    def _require_same_kinds(self, table: DataTable) -> None:
        for name, values in table.columns.items():
            previous = self.kinds.get(name)
            kind = kind_of(values)
            if (
                previous is None
                or kind == previous
                or {kind, previous} == {"number", "truth"}
                or missing_values(values).all()
            ):
                continue
            words = {
                "levels": "text or categories",
                "number": "numbers",
                "truth": "truth values",
                "time": "times",
            }
            raise DataError(
                f"column {name!r} holds {words.get(kind, kind)} from row {table.rows[0]} on ({values[0]!r}), and "
                f"{words.get(previous, previous)} before: a column holds one kind of value in all files"
            )


def _select_rows(table: DataTable, counted: Array, tally: Tally) -> DataTable:
    """Return the rows where `counted` (n,) is true; the others are unused."""
    if counted.all():
        return table
    tally.unused += int((~counted).sum())
    return table.part(counted)


@dataclass(frozen=True)
class FormulaBlocks:
    """The blocks that a recipe makes of the rows of a part; each call starts a pass.

    `encode` turns response values into numbers; `weights` names a column. Rows without trials are left out.
    """

    selection: Selection
    recipe: Recipe
    encode: Encode
    kind: WeightKind = "frequency"
    # factor of the weights, so that sampling weights sum to the number of rows
    unit: float = 1.0
    lazy: bool = False  # whether columns of groups are implicit

    def __call__(self, number: int, part: Any, tally: Tally) -> Generator[Block]:
        has_group_columns = self.recipe.grouped and not self.lazy
        with closing(self.selection(number, part, tally)) as batches:
            for batch in batches:
                size = batch.rows
                if has_group_columns:
                    size = max(_NUMBERS_OF_BLOCK // len(self.recipe.columns), 1)
                for rows in row_slices(batch.rows, size):
                    piece = batch.part(rows)
                    with prefix_errors(piece.place):
                        block = self.block(piece.table, tally)
                    yield block._replace(start=piece.start)

    def block(self, table: DataTable, tally: Tally) -> Block:
        """The block of these complete rows."""
        recipe = self.recipe
        X = recipe.columns_of_rows(table, lazy=self.lazy)
        y = response_values(recipe.layout, table, recipe.memory)
        offset = recipe.offset_of_rows(table)
        if offset is not None and offset.ndim == 1:
            offset = offset[:, None]
        tally.orders.add(
            None if isinstance(y, np.ndarray) else tuple(y.categories.tolist())
        )
        block = Block(X, y, None, offset)
        return encode_block(
            block, self._weights(table), self.kind, self.encode, table.rows
        )

    def _weights(self, table: DataTable) -> Array | None:
        name = self.selection.weights
        if name is None:
            return None
        return self.unit * row_weights(
            table.columns[name], name=name, kind=self.kind, table=table
        )


@dataclass(frozen=True)
class KeptBlocks:
    """All blocks of a small file as one block, which the first pass builds and keeps in memory.

    Each pass checks that the files have not changed since the model was made.
    """

    blocks: FormulaBlocks
    _kept: list[Block] = field(default_factory=list, compare=False, repr=False)

    def __call__(self, number: int, part: Files, tally: Tally) -> Generator[Block]:
        if not self._kept:
            self._kept.append(join_blocks(list(self.blocks(number, part, tally))))
        part.require_unchanged()
        yield from self._kept


def encode_values(encode: Encode, values: Any) -> Array:
    """Return response values as numbers; a categorical is coded level by level."""
    if isinstance(values, np.ndarray) and values.dtype.kind != "O":
        return encode(values)
    import pandas as pd

    if not isinstance(values, np.ndarray):
        place = values.codes
        levels = values.categories
    else:
        place, levels = pd.factorize(values)
    used = np.flatnonzero(np.bincount(place, minlength=len(levels)))
    numbers = np.full(len(levels), np.nan)
    try:
        numbers[used] = encode(np.asarray(levels, dtype=object)[used])
    except DataError:
        # the same error, of rows where the above is one of levels
        encode(np.asarray(values))
        raise
    return numbers[place]


_NONE: Any = object()


@dataclass(frozen=True, eq=False)
class ArrayBlocks:
    """The blocks of a part that yields arrays.

    A block is (X, y), (X, y, weights), (X, y, weights, offset) or (X, y, weights, offset, trials). `compose` combines successes and
    trials, and returns the kind of counted response, if any.
    """

    recipe: ArrayColumns
    compose: Callable[[Array, Any], tuple[Array, Any]]
    encode: Callable[[Array], Array] = np.asarray
    kind: WeightKind = "frequency"
    # factor of the weights, so that sampling weights sum to the number of rows
    unit: float = 1.0

    def __call__(self, number: int, part: Any, tally: Tally) -> Generator[Block]:
        start = seen = 0  # rows that count, and all rows
        for i, arrays in enumerate(part()):
            with prefix_errors(f"block {i}, whose rows start at row {seen}"):
                block = self._block(arrays, tally)
            yield block._replace(start=start)
            start = start + block.rows
            seen = seen + len(arrays[0])

    def _block(self, arrays: Sequence[Any], tally: Tally) -> Block:
        refuse_part(arrays)
        X, y, weights, offset, trials = (*arrays, None, None, None)[:5]
        if weights is None and self.kind != "frequency":
            raise DataError(
                f"weights= declares {self.kind} weights, and this block has none: expected (X, y, weights)"
            )
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
            y, counts, as_weights(weights, len(X), self.kind, may_vanish=True)
        )
        if len(X) and (w is None or w.any()):
            tally.orders.add(declared)
        block = Block(X, y, None, as_offset(offset, len(X)))
        w = None if w is None else self.unit * w
        return encode_block(block, w, self.kind, self.encode)

    def _matrix(self, X: Any) -> Array:
        """Return the columns of an array by position, or of a table by name."""
        return self.recipe.matrix(X if _is_table(X) and len(X) else as_array(X, "X"))


def array_blocks(
    blocks: Any, *, columns: Sequence[str] | None, intercept: bool, kind: WeightKind,
    compose: Callable[[Array, Any], tuple[Array, Any]], progress: bool | None,
) -> tuple[ArrayBlocks, LocalPart]:  # fmt: skip
    """Return the function that makes blocks from arrays, and the arrays as a part.

    The names of the columns come from the first block unless they are given.
    """
    if isinstance(blocks, type) or not (
        callable(blocks) or isinstance(blocks, Sequence)
    ):
        raise DataError(
            f"blocks is a list of (X, y) or a function that starts them anew, since a fit reads them more than once; "
            f"got {type(blocks).__name__}: pass lambda: ... instead"
        )
    if callable(blocks):
        try:
            inspect.signature(blocks).bind()
        except TypeError:
            raise DataError("blocks is a function without arguments") from None
        except ValueError:  # builtins such as iter have no signature
            pass
    parts = blocks if callable(blocks) else partial(iter, blocks)
    if columns is None:
        columns = _names(parts)
    names = names_of(columns, 0, intercept=intercept)
    recipe = ArrayColumns(names, intercept)
    return ArrayBlocks(recipe, compose, kind=kind), LocalPart(parts, "blocks", progress)


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


def refuse_part(part: Any) -> None:
    """Raise DataError for an invalid block of rows."""
    if not isinstance(part, tuple | list) or not 2 <= len(part) <= 5:
        raise DataError(
            f"a block is (X, y), (X, y, weights), (X, y, weights, offset) or (X, y, weights, offset, trials), got {type(part).__name__}"
        )


def _is_table(X: Any) -> bool:
    return isinstance(X, Mapping) or getattr(X, "columns", None) is not None
