"""Intervals of an estimate or a posterior: the arithmetic, and the kinds that a
solution has.

Each module imports only from earlier ones: arithmetic, marginals, kinds.
"""
