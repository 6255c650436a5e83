"""Pictures of predictions over chosen variables, and of group effects: one panel for each effect, and for each outcome of a softmax."""

from collections.abc import Mapping, Sequence
from itertools import product
from math import prod
from typing import Any

import numpy as np

from probreg.arguments.scalars import (
    Figure,
    Names,
    Probability,
    Word,
    check_arguments,
    list_names,
)
from probreg.data.checked_arrays import full_weights
from probreg.errors import DataError
from probreg.fits.effects_table import effects_called
from probreg.fits.fit import Fit
from probreg.show.plot.fitted import (
    axis_name,
    count_trials,
    data_word,
    draw_curve,
    draw_points,
)
from probreg.show.plot.observations import (
    FEW_VALUES,
    ReferenceGrid,
    bin_means,
    count_censored,
    format_value,
)
from probreg.show.plot.style import (
    GREY,
    REFERENCE,
    Size,
    axes_size,
    footnote,
    label,
    mark,
    panels,
    shorten,
    top_legend,
)

Array = np.ndarray


@check_arguments
def effects(
    fit: Fit,
    group: Word | None = None,
    prob: Probability = 0.95,
    *,
    condition: Names | Mapping[str, Any] | None = None,
    what: Word = "mean",
    data: Any = None,
    figsize: Size | None = None,
) -> Figure:
    """Draw the predictions over the variables in `condition`, or without it the effects of each group, as in `fit.effects`.

    The first variable of `condition` is on the x axis: curves with bands for a number, points with bars for a category. The second
    has colours and the third has panels; classes of the response come next. Other variables are at their mean or
    most frequent value, effects of groups are zero unless the grouping factor is in `condition`, and the footnote lists these
    values. `fit.predict` computes the numbers. Observed rows are points; for classes crosses are observed shares.

    Group effects are in the order of the first effect, the largest at the top. If there are more than 60 groups, only the 30 with
    the smallest and the 30 with the largest first effect are drawn; if there are more than 6 panels, the first 6.

    Parameters
    ----------
    fit : Fit
        A fit; without `condition`, one with effects that vary by a group.
    group : str, optional
        The grouping factor; needed if there are several.
    prob : float
        Probability of the intervals, between 0 and 1.
    condition : str, list of str, or mapping, optional
        One to three variables or grouping factors. A mapping has the values of each, such as `{"x": None, "g": ["a", "b"]}`, where
        None chooses them: the range of the first variable, the levels of a category, the quartiles of another number.
    what : str
        With `condition`, as in `predict`: "mean", or another quantity ("sigma"), which is drawn without the data.
    data : table, optional
        With `condition`, the table of the fit, if the variables cannot be read back from its columns.
    figsize : pair of float, optional
        Width and height in inches.

    Returns
    -------
    Figure
        A matplotlib figure outside pyplot.

    Raises
    ------
    DataError
        For an unknown variable or grouping factor, if there are several grouping factors and `group` is missing, and for `group` with
        `condition`.
    Incompatible
        For a model without such effects, and for a fit without standard errors.

    Examples
    --------
    >>> import probreg as pr
    >>> data = {"y": [1.0, 2.0, 1.5, 4.0, 5.0, 4.5, 2.0, 3.0, 2.5], "g": [*"aaabbbccc"]}
    >>> fit = pr.fit(pr.Model.from_formula("y ~ 1 + (1 | g)", data))
    >>> [text.get_text() for text in effects(fit).axes[0].get_yticklabels()]
    ['b', 'c', 'a']
    >>> birds = pr.load_dataset("penguins").dropna()
    >>> mass = pr.ols("body_mass_g ~ flipper_length_mm * sex + species", birds)
    >>> picture = effects(mass, condition=["flipper_length_mm", "sex"])
    >>> [text.get_text() for text in picture.legends[0].get_texts()]
    ['sex = female', 'sex = male']
    """
    if condition is not None:
        if group is not None:
            raise DataError(
                "group= names effects by group and condition= variables of predictions: leave one of the two out"
            )
        return draw_predictions(fit, condition, prob, what, data, figsize)
    if what != "mean" or data is not None:
        raise DataError(
            "what= and data= are for predictions: name their variables with condition="
        )
    across = 3  # panels in a row
    most_panels = 6  # panels in a picture
    most = 60  # groups in one picture
    row_height = 0.15  # inches for each group
    table = fit.effects(group, prob)
    factor = table.attrs["groups"]
    levels = effects_called(fit.model, factor).levels
    keys = [name for name in ("effect", "outcome") if name in table]
    parts = [part for _, part in table.groupby(keys, sort=False)]
    titles = [", ".join(part[keys].iloc[0]) for part in parts[:most_panels]]
    order = np.argsort(-parts[0]["estimate"].to_numpy(), kind="stable")
    if len(order) > most:
        order = np.r_[order[: most // 2], order[-(most // 2) :]]
    names = [shorten(levels[g], 28) for g in order]
    cols = min(len(titles), across)
    width = 2.6 * cols + 2.0
    height = 0.6 + row_height * max(len(order), 4)
    fig, axes = panels(len(titles), cols, width=width, height=height, figsize=figsize)
    y = np.arange(len(order))
    for k, (ax, title, part) in enumerate(zip(axes, titles, parts)):
        look = mark(0)
        row = part.iloc[order]
        ax.axvline(0.0, **REFERENCE)
        ax.hlines(y, row["lower"], row["upper"], color=look["color"], linewidth=1.5)
        ax.plot(row["estimate"], y, **look | {"linestyle": "", "markersize": 3.5})
        ax.set_ylim(len(order) - 0.4, -0.6)
        ax.locator_params(axis="x", nbins=5)
        label(ax, title=title)
        ax.set_yticks(y, names if k % cols == 0 else [""] * len(order), fontsize=6.5)
        ax.tick_params(axis="y", length=0)
    label(axes[0], y=shorten(factor.replace("`", ""), 32))
    words = f"{fit.described['method'].partition(',')[0]}: conditional means at the estimated standard deviations"
    if fit.target == "posterior":
        words = f"{fit.method.name}: posterior means"
    words += f" and {100 * prob:g} % intervals of effects"
    if fit.model.likelihood.link.name != "identity" or fit.model.likelihood.outcomes:
        words += ", on the scale of the linear predictor"
    if len(order) < len(levels):
        words += f"; {len(order)} of {len(levels)} groups, those with the smallest and the largest {titles[0]}"
    footnote(fig, words)
    return fig


# ---- predictions over one to three variables: along the first, in colours of the second, in panels of the third -----


def draw_predictions(
    fit: Fit,
    condition: str | Sequence[str] | Mapping[str, Any],
    prob: float,
    what: str,
    data: Any,
    figsize: Size | None,
) -> Figure:
    """Draw the predictions at every combination of the values of the variables in `condition`; see `effects`."""
    grid = ReferenceGrid.of(fit, data, list_names(condition))
    values = _choose_values(grid, condition)
    rows, offset = grid.rows(dict(zip(values, zip(*product(*values.values())))))
    prediction = fit.predict(
        rows, prob, what=what, offset=offset, groups=grid.groups or None
    )
    first, *others = values
    is_curve = first in grid.numbers and len(values[first]) > FEW_VALUES
    names = [
        [f"{shorten(name, 24)} = {format_value(v)}" for v in values[name]]
        for name in others
    ]
    classes = "level" in prediction.dims
    if classes:
        names.append([shorten(level, 24) for level in prediction["level"].values])
    # a series for each name of the first list, a panel for each combination of the others
    shape = [len(series) for series in names]
    titles = [", ".join(parts) for parts in product(*names[1:])]
    _require_few(prod(shape[:1]), 6, "colours")
    _require_few(len(titles), 12, "panels")
    fig, axes = panels(
        len(titles), 3, width=7.2, height=2.9, figsize=figsize, sharex=True, sharey=True
    )
    curves = [
        prediction[f"{what}{end}"].values.reshape(-1, *shape)
        for end in ("", "_lower", "_upper")
    ]
    at = [grid.nearest(name, v) for name, v in values.items()]
    x = np.arange(len(values[first]), dtype=float)
    x_observed = at[0].astype(float)
    if is_curve:
        x = np.asarray(values[first], dtype=float)
        x_observed = np.asarray(grid.table[first], dtype=float)
    for i, place in enumerate(np.ndindex(*shape)):
        series, panel = divmod(i, len(titles))
        ax = axes[panel]
        look = mark(series) | {"markersize": 4.5}
        name = names[0][series] if names else None
        mean, lower, upper = (curve[:, *place] for curve in curves)
        shift = 0.0
        if is_curve:
            draw_curve(ax, x, mean, lower, upper, look, label=name)
        else:
            shift = 0.6 * ((series + 0.5) / prod(shape[:1]) - 0.5)
            ax.vlines(x + shift, lower, upper, color=look["color"], linewidth=1.8)
            ax.plot(x + shift, mean, label=name, **look | {"linestyle": ""})
        here = np.all([k == j for k, j in zip(at[1:], place)], axis=0) & (at[0] >= 0)
        if what == "mean" and here.any():
            settings = look if names else look | {"color": GREY}
            column = place[-1] if classes else None
            _draw_observed(
                ax, fit, x_observed + shift, here, settings, column, in_bins=is_curve
            )
    for i, (ax, title) in enumerate(zip(axes, titles)):
        label(
            ax,
            x=shorten(first) if i + 3 >= len(titles) else None,
            y=None if i % 3 else shorten(axis_name(fit, what)),
            title=title or None,
        )
        if not is_curve:
            _label_levels(ax, values[first])
    if names:
        top_legend(fig, axes[0])
    notes = [
        f"{100 * prob:g} % intervals",
        grid.describe([*values], grid.typical_groups),
    ]
    if what == "mean":
        notes.append(_describe_data(fit, grid, values, classes))
        notes.append(count_censored(fit, "are not drawn"))
    footnote(fig, *notes)
    return fig


def _choose_values(
    grid: ReferenceGrid, condition: str | Sequence[str] | Mapping[str, Any]
) -> dict[str, Sequence[Any]]:
    """Return the values of each variable in `condition`: the given values, or the values of the grid."""
    names = list_names(condition)
    if not 1 <= len(names) <= 3 or len(set(names)) < len(names):
        raise DataError(
            f"condition= needs one to three different variables, got {names}"
        )
    values: dict[str, Sequence[Any]] = {
        name: grid.values(name, curve=name == names[0]) for name in names
    }
    if isinstance(condition, Mapping):
        for name, chosen in condition.items():
            if chosen is not None:
                values[name] = np.atleast_1d(chosen).tolist()
                if not values[name]:
                    raise DataError(f"condition: {name!r} has no values")
    return values


def _require_few(count: int, limit: int, name: str) -> None:
    """Raise DataError for more series or panels than a reader can distinguish."""
    if count > limit:
        raise DataError(
            f"condition= needs {count} {name}; at most {limit} are drawn. Choose values, such as condition={{'x': None, 'g': ['a', 'b']}}"
        )


def _draw_observed(
    ax: Any,
    fit: Fit,
    x: Array,
    rows: Array,
    look: Mapping[str, Any],
    k: int | None,
    *,
    in_bins: bool,
) -> None:
    """Draw the responses of these rows at x (n,), or the observed shares of class k in bins along x or at each value of x."""
    if k is None:
        if not in_bins:
            x = x + np.random.default_rng(0).uniform(-0.05, 0.05, len(x))
        draw_points(ax, fit, x, rows, edgecolors=look["color"], alpha=0.4, zorder=1.5)
        return
    y = fit.model.likelihood.response(fit.model.design.observed)[rows, k]
    w = full_weights(count_trials(fit), len(x))[rows]
    if in_bins:
        shares = bin_means(x[rows], np.nan_to_num(y), w, 8)
    else:
        value, level = np.unique(x[rows], return_inverse=True)
        counts = np.bincount(level, w * np.nan_to_num(y))
        shares = np.stack([value, counts / np.bincount(level, w)])
    ax.plot(*shares, **{**look, "marker": "x", "linestyle": ""})


def _label_levels(ax: Any, values: Sequence[Any]) -> None:
    """Write the values under the axis, cut to their width."""
    limit = max(int(axes_size(ax)[0] * 13 / len(values)), 4)
    names = [shorten(format_value(v), limit) for v in values]
    ax.set_xticks(np.arange(len(values)), names)
    ax.set_xlim(-0.6, len(values) - 0.4)


def _describe_data(
    fit: Fit, grid: ReferenceGrid, values: Mapping[str, Any], classes: bool
) -> str:
    """Describe the marks of the observed rows."""
    words = "Crosses: observed shares" if classes else f"Points: {data_word(fit)}"
    numbers = [k for k in values if k in grid.numbers and len(values[k]) <= FEW_VALUES]
    if numbers:
        words += f", at the nearest value of {', '.join(numbers)}"
    return words
