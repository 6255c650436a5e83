"""Group effects with their intervals: one panel for each effect, and for each outcome of a softmax."""

from typing import TYPE_CHECKING, Any

import numpy as np

from probreg.arguments.scalars import Probability, Word, check_arguments
from probreg.fits.effects_table import effects_called
from probreg.fits.fit import Fit
from probreg.show.plot.style import (
    DASHED,
    GREY,
    LIGHT,
    SMALL,
    Size,
    axes_size,
    few_ticks,
    footnote,
    label,
    mark,
    paper,
    shorten,
)

if TYPE_CHECKING:
    from matplotlib.figure import Figure

Array = np.ndarray
MOST = 60  # groups in one picture
_PANELS, _ACROSS = 6, 3  # panels in a picture, and in a row
_HEIGHT = 0.15  # inches for each group
_PAD = 0.05  # share of the width left free at each side of the longest interval


@check_arguments
def effects(
    fit: Fit,
    group: Word | None = None,
    prob: Probability = 0.95,
    *,
    figsize: Size | None = None,
) -> "Figure":
    """Draw the effects of each group with intervals of probability `prob`, as in `fit.effects`.

    Groups are in the order of the first effect, the largest at the top. If there are more than 60 groups, only the 30 with the
    smallest and the 30 with the largest first effect are drawn; if there are more than 6 panels, the first 6.

    Parameters
    ----------
    fit : Fit
        A fit with effects that vary by a group.
    group : str, optional
        The grouping factor; needed if there are several.
    prob : float
        Probability of the intervals, between 0 and 1.
    figsize : pair of float, optional
        Width and height in inches.

    Returns
    -------
    Figure
        A matplotlib figure outside pyplot.

    Raises
    ------
    DataError
        For an unknown grouping factor, and if there are several and `group` is missing.
    Incompatible
        For a model without such effects, and for a fit without standard errors.

    Examples
    --------
    >>> import probreg as pr
    >>> data = {"y": [1.0, 2.0, 1.5, 4.0, 5.0, 4.5, 2.0, 3.0, 2.5], "g": [*"aaabbbccc"]}
    >>> fit = pr.fit(pr.Model.from_formula("y ~ 1 + (1 | g)", data))
    >>> [text.get_text() for text in effects(fit).axes[0].get_yticklabels()]
    ['b', 'c', 'a']
    """
    table = fit.effects(group, prob)
    factor = table.attrs["groups"]
    grouped = effects_called(fit.model, factor)
    outcomes = fit.model.likelihood.outcomes or ("",)
    titles = [
        ", ".join(filter(None, (e, o))) for e in grouped.effects for o in outcomes
    ]
    size = (len(grouped.levels), len(titles))
    mean, lower, upper = (
        table[name].to_numpy(dtype=float).reshape(size)
        for name in ("estimate", "lower", "upper")
    )
    order = np.argsort(-mean[:, 0], kind="stable")
    if len(order) > MOST:
        order = np.r_[order[: MOST // 2], order[-(MOST // 2) :]]
    names = [shorten(grouped.levels[g], 28) for g in order]
    count = min(len(titles), _PANELS)
    cols = min(count, _ACROSS)
    rows = -(-count // cols)
    height = rows * (0.6 + _HEIGHT * max(len(order), 4)) + 0.5
    fig, axes = paper(rows, cols, size=(2.6 * cols + 2.0, height), figsize=figsize)
    for k, ax in enumerate(axes.flat):
        ax.set_visible(k < count)
    for k, ax in enumerate(axes.flat[:count]):
        _draw_groups(ax, mean[order, k], lower[order, k], upper[order, k])
        label(ax, title=shorten(titles[k], max(int(axes_size(ax)[0] * 11.0), 8)))
        ax.set_yticks(range(len(order)), names if k % cols == 0 else [""] * len(order))
        letter = axes_size(ax)[1] * 72.0 / (1.25 * max(len(order), 1))
        ax.tick_params(axis="y", length=0, labelsize=float(np.clip(letter, 4.5, SMALL)))
    label(axes[0, 0], y=shorten(factor.replace("`", ""), 32))
    notes = [_describe_intervals(fit, prob)]
    if len(order) < len(grouped.levels):
        notes += [
            f"{len(order)} of {len(grouped.levels)} groups, those with the smallest and the largest {titles[0]}"
        ]
    if count < len(titles):
        notes += [f"{count} of {len(titles)} panels"]
    footnote(fig, "; ".join(notes))
    return fig


def _draw_groups(ax: Any, mean: Array, lower: Array, upper: Array) -> None:
    """Draw one line for each group: its conditional mean and its interval."""
    look = mark(0)
    y = np.arange(len(mean))
    across = {"transform": ax.get_yaxis_transform(), "zorder": 0}
    ax.spines["left"].set_visible(False)
    ax.hlines(y, 0, 1, color=LIGHT, linewidth=0.5, **across)
    ax.axvline(0.0, color=GREY, linewidth=0.9, linestyle=DASHED, zorder=0)
    ax.hlines(y, lower, upper, color=look.color, linewidth=1.5)
    size = 4.5 if len(mean) <= MOST // 2 else 3.5
    ax.plot(mean, y, look.marker, color=look.color, markersize=size)
    low = min(float(lower.min()), 0.0)
    high = max(float(upper.max()), 0.0)
    pad = _PAD * ((high - low) or 1.0)
    few_ticks(ax)
    ax.set_xlim(low - pad, high + pad)
    ax.set_ylim(len(mean) - 0.4, -0.6)


def _describe_intervals(fit: Fit, prob: float) -> str:
    method = fit.described["method"].partition(",")[0]
    share = f"{100 * prob:g} % intervals of effects"
    if fit.target == "posterior":
        text = f"{method}: posterior means and {share}"
    else:
        text = f"{method}: conditional means and {share} given the data; standard deviations and correlations are taken as known"
    if fit.model.likelihood.link.name != "identity" or fit.model.likelihood.outcomes:
        text += "; on the scale of the linear predictor"
    return text
