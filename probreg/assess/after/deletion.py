"""What the diagnostics of a single row left out have in common: where they apply, and from which size they speak.

A measure has to be large, and larger than data of the model make it: among few rows one always moves the estimate far.
"""

from collections.abc import Sequence
from math import nan
from typing import ClassVar

import numpy as np

from probreg.assess.after.base import Diagnostic
from probreg.assess.after.local import Local, local_obstacle
from probreg.assess.after.replicates import Statistic, drawable, simulated
from probreg.assess.before.base import Finding, Verdict
from probreg.assess.before.design_leverage import listed, row_names
from probreg.fits.fit import Fit
from probreg.system.terminal import percent

UNCOMMON, RARE = 0.1, 0.01  # shares of samples of the model with as large a measure, for a note and for a warning


class DeletionDiagnostic(Diagnostic):
    """A measure of what leaving a row out does: a note from `noted` on where fewer than one in ten samples of the model reach
    it, a warning from `warned` on where fewer than one in a hundred do."""

    when: ClassVar[str] = "flat or normal priors"
    picture: ClassVar[str] = "plot.leverage"
    noted: ClassVar[float]
    warned: ClassVar[float]

    def applies(self, fit: Fit) -> str | None:
        return local_obstacle(fit) or (
            None if fit.model.design.total > fit.model.shape[0] + 1 else "too few observations"
        )

    def alone(self, fit: Fit, found: Local) -> list[Finding]:
        """The finding of rows without which some coefficient has no estimate, so that the measure is nan there."""
        rows = np.flatnonzero(np.isnan(found.cook) & (found.w > 0))
        if not len(rows):
            return []
        names = row_names(fit.model)[rows]
        several = f" ({len(rows) - 1} more: {listed(names[1:])})" if len(rows) > 1 else ""
        sentence = f"row {names[0]} alone decides a coefficient, which has no estimate without it{several}"
        remedy = "check the row, and say that the coefficient rests on it; or drop its column, or give it a prior"
        return [self.say(Verdict.NOTE, sentence, remedy, rows=names.tolist())]

    def reached(self, fit: Fit, largest: Statistic) -> float:
        """The share of samples of the model whose largest measure is as large; nan where they cannot be drawn."""
        return simulated(fit, largest) if drawable(fit) else nan

    def moved(
        self, sentence: str, size: float, share: float, rows: Sequence[object], columns: Sequence[str] = ()
    ) -> list[Finding]:
        """The finding of rows whose largest measure is `size`, which this share of samples of the model reach."""
        how = "" if share != share else f"; of samples of the model {percent(share, 2)} move as far"
        if share >= UNCOMMON:
            return self.fine(f"{sentence}{how}", statistic=size, p_value=share)
        verdict = Verdict.NOTE if size < self.warned or share >= RARE else Verdict.WARNING
        remedy = f"check the row{'s' * (len(rows) > 1)}, and report the fit without {'them' if len(rows) > 1 else 'it'} as well"
        return [
            self.say(verdict, f"{sentence}{how}", remedy, rows=rows, columns=columns, statistic=size, p_value=share)
        ]
