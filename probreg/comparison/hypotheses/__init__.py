"""Hypotheses on a fit: `dispatch` parses the text and chooses the test.

`point_estimate` has the tests of coefficients and of each term of a formula, with `restricted` for fits under the hypothesis;
`posterior` has probabilities of hypotheses, and `scales` the hypotheses on standard deviations and correlations of effects by group.
"""
