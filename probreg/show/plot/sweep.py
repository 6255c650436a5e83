"""Rows along which one variable varies and the others are fixed, for curves. Numbers only.

The variables behind the columns of a formula come from `probreg.data.formula.variables`.
"""

from dataclasses import dataclass
from typing import Any

import numpy as np

from probreg.data.formula.layout import plain_level
from probreg.data.formula.variables import categories, variables
from probreg.data.rows import full_weights
from probreg.errors import DataError
from probreg.fits.fit import Fit
from probreg.model.group_effects import Groups

Array = np.ndarray


@dataclass(frozen=True, eq=False)
class Sweep:
    """Values `x` (g,) of the variable, the rows for `predict`, the values of the others (`fixed`), and the `observed` values (n,).

    `met` (n,) marks the rows with the same value as the curve of every variable in `levels`, those that are not at a mean.
    """

    variable: str
    x: Array
    rows: dict[str, Array]
    offset: Array | None
    fixed: dict[str, str]
    observed: Array
    levels: tuple[str, ...]
    met: Array


def sweep(
    fit: Fit, variable: str | None, data: Any, span: tuple[float, float] | None
) -> Sweep:
    """Return rows along `variable`, by default the first numeric one with more than two values.

    Other numeric variables are at their mean; variables with two values and categories, including C(x), at their most frequent
    value. DataError without a numeric variable, and if the variables cannot be read back and `data` is None.
    """
    n_points = 61
    design = fit.model.design
    groups = design.recipe.of_groups_alone
    table = {
        name: values
        for name, values in variables(design, data).items()
        if name not in groups
    }
    by_level = categories(design)
    sizes = {
        name: len(np.unique(v))
        for name, v in table.items()
        if isinstance(v, np.ndarray) and v.dtype.kind in "iuf"
    }
    means = {name for name, k in sizes.items() if k > 2 and name not in by_level}
    base = {
        name: _typical_value(values, design.weights, mean=name in means)
        for name, values in table.items()
    }
    numeric = [name for name, k in sizes.items() if k > 1 and name not in by_level]
    if not numeric:
        raise DataError(
            "no numeric variable varies in these data, so there is no curve to draw"
        )
    if variable is None:
        variable = next((name for name in numeric if name in means), numeric[0])
    if variable not in numeric:
        raise DataError(
            f"{variable!r} is not a numeric variable of this model; those are: {', '.join(numeric)}"
        )
    observed = np.asarray(table[variable], dtype=float)
    low, high = span or (float(observed.min()), float(observed.max()))
    x = np.linspace(low, high, n_points)
    fixed = {k: _format_value(value) for k, value in base.items() if k != variable}
    levels = tuple(name for name in fixed if name not in means)
    at_base = np.ones(len(observed), dtype=bool)
    for name in levels:
        at_base &= np.asarray(table[name]) == base[name]
    rows = {
        name: np.array([v] * n_points, dtype=object if isinstance(v, str) else None)
        for name, v in base.items()
    }
    rows[variable] = x
    offset = None
    if design.offset is not None:
        offset = np.tile(design.offset.mean(0), (n_points, 1))
    return Sweep(variable, x, rows, offset, fixed, observed, levels, at_base)


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


def _format_value(value: Any) -> str:
    if isinstance(value, float):
        return f"{value:.4g}"
    return str(plain_level(value))
