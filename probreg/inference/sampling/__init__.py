"""Posteriors by draws: NUTS, importance sampling, the Laplace approximation, and the
diagnostics of their chains."""
