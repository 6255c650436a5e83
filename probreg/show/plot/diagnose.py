"""One figure with the diagnostic pictures that apply to a fit, as R's plot.lm does for linear models."""

from collections.abc import Callable
from typing import TYPE_CHECKING, Any

import numpy as np
from scipy.special import ndtri

from probreg.arguments.scalars import Natural, check_arguments
from probreg.assess.after.influence import influence_measures
from probreg.assess.after.local import local_obstacle
from probreg.fits.fit import Fit
from probreg.likelihoods import OfClasses, OfTrials, UnivariateLikelihood
from probreg.show.plot.leverage import against_leverage, name_rows
from probreg.show.plot.observations import (
    Observations,
    observations,
    observed_quantile_residuals,
)
from probreg.show.plot.reliability import draw_shares, forecasts_of_fit
from probreg.show.plot.residuals import (
    BAND,
    against_fitted,
    against_normal,
    residual_name,
    residual_note,
    spread_against_fitted,
)
from probreg.show.plot.style import (
    DASHED,
    GREY,
    LIGHT,
    MANY,
    Size,
    fitted_name,
    footnote,
    label,
    mark,
    paper,
    points,
    shorten,
    top_legend,
)

if TYPE_CHECKING:
    from matplotlib.figure import Figure

Array = np.ndarray
_CLASSES = 4  # classes in one panel: the first ones
_COUNTS = 25  # bars of a rootogram


@check_arguments
def diagnose(fit: Fit, named: Natural = 3, *, figsize: Size | None = None) -> "Figure":
    """Draw the diagnostics that apply: residuals, quantiles, spread, agreement with the data, leverage, Cook's distance.

    A measured response has the pictures that R draws for a linear model, and the response against its fitted mean. Counts have
    a rootogram: roots of observed and expected frequencies. Events and classes have residuals in bins and calibration.
    Leverage and Cook's distance are left out for likelihoods with kinks and for priors that are not normal.

    Parameters
    ----------
    fit : Fit
        A fit.
    named : int
        Number of rows with the largest Cook's distances to label.
    figsize : pair of float, optional
        Width and height in inches.

    Returns
    -------
    Figure
        A matplotlib figure outside pyplot.

    Raises
    ------
    DataError
        Without rows.
    NotConverged
        Without an estimate.

    References
    ----------
    Kleiber & Zeileis 2016 (rootograms); Gelman & Hill 2007 (residuals in bins).

    Examples
    --------
    >>> import probreg as pr
    >>> fit = pr.fit(pr.Model.from_formula("stack_loss ~ .", pr.load_dataset("stackloss")))
    >>> [ax.get_title(loc="left") for ax in diagnose(fit).axes][:3]
    ['Residuals', 'Quantiles', 'Spread']
    """
    seen = observations(fit)
    if isinstance(fit.model.likelihood, UnivariateLikelihood):
        z = observed_quantile_residuals(fit, seen)
    else:
        z = np.zeros(0)
    panels = _panels_by_title(fit, seen, z, named)
    across = 2 if len(panels) == 4 else 3
    down = -(-len(panels) // across)
    size = (3.5 * across, 3.3 * down)
    fig, axes = paper(down, across, size=size, figsize=figsize)
    for ax, (title, draw) in zip(axes.flat, panels.items()):
        label(ax, title=title)
        draw(ax)
    for ax in axes.flat[len(panels) :]:
        ax.remove()
    top_legend(fig, axes.flat[: len(panels)])
    footnote(fig, f"{residual_note(fit, seen, z)}. Bands: {100 * BAND:g} %")
    return fig


def _panels_by_title(
    fit: Fit, seen: Observations, z: Array, n_labels: int
) -> dict[str, Callable[[Any], object]]:
    likelihood = fit.model.likelihood
    panels: dict[str, Callable[[Any], object]] = {}
    if isinstance(likelihood, OfClasses) and not (
        isinstance(likelihood, OfTrials)
        and isinstance(likelihood, UnivariateLikelihood)
    ):
        panels["Residuals in bins"] = lambda ax: _draw_binned_residuals(ax, fit, seen)
    else:
        panels["Residuals"] = lambda ax: against_fitted(ax, fit, seen, z)
    if isinstance(likelihood, UnivariateLikelihood):
        name = residual_name(likelihood)
        panels["Quantiles"] = lambda ax: against_normal(ax, z, BAND, name)
    if "Residuals" in panels:
        panels["Spread"] = lambda ax: spread_against_fitted(ax, fit)
    if isinstance(likelihood, OfClasses):
        panels["Calibration"] = lambda ax: _draw_calibration(ax, fit, seen)
    elif isinstance(likelihood.support, str):
        panels["Response"] = lambda ax: _draw_response(ax, fit, seen)
    else:
        panels["Rootogram"] = lambda ax: _draw_rootogram(ax, fit, seen)
    if local_obstacle(fit) is None:
        panels["Leverage"] = lambda ax: against_leverage(ax, fit, n_labels)
        panels["Cook's distance"] = lambda ax: _draw_cook(ax, fit, n_labels)
    return panels


def _draw_cook(ax: Any, fit: Fit, n_labels: int) -> None:
    """Draw Cook's distance of each row in the order of the rows."""
    table = influence_measures(fit).isel(obs=fit.model.design.places)
    cook = table["cook"].values
    rows = np.arange(float(len(cook)))
    ax.vlines(rows, 0.0, cook, color=GREY, linewidth=0.8, rasterized=len(rows) > MANY)
    ax.set_xlim(-1.0, float(len(rows)))
    ax.set_ylim(0.0, 1.14 * (float(np.nanmax(cook)) or 1.0))
    name_rows(ax, table["obs"].values, rows, cook, cook, n_labels)
    label(ax, x="row", y="Cook's distance")


def _draw_response(ax: Any, fit: Fit, seen: Observations) -> None:
    """Draw the response against its fitted mean, and the diagonal."""
    ends = [min(seen.mean.min(), seen.y.min()), max(seen.mean.max(), seen.y.max())]
    ax.plot(ends, ends, color=GREY, linewidth=0.9, linestyle=DASHED, zorder=0)
    points(ax, seen.mean, seen.y)
    label(ax, x=fitted_name(fit), y=shorten(fit.model.design.response))


def _draw_rootogram(ax: Any, fit: Fit, seen: Observations) -> None:
    """Draw the roots of the observed (bars) and expected (line) frequencies of each count or group of counts."""
    y = seen.y
    w = seen.weights
    upper = float(y.max()) + 1.0
    step = int(np.ceil(upper / _COUNTS))
    edges = np.arange(0.0, upper + step, step)
    observed = np.histogram(y, edges - 0.5, weights=w)[0]
    # E sum_i w_i 1[a <= Y_i < b] = sum_i w_i (F_i(b - 1) - F_i(a - 1)), and F_i(-1) = 0
    below = [
        float((w * seen.predictive.cdf(np.full(len(y), edge - 1.0))).sum())
        for edge in edges[1:]
    ]
    expected = np.diff([0.0, *below])
    middle = (edges[:-1] + edges[1:] - 1.0) / 2.0
    look = mark(0)
    ax.bar(middle, np.sqrt(observed), width=0.8 * step, color=LIGHT, label="observed")
    style = {"color": look.color, "markersize": 3.5, "linewidth": 1.2}
    ax.plot(middle, np.sqrt(expected), "o-", label="expected", **style)
    label(ax, x=shorten(fit.model.design.response), y="root of the number of rows")


def _draw_binned_residuals(ax: Any, fit: Fit, seen: Observations) -> None:
    """Draw observed minus predicted shares in bins, with the band of shares that agree with the predictions."""
    panels = forecasts_of_fit(fit, seen)[0][:_CLASSES]
    ax.axhline(0.0, color=GREY, linewidth=0.9, linestyle=DASHED, zorder=0)
    for k, panel in enumerate(panels):
        look = mark(k)
        decomposition = panel.decompose()
        p = decomposition.forecast
        if len(panels) == 1:
            half = ndtri((1.0 + BAND) / 2.0) * np.sqrt(
                p * (1.0 - p) / decomposition.count
            )
            ax.fill_between(p, -half, half, color=LIGHT, alpha=0.7, linewidth=0)
        style = {"color": look.color, "markerfacecolor": look.fill, "markersize": 5}
        ax.plot(p, decomposition.observed - p, look.marker, linestyle=look.line, linewidth=0.7, label=panel.title, **style)  # fmt: skip
    label(ax, x="predicted probability", y="observed − predicted share")


def _draw_calibration(ax: Any, fit: Fit, seen: Observations) -> None:
    """Draw observed shares against predicted probabilities."""
    for k, panel in enumerate(forecasts_of_fit(fit, seen)[0][:_CLASSES]):
        draw_shares(ax, panel.decompose(), BAND, mark(k))
    label(ax, x="predicted probability", y="observed share")
