"""Rows in parts: the files or arrays that this process reads are one part, the partitions of a dask collection several.

A pass calls a function on each part in the process that has it, and adds up the results.
"""

from collections.abc import Callable, Generator
from contextlib import closing
from dataclasses import dataclass
from typing import Any, NamedTuple

from probreg.data.blocks.block import Block
from probreg.data.blocks.cluster import Partitions
from probreg.data.blocks.survey import Tally
from probreg.errors import DataError
from probreg.linalg import one_blas_thread
from probreg.system.progress import progress_bar


@dataclass(frozen=True, eq=False)
class LocalPart:
    """One part, which this process reads; `progress` shows a bar: None after a second, at a terminal or in a notebook."""

    part: Any
    name: str
    progress: bool | None = None

    def reduce(
        self, fn: Callable[[int, Any], Any], add: Callable[[Any, Any], Any]
    ) -> Any:
        """Return fn of the part."""
        return fn(0, self.part)


Parts = LocalPart | Partitions
# makes the blocks of a part, with their number of `rows`, from its number and the part, and counts the rows left out
PartBlocks = Callable[[int, Any, Tally], Generator[Any]]


class PartsPass(NamedTuple):
    """The result of a pass, the number of its rows, and the counts of rows that were left out."""

    total: Any
    rows: int
    tally: Tally


def pass_over(
    parts: Parts,
    blocks: PartBlocks,
    fn: Callable[[Any], Any],
    add: Callable[[Any, Any], Any],
    rows: int | None = None,
) -> PartsPass:
    """Apply fn to every block of every part and combine the results by `add`; the total is None if there is no block."""
    # workers receive the function without the other parts
    name = parts.name
    progress = parts.progress

    def pass_over_part(number: int, part: Any) -> PartsPass:
        tally = Tally()
        total, done = None, 0
        # sums over a block use threads of their own
        with (
            one_blas_thread(),
            progress_bar(f"{name}, rows", rows, show=progress) as bar,
            closing(blocks(number, part, tally)) as made,
        ):
            for block in made:
                if block.rows:  # none if, for example, all rows have weight zero
                    value = fn(block)
                    total = value if total is None else add(total, value)
                    done += block.rows
                    bar.advance(block.rows)
        return PartsPass(total, done, tally)

    def join(a: PartsPass, b: PartsPass) -> PartsPass:
        totals = [x.total for x in (a, b) if x.total is not None]
        total = add(*totals) if len(totals) == 2 else next(iter(totals), None)
        return PartsPass(total, a.rows + b.rows, a.tally + b.tally)

    return parts.reduce(pass_over_part, join) or PartsPass(None, 0, Tally())


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
