"""Reliability diagram: forecasts of an event against the shares in which it happened, with the parts of the Brier score."""

from collections.abc import Mapping
from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np
from scipy.special import bdtrik

from probreg.arguments.scalars import Probability, check_arguments
from probreg.comparison.same_question import method_name
from probreg.errors import DataError, Incompatible
from probreg.fits.fit import Fit
from probreg.likelihoods import OfClasses, UnivariateLikelihood
from probreg.scores import Decomposition, decompose
from probreg.show.plot.observations import observations
from probreg.show.plot.style import (
    DASHED,
    GREY,
    LIGHT,
    SMALL,
    Size,
    footnote,
    label,
    mark,
    paper,
    shorten,
)

if TYPE_CHECKING:
    from matplotlib.figure import Figure

Array = np.ndarray
_FEW = 12  # distinct forecasts that are shown one by one
_STROKES = 25  # bars of the histogram of forecasts


class _Panel(NamedTuple):
    title: str | None
    p: Array
    hit: Array


@check_arguments
def reliability(
    y: Any,
    forecasts: Any = None,
    *,
    prob: Probability = 0.95,
    weights: Any = None,
    event: str = "the event",
    figsize: Size | None = None,
) -> "Figure":
    """Observed shares against forecasts, group by group, and below how often each was made.

    There is one panel per forecaster or class. A grey bar holds the share of a group with probability `prob` if its
    forecasts are right (binomial, at the mean forecast of the group); points outside it are the news. The corner says
    what the Brier score is made of. Up to 12 distinct forecasts are groups of their own, more are cut into at most ten
    groups of about equal size.

    Parameters
    ----------
    y : array (n,) or Fit
        Outcomes 0/1 or classes, or a Fit alone, at its own rows, which flatters it.
    forecasts : array (n,) or (n, K) or mapping, optional
        Probabilities, or several forecasters by name.
    prob : float
        Probability of every interval or band, between 0 and 1.
    weights : array (n,), optional
        Frequencies of the rows.
    event : optional
        The level whose probability is meant.
    figsize : pair of float, optional
        Width and height in inches.

    Returns
    -------
    Figure
        A matplotlib figure outside pyplot.

    Raises
    ------
    DataError
        For what is no probability.
    Incompatible
        For a Fit of another response.

    References
    ----------
    Broecker & Smith 2007 (the bars).

    Examples
    --------
    >>> fig = reliability([0, 1, 1, 0, 1, 1], [0.2, 0.2, 0.9, 0.2, 0.9, 0.9], event="rain")
    >>> [ax.get_ylabel() for ax in fig.axes]
    ['observed share', 'forecasts']
    """
    panels, x_label, weights, note = _read_panels(y, forecasts, weights, event)
    cols = min(len(panels), 3)
    deep = -(-len(panels) // cols)
    wide = 3.8 if cols == 1 else 7.2
    high = 3.9 if cols == 1 else 7.2 / cols * 1.25 + 0.5
    ratios = [4.0, 1.0] * deep
    fig, axes = paper(
        2 * deep,
        cols,
        size=(wide, deep * high),
        figsize=figsize,
        sharex=True,
        sharey="row",
        height_ratios=ratios,
    )
    for ax in axes.flat:
        ax.set_visible(False)
    for i, panel in enumerate(panels):
        at = 2 * (i // cols)
        column = i % cols
        top = axes[at, column]
        below = axes[at + 1, column]
        _draw_reliability(top, below, panel, weights, prob)
        label(top, y="observed share" if not column else None, title=panel.title)
        label(below, x=x_label, y="forecasts" if not column else None)
        below.tick_params(labelbottom=True)
    band = f"grey: {100 * prob:g} % of the shares if the forecasts are right"
    footnote(fig, ("\n" if cols == 1 else ". ").join(p for p in (band, note) if p))
    return fig


def _read_panels(
    y: Any, forecasts: Any, weights: Any, event: str
) -> tuple[list[_Panel], str, Any, str]:
    if isinstance(y, Fit):
        if forecasts is not None or weights is not None:
            raise DataError(
                "a Fit brings its own rows, forecasts and weights: give it alone, or give y and forecasts"
            )
        return _of_fit(y)
    if forecasts is None:
        raise DataError(
            "forecasts are missing: give the probability that was said for each outcome of y"
        )
    words = f"forecast probability of {shorten(event, 30)}"
    if isinstance(forecasts, Mapping):
        return (
            [_Panel(shorten(k, 30), *_event(y, p)) for k, p in forecasts.items()],
            words,
            weights,
            "",
        )
    p = np.asarray(forecasts)
    if p.ndim < 2:
        return [_Panel(None, *_event(y, p))], words, weights, ""
    decompose(y, p, weights=weights)  # refuses what is no class or probability, by row
    classes = [
        _Panel(f"class {k}", p[:, k], (np.asarray(y) == k).astype(float))
        for k in range(p.shape[1])
    ]
    return classes, "forecast probability", weights, ""


def _event(y: Any, p: Any) -> tuple[Array, Array]:
    said = np.asarray(p)
    if said.ndim != 1:
        raise DataError(
            f"each forecaster gives one probability per outcome, got shape {said.shape}"
        )
    return said, np.asarray(y)


def _of_fit(fit: Fit) -> tuple[list[_Panel], str, Any, str]:
    likelihood = fit.model.likelihood
    response = fit.model.design.response
    if not isinstance(likelihood, OfClasses):
        raise Incompatible(
            f"reliability is about probabilities of levels; for {likelihood.named} response use plot.residuals(fit)"
        )
    seen = observations(fit)
    note = ". ".join(
        p for p in (f"{method_name(fit)}, at its own rows", seen.note) if p
    )
    assert seen.tally is not None
    # a row of several trials is as many forecasts of one probability: a row for each class that came, by its number
    K = seen.tally.shape[1]
    met = np.tile(np.arange(K), len(seen.tally))
    weights = (seen.tally * seen.weights[:, None]).ravel()
    use = weights > 0
    rows = np.repeat(np.arange(len(seen.tally)), K)[use]
    if isinstance(likelihood, UnivariateLikelihood):
        words = f"predicted {shorten(likelihood.mean_name(response))}"
        return (
            [_Panel(None, seen.mean[rows], met[use].astype(float))],
            words,
            weights[use],
            note,
        )
    panels = [
        _Panel(
            shorten(f"{response} = {v}", 30),
            seen.mean[rows, k],
            (met[use] == k).astype(float),
        )
        for k, v in enumerate(likelihood.classes)
    ]
    return panels, "predicted probability", weights[use], note


def _draw_reliability(
    top: Any, below: Any, panel: _Panel, weights: Any, prob: float
) -> None:
    few = len(np.unique(panel.p)) <= _FEW
    number = int(np.clip(len(panel.p) // 15, 2, 10))
    found = decompose(panel.hit, panel.p, bins=None if few else number, weights=weights)
    for ax in (top, below):
        ax.set_visible(True)
    lower, upper = consistent(found, prob)
    look = mark(0)
    top.plot([0, 1], [0, 1], color=GREY, linewidth=0.9, linestyle=DASHED, zorder=1)
    top.vlines(found.forecast, lower, upper, color=LIGHT, linewidth=7, zorder=0)
    top.plot(found.forecast, found.observed, color=look.color, linewidth=0.9, zorder=2)
    top.plot(
        found.forecast,
        found.observed,
        look.marker,
        color=look.color,
        markersize=5,
        zorder=3,
    )
    top.set_xlim(-0.03, 1.03)
    top.set_ylim(-0.03, 1.03)
    top.tick_params(labelbottom=False)
    text = f"Brier {found.score:.3f}\ncalibration {found.calibration:.3f}\nresolution {found.resolution:.3f}\nuncertainty {found.uncertainty:.3f}"
    corner = {
        "transform": top.transAxes,
        "ha": "right",
        "va": "bottom",
        "fontsize": SMALL - 0.5,
        "color": GREY,
    }
    top.text(0.99, 0.02, text, **corner)
    if few:
        below.bar(found.forecast, found.count, width=0.03, color=GREY)
    else:
        below.hist(
            panel.p,
            np.linspace(0.0, 1.0, _STROKES + 1),
            weights=weights,
            color=GREY,
            rwidth=0.75,
        )
    below.locator_params(axis="y", nbins=3, integer=True)


def consistent(found: Decomposition, prob: float) -> tuple[Array, Array]:
    """Binomial quantiles of the observed share of each group, if it happens with the probability that was forecast.

    >>> found = decompose(np.arange(20) % 2, np.full(20, 0.5))
    >>> consistent(found, 0.9)
    (array([0.3]), array([0.7]))
    """
    n = np.round(found.count)
    p = found.forecast
    tail = (1.0 - prob) / 2.0
    inside = (p > 0) & (p < 1)
    at = np.where(inside, p, 0.5)
    ends = (
        np.ceil(np.maximum(bdtrik(q, n, at), 0.0) - 1e-9) / n
        for q in (tail, 1.0 - tail)
    )
    lower, upper = (np.where(inside, np.minimum(e, 1.0), p) for e in ends)
    return lower, upper
