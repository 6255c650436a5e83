"""Rows in parts: the files or arrays that this process reads are one part, the partitions of a dask collection several.

A pass calls a function on each part in the process that has it, and adds up the results.
"""

from collections.abc import Callable, Iterable
from dataclasses import dataclass
from functools import partial
from typing import Any, NamedTuple

from probreg.data.blocks.block import Block
from probreg.data.blocks.cluster import Partitions
from probreg.data.blocks.stream import one_pass
from probreg.data.blocks.survey import Tally
from probreg.errors import DataError

# rows that each part is assumed to have where their number is unknown; odd, so that multiples of 2 fall on other rows of the next part
ASSUMED_ROWS = 1_000_003


@dataclass(frozen=True, eq=False)
class LocalPart:
    """One part, which this process reads; `progress` as in `one_pass`."""

    part: Any
    name: str
    progress: bool | None = None

    def reduce(
        self, fn: Callable[[int, Any], Any], add: Callable[[Any, Any], Any]
    ) -> Any:
        """Return fn of the part."""
        return fn(0, self.part)


Parts = LocalPart | Partitions
# makes the blocks of a part from its number and the part, and counts the rows left out
PartBlocks = Callable[[int, Any, Tally], Iterable[Block]]


class PartsPass(NamedTuple):
    """The result of a pass, the number of its rows, and the counts of rows that were left out."""

    total: Any
    rows: int
    tally: Tally


def pass_over(
    parts: Parts,
    blocks: PartBlocks,
    fn: Callable[[Block], Any],
    add: Callable[[Any, Any], Any],
    rows: int | None = None,
) -> PartsPass:
    """Apply fn to every block of every part and combine the results by `add`; the total is None if there is no block."""
    bar = {"name": parts.name, "rows": rows, "progress": parts.progress}
    return parts.reduce(
        partial(_pass_over_part, blocks, fn, add, bar), partial(_join_passes, add)
    ) or PartsPass(None, 0, Tally())


def _pass_over_part(
    blocks: PartBlocks, fn: Callable[[Block], Any], add: Callable[[Any, Any], Any], bar: dict[str, Any],
    number: int, part: Any,
) -> PartsPass:  # fmt: skip
    tally = Tally()
    total, rows = one_pass(blocks(number, part, tally), fn, add, **bar)
    return PartsPass(total, rows, tally)


def _join_passes(
    add: Callable[[Any, Any], Any], a: PartsPass, b: PartsPass
) -> PartsPass:
    totals = [x.total for x in (a, b) if x.total is not None]
    total = add(*totals) if len(totals) == 2 else next(iter(totals), None)
    return PartsPass(total, a.rows + b.rows, a.tally + b.tally)


@dataclass(frozen=True, eq=False)
class RowsInParts:
    """Rows that are not in memory.

    `sample` contains at most SAMPLE evenly spaced rows, `weight` is the number of observations (the sum of frequency weights, else `n`).
    """

    parts: Parts
    blocks: PartBlocks
    n: int
    weight: float
    sample: Block

    @property
    def name(self) -> str:
        """A description of the parts."""
        return self.parts.name

    def sum_over_rows(
        self, fn: Callable[[Block], Any], add: Callable[[Any, Any], Any]
    ) -> Any:
        """Return add(... add(fn(first block), fn(second block)) ..., fn(last block)): one pass over all rows, in their order.

        DataError if the number of rows changed since the model was made."""
        result = pass_over(self.parts, self.blocks, fn, add, self.n)
        if result.rows != self.n:
            raise DataError(
                f"{self.name} held {self.n} rows when the model was made and holds {result.rows} now"
            )
        return result.total
