"""Least squares with residuals that are only rounding errors."""

from probreg.diagnostics.after.base import DIAGNOSTICS, Diagnostic
from probreg.diagnostics.findings import Finding, NotApplicable, Verdict
from probreg.fits.fit import Fit
from probreg.fits.goodness import exact_fit, is_saturated


@DIAGNOSTICS.register
class ExactnessDiagnostic(Diagnostic):
    """Reports least squares that reproduces every response up to rounding although degrees of freedom are left."""

    name = "exactness"
    title = "Exact fit"
    target = "mode"
    when = "least squares with residuals of rounding size"
    rows = False
    picture = "plot.fitted"

    def find(self, fit: Fit) -> list[Finding]:
        if not fit.model.likelihood.least_squares:
            raise NotApplicable("it is for least squares")
        if is_saturated(fit):
            raise NotApplicable("no residual is left: as many coefficients as rows")
        if not exact_fit(fit):
            raise NotApplicable("the residuals are more than rounding")
        sentence = "the residuals are rounding errors, so sigma, standard errors, tests and residual diagnostics are meaningless"
        remedy = f"check whether {fit.model.design.response} was computed from the columns"  # fmt: skip
        return self.report(sentence, Verdict.WARNING, remedy)
