"""Least squares and ridge with the levels of a factor partialled out, without their
indicator columns.

With D the leading indicators, d_g = sum over the rows of level g of w_i, and a prior precision l_g of its coefficient about b_g (0 where
flat), the coefficients of the levels at border coefficients c are

    a_g = m_g^y - m_g c,   m_g = sum_i w_i u_i / (d_g + l_g),   m_g^y = (sum_i w_i y_i + l_g b_g) / (d_g + l_g),

and c is least squares of the rows minus the means of their level, and of prior rows
sqrt(l_g) (-m_g, b_g - m_g^y)
(Frisch & Waugh 1933, Lovell 1963). With (R'R)^-1 the covariance of c at sigma = 1, a_g
has the covariance 1 / (d_g + l_g) + m_g (R'R)^-1 m_g'.
"""

from typing import NamedTuple

import numpy as np

from probreg.data.level_moments import Within, indicators, within_levels
from probreg.data.moments import MOST
from probreg.data.rows import minus_offset
from probreg.data.unwritten import MOST as UNWRITTEN_MOST
from probreg.errors import DataError
from probreg.inference.base import Array
from probreg.inference.covariance import ArrowCovariance
from probreg.inference.modes.level_rows import LevelRows, level_rows
from probreg.linalg import inverse_upper, merge, rank_of, solve_upper
from probreg.model.model import Model


class LevelSquares(NamedTuple):
    """Least squares of a design with coded factors."""

    beta: Array  # (p,)
    unscaled: ArrowCovariance  # at sigma = 1
    rss: float  # the least penalised sum of squares
    least: float  # without the penalty
    size: int  # columns with an informative prior


def least_squares_of_levels(model: Model) -> LevelSquares | None:
    """Return the least-squares fit, or None if the design needs dense columns.

    This is so without a coded factor, with unidentified columns, or with a prior other
    than independent normal ones.
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
    root = np.asarray(inverse_upper(F[:-1, :-1]), dtype=float)
    c = np.asarray(solve_upper(F[:-1, :-1], F[:-1, -1]), dtype=float)
    means = within.means[:, :-1]
    of_y = within.means[:, -1]
    # cov(c) = root root', cov(a, c) = -m root root', cov(a) = diag(1 / weight) + m root root' m'
    low = rows.coordinates(-means @ root, root)
    blocks = np.sqrt(1.0 / within.weight)[:, None, None]
    rss = least = float(F[-1, -1]) ** 2
    if rows.prior.size:
        flat = _within(rows, model, np.zeros_like(precision))
        least = np.nan if flat is None else _least(flat[1])
    beta = rows.beta((of_y - means @ c)[:, None], c[:, None])[:, 0]
    return LevelSquares(
        beta,
        ArrowCovariance(
            rows.frame, 1, places=rows.lead[:, None], blocks=blocks, low=low
        ),
        rss,
        least,
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
    y = minus_offset(design.observed, design.offset)
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
    return within, merge(within.factor, prior) if len(prior) else within.factor


def require_independent_columns(rows: LevelRows, model: Model) -> None:
    """Raise DataError with the names of dependent columns, if columns are too many for
    dense algebra to name them."""
    design = model.design
    if 8 * design.X.size <= UNWRITTEN_MOST and len(design.columns) <= MOST:
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
        finding = f"{names_of_columns} {'is a combination' if len(dropped) < 2 else 'are combinations'} of the levels and of other columns"
    raise DataError(
        f"columns are not identified: {finding}. Drop the redundant column, or give it a prior"
    )


def _least(F: Array) -> float:
    """Return the least sum of squares of a factor with possibly dependent columns."""
    rank = rank_of(F[:-1, :-1])
    B = np.asarray(F, dtype=float)
    X = B[:, list(rank.kept)]
    residual = B[:, -1] - X @ np.linalg.lstsq(X, B[:, -1])[0]
    return float(residual @ residual)
