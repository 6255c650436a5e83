"""Arithmetic without statistics: linear algebra and compiled loops."""
