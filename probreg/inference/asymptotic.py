"""The sampling distribution of a point estimate, as draws: normal in beta, lognormal in aux. Never a posterior."""

import numpy as np

from probreg.inference.base import Array, Solution

ASYMPTOTIC_DRAWS = 2000


def spreads(solution: Solution) -> bool:
    """Whether a point estimate has a standard error at all; a mode under a prior with kinks has none."""
    return bool(np.isfinite(np.diagonal(solution.scale)).any())


def asymptotic(solution: Solution, rng: np.random.Generator) -> tuple[Array, dict[str, Array]]:
    """Draws of beta (S, p, m) from N(estimate, covariance), and of aux (S, 1) lognormal about theirs.

    Directions without an estimate (nan in the covariance) do not spread.
    """
    value, vector = np.linalg.eigh(np.nan_to_num(solution.scale))
    root = vector * np.sqrt(np.maximum(value, 0.0))
    z = rng.standard_normal((ASYMPTOTIC_DRAWS, len(root)))
    beta = solution.beta + (z @ root.T).reshape(-1, *solution.beta.shape)
    aux = {
        a: v * np.exp(solution.aux_sd[a] / v * rng.standard_normal((ASYMPTOTIC_DRAWS, 1)))
        if v > 0
        else np.zeros((len(z), 1))
        for a, v in solution.aux.items()
    }
    return beta, aux
