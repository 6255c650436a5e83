"""Generalisation bounds of a fit on new rows, with their theorems and assumptions."""
