"""The sums of squares and products of the columns of a layout, from the rows or from their moments by group."""

from typing import Any, NamedTuple

import numpy as np

from probreg.data.grouped_columns import ArrowGram
from probreg.data.rows import full_weights, minus_offset
from probreg.inference.base import Array
from probreg.inference.exact.arrow_layout import ArrowLayout


class LayoutSums(NamedTuple):
    """[Z X y]'W[Z X y] of the columns of a layout and y minus its fit by flat columns.

    These are sums, not factors: they lose twice the digits of an ill-conditioned
    design, so that flat columns are standardised.
    """

    gram: ArrowGram
    zy: Array  # (G, K, 1)
    xy: Array  # (r, 1)
    yy: float
    weight: float  # the sum of frequencies
    log_precision: float  # sum_i w_i log(precision_i)
    fitted: Array  # (f,) coefficients of the fit, on standardised columns

    @classmethod
    def of(
        cls, sums: ArrowGram, weight: float, log_precision: float, fitted: Array
    ) -> "LayoutSums":
        """From sums with y as the last column of the border."""
        lead, cross, rest = sums
        return cls(
            ArrowGram(lead, cross[..., :-1], rest[:-1, :-1]),
            cross[..., -1:],
            rest[:-1, -1:],
            float(rest[-1, -1]),
            weight,
            log_precision,
            fitted,
        )


def sums_of_rows(layout: ArrowLayout) -> LayoutSums:
    """Return the sums from the rows."""
    design = layout.model.design
    y = minus_offset(design.observed, design.offset)
    if layout.centre.any():
        y = y - design.X @ layout.centre
    dense = layout.columns.dense
    F = dense[:, dense.shape[1] - len(layout.flat) :]
    frequency = full_weights(design.weights, design.n)
    precision = full_weights(design.precision, design.n)
    w = frequency * precision
    b = np.linalg.lstsq(np.sqrt(w)[:, None] * F, np.sqrt(w) * y)[0]
    with_y = layout.columns._replace(dense=np.column_stack([dense, y - F @ b]))
    log_precision = float(frequency @ np.log(precision))
    return LayoutSums.of(with_y.gram(w), float(frequency.sum()), log_precision, b)


def sums_of_moments(layout: ArrowLayout) -> LayoutSums:
    """The same from moments by group: columns and y are combinations A of [X Z y], with
    sums A'[X Z y]'W[X Z y] A."""
    moments = layout.model.design.moments_by_group
    assert moments is not None  # rows outside memory have moments by group
    h, (G, K, _) = moments.head.p, layout.shape
    A = layout.map_of_rest
    F = np.asarray(moments.head.factor, dtype=float)
    # least squares of y on flat columns of the head, |F (A b - y)| over all b
    flat = F[:, :h] @ A[:h, A.shape[1] - len(layout.flat) :].toarray()
    b = np.zeros(len(layout.flat))
    y = np.append(-layout.centre[:h], 1.0)
    if len(b):
        b = np.linalg.lstsq(flat, F @ y)[0]
    all_flat = A[:, A.shape[1] - len(b) :] @ b
    last = -(layout.centre + all_flat)
    behind = _with_column(A[h:], last[h:])
    lead = layout.places.ravel() - h
    head = np.vstack(
        [
            np.column_stack([A[:h].toarray(), last[:h]]),
            np.append(np.zeros(A.shape[1]), 1.0),
        ]
    )
    inside = moments.inside
    border = moments.border
    cross = (inside[lead] @ behind).toarray() + border[lead] @ head
    cross_head = behind.T @ (border @ head)
    FA = F @ head
    corner = (
        (behind.T @ (inside @ behind)).toarray() + cross_head + cross_head.T + FA.T @ FA
    )
    places = lead.reshape(G, K)
    blocks = np.empty((G, K, K))
    for k in range(K):
        for j in range(K):
            blocks[:, k, j] = inside[places[:, k], places[:, j]]
    sums = ArrowGram(blocks, cross.reshape(G, K, -1), corner)
    return LayoutSums.of(sums, moments.weight, moments.log_precision, b)


def _with_column(A: Any, last: Array) -> Any:
    from scipy.sparse import csr_array, hstack

    return csr_array(hstack([A, csr_array(last[:, None])]))
