"""Do events said to have probability p happen in a share p of the cases?"""

from typing import Any, ClassVar, NamedTuple

import numpy as np
from scipy.special import betainc, chdtrc

from probreg.arguments.scalars import check_prob
from probreg.assess.after.base import DIAGNOSTICS, Diagnostic, reachable
from probreg.assess.after.observed import rows_of_observations, zero_weight_obstacle
from probreg.assess.before.base import Finding
from probreg.data.rows import full_weights
from probreg.errors import DataError, Incompatible
from probreg.fits.fit import Fit
from probreg.fits.prediction import predictive
from probreg.likelihoods import OfClasses, SoftmaxLikelihood, UnivariateLikelihood
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
    """The test of Hosmer and Lemeshow (1980) over tenths of the predictions, for several classes its generalisation
    (Fagerland, Hosmer & Bofin 2008).

    >>> import probreg as pr
    >>> x = np.linspace(-2.0, 2.0, 300)
    >>> fit = pr.fit(pr.Model.from_arrays(x, (np.abs(x - 0.5) < 1).astype(int), likelihood="bernoulli"))
    >>> CalibrationDiagnostic().run(fit)[0].verdict.name
    'WARNING'
    """

    name: ClassVar[str] = "calibration"
    question: ClassVar[str] = "Do events happen as often as they are said to?"
    when: ClassVar[str] = "two levels and classes"
    picture: ClassVar[str] = "plot.calibration"

    def applies(self, fit: Fit) -> str | None:
        if not isinstance(fit.model.likelihood, OfClasses):
            return f"{fit.model.likelihood.named} fit says no probabilities of levels; see distribution"
        why = zero_weight_obstacle(fit, least=_LEAST)
        if why is not None:
            return why
        if len(np.unique(fit.once(_probabilities)[:, -1].round(12))) > 3:
            return None
        return "there are three predictions or fewer"

    def run(self, fit: Fit) -> list[Finding]:
        rows = rows_of_observations(fit)
        likelihood = fit.model.likelihood
        assert isinstance(likelihood, OfClasses)  # `applies` asks
        p = fit.once(_probabilities)[rows]
        y = likelihood.tally(fit.model.design.observed[rows])
        base = _reference_class(fit)
        test = hosmer_lemeshow(
            p, y, reference=base, groups=min(10, len(rows) // _GROUP)
        )
        if test.df < 1:
            return self.fine(
                "too few different predictions to compare with what happened"
            )
        said = "other than" if test.p_value < 0.01 else "as"
        sentence = (
            f"events happen {said} their probabilities say: Hosmer-Lemeshow chi2({test.df}) = {format_number(test.statistic, 3)}, "
            f"{format_p(test.p_value)}"
        )
        remedy = "look for curvature and products of columns; on new rows, recalibrate"
        return self.report_p_value(
            sentence, remedy, statistic=test.statistic, p_value=test.p_value
        )


def hosmer_lemeshow(
    p: Array, y: Array, *, reference: int = 0, groups: int = 10
) -> HosmerLemeshow:
    """sum over groups and classes of (observed - expected)^2 / expected, chi-square on (groups - 2)(K - 1).

    p (n, K) class probabilities, y (n,) codes, or (n, K) how often each class came in a row. Groups are cut by the probability of not being the reference class, into
    about equal numbers; equal predictions stay together, so that there may be fewer.

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


def calibration_curve(fit: Fit, bins: int = 10, prob: float = 0.95) -> Any:
    """Predicted and observed share of each level in bins of similar predictions: Dataset over (level, bin) with predicted,
    observed, count (trials where a row has several), and the band [lower, upper] that holds the observed share with at least probability `prob` when the
    predictions are right: binomial quantiles (Brocker & Smith 2007). One level, the event, for two; nan in unused bins.

    Incompatible for responses that are no levels; DataError without rows or bins.

    >>> import probreg as pr
    >>> orings = pr.load_dataset("challenger")
    >>> fit = pr.fit(pr.Model.from_formula("damage ~ temperature", orings, likelihood="bernoulli"))
    >>> calibration_curve(fit, bins=2)["observed"].round(3).values.tolist()
    [[0.231, 0.4]]
    """
    import xarray as xr

    likelihood = fit.model.likelihood
    if not isinstance(likelihood, OfClasses):
        raise Incompatible(
            f"calibration is about probabilities of levels, and {likelihood.named} fit says none"
        )
    if bins < 1:
        raise DataError(f"bins is a whole number of at least 1, got {bins!r}")
    reachable(fit)
    w = full_weights(fit.model.design.weights, fit.model.design.n)
    p = fit.once(_probabilities)
    tally = likelihood.tally(fit.model.design.observed)
    trials = tally.sum(1)
    classes = [1] if isinstance(likelihood, UnivariateLikelihood) else range(p.shape[1])
    share = tally / np.where(trials > 0, trials, 1.0)[:, None]
    parts = [
        _curve(p[:, k], share[:, k], w * trials, bins, check_prob(prob))
        for k in classes
    ]
    table = np.full((5, len(parts), bins), np.nan)
    for i, part in enumerate(parts):
        table[:, i, : part.shape[1]] = part
    names = ("predicted", "observed", "count", "lower", "upper")
    variables = {
        name: (("level", "bin"), values)
        for name, values in zip(names, table, strict=True)
    }
    return xr.Dataset(
        variables,
        {"level": [likelihood.classes[k] for k in classes]},
        attrs={"prob": prob},
    )


def _curve(p: Array, hit: Array, w: Array, bins: int, prob: float) -> Array:
    group = _groups_of_equal_weight(p, bins, w)
    total = np.bincount(group, w)
    # W = sum_i w_i of a bin; forecast sum_i w_i p_i / W, observed sum_i w_i o_i / W, and the observed share is
    # Binomial(W, forecast) / W where the forecasts are right   (Brocker & Smith 2007).
    mean = np.bincount(group, w * p) / total
    ends = [
        _binomial_quantile(q, np.round(total), mean) / np.round(total)
        for q in ((1 - prob) / 2, (1 + prob) / 2)
    ]
    return np.stack([mean, np.bincount(group, w * hit) / total, total, *ends])


def _binomial_quantile(q: float, n: Array, p: Array) -> Array:
    """The smallest k with P(K <= k) >= q for K binomial, by bisection."""
    low = np.full(len(n), -1.0)
    high = n.copy()
    while (wide := high - low > 1).any():
        middle = np.floor((low + high) / 2)
        # P(K <= k) = I_(1 - p)(n - k, k + 1), the regularised incomplete beta function.
        enough = betainc(n - middle, middle + 1.0, 1.0 - p) >= q
        low = np.where(wide & ~enough, middle, low)
        high = np.where(wide & enough, middle, high)
    return high


def _groups_of_equal_weight(value: Array, groups: int, w: Array | None = None) -> Array:
    """0, 1, ... of about equal weight in the order of the values, equal values together."""
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
