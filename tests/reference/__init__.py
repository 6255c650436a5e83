"""Certified numbers: published tables, exact rational arithmetic and MCMC-free posteriors, one file per folder of them."""
