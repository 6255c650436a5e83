"""The mode of a design with coded factors as a solution: on the raw columns, with a covariance that is not written out."""

from functools import partial

import numpy as np

from probreg.data.grouped_columns import ArrowGram
from probreg.inference.base import Array, Solution, Status, log_names
from probreg.inference.modes.existence import (
    Divergence,
    at_limits,
    divergence_status,
    notes_of_mode,
    separation_message,
    undecided,
)
from probreg.inference.modes.level_newton import (
    LevelMode,
    LevelProblem,
    find_level_mode,
    level_problem,
)
from probreg.inference.modes.level_rows import ScaledArrow
from probreg.inference.modes.level_squares import refuse_collinear
from probreg.inference.modes.separation import Separation, separation
from probreg.likelihoods import MayDiverge
from probreg.model.likelihood_sums import largest_predictor
from probreg.model.model import Model

_FAR = 12.0  # |eta| beyond which a fitted probability is within 6e-6 of 0 or 1: time to ask whether a maximum exists
_SINGULAR = 1e-13  # of the diagonal: a pivot of the curvature below it is rounding
_ERRORS = 4.0  # standard errors that a line goes out: a quadratic falls by 8 there
_FALL = 1e-3  # what the log posterior falls there at least, were there a maximum
_OUT = 30.0  # the nearest that a line is cut to, where numbers do not reach further


def solve_levels(
    model: Model, *, tol: float, max_steps: int, start: Array | None
) -> Solution | None:
    """The mode by an arrow; None where columns have to be written out: see `level_problem`, and where some are not identified."""
    problem = level_problem(model)
    if problem is None:
        return None
    point = None if start is None else problem.point(start)
    mode = find_level_mode(problem, tol=tol, max_steps=max_steps, start=point)
    separated = _separated(problem, mode)
    lost = _lost(problem, mode)
    gone: Array | None = None
    runaway = np.zeros(
        model.shape[0], dtype=bool
    )  # coefficients that are held where they are
    if separated is not None:
        status = Status.NO_MAXIMUM
        detail = separation_message(separated)
        gone = separated.not_estimable
        if separated.held is None:
            runaway = separated.not_estimable[:, 0]
        else:
            runaway = separated.held
        H = _held(problem, mode, runaway, ())
    elif lost is not None:
        status, detail, gone = divergence_status(model, lost)
        H = _held(
            problem,
            mode,
            np.zeros(model.shape[0], dtype=bool),
            lost.to_zero + lost.to_infinity,
        )
    else:
        status = mode.status
        detail = ""
        gone = None
        H = _factor(mode.local.gram)
    if H is None:
        refuse_collinear(problem.rows, model)
        return None
    if separated is None and lost is None:
        scale = problem.rows.covariance(H, log_names(model))
    else:
        edge = () if lost is None else lost.to_zero + lost.to_infinity
        gone_aux = np.array([name in edge for name in model.unknown], dtype=bool)
        scale = problem.rows.covariance_without(H, runaway, log_names(model), gone_aux)
    known = problem.parts(mode.point)[2]
    # the delta method: sd(v) = v sd(log v)
    errors = scale.errors()[scale.coefficients :]
    sd = {
        name: float(known[name] * error) for name, error in zip(model.unknown, errors)
    }
    return Solution(
        beta=problem.beta(mode.point),
        scale=scale,
        aux=at_limits({name: known[name] for name in model.unknown}, lost),
        aux_sd=sd,
        status=status,
        detail=detail,
        not_estimable=gone,
        stats={
            "n": model.design.total,
            "decrement": mode.decrement,
            "steps": float(mode.steps),
        },
        notes=notes_of_mode(model, mode.steps, mode.decrement, status),
    )


def _separated(problem: LevelProblem, mode: LevelMode) -> Separation | None:
    """What exact arithmetic says where the fit looks like running away."""
    model = problem.model
    if not isinstance(model.likelihood, MayDiverge) or model.joint.informative.all():
        return None
    far = model.design.fold(
        partial(largest_predictor, beta=problem.beta(mode.point)), max
    )
    if mode.status is Status.CONVERGED and far < _FAR and mode.steps < 15:
        return None
    found = separation(model)
    return None if found.kind == "none" else found


def _lost(problem: LevelProblem, mode: LevelMode) -> Divergence | None:
    """Nuisance parameters along whose logs the log posterior does not fall; see `rising`."""
    model, (G, r) = problem.model, problem.sizes
    sides = dict[str, int]()
    for name in undecided(model)[0]:
        i = r + model.unknown.index(name)
        line = np.zeros(len(mode.point))
        line[G + i] = 1.0
        far = _ERRORS / np.sqrt(max(float(mode.local.gram.rest[i, i]), 1e-300))
        sides[name] = next(
            (side for side in (-1, 1) if _rises(problem, mode, side * line, far)), 0
        )
    if not any(sides.values()):
        return None
    nothing = np.zeros((model.shape[0], 1), dtype=bool)
    to_zero, to_infinity = (
        tuple(name for name, side in sides.items() if side == s) for s in (-1, 1)
    )
    return Divergence(nothing, (), to_zero, to_infinity)


def _rises(problem: LevelProblem, mode: LevelMode, line: Array, far: float) -> bool:
    """Whether the log posterior has hardly fallen this far out, or as near to that as numbers reach."""
    while (
        np.isnan(there := problem.local(mode.point + far * line).value)
        and far > 2.0 * _OUT
    ):
        far = max(far / 16.0, _OUT)
    return bool(there >= mode.local.value - _FALL)


def _factor(gram: ArrowGram) -> ScaledArrow | None:
    """The factor of the curvature; None where it is singular to rounding."""
    try:
        H = ScaledArrow.of(gram)
    except np.linalg.LinAlgError:
        return None
    pivots = np.square(np.diagonal(H.factor.T))
    if len(pivots) and pivots.min() < _SINGULAR:
        return None
    return H


def _held(
    problem: LevelProblem, mode: LevelMode, gone: Array, aux: tuple[str, ...]
) -> ScaledArrow | None:
    """The factor of the curvature over the raw coefficients and logs of nuisance parameters that are not held where they are."""
    rows = problem.rows
    gram = mode.local.gram
    (_, r), u = problem.sizes, len(problem.model.unknown)
    M = np.eye(r + u)
    M[:r, :r] = rows.S_inverse
    there = np.concatenate(
        [~gone[rows.border], [name not in aux for name in problem.model.unknown]]
    ).astype(bool)
    here = ~gone[rows.lead]
    E = gram.cross @ M
    F = M.T @ gram.rest @ M
    return _factor(
        ArrowGram(gram.lead[here], E[here][..., there], F[np.ix_(there, there)])
    )
