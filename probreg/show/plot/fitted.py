"""The fitted curve over the data, with bands of the mean and of a new observation, and smooth functions with their bands.

`sweep` chooses the rows of the curve: one variable varies, and the others are at typical values.
"""

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

import numpy as np

from probreg.arguments.scalars import (
    Figure,
    Flag,
    Probability,
    Range,
    Word,
    check_arguments,
)
from probreg.comparison.same_question import fits_by_name, method_name
from probreg.data.checked_arrays import times_weights
from probreg.data.formula.functions import TermFunction, functions_called
from probreg.errors import DataError, Incompatible, NotConverged
from probreg.fits.fit import Fit
from probreg.likelihoods import OfClasses, OfTrials
from probreg.likelihoods.quantities import RowQuantity
from probreg.model.predictive import quantity_called
from probreg.show.plot.observations import (
    N_POINTS,
    ReferenceGrid,
    bin_means,
    count_censored,
)
from probreg.show.plot.style import (
    GREY,
    LIGHT,
    MANY_MARKS,
    Size,
    footnote,
    label,
    mark,
    message,
    panels,
    shorten,
    top_legend,
)

Array = np.ndarray


@dataclass(frozen=True, eq=False)
class Sweep:
    """Values `x` (g,) of the variable, the rows for `predict`, and the `observed` values (n,).

    `is_on_curve` (n,) marks the rows with the values of the curve in all `levels`, the variables that are not at a mean.
    """

    grid: ReferenceGrid
    variable: str
    x: Array
    rows: dict[str, Array]
    offset: Array | None
    observed: Array
    levels: tuple[str, ...]
    is_on_curve: Array


def sweep(fit: Fit, variable: str | None, data: Any, span: Range | None) -> Sweep:
    """Return rows along `variable`, by default the first numeric one with more than two values.

    DataError without a numeric variable, and if the variables cannot be read back and `data` is None.
    """
    grid = ReferenceGrid.of(fit, data)
    if not grid.numbers:
        raise DataError(
            "no numeric variable varies in these data, so there is no curve to draw; "
            "plot.effects(fit, condition=[...]) draws the levels of categories"
        )
    if variable is None:
        variable = next((k for k in grid.numbers if k in grid.means), grid.numbers[0])
    if variable not in grid.numbers:
        raise DataError(
            f"{variable!r} is not a numeric variable of this model; those are: {', '.join(grid.numbers)}"
        )
    observed = np.asarray(grid.table[variable], dtype=float)
    low, high = span or (observed.min(), observed.max())
    x = np.linspace(low, high, N_POINTS)
    levels = tuple(k for k in grid.table if k != variable and k not in grid.means)
    at_base = np.ones(len(observed), dtype=bool)
    for name in levels:
        at_base &= np.asarray(grid.table[name]) == grid.typical[name]
    return Sweep(
        grid, variable, x, *grid.rows({variable: x}), observed, levels, at_base
    )


@check_arguments
def fitted(
    fits: "Fit | Mapping[str, Fit]",
    variable: Word | None = None,
    *,
    what: Word = "mean",
    data: Any = None,
    prob: Probability = 0.95,
    span: Range | None = None,
    figsize: Size | None = None,
) -> Figure:
    """Draw the mean E[y | x], or another quantity, along one numeric variable with the others at typical values, one panel for each fit.

    Rows with other levels than the curve are faint. Measured and counted responses have the data, the mean, its band, and the
    band of a new observation. Trials have the shares of the rows, larger for more trials. Two levels have P(event) with its interval
    over the 0/1 data (jittered). Classes have the probability of each with its interval, and observed shares in bins.

    Parameters
    ----------
    fits : Fit or mapping from str to Fit
        One fit, or several by name, of the same response.
    variable : str, optional
        By default the first numeric one with more than two values.
    what : str
        As in `predict`: "mean", or another quantity ("sigma"), which is drawn without the data.
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
        As in `predict`, without a numeric variable, for fits of different responses, and for `data` that are not the table of the fit.

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
    responses = dict.fromkeys(fit.model.design.response for fit in several.values())
    if len(responses) > 1:
        raise DataError(
            f"plot.fitted: these fits have different responses, {', '.join(responses)}; draw the fits of each response apart"
        )
    usable = (f for f in several.values() if f.solution.status.good)
    common = sweep(next(usable, first), variable, data, span)
    paths = {
        name: sweep(f, common.variable, data, span)
        for name, f in several.items()
        if common.variable in f.model.design.recipe.all_variables
    }
    fig, axes = panels(
        len(several),
        3,
        width=7.2,
        height=2.9,
        figsize=figsize,
        sharex=True,
        sharey=True,
    )
    means = {axis_name(fit, what) for fit in several.values()}
    same = len(means) == 1  # several quantiles have their names in the titles
    y = means.pop() if same else first.model.design.response
    for i, (ax, (name, fit)) in enumerate(zip(axes, several.items())):
        path = paths.get(name)
        if path is None:
            message(ax, f"no {shorten(common.variable, 24)} in this model")
        else:
            _draw_fit(
                ax, fit, path, prob, what, _curve_word(fit) if same else "fitted curve"
            )
        if len(several) > 1:
            label(ax, title=shorten(name, 24))
        if i + 3 >= len(several):
            label(ax, x=shorten(common.variable))
        if i % 3 == 0:
            label(ax, y=shorten(y))
    top_legend(fig, axes[0])
    groups = {
        term.group: None
        for fit in several.values()
        for term in fit.model.design.recipe.grouped.values()
    }
    largest = max(paths.values(), key=lambda path: len(path.grid.table))
    notes = [largest.grid.describe([common.variable], list(groups))]
    if what != "mean":
        footnote(fig, *notes)
        return fig
    if not first.model.likelihood.has_scalar_mean:
        notes.insert(0, f"Bands: {100 * prob:g} % intervals of the probabilities")
        notes.insert(0, "Markers: observed shares in bins of rows")
    elif not all(path.is_on_curve.all() for path in paths.values()):
        levels = ", ".join(shorten(name, 24) for name in largest.levels)
        notes.append(f"Faint points: rows of other levels of {levels}")
    footnote(fig, *notes, count_censored(first, "are not drawn"))
    return fig


def axis_name(fit: Fit, what: str) -> str:
    """Name the quantity on the axis."""
    quantity = quantity_called(fit.model.likelihood, what)
    if isinstance(quantity, RowQuantity):
        return quantity.name
    return fit.model.likelihood.mean_name(fit.model.design.response)


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
    faint = 0.25  # opacity of points of other levels than the curve's
    likelihood = fit.model.likelihood
    try:
        prediction = fit.predict(
            path.rows,
            prob,
            what=what,
            offset=path.offset,
            groups=path.grid.groups or None,
        )
    except (NotConverged, Incompatible):
        message(ax, "no estimate to draw")
        return
    if what != "mean":
        _draw_band(ax, path, prob, prediction, axis_name(fit, what), what)
        return
    if not likelihood.has_scalar_mean:
        _draw_classes(ax, fit, path, prediction)
        return
    if path.is_on_curve.any():
        draw_points(ax, fit, path.observed, path.is_on_curve, label=data_word(fit))
    if not path.is_on_curve.all():
        draw_points(ax, fit, path.observed, ~path.is_on_curve, alpha=faint)
    if likelihood.binary:
        ax.set_ylim(-0.04, 1.04)
    else:
        prediction, group = _predict_new_groups(fit, path, prob, prediction)
        # no band under sampling weights; new observations of trials are successes, not shares
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


def draw_points(ax: Any, fit: Fit, x: Array, rows: Array, **look: Any) -> None:
    """Draw the responses of these rows at x (n,); 0 and 1 are moved a little towards the middle, so that rows do not hide one another."""
    y = fit.model.likelihood.response(fit.model.design.observed)
    binary = fit.model.likelihood.binary
    if binary:
        jitter = np.random.default_rng(0).uniform(0.0, 0.05, len(y))
        y = y + np.where(y > 0.5, -1.0, 1.0) * jitter
    w = count_trials(fit)
    area = np.full(len(y), 18.0 if len(y) <= 300 else 8.0)
    if w is not None:
        area = np.maximum(area * w / w.mean(), 1.0)
    style = {"edgecolors": GREY, "linewidths": 0.8, "rasterized": len(y) > MANY_MARKS}
    if binary:
        style |= {"facecolors": "none", "zorder": 2.5}
    else:
        style |= {"facecolors": "white", "zorder": 1.5}
    ax.scatter(x[rows], y[rows], s=area[rows], **style | look)


def data_word(fit: Fit) -> str:
    """Name the points for the legend."""
    if isinstance(fit.model.likelihood, OfTrials):
        return "share in a row, larger for more trials"
    word = (
        "data" if fit.model.design.weights is None else "data, larger for more weight"
    )
    return f"{word} (jittered)" if fit.model.likelihood.binary else word


def count_trials(fit: Fit) -> Array | None:
    """Return the trials of each row times its weight, or the weights if a row is one trial."""
    design = fit.model.design
    likelihood = fit.model.likelihood
    if not isinstance(likelihood, OfTrials):
        return design.weights
    n = likelihood.given(design.observed)["trials"]
    return times_weights(n, design.weights)


def draw_curve(
    ax: Any,
    x: Array,
    mean: Any,
    lower: Any,
    upper: Any,
    look: Mapping[str, Any],
    **line: Any,
) -> None:
    """Draw one of several curves with its interval."""
    ax.fill_between(x, lower, upper, color=look["color"], alpha=0.18, lw=0)
    ax.plot(x, mean, **{**look, "marker": None, "linewidth": 1.8, **line})


def _draw_classes(ax: Any, fit: Fit, path: Sweep, prediction: Any) -> None:
    """Draw the probability of each class with its band, and observed shares in bins of rows."""
    observed = fit.model.likelihood.response(fit.model.design.observed)
    weights = count_trials(fit)
    for k, level in enumerate(prediction["level"].values):
        look = mark(k)
        curve = prediction.sel(level=level)
        ends = curve["mean_lower"], curve["mean_upper"]
        draw_curve(ax, path.x, curve["mean"], *ends, look)
        shares = bin_means(path.observed, np.nan_to_num(observed[:, k]), weights, 8)
        ax.plot(*shares, markersize=4.5, **look | {"linestyle": ""})
        ax.plot([], [], label=shorten(level, 24), markersize=4.5, **look)
    ax.set_ylim(-0.03, 1.03)


# name, prefix and opacity of each band
_BANDS = (
    ("simultaneous band", "simultaneous_", 0.14),
    ("pointwise band", "", 0.28),
)


@check_arguments
def smooth(
    fit: Fit,
    term: Word | None = None,
    *,
    derivative: Flag = False,
    prob: Probability = 0.95,
    figsize: Size | None = None,
) -> Figure:
    """Draw smooth functions over their range: the estimate, a pointwise and a simultaneous band, the data as a rug.

    A smooth function is centred: its mean over the rows is zero. The dark band contains each value with probability `prob`, the
    light one the whole function. There is one panel for each function (each level of `by=`) and each outcome of a softmax; a
    function of two columns has contours. `fit.smooth` has the numbers.

    Parameters
    ----------
    fit : Fit
        A fit of a formula with smooth terms.
    term : str, optional
        "s(x)", with or without its options; "s(x, by=g)[a]" is one level. By default every function.
    derivative : bool
        Draw the derivatives of functions of one column.
    prob : float
        Probability of both bands, between 0 and 1.
    figsize : pair of float, optional
        Width and height in inches.

    Returns
    -------
    Figure
        A matplotlib figure outside pyplot.

    Raises
    ------
    DataError
        For an unknown smooth function, and for functions of three or more columns.

    References
    ----------
    Ruppert, Wand & Carroll 2003, section 6.5.

    Examples
    --------
    >>> import probreg as pr
    >>> x = np.linspace(0.0, 6.0, 40)
    >>> fit = pr.fit(pr.Model.from_formula("y ~ s(x)", {"x": x, "y": np.sin(x) + 0.1 * np.cos(40.0 * x)}))
    >>> [ax.get_xlabel() for ax in smooth(fit).axes]
    ['x']
    """
    most_panels = 12  # panels in a picture
    most_across = 3  # panels in a row
    functions = functions_called(fit.model.design, term)
    most_inputs = 2
    what = "functions of up to two columns"
    if derivative:
        most_inputs = 1
        what = "derivatives of functions of one column"
    shown = [f for f in functions if len(f.inputs) <= most_inputs]
    if not shown:
        raise DataError(
            f"only {what} are drawn, and {functions[0].label} has {len(functions[0].inputs)}; fit.smooth(at=...) has the numbers"
        )
    outcomes = fit.model.likelihood.outcomes or (None,)
    curves_to_draw = [(f, o) for f in shown for o in outcomes]
    drawn_panels = curves_to_draw[:most_panels]
    across = min(len(drawn_panels), most_across)
    width = 3.0 * across + (3.0 if across == 1 else 0.6)
    # functions of the same term, such as one for each level of by=, have the same vertical scale
    one_term = len({f.term_name for f, _ in drawn_panels}) == 1
    fig, axes = panels(
        len(drawn_panels),
        across,
        width=width,
        height=2.7,
        figsize=figsize,
        sharey=one_term,
    )
    curves = {
        f.label: fit.smooth(f.label, prob, derivative=derivative)
        for f, _ in drawn_panels
    }
    for ax, (f, outcome) in zip(axes, drawn_panels):
        data = curves[f.label]
        name = f.label
        if outcome is not None:
            data = data.sel(outcome=outcome)
            name = f"{name}, {outcome}"
        rows = f.points_of(fit.model.design)
        label(ax, x=shorten(f.inputs[0], 32))
        if len(f.inputs) == 2:
            _draw_surface(fig, ax, data, rows)
            label(ax, y=shorten(f.inputs[1], 32))
        else:
            _draw_curve(ax, data, rows, derivative)
        if len(curves_to_draw) > 1 or len(f.inputs) == 2:
            label(ax, title=shorten(name, 34))
    notes = [method_name(fit)]
    lines = [(ax, f) for ax, (f, _) in zip(axes, drawn_panels) if len(f.inputs) == 1]  # fmt: skip
    if lines:
        ax, f = lines[0]
        label(ax, y=_axis(fit, f, derivative))
        top_legend(fig, ax)
        notes = [_describe_bands(fit, prob)]
    if len(curves_to_draw) > most_panels:
        notes.append(f"{len(curves_to_draw) - most_panels} more panels can be named")
    if len(shown) < len(functions):
        notes.append(f"{len(functions) - len(shown)} functions of more columns are not drawn")  # fmt: skip
    footnote(fig, *notes, between="; ")
    return fig


def _axis(fit: Fit, function: TermFunction, derivative: bool) -> str:
    """Name the vertical axis."""
    name = function.inputs[0]
    if function.term.by == "number":
        subject = "coefficient that varies"
    else:
        subject = function.label
    if derivative:
        return shorten(f"slope of {subject} in {name}", 40)
    link = fit.model.likelihood.link.name
    if link == "identity" or fit.model.likelihood.outcomes:
        scale = ""
    else:
        scale = f" on the {link} scale"
    return shorten(subject + scale, 40)


def _draw_curve(ax: Any, data: Any, points: Array, derivative: bool) -> None:
    """Draw the function with both bands, and marks at the rows."""
    x = data["x"].values[:, 0]
    look = {"color": mark(0)["color"]}
    for kind, prefix, alpha in _BANDS:
        ends = data[f"{prefix}lower"], data[f"{prefix}upper"]
        ax.fill_between(x, *ends, label=kind, alpha=alpha, linewidth=0, **look)
    name = "estimate"
    zero_color = LIGHT
    if derivative:
        name = "slope"
        zero_color = GREY
    ax.plot(x, data["estimate"], linewidth=1.6, label=name, **look)
    ax.axhline(0.0, color=zero_color, linewidth=0.8, zorder=0)
    if len(points):
        look = {"color": GREY, "markersize": 6, "alpha": 0.6}
        look |= {"transform": ax.get_xaxis_transform()}
        y = np.full(len(points), 0.015)
        ax.plot(points[:, 0], y, "|", rasterized=len(points) > MANY_MARKS, **look)


def _draw_surface(fig: Any, ax: Any, data: Any, points: Array) -> None:
    """Draw the function of two columns as filled contours with the rows as dots."""
    n_levels = 12  # of a contour picture
    size = int(np.sqrt(data.sizes["point"]))
    x, z = (data["x"].values[:, j].reshape(size, size) for j in (0, 1))
    values = data["estimate"].values.reshape(size, size)
    high = values.max() + 1e-12 * (np.abs(values).max() or 1.0)
    levels = np.linspace(values.min(), high, n_levels)
    shade = ax.contourf(x, z, values, levels=levels, cmap="cividis")
    ax.contour(x, z, values, levels=levels[::3], colors="white", linewidths=0.6)
    fig.colorbar(shade, ax=ax, shrink=0.9, format="%.3g").ax.tick_params(labelsize=7)
    if len(points):
        dots = {"color": mark(1)["color"], "markersize": 2.5}
        ax.plot(*points.T, ".", rasterized=len(points) > MANY_MARKS, **dots)


def _describe_bands(fit: Fit, prob: float) -> str:
    source = "scales taken as known"
    if fit.target == "posterior":
        source = "posterior draws"
    elif fit.solution.conditional is not None:
        source = "joint with the scales"
    return f"{method_name(fit)}, {100 * prob:g} % bands ({source})"
