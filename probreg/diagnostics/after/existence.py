"""Requirements of every other diagnostic: an estimate, and the rows of the fit."""

from probreg.diagnostics.after.base import DIAGNOSTICS, Diagnostic
from probreg.diagnostics.findings import Finding, NotApplicable, Verdict
from probreg.fits.fit import Fit
from probreg.inference import Status


@DIAGNOSTICS.register
class ExistenceDiagnostic(Diagnostic):
    """Reports a likelihood without a maximum: no other diagnostic applies."""

    name = "existence"
    title = "Existence"
    when = "a likelihood without a maximum"

    def require(self, fit: Fit) -> None:
        if fit.solution.status is not Status.NO_MAXIMUM:
            raise NotApplicable("the fit has an estimate")

    def find(self, fit: Fit) -> list[Finding]:
        sentence = "the likelihood has no maximum, so that no diagnostic applies"
        return self.report(sentence, Verdict.PROBLEM, "see check(model)")


@DIAGNOSTICS.register
class RowsDiagnostic(Diagnostic):
    """Reports a fit without rows in memory: the diagnostics of single rows do not apply."""

    name = "rows"
    title = "Rows and columns"
    when = "a fit without its rows"

    def require(self, fit: Fit) -> None:
        if fit.model.design.n:
            raise NotApplicable("the fit has its rows")

    def find(self, fit: Fit) -> list[Finding]:
        design = fit.model.design
        sentence = f"no diagnostics of single rows: {design.rows_absent}"
        return self.report(sentence, Verdict.NOTE, design.remedy)
