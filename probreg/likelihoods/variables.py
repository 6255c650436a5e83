"""Noise without a PyMC distribution, as a variable of PyMC models."""

from collections.abc import Callable
from typing import Any

import numpy as np

from probreg.likelihoods.base import Array, Likelihood


def named_variable(log_prob: Callable[..., Any], likelihood: Likelihood) -> Any:
    """Return a PyMC class for a likelihood.

    It passes mu and then the nuisance parameters to `log_prob(value, ...)`; its draws come from the likelihood.
    """

    def sample_variable(
        mu: Array, *aux: Any, rng: np.random.Generator, size: Any
    ) -> Array:
        if size is None:
            shape = np.broadcast_shapes(np.shape(mu), *(np.shape(v) for v in aux))
        else:
            shape = size
        return likelihood.sample(
            rng, np.broadcast_to(mu, shape)[..., None], **dict(zip(likelihood.aux, aux))
        )

    class Variable:
        def __new__(
            cls,
            name: str,
            *,
            mu: Any,
            observed: Any = None,
            dims: Any = None,
            **aux: Any,
        ) -> Any:
            import pymc as pm

            values = [aux[a] for a in likelihood.aux]
            return pm.CustomDist(
                name,
                mu,
                *values,
                logp=log_prob,
                random=sample_variable,
                observed=observed,
                dims=dims,
            )

        @staticmethod
        def dist(*, mu: Any, **aux: Any) -> Any:
            import pymc as pm

            return pm.CustomDist.dist(
                mu,
                *(aux[a] for a in likelihood.aux),
                logp=log_prob,
                random=sample_variable,
            )

    return Variable
