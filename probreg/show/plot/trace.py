"""The draws of each chain in the order in which they came."""

from typing import TYPE_CHECKING, Any

import numpy as np

from probreg.arguments.scalars import Flag, check_arguments
from probreg.fits.fit import Fit
from probreg.show.plot.chains import chains, density
from probreg.show.plot.parameters import Rename
from probreg.show.plot.style import (
    INK,
    NORMAL,
    SMALL,
    Size,
    few_ticks,
    footnote,
    label,
    mark,
    paper,
    shorten,
    top_legend,
)

if TYPE_CHECKING:
    from matplotlib.figure import Figure

Array = np.ndarray
_STEPS = 1000  # of a chain that are drawn
_WINDOW = 0.05  # of a chain, whose mean runs along


@check_arguments
def trace(
    fit: Fit,
    *,
    rename: Rename | None = None,
    intercept: Flag = True,
    figsize: Size | None = None,
) -> "Figure":
    """Left: density of each parameter, chain by chain. Right: its draws in order, pale, with the running mean of each chain.

    The running mean is that of a twentieth of the chain; chains that mix stay together. Strokes under a trace mark
    divergent steps.

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
    """
    found = chains(fit, rename, intercept)
    rows = len(found.draws)
    fig, axes = paper(
        rows, 2, size=(7.2, 0.8 + 1.15 * rows), figsize=figsize, width_ratios=(1, 2)
    )
    for i, ((left, right), (name, draws)) in enumerate(zip(axes, found.draws.items())):
        low, high = np.quantile(draws, [0.001, 0.999])
        at = np.linspace(low, high, 120)
        for c, chain in enumerate(draws):
            look = mark(c)
            left.plot(
                at,
                density(chain, at),
                color=look.color,
                linestyle=look.line,
                linewidth=1.1,
            )
        left.set_yticks([])
        left.set_ylim(bottom=0)
        left.spines["left"].set_visible(False)
        few_ticks(left)
        draw_in_order(right, draws, found.diverging)
        left.set_title(
            shorten(name, 60), fontsize=NORMAL, color=INK, loc="left", fontweight="bold"
        )
        right.tick_params(labelbottom=i == rows - 1)
    label(axes[-1, 0], x="value")
    label(axes[-1, 1], x="draw")
    top_legend(fig, axes[0, 1])
    count = f"{len(next(iter(found.draws.values())))} chains{found.steps}"
    footnote(fig, ". ".join(p for p in (count, found.note) if p))
    return fig


def draw_in_order(ax: Any, draws: Array, diverging: Array) -> None:
    """Every draw of each chain, pale, and over them its running mean, told apart by colour and line."""
    step = max(1, draws.shape[1] // _STEPS)
    at = np.arange(0, draws.shape[1], step)
    for c, chain in enumerate(draws):
        ax.plot(
            at,
            chain[at],
            color=mark(c).color,
            linewidth=0.4,
            alpha=0.3,
            rasterized=True,
            zorder=1,
        )
    width = max(2, int(_WINDOW * draws.shape[1]))
    if draws.shape[1] > 2 * width:
        middle = np.arange(draws.shape[1] - width + 1) + (width - 1) / 2
        for c, chain in enumerate(draws):
            # The mean of draws i .. i + width - 1.
            mean = np.convolve(chain, np.full(width, 1.0 / width), "valid")
            look = mark(c)
            ax.plot(
                middle[::step],
                mean[::step],
                color=look.color,
                linestyle=look.line,
                linewidth=1.3,
                label=f"chain {c + 1}",
                zorder=2,
            )
    where = np.flatnonzero(diverging.any(0))
    if len(where):
        ax.plot(
            where,
            np.zeros(len(where)),
            "|",
            color=INK,
            markersize=6,
            transform=ax.get_xaxis_transform(),
            clip_on=False,
        )
    ax.set_xlim(0, draws.shape[1] - 1)
    ax.locator_params(axis="y", nbins=4)
    ax.tick_params(labelsize=SMALL)
