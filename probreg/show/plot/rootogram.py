"""Rootograms: roots of the observed and expected frequencies of counts."""

from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np
from scipy.special import ndtri

from probreg.arguments.scalars import Probability, check_arguments
from probreg.comparison.same_question import method_name
from probreg.errors import Incompatible
from probreg.fits.fit import Fit
from probreg.show.plot.observations import Observations, observations
from probreg.show.plot.style import (
    LIGHT,
    REFERENCE,
    Size,
    footnote,
    label,
    mark,
    panels,
    shorten,
    top_legend,
)

if TYPE_CHECKING:
    from matplotlib.figure import Figure

Array = np.ndarray


class Frequencies(NamedTuple):
    """The number of rows with each count, or in groups of `step` counts: observed, expected, and its variance given the model."""

    middle: Array
    step: int
    observed: Array
    expected: Array
    variance: Array


def count_frequencies(seen: Observations) -> Frequencies:
    """Return the frequencies in at most 25 groups of counts."""
    max_bars = 25
    y, w = seen.y, seen.weights
    upper = float(y.max()) + 1.0
    step = int(np.ceil(upper / max_bars))
    edges = np.arange(0.0, upper + step, step)
    # P(a <= Y_i < b) = F_i(b - 1) - F_i(a - 1), and F_i(-1) = 0
    below = [seen.predictive.cdf(np.full(len(y), edge - 1.0)) for edge in edges]
    p = np.diff(below, axis=0)
    return Frequencies(
        (edges[:-1] + edges[1:] - 1.0) / 2.0,
        step,
        np.histogram(y, edges - 0.5, weights=w)[0],
        p @ w,
        (p * (1.0 - p)) @ w,
    )


def draw_expected(ax: Any, fit: Fit, counts: Frequencies) -> None:
    """Draw the roots of the expected frequencies as a line, and name the axes."""
    look = mark(0) | {"markersize": 3.5, "linewidth": 1.2}
    ax.plot(counts.middle, np.sqrt(counts.expected), label="expected", **look)
    ax.xaxis.get_major_locator().set_params(integer=True)
    label(ax, x=shorten(fit.model.design.response), y="root of the number of rows")


@check_arguments
def rootogram(
    fit: Fit, *, prob: Probability = 0.95, figsize: Size | None = None
) -> "Figure":
    """Draw a hanging rootogram of counts: bars of the observed frequencies hang from the line of the expected ones.

    Heights are square roots, so that large and small frequencies have the same spread. A bar that ends above 0 is a count that
    the data have too rarely, a bar that ends below 0 one that they have too often. In data from the model each bar ends inside
    the band with probability `prob`; many ends outside it, or a bar of zeros that ends far below, call for another likelihood.

    Parameters
    ----------
    fit : Fit
        A fit of counts.
    prob : float
        Probability of the band, between 0 and 1.
    figsize : pair of float, optional
        Width and height in inches.

    Returns
    -------
    Figure
        A matplotlib figure outside pyplot.

    Raises
    ------
    Incompatible
        For a response that is no count.

    References
    ----------
    Kleiber & Zeileis 2016.

    Examples
    --------
    >>> from probreg import Model
    >>> from probreg.fits.fit import fit
    >>> poisson = fit(Model.from_formula("y ~ 1", {"y": [0, 2, 1, 0, 3, 5]}, likelihood="poisson"))
    >>> rootogram(poisson).axes[0].get_ylabel()
    'root of the number of rows'
    """
    if not fit.model.likelihood.is_count:
        raise Incompatible(
            f"a rootogram needs counts, and {fit.model.likelihood.named} response has none: use plot.diagnose(fit)"
        )
    seen = observations(fit)
    counts = count_frequencies(seen)
    fig, (ax,) = panels(1, 1, width=5.0, height=3.4, figsize=figsize)
    top = np.sqrt(counts.expected)
    half = ndtri(0.5 + prob / 2.0) * np.sqrt(counts.variance)
    ends = [
        top - np.sqrt(np.maximum(counts.expected + s * half, 0.0)) for s in (1.0, -1.0)
    ]
    ax.bar(
        counts.middle,
        -np.sqrt(counts.observed),
        0.8 * counts.step,
        bottom=top,
        color=LIGHT,
        label="observed",
    )
    look = {"color": mark(1)["color"], "alpha": 0.25, "lw": 0}
    words = f"{100 * prob:g} % of data from the model"
    ax.fill_between(counts.middle, *ends, label=words, **look)
    ax.axhline(0.0, **REFERENCE)
    ax.use_sticky_edges = False  # room above the highest bar
    draw_expected(ax, fit, counts)
    top_legend(fig, [ax])
    footnote(fig, method_name(fit), seen.note)
    return fig
