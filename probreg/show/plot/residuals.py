"""Residuals against the fitted mean, and their distribution against the normal one."""

from typing import TYPE_CHECKING, Any

import numpy as np

from probreg.arguments.scalars import check_arguments
from probreg.errors import Incompatible
from probreg.fits.fit import Fit
from probreg.likelihoods import UnivariateLikelihood
from probreg.show.plot.observations import (
    Observations,
    observations,
    observed_quantile_residuals,
    smooth,
)
from probreg.show.plot.qq import against_normal, residual_word, said_of
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
    shorten,
    top_legend,
)

if TYPE_CHECKING:
    from matplotlib.figure import Figure

Array = np.ndarray
_BAND = 0.95


@check_arguments
def residuals(fit: Fit, *, figsize: Size | None = None) -> "Figure":
    """Left: residuals against fitted means, with a local-line smooth. Right: quantile residuals against normal quantiles.

    A quantile residual is Phi^-1(P(Y <= y)) under the predictive distribution, standard normal up to estimation when
    the model is right. For counts it is randomised and stands in the left panel as well.

    Parameters
    ----------
    fit : Fit
        A fit.
    figsize : pair of float, optional
        Width and height in inches.

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
    if not isinstance(likelihood, UnivariateLikelihood) or likelihood.binary:
        raise Incompatible(
            f"residuals of {likelihood.named} response say little: use plot.calibration(fit)"
        )
    seen = observations(fit)
    z = observed_quantile_residuals(fit, seen)
    fig, axes = paper(1, 2, size=(7.2, 3.6), figsize=figsize)
    left, right = axes[0]
    against_fitted(left, fit, seen, z)
    against_normal(right, z, _BAND, residual_word(likelihood))
    top_legend(fig, [left, right])
    footnote(fig, said_of(fit, seen, z))
    return fig


def against_fitted(ax: Any, fit: Fit, seen: Observations, z: Array) -> None:
    """Residuals against the fitted mean with a smooth: y - E[y], or where the response is discrete the quantile residuals z."""
    likelihood = fit.model.likelihood
    assert isinstance(likelihood, UnivariateLikelihood)
    response = shorten(fit.model.design.response)
    measured = isinstance(likelihood.support, str)
    residual = seen.y - seen.mean if measured else z
    ax.axhline(0.0, color=GREY, linewidth=0.9, linestyle=DASHED, zorder=0)
    points(ax, seen.mean, residual)
    if len(np.unique(seen.mean)) > 3:
        at = np.linspace(seen.mean.min(), seen.mean.max(), 60)
        ax.plot(
            at,
            smooth(seen.mean, residual, at),
            color=mark(1).color,
            linewidth=1.8,
            label="smooth",
        )
    label(
        ax,
        x=fitted_name(fit),
        y=f"residual of {response}" if measured else residual_word(likelihood),
    )
