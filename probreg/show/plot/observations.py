"""Numbers behind the pictures: fitted values and predictive distribution at the rows of a fit.

Rows with whole-number weights are repeated. Pictures show at most 2,000 observations and use at most 500 draws, both evenly
spaced.
"""

from dataclasses import dataclass

import numpy as np
from scipy.special import betaincinv, ndtri

from probreg.data.rows import full_weights
from probreg.fits.fit import Fit
from probreg.fits.fitted import require_predictive
from probreg.fits.inference_data import observation_rows
from probreg.fits.prediction import predictive
from probreg.likelihoods import OfClasses
from probreg.model.predictive import Predictive

Array = np.ndarray


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
    most_draws = 500
    most_rows = 2000
    model = fit.model
    model.design.need_rows("a picture of the data")
    require_predictive(fit)
    model.design.refuse_sampling("a picture of the predictive distribution")
    every_row, weights = observation_rows(model)
    shown = min(len(every_row), most_rows)
    part = np.linspace(0, len(every_row) - 1, shown).round().astype(int)
    rows = every_row[part]
    distribution = predictive(fit, model.design.take(rows), at_most=most_draws)
    note = ""
    if shown < len(every_row):
        note = f"{shown:,} of {len(every_row):,} observations are shown"
    w = full_weights(weights, len(every_row))[part]
    y = model.design.observed[rows]
    likelihood = model.likelihood
    tally = likelihood.tally(y) if isinstance(likelihood, OfClasses) else None
    drawn = likelihood.drawn(y)
    return Observations(rows, drawn, distribution.mean(), w, distribution, note, tally)


def count_censored(fit: Fit, words: str) -> str:
    """Return the number of censored rows followed by `words`; "" for none."""
    count = int(fit.model.likelihood.is_censored(fit.model.design.observed).sum())
    return f"{count:,} censored rows {words}" if count else ""


def beyond(z: Array) -> str:
    """Count the quantile residuals beyond double precision; "" for none."""
    smallest_prob = 1e-15  # of probability: a quantile residual is at most 7.9 in size
    edge = ndtri(1.0 - smallest_prob)
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


def bin_means(
    x: Array, y: Array, weights: Array | None = None, bins: int = 10
) -> tuple[Array, Array]:
    """Return the means of x and y in bins of about equal size along x, at least eight rows each.

    >>> [v.tolist() for v in bin_means(np.arange(16.0), np.arange(16.0) ** 2)]
    [[3.5, 11.5], [17.5, 137.5]]
    """
    w = full_weights(weights, len(x))
    parts = np.array_split(np.argsort(x, kind="stable"), np.clip(len(x) // 8, 1, bins))
    means = [
        np.average([x[g], y[g]], axis=1, weights=w[g]) for g in parts if w[g].any()
    ]
    return np.array(means)[:, 0], np.array(means)[:, 1]
