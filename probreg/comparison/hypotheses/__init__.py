"""Hypotheses on a fit: `dispatch` parses the text, and each kind of test has its own module.

`point_estimate` (by `restricted`) and `posterior` test coefficients, `posterior` also standard deviations and correlations of
effects by group, and `point_estimate` each term of a formula.
"""
