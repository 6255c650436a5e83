"""Arithmetic that knows no statistics: linear algebra and compiled loops."""
