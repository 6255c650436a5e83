"""Separation with the levels of a factor as codes: eliminate the levels and solve a
linear programme in the other columns.

A constraint s_r (a_g + x_r b) >= 0 bounds the coefficient a_g of its level from one
side, an equality from both. If all rows
of a level bound it from the same side, it diverges to infinity and all its rows gain:
one pass finds these. For the others

    max over rows from above of x_r b  <=  -a_g  <=  min over rows from below of x_r b,

so b belongs to the cone with (x_i - x_j) b >= 0 for every pair of a row i from below
and j from above in one level. Violated
pairs join the programme, at most one of each level per round. Rows that gain along a
direction do not restrict further
directions, because any multiple of it may be added. A level without its own coefficient
(the reference, if no intercept is
free) has -a_g = 0, which is a row of zeros with equality.
"""

from dataclasses import dataclass
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

    def sums(self, V: Array) -> Array:
        """Sums by level."""
        return np.add.reduceat(V, self.starts)

    def repeat_by_level(self, values: Array) -> Array:
        """Repeat the values of each level at its entries."""
        return np.repeat(values, np.diff(np.r_[self.starts, len(self.codes)]), axis=0)


@dataclass(frozen=True, eq=False)
class LevelDirections:
    """The cone's solution: strict constraints, a direction along which they gain, and
    the directions left by the others."""

    strict: Array  # (R,) bool
    a: Array  # (K,) of a direction
    b: Array  # (k,)
    free: Array  # (K,) bool: levels without a row at equality
    a_span: Array  # (K, d): the directions that keep every other row at equality
    b_span: Array  # (k, d)


def level_directions(cone: LevelCone, levels: int) -> LevelDirections:
    """Return a direction along which every constraint that can be strict is strict, and
    the span left by the others."""
    R, k = cone.X.shape
    strict = np.zeros(R, dtype=bool)
    a = np.zeros(levels)
    b = np.zeros(k)
    while not strict.all():
        open_rows = np.flatnonzero(~strict)
        part = cone.part(open_rows)
        solution = _one_sided(part, levels)
        if solution is None:
            solution = _between(part, levels)
        if solution is None:
            break
        fresh, a_new, b_new = solution
        a, b = _extend_direction(cone, strict, (a, b), (a_new, b_new))
        strict[open_rows[fresh]] = True
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
    return LevelDirections(strict, a, b, free, a_span, b_span)


def _one_sided(part: LevelCone, levels: int) -> tuple[Array, Array, Array] | None:
    """Return the rows of levels bounded from one side only, and the direction in which
    these diverge; None if there are none."""
    below = part.sums(part.below.astype(int)) > 0
    above = part.sums(part.above.astype(int)) > 0
    fresh = part.repeat_by_level(below != above)
    if not fresh.any():
        return None
    a = np.zeros(levels)
    a[part.codes[part.starts]] = below.astype(float) - above
    return fresh, a, np.zeros(part.X.shape[1])


def _between(part: LevelCone, levels: int) -> tuple[Array, Array, Array] | None:
    """Return rows that some b makes strict, with a and b, or None; here every level is
    bounded from both sides."""
    U = _within(part)
    if len(U):
        F = triangular(U)
    else:
        F = np.zeros((0, part.X.shape[1]))
    kept_columns = list(rank_of(F).kept) if F.size else []
    if not kept_columns:
        return None
    inverse = inverse_upper(triangular(U[:, kept_columns])).astype(float)
    Q = U[:, kept_columns] @ inverse
    delta = _climb(part._replace(X=Q))
    if delta is None:
        return None
    value = Q @ delta
    low = np.maximum.reduceat(np.where(part.above, value, -np.inf), part.starts)
    high = np.minimum.reduceat(np.where(part.below, value, np.inf), part.starts)
    # -a_g is halfway between its bounds, which are equal if rows stay at equality
    middle = 0.5 * (low + high)
    margin = part.sign * (value - part.repeat_by_level(middle))
    fresh = (
        margin
        > STRICT
        * np.maximum(
            np.linalg.norm(
                Q - part.repeat_by_level(_means(part._replace(X=Q))), axis=1
            ),
            _TINY,
        )
    ) & ~part.equal
    if not fresh.any():
        return None
    a = np.zeros(levels)
    b = np.zeros(part.X.shape[1])
    b[kept_columns] = inverse @ delta
    # U are the rows less the means of their level: a_g + x b = a_g + mean_g b + u b
    a[part.codes[part.starts]] = -middle - _means(part) @ b
    return fresh, a, b


def _climb(part: LevelCone) -> Array | None:
    """Return the b in the cone and the box [-1, 1] that maximises the sum of distances
    of rows from the other side of their level.

    None if the maximum is zero.

    A subset of the pairs allows more directions than all do, so that a maximum of zero over it is a certificate for all.
    """
    gains = np.zeros_like(part.X)
    for these, opposite in ((part.below, part.above), (part.above, part.below)):
        count = part.sums(opposite.astype(float))
        distance = part.X - part.repeat_by_level(
            part.sums(np.where(opposite[:, None], part.X, 0.0)) / count[:, None]
        )
        gains += np.where(
            (these & ~part.equal)[:, None], part.sign[:, None] * _unit(distance), 0.0
        )
    gain = gains.sum(0)
    size = float(np.linalg.norm(gains, axis=1).sum())
    normals = np.zeros((0, part.X.shape[1]))
    while True:
        b = maximise_linear(gain, normals)
        if gain @ b <= SLACK * max(size, 1.0):
            return None
        pairs = _violated_pairs(part, b)
        if not len(pairs):
            return b
        normals = np.vstack([normals, pairs])


def _violated_pairs(part: LevelCone, b: Array) -> Array:
    """Return the pairs of rows of one level, as unit vectors, that b violates most: at
    most one of each level."""
    max_pairs = 500  # pairs that join the linear programme in a round
    value = part.X @ b
    starts = part.starts
    low = np.maximum.reduceat(np.where(part.above, value, -np.inf), starts)
    high = np.minimum.reduceat(np.where(part.below, value, np.inf), starts)
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


def _extend_direction(
    cone: LevelCone, strict: Array, old: tuple[Array, Array], new: tuple[Array, Array]
) -> tuple[Array, Array]:
    """Return the new direction plus the multiple of the old one for which its rows
    still gain."""
    if not strict.any():
        return new
    strict_part = cone.part(np.flatnonzero(strict))
    before, after = (
        strict_part.sign * (a[strict_part.codes] + strict_part.X @ b)
        for a, b in (old, new)
    )
    much = 1.0 + float(np.max(-after / before, initial=0.0))
    a, b = (much * x + y for x, y in zip(old, new))
    size = max(float(np.abs(a).max()), float(np.abs(b).max(initial=0.0)))
    return a / size, b / size


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
