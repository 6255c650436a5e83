"""Blocks of rows from arrays with matching rows, one block at a time."""

import inspect
from collections.abc import Callable, Generator, Iterable, Mapping, Sequence
from dataclasses import dataclass
from functools import partial
from typing import Any

import numpy as np

from probreg.arguments.arrays import as_array
from probreg.data.array_columns import ArrayColumns
from probreg.data.blocks.block import Array, Block, encode_block
from probreg.data.blocks.parts import LocalPart
from probreg.data.blocks.survey import Tally
from probreg.data.checked_arrays import (
    as_offset,
    as_response,
    as_weights,
    names_of,
    weights_without_empty_trials,
)
from probreg.data.formula.columns import read_columns
from probreg.data.weights import WeightKind
from probreg.errors import DataError, prefix_errors

_NONE: Any = object()


@dataclass(frozen=True, eq=False)
class ArrayBlocks:
    """The blocks of a part that yields arrays.

    A block is (X, y), (X, y, weights), (X, y, weights, offset) or (X, y, weights, offset, trials). `compose` combines successes and
    trials, and returns the kind of counted response, if any.
    """

    recipe: ArrayColumns
    compose: Callable[[Array, Any], tuple[Array, Any]]
    encode: Callable[[Array], Array] = np.asarray
    kind: WeightKind = "frequency"
    # factor of the weights, so that sampling weights sum to the number of rows
    unit: float = 1.0

    def __call__(self, number: int, part: Any, tally: Tally) -> Generator[Block]:
        start = seen = 0  # rows that count, and all rows
        for i, arrays in enumerate(part()):
            with prefix_errors(f"block {i}, whose rows start at row {seen}"):
                block = self._block(arrays, tally)
            yield block._replace(start=start)
            start = start + block.rows
            seen = seen + len(arrays[0])

    def _block(self, arrays: Sequence[Any], tally: Tally) -> Block:
        refuse_part(arrays)
        X, y, weights, offset, trials = (*arrays, None, None, None)[:5]
        if weights is None and self.kind != "frequency":
            raise DataError(
                f"weights= declares {self.kind} weights, and this block has none: expected (X, y, weights)"
            )
        X = self._matrix(X)
        if len(X):
            y, declared = as_response(y)
        else:
            y = as_array(y, "y")
            declared = None
        if y.shape[:1] != X.shape[:1] or y.ndim > 2:
            raise DataError(
                f"X has {len(X)} rows and y has shape {y.shape}: they must match"
            )
        y, counts = self.compose(y, trials)
        w = weights_without_empty_trials(
            y, counts, as_weights(weights, len(X), self.kind, may_vanish=True)
        )
        if len(X) and (w is None or w.any()):
            tally.orders.add(declared)
        block = Block(X, y, None, as_offset(offset, len(X)))
        w = None if w is None else self.unit * w
        return encode_block(block, w, self.kind, self.encode)

    def _matrix(self, X: Any) -> Array:
        """Return the columns of an array by position, or of a table by name."""
        return self.recipe.matrix(X if _is_table(X) and len(X) else as_array(X, "X"))


def array_blocks(
    blocks: Any, *, columns: Sequence[str] | None, intercept: bool, kind: WeightKind,
    compose: Callable[[Array, Any], tuple[Array, Any]], progress: bool | None,
) -> tuple[ArrayBlocks, LocalPart]:  # fmt: skip
    """Return the function that makes blocks from arrays, and the arrays as a part.

    The names of the columns come from the first block unless they are given.
    """
    if isinstance(blocks, type) or not (
        callable(blocks) or isinstance(blocks, Sequence)
    ):
        raise DataError(
            f"blocks is a list of (X, y) or a function that starts them anew, since a fit reads them more than once; "
            f"got {type(blocks).__name__}: pass lambda: ... instead"
        )
    if callable(blocks):
        try:
            inspect.signature(blocks).bind()
        except TypeError:
            raise DataError("blocks is a function without arguments") from None
        except ValueError:  # builtins such as iter have no signature
            pass
    parts = blocks if callable(blocks) else partial(iter, blocks)
    if columns is None:
        columns = _names(parts)
    names = names_of(columns, 0, intercept=intercept)
    recipe = ArrayColumns(names, intercept)
    return ArrayBlocks(recipe, compose, kind=kind), LocalPart(parts, "blocks", progress)


def _names(parts: Callable[[], Iterable[Sequence[Any]]]) -> list[str]:
    """The names of a table's columns in the first block; x1, x2, ... for an array."""
    blocks = parts()
    if not isinstance(blocks, Iterable) or (
        isinstance(blocks, np.ndarray) and not blocks.ndim
    ):
        raise DataError(f"blocks() yields blocks (X, y), got {type(blocks).__name__}")
    first = next(iter(blocks), _NONE)
    if first is _NONE:
        raise DataError("no block of rows was given; give at least one (X, y)")
    refuse_part(first)
    if _is_table(first[0]):
        return list(read_columns(first[0]))
    X = as_array(first[0], "X")
    return [f"x{j + 1}" for j in range(X.shape[1] if X.ndim == 2 else 1)]


def refuse_part(part: Any) -> None:
    """Raise DataError for an invalid block of rows."""
    if not isinstance(part, tuple | list) or not 2 <= len(part) <= 5:
        raise DataError(
            f"a block is (X, y), (X, y, weights), (X, y, weights, offset) or (X, y, weights, offset, trials), got {type(part).__name__}"
        )


def _is_table(X: Any) -> bool:
    return isinstance(X, Mapping) or getattr(X, "columns", None) is not None
