"""The size of residuals against the fitted mean: does the spread change?"""

from typing import TYPE_CHECKING, Any

import numpy as np

from probreg.arguments.scalars import check_arguments
from probreg.assess.after.influence_measures import influence_measures
from probreg.assess.after.local import local_obstacle
from probreg.assess.after.residuals import residuals
from probreg.comparison.same_question import method_name
from probreg.errors import Incompatible
from probreg.fits.fit import Fit
from probreg.likelihoods import SmoothLikelihood, UnivariateLikelihood
from probreg.show.plot.observations import smooth
from probreg.show.plot.style import (
    DASHED,
    GREY,
    Size,
    fitted_name,
    footnote,
    label,
    mark,
    paper,
    points,
    top_legend,
)

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure

Array = np.ndarray
_NORMAL = 0.82218  # E sqrt|z| for a standard normal z: 2^(1/4) Gamma(3/4) / sqrt(pi)


@check_arguments
def scale_location(
    fit: Fit, *, ax: "Axes | None" = None, figsize: Size | None = None
) -> "Figure":
    """The root sqrt|internally studentised residual| against the fitted mean, with a local-line smooth.

    It is level when the likelihood has the spread right, at 0.82 for normal noise. Pearson residuals stand where there
    is no leverage, quantile residuals where the likelihood has kinks.

    Parameters
    ----------
    fit : Fit
        A fit.
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
        For two levels or classes, whose spread is their mean's.

    Examples
    --------
    >>> import probreg as pr
    >>> fit = pr.fit(pr.Model.from_formula("stack_loss ~ .", pr.load_dataset("stackloss")))
    >>> scale_location(fit).axes[0].get_xlabel()
    'fitted mean of stack_loss'
    """
    likelihood = fit.model.likelihood
    if not isinstance(likelihood, UnivariateLikelihood) or likelihood.binary:
        raise Incompatible(
            f"the spread of {likelihood.named} response is its mean's: use plot.calibration(fit)"
        )
    fig, axes = paper(size=(5.0, 3.6), figsize=figsize, ax=ax)
    spread_against_fitted(axes[0, 0], fit)
    top_legend(fig, axes[0, 0], ax)
    footnote(fig, method_name(fit), ax)
    return fig


def spread_against_fitted(ax: Any, fit: Fit) -> None:
    """The roots of absolute residuals against the fitted mean, and where those of normal noise are on average."""
    likelihood = fit.model.likelihood
    if local_obstacle(fit) is None:
        kind = "internally studentised"
        found = influence_measures(fit)["internal"]
    elif isinstance(likelihood, SmoothLikelihood):
        kind = "Pearson"
        found = residuals(fit, "pearson")
    else:
        kind = "quantile"
        found = residuals(fit, "quantile")
    r = found.values[fit.model.design.places]
    places = fit.model.design.places
    mean = (
        likelihood.response(fit.model.design.observed) - residuals(fit).values[places]
    )
    use = np.isfinite(r)
    size = np.sqrt(np.abs(r[use]))
    mean = mean[use]
    look = mark(1)
    ax.axhline(
        _NORMAL,
        color=GREY,
        linewidth=0.9,
        linestyle=DASHED,
        zorder=0,
        label="normal noise, on average",
    )
    points(ax, mean, size)
    if len(np.unique(mean)) > 3:
        at = np.linspace(mean.min(), mean.max(), 60)
        ax.plot(
            at, smooth(mean, size, at), color=look.color, linewidth=1.8, label="smooth"
        )
    ax.set_ylim(0.0, None)
    label(ax, x=fitted_name(fit), y=f"root of |{kind} residual|")
