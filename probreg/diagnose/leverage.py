"""Rows whose own response decides their fit."""

from typing import ClassVar

from probreg.check.base import Finding
from probreg.check.design_leverage import HALF, far_rows, row_names
from probreg.diagnose.base import DIAGNOSTICS, Diagnostic
from probreg.diagnose.local import local, obstacle
from probreg.fit import Fit


@DIAGNOSTICS.register
class LeverageDiagnostic(Diagnostic):
    """Reports rows with a leverage of at least 0.5 and four times the mean, weighed by their information at the estimate
    and with the prior's share taken off (see `measures`). Large counts reach 0.2 without any fault.

    >>> import probreg as pr
    >>> fit = pr.fit(pr.Model.from_arrays([0.1, 0.2, 0.3, 0.4, 0.5, 0.6, 0.7, 0.8, 0.9, 9.0], range(10)))
    >>> LeverageDiagnostic().run(fit)[0].rows
    (9,)
    """

    name: ClassVar[str] = "leverage"
    question: ClassVar[str] = "Does the response of a single row decide its own fit?"
    when: ClassVar[str] = "flat or normal priors"
    picture: ClassVar[str] = "plot.leverage"
    replaces: ClassVar[str] = "design_leverage"

    def applies(self, fit: Fit) -> str | None:
        return obstacle(fit)

    def run(self, fit: Fit) -> list[Finding]:
        found, m = local(fit), fit.model.shape[1]
        told = far_rows(found.leverage / m, found.w, row_names(fit.model), least=HALF)
        if not told.rows:
            return self.fine(told.sentence)
        return [self.say(told.verdict, told.sentence, told.remedy, rows=told.rows)]
