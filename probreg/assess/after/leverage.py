"""Rows whose own response decides their fit."""

from typing import ClassVar

import numpy as np

from probreg.assess.after.base import DIAGNOSTICS, Diagnostic
from probreg.assess.after.local import local, local_obstacle
from probreg.assess.before.base import Finding
from probreg.assess.before.design_leverage import (
    ALONE,
    HALF,
    HIGH,
    TIMES,
    design_leverage,
    far_rows,
    row_names,
)
from probreg.fits.fit import Fit


@DIAGNOSTICS.register
class LeverageDiagnostic(Diagnostic):
    """Reports rows with a leverage of at least 0.5 and four times the mean, weighed by their information at the estimate
    and with the prior's share taken off (see `influence_measures`), that lie far in the columns too: a large count has a large leverage
    for its precision, without any fault.

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
        return local_obstacle(fit)

    def run(self, fit: Fit) -> list[Finding]:
        found = local(fit)
        m = fit.model.shape[1]
        h = found.leverage / m
        names = row_names(fit.model)
        apart = design_leverage(fit.model)
        # far in the columns: from 0.2 on and four times the mean, as before the fit
        far = (apart >= max(HIGH, TIMES * float(found.w @ apart / found.total))) | (
            h >= ALONE
        )
        told = far_rows(
            h,
            np.where(far, found.w, 0.0),
            names,
            least=HALF,
            mean=float(found.w @ h / found.total),
        )
        if told.rows:
            return [self.say(told.verdict, told.sentence, told.remedy, rows=told.rows)]
        top = int(np.argmax(np.where(found.w > 0, h, -1.0)))
        if h[top] < HALF:
            why = ""
        else:
            why = ", which is for the precision of its response: its columns lie near the others"
        return self.fine(
            f"no row that lies far from the others decides its own fit: the largest leverage is {h[top]:.3g}, of row {names[top]}{why}"
        )
