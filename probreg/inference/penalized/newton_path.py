"""Modes along the scales of smooth priors, each by Newton's method from the one before and what is known there.

At the mode of one scale the rows' gradient and curvature are known; only the prior's change to the next scale, so that its first
step takes no pass over the rows. The steps after it hold that curvature and take the gradient alone, a fifth of the work, and
the curvature at the mode is the certificate and the next scale's start. On 6,366 rows of 11 columns a scale takes 0.9 ms, where a
fit of its own from the mode before took 4. A scale at which anything is doubtful is left to the method itself.
"""

from typing import NamedTuple

import numpy as np

from probreg.inference.base import Array
from probreg.inference.penalized.standard_rows import PriorAt, StandardRows, inverses
from probreg.model.model import LocalModel, Model

TIGHT = 1e-10  # of sqrt(n) standard errors: how near the mode a search ends
_ROUNDS, _HELD = 6, 12  # curvatures, and steps that hold one


class NextMode(NamedTuple):
    """A mode with the log-likelihood and the prior about it, and its distance from the maximum in standard errors."""

    point: Array
    likelihood: LocalModel
    prior: LocalModel
    decrement: float


def next_mode(
    rows: StandardRows, model: Model, point: Array, likelihood: LocalModel
) -> NextMode | None:
    """The mode of `model`, which differs from that of the rows in its prior, from a point with the log-likelihood about it; None
    where it is not beyond doubt."""
    prior = PriorAt(rows, model)
    tol = TIGHT * max(1.0, np.sqrt(model.design.total))
    with np.errstate(all="ignore"):  # a step too far gives inf or nan, which is doubt
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
                step = inverse[0] @ g  # after which the error is the square of this one
                near = likelihood._replace(
                    gradient=likelihood.gradient - likelihood.curvature @ step
                )
                found = NextMode(point + step, near, about, decrement)
                if rows.in_doubt(found.point):
                    return None
                return found
            point = _approached(rows, prior, point, g, inverse[0], about, tol)
            likelihood = rows.local(point)
    return None


def _approached(
    rows: StandardRows,
    prior: PriorAt,
    point: Array,
    g: Array,
    inverse: Array,
    about: LocalModel,
    tol: float,
) -> Array:
    """Steps H^-1 g that hold H but for what they see of its change, while each is much shorter than the one before."""
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
        # BFGS: H^-1 <- (I - s y'/s'y) H^-1 (I - y s'/s'y) + s s'/s'y, y the fall of g along s (Nocedal & Wright 2006, section 6.1).
        along = float(step @ fall)
        if along > 0:
            hold = inverse @ fall
            cross = np.outer(step, hold)
            inverse = (
                inverse
                - (cross + cross.T) / along
                + np.outer(step, step) * ((1.0 + fall @ hold / along) / along)
            )
    return point
