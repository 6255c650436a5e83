"""Collect in one pass the properties of rows in blocks that a model needs before it can be built.

A `Survey` of some rows plus a `Survey` of the rows after them is the survey of both: it is a fold like any other.
"""

from collections import Counter
from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any, NamedTuple

import numpy as np

from probreg.data.arrow_moments import AnyMoments
from probreg.data.blocks.block import SAMPLE, Array, Block, join_blocks

_DISTINCT = 1000  # values of a response beyond which it has no levels


class Survey(NamedTuple):
    """Counts, evenly spaced rows, the distinct values of the response and, if requested, the moments.

    If the response (n, c) consists of counts, `values` (1, c) are its sums.

    `sample` contains the rows with a number (in `numbers`) that is a multiple of `stride`, the smallest power of 2 that SAMPLE rows allow;
    `values` are the distinct values met, or some of them when `many`.
    """

    n: int
    weight: float
    stride: int
    numbers: Array
    sample: Block
    values: Array
    many: bool
    moments: AnyMoments | None

    def __add__(self, other: "Survey") -> "Survey":  # type: ignore[override]
        stride = max(self.stride, other.stride)
        numbers = np.concatenate([self.numbers, other.numbers])
        while (numbers % stride == 0).sum() > SAMPLE:
            stride *= 2
        a = self._thin_sample(stride)
        b = other._thin_sample(stride)
        values = a.values
        if not (a.many or b.many):
            values = distinct(np.concatenate([a.values, b.values]))[0]
        moments: Any = (
            None if a.moments is None or b.moments is None else a.moments + b.moments  # type: ignore[operator]
        )
        return Survey(
            a.n + b.n,
            a.weight + b.weight,
            stride,
            np.concatenate([a.numbers, b.numbers]),
            join_blocks([a.sample, b.sample]),
            values,
            a.many or b.many or len(values) > _DISTINCT,
            moments,
        )

    def _thin_sample(self, stride: int) -> "Survey":
        """Return the survey with fewer rows in the sample, before they are copied together with another sample."""
        if stride == self.stride:
            return self
        keep = np.flatnonzero(self.numbers % stride == 0)
        return self._replace(
            stride=stride,
            numbers=self.numbers[keep],
            sample=self.sample.part(keep),
        )

    @property
    def response(self) -> Array:
        """Representative values of the response: the values of the sample, and distinct values that the sample missed."""
        import pandas as pd

        if self.values.ndim == 2:
            return np.concatenate([self.sample.y, self.values])
        missed = ~pd.Index(self.values).isin(pd.unique(self.sample.y))
        return np.concatenate([self.sample.y, self.values[missed]])


@dataclass(eq=False)
class Orders:
    """The orders in which a categorical response declares its levels, as the blocks of a pass show them.

    >>> orders = Orders()
    >>> orders.add(("no", "yes"))
    >>> orders.levels(np.array(["yes"]))
    ('no', 'yes')
    >>> orders.add(("yes", "no"))
    >>> orders.levels(np.array(["yes"]))
    """

    met: set[tuple[Any, ...] | None] = field(default_factory=set)

    def add(self, declared: tuple[Any, ...] | None) -> None:
        """Add the order that one block declares, or None for a response that is not a category."""
        if len(self.met) < 2:  # two differ already
            self.met.add(declared)

    def __add__(self, other: "Orders") -> "Orders":
        return Orders(self.met | other.met)

    def levels(self, present: Array) -> tuple[Any, ...] | None:
        """The order that all blocks declare, if they agree and it has all of these levels."""
        if len(self.met) == 1:
            declared = next(iter(self.met))
        else:
            declared = None
        if present.ndim == 2:
            return declared
        if declared is not None and set(present.tolist()) <= set(declared):
            return declared
        return None


def survey_of(block: Block, *, moments: Callable[[Block], AnyMoments] | None) -> Survey:
    """Return the survey of one block, before or after its response is encoded; `moments` computes the moments of its rows."""
    stride = 1
    while block.rows > stride * SAMPLE:
        stride *= 2
    places = np.arange(-block.start % stride, block.rows, stride)
    values, many = distinct(block.y)
    return Survey(
        block.rows,
        float(block.rows if block.weights is None else block.weights.sum()),
        stride,
        block.start + places,
        block.part(places),
        values,
        many,
        None if moments is None else moments(block),
    )


def distinct(values: Array) -> tuple[Array, bool]:
    """Return the distinct values, and whether they are too many to be levels (then only some of them); for counts, their sums."""
    import pandas as pd

    if values.ndim == 2:
        return values.sum(0, keepdims=True), False
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
    orders: Orders = field(default_factory=Orders)

    def __add__(self, other: "Tally") -> "Tally":
        return Tally(
            self.rows + other.rows,
            self.dropped + other.dropped,
            self.missing + other.missing,
            self.unused + other.unused,
            self.orders + other.orders,
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
