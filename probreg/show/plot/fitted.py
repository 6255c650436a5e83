"""The fitted curve over the data, with the band of the mean and, for a numeric response, of a new observation.

`sweep` chooses the rows of the curve: one variable varies, and the others are at typical values. The variables behind the
columns of a formula come from `probreg.data.formula.variables`.
"""

from collections.abc import Mapping
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import numpy as np

from probreg.arguments.scalars import Probability, Word, check_arguments
from probreg.comparison.same_question import fits_by_name
from probreg.data.formula.layout import plain_level
from probreg.data.formula.variables import categories, variables
from probreg.data.rows import full_weights
from probreg.errors import DataError, Incompatible, NotConverged
from probreg.fits.fit import Fit
from probreg.likelihoods import OfClasses, OfTrials
from probreg.likelihoods.quantities import RowQuantity
from probreg.model.group_effects import Groups
from probreg.model.quantities import quantity_called
from probreg.show.plot.observations import bin_means, count_censored
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

if TYPE_CHECKING:
    from matplotlib.figure import Figure

Array = np.ndarray


@dataclass(frozen=True, eq=False)
class Sweep:
    """Values `x` (g,) of the variable, the rows for `predict`, the values of the others (`fixed`), and the `observed` values (n,).

    `is_on_curve` (n,) marks the rows with the same value as the curve of every variable in `levels`, those that are not at a mean.
    """

    variable: str
    x: Array
    rows: dict[str, Array]
    offset: Array | None
    fixed: dict[str, str]
    observed: Array
    levels: tuple[str, ...]
    is_on_curve: Array


def sweep(
    fit: Fit, variable: str | None, data: Any, span: tuple[float, float] | None
) -> Sweep:
    """Return rows along `variable`, by default the first numeric one with more than two values.

    Other numeric variables are at their mean; variables with two values and categories, including C(x), at their most frequent
    value. DataError without a numeric variable, and if the variables cannot be read back and `data` is None.
    """
    n_points = 61
    design = fit.model.design
    groups = design.recipe.of_groups_alone
    table = {
        name: values
        for name, values in variables(design, data).items()
        if name not in groups
    }
    by_level = categories(design)
    sizes = {
        name: len(np.unique(v))
        for name, v in table.items()
        if isinstance(v, np.ndarray) and v.dtype.kind in "iuf"
    }
    means = {name for name, k in sizes.items() if k > 2 and name not in by_level}
    base = {
        name: _typical_value(values, design.weights, mean=name in means)
        for name, values in table.items()
    }
    numeric = [name for name, k in sizes.items() if k > 1 and name not in by_level]
    if not numeric:
        raise DataError(
            "no numeric variable varies in these data, so there is no curve to draw; "
            "predictions(fit, by=...) averages over the rows of each level"
        )
    if variable is None:
        variable = next((name for name in numeric if name in means), numeric[0])
    if variable not in numeric:
        raise DataError(
            f"{variable!r} is not a numeric variable of this model; those are: {', '.join(numeric)}"
        )
    observed = np.asarray(table[variable], dtype=float)
    low, high = span or (float(observed.min()), float(observed.max()))
    x = np.linspace(low, high, n_points)
    fixed = {k: _format_value(value) for k, value in base.items() if k != variable}
    levels = tuple(name for name in fixed if name not in means)
    at_base = np.ones(len(observed), dtype=bool)
    for name in levels:
        at_base &= np.asarray(table[name]) == base[name]
    rows = {
        name: np.array([v] * n_points, dtype=object if isinstance(v, str) else None)
        for name, v in base.items()
    }
    rows[variable] = x
    offset = None
    if design.offset is not None:
        offset = np.tile(design.offset.mean(0), (n_points, 1))
    return Sweep(variable, x, rows, offset, fixed, observed, levels, at_base)


def groups_along(fit: Fit) -> Groups | None:
    """Return the groups of a curve: the typical one, with effects of zero."""
    if fit.model.design.recipe.grouped:
        return "typical"
    return None


def _typical_value(values: Any, weights: Array | None, *, mean: bool) -> Any:
    """Return the mean of a number, or the most frequent value."""
    if mean:
        return float(np.average(values, weights=weights))
    plain = np.asarray(values)
    # dates stay dates, which tolist turns into integers
    seen = list(dict.fromkeys(plain if plain.dtype.kind in "mM" else plain.tolist()))
    w = full_weights(weights, len(plain))
    return max(seen, key=lambda v: w[plain == v].sum())


def _format_value(value: Any) -> str:
    if isinstance(value, float):
        return f"{value:.4g}"
    return str(plain_level(value))


@check_arguments
def fitted(
    fits: "Fit | Mapping[str, Fit]",
    variable: str | None = None,
    *,
    what: Word = "mean",
    data: Any = None,
    prob: Probability = 0.95,
    span: tuple[float, float] | None = None,
    figsize: Size | None = None,
) -> "Figure":
    """Draw the mean E[y | x], or another quantity, along one numeric variable with the others at typical values, one panel for each fit.

    Rows of other levels than the curve's are faint. Measured and counted responses have data, mean, band of the mean and band of
    a new observation; trials have the shares of the rows, larger for more trials. Two levels have P(event) with its interval
    over the 0/1 data (jittered). Classes have the probability of each with its interval, and observed shares in bins.

    Parameters
    ----------
    fits : Fit or mapping from str to Fit
        One fit, or several by name.
    variable : str, optional
        By default the first numeric one with more than two values.
    what : str
        As in `predict`: "mean", or another quantity, such as "sigma", which is drawn without the data.
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
    means = {_axis_name(fit, what) for fit in several.values()}
    same = len(means) == 1  # several quantiles have their names in the titles
    y = means.pop() if same else first.model.design.response
    for i, (ax, (name, fit)) in enumerate(zip(axes, several.items())):
        _draw_fit(
            ax, fit, path, prob, what, _curve_word(fit) if same else "fitted curve"
        )
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
    if what != "mean":
        footnote(fig, *notes)
        return fig
    if not first.model.likelihood.has_scalar_mean:
        notes.insert(0, f"Bands: {100 * prob:g} % intervals of the probabilities")
        notes.insert(0, "Markers: observed shares in bins of rows")
    elif not path.is_on_curve.all():
        levels = ", ".join(shorten(name, 24) for name in path.levels)
        notes.append(f"Faint points: rows of other levels of {levels}")
    footnote(fig, *notes, count_censored(first, "are not drawn"))
    return fig


def _axis_name(fit: Fit, what: str) -> str:
    """Name the quantity on the axis."""
    quantity = quantity_called(fit.model.likelihood, what)
    if isinstance(quantity, RowQuantity):
        return quantity.name
    return fit.model.likelihood.mean_name(fit.model.design.response)


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


def _draw_fit(
    ax: Any, fit: Fit, path: Sweep, prob: float, what: str, word: str
) -> None:
    likelihood = fit.model.likelihood
    groups = groups_along(fit)
    try:
        prediction = fit.predict(
            path.rows, prob, what=what, offset=path.offset, groups=groups
        )
    except (NotConverged, Incompatible):
        message(ax, "no estimate to draw")
        return
    if what != "mean":
        _draw_band(ax, path, prob, prediction, _axis_name(fit, what), what)
        return
    if not likelihood.has_scalar_mean:
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
    _draw_band(ax, path, prob, prediction, f"the {word}")


def _draw_band(
    ax: Any, path: Sweep, prob: float, prediction: Any, name: str, what: str = "mean"
) -> None:
    """Draw a curve with its interval."""
    look = {"color": mark(0)["color"], "zorder": 2}
    words = f"{100 * prob:g} % interval of {name}"
    ends = prediction[f"{what}_lower"], prediction[f"{what}_upper"]
    ax.fill_between(path.x, *ends, label=words, alpha=0.28, linewidth=0, **look)
    ax.plot(
        path.x,
        prediction[what],
        label=name.removeprefix("the "),
        linewidth=1.8,
        **look,
    )


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
    for rows, options in (
        (path.is_on_curve, {"label": label}),
        (~path.is_on_curve, {"alpha": faint}),
    ):
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
