"""Six panels that judge a fit at one sight: what R draws of a linear model, and what takes its place elsewhere."""

from collections.abc import Callable, Iterator
from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np
import scipy
from scipy.special import ndtr, ndtri

from probreg.arguments.scalars import Natural, check_arguments
from probreg.assess.after.influence_measures import influence_measures
from probreg.assess.after.local import local_obstacle
from probreg.fits.fit import Fit
from probreg.inference.base import markov
from probreg.likelihoods import OfClasses, OfTrials, UnivariateLikelihood
from probreg.show.plot.calibration import bins, shares_against_predicted
from probreg.show.plot.chains import chains, ranks
from probreg.show.plot.leverage import against_leverage, name_rows
from probreg.show.plot.observations import (
    Observations,
    observations,
    observed_quantile_residuals,
    share_interval,
)
from probreg.show.plot.qq import against_normal, residual_word, said_of
from probreg.show.plot.rank import draw_ranks
from probreg.show.plot.residuals import against_fitted
from probreg.show.plot.scale_location import spread_against_fitted
from probreg.show.plot.style import (
    DASHED,
    GREY,
    LIGHT,
    Mark,
    Size,
    fitted_name,
    footnote,
    label,
    mark,
    paper,
    points,
    shorten,
    top_legend,
)
from probreg.show.plot.trace import draw_in_order

if TYPE_CHECKING:
    from matplotlib.figure import Figure

Array = np.ndarray
_BAND = 0.95
_BINS = 10  # of a histogram of probabilities
_CLASSES = 4  # that are drawn in one panel; of more, those that come most often
_COUNTS = 25  # bars of a rootogram


class _Drawn(NamedTuple):
    """A fit, what it says of its rows, its quantile residuals (None of classes without an order), and how many rows to name."""

    fit: Fit
    seen: Observations
    z: Array | None
    named: int


_Panel = Callable[[Any, _Drawn], None]


@check_arguments
def diagnose(fit: Fit, named: Natural = 3, *, figsize: Size | None = None) -> "Figure":
    """Six panels: residuals, quantiles, spread, leverage, agreement with the data, and influence or Markov chains.

    A measured response has what R draws of a linear model: residuals and their spread against the fitted mean, quantile
    residuals, leverage, Cook's distance, and the response against its fitted mean. Counts have a rootogram, roots of
    observed and expected frequencies. Events and classes have residuals in bins, calibration, and the probabilities that
    were said for what happened. Markov chains have the trace and ranks of the parameter of largest R-hat in place of the
    last two. Where leverage has no formula (kinks, priors that are not quadratic) probability integral transforms or
    the response stand.

    Parameters
    ----------
    fit : Fit
        A fit.
    named : int
        The rows with so many largest Cook's distances carry their labels.
    figsize : pair of float, optional
        Width and height in inches.

    Returns
    -------
    Figure
        A matplotlib figure outside pyplot.

    Raises
    ------
    DataError
        Without rows.
    NotConverged
        Without an estimate.

    References
    ----------
    Kleiber & Zeileis 2016 (rootograms); Gelman & Hill 2007 (residuals in bins).

    Examples
    --------
    >>> import probreg as pr
    >>> fit = pr.fit(pr.Model.from_formula("stack_loss ~ .", pr.load_dataset("stackloss")))
    >>> [ax.get_title(loc="left") for ax in diagnose(fit).axes][:3]
    ['Residuals', 'Quantiles', 'Spread']
    """
    seen = observations(fit)
    likelihood = fit.model.likelihood
    ordered = isinstance(likelihood, UnivariateLikelihood)
    drawn = _Drawn(
        fit, seen, observed_quantile_residuals(fit, seen) if ordered else None, named
    )
    fig, axes = paper(2, 3, size=(10.4, 6.6), figsize=figsize)
    for ax, (title, draw) in zip(axes.flat, _panels_by_title(fit).items(), strict=True):
        label(ax, title=title)
        draw(ax, drawn)
    top_legend(
        fig, [ax for ax in axes.flat if ax.get_title(loc="left") != "Trace"]
    )  # beside it the ranks name the chains
    said = said_of(fit, seen, np.zeros(0) if drawn.z is None else drawn.z)
    footnote(fig, f"{said}. Bands and intervals: {100 * _BAND:g} %")
    return fig


def _panels_by_title(fit: Fit) -> dict[str, _Panel]:
    """The six panels of a fit by their titles."""
    likelihood = fit.model.likelihood
    classes = isinstance(likelihood, OfClasses)
    ordered = isinstance(likelihood, UnivariateLikelihood)
    numbers = ordered and (
        isinstance(likelihood, OfTrials) or not classes
    )  # not one event or class in a row
    found: dict[str, _Panel] = (
        {"Residuals": _residuals}
        if numbers
        else {"Residuals in bins": _draw_binned_residuals}
    )
    found |= (
        {"Quantiles": _draw_quantiles}
        if ordered
        else {"Most probable class": _confusion}
    )
    found |= (
        {"Spread": _draw_spread}
        if numbers
        else {"Predictions by outcome": _draw_probabilities}
    )
    agreement: dict[str, _Panel] = {"Response": _draw_response}
    if classes:
        agreement = {"Calibration": _calibration}
    elif isinstance(likelihood, UnivariateLikelihood) and not isinstance(
        likelihood.support, str
    ):
        agreement = {"Rootogram": _rootogram}
    distribution: dict[str, _Panel] = (
        {"Distribution": _transforms}
        if ordered
        else {"Shares of classes": _draw_class_shares}
    )
    if markov(fit.method, fit.solution):
        if "Response" in agreement:
            told = distribution
        else:
            told = agreement
        return found | told | {"Trace": _trace, "Ranks": _ranks}
    if local_obstacle(fit) is None:
        return (
            found
            | {"Leverage": _draw_leverage}
            | agreement
            | {"Cook's distance": _cook}
        )
    return found | distribution | agreement | {"Surprise": _surprise}


def _residuals(ax: Any, of: _Drawn) -> None:
    assert of.z is not None
    against_fitted(ax, of.fit, of.seen, of.z)


def _draw_quantiles(ax: Any, of: _Drawn) -> None:
    likelihood = of.fit.model.likelihood
    assert of.z is not None
    assert isinstance(likelihood, UnivariateLikelihood)
    against_normal(ax, of.z, _BAND, residual_word(likelihood))


def _draw_spread(ax: Any, of: _Drawn) -> None:
    spread_against_fitted(ax, of.fit)


def _draw_leverage(ax: Any, of: _Drawn) -> None:
    lost = against_leverage(ax, of.fit, of.named)
    if lost:
        label(ax, x=f"leverage ({lost} rows that alone decide their fit are not shown)")


def _cook(ax: Any, of: _Drawn) -> None:
    """Cook's distance of each row in the order of the rows."""
    found = influence_measures(of.fit).isel(obs=of.fit.model.design.places)
    _by_row(ax, found["obs"].values, found["cook"].values, of.named)
    label(ax, x="row", y="Cook's distance")


def _surprise(ax: Any, of: _Drawn) -> None:
    """-log p(y_i) under the predictive distribution: what no formula of leverage is needed for."""
    if of.seen.labels is None:
        labels = np.arange(len(of.seen.y))
    else:
        labels = of.seen.labels
    _by_row(ax, labels, -of.seen.predictive.log_prob(of.seen.y), of.named)
    label(ax, x="row", y="−log p(response) (nats)")


def _by_row(ax: Any, labels: Array, value: Array, named: int) -> None:
    at = np.arange(float(len(value)))  # rows are counted from 0, as in tables
    low = min(0.0, float(np.nanmin(value)))
    ax.vlines(at, low, value, color=GREY, linewidth=0.8, rasterized=len(at) > 400)
    high = float(np.nanmax(value))
    ax.set_xlim(-1.0, float(len(at)))
    ax.set_ylim(low, high + 0.14 * ((high - low) or 1.0))
    name_rows(ax, labels, at, value, value, named)


def _draw_response(ax: Any, of: _Drawn) -> None:
    """The response against its fitted mean, about the diagonal where the mean is right."""
    mean = of.seen.mean
    y = of.seen.y
    ends = [min(mean.min(), y.min()), max(mean.max(), y.max())]
    ax.plot(ends, ends, color=GREY, linewidth=0.9, linestyle=DASHED, zorder=0)
    points(ax, mean, y)
    label(ax, x=fitted_name(of.fit), y=shorten(of.fit.model.design.response))


def _rootogram(ax: Any, of: _Drawn) -> None:
    """sqrt of how often each count (or group of counts) came, as bars, and of how often it is expected, as a line."""
    y = of.seen.y
    w = of.seen.weights
    said = of.seen.predictive
    most = float(y.max()) + 1.0
    step = int(np.ceil(most / _COUNTS))
    edges = np.arange(0.0, most + step, step)
    observed = np.histogram(y, edges - 0.5, weights=w)[0]
    # E sum_i w_i 1[a <= Y_i < b] = sum_i w_i (F_i(b - 1) - F_i(a - 1))
    below = np.array(
        [
            (w * said.cdf(np.full(len(y), edge - 1.0))).sum() if edge > 0 else 0.0
            for edge in edges
        ]
    )
    middle = (edges[:-1] + edges[1:] - 1.0) / 2.0
    look = mark(0)
    ax.bar(middle, np.sqrt(observed), width=0.8 * step, color=LIGHT, label="observed")
    ax.plot(middle, np.sqrt(np.diff(below)), look.marker, linestyle="-", color=look.color, markersize=3.5, linewidth=1.2,
            label="expected")  # fmt: skip
    label(ax, x=shorten(of.fit.model.design.response), y="root of the number of rows")


def _transforms(ax: Any, of: _Drawn) -> None:
    """P(Y <= y) of the rows in bins, over what is expected of each bin: 1 where the distribution is right."""
    assert of.z is not None
    n = len(of.z)
    share = 1.0 / _BINS
    found, edges = np.histogram(ndtr(of.z), _BINS, (0.0, 1.0))
    low, high = (
        scipy.stats.binom.ppf(q, n, share) * _BINS / n
        for q in ((1 - _BAND) / 2, (1 + _BAND) / 2)
    )
    ax.axhspan(low, high, color=LIGHT, alpha=0.7, linewidth=0)
    ax.axhline(1.0, color=GREY, linewidth=0.9, linestyle=DASHED)
    ax.stairs(found * _BINS / n, edges, color=mark(0).color, linewidth=1.6)
    ax.set_xlim(0.0, 1.0)
    ax.set_ylim(0.0, None)
    label(
        ax,
        x="probability of a response up to the observed one",
        y="rows, over those expected",
    )


def _events(of: _Drawn) -> tuple[Array, Array, list[str]]:
    """The probabilities (n, C) to draw, how often each class came (n, C), and their names: of two classes the event alone, of
    many those that come most often."""
    likelihood = of.fit.model.likelihood
    tally = of.seen.tally
    assert isinstance(likelihood, OfClasses)
    assert tally is not None
    if of.seen.mean.ndim == 1:
        return of.seen.mean[:, None], tally[:, 1:], [str(likelihood.classes[-1])]
    often = np.sort(
        np.argsort(-(tally * of.seen.weights[:, None]).sum(0), kind="stable")[:_CLASSES]
    )
    return (
        of.seen.mean[:, often],
        tally[:, often],
        [shorten(likelihood.classes[k], 16) for k in often],
    )


def _in_bins(of: _Drawn) -> Iterator[tuple[str, Mark, Array, Array, Array]]:
    """Of each class its name and look, and of each bin the mean prediction, the observed share, and how many it holds."""
    p, hit, names = _events(of)
    assert of.seen.tally is not None
    trials = of.seen.tally.sum(1)
    for k, name in enumerate(names):
        share = hit[:, k] / np.where(trials > 0, trials, 1.0)
        centre, hits, total = bins(p[:, k], share, of.seen.weights * trials)
        yield name, mark(k), centre, hits / total, total


def _draw_binned_residuals(ax: Any, of: _Drawn) -> None:
    """Observed less predicted share in bins of the prediction, with the band of a share that is as predicted."""
    ax.axhline(0.0, color=GREY, linewidth=0.9, linestyle=DASHED, zorder=0)
    every = list(_in_bins(of))
    for name, look, centre, share, total in every:
        if len(every) == 1:
            half = ndtri((1.0 + _BAND) / 2.0) * np.sqrt(centre * (1.0 - centre) / total)
            ax.fill_between(centre, -half, half, color=LIGHT, alpha=0.7, linewidth=0)
        ax.plot(centre, share - centre, look.marker, color=look.color, markerfacecolor=look.fill, markersize=5,
                linestyle=look.line, linewidth=0.7, label=name if len(every) > 1 else None)  # fmt: skip
    label(ax, x="predicted probability", y="observed − predicted share")


def _calibration(ax: Any, of: _Drawn) -> None:
    """Observed shares against predicted probabilities: of an event or success with intervals, of several classes a line each."""
    p, hit, names = _events(of)
    if len(names) == 1:
        shares_against_predicted(ax, p[:, 0], hit[:, 0], of.seen, _BAND)
        ax.set_aspect("auto")
    else:
        ax.plot([0, 1], [0, 1], color=GREY, linewidth=0.9, linestyle=DASHED, zorder=0)
        for _, look, centre, share, _ in _in_bins(of):
            ax.plot(centre, share, look.marker, color=look.color, markerfacecolor=look.fill, markersize=5,
                    linestyle=look.line, linewidth=1.0)  # fmt: skip
    label(ax, x="predicted probability", y="observed share")


def _draw_probabilities(ax: Any, of: _Drawn) -> None:
    """Histograms of predicted probabilities: of an event where it happened and where not, of classes where they came."""
    p, hit, names = _events(of)
    w = of.seen.weights
    groups = [(p[:, k], hit[:, k] * w, name) for k, name in enumerate(names)]
    if len(names) == 1 and of.seen.tally is not None:
        likelihood = of.fit.model.likelihood
        response = of.fit.model.design.response
        assert isinstance(likelihood, OfClasses)
        said = [shorten(f"{response} = {v}", 24) for v in likelihood.classes]
        groups = [(p[:, 0], of.seen.tally[:, k] * w, said[k]) for k in (0, 1)]
    for k, (values, weight, name) in enumerate(groups):
        look = mark(k)
        count, edges = np.histogram(values, _BINS, (0.0, 1.0), weights=weight)
        ax.stairs(count / max(weight.sum(), 1e-300), edges, color=look.color, linestyle=look.line, linewidth=1.6,
                  label=name)  # fmt: skip
    if len(names) == 1:
        what = f"predicted {shorten(of.fit.model.likelihood.mean_name(of.fit.model.design.response))}"
    else:
        what = "probability of the class that came"
    ax.set_xlim(0.0, 1.0)
    label(ax, x=what, y="share of rows")


def _confusion(ax: Any, of: _Drawn) -> None:
    """How often each class came where each was the most probable one."""
    likelihood = of.fit.model.likelihood
    tally = of.seen.tally
    assert isinstance(likelihood, OfClasses)
    assert tally is not None
    K = len(likelihood.classes)
    said = np.eye(K)[np.argmax(of.seen.mean, axis=1)]
    table = (tally * of.seen.weights[:, None]).T @ said
    ax.imshow(table, cmap="Greys", vmax=1.6 * table.max(), aspect="auto")
    if K <= _CLASSES:
        names = [shorten(c, 8) for c in likelihood.classes]
    else:
        names = [str(k + 1) for k in range(K)]
    for i, j in np.ndindex(K, K):
        if K <= 2 * _CLASSES:
            ax.text(j, i, f"{table[i, j]:g}", ha="center", va="center", fontsize=8.5)
    step = -(-K // 10)
    ax.set_xticks(range(0, K, step), names[::step])
    ax.set_yticks(range(0, K, step), names[::step])
    right = float(np.trace(table) / table.sum())
    label(ax, x=f"most probable ({100 * right:.0f} % right)", y="observed")


def _draw_class_shares(ax: Any, of: _Drawn) -> None:
    """The share of each class in the rows, with its interval, over the mean of its probabilities."""
    likelihood = of.fit.model.likelihood
    tally = of.seen.tally
    w = of.seen.weights
    assert isinstance(likelihood, OfClasses)
    assert tally is not None
    count = (tally * w[:, None]).sum(0)
    trials = (tally.sum(1) * w).sum()
    said = ((tally.sum(1) * w)[:, None] * of.seen.mean).sum(0) / trials
    lower, upper = share_interval(count, np.full(len(count), trials), _BAND)
    ax.plot(
        [0, said.max()],
        [0, said.max()],
        color=GREY,
        linewidth=0.9,
        linestyle=DASHED,
        zorder=0,
    )
    ax.vlines(said, lower, upper, color=mark(0).color, linewidth=1.6)
    ax.plot(said, count / trials, mark(0).marker, color=mark(0).color, markersize=5)
    label(ax, x="mean predicted probability of a class", y="share observed")


def _worst(fit: Fit) -> tuple[str, Array, Array]:
    """The parameter of largest R-hat, its draws (chain, draw), and the divergent steps."""
    found = chains(fit, most=None)
    table = fit.summary()
    names = [
        ": ".join(str(part) for part in reversed(k) if part)
        if isinstance(k, tuple)
        else k
        for k in table.index
    ]
    r_hat = {
        name: v if np.isfinite(v) else np.inf
        for name, v in zip(names, table["r_hat"])
        if name in found.draws
    }
    name = max(r_hat, key=lambda k: r_hat[k])
    return name, found.draws[name], found.diverging


def _trace(ax: Any, of: _Drawn) -> None:
    name, draws, diverging = _worst(of.fit)
    draw_in_order(ax, draws, diverging)
    label(ax, x="draw", y=shorten(name, 30))


def _ranks(ax: Any, of: _Drawn) -> None:
    name, draws, _ = _worst(of.fit)
    draw_ranks(ax, ranks(draws))
    label(ax, x=f"rank among all draws, {shorten(name, 30)}")
