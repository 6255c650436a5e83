"""Rows along which one variable moves while the others stay where they are: what a curve is drawn on. Numbers only.

A model made by a formula knows the columns of its matrix, not the variables behind them. Those that stand in the
formula as they are can be read back; for the others the table must be given again.
"""

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

import numpy as np

from probreg.design import Design, PlainColumns
from probreg.errors import DataError
from probreg.fit import Fit

Array = np.ndarray
Variables = Mapping[str, Any]
_POINTS = 61


@dataclass(frozen=True, eq=False)
class Sweep:
    """`x` (g,) of the moving variable, the rows for `predict`, and the values `observed` (n,) of that variable."""

    variable: str
    x: Array
    rows: dict[str, Array]
    offset: Array | None
    held: str
    observed: Array


def sweep(fit: Fit, variable: str | None, data: Any, span: tuple[float, float] | None) -> Sweep:
    """Rows along `variable`: by default the numeric one whose move from low to high is clearest in this fit.

    Numeric variables that do not move stay at their mean, two-valued ones and categories at their most frequent value.
    DataError when there is no numeric variable, or when the variables cannot be read back and `data` is None.
    """
    design = fit.model.design
    table = variables(design, data)
    base = {name: _typical(values, design.weights) for name, values in table.items()}
    numeric = [name for name, values in table.items() if _is_number(values) and len(np.unique(values)) > 1]
    if not numeric:
        raise DataError("no numeric variable moves in these data, so there is no curve to draw")
    if variable is None:
        many = [name for name in numeric if len(np.unique(table[name])) > 2] or numeric
        variable = max(many, key=lambda name: _clarity(fit, table, base, name))
    if variable not in numeric:
        raise DataError(f"{variable!r} is not a numeric variable of this model; those are: {', '.join(numeric)}")
    observed = np.asarray(table[variable], dtype=float)
    low, high = span or (float(observed.min()), float(observed.max()))
    x = np.linspace(low, high, _POINTS)
    others = [f"{name} = {_shown(value)}" for name, value in base.items() if name != variable]
    offset = _offset(design, len(x))
    if offset is not None:
        others.append("offset at its mean")
    return Sweep(variable, x, _rows(base, variable, x), offset, ", ".join(others), observed)


def variables(design: Design, data: Any = None) -> dict[str, Any]:
    """The variables behind the columns, at the rows of the design."""
    if not design.n:
        raise DataError("this fit was saved without its rows: save it with rows=True to draw its data")
    if isinstance(design.recipe, PlainColumns):
        return {name: design.X[:, design.columns.index(name)] for name in design.recipe.given}
    return _read_back(design) if data is None else _given(design, data)


def _given(design: Design, data: Any) -> dict[str, Any]:
    """The table that was given, at the rows that the design kept."""
    from probreg.design.columns import read_table

    recipe: Any = design.recipe
    table = read_table(data)
    if absent := [name for name in recipe.variables if name not in table.columns]:
        raise DataError(
            f"the data have no column {absent[0]!r}, which the model uses; they have: {', '.join(table.columns)}"
        )
    place = {row: i for i, row in enumerate(table.rows.tolist())}
    labels = table.rows if design.labels is None else design.labels
    if len(place) < len(table.rows) and len(table.rows) == design.n:
        where = np.arange(design.n)
    else:
        where = np.array([place.get(row, -1) for row in np.asarray(labels).tolist()])
    if len(where) != design.n or (where < 0).any():
        raise DataError("these data are not the rows that the model was fitted to")
    part = table.only(recipe.variables).take(where)
    return dict(part.columns)


def _read_back(design: Design) -> dict[str, Any]:
    """Numbers that are columns, and categories from their 0/1 columns; checked by making the matrix again."""
    recipe: Any = design.recipe
    table: dict[str, Any] = {}
    for name in recipe.variables:
        found = design.X[:, design.columns.index(name)] if name in design.columns else _levels(design, name)
        if found is None:
            raise DataError(
                f"the variable {name!r} cannot be read back from the columns of the model; pass data=, the table it was fitted to"
            )
        table[name] = found
    if table and not np.allclose(recipe.matrix(table), design.X, rtol=1e-9, atol=1e-12):
        raise DataError(
            "the variables cannot be read back from the columns of the model; pass data=, the table it was fitted to"
        )
    return table


def _levels(design: Design, name: str) -> Array | None:
    """A category from its indicator columns; the level without one holds where all are zero."""
    from probreg.design.grammar import parse_expression

    recipe: Any = design.recipe
    for text, levels in recipe.state["levels"].items():
        if parse_expression(text).variables != (name,):
            continue
        where = [_indicator(design, text, level) for level in levels]
        if where.count(None) > 1:
            continue
        shown = np.stack([np.zeros(design.n) if j is None else design.X[:, j] for j in where], 1)
        if None in where:
            base = where.index(None)
            shown[:, base] = 1.0 - shown.sum(1)
        values = np.empty(len(levels), dtype=object)
        values[:] = levels
        return values[shown.argmax(1)]
    return None


def _indicator(design: Design, text: str, level: Any) -> int | None:
    names = (f"{text}[T.{level}]", f"{text}[{level}]")
    return next((design.columns.index(c) for c in names if c in design.columns), None)


def _is_number(values: Any) -> bool:
    return isinstance(values, np.ndarray) and values.dtype.kind in "iuf"


def _typical(values: Any, weights: Array | None) -> Any:
    """The mean of a number with more than two values, otherwise the most frequent value."""
    if _is_number(values) and len(np.unique(values)) > 2:
        return float(np.average(values, weights=weights))
    plain = np.asarray(values)
    seen = list(dict.fromkeys(plain.tolist()))
    w = np.ones(len(plain)) if weights is None else weights
    return max(seen, key=lambda v: w[plain == v].sum())


def _shown(value: Any) -> str:
    return f"{value:.4g}" if isinstance(value, float) else str(value)


def _rows(base: Variables, variable: str, x: Array) -> dict[str, Array]:
    def column(value: Any) -> Array:
        return np.array([value] * len(x), dtype=object if isinstance(value, str) else None)

    return {name: x if name == variable else column(value) for name, value in base.items()}


def _offset(design: Design, n: int) -> Array | None:
    return None if design.offset is None else np.tile(design.offset.mean(0), (n, 1))


def _clarity(fit: Fit, table: Variables, base: Variables, name: str) -> float:
    """Wald statistic of the change in eta when the variable goes from its lower to its upper tenth."""
    low, high = np.quantile(np.asarray(table[name], dtype=float), [0.1, 0.9])
    if low == high:
        low, high = float(np.min(table[name])), float(np.max(table[name]))
    made = fit.model.design.at(_rows(base, name, np.array([low, high])), offset=_offset(fit.model.design, 2))
    step = made.X[1] - made.X[0]
    p, m = fit.model.shape
    change = step @ fit.solution.beta
    S = np.nan_to_num(fit.solution.scale).reshape(p, m, p, m)
    V = np.einsum("p,pkql,q->kl", step, S, step)
    return float(change @ np.linalg.pinv(V) @ change) if np.isfinite(change).all() else 0.0
