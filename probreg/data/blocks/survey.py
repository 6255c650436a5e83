"""Collect in one pass the properties of rows in blocks that a model needs before it can be built.

A `Survey` of some rows plus a `Survey` of the rows after them is the survey of both: it is a fold like any other.
"""

from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any, NamedTuple

import numpy as np

from probreg.data.blocks.block import SAMPLE, Array, Block
from probreg.data.design import AnyMoments
from probreg.data.unwritten import stack_rows

_DISTINCT = 1000  # values of a response beyond which it has no levels
_LOOK = 4000  # rows that determine the type of the response


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
        a = self._thin_sample(stride)
        b = other._thin_sample(stride)
        index = np.concatenate([a.numbers, b.numbers])
        sample = join_surveys(a.sample, b.sample)
        survey = Survey(
            a.n + b.n,
            a.weight + b.weight,
            stride,
            index,
            sample,
            a.values,
            a.many or b.many,
            None,
        )
        while len(survey.numbers) > SAMPLE:
            survey = survey._thin_sample(2 * survey.stride)
        many = survey.many
        if many:
            values = a.values
        else:
            values = distinct(np.concatenate([a.values, b.values]))[0]
        many = many or len(values) > _DISTINCT
        moments: Any = (
            None if a.moments is None or b.moments is None else a.moments + b.moments  # type: ignore[operator]
        )
        return survey._replace(values=values, many=many, moments=moments)

    def _thin_sample(self, stride: int) -> "Survey":
        """Return the survey with fewer rows in the sample, before they are copied together with another sample."""
        if stride == self.stride:
            return self
        keep = np.flatnonzero(self.numbers % stride == 0)
        return self._replace(
            stride=stride,
            numbers=self.numbers[keep],
            sample=kept_rows(self.sample, keep),
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


def survey_of(
    block: Block,
    *,
    moments: Callable[[Block], AnyMoments] | None,
    counted: bool = False,
) -> Survey:
    """Return the survey of one block, before or after its response is encoded; `moments` computes the moments of its rows.

    `counted` means that this survey is added to a survey of all rows before the block; the block's start is their number.
    """
    stride = 1
    rows = block.rows + block.start * counted
    while (
        rows > stride * SAMPLE
    ):  # the stride that all rows so far need anyway, so that few rows are copied
        stride *= 2
    places = np.arange(-block.start % stride, block.rows, stride)
    values, many = distinct(block.y)
    weight = float(block.rows if block.weights is None else block.weights.sum())
    block_moments = None if moments is None else moments(block)
    return Survey(
        block.rows,
        weight,
        stride,
        block.start + places,
        kept_rows(block, places),
        values,
        many,
        block_moments,
    )


def distinct(values: Array) -> tuple[Array, bool]:
    """Return the distinct values, and whether they are too many to be levels (then only some of them); for counts, their sums."""
    import pandas as pd

    if values.ndim == 2:
        return values.sum(0, keepdims=True), False
    head: Any = pd.unique(values[:_LOOK])
    if len(head) > _DISTINCT:
        return head[: _DISTINCT + 1], True
    values_met: Any = pd.unique(values)
    return values_met[: _DISTINCT + 1], len(values_met) > _DISTINCT


def kept_rows(block: Block, keep: Array) -> Block:
    """The rows of a block where `keep` is true, or at these positions."""
    return Block(
        block.X[keep],
        block.y[keep],
        None if block.weights is None else block.weights[keep],
        None if block.offset is None else block.offset[keep],
        block.start,
        None if block.precision is None else block.precision[keep],
    )


def join_surveys(a: Block, b: Block) -> Block:
    def both(u: Array | None, v: Array | None) -> Array | None:
        if u is None or v is None:
            return None
        return np.concatenate([u, v])

    y = np.concatenate([a.y, b.y])
    weights = both(a.weights, b.weights)
    precision = both(a.precision, b.precision)
    return Block(
        stack_rows(a.X, b.X), y, weights, both(a.offset, b.offset), a.start, precision
    )
