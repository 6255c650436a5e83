"""Hypotheses on a fit: `dispatch` reads the text, and one file for each kind of test answers it.

`point_estimate` (by `restricted`) and `posterior` test coefficients, `scales` and `variance` standard deviations and correlations of
effects by group, `linearity` smooth functions.
"""

from probreg.comparison.hypotheses.dispatch import hypothesis as hypothesis
from probreg.comparison.hypotheses.result import Hypothesis as Hypothesis, Test as Test
