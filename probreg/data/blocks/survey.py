"""Collect in one pass the properties of rows in blocks that a model needs before it can be built.

A `Survey` of some rows plus a `Survey` of the rows after them is the survey of both: it is a fold like any other.
"""

from collections import Counter
from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any, NamedTuple

import numpy as np

from probreg.data.blocks.block import SAMPLE, Array, Block, join_blocks
from probreg.data.grouped_moments import AnyMoments

_DISTINCT = 1000  # values of a response beyond which it has no levels


@dataclass(frozen=True, eq=False)
class EvenSample:
    """Evenly spaced rows: those with a number that is a multiple of `stride`, the smallest power of 2 that leaves at most SAMPLE rows.

    `parts` are numbers and the rows that have them, as a `Block` or a `DataTable`.
    """

    stride: int = 1
    parts: tuple[tuple[Array, Any], ...] = ()
    size: int = 0

    @classmethod
    def of(cls, start: int, n: int, rows: Any) -> "EvenSample":
        """Return the sample of n rows; the first row has the number `start`."""
        stride = 1
        while n > stride * SAMPLE:
            stride *= 2
        return cls(1, ((start + np.arange(n), rows),), n).thin(stride)

    def __add__(self, other: "EvenSample") -> "EvenSample":
        stride = max(self.stride, other.stride)
        a, b = self.thin(stride), other.thin(stride)
        while a.size + b.size > SAMPLE:
            stride *= 2
            a, b = a.thin(stride), b.thin(stride)
        return EvenSample(stride, a.parts + b.parts, a.size + b.size)

    def thin(self, stride: int) -> "EvenSample":
        """Return the rows with a number that is a multiple of a larger stride."""
        if stride == self.stride:
            return self
        keep = [np.flatnonzero(numbers % stride == 0) for numbers, _ in self.parts]
        parts = tuple(
            (numbers[k], rows.part(k))
            for k, (numbers, rows) in zip(keep, self.parts)
            if len(k)
        )
        return EvenSample(stride, parts, sum(map(len, keep)))


class Survey(NamedTuple):
    """Counts, evenly spaced rows, the distinct values of the response and, if requested, the moments.

    If the response (n, c) consists of counts or ends, `values` (1, c) are its maxima, which are a valid response; else the distinct
    values met, or some of them when `many`.
    """

    n: int
    weight: float
    spaced: EvenSample
    values: Array
    many: bool
    moments: AnyMoments | None

    def __add__(self, other: "Survey") -> "Survey":  # type: ignore[override]
        values = self.values
        many = self.many or other.many
        if not many:
            values = distinct(np.concatenate([values, other.values]))[0]
        moments: Any = None
        if self.moments is not None and other.moments is not None:
            moments = self.moments + other.moments  # type: ignore[operator]
        return Survey(
            self.n + other.n,
            self.weight + other.weight,
            self.spaced + other.spaced,
            values,
            many or len(values) > _DISTINCT,
            moments,
        )

    @property
    def sample(self) -> Block:
        """The evenly spaced rows."""
        return join_blocks([block for _, block in self.spaced.parts])

    @property
    def response(self) -> Array:
        """Representative values of the response: the values of the sample, and distinct values that the sample missed."""
        import pandas as pd

        y = np.concatenate([block.y for _, block in self.spaced.parts])
        if self.values.ndim == 2:
            return np.concatenate([y, self.values])
        missed = ~pd.Index(self.values).isin(pd.unique(y))
        return np.concatenate([y, self.values[missed]])


# The orders of levels that the blocks of a categorical column declare; None for a block that declares none.
Orders = set[tuple[Any, ...] | None]


def declared_order(orders: Orders, present: Array) -> tuple[Any, ...] | None:
    """Return the order that all blocks declare, if they agree and it has all levels that are present; counts (n, K) have all.

    >>> declared_order({("no", "yes")}, np.array(["yes"]))
    ('no', 'yes')
    >>> declared_order({("no", "yes"), ("yes", "no")}, np.array(["yes"]))
    """
    if len(orders) != 1:
        return None
    (declared,) = orders
    is_known = present.ndim == 2 or set(present.tolist()) <= set(declared or ())
    return declared if is_known else None


def survey_of(block: Block, *, moments: Callable[[Block], AnyMoments] | None) -> Survey:
    """Return the survey of one block, before or after its response is encoded; `moments` computes the moments of its rows."""
    values, many = distinct(block.y)
    return Survey(
        block.rows,
        float(block.rows if block.weights is None else block.weights.sum()),
        EvenSample.of(block.start, block.rows, block),
        values,
        many,
        None if moments is None else moments(block),
    )


def distinct(values: Array) -> tuple[Array, bool]:
    """Return the distinct values, and whether they are too many to be levels (then only some of them); for counts and ends, their maxima."""
    import pandas as pd

    if values.ndim == 2:
        return values.max(0, keepdims=True), False
    values_met: Any = pd.unique(values)
    return values_met[: _DISTINCT + 1], len(values_met) > _DISTINCT


@dataclass(eq=False)
class Tally:
    """Counts from one pass over the rows.

    Rows, rows dropped for missing values, missing values by column, rows of weight zero, and the orders of a categorical response.
    """

    rows: int = 0
    dropped: int = 0
    missing: Counter[str] = field(default_factory=Counter)
    unused: int = 0
    orders: Orders = field(default_factory=set)

    def __add__(self, other: "Tally") -> "Tally":
        return Tally(
            self.rows + other.rows,
            self.dropped + other.dropped,
            self.missing + other.missing,
            self.unused + other.unused,
            self.orders | other.orders,
        )

    @property
    def notes(self) -> tuple[str, ...]:
        """Describe the rows that were left out."""
        notes = []
        if self.dropped:
            by = ", ".join(f"{name!r} {count}" for name, count in self.missing.items())
            notes.append(
                f"{self.dropped} of {self.rows} rows were dropped because of missing values; by column: {by}"
            )
        if self.unused:
            notes.append(
                f"{self.unused} of {self.rows} rows have weight 0 and were left out"
            )
        return tuple(notes)
