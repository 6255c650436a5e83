"""Saved fits: one netCDF file with a schema and a digest."""
