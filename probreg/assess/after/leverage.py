"""Leverage of single rows in a fit."""

import numpy as np

from probreg.assess.after.base import DIAGNOSTICS, Diagnostic
from probreg.assess.after.local import local, local_obstacle
from probreg.assess.before.design_leverage import (
    ALONE,
    HALF,
    HIGH,
    TIMES,
    design_leverage,
    far_rows,
)
from probreg.assess.findings import Finding
from probreg.fits.fit import Fit


@DIAGNOSTICS.register
class LeverageDiagnostic(Diagnostic):
    """Reports rows with a leverage of at least 0.5 and four times the mean that also have a large leverage in the design.

    The leverage includes the information of each row and the prior (see `influence_measures`). A large count has a large
    leverage because of its precision, which is no fault.

    >>> import probreg as pr
    >>> fit = pr.fit(pr.Model.from_arrays([0.1, 0.2, 0.3, 0.4, 0.5, 0.6, 0.7, 0.8, 0.9, 9.0], range(10)))
    >>> LeverageDiagnostic().run(fit)[0].rows
    (9,)
    """

    name = "leverage"
    title = "Leverage"
    when = "flat or normal priors"
    picture = "plot.leverage"
    replaces = "design_leverage"

    def applies(self, fit: Fit) -> str | None:
        return local_obstacle(fit)

    def run(self, fit: Fit) -> list[Finding]:
        pieces = local(fit)
        h = pieces.leverage / fit.model.shape[1]
        names = fit.model.design.row_names
        in_design = design_leverage(fit.model)
        mean = float(pieces.w @ in_design / pieces.total)
        far = (in_design >= max(HIGH, TIMES * mean)) | (h >= ALONE)
        w = np.where(far, pieces.w, 0.0)
        mean = float(pieces.w @ h / pieces.total)
        found = far_rows(h, w, names, least=HALF, mean=mean)
        if found.rows:
            return self.report(
                found.verdict, found.sentence, found.remedy, rows=found.rows
            )
        top = int(np.argmax(np.where(pieces.w > 0, h, -1.0)))
        sentence = f"largest leverage {h[top]:.3g}, row {names[top]}"
        if h[top] >= HALF:
            sentence += ", because of its precision and not its columns"
        return self.report_ok(sentence)
