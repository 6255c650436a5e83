"""Tests of the distribution of the response: normality of residuals, and quantile residuals."""

from typing import NamedTuple

import numpy as np
from scipy.special import chdtrc

from probreg.diagnostics.after.base import (
    DIAGNOSTICS,
    SIGNIFICANT,
    Diagnostic,
    heavier_tails,
    other_spread,
)
from probreg.diagnostics.after.observed import (
    countable_obstacle,
    rows_of_observations,
)
from probreg.diagnostics.after.residuals import (
    constant_obstacle,
    counted_residuals,
    quantile_residuals,
)
from probreg.diagnostics.before.response import two_values_obstacle
from probreg.diagnostics.findings import Finding
from probreg.fits.fit import Fit
from probreg.likelihoods import UnivariateLikelihood
from probreg.system.terminal import format_number, format_p

Array = np.ndarray
_MOST = 5000  # rows for which Royston's approximation to the distribution of W was made


class Shape(NamedTuple):
    """A test of the normal shape: its name, statistic and p-value, with skewness and excess kurtosis."""

    test: str
    statistic: float
    p_value: float
    skewness: float
    kurtosis: float

    def __str__(self) -> str:
        moments = f"skewness {self.skewness:.2g}, excess kurtosis {self.kurtosis:.2g}"
        return f"{self.test} = {format_number(self.statistic, 4)}, {format_p(self.p_value)}, {moments}"


@DIAGNOSTICS.register
class NormalityDiagnostic(Diagnostic):
    """The Shapiro-Wilk test of the residuals (Royston 1995), and from 5,000 observations on the Jarque-Bera test, which is
    asymptotic.

    >>> import probreg as pr
    >>> x = np.linspace(0.0, 1.0, 80)
    >>> fit = pr.fit(pr.Model.from_arrays(x, x + np.exp(3 * np.sin(50 * x))))
    >>> NormalityDiagnostic().run(fit)[0].verdict.name
    'WARNING'
    """

    name = "normality"
    title = "Normality test"
    when = "Gaussian"
    picture = "plot.diagnose"

    def applies(self, fit: Fit) -> str | None:
        if not fit.model.likelihood.least_squares:
            return f"{fit.model.likelihood.named} response has no normal noise; see distribution"
        return two_values_obstacle(fit.model) or countable_obstacle(fit)

    def run(self, fit: Fit) -> list[Finding]:
        residuals = counted_residuals(fit, "pearson")[rows_of_observations(fit)]
        reason = constant_obstacle(fit, residuals)
        if reason is not None:
            return self.report_not_applicable(reason)
        shape = normal_shape(residuals)
        result = "the residuals are compatible with a normal distribution"
        if shape.p_value < SIGNIFICANT:
            result = "the residuals are not normal"
        remedy = (
            "transform the response or fit a student likelihood; with many rows this matters for intervals of new observations, "
            "not for coefficients"
        )
        return self.report_p_value(
            f"{result}, {shape}",
            remedy,
            statistic=shape.statistic,
            p_value=shape.p_value,
        )


def normal_shape(z: Array) -> Shape:
    """Shapiro-Wilk for up to 5,000 values, Jarque-Bera for more."""
    if len(z) > _MOST:
        return jarque_bera(z)
    from scipy.stats import shapiro

    # W = (sum_i a_i z_(i))^2 / sum_i (z_i - mean z)^2, a from the normal order statistics   (Shapiro & Wilk 1965).
    test = shapiro(z)
    _, _, _, skewness, kurtosis = jarque_bera(z)
    return Shape(
        "Shapiro-Wilk W",
        float(test.statistic),
        float(test.pvalue),
        skewness,
        kurtosis,
    )


def jarque_bera(z: Array) -> Shape:
    """n/6 (skewness^2 + excess^2 / 4), chi-square on 2 degrees of freedom for large n (Jarque & Bera 1987).

    >>> round(jarque_bera(np.array([1.0, 2.0, 3.0, 4.0, 10.0])).statistic, 4)
    1.0894
    """
    # With m_k = mean (z - mean z)^k: skewness m_3 / m_2^(3/2), excess m_4 / m_2^2 - 3, which under normality have the
    # variances 6/n and 24/n; the sum of their squares over these is chi^2 on 2   (Jarque & Bera 1987).
    c = z - z.mean()
    s2 = np.mean(c**2)
    skewness = float(np.mean(c**3) / s2**1.5)
    excess = float(np.mean(c**4) / s2**2 - 3.0)
    statistic = len(z) / 6.0 * (skewness**2 + excess**2 / 4.0)
    return Shape(
        "Jarque-Bera chi2(2)", statistic, float(chdtrc(2, statistic)), skewness, excess
    )


@DIAGNOSTICS.register
class DistributionDiagnostic(Diagnostic):
    """The normality test of quantile residuals, randomised for discrete responses with the seed of the fit (Dunn & Smyth
    1996).

    >>> import probreg as pr
    >>> zeros = [0] * 40 + [9, 11, 10, 8, 12, 9, 10, 11, 10, 9] * 2
    >>> fit = pr.fit(pr.Model.from_formula("y ~ 1", {"y": zeros}, likelihood="poisson"))
    >>> DistributionDiagnostic().run(fit)[0].verdict.name
    'WARNING'
    """

    name = "distribution"
    title = "Distribution test"
    when = "Student-t and count responses"
    picture = "plot.diagnose"

    def applies(self, fit: Fit) -> str | None:
        likelihood = fit.model.likelihood
        if likelihood.least_squares:
            return "normality tests a Gaussian response"
        if not isinstance(likelihood, UnivariateLikelihood) or likelihood.binary:
            return "classes have no distribution beyond their probabilities; see calibration"
        if likelihood.working:
            return f"{likelihood.named} density represents a loss, and the response need not have it"
        return two_values_obstacle(fit.model) or countable_obstacle(fit)

    def run(self, fit: Fit) -> list[Finding]:
        residuals = quantile_residuals(fit, rows_of_observations(fit))
        reason = constant_obstacle(fit, residuals)
        if reason is not None:
            return self.report_not_applicable(reason)
        shape = normal_shape(residuals)
        likelihood = fit.model.likelihood
        result = f"the response is compatible with {likelihood.named} distribution"
        if shape.p_value < SIGNIFICANT:
            result = f"the response does not have {likelihood.named} distribution"
        if isinstance(likelihood.support, str):
            remedy = heavier_tails(fit)
        else:
            remedy = other_spread(fit)
        return self.report_p_value(
            f"{result}, quantile residuals: {shape}",
            f"look for too many zeros or a few large values; {remedy}",
            statistic=shape.statistic,
            p_value=shape.p_value,
        )
