"""Data frames of dask: workers read their partitions like files."""

from collections.abc import Generator, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from probreg.arguments.arrays import brief
from probreg.data.blocks.files import Batch, Files
from probreg.data.blocks.parts import Partitions, dask
from probreg.data.formula.columns import (
    DataTable,
    _from_series,
    distinct_names,
    kind_of,
)
from probreg.errors import DataError, Incompatible


@dataclass(frozen=True, eq=False)
class Partition:
    """A partition of a data frame on its worker: `rows` are numbered from 0 in each partition."""

    frame: Any
    name: str

    def names(self) -> tuple[str, ...]:
        """The columns. DataError for names that repeat."""
        return distinct_names(self.frame.columns, "the DataFrame")

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
        max_numbers = 2**22  # in a batch: 32 MB
        size = max(max_numbers // max(len(names), 1), 1024)
        for a in range(0, len(self.frame), size):
            rows = self.frame.iloc[a : a + size]
            columns = {name: _values(rows.iloc[:, j]) for j, name in enumerate(names)}
            yield Batch(DataTable(columns, np.arange(a, a + len(rows))), self.name)


@dataclass(frozen=True, eq=False)
class TableRows(Partition):
    """A dask DataFrame in place of files; only the first rows of each partition are transferred to this process.

    They are rows without missing values in the columns `required`.
    """

    client: Any
    required: tuple[str, ...] = ()

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
        labels = dict(zip(self.names(), self.frame.columns))
        required = [labels[name] for name in names if name in self.required]
        first = dask().delayed(_first_rows, pure=False)
        for number, part in enumerate(partitions.parts):
            yield from Partition(
                partitions.result(first(part, required)), f"partition {number}"
            ).batches(names)


Tables = Files | TableRows  # rows with named columns that are read a batch at a time


def tables_of(part: Any, number: int) -> Tables | Partition:
    """Return a part that can be read in batches: files themselves, a data frame as `Partition`."""
    if hasattr(part, "batches"):
        return part
    return Partition(part, f"partition {number}")


def _first_rows(frame: Any, required: list[Any]) -> Any:
    first_rows = 100  # rows of a partition that determine the types of its columns
    return (frame.dropna(subset=required) if required else frame).head(first_rows)


def frame_of(data: Any, client: Any) -> TableRows:
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
    return TableRows(data, name, client)


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


def _values(series: Any) -> Any:
    """Return a column in the form that `DataTable` uses; text becomes a categorical without a declared order, as from files."""
    import pandas as pd

    values = _from_series(series)
    if kind_of(values) == "text":
        return pd.Categorical(values)
    return values
