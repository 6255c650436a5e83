"""Rows in parts: the files or arrays that this process reads are one part, the partitions of a dask collection several.

A pass calls a function on each part in the process that has it, and adds up the results.

Dask manages the partitions: it uses partitions in the memory of its workers directly, and rereads partitions from files in
each pass. A tree of dask tasks adds the sums in the order of the partitions, so that they do not
depend on which worker finishes first. Without a cluster the same tasks run on dask's own threads.
"""

import pickle
from collections.abc import Callable, Generator, Iterator
from contextlib import closing, contextmanager
from dataclasses import dataclass
from functools import partial, reduce
from typing import Any, NamedTuple

from probreg.data.blocks.block import Block
from probreg.data.blocks.survey import Tally
from probreg.errors import DataError, Incompatible, ProbregError
from probreg.formula.text import first_line
from probreg.linalg import limit_threads, one_blas_thread
from probreg.system.terminal import progress_bar


@dataclass(frozen=True, eq=False)
class Partitions:
    """Partitions of rows in their order, as dask's delayed values; `client` is the cluster's, None for dask's default."""

    parts: tuple[Any, ...]
    name: str
    client: Any = None
    progress = False

    def reduce(
        self, fn: Callable[[int, Any], Any], add: Callable[[Any, Any], Any]
    ) -> Any:
        """Return add(... add(fn(0, first), fn(1, second)) ..., fn(k, last)), computed where the partitions are.

        Results that are None are left out; None if all are. A ProbregError from fn is
        raised unchanged; lost or failed workers raise ProbregError. An interrupt
        cancels the tasks.
        """
        fan_in = 8  # results that one task of the tree combines
        delayed = dask().delayed
        # pickled once, as bytes: if a worker cannot load a function, then its task fails, not the transport
        task, joint = (
            delayed(_pickle_function(f), pure=False, traverse=False)
            for f in (fn, partial(_put_together, add))
        )
        call = delayed(_call_pickled, pure=False)
        level = [call(task, number, part) for number, part in enumerate(self.parts)]
        while len(level) > 1:
            level = [
                call(joint, *level[i : i + fan_in])
                for i in range(0, len(level), fan_in)
            ]
        return self.result(level[0]) if level else None

    def result(self, value: Any) -> Any:
        """Compute a delayed value. Errors as in `reduce`."""
        with (
            translate_worker_errors(self.name),
            one_blas_thread(),
        ):  # kept here too, for workers that are threads of this process
            if self.client is None:
                return value.compute()
            future = self.client.compute(value)
            try:
                return future.result()
            except BaseException:
                future.cancel()
                raise


def dask() -> Any:
    """Import dask; raise Incompatible if it is not installed."""
    try:
        import dask
    except ImportError:
        raise Incompatible(
            "rows on a cluster need dask, which is not installed: pip install 'dask[dataframe]' distributed (files on this machine are "
            "read without it by Model.from_parquet)"
        ) from None
    return dask


@contextmanager
def translate_worker_errors(name: str) -> Iterator[None]:
    """Raise errors of dask or its workers as a ProbregError with an explanation; the cause stays attached."""
    try:
        yield
    except ProbregError:
        raise
    except Exception as error:
        raise ProbregError(
            f"{name}: a task failed on the workers, which need memory and the same probreg, files and packages as this process; if the "
            f"cluster was lost, start a new client and build the model again ({type(error).__name__}: {first_line(error)})"
        ) from error


# ---- on the worker ---------------------------------------------------------------------------------------------------


def _pickle_function(fn: Any) -> bytes:
    import cloudpickle

    return bytes(cloudpickle.dumps(fn))


def _call_pickled(packed: bytes, *values: Any) -> Any:
    """Call a function in one thread, because dask runs one partition per thread of a worker."""
    with limit_threads(1), one_blas_thread():
        return pickle.loads(packed)(*values)


def _put_together(add: Callable[[Any, Any], Any], *results: Any) -> Any:
    """Combine the results that are not None, in their order; None if there are none."""
    values = [value for value in results if value is not None]
    return reduce(add, values) if values else None


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
        # sums over a block use other threads
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
