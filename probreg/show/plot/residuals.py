"""Pictures of residuals: against the fitted mean, against normal quantiles, their spread, and their autocorrelation."""

from typing import TYPE_CHECKING, Any

import numpy as np
from scipy.special import ndtri

from probreg.arguments.scalars import Count, Probability, check_arguments
from probreg.assess.after.autocorrelation import autocorrelations
from probreg.assess.after.influence import influence_measures
from probreg.assess.after.local import local_obstacle
from probreg.assess.after.residuals import residuals as residuals_of
from probreg.comparison.same_question import method_name
from probreg.errors import Incompatible
from probreg.fits.fit import Fit
from probreg.likelihoods import SmoothLikelihood, UnivariateLikelihood
from probreg.show.plot.observations import (
    Observations,
    beyond,
    normal_order,
    observations,
    observed_quantile_residuals,
    smooth,
)
from probreg.show.plot.style import (
    DASHED,
    GREY,
    INK,
    LIGHT,
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
BAND = 0.95
_NORMAL = 0.82218  # E sqrt|z| for a standard normal z: 2^(1/4) Gamma(3/4) / sqrt(pi)


@check_arguments
def residuals(fit: Fit, *, figsize: Size | None = None) -> "Figure":
    """Draw residuals against fitted means with a smooth, and quantile residuals against normal quantiles.

    A quantile residual is Phi^-1(P(Y <= y)) under the predictive distribution, standard normal up to estimation if the model
    is right. For counts it is randomised, and the left panel shows it too.

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
        For two levels or classes; use `reliability`.

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
    likelihood = _require_numbers(fit, "residuals")
    seen = observations(fit)
    z = observed_quantile_residuals(fit, seen)
    fig, axes = paper(1, 2, size=(7.2, 3.6), figsize=figsize)
    against_fitted(axes[0, 0], fit, seen, z)
    against_normal(axes[0, 1], z, BAND, residual_name(likelihood))
    top_legend(fig, axes)
    footnote(fig, residual_note(fit, seen, z))
    return fig


@check_arguments
def qq(fit: Fit, prob: Probability = 0.95, *, figsize: Size | None = None) -> "Figure":
    """Draw sorted quantile residuals against the medians of normal order statistics.

    The band contains each of them with probability `prob` if the model is right. They are randomised for a discrete response.

    Parameters
    ----------
    fit : Fit
        A fit.
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
            f"no quantiles of {likelihood.named} response: use plot.reliability(fit)"
        )
    seen = observations(fit)
    z = observed_quantile_residuals(fit, seen)
    fig, axes = paper(size=(4.6, 4.0), figsize=figsize)
    against_normal(axes[0, 0], z, prob, residual_name(likelihood))
    top_legend(fig, axes)
    footnote(fig, residual_note(fit, seen, z))
    return fig


@check_arguments
def scale_location(fit: Fit, *, figsize: Size | None = None) -> "Figure":
    """Draw sqrt|internally studentised residual| against the fitted mean, with a smooth.

    It is level if the likelihood has the right spread, at 0.82 for normal noise. Without a formula for the leverage the
    residuals are Pearson residuals, and quantile residuals for a likelihood with kinks.

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
        For two levels or classes, because their mean determines their spread.

    Examples
    --------
    >>> import probreg as pr
    >>> fit = pr.fit(pr.Model.from_formula("stack_loss ~ .", pr.load_dataset("stackloss")))
    >>> scale_location(fit).axes[0].get_xlabel()
    'fitted mean of stack_loss'
    """
    _require_numbers(fit, "scale-location plot")
    fig, axes = paper(size=(5.0, 3.6), figsize=figsize)
    spread_against_fitted(axes[0, 0], fit)
    top_legend(fig, axes)
    footnote(fig, method_name(fit))
    return fig


@check_arguments
def autocorrelation(
    fit: Fit,
    lags: Count | None = None,
    prob: Probability = 0.95,
    *,
    figsize: Size | None = None,
) -> "Figure":
    """Draw the autocorrelations of the Pearson residuals in the order of the rows, with the band +- z / sqrt(n).

    The band contains each of them with probability `prob` if neighbours are independent.

    Parameters
    ----------
    fit : Fit
        A fit.
    lags : int, optional
        The largest lag; by default 10 log10 n.
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
        For classes, and for rows with weights.

    Examples
    --------
    >>> import probreg as pr
    >>> fit = pr.fit(pr.Model.from_formula("stack_loss ~ .", pr.load_dataset("stackloss")))
    >>> autocorrelation(fit).axes[0].get_xlabel()
    'lag (rows)'
    """
    from matplotlib.ticker import MaxNLocator

    univariate = isinstance(fit.model.likelihood, UnivariateLikelihood)
    if not univariate or fit.model.design.weights is not None:
        raise Incompatible(
            "autocorrelation needs one residual for each row, in order of time"
        )
    e = residuals_of(fit, "pearson").values[fit.model.design.places]
    if lags is None:
        lags = max(1, min(int(10 * np.log10(len(e))), len(e) - 1))
    r = autocorrelations(e, lags)
    k = np.arange(1, lags + 1)
    half = float(ndtri(0.5 + prob / 2)) / np.sqrt(len(e))
    fig, axes = paper(size=(5.0, 3.2), figsize=figsize)
    ax = axes[0, 0]
    words = f"{100 * prob:g} % if independent, pointwise"
    ax.axhspan(-half, half, color=LIGHT, alpha=0.7, linewidth=0, label=words)
    ax.axhline(0.0, color=GREY, linewidth=0.9)
    ax.vlines(k, 0.0, r, color=INK, linewidth=1.2)
    ax.plot(k, r, "o", color=INK, markersize=4)
    ax.xaxis.set_major_locator(MaxNLocator(integer=True))
    top_legend(fig, axes)
    label(ax, x="lag (rows)", y="autocorrelation of residuals")
    footnote(fig, f"{method_name(fit)}: Pearson residuals in the order of the rows")
    return fig


def _require_numbers(fit: Fit, plot_name: str) -> UnivariateLikelihood:
    likelihood = fit.model.likelihood
    if not isinstance(likelihood, UnivariateLikelihood) or likelihood.binary:
        raise Incompatible(
            f"no {plot_name} of {likelihood.named} response: use plot.reliability(fit)"
        )
    return likelihood


def residual_name(likelihood: UnivariateLikelihood) -> str:
    """Return the name of quantile residuals; for a discrete response they are randomised."""
    if isinstance(likelihood.support, str):
        return "quantile residual"
    return "randomised quantile residual"


def residual_note(fit: Fit, seen: Observations, z: Array) -> str:
    """Describe the method, the distribution of the residuals and the rows that are not drawn."""
    if fit.target == "posterior":
        distribution = "under the posterior predictive"
    else:
        distribution = "at the estimate"
    parts = (f"{method_name(fit)}, {distribution}", beyond(seen, z), seen.note)
    return ". ".join(part for part in parts if part)


def against_normal(ax: Any, z: Array, prob: float, name: str) -> None:
    """Draw sorted z against normal quantiles, the band of a normal sample, and the diagonal."""
    middle, lower, upper = normal_order(len(z), prob)
    words = f"{100 * prob:g} % of a normal sample, pointwise"
    band = {"color": LIGHT, "alpha": 0.7, "linewidth": 0}
    ax.fill_between(middle, lower, upper, label=words, **band)
    ax.plot(middle, middle, color=GREY, linewidth=0.9, linestyle=DASHED)
    points(ax, middle, np.sort(z), zorder=2.5)
    label(ax, x="normal quantile", y=name)


def against_fitted(ax: Any, fit: Fit, seen: Observations, z: Array) -> None:
    """Draw residuals against the fitted mean with a smooth: y - E[y], or quantile residuals z for a discrete response."""
    likelihood = fit.model.likelihood
    assert isinstance(likelihood, UnivariateLikelihood)
    if isinstance(likelihood.support, str):
        residual = seen.y - seen.mean
        name = f"residual of {shorten(fit.model.design.response)}"
    else:
        residual = z
        name = residual_name(likelihood)
    ax.axhline(0.0, color=GREY, linewidth=0.9, linestyle=DASHED, zorder=0)
    points(ax, seen.mean, residual)
    draw_smooth(ax, seen.mean, residual)
    label(ax, x=fitted_name(fit), y=name)


def draw_smooth(ax: Any, x: Array, y: Array) -> None:
    """Draw a local-line smooth of y over x, if x takes more than three values."""
    if len(np.unique(x)) > 3:
        grid = np.linspace(x.min(), x.max(), 60)
        color = mark(1).color
        ax.plot(grid, smooth(x, y, grid), color=color, linewidth=1.8, label="smooth")


def spread_against_fitted(ax: Any, fit: Fit) -> None:
    """Draw the roots of absolute residuals against the fitted mean, and their average for normal noise."""
    if local_obstacle(fit) is None:
        kind = "internally studentised"
        studentised = influence_measures(fit)["internal"]
    elif isinstance(fit.model.likelihood, SmoothLikelihood):
        kind = "Pearson"
        studentised = residuals_of(fit, "pearson")
    else:
        kind = "quantile"
        studentised = residuals_of(fit, "quantile")
    design = fit.model.design
    r = studentised.values[design.places]
    response = fit.model.likelihood.response(design.observed)
    mean = response - residuals_of(fit).values[design.places]
    use = np.isfinite(r)
    size = np.sqrt(np.abs(r[use]))
    normal = {"color": GREY, "linewidth": 0.9, "linestyle": DASHED, "zorder": 0}
    ax.axhline(_NORMAL, label="normal noise, on average", **normal)
    points(ax, mean[use], size)
    draw_smooth(ax, mean[use], size)
    ax.set_ylim(0.0, None)
    label(ax, x=fitted_name(fit), y=f"root of |{kind} residual|")
