"""Whether a likelihood rises for ever, for rows in memory and for rows that are read by the block.

The linear programme of `check.separation` needs its rows at once. Of rows by the block it gets the evenly spaced sample, and
a direction that separates those is tried on all rows: the rows that go against it join the sample, until either a direction
holds everywhere or the rows so far have none, and then all rows have none either (constraint generation).
"""

from dataclasses import replace
from functools import partial
from typing import Literal, NamedTuple

import numpy as np

from probreg.data import Block, Design
from probreg.data.blocks.survey import join_surveys, kept_rows
from probreg.inference.modes.separation import Separation, separation
from probreg.likelihoods import MayDiverge
from probreg.model.model import Model

Array = np.ndarray
_ZERO = 1e-7  # of the largest movement: what the linear programme leaves of an equality
_MORE = 500  # rows that join at a time
_ROUNDS = 20


class Along(NamedTuple):
    """Rows along a direction: how many gain likelihood, how many lose, and those that lose most, with their loss."""

    gaining: int
    losing: int
    loss: Array
    rows: Block

    def worse(self, other: "Along") -> "Along":
        """Both together."""
        loss = np.concatenate([self.loss, other.loss])
        most = np.argsort(-loss, kind="stable")[:_MORE]
        rows = kept_rows(join_surveys(self.rows, other.rows), most)
        return Along(self.gaining + other.gaining, self.losing + other.losing, loss[most], rows)


def runaway(model: Model) -> tuple[Separation, tuple[str, ...]]:
    """Whether the maximum lies at infinity, and how that was found out where not all rows could be asked at once."""
    design, likelihood = model.design, model.likelihood
    if design.source is None or not isinstance(likelihood, MayDiverge):
        return separation(model), ()
    part = design.sample
    size = np.sqrt((part.X**2).mean(0))[:, None]
    found = separation(replace(model, design=part))
    if part.n == design.count:
        return found, ()
    for _ in range(_ROUNDS):
        if found.direction is None:
            return found, (f"the data are not separated: {part.n} of {design.count} rows show it",)
        least = _ZERO * float((np.abs(found.direction) * size).max())
        fn = partial(along, likelihood=likelihood, direction=found.direction, least=least)
        seen = design.fold(fn, Along.worse)
        if not seen.losing:
            kind: Literal["complete", "quasi"] = "complete" if seen.gaining == design.count else "quasi"
            said = f"separation was found in {part.n} of {design.count} rows and holds in all; which coefficients it touches is read there"
            return replace(found, kind=kind, rows=seen.gaining), (said,)
        part = _with(part, seen.rows)
        found = separation(replace(model, design=part))
    nothing = replace(
        found, kind="none", columns=(), labels=(), not_estimable=np.zeros_like(found.not_estimable), rows=0
    )
    return nothing, (
        "whether the data are separated was not decided: large coefficients and standard errors would show it",
    )


def along(block: Block, *, likelihood: MayDiverge, direction: Array, least: float) -> Along:
    """The rows of a block along a direction (p, m) of the coefficients; `least` is the movement of the linear predictor from
    which it counts."""
    cone = likelihood.recession(block.y)
    gain = np.einsum("rm,rm->r", cone.directions, block.X[cone.rows] @ direction)
    loss = np.where(cone.equal, np.abs(gain), -gain)
    gaining = np.unique(cone.rows[(gain > least) & ~cone.equal])
    worst = np.zeros(block.rows)
    np.maximum.at(worst, cone.rows, loss)
    losing = np.flatnonzero(worst > least)
    most = losing[np.argsort(-worst[losing], kind="stable")[:_MORE]]
    return Along(len(gaining), len(losing), worst[most], kept_rows(block, most))


def _with(part: Design, rows: Block) -> Design:
    """A sample with more rows; how much each counts does not matter to separation."""
    weights = np.ones(part.n + rows.rows)
    whole = join_surveys(Block(part.X, part.observed, None, part.offset), rows._replace(weights=None))
    return replace(part, X=np.ascontiguousarray(whole.X), y=whole.y, offset=whole.offset, weights=weights)
