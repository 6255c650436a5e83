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
"""

from collections.abc import Callable
from dataclasses import dataclass
from typing import NamedTuple

import numpy as np

from probreg.data import Frame
from probreg.data.grouped_columns import ArrowColumns
from probreg.data.implicit_columns import MAX_DENSE_BYTES, LazyColumns
from probreg.data.level_moments import (
    Within,
    indicators,
    select_leading_part,
    within_levels,
)
from probreg.data.moments import MAX_COLUMNS
from probreg.errors import DataError
from probreg.inference.base import Array
from probreg.inference.covariance import ArrowCovariance, DenseCovariance
from probreg.linalg import Arrow, merge, rank_of, solve_upper
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
    precision = (
        rows.prior.at(model.noise()) * model.noise() ** 2
    )  # in units of 1 / sigma^2
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
    covariance = rows.covariance(Arrow.of_factors(L[:, None], L * means, R.T))
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
        lambda: covariance,
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

    None if a level has neither rows nor a prior.
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
