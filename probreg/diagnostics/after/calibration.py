"""Calibration of class probabilities."""

from typing import NamedTuple

import numpy as np
from scipy.special import chdtrc

from probreg.diagnostics.after.base import DIAGNOSTICS, SIGNIFICANT, Diagnostic
from probreg.diagnostics.after.observed import (
    countable_obstacle,
    rows_of_observations,
)
from probreg.diagnostics.findings import Finding
from probreg.fits.fit import Fit
from probreg.fits.prediction import predictive
from probreg.likelihoods import OfClasses, SoftmaxLikelihood
from probreg.system.terminal import format_number, format_p

Array = np.ndarray
_LEAST, _GROUP = 40, 10  # observations in all, and in each of at most ten groups


class HosmerLemeshow(NamedTuple):
    """A chi-square statistic over groups of similar predictions, its degrees of freedom and p-value."""

    statistic: float
    df: int
    p_value: float


@DIAGNOSTICS.register
class CalibrationDiagnostic(Diagnostic):
    """The test of Hosmer and Lemeshow (1980) over tenths of the predictions, and for several classes its generalisation
    (Fagerland, Hosmer & Bofin 2008).

    >>> import probreg as pr
    >>> x = np.linspace(-2.0, 2.0, 300)
    >>> fit = pr.fit(pr.Model.from_arrays(x, (np.abs(x - 0.5) < 1).astype(int), likelihood="bernoulli"))
    >>> CalibrationDiagnostic().run(fit)[0].verdict.name
    'WARNING'
    """

    name = "calibration"
    title = "Hosmer-Lemeshow test"
    when = "two levels and classes"
    picture = "plot.reliability"

    def applies(self, fit: Fit) -> str | None:
        if not isinstance(fit.model.likelihood, OfClasses):
            return f"{fit.model.likelihood.named} response has no class probabilities; see distribution"
        reason = countable_obstacle(fit, minimum=_LEAST)
        if reason is not None:
            return reason
        if len(np.unique(fit.once(_probabilities)[:, -1].round(12))) > 3:
            return None
        return "three different predictions or fewer"

    def run(self, fit: Fit) -> list[Finding]:
        rows = rows_of_observations(fit)
        likelihood = fit.model.likelihood
        assert isinstance(likelihood, OfClasses)  # as in `applies`
        p = fit.once(_probabilities)[rows]
        y = likelihood.tally(fit.model.design.observed[rows])
        groups = min(10, len(rows) // _GROUP)
        test = hosmer_lemeshow(p, y, reference=_reference_class(fit), groups=groups)
        if test.df < 1:
            return self.report_ok("too few different predictions")
        result = "the probabilities are calibrated"
        if test.p_value < SIGNIFICANT:
            result = "the probabilities are not calibrated"
        return self.report_p_value(
            f"{result}, chi2({test.df}) = {format_number(test.statistic, 3)}, {format_p(test.p_value)}",
            "look for nonlinear effects and interactions; recalibrate on new rows",
            statistic=test.statistic,
            p_value=test.p_value,
        )


def hosmer_lemeshow(
    p: Array, y: Array, *, reference: int = 0, groups: int = 10
) -> HosmerLemeshow:
    """sum over groups and classes of (observed - expected)^2 / expected, chi-square on (groups - 2)(K - 1).

    p (n, K) class probabilities, y (n,) codes, or (n, K) counts of each class in a row. Groups are cut by the probability of not being the reference class, into
    about equal numbers; equal predictions stay together, so there may be fewer groups.

    >>> p = np.repeat([0.2, 0.4, 0.8], 10)
    >>> y = np.tile([1, 0, 0, 0, 1], 6)
    >>> [round(float(v), 4) for v in hosmer_lemeshow(np.c_[1 - p, p], y, groups=3)]
    [12.5, 1.0, 0.0004]
    """
    if y.ndim == 1:
        tally = (y[:, None] == np.arange(p.shape[1])).astype(float)
    else:
        tally = y
    trials = tally.sum(1)
    group = _groups_of_equal_weight(1.0 - p[:, reference], groups, trials)
    # E_gk = sum_{i in g} n_i p_ik and O_gk = sum_{i in g} y_ik, n_i the trials of a row.
    expected = np.stack(
        [np.bincount(group, trials * p[:, k]) for k in range(p.shape[1])], 1
    )
    happened = np.stack(
        [np.bincount(group, tally[:, k], len(expected)) for k in range(p.shape[1])], 1
    )
    with np.errstate(all="ignore"):  # a class that is certain not to come
        parts = np.where(expected > 0, (happened - expected) ** 2 / expected, 0.0)
    # X^2 = sum_g sum_k (O_gk - E_gk)^2 / E_gk ~ chi^2 on (G - 2)(K - 1)   (Fagerland, Hosmer & Bofin 2008).
    df = max(len(expected) - 2, 0) * (p.shape[1] - 1)
    statistic = float(parts.sum())
    return HosmerLemeshow(statistic, df, float(chdtrc(df, statistic)) if df else np.nan)


def _groups_of_equal_weight(value: Array, groups: int, w: Array | None = None) -> Array:
    """Return groups 0, 1, ... of about equal weight in the order of the values, equal values together."""
    w = np.ones(len(value)) if w is None else w
    level, place = np.unique(value.round(12), return_inverse=True)
    weight = np.bincount(place, w, len(level))
    # The place of a value is the weight below it and half of its own, over W; its group is floor(G place).
    middle = (np.cumsum(weight) - weight / 2) / weight.sum()
    cut = np.minimum((middle * groups).astype(int), groups - 1)
    return np.unique(cut, return_inverse=True)[1][place]


def _probabilities(fit: Fit) -> Array:
    """Class probabilities (n, K) at the rows of the fit."""
    mean = predictive(
        fit.model,
        fit.solution,
        fit.model.design,
        spread=False,
        seed=fit.seed,
        at_most=500,
    ).mean()
    if mean.ndim == 2:
        return mean
    return np.stack([1.0 - mean, mean], 1)


def _reference_class(fit: Fit) -> int:
    likelihood = fit.model.likelihood
    if isinstance(likelihood, SoftmaxLikelihood) and likelihood.reference is not None:
        return likelihood.levels.index(likelihood.reference)
    return 0
