"""The sums of squares and products of the columns of a layout, from the rows or from their moments by group."""

from typing import Any

import numpy as np

from probreg.data.arrow_sums import ArrowSums
from probreg.data.rows import minus_offset
from probreg.inference.base import Array
from probreg.inference.exact.arrow_layout import ArrowLayout


def sums_of_rows(layout: ArrowLayout) -> tuple[ArrowSums, Array]:
    """Return the sums of y minus its fit by flat columns, and their coefficients (f,)
    on standardised columns."""
    design = layout.model.design
    y = minus_offset(design.observed, design.offset)
    if layout.centre.any():
        y = y - design.X @ layout.centre
    F = layout.columns.dense[:, layout.columns.dense.shape[1] - len(layout.flat) :]
    w = design.square_weights
    b = np.linalg.lstsq(
        *((F, y) if w is None else (np.sqrt(w)[:, None] * F, np.sqrt(w) * y))
    )[0]
    return ArrowSums.of(layout.columns, y - F @ b, design.weights, design.precision), b


def sums_of_moments(layout: ArrowLayout) -> tuple[ArrowSums, Array]:
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
    sums = ArrowSums(
        blocks,
        cross.reshape(G, K, -1),
        corner,
        moments.n,
        moments.weight,
        moments.log_precision,
    )
    return sums, b


def _with_column(A: Any, last: Array) -> Any:
    from scipy.sparse import csr_array, hstack

    return csr_array(hstack([A, csr_array(last[:, None])]))
