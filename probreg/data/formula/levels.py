"""Categories: which levels a factor has, in which order, and which rows hold one that is not known."""

from typing import Any

import numpy as np

from probreg.data.formula.columns import Table, kind_of
from probreg.data.rows import labels
from probreg.errors import DataError

Level = str | int | float | bool
MANY_LEVELS = 20  # text that differs in every one of more rows than this names the rows, or was meant as numbers


def factor_levels(column: Any) -> list[Level]:
    """The levels that occur, in declared order if the column declares one, else sorted."""
    import pandas as pd

    try:
        present = {plain_level(value) for value in pd.unique(pd.Series(column).dropna())}
    except TypeError:
        raise DataError(f"levels are texts, numbers or truth values, met {type(column[0]).__name__}") from None
    declared = [plain_level(value) for value in column.categories] if isinstance(column, pd.Categorical) else None
    try:
        return sorted(present) if declared is None else [level for level in declared if level in present]
    except TypeError:
        raise DataError(f"levels of different kinds cannot be ordered: {sorted(map(repr, present))[:5]}") from None


def plain_level(value: Any) -> Any:
    """A level as Python's own value; a whole number is an int, however the table stored it."""
    value = value.item() if isinstance(value, np.generic) else value
    return int(value) if isinstance(value, float) and value.is_integer() else value


def training_levels(text: str, column: Any, wanted: Any, table: Table, *, coded: bool) -> list[Level]:
    """The levels of a factor in the training rows; DataError for fewer than two, or one for every row."""
    if not isinstance(wanted, list | tuple | None):
        raise DataError(f"levels={wanted!r} of {text!r} is a list of levels, such as ['a', 'b']")
    levels = factor_levels(column) if wanted is None else [plain_level(level) for level in wanted]
    if odd := [level for level in levels if not isinstance(level, Level)]:
        raise DataError(
            f"the levels of {text!r} are {type(odd[0]).__name__} values, such as {odd[0]!r}; make them text or numbers"
        )
    if len(levels) < 2:
        raise DataError(
            f"{text!r} has the single level {', '.join(map(repr, levels))} in these rows, so it tells none "
            "apart; leave it out"
        )
    if not coded and kind_of(column) == "text" and len(levels) == len(table.rows) > MANY_LEVELS:
        raise DataError(
            f"column {text!r} is text with a different value in each of its {len(levels)} rows "
            f"({', '.join(map(repr, levels[:3]))} ...), one column of X for each; "
            "did you mean numbers? Convert it first"
        )
    return levels


def encode_factor(text: str, column: Any, levels: list[Level], table: Table) -> Any:
    """The rows of a factor as a categorical Series; DataError names unknown levels, and where."""
    import pandas as pd

    codes, uniques = pd.factorize(pd.Series(column), use_na_sentinel=True)
    place = {level: i for i, level in enumerate(levels)}
    positions = np.array([place.get(plain_level(value), -1) for value in uniques], dtype=np.intp)[codes]
    if len(bad := np.flatnonzero(positions < 0)):
        unseen = list(dict.fromkeys(plain_level(column[i]) for i in bad))
        raise DataError(
            f"{text!r} has the level{'s' * (len(unseen) > 1)} {', '.join(map(repr, unseen[:5]))} in "
            f"{labels(table, bad)}, which the model does not know; it knows {', '.join(map(repr, levels))}"
        )
    return pd.Series(pd.Categorical.from_codes(positions, categories=pd.Index(levels, dtype=object)))
