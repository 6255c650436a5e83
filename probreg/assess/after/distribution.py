"""The distribution of the response, by quantile residuals."""

from probreg.assess.after.base import (
    DIAGNOSTICS,
    SIGNIFICANT,
    Diagnostic,
    heavier_tails,
    other_spread,
)
from probreg.assess.after.normality import normal_shape
from probreg.assess.after.observed import rows_of_observations, zero_weight_obstacle
from probreg.assess.after.residuals import quantile_residuals
from probreg.assess.before.response import two_values_obstacle
from probreg.assess.findings import Finding
from probreg.fits.fit import Fit
from probreg.likelihoods import UnivariateLikelihood


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
    picture = "plot.qq"

    def applies(self, fit: Fit) -> str | None:
        likelihood = fit.model.likelihood
        if likelihood.least_squares:
            return "normality tests a Gaussian response"
        if not isinstance(likelihood, UnivariateLikelihood) or likelihood.binary:
            return "classes have no distribution beyond their probabilities; see calibration"
        if likelihood.working:
            return f"{likelihood.named} density represents a loss, and the response need not have it"
        return two_values_obstacle(fit.model) or zero_weight_obstacle(fit)

    def run(self, fit: Fit) -> list[Finding]:
        shape = normal_shape(quantile_residuals(fit, rows_of_observations(fit)))
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
