"""Simulation-based calibration: how far the ranks of true values are from uniform."""

from typing import TYPE_CHECKING, Any

import numpy as np

from probreg.arguments.scalars import check_arguments
from probreg.assess.simulation import SBC
from probreg.show.plot.parameters import Rename, names_to_show
from probreg.show.plot.style import (
    DASHED,
    GREY,
    INK,
    LIGHT,
    Size,
    footnote,
    label,
    paper,
    shorten,
)

if TYPE_CHECKING:
    from matplotlib.figure import Figure

Array = np.ndarray
_MOST = 12  # quantities in one picture


@check_arguments
def sbc(
    found: SBC, *, rename: Rename | None = None, figsize: Size | None = None
) -> "Figure":
    """Distribution function of the ranks minus the uniform one, per quantity, with the simultaneous band.

    A correct posterior stays inside all bands with the stated probability. Above the band at the left and below it at
    the right the draws are too narrow, the other way round too wide; above it throughout they lie too high.

    Parameters
    ----------
    found : SBC
        What `pr.sbc` returned.
    rename : mapping from str to str, optional
        New names of columns or parameters.
    figsize : pair of float, optional
        Width and height in inches.

    Returns
    -------
    Figure
        A matplotlib figure outside pyplot.
    """
    names = [str(q) for q in found.ranks["quantity"].values]
    farthest = np.argsort(found.p_value.values, kind="stable")[:_MOST]
    shown = [names[i] for i in np.sort(farthest)]
    words = names_to_show(names, rename)
    cols = min(len(shown), 3)
    deep = -(-len(shown) // cols)
    fig, axes = paper(
        deep,
        cols,
        size=(7.2, 0.9 + 1.95 * deep),
        figsize=figsize,
        sharex=True,
        sharey=True,
    )
    for i, ax in enumerate(axes.flat):
        if i >= len(shown):
            ax.set_visible(False)
            continue
        _draw_ranks(ax, found, shown[i])
        below = i + cols >= len(shown)
        ax.tick_params(labelbottom=below)
        # What a departure means stands under its panel, clear of band and curve.
        under = ["rank, as a share"] * below + [
            str(found.table.loc[shown[i], "reading"])
        ]
        label(
            ax,
            x="\n".join(u for u in under if u) or None,
            title=shorten(words[shown[i]], 24),
        )
    for ax in axes[:, 0]:
        label(ax, y="ECDF − uniform")
    footnote(fig, _describe_simulations(found, len(names)))
    return fig


def _draw_ranks(ax: Any, found: SBC, name: str) -> None:
    data = found.ecdf_difference
    at = np.r_[0.0, data["point"].values, 1.0]
    low, high, line = (
        np.r_[0.0, v, 0.0]
        for v in (data["lower"], data["upper"], data["difference"].sel(quantity=name))
    )
    ax.fill_between(at, low, high, color=LIGHT, linewidth=0)
    ax.axhline(0.0, color=GREY, linewidth=0.8, linestyle=DASHED)
    ax.plot(at, line, color=INK, linewidth=1.3)
    off = (line < low - 1e-12) | (line > high + 1e-12)
    ax.plot(at[off], line[off], "o", color=INK, markersize=4, markerfacecolor="white")
    ax.set_xlim(0, 1)
    ax.set_xticks([0, 0.5, 1], ["0", "1/2", "1"])
    ax.locator_params(axis="y", nbins=5)


def _describe_simulations(found: SBC, quantities: int) -> str:
    n = found.ranks.sizes["replicate"]
    if quantities > _MOST:
        left = f"; the {_MOST} of {quantities} quantities that depart most"
    else:
        left = ""
    lost = sum(found.failures.values())
    failed = f"; {lost} more had no posterior" if lost else ""
    return (
        f"{found.method}, {n} simulated data sets{failed}{left}.\nGrey: where all quantities together stay with probability "
        f"{found.prob:g} if the method is right; circles lie outside."
    )
