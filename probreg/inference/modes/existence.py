"""Checks after a search whether the maximum likelihood estimate exists.

`proves_maximum` proves it for likelihoods with their canonical link, in one pass over
the rows. `find_divergence` proves the contrary for any
likelihood: it evaluates the log posterior along straight lines from the end of the
search, and at a maximum it decreases along every line.

The linear programme of separation needs all rows in memory. If rows come in blocks, it
uses an evenly spaced sample, and a
direction that separates the sample is checked on all rows. Rows that contradict it join
the sample, until a direction
holds for all rows or the sample has none, which proves that all rows have none
(constraint generation).
"""

from collections.abc import Callable, Mapping
from dataclasses import replace
from functools import partial
from typing import Literal, NamedTuple

import numpy as np

from probreg.data import Block, Design
from probreg.data.blocks.block import join_blocks
from probreg.inference.base import Array, Status, sigma_note
from probreg.inference.modes.closed_form import null_space
from probreg.inference.modes.separation import (
    Separation,
    labels_of,
    non_zero,
    separation,
)
from probreg.inference.notes import (
    JOINT_SIGMA,
    Note,
    Topic,
    important_note,
    routine_note,
)
from probreg.likelihoods import DifferentiableLikelihood, MayDiverge
from probreg.linalg.vec import map_of_columns
from probreg.model.likelihood_sums import largest_block
from probreg.model.model import LocalModel, Model
from probreg.priors import Flat, GaussianPrior, Prior, ProximalPrior
from probreg.system.terminal import few_names

_ZERO = 1e-7  # relative to the largest movement: the linear programme's error in an equality
_MORE = 500  # rows that join the sample in a round
_ROUNDS = 20


class RowGains(NamedTuple):
    """Rows along a direction: how many gain likelihood, how many lose it, and the
    largest losses with their rows."""

    gaining: int
    losing: int
    loss: Array
    rows: Block

    def worse(self, other: "RowGains") -> "RowGains":
        """Return the sum of both counts and the largest losses of both."""
        loss = np.concatenate([self.loss, other.loss])
        largest = np.argsort(-loss, kind="stable")[:_MORE]
        rows = join_blocks([self.rows, other.rows]).part(largest)
        return RowGains(
            self.gaining + other.gaining,
            self.losing + other.losing,
            loss[largest],
            rows,
        )


def separation_by_block(model: Model) -> tuple[Separation, tuple[Note, ...]]:
    """Return the separation of the data, and notes on the decision if only a sample of
    the rows was used."""
    design = model.design
    likelihood = model.likelihood
    if design.source is None or not isinstance(likelihood, MayDiverge):
        return separation(model), ()
    part = design.sample
    size = np.sqrt((part.X**2).mean(0))[:, None]
    result = separation(replace(model, design=part))
    if part.n == design.count:
        return result, ()
    for _ in range(_ROUNDS):
        if result.direction is None:
            return result, (
                routine_note(
                    Topic.CONVERGENCE,
                    "the data are not separated: {n} of {total} rows show it",
                    n=part.n,
                    total=design.count,
                ),
            )
        smallest = _ZERO * float((np.abs(result.direction) * size).max())
        gains_of_block = partial(
            along, likelihood=likelihood, direction=result.direction, smallest=smallest
        )
        gains = design.fold(gains_of_block, RowGains.worse)
        if not gains.losing:
            kind: Literal["complete", "quasi"] = (
                "complete" if gains.gaining == design.count else "quasi"
            )
            note = important_note(
                Topic.CONVERGENCE,
                "separation was found in {n} of {total} rows and holds in all; its coefficients are those of the {n} rows",
                n=part.n,
                total=design.count,
            )
            return replace(result, kind=kind, rows=gains.gaining), (note,)
        part = _extend_sample(part, gains.rows)
        result = separation(replace(model, design=part))
    none = replace(
        result,
        kind="none",
        columns=(),
        labels=(),
        not_estimable=np.zeros_like(result.not_estimable),
        rows=0,
    )
    note = important_note(
        Topic.CONVERGENCE,
        "the check for separation was inconclusive; large coefficients and standard errors indicate separation",
    )
    return none, (note,)


def along(
    block: Block, *, likelihood: MayDiverge, direction: Array, smallest: float
) -> RowGains:
    """Return the gains of the rows of a block along a direction (p, m) of the
    coefficients.

    A linear predictor gains or loses if it moves by more than `smallest`.
    """
    cone = likelihood.recession(block.y)
    # c_r'(x_r D) >= 0 if the likelihood does not decrease along D.
    gain = np.einsum("rm,rm->r", cone.directions, block.X[cone.rows] @ direction)
    loss = np.where(cone.equal, np.abs(gain), -gain)
    gaining = np.unique(cone.rows[(gain > smallest) & ~cone.equal])
    worst = np.zeros(block.rows)
    np.maximum.at(worst, cone.rows, loss)
    losing = np.flatnonzero(worst > smallest)
    largest = losing[np.argsort(-worst[losing], kind="stable")[:_MORE]]
    return RowGains(len(gaining), len(losing), worst[largest], block.part(largest))


def _extend_sample(part: Design, rows: Block) -> Design:
    """Return the sample with more rows; their weights do not affect separation."""
    weights = np.ones(part.n + rows.rows)
    joined = join_blocks(
        [Block(part.X, part.observed, None, part.offset), rows._replace(weights=None)]
    )
    return replace(
        part,
        X=np.ascontiguousarray(joined.X),
        y=joined.y,
        offset=joined.offset,
        weights=weights,
    )


_ERRORS = (
    4.0  # length of a line in standard errors, at which a quadratic decreases by 8
)
_FALL = 1e-3  # smallest decrease of the log posterior there if a maximum exists
_FAR = 30.0  # on the scale of eta: a tail probability of exp(-30)
# directions of least curvature that are searched in addition to the last step
_WEAKEST = 8


def proves_maximum(model: Model, gradient: Array, cov: Array) -> bool:
    """Prove that the maximum of a canonical likelihood exists: nu R < 1, with the
    Newton decrement nu and R the largest
    |x_i v| over the rows and over directions v of unit length in the curvature H. False
    does not prove the contrary.

    `gradient` (p m,) and `cov` = H^-1 are evaluated at one point over the coefficients of the standardised columns, without a
    prior. In each row the third derivative along v is at most |x_i v| times the second, so the curvature decreases no faster
    than exp(-R t), and at distance t along v the log-likelihood decreases at a rate of at least (1 - exp(-R t)) / R - nu. If
    nu R < 1, this rate becomes positive in every direction. In a softmax |x_i v| is the difference of two classes,
    at most sqrt 2 times the length over the predictors.
    Source: Bach 2010, Self-concordant analysis for logistic regression.
    """
    (p, m), T = model.shape, model.design.frame.T
    nu = np.sqrt(max(gradient @ cov @ gradient, 0.0))
    # Over v'Hv = 1 the largest |x v|^2 is the largest eigenvalue of cov(x beta) (m, m), at most its trace x A x' with
    # A = sum_c cov(beta_c).
    A = T @ np.einsum("icjc->ij", cov.reshape(p, m, p, m)) @ T.T
    try:
        root = np.linalg.cholesky(A)
    except np.linalg.LinAlgError:
        return False
    R = np.sqrt(min(m, 2.0)) * model.design.fold(partial(largest_block, root=root), max)
    return bool(nu * R < 0.25)  # a fourth, for rounding


class Divergence(NamedTuple):
    """Parameters along which the log posterior does not decrease at any distance, so
    that they have no estimate."""

    not_estimable: (
        Array  # (p, D) bool, reported coefficients that have no finite estimate
    )
    labels: tuple[str, ...]
    to_zero: tuple[str, ...]  # nuisance parameters that go to 0
    to_infinity: tuple[str, ...]
    span: Array | None = None  # (p, m, r), the directions without curvature

    @property
    def words(self) -> str:
        return f"the likelihood does not fall as {', '.join(self.labels)} run{'s' * (len(self.labels) == 1)} to infinity"


def may_diverge_along(model: Model) -> tuple[list[str], bool]:
    """Return nuisance parameters that may go to a limit, and whether the coefficients
    may diverge for all we know."""
    names = [name for name in model.unknown if name != model.likelihood.noise_scale]
    return (
        names,
        model.likelihood.may_diverge is None and not model.joint.informative.all(),
    )


def find_divergence(
    model: Model, gamma: Array, log_aux: Array, local: LocalModel, step: Array
) -> Divergence | None:
    """Return the parameters along which the log posterior increases without bound from
    the end of a search, or None.

    The lines run over the coefficients unless the likelihood defines `may_diverge` (an
    exact method then decides), and over the
    log of every nuisance parameter except a noise scale. `step` is Newton's step from
    this point.

    At a maximum with curvature H the log posterior decreases by t^2 d'Hd / 2 along d to
    second order, by 8 at four standard errors
    t = 4 / sqrt(d'Hd). Towards infinity the log-likelihood is flat: d'Hd is nearly
    zero, and at four of these very large
    standard errors the log posterior has not decreased at all.
    """
    k = gamma.size
    H = local.curvature
    names, free = may_diverge_along(model)
    lines = PosteriorLines(model, gamma, log_aux)
    if free:
        flat = _flat_directions(lines, H, step)
    else:
        flat = np.zeros((k, 0))
    sides = {name: _side(lines, H, k + model.unknown.index(name)) for name in names}
    if not flat.shape[1] and not any(sides.values()):
        return None
    flat = flat.reshape(*gamma.shape, -1)
    T = model.design.frame.T
    not_estimable = non_zero(T, model.likelihood.contrast_matrix, flat)
    to_zero, to_infinity = (
        tuple(name for name, side in sides.items() if side == s) for s in (-1, 1)
    )
    return Divergence(
        not_estimable,
        labels_of(model, not_estimable),
        to_zero,
        to_infinity,
        np.einsum("pk,kmr->pmr", T, flat),
    )


def at_limits(
    aux: Mapping[str, float], divergence: Divergence | None
) -> dict[str, float]:
    """Return nuisance parameters with an exact 0 for those that diverge to that
    limit."""
    vanished = () if divergence is None else divergence.to_zero
    return {name: 0.0 if name in vanished else float(v) for name, v in aux.items()}


class PosteriorLines:
    """The log posterior along straight lines over (vec gamma, log aux) from a point."""

    def __init__(self, model: Model, gamma: Array, log_aux: Array):
        self.model, self.shape = model, gamma.shape
        self.point = np.concatenate([gamma.ravel(), log_aux])
        self.top = self.value(self.point)

    def value(self, point: Array) -> float:
        k = self.shape[0] * self.shape[1]
        with np.errstate(
            all="ignore"
        ):  # far away densities overflow: -inf is a decrease, nan is undefined
            aux = dict(zip(self.model.unknown, np.exp(point[k:])))
            beta = self.model.design.frame.to_raw(point[:k].reshape(self.shape))
            return float(self.model.log_posterior(beta, **aux)) + float(point[k:].sum())

    def rises(self, direction: Array, H: Array) -> bool:
        """Whether the log posterior has hardly decreased at four standard errors, or at
        the nearest distance with finite values."""
        length = float(np.linalg.norm(direction))
        if not (np.isfinite(length) and length > 0):
            return False
        d = direction / length
        return rises_along(self.value, self.point, self.top, d, float(d @ H @ d))


def rises_along(
    value: Callable[[Array], float], x: Array, top: float, d: Array, curvature: float
) -> bool:
    """Whether a function has hardly decreased from its value `top` at x, at four standard
    errors along d, or at the nearest distance with finite values."""
    t = _ERRORS / np.sqrt(max(curvature, 1e-300))
    while np.isnan(value_at_t := value(x + t * d)) and t > 2.0 * _FAR:
        t = max(t / 16.0, _FAR)
    return bool(value_at_t >= top - _FALL)


def _flat_directions(lines: PosteriorLines, H: Array, step: Array) -> Array:
    """Return orthonormal directions (p m, r) of the coefficients without curvature
    along which some line does not decrease.

    The result is (p m, 0) if every line decreases. Directions that do not change X beta
    are excluded; `rank` treats them.
    """
    k = lines.shape[0] * lines.shape[1]
    Q = _identified_basis(lines.model)
    values, vectors = np.linalg.eigh(Q.T @ H[:k, :k] @ Q)
    vectors = Q @ vectors
    pad = np.zeros(len(H) - k)
    weak = [s * v for v in vectors.T[:_WEAKEST] for s in (1.0, -1.0)]
    for d in (Q @ (Q.T @ step[:k]), Q @ (Q.T @ lines.point[:k]), *weak):
        if lines.rises(np.concatenate([d, pad]), H):
            # directions of similar curvature diverge too; all others have much more,
            # unless everything diverges
            flatness = max(float(d @ H[:k, :k] @ d) / float(d @ d), 0.0)
            return vectors[
                :,
                values
                <= max(
                    min(1e4 * flatness, np.sqrt(flatness * values[-1])),
                    1e-13 * values[-1],
                ),
            ]
    return np.zeros((k, 0))


def _identified_basis(model: Model) -> Array:
    """Return an orthonormal basis (p m, r) of the identified coefficients of
    standardised columns without a prior."""
    basis = model.design.frame
    rank = model.design.moments.rank
    free = basis.T_inverse[:, ~model.joint.informative]
    if any(not model.joint.informative[j] for j in rank.dropped):
        null = np.linalg.qr(basis.T_inverse @ null_space(rank, model.shape[0]))[0]
        free = free - null @ (null.T @ free)
    U, size, _ = np.linalg.svd(free, full_matrices=False)
    return map_of_columns(U[:, size > 1e-10 * size.max(initial=1.0)], model.shape[1])


def _side(lines: PosteriorLines, H: Array, i: int) -> int:
    """-1 if the log of a nuisance parameter diverges to -infinity, 1 if to infinity, 0
    if it does neither."""
    line = np.zeros(len(H))
    line[i] = 1.0
    return next((side for side in (-1, 1) if lines.rises(side * line, H)), 0)


# ---- messages
# --------------------------------------------------------------------------------------------------


def stop_message(steps: int, decrement: float, status: Status) -> str:
    """Return where the search ended, with the distance to the maximum if there is
    one."""
    if status in (Status.NO_MAXIMUM, Status.AT_ZERO):
        return f"stopped after {steps} steps, where the likelihood still increases towards {'infinity' if status is Status.NO_MAXIMUM else '0'}"
    if status is Status.SADDLE:
        return f"stopped after {steps} steps at a point that is not a maximum"
    return (
        f"distance to the maximum {decrement:.1e} standard errors after {steps} steps"
    )


def notes_of_mode(
    model: Model, steps: int, decrement: float, status: Status
) -> tuple[Note, ...]:
    """Return the notes on sigma and on where the optimiser stopped."""
    stop = routine_note(Topic.CONVERGENCE, stop_message(steps, decrement, status))
    return (*sigma_note(model, JOINT_SIGMA), stop)


def separation_message(separation: Separation) -> str:
    return f"{separation.kind} separation by {few_names(separation.labels)}"


def divergence_status(
    model: Model, divergence: Divergence
) -> tuple[Status, str, Array | None]:
    """Return status, detail and the coefficients without an estimate, for a search that
    diverged."""
    limits = model.likelihood.at_zero
    reasons = [
        f"{name} runs to 0" + (f": {limits[name]}" if name in limits else "")
        for name in divergence.to_zero
    ]
    reasons += [f"{name} runs to infinity" for name in divergence.to_infinity]
    if not divergence.not_estimable.any():
        return (
            Status.NO_MAXIMUM if divergence.to_infinity else Status.AT_ZERO,
            "; ".join(reasons),
            None,
        )
    return (
        Status.NO_MAXIMUM,
        "; ".join([divergence.words, *reasons]),
        divergence.not_estimable,
    )


def multimodality_cause(model: Model) -> str | None:
    """Return why the posterior can have several modes, or None if log p is concave in
    beta given the nuisance parameters."""
    wide = [b.prior.name for b in model.joint.blocks if not _is_log_concave(b.prior)]
    causes = [f"the {name} prior" for name in dict.fromkeys(wide)]
    if not (
        isinstance(model.likelihood, DifferentiableLikelihood)
        and model.likelihood.concave
    ):
        causes.insert(0, f"the {model.likelihood.name} likelihood")
    if not causes:
        return None
    return f"{' and '.join(causes)} can give a posterior with several modes"


def _is_log_concave(prior: Prior) -> bool:
    return isinstance(prior, Flat | GaussianPrior) or (
        isinstance(prior, ProximalPrior) and prior.convex
    )
