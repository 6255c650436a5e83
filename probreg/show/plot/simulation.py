"""Pictures of simulations (bias and variance, ranks of simulation-based calibration) and of an online run."""

import warnings
from typing import Any

import numpy as np
from numpy.typing import ArrayLike

from probreg.arguments.scalars import Figure, check_arguments
from probreg.diagnostics.bias_variance import BiasVariance
from probreg.diagnostics.simulation.sbc import SBC
from probreg.errors import Incompatible, ProbregWarning
from probreg.online import Guarantee, Run, run
from probreg.show.plot.style import (
    GREY,
    INK,
    LIGHT,
    REFERENCE,
    Size,
    footnote,
    label,
    mark,
    panels,
    paper,
    shorten,
    top_legend,
)

_LINES = (
    ("bias2", "bias²"),
    ("variance", "variance"),
    ("error", "error = bias² + variance"),
)


@check_arguments
def sbc(found: SBC, *, figsize: Size | None = None) -> Figure:
    """Draw the distribution function of the ranks minus the uniform one for each quantity, with the simultaneous band.

    For a correct posterior all curves stay inside the band with the stated probability. If a curve is above the band at
    the left and below it at the right, the draws are too narrow; in the reverse case they are too wide. If the curve is above
    the band everywhere, the draws are too high.

    Parameters
    ----------
    found : SBC
        Result of `pr.sbc`.
    figsize : pair of float, optional
        Width and height in inches.

    Returns
    -------
    Figure
        A matplotlib figure outside pyplot.
    """
    max_panels = 12  # quantities in one picture
    names = found.ranks["quantity"].values.astype(str)
    farthest = np.argsort(found.p_value.values, kind="stable")[:max_panels]
    shown = names[np.sort(farthest)]
    fig, axes = panels(
        len(shown), 3, width=7.2, height=1.95, figsize=figsize, sharex=True, sharey=True
    )
    for i, (ax, name) in enumerate(zip(axes, shown)):
        _draw_ranks(ax, found, name)
        lines = [str(found.table.loc[name, "reading"])]
        if i + 3 >= len(shown):
            lines.insert(0, "rank / number of draws")
        label(ax, x="\n".join(filter(None, lines)) or None, title=shorten(name, 24))
        if i % 3 == 0:
            label(ax, y="ECDF − uniform")
    note = f"{found.method}, {found.ranks.sizes['replicate']} simulated data sets"
    if len(names) > max_panels:
        note += (
            f"; the {max_panels} of {len(names)} quantities with the smallest p-values"
        )
    footnote(
        fig,
        f"{note}.\nGrey: simultaneous band of probability {found.prob:g} for uniform ranks; circles are outside.",
    )
    return fig


def _draw_ranks(ax: Any, result: SBC, name: str) -> None:
    data = result.ecdf_difference
    x = np.r_[0.0, data["point"].values, 1.0]
    line, low, high = (
        np.r_[0.0, values, 0.0]
        for values in (
            data["difference"].sel(quantity=name),
            data["lower"],
            data["upper"],
        )
    )
    ax.fill_between(x, low, high, color=LIGHT, linewidth=0)
    ax.axhline(0.0, **REFERENCE)
    ax.plot(x, line, color=INK, linewidth=1.3)
    off = (line < low - 1e-12) | (line > high + 1e-12)
    ax.plot(x[off], line[off], "o", color=INK, markersize=4, markerfacecolor="white")
    ax.set_xlim(0, 1)
    ax.set_xticks([0, 0.5, 1], ["0", "1/2", "1"])
    ax.locator_params(axis="y", nbins=5)


@check_arguments
def bias_variance(found: BiasVariance, *, figsize: Size | None = None) -> Figure:
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
    noise = average["noise"]
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


@check_arguments
def regret(
    found: Run, comparator: ArrayLike | None = None, *, figsize: Size | None = None
) -> Figure:
    """Draw the cumulative loss of an online run with its bound and the loss of fixed weights, and the regret, over the rounds.

    Each point has the values that `guarantee(comparator)` of the run would have if the run ended there. The regret is the loss minus
    the loss of the comparator; the theorem bounds it for every sequence of rows that meets its assumptions.

    Parameters
    ----------
    found : Run
        A run of arrays by a learner with a theorem and one weight per column.
    comparator : array (p,), optional
        Fixed weights; by default the weights with the least loss in hindsight.
    figsize : pair of float, optional
        Width and height in inches.

    Returns
    -------
    Figure
        A matplotlib figure outside pyplot.

    Raises
    ------
    DataError
        For a run of a stream, which does not keep its rows.
    Incompatible
        For a learner of functions or without a theorem, and without a comparator if none is the best.

    Examples
    --------
    >>> from probreg.online import lms
    >>> path = run(lms(0.5), [[1.0], [1.0], [1.0]], [1.0, 1.0, 1.0])
    >>> [ax.get_ylabel() for ax in regret(path).axes]
    ['cumulative squared loss', 'regret']
    """
    if found.learner.grows:
        raise Incompatible(
            "plot.regret draws a learner of weights, and this one learns a function: use guarantee(comparator)"
        )
    u = found.regret(comparator).comparator
    parts = _guarantees(found, u)
    last = parts[-1]
    numbers = [
        (part.rounds, part.cumulative_loss, part.comparator_loss, part.bound)
        for part in parts
    ]
    rounds, loss, fixed, bound = np.transpose(numbers)
    fig, (left, right) = panels(2, 2, width=7.2, height=2.9, figsize=figsize)
    for i, (values, words) in enumerate(
        ((loss, found.learner.title), (fixed, "comparator"), (bound, "bound"))
    ):
        look = mark(i) | {"marker": "", "linewidth": 1.3}
        left.plot(rounds, values, label=words, **look)
        if values is not fixed:
            right.plot(rounds, values - fixed, **look)
    right.axhline(0.0, **REFERENCE)
    label(left, x="round", y=last.quantity)
    label(right, x="round", y="regret")
    top_legend(fig, [left])
    note = "" if last.applies else "; an assumption fails, so that there is no bound"
    footnote(fig, f"{last.theorem} ({last.source}){note}")
    return fig


def _guarantees(path: Run, comparator: ArrayLike) -> list[Guarantee]:
    """Return the guarantees of the run as if it had ended at each of at most 20 evenly spaced rounds."""
    # each is a separate run: together they take ten times as long as the run
    points = 20
    X, y = path.rows()
    total = path.totals.rounds
    order = path.order[:total]
    ends = np.unique(np.linspace(0, total, points + 1).round().astype(int))[1:]
    parts = []
    # the run has issued its warnings, on the step or the number of passes
    with warnings.catch_warnings(action="ignore", category=ProbregWarning):
        for end in ends:
            rows = order[:end]
            parts.append(run(path.learner, X[rows], y[rows], state=path.start))
    return [part.guarantee(comparator) for part in parts]
