"""Reliability diagrams: observed shares of an event against its forecasts, with the parts of the Brier score."""

from collections.abc import Mapping
from typing import Any, NamedTuple

import numpy as np

from probreg.arguments.scalars import Figure, Probability, Word, check_arguments
from probreg.comparison.same_question import method_name
from probreg.errors import DataError, Incompatible
from probreg.fits.fit import Fit
from probreg.likelihoods import OfClasses
from probreg.scores import Decomposition, decompose
from probreg.show.plot.observations import Observations, observations
from probreg.show.plot.style import (
    GREY,
    LIGHT,
    REFERENCE,
    SMALL,
    Size,
    footnote,
    label,
    mark,
    paper,
    shorten,
)

Array = np.ndarray


class Forecasts(NamedTuple):
    """Forecast probabilities of an event (n,), whether it happened (n,), and the frequencies of the rows (n,) or None."""

    title: str | None
    p: Array
    hit: Array
    weights: Any

    @property
    def is_grouped(self) -> bool:
        """Whether forecasts of different values share a group."""
        # up to this number of distinct forecasts each has its own group
        max_groups = 12
        return len(np.unique(self.p)) > max_groups

    def decompose(self) -> Decomposition:
        """Return forecasts, observed shares and counts by group, at most ten groups of about equal size."""
        number = int(np.clip(len(self.p) // 15, 2, 10)) if self.is_grouped else None
        return decompose(self.hit, self.p, bins=number, weights=self.weights)


@check_arguments
def reliability(
    y: Any,
    forecasts: Any = None,
    *,
    prob: Probability = 0.95,
    weights: Any = None,
    event: Word | None = None,
    figsize: Size | None = None,
) -> Figure:
    """Draw observed shares against forecasts by group, and a histogram of the forecasts.

    There is one panel for each forecaster or class. A grey bar contains the share of a group with probability `prob` if its
    forecasts are right (binomial, at the mean forecast of the group). The corner shows the parts of the Brier score. Up to
    12 distinct forecasts are separate groups; more are divided into at most ten groups of about equal size.

    Parameters
    ----------
    y : array (n,) or Fit
        Outcomes 0/1 or classes; or a Fit, for its own rows, where calibration looks better than on new rows.
    forecasts : array (n,) or (n, K) or mapping, optional
        Probabilities, or several forecasters by name.
    prob : float
        Probability of the bars, between 0 and 1.
    weights : array (n,), optional
        Frequencies of the rows.
    event : str, optional
        Name of the event of 0/1 outcomes, or the level of text that is the event.
    figsize : pair of float, optional
        Width and height in inches.

    Returns
    -------
    Figure
        A matplotlib figure outside pyplot.

    Raises
    ------
    DataError
        For forecasts that are not probabilities.
    Incompatible
        For a Fit of a numeric response.

    References
    ----------
    Broecker & Smith 2007 (the bars).

    Examples
    --------
    >>> fig = reliability([0, 1, 1, 0, 1, 1], [0.2, 0.2, 0.9, 0.2, 0.9, 0.9], event="rain")
    >>> [ax.get_ylabel() for ax in fig.axes]
    ['observed share', 'forecasts']
    """
    if isinstance(y, Fit):
        if any(value is not None for value in (forecasts, weights, event)):
            raise DataError(
                "forecasts, weights and event are those of the fit: pass the Fit alone, or y with forecasts"
            )
        seen = observations(y)
        panels, x_label = forecasts_of_fit(y, seen)
        notes = [f"{method_name(y)}, rows of the fit", seen.note]
    else:
        panels, x_label = _read_forecasts(y, forecasts, weights, event)
        notes = []
    cols = min(len(panels), 3)
    rows = -(-len(panels) // cols)
    if cols == 1:
        size = (3.8, 3.9)
    else:
        size = (7.2, rows * (7.2 / cols * 1.25 + 0.5))
    fig, axes = paper(
        2 * rows,
        cols,
        size=size,
        figsize=figsize,
        sharex=True,
        sharey="row",
        height_ratios=[4.0, 1.0] * rows,
    )
    for ax in axes.flat:
        ax.set_visible(False)
    for i, panel in enumerate(panels):
        row, column = divmod(i, cols)
        top = axes[2 * row, column]
        below = axes[2 * row + 1, column]
        _draw_reliability(top, below, panel, prob)
        label(top, title=panel.title)
        label(below, x=x_label)
        if not column:
            label(top, y="observed share")
            label(below, y="forecasts")
        below.tick_params(labelbottom=True)
    band = f"grey: {100 * prob:g} % of the shares if the forecasts are right"
    footnote(fig, band, *notes)
    return fig


def _read_forecasts(
    y: Any, forecasts: Any, weights: Any, event: str | None
) -> tuple[list[Forecasts], str]:
    if forecasts is None:
        raise DataError("forecasts are missing: pass a probability for each outcome")
    x_label = f"forecast probability of {shorten(event or 'the event', 30)}"
    outcomes = np.asarray(y)
    if not isinstance(forecasts, Mapping):
        p = np.asarray(forecasts)
        if p.ndim == 2:
            if event is not None:
                raise DataError(
                    "event= names the event of one probability for each outcome, and forecasts have several classes"
                )
            decompose(y, p, weights=weights)  # raises for a bad class or probability
            classes = [
                Forecasts(f"class {k}", p[:, k], (outcomes == k).astype(float), weights)
                for k in range(p.shape[1])
            ]
            return classes, "forecast probability"
        forecasts = {None: p}
    if event is not None and event in outcomes.tolist():
        outcomes = outcomes == event
    panels = []
    for name, values in forecasts.items():
        p = np.asarray(values)
        if p.ndim != 1:
            raise DataError(
                f"each forecaster gives one probability for each outcome, got shape {p.shape}"
            )
        title = None if name is None else shorten(name, 30)
        panels.append(Forecasts(title, p, outcomes, weights))
    return panels, x_label


def forecasts_of_fit(fit: Fit, seen: Observations) -> tuple[list[Forecasts], str]:
    """Return the predicted probabilities of the event, or of each class, at the rows of the fit, and the name of the axis.

    A row of several trials counts as that many forecasts: one entry for each class in it, weighted by its number.
    """
    likelihood = fit.model.likelihood
    response = fit.model.design.response
    if not isinstance(likelihood, OfClasses) or seen.tally is None:
        raise Incompatible(
            f"no class probabilities of {likelihood.named} response: use plot.diagnose(fit)"
        )
    n, K = seen.tally.shape
    weights = (seen.tally * seen.weights[:, None]).ravel()
    used = weights > 0
    codes = np.tile(np.arange(K), n)[used]
    rows = np.repeat(np.arange(n), K)[used]
    weights = weights[used]
    if likelihood.has_scalar_mean:
        name = f"predicted {shorten(likelihood.mean_name(response))}"
        return [Forecasts(None, seen.mean[rows], codes.astype(float), weights)], name
    panels = [
        Forecasts(
            shorten(f"{response} = {level}", 30),
            seen.mean[rows, k],
            (codes == k).astype(float),
            weights,
        )
        for k, level in enumerate(likelihood.classes)
    ]
    return panels, "predicted probability"


def _draw_reliability(top: Any, below: Any, panel: Forecasts, prob: float) -> None:
    n_bars = 25  # bars of the histogram of forecasts
    decomposition = panel.decompose()
    top.set_visible(True)
    below.set_visible(True)
    draw_shares(top, decomposition, prob, 0)
    top.set_ylim(-0.03, 1.03)
    top.tick_params(labelbottom=False)
    text = f"Brier {decomposition.score:.3f}\ncalibration {decomposition.calibration:.3f}\nresolution {decomposition.resolution:.3f}\nuncertainty {decomposition.uncertainty:.3f}"
    where = {"transform": top.transAxes, "ha": "right", "va": "bottom"}
    top.text(0.99, 0.02, text, fontsize=SMALL - 0.5, color=GREY, **where)
    if panel.is_grouped:
        edges = np.linspace(0.0, 1.0, n_bars + 1)
        below.hist(panel.p, edges, weights=panel.weights, color=GREY, rwidth=0.75)
    else:
        below.bar(decomposition.forecast, decomposition.count, width=0.03, color=GREY)
    below.locator_params(axis="y", nbins=3, integer=True)


def draw_shares(
    ax: Any,
    decomposition: Decomposition,
    prob: float,
    series: int,
    title: str | None = None,
) -> None:
    """Draw observed shares against forecasts, the diagonal, and the bars of shares that agree with their forecasts."""
    lower, upper = consistent(decomposition, prob)
    ax.plot([0, 1], [0, 1], **REFERENCE)
    ax.vlines(decomposition.forecast, lower, upper, color=LIGHT, linewidth=7, zorder=0)
    look = mark(series) | {"linewidth": 0.9, "zorder": 3}
    ax.plot(decomposition.forecast, decomposition.observed, label=title, ms=5, **look)
    ax.set_xlim(-0.03, 1.03)


def consistent(decomposition: Decomposition, prob: float) -> tuple[Array, Array]:
    """Binomial quantiles of the observed share of each group if the event happens with the forecast probability.

    >>> found = decompose(np.arange(20) % 2, np.full(20, 0.5))
    >>> consistent(found, 0.9)
    (array([0.3]), array([0.7]))
    """
    from scipy.stats import binom

    n = np.round(decomposition.count)
    tail = (1.0 - prob) / 2.0
    lower, upper = binom.ppf([[tail], [1.0 - tail]], n, decomposition.forecast) / n
    return lower, upper
