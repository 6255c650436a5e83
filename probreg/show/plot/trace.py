"""The draws of each chain in the order in which they came."""

from typing import TYPE_CHECKING, Any

import numpy as np

from probreg.arguments.scalars import checked
from probreg.fits.fit import Fit
from probreg.show.plot.chains import chains, density
from probreg.show.plot.style import INK, SMALL, footnote, label, mark, paper, shorten

if TYPE_CHECKING:
    from matplotlib.figure import Figure

Array = np.ndarray
_STEPS = 1000  # of a chain that are drawn


@checked
def trace(fit: Fit) -> "Figure":
    """Left: density of each parameter, chain by chain. Right: its draws in order; chains that mix look like one band.

    Strokes under a trace mark divergent steps.

    Parameters
    ----------
    fit : Fit
        A fit with Markov chains.

    Returns
    -------
    Figure
        A matplotlib figure outside pyplot.

    Raises
    ------
    Incompatible
        For a fit without Markov chains.
    """
    found = chains(fit)
    rows = len(found.draws)
    fig, axes = paper(rows, 2, size=(7.2, 0.5 + 1.15 * rows), width_ratios=(1, 2))
    for i, ((left, right), (name, draws)) in enumerate(zip(axes, found.draws.items())):
        low, high = np.quantile(draws, [0.001, 0.999])
        at = np.linspace(low, high, 120)
        for c, chain in enumerate(draws):
            look = mark(c)
            left.plot(at, density(chain, at), color=look.color, linestyle=look.line, linewidth=1.1)
        left.set_yticks([])
        left.set_ylim(bottom=0)
        left.spines["left"].set_visible(False)
        left.locator_params(axis="x", nbins=4)
        _traces(right, draws, found.diverging)
        label(left, title=shorten(name, 40))
        right.tick_params(labelbottom=i == rows - 1)
    label(axes[-1, 0], x="value")
    label(axes[-1, 1], x="draw")
    footnote(
        fig,
        ". ".join(
            p
            for p in (
                f"{len(next(iter(found.draws.values())))} chains{found.steps}",
                found.note,
            )
            if p
        ),
    )
    return fig


def _traces(ax: Any, draws: Array, diverging: Array) -> None:
    step = max(1, draws.shape[1] // _STEPS)
    at = np.arange(0, draws.shape[1], step)
    for c, chain in enumerate(draws):
        ax.plot(at, chain[at], color=mark(c).color, linewidth=0.4, alpha=0.75, rasterized=True)
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
