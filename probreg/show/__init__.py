"""Plots, reports and the command line."""
