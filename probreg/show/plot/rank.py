"""Rank histograms: whether every chain visits every part of the posterior equally often."""

from typing import TYPE_CHECKING, Any

import numpy as np

from probreg.arguments.scalars import Flag, check_arguments
from probreg.fits.fit import Fit
from probreg.show.plot.chains import chains, ranks
from probreg.show.plot.parameters import Rename
from probreg.show.plot.style import (
    DASHED,
    GREY,
    LIGHT,
    Size,
    footnote,
    label,
    mark,
    paper,
    shorten,
)

if TYPE_CHECKING:
    from matplotlib.figure import Figure

Array = np.ndarray
_BINS = 20


@check_arguments
def rank(
    fit: Fit,
    *,
    rename: Rename | None = None,
    intercept: Flag = True,
    figsize: Size | None = None,
) -> "Figure":
    """Histogram of the ranks of each chain's draws among those of all chains, one line of bars per chain.

    Bars of a chain that mixes keep to its level line; a slope or a hump says that it stayed on one side.

    Parameters
    ----------
    fit : Fit
        A fit with Markov chains.
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
    Incompatible
        For a fit without Markov chains.

    References
    ----------
    Vehtari et al. 2021.
    """
    found = chains(fit, rename, intercept)
    cols = min(len(found.draws), 3)
    deep = -(-len(found.draws) // cols)
    n = len(found.diverging)
    fig, axes = paper(
        deep,
        cols,
        size=(7.2, 0.5 + deep * (0.5 + 0.35 * n)),
        figsize=figsize,
        sharex=True,
        sharey=True,
    )
    for i, ax in enumerate(axes.flat):
        ax.set_visible(i < len(found.draws))
    for i, (ax, (name, draws)) in enumerate(zip(axes.flat, found.draws.items())):
        draw_ranks(ax, ranks(draws))
        below = i + cols >= len(found.draws)
        ax.tick_params(labelbottom=below)
        label(ax, x="rank among all draws" if below else None, title=shorten(name, 24))
    footnote(fig, found.note)
    return fig


def draw_ranks(ax: Any, order: Array) -> None:
    """A line of bars for each chain, each about its level."""
    total = order.size
    n = len(order)
    edges = np.linspace(0, total, _BINS + 1)
    for c, chain in enumerate(order):
        base = n - 1 - c
        height = np.histogram(chain, edges)[0] / (
            order.shape[1] / _BINS
        )  # 1 where uniform
        look = mark(c)
        ax.bar(edges[:-1], 0.45 * height, width=np.diff(edges), bottom=base - 0.45, align="edge", color=LIGHT,
               edgecolor="white", linewidth=0.4)  # fmt: skip
        ax.stairs(
            base - 0.45 + 0.45 * height,
            edges,
            baseline=None,
            color=look.color,
            linewidth=1.2,
        )
        ax.axhline(base, color=GREY, linewidth=0.8, linestyle=DASHED)
    ax.set_yticks(range(n), [f"chain {c + 1}" for c in reversed(range(n))])
    ax.tick_params(axis="y", length=0)
    ax.set_ylim(-0.6, n - 0.35)
    ax.set_xlim(0, total)
    ax.spines["left"].set_visible(False)
    ax.locator_params(axis="x", nbins=3, prune="upper")
