"""The share of simulated data sets in which intervals contain the true value, against the nominal probability."""

from collections.abc import Mapping
from typing import TYPE_CHECKING, Any

import numpy as np

from probreg.arguments.scalars import check_arguments
from probreg.comparison.interval_panel import Coverage
from probreg.errors import DataError
from probreg.show.plot.style import (
    GREY,
    LIGHT,
    Size,
    footnote,
    label,
    mark,
    panels,
    shorten,
    top_legend,
)

if TYPE_CHECKING:
    from matplotlib.figure import Figure

MOST = 12  # coefficients in one picture


@check_arguments
def coverage(
    of: Coverage | Mapping[str, Coverage], *, figsize: Size | None = None
) -> "Figure":
    """Draw the coverage of each kind of interval with two Monte Carlo errors, one panel for each coefficient.

    The line is the nominal probability, the band two Monte Carlo errors of a share with that probability.

    Parameters
    ----------
    of : Coverage or mapping from str to Coverage
        One result, or several by name, such as results of two sample sizes.
    figsize : pair of float, optional
        Width and height in inches.

    Returns
    -------
    Figure
        A matplotlib figure outside pyplot.

    Raises
    ------
    DataError
        If their nominal probabilities differ.

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
        probabilities = ", ".join(f"{c.prob:g}" for c in several.values())
        raise DataError(f"the coverages have different probabilities: {probabilities}")
    names = dict.fromkeys(
        str(k) for c in several.values() for k in c.table.index.unique("coef")
    )
    shown = list(names)[:MOST]
    kinds = list(
        dict.fromkeys(k for c in several.values() for k in c.table.index.unique("kind"))
    )
    height = 0.8 + 0.3 * len(kinds)
    fig, axes = panels(len(shown), 3, width=7.2, height=height, figsize=figsize)
    for ax, name in zip(axes, shown):
        _draw_coverage(ax, several, name, kinds)
        label(ax, title=shorten(name, 30))
    for ax in axes[-3:]:
        label(ax, x="coverage")
    axes[0].xaxis.set_major_locator(MaxNLocator(5))
    top_legend(fig, axes[0])
    reps = ", ".join(dict.fromkeys(str(c.reps) for c in several.values()))
    footnote(
        fig,
        f"nominal {first.prob:g}; bars and band: two Monte Carlo errors of {reps} data sets",
    )
    return fig


def _draw_coverage(
    ax: Any, several: Mapping[str, Coverage], name: str, kinds: list[str]
) -> None:
    results = list(several.values())
    prob = results[0].prob
    reps = max(min(c.reps for c in results), 1)
    half = 2 * np.sqrt(prob * (1 - prob) / reps)
    band = {"color": LIGHT, "alpha": 0.5, "linewidth": 0, "zorder": 0}
    ax.axvspan(prob - half, min(prob + half, 1.0), **band)
    ax.axvline(prob, color=GREY, linewidth=0.9, zorder=0)
    step = 0.5 / len(results)
    for i, (title, c) in enumerate(several.items()):
        look = mark(i)
        shift = (i - (len(results) - 1) / 2) * step
        used = [k for k, kind in enumerate(kinds) if (name, kind) in c.table.index]
        rows = c.table.loc[[(name, kinds[k]) for k in used]]
        held = rows["held"].to_numpy()
        error = 2 * rows["mcse"].to_numpy()
        y = np.array(used) + shift
        lower = np.maximum(held - error, 0.0)
        upper = np.minimum(held + error, 1.0)
        ax.hlines(y, lower, upper, color=look.color, linewidth=1.6)
        style = {"color": look.color, "markerfacecolor": look.fill, "markersize": 6}
        ax.plot(held, y, look.marker, label=shorten(title, 30), **style)
    ax.set_yticks(range(len(kinds)), kinds)
    ax.set_ylim(len(kinds) - 0.5, -0.5)
    ax.tick_params(axis="y", length=0)
