"""Intervals of one quantity, side by side on one axis."""

import itertools
from typing import TYPE_CHECKING, Any

import numpy as np

from probreg.arguments.scalars import check_arguments
from probreg.comparison.interval_panel import IntervalPanel
from probreg.comparison.interval_panel.panel import NEW
from probreg.show.plot.style import (
    GREY,
    LIGHT,
    SMALL,
    Size,
    few_ticks,
    footnote,
    label,
    mark,
    paper,
    shorten,
)

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure

MOST = 40  # intervals in one picture


@check_arguments
def interval_panel(
    of: IntervalPanel, *, ax: "Axes | None" = None, figsize: Size | None = None
) -> "Figure":
    """Every interval of a panel under one another, fits told apart by marker and colour; an end without bound is an arrow.

    A grey line marks the estimate of the first fit. The interval of a new observation is dashed. At most 40 are drawn.

    Parameters
    ----------
    of : IntervalPanel
        What `pr.interval_panel` returned.
    ax : Axes, optional
        Where to draw; by default on a new figure.
    figsize : pair of float, optional
        Width and height in inches.

    Returns
    -------
    Figure
        A matplotlib figure outside pyplot, or that of `ax`.

    Examples
    --------
    >>> import probreg as pr
    >>> from probreg.comparison.interval_panel import interval_panel as intervals
    >>> fit = pr.ols([[0.0], [1.0], [2.0], [4.0]], [1.0, 3.0, 6.0, 8.0], columns=["dose"])
    >>> [t.get_text() for t in interval_panel(intervals(fit, "dose", kinds=["t", "wald"])).axes[0].get_yticklabels()]
    ['t', 'wald']
    """
    held = of.held.iloc[:MOST]
    fits = list(dict.fromkeys(held.index.get_level_values("fit")))
    fig, axes = paper(
        size=(7.2, 1.1 + 0.27 * max(len(held), 1) + 0.12 * len(fits)),
        figsize=figsize,
        ax=ax,
    )
    one = axes[0, 0]
    places = _line_positions(list(held.index.get_level_values("fit")))
    # What is shown: all finite ends and estimates, and room.
    values = held[["estimate", "lower", "upper"]].to_numpy(dtype=float)
    values = values[np.isfinite(values)]
    if len(values):
        least = values.min()
        most = values.max()
    else:
        least, most = (0.0, 1.0)
    room = 0.06 * ((most - least) or abs(most) or 1.0)
    low = least - room
    high = most + room
    for y, ((fit, kind), row) in zip(places, held.iterrows()):
        _draw_interval(one, y, row, fits.index(fit), (low, high), dashed=kind == NEW)
    if len(held):
        one.axvline(held["estimate"].iloc[0], color=LIGHT, linewidth=0.9, zorder=0)
    one.set_yticks(places, [shorten(str(kind), 30) for _, kind in held.index])
    one.tick_params(axis="y", length=0)
    one.spines["left"].set_visible(False)
    one.set_ylim((places[-1] if places else 0) + 0.7, -0.9)
    one.set_xlim(low, high)
    _draw_fit_names(one, fits, list(held.index.get_level_values("fit")), places)
    few_ticks(one)
    label(
        one,
        x=shorten(of.unit, 80),
        title=f"{100 * of.prob:g} % intervals of {shorten(of.quantity, 44)}",
    )
    if len(of.held) > MOST:
        left_out = f"; {len(of.held) - MOST} more are not drawn"
    else:
        left_out = ""
    if np.isfinite(held[["lower", "upper"]].to_numpy()).all():
        arrows = ""
    else:
        arrows = "; arrow: no end on that side"
    if fits:
        said = f"line: the estimate of {shorten(fits[0], 30)}{arrows}{left_out}"
    else:
        said = "no fit has an interval"
    footnote(fig, said, ax)
    return fig


def _line_positions(fits: list[str]) -> list[float]:
    """One line each, with a gap between fits."""
    places = [0.0]
    for one, two in itertools.pairwise(fits):
        places.append(places[-1] + (1.0 if one == two else 1.6))
    return places if fits else []


def _draw_interval(
    ax: Any, y: float, row: Any, number: int, view: tuple[float, float], *, dashed: bool
) -> None:
    look = mark(number)
    ends = [
        v if np.isfinite(v) else edge
        for v, edge in zip((row["lower"], row["upper"]), view)
    ]
    ax.plot(
        ends,
        [y, y],
        color=look.color,
        linewidth=1.8,
        linestyle=(0, (3, 2)) if dashed else "-",
        solid_capstyle="butt",
    )
    for v, edge, arrow in zip((row["lower"], row["upper"]), view, ("<", ">")):
        if np.isfinite(v):
            ax.plot([v], [y], "|", color=look.color, markersize=8, markeredgewidth=1.4)
        else:
            ax.plot([edge], [y], arrow, color=look.color, markersize=7, clip_on=False)
    ax.plot(
        [row["estimate"]],
        [y],
        look.marker,
        color=look.color,
        markerfacecolor=look.fill,
        markersize=5.5,
    )


def _draw_fit_names(
    ax: Any, fits: list[str], of: list[str], places: list[float]
) -> None:
    """The name of a fit at the right of its lines."""
    if len(fits) < 2:
        return
    for i, fit in enumerate(fits):
        mine = [y for y, f in zip(places, of) if f == fit]
        at = (min(mine) + max(mine)) / 2
        text = shorten(fit, 24)
        ax.text(
            1.02,
            at,
            text,
            transform=ax.get_yaxis_transform(),
            fontsize=SMALL,
            color=mark(i).color,
            va="center",
        )
        ax.plot(
            [1.01, 1.01],
            [min(mine) - 0.3, max(mine) + 0.3],
            transform=ax.get_yaxis_transform(),
            color=GREY,
            linewidth=0.8,
            clip_on=False,
        )
