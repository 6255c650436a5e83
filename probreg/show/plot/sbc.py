"""Simulation-based calibration: the distribution of the ranks of true values minus the uniform one."""

from typing import TYPE_CHECKING, Any

import numpy as np

from probreg.arguments.scalars import check_arguments
from probreg.diagnostics.simulation import SBC
from probreg.show.plot.style import (
    INK,
    LIGHT,
    REFERENCE,
    Size,
    footnote,
    label,
    panels,
    shorten,
)

if TYPE_CHECKING:
    from matplotlib.figure import Figure


@check_arguments
def sbc(found: SBC, *, figsize: Size | None = None) -> "Figure":
    """Draw the distribution function of the ranks minus the uniform one for each quantity, with the simultaneous band.

    For a correct posterior all curves stay inside the band with the stated probability. A curve above the band at the left
    and below it at the right means draws that are too narrow, the reverse draws that are too wide; a curve above it
    throughout means draws that are too high.

    Parameters
    ----------
    found : SBC
        Result of `pr.sbc`.
    figsize : pair of float, optional
        Width and height in inches.

    Returns
    -------
    Figure
        A matplotlib figure outside pyplot.
    """
    max_panels = 12  # quantities in one picture
    names = found.ranks["quantity"].values.astype(str)
    farthest = np.argsort(found.p_value.values, kind="stable")[:max_panels]
    shown = names[np.sort(farthest)]
    fig, axes = panels(
        len(shown), 3, width=7.2, height=1.95, figsize=figsize, sharex=True, sharey=True
    )
    for i, (ax, name) in enumerate(zip(axes, shown)):
        _draw_ranks(ax, found, name)
        lines = [str(found.table.loc[name, "reading"])]
        if i + 3 >= len(shown):
            lines.insert(0, "rank / number of draws")
        label(ax, x="\n".join(filter(None, lines)) or None, title=shorten(name, 24))
        if i % 3 == 0:
            label(ax, y="ECDF − uniform")
    note = f"{found.method}, {found.ranks.sizes['replicate']} simulated data sets"
    if len(names) > max_panels:
        note += (
            f"; the {max_panels} of {len(names)} quantities with the smallest p-values"
        )
    footnote(
        fig,
        f"{note}.\nGrey: simultaneous band of probability {found.prob:g} for uniform ranks; circles are outside.",
    )
    return fig


def _draw_ranks(ax: Any, result: SBC, name: str) -> None:
    data = result.ecdf_difference
    x = np.r_[0.0, data["point"].values, 1.0]
    line, low, high = (
        np.r_[0.0, values, 0.0]
        for values in (
            data["difference"].sel(quantity=name),
            data["lower"],
            data["upper"],
        )
    )
    ax.fill_between(x, low, high, color=LIGHT, linewidth=0)
    ax.axhline(0.0, **REFERENCE)
    ax.plot(x, line, color=INK, linewidth=1.3)
    off = (line < low - 1e-12) | (line > high + 1e-12)
    ax.plot(x[off], line[off], "o", color=INK, markersize=4, markerfacecolor="white")
    ax.set_xlim(0, 1)
    ax.set_xticks([0, 0.5, 1], ["0", "1/2", "1"])
    ax.locator_params(axis="y", nbins=5)
