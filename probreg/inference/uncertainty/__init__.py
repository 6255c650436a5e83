"""Uncertainty of an estimate: covariances, profiles, bootstrap replicates, kinds of intervals."""
