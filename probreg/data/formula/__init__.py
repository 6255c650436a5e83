"""Formulas: their grammar, their columns, and the state that they learn from the training rows."""
