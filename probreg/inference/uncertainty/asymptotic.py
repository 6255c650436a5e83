"""Draws from the sampling distribution of a point estimate: normal in beta, lognormal
in aux. They are not a posterior."""

import numpy as np

from probreg.inference.base import Array, Solution
from probreg.inference.covariance import ParameterCovariance

ASYMPTOTIC_DRAWS = 2000


def asymptotic(
    solution: Solution,
    rng: np.random.Generator,
    scale: ParameterCovariance | None = None,
) -> tuple[Array, dict[str, Array]]:
    """Return joint draws of beta (S, p, m) from N(estimate, covariance), and of
    lognormal aux (S, 1).

    `scale` replaces the covariance of the solution. Parameters without a standard error are constant. A nuisance parameter
    outside the covariance is independent of beta.
    """
    scale = scale or solution.scale
    errors = solution.aux_sd
    S = ASYMPTOTIC_DRAWS
    deviations = scale.draws(rng, S)
    k = scale.coefficients
    beta = solution.beta + deviations[:, :k].reshape(-1, *solution.beta.shape)
    aux = {}
    for name, v in solution.aux.items():
        if not v > 0:
            aux[name] = np.zeros((S, 1))
        elif f"log {name}" in scale.further:
            aux[name] = v * np.exp(
                deviations[:, [k + scale.further.index(f"log {name}")]]
            )
        else:
            # the delta method: sd(log v) = sd(v) / v
            aux[name] = v * np.exp(errors[name] / v * rng.standard_normal((S, 1)))
    return beta, aux
