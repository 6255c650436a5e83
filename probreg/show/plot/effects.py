"""The effects of groups with their intervals: a panel for each effect, of a softmax for each of its outcomes."""

from typing import TYPE_CHECKING, Any

import numpy as np

from probreg.arguments.scalars import Probability, Word, check_arguments
from probreg.fits.effects_table import effects_called
from probreg.fits.fit import Fit
from probreg.show.plot.parameters import Order, Rename, names_to_show
from probreg.show.plot.style import (
    DASHED,
    GREY,
    LIGHT,
    SMALL,
    Size,
    few_ticks,
    footnote,
    label,
    mark,
    paper,
    room,
    shorten,
)

if TYPE_CHECKING:
    from matplotlib.figure import Figure

Array = np.ndarray
MOST = 60  # groups in one picture
_PANELS, _ACROSS = 6, 3  # in a picture, and in a row
_NAME = 28  # letters of the name of a group
_HIGH = 0.15  # inches that a group takes up
_PAD = 0.05  # of the width, free at each side of the longest interval


@check_arguments
def effects(
    fit: Fit,
    group: Word | None = None,
    prob: Probability = 0.95,
    *,
    rename: Rename | None = None,
    sort: Order | None = "estimate",
    figsize: Size | None = None,
) -> "Figure":
    """The effects of each group with intervals of probability `prob`: the picture of `fit.effects`.

    There is a panel for each effect, of a softmax for each of its outcomes, and a line for each group, in the same order in
    all panels. Of more than 60 groups the 30 with the smallest and the 30 with the largest first effect are drawn, and of
    more than 6 panels the first 6.

    Parameters
    ----------
    fit : Fit
        A fit with effects that vary by a group.
    group : str, optional
        The grouping factor; needed where there are several.
    prob : float
        Probability of every interval, between 0 and 1.
    rename : mapping from str to str, optional
        New names of the factor, its levels, effects or outcomes, for the picture alone.
    sort : {"estimate", "name"} or None
        From the largest first effect down, by name as shown, or in the order of the levels.
    figsize : pair of float, optional
        Width and height in inches.

    Returns
    -------
    Figure
        A matplotlib figure outside pyplot.

    Raises
    ------
    DataError
        For a grouping factor that is not there, where there are several and none is named, and for a name in `rename`
        that is none of the picture's.
    Incompatible
        For a model without such effects, and a fit without standard errors.

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
    of = effects_called(fit.model, factor)
    outcomes = fit.model.likelihood.outcomes or ("",)
    size = (len(of.levels), len(of.effects) * len(outcomes))
    mean, lower, upper = (
        table[name].to_numpy(dtype=float).reshape(size)
        for name in ("estimate", "lower", "upper")
    )
    words = names_to_show(
        list(dict.fromkeys([factor, *of.levels, *of.effects, *filter(None, outcomes)])),
        rename,
    )
    panels = [
        f"{words[e]}, {words[o]}" if o else words[e]
        for e in of.effects
        for o in outcomes
    ]
    levels = tuple(words[level] for level in of.levels)
    order = _order(mean[:, 0], levels, sort)
    drawn = min(len(panels), _PANELS)
    across = min(drawn, _ACROSS)
    down = -(-drawn // across)
    fig, axes = paper(
        down,
        across,
        size=(2.6 * across + 2.0, down * (0.6 + _HIGH * max(len(order), 4)) + 0.5),
        figsize=figsize,
    )
    for k, ax in enumerate(axes.flat):
        ax.set_visible(k < drawn)
    names = [shorten(levels[g], _NAME) for g in order]
    for k in range(drawn):
        ax = axes.flat[k]
        _draw_group_lines(ax, mean[order, k], lower[order, k], upper[order, k])
        label(ax, title=shorten(panels[k], max(int(room(ax)[0] * 11.0), 8)))
        ax.set_yticks(
            range(len(order)), names if k % across == 0 else [""] * len(order)
        )
        ax.tick_params(axis="y", length=0, labelsize=_letters(ax, len(order)))
    label(axes[0, 0], y=shorten(words[factor].replace("`", ""), 32))
    footnote(
        fig,
        _caption(
            fit, prob, (len(order), len(of.levels)), (drawn, len(panels)), panels[0]
        ),
    )
    return fig


def _order(first: Array, levels: tuple[str, ...], sort: Order | None) -> list[int]:
    """The groups that are drawn, from the top down; of many those whose first effect is extreme."""
    by_size = [int(g) for g in np.argsort(-first, kind="stable")]
    if len(by_size) <= MOST:
        kept = by_size
    else:
        kept = by_size[: MOST // 2] + by_size[-(MOST // 2) :]
    if sort == "estimate":
        return kept
    if sort == "name":
        return sorted(kept, key=lambda g: levels[g])
    return sorted(kept)


def _draw_group_lines(ax: Any, mean: Array, lower: Array, upper: Array) -> None:
    """A line for each group: its conditional mean and its interval."""
    ax.spines["left"].set_visible(False)
    look = mark(0)
    at = np.arange(len(mean))
    ax.hlines(
        at,
        0,
        1,
        transform=ax.get_yaxis_transform(),
        color=LIGHT,
        linewidth=0.5,
        zorder=0,
    )
    ax.axvline(0.0, color=GREY, linewidth=0.9, linestyle=DASHED, zorder=0)
    ax.hlines(at, lower, upper, color=look.color, linewidth=1.5)
    ax.plot(
        mean,
        at,
        look.marker,
        color=look.color,
        markersize=4.5 if len(mean) <= MOST // 2 else 3.5,
    )
    low = min(float(lower.min()), 0.0)
    high = max(float(upper.max()), 0.0)
    pad = _PAD * ((high - low) or 1.0)
    few_ticks(ax)
    ax.set_xlim(low - pad, high + pad)
    ax.set_ylim(len(mean) - 0.4, -0.6)


def _letters(ax: Any, lines: int) -> float:
    """Points of the names of groups, no higher than their lines, as far as they can be read."""
    return float(np.clip(room(ax)[1] * 72.0 / (1.25 * max(lines, 1)), 4.5, SMALL))


def _caption(
    fit: Fit, prob: float, groups: tuple[int, int], panels: tuple[int, int], first: str
) -> str:
    """What the marks and lines are, and what is not drawn."""
    method = fit.described["method"].partition(",")[0]
    share = f"{100 * prob:g} % intervals of effects"
    if fit.target == "posterior":
        said = [f"{method}: posterior means and {share}"]
    else:
        said = [f"{method}: conditional means and {share} given the data"]
        said += ["standard deviations and correlations are taken as known"]
    if fit.model.likelihood.link.name != "identity" or fit.model.likelihood.outcomes:
        said += ["on the scale of the linear predictor"]
    if groups[0] < groups[1]:
        said += [
            f"{groups[0]} of {groups[1]} groups, those with the smallest and the largest {first}"
        ]
    if panels[0] < panels[1]:
        said += [f"{panels[0]} of {panels[1]} panels"]
    return "; ".join(said)
