"""Rows that are not in memory: blocks, files, memory maps, dask."""
