"""Sums of squares and products of [Z, X, y] as an arrow matrix.

These are sums, not factors. Squaring the columns doubles the number of digits lost to ill conditioning, so callers
centre the columns first.
"""

from dataclasses import dataclass

import numpy as np

from probreg.data.grouped_columns import ArrowColumns, ArrowGram

Array = np.ndarray


@dataclass(frozen=True, eq=False)
class ArrowSums:
    """[Z, X, y]' diag(w) [Z, X, y] of rows, and the number of rows.

    Attributes
    ----------
    lead : array (G, K, K)
        Sums for the columns of the leading factor, group by group.
    cross : array (G, K, r + 1)
        Products of the leading columns with the r other columns, and with y in the last place.
    rest : array (r + 1, r + 1)
        Products of the other columns and y.
    n : int
        Rows.
    weight : float
        The sum of frequencies.
    log_precision : float
        sum_i w_i log(precision_i).

    Examples
    --------
    >>> from probreg.data.grouped_columns import GroupColumns
    >>> codes, one = np.array([0, 1, 1]), np.ones((3, 1))
    >>> rows = ArrowColumns(GroupColumns(codes, one, 2), (), one)
    >>> sums = ArrowSums.of(rows, np.array([1.0, 2.0, 3.0]))
    >>> sums.lead.ravel(), sums.rest
    (array([1., 2.]), array([[ 3.,  6.],
           [ 6., 14.]]))
    """

    lead: Array
    cross: Array
    rest: Array
    n: int
    weight: float
    log_precision: float = 0.0

    @classmethod
    def of(
        cls,
        columns: ArrowColumns,
        y: Array,
        weights: Array | None = None,
        precision: Array | None = None,
    ) -> "ArrowSums":
        """Compute the sums for rows with these columns, response, frequencies and precisions in one pass."""
        n = len(y)
        frequency = np.ones(n) if weights is None else weights
        if precision is None:
            w = frequency
        else:
            w = frequency * precision
        with_y = columns._replace(dense=np.column_stack([columns.dense, y]))
        if precision is None:
            log_precision = 0.0
        else:
            log_precision = float(frequency @ np.log(precision))
        return cls(*with_y.gram(w), n, float(frequency.sum()), log_precision)

    @property
    def gram(self) -> ArrowGram:
        """Return the sums for the columns without y."""
        return ArrowGram(self.lead, self.cross[..., :-1], self.rest[:-1, :-1])

    @property
    def of_y(self) -> tuple[Array, Array, float]:
        """The products of the columns with y, (G, K, 1) and (r, 1), and y'diag(w) y."""
        return self.cross[..., -1:], self.rest[:-1, -1:], float(self.rest[-1, -1])
