"""Prior, likelihood and posterior of each coefficient on one axis."""

from typing import TYPE_CHECKING, Any

import numpy as np

from probreg.arguments.scalars import check_arguments
from probreg.comparison.prior_weight import maximum_likelihood
from probreg.errors import Incompatible, ProbregError
from probreg.fits.fit import Fit
from probreg.fits.inference_data import reported_coefficients
from probreg.inference.base import has_effects
from probreg.model.model import Model
from probreg.priors import Flat
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
_POINTS = 401
_DRAWS = 4000  # of the prior


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
    posterior = _posterior(fit)
    cols = 1 + (len(shown) > 1) + (len(shown) > 6)
    fig, axes = panels(len(shown), cols, width=7.4, height=1.75, figsize=figsize)
    for ax, i in zip(axes, shown):
        own_prior = None if prior is None else prior[:, i]
        _draw_densities(ax, own_prior, (ml[i], se[i]), posterior[i])
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


def _prior_draws(fit: Fit) -> Array | None:
    """Return draws (draws, parameters) of the reported coefficients from their prior, None if it cannot be drawn."""
    model = fit.model
    rng = np.random.default_rng(0)
    if model.joint.contrast is not None:
        return None  # a penalty on all classes
    sigma = fit.model.noise(fit.aux)
    drawn_beta = np.zeros((_DRAWS, *model.shape))
    for b in model.joint.blocks:
        if isinstance(b.prior, Flat) or model.design.of_terms[list(b.columns)].all():
            continue
        unit = sigma if b.prior.sigma_units else 1.0
        shape = (_DRAWS, len(b.columns), b.width(model.shape[1]))
        try:
            b.put(drawn_beta, b.prior.sample(rng, shape, unit))
        except ProbregError:
            return None
    return reported_coefficients(model, drawn_beta).reshape(_DRAWS, -1)


def _posterior(fit: Fit) -> list[Any]:
    """Return draws (S,), or (mode, sd), for each parameter."""
    s = fit.solution
    if s.draws is not None and not s.draws.elliptical:
        beta = s.draws.flat["beta"]
        return list(reported_coefficients(fit.model, beta).reshape(len(beta), -1).T)
    return list(zip(fit.coef.values.ravel(), fit.std_error.values.ravel()))


def _draw_densities(
    ax: Any, prior: Array | None, likelihood: tuple[float, float], posterior: Any
) -> None:
    low, high = _limits(prior, likelihood, posterior)
    if not np.isfinite([low, high]).all():
        message(ax, "no estimate and no spread to draw")
        return
    x = np.linspace(low, high, _POINTS)
    series = (("prior", prior, 2), ("likelihood", likelihood, 1), ("posterior", posterior, 0))  # fmt: skip
    for name, distribution, number in series:
        y = None if distribution is None else _density(distribution, x)
        if y is not None:
            look = mark(number)
            width = 2.2 if name == "posterior" else 1.5
            style = {"color": look.color, "linestyle": look.line, "linewidth": width}
            ax.plot(x, y / y.max(), label=name, **style)
    if low <= 0 <= high:
        ax.axvline(0.0, **REFERENCE)
    ax.set_ylim(0, 1.06)
    ax.set_yticks([])
    ax.spines["left"].set_visible(False)
    few_ticks(ax)


def _limits(
    prior: Array | None, likelihood: tuple[float, float], posterior: Any
) -> tuple[float, float]:
    """Return limits that contain likelihood and posterior, and as much of the prior as keeps them wide enough to see."""
    if isinstance(posterior, np.ndarray):
        posterior = (posterior.mean(), posterior.std())
    ends = []
    for centre, sd in (likelihood, posterior):
        if np.isfinite([centre, sd]).all() and sd > 0:
            ends += [centre - 4 * sd, centre + 4 * sd]
    if prior is not None:
        low, high = np.quantile(prior, [0.01, 0.99])
        if not ends:
            return float(low), float(high)
        width = max(ends) - min(ends)
        middle = 0.5 * (min(ends) + max(ends))
        ends += [max(low, middle - 2 * width), min(high, middle + 2 * width)]
    return (min(ends), max(ends)) if ends else (np.nan, np.nan)


def _density(distribution: Any, x: Array) -> Array | None:
    """Return the density of draws (S,), by a kernel estimate, or of a normal (centre, sd); None without a spread."""
    if not isinstance(distribution, np.ndarray):
        centre, sd = distribution
        if not (np.isfinite([centre, sd]).all() and sd > 0):
            return None
        return np.exp(-0.5 * ((x - centre) / sd) ** 2)
    from scipy.stats import gaussian_kde

    # Silverman's width from the quartiles, which heavy tails do not change
    low, high = np.quantile(distribution, [0.25, 0.75])
    width = (
        0.9 * min(distribution.std(), (high - low) / 1.34) * len(distribution) ** -0.2
    )
    if not width > 0:
        return None
    spread = distribution.std(ddof=1)
    return np.asarray(gaussian_kde(distribution, width / spread)(x))
