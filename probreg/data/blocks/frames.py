"""Collections of dask as partitions of rows: data frames."""

from collections.abc import Generator, Sequence
from dataclasses import dataclass
from typing import Any

from probreg.arguments.arrays import brief
from probreg.data.blocks.cluster import Partitions, dask
from probreg.data.blocks.files import Batch
from probreg.data.blocks.partition import Partition
from probreg.errors import DataError, Incompatible


@dataclass(frozen=True, eq=False)
class TableRows(Partition):
    """A dask DataFrame in place of files; only the first rows of each partition are transferred to this process.

    `complete` drops rows with missing values from them.
    """

    client: Any
    complete: bool

    def parts(self, names: Sequence[str]) -> Partitions:
        """The partitions with these columns only."""
        columns = dict(zip(self.names(), self.frame.columns))
        return Partitions(
            tuple(self.frame[[columns[name] for name in names]].to_delayed()),
            self.name,
            self.client,
        )

    def batches(self, names: Sequence[str]) -> Generator[Batch]:
        """Yield the first rows of each partition in turn."""
        partitions = self.parts(names)
        first = dask().delayed(_first_rows, pure=False)
        for number, part in enumerate(partitions.parts):
            yield from Partition(
                partitions.result(first(part, self.complete)), f"partition {number}"
            ).batches(names)


def _first_rows(frame: Any, complete: bool) -> Any:
    first_rows = 100  # rows of a partition that determine the types of its columns
    return (frame.dropna() if complete else frame).head(first_rows)


def frame_of(data: Any, client: Any, *, complete: bool) -> TableRows:
    """Return the partitioned table of a dask DataFrame.

    DataError for anything else. Incompatible for an invalid client, or if a package is not installed.
    """
    dask()
    _check_client(client)
    try:
        from dask import dataframe
    except ImportError as error:
        raise Incompatible(
            f"a dask DataFrame needs a package that is not installed: {error}"
        ) from None
    if not isinstance(data, dataframe.DataFrame):
        raise DataError(
            f"met {type(data).__module__}.{type(data).__qualname__}; a dask DataFrame is taken: of files dask.dataframe.read_parquet, of "
            "arrays dask.dataframe.from_dask_array, for a table in memory Model.from_formula"
        )
    name = f"a dask DataFrame of {data.npartitions} partition{'s' * (data.npartitions != 1)}"
    return TableRows(data, name, client, complete)


def _check_client(client: Any) -> None:
    """Raise Incompatible unless it is None or a client of distributed that runs and answers at once."""
    if client is None:
        return
    if (
        getattr(client, "asynchronous", True)
        or getattr(client, "status", None) != "running"
    ):
        raise Incompatible(
            f"client is a running dask.distributed.Client that is not asynchronous, got {brief(client)}"
        )
