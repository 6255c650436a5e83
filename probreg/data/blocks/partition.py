"""One partition of rows on its worker: read like a file, converted to blocks, and scanned before the model is built."""

from collections.abc import Callable, Generator, Iterator, Sequence
from dataclasses import dataclass, replace
from typing import Any

import numpy as np

from probreg.data.blocks.batches import FormulaBlocks, Selection, Tally
from probreg.data.blocks.block import SAMPLE, Block
from probreg.data.blocks.cluster import put_together
from probreg.data.blocks.files import Batch, Files, Tables
from probreg.data.blocks.groups import GroupsSeen
from probreg.data.blocks.learning import Seen
from probreg.data.blocks.slices import ArrayBlocks
from probreg.data.blocks.survey import Orders, Survey
from probreg.data.formula.columns import (
    DataTable,
    _from_series,
    kind_of,
    repeated_names,
)
from probreg.errors import DataError

_NUMBERS = 2**22  # numbers of a partition that become a block at a time: 32 MB
_APART = 1_000_003  # odd: rows of a partition that is numbered by it fall on other multiples of 2 than its neighbour's


@dataclass(frozen=True, eq=False)
class Partition:
    """A partition of a data frame on its worker, read like a file: `rows` are numbered from 0 in each partition."""

    frame: Any
    name: str

    def names(self) -> tuple[str, ...]:
        """The columns. DataError for names that repeat."""
        names = tuple(map(str, self.frame.columns))
        twice = repeated_names(names)
        if twice:
            raise DataError(
                f"the DataFrame has more than one column called {', '.join(map(repr, twice))}; rename them"
            )
        return names

    def declared_order(self, name: str) -> bool:
        """Whether a column is a category with declared order of its levels."""
        import pandas as pd

        kind = self.frame.dtypes.iloc[self.names().index(name)]
        ordered = isinstance(kind, pd.ArrowDtype) and getattr(
            kind.pyarrow_dtype, "ordered", False
        )  # a dictionary's
        return isinstance(kind, pd.CategoricalDtype) or bool(ordered)

    def batches(self, names: Sequence[str]) -> Generator[Batch]:
        """Yield the rows of the columns, which are the frame's columns in the frame's order."""
        size = max(_NUMBERS // max(len(names), 1), 1024)
        for a in range(0, len(self.frame), size):
            rows = self.frame.iloc[a : a + size]
            columns = {name: _values(rows.iloc[:, j]) for j, name in enumerate(names)}
            yield Batch(DataTable(columns, np.arange(a, a + len(rows))), self.name)


def tables_of(part: Any, number: int) -> Tables:
    """Return a partition that can be read in batches: a file itself, a data frame as `Partition`."""
    if isinstance(part, Files):
        return part
    return Partition(part, f"partition {number}")


def _values(series: Any) -> Any:
    """Return a column in the form that `DataTable` uses; text becomes a categorical without a declared order, as from files."""
    import pandas as pd

    if isinstance(series.dtype, pd.StringDtype):
        return series.astype("category").array
    values = _from_series(series)
    if kind_of(values) == "text":
        return pd.Categorical(values)
    return values


@dataclass(frozen=True)
class FormulaParts:
    """The blocks that a recipe makes of a partition; `starts` are the numbers of the partitions' first rows, if known."""

    making: FormulaBlocks
    starts: tuple[int, ...] | None = None

    def __call__(self, number: int, part: Any) -> Iterator[Block]:
        selection = replace(self.making.selection, files=tables_of(part, number))
        return _from(
            _start(self.starts, number), replace(self.making, selection=selection)()
        )

    def with_tally(self, tally: Tally) -> "FormulaParts":
        """Return the same blocks, with counts of the rows left out."""
        return replace(
            self,
            making=replace(
                self.making, selection=replace(self.making.selection, tally=tally)
            ),
        )


@dataclass(frozen=True)
class ArrayParts:
    """The blocks of a partition of arrays (X, y, weights, offset)."""

    making: ArrayBlocks

    def __call__(self, number: int, part: Any) -> Iterator[Block]:
        try:
            yield from _from(
                _start(None, number), replace(self.making, parts=lambda: [part])()
            )
        except DataError as error:
            message = str(error).removeprefix("block 0, whose rows start at row 0: ")
            raise DataError(
                f"partition {number} of {self.making.name}: {message}"
            ) from None

    def with_tally(self, tally: Tally) -> "ArrayParts":
        """The same: nothing is left out but rows of weight zero."""
        return self


OfPart = FormulaParts | ArrayParts


def _start(starts: tuple[int, ...] | None, number: int) -> int:
    if starts is None:
        return number * _APART
    return starts[number]


def _from(start: int, blocks: Iterator[Block]) -> Iterator[Block]:
    """Return the blocks that have rows, numbered after `start` earlier rows."""
    return (block._replace(start=start + block.start) for block in blocks if block.rows)


# ---- scans before the model is built ---------------------------------------------------------------------------------


def complete_rows(selection: Selection, number: int, part: Any) -> dict[int, int]:
    """The number of complete rows of a partition."""
    selected = replace(selection, files=tables_of(part, number))
    return {number: sum(len(table.rows) for table, _ in selected.tables())}


def seen_in(
    selection: Selection,
    new: Seen,
    starts: tuple[int, ...] | None,
    number: int,
    part: Any,
) -> Seen:
    """Return the levels, evenly spaced rows and extreme values of one partition."""
    start = _start(starts, number)
    seen = Seen(
        new.factors, new.watched, rows=start, groups=GroupsSeen(new.groups.groups)
    )  # of its own: tasks of one process share `new`
    for table, _ in replace(selection, files=tables_of(part, number)).tables():
        seen.add(table)
    return replace(seen, rows=seen.rows - start)


def seen_by_both(a: Seen, b: Seen) -> Seen:
    """Combine the results of two sets of rows, the second after the first."""
    levels = {
        text: a.levels.get(text, {}) | b.levels.get(text, {}) for text in a.factors
    }
    declared = {text: _same(a, b, text) for text in a.factors}
    ends = dict(a.extremes)
    for (name, low), extreme in b.extremes.items():
        have = ends.get((name, low))
        if have is None or (extreme[0] < have[0] if low else extreme[0] > have[0]):
            ends[name, low] = extreme
    held = [*a.held, *b.held]
    stride = max(a.stride, b.stride)
    while sum(int((index % stride == 0).sum()) for index, _ in held) > SAMPLE:
        stride *= 2
    held = [
        (i[k], t.take(k)) for i, t in held if len(k := np.flatnonzero(i % stride == 0))
    ]
    index = np.concatenate([np.zeros(0, dtype=np.int64), *(i for i, _ in held)])
    groups = a.groups.joined(b.groups)
    return Seen(
        a.factors,
        a.watched,
        a.rows + b.rows,
        stride,
        index,
        levels,
        declared,
        held,
        ends,
        groups,
    )


def _same(a: Seen, b: Seen, text: str) -> tuple[Any, ...] | None:
    """The declared levels of a factor where all rows agree on them."""
    orders = [seen.declared[text] for seen in (a, b) if text in seen.declared]
    if orders and all(order == orders[0] for order in orders):
        return orders[0]
    return None


def survey_in(
    parts: OfPart, fn: Callable[[Block], Survey], number: int, part: Any
) -> tuple[Survey | None, Tally]:
    """Return the survey of a partition with the counts of rows left out."""
    tally = Tally()
    surveys = [fn(block) for block in parts.with_tally(tally)(number, part)]
    return put_together(Survey.__add__, *surveys), tally


def surveyed_both(
    a: tuple[Survey | None, Tally], b: tuple[Survey | None, Tally]
) -> tuple[Survey | None, Tally]:
    """Combine the results of two partitions."""
    missing = {
        name: a[1].missing.get(name, 0) + b[1].missing.get(name, 0)
        for name in a[1].missing | b[1].missing
    }
    orders = Orders(a[1].orders.met | b[1].orders.met)
    tally = Tally(
        a[1].rows + b[1].rows,
        a[1].lost + b[1].lost,
        missing,
        a[1].unused + b[1].unused,
        orders,
    )
    return put_together(Survey.__add__, a[0], b[0]), tally
