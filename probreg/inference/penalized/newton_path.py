"""Modes along the scales of smooth priors, each by Newton's method from the mode
before.

At the mode of one scale the rows' gradient and curvature are known. Only the prior
changes to the next scale, so the first step needs no pass over the rows. Further steps
keep that curvature and compute gradients only, a fifth of the work. The curvature at
the mode is the certificate and the start of the next scale. The method itself fits
scales with any doubt.
"""

from typing import NamedTuple

import numpy as np

from probreg.inference.base import Array
from probreg.inference.penalized.standard_rows import PriorAt, StandardRows, inverses
from probreg.model.model import LocalModel, Model

TIGHT = (
    1e-10  # of sqrt(n) standard errors: distance from the mode at the end of a search
)
_ROUNDS, _HELD = 6, 12  # curvatures, and steps with one curvature


class NextMode(NamedTuple):
    """A mode with the log-likelihood and the prior at this point, and its distance from
    the maximum in standard errors."""

    point: Array
    likelihood: LocalModel
    prior: LocalModel
    decrement: float


def next_mode(
    rows: StandardRows, model: Model, point: Array, likelihood: LocalModel
) -> NextMode | None:
    """Return the mode of `model` from a point with the log-likelihood there; None in
    case of doubt.

    The model differs from the model of the rows only in its prior.
    """
    prior = PriorAt(rows, model)
    tol = TIGHT * max(1.0, np.sqrt(model.design.total))
    with np.errstate(
        all="ignore"
    ):  # too long a step gives inf or nan, which marks doubt
        for _ in range(_ROUNDS):
            about = prior.local(point)
            g = likelihood.gradient + about.gradient
            H = likelihood.curvature + about.curvature
            if not (np.isfinite(g).all() and np.isfinite(H).all()):
                return None
            inverse, sound = inverses(H[None])
            if not sound[0]:
                return None
            # lambda^2 = g'H^-1 g
            decrement = float(np.sqrt(max(g @ inverse[0] @ g, 0.0)))
            if decrement < 1e3 * tol:
                step = inverse[0] @ g  # after which the error is squared
                shifted = likelihood._replace(
                    gradient=likelihood.gradient - likelihood.curvature @ step
                )
                mode = NextMode(point + step, shifted, about, decrement)
                if rows.in_doubt(mode.point):
                    return None
                return mode
            point = _bfgs_steps(rows, prior, point, g, inverse[0], about, tol)
            likelihood = rows.local(point)
    return None


def _bfgs_steps(
    rows: StandardRows,
    prior: PriorAt,
    point: Array,
    g: Array,
    inverse: Array,
    about: LocalModel,
    tol: float,
) -> Array:
    """Make steps H^-1 g with BFGS updates of H, while each is much shorter than the one
    before."""
    start = point
    before = np.inf
    for _ in range(_HELD):
        step = inverse @ g
        size = float(np.sqrt(max(g @ step, 0.0)))
        if not size < 0.5 * before:
            break
        point = point + step
        rate = min(size / before, 0.5) or 0.5
        before = size
        # the next is about rate times this one
        if size * rate < 30.0 * tol:
            break
        new = rows.slope(point) + prior.slopes(start, about, point[None])[0]
        fall = g - new
        g = new
        # BFGS: H^-1 <- (I - s y'/s'y) H^-1 (I - y s'/s'y) + s s'/s'y, y the decrease of
        # g along s (Nocedal & Wright 2006, section 6.1).
        curvature = float(step @ fall)
        if curvature > 0:
            hold = inverse @ fall
            cross = np.outer(step, hold)
            inverse = (
                inverse
                - (cross + cross.T) / curvature
                + np.outer(step, step) * ((1.0 + fall @ hold / curvature) / curvature)
            )
    return point
