"""All that a Gaussian model with varying effects needs of its rows: sums of squares and products of [Z, X, y] in the shape of an arrow.

Rows are added and taken away, and their moments saved, as with `Moments`. These are sums, not factors: what is lost of digits by the
squares of columns is twice that of their condition, so who forms them centres the columns first where rows are at hand.
"""

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

import numpy as np

from probreg.data.grouped_columns import ArrowColumns, ArrowGram
from probreg.errors import DataError

Array = np.ndarray


@dataclass(frozen=True, eq=False)
class ArrowMoments:
    """[Z, X, y]' diag(w) [Z, X, y] of rows, and how many they are.

    Attributes
    ----------
    lead : array (G, K, K)
        Of the columns of the leading factor, group by group.
    cross : array (G, K, r + 1)
        Of these with the r others, and with y last.
    rest : array (r + 1, r + 1)
        Of the others and y.
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
    >>> moments = ArrowMoments.of(rows, np.array([1.0, 2.0, 3.0]))
    >>> moments.lead.ravel(), moments.rest
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
        cls, columns: ArrowColumns, y: Array, weights: Array | None = None, precision: Array | None = None
    ) -> "ArrowMoments":
        """Of rows with these columns and this response, with frequencies and precisions; one pass."""
        n = len(y)
        frequency = np.ones(n) if weights is None else weights
        w = frequency if precision is None else frequency * precision
        with_y = columns._replace(dense=np.column_stack([columns.dense, y]))
        log_precision = 0.0 if precision is None else float(frequency @ np.log(precision))
        return cls(*with_y.gram(w), n, float(frequency.sum()), log_precision)

    @property
    def gram(self) -> ArrowGram:
        """Of the columns without y."""
        return ArrowGram(self.lead, self.cross[..., :-1], self.rest[:-1, :-1])

    @property
    def of_y(self) -> tuple[Array, Array, float]:
        """The products of the columns with y, (G, K, 1) and (r, 1), and y'diag(w) y."""
        return self.cross[..., -1:], self.rest[:-1, -1:], float(self.rest[-1, -1])

    def __add__(self, other: "ArrowMoments") -> "ArrowMoments":
        return self._with(other, 1)

    def __sub__(self, other: "ArrowMoments") -> "ArrowMoments":
        return self._with(other, -1)

    def _with(self, other: "ArrowMoments", sign: int) -> "ArrowMoments":
        if self.cross.shape != other.cross.shape:
            raise DataError(
                f"these moments are of {self.cross.shape} groups, effects and columns, and the others of {other.cross.shape}"
            )
        if sign < 0 and other.n > self.n:
            raise DataError(f"{other.n} rows cannot be taken from {self.n}")
        return ArrowMoments(
            self.lead + sign * other.lead,
            self.cross + sign * other.cross,
            self.rest + sign * other.rest,
            self.n + sign * other.n,
            self.weight + sign * other.weight,
            self.log_precision + sign * other.log_precision,
        )

    def to_state(self) -> dict[str, Any]:
        """As plain data, every number to the last bit."""
        return {
            **{name: getattr(self, name).tolist() for name in ("lead", "cross", "rest")},
            "n": self.n,
            "weight": self.weight,
            "log_precision": self.log_precision,
        }


def arrow_moments_of(state: Mapping[str, Any]) -> ArrowMoments:
    """The moments that `to_state` wrote; DataError for a damaged state."""
    try:
        lead, cross, rest = (np.array(state[name], dtype=float) for name in ("lead", "cross", "rest"))
        G, K, r = cross.shape
        if lead.shape != (G, K, K) or rest.shape != (r, r) or not all(map(_finite, (lead, cross, rest))):
            raise ValueError(f"arrays of shapes {lead.shape}, {cross.shape} and {rest.shape} are no arrow")
        return ArrowMoments(lead, cross, rest, int(state["n"]), float(state["weight"]), float(state["log_precision"]))
    except (KeyError, TypeError, ValueError) as error:
        raise DataError(f"the saved moments are damaged: {error}") from None


def _finite(values: Array) -> bool:
    return bool(np.isfinite(values).all())
