"""Bias and variance against the scale of the prior."""

from typing import TYPE_CHECKING

import numpy as np

from probreg.arguments.scalars import check_arguments
from probreg.diagnostics.bias_variance import BiasVariance
from probreg.errors import Incompatible
from probreg.show.plot.style import (
    GREY,
    INK,
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

_LINES = (
    ("bias2", "bias²"),
    ("variance", "variance"),
    ("error", "error = bias² + variance"),
)


@check_arguments
def bias_variance(found: BiasVariance, *, figsize: Size | None = None) -> "Figure":
    """Draw average bias^2, variance and their sum over the scale of the prior, and the noise of a single response.

    Both axes are logarithmic. A wide prior (right) is a weak penalty. The vertical line is at the smallest error; whiskers
    are two Monte Carlo standard errors.

    Parameters
    ----------
    found : BiasVariance
        A result with a sweep of scales.
    figsize : pair of float, optional
        Width and height in inches.

    Returns
    -------
    Figure
        A matplotlib figure outside pyplot.

    Raises
    ------
    Incompatible
        For a result without a sweep.

    Examples
    --------
    >>> import probreg as pr
    >>> model = pr.Model.from_arrays([[-1.0], [0.0], [1.0]], [1.0, 2.0, 4.0], prior=pr.Normal(1.0), aux={"sigma": 1.0})
    >>> fig = bias_variance(pr.bias_variance(model, [0.0, 1.0], scales=[0.1, 1.0, 10.0]))
    >>> fig.axes[0].get_xlabel()
    'scale of the prior (factor)'
    """
    decades = 3.0  # shown below the largest value
    if "scale" not in found.average.dims:
        raise Incompatible(
            "the picture is drawn over scales of the prior: pass scales= to bias_variance"
        )
    average = found.average.sortby("scale")
    scale = average["scale"].values
    noise = float(average["noise"])
    fig, axes = paper(size=(6.4, 3.9), figsize=figsize)
    ax = axes[0, 0]
    for i, (name, words) in enumerate(_LINES):
        look = mark(i) | {"markersize": 4.5, "linewidth": 1.4}
        if name == "error":
            look = {"color": INK, "linewidth": 2.6}
        value = average[name].values
        se = average[f"{name}_se"].values
        ax.plot(scale, value, label=words, **look)
        if se.any():
            low = np.maximum(value - 2.0 * se, 1e-3 * value)
            ax.vlines(scale, low, value + 2.0 * se, color=look["color"], linewidth=0.9)
    ax.set_xscale("log")
    ax.set_yscale("log")
    values = np.concatenate([average[name].values for name, _ in _LINES])
    top = max(values.max(), noise if np.isfinite(noise) else 0.0)
    low = values[values > 0].min()
    ax.set_ylim(max(low / 1.5, top * 10.0**-decades), 1.8 * top)
    line = {"color": GREY, "zorder": 0}
    if np.isfinite(noise):
        ax.axhline(noise, linestyle=":", label="noise of one response", **line)
    ax.axvline(found.best, label=f"least error at {found.best:.3g}", **line)
    label(
        ax,
        x="scale of the prior (factor)",
        y=f"squared error, units of {shorten(found.response, 24)} squared",
    )
    top_legend(fig, axes)
    if found.how == "closed form":
        source = "closed form"
    else:
        source = f"{found.reps} simulated responses, two Monte Carlo errors"
    footnote(fig, f"average over {found.data.sizes['obs']} rows, {source}")
    return fig
