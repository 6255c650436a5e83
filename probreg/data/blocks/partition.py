"""One partition of a dask DataFrame on its worker, read like a file."""

from collections.abc import Generator, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from probreg.data.blocks.files import Batch, Files
from probreg.data.blocks.parts import LocalPart, Parts
from probreg.data.formula.columns import (
    DataTable,
    _from_series,
    distinct_names,
    kind_of,
)


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

    def parts(self, names: Sequence[str]) -> Parts:
        """The rows as one part."""
        return LocalPart(self, self.name)


Tables = Files | Partition  # rows with named columns that are read a batch at a time


def tables_of(part: Any, number: int) -> Tables:
    """Return a part that can be read in batches: files themselves, a data frame as `Partition`."""
    if hasattr(part, "batches"):
        return part
    return Partition(part, f"partition {number}")


def _values(series: Any) -> Any:
    """Return a column in the form that `DataTable` uses; text becomes a categorical without a declared order, as from files."""
    import pandas as pd

    values = _from_series(series)
    if kind_of(values) == "text":
        return pd.Categorical(values)
    return values
