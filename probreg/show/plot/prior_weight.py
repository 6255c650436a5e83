"""Prior, likelihood and posterior of each coefficient on one axis."""

from contextlib import suppress
from typing import TYPE_CHECKING, Any

import numpy as np
from scipy.special import ndtri

from probreg.arguments.scalars import check_arguments
from probreg.comparison.prior_weight import maximum_likelihood
from probreg.errors import Incompatible, ProbregError
from probreg.fits.fit import Fit
from probreg.fits.inference_data import reported_coefficients
from probreg.inference.base import has_effects
from probreg.model.model import Model
from probreg.show.plot.style import (
    REFERENCE,
    Size,
    few_ticks,
    footnote,
    label,
    mark,
    message,
    panels,
    shorten,
    top_legend,
)

if TYPE_CHECKING:
    from matplotlib.figure import Figure

Array = np.ndarray
MOST = 12  # coefficients in one picture
_DRAWS = 4000  # of the prior
_SCORES = ndtri((np.arange(_DRAWS) + 0.5) / _DRAWS)  # a sample of a normal distribution


@check_arguments
def prior_weight(fit: Fit, *, figsize: Size | None = None) -> "Figure":
    """Draw the densities of prior, likelihood and posterior of each coefficient that has a prior, each with height 1.

    The likelihood is a normal around maximum likelihood with its standard error. The posterior is estimated from the draws, or
    the normal around the mode. At most 12 coefficients are drawn, without coefficients of smooth functions.

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
        If every prior is flat, except for priors of smooth functions, and for effects that vary by a group.

    Examples
    --------
    >>> import probreg as pr
    >>> model = pr.Model.from_arrays([[2.0], [3.0], [4.0], [6.0]], [5.0, 7.0, 9.0, 13.5], columns=["dose"], prior=pr.Normal(1.0))
    >>> [ax.get_title(loc="left") for ax in prior_weight(pr.fit(model)).axes]
    ['dose']
    """
    if has_effects(fit.model):
        raise Incompatible(
            "group effects share a prior and have no maximum likelihood estimate to compare: see fit.effects for their pooling"
        )
    columns = columns_to_draw(fit.model)
    outcomes = fit.coef.size // fit.model.shape[0]
    numbers = np.flatnonzero(np.repeat(columns, outcomes))
    if not len(numbers):
        raise Incompatible(
            "no coefficient has a prior to draw: priors are flat or belong to smooth functions"
        )
    shown = numbers[:MOST]
    ml, se, _ = maximum_likelihood(fit)
    prior = _prior_draws(fit)
    posterior = _posterior_draws(fit)
    cols = 1 + (len(shown) > 1) + (len(shown) > 6)
    fig, axes = panels(len(shown), cols, width=7.4, height=1.75, figsize=figsize)
    for ax, i in zip(axes, shown):
        likelihood = ml[i] + se[i] * _SCORES
        _draw_densities(ax, prior[:, i], likelihood, posterior[:, i])
        label(ax, title=shorten(fit.parameter_names[i], 40))
    top_legend(fig, axes[0])
    note = "densities with maximum 1, in the units of the coefficient"
    if len(numbers) > MOST:
        note += f"; {MOST} of {len(numbers)} coefficients"
    footnote(fig, note)
    return fig


def columns_to_draw(model: Model) -> Array:
    """Return (p,) bool: columns with a prior that do not belong to a smooth function."""
    return np.asarray(model.joint.informative & ~model.design.of_terms)


def _prior_draws(fit: Fit) -> Array:
    """Return draws (draws, parameters) of the reported coefficients from their prior, nan for those that cannot be drawn."""
    model = fit.model
    rng = np.random.default_rng(0)
    sigma = np.full(_DRAWS, model.noise(fit.aux))
    beta = np.full((_DRAWS, *model.shape), np.nan)
    with suppress(ProbregError):
        beta, _ = model.joint.sample_with_hyper(rng, beta.shape, sigma, proper=True)
    return reported_coefficients(model, beta).reshape(_DRAWS, -1)


def _posterior_draws(fit: Fit) -> Array:
    """Return draws (draws, parameters) of the coefficients, or quantiles of the normal around the mode."""
    s = fit.solution
    if s.draws is None or s.draws.elliptical:
        return fit.coef.values.ravel() + np.outer(_SCORES, fit.std_error.values.ravel())
    beta = s.draws.flat["beta"]
    return reported_coefficients(fit.model, beta).reshape(len(beta), -1)


def _draw_densities(ax: Any, prior: Array, likelihood: Array, posterior: Array) -> None:
    """Draw the densities of three samples; limits contain likelihood and posterior, and as much of the prior as keeps these visible."""
    series = {"prior": prior, "likelihood": likelihood, "posterior": posterior}
    drawn = {k: v for k, v in series.items() if np.isfinite(v).all() and np.ptp(v) > 0}
    if not drawn:
        message(ax, "no estimate and no spread to draw")
        return
    limits = {k: np.quantile(v, [0.001, 0.999]) for k, v in drawn.items()}
    wide = limits.pop("prior", None)
    low, high = wide if not limits else (np.inf, -np.inf)
    for ends in limits.values():
        low = min(low, ends[0])
        high = max(high, ends[1])
    if limits and wide is not None:
        width = high - low
        low = min(low, max(wide[0], low - 1.5 * width))
        high = max(high, min(wide[1], high + 1.5 * width))
    x = np.linspace(low, high, 401)
    for number, name in ((2, "prior"), (1, "likelihood"), (0, "posterior")):
        if name in drawn:
            y = _density(drawn[name], x)
            look = mark(number) | {"marker": None}
            width = 2.2 if name == "posterior" else 1.5
            ax.plot(x, y / y.max(), label=name, linewidth=width, **look)
    ax.set_xlim(low, high)
    if low <= 0 <= high:
        ax.axvline(0.0, **REFERENCE)
    ax.set_ylim(0, 1.06)
    ax.set_yticks([])
    ax.spines["left"].set_visible(False)
    few_ticks(ax)


def _density(sample: Array, x: Array) -> Array:
    """Return the kernel density of a sample at x, with Silverman's bandwidth from the quartiles if the tails are heavy."""
    from scipy.stats import gaussian_kde, iqr

    sd = sample.std()
    spread = min(sd, iqr(sample) / 1.349) or sd
    return gaussian_kde(sample, 0.9 * spread / sd * len(sample) ** -0.2)(x)
