"""Estimates and intervals of several fits side by side."""

from collections.abc import Mapping
from typing import TYPE_CHECKING, Any

import numpy as np

from probreg.arguments.scalars import Probability, check_arguments
from probreg.comparison.same_question import fits_by_name
from probreg.fits.fit import Fit
from probreg.fits.goodness import estimate_name
from probreg.show.plot.style import (
    GREY,
    LIGHT,
    REFERENCE,
    SMALL,
    Size,
    few_ticks,
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


@check_arguments
def coefficients(
    fits: "Fit | Mapping[str, Fit]",
    prob: Probability = 0.95,
    *,
    figsize: Size | None = None,
) -> "Figure":
    """Draw estimates with intervals of probability `prob`, of one fit or of several.

    Each coefficient has a panel with its own axis, because their units differ. A line marks zero if it is near. At most 40
    parameters are drawn; coefficients of smooth functions are left out if there are others.

    Parameters
    ----------
    fits : Fit or mapping from str to Fit
        One fit, or several by name.
    prob : float
        Probability of the intervals, between 0 and 1.
    figsize : pair of float, optional
        Width and height in inches.

    Returns
    -------
    Figure
        A matplotlib figure outside pyplot.

    Raises
    ------
    DataError
        Unless 0 < prob < 1.

    Examples
    --------
    >>> import probreg as pr
    >>> model = pr.Model.from_arrays([[2.0], [3.0], [4.0], [6.0]], [5.0, 7.0, 9.0, 13.5], columns=["dose"])
    >>> [ax.get_title(loc="left") for ax in coefficients(pr.fit(model)).axes]
    ['Intercept', 'dose', 'sigma']
    """
    most = 40  # parameters in one picture
    several = fits_by_name(fits, "plot.coefficients")
    tables = [_estimates_by_name(fit, prob) for fit in several.values()]
    all_names = list(dict.fromkeys(name for table in tables for name in table))
    # coefficients of smooth functions and processes have no meaning one by one
    smooth = {name for fit in several.values() for name in _smooth_coefficients(fit)}
    parameters = [name for name in all_names if name not in smooth] or all_names
    shown = parameters[:most]
    names = [f"{name} ({estimate_name(fit)})" for name, fit in several.items()]
    cols = 1 + (len(shown) > 4) + (len(shown) > 16)
    width = 7.2 + 1.2 * (cols == 3)
    height = 0.46 + 0.2 * len(tables)
    fig, axes = panels(len(shown), cols, width=width, height=height, figsize=figsize)
    for ax, parameter in zip(axes, shown):
        _draw_parameter(ax, parameter, [table.get(parameter) for table in tables])
        if cols == 1 and len(tables) > 1:
            ax.set_yticklabels([shorten(name, 34) for name in names])
    if cols > 1 and len(tables) > 1:
        for k, name in enumerate(names):
            axes[0].plot([], [], label=shorten(name), **mark(k) | {"linestyle": "-"})
        top_legend(fig, axes[0])
    notes = [f"{100 * prob:g} % intervals, each in the units of its coefficient"]
    if len(tables) == 1:
        notes[0] = f"{names[0]}, {notes[0]}"
    if len(parameters) > most:
        notes.append(f"{most} of {len(parameters)} parameters")
    if len(parameters) < len(all_names):
        notes.append("plot.smooth draws the smooth functions")
    footnote(fig, *notes, between="; ")
    return fig


def _smooth_coefficients(fit: Fit) -> Array:
    """Return the names of the coefficients of smooth functions and processes."""
    smooth = fit.model.design.of_terms[fit.model.design.ungrouped]
    names = np.array(fit.parameter_names, dtype=object)
    return names[np.repeat(smooth, len(names) // max(len(smooth), 1))]


def _estimates_by_name(fit: Fit, prob: float) -> dict[str, Array]:
    """Return estimate, lower and upper end of each parameter by name."""
    table = fit.summary(prob)
    values = table[[table.columns[0], "lower", "upper"]].to_numpy(dtype=float)
    estimates = {}
    for key, row in zip(table.index, values):
        parts = reversed(key) if isinstance(key, tuple) else (key,)
        estimates[": ".join(str(part) for part in parts if part)] = row
    return estimates


def _draw_parameter(ax: Any, name: str, rows: list[Array | None]) -> None:
    """Draw the intervals of one parameter, one line for each fit; an infinite end is an arrow."""
    few_ticks(ax)
    _set_limits(ax, rows)
    label(ax, title=name)
    ax.spines["left"].set_visible(False)
    ax.tick_params(axis="y", length=0)
    for i, row in enumerate(rows):
        look = mark(i) | {"linestyle": ""}
        across = {"transform": ax.get_yaxis_transform()}
        ax.axhline(i, color=LIGHT, linewidth=0.5, zorder=0)
        if row is None or not np.isfinite(row[0]):
            text = "not in this model" if row is None else "no estimate exists"
            where = {"va": "center", "ha": "center", **across}
            ax.text(0.5, i, text, fontsize=SMALL, color=GREY, **where)
            continue
        ends = np.clip(row[1:], *ax.get_xlim())
        ax.plot(ends, [i, i], color=look["color"], linewidth=1.8, solid_capstyle="butt")
        for end, x, head in zip(row[1:], (0.0, 1.0), ("<", ">")):
            if np.isinf(end):
                arrow = look | {"marker": head, "clip_on": False}
                ax.plot([x], [i], **arrow, **across)
        ax.plot([row[0]], [i], markersize=6, **look)
    ax.set_yticks(range(len(rows)), [""] * len(rows))
    ax.set_ylim(len(rows) - 0.5, -0.5)


def _set_limits(ax: Any, rows: list[Array | None]) -> None:
    """Make room for every interval; mark zero by a line if it is near."""
    margin = 0.1  # share of the width left free at each side of the longest interval
    near = 2.0  # zero is on the axis if it is within so many widths of the intervals
    ends = np.concatenate([[], *(row for row in rows if row is not None)])
    ends = ends[np.isfinite(ends)]
    if not len(ends):
        ax.set_xticks([])
        return
    low = ends.min()
    high = ends.max()
    width = (high - low) or abs(high) or 1.0
    if low - near * width <= 0 <= high + near * width:
        low = min(low, 0.0)
        high = max(high, 0.0)
        ax.axvline(0.0, **REFERENCE)
    pad = margin * ((high - low) or abs(high) or 1.0)
    ax.set_xlim(low - pad, high + pad)
