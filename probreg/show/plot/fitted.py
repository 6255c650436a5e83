"""The fitted curve over the data, with the band of the mean and, for a measured response, of a new observation."""

from collections.abc import Iterable, Mapping
from dataclasses import replace
from typing import TYPE_CHECKING, Any

import numpy as np

from probreg.arguments.scalars import Probability, check_arguments
from probreg.data.rows import full_weights
from probreg.errors import Incompatible, NotConverged
from probreg.fits.fit import Fit
from probreg.inference.uncertainty.intervals.arithmetic import equal_tail
from probreg.likelihoods import OfClasses, OfTrials, SoftmaxLikelihood
from probreg.show.plot.parameters import Rename, names_to_show
from probreg.show.plot.style import (
    GREY,
    INK,
    LIGHT,
    MANY,
    Size,
    footnote,
    label,
    mark,
    message,
    named_fits,
    paper,
    say,
    shorten,
    top_legend,
)
from probreg.show.plot.sweep import Sweep, groups_along, sweep

if TYPE_CHECKING:
    from matplotlib.figure import Figure

Array = np.ndarray
_DRAWS = 1000
_FAINT = 0.25  # of the ink of a point whose row is not of the curve
_TOLD = 5  # variables whose values are written under the picture


@check_arguments
def fitted(
    fits: "Fit | Mapping[str, Fit]",
    variable: str | None = None,
    *,
    data: Any = None,
    prob: Probability = 0.95,
    span: tuple[float, float] | None = None,
    rename: Rename | None = None,
    figsize: Size | None = None,
) -> "Figure":
    """The mean E[y | x] along one numeric variable, one panel per fit on the same axes, the others at typical values.

    Rows at the levels that categories are held at are drawn in full, those of other levels faint.
    Measured and counted responses: data, mean, band of the mean, band of a new observation; of trials the shares of the
    rows, larger for more trials. Two levels: P(event) with its interval over the 0/1 data (jittered). Classes: the
    probability of each with its interval, and observed shares in bins.

    Parameters
    ----------
    fits : Fit or mapping from str to Fit
        One fit, or several by name.
    variable : str, optional
        The clearest one by default.
    data : table, optional
        The table it was fitted to, where that was changed since.
    prob : float
        Probability of every interval or band, between 0 and 1.
    span : pair of float, optional
        The range to draw, also beyond the data.
    rename : mapping from str to str, optional
        New names of variables.
    figsize : pair of float, optional
        Width and height in inches.

    Returns
    -------
    Figure
        A matplotlib figure outside pyplot.

    Raises
    ------
    DataError
        As in `predict`, or when no numeric variable is there.

    Examples
    --------
    >>> import probreg as pr
    >>> orings = pr.load_dataset("challenger")
    >>> fit = pr.fit(pr.Model.from_formula("damage ~ temperature", orings, likelihood="bernoulli"))
    >>> fitted(fit, span=(31, 81)).axes[0].get_ylabel()
    'P(damage = 1)'
    """
    several = named_fits(fits)
    first = next(iter(several.values()))
    path = sweep(
        next((f for f in several.values() if f.solution.status.good), first),
        variable,
        data,
        span,
    )
    cols = min(len(several), 3)
    deep = -(-len(several) // cols)
    fig, axes = paper(
        deep,
        cols,
        size=(7.2, 0.8 + 2.9 * deep),
        figsize=figsize,
        sharex=True,
        sharey=True,
    )
    for i, ax in enumerate(axes.flat):
        ax.set_visible(i < len(several))
    words = names_to_show([path.variable, *path.held], rename)
    if len(several) > 1:
        reference = _mean_or_none(first, path)
    else:
        reference = None
    means = {
        fit.model.likelihood.mean_name(fit.model.design.response)
        for fit in several.values()
    }
    one = (
        len(means) == 1
    )  # several quantiles are no one quantity: each panel's title says which
    axis = means.pop() if one else first.model.design.response
    for i, (ax, (name, fit)) in enumerate(zip(axes.flat, several.items())):
        _draw_fit(
            ax,
            fit,
            path,
            prob,
            reference if i else None,
            _curve_word(fit) if one else "fitted curve",
        )
        below = i + cols >= len(several)
        if len(several) > 1:
            title = f"{shorten(name, 24)}"
        else:
            title = None
        label(
            ax,
            x=shorten(words[path.variable]) if below else None,
            y=shorten(axis) if i % cols == 0 else None,
            title=title,
        )
        ax.tick_params(labelbottom=below)
    top_legend(fig, axes.flat[0])
    if reference is not None and reference.ndim == 1:
        said = f"Dashed: {say(next(iter(several)))}. "
    else:
        said = ""
    others = _other_levels(path, words)
    if isinstance(first.model.likelihood, SoftmaxLikelihood):
        others = ""
        said = f"Markers: observed shares in bins of rows. Bands: {100 * prob:g} % intervals of the probabilities. "
    held = {words[name]: value for name, value in path.held.items()}
    footnote(
        fig,
        said
        + _describe_fixed_values(
            held, path.offset is not None, _grouping_names(several.values())
        )
        + others,
    )
    return fig


def _grouping_names(fits: Iterable[Fit]) -> tuple[str, ...]:
    """What groups are of in these fits."""
    return tuple(
        dict.fromkeys(
            term.group
            for fit in fits
            for term in fit.model.design.recipe.grouped.values()
        )
    )


def _describe_fixed_values(
    values: Mapping[str, str], offset: bool, groups: tuple[str, ...]
) -> str:
    """Where the variables that do not move stay: each of a few, or how many."""
    if len(values) > _TOLD:
        said = f"{len(values)} others at their mean or most frequent value"
    else:
        said = ", ".join(
            f"{shorten(name, 24)} = {shorten(value, 24)}"
            for name, value in values.items()
        )
    if groups:
        zero = f"effects of {', '.join(groups)} at zero"
    else:
        zero = ""
    parts = [p for p in (said, zero, "offset at its mean" * offset) if p]
    return f"Held: {', '.join(parts)}" if parts else ""


def _predict_path(fit: Fit, path: Sweep, prob: float) -> Any:
    """`predict` along the path. The band of new observations comes from at most 1,000 draws, which a light band does
    not show and which is quick for every likelihood; mean and its band come from all."""
    draws = fit.solution.draws
    if draws is None or (step := -(-draws.count // _DRAWS)) <= 1:
        return fit.predict(
            path.rows, prob, offset=path.offset, groups=groups_along(fit)
        )
    some = replace(draws, values={k: v[:, ::step] for k, v in draws.values.items()})
    thin = replace(fit, solution=replace(fit.solution, draws=some))
    found = thin.predict(path.rows, prob, offset=path.offset, groups=groups_along(fit))
    means = fit.predictive(
        path.rows, offset=path.offset, groups=groups_along(fit)
    ).means()
    lower, upper = equal_tail(means, prob)
    return found.assign(
        {
            k: (found["mean"].dims, v)
            for k, v in (
                ("mean", means.mean(0)),
                ("mean_lower", lower),
                ("mean_upper", upper),
            )
        }
    )


def _of_new_groups(fit: Fit, path: Sweep, prob: float, found: Any) -> tuple[Any, str]:
    """The band of new observations is of a group that the fit has not met, where effects vary by groups; and whose it is."""
    if not fit.model.design.recipe.grouped or "new_lower" not in found:
        return found, ""
    draws = fit.solution.draws
    if draws is not None and (step := -(-draws.count // _DRAWS)) > 1:
        some = replace(draws, values={k: v[:, ::step] for k, v in draws.values.items()})
        fit = replace(fit, solution=replace(fit.solution, draws=some))
    try:
        new = fit.predict(path.rows, prob, offset=path.offset, groups="new")
    except Incompatible:  # their prior has no normal distribution
        return found, ", typical group"
    return found.assign({k: new[k] for k in ("new_lower", "new_upper")}), ", new group"


def _mean_or_none(fit: Fit, path: Sweep) -> Array | None:
    try:
        return np.asarray(
            fit.predict(path.rows, None, offset=path.offset, groups=groups_along(fit))[
                "mean"
            ]
        )
    except NotConverged:
        return None


def _curve_word(fit: Fit) -> str:
    """What the curve is, for the legend."""
    name = fit.model.likelihood.mean_name(fit.model.design.response)
    ordinary = name == fit.model.design.response or isinstance(
        fit.model.likelihood, OfClasses
    )
    return (
        "mean" if ordinary else shorten(name.removeprefix("the "), 28)
    )  # such as a quantile


def _draw_fit(
    ax: Any, fit: Fit, path: Sweep, prob: float, reference: Array | None, word: str
) -> None:
    try:
        found = _predict_path(fit, path, prob)
    except (NotConverged, Incompatible):
        message(ax, "no estimate to draw")
        return
    if isinstance(fit.model.likelihood, SoftmaxLikelihood):
        _classes(ax, fit, path, found)
        return
    if fit.model.likelihood.binary:
        # 0 and 1, each moved a little towards the middle so that rows do not hide one another.
        events = fit.model.design.observed
        rng = np.random.default_rng(
            0
        )  # of the picture, not of the analysis: the same data give the same picture
        moved = events + np.where(events > 0.5, -1.0, 1.0) * rng.uniform(
            0.0, 0.05, len(events)
        )
        _draw_points(
            ax,
            fit,
            path,
            moved,
            facecolors="none",
            zorder=2.5,
            label=f"{_data_word(fit)} (jittered)",
        )
        ax.set_ylim(-0.04, 1.04)
    else:
        y = fit.model.likelihood.response(fit.model.design.observed)
        _draw_points(
            ax, fit, path, y, facecolors="white", zorder=1.5, label=_data_word(fit)
        )
        found, whose = _of_new_groups(fit, path, prob, found)
        # not under sampling weights; and new observations of trials are successes, not shares
        if "new_lower" in found and not isinstance(fit.model.likelihood, OfTrials):
            ax.fill_between(path.x, found["new_lower"], found["new_upper"], color=LIGHT, alpha=0.55, linewidth=0,
                            label=f"{100 * prob:g} % of new observations{whose}", zorder=1)  # fmt: skip
    look = mark(0)
    ax.fill_between(path.x, found["mean_lower"], found["mean_upper"], color=look.color, alpha=0.28, linewidth=0,
                    label=f"{100 * prob:g} % interval of the {word}", zorder=2)  # fmt: skip
    if reference is not None:
        ax.plot(
            path.x, reference, color=INK, linewidth=1.0, linestyle=(0, (5, 2)), zorder=4
        )
    ax.plot(
        path.x, found["mean"], color=look.color, linewidth=1.8, label=word, zorder=3
    )


def _draw_points(
    ax: Any, fit: Fit, path: Sweep, y: Array, *, label: str, **look: Any
) -> None:
    """The rows: in full those at the levels that the curve is of, and faint the others."""
    area = np.broadcast_to(_area(fit), len(y))
    look = {"edgecolors": GREY, "linewidths": 0.8, "rasterized": len(y) > MANY, **look}
    for rows, more in ((path.met, {"label": label}), (~path.met, {"alpha": _FAINT})):
        if rows.any():
            ax.scatter(path.observed[rows], y[rows], s=area[rows], **look, **more)


def _other_levels(path: Sweep, words: Mapping[str, str]) -> str:
    """What faint points are, where there are any."""
    names = ", ".join(shorten(words[name], 24) for name in path.levels)
    if path.met.all():
        return ""
    return f". Faint points: rows of other levels of {names}"


def _data_word(fit: Fit) -> str:
    """What a marker is, for the legend."""
    if isinstance(fit.model.likelihood, OfTrials):
        return "share in a row, larger for more trials"
    if fit.model.design.weights is None:
        return "data"
    return "data, larger for more weight"


def _area(fit: Fit) -> Any:
    """Points by weight."""
    n = fit.model.design.n
    w = _trials(fit)
    size = 18.0 if n <= 300 else 8.0
    if w is None:
        return size
    return np.maximum(size * w / w.mean(), 1.0)


def _trials(fit: Fit) -> Array | None:
    """The trials of each row, weights counted; the weights where a row is one trial."""
    design = fit.model.design
    likelihood = fit.model.likelihood
    if not isinstance(likelihood, OfTrials):
        return design.weights
    n = likelihood.given(design.observed)["trials"]
    return n if design.weights is None else n * design.weights


def _classes(ax: Any, fit: Fit, path: Sweep, found: Any) -> None:
    for k, level in enumerate(found["level"].values):
        look = mark(k)
        one = found.sel(level=level)
        ax.fill_between(
            path.x,
            one["mean_lower"],
            one["mean_upper"],
            color=look.color,
            alpha=0.18,
            linewidth=0,
        )
        ax.plot(
            path.x, one["mean"], color=look.color, linestyle=look.line, linewidth=1.8
        )
        met = np.nan_to_num(
            fit.model.likelihood.response(fit.model.design.observed)[:, k]
        )
        centre, share = _shares_by_bin(path.observed, met, _trials(fit))
        ax.plot(
            centre,
            share,
            look.marker,
            color=look.color,
            markerfacecolor=look.fill,
            markersize=4.5,
        )
        ax.plot([], [], look.marker, color=look.color, markerfacecolor=look.fill, markersize=4.5, linestyle=look.line,
                label=shorten(level, 24))  # fmt: skip
    ax.set_ylim(-0.03, 1.03)


def _shares_by_bin(x: Array, hit: Array, weights: Array | None) -> tuple[Array, Array]:
    """Mean x and share of hits in bins of about equal numbers, at most eight."""
    w = full_weights(weights, len(x))
    groups = [
        g
        for g in np.array_split(
            np.argsort(x, kind="stable"), min(8, max(len(x) // 8, 1))
        )
        if w[g].sum() > 0
    ]
    centre = np.array([np.average(x[g], weights=w[g]) for g in groups])
    return centre, np.array([np.average(hit[g], weights=w[g]) for g in groups])
