"""Do the residuals leave anything to explain?"""

from typing import ClassVar

from probreg.assess.after.base import DIAGNOSTICS, Diagnostic
from probreg.assess.before.base import Finding, Verdict
from probreg.fits.fit import Fit
from probreg.fits.goodness import exact_fit, is_saturated


@DIAGNOSTICS.register
class ExactnessDiagnostic(Diagnostic):
    """Least squares that meets every response up to rounding, although degrees of freedom are left."""

    name: ClassVar[str] = "exactness"
    question: ClassVar[str] = "Do the residuals leave any noise to be judged?"
    target: ClassVar[str] = "mode"
    when: ClassVar[str] = "least squares whose residuals are rounding"
    rows: ClassVar[bool] = False
    picture: ClassVar[str] = "plot.fitted"

    def applies(self, fit: Fit) -> str | None:
        if not fit.model.likelihood.least_squares:
            return "it is about least squares"
        if is_saturated(fit):
            return "there are as many coefficients as rows, and no residual is left"
        if exact_fit(fit):
            return None
        return "the residuals are more than rounding"

    def run(self, fit: Fit) -> list[Finding]:
        response = fit.model.design.response
        return [
            self.say(
                Verdict.WARNING,
                "residuals are rounding, so that sigma, standard errors and tests say nothing, and no question about residuals was asked",
                f"see whether {response} was computed from the columns",
            )
        ]
