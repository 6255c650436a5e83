"""Comparison of models of the same data: information criteria, leave-one-out, stacking."""
