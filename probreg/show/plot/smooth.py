"""Smooth functions with their bands: one panel for each function, two for a function of two columns."""

from typing import TYPE_CHECKING, Any

import numpy as np

from probreg.arguments.scalars import Flag, Probability, check_arguments
from probreg.comparison.same_question import method_name
from probreg.data.formula.functions import TermFunction, functions_called
from probreg.errors import DataError
from probreg.fits.fit import Fit
from probreg.fits.smooth_functions import POINTS
from probreg.show.plot.style import (
    GREY,
    LIGHT,
    MANY,
    Size,
    footnote,
    label,
    mark,
    paper,
    shorten,
    top_legend,
)

if TYPE_CHECKING:
    from matplotlib.figure import Figure

Array = np.ndarray
_ACROSS, _MOST = 3, 12  # panels in a row, and in a picture
_LEVELS = 12  # of a contour picture


@check_arguments
def smooth(
    fit: Fit,
    term: str | None = None,
    *,
    derivative: Flag = False,
    prob: Probability = 0.95,
    figsize: Size | None = None,
) -> "Figure":
    """Draw smooth functions over their range: the estimate, a pointwise and a simultaneous band, the data as a rug.

    A smooth function is centred: its mean over the rows is zero. The dark band contains each value with probability `prob`, the
    light one the whole function. There is one panel for each function (each level of `by=`), for each outcome of a softmax, and
    two for a function of two columns: the estimate and its standard deviation. `fit.smooth` has the numbers.

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
    functions = functions_called(fit.model.design, term)
    shown = [
        f
        for f in functions
        if len(f.inputs) == 1 or (len(f.inputs) in POINTS and not derivative)
    ]
    if not shown:
        if derivative:
            reason = "only derivatives of functions of one column are drawn"
        else:
            reason = "only functions of up to two columns are drawn"
        raise DataError(
            f"{reason}, and {functions[0].label} has {len(functions[0].inputs)}; fit.smooth(at=...) has the numbers"
        )
    outcomes = fit.model.likelihood.outcomes or (None,)
    panels = [
        (f, o, sd)
        for f in shown
        for o in outcomes
        for sd in ((False, True) if len(f.inputs) == 2 else (False,))
    ]
    drawn_panels = panels[:_MOST]
    across = min(
        len(drawn_panels), _ACROSS if not any(sd for *_, sd in drawn_panels) else 2
    )
    down = -(-len(drawn_panels) // across)
    fig, axes = paper(
        down,
        across,
        size=(3.0 * across + (3.0 if across == 1 else 0.6), 2.7 * down + 0.8),
        figsize=figsize,
    )
    curves = {
        f.label: fit.smooth(f.label, prob, derivative=derivative)
        for f in dict.fromkeys(f for f, *_ in drawn_panels)
    }
    for ax, (f, outcome, sd) in zip(axes.flat, drawn_panels):
        data = curves[f.label]
        name = f.label
        if outcome is not None:
            data = data.sel(outcome=outcome)
            name = f"{name}, {outcome}"
        rows = f.points_of(fit.model.design)
        label(ax, x=shorten(f.inputs[0], 32))
        if len(f.inputs) == 2:
            _draw_surface(fig, ax, data, rows, sd)
            title = shorten(f"sd of {name}" if sd else name, 34)
            label(ax, y=shorten(f.inputs[1], 32), title=title)
            continue
        _draw_curve(ax, data, rows, derivative)
        if len(panels) > 1:
            label(ax, title=shorten(name, 34))
    for ax in axes.flat[len(drawn_panels) :]:
        ax.set_visible(False)
    _same_height(axes, drawn_panels)
    if len(drawn_panels[0][0].inputs) == 1:
        label(axes[0, 0], y=_axis(fit, drawn_panels[0][0], derivative))
        top_legend(fig, axes[0, 0])
    hidden = len(panels) - len(drawn_panels)
    footnote(fig, _caption(fit, curves, prob, hidden, len(functions) - len(shown)))
    return fig


def _axis(fit: Fit, function: TermFunction, derivative: bool) -> str:
    """Name the vertical axis."""
    name = function.inputs[0]
    if function.by == "number":
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
    color = mark(0).color
    for kind, alpha in (("simultaneous", 0.14), ("pointwise", 0.28)):
        prefix = "simultaneous_" if kind == "simultaneous" else ""
        ends = data[f"{prefix}lower"], data[f"{prefix}upper"]
        band = {"color": color, "alpha": alpha, "linewidth": 0}
        ax.fill_between(x, *ends, label=f"{kind} band", **band)
    name = "slope" if derivative else "estimate"
    ax.plot(x, data["estimate"], color=color, linewidth=1.6, label=name)
    ax.axhline(0.0, color=GREY if derivative else LIGHT, linewidth=0.8, zorder=0)
    if len(points):
        style = {"color": GREY, "markersize": 6, "alpha": 0.6}
        axis = ax.get_xaxis_transform()
        y = np.full(len(points), 0.015)
        many = len(points) > MANY
        ax.plot(points[:, 0], y, "|", transform=axis, rasterized=many, **style)


def _draw_surface(fig: Any, ax: Any, data: Any, points: Array, sd: bool) -> None:
    """Draw the function of two columns, or its standard deviation, as filled contours with the rows as dots."""
    size = int(np.sqrt(data.sizes["point"]))
    x, z = (data["x"].values[:, j].reshape(size, size) for j in (0, 1))
    values = data["sd" if sd else "estimate"].values.reshape(size, size)
    high = float(values.max()) + 1e-12 * (float(np.abs(values).max()) or 1.0)
    levels = np.linspace(float(values.min()), high, _LEVELS)
    shade = ax.contourf(x, z, values, levels=levels, cmap="Greys" if sd else "cividis")
    lines = {"levels": levels[::3], "linewidths": 0.6}
    ax.contour(x, z, values, colors=GREY if sd else "white", **lines)
    fig.colorbar(shade, ax=ax, shrink=0.9, format="%.3g").ax.tick_params(labelsize=7)
    if len(points):
        dots = {"color": mark(1).color, "markersize": 2.5}
        ax.plot(*points.T, ".", rasterized=len(points) > MANY, **dots)


def _same_height(axes: Any, panels: list[Any]) -> None:
    """Give functions of the same term the same vertical scale."""
    curves = [(ax, f) for ax, (f, *_) in zip(axes.flat, panels) if len(f.inputs) == 1]
    if curves and len({f.term_name for _, f in curves}) == 1:
        low, high = np.array([ax.get_ylim() for ax, _ in curves]).T
        for ax, _ in curves:
            ax.set_ylim(low.min(), high.max())


def _caption(fit: Fit, curves: Any, prob: float, hidden: int, undrawn: int) -> str:
    edf = fit.smooths["edf"]
    spent = ", ".join(
        f"{name} {edf[name]:.3g}"
        for name in list(curves)[:_ACROSS]
        if np.isfinite(edf[name])
    )
    if fit.target == "posterior":
        law = "posterior draws"
    else:
        law = "scales taken as known"
    if fit.solution.conditional is not None:
        law = "joint with the scales"
    parts = [f"{method_name(fit)}, {100 * prob:g} % bands ({law})"]
    parts += [f"effective degrees of freedom {spent}"] if spent else []
    parts += [f"{hidden} more panels can be named"] if hidden else []
    parts += [f"{undrawn} functions of more columns are not drawn"] if undrawn else []
    return "; ".join(parts)
