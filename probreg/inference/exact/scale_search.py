"""Maximise the evidence over the logs of scales and other hyperparameters, some of
which go to zero, by Newton's method."""

from collections.abc import Callable, Sequence
from typing import NamedTuple

import numpy as np

from probreg.inference.base import Array
from probreg.inference.exact.latent_groups import EvidencePoint, NoMode
from probreg.inference.modes.maximise import newton_step
from probreg.linalg.halving import halvings
from probreg.model.model import LocalModel

_NO_SLOPE = 1e-9  # of the evidence over a log: rounding
HELD = 1e5  # a vanished scale is fixed at a value smaller by this factor, with coefficients of zero to 1e-16


class EvidenceMaximum(NamedTuple):
    """A maximum of a surface; `vanished` marks the coordinates that go to zero, scales
    and nuisance parameters. If not `ended`, the point of the last step."""

    theta: Array
    at: EvidencePoint
    step: Array  # Newton's step from theta, not yet made
    vanished: Array  # bool
    steps: int
    decrement: float
    ended: bool = True
    rising: tuple[int, ...] = ()  # f increases without bound in these scales


_NO_CHANGE = 1e-8  # of a log: no change
# of a decrement, in standard errors of the logs: a smaller one is rounding of f
_ROUNDING_OF_DECREMENT = 1e-5
# of a decrement: below it rounding may hide the last steps
_NEAR_MAXIMUM = 0.01


def maximise_log_scales(
    surface: Callable[[Array], EvidencePoint],
    theta: Array,
    sizes: Array,
    ridge: Array,
    *,
    tol: float,
    max_steps: int,
    secant: bool = False,
    limits: Sequence[bool] = (),
    jumps: bool = False,
    upper: Array | None = None,
    fixed: int | None = None,
    vanished: Array | None = None,
) -> EvidenceMaximum:
    """Newton's method on the logs with step halving; a scale that goes to zero is
    removed, and returns if f increases with it.

    `sizes` (d,) has the number of coefficients of each scale, and 0 for hyperparameters
    that cannot vanish. `limits` marks nuisance parameters, the next coordinates, for
    which the likelihood has a limit at zero. `ridge` (d,) is added to the curvature; it keeps
    hyperparameters in place that may be unidentified (for example the length of a
    component with variance 0). `secant`: the Hessian is approximate, and is corrected by
    the last changes of the gradient. `jumps`: f is not continuous, so its maximum may
    have a slope. `upper` (d,) ends the search if a hyperparameter is above it.
    Coordinate number `fixed` stays at its start, and those that have `vanished` in a search
    before are removed from the start on.
    """
    d = len(sizes)
    start = theta
    point = surface(theta)
    is_fixed = np.arange(len(theta)) == fixed
    # coordinates after the nuisance parameters are coefficients
    sizes = np.append(sizes, np.zeros(len(theta) - d))
    sizes[d : d + len(limits)] = limits
    vanished = np.zeros(len(theta), bool) if vanished is None else vanished
    no_step = step = np.zeros(len(theta))
    decrement, ended, steps = np.inf, False, 0
    moves: list[tuple[Array, Array]] = []
    ridge = np.diag(np.append(ridge, np.zeros(len(theta) - d)))
    for _ in range(max_steps):
        steps += 1
        if not np.isfinite(point.hessian).all():  # too far out for double precision
            point = point._replace(value=-np.inf)
            break
        H = _with_secants(-point.hessian + ridge, moves)
        step, convex = _find_step(point, H, vanished | is_fixed)
        before = decrement
        decrement = float(np.sqrt(max(float(point.gradient @ step), 0.0)))
        # This close to the maximum each step squares the error: a decrement that no
        # longer decreases is rounding of the surface.
        if convex and (decrement < tol or before <= decrement < _ROUNDING_OF_DECREMENT):
            # A pruned scale returns if the evidence increases with it: d f / d log tau_k > 0.
            up = theta + np.log(HELD) * vanished
            ended = not vanished.any()
            if not ended:
                returning = vanished & (surface(up).gradient > _NO_SLOPE)
                ended = not returning.any()
            if ended:
                break
            vanished = vanished & ~returning
            theta = np.where(returning, up, theta)
            point = surface(theta)
            continue
        # No log changes by more than 2 at once, because the expansion is not valid farther away.
        before_step = theta, point
        step = step / max(1.0, float(np.abs(step).max()) / 2.0)
        theta, point = _rise(surface, theta, step, point)
        move = theta - before_step[0]
        if float(np.abs(move).max()) < _NO_CHANGE:
            # no step increases f beyond rounding: this is the maximum only if the
            # gradient agrees, or if f jumps and has increased
            ended = decrement < _NEAR_MAXIMUM or (
                jumps and float(np.abs(theta - start).max()) > _NO_CHANGE
            )
            step = no_step
            break
        if secant:
            change = before_step[1].gradient - point.gradient
            moves = [*moves, (move, change)][-2 * len(theta) :]
        if upper is not None and (theta[:d] > upper).any():
            break
        vanishing = _find_vanishing(point, sizes, move < 0.0) & ~(vanished | is_fixed)
        if vanishing.any():
            vanished |= vanishing
            theta = theta - np.log(HELD) * vanishing
            point = surface(theta)
    return EvidenceMaximum(theta, point, step, vanished, steps, decrement, ended)


def make_last_step(
    surface: Callable[[Array], EvidencePoint], top: EvidenceMaximum
) -> EvidenceMaximum:
    """Return the maximum after one more step, which squares the error."""
    theta, at = _rise(surface, top.theta, top.step, top.at)
    return top._replace(theta=theta, at=at)


def _find_step(point: EvidencePoint, H: Array, stays: Array) -> tuple[Array, bool]:
    """Return H^-1 f' over the coordinates that do not stay, and whether H is positive definite there."""
    # a coordinate without slope and curvature, such as a correlation of an effect with a
    # scale near 0, has no step
    curvature = np.abs(point.hessian).max(1, initial=0.0)
    free = ~stays & (np.maximum(np.abs(point.gradient), curvature) >= _NO_SLOPE)
    step = np.zeros(len(free))
    local = LocalModel(point.value, point.gradient[free], H[free][:, free])
    step[free], convex = newton_step(local)
    return step, convex


def _find_vanishing(point: EvidencePoint, sizes: Array, fell: Array) -> Array:
    """Return which coordinates of positive size go to zero; `fell` marks the coordinates that the last step decreased."""
    # gamma_k = n_k - tr_k S: if it vanishes and f decreases with tau_k, the maximum is at
    # tau_k = 0; if f is flat to rounding, steps downwards would not end
    no_effect = 1e-6  # relative to the parameters of a group
    no_gain = 1e-4  # of f, left towards the limit of a nuisance parameter at zero
    d = len(point.effective)
    down = (point.gradient < 0) | (fell & (point.gradient < _NO_SLOPE))
    vanishing = (sizes > 0) & down
    vanishing[:d] &= point.effective < no_effect * sizes[:d]
    # near a limit at v = 0 f is linear in v: its slope over log v is the remaining gain
    bend = np.abs(np.diagonal(point.hessian)[d:])
    is_flat = (point.gradient[d:] > -no_gain) & (bend < 10.0 * no_gain)
    vanishing[d:] &= fell[d:] & is_flat
    return vanishing


def _with_secants(H: Array, moves: Sequence[tuple[Array, Array]]) -> Array:
    """Return H updated so that H s = y for the last step s with its change y of the
    gradient, and nearly for those before."""
    smallest = 1e-4  # cosine between a step and the change of the gradient
    for s, y in moves:
        if s @ y <= smallest * np.linalg.norm(s) * np.linalg.norm(y):
            continue
        Hs = H @ s
        if s @ Hs > 0:  # H <- H - H s s'H / s'Hs + y y' / s'y (BFGS)
            H = H - np.outer(Hs, Hs) / (s @ Hs) + np.outer(y, y) / (s @ y)
        else:  # H <- H + r r' / r's, r = y - H s
            H = H + np.outer(y - Hs, y - Hs) / ((y - Hs) @ s)
    return H


def _rise(
    surface: Callable[[Array], EvidencePoint],
    theta: Array,
    step: Array,
    point: EvidencePoint,
) -> tuple[Array, EvidencePoint]:
    """Return theta after the step, its half, its quarter, ..., the first that does not
    lower the surface beyond rounding, and the point there; theta itself without one."""
    for t in halvings(theta, step):
        try:
            new = surface(theta + t * step)
        except NoMode:  # a scale near infinity, beyond double precision
            continue
        if np.isfinite(new.value) and new.value >= point.value - 1e-12 * abs(
            point.value
        ):
            return theta + t * step, new
    return theta, point
