"""Checks after a search whether the maximum likelihood estimate exists.

`find_divergence` checks any likelihood: it evaluates the log posterior along straight
lines from the end of the search, and at a maximum it decreases along every line.

The linear programme of separation needs all rows in memory. If rows come in blocks, it
uses an evenly spaced sample, and a direction that separates the sample is checked on
all rows. Rows that contradict it join the sample, until a direction separates all rows, or no
direction separates the sample and therefore none separates all rows (constraint generation).
"""

from collections.abc import Callable, Mapping
from dataclasses import replace
from functools import partial
from typing import Any, Literal, NamedTuple

import numpy as np

from probreg.data import Block
from probreg.data.blocks.block import join_blocks
from probreg.inference.base import (
    Array,
    Solution,
    Status,
    describe_limits,
    no_marks,
    split_parameters,
    status_at_limits,
)
from probreg.inference.modes.closed_form import (
    least_norm,
    not_identified,
    open_directions,
)
from probreg.inference.modes.level_rows import FreeDirections
from probreg.inference.modes.maximise import newton_step
from probreg.inference.modes.separation import (
    Separation,
    labels_of,
    non_zero,
    separation,
)
from probreg.inference.status import (
    Note,
    Topic,
    important_note,
    routine_note,
)
from probreg.likelihoods import DifferentiableLikelihood, MayDiverge
from probreg.linalg.vec import map_of_columns
from probreg.model.likelihood_sums import largest_predictor
from probreg.model.model import LocalModel, Model
from probreg.priors import Flat, GaussianPrior, ProximalPrior


def separation_by_block(model: Model) -> tuple[Separation, tuple[Note, ...]]:
    """Return the separation of the data, and notes on the decision if only a sample of the rows was used."""
    max_rounds = 20
    # relative to the largest movement: the linear programme's error in an equality
    zero = 1e-7
    design = model.design
    likelihood = model.likelihood
    if design.source is None or not isinstance(likelihood, MayDiverge):
        return separation(model), ()
    part = design.sample
    size = np.sqrt((part.X**2).mean(0))[:, None]
    result = separation(replace(model, design=part))
    if part.n == design.count:
        return result, ()
    for _ in range(max_rounds):
        if result.direction is None:
            return result, (
                routine_note(
                    Topic.CONVERGENCE,
                    "the data are not separated: {n} of {total} rows show it",
                    n=part.n,
                    total=design.count,
                ),
            )
        smallest = zero * float((np.abs(result.direction) * size).max())
        n_gaining, _, losing = design.sum_over_rows(
            partial(
                split_rows,
                likelihood=likelihood,
                direction=result.direction,
                smallest=smallest,
            ),
            _join_splits,
        )
        if not losing.rows:
            kind: Literal["complete", "quasi"] = "quasi"
            if n_gaining == design.count:
                kind = "complete"
            note = important_note(
                Topic.CONVERGENCE,
                "separation was found in {n} of {total} rows and holds in all; its coefficients are those of the {n} rows",
                n=part.n,
                total=design.count,
            )
            return replace(result, kind=kind, rows=n_gaining, separated_rows=None), (
                note,
            )
        joined = join_blocks([part.block, losing._replace(weights=None)])
        # weights do not affect separation
        part = replace(
            part,
            X=np.ascontiguousarray(joined.X),
            y=joined.y,
            offset=joined.offset,
            weights=np.ones(joined.rows),
        )
        result = separation(replace(model, design=part))
    note = important_note(
        Topic.CONVERGENCE,
        "the check for separation was inconclusive; large coefficients and standard errors indicate separation",
    )
    return Separation.without_separation(model), (note,)


class RowSplit(NamedTuple):
    """How many rows gain likelihood along a direction, and the rows that lose most of it."""

    gaining: int
    losses: Array  # (k,) of the losing rows, in descending order
    losing: Block  # k rows


def split_rows(
    block: Block, *, likelihood: MayDiverge, direction: Array, smallest: float
) -> RowSplit:
    """Split the rows of a block by whether they gain or lose likelihood along a
    direction (p, m) of the coefficients.

    A linear predictor gains or loses if it moves by more than `smallest`.
    """
    cone = likelihood.recession(block.y)
    # c_r'(x_r D) >= 0 if the likelihood does not decrease along D.
    gain = np.einsum("rm,rm->r", cone.directions, block.X[cone.rows] @ direction)
    gaining = np.unique(cone.rows[~cone.equal & (gain > smallest)])
    losses = np.zeros(block.rows)
    np.maximum.at(losses, cone.rows, np.where(cone.equal, np.abs(gain), -gain))
    losing = np.flatnonzero(losses > smallest)
    return _with_largest_losses(len(gaining), losses[losing], block.part(losing))


def _join_splits(a: RowSplit, b: RowSplit) -> RowSplit:
    return _with_largest_losses(
        a.gaining + b.gaining,
        np.concatenate([a.losses, b.losses]),
        join_blocks([a.losing, b.losing]),
    )


def _with_largest_losses(gaining: int, losses: Array, losing: Block) -> RowSplit:
    """Return a split with the rows that join the sample in a round."""
    max_rows = 500
    largest = np.argsort(-losses, kind="stable")[:max_rows]
    return RowSplit(gaining, losses[largest], losing.part(largest))


FAR_PREDICTOR = 12.0  # |eta| beyond which a fitted probability is within 6e-6 of 0 or 1: check whether a maximum exists


class Divergence(NamedTuple):
    """Parameters along which the log posterior does not decrease at any distance, so that they have no estimate."""

    not_estimable: (
        Array  # (p, D) bool, reported coefficients that have no finite estimate
    )
    labels: tuple[str, ...]
    limits: Mapping[str, float]  # of nuisance parameters that go to 0 or infinity
    status: Status
    detail: str
    span: Array | None = None  # (p, m, r), the directions without curvature


def mode_solution(
    model: Model,
    beta: Array,
    aux: Mapping[str, float],
    status: Status,
    cause: Separation | Divergence | None,
    opened: FreeDirections | None,
    **others: Any,
) -> Solution:
    """Return the solution at the end of a search, with the reasons why coefficients have
    no estimate: they diverge, the rows do not identify them, or both.

    Coefficients that are only unidentified have the least norm. A nuisance
    parameter that diverges to 0 is exactly 0. `others` are further fields.
    """
    likelihood = model.likelihood
    missing = no_marks(model)
    null_space = None
    detail = ""
    if cause is not None:
        status = cause.status
        missing = cause.not_estimable
        detail = cause.detail
        aux = {a: 0.0 if cause.limits.get(a) == 0.0 else v for a, v in aux.items()}
    elif status.is_unfinished and isinstance(likelihood, DifferentiableLikelihood):
        detail = likelihood.obstacle_to_search
    if opened is not None:
        if cause is None:
            status = Status.NOT_IDENTIFIED
            detail = opened.words
        else:
            detail = f"{detail}; not identified: {opened.words}"
        if not missing.any():
            null_space = opened.directions
            beta = least_norm(beta, null_space)
        missing = missing | not_identified(opened.directions)[:, None]
    return Solution(
        beta=beta,
        aux=aux,
        status=status,
        detail=detail,
        not_estimable=missing if missing.any() else None,
        null_space=null_space,
        **others,
    )


def find_separation(
    model: Model, beta: Array, status: Status, steps: int
) -> tuple[Separation | None, tuple[Note, ...]]:
    """Check for separation by linear programming, which is exact but slow, only if the
    fit looks like divergence.

    It does if a predictor is large, or if the search did not converge in few steps.
    """
    if not isinstance(model.likelihood, MayDiverge) or model.joint.informative.all():
        return None, ()
    largest = model.design.sum_over_rows(partial(largest_predictor, beta=beta), max)
    if largest < FAR_PREDICTOR and status is Status.CONVERGED and steps < 15:
        return None, ()
    result, notes = separation_by_block(model)
    return result or None, notes


def may_diverge_along(model: Model) -> tuple[list[str], bool]:
    """Return nuisance parameters that may go to a limit, and whether the coefficients may diverge for all we know."""
    names = [name for name in model.unknown if name != model.likelihood.noise_scale]
    return (
        names,
        model.likelihood.may_diverge is None and not model.joint.informative.all(),
    )


def find_divergence(
    model: Model, gamma: Array, log_aux: Array, local: LocalModel
) -> Divergence | None:
    """Return the parameters along which the log posterior increases without bound from
    the end of a search, or None.

    The lines run over the coefficients unless the likelihood defines `may_diverge` (an
    exact method then decides), and over the log of every nuisance parameter except a
    noise scale.

    At a maximum with curvature H the log posterior decreases by t^2 d'Hd / 2 along d to
    second order, by 8 at four standard errors t = 4 / sqrt(d'Hd). Towards infinity the
    log-likelihood is flat: d'Hd is nearly zero, and at four of these very large
    standard errors the log posterior has not decreased at all.
    """
    names, free = may_diverge_along(model)
    H = local.curvature
    is_finite = np.isfinite(local.gradient).all() and np.isfinite(H).all()
    if not (names or free) or not is_finite:
        return None
    k = gamma.size
    point = np.concatenate([gamma.ravel(), log_aux])

    def value(x: Array) -> float:
        # far away densities overflow: -inf is a decrease, nan is undefined
        with np.errstate(all="ignore"):
            at_x, aux = split_parameters(model, x)
            beta = model.design.frame.to_raw(at_x)
            return float(model.log_posterior(beta, **aux)) + float(x[k:].sum())

    flat = np.zeros((k, 0))
    if free:
        top = value(point)

        def rises(d: Array) -> bool:
            line = np.concatenate([d, np.zeros(len(log_aux))])
            return rises_along(value, point, top, line, float(d @ H[:k, :k] @ d))

        step = newton_step(local)[0][:k]
        flat = _flat_directions(model, H[:k, :k], (step, gamma.ravel()), rises)
    return divergence_of(model, value, point, np.diagonal(H)[k:], flat)


def divergence_of(
    model: Model,
    value: Callable[[Array], float],
    point: Array,
    curvature_of_aux: Array,
    flat: Array | None = None,
) -> Divergence | None:
    """Return the divergence of coefficients along the directions `flat` (p m, r) on
    standardised columns, and of nuisance parameters (their logs are last in a point);
    None if there is none."""
    limits: dict[str, float] = {}
    top = value(point)
    for name in may_diverge_along(model)[0]:
        i = model.unknown.index(name)
        place = len(point) - len(model.unknown) + i
        # first the end towards which the search went: far out, the function is flat on both sides
        ends = [(-1.0, 0.0), (1.0, np.inf)]
        for side, limit in reversed(ends) if point[place] > 0.0 else ends:
            line = np.zeros(len(point))
            line[place] = side
            if rises_along(value, point, top, line, float(curvature_of_aux[i])):
                limits[name] = limit
                break
    span = None
    not_estimable = no_marks(model)
    if flat is not None:
        T = model.design.frame.T
        flat = flat.reshape(*model.shape, -1)
        not_estimable = non_zero(T, model.likelihood.contrast_matrix, flat)
        span = np.einsum("pk,kmr->pmr", T, flat)
    if not (not_estimable.any() or limits):
        return None
    labels = labels_of(model, not_estimable)
    reasons = []
    if labels:
        verb = "runs" if len(labels) == 1 else "run"
        reasons = [
            f"the likelihood does not fall as {', '.join(labels)} {verb} to infinity"
        ]
    likelihood = model.likelihood
    reasons += describe_limits(likelihood, limits)
    has_limit = all(
        limit == 0.0 or name in likelihood.at_infinity for name, limit in limits.items()
    )
    status = Status.NO_MAXIMUM
    if has_limit and not labels:
        status = status_at_limits(limits)
    return Divergence(not_estimable, labels, limits, status, "; ".join(reasons), span)


def rises_along(
    value: Callable[[Array], float], x: Array, top: float, line: Array, curvature: float
) -> bool:
    """Whether a function has hardly decreased from its value `top` at x, at four standard
    errors along a line, or at the nearest distance with finite values."""
    # up to this |eta| 1 - p has at least three digits: a tail probability of exp(-30)
    largest_eta = 30.0
    min_fall = 1e-3  # smallest decrease of the log posterior there if a maximum exists
    # length of a line in standard errors; a quadratic decreases by 8 there
    n_errors = 4.0
    length = float(np.linalg.norm(line))
    if not (np.isfinite(length) and length > 0):
        return False
    d = line / length
    t = n_errors / np.sqrt(max(curvature / length**2, 1e-300))
    while np.isnan(value_at_t := value(x + t * d)) and t > 2.0 * largest_eta:
        t = max(t / 16.0, largest_eta)
    return bool(value_at_t >= top - min_fall)


def _flat_directions(
    model: Model, H: Array, guesses: tuple[Array, ...], rises: Callable[[Array], bool]
) -> Array:
    """Return orthonormal directions (p m, r) of the coefficients without curvature
    along which some line does not decrease.

    The result is (p m, 0) if every line decreases. Directions that do not change X beta
    are excluded; `rank` treats them.
    """
    # directions of least curvature that are searched in addition to the last step
    n_weakest = 8
    Q = _identified_basis(model)
    values, vectors = np.linalg.eigh(Q.T @ H @ Q)
    vectors = Q @ vectors
    weak = [s * v for v in vectors.T[:n_weakest] for s in (1.0, -1.0)]
    for d in (*(Q @ (Q.T @ v) for v in guesses), *weak):
        if rises(d):
            # directions of similar curvature diverge too; all others have much more, unless everything diverges
            flatness = max(float(d @ H @ d) / float(d @ d), 0.0)
            largest = max(
                min(1e4 * flatness, np.sqrt(flatness * values[-1])), 1e-13 * values[-1]
            )
            return vectors[:, values <= largest]
    return np.zeros((len(H), 0))


def _identified_basis(model: Model) -> Array:
    """Return an orthonormal basis (p m, r) of the identified coefficients of standardised columns without a prior."""
    basis = model.design.frame
    free = basis.T_inverse[:, ~model.joint.informative]
    opened = open_directions(model)
    if opened is not None:
        null = np.linalg.qr(basis.T_inverse @ opened.directions)[0]
        free = free - null @ (null.T @ free)
    U, size, _ = np.linalg.svd(free, full_matrices=False)
    return map_of_columns(U[:, size > 1e-10 * size.max(initial=1.0)], model.shape[1])


def multimodality_cause(model: Model) -> str | None:
    """Return why the posterior can have several modes, or None if log p is concave in
    beta given the nuisance parameters."""
    wide = [
        b.prior.name
        for b in model.joint.blocks
        if not isinstance(b.prior, Flat | GaussianPrior)
        and not (isinstance(b.prior, ProximalPrior) and b.prior.convex)
    ]
    causes = [f"the {name} prior" for name in dict.fromkeys(wide)]
    if not (
        isinstance(model.likelihood, DifferentiableLikelihood)
        and model.likelihood.concave
    ):
        causes.insert(0, f"{model.likelihood.named} likelihood")
    if not causes:
        return None
    return f"{' and '.join(causes)} can give a posterior with several modes"
