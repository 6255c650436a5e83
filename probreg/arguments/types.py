"""Types of public arguments and results, under the names that editors and type checkers show.

At run time each type is Any: the functions that read data report invalid values with row and column, and the tables and
labelled arrays come from packages that are imported on use.
"""

from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from collections.abc import Mapping

    import numpy as np
    from matplotlib.figure import Figure as Figure
    from narwhals.typing import IntoDataFrame
    from numpy.typing import ArrayLike as ArrayLike, NDArray
    from pandas import DataFrame as DataFrame
    from xarray import DataArray as DataArray, Dataset as Dataset, DataTree as DataTree

    # A table: pandas, polars, arrow, or a mapping from names to columns.
    TableLike = IntoDataFrame | Mapping[str, Any]
    # Rows: a table, as a formula reads it, or a matrix X.
    RowsLike = TableLike | ArrayLike
    # A covariance of coefficients: the name of a kind, or a result of `Fit.covariance`.
    CovarianceLike = str | DataArray
    FloatArray = NDArray[np.float64]
else:
    ArrayLike = TableLike = RowsLike = CovarianceLike = FloatArray = DataArray = (
        Dataset
    ) = DataTree = DataFrame = Figure = Any
