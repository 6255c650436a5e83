"""Cook's distance: the change of the whole estimate without a single row."""

import numpy as np
from scipy.special import chdtr, fdtr

from probreg.assess.after.base import DIAGNOSTICS
from probreg.assess.after.influence_measures import DeletionDiagnostic
from probreg.assess.after.local import Local, local
from probreg.assess.after.replicates import Replicates
from probreg.assess.before.design_leverage import list_first
from probreg.assess.findings import Finding
from probreg.fits.fit import Fit
from probreg.system.terminal import percent

Array = np.ndarray


@DIAGNOSTICS.register
class CookDiagnostic(DeletionDiagnostic):
    """Reports rows with a large Cook's distance, and the confidence ellipsoid that has the estimate without the row on its edge:
    its content is P(F < D) for F on (k, n - k) degrees of freedom, or for chi-square(k) / k if sigma is not estimated.

    >>> import probreg as pr
    >>> x = np.array([1.0, 2.0, 3.0, 4.0, 5.0, 6.0, 7.0, 8.0, 30.0])
    >>> CookDiagnostic().run(pr.fit(pr.Model.from_arrays(x, np.minimum(x, 4.0))))[0].rows
    (8,)
    """

    name = "cook"
    title = "Cook's distance"
    # Cook & Weisberg (1982): look at rows from 0.5 on; from 1 on they are always important
    noted, warned = 0.5, 1.0

    def run(self, fit: Fit) -> list[Finding]:
        pieces = local(fit)
        D = np.nan_to_num(pieces.cook, nan=-1.0)
        order = [i for i in np.argsort(-D) if D[i] >= self.noted]
        top = float(D.max())
        out = self.report_singular_rows(fit, pieces)
        if not order:
            return out or self.report_ok(f"largest distance {top:.3g}", statistic=top)
        names = fit.model.design.row_names[order]
        inside = content(pieces, top)
        edge = f"to the edge of the {percent(inside, 2)}"
        if inside > 0.99:
            edge = "out of the 99 %"
        sentence = f"D = {top:.3g}: without row {names[0]} the estimate moves {edge} confidence ellipsoid"
        if len(order) > 1:
            sentence += f"; {len(order) - 1} more: {list_first(names[1:])}"
        share = self.simulated_share(fit, largest_cook)
        return out + self.report_influence(sentence, top, share, names.tolist())


def largest_cook(drawn: Replicates) -> Array:
    """The largest Cook's distance (beta - beta_(i))' A (beta - beta_(i)) / (k dispersion) of each data set, (S,)."""
    # D_i = d_i'A d_i / (k phi), d_i = beta - beta_(i), A the penalised curvature, phi the dispersion   (Cook 1977).
    A = drawn.data_curvature + drawn.P
    square = np.einsum("snk,skl,snl->sn", drawn.change, A, drawn.change, optimize=True)
    return np.asarray(square.max(1) / (drawn.Z.shape[2] * drawn.dispersion))


def content(pieces: Local, distance: float) -> float:
    """Return the probability content of the confidence ellipsoid with an estimate at this distance on its edge."""
    # d'A d / (k phi) is F on (k, df) with phi estimated on df degrees of freedom, chi^2 on k over k with phi known.
    k = pieces.Q.shape[2]
    if pieces.df is not None and pieces.df > 0:
        return float(fdtr(k, pieces.df, distance))
    return float(chdtr(k, k * distance))
