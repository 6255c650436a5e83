"""Intervals that invert a test: the values psi of a coefficient that the likelihood ratio, or the score, does not reject.

With other parameters at their maximum given psi (sigma among them, on its log scale):
profile: sqrt(2 (l(max) - l(psi))) <= z; score (Rao 1948): |l'(psi)| sqrt(c' I^-1 c) <= z at the constrained maximum, I the
expected information of the coefficients. l is the log posterior, which equals the
log-likelihood for flat priors.
"""

from collections.abc import Mapping
from functools import partial
from itertools import product

import numpy as np

from probreg.errors import Incompatible, NotConverged
from probreg.inference.base import Array, Solution, Status, held_at_limits
from probreg.inference.modes.newton_method import Newton
from probreg.inference.modes.separation import escapes
from probreg.inference.uncertainty.constrained import (
    ConstrainedPath,
    Statistic,
    end,
    surface,
)
from probreg.inference.uncertainty.information import BlockEstimate, expected_part
from probreg.likelihoods import SmoothLikelihood
from probreg.linalg.vec import map_of_columns
from probreg.model.model import Model
from probreg.system.progress import progress_bar


def likelihood_ratio(path: ConstrainedPath, psi: float) -> float:
    """Return sqrt(2 (l(max) - l(psi))), inf if l is out of reach."""
    maximum = path.maximum(psi)
    # The root of the likelihood ratio statistic, approximately chi^2 on one degree of
    # freedom when squared.
    if maximum is None:
        return np.inf
    return float(np.sqrt(2.0 * max(path.top[1].value - maximum[1].value, 0.0)))


def rao(path: ConstrainedPath, psi: float) -> float:
    """Return |l'(psi)| sqrt(c' I^-1 c), inf if l is out of reach."""
    maximum = path.maximum(psi)
    if maximum is None:
        return np.inf
    theta, local = maximum
    model = path.at.model
    k = path.at.model.shape[0] * path.at.model.shape[1]
    H = local.curvature
    if not path.c[
        k:
    ].any():  # for sigma itself the observed curvature, for coefficients their expected information
        H = H.copy()
        H[:k, :k], H[:k, k:], H[k:, :k] = (
            _expected_information(model, theta[:k].reshape(model.shape), theta[k:]),
            0.0,
            0.0,
        )
    S = _scale_directions(path.at.B, H)
    inner = S.T @ path.c
    with np.errstate(all="ignore"):
        # V c along the identified directions; its product with c is the variance of
        # c'theta. g = l'(psi) c at the maximum,
        # so l'(psi) c'V c = g'V c.
        direction = S @ np.linalg.lstsq(S.T @ H @ S, inner, rcond=1e-14)[0]
        variance = float(path.c @ direction)
    if not (np.isfinite(variance) and variance > 0):
        return np.inf
    return abs(float(local.gradient @ direction)) / float(np.sqrt(variance))


def _scale_directions(B: Array, H: Array) -> Array:
    """Scale the directions B to unit curvature H, so that a narrow prior does not hide
    the rows."""
    return np.asarray(
        B / np.sqrt(np.maximum(np.diagonal(B.T @ H @ B), np.finfo(float).tiny))
    )


STATISTICS: Mapping[str, Statistic] = {"profile": likelihood_ratio, "score": rao}


def invert_test(
    model: Model, solution: Solution, kind: str, z: float
) -> tuple[Array, Array]:
    """Return ends (h, outcomes) of the interval of each reported coefficient at
    standard normal quantile z.

    A side is -inf or inf if the likelihood never decreases enough. Incompatible for a
    model without derivatives; NotConverged if the maximum was not reached.
    """
    _require_derivatives(model, solution, kind)
    model = held_at_limits(model, solution)
    surface_, theta, local = surface(model, solution)
    D = model.likelihood.contrast_matrix
    T = model.design.frame.T
    head = model.design.ungrouped
    open_ends = _open_sides(model, solution)
    ends = np.empty((2, model.shape[0], len(D)))
    # the step of the search is one standard error, where there is one
    errors = solution.given_scales.errors_of(D)
    with progress_bar(f"{kind} intervals", len(head) * len(D)) as bar:
        for j, d in bar.over(product(head.tolist(), range(len(D)))):
            c = np.concatenate([np.kron(T[j], D[d]), np.zeros(len(model.unknown))])
            path = ConstrainedPath(surface_, c, (theta, local))
            unit = float(errors[j, d])
            missing = solution.not_estimable is not None and bool(
                solution.not_estimable[j, d]
            )
            if missing or not 0.0 < unit < np.inf:
                unit = float(np.linalg.norm(c))
            for side, s in enumerate((-1, 1)):
                if open_ends[side, j, d]:
                    ends[side, j, d] = s * np.inf
                else:
                    ends[side, j, d] = end(
                        path, STATISTICS[kind], z, s, unit, runaway=missing
                    )
    return ends[0][head], ends[1][head]


def invert_test_of_aux(
    model: Model, solution: Solution, kind: str, name: str, z: float
) -> tuple[float, float]:
    """Return the interval of an estimated nuisance parameter, computed on its log
    scale."""
    _require_derivatives(model, solution, kind)
    model = held_at_limits(model, solution)
    surface_, theta, local = surface(model, solution)
    c = np.zeros(len(theta))
    c[model.shape[0] * model.shape[1] + model.unknown.index(name)] = 1.0
    path = ConstrainedPath(surface_, c, (theta, local))
    # psi = log aux has the standard deviation sd(aux) / aux; the ends of aux are
    # exp(psi).
    unit = solution.aux_sd[name] / solution.aux[name]
    lower, upper = (end(path, STATISTICS[kind], z, side, unit) for side in (-1, 1))
    return float(np.exp(lower)), float(np.exp(upper))


def _expected_information(model: Model, gamma: Array, log_aux: Array) -> Array:
    """Return the expected information of (vec gamma), plus the curvature of the
    prior."""
    assert isinstance(model.likelihood, SmoothLikelihood)
    frame = model.design.frame
    beta = frame.to_raw(gamma)
    values = {**model.fixed, **dict(zip(model.unknown, np.exp(log_aux).tolist()))}
    every = tuple(range(model.shape[1]))
    at = BlockEstimate(model.likelihood, frame, beta, values, every)
    T = map_of_columns(frame.T, model.shape[1])
    with np.errstate(all="ignore"):
        (information,) = model.design.sum_over_rows(partial(expected_part, at=at))
        noise = model.likelihood.noise(values)
        # I + P over gamma: d beta = T d gamma
        return np.asarray(information + T.T @ model.joint.curvature(beta, noise) @ T)


def _require_derivatives(model: Model, solution: Solution, kind: str) -> None:
    reason = Newton().obstacle(model)
    if reason:
        raise Incompatible(
            f"a {kind} interval needs the maximum with one coefficient fixed, by Newton's method: {reason}"
        )
    model.design.need_rows(f"a {kind} interval")
    if solution.status.is_unfinished:
        raise NotConverged(f"no {kind} interval: {solution.status.value}")


def _open_sides(model: Model, solution: Solution) -> Array:
    """(2, p, outcomes) bool: sides on which the likelihood does not decrease:
    separated, or not identified."""
    if solution.not_estimable is None:
        return np.zeros(
            (2, model.shape[0], len(model.likelihood.contrast_matrix)), bool
        )
    if solution.status is Status.NO_MAXIMUM and model.likelihood.may_diverge:
        return escapes(model)
    if (
        solution.status is Status.NO_MAXIMUM
    ):  # known only from the search, which diverged to this side
        side = solution.beta @ model.likelihood.contrast_matrix.T > 0
        return np.stack([solution.not_estimable & ~side, solution.not_estimable & side])
    return np.stack([solution.not_estimable, solution.not_estimable])
