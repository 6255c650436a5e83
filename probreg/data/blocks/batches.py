"""Convert batches of a file to blocks of rows, with the same columns as from the whole table."""

from collections.abc import Callable, Generator, Mapping
from contextlib import closing
from dataclasses import dataclass, field
from functools import cached_property
from typing import Any

import numpy as np

from probreg.data.blocks.block import Array, Block, by_kind
from probreg.data.blocks.files import Batch, Files, Tables
from probreg.data.blocks.survey import Orders, kept_rows
from probreg.data.checked_arrays import weights_without_empty_trials
from probreg.data.formula.columns import DataTable, kind_of, missing_values
from probreg.data.formula.layout import Memory, numeric
from probreg.data.formula.recipe import (
    Recipe,
    lay_out_with_bars,
    read_state,
    response_values,
)
from probreg.data.rows import Missing, complete, refuse_infinite, row_weights
from probreg.data.weights import WeightKind
from probreg.errors import DataError, rows_named
from probreg.formula.terms import FormulaLayout, parse_formula

Encode = Callable[[Array], Array]
_NUMBERS = 2**22  # numbers in a block with columns of groups: 32 MB
_AT_ONCE = (
    2**11
)  # rows transposed at a time, while in cache: all at once takes four times as long


@dataclass(eq=False)
class Tally:
    """Counts from one pass over the rows.

    Rows, rows dropped for missing values, missing values by column, rows of weight zero, and the orders of a categorical response.
    """

    rows: int = 0
    lost: int = 0
    missing: dict[str, int] = field(default_factory=dict)
    unused: int = 0
    orders: Orders = field(default_factory=Orders)

    @property
    def notes(self) -> tuple[str, ...]:
        """Describe the rows that were left out."""
        notes = []
        if self.lost:
            by = ", ".join(f"{name!r} {count}" for name, count in self.missing.items())
            notes.append(
                f"{self.lost} of {self.rows} rows were dropped because of missing values; by column: {by}"
            )
        if self.unused:
            notes.append(
                f"{self.unused} of {self.rows} rows have weight 0 and were left out"
            )
        return tuple(notes)


@dataclass(frozen=True)
class Selection:
    """The columns of some files that a model reads, and which of their rows count.

    `kinds` gives the type of each column (numbers, text, ...) in the first rows; later rows must have the same type. Rows of weight 0
    are treated as absent, and so are rows without trials: `weights` is the column of weights, `trials` the columns that sum to the trials.
    """

    files: Tables
    names: tuple[str, ...]
    missing: Missing
    kinds: Mapping[str, str]
    tally: Tally | None = None
    weights: str | None = None
    trials: tuple[str, ...] = ()

    def tables(self) -> Generator[tuple[DataTable, str]]:
        """The complete rows of each batch that has any, and its file. DataError names file, column, row and value."""
        with closing(self.files.batches(self.names)) as batches:
            for batch in batches:
                with Blamed(batch):
                    table = self._complete(batch)
                if len(table.rows):
                    yield table, batch.file

    def _complete(self, batch: Batch) -> DataTable:
        table = batch.table
        tally = self.tally or Tally()
        tally.rows += len(table.rows)
        if not len(table.rows):
            return table
        table = self._counted(table, tally)
        if not len(table.rows):
            return table
        self._same_kinds(Batch(table, batch.file))
        if all(_is_finite(values) for values in table.columns.values()):
            return table
        missing = {
            name: missing_values(values) for name, values in table.columns.items()
        }
        is_missing = np.logical_or.reduce(list(missing.values()))
        tally.lost += int(is_missing.sum())
        for name, where in missing.items():
            if where.any():
                tally.missing[name] = tally.missing.get(name, 0) + int(where.sum())
        if self.missing == "drop" and is_missing.all():
            return DataTable({}, table.rows[:0])
        table = complete(table, self.missing)[0]
        refuse_infinite(table)
        return table

    def _counted(self, table: DataTable, tally: Tally) -> DataTable:
        """The rows that have a weight and trials above 0."""
        sums = [
            count_columns
            for count_columns in ((self.weights,), self.trials)
            if count_columns and count_columns[0] is not None
        ]
        unused = np.zeros(len(table.rows), dtype=bool)
        for names in sums:
            columns = [table.columns[name] for name in names if name is not None]
            if all(kind_of(column) in ("number", "truth") for column in columns):
                unused |= np.logical_and.reduce(
                    [np.asarray(column == 0, dtype=bool) for column in columns]
                )
        tally.unused += int(unused.sum())
        return table.take(~unused) if unused.any() else table

    def _same_kinds(self, batch: Batch) -> None:
        for name, values in batch.table.columns.items():
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
                f"column {name!r} holds {words.get(kind, kind)} from row {batch.table.rows[0]} on ({values[0]!r}), and "
                f"{words.get(previous, previous)} before: a column holds one kind of value in all files"
            )


@dataclass(frozen=True)
class FormulaBlocks:
    """The blocks of rows that a recipe makes of a selection; calling it starts a pass.

    `encode` turns response values into numbers; `weights` names a column. Rows without trials are left out.
    """

    selection: Selection
    recipe: Recipe
    weights: str | None
    encode: Encode
    kind: WeightKind = "frequency"
    # factor of the weights, so that sampling weights sum to the number of rows
    unit: float = 1.0
    apart: bool = False  # columns of groups are left unwritten

    def __call__(self) -> Generator[Block]:
        start = 0
        with closing(self.selection.tables()) as tables:
            for table, file in (
                (part, file) for batch, file in tables for part in self._cut(batch)
            ):
                with Blamed(Batch(table, file)):
                    block = self.block(table)
                yield block._replace(start=start)
                start += block.rows

    def _cut(self, table: DataTable) -> Generator[DataTable]:
        """Split a table into parts that give blocks of moderate size if groups have columns."""
        by_column = self._parts.bars and not self.apart
        if by_column:
            size = max(_NUMBERS // max(len(self.recipe.columns), 1), 1)
        else:
            size = len(table.rows)
        if size >= len(table.rows):
            yield table
            return
        for a in range(0, len(table.rows), size):
            yield table.take(np.arange(a, min(a + size, len(table.rows))))

    @cached_property
    def _parts(self) -> FormulaLayout:
        return parse_formula(self.recipe.formula)

    @cached_property
    def _memory(self) -> Memory:
        return read_state(self.recipe.state)

    @cached_property
    def _plain(self) -> tuple[str | None, ...] | None:
        """The columns of X as columns of the table (None for ones), if X has no other columns; else None."""
        names = [
            self._parts.factors[term[0]].column if len(term) == 1 else None
            for term in self._parts.terms
        ]
        if self._memory.levels or None in names or self._parts.bars:
            return None
        if self._parts.intercept:
            return (None, *names)
        return tuple(names)

    def block(self, table: DataTable) -> Block:
        """The block of these complete rows."""
        X = self._matrix(table)
        y = response_values(self._parts, table, self._memory, training=False)
        offset = None
        if self.recipe.added is not None:
            learned = self._memory.transforms
            offset = numeric(self.recipe.added, table, learned, training=False)[:, None]
        weights = weights_without_empty_trials(
            y, self._parts.counted, self._weights(table)
        )
        row_weights, precision = by_kind(self.kind, weights)
        block = Block(X, y, row_weights, offset, precision=precision)
        tally = self.selection.tally or Tally()
        rows = table.rows
        tally.orders.add(
            None if isinstance(y, np.ndarray) else tuple(y.categories.tolist())
        )
        if (
            weights is not None and (weights == 0).any()
        ):  # left out before their response is looked at
            tally.unused += int((weights == 0).sum())
            block = kept_rows(block, weights > 0)
            rows = rows[weights > 0]
        with rows_named(rows):
            if block.rows:
                return block._replace(y=self.encode(block.y))
            return block

    def _weights(self, table: DataTable) -> Array | None:
        if self.weights is None:
            return None
        return self.unit * row_weights(
            table.columns[self.weights], name=self.weights, kind=self.kind, table=table
        )

    def _matrix(self, table: DataTable) -> Array:
        if self._plain is None:
            X, columns, _ = lay_out_with_bars(
                self._parts, table, self._memory, training=False, lazy=self.apart
            )
            if columns != self.recipe.columns:
                raise DataError(
                    f"the formula {self.recipe.formula!r} makes other columns of these rows: {', '.join(columns)}"
                )
            return X
        X = np.empty((len(table.rows), len(self._plain)))
        few = np.empty((len(self._plain), _AT_ONCE))
        for start in range(0, len(X), _AT_ONCE):
            rows = slice(start, start + _AT_ONCE)
            part = few[:, : len(X[rows])]
            for j, name in enumerate(self._plain):
                if name is None:
                    part[j] = 1.0
                else:
                    part[j] = table.columns[name][rows]
            X[rows] = part.T
        return X


@dataclass(frozen=True)
class KeptBlocks:
    """All blocks of a small file as one block, which the first pass builds and keeps in memory.

    Each pass checks that the files have not changed since the model was made.
    """

    making: FormulaBlocks
    files: Files
    _kept: list[Block] = field(default_factory=list, compare=False, repr=False)

    def __call__(self) -> Generator[Block]:
        if not self._kept:
            self._kept.append(join_blocks(list(self.making())))
        self.files.require_unchanged()
        yield from self._kept


def join_blocks(blocks: list[Block]) -> Block:
    """Consecutive blocks as one.

    >>> join_blocks([Block(np.ones((2, 1)), np.zeros(2)), Block(np.ones((1, 1)), np.ones(1), start=2)]).y
    array([0., 0., 1.])
    """

    def whole(name: str) -> Array | None:
        parts = [part for block in blocks if (part := getattr(block, name)) is not None]
        return np.concatenate(parts) if parts else None

    arrays = {
        name: whole(name) for name in ("X", "y", "weights", "offset", "precision")
    }
    return Block(**arrays)  # type: ignore[arg-type]


class Blamed:
    """Add the file of the rows to a DataError."""

    def __init__(self, batch: Batch) -> None:
        self.batch = batch

    def __enter__(self) -> None:
        return None

    def __exit__(
        self, kind: object, error: BaseException | None, trace: object
    ) -> None:
        if isinstance(error, DataError):
            rows = self.batch.table.rows
            if len(rows):
                where = f"rows {rows[0]} to {rows[-1]} of {self.batch.file}"
            else:
                where = self.batch.file
            raise DataError(f"{where}: {error}") from None


def _is_finite(values: Any) -> bool:
    """Whether no value is missing or infinite; False also if only a check of the whole column can decide."""
    if not isinstance(values, np.ndarray):
        return bool((np.asarray(values.codes) >= 0).all())
    if values.dtype.kind == "f":
        return bool(np.isfinite(values).all())
    return values.dtype.kind in "iub"


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
        encode(
            np.asarray(values)
        )  # the same error, of rows where the above is one of levels
        raise
    return numbers[place]


def refuse_response(parts: FormulaLayout, table: DataTable) -> None:
    """Raise DataError for a response of times, or of values that are neither numbers nor categories."""
    if len(parts.outcome) == 1:
        name = parts.outcome[0].column
    else:
        name = None
    if name is not None and (kind := kind_of(table.columns[name])) in ("time", "other"):
        raise DataError(
            f"the response {name!r} holds {kind} values; a response holds numbers, truth values or categories"
        )
