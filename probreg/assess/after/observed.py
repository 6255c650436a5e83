"""Rows as observations: a row of weight 3 is three of them, so that a test counts what was observed."""

from zlib import crc32

import numpy as np

from probreg.data import Design
from probreg.fits.fit import Fit

Array = np.ndarray
_MOST = 1_000_000


def zero_weight_obstacle(fit: Fit, least: int = 8) -> str | None:
    """Why the observations of a fit cannot be counted one by one, or are too few for a test; None when they can."""
    design = fit.model.design
    if design.weights is not None and (design.weights % 1 != 0).any():
        return "weights are no whole numbers, so that observations cannot be counted"
    if design.total > _MOST:
        return f"there are more than {_MOST:,} observations, where a test finds any trifle"
    if (free := design.total - design.moments.rank.rank) < least:
        return f"only {free:g} observations are left beside the coefficients, and {least} are needed"
    return None


def rows_of_observations(fit: Fit) -> Array:
    """The row of each observation."""
    w = fit.model.design.weights
    return np.arange(fit.model.design.n) if w is None else np.repeat(np.arange(len(w)), w.astype(int))


def unordered(design: Design) -> Array:
    """The rows sorted by columns, offset and response: random numbers handed out in this order do not depend on the one in
    which the rows stand."""
    offset = np.zeros((design.n, 0)) if design.offset is None else design.offset.reshape(design.n, -1)
    return np.lexsort(np.column_stack([design.observed, offset, design.X]).T)


def uniforms(fit: Fit, rows: Array) -> Array:
    """One number in (0, 1) for each of these rows, by the seed of the fit and by what the rows hold, not by their order."""
    design = fit.model.design.take(rows)
    order = unordered(design)
    own = crc32(np.ascontiguousarray(design.observed[order]).tobytes())
    u = np.empty(len(rows))
    u[order] = np.random.default_rng([fit.seed, 3, own]).random(len(rows))
    return u
