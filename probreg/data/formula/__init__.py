"""Formulas: one grammar, its columns, and what they remember of their training rows."""
