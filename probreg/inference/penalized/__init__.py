"""Modes under penalties with kinks: coordinate descent, proximal Newton, regularisation paths."""
