"""Posteriors by draws: NUTS, importance sampling, the Laplace approximation, and what their chains say."""
