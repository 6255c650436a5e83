"""Calibration of class probabilities."""

import numpy as np

from probreg.diagnostics.after.base import (
    DIAGNOSTICS,
    Diagnostic,
    require_counts,
)
from probreg.diagnostics.findings import (
    Finding,
    HypothesisTest,
    NotApplicable,
    chi2_test,
)
from probreg.fits.fit import Fit
from probreg.fits.inference_data import observation_rows
from probreg.fits.prediction import predictive
from probreg.likelihoods import OfClasses, SoftmaxLikelihood

Array = np.ndarray
_LEAST, _GROUP = 40, 10  # observations in all, and in each of at most ten groups


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

    def find(self, fit: Fit) -> list[Finding]:
        likelihood = fit.model.likelihood
        if not isinstance(likelihood, OfClasses):
            raise NotApplicable(
                f"{likelihood.named} response has no class probabilities; see distribution"
            )
        require_counts(fit, _LEAST)
        rows = observation_rows(fit.model)[0]
        p = _probabilities(fit)[rows]
        if len(np.unique(p[:, -1].round(12))) <= 3:
            raise NotApplicable("three different predictions or fewer")
        y = likelihood.tally(fit.model.design.observed[rows])
        reference = 0
        if (
            isinstance(likelihood, SoftmaxLikelihood)
            and likelihood.reference is not None
        ):
            reference = likelihood.levels.index(likelihood.reference)
        groups = min(10, len(rows) // _GROUP)
        test = hosmer_lemeshow(p, y, reference=reference, groups=groups)
        if test.df < 1:
            return self.report("too few different predictions")
        return self.report_test(
            test,
            "the probabilities are calibrated",
            "the probabilities are not calibrated",
            "look for nonlinear effects and interactions; recalibrate on new rows",
        )


def hosmer_lemeshow(
    p: Array, y: Array, *, reference: int = 0, groups: int = 10
) -> HypothesisTest:
    """sum over groups and classes of (observed - expected)^2 / expected, chi-square on (groups - 2)(K - 1).

    p (n, K) class probabilities, y (n, K) counts of each class in a row. Groups are cut by the probability of not being the reference class, into
    about equal numbers; equal predictions stay together, so there may be fewer groups.

    >>> p = np.repeat([0.2, 0.4, 0.8], 10)
    >>> y = np.tile([1, 0, 0, 0, 1], 6)
    >>> print(hosmer_lemeshow(np.c_[1 - p, p], np.c_[1 - y, y], groups=3))
    chi2(1) = 12.5, p = 0.00041
    """
    trials = y.sum(1)
    group = _groups_of_equal_weight(1.0 - p[:, reference], groups, trials)
    # E_gk = sum_{i in g} n_i p_ik and O_gk = sum_{i in g} y_ik, n_i the trials of a row.
    member = (group[:, None] == np.unique(group)).astype(float)
    expected = member.T @ (trials[:, None] * p)
    happened = member.T @ y
    with np.errstate(all="ignore"):  # a class that is certain not to come
        parts = np.where(expected > 0, (happened - expected) ** 2 / expected, 0.0)
    # X^2 = sum_g sum_k (O_gk - E_gk)^2 / E_gk ~ chi^2 on (G - 2)(K - 1)   (Fagerland, Hosmer & Bofin 2008).
    df = max(len(expected) - 2, 0) * (p.shape[1] - 1)
    return chi2_test(float(parts.sum()), df)


def _groups_of_equal_weight(value: Array, groups: int, w: Array) -> Array:
    """Return groups 0, 1, ... of about equal weight in the order of the values, equal values together."""
    level, place = np.unique(value.round(12), return_inverse=True)
    weight = np.bincount(place, w, len(level))
    # The place of a value is the weight below it and half of its own, over W; its group is floor(G place).
    middle = (np.cumsum(weight) - weight / 2) / weight.sum()
    cut = np.minimum((middle * groups).astype(int), groups - 1)
    return np.unique(cut, return_inverse=True)[1][place]


def _probabilities(fit: Fit) -> Array:
    """Class probabilities (n, K) at the rows of the fit."""
    design = fit.model.design
    mean = predictive(
        fit.model, fit.solution, design, spread=False, seed=fit.seed, at_most=500
    ).mean()
    if mean.ndim == 2:
        return mean
    return np.stack([1.0 - mean, mean], 1)
