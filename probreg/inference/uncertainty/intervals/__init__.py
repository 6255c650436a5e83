"""Intervals of an estimate or a posterior: the arithmetic, and which of them a solution has.

A file imports only from those before it: arithmetic, marginals, kinds.
"""
