"""The difference between two fits as a waterfall for each parameter: one bar for each cause."""

from typing import TYPE_CHECKING, Any

import numpy as np

from probreg.arguments.scalars import check_arguments
from probreg.comparison.attribution import Explanation
from probreg.show.plot.style import (
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

MOST, CAUSES = 12, 6  # parameters in one picture, causes in one panel
_SLIGHT = 0.02  # of the largest share: smaller ones are one bar


@check_arguments
def explain(explanation: Explanation, *, figsize: Size | None = None) -> "Figure":
    """Draw the steps from the estimate of the baseline to the other, one panel for each parameter and one bar for each cause.

    The length of a bar is the share of its cause, in the units of the parameter, and it starts at the end of the bar above.
    The largest shares come first; those under 2 % of the largest are one bar. The two estimates have one standard error to
    either side. At most 12 parameters are drawn.

    Parameters
    ----------
    explanation : Explanation
        Result of `pr.explain`.
    figsize : pair of float, optional
        Width and height in inches.

    Returns
    -------
    Figure
        A matplotlib figure outside pyplot.

    Examples
    --------
    >>> import probreg as pr
    >>> model = pr.Model.from_arrays([[2.0], [3.0], [4.0], [6.0]], [5.0, 7.0, 9.0, 13.5], columns=["dose"])
    >>> found = pr.explain(pr.fit(model), pr.fit(model.with_prior(pr.Normal(1.0))))
    >>> [ax.get_title(loc="left") for ax in explain(found).axes]
    ['Intercept', 'dose', 'sigma']
    """
    params = [str(p) for p in explanation.shares["param"].values]
    shown = params[:MOST]
    steps = [_list_steps(explanation, p) for p in shown]
    cols = 1 if len(shown) <= 3 else 2
    rows = -(-len(shown) // cols)
    height = 0.55 + 0.24 * (max(map(len, steps)) + 2)
    fig, axes = paper(rows, cols, size=(7.4, rows * height + 0.4), figsize=figsize)
    for i, ax in enumerate(axes.flat):
        ax.set_visible(i < len(shown))
    for ax, param, param_steps in zip(axes.flat, shown, steps):
        _draw_steps(ax, explanation, param, param_steps, ticks=None if cols == 1 else 3)
        label(ax, title=shorten(param))
    notes = [
        "bars: filled moves up, hollow moves down; estimates with a standard error to either side, in the units of each parameter"
    ]
    if len(params) > MOST:
        notes.append(f"the first {MOST} of {len(params)} parameters")
    if explanation.without_path:
        notes.append(explanation.without_path)
    footnote(fig, "; ".join(notes))
    return fig


def _list_steps(explanation: Explanation, param: str) -> list[tuple[str, float]]:
    """Return causes and their shares in the units of the parameter, the largest first, slight ones together."""
    param_shares = explanation.shares.sel(param=param)
    shares = param_shares["shift"].values * float(param_shares["baseline_se"])
    steps = [
        (str(c), float(v)) for c, v in zip(param_shares["cause"].values, shares) if v
    ]
    steps.sort(key=lambda step: -abs(step[1]))
    smallest = _SLIGHT * abs(steps[0][1]) if steps else 0.0
    large = [step for step in steps[:CAUSES] if abs(step[1]) > smallest]
    small = steps[len(large) :]
    if small:
        large.append((f"{len(small)} smaller", sum(v for _, v in small)))
    return large


def _draw_steps(
    ax: Any,
    explanation: Explanation,
    param: str,
    steps: list[tuple[str, float]],
    *,
    ticks: int | None,
) -> None:
    param_shares = explanation.shares.sel(param=param)
    last = len(steps) + 1
    for k, (row, end) in enumerate(((0, "baseline"), (last, "other"))):
        look = mark(k)
        value = float(param_shares[end])
        se = float(param_shares[f"{end}_se"])
        if np.isfinite(se):
            ax.hlines(row, value - se, value + se, color=look.color, linewidth=1.8)
        style = {"color": look.color, "markerfacecolor": look.fill, "markersize": 6}
        ax.plot([value], [row], look.marker, **style)
    x = float(param_shares["baseline"])
    for row, (_, size) in enumerate(steps, start=1):
        look = mark(0 if size > 0 else 1)
        ax.vlines(x, row - 1, row + 0.32, color=GREY, linewidth=0.7, zorder=0)
        style = {"edgecolor": look.color, "linewidth": 1.2, "height": 0.56}
        ax.barh(row, size, left=x, color=look.fill, **style)
        x += size
    ax.vlines(x, last - 1.32, last, color=GREY, linewidth=0.7, zorder=0)
    ax.set_ylim(last + 0.6, -0.6)
    names = [explanation.names[0], *(c for c, _ in steps), explanation.names[1]]
    ax.set_yticks(range(last + 1), [shorten(name, 30) for name in names])
    ax.spines["left"].set_visible(False)
    ax.tick_params(axis="y", length=0)
    few_ticks(ax)
    if ticks is not None:  # the names of causes take half of the width
        ax.locator_params(axis="x", nbins=ticks)
    for row in range(last + 1):
        ax.axhline(row, color=LIGHT, linewidth=0.4, zorder=-1)
    if not steps:
        corner = {"transform": ax.transAxes, "ha": "right", "va": "center"}
        ax.text(0.99, 0.5, "no difference", fontsize=SMALL, color=GREY, **corner)
