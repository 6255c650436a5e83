"""Moments of rows with coded factors, from residuals of the other columns within the levels of one factor.

With D the leading indicators, d_g = sum over the rows of level g of w_i, l_g >= 0 a precision about b_g, and u_i the other columns and y,

    m_g = (sum_i w_i u_i + l_g (0, b_g)) / (d_g + l_g),    F'F = sum_i w_i (u_i - m_g(i))(u_i - m_g(i))',

and the triangular factor of sqrt(w) [D U y] is the factor of [diag(sqrt d), sqrt(d) m; 0, F]: the levels cost G rows for any n.
"""

from typing import NamedTuple

import numpy as np

from probreg.data.grouped_columns import GroupColumns
from probreg.data.implicit_columns import LazyColumns
from probreg.data.moments import Moments, refuse_too_wide
from probreg.data.rows import full_weights
from probreg.linalg import rank_of, triangular

Array = np.ndarray


class Within(NamedTuple):
    """The residuals of the other columns and y within the levels of a factor."""

    factor: Array  # (r + 1, r + 1)
    means: Array  # (G, r + 1), m_g
    weight: Array  # (G,), d_g + l_g


def select_leading_part(X: LazyColumns) -> tuple[int, Array, Array]:
    """Return the index of the tail part with the most levels, the places (G,) of its columns and the places (r,) of all others, written ones last."""
    first = int(np.argmax([part.groups for part in X.tail]))
    places = [
        np.arange(start, start + part.groups) for start, part in zip(X.starts, X.tail)
    ]
    other_parts = [part_places for k, part_places in enumerate(places) if k != first]
    return (
        first,
        places[first],
        np.concatenate([*other_parts, X.head_places]).astype(np.intp),
    )


def indicators(part: GroupColumns) -> Array:
    """Return the columns of a factor as an array."""
    return np.asarray(LazyColumns(np.zeros((len(part.codes), 0)), (part,)))


def within_levels(
    lead: GroupColumns,
    V: Array,
    weights: Array | None,
    precision: Array | float = 0.0,
    center: Array | None = None,
) -> Within:
    """Subtract the means by level from the columns V (n, r + 1), y last; a level without rows and precision has means of zero.

    `precision` l (G,) about `center` b (G,) is prior information on the levels. `V` is overwritten.
    """
    w = full_weights(weights, len(V))
    weight = lead.gram(w)[:, 0, 0] + precision
    sums = lead.cross(w[:, None] * V)[:, 0]
    if center is not None:
        sums[:, -1] += precision * center
    means = sums / np.where(weight > 0, weight, 1.0)[:, None]
    V -= lead.times(means[:, None])
    names = tuple(map(str, range(V.shape[1] - 1)))
    return Within(
        Moments.of(V[:, :-1], V[:, -1], weights=weights, columns=names).factor,
        means,
        weight,
    )


def moments_of_levels(
    X: LazyColumns,
    y: Array,
    *,
    weights: Array | None,
    precision: Array | None,
    columns: tuple[str, ...],
) -> Moments:
    """Return the moments of all columns; only the columns of smaller factors become arrays."""
    refuse_too_wide(len(columns))
    copies = full_weights(weights, len(y))
    total = float(copies.sum())
    squares = weights if precision is None else copies * precision
    mean, scale = spreads_of_columns(X, copies)
    lead, border, within = _within_largest(X, y, squares)
    order = np.append(border, len(columns))
    y_mean = copies @ y / total
    y_scale = np.sqrt(copies @ np.square(y - y_mean) / total)
    # [diag(sqrt d), sqrt(d) m; 0, F] with its columns in their places
    root = np.sqrt(within.weight)
    q = len(lead)
    stack = np.zeros((q + len(within.factor), len(columns) + 1))
    stack[np.arange(q), lead] = root
    stack[:q, order] = root[:, None] * within.means
    stack[q:, order] = np.asarray(within.factor, dtype=float)
    factor = triangular(stack)
    log_precision = 0.0 if precision is None else float(copies @ np.log(precision))
    means = np.append(mean, y_mean)
    scales = np.append(scale, y_scale)
    return Moments(factor, len(y), total, columns, means, scales, log_precision)


def spreads_of_columns(X: LazyColumns, weights: Array) -> tuple[Array, Array]:
    """Return the weighted means and standard deviations (p,) of columns with indicators of groups."""
    total = float(weights.sum())
    mean = (X.T @ weights[:, None])[:, 0] / total
    scale = np.sqrt(np.maximum(mean * (1.0 - mean), 0.0))
    scale[X.head_places] = np.sqrt(
        weights @ np.square(X.head - mean[X.head_places]) / total
    )
    return mean, scale


def dropped_beside_levels(X: LazyColumns, y: Array, weights: Array | None) -> Array:
    """Return the places of other columns that are combinations of the levels of the largest factor and of earlier columns."""
    _, border, within = _within_largest(X, y, weights)
    return border[list(rank_of(within.factor[:-1, :-1]).dropped)]


def _within_largest(
    X: LazyColumns, y: Array, weights: Array | None
) -> tuple[Array, Array, Within]:
    """Return the places of the largest factor and of the other columns, and the residuals of these and y within its levels."""
    k, lead, border = select_leading_part(X)
    other_parts = [indicators(part) for j, part in enumerate(X.tail) if j != k]
    V = np.column_stack([*other_parts, X.head, y])
    return lead, border, within_levels(X.tail[k], V, weights)
