"""The correlogram of residuals, for rows in the order of time."""

from typing import TYPE_CHECKING

import numpy as np
from scipy.special import ndtri

from probreg.arguments.scalars import Count, Probability, check_arguments
from probreg.assess.after.autocorrelation import autocorrelations
from probreg.assess.after.residuals import residuals
from probreg.comparison.same_question import method_name
from probreg.errors import Incompatible
from probreg.fits.fit import Fit
from probreg.likelihoods import UnivariateLikelihood
from probreg.show.plot.style import (
    GREY,
    INK,
    LIGHT,
    Size,
    footnote,
    label,
    paper,
    top_legend,
)

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure


@check_arguments
def autocorrelation(
    fit: Fit,
    lags: Count | None = None,
    prob: Probability = 0.95,
    *,
    ax: "Axes | None" = None,
    figsize: Size | None = None,
) -> "Figure":
    """Autocorrelations of the Pearson residuals in the order of the rows, with the band +- z / sqrt(n).

    The band holds each of them with probability `prob` when neighbours are independent.

    Parameters
    ----------
    fit : Fit
        A fit.
    lags : int, optional
        The most lags; by default 10 log10 n.
    prob : float
        Of the band, between 0 and 1.
    ax : Axes, optional
        Where to draw; by default on a new figure.
    figsize : pair of float, optional
        Width and height in inches.

    Returns
    -------
    Figure
        A matplotlib figure outside pyplot, or that of `ax`.

    Raises
    ------
    Incompatible
        For classes, and for rows that stand for several observations.

    Examples
    --------
    >>> import probreg as pr
    >>> fit = pr.fit(pr.Model.from_formula("stack_loss ~ .", pr.load_dataset("stackloss")))
    >>> autocorrelation(fit).axes[0].get_xlabel()
    'lag (rows)'
    """
    from matplotlib.ticker import MaxNLocator

    if (
        not isinstance(fit.model.likelihood, UnivariateLikelihood)
        or fit.model.design.weights is not None
    ):
        raise Incompatible(
            "an autocorrelation needs one residual for each observation, in order of time"
        )
    e = residuals(fit, "pearson").values[fit.model.design.places]
    if lags is None:
        lags = max(1, min(int(10 * np.log10(len(e))), len(e) - 1))
    r = autocorrelations(e, lags)
    k = np.arange(1, lags + 1)
    half = float(ndtri(0.5 + prob / 2)) / np.sqrt(len(e))
    fig, axes = paper(size=(5.0, 3.2), figsize=figsize, ax=ax)
    one = axes[0, 0]
    one.axhspan(
        -half,
        half,
        color=LIGHT,
        alpha=0.7,
        linewidth=0,
        label=f"{100 * prob:g} % when independent, pointwise",
    )
    one.axhline(0.0, color=GREY, linewidth=0.9)
    one.vlines(k, 0.0, r, color=INK, linewidth=1.2)
    one.plot(k, r, "o", color=INK, markersize=4)
    low = min(r.min(), -half)
    high = max(r.max(), half)
    one.set_ylim(low - 0.1, high + 0.1)
    one.xaxis.set_major_locator(MaxNLocator(integer=True))
    top_legend(fig, one, ax)
    label(one, x="lag (rows)", y="autocorrelation of residuals")
    footnote(fig, f"{method_name(fit)}: Pearson residuals in the order of the rows", ax)
    return fig
