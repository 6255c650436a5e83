"""How often intervals held the truth, against what they claim."""

from collections.abc import Mapping
from typing import TYPE_CHECKING, Any

import numpy as np

from probreg.arguments.scalars import Flag, check_arguments
from probreg.comparison.interval_panel import Coverage
from probreg.errors import DataError
from probreg.show.plot.parameters import Rename, names_to_show, order_names
from probreg.show.plot.style import (
    GREY,
    LIGHT,
    Size,
    footnote,
    label,
    mark,
    paper,
    shorten,
    top_legend,
)

if TYPE_CHECKING:
    from matplotlib.figure import Figure

MOST = 12  # coefficients in one picture


@check_arguments
def coverage(
    of: Coverage | Mapping[str, Coverage],
    *,
    rename: Rename | None = None,
    intercept: Flag = True,
    figsize: Size | None = None,
) -> "Figure":
    """The share of data sets whose interval held the truth with two Monte Carlo errors, one panel per coefficient.

    The line is the claimed probability, the band two Monte Carlo errors of a share that is as claimed.

    Parameters
    ----------
    of : Coverage or mapping from str to Coverage
        Several, such as those of two sample sizes, stand beside one another.
    rename : mapping from str to str, optional
        New names of columns or parameters.
    intercept : bool
        Whether intercepts are drawn.
    figsize : pair of float, optional
        Width and height in inches.

    Returns
    -------
    Figure
        A matplotlib figure outside pyplot.

    Raises
    ------
    DataError
        When their claims differ.

    Examples
    --------
    >>> import probreg as pr
    >>> from probreg.comparison.interval_panel import coverage as simulated
    >>> model = pr.Model.from_arrays([[0.0], [1.0], [2.0], [4.0]], [1.0, 3.0, 6.0, 8.0], columns=["dose"])
    >>> found = simulated(model, {"Intercept": 1.0, "dose": 2.0, "sigma": 1.0}, kinds=["t", "wald"], reps=20)
    >>> [ax.get_title(loc="left") for ax in coverage(found).axes]
    ['Intercept', 'dose']
    """
    from matplotlib.ticker import MaxNLocator

    if isinstance(of, Coverage):
        several = {f"n = {of.rows}": of}
    else:
        several = dict(of)
    first = next(iter(several.values()))
    if any(c.prob != first.prob for c in several.values()):
        raise DataError(
            "the coverages claim different probabilities: "
            + ", ".join(f"{c.prob:g}" for c in several.values())
        )
    every = list(
        dict.fromkeys(
            str(k) for c in several.values() for k in c.table.index.unique("coef")
        )
    )
    if intercept:
        dropped = set()
    else:
        dropped = {name for name in every if name.partition(": ")[0] == "Intercept"}
    words = names_to_show(every, rename)
    names = order_names(every, dropped, sort=None, estimate={}, shown=words)[:MOST]
    kinds = list(
        dict.fromkeys(k for c in several.values() for k in c.table.index.unique("kind"))
    )
    cols = min(len(names), 3)
    deep = -(-len(names) // cols)
    fig, axes = paper(
        deep,
        cols,
        size=(7.2, 0.9 + deep * (0.8 + 0.3 * len(kinds))),
        figsize=figsize,
        sharex=True,
        sharey=True,
    )
    for ax, name in zip(axes.flat, names):
        _draw_coverage(ax, several, name, kinds)
        label(ax, title=shorten(words[name], 30))
    for i, ax in enumerate(axes.flat):
        ax.set_visible(i < len(names))
        below = i + cols >= len(names)  # no panel stands under it
        ax.tick_params(labelbottom=below)
        label(ax, x="share that held the truth" if below else None)
    axes[0, 0].xaxis.set_major_locator(
        MaxNLocator(5)
    )  # shared; more would touch one another
    top_legend(fig, axes[0, 0])
    reps = ", ".join(dict.fromkeys(str(c.reps) for c in several.values()))
    footnote(
        fig,
        f"claimed {first.prob:g}; bars and band: two Monte Carlo errors of {reps} data sets",
    )
    return fig


def _draw_coverage(
    ax: Any, several: Mapping[str, Coverage], name: str, kinds: list[str]
) -> None:
    first = next(iter(several.values()))
    band = 2 * np.sqrt(
        first.prob * (1 - first.prob) / max(min(c.reps for c in several.values()), 1)
    )
    ax.axvspan(
        first.prob - band,
        min(first.prob + band, 1.0),
        color=LIGHT,
        alpha=0.5,
        linewidth=0,
        zorder=0,
    )
    ax.axvline(first.prob, color=GREY, linewidth=0.9, zorder=0)
    step = 0.5 / max(len(several), 1)
    for i, (word, c) in enumerate(several.items()):
        look = mark(i)
        shift = (i - (len(several) - 1) / 2) * step
        here = [
            (k, c.table.loc[(name, kind)])
            for k, kind in enumerate(kinds)
            if (name, kind) in c.table.index
        ]
        for k, row in here:
            ends = [
                max(row["held"] - 2 * row["mcse"], 0.0),
                min(row["held"] + 2 * row["mcse"], 1.0),
            ]
            ax.plot(
                ends,
                [k + shift] * 2,
                color=look.color,
                linewidth=1.6,
                solid_capstyle="butt",
            )
        held = [row["held"] for _, row in here]
        at = [k + shift for k, _ in here]
        ax.plot(
            held,
            at,
            look.marker,
            color=look.color,
            markerfacecolor=look.fill,
            markersize=6,
            label=shorten(word, 30),
        )
    ax.set_yticks(range(len(kinds)), kinds)
    ax.set_ylim(len(kinds) - 0.5, -0.5)
    ax.tick_params(axis="y", length=0)
