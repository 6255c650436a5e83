"""Collect the groups of varying effects from rows that are read in blocks, before any column is made."""

from dataclasses import dataclass, field
from typing import Any

import numpy as np

from probreg.data.formula.bars import (
    different_in_every_row,
    in_order,
    observed_combinations,
)
from probreg.data.formula.columns import DataTable, kind_of
from probreg.data.formula.layout import factor_levels, plain_level
from probreg.errors import DataError

MOST = 1_000_000  # groups of one term
Group = tuple[str, ...]


@dataclass(eq=False)
class GroupsSeen:
    """The groups that a pass finds, for each combination of grouping columns.

    `values` are the levels of a column in their original type; `declared` is their declared order if all rows so far declare the same order.
    """

    groups: tuple[Group, ...] = ()
    rows: int = 0
    met: dict[Group, dict[tuple[str, ...], None]] = field(default_factory=dict)
    values: dict[str, dict[Any, None]] = field(default_factory=dict)
    declared: dict[str, tuple[Any, ...] | None] = field(default_factory=dict)

    @property
    def columns(self) -> tuple[str, ...]:
        """The grouping columns."""
        return tuple(dict.fromkeys(name for group in self.groups for name in group))

    def add(self, table: DataTable) -> None:
        """Add the groups of some rows."""
        self.rows += len(table.rows)
        for name in self.columns:
            column = table.columns[name]
            # other columns raise an error with their combinations
            if kind_of(column) != "other":
                note_levels(
                    self.values.setdefault(name, {}), self.declared, name, column
                )
        for group in self.groups:
            combinations = self.met.setdefault(group, {})
            combinations |= dict.fromkeys(observed_combinations(group, table))
            if len(combinations) > MOST:
                raise DataError(
                    f"{':'.join(group)} has more than {MOST:,} levels, such as {', '.join(map(':'.join, list(combinations)[:3]))}; groups "
                    "are what several rows share"
                )

    def joined(self, after: "GroupsSeen") -> "GroupsSeen":
        """Combine the groups of two sets of rows."""
        combinations = {
            group: self.met.get(group, {}) | after.met.get(group, {})
            for group in self.groups
        }
        values = {
            name: self.values.get(name, {}) | after.values.get(name, {})
            for name in self.columns
        }
        all_orders = {
            name: [s.declared[name] for s in (self, after) if name in s.declared]
            for name in self.columns
        }
        declared = {
            name: orders[0] if len(set(orders)) == 1 else None
            for name, orders in all_orders.items()
        }
        return GroupsSeen(
            self.groups, self.rows + after.rows, combinations, values, declared
        )

    def levels(self, group: Group, ordered: dict[str, bool]) -> tuple[str, ...]:
        """Return the groups of all rows, in the same order as for a table in memory. `ordered` marks columns with an order."""
        return in_order(
            set(self.met[group]),
            [self._of_column(name, ordered[name]) for name in group],
        )

    def _of_column(self, name: str, ordered: bool) -> tuple[str, ...]:
        import pandas as pd

        levels: Any = np.array(list(self.values[name]), dtype=object)
        if len(levels) == self.rows and any(
            isinstance(value, float) for value in levels
        ):
            raise different_in_every_row(name, levels[0], 0, self.rows)
        if ordered and (declared := self.declared[name]) is not None:
            levels = pd.Categorical(levels, categories=list(declared))
        return tuple(str(level) for level in factor_levels(levels))


def note_levels(
    levels: dict[Any, None],
    declared: dict[str, tuple[Any, ...] | None],
    name: str,
    column: Any,
) -> None:
    """Add the levels of some rows of a column to `levels`, and keep their declared order while it is always the same."""
    import pandas as pd

    if isinstance(column, np.ndarray):
        present = pd.unique(column)
        order = None
    else:
        used = (
            np.bincount(
                column.codes[column.codes >= 0], minlength=len(column.categories)
            )
            > 0
        )
        present = np.asarray(column.categories)[used]
        order = tuple(map(plain_level, column.categories))
    levels |= dict.fromkeys(map(plain_level, present))
    before = declared.setdefault(name, order)
    declared[name] = before if before == order else None
