"""Bars of a formula at the rows of a table: the group of each row, and the values that multiply its effects."""

from typing import Any

import numpy as np

from probreg.data.formula.columns import DataTable, kind_of
from probreg.data.formula.evaluate import Memory
from probreg.data.formula.layout import factor_levels, lay_out, plain_level
from probreg.data.terms.grouped import GroupedTerm, joined_levels
from probreg.errors import DataError
from probreg.formula.terms import Bar

Array = np.ndarray


def read_bar(bar: Bar, table: DataTable, memory: Memory) -> Array:
    """Return the inputs of the term (n, 1 + K), which learns its groups from the rows unless `memory` has them."""
    Z, effects, _ = lay_out(bar.effects, table, memory)
    labels = group_labels(bar.group, table)
    if bar.key not in memory.terms:
        # groups of more rows than these may already be known
        levels = memory.groups.get(bar.group) or levels_of_groups(bar.group, table)
        refuse_single(bar.key, levels)
        memory.terms[bar.key] = GroupedTerm(
            bar.key, bar.by, effects, levels, bar.correlated, bar.group
        )
    term: Any = memory.terms[bar.key]
    return term.inputs_of(labels, Z)


def group_labels(group: tuple[str, ...], table: DataTable) -> Array:
    """Return the group (n,) of each row as text; combinations of several columns are joined by colons."""
    codes, combinations = _combinations(group, table)
    return np.array([joined_levels(parts) for parts in combinations], dtype=object)[
        codes
    ]


def levels_of_groups(group: tuple[str, ...], table: DataTable) -> tuple[str, ...]:
    """Return the groups that occur, in the order of the levels of each column. DataError for a column of measurements."""
    for name in group:
        _refuse_measurements(name, table)
    levels = [tuple(factor_levels(table.columns[name])) for name in group]
    return in_order(
        observed_combinations(group, table),
        [tuple(str(v) for v in column_levels) for column_levels in levels],
    )


def in_order(
    combinations: set[tuple[str, ...]], levels: list[tuple[str, ...]]
) -> tuple[str, ...]:
    """Return combinations of levels as groups, in the order of the levels of each column."""
    ranks = [
        {level: i for i, level in enumerate(column_levels)} for column_levels in levels
    ]
    ordered = sorted(
        combinations, key=lambda parts: [rank[part] for rank, part in zip(ranks, parts)]
    )
    return tuple(map(joined_levels, ordered))


def observed_combinations(
    group: tuple[str, ...], table: DataTable
) -> set[tuple[str, ...]]:
    """Return the combinations of levels in these rows."""
    return set(_combinations(group, table)[1])


def refuse_single(key: str, levels: tuple[str, ...]) -> None:
    """Raise DataError for fewer than two groups."""
    if len(levels) < 2:
        raise DataError(
            f"{key} has the single group {', '.join(map(repr, levels))} in these rows; effects vary over two groups or more"
        )


def _combinations(
    group: tuple[str, ...], table: DataTable
) -> tuple[Array, list[tuple[str, ...]]]:
    """Return the number (n,) of each row's combination, and the combinations that occur."""
    codes, texts = zip(*(level_codes(name, table) for name in group))
    if len(group) == 1:
        return codes[0], [(text,) for text in texts[0]]
    combinations, number = np.unique(
        np.column_stack(codes), axis=0, return_inverse=True
    )
    return number.reshape(-1), [
        tuple(labels[i] for labels, i in zip(texts, row))
        for row in combinations.tolist()
    ]


def level_codes(name: str, table: DataTable) -> tuple[Array, list[str]]:
    """Return the number (n,) of the level of each row of a column, and the levels as text. DataError for columns that cannot be groups."""
    import pandas as pd

    column: Any = table.columns[name]
    if kind_of(column) == "other":
        raise DataError(
            f"column {name!r} holds {type(column[0]).__name__} values and stands for groups; make them text or numbers"
        )
    codes, values = pd.factorize(column)
    texts = [str(plain_level(value)) for value in values]
    if len(set(texts)) < len(texts):
        twice = next(text for text in texts if texts.count(text) > 1)
        raise DataError(
            f"column {name!r} has different levels that all read {twice!r}; rename them"
        )
    return np.asarray(codes), texts


def _refuse_measurements(name: str, table: DataTable) -> None:
    """Raise DataError for numbers with decimals that differ in every row."""
    column: Any = table.columns[name]
    if (
        kind_of(column) != "number"
        or column.dtype.kind != "f"
        or (column == np.floor(column)).all()
    ):
        return
    if len(np.unique(column)) == len(column):
        raise different_in_every_row(name, column[0], table.rows[0], len(column))


def different_in_every_row(name: str, value: float, row: Any, n: int) -> DataError:
    """Return the error for a grouping column of decimals that differ in every row."""
    return DataError(
        f"column {name!r} holds a different number in each of its {n} rows, such as {value:g} in row {row}; groups are what "
        "several rows share"
    )
