"""Predictions over chosen variables, and group effects: one panel for each effect, and for each outcome of a softmax."""

from collections.abc import Mapping
from typing import TYPE_CHECKING, Any

import numpy as np

from probreg.arguments.scalars import Names, Probability, Word, check_arguments
from probreg.errors import DataError
from probreg.fits.effects_table import effects_called
from probreg.fits.fit import Fit
from probreg.show.plot.conditional import draw_predictions
from probreg.show.plot.style import (
    REFERENCE,
    Size,
    footnote,
    label,
    mark,
    panels,
    shorten,
)

if TYPE_CHECKING:
    from matplotlib.figure import Figure


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
) -> "Figure":
    """Draw the predictions over the variables in `condition`, or without it the effects of each group, as in `fit.effects`.

    The first variable of `condition` is on the x axis: a number has curves with bands, a category points with bars. The second
    one has colours and the third one panels; classes of the response take the next place. Other variables are at their mean or
    most frequent value, effects of groups are zero, and the footnote lists these values. The numbers are those of `fit.predict`. Observed
    rows are points; for classes crosses are observed shares.

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
        One to three variables of the model. A mapping has the values of each, such as `{"x": None, "g": ["a", "b"]}`, where None
        chooses them: the range of the first variable, the levels of a category, the quartiles of another number.
    what : str
        With `condition`, as in `predict`: "mean", or another quantity, such as "sigma", which is drawn without the data.
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
