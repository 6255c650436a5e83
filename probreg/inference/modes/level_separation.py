"""Separation where the levels of a factor stay codes: the levels are eliminated, and a linear programme in the other columns is left.

A constraint s_r (a_g + x_r b) >= 0 bounds the coefficient a_g of its level from one side, one at equality from both. A level whose
rows bound it from one side alone runs to infinity, and all its rows gain: one pass finds these. Of the others

    max over rows from above of x_r b  <=  -a_g  <=  min over rows from below of x_r b,

so that b belongs to the cone where (x_i - x_j) b >= 0 for every pair of a row i from below and j from above in one level. Pairs join the
programme as they are violated, one of each level at a time. Rows that gain along a direction ask nothing of further ones, since any
multiple of it may be added. A level without a coefficient of its own (the reference, where no intercept is free) has -a_g = 0, which is a row
of zeros at equality.
"""

from dataclasses import dataclass
from typing import NamedTuple

import numpy as np

from probreg.data.grouped_columns import GroupColumns
from probreg.inference.base import Array
from probreg.inference.modes.linear_programme import SLACK, STRICT, maximise
from probreg.numerics.linalg import inverse_upper, rank_of, triangular

_PAIRS = 500  # that join the linear programme at a time
_TINY = 1e-12  # of a difference of rows of orthonormal columns: they are the same row
_NULL = 1e-8  # of its size: a coefficient does not move


class LevelCone(NamedTuple):
    """The constraints of a likelihood, one for each entry, sorted by level: s (a_g + x b) >= 0, or = 0 where `equal`."""

    codes: Array  # (R,)
    sign: Array  # (R,) -1 or 1
    equal: Array  # (R,) bool
    X: Array  # (R, k)

    def part(self, some: Array) -> "LevelCone":
        return LevelCone(*(v[some] for v in self))

    @property
    def starts(self) -> Array:
        """Where each level begins, of those that have entries."""
        return np.flatnonzero(np.r_[True, self.codes[1:] != self.codes[:-1]])

    @property
    def below(self) -> Array:
        """(R,) bool: -a_g <= x b."""
        return (self.sign > 0) | self.equal

    @property
    def above(self) -> Array:
        """(R,) bool: -a_g >= x b."""
        return (self.sign < 0) | self.equal

    def sums(self, V: Array) -> Array:
        """By level."""
        return np.add.reduceat(V, self.starts)

    def repeated(self, values: Array) -> Array:
        """Those of each level at its entries."""
        return np.repeat(values, np.diff(np.r_[self.starts, len(self.codes)]), axis=0)


@dataclass(frozen=True, eq=False)
class LevelDirections:
    """What is known of the cone: which constraints gain, a direction along which they do, and where the others let coefficients go."""

    strict: Array  # (R,) bool
    a: Array  # (K,) of a direction
    b: Array  # (k,)
    free: Array  # (K,) bool: levels of which no row stays at equality
    a_span: Array  # (K, d): the directions that leave every other row at equality
    b_span: Array  # (k, d)

    @property
    def moving(self) -> Array:
        """(k,) bool: coefficients of the other columns that are not zero on the span."""
        return np.asarray(np.linalg.norm(self.b_span, axis=1) > _NULL)


def level_directions(cone: LevelCone, levels: int) -> LevelDirections:
    """A direction that makes strict every constraint that some direction makes strict, and what the others leave open."""
    R, k = cone.X.shape
    strict = np.zeros(R, dtype=bool)
    a = np.zeros(levels)
    b = np.zeros(k)
    while not strict.all():
        here = np.flatnonzero(~strict)
        part = cone.part(here)
        found = _one_sided(part, levels)
        if found is None:
            found = _between(part, levels)
        if found is None:
            break
        fresh, a_new, b_new = found
        a, b = _added(cone, strict, (a, b), (a_new, b_new))
        strict[here[fresh]] = True
    left = cone.part(np.flatnonzero(~strict))
    free = np.ones(levels, dtype=bool)
    free[left.codes] = False
    b_span = _null_space(_within(left))
    a_span = np.zeros((levels, b_span.shape[1]))
    if len(left.codes):
        a_span[left.codes[left.starts]] = -_means(left) @ b_span
    return LevelDirections(strict, a, b, free, a_span, b_span)


def _one_sided(part: LevelCone, levels: int) -> tuple[Array, Array, Array] | None:
    """The rows of levels that are bounded from one side alone, and the direction in which these run; None where there are none."""
    below = part.sums(part.below.astype(int)) > 0
    above = part.sums(part.above.astype(int)) > 0
    fresh = part.repeated(below != above)
    if not fresh.any():
        return None
    a = np.zeros(levels)
    a[part.codes[part.starts]] = below.astype(float) - above
    return fresh, a, np.zeros(part.X.shape[1])


def _between(part: LevelCone, levels: int) -> tuple[Array, Array, Array] | None:
    """Rows that some b makes strict, with a and b; None where none does. Every level is bounded from both sides."""
    U = _within(part)
    if len(U):
        F = triangular(U)
    else:
        F = np.zeros((0, part.X.shape[1]))
    kept = list(rank_of(F).kept) if F.size else []
    if not kept:
        return None
    inverse = inverse_upper(triangular(U[:, kept])).astype(float)
    Q = U[:, kept] @ inverse
    delta = _climb(part._replace(X=Q))
    if delta is None:
        return None
    value = Q @ delta
    low = np.maximum.reduceat(np.where(part.above, value, -np.inf), part.starts)
    high = np.minimum.reduceat(np.where(part.below, value, np.inf), part.starts)
    # -a_g is halfway between its bounds, which coincide where rows stay at equality
    middle = 0.5 * (low + high)
    margin = part.sign * (value - part.repeated(middle))
    fresh = (
        margin
        > STRICT
        * np.maximum(
            np.linalg.norm(Q - part.repeated(_means(part._replace(X=Q))), axis=1), _TINY
        )
    ) & ~part.equal
    if not fresh.any():
        return None
    a = np.zeros(levels)
    b = np.zeros(part.X.shape[1])
    b[kept] = inverse @ delta
    # U are the rows less the means of their level: a_g + x b = a_g + mean_g b + u b
    a[part.codes[part.starts]] = -middle - _means(part) @ b
    return fresh, a, b


def _climb(part: LevelCone) -> Array | None:
    """The b in the box [-1, 1] and the cone that maximises the sum of how far rows are from the other side of their level; None where
    that is zero.

    A subset of the pairs allows more directions than all do, so that a maximum of zero over it is a certificate for all.
    """
    own = np.zeros_like(part.X)
    for mine, other in ((part.below, part.above), (part.above, part.below)):
        count = part.sums(other.astype(float))
        apart = part.X - part.repeated(
            part.sums(np.where(other[:, None], part.X, 0.0)) / count[:, None]
        )
        own += np.where(
            (mine & ~part.equal)[:, None], part.sign[:, None] * _unit(apart), 0.0
        )
    gain = own.sum(0)
    size = float(np.linalg.norm(own, axis=1).sum())
    normals = np.zeros((0, part.X.shape[1]))
    while True:
        b = maximise(gain, normals)
        if gain @ b <= SLACK * max(size, 1.0):
            return None
        pairs = _violated(part, b)
        if not len(pairs):
            return b
        normals = np.vstack([normals, pairs])


def _violated(part: LevelCone, b: Array) -> Array:
    """The pairs of rows of one level, as unit vectors, that forbid b most: at most one of each level."""
    value = part.X @ b
    starts = part.starts
    low = np.maximum.reduceat(np.where(part.above, value, -np.inf), starts)
    high = np.minimum.reduceat(np.where(part.below, value, np.inf), starts)
    ends = np.r_[starts[1:], len(value)]
    worst = np.argsort(high - low)[:_PAIRS]
    out = list[Array]()
    for g in worst[(high - low)[worst] < 0.0]:
        rows = slice(starts[g], ends[g])
        i = starts[g] + int(np.argmin(np.where(part.below[rows], value[rows], np.inf)))
        j = starts[g] + int(np.argmax(np.where(part.above[rows], value[rows], -np.inf)))
        pair = part.X[i] - part.X[j]
        length = float(np.linalg.norm(pair))
        if length > _TINY and pair @ b < -SLACK * length:
            out.append(pair / length)
    return np.array(out).reshape(-1, part.X.shape[1])


def _added(
    cone: LevelCone, strict: Array, old: tuple[Array, Array], new: tuple[Array, Array]
) -> tuple[Array, Array]:
    """The new direction, and so much of the old that its rows still gain."""
    if not strict.any():
        return new
    some = cone.part(np.flatnonzero(strict))
    before, after = (some.sign * (a[some.codes] + some.X @ b) for a, b in (old, new))
    much = 1.0 + float(np.max(-after / before, initial=0.0))
    a, b = (much * x + y for x, y in zip(old, new))
    size = max(float(np.abs(a).max()), float(np.abs(b).max(initial=0.0)))
    return a / size, b / size


def _means(part: LevelCone) -> Array:
    """Of the entries of each level (those that have some)."""
    count = np.diff(np.r_[part.starts, len(part.codes)])
    return np.asarray(part.sums(part.X) / count[:, None])


def _within(part: LevelCone) -> Array:
    """X less its means by level."""
    if len(part.codes):
        return part.X - part.repeated(_means(part))
    return part.X


def _null_space(U: Array) -> Array:
    """Orthonormal directions (k, d) that U does not see."""
    if not len(U):
        return np.eye(U.shape[1])
    values, vectors = np.linalg.svd(np.asarray(triangular(U), dtype=float))[1:]
    rank = int((values > 1e-9 * values.max(initial=1.0)).sum())
    return np.asarray(vectors[rank:].T)


def _unit(V: Array) -> Array:
    length = np.linalg.norm(V, axis=1)[:, None]
    return np.where(length > _TINY, V / np.where(length > _TINY, length, 1.0), 0.0)


def sorted_cone(
    lead: GroupColumns, X: Array, rows: Array, sign: Array, equal: Array
) -> tuple[LevelCone, Array]:
    """The constraints in the order of their levels, and that order: level 0 are the rows of no indicator, level g + 1 those of the
    g-th."""
    codes = np.where(lead.Z[:, 0] == 0.0, 0, lead.codes + 1)[rows]
    order = np.argsort(codes, kind="stable")
    return LevelCone(codes[order], sign[order], equal[order], X[rows[order]]), order
