"""Quantile residuals against normal quantiles."""

from typing import TYPE_CHECKING, Any

import numpy as np

from probreg.arguments.scalars import Probability, checked
from probreg.errors import Incompatible
from probreg.fits.fit import Fit
from probreg.likelihoods import UnivariateLikelihood
from probreg.show.plot.observations import normal_order, observations, observed_quantile_residuals
from probreg.show.plot.style import GREY, LIGHT, MANY, footnote, label, legend, mark, paper

if TYPE_CHECKING:
    from matplotlib.figure import Figure

Array = np.ndarray


@checked
def qq(fit: Fit, prob: Probability = 0.95) -> "Figure":
    """Sorted quantile residuals against the medians of normal order statistics.

    The band holds each of them with probability `prob` when the model is right. They are randomised for a discrete
    response.

    Parameters
    ----------
    fit : Fit
        A fit.
    prob : float
        Of the band, between 0 and 1.

    Returns
    -------
    Figure
        A matplotlib figure outside pyplot.

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
        raise Incompatible(f"classes of {likelihood.named} response have no quantiles: use plot.calibration(fit)")
    seen = observations(fit)
    fig, axes = paper(size=(4.6, 4.0))
    against_normal(axes[0, 0], observed_quantile_residuals(fit, seen), prob)
    drawn = not isinstance(likelihood.support, str)
    label(axes[0, 0], x="normal quantile", y="randomised quantile residual" if drawn else "quantile residual")
    what = "under the posterior predictive" if fit.target == "posterior" else "at the estimate"
    footnote(fig, ". ".join(part for part in (f"{fit.method.name}, {what}", seen.note) if part))
    return fig


def against_normal(ax: Any, z: Array, prob: float) -> None:
    """Sorted z against normal quantiles, the band of a normal sample, and the diagonal."""
    middle, lower, upper = normal_order(len(z), prob)
    look = mark(0)
    ax.fill_between(
        middle,
        lower,
        upper,
        color=LIGHT,
        alpha=0.7,
        linewidth=0,
        label=f"{100 * prob:g} % of a normal sample, pointwise",
    )
    ax.plot(middle, middle, color=GREY, linewidth=0.9, linestyle=(0, (4, 2)))
    style = {"color": look.color, "markersize": 3.5, "markerfacecolor": "none", "rasterized": len(z) > MANY}
    ax.plot(middle, np.sort(z), look.marker, **style)
    legend(ax, loc="upper left")
