"""Factors of many levels in a formula: they stay codes, one number for each row, where their columns would be large.

A factor is coded where it stands alone in one term, under treatment contrasts, in a formula without bars, and has many levels for its
rows. Formulaic gets a factor of two levels in its place, whose columns say where those of the levels stand and whether the first level has one.
"""

from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np

from probreg.data.formula.algebra import FormulaLayout
from probreg.data.formula.grammar import coding_arguments
from probreg.data.grouped_columns import GroupColumns
from probreg.data.unwritten import LazyColumns

LEVELS = 50  # of a factor from which it may stay codes
NUMBERS = (
    10**6
)  # rows times levels from which it does: 8 MB, and a tenth of a second for least squares of written columns
STAND_IN = ("a", "b")  # the levels of what formulaic gets
_OF_FIRST, _OF_SECOND = (
    "[a]",
    "[T.b]",
)  # what it calls their columns: with one for the first level, and without


def coded_factors(
    parts: FormulaLayout, levels: Mapping[str, Sequence[Any]], n: int
) -> tuple[str, ...]:
    """The factors of a formula at n rows that stay codes."""
    if parts.bars:
        return ()
    alone = {
        text
        for text in parts.factors
        if [term for term in parts.terms if text in term] == [(text,)]
        and _treatment(parts.factors[text])
    }
    return tuple(
        t for t in parts.factors if t in alone and _many(len(levels.get(t, ())), n)
    )


def _many(levels: int, n: int) -> bool:
    return levels >= LEVELS and n * levels >= NUMBERS


def _treatment(expression: Any) -> bool:
    """The factor has treatment contrasts against its first level."""
    return expression.coding is None or not {"contrasts", "spans_intercept"} & set(
        coding_arguments(expression.coding)
    )


def stand_in(values: Any) -> Any:
    """A factor of two levels in the place of one of many, as formulaic takes it."""
    import pandas as pd
    from formulaic.materializers.types import FactorValues

    short = pd.Series(
        pd.Categorical.from_codes(
            np.zeros(len(values), dtype=np.int8), categories=list(STAND_IN)
        )
    )
    return FactorValues(short, kind="categorical", spans_intercept=True)


def with_codes(
    X: np.ndarray,
    raw: Sequence[str],
    columns: Sequence[str],
    coded: Mapping[str, tuple[str, str, np.ndarray, Sequence[Any]]],
) -> tuple[LazyColumns, tuple[str, ...]]:
    """The columns of a formula with those of coded factors in the place of their stand-ins, and their names.

    `raw` are the names that formulaic has, `columns` those for users; of each factor its word in `raw`, its name for users, its codes
    (n,) and its levels.
    """
    names = list[str]()
    tail = list[GroupColumns]()
    firsts = list[int]()
    kept = list[int]()
    words = {
        word: (name, codes, levels) for word, name, codes, levels in coded.values()
    }
    for j, (own, shown) in enumerate(zip(raw, columns)):
        word = next((w for w in words if own.startswith(w)), None)
        if word is None:
            names.append(shown)
            kept.append(j)
            continue
        name, codes, levels = words[word]
        if own not in (word + _OF_FIRST, word + _OF_SECOND) or (
            own == word + _OF_SECOND and j and raw[j - 1] == word + _OF_FIRST
        ):
            continue  # the second column of a factor that has one for each level
        whole = own == word + _OF_FIRST
        firsts.append(len(names))
        tail.append(level_columns(codes, len(levels), whole=whole))
        names += (
            [f"{name}[{level}]" for level in levels]
            if whole
            else [f"{name}[T.{level}]" for level in levels[1:]]
        )
    return LazyColumns(
        np.ascontiguousarray(X[:, kept]), tuple(tail), tuple(firsts)
    ), tuple(names)


def level_columns(codes: np.ndarray, levels: int, *, whole: bool) -> GroupColumns:
    """Indicators of the levels, of all but the first unless `whole`.

    >>> level_columns(np.array([0, 1, 2]), 3, whole=False).times(np.array([[[5.0]], [[7.0]]]))[:, 0]
    array([0., 5., 7.])
    """
    if whole:
        return GroupColumns(codes.astype(np.intp), np.ones((len(codes), 1)), levels)
    first = codes == 0
    return GroupColumns(
        np.where(first, 0, codes - 1).astype(np.intp),
        np.where(first, 0.0, 1.0)[:, None],
        levels - 1,
    )
