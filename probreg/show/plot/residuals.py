"""Residuals against the fitted mean, and their distribution against the normal one."""

from typing import TYPE_CHECKING

import numpy as np

from probreg.arguments.scalars import checked
from probreg.errors import Incompatible
from probreg.fits.fit import Fit
from probreg.likelihoods import Bernoulli, UnivariateLikelihood
from probreg.show.plot.observations import Observations, observations, observed_quantile_residuals, smooth
from probreg.show.plot.qq import against_normal
from probreg.show.plot.style import GREY, MANY, footnote, label, legend, mark, paper, shorten

if TYPE_CHECKING:
    from matplotlib.figure import Figure

Array = np.ndarray
_BAND = 0.95


@checked
def residuals(fit: Fit) -> "Figure":
    """Left: residuals against fitted means, with a local-line smooth. Right: quantile residuals against normal quantiles.

    A quantile residual is Phi^-1(P(Y <= y)) under the predictive distribution, standard normal up to estimation when
    the model is right. For counts it is randomised and stands in the left panel as well.

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
        For two levels or classes, whose picture is `calibration`.

    References
    ----------
    Dunn & Smyth 1996.

    Examples
    --------
    >>> import probreg as pr
    >>> model = pr.Model.from_formula("stack_loss ~ .", pr.load_dataset("stackloss"))
    >>> [ax.get_xlabel() for ax in residuals(pr.fit(model)).axes]
    ['fitted mean of stack_loss', 'normal quantile']
    """
    likelihood = fit.model.likelihood
    response = shorten(likelihood.mean_name(fit.model.design.response))
    if not isinstance(likelihood, UnivariateLikelihood) or isinstance(likelihood, Bernoulli):
        raise Incompatible(f"residuals of {likelihood.named} response say little: use plot.calibration(fit)")
    seen = observations(fit)
    z = observed_quantile_residuals(fit, seen)
    counts = not isinstance(likelihood.support, str)
    fig, axes = paper(1, 2, size=(7.2, 3.3))
    left, right = axes[0]
    residual = z if counts else seen.y - seen.mean
    left.axhline(0.0, color=GREY, linewidth=0.9, linestyle=(0, (4, 2)), zorder=0)
    size, many = 16 if len(seen.mean) < 300 else 7, len(seen.mean) > MANY
    left.scatter(seen.mean, residual, s=size, facecolors="none", edgecolors=GREY, linewidths=0.8, rasterized=many)
    if len(np.unique(seen.mean)) > 3:
        at = np.linspace(seen.mean.min(), seen.mean.max(), 60)
        look = mark(1)
        left.plot(at, smooth(seen.mean, residual, at), color=look.color, linewidth=1.8, label="smooth")
        legend(left, loc="best")
    kind = "randomised quantile residual" if counts else "quantile residual"
    label(left, x=f"fitted mean of {response}", y=kind if counts else f"residual of {response}")
    against_normal(right, z, _BAND)
    label(right, x="normal quantile", y=kind)
    footnote(fig, _note(fit, seen))
    return fig


def _note(fit: Fit, seen: Observations) -> str:
    what = "under the posterior predictive" if fit.target == "posterior" else "at the estimate"
    return ". ".join(part for part in (f"{fit.method.name}, {what}", seen.note) if part)
