"""Hypotheses on a fit: `dispatch` parses the text, and each kind of test has its own module.

`point_estimate` (by `restricted`) and `posterior` test coefficients, `scales` standard deviations and correlations of
effects by group, `linearity` smooth functions, and `term_tests` each term of a formula.
"""

from probreg.comparison.hypotheses.dispatch import hypothesis as hypothesis
from probreg.comparison.hypotheses.result import Hypothesis as Hypothesis, Test as Test
from probreg.comparison.hypotheses.term_tests import anova as anova
