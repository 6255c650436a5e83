"""The maximum of the evidence over the logs of scales and other hyperparameters, some of which run to zero: Newton's method, made to rise."""

from collections.abc import Callable, Sequence
from typing import NamedTuple

import numpy as np

from probreg.inference.base import Array
from probreg.inference.exact.latent_groups import EvidencePoint
from probreg.inference.modes.newton import newton_step
from probreg.model.model import LocalModel

_VANISHED = 1e-6  # of its parameters: a group of which the data settle less, on the way down, has no scale
_ROUNDING = 1e-5  # of a decrement, in standard errors of the log scales
_STILL = 1e-8  # of a log: no move
# of a decrement, in standard errors: rounding of f may hide the last steps
_NEAR = 0.01
_LEFT = 1e-4  # of the evidence: a nuisance parameter that gains less on the way to its limit at zero is there
_SOFT = 1e-3  # curvature that is added to that of the surface
_SECANT = 1e-4  # cosine between a move and the change of the gradient, below which it says nothing of the curvature
_NO_SLOPE = 1e-9  # of the evidence over a log: rounding
_HALVES = tuple(0.5**k for k in range(30))  # of a step
HELD = 1e5  # a scale that vanished is held at one this much smaller still, where its coefficients are zero to 1e-16


class EvidenceMaximum(NamedTuple):
    """A maximum of a surface; `vanished` are the scales that run to zero, and `at_limit` coordinates behind the hyperparameters that
    do. Not `ended`: where the last step was."""

    theta: Array
    at: EvidencePoint
    vanished: Array  # (d,) bool
    at_limit: Array  # bool
    steps: int
    decrement: float
    ended: bool = True
    rising: tuple[int, ...] = ()  # scales with which f rises for ever


def maximise_log_scales(
    surface: Callable[[Array], EvidencePoint],
    theta: Array,
    sizes: Array,
    soft: Array,
    *,
    tol: float,
    max_steps: int,
    secant: bool = False,
    limits: Sequence[bool] = (),
    jumps: bool = False,
    upper: Array | None = None,
) -> EvidenceMaximum:
    """Newton's method on the logs, made to rise; a scale that falls for ever is taken out, and comes back if it would rise.

    `sizes` (d,) holds the coefficients that a scale multiplies, and 0 for what is no scale and cannot vanish. `limits` marks
    nuisance parameters, the next coordinates, at whose zero the likelihood has a limit: they may run there. `soft` (d,) marks
    hyperparameters of which data may tell nothing, such as the length of a part that has vanished: they stay where they are then.
    `secant` says that the Hessian is not exact: it is made to agree with the last changes of the gradient. `jumps` says that f is not
    continuous, so that its maximum may have a slope. `upper` (d,) ends the search where a hyperparameter is above it.
    """
    d = len(sizes)
    start = theta
    at = surface(theta)
    may_vanish = np.zeros(len(theta) - d, bool)
    may_vanish[: len(limits)] = limits
    vanished = np.zeros(len(theta), bool)
    decrement = np.inf
    moves: list[tuple[Array, Array]] = []
    ridge = np.append(_SOFT * soft, np.zeros(len(theta) - d))
    for number in range(1, max_steps + 1):
        # a coordinate without slope and curvature, such as a correlation beside a scale near 0, has no step
        flat = (
            np.maximum(np.abs(at.gradient), np.abs(at.hessian).max(1, initial=0.0))
            < _NO_SLOPE
        )
        free = ~(vanished | flat)
        if not np.isfinite(at.hessian).all():  # too far out for a double
            return EvidenceMaximum(
                theta,
                at._replace(value=-np.inf),
                vanished[:d],
                vanished[d:],
                number,
                decrement,
                ended=False,
            )
        # Newton on the free logs: -f'' step = f', made to rise where -f'' is not positive definite; decrement
        # (f'step)^(1/2).
        step = np.zeros(len(theta))
        H = _with_secants(-at.hessian + np.diag(ridge), moves)
        step[free], convex = newton_step(
            LocalModel(at.value, at.gradient[free], H[free][:, free])
        )
        before = decrement
        decrement = float(np.sqrt(max(float(at.gradient @ step), 0.0)))
        # So near the maximum each step squares the error: a decrement that no longer falls is rounding of the surface.
        if convex and (decrement < tol or before <= decrement < _ROUNDING):
            # A pruned scale comes back where the evidence rises with it: d f / d log tau_k > 0.
            up = theta + np.log(HELD) * vanished
            if vanished.any():
                back = vanished & (surface(up).gradient > _NO_SLOPE)
            else:
                back = vanished
            if not back.any():
                return EvidenceMaximum(
                    theta, at, vanished[:d], vanished[d:], number, decrement
                )
            vanished = vanished & ~back
            theta = np.where(back, up, theta)
            at = surface(theta)
            continue
        # No log moves by more than 2 at once: the expansion is of no use farther away.
        moved = _rise(
            surface, theta, step / max(1.0, float(np.abs(step).max()) / 2.0), at
        )
        if moved is None or float(np.abs(moved[0] - theta).max()) < _STILL:
            # no step rises beyond rounding: this is the maximum only where the gradient agrees, or where f jumps and rose to it
            theta, at = (theta, at) if moved is None else moved
            ended = decrement < _NEAR or (
                jumps and float(np.abs(theta - start).max()) > _STILL
            )
            return EvidenceMaximum(
                theta, at, vanished[:d], vanished[d:], number, decrement, ended=ended
            )
        if secant:
            moves = [*moves, (moved[0] - theta, at.gradient - moved[1].gradient)][
                -2 * len(theta) :
            ]
        else:
            moves = []
        fell = moved[0] < theta
        theta, at = moved
        if upper is not None and (theta[:d] > upper).any():
            return EvidenceMaximum(
                theta, at, vanished[:d], vanished[d:], number, decrement, ended=False
            )
        # gamma_k = n_k - tr_k S: where it vanishes and f falls with tau_k, the maximum is at tau_k = 0; where f is flat to rounding
        # a step downwards would have no end.
        down = (at.gradient < 0) | (fell & (at.gradient < _NO_SLOPE))
        lost = ~vanished & down
        lost[:d] &= (sizes > 0) & (at.effective < _VANISHED * sizes)
        # near a limit at v = 0 f is linear in v: its slope over log v is all that is left to gain
        bend = np.abs(np.diagonal(at.hessian)[d:])
        lost[d:] &= (
            fell[d:] & (at.gradient[d:] > -_LEFT) & (bend < 10.0 * _LEFT) & may_vanish
        )
        if lost.any():
            vanished |= lost
            theta = theta - np.log(HELD) * lost
            at = surface(theta)
    return EvidenceMaximum(
        theta, at, vanished[:d], vanished[d:], max_steps, decrement, ended=False
    )


def with_held(
    surface: Callable[[Array], EvidencePoint], k: int, value: float
) -> Callable[[Array], EvidencePoint]:
    """The surface over the other coordinates where coordinate k has this value."""

    def held(others: Array) -> EvidencePoint:
        at = surface(np.insert(others, k, value))
        keep = np.arange(len(at.gradient)) != k
        return at._replace(
            gradient=at.gradient[keep],
            hessian=at.hessian[np.ix_(keep, keep)],
            effective=at.effective[keep[: len(at.effective)]],
        )

    return held


def _with_secants(H: Array, moves: Sequence[tuple[Array, Array]]) -> Array:
    """H changed so that H s = y for the last of the moves s with their changes y of the gradient, and nearly for those before."""
    for s, y in moves:
        if s @ y <= _SECANT * np.linalg.norm(s) * np.linalg.norm(y):
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
    at: EvidencePoint,
) -> tuple[Array, EvidencePoint] | None:
    """The first of the step, its half, its quarter, ... that does not lower the surface beyond rounding."""
    for t in _HALVES:
        new = surface(theta + t * step)
        if np.isfinite(new.value) and new.value >= at.value - 1e-12 * abs(at.value):
            return theta + t * step, new
    return None
