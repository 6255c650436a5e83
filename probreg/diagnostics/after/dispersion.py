"""Overdispersion and underdispersion of the response, given its mean."""

from functools import partial
from typing import NamedTuple

import numpy as np
from scipy.special import chdtr, chdtrc, ndtr

from probreg.data.rows import full_weights
from probreg.diagnostics.after.base import (
    DIAGNOSTICS,
    SIGNIFICANT,
    STRONG,
    Diagnostic,
    other_spread,
)
from probreg.diagnostics.after.local import local, local_obstacle
from probreg.diagnostics.after.observed import (
    countable_obstacle,
    rows_of_observations,
)
from probreg.diagnostics.after.replicates import (
    Replicates,
    drawable,
    found_by,
    simulated_p_value,
)
from probreg.diagnostics.after.residuals import predictor
from probreg.diagnostics.findings import Finding, Verdict
from probreg.fits.fit import Fit
from probreg.likelihoods import CountLikelihood, OfClasses, OfTrials
from probreg.system.terminal import format_number, format_p

Array = np.ndarray
_WEAK = 0.05  # p-value below which a test is not called negative
_TRIALS = 5.0  # per group of equal rows, on average, for a chi-square distribution


class Dispersion(NamedTuple):
    """The ratio of observed to expected variance, and each test: name, statistic and two-sided p-value; `drawn` if the null
    distributions are simulated from the fitted model."""

    ratio: float
    tests: tuple[tuple[str, float, float], ...]
    drawn: bool

    @property
    def numbers(self) -> str:
        """Each statistic with its p-value, simulated or asymptotic.

        >>> Dispersion(1.2, (("score z", 2.0, 0.04),), True).numbers, Dispersion(1.2, (("score z", 2.0, 0.04),), False).numbers
        ('score z = 2 (p = 0.04, simulated)', 'score z = 2 (p = 0.04, asymptotic)')
        """
        pieces = (
            f"{name} = {format_number(value, 3)} ({format_p(p)}{found_by(p) if self.drawn else found_by(0.0)})"
            for name, value, p in self.tests
        )
        return ", ".join(pieces)

    @property
    def least(self) -> float:
        """The smallest p-value."""
        return min(p for *_, p in self.tests)

    @property
    def p_value(self) -> float:
        """The p-value of all tests together (Bonferroni)."""
        return min(1.0, len(self.tests) * self.least)


@DIAGNOSTICS.register
class DispersionDiagnostic(Diagnostic):
    """Counts: the score test against a variance mu + phi mu^2 (Dean & Lawless 1989) and Pearson's statistic, with simulated
    p-values for few rows. Trials, of successes or by class: Pearson's statistic of the rows. Two levels: the same for groups of
    rows with equal columns.

    >>> import probreg as pr
    >>> counts = {"y": [0, 0, 12, 1, 15, 0, 9, 0, 2, 20, 0, 0, 7, 1, 0, 18, 3, 0, 0, 11]}
    >>> fit = pr.fit(pr.Model.from_formula("y ~ 1", counts, likelihood="poisson"))
    >>> DispersionDiagnostic().run(fit)[0].verdict.name
    'WARNING'
    """

    name = "dispersion"
    title = "Dispersion test"
    when = "counts; successes of trials; two levels with several trials per group of equal rows"
    picture = "plot.diagnose"

    def applies(self, fit: Fit) -> str | None:
        likelihood = fit.model.likelihood
        if not isinstance(likelihood, CountLikelihood | OfClasses):
            return f"the mean of {likelihood.named} response does not determine its variance"
        reason = local_obstacle(fit) or countable_obstacle(fit)
        if reason is not None or not isinstance(likelihood, OfClasses):
            return reason
        trials = isinstance(likelihood, OfTrials)
        if len(likelihood.classes) > 2 and not trials:
            return "the probabilities of classes determine their variance"
        n = count_classes_by_group(fit)[0].sum(1)
        if n.mean() >= _TRIALS and len(n) > fit.model.shape[0]:
            return None
        unit = "row" if trials else "set of equal rows"
        return f"it needs {_TRIALS:g} trials per {unit} on average, and more rows than coefficients"

    def run(self, fit: Fit) -> list[Finding]:
        if isinstance(fit.model.likelihood, OfClasses):
            test = grouped_dispersion(fit)
        else:
            test = count_dispersion(fit)
        kind = "overdispersion" if test.ratio > 1 else "underdispersion"
        significant = [name for name, _, value in test.tests if value < SIGNIFICANT]
        result = kind
        if not significant:
            result = f"no sign of {kind}"
            if test.least < _WEAK:
                result = f"weak sign of {kind}"
        elif len(significant) < len(test.tests):
            result = f"{kind} by one of two tests"
        sentence = f"{result}, variance ratio {test.ratio:.3g}, {test.numbers}"
        statistic = test.tests[0][1]
        p = test.p_value
        if not significant:
            return self.report_ok(sentence, statistic=statistic, p_value=p)
        verdict = Verdict.WARNING if p < STRONG else Verdict.NOTE
        factor = f"standard errors should be {np.sqrt(test.ratio):.2g} times as large"
        remedy = f"{factor}; {other_spread(fit, overdispersed=test.ratio > 1)}"
        return self.report(verdict, sentence, remedy, statistic=statistic, p_value=p)


def count_dispersion(fit: Fit) -> Dispersion:
    """Tests against Var(y) = V(mu), with leverages h: for a Poisson response with an intercept the score test of
    V(mu) + phi mu^2 (Dean & Lawless 1989),

        z = sum_i [(y - mu)^2 - (1 - h) V(mu)] / sqrt(2 sum_i V(mu)^2),

    which gives weight to large means, and Pearson's X^2 = sum_i (y - mu)^2 / V(mu) over n - k, which gives all rows equal weight.
    With an estimated nuisance parameter, which already fits phi, only Pearson's statistic is used.
    """
    pieces = local(fit)
    likelihood = fit.model.likelihood
    w = pieces.w
    assert isinstance(likelihood, CountLikelihood)
    mu = likelihood.mean(pieces.eta)
    v = likelihood.variance(mu, **fit.aux)
    # E (y - mu)^2 = (1 - h) V to first order where mu was fitted. For a Poisson response and maximum likelihood with an
    # intercept sum mu = sum y: this is sum (y - mu)^2 - y + h mu, of variance 2 sum mu^2   (Dean & Lawless 1989).
    excess = (fit.model.design.observed - mu) ** 2 - (1.0 - pieces.leverage) * v
    z = float(w @ excess / np.sqrt(2.0 * (w @ v**2)))
    df = pieces.total - pieces.size
    x2 = float(w @ pieces.u[:, 0] ** 2)
    # Var X^2 = 2 df + sum_i (fourth cumulant of y_i) / V^2, for a Poisson response sum_i 1 / mu_i
    z_pearson = float(
        (x2 - df) / np.sqrt(2.0 * df + w @ likelihood.excess_kurtosis(mu, **fit.aux))
    )
    p_score, p_pearson = (float(2.0 * ndtr(-abs(t))) for t in (z, z_pearson))
    can_draw = drawable(fit)
    if can_draw:
        p_score = simulated_p_value(fit, _absolute_z, p_score)
        p_pearson = simulated_p_value(fit, partial(_pearson, df=df), p_pearson)
    tests = (
        ("score z", z, p_score),
        (f"Pearson chi2({format_number(df, 4)})", x2, p_pearson),
    )
    return Dispersion(x2 / df, tests[1:] if fit.model.unknown else tests, can_draw)


def _absolute_z(replicates: Replicates) -> Array:
    """|z| of each data set, (S,)."""
    v = replicates.W[..., 0, 0]
    h = replicates.leverage[..., 0, 0]
    return np.abs((replicates.score[..., 0] ** 2 - (1.0 - h) * v).sum(1)) / np.sqrt(
        2.0 * (v**2).sum(1)
    )


def _pearson(replicates: Replicates, df: float) -> Array:
    """|log(X^2 / df)| of each data set, (S,), for overdispersion and underdispersion."""
    with np.errstate(divide="ignore"):
        # |log| makes a ratio and its inverse equally far from 1.
        return np.abs(np.log((replicates.pearson**2).sum(1) / df))


def count_classes_by_group(fit: Fit) -> tuple[Array, Array]:
    """Return the count and the fitted probability of each class, (g, K), per row of trials or per set of rows with
    equal columns."""
    design = fit.model.design
    eta = predictor(fit)
    likelihood = fit.model.likelihood
    assert isinstance(likelihood, OfClasses)  # checked by `applies`
    mean = likelihood.mean(eta)
    if mean.ndim == 2:
        p = mean
    else:
        p = np.stack([1.0 - mean, mean], 1)
    if isinstance(likelihood, OfTrials):
        rows = rows_of_observations(fit)
        return likelihood.tally(design.observed)[rows], p[rows]
    rows = np.c_[
        design.X, np.zeros(design.n) if design.offset is None else design.offset
    ]
    w = full_weights(design.weights, design.n)
    _, first, group = np.unique(rows, axis=0, return_index=True, return_inverse=True)
    tally = (w[:, None] * likelihood.tally(design.observed)).T
    y = np.stack([np.bincount(group.ravel(), k) for k in tally], 1)
    used = y.sum(1) > 0
    return y[used], p[first][used]


def grouped_dispersion(fit: Fit) -> Dispersion:
    """X^2 = sum_g sum_k (y_gk - n_g p_gk)^2 / (n_g p_gk), chi-square on groups (K - 1) - coefficients (McCullagh & Nelder 1989,
    section 4.5); of two classes sum_g (s_g - n_g p_g)^2 / (n_g p_g (1 - p_g))."""
    # E_gk = n_g p_gk, and X^2 / df estimates the factor by which variances exceed the multinomial's.
    y, p = count_classes_by_group(fit)
    expected = y.sum(1, keepdims=True) * p
    df = len(y) * (p.shape[1] - 1) - local(fit).size
    x2 = float(np.sum((y - expected) ** 2 / expected))
    # Two-sided: twice the smaller tail of chi^2 on df.
    p_value = min(1.0, 2.0 * min(float(chdtr(df, x2)), float(chdtrc(df, x2))))
    return Dispersion(
        x2 / df, ((f"Pearson chi2({format_number(df, 4)})", x2, p_value),), drawn=False
    )
