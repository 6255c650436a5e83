"""Estimates and intervals of several fits side by side."""

from collections.abc import Iterable, Mapping
from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np

from probreg.arguments.scalars import Flag, Probability, check_arguments
from probreg.errors import DataError
from probreg.fits.fit import Fit
from probreg.show.plot.parameters import (
    Order,
    Rename,
    Scale,
    columns_of,
    intercepts,
    names_to_show,
    order_names,
    spreads,
)
from probreg.show.plot.style import (
    DASHED,
    GREY,
    LIGHT,
    SMALL,
    Size,
    estimate_word,
    few_ticks,
    footnote,
    label,
    mark,
    named_fits,
    paper,
    room,
    shorten,
    top_legend,
)

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure

MOST = 40  # parameters in one picture
# zero belongs to the axis when it is within so many widths of the intervals
_NEAR = 2.0
_PAD = 0.1  # of the width, free at each side of the longest interval


class _Row(NamedTuple):
    estimate: float
    lower: float
    upper: float


_Table = dict[str, _Row]


@check_arguments
def coefficients(
    fits: "Fit | Mapping[str, Fit]",
    prob: Probability = 0.95,
    *,
    rename: Rename | None = None,
    sort: Order | None = None,
    intercept: Flag = True,
    scale: Scale = "raw",
    ax: "Axes | None" = None,
    figsize: Size | None = None,
) -> "Figure":
    """Estimates with intervals of probability `prob`, of one fit or of several.

    On the raw scale units differ, so each coefficient has a panel with an axis of its own, and a line marks zero where it
    is near. Per standard deviation of the column b_j sd(x_j) is drawn, and all share one axis. At most 40 parameters are
    drawn, none of smooth functions beside others.

    Parameters
    ----------
    fits : Fit or mapping from str to Fit
        One fit, or several by name.
    prob : float
        Probability of every interval or band, between 0 and 1.
    rename : mapping from str to str, optional
        New names of columns or parameters.
    sort : {"estimate", "name"}, optional
        From the largest estimate of the first fit down, or by name; by default in the order of the model.
    intercept : bool
        Whether intercepts are drawn.
    scale : {"raw", "sd"}
        Per unit of the column, or per standard deviation of it, which leaves out what has no column that varies.
    ax : Axes, optional
        Where to draw: all coefficients on one axis.
    figsize : pair of float, optional
        Width and height in inches.

    Returns
    -------
    Figure
        A matplotlib figure outside pyplot, or that of `ax`.

    Raises
    ------
    DataError
        Unless 0 < prob < 1, and for a name to change that is not there.

    Examples
    --------
    >>> import probreg as pr
    >>> model = pr.Model.from_arrays([[2.0], [3.0], [4.0], [6.0]], [5.0, 7.0, 9.0, 13.5], columns=["dose"])
    >>> [ax.get_title(loc="left") for ax in coefficients(pr.fit(model)).axes]
    ['Intercept', 'dose', 'sigma']
    >>> [t.get_text() for t in coefficients(pr.fit(model), scale="sd").axes[0].get_yticklabels()]
    ['dose']
    """
    several = named_fits(fits)
    rows = {name: _estimates_by_name(fit, prob) for name, fit in several.items()}
    if scale == "sd":
        rows = {
            name: _standardise_estimates(fit, rows[name])
            for name, fit in several.items()
        }
    parameters = list(dict.fromkeys(k for table in rows.values() for k in table))
    if not parameters:
        raise DataError(
            "scale='sd' needs a column that varies, and there is none beside the intercept"
        )
    words = names_to_show(parameters, rename)
    smooth = _of_functions(several.values())
    if len(smooth) < len(parameters):
        dropped = smooth
    else:
        dropped = set()
    if dropped:
        functions = "; smooth functions are drawn by plot.smooth"
    else:
        functions = ""
    dropped = dropped | (set() if intercept else intercepts(several.values()))
    estimate = {
        k: r.estimate for table in reversed(rows.values()) for k, r in table.items()
    }
    every = order_names(parameters, dropped, sort=sort, estimate=estimate, shown=words)
    shown = {name: words[name] for name in every[:MOST]}
    if len(every) > MOST:
        left_out = f"; {MOST} of {len(every)} parameters"
    else:
        left_out = ""
    names = [f"{name} ({estimate_word(fit)})" for name, fit in several.items()]
    together = scale == "sd" or ax is not None
    draw = _on_one_axis if together else _draw_panels
    fig = draw(rows, shown, names, figsize, *([ax] if together else []))
    if together:
        if scale == "sd":
            per = "standard deviation of the column"
        else:
            per = "unit of the column"
        label(ax or fig.axes[0], x=f"change of the linear predictor per {per}")
    if together:
        unit = ""
    else:
        unit = ", each in the units of its coefficient"
    who = f"{names[0]}, " if len(several) == 1 else ""
    footnote(fig, f"{who}{100 * prob:g} % intervals{unit}{left_out}{functions}", ax)
    return fig


def _of_functions(fits: Iterable[Fit]) -> set[str]:
    """The coefficients of smooth functions and processes, whose columns say nothing one by one."""
    return {
        name
        for fit in fits
        for name, column in columns_of(fit).items()
        if column is not None and fit.model.design.of_terms[column]
    }


def _estimates_by_name(fit: Fit, prob: float) -> _Table:
    """Estimate and interval of each parameter by name."""
    table = fit.summary(prob)
    names = [
        ": ".join(str(part) for part in reversed(k) if part)
        if isinstance(k, tuple)
        else str(k)
        for k in table.index
    ]
    values = table[[table.columns[0], "lower", "upper"]].to_numpy(dtype=float)
    return {name: _Row(*map(float, row)) for name, row in zip(names, values)}


def _standardise_estimates(fit: Fit, table: _Table) -> _Table:
    """b_j sd(x_j) of the coefficients whose column varies."""
    sd = spreads(fit)
    return {
        name: _Row(*(v * sd[name] for v in row))
        for name, row in table.items()
        if np.isfinite(sd[name])
    }


def _draw_panels(
    rows: Mapping[str, _Table],
    shown: Mapping[str, str],
    names: list[str],
    figsize: Size | None,
) -> "Figure":
    """A panel for each parameter, the fits under one another."""
    if len(shown) <= 4:
        cols = 1
    elif len(shown) <= 16:
        cols = 2
    else:
        cols = 3
    deep = -(-len(shown) // cols)
    several = len(rows)
    height = deep * (0.46 + 0.2 * several) + 0.5
    fig, axes = paper(
        deep, cols, size=(7.2 + 1.2 * (cols == 3), max(height, 1.4)), figsize=figsize
    )
    for i, ax in enumerate(axes.flat):
        ax.set_visible(i < len(shown))
    for ax, (parameter, word) in zip(axes.flat, shown.items()):
        found = [table.get(parameter) for table in rows.values()]
        few_ticks(ax)
        _zero(ax, found, arrow=True)
        arrow = (
            5 if ax.get_title(loc="right") else 0
        )  # letters that stand beside the name
        label(ax, title=shorten(word, max(int(room(ax)[0] * 13.5) - arrow, 8)))
        _draw_intervals(ax, found, [float(k) for k in range(several)])
        if cols == 1 and several > 1:
            words = [shorten(n, 34) for n in names]
        else:
            words = [""] * several
        ax.set_yticks(range(several), words)
        ax.set_ylim(several - 0.5, -0.5)
    if cols > 1 and several > 1:
        _key(axes[0, 0], names)
        top_legend(fig, axes[0, 0])
    return fig


def _on_one_axis(
    rows: Mapping[str, _Table],
    shown: Mapping[str, str],
    names: list[str],
    figsize: Size | None,
    ax: "Axes | None",
) -> "Figure":
    """A line for each parameter, the fits of one parameter close together."""
    several = len(rows)
    fig, axes = paper(
        size=(6.4, 1.1 + len(shown) * (0.1 + 0.16 * several)), figsize=figsize, ax=ax
    )
    one: Any = axes[0, 0]
    found = [[table.get(parameter) for table in rows.values()] for parameter in shown]
    few_ticks(one)
    _zero(one, [row for group in found for row in group], arrow=False)
    for i, group in enumerate(found):
        _draw_intervals(
            one,
            group,
            [i + (k - (several - 1) / 2) * 0.62 / several for k in range(several)],
        )
    if several > 1:
        _key(one, names)
    one.set_yticks(range(len(shown)), [shorten(word, 34) for word in shown.values()])
    one.set_ylim(len(shown) - 0.4, -0.6)
    top_legend(fig, one, ax)
    return fig


def _key(ax: Any, names: list[str]) -> None:
    """The look of each fit for the legend."""
    for k, name in enumerate(names):
        look = mark(k)
        ax.plot(
            [],
            [],
            look.marker,
            color=look.color,
            markerfacecolor=look.fill,
            linestyle="-",
            label=shorten(name),
        )


def _draw_intervals(ax: Any, rows: list[_Row | None], places: list[float]) -> None:
    """Estimates with their intervals, a fit each; an end without bound is an arrow at the frame."""
    ax.spines["left"].set_visible(False)
    ax.tick_params(axis="y", length=0)
    for i, (row, y) in enumerate(zip(rows, places)):
        look = mark(i)
        ax.axhline(y, color=LIGHT, linewidth=0.5, zorder=0)
        if row is None or not np.isfinite(row.estimate):
            if row is None:
                said = "not in this model"
            else:
                said = "no estimate exists"
            style = {"fontsize": SMALL, "color": GREY, "va": "center", "ha": "center"}
            ax.text(0.5, y, said, transform=ax.get_yaxis_transform(), **style)
            continue
        ends = np.clip(row[1:], *ax.get_xlim())
        ax.plot(ends, [y, y], color=look.color, linewidth=1.8, solid_capstyle="butt")
        for v, at, arrow in zip(row[1:], (0.0, 1.0), ("<", ">")):
            if np.isinf(v):
                ax.plot(
                    [at],
                    [y],
                    arrow,
                    color=look.color,
                    transform=ax.get_yaxis_transform(),
                    clip_on=False,
                )
        ax.plot(
            [row.estimate],
            [y],
            look.marker,
            color=look.color,
            markerfacecolor=look.fill,
            markersize=6,
        )


def _zero(ax: Any, rows: list[_Row | None], *, arrow: bool) -> None:
    """Room for every interval, a line at zero where it is near, an arrow towards it where it is not."""
    ends = np.array([v for r in rows if r is not None for v in r if np.isfinite(v)])
    if not len(ends):
        ax.set_xticks([])
        return
    low = ends.min()
    high = ends.max()
    width = (high - low) or abs(high) or 1.0
    if not arrow or low - _NEAR * width <= 0 <= high + _NEAR * width:
        low = min(low, 0.0)
        high = max(high, 0.0)
        ax.axvline(0.0, color=GREY, linewidth=0.9, linestyle=DASHED, zorder=0)
    else:
        ax.set_title(
            "← 0" if low > 0 else "0 →", fontsize=SMALL, color=GREY, loc="right"
        )
    pad = _PAD * ((high - low) or abs(high) or 1.0)
    ax.set_xlim(low - pad, high + pad)
