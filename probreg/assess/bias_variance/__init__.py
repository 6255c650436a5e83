"""Bias and variance of what a model predicts, when the truth is known: by formula or by simulation."""

from probreg.assess.bias_variance.decomposition import (
    BiasVariance as BiasVariance,
    bias_variance as bias_variance,
)
from probreg.assess.bias_variance.truth import Truth as Truth
