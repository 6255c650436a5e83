"""Estimates and intervals of several fits side by side; prior, likelihood and posterior of one."""

from collections.abc import Mapping
from contextlib import suppress
from typing import Any

import numpy as np
from scipy.special import ndtri

from probreg.arguments.scalars import Figure, Probability, check_arguments
from probreg.comparison.prior_weight import maximum_likelihood
from probreg.comparison.same_question import fits_by_name
from probreg.errors import Incompatible, ProbregError
from probreg.fits.fit import Fit
from probreg.fits.goodness import estimate_name
from probreg.fits.inference_data import (
    coefficient_draws,
    index_labels,
    reported_coefficients,
)
from probreg.inference.base import has_effects
from probreg.model.model import Model
from probreg.show.plot.style import (
    GREY,
    LIGHT,
    REFERENCE,
    SMALL,
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

Array = np.ndarray


@check_arguments
def coefficients(
    fits: "Fit | Mapping[str, Fit]",
    prob: Probability = 0.95,
    *,
    figsize: Size | None = None,
) -> Figure:
    """Draw estimates with intervals of probability `prob`, of one fit or of several.

    Each coefficient has a panel with its own axis, because their units differ. A line marks zero if it is near. At most 40
    parameters are drawn; coefficients of smooth functions are left out if there are others.

    Parameters
    ----------
    fits : Fit or mapping from str to Fit
        One fit, or several by name.
    prob : float
        Probability of the intervals, between 0 and 1.
    figsize : pair of float, optional
        Width and height in inches.

    Returns
    -------
    Figure
        A matplotlib figure outside pyplot.

    Raises
    ------
    DataError
        Unless 0 < prob < 1.

    Examples
    --------
    >>> import probreg as pr
    >>> model = pr.Model.from_arrays([[2.0], [3.0], [4.0], [6.0]], [5.0, 7.0, 9.0, 13.5], columns=["dose"])
    >>> [ax.get_title(loc="left") for ax in coefficients(pr.fit(model)).axes]
    ['Intercept', 'dose', 'sigma']
    """
    most = 40  # parameters in one picture
    several = fits_by_name(fits, "plot.coefficients")
    tables = [_estimates_by_name(fit, prob) for fit in several.values()]
    all_names = list(dict.fromkeys(name for table in tables for name in table))
    # coefficients of smooth functions and processes have no meaning one by one
    smooth = {name for fit in several.values() for name in _smooth_coefficients(fit)}
    parameters = [name for name in all_names if name not in smooth] or all_names
    shown = parameters[:most]
    names = [f"{name} ({estimate_name(fit)})" for name, fit in several.items()]
    cols = 1 + (len(shown) > 4) + (len(shown) > 16)
    width = 7.2 + 1.2 * (cols == 3)
    height = 0.46 + 0.2 * len(tables)
    fig, axes = panels(len(shown), cols, width=width, height=height, figsize=figsize)
    for ax, parameter in zip(axes, shown):
        _draw_parameter(ax, parameter, [table.get(parameter) for table in tables])
        if cols == 1 and len(tables) > 1:
            ax.set_yticklabels([shorten(name, 34) for name in names])
    if cols > 1 and len(tables) > 1:
        for k, name in enumerate(names):
            axes[0].plot([], [], label=shorten(name), **mark(k) | {"linestyle": "-"})
        top_legend(fig, axes[0])
    notes = [f"{100 * prob:g} % intervals, each in the units of its coefficient"]
    if len(tables) == 1:
        notes[0] = f"{names[0]}, {notes[0]}"
    if len(parameters) > most:
        notes.append(f"{most} of {len(parameters)} parameters")
    if len(parameters) < len(all_names):
        notes.append("plot.smooth draws the smooth functions")
    footnote(fig, *notes, between="; ")
    return fig


def _smooth_coefficients(fit: Fit) -> Array:
    """Return the names of the coefficients of smooth functions and processes."""
    smooth = fit.model.design.of_terms[fit.model.design.ungrouped]
    names = np.array(fit.parameter_names, dtype=object)
    return names[np.repeat(smooth, len(names) // max(len(smooth), 1))]


def _estimates_by_name(fit: Fit, prob: float) -> dict[str, Array]:
    """Return estimate, lower and upper end of each parameter by name."""
    table = fit.summary(prob)
    values = table[[table.columns[0], "lower", "upper"]].to_numpy(dtype=float)
    return dict(zip(index_labels(table.index), values))


def _draw_parameter(ax: Any, name: str, rows: list[Array | None]) -> None:
    """Draw the intervals of one parameter, one line for each fit; an infinite end is an arrow."""
    few_ticks(ax)
    _set_limits(ax, rows)
    label(ax, title=name)
    ax.spines["left"].set_visible(False)
    ax.tick_params(axis="y", length=0)
    for i, row in enumerate(rows):
        look = mark(i) | {"linestyle": ""}
        across = {"transform": ax.get_yaxis_transform()}
        ax.axhline(i, color=LIGHT, linewidth=0.5, zorder=0)
        if row is None or not np.isfinite(row[0]):
            text = "not in this model" if row is None else "no estimate exists"
            where = {"va": "center", "ha": "center", **across}
            ax.text(0.5, i, text, fontsize=SMALL, color=GREY, **where)
            continue
        ends = np.clip(row[1:], *ax.get_xlim())
        ax.plot(ends, [i, i], color=look["color"], linewidth=1.8, solid_capstyle="butt")
        for end, x, head in zip(row[1:], (0.0, 1.0), ("<", ">")):
            if np.isinf(end):
                arrow = look | {"marker": head, "clip_on": False}
                ax.plot([x], [i], **arrow, **across)
        ax.plot([row[0]], [i], markersize=6, **look)
    ax.set_yticks(range(len(rows)), [""] * len(rows))
    ax.set_ylim(len(rows) - 0.5, -0.5)


def _set_limits(ax: Any, rows: list[Array | None]) -> None:
    """Make room for every interval; mark zero by a line if it is near."""
    margin = 0.1  # share of the width left free at each side of the longest interval
    near = 2.0  # zero is on the axis if it is within this number of widths of the intervals
    ends = np.concatenate([[], *(row for row in rows if row is not None)])
    ends = ends[np.isfinite(ends)]
    if not len(ends):
        ax.set_xticks([])
        return
    low = ends.min()
    high = ends.max()
    width = (high - low) or abs(high) or 1.0
    if low - near * width <= 0 <= high + near * width:
        low = min(low, 0.0)
        high = max(high, 0.0)
        ax.axvline(0.0, **REFERENCE)
    pad = margin * ((high - low) or abs(high) or 1.0)
    ax.set_xlim(low - pad, high + pad)


# ---- prior, likelihood and posterior of each coefficient on one axis ------------------------------------------------


MOST_COEFFICIENTS = 12  # coefficients in one picture
_DRAWS_OF_PRIOR = 4000  # of the prior
# a sample of a normal distribution
_SCORES = ndtri((np.arange(_DRAWS_OF_PRIOR) + 0.5) / _DRAWS_OF_PRIOR)


@check_arguments
def prior_weight(fit: Fit, *, figsize: Size | None = None) -> Figure:
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
    shown = numbers[:MOST_COEFFICIENTS]
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
    if len(numbers) > MOST_COEFFICIENTS:
        note += f"; {MOST_COEFFICIENTS} of {len(numbers)} coefficients"
    footnote(fig, note)
    return fig


def columns_to_draw(model: Model) -> Array:
    """Return (p,) bool: columns with a prior that do not belong to a smooth function."""
    return model.joint.informative & ~model.design.of_terms


def _prior_draws(fit: Fit) -> Array:
    """Return draws (draws, parameters) of the reported coefficients from their prior, nan for parameters that cannot be drawn."""
    model = fit.model
    rng = np.random.default_rng(0)
    sigma = np.full(_DRAWS_OF_PRIOR, model.noise(fit.aux))
    beta = np.full((_DRAWS_OF_PRIOR, *model.shape), np.nan)
    with suppress(ProbregError):
        beta, _ = model.joint.sample_with_hyper(rng, beta.shape, sigma, proper=True)
    return reported_coefficients(model, beta).reshape(_DRAWS_OF_PRIOR, -1)


def _posterior_draws(fit: Fit) -> Array:
    """Return draws (draws, parameters) of the coefficients, or quantiles of the normal around the mode."""
    s = fit.solution
    if s.draws is None or s.draws.elliptical:
        return fit.coef.values.ravel() + np.outer(_SCORES, fit.std_error.values.ravel())
    return coefficient_draws(fit).reshape(s.draws.count, -1)


def _draw_densities(ax: Any, prior: Array, likelihood: Array, posterior: Array) -> None:
    """Draw the densities of three samples; the axis contains likelihood and posterior, and as much of the prior as possible without hiding them."""
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
