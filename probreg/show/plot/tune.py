"""What a criterion said of every scale of a prior, and which it chose."""

from typing import TYPE_CHECKING, Any

import numpy as np

from probreg.arguments.scalars import check_arguments
from probreg.comparison.tuning import TuningResult
from probreg.show.plot.style import (
    GREY,
    INK,
    LIGHT,
    Size,
    footnote,
    label,
    mark,
    paper,
    plain_axes,
    say,
    top_legend,
)

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure

Array = np.ndarray
_WORDS = {
    "cv": "held-out {loss}\nper observation",
    "loo": "leave-one-out {loss}\nper observation",
    "psis": "leave-one-out negative log\npredictive density per observation",
    "evidence": "negative log evidence (nats)",
    "aic": "AIC",
    "bic": "BIC",
}


@check_arguments
def tune(
    found: TuningResult, *, ax: "Axes | None" = None, figsize: Size | None = None
) -> "Figure":
    """The score of every scale with one standard error each way, and lines at the least and at the chosen scale.

    A band is one standard error above the least; effective degrees of freedom stand on top.

    Parameters
    ----------
    found : TuningResult
        What `pr.tune` returned.
    ax : Axes, optional
        Where to draw; by default on a new figure.
    figsize : pair of float, optional
        Width and height in inches.

    Returns
    -------
    Figure
        A matplotlib figure outside pyplot, or that of `ax`.

    Examples
    --------
    >>> import probreg as pr
    >>> from probreg.comparison.tuning import tune as tuned
    >>> model = pr.Model.from_formula("stack_loss ~ .", pr.load_dataset("stackloss"), prior=pr.Normal(1.0, scaled=True))
    >>> tune(tuned(model, "aic")).axes[0].get_ylabel()
    'AIC'
    """
    table = found.table
    scales, score, se = (
        np.asarray(v, dtype=float) for v in (table.index, table["score"], table["se"])
    )
    fig, axes = paper(size=(6.6, 4.3), figsize=figsize, ax=ax)
    one = axes[0, 0]
    look = mark(0)
    one.set_xscale("log")
    if np.isfinite(se).any():
        one.fill_between(
            scales,
            score - se,
            score + se,
            color=LIGHT,
            linewidth=0,
            label="score ± 1 SE",
        )
        reach = float(score[scales == found.best][0] + se[scales == found.best][0])
        one.axhline(
            reach,
            color=GREY,
            linewidth=0.9,
            linestyle=(0, (1.5, 2)),
            label="least + 1 SE",
        )
    one.plot(
        scales,
        score,
        look.marker,
        linestyle="-",
        color=look.color,
        markersize=2.6,
        linewidth=1.2,
        label="score",
    )
    # The chosen scale, and that of the least score where it is another.
    one.axvline(
        found.scale,
        color=INK,
        linewidth=1.1,
        linestyle=(0, (5, 3)),
        label=f"chosen: {found.scale:.3g}",
    )
    if found.best != found.scale:
        one.axvline(
            found.best,
            color=GREY,
            linewidth=1.1,
            linestyle="-",
            label=f"least: {found.best:.3g}",
        )
    # The height of what matters: scores that soar at one end are cut off.
    known = score[np.isfinite(score)]
    low = float(known.min())
    middle = float(np.median(known))
    if np.isfinite(se).any():
        spread = float(np.nanmax(se))
    else:
        spread = 0.0
    high = min(float(known.max()) + spread, low + 6.0 * max(middle - low, spread))
    if high > low:
        pad = 0.08 * (high - low)
        one.set_ylim(low - max(spread, 0.0) - pad, high + pad)
    _on_top(one, scales, np.asarray(table["df"], dtype=float))
    loss = found.said.split(
        "held-out " if found.criterion.name == "cv" else "leave-one-out "
    )[-1].split(" per ")[0]
    label(
        one,
        x="factor on the scales of the prior (small: strong prior)",
        y=_WORDS.get(found.criterion.name, found.criterion.name).format(loss=loss),
    )
    top_legend(fig, one, ax)
    footnote(fig, say(found.said), ax)
    return fig


def _on_top(ax: Any, scales: Array, df: Array) -> None:
    top = ax.secondary_xaxis("top")
    plain_axes(top)
    if len(scales) > 1:
        at = np.geomspace(scales[0], scales[-1], 8)
    else:
        at = scales
    top.set_xticks(at, [f"{v:.1f}" for v in np.interp(np.log(at), np.log(scales), df)])
    top.minorticks_off()
    top.spines["top"].set_visible(False)
    label(top, x="effective degrees of freedom")
