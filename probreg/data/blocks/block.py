"""Blocks of rows, the unit of work for sums over rows in memory or elsewhere.

A function of a `Block` computes the contribution of some rows; `Design.sum_over_rows` combines the contributions of all blocks. Rows in memory are
one block. Rows elsewhere (files, the workers of a cluster) are `RowsInParts`, which keep at most a few
blocks in memory at a time. A function that is folded should be picklable (`functools.partial` of a module's function over arrays), because a
source may send it to where the rows are: the function travels there, and only its results travel back.
"""

import functools
import operator
from collections.abc import Callable, Sequence
from typing import Any, NamedTuple

import numpy as np

from probreg.data.checked_arrays import plus_offset, some_rows
from probreg.data.implicit_columns import stack_rows
from probreg.data.weights import WeightKind
from probreg.errors import rows_named
from probreg.linalg import map_blocks, row_blocks

Array = np.ndarray
Sums = tuple[Array, ...]
SAMPLE = 20_000  # evenly spaced rows that a source keeps in memory, at most


class Block(NamedTuple):
    """Consecutive rows: X (b, p), y (b,) as numbers, offset (b, 1) or (b, m).

    `weights` (b,) multiply log p(y_i): frequencies, or normalised sampling weights. `precision` (b,) divides the variance of
    the noise: sigma / sqrt(precision_i) is the noise scale of a row. `start` counts the rows before it. X may be in row-major or column-major order.

    >>> block = Block(np.ones((6, 2)), np.arange(6.0))
    >>> block.part(slice(4, 6)).y, block.part(slice(4, 6)).start
    (array([4., 5.]), 4)
    """

    X: Array
    y: Array
    weights: Array | None = None
    offset: Array | None = None
    start: int = 0
    precision: Array | None = None

    @property
    def rows(self) -> int:
        """b."""
        return len(self.X)

    def part(self, rows: slice | Array) -> "Block":
        """Return some of its rows, for a slice without a copy."""
        before = rows.start or 0 if isinstance(rows, slice) else 0
        return Block(
            self.X[rows],
            self.y[rows],
            some_rows(self.weights, rows),
            some_rows(self.offset, rows),
            self.start + before,
            some_rows(self.precision, rows),
        )

    def eta(self, beta: Array) -> Array:
        """X beta + offset, (..., b, m) for beta (..., p, m)."""
        # np.dot for one beta, because @ keeps the interpreter's lock in the threads of `sweep`
        if beta.ndim == 2:
            eta = np.dot(self.X, beta)
        else:
            eta = self.X @ beta
        return plus_offset(eta, self.offset)

    def sweep(self, fn: Callable[["Block"], Sums], *, width: int | None = None) -> Sums:
        """Return the sums of fn over parts that stay in cache, on all cores; `width` is the number of values per row (default p).

        >>> Block(np.ones((6, 2)), np.arange(6.0)).sweep(lambda part: (np.dot(part.X.T, part.y),))
        (array([15., 15.]),)
        """
        parts = row_blocks(self.rows, self.X.shape[1] if width is None else width)
        return map_blocks(lambda rows: fn(self.part(rows)), parts)


def join_blocks(blocks: Sequence[Block]) -> Block:
    """Return the rows of all blocks, in their order, as one block with the `start` of the first.

    >>> join_blocks([Block(np.ones((2, 1)), np.zeros(2)), Block(np.ones((1, 1)), np.ones(1))]).y
    array([0., 0., 1.])
    """

    def whole(name: str) -> Array | None:
        parts = [part for block in blocks if (part := getattr(block, name)) is not None]
        return np.concatenate(parts) if len(parts) == len(blocks) else None

    X = functools.reduce(stack_rows, [block.X for block in blocks])
    y = np.concatenate([block.y for block in blocks])
    return Block(
        X, y, whole("weights"), whole("offset"), blocks[0].start, whole("precision")
    )


def by_kind(
    kind: WeightKind, values: Array | None
) -> tuple[Array | None, Array | None]:
    """(weights, precision) of a `Block` or a design: precisions divide a variance, weights of other kinds multiply log p."""
    if kind == "precision":
        return (None, values)
    return (values, None)


def encode_block(
    block: Block,
    weights: Array | None,
    kind: WeightKind,
    encode: Callable[[Any], Array],
    names: Array | None = None,
) -> Block:
    """Return the rows of positive weight of a block, with weights of this kind and the response as numbers; errors name the rows."""
    frequency, precision = by_kind(kind, weights)
    block = block._replace(weights=frequency, precision=precision)
    # rows of weight 0 are left out before their response is encoded
    if weights is not None and (weights == 0).any():
        used = np.flatnonzero(weights > 0)
        block = block.part(used)
        names = used if names is None else names[used]
    if not block.rows:
        return block
    with rows_named(names):
        return block._replace(y=encode(block.y))


def add(a: Sums, b: Sums) -> Sums:
    """Add two tuples of arrays, array by array."""
    return tuple(map(operator.add, a, b))
