"""Rows that move the whole estimate."""

from typing import ClassVar

import numpy as np
from scipy.special import chdtr, fdtr

from probreg.assess.after.base import DIAGNOSTICS
from probreg.assess.after.influence_measures import DeletionDiagnostic
from probreg.assess.after.local import Local, local
from probreg.assess.after.replicates import Replicates
from probreg.assess.before.base import Finding
from probreg.assess.before.design_leverage import list_first, row_names
from probreg.fits.fit import Fit
from probreg.system.terminal import percent

Array = np.ndarray


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
    noted, warned = (
        0.5,
        1.0,
    )  # Cook & Weisberg (1982): from 0.5 on worth a look, from 1 on always important

    def run(self, fit: Fit) -> list[Finding]:
        found = local(fit)
        D = np.nan_to_num(found.cook, nan=-1.0)
        order = [i for i in np.argsort(-D) if D[i] >= self.noted]
        top = float(D.max())
        alone = self.report_singular_rows(fit, found)
        if not order:
            return alone or self.fine(
                f"no row moves the estimate far: the largest Cook's distance is {top:.3g}",
                statistic=top,
            )
        names = row_names(fit.model)[order]
        if len(order) > 1:
            several = f"; {len(order) - 1} more: {list_first(names[1:])}"
        else:
            several = ""
        inside = content(found, top)
        if inside > 0.99:
            where = "out of its 99 %"
        else:
            where = f"to the edge of its {percent(inside, 2)}"
        sentence = f"without row {names[0]} the estimate moves {where} confidence ellipsoid (Cook's distance {top:.3g}){several}"
        return alone + self.report_influence(
            sentence, top, self.simulated_share(fit, largest_cook), names.tolist()
        )


def largest_cook(drawn: Replicates) -> Array:
    """The largest Cook's distance (beta - beta_(i))' A (beta - beta_(i)) / (k dispersion) of each data set, (S,)."""
    # D_i = d_i'A d_i / (k phi), d_i = beta - beta_(i), A the penalised curvature, phi the dispersion   (Cook 1977).
    A = drawn.data_curvature + drawn.P
    square = np.einsum("snk,skl,snl->sn", drawn.change, A, drawn.change, optimize=True)
    return np.asarray(square.max(1) / (drawn.Z.shape[2] * drawn.dispersion))


def content(found: Local, distance: float) -> float:
    """Of the confidence ellipsoid at whose edge an estimate at this distance lies."""
    # d'A d / (k phi) is F on (k, df) with phi estimated on df degrees of freedom, chi^2 on k over k with phi known.
    k = found.Q.shape[2]
    if found.df is not None and found.df > 0:
        return float(fdtr(k, found.df, distance))
    return float(chdtr(k, k * distance))
