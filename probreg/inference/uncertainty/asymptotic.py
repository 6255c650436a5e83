"""The sampling distribution of a point estimate, as draws: normal in beta, lognormal in aux. Never a posterior."""

import numpy as np

from probreg.inference.base import Array, Solution
from probreg.inference.covariance import DenseCovariance, ParameterCovariance

ASYMPTOTIC_DRAWS = 2000


def has_standard_error(solution: Solution) -> bool:
    """Whether a point estimate has a standard error at all; a mode under a prior with kinks has none."""
    return bool(np.isfinite(solution.scale.diagonal()).any())


def asymptotic(solution: Solution, rng: np.random.Generator) -> tuple[Array, dict[str, Array]]:
    """Draws of beta (S, p, m) from N(estimate, covariance), and of aux (S, 1) lognormal about theirs.

    Directions without an estimate (nan in the covariance) do not spread.
    """
    if isinstance(solution.scale, DenseCovariance) and len(solution.scale.root) > solution.beta.size:
        away = solution.scale.joint_draws(rng, ASYMPTOTIC_DRAWS)
        k = solution.beta.size
        beta = solution.beta + away[:, :k].reshape(-1, *solution.beta.shape)
        return beta, {a: v * np.exp(away[:, [k + i]]) for i, (a, v) in enumerate(solution.aux.items())}
    away = _normal_draws(solution.scale, rng)
    beta = solution.beta + away.reshape(-1, *solution.beta.shape)
    # aux exp(s z) with s = sd(aux) / aux, the standard deviation of log aux by the delta method.
    aux = {
        a: v * np.exp(solution.aux_sd[a] / v * rng.standard_normal((ASYMPTOTIC_DRAWS, 1)))
        if v > 0
        else np.zeros((len(away), 1))
        for a, v in solution.aux.items()
    }
    return beta, aux


def _normal_draws(scale: Array | ParameterCovariance, rng: np.random.Generator) -> Array:
    """(S, k) from N(0, scale)."""
    if isinstance(scale, ParameterCovariance):
        return scale.draws(rng, ASYMPTOTIC_DRAWS)
    # V = Q diag(v) Q': Q diag(v)^(1/2) z ~ N(0, V).
    value, vector = np.linalg.eigh(np.nan_to_num(scale))
    root = vector * np.sqrt(np.maximum(value, 0.0))
    return rng.standard_normal((ASYMPTOTIC_DRAWS, len(root))) @ root.T
