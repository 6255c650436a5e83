"""Priors as other packages spell their penalties."""
