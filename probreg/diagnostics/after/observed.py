"""Rows as observations: a row of weight 3 is three observations, so that a test counts all of them."""

import numpy as np

from probreg.fits.fit import Fit
from probreg.fits.residuals import (
    canonical_order as canonical_order,
    uniforms as uniforms,
)

Array = np.ndarray
_MOST = 1_000_000


def countable_obstacle(fit: Fit, minimum: int = 8) -> str | None:
    """Return why the observations of a fit cannot be counted one by one, or are too few for a test; otherwise None."""
    design = fit.model.design
    if design.weights is not None and (design.weights % 1 != 0).any():
        return "weights are not whole numbers, so that observations cannot be counted"
    if design.total > _MOST:
        return f"there are more than {_MOST:,} observations, and a test would find differences of no importance"
    free = design.total - design.moments.rank.rank
    if free < minimum:
        return f"only {free:g} observations remain after the coefficients, and {minimum} are needed"
    return None


def rows_of_observations(fit: Fit) -> Array:
    """Return the row of each observation."""
    w = fit.model.design.weights
    if w is None:
        return np.arange(fit.model.design.n)
    return np.repeat(np.arange(len(w)), w.astype(int))
