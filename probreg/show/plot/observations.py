"""Fitted values and predictive distribution at the rows of a fit, one entry per observation. Numbers only.

Rows with whole-number weights are repeated. Pictures show at most 2,000 observations and use at most 500 draws, both evenly
spaced.
"""

from dataclasses import dataclass

import numpy as np
from scipy.special import betaincinv, ndtri

from probreg.data.weights import refuse_sampling
from probreg.fits.fit import Fit
from probreg.fits.inference_data import observation_rows
from probreg.fits.prediction import predictive, require_predictive
from probreg.likelihoods import OfClasses
from probreg.model.predictive import Predictive

Array = np.ndarray
MOST_ROWS, MOST_DRAWS = 2000, 500
_EDGE = 1e-15  # of probability: a quantile residual is at most 7.9 in size


@dataclass(frozen=True, eq=False)
class Observations:
    """The row of the design behind each observation (n,), the response (n,) or (n, K), its fitted mean (n,) or class probabilities
    (n, K), weights, the predictive distribution, and counts of each class (n, K), None for a numeric response."""

    rows: Array
    y: Array
    mean: Array
    weights: Array
    predictive: Predictive
    note: str
    tally: Array | None = None


def observations(fit: Fit) -> Observations:
    """Return the observations. DataError for a fit without rows, NotConverged for a fit without an estimate."""
    model = fit.model
    model.design.need_rows("a picture of the data")
    require_predictive(fit.solution, fit.method)
    refuse_sampling(
        model.design.weight_kind, "a picture of the predictive distribution"
    )
    every_row, weights = observation_rows(model)
    part = _evenly(len(every_row), MOST_ROWS)
    rows = every_row[part]
    distribution = predictive(
        model,
        fit.solution,
        model.design.take(rows),
        spread=False,
        seed=fit.seed,
        at_most=MOST_DRAWS,
    )
    note = ""
    if len(part) < len(every_row):
        note = f"{len(part):,} of {len(every_row):,} observations are shown"
    w = np.ones(len(part)) if weights is None else weights[part]
    y = model.design.observed[rows]
    likelihood = model.likelihood
    tally = likelihood.tally(y) if isinstance(likelihood, OfClasses) else None
    drawn = likelihood.drawn(y)
    return Observations(rows, drawn, distribution.mean(), w, distribution, note, tally)


def beyond(z: Array) -> str:
    """Count the quantile residuals beyond double precision; "" for none."""
    edge = ndtri(1.0 - _EDGE)
    count = np.count_nonzero(np.abs(z) >= edge - 1e-6)
    return f"{count} beyond ±{edge:.1f} drawn there" if count else ""


def normal_order(n: int, prob: float) -> tuple[Array, Array, Array]:
    """Medians and pointwise band of the n order statistics of a standard normal sample.

    >>> [v.round(3).tolist() for v in normal_order(1, 0.95)]
    [[0.0], [-1.96], [1.96]]
    """
    k = np.arange(1, n + 1)
    middle, lower, upper = (
        ndtri(betaincinv(k, n + 1 - k, q))
        for q in (0.5, (1 - prob) / 2, (1 + prob) / 2)
    )
    return middle, lower, upper


def smooth(x: Array, y: Array, grid: Array, share: float = 0.67) -> Array:
    """Local line with tricube weights over the nearest `share` of the rows, at the points `grid` (Cleveland 1979).

    >>> x = np.arange(10.0)
    >>> smooth(x, 2.0 * x + 1.0, np.array([4.5])).round(6)
    array([10.])
    """
    k = max(int(np.ceil(share * len(x))), min(len(x), 3))
    distance = np.abs(x - grid[:, None])
    reach = np.partition(distance, k - 1, axis=1)[:, k - 1 : k]
    w = (
        np.clip(
            1.0 - (distance / np.where(reach > 0, 1.0001 * reach, 1.0)) ** 3, 0.0, None
        )
        ** 3
    )
    total = w.sum(1)
    mx = (w @ x) / total
    my = (w @ y) / total
    dx = x - mx[:, None]
    var = (w * dx**2).sum(1)
    cov = (w * dx * (y - my[:, None])).sum(1)
    slope = np.divide(
        cov,
        var,
        out=np.zeros_like(cov),
        where=var > 1e-12 * (np.ptp(x) ** 2 + 1e-300) * total,
    )
    return my + slope * (grid - mx)


def _evenly(n: int, limit: int) -> Array:
    if n <= limit:
        return np.arange(n)
    return np.linspace(0, n - 1, limit).round().astype(int)
