"""Formulas, hypotheses and calls as text: each is read by Python's `ast` and checked node by node; nothing is evaluated."""
