"""Predictions over one to three variables: along the first, in colours of the second, in panels of the third."""

from collections.abc import Mapping, Sequence
from itertools import product
from math import prod
from typing import TYPE_CHECKING, Any

import numpy as np

from probreg.arguments.keywords import list_names
from probreg.data.rows import full_weights
from probreg.errors import DataError
from probreg.fits.fit import Fit
from probreg.show.plot.fitted import (
    axis_name,
    count_trials,
    data_word,
    draw_curve,
    draw_points,
)
from probreg.show.plot.observations import bin_means, count_censored
from probreg.show.plot.reference_grid import (
    FEW,
    ReferenceGrid,
    format_value,
    groups_along,
)
from probreg.show.plot.style import (
    GREY,
    Size,
    axes_size,
    footnote,
    label,
    mark,
    panels,
    shorten,
    top_legend,
)

if TYPE_CHECKING:
    from matplotlib.figure import Figure

Array = np.ndarray


def draw_predictions(
    fit: Fit,
    condition: str | Sequence[str] | Mapping[str, Any],
    prob: float,
    what: str,
    data: Any,
    figsize: Size | None,
) -> "Figure":
    """Draw the predictions at every combination of the values of the variables in `condition`; see `effects`."""
    grid = ReferenceGrid.of(fit, data)
    values = _choose_values(grid, condition)
    rows, offset = grid.rows(dict(zip(values, zip(*product(*values.values())))))
    prediction = fit.predict(
        rows, prob, what=what, offset=offset, groups=groups_along(fit)
    )
    first, *others = values
    is_curve = first in grid.numbers and len(values[first]) > FEW
    names = [
        [f"{shorten(name, 24)} = {format_value(v)}" for v in values[name]]
        for name in others
    ]
    classes = "level" in prediction.dims
    if classes:
        names.append([shorten(level, 24) for level in prediction["level"].values])
    # a series for each name of the first list, a panel for each combination of the others
    shape = [len(series) for series in names]
    titles = [", ".join(parts) for parts in product(*names[1:])]
    _require_few(prod(shape[:1]), 6, "colours")
    _require_few(len(titles), 12, "panels")
    fig, axes = panels(
        len(titles), 3, width=7.2, height=2.9, figsize=figsize, sharex=True, sharey=True
    )
    curves = [
        prediction[f"{what}{end}"].values.reshape(-1, *shape)
        for end in ("", "_lower", "_upper")
    ]
    at = [grid.nearest(name, v) for name, v in values.items()]
    x = np.arange(len(values[first]), dtype=float)
    x_observed = at[0].astype(float)
    if is_curve:
        x = np.asarray(values[first], dtype=float)
        x_observed = np.asarray(grid.table[first], dtype=float)
    for i, place in enumerate(np.ndindex(*shape)):
        series, panel = divmod(i, len(titles))
        ax = axes[panel]
        look = mark(series) | {"markersize": 4.5}
        name = names[0][series] if names else None
        mean, lower, upper = (curve[:, *place] for curve in curves)
        shift = 0.0
        if is_curve:
            draw_curve(ax, x, mean, lower, upper, look, label=name)
        else:
            shift = 0.6 * ((series + 0.5) / prod(shape[:1]) - 0.5)
            ax.vlines(x + shift, lower, upper, color=look["color"], linewidth=1.8)
            ax.plot(x + shift, mean, label=name, **look | {"linestyle": ""})
        here = np.all([k == j for k, j in zip(at[1:], place)], axis=0) & (at[0] >= 0)
        if what == "mean" and here.any():
            settings = look if names else look | {"color": GREY}
            column = place[-1] if classes else None
            _draw_observed(
                ax, fit, x_observed + shift, here, settings, column, in_bins=is_curve
            )
    for i, (ax, title) in enumerate(zip(axes, titles)):
        label(
            ax,
            x=shorten(first) if i + 3 >= len(titles) else None,
            y=None if i % 3 else shorten(axis_name(fit, what)),
            title=title or None,
        )
        if not is_curve:
            _label_levels(ax, values[first])
    if names:
        top_legend(fig, axes[0])
    notes = [f"{100 * prob:g} % intervals", grid.describe([*values], _group_names(fit))]
    if what == "mean":
        notes.append(_describe_data(fit, grid, values, classes))
        notes.append(count_censored(fit, "are not drawn"))
    footnote(fig, *notes)
    return fig


def _choose_values(
    grid: ReferenceGrid, condition: str | Sequence[str] | Mapping[str, Any]
) -> dict[str, Sequence[Any]]:
    """Return the values of each variable in `condition`: the given ones, or those of the grid."""
    names = list_names(condition)
    if not 1 <= len(names) <= 3 or len(set(names)) < len(names):
        raise DataError(
            f"condition= needs one to three different variables, got {names}"
        )
    values: dict[str, Sequence[Any]] = {
        name: grid.values(name, curve=name == names[0]) for name in names
    }
    if isinstance(condition, Mapping):
        for name, chosen in condition.items():
            if chosen is not None:
                values[name] = np.atleast_1d(chosen).tolist()
    return values


def _require_few(count: int, limit: int, name: str) -> None:
    """Raise DataError for more series or panels than a reader can tell apart."""
    if count > limit:
        raise DataError(
            f"condition= needs {count} {name}; at most {limit} are drawn. Choose values, such as condition={{'x': None, 'g': ['a', 'b']}}"
        )


def _draw_observed(
    ax: Any,
    fit: Fit,
    x: Array,
    rows: Array,
    look: Mapping[str, Any],
    k: int | None,
    *,
    in_bins: bool,
) -> None:
    """Draw the responses of these rows at x (n,), or the observed shares of class k in bins along x or at each value of x."""
    if k is None:
        if not in_bins:
            x = x + np.random.default_rng(0).uniform(-0.05, 0.05, len(x))
        draw_points(ax, fit, x, rows, edgecolors=look["color"], alpha=0.4, zorder=1.5)
        return
    y = fit.model.likelihood.response(fit.model.design.observed)[rows, k]
    w = full_weights(count_trials(fit), len(x))[rows]
    if in_bins:
        shares = bin_means(x[rows], np.nan_to_num(y), w, 8)
    else:
        value, level = np.unique(x[rows], return_inverse=True)
        counts = np.bincount(level, w * np.nan_to_num(y))
        shares = value, counts / np.bincount(level, w)
    ax.plot(*shares, **{**look, "marker": "x", "linestyle": ""})


def _label_levels(ax: Any, values: Sequence[Any]) -> None:
    """Write the values under the axis, cut to their width."""
    limit = max(int(axes_size(ax)[0] * 13 / len(values)), 4)
    names = [shorten(format_value(v), limit) for v in values]
    ax.set_xticks(np.arange(len(values)), names)
    ax.set_xlim(-0.6, len(values) - 0.4)


def _group_names(fit: Fit) -> list[str]:
    terms = fit.model.design.recipe.grouped.values()
    return list(dict.fromkeys(term.group for term in terms))


def _describe_data(
    fit: Fit, grid: ReferenceGrid, values: Mapping[str, Any], classes: bool
) -> str:
    """Describe the marks of the observed rows."""
    words = "Crosses: observed shares" if classes else f"Points: {data_word(fit)}"
    numbers = [k for k in values if k in grid.numbers and len(values[k]) <= FEW]
    if numbers:
        words += f", at the nearest value of {', '.join(numbers)}"
    return words
