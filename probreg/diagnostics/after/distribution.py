"""Tests of the distribution of the response: normality of residuals, and quantile residuals."""

import numpy as np

from probreg.diagnostics.after.base import (
    DIAGNOSTICS,
    Diagnostic,
    other_likelihood,
    require_counts,
    require_variation,
)
from probreg.diagnostics.findings import (
    Finding,
    HypothesisTest,
    NotApplicable,
    chi2_test,
)
from probreg.fits.fit import Fit
from probreg.fits.inference_data import observation_rows
from probreg.fits.residuals import quantile_residuals, standardised_scores
from probreg.likelihoods import UnivariateLikelihood

Array = np.ndarray
_MOST = 5000  # rows for which Royston's approximation to the distribution of W was made


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

    def find(self, fit: Fit) -> list[Finding]:
        if not fit.model.likelihood.least_squares:
            raise NotApplicable(
                f"{fit.model.likelihood.named} response has no normal noise; see distribution"
            )
        require_counts(fit, continuous=True)
        e = standardised_scores(fit).u[observation_rows(fit.model)[0], 0]
        require_variation(fit, e)
        return self.report_test(
            normality_test(e),
            "the residuals are compatible with a normal distribution",
            "the residuals are not normal",
            "transform the response or fit a student likelihood; with many rows this matters for intervals of new observations, not for coefficients",
            shape(e),
        )


def normality_test(z: Array) -> HypothesisTest:
    """Shapiro-Wilk for up to 5,000 values, Jarque-Bera for more."""
    if len(z) > _MOST:
        return jarque_bera(z)
    from scipy.stats import shapiro

    # W = (sum_i a_i z_(i))^2 / sum_i (z_i - mean z)^2, a from the normal order statistics   (Shapiro & Wilk 1965).
    statistic, p = shapiro(z)
    return HypothesisTest("Shapiro-Wilk W", float(statistic), float(p))


def skewness_and_kurtosis(z: Array) -> tuple[float, float]:
    """Skewness m_3 / m_2^(3/2) and excess kurtosis m_4 / m_2^2 - 3 with m_k = mean (z - mean z)^k."""
    c = z - z.mean()
    m2 = np.mean(c**2)
    return float(np.mean(c**3) / m2**1.5), float(np.mean(c**4) / m2**2 - 3.0)


def jarque_bera(z: Array) -> HypothesisTest:
    """n/6 (skewness^2 + excess^2 / 4), chi-square on 2 degrees of freedom for large n (Jarque & Bera 1987).

    >>> round(jarque_bera(np.array([1.0, 2.0, 3.0, 4.0, 10.0])).statistic, 4)
    1.0894
    """
    # under normality skewness and excess have the variances 6/n and 24/n
    skewness, excess = skewness_and_kurtosis(z)
    statistic = len(z) / 6.0 * (skewness**2 + excess**2 / 4.0)
    return chi2_test(statistic, 2, "Jarque-Bera ")


def shape(z: Array) -> str:
    """Describe the skewness and excess kurtosis of residuals."""
    skewness, excess = skewness_and_kurtosis(z)
    return f", skewness {skewness:.2g}, excess kurtosis {excess:.2g}"


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

    def find(self, fit: Fit) -> list[Finding]:
        likelihood = fit.model.likelihood
        if likelihood.least_squares:
            raise NotApplicable("normality tests a Gaussian response")
        if not isinstance(likelihood, UnivariateLikelihood) or likelihood.binary:
            raise NotApplicable(
                "classes have no distribution beyond their probabilities; see calibration"
            )
        if likelihood.working:
            raise NotApplicable(
                f"{likelihood.named} density represents a loss, and the response need not have it"
            )
        require_counts(fit, continuous=True)
        e = quantile_residuals(fit, observation_rows(fit.model)[0])
        require_variation(fit, e)
        return self.report_test(
            normality_test(e),
            f"the quantile residuals are compatible with {likelihood.named} distribution",
            f"the quantile residuals do not fit {likelihood.named} distribution",
            f"look for too many zeros or a few large values; {other_likelihood(fit)}",
            shape(e),
        )
