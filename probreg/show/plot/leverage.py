"""Which rows decide the fit: residuals against leverage, with contours of Cook's distance."""

from typing import TYPE_CHECKING, Any

import numpy as np

from probreg.arguments.scalars import Natural, checked
from probreg.assess.after.influence_measures import influence_measures
from probreg.fits.fit import Fit
from probreg.show.plot.style import GREY, INK, MANY, SMALL, footnote, label, mark, paper, shorten, top_legend

if TYPE_CHECKING:
    from matplotlib.figure import Figure

Array = np.ndarray
_CONTOURS = (0.5, 1.0)


@checked
def leverage(fit: Fit, named: Natural = 3) -> "Figure":
    """Internally studentised residuals against leverage, with lines of equal Cook's distance D = r^2 h / (k (1 - h)).

    For a softmax the residual is a length, and there are no lines. Errors are those of `pr.influence_measures`.

    Parameters
    ----------
    fit : Fit
        A fit.
    named : int
        The rows with so many largest distances carry their labels.

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
    found = influence_measures(fit).isel(obs=fit.model.design.places)
    h, r, cook = (found[k].values for k in ("leverage", "internal", "cook"))
    several = fit.model.shape[1] > 1
    fig, axes = paper(size=(5.4, 3.8))
    ax = axes[0, 0]
    if not several:
        ax.axhline(0.0, color=GREY, linewidth=0.9, linestyle=(0, (4, 2)), zorder=0)
    look = mark(0)
    ax.scatter(
        h, r, s=16 if len(h) < 300 else 7, facecolors="none", edgecolors=look.color, linewidths=0.8,
        rasterized=len(h) > MANY,
    )  # fmt: skip
    _names(ax, found["obs"].values, h, r, cook, named)
    if not several:
        # The number of coefficients that Cook's distance divides by: collinear columns count once.
        null = fit.solution.null_space
        _contours(ax, h, r, fit.model.shape[0] - (0 if null is None else null.shape[1]))
    label(ax, x="leverage", y="internally studentised residual" + " (length)" * several)
    top_legend(fig, ax)
    lost = int(np.isnan(r).sum())
    alone = f"{lost} rows that alone decide their fit are not shown" if lost else ""
    footnote(fig, ". ".join(t for t in (f"{fit.method.name}: {shorten(fit.model.design.response)}", alone) if t))
    return fig


def _names(ax: Any, rows: Array, h: Array, r: Array, cook: Array, named: int) -> None:
    order = np.argsort(-np.nan_to_num(cook, nan=-1.0))[: max(named, 0)]
    for i in order:
        if np.isfinite(r[i]):
            left = h[i] > 0.5 * np.nanmax(h)
            ax.annotate(
                shorten(rows[i], 16), (h[i], r[i]), xytext=(-5 if left else 5, 4), textcoords="offset points",
                fontsize=SMALL, color=INK, ha="right" if left else "left",
                bbox={"facecolor": "white", "edgecolor": "none", "pad": 0.3, "alpha": 0.8},
            )  # fmt: skip


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
