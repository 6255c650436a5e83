"""Rows that are not in memory: blocks, files, dask."""
