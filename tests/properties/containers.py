"""One data frame as every kind of table that a model is made of, and the models of each."""

import numpy as np
import pandas as pd

import probreg as pr


def _objects(frame):
    return frame.astype(object)


def _lists(frame):
    return {name: frame[name].tolist() for name in frame}


def _arrays(frame):
    return {
        name: frame[name].to_numpy(dtype=object if frame[name].isna().any() else None)
        for name in frame
    }


def _nullable(frame):
    return frame.convert_dtypes()


def _arrow_types(frame):
    return frame.convert_dtypes(dtype_backend="pyarrow")


def _arrow(frame):
    import pyarrow as pa

    return pa.Table.from_pandas(frame, preserve_index=False)


def _polars(frame):
    import polars

    return polars.from_pandas(frame)


def _xarray(frame):
    import xarray as xr

    return xr.Dataset({name: ("row", frame[name].to_numpy()) for name in frame})


TABLES = {
    "pandas": lambda frame: frame,
    "objects": _objects,
    "lists": _lists,
    "arrays": _arrays,
    "nullable": _nullable,
    "arrow types": _arrow_types,
    "arrow": _arrow,
    "polars": _polars,
    "xarray": _xarray,
}
FILES = {
    "csv": lambda frame, path: frame.to_csv(path, index=False),
    "tsv": lambda frame, path: frame.to_csv(path, index=False, sep="\t"),
    "parquet": lambda frame, path: frame.to_parquet(path),
    "feather": lambda frame, path: frame.to_feather(path),
}


def table(frame, kind):
    """The frame as a table in memory of this kind."""
    return TABLES[kind](frame)


def model(formula, frame, kind, folder, **options):
    """The model of a formula at the frame as a container of this kind: a table, a file, or a dask frame."""
    if kind in TABLES:
        return pr.Model.from_formula(formula, TABLES[kind](frame), **options)
    if kind == "dask":
        import dask.dataframe as dd

        return pr.Model.from_dask(
            formula, dd.from_pandas(frame, npartitions=2), **options
        )
    path = folder / f"rows.{kind}"
    FILES[kind](frame, path)
    return pr.Model.from_files(formula, path, **options)


EVERY = [*TABLES, *FILES, "dask"]


def with_missing(frame, name, where):
    """The frame in which some values of a column are missing, and no other value has changed."""
    column = frame[name].astype(object).to_numpy().copy()
    column[np.asarray(where)] = None
    kind = {"i": "Int64", "u": "UInt64", "b": "boolean"}.get(
        frame[name].dtype.kind, object
    )
    return frame.assign(**{name: pd.array(column, dtype=kind)})
