"""Separation with the levels of a factor as codes: eliminate the levels and solve a
linear programme in the other columns.

A constraint s_r (a_g + x_r b) >= 0 bounds the coefficient a_g of its level from one
side, an equality from both. If all rows of a level bound it from the same side, it
diverges to infinity and all its rows gain: one pass finds these. For the others

    max over rows from above of x_r b  <=  -a_g  <=  min over rows from below of x_r b,

so b belongs to the cone with (x_i - x_j) b >= 0 for every pair of a row i from below
and j from above in one level. Violated pairs join the programme, at most one of each
level per round. Rows that gain along a direction do not restrict further directions,
because any multiple of it may be added. A level without its own coefficient (the
reference, if no intercept is free) has -a_g = 0, which is a row of zeros with equality.
"""

from collections.abc import Callable
from dataclasses import dataclass
from functools import partial
from typing import NamedTuple

import numpy as np

from probreg.data.grouped_columns import GroupColumns
from probreg.errors import NotConverged
from probreg.inference.base import Array
from probreg.linalg import inverse_upper, rank_of, triangular

SLACK = 1e-9  # a margin above -SLACK is not negative; constraints have unit norm and the solver's tolerance is 1e-10
STRICT = 1e-7  # a margin above it is positive; directions lie in the box [-1, 1]


def maximise_linear(gain: Array, normals: Array) -> Array:
    """argmax gain'v subject to normals v >= 0 and -1 <= v <= 1."""
    from scipy.optimize import linprog

    tight = {"primal_feasibility_tolerance": 1e-10, "dual_feasibility_tolerance": 1e-10}
    for method in ("highs-ds", "highs-ipm"):
        result = linprog(
            -gain,
            A_ub=-normals,
            b_ub=np.zeros(len(normals)),
            bounds=(-1.0, 1.0),
            method=method,
            options=tight,
        )
        if result.status == 0:
            return np.asarray(result.x)
    raise NotConverged(
        f"the check for separation is undecided: the linear programme of {len(normals)} constraints "
        f"on {len(gain)} coefficients stopped with: {result.message.rstrip('.')}. "
        "Rescale the columns, or use a prior on them."
    )


def maximise_in_cone(
    gain: Array, size: float, normals: Array, find_violated: Callable[[Array], Array]
) -> Array | None:
    """Return argmax gain'v in a cone and the box [-1, 1]; None if the maximum is zero
    relative to `size`.

    `normals` are some constraints, and `find_violated` returns others that v violates.
    A subset allows more directions than all constraints, so that a maximum of zero over
    it is a certificate for all.
    """
    while True:
        v = maximise_linear(gain, np.unique(normals.round(14), axis=0))
        if gain @ v <= SLACK * max(size, 1.0):
            return None
        violated = find_violated(v)
        if not len(violated):
            return v
        normals = np.vstack([normals, violated])


_TINY = 1e-12  # norm of a difference of two rows of orthonormal columns, below which they are equal


class LevelCone(NamedTuple):
    """The constraints of a likelihood, one for each entry, sorted by level: s (a_g + x b) >= 0, or = 0 where `equal`."""

    codes: Array  # (R,)
    sign: Array  # (R,) -1 or 1
    equal: Array  # (R,) bool
    X: Array  # (R, k)

    def part(self, rows: Array) -> "LevelCone":
        return LevelCone(*(v[rows] for v in self))

    @property
    def starts(self) -> Array:
        """The first entry of each level that has entries."""
        return np.flatnonzero(np.r_[True, self.codes[1:] != self.codes[:-1]])

    @property
    def below(self) -> Array:
        """(R,) bool: -a_g <= x b."""
        return (self.sign > 0) | self.equal

    @property
    def above(self) -> Array:
        """(R,) bool: -a_g >= x b."""
        return (self.sign < 0) | self.equal

    def bounds(self, value: Array) -> tuple[Array, Array]:
        """The largest value from above and the smallest from below in each level, the bounds of -a_g at values x b."""
        low = np.maximum.reduceat(np.where(self.above, value, -np.inf), self.starts)
        high = np.minimum.reduceat(np.where(self.below, value, np.inf), self.starts)
        return low, high

    def sums(self, V: Array) -> Array:
        """Sums by level."""
        return np.add.reduceat(V, self.starts)

    def repeat_by_level(self, values: Array) -> Array:
        """Repeat the values of each level at its entries."""
        return np.repeat(values, np.diff(np.r_[self.starts, len(self.codes)]), axis=0)


@dataclass(frozen=True, eq=False)
class LevelDirections:
    """The cone's solution: strict constraints, and the directions left by the others."""

    strict: Array  # (R,) bool
    free: Array  # (K,) bool: levels without a row at equality
    a_span: Array  # (K, d): the directions that keep every other row at equality
    b_span: Array  # (k, d)


def level_directions(cone: LevelCone, levels: int) -> LevelDirections:
    """Return the constraints that some direction makes strict, and the span left by the others."""
    strict = np.zeros(len(cone.codes), dtype=bool)
    while not strict.all():
        open_rows = np.flatnonzero(~strict)
        part = cone.part(open_rows)
        gains = _rows_of_one_sided_levels(part)
        if not gains.any():
            gains = _rows_that_gain(part)
        if not gains.any():
            break
        strict[open_rows[gains]] = True
    equal_part = cone.part(np.flatnonzero(~strict))
    free = np.ones(levels, dtype=bool)
    free[equal_part.codes] = False
    U = _within(equal_part)
    b_span = np.eye(U.shape[1])
    if len(U):
        b_span = null_space_of(np.asarray(triangular(U), dtype=float))
    a_span = np.zeros((levels, b_span.shape[1]))
    if len(equal_part.codes):
        a_span[equal_part.codes[equal_part.starts]] = -_means(equal_part) @ b_span
    return LevelDirections(strict, free, a_span, b_span)


def _rows_of_one_sided_levels(part: LevelCone) -> Array:
    """Mark the rows of levels that are bounded from one side only."""
    has_below = part.sums(part.below.astype(int)) > 0
    has_above = part.sums(part.above.astype(int)) > 0
    return part.repeat_by_level(has_below != has_above)


def _rows_that_gain(part: LevelCone) -> Array:
    """Mark the rows that some b makes strict; here every level is bounded from both sides."""
    none = np.zeros(len(part.codes), dtype=bool)
    U = _within(part)
    if not U.size:
        return none
    kept_columns = list(rank_of(triangular(U)).kept)
    if not kept_columns:
        return none
    inverse = inverse_upper(triangular(U[:, kept_columns])).astype(float)
    part = part._replace(X=U[:, kept_columns] @ inverse)
    gain, size = _sum_of_distances(part)
    start = np.zeros((0, len(kept_columns)))
    b = maximise_in_cone(gain, size, start, partial(_violated_pairs, part))
    if b is None:
        return none
    value = part.X @ b
    low, high = part.bounds(value)
    # -a_g is halfway between its bounds, which are equal if rows stay at equality
    margin = part.sign * (value - part.repeat_by_level(0.5 * (low + high)))
    length = np.linalg.norm(part.X - part.repeat_by_level(_means(part)), axis=1)
    return (margin > STRICT * np.maximum(length, _TINY)) & ~part.equal


def _sum_of_distances(part: LevelCone) -> tuple[Array, float]:
    """Return g with g'b the sum of distances of rows from the other side of their level, and the sum of its sizes."""
    gains = np.zeros_like(part.X)
    for these, opposite in ((part.below, part.above), (part.above, part.below)):
        count = part.sums(opposite.astype(float))
        distance = part.X - part.repeat_by_level(
            part.sums(np.where(opposite[:, None], part.X, 0.0)) / count[:, None]
        )
        gains += np.where(
            (these & ~part.equal)[:, None], part.sign[:, None] * _unit(distance), 0.0
        )
    return gains.sum(0), float(np.linalg.norm(gains, axis=1).sum())


def _violated_pairs(part: LevelCone, b: Array) -> Array:
    """Return the pairs of rows of one level, as unit vectors, that b violates most: at most one of each level."""
    max_pairs = 500  # pairs that join the linear programme in a round
    value = part.X @ b
    starts = part.starts
    low, high = part.bounds(value)
    ends = np.r_[starts[1:], len(value)]
    worst = np.argsort(high - low)[:max_pairs]
    pairs = list[Array]()
    for g in worst[(high - low)[worst] < 0.0]:
        rows = slice(starts[g], ends[g])
        i = starts[g] + int(np.argmin(np.where(part.below[rows], value[rows], np.inf)))
        j = starts[g] + int(np.argmax(np.where(part.above[rows], value[rows], -np.inf)))
        pair = part.X[i] - part.X[j]
        length = float(np.linalg.norm(pair))
        if length > _TINY and pair @ b < -SLACK * length:
            pairs.append(pair / length)
    return np.array(pairs).reshape(-1, part.X.shape[1])


def _means(part: LevelCone) -> Array:
    """Means of the entries by level, for levels with entries."""
    count = np.diff(np.r_[part.starts, len(part.codes)])
    return np.asarray(part.sums(part.X) / count[:, None])


def _within(part: LevelCone) -> Array:
    """X minus its means by level."""
    if len(part.codes):
        return part.X - part.repeat_by_level(_means(part))
    return part.X


def null_space_of(F: Array) -> Array:
    """Orthonormal directions (k, d) in the null space of a triangular factor."""
    values, vectors = np.linalg.svd(F)[1:]
    rank = int((values > 1e-9 * values.max(initial=1.0)).sum())
    return np.asarray(vectors[rank:].T)


def _unit(V: Array) -> Array:
    length = np.linalg.norm(V, axis=1)[:, None]
    return np.where(length > _TINY, V / np.where(length > _TINY, length, 1.0), 0.0)


def sorted_cone(
    lead: GroupColumns, X: Array, rows: Array, sign: Array, equal: Array
) -> tuple[LevelCone, Array]:
    """Return the constraints sorted by level, and the order.

    Level 0 contains the rows of no indicator, level g + 1 the rows of the g-th.
    """
    codes = np.where(lead.Z[:, 0] == 0.0, 0, lead.codes + 1)[rows]
    order = np.argsort(codes, kind="stable")
    return LevelCone(codes[order], sign[order], equal[order], X[rows[order]]), order
