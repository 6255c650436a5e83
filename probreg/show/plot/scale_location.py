"""The size of residuals against the fitted mean: does the spread change?"""

from typing import TYPE_CHECKING

import numpy as np

from probreg.arguments.scalars import checked
from probreg.assess.after.influence_measures import influence_measures
from probreg.assess.after.local import local_obstacle
from probreg.assess.after.residuals import residuals
from probreg.errors import Incompatible
from probreg.fits.fit import Fit
from probreg.likelihoods import Bernoulli, UnivariateLikelihood
from probreg.show.plot.observations import smooth
from probreg.show.plot.style import GREY, MANY, footnote, label, mark, paper, shorten, top_legend

if TYPE_CHECKING:
    from matplotlib.figure import Figure

Array = np.ndarray
_NORMAL = 0.82218  # E sqrt|z| for a standard normal z: 2^(1/4) Gamma(3/4) / sqrt(pi)


@checked
def scale_location(fit: Fit) -> "Figure":
    """The root sqrt|internally studentised residual| against the fitted mean, with a local-line smooth.

    It is level when the likelihood has the spread right, at 0.82 for normal noise. Pearson residuals stand where there
    is no leverage.

    Parameters
    ----------
    fit : Fit
        A fit.

    Returns
    -------
    Figure
        A matplotlib figure outside pyplot.

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
    response = shorten(likelihood.mean_name(fit.model.design.response))
    if not isinstance(likelihood, UnivariateLikelihood) or isinstance(likelihood, Bernoulli):
        raise Incompatible(f"the spread of {likelihood.named} response is its mean's: use plot.calibration(fit)")
    kind = "Pearson" if local_obstacle(fit) else "internally studentised"
    found = residuals(fit, "pearson") if local_obstacle(fit) else influence_measures(fit)["internal"]
    r, places = found.values[fit.model.design.places], fit.model.design.places
    mean = likelihood.response(fit.model.design.observed) - residuals(fit).values[places]
    use = np.isfinite(r)
    size, mean = np.sqrt(np.abs(r[use])), mean[use]
    fig, axes = paper(size=(5.0, 3.6))
    ax, look = axes[0, 0], mark(1)
    ax.axhline(_NORMAL, color=GREY, linewidth=0.9, linestyle=(0, (4, 2)), zorder=0, label="normal noise, on average")
    ax.scatter(
        mean, size, s=16 if len(mean) < 300 else 7, facecolors="none", edgecolors=GREY, linewidths=0.8,
        rasterized=len(mean) > MANY,
    )  # fmt: skip
    if len(np.unique(mean)) > 3:
        at = np.linspace(mean.min(), mean.max(), 60)
        ax.plot(at, smooth(mean, size, at), color=look.color, linewidth=1.8, label="smooth")
    ax.set_ylim(0.0, None)
    top_legend(fig, ax)
    label(ax, x=f"fitted mean of {response}", y=f"root of |{kind} residual|")
    footnote(fig, fit.method.name)
    return fig
