"""Intervals of one quantity, side by side on one axis."""

from typing import TYPE_CHECKING, Any

import numpy as np

from probreg.arguments.scalars import check_arguments
from probreg.comparison.interval_panel import IntervalPanel
from probreg.comparison.interval_panel.panel import NEW
from probreg.show.plot.style import (
    DASHED,
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
    from matplotlib.figure import Figure

MOST = 40  # intervals in one picture


@check_arguments
def interval_panel(of: IntervalPanel, *, figsize: Size | None = None) -> "Figure":
    """Draw every interval of a panel, with a marker and colour for each fit; an infinite end is an arrow.

    A grey line marks the estimate of the first fit. The interval of a new observation is dashed. At most 40 are drawn.

    Parameters
    ----------
    of : IntervalPanel
        Result of `pr.interval_panel`.
    figsize : pair of float, optional
        Width and height in inches.

    Returns
    -------
    Figure
        A matplotlib figure outside pyplot.

    Examples
    --------
    >>> import probreg as pr
    >>> from probreg.comparison.interval_panel import interval_panel as intervals
    >>> fit = pr.ols([[0.0], [1.0], [2.0], [4.0]], [1.0, 3.0, 6.0, 8.0], columns=["dose"])
    >>> [t.get_text() for t in interval_panel(intervals(fit, "dose", kinds=["t", "wald"])).axes[0].get_yticklabels()]
    ['t', 'wald']
    """
    held = of.held.iloc[:MOST]
    owner = [fit for fit, _ in held.index]
    fits = list(dict.fromkeys(owner))
    height = 1.1 + 0.27 * max(len(held), 1) + 0.12 * len(fits)
    fig, axes = paper(size=(7.2, height), figsize=figsize)
    ax = axes[0, 0]
    # one line for each interval, with a gap between fits
    places = [i + 0.6 * fits.index(fit) for i, fit in enumerate(owner)]
    values = held[["estimate", "lower", "upper"]].to_numpy(dtype=float)
    finite = values[np.isfinite(values)]
    low, high = (finite.min(), finite.max()) if len(finite) else (0.0, 1.0)
    pad = 0.06 * ((high - low) or abs(high) or 1.0)
    ax.set_xlim(low - pad, high + pad)
    for y, (fit, kind), row in zip(places, held.index, values):
        _draw_interval(ax, y, row, fits.index(fit), DASHED if kind == NEW else "-")
    if len(held):
        ax.axvline(values[0, 0], color=LIGHT, linewidth=0.9, zorder=0)
    ax.set_yticks(places, [shorten(str(kind), 30) for _, kind in held.index])
    ax.tick_params(axis="y", length=0)
    ax.spines["left"].set_visible(False)
    ax.set_ylim((places[-1] if places else 0) + 0.7, -0.9)
    if len(fits) > 1:
        for i, fit in enumerate(fits):
            own_places = [y for y, name in zip(places, owner) if name == fit]
            _draw_fit_name(ax, fit, min(own_places), max(own_places), mark(i).color)
    few_ticks(ax)
    title = f"{100 * of.prob:g} % intervals of {shorten(of.quantity, 44)}"
    label(ax, x=shorten(of.unit, 80), title=title)
    notes = [
        f"line: the estimate of {shorten(fits[0], 30)}" if fits else "no intervals"
    ]
    if not np.isfinite(values[:, 1:]).all():
        notes.append("arrow: infinite end")
    if len(of.held) > MOST:
        notes.append(f"{len(of.held) - MOST} more are not drawn")
    footnote(fig, "; ".join(notes))
    return fig


def _draw_interval(ax: Any, y: float, row: Any, number: int, line: Any) -> None:
    look = mark(number)
    estimate, *ends = row
    edges = ax.get_xlim()
    clipped = np.clip(ends, *edges)
    ax.plot(clipped, [y, y], color=look.color, linewidth=1.8, linestyle=line)
    for end, x, arrow in zip(ends, clipped, ("<", ">")):
        head = "|" if np.isfinite(end) else arrow
        ax.plot([x], [y], head, color=look.color, markersize=8, clip_on=False)
    style = {"color": look.color, "markerfacecolor": look.fill, "markersize": 5.5}
    ax.plot([estimate], [y], look.marker, **style)


def _draw_fit_name(ax: Any, fit: str, first: float, last: float, color: str) -> None:
    """Write the name of a fit at the right of its lines."""
    across = {"transform": ax.get_yaxis_transform(), "clip_on": False}
    middle = (first + last) / 2
    name = shorten(fit, 24)
    ax.text(1.02, middle, name, fontsize=SMALL, color=color, va="center", **across)
    ax.vlines(1.01, first - 0.3, last + 0.3, color=GREY, linewidth=0.8, **across)
