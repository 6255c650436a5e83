"""Why two fits differ, as a waterfall for each parameter: from one estimate to the other, cause by cause."""

from typing import TYPE_CHECKING, Any, Literal

import numpy as np

from probreg.arguments.scalars import check_arguments
from probreg.comparison.explanation import Explanation
from probreg.show.plot.parameters import Rename, names_to_show
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
def explain(
    explanation: Explanation,
    *,
    rename: Rename | None = None,
    sort: Literal["difference", "name"] | None = None,
    figsize: Size | None = None,
) -> "Figure":
    """The way from the baseline's estimate to the other, one panel per parameter and one bar per cause.

    A bar is as long as the share of its cause, in the units of the parameter, and begins where the one above it ends. The
    largest stand first; those under 2 % of the largest are one bar. Above and below stand the two estimates, with a
    standard error to either side. At most 12 parameters are drawn.

    Parameters
    ----------
    explanation : Explanation
        What `pr.explain` returned.
    rename : mapping from str to str, optional
        New names of parameters, for the titles and in the names of their priors.
    sort : {"difference", "name"}, optional
        Panels by the difference in standard errors, the largest first, or by name as shown; as in the fit by default.
    figsize : pair of float, optional
        Width and height in inches.

    Returns
    -------
    Figure
        A matplotlib figure outside pyplot.

    Raises
    ------
    DataError
        For a name in `rename` that is no parameter.

    Examples
    --------
    >>> import probreg as pr
    >>> model = pr.Model.from_arrays([[2.0], [3.0], [4.0], [6.0]], [5.0, 7.0, 9.0, 13.5], columns=["dose"])
    >>> found = pr.explain(pr.fit(model), pr.fit(model.with_prior(pr.Normal(1.0))))
    >>> [ax.get_title(loc="left") for ax in explain(found).axes]
    ['Intercept', 'dose', 'sigma']
    """
    params = [str(p) for p in explanation.shares["param"].values]
    words = names_to_show(params, rename)
    priors = {f"prior of {p}": f"prior of {word}" for p, word in words.items()}
    if sort == "difference":
        apart = np.abs(explanation.shares["difference"].values)
        params = [
            params[i]
            for i in np.argsort(-np.nan_to_num(apart, nan=np.inf), kind="stable")
        ]
    elif sort == "name":
        params = sorted(params, key=lambda p: words[p])
    shown = params[:MOST]
    bars = [_bars(explanation, p) for p in shown]
    cols = 1 if len(shown) <= 3 else 2
    deep = -(-len(shown) // cols)
    height = max(map(len, bars)) + 2
    fig, axes = paper(
        deep, cols, size=(7.4, deep * (0.55 + 0.24 * height) + 0.4), figsize=figsize
    )
    for ax, param, steps in zip(axes.flat, shown, bars):
        named = [(priors.get(cause, cause), size) for cause, size in steps]
        _draw_explanation(ax, explanation, param, named, narrow=cols > 1)
        label(ax, title=shorten(words[param]))
    for ax in list(axes.flat)[len(shown) :]:
        ax.set_visible(False)
    if len(params) > MOST:
        left_out = f"; the first {MOST} of {len(params)} parameters"
    else:
        left_out = ""
    if explanation.without_path:
        why = f"; {explanation.without_path}"
    else:
        why = ""
    said = "bars: filled moves up, hollow moves down; estimates with a standard error to either side, in the units of each parameter"
    footnote(fig, f"{said}{left_out}{why}")
    return fig


def _bars(explanation: Explanation, param: str) -> list[tuple[str, float]]:
    """Causes with their shares in the units of the parameter, the largest first, slight ones together."""
    one = explanation.shares.sel(param=param)
    every = dict(
        zip(
            map(str, one["cause"].values),
            (one["shift"].values * float(one["baseline_se"])).tolist(),
        )
    )
    order = sorted((c for c in every if every[c]), key=lambda c: -abs(every[c]))
    kept = [c for c in order if abs(every[c]) > _SLIGHT * abs(every[order[0]])][:CAUSES]
    rest = [every[c] for c in order if c not in kept]
    return [(c, every[c]) for c in kept] + (
        [(f"{len(rest)} smaller", float(sum(rest)))] if rest else []
    )


def _draw_explanation(
    ax: Any,
    explanation: Explanation,
    param: str,
    steps: list[tuple[str, float]],
    narrow: bool,
) -> None:
    one = explanation.shares.sel(param=param)
    ends = [(float(one[e]), float(one[f"{e}_se"])) for e in ("baseline", "other")]
    at = ends[0][0]
    last = len(steps) + 1
    for row, (value, se) in zip((0, last), ends):
        look = mark(row and 1)
        if np.isfinite(se):
            ax.plot(
                [value - se, value + se],
                [row, row],
                color=look.color,
                linewidth=1.8,
                solid_capstyle="butt",
            )
        ax.plot(
            [value],
            [row],
            look.marker,
            color=look.color,
            markerfacecolor=look.fill,
            markersize=6,
        )
    for row, (_, size) in enumerate(steps, start=1):
        look = mark(0 if size > 0 else 1)
        ax.plot([at, at], [row - 1, row + 0.32], color=GREY, linewidth=0.7, zorder=0)
        fill = look.color if size > 0 else "white"
        ax.barh(
            row,
            size,
            left=at,
            height=0.56,
            color=fill,
            edgecolor=look.color,
            linewidth=1.2,
        )
        at += size
    ax.plot([at, at], [last - 1.32, last], color=GREY, linewidth=0.7, zorder=0)
    ax.set_ylim(last + 0.6, -0.6)
    ax.set_yticks(
        range(last + 1),
        [
            shorten(w, 30)
            for w in (
                explanation.names[0],
                *(c for c, _ in steps),
                explanation.names[1],
            )
        ],
    )
    ax.spines["left"].set_visible(False)
    ax.tick_params(axis="y", length=0)
    few_ticks(ax)
    if narrow:  # the names of causes take half of the width
        ax.locator_params(axis="x", nbins=3)
    for row in range(last + 1):
        ax.axhline(row, color=LIGHT, linewidth=0.4, zorder=-1)
    if not steps:
        ax.text(
            0.99,
            0.5,
            "no difference",
            transform=ax.transAxes,
            fontsize=SMALL,
            color=GREY,
            ha="right",
            va="center",
        )
