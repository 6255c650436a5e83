"""Bias and variance of predictions for a known truth, by formula or by simulation."""

from probreg.diagnostics.bias_variance.decomposition import (
    BiasVariance as BiasVariance,
    bias_variance as bias_variance,
)
from probreg.diagnostics.simulation.simulate import Truth as Truth
