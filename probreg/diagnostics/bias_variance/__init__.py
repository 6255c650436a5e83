"""Bias and variance of predictions for a known truth, by formula or by simulation."""

from probreg.diagnostics.bias_variance.decomposition import (
    BiasVariance as BiasVariance,
    bias_variance as bias_variance,
)
from probreg.diagnostics.bias_variance.truth import Truth as Truth
