"""Rows that move the whole estimate."""

from typing import ClassVar

import numpy as np
from scipy.special import chdtr, fdtr

from probreg.check.base import Finding
from probreg.check.design_leverage import listed, row_names
from probreg.diagnose.base import DIAGNOSTICS
from probreg.diagnose.deletion import DeletionDiagnostic
from probreg.diagnose.local import Local, local
from probreg.fit import Fit


@DIAGNOSTICS.register
class CookDiagnostic(DeletionDiagnostic):
    """Cook's distance of every row, and the confidence ellipsoid at whose edge the estimate without the row lies: its
    content is P(F < D) for F on (k, n - k) degrees of freedom, or for chi-square(k) / k where sigma is not estimated.

    >>> import probreg as pr
    >>> x = np.array([1.0, 2.0, 3.0, 4.0, 5.0, 6.0, 7.0, 8.0, 30.0])
    >>> CookDiagnostic().run(pr.fit(pr.Model.from_arrays(x, np.minimum(x, 4.0))))[0].rows
    (8,)
    """

    name: ClassVar[str] = "cook"
    question: ClassVar[str] = "Would the estimate be another without a single row?"
    noted, warned = 0.5, 1.0  # Cook & Weisberg (1982): from 0.5 on worth a look, from 1 on always important

    def run(self, fit: Fit) -> list[Finding]:
        found = local(fit)
        D = np.nan_to_num(found.cook, nan=-1.0)
        order = [i for i in np.argsort(-D) if D[i] >= self.noted]
        top = float(D.max())
        if not order:
            return self.fine(f"no row moves the estimate far: the largest Cook's distance is {top:.3g}", statistic=top)
        names = row_names(fit.model)[order]
        several = f"; {len(order) - 1} more: {listed(names[1:])}" if len(order) > 1 else ""
        sentence = (
            f"without row {names[0]} the estimate moves to the edge of its {100 * content(found, top):.0f} % confidence "
            f"ellipsoid (Cook's distance {top:.3g}){several}"
        )
        return self.moved(sentence, top, names.tolist())


def content(found: Local, distance: float) -> float:
    """Of the confidence ellipsoid at whose edge an estimate at this distance lies."""
    k = found.Q.shape[2]
    if found.df is not None and found.df > 0:
        return float(fdtr(k, found.df, distance))
    return float(chdtr(k, k * distance))
