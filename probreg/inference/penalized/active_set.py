"""Minimise x'Gx/2 - c'x + R(x), R with kinks: the inner problem of every mode with
exact zeros.

Coordinate descent finds the coordinates at their kinks. On the others the problem is
smooth, and Newton steps (one linear system for absolute values) replace descent, which
is slow for correlated columns. A step ends at the first kink on its way, so the
objective never increases (Lee, Battle, Raina & Ng 2006). A norm of a group is curved
off its kink, and a line rarely meets the kink: there a step is halved until the
objective decreases. The certificate is the distance of zero from the subdifferential in
each coordinate, divided by the root of its curvature.
"""

import numpy as np
from scipy.linalg import cho_factor, cho_solve

from probreg.inference.base import Array
from probreg.inference.penalized.penalty import KinkedPenalty

_HALVINGS = 20  # largest number of halvings of a step under norms of groups
_DENSE = 600  # coordinates up to which a singular system is decomposed


def kkt_distance(
    gradient: Array, penalty: KinkedPenalty, x: Array, curvature: Array
) -> float:
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
    """Return argmin x'Gx/2 - c'x + R(x) from x, G positive semidefinite, and the
    distance of zero from the subdifferential."""
    curvature = np.diagonal(G) + np.where(
        penalty.hessian(x) > 0, penalty.hessian(x), 0.0
    )
    best = x
    smallest = kkt_distance(G @ x - c, penalty, x, curvature)
    for _ in range(rounds):
        if smallest <= tol:
            break
        x = penalty.sweep(G, c, x, 0.1 * tol)
        distance = kkt_distance(G @ x - c, penalty, x, curvature)
        if distance > tol:
            x = _polish(G, c, penalty, x)
            distance = kkt_distance(G @ x - c, penalty, x, curvature)
        if distance < smallest:
            best, smallest = x, distance
    return best, smallest


def _polish(G: Array, c: Array, penalty: KinkedPenalty, x: Array) -> Array:
    """Make Newton steps over the coordinates off their kinks; each step ends at the
    first kink on its way."""
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
        step = _solve_scaled(H, -gradient)
        reach = 1.0
        if step is None:
            step, reach = _degenerate(H, -gradient)
        if step is None:
            return x
        room = np.where(corners[free], (center - x)[free], np.nan)
        with np.errstate(divide="ignore", invalid="ignore"):
            # x_j + t step_j meets its kink at t = (center_j - x_j) / step_j.
            until = np.where(room * step > 0, room / step, np.inf)
        longest = min(reach, float(until.min(initial=np.inf)))
        if not np.isfinite(longest):
            return x
        for t in longest * 0.5 ** np.arange(
            _HALVINGS if (penalty.has_kink & ~corners).any() else 1
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
    """Whether the objective at `new` is not higher, up to rounding."""
    step = new - x
    # q(x + s) - q(x) = s'(G (x + s/2) - c) for q(x) = x'G x / 2 - c'x avoids a
    # difference of large numbers.
    rise = step @ (G @ (x + 0.5 * step) - c) + penalty.value(new) - penalty.value(x)
    return bool(rise <= 1e-12 * (1.0 + abs(penalty.value(x)) + abs(c @ x)))


def _solve_scaled(H: Array, b: Array) -> Array | None:
    """Return H^-1 b with rows scaled to unit diagonal, or None if H is not safely
    positive definite."""
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
    """Return a step for a singular H, and its maximal length.

    The step is a direction in the null space of H along which the objective decreases
    up to the next kink, or leads to the nearest minimiser. None for an indefinite H.
    """
    if not 0 < len(H) <= _DENSE or not (np.diagonal(H) > 0).all():
        return None, 0.0
    d = np.sqrt(np.diagonal(H))
    value, vector = np.linalg.eigh(H / np.outer(d, d))
    if value[0] < -1e-10 * value[-1]:
        return None, 0.0
    resolved = value > 1e-11 * value[-1]
    components = vector.T @ (b / d)
    if np.abs(components[~resolved]).max(initial=0.0) > 1e-9 * np.abs(b / d).max():
        return vector[:, ~resolved] @ components[~resolved] / d, np.inf
    return vector[:, resolved] @ (components[resolved] / value[resolved]) / d, 1.0
