"""Whether a maximum of the likelihood exists, told from where a search ended, and whether the likelihood rises for ever.

`proves_maximum` proves it for likelihoods in their canonical link, in one pass over the rows. `find_divergence` shows the contrary for any
likelihood: from the end of the search it walks along straight lines, and a maximum is one from which every line goes down.

The linear programme of separation needs its rows at once. Of rows by the block it gets the evenly spaced sample, and a
direction that separates those is tried on all rows: the rows that go against it join the sample, until either a direction
holds everywhere or the rows so far have none, and then all rows have none either (constraint generation).
"""

from collections.abc import Mapping
from dataclasses import replace
from functools import partial
from typing import Literal, NamedTuple

import numpy as np

from probreg.data import Block, Design
from probreg.data.blocks.survey import join_surveys, kept_rows
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
from probreg.model.likelihood_sums import largest_block
from probreg.model.model import LocalModel, Model
from probreg.numerics.frame import map_of_columns
from probreg.priors import Flat, GaussianPrior, Prior, ProximalPrior
from probreg.system.terminal import few_names

_ZERO = 1e-7  # of the largest movement: what the linear programme leaves of an equality
_MORE = 500  # rows that join at a time
_ROUNDS = 20


class RowGains(NamedTuple):
    """Rows along a direction: how many gain likelihood, how many lose, and those that lose most, with their loss."""

    gaining: int
    losing: int
    loss: Array
    rows: Block

    def worse(self, other: "RowGains") -> "RowGains":
        """Both together."""
        loss = np.concatenate([self.loss, other.loss])
        most = np.argsort(-loss, kind="stable")[:_MORE]
        rows = kept_rows(join_surveys(self.rows, other.rows), most)
        return RowGains(
            self.gaining + other.gaining, self.losing + other.losing, loss[most], rows
        )


def separation_by_block(model: Model) -> tuple[Separation, tuple[Note, ...]]:
    """Whether the maximum lies at infinity, and how that was found out where not all rows could be asked at once."""
    design = model.design
    likelihood = model.likelihood
    if design.source is None or not isinstance(likelihood, MayDiverge):
        return separation(model), ()
    part = design.sample
    size = np.sqrt((part.X**2).mean(0))[:, None]
    found = separation(replace(model, design=part))
    if part.n == design.count:
        return found, ()
    for _ in range(_ROUNDS):
        if found.direction is None:
            return found, (
                routine_note(
                    Topic.CONVERGENCE,
                    "the data are not separated: {n} of {total} rows show it",
                    n=part.n,
                    total=design.count,
                ),
            )
        least = _ZERO * float((np.abs(found.direction) * size).max())
        fn = partial(
            along, likelihood=likelihood, direction=found.direction, least=least
        )
        seen = design.fold(fn, RowGains.worse)
        if not seen.losing:
            kind: Literal["complete", "quasi"] = (
                "complete" if seen.gaining == design.count else "quasi"
            )
            note = important_note(
                Topic.CONVERGENCE,
                "separation was found in {n} of {total} rows and holds in all; its coefficients are those of the {n} rows",
                n=part.n,
                total=design.count,
            )
            return replace(found, kind=kind, rows=seen.gaining), (note,)
        part = _with(part, seen.rows)
        found = separation(replace(model, design=part))
    nothing = replace(
        found,
        kind="none",
        columns=(),
        labels=(),
        not_estimable=np.zeros_like(found.not_estimable),
        rows=0,
    )
    note = important_note(
        Topic.CONVERGENCE,
        "the check for separation was inconclusive; large coefficients and standard errors indicate separation",
    )
    return nothing, (note,)


def along(
    block: Block, *, likelihood: MayDiverge, direction: Array, least: float
) -> RowGains:
    """The rows of a block along a direction (p, m) of the coefficients; `least` is the movement of the linear predictor from
    which it counts."""
    cone = likelihood.recession(block.y)
    # c_r'(x_r D) >= 0 where the likelihood does not fall along D.
    gain = np.einsum("rm,rm->r", cone.directions, block.X[cone.rows] @ direction)
    loss = np.where(cone.equal, np.abs(gain), -gain)
    gaining = np.unique(cone.rows[(gain > least) & ~cone.equal])
    worst = np.zeros(block.rows)
    np.maximum.at(worst, cone.rows, loss)
    losing = np.flatnonzero(worst > least)
    most = losing[np.argsort(-worst[losing], kind="stable")[:_MORE]]
    return RowGains(len(gaining), len(losing), worst[most], kept_rows(block, most))


def _with(part: Design, rows: Block) -> Design:
    """A sample with more rows; how much each counts does not matter to separation."""
    weights = np.ones(part.n + rows.rows)
    whole = join_surveys(
        Block(part.X, part.observed, None, part.offset), rows._replace(weights=None)
    )
    return replace(
        part,
        X=np.ascontiguousarray(whole.X),
        y=whole.y,
        offset=whole.offset,
        weights=weights,
    )


_ERRORS = 4.0  # standard errors that a line goes out: a quadratic falls by 8 there
_FALL = 1e-3  # what the log posterior falls there at least, were there a maximum
_FAR = 30.0  # on the scale of eta: exp(-30) of a tail is left
# directions of least curvature that are walked, beside that of the last step
_WEAKEST = 8


def proves_maximum(model: Model, gradient: Array, cov: Array) -> bool:
    """A proof that the maximum of a canonical likelihood exists: nu R < 1, with the Newton decrement nu and the largest
    |x_i v|, R, over the rows and over directions v of unit length in the curvature H. False is no proof of the contrary.

    `gradient` (p m,) and `cov` = H^-1 are taken at one point over the coefficients of the standardised columns, without a
    prior. Row by row the third derivative along v is at most |x_i v| times the second, so that the curvature falls no faster
    than exp(-R t), and the log-likelihood, having gone t along v, falls at a rate of at least (1 - exp(-R t)) / R - nu. When
    nu R < 1 that is positive before long, in every direction. In a softmax |x_i v| is the difference of two classes,
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
    """Where the log posterior does not fall however far one goes: no estimate there."""

    not_estimable: (
        Array  # (p, D) bool, reported coefficients that have no finite estimate
    )
    labels: tuple[str, ...]
    to_zero: tuple[str, ...]  # nuisance parameters that run to 0
    to_infinity: tuple[str, ...]
    span: Array | None = None  # (p, m, r), the directions without curvature

    @property
    def words(self) -> str:
        return f"the likelihood does not fall as {', '.join(self.labels)} run{'s' * (len(self.labels) == 1)} to infinity"


def undecided(model: Model) -> tuple[list[str], bool]:
    """The nuisance parameters that may run to the edge, and whether it is unknown if coefficients may run to infinity."""
    names = [name for name in model.unknown if name != model.likelihood.noise_scale]
    return (
        names,
        model.likelihood.may_diverge is None and not model.joint.informative.all(),
    )


def find_divergence(
    model: Model, gamma: Array, log_aux: Array, local: LocalModel, step: Array
) -> Divergence | None:
    """Where the log posterior rises for ever from the point at which a search ended, or None: along lines over the
    coefficients unless the likelihood says `may_diverge` (an exact method decides where that is True), and over the log of
    every nuisance parameter but a noise scale. `step` is Newton's from there.

    At a maximum with curvature H a line along d falls by t^2 d'Hd / 2 to second order, by 8 at four standard errors
    t = 4 / sqrt(d'Hd). Towards infinity the log-likelihood has gone flat: d'Hd is next to nothing, and four of these enormous
    standard errors out it has not fallen at all.
    """
    k = gamma.size
    H = local.curvature
    names, free = undecided(model)
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


def at_limits(aux: Mapping[str, float], lost: Divergence | None) -> dict[str, float]:
    """Nuisance parameters with an exact 0 for those along which the likelihood rises to that limit."""
    gone = () if lost is None else lost.to_zero
    return {name: 0.0 if name in gone else float(v) for name, v in aux.items()}


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
        ):  # far out densities overflow: -inf is a fall, nan says nothing
            aux = dict(zip(self.model.unknown, np.exp(point[k:])))
            beta = self.model.design.frame.to_raw(point[:k].reshape(self.shape))
            return float(self.model.log_posterior(beta, **aux)) + float(point[k:].sum())

    def rises(self, direction: Array, H: Array) -> bool:
        """Whether the log posterior has hardly fallen four standard errors out, or as near to that as numbers reach."""
        length = float(np.linalg.norm(direction))
        if not (np.isfinite(length) and length > 0):
            return False
        d = direction / length
        t = _ERRORS / np.sqrt(max(float(d @ H @ d), 1e-300))
        while np.isnan(there := self.value(self.point + t * d)) and t > 2.0 * _FAR:
            t = max(t / 16.0, _FAR)
        return bool(there >= self.top - _FALL)


def _flat_directions(lines: PosteriorLines, H: Array, step: Array) -> Array:
    """Orthonormal directions (p m, r) of the coefficients without curvature, where some line does not fall; (p m, 0) where all
    that were walked do. Directions that leave X beta as it is are another matter (rank), and left out."""
    k = lines.shape[0] * lines.shape[1]
    Q = _identified(lines.model)
    values, vectors = np.linalg.eigh(Q.T @ H[:k, :k] @ Q)
    vectors = Q @ vectors
    pad = np.zeros(len(H) - k)
    weak = [s * v for v in vectors.T[:_WEAKEST] for s in (1.0, -1.0)]
    for d in (Q @ (Q.T @ step[:k]), Q @ (Q.T @ lines.point[:k]), *weak):
        if lines.rises(np.concatenate([d, pad]), H):
            # curvature of this order has gone to zero too; the rest stands well above it, unless everything ran away
            least = max(float(d @ H[:k, :k] @ d) / float(d @ d), 0.0)
            return vectors[
                :,
                values
                <= max(
                    min(1e4 * least, np.sqrt(least * values[-1])), 1e-13 * values[-1]
                ),
            ]
    return np.zeros((k, 0))


def _identified(model: Model) -> Array:
    """An orthonormal basis (p m, r) of the coefficients of standardised columns that have no prior and that the rows can tell
    apart."""
    basis = model.design.frame
    rank = model.design.moments.rank
    free = basis.T_inverse[:, ~model.joint.informative]
    if any(not model.joint.informative[j] for j in rank.dropped):
        null = np.linalg.qr(basis.T_inverse @ null_space(rank, model.shape[0]))[0]
        free = free - null @ (null.T @ free)
    left, size, _ = np.linalg.svd(free, full_matrices=False)
    return map_of_columns(left[:, size > 1e-10 * size.max(initial=1.0)], model.shape[1])


def _side(lines: PosteriorLines, H: Array, i: int) -> int:
    """-1 where the log of a nuisance parameter runs to -infinity, 1 to infinity, 0 where it stays."""
    line = np.zeros(len(H))
    line[i] = 1.0
    return next((side for side in (-1, 1) if lines.rises(side * line, H)), 0)


# ---- in words --------------------------------------------------------------------------------------------------


def stop_message(steps: int, decrement: float, status: Status) -> str:
    """Where the search ended; a distance to the maximum only where there is one."""
    if status in (Status.NO_MAXIMUM, Status.AT_ZERO):
        return f"stopped after {steps} steps, where the likelihood still rises towards {'infinity' if status is Status.NO_MAXIMUM else '0'}"
    if status is Status.SADDLE:
        return f"stopped after {steps} steps at a point that is no maximum"
    return (
        f"distance to the maximum {decrement:.1e} standard errors after {steps} steps"
    )


def notes_of_mode(
    model: Model, steps: int, decrement: float, status: Status
) -> tuple[Note, ...]:
    """Return the notes on sigma and on where the optimiser stopped."""
    stop = routine_note(Topic.CONVERGENCE, stop_message(steps, decrement, status))
    return (*sigma_note(model, JOINT_SIGMA), stop)


def separation_message(found: Separation) -> str:
    return f"{found.kind} separation by {few_names(found.labels)}"


def divergence_status(
    model: Model, lost: Divergence
) -> tuple[Status, str, Array | None]:
    """Status, detail and the coefficients without an estimate, of a search along which the likelihood does not fall."""
    limits = model.likelihood.at_zero
    told = [
        f"{name} runs to 0" + (f": {limits[name]}" if name in limits else "")
        for name in lost.to_zero
    ]
    told += [f"{name} runs to infinity" for name in lost.to_infinity]
    if not lost.not_estimable.any():
        return (
            Status.NO_MAXIMUM if lost.to_infinity else Status.AT_ZERO,
            "; ".join(told),
            None,
        )
    return Status.NO_MAXIMUM, "; ".join([lost.words, *told]), lost.not_estimable


def multimodality_cause(model: Model) -> str | None:
    """Why the posterior can have several modes, or None if log p is concave in beta given the nuisance parameters."""
    wide = [b.prior.name for b in model.joint.blocks if not _is_log_concave(b.prior)]
    causes = [f"the {name} prior" for name in dict.fromkeys(wide)]
    if not (
        isinstance(model.likelihood, DifferentiableLikelihood)
        and model.likelihood.concave
    ):
        causes.insert(0, f"the {model.likelihood.name} likelihood")
    if not causes:
        return None
    return f"{' and '.join(causes)} can give a posterior more modes than one"


def _is_log_concave(prior: Prior) -> bool:
    return isinstance(prior, Flat | GaussianPrior) or (
        isinstance(prior, ProximalPrior) and prior.convex
    )
