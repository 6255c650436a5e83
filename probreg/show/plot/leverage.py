"""Which rows decide the fit: residuals against leverage, with contours of Cook's distance."""

from typing import TYPE_CHECKING, Any

import numpy as np

from probreg.arguments.scalars import Natural, check_arguments
from probreg.assess.after.influence_measures import influence_measures
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
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure

Array = np.ndarray
_CONTOURS = (0.5, 1.0)


@check_arguments
def leverage(
    fit: Fit,
    named: Natural = 3,
    *,
    ax: "Axes | None" = None,
    figsize: Size | None = None,
) -> "Figure":
    """Internally studentised residuals against leverage, with lines of equal Cook's distance D = r^2 h / (k (1 - h)).

    For a softmax the residual is a length, and there are no lines. Errors are those of `pr.influence_measures`.

    Parameters
    ----------
    fit : Fit
        A fit.
    named : int
        The rows with so many largest distances carry their labels.
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
    >>> fit = pr.fit(pr.Model.from_formula("stack_loss ~ .", pr.load_dataset("stackloss")))
    >>> leverage(fit).axes[0].get_xlabel()
    'leverage'
    """
    fig, axes = paper(size=(5.4, 4.0), figsize=figsize, ax=ax)
    lost = against_leverage(axes[0, 0], fit, named)
    top_legend(fig, axes[0, 0], ax)
    if lost:
        alone = f"{lost} rows that alone decide their fit are not shown"
    else:
        alone = ""
    footnote(
        fig,
        ". ".join(
            t
            for t in (
                f"{method_name(fit)}: {shorten(fit.model.design.response)}",
                alone,
            )
            if t
        ),
        ax,
    )
    return fig


def against_leverage(ax: Any, fit: Fit, named: int) -> int:
    """Internally studentised residuals against leverage; the number of rows that have none, and are not drawn."""
    found = influence_measures(fit).isel(obs=fit.model.design.places)
    h, r, cook = (found[k].values for k in ("leverage", "internal", "cook"))
    several = fit.model.shape[1] > 1
    if not several and np.isfinite(r).any():
        ax.axhline(0.0, color=GREY, linewidth=0.9, linestyle=DASHED, zorder=0)
        # The number of coefficients that Cook's distance divides by: collinear columns count once.
        null = fit.solution.null_space
        _contours(ax, h, r, fit.model.shape[0] - (0 if null is None else null.shape[1]))
    points(ax, h, r)
    label(ax, x="leverage", y="internally studentised residual" + " (length)" * several)
    name_rows(ax, found["obs"].values, h, r, cook, named)
    return int(np.isnan(r).sum())


def name_rows(
    ax: Any, rows: Array, x: Array, y: Array, size: Array, named: int
) -> None:
    """The labels of the `named` rows of largest size, each where it covers no other."""
    taken: list[Any] = []
    for i in np.argsort(-np.nan_to_num(size, nan=-1.0), kind="stable")[:named]:
        if not np.isfinite([x[i], y[i]]).all():
            continue
        # Above the point, on the side with more room, else below it, else on the other side.
        near = 1 if x[i] <= np.mean(ax.get_xlim()) else -1
        for side, up in ((near, 4), (near, -9), (-near, 4), (-near, -9), (near, 14)):
            text = ax.annotate(
                shorten(rows[i], 16), (x[i], y[i]), xytext=(5 * side, up), textcoords="offset points",
                fontsize=SMALL, color=INK, ha="left" if side > 0 else "right",
            )  # fmt: skip
            box = text.get_window_extent()
            if not any(box.overlaps(other) for other in taken):
                taken.append(box)
                break
            text.remove()


def _contours(ax: Any, h: Array, r: Array, k: int) -> None:
    """Only where the axes, which the rows set, hold them."""
    reach = np.nanmax(np.abs(r)) * 1.15 + 0.3
    at = np.linspace(1e-3, min(np.nanmax(h) * 1.1, 0.999), 400)
    for number, distance in enumerate(_CONTOURS):
        edge = np.sqrt(distance * k * (1.0 - at) / at)
        shown = edge <= reach
        if shown.any():
            for sign in (1.0, -1.0):
                ax.plot(
                    at[shown], sign * edge[shown], color=GREY, linewidth=1.1, linestyle=((0, (5, 2)), "-")[number],
                    label=f"Cook's distance {distance:g}" if sign > 0 else None,
                )  # fmt: skip
    ax.set_ylim(-reach, reach)
    ax.set_xlim(0.0, min(np.nanmax(h) * 1.1, 1.0))
