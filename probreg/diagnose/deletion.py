"""What the diagnostics of a single row left out have in common: where they apply, and from which size they speak."""

from collections.abc import Sequence
from typing import ClassVar

from probreg.check.base import Finding, Verdict
from probreg.diagnose.base import Diagnostic
from probreg.diagnose.local import obstacle
from probreg.fit import Fit


class DeletionDiagnostic(Diagnostic):
    """A measure of what leaving a row out does: a note from `noted` on, a warning from `warned` on."""

    when: ClassVar[str] = "flat or normal priors"
    picture: ClassVar[str] = "plot.leverage"
    noted: ClassVar[float]
    warned: ClassVar[float]

    def applies(self, fit: Fit) -> str | None:
        return obstacle(fit) or (None if fit.model.design.total > fit.model.shape[0] + 1 else "too few observations")

    def moved(self, sentence: str, size: float, rows: Sequence[object], columns: Sequence[str] = ()) -> list[Finding]:
        """The finding of rows whose largest measure is `size`."""
        verdict = Verdict.WARNING if size >= self.warned else Verdict.NOTE
        remedy = f"check the row{'s' * (len(rows) > 1)}, and report the fit without {'them' if len(rows) > 1 else 'it'} as well"
        return [self.say(verdict, sentence, remedy, rows=rows, columns=columns, statistic=size)]
