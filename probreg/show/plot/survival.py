"""Survival curves: the Kaplan-Meier steps of the data and the mean curve of the model."""

from typing import Any
from warnings import catch_warnings

import numpy as np

from probreg.arguments.scalars import (
    Figure,
    Probability,
    Word,
    check_arguments,
    list_names,
)
from probreg.comparison.effects.scenarios import population, row_groups
from probreg.data.formula.functions import variables
from probreg.errors import DataError, Incompatible
from probreg.fits.fit import Fit
from probreg.fits.inference_data import MAX_OBSERVATIONS, observation_rows
from probreg.likelihoods.quantities import probability_up_to
from probreg.show.plot.style import (
    Size,
    footnote,
    label,
    mark,
    panels,
    shorten,
    top_legend,
)


@check_arguments
def survival(
    fit: Fit,
    by: Word | None = None,
    *,
    data: Any = None,
    prob: Probability = 0.95,
    figsize: Size | None = None,
) -> Figure:
    """Draw the Kaplan-Meier estimate of P(Y > t) as steps with its interval, and the mean of the model's P(Y > t) over the same rows.

    A curve far outside the interval shows that the distribution of the model does not fit.

    Parameters
    ----------
    fit : Fit
        A fit of a numeric response, exact or right censored.
    by : str, optional
        A variable with at most six values: one pair of curves for each.
    data : table, optional
        The table of the fit, if the variables cannot be read back from its columns.
    prob : float
        Probability of the pointwise intervals of Kaplan-Meier, between 0 and 1.
    figsize : pair of float, optional
        Width and height in inches.

    Returns
    -------
    Figure
        A matplotlib figure outside pyplot.

    Raises
    ------
    DataError
        For a variable with more than six values, and for `data` that are not the table of the fit.
    Incompatible
        For left or interval censored responses, and for classes.

    Examples
    --------
    >>> import probreg as pr
    >>> data = {"t": [1.0, 2.0, 3.0, 5.0, 8.0, 8.0], "event": [1, 1, 0, 1, 1, 0], "x": [0.0, 1.0, 0.0, 2.0, 1.0, 3.0]}
    >>> fit = pr.fit(pr.Model.from_formula("cens(t, event) ~ x", data, likelihood="weibull"))
    >>> survival(fit).axes[0].get_ylabel()
    'survival probability'
    """
    from scipy.stats import CensoredData

    n_times = 121
    most_groups = 6  # one for each colour of the style
    model = fit.model
    probability_up_to(model.likelihood, 0.0)  # raises for classes
    predictive = fit.predictive().thin(200)
    y = np.asarray(model.design.observed, dtype=float)
    ends = y if y.ndim == 2 else np.stack([y, y], 1)
    censored = model.likelihood.is_censored(model.design.observed)
    if np.isfinite(ends[censored]).all(1).any() or np.isneginf(ends).any():
        raise Incompatible(
            "the Kaplan-Meier estimate needs exact or right censored responses, and some rows are left or interval censored: "
            "compare fit.survival(times) with other fits"
        )
    keys = list_names(by)
    variables(model.design, data, keys)  # raises for the table of other rows
    rows = population(model.likelihood, model.design, data, keys)
    groups = row_groups(rows, keys)
    if len(groups) > most_groups:
        raise DataError(
            f"by={by!r} has {len(groups)} values; at most {most_groups} are drawn"
        )
    every_row, weights = observation_rows(model)
    if weights is not None:
        raise Incompatible(
            f"the Kaplan-Meier estimate repeats rows by their weights, and these count {model.design.total:,.0f} observations: at most "
            f"{MAX_OBSERVATIONS:,} are repeated"
        )
    times = np.linspace(min(0.0, ends[:, 0].min()), ends[:, 0].max(), n_times)
    curves = np.stack([1.0 - predictive.cdf(np.full(len(y), t)) for t in times])
    fig, (ax,) = panels(1, 1, width=6.4, height=3.4, figsize=figsize)
    for k, group in enumerate(groups):
        name = "".join(f", {shorten(value, 24)}" for value in group.labels.values())
        rows_of_group = every_row[np.isin(every_row, group.rows)]
        sample = CensoredData.right_censored(
            ends[rows_of_group, 0], censored[rows_of_group]
        )
        _draw_kaplan_meier(ax, sample, times[0], prob, k, f"Kaplan-Meier{name}")
        look = mark(k) | {"marker": None, "linewidth": 1.8}
        curve = curves[:, group.rows] @ group.share
        ax.plot(times, curve, label=f"mean of the model{name}", **look)
    ax.set_ylim(-0.03, 1.03)
    label(ax, x=shorten(model.design.response), y="survival probability")
    top_legend(fig, ax)
    footnote(fig, f"Bands: pointwise {100 * prob:g} % intervals of Kaplan-Meier")
    return fig


def _draw_kaplan_meier(
    ax: Any, sample: Any, start: float, prob: float, k: int, name: str
) -> None:
    """Draw the steps of a right censored sample from `start` on, with their interval, as series number k."""
    from scipy.stats import ecdf

    steps = ecdf(sample).sf
    with catch_warnings(action="ignore"):  # no interval at 0 and 1
        interval = steps.confidence_interval(prob, method="log-log")
    lower, upper, middle = (
        np.r_[1.0, p]
        for p in (
            np.nan_to_num(interval.low.probabilities, nan=0.0),
            np.nan_to_num(interval.high.probabilities, nan=1.0),
            steps.probabilities,
        )
    )
    x = np.r_[start, steps.quantiles]
    look = {"color": mark(k)["color"]}
    ax.fill_between(x, lower, upper, step="post", alpha=0.15, lw=0, **look)
    ax.step(x, middle, where="post", linewidth=1.0, label=name, **look)
