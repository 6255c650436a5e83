"""Linear hypotheses on coefficients: read from a text, tested on a point estimate, given a probability under a posterior.

A file imports only from those before it: restricted and posterior (strangers); result, verb.
"""

from probreg.comparison.hypotheses.result import Hypothesis as Hypothesis, Test as Test
from probreg.comparison.hypotheses.verb import hypothesis as hypothesis
