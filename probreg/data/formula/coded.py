"""Factors of many levels in a formula, stored as one code per row if their columns would be large.

A factor is coded if it is a term by itself, under treatment contrasts, in a formula without bars, and has many levels for its
rows.
"""

from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np

from probreg.data.formula.contrasts import LevelCoding
from probreg.data.formula.evaluate import read_coding
from probreg.data.grouped_columns import GroupColumns
from probreg.formula.terms import FormulaLayout

LEVELS = 50  # minimum number of levels for a coded factor
NUMBERS = (
    10**6
)  # minimum of rows times levels: 8 MB, and a tenth of a second for least squares with written columns


def coded_factors(
    parts: FormulaLayout, levels: Mapping[str, Sequence[Any]], n: int
) -> set[str]:
    """Return the factors of a formula that stay codes at n rows."""
    if parts.bars:
        return set()
    many = {t for t, k in levels.items() if len(k) >= LEVELS and n * len(k) >= NUMBERS}
    return {
        text
        for text in many.intersection(parts.factors)
        if [term for term in parts.terms if text in term] == [(text,)]
        and read_coding(parts.factors[text])[0] == LevelCoding()
    }


def level_columns(codes: np.ndarray, levels: int, *, full: bool) -> GroupColumns:
    """Return indicators of the levels, without the first level unless `full`.

    >>> level_columns(np.array([0, 1, 2]), 3, full=False).times(np.array([[[5.0]], [[7.0]]]))[:, 0]
    array([0., 5., 7.])
    """
    if full:
        return GroupColumns(codes.astype(np.intp), np.ones((len(codes), 1)), levels)
    first = codes == 0
    return GroupColumns(
        np.where(first, 0, codes - 1).astype(np.intp),
        np.where(first, 0.0, 1.0)[:, None],
        levels - 1,
    )
