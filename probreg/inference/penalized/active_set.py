"""The least point of x'Gx/2 - c'x + R(x), R with kinks: the inner problem of every mode with exact zeros.

Coordinate descent finds which coordinates sit at their kinks; on the others the problem is smooth, and Newton's steps
(for absolute values one linear system) finish what descent approaches slowly when columns are correlated. A step ends at
the first kink that it meets, so the objective never rises (Lee, Battle, Raina & Ng 2006). Norms of groups, whose kinks a
line does not cross, bend between them: there a step is halved until the objective falls. What is reported is the
distance of zero from the subdifferential, coordinate by coordinate, over the root of the curvature of the coordinate.
"""

import numpy as np
from scipy.linalg import cho_factor, cho_solve

from probreg.inference.base import Array
from probreg.inference.penalized.separable import KinkedPenalty

_HALVINGS = 20  # of a step under norms of groups
_DENSE = 600  # coordinates up to which a singular system is taken apart


def off(gradient: Array, penalty: KinkedPenalty, x: Array, curvature: Array) -> float:
    """The largest distance of zero from gradient + subdifferential, in units of the root of the curvature."""
    root = np.sqrt(np.maximum(curvature, np.finfo(float).tiny))
    return float((penalty.distance(gradient, x) / root).max(initial=0.0))


def minimise(
    G: Array,
    c: Array,
    penalty: KinkedPenalty,
    x: Array,
    *,
    tol: float,
    rounds: int = 60,
) -> tuple[Array, float]:
    """argmin x'Gx/2 - c'x + R(x) from x, G positive semidefinite, and its distance from a certificate."""
    curvature = np.diagonal(G) + np.where(
        penalty.hessian(x) > 0, penalty.hessian(x), 0.0
    )
    best = x
    least = off(G @ x - c, penalty, x, curvature)
    for _ in range(rounds):
        if least <= tol:
            break
        x = penalty.sweep(G, c, x, 0.1 * tol)
        now = off(G @ x - c, penalty, x, curvature)
        if now > tol:
            x = _polish(G, c, penalty, x)
            now = off(G @ x - c, penalty, x, curvature)
        if now < least:
            best, least = x, now
    return best, least


def _polish(G: Array, c: Array, penalty: KinkedPenalty, x: Array) -> Array:
    """Newton's steps over the coordinates that are off their kinks, each cut at the first kink that it meets."""
    center = penalty.center
    corners = penalty.corners
    for _ in range(30):
        # Off the kinks the objective is smooth: (G + R'') step = -(G x - c + R').
        free = np.flatnonzero(~penalty.at_kink(x))
        gradient = (G @ x - c + penalty.slope(x))[free]
        H = G.take(free, 0).take(free, 1)
        curvature = penalty.curvature_among(x, free)
        if curvature is not None:
            H = H + curvature
        step = _solved(H, -gradient)
        reach = 1.0
        if step is None:
            step, reach = _degenerate(H, -gradient)
        if step is None:
            return x
        room = np.where(corners[free], (center - x)[free], np.nan)
        with np.errstate(divide="ignore", invalid="ignore"):
            # x_j + t step_j meets its kink at t = (center_j - x_j) / step_j.
            until = np.where(room * step > 0, room / step, np.inf)
        most = min(reach, float(until.min(initial=np.inf)))
        if not np.isfinite(most):
            return x
        for t in most * 0.5 ** np.arange(
            _HALVINGS if (penalty.pointed & ~corners).any() else 1
        ):
            new = x.copy()
            new[free] = np.where(until <= t, center[free], x[free] + t * step)
            lower = _lower(G, c, penalty, x, new)
            if lower:
                break
        if not lower:
            return x
        small = np.abs(step) <= 1e-15 * np.abs(new[free])
        x = new
        if t == 1.0 and (curvature is None or small.all()):
            return x
    return x


def _lower(G: Array, c: Array, penalty: KinkedPenalty, x: Array, new: Array) -> bool:
    """The objective at `new` is no higher, but for rounding."""
    step = new - x
    # q(x + s) - q(x) = s'(G (x + s/2) - c) for q(x) = x'G x / 2 - c'x: no difference of large numbers.
    rise = step @ (G @ (x + 0.5 * step) - c) + penalty.value(new) - penalty.value(x)
    return bool(rise <= 1e-12 * (1.0 + abs(penalty.value(x)) + abs(c @ x)))


def _solved(H: Array, b: Array) -> Array | None:
    """H^-1 b with rows scaled to unit diagonal, None where H is not safely positive definite."""
    diagonal = np.diagonal(H)
    if not len(H) or not (diagonal > 0).all():
        return None
    d = np.sqrt(diagonal)
    try:
        factor = cho_factor(H / np.outer(d, d), check_finite=False)
    except np.linalg.LinAlgError:
        return None
    if np.diagonal(factor[0]).min() < 1e-7:
        return None
    return cho_solve(factor, b / d, check_finite=False) / d


def _degenerate(H: Array, b: Array) -> tuple[Array | None, float]:
    """A step where H is singular, and how far it may go: along a direction that H does not see and that lowers the
    objective all the way to the next kink, or else to the nearest of the least points. None for an H that is indefinite."""
    if not 0 < len(H) <= _DENSE or not (np.diagonal(H) > 0).all():
        return None, 0.0
    d = np.sqrt(np.diagonal(H))
    value, vector = np.linalg.eigh(H / np.outer(d, d))
    if value[0] < -1e-10 * value[-1]:
        return None, 0.0
    seen = value > 1e-11 * value[-1]
    along = vector.T @ (b / d)
    if np.abs(along[~seen]).max(initial=0.0) > 1e-9 * np.abs(b / d).max():
        return vector[:, ~seen] @ along[~seen] / d, np.inf
    return vector[:, seen] @ (along[seen] / value[seen]) / d, 1.0
