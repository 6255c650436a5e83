"""Partial residuals: what each number says of the response beside the others, and whether it says it in a straight line."""

from typing import TYPE_CHECKING, Any

import numpy as np

from probreg.arguments.scalars import checked
from probreg.assess.after.residuals import residuals
from probreg.assess.before import terms
from probreg.errors import DataError
from probreg.fits.fit import Fit
from probreg.show.plot.observations import smooth
from probreg.show.plot.style import GREY, MANY, footnote, label, mark, paper, shorten, top_legend

if TYPE_CHECKING:
    from matplotlib.figure import Figure

Array = np.ndarray
_MOST, _ACROSS = 12, 3


@checked
def partial(fit: Fit, *columns: str) -> "Figure":
    """Component-plus-residual plots: working residual + b_j (x_j - mean) against x_j.

    The line is b_j (x_j - mean); beside it stands a local-line smooth. There is one panel for each column, and of a
    softmax for each of its predictors.

    Parameters
    ----------
    fit : Fit
        A fit.
    *columns : str
        Names of columns; by default each term that is one numeric column.

    Returns
    -------
    Figure
        A matplotlib figure outside pyplot.

    Raises
    ------
    DataError
        For a name that is no such column.

    References
    ----------
    Ezekiel 1924; Larsen & McCleary 1972.

    Examples
    --------
    >>> import probreg as pr
    >>> fit = pr.fit(pr.Model.from_formula("stack_loss ~ .", pr.load_dataset("stackloss")))
    >>> [ax.get_xlabel() for ax in partial(fit, "air_flow").axes]
    ['air_flow']
    """
    every = residuals(fit, "partial")
    numbers = {t: c[0] for t, c in terms(fit.model.design).items() if _is_number(fit, t, c)}
    if missing := [c for c in columns if c not in numbers]:
        known = ", ".join(numbers) or "none"
        raise DataError(f"{missing[0]!r} is no term that is one numeric column; these are: {known}")
    chosen = list(columns) or list(numbers)[:_MOST]
    if not chosen:
        raise DataError("no term is one numeric column, so that there are no partial residuals to draw")
    outcomes = fit.model.likelihood.outcomes or (None,)
    panels = [(name, k) for name in chosen for k in range(len(outcomes))]
    across = len(outcomes) if 1 < len(outcomes) <= _ACROSS else min(len(panels), _ACROSS)  # a row for each term
    down = -(-len(panels) // across)
    fig, axes = paper(down, across, size=(2.6 * across + 0.8, 2.5 * down + 0.5))
    weights, X = fit.model.design.weights, fit.model.design.X
    used = slice(None) if weights is None else weights > 0
    coef = fit.solution.beta @ fit.model.likelihood.contrast_matrix.T
    for ax, (name, k) in zip(axes.flat, panels, strict=False):
        j = numbers[name]
        mean = float(np.average(X[:, j], weights=weights)) if fit.model.design.intercept is not None else 0.0
        residual = every.sel(term=name).values.reshape(-1, len(outcomes))[fit.model.design.places, k]
        _panel(ax, X[used, j], residual[used], float(coef[j, k]), mean)
        label(ax, x=shorten(name if outcomes[k] is None else f"{name}, {outcomes[k]}", 32))
    for ax in axes.flat[len(panels) :]:
        ax.set_visible(False)
    label(axes[0, 0], y=f"effect on {_scale(fit)}")
    top_legend(fig, axes[0, 0])
    rest = f". {len(numbers) - len(chosen)} more columns can be named" if not columns and len(numbers) > _MOST else ""
    footnote(fig, f"{fit.method.name}: partial residuals{rest}")
    return fig


def _is_number(fit: Fit, term: str, columns: tuple[int, ...]) -> bool:
    return term != "Intercept" and len(columns) == 1 and len(np.unique(fit.model.design.X[:10_000, columns[0]])) > 3


def _scale(fit: Fit) -> str:
    response, link = shorten(fit.model.design.response, 24), fit.model.likelihood.link.name
    if fit.model.likelihood.outcomes:
        return f"log odds of a class of {response}"
    return f"mean of {response}" if link == "identity" else f"{link} of the mean of {response}"


def _panel(ax: Any, x: Array, y: Array, slope: float, mean: float) -> None:
    shown = np.abs(y - np.median(y)) <= 20.0 * np.subtract(*np.quantile(y, [0.75, 0.25])) + 1e-300
    ax.scatter(
        x[shown], y[shown], s=14 if len(x) < 300 else 6, facecolors="none", edgecolors=GREY, linewidths=0.7,
        rasterized=len(x) > MANY,
    )  # fmt: skip
    at = np.linspace(x.min(), x.max(), 60)
    ax.plot(at, slope * (at - mean), color=mark(0).color, linewidth=1.4, label="fitted line")
    ax.plot(at, smooth(x, y, at), color=mark(1).color, linewidth=1.8, linestyle=(0, (5, 1.5)), label="smooth")
    hidden = int((~shown).sum())
    if hidden:
        ax.text(0.98, 0.98, f"{hidden} beyond", transform=ax.transAxes, ha="right", va="top", fontsize=7, color=GREY)
