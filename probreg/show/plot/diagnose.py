"""One figure with the diagnostic pictures that apply to a fit, as R's plot.lm does for linear models; rootograms."""

from collections.abc import Callable
from contextlib import suppress
from typing import Any, NamedTuple

import numpy as np
from scipy.special import ndtri

from probreg.arguments.scalars import Figure, Probability, check_arguments
from probreg.comparison.same_question import method_name
from probreg.diagnostics.after.fit_arrays import deletion_arrays
from probreg.diagnostics.after.influence import influence_measures
from probreg.diagnostics.findings import NotApplicable
from probreg.errors import Incompatible
from probreg.fits.fit import Fit
from probreg.fits.residuals import noiseless_obstacle, quantile_residuals
from probreg.likelihoods import OfClasses, OfTrials
from probreg.show.plot.observations import (
    Observations,
    beyond,
    bin_means,
    count_censored,
    normal_order,
    observations,
)
from probreg.show.plot.reliability import draw_shares, forecasts_of_fit
from probreg.show.plot.style import (
    GREY,
    INK,
    LIGHT,
    REFERENCE,
    SMALL,
    Size,
    fitted_name,
    footnote,
    label,
    mark,
    panels,
    points,
    shorten,
    top_legend,
)

Array = np.ndarray
BAND = 0.95


@check_arguments
def diagnose(fit: Fit, *, figsize: Size | None = None) -> Figure:
    """Draw the diagnostic pictures that apply: residuals, quantiles, spread, agreement with the data, leverage.

    A measured response has the pictures that R draws for a linear model, and the response against its fitted mean. Counts have
    a rootogram: roots of observed and expected frequencies. Events and classes have calibration. Leverage, with contours of
    Cook's distance, is left out for likelihoods with kinks and for priors that are not normal. A fit without residuals
    has no leverage and no quantile residuals. A quantile residual is
    Phi^-1(P(Y <= y)) under the predictive distribution. If the model is right, it is standard normal, except for the error of
    the estimates. For a discrete response it is randomised.

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
    DataError
        Without rows.
    NotConverged
        Without an estimate.

    References
    ----------
    Kleiber & Zeileis 2016 (rootograms).

    Examples
    --------
    >>> import probreg as pr
    >>> fit = pr.fit(pr.Model.from_formula("stack_loss ~ .", pr.load_dataset("stackloss")))
    >>> [ax.get_title(loc="left") for ax in diagnose(fit).axes][:3]
    ['Residuals', 'Quantiles', 'Spread']
    """
    seen = observations(fit)
    z = np.zeros(0)
    exact = noiseless_obstacle(fit)
    if fit.model.likelihood.has_cdf and exact is None:
        z = quantile_residuals(fit, seen.rows)
    pictures = _panels_by_title(fit, seen, z)
    across = 2 if len(pictures) == 4 else min(len(pictures), 3)
    fig, axes = panels(
        len(pictures), across, width=3.5 * across, height=3.0, figsize=figsize
    )
    for ax, (title, draw) in zip(axes, pictures.items()):
        label(ax, title=title)
        draw(ax)
    top_legend(fig, axes)
    place = "at the estimate"
    if fit.target == "posterior":
        place = "under the posterior predictive"
    bands = f"Bands: {100 * BAND:g} %"
    censored = count_censored(fit, "have a quantile residual only")
    name = f"{method_name(fit)}, {place}"
    footnote(fig, name, beyond(z), seen.note, censored, exact or bands)
    return fig


def _panels_by_title(
    fit: Fit, seen: Observations, z: Array
) -> dict[str, Callable[[Any], object]]:
    likelihood = fit.model.likelihood
    draws: dict[str, Callable[[Any], object]] = {}
    is_number = not isinstance(likelihood, OfClasses) or isinstance(
        likelihood, OfTrials
    )
    if likelihood.has_cdf and is_number:
        draws["Residuals"] = lambda ax: _draw_residuals(ax, fit, seen, z)
    if len(z):
        draws["Quantiles"] = lambda ax: _draw_quantiles(ax, z)
        if is_number:
            draws["Spread"] = lambda ax: _draw_spread(ax, fit, seen, z)
    if isinstance(likelihood, OfClasses):
        draws["Calibration"] = lambda ax: _draw_calibration(ax, fit, seen)
    elif not likelihood.is_discrete:
        draws["Response"] = lambda ax: _draw_response(ax, fit, seen)
    else:
        draws["Rootogram"] = lambda ax: _draw_rootogram(ax, fit, seen)
    with suppress(NotApplicable):
        fit.once(deletion_arrays)
        draws["Leverage"] = lambda ax: _draw_leverage(ax, fit)
    return draws


def _draw_residuals(ax: Any, fit: Fit, seen: Observations, z: Array) -> None:
    """Draw residuals against the fitted mean with means in bins: y - E[y], or quantile residuals z for a discrete response."""
    residual = z
    name = "quantile residual"
    if not fit.model.likelihood.is_discrete:
        residual = seen.y - seen.mean
        name = f"residual of {shorten(fit.model.design.response)}"
    ax.axhline(0.0, **REFERENCE)
    _draw_with_means(ax, seen.mean, residual)
    label(ax, x=fitted_name(fit), y=name)


def _draw_with_means(ax: Any, x: Array, y: Array) -> None:
    """Draw points, and their means in bins along x if x takes more than three values."""
    points(ax, x, y)
    if len(np.unique(x)) > 3:
        look = {"color": mark(1)["color"], "linewidth": 1.8}
        ax.plot(*bin_means(x, y), label="mean in bins", **look)


def _draw_quantiles(ax: Any, z: Array) -> None:
    """Draw sorted z against normal quantiles, the band of a normal sample, and the diagonal."""
    middle, lower, upper = normal_order(len(z), BAND)
    words = f"{100 * BAND:g} % band of a normal sample, pointwise"
    ax.fill_between(middle, lower, upper, color=LIGHT, alpha=0.7, lw=0, label=words)
    ax.plot(middle, middle, **REFERENCE)
    points(ax, middle, np.sort(z), zorder=2.5)
    label(ax, x="normal quantile", y="quantile residual")


def _draw_spread(ax: Any, fit: Fit, seen: Observations, z: Array) -> None:
    """Draw the roots of absolute quantile residuals against the fitted mean, and their average for normal noise."""
    # E sqrt|z| for a standard normal z: 2^(1/4) Gamma(3/4) / sqrt(pi)
    mean_root = 0.82218
    ax.axhline(mean_root, label="mean for normal noise", **REFERENCE)
    _draw_with_means(ax, seen.mean, np.sqrt(np.abs(z)))
    ax.set_ylim(0.0, None)
    label(ax, x=fitted_name(fit), y="root of |quantile residual|")


def _draw_response(ax: Any, fit: Fit, seen: Observations) -> None:
    """Draw the response against its fitted mean, and the diagonal."""
    ends = [min(seen.mean.min(), seen.y.min()), max(seen.mean.max(), seen.y.max())]
    ax.plot(ends, ends, **REFERENCE)
    points(ax, seen.mean, seen.y)
    label(ax, x=fitted_name(fit), y=shorten(fit.model.design.response))


def _draw_rootogram(ax: Any, fit: Fit, seen: Observations) -> None:
    """Draw the roots of the observed (bars) and expected (line) frequencies of each count or group of counts."""
    counts = count_frequencies(seen)
    roots = np.sqrt(counts.observed)
    ax.bar(counts.middle, roots, 0.8 * counts.step, color=LIGHT, label="observed")
    draw_expected(ax, fit, counts)


def _draw_calibration(ax: Any, fit: Fit, seen: Observations) -> None:
    """Draw observed shares against predicted probabilities."""
    max_classes = 4  # classes in one panel: the first ones
    for k, panel in enumerate(forecasts_of_fit(fit, seen)[0][:max_classes]):
        draw_shares(ax, panel.decompose(), BAND, k, panel.title)
    label(ax, x="predicted probability", y="observed share")


def _draw_leverage(ax: Any, fit: Fit) -> None:
    """Draw studentised residuals against leverage, with contours of Cook's distance for one linear predictor."""
    n_labels = 3  # rows with a label: those with the largest Cook's distances
    influence = influence_measures(fit).isel(obs=fit.model.design.places)
    is_expected = fit.once(deletion_arrays).unknown is None
    kind = "internal" if is_expected else "studentised"
    h, r, cook = (influence[k].values for k in ("leverage", kind, "cook"))
    several = fit.model.shape[1] > 1
    points(ax, h, r)
    if is_expected and not several and np.isfinite(r).any():
        ax.axhline(0.0, **REFERENCE)
        # The number of coefficients that Cook's distance divides by: collinear columns count once.
        null = fit.solution.null_space
        collinear = 0 if null is None else null.shape[1]
        _draw_contours(ax, h, r, fit.model.shape[0] - collinear)
    label(
        ax,
        x="leverage",
        y="internally " * is_expected + "studentised residual" + " (length)" * several,
    )
    ax.margins(y=0.12)  # for the labels of rows; contours set their own limits
    boxes: list[Any] = []
    for i in np.argsort(-np.nan_to_num(cook, nan=-1.0))[:n_labels]:
        if not np.isfinite(r[i]):
            continue
        inward = -1
        alignment = "right"
        if h[i] <= np.mean(ax.get_xlim()):
            inward = 1
            alignment = "left"
        for up in (4, -9, 14, -19):
            text = ax.annotate(
                shorten(influence["obs"].values[i], 16), (h[i], r[i]), xytext=(5 * inward, up),
                textcoords="offset points", fontsize=SMALL, color=INK, ha=alignment,
            )  # fmt: skip
            box = text.get_window_extent()
            if not any(box.overlaps(other) for other in boxes):
                boxes.append(box)
                break
            text.remove()


def _draw_contours(ax: Any, h: Array, r: Array, k: int) -> None:
    """Draw lines of equal Cook's distance D = r^2 h / ((1 - h) k)."""
    reach = np.nanmax(np.abs(r)) * 1.15 + 0.3
    grid = np.linspace(1e-3, min(np.nanmax(h) * 1.1, 0.999), 400)
    for distance, line in ((0.5, (0, (5, 2))), (1.0, "-")):
        edge = np.sqrt(distance * k * (1.0 - grid) / grid)
        edge[edge > reach] = np.nan
        if np.isfinite(edge).any():
            look = {"color": GREY, "linewidth": 1.1, "linestyle": line}
            ax.plot(grid, edge, label=f"Cook's distance {distance:g}", **look)
            ax.plot(grid, -edge, **look)
    ax.set_ylim(-reach, reach)
    ax.set_xlim(0.0, min(np.nanmax(h) * 1.1, 1.0))


# ---- rootograms: roots of the observed and expected frequencies of counts -------------------------------------------


class Frequencies(NamedTuple):
    """The number of rows with each count, or in groups of `step` counts: observed, expected, and its variance given the model."""

    middle: Array
    step: int
    observed: Array
    expected: Array
    variance: Array


def count_frequencies(seen: Observations) -> Frequencies:
    """Return the frequencies in at most 25 groups of counts."""
    max_bars = 25
    y, w = seen.y, seen.weights
    upper = y.max() + 1.0
    step = int(np.ceil(upper / max_bars))
    edges = np.arange(0.0, upper + step, step)
    # P(a <= Y_i < b) = F_i(b - 1) - F_i(a - 1), and F_i(-1) = 0
    below = [seen.predictive.cdf(np.full(len(y), edge - 1.0)) for edge in edges]
    p = np.diff(below, axis=0)
    return Frequencies(
        (edges[:-1] + edges[1:] - 1.0) / 2.0,
        step,
        np.histogram(y, edges - 0.5, weights=w)[0],
        p @ w,
        (p * (1.0 - p)) @ w,
    )


def draw_expected(ax: Any, fit: Fit, counts: Frequencies) -> None:
    """Draw the roots of the expected frequencies as a line, and name the axes."""
    look = mark(0) | {"markersize": 3.5, "linewidth": 1.2}
    ax.plot(counts.middle, np.sqrt(counts.expected), label="expected", **look)
    ax.xaxis.get_major_locator().set_params(integer=True)
    label(ax, x=shorten(fit.model.design.response), y="root of the number of rows")


@check_arguments
def rootogram(
    fit: Fit, *, prob: Probability = 0.95, figsize: Size | None = None
) -> Figure:
    """Draw a hanging rootogram of counts: bars of the observed frequencies hang from the line of the expected ones.

    Heights are square roots, so that large and small frequencies have the same spread. If a bar ends above 0, the count is too
    rare in the data; if it ends below 0, the count is too frequent. In data from the model each bar ends inside the band with
    probability `prob`. If many bars end outside, or the bar of zeros ends far below the band, use another likelihood.

    Parameters
    ----------
    fit : Fit
        A fit of counts.
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
        For a response that is no count.

    References
    ----------
    Kleiber & Zeileis 2016.

    Examples
    --------
    >>> from probreg import Model
    >>> from probreg.fits.fit import fit
    >>> poisson = fit(Model.from_formula("y ~ 1", {"y": [0, 2, 1, 0, 3, 5]}, likelihood="poisson"))
    >>> rootogram(poisson).axes[0].get_ylabel()
    'root of the number of rows'
    """
    if not fit.model.likelihood.is_count:
        raise Incompatible(
            f"a rootogram needs counts, and {fit.model.likelihood.named} response has none: use plot.diagnose(fit)"
        )
    seen = observations(fit)
    counts = count_frequencies(seen)
    fig, (ax,) = panels(1, 1, width=5.0, height=3.4, figsize=figsize)
    top = np.sqrt(counts.expected)
    half = ndtri(0.5 + prob / 2.0) * np.sqrt(counts.variance)
    ends = [
        top - np.sqrt(np.maximum(counts.expected + s * half, 0.0)) for s in (1.0, -1.0)
    ]
    ax.bar(
        counts.middle,
        -np.sqrt(counts.observed),
        0.8 * counts.step,
        bottom=top,
        color=LIGHT,
        label="observed",
    )
    look = {"color": mark(1)["color"], "alpha": 0.25, "lw": 0}
    words = f"{100 * prob:g} % of data from the model"
    ax.fill_between(counts.middle, *ends, label=words, **look)
    ax.axhline(0.0, **REFERENCE)
    ax.use_sticky_edges = False  # room above the highest bar
    draw_expected(ax, fit, counts)
    top_legend(fig, [ax])
    footnote(fig, method_name(fit), seen.note)
    return fig
