"""The fitted curve over the data, with the band of the mean and, for a numeric response, of a new observation."""

from collections.abc import Mapping
from typing import TYPE_CHECKING, Any

import numpy as np

from probreg.arguments.scalars import Probability, check_arguments
from probreg.comparison.same_question import fits_by_name
from probreg.errors import Incompatible, NotConverged
from probreg.fits.fit import Fit
from probreg.likelihoods import OfClasses, OfTrials, SoftmaxLikelihood
from probreg.show.plot.observations import bin_means
from probreg.show.plot.style import (
    GREY,
    LIGHT,
    MANY,
    Size,
    footnote,
    label,
    mark,
    message,
    panels,
    shorten,
    top_legend,
)
from probreg.show.plot.sweep import Sweep, groups_along, sweep

if TYPE_CHECKING:
    from matplotlib.figure import Figure

Array = np.ndarray


@check_arguments
def fitted(
    fits: "Fit | Mapping[str, Fit]",
    variable: str | None = None,
    *,
    data: Any = None,
    prob: Probability = 0.95,
    span: tuple[float, float] | None = None,
    figsize: Size | None = None,
) -> "Figure":
    """Draw the mean E[y | x] along one numeric variable with the others at typical values, one panel for each fit.

    Rows of other levels than the curve's are faint. Measured and counted responses have data, mean, band of the mean and band of
    a new observation; trials have the shares of the rows, larger for more trials. Two levels have P(event) with its interval
    over the 0/1 data (jittered). Classes have the probability of each with its interval, and observed shares in bins.

    Parameters
    ----------
    fits : Fit or mapping from str to Fit
        One fit, or several by name.
    variable : str, optional
        By default the first numeric one with more than two values.
    data : table, optional
        The table of the fit, if the variables cannot be read back from its columns.
    prob : float
        Probability of every interval or band, between 0 and 1.
    span : pair of float, optional
        The range to draw, which may go beyond the data.
    figsize : pair of float, optional
        Width and height in inches.

    Returns
    -------
    Figure
        A matplotlib figure outside pyplot.

    Raises
    ------
    DataError
        As in `predict`, and without a numeric variable.

    Examples
    --------
    >>> import probreg as pr
    >>> orings = pr.load_dataset("challenger")
    >>> fit = pr.fit(pr.Model.from_formula("damage ~ temperature", orings, likelihood="bernoulli"))
    >>> fitted(fit, span=(31, 81)).axes[0].get_ylabel()
    'P(damage = 1)'
    """
    several = fits_by_name(fits, "plot.fitted")
    first = next(iter(several.values()))
    usable = (f for f in several.values() if f.solution.status.good)
    path = sweep(next(usable, first), variable, data, span)
    fig, axes = panels(
        len(several),
        3,
        width=7.2,
        height=2.9,
        figsize=figsize,
        sharex=True,
        sharey=True,
    )
    means = {
        fit.model.likelihood.mean_name(fit.model.design.response)
        for fit in several.values()
    }
    same = len(means) == 1  # several quantiles have their names in the titles
    y = means.pop() if same else first.model.design.response
    for i, (ax, (name, fit)) in enumerate(zip(axes, several.items())):
        _draw_fit(ax, fit, path, prob, _curve_word(fit) if same else "fitted curve")
        label(
            ax,
            x=shorten(path.variable) if i + 3 >= len(several) else None,
            y=None if i % 3 else shorten(y),
            title=shorten(name, 24) if len(several) > 1 else None,
        )
    top_legend(fig, axes[0])
    groups = {
        term.group: None
        for fit in several.values()
        for term in fit.model.design.recipe.grouped.values()
    }
    notes = [_describe_fixed_values(path, list(groups))]
    if isinstance(first.model.likelihood, SoftmaxLikelihood):
        notes.insert(0, f"Bands: {100 * prob:g} % intervals of the probabilities")
        notes.insert(0, "Markers: observed shares in bins of rows")
    elif not path.met.all():
        levels = ", ".join(shorten(name, 24) for name in path.levels)
        notes.append(f"Faint points: rows of other levels of {levels}")
    footnote(fig, ". ".join(note for note in notes if note))
    return fig


def _describe_fixed_values(path: Sweep, groups: list[str]) -> str:
    """Describe the values of the variables that do not vary along the curve."""
    max_values = 5  # variables with their values under the picture
    values = [f"{shorten(k, 24)} = {shorten(v, 24)}" for k, v in path.fixed.items()]
    if len(values) > max_values:
        values = [f"{len(values)} others at their mean or most frequent value"]
    if groups:
        values.append(f"effects of {', '.join(groups)} at zero")
    if path.offset is not None:
        values.append("offset at its mean")
    return f"Fixed: {', '.join(values)}" if values else ""


def _predict_new_groups(
    fit: Fit, path: Sweep, prob: float, prediction: Any
) -> tuple[Any, str]:
    """Replace the band of new observations by the band of a new group, if effects vary by groups; name the group."""
    if not fit.model.design.recipe.grouped or "new_lower" not in prediction:
        return prediction, ""
    try:
        new = fit.predict(path.rows, prob, offset=path.offset, groups="new")
    except Incompatible:  # their prior is not normal
        return prediction, ", typical group"
    return prediction.assign(
        {k: new[k] for k in ("new_lower", "new_upper")}
    ), ", new group"


def _curve_word(fit: Fit) -> str:
    """Name the curve for the legend."""
    likelihood = fit.model.likelihood
    name = likelihood.mean_name(fit.model.design.response)
    if name == fit.model.design.response or isinstance(likelihood, OfClasses):
        return "mean"
    return shorten(name.removeprefix("the "), 28)  # such as a quantile


def _draw_fit(ax: Any, fit: Fit, path: Sweep, prob: float, word: str) -> None:
    likelihood = fit.model.likelihood
    groups = groups_along(fit)
    try:
        prediction = fit.predict(path.rows, prob, offset=path.offset, groups=groups)
    except (NotConverged, Incompatible):
        message(ax, "no estimate to draw")
        return
    if isinstance(likelihood, SoftmaxLikelihood):
        _draw_classes(ax, fit, path, prediction)
        return
    if likelihood.binary:
        # move 0 and 1 a little towards the middle, with a fixed seed, so that rows do not hide one another
        y = fit.model.design.observed
        jitter = np.random.default_rng(0).uniform(0.0, 0.05, len(y))
        y = y + np.where(y > 0.5, -1.0, 1.0) * jitter
        style = {"facecolors": "none", "zorder": 2.5}
        _draw_points(ax, fit, path, y, label=f"{_data_word(fit)} (jittered)", **style)
        ax.set_ylim(-0.04, 1.04)
    else:
        y = likelihood.response(fit.model.design.observed)
        style = {"facecolors": "white", "zorder": 1.5}
        _draw_points(ax, fit, path, y, label=_data_word(fit), **style)
        prediction, group = _predict_new_groups(fit, path, prob, prediction)
        # none under sampling weights; new observations of trials are successes, not shares
        if "new_lower" in prediction and not isinstance(likelihood, OfTrials):
            words = f"{100 * prob:g} % of new observations{group}"
            look = {"color": LIGHT, "alpha": 0.55, "linewidth": 0, "zorder": 1}
            ends = prediction["new_lower"], prediction["new_upper"]
            ax.fill_between(path.x, *ends, label=words, **look)
    look = {"color": mark(0)["color"], "zorder": 2}
    words = f"{100 * prob:g} % interval of the {word}"
    ends = prediction["mean_lower"], prediction["mean_upper"]
    ax.fill_between(path.x, *ends, label=words, alpha=0.28, linewidth=0, **look)
    ax.plot(path.x, prediction["mean"], label=word, linewidth=1.8, **look)


def _draw_points(
    ax: Any, fit: Fit, path: Sweep, y: Array, *, label: str, **look: Any
) -> None:
    """Draw the rows; rows of other levels than the curve's are faint."""
    faint = 0.25  # opacity of points of other levels than the curve's
    w = _trials(fit)
    area = np.full(len(y), 18.0 if len(y) <= 300 else 8.0)
    if w is not None:
        area = np.maximum(area * w / w.mean(), 1.0)
    look = {"edgecolors": GREY, "linewidths": 0.8, "rasterized": len(y) > MANY, **look}
    for rows, options in ((path.met, {"label": label}), (~path.met, {"alpha": faint})):
        if rows.any():
            ax.scatter(path.observed[rows], y[rows], s=area[rows], **look, **options)


def _data_word(fit: Fit) -> str:
    """Name the points for the legend."""
    if isinstance(fit.model.likelihood, OfTrials):
        return "share in a row, larger for more trials"
    if fit.model.design.weights is None:
        return "data"
    return "data, larger for more weight"


def _trials(fit: Fit) -> Array | None:
    """Return the trials of each row times its weight, or the weights if a row is one trial."""
    design = fit.model.design
    likelihood = fit.model.likelihood
    if not isinstance(likelihood, OfTrials):
        return design.weights
    n = likelihood.given(design.observed)["trials"]
    return n if design.weights is None else n * design.weights


def _draw_classes(ax: Any, fit: Fit, path: Sweep, prediction: Any) -> None:
    """Draw the probability of each class with its band, and observed shares in bins of rows."""
    observed = fit.model.likelihood.response(fit.model.design.observed)
    weights = _trials(fit)
    for k, level in enumerate(prediction["level"].values):
        look = mark(k)
        curve = prediction.sel(level=level)
        ends = curve["mean_lower"], curve["mean_upper"]
        ax.fill_between(path.x, *ends, color=look["color"], alpha=0.18, lw=0)
        ax.plot(path.x, curve["mean"], **look | {"marker": None, "linewidth": 1.8})
        shares = bin_means(path.observed, np.nan_to_num(observed[:, k]), weights, 8)
        ax.plot(*shares, markersize=4.5, **look | {"linestyle": ""})
        ax.plot([], [], label=shorten(level, 24), markersize=4.5, **look)
    ax.set_ylim(-0.03, 1.03)
