"""Rows along which one variable varies and the others are fixed, for curves. Numbers only.

The variables behind the columns of a formula come from `probreg.data.formula.variables`.
"""

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

import numpy as np

from probreg.data import Design
from probreg.data.formula.layout import plain_level
from probreg.data.formula.variables import categories, variables
from probreg.data.rows import full_weights
from probreg.errors import DataError
from probreg.fits.fit import Fit
from probreg.model.group_effects import Groups, rows_of_groups, with_group_columns

Array = np.ndarray
Variables = Mapping[str, Any]
_POINTS = 61


@dataclass(frozen=True, eq=False)
class Sweep:
    """Values `x` (g,) of the variable, the rows for `predict`, the values of the others (`held`), and the `observed` values (n,).

    `met` (n,) marks the rows with the same value as the curve of every variable in `levels`, those that are not at a mean.
    """

    variable: str
    x: Array
    rows: dict[str, Array]
    offset: Array | None
    held: dict[str, str]
    observed: Array
    levels: tuple[str, ...]
    met: Array


def sweep(
    fit: Fit, variable: str | None, data: Any, span: tuple[float, float] | None
) -> Sweep:
    """Return rows along `variable`, by default the numeric one with the largest Wald statistic from its lower to its upper tenth.

    Other numeric variables are at their mean; variables with two values and categories, including C(x), at their most frequent
    value. DataError without a numeric variable, and if the variables cannot be read back and `data` is None.
    """
    design = fit.model.design
    groups = design.recipe.of_groups_alone
    table = {
        name: values
        for name, values in variables(design, data).items()
        if name not in groups
    }
    by_level = categories(design)
    means = {
        name
        for name, values in table.items()
        if name not in by_level and _has_mean(values)
    }
    base = {
        name: _typical_value(values, design.weights, mean=name in means)
        for name, values in table.items()
    }
    moving = {
        name
        for name, values in table.items()
        if _is_number(values) and len(np.unique(values)) > 1
    }
    numeric = [name for name in table if name in moving and name not in by_level]
    if not numeric:
        raise DataError(
            "no numeric variable varies in these data, so there is no curve to draw"
        )
    if variable is None:
        many = [name for name in numeric if len(np.unique(table[name])) > 2] or numeric
        variable = max(many, key=lambda name: _wald_of_range(fit, table, base, name))
    if variable not in numeric:
        raise DataError(
            f"{variable!r} is not a numeric variable of this model; those are: {', '.join(numeric)}"
        )
    observed = np.asarray(table[variable], dtype=float)
    low, high = span or (float(observed.min()), float(observed.max()))
    x = np.linspace(low, high, _POINTS)
    held = {
        name: _format_value(value) for name, value in base.items() if name != variable
    }
    levels = tuple(name for name in held if name not in means)
    at_base = np.ones(len(observed), dtype=bool)
    for name in levels:
        at_base &= np.asarray(table[name]) == base[name]
    return Sweep(
        variable,
        x,
        _sweep_rows(base, variable, x),
        _mean_offset(design, len(x)),
        held,
        observed,
        levels,
        at_base,
    )


def groups_along(fit: Fit) -> Groups | None:
    """Return the groups of a curve: the typical one, with effects of zero."""
    if fit.model.design.recipe.grouped:
        return "typical"
    return None


def _is_number(values: Any) -> bool:
    return isinstance(values, np.ndarray) and values.dtype.kind in "iuf"


def _has_mean(values: Any) -> bool:
    """Return whether these are numbers with more than two values."""
    return _is_number(values) and len(np.unique(values)) > 2


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


def _sweep_rows(base: Variables, variable: str, x: Array) -> dict[str, Array]:
    def column(value: Any) -> Array:
        return np.array(
            [value] * len(x), dtype=object if isinstance(value, str) else None
        )

    return {
        name: x if name == variable else column(value) for name, value in base.items()
    }


def _mean_offset(design: Design, n: int) -> Array | None:
    if design.offset is None:
        return None
    return np.tile(design.offset.mean(0), (n, 1))


def _wald_of_range(fit: Fit, table: Variables, base: Variables, name: str) -> float:
    """Return the Wald statistic of the change in eta from the lower to the upper tenth of the variable."""
    low, high = np.quantile(np.asarray(table[name], dtype=float), [0.1, 0.9])
    if low == high:
        low = float(np.min(table[name]))
        high = float(np.max(table[name]))
    design = fit.model.design
    rows = _sweep_rows(base, name, np.array([low, high]))
    two_rows = design.at(
        with_group_columns(design.recipe, rows), offset=_mean_offset(design, 2)
    )
    if design.recipe.grouped:
        two_rows = rows_of_groups(two_rows, "typical")
    step = two_rows.X[1] - two_rows.X[0]
    change = step @ fit.solution.beta
    V = fit.solution.scale.of_rows(step[None])[0]
    if np.isfinite(change).all() and np.isfinite(V).all():
        return float(change @ np.linalg.pinv(V) @ change)
    return 0.0
