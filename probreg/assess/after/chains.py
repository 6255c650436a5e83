"""Which draws are Markov chains, and how to name the parameters of draws. Numbers only."""

import numpy as np

from probreg.fits.fit import Fit
from probreg.fits.inference_data import reported_coefficients

Array = np.ndarray


def no_chains(fit: Fit) -> str | None:
    """Why a question about Markov chains has no meaning for this fit, or None."""
    if fit.method.makes_chains:
        return None
    return f"the draws of {fit.method.name} are independent, no Markov chain made them"


def number_of_chains(fit: Fit) -> int:
    """How many chains the draws are of."""
    assert fit.solution.draws is not None  # the target is a posterior
    return len(fit.solution.draws["beta"])


def parameters(fit: Fit) -> tuple[list[str], Array]:
    """Names of coefficients and nuisance parameters, and their draws (chain, draw, parameter)."""
    draws = fit.solution.draws
    assert draws is not None  # the target is a posterior
    beta = reported_coefficients(fit.model, draws["beta"])
    parts = [beta.reshape(*beta.shape[:2], -1), *(draws[a][..., None] for a in fit.model.unknown)]
    return [*fit.parameter_names, *fit.model.unknown], np.concatenate(parts, -1)
