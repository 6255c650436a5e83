"""Whether events said to have probability p happen in a share p of the cases."""

from typing import TYPE_CHECKING, Any

import numpy as np

from probreg.arguments.scalars import Probability, check_arguments
from probreg.comparison.same_question import method_name
from probreg.errors import Incompatible
from probreg.fits.fit import Fit
from probreg.likelihoods import OfClasses, SoftmaxLikelihood
from probreg.show.plot.observations import Observations, observations, share_interval
from probreg.show.plot.style import (
    DASHED,
    GREY,
    LIGHT,
    MANY,
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


@check_arguments
def calibration(
    fit: Fit, prob: Probability = 0.95, *, figsize: Size | None = None
) -> "Figure":
    """Observed shares with Jeffreys intervals against predicted probabilities in bins of about equal numbers.

    There is one panel per class. On the diagonal shares are as predicted. Strokes at the lower edge are the
    predictions. The rows are those of the fit, so that the picture flatters it.

    Parameters
    ----------
    fit : Fit
        A fit.
    prob : float
        Probability of every interval or band, between 0 and 1.
    figsize : pair of float, optional
        Width and height in inches.

    Returns
    -------
    Figure
        A matplotlib figure outside pyplot.

    Raises
    ------
    Incompatible
        For responses other than two levels or classes.

    Examples
    --------
    >>> import probreg as pr
    >>> orings = pr.load_dataset("challenger")
    >>> fit = pr.fit(pr.Model.from_formula("damage ~ temperature", orings, likelihood="bernoulli"))
    >>> calibration(fit).axes[0].get_xlabel()
    'predicted P(damage = 1)'
    """
    likelihood = fit.model.likelihood
    response = fit.model.design.response
    if not isinstance(likelihood, OfClasses):
        raise Incompatible(
            f"calibration is about probabilities of levels; for {likelihood.named} response use plot.residuals(fit)"
        )
    seen = observations(fit)
    several = isinstance(likelihood, SoftmaxLikelihood)
    classes = range(len(likelihood.classes)) if several else (1,)
    assert seen.tally is not None
    cols = min(len(classes), 3)
    deep = -(-len(classes) // cols)
    side = 7.2 / cols if several else 3.5
    fig, axes = paper(
        deep,
        cols,
        size=(7.2 if several else 3.8, 0.9 + side * deep),
        figsize=figsize,
        sharex=True,
        sharey=True,
    )
    for i, ax in enumerate(axes.flat):
        ax.set_visible(i < len(classes))
    for i, (ax, k) in enumerate(zip(axes.flat, classes)):
        shares_against_predicted(
            ax, seen.mean[:, k] if several else seen.mean, seen.tally[:, k], seen, prob
        )
        below = i + cols >= len(classes)
        ax.tick_params(labelbottom=below)
        if several:
            title = shorten(likelihood.classes[k], 30)
        else:
            title = None
        if several:
            x = "predicted probability"
        else:
            x = f"predicted {shorten(likelihood.mean_name(response))}"
        label(
            ax,
            x=x if below else None,
            y="observed share" if i % cols == 0 else None,
            title=title,
        )
    of = f" of {shorten(response)}" if several else ""
    footnote(
        fig,
        ". ".join(
            p
            for p in (
                f"{method_name(fit)}, {100 * prob:g} % intervals of the shares{of}",
                seen.note,
            )
            if p
        ),
    )
    return fig


def shares_against_predicted(
    ax: Any, p: Array, hit: Array, seen: Observations, prob: float
) -> None:
    """Observed shares of bins with their intervals against predicted probabilities, on the diagonal where they are right."""
    ax.plot([0, 1], [0, 1], color=GREY, linewidth=0.9, linestyle=DASHED, zorder=0)
    stroke = {
        "markersize": 5,
        "markeredgewidth": 0.5,
        "alpha": 0.6,
        "rasterized": len(p) > MANY,
    }
    ax.plot(p, np.full(len(p), -0.035), "|", color=GREY, **stroke)
    if seen.tally is None:
        trials = np.ones(len(p))
    else:
        trials = seen.tally.sum(1)
    centre, hits, total = bins(
        p, hit / np.where(trials > 0, trials, 1.0), seen.weights * trials
    )
    lower, upper = share_interval(hits, total, prob)
    look = mark(0)
    ax.vlines(centre, lower, upper, color=look.color, linewidth=1.6)
    ax.plot(centre, hits / total, color=LIGHT, linewidth=1.0, zorder=0.5)
    ax.plot(centre, hits / total, look.marker, color=look.color, markersize=5)
    ax.set_xlim(-0.03, 1.03)
    ax.set_ylim(-0.06, 1.03)
    ax.set_aspect("equal")


def bins(p: Array, hit: Array, weights: Array) -> tuple[Array, Array, Array]:
    """Mean prediction, hits and number of observations in at most ten bins; equal predictions share a bin.

    >>> bins(np.array([0.1, 0.1, 0.8]), np.array([0.0, 1.0, 1.0]), np.ones(3))
    (array([0.33333333]), array([2.]), array([3.]))
    """
    order = np.argsort(p, kind="stable")
    number = int(np.clip(len(p) // 15, 2, 10))
    edges = np.unique(
        p[order][np.linspace(0, len(p), number, endpoint=False).astype(int)]
    )
    place = np.searchsorted(edges, p, side="right") - 1
    total = np.bincount(place, weights, len(edges))
    keep = total > 0
    sums = (np.bincount(place, weights * v, len(edges))[keep] for v in (p, hit))
    total = total[keep]
    p_sum, hits = sums
    return p_sum / total, hits, total
