"""A design with factors as codes, in arrow form: the levels of the largest factor lead,
all other columns form the border. Least squares and ridge of such designs.

For treatment coding Z'WZ of the leading indicators is diagonal, so a fit costs n r^2 +
G r^2 with r columns in the border, and no G x G matrix is formed. Dense border columns
are standardised: u_j = (x_j - shift_j) / scale_j. With c the coefficients on u, the raw
ones are S c, and the intercept absorbs the shifts.

With D the leading indicators, d_g = sum over the rows of level g of w_i, and a prior precision l_g of its coefficient about b_g (0 where
flat), the coefficients of the levels at border coefficients c are

    a_g = m_g^y - m_g c,   m_g = sum_i w_i u_i / (d_g + l_g),   m_g^y = (sum_i w_i y_i + l_g b_g) / (d_g + l_g),

and c is least squares of the rows minus the means of their level, and of prior rows
sqrt(l_g) (-m_g, b_g - m_g^y) (Frisch & Waugh 1933, Lovell 1963). With (R'R)^-1 the
covariance of c at sigma = 1, a_g has the covariance 1 / (d_g + l_g) + m_g (R'R)^-1
m_g'.

Separation with the levels of a factor as codes: eliminate the levels and solve a
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

from probreg.data import Frame
from probreg.data.grouped_columns import ArrowColumns, GroupColumns
from probreg.data.grouped_moments import (
    Within,
    indicators,
    select_leading_part,
    within_levels,
)
from probreg.data.implicit_columns import MAX_DENSE_BYTES, LazyColumns
from probreg.data.moments import MAX_COLUMNS
from probreg.errors import DataError, NotConverged
from probreg.inference.base import Array
from probreg.inference.covariance import ArrowCovariance, DenseCovariance
from probreg.linalg import Arrow, inverse_upper, merge, rank_of, solve_upper, triangular
from probreg.model.model import Model
from probreg.priors.joint import NormalColumns


@dataclass(frozen=True, eq=False)
class LevelRows:
    """The columns of a design in arrow form, with their positions."""

    columns: ArrowColumns
    lead: Array  # (G,) positions of the leading levels among the columns of the design
    border: Array  # (r,) positions of the other columns: levels of other factors, then dense columns
    S: Array  # (r, r): raw coefficients of the border are S c
    frame: Frame  # of all columns: dense ones are standardised, levels are raw
    prior: NormalColumns

    @property
    def p(self) -> int:
        """The number of columns of the design."""
        return len(self.lead) + len(self.border)

    def beta(self, a: Array, c: Array) -> Array:
        """The raw coefficients (p, s) of a (G, s) and c (r, s)."""
        beta = np.empty((self.p, a.shape[1]))
        beta[self.lead], beta[self.border] = a, self.S @ c
        return beta

    def parts(self, beta: Array) -> tuple[Array, Array]:
        """a (G, s) and c (r, s) of raw coefficients (p, s)."""
        return beta[self.lead], np.linalg.solve(self.S, beta[self.border])

    def covariance(
        self,
        H: Arrow,
        further: tuple[str, ...] = (),
        fixed: Array | None = None,
    ) -> ArrowCovariance:
        """Return the covariance of the coefficients and further parameters, given H over
        (a, c, further).

        With `fixed` (bool, of all parameters) H is over the other raw coefficients and
        further parameters, and the fixed ones have no standard error.
        """
        G, K, r = H.shape
        # [[L', C], [0, T']]^-1: its first columns are 1 / L_g, its last ones of rank r
        a, c = H.solve_transposed(np.zeros((G, K, r)), np.eye(r))
        p = self.p
        is_free = np.ones(p + len(further), bool)
        frame = self.frame
        if fixed is not None:
            is_free = ~fixed
            frame = Frame.of_raw(p)
        border = self.places_of_border(len(further))
        # the file format needs at least one column
        low = np.zeros((len(is_free), max(r, 1)))
        low[self.lead[is_free[self.lead]], :r] = a[:, 0]
        low[border[is_free[border]], :r] = c
        blocks = np.zeros((len(self.lead), 1, 1))
        blocks[is_free[self.lead]] = 1.0 / H.L
        return ArrowCovariance(
            frame,
            1,
            further,
            None if is_free.all() else fixed,
            places=self.lead[:, None],
            blocks=blocks,
            root=low,
        )

    def places_of_border(self, n_further: int) -> Array:
        """Positions of the border and of further parameters among all parameters."""
        return np.concatenate([self.border, self.p + np.arange(n_further)])


def level_rows(model: Model) -> LevelRows | None:
    """Return the arrow form of a model with coded factors.

    None for several linear predictors, no more rows than columns, and priors other than
    independent normal ones.
    """
    design = model.design
    if (
        not design.has_codes
        or design.n <= len(design.columns)
        or model.shape[1] != 1
        or (prior := model.joint.normal_columns()) is None
    ):
        return None
    X = design.X
    assert isinstance(X, LazyColumns)
    first, lead, border = select_leading_part(X)
    head = X.head_places
    sample = X.head[:: max(1, len(X.head) // 10_000)]
    intercept = design.intercept
    if intercept is not None:
        intercept = int(np.searchsorted(head, intercept))
    head_frame = Frame.of(sample.mean(0), sample.std(0), intercept)
    head_frame = head_frame.with_mix(sample)
    other_factors = [k for k in range(len(X.tail)) if k != first]
    q = sum(X.tail[k].groups for k in other_factors)
    S = np.eye(q + len(head))
    S[q:, q:] = head_frame.T
    return LevelRows(
        ArrowColumns(
            X.tail[first],
            tuple(X.tail[k] for k in other_factors),
            head_frame.rows(X.head),
        ),
        lead,
        border,
        S,
        head_frame.embed(len(design.columns), head),
        prior,
    )


class FreeDirections(NamedTuple):
    """Directions that dependent columns without a prior leave undetermined."""

    directions: Array  # (p, k), directions that do not change X beta
    words: str


class LeastSquares(NamedTuple):
    """A fit by penalised least squares."""

    beta: Array  # (p,)
    unscaled: Callable[[], DenseCovariance]  # at sigma = 1
    rss: float  # the least penalised sum of squares
    least: float  # without the penalty
    mean_square: float  # y'Wy / n of the response
    rank: int
    size: int  # columns with an informative prior
    unseen: int = 0  # columns outside the span of the rows
    free: FreeDirections | None = None


def least_squares_of_levels(model: Model) -> LeastSquares | None:
    """Return the least-squares fit, or None if the design needs dense columns.

    This is so with unidentified columns, or with a prior other than independent normal
    ones.
    """
    rows = level_rows(model)
    if rows is None:
        return None
    # in units of 1 / sigma^2
    precision = rows.prior.at(model.noise()) * model.noise() ** 2
    parts = _within(rows, model, precision)
    if parts is None or rank_of(parts[1][:-1, :-1]).dropped:
        require_independent_columns(rows, model)
        return None
    within, F = parts
    R = np.asarray(F[:-1, :-1], dtype=float)
    c = np.asarray(solve_upper(F[:-1, :-1], F[:-1, -1]), dtype=float)
    means = within.means[:, :-1]
    of_y = within.means[:, -1]
    # X'WX + P = [[L, 0], [C', R']] [[L', C], [0, R]], L_g = weight_g^(1/2) and C_g = L_g m_g
    L = np.sqrt(within.weight)[:, None]
    information = Arrow.of_factors(L[:, None], L * means, R.T)
    rss = least = float(F[-1, -1]) ** 2
    if rows.prior.size:
        flat = _within(rows, model, np.zeros_like(precision))
        least = np.nan
        if flat is not None:
            # of columns that may be dependent
            B = np.asarray(flat[1], dtype=float)
            X = B[:, list(rank_of(flat[1][:-1, :-1]).kept)]
            residual = B[:, -1] - X @ np.linalg.lstsq(X, B[:, -1])[0]
            least = float(residual @ residual)
    beta = rows.beta((of_y - means @ c)[:, None], c[:, None])[:, 0]
    design = model.design
    y = design.response_less_offset
    return LeastSquares(
        beta,
        partial(rows.covariance, information),
        rss,
        least,
        float(np.average(y**2, weights=design.square_weights)),
        len(beta),
        rows.prior.size,
    )


def _within(
    rows: LevelRows, model: Model, precision: Array
) -> tuple[Within, Array] | None:
    """Return the border and y minus their means by level, and the factor including the
    prior rows.

    Return None if a level has no rows and no prior.
    """
    design, (lead, others, dense) = model.design, rows.columns
    lead_precision = precision[rows.lead]
    center = rows.prior.center[rows.lead]
    y = design.response_less_offset
    V = np.column_stack([*(indicators(o) for o in others), dense, y])
    within = within_levels(lead, V, design.square_weights, lead_precision, center)
    if not (within.weight > 0).all():
        return None
    # prior rows: of the levels minus their means, and of the border over c
    lead_rows = np.column_stack([-within.means[:, :-1], center - within.means[:, -1]])
    of_levels = (np.sqrt(lead_precision)[:, None] * lead_rows)[lead_precision > 0]
    informative = precision[rows.border] > 0
    of_border = np.sqrt(precision[rows.border])[:, None] * np.column_stack(
        [rows.S, rows.prior.center[rows.border]]
    )
    prior = np.vstack([of_levels, of_border[informative]])
    factor = within.factor
    if len(prior):
        factor = merge(factor, prior)
    return within, factor


def require_independent_columns(rows: LevelRows, model: Model) -> None:
    """Raise DataError with the names of dependent columns, if columns are too many for dense algebra to name them."""
    design = model.design
    if 8 * design.X.size <= MAX_DENSE_BYTES and len(design.columns) <= MAX_COLUMNS:
        return
    within = _within(rows, model, np.zeros(model.shape[0]))
    names = design.columns
    if within is None:
        empty = np.flatnonzero(rows.columns.lead.gram(np.ones(design.n))[:, 0, 0] == 0)
        finding = f"{names[rows.lead[empty[0]]]} has no rows"
    else:
        dropped = rank_of(within[1][:-1, :-1]).dropped
        names_of_columns = (
            ", ".join(names[rows.border[j]] for j in dropped[:5]) or "a column"
        )
        relation = "is a combination"
        if len(dropped) > 1:
            relation = "are combinations"
        finding = f"{names_of_columns} {relation} of the levels and of other columns"
    raise DataError(
        f"columns are not identified: {finding}. Drop the redundant column, or give it a prior"
    )


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
            return result.x
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
    U = _center_by_level(equal_part)
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
    U = _center_by_level(part)
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
    return part.sums(part.X) / count[:, None]


def _center_by_level(part: LevelCone) -> Array:
    """X minus its means by level."""
    if len(part.codes):
        return part.X - part.repeat_by_level(_means(part))
    return part.X


def null_space_of(F: Array) -> Array:
    """Orthonormal directions (k, d) in the null space of a triangular factor."""
    values, vectors = np.linalg.svd(F)[1:]
    rank = int((values > 1e-9 * values.max(initial=1.0)).sum())
    return vectors[rank:].T


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
