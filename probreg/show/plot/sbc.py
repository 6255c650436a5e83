"""Simulation-based calibration: how far the ranks of true values are from uniform."""

from typing import TYPE_CHECKING, Any

import numpy as np

from probreg.arguments.scalars import checked
from probreg.assess.simulation import SBC
from probreg.show.plot.style import GREY, INK, LIGHT, footnote, label, paper, shorten

if TYPE_CHECKING:
    from matplotlib.figure import Figure

Array = np.ndarray
_MOST = 12  # quantities in one picture


@checked
def sbc(found: SBC) -> "Figure":
    """Distribution function of the ranks minus the uniform one, per quantity, with the simultaneous band.

    A correct posterior stays inside all bands with the stated probability. Above the band at the left and below it at
    the right the draws are too narrow, the other way round too wide; above it throughout they lie too high.

    Parameters
    ----------
    found : SBC
        What `pr.sbc` returned.

    Returns
    -------
    Figure
        A matplotlib figure outside pyplot.
    """
    names = [str(q) for q in found.ranks["quantity"].values]
    farthest = np.argsort(found.p_value.values, kind="stable")[:_MOST]
    shown = [names[i] for i in np.sort(farthest)]
    cols = min(len(shown), 3)
    deep = -(-len(shown) // cols)
    fig, axes = paper(deep, cols, size=(7.2, 0.7 + 1.75 * deep), sharex=True, sharey=True)
    for i, ax in enumerate(axes.flat):
        if i >= len(shown):
            ax.set_visible(False)
            continue
        _panel(ax, found, shown[i])
        below = i + cols >= len(shown)
        ax.tick_params(labelbottom=below)
        label(ax, x="rank, as a share" if below else None, title=shorten(shown[i], 24))
    for ax in axes[:, 0]:
        label(ax, y="ECDF − uniform")
    footnote(fig, _note(found, len(names)))
    return fig


def _panel(ax: Any, found: SBC, name: str) -> None:
    data = found.ecdf_difference
    at = np.r_[0.0, data["point"].values, 1.0]
    low, high, line = (
        np.r_[0.0, v, 0.0] for v in (data["lower"], data["upper"], data["difference"].sel(quantity=name))
    )
    ax.fill_between(at, low, high, color=LIGHT, linewidth=0)
    ax.axhline(0.0, color=GREY, linewidth=0.8, linestyle=(0, (4, 2)))
    ax.plot(at, line, color=INK, linewidth=1.3)
    off = (line < low - 1e-12) | (line > high + 1e-12)
    ax.plot(at[off], line[off], "o", color=INK, markersize=4, markerfacecolor="white")
    ax.set_xlim(0, 1)
    ax.set_xticks([0, 0.5, 1], ["0", "1/2", "1"])
    ax.locator_params(axis="y", nbins=5)
    if reading := found.table.loc[name, "reading"]:
        room = 0.96 if line[at > 0.5].mean() < 0 else 0.04
        ax.text(0.97, room, reading, transform=ax.transAxes, ha="right", va="top" if room > 0.5 else "bottom",
                fontsize=7.5, color=INK, wrap=True)  # fmt: skip


def _note(found: SBC, quantities: int) -> str:
    n = found.ranks.sizes["replicate"]
    left = f"; the {_MOST} of {quantities} quantities that depart most" if quantities > _MOST else ""
    lost = sum(found.failures.values())
    failed = f"; {lost} more had no posterior" if lost else ""
    return (
        f"{found.method}, {n} simulated data sets{failed}{left}.\nGrey: where all quantities together stay with probability "
        f"{found.prob:g} if the method is right; circles lie outside."
    )
