"""Is the response distributed as the likelihood says, beyond its mean?"""

from typing import ClassVar

from probreg.assess.after.base import (
    DIAGNOSTICS,
    Diagnostic,
    heavier_tails,
    other_spread,
)
from probreg.assess.after.normality import normal_shape
from probreg.assess.after.observed import rows_of_observations, zero_weight_obstacle
from probreg.assess.after.residuals import quantile_residuals
from probreg.assess.before.base import Finding
from probreg.assess.before.response import of_classes
from probreg.fits.fit import Fit
from probreg.likelihoods import OfClasses, OfTrials, UnivariateLikelihood


@DIAGNOSTICS.register
class DistributionDiagnostic(Diagnostic):
    """The normal shape of quantile residuals, randomised for discrete responses with the seed of the fit (Dunn & Smyth
    1996), by the test of `normality`.

    >>> import probreg as pr
    >>> zeros = [0] * 40 + [9, 11, 10, 8, 12, 9, 10, 11, 10, 9] * 2
    >>> fit = pr.fit(pr.Model.from_formula("y ~ 1", {"y": zeros}, likelihood="poisson"))
    >>> DistributionDiagnostic().run(fit)[0].verdict.name
    'WARNING'
    """

    name: ClassVar[str] = "distribution"
    question: ClassVar[str] = "Is the response distributed as the likelihood says?"
    when: ClassVar[str] = "Student-t and count responses"
    picture: ClassVar[str] = "plot.qq"

    def applies(self, fit: Fit) -> str | None:
        likelihood = fit.model.likelihood
        if likelihood.least_squares:
            return "this is what normality asks of a Gaussian response"
        if (
            isinstance(likelihood, OfClasses)
            and not isinstance(likelihood, OfTrials)
            and len(likelihood.classes) == 2
        ):
            return "two levels have no distribution beyond their probability; see calibration"
        if not isinstance(likelihood, UnivariateLikelihood):
            return "classes have no distribution beyond their probabilities; see calibration"
        if likelihood.working:
            return f"{likelihood.named} density stands for a loss here, and nothing says that the response has it"
        return of_classes(fit.model) or zero_weight_obstacle(fit)

    def run(self, fit: Fit) -> list[Finding]:
        shape = normal_shape(quantile_residuals(fit, rows_of_observations(fit)))
        if shape.p_value >= 0.01:
            as_said = "as"
        else:
            as_said = "other than"
        sentence = f"the response is distributed {as_said} {fit.model.likelihood.named} one: quantile residuals with {shape}"
        counts = not isinstance(fit.model.likelihood.support, str)
        remedy = f"look for too many zeros or a few large values; {other_spread(fit) if counts else heavier_tails(fit)}"
        return self.report_p_value(
            sentence, remedy, statistic=shape.statistic, p_value=shape.p_value
        )
