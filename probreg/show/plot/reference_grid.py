"""Rows for `predict` in which some variables vary and the others are at typical values."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from probreg.data.formula.layout import plain_level
from probreg.data.formula.transforms import weighted_quantiles
from probreg.data.formula.variables import categories, variables
from probreg.data.rows import full_weights
from probreg.errors import DataError
from probreg.fits.fit import Fit
from probreg.model.group_effects import Groups
from probreg.show.plot.style import shorten

Array = np.ndarray

N_POINTS = 61  # of a curve
FEW = 5  # values of a variable, which are drawn one by one


@dataclass(frozen=True, eq=False)
class ReferenceGrid:
    """The variables of a fit (`table`, each (n,)) with one typical value of each.

    Numbers with more than two values are at their mean (`means`); variables with two values and categories, including C(x), are
    at their most frequent value. `numbers` are the numeric variables with several values.
    """

    fit: Fit
    table: Mapping[str, Any]
    typical: Mapping[str, Any]
    means: set[str]
    numbers: list[str]

    @classmethod
    def of(cls, fit: Fit, data: Any) -> "ReferenceGrid":
        """Return the grid; DataError if the variables cannot be read back and `data` is None."""
        design = fit.model.design
        groups = design.recipe.of_groups_alone
        table = {k: v for k, v in variables(design, data).items() if k not in groups}
        by_level = categories(design)
        sizes = {
            name: len(np.unique(v))
            for name, v in table.items()
            if isinstance(v, np.ndarray) and v.dtype.kind in "iuf"
        }
        means = {name for name, k in sizes.items() if k > 2 and name not in by_level}
        typical = {
            name: _typical_value(values, design.weights, mean=name in means)
            for name, values in table.items()
        }
        numbers = [name for name, k in sizes.items() if k > 1 and name not in by_level]
        return cls(fit, table, typical, means, numbers)

    def rows(
        self, values: Mapping[str, Sequence[Any] | Array]
    ) -> tuple[dict[str, Array], Array | None]:
        """Return a table with these values (m,), the other variables at typical values, and the offset (m, 1) at its mean.

        The offset is None if one of its variables varies, because it is computed from the table then.
        """
        m = len(next(iter(values.values())))
        columns = {k: [v] * m for k, v in self.typical.items()} | dict(values)
        rows = {
            k: np.array(v, dtype=object if isinstance(v[0], str) else None)
            for k, v in columns.items()
        }
        offset = self.fit.model.design.offset
        if offset is None or not self._offset_variables.isdisjoint(values):
            return rows, None
        return rows, np.tile(offset.mean(0), (m, 1))

    @property
    def _offset_variables(self) -> set[str]:
        return set(getattr(self.fit.model.design.recipe, "offset_variables", ()))

    def values(self, name: str, *, curve: bool) -> list[Any]:
        """Return the levels of a category or the values of a number; of many, N_POINTS for a `curve` and otherwise the quartiles."""
        if name not in self.table:
            raise DataError(
                f"condition: {name!r} is not a variable of this model; those are: {', '.join(self.table)}"
            )
        levels = categories(self.fit.model.design).get(name)
        if levels is None:
            levels = np.unique(np.asarray(self.table[name])).tolist()
        if name not in self.numbers or len(levels) <= FEW:
            return levels
        x = np.asarray(self.table[name], dtype=float)
        if curve:
            return np.linspace(x.min(), x.max(), N_POINTS).tolist()
        w = full_weights(self.fit.model.design.weights, len(x))
        return weighted_quantiles(x, w, np.array([0.25, 0.5, 0.75])).tolist()

    def nearest(self, name: str, values: Sequence[Any]) -> Array:
        """Return the place (n,) in `values` of each row's value: the nearest number, or the same level, -1 if it is not among them."""
        if name in self.numbers:
            x = np.asarray(self.table[name], dtype=float)[:, None]
            return np.abs(x - np.asarray(values, dtype=float)).argmin(1)
        place = {plain_level(value): i for i, value in enumerate(values)}
        observed = map(plain_level, np.asarray(self.table[name]))
        return np.array([place.get(value, -1) for value in observed])

    def describe(self, varying: Sequence[str], groups: Sequence[str]) -> str:
        """Describe the values of the variables that do not vary."""
        design: Any = self.fit.model.design
        omitted = set(varying)
        fixed_offset = self._offset_variables.isdisjoint(varying)
        if fixed_offset and self._offset_variables:
            omitted |= self._offset_variables - set(design.recipe.variables)
        values = [
            f"{shorten(k, 24)} = {shorten(format_value(v), 24)}"
            for k, v in self.typical.items()
            if k not in omitted
        ]
        if len(values) > FEW:
            values = [f"{len(values)} others at their mean or most frequent value"]
        if groups:
            values.append(f"effects of {', '.join(groups)} at zero")
        if fixed_offset and design.offset is not None:
            values.append("offset at its mean")
        return f"Fixed: {', '.join(values)}" if values else ""


def groups_along(fit: Fit) -> Groups | None:
    """Return the groups of a curve: the typical one, with effects of zero."""
    if fit.model.design.recipe.grouped:
        return "typical"
    return None


def _typical_value(values: Any, weights: Array | None, *, mean: bool) -> Any:
    """Return the mean of a number, or the most frequent value."""
    if mean:
        return float(np.average(values, weights=weights))
    plain = np.asarray(values)
    # dates stay dates, which tolist turns into integers
    seen = list(dict.fromkeys(plain if plain.dtype.kind in "mM" else plain.tolist()))
    w = full_weights(weights, len(plain))
    return max(seen, key=lambda v: w[plain == v].sum())


def format_value(value: Any) -> str:
    """Format a value of a variable: a number to four digits."""
    if isinstance(value, float):
        return f"{value:.4g}"
    return str(plain_level(value))
