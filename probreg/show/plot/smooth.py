"""Smooth functions with their bands, one panel for each function."""

from typing import Any

import numpy as np

from probreg.arguments.scalars import Flag, Probability, Word, check_arguments
from probreg.arguments.types import Figure
from probreg.comparison.same_question import method_name
from probreg.data.formula.functions import TermFunction, functions_called
from probreg.errors import DataError
from probreg.fits.fit import Fit
from probreg.show.plot.style import (
    GREY,
    LIGHT,
    MANY,
    Size,
    footnote,
    label,
    mark,
    panels,
    shorten,
    top_legend,
)

Array = np.ndarray
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
    # functions of the same term, such as those of the levels of by=, have the same vertical scale
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
        ax.plot(points[:, 0], y, "|", rasterized=len(points) > MANY, **look)


def _draw_surface(fig: Any, ax: Any, data: Any, points: Array) -> None:
    """Draw the function of two columns as filled contours with the rows as dots."""
    n_levels = 12  # of a contour picture
    size = int(np.sqrt(data.sizes["point"]))
    x, z = (data["x"].values[:, j].reshape(size, size) for j in (0, 1))
    values = data["estimate"].values.reshape(size, size)
    high = float(values.max()) + 1e-12 * (float(np.abs(values).max()) or 1.0)
    levels = np.linspace(float(values.min()), high, n_levels)
    shade = ax.contourf(x, z, values, levels=levels, cmap="cividis")
    ax.contour(x, z, values, levels=levels[::3], colors="white", linewidths=0.6)
    fig.colorbar(shade, ax=ax, shrink=0.9, format="%.3g").ax.tick_params(labelsize=7)
    if len(points):
        dots = {"color": mark(1)["color"], "markersize": 2.5}
        ax.plot(*points.T, ".", rasterized=len(points) > MANY, **dots)


def _describe_bands(fit: Fit, prob: float) -> str:
    source = "scales taken as known"
    if fit.target == "posterior":
        source = "posterior draws"
    elif fit.solution.conditional is not None:
        source = "joint with the scales"
    return f"{method_name(fit)}, {100 * prob:g} % bands ({source})"
