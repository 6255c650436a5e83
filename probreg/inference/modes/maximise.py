"""Damped Newton for a smooth function: the loop of every mode search.

The stopping rule is the Newton decrement (g' H^-1 g)^(1/2), the distance to the maximum
in standard errors (Boyd & Vandenberghe 2004, section 9.5).
"""

from collections.abc import Callable
from typing import Any, NamedTuple

import numpy as np
from scipy.linalg import lapack

from probreg.inference.base import Array, Status
from probreg.linalg import unit_diagonal
from probreg.linalg.halving import halvings

Point = Any  # a NamedTuple with a value, its gradient, and data for a Newton step


class Maximum(NamedTuple):
    """The end of a search."""

    x: Array
    point: Point
    decrement: float
    steps: int
    status: Status


def maximise(
    evaluate: Callable[[Array], Point],
    find_step: Callable[[Point], tuple[Array, bool]],
    x: Array,
    point: Point,
    *,
    tol: float,
    max_steps: int,
    refine: Callable[[Array, Point, float], Array] | None = None,
    evaluates_last: bool = True,
) -> Maximum:
    """Maximise a function from x, where it has the value and gradient of `point`.

    Parameters
    ----------
    evaluate : callable
        Returns the point at x. A value that is not finite halves the step.
    find_step : callable
        Returns H^-1 g at a point, and whether H is positive definite.
    tol : float
        Below this decrement the search makes its last step, which squares the error.
    refine : callable, optional
        Returns a better x near a point, or x itself, without curvature.
    evaluates_last : bool
        Whether to evaluate the function after the last step.
    """
    # of a decrement, in standard errors: below it, the remainder after a Newton step is rounding
    rounding = 1e-5
    decrement = np.inf
    for steps in range(1, max_steps + 1):
        step, is_definite = find_step(point)
        before = decrement
        decrement = float(np.sqrt(max(point.gradient @ step, 0.0)))
        if is_definite and decrement < tol:
            x = x + step
            last = evaluate(x) if evaluates_last else point
            return Maximum(x, last, decrement, steps, Status.CONVERGED)
        if is_definite and before <= decrement < rounding:
            return Maximum(x, point, decrement, steps, Status.CONVERGED)
        if refine is not None and is_definite:
            refined = refine(x, point, decrement)
            if refined is not x:
                x = refined
                point = evaluate(x)
                continue
        accepted = _halve_step(evaluate, find_step, x, point, step)
        if accepted is None:
            # the maximum is reached up to rounding, or the point is not a maximum
            ended = is_definite and decrement < rounding
            status = Status.CONVERGED if ended else Status.SADDLE
            return Maximum(x, point, decrement, steps, status)
        x, point = accepted
    return Maximum(x, point, decrement, max_steps, Status.STEP_LIMIT)


def _halve_step(
    evaluate: Callable[[Array], Point],
    find_step: Callable[[Point], tuple[Array, bool]],
    x: Array,
    point: Point,
    step: Array,
) -> tuple[Array, Point] | None:
    """Halve the step until the value increases by Armijo's rule, up to rounding; None if it never does."""
    # of g'H^-1 g: below it the gradient, not the value, decides whether a step is accepted
    flat_slope = 1e-4
    slope = float(point.gradient @ step)
    noise = 1e-13 * abs(point.value)
    for t in halvings(x, step):
        new = evaluate(x + t * step)
        if not (np.isfinite(new.value) and np.isfinite(new.gradient).all()):
            continue
        if new.value >= point.value + 1e-4 * t * slope - noise:
            return x + t * step, new
        if slope < flat_slope and t == 1.0:
            # the value is a sum with cancellation: g'H^-1 g must decrease
            new_step, _ = find_step(point._replace(gradient=new.gradient))
            if 0.0 <= new.gradient @ new_step < 0.25 * slope:
                return x + step, new
    return None


def newton_step(local: Point) -> tuple[Array, bool]:
    """Return H^-1 g with rows scaled to unit diagonal; if H is not positive definite, its eigenvalues are replaced."""
    g = local.gradient
    if not g.size:  # every scale is at its limit
        return g, True
    scaled, d = unit_diagonal(local.curvature)
    # LAPACK directly: for few parameters SciPy's argument checks take ten times as long as the solve
    _, unit, info = lapack.dposv(np.asarray_chkfinite(scaled), g / d)
    if info == 0:
        # H^-1 g = D^-1 (D^-1 H D^-1)^-1 D^-1 g with D = diag(H)^(1/2), invariant to the
        # units of the columns.
        return unit / d, True
    value, vector = np.linalg.eigh(scaled)
    # D^-1 H D^-1 = V diag(v) V', and the step D^-1 V diag(1/|v|) V' D^-1 g is an ascent direction.
    floor = 1e-10 * max(float(np.abs(value).max()), 1.0)
    is_definite = bool((value >= -floor).all())
    # no step along directions that do not change the value
    value = np.where(np.abs(value) <= floor, np.inf, np.abs(value))
    return (vector / value) @ (vector.T @ (g / d)) / d, is_definite
