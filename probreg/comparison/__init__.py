"""Comparisons of fits of one data set, of the causes of their differences, and of models by their predictions.

Numbers stay unrounded until they are printed.
"""

from probreg.comparison.comparison import Comparison as Comparison, compare as compare
from probreg.comparison.models.model_comparison import (
    ModelComparison as ModelComparison,
    compare_models as compare_models,
)
from probreg.comparison.prior_weight import prior_weights as prior_weights
