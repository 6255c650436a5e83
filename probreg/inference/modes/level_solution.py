"""The solution of a design with coded factors: coefficients of the raw columns, with a
structured covariance."""

import numpy as np

from probreg.data.grouped_columns import ArrowGram
from probreg.inference.base import Array, Solution, Status, log_names
from probreg.inference.modes.existence import (
    Divergence,
    at_limits,
    aux_limits,
    divergence_along,
    find_separation,
    notes_of_mode,
    verdict_on,
)
from probreg.inference.modes.level_newton import (
    LevelProblem,
    find_level_mode,
    level_problem,
)
from probreg.inference.modes.level_rows import ScaledArrow
from probreg.inference.modes.level_squares import require_independent_columns
from probreg.inference.modes.maximise import Maximum
from probreg.inference.modes.separation import Separation
from probreg.model.model import Model

_SINGULAR = (
    1e-13  # relative to the diagonal: a smaller pivot of the curvature is rounding
)


def solve_levels(
    model: Model, *, tol: float, max_steps: int, start: Array | None
) -> Solution | None:
    """Return the mode in arrow form; None if the design needs dense columns (see
    `level_problem`) or some are not identified."""
    problem = level_problem(model)
    if problem is None:
        return None
    point = None if start is None else problem.point(start)
    mode = find_level_mode(problem, tol=tol, max_steps=max_steps, start=point)
    beta = problem.beta(mode.x)
    cause: Separation | Divergence | None
    cause, _ = find_separation(
        model,
        beta,
        is_regular=mode.status is Status.CONVERGED and mode.steps < 15,
    )
    if cause is None:
        cause = _find_divergence(problem, mode)
    verdict = verdict_on(model, mode.status, cause)
    fixed = _fixed_coefficients(model, cause)
    limits = {} if cause is None else cause.limits
    fixed_aux = np.array([name in limits for name in model.unknown], dtype=bool)
    if cause is None:
        H = _factor(mode.point.gram)
    else:
        H = _factor_without_fixed(problem, mode, fixed, fixed_aux)
    if H is None:
        require_independent_columns(problem.rows, model)
        return None
    if cause is None:
        scale = problem.rows.covariance(H, log_names(model))
    else:
        scale = problem.rows.covariance_without(H, fixed, log_names(model), fixed_aux)
    aux = problem.parts(mode.x)[2]
    return Solution(
        beta=beta,
        scale=scale,
        aux=at_limits({name: aux[name] for name in model.unknown}, cause),
        **verdict._asdict(),
        stats={
            "n": model.design.total,
            "decrement": mode.decrement,
            "steps": float(mode.steps),
        },
        notes=notes_of_mode(model, mode.steps, mode.decrement, verdict.status),
    )


def _fixed_coefficients(model: Model, cause: Separation | Divergence | None) -> Array:
    """(p,) bool: coefficients that are fixed at their values."""
    if not isinstance(cause, Separation):
        return np.zeros(model.shape[0], dtype=bool)
    return cause.not_estimable[:, 0] if cause.held is None else cause.held


def _find_divergence(problem: LevelProblem, mode: Maximum) -> Divergence | None:
    """Return nuisance parameters along which the log posterior does not decrease; see
    `find_divergence`."""
    model = problem.model
    curvature = np.diagonal(mode.point.gram.rest)[problem.sizes[1] :]
    limits = aux_limits(
        model,
        lambda x: problem.local(x).value,
        mode.x,
        mode.point.value,
        curvature,
    )
    return divergence_along(model, np.zeros((model.shape[0], 1), dtype=bool), limits)


def _factor(gram: ArrowGram) -> ScaledArrow | None:
    """Factorise the curvature; None if it is singular up to rounding."""
    try:
        H = ScaledArrow.of(gram)
    except np.linalg.LinAlgError:
        return None
    pivots = np.square(np.diagonal(H.factor.T))
    if len(pivots) and pivots.min() < _SINGULAR:
        return None
    return H


def _factor_without_fixed(
    problem: LevelProblem, mode: Maximum, fixed: Array, fixed_aux: Array
) -> ScaledArrow | None:
    """Factorise the curvature over the raw coefficients and logs of nuisance parameters
    that are not fixed."""
    rows = problem.rows
    gram = mode.point.gram
    (_, r), u = problem.sizes, len(problem.model.unknown)
    M = np.eye(r + u)
    M[:r, :r] = rows.S_inverse
    free_border = np.concatenate([~fixed[rows.border], ~fixed_aux])
    free_lead = ~fixed[rows.lead]
    E = gram.cross @ M
    F = M.T @ gram.rest @ M
    return _factor(
        ArrowGram(
            gram.lead[free_lead],
            E[free_lead][..., free_border],
            F[np.ix_(free_border, free_border)],
        )
    )
