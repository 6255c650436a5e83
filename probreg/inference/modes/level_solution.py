"""The solution of a design with coded factors: coefficients of the raw columns, with a
structured covariance."""

from functools import partial

import numpy as np

from probreg.data.grouped_columns import ArrowGram
from probreg.inference.base import Array, Solution, Status, log_names
from probreg.inference.modes.existence import (
    Divergence,
    at_limits,
    divergence_status,
    may_diverge_along,
    notes_of_mode,
    rises_along,
    separation_message,
)
from probreg.inference.modes.level_newton import (
    LevelProblem,
    find_level_mode,
    level_problem,
)
from probreg.inference.modes.level_rows import ScaledArrow
from probreg.inference.modes.level_squares import require_independent_columns
from probreg.inference.modes.maximise import Maximum
from probreg.inference.modes.separation import Separation, separation
from probreg.likelihoods import MayDiverge
from probreg.model.likelihood_sums import largest_predictor
from probreg.model.model import Model

_FAR = 12.0  # |eta| beyond which a fitted probability is within 6e-6 of 0 or 1: check whether a maximum exists
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
    separated = _check_separation(problem, mode)
    divergence = _check_divergence(problem, mode)
    not_estimable: Array | None = None
    fixed = np.zeros(
        model.shape[0], dtype=bool
    )  # coefficients that are fixed at their values
    if separated is not None:
        status = Status.NO_MAXIMUM
        detail = separation_message(separated)
        not_estimable = separated.not_estimable
        if separated.held is None:
            fixed = separated.not_estimable[:, 0]
        else:
            fixed = separated.held
        H = _factor_without_fixed(problem, mode, fixed, ())
    elif divergence is not None:
        status, detail, not_estimable = divergence_status(model, divergence)
        H = _factor_without_fixed(
            problem,
            mode,
            np.zeros(model.shape[0], dtype=bool),
            divergence.to_zero + divergence.to_infinity,
        )
    else:
        status = mode.status
        detail = ""
        not_estimable = None
        H = _factor(mode.point.gram)
    if H is None:
        require_independent_columns(problem.rows, model)
        return None
    if separated is None and divergence is None:
        scale = problem.rows.covariance(H, log_names(model))
    else:
        boundary_aux = (
            () if divergence is None else divergence.to_zero + divergence.to_infinity
        )
        fixed_aux = np.array(
            [name in boundary_aux for name in model.unknown], dtype=bool
        )
        scale = problem.rows.covariance_without(H, fixed, log_names(model), fixed_aux)
    aux = problem.parts(mode.x)[2]
    return Solution(
        beta=problem.beta(mode.x),
        scale=scale,
        aux=at_limits({name: aux[name] for name in model.unknown}, divergence),
        status=status,
        detail=detail,
        not_estimable=not_estimable,
        stats={
            "n": model.design.total,
            "decrement": mode.decrement,
            "steps": float(mode.steps),
        },
        notes=notes_of_mode(model, mode.steps, mode.decrement, status),
    )


def _check_separation(problem: LevelProblem, mode: Maximum) -> Separation | None:
    """Return the separation by the exact check, if the fit looks like divergence."""
    model = problem.model
    if not isinstance(model.likelihood, MayDiverge) or model.joint.informative.all():
        return None
    largest = model.design.fold(
        partial(largest_predictor, beta=problem.beta(mode.x)), max
    )
    if mode.status is Status.CONVERGED and largest < _FAR and mode.steps < 15:
        return None
    result = separation(model)
    return None if result.kind == "none" else result


def _check_divergence(problem: LevelProblem, mode: Maximum) -> Divergence | None:
    """Return nuisance parameters along which the log posterior does not decrease; see
    `find_divergence`."""
    model, (G, r) = problem.model, problem.sizes

    def value(x: Array) -> float:
        return problem.local(x).value

    sides = dict[str, int]()
    for name in may_diverge_along(model)[0]:
        i = r + model.unknown.index(name)
        line = np.zeros(len(mode.x))
        line[G + i] = 1.0
        curvature = float(mode.point.gram.rest[i, i])
        sides[name] = next(
            (
                side
                for side in (-1, 1)
                if rises_along(value, mode.x, mode.point.value, side * line, curvature)
            ),
            0,
        )
    if not any(sides.values()):
        return None
    none = np.zeros((model.shape[0], 1), dtype=bool)
    to_zero, to_infinity = (
        tuple(name for name, side in sides.items() if side == s) for s in (-1, 1)
    )
    return Divergence(none, (), to_zero, to_infinity)


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
    problem: LevelProblem, mode: Maximum, fixed: Array, fixed_aux: tuple[str, ...]
) -> ScaledArrow | None:
    """Factorise the curvature over the raw coefficients and logs of nuisance parameters
    that are not fixed."""
    rows = problem.rows
    gram = mode.point.gram
    (_, r), u = problem.sizes, len(problem.model.unknown)
    M = np.eye(r + u)
    M[:r, :r] = rows.S_inverse
    free_border = np.concatenate(
        [~fixed[rows.border], [name not in fixed_aux for name in problem.model.unknown]]
    ).astype(bool)
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
