"""Influential rows: residuals against leverage, with contours of Cook's distance."""

from typing import TYPE_CHECKING, Any

import numpy as np

from probreg.arguments.scalars import Natural, check_arguments
from probreg.assess.after.influence import influence_measures
from probreg.comparison.same_question import method_name
from probreg.fits.fit import Fit
from probreg.show.plot.style import (
    DASHED,
    GREY,
    INK,
    SMALL,
    Size,
    footnote,
    label,
    paper,
    points,
    shorten,
    top_legend,
)

if TYPE_CHECKING:
    from matplotlib.figure import Figure

Array = np.ndarray
_CONTOURS = (0.5, 1.0)


@check_arguments
def leverage(fit: Fit, named: Natural = 3, *, figsize: Size | None = None) -> "Figure":
    """Draw internally studentised residuals against leverage, with lines of equal Cook's distance D = r^2 h / (k (1 - h)).

    For a softmax the residual is a length, and there are no lines. `pr.influence_measures` has the numbers.

    Parameters
    ----------
    fit : Fit
        A fit.
    named : int
        Number of rows with the largest distances to label.
    figsize : pair of float, optional
        Width and height in inches.

    Returns
    -------
    Figure
        A matplotlib figure outside pyplot.

    Examples
    --------
    >>> import probreg as pr
    >>> fit = pr.fit(pr.Model.from_formula("stack_loss ~ .", pr.load_dataset("stackloss")))
    >>> leverage(fit).axes[0].get_xlabel()
    'leverage'
    """
    fig, axes = paper(size=(5.4, 4.0), figsize=figsize)
    n_hidden = against_leverage(axes[0, 0], fit, named)
    top_legend(fig, axes)
    note = f"{method_name(fit)}: {shorten(fit.model.design.response)}"
    if n_hidden:
        note += f". {n_hidden} rows with leverage 1 are not shown"
    footnote(fig, note)
    return fig


def against_leverage(ax: Any, fit: Fit, n_labels: int) -> int:
    """Draw internally studentised residuals against leverage; return the number of rows that have none."""
    influence = influence_measures(fit).isel(obs=fit.model.design.places)
    h, r, cook = (influence[k].values for k in ("leverage", "internal", "cook"))
    several = fit.model.shape[1] > 1
    if not several and np.isfinite(r).any():
        ax.axhline(0.0, color=GREY, linewidth=0.9, linestyle=DASHED, zorder=0)
        # The number of coefficients that Cook's distance divides by: collinear columns count once.
        null = fit.solution.null_space
        _contours(ax, h, r, fit.model.shape[0] - (0 if null is None else null.shape[1]))
    points(ax, h, r)
    label(ax, x="leverage", y="internally studentised residual" + " (length)" * several)
    name_rows(ax, influence["obs"].values, h, r, cook, n_labels)
    return int(np.isnan(r).sum())


def name_rows(
    ax: Any, rows: Array, x: Array, y: Array, size: Array, n_labels: int
) -> None:
    """Label the `n_labels` rows of largest size, each where it covers no other label."""
    taken: list[Any] = []
    for i in np.argsort(-np.nan_to_num(size, nan=-1.0), kind="stable")[:n_labels]:
        if not np.isfinite([x[i], y[i]]).all():
            continue
        # Above the point, on the side with more room, else below it, else on the other side.
        inward = 1 if x[i] <= np.mean(ax.get_xlim()) else -1
        for side, up in (
            (inward, 4),
            (inward, -9),
            (-inward, 4),
            (-inward, -9),
            (inward, 14),
        ):
            text = ax.annotate(
                shorten(rows[i], 16), (x[i], y[i]), xytext=(5 * side, up), textcoords="offset points",
                fontsize=SMALL, color=INK, ha="left" if side > 0 else "right",
            )  # fmt: skip
            box = text.get_window_extent()
            if not any(box.overlaps(placed) for placed in taken):
                taken.append(box)
                break
            text.remove()


def _contours(ax: Any, h: Array, r: Array, k: int) -> None:
    """Draw lines of equal Cook's distance within the axes."""
    reach = np.nanmax(np.abs(r)) * 1.15 + 0.3
    grid = np.linspace(1e-3, min(np.nanmax(h) * 1.1, 0.999), 400)
    for number, distance in enumerate(_CONTOURS):
        edge = np.sqrt(distance * k * (1.0 - grid) / grid)
        shown = edge <= reach
        if shown.any():
            for sign in (1.0, -1.0):
                ax.plot(
                    grid[shown], sign * edge[shown], color=GREY, linewidth=1.1, linestyle=((0, (5, 2)), "-")[number],
                    label=f"Cook's distance {distance:g}" if sign > 0 else None,
                )  # fmt: skip
    ax.set_ylim(-reach, reach)
    ax.set_xlim(0.0, min(np.nanmax(h) * 1.1, 1.0))
