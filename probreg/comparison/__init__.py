"""Fits of one data set side by side: estimates, intervals, what the prior did, and why the answers differ; and models of
the same observations, by what they say of those they have not seen.

Numbers are kept unrounded, only text rounds. A comparison reads its fits; what it fits again are modes of models between
two of them, and one without an observation that is left out. A file imports only from those before it: same_question, prior_terms,
numbers, evidence, differences, prior_path, path_integral, method_steps, explanation, pairs, methods, words, reasons and rendering
(strangers), comparison; same_data, stacking, leave_one_out (strangers), models.
"""

from probreg.comparison.comparison import Comparison as Comparison, compare as compare
from probreg.comparison.differences import find_differences as find_differences
from probreg.comparison.models.model_comparison import (
    ModelComparison as ModelComparison,
    compare_models as compare_models,
)
from probreg.comparison.prior_terms import prior_weights as prior_weights
