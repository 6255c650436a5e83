"""Quantile residuals against normal quantiles."""

from typing import TYPE_CHECKING, Any

import numpy as np

from probreg.arguments.scalars import Probability, check_arguments
from probreg.comparison.same_question import method_name
from probreg.errors import Incompatible
from probreg.fits.fit import Fit
from probreg.likelihoods import UnivariateLikelihood
from probreg.show.plot.observations import (
    Observations,
    beyond,
    normal_order,
    observations,
    observed_quantile_residuals,
)
from probreg.show.plot.style import (
    DASHED,
    GREY,
    LIGHT,
    Size,
    footnote,
    label,
    paper,
    points,
    top_legend,
)

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure

Array = np.ndarray


@check_arguments
def qq(
    fit: Fit,
    prob: Probability = 0.95,
    *,
    ax: "Axes | None" = None,
    figsize: Size | None = None,
) -> "Figure":
    """Sorted quantile residuals against the medians of normal order statistics.

    The band holds each of them with probability `prob` when the model is right. They are randomised for a discrete
    response.

    Parameters
    ----------
    fit : Fit
        A fit.
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
        For classes without an order.

    References
    ----------
    Dunn & Smyth 1996.

    Examples
    --------
    >>> import probreg as pr
    >>> model = pr.Model.from_formula("stack_loss ~ .", pr.load_dataset("stackloss"))
    >>> qq(pr.fit(model)).axes[0].get_ylabel()
    'quantile residual'
    """
    likelihood = fit.model.likelihood
    if not isinstance(likelihood, UnivariateLikelihood):
        raise Incompatible(
            f"classes of {likelihood.named} response have no quantiles: use plot.calibration(fit)"
        )
    seen = observations(fit)
    z = observed_quantile_residuals(fit, seen)
    fig, axes = paper(size=(4.6, 4.0), figsize=figsize, ax=ax)
    against_normal(axes[0, 0], z, prob, residual_word(likelihood))
    top_legend(fig, axes[0, 0], ax)
    footnote(fig, said_of(fit, seen, z), ax)
    return fig


def residual_word(likelihood: UnivariateLikelihood) -> str:
    """What a quantile residual is called: that of a discrete response is drawn at random."""
    if isinstance(likelihood.support, str):
        return "quantile residual"
    return "randomised quantile residual"


def said_of(fit: Fit, seen: Observations, z: Array) -> str:
    """The method, which distribution the residuals are of, and what the picture leaves out."""
    if fit.target == "posterior":
        what = "under the posterior predictive"
    else:
        what = "at the estimate"
    return ". ".join(
        part
        for part in (f"{method_name(fit)}, {what}", beyond(seen, z), seen.note)
        if part
    )


def against_normal(ax: Any, z: Array, prob: float, word: str) -> None:
    """Sorted z against normal quantiles, the band of a normal sample, and the diagonal."""
    middle, lower, upper = normal_order(len(z), prob)
    ax.fill_between(
        middle,
        lower,
        upper,
        color=LIGHT,
        alpha=0.7,
        linewidth=0,
        label=f"{100 * prob:g} % of a normal sample, pointwise",
    )
    ax.plot(middle, middle, color=GREY, linewidth=0.9, linestyle=DASHED)
    points(ax, middle, np.sort(z), zorder=2.5)
    label(ax, x="normal quantile", y=word)
