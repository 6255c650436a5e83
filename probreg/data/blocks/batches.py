"""Convert batches of a file to blocks of rows, with the same columns as from the whole table."""

from collections.abc import Callable, Generator, Mapping
from contextlib import closing
from dataclasses import dataclass, field
from typing import Any, NamedTuple

import numpy as np

from probreg.data.blocks.block import Array, Block, encode_block, join_blocks
from probreg.data.blocks.files import Files
from probreg.data.blocks.partition import Tables, tables_of
from probreg.data.blocks.survey import Tally
from probreg.data.checked_arrays import weights_without_empty_trials
from probreg.data.formula.columns import DataTable, kind_of, missing_values
from probreg.data.formula.layout import numeric
from probreg.data.formula.recipe import (
    Recipe,
    make_columns,
    response_values,
    rows_with_trials,
)
from probreg.data.rows import (
    Missing,
    complete,
    missing_by_column,
    refuse_infinite,
    row_weights,
    rows_that_count,
)
from probreg.data.weights import WeightKind
from probreg.errors import DataError, prefix_errors
from probreg.formula.terms import FormulaLayout

Encode = Callable[[Array], Array]
_NUMBERS = 2**22  # numbers in a block with columns of groups: 32 MB


@dataclass(frozen=True)
class Selection:
    """The columns that a model reads, and which rows count.

    `kinds` gives the type of each column (numbers, text, ...) in the first rows; later rows must have the same type. Rows of weight 0
    are treated as absent, and so are rows without trials of the response: `weights` is the column of weights.
    """

    names: tuple[str, ...]
    missing: Missing
    kinds: Mapping[str, str]
    layout: FormulaLayout
    weights: str | None = None

    def tables(
        self, files: Tables, tally: Tally | None = None
    ) -> Generator[tuple[DataTable, str]]:
        """The complete rows of each batch that has any, and its file. DataError names file, column, row and value."""
        tally = tally or Tally()
        with closing(files.batches(self.names)) as batches:
            for table, file in batches:
                with prefix_errors(_place_of(table, file)):
                    tally.rows += len(table.rows)
                    counted = rows_that_count(
                        table, self.weights, self.layout.count_columns
                    )
                    tally.unused += int((~counted).sum())
                    part = table if counted.all() else table.part(counted)
                    if len(part.rows):
                        self._require_same_kinds(part)
                        part = self._complete(part, tally)
                        has_trials = rows_with_trials(self.layout, part)
                        if not has_trials.all():
                            tally.unused += int((~has_trials).sum())
                            part = part.part(has_trials)
                if len(part.rows):
                    yield part, file

    def _complete(self, table: DataTable, tally: Tally) -> DataTable:
        missing = missing_by_column(table)
        if missing and self.missing == "drop":
            dropped = np.logical_or.reduce(list(missing.values()))
            tally.dropped += int(dropped.sum())
            tally.missing.update({name: int(m.sum()) for name, m in missing.items()})
            table = table.part(~dropped)
        table = complete(table, "raise", self.layout.end_columns)[0]
        refuse_infinite(table.without(self.layout.end_columns))
        return table

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


def _place_of(table: DataTable, file: str) -> str:
    """Describe the rows of a table and their file."""
    rows = table.rows
    return f"rows {rows[0]} to {rows[-1]} of {file}" if len(rows) else file


class TableBlock(NamedTuple):
    """Complete rows of a part: `start` is the number of the first row, and `number` that of the part."""

    table: DataTable
    start: int
    number: int
    file: str

    @property
    def rows(self) -> int:
        """Number of rows."""
        return len(self.table.rows)


@dataclass(frozen=True)
class TableBlocks:
    """The complete rows of a part, batch by batch; `starts` are the numbers of the parts' first rows, if known."""

    selection: Selection
    starts: tuple[int, ...] | None = None

    def __call__(self, number: int, part: Any, tally: Tally) -> Generator[TableBlock]:
        # odd, so that multiples of 2 fall on other rows of the next part
        assumed_rows = 1_000_003  # of a part, where their number is unknown
        start = number * assumed_rows if self.starts is None else self.starts[number]
        with closing(self.selection.tables(tables_of(part, number), tally)) as selected:
            for table, file in selected:
                yield TableBlock(table, start, number, file)
                start += len(table.rows)


@dataclass(frozen=True)
class FormulaBlocks:
    """The blocks that a recipe makes of the rows of a part; each call starts a pass.

    `encode` turns response values into numbers; `weights` names a column. Rows without trials are left out.
    """

    tables: TableBlocks
    recipe: Recipe
    encode: Encode
    kind: WeightKind = "frequency"
    # factor of the weights, so that sampling weights sum to the number of rows
    unit: float = 1.0
    lazy: bool = False  # whether columns of groups are implicit

    def __call__(self, number: int, part: Any, tally: Tally) -> Generator[Block]:
        start = None
        with closing(self.tables(number, part, tally)) as tables:
            for whole in tables:
                if start is None:
                    start = whole.start
                for table in self._cut(whole.table):
                    with prefix_errors(_place_of(table, whole.file)):
                        block = self.block(table, tally)
                    yield block._replace(start=start)
                    start += block.rows

    def _cut(self, table: DataTable) -> Generator[DataTable]:
        """Split a table into parts that give blocks of moderate size if groups have columns."""
        by_column = self.recipe.layout.bars and not self.lazy
        if by_column:
            size = max(_NUMBERS // max(len(self.recipe.columns), 1), 1)
        else:
            size = len(table.rows)
        if size >= len(table.rows):
            yield table
            return
        for a in range(0, len(table.rows), size):
            yield table.part(np.arange(a, min(a + size, len(table.rows))))

    def block(self, table: DataTable, tally: Tally) -> Block:
        """The block of these complete rows."""
        X, _, _ = make_columns(
            self.recipe.layout,
            table,
            self.recipe.memory,
            lazy=self.lazy,
        )
        y = response_values(self.recipe.layout, table, self.recipe.memory)
        offset = None
        if self.recipe.offset_expression is not None:
            offset = numeric(self.recipe.offset_expression, table, self.recipe.memory)[
                :, None
            ]
        weights = weights_without_empty_trials(
            y, self.recipe.layout.counted, self._weights(table)
        )
        tally.orders.add(
            None if isinstance(y, np.ndarray) else tuple(y.categories.tolist())
        )
        if weights is not None:
            tally.unused += int((weights == 0).sum())
        block = Block(X, y, None, offset)
        return encode_block(block, weights, self.kind, self.encode, table.rows)

    def _weights(self, table: DataTable) -> Array | None:
        name = self.tables.selection.weights
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
        encode(
            np.asarray(values)
        )  # the same error, of rows where the above is one of levels
        raise
    return numbers[place]
