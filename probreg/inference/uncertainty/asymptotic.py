"""The sampling distribution of a point estimate, as draws: normal in beta, lognormal in aux. Never a posterior."""

import numpy as np

from probreg.inference.base import Array, Solution

ASYMPTOTIC_DRAWS = 2000


def has_standard_error(solution: Solution) -> bool:
    """Whether a point estimate has a standard error at all; a mode under a prior with kinks has none."""
    return solution.scale.known


def asymptotic(
    solution: Solution, rng: np.random.Generator
) -> tuple[Array, dict[str, Array]]:
    """Draws of beta (S, p, m) from N(estimate, covariance), and of aux (S, 1) lognormal about theirs, jointly.

    Parameters without a standard error do not vary. A nuisance parameter that the covariance leaves out is independent of beta.
    """
    scale = solution.scale
    S = ASYMPTOTIC_DRAWS
    away = scale.draws(rng, S)
    k = scale.coefficients
    beta = solution.beta + away[:, :k].reshape(-1, *solution.beta.shape)
    aux = {}
    for name, v in solution.aux.items():
        if not v > 0:
            aux[name] = np.zeros((S, 1))
        elif f"log {name}" in scale.further:
            aux[name] = v * np.exp(away[:, [k + scale.further.index(f"log {name}")]])
        else:
            # the delta method: sd(log v) = sd(v) / v
            aux[name] = v * np.exp(
                solution.aux_sd[name] / v * rng.standard_normal((S, 1))
            )
    return beta, aux
