"""The way up a surface of the evidence: Newton's method over the logs of scales, some of which run to zero."""

from typing import NamedTuple

import numpy as np

from probreg.errors import Incompatible
from probreg.inference.base import Array
from probreg.inference.exact.marginal import EvidencePoint, Surface
from probreg.inference.modes.newton import newton_step
from probreg.model.model import LocalModel

_VANISHED = 1e-6  # of its parameters: a group of which the data settle less, on the way down, has no scale
_ROUNDING = 1e-5  # of a decrement, in standard errors of the log scales
_HELD = 1e5  # it is held at a scale this much smaller still, where its coefficients are zero to 1e-16


class EvidenceMaximum(NamedTuple):
    """A maximum of a surface; `vanished` are the scales that run to zero."""

    theta: Array
    at: EvidencePoint
    vanished: Array  # (K,) bool
    steps: int
    decrement: float


def maximise_log_scales(surface: Surface, theta: Array, sizes: Array, *, tol: float, max_steps: int) -> EvidenceMaximum:
    """Newton's method on the logs, made to rise; a scale that falls for ever is taken out, and comes back if it would rise."""
    K, at = len(sizes), surface(theta)
    vanished = np.zeros(len(theta), bool)
    decrement = np.inf
    for number in range(1, max_steps + 1):
        free = ~vanished
        # Newton on the free logs: -f'' step = f', made to rise where -f'' is not positive definite; decrement
        # (f'step)^(1/2).
        step = np.zeros(len(theta))
        step[free], convex = newton_step(LocalModel(at.value, at.gradient[free], -at.hessian[np.ix_(free, free)]))
        before, decrement = decrement, float(np.sqrt(max(float(at.gradient @ step), 0.0)))
        # So near the maximum each step squares the error: a decrement that no longer falls is rounding of the surface.
        if convex and (decrement < tol or before <= decrement < _ROUNDING):
            # A pruned scale comes back where the evidence rises with it: d f / d log tau_k > 0.
            up = theta + np.log(_HELD) * vanished
            back = vanished & (surface(up).gradient > 0) if vanished.any() else vanished
            if not back.any():
                return EvidenceMaximum(theta, at, vanished[:K], number, decrement)
            vanished, theta = vanished & ~back, np.where(back, up, theta)
            at = surface(theta)
            continue
        # No log moves by more than 2 at once: the expansion is of no use farther away.
        moved = _rise(surface, theta, step / max(1.0, float(np.abs(step).max()) / 2.0), at)
        if moved is None:
            return EvidenceMaximum(theta, at, vanished[:K], number, decrement)
        theta, at = moved
        # gamma_k = n_k - alpha_k tr_k S: where it vanishes and f falls with tau_k, the maximum is at tau_k = 0.
        lost = ~vanished[:K] & (at.effective < _VANISHED * sizes) & (at.gradient[:K] < 0)
        if lost.any():
            vanished[:K] |= lost
            theta = theta - np.log(_HELD) * np.append(lost, np.zeros(len(theta) - K))
            at = surface(theta)
    raise Incompatible(f"evidence: no maximum over the scales within {max_steps} steps; raise max_steps, or hold sigma")


def _rise(surface: Surface, theta: Array, step: Array, at: EvidencePoint) -> tuple[Array, EvidencePoint] | None:
    """The first of the step, its half, its quarter, ... that does not lower the surface beyond rounding."""
    for t in 0.5 ** np.arange(30):
        new = surface(theta + t * step)
        if np.isfinite(new.value) and new.value >= at.value - 1e-12 * abs(at.value):
            return theta + t * step, new
    return None
